// The B-tree in the memory model: every order of the steps of two clients' NICs, on trees of a few nodes.
#include "btree_fixture.h"

#include "tests/sampled.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/explore/check.h>
#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using fabric::model::Preset;

struct Step {
  Call call = Call::get;
  std::uint64_t key = 0;
};

// A tree that one client made alone, and the operations of two clients on it.
struct Scene {
  const Scheme* scheme = nullptr;
  BTreeOptions options{};             // chosen for the scheme
  std::vector<std::uint64_t> keys{};  // inserted in this order; key k has the value k
  std::vector<std::uint64_t> removed{};
  std::vector<std::vector<Step>> clients{};
  bool ends_early = false;  // a fault of the test: operations say that they have ended before they begin
};

Task<void> prepare(const BTree& tree, BTree::Worker& worker, const Scene& scene) {
  for (const std::uint64_t key : scene.keys) {
    const Outcome outcome = co_await tree.insert(worker, key, Word(key).bytes());
    EXPECT_EQ(outcome, Outcome::done);
  }
  for (const std::uint64_t key : scene.removed) {
    const Outcome outcome = co_await tree.remove(worker, key);
    EXPECT_EQ(outcome, Outcome::done);
  }
  co_await tree.retire(worker);
}

std::vector<std::byte> image_of(const Scene& scene) {
  Forest forest(*scene.scheme, scene.options);
  BTree::Worker& worker = forest.add_worker();
  forest.run(prepare(*forest.tree, worker, scene));
  forest.world.reactor().run_for(from_ns(1e5));
  EXPECT_TRUE(forest.check().problems.empty());
  forest.world.reactor().run_for(from_ns(1e5));
  const std::span<const std::byte> bytes = forest.regions[0].bytes();
  return {bytes.begin(), bytes.end()};
}

// When operations begin and end. A search through states takes every order of these steps, so it counts them; any other
// search has moments, and judges all orders that are equivalent to the one that it ran.
class Clock {
 public:
  explicit Clock(explore::World& world) : world_(&world) { world.judges_with(this); }
  std::int64_t now() {
    if (!world_->judges_in_order()) {
      return static_cast<std::int64_t>(world_->moment());
    }
    world_->order_matters();
    return ++steps_;
  }
  [[nodiscard]] Precedes order(const explore::Order& moments) const {
    if (world_->judges_in_order()) {
      return [](const Event& first, const Event& second) { return first.ended < second.began; };
    }
    return [&moments](const Event& first, const Event& second) {
      return moments.before(static_cast<explore::Moment>(first.ended), static_cast<explore::Moment>(second.began));
    };
  }

 private:
  explore::World* world_;
  std::int64_t steps_ = 0;
};

Task<void> act(Clock& clock, const BTree& tree, BTree::Worker& worker, const Scene& scene, std::size_t client,
               Histories& histories) {
  std::uint64_t value = 100 * (client + 1);
  for (const Step& step : scene.clients[client]) {
    Event event{.call = step.call, .argument = ++value, .began = clock.now(), .is_open = true};
    std::vector<Event>& history = histories[step.key];
    const std::size_t at = history.size();
    history.push_back(event);
    const std::int64_t early = scene.ends_early ? clock.now() : 0;
    Word word(event.argument);
    switch (step.call) {
      case Call::get:
        event.outcome = co_await tree.get(worker, step.key, word.bytes());
        event.result = word.number();
        break;
      case Call::insert:
        event.outcome = co_await tree.insert(worker, step.key, word.bytes());
        break;
      case Call::put:
        event.outcome = co_await tree.put(worker, step.key, word.bytes());
        break;
      case Call::update:
        event.outcome = co_await tree.update(worker, step.key, word.bytes());
        break;
      case Call::remove:
        event.outcome = co_await tree.remove(worker, step.key);
        break;
    }
    event.is_open = false;
    event.ended = scene.ends_early ? early : clock.now();
    histories[step.key][at] = event;
  }
}

struct Stage {
  Stage(const Scene& scene, explore::World& world, const std::vector<std::byte>& image)
      : node(&world.add_node("memory")), region(node->allocate(image.size(), Access::remote_all)) {
    std::ranges::copy(image, region.bytes().begin());
    const RemoteSpan span = region.remote();
    tree = std::make_unique<BTree>(*scene.scheme, scene.options, std::span(&span, 1));
  }
  Node* node;
  MemoryRegion region;
  std::unique_ptr<BTree> tree;
  std::vector<std::unique_ptr<BTree::Worker>> workers;
  // Each client has its own: what a client can reach is compared where it tries again.
  std::vector<std::unique_ptr<Histories>> histories;
};

