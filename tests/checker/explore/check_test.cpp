// Verdicts: which programs are safe, broken or bounded, what the options bound, and what replays.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>
#include <sidelatch/explore/scheme_program.h>

#include "checking.h"
#include "clients.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- A counter.

using Increment = fabric::Task<void> (*)(Client*, fabric::RemoteSpan);

fabric::Task<void> by_fetch_add(Client* client, fabric::RemoteSpan counter) {
  co_await client->qp->fetch_add(counter, 1);
}

fabric::Task<void> by_read_and_write(Client* client, fabric::RemoteSpan counter) {
  co_await client->qp->read(client->word(0), counter);
  client->set(1, client->value(0) + 1);
  co_await client->qp->write(client->word(1), counter);
}

struct Finals {
  std::mutex mutex;
  std::set<std::uint64_t> values;
};

// Two clients that add one each. Without a set for the final values the program requires the value 2.
Program counter(Increment increment, unsigned clients = 2, Finals* finals = nullptr) {
  return [=](World& world) {
    auto& store = world.make<Store>(world);
    for (unsigned i = 0; i < clients; ++i) {
      auto& client = world.make<Client>(world, store, i == 0 ? "first" : i == 1 ? "second" : "another");
      world.spawn(*client.node, increment(&client, store.word(0)));
    }
    world.at_end([&world, &store, clients, finals](const Order& /*order*/) {
      if (finals != nullptr) {
        const std::scoped_lock lock(finals->mutex);
        finals->values.insert(store.value(0));
      } else {
        world.require(store.value(0) == clients, "an increment is lost");
      }
    });
  };
}

TEST(Check, WhatIsEmptyIsRefused) {
  EXPECT_THROW(static_cast<void>(check(Program{}, {})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(replay(Program{}, {}, {})), std::invalid_argument);
  const Program idle = [](World& world) { world.spawn(world.add_node("client"), fabric::Task<void>{}); };
  EXPECT_THROW(static_cast<void>(check(idle, {})), std::invalid_argument);
}

TEST(Check, FetchAddsCountEveryIncrement) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(counter(by_fetch_add), under(preset))) << name(preset);
  }
}

TEST(Check, TwoAtomicsOnOneWordHaveTwoOrdersAndNoMore) {
  Finals finals;
  const Verdict verdict = check(counter(by_fetch_add, 2, &finals), under(Preset::observed));
  EXPECT_EQ(verdict.outcome, Outcome::safe);
  EXPECT_EQ(verdict.executions, 2U);  // only the order of the two matters
  EXPECT_EQ(finals.values, std::set<std::uint64_t>{2});
  EXPECT_THAT(to_text(verdict), HasSubstr("safe: all 2 executions"));
}

TEST(Check, ThreeAtomicsOnOneWordHaveSixOrders) {
  EXPECT_EQ(check(counter(by_fetch_add, 3), under(Preset::observed)).executions, 6U);
}

TEST(Check, ReadThenWriteLosesAnIncrementUnderEveryModel) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(counter(by_read_and_write), under(preset), Kind::assertion)) << name(preset);
    Finals finals;
    EXPECT_TRUE(is_safe(counter(by_read_and_write, 2, &finals), under(preset)));
    EXPECT_EQ(finals.values, (std::set<std::uint64_t>{1, 2})) << name(preset);
  }
}

TEST(Check, AViolationSaysWhatWasRequired) {
  const Verdict verdict = check(counter(by_read_and_write), under(Preset::observed));
  ASSERT_EQ(verdict.outcome, Outcome::broken);
  EXPECT_EQ(verdict.violation->what, "an increment is lost");
  EXPECT_THAT(verdict.violation->trace, Not(IsEmpty()));
  EXPECT_THAT(verdict.violation->choices, Not(IsEmpty()));
  EXPECT_THAT(verdict.bound, IsEmpty());
  EXPECT_THAT(to_text(verdict), HasSubstr("broken: assertion: an increment is lost"));
}

TEST(Check, AnExecutionWithoutTasksIsOneExecution) {
  const Verdict verdict = check([](World& world) { world.make<Store>(world); }, {});
  EXPECT_EQ(verdict.outcome, Outcome::safe);
  EXPECT_EQ(verdict.executions, 1U);
}

// ---- The assertions for GoogleTest.

