// Where a client may crash, and what it has done by then: nothing behind the crash, whether others could see it in
// memory or in an object of the process; and a client may crash before its first step.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checker/explore/mutation.h"

#include "checking.h"
#include "clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

// Nothing is left to chance.
Options searching(Preset preset = Preset::observed) {
  Options options = under(preset);
  options.walks = 0;
  options.threads = 1;
  options.max_events = 400;
  return options;
}

struct PlantedFault {
  explicit PlantedFault(Mutation mutation) { planted_mutation = mutation; }
  PlantedFault(const PlantedFault&) = delete;
  PlantedFault& operator=(const PlantedFault&) = delete;
  ~PlantedFault() { planted_mutation = Mutation::none; }
};

struct Shared {
  int flag = 0;
  std::vector<int> log;
};

// A client that may crash, another one that looks at what the first has set, and a judge that sees both.
struct Cast {
  explicit Cast(World& the_world)
      : world(the_world),
        store(world.make<Store>(world)),
        mortal(world.make<Client>(world, store, "mortal")),
        witness(world.make<Client>(world, store, "witness")),
        shared(world.make<Shared>()) {
    world.may_crash(*mortal.node);
  }
  World& world;
  Store& store;
  Client& mortal;
  Client& witness;
  Shared& shared;
};

fabric::WorkRequest raise(const Store& store, std::uint64_t line) { return fabric::fetch_add(store.word(line), 1); }

// It looks before and behind a request of its own, and so waits in between.
Task<void> look_twice(Client* client, Store* store, Shared* shared) {
  const int before = shared->flag;
  co_await client->qp->fetch_add(store->word(3), 1);
  client->world->require(before <= shared->flag, "the flag is taken back");
}

template <class Judge>
Program with_a_witness(Task<void> (*mortal)(Client*, Store*, Shared*), Judge judge) {
  return [mortal, judge](World& world) {
    auto& cast = world.make<Cast>(world);
    world.spawn(*cast.mortal.node, mortal(&cast.mortal, &cast.store, &cast.shared));
    world.spawn(*cast.witness.node, look_twice(&cast.witness, &cast.store, &cast.shared));
    world.at_end([&cast, judge](const Order& /*order*/) { judge(cast); });
  };
}

// Everything that was reached, as an execution's end: words 0 and 1, the flag, and whether the client has crashed.
using End = std::array<std::uint64_t, 4>;
std::set<End> ends_of(Task<void> (*mortal)(Client*, Store*, Shared*), const Options& options) {
  std::set<End> ends;
  const Program program = with_a_witness(mortal, [&ends](const Cast& cast) {
    ends.insert({cast.store.value(0), cast.store.value(1), static_cast<std::uint64_t>(cast.shared.flag),
                 cast.world.crashed() ? 1U : 0U});
  });
  EXPECT_TRUE(is_safe(program, options));
  return ends;
}

// ---- Behind the crash.

Task<void> raise_and_set(Client* client, Store* store, Shared* shared) {
  co_await client->qp->enqueue(raise(*store, 0));
  shared->flag = 1;
}

// The flag says that the request was posted, and what was posted is executed (rule 9).
TEST(BehindACrash, ATaskThatPostsByEnqueueDoesNothing) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(with_a_witness(raise_and_set,
                                       [](const Cast& cast) {
                                         cast.world.require(cast.shared.flag <= static_cast<int>(cast.store.value(0)),
                                                            "the flag is set, and nothing was posted");
                                       }),
                        searching(preset)))
        << name(preset);
  }
}

// The crash may come between the post and the flag, although no request comes between.
TEST(BehindACrash, ItMayComeBetweenAPostAndAChange) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(raise_and_set, searching(preset)),
              (std::set<End>{{0, 0, 0, 1}, {1, 0, 0, 1}, {1, 0, 1, 0}, {1, 0, 1, 1}}))
        << name(preset);
  }
}

