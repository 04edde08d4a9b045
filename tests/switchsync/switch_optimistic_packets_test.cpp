// p4/switch_optimistic.p4 packet by packet: what it passes on, byte for byte, what it answers, and what it drops. The
// test is the client and the memory node; it writes packets by InfiniBand's specification, not by the project's codec.
#include "changed_program.h"
#include "raw_frames.h"
#include "tuple_bench.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>

#include <p4/switch_optimistic.h>
#include <p4/switch_tuples.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace optimistic_packets {

using namespace tuple_bench;
using testing::IsEmpty;
using testing::SizeIs;

struct Form {
  const char* name;
  ProgramPtr (*make)();
};

ProgramPtr interpreted() {
  static const auto kProgram = p4::compile_file(in_source_tree("p4/switch_optimistic.p4"));
  return kProgram;
}

class OptimisticPackets : public testing::TestWithParam<Form> {
 protected:
  [[nodiscard]] static Bench begin(std::uint32_t first_psn) { return {GetParam().make(), first_psn}; }
};

// READ, latch, WRITE, READ of the word, over the wrap of the PSN. The switch answers two of them, so that the memory
// node's PSN lags, and its count of messages, too.
TEST_P(OptimisticPackets, AnUpdateIsTheSequenceOfTheDocumentation) {
  Bench bench = begin(0xfffffd);
  EXPECT_EQ(bench.send(read(0xfffffd)), passed(read(0), 0xfffffd));
  EXPECT_EQ(bench.back(response(0xfffffd, 1, 0x77)), to_client(response(0xfffffd, 1, 0)));
  EXPECT_EQ(bench.send(swap(0xfffffe, 0, 1)), atomic_ack(0xfffffe, 2, 0));
  EXPECT_EQ(bench.version(), 1U);
  EXPECT_TRUE(bench.is_held());
  EXPECT_EQ(bench.send(write(0xffffff)), passed(write(0, 2), 0xfffffe));
  EXPECT_EQ(bench.version(), 1U);
  EXPECT_EQ(bench.back(ack(0xfffffe, 2)), to_client(ack(0xffffff, 3)));
  EXPECT_EQ(bench.version(), 2U);
  EXPECT_FALSE(bench.is_held());
  EXPECT_EQ(bench.send(read_word(0)), word_response(0, 4, 2));
  EXPECT_EQ(bench.send(read(1)), passed(read(0), 0xffffff));
  EXPECT_EQ(bench.back(response(0xffffff, 3, 2)), to_client(response(1, 5, 2)));
}

// Between two switches it would circle for ever.
TEST_P(OptimisticPackets, AFloodedPacketDoesNotGoBackToWhereItCameFrom) {
  Bench bench = begin(0);
  bench.device().set_multicast_group(1, {{.port = 0}, {.port = 1}, {.port = 2}});
  bench.state().table("Serve.stations").add({{.value = 0xffff'ffff'ffff}}, "flood", {1});
  Bytes question(60, std::byte{0xff});  // ARP
  question[12] = std::byte{8};
  question[13] = std::byte{6};
  EXPECT_EQ(bench.send(question, 2), (Sent{{0, question}, {1, question}}));
}

TEST_P(OptimisticPackets, WhatIsNoTuplePassesWithItsPsnMoved) {
  Bench bench = begin(5);
  EXPECT_EQ(bench.send(read_word(5)), word_response(5, 1, 0));
  RawFrame other = request(raw::kWriteOnly, 6, raw::reth(kElsewhere, kKey, 5, Bytes(8, std::byte{9})));
  other.flags = 0x70;  // 3 bytes of padding
  other.ack_request = false;
  EXPECT_EQ(bench.send(other), passed(other, 5));
  EXPECT_EQ(bench.back(ack(5, 1)), to_client(ack(6, 2)));
  const RawFrame add = request(raw::kFetchAdd, 7, raw::atomic(kElsewhere, kKey, 1, 0));
  EXPECT_EQ(bench.send(add), passed(add, 6));
  const RawFrame sum = answer(raw::kAtomicAcknowledge, 6, raw::aeth(raw::kAck, 2, raw::number(8)));
  EXPECT_EQ(bench.back(sum), to_client(answer(raw::kAtomicAcknowledge, 7, raw::aeth(raw::kAck, 3, raw::number(8)))));
  const RawFrame empty = request(raw::kWriteOnly, 8, raw::reth(at(0), kKey, 0));
  EXPECT_EQ(bench.send(empty), passed(empty, 7));
  EXPECT_EQ(bench.back(ack(7, 3)), to_client(ack(8, 4)));
  const RawFrame nothing = request(raw::kReadRequest, 9, raw::reth(at(0), kKey, 0));
  EXPECT_EQ(bench.send(nothing), passed(nothing, 8));
  const RawFrame none = answer(raw::kReadResponse, 8, raw::aeth(raw::kAck, 4));
  EXPECT_EQ(bench.back(none), to_client(answer(raw::kReadResponse, 9, raw::aeth(raw::kAck, 5))));
}

