// Clients and CPU threads in an execution: loops, exceptions, buffers, and the parts of a world.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace sidelatch::explore {
namespace {

using fabric::Cpu;
using fabric::LocalSpan;
using fabric::RemoteSpan;
using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

using ClientTask = Task<void> (*)(Client*, Store*);

// A memory node, and a client for each task.
Program clients(std::vector<ClientTask> tasks, std::function<void(World&, Store&)> judge = {}) {
  return [tasks = std::move(tasks), judge = std::move(judge)](World& world) {
    auto& store = world.make<Store>(world);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      auto& client = world.make<Client>(world, store, "client " + std::to_string(i));
      world.spawn(*client.node, tasks[i](&client, &store));
    }
    if (judge) {
      world.at_end([&world, &store, judge](const Order& /*order*/) { judge(world, store); });
    }
  };
}

// ---- Loops announced by begin_retries().

// Line 0 is the latch, line 1 the protected data.
Task<void> latch(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Reactor::LoopId loop = reactor.begin_retries();
  for (;;) {
    const std::uint64_t old = co_await client->qp->compare_swap(store->word(0), 0, 1);
    if (old == 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::from_ns(100));
  }
}

Task<void> increment(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(1));
  client->set(1, client->value(0) + 1);
  co_await client->qp->write(client->word(1), store->word(1));
}

Task<void> latched_increment(Client* client, Store* store) {
  co_await latch(client, store);
  co_await increment(client, store);
  co_await client->qp->fetch_add(store->word(0), ~std::uint64_t{0});
}

Task<void> latched_increment_without_unlatch(Client* client, Store* store) {
  co_await latch(client, store);
  co_await increment(client, store);
}

// The FETCH-ADD may not pass the WRITE (rule 5), so one doorbell is as good.
Task<void> latched_increment_in_one_doorbell(Client* client, Store* store) {
  co_await latch(client, store);
  co_await client->qp->read(client->word(0), store->word(1));
  client->set(1, client->value(0) + 1);
  co_await client->qp->submit(fabric::write(client->word(1), store->word(1)),
                              fabric::fetch_add(store->word(0), ~std::uint64_t{0}));
}

// The WRITE may pass the atomic (rule 5), and even without that, others may come in before it.
Task<void> unlatch_before_the_write(Client* client, Store* store) {
  co_await latch(client, store);
  co_await client->qp->read(client->word(0), store->word(1));
  client->set(1, client->value(0) + 1);
  co_await client->qp->submit(fabric::fetch_add(store->word(0), ~std::uint64_t{0}),
                              fabric::write(client->word(1), store->word(1)));
}

void two_increments(World& world, Store& store) {
  world.require(store.value(1) == 2, "an increment is lost");
  world.require(store.value(0) == 0, "the latch is held");
}

TEST(Loops, ALatchKeepsIncrementsApart) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(clients({latched_increment, latched_increment}, two_increments), under(preset)))
        << name(preset);
    EXPECT_TRUE(is_safe(clients({latched_increment_in_one_doorbell, latched_increment_in_one_doorbell}, two_increments),
                        under(preset)))
        << name(preset);
  }
}

TEST(Loops, AnUnlatchBeforeTheWriteLosesAnIncrement) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(clients({unlatch_before_the_write, unlatch_before_the_write}, two_increments), under(preset),
                          Kind::assertion))
        << name(preset);
  }
}

TEST(Loops, ALostUnlatchIsADeadlockOfThoseWhoWait) {
  for (const Preset preset : kPresets) {
    const Verdict verdict = check(clients({latched_increment_without_unlatch, latched_increment}), under(preset));
    ASSERT_EQ(verdict.outcome, Outcome::broken) << name(preset);
    EXPECT_EQ(verdict.violation->kind, Kind::deadlock);
    // If client 0 is first, it never waits; client 1 then waits for ever.
    EXPECT_THAT(verdict.violation->what, HasSubstr("client 1"));
    EXPECT_THAT(verdict.violation->what, HasSubstr("wait"));
  }
}

TEST(Loops, NobodyWaitsForALatchThatNobodyElseWants) {
  EXPECT_TRUE(is_safe(clients({latched_increment_without_unlatch}), under(Preset::observed)));
}

Task<void> wait_for_flag(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Reactor::LoopId loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(2));
    if (client->value(0) != 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::from_ns(100));
  }
}

