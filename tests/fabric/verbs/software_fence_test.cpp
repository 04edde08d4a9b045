// Fences in software for drivers whose own do not work, over a provider that executes a request at its post and reports
// its completion when the test allows it.
#include "fabric/verbs/software_fence.h"

#include "stub_provider.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using std::chrono::milliseconds;

class SoftRoce : public ::testing::Test {
 protected:
  static StubDevice soft_roce() {
    StubDevice device;
    device.limits.vendor_id = 0xff'ffff;
    return device;
  }

  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, table.bytes().data() + offset, sizeof value);
    return value;
  }
  [[nodiscard]] WorkRequest add(std::uint64_t offset) const { return fetch_add(table.remote(offset, 8), 1); }

  void post(const std::vector<WorkRequest>& chain) { ASSERT_TRUE(qp->post(chain)); }
  // From here until reports() the NIC reports nothing.
  static void holds_back() { stub_device().most_reported = 0; }
  void reports() {
    stub_device().most_reported = StubDevice::kAll;
    fabric.reactor().run(draining(qp.get(), &failure));
  }
  void reports_one() {
    stub_device().most_reported = 1;
    fabric.reactor().run_for(milliseconds(5));
  }
  static Task<void> draining(QueuePair* one, std::optional<Status>* failure) {
    try {
      co_await one->drain();
    } catch (const FabricError& error) {
      *failure = error.status();
    }
  }

  VerbsFabric fabric = (stub_device() = soft_roce(), VerbsFabric());
  Node& storage = fabric.add_node("storage");
  Node& client = fabric.add_node("client");
  MemoryRegion table = storage.allocate(4096, Access::remote_all);
  MemoryRegion buffer = client.allocate(4096, Access::local_write);
  std::unique_ptr<QueuePair> qp = client.connect(storage);
  std::optional<Status> failure;
};

TEST_F(SoftRoce, WhatIsFencedWaitsForAllBeforeIt) {
  holds_back();
  post({add(0), add(8).with_fence(), add(16)});
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(word(8), 0U) << "it has overtaken its fence";
  EXPECT_EQ(word(16), 0U) << "it has overtaken what waits";
  reports();
  EXPECT_EQ(word(8), 1U);
  EXPECT_EQ(word(16), 1U);
  EXPECT_EQ(stub_device().fences, 0U);
}

TEST_F(SoftRoce, EachFenceWaits) {
  holds_back();
  post({add(0), add(8).with_fence(), add(16).with_fence()});
  EXPECT_EQ(word(8), 0U);
  reports_one();
  EXPECT_EQ(word(8), 1U);
  EXPECT_EQ(word(16), 0U) << "it has overtaken its fence";
  reports();
  EXPECT_EQ(word(16), 1U);
}

TEST_F(SoftRoce, AFenceWaitsForEarlierChainsToo) {
  holds_back();
  post({add(0)});
  post({add(8).with_fence()});
  EXPECT_EQ(word(8), 0U) << "it has overtaken its fence";
  post({add(16)});
  EXPECT_EQ(word(16), 0U) << "it has overtaken what waits";
  reports();
  EXPECT_EQ(word(8), 1U);
  EXPECT_EQ(word(16), 1U);
}

// Two completions then have its number.
TEST_F(SoftRoce, AFenceMayFollowARequestThatIsReportedAnyway) {
  holds_back();
  post({add(0).with_signal()});
  post({add(8).with_fence().with_signal()});
  EXPECT_EQ(word(8), 0U);
  reports();
  EXPECT_EQ(word(8), 1U);
  EXPECT_EQ(failure, std::nullopt);
  EXPECT_EQ(qp->completed(), 2U);
}

// Requests completed before the connection broke have not failed.
TEST_F(SoftRoce, AConnectionThatBreaksAtAFenceFailsWhatIsBehindIt) {
  holds_back();
  stub_device().failing_request = stub_device().requests + 2;
  stub_device().failure = IBV_WC_RETRY_EXC_ERR;
  post({add(0).with_signal()});
  post({add(8).with_fence()});
  reports();
  ASSERT_NE(qp->error(), nullptr);
  EXPECT_EQ(qp->error()->status(), Status::retry_exceeded);
  EXPECT_EQ(qp->error()->request().remote.value, table.remote(8, 8).address.value);
  EXPECT_EQ(word(8), 0U);
}

TEST_F(SoftRoce, AFenceWithNothingBeforeItWaitsForNothing) {
  holds_back();
  post({add(0).with_fence()});
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(stub_device().requests, 1U);
  reports();
}

TEST_F(SoftRoce, WithoutAFenceNothingWaits) {
  holds_back();
  post({add(0), add(8)});
  post({add(16)});
  EXPECT_EQ(word(16), 1U);
  EXPECT_EQ(stub_device().requests, 3U);
  reports();
}

