// SocketWire: the common part of wires over datagram sockets. Frames are gathered and sent with one system call per
// burst, sendmmsg(2), and received likewise.
//
// A frame that the system does not take is set aside, and so are later frames to the same station. They are dropped
// after kPatience. So a peer that does not read delays no others.
//
// Thread-safety: as Wire.
#pragma once

#include "common/file_descriptor.h"
#include "roce/wire/wire.h"

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
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
  [[nodiscard]] int descriptor() const noexcept override { return socket_.number(); }
  [[nodiscard]] std::chrono::nanoseconds lie_down() override;
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
  /// The stations that get a copy of a frame to a group. None: the frame is sent as it is.
  [[nodiscard]] virtual std::vector<MacAddress> members_of(const MacAddress& /*group*/) { return {}; }
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

  /// Frames to a station whose queue is full. They wait here, so that they delay no others.
  struct FullStation {
    Address address;
    Clock::time_point since;  // when it last took a frame, or should have
    std::deque<std::vector<std::byte>> frames;
    bool given_up = false;  // it took nothing for kPatience: until it takes a frame, none waits
  };

  void send_gathered();
  void send_waiting();
  [[nodiscard]] bool send_one(const FullStation& station, std::span<std::byte> frame);
  void drop_first() noexcept;
  void set_first_aside();
  void note_sent(std::size_t first, std::size_t count);
  [[nodiscard]] std::vector<FullStation>::iterator find_full(const Address& address);
  [[nodiscard]] bool must_wait(const Address& address);
  [[nodiscard]] bool refill();

  std::string name_;
  StationAddresses addresses_;
  std::size_t most_frame_bytes_;
  FileDescriptor socket_;
  FileDescriptor wake_;  // an eventfd
  Burst out_;
  Burst in_;
  std::vector<std::byte> scratch_;
  bool dropping_ = false;            // the last reserved frame is to be dropped
  std::vector<MacAddress> members_;  // to which the last reserved frame, in scratch_, is to be copied
  std::vector<FullStation> full_;
  WireCounters counters_;
};

}  // namespace sidelatch::roce
