// Two-sided messages in the simulator: what they promise in every world.
#include "two_sided_suite.h"

#include <sidelatch/fabric/sim/simulation.h>

namespace sidelatch::fabric::two_sided {
namespace {

Site simulated_site() { return site_in(std::make_unique<sim::Simulation>(sim::SimulationOptions{})); }

// A sender knows of a message long before the receiver's CPU sees it.
Site site_that_places_late() {
  sim::SimulationOptions options;
  options.profile.pcie.write_ns = 50'000;
  return site_in(std::make_unique<sim::Simulation>(options));
}

INSTANTIATE_TEST_SUITE_P(Simulator, TwoSidedMessages, ::testing::Values(&simulated_site));
INSTANTIATE_TEST_SUITE_P(SimulatorThatPlacesLate, TwoSidedMessages, ::testing::Values(&site_that_places_late));

// A NIC counts a buffer's bytes in 32 bits, and would take this one for 64 bytes. Nobody touches its pages.
TEST(TwoSidedLimits, AReceiveBufferIsNoLongerThanTheLongestMessage) {
  const Site site = simulated_site();
  const auto [here, there] = site.client->connect_pair(*site.server);
  constexpr std::uint64_t kLongest = 1ULL << 31;
  const MemoryRegion inbox = site.server->allocate(2 * kLongest + 64, Access::local_write);
  try {
    EXPECT_FALSE(there->post_receive(inbox.local()));
    ADD_FAILURE() << "it was taken";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::invalid_request);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("RECV"),
                                               ::testing::HasSubstr("must be at most 2147483648 bytes")));
  }
  EXPECT_TRUE(there->post_receive(inbox.local(64, kLongest)));
}

}  // namespace
}  // namespace sidelatch::fabric::two_sided
