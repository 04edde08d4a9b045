// Revocations prevent events; the final states are the same with and without reduction.
#include <sidelatch/explore/check.h>

#include "clients.h"
#include "tests/sampled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <tuple>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;

struct Variant {
  bool by_atomics;      // what the victim has in flight: a WRITE of two lines, or FETCH-ADD and WRITE
  bool looks_before;    // the revoker reads the memory before it revokes
  bool reads_after;     // and reads or adds afterwards
  bool victim_crashes;  // may
  bool is_strict;       // then a request's execution and what its client does next are one step
};

Task<void> victim(const Variant* variant, Client* client, Store* store) {
  client->set(0, 1);
  client->set(1, 1);
  try {
    if (variant->by_atomics) {
      co_await client->qp->submit(fabric::fetch_add(store->word(0), 1));
      co_await client->qp->submit(fabric::write(client->word(0), store->word(1)));
    } else {
      co_await client->qp->submit(fabric::write(client->lines(0, 2), store->lines(0, 2)));
    }
    store->world->tag(1);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it was revoked, as this test intends
  }
}

Task<void> revoker(const Variant* variant, Client* client, Client* dead, Store* store, std::uint64_t* seen) {
  if (variant->looks_before) {
    const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), 8);
    *seen = old;
  }
  if (!variant->looks_before || variant->is_strict) {
    co_await client->world->yield(*client->node);  // the revocation is a step of its own
  }
  store->node->revoke(*dead->qp);
  if (variant->reads_after) {
    co_await client->qp->read(client->lines(0, 2), store->lines(0, 2));
    *seen = *seen * 100 + client->value(0) * 10 + client->value(1);
  } else {
    const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), 16);
    *seen = *seen * 100 + old;
  }
}

using EndState = std::array<std::uint64_t, 3>;

std::set<EndState> states(const Variant& variant, Preset preset, Mode mode) {
  std::set<EndState> all;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world, 2);
    auto& seen = world.make<std::uint64_t>(0);
    auto& dead = world.make<Client>(world, store, "victim");
    auto& client = world.make<Client>(world, store, "revoker");
    if (variant.victim_crashes) {
      world.may_crash(*dead.node);
    }
    world.spawn(*dead.node, victim(&variant, &dead, &store));
    world.spawn(*client.node, revoker(&variant, &client, &dead, &store, &seen));
    world.at_end([&](const Order& /*order*/) { all.insert({store.value(0), store.value(1), seen}); });
  };
  // No executions by chance: they would reach states that the search has not.
  const Verdict verdict = check(program, {.rules = rules_of(preset), .mode = mode, .walks = 0, .threads = 1});
  EXPECT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
  return all;
}

class Revocation : public ::testing::TestWithParam<std::tuple<Preset, bool, bool, bool, bool>> {};

TEST_P(Revocation, ReachesTheSameStatesWithoutReduction) {
  const auto [preset, by_atomics, looks_before, reads_after, victim_crashes] = GetParam();
  if (is_sampled() && looks_before && preset != Preset::strict) {
    GTEST_SKIP() << kLeftOut;
  }
  const Variant variant{by_atomics, looks_before, reads_after, victim_crashes, preset == Preset::strict};
  const std::set<EndState> reduced = states(variant, preset, Mode::exhaustive);
  EXPECT_GT(reduced.size(), 1U);
  EXPECT_EQ(reduced, states(variant, preset, Mode::plain));
}

INSTANTIATE_TEST_SUITE_P(EveryVariant, Revocation,
                         ::testing::Combine(::testing::Values(Preset::strict, Preset::observed, Preset::relaxed),
                                            ::testing::Bool(), ::testing::Bool(), ::testing::Bool(),
                                            ::testing::Bool()));

// ---- A completion that is told behind a revocation.

struct Mailbox {
  fabric::MemoryRegion memory;  // of the victim
  std::unique_ptr<fabric::QueuePair> qp;
};

// It looks at its own memory in the step in which it learns that its READ has completed.
Task<void> read_and_look(Client* client, Store* store, Mailbox* mailbox) {
  bool completed = true;
  try {
    co_await client->qp->submit(fabric::read(client->word(0), store->word(0)));
  } catch (const std::exception&) {
    completed = false;
  }
  if (completed) {
    client->world->require(word_in(mailbox->memory.bytes()) == 0, "the READ completed, and the revocation is known");
  }
}

Task<void> revoke_and_tell(Client* client, Store* store, Client* victim, Mailbox* mailbox) {
  client->set(0, 1);
  co_await client->world->yield(*client->node);
  store->node->revoke(*victim->qp);
  co_await mailbox->qp->submit(fabric::write(client->word(0), mailbox->memory.remote(0, 8)));
}

void tells_of_its_revocation(World& world) {
  auto& store = world.make<Store>(world);
  auto& one = world.make<Client>(world, store, "victim");
  auto& two = world.make<Client>(world, store, "revoker");
  auto& mailbox = world.make<Mailbox>();
  mailbox.memory = one.node->allocate(64, fabric::Access::remote_all);
  mailbox.qp = two.node->connect(*one.node);
  world.spawn(*one.node, read_and_look(&one, &store, &mailbox));
  world.spawn(*two.node, revoke_and_tell(&two, &store, &one, &mailbox));
}

// The completion comes first, then the revocation, then what follows from it, and then the client goes on. A completion
// behind the revocation would be one with an error, so the client must be able to learn of an earlier one then.
TEST(RevokedQueuePair, MayBeRevokedBeforeItsClientLearnsOfAnEarlierCompletion) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    for (const Mode mode : {Mode::exhaustive, Mode::states, Mode::plain}) {
      const Options options{.rules = rules_of(preset), .mode = mode, .walks = 0, .threads = 1};
      const Verdict verdict = check(tells_of_its_revocation, options);
      ASSERT_EQ(verdict.outcome, Outcome::broken) << name(preset) << to_text(verdict);
      const Verdict again = replay(tells_of_its_revocation, options, verdict.violation->choices);
      EXPECT_EQ(again.outcome, Outcome::broken) << name(preset);
    }
  }
}