Task<void> raise_flag(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(2));
}

TEST(Loops, WhoWaitsForAFlagThatIsRaisedGetsOn) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(clients({wait_for_flag, raise_flag}), under(preset))) << name(preset);
  }
}

TEST(Loops, WhoWaitsForAFlagThatNobodyRaisesIsInADeadlock) {
  EXPECT_TRUE(is_broken(clients({wait_for_flag, increment}), under(Preset::observed), Kind::deadlock));
  EXPECT_TRUE(is_broken(clients({wait_for_flag}), under(Preset::observed), Kind::deadlock));
}

// ---- Loops that never end.

Task<void> read_again_and_again(Client* client, Store* store) {
  do {
    co_await client->qp->read(client->word(0), store->word(2));
  } while (client->value(0) == 0);
}

Task<void> sleep_for_ever(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(2));
  for (;;) {
    co_await client->qp->reactor().sleep(fabric::from_ns(100));
  }
}

Task<void> post_for_ever(Client* client, Store* store) {
  for (;;) {
    co_await client->qp->enqueue(fabric::fetch_add(store->word(0), 1));
  }
}

Task<void> sleep_and_end(Client* client, Store* /*store*/) {
  for (int i = 0; i < 1000; ++i) {
    co_await client->qp->reactor().sleep(fabric::from_ns(100));
  }
}

TEST(Loops, ALoopThatDoesNotSayItIsOneIsDecidedByItsStates) {
  Options options = under(Preset::observed);
  options.max_events = 300;
  // Nobody ends the loop. Its cycle is the trace.
  const Verdict alone = check(clients({read_again_and_again}), options);
  ASSERT_EQ(alone.outcome, Outcome::broken) << to_text(alone);
  EXPECT_EQ(alone.violation->kind, Kind::deadlock);
  EXPECT_THAT(to_text(alone), HasSubstr("from here on it repeats for ever"));
  // Another client ends it: what it posts arrives.
  EXPECT_TRUE(is_safe(clients({read_again_and_again, raise_flag}), options));
}

TEST(Loops, ALoopThatDoesNotSayItIsOneIsABoundWithoutStates) {
  Options options = under(Preset::observed);
  options.max_events = 300;
  options.states_for_loops = 0;
  const Verdict verdict = check(clients({read_again_and_again, raise_flag}), options);
  ASSERT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
  EXPECT_FALSE(verdict.only_loops_bounded);
  EXPECT_THAT(verdict.bound, HasSubstr("more than 300 events"));
  EXPECT_THAT(verdict.bound, HasSubstr("begin_retries"));
}

TEST(Loops, ALoopThatDoesNotSayItIsOneEndsTheSearchByItself) {
  Options options = under(Preset::observed);
  EXPECT_TRUE(is_broken(clients({read_again_and_again}), options, Kind::deadlock));
}

TEST(Loops, ATaskThatSleepsForEverIsALivelock) {
  const Verdict verdict = check(clients({sleep_for_ever}), under(Preset::observed));
  ASSERT_EQ(verdict.outcome, Outcome::broken);
  EXPECT_EQ(verdict.violation->kind, Kind::livelock);
  EXPECT_THAT(verdict.violation->what, HasSubstr("slept"));
  EXPECT_TRUE(is_safe(clients({sleep_and_end}), under(Preset::observed)));
}

TEST(Loops, ATaskThatPostsForEverNeverEnds) {
  Options options = under(Preset::observed);
  options.max_events = 300;
  const Verdict verdict = check(clients({post_for_ever}), options);
  EXPECT_NE(verdict.outcome, Outcome::safe) << to_text(verdict);
}

// Only the client's own sleep advances its time.
Task<void> look_at_the_clock(Client* client, Store* /*store*/) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Time before = reactor.now();
  co_await reactor.sleep(fabric::from_ns(250));
  client->world->require(reactor.now() == before + fabric::from_ns(250), "time did not pass");
}

TEST(Loops, TimePassesOnlyForWhoSleeps) {
  EXPECT_TRUE(is_safe(clients({look_at_the_clock, sleep_and_end}), under(Preset::observed)));
}

// ---- Exceptions.

Task<void> throw_error(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(0));
  throw std::runtime_error("the object is full");
}

