// SEND and RECV in the explorer: the scenarios of every world in every execution, and what only the model shows.
#include "tests/fabric/message_scenarios.h"

#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"
#include "either_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace sidelatch::explore {
namespace {

using fabric::MemoryRegion;
using fabric::Node;
using fabric::QueuePair;
using fabric::Received;
using fabric::Task;
using fabric::WordCondition;
using fabric::model::Preset;
using fabric::two_sided::MessageScenario;
using fabric::two_sided::MessageSite;
using Side = MessageSite::Side;

using MessageTask = Task<void> (*)(MessageSite* site, Side* me, Side* other);

Program messages(MessageTask receiver, MessageTask sender) {
  return [receiver, sender](World& world) {
    Node& first = world.add_node("receiver");
    Node& second = world.add_node("sender");
    auto& site = world.make<MessageSite>(first, second,
                                         [&world](bool holds, std::string_view what) { world.require(holds, what); });
    world.spawn(first, receiver(&site, site.sides.data(), &site.sides[1]));
    world.spawn(second, sender(&site, &site.sides[1], site.sides.data()));
  };
}

TEST(ModelMessages, KeepWhatTheyPromiseInEveryWorld) {
  for (const MessageScenario& scenario : fabric::two_sided::kMessageScenarios) {
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_safe(messages(scenario.receiver, scenario.sender), under(preset)))
          << scenario.name << " " << name(preset);
    }
  }
}

// ---- A specimen: the receiver looks for the last byte of the message instead of waiting for it. What was written
// before need not be there: WRITE and SEND are placed in order only where WRITEs are (rule 5).

Task<void> look_into_the_buffer(MessageSite* site, Side* me, Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 64)), "no room");
  co_await me->node->cpu().wait(me->inbox.local(0, 8), WordCondition::is(1));
  const std::uint64_t data = co_await me->node->cpu().load(me->table.local(0, 8));
  site->require(data == 9, "the message is there before the data");
}
Task<void> write_a_line_and_send(MessageSite* /*site*/, Side* me, Side* other) {
  co_await me->qp->submit(write(me->filled(0, 9), other->table.remote(0, 8)), send(me->filled(2, 1)));
}

TEST(ModelMessages, ABufferThatIsPolledShowsEarlierWritesOnlyWhereWritesAreOrdered) {
  const Program program = messages(look_into_the_buffer, write_a_line_and_send);
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec}) {
    EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
  }
  EXPECT_TRUE(is_broken(program, under(Preset::relaxed), Kind::assertion));
}

// ---- An attempt that sends an empty message has left a trace. Its receiver may get any number of them.

struct EmptyMessages {
  EmptyMessages(World& world, Node& first, Node& second)
      : site(first, second, [&world](bool holds, std::string_view what) { world.require(holds, what); }),
        store(world.make<Store>(world, 1)),
        teller(world.make<Client>(world, store, "teller")),
        flag(world.connect(second, *store.node, 0, {})) {}
  MessageSite site;
  Store& store;
  Client& teller;
  std::unique_ptr<QueuePair> flag;
};

constexpr int kEmptyMessages = 4;

Task<void> send_until_told(EmptyMessages* all) {
  Side& me = all->site.sides[1];
  fabric::Reactor& reactor = all->flag->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await me.qp->submit(send(me.out.local(0, 0)));
    co_await all->flag->read(me.inbox.local(0, 8), all->store.word(0));
    if (word_in(me.inbox.bytes()) != 0) {
      break;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
  co_await me.qp->submit(send(me.filled(0, 1)));
}
Task<void> count_empty_messages(EmptyMessages* all) {
  Side& me = all->site.sides[0];
  for (std::uint64_t i = 0; i < 4 * kEmptyMessages; ++i) {
    all->site.require(me.qp->post_receive(me.inbox.local(0, 8)), "no room");
  }
  int empty = 0;
  for (;;) {
    const Received received = co_await me.qp->receive();
    if (received.message.length != 0) {
      break;
    }
    ++empty;
    all->site.require(empty < kEmptyMessages, "so many came");
  }
}

TEST(ModelMessages, AttemptsThatSendEmptyMessagesAreAllMade) {
  const Program program = [](World& world) {
    Node& first = world.add_node("receiver");
    Node& second = world.add_node("sender");
    auto& all = world.make<EmptyMessages>(world, first, second);
    world.spawn(first, count_empty_messages(&all));
    world.spawn(second, send_until_told(&all));
    world.spawn(*all.teller.node, add_one(&all.teller, &all.store));
  };
  Options options = under(Preset::observed);
  options.walks = 0;
  const Verdict verdict = check(program, options);
  ASSERT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
  EXPECT_THAT(verdict.violation->what, ::testing::HasSubstr("so many came"));
}

// ---- A specimen: the data goes through another queue pair. Its completion is no placement (rule 2), and the message
// shows only the WRITEs of its own queue pair.

struct OtherWay {
  OtherWay(World& world, bool proved)
      : flush(proved), receiver(&world.add_node("receiver")), sender(&world.add_node("sender")) {
    site = std::make_unique<MessageSite>(*receiver, *sender,
                                         [&world](bool holds, std::string_view what) { world.require(holds, what); });
    other = sender->connect(*receiver);
  }
  bool flush;
  Node* receiver;
  Node* sender;
  std::unique_ptr<MessageSite> site;
  std::unique_ptr<QueuePair> other;
};

Task<void> receive_and_load(OtherWay* way) {
  Side& me = way->site->sides[0];
  way->site->require(me.qp->post_receive(me.inbox.local(0, 64)), "no room");
  (void)co_await me.qp->receive();
  const std::uint64_t data = co_await me.node->cpu().load(me.table.local(0, 8));
  way->site->require(data == 9, "the message came before the data");
}
Task<void> write_elsewhere_and_send(OtherWay* way) {
  Side& me = way->site->sides[1];
  Side& there = way->site->sides[0];
  co_await way->other->write(me.filled(0, 9), there.table.remote(0, 8));
  if (way->flush) {
    co_await way->other->read(me.out.local(128, 8), there.table.remote(0, 8));
  }
  co_await me.qp->submit(send(me.filled(1, 1)));
}

TEST(ModelMessages, AMessageDoesNotShowTheWritesOfAnotherQueuePair) {
  const auto program = [](bool flush) {
    return [flush](World& world) {
      auto& way = world.make<OtherWay>(world, flush);
      world.spawn(*way.receiver, receive_and_load(&way));
      world.spawn(*way.sender, write_elsewhere_and_send(&way));
    };
  };
  EXPECT_TRUE(is_safe(program(false), under(Preset::strict)));
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_TRUE(is_broken(program(false), under(preset), Kind::assertion)) << name(preset);
    EXPECT_TRUE(is_safe(program(true), under(preset))) << name(preset);  // a READ proves that it is placed
  }
}