TEST(Check, AssertionsFailWithWhatWasFound) {
  const auto safe = is_safe(counter(by_read_and_write), under(Preset::observed));
  EXPECT_FALSE(safe);
  EXPECT_THAT(safe.message(), HasSubstr("an increment is lost"));
  const auto broken = is_broken(counter(by_fetch_add), under(Preset::observed), Kind::assertion);
  EXPECT_FALSE(broken);
  EXPECT_THAT(broken.message(), HasSubstr("safe: all 2 executions"));
  const auto other = is_broken(counter(by_read_and_write), under(Preset::observed), Kind::deadlock);
  EXPECT_FALSE(other);
  EXPECT_THAT(other.message(), HasSubstr("not a deadlock"));
  Options one = under(Preset::observed);
  one.max_executions = 1;
  const auto bounded = is_safe(counter(by_fetch_add), one);
  EXPECT_FALSE(bounded);
  EXPECT_THAT(bounded.message(), HasSubstr("bounded"));
}

// ---- Programs that cannot be explored.

// Behaves differently each time it is called; from one thread.
Program unsteady(void (*odd)(World&, Store&), void (*even)(World&, Store&)) {
  return [odd, even, calls = std::make_shared<std::atomic<int>>(0)](World& world) {
    auto& store = world.make<Store>(world);
    (++*calls % 2 == 1 ? odd : even)(world, store);
  };
}

void add_two(World& world, Store& store) {
  for (const char* name : {"first", "second"}) {
    auto& client = world.make<Client>(world, store, name);
    world.spawn(*client.node, by_fetch_add(&client, store.word(0)));
  }
}
void add_three(World& world, Store& store) {
  add_two(world, store);
  world.make<Client>(world, store, "third");
}
void add_two_with_another_region(World& world, Store& store) {
  world.make<fabric::MemoryRegion>(store.node->allocate(64, fabric::Access::remote_all));
  add_two(world, store);
}

TEST(Check, AProgramThatMakesOtherPartsEachTimeIsRefused) {
  Options options = under(Preset::observed);
  options.threads = 1;
  EXPECT_THROW(static_cast<void>(check(unsteady(add_two, add_three), options)), std::logic_error);
  EXPECT_THROW(static_cast<void>(check(unsteady(add_three, add_two), options)), std::logic_error);
  EXPECT_THROW(static_cast<void>(check(unsteady(add_two, add_two_with_another_region), options)), std::logic_error);
  EXPECT_NO_THROW(static_cast<void>(check(unsteady(add_two, add_two), options)));
}

fabric::Task<void> by_two_fetch_adds(Client* client, fabric::RemoteSpan counter) {
  co_await client->qp->fetch_add(counter, 1);
  co_await client->qp->fetch_add(counter, 1);
}
fabric::Task<void> not_at_all(Client* /*client*/, fabric::RemoteSpan /*counter*/) { co_return; }

template <Increment kIncrement>
void add_two_that(World& world, Store& store) {
  for (const char* name : {"first", "second"}) {
    auto& client = world.make<Client>(world, store, name);
    world.spawn(*client.node, kIncrement(&client, store.word(0)));
  }
}

TEST(Check, AProgramThatPostsOtherRequestsEachTimeIsRefused) {
  Options options = under(Preset::observed);
  options.threads = 1;
  using Maker = void (*)(World&, Store&);
  const std::array<Maker, 4> makers = {add_two_that<by_fetch_add>, add_two_that<by_read_and_write>,
                                       add_two_that<by_two_fetch_adds>, add_two_that<not_at_all>};
  for (const Maker odd : makers) {
    for (const Maker even : makers) {
      if (odd == even) {
        EXPECT_NO_THROW(static_cast<void>(check(unsteady(odd, even), options)));
      } else {
        EXPECT_THROW(static_cast<void>(check(unsteady(odd, even), options)), std::logic_error);
      }
    }
  }
}

TEST(Check, MemoryThatTheProgramRegistersItselfIsRefused) {
  alignas(64) static std::array<std::byte, 64> memory{};
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    world.make<fabric::MemoryRegion>(store.node->register_memory(memory, fabric::Access::remote_all));
  };
  EXPECT_THAT(message_of([&] { static_cast<void>(check(program, {})); }),
              AllOf(HasSubstr("node memory"), HasSubstr("allocate()")));
}

TEST(Check, TooMuchRegisteredMemoryIsRefused) {
  const auto program = [](std::uint64_t bytes) {
    return [bytes](World& world) {
      auto& store = world.make<Store>(world);
      world.make<fabric::MemoryRegion>(store.node->allocate(bytes, fabric::Access::remote_all));
    };
  };
  EXPECT_THROW(static_cast<void>(check(program(std::uint64_t{65} << 20), {})), std::length_error);
  EXPECT_THROW(static_cast<void>(check(program(std::uint64_t{1} << 62), {})), std::length_error);
  EXPECT_EQ(check(program(std::uint64_t{1} << 20), {}).outcome, Outcome::safe);
}

