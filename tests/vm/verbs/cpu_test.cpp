// The CPU of a node of real verbs.
#include "tests/fabric/cpu_tests.h"

#include "requests.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

namespace sidelatch::fabric::cpu_suite {
namespace {

Place verbs_place() {
  return place_in(std::make_unique<verbs::VerbsFabric>(verbs::DeviceOptions{}, verbs::kConnections));
}

INSTANTIATE_TEST_SUITE_P(Verbs, NodeCpu, ::testing::Values(&verbs_place));

}  // namespace
}  // namespace sidelatch::fabric::cpu_suite