Histories merged(const std::vector<std::unique_ptr<Histories>>& histories) {
  Histories all;
  for (const auto& of_client : histories) {
    for (const auto& [key, history] : *of_client) {
      all[key].insert(all[key].end(), history.begin(), history.end());
    }
  }
  return all;
}

explore::Program program_of(const Scene& scene) {
  return [&scene, image = image_of(scene)](explore::World& world) {
    Stage& stage = world.make<Stage>(scene, world, image);
    auto& clock = world.make<Clock>(world);
    const std::array<Node*, 1> memory = {stage.node};
    for (std::size_t i = 0; i < scene.clients.size(); ++i) {
      Node& node = world.add_node("client " + std::to_string(i));
      BTreeWorkerOptions options;
      options.session.retry = Retry::at_once();
      stage.workers.push_back(std::make_unique<BTree::Worker>(*stage.tree, node, memory, options));
      stage.histories.push_back(std::make_unique<Histories>());
      world.spawn(node, act(clock, *stage.tree, *stage.workers.back(), scene, i, *stage.histories.back()));
    }
    world.at_end([&world, &stage, &scene, &clock](const explore::Order& order) {
      const Precedes precedes = clock.order(order);
      for (const auto& [key, history] : merged(stage.histories)) {
        const bool was_there = std::ranges::count(scene.keys, key) > 0 && std::ranges::count(scene.removed, key) == 0;
        if (!is_linearizable(history, was_there ? std::optional(key) : std::nullopt, precedes)) {
          world.fail(explore::Kind::linearizability, "the operations on key " + std::to_string(key));
        }
      }
    });
  };
}

// Four entries to a leaf, and four children to an inner node.
BTreeOptions tiny_nodes(const Scheme& scheme) {
  for (BTreeOptions options{.node_bytes = 128, .nodes = 16, .layout = LayoutKind::interleaved};;
       options.node_bytes += 8) {
    try {
      (void)BTree::bytes_needed(scheme, options);
      return options;
    } catch (const std::invalid_argument&) {  // too small for four
    }
  }
}

explore::Verdict explore_scene(Scene scene, const Scheme& scheme, Traversal traversal,
                               const explore::Options& options) {
  scene.scheme = &scheme;
  scene.options = tiny_nodes(scheme);
  scene.options.traversal = traversal;
  return explore::check(program_of(scene), options);
}

#ifdef NDEBUG
constexpr bool kIsOptimized = true;
#else
constexpr bool kIsOptimized = false;  // as under sanitizers
#endif

const std::vector<std::uint64_t> kThreeLeaves = {10, 20, 30, 40, 50, 60, 70, 80};
const std::map<std::string, Scene> kScenes = {
    {"LookupsWhileTheRootSplits",
     {.keys = {10, 20, 30, 40}, .clients = {{{Call::insert, 25}}, {{Call::get, 40}, {Call::get, 25}}}}},
    {"AChangeWhileTheRootSplits", {.keys = {10, 20, 30, 40}, .clients = {{{Call::insert, 25}}, {{Call::update, 40}}}}},
    // The second leaf is full and splits; its upper half moves.
    {"LookupsWhileALeafSplits",
     {.keys = {10, 20, 30, 40, 50, 60}, .clients = {{{Call::insert, 55}}, {{Call::get, 60}, {Call::get, 55}}}}},
    {"AChangeWhileALeafSplits",
     {.keys = {10, 20, 30, 40, 50, 60}, .clients = {{{Call::insert, 55}}, {{Call::put, 60}}}}},
    // The first leaf becomes empty and takes the second one's entries.
    {"LookupsWhileLeavesMerge",
     {.keys = kThreeLeaves,
      .removed = {20, 30},
      .clients = {{{Call::remove, 10}}, {{Call::get, 40}, {Call::get, 10}}}}},
    {"AChangeWhileLeavesMerge",
     {.keys = kThreeLeaves,
      .removed = {20, 30},
      .clients = {{{Call::remove, 10}}, {{Call::put, 40}, {Call::get, 40}}}}},
    {"TheTreeShrinks",
     {.keys = {10, 20, 30, 40, 50},
      .removed = {20, 30, 40},
      .clients = {{{Call::remove, 10}}, {{Call::get, 50}, {Call::put, 50}}}}},
    // One client frees a node and reuses it at once, while the other is on its way there.
    {"ANodeIsReused",
     {.keys = kThreeLeaves,
      .removed = {20, 30},
      .clients = {{{Call::remove, 10}, {Call::insert, 75}, {Call::insert, 76}}, {{Call::put, 40}}}}},
};