TEST_P(OptimisticPackets, ARepeatedRequestIsPassedOnOrAnsweredAsItWas) {
  Bench bench = begin(0);
  EXPECT_EQ(bench.send(read(0)), passed(read(0), 0));
  EXPECT_EQ(bench.send(read(0)), passed(read(0), 0));
  EXPECT_EQ(bench.back(response(0, 1, 0)), to_client(response(0, 1, 0)));
  EXPECT_EQ(bench.back(response(0, 1, 0)), to_client(response(0, 1, 0)));
  EXPECT_EQ(bench.send(swap(1, 0, 1)), atomic_ack(1, 2, 0));
  EXPECT_EQ(bench.send(swap(1, 0, 1)), atomic_ack(1, 2, 0));
  EXPECT_EQ(bench.send(write(2)), passed(write(0, 2), 1));
  EXPECT_EQ(bench.send(write(2)), passed(write(0, 2), 1));
  EXPECT_EQ(bench.back(ack(1, 2)), to_client(ack(2, 3)));
  EXPECT_EQ(bench.back(ack(1, 2)), to_client(ack(2, 3)));
  EXPECT_EQ(bench.version(), 2U);
  // Of before: the client waits for each answer, and does not ask again.
  EXPECT_THAT(bench.send(swap(1, 0, 1)), IsEmpty());
  EXPECT_THAT(bench.back(response(0, 1, 0)), IsEmpty());
  EXPECT_EQ(bench.version(), 2U);
}

// A NIC repeats what it has sent. A packet with an old number and other contents would be a WRITE without a latch, or a
// READ that nobody judges.
TEST_P(OptimisticPackets, AnOldNumberOnAnotherRequestIsDropped) {
  const auto other_read = [](std::uint32_t psn) {
    return request(raw::kReadRequest, psn, raw::reth(kElsewhere, kKey, kTupleBytes));
  };
  const auto other_write = [](std::uint32_t psn) {
    return request(raw::kWriteOnly, psn, raw::reth(kElsewhere, kKey, kTupleBytes, tuple_of(0)));
  };
  const std::pair<RawFrame, RawFrame> pairs[] = {
      {read(0), write(0)},      {read(0), read(0, 1)},     {read(0), other_read(0)},        {read(0), swap(0, 0, 1)},
      {other_read(0), read(0)}, {other_read(0), write(0)}, {other_write(0), write(0)},      {other_write(0), read(0)},
      {read_word(0), read(0)},  {read_word(0), write(0)},  {other_write(0), other_read(0)},
  };
  for (const auto& [first, second] : pairs) {
    Bench bench = begin(0);
    EXPECT_THAT(bench.send(first), SizeIs(1));
    EXPECT_THAT(bench.send(second), IsEmpty());
    EXPECT_EQ(bench.version(), 0U);
  }
  Bench bench = begin(0);
  bench.send(read(0));
  bench.back(response(0, 1, 0));
  bench.send(swap(1, 0, 1));
  EXPECT_EQ(bench.send(write(2)), passed(write(0, 2), 1));
  EXPECT_THAT(bench.send(write(2, 0, 1)), IsEmpty());
  EXPECT_THAT(bench.send(other_write(2)), IsEmpty());
}

TEST(BrokenOptimisticPackets, ASwitchThatLooksAtTheNumberOnlyLetsAWriteWithoutALatchPass) {
  Bench bench(
      changed_program("switch_optimistic.p4", "if (fault != ACK || !is_same || is_elsewhere) {", "if (false) {"), 0);
  bench.send(read(0));
  EXPECT_EQ(bench.send(write(0)), passed(write(0), 0));
}

