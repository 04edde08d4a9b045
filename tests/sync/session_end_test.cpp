// The end of a session whose latches are apart from its objects: it waits for two queue pairs, and one may be slow.
#include "store.h"
#include "victim.h"

#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/switch_latch.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>

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
  [[nodiscard]] Verdict request(Message& /*message*/) override { return Verdict::forward; }
  void answer(Message& /*message*/) override {}

 private:
  Duration latency_;
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

}  // namespace session_end
}  // namespace
}  // namespace sidelatch::sync