TEST(Check, WhatTheProgramThrowsWhileItIsBuiltComesOut) {
  EXPECT_THROW(static_cast<void>(check([](World& /*world*/) { throw std::domain_error("no such thing"); }, {})),
               std::domain_error);
}

void add_nodes(World& world, int count) {
  for (int i = 0; i < count; ++i) {
    static_cast<void>(world.add_node("another"));
  }
}

TEST(Check, PartsOfAnotherWorldOrOutOfRangeAreRefused) {
  const auto refused = [](void (*build)(World&, Store&)) {
    return message_of([build] {
      static_cast<void>(check([build](World& world) { build(world, world.make<Store>(world, 1, 2)); }, {}));
    });
  };
  EXPECT_THAT(refused([](World& world, Store& store) { world.make<Client>(world, store, "client", 2); }),
              AllOf(HasSubstr("NIC 2"), HasSubstr("memory"), HasSubstr("it has 2")));
  EXPECT_THAT(refused([](World& world, Store& /*store*/) { static_cast<void>(world.add_node("none", 0)); }),
              AllOf(HasSubstr("none"), HasSubstr("0 NICs")));
  EXPECT_THAT(refused([](World& world, Store& /*store*/) { static_cast<void>(world.add_node("many", 65)); }),
              AllOf(HasSubstr("many"), HasSubstr("65 NICs")));
  EXPECT_THAT(refused([](World& world, Store& /*store*/) { add_nodes(world, 62); }), HasSubstr("more than 62 nodes"));
  EXPECT_THAT(refused([](World& world, Store& store) {
                add_nodes(world, 61);
                static_cast<void>(world.add_cpu(*store.node, "thread"));
              }),
              HasSubstr("more than 62 nodes"));
  EXPECT_EQ(refused([](World& world, Store& /*store*/) { add_nodes(world, 61); }), "no error");
}

TEST(Check, OptionsOutOfRangeAreRefused) {
  Options none = under(Preset::observed);
  none.max_events = 0;
  EXPECT_THAT(message_of([&] { static_cast<void>(check(counter(by_fetch_add), none)); }), HasSubstr("max_events"));
  const Options no_mode{.mode = static_cast<Mode>(200)};
  EXPECT_THAT(message_of([&] { static_cast<void>(check(counter(by_fetch_add), no_mode)); }), HasSubstr("mode 200"));
  for (const double seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const Options before{.budget = std::chrono::duration<double>(seconds)};
    EXPECT_THAT(message_of([&] { static_cast<void>(check(counter(by_fetch_add), before)); }), HasSubstr("budget"));
  }
  Options odd = under(Preset::observed);
  odd.rules.atom = 24;
  EXPECT_THAT(message_of([&] { static_cast<void>(check(counter(by_fetch_add), odd)); }), HasSubstr("24"));
}

// ---- Bounds.

TEST(Check, ABoundOnExecutionsIsNeverSafe) {
  Options options = under(Preset::observed);
  for (const std::uint64_t most : {1U, 2U, 5U}) {
    options.max_executions = most;
    const Verdict verdict = check(counter(by_fetch_add, 3), options);  // has 6
    EXPECT_EQ(verdict.outcome, Outcome::bounded) << most;
    EXPECT_GE(verdict.executions + verdict.redundant, most);
    EXPECT_LT(verdict.executions, 6U);
    EXPECT_EQ(verdict.bound, fmt::format("{} executions", most));
    EXPECT_THAT(to_text(verdict), HasSubstr("bounded"));
  }
  options.max_executions = 1000;
  EXPECT_EQ(check(counter(by_fetch_add, 3), options).outcome, Outcome::safe);
}

TEST(Check, AViolationWithinTheBoundIsBroken) {
  Options options = under(Preset::observed);
  options.max_executions = 1000;
  const Verdict verdict = check(counter(by_read_and_write, 4), options);
  EXPECT_EQ(verdict.outcome, Outcome::broken);
  EXPECT_THAT(verdict.bound, IsEmpty());
}

