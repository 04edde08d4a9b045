// Under the order `strict` a request takes effect in one step. Its client, and the receiver of a message, learn of that
// later: what others do in between, because of that request, may be seen by what goes on. Each program here says that
// it is not.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>

namespace sidelatch::explore {
namespace {

using fabric::MemoryRegion;
using fabric::Node;
using fabric::QueuePair;
using fabric::Task;
using fabric::model::Preset;

// ---- Two messages. If they share a receive buffer, the second may come before the look at the first.

struct Mail {
  explicit Mail(World& its_world)
      : world(&its_world),
        receiver(&its_world.add_node("receiver")),
        sender(&its_world.add_node("sender")),
        inbox(receiver->allocate(128, fabric::Access::local_write)),
        out(sender->allocate(128, fabric::Access::local_write)) {
    std::tie(in, to) = receiver->connect_pair(*sender);
    const std::uint64_t values[] = {1, 2};
    std::memcpy(out.bytes().data(), values, sizeof values);
  }
  World* world;
  Node* receiver;
  Node* sender;
  MemoryRegion inbox;
  MemoryRegion out;
  std::unique_ptr<QueuePair> in;
  std::unique_ptr<QueuePair> to;
};

Task<void> look_at_the_first(Mail* mail, std::uint64_t second_buffer) {
  mail->world->require(mail->in->post_receive(mail->inbox.local(0, 8)), "no room");
  mail->world->require(mail->in->post_receive(mail->inbox.local(second_buffer, 8)), "no room");
  const fabric::Received first = co_await mail->in->receive();
  mail->world->require(word_in(first.message.bytes()) == 1, "the second message came before the look");
  const fabric::Received second = co_await mail->in->receive();
  mail->world->require(first.number + 1 == second.number && word_in(second.message.bytes()) == 2, "out of order");
}
Task<void> send_both(Mail* mail) {
  co_await mail->to->submit(fabric::send(mail->out.local(0, 8)), fabric::send(mail->out.local(8, 8)));
}
template <std::uint64_t kSecondBuffer>
void two_messages(World& world) {
  auto& mail = world.make<Mail>(world);
  world.spawn(*mail.receiver, look_at_the_first(&mail, kSecondBuffer));
  world.spawn(*mail.sender, send_both(&mail));
}

// ---- A flag in memory. Who has set it looks at something that the other changes when it sees the flag.

struct Flag {
  explicit Flag(World& its_world)
      : world(&its_world),
        store(its_world.make<Store>(its_world)),
        first(its_world.make<Client>(its_world, store, "first")),
        second(its_world.make<Client>(its_world, store, "second")) {}
  World* world;
  Store& store;
  Client& first;
  Client& second;
  // That of the first client, which the second one writes.
  MemoryRegion memory;
  std::unique_ptr<QueuePair> to_first;
};

Task<void> set_flag_and_look(Client* first, Store* store, const std::byte* answer) {
  co_await first->qp->fetch_add(store->word(0), 1);
  first->world->require(word_in({answer, 8}) == 0, "the answer came before the look");
}
Task<void> answer_by_a_write(Client* second, Store* store, QueuePair* to_first, fabric::RemoteSpan answer) {
  co_await second->qp->read(second->word(0), store->word(0));
  second->set(1, 7);
  if (second->value(0) == 1) {
    co_await to_first->write(second->word(1), answer);
  }
}
Task<void> answer_elsewhere(Client* second, Store* store) {
  co_await second->qp->read(second->word(0), store->word(0));
  second->set(1, 7);
  if (second->value(0) == 1) {
    co_await second->qp->write(second->word(1), store->word(1));
  }
}
template <bool kElsewhere>
void a_write_answers(World& world) {
  auto& flag = world.make<Flag>(world);
  flag.memory = flag.first.node->allocate(64, fabric::Access::remote_all);
  flag.to_first = flag.second.node->connect(*flag.first.node);
  world.spawn(*flag.first.node, set_flag_and_look(&flag.first, &flag.store, flag.memory.bytes().data()));
  world.spawn(*flag.second.node,
              kElsewhere ? answer_elsewhere(&flag.second, &flag.store)
                         : answer_by_a_write(&flag.second, &flag.store, flag.to_first.get(), flag.memory.remote(0, 8)));
}

struct Answer {
  std::uint64_t value = 0;
};
Task<void> set_flag_and_look_at(Client* first, Store* store, const Answer* answer) {
  co_await first->qp->fetch_add(store->word(0), 1);
  first->world->require(answer->value == 0, "the answer came before the look");
}
Task<void> answer_when_flagged(Client* second, Store* store, Answer* answer) {
  co_await second->qp->read(second->word(0), store->word(0));
  if (second->value(0) == 1) {
    answer->value = 7;
  }
}
template <bool kToAnother>
void an_object_answers(World& world) {
  auto& flag = world.make<Flag>(world);
  auto& answer = world.make<Answer>();
  auto& another = world.make<Answer>();
  world.spawn(*flag.first.node, set_flag_and_look_at(&flag.first, &flag.store, &answer));
  world.spawn(*flag.second.node, answer_when_flagged(&flag.second, &flag.store, kToAnother ? &another : &answer));
}

// ---- The same between two tasks of one client, whose objects nobody else reaches.

template <bool kToAnother>
void another_task_answers(World& world) {
  auto& store = world.make<Store>(world);
  auto& client = world.make<Client>(world, store, "client");
  auto& other = world.make<std::unique_ptr<QueuePair>>(client.node->connect(*store.node));
  auto& answer = world.make<Answer>();
  auto& another = world.make<Answer>();
  const auto answers = [](Client* me, QueuePair* qp, Store* there, Answer* to) -> Task<void> {
    co_await qp->read(me->word(0), there->word(0));
    if (me->value(0) == 1) {
      to->value = 7;
    }
  };
  world.spawn(*client.node, set_flag_and_look_at(&client, &store, &answer));
  world.spawn(*client.node, answers(&client, other.get(), &store, kToAnother ? &another : &answer));
}

// ---- A judge that compares the ends of two operations: the one that was seen need not end first.

struct Ends {
  Moment setter = 0;
  Moment seer = 0;
  bool seen = false;
};
Task<void> set_flag_and_end(Client* first, Store* store, Ends* ends) {
  co_await first->qp->fetch_add(store->word(0), 1);
  ends->setter = first->world->moment();
}
Task<void> see_flag_and_end(Client* second, Store* store, Ends* ends) {
  co_await second->qp->read(second->word(0), store->word(0));
  ends->seer = second->world->moment();
  ends->seen = second->value(0) == 1;
}
template <bool kJustSeen>
void ends_are_compared(World& world) {
  auto& flag = world.make<Flag>(world);
  auto& ends = world.make<Ends>();
  world.judges_with(&ends);
  world.spawn(*flag.first.node, set_flag_and_end(&flag.first, &flag.store, &ends));
  world.spawn(*flag.second.node, see_flag_and_end(&flag.second, &flag.store, &ends));
  world.at_end([&world, &ends](const Order& order) {
    world.require(kJustSeen || !ends.seen || order.before(ends.setter, ends.seer), "it was seen and had not ended");
  });
}

struct Pair {
  const char* name;
  void (*wrong)(World&);
  void (*right)(World&);
};
void PrintTo(const Pair& one, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << one.name;
}

class OneStepRequests : public ::testing::TestWithParam<std::tuple<Pair, Mode>> {};

TEST_P(OneStepRequests, TellTheirClientsLater) {
  const auto& [one, mode] = GetParam();
  for (const Preset preset : kPresets) {
    Options options = under(preset);
    options.mode = mode;
    options.walks = 0;  // the searches must find it, not chance
    EXPECT_TRUE(is_broken(one.wrong, options, Kind::assertion)) << name(preset);
    EXPECT_TRUE(is_safe(one.right, options)) << name(preset);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OneStepRequests,
    ::testing::Combine(::testing::Values(Pair{"Messages", two_messages<0>, two_messages<64>},
                                         Pair{"OwnMemory", a_write_answers<false>, a_write_answers<true>},
                                         Pair{"Object", an_object_answers<false>, an_object_answers<true>},
                                         Pair{"AnotherTask", another_task_answers<false>, another_task_answers<true>},
                                         Pair{"Judge", ends_are_compared<false>, ends_are_compared<true>}),
                       ::testing::Values(Mode::exhaustive, Mode::states)),
    [](const auto& one) {
      return std::string(std::get<0>(one.param).name) +
             std::string(std::get<1>(one.param) == Mode::states ? "States" : "");
    });

}  // namespace
}  // namespace sidelatch::explore
