#include <sidelatch/checker/atomics.h>

#include "cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using model::Preset;
using ::testing::HasSubstr;

Observation probe(model::AtomicScope scope, Rival rival, const AtomicsOptions& options = {.chances = 3000}) {
  model::Rules rules = model::rules_of(Preset::observed);
  rules.atomic_scope = scope;
  Cluster cluster(rules);
  return probe_atomics(cluster.storage, cluster.clients, rival, options);
}

TEST(Atomics, OfOneNicExcludeEachOther) {
  const Observation seen = probe(model::AtomicScope::nic, Rival::nic);
  EXPECT_EQ(seen.seen, 0U);
  EXPECT_GE(seen.chances, 3000U);
  EXPECT_TRUE(bound95(seen));
}

// Rule 8: the scope says whether the memory's CPU loses additions.
TEST(Atomics, OfTheCpuAreLostUnlessTheScopeIsGlobal) {
  const Observation lost = probe(model::AtomicScope::nic, Rival::cpu);
  EXPECT_GT(lost.seen, 0U);
  EXPECT_LE(lost.seen, lost.chances);
  const Observation kept = probe(model::AtomicScope::global, Rival::cpu);
  EXPECT_EQ(kept.seen, 0U);
  EXPECT_TRUE(kept.sensitive);
}

TEST(Atomics, EndWhenTheyAreToldTo) {
  const Observation seen = probe(model::AtomicScope::nic, Rival::nic, {.keep_going = [] { return false; }});
  EXPECT_FALSE(seen.complete);
  EXPECT_EQ(seen.chances, 0U);
}

TEST(Atomics, BadOptionsAreNamed) {
  const auto message = [](const AtomicsOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.chances = 0}), HasSubstr("0 chances"));
  EXPECT_THAT(message({.at_once = 1}), HasSubstr("1 atomics at once"));
  Cluster cluster;
  EXPECT_THROW((void)probe_atomics(cluster.storage, {}, Rival::nic, {}), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::checker
