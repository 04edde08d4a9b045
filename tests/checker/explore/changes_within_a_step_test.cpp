// A client changes an object of the process and takes the change back before its step ends. Where others may come in
// between, they see it: behind a post, in a sleep, and between two attempts of a loop.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "clients.h"
#include "either_search.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;

struct Hall {
  int inside = 0;
  std::array<int, 4096> large{};
  std::map<int, int> made;
  std::vector<int> list;
};

// Where the client notes that it is inside.
enum class Mark : std::uint8_t { small, large, made, linked };

void enter(Hall& hall, Mark mark) {
  switch (mark) {
    case Mark::small:
      ++hall.inside;
      break;
    case Mark::large:
      ++hall.large[2048];
      break;
    case Mark::made:
      ++hall.made[1];
      break;
    case Mark::linked:
      hall.list.push_back(1);
      break;
  }
}
void leave(Hall& hall, Mark mark) {
  switch (mark) {
    case Mark::small:
      --hall.inside;
      break;
    case Mark::large:
      --hall.large[2048];
      break;
    case Mark::made:
      --hall.made[1];
      break;
    case Mark::linked:
      hall.list.pop_back();
      break;
  }
}
int inside(Hall& hall, Mark mark) {
  switch (mark) {
    case Mark::small:
      return hall.inside;
    case Mark::large:
      return hall.large[2048];
    case Mark::made:
      return hall.made[1];
    case Mark::linked:
      return static_cast<int>(hall.list.size());
  }
  return 0;
}

// It leaves too late: the latch is given back before.
Task<void> visit(Client* client, Store* store, Hall* hall, Mark mark, bool leaves_first) {
  co_await take_latch(client, store, 1);
  enter(*hall, mark);
  client->world->require(inside(*hall, mark) == 1, "two are inside");
  if (leaves_first) {
    leave(*hall, mark);
  }
  co_await client->qp->enqueue(fabric::compare_swap(store->word(0), 1, 0));
  if (!leaves_first) {
    leave(*hall, mark);
  }
  co_await client->qp->drain();
}

Program visits(Mark mark, bool leaves_first) {
  return [mark, leaves_first](World& world) {
    auto& store = world.make<Store>(world);
    auto& one = world.make<Client>(world, store, "one");
    auto& other = world.make<Client>(world, store, "other");
    auto& hall = world.make<Hall>();
    world.spawn(*one.node, visit(&one, &store, &hall, mark, leaves_first));
    world.spawn(*other.node, visit(&other, &store, &hall, mark, leaves_first));
  };
}

TEST(ChangesWithinAStep, ThatArePassedByAPostAreSeen) {
  for (const Mode mode : kEitherSearch) {
    for (const Mark mark : {Mark::small, Mark::large, Mark::made, Mark::linked}) {
      EXPECT_TRUE(is_broken(visits(mark, false), searching(mode), Kind::assertion)) << static_cast<int>(mark);
      EXPECT_TRUE(is_safe(visits(mark, true), searching(mode))) << static_cast<int>(mark);
    }
  }
}

// ---- Nothing of the client goes on meanwhile.

Task<void> enter_and_sleep(Client* client, Hall* hall, bool stays) {
  enter(*hall, Mark::small);
  if (!stays) {
    leave(*hall, Mark::small);
  }
  co_await client->qp->reactor().sleep(fabric::from_ns(10));
  if (stays) {
    leave(*hall, Mark::small);
  }
}

Task<void> enter_and_try_again(Client* client, Hall* hall, bool stays) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (int attempt = 0; attempt < 2; ++attempt) {
    enter(*hall, Mark::small);
    if (!stays) {
      leave(*hall, Mark::small);
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
    if (stays) {
      leave(*hall, Mark::small);
    }
  }
}

Task<void> look(Client* client, Hall* hall) {
  client->world->require(hall->inside == 0, "somebody is inside");
  co_return;
}

Program with_a_witness(Task<void> (*enters)(Client*, Hall*, bool), bool stays) {
  return [enters, stays](World& world) {
    auto& store = world.make<Store>(world);
    auto& one = world.make<Client>(world, store, "one");
    auto& witness = world.make<Client>(world, store, "witness");
    auto& hall = world.make<Hall>();
    world.spawn(*one.node, enters(&one, &hall, stays));
    world.spawn(*witness.node, look(&witness, &hall));
  };
}

TEST(ChangesWithinAStep, AreSeenByOthersWhileTheClientSleepsOrTriesAgain) {
  for (const Mode mode : kEitherSearch) {
    for (const auto enters : {enter_and_sleep, enter_and_try_again}) {
      EXPECT_TRUE(is_broken(with_a_witness(enters, true), searching(mode), Kind::assertion));
      EXPECT_TRUE(is_safe(with_a_witness(enters, false), searching(mode)));
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore
