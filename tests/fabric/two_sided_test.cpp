// Two-sided messages in the simulator: what they promise in every world.
#include "two_sided_suite.h"

#include <sidelatch/fabric/sim/simulation.h>

namespace sidelatch::fabric::two_sided {
namespace {

Site simulated_site() { return site_in(std::make_unique<sim::Simulation>(sim::SimulationOptions{})); }

INSTANTIATE_TEST_SUITE_P(Simulator, TwoSidedMessages, ::testing::Values(&simulated_site));

}  // namespace
}  // namespace sidelatch::fabric::two_sided