TEST_P(OptimisticPackets, OneRequestIsInFlight) {
  Bench bench = begin(0);
  bench.send(read(0));
  for (const RawFrame& second : {read(1), swap(1, 0, 1), write(1), read_word(1), read(2), swap(2, 0, 1)}) {
    EXPECT_THAT(bench.send(second), IsEmpty());
  }
  EXPECT_EQ(bench.version(), 0U);
  bench.back(response(0, 1, 0));
  EXPECT_EQ(bench.send(swap(1, 0, 1)), atomic_ack(1, 2, 0));
}

TEST_P(OptimisticPackets, ASequenceErrorIsReportedOnceUntilTheRightPacketComes) {
  Bench bench = begin(0xffffff);
  EXPECT_EQ(bench.send(read_word(0xffffff)), word_response(0xffffff, 1, 0));
  EXPECT_EQ(bench.send(swap(1, 0, 1)), to_client(ack(0, 1, raw::kNakSequence)));
  EXPECT_THAT(bench.send(swap(2, 0, 1)), IsEmpty());
  EXPECT_EQ(bench.send(swap(0, 0, 1)), atomic_ack(0, 2, 0));
  EXPECT_EQ(bench.send(read_word(3)), to_client(ack(1, 2, raw::kNakSequence)));
  EXPECT_EQ(bench.version(), 1U);
}

TEST_P(OptimisticPackets, WhatIsNotAllowedIsRefusedWithItsReason) {
  const struct {
    const char* what;
    RawFrame frame;
    unsigned syndrome;
  } cases[] = {
      {"a part of a tuple", request(raw::kReadRequest, 1, raw::reth(at(0), kKey, 16)), raw::kNakInvalid},
      {"two tuples", request(raw::kReadRequest, 1, raw::reth(at(0), kKey, 256)), raw::kNakInvalid},
      {"before and in", request(raw::kReadRequest, 1, raw::reth(at(0) - 8, kKey, 16)), raw::kNakInvalid},
      {"more than a packet", request(raw::kReadRequest, 1, raw::reth(kElsewhere, kKey, 1025)), raw::kNakInvalid},
      {"an addition", request(raw::kFetchAdd, 1, raw::atomic(at(0), kKey, 1, 0)), raw::kNakInvalid},
      {"a word that is none", request(raw::kCompareSwap, 1, raw::atomic(at(0) + 8, kKey, 1, 0)), raw::kNakInvalid},
      {"any other number", swap(1, 0, 2), raw::kNakInvalid},
      {"a step down", swap(1, 2, 1), raw::kNakInvalid},
  };
  for (const auto& one : cases) {
    Bench bench = begin(0);
    bench.send(read_word(0));
    EXPECT_EQ(bench.send(one.frame), to_client(ack(1, 1, one.syndrome))) << one.what;
    EXPECT_EQ(bench.version(), 0U) << one.what;
    for (const std::uint32_t psn : {0U, 1U, 2U}) {  // the queue pair has ended
      EXPECT_THAT(bench.send(swap(psn, 0, 1)), IsEmpty()) << one.what;
    }
  }
}

// Its payload is not the switch's to cut off: the memory node's NIC says no.
TEST_P(OptimisticPackets, AWriteThatMayNotHappenGoesOnWithAnAddressThatNoNicTakes) {
  RawFrame shorter = write(1);
  shorter.rest.resize(shorter.rest.size() - 4);
  RawFrame longer = write(1);
  longer.rest.resize(longer.rest.size() + 4);
  RawFrame padded = write(1);
  padded.flags = 0x60;  // two of its bytes are padding
  RawFrame tiny = write(1);
  tiny.rest.resize(16 + 4);
  const RawFrame part = request(raw::kWriteOnly, 1, raw::reth(at(0) + 8, kKey, 8, in_memory(1)));
  const RawFrame before = request(raw::kWriteOnly, 1, raw::reth(at(0) - 8, kKey, 16, Bytes(16, std::byte{1})));
  const std::vector<RawFrame> latched = {shorter, longer, padded, part, before};
  for (const bool is_latched : {true, false}) {
    for (const RawFrame& frame : is_latched ? latched : std::vector<RawFrame>{write(1), part, before}) {
      Bench bench = begin(0);
      bench.send(is_latched ? swap(0, 0, 1) : read_word(0));
      RawFrame expected = frame;
      const Bytes nowhere = raw::reth(0xffffffffffff0000, kKey, 0xffffffff);
      std::copy(nowhere.begin(), nowhere.end(), expected.rest.begin());
      EXPECT_EQ(bench.send(frame), passed(expected, 0));
      EXPECT_EQ(bench.back(ack(0, 0, raw::kNakInvalid)), to_client(ack(1, 1, raw::kNakInvalid)));
      EXPECT_THAT(bench.back(ack(0, 1)), IsEmpty());  // even if it says yes
      EXPECT_EQ(bench.version(), is_latched ? 1U : 0U);
    }
  }
  Bench bench = begin(0);
  bench.send(swap(0, 0, 1));
  for (const auto& [port, frame] : bench.send(tiny)) {
    EXPECT_NE(frame, passed(tiny, 0).at(0).second) << port;
  }
}

