// What a client may see of another although no request tells it, and although nothing else joins their steps: private
// memory of a node that has threads, what a request's end writes, objects that were linked, changes that are undone.
// In each program one changes a value so often as the other looks, so the other may see each value in turn; and that is
// what it says never happens.
#include <sidelatch/explore/check.h>

#include "checking.h"
#include "clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <stdexcept>

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
    ::testing::Combine(::testing::Values(Named{"ReadFillsWhatAThreadLooksAt", a_read_fills_what_a_thread_looks_at},
                                         Named{"ClientStoresWhatAThreadLoads", a_client_stores_what_a_thread_loads},
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

TEST(UnseenLooks, AreNotCalledSafe) {
  for (const auto& [program, reason] :
       {std::pair{&a_task_leaves_an_object, "an object"},
        std::pair{&a_client_asks_for_crashes, "asks World::crashed()"},
        std::pair{&a_client_crashes_before_it_posts_a_buffer, "posts a receive buffer behind a request"}}) {
    for (const Mode mode : {Mode::exhaustive, Mode::states}) {
      Options options = under(Preset::observed);
      options.mode = mode;
      options.walks = 10;
      options.threads = 1;
      options.max_events = 2000;
      const Verdict verdict = check(program, options);
      EXPECT_NE(verdict.outcome, Outcome::safe) << reason;
      if (verdict.outcome == Outcome::bounded) {
        EXPECT_THAT(verdict.bound, HasSubstr(reason));
      }
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore
