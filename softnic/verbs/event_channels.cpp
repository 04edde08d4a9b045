#include "event_channels.h"

#include "guard.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sidelatch::softnic::verbs {

namespace {

// More events than these are signalled as these are taken; the socket's buffer has room for them.
constexpr std::size_t kMostSignals = 16;

std::uint64_t inode_of(int descriptor) noexcept {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::array<std::atomic<std::uint64_t>, EventChannels::kMostDescriptors> EventChannels::marks{};

bool EventChannels::is_unchanged(int descriptor) noexcept {
  return marks[static_cast<std::size_t>(descriptor)].load(std::memory_order_relaxed) == inode_of(descriptor);
}

int EventChannels::open(cm::ChannelNumber channel, int flags) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    refuse(errno, "socketpair: no descriptors for an event channel");
  }
  FileDescriptor other_end(ends[1]);
  auto file = std::make_shared<FileDescriptor>(::fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
  if (!file->valid() || ends[0] >= kMostDescriptors) {
    ::close(ends[0]);
    refuse(EMFILE, "no descriptor is left for an event channel");
  }
  if ((flags & O_CLOEXEC) == 0) {
    ::fcntl(ends[0], F_SETFD, 0);
  }
  if ((flags & O_NONBLOCK) != 0) {
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  static_cast<void>(remove(ends[0]));  // one that was replaced without being closed
  Channel& made = channels_[channel];
  made.descriptor = ends[0];
  made.file = std::move(file);
  made.other_end = std::move(other_end);
  marks[static_cast<std::size_t>(ends[0])].store(inode_of(ends[0]), std::memory_order_relaxed);
  return ends[0];
}

std::optional<cm::ChannelNumber> EventChannels::find(int descriptor) const noexcept {
  const auto found = std::ranges::find_if(
      channels_, [descriptor](const auto& entry) { return entry.second.descriptor == descriptor; });
  if (found == channels_.end() || !is_unchanged(descriptor)) {
    return std::nullopt;
  }
  return found->first;
}

std::optional<cm::ChannelNumber> EventChannels::remove(int descriptor) noexcept {
  forget(descriptor);
  const auto found = std::ranges::find_if(
      channels_, [descriptor](const auto& entry) { return entry.second.descriptor == descriptor; });
  if (found == channels_.end()) {
    return std::nullopt;
  }
  const cm::ChannelNumber channel = found->first;
  channels_.erase(found);
  return channel;
}

std::optional<EventChannels::Waiter> EventChannels::waiter(int descriptor) const {
  const std::optional<cm::ChannelNumber> channel = find(descriptor);
  if (!channel) {
    return std::nullopt;
  }
  Waiter waiter;
  waiter.channel_ = *channel;
  waiter.file_ = channels_.at(*channel).file;
  return waiter;
}

// A cancelled thread leaves the signal there for others. A call that a signal handler interrupts goes on by itself if
// the program wants that (SA_RESTART), as in the kernel; poll(2) would not.
bool EventChannels::Waiter::wait() const {
  std::byte signal{};
  const ssize_t got = has_ended_ ? 0 : ::recv(file_->number(), &signal, sizeof signal, MSG_PEEK);
  if (got == 0) {
    ::pause();  // the channel was closed meanwhile
    errno = EINTR;
  }
  return got == sizeof signal;
}

void EventChannels::signal(cm::ChannelNumber channel, std::size_t events) noexcept {
  const auto found = channels_.find(channel);
  if (found == channels_.end()) {
    return;
  }
  Channel& its = found->second;
  const std::size_t wanted = std::min(events, kMostSignals);
  std::byte signal{};
  while (its.signals < wanted && ::send(its.other_end.number(), &signal, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) {
    ++its.signals;
  }
  while (its.signals > wanted && ::recv(its.file->number(), &signal, 1, MSG_DONTWAIT) == 1) {
    --its.signals;
  }
}

}  // namespace sidelatch::softnic::verbs