Task<void> raise_set_raise(Client* client, Store* store, Shared* shared) {
  co_await client->qp->enqueue(raise(*store, 0));
  shared->flag = 1;
  co_await client->qp->enqueue(raise(*store, 1));
  shared->flag = 2;
}

TEST(BehindACrash, EachPostIsReachedOrNot) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(raise_set_raise, searching(preset)),
              (std::set<End>{{0, 0, 0, 1}, {1, 0, 0, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}, {1, 1, 2, 0}, {1, 1, 2, 1}}))
        << name(preset);
  }
}

TEST(BehindACrash, WhatTheDeadDoIsSeen) {
  const PlantedFault planted(Mutation::the_dead_go_on);
  EXPECT_TRUE(is_broken(with_a_witness(raise_and_set,
                                       [](const Cast& cast) {
                                         cast.world.require(cast.shared.flag <= static_cast<int>(cast.store.value(0)),
                                                            "the flag is set, and nothing was posted");
                                       }),
                        searching(), Kind::assertion));
}

// A chain is posted request by request.
Task<void> raise_both_and_set(Client* client, Store* store, Shared* shared) {
  co_await client->qp->submit(raise(*store, 0), raise(*store, 1));
  shared->flag = 1;
}

TEST(BehindACrash, AChainMayBePostedInPart) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(raise_both_and_set, searching(preset)),
              (std::set<End>{{0, 0, 0, 1}, {1, 0, 0, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}, {1, 1, 1, 1}}))
        << name(preset);
  }
}

// Its other task is ready, too, when the first one posts.
Task<void> drain_and_raise(Client* client, Store* store, std::uint64_t sequence) {
  co_await client->qp->reach(sequence);
  co_await client->qp->enqueue(raise(*store, 1));
}
Task<void> drain_and_set(Client* client, std::uint64_t sequence, Shared* shared) {
  co_await client->qp->reach(sequence);
  shared->flag = 1;
}
Task<void> raise_and_spawn_two(Client* client, Store* store, Shared* shared) {
  co_await client->qp->enqueue(raise(*store, 0));
  const std::uint64_t sequence = client->qp->posted_so_far();
  client->qp->reactor().spawn(drain_and_raise(client, store, sequence));
  client->qp->reactor().spawn(drain_and_set(client, sequence, shared));
}

TEST(BehindACrash, AnotherTaskOfTheClientDoesNothing) {
  for (const Preset preset : {Preset::strict, Preset::observed}) {
    EXPECT_TRUE(is_safe(with_a_witness(raise_and_spawn_two,
                                       [](const Cast& cast) {
                                         cast.world.require(
                                             cast.shared.flag <= static_cast<int>(cast.store.value(1)),
                                             "the second task went on, and the first had posted nothing");
                                       }),
                        searching(preset)))
        << name(preset);
  }
}

// Its code runs on behind QueuePair::post().
Task<void> post_and_set(Client* client, Store* store, Shared* shared) {
  const std::array chain = {raise(*store, 0)};
  client->world->require(client->qp->post(chain), "there is no room");
  shared->flag = 1;
  co_await client->qp->drain();
}
Task<void> post_and_log(Client* client, Store* store, Shared* shared) {
  const std::array chain = {raise(*store, 0)};
  client->world->require(client->qp->post(chain), "there is no room");
  shared->log.assign(20, 1);
  co_await client->qp->drain();
}
Task<void> post_twice(Client* client, Store* store, Shared* shared) {
  const std::array first = {raise(*store, 0)};
  const std::array second = {raise(*store, 1)};
  client->world->require(client->qp->post(first), "there is no room");
  client->world->require(client->qp->post(second), "there is no room");
  co_await client->qp->drain();
  shared->flag = 1;
}

