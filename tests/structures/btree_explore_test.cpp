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
  BTreeOptions options{};             // their traversal; the rest is chosen for the scheme
  std::vector<std::uint64_t> keys{};  // inserted in this order; key k has the value k
  std::vector<std::uint64_t> removed{};
  std::vector<std::vector<Step>> clients{};
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

Task<void> act(explore::World& world, const BTree& tree, BTree::Worker& worker, const std::vector<Step>& steps,
               std::uint64_t client, Histories& histories) {
  std::uint64_t value = client * 100;
  for (const Step& step : steps) {
    Event event{.call = step.call, .argument = ++value, .began = world.moment(), .is_open = true};
    std::vector<Event>& history = histories[step.key];
    const std::size_t at = history.size();
    history.push_back(event);
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
    event.ended = world.moment();
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
    const std::array<Node*, 1> memory = {stage.node};
    for (std::size_t i = 0; i < scene.clients.size(); ++i) {
      Node& node = world.add_node("client " + std::to_string(i));
      BTreeWorkerOptions options;
      options.session.retry = Retry::at_once();
      stage.workers.push_back(std::make_unique<BTree::Worker>(*stage.tree, node, memory, options));
      stage.histories.push_back(std::make_unique<Histories>());
      world.spawn(node,
                  act(world, *stage.tree, *stage.workers.back(), scene.clients[i], i + 1, *stage.histories.back()));
    }
    world.at_end([&world, &stage, &scene](const explore::Order& order) {
      const Precedes precedes = [&order](const Event& first, const Event& second) {
        return order.before(static_cast<explore::Moment>(first.ended), static_cast<explore::Moment>(second.began));
      };
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

explore::Verdict explore_scene(Scene scene, const Scheme& scheme, const explore::Options& options) {
  const Traversal traversal = scene.options.traversal;
  scene.scheme = &scheme;
  scene.options = tiny_nodes(scheme);
  scene.options.traversal = traversal;
  return explore::check(program_of(scene), options);
}

#ifdef NDEBUG
constexpr bool kExhaustive = true;
#else
constexpr bool kExhaustive = false;  // under sanitizers a sample
#endif

// Checked under `relaxed`, which allows all behaviours of the other presets.
void expect_safe(const Scene& scene, const Scheme& scheme) {
  explore::Options options{.rules = model::rules_of(Preset::relaxed)};
  if (!kExhaustive) {
    options.mode = explore::Mode::random;
    options.max_executions = 300;
  }
  const explore::Verdict verdict = explore_scene(scene, scheme, options);
  EXPECT_EQ(verdict.outcome, kExhaustive ? explore::Outcome::safe : explore::Outcome::bounded)
      << explore::to_text(verdict);
}

// Latches have too many executions to explore all; this is a sample, not a proof.
void expect_nothing_in_a_sample(const Scene& scene, const Scheme& scheme) {
  const explore::Verdict verdict = explore_scene(scene, scheme,
                                                 {.rules = model::rules_of(Preset::relaxed),
                                                  .mode = explore::Mode::pct,
                                                  .max_executions = kExhaustive ? 4000U : 100U});
  EXPECT_EQ(verdict.outcome, explore::Outcome::bounded) << explore::to_text(verdict);
}

// All executions of the dearest scenes in the long run, else a sample.
void expect_safe_if_long(const Scene& scene, const Scheme& scheme) {
  if (takes_long()) {
    expect_safe(scene, scheme);
  } else {
    expect_nothing_in_a_sample(scene, scheme);
  }
}

const Scene kRootSplits{.keys = {10, 20, 30, 40},
                        .clients = {{{Call::insert, 25}}, {{Call::get, 40}, {Call::get, 25}}}};
const Scene kRootSplitsUnderAChange{.keys = {10, 20, 30, 40}, .clients = {{{Call::insert, 25}}, {{Call::update, 40}}}};
// The second leaf is full and splits; its upper half moves.
const Scene kLeafSplits{.keys = {10, 20, 30, 40, 50, 60},
                        .clients = {{{Call::insert, 55}}, {{Call::get, 60}, {Call::get, 55}}}};
const Scene kLeafSplitsUnderAChange{.keys = {10, 20, 30, 40, 50, 60},
                                    .clients = {{{Call::insert, 55}}, {{Call::put, 60}}}};
// The first leaf becomes empty and takes the second one's entries.
const std::vector<std::uint64_t> kThreeLeaves = {10, 20, 30, 40, 50, 60, 70, 80};
const Scene kLeavesMerge{
    .keys = kThreeLeaves, .removed = {20, 30}, .clients = {{{Call::remove, 10}}, {{Call::get, 40}, {Call::get, 10}}}};
const Scene kLeavesMergeUnderAChange{
    .keys = kThreeLeaves, .removed = {20, 30}, .clients = {{{Call::remove, 10}}, {{Call::put, 40}, {Call::get, 40}}}};
const Scene kTreeShrinks{.keys = {10, 20, 30, 40, 50},
                         .removed = {20, 30, 40},
                         .clients = {{{Call::remove, 10}}, {{Call::get, 50}, {Call::put, 50}}}};
// One client frees a node and reuses it at once, while the other is on its way there.
const Scene kNodeIsReused{.keys = kThreeLeaves,
                          .removed = {20, 30},
                          .clients = {{{Call::remove, 10}, {Call::insert, 75}, {Call::insert, 76}}, {{Call::put, 40}}}};

TEST(BTreeExplored, LookupsWhileTheRootSplits) { expect_safe(kRootSplits, TwoReadVersion()); }
TEST(BTreeExplored, LookupsWhileTheRootSplitsOutOfPlace) { expect_safe_if_long(kRootSplits, CopyOnWrite()); }
TEST(BTreeExplored, AChangeWhileTheRootSplits) { expect_safe(kRootSplitsUnderAChange, TwoReadVersion()); }
TEST(BTreeExplored, LookupsWhileALeafSplits) { expect_safe_if_long(kLeafSplits, TwoReadVersion()); }
TEST(BTreeExplored, AChangeWhileALeafSplits) { expect_safe_if_long(kLeafSplitsUnderAChange, TwoReadVersion()); }
TEST(BTreeExplored, LookupsWhileLeavesMerge) { expect_safe(kLeavesMerge, TwoReadVersion()); }
TEST(BTreeExplored, LookupsWhileLeavesMergeOutOfPlace) { expect_safe_if_long(kLeavesMerge, CopyOnWrite()); }
TEST(BTreeExplored, AChangeWhileLeavesMerge) { expect_safe_if_long(kLeavesMergeUnderAChange, TwoReadVersion()); }

Scene coupled(Scene scene) {
  scene.options.traversal = Traversal::coupled;
  return scene;
}

TEST(BTreeExplored, CoupledLookupsWhileTheRootSplits) { expect_safe_if_long(coupled(kRootSplits), TwoReadVersion()); }
TEST(BTreeExplored, CoupledLookupsWhileALeafSplits) { expect_safe_if_long(coupled(kLeafSplits), TwoReadVersion()); }
TEST(BTreeExplored, CoupledLookupsWhileLeavesMerge) { expect_safe(coupled(kLeavesMerge), TwoReadVersion()); }

TEST(BTreeExplored, ASampleUnderLatches) {
  for (const Scene& scene : {kRootSplits, kLeafSplits, kLeavesMerge, kTreeShrinks, kNodeIsReused}) {
    expect_nothing_in_a_sample(scene, RwLatch());
    expect_nothing_in_a_sample(coupled(scene), RwLatch());
  }
}

TEST(BTreeExplored, ASampleOfTreesThatShrinkAndOfNodesThatAreReused) {
  for (const Scene& scene : {kTreeShrinks, kNodeIsReused}) {
    expect_nothing_in_a_sample(scene, TwoReadVersion());
    expect_nothing_in_a_sample(coupled(scene), TwoReadVersion());
    expect_nothing_in_a_sample(scene, CopyOnWrite());
  }
}

// A scheme whose readers accept mixtures cannot build a valid tree.
TEST(BTreeExplored, ATreeOverABrokenSchemeIsCaught) {
  const checker::SelectedScheme naive = checker::select_scheme("broken/naive");
  const Scene two_changes{.keys = {10, 20}, .clients = {{{Call::remove, 10}}, {{Call::get, 20}, {Call::get, 10}}}};
  const explore::Verdict verdict =
      explore_scene(two_changes, *naive.scheme, {.rules = model::rules_of(Preset::observed)});
  EXPECT_EQ(verdict.outcome, explore::Outcome::broken) << explore::to_text(verdict);
}

}  // namespace
}  // namespace sidelatch::structures
