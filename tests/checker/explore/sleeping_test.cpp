// A client that sleeps, or tries again, is a client that others overtake: what it looks at afterwards may have changed,
// also if it looks by a pointer or at an object of the process, and asks no NIC.
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

namespace sidelatch::explore {
namespace {

using fabric::from_ns;
using fabric::Task;
using fabric::model::Preset;

Options searching_alone(Mode mode, Preset preset) {
  Options options = under(preset);
  options.mode = mode;
  options.walks = 0;
  options.max_events = 300;     // an execution that waits in a loop is cut early, and states decide
  options.max_states = 10'000;  // a search that meets no state again ends as bounded
  return options;
}

void expect_broken(const Program& program) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_broken(program, searching_alone(mode, preset), Kind::assertion)) << name(preset);
    }
  }
}
void expect_safe(const Program& program) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_safe(program, searching_alone(mode, preset))) << name(preset);
    }
  }
}

// ---- A task of the memory node, beside a client that adds 1.

Program beside_an_adder(const std::function<Task<void>(Store*)>& task) {
  return [task](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*store.node, task(&store));
    world.spawn(*client.node, add_one(&client, &store));
  };
}

Task<void> look_sleep_look(Store* store) {
  const std::uint64_t before = store->value(0);
  co_await store->node->reactor().sleep(from_ns(100));
  store->world->require(store->value(0) == before, "it came while the task slept");
}

Task<void> look_three_times(Store* store) {
  const auto loop = store->node->reactor().begin_retries();
  for (int i = 0; i < 3; ++i) {
    if (store->value(0) != 0) {
      store->world->require(i != 1, "it came between the first two looks");
      break;
    }
    co_await store->node->reactor().retry(loop, from_ns(100));
  }
}

Task<void> sleep_until_it_is_there(Store* store) {
  while (store->value(0) == 0) {
    co_await store->node->reactor().sleep(from_ns(100));
  }
}

TEST(Sleeping, ATaskOfTheMemoryNodeSeesWhatCameMeanwhile) {
  expect_broken(beside_an_adder(look_sleep_look));
  expect_broken(beside_an_adder(look_three_times));
}

TEST(Sleeping, WhoLooksAtItsMemoryAgainAndAgainEnds) { expect_safe(beside_an_adder(sleep_until_it_is_there)); }

// ---- A READ that nobody waits for.

Program reader(const std::function<Task<void>(Client*, Store*)>& task) {
  return [task](World& world) {
    auto& store = world.make<Store>(world);
    const std::uint64_t five = 5;
    std::memcpy(store.memory.bytes().data(), &five, sizeof five);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, task(&client, &store));
  };
}

Task<void> read_sleep_look(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  co_await client->qp->reactor().sleep(from_ns(100));
  client->world->require(client->value(0) != 5, "it is there");
  co_await client->qp->drain();
}

Task<void> read_look_three_times(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  const auto loop = client->qp->reactor().begin_retries();
  for (int i = 0; i < 3; ++i) {
    client->world->require(client->value(0) != 5, "it is there");
    co_await client->qp->reactor().retry(loop, from_ns(100));
  }
  co_await client->qp->drain();
}

Task<void> read_sleep_until_it_is_there(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  while (client->value(0) != 5) {
    co_await client->qp->reactor().sleep(from_ns(100));
  }
  co_await client->qp->drain();
}

TEST(Sleeping, AReadArrivesMeanwhile) {
  expect_broken(reader(read_sleep_look));
  expect_broken(reader(read_look_three_times));
  expect_safe(reader(read_sleep_until_it_is_there));
}

// ---- A message.

