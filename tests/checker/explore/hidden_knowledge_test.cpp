// Programs that know more than a comparison of frames shows, or do what a reduction may miss: each has a fault, and
// must not be called safe. Those marked as controls have the same fault where it is easily seen.
#include "clients.h"

#include <sidelatch/explore/check.h>
#include <sidelatch/explore/world.h>
#include <sidelatch/fabric/buffer_ring.h>
#include <sidelatch/sync/session.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>

namespace sidelatch::explore::hidden {
namespace {

using namespace fabric;
using fabric::model::Preset;

// The searches themselves have to find it, and not executions by chance.
Verdict verdict_of(const Program& program, Preset preset = Preset::observed) {
  Options options{.rules = fabric::model::rules_of(preset), .max_executions = 200'000, .threads = 1};
  options.walks = 0;
  return check(program, options);
}

void put(Store& store, std::uint64_t line, std::uint64_t word) {
  std::memcpy(store.memory.bytes().data() + line * 64, &word, sizeof word);
}

// ---- A READ's bytes may be there before or after the client looks, if it waits for something else.

Task<void> look_early(Client* client, QueuePair* other, Store* store, std::uint64_t wanted) {
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  co_await other->read(client->word(1), store->word(1));
  client->world->require(client->value(0) == wanted, "the READ is early or late");
  co_await client->qp->drain();
}

TEST(HiddenKnowledge, AReadThatNobodyWaitsForComesEarlyOrLate) {
  for (const std::uint64_t wanted : {0U, 7U}) {
    const Verdict verdict = verdict_of([wanted](World& world) {
      Store& store = world.make<Store>(world);
      put(store, 0, 7);
      Client& client = world.make<Client>(world, store, "client");
      auto& other = *world.make<std::unique_ptr<QueuePair>>(world.connect(*client.node, *store.node, 0, {}));
      world.spawn(*client.node, look_early(&client, &other, &store, wanted));
    });
    EXPECT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  }
}

// ---- CPU threads that use pointers.

Task<void> write_two_lines(Client* client, Store* store) {
  client->set(0, 1);
  client->set(1, 1);
  co_await client->qp->write(client->lines(0, 2), store->lines(0, 2));
}
Task<void> look_by_cpu(World* world, Cpu* cpu, Store* store, bool by_pointer) {
  const std::uint64_t second = co_await cpu->load(store->own(1));
  std::uint64_t first = store->value(0);
  if (!by_pointer) {
    first = co_await cpu->load(store->own(0));
  }
  world->require(first == second, "one line is newer than the other");
}

TEST(HiddenKnowledge, ACpuThreadThatLooksByAPointerSeesAWriteInParts) {
  for (const bool by_pointer : {false, true}) {
    const Verdict verdict = verdict_of([by_pointer](World& world) {
      Store& store = world.make<Store>(world);
      Client& client = world.make<Client>(world, store, "client");
      Cpu& cpu = world.add_cpu(*store.node, "cpu");
      world.spawn(*client.node, write_two_lines(&client, &store));
      world.spawn(cpu, look_by_cpu(&world, &cpu, &store, by_pointer));
    });
    EXPECT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  }
}

// ---- A loop that counts its attempts, somewhere.

enum class Place : std::uint8_t { frame, registered_pointer, posted, completed, after_a_session, ring, before_the_end };

Task<void> raise_flag(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(0));
}

struct Counting {
  Client* client;
  Store* store;
  Place place;
  std::size_t offset = 0;  // in a block that a session had
  BufferRing* ring = nullptr;
};

constexpr std::size_t kBlockBytes = 64;

std::uint64_t& counter_at(std::byte* at) { return *reinterpret_cast<std::uint64_t*>(at); }

Task<void> count_attempts(Counting how) {
  Client& client = *how.client;
  std::byte* const saved = client.buffers.bytes().data() + 512;
  std::uint64_t in_frame = 0;
  std::uint64_t first = 0;
  std::byte* block = nullptr;
  std::byte* end = nullptr;  // of a block to which nothing else leads
  if (how.place == Place::before_the_end) {
    end = static_cast<std::byte*>(::operator new(kBlockBytes)) + kBlockBytes;
    std::memset(end - kBlockBytes, 0, kBlockBytes);
  } else if (how.place == Place::registered_pointer) {
    std::byte* const heap = static_cast<std::byte*>(::operator new(8));
    std::memset(heap, 0, 8);
    std::memcpy(saved, &heap, sizeof heap);
  } else if (how.place == Place::posted || how.place == Place::completed) {
    first = client.qp->posted();
  } else if (how.place == Place::after_a_session) {
    {
      const auto session = std::make_unique<sync::Session>(*client.qp, 64, sync::SessionOptions{.buffers = 1});
      co_await session->close();
    }
    block = static_cast<std::byte*>(::operator new(sizeof(sync::Session)));
    std::memset(block, 0, sizeof(sync::Session));
  }
  Reactor& reactor = client.world->reactor();
  const Reactor::LoopId loop = reactor.begin_retries();
  for (;;) {
    client.set(0, 0);
    co_await client.qp->read(client.word(0), how.store->word(0));
    const bool done = client.value(0) == 1;
    client.set(0, 0);
    if (done) {
      break;
    }
    std::uint64_t count = 0;
    switch (how.place) {
      case Place::frame:
        count = ++in_frame;
        break;
      case Place::registered_pointer: {
        std::byte* heap = nullptr;
        std::memcpy(&heap, saved, sizeof heap);
        count = ++counter_at(heap);
        heap = nullptr;
        break;
      }
      case Place::posted:
        count = client.qp->posted() - first;
        break;
      case Place::completed:
        count = client.qp->completed() - first;
        break;
      case Place::after_a_session:
        count = ++counter_at(block + how.offset);
        break;
      case Place::before_the_end:
        count = ++counter_at(end - 8);
        break;
      case Place::ring: {
        const RingBuffer buffer = co_await how.ring->acquire();
        count = ++counter_at(buffer.span().data);
        break;
      }
    }
    client.world->require(count < 5, "the fifth attempt");
    count = 0;
    co_await reactor.retry(loop, Duration{});
  }
  if (how.place == Place::registered_pointer) {
    std::byte* heap = nullptr;
    std::memcpy(&heap, saved, sizeof heap);
    ::operator delete(heap);
  }
  ::operator delete(end == nullptr ? nullptr : end - kBlockBytes);
  ::operator delete(block);
}

Program counting(Place place, std::size_t offset = 0) {
  return [=](World& world) {
    Store& store = world.make<Store>(world);
    Client& flag = world.make<Client>(world, store, "flag");
    Client& client = world.make<Client>(world, store, "client");
    BufferRing* const ring = place == Place::ring ? &world.make<BufferRing>(*client.qp, 1, 64) : nullptr;
    world.spawn(*flag.node, raise_flag(&flag, &store));
    world.spawn(*client.node, count_attempts({&client, &store, place, offset, ring}));
  };
}

TEST(HiddenKnowledge, AttemptsThatAreCountedAnywhereAreNotLeftOut) {
  for (const Place place :
       {Place::frame, Place::registered_pointer, Place::posted, Place::completed, Place::ring, Place::before_the_end}) {
    const Verdict verdict = verdict_of(counting(place));
    EXPECT_EQ(verdict.outcome, Outcome::broken) << static_cast<int>(place) << to_text(verdict);
  }
}

TEST(HiddenKnowledge, ABlockThatASessionHadIsComparedAsAWhole) {
  for (std::size_t offset = 0; offset + 8 <= sizeof(sync::Session); offset += 8) {
    const Verdict verdict = verdict_of(counting(Place::after_a_session, offset));
    EXPECT_EQ(verdict.outcome, Outcome::broken) << offset << to_text(verdict);
  }
}

// ---- Counters of the library.

Task<void> count_retries(Client* client, Store* store, sync::Session* session, std::uint64_t most) {
  sync::Attempts attempts(*session);
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    const bool done = client->value(0) == 1;
    client->set(0, 0);
    if (done) {
      break;
    }
    if (attempts.expired()) {
      co_return;
    }
    co_await attempts.pause();
  }
  client->world->require(session->counters().retries < most, "too many retries");
}

TEST(HiddenKnowledge, ACounterThatIsReadAfterTheLoopCounts) {
  for (std::uint64_t most = 1; most <= 10; ++most) {
    const Verdict verdict = verdict_of([most](World& world) {
      Store& store = world.make<Store>(world);
      Client& flag = world.make<Client>(world, store, "flag");
      Client& client = world.make<Client>(world, store, "client");
      auto& session = world.make<sync::Session>(*client.qp, 64, sync::SessionOptions{.buffers = 1});
      world.spawn(*flag.node, raise_flag(&flag, &store));
      world.spawn(*client.node, count_retries(&client, &store, &session, most));
    });
    EXPECT_NE(verdict.outcome, Outcome::safe) << most << to_text(verdict);
  }
}

// ---- Revocations are seen by others.

Task<void> write_pair(Client* client, Store* store, std::uint64_t line) {
  try {
    client->set(0, 1);
    co_await client->qp->write(client->word(0), store->word(line));
    co_await client->qp->write(client->word(0), store->word(line + 1));
  } catch (const FabricError&) {  // NOLINT(bugprone-empty-catch): revoked
  }
}
Task<void> count_to_three(Client* client, Store* store) {
  for (int i = 0; i < 3; ++i) {
    co_await client->qp->fetch_add(store->word(0), 1);
  }
}
Task<void> revoke_in_turn(Client* client, Store* store, QueuePair* one, QueuePair* two) {
  Reactor& reactor = client->world->reactor();
  const Reactor::LoopId loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    const std::uint64_t seen = client->value(0);
    client->set(0, 0);
    if (seen == 3) {
      break;
    }
    if (seen != 0) {
      store->node->revoke(seen == 1 ? *one : *two);
    }
    co_await reactor.retry(loop, Duration{});
  }
}

