// What a client may see of another although no request tells it, and although nothing else joins their steps: private
// memory of a node that has threads, what a request's end writes, objects that were linked, changes that are undone.
// In each program one changes a value so often as the other looks, so the other may see each value in turn; and that is
// what it says never happens.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>
#include <sidelatch/fabric/error.h>

#include "checking.h"
#include "clients.h"
#include "either_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace sidelatch::explore {
namespace {

using fabric::Cpu;
using fabric::Task;
using fabric::model::Preset;
using ::testing::HasSubstr;

constexpr int kTimes = 4;

struct Two {
  explicit Two(World& world)
      : store(world.make<Store>(world, 8)),
        first(world.make<Client>(world, store, "first")),
        second(world.make<Client>(world, store, "second")) {}
  Store& store;
  Client& first;
  Client& second;
};

Task<void> step(Client* client, Store* store, std::uint64_t line) {
  co_await client->qp->fetch_add(store->word(line), 1);
}

// ---- A node with a thread: its private memory is common to the two.

Task<void> read_lines(Client* client, Store* store) {
  for (int i = 1; i <= kTimes; ++i) {
    co_await client->qp->read(client->word(0), store->word(static_cast<std::uint64_t>(i)));
  }
}
Task<void> watch_by_pointer(Cpu* cpu, Client* client) {
  bool all = true;
  for (int i = 1; i <= kTimes; ++i) {
    co_await cpu->load(client->word(8));
    all = all && client->value(0) == static_cast<std::uint64_t>(i);
  }
  client->world->require(!all, "each value was seen");
}
void a_read_fills_what_a_thread_looks_at(World& world) {
  auto& store = world.make<Store>(world, 8);
  for (std::uint64_t i = 1; i <= kTimes; ++i) {
    std::memcpy(store.memory.bytes().data() + i * 64, &i, sizeof i);
  }
  auto& client = world.make<Client>(world, store, "client");
  Cpu& cpu = world.add_cpu(*client.node, "thread");
  world.spawn(*client.node, read_lines(&client, &store));
  world.spawn(cpu, watch_by_pointer(&cpu, &client));
}

Task<void> store_by_pointer(Client* client, Store* store) {
  for (int i = 1; i <= kTimes; ++i) {
    client->set(0, static_cast<std::uint64_t>(i));
    co_await step(client, store, 0);
  }
}
// Both by pointers: no request and no access of the thread joins them.
Task<void> watch_by_pointer_alone(Cpu* cpu, Client* client) {
  bool all = true;
  for (int i = 1; i <= kTimes; ++i) {
    co_await cpu->fence();
    all = all && client->value(0) == static_cast<std::uint64_t>(i);
  }
  client->world->require(!all, "each value was seen");
}
void a_client_stores_what_a_thread_looks_at(World& world) {
  auto& store = world.make<Store>(world);
  auto& client = world.make<Client>(world, store, "client");
  Cpu& cpu = world.add_cpu(*client.node, "thread");
  world.spawn(*client.node, store_by_pointer(&client, &store));
  world.spawn(cpu, watch_by_pointer_alone(&cpu, &client));
}

// Each attempt shows 5 and then 0, and ends as the one before.
Task<void> read_until_told(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(1));
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::Duration::zero());
  }
}
Task<void> watch_attempts_to_read(Cpu* cpu, Client* client) {
  bool alternates = true;
  for (int i = 0; i < 2 * kTimes; ++i) {
    const std::uint64_t seen = co_await cpu->load(client->word(0));
    alternates = alternates && seen == (i % 2 == 0 ? 5U : 0U);
  }
  client->world->require(!alternates, "each value was seen");
}
void attempts_read_into_what_a_thread_loads(World& world) {
  auto& store = world.make<Store>(world);
  constexpr std::uint64_t kFive = 5;
  std::memcpy(store.memory.bytes().data() + 64, &kFive, sizeof kFive);
  auto& client = world.make<Client>(world, store, "client");
  auto& teller = world.make<Client>(world, store, "teller");
  Cpu& cpu = world.add_cpu(*client.node, "thread");
  world.spawn(*client.node, read_until_told(&client, &store));
  world.spawn(*teller.node, add_one(&teller, &store));
  world.spawn(cpu, watch_attempts_to_read(&cpu, &client));
}