// A buffer that is the target of a READ may be sent from behind a fence.
TEST_F(SoftRoce, PayloadsAreFetchedBehindTheFenceButInlinedOnesWhenTheyArePosted) {
  const std::uint64_t old = 7;
  const std::uint64_t changed = 8;
  std::memcpy(buffer.bytes().data(), &old, sizeof old);
  std::memcpy(buffer.bytes().data() + 8, &old, sizeof old);
  holds_back();
  post({add(0), write(buffer.local(0, 8), table.remote(64, 8)).with_fence(),
        write(buffer.local(8, 8), table.remote(72, 8)).with_inline()});
  std::memcpy(buffer.bytes().data(), &changed, sizeof changed);
  std::memcpy(buffer.bytes().data() + 8, &changed, sizeof changed);
  reports();
  EXPECT_EQ(word(64), changed);
  EXPECT_EQ(word(72), old);
}

TEST_F(SoftRoce, AFullSendQueueGoesOn) {
  qp = client.connect(storage, {.send_queue_depth = 2});
  fabric.reactor().run([](QueuePair* one, WorkRequest first, WorkRequest second) -> Task<void> {
    for (int i = 0; i < 100; ++i) {
      co_await one->enqueue(first, second);
    }
    co_await one->drain();
  }(qp.get(), add(0), add(8).with_fence()));
  EXPECT_EQ(word(0), 100U);
  EXPECT_EQ(word(8), 100U);
}

// Two markers are in the NIC's queue beside a full send queue: one that is not reported yet although its fence is over,
// because the request before it was signalled, and that of the next fence.
TEST_F(SoftRoce, MarkersHavePlacesOfTheirOwn) {
  qp = client.connect(storage, {.send_queue_depth = 2});
  holds_back();
  post({add(0).with_signal()});
  post({add(8).with_fence().with_signal()});
  reports_one();
  EXPECT_EQ(word(8), 1U);
  post({add(16).with_fence()});
  reports();
  EXPECT_EQ(failure, std::nullopt);
  EXPECT_EQ(word(16), 1U);
}

TEST_F(SoftRoce, OldValuesAndErrorsBelongToTheirRequests) {
  const auto old = fabric.reactor().run([](QueuePair* one, WorkRequest request) -> Task<std::array<std::uint64_t, 3>> {
    co_return co_await one->submit(request, request.with_fence(), request);
  }(qp.get(), add(0)));
  EXPECT_EQ(old, (std::array<std::uint64_t, 3>{0, 1, 2}));

  stub_device().failing_request = stub_device().requests + 2;
  stub_device().failure = IBV_WC_REM_ACCESS_ERR;
  post({add(8), add(8).with_fence(), add(8)});
  reports();
  EXPECT_EQ(failure, Status::flushed) << "drain() is not the failed chain";
  EXPECT_EQ(qp->error()->status(), Status::remote_access);
  EXPECT_EQ(word(8), 1U);
}

TEST_F(SoftRoce, WhatIsHeldEndsWithTheConnection) {
  holds_back();
  stub_device().failing_request = stub_device().requests + 1;
  stub_device().failure = IBV_WC_RETRY_EXC_ERR;
  post({add(0), add(8).with_fence()});
  reports();
  EXPECT_EQ(qp->state(), QueuePair::State::error);
  fabric.reactor().run(qp->reconnect());
  post({add(16)});
  reports();
  EXPECT_EQ(word(16), 1U);
  EXPECT_EQ(word(8), 0U) << "it was flushed";
}

TEST_F(SoftRoce, WhatTheDriverRefusesBehindAFenceIsReported) {
  stub_device().refused_request = stub_device().requests + 2;
  stub_device().refusal = ENOMEM;
  post({add(0), add(8).with_fence()});
  reports();
  EXPECT_EQ(qp->error()->status(), Status::local_operation);
  EXPECT_EQ(qp->error()->request().remote.value, table.remote(8, 8).address.value);
  EXPECT_EQ(word(8), 0U);
}

// The library leaves a NIC's own fences alone.
TEST(HardwareFence, IsTheNics) {
  stub_device() = StubDevice();
  VerbsFabric fabric;
  Node& storage = fabric.add_node("storage");
  MemoryRegion table = storage.allocate(64, Access::remote_all);
  auto qp = storage.connect(storage);
  const std::array chain = {fetch_add(table.remote(0, 8), 1), fetch_add(table.remote(0, 8), 1).with_fence()};
  ASSERT_TRUE(qp->post(chain));
  EXPECT_EQ(stub_device().requests, 2U);
  EXPECT_EQ(stub_device().fences, 1U);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