TEST(BehindACrash, WhereATaskCannotWaitAChangeIsNoEnd) {
  for (const auto program : {post_and_set, post_and_log}) {
    const Verdict verdict =
        check(with_a_witness(program,
                             [](const Cast& cast) {
                               cast.world.require(
                                   (cast.shared.flag == 0 && cast.shared.log.empty()) || cast.store.value(0) == 1,
                                   "the flag is set, and nothing was posted");
                             }),
              searching());
    EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
    EXPECT_THAT(to_text(verdict), HasSubstr("mortal, which may crash at a post, and changes behind it"));
    EXPECT_FALSE(verdict.only_loops_bounded);
  }
  EXPECT_EQ(ends_of(post_twice, searching()),
            (std::set<End>{{0, 0, 0, 1}, {1, 0, 0, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}, {1, 1, 1, 1}}));
}

// The end of a queue pair is seen at its other end.
Task<void> post_and_disconnect(Client* client, Store* store, std::unique_ptr<fabric::QueuePair> other) {
  const std::array chain = {raise(*store, 0)};
  client->world->require(client->qp->post(chain), "there is no room");
  other.reset();
  co_await client->qp->drain();
}

TEST(BehindACrash, WhereATaskCannotWaitTheEndOfAQueuePairIsNone) {
  const Program program = [](World& world) {
    auto& cast = world.make<Cast>(world);
    world.spawn(*cast.mortal.node, post_and_disconnect(&cast.mortal, &cast.store,
                                                       world.connect(*cast.mortal.node, *cast.store.node, 0, {})));
  };
  const Verdict verdict = check(program, searching());
  EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
  EXPECT_THAT(to_text(verdict), HasSubstr("mortal, which may crash at a post, and changes behind it"));
}

// An object is changed before and behind a post, in a step that a completion begins.
Task<void> wait_set_raise_set(Client* client, Store* store, Shared* shared) {
  co_await client->qp->submit(raise(*store, 0));
  shared->flag = 1;
  co_await client->qp->enqueue(raise(*store, 1));
  shared->flag = 2;
  co_await client->qp->reactor().sleep(fabric::from_ns(10));
  shared->flag = 3;
}

TEST(BehindACrash, BeforeAndBehindAPostAreDifferentPlaces) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(wait_set_raise_set, searching(preset)),
              (std::set<End>{
                  {0, 0, 0, 1}, {1, 0, 0, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 3, 1}, {1, 1, 3, 0}}))
        << name(preset);
  }
}

// What was thrown, and what a destructor sets, would come behind the crash.
struct Guarded {
  explicit Guarded(Shared* the_shared) : shared(the_shared) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { shared->flag = 2; }
  Shared* shared;
};
Task<void> raise_with_a_guard(Client* client, Store* store, Shared* shared) {
  const Guarded guarded(shared);
  shared->flag = 1;
  try {
    co_await client->qp->enqueue(raise(*store, 0));
    co_await client->qp->submit(raise(*store, 1));
  } catch (...) {
    shared->flag = 3;
  }
}

TEST(BehindACrash, NoDestructorRunsAndNothingIsThrown) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(raise_with_a_guard, searching(preset)),
              (std::set<End>{{0, 0, 0, 1}, {0, 0, 1, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}, {1, 1, 2, 0}, {1, 1, 2, 1}}))
        << name(preset);
  }
}

// A loop that says too late where it begins, and counts in an object that both see.
Task<void> count_attempts(Client* client, Store* store, Shared* shared) {
  fabric::Reactor& reactor = client->qp->reactor();
  fabric::Reactor::LoopId loop = fabric::Reactor::kNoLoop;
  while (shared->flag < 2) {
    co_await client->qp->enqueue(raise(*store, 0));
    ++shared->flag;
    loop = loop == fabric::Reactor::kNoLoop ? reactor.begin_retries() : loop;
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}

TEST(BehindACrash, ALoopThatIsDeclaredLateCountsWhatWasPosted) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(count_attempts, searching(preset)),
              (std::set<End>{{0, 0, 0, 1}, {1, 0, 0, 1}, {1, 0, 1, 1}, {2, 0, 1, 1}, {2, 0, 2, 1}, {2, 0, 2, 0}}))
        << name(preset);
  }
}