Task<void> watch_by_loads(Cpu* cpu, Client* client) {
  bool all = true;
  for (int i = 1; i <= kTimes; ++i) {
    const std::uint64_t seen = co_await cpu->load(client->word(0));
    all = all && seen == static_cast<std::uint64_t>(i);
  }
  client->world->require(!all, "each value was seen");
}
void a_client_stores_what_a_thread_loads(World& world) {
  auto& store = world.make<Store>(world);
  auto& client = world.make<Client>(world, store, "client");
  Cpu& cpu = world.add_cpu(*client.node, "thread");
  world.spawn(*client.node, store_by_pointer(&client, &store));
  world.spawn(cpu, watch_by_loads(&cpu, &client));
}

// ---- The old values of a chain.

struct OldValues {
  std::array<std::uint64_t, 1> old{};
};

Task<void> submit_into(Client* client, Store* store, OldValues* values) {
  for (int i = 1; i <= kTimes; ++i) {
    const std::array chain{fabric::fetch_add(store->word(0), 1)};
    co_await client->qp->submit(std::span(chain), std::span(values->old));
  }
}
Task<void> watch_old_values(Client* client, Store* store, OldValues* values) {
  bool all = true;
  for (int i = 1; i <= kTimes; ++i) {
    co_await step(client, store, 1);
    all = all && values->old[0] == static_cast<std::uint64_t>(i);
  }
  client->world->require(!all, "each value was seen");
}
void old_values_go_into_an_object(World& world) {
  auto& two = world.make<Two>(world);
  const std::uint64_t one = 1;
  std::memcpy(two.store.memory.bytes().data(), &one, sizeof one);
  auto& values = world.make<OldValues>();
  world.spawn(*two.first.node, submit_into(&two.first, &two.store, &values));
  world.spawn(*two.second.node, watch_old_values(&two.second, &two.store, &values));
}

// ---- An object that was linked while another client looked.

struct Link {
  int* object = nullptr;
};

Task<void> link_for_a_while(Client* client, Store* store, Link* link, int* own) {
  link->object = own;
  co_await step(client, store, 0);
  link->object = nullptr;
  for (int i = 1; i <= kTimes; ++i) {
    co_await step(client, store, 0);
    *own = i;
  }
  co_await step(client, store, 0);
}
Task<void> keep_the_link(Client* client, Store* store, Link* link) {
  co_await step(client, store, 1);
  const int* const object = link->object;
  bool all = object != nullptr;
  for (int i = 1; i <= kTimes; ++i) {
    co_await step(client, store, 1);
    all = all && *object == i;
  }
  client->world->require(!all, "each value was seen");
  co_await step(client, store, 1);
}
void an_object_is_linked_no_more(World& world) {
  auto& two = world.make<Two>(world);
  auto& link = world.make<Link>();
  auto& own = world.make<int>(0);
  world.spawn(*two.first.node, link_for_a_while(&two.first, &two.store, &link, &own));
  world.spawn(*two.second.node, keep_the_link(&two.second, &two.store, &link));
}

// ---- A change that the same attempt undoes.

struct Inside {
  int is_inside = 0;
};

Task<void> try_again(Client* client, Store* store, Inside* inside) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    inside->is_inside = 1;
    co_await client->qp->read(client->word(0), store->word(0));
    inside->is_inside = 0;
    if (client->value(0) != 0) {
      co_return;
    }
    co_await reactor.retry(loop, fabric::from_ns(10));
  }
}
Task<void> watch_attempts(Client* client, Store* store, Inside* inside) {
  bool alternates = true;
  for (int i = 0; i < kTimes + 1; ++i) {
    co_await step(client, store, 1);
    alternates = alternates && inside->is_inside == (i + 1) % 2;
  }
  client->world->require(!alternates, "each value was seen");
  co_await step(client, store, 0);
}
void attempts_undo_a_change(World& world) {
  auto& two = world.make<Two>(world);
  auto& inside = world.make<Inside>();
  world.spawn(*two.first.node, try_again(&two.first, &two.store, &inside));
  world.spawn(*two.second.node, watch_attempts(&two.second, &two.store, &inside));
}

