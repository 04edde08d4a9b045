// What a completion promises: later READs see a WRITE that has completed (rule 2), and a READ's bytes are there.
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace sidelatch::fabric {
namespace {
namespace completed {

Task<void> submit_one(QueuePair& qp, WorkRequest request) { co_await qp.submit(request); }

// WRITEs are placed 1.5 us after service, so they complete first.
sim::Profile late_places() {
  sim::Profile profile;
  profile.pcie.write_ns = 1500;
  return profile;
}

TEST(CompletedRequests, AWriteThatHasCompletedIsPlacedThoughItsConnectionIsLost) {
  TwoNodes world({.profile = late_places()});
  TwoNodes::store(world.buffer, 0, 7);
  world.run(submit_one(*world.qp, write(world.buffer.local(0, 8), world.word(0))));
  ASSERT_EQ(world.value(0), 0U) << "the WRITE is placed already, so it cannot be lost";
  ASSERT_TRUE(world.qp->post(std::array{read(world.buffer.local(8, 8), world.word(1))}));
  ASSERT_TRUE(world.simulation.lose_connection(*world.qp));
  const auto other = world.client.connect(world.storage);
  world.run(submit_one(*other, read(world.buffer.local(16, 8), world.word(0))));
  EXPECT_EQ(TwoNodes::load(world.buffer, 2), 7U);
}

TEST(CompletedRequests, ASendThatHasCompletedIsReceivedThoughItsConnectionIsLost) {
  TwoNodes world({.profile = late_places()});
  const auto [here, there] = world.client.connect_pair(world.storage);
  const MemoryRegion message = world.storage.allocate(8, Access::local_write);
  ASSERT_TRUE(there->post_receive(message.local()));
  TwoNodes::store(world.buffer, 0, 7);
  world.run(submit_one(*here, send(world.buffer.local(0, 8))));
  ASSERT_EQ(TwoNodes::load(message, 0), 0U) << "the SEND is placed already, so it cannot be lost";
  ASSERT_TRUE(here->post(std::array{read(world.buffer.local(8, 8), world.word(1))}));
  ASSERT_TRUE(world.simulation.lose_connection(*here));
  world.settle();
  EXPECT_EQ(TwoNodes::load(message, 0), 7U);
}

TEST(CompletedRequests, AnUnplacedWriteThatHasNotCompletedIsDroppedWithItsConnection) {
  TwoNodes world({.profile = late_places()});
  TwoNodes::store(world.buffer, 0, 7);
  ASSERT_TRUE(world.qp->post(std::array{write(world.buffer.local(0, 8), world.word(0))}));
  ASSERT_TRUE(world.simulation.lose_connection(*world.qp));
  world.settle();
  EXPECT_EQ(world.value(0), 0U);
}

}  // namespace completed
}  // namespace
}  // namespace sidelatch::fabric
