// A waiting client does not run again until it can read something new. This loses nothing: the final states are those
// of the same program with its loops written out, attempt by attempt, and not announced to the explorer.
#include <sidelatch/explore/check.h>

#include "checking.h"
#include "clients.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;

constexpr std::uint32_t kAttempts = 4;  // of a loop that is written out; a client gives up after so many failures

constexpr std::uint64_t kSeeds = kSanitized ? 30 : 100;

struct LoopOp {
  enum class What : std::uint8_t {
    write,
    read,
    add,
    raise_flag,
    wait_for_flag,
    latch,
    try_latch_by_adding,
    unlatch,
    peek
  };
  What what = What::read;
  std::uint64_t value = 0;
};
using LoopOps = std::vector<LoopOp>;
using Values = std::vector<std::uint64_t>;

struct Run {
  bool written_out = false;
  bool gave_up = false;
  Values seen;
};

// Line 0 holds data, line 1 the flag, line 2 the latch.
Task<void> run(Run* run, Client* client, Store* store, LoopOps ops) {
  for (const LoopOp& op : ops) {
    if (op.what == LoopOp::What::write) {
      client->set(0, op.value);
      co_await client->qp->write(client->word(0), store->word(0));
    } else if (op.what == LoopOp::What::read) {
      co_await client->qp->read(client->word(0), store->word(0));
      run->seen.push_back(client->value(0));
    } else if (op.what == LoopOp::What::peek) {
      co_await client->qp->read(client->word(0), store->word(2));
      run->seen.push_back(client->value(0));
    } else if (op.what == LoopOp::What::add) {
      const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), op.value);
      run->seen.push_back(old);
    } else if (op.what == LoopOp::What::raise_flag) {
      co_await client->qp->fetch_add(store->word(1), 1);
    } else if (op.what == LoopOp::What::unlatch) {
      // Nobody waits for it: what comes next may overtake it.
      co_await client->qp->enqueue(fabric::fetch_add(store->word(2), ~std::uint64_t{0}));
    } else {
      const auto loop = run->written_out ? fabric::Reactor::kNoLoop : client->node->reactor().begin_retries();
      // Whoever counts attempts carries something from one to the next.
      for (std::uint32_t attempt = 1;; attempt += run->written_out ? 1U : 0U) {
        bool done = false;
        if (op.what == LoopOp::What::wait_for_flag) {
          co_await client->qp->read(client->word(0), store->word(1));
          done = client->value(0) != 0;
        } else if (op.what == LoopOp::What::latch) {
          const std::uint64_t old = co_await client->qp->compare_swap(store->word(2), 0, 1);
          done = old == 0;
        } else {
          const std::uint64_t old = co_await client->qp->fetch_add(store->word(2), 1);
          done = old == 0;
          if (!done) {
            co_await client->qp->fetch_add(store->word(2), ~std::uint64_t{0});
          }
        }
        if (done) {
          break;
        }
        if (run->written_out) {
          if (attempt == kAttempts) {
            run->gave_up = true;
            co_return;
          }
        } else {
          co_await client->node->reactor().retry(loop, fabric::Duration::zero());
        }
      }
    }
  }
}

struct ReachedByLoops {
  std::set<Values> states;
  Verdict verdict;
};

ReachedByLoops reach(const std::vector<LoopOps>& clients, Preset preset, bool written_out,
                     Mode mode = Mode::exhaustive) {
  ReachedByLoops reached;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world, 3);
    auto& runs = world.make<std::vector<Run*>>();
    for (const LoopOps& ops : clients) {
      runs.push_back(&world.make<Run>());
      runs.back()->written_out = written_out;
      auto& client = world.make<Client>(world, store, "client");
      world.spawn(*client.node, run(runs.back(), &client, &store, ops));
    }
    world.at_end([&](const Order& /*order*/) {
      Values state = {store.value(0), store.value(1), store.value(2)};
      for (const Run* one : runs) {
        if (one->gave_up) {
          return;
        }
        state.insert(state.end(), one->seen.begin(), one->seen.end());
      }
      reached.states.insert(state);
    });
  };
  Options options{.rules = rules_of(preset), .mode = mode, .max_executions = 4000, .writing_retries = kAttempts};
  options.walks = 0;  // they would reach states that the search has not
  options.threads = 1;
  reached.verdict = check(program, options);
  return reached;
}

std::vector<LoopOps> random_clients(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t value = 1;
  const auto data = [&] {
    return LoopOp{std::array{LoopOp::What::write, LoopOp::What::read, LoopOp::What::add}.at(below(3)), value++ * 10};
  };
  std::vector<LoopOps> clients(2 + below(8) / 7);
  const bool flags = below(2) == 0;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    LoopOps& ops = clients[i];
    if (below(4) == 0) {
      ops.push_back(data());
    }
    if (flags) {
      if (i == 0) {
        ops.push_back(data());
      }
      ops.push_back({i == 0 ? LoopOp::What::raise_flag : LoopOp::What::wait_for_flag});
      ops.push_back(data());
    } else {
      ops.push_back({i != 0 && below(3) == 0 ? LoopOp::What::try_latch_by_adding : LoopOp::What::latch});
      ops.push_back(data());
      for (std::uint64_t peeks = below(3); i == 0 && peeks != 0; --peeks) {
        ops.push_back({LoopOp::What::peek});
      }
      ops.push_back({LoopOp::What::unlatch});
    }
    if (below(4) == 0) {
      ops.push_back(data());
    }
  }
  return clients;
}

class LoopSoundness : public ::testing::TestWithParam<Preset> {};

TEST_P(LoopSoundness, WaitingReachesWhatTryingAgainReaches) {
  std::uint32_t compared = 0;
  std::uint32_t several = 0;
  std::uint32_t proved = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<LoopOps> clients = random_clients(seed);
    const ReachedByLoops written_out = reach(clients, GetParam(), true);
    const ReachedByLoops waiting = reach(clients, GetParam(), false);
    const bool ended = waiting.verdict.outcome != Outcome::bounded || waiting.verdict.only_loops_bounded;
    if (written_out.verdict.outcome == Outcome::bounded || !ended) {
      continue;
    }
    ASSERT_EQ(written_out.verdict.outcome, Outcome::safe) << seed << to_text(written_out.verdict);
    ASSERT_NE(waiting.verdict.outcome, Outcome::broken) << seed << to_text(waiting.verdict);
    ASSERT_EQ(written_out.states, waiting.states) << "seed " << seed;
    proved += waiting.verdict.outcome == Outcome::safe ? 1U : 0U;
    ++compared;
    several += waiting.states.size() > 1 ? 1U : 0U;
  }
  EXPECT_GT(compared, kSeeds / 3);
  EXPECT_GT(several, kSeeds / 4);
  EXPECT_GT(proved, kSeeds / 5);
  RecordProperty("compared", static_cast<int>(compared));
}

INSTANTIATE_TEST_SUITE_P(EveryPreset, LoopSoundness,
                         ::testing::Values(Preset::strict, Preset::observed, Preset::relaxed),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

}  // namespace
}  // namespace sidelatch::explore
