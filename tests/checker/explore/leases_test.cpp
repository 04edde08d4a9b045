// The lease of a client that has crashed: when it ends, for whom, how often, and what others see of those who take
// over.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"
#include "either_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <tuple>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using ::testing::HasSubstr;

Options exhaustively() { return searching(Mode::exhaustive, 600); }

// ---- The dead have held several latches.

// It takes as many latches as its heir will take over.
Task<void> take_all(Client* client, Store* store, int latches) {
  for (int latch = 0; latch < latches; ++latch) {
    co_await client->qp->compare_swap(store->word(static_cast<std::uint64_t>(latch)), 0, 1);
  }
  for (int latch = 0; latch < latches; ++latch) {
    co_await client->qp->compare_swap(store->word(static_cast<std::uint64_t>(latch)), 1, 0);
  }
}

// A latch that has been held for longer than a lease is taken over.
Task<void> inherit(Client* client, Store* store, int latches, int* taken_over) {
  fabric::Reactor& reactor = client->qp->reactor();
  for (int latch = 0; latch < latches; ++latch) {
    const fabric::RemoteSpan word = store->word(static_cast<std::uint64_t>(latch));
    const fabric::Time began = reactor.now();
    const auto loop = reactor.begin_retries();
    for (;;) {
      const std::uint64_t old = co_await client->qp->compare_swap(word, 0, 2);
      if (old == 0) {
        break;
      }
      if (reactor.now() - began > std::chrono::minutes(1)) {
        co_await client->qp->compare_swap(word, old, 2);
        ++*taken_over;
        break;
      }
      co_await reactor.retry(loop, fabric::Duration::zero());
    }
  }
}

Program heirs_of(int latches, int allowed) {
  return [latches, allowed](World& world) {
    auto& store = world.make<Store>(world, 8);
    auto& holder = world.make<Client>(world, store, "holder");
    auto& heir = world.make<Client>(world, store, "heir");
    auto& taken_over = world.make<int>(0);
    world.may_crash(*holder.node);
    world.spawn(*holder.node, take_all(&holder, &store, latches));
    world.spawn(*heir.node, inherit(&heir, &store, latches, &taken_over));
    world.at_end([&world, &taken_over, allowed](const Order& /*order*/) {
      world.require(taken_over <= allowed, "more was taken over than is allowed");
    });
  };
}

TEST(Leases, EndOneAfterTheOther) {
  for (const int latches : {1, 2, 3}) {
    EXPECT_TRUE(is_broken(heirs_of(latches, latches - 1), exhaustively(), Kind::assertion)) << latches;
    EXPECT_TRUE(is_safe(heirs_of(latches, latches), exhaustively())) << latches;
  }
}

TEST(Leases, ThatEndTooOftenAreNamed) {
  const Verdict verdict = check(heirs_of(6, 5), exhaustively());
  EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
  EXPECT_THAT(to_text(verdict), HasSubstr("the lease of holder, which has ended 4 times"));
}

// ---- A client begins behind the end of the lease, and a request of the dead comes later still.

// Waits for the word until it has waited longer than a lease.
Task<void> give_up_waiting(Client* client, Store* store, bool* gave_up) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(1));
    if (client->value(0) != 0) {
      co_return;
    }
    if (reactor.now() > std::chrono::minutes(1)) {
      break;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
  *gave_up = true;
  co_await client->qp->fetch_add(store->word(0), 1);
}
Task<void> raise(Client* client, Store* store) { co_await client->qp->fetch_add(store->word(1), 1); }
Task<void> come_late(Client* client, Store* store, std::uint64_t* found) {
  *found = co_await client->qp->fetch_add(store->word(0), 1);
}