TEST(HiddenKnowledge, AnAttemptThatRevokesLeavesATrace) {
  const Verdict verdict = verdict_of(
      [](World& world) {
        Store& store = world.make<Store>(world, 6);
        Client& one = world.make<Client>(world, store, "one");
        Client& two = world.make<Client>(world, store, "two");
        Client& driver = world.make<Client>(world, store, "driver");
        Client& monitor = world.make<Client>(world, store, "monitor");
        world.spawn(*one.node, write_pair(&one, &store, 1));
        world.spawn(*two.node, write_pair(&two, &store, 3));
        world.spawn(*driver.node, count_to_three(&driver, &store));
        world.spawn(*monitor.node, revoke_in_turn(&monitor, &store, one.qp.get(), two.qp.get()));
        world.at_end([&](const Order&) {
          world.require(store.value(1) == store.value(2) || store.value(3) == store.value(4), "both pairs are torn");
        });
      },
      Preset::strict);
  EXPECT_NE(verdict.outcome, Outcome::safe) << to_text(verdict);
}

// ---- Crashes.

Task<void> hold_and_write(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(1));
  co_await client->qp->write(client->word(0), store->word(2));
  co_await client->qp->write(client->word(0), store->word(3));
}
Task<void> wait_for_line_three(Client* client, Store* store) {
  Reactor& reactor = client->world->reactor();
  const Reactor::LoopId loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(3));
    const bool done = client->value(0) == 1;
    client->set(0, 0);
    if (done) {
      co_return;
    }
    co_await reactor.retry(loop, Duration{});
  }
}