Task<void> throw_number(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(0));
  throw 3;
}

// Throws only if the other client was first.
Task<void> throw_if_second(Client* client, Store* store) {
  const std::uint64_t old = co_await client->qp->fetch_add(store->word(0), 1);
  if (old == 1) {
    throw std::runtime_error("second");
  }
}

Task<void> use_wrong_rkey(Client* client, Store* store) {
  RemoteSpan word = store->word(0);
  word.rkey.value += 0x1000;
  co_await client->qp->read(client->word(0), word);
}

Task<void> use_wrong_address(Client* client, Store* store) {
  RemoteSpan word = store->word(0);
  word.address = word.address + 4 * 64;
  co_await client->qp->fetch_add(word, 1);
}

Task<void> reach_over_the_end(Client* client, Store* store) {
  RemoteSpan lines = store->lines(3, 1);
  lines.length = 128;
  co_await client->qp->read(client->lines(0, 2), lines);
}

std::string exception_of(ClientTask task) {
  const Verdict verdict = check(clients({task}), under(Preset::observed));
  if (!verdict.violation || verdict.violation->kind != Kind::exception) {
    return "no exception: " + to_text(verdict);
  }
  return verdict.violation->what;
}

TEST(Exceptions, ThatLeaveATaskAreViolations) {
  EXPECT_EQ(exception_of(throw_error), "client 0: the object is full");
  EXPECT_THAT(exception_of(throw_number), HasSubstr("client 0: "));
  EXPECT_EQ(check(clients({throw_if_second, add_one}), under(Preset::observed)).violation->what, "client 0: second");
  EXPECT_TRUE(is_safe(clients({throw_if_second}), under(Preset::observed)));
}

TEST(Exceptions, OfARequestThatTheTargetRefusesNameIt) {
  EXPECT_THAT(exception_of(use_wrong_rkey), AllOf(HasSubstr("rkey"), HasSubstr("no live region of node memory")));
  // 4 lines from 0x1000.
  EXPECT_THAT(exception_of(use_wrong_address), AllOf(HasSubstr("0x1100"), HasSubstr("[0x1000, 0x1100)")));
  EXPECT_THAT(exception_of(reach_over_the_end), AllOf(HasSubstr("0x10c0"), HasSubstr("[0x1000, 0x1100)")));
}

Task<void> read_without_access(Client* client, RemoteSpan word) { co_await client->qp->read(client->word(0), word); }
Task<void> add_without_access(Client* client, RemoteSpan word) { co_await client->qp->fetch_add(word, 1); }

TEST(Exceptions, OfAnAccessThatTheRegionDoesNotAllow) {
  const auto verdict_of = [](Task<void> (*task)(Client*, RemoteSpan), fabric::Access access) {
    return check(
        [=](World& world) {
          auto& store = world.make<Store>(world);
          auto& region = world.make<fabric::MemoryRegion>(store.node->allocate(64, access));
          auto& client = world.make<Client>(world, store, "client");
          world.spawn(*client.node, task(&client, region.remote(0, 8)));
        },
        under(Preset::observed));
  };
  EXPECT_EQ(verdict_of(read_without_access, fabric::Access::remote_read).outcome, Outcome::safe);
  EXPECT_EQ(verdict_of(add_without_access, fabric::Access::remote_atomic).outcome, Outcome::safe);
  const Verdict refused = verdict_of(add_without_access, fabric::Access::remote_read);
  ASSERT_TRUE(refused.violation);
  EXPECT_EQ(refused.violation->kind, Kind::exception);
  EXPECT_THAT(refused.violation->what, HasSubstr("the region has access remote_read"));
}

// ---- Local buffers.

Task<void> change_after_the_post(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  client->set(0, 2);
}

Task<void> change_a_step_after_the_post(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  co_await client->world->yield(*client->node);
  client->set(0, 2);
}

Task<void> change_after_the_post_inlined(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)).with_inline());
  client->set(0, 2);
}

Task<void> change_after_a_wait(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->write(client->word(0), store->word(0));
  client->set(0, 2);
}

Task<void> change_another_line(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  client->set(1, 2);
}

// The READ delivers into a buffer that the WRITE before it may still send.
Task<void> read_into_the_buffer(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->submit(fabric::write(client->word(0), store->word(0)));
  co_await client->qp->submit(fabric::read(client->word(0), store->word(1)));
}

