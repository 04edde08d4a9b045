// Clients that learn of each other through an object of the process which one changes and another only looks at. And
// looks behind a post, in the same step: what others do in between cannot be explored, and the verdict says so.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checker/explore/mutation.h"

#include "checking.h"
#include "clients.h"
#include "either_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using ::testing::HasSubstr;

struct PlantedFault {
  explicit PlantedFault(Mutation mutation) { planted_mutation = mutation; }
  PlantedFault(const PlantedFault&) = delete;
  PlantedFault& operator=(const PlantedFault&) = delete;
  ~PlantedFault() { planted_mutation = Mutation::none; }
};

struct Partners {
  explicit Partners(World& world)
      : store(world.make<Store>(world)),
        first(world.make<Client>(world, store, "first")),
        second(world.make<Client>(world, store, "second")) {}
  Store& store;
  Client& first;
  Client& second;
};

Task<void> add_to(Client* client, Store* store, std::uint64_t line) {
  co_await client->qp->fetch_add(store->word(line), 1);
}

// ---- One changes, the other looks.

struct Shared {
  int flag = 0;
  std::map<int, int> values;
  std::vector<int*> published;
  std::array<int, 4> results{};
};

Task<void> set_the_flag(Client* client, Store* store, Shared* shared) {
  co_await add_to(client, store, 0);
  shared->flag = 1;
  co_await add_to(client, store, 0);
}

// Either may come first.
Task<void> look_at_the_flag(Client* client, Store* store, Shared* shared, int wanted) {
  co_await add_to(client, store, 1);
  client->world->require(shared->flag == wanted, "the flag is another one");
  co_await add_to(client, store, 1);
}

template <int wanted>
void flag(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, set_the_flag(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, look_at_the_flag(&pair.second, &pair.store, &shared, wanted));
}

// What the other client changes was made while it ran.
Task<void> change_a_value(Client* client, Store* store, Shared* shared) {
  shared->values[1] = 1;
  co_await add_to(client, store, 0);
  shared->values[1] = 2;
  co_await add_to(client, store, 0);
  shared->values[1] = 1;
}

Task<void> look_at_a_value(Client* client, Store* store, Shared* shared) {
  co_await add_to(client, store, 1);
  const auto found = shared->values.find(1);
  client->world->require(found == shared->values.end() || found->second != 2, "2 is seen");
}

void value_in_a_map(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, change_a_value(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, look_at_a_value(&pair.second, &pair.store, &shared));
}

// What the other client changes was its own at first.
Task<void> publish(Client* client, Store* store, Shared* shared, int* own) {
  shared->published.push_back(own);
  co_await add_to(client, store, 0);
  *own = 1;
  co_await add_to(client, store, 0);
  *own = 0;
}

Task<void> look_at_what_is_published(Client* client, Store* store, Shared* shared) {
  co_await add_to(client, store, 1);
  client->world->require(shared->published.empty() || *shared->published.front() == 0, "1 is seen");
}

void published(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  auto& own = world.make<int>();
  world.spawn(*pair.first.node, publish(&pair.first, &pair.store, &shared, &own));
  world.spawn(*pair.second.node, look_at_what_is_published(&pair.second, &pair.store, &shared));
}

// It is large.
struct Large {
  std::array<std::uint64_t, 200'000> words{};
};

Task<void> change_the_last_word(Client* client, Store* store, Large* large) {
  co_await add_to(client, store, 0);
  large->words.back() = 1;
}

Task<void> look_at_the_last_word(Client* client, Store* store, Large* large) {
  co_await add_to(client, store, 1);
  client->world->require(large->words.back() == 1, "the last word is not seen");
}

void large_object(World& world) {
  const Partners pair(world);
  auto& large = world.make<Large>();
  world.spawn(*pair.first.node, change_the_last_word(&pair.first, &pair.store, &large));
  world.spawn(*pair.second.node, look_at_the_last_word(&pair.second, &pair.store, &large));
}

// The other one changes it between two looks, while the client sleeps.
Task<void> look_before_and_after_sleep(Client* client, Store* store, Shared* shared) {
  const int before = shared->flag;
  co_await client->qp->reactor().sleep(fabric::from_ns(10));
  client->world->require(before == shared->flag, "it changed in its sleep");
  co_await add_to(client, store, 1);
}

void change_in_its_sleep(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, set_the_flag(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, look_before_and_after_sleep(&pair.second, &pair.store, &shared));
}