// What it writes to its own memory is not there either: neither for a judge nor for its NIC, which fetches from it.
Task<void> post_and_write(Client* client, Store* store, Shared* /*shared*/) {
  client->set(1, 7);
  client->set(2, 7);
  const std::array first = {fabric::write(client->word(1), store->word(0))};
  const std::array second = {raise(*store, 1)};
  client->world->require(client->qp->post(first), "there is no room");
  client->world->require(client->qp->post(second), "there is no room");
  client->set(2, 8);
  co_await client->qp->drain();
}

TEST(BehindACrash, ItsOwnMemoryStaysAsItWas) {
  for (const Preset preset : kPresets) {
    const Program program = with_a_witness(post_and_write, [](const Cast& cast) {
      cast.world.require(cast.mortal.value(2) != 8 || cast.store.value(1) == 1,
                         "it has gone on, and its second request was not posted");
    });
    // It may crash behind its second post, and this cannot be explored.
    EXPECT_EQ(check(program, searching(preset)).outcome, Outcome::bounded) << name(preset);
  }
}

// No destructor of the dead runs; one that judges has nothing to say.
struct Inside {
  explicit Inside(World* the_world) : world(the_world) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { world->require(has_left, "it has left without saying so"); }
  World* world;
  bool has_left = false;
};
Task<void> enter_and_leave(Client* client, Store* store, Shared* /*shared*/) {
  Inside inside(client->world);
  co_await client->qp->submit(raise(*store, 0));
  inside.has_left = true;
}

TEST(BehindACrash, NoDestructorOfTheDeadJudges) {
  EXPECT_TRUE(is_safe(with_a_witness(enter_and_leave, [](const Cast& /*cast*/) {}), searching()));
}

// ---- Where nobody but a judge sees that it has crashed.

// An object of which no other client knows.
struct Diary {
  std::size_t page = 0;
  std::vector<int> pages;
};

Task<void> write_asleep(Client* client, Store* /*store*/, Diary* diary) {
  diary->page = 1;
  co_await client->qp->reactor().sleep(fabric::from_ns(10));
  diary->page = 0;
}
Task<void> write_and_try_again(Client* client, Store* /*store*/, Diary* diary) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  while (diary->page < 2) {
    ++diary->page;
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
  diary->page = 0;
}
Task<void> write_behind_a_post(Client* client, Store* store, Diary* diary) {
  co_await client->qp->enqueue(raise(*store, 0));
  diary->page = 1;
}
Task<void> add_a_page_behind_a_post(Client* client, Store* store, Diary* diary) {
  co_await client->qp->enqueue(raise(*store, 0));
  diary->pages.assign(20, 1);
}
Task<void> write_behind_a_post_in_line(Client* client, Store* store, Diary* diary) {
  const std::array chain = {raise(*store, 0)};
  client->world->require(client->qp->post(chain), "there is no room");
  diary->page = 1;
  co_await client->qp->drain();
}

struct Author {
  explicit Author(World& world)
      : store(world.make<Store>(world)),
        mortal(world.make<Client>(world, store, "mortal")),
        diary(world.make<Diary>()) {
    world.may_crash(*mortal.node);
  }
  Store& store;
  Client& mortal;
  Diary& diary;
};

template <class Judge>
Program alone(Task<void> (*mortal)(Client*, Store*, Diary*), Judge judge) {
  return [mortal, judge](World& world) {
    auto& author = world.make<Author>(world);
    world.spawn(*author.mortal.node, mortal(&author.mortal, &author.store, &author.diary));
    world.at_end([&author, &world, judge](const Order& /*order*/) {
      world.require(judge(author), "that is not what the diary should say");
    });
  };
}

