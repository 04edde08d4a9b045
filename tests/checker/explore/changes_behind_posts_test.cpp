// A client changes an object of the process behind a post, in the same step. Another client that sees what was posted
// may look before the change. The one that changes is alone in doing so, and the other one looks in front of its own
// posts.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "clients.h"
#include "either_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using ::testing::HasSubstr;

struct Said {
  int small = 0;
  std::array<int, 4096> large{};  // more than a page
  std::map<int, int> made;        // what tasks put there is theirs
};

// Where the client says that it has added 1.
enum class Place : std::uint8_t { small, large, made };
enum class When : std::uint8_t { before, behind, behind_in_line, behind_a_yield };

void say(Said& said, Place place) {
  switch (place) {
    case Place::small:
      said.small = 1;
      break;
    case Place::large:
      said.large[2048] = 1;
      break;
    case Place::made:
      said.made.at(1) = 1;
      break;
  }
}

bool was_said(const Said& said, Place place) {
  switch (place) {
    case Place::small:
      return said.small != 0;
    case Place::large:
      return said.large[2048] != 0;
    case Place::made:
      return said.made.contains(1) && said.made.at(1) != 0;
  }
  return false;
}

Task<void> add_and_say(Client* client, Store* store, Said* said, Place place, When when) {
  if (place == Place::made) {
    said->made.emplace(1, 0);
    co_await client->world->yield(*client->node);
  }
  if (when == When::before) {
    say(*said, place);
  }
  if (when == When::behind_in_line) {
    const std::array chain{fabric::fetch_add(store->word(0), 1)};
    client->world->require(client->qp->post(chain), "there is no room");
    say(*said, place);
    co_await client->qp->drain();
    co_return;
  }
  co_await client->qp->enqueue(fabric::fetch_add(store->word(0), 1));
  if (when == When::behind_a_yield) {
    co_await client->world->yield(*client->node);
  }
  if (when != When::before) {
    say(*said, place);
  }
  co_await client->qp->drain();
}

Task<void> look(Client* client, Store* store, Said* said, Place place) {
  co_await client->qp->read(client->word(0), store->word(0));
  client->world->require(client->value(0) == 0 || was_said(*said, place), "it was added, and not said yet");
}

Program adding(Place place, When when) {
  return [place, when](World& world) {
    auto& store = world.make<Store>(world);
    auto& adds = world.make<Client>(world, store, "adds");
    auto& looks = world.make<Client>(world, store, "looks");
    auto& said = world.make<Said>();
    world.spawn(*adds.node, add_and_say(&adds, &store, &said, place, when));
    world.spawn(*looks.node, look(&looks, &store, &said, place));
  };
}

TEST(ChangesBehindPosts, AreSeenLateByOthers) {
  for (const Mode mode : kEitherSearch) {
    for (const Place place : {Place::small, Place::large, Place::made}) {
      EXPECT_TRUE(is_broken(adding(place, When::behind), searching(mode), Kind::assertion));
      EXPECT_TRUE(is_broken(adding(place, When::behind_a_yield), searching(mode), Kind::assertion));
      EXPECT_TRUE(is_safe(adding(place, When::before), searching(mode)));
    }
  }
}

TEST(ChangesBehindPosts, ThatCannotWaitAreNotCalledSafe) {
  for (const Mode mode : kEitherSearch) {
    const Verdict verdict = check(adding(Place::small, When::behind_in_line), searching(mode));
    EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
    EXPECT_THAT(to_text(verdict), HasSubstr("adds, which looks at an object that clients share behind a post"));
  }
}

}  // namespace
}  // namespace sidelatch::explore
