#include <sidelatch/checker/lock_table.h>

#include "cluster.h"

#include <sidelatch/fabric/sim/simulation.h>

#include <gtest/gtest.h>

#include <array>

namespace sidelatch::checker {
namespace {

using namespace fabric;

LockTable probe(const sim::Profile& profile) {
  const Cluster cluster(model::rules_of(model::Preset::observed), profile);
  return probe_lock_table(cluster.storage, cluster.clients).value();
}

// Inferred from rates alone: the table exactly, the rates of a slot and of the whole NIC within a tenth.
void expect_inferred(const sim::Profile& profile, std::uint64_t slots) {
  const LockTable table = probe(profile);
  EXPECT_EQ(table.address_bits, profile.lock_table.address_bits) << profile.name;
  EXPECT_EQ(table.slots, slots) << profile.name;
  EXPECT_EQ(table.slot_bytes, profile.lock_table.slot_bytes) << profile.name;
  const double one_slot = 1000 / (profile.lock_table.service_ns + profile.lock_table.recovery_ns);
  EXPECT_NEAR(table.contended_mops, one_slot, one_slot / 10) << profile.name;
  const double all_slots = 1000 / profile.nic.responds_to_atomic_ns();
  EXPECT_NEAR(table.uncontended_mops, all_slots, all_slots / 10) << profile.name;
}

TEST(LockTable, OfEachNicIsInferred) {
  expect_inferred(sim::load_profile("connectx5"), 512);
  expect_inferred(sim::load_profile("connectx7"), 512);
  sim::Profile invented = sim::load_profile("connectx5");
  invented.name = "invented";
  invented.lock_table.address_bits = 10;
  invented.lock_table.slot_bytes = 16;
  invented.memory.atom_bytes = 16;
  expect_inferred(invented, 64);
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
  loop.opcode = Opcode::send;
  EXPECT_THROW((void)run_closed_loop(storage, clients, loop), std::invalid_argument);
  loop.opcode = Opcode::read;
  loop.bytes = 12;
  EXPECT_THROW((void)run_closed_loop(storage, clients, loop), std::invalid_argument);
  loop.bytes = 8;
  EXPECT_THROW((void)run_closed_loop(storage, {}, loop), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::checker