TEST(Check, ABudgetThatRunsOutIsNeverSafe) {
  Options options = under(Preset::observed);
  options.budget = std::chrono::duration<double>(1e-6);
  const Verdict verdict = check(counter(by_fetch_add, 7), options);  // 5040 orders
  EXPECT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_LT(verdict.executions, 5040U);
  EXPECT_THAT(verdict.bound, HasSubstr("budget"));
}

TEST(Check, AnInterruptIsNeverSafe) {
  const std::atomic<bool> interrupted{true};
  Options options = under(Preset::observed);
  options.interrupted = &interrupted;
  const Verdict verdict = check(counter(by_fetch_add, 7), options);
  EXPECT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_LT(verdict.executions, 5040U);
  EXPECT_EQ(verdict.bound, "an interrupt");
  options.mode = Mode::random;
  EXPECT_EQ(check(counter(by_fetch_add), options).bound, "an interrupt");
}

TEST(Check, ProgressGrowsUpToAllExecutions) {
  std::vector<std::uint64_t> seen;
  Options options = under(Preset::observed);
  options.progress = [&](std::uint64_t executions) { seen.push_back(executions); };
  const Verdict verdict = check(counter(by_fetch_add, 5), options);
  EXPECT_EQ(verdict.executions, 120U);
  ASSERT_THAT(seen, Not(IsEmpty()));
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back(), verdict.executions + verdict.redundant);
}

// ---- Plain and random search.

TEST(Check, WithoutReductionThereAreMoreExecutionsAndTheSameEnds) {
  Options plain = under(Preset::observed);
  plain.mode = Mode::plain;
  Finals finals;
  const Verdict verdict = check(counter(by_read_and_write, 2, &finals), plain);
  EXPECT_EQ(verdict.outcome, Outcome::safe);
  EXPECT_EQ(finals.values, (std::set<std::uint64_t>{1, 2}));
  EXPECT_GT(verdict.executions, check(counter(by_read_and_write), under(Preset::observed)).executions);
  EXPECT_TRUE(is_broken(counter(by_read_and_write), plain, Kind::assertion));
}

Program latch_equivalent_program(const sync::Scheme& scheme, const Workload& workload = {.updates = 2, .readers = 1}) {
  return scheme_program(scheme, checker::Promise::latch_equivalent, workload);
}

class ByChance : public ::testing::TestWithParam<Mode> {
 protected:
  [[nodiscard]] static Options options(std::uint64_t seed) {
    Options options = under(Preset::observed);
    options.mode = GetParam();
    options.seed = seed;
    return options;
  }
};

TEST_P(ByChance, FindsWhatBreaksTheNaiveScheme) {
  const checker::SelectedScheme naive = checker::select_scheme("broken/naive");
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_TRUE(is_broken(latch_equivalent_program(*naive.scheme), options(seed), Kind::torn_read)) << seed;
  }
}

TEST_P(ByChance, ASeedGivesTheSameTraceAgainWithAnyNumberOfThreads) {
  const checker::SelectedScheme naive = checker::select_scheme("broken/naive");
  Options one = options(7);
  one.threads = 1;
  Options two = options(7);
  two.threads = 2;
  const Verdict first = check(latch_equivalent_program(*naive.scheme), one);
  const Verdict again = check(latch_equivalent_program(*naive.scheme), one);
  const Verdict both = check(latch_equivalent_program(*naive.scheme), two);
  ASSERT_TRUE(first.violation && again.violation && both.violation);
  EXPECT_EQ(first.violation->choices, again.violation->choices);
  EXPECT_EQ(first.violation->choices, both.violation->choices);
  EXPECT_EQ(first.executions, both.executions);
  std::set<std::vector<std::string>> of_all_seeds;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    of_all_seeds.insert(
        check(latch_equivalent_program(*naive.scheme), options(seed)).violation.value_or(Violation{}).choices);
  }
  EXPECT_GT(of_all_seeds.size(), 1U);
}

TEST_P(ByChance, FindingNothingIsNoProof) {
  const checker::SelectedScheme two_read = checker::select_scheme("optimistic/two-read");
  Options few = options(1);
  few.max_executions = 500;
  const Verdict verdict = check(latch_equivalent_program(*two_read.scheme), few);
  EXPECT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_EQ(verdict.executions, 500U);
  EXPECT_THAT(verdict.bound, HasSubstr("500 executions"));
  EXPECT_EQ(check(counter(by_fetch_add), options(1)).outcome, Outcome::bounded);
}

INSTANTIATE_TEST_SUITE_P(Check, ByChance, ::testing::Values(Mode::random, Mode::pct),
                         [](const auto& mode) { return mode.param == Mode::random ? "random" : "pct"; });