TEST(CrashesThatOnlyJudgesSee, MayComeInASleepAndBetweenAttempts) {
  for (const auto mortal : {write_asleep, write_and_try_again}) {
    EXPECT_TRUE(is_broken(alone(mortal, [](const Author& author) { return author.diary.page != 1; }), searching(),
                          Kind::assertion));
    EXPECT_TRUE(is_safe(alone(mortal, [](const Author& author) { return author.diary.page != 3; }), searching()));
  }
}

TEST(CrashesThatOnlyJudgesSee, MayComeBetweenAPostAndAChange) {
  for (const auto mortal : {write_behind_a_post, add_a_page_behind_a_post}) {
    EXPECT_TRUE(is_broken(alone(mortal,
                                [](const Author& author) {
                                  return author.store.value(0) == 0 ||
                                         author.diary.page + author.diary.pages.size() != 0;
                                }),
                          searching(), Kind::assertion));
    EXPECT_TRUE(is_safe(alone(mortal,
                              [](const Author& author) {
                                return author.store.value(0) != 0 || author.diary.page + author.diary.pages.size() == 0;
                              }),
                        searching()));
  }
}

Task<void> write_own_memory_behind_a_post(Client* client, Store* store, Diary* /*diary*/) {
  co_await client->qp->enqueue(raise(*store, 0));
  client->set(2, 8);
  co_await client->qp->drain();
}

TEST(CrashesThatOnlyJudgesSee, MayComeBetweenAPostAndAStoreToTheClientsMemory) {
  EXPECT_TRUE(
      is_broken(alone(write_own_memory_behind_a_post,
                      [](const Author& author) { return author.store.value(0) == 0 || author.mortal.value(2) == 8; }),
                searching(), Kind::assertion));
}

TEST(CrashesThatOnlyJudgesSee, WhereATaskCannotWaitAreNotCalledSafe) {
  const Verdict verdict =
      check(alone(write_behind_a_post_in_line,
                  [](const Author& author) { return author.store.value(0) == 0 || author.diary.page == 1; }),
            searching());
  EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
  EXPECT_THAT(to_text(verdict), HasSubstr("mortal, which may crash at a post, and changes behind it"));
}

// ---- A chain that waits for room.

struct Narrow {
  Narrow(World& world, Client& client, Store& store)
      : qp(world.connect(*client.node, *store.node, 0, {.send_queue_depth = 2})) {}
  std::unique_ptr<fabric::QueuePair> qp;
};

Task<void> wait_for_room(Narrow* narrow, Store* store) {
  co_await narrow->qp->enqueue(raise(*store, 0));
  co_await narrow->qp->enqueue(raise(*store, 0));
  co_await narrow->qp->submit(raise(*store, 1), raise(*store, 2));
}

TEST(CrashesInLine, AChainThatWaitsForRoomMayBePostedInPart) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    auto& narrow = world.make<Narrow>(world, client, store);
    world.may_crash(*client.node);
    world.spawn(*client.node, wait_for_room(&narrow, &store));
    world.at_end(
        [&](const Order& /*order*/) { world.require(store.value(1) == store.value(2), "half of a chain was posted"); });
  };
  for (const Preset preset : kPresets) {
    const Verdict verdict = check(program, searching(preset));
    ASSERT_EQ(verdict.outcome, Outcome::broken) << name(preset);
    EXPECT_EQ(replay(program, searching(preset), verdict.violation->choices).outcome, Outcome::broken);
    const PlantedFault planted(Mutation::crashes_after_all_posts);
    EXPECT_TRUE(is_safe(program, searching(preset))) << name(preset);
  }
}

Task<void> wait_for_room_alone(Narrow* narrow, Store* store, Shared* shared) {
  co_await narrow->qp->enqueue(raise(*store, 0));
  co_await narrow->qp->enqueue(raise(*store, 0));
  co_await narrow->qp->enqueue(raise(*store, 1));
  shared->flag = 1;
}