// ---- A specimen: the receiver gives its buffer again before it has looked at the message.

Task<void> give_the_buffer_again(MessageSite* site, Side* me, Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 8)), "no room");
  (void)co_await me->qp->receive();
  site->require(me->qp->post_receive(me->inbox.local(0, 8)), "no room");
  const std::uint64_t first = co_await me->node->cpu().load(me->inbox.local(0, 8));
  site->require(first == 1, "the second message is where the first was");
  (void)co_await me->qp->receive();
}
Task<void> send_twice(MessageSite* /*site*/, Side* me, Side* /*other*/) {
  co_await me->qp->submit(send(me->filled(0, 1)), send(me->filled(1, 2)));
}

TEST(ModelMessages, ABufferThatIsGivenAgainTooEarlyIsFound) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(messages(give_the_buffer_again, send_twice), under(preset), Kind::assertion)) << name(preset);
  }
}

// ---- A specimen: the receiver clears its buffer after it has posted it. Nothing orders that store before the message.

Task<void> clear_too_late(MessageSite* site, Side* me, Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 8)), "no room");
  co_await me->node->cpu().store(me->inbox.local(0, 8), 1);
  (void)co_await me->qp->receive();
  co_await me->node->cpu().fence();
  const std::uint64_t word = co_await me->node->cpu().load(me->inbox.local(0, 8));
  site->require(word == 7, "the store has erased the message");
}
Task<void> send_seven(MessageSite* /*site*/, Side* me, Side* /*other*/) {
  co_await me->qp->submit(send(me->filled(0, 7)));
}

TEST(ModelMessages, AStoreBehindThePostOfTheBufferMayEraseTheMessage) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(messages(clear_too_late, send_seven), under(preset), Kind::assertion)) << name(preset);
  }
  for (const Mode mode : kEitherSearch) {
    EXPECT_TRUE(is_broken(messages(clear_too_late, send_seven), searching(mode), Kind::assertion));
    EXPECT_TRUE(is_safe(messages(fabric::two_sided::clear_and_receive, send_seven), searching(mode)));
    EXPECT_TRUE(
        is_safe(messages(fabric::two_sided::store_and_receive, fabric::two_sided::send_and_read), searching(mode)));
  }
}

// ---- A buffer waits for the stores before it, and for no others: all else that may happen is found.

Task<void> store_around_a_buffer(MessageSite* site, Side* me, Side* /*other*/) {
  co_await me->node->cpu().store(me->table.local(0, 8), 1);
  site->require(me->qp->post_receive(me->inbox.local(0, 8)), "no room");
  co_await me->node->cpu().store(me->table.local(64, 8), 1);
}
Task<void> read_around_a_send(MessageSite* /*site*/, Side* me, Side* other) {
  co_await me->qp->read(me->inbox.local(0, 8), other->table.remote(0, 8));
  co_await me->qp->submit(send(me->filled(0, 7)));
  co_await me->qp->read(me->inbox.local(64, 8), other->table.remote(0, 8));
  co_await me->qp->read(me->inbox.local(128, 8), other->table.remote(64, 8));
}