// The client waits for it in a loop, and is told too early.
Task<void> wait_for_the_flag(Client* client, Store* store, Shared* shared) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  while (shared->flag == 0) {
    co_await reactor.retry(loop, fabric::from_ns(10));
  }
  co_await client->qp->read(client->word(0), store->word(0));
  client->world->require(client->value(0) == 2, "it was told early");
}

void told_early(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, set_the_flag(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, wait_for_the_flag(&pair.second, &pair.store, &shared));
}

Task<void> set_the_flag_last(Client* client, Store* store, Shared* shared) {
  co_await add_to(client, store, 0);
  co_await add_to(client, store, 0);
  shared->flag = 1;
}

void told_in_time(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, set_the_flag_last(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, wait_for_the_flag(&pair.second, &pair.store, &shared));
}

// Each has a place of its own.
Task<void> note_a_result(Client* client, Store* store, Shared* shared, std::size_t place) {
  co_await add_to(client, store, place);
  shared->results.at(place) += 1;
  co_await add_to(client, store, place);
  shared->results.at(place) += 1;
}

void results(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, note_a_result(&pair.first, &pair.store, &shared, 0));
  world.spawn(*pair.second.node, note_a_result(&pair.second, &pair.store, &shared, 1));
  world.at_end([&world, &shared](const Order&) {
    world.require(shared.results[0] == 2 && shared.results[1] == 2, "a result is lost");
  });
}

struct Sharing {
  const char* name;
  void (*program)(World&);
  Outcome truth;
  bool needs_order = false;  // the first execution that is run does not show it
  friend void PrintTo(const Sharing& sharing, std::ostream* out) { *out << sharing.name; }
};

class SharedObjects : public ::testing::TestWithParam<Sharing> {};

TEST_P(SharedObjects, AreDecidedWithoutChance) {
  for (const Mode mode : kEitherSearch) {
    const Verdict verdict = check(GetParam().program, searching(mode));
    EXPECT_EQ(verdict.outcome, GetParam().truth) << static_cast<int>(mode) << " " << to_text(verdict);
    if (verdict.violation) {
      const Verdict again = replay(GetParam().program, searching(mode), verdict.violation->choices);
      ASSERT_TRUE(again.violation);
      EXPECT_EQ(again.violation->what, verdict.violation->what);
    }
  }
  if (GetParam().needs_order) {
    const PlantedFault planted(Mutation::objects_are_no_race);
    EXPECT_EQ(check(GetParam().program, searching(Mode::exhaustive)).outcome, Outcome::safe) << "nothing shows it";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, SharedObjects,
                         ::testing::Values(Sharing{"FlagIsNotSeen", flag<1>, Outcome::broken, true},
                                           Sharing{"FlagIsSeen", flag<0>, Outcome::broken},
                                           Sharing{"ValueInAMap", value_in_a_map, Outcome::broken, true},
                                           Sharing{"Published", published, Outcome::broken, true},
                                           Sharing{"LargeObject", large_object, Outcome::broken, true},
                                           Sharing{"ChangeInItsSleep", change_in_its_sleep, Outcome::broken, true},
                                           Sharing{"ToldEarly", told_early, Outcome::broken},
                                           Sharing{"ToldInTime", told_in_time, Outcome::safe},
                                           Sharing{"Results", results, Outcome::safe}),
                         [](const auto& sharing) { return std::string(sharing.param.name); });

// ---- Looks behind a post.

// An owner of memory that others reach. It is told by one request to write to it.
struct Owner {
  Owner(World& the_world, Store& store)
      : world(&the_world),
        node(&the_world.add_node("owner")),
        memory(node->allocate(64, fabric::Access::remote_all)),
        qp(the_world.connect(*node, *store.node, 0, {})) {}
  [[nodiscard]] std::uint64_t value() const { return word_in(memory.bytes()); }
  World* world;
  fabric::Node* node;
  fabric::MemoryRegion memory;
  std::unique_ptr<fabric::QueuePair> qp;
};

Task<void> answer(Client* client, Store* store, Owner* owner, fabric::QueuePair* to_owner) {
  co_await client->qp->read(client->word(0), store->word(0));
  if (client->value(0) == 1) {
    co_await to_owner->write(client->word(0), owner->memory.remote(0, 8));
  }
}

enum class Between : std::uint8_t { nothing, yield, look_before };

Task<void> post_and_look(Owner* owner, Store* store, Between between) {
  if (between == Between::look_before) {
    owner->world->require(owner->value() == 0, "an answer without a question");
  }
  co_await owner->qp->enqueue(fabric::fetch_add(store->word(0), 1));
  if (between == Between::yield) {
    co_await owner->world->yield(*owner->node);
  }
  if (between != Between::look_before) {
    owner->world->require(owner->value() == 0, "there is an answer");
  }
  co_await owner->qp->drain();
}

Program question_and_answer(Between between) {
  return [between](World& world) {
    auto& store = world.make<Store>(world);
    auto& owner = world.make<Owner>(world, store);
    auto& client = world.make<Client>(world, store, "client");
    auto& to_owner = world.make<std::unique_ptr<fabric::QueuePair>>(client.node->connect(*owner.node));
    world.spawn(*owner.node, post_and_look(&owner, &store, between));
    world.spawn(*client.node, answer(&client, &store, &owner, to_owner.get()));
  };
}

TEST(LooksBehindAPost, AreDecided) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(question_and_answer(Between::nothing), searching(mode), Kind::assertion));
    EXPECT_TRUE(is_broken(question_and_answer(Between::yield), searching(mode), Kind::assertion));
    EXPECT_TRUE(is_safe(question_and_answer(Between::look_before), searching(mode)));
    const PlantedFault planted(Mutation::looks_after_posts_are_unseen);
    EXPECT_EQ(check(question_and_answer(Between::nothing), searching(mode)).outcome, Outcome::safe);
  }
}