TEST(CrashesInLine, BehindATaskThatWaitedForRoomNothingHappens) {
  const Program program = [](World& world) {
    auto& cast = world.make<Cast>(world);
    auto& narrow = world.make<Narrow>(world, cast.mortal, cast.store);
    world.spawn(*cast.mortal.node, wait_for_room_alone(&narrow, &cast.store, &cast.shared));
    world.spawn(*cast.witness.node, look_twice(&cast.witness, &cast.store, &cast.shared));
    world.at_end([&](const Order& /*order*/) {
      world.require(cast.shared.flag <= static_cast<int>(cast.store.value(1)),
                    "the flag is set, and nothing was posted");
    });
  };
  for (const Preset preset : {Preset::strict, Preset::observed}) {
    EXPECT_TRUE(is_safe(program, searching(preset))) << name(preset);
  }
}

// ---- Before the first step.

Task<void> set_and_raise(Client* client, Store* store, Shared* shared) {
  shared->flag = 1;
  co_await client->qp->fetch_add(store->word(0), 1);
}

TEST(NeverBegins, AClientThatCrashesBeforeItsFirstStepHasDoneNothing) {
  for (const Preset preset : kPresets) {
    EXPECT_EQ(ends_of(set_and_raise, searching(preset)),
              (std::set<End>{{0, 0, 0, 1}, {0, 0, 1, 1}, {1, 0, 1, 0}, {1, 0, 1, 1}}))
        << name(preset);
  }
}

TEST(NeverBegins, ItsTraceSaysSo) {
  const Program program = with_a_witness(
      set_and_raise, [](const Cast& cast) { cast.world.require(cast.shared.flag == 1, "nobody has set the flag"); });
  const Verdict verdict = check(program, searching());
  ASSERT_EQ(verdict.outcome, Outcome::broken);
  EXPECT_THAT(to_text(verdict), HasSubstr("crashes before its first step"));
  EXPECT_EQ(replay(program, searching(), verdict.violation->choices).outcome, Outcome::broken);
  const PlantedFault planted(Mutation::clients_begin);
  EXPECT_TRUE(is_safe(program, searching()));
}

TEST(NeverBegins, SoDoObjectsOfJudges) {
  const Program program = [](World& world) {
    auto& cast = world.make<Cast>(world);
    auto& judged = world.make<Shared>();
    world.judges_with(&judged);
    world.spawn(*cast.mortal.node, set_and_raise(&cast.mortal, &cast.store, &judged));
    world.at_end([&](const Order& /*order*/) { world.require(judged.flag == 1, "it has not begun"); });
  };
  EXPECT_TRUE(is_broken(program, searching(), Kind::assertion));
}

// With two tasks it begins with either.
TEST(NeverBegins, ItBeginsWithAnyTask) {
  std::set<std::array<std::uint64_t, 3>> ends;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.may_crash(*client.node);
    for (const std::uint64_t line : {0U, 1U}) {
      world.spawn(*client.node, [](Client* own, fabric::RemoteSpan word) -> Task<void> {
        co_await own->qp->fetch_add(word, 1);
      }(&client, store.word(line)));
    }
    world.at_end([&](const Order& /*order*/) {
      ends.insert({store.value(0), store.value(1), world.crashed() ? 1U : 0U});
    });
  };
  EXPECT_TRUE(is_safe(program, searching()));
  EXPECT_EQ(ends, (std::set<std::array<std::uint64_t, 3>>{{0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}}));
}

// A message is in its buffer although the receiver never begins; one without a buffer is not.
Task<void> send_one(std::unique_ptr<fabric::QueuePair>* qp, fabric::LocalSpan from, Shared* shared) {
  co_await (*qp)->submit(fabric::send(from));
  shared->flag = 1;
}
Task<void> receive_one(std::unique_ptr<fabric::QueuePair>* qp, fabric::LocalSpan into, bool posts) {
  if (posts) {
    static_cast<void>((*qp)->post_receive(into));
  }
  static_cast<void>(co_await (*qp)->receive());
}

TEST(NeverBegins, AReceiverThatPostsItsBufferNeedNot) {
  for (const bool posts : {false, true}) {
    for (const Preset preset : kPresets) {
      std::set<std::array<int, 2>> ends;
      const Program program = [&](World& world) {
        fabric::Node& receiver = world.add_node("receiver");
        fabric::Node& sender = world.add_node("sender");
        auto& shared = world.make<Shared>();
        auto& here = world.make<std::unique_ptr<fabric::QueuePair>>();
        auto& there = world.make<std::unique_ptr<fabric::QueuePair>>();
        std::tie(here, there) = receiver.connect_pair(sender);
        const auto& inbox = world.make<fabric::MemoryRegion>(receiver.allocate(64, fabric::Access::local_write));
        const auto& outbox = world.make<fabric::MemoryRegion>(sender.allocate(64, fabric::Access::local_write));
        if (!posts) {
          static_cast<void>(here->post_receive(inbox.local(0, 8)));
        }
        world.may_crash(receiver);
        world.spawn(receiver, receive_one(&here, inbox.local(0, 8), posts));
        world.spawn(sender, send_one(&there, outbox.local(0, 8), &shared));
        world.at_end([&](const Order& /*order*/) { ends.insert({shared.flag, world.crashed() ? 1 : 0}); });
      };
      EXPECT_TRUE(is_safe(program, searching(preset))) << name(preset);
      const std::set<std::array<int, 2>> always = {{1, 0}, {1, 1}};
      const std::set<std::array<int, 2>> perhaps = {{0, 1}, {1, 0}, {1, 1}};
      EXPECT_EQ(ends, posts ? perhaps : always) << name(preset);
    }
  }
}

// A crash comes between two receive buffers, or between one and a change, as between two requests.
enum class Beside : std::uint8_t { another_buffer, a_change_before, a_change_behind };

Task<void> receive_beside(std::unique_ptr<fabric::QueuePair>* qp, fabric::MemoryRegion* inbox, Shared* own,
                          Beside beside) {
  own->flag = beside == Beside::a_change_before ? 1 : 0;
  static_cast<void>((*qp)->post_receive(inbox->local(0, 8)));
  if (beside == Beside::another_buffer) {
    static_cast<void>((*qp)->post_receive(inbox->local(8, 8)));
  }
  own->flag = beside == Beside::a_change_behind ? 1 : own->flag;
  static_cast<void>(co_await (*qp)->receive());
}
Task<void> send_two(std::unique_ptr<fabric::QueuePair>* qp, fabric::LocalSpan from, Shared* shared) {
  co_await (*qp)->submit(fabric::send(from));
  shared->flag = 1;
  co_await (*qp)->submit(fabric::send(from));
  shared->flag = 2;
}

TEST(BehindACrash, AReceiveBufferMayBeTheLast) {
  using Received = std::set<std::array<int, 3>>;  // how many messages were sent, the receiver's flag, its crash
  const auto received = [](Beside beside, Outcome outcome) {
    Received ends;
    const Program program = [&](World& world) {
      fabric::Node& receiver = world.add_node("receiver");
      fabric::Node& sender = world.add_node("sender");
      auto& shared = world.make<Shared>();
      auto& own = world.make<Shared>();
      auto& here = world.make<std::unique_ptr<fabric::QueuePair>>();
      auto& there = world.make<std::unique_ptr<fabric::QueuePair>>();
      std::tie(here, there) = receiver.connect_pair(sender);
      auto& inbox = world.make<fabric::MemoryRegion>(receiver.allocate(64, fabric::Access::local_write));
      const auto& outbox = world.make<fabric::MemoryRegion>(sender.allocate(64, fabric::Access::local_write));
      world.may_crash(receiver);
      world.spawn(receiver, receive_beside(&here, &inbox, &own, beside));
      world.spawn(sender, beside == Beside::another_buffer ? send_two(&there, outbox.local(0, 8), &shared)
                                                           : send_one(&there, outbox.local(0, 8), &shared));
      world.at_end([&](const Order& /*order*/) { ends.insert({shared.flag, own.flag, world.crashed() ? 1 : 0}); });
    };
    const Verdict verdict = check(program, searching());
    EXPECT_EQ(verdict.outcome, outcome) << to_text(verdict);
    return ends;
  };
  EXPECT_EQ(received(Beside::another_buffer, Outcome::safe), (Received{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {2, 0, 0}}));
  EXPECT_EQ(received(Beside::a_change_before, Outcome::safe), (Received{{0, 0, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 0}}));
  EXPECT_FALSE(received(Beside::a_change_behind, Outcome::bounded).empty());
}

// Nobody holds the latch of a client that has never begun; and one that holds it is waited for.
Task<void> take_and_give_back(Client* client, Store* store, Shared* /*shared*/) {
  co_await client->qp->compare_swap(store->word(0), 0, 1);
  co_await client->qp->compare_swap(store->word(0), 1, 0);
}
Task<void> take_at_last(Client* client, Store* store) { return take_latch(client, store, 2); }
Task<void> wait_until_it_begins(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(1));
    if (client->value(0) == 1) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}
Task<void> raise_one(Client* client, Store* store, Shared* /*shared*/) {
  co_await client->qp->submit(raise(*store, 1));
}

Program with_a_waiter(Task<void> (*mortal)(Client*, Store*, Shared*), Task<void> (*waiter)(Client*, Store*)) {
  return [mortal, waiter](World& world) {
    auto& cast = world.make<Cast>(world);
    world.require_liveness_after_crash();
    world.spawn(*cast.mortal.node, mortal(&cast.mortal, &cast.store, &cast.shared));
    world.spawn(*cast.witness.node, waiter(&cast.witness, &cast.store));
  };
}

TEST(NeverBegins, WhoWaitsForItWaitsForEver) {
  for (const Preset preset : kPresets) {
    const Verdict of_latch = check(with_a_waiter(take_and_give_back, take_at_last), searching(preset));
    ASSERT_EQ(of_latch.outcome, Outcome::broken) << name(preset);
    EXPECT_EQ(of_latch.violation->kind, Kind::deadlock) << "it dies with the latch";
    const Verdict of_flag = check(with_a_waiter(raise_one, wait_until_it_begins), searching(preset));
    ASSERT_EQ(of_flag.outcome, Outcome::broken) << name(preset);
    EXPECT_EQ(of_flag.violation->kind, Kind::deadlock);
  }
}

TEST(NeverBegins, RandomExecutionsFindIt) {
  const Program program = with_a_witness(
      set_and_raise, [](const Cast& cast) { cast.world.require(cast.shared.flag == 1, "nobody has set the flag"); });
  for (const Mode mode : {Mode::random, Mode::pct}) {
    Options options = searching();
    options.mode = mode;
    options.max_executions = 2000;
    EXPECT_TRUE(is_broken(program, options, Kind::assertion)) << static_cast<int>(mode);
  }
}

TEST(NeverBegins, OnlyWhereTheClientMayCrashAndHasNotBegun) {
  const Program program = with_a_witness(set_and_raise, [](const Cast& /*cast*/) {});
  for (const std::vector<std::string>& choices :
       {std::vector<std::string>{"client:2:0:0:never-begins"},                    // the witness may not crash
        std::vector<std::string>{"client:1:0:0", "complete:0:0:0:never-begins"},  // no first step
        std::vector<std::string>{"client:1:0:0:never-begins", "client:1:0:0"}}) {
    EXPECT_THAT(message_of([&] { static_cast<void>(replay(program, searching(), choices)); }),
                HasSubstr("not possible"));
  }
}

}  // namespace
}  // namespace sidelatch::explore