TEST(ModelMessages, OnlyStoresBeforeThePostOfTheBufferComeBeforeTheMessage) {
  for (const Preset preset : kPresets) {
    std::set<std::array<std::uint64_t, 3>> all;
    const Program program = [&](World& world) {
      Node& first = world.add_node("receiver");
      Node& second = world.add_node("sender");
      auto& site = world.make<MessageSite>(first, second, [](bool, std::string_view) {});
      world.spawn(first, store_around_a_buffer(&site, site.sides.data(), &site.sides[1]));
      world.spawn(second, read_around_a_send(&site, &site.sides[1], site.sides.data()));
      world.at_end([&](const Order& /*order*/) {
        const std::byte* const seen = site.sides[1].inbox.bytes().data();
        all.insert({Side::word_at(seen), Side::word_at(seen + 64), Side::word_at(seen + 128)});
      });
    };
    EXPECT_TRUE(is_safe(program, {.rules = rules_of(preset), .threads = 1}));
    EXPECT_EQ(all, (std::set<std::array<std::uint64_t, 3>>{{0, 1, 0}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}}))
        << name(preset);
  }
}

// ---- Ends, and what is not modelled.

Task<void> receive_once(MessageSite* site, Side* me, Side* /*other*/) {
  site->require(me->qp->post_receive(me->inbox.local(0, 8)), "no room");
  (void)co_await me->qp->receive();
}
Task<void> do_nothing(MessageSite* /*site*/, Side* /*me*/, Side* /*other*/) { co_return; }
Task<void> send_once(MessageSite* /*site*/, Side* me, Side* /*other*/) {
  co_await me->qp->submit(send(me->filled(0, 1)));
}
Task<void> send_nine_bytes(MessageSite* /*site*/, Side* me, Side* /*other*/) {
  co_await me->qp->submit(send(me->out.local(0, 9)));
}
Task<void> write_with_number(MessageSite* /*site*/, Side* me, Side* other) {
  co_await me->qp->submit(write_with_immediate(me->filled(0, 1), other->table.remote(0, 8), 5));
}

TEST(ModelMessages, AMessageThatNobodySendsOrReceivesIsADeadlock) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(messages(receive_once, do_nothing), under(preset), Kind::deadlock)) << name(preset);
    EXPECT_TRUE(is_broken(messages(do_nothing, send_once), under(preset), Kind::deadlock)) << name(preset);
  }
}

TEST(ModelMessages, WhatTheModelDoesNotHaveIsNamed) {
  const auto what = [](MessageTask sender) {
    const Verdict verdict = check(messages(receive_once, sender), under(Preset::observed));
    return verdict.violation ? verdict.violation->what : std::string("nothing");
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(what(send_nine_bytes), HasSubstr("SEND of 9 bytes into a receive buffer of 8 bytes"));
  EXPECT_THAT(what(write_with_number), HasSubstr("it has no WRITE with immediate"));
}

// Two senders: whose message comes first is open, and both orders are found.
struct TwoSenders {
  explicit TwoSenders(World& world) : receiver(&world.add_node("receiver")) {
    inbox = receiver->allocate(128, fabric::Access::local_write);
    for (std::size_t i = 0; i < 2; ++i) {
      nodes.at(i) = &world.add_node("sender " + std::to_string(i));
      out.at(i) = nodes.at(i)->allocate(64, fabric::Access::local_write);
      std::tie(ends.at(i), senders.at(i)) = receiver->connect_pair(*nodes.at(i));
      static_cast<void>(ends.at(i)->post_receive(inbox.local(i * 64, 8)));  // also while the program is built
    }
  }
  Node* receiver;
  MemoryRegion inbox;
  std::array<Node*, 2> nodes{};
  std::array<MemoryRegion, 2> out;
  std::array<std::unique_ptr<QueuePair>, 2> ends;
  std::array<std::unique_ptr<QueuePair>, 2> senders;
  std::string order;
};
Task<void> note_order(TwoSenders* all, std::size_t i) {
  (void)co_await all->ends.at(i)->receive();
  all->order += std::to_string(i);
}
Task<void> send_empty(TwoSenders* all, std::size_t i) {
  co_await all->senders.at(i)->submit(send(all->out.at(i).local(0, 8)));
}

TEST(ModelMessages, MessagesOfTwoSendersComeInAnyOrder) {
  for (const Preset preset : kPresets) {
    std::set<std::string> orders;
    const Program program = [&](World& world) {
      auto& all = world.make<TwoSenders>(world);
      for (std::size_t i = 0; i < 2; ++i) {
        world.spawn(*all.receiver, note_order(&all, i));
        world.spawn(*all.nodes.at(i), send_empty(&all, i));
      }
      world.at_end([&](const Order& /*order*/) { orders.insert(all.order); });
    };
    EXPECT_TRUE(is_safe(program, {.rules = rules_of(preset), .threads = 1}));
    EXPECT_EQ(orders, (std::set<std::string>{"01", "10"})) << name(preset);
  }
}

}  // namespace
}  // namespace sidelatch::explore
