// The search through states: loops without bound, what may go on for ever, growth, and what it cannot do.
#include "checking.h"
#include "clients.h"

#include "tests/sampled.h"

#include <sidelatch/explore/gtest.h>
#include <sidelatch/explore/scheme_check.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sidelatch::explore {
namespace {

using fabric::Duration;
using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

constexpr std::uint64_t kOneLess = ~std::uint64_t{0};

Options by_states(Preset preset = Preset::observed) {
  Options options = under(preset);
  options.mode = Mode::states;
  options.threads = 1;
  return options;
}

Program clients_of(std::uint32_t count, Task<void> (*task)(Client*, Store*, std::uint32_t)) {
  return [count, task](World& world) {
    auto& store = world.make<Store>(world);
    for (std::uint32_t i = 0; i < count; ++i) {
      auto& client = world.make<Client>(world, store, fmt::format("client {}", i));
      world.spawn(*client.node, task(&client, &store, i));
    }
  };
}

// ---- Loops whose attempts others can see.

// Latches by adding, and takes back what it added in vain.
Task<void> latch_by_adding(Client* client, Store* store, std::uint32_t /*number*/) {
  for (;;) {
    const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), 1);
    if (old == 0) {
      break;
    }
    co_await client->qp->fetch_add(store->word(0), kOneLess);
  }
  co_await client->qp->fetch_add(store->word(0), kOneLess);
}

// Nobody says that this is a loop, and no number of attempts is enough: the cycle is in the graph.
TEST(States, ShowALivelockByItsCycle) {
  for (const Preset preset : {Preset::strict, Preset::observed}) {
    const Verdict verdict = check(clients_of(3, latch_by_adding), by_states(preset));
    ASSERT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
    EXPECT_EQ(verdict.violation->kind, Kind::livelock);
    EXPECT_THAT(to_text(verdict), HasSubstr("from here on it repeats for ever"));
    const Verdict again = replay(clients_of(3, latch_by_adding), by_states(preset), verdict.violation->choices);
    ASSERT_EQ(again.outcome, Outcome::broken) << to_text(again);
    EXPECT_EQ(again.violation->kind, Kind::livelock);
    EXPECT_EQ(again.violation->choices, verdict.violation->choices);
  }
}

// One client alone makes nobody fail: while it holds the latch, it goes on (fairness), and the other's cycle is not
// fair.
TEST(States, CallACycleThatStarvesAnotherNoLivelock) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& first = world.make<Client>(world, store, "first");
    auto& second = world.make<Client>(world, store, "second");
    world.spawn(*first.node, add_one(&first, &store));
    world.spawn(*second.node, [](Client* client, Store* of) -> Task<void> {
      for (;;) {
        co_await client->qp->read(client->word(0), of->word(0));
        if (client->value(0) == 1) {
          co_return;
        }
      }
    }(&second, &store));
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program, by_states(preset)));
  }
}

// The other one never comes: now nothing leads out of the cycle.
TEST(States, TellADeadlockFromALivelock) {
  const Program program = clients_of(1, [](Client* client, Store* store, std::uint32_t /*number*/) -> Task<void> {
    for (;;) {
      co_await client->qp->fetch_add(store->word(1), 1);
      co_await client->qp->fetch_add(store->word(1), kOneLess);
      co_await client->qp->read(client->word(0), store->word(0));
      if (client->value(0) != 0) {
        break;
      }
    }
  });
  EXPECT_TRUE(is_broken(program, by_states(), Kind::deadlock));
}

// A request on its way arrives, although the client that posted it waits for others on the same queue pair.
Task<void> raise_late_and_wait(Client* client, Store* store, std::uint32_t number) {
  co_await client->qp->enqueue(fabric::fetch_add(store->word(number), 1));
  for (;;) {
    co_await client->qp->read(client->word(1), store->word(1 - number));
    if (client->value(1) != 0) {
      break;
    }
  }
}

// The first state may be the end.
TEST(States, JudgeAProgramWithoutTasks) {
  for (const std::uint64_t wanted : {std::uint64_t{0}, std::uint64_t{1}}) {
    const Verdict verdict = check(
        [&](World& world) {
          const auto& store = world.make<Store>(world, 1);
          world.at_end([&](const Order& /*order*/) { world.require(store.value(0) == wanted, "another value"); });
        },
        by_states());
    EXPECT_EQ(verdict.outcome, wanted == 0 ? Outcome::safe : Outcome::broken) << to_text(verdict);
  }
}

