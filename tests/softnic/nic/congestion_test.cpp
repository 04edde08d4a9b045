// RoCEv2's congestion notifications: who gets marked packets tells the sender, not too often.
#include "wired_nics.h"

#include "roce/packet.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kServiceAt = Ethernet::kBytes + 1;
constexpr std::size_t kChecksumAt = Ethernet::kBytes + 10;

// As a switch with a long queue does. ICRC does not cover these bits.
void mark(std::vector<std::byte>& frame) {
  frame[kServiceAt] |= std::byte{3};
  const std::uint16_t sum = ipv4_checksum(frame.data() + Ethernet::kBytes);
  frame[kChecksumAt] = static_cast<std::byte>(sum >> 8U);
  frame[kChecksumAt + 1] = static_cast<std::byte>(sum & 0xffU);
}

TEST(Congestion, IsToldToTheSenderOnceInAWhile) {
  Host a(1);
  Host b(2);
  LossyWire wire({&a, &b});
  const Connection pairs = connect(a, b);
  std::vector<Packet> told;
  wire.on_send = [&](std::vector<std::byte>& frame) {
    const auto parsed = parse_frame(frame);
    const auto* const packet = std::get_if<Packet>(&parsed);
    if (packet != nullptr && packet->bth.opcode == Opcode::congestion_notification) {
      EXPECT_EQ(packet->bth.destination_qp, pairs.a.number());
      EXPECT_EQ(packet->bth.resv8a, 0x40) << "BECN";
      EXPECT_EQ(packet->payload.size(), 16U);
      told.push_back(*packet);
    } else if (packet != nullptr && packet->bth.opcode <= Opcode::write_only) {
      mark(frame);
    }
    return true;
  };
  const auto write = [&] {
    const Sge from = a.sge(0, 100);
    EXPECT_EQ(pairs.a.post_send({.kind = WorkKind::write,
                                 .signaled = true,
                                 .sges = {&from, 1},
                                 .remote_address = b.address(0),
                                 .rkey = b.key}),
              Post::done);
    wire.run();
    EXPECT_EQ(a.sent().size(), 1U);
  };
  wire.set_now(1'000'000);
  write();
  write();
  EXPECT_EQ(told.size(), 1U);
  EXPECT_EQ(b.nic.counters().marked, 2U);
  EXPECT_EQ(b.nic.counters().congestion_told, 1U);
  EXPECT_EQ(a.nic.counters().congestion_heard, 1U);
  wire.set_now(wire.now() + 50'000);
  write();
  EXPECT_EQ(told.size(), 2U);
  wire.on_send = {};
  wire.set_now(wire.now() + 50'000);
  write();
  EXPECT_EQ(b.nic.counters().congestion_told, 2U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
