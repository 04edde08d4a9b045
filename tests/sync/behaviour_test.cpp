// Every scheme of the registry under every preset: safe if docs/memory-model.md says so, and otherwise seen to fail.
#include "behaviour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

namespace sidelatch::sync {
namespace {

using fabric::model::Preset;

class EverySchemeUnderEveryPreset : public ::testing::TestWithParam<std::tuple<checker::SchemeEntry, Preset>> {
 protected:
  [[nodiscard]] const checker::SchemeEntry& entry() const { return std::get<0>(GetParam()); }
  [[nodiscard]] Preset preset() const { return std::get<1>(GetParam()); }
};

TEST_P(EverySchemeUnderEveryPreset, KeepsItsPromisesExactlyWhereItIsSafe) {
  const checker::SelectedScheme selected = checker::select_scheme(entry().name);
  Behaviour all;
  const bool safe = entry().safe_under(preset());
  if (entry().name == "broken/mcs-early-hand-over" && preset() == Preset::strict) {
    GTEST_SKIP() << "only the explorer sees it: with one-step requests the turn would have to pass a WRITE that was "
                    "posted a round trip earlier, and no NIC of the simulator is that slow";
  }
  // A scheme that must fail gets more chances and needs only one.
  const std::uint64_t most = safe ? seeds() : 20'000;
  for (std::uint64_t seed = 1; seed <= most && (safe || all.good()); ++seed) {
    const Behaviour seen = run_clients(selected, {.preset = preset(), .seed = seed});
    if (safe) {
      ASSERT_TRUE(seen.good()) << "seed " << seed << ": " << seen.to_string();
    }
    all += seen;
  }
  EXPECT_GT(all.updates, 0U);
  if (!safe) {
    EXPECT_FALSE(all.good()) << "never failed: " << all.to_string();
  }
}

// A client that has a deadline and one that stands in the queue never meet in this suite; here all have deadlines.
TEST(SchemesWithQueues, KeepTheirPromisesToClientsWithDeadlines) {
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (entry.kind != checker::Kind::queue) {
      continue;
    }
    const checker::SelectedScheme selected = checker::select_scheme(entry.name);
    Behaviour all;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      all += run_clients(selected, {.preset = Preset::relaxed, .seed = seed, .with_deadlines = true});
    }
    EXPECT_TRUE(all.good()) << entry.name << ": " << all.to_string();
    EXPECT_GT(all.updates, 0U);
  }
}

std::string test_name(const auto& info) {
  std::string text = std::string(std::get<0>(info.param).name) + "_" + std::string(name(std::get<1>(info.param)));
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(AtSwitches, EverySchemeUnderEveryPreset,
                         ::testing::Combine(::testing::ValuesIn(checker::schemes_at_switches().begin(),
                                                                checker::schemes_at_switches().end()),
                                            ::testing::Values(Preset::strict, Preset::observed, Preset::spec,
                                                              Preset::relaxed)),
                         [](const auto& parameter) { return test_name(parameter); });

INSTANTIATE_TEST_SUITE_P(Registry, EverySchemeUnderEveryPreset,
                         ::testing::Combine(::testing::ValuesIn(checker::schemes().begin(), checker::schemes().end()),
                                            ::testing::Values(Preset::strict, Preset::observed, Preset::spec,
                                                              Preset::relaxed)),
                         [](const auto& parameter) { return test_name(parameter); });

}  // namespace
}  // namespace sidelatch::sync
