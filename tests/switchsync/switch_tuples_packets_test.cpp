// What p4/switch_tuples.p4 does otherwise than p4/switch_optimistic.p4, packet by packet: versions of 32 bits, and
// second passes. All else is in switch_optimistic_packets_test.cpp, for both.
#include "changed_program.h"
#include "raw_frames.h"
#include "tuple_bench.h"

#include "tests/paths.h"

#include <sidelatch/p4/fit.h>

#include <p4/switch_tuples.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

namespace sidelatch::switchsync {
namespace {
namespace short_versions {

using namespace tuple_bench;
using testing::IsEmpty;

ProgramPtr right() { return p4::programs::switch_tuples(); }
ProgramPtr with(const std::string& right, const std::string& wrong) {
  return changed_program("switch_tuples.p4", right, wrong);
}

constexpr std::uint64_t kEpoch = 3ULL << 32;

TEST(SwitchTuplesPackets, TheProgramFitsATofino2) {
  const auto folder = std::filesystem::path(in_source_tree("p4"));
  EXPECT_TRUE(p4::fit(folder / "switch_tuples.p4", p4::Chip::tofino2).fits());
  EXPECT_FALSE(p4::fit(folder / "switch_optimistic.p4", p4::Chip::tofino2).fits());
}

TEST(SwitchTuplesPackets, ClientsSeeTheEpochInTheUpperHalf) {
  const std::uint64_t first = kEpoch | 6;
  Bench bench(right(), 0, first);
  bench.send(read(0));
  EXPECT_EQ(bench.back(response(0, 1, 0x77)), to_client(response(0, 1, first)));
  EXPECT_EQ(bench.send(swap(1, 6, 7)), atomic_ack(1, 2, first));  // of the first epoch
  EXPECT_EQ(bench.version(), first);
  EXPECT_EQ(bench.send(swap(2, first, first + 1)), atomic_ack(2, 3, first));
  EXPECT_EQ(bench.version(), first + 1);
  EXPECT_EQ(bench.send(swap(3, 7, 8)), atomic_ack(3, 4, first + 1));
  EXPECT_EQ(bench.version(), first + 1);
  EXPECT_EQ(bench.send(write(4)), passed(write(0, first + 2), 1));
  EXPECT_EQ(bench.back(ack(1, 2)), to_client(ack(4, 5)));
  EXPECT_EQ(bench.send(read_word(5)), word_response(5, 6, first + 2));
}

TEST(SwitchTuplesPackets, NoVersionLeavesItsEpoch) {
  const std::uint64_t last = kEpoch | 0xffff'fffe;
  Bench bench(right(), 0, last - 2);
  bench.send(read(0));
  EXPECT_EQ(bench.back(response(0, 1, 0)), to_client(response(0, 1, last - 2)));
  EXPECT_EQ(bench.send(swap(1, last - 2, last - 1)), atomic_ack(1, 2, last - 2));
  EXPECT_EQ(bench.send(write(2)), passed(write(0, last), 1));
  EXPECT_EQ(bench.back(ack(1, 2)), to_client(ack(2, 3)));
  EXPECT_EQ(bench.send(read_word(3)), word_response(3, 4, last));
  EXPECT_EQ(bench.send(swap(4, last, last + 1)), to_client(ack(4, 4, raw::kNakInvalid)));
  EXPECT_EQ(bench.version(), last);
}

TEST(SwitchTuplesPackets, ALatchThatIsSentTwiceIsTakenOnce) {
  const Sent once = atomic_ack(0, 1, 0);
  Bench bench(right(), 0);
  EXPECT_EQ(bench.send_times(2, swap(0, 0, 1)), (Sent{once.at(0), once.at(0)}));
  EXPECT_EQ(bench.version(), 1U);
}

TEST(SwitchTuplesPackets, TwoPacketsThatAreTooEarlyGetOneNak) {
  const Sent nak = to_client(ack(0, 0, raw::kNakSequence));
  Bench bench(right(), 0);
  EXPECT_EQ(bench.send_times(2, swap(2, 0, 1)), nak);
  EXPECT_THAT(bench.send(swap(2, 0, 1)), IsEmpty());
  EXPECT_EQ(bench.send(swap(0, 0, 1)), atomic_ack(0, 1, 0));
  // A second pass that does not compare.
  Bench wrong(with("bool is_as_noted = end[31:0] == m.noted;", "bool is_as_noted = true;"), 0);
  EXPECT_EQ(wrong.send_times(2, swap(2, 0, 1)), (Sent{nak.at(0), nak.at(0)}));
}

// Nobody's tuple is like another's. Between the two passes the same request comes again.
TEST(SwitchTuplesPackets, AnUnlatchByWhoDoesNotHoldTheLatchIsNeverAnswered) {
  const Sent nak = to_client(ack(0, 0, raw::kNakAccess));
  Bench bench(right(), 0);
  bench.state().reg("latches").write(0, 1);
  EXPECT_EQ(bench.send_times(3, swap(0, 1, 2)), nak);
  EXPECT_EQ(bench.version(), 1U);
  for (const std::uint32_t psn : {0U, 1U, 2U}) {  // the connection has ended
    EXPECT_THAT(bench.send(swap(psn, 1, 2)), IsEmpty());
  }
  // Without the note the repeated one is answered as if it had happened.
  Bench wrong(with("kept.write(connection, 1w1 ++ 31w0 ++ version);", "kept.write(connection, 32w0 ++ version);"), 0);
  wrong.state().reg("latches").write(0, 1);
  EXPECT_EQ(wrong.send_times(2, swap(0, 1, 2)).at(0), atomic_ack(0, 1, 1).at(0));
}

// The refused WRITE stands in the switch as one that has passed.
TEST(SwitchTuplesPackets, AnAcknowledgementOfARefusedWriteUnlatchesNothing) {
  const auto version_after = [](const ProgramPtr& program) {
    Bench bench(program, 0);
    bench.send(swap(0, 0, 1));
    bench.send(write(1));  // its sender has not read the tuple
    bench.back(ack(0, 1, raw::kNakInvalid));
    EXPECT_EQ(bench.version(), 1U);
    bench.back(ack(0, 1));
    return bench.version();
  };
  EXPECT_EQ(version_after(right()), 1U);
  EXPECT_EQ(version_after(with("new_latch = latch[63:32] & ~MUST_WRITE == own_read ?", "new_latch = true ?")), 2U);
  Bench bench(with("h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] == 0;", "h.bth.opcode == RC_ACKNOWLEDGE;"),
              0);
  bench.send(swap(0, 0, 1));
  bench.send(read(1));
  bench.back(response(0, 1, 0));
  bench.send(write(2));
  bench.back(ack(1, 1, raw::kNakInvalid));
  EXPECT_EQ(bench.version(), 2U) << "a NAK that unlatches is not seen";
}

// A WRITE that its holder has sent passes again until it is acknowledged, and afterwards, too.
TEST(SwitchTuplesPackets, ARepeatedWriteIsJudgedAgainUntilItIsAcknowledged) {
  Bench bench(right(), 0);
  bench.send(swap(0, 0, 1));
  RawFrame refused = write(1);
  const Bytes nowhere = raw::reth(0xffffffffffff0000, kKey, 0xffffffff);
  std::copy(nowhere.begin(), nowhere.end(), refused.rest.begin());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(bench.send(write(1)), passed(refused, 0));
  }
  Bench wrong(with("asks == WRITE && !may_write && (is_new || is_waiting)", "asks == WRITE && !may_write && is_new"),
              0);
  wrong.send(swap(0, 0, 1));
  EXPECT_EQ(wrong.send(write(1)), passed(refused, 0));
  EXPECT_NE(wrong.send(write(1)), passed(refused, 0)) << "a repeated WRITE of who has not read is not seen";
}

}  // namespace short_versions
}  // namespace
}  // namespace sidelatch::switchsync
