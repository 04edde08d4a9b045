// `safe` means safe where clients wait: an attempt is left out only if the explorer has seen that it left no trace.
// Each program here was once called safe, or was refused, and must not be.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

testing::AssertionResult is_never_safe(const Program& program, const Options& options) {
  const Verdict verdict = check(program, options);
  if (verdict.outcome == Outcome::safe) {
    return testing::AssertionFailure() << to_text(verdict);
  }
  return testing::AssertionSuccess() << to_text(verdict);
}

// ---- What an attempt did is not told by how much it did.

// Word 0: the flag. Word 1: how often it was looked at. Word 2: nobody's.
Task<void> count_looks(Client* client, Store* store, bool posts_a_swap_before) {
  if (posts_a_swap_before) {
    co_await client->qp->enqueue(fabric::compare_swap(store->word(2), 5, 6));  // fails, and nobody waits for it
  }
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->fetch_add(store->word(1), 1);
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}
Task<void> raise(Client* client, Store* store) { co_await client->qp->fetch_add(store->word(0), 1); }

TEST(Waiting, AFailedSwapDoesNotHideAnIncrement) {
  for (const bool swap : {false, true}) {
    const Program program = [swap](World& world) {
      auto& store = world.make<Store>(world);
      auto& looker = world.make<Client>(world, store, "looker");
      auto& raiser = world.make<Client>(world, store, "raiser");
      world.spawn(*looker.node, count_looks(&looker, &store, swap));
      world.spawn(*raiser.node, raise(&raiser, &store));
      world.at_end([&](const Order&) { world.require(store.value(1) != 2, "it looked twice"); });
    };
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_broken(program, under(preset), Kind::assertion)) << name(preset) << swap;
    }
  }
}

// Looks at two words; what it saw is (1, 0), (0, 1), (1, 1): a sum says that the second look brought nothing new.
Task<void> look_at_two(Client* client, Store* store, std::vector<std::uint64_t>* seen) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->write(client->word(2), store->word(2));
    co_await client->qp->read(client->word(0), store->word(0));
    co_await client->qp->read(client->word(1), store->word(1));
    seen->push_back(client->value(0) * 10 + client->value(1));
    if (seen->back() == 11) {
      break;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}
Task<void> swap_two(Client* client, Store* store, std::uint64_t first) {
  co_await client->qp->fetch_add(store->word(0), first);
  co_await client->qp->fetch_add(store->word(1), 1);
  co_await client->qp->fetch_add(store->word(0), ~first + 1);
}

TEST(Waiting, WhatWasReadIsNotASum) {
  for (const bool symmetric : {false, true}) {
    const Program program = [symmetric](World& world) {
      auto& store = world.make<Store>(world);
      const std::uint64_t one = 1;
      std::memcpy(store.memory.bytes().data(), &one, sizeof one);
      auto& seen = world.make<std::vector<std::uint64_t>>();
      auto& looker = world.make<Client>(world, store, "looker");
      auto& swapper = world.make<Client>(world, store, "swapper");
      world.spawn(*looker.node, look_at_two(&looker, &store, &seen));
      world.spawn(*swapper.node, swap_two(&swapper, &store, symmetric ? kMinusOne : 1));
      const std::vector<std::uint64_t> wanted =
          symmetric ? std::vector<std::uint64_t>{10, 1, 11} : std::vector<std::uint64_t>{10, 21, 11};
      world.at_end([&world, &seen, wanted](const Order&) { world.require(seen != wanted, "it happened"); });
    };
    EXPECT_TRUE(is_never_safe(program, under(Preset::strict))) << symmetric;
  }
}

// ---- What a loop carries from attempt to attempt.

Task<void> add_what_was_right_once(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(0));
  std::uint64_t old = client->value(0);
  const std::uint64_t mine = old + 1;
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    const std::uint64_t seen = co_await client->qp->compare_swap(store->word(0), old, mine);
    if (seen == old) {
      break;
    }
    old = seen;
    co_await client->qp->reactor().retry(loop, fabric::from_ns(10));
  }
}

