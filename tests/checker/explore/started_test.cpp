// Coroutines that a task starts by itself: their steps come in any order with those of the task, and the task may
// destroy one before its next step.
#include "started.h"
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sidelatch::explore {
namespace started {
namespace {

using fabric::Task;
using fabric::model::Preset;

enum class Waits : std::uint8_t { yield, load, in_vain, fence, write };

// A step, or something that others can see.
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
      for (const Waits waits : {Waits::yield, Waits::load, Waits::in_vain, Waits::fence}) {
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
      for (const Waits waits : {Waits::yield, Waits::load, Waits::write}) {
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

}  // namespace
}  // namespace started
}  // namespace sidelatch::explore