// ---- What becomes of a revoked queue pair.

Task<void> write_twice_and_give_up(Client* client, Store* store) {
  bool failed = false;
  try {
    co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
    co_await client->qp->submit(fabric::write(client->word(0), store->word(1)));
  } catch (const std::exception&) {
    failed = true;
  }
  if (failed) {
    client->qp.reset();
  }
}

Task<void> write_and_leave(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  co_await client->world->yield(*client->node);
  client->qp.reset();
}

Task<void> revoke_later(World* world, fabric::Node* own, Store* store, fabric::QueuePair* queue_pair) {
  co_await world->yield(*own);
  store->node->revoke(*queue_pair);  // it lives: its owner ends it after an error alone
}

Program ends_its_queue_pair(Task<void> (*ends)(Client*, Store*), bool revokes, bool by_the_target) {
  return [=](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    fabric::Node& third = world.add_node("third");
    world.spawn(*client.node, ends(&client, &store));
    if (revokes) {
      fabric::Node& by = by_the_target ? *store.node : third;
      world.spawn(by, revoke_later(&world, &by, &store, client.qp.get()));
    }
  };
}

// Rule 10: its requests take no further step. So its end is defined, although not all of them have completed.
TEST(RevokedQueuePair, MayBeDestroyedBehindItsError) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    const Program program = ends_its_queue_pair(write_twice_and_give_up, true, false);
    const Verdict verdict = check(program, {.rules = rules_of(preset), .threads = 1});
    EXPECT_EQ(verdict.outcome, Outcome::safe) << name(preset) << to_text(verdict);
  }
}

// Reads 7, or fails; `line` is its buffer's.
Task<void> read_seven(Client* client, Store* store, std::uint64_t line, bool drains) {
  bool completed = true;
  try {
    if (drains) {
      co_await client->qp->enqueue(fabric::read(client->word(line), store->word(0)));
      co_await client->qp->drain();
    } else {
      co_await client->qp->submit(fabric::read(client->word(line), store->word(0)));
    }
  } catch (const std::exception&) {
    completed = false;
  }
  if (completed) {
    client->world->require(client->value(line) == 7, "a READ that failed was taken for one that completed");
  }
}

Program reads_and_is_revoked(bool drains) {
  return [=](World& world) {
    auto& store = world.make<Store>(world);
    constexpr std::uint64_t kSeven = 7;
    std::memcpy(store.memory.bytes().data(), &kSeven, sizeof kSeven);
    auto& client = world.make<Client>(world, store, "client");
    fabric::Node& third = world.add_node("third");
    world.spawn(*client.node, read_seven(&client, &store, 0, drains));
    if (!drains) {
      world.spawn(*client.node, read_seven(&client, &store, 1, drains));
    }
    world.spawn(third, revoke_later(&world, &third, &store, client.qp.get()));
  };
}

// Rules 1 and 10: those that had not completed fail in order, so the first of them is not done when a later one fails.
// drain() posts such a later one itself: an empty WRITE that is signalled.
TEST(RevokedQueuePair, TellsOfItsFirstRequestThatFailed) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    for (const bool drains : {true, false}) {
      for (const Mode mode : {Mode::exhaustive, Mode::states}) {
        const Verdict verdict =
            check(reads_and_is_revoked(drains), {.rules = rules_of(preset), .mode = mode, .threads = 1});
        EXPECT_EQ(verdict.outcome, Outcome::safe) << name(preset) << drains << to_text(verdict);
      }
    }
  }
}

Task<void> write_and_fail_over(Client* client, Store* store, fabric::QueuePair* second) {
  bool failed = false;
  try {
    co_await client->qp->submit(fabric::write(client->word(0), store->word(0)));
  } catch (const std::exception&) {
    failed = true;
  }
  if (failed) {
    client->qp.reset();
  }
  co_await second->submit(fabric::write(client->word(0), store->word(1)));
  co_await second->submit(fabric::write(client->word(0), store->word(0)));
}

TEST(RevokedQueuePair, MayBeDestroyedBeforeItsOwnerGoesOnWithAnother) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    auto& second = world.make<std::unique_ptr<fabric::QueuePair>>(client.node->connect(*store.node));
    fabric::Node& third = world.add_node("third");
    world.spawn(*client.node, write_and_fail_over(&client, &store, second.get()));
    world.spawn(third, revoke_later(&world, &third, &store, client.qp.get()));
  };
  for (const Mode mode : {Mode::states, Mode::exhaustive}) {
    const Verdict verdict = check(program, {.mode = mode, .threads = 1});
    EXPECT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
  }
}

TEST(RevokedQueuePair, IsNotDestroyedWithRequestsInFlight) {
  const Verdict verdict = check(ends_its_queue_pair(write_and_leave, false, false), {.threads = 1});
  ASSERT_EQ(verdict.outcome, Outcome::broken);
  EXPECT_EQ(verdict.violation->kind, Kind::exception);
}

TEST(RevokedQueuePair, IsBoundedAndSaysWhyIfOthersReachTheMemoryOfWhoRevokes) {
  const Verdict verdict = check(ends_its_queue_pair(write_twice_and_give_up, true, true), {.threads = 1});
  ASSERT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_NE(verdict.bound.find("memory, which revokes a queue pair although others reach memory of its own node"),
            std::string::npos)
      << verdict.bound;
}

}  // namespace
}  // namespace sidelatch::explore
