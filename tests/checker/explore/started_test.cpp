// Coroutines that a task starts by itself: their steps come in any order with those of the task, and the task may
// destroy one before its next step.
#include "started.h"
#include <sidelatch/explore/gtest.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/structures/superblock.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/session.h>

#include "checking.h"
#include "clients.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sidelatch::explore {
namespace started {
namespace {

using fabric::Task;
using fabric::model::Preset;

enum class Waits : std::uint8_t { yield, load, in_vain, fence, write, sleep, retry };

// A step, something that others can see, or a wait that is a step only if something else of the client may come
// between.
Task<void> wait_so(Client* client, Store* store, Waits waits) {
  fabric::Cpu& cpu = client->node->cpu();
  switch (waits) {
    case Waits::yield:
      co_await client->world->yield(*client->node);
      break;
    case Waits::load:
      co_await cpu.load(client->word(1));
      break;
    case Waits::in_vain:
      co_await cpu.wait(client->word(1), fabric::WordCondition::is(1));
      break;
    case Waits::fence:
      co_await cpu.store(client->word(2), 1);
      co_await cpu.fence();
      break;
    case Waits::write:
      co_await client->qp->write(client->word(2), store->word(0));
      break;
    case Waits::sleep:
      co_await client->qp->reactor().sleep(fabric::from_ns(100));
      break;
    case Waits::retry: {
      fabric::Reactor& reactor = client->qp->reactor();
      const auto loop = reactor.begin_retries();
      co_await reactor.retry(loop, fabric::from_ns(100));
      break;
    }
  }
}

Started wait_and_tell(Client* client, Store* store, Waits waits, std::uint64_t* told) {
  co_await wait_so(client, store, waits);
  *told = 1;
}

Task<void> store_a_word(Client* client) { co_await client->node->cpu().store(client->word(1), 1); }

constexpr int kSteps = 5;  // of the task

// Destroys the coroutine after some steps of its own. It must not have gone on (or must).
Task<void> start_and_destroy(Client* client, Store* store, Waits waits, std::uint64_t allowed) {
  std::uint64_t told = 0;
  {
    const Started other = wait_and_tell(client, store, waits, &told);
    for (int i = 0; i < kSteps; ++i) {
      co_await client->world->yield(*client->node);
    }
    if (waits == Waits::write) {
      co_await client->qp->drain();
    }
  }
  client->world->require(told == allowed, "the coroutine was as fast as that");
}

Program destroys(Waits waits, std::uint64_t allowed) {
  return [waits, allowed](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, start_and_destroy(&client, &store, waits, allowed));
    if (waits == Waits::in_vain) {
      world.spawn(*client.node, store_a_word(&client));
    }
  };
}

std::string shown(Preset preset, Mode mode, Waits waits) {
  return std::string(name(preset)) + (mode == Mode::states ? " states " : " ") +
         std::to_string(static_cast<int>(waits));
}

TEST(StartedCoroutines, MayGoOnBeforeTheyAreDestroyedOrNot) {
  for (const Preset preset : kPresets) {
    for (const Mode mode : {Mode::exhaustive, Mode::plain, Mode::states}) {
      for (const Waits waits : {Waits::yield, Waits::load, Waits::in_vain, Waits::fence, Waits::sleep, Waits::retry}) {
        for (const std::uint64_t allowed : {0U, 1U}) {
          if (mode == Mode::plain && waits == Waits::fence) {
            continue;  // it takes long
          }
          Options options = under(preset);
          options.mode = mode;
          options.walks = 0;  // the search itself must find it
          EXPECT_TRUE(is_broken(destroys(waits, allowed), options, Kind::assertion)) << shown(preset, mode, waits);
        }
      }
    }
  }
}

TEST(StartedCoroutines, ThatWaitForARequestGoOnWhenItHasCompleted) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options = under(Preset::observed);
    options.mode = mode;
    EXPECT_TRUE(is_safe(destroys(Waits::write, 1), options)) << shown(Preset::observed, mode, Waits::write);
  }
}

// Nothing is destroyed before its end: the coroutine may come before the task, or after it.
Task<void> start_and_look(Client* client, Store* store, Waits waits, std::uint64_t allowed) {
  std::uint64_t told = 0;
  const Started other = wait_and_tell(client, store, waits, &told);
  for (int i = 0; i < kSteps; ++i) {
    co_await client->world->yield(*client->node);
  }
  client->world->require(told == allowed, "the coroutine was as fast as that");
  while (!other.done()) {
    co_await client->world->yield(*client->node);
  }
}

