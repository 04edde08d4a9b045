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
  const std::optional<Address> address = address_of(destination);
  dropping_ = !address;
  if (dropping_) {
    return std::span(scratch_).first(bytes);
  }
  if (out_.first + out_.count == kBatch) {
    send_gathered();
  }
  if (out_.count == 0) {
    out_.first = 0;
  }
  const std::size_t last = out_.first + out_.count;
  if (last == kBatch) {
    ++counters_.full;
    return {};
  }
  out_.addresses[last] = *address;
  return out_.buffer(last).first(bytes);
}

void SocketWire::commit(std::size_t bytes) {
  if (bytes == 0) {
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

void SocketWire::drop_first() noexcept {
  ++counters_.dropped;
  ++out_.first;
  --out_.count;
  stuck_since_.reset();
}

bool SocketWire::first_goes_to_given_up() const noexcept {
  const Address& first = out_.addresses[out_.first];
  return given_up_ && given_up_->length == first.length &&
         std::memcmp(&given_up_->bytes, &first.bytes, first.length) == 0;
}

void SocketWire::send_gathered() {
  while (out_.count > 0) {
    const int sent = ::sendmmsg(socket_.number(), &out_.messages[out_.first], static_cast<unsigned>(out_.count),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      stuck_since_.reset();
      for (int i = 0; i < sent; ++i) {
        if (first_goes_to_given_up()) {
          given_up_.reset();
        }
        ++counters_.frames_sent;
        counters_.bytes_sent += out_.parts[out_.first].iov_len;
        ++out_.first;
        --out_.count;
      }
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      const auto now = Clock::now();
      if (!first_goes_to_given_up()) {
        stuck_since_ = stuck_since_.value_or(now);
        if (now - *stuck_since_ < kPatience) {
          return;
        }
        given_up_ = out_.addresses[out_.first];
      }
      drop_first();
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

void SocketWire::wait(std::chrono::nanoseconds at_most) {
  flush();
  if (in_.count > 0) {
    return;
  }
  constexpr std::chrono::nanoseconds kMost = std::chrono::hours(24);
  const auto time = std::clamp(at_most, std::chrono::nanoseconds(0), out_.count > 0 ? kTryAgain : kMost);
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