struct Case {
  std::string name;
  const Scene* scene;
  std::shared_ptr<const Scheme> scheme;
  Traversal traversal;
  bool is_short;  // its states take seconds, not minutes
};

std::vector<Case> cases() {
  const std::map<std::string, std::shared_ptr<const Scheme>> schemes = {
      {"TwoReadVersion", std::make_shared<TwoReadVersion>()},
      {"CopyOnWrite", std::make_shared<CopyOnWrite>()},
      {"RwLatch", std::make_shared<RwLatch>()},
  };
  std::vector<Case> all;
  for (const auto& [scene_name, scene] : kScenes) {
    for (const auto& [scheme_name, scheme] : schemes) {
      const bool is_short = scheme_name == "TwoReadVersion" &&
                            (scene_name.ends_with("TheRootSplits") || scene_name.ends_with("LeavesMerge"));
      all.push_back({scene_name + "_" + scheme_name, &scene, scheme, Traversal::fences, is_short});
      all.push_back({scene_name + "_" + scheme_name + "_Coupled", &scene, scheme, Traversal::coupled, is_short});
    }
  }
  return all;
}

class BTreeExplored : public testing::TestWithParam<Case> {};

// All states where they are few, and in the long run; else a sample of executions. Under `relaxed`, which allows all
// behaviours of the other presets.
TEST_P(BTreeExplored, IsSafe) {
  const Case& the = GetParam();
  explore::Options options{.rules = model::rules_of(Preset::relaxed)};
  const bool is_whole = kIsOptimized && (the.is_short || takes_long());
  if (is_whole) {
    options.mode = explore::Mode::states;
  } else {
    options.mode = explore::Mode::pct;
    options.max_executions = kIsOptimized ? 4000U : the.is_short ? 300U : 100U;
  }
  const explore::Verdict verdict = explore_scene(*the.scene, *the.scheme, the.traversal, options);
  EXPECT_EQ(verdict.outcome, is_whole ? explore::Outcome::safe : explore::Outcome::bounded)
      << explore::to_text(verdict);
}

INSTANTIATE_TEST_SUITE_P(All, BTreeExplored, testing::ValuesIn(cases()),
                         [](const auto& made) { return made.param.name; });

// ---- What must be caught.

constexpr std::array kSearches = {explore::Mode::states, explore::Mode::exhaustive};

// A scheme whose readers accept mixtures cannot build a valid tree.
TEST(BTreeExploration, CatchesATreeOverABrokenScheme) {
  const checker::SelectedScheme naive = checker::select_scheme("broken/naive");
  const Scene two_changes{.keys = {10, 20}, .clients = {{{Call::remove, 10}}, {{Call::get, 20}, {Call::get, 10}}}};
  for (const explore::Mode mode : kSearches) {
    const explore::Verdict verdict = explore_scene(two_changes, *naive.scheme, Traversal::fences,
                                                   {.rules = model::rules_of(Preset::observed), .mode = mode});
    EXPECT_EQ(verdict.outcome, explore::Outcome::broken) << explore::to_text(verdict);
  }
}

// Only the order of what has ended and what begins shows that this is wrong: each result alone is a possible one.
TEST(BTreeExploration, CatchesAChangeThatComesAfterItsEnd) {
  Scene late{.keys = {10, 20}, .clients = {{{Call::insert, 15}}, {{Call::get, 15}}}};
  for (const explore::Mode mode : kSearches) {
    const explore::Options options{.rules = model::rules_of(Preset::strict), .mode = mode};
    late.ends_early = false;
    const explore::Verdict right = explore_scene(late, TwoReadVersion(), Traversal::fences, options);
    EXPECT_EQ(right.outcome, explore::Outcome::safe) << explore::to_text(right);
    late.ends_early = true;
    const explore::Verdict verdict = explore_scene(late, TwoReadVersion(), Traversal::fences, options);
    ASSERT_EQ(verdict.outcome, explore::Outcome::broken) << explore::to_text(verdict);
    EXPECT_EQ(verdict.violation->kind, explore::Kind::linearizability);
  }
}

}  // namespace
}  // namespace sidelatch::structures
