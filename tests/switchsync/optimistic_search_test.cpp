// p4/switch_optimistic.p4, and p4/switch_tuples.p4, its form with versions of 32 bits, in every execution of two
// clients with one operation each.
#include "optimistic_search.h"
#include "changed_program.h"

#include "common/sanitizers.h"
#include "tests/sampled.h"

#include <p4/switch_optimistic.h>
#include <p4/switch_tuples.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace searched {

using ProgramPtr = std::shared_ptr<const p4::Program>;
struct Form {
  const char* name;
  ProgramPtr (*make)();
};
const std::vector<Form> kForms = {{"LongVersions", &p4::programs::switch_optimistic},
                                  {"ShortVersions", &p4::programs::switch_tuples}};

void expect_none(const Form& form, const SearchOptions& options) {
  const SearchResult result = search(form.make(), options);
  std::printf("%llu states, %llu ends\n", static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.ends));
  EXPECT_EQ(result.violation, "") << trace_of(result);
  EXPECT_TRUE(result.is_complete || options.most_states == kStatesOfAll);
  EXPECT_GT(result.ends, 0U);
}

struct Case {
  const char* name;
  std::vector<Script> clients;
};
std::string name_of(const testing::TestParamInfo<std::tuple<Form, Case>>& info) {
  return std::string(std::get<1>(info.param).name) + std::get<0>(info.param).name;
}
const std::vector<Case> kCases = {
    {"AReadBesideAWrite", {Script::reader, Script::writer}},
    {"TwoWrites", {Script::writer, Script::writer}},
    {"AReadBesideTwoWritesOfOneClient", {Script::reader, Script::twice}},
    {"TwoUpdates", {Script::updater, Script::updater}},
    {"AReadBesideAnUnlatchWithoutAWrite", {Script::reader, Script::aborter}},
    {"AVerifiedReadBesideAWrite", {Script::verifier, Script::writer}},
};

class SearchOfBoth : public testing::TestWithParam<std::tuple<Form, Case>> {
 protected:
  [[nodiscard]] static const Form& form() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const std::vector<Script>& clients() { return std::get<1>(GetParam()).clients; }
};

class SwitchOptimisticSearch : public SearchOfBoth {};

// With versions of 32 bits CI has a sample: repeated frames, of which two are on their way through the switch at a
// time.
bool is_sample(const Form& form) { return form.make == &p4::programs::switch_tuples && !takes_long(); }

// Losses, repeated frames, overtaking, early timers: SIDELATCH_LONG searches beside, as far as it comes, all at once.
TEST_P(SwitchOptimisticSearch, FindsNothing) {
  if (takes_long()) {
    expect_none(form(), {.clients = clients(), .most_states = kStatesOfAll});
  }
#if SIDELATCH_IS_SANITIZED
  expect_none(form(), {.clients = clients(), .losses = 0, .repeats = 0, .overtakings = 1, .early_timers = 0});
  return;
#endif
  if (is_sample(form())) {
    const int overtakings = clients()[1] == Script::twice ? 0 : 1;
    expect_none(form(),
                {.clients = clients(), .losses = 0, .repeats = 1, .overtakings = overtakings, .early_timers = 0});
    return;
  }
  expect_none(form(), {.clients = clients(), .losses = 1, .repeats = 0, .overtakings = 1, .early_timers = 0});
  expect_none(form(), {.clients = clients(), .losses = 0, .repeats = 1, .overtakings = 1, .early_timers = 0});
  if (clients()[1] != Script::twice) {  // a million states
    expect_none(form(), {.clients = clients(), .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 1});
  }
}

INSTANTIATE_TEST_SUITE_P(Scripts, SwitchOptimisticSearch,
                         testing::Combine(testing::ValuesIn(kForms), testing::ValuesIn(kCases)), name_of);

// The first client dies, at any time.
const std::vector<Case> kDeaths = {
    {"AWriterBesideARead", {Script::writer, Script::reader}},
    {"AWriterBesideAWriter", {Script::writer, Script::writer}},
    {"AnUpdaterBesideAnUpdater", {Script::updater, Script::updater}},
    {"AnAborterBesideARead", {Script::aborter, Script::reader}},
    {"AWriterAndItsHeir", {Script::writer, Script::heir}},
};

class SwitchOptimisticDeath : public SearchOfBoth {};

TEST_P(SwitchOptimisticDeath, LeavesWhatIsWholeOrInDoubt) {
  SearchOptions options{
      .clients = clients(), .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0, .dies = 0};
  expect_none(form(), options);
#if !SIDELATCH_IS_SANITIZED
  options.repeats = 1;
  expect_none(form(), options);
  options.repeats = 0;
  if (!is_sample(form())) {
    options.losses = 1;
    expect_none(form(), options);
  }
#endif
}

INSTANTIATE_TEST_SUITE_P(Scripts, SwitchOptimisticDeath,
                         testing::Combine(testing::ValuesIn(kForms), testing::ValuesIn(kDeaths)), name_of);

