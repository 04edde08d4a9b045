// A client's end, also where another one takes its place, and workers that are given to another tree.
#include "btree_fixture.h"
#include "hash_table_rig.h"
#include "tests/message_of.h"
#include "tests/sync/victim.h"

#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/lease.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::structures {
namespace {

namespace client_test {

using namespace fabric;
using namespace sync;

Task<Outcome> put(const BTree& tree, BTree::Worker& worker, std::uint64_t key) {
  const Outcome outcome = co_await tree.put(worker, key, Word(key + 1).bytes());
  co_return outcome;
}

Task<Outcome> get(const BTree& tree, BTree::Worker& worker, std::uint64_t key, std::uint64_t& value) {
  Word word;
  const Outcome outcome = co_await tree.get(worker, key, word.bytes());
  value = word.number();
  co_return outcome;
}

// Its spare nodes are the pool's again. A worker that was moved from has none.
TEST(Client, AWorkerThatIsClosedTakesNoNodesWithIt) {
  const ExclusiveLatch latch;
  Forest forest(latch);
  Node& machine = forest.world.add_node("client");
  BTree::Worker first(*forest.tree, machine, forest.nodes);
  for (std::uint64_t key = 0; key < 200; ++key) {
    ASSERT_EQ(forest.run(put(*forest.tree, first, key)), Outcome::done);
  }
  BTree::Worker looks(*forest.tree, machine, forest.nodes);
  ASSERT_GT(forest.run(forest.tree->check(looks)).unlinked_nodes, 0U);
  BTree::Worker second = std::move(first);
  forest.run(first.close());  // NOLINT(bugprone-use-after-move): it may be
  forest.run(second.close());
  const BTreeReport report = forest.run(forest.tree->check(looks));
  EXPECT_EQ(report.unlinked_nodes, 0U);
  EXPECT_THAT(report.problems, ::testing::IsEmpty());
}

// The old client's end waits until what it has reported as done has happened.
TEST(Client, MayBeReplacedByAnotherOne) {
  const ExclusiveLatch latch(LatchLevel::async);
  Forest forest(latch);
  Node& machine = forest.world.add_node("client");
  BTree::Worker worker(*forest.tree, machine, forest.nodes);
  for (std::uint64_t key = 0; key < 20; ++key) {
    ASSERT_EQ(forest.run(put(*forest.tree, worker, key)), Outcome::done);
    worker = BTree::Worker(*forest.tree, machine, forest.nodes);
    std::uint64_t value = 0;
    ASSERT_EQ(forest.run(get(*forest.tree, worker, key, value)), Outcome::done) << key;
    EXPECT_EQ(value, key + 1);
  }
}

constexpr Duration kLinger = from_ns(1e6);
constexpr Duration kFast{};
constexpr Duration kSlow = from_ns(8.4e5);  // more than three quarters of kLinger, and not all of it
constexpr Duration kDead = from_ns(1e9);    // answers when nobody waits any more

// Before a memory node. Requests take their time. Answers do not: the simulated NIC of the client would take others
// only after one that is on its way.
class Way final : public sim::NetworkDevice {
 public:
  [[nodiscard]] Duration cable() const override { return from_ns(100); }
  [[nodiscard]] Duration latency() const override { return delay; }
  [[nodiscard]] Verdict request(Message& /*message*/) override { return Verdict::forward; }
  void answer(Message& /*message*/) override { delay = kFast; }

  Duration delay = kFast;
};

// From the commit on, which nobody waits for, the way takes its time.
Task<void> change_behind(const Scheme& scheme, Session& session, Object object, Way& way, Duration delay) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  way.delay = delay;
  co_await guard.commit();
}
Task<void> latch_and_abort(const Scheme& scheme, Session& session, Object object) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await guard.abort();
}

// A client of some memory nodes with an object at each.
struct Ends {
  explicit Ends(std::size_t memory_nodes) : ways(memory_nodes) {
    reported = {};
    for (Way& way : ways) {
      nodes.push_back(&world.add_node("storage"));
      world.put_before(*nodes.back(), way);
      memory.push_back(nodes.back()->allocate(layout.total_bytes(), Access::remote_all));
      objects.emplace_back(layout, memory.back().remote());
    }
    client.emplace(world.add_node("client"), nodes, sync::buffer_bytes(layout.shape()),
                   SessionOptions{.linger = kLinger, .lost_work = [](const LostWork& lost) {
                                    reported.unlatches += lost.unlatches;
                                    reported.latches += lost.latches;
                                  }});
  }
  void change(std::size_t memory_node, Duration delay) {
    world.reactor().run(
        change_behind(latch, client->session(memory_node), objects[memory_node].at(0), ways[memory_node], delay));
    ASSERT_NE(client->session(memory_node).qp().outstanding(), 0U);
  }
  // A task that is destroyed while its CAS is on its way.
  void leave_a_latch(std::size_t memory_node) {
    Victim victim(latch_and_abort(latch, client->session(memory_node), objects[memory_node].at(1)));
    victim.destroy();
    ASSERT_EQ(client->session(memory_node).owed(), 1U);
  }
  // Returns how long it takes.
  Duration end() {
    const Time begin = world.reactor().now();
    client.reset();
    return world.reactor().now() - begin;
  }
  [[nodiscard]] std::uint64_t latch_word(std::size_t memory_node, std::uint64_t object) const {
    std::uint64_t word = 0;
    std::memcpy(&word, memory[memory_node].bytes().data() + layout.latch(object), sizeof word);
    return word;
  }

  const ExclusiveLatch latch{LatchLevel::async};
  std::vector<Way> ways;  // they stay as long as the simulation runs
  sim::Simulation world{{.profile = sim::load_profile("connectx5")}};
  const Layout layout{latch.shape(64, latch.default_layout()), latch.default_layout(), 2};
  std::vector<Node*> nodes;
  std::vector<MemoryRegion> memory;
  std::vector<ObjectArray> objects;
  std::optional<Client> client;
  static inline LostWork reported{};
};

TEST(ClientEnd, WaitsForAllMemoryNodesNoLongerThanLinger) {
  Ends scene(3);
  for (const std::size_t memory_node : {0U, 1U, 2U}) {
    scene.change(memory_node, kDead);
  }
  EXPECT_LE(scene.end(), kLinger);
  EXPECT_EQ(Ends::reported.unlatches, 3U);
}

TEST(ClientEnd, WaitsNoLongerThanItMust) {
  Ends scene(2);
  for (const std::size_t memory_node : {0U, 1U}) {
    scene.change(memory_node, kFast);
    scene.leave_a_latch(memory_node);
  }
  EXPECT_LT(scene.end(), kLinger / 20);
  EXPECT_TRUE(Ends::reported.nothing());
}

TEST(ClientEnd, ADeadMemoryNodeLeavesTimeForTheOthers) {
  for (const std::size_t dead : {0U, 1U, 2U}) {
    SCOPED_TRACE(dead);
    Ends scene(3);
    scene.change(dead, kDead);
    for (const std::size_t other : {(dead + 1) % 3, (dead + 2) % 3}) {
      scene.leave_a_latch(other);
    }
    EXPECT_LE(scene.end(), kLinger);
    for (const std::size_t other : {(dead + 1) % 3, (dead + 2) % 3}) {
      EXPECT_EQ(scene.latch_word(other, 1), kFree);
    }
    EXPECT_EQ(Ends::reported.unlatches, 1U);
    EXPECT_EQ(Ends::reported.latches, 0U);
  }
}

// Both have not answered after half of the time. The slow one answers, and is asked once more.
TEST(ClientEnd, ADeadMemoryNodeLeavesTimeForASlowOne) {
  for (const std::size_t dead : {0U, 1U}) {
    SCOPED_TRACE(dead);
    Ends scene(2);
    scene.change(dead, kDead);
    scene.ways[1 - dead].delay = kLinger * 6 / 10;
    scene.leave_a_latch(1 - dead);
    EXPECT_LE(scene.end(), kLinger);
    EXPECT_EQ(scene.latch_word(1 - dead, 1), kFree);
    EXPECT_EQ(Ends::reported.unlatches, 1U);
    EXPECT_EQ(Ends::reported.latches, 0U);
  }
}

TEST(ClientEnd, ASlowMemoryNodeHasAllTheTimeThatTheOthersLeave) {
  for (const std::size_t slow : {0U, 1U}) {
    SCOPED_TRACE(slow);
    Ends scene(2);
    scene.change(slow, kSlow);
    scene.change(1 - slow, kFast);
    scene.leave_a_latch(1 - slow);
    EXPECT_LE(scene.end(), kLinger);
    for (const std::size_t memory_node : {0U, 1U}) {
      EXPECT_EQ(scene.latch_word(memory_node, 0), kFree);
    }
    EXPECT_TRUE(Ends::reported.nothing());
  }
}

// As it does where another client takes its place.
TEST(ClientEnd, OfAClientThatIsReplacedTakesNoLongerThanLinger) {
  Ends scene(2);
  for (const std::size_t memory_node : {0U, 1U}) {
    scene.change(memory_node, kDead);
  }
  const Time begin = scene.world.reactor().now();
  *scene.client = Client(scene.world.add_node("client"), scene.nodes, 256);
  EXPECT_LE(scene.world.reactor().now() - begin, kLinger);
}

struct Counting : Revoker {
  Task<void> revoke(std::uint16_t owner) override {
    owners.push_back(owner);
    co_return;
  }
  std::vector<std::uint16_t> owners;
};

Task<void> revoke_by_a_session(Session& session, std::uint16_t owner) {
  co_await session.options().revoker->revoke(owner);
}
Task<void> revoke_by(Client& client, std::uint16_t owner) { co_await client.revoke(owner); }

// What it does at one memory node may be under a latch at another, which is what is taken over.
TEST(Client, ADeadClientIsRevokedAtAllMemoryNodes) {
  const ExclusiveLatch latch;
  Forest forest(latch, small_nodes(), 2);
  std::array<Counting, 2> each;
  const std::array<Revoker*, 2> revokers = {&each[0], &each[1]};
  Client made(forest.world.add_node("client"), forest.nodes, 4096,
              {.owner = 2, .lease = Lease{from_ns(1e6), from_ns(1e5)}}, {}, revokers);
  Client client = std::move(made);
  for (const std::size_t memory_node : {0U, 1U}) {
    forest.run(revoke_by_a_session(client.session(memory_node), static_cast<std::uint16_t>(7 + memory_node)));
  }
  forest.run(revoke_by(client, 9));
  for (const Counting& one : each) {
    EXPECT_THAT(one.owners, ::testing::ElementsAre(7, 8, 9));
  }
}

TEST(Client, SweepsEachOfItsStructuresOfADeadOwner) {
  const ExclusiveLatch latch;
  Forest forest(latch);
  Counting revoker;
  const std::array<Revoker*, 1> revokers = {&revoker};
  Client client(forest.world.add_node("client"), forest.nodes, 4096,
                {.owner = 2, .lease = Lease{from_ns(1e6), from_ns(1e5)}}, {}, revokers);
  EXPECT_EQ(client.next_dead_owner(1), 0);
  forest.run(revoke_by(client, 9));
  EXPECT_EQ(client.next_dead_owner(1), 9);
  EXPECT_EQ(client.next_dead_owner(1), 9) << "it has not been swept";
  client.note_swept(1, 9);
  EXPECT_EQ(client.next_dead_owner(1), 0);
  EXPECT_EQ(client.next_dead_owner(2), 9);
}

Task<void> read_by_a_wrong_key(QueuePair& qp, LocalSpan into) {
  (void)co_await qp.read(into, RemoteSpan{{64}, 8, {0xdead}});
}

// An asynchronous unlatch was under way when the connection was lost, and the client goes on at the other memory node.
TEST(Client, NoticesALostConnectionAtWhicheverMemoryNodeItWorks) {
  const ExclusiveLatch latch(LatchLevel::async);
  HashTableRig rig(latch, crowded(), 2);
  RevocationService first(*rig.storage[0]);
  RevocationService second(*rig.storage[1]);
  const std::array<Revoker*, 2> revokers = {&first, &second};
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint16_t owner = 1; owner <= 2; ++owner) {
    SessionOptions options;
    options.owner = owner;
    options.lease = {from_ns(200'000), from_ns(20'000)};
    options.seed = owner;
    clients.push_back(std::make_unique<Client>(rig.world.add_node("client"), rig.storage, rig.table->buffer_bytes(),
                                               options, QueuePairOptions{}, revokers));
    first.enlist(owner, clients.back()->session(0).qp());
    second.enlist(owner, clients.back()->session(1).qp());
  }
  Client& client = *clients[0];
  Client& other = *clients[1];
  std::uint64_t here = 0;
  while (rig.table->place_of(here).memory_node != 0) {
    ++here;
  }
  std::uint64_t there = 0;
  while (rig.table->place_of(there).memory_node != 1) {
    ++there;
  }
  ASSERT_EQ(rig.put(client, here, 1), Outcome::done);
  ASSERT_EQ(rig.put(client, there, 1), Outcome::done);
  rig.run(client.drain());
  ASSERT_EQ(rig.put(client, here, 2), Outcome::done);
  ASSERT_TRUE(rig.world.lose_connection(client.session(0).qp()));
  const std::string text = message_of<FabricError>([&] { (void)rig.put(client, there, 2); });
  EXPECT_THAT(text, ::testing::HasSubstr("the connection to memory node 0 was lost with 1 updates or unlatches"));
  EXPECT_THAT(text, ::testing::HasSubstr("reconnect()"));
  rig.run(client.reconnect());
  EXPECT_EQ(rig.put(client, there, 3), Outcome::done);
  EXPECT_EQ(rig.get(other, here), 2U);
  EXPECT_EQ(rig.get(other, there), 3U);
  EXPECT_FALSE(first.revoked(1));
  rig.run(client.close());
  // A connection fails, and nothing was lost with it: nothing is said.
  Node& machine = client.session(0).qp().node();
  const MemoryRegion eight = machine.allocate(8, Access::local_write);
  EXPECT_THROW(rig.run(read_by_a_wrong_key(client.session(0).qp(), eight.local())), FabricError);
  EXPECT_EQ(rig.put(client, there, 4), Outcome::done);
  rig.run(client.reconnect());
  rig.run(client.close());
  rig.run(other.close());
}

TEST(BTreeWorker, IsOfOneTree) {
  const ExclusiveLatch latch;
  Forest first(latch);
  const Forest second(latch);
  BTree::Worker& worker = first.add_worker();
  ASSERT_EQ(first.run(put(*first.tree, worker, 1)), Outcome::done);
  EXPECT_THAT(message_of([&] { (void)first.run(put(*second.tree, worker, 1)); }),
              ::testing::HasSubstr("a worker of another tree"));
}

}  // namespace client_test
}  // namespace
}  // namespace sidelatch::structures
