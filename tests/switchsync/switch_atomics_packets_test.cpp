// p4/switch_atomics.p4 packet by packet: what it answers, byte for byte, and what it does not answer. The expected
// packets are written down by InfiniBand's specification (volume 1, chapter 9), not by the project's codec.
#include "changed_program.h"
#include "raw_frames.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/control.h>
#include <sidelatch/p4/switch.h>
#include <sidelatch/switchsync/word_switch.h>

#include <p4/switch_atomics.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace atomics_packets {

using testing::ElementsAre;
using testing::IsEmpty;

struct Form {
  const char* name;
  std::shared_ptr<const p4::Program> (*make)();
};

std::shared_ptr<const p4::Program> interpreted() {
  static const auto kProgram = p4::compile_file(in_source_tree("p4/switch_atomics.p4"));
  return kProgram;
}

constexpr std::uint64_t kSwitchMac = 0x0200000000fe;
constexpr std::uint64_t kClientMac = 0x020000000001;
constexpr std::uint64_t kOtherMac = 0x020000000002;
constexpr std::uint32_t kSwitchIp = 0x0a0000fe;
constexpr std::uint32_t kClientIp = 0x0a000001;
constexpr std::uint32_t kKey = 0x5eed;
constexpr std::uint64_t kAddress = 0x1000'0000;
constexpr std::uint32_t kWords = 512;
constexpr std::uint32_t kSwitchPair = 0x100;
constexpr std::uint32_t kClientPair = 0x17;

class AtomicsPackets : public testing::TestWithParam<Form> {
 protected:
  void begin(std::uint32_t first_psn) {
    device_.emplace(GetParam().make(), p4::SwitchOptions{.ports = 3, .icrc = true});
    control_.emplace(device_->state());
    control_->add_station({2, 0, 0, 0, 0, 1}, 1);
    control_->add_station({2, 0, 0, 0, 0, 2}, 2);
    control_->serve({10, 0, 0, 254}, {2, 0, 0, 0, 0, 0xfe});
    control_->add_words({.rkey = kKey, .address = kAddress, .first = 0, .count = kWords});
    connect(kClientPair, kSwitchPair, first_psn);
  }
  // By p4/switch_atomics.json.
  void begin_by_file() {
    device_.emplace(GetParam().make(), p4::SwitchOptions{.ports = 3, .icrc = true});
    const std::string name = "switch_atomics.json";
    p4::apply(p4::read_control(source_of(name), name, device_->program().info(), {1, 2}), *device_);
  }
  void connect(std::uint32_t client_pair, std::uint32_t switch_pair, std::uint32_t first_psn) {
    control_->connect({.ip = {10, 0, 0, 254},
                       .queue_pair = switch_pair,
                       .client = {10, 0, 0, 1},
                       .client_queue_pair = client_pair,
                       .client_psn = first_psn});
  }
  WordSwitch& control() { return *control_; }
  std::uint64_t word(std::uint32_t i) { return control_->word(i); }
  p4::Switch& device() { return *device_; }
  p4::State& state() { return device_->state(); }

  // What leaves the switch: port, frame.
  using Sent = std::vector<std::pair<unsigned, Bytes>>;
  Sent send(const Bytes& frame) {
    device_->receive(1, frame);
    EXPECT_TRUE(device_->run());
    Sent sent;
    while (const auto departed = device_->departed()) {
      sent.emplace_back(departed->port, Bytes(departed->bytes.begin(), departed->bytes.end()));
    }
    return sent;
  }
  Sent send(const RawFrame& frame) { return send(frame.bytes()); }

  static RawFrame request(unsigned opcode, std::uint32_t psn, Bytes rest) {
    return {.to_mac = kSwitchMac,
            .from_mac = kClientMac,
            .from_ip = kClientIp,
            .to_ip = kSwitchIp,
            .opcode = opcode,
            .queue_pair = kSwitchPair,
            .psn = psn,
            .rest = std::move(rest)};
  }
  static std::uint64_t at(std::uint64_t i) { return kAddress + i * 8; }
  static RawFrame add(std::uint32_t psn, std::uint64_t index, std::uint64_t value) {
    return request(raw::kFetchAdd, psn, raw::atomic(at(index), kKey, value, 0));
  }
  static RawFrame swap(std::uint32_t psn, std::uint64_t index, std::uint64_t compare, std::uint64_t value) {
    return request(raw::kCompareSwap, psn, raw::atomic(at(index), kKey, value, compare));
  }
  static RawFrame read(std::uint32_t psn, std::uint64_t index) {
    return request(raw::kReadRequest, psn, raw::reth(at(index), kKey, 8));
  }
  static RawFrame write(std::uint32_t psn, std::uint64_t index, std::uint64_t value) {
    return request(raw::kWriteOnly, psn, raw::reth(at(index), kKey, 8, in_memory(value)));
  }

