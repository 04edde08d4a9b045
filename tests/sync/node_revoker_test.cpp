// What a takeover gets from a memory node that keeps owners itself.
#include <sidelatch/sync/node_revoker.h>

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace sidelatch::sync {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Knows owner 3, and does not answer about owner 4.
class NodeWithOwners final : public fabric::Node {
 public:
  explicit NodeWithOwners(fabric::Reactor& reactor) : Node("storage"), reactor_(&reactor) {}
  std::vector<std::uint16_t> revoked;

  [[nodiscard]] fabric::Reactor& reactor() override { return *reactor_; }
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(Node& /*target*/,
                                                           const fabric::QueuePairOptions& /*options*/) override {
    throw std::logic_error("not connected here");
  }
  void revoke(fabric::QueuePair& /*queue_pair*/) override {}
  [[nodiscard]] fabric::Task<void> revoke_all_of(std::uint16_t owner) override {
    co_await reactor_->sleep(fabric::from_ns(100));
    if (owner == 4) {
      throw fabric::FabricError(fabric::Status::retry_exceeded, "storage does not answer");
    }
    if (owner != 3) {
      throw std::invalid_argument("storage does not know this owner");
    }
    revoked.push_back(owner);
  }

 protected:
  void place_region(Registration& /*registration*/) override {}
  void region_removed(Registration& /*registration*/, bool /*in_use*/) noexcept override {}

 private:
  fabric::Reactor* reactor_;
};

class NodeRevokerTest : public ::testing::Test {
 protected:
  fabric::sim::Simulation world{{.profile = fabric::sim::load_profile("connectx5"), .seed = 1}};
  NodeWithOwners node{world.reactor()};
  NodeRevoker revoker{node};
};

TEST_F(NodeRevokerTest, EndsTheOwnersQueuePairsAtTheNode) {
  world.reactor().run(revoker.revoke(3));
  EXPECT_THAT(node.revoked, ElementsAre(3));
}

TEST_F(NodeRevokerTest, AnUnknownOwnerIsARefusedTakeover) {
  try {
    world.reactor().run(revoker.revoke(5));
    ADD_FAILURE() << "no error";
  } catch (const LatchError& error) {
    EXPECT_EQ(error.kind(), LatchError::Kind::takeover_refused);
    EXPECT_THAT(error.what(), HasSubstr("storage does not know this owner"));
  }
}

TEST_F(NodeRevokerTest, ANodeThatDoesNotAnswerIsNoRefusal) {
  EXPECT_THROW(world.reactor().run(revoker.revoke(4)), fabric::FabricError);
}

TEST_F(NodeRevokerTest, ANodeWithoutOwnersSaysWhatToUse) {
  fabric::Node& plain = world.add_node("plain");
  NodeRevoker wrong(plain);
  try {
    world.reactor().run(wrong.revoke(3));
    ADD_FAILURE() << "no error";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("RevocationService"));
  }
}

}  // namespace
}  // namespace sidelatch::sync