// The NIC may have fetched the buffer, but the client does not know.
Task<void> change_before_it_is_known_to_be_sent(Client* client, Store* store, fabric::QueuePair* second) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  co_await second->read(client->word(1), store->word(1));
  client->set(0, 2);
  co_await client->qp->drain();
}

// A WRITE behind a READ sends on the delivered bytes: only the NIC changes the buffer.
Task<void> send_on_what_was_read(Client* client, Store* store) {
  const std::uint64_t first = client->qp->posted() + 1;
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(1)).with_signal(),
                               fabric::write(client->word(0), store->word(0)).with_fence());
  co_await client->qp->reach(first);
  co_await client->qp->drain();
}

// Another client changes a buffer in flight, which its owner does not touch: old or new bytes are sent.
Task<void> send_on_the_mailbox(fabric::MemoryRegion* mailbox, Client* client, Store* store, fabric::QueuePair* second) {
  co_await client->qp->enqueue(fabric::write(mailbox->local(0, 8), store->word(0)));
  co_await second->read(client->word(1), store->word(1));
  co_await second->read(client->word(1), store->word(1));
  co_await client->qp->drain();
}
Task<void> put_into(fabric::MemoryRegion* mailbox, Client* client, fabric::QueuePair* to_mailbox) {
  client->set(0, 7);
  co_await to_mailbox->write(client->word(0), mailbox->remote(0, 8));
}

void first_value(World& world, Store& store) { world.require(store.value(0) == 1, "another value was sent"); }

TEST(Buffers, ChangedAfterThePostOfAWriteRace) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(clients({change_after_the_post}, first_value), under(preset), Kind::buffer_race))
        << name(preset);
    EXPECT_TRUE(is_broken(clients({change_a_step_after_the_post}, first_value), under(preset), Kind::buffer_race))
        << name(preset);
  }
}

TEST(Buffers, ChangedBeforeItIsKnownToBeSentRace) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    auto& second = world.make<std::unique_ptr<fabric::QueuePair>>(client.node->connect(*store.node));
    world.spawn(*client.node, change_before_it_is_known_to_be_sent(&client, &store, second.get()));
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(program, under(preset), Kind::buffer_race)) << name(preset);
    EXPECT_TRUE(is_safe(clients({send_on_what_was_read}), under(preset))) << name(preset);
  }
}

TEST(Buffers, ThatAnotherClientWritesToAreNoRace) {
  for (const Preset preset : kPresets) {
    for (const std::uint64_t sent : {0U, 7U, 1U}) {
      const Program program = [sent](World& world) {
        auto& store = world.make<Store>(world);
        auto& owner = world.make<Client>(world, store, "owner");
        auto& writer = world.make<Client>(world, store, "writer");
        auto& mailbox = world.make<fabric::MemoryRegion>(owner.node->allocate(64, fabric::Access::remote_all));
        auto& second = world.make<std::unique_ptr<fabric::QueuePair>>(owner.node->connect(*store.node));
        auto& to_mailbox = world.make<std::unique_ptr<fabric::QueuePair>>(writer.node->connect(*owner.node));
        world.spawn(*owner.node, send_on_the_mailbox(&mailbox, &owner, &store, second.get()));
        world.spawn(*writer.node, put_into(&mailbox, &writer, to_mailbox.get()));
        world.at_end([&world, &store, sent](const Order&) { world.require(store.value(0) != sent, "it was sent"); });
      };
      if (sent == 1) {
        EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
      } else {
        EXPECT_TRUE(is_broken(program, under(preset), Kind::assertion)) << name(preset) << sent;
      }
    }
  }
}

TEST(Buffers, OfAnInlinedOrACompletedWriteAreFree) {
  for (const Preset preset : kPresets) {
    for (const ClientTask task :
         {change_after_the_post_inlined, change_after_a_wait, change_another_line, read_into_the_buffer}) {
      EXPECT_TRUE(is_safe(clients({task}, task == read_into_the_buffer ? nullptr : first_value), under(preset)))
          << name(preset);
    }
  }
}