Task<void> add_by_swap(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(0));
  std::uint64_t old = client->value(0);
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    const std::uint64_t seen = co_await client->qp->compare_swap(store->word(0), old, old + 1);
    if (seen == old) {
      break;
    }
    old = seen;
    co_await client->qp->reactor().retry(loop, fabric::from_ns(10));
  }
}

using ClientTask = Task<void> (*)(Client*, Store*);

Program all_add(ClientTask task, std::uint32_t clients) {
  return [task, clients](World& world) {
    auto& store = world.make<Store>(world);
    for (std::uint32_t i = 0; i < clients; ++i) {
      auto& client = world.make<Client>(world, store, fmt::format("client {}", i));
      world.spawn(*client.node, task(&client, &store));
    }
    world.at_end(
        [&world, &store, clients](const Order&) { world.require(store.value(0) == clients, "an increment is lost"); });
  };
}

TEST(Waiting, AnIncrementByTheValueOfAnOldReadIsLost) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(all_add(add_what_was_right_once, 2), under(preset), Kind::assertion)) << name(preset);
  }
}

TEST(Waiting, AnIncrementThatCarriesWhatItSawIsSafe) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(all_add(add_by_swap, 2), under(preset))) << name(preset);
  }
}

// An attempt that carries something the bytes of a buffer: also registered memory is looked at.
Task<void> remember_in_the_buffer(Client* client, Store* store) {
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    client->set(3, client->value(3) + 1);  // counts its attempts
    co_await client->qp->reactor().retry(loop, fabric::Duration::zero());
  }
  client->world->require(client->value(3) < 3, "it waited three times");
}

Task<void> remember_on_the_heap(Client* client, Store* store) {
  const auto attempts = std::make_unique<std::uint64_t>(0);
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    ++*attempts;
    co_await client->qp->reactor().retry(loop, fabric::Duration::zero());
  }
  client->world->require(*attempts < 3, "it waited three times");
}

Program waits_for_a_flag(ClientTask waiter) {
  return [waiter](World& world) {
    auto& store = world.make<Store>(world);
    auto& waits = world.make<Client>(world, store, "waiter");
    auto& raiser = world.make<Client>(world, store, "raiser");
    world.spawn(*waits.node, waiter(&waits, &store));
    world.spawn(*raiser.node, raise(&raiser, &store));
  };
}

TEST(Waiting, WhatIsKeptInABufferOrOnTheHeapIsSeen) {
  for (const ClientTask task : {remember_in_the_buffer, remember_on_the_heap}) {
    EXPECT_TRUE(is_broken(waits_for_a_flag(task), under(Preset::strict), Kind::assertion));
    EXPECT_TRUE(is_broken(waits_for_a_flag(task), under(Preset::observed), Kind::assertion));
  }
}

// ---- Attempts that undo what they did.

Task<void> latch_by_adding(Client* client, Store* store) {
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), 1);
    if (old == 0) {
      break;
    }
    co_await client->qp->fetch_add(store->word(0), kMinusOne);
    co_await client->qp->reactor().retry(loop, fabric::Duration::zero());
  }
  co_await client->qp->fetch_add(store->word(0), kMinusOne);
}

TEST(Waiting, ThreeThatUndoTheirAttemptsAreNotCalledSafe) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    for (const char* name : {"a", "b", "c"}) {
      auto& client = world.make<Client>(world, store, name);
      world.spawn(*client.node, latch_by_adding(&client, &store));
    }
  };
  Options options = under(Preset::strict);
  options.max_executions = 20'000;
  EXPECT_TRUE(is_never_safe(program, options));
}

// The fourth failed attempt does harm.
Task<void> overflow(Client* client, Store* store) {
  const auto loop = client->qp->reactor().begin_retries();
  for (;;) {
    const std::uint64_t before = co_await client->qp->fetch_add(store->word(1), 1);
    client->world->require(before < 4, "overflow");
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    co_await client->qp->reactor().retry(loop, fabric::Duration::zero());
  }
}