TEST(States, KnowThatWhatWasPostedArrives) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(clients_of(2, raise_late_and_wait), by_states(preset)));
  }
}

// The fourth failed attempt does harm; a bound of two attempts hides it.
Task<void> overflow(Client* client, Store* store, std::uint32_t number) {
  if (number == 0) {
    co_await client->qp->fetch_add(store->word(0), 1);
    co_return;
  }
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    const std::uint64_t before = co_await client->qp->fetch_add(store->word(1), 1);
    client->world->require(before < 4, "overflow");
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    co_await client->qp->reactor().retry(loop, Duration::zero());
  }
}

TEST(States, FindWhatNeedsManyAttempts) {
  EXPECT_TRUE(is_broken(clients_of(2, overflow), by_states(), Kind::assertion));
  // The exhaustive search meets its bound on attempts, and then goes through the states by itself.
  EXPECT_TRUE(is_broken(clients_of(2, overflow), under(Preset::observed), Kind::assertion));
}

// A count of attempts has no end.
Task<void> count_for_ever(Client* client, Store* store, std::uint32_t number) {
  if (number == 0) {
    co_await client->qp->fetch_add(store->word(0), 1);
    co_return;
  }
  std::uint64_t attempts = 0;
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    ++attempts;
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0 && attempts != 0) {
      break;
    }
    co_await client->qp->reactor().retry(loop, Duration::zero());
  }
  client->world->require(attempts > 0, "it tried");
}

TEST(States, SayWhichLoopHasNoEndOfThem) {
  const Verdict verdict = check(clients_of(2, count_for_ever), by_states());
  ASSERT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
  EXPECT_TRUE(verdict.only_loops_bounded);
  EXPECT_THAT(verdict.bound, HasSubstr("client 1"));
  EXPECT_THAT(verdict.bound, HasSubstr("states_test.cpp:"));
  EXPECT_THAT(verdict.bound, HasSubstr("of its frames and heap"));
}

// ---- What is remembered.

// What one client has read earlier, and nothing else, decides what it does now.
Task<void> remember(Client* client, Store* store, std::uint32_t number) {
  if (number == 0) {
    co_await client->qp->fetch_add(store->word(0), 1);
    co_return;
  }
  const std::uint64_t first = co_await client->qp->fetch_add(store->word(0), 0);
  auto* const kept = new std::uint64_t(first);
  co_await client->qp->read(client->word(1), store->word(1));
  const std::uint64_t second = co_await client->qp->fetch_add(store->word(0), 0);
  const bool grew = *kept == 0 && second == 1;
  delete kept;
  client->world->require(!grew, "it saw the word grow");
}

TEST(States, DifferInWhatIsOnTheHeap) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(clients_of(2, remember), by_states(preset), Kind::assertion));
  }
}

// ---- Growth.

// Each update reads, adds one and writes under a latch by compare-and-swap.
Program latch_with(std::uint32_t updates) {
  static const checker::SelectedScheme kSelected = checker::select_scheme("latch-exclusive/basic");
  return scheme_program(*kSelected.scheme, kSelected.entry->promise,
                        {.writers = 2, .updates = updates, .readers = 0, .lines = 1}, kSelected.layout);
}

TEST(States, GrowLikeAPolynomial) {
  const bool all = takes_long() && !kSanitized;
  const std::uint32_t half = all ? 4 : 2;
  for (const Preset preset : {Preset::strict, Preset::observed}) {
    const Verdict less = check(latch_with(half), by_states(preset));
    const Verdict more = check(latch_with(2 * half), by_states(preset));
    ASSERT_EQ(less.outcome, Outcome::safe) << to_text(less);
    ASSERT_EQ(more.outcome, Outcome::safe) << to_text(more);
    EXPECT_LE(more.states, 8 * less.states) << less.states << " and " << more.states;
    EXPECT_GT(more.states, less.states);
  }
}

// ---- In turns with the search through executions.

