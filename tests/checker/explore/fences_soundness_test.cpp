// Several tasks on the one CPU of their node: a store of one keeps the fence of another waiting. The final states are
// the same with the reduction, with every order of events, and through states.
#include "checking.h"
#include "clients.h"

#include "checker/explore/mutation.h"
#include "tests/sampled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::explore {
namespace fences {
namespace {

using fabric::Task;
using fabric::WordCondition;
using fabric::model::Preset;

enum class What : std::uint8_t { store, load, fence, wait, yield };
struct Op {
  What what = What::store;
  std::uint64_t line = 0;
  std::uint64_t value = 0;
};
using Tasks = std::vector<std::vector<Op>>;
using End = std::vector<std::uint64_t>;

constexpr std::size_t kLoads = 4;

struct Seen {
  std::vector<std::uint64_t> values = std::vector<std::uint64_t>(kLoads);
};

Task<void> run_ops(World* world, Store* store, std::vector<Op> ops, Seen* seen) {
  fabric::Cpu& cpu = store->node->cpu();
  std::size_t loads = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op op = ops[i];
    switch (op.what) {
      case What::store:
        co_await cpu.store(store->own(op.line), op.value);
        break;
      case What::load: {
        const std::uint64_t value = co_await cpu.load(store->own(op.line));
        seen->values.at(loads++) = value + 1;
        break;
      }
      case What::fence:
        co_await cpu.fence();
        break;
      case What::wait:
        co_await cpu.wait(store->own(op.line), WordCondition::is_not(0));
        break;
      case What::yield:
        co_await world->yield(*store->node);
        break;
    }
  }
}

struct Result {
  Verdict verdict;
  std::set<End> ends;
};

Result reached(const Tasks& tasks, Preset preset, Mode mode, std::uint64_t most) {
  Result result;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world, 2);
    std::vector<Seen*> all;
    for (const std::vector<Op>& ops : tasks) {
      auto& seen = world.make<Seen>();
      all.push_back(&seen);
      world.spawn(*store.node, run_ops(&world, &store, ops, &seen));
    }
    world.at_end([&result, &store, all](const Order& /*order*/) {
      End end{store.value(0), store.value(1)};
      for (const Seen* const seen : all) {
        end.insert(end.end(), seen->values.begin(), seen->values.end());
      }
      result.ends.insert(end);
    });
  };
  Options options = under(preset);
  options.mode = mode;
  options.walks = 0;  // they would reach states that the search has not
  options.threads = 1;
  options.max_executions = mode == Mode::states ? 0 : most;
  options.states_for_loops = 0;
  options.look_for_shorter = ~std::uint64_t{0};
  result.verdict = check(program, options);
  return result;
}

// One waits for the word that the other stores first, and so begins its fence before the second store has drained.
const Tasks kBetweenTwoStores = {{{What::store, 1, 1}, {What::store, 0, 1}},
                                 {{What::wait, 1, 0}, {What::fence, 0, 0}, {What::load, 0, 0}}};

bool sees_nothing(const Result& result) {
  // The word is 0 behind the fence.
  return std::ranges::any_of(result.ends, [](const End& end) { return end[2 + kLoads] == 1; });
}

TEST(SharedCpu, AFenceMayPassBetweenTwoStoresOfAnotherTask) {
  for (const Preset preset : kPresets) {
    for (const Mode mode : {Mode::exhaustive, Mode::plain, Mode::states}) {
      const Result result = reached(kBetweenTwoStores, preset, mode, 100'000);
      EXPECT_EQ(result.verdict.outcome, Outcome::safe) << to_text(result.verdict);
      EXPECT_TRUE(sees_nothing(result)) << name(preset);
      EXPECT_EQ(result.ends.size(), 2U);
    }
  }
}

TEST(SharedCpu, TheFaultIsCaught) {
  planted_mutation = Mutation::fences_are_not_reversed;
  const Result result = reached(kBetweenTwoStores, Preset::observed, Mode::exhaustive, 100'000);
  planted_mutation = Mutation::none;
  EXPECT_FALSE(sees_nothing(result));
}

Tasks random_tasks(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Tasks tasks(2 + (below(4) == 0 ? 1 : 0));
  std::uint64_t value = 1;
  for (std::vector<Op>& ops : tasks) {
    const std::uint64_t count = tasks.size() == 3 ? 2 : 2 + below(2);
    for (std::uint64_t i = 0; i < count; ++i) {
      constexpr std::array kWhat = {What::store, What::store, What::load, What::fence,
                                    What::fence, What::wait,  What::yield};
      ops.push_back({kWhat.at(below(kWhat.size())), below(2), value++});
    }
  }
  return tasks;
}

std::string to_text(const Tasks& tasks) {
  constexpr std::array kNames = {"store", "load", "fence", "wait", "yield"};
  std::string text;
  for (const std::vector<Op>& ops : tasks) {
    text += "task:";
    for (const Op& op : ops) {
      text += fmt::format(" {} [{}] {};", kNames.at(static_cast<std::size_t>(op.what)), op.line, op.value);
    }
    text += "\n";
  }
  return text;
}

TEST(SharedCpu, RandomTasksReachTheSameStates) {
  constexpr std::uint64_t kMost = 1500;
  const std::uint64_t seeds = takes_long() ? 3000 : 120;
  std::uint64_t compared = 0;
  std::uint64_t stuck = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Tasks tasks = random_tasks(seed);
    const Preset preset = kPresets.at(seed % kPresets.size());
    const Result reduced = reached(tasks, preset, Mode::exhaustive, kMost);
    const Result plain = reached(tasks, preset, Mode::plain, kMost);
    const bool all_tried = plain.verdict.executions + plain.verdict.redundant < kMost;
    if (!all_tried || reduced.verdict.outcome == Outcome::bounded || plain.verdict.outcome == Outcome::bounded) {
      continue;  // too large to try every order of it
    }
    ++compared;
    EXPECT_EQ(reduced.ends, plain.ends) << "seed " << seed << "\n" << to_text(tasks);
    EXPECT_EQ(reduced.verdict.outcome, plain.verdict.outcome) << "seed " << seed << "\n" << to_text(tasks);
    const Result states = reached(tasks, preset, Mode::states, kMost);
    EXPECT_EQ(states.verdict.outcome, plain.verdict.outcome) << "seed " << seed << "\n" << to_text(tasks);
    if (plain.verdict.outcome == Outcome::broken) {
      ++stuck;  // a wait for a word that nobody sets: the search through states ends there
      continue;
    }
    EXPECT_EQ(states.ends, plain.ends) << "seed " << seed << "\n" << to_text(tasks);
  }
  EXPECT_GT(compared, seeds / 3);
  EXPECT_GT(compared - stuck, seeds / 8);
}

}  // namespace
}  // namespace fences
}  // namespace sidelatch::explore