  // The answer goes back to where the request came from.
  static Sent answer(unsigned opcode, std::uint32_t psn, Bytes rest) {
    const RawFrame frame{.to_mac = kClientMac,
                         .from_mac = kSwitchMac,
                         .from_ip = kSwitchIp,
                         .to_ip = kClientIp,
                         .opcode = opcode,
                         .queue_pair = kClientPair,
                         .ack_request = false,
                         .psn = psn,
                         .rest = std::move(rest)};
    return {{1, frame.bytes()}};
  }
  static Sent atomic_ack(std::uint32_t psn, std::uint32_t msn, std::uint64_t old) {
    return answer(raw::kAtomicAcknowledge, psn, raw::aeth(raw::kAck, msn, raw::number(old)));
  }
  static Sent response(std::uint32_t psn, std::uint32_t msn, std::uint64_t value) {
    return answer(raw::kReadResponse, psn, raw::aeth(raw::kAck, msn, in_memory(value)));
  }
  static Sent ack(std::uint32_t psn, std::uint32_t msn) {
    return answer(raw::kAcknowledge, psn, raw::aeth(raw::kAck, msn));
  }
  static Sent nak(unsigned syndrome, std::uint32_t psn, std::uint32_t msn) {
    return answer(raw::kAcknowledge, psn, raw::aeth(syndrome, msn));
  }

 private:
  std::optional<p4::Switch> device_;
  std::optional<WordSwitch> control_;
};

TEST_P(AtomicsPackets, AFloodedPacketDoesNotGoBackToWhereItCameFrom) {
  begin(0);
  device().set_multicast_group(1, {{.port = 0}, {.port = 1}, {.port = 2}});
  state().table("Serve.stations").add({{.value = 0xffff'ffff'ffff}}, "flood", {1});
  Bytes question(60, std::byte{0xff});  // ARP
  question[12] = std::byte{8};
  question[13] = std::byte{6};
  device().receive(2, question);
  EXPECT_TRUE(device().run());
  std::vector<unsigned> ports;
  while (const auto departed = device().departed()) {
    ports.push_back(departed->port);
  }
  EXPECT_THAT(ports, ElementsAre(0, 1));
}

TEST_P(AtomicsPackets, AnswersAreThoseOfANic) {
  begin(7);
  EXPECT_EQ(send(add(7, 3, 0x1122334455667788)), atomic_ack(7, 1, 0));
  EXPECT_EQ(send(swap(8, 3, 0x1122334455667788, 5)), atomic_ack(8, 2, 0x1122334455667788));
  EXPECT_EQ(send(swap(9, 3, 6, 7)), atomic_ack(9, 3, 5));
  EXPECT_EQ(send(write(10, 4, 0x0102030405060708)), ack(10, 4));
  EXPECT_EQ(send(read(11, 4)), response(11, 5, 0x0102030405060708));
  EXPECT_EQ(word(3), 5U);
}

TEST_P(AtomicsPackets, TheControlFileIsAnEndPoint) {
  begin_by_file();
  EXPECT_EQ(send(add(7, 511, 3)), atomic_ack(7, 1, 0));
  EXPECT_EQ(send(read(8, 511)), response(8, 2, 3));
  EXPECT_EQ(send(read(9, 512)), nak(raw::kNakAccess, 9, 2));
}

// What an answer has of its request, and what it has not.
TEST_P(AtomicsPackets, AnAnswerHasFieldsOfItsOwn) {
  begin(0);
  RawFrame marked = add(0, 0, 1);
  marked.service = 0xb3;  // a class of service, and congestion
  marked.ttl = 3;
  marked.flags = 0xc0;       // solicited
  marked.reserved8a = 0xc0;  // FECN, BECN
  marked.from_port = 0xdead;
  RawFrame expected{.to_mac = kClientMac,
                    .from_mac = kSwitchMac,
                    .from_ip = kSwitchIp,
                    .to_ip = kClientIp,
                    .service = 0xb2,
                    .from_port = 0xdead,
                    .opcode = raw::kAtomicAcknowledge,
                    .queue_pair = kClientPair,
                    .ack_request = false,
                    .psn = 0,
                    .rest = raw::aeth(raw::kAck, 1, raw::number(0))};
  EXPECT_EQ(send(marked), (Sent{{1, expected.bytes()}}));
}