TEST(Buffers, ARaceNamesTheWriteAndShowsItsPostBeforeTheChange) {
  const Verdict verdict = check(clients({change_a_step_after_the_post}), under(Preset::observed));
  ASSERT_TRUE(verdict.violation);
  EXPECT_THAT(verdict.violation->what, AllOf(HasSubstr("client 0"), HasSubstr("bytes 0 to 8"), HasSubstr("qp0[0]")));
  // The client starts and posts, then continues and changes the buffer; the NIC need not have done anything.
  const std::vector<TraceStep>& trace = verdict.violation->trace;
  const auto posts = std::ranges::find(trace, "posts", &TraceStep::action);
  ASSERT_NE(posts, trace.end());
  EXPECT_EQ(posts->actor, "client 0");
  EXPECT_THAT(posts->wr, HasSubstr("qp0[0] WRITE"));
  EXPECT_LT(posts, trace.end() - 1);
  EXPECT_EQ(trace.back().note, verdict.violation->what);
  EXPECT_EQ(verdict.violation->choices, (std::vector<std::string>{"client:1:0:0", "client:1:1:0"}));
}

Task<void> store_local_after_the_post(Client* client, Store* store) {
  client->set(0, 1);
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  co_await client->world->store_local(*client->node, client->word(0), 2);
  co_await client->qp->drain();
}

TEST(Buffers, AStoreThatIsMeantSendsOneValueOrTheOther) {
  std::mutex mutex;
  std::set<std::uint64_t> values;
  const Program program = clients({store_local_after_the_post}, [&](World& /*world*/, Store& store) {
    const std::scoped_lock lock(mutex);
    values.insert(store.value(0));
  });
  EXPECT_TRUE(is_safe(program, under(Preset::observed)));
  EXPECT_EQ(values, (std::set<std::uint64_t>{1, 2}));
}

// ---- Several of everything.

TEST(Parts, AtomicsThroughTwoNicsLoseAnUpdateUnlessTheyAreGlobal) {
  const auto program = [](unsigned second_nic, std::set<std::uint64_t>* values) {
    return [=](World& world) {
      auto& store = world.make<Store>(world, 1, 2);
      for (const unsigned nic : {0U, second_nic}) {
        auto& client = world.make<Client>(world, store, "client", nic);
        world.spawn(*client.node, add_one(&client, &store));
      }
      world.at_end([=, &store](const Order& /*order*/) { values->insert(store.value(0)); });
    };
  };
  const auto values_of = [&](unsigned second_nic, fabric::model::Rules rules) {
    std::set<std::uint64_t> values;
    EXPECT_TRUE(is_safe(program(second_nic, &values), {.rules = rules, .threads = 1}));
    return values;
  };
  using Values = std::set<std::uint64_t>;
  EXPECT_EQ(values_of(0, rules_of(Preset::observed)), Values{2});
  EXPECT_EQ(values_of(1, rules_of(Preset::observed)), (Values{1, 2}));  // rule 8
  EXPECT_EQ(values_of(1, rules_of(Preset::strict)), Values{2});
  fabric::model::Rules global = rules_of(Preset::observed);
  global.atomic_scope = fabric::model::AtomicScope::global;
  EXPECT_EQ(values_of(1, global), Values{2});
}

// Data at one memory node, the flag at another.
struct TwoStores {
  explicit TwoStores(World& world) : data(world, 1, 1, "data"), flag(world, 1, 1, "flag") {}
  Store data;
  Store flag;
};

struct TwoQueuePairs {
  TwoQueuePairs(World& the_world, fabric::Node& first, fabric::Node& second, std::string_view name)
      : world(&the_world),
        node(&the_world.add_node(name)),
        buffers(node->allocate(256, fabric::Access::local_write)),
        to_first(node->connect(first)),
        to_second(node->connect(second)) {}
  World* world;
  fabric::Node* node;
  fabric::MemoryRegion buffers;
  std::unique_ptr<fabric::QueuePair> to_first;
  std::unique_ptr<fabric::QueuePair> to_second;
};

Task<void> publish(TwoQueuePairs* client, TwoStores* stores, bool waits) {
  const std::uint64_t one = 1;
  std::memcpy(client->buffers.bytes().data(), &one, sizeof one);
  const fabric::LocalSpan word = client->buffers.local(0, 8);
  co_await client->to_first->enqueue(fabric::write(word, stores->data.word(0)));
  if (waits) {
    co_await client->to_first->drain();
  }
  co_await client->to_second->write(word, stores->flag.word(0));
}