// The switch loses everything, at any time, once; or another one takes its place.
const std::vector<Case> kRestarts = {
    {"AReadBesideAWrite", {Script::reader, Script::writer}},
    {"TwoWrites", {Script::writer, Script::writer}},
    {"TwoUpdates", {Script::updater, Script::updater}},
    {"AReadBesideAnUnlatchWithoutAWrite", {Script::reader, Script::aborter}},
    {"AVerifiedReadBesideAWrite", {Script::verifier, Script::writer}},
};

class SwitchOptimisticRestart : public SearchOfBoth {};

SearchOptions with_a_restart(const std::vector<Script>& clients) {
  return {.clients = clients, .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0, .restarts = true};
}

TEST_P(SwitchOptimisticRestart, LosesNothingAndTearsNothing) {
  SearchOptions options = with_a_restart(clients());
  expect_none(form(), options);
#if !SIDELATCH_IS_SANITIZED
  if (!is_sample(form())) {
    options.losses = 1;
    expect_none(form(), options);
    options.losses = 0;
    options.repeats = 1;
    expect_none(form(), options);
  }
#endif
  if (takes_long()) {
    options.losses = 1;
    options.overtakings = 1;
    options.most_states = kStatesOfAll;
    expect_none(form(), options);
  }
}

INSTANTIATE_TEST_SUITE_P(Scripts, SwitchOptimisticRestart,
                         testing::Combine(testing::ValuesIn(kForms), testing::ValuesIn(kRestarts)), name_of);

void expect_caught(const SearchOptions& options) {
  const SearchResult result = search(p4::programs::switch_optimistic(), options);
  EXPECT_NE(result.violation, "") << result.states << " states";
  std::printf("%s\n", trace_of(result).c_str());
}

// Recovery without one of its steps.
const std::vector<Script> kUpdates{Script::updater, Script::updater};
TEST(SwitchOptimisticRestartSpecimen, AnOldSwitchThatGoesOnAcknowledgesWhatIsLost) {
  SearchOptions options = with_a_restart(kUpdates);
  options.fences_switch = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartSpecimen, AnEndWithoutAReadLosesWhatWasAcknowledged) {
  SearchOptions options = with_a_restart(kUpdates);
  options.reads_before_end = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartSpecimen, AQueuePairThatLivesOnWritesIntoTheNextEpoch) {
  SearchOptions options = with_a_restart(kUpdates);
  options.ends_queue_pair = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartSpecimen, VersionsOfTheOldEpochComeTwice) {
  SearchOptions options = with_a_restart({Script::reader, Script::aborter});
  options.begins_epoch = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartSpecimen, AWriteThatWasInFlightAndIsNotRepeatedLeavesATornTuple) {
  SearchOptions options = with_a_restart(kUpdates);
  options.writes_again = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartSpecimen, AWriteThatIsRepeatedOverALaterOneLosesThat) {
  SearchOptions options = with_a_restart(kUpdates);
  options.looks_at_header = false;
  expect_caught(options);
}

// One client may die, and the switch may restart: in any order, and while the other is not over.
const std::vector<Case> kRestartsWithDeaths = {
    {"AWriterBesideARead", {Script::writer, Script::reader}},
    {"AWriterBesideAWriter", {Script::writer, Script::writer}},
    {"AnUpdaterBesideAnUpdater", {Script::updater, Script::updater}},
    {"AnAborterBesideARead", {Script::aborter, Script::reader}},
    {"AWriterBesideAVerifiedRead", {Script::writer, Script::verifier}},
    {"AWriterAndItsHeir", {Script::writer, Script::heir}},
};

class SwitchOptimisticRestartAndDeath : public SearchOfBoth {};

SearchOptions with_both(const std::vector<Script>& clients) {
  SearchOptions options = with_a_restart(clients);
  options.dies = 0;
  return options;
}

TEST_P(SwitchOptimisticRestartAndDeath, LoseNothingThatWasAcknowledged) {
  if ((is_sampled() || is_sample(form())) && (clients()[1] == Script::updater || clients()[1] == Script::verifier)) {
    GTEST_SKIP() << (is_sampled() ? kLeftOut : "CI has a sample; SIDELATCH_LONG=1 runs it");
  }
  SearchOptions options = with_both(clients());
  expect_none(form(), options);
  if (takes_long()) {
    options.most_states = kStatesOfAll;
    options.repeats = 1;
    expect_none(form(), options);
    options.losses = 1;
    expect_none(form(), options);
  }
}

INSTANTIATE_TEST_SUITE_P(Scripts, SwitchOptimisticRestartAndDeath,
                         testing::Combine(testing::ValuesIn(kForms), testing::ValuesIn(kRestartsWithDeaths)), name_of);