// Turns A, B, A, B: PCT reaches them with two changes of priority, provided that the client that fell behind later may
// be behind the other.
fabric::Task<void> add_twice(Client* client, Store* store, std::array<std::uint64_t, 2>* seen) {
  const std::uint64_t first = co_await client->qp->fetch_add(store->word(0), 1);
  const std::uint64_t second = co_await client->qp->fetch_add(store->word(0), 1);
  *seen = {first, second};
}

TEST_P(ByChance, FindsClientsThatTakeTurns) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& seen = world.make<std::array<std::array<std::uint64_t, 2>, 2>>();
    for (auto& own : seen) {
      auto& client = world.make<Client>(world, store, "client");
      world.spawn(*client.node, add_twice(&client, &store, &own));
    }
    world.at_end([&](const Order& /*order*/) {
      world.require(seen[0] != std::array<std::uint64_t, 2>{0, 2}, "client 0 was first and third");
    });
  };
  EXPECT_TRUE(is_broken(program, options(1), Kind::assertion));
}

TEST_P(ByChance, FindsAClientThatCrashesInTheMiddle) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, by_two_fetch_adds(&client, store.word(0)));
    world.may_crash(*client.node);
    world.at_end([&](const Order& /*order*/) { world.require(store.value(0) != 1, "one of two was added"); });
  };
  const Verdict verdict = check(program, options(1));
  ASSERT_EQ(verdict.outcome, Outcome::broken);
  const Verdict again = replay(program, options(1), verdict.violation->choices);
  EXPECT_EQ(again.outcome, Outcome::broken);
}

// ---- Replay.

TEST(Replay, ChoicesOfAViolationGiveItAgain) {
  for (const Preset preset : kPresets) {
    const Verdict found = check(counter(by_read_and_write), under(preset));
    ASSERT_TRUE(found.violation);
    const Verdict again = replay(counter(by_read_and_write), under(preset), found.violation->choices);
    ASSERT_EQ(again.outcome, Outcome::broken) << name(preset);
    EXPECT_EQ(again.violation->kind, found.violation->kind);
    EXPECT_EQ(again.violation->what, found.violation->what);
  }
}

TEST(Replay, AnExecutionWithoutViolationIsBounded) {
  const Verdict verdict = replay(counter(by_fetch_add), under(Preset::observed), {});
  EXPECT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_EQ(verdict.executions, 1U);
}

class RefusedChoice : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedChoice, IsNamed) {
  const std::string message = message_of([] {
    static_cast<void>(replay(counter(by_fetch_add), under(Preset::observed), {"client:1:0:0", GetParam()}));
  });
  EXPECT_THAT(message, HasSubstr(fmt::format("'{}'", GetParam())));
}

// Actor 0 is the memory node, 1 and 2 are clients; 1 has started and posted qp0[0].
INSTANTIATE_TEST_SUITE_P(Malformed, RefusedChoice,
                         ::testing::Values("", "client", "client:2", "client:2:0", "client:2:0:0:0:0", "client:x:0:0",
                                           "client:2::0", "client:-1:0:0", "client:65538:0:0", "client:2:0:0:65536",
                                           "client:2:0:0x1", "client: 2:0:0", "client:99999999999:0:0", "nosuch:0:0:0",
                                           "Client:2:0:0"));
INSTANTIATE_TEST_SUITE_P(NotPossible, RefusedChoice,
                         ::testing::Values("client:0:0:0",    // the memory node has no task
                                           "client:1:0:0",    // it has started
                                           "client:1:1:0",    // it waits for its atomic
                                           "client:3:0:0",    // there is no such actor
                                           "client:2:1:0",    // it has not started
                                           "client:2:0:9",    // a client's step has no pieces
                                           "client:2:0:0:1",  // it may not crash
                                           "lease:1:0:0",     // nobody waits for a latch
                                           "lease:9:0:0",     // there is no such actor
                                           "store:0:0:0",     // the atomic was not loaded
                                           "complete:0:0:0",  // nor delivered
                                           "load:0:1:0",      // not posted
                                           "load:1:0:0",      // the other's
                                           "load:7:0:0",      // there is no such queue pair
                                           "load:0:0:1",      // an atomic has one piece
                                           "place:0:0:0",     // and no place
                                           "sample:0:0:0",    // nor sample
                                           "receive:0:0:0",   // nor receive
                                           "drain:0:0:0"));   // there is no CPU thread

}  // namespace
}  // namespace sidelatch::explore