TEST(LooksBehindAPost, AreFoundAgain) {
  for (const Mode mode : kEitherSearch) {
    const Verdict verdict = check(question_and_answer(Between::nothing), searching(mode));
    ASSERT_TRUE(verdict.violation);
    const Verdict again = replay(question_and_answer(Between::nothing), searching(mode), verdict.violation->choices);
    ASSERT_TRUE(again.violation);
    EXPECT_EQ(again.violation->what, verdict.violation->what);
  }
}

// QueuePair::post() has no awaiter: nothing can come between.
Task<void> post_at_once_and_look(Owner* owner, Store* store) {
  const fabric::WorkRequest question = fabric::fetch_add(store->word(0), 1);
  owner->world->require(owner->qp->post(std::span(&question, 1)), "there is no room");
  owner->world->require(owner->value() == 0, "there is an answer");
  co_await owner->qp->drain();
}

void question_posted_at_once(World& world) {
  auto& store = world.make<Store>(world);
  auto& owner = world.make<Owner>(world, store);
  auto& client = world.make<Client>(world, store, "client");
  auto& to_owner = world.make<std::unique_ptr<fabric::QueuePair>>(client.node->connect(*owner.node));
  world.spawn(*owner.node, post_at_once_and_look(&owner, &store));
  world.spawn(*client.node, answer(&client, &store, &owner, to_owner.get()));
}

TEST(LooksBehindAPost, ThatCannotWaitAreNotCalledSafe) {
  for (const Mode mode : kEitherSearch) {
    const Verdict verdict = check(question_posted_at_once, searching(mode));
    EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
    EXPECT_THAT(to_text(verdict), HasSubstr("owner, which looks at memory that others reach behind a post"));
    EXPECT_FALSE(verdict.only_loops_bounded);
  }
}

// ---- At a buffer of its own, which a request fills.

enum class Filling : std::uint8_t { of_this_step, of_an_earlier_step, inlined, by_a_sibling, of_a_spawned_task };

Task<void> read_and_wait(Client* client, Store* store) { co_await client->qp->read(client->word(0), store->word(0)); }

Task<void> read_and_look(Client* client, Store* store, Filling filling) {
  if (filling == Filling::of_a_spawned_task) {
    client->qp->reactor().spawn(read_and_wait(client, store));
  } else {
    co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  }
  if (filling == Filling::of_an_earlier_step) {
    co_await client->world->yield(*client->node);
    client->world->require(client->value(0) == 0 || client->value(0) == 1, "another value");
    co_await client->qp->enqueue(fabric::fetch_add(store->word(1), 1));  // whoever sees it changes word 2
  }
  if (filling == Filling::inlined) {
    co_await client->qp->enqueue(fabric::write(client->word(0), store->word(2)).with_inline());
  } else {
    client->world->require(client->value(0) == 0, "the bytes are there");
  }
  co_await client->qp->drain();
}

Task<void> set_word(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(0));
}

