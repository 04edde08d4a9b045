// Revocation: once it returns, nothing of that queue pair happens at the target (memory model, rule 10).
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::fabric {
namespace {

using ::testing::HasSubstr;

Task<void> write_all(QueuePair& qp, LocalSpan from, RemoteSpan to, std::string& error) {
  try {
    co_await qp.write(from, to);
    co_await qp.read(from, to);
  } catch (const FabricError& failure) {
    error = failure.what();
  }
}

TEST(Revoke, StopsAWriteBetweenTwoLinesAtAnyMoment) {
  int none = 0;
  int some = 0;
  int all = 0;
  for (int ns = 0; ns < 4000; ns += 20) {
    TwoNodes nodes;
    const MemoryRegion source = nodes.client.allocate(8192, Access::local_write);
    std::ranges::fill(source.bytes(), std::byte{1});
    const MemoryRegion target = nodes.storage.allocate(8192, Access::remote_all);
    auto qp = nodes.client.connect(nodes.storage);
    std::string error;
    nodes.reactor().spawn(write_all(*qp, source.local(), target.remote(), error));
    nodes.reactor().run_for(from_ns(ns));
    nodes.storage.revoke(*qp);
    const std::vector<std::byte> at_revocation(target.bytes().begin(), target.bytes().end());
    nodes.reactor().run();
    EXPECT_TRUE(std::ranges::equal(at_revocation, target.bytes())) << ns;
    const auto written = std::ranges::count(at_revocation, std::byte{1});
    (written == 0 ? none : written == 8192 ? all : some) += 1;
    if (written < 8192) {
      EXPECT_THAT(error, HasSubstr("the target has ended this queue pair")) << ns;
    }
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(some, 0);
  EXPECT_GT(all, 0);
}

Task<void> add_one(QueuePair& qp, RemoteSpan word, std::string& error) {
  try {
    co_await qp.fetch_add(word, 1);
  } catch (const FabricError& failure) {
    error = failure.what();
  }
}

TEST(Revoke, StopsAnAtomicBetweenLoadAndStore) {
  for (int ns = 0; ns < 4000; ns += 20) {
    TwoNodes nodes;
    const MemoryRegion target = nodes.storage.allocate(64, Access::remote_all);
    auto qp = nodes.client.connect(nodes.storage);
    std::string error;
    nodes.reactor().spawn(add_one(*qp, target.remote(), error));
    nodes.reactor().run_for(from_ns(ns));
    nodes.storage.revoke(*qp);
    const std::byte before = target.bytes()[0];
    nodes.reactor().run();
    EXPECT_EQ(target.bytes()[0], before) << ns;
    if (before == std::byte{0}) {
      EXPECT_NE(error, "") << ns;
    }
  }
}

TEST(Revoke, WhatIsPostedLaterFailsAndReconnectingIsRefused) {
  TwoNodes nodes;
  const MemoryRegion target = nodes.storage.allocate(64, Access::remote_all);
  auto qp = nodes.client.connect(nodes.storage);
  nodes.storage.revoke(*qp);
  std::string error;
  nodes.reactor().run(add_one(*qp, target.remote(), error));
  EXPECT_THAT(error, HasSubstr("the target has ended this queue pair"));
  EXPECT_EQ(target.bytes()[0], std::byte{0});
  try {
    nodes.reactor().run(qp->reconnect());
    FAIL();
  } catch (const FabricError& failure) {
    EXPECT_EQ(failure.status(), Status::disconnected);
  }
  // Other queue pairs of the same client continue.
  auto other = nodes.client.connect(nodes.storage);
  error.clear();
  nodes.reactor().run(add_one(*other, target.remote(), error));
  EXPECT_EQ(error, "");
  EXPECT_EQ(target.bytes()[0], std::byte{1});
}

TEST(Revoke, AQueuePairOfAnotherTargetIsNamed) {
  TwoNodes nodes;
  auto qp = nodes.client.connect(nodes.storage);
  EXPECT_THROW(nodes.client.revoke(*qp), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::fabric