TEST_P(AtomicsPackets, PsnsAndCountsWrapAround) {
  begin(0xfffffe);
  state().reg("Serve.msn").write(0, 0xfffffe);
  EXPECT_EQ(send(add(0xfffffe, 0, 1)), atomic_ack(0xfffffe, 0xffffff, 0));
  EXPECT_EQ(send(add(0xffffff, 0, 1)), atomic_ack(0xffffff, 0, 1));
  EXPECT_EQ(send(add(0, 0, 1)), atomic_ack(0, 1, 2));
  // What came before the wrap is repeated, not new.
  EXPECT_EQ(send(add(0xffffff, 0, 1)), atomic_ack(0xffffff, 1, 1));
  EXPECT_EQ(word(0), 3U);
  EXPECT_EQ(send(add(2, 0, 1)), nak(raw::kNakSequence, 1, 1));
}

TEST_P(AtomicsPackets, ARepeatedRequestIsAnsweredAndNotExecuted) {
  begin(100);
  connect(0x18, 0x101, 0);
  for (std::uint32_t i = 0; i < 17; ++i) {
    EXPECT_EQ(send(add(100 + i, 0, 1)), atomic_ack(100 + i, i + 1, i));
  }
  for (std::uint32_t i = 1; i < 17; ++i) {  // the latest 16, in any order, as often as one likes
    EXPECT_EQ(send(add(117 - i, 0, 1)), atomic_ack(117 - i, 17, 17 - i));
    EXPECT_EQ(send(add(117 - i, 0, 1)), atomic_ack(117 - i, 17, 17 - i));
  }
  EXPECT_THAT(send(add(100, 0, 1)), IsEmpty());  // an older one: not known any more
  EXPECT_EQ(word(0), 17U);
  EXPECT_EQ(send(write(117, 1, 8)), ack(117, 18));
  RawFrame others = write(0, 1, 9);
  others.queue_pair = 0x101;
  EXPECT_EQ(send(others).size(), 1U);
  EXPECT_EQ(send(write(117, 1, 8)), ack(117, 18));
  EXPECT_EQ(word(1), 9U);
  EXPECT_EQ(send(swap(118, 1, 9, 10)), atomic_ack(118, 19, 9));
  EXPECT_EQ(send(swap(118, 1, 9, 10)), atomic_ack(118, 19, 9));
  EXPECT_EQ(send(read(119, 1)), response(119, 20, 10));
  EXPECT_EQ(send(read(119, 1)), response(119, 20, 10));
  EXPECT_EQ(send(add(120, 1, 1)), atomic_ack(120, 21, 10));
}

TEST_P(AtomicsPackets, ASequenceErrorIsReportedOnceUntilTheRightPacketComes) {
  begin(10);
  EXPECT_EQ(send(add(10, 0, 1)), atomic_ack(10, 1, 0));
  EXPECT_EQ(send(add(12, 0, 1)), nak(raw::kNakSequence, 11, 1));
  EXPECT_THAT(send(add(13, 0, 1)), IsEmpty());
  EXPECT_THAT(send(write(14, 0, 1)), IsEmpty());
  EXPECT_EQ(send(add(10, 0, 1)), atomic_ack(10, 1, 0));  // a repeated one is answered all the same
  EXPECT_THAT(send(add(12, 0, 1)), IsEmpty());
  EXPECT_EQ(send(add(11, 0, 1)), atomic_ack(11, 2, 1));
  EXPECT_EQ(send(add(13, 0, 1)), nak(raw::kNakSequence, 12, 2));
  EXPECT_EQ(word(0), 2U);
}