// Once the first client's request is there.
Task<void> set_word_when_asked(Client* client, Store* store) {
  co_await client->qp->read(client->word(1), store->word(1));
  if (client->value(1) == 1) {
    co_await set_word(client, store);
  }
}

template <Filling filling>
void filled_buffer(World& world) {
  const Partners pair(world);
  world.spawn(*pair.first.node, read_and_look(&pair.first, &pair.store, filling));
  world.spawn(*pair.second.node, filling == Filling::of_an_earlier_step ? set_word_when_asked(&pair.second, &pair.store)
                                                                        : set_word(&pair.second, &pair.store));
  if (filling == Filling::inlined) {
    world.at_end([&world, store = &pair.store](const Order&) {
      world.require(store->value(2) == 0, "the bytes were there when the WRITE was posted");
    });
  }
}

// Two tasks of the first client that one completion wakes: one posts a READ, the other looks.
Task<void> post_when_told(Client* client, Store* store, std::uint64_t number) {
  co_await client->qp->reach(number);
  co_await client->qp->read(client->word(0), store->word(0));
}

Task<void> look_when_told(Client* client, std::uint64_t number) {
  co_await client->qp->reach(number);
  client->world->require(client->value(0) == 0, "the bytes are there");
}

Task<void> tell_two(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::fetch_add(store->word(1), 1));
  const std::uint64_t number = client->qp->posted_so_far();
  client->qp->reactor().spawn(post_when_told(client, store, number));
  client->qp->reactor().spawn(look_when_told(client, number));
  co_await client->qp->reach(number);
}

template <>
void filled_buffer<Filling::by_a_sibling>(World& world) {
  const Partners pair(world);
  world.spawn(*pair.first.node, tell_two(&pair.first, &pair.store));
  world.spawn(*pair.second.node, set_word(&pair.second, &pair.store));
}

TEST(LooksBehindAPost, AtAFilledBufferAreDecided) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(filled_buffer<Filling::of_this_step>, searching(mode), Kind::assertion));
    EXPECT_TRUE(is_broken(filled_buffer<Filling::of_an_earlier_step>, searching(mode), Kind::assertion));
    EXPECT_TRUE(is_broken(filled_buffer<Filling::inlined>, searching(mode), Kind::assertion));
    EXPECT_TRUE(is_broken(filled_buffer<Filling::by_a_sibling>, searching(mode), Kind::assertion));
    const PlantedFault planted(Mutation::looks_after_posts_are_unseen);
    EXPECT_EQ(check(filled_buffer<Filling::of_this_step>, searching(mode)).outcome, Outcome::safe);
    EXPECT_EQ(check(filled_buffer<Filling::inlined>, searching(mode)).outcome, Outcome::safe);
  }
}

// What a task has spawned cannot wait for it.
TEST(LooksBehindAPost, OfASpawnedTaskAreNotCalledSafe) {
  for (const Mode mode : kEitherSearch) {
    const Verdict verdict = check(filled_buffer<Filling::of_a_spawned_task>, searching(mode));
    EXPECT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
    EXPECT_THAT(to_text(verdict), HasSubstr("first, which looks at a buffer that a request fills behind a post"));
  }
}

// Bytes that no request fills are nobody else's business, and others that lie beside them neither.
Task<void> read_and_write_beside(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  client->set(1, 7);
  co_await client->qp->write(client->word(1), store->word(1));
}

void beside_a_filled_buffer(World& world) {
  const Partners pair(world);
  world.spawn(*pair.first.node, read_and_write_beside(&pair.first, &pair.store));
  world.spawn(*pair.second.node, set_word(&pair.second, &pair.store));
  world.at_end([&world, store = &pair.store](const Order&) { world.require(store->value(1) == 7, "it is lost"); });
}

TEST(LooksBehindAPost, BesideAFilledBufferAreSafe) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_safe(beside_a_filled_buffer, searching(mode)));
  }
}

// The same with an object of the process.
Task<void> answer_in_an_object(Client* client, Store* store, Shared* shared) {
  co_await client->qp->read(client->word(0), store->word(0));
  shared->flag = static_cast<int>(client->value(0));
}

Task<void> post_and_look_at_an_object(Client* client, Store* store, Shared* shared, Between between) {
  if (between == Between::look_before) {
    client->world->require(shared->flag == 0, "an answer without a question");
  }
  co_await client->qp->enqueue(fabric::fetch_add(store->word(0), 1));
  if (between == Between::yield) {
    co_await client->world->yield(*client->node);
  }
  if (between != Between::look_before) {
    client->world->require(shared->flag == 0, "there is an answer");
  }
  co_await client->qp->drain();
}