TEST(Waiting, ABoundThatWasMetIsNamed) {
  const Verdict verdict = check(waits_for_a_flag(overflow), under(Preset::strict));
  if (verdict.outcome == Outcome::bounded) {
    EXPECT_THAT(verdict.bound, HasSubstr("waiter"));
    EXPECT_THAT(verdict.bound, HasSubstr("waiting_test.cpp:"));
    EXPECT_THAT(verdict.bound, HasSubstr("attempts"));
    EXPECT_THAT(verdict.bound, HasSubstr("stores or placements"));
  } else {
    EXPECT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  }
  Options more = under(Preset::strict);
  more.writing_retries = 5;
  EXPECT_TRUE(is_broken(waits_for_a_flag(overflow), more, Kind::assertion));
}

// ---- Programs that are not the same each time.

Task<void> set(Client* client, Store* store, std::uint64_t line, std::uint64_t value) {
  client->set(3, value);
  co_await client->qp->write(client->word(3), store->word(line));
}

TEST(Waiting, AProgramThatDoesSomethingElseEachTimeIsRefused) {
  for (int kind = 0; kind < 4; ++kind) {
    const Program program = [kind, builds = std::make_shared<std::atomic<std::uint64_t>>(0)](World& world) {
      const std::uint64_t build = (*builds)++;
      auto& store = world.make<Store>(world);
      auto& first = world.make<Client>(world, store, "first");
      auto& second = world.make<Client>(world, store, "second");
      const bool odd = build % 2 == 1;
      switch (kind) {
        case 0:  // another value
          world.spawn(*first.node, set(&first, &store, 0, build));
          break;
        case 1:  // another place
          world.spawn(*first.node, set(&first, &store, odd ? 1 : 0, 1));
          break;
        case 2:  // another number of tasks
          world.spawn(*first.node, set(&first, &store, 0, 1));
          if (odd) {
            world.spawn(*first.node, set(&first, &store, 1, 1));
          }
          break;
        default:  // another client
          world.spawn(odd ? *first.node : *second.node, set(odd ? &first : &second, &store, 0, 1));
          break;
      }
      for (const char* name : {"third", "fourth"}) {
        auto& other = world.make<Client>(world, store, name);
        world.spawn(*other.node, set(&other, &store, 0, 7));
      }
    };
    Options options = under(Preset::observed);
    options.threads = 1;
    EXPECT_THROW(static_cast<void>(check(program, options)), std::logic_error) << kind;
  }
}

// ---- Memory that tasks register.

Task<void> write_to_new_memory(Client* client, Store* store) {
  const fabric::MemoryRegion fresh = store->node->allocate(64, fabric::Access::remote_all);
  client->set(3, 7);
  co_await client->qp->write(client->word(3), fresh.remote(0, 8));
  co_await client->qp->read(client->word(2), fresh.remote(0, 8));
  client->world->require(client->value(2) == 7, "the new memory lost a WRITE");
}

TEST(Waiting, ATaskMayRegisterMemory) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    for (const char* name : {"first", "second"}) {
      auto& client = world.make<Client>(world, store, name);
      world.spawn(*client.node, write_to_new_memory(&client, &store));
    }
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
  }
}

// ---- Tasks of the memory node, which look at its memory by pointers.

Task<void> write_both_lines(Client* client, Store* store) {
  client->set(0, 1);
  client->set(1, 1);
  co_await client->qp->write(client->lines(0, 2), store->lines(0, 2));
}

Task<void> look_twice_by_pointer(World* world, Store* store, bool second_line_first) {
  const std::uint64_t first = store->value(second_line_first ? 1 : 0);
  co_await world->yield(*store->node);
  const std::uint64_t second = store->value(second_line_first ? 0 : 1);
  world->require(first == second, "it saw one line of two");
}

Task<void> add_by_pointer(World* world, Store* store) {
  const std::uint64_t old = store->value(0);
  co_await world->yield(*store->node);
  const std::uint64_t value = old + 1;
  std::memcpy(store->memory.bytes().data(), &value, sizeof value);
}

TEST(Waiting, WhatATaskOfTheMemoryNodeSeesByPointersIsExplored) {
  const Program torn = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& writer = world.make<Client>(world, store, "writer");
    world.spawn(*writer.node, write_both_lines(&writer, &store));
    world.spawn(*store.node, look_twice_by_pointer(&world, &store, true));
  };
  const Program lost = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, add_one(&client, &store));
    world.spawn(*store.node, add_by_pointer(&world, &store));
    world.at_end([&](const Order&) { world.require(store.value(0) == 2, "an increment is lost"); });
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(torn, under(preset), Kind::assertion)) << name(preset);
    EXPECT_TRUE(is_broken(lost, under(preset), Kind::assertion)) << name(preset);
  }
}