// A tuple is unlatched by the acknowledgement of its WRITE, the first one, and by nothing that looks like it.
TEST_P(OptimisticPackets, OnlyTheAcknowledgementUnlatches) {
  Bench bench = begin(0);
  bench.send(read(0));
  bench.back(response(0, 1, 0));
  bench.send(swap(1, 0, 1));
  bench.send(write(2));
  constexpr unsigned kReceiverNotReady = 0x2e;
  using Change = std::function<void(RawFrame&)>;
  const std::pair<const char*, Change> changes[] = {
      {"an earlier PSN", [](RawFrame& f) { f.psn = 0; }},
      {"a later PSN", [](RawFrame& f) { f.psn = 2; }},
      {"a sequence error", [](RawFrame& f) { f.rest = raw::aeth(raw::kNakSequence, 1); }},
      {"access denied", [](RawFrame& f) { f.rest = raw::aeth(raw::kNakAccess, 1); }},
      {"not ready", [](RawFrame& f) { f.rest = raw::aeth(kReceiverNotReady, 1); }},
      {"a READ's answer", [](RawFrame& f) { f.opcode = raw::kReadResponse; }},
      {"an atomic's answer",
       [](RawFrame& f) {
         f.opcode = raw::kAtomicAcknowledge;
         f.rest.resize(12);
       }},
      {"ICRC", [](RawFrame& f) { f.icrc_error = 4; }},
      {"partition", [](RawFrame& f) { f.pkey = 0x8001; }},
      {"transport version", [](RawFrame& f) { f.flags = 0x41; }},
      {"another queue pair", [](RawFrame& f) { f.queue_pair = 9; }},
      {"another node", [](RawFrame& f) { f.from_ip = 0x0a000009; }},
      {"IP length", [](RawFrame& f) { f.ip_bytes = 44; }},
      {"UDP length", [](RawFrame& f) { f.udp_bytes = 24; }},
      {"fragment", [](RawFrame& f) { f.flags_and_fragment = 0x2000; }},
  };
  for (const auto& [what, change] : changes) {
    RawFrame frame = ack(1, 2);
    change(frame);
    bench.back(frame);
    EXPECT_EQ(bench.version(), 1U) << what;
    EXPECT_TRUE(bench.is_held()) << what;
  }
  EXPECT_EQ(bench.back(ack(1, 1, kReceiverNotReady)), to_client(ack(2, 2, kReceiverNotReady)));
  EXPECT_EQ(bench.send(write(2)), passed(write(0, 2), 1));
  EXPECT_EQ(bench.back(ack(1, 2)), to_client(ack(2, 3)));
  EXPECT_EQ(bench.version(), 2U);
}

// Its client dies before an answer. What never reached the tuple has left it whole.
TEST_P(OptimisticPackets, OnlyAWriteThatHasPassedLeavesATupleInDoubt) {
  for (const bool has_read : {true, false}) {
    Bench bench = begin(0);
    bench.send(swap(0, 0, 1));
    if (has_read) {
      bench.send(read(1));
      bench.back(response(0, 1, 0));
    }
    bench.send(write(has_read ? 2 : 1));
    const Released released = bench.end();
    EXPECT_THAT(released.in_doubt, SizeIs(has_read ? 1 : 0));
    EXPECT_THAT(released.tuples, SizeIs(has_read ? 0 : 1));
    EXPECT_EQ(bench.version(), has_read ? 1U : 2U);
  }
}

