// SocketWire: what wires over datagram sockets have in common. Frames are gathered and go with one system call for a
// burst, sendmmsg(2), and come likewise.
//
// A frame that the system does not take waits, and those behind it; after kPatience it is dropped, so that one peer
// that does not read holds up the others no longer than that.
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

  /// Where a datagram goes; of length 0: the socket knows.
  struct Address {
    sockaddr_storage bytes{};
    socklen_t length = 0;
  };

  /// `name`: for errors. Throws WireError.
  SocketWire(std::string name, const StationAddresses& addresses, std::size_t most_frame_bytes);
  void use(FileDescriptor socket) { socket_ = std::move(socket); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Nothing: there is nobody, and the frame is dropped.
  [[nodiscard]] virtual std::optional<Address> address_of(const MacAddress& destination) = 0;
  /// Whether this frame is for the wire itself and not for who uses it.
  [[nodiscard]] virtual bool take(std::span<const std::byte> /*frame*/) { return false; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kBatch = 32;

  /// Buffers for a burst, with what sendmmsg() and recvmmsg() want to know of them.
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
  bool dropping_ = false;  // what was reserved last
  std::optional<Clock::time_point> stuck_since_;
  std::optional<Address> given_up_;  // the peer that took nothing for so long
  WireCounters counters_;
};

}  // namespace sidelatch::roce