// ---- A task of a task.

Task<void> throw_later(Client* client, Store* store) {
  co_await step(client, store, 0);
  throw std::runtime_error("each value was seen");
}
Task<void> spawn_one(Client* client, Store* store) {
  client->qp->reactor().spawn(throw_later(client, store));
  co_await step(client, store, 1);
}
void a_task_of_a_task_throws(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, spawn_one(&two.first, &two.store));
  world.spawn(*two.second.node, step(&two.second, &two.store, 2));
}

struct Named {
  const char* name;
  void (*program)(World&);
};
void PrintTo(const Named& named, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << named.name;
}

class UnseenChanges : public ::testing::TestWithParam<std::tuple<Named, Mode>> {};

TEST_P(UnseenChanges, AreSeen) {
  const auto& [named, mode] = GetParam();
  Options options = under(Preset::observed);
  options.mode = mode;
  options.walks = 0;
  options.threads = 1;
  options.max_events = 2000;
  const Verdict verdict = check(named.program, options);
  ASSERT_EQ(verdict.outcome, Outcome::broken) << verdict.bound;
  EXPECT_THAT(verdict.violation->what, HasSubstr("each value was seen"));
}

INSTANTIATE_TEST_SUITE_P(
    All, UnseenChanges,
    ::testing::Combine(
        ::testing::Values(Named{"ReadFillsWhatAThreadLooksAt", a_read_fills_what_a_thread_looks_at},
                          Named{"ClientStoresWhatAThreadLoads", a_client_stores_what_a_thread_loads},
                          Named{"ClientStoresWhatAThreadLooksAt", a_client_stores_what_a_thread_looks_at},
                          Named{"AttemptsReadIntoWhatAThreadLoads", attempts_read_into_what_a_thread_loads},
                          Named{"OldValues", old_values_go_into_an_object},
                          Named{"LinkedNoMore", an_object_is_linked_no_more},
                          Named{"UndoneByTheAttempt", attempts_undo_a_change},
                          Named{"TaskOfATaskThrows", a_task_of_a_task_throws}),
        ::testing::Values(Mode::exhaustive, Mode::states)),
    [](const auto& one) {
      return std::string(std::get<0>(one.param).name) +
             std::string(std::get<1>(one.param) == Mode::states ? "States" : "");
    });

// ---- What is not decided, and is not called safe.

Task<void> leak(Client* client, Store* store, int* shared) {
  const int* const left = new int(7);  // NOLINT(cppcoreguidelines-owning-memory): that is the mistake
  for (int i = 1; i <= kTimes; ++i) {
    *shared = i;
    co_await step(client, store, 0);
  }
  client->world->require(*left == 7, "it is still there");
}
Task<void> watch_an_object(Client* client, Store* store, const int* shared) {
  bool all = true;
  for (int i = 1; i <= kTimes; ++i) {
    co_await step(client, store, 1);
    all = all && *shared == i;
  }
  client->world->require(!all, "each value was seen");
}
void a_task_leaves_an_object(World& world) {
  auto& two = world.make<Two>(world);
  auto& shared = world.make<int>(0);
  world.spawn(*two.first.node, leak(&two.first, &two.store, &shared));
  world.spawn(*two.second.node, watch_an_object(&two.second, &two.store, &shared));
}

Task<void> ask_for_crashes(Client* client, Store* store) {
  co_await step(client, store, 1);
  client->world->require(!client->world->crashed(), "each value was seen");
}
void a_client_asks_for_crashes(World& world) {
  auto& two = world.make<Two>(world);
  world.may_crash(*two.first.node);
  world.spawn(*two.first.node, step(&two.first, &two.store, 0));
  world.spawn(*two.second.node, ask_for_crashes(&two.second, &two.store));
}

struct Messages {
  std::pair<std::unique_ptr<fabric::QueuePair>, std::unique_ptr<fabric::QueuePair>> ends;
  std::unique_ptr<fabric::QueuePair> to_partner;
  fabric::MemoryRegion flag;
};