Task<void> look(TwoQueuePairs* client, TwoStores* stores) {
  co_await client->to_second->read(client->buffers.local(0, 8), stores->flag.word(0));
  co_await client->to_first->read(client->buffers.local(64, 8), stores->data.word(0));
  const bool flag = word_in(client->buffers.bytes()) == 1;
  const bool data = word_in(client->buffers.bytes(), 64) == 1;
  client->world->require(data || !flag, "the flag is there, and the data is not");
}

TEST(Parts, TwoMemoryNodesAreOrderedByAWaitOnly) {
  const auto program = [](bool waits) {
    return [waits](World& world) {
      auto& stores = world.make<TwoStores>(world);
      auto& writer = world.make<TwoQueuePairs>(world, *stores.data.node, *stores.flag.node, "writer");
      auto& reader = world.make<TwoQueuePairs>(world, *stores.data.node, *stores.flag.node, "reader");
      world.spawn(*writer.node, publish(&writer, &stores, waits));
      world.spawn(*reader.node, look(&reader, &stores));
    };
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_broken(program(false), under(preset), Kind::assertion)) << name(preset);  // rule 7
    // Rule 2: the reader's READ is posted after the WRITE has completed.
    EXPECT_TRUE(is_safe(program(true), under(preset))) << name(preset);
  }
}

Task<void> write_and_read(TwoQueuePairs* client, Store* store, bool second, bool waits) {
  const std::uint64_t one = 1;
  std::memcpy(client->buffers.bytes().data(), &one, sizeof one);
  co_await client->to_first->enqueue(fabric::write(client->buffers.local(0, 8), store->word(0)));
  if (waits) {
    co_await client->to_first->drain();
  }
  fabric::QueuePair& qp = second ? *client->to_second : *client->to_first;
  co_await qp.read(client->buffers.local(64, 8), store->word(0));
  client->world->require(word_in(client->buffers.bytes(), 64) == 1, "the client does not see its own WRITE");
}

TEST(Parts, QueuePairsOfOneClientAreNotOrdered) {
  const auto program = [](bool second, bool waits) {
    return [=](World& world) {
      auto& store = world.make<Store>(world);
      auto& client = world.make<TwoQueuePairs>(world, *store.node, *store.node, "client");
      world.spawn(*client.node, write_and_read(&client, &store, second, waits));
    };
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program(false, false), under(preset))) << name(preset);                    // rule 5
    EXPECT_TRUE(is_broken(program(true, false), under(preset), Kind::assertion)) << name(preset);  // rule 7
    EXPECT_TRUE(is_safe(program(true, true), under(preset))) << name(preset);                      // rule 2
  }
}

Task<void> store_and_load(Cpu* cpu, LocalSpan own, LocalSpan other, bool fenced, std::uint64_t* seen) {
  co_await cpu->store(own, 1);
  if (fenced) {
    co_await cpu->fence();
  }
  const std::uint64_t value = co_await cpu->load(other);
  *seen = value;
}

TEST(Parts, CpuThreadsHaveStoreBuffers) {
  using Seen = std::array<std::uint64_t, 2>;
  const auto reached = [](Preset preset, bool first_fence, bool second_fence) {
    std::set<Seen> all;
    const Program program = [&](World& world) {
      auto& store = world.make<Store>(world);
      auto& seen = world.make<Seen>();
      Cpu& first = world.add_cpu(*store.node, "cpu 0");
      Cpu& second = world.add_cpu(*store.node, "cpu 1");
      world.spawn(first, store_and_load(&first, store.own(0), store.own(1), first_fence, seen.data()));
      world.spawn(second, store_and_load(&second, store.own(1), store.own(0), second_fence, &seen[1]));
      world.at_end([&](const Order& /*order*/) { all.insert(seen); });
    };
    EXPECT_TRUE(is_safe(program, {.rules = rules_of(preset), .threads = 1}));
    return all;
  };
  const std::set<Seen> fenced = {{0, 1}, {1, 0}, {1, 1}};
  std::set<Seen> buffered = fenced;
  buffered.insert({0, 0});
  for (const Preset preset : kPresets) {
    EXPECT_EQ(reached(preset, false, false), buffered);
    EXPECT_EQ(reached(preset, true, false), buffered);
    EXPECT_EQ(reached(preset, true, true), fenced);
  }
}

