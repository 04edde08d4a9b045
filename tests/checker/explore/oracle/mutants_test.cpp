// What the comparison with the oracle is worth: faults that are planted in the explorer's parking rule, in what it
// takes for a client's state, in its reduction and in its judgement are caught. Each is caught by the first program
// from the seed named here on that shows it.
#include "compare.h"

#include "../checking.h"
#include "../clients.h"
#include "../started.h"

#include "checker/explore/mutation.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>

namespace sidelatch::explore::oracle {
namespace {

using fabric::model::Preset;

struct Planted {
  explicit Planted(Mutation mutation) { planted_mutation = mutation; }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
  ~Planted() { planted_mutation = Mutation::none; }
};

struct Mutant {
  const char* name;
  Mutation mutation;
  Preset preset;
  std::uint64_t seed;
  Mode mode = Mode::exhaustive;
  friend void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }
};

class Mutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreCaught) {
  constexpr std::uint64_t kPrograms = 60;
  const Mutant& mutant = GetParam();
  const Limits limits = mutant.mode == Mode::states ? Limits{1'500, 0, Mode::states} : Limits{4'000, 400};
  for (std::uint64_t seed = mutant.seed; seed < mutant.seed + kPrograms; ++seed) {
    const ProgramList program = random_list(seed);
    const fabric::model::Rules rules = rules_for(mutant.preset, seed);
    const Answer answer = explore_all(program, rules, limits.states);
    std::string difference;
    {
      const Planted planted(mutant.mutation);
      difference = compare(program, rules, limits, answer).difference;
    }
    if (!difference.empty()) {
      // And nothing else is wrong with it.
      EXPECT_EQ(compare(program, rules, limits, answer).difference, "") << "seed " << seed;
      return;
    }
  }
  FAIL() << "no program shows it";
}

INSTANTIATE_TEST_SUITE_P(
    Each, Mutants,
    ::testing::Values(
        Mutant{"CutsAreNotTold", Mutation::cuts_are_not_told, Preset::strict, 772},
        Mutant{"FramesLeftOut", Mutation::frames_left_out, Preset::strict, 69},
        Mutant{"BuffersLeftOut", Mutation::buffers_left_out, Preset::strict, 657},
        Mutant{"SleepersStayAsleep", Mutation::sleepers_stay_asleep, Preset::observed, 2},
        Mutant{"MemoryIsNoRace", Mutation::memory_is_no_race, Preset::observed, 2},
        Mutant{"Rule2IsNoRace", Mutation::rule_2_is_no_race, Preset::observed, 2},
        Mutant{"LocksAreNotReversed", Mutation::locks_are_not_reversed, Preset::observed, 14},
        Mutant{"RevocationsAreReduced", Mutation::revocations_are_reduced, Preset::strict, 24},
        Mutant{"CrashesAfterAllPosts", Mutation::crashes_after_all_posts, Preset::observed, 2324},
        Mutant{"NobodyIsStuck", Mutation::nobody_is_stuck, Preset::strict, 10},
        Mutant{"StatesWithoutHeap", Mutation::states_without_heap, Preset::strict, 6, Mode::states},
        Mutant{"StatesWithoutMemory", Mutation::states_without_memory, Preset::strict, 6, Mode::states},
        Mutant{"StatesWithoutRequests", Mutation::states_without_requests, Preset::observed, 16, Mode::states},
        Mutant{"StatesWithoutNextSteps", Mutation::states_without_next_steps, Preset::strict, 13, Mode::states},
        Mutant{"CompletionsComeFirst", Mutation::completions_come_first, Preset::observed, 2, Mode::states},
        Mutant{"EveryCycleIsFair", Mutation::every_cycle_is_fair, Preset::strict, 2, Mode::states},
        Mutant{"NobodyIsStuckInStates", Mutation::nobody_is_stuck, Preset::strict, 12, Mode::states}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

// What clients that look behind posts and share an object are for.
TEST(MutantsOfLookers, AreCaught) {
  constexpr std::uint64_t kPrograms = 20;
  const Limits limits{2'000, 400};
  for (const auto& [mutation, first] : {std::pair{Mutation::objects_are_no_race, std::uint64_t{80}},
                                        std::pair{Mutation::clients_begin, std::uint64_t{215}},
                                        std::pair{Mutation::the_dead_go_on, std::uint64_t{2912}},
                                        std::pair{Mutation::looks_after_posts_are_unseen, std::uint64_t{400}}}) {
    bool is_caught = false;
    for (std::uint64_t seed = first; seed < first + kPrograms && !is_caught; ++seed) {
      const ProgramList program = random_list_of_lookers(seed);
      const fabric::model::Rules rules = rules_for(Preset::observed, seed);
      const Answer answer = explore_all(program, rules, limits.states);
      const Planted planted(mutation);
      is_caught = !compare(program, rules, limits, answer).difference.empty();
    }
    EXPECT_TRUE(is_caught) << static_cast<int>(mutation);
  }
}

// ---- Faults that need what the oracle's programs do not do, or seldom do: each has a program of its own, which is
// broken, and which the mutant calls safe.

using fabric::Task;

Task<void> raise_a_flag(Client* client, Store* store) { co_await client->qp->fetch_add(store->word(0), 1); }

// Each of its attempts writes the same.
Task<void> write_until_flagged(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  client->set(2, 1);
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->write(client->word(2), store->word(1));
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}

// Takes what was written away, and must not find it four times.
Task<void> take_four_times(Client* client, Store* store) {
  std::uint64_t found = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t old = co_await client->qp->compare_swap(store->word(1), 1, 0);
    found += old;
  }
  client->world->require(found < 4, "it was written four times");
  co_await client->qp->fetch_add(store->word(0), 1);
}

void writes_that_others_see(World& world) {
  auto& store = world.make<Store>(world);
  auto& writer = world.make<Client>(world, store, "writer");
  auto& taker = world.make<Client>(world, store, "taker");
  world.spawn(*writer.node, write_until_flagged(&writer, &store));
  world.spawn(*taker.node, take_four_times(&taker, &store));
}

Task<void> wait_with_a_clock(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    client->world->require(reactor.now() < fabric::from_ns(40), "it waited long");
    co_await reactor.sleep(fabric::from_ns(10));
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}

void waits_with_a_clock(World& world) {
  auto& store = world.make<Store>(world);
  auto& waiter = world.make<Client>(world, store, "waiter");
  auto& raiser = world.make<Client>(world, store, "raiser");
  world.spawn(*waiter.node, wait_with_a_clock(&waiter, &store));
  world.spawn(*raiser.node, raise_a_flag(&raiser, &store));
}

Started tell_in_some_steps(Client* client, bool* told) {
  for (int i = 0; i < 3; ++i) {
    co_await client->world->yield(*client->node);
  }
  *told = true;
}

// The coroutine may take its steps before the task destroys it.
Task<void> start_and_end(Client* client) {
  bool told = false;
  {
    const Started other = tell_in_some_steps(client, &told);
    co_await client->world->yield(*client->node);
  }
  client->world->require(!told, "it took its steps");
}

void destroys_what_waits(World& world) {
  auto& store = world.make<Store>(world);
  auto& client = world.make<Client>(world, store, "client");
  world.spawn(*client.node, start_and_end(&client));
}

Task<void> store_flag_and_word(Store* store) {
  co_await store->node->cpu().store(store->own(1), 1);
  co_await store->node->cpu().store(store->own(0), 1);
}

// Its fence may pass between the two stores.
Task<void> fence_behind_the_flag(Store* store) {
  fabric::Cpu& cpu = store->node->cpu();
  co_await cpu.wait(store->own(1), fabric::WordCondition::is(1));
  co_await cpu.fence();
  const std::uint64_t word = co_await cpu.load(store->own(0));
  store->world->require(word == 1, "the word is not there yet");
}

void fences_between_stores(World& world) {
  auto& store = world.make<Store>(world);
  world.spawn(*store.node, store_flag_and_word(&store));
  world.spawn(*store.node, fence_behind_the_flag(&store));
}

TEST(MutantsByHand, AreCaught) {
  struct Case {
    Mutation mutation;
    Program program;
  };
  for (const Case& one : {Case{Mutation::changes_do_not_count, writes_that_others_see},
                          Case{Mutation::clock_left_out, waits_with_a_clock},
                          Case{Mutation::destructions_are_reduced, destroys_what_waits},
                          Case{Mutation::fences_are_not_reversed, fences_between_stores}}) {
    Options options;
    options.rules = rules_of(Preset::strict);
    options.threads = 1;
    options.walks = 0;  // the search itself must find it
    EXPECT_EQ(check(one.program, options).outcome, Outcome::broken) << static_cast<int>(one.mutation);
    const Planted planted(one.mutation);
    EXPECT_NE(check(one.program, options).outcome, Outcome::broken) << static_cast<int>(one.mutation);
  }
}

}  // namespace
}  // namespace sidelatch::explore::oracle