// Half of all PSNs are ahead, half are behind (9.7.1).
TEST_P(AtomicsPackets, TheWindowIsHalfOfAllPsns) {
  begin(5);
  EXPECT_THAT(send(read((5 + 0x800000) & 0xffffff, 0)), testing::Not(nak(raw::kNakSequence, 5, 0)));
  EXPECT_THAT(send(add((5 + 0x800000) & 0xffffff, 0, 1)), IsEmpty());
  EXPECT_EQ(send(add((5 + 0x7fffff) & 0xffffff, 0, 1)), nak(raw::kNakSequence, 5, 0));
  EXPECT_EQ(send(add(5, 0, 1)), atomic_ack(5, 1, 0));
}

TEST_P(AtomicsPackets, AWriteWithoutAnAckRequestIsAcknowledgedByALaterAnswer) {
  begin(0);
  RawFrame quiet = write(0, 0, 6);
  quiet.ack_request = false;
  EXPECT_THAT(send(quiet), IsEmpty());
  EXPECT_EQ(word(0), 6U);
  EXPECT_EQ(send(write(1, 1, 7)), ack(1, 2));
}

TEST_P(AtomicsPackets, NothingIsReadOrWrittenWithoutAKey) {
  begin(0);
  EXPECT_EQ(send(request(raw::kWriteOnly, 0, raw::reth(1, 2, 0))), ack(0, 1));
  EXPECT_EQ(send(request(raw::kReadRequest, 1, raw::reth(3, 4, 0))),
            answer(raw::kReadResponse, 1, raw::aeth(raw::kAck, 2)));
}

TEST_P(AtomicsPackets, WhatIsNotAllowedIsRefusedWithItsReason) {
  const struct {
    const char* what;
    unsigned opcode;
    Bytes rest;
    unsigned syndrome;
  } cases[] = {
      {"key", raw::kFetchAdd, raw::atomic(at(0), 1, 1, 0), raw::kNakAccess},
      {"key of a READ", raw::kReadRequest, raw::reth(at(0), 1, 8), raw::kNakAccess},
      {"key of a WRITE", raw::kWriteOnly, raw::reth(at(0), 1, 8, in_memory(1)), raw::kNakAccess},
      {"behind the end", raw::kCompareSwap, raw::atomic(at(kWords), kKey, 1, 0), raw::kNakAccess},
      {"half behind the end", raw::kReadRequest, raw::reth(at(kWords) - 4, kKey, 8), raw::kNakAccess},
      {"before the beginning", raw::kFetchAdd, raw::atomic(kAddress - 8, kKey, 1, 0), raw::kNakAccess},
      {"the last address", raw::kFetchAdd, raw::atomic(~std::uint64_t{7}, kKey, 1, 0), raw::kNakAccess},
      {"misaligned", raw::kCompareSwap, raw::atomic(at(0) + 4, kKey, 1, 0), raw::kNakInvalid},
      {"no right to READ", raw::kReadRequest, raw::reth(at(0), 77, 8), raw::kNakAccess},
      {"no right to WRITE", raw::kWriteOnly, raw::reth(at(0), 77, 8, in_memory(1)), raw::kNakAccess},
      {"no right to add", raw::kFetchAdd, raw::atomic(at(0), 77, 1, 0), raw::kNakAccess},
      {"a READ of 4", raw::kReadRequest, raw::reth(at(0), kKey, 4), raw::kNakInvalid},
      {"a READ of several packets", raw::kReadRequest, raw::reth(at(0), kKey, 2048), raw::kNakInvalid},
  };
  for (const auto& one : cases) {
    begin(20);
    control().add_words(
        {.rkey = 77, .address = kAddress, .count = 4, .readable = false, .writable = false, .atomic = false});
    EXPECT_EQ(send(add(20, 0, 5)), atomic_ack(20, 1, 0));
    EXPECT_EQ(send(request(one.opcode, 21, one.rest)), nak(one.syndrome, 21, 1)) << one.what;
    EXPECT_EQ(word(0), 5U) << one.what;
    // The queue pair has ended: nothing is executed or answered any more.
    EXPECT_THAT(send(request(one.opcode, 21, one.rest)), IsEmpty()) << one.what;
    EXPECT_THAT(send(add(20, 0, 5)), IsEmpty()) << one.what;
    EXPECT_THAT(send(add(21, 0, 5)), IsEmpty()) << one.what;
    EXPECT_THAT(send(add(22, 0, 5)), IsEmpty()) << one.what;
    EXPECT_EQ(word(0), 5U) << one.what;
    // Out of turn, it is out of turn, and nothing else.
    begin(20);
    EXPECT_EQ(send(request(one.opcode, 21, one.rest)), nak(raw::kNakSequence, 20, 0)) << one.what;
    EXPECT_EQ(send(add(20, 0, 5)), atomic_ack(20, 1, 0)) << one.what;
  }
}