// The partner may see the flag although there is no buffer yet, and will be none.
Task<void> tell_and_receive(Client* client, Messages* messages) {
  client->set(0, 1);
  co_await messages->to_partner->enqueue(fabric::write(client->word(0), messages->flag.remote(0, 8)));
  static_cast<void>(messages->ends.first->post_receive(client->word(1)));
  co_await messages->to_partner->drain();
}
Task<void> send_if_told(Client* partner, Messages* messages) {
  const std::uint64_t told = co_await partner->node->cpu().load(messages->flag.local(0, 8));
  if (told == 1) {
    co_await messages->ends.second->submit(fabric::send(partner->word(0)));
  }
}
void a_client_crashes_before_it_posts_a_buffer(World& world) {
  auto& two = world.make<Two>(world);
  auto& messages = world.make<Messages>();
  messages.ends = two.first.node->connect_pair(*two.second.node);
  messages.to_partner = world.connect(*two.first.node, *two.second.node, 0, {});
  messages.flag = two.second.node->allocate(64, fabric::Access::remote_all);
  world.may_crash(*two.first.node);
  world.require_liveness_after_crash();
  world.spawn(*two.first.node, tell_and_receive(&two.first, &messages));
  world.spawn(*two.second.node, send_if_told(&two.second, &messages));
}

TEST(Crashes, ComeBetweenARequestAndAReceiveBuffer) {
  EXPECT_TRUE(is_broken(a_client_crashes_before_it_posts_a_buffer, under(Preset::observed), Kind::deadlock));
}

// A revocation disables steps of others, so what else is done in its step is not explored as it happens.
struct Work {
  int done = 0;
};
Task<void> do_work(Client* client, Store* store, Work* shared) {
  try {
    co_await client->qp->submit(fabric::fetch_add(store->word(0), 1));
    shared->done = 1;
  } catch (const fabric::FabricError&) {  // NOLINT(bugprone-empty-catch): it was revoked
  }
}
Task<void> revoke_who_is_not_done(Client* client, Store* store, Client* worker, Work* shared) {
  co_await client->world->yield(*client->node);
  if (shared->done == 0) {
    store->node->revoke(*worker->qp);
  }
}
void a_client_looks_and_revokes(World& world) {
  auto& store = world.make<Store>(world);
  auto& worker = world.make<Client>(world, store, "worker");
  auto& reaper = world.make<Client>(world, store, "reaper");
  auto& shared = world.make<Work>();
  world.spawn(*worker.node, do_work(&worker, &store, &shared));
  world.spawn(*reaper.node, revoke_who_is_not_done(&reaper, &store, &worker, &shared));
}

// The other end would be told.
Task<void> receive_and_leave(Client* client, Messages* messages) {
  static_cast<void>(messages->ends.first->post_receive(client->word(0)));
  static_cast<void>(co_await messages->ends.first->receive());
  messages->ends.first.reset();
}
Task<void> send_both(Client* client, Messages* messages) {
  co_await messages->ends.second->submit(fabric::send(client->word(0)));
  co_await messages->ends.second->submit(fabric::send(client->word(0)));
}
void a_client_ends_a_pair(World& world) {
  auto& two = world.make<Two>(world);
  auto& messages = world.make<Messages>();
  messages.ends = two.first.node->connect_pair(*two.second.node);
  world.spawn(*two.first.node, receive_and_leave(&two.first, &messages));
  world.spawn(*two.second.node, send_both(&two.second, &messages));
}

TEST(UnseenLooks, AreNotCalledSafe) {
  for (const auto& [program, reason] : {std::pair{&a_task_leaves_an_object, "an object"},
                                        std::pair{&a_client_asks_for_crashes, "asks World::crashed()"},
                                        std::pair{&a_client_looks_and_revokes, "reaper, which revokes a queue pair"},
                                        std::pair{&a_client_ends_a_pair, "uses its end of a pair"}}) {
    for (const Mode mode : {Mode::exhaustive, Mode::states}) {
      Options options = under(Preset::observed);
      options.mode = mode;
      options.walks = 10;
      options.threads = 1;
      options.max_events = 2000;
      SCOPED_TRACE(reason);
      const Verdict verdict = check(program, options);
      EXPECT_NE(verdict.outcome, Outcome::safe);
      if (verdict.outcome == Outcome::bounded) {
        EXPECT_THAT(verdict.bound, HasSubstr(reason));
      }
    }
  }
}

