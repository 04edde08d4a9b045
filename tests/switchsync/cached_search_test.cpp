// p4/switch_cached.p4 in every execution of two clients with one operation each, beside a control plane that makes
// their tuple hot and cold.
#include "changed_program.h"
#include "optimistic_search.h"

#include "common/sanitizers.h"
#include "tests/sampled.h"

#include <p4/switch_cached.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace cached {

void expect_none(const SearchOptions& options) {
  const SearchResult result = search(p4::programs::switch_cached(), options);
  std::printf("%llu states, %llu ends\n", static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.ends));
  EXPECT_EQ(result.violation, "") << trace_of(result);
  EXPECT_TRUE(result.is_complete || options.most_states == kStatesOfAll);
  EXPECT_GT(result.ends, 0U);
}

void expect_caught(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options) {
  const SearchResult result = search(program, options);
  EXPECT_NE(result.violation, "") << result.states << " states";
  std::printf("%s\n", trace_of(result).c_str());
}
void expect_caught(const SearchOptions& options) { expect_caught(p4::programs::switch_cached(), options); }

SearchOptions with_moves(const std::vector<Script>& clients, bool is_cold, int moves) {
  return {.clients = clients,
          .losses = 0,
          .repeats = 0,
          .overtakings = 0,
          .early_timers = 0,
          .is_cold = is_cold,
          .moves = moves};
}

struct Case {
  const char* name;
  std::vector<Script> clients;
};
const std::vector<Case> kCases = {
    {"AReadBesideAWrite", {Script::reader, Script::writer}},
    {"TwoWrites", {Script::writer, Script::writer}},
    {"TwoUpdates", {Script::updater, Script::updater}},
    {"AReadBesideAnUnlatchWithoutAWrite", {Script::reader, Script::aborter}},
    {"AVerifiedReadBesideAWrite", {Script::verifier, Script::writer}},
};

class CachedTupleSearch : public testing::TestWithParam<Case> {};

// Cold, hot, cold again; and hot, cold, hot.
TEST_P(CachedTupleSearch, FindsNothingWhileTheTupleMoves) {
  for (const bool is_cold : {true, false}) {
    SearchOptions options = with_moves(GetParam().clients, is_cold, 2);
    expect_none(options);
#if !SIDELATCH_IS_SANITIZED
    const bool is_short = GetParam().clients[0] == GetParam().clients[1] || GetParam().clients[1] == Script::aborter;
    if (GetParam().clients[0] != Script::updater && (is_cold || is_short)) {  // else a minute
      options.losses = 1;
      expect_none(options);
      options.losses = 0;
      options.repeats = is_short ? 1 : 0;
      expect_none(options);
    }
#endif
    if (takes_long()) {
      options.most_states = kStatesOfAll;
      options.losses = 1;
      options.repeats = 1;
      options.moves = 3;
      options.overtakings = 1;
      expect_none(options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scripts, CachedTupleSearch, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

// READs of clients wait for what is acknowledged and not placed, as the control plane's does (memory model, rule 2). So
// the tuple may be cold before its last WRITE is placed.
TEST(CachedTupleSearchWithoutADrain, FindsNothing) {
  SearchOptions options = with_moves({Script::writer, Script::reader}, false, 1);
  options.drains = false;
  expect_none(options);
}

// The first client dies at any time, also while its tuple moves.
class CachedTupleDeath : public testing::TestWithParam<Case> {};

TEST_P(CachedTupleDeath, LeavesWhatIsWholeOrInDoubt) {
  for (const bool is_cold : {true, false}) {
    SearchOptions options = with_moves(GetParam().clients, is_cold, 2);
    options.dies = 0;
    expect_none(options);
  }
}
const std::vector<Case> kDeaths = {
    {"AWriterBesideARead", {Script::writer, Script::reader}},
    {"AWriterBesideAWriter", {Script::writer, Script::writer}},
    {"AnAborterBesideARead", {Script::aborter, Script::reader}},
};
INSTANTIATE_TEST_SUITE_P(Scripts, CachedTupleDeath, testing::ValuesIn(kDeaths),
                         [](const auto& one) { return std::string(one.param.name); });

// The switch restarts at any time, also while the tuple moves.
class CachedTupleRestart : public testing::TestWithParam<Case> {};

TEST_P(CachedTupleRestart, LosesNothingAndTearsNothing) {
  for (const bool is_cold : {true, false}) {
#if SIDELATCH_IS_SANITIZED
    if (GetParam().clients[0] == Script::updater) {
      GTEST_SKIP() << kLeftOut;
    }
#endif
    SearchOptions options = with_moves(GetParam().clients, is_cold, 2);
    options.restarts = true;
    expect_none(options);
  }
}
INSTANTIATE_TEST_SUITE_P(Scripts, CachedTupleRestart, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

// A move without one of its steps.
TEST(CachedTupleSpecimen, ATupleThatBecomesColdWhileItIsLatchedIsCaught) {
  SearchOptions options = with_moves({Script::writer, Script::reader}, false, 1);
  options.keeps_out = false;
  expect_caught(options);
}
TEST(CachedTupleSpecimen, AVersionThatDoesNotReachTheWordIsCaught) {
  SearchOptions options = with_moves({Script::aborter, Script::reader}, false, 1);
  options.writes_word = false;
  expect_caught(options);
}
TEST(CachedTupleSpecimen, AColdReadThatIsGoodAfterTheTupleHasBecomeHotIsCaught) {
  SearchOptions options = with_moves({Script::writer, Script::reader}, true, 1);
  options.counts_moves = false;
  expect_caught(options);
}

// The program with a mistake.
TEST(CachedTupleSpecimen, AColdReadThatIsNotJudgedIsCaught) {
  expect_caught(changed_cached_program("if (before != (moved << 1 | 1)) {", "if (false) {"),
                with_moves({Script::writer, Script::reader}, true, 1));
}
TEST(CachedTupleSpecimen, ARepeatedRequestThatIsTakenForWhatTheTupleIsNowIsCaught) {
  SearchOptions options = with_moves({Script::reader, Script::reader}, true, 1);
  options.losses = 1;
  expect_caught(changed_cached_program("is_hot = latest & KIND != COLD;", ""), options);
}
}  // namespace cached
}  // namespace
}  // namespace sidelatch::switchsync
