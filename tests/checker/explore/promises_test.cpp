// Programs that do not keep what a program promises: that it is the same each time, that its clients share no object,
// and that nothing of it lies where the explorer does not look. The searches alone call them safe.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

constexpr std::array kSearches = {Mode::exhaustive, Mode::states};

Options searching(Mode mode, Preset preset) {
  Options options = under(preset);
  options.mode = mode;
  return options;
}

struct TwoOfThem {
  explicit TwoOfThem(World& world)
      : store(world.make<Store>(world)),
        first(world.make<Client>(world, store, "first")),
        second(world.make<Client>(world, store, "second")) {}
  Store& store;
  Client& first;
  Client& second;
};

struct SharedThings {
  int inside = 0;
  std::uint64_t last = 0;
  std::vector<int> history;
};

// ---- Objects that clients share.

// A latch on word `latch`; the object on word 2 is safe only if both take the same.
Task<void> enter_by_latch(Client* client, Store* store, SharedThings* shared, std::uint64_t latch) {
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    const std::uint64_t old = co_await client->qp->compare_swap(store->word(latch), 0, 1);
    if (old == 0) {
      break;
    }
    co_await client->qp->reactor().retry(loop, fabric::from_ns(10));
  }
  ++shared->inside;
  client->world->require(shared->inside == 1, "two are inside");
  co_await client->qp->read(client->word(0), store->word(2));
  --shared->inside;
  co_await client->qp->fetch_add(store->word(latch), ~std::uint64_t{0});
}

Program latches(std::uint64_t of_second) {
  return [of_second](World& world) {
    const TwoOfThem two(world);
    auto& shared = world.make<SharedThings>();
    world.spawn(*two.first.node, enter_by_latch(&two.first, &two.store, &shared, 0));
    world.spawn(*two.second.node, enter_by_latch(&two.second, &two.store, &shared, of_second));
  };
}

TEST(Promises, ACounterOfThoseInsideSeesTwoThatNeverMeet) {
  for (const Mode mode : kSearches) {
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_broken(latches(1), searching(mode, preset), Kind::assertion)) << name(preset);
      EXPECT_TRUE(is_safe(latches(0), searching(mode, preset))) << name(preset);
    }
  }
}

Task<void> add_and_note(Client* client, Store* store, SharedThings* shared, int number) {
  co_await client->qp->fetch_add(store->word(static_cast<std::uint64_t>(number)), 1);
  shared->history.push_back(number);
  shared->last = static_cast<std::uint64_t>(number);
}

TEST(Promises, AHistoryHasEveryOrder) {
  for (const std::vector<int>& wanted : {std::vector<int>{1, 2}, std::vector<int>{2, 1}}) {
    const Program program = [wanted](World& world) {
      const TwoOfThem two(world);
      auto& shared = world.make<SharedThings>();
      world.spawn(*two.first.node, add_and_note(&two.first, &two.store, &shared, 1));
      world.spawn(*two.second.node, add_and_note(&two.second, &two.store, &shared, 2));
      world.at_end([&world, &shared, wanted](const Order&) {
        world.require(shared.history != wanted, "this history happens");
        world.require(static_cast<int>(shared.last) == shared.history.back(), "the last one is the last one");
      });
    };
    for (const Mode mode : kSearches) {
      for (const Preset preset : kPresets) {
        EXPECT_TRUE(is_broken(program, searching(mode, preset), Kind::assertion)) << name(preset);
      }
    }
  }
}

// ---- Places where nobody looks.

int static_tries = 0;
thread_local int thread_tries = 0;

// The third attempt that fails does harm.
Task<void> harm_at_third(Client* client, Store* store, int* tries) {
  *tries = 0;
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    if (++*tries == 3) {
      co_await client->qp->fetch_add(store->word(1), 1);
    }
    co_await client->qp->reactor().retry(loop, fabric::from_ns(10));
  }
}

struct HiddenPlace {
  const char* name;
  std::function<int*(World&)> find;
};
std::ostream& operator<<(std::ostream& out, const HiddenPlace& place) { return out << place.name; }

class Hidden : public ::testing::TestWithParam<HiddenPlace> {};

TEST_P(Hidden, CountOfAttemptsIsNotCalledSafe) {
  const Program program = [](World& world) {
    const TwoOfThem two(world);
    world.spawn(*two.first.node, harm_at_third(&two.first, &two.store, GetParam().find(world)));
    world.spawn(*two.second.node, add_one(&two.second, &two.store));
    world.at_end(
        [&world, store = &two.store](const Order&) { world.require(store->value(1) == 0, "a third attempt"); });
  };
  for (const Mode mode : kSearches) {
    for (const Preset preset : kPresets) {
      Options options = searching(mode, preset);
      options.threads = 1;  // a variable of the process is one for all threads
      EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << name(preset);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Places, Hidden,
    ::testing::Values(HiddenPlace{"OnTheHeap", [](World& world) { return &world.make<int>(); }},
                      HiddenPlace{"Static", [](World&) { return &static_tries; }},
                      HiddenPlace{"OfTheThread", [](World&) { return &thread_tries; }},
                      HiddenPlace{"Captured", [kept = std::make_shared<int>()](World&) { return kept.get(); }}),
    [](const auto& place) { return place.param.name; });

// What is found by chance has a trace that can be run again.
TEST(Promises, WhatIsFoundByChanceCanBeReplayed) {
  const Options options = searching(Mode::exhaustive, Preset::observed);
  const Verdict verdict = check(latches(1), options);
  ASSERT_TRUE(verdict.violation);
  EXPECT_THAT(to_text(verdict), HasSubstr("two are inside"));
  const Verdict again = replay(latches(1), options, verdict.violation->choices);
  ASSERT_TRUE(again.violation);
  EXPECT_EQ(again.violation->what, verdict.violation->what);
}

// Nothing is left to chance where two clients have changed the same word.
TEST(Promises, ASharedCounterIsFoundWithoutChance) {
  for (const Mode mode : kSearches) {
    Options options = searching(mode, Preset::observed);
    options.walks = 0;
    EXPECT_TRUE(is_broken(latches(1), options, Kind::assertion));
    EXPECT_TRUE(is_safe(latches(0), options));
  }
}

// The same for an object of any size.
struct LongHistory {
  std::uint64_t count = 0;
  std::array<int, 4096> numbers{};
};

Task<void> add_and_note_at_length(Client* client, Store* store, LongHistory* history, int number) {
  co_await client->qp->fetch_add(store->word(static_cast<std::uint64_t>(number)), 1);
  history->numbers.at(history->count++) = number;
}

TEST(Promises, ALongHistoryIsFoundWithoutChance) {
  for (const int last : {1, 2}) {
    const Program program = [last](World& world) {
      const TwoOfThem two(world);
      auto& history = world.make<LongHistory>();
      world.spawn(*two.first.node, add_and_note_at_length(&two.first, &two.store, &history, 1));
      world.spawn(*two.second.node, add_and_note_at_length(&two.second, &two.store, &history, 2));
      world.at_end(
          [&world, &history, last](const Order&) { world.require(history.numbers[1] == last, "another one"); });
    };
    for (const Mode mode : kSearches) {
      Options options = searching(mode, Preset::observed);
      options.walks = 0;
      EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << last;
    }
  }
}

// ---- Programs that make parts of the world while they run.

Task<void> connect_and_add(Client* client, Store* store) {
  try {
    const std::unique_ptr<fabric::QueuePair> other = client->node->connect(*store->node);
    co_await other->fetch_add(store->word(0), 1);
  } catch (const std::exception&) {
    client->set(0, 1);  // it does not see why
  }
}
Task<void> spawn_another(Client* client, Store* store) {
  client->world->spawn(*client->node, add_one(client, store));
  co_return;
}
Task<void> make_a_node(Client* client, Store* /*store*/) {
  static_cast<void>(client->world->add_node("late"));
  co_return;
}

TEST(Promises, PartsOfTheWorldThatATaskMakesAreRefused) {
  for (const auto& [task, why] :
       {std::pair{&connect_and_add, "connected a queue pair"}, std::pair{&spawn_another, "Reactor::spawn"},
        std::pair{&make_a_node, "added a node"}}) {
    for (const Mode mode : kSearches) {
      try {
        const Verdict verdict = check(
            [&task = task](World& world) {
              const TwoOfThem two(world);
              world.spawn(*two.first.node, task(&two.first, &two.store));
            },
            searching(mode, Preset::observed));
        ADD_FAILURE() << to_text(verdict);
      } catch (const std::logic_error& error) {
        EXPECT_THAT(error.what(), HasSubstr(why));
      }
    }
  }
}

// ---- Programs that are others each time.

struct Difference {
  const char* name;
  std::function<void(World&, int)> build;
};
std::ostream& operator<<(std::ostream& out, const Difference& difference) { return out << difference.name; }

Task<void> add_number(Client* client, Store* store, std::uint64_t number) {
  co_await client->qp->fetch_add(store->word(0), number);
}

Task<void> add_late(Client* client, Store* store, const int* counter) {
  co_await client->qp->fetch_add(store->word(0), 1);
  co_await client->qp->fetch_add(store->word(*counter % 5 == 0 ? 2 : 1), 1);
}

int builds = 0;

class Different : public ::testing::TestWithParam<Difference> {};

TEST_P(Different, ProgramIsRefused) {
  for (const Mode mode : kSearches) {
    for (const Preset preset : {Preset::strict, Preset::relaxed}) {
      Options options = searching(mode, preset);
      options.threads = 1;
      builds = 0;
      const Program program = [](World& world) { GetParam().build(world, ++builds); };
      EXPECT_THROW(static_cast<void>(check(program, options)), std::logic_error) << name(preset);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, Different,
    ::testing::Values(Difference{"InAValue",
                                 [](World& world, int number) {
                                   const TwoOfThem two(world);
                                   world.spawn(*two.first.node,
                                               add_number(&two.first, &two.store, static_cast<std::uint64_t>(number)));
                                 }},
                      Difference{"InWhatIsThereAtTheBeginning",
                                 [](World& world, int number) {
                                   const TwoOfThem two(world);
                                   std::memcpy(two.store.memory.bytes().data() + 128, &number, sizeof number);
                                   world.spawn(*two.first.node, add_one(&two.first, &two.store));
                                 }},
                      Difference{"InAName",
                                 [](World& world, int number) {
                                   auto& store = world.make<Store>(world);
                                   auto& client = world.make<Client>(world, store, fmt::format("client {}", number));
                                   world.spawn(*client.node, add_one(&client, &store));
                                 }},
                      Difference{"InALateRequest",
                                 [](World& world, int) {
                                   const TwoOfThem two(world);
                                   world.spawn(*two.first.node, add_late(&two.first, &two.store, &builds));
                                   world.spawn(*two.second.node, add_one(&two.second, &two.store));
                                 }},
                      Difference{"InItsJudge",
                                 [](World& world, int number) {
                                   const TwoOfThem two(world);
                                   world.spawn(*two.first.node, add_one(&two.first, &two.store));
                                   world.spawn(*two.second.node, add_one(&two.second, &two.store));
                                   world.at_end([&world, number](const Order&) {
                                     world.require(number % 40 != 0, "a bad number");
                                   });
                                 }}),
    [](const auto& difference) { return difference.param.name; });

}  // namespace
}  // namespace sidelatch::explore
