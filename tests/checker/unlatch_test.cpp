#include <sidelatch/checker/unlatch.h>

#include "cluster.h"

#include <gtest/gtest.h>

#include <array>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using model::Preset;

Observation probe(const model::Rules& rules, Opcode against) {
  Cluster cluster(rules);
  return probe_lost_unlatch(cluster.storage, cluster.clients, against, {.chances = 5000});
}

TEST(LostUnlatch, IsSeenWhereAtomicsAreAtomicAgainstEachOtherOnly) {
  for (const Opcode against : {Opcode::fetch_add, Opcode::compare_swap}) {
    for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
      const Observation seen = probe(model::rules_of(preset), against);
      EXPECT_GT(seen.seen, 0U) << name(preset) << " " << seen.name;
      EXPECT_EQ(seen.chances, 5000U);
    }
  }
}

TEST(LostUnlatch, IsNotSeenWhereAtomicsAreAtomicAgainstEverything) {
  for (const Opcode against : {Opcode::fetch_add, Opcode::compare_swap}) {
    model::Rules global = model::rules_of(Preset::observed);
    global.atomic_scope = model::AtomicScope::global;
    for (const model::Rules& rules : {global, model::rules_of(Preset::strict)}) {
      const Observation seen = probe(rules, against);
      EXPECT_EQ(seen.seen, 0U) << seen.name;
      EXPECT_TRUE(seen.sensitive) << "there were too few atomics";
    }
  }
}

TEST(LostUnlatch, BadOptionsAreNamed) {
  Cluster cluster;
  const auto run = [&](std::span<Node* const> clients, Opcode against, const UnlatchOptions& options) {
    (void)probe_lost_unlatch(cluster.storage, clients, against, options);
  };
  EXPECT_THROW(run(cluster.clients, Opcode::write, {}), std::invalid_argument);
  EXPECT_THROW(run({}, Opcode::fetch_add, {}), std::invalid_argument);
  EXPECT_THROW(run(cluster.clients, Opcode::fetch_add, {.chances = 0}), std::invalid_argument);
  EXPECT_THROW(run(cluster.clients, Opcode::fetch_add, {.atomics_at_once = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::checker
