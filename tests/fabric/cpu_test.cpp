// The CPU of a simulated node.
#include "cpu_tests.h"

#include <sidelatch/fabric/sim/simulation.h>

namespace sidelatch::fabric::cpu_suite {
namespace {

Place simulated_place() { return place_in(std::make_unique<sim::Simulation>(sim::SimulationOptions{})); }

// The NIC of the target takes long to place, in any order.
Place place_that_is_slow() {
  sim::SimulationOptions options;
  options.rules = model::rules_of(model::Preset::relaxed);
  options.profile.pcie.write_ns = 20'000;
  options.profile.pcie.reorder_probability = 0.5;
  options.profile.pcie.reorder_ns = 5'000;
  return place_in(std::make_unique<sim::Simulation>(options));
}

Place strict_place() {
  sim::SimulationOptions options;
  options.rules = model::rules_of(model::Preset::strict);
  return place_in(std::make_unique<sim::Simulation>(options));
}

INSTANTIATE_TEST_SUITE_P(Simulator, NodeCpu, ::testing::Values(&simulated_place, &place_that_is_slow, &strict_place));

TEST(SimulatedCpu, AWaitForWhatNeverComesIsStuck) {
  const Place place = simulated_place();
  Site here(*place.first, *place.second, [](bool, std::string_view) {});
  try {
    place.fabric->reactor().run(wait_for_seven(&here, here.sides.data(), &here.sides[1]));
    FAIL();
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::stuck);
  }
}

Task<void> write_lines(Site* here, std::uint64_t lines) {
  std::ranges::fill(here->sides[1].buffer.bytes(), std::byte{1});
  co_await here->sides[1].qp->write(here->sides[1].buffer.local(0, lines * 64),
                                    here->sides[0].words.remote(0, lines * 64));
}
Task<void> note_time(Site* here, std::uint64_t line, Time* at) {
  co_await here->sides[0].cpu().wait(here->sides[0].own(line), WordCondition::is_not(0));
  *at = here->sides[0].node->reactor().now();
}

// The lines of one WRITE are placed one by one, also if the wait begins when it is under way, and no event looks for a
// word in vain: a wait costs what it wakes.
TEST(SimulatedCpu, AWaitIsWokenByTheLineThatItWaitsForAndByNothingElse) {
  sim::SimulationOptions options;
  options.profile.pcie.gbps = 0.5;  // a line takes a microsecond
  sim::Simulation world(options);
  Node& first = world.add_node("first");
  Node& second = world.add_node("second");
  Site here(first, second, [](bool, std::string_view) {});
  std::array<Time, 4> at{};
  for (std::uint64_t line = 0; line < 4; ++line) {
    world.reactor().spawn(note_time(&here, line, &at.at(line)));
  }
  world.reactor().spawn(write_lines(&here, 4));
  world.reactor().run();
  for (std::uint64_t line = 1; line < 4; ++line) {
    EXPECT_GT(at.at(line), at.at(line - 1));
  }
  const std::uint64_t before = world.events();
  std::optional<std::uint64_t> seen;
  world.reactor().run(note_wait_for(here.sides.data(), from_ns(1e9), &seen));  // it is there already
  EXPECT_EQ(seen, 0x0101010101010101U);
  std::ranges::fill(here.sides[0].words.bytes(), std::byte{0});
  world.reactor().run(note_wait_for(here.sides.data(), from_ns(1e9), &seen));
  EXPECT_FALSE(seen);
  EXPECT_LE(world.events() - before, 2U);
}

}  // namespace
}  // namespace sidelatch::fabric::cpu_suite
