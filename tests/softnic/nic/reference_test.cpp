// Beside implementations that share nothing with ours: scapy's packets, and those of Linux's soft-RoCE driver.
#include "tests/paths.h"
#include "tests/roce/samples.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <set>

namespace sidelatch::softnic::nic {
namespace {

using namespace roce;

TEST(RoceReference, WeBuildWhatScapyBuilds) {
  std::set<Opcode> opcodes;
  for (const Vector& vector : read_vectors()) {
    SCOPED_TRACE(name(vector.opcode));
    const Bytes payload = payload_of(vector.payload_bytes);
    EXPECT_EQ(to_hex(built(sample(vector.ip_version, vector.opcode, payload))), to_hex(vector.frame));
    EXPECT_TRUE(std::holds_alternative<Packet>(parse_frame(vector.frame)));
    opcodes.insert(vector.opcode);
  }
  EXPECT_EQ(opcodes.size(), all_opcodes().size());
}

// The vectors are scapy's, unmodified.
TEST(RoceReference, TheVectorsAreWhatScapyPrints) {
  const std::string folder = in_source_tree("tests/data/roce");
  // Debian's own Python: another in the path does not have Debian's packages.
  const std::string command = "PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 '" + folder +
                              "/make_vectors.py' 2>&1 | cmp - '" + folder + "/vectors.txt' 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) {
    output += part.data();
  }
  EXPECT_EQ(::pclose(pipe), 0) << "apt-get install python3-scapy; " << output;
}

// Required contents of a capture, so that the test is meaningful.
struct Seen {
  std::map<Opcode, int> opcodes;
  std::set<std::size_t> pads;
  std::set<Syndrome::Kind> syndromes;
  std::set<NakCode> naks;
  bool psn_wrapped = false;
};

void note(const Packet& packet, Seen& seen) {
  ++seen.opcodes[packet.bth.opcode];
  seen.pads.insert(packet.bth.pad_count);
  if (traits_of(packet.bth.opcode)->aeth) {
    seen.syndromes.insert(packet.aeth.syndrome.kind());
    if (const auto code = packet.aeth.syndrome.nak_code()) {
      seen.naks.insert(*code);
    }
  }
  seen.psn_wrapped = seen.psn_wrapped || packet.bth.psn.value() < 16;
}

class SoftRoceCapture : public ::testing::TestWithParam<const char*> {};

TEST_P(SoftRoceCapture, IsParsedAndBuiltAgainByteForByte) {
  Seen seen;
  std::size_t number = 0;
  for (const Bytes& frame : read_capture(GetParam())) {
    SCOPED_TRACE(++number);
    const auto result = parse_frame(frame);  // checks the ICRC
    ASSERT_TRUE(std::holds_alternative<Packet>(result)) << text(std::get<Refusal>(result));
    const auto& packet = std::get<Packet>(result);
    note(packet, seen);
    EXPECT_EQ(to_hex(built(packet)), to_hex(frame));
  }
  // All of RC and UD except SEND with invalidate and ATOMIC WRITE, which the traffic lacks.
  for (const Opcode opcode : all_opcodes()) {
    const bool is_there = (service_of(opcode) == Service::rc || service_of(opcode) == Service::ud) &&
                          opcode != Opcode::atomic_write && opcode != Opcode::send_last_with_invalidate &&
                          opcode != Opcode::send_only_with_invalidate;
    EXPECT_EQ(seen.opcodes[opcode] > 0, is_there) << name(opcode);
  }
  EXPECT_EQ(seen.pads, (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(seen.syndromes, (std::set{Syndrome::Kind::ack, Syndrome::Kind::rnr_nak, Syndrome::Kind::nak}));
  EXPECT_EQ(seen.naks, std::set{NakCode::remote_access_error});
  EXPECT_TRUE(seen.psn_wrapped);
}

// The first messages of rxe_traffic.py, field by field.
TEST_P(SoftRoceCapture, HoldsTheTrafficThatWasSent) {
  std::vector<Packet> packets;
  const std::vector<Bytes> frames = read_capture(GetParam());
  for (const Bytes& frame : frames) {
    packets.push_back(std::get<Packet>(parse_frame(frame)));
  }
  ASSERT_GT(packets.size(), 80U);
  // A WRITE of no bytes and its ACK.
  EXPECT_EQ(packets[0].bth.opcode, Opcode::write_only);
  EXPECT_EQ(packets[0].bth.psn, Psn(0xfffff8));
  EXPECT_EQ(packets[0].reth.dma_length, 0U);
  EXPECT_TRUE(packets[0].bth.ack_request);
  EXPECT_EQ(packets[1].bth.opcode, Opcode::acknowledge);
  EXPECT_EQ(packets[1].bth.psn, Psn(0xfffff8));
  EXPECT_EQ(packets[1].aeth.msn, 1U);
  bool has_swapped = false;
  for (const Packet& packet : packets) {
    // Verbs take immediate data in network byte order, and the program passes a little-endian machine's.
    if (packet.bth.opcode == Opcode::write_only_with_immediate) {
      EXPECT_EQ(packet.immediate.data, 0x04030201U);
    }
    if (packet.bth.opcode == Opcode::send_only_with_immediate) {
      EXPECT_EQ(packet.immediate.data, 0xd0c0b0a0U);
    }
    if (packet.bth.opcode == Opcode::send_only && !packet.payload.empty() && packet.payload.size() != 5) {
      EXPECT_TRUE(packet.bth.solicited_event);
    }
    if (packet.bth.opcode == Opcode::compare_swap) {
      EXPECT_EQ(packet.atomic.compare, 0x0102030405060708U);
      EXPECT_EQ(packet.atomic.swap_or_add, 0x1112131415161718U);
      has_swapped = true;
    }
    if (traits_of(packet.bth.opcode)->deth) {
      EXPECT_EQ(packet.deth.q_key, 0x11223344U);
    }
    // The program fills its memory with i * 131 % 251, from the beginning of a message.
    if (packet.bth.opcode == Opcode::write_first || packet.bth.opcode == Opcode::read_response_first) {
      // An atomic may have changed the answering side's first word by then.
      for (std::size_t i = 8; i < packet.payload.size(); ++i) {
        ASSERT_EQ(std::to_integer<std::size_t>(packet.payload[i]), i * 131 % 251);
      }
    }
  }
  EXPECT_TRUE(has_swapped);
}

INSTANTIATE_TEST_SUITE_P(Roce, SoftRoceCapture, ::testing::Values("rxe_ipv4.pcap", "rxe_ipv6.pcap"),
                         [](const auto& test) { return std::string(test.param).substr(4, 4); });

}  // namespace
}  // namespace sidelatch::softnic::nic