Task<void> wait_by_pointer(World* world, Store* store) {
  const auto loop = store->node->reactor().begin_retries();
  while (store->value(0) == 0) {
    co_await store->node->reactor().retry(loop, fabric::Duration::zero());
  }
  world->require(store->value(1) == 1, "the flag is there before the data");
}

Task<void> write_data_then_flag(Client* client, Store* store, bool waits) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(1)));
  if (waits) {
    co_await client->qp->read(client->word(1), store->word(1));  // now it is placed (rule 5)
  }
  co_await client->qp->write(client->word(0), store->word(0));
}

TEST(Waiting, ATaskOfTheMemoryNodeMayWaitForItsMemory) {
  const auto program = [](bool waits) {
    return [waits](World& world) {
      auto& store = world.make<Store>(world);
      auto& client = world.make<Client>(world, store, "client");
      world.spawn(*client.node, write_data_then_flag(&client, &store, waits));
      world.spawn(*store.node, wait_by_pointer(&world, &store));
    };
  };
  EXPECT_TRUE(is_safe(program(true), under(Preset::relaxed)));
  EXPECT_TRUE(is_safe(program(false), under(Preset::spec)));
  EXPECT_TRUE(is_broken(program(false), under(Preset::relaxed), Kind::assertion));  // rule 5: WRITEs may pass
}

// ---- Loops in loops.

// Adds its number to a word by compare-and-swap, then waits for the other's number; nobody gives it.
Task<void> wait_in_two_loops(Client* client, Store* store) {
  const auto outer = client->qp->reactor().begin_retries();
  for (;;) {
    std::uint64_t old = 0;
    const auto inner = client->qp->reactor().begin_retries();
    for (;;) {
      const std::uint64_t seen = co_await client->qp->compare_swap(store->word(0), old, old + 1);
      if (seen == old) {
        break;
      }
      old = seen;
      co_await client->qp->reactor().retry(inner, fabric::Duration::zero());
    }
    co_await client->qp->read(client->word(0), store->word(1));
    if (client->value(0) != 0) {
      break;
    }
    co_await client->qp->reactor().retry(outer, fabric::Duration::zero());
  }
}

TEST(Waiting, LoopsInLoopsHaveATraceOrABound) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    for (const char* name : {"first", "second"}) {
      auto& client = world.make<Client>(world, store, name);
      world.spawn(*client.node, wait_in_two_loops(&client, &store));
    }
  };
  Options options = under(Preset::strict);
  options.max_executions = 3000;
  EXPECT_TRUE(is_never_safe(program, options));
}

// ---- A task that one client has spawned is none of another one's.

Task<void> count_twice(Client* client, Store* store) {
  co_await client->qp->fetch_add(store->word(2), 1);
  co_await client->qp->fetch_add(store->word(2), 1);
}
Task<void> spawn_a_task(Client* client, Store* store) {
  client->qp->reactor().spawn(count_twice(client, store));
  co_await client->qp->fetch_add(store->word(3), 1);
}
Task<void> take_and_free(Client* client, Store* store) {
  co_await take_latch(client, store, 1);
  co_await client->qp->compare_swap(store->word(0), 1, 0);
}

TEST(Waiting, ATaskThatAnotherClientHasSpawnedIsNoneOfThisOne) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& spawns = world.make<Client>(world, store, "spawns");
    auto& waits = world.make<Client>(world, store, "waits");
    world.spawn(*spawns.node, spawn_a_task(&spawns, &store));
    world.spawn(*waits.node, take_and_free(&waits, &store));
    auto& holds = world.make<Client>(world, store, "holds");
    world.spawn(*holds.node, take_and_free(&holds, &store));
  };
  Options options = under(Preset::strict);
  options.states_for_loops = 0;
  options.walks = 0;
  EXPECT_TRUE(is_safe(program, options));
}

}  // namespace
}  // namespace sidelatch::explore
