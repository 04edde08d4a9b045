// p4/zero_sided.p4 in every execution of flows with two slots, and specimens of it that must be caught.
#include "flow_search.h"

#include "tests/sampled.h"
#include "tests/switchsync/changed_program.h"

#include <sidelatch/flows/flow_switch.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace sidelatch::flows {
namespace {
namespace flow_searches {

constexpr std::size_t kMostSteps = 100;  // printed

std::string trace_of(const FlowSearchResult& result) {
  std::string text = result.violation;
  const std::size_t first = result.trace.size() > kMostSteps ? result.trace.size() - kMostSteps : 0;
  for (std::size_t i = first; i < result.trace.size(); ++i) {
    text += "\n  " + result.trace[i];
  }
  return text;
}

// Two producers, two threads and one thing have too many states to be searched whole.
constexpr std::uint64_t kStatesOfAll = 2'000'000;

void expect_none(const FlowSearchOptions& options) {
  FlowSearchOptions sampled = options;
  sampled.items = is_sampled() ? 1 : options.items;
  const FlowSearchResult result = search(zero_sided_program(), sampled);
  std::printf("%llu states, %llu ends\n", static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.ends));
  EXPECT_EQ(result.violation, "") << trace_of(result);
  EXPECT_TRUE(result.is_complete || options.most_states == kStatesOfAll);
  EXPECT_GT(result.ends, 0U);
}

FlowSearchOptions replicated(FlowSearchOptions options) {
  options.kind = FlowKind::replicate;
  options.consumers = 2;
  return options;
}

TEST(ZeroSidedSearch, AGoodNetwork) { expect_none({.idle_polls = 1}); }
TEST(ZeroSidedSearch, ALostFrame) { expect_none({.losses = 1}); }
TEST(ZeroSidedSearch, ARepeatedFrame) { expect_none({.items = 2, .repeats = 1}); }
TEST(ZeroSidedSearch, AnOvertakingFrame) { expect_none({.overtakings = 1}); }
TEST(ZeroSidedSearch, AnEarlyTimer) { expect_none({.items = 2, .early_timers = 1}); }
TEST(ZeroSidedSearch, ADeadProducer) { expect_none({.items = 2, .producer_dies = true}); }
TEST(ZeroSidedSearch, ADeadConsumer) { expect_none({.items = 2, .consumer_dies = true}); }
// Failed when the unit was given up that was silent last, and not the one that had been silent so often.
TEST(ZeroSidedSearch, ADeadProducerAndALostFrame) { expect_none({.items = 2, .losses = 1, .producer_dies = true}); }
TEST(ZeroSidedSearch, ADeadConsumerAndALostFrame) { expect_none({.items = 2, .losses = 1, .consumer_dies = true}); }
TEST(ZeroSidedSearch, ReplicationToTwo) { expect_none(replicated({.items = 2})); }
TEST(ZeroSidedSearch, ReplicationAndALostFrame) { expect_none(replicated({.items = 1, .losses = 1})); }
TEST(ZeroSidedSearch, ReplicationAndARepeatedFrame) { expect_none(replicated({.items = 1, .repeats = 1})); }
TEST(ZeroSidedSearch, ReplicationAndAnOvertakingFrame) { expect_none(replicated({.items = 1, .overtakings = 1})); }
TEST(ZeroSidedSearch, ReplicationAndADeadConsumer) { expect_none(replicated({.items = 1, .consumer_dies = true})); }
TEST(ZeroSidedSearch, ReplicationAndADeadProducer) { expect_none(replicated({.items = 1, .producer_dies = true})); }
TEST(ZeroSidedSearch, AUnitThatLivesAndIsGivenUp) {
  expect_none({.items = 1, .early_timers = 2, .is_impatient = true});
}
TEST(ZeroSidedSearch, ReplicationAndAConsumerThatLivesAndIsGivenUp) {
  expect_none(replicated({.items = 1, .losses = 2, .is_impatient = true}));
}
TEST(ZeroSidedSearch, ALimitedRate) { expect_none({.items = 2, .losses = 1, .is_paced = true}); }
TEST(ZeroSidedSearch, ALimitedRateWhoseBatchesArePaidForInTime) {
  expect_none({.items = 3, .slots = 1, .is_paced = true, .payments = 2});
  expect_none({.items = 2, .slots = 1, .losses = 1, .is_paced = true, .payments = 1});
  expect_none({.items = 2, .slots = 1, .repeats = 1, .is_paced = true, .payments = 1});
  expect_none({.items = 2, .slots = 1, .overtakings = 1, .is_paced = true, .payments = 1});
  expect_none({.items = 2, .slots = 1, .early_timers = 1, .is_paced = true, .payments = 1});
}
// Two threads, which share the producers.
FlowSearchOptions balanced(std::uint32_t producers, FlowSearchOptions options) {
  options.kind = FlowKind::balance;
  options.producers = producers;
  options.consumers = 2;
  return options;
}
TEST(ZeroSidedSearch, BalanceOfOneProducer) { expect_none(balanced(1, {.items = 2, .idle_polls = 1})); }
TEST(ZeroSidedSearch, BalanceOfTwoProducers) { expect_none(balanced(2, {.items = 1, .is_coarse = true})); }
TEST(ZeroSidedSearch, BalanceAndALostFrame) {
  expect_none(balanced(1, {.items = 2, .losses = 1, .idle_polls = 1, .is_coarse = true}));
}
TEST(ZeroSidedSearch, BalanceAndTwoLostFrames) {  // its thread lets go of the producer
  expect_none(balanced(1, {.items = 1, .losses = 2, .idle_polls = 1, .is_coarse = true}));
}
TEST(ZeroSidedSearch, BalanceAndARepeatedFrame) {
  expect_none(balanced(1, {.items = 2, .repeats = 1, .idle_polls = 1, .is_coarse = true}));
}
TEST(ZeroSidedSearch, BalanceAndAnOvertakingFrame) {
  expect_none(balanced(1, {.items = 2, .overtakings = 1, .idle_polls = 1, .is_coarse = true}));
}
TEST(ZeroSidedSearch, BalanceAndADeadConsumer) {
  expect_none(balanced(1, {.items = 2, .losses = 1, .idle_polls = 1, .consumer_dies = true, .is_coarse = true}));
}
TEST(ZeroSidedSearch, BalanceAndADeadProducer) {
  expect_none(balanced(1, {.items = 2, .losses = 1, .idle_polls = 1, .producer_dies = true, .is_coarse = true}));
}
TEST(ZeroSidedSearch, TwoProducersToOne) { expect_none({.producers = 2, .items = 2, .is_coarse = true}); }
// One that is silent is put aside.
TEST(ZeroSidedSearch, TwoProducersToOneAndALostFrame) {
  expect_none({.producers = 2, .items = 1, .losses = 1, .is_coarse = true});
}
TEST(ZeroSidedSearch, TwoProducersToOneAndARepeatedFrame) {
  expect_none({.producers = 2, .items = 1, .losses = 1, .repeats = 1, .is_coarse = true});
}
TEST(ZeroSidedSearch, TwoProducersToOneInPacketsAndTwoLostFrames) {
  expect_none({.producers = 2, .items = 1, .packets = 2, .losses = 2, .is_coarse = true});
}
TEST(ZeroSidedSearch, TwoProducersToOneAndOneOfThemDies) {
  expect_none({.producers = 2, .items = 1, .losses = 1, .producer_dies = true, .is_coarse = true});
}
TEST(ZeroSidedSearch, TwoProducersToOneThatDies) {
  expect_none({.producers = 2, .items = 1, .losses = 1, .consumer_dies = true, .is_coarse = true});
}
TEST(ZeroSidedSearch, TwoProducersToOneAndAnEarlyTimer) {
  expect_none({.producers = 2, .items = 1, .early_timers = 1, .is_coarse = true});
}
TEST(ZeroSidedSearch, TwoThings) {
  if (!takes_long()) {
    GTEST_SKIP() << "SIDELATCH_LONG=1 runs it";
  }
  expect_none({.losses = 1, .overtakings = 1});
  expect_none({.losses = 1, .repeats = 1});
  expect_none({.repeats = 1, .overtakings = 1});
  expect_none({.repeats = 1});
  expect_none({.early_timers = 1});
  expect_none({.losses = 2});
  expect_none({.losses = 1, .early_timers = 1});
  expect_none({.overtakings = 1, .early_timers = 1});
  expect_none({.items = 2, .packets = 2, .losses = 1, .overtakings = 1});
  expect_none(replicated({.items = 2, .losses = 1}));
  expect_none(replicated({.items = 2, .overtakings = 1}));
  expect_none(replicated({.items = 2, .early_timers = 1}));
  expect_none(replicated({.items = 1, .losses = 1, .consumer_dies = true}));
  expect_none({.items = 2, .early_timers = 2, .is_impatient = true});
  expect_none(replicated({.items = 2, .losses = 2, .is_impatient = true}));
  expect_none(replicated({.items = 2, .slots = 1, .losses = 2, .is_impatient = true}));
}
TEST(ZeroSidedSearch, BalanceOfTwoProducersAndOneThing) {
  if (!takes_long()) {
    GTEST_SKIP() << "SIDELATCH_LONG=1 runs it";
  }
  expect_none(balanced(2, {.items = 1, .idle_polls = 2, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(balanced(2, {.items = 1, .packets = 2, .losses = 1, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(balanced(2, {.items = 1, .packets = 2, .repeats = 1, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(
      balanced(2, {.items = 1, .packets = 2, .overtakings = 1, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(
      balanced(2, {.items = 1, .packets = 2, .early_timers = 1, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(
      balanced(2, {.items = 1, .packets = 2, .producer_dies = true, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(
      balanced(2, {.items = 1, .packets = 2, .consumer_dies = true, .is_coarse = true, .most_states = kStatesOfAll}));
  expect_none(balanced(2, {.items = 2, .slots = 1, .is_coarse = true, .most_states = kStatesOfAll}));
}

void expect_caught(const std::string& right, const std::string& wrong, const FlowSearchOptions& options) {
  const FlowSearchResult result = search(switchsync::changed_program("zero_sided.p4", right, wrong), options);
  EXPECT_NE(result.violation, "") << result.states << " states";
  std::printf("%s\n", trace_of(result).c_str());
  EXPECT_FALSE(result.trace.empty());
}

TEST(ZeroSidedSpecimen, AHeadThatMovesBeforeAllDataIsThereIsCaught) {
  expect_caught("if (have == batch_packets) {", "if (have != 0) {", {.items = 2, .packets = 2, .losses = 1});
}
TEST(ZeroSidedSpecimen, AnAcknowledgementOfDataThatCountsForTheHeadIsCaught) {
  expect_caught("phase == PUSH && is_ack && from_c == 0", "phase == PUSH && is_ack", {.losses = 1, .repeats = 1});
}
TEST(ZeroSidedSpecimen, ANakThatCountsForThePacketThatIsMissingIsCaught) {
  expect_caught("if (is_ack) {\n            arrived = from_c + 1;",
                "if (is_ack || is_gap) {\n            arrived = from_c + 1;", {.items = 2, .losses = 1});
}
TEST(ZeroSidedSpecimen, ARepeatedRequestWithAnotherPsnIsCaught) {
  expect_caught("tried = tried + 1;\n", "tried = tried + 1;\n p_psn = p_psn + 1;\n", {.losses = 1});
}
TEST(ZeroSidedSpecimen, APlaceByTheOrderOfArrivalIsCaught) {
  expect_caught("bit<32> number = (bit<32>)from_p;", "bit<32> number = upto;", {.overtakings = 1});
}
TEST(ZeroSidedSpecimen, AReadThatGoesOnFromTheBeginningIsCaught) {
  expect_caught("(bit<64>)stride + (bit<64>)at, p_key", "(bit<64>)stride, p_key",
                {.items = 2, .packets = 2, .losses = 1});
}
TEST(ZeroSidedSpecimen, AFullConsumerThatIsTakenForAnEmptyOneIsCaught) {
  expect_caught("bit<32> full = (c_head - tail) & COUNT;", "bit<32> full = 0;", {});
}
TEST(ZeroSidedSpecimen, AnAnswerOfAnEarlierQuestionIsCaught) {
  expect_caught("phase == HEAD && is_counter && from_p == 0", "phase == HEAD && is_counter",
                {.items = 1, .losses = 1, .repeats = 1});
}
TEST(ZeroSidedSpecimen, ABatchThatGoesAroundTheEndIsCaught) {
  expect_caught("smaller(p_slots - first_p, c_slots - first_c)", "p_slots", {});
}
TEST(ZeroSidedSpecimen, AHeadThatMovesWhenOneConsumerHasTheDataIsCaught) {
  expect_caught("if (answered | given_up == all_bits) {\n                    c_psn = ",
                "if (true) {\n                    c_psn = ", replicated({.items = 1, .losses = 1}));
}
TEST(ZeroSidedSpecimen, CopiesForAConsumerThatWasGivenUpAreCaught) {
  if (!takes_long()) {
    GTEST_SKIP() << "ten seconds; SIDELATCH_LONG=1 runs it, and flow_cuts_test.cpp does the same without a search";
  }
  expect_caught("m.left_out = given_up;", "", replicated({.items = 2, .slots = 1, .losses = 2, .is_impatient = true}));
}
TEST(ZeroSidedSpecimen, NoTimeOutIsCaught) {
  expect_caught("phase > SEEK && passed_since(sent_at, now) >= time_out", "false", {.items = 1, .losses = 1});
}
TEST(ZeroSidedSpecimen, APsnThatIsNotFilledAfterADeathIsCaught) {
  expect_caught("if (phase == DATA && upto > have) {", "if (false) {", {.items = 2, .producer_dies = true});
}
TEST(ZeroSidedSpecimen, ADeathThatIsKeptSecretIsCaught) {
  expect_caught("head = head | BROKEN;", "head = head | 0;", {.items = 2, .producer_dies = true});
}
TEST(ZeroSidedSpecimen, APaymentThatCountsTwiceIsCaught) {
  expect_caught("phase = IDLE;\n                }\n                pace = smaller(pace, PACED);",
                "phase = IDLE;\n                }", {.items = 3, .slots = 1, .is_paced = true, .payments = 1});
}
TEST(ZeroSidedSpecimen, ABatchThatIsNotPaidForIsCaught) {
  expect_caught("if (pace == PACED || began != now) {", "if (began != now) {",
                {.items = 2, .slots = 1, .is_paced = true});
}
// Of producers that are put aside.
const FlowSearchOptions kTwoProducersAndALoss{.producers = 2, .items = 1, .losses = 1, .is_coarse = true};
const FlowSearchOptions kTwoProducersAndTwoLosses{
    .producers = 2, .items = 1, .packets = 2, .losses = 2, .is_coarse = true};
TEST(ZeroSidedSpecimen, ATailThatIsForgottenWhenItsProducerIsSilentIsCaught) {
  expect_caught("p_tail = (p_tail + batch) & COUNT;\n        }\n        if (copies != 0) {",
                "}\n        if (copies != 0) {", kTwoProducersAndALoss);
}
TEST(ZeroSidedSpecimen, ASilentProducerThatIsAskedForLessIsCaught) {
  expect_caught("} else if (pending == 0) {\n                request(", "} else if (true) {\n                request(",
                kTwoProducersAndTwoLosses);
}
TEST(ZeroSidedSpecimen, APsnThatIsSkippedAfterASilenceIsCaught) {
  expect_caught("p_psn = (bit<32>)(p_psn[23:0] + from_p + 1);", "p_psn = (bit<32>)(p_psn[23:0] + from_p + 2);",
                kTwoProducersAndTwoLosses);
}
TEST(ZeroSidedSpecimen, APsnThatIsNotFilledWhenAConsumerIsSilentIsCaught) {
  expect_caught("phase = FILL;\n        batch = upto;  // packets\n        tried = silent;",
                "phase = SEEK;\n        batch = 0;\n        tried = silent;",
                balanced(1, {.items = 1, .losses = 2, .idle_polls = 1, .is_coarse = true}));
}
TEST(ZeroSidedSpecimen, ASilentProducerThatIsNeverAskedAgainIsCaught) {
  expect_caught("asks_again = true;", "goes_round = true;", kTwoProducersAndALoss);
}
TEST(ZeroSidedSpecimen, AProducerThatTwoThreadsTakeIsCaught) {
  expect_caught("} else if (lock != 0 && lock != t + 1) {", "} else if (false) {",
                balanced(1, {.items = 1, .idle_polls = 1, .is_coarse = true}));
}
TEST(ZeroSidedSpecimen, WhatADeadConsumerMayHaveAndAnotherOneGetsIsCaught) {
  expect_caught("p_tail = (p_tail + batch) & COUNT;  // its head may have moved: they are its items", "",
                balanced(1, {.items = 1, .losses = 1, .consumer_dies = true, .is_coarse = true}));
}
TEST(ZeroSidedSpecimen, ALockThatADeadConsumerKeepsIsCaught) {
  expect_caught("if (drained && lock == t + 1) {", "if (false) {",
                balanced(1, {.items = 1, .consumer_dies = true, .is_coarse = true}));
}

}  // namespace flow_searches
}  // namespace
}  // namespace sidelatch::flows
