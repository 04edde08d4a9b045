// The CPU of a node in the explorer: the scenarios of every world in every execution, and what only the model shows.
#include "tests/fabric/cpu_suite.h"

#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace sidelatch::explore {
namespace {

using fabric::Cpu;
using fabric::Node;
using fabric::Task;
using fabric::WordCondition;
using fabric::cpu_suite::Scenario;
using fabric::cpu_suite::Site;
using fabric::model::Preset;

Program program_of(const Scenario& scenario) {
  return [&scenario](World& world) {
    Node& first = world.add_node("first");
    Node& second = world.add_node("second");
    auto& site =
        world.make<Site>(first, second, [&world](bool holds, std::string_view what) { world.require(holds, what); });
    world.spawn(first, scenario.first(&site, site.sides.data(), &site.sides[1]));
    world.spawn(second, scenario.second(&site, &site.sides[1], site.sides.data()));
    if (scenario.third != nullptr) {
      world.spawn(first, scenario.third(&site, site.sides.data(), &site.sides[1]));
    }
  };
}

TEST(ModelCpu, KeepsWhatEveryWorldPromises) {
  for (const Scenario& scenario : fabric::cpu_suite::kScenarios) {
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_safe(program_of(scenario), under(preset))) << scenario.name << " " << name(preset);
    }
  }
}

// ---- What a wait may see.

// A peer sets the word to 1, 2, 3 and then to 0; each WRITE is placed before the next is posted.
Task<void> pulse(Client* client, Store* store, std::uint64_t last) {
  for (std::uint64_t i = 1; i <= 3; ++i) {
    client->set(0, i);
    co_await client->qp->submit(write(client->word(0), store->word(0)), read(client->word(1), store->word(0)));
  }
  client->set(0, last);
  co_await client->qp->write(client->word(0), store->word(0));
}

Task<void> wait_once(Cpu* cpu, Store* store, std::uint64_t* seen) {
  *seen = co_await cpu->wait(store->own(0), WordCondition::is_not(0));
}

// The same by a loop that looks again and again.
Task<void> poll_once(World* world, Cpu* cpu, Store* store, std::uint64_t* seen) {
  const auto loop = world->reactor().begin_retries();
  for (;;) {
    const std::uint64_t word = co_await cpu->load(store->own(0));
    if (word != 0) {
      *seen = word;
      co_return;
    }
    co_await world->reactor().retry(loop, fabric::Duration::zero());
  }
}

std::set<std::uint64_t> seen_by(bool polls, bool own_thread, std::uint64_t last, Preset preset, Outcome expected) {
  std::set<std::uint64_t> all;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    auto& seen = world.make<std::uint64_t>(0);
    world.spawn(*client.node, pulse(&client, &store, last));
    Cpu& cpu = own_thread ? world.add_cpu(*store.node, "cpu") : store.node->cpu();
    Task<void> task = polls ? poll_once(&world, &cpu, &store, &seen) : wait_once(&cpu, &store, &seen);
    if (own_thread) {
      world.spawn(cpu, std::move(task));
    } else {
      world.spawn(*store.node, std::move(task));
    }
    world.at_end([&](const Order& /*order*/) { all.insert(seen); });
  };
  Options options = under(preset);
  options.threads = 1;
  options.look_for_shorter = ~std::uint64_t{0};
  EXPECT_EQ(check(program, options).outcome, expected);
  return all;
}

TEST(ModelCpu, AWaitSeesWhatALoopOfLoadsSees) {
  for (const Preset preset : kPresets) {
    for (const bool own_thread : {false, true}) {
      const std::set<std::uint64_t> waited = seen_by(false, own_thread, 4, preset, Outcome::safe);
      EXPECT_EQ(waited, (std::set<std::uint64_t>{1, 2, 3, 4})) << name(preset);
      EXPECT_EQ(seen_by(true, own_thread, 4, preset, Outcome::safe), waited) << name(preset);
    }
  }
}

// It may look too late, and then waits for ever.
TEST(ModelCpu, AWaitMayMissAWordThatDoesNotStay) {
  for (const Preset preset : kPresets) {
    const std::set<std::uint64_t> waited = seen_by(false, false, 0, preset, Outcome::broken);
    EXPECT_EQ(waited, (std::set<std::uint64_t>{1, 2, 3})) << name(preset);
    EXPECT_EQ(seen_by(true, false, 0, preset, Outcome::broken), waited) << name(preset);
  }
}

TEST(ModelCpu, AWaitForWhatNeverComesIsADeadlock) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& seen = world.make<std::uint64_t>(0);
    world.spawn(*store.node, wait_once(&store.node->cpu(), &store, &seen));
  };
  EXPECT_TRUE(is_broken(program, under(Preset::observed), Kind::deadlock));
}