TEST(HiddenKnowledge, AnEndIsJudgedAlsoIfSomebodyWaitsForTheDead) {
  for (const bool waits : {false, true}) {
    const Verdict verdict = verdict_of([waits](World& world) {
      Store& store = world.make<Store>(world);
      Client& holder = world.make<Client>(world, store, "holder");
      world.may_crash(*holder.node);
      world.spawn(*holder.node, hold_and_write(&holder, &store));
      if (waits) {
        Client& waiter = world.make<Client>(world, store, "waiter");
        world.spawn(*waiter.node, wait_for_line_three(&waiter, &store));
      }
      world.at_end([&](const Order&) { world.require(store.value(1) == store.value(2), "torn"); });
    });
    EXPECT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  }
}

TEST(HiddenKnowledge, ACrashOfAClientWhoseMemoryOthersReachIsRefused) {
  const Program program = [](World& world) {
    Store& store = world.make<Store>(world);
    Client& client = world.make<Client>(world, store, "client");
    world.make<MemoryRegion>(client.node->allocate(64, Access::remote_all));
    world.may_crash(*client.node);
  };
  EXPECT_THAT([&] { (void)verdict_of(program); },
              testing::ThrowsMessage<std::invalid_argument>(testing::HasSubstr("client may crash")));
}

// ---- Several flows in one task.

struct Done {
  bool is_done = false;
};
Task<void> side_flow(Client* client, QueuePair* other, Store* store, Done* done) {
  bool waited = false;
  Reactor& reactor = client->world->reactor();
  const Reactor::LoopId loop = reactor.begin_retries();
  while (!done->is_done) {
    waited = true;
    co_await reactor.retry(loop, Duration{});
  }
  if (waited) {  // loses an update
    co_await other->read(client->word(1), store->word(1));
    client->set(1, client->value(1) + 1);
    co_await other->write(client->word(1), store->word(1));
  } else {
    co_await other->fetch_add(store->word(1), 1);
  }
}
Task<void> main_flow(Client* client, QueuePair* other, Store* store, Done* done) {
  co_await client->qp->read(client->word(0), store->word(0));
  done->is_done = client->value(0) == 1;
  client->world->reactor().spawn(side_flow(client, other, store, done));
  co_await client->world->yield(*client->node);
  done->is_done = true;
}
Task<void> flag_and_add(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(0));
  co_await client->qp->fetch_add(store->word(1), 1);
}