TEST(Leases, WhoBeginsBehindTheEndMayDoSoBeforeALateRequestOfTheDead) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& dead = world.make<Client>(world, store, "dead");
    auto& waits = world.make<Client>(world, store, "waits");
    auto& late = world.make<Client>(world, store, "late");
    auto& gave_up = world.make<bool>(false);
    auto& found = world.make<std::uint64_t>(0);
    world.may_crash(*dead.node);
    world.spawn(*dead.node, raise(&dead, &store));
    world.spawn(*waits.node, give_up_waiting(&waits, &store, &gave_up));
    world.spawn(*late.node, come_late(&late, &store, &found));
    world.at_end([&](const Order& /*order*/) {
      world.require(!gave_up || store.value(1) == 0 || found == 0, "late came third, and the dead came last");
    });
  };
  for (const auto preset : kPresets) {
    Options options = exhaustively();
    options.rules = rules_of(preset);
    EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << name(preset);
  }
}

// ---- What others see of a takeover.

// What the heir does with the latch that it has taken over, so that nobody should see it in the middle.
Task<void> take_over_and_work(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Time began = reactor.now();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) == 1 && reactor.now() - began > std::chrono::minutes(1)) {
      break;
    }
    if (client->value(0) == 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
  co_await client->qp->fetch_add(store->word(1), 1);
  co_await client->qp->fetch_add(store->word(1), ~std::uint64_t{0});
  co_await client->qp->compare_swap(store->word(0), 1, 2);
}
Task<void> look_once(Client* client, Store* store) {
  co_await client->qp->read(client->word(1), store->word(1));
  client->world->require(client->value(1) == 0, "the heir is seen in the middle");
}
Task<void> look_until_it_is_free(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(1), store->word(1));
    client->world->require(client->value(1) == 0, "the heir is seen in the middle");
    co_await client->qp->read(client->word(1), store->word(0));
    if (client->value(1) != 1) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}
Task<void> hold(Client* client, Store* store) {
  co_await client->qp->compare_swap(store->word(0), 0, 1);
  co_await client->qp->compare_swap(store->word(0), 1, 0);
}

Program with_a_reader(Task<void> (*reads)(Client*, Store*), bool crashes) {
  return [reads, crashes](World& world) {
    auto& store = world.make<Store>(world);
    auto& holder = world.make<Client>(world, store, "holder");
    auto& heir = world.make<Client>(world, store, "heir");
    auto& reader = world.make<Client>(world, store, "reader");
    if (crashes) {
      world.may_crash(*holder.node);
    }
    world.spawn(*holder.node, hold(&holder, &store));
    world.spawn(*heir.node, take_over_and_work(&heir, &store));
    world.spawn(*reader.node, reads(&reader, &store));
  };
}

TEST(Leases, WhoTakesOverIsSeenByThoseWhoBeginLaterOrWait) {
  for (const auto reads : {look_once, look_until_it_is_free}) {
    EXPECT_TRUE(is_broken(with_a_reader(reads, true), exhaustively(), Kind::assertion));
    // Nobody crashes, so the heir is one that waits for a minute, and no longer.
    EXPECT_EQ(check(with_a_reader(reads, false), exhaustively()).outcome, Outcome::bounded);
  }
}