// A switch that has taken another one's place, and knows no tuples yet: clients of before would latch and write
// unjudged.
TEST_P(OptimisticPackets, NoQueuePairOfBeforeReachesAMemoryNodeThatIsClosed) {
  for (const bool closes : {false, true}) {
    p4::Switch device(GetParam().make(), {.ports = 3, .icrc = true});
    OptimisticSwitch control(device.state());
    if (closes) {
      control.close_memory_node({10, 0, 0, 2});
      control.close_memory_node({10, 0, 0, 2});
    }
    control.add_station({2, 0, 0, 0, 0, 1}, kClientPort);
    control.add_station({2, 0, 0, 0, 0, 2}, kMemoryPort);
    for (const RawFrame& frame : {read(0), swap(0, 0, 1), write(0)}) {
      device.receive(kClientPort, frame.bytes());
      EXPECT_TRUE(device.run());
      EXPECT_EQ(device.departed().has_value(), !closes);
    }
  }
}

TEST_P(OptimisticPackets, WhatIsNoSoundPacketOfTheConnectionIsDropped) {
  using Change = std::function<void(RawFrame&)>;
  const std::pair<const char*, Change> changes[] = {
      {"ICRC", [](RawFrame& f) { f.icrc_error = 1; }},
      {"partition", [](RawFrame& f) { f.pkey = 0x8001; }},
      {"transport version", [](RawFrame& f) { f.flags = 0x41; }},
      {"pad count", [](RawFrame& f) { f.flags = 0x50; }},
      {"queue pair", [](RawFrame& f) { f.queue_pair = 0x200; }},
      {"address", [](RawFrame& f) { f.from_ip = 0x0a000009; }},
      {"IP length", [](RawFrame& f) { f.ip_bytes = 59; }},
      {"no IP length", [](RawFrame& f) { f.ip_bytes = 0; }},
      {"IP longer than its frame", [](RawFrame& f) { f.ip_bytes = 1000; }},
      {"UDP length", [](RawFrame& f) { f.udp_bytes = 8; }},
      {"bytes where none belong", [](RawFrame& f) { f.rest.resize(f.rest.size() + 4); }},
      {"a header cut off", [](RawFrame& f) { f.rest.resize(f.rest.size() - 4); }},
      {"a first fragment", [](RawFrame& f) { f.flags_and_fragment = 0x2000; }},
      {"a later fragment", [](RawFrame& f) { f.flags_and_fragment = 2; }},
      {"options",
       [](RawFrame& f) {
         f.version_and_words = 0x46;
         f.options = 1;
       }},
  };
  for (const auto& [what, change] : changes) {
    for (const RawFrame& good : {swap(3, 0, 1), read_word(3), read(3)}) {
      Bench bench = begin(3);
      RawFrame frame = good;
      change(frame);
      EXPECT_THAT(bench.send(frame), IsEmpty()) << what;
      EXPECT_EQ(bench.send(swap(3, 0, 1)), atomic_ack(3, 1, 0)) << what;
    }
  }
  Bench bench = begin(3);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const bool is_request = opcode == raw::kWriteOnly || opcode == raw::kReadRequest || opcode == raw::kCompareSwap ||
                            opcode == raw::kFetchAdd;
    constexpr unsigned kCongestion = 0x81;
    const bool is_datagram = opcode >> 5 == 3;
    if (!is_request) {
      // Datagrams and notices of congestion are not of the connection.
      const Sent sent = bench.send(request(opcode, 3, Bytes(64)));
      EXPECT_THAT(sent, SizeIs(opcode == kCongestion || is_datagram ? 1 : 0)) << opcode;
    }
  }
  Bytes tagged = swap(3, 0, 1).bytes();
  const Bytes tag = {std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{1}};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  EXPECT_THAT(bench.send(tagged), IsEmpty());
  Bytes v6 = swap(3, 0, 1).bytes();
  v6[12] = std::byte{0x86};
  v6[13] = std::byte{0xdd};
  EXPECT_THAT(bench.send(v6), IsEmpty());
  EXPECT_EQ(bench.version(), 0U);
  EXPECT_EQ(bench.send(swap(3, 0, 1)), atomic_ack(3, 1, 0));
}

INSTANTIATE_TEST_SUITE_P(Forms, OptimisticPackets,
                         testing::Values(Form{"interpreted", &interpreted},
                                         Form{"compiled", &p4::programs::switch_optimistic},
                                         Form{"short_versions", &p4::programs::switch_tuples}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace optimistic_packets
}  // namespace
}  // namespace sidelatch::switchsync
