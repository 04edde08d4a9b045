// The other side of a hand-made connection: it sends any packet and sees each answer.
#pragma once

#include "roce/syndrome.h"
#include "tests/softnic/nic/wired_nics.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace sidelatch::softnic::nic {

/// A packet with a copy of its bytes.
struct Heard {
  std::vector<std::byte> frame;
  Packet packet;
};

/// Where in a host's memory a test lets its peer write, if it may be anywhere.
inline constexpr std::size_t kTarget = 0x1000;
/// The answer to a packet before which others are missing.
inline constexpr Syndrome kGap = Syndrome::nak(NakCode::psn_sequence_error);

class FakePeer {
 public:
  static constexpr std::uint32_t kQueuePair = 0xabcdef;
  /// The sent and received packets begin with these numbers.
  static constexpr Psn kToHost{0x000100};
  static constexpr Psn kFromHost{0x000200};

  explicit FakePeer(Host& its_host, const Link& link = {}) : FakePeer(its_host, link, its_host.options()) {}
  FakePeer(Host& its_host, const Link& link, const QueuePairOptions& options);

  /// Headers for the host's queue pair; keeps a copy of the payload.
  [[nodiscard]] Packet packet(Opcode opcode, Psn psn, std::span<const std::byte> payload = {});
  /// A SEND, WRITE, READ or atomic that asks for an acknowledgement. `address` is an offset in the host's memory.
  [[nodiscard]] Packet write(Psn psn, std::size_t address, std::span<const std::byte> payload);
  [[nodiscard]] Packet read(Psn psn, std::size_t address, std::uint32_t length);
  [[nodiscard]] Packet fetch_add(Psn psn, std::size_t address, std::uint64_t addend);
  [[nodiscard]] Packet acknowledge(Psn psn, Syndrome syndrome = Syndrome::ack(), std::uint32_t msn = 0);

  /// Sends the packet and returns the immediate answers.
  std::vector<Heard> tell(const Packet& packet);
  std::vector<Heard> tell_frame(std::span<const std::byte> frame);
  /// The packets that the host has to send by `now`.
  std::vector<Heard> listen();
  /// Advances time by `duration` ns.
  std::vector<Heard> wait(Time duration);

  Host& host;
  QueuePair& pair;
  Time now = 1000;

 private:
  Path path_;
  std::deque<std::vector<std::byte>> payloads_;
};

/// The only packet that was heard.
[[nodiscard]] const Packet& only(const std::vector<Heard>& heard);
/// "ACK", "RNR NAK", "NAK 2"; for messages.
[[nodiscard]] Syndrome syndrome_of(const std::vector<Heard>& heard);

}  // namespace sidelatch::softnic::nic