// Two heirs of one latch, which they take over by a CAS, or by a WRITE.
Task<void> take_over(Client* client, Store* store, std::uint64_t own, bool by_write) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Time began = reactor.now();
  const auto loop = reactor.begin_retries();
  for (;;) {
    std::uint64_t old = co_await client->qp->compare_swap(store->word(0), 0, own);
    if (old == 0) {
      break;
    }
    if (old == 1 && reactor.now() - began > std::chrono::minutes(1)) {
      if (by_write) {
        client->set(1, own);
        co_await client->qp->write(client->word(1), store->word(0));
        break;
      }
      old = co_await client->qp->compare_swap(store->word(0), 1, own);
      if (old == 1) {
        break;
      }
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
  const std::uint64_t inside = co_await client->qp->fetch_add(store->word(1), 1);
  client->world->require(inside == 0, "two are inside");
  co_await client->qp->fetch_add(store->word(1), ~std::uint64_t{0});
  co_await client->qp->compare_swap(store->word(0), own, 0);
}

Program two_heirs(bool by_write) {
  return [by_write](World& world) {
    auto& store = world.make<Store>(world);
    auto& holder = world.make<Client>(world, store, "holder");
    world.may_crash(*holder.node);
    world.spawn(*holder.node, hold(&holder, &store));
    for (const std::uint64_t own : {2U, 3U}) {
      auto& heir = world.make<Client>(world, store, own == 2 ? "heir" : "other heir");
      world.spawn(*heir.node, take_over(&heir, &store, own, by_write));
    }
  };
}

TEST(Leases, EndForAllWhoWait) {
  EXPECT_TRUE(is_broken(two_heirs(true), exhaustively(), Kind::assertion));
  EXPECT_TRUE(is_safe(two_heirs(false), exhaustively()));
}

// ---- What keeps a lease from ending.

struct Ends {
  std::unique_ptr<fabric::QueuePair> server;
  std::unique_ptr<fabric::QueuePair> sender;
};
Task<void> hold_and_serve(Client* client, Store* store, Ends* ends) {
  co_await hold(client, store);
  static_cast<void>(ends->server->post_receive(client->word(4)));
  static_cast<void>(co_await ends->server->receive());
}
Task<void> say_something(Client* client, Ends* ends) { co_await ends->sender->enqueue(fabric::send(client->word(0))); }

// A message of the dead that comes behind the end of the lease. Its receiver has begun long before, as the other one
// has seen.
Task<void> serve_once(Client* client, Store* store, Ends* ends) {
  static_cast<void>(ends->server->post_receive(client->word(4)));
  co_await client->qp->fetch_add(store->word(3), 1);
  static_cast<void>(co_await ends->server->receive());
  co_await client->qp->fetch_add(store->word(1), 1);
}
Task<void> give_up_and_look(Client* client, Store* store, bool* saw_nothing) {
  co_await client->qp->read(client->word(2), store->word(3));
  if (client->value(2) == 0) {
    co_return;
  }
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(2));
    if (reactor.now() > std::chrono::minutes(1)) {
      break;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
  co_await client->qp->read(client->word(1), store->word(1));
  *saw_nothing = client->value(1) == 0;
}

TEST(Leases, EndBeforeALateMessageOfTheDead) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& dead = world.make<Client>(world, store, "dead");
    auto& waits = world.make<Client>(world, store, "waits");
    auto& server = world.make<Client>(world, store, "server");
    auto& ends = world.make<Ends>();
    auto& saw_nothing = world.make<bool>(false);
    std::tie(ends.server, ends.sender) = server.node->connect_pair(*dead.node);
    world.may_crash(*dead.node);
    world.spawn(*dead.node, say_something(&dead, &ends));
    world.spawn(*waits.node, give_up_and_look(&waits, &store, &saw_nothing));
    world.spawn(*server.node, serve_once(&server, &store, &ends));
    world.at_end([&](const Order& /*order*/) {
      world.require(!saw_nothing || store.value(1) == 0, "the server went on behind the end of the lease");
    });
  };
  for (const auto preset : kPresets) {
    Options options = exhaustively();
    options.rules = rules_of(preset);
    EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << name(preset);
  }
}

// A SEND that waits for a buffer of the dead waits for ever.
TEST(Leases, EndAlthoughAMessageWaitsForABufferOfTheDead) {
  for (const int allowed : {0, 1}) {
    const Program program = [allowed](World& world) {
      auto& store = world.make<Store>(world);
      auto& server = world.make<Client>(world, store, "server");
      auto& heir = world.make<Client>(world, store, "heir");
      auto& sender = world.make<Client>(world, store, "sender");
      auto& ends = world.make<Ends>();
      auto& taken_over = world.make<int>(0);
      std::tie(ends.server, ends.sender) = server.node->connect_pair(*sender.node);
      world.may_crash(*server.node);
      world.spawn(*server.node, hold_and_serve(&server, &store, &ends));
      world.spawn(*heir.node, inherit(&heir, &store, 1, &taken_over));
      world.spawn(*sender.node, say_something(&sender, &ends));
      world.at_end([&world, &taken_over, allowed](const Order& /*order*/) {
        world.require(taken_over <= allowed, "there was a takeover");
      });
    };
    if (allowed == 0) {
      EXPECT_TRUE(is_broken(program, exhaustively(), Kind::assertion));
    } else {
      EXPECT_TRUE(is_safe(program, exhaustively()));
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore
