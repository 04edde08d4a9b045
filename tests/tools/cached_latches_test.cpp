// p4/switch_cached.p4 at `sidelatch switch`: versions for fewer tuples than there are. Clients write hot and cold
// tuples while these move.
#include "tests/tools/latches_at_a_switch.h"
#include "tests/tools/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;

class CachedLatches : public LatchesAtASwitch {
 protected:
  void start_cached(const std::string& hot, std::vector<std::string> more = {},
                    const std::vector<std::string>& of_memory = {}) {
    more.insert(more.end(), {"--hot", hot});
    start(kCached, more, of_memory);
  }
  void expect_refused(int port, const std::vector<std::string>& arguments, const std::string& why) {
    const auto asks = peer(port, arguments);
    EXPECT_EQ(asks->wait(), 2) << asks->text();
    EXPECT_THAT(asks->text(), HasSubstr(why));
  }
};

// Five tuples, and versions for two: each latch makes a tuple hot, and mostly another one cold.
TEST_F(CachedLatches, TuplesAreUpdatedOnceWhileTheyBecomeHotAndCold) {
  start_cached("2", kFaults);
  const auto owner = peer(2, {"make", tuples(), "5"});
  owner->await("ready");
  const auto first = peer(3, {"count", tuples(), "60", "1"});
  const auto second = peer(4, {"count", tuples(), "60", "2"});
  expect_done(*first, "done 60 updates");
  const auto moves = peer(3, {"move", tuples(), "200", "3"});  // asked for by a client, too
  expect_done(*second, "done 60 updates");
  expect_done(*moves, "done 200 moves");
  const auto third = peer(3, {"count", tuples(), "30", "4"});
  expect_done(*third, "done 30 updates");
  owner->write_line("now");
  expect_done(*owner, "sum 150");
  expect_faults(stop());
}

TEST_F(CachedLatches, WhatCannotMoveIsRefusedWithASentence) {
  start_cached("1");
  const auto owner = peer(2, {"make", tuples(), "3"});
  owner->await("ready");
  expect_done(*peer(4, {"hot", tuples(), "1"}), "tuple 1 is hot");
  expect_done(*peer(4, {"cold", tuples(), "1"}), "tuple 1 is cold");
  expect_done(*peer(4, {"cold", tuples(), "1"}), "tuple 1 is cold");
  const auto holder = peer(3, {"hold", tuples()});  // of tuple 0
  holder->await("holding");
  expect_refused(4, {"cold", tuples(), "0"}, "is latched or in doubt: it cannot become cold");
  expect_refused(4, {"hot", tuples(), "1"}, "versions for no more (--hot), and all of those are latched");
  expect_refused(4, {"hot", tuples(), "3"}, "no tuple begins at");
  holder->signal(SIGKILL);
  const auto waits = peer(4, {"count", tuples(), "10", "1"});  // the dead client's latch is released
  expect_done(*waits, "done 10 updates");
  expect_done(*peer(4, {"cold", tuples(), "0"}), "tuple 0 is cold");
  owner->write_line("now");
  expect_done(*owner, "sum 10");
}

TEST_F(CachedLatches, ASwitchThatHasAllVersionsMovesNone) {
  start(kTuples);
  const auto owner = peer(2, {"make", tuples(), "1"});
  owner->await("ready");
  expect_refused(4, {"hot", tuples(), "0"}, "this switch keeps the versions of all tuples");
  expect_refused(4, {"hot", "tuples," + at_memory(), "0"}, "it is no switch");
}

TEST_F(CachedLatches, MemoryThatOutlivesTheSwitchIsRefused) {
  start_cached("2", {}, {"--share", "objects=1"});
  expect_refused(4, {"sum", kept(3)}, "region 'objects' outlives the switch");
}

// As a holder that dies may leave a tuple that is torn.
TEST_F(CachedLatches, ATupleInDoubtStaysHotUntilItsHeirHasWrittenIt) {
  start_cached("1");
  const auto owner = peer(2, {"make", tuples(), "2"});
  owner->await("ready");
  expect_repair_of_a_tuple_in_doubt();
  expect_done(*peer(3, {"count", tuples(), "7", "1"}), "done 7 updates");
  owner->write_line("now");
  EXPECT_EQ(owner->wait(), 0) << owner->text();
}

TEST_F(CachedLatches, WrongOptionsAreOneSentenceAndStatusTwo) {
  const auto refusal = [&](const char* program, const std::vector<std::string>& more) {
    std::vector<std::string> command{program_path(), "switch", in_source_tree(program), "--latches", at_switch()};
    command.insert(command.end(), {"--port", "1=shm:" + cable(1)});
    command.insert(command.end(), more.begin(), more.end());
    Process process(command);
    EXPECT_EQ(process.wait(), 2) << process.text();
    return process.text();
  };
  EXPECT_THAT(refusal(kCached, {"--memory", at_memory(), "--hot", "262144"}),
              HasSubstr("--hot: 262144 hot tuples: the switch's program has versions for 1 to 262143"));
  EXPECT_THAT(refusal(kTuples, {"--memory", at_memory(), "--hot", "5"}),
              HasSubstr("--hot 5: this program keeps the versions of all tuples"));
  EXPECT_THAT(refusal(kWords, {"--words", "10.0.0.9", "--hot", "5"}), HasSubstr("--hot 5"));
}

}  // namespace
}  // namespace sidelatch::tools