TEST(StartedCoroutines, ComeInAnyOrderWithTheirTask) {
  for (const Preset preset : kPresets) {
    for (const Mode mode : {Mode::exhaustive, Mode::states}) {
      for (const Waits waits : {Waits::yield, Waits::load, Waits::write, Waits::sleep, Waits::retry}) {
        for (const std::uint64_t allowed : {0U, 1U}) {
          const Program program = [waits, allowed](World& world) {
            auto& store = world.make<Store>(world);
            auto& client = world.make<Client>(world, store, "client");
            world.spawn(*client.node, start_and_look(&client, &store, waits, allowed));
          };
          Options options = under(preset);
          options.mode = mode;
          options.max_events = 100;
          options.walks = 0;
          EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << shown(preset, mode, waits);
        }
      }
    }
  }
}

// Two coroutines sleep. The one that sleeps later may go on first.
Task<void> start_two(Client* client, Store* store, std::uint64_t allowed) {
  std::uint64_t first = 0;
  std::uint64_t order = 0;
  const Started one = wait_and_tell(client, store, Waits::sleep, &first);
  co_await wait_so(client, store, Waits::sleep);
  order = first;
  while (!one.done()) {
    co_await client->world->yield(*client->node);
  }
  client->world->require(order == allowed, "the other one was first");
}

TEST(StartedCoroutines, MaySleepBesideTheirTask) {
  for (const Mode mode : {Mode::exhaustive, Mode::plain, Mode::states}) {
    for (const std::uint64_t allowed : {0U, 1U}) {
      const Program program = [allowed](World& world) {
        auto& store = world.make<Store>(world);
        auto& client = world.make<Client>(world, store, "client");
        world.spawn(*client.node, start_two(&client, &store, allowed));
      };
      Options options = under(Preset::strict);
      options.mode = mode;
      options.max_events = 100;
      options.walks = 0;
      EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << shown(Preset::strict, mode, Waits::sleep);
    }
  }
}

// It sleeps, and is destroyed in the same step: nothing is left of it that would go on.
Task<void> start_and_destroy_at_once(Client* client, Store* store, Waits waits) {
  std::uint64_t told = 0;
  { const Started other = wait_and_tell(client, store, waits, &told); }
  co_await client->world->yield(*client->node);
  client->world->require(told == 0, "the coroutine went on without its frame");
}

TEST(StartedCoroutines, MayBeDestroyedInTheStepInWhichTheySleep) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    for (const Waits waits : {Waits::sleep, Waits::retry}) {
      const Program program = [waits](World& world) {
        auto& store = world.make<Store>(world);
        auto& client = world.make<Client>(world, store, "client");
        world.spawn(*client.node, start_and_destroy_at_once(&client, &store, waits));
      };
      Options options = under(Preset::observed);
      options.mode = mode;
      EXPECT_TRUE(is_safe(program, options)) << shown(Preset::observed, mode, waits);
    }
  }
}

// An object with a latch, and the client that latches it. The loops of the library pause at their heads, in worlds that
// explore only.
struct Latched {
  explicit Latched(World& the_world)
      : world(&the_world),
        layout(scheme.shape(8, sync::LayoutKind::padded), sync::LayoutKind::padded, 1),
        memory_node(&the_world.add_node("memory")),
        memory(memory_node->allocate(layout.total_bytes(), fabric::Access::remote_all)),
        objects(layout, memory.remote()),
        node(&the_world.add_node("client")),
        zero(node->allocate(64, fabric::Access::local_write)),
        qp(the_world.connect(*node, *memory_node, 0, {})),
        session(*qp, sync::buffer_bytes(layout.shape())) {}

  [[nodiscard]] std::uint64_t latch() const {
    return word_in(memory.bytes(), objects.at(0).latch().address.value - memory.remote().address.value);
  }

  World* world;
  sync::ExclusiveLatch scheme;
  sync::Layout layout;
  fabric::Node* memory_node;
  fabric::MemoryRegion memory;
  sync::ObjectArray objects;
  fabric::Node* node;
  fabric::MemoryRegion zero;
  std::unique_ptr<fabric::QueuePair> qp;
  sync::Session session;
  bool is_over = false;
};

Task<void> latch_and_unlatch(Latched* own) {
  sync::ExclusiveGuard guard = co_await own->scheme.latch(own->session, own->objects.at(0));
  co_await guard.abort();
  own->is_over = true;
}

Started latch_and_unlatch_beside(Latched* own) { co_await latch_and_unlatch(own); }

