// Two-sided messages of real verbs: what they promise in every world.
#include "tests/fabric/two_sided_suite.h"

#include "requests.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

namespace sidelatch::fabric::two_sided {
namespace {

Site verbs_site() { return site_in(std::make_unique<verbs::VerbsFabric>(verbs::DeviceOptions{}, verbs::kConnections)); }

INSTANTIATE_TEST_SUITE_P(Verbs, TwoSidedMessages, ::testing::Values(&verbs_site));

}  // namespace
}  // namespace sidelatch::fabric::two_sided
