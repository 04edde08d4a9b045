// A NIC acknowledges WRITEs before they are placed, but holds only so many bytes that are not.
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace sidelatch::fabric {
namespace {
namespace receive_buffer {

constexpr std::uint64_t kBuffer = 256 * 1024;

// Counts what is posted, has completed and is placed.
struct Backlog final : sim::StepObserver {
  void on_step(const sim::SimStep& step) override {
    if (step.kind == sim::SimStep::Kind::complete) {
      completed += step.request->length();
    } else if (step.kind == sim::SimStep::Kind::place) {
      placed += 64;
    }
    largest = std::max(largest, completed - std::min(completed, placed));
  }
  std::uint64_t completed = 0;
  std::uint64_t placed = 0;
  std::uint64_t largest = 0;  // that had completed and was not placed
};

Task<void> write_many(QueuePair& qp, LocalSpan from, RemoteSpan to, int times) {
  for (int i = 0; i < times; ++i) {
    co_await qp.write(from, to);
  }
}

std::uint64_t largest_backlog(const sim::Profile& profile, std::uint64_t bytes, int times) {
  Backlog backlog;
  TwoNodes world({.profile = profile, .observer = &backlog});
  const auto other = world.client.connect(world.storage);
  world.reactor().spawn(write_many(*world.qp, world.buffer.local(0, bytes), world.table.remote(0, bytes), times));
  world.reactor().spawn(write_many(*other, world.buffer.local(0, bytes), world.table.remote(bytes, bytes), times));
  world.reactor().run();
  return backlog.largest;
}

TEST(ReceiveBuffer, PcieThatIsSlowerThanTheLinkHoldsWritesBack) {
  sim::Profile profile;
  profile.pcie.gbps = 20;
  for (const std::uint64_t bytes : {64U, 4096U, 65536U}) {
    EXPECT_LE(largest_backlog(profile, bytes, 200), kBuffer) << bytes;
  }
  EXPECT_GE(largest_backlog(profile, 65536, 200), kBuffer / 2) << "it buffers nothing";
}

TEST(ReceiveBuffer, StallsHoldWritesBack) {
  sim::Profile profile;
  profile.pcie.write_stall_probability = 1;
  profile.pcie.write_stall_ns = 200000;
  EXPECT_LE(largest_backlog(profile, 4096, 2000), kBuffer);
  EXPECT_GE(largest_backlog(profile, 4096, 2000), kBuffer / 2) << "it buffers nothing";
}

TEST(ReceiveBuffer, AWriteLongerThanTheBufferCompletesWhenItsRestHasRoom) {
  sim::Profile profile;
  profile.pcie.gbps = 10;
  Backlog backlog;
  TwoNodes world({.profile = profile, .observer = &backlog});
  const MemoryRegion large = world.client.allocate(1U << 20, Access::local_write);
  world.run(write_many(*world.qp, large.local(), world.table.remote(), 3));
  EXPECT_LE(backlog.largest, kBuffer);
  EXPECT_GE(backlog.largest, kBuffer / 2);
  world.settle();
  EXPECT_EQ(backlog.placed, 3U << 20);
}

// With a profile whose PCIe is faster than its link, the limit is out of reach.
TEST(ReceiveBuffer, ShippedProfilesNeverFillIt) {
  for (const std::string& name : sim::profile_names()) {
    for (const std::uint64_t bytes : {8U, 512U, 4096U, 65536U}) {
      EXPECT_LE(largest_backlog(sim::load_profile(name), bytes, 100), kBuffer / 16) << name << ", " << bytes;
    }
  }
}

}  // namespace receive_buffer
}  // namespace
}  // namespace sidelatch::fabric