// Frees the latch right behind the operation that has asked for it, on the same queue pair. The operation's first
// requests are before it, in all worlds, so the latch is unlatched twice.
Task<void> free_and_wait(Latched* own) {
  co_await own->qp->write(own->zero.local(0, 8), own->objects.at(0).latch());
  while (!own->is_over) {
    co_await own->world->yield(*own->node);
  }
}

Task<void> spawn_and_free(Latched* own) {
  own->qp->reactor().spawn(latch_and_unlatch(own));
  co_await free_and_wait(own);
}

Task<void> start_and_free(Latched* own) {
  const Started beside = latch_and_unlatch_beside(own);
  co_await free_and_wait(own);
}

Program frees_behind(Task<void> (*task)(Latched*)) {
  return [task](World& world) {
    auto& own = world.make<Latched>(world);
    world.spawn(*own.node, task(&own));
    world.at_end([&own, &world](const Order&) { world.require(own.latch() == 0, "the latch was free before"); });
  };
}

TEST(StartedOperations, PostBeforeWhoHasSpawnedThemGoesOn) {
  for (const Mode mode : {Mode::exhaustive, Mode::plain, Mode::states}) {
    Options options = under(Preset::strict);
    options.mode = mode;
    options.walks = 0;
    EXPECT_TRUE(is_broken(frees_behind(spawn_and_free), options, Kind::assertion)) << shown(Preset::strict, mode, {});
  }
}

// The explorer sees only afterwards that the coroutine had a task beside it.
TEST(StartedOperations, OfACoroutineThatATaskStartsByItselfAreBounded) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options = under(Preset::strict);
    options.mode = mode;
    const Verdict verdict = check(frees_behind(start_and_free), options);
    EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
    EXPECT_NE(to_text(verdict).find("let Reactor::spawn start it"), std::string::npos) << to_text(verdict);
  }
}

// A table with one value, and its client.
struct Tabled {
  explicit Tabled(World& world)
      : bytes(structures::HashTable::bytes_needed(scheme, options, 1)),
        memory_nodes{&world.add_node("memory")},
        memory(memory_nodes[0]->allocate(bytes, fabric::Access::remote_all)),
        table(scheme, options, std::array{memory.remote()}),
        node(&world.add_node("client")),
        client(*node, memory_nodes, table.buffer_bytes()) {}

  [[nodiscard]] fabric::RemoteSpan latch() const {
    const std::uint64_t at = structures::kSuperblockBytes + table.layout().latch(0);
    return memory.remote(at, 8);
  }

  sync::ExclusiveLatch scheme;
  structures::HashTableOptions options{.addressing = structures::Addressing::perfect, .value_bytes = 8, .capacity = 1};
  std::uint64_t bytes;
  std::array<fabric::Node*, 1> memory_nodes;
  fabric::MemoryRegion memory;
  structures::HashTable table;
  fabric::Node* node;
  structures::Client client;
};

Task<void> put(Tabled* own) {
  const std::array<std::byte, 8> value{};
  const structures::Outcome outcome = co_await own->table.put(own->client, 0, value);
  static_cast<void>(outcome);
}

// Looks at the latch right behind the operation that it has spawned, on the same queue pair.
Task<void> spawn_and_look(Tabled* own, World* world, bool is_first, std::uint64_t expected) {
  if (!is_first) {
    co_await put(own);
  }
  own->client.reactor().spawn(put(own));
  const std::uint64_t latch = co_await own->client.session(0).qp().fetch_add(own->latch(), 0);
  world->require(latch == expected, "the latch is not as expected");
}

// A client's first operation waits for the superblock in other worlds. So what its spawner posts is before it.
TEST(StartedOperations, OfATableWaitBeforeTheirFirstRequestIfTheyAreTheFirst) {
  for (const Mode mode : {Mode::exhaustive, Mode::plain, Mode::states}) {
    for (const bool is_first : {true, false}) {
      for (const std::uint64_t expected : {0U, 1U}) {
        const Program program = [is_first, expected](World& world) {
          auto& own = world.make<Tabled>(world);
          world.spawn(*own.node, spawn_and_look(&own, &world, is_first, expected));
        };
        Options options = under(Preset::strict);
        options.mode = mode;
        options.walks = 0;
        if (is_first == (expected == 0)) {
          EXPECT_TRUE(is_safe(program, options)) << is_first << ' ' << shown(Preset::strict, mode, {});
        } else {
          EXPECT_TRUE(is_broken(program, options, Kind::assertion))
              << is_first << ' ' << shown(Preset::strict, mode, {});
        }
      }
    }
  }
}

}  // namespace
}  // namespace started
}  // namespace sidelatch::explore