// ---- What clients may learn beside requests, and what ends beside tasks. No order of requests shows it.

constexpr std::uint32_t kMostEvents = 2000;

// How many requests have completed, behind a post of the same step: the first one may have completed in between.
Task<void> ask_behind_a_post(Client* client, Store* store, bool outstanding) {
  fabric::QueuePair& qp = *client->qp;
  const std::uint64_t first = qp.completed();
  fabric::WorkRequest told = fabric::write(client->word(0), store->word(0));
  told.signaled = true;
  co_await qp.enqueue(told);
  co_await qp.enqueue(fabric::write(client->word(1), store->word(1)));
  const bool seen = outstanding ? qp.outstanding() == 1 : qp.completed() == first + 1;
  client->world->require(!seen, "one request is done");
  co_await qp.drain();
}
template <bool kOutstanding>
void a_client_asks_behind_a_post(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, ask_behind_a_post(&two.first, &two.store, kOutstanding));
}
// The same, behind a yield and without a post: the step goes first only if nothing that completes matters.
Task<void> ask_behind_a_yield(Client* client, Store* store) {
  fabric::QueuePair& qp = *client->qp;
  const std::uint64_t first = qp.completed();
  fabric::WorkRequest told = fabric::write(client->word(0), store->word(0));
  told.signaled = true;
  co_await qp.enqueue(told);
  co_await client->world->yield(*client->node);
  client->world->require(qp.completed() != first + 1, "one request is done");
  co_await qp.drain();
}
void a_client_asks_behind_a_yield(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, ask_behind_a_yield(&two.first, &two.store));
}

class AskedProgress : public ::testing::TestWithParam<std::tuple<Named, Mode>> {};

TEST_P(AskedProgress, IsThatOfEveryOrder) {
  const auto& [named, mode] = GetParam();
  const Verdict verdict = check(named.program, searching(mode, kMostEvents));
  ASSERT_EQ(verdict.outcome, Outcome::broken) << verdict.bound;
  EXPECT_THAT(verdict.violation->what, HasSubstr("one request is done"));
}

INSTANTIATE_TEST_SUITE_P(All, AskedProgress,
                         ::testing::Combine(::testing::Values(Named{"Completed", a_client_asks_behind_a_post<false>},
                                                              Named{"Outstanding", a_client_asks_behind_a_post<true>},
                                                              Named{"BehindAYield", a_client_asks_behind_a_yield}),
                                            ::testing::Values(Mode::exhaustive, Mode::states)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).name) +
                                  std::string(std::get<1>(one.param) == Mode::states ? "States" : "");
                         });

// One posts while another counts.
enum class Count : std::uint8_t { posted, completed, outstanding, spawned, room };

std::uint64_t count_of(Client* other, Count what) {
  fabric::QueuePair& qp = *other->qp;
  switch (what) {
    case Count::posted:
      return qp.posted();
    case Count::completed:
      return qp.completed();
    case Count::outstanding:
      return qp.outstanding();
    case Count::spawned:
      return qp.reactor().spawned();
    case Count::room:
      return qp.reactor().completion_queue_free();
  }
  return 0;
}
Task<void> post_some(Client* client, Store* store) {
  for (int i = 0; i < kTimes; ++i) {
    co_await step(client, store, 0);
  }
}
Task<void> count_others(Client* client, Store* store, Client* other, Count what) {
  std::array<std::uint64_t, 3> counted{};
  for (std::uint64_t& one : counted) {
    co_await step(client, store, 1);
    one = count_of(other, what);
  }
  client->world->require(counted[0] == counted[1] || counted[1] == counted[2], "three numbers were seen");
}
template <Count kWhat>
void a_client_counts_for_another(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, post_some(&two.first, &two.store));
  world.spawn(*two.second.node, count_others(&two.second, &two.store, &two.first, kWhat));
}

// A task of a task that waits for ever, in three ways.
struct Forever {
  static bool await_ready() noexcept { return false; }
  static void await_suspend(std::coroutine_handle<> /*awaiter*/) noexcept {}
  static void await_resume() noexcept {}
};
enum class Wait : std::uint8_t { lost, word, loop };

