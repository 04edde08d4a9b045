// EventChannels: the descriptors of librdmacm's event channels, which the program owns. Such a descriptor is a socket,
// readable while events wait, so poll(2), epoll(7) and O_NONBLOCK work on it natively.
//
//   const int descriptor = channels.open(number);
//   channels.signal(number, ids.waiting_events(number));        // after every change
//   const auto waiter = channels.waiter(descriptor);            // holds what it needs, whoever closes the channel
//   if (waiter.wait()) ... an event may be there; if not, wait again ...      // a cancellation point
//
// is_one() is what each write(2) and close(2) of the program asks first; it costs one load. A descriptor that was
// replaced without close(2), by dup2(2) for instance, is noticed by its inode.
//
// A thread that waits when the channel is closed waits for ever, until a signal, as in the kernel. Programs rely on
// that: rping ends with an error otherwise.
//
// Thread-safety: static functions and Waiter::wait() may be called by any thread, the rest by one at a time.
#pragma once

#include "common/file_descriptor.h"
#include "softnic/cm/rdma_ids.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace sidelatch::softnic::verbs {

class EventChannels {
 public:
  static constexpr int kMostDescriptors = 1 << 16;

  /// Whether the descriptor was made here, or by a parent before fork().
  [[nodiscard]] static bool is_one(int descriptor) noexcept {
    return descriptor >= 0 && descriptor < kMostDescriptors &&
           marks[static_cast<std::size_t>(descriptor)].load(std::memory_order_relaxed) != 0;
  }
  /// Whether it still is that file.
  [[nodiscard]] static bool is_unchanged(int descriptor) noexcept;
  /// The mark of a descriptor that is gone.
  static void forget(int descriptor) noexcept {
    marks[static_cast<std::size_t>(descriptor)].store(0, std::memory_order_relaxed);
  }

  class Waiter {
   public:
    /// Waits for a signal, which stays for who takes the event. False with errno: EAGAIN if the descriptor is
    /// non-blocking, EINTR. A cancellation point: no caller may be noexcept, and none may hold a lock.
    [[nodiscard]] bool wait() const;
    [[nodiscard]] cm::ChannelNumber channel() const noexcept { return channel_; }
    /// The channel was closed: wait() never returns true any more.
    void end() noexcept { has_ended_ = true; }

   private:
    friend class EventChannels;
    cm::ChannelNumber channel_ = 0;
    bool has_ended_ = false;
    std::shared_ptr<const FileDescriptor> file_;
  };

  EventChannels() = default;
  EventChannels(const EventChannels&) = delete;
  EventChannels& operator=(const EventChannels&) = delete;
  ~EventChannels() = default;

  /// Throws VerbsError.
  [[nodiscard]] int open(cm::ChannelNumber channel, int flags);
  /// Nothing: the descriptor is another file by now, or a parent's.
  [[nodiscard]] std::optional<cm::ChannelNumber> find(int descriptor) const noexcept;
  [[nodiscard]] std::optional<Waiter> waiter(int descriptor) const;
  [[nodiscard]] bool has(cm::ChannelNumber channel) const noexcept { return channels_.contains(channel); }
  /// Ends the channel of this descriptor, which the caller closes. Returns the channel.
  std::optional<cm::ChannelNumber> remove(int descriptor) noexcept;
  /// Makes the descriptor readable if events wait, and only then.
  void signal(cm::ChannelNumber channel, std::size_t events) noexcept;

 private:
  struct Channel {
    int descriptor = -1;                         // the program's
    std::shared_ptr<const FileDescriptor> file;  // the same file, for threads that wait
    FileDescriptor other_end;
    std::size_t signals = 0;  // in the socket
  };
  // The inodes of the sockets; 0: none. The pages of numbers that are never reached are never touched.
  static std::array<std::atomic<std::uint64_t>, kMostDescriptors> marks;

  std::map<cm::ChannelNumber, Channel> channels_;
};

}  // namespace sidelatch::softnic::verbs