TEST(HiddenKnowledge, AFlowThatWaitsForAnotherOfItsTaskIsNotLeftOut) {
  const Verdict verdict = verdict_of([](World& world) {
    Store& store = world.make<Store>(world);
    Client& client = world.make<Client>(world, store, "client");
    Client& other = world.make<Client>(world, store, "other");
    auto& second = *world.make<std::unique_ptr<QueuePair>>(world.connect(*client.node, *store.node, 0, {}));
    Done& done = world.make<Done>();
    world.spawn(*client.node, main_flow(&client, &second, &store, &done));
    world.spawn(*other.node, flag_and_add(&other, &store));
    world.at_end([&](const Order&) { world.require(store.value(1) == 2, "an update is lost"); });
  });
  EXPECT_NE(verdict.outcome, Outcome::safe) << to_text(verdict);
}

// ---- Loops that are used in odd ways.

Task<void> begin_in_the_loop(Client* client, const std::uint64_t* word) {
  Reactor& reactor = client->world->reactor();
  for (std::uint64_t attempts = 0; *word == 0; ++attempts) {
    static_cast<void>(attempts);  // so that attempts differ
    const Reactor::LoopId loop = reactor.begin_retries();
    co_await reactor.retry(loop, Duration{});
  }
}

TEST(HiddenKnowledge, ALoopThatIsBegunInEachAttemptEnds) {
  const Verdict verdict = verdict_of([](World& world) {
    Store& store = world.make<Store>(world);
    Client& client = world.make<Client>(world, store, "client");
    auto& own = world.make<MemoryRegion>(client.node->allocate(64, Access::remote_all));
    world.spawn(*client.node, begin_in_the_loop(&client, reinterpret_cast<const std::uint64_t*>(own.bytes().data())));
  });
  EXPECT_NE(verdict.outcome, Outcome::safe) << to_text(verdict);
}

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};
Detached poll_for_ever(World* world, const Done* done) {
  const Reactor::LoopId loop = world->reactor().begin_retries();
  while (!done->is_done) {
    co_await world->reactor().retry(loop, Duration{});
  }
}
Task<void> end_a_poll(Client* client, Store* store, Done* done) {
  const Detached poll = poll_for_ever(client->world, done);
  co_await client->qp->read(client->word(0), store->word(0));
  poll.handle.destroy();
}

TEST(HiddenKnowledge, ATaskThatWaitsInALoopMayBeDestroyed) {
  const Verdict verdict = verdict_of([](World& world) {
    Store& store = world.make<Store>(world);
    Client& client = world.make<Client>(world, store, "client");
    Done& done = world.make<Done>();
    world.spawn(*client.node, end_a_poll(&client, &store, &done));
  });
  EXPECT_NE(verdict.outcome, Outcome::broken) << to_text(verdict);
}

// ---- A number of a program's own that has the highest bits of the library's numbers of requests.

Task<void> count_from(Client* client, Store* store, std::uint64_t first) {
  Reactor& reactor = client->world->reactor();
  const Reactor::LoopId loop = reactor.begin_retries();
  for (std::uint64_t attempt = first;; ++attempt) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    client->world->require(attempt != first + 3, "three attempts failed");
    co_await reactor.retry(loop, Duration{});
  }
}

TEST(HiddenKnowledge, AttemptsAreCountedFromAnyNumber) {
  constexpr std::uint64_t kTag = std::uint64_t{0x5e9d} << 48;
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    for (const std::uint64_t first : {std::uint64_t{0}, kTag, kTag + 1, kTag + 1000}) {
      Options options;
      options.mode = mode;
      options.walks = 0;  // the search itself must find it
      const Verdict verdict = check(
          [first](World& world) {
            Store& store = world.make<Store>(world);
            Client& reader = world.make<Client>(world, store, "reader");
            Client& writer = world.make<Client>(world, store, "writer");
            world.spawn(*reader.node, count_from(&reader, &store, first));
            world.spawn(*writer.node, add_one(&writer, &store));
          },
          options);
      EXPECT_EQ(verdict.outcome, Outcome::broken) << first << to_text(verdict);
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore::hidden