Task<void> wait_for_ever(Client* client, fabric::LocalSpan word, Wait how) {
  if (how == Wait::lost) {
    co_await Forever{};
  } else if (how == Wait::word) {
    co_await client->node->cpu().wait(word, fabric::WordCondition::is_not(0));
  } else {
    fabric::Reactor& reactor = client->qp->reactor();
    const auto loop = reactor.begin_retries();
    for (;;) {
      co_await reactor.retry(loop, fabric::from_ns(10));
    }
  }
}
Task<void> leave_one_waiting(Client* client, Store* store, fabric::LocalSpan word, Wait how) {
  client->qp->reactor().spawn(wait_for_ever(client, word, how));
  co_await step(client, store, 0);
}
template <Wait kHow>
void a_spawned_task_never_ends(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, leave_one_waiting(&two.first, &two.store, two.first.word(2), kHow));
  world.spawn(*two.second.node, step(&two.second, &two.store, 1));
}

// The address of an object is told through a word of memory.
Task<void> tell_an_address(Client* client, Store* store) {
  const auto own = std::make_unique<int>(0);
  const int* const address = own.get();
  std::memcpy(client->buffers.bytes().data(), &address, sizeof address);
  co_await client->qp->write(client->word(0), store->word(1));
  for (int i = 1; i <= kTimes; ++i) {
    *own = i;
    co_await step(client, store, 0);
  }
  for (int i = 0; i < kTimes; ++i) {
    co_await step(client, store, 0);  // it lives on for a while
  }
}
Task<void> follow_an_address(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(1));
  const int* object = nullptr;
  std::memcpy(&object, client->buffers.bytes().data(), sizeof object);
  if (object == nullptr) {
    co_return;
  }
  bool all = true;
  for (int i = 1; i <= 2; ++i) {
    co_await step(client, store, 1);
    all = all && *object == i;
  }
  client->world->require(!all, "each value was seen");
}
void an_address_is_told_by_requests(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, tell_an_address(&two.first, &two.store));
  world.spawn(*two.second.node, follow_an_address(&two.second, &two.store));
}
// The same through memory of the teller, which it stores to by a pointer.
Task<void> show_an_address(Client* client, Store* store, std::byte* shown) {
  const auto own = std::make_unique<int>(0);
  const int* const address = own.get();
  std::memcpy(shown, &address, sizeof address);
  co_await step(client, store, 0);
}
void an_address_is_told_by_a_store(World& world) {
  auto& two = world.make<Two>(world);
  auto& shown = world.make<fabric::MemoryRegion>(two.first.node->allocate(64, fabric::Access::remote_all));
  world.spawn(*two.first.node, show_an_address(&two.first, &two.store, shown.bytes().data()));
  world.spawn(*two.second.node, step(&two.second, &two.store, 1));
}

// A client looks at the memory of another node by a pointer of its own.
Task<void> look_by_pointer(Client* client, Store* store) {
  bool all = true;
  for (std::uint64_t i = 1; i <= kTimes; ++i) {
    co_await step(client, store, 1);
    all = all && store->value(0) == i;
  }
  client->world->require(!all, "each value was seen");
}
void a_client_looks_at_another_node(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, post_some(&two.first, &two.store));
  world.spawn(*two.second.node, look_by_pointer(&two.second, &two.store));
}

struct Undecided {
  const char* name;
  void (*program)(World&);
  const char* reason;
};
void PrintTo(const Undecided& one, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << one.name;
}

class UnseenWays : public ::testing::TestWithParam<std::tuple<Undecided, Mode>> {};