struct Pair {
  explicit Pair(World& the_world)
      : world(&the_world),
        receiver(&the_world.add_node("receiver")),
        sender(&the_world.add_node("sender")),
        inbox(receiver->allocate(64, fabric::Access::local_write)),
        letter(sender->allocate(64, fabric::Access::local_write)),
        ends(receiver->connect_pair(*sender)) {}
  World* world;
  fabric::Node* receiver;
  fabric::Node* sender;
  fabric::MemoryRegion inbox;
  fabric::MemoryRegion letter;
  std::pair<std::unique_ptr<fabric::QueuePair>, std::unique_ptr<fabric::QueuePair>> ends;
};

Task<void> look_for_a_message(Pair* pair) {
  static_cast<void>(pair->ends.first->post_receive(pair->inbox.local(0, 64)));
  const std::uint64_t before = word_in(pair->inbox.bytes());
  co_await pair->receiver->reactor().sleep(from_ns(100));
  pair->world->require(word_in(pair->inbox.bytes()) == before, "it came while the task slept");
  static_cast<void>(co_await pair->ends.first->receive());
}
Task<void> send_one(Pair* pair) {
  pair->letter.bytes()[0] = std::byte{1};
  co_await pair->ends.second->submit(fabric::send(pair->letter.local(0, 8)));
}

TEST(Sleeping, AMessageArrivesMeanwhile) {
  for (const Preset preset : kPresets) {
    const Program program = [](World& world) {
      auto& pair = world.make<Pair>(world);
      world.spawn(*pair.receiver, look_for_a_message(&pair));
      world.spawn(*pair.sender, send_one(&pair));
    };
    EXPECT_TRUE(is_broken(program, searching_alone(Mode::exhaustive, preset), Kind::assertion)) << name(preset);
  }
}

// ---- Objects of the process.

struct Sign {
  bool is_up = false;
};

Task<void> add_and_raise(Client* client, Store* store, Sign* sign) {
  co_await client->qp->fetch_add(store->word(0), 1);
  sign->is_up = true;
}

Task<void> sleep_until_it_is_up(Client* client, const Sign* sign) {
  while (!sign->is_up) {
    co_await client->qp->reactor().sleep(from_ns(100));
  }
}

Task<void> yield_until_it_is_up(Client* client, const Sign* sign) {
  while (!sign->is_up) {
    co_await client->world->yield(*client->node);
  }
}

TEST(Sleeping, ATaskMayWaitForAnotherOneOfItsClient) {
  expect_safe([](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    auto& sign = world.make<Sign>();
    world.spawn(*client.node, sleep_until_it_is_up(&client, &sign));
    world.spawn(*client.node, add_and_raise(&client, &store, &sign));
  });
}

// No deadlock and no livelock: the other one does not wait.
TEST(Sleeping, AClientMayWaitForASignOfAnother) {
  for (const bool sleeps : {false, true}) {
    for (const bool is_first : {false, true}) {
      expect_safe([sleeps, is_first](World& world) {
        auto& store = world.make<Store>(world);
        auto& waiting = world.make<Client>(world, store, "waiting");
        auto& raising = world.make<Client>(world, store, "raising");
        auto& sign = world.make<Sign>();
        const auto wait = [&] {
          world.spawn(*waiting.node,
                      sleeps ? sleep_until_it_is_up(&waiting, &sign) : yield_until_it_is_up(&waiting, &sign));
        };
        if (is_first) {
          wait();
        }
        world.spawn(*raising.node, add_and_raise(&raising, &store, &sign));
        if (!is_first) {
          wait();
        }
      });
    }
  }
}

TEST(Sleeping, WhoWaitsForASignThatNobodyRaisesWaitsForEver) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& waiting = world.make<Client>(world, store, "waiting");
    auto& adding = world.make<Client>(world, store, "adding");
    auto& sign = world.make<Sign>();
    world.spawn(*waiting.node, yield_until_it_is_up(&waiting, &sign));
    world.spawn(*adding.node, add_one(&adding, &store));
  };
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    EXPECT_TRUE(is_broken(program, searching_alone(mode, Preset::observed), Kind::deadlock));
  }
}

}  // namespace
}  // namespace sidelatch::explore
