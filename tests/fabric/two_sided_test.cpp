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

}  // namespace
}  // namespace sidelatch::fabric::two_sided