Task<void> load_own(Cpu* cpu, World* world, LocalSpan word) {
  co_await cpu->store(word, 1);
  co_await cpu->store(word, 2);
  const std::uint64_t value = co_await cpu->load(word);
  world->require(value == 2, "a thread does not see its own youngest store");
}

TEST(Parts, ACpuThreadSeesItsOwnStores) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    Cpu& cpu = world.add_cpu(*store.node, "cpu");
    world.spawn(cpu, load_own(&cpu, &world, store.own(0)));
    world.at_end([&](const Order& /*order*/) { world.require(store.value(0) == 2, "a store is lost"); });
  };
  EXPECT_TRUE(is_safe(program, under(Preset::observed)));
}

// Two tasks of one client, each of which begins in a step of its own.
TEST(Parts, AClientMayHaveSeveralTasks) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, add_one(&client, &store));
    world.spawn(*client.node, add_one(&client, &store));
    world.at_end([&](const Order& /*order*/) { world.require(store.value(0) == 2, "an increment is lost"); });
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
  }
}

// ---- Crashes.

Task<void> write_two(Client* client, Store* store) {
  client->set(0, 1);
  client->set(1, 1);
  co_await client->qp->write(client->word(0), store->word(0));
  co_await client->qp->write(client->word(1), store->word(1));
}

TEST(Crashes, MayComeBetweenAnyTwoStepsAndAtMostOnce) {
  const auto reached = [](bool may_crash) {
    std::set<std::array<std::uint64_t, 3>> all;
    const Program program = [&](World& world) {
      auto& store = world.make<Store>(world);
      auto& client = world.make<Client>(world, store, "client");
      world.spawn(*client.node, write_two(&client, &store));
      if (may_crash) {
        world.may_crash(*client.node);
      }
      world.at_end([&](const Order& /*order*/) {
        all.insert({store.value(0), store.value(1), world.crashed() ? 1U : 0U});
      });
    };
    EXPECT_TRUE(is_safe(program, {.rules = rules_of(Preset::observed), .threads = 1}));
    return all;
  };
  using States = std::set<std::array<std::uint64_t, 3>>;
  EXPECT_EQ(reached(false), (States{{1, 1, 0}}));
  // Posted requests are placed (rule 9); the second is posted only after the first has completed.
  EXPECT_EQ(reached(true), (States{{1, 1, 0}, {0, 0, 1}, {1, 0, 1}, {1, 1, 1}}));
}

// ---- Queue pairs.

Task<void> post_and_end(std::unique_ptr<fabric::QueuePair> qp, RemoteSpan to, bool drain) {
  co_await qp->enqueue(fabric::fetch_add(to, 1));
  if (drain) {
    co_await qp->drain();
  }
}

TEST(Parts, AQueuePairOutlivesItsRequests) {
  const auto program = [](bool drain) {
    return [drain](World& world) {
      auto& store = world.make<Store>(world);
      fabric::Node& node = world.add_node("client");
      world.spawn(node, post_and_end(world.connect(node, *store.node, 0, {}), store.word(0), drain));
      world.at_end([&](const Order& /*order*/) { world.require(store.value(0) == 1, "what was posted is executed"); });
    };
  };
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(program(true), under(preset))) << name(preset);
    EXPECT_TRUE(is_broken(program(false), under(preset), Kind::exception)) << name(preset);
  }
}

Task<void> post_for_another(Client* client, Store* store) { co_await client->qp->fetch_add(store->word(0), 1); }

TEST(Parts, AClientPostsOnItsOwnQueuePairsOnly) {
  const Program foreign = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& owner = world.make<Client>(world, store, "owner");
    world.spawn(world.add_node("other"), post_for_another(&owner, &store));
  };
  EXPECT_TRUE(is_broken(foreign, under(Preset::observed), Kind::exception));
  const Program early = [](World& world) {
    auto& store = world.make<Store>(world);
    auto& owner = world.make<Client>(world, store, "owner");
    const std::array chain = {fabric::fetch_add(store.word(0), 1)};
    static_cast<void>(owner.qp->post(chain));
  };
  EXPECT_THROW(static_cast<void>(check(early, under(Preset::observed))), std::logic_error);
}

