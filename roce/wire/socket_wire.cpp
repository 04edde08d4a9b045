#include "socket_wire.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::roce {

namespace {

// How long wait() sleeps while the system does not take a frame: no descriptor tells when a peer's queue has room.
constexpr std::chrono::nanoseconds kTryAgain = std::chrono::microseconds(50);

// Whether the peer is absent or the interface is down: Ethernet loses such frames.
bool nobody_takes_it(int error) {
  return error == ECONNREFUSED || error == ENOENT || error == ECONNRESET || error == ENETDOWN || error == ENXIO ||
         error == EMSGSIZE || error == ENOTCONN;
}

}  // namespace

SocketWire::Burst::Burst() : bytes(kBatch * kStride) {
  for (std::size_t i = 0; i < kBatch; ++i) {
    parts[i] = {buffer(i).data(), kStride};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
}

SocketWire::SocketWire(std::string name, const StationAddresses& addresses, std::size_t most_frame_bytes)
    : name_(std::move(name)),
      addresses_(addresses),
      most_frame_bytes_(std::min(most_frame_bytes, kMostFrameBytes)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      scratch_(kMostFrameBytes) {
  if (!wake_.valid()) {
    throw WireError(fmt::format("{}: cannot make an eventfd: {}", name_, std::strerror(errno)));
  }
}

std::span<std::byte> SocketWire::reserve(const MacAddress& destination, std::size_t bytes) {
  if (bytes > most_frame_bytes_) {
    throw std::invalid_argument(
        fmt::format("{}: a frame of {} bytes: this wire takes {} at most", name_, bytes, most_frame_bytes_));
  }
  members_ = (destination[0] & 1U) != 0 ? members_of(destination) : std::vector<MacAddress>{};
  if (!members_.empty()) {
    return std::span(scratch_).first(bytes);
  }
  const std::optional<Address> address = address_of(destination);
  dropping_ = !address;
  if (dropping_) {
    return std::span(scratch_).first(bytes);
  }
  if (must_wait(*address)) {
    send_waiting();
    if (must_wait(*address)) {
      ++counters_.full;
      return {};
    }
  }
  if (out_.first + out_.count == kBatch) {
    send_gathered();
  }
  if (out_.count == 0) {
    out_.first = 0;
  }
  const std::size_t last = out_.first + out_.count;
  out_.addresses[last] = *address;
  return out_.buffer(last).first(bytes);
}

void SocketWire::commit(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  bool is_copied = false;
  for (const MacAddress& member : std::exchange(members_, {})) {
    const std::span<std::byte> room = reserve(member, bytes);
    if (room.empty()) {
      ++counters_.dropped;
    } else if (!dropping_) {
      std::memcpy(room.data(), scratch_.data(), bytes);
      commit(bytes);
    }
    is_copied = true;
  }
  if (is_copied) {
    return;
  }
  if (dropping_) {
    ++counters_.dropped;
    return;
  }
  const std::size_t last = out_.first + out_.count;
  out_.parts[last].iov_len = bytes;
  msghdr& header = out_.messages[last].msg_hdr;
  header.msg_name = out_.addresses[last].length == 0 ? nullptr : &out_.addresses[last].bytes;
  header.msg_namelen = out_.addresses[last].length;
  ++out_.count;
}

void SocketWire::flush() { send_gathered(); }

std::vector<SocketWire::FullStation>::iterator SocketWire::find_full(const Address& address) {
  return std::ranges::find_if(full_, [&](const FullStation& full) {
    return full.address.length == address.length &&
           std::memcmp(&full.address.bytes, &address.bytes, address.length) == 0;
  });
}

// Whether earlier frames to this station still wait.
bool SocketWire::must_wait(const Address& address) {
  if (full_.empty()) {
    return false;
  }
  const auto full = find_full(address);
  return full != full_.end() && !full->frames.empty();
}

void SocketWire::drop_first() noexcept {
  ++counters_.dropped;
  ++out_.first;
  --out_.count;
}

void SocketWire::set_first_aside() {
  auto full = find_full(out_.addresses[out_.first]);
  if (full == full_.end()) {
    full_.push_back({.address = out_.addresses[out_.first], .since = Clock::now(), .frames = {}});
    full = full_.end() - 1;
  }
  if (full->given_up) {
    drop_first();
    return;
  }
  const std::span<std::byte> frame = out_.buffer(out_.first).first(out_.parts[out_.first].iov_len);
  full->frames.emplace_back(frame.begin(), frame.end());
  ++out_.first;
  --out_.count;
}

void SocketWire::note_sent(std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    ++counters_.frames_sent;
    counters_.bytes_sent += out_.parts[i].iov_len;
    if (!full_.empty()) {
      if (const auto full = find_full(out_.addresses[i]); full != full_.end()) {
        full_.erase(full);
      }
    }
  }
}

// False: the station's queue is still full. A frame that nobody takes counts as dropped.
bool SocketWire::send_one(const FullStation& station, std::span<std::byte> frame) {
  const auto* const to =
      station.address.length == 0 ? nullptr : reinterpret_cast<const sockaddr*>(&station.address.bytes);
  ssize_t sent = 0;
  do {
    sent =
        ::sendto(socket_.number(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to, station.address.length);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    ++counters_.frames_sent;
    counters_.bytes_sent += frame.size();
  } else if (errno == EAGAIN || errno == ENOBUFS) {
    return false;
  } else if (nobody_takes_it(errno)) {
    ++counters_.dropped;
  } else {
    throw WireError(fmt::format("{}: cannot send: {}", name_, std::strerror(errno)));
  }
  return true;
}

void SocketWire::send_waiting() {
  std::erase_if(full_, [this](FullStation& full) {
    if (full.given_up) {
      return false;
    }
    while (!full.frames.empty() && send_one(full, full.frames.front())) {
      full.frames.pop_front();
      full.since = Clock::now();
    }
    if (!full.frames.empty() && Clock::now() - full.since >= kPatience) {
      counters_.dropped += full.frames.size();
      full.frames.clear();
      full.given_up = true;
    }
    return full.frames.empty() && !full.given_up;
  });
}

void SocketWire::send_gathered() {
  send_waiting();
  while (out_.count > 0) {
    // Later frames to a station must not overtake those that wait.
    std::size_t run = 0;
    while (run < out_.count && !must_wait(out_.addresses[out_.first + run])) {
      ++run;
    }
    if (run == 0) {
      set_first_aside();
      continue;
    }
    const int sent = ::sendmmsg(socket_.number(), &out_.messages[out_.first], static_cast<unsigned>(run),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      note_sent(out_.first, static_cast<std::size_t>(sent));
      out_.first += static_cast<std::size_t>(sent);
      out_.count -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      set_first_aside();
    } else if (nobody_takes_it(errno)) {
      drop_first();
    } else if (errno != EINTR) {
      throw WireError(fmt::format("{}: cannot send: {}", name_, std::strerror(errno)));
    }
  }
}

// Refills in_; returns whether it has a frame.
bool SocketWire::refill() {
  for (;;) {
    const int count =
        ::recvmmsg(socket_.number(), in_.messages.data(), static_cast<unsigned>(kBatch), MSG_DONTWAIT, nullptr);
    if (count > 0) {
      in_.first = 0;
      in_.count = static_cast<std::size_t>(count);
      return true;
    }
    // ENETDOWN: the interface went down; it may come back.
    if (errno == EAGAIN || errno == ENETDOWN) {
      return false;
    }
    if (errno != EINTR) {
      throw WireError(fmt::format("{}: cannot receive: {}", name_, std::strerror(errno)));
    }
  }
}

std::span<const std::byte> SocketWire::receive() {
  for (;;) {
    if (in_.count == 0 && !refill()) {
      flush();
      return {};
    }
    const std::size_t i = in_.first++;
    --in_.count;
    const std::span<const std::byte> frame = in_.buffer(i).first(in_.messages[i].msg_len);
    const bool is_cut = (in_.messages[i].msg_hdr.msg_flags & MSG_TRUNC) != 0;
    if (!is_cut && frame.size() >= Ethernet::kBytes && !take(frame)) {
      ++counters_.frames_received;
      counters_.bytes_received += frame.size();
      return frame;
    }
  }
}

std::chrono::nanoseconds SocketWire::lie_down() {
  flush();
  if (in_.count > 0) {
    return std::chrono::nanoseconds(0);
  }
  constexpr std::chrono::nanoseconds kMost = std::chrono::hours(24);
  const bool some_wait = std::ranges::any_of(full_, [](const FullStation& full) { return !full.frames.empty(); });
  return some_wait ? kTryAgain : kMost;
}

void SocketWire::wait(std::chrono::nanoseconds at_most) {
  const std::chrono::nanoseconds most = lie_down();
  if (most == std::chrono::nanoseconds(0)) {
    return;
  }
  const auto time = std::clamp(at_most, std::chrono::nanoseconds(0), most);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = (time - seconds).count();
  std::array<pollfd, 2> watched = {pollfd{socket_.number(), POLLIN, 0}, pollfd{wake_.number(), POLLIN, 0}};
  ++counters_.sleeps;
  ::ppoll(watched.data(), watched.size(), &limit, nullptr);
  if (watched[1].revents != 0) {
    std::uint64_t times = 0;
    static_cast<void>(!::read(wake_.number(), &times, sizeof times));
  }
}

void SocketWire::abandon() noexcept {
  socket_.close();
  wake_.close();
}

void SocketWire::interrupt() noexcept {
  const int error = errno;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.number(), &one, sizeof one));
  errno = error;
}

}  // namespace sidelatch::roce
