// Loads of zero-sided flows run on all cores.
#include "bench/flow_load.h"

#include <gtest/gtest.h>

#include <vector>

namespace sidelatch::bench {
namespace {

// RoCE: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4.
constexpr double kMostOfTheLink = 12.5 * 4096 / (4096 + 58);

TEST(FlowLoads, HaveARateThatTheEndOfTheMeasuredTimeDoesNotDecide) {
  std::vector<FlowLoad> loads;
  for (const double to_us : {1700.0, 1725.0, 1750.0, 1775.0, 1800.0}) {
    FlowLoad load;
    load.shape = {.slots = 32, .item_bytes = 65'536};
    load.batch_bytes = std::uint64_t{1} << 20;  // 92 us each
    load.from_us = 1000;
    load.to_us = to_us;
    loads.push_back(load);
  }
  const std::vector<FlowSeen> seen = run_flow_loads({}, loads);
  for (const FlowSeen& here : seen) {
    EXPECT_NEAR(here.consumer_gbytes.at(0), seen.front().consumer_gbytes.at(0), 0.03);
    EXPECT_LE(here.consumer_gbytes.at(0), kMostOfTheLink);
    EXPECT_GT(here.consumer_gbytes.at(0), 0.9 * kMostOfTheLink);
    EXPECT_DOUBLE_EQ(here.producer_gbytes.at(0), here.consumer_gbytes.at(0));
    EXPECT_DOUBLE_EQ(here.million_items * 65'536 / 1e3, here.consumer_gbytes.at(0));
  }
}

// Not those that the load has made: of a shuffle to three, each producer's third ring stays empty here.
TEST(FlowLoads, CountTheRingsThroughWhichItemsWent) {
  FlowLoad load;
  load.producers = 2;
  load.consumers = 3;
  load.shape = {.slots = 4, .item_bytes = 64};
  load.items = 2;
  const FlowSeen seen = run_flow_loads({}, {{load}}).front();
  EXPECT_EQ(seen.rings_of_producers, 4U);
  EXPECT_EQ(seen.rings_of_consumers, 2U);
}

}  // namespace
}  // namespace sidelatch::bench