// The waiting task's READ is in front of the other task's WRITE in their queue pair.
Task<void> wait_behind_own_flag(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Reactor::LoopId loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::from_ns(100));
  }
}
Task<void> look_and_raise_flag(Client* client, Store* store) {
  co_await client->qp->read(client->word(1), store->word(1));
  client->set(2, 1);
  co_await client->qp->write(client->word(2), store->word(0));
}

TEST(Parts, TasksOfAClientMayWaitForEachOther) {
  std::uint32_t judged = 0;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world);
    auto& client = world.make<Client>(world, store, "client");
    world.spawn(*client.node, wait_behind_own_flag(&client, &store));
    world.spawn(*client.node, look_and_raise_flag(&client, &store));
    world.at_end([&](const Order& /*order*/) { ++judged; });
  };
  // While another task is there, no attempt is left out.
  EXPECT_TRUE(is_safe_within_retries(program, {.rules = rules_of(Preset::observed), .threads = 1}));
  EXPECT_GT(judged, 0U);
}

TEST(Parts, ACpuThreadHasOneTask) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    Cpu& cpu = world.add_cpu(*store.node, "cpu");
    world.spawn(cpu, load_own(&cpu, &world, store.own(0)));
    world.spawn(cpu, load_own(&cpu, &world, store.own(0)));
  };
  EXPECT_THROW(static_cast<void>(check(program, under(Preset::observed))), std::invalid_argument);
}

// ---- Liveness after a crash.

TEST(Crashes, WaitingForTheDeadIsADeadlockOnlyIfTheProgramSaysSo) {
  const auto program = [](bool liveness) {
    return [liveness](World& world) {
      auto& store = world.make<Store>(world);
      for (const char* name : {"first", "second"}) {
        auto& client = world.make<Client>(world, store, name);
        world.spawn(*client.node, latched_increment(&client, &store));
        if (std::string_view(name) == "first") {
          world.may_crash(*client.node);
        }
      }
      if (liveness) {
        world.require_liveness_after_crash();
      }
    };
  };
  EXPECT_TRUE(is_safe(program(false), under(Preset::observed)));
  EXPECT_TRUE(is_broken(program(true), under(Preset::observed), Kind::deadlock));
}

// CPU threads may have done anything when a lease ends.
Task<void> take_and_keep(Client* client, Store* store) {
  co_await client->qp->compare_swap(store->word(0), 0, 1);
  co_await client->qp->fetch_add(store->word(0), ~std::uint64_t{0});
}
Task<void> wait_for_the_lease(Client* client, Store* store, std::uint64_t* seen) {
  fabric::Reactor& reactor = client->qp->reactor();
  const fabric::Reactor::LoopId loop = reactor.begin_retries();
  const fabric::Time began = reactor.now();
  for (;;) {
    const std::uint64_t latch = co_await client->qp->compare_swap(store->word(0), 0, 2);
    if (latch == 0) {
      co_return;
    }
    if (reactor.now() - began > fabric::from_ns(1e9)) {
      break;
    }
    co_await reactor.retry(loop, fabric::from_ns(100));
  }
  co_await client->qp->read(client->word(0), store->word(1));
  *seen = client->value(0);
}
Task<void> store_once(Cpu* cpu, LocalSpan word) { co_await cpu->store(word, 1); }

TEST(Crashes, ALeaseEndsWhateverCpuThreadsDo) {
  std::set<std::uint64_t> all;
  const Program program = [&](World& world) {
    auto& store = world.make<Store>(world);
    auto& seen = world.make<std::uint64_t>(77);
    auto& holder = world.make<Client>(world, store, "holder");
    auto& waiter = world.make<Client>(world, store, "waiter");
    Cpu& cpu = world.add_cpu(*store.node, "cpu");
    world.may_crash(*holder.node);
    world.spawn(*holder.node, take_and_keep(&holder, &store));
    world.spawn(*waiter.node, wait_for_the_lease(&waiter, &store, &seen));
    world.spawn(cpu, store_once(&cpu, store.own(1)));
    world.at_end([&](const Order& /*order*/) { all.insert(seen); });
  };
  EXPECT_TRUE(is_safe(program, {.rules = rules_of(Preset::observed), .threads = 1}));
  EXPECT_EQ(all, (std::set<std::uint64_t>{0, 1, 77}));  // 77: the latch was free
}

}  // namespace
}  // namespace sidelatch::explore