// ---- Memory that nobody else reaches. A pointer does not see the store buffer (cpu.h), so it sees a store at any
// later moment: whoever relies on either is wrong.

Task<void> store_then_look_at_own(Client* client, std::uint64_t expected, bool yields) {
  co_await client->node->cpu().store(client->word(0), 1);
  if (yields) {
    co_await client->world->yield(*client->node);
  }
  client->world->require(client->value(0) == expected, "the store drained sooner or later");
}

TEST(ModelCpu, APointerSeesAStoreToPrivateMemoryWheneverItHasDrained) {
  for (const bool yields : {true, false}) {
    for (const std::uint64_t expected : {0U, 1U}) {
      const Program program = [expected, yields](World& world) {
        auto& store = world.make<Store>(world);
        auto& client = world.make<Client>(world, store, "client");
        world.spawn(*client.node, store_then_look_at_own(&client, expected, yields));
      };
      for (const Preset preset : kPresets) {
        for (const Mode mode : {Mode::exhaustive, Mode::states}) {
          Options options = under(preset);
          options.mode = mode;
          options.walks = 0;
          EXPECT_TRUE(is_broken(program, options, Kind::assertion))
              << name(preset) << " expects " << expected << (yields ? " after a yield" : "")
              << (mode == Mode::states ? ", by states" : "");
        }
      }
    }
  }
}

Task<void> store_and_fence(Client* client) {
  fabric::Cpu& cpu = client->node->cpu();
  co_await cpu.store(client->word(0), 1);
  const std::uint64_t seen = co_await cpu.load(client->word(0));
  client->world->require(seen == 1, "a load passed the store to its word");
  co_await cpu.fence();
  co_await client->world->yield(*client->node);
  client->world->require(client->value(0) == 1, "the store has not drained behind the fence");
}

TEST(ModelCpu, AFenceShowsPrivateStoresToPointers) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, store_and_fence(&client));
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
  }
}

// Time does not pass, but a limit may be over at any moment.
Task<void> wait_with_limit(Cpu* cpu, Store* store, bool gives_up) {
  const std::optional<std::uint64_t> seen =
      co_await cpu->wait_for(store->own(0), WordCondition::is_not(0), fabric::from_ns(100));
  store->world->require(seen.has_value() == gives_up, gives_up ? "it gave up" : "it saw the word");
}

TEST(ModelCpu, AWaitWithALimitEndsInBothWays) {
  for (const bool gives_up : {false, true}) {
    const Program program = [gives_up](World& world) {
      auto& store = world.make<Store>(world);
      auto& client = world.make<Client>(world, store, "client");
      world.spawn(*store.node, wait_with_limit(&store.node->cpu(), &store, gives_up));
      world.spawn(*client.node, add_one(&client, &store));
    };
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_broken(program, under(preset), Kind::assertion)) << name(preset);
    }
  }
  const Program nobody_comes = [](World& world) {
    auto& store = world.make<Store>(world);
    world.spawn(*store.node, wait_with_limit(&store.node->cpu(), &store, false));
  };
  EXPECT_TRUE(is_safe(nobody_comes, under(Preset::observed)));
}

// ---- The order of placements decides what is there behind a wait.

Task<void> write_data_then_flag(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->submit(write(client->word(0), store->word(1)), write(client->word(0), store->word(0)));
}
Task<void> wait_for_flag(World* world, Store* store) {
  co_await store->node->cpu().wait(store->own(0), WordCondition::is(1));
  const std::uint64_t data = co_await store->node->cpu().load(store->own(1));
  world->require(data == 1, "the flag is there before the data");
}

TEST(ModelCpu, AFlagByAWriteIsBrokenWhereWritesAreNotOrdered) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, write_data_then_flag(&client, &store));
    world.spawn(*store.node, wait_for_flag(&world, &store));
  };
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec}) {
    EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
  }
  EXPECT_TRUE(is_broken(program, under(Preset::relaxed), Kind::assertion));
}

// ---- The store buffer of a client's own CPU.

Task<void> store_and_look(World* world, Site* site, std::size_t me, bool fenced, std::uint64_t* seen) {
  const Site::Side& own = site->sides.at(me);
  const Site::Side& other = site->sides.at(1 - me);
  co_await own.cpu().store(own.own(0), 1);
  if (fenced) {
    co_await own.cpu().fence();
  }
  static_cast<void>(world);
  co_await own.qp->read(own.in(0), other.word(0));
  *seen = word_in(own.buffer.bytes());
}