Program question_and_answer_in_an_object(Between between) {
  return [between](World& world) {
    const Partners pair(world);
    auto& shared = world.make<Shared>();
    world.spawn(*pair.first.node, post_and_look_at_an_object(&pair.first, &pair.store, &shared, between));
    world.spawn(*pair.second.node, answer_in_an_object(&pair.second, &pair.store, &shared));
  };
}

TEST(LooksBehindAPost, AtObjectsOfTheProcessAreDecided) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(question_and_answer_in_an_object(Between::nothing), searching(mode), Kind::assertion));
    EXPECT_TRUE(is_broken(question_and_answer_in_an_object(Between::yield), searching(mode), Kind::assertion));
    EXPECT_TRUE(is_safe(question_and_answer_in_an_object(Between::look_before), searching(mode)));
  }
}

// The same with an object that a task has made and linked to a shared one.
struct Link {
  std::unique_ptr<int> answer;
};

Task<void> answer_in_a_made_object(Client* client, Store* store, Link* link) {
  co_await client->qp->read(client->word(0), store->word(0));
  if (link->answer != nullptr) {
    *link->answer = static_cast<int>(client->value(0));
  }
}

Task<void> make_and_post_and_look(Client* client, Store* store, Link* link) {
  link->answer = std::make_unique<int>(0);
  const int* const answer = link->answer.get();
  co_await client->world->yield(*client->node);
  co_await client->qp->enqueue(fabric::fetch_add(store->word(0), 1));
  client->world->require(*answer == 0, "there is an answer");
  co_await client->qp->drain();
}

void answer_in_what_a_task_made(World& world) {
  const Partners pair(world);
  auto& link = world.make<Link>();
  world.spawn(*pair.first.node, make_and_post_and_look(&pair.first, &pair.store, &link));
  world.spawn(*pair.second.node, answer_in_a_made_object(&pair.second, &pair.store, &link));
}

TEST(LooksBehindAPost, AtWhatTasksHaveMadeAreDecided) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(answer_in_what_a_task_made, searching(mode), Kind::assertion));
    const PlantedFault planted(Mutation::looks_after_posts_are_unseen);
    EXPECT_EQ(check(answer_in_what_a_task_made, searching(mode)).outcome, Outcome::safe);
  }
}

// ---- Programs that judge by the order of events share objects, too.

Task<void> set_the_flag_and_ask(Client* client, Store* store, Shared* shared) {
  static_cast<void>(client->world->moment());
  co_await set_the_flag(client, store, shared);
}

Task<void> set_the_flag_and_say_so(Client* client, Store* store, Shared* shared) {
  client->world->order_matters();
  co_await set_the_flag(client, store, shared);
}

template <auto Setter>
void flag_is_looked_at_beside(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  world.spawn(*pair.first.node, Setter(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, look_at_the_flag(&pair.second, &pair.store, &shared, 1));
}

TEST(SharedObjectsOfJudgedPrograms, AreDecided) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(flag_is_looked_at_beside<set_the_flag_and_ask>, searching(mode), Kind::assertion));
    EXPECT_TRUE(is_broken(flag_is_looked_at_beside<set_the_flag_and_say_so>, searching(mode), Kind::assertion));
  }
}

// What is said of one object holds for no other one.
void flag_beside_a_judges_object(World& world) {
  const Partners pair(world);
  auto& shared = world.make<Shared>();
  auto& of_judges = world.make<Shared>();
  world.judges_with(&of_judges);
  world.spawn(*pair.first.node, set_the_flag_and_say_so(&pair.first, &pair.store, &shared));
  world.spawn(*pair.second.node, look_at_the_flag(&pair.second, &pair.store, &shared, 1));
}

TEST(SharedObjectsOfJudgedPrograms, AreBelievedOneByOne) {
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(flag_beside_a_judges_object, searching(mode), Kind::assertion));
  }
  EXPECT_THAT(message_of([] {
                static_cast<void>(check(
                    [](World& world) {
                      int outside = 0;
                      world.judges_with(&outside);
                    },
                    searching(Mode::exhaustive)));
              }),
              HasSubstr("judges_with"));
}

}  // namespace
}  // namespace sidelatch::explore
