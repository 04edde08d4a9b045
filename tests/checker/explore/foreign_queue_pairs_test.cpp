// A client that looks at another client's queue pair learns of a revocation that no request has told it. This is not
// explored, so such a program is not called safe.
#include <sidelatch/explore/check.h>
#include <sidelatch/fabric/error.h>

#include "checking.h"
#include "clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>

namespace sidelatch::explore {
namespace {

using fabric::QueuePair;
using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

struct Look {
  const char* name;
  bool (*has_failed)(const QueuePair& queue_pair);
};
void PrintTo(const Look& one, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << one.name;
}

Task<void> post_until_revoked(Client* client, Store* store, bool* failed) {
  try {
    co_await client->qp->fetch_add(store->word(0), 1);
    co_await client->qp->fetch_add(store->word(0), 1);
  } catch (const fabric::FabricError&) {
    *failed = true;
  }
}
// Told by a word that the queue pair is revoked, it looks before and after its second request of three.
Task<void> look_between(Client* client, Store* store, const QueuePair* at, Look look) {
  co_await client->qp->read(client->word(0), store->word(2));
  if (client->value(0) == 0) {
    co_return;
  }
  co_await client->qp->fetch_add(store->word(1), 1);
  const bool before = look.has_failed(*at);
  co_await client->qp->fetch_add(store->word(1), 1);
  const bool after = look.has_failed(*at);
  client->world->require(before || !after, "it fails between two looks");
  co_await client->qp->fetch_add(store->word(1), 1);
}
Task<void> revoke_and_tell(Client* client, Store* store, QueuePair* queue_pair) {
  client->set(0, 1);
  co_await client->world->yield(*client->node);
  store->node->revoke(*queue_pair);
  co_await client->qp->write(client->word(0), store->word(2));
}
Task<void> tell(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(2));
}

struct Three {
  explicit Three(World& world)
      : store(world.make<Store>(world)),
        first(world.make<Client>(world, store, "first")),
        second(world.make<Client>(world, store, "second")),
        third(world.make<Client>(world, store, "third")) {}
  Store& store;
  Client& first;
  Client& second;
  Client& third;
};

// Who looks: the client whose queue pair it is, another one, or a judge at the end.
enum class Who : std::uint8_t { owner, other, judge };

Program looks(Look look, Who who, bool revoked = true) {
  return [look, who, revoked](World& world) {
    auto& three = world.make<Three>(world);
    auto& failed = world.make<bool>(false);
    world.judges_with(&failed);
    const QueuePair* const at = who == Who::other ? three.first.qp.get() : three.second.qp.get();
    world.spawn(*three.first.node, post_until_revoked(&three.first, &three.store, &failed));
    if (who != Who::judge) {
      world.spawn(*three.second.node, look_between(&three.second, &three.store, at, look));
    } else {
      world.at_end([&world, &three, &failed, look](const Order&) {
        world.require(look.has_failed(*three.first.qp) == failed, "a queue pair and its client do not agree");
      });
    }
    world.spawn(*three.third.node, revoked ? revoke_and_tell(&three.third, &three.store, three.first.qp.get())
                                           : tell(&three.third, &three.store));
  };
}

class ForeignQueuePairs : public ::testing::TestWithParam<std::tuple<Look, Mode>> {};

TEST_P(ForeignQueuePairs, AreNotLookedAtUnseen) {
  const auto& [look, mode] = GetParam();
  Options options = under(Preset::observed);
  options.mode = mode;
  options.walks = 0;  // the searches must say it, not chance
  const Verdict other = check(looks(look, Who::other), options);
  EXPECT_NE(other.outcome, Outcome::safe);
  if (other.outcome == Outcome::bounded) {
    EXPECT_THAT(other.bound, HasSubstr("second, which asks how far the requests of first have got"));
    EXPECT_FALSE(other.only_loops_bounded);
  }
  const Verdict unrevoked = check(looks(look, Who::other, false), options);
  ASSERT_EQ(unrevoked.outcome, Outcome::bounded);
  EXPECT_THAT(unrevoked.bound, HasSubstr("second, which asks how far the requests of first have got"));
  for (const Who who : {Who::owner, Who::judge}) {
    const Verdict verdict = check(looks(look, who), options);
    EXPECT_EQ(verdict.outcome, Outcome::safe) << verdict.bound;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ForeignQueuePairs,
    ::testing::Combine(
        ::testing::Values(
            Look{"State", [](const QueuePair& queue_pair) { return queue_pair.state() != QueuePair::State::ready; }},
            Look{"Failures", [](const QueuePair& queue_pair) { return queue_pair.failures() != 0; }},
            Look{"Error", [](const QueuePair& queue_pair) { return queue_pair.error() != nullptr; }}),
        ::testing::Values(Mode::exhaustive, Mode::states)),
    [](const auto& one) {
      return std::string(std::get<0>(one.param).name) +
             std::string(std::get<1>(one.param) == Mode::states ? "States" : "");
    });

}  // namespace
}  // namespace sidelatch::explore
