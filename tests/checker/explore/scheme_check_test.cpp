// The table of verdicts: each scheme of the registry is safe or broken under each preset as docs/memory-model.md says.
#include <sidelatch/explore/scheme_check.h>

#include "checking.h"

#include "tests/sampled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

CellOptions cell(Preset preset) {
  CellOptions options;
  options.options.rules = rules_of(preset);
  options.options.writing_retries = 1;
  if (is_sampled()) {
    options.options.states_for_loops = 2'000;
  }
  return options;
}

class EveryCell : public ::testing::TestWithParam<std::tuple<checker::SchemeEntry, Preset>> {
 protected:
  [[nodiscard]] const checker::SchemeEntry& entry() const { return std::get<0>(GetParam()); }
  [[nodiscard]] Preset preset() const { return std::get<1>(GetParam()); }
};

TEST_P(EveryCell, HasTheDocumentedVerdict) {
  const CellOptions options = cell(preset());
  const CellResult result = explore_cell(entry().name, options);
  const Verdict& verdict = result.verdict;
  if (entry().safe_under(preset())) {
    // Readers of RwLatch count themselves in and out in vain. Others see that, so only the search through states
    // decides.
    const bool attempts_are_seen = entry().name.starts_with("latch-rw/") || entry().name.starts_with("broken/rw-");
    if (attempts_are_seen && is_sampled()) {
      ASSERT_TRUE(verdict.outcome == Outcome::safe || verdict.only_loops_bounded) << to_text(verdict);
    } else {
      ASSERT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
    }
    EXPECT_FALSE(verdict.violation);
    EXPECT_GE(result.programs, 2U);
    return;
  }
  ASSERT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  ASSERT_TRUE(verdict.violation);
  EXPECT_THAT(verdict.violation->trace, Not(IsEmpty()));
  EXPECT_THAT(verdict.violation->what, Not(IsEmpty()));
  EXPECT_EQ(verdict.violation->trace.back().note, verdict.violation->what);
  const Verdict again = replay_cell(entry().name, result.workload, options.options, verdict.violation->choices);
  ASSERT_EQ(again.outcome, Outcome::broken) << to_text(again);
  EXPECT_EQ(again.violation->kind, verdict.violation->kind);
  EXPECT_EQ(again.violation->what, verdict.violation->what);
  // Writing and parsing the workload does not change it.
  const Workload kept = workload_of(nlohmann::ordered_json::parse(to_json(result.workload).dump()));
  EXPECT_EQ(to_json(kept), to_json(result.workload));
}

std::string test_name(const auto& info) {
  std::string text = std::string(std::get<0>(info.param).name) + "_" + std::string(name(std::get<1>(info.param)));
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

std::vector<checker::SchemeEntry> latches_at_switches() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes_at_switches()) {
    if (entry.place() == sync::LatchPlace::words_at_switch) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(AtSwitches, EveryCell,
                         ::testing::Combine(::testing::ValuesIn(latches_at_switches()),
                                            ::testing::Values(Preset::strict, Preset::observed, Preset::spec,
                                                              Preset::relaxed)),
                         [](const auto& parameter) { return test_name(parameter); });

INSTANTIATE_TEST_SUITE_P(Registry, EveryCell,
                         ::testing::Combine(::testing::ValuesIn(checker::schemes().begin(), checker::schemes().end()),
                                            ::testing::Values(Preset::strict, Preset::observed, Preset::spec,
                                                              Preset::relaxed)),
                         [](const auto& parameter) { return test_name(parameter); });

// ---- The violation of broken schemes for which only one is possible.

Kind kind_of(std::string_view scheme, Preset preset) {
  const CellResult result = explore_cell(scheme, cell(preset));
  EXPECT_TRUE(result.verdict.violation) << scheme;
  return result.verdict.violation ? result.verdict.violation->kind : Kind::exception;
}

TEST(Cells, BrokenReadsAreTorn) {
  // Their writers are those of safe schemes, so only readers see a violation.
  for (const char* scheme : {"broken/naive", "broken/bookend", "broken/marking", "broken/overlapped-reads",
                             "broken/version-only-validation", "optimistic/crc64+crc8"}) {
    EXPECT_EQ(kind_of(scheme, Preset::observed), Kind::torn_read) << scheme;
  }
}

TEST(Cells, AnUnlatchThatNobodyWatchesIsADeadlock) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_EQ(kind_of("broken/rw-async-cas-unlatch", preset), Kind::deadlock);
  }
}

TEST(Cells, ABufferThatIsUsedTooEarlyIsARace) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_EQ(kind_of("broken/shared-buffer-async", preset), Kind::buffer_race);
  }
}

// ---- Other cells.

// With the header in front, the version is placed before the data. The latch then needs no check, as long as placement
// is ascending (rule 3).
TEST(Cells, VersionOnlyValidationIsSafeWithTheVersionInFrontWherePlacementAscends) {
  EXPECT_EQ(explore_cell("broken/version-only-validation+header", cell(Preset::observed)).verdict.outcome,
            Outcome::safe);
  EXPECT_EQ(explore_cell("broken/version-only-validation+header", cell(Preset::spec)).verdict.outcome, Outcome::broken);
}

// What crc64+ideal remembers of the contents it has seen is not the program's: it bounds nothing. docs/verdicts.md,
// smaller pieces.
TEST(Cells, AChecksumMayRememberWhatItHasSeen) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut;
  }
  CellOptions options = cell(Preset::observed);
  options.lines = 1;
  options.options.rules.atom = 8;  // many mixtures
  const CellResult result = explore_cell("optimistic/crc64+ideal", options);
  EXPECT_EQ(result.verdict.outcome, Outcome::safe) << to_text(result.verdict);
}

TEST(Cells, ACrashIsSurvivedWithRevocationOnly) {
  const std::string_view scheme = is_sampled() ? "latch-exclusive/basic" : "latch-exclusive/combined";
  CellOptions options = cell(Preset::observed);
  options.crash = true;
  EXPECT_EQ(explore_cell(scheme, options).verdict.outcome, Outcome::safe);
  options.revocation = false;
  const CellResult result = explore_cell(scheme, options);
  ASSERT_EQ(result.verdict.outcome, Outcome::broken);
  EXPECT_TRUE(result.workload.crash);
  EXPECT_FALSE(result.workload.revocation);
  const Verdict again = replay_cell(scheme, result.workload, options.options, result.verdict.violation->choices);
  ASSERT_TRUE(again.violation);
  EXPECT_EQ(again.violation->kind, result.verdict.violation->kind);
}

TEST(Cells, ABoundOfOneProgramBoundsTheCell) {
  CellOptions options = cell(Preset::observed);
  options.options.max_executions = 2;
  const CellResult result = explore_cell("latch-rw/async", options);
  EXPECT_EQ(result.verdict.outcome, Outcome::bounded);
  EXPECT_THAT(result.verdict.bound, HasSubstr("2 executions"));
}

TEST(Cells, ThreeClientsAreTwoWritersAndAReaderOrAWriterAndTwoReaders) {
  CellOptions options = cell(Preset::strict);
  options.clients = 3;
  const CellResult result = explore_cell("latch-exclusive/basic", options);
  EXPECT_EQ(result.verdict.outcome, Outcome::safe);
  EXPECT_EQ(result.programs, 2U);
  EXPECT_GT(result.verdict.executions, explore_cell("latch-exclusive/basic", cell(Preset::strict)).verdict.executions);
  EXPECT_EQ(explore_cell("broken/rw-async-cas-unlatch", options).verdict.outcome, Outcome::broken);
}

// ---- Wrong input, and JSON.

TEST(Cells, WrongInputIsNamed) {
  const auto refusal = [](std::string_view scheme, const CellOptions& options) {
    return message_of([&] { static_cast<void>(explore_cell(scheme, options)); });
  };
  EXPECT_THAT(refusal("nosuch", cell(Preset::observed)), HasSubstr("nosuch"));
  for (const std::uint32_t clients : {0U, 1U, 9U}) {
    CellOptions options = cell(Preset::observed);
    options.clients = clients;
    EXPECT_THAT(refusal("broken/naive", options), HasSubstr(std::to_string(clients) + " clients"));
  }
  CellOptions lines = cell(Preset::observed);
  lines.lines = 0;
  EXPECT_THAT(refusal("broken/naive", lines), HasSubstr("lines is 0"));
  CellOptions nics = cell(Preset::observed);
  nics.nics = 17;
  EXPECT_THAT(refusal("broken/naive", nics), HasSubstr("nics is 17"));
}

TEST(Cells, AWorkloadThatIsNoneIsRefusedByField) {
  const nlohmann::ordered_json whole = to_json(Workload{.writers = 2, .nics = 3, .salt = 5});
  EXPECT_EQ(workload_of(whole).writers, 2U);
  EXPECT_EQ(workload_of(whole).salt, 5U);
  for (const auto& [key, value] : whole.items()) {
    nlohmann::ordered_json without = whole;
    without.erase(key);
    EXPECT_THAT(message_of([&] { static_cast<void>(workload_of(without)); }), HasSubstr("\"" + key + "\""));
    nlohmann::ordered_json other = whole;
    other[key] = "text";
    EXPECT_THAT(message_of([&] { static_cast<void>(workload_of(other)); }), HasSubstr("\"" + key + "\""));
  }
  EXPECT_THAT(message_of([] { static_cast<void>(workload_of(3)); }), HasSubstr("writers"));
}

TEST(Cells, AViolationAsJsonHasExactlyItsKeys) {
  const CellResult result = explore_cell("broken/naive", cell(Preset::observed));
  ASSERT_TRUE(result.verdict.violation);
  const nlohmann::ordered_json json = to_json(*result.verdict.violation);
  const auto keys_of = [](const nlohmann::ordered_json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) {
      keys.push_back(key);
    }
    return keys;
  };
  EXPECT_THAT(keys_of(json), ElementsAre("kind", "what", "trace"));
  EXPECT_EQ(json["kind"], "torn-read");
  ASSERT_EQ(json["trace"].size(), result.verdict.violation->trace.size());
  for (const auto& step : json["trace"]) {
    EXPECT_THAT(keys_of(step), ElementsAre("actor", "action", "wr", "target", "value", "rule", "note"));
    for (const auto& [key, value] : step.items()) {
      EXPECT_TRUE(value.is_string()) << key;
    }
    EXPECT_NE(step["actor"], "");
    EXPECT_NE(step["action"], "");
  }
}

}  // namespace
}  // namespace sidelatch::explore
