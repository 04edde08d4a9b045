// Rule 8: the scope of atomicity. Expected sets are derived by hand.
#include "enumerate.h"
#include "names.h"

#include <gtest/gtest.h>

namespace sidelatch::fabric::model::enumeration {
namespace {

Rules global() {
  Rules rules = rules_of(Preset::observed);
  rules.atomic_scope = AtomicScope::global;
  return rules;
}

TEST(ModelAtomic, AWriteMayBeLostToAFetchAddOfTheSameNicUnlessTheScopeIsGlobal) {
  Program p;
  p.client().faa(x, 1);
  p.client().write(x, 5);
  p.observe(x);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0, 5}, {5, 6}}));
  EXPECT_EQ(outcomes(p, global()), (Outcomes{{0, 5}, {5, 6}}));
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 5}, {5, 6}, {0, 1}})) << name(preset);
  }
}

TEST(ModelAtomic, ACpuStoreMayBeLostToAFetchAddUnlessTheScopeIsGlobal) {
  Program p;
  p.client().faa(x, 1);
  p.cpu().store(x, 5);
  p.observe(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 5}, {5, 6}, {0, 1}}));
  EXPECT_EQ(outcomes(p, global()), (Outcomes{{0, 5}, {5, 6}}));
}

TEST(ModelAtomic, AtomicsThroughOneNicNeverLoseEachOther) {
  Program p;
  p.client().faa(x, 1);
  p.client().faa(x, 1);
  p.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 1, 2}, {1, 0, 2}})) << name(preset);
  }
}

TEST(ModelAtomic, AtomicsThroughTwoNicsMayLoseEachOtherUnlessTheScopeIsGlobal) {
  Program p;
  p.client({0}).faa(x, 1);
  p.client({1}).faa(x, 1);
  p.observe(x);
  for (const Preset preset : kWeak) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 1, 2}, {1, 0, 2}, {0, 0, 1}})) << name(preset);
  }
  EXPECT_EQ(outcomes(p, global()), (Outcomes{{0, 1, 2}, {1, 0, 2}}));
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0, 1, 2}, {1, 0, 2}}));
}

TEST(ModelAtomic, OnlyOneOfTwoClientsWinsALatchByCas) {
  Program p;
  p.client().cas(x, 0, 1);
  p.client().cas(x, 0, 2);
  p.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 1, 1}, {2, 0, 2}})) << name(preset);
  }
}

TEST(ModelAtomic, AFailedCasStoresNothing) {
  Program p;
  p.set(x, 3);
  p.client().cas(x, 0, 1);
  p.client().write(x, 5);
  p.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{3, 5}, {5, 5}})) << name(preset);
  }
}

TEST(ModelAtomic, ASuccessfulCasMayEraseAWriteThatCameBetween) {
  Program p;
  p.client().cas(x, 0, 1);
  p.client().write(x, 5);
  p.observe(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 5}, {5, 5}, {0, 1}}));
  EXPECT_EQ(outcomes(p, global()), (Outcomes{{0, 5}, {5, 5}}));
}

TEST(ModelAtomic, AReadNeverSeesHalfAnAtomic) {
  Program p;
  p.client().faa(x, 1);
  p.client().read(x).wait().read(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 0, 0}, {0, 0, 1}, {0, 1, 1}}));
}

TEST(ModelAtomic, AtomicsOnDifferentWordsDoNotExcludeEachOther) {
  Program p;  // B completes while A is between its load and its store: A's line is not seen by B, B's is
  Actor& a = p.client().faa(x, 1);
  static_cast<void>(a);
  p.client().faa(Program::line(0, 1), 1).wait().read(x).wait().write(x, 7);
  p.observe(x);
  EXPECT_TRUE(reachable(p, Preset::observed, {0, 0, 0, 1}));
}

TEST(ModelAtomic, AnOldValueIsDeliveredToTheLocalBufferBeforeTheCompletion) {
  Machine machine(rules_of(Preset::observed));
  const NodeId node = machine.add_node();
  alignas(64) std::byte memory[64] = {std::byte{42}};
  alignas(64) std::byte old[8] = {};
  machine.map(node, x, memory);
  const QpId qp = machine.add_qp(machine.add_client(), machine.add_nic(node));
  WorkRequest request;
  request.opcode = Opcode::fetch_add;
  request.swap_or_add = 1;
  request.local = {old, 8, {}};
  request.remote = x;
  const WrId wr = machine.post(qp, request);
  std::vector<Step> steps;
  std::vector<StepKind> kinds;
  for (machine.enabled(steps); !steps.empty(); machine.enabled(steps)) {
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_THROW(static_cast<void>(machine.old_value(wr)), std::logic_error);
    machine.apply(steps[0]);
    kinds.push_back(steps[0].kind);
  }
  EXPECT_EQ(kinds, (std::vector<StepKind>{StepKind::load, StepKind::store, StepKind::deliver, StepKind::complete}));
  EXPECT_EQ(machine.old_value(wr), 42U);
  EXPECT_EQ(old[0], std::byte{42});
  EXPECT_EQ(memory[0], std::byte{43});
}

}  // namespace
}  // namespace sidelatch::fabric::model::enumeration
