#include <sidelatch/checker/exclusion.h>
#include <sidelatch/checker/simulated_place.h>

#include "cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using model::Preset;
using ::testing::HasSubstr;

SchemeReads probe(std::string_view scheme, Preset preset = Preset::observed,
                  const ExclusionOptions& options = {.updates = 1000},
                  const sim::Profile& profile = sim::load_profile("connectx5")) {
  Cluster cluster(model::rules_of(preset), profile);
  return probe_exclusion(cluster.storage, cluster.clients, select_scheme(scheme), options);
}

TEST(Exclusion, LatchesLoseNothing) {
  for (const SchemeEntry& entry : schemes()) {
    if (entry.kind == Kind::latch || entry.kind == Kind::queue) {
      const SchemeReads seen = probe(entry.name);
      EXPECT_EQ(seen.torn, 0U) << entry.name;
      EXPECT_EQ(seen.reads, 1000U) << entry.name;
      EXPECT_FALSE(seen.stuck) << entry.name;
    }
  }
}

TEST(Exclusion, LatchesAtTheSwitchLoseNothingAndASpecimenDoes) {
  for (const SchemeEntry& entry : schemes_at_switches()) {
    sim::Profile slow = sim::load_profile("connectx5");
    slow.pcie.write_stall_probability = 0.5;
    slow.pcie.write_stall_ns = 3000;
    Cluster cluster(model::rules_of(Preset::observed), slow);
    SimulatedPlace place(cluster.world, cluster.storage, entry);
    const SchemeReads seen = probe_exclusion(cluster.storage, cluster.clients, select_scheme(entry.name),
                                             {.updates = 1000, .place = &place});
    EXPECT_EQ(seen.torn > 0, entry.kind == Kind::specimen) << entry.name;
    EXPECT_FALSE(seen.stuck) << entry.name;
  }
}

// Writers alone show this fault under every model: the buffer changes while it is sent.
TEST(Exclusion, ABrokenLatchIsFound) {
  const SchemeReads seen = probe("broken/shared-buffer-async");
  EXPECT_TRUE(seen.torn > 0 || seen.stuck);
}

// Its unlatch is one line of a WRITE; in another order it overtakes the payload.
TEST(Exclusion, AWriteUnlatchIsFoundWhereLinesAreNotPlacedInOrder) {
  const ExclusionOptions large = {.object_bytes = 4096, .updates = 2000};
  sim::Profile slow = sim::load_profile("connectx5");
  slow.pcie.gbps = 2;  // the next writer's READ comes while the WRITE is still being placed
  EXPECT_EQ(probe("latch-exclusive/write-unlatch", Preset::observed, large, slow).torn, 0U);
  const SchemeReads seen = probe("latch-exclusive/write-unlatch", Preset::spec, large, slow);
  EXPECT_GT(seen.torn, 0U);
  EXPECT_TRUE(seen.evidence);
}

TEST(Exclusion, EndsWhenItIsToldTo) {
  const SchemeReads seen = probe("latch-rw/basic", Preset::observed, {.keep_going = [] { return false; }});
  EXPECT_EQ(seen.reads, 0U);
}

TEST(Exclusion, BadOptionsAreNamed) {
  const auto message = [](const ExclusionOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.object_bytes = 8}), HasSubstr("an object of 8 bytes"));
  EXPECT_THAT(message({.updates = 0}), HasSubstr("0 updates"));
  EXPECT_THAT(message({.writers = 1}), HasSubstr("1 writers"));
}

}  // namespace
}  // namespace sidelatch::checker