// None of these is a packet that the end point may look at (9.6.1): no answer, and no change.
TEST_P(AtomicsPackets, WhatIsNoSoundPacketOfTheConnectionIsDropped) {
  using Change = std::function<void(RawFrame&)>;
  const std::pair<const char*, Change> changes[] = {
      {"ICRC", [](RawFrame& f) { f.icrc_error = 1; }},
      {"partition", [](RawFrame& f) { f.pkey = 0x8001; }},
      {"transport version", [](RawFrame& f) { f.flags = 0x41; }},
      {"pad count", [](RawFrame& f) { f.flags = 0x50; }},
      {"queue pair", [](RawFrame& f) { f.queue_pair = 0x200; }},
      {"address", [](RawFrame& f) { f.from_ip = 0x0a000009; }},
      {"another port", [](RawFrame& f) { f.to_port = 4790; }},
      {"IP length", [](RawFrame& f) { f.ip_bytes = 59; }},
      {"no IP length", [](RawFrame& f) { f.ip_bytes = 0; }},
      {"IP longer than its frame", [](RawFrame& f) { f.ip_bytes = 1000; }},
      {"UDP length", [](RawFrame& f) { f.udp_bytes = 8; }},
      {"bytes where none belong", [](RawFrame& f) { f.rest.resize(f.rest.size() + 4); }},
      {"a header cut off", [](RawFrame& f) { f.rest.resize(f.rest.size() - 4); }},
      {"a header missing", [](RawFrame& f) { f.rest.clear(); }},
      {"a first fragment", [](RawFrame& f) { f.flags_and_fragment = 0x2000; }},
      {"a later fragment", [](RawFrame& f) { f.flags_and_fragment = 2; }},
      {"options",
       [](RawFrame& f) {
         f.version_and_words = 0x46;
         f.options = 1;
       }},
      {"IP version", [](RawFrame& f) { f.version_and_words = 0x65; }},
      {"TCP", [](RawFrame& f) { f.protocol = 6; }},
  };
  for (const auto& [what, change] : changes) {
    for (const bool writes : {false, true}) {
      begin(3);
      RawFrame frame = writes ? write(3, 0, 9) : add(3, 0, 9);
      change(frame);
      EXPECT_THAT(send(frame), IsEmpty()) << what;
      EXPECT_EQ(word(0), 0U) << what;
      EXPECT_EQ(send(add(3, 0, 1)), atomic_ack(3, 1, 0)) << what;
    }
  }
  begin(3);
  Bytes checksum = add(3, 0, 9).bytes();
  checksum[24] ^= std::byte{1};
  EXPECT_THAT(send(checksum), IsEmpty());
  const Bytes whole = add(3, 0, 9).bytes();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    send(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)));
    ASSERT_EQ(word(0), 0U) << bytes;
  }
  Bytes padded = whole;  // of the link
  padded.resize(whole.size() + 20);
  EXPECT_EQ(send(padded).size(), 1U);
  EXPECT_EQ(word(0), 9U);
}

// A limited member of the partition may talk to a full one (10.9.1).
TEST_P(AtomicsPackets, ALimitedMemberIsHeard) {
  begin(3);
  RawFrame frame = add(3, 0, 9);
  frame.pkey = 0x7fff;
  EXPECT_EQ(send(frame).size(), 1U);
  EXPECT_EQ(word(0), 9U);
}

// SEND, WRITEs of several packets or with an immediate value, answers, other transports.
TEST_P(AtomicsPackets, OtherOpcodesAreNotAnswered) {
  begin(3);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    if (opcode == raw::kWriteOnly || opcode == raw::kReadRequest || opcode == raw::kCompareSwap ||
        opcode == raw::kFetchAdd) {
      continue;
    }
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{28}, std::size_t{256}}) {
      EXPECT_THAT(send(request(opcode, 3, Bytes(bytes))), IsEmpty()) << opcode;
    }
  }
  EXPECT_THAT(send(request(raw::kWriteOnly, 3, raw::reth(at(0), kKey, 16, Bytes(16)))), IsEmpty());
  EXPECT_THAT(send(request(raw::kWriteOnly, 3, raw::reth(at(0), kKey, 8, Bytes(16)))), IsEmpty());
  EXPECT_THAT(send(request(raw::kWriteOnly, 3, raw::reth(at(0), kKey, 0, Bytes(8)))), IsEmpty());
  EXPECT_THAT(send(request(raw::kWriteOnly, 3, raw::reth(at(0), kKey, 8, Bytes(4)))), IsEmpty());
  EXPECT_EQ(send(add(3, 0, 1)), atomic_ack(3, 1, 0));
}

