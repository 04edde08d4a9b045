// The other side of a connection, made by hand: it sends any packet, and sees each answer.
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
  /// The packets that it sends, and those that it gets, begin with these numbers.
  static constexpr Psn kToHost{0x000100};
  static constexpr Psn kFromHost{0x000200};

  explicit FakePeer(Host& its_host, const Link& link = {}) : FakePeer(its_host, link, its_host.options()) {}
  FakePeer(Host& its_host, const Link& link, const QueuePairOptions& options);

  /// Headers for the host's queue pair; keeps a copy of the payload.
  [[nodiscard]] Packet packet(Opcode opcode, Psn psn, std::span<const std::byte> payload = {});
  /// A SEND or WRITE, or a READ or atomic, that asks for an acknowledgement. `address`: an offset in the host's memory.
  [[nodiscard]] Packet write(Psn psn, std::size_t address, std::span<const std::byte> payload);
  [[nodiscard]] Packet read(Psn psn, std::size_t address, std::uint32_t length);
  [[nodiscard]] Packet fetch_add(Psn psn, std::size_t address, std::uint64_t addend);
  [[nodiscard]] Packet acknowledge(Psn psn, Syndrome syndrome = Syndrome::ack(), std::uint32_t msn = 0);

  /// Sends it, and returns what comes back at once.
  std::vector<Heard> tell(const Packet& packet);
  std::vector<Heard> tell_frame(std::span<const std::byte> frame);
  /// What the host has to send by `now`.
  std::vector<Heard> listen();
  /// Time goes on by `duration` ns.
  std::vector<Heard> wait(Time duration);

  Host& host;
  QueuePair& pair;
  Time now = 1000;

 private:
  Path path_;
  std::deque<std::vector<std::byte>> payloads_;
};

/// The one packet that was heard.
[[nodiscard]] const Packet& only(const std::vector<Heard>& heard);
/// "ACK", "RNR NAK", "NAK 2"; for messages.
[[nodiscard]] Syndrome syndrome_of(const std::vector<Heard>& heard);

}  // namespace sidelatch::softnic::nic
