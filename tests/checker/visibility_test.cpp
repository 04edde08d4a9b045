#include <sidelatch/checker/visibility.h>

#include "cluster.h"
#include "detail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using model::Preset;
using ::testing::HasSubstr;

// With an observer the simulation takes no short cuts, so a CPU sees each line when it is placed.
class StepByStep : public sim::StepObserver {
 public:
  void on_step(const sim::SimStep& /*step*/) override {}
};

Observation probe(const model::Rules& rules, Sight sight, const VisibilityOptions& options,
                  const sim::Profile& profile = sim::load_profile("connectx5")) {
  StepByStep observer;
  Cluster cluster(rules, profile);
  cluster.world.observe(&observer);
  return probe_visibility(cluster.storage, cluster.clients, sight, options);
}

const VisibilityOptions kByCpu = {.chances = 500};

TEST(Visibility, LinesOutOfOrderAreSeenWhereTheModelAllowsThemAndNowhereElse) {
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    const model::Rules rules = model::rules_of(preset);
    const Observation seen = probe(rules, Sight::lines_within_write, kByCpu);
    EXPECT_EQ(seen.seen > 0, rules.placement == model::PlacementOrder::any) << name(preset) << " " << seen.seen;
    EXPECT_EQ(seen.chances, kByCpu.chances) << name(preset);
  }
}

TEST(Visibility, WritesOutOfOrderAreSeenWhereTheModelAllowsThemAndNowhereElse) {
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    const model::Rules rules = model::rules_of(preset);
    const Observation seen = probe(rules, Sight::write_write, kByCpu);
    EXPECT_EQ(seen.seen > 0, !rules.write_write_ordered) << name(preset) << " " << seen.seen;
    EXPECT_EQ(seen.chances, kByCpu.chances) << name(preset);
  }
}

TEST(Visibility, TheControlSaysWhetherALookCouldFallIntoAWrite) {
  for (const Sight sight : {Sight::lines_within_write, Sight::write_write}) {
    const Observation seen = probe(model::rules_of(Preset::observed), sight, kByCpu);
    EXPECT_GT(detail(seen, "control_seen"), 0U) << seen.name;
    EXPECT_TRUE(seen.sensitive) << seen.name;
  }
  // Requests of one step have no intermediate states.
  const Observation seen = probe(model::rules_of(Preset::strict), Sight::lines_within_write, kByCpu);
  EXPECT_EQ(seen.seen, 0U);
  EXPECT_FALSE(seen.sensitive);
  EXPECT_EQ(bound95(seen), std::nullopt);
}

TEST(Visibility, ACompletionThatComesBeforeThePlacementIsSeen) {
  const model::Rules rules = model::rules_of(Preset::observed);
  EXPECT_EQ(probe(rules, Sight::after_completion, kByCpu).seen, 0U);
  sim::Profile slow = sim::load_profile("connectx5");
  slow.pcie.write_ns = 5000;
  const Observation seen = probe(rules, Sight::after_completion, kByCpu, slow);
  EXPECT_EQ(seen.seen, seen.chances);
}

TEST(Visibility, EndsWhenItIsToldTo) {
  for (const Sight sight : {Sight::lines_within_write, Sight::write_write, Sight::after_completion}) {
    const Observation seen = probe(model::rules_of(Preset::observed), sight, {.keep_going = [] { return false; }});
    EXPECT_FALSE(seen.complete) << seen.name;
    EXPECT_EQ(seen.chances, 0U) << seen.name;
  }
}

TEST(Visibility, BadOptionsAreNamed) {
  const auto message = [](const VisibilityOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.bytes = 64}), HasSubstr("a block of 64 bytes: it must be a multiple of 64, 128 to 1048576"));
  EXPECT_THAT(message({.bytes = 200}), HasSubstr("200 bytes"));
  EXPECT_THAT(message({.chances = 0}), HasSubstr("0 chances"));
  Cluster cluster;
  EXPECT_THROW((void)probe_visibility(cluster.storage, {}, Sight::write_write, {}), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::checker