// A search may find what is wrong. Else it says who took such a way.
TEST_P(UnseenWays, AreNotCalledSafe) {
  const auto& [one, mode] = GetParam();
  const Verdict verdict = check(one.program, searching(mode, kMostEvents));
  if (verdict.outcome == Outcome::broken) {
    EXPECT_THAT(verdict.violation->what, HasSubstr("seen"));
    return;
  }
  ASSERT_EQ(verdict.outcome, Outcome::bounded);
  EXPECT_FALSE(verdict.only_loops_bounded);
  EXPECT_THAT(verdict.bound, HasSubstr(one.reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, UnseenWays,
    ::testing::Combine(
        ::testing::Values(
            Undecided{"PostedOfAnother", a_client_counts_for_another<Count::posted>, "second, which asks how far"},
            Undecided{"CompletedOfAnother", a_client_counts_for_another<Count::completed>,
                      "second, which asks how far the requests of first"},
            Undecided{"OutstandingOfAnother", a_client_counts_for_another<Count::outstanding>,
                      "second, which asks how far the requests of first"},
            Undecided{"Spawned", a_client_counts_for_another<Count::spawned>, "second, which asks how many"},
            Undecided{"CompletionQueue", a_client_counts_for_another<Count::room>, "second, which asks how many"},
            Undecided{"SpawnedTaskIsLost", a_spawned_task_never_ends<Wait::lost>, "first, of which a task"},
            Undecided{"SpawnedTaskWaitsForAWord", a_spawned_task_never_ends<Wait::word>, "first, of which a task"},
            Undecided{"SpawnedTaskTriesForEver", a_spawned_task_never_ends<Wait::loop>, "first, of which a task"},
            Undecided{"AddressByRequests", an_address_is_told_by_requests, "which moves the address of an object"},
            Undecided{"AddressByAStore", an_address_is_told_by_a_store, "first, which moves the address of an object"},
            Undecided{"AnotherNode", a_client_looks_at_another_node, "second, which looks at memory of another node"}),
        ::testing::Values(Mode::exhaustive, Mode::states)),
    [](const auto& one) {
      return std::string(std::get<0>(one.param).name) +
             std::string(std::get<1>(one.param) == Mode::states ? "States" : "");
    });

// ---- A coroutine that waits in World::yield is destroyed.

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};
Detached yield_once(Client* client, bool* went_on) {
  co_await client->world->yield(*client->node);
  *went_on = true;
}
Task<void> destroy_what_yields(Client* client, Store* store) {
  bool went_on = false;
  const Detached other = yield_once(client, &went_on);
  if (!went_on) {
    other.handle.destroy();
  }
  co_await step(client, store, 0);
  client->world->require(!went_on, "it went on");
}
void what_yields_is_destroyed(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, destroy_what_yields(&two.first, &two.store));
  world.spawn(*two.second.node, step(&two.second, &two.store, 1));
}

// ---- An object of the world fails when it is destroyed.

struct CountsAtItsEnd {
  World* world;
  Store* store;
  CountsAtItsEnd(World& its_world, Store& its_store) : world(&its_world), store(&its_store) {}
  CountsAtItsEnd(const CountsAtItsEnd&) = delete;
  CountsAtItsEnd& operator=(const CountsAtItsEnd&) = delete;
  ~CountsAtItsEnd() { world->require(store->value(0) == 2, "an update is lost"); }
};
Task<void> add_by_two_requests(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(0));
  client->set(0, client->value(0) + 1);
  co_await client->qp->write(client->word(0), store->word(0));
}
void a_destructor_judges(World& world) {
  auto& two = world.make<Two>(world);
  static_cast<void>(world.make<CountsAtItsEnd>(world, two.store));
  world.spawn(*two.first.node, add_by_two_requests(&two.first, &two.store));
  world.spawn(*two.second.node, add_by_two_requests(&two.second, &two.store));
}
void a_destructor_has_nothing_to_say(World& world) {
  auto& two = world.make<Two>(world);
  static_cast<void>(world.make<CountsAtItsEnd>(world, two.store));
  world.spawn(*two.first.node, step(&two.first, &two.store, 0));
  world.spawn(*two.second.node, step(&two.second, &two.store, 0));
}

// ---- Numbers of moments.

