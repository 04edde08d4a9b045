// The end of a session: how long it waits, for one queue pair or for two, of which one may be slow, and what it gives
// back meanwhile.
#include "behaviour.h"
#include "store.h"
#include "victim.h"

#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/switch_latch.h>
#include <sidelatch/sync/switched_version.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

namespace sidelatch::sync {
namespace {
namespace session_end {

using namespace fabric;

constexpr Duration kLinger = from_ns(1e6);
constexpr Duration kFast{};
constexpr Duration kSlow = from_ns(4.2e5);  // there and back more than three quarters of kLinger, and not all of it
constexpr Duration kDead = from_ns(1e9);    // answers when nobody waits any more

// On the way to a node. Nothing happens to what passes, but it takes its time.
class Way final : public sim::NetworkDevice {
 public:
  explicit Way(Duration latency) : latency_(latency) {}
  [[nodiscard]] Duration cable() const override { return from_ns(100); }
  [[nodiscard]] Duration latency() const override { return latency_; }
  [[nodiscard]] Verdict request(Message& message) override {
    requests.push_back(message.request);
    most_at_once = std::max(most_at_once, ++at_once_);
    return Verdict::forward;
  }
  void answer(Message& /*message*/) override { --at_once_; }

  std::vector<WorkRequest> requests;  // that have come by
  int most_at_once = 0;