// The new switch is told of nobody who had died before.
TEST(SwitchOptimisticRestartAndDeathSpecimen, AQueuePairOfADeadClientThatLivesOnTearsTheNextEpoch) {
  SearchOptions options = with_both({Script::writer, Script::reader});
  options.ends_dead = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartAndDeathSpecimen, AnEndWithoutAReadLosesWhatWasAcknowledgedToALivingClient) {
  SearchOptions options = with_both({Script::writer, Script::updater});
  options.reads_before_end = false;
  expect_caught(options);
}
// Who is to make its WRITE again dies before that.
TEST(SwitchOptimisticRestartAndDeathSpecimen, AWriteThatIsMadeAgainUnderAnOrdinaryLatchLeavesATornTuple) {
  SearchOptions options = with_both({Script::writer, Script::reader});
  options.latches_again = false;
  expect_caught(options);
}
TEST(SwitchOptimisticRestartAndDeathSpecimen, VersionsOfTheOldEpochComeTwice) {
  SearchOptions options = with_both({Script::aborter, Script::reader});
  options.begins_epoch = false;
  expect_caught(options);
}

// The control plane without one of its steps.
TEST(SwitchOptimisticDeathSpecimen, AnEndWithoutAReadLosesWhatWasAcknowledged) {
  const SearchResult result = search(p4::programs::switch_optimistic(), {.clients = {Script::writer, Script::reader},
                                                                         .losses = 0,
                                                                         .repeats = 0,
                                                                         .overtakings = 0,
                                                                         .early_timers = 0,
                                                                         .dies = 0,
                                                                         .reads_before_end = false});
  EXPECT_NE(result.violation, "");
  std::printf("%s\n", trace_of(result).c_str());
}
TEST(SwitchOptimisticDeathSpecimen, AReleaseBeforeTheQueuePairEndsMixesTwoWrites) {
  const SearchResult result = search(p4::programs::switch_optimistic(), {.clients = {Script::writer, Script::heir},
                                                                         .losses = 0,
                                                                         .repeats = 0,
                                                                         .overtakings = 0,
                                                                         .early_timers = 0,
                                                                         .dies = 0,
                                                                         .ends_queue_pair = false});
  EXPECT_NE(result.violation, "");
  std::printf("%s\n", trace_of(result).c_str());
}

void expect_caught(const std::string& right, const std::string& wrong, const SearchOptions& options) {
  const SearchResult result = search(changed_program("switch_optimistic.p4", right, wrong), options);
  EXPECT_NE(result.violation, "") << result.states << " states";
  std::printf("%s\n", trace_of(result).c_str());
  EXPECT_FALSE(result.trace.empty());
}

TEST(SwitchOptimisticSpecimen, AVerdictThatIsAlwaysGoodIsCaught) {
  expect_caught("bit<64> verdict = 1;", "bit<64> verdict = version & ~64w1;",
                {.clients = {Script::reader, Script::writer}, .losses = 0, .repeats = 0, .early_timers = 0});
}
TEST(SwitchOptimisticSpecimen, AVersionThatIsStoredAgainForARepeatedReadIsCaught) {
  expect_caught(
      "        if (kind == ANSWERED) {\n            if (is_new)",
      "        if (kind == READ) { seen.write(connection, version); }\n"
      "        if (kind == ANSWERED) {\n            if (is_new)",
      {.clients = {Script::reader, Script::writer}, .losses = 0, .repeats = 1, .overtakings = 0, .early_timers = 0});
}
TEST(SwitchOptimisticSpecimen, AnAcknowledgementThatIsNotMatchedByPsnIsCaught) {
  expect_caught(
      "|| psn != asked ||", "||",
      {.clients = {Script::twice, Script::reader}, .losses = 0, .repeats = 1, .overtakings = 1, .early_timers = 0});
}
TEST(SwitchOptimisticSpecimen, ASecondAcknowledgementThatUnlatchesIsCaught) {
  expect_caught("bool is_first = latest & WAITING != 0;", "bool is_first = true;",
                {.clients = {Script::reader, Script::writer}, .losses = 0, .early_timers = 0});
}
TEST(SwitchOptimisticSpecimen, ARepeatedLatchThatIsExecutedAgainIsCaught) {
  expect_caught("                kept.read(old, connection);", "",
                {.clients = {Script::writer, Script::aborter}, .repeats = 0, .overtakings = 0, .early_timers = 0});
}
// As published: equal versions make a READ good. An odd one is latched all the time.
TEST(SwitchOptimisticSpecimen, AnEqualVersionThatIsOddIsCaught) {
  expect_caught(
      "if (version == before && (version[0:0] == 0 || is_own)) {\n                    verdict = version;",
      "if (version == before) {\n                    verdict = version & ~64w1;",
      {.clients = {Script::reader, Script::writer}, .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0});
}
// As published: a WRITE to a tuple's address is its holder's.
TEST(SwitchOptimisticSpecimen, AWriteByWhoHoldsNoLatchIsCaught) {
  expect_caught(
      "if (is_new && kind == WRITE && (!is_mine || holder & HAS_READ == 0)) {", "if (false) {",
      {.clients = {Script::reader, Script::intruder}, .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0});
}
// The first WRITE may be placed after the second one, which did not wait for it.
TEST(SwitchOptimisticSpecimen, AWriteWithoutAReadIsCaught) {
  expect_caught(
      "(!is_mine || holder & HAS_READ == 0)", "!is_mine",
      {.clients = {Script::writer, Script::blind}, .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0});
}

}  // namespace searched
}  // namespace
}  // namespace sidelatch::switchsync