TEST_P(AtomicsPackets, WhatIsForOthersPassesAsItIs) {
  begin(3);
  const auto to_other = [](RawFrame frame) {
    frame.to_mac = kOtherMac;
    return frame.bytes();
  };
  RawFrame options = add(3, 0, 1);
  options.version_and_words = 0x46;
  options.options = 1;
  options.to_ip = 0x0a000002;
  RawFrame fragment = add(3, 0, 1);
  fragment.flags_and_fragment = 0x2000;
  fragment.to_ip = 0x0a000002;
  RawFrame roce = add(3, 0, 1);
  roce.to_ip = 0x0a000002;
  Bytes v6;
  put(v6, kOtherMac, 6);
  put(v6, kClientMac, 6);
  put(v6, 0x86dd, 2);
  put(v6, 0x6000000000003b40, 8);  // nothing follows
  v6.resize(v6.size() + 32);
  // Another station's, whatever its IP address.
  for (const Bytes& frame : {to_other(options), to_other(fragment), to_other(roce), v6, to_other(add(3, 0, 1))}) {
    EXPECT_EQ(send(frame), (Sent{{2, frame}}));
  }
  EXPECT_EQ(word(0), 0U);
}

INSTANTIATE_TEST_SUITE_P(Forms, AtomicsPackets,
                         testing::Values(Form{"interpreted", &interpreted},
                                         Form{"compiled", &p4::programs::switch_atomics}),
                         [](const auto& form) { return std::string(form.param.name); });

// p4/switch_latches.p4: CAS and READ of 32 bits, which clients see as 64.
class LatchesPackets : public AtomicsPackets {};

std::shared_ptr<const p4::Program> latches() { return p4::compile_file(in_source_tree("p4/switch_latches.p4")); }

TEST_P(LatchesPackets, SwapAndReadAndNothingElse) {
  begin(0xffffff);
  EXPECT_EQ(send(swap(0xffffff, 2, 0, 0xfedcba98)), atomic_ack(0xffffff, 1, 0));
  EXPECT_EQ(send(swap(0xffffff, 2, 0, 0xfedcba98)), atomic_ack(0xffffff, 1, 0));
  EXPECT_EQ(send(swap(0, 2, 0, 7)), atomic_ack(0, 2, 0xfedcba98));
  EXPECT_EQ(send(read(1, 2)), response(1, 3, 0xfedcba98));
  EXPECT_EQ(send(swap(2, 2, 0xfedcba98, 0)), atomic_ack(2, 4, 0xfedcba98));
  EXPECT_EQ(send(swap(0, 2, 0, 7)), atomic_ack(0, 4, 0xfedcba98));  // repeated
  EXPECT_EQ(send(swap(2, 2, 0xfedcba98, 0)), atomic_ack(2, 4, 0xfedcba98));
  EXPECT_EQ(word(2), 0U);
  EXPECT_EQ(send(request(raw::kWriteOnly, 3, raw::reth(1, 2, 0))), ack(3, 5));
  EXPECT_EQ(send(swap(5, 2, 0, 1)), nak(raw::kNakSequence, 4, 5));
  constexpr std::uint64_t kWide = std::uint64_t{1} << 32;
  for (const RawFrame& refused :
       {add(9, 0, 1), write(9, 0, 1), swap(9, 0, kWide, 1), swap(9, 0, 0, kWide), swap(9, 0, kWide, kWide)}) {
    begin(9);
    EXPECT_EQ(send(refused), nak(raw::kNakInvalid, 9, 0));
    EXPECT_EQ(word(0), 0U);
    EXPECT_THAT(send(swap(9, 0, 0, 1)), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, LatchesPackets, testing::Values(Form{"interpreted", &latches}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace atomics_packets
}  // namespace
}  // namespace sidelatch::switchsync
