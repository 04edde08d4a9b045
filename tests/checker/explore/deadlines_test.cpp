// Clients that ask what time it is. How long a wait takes is not explored: such a program is never safe. What much time
// leads to is judged all the same.
#include <sidelatch/explore/check.h>
#include <sidelatch/fabric/reactor.h>

#include "clients.h"

#include <gtest/gtest.h>

#include <chrono>

namespace sidelatch::explore {
namespace {
namespace deadlines {

using namespace fabric;
using model::Preset;

// The first one raises the flag.
Task<void> raise_if_first(Client* client, Store* store, std::uint64_t mine) {
  const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), mine);
  if (old == 0 && mine == 1) {
    client->set(0, 1);
    co_await client->qp->write(client->word(0), store->word(1));
  }
}

// Waits for the flag, a minute at most. Who gives up says so.
Task<void> wait_a_minute(Client* client, Store* store) {
  Reactor& reactor = client->qp->reactor();
  const Reactor::LoopId loop = reactor.begin_retries();
  const Time began = reactor.now();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(1));
    if (client->value(0) != 0) {
      co_return;
    }
    if (reactor.now() - began > std::chrono::minutes(1)) {
      break;
    }
    co_await reactor.retry(loop, std::chrono::seconds(31));
  }
  co_await client->qp->fetch_add(store->word(2), 1);
}

// The same without a declared loop.
Task<void> wait_undeclared(Client* client, Store* store) {
  Reactor& reactor = client->qp->reactor();
  const Time began = reactor.now();
  do {
    co_await client->qp->read(client->word(0), store->word(1));
  } while (client->value(0) == 0 && reactor.now() - began < std::chrono::minutes(1));
}

// Reads once and asks then.
Task<void> time_a_read(Client* client, Store* store) {
  const Time began = client->qp->reactor().now();
  co_await client->qp->read(client->word(0), store->word(0));
  client->world->require(client->qp->reactor().now() == began, "a READ takes time");
}

Task<void> time_nothing(Client* client, Store* store) {
  const Time began = client->qp->reactor().now();
  client->world->require(began == client->qp->reactor().now(), "a step takes time");
  co_await client->qp->read(client->word(0), store->word(0));
}

using Waiting = Task<void> (*)(Client*, Store*);

// Nobody gives up if the flag comes in the end. Without `raises` it comes where the first client is the first only.
Program waiting(Waiting wait, bool always_raised, bool forbidden) {
  return [=](World& world) {
    auto& store = world.make<Store>(world);
    auto& first = world.make<Client>(world, store, "first");
    auto& waiter = world.make<Client>(world, store, "waiter");
    world.spawn(*first.node, raise_if_first(&first, &store, 1));
    if (!always_raised) {
      auto& other = world.make<Client>(world, store, "other");
      world.spawn(*other.node, raise_if_first(&other, &store, 2));
    }
    world.spawn(*waiter.node, wait(&waiter, &store));
    if (forbidden) {
      world.at_end([&](const Order&) { world.require(store.value(2) == 0, "it gave up"); });
    }
  };
}

Options under(Mode mode, Preset preset) {
  Options options;
  options.rules = rules_of(preset);
  options.mode = mode;
  options.walks = 0;
  return options;
}

constexpr const char* kAsks = "waiter, which asks what time it is after it has waited";

TEST(Deadlines, WhatComesOfGivingUpIsJudged) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    const Verdict verdict = check(waiting(wait_a_minute, false, true), under(Mode::exhaustive, preset));
    EXPECT_EQ(verdict.outcome, Outcome::broken);
    ASSERT_TRUE(verdict.violation);
    EXPECT_EQ(verdict.violation->kind, Kind::assertion);
  }
}

TEST(Deadlines, AreNeverSafeNorADeadlock) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    for (const Waiting wait : {wait_a_minute, wait_undeclared}) {
      for (const bool always : {true, false}) {
        const Verdict verdict = check(waiting(wait, always, false), under(mode, Preset::observed));
        EXPECT_EQ(verdict.outcome, Outcome::bounded) << static_cast<int>(mode) << always;
        EXPECT_TRUE(verdict.bound.starts_with(kAsks)) << verdict.bound;
        EXPECT_FALSE(verdict.only_loops_bounded);
      }
    }
  }
}

TEST(Deadlines, ARequestTakesTime) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    EXPECT_EQ(check(waiting(time_a_read, true, false), under(mode, Preset::strict)).outcome, Outcome::bounded);
    EXPECT_EQ(check(waiting(time_nothing, true, false), under(mode, Preset::strict)).outcome, Outcome::safe);
  }
}

}  // namespace deadlines
}  // namespace
}  // namespace sidelatch::explore
