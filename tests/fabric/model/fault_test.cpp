// Rules 9 and 10: clients that stop and queue pairs that are shut. Expected sets are derived by hand.
#include "enumerate.h"
#include "names.h"

#include <gtest/gtest.h>

namespace sidelatch::fabric::model::enumeration {
namespace {

// ---- Crash.

TEST(ModelFault, AClientMayStopBetweenAnyTwoOfItsSteps) {
  Program p;
  p.client().write(x, 1).wait().write(y, 1).wait().write(x, 0).may_crash();
  p.observe(x);
  p.observe(y);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 0}, {1, 0}, {1, 1}, {0, 1}})) << name(preset);
  }
}

TEST(ModelFault, WhatACrashedClientPostedStillExecutesInOrder) {
  Program p;
  Actor& client = p.client();
  client.write(x, 1).write(y, 1).signal().may_crash();
  p.cpu().await(client).load(y).load(x);
  p.observe(x);
  p.observe(y);
  const Outcomes found = outcomes(p, Preset::observed);
  EXPECT_FALSE(found.contains({1, 0, 1, 1}));
  EXPECT_TRUE(found.contains({0, 0, 1, 1}));
  EXPECT_TRUE(found.contains({1, 1, 1, 1}));
}

TEST(ModelFault, AFenceBehindACrashedClientsReadIsStillReached) {
  Program p;
  p.client().read(x).write(x, 1).fenced().may_crash();
  p.observe(x);
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 1}, {kUnset, 0}}));
}

TEST(ModelFault, ACrashBetweenTheRequestsOfAChainIsACrashBetweenPosts) {
  Program chain;
  chain.client().write(x, 1).write(y, 1).may_crash();
  chain.observe(x);
  chain.observe(y);
  Program apart;
  apart.client().write(x, 1).write(y, 1).apart().may_crash();
  apart.observe(x);
  apart.observe(y);
  EXPECT_EQ(outcomes(chain, Preset::observed), (Outcomes{{0, 0}, {1, 1}}));
  EXPECT_EQ(outcomes(apart, Preset::observed), (Outcomes{{0, 0}, {1, 0}, {1, 1}}));
}

// ---- Revocation.

TEST(ModelFault, ADeadClientsWriteMayBePlacedAfterATakeoverUnlessItsQueuePairWasRevoked) {
  Program careless;
  Actor& dead = careless.client().write(x, 1).signal();
  careless.cpu().await(dead).store(x, 2).mfence().load(x);
  careless.observe(x);
  EXPECT_TRUE(reachable(careless, Preset::strict, {2, 1}));
  EXPECT_TRUE(reachable(careless, Preset::observed, {2, 1}));
  Program careful;
  Actor& late = careful.client().write(x, 1).signal();
  careful.cpu().await(late).revoke(late).store(x, 2).mfence().load(x);
  careful.observe(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(careful, preset), (Outcomes{{2, 2}})) << name(preset);
  }
}

TEST(ModelFault, ARevocationMayLeaveAWriteHalfPlaced) {
  Program p;
  Actor& writer = p.client().write(x, 1, kTwoLines);
  p.cpu().revoke(writer);
  p.observe(x);
  p.observe(y);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{0, 0}, {1, 1}}));
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 0}, {1, 0}, {1, 1}}));
  EXPECT_EQ(outcomes(p, Preset::spec), (Outcomes{{0, 0}, {1, 0}, {0, 1}, {1, 1}}));
}

TEST(ModelFault, AfterARevocationNothingChangesAtTheTarget) {
  Program p;
  Actor& writer = p.client().write(x, 1, kTwoLines).faa(Program::line(2), 1);
  p.cpu().revoke(writer).load(x).load(y).load(Program::line(2));
  p.observe(x);
  p.observe(y);
  p.observe(Program::line(2));
  for (const Preset preset : kAll) {
    for (const Outcome& o : outcomes(p, preset)) {
      ASSERT_EQ(o.size(), 7U);
      EXPECT_EQ((Outcome{o[1], o[2], o[3]}), (Outcome{o[4], o[5], o[6]})) << name(preset);
    }
  }
}

TEST(ModelFault, AReaderDoesNotWaitForACompletedWriteThatARevocationLost) {
  Program p;
  Actor& writer = p.client().write(x, 1).wait().signal();
  p.client().await(writer).read(x).wait().signal();
  p.cpu().revoke(writer);
  p.observe(x);
  const Outcomes found = outcomes(p, Preset::observed);
  EXPECT_FALSE(found.contains(kDeadlock));
  EXPECT_EQ(found, (Outcomes{{1, 1}, {0, 0}}));
}

TEST(ModelFault, AWordWhoseAtomicWasRevokedBetweenLoadAndStoreIsFreeAgain) {
  Program p;
  Actor& first = p.client().faa(x, 1);
  p.client().faa(x, 1);
  p.cpu().revoke(first);
  p.observe(x);
  const Outcomes found = outcomes(p, Preset::observed);
  EXPECT_FALSE(found.contains(kDeadlock));
  EXPECT_TRUE(found.contains({kUnset, 0, 1}));  // the first never stored
  EXPECT_TRUE(found.contains({kUnset, 1, 2}));  // the first stored, and its client does not know
  EXPECT_TRUE(found.contains({0, 1, 2}));
}

}  // namespace
}  // namespace sidelatch::fabric::model::enumeration