Task<void> write_the_moment(Client* client, Store* store, bool as_payload) {
  co_await step(client, store, 1);
  const Moment now = client->world->moment();
  client->set(0, as_payload ? now : 7);
  co_await client->qp->write(client->word(0), store->word(as_payload || now % 2 == 0 ? 2 : 3));
}
template <bool kAsPayload>
void a_client_acts_on_a_number(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, write_the_moment(&two.first, &two.store, kAsPayload));
  world.spawn(*two.second.node, step(&two.second, &two.store, 0));
}
struct Times {
  Moment began = 0;
  Moment ended = 0;
};
Task<void> keep_moments(Client* client, Store* store, Times* times) {
  times->began = client->world->moment();
  co_await step(client, store, 0);
  times->ended = client->world->moment();
}
void moments_are_compared(World& world) {
  auto& two = world.make<Two>(world);
  auto& one = world.make<Times>();
  auto& other = world.make<Times>();
  world.spawn(*two.first.node, keep_moments(&two.first, &two.store, &one));
  world.spawn(*two.second.node, keep_moments(&two.second, &two.store, &other));
  world.at_end([&](const Order& order) {
    world.require(order.before(one.began, one.ended) && order.before(other.began, other.ended), "time runs backwards");
  });
}

// ---- A client keeps an address of its own heap in its own buffer.

Task<void> keep_an_address(Client* client, Store* store) {
  auto own = std::make_unique<std::uint64_t>(0);
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t* const address = own.get();
    std::memcpy(client->buffers.bytes().data() + 512, &address, sizeof address);
    co_await step(client, store, 0);
    ++*own;
  }
  std::memset(client->buffers.bytes().data() + 512, 0, sizeof(void*));
  client->world->require(*own == 2, "it counts");
}
void addresses_lie_in_a_buffer(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, keep_an_address(&two.first, &two.store));
  world.spawn(*two.second.node, keep_an_address(&two.second, &two.store));
}

// The same without a smart pointer: a task that is given up before its end leaves the object where it was, and the next
// execution has its own elsewhere.
Task<void> keep_a_bare_address(Client* client, Store* store) {
  auto* const own = new std::uint64_t(0);  // NOLINT(cppcoreguidelines-owning-memory): freed below
  std::memcpy(client->buffers.bytes().data() + 512, &own, sizeof own);
  co_await step(client, store, 0);
  co_await step(client, store, 0);
  client->world->require(*own == 0, "it is still there");
  delete own;  // NOLINT(cppcoreguidelines-owning-memory)
}
void bare_addresses_lie_in_a_buffer(World& world) {
  auto& two = world.make<Two>(world);
  world.spawn(*two.first.node, keep_a_bare_address(&two.first, &two.store));
  world.spawn(*two.second.node, keep_a_bare_address(&two.second, &two.store));
}

TEST(UnseenEnds, AreJudged) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    const Verdict wrong = check(a_destructor_judges, searching(mode, kMostEvents));
    ASSERT_EQ(wrong.outcome, Outcome::broken);
    EXPECT_EQ(wrong.violation->what, "an update is lost");
    Options again = searching(mode, kMostEvents);
    again.walks = 100;
    EXPECT_EQ(replay(a_destructor_judges, again, wrong.violation->choices).outcome, Outcome::broken);
    EXPECT_EQ(check(a_destructor_has_nothing_to_say, again).outcome, Outcome::safe);
  }
}

TEST(UnseenEnds, ACoroutineThatYieldsMayBeDestroyed) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    const Verdict verdict = check(what_yields_is_destroyed, searching(mode, kMostEvents));
    EXPECT_EQ(verdict.outcome, Outcome::safe) << verdict.bound;
  }
}

TEST(NumbersOfMoments, AreNothingToActOn) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    for (const auto& program : {a_client_acts_on_a_number<false>, a_client_acts_on_a_number<true>}) {
      EXPECT_THAT([&] { static_cast<void>(check(program, searching(mode, kMostEvents))); },
                  testing::ThrowsMessage<std::logic_error>(HasSubstr("World::moment()")));
    }
    EXPECT_EQ(check(moments_are_compared, searching(mode, kMostEvents)).outcome, Outcome::safe);
  }
}

TEST(AddressesInBuffers, AreAClientsOwnBusiness) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    const Verdict verdict = check(addresses_lie_in_a_buffer, searching(mode, kMostEvents));
    EXPECT_EQ(verdict.outcome, Outcome::safe) << verdict.bound;
    const Verdict bare = check(bare_addresses_lie_in_a_buffer, searching(mode, kMostEvents));
    EXPECT_NE(bare.outcome, Outcome::broken);
    if (bare.outcome == Outcome::bounded) {
      EXPECT_THAT(bare.bound, HasSubstr("leaves an object on the heap"));
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore
