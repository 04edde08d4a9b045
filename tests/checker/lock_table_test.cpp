#include <sidelatch/checker/lock_table.h>

#include <sidelatch/fabric/sim/simulation.h>

#include <gtest/gtest.h>

#include <array>

namespace sidelatch::checker {
namespace {

using namespace fabric;

LockTable probe(const sim::Profile& profile) {
  sim::Simulation world({.profile = profile});
  Node& storage = world.add_node("storage");
  std::array<Node*, 4> clients{};
  for (Node*& client : clients) {
    client = &world.add_node("client");
  }
  return probe_lock_table(storage, clients).value();
}

TEST(LockTable, IsInferredFromRatesAlone) {
  const LockTable table = probe(sim::load_profile("connectx5"));
  EXPECT_EQ(table.address_bits, 12U);
  EXPECT_EQ(table.slots, 512U);
}

TEST(LockTable, AnInventedOneIsInferredToo) {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.lock_table.address_bits = 10;
  profile.lock_table.slot_bytes = 32;
  profile.lock_table.service_ns = 500;
  profile.lock_table.recovery_ns = 100;
  const LockTable table = probe(profile);
  EXPECT_EQ(table.address_bits, 10U);
  EXPECT_EQ(table.slots, 32U);
  EXPECT_NEAR(table.contended_mops, 1000.0 / 600, 0.02);
}

TEST(LockTable, ANicWithOneSlotHasNoBitThatChooses) {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.lock_table.address_bits = 3;
  const LockTable table = probe(profile);
  EXPECT_EQ(table.address_bits, 0U);
  EXPECT_EQ(table.slots, 1U);
}

TEST(ClosedLoop, BadOptionsAreNamed) {
  sim::Simulation world({.profile = sim::load_profile("connectx5")});
  Node& storage = world.add_node("storage");
  std::array<Node*, 1> clients{&world.add_node("client")};
  ClosedLoop loop;
  loop.workers = 0;
  EXPECT_THROW((void)run_closed_loop(storage, clients, loop), std::invalid_argument);
  loop.workers = 1;
  loop.offset = [](std::uint32_t) { return 4; };
  EXPECT_THROW((void)run_closed_loop(storage, clients, loop), std::invalid_argument);
  loop.offset = [](std::uint32_t) { return 0; };
  loop.opcode = Opcode::write;
  EXPECT_THROW((void)run_closed_loop(storage, clients, loop), std::invalid_argument);
  loop.opcode = Opcode::read;
  EXPECT_THROW((void)run_closed_loop(storage, {}, loop), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::checker