// A request stays behind the stores before its post, so one of the two sees the other's store, with a fence and
// without.
TEST(ModelCpu, ARequestDoesNotPassTheStoresBeforeIt) {
  for (const Preset preset : kPresets) {
    for (const bool fenced : {false, true}) {
      std::set<std::array<std::uint64_t, 2>> all;
      const Program program = [&](World& world) {
        Node& first = world.add_node("first");
        Node& second = world.add_node("second");
        auto& site = world.make<Site>(first, second, [](bool, std::string_view) {});
        auto& seen = world.make<std::array<std::uint64_t, 2>>();
        world.spawn(first, store_and_look(&world, &site, 0, fenced, seen.data()));
        world.spawn(second, store_and_look(&world, &site, 1, fenced, &seen[1]));
        world.at_end([&](const Order& /*order*/) { all.insert(seen); });
      };
      EXPECT_TRUE(is_safe(program, {.rules = rules_of(preset), .threads = 1}));
      EXPECT_EQ(all, (std::set<std::array<std::uint64_t, 2>>{{0, 1}, {1, 0}, {1, 1}})) << name(preset);
    }
  }
}

// ---- Stores to the buffer of a WRITE.

enum class Goes : std::uint8_t { behind_the_store, behind_its_fence, before_the_store };
enum class Then : std::uint8_t { nothing, yields, loads };

// The NIC takes a request after the stores before its post have drained. Until then it may not fetch, and nothing
// races.
Task<void> store_and_write(Client* client, Store* store, Goes goes, Then then) {
  fabric::Cpu& cpu = client->node->cpu();
  if (goes == Goes::before_the_store) {
    co_await client->qp->enqueue(write(client->word(0), store->word(0)));
  }
  co_await cpu.store(client->word(0), 5);
  if (goes == Goes::behind_its_fence) {
    co_await cpu.fence();
  }
  if (goes != Goes::before_the_store) {
    co_await client->qp->enqueue(write(client->word(0), store->word(0)));
  }
  if (then == Then::loads) {
    co_await cpu.load(client->word(1));
  } else if (then == Then::yields) {
    co_await client->world->yield(*client->node);
  }
  co_await client->qp->drain();
}

Program stores_and_writes(Goes goes, Then then) {
  return [goes, then](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, store_and_write(&client, &store, goes, then));
    world.at_end([&world, &store, goes](const Order& /*order*/) {
      world.require(store.value(0) == 5 || goes == Goes::before_the_store, "the store has not arrived");
    });
  };
}

TEST(ModelCpu, AStoreBeforeAPostDoesNotRaceWithTheFetch) {
  for (const Preset preset : kPresets) {
    for (const Mode mode : {Mode::exhaustive, Mode::states}) {
      for (const Then then : {Then::nothing, Then::yields, Then::loads}) {
        Options options = under(preset);
        options.mode = mode;
        EXPECT_TRUE(is_safe(stores_and_writes(Goes::behind_the_store, then), options)) << name(preset);
        EXPECT_TRUE(is_safe(stores_and_writes(Goes::behind_its_fence, then), options)) << name(preset);
      }
    }
  }
}

TEST(ModelCpu, AStoreBehindAPostRacesWithTheFetch) {
  for (const Preset preset : kPresets) {
    for (const Mode mode : {Mode::exhaustive, Mode::states}) {
      Options options = under(preset);
      options.mode = mode;
      for (const Then then : {Then::nothing, Then::yields, Then::loads}) {
        EXPECT_TRUE(is_broken(stores_and_writes(Goes::before_the_store, then), options, Kind::buffer_race))
            << name(preset);
      }
    }
  }
}

// It waits until its buffer is free again.
Task<void> store_behind_the_completion(Client* client, Store* store) {
  co_await client->qp->write(client->word(0), store->word(0));
  co_await client->node->cpu().store(client->word(0), 5);
  co_await client->qp->write(client->word(0), store->word(1));
}

TEST(ModelCpu, AStoreBehindACompletionRacesWithNothing) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, store_behind_the_completion(&client, &store));
    world.at_end([&](const Order& /*order*/) { world.require(store.value(1) == 5, "it has not arrived"); });
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
  }
}

Task<void> use_the_cpu_of(Node* node, Store* store) { co_await node->cpu().store(store->own(0), 1); }

TEST(ModelCpu, ATaskUsesTheCpuOfItsOwnNode) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, use_the_cpu_of(store.node, &store));
  };
  EXPECT_TRUE(is_broken(program, under(Preset::observed), Kind::exception));
}

}  // namespace
}  // namespace sidelatch::explore