 private:
  Duration latency_;
  int at_once_ = 0;
};

Task<void> latch_and_abort(const Scheme& scheme, Session& session, Object object) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await guard.abort();
}

Task<void> change_behind(const Scheme& scheme, Session& session, Object object) {
  ExclusiveGuard guard = co_await scheme.latch(session, object);
  fill(guard.payload(), 5);
  co_await guard.commit();  // asynchronous
}

// A session with objects at one node, and their latches at another.
struct Scene {
  Scene(Duration to_memory, Duration to_latches) : memory_way(to_memory), latches_way(to_latches) {
    reported = {};
    const SessionOptions wanted{.linger = kLinger, .lost_work = [](const LostWork& lost) { reported = lost; }};
    session = &store.add_session(wanted, store.world.options().profile, [&](Node& node, SessionOptions options) {
      latches = node.connect(at_switch);
      store.world.pass_through(*store.queue_pairs.back(), memory_way);
      store.world.pass_through(*latches, latches_way);
      session_latches = {
          .queue_pair = latches.get(), .words = words.remote(), .first = store.memory.remote().address, .granule = 128};
      options.latches = session_latches;
      return options;
    });
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() {
    store.world.reactor().destroy_spawned();
    store.sessions.clear();  // before the queue pair to the latches
  }
  // A request that changes nothing.
  void ask_memory() {
    const std::array<WorkRequest, 1> one = {compare_swap(store.objects.at(1).latch(), kFree, kFree)};
    EXPECT_TRUE(session->qp().post(one));
  }
  // A task that is destroyed while its CAS of object 0's latch is on its way.
  void leave_a_latch() {
    Victim victim(latch_and_abort(scheme, *session, store.objects.at(0)));
    EXPECT_EQ(latches->outstanding(), 1U);
    victim.destroy();
    EXPECT_EQ(session->owed(), 1U);
  }
  void run_until_posted(std::uint64_t requests) {
    while (session->qp().posted() < requests) {
      store.world.reactor().run_for(from_ns(100));
    }
  }
  // Returns how long it takes.
  Duration end_session() {
    const Time begin = store.world.reactor().now();
    store.sessions.clear();
    return store.world.reactor().now() - begin;
  }
  [[nodiscard]] std::uint64_t word() const {
    std::uint64_t word = 0;
    const RemoteSpan at = session_latches.word_of(store.objects.at(0));
    std::memcpy(&word, words.bytes().data() + (at.address.value - words.remote().address.value), sizeof word);
    return word;
  }

  Way memory_way;
  Way latches_way;
  SwitchLatch scheme;
  Store store{scheme};
  Node& at_switch = store.world.add_node("switch");
  MemoryRegion words = at_switch.allocate(64, Access::remote_all);
  std::unique_ptr<QueuePair> latches;
  RemoteLatches session_latches;
  Session* session = nullptr;
  static inline LostWork reported{};
};

TEST(SessionEnd, WaitsNoLongerThanLingerInAll) {
  for (const auto& [memory, latches] : {std::tuple{kDead, kDead}, {kDead, kFast}, {kFast, kDead}, {kSlow, kSlow}}) {
    Scene scene(memory, latches);
    scene.ask_memory();
    scene.leave_a_latch();
    EXPECT_LE(scene.end_session(), kLinger) << to_ns(memory) << ' ' << to_ns(latches);
  }
}

TEST(SessionEnd, WaitsNoLongerThanItMust) {
  Scene scene(kFast, kFast);
  scene.ask_memory();
  scene.leave_a_latch();
  EXPECT_LT(scene.end_session(), kLinger / 20);
  EXPECT_EQ(scene.word(), kFree);
  EXPECT_TRUE(Scene::reported.nothing());
}

TEST(SessionEnd, AMemoryThatIsSlowLeavesTimeForTheSwitch) {
  for (const Duration memory : {kSlow, kDead}) {
    Scene scene(memory, kFast);
    scene.ask_memory();
    scene.leave_a_latch();
    static_cast<void>(scene.end_session());
    EXPECT_EQ(scene.word(), kFree) << to_ns(memory);
    EXPECT_TRUE(Scene::reported.nothing()) << "the switch has freed the latch, and the memory was asked for nothing";
  }
}

// The time that the switch leaves is the memory's, too.
TEST(SessionEnd, AMemoryThatIsSlowHasAllTheTimeThatTheSwitchLeaves) {
  const ExclusiveLatch at_memory(LatchLevel::async);
  Scene scene(kSlow, kFast);
  scene.store.run(change_behind(at_memory, *scene.session, scene.store.objects.at(2)));
  EXPECT_NE(scene.store.latch_word(2), kFree);
  scene.leave_a_latch();
  EXPECT_LE(scene.end_session(), kLinger);
  EXPECT_EQ(scene.word(), kFree);
  EXPECT_EQ(scene.store.latch_word(2), kFree);
  EXPECT_TRUE(Scene::reported.nothing());
}

// An update that the memory did not get is lost, and nothing else is.
TEST(SessionEnd, ReportsOnlyWhatTheDeadMemoryWasAskedFor) {
  const ExclusiveLatch at_memory(LatchLevel::async);
  Scene scene(kDead, kFast);
  scene.store.run(change_behind(at_memory, *scene.session, scene.store.objects.at(2)));
  scene.leave_a_latch();
  static_cast<void>(scene.end_session());
  EXPECT_EQ(scene.word(), kFree);
  EXPECT_EQ(Scene::reported.unlatches, 1U);
  EXPECT_EQ(Scene::reported.latches, 0U);
}

// A latch that the session holds for certain: its operation was destroyed while it read the object. Of the other latch
// only the outcome of a CAS can tell.
TEST(SessionEnd, ALatchThatIsHeldForCertainIsFreeAlthoughTheSwitchIsDead) {
  const ExclusiveLatch at_memory(LatchLevel::basic);
  Scene scene(kFast, kDead);
  Victim asks_switch(latch_and_abort(scene.scheme, *scene.session, scene.store.objects.at(0)));
  Victim reads(latch_and_abort(at_memory, *scene.session, scene.store.objects.at(2)));
  scene.run_until_posted(2);
  reads.destroy();
  asks_switch.destroy();
  ASSERT_EQ(scene.session->owed(), 2U);
  EXPECT_LE(scene.end_session(), kLinger);
  EXPECT_EQ(scene.store.latch_word(2), kFree);
  EXPECT_EQ(Scene::reported.unlatches, 1U) << "the one that the switch was asked for";
  EXPECT_EQ(Scene::reported.latches, 0U);
}

TEST(SessionEnd, ALatchThatIsHeldForCertainIsFreeAsSoonAsTheMemoryAnswers) {
  const ExclusiveLatch at_memory(LatchLevel::basic);
  Scene scene(kSlow, kFast);
  Victim reads(latch_and_abort(at_memory, *scene.session, scene.store.objects.at(2)));
  scene.run_until_posted(2);
  Victim asks(latch_and_abort(at_memory, *scene.session, scene.store.objects.at(1)));
  reads.destroy();
  asks.destroy();
  ASSERT_EQ(scene.session->owed(), 2U);
  EXPECT_LE(scene.end_session(), kLinger);
  EXPECT_EQ(scene.store.latch_word(2), kFree) << "there is time for one answer, and not for two";
  EXPECT_EQ(Scene::reported.unlatches, 1U) << "its CAS was answered, and its unlatch was not";
  EXPECT_EQ(Scene::reported.latches, 0U);
}

// Who finds the second object free expects to see the commit of the first.
TEST(SessionEnd, AnUnlatchStaysBehindTheCommitsBeforeIt) {
  const ExclusiveLatch behind(LatchLevel::async);
  const ExclusiveLatch at_memory(LatchLevel::basic);
  Scene scene(kFast, kFast);
  Victim commits(
      change_behind(behind, *scene.session, scene.store.objects.at(1)));  // CAS and READ, WRITE and FETCH-ADD
  Victim reads(latch_and_abort(at_memory, *scene.session, scene.store.objects.at(2)));  // CAS, READ
  scene.run_until_posted(6);
  Victim asks(latch_and_abort(at_memory, *scene.session, scene.store.objects.at(3)));
  reads.destroy();
  asks.destroy();
  ASSERT_EQ(scene.session->owed(), 2U);
  static_cast<void>(scene.end_session());
  const RemoteSpan latch = scene.store.objects.at(2).latch();
  const auto unlatch = std::ranges::find_if(scene.memory_way.requests, [&](const WorkRequest& request) {
    return request.opcode == Opcode::fetch_add && request.remote == latch.address;
  });
  ASSERT_NE(unlatch, scene.memory_way.requests.end());
  EXPECT_TRUE(unlatch->fence);
  for (const std::uint64_t object : {1U, 2U, 3U}) {
    EXPECT_EQ(scene.store.latch_word(object), kFree) << object;
  }
  EXPECT_TRUE(Scene::reported.nothing());
}

Task<void> ask(QueuePair& qp, Object object) { co_await qp.compare_swap(object.latch(), kFree, kFree); }

// The queue pair knows what a CAS has found until as many requests have followed as its send queue has places. Here the
// unlatch is one too many.
TEST(SessionEnd, TheUnlatchThatComesFirstPushesOutNoOutcome) {
  const ExclusiveLatch latch(LatchLevel::basic);
  Store store(latch);
  Node& client = store.world.add_node("client");
  const auto qp = client.connect(store.storage, {.send_queue_depth = 4});
  static LostWork reported;
  reported = {};
  {
    Session session(*qp, buffer_bytes(store.layout.shape()),
                    {.lost_work = [](const LostWork& lost) { reported = lost; }});
    Victim asks(latch_and_abort(latch, session, store.objects.at(1)));
    Victim reads(latch_and_abort(latch, session, store.objects.at(2)));
    asks.destroy();
    while (qp->posted() < 3) {  // CAS, CAS, READ
      store.world.reactor().run_for(from_ns(100));
    }
    reads.destroy();
    ASSERT_EQ(session.owed(), 2U);
    store.run(ask(*qp, store.objects.at(3)));
    ASSERT_EQ(qp->posted(), 4U);
    ASSERT_NE(store.latch_word(1), kFree);
    ASSERT_NE(store.latch_word(2), kFree);
  }
  EXPECT_EQ(store.latch_word(1), kFree);
  EXPECT_EQ(store.latch_word(2), kFree);
  EXPECT_TRUE(reported.nothing());
}

Task<void> latch_and_wait(const Scheme& scheme, Session& session, Object object) {
  const ExclusiveGuard guard = co_await scheme.latch(session, object);
  co_await session.qp().reactor().sleep(kDead);
}

// A guard that is dropped while the send queue is full leaves its latch to the session.
TEST(SessionEnd, ALatchIsFreeAlthoughTheSendQueueWasFull) {
  const ExclusiveLatch latch(LatchLevel::basic);
  Store store(latch);
  const auto qp = store.world.add_node("client").connect(store.storage, {.send_queue_depth = 4});
  static LostWork reported;
  reported = {};
  {
    Session session(*qp, buffer_bytes(store.layout.shape()),
                    {.lost_work = [](const LostWork& lost) { reported = lost; }});
    Victim holds(latch_and_wait(latch, session, store.objects.at(1)));
    while (qp->posted() < 2 || qp->outstanding() != 0) {  // CAS, READ
      store.world.reactor().run_for(from_ns(100));
    }
    const std::array<WorkRequest, 1> one = {compare_swap(store.objects.at(2).latch(), kFree, kFree)};
    while (qp->outstanding() < 4) {
      ASSERT_TRUE(qp->post(one));
    }
    holds.destroy();
    ASSERT_EQ(session.owed(), 1U);
    ASSERT_EQ(qp->outstanding(), 4U);
  }
  EXPECT_EQ(store.latch_word(1), kFree);
  EXPECT_TRUE(reported.nothing());
}

// Such a switch takes one request of a queue pair at a time. A plain memory node answers in its place here.
TEST(SessionEnd, ASwitchThatKeepsVersionsIsAskedOneThingAtATime) {
  const SwitchedVersion scheme;
  Store store(scheme);
  Node& client = store.world.add_node("client");
  const auto qp = client.connect(store.storage);
  Way way(from_ns(1'000));
  store.world.pass_through(*qp, way);
  static LostWork reported;
  reported = {};
  {
    Session session(*qp, buffer_bytes(store.layout.shape()),
                    {.lost_work = [](const LostWork& lost) { reported = lost; }, .versions_at_switch = true});
    Victim holds(latch_and_wait(scheme, session, store.objects.at(1)));
    while (store.latch_word(1) == kFree || qp->outstanding() != 0) {
      store.world.reactor().run_for(from_ns(100));
    }
    Victim asks(latch_and_abort(scheme, session, store.objects.at(2)));
    while (qp->posted() < 4) {  // READ, CAS, READ, CAS
      store.world.reactor().run_for(from_ns(100));
    }
    holds.destroy();
    asks.destroy();
    ASSERT_EQ(session.owed(), 2U);
    ASSERT_EQ(qp->outstanding(), 1U);
  }
  EXPECT_EQ(way.most_at_once, 1);
  EXPECT_EQ(store.latch_word(1) % 2, 0U);
  EXPECT_EQ(store.latch_word(2) % 2, 0U);
  EXPECT_TRUE(reported.nothing());
}

Task<void> change_and_drain(const Scheme& scheme, Session& session, Object object) {
  co_await change_behind(scheme, session, object);
  co_await session.qp().drain();
}
Task<void> find_that_it_is_lost(QueuePair& qp, Object object) {
  try {
    co_await ask(qp, object);
  } catch (const FabricError&) {
  }
}

// The memory node has ended the queue pair after the WRITE has completed, and before all of it was placed.
TEST(SessionEnd, ReportsAWriteThatHasCompletedAndMayBeLost) {
  int lost = 0;
  for (const WriteUnlatch unlatch : {WriteUnlatch::awaited, WriteUnlatch::async}) {
    const ExclusiveLatch by_write(Acquire::speculative, unlatch);
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const sim::Profile profile = adversarial_profile();
      Store store(by_write, 200, 1, by_write.default_layout(),
                  {.profile = profile, .rules = model::rules_of(model::Preset::observed), .seed = seed});
      static LostWork reported;
      reported = {};
      Session& session = store.add_session({.lost_work = [](const LostWork& work) { reported = work; }}, profile);
      store.run(change_and_drain(by_write, session, store.objects.at(0)));
      store.storage.revoke(session.qp());
      store.run(find_that_it_is_lost(session.qp(), store.objects.at(0)));
      ASSERT_EQ(session.qp().state(), QueuePair::State::error);
      store.sessions.clear();
      store.world.reactor().run_for(from_ns(1e5));
      const auto payload = store.memory.bytes().subspan(store.layout.payload(0), 200);
      if (store.latch_word(0) != kFree || first_word(payload) != 5 || !uniform(payload)) {
        ++lost;
        EXPECT_EQ(reported.unlatches, 1U) << seed;
      }
    }
  }
  EXPECT_GT(lost, 0);
}

}  // namespace session_end
}  // namespace
}  // namespace sidelatch::sync
