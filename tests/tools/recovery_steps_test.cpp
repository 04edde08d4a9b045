// `sidelatch switch` is killed at each step of the recovery of another one that was killed: every tuple is right, and
// every client goes on.
#include "tests/sampled.h"
#include "tests/tools/latches_at_a_switch.h"
#include "tests/tools/process.h"

#include <sidelatch/fabric/verbs/switch_exchange.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kSharedObjects{"--share", "objects=1"};

class RecoverySteps : public LatchesAtASwitch,
                      public ::testing::WithParamInterface<std::tuple<std::string_view, const char*>> {
 protected:
  void SetUp() override {
    LatchesAtASwitch::SetUp();
    if (program() != std::string_view(kTuples) && !takes_long()) {
      GTEST_SKIP() << "the steps are the same; SIDELATCH_LONG=1 takes them with versions of 32 bits, too";
    }
  }
  static std::string step() { return std::string(std::get<0>(GetParam())); }
  static const char* program() { return std::get<1>(GetParam()); }
};

// One client's WRITE is in doubt all the time; the other one updates until then, and after.
TEST_P(RecoverySteps, ASwitchThatIsKilledThereLosesNothing) {
  start(program(), kFaults, kSharedObjects);
  const auto doubts = peer(2, {"doubt", kept(3), "11"});
  doubts->await("holding");
  kill_switch();
  doubts->write_line("now");
  doubts->await("in doubt");
  start_switch(program(), kFaults, step());
  const auto endures = peer(3, {"endure", kept(3), "40", "2", "12"});
  await_death_of_switch();
  start_switch(program(), kFaults);
  expect_done(*doubts, "written");
  expect_done(*endures, "done 40 updates");
  expect_done(*peer(4, {"sum", kept(3)}), "sum 41");
}

// Twice at the same step: the second recovery finds what the first one has left.
TEST_P(RecoverySteps, TwoSwitchesThatAreKilledThereLoseNothing) {
  start(program(), {}, kSharedObjects);
  const auto doubts = peer(2, {"doubt", kept(1), "11"});
  doubts->await("holding");
  kill_switch();
  doubts->write_line("now");
  doubts->await("in doubt");
  start_switch(program(), {}, step());
  await_death_of_switch();
  // Once it is open, or granted and written, there may be nobody who makes the next one recover.
  const bool is_early = step() != "granted" && step() != "opening" && step() != "written" && step() != "open";
  if (is_early) {
    start_switch(program(), {}, step());
    await_death_of_switch();
  }
  start_switch(program());
  expect_done(*doubts, "written");
  expect_done(*peer(4, {"sum", kept(1)}), "sum 1");
}

INSTANTIATE_TEST_SUITE_P(Steps, RecoverySteps,
                         ::testing::Combine(::testing::ValuesIn(fabric::verbs::kRecoverySteps),
                                            ::testing::Values(kTuples, kShortVersions)),
                         [](const auto& one) {
                           std::string name(std::get<0>(one.param));
                           std::ranges::replace(name, '-', '_');
                           return name + (std::string_view(std::get<1>(one.param)) == kTuples ? "" : "_short_versions");
                         });

class DeclaredDead : public LatchesAtASwitch {};

TEST_F(DeclaredDead, AStepThatIsNoneIsNamed) {
  Process process({"/usr/bin/env", "SIDELATCH_SWITCH_DIES_AT=never", program_path(), "switch", in_source_tree(kTuples),
                   "--port", "1=shm:" + cable(1), "--latches", at_switch(), "--memory", at_memory()});
  EXPECT_EQ(process.wait(), 2) << process.text();
  EXPECT_THAT(process.text(), HasSubstr("SIDELATCH_SWITCH_DIES_AT=never: the steps are before, taken"));
}

// Another switch takes the tuples over while the first one lives, and goes on to pass packets. What is sent through
// that does not reach the tuples any more, and its clients are told. They go on when a switch is there whose turn it
// is.
TEST_F(DeclaredDead, ASwitchThatLivesOnIsRefusedAndItsClientsGoOnAtTheNextOne) {
  start(kTuples, {}, kSharedObjects);
  const auto endures = peer(2, {"endure", kept(2), "2000", "1", "11"});
  endures->await("at 20\n");
  endures->signal(SIGSTOP);  // so that it is not done before
  // Its cables are its own, and lead to no memory node: what is said of the first one is said over TCP.
  const std::string at_other = "127.0.0.1:" + free_port();
  Process other({program_path(), "switch", in_source_tree(kTuples), "--port", "1=shm:" + cable(21), "--port",
                 "2=shm:" + cable(22), "--station", "1=10.0.0.1", "--station", "2=10.0.0.4", "--latches", at_other,
                 "--memory", at_memory()});
  other.await("clients set up latches at");
  const auto declares = std::make_unique<Process>(
      std::vector<std::string>{program_path(), "softnic", "run", "--wire", "switch:" + cable(22) + ",10.0.0.4", "--",
                               latch_peer(), "sum", "kept," + at_other + ",2"});
  EXPECT_EQ(declares->wait(), 2) << declares->text();  // it has the tuples, and no way to them
  endures->signal(SIGCONT);
  endures->await("another switch has taken the place of this one");
  other.signal(SIGKILL);
  static_cast<void>(other.wait());
  kill_switch();
  start_switch(kTuples, {"--grace", "0.2"});  // who has declared it has no owner by its name
  expect_done(*endures, "done 2000 updates");
  expect_done(*peer(4, {"sum", kept(2)}), "sum 2000");
}

}  // namespace
}  // namespace sidelatch::tools