// There are 48 620 orders of nine additions of each of two clients.
Task<void> add_nine_times(Client* client, Store* store, std::uint32_t /*number*/) {
  for (int i = 0; i < 9; ++i) {
    co_await client->qp->fetch_add(store->word(0), 1);
  }
}

TEST(States, TakeTurnsWithExecutions) {
  Options options = under(Preset::observed);
  options.states_for_loops = 60;  // of the first turn: too few. Frames of code that is not optimized have most states
  for (const unsigned threads : {1U, 2U}) {
    options.threads = threads;
    const Verdict verdict = check(clients_of(2, add_nine_times), options);
    ASSERT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
    EXPECT_GT(verdict.states, 100U);
    EXPECT_LT(verdict.executions, 48'620U);
  }
}

TEST(States, TakeNoTurnOfMoreThanTheirBound) {
  Options options = under(Preset::observed);
  options.threads = 1;
  options.states_for_loops = 10;
  options.max_states = 30;
  options.max_executions = 20'000;
  const Verdict verdict = check(clients_of(2, add_nine_times), options);
  EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
  EXPECT_THAT(verdict.bound, HasSubstr("executions"));
  EXPECT_GE(verdict.states, 30U);
  EXPECT_LT(verdict.states, 100U);  // it ends with the level that exceeds its bound
}

// ---- Schemes.

TEST(States, DecideLatchesForReadersAndWriters) {
  CellOptions options;
  options.options = by_states(Preset::observed);
  options.lines = 1;
  const CellResult result = explore_cell("latch-rw/basic", options);
  EXPECT_EQ(result.verdict.outcome, Outcome::safe) << to_text(result.verdict);
}

TEST(States, ShowWhatIsWrongWithBrokenSchemes) {
  for (const auto& [scheme, kind] :
       {std::pair{"broken/bookend", Kind::torn_read}, std::pair{"broken/shared-buffer-async", Kind::buffer_race},
        std::pair{"latch-exclusive/write-unlatch", Kind::torn_read}}) {
    CellOptions options;
    options.options = by_states(Preset::spec);
    const CellResult result = explore_cell(scheme, options);
    ASSERT_EQ(result.verdict.outcome, Outcome::broken) << scheme << to_text(result.verdict);
    EXPECT_EQ(result.verdict.violation->kind, kind) << scheme << to_text(result.verdict);
    const Verdict again = replay_cell(scheme, result.workload, options.options, result.verdict.violation->choices);
    EXPECT_EQ(again.outcome, Outcome::broken) << scheme;
  }
}

// ---- What has no states to compare.

TEST(States, AreNotThereForProgramsThatAskForMoments) {
  for (const std::uint64_t most : {std::uint64_t{2}, std::uint64_t{1}}) {
    const Program program = [most](World& world) {
      auto& store = world.make<Store>(world);
      auto& client = world.make<Client>(world, store, "client");
      world.spawn(*client.node, [](Client* one, Store* of) -> Task<void> {
        co_await one->qp->fetch_add(of->word(0), one->world->moment() == 0 ? 1U : 2U);
        co_await one->qp->fetch_add(of->word(0), 1);
      }(&client, &store));
      world.at_end([&world, &store, most](const Order&) { world.require(store.value(0) <= most, "too much"); });
    };
    const Verdict verdict = check(program, by_states());
    EXPECT_EQ(verdict.outcome, most == 2 ? Outcome::safe : Outcome::broken) << to_text(verdict);
    EXPECT_THAT(to_text(verdict), HasSubstr("note: its executions were searched"));
    EXPECT_THAT(verdict.note, HasSubstr("asks for moments"));
    EXPECT_THAT(check(program, under(Preset::observed)).note, ::testing::IsEmpty());
  }
}

TEST(States, AreNotThereWhereAClientMayCrash) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.may_crash(*client.node);
    world.spawn(*client.node, add_one(&client, &store));
    world.at_end([&world, &store](const Order&) { world.require(store.value(0) == 1, "it has crashed before"); });
  };
  const Verdict verdict = check(program, by_states());
  EXPECT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  EXPECT_THAT(verdict.note, HasSubstr("a client may crash"));
}

}  // namespace
}  // namespace sidelatch::explore
