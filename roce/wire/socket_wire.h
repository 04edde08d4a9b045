// SocketWire: the common part of wires over datagram sockets. Frames are gathered and sent with one system call per
// burst, sendmmsg(2), and received likewise.
//
// A frame that the system does not take waits, together with all frames after it. It is dropped after kPatience, so a
// peer that does not read delays the others no longer than that.
//
// Thread-safety: as Wire.
#pragma once

#include "common/file_descriptor.h"
#include "roce/wire/wire.h"

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::roce {

class SocketWire : public Wire {
 public:
  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return addresses_; }
  [[nodiscard]] std::size_t most_frame_bytes() const noexcept override { return most_frame_bytes_; }
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) override;
  void commit(std::size_t bytes) override;
  void flush() override;
  [[nodiscard]] std::span<const std::byte> receive() override;
  void wait(std::chrono::nanoseconds at_most) override;
  void interrupt() noexcept override;
  void abandon() noexcept override;
  [[nodiscard]] const WireCounters& counters() const noexcept override { return counters_; }

 protected:
  static constexpr std::chrono::milliseconds kPatience{10};

  /// The destination of a datagram; length 0: the socket needs none.
  struct Address {
    sockaddr_storage bytes{};
    socklen_t length = 0;
  };

  /// `name`: for errors. Throws WireError.
  SocketWire(std::string name, const StationAddresses& addresses, std::size_t most_frame_bytes);
  void use(FileDescriptor socket) { socket_ = std::move(socket); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// The address of a station. Nothing: there is no such station, and the frame is dropped.
  [[nodiscard]] virtual std::optional<Address> address_of(const MacAddress& destination) = 0;
  /// Whether this frame is for the wire itself, not for its user.
  [[nodiscard]] virtual bool take(std::span<const std::byte> /*frame*/) { return false; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kBatch = 32;

  /// Buffers for a burst, with their descriptions for sendmmsg() and recvmmsg().
  struct Burst {
    Burst();
    std::vector<std::byte> bytes;
    std::array<iovec, kBatch> parts{};
    std::array<mmsghdr, kBatch> messages{};
    std::array<Address, kBatch> addresses{};
    std::size_t first = 0;
    std::size_t count = 0;

    [[nodiscard]] std::span<std::byte> buffer(std::size_t i) { return std::span(bytes).subspan(i * kStride, kStride); }
    static constexpr std::size_t kStride = kMostFrameBytes;
  };

  void send_gathered();
  void drop_first() noexcept;
  [[nodiscard]] bool first_goes_to_given_up() const noexcept;
  [[nodiscard]] bool refill();

  std::string name_;
  StationAddresses addresses_;
  std::size_t most_frame_bytes_;
  FileDescriptor socket_;
  FileDescriptor wake_;  // an eventfd
  Burst out_;
  Burst in_;
  std::vector<std::byte> scratch_;
  bool dropping_ = false;  // the last reserved frame is to be dropped
  std::optional<Clock::time_point> stuck_since_;
  std::optional<Address> given_up_;  // the peer that took nothing for kPatience
  WireCounters counters_;
};

}  // namespace sidelatch::roce
