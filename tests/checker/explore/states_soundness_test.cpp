// What the search through states must not leave out: each of these programs was called safe, or stuck, where it is not,
// or would be if one of the search's conditions were forgotten. Each has the fault that it catches.
#include "checking.h"
#include "clients.h"
#include "started.h"

#include "checker/explore/mutation.h"

#include <sidelatch/fabric/buffer_ring.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <span>
#include <string>

namespace sidelatch::explore {
namespace {

using fabric::Duration;
using fabric::Task;
using fabric::model::Preset;

// What two tasks of one client share.
struct SharedNumber {
  std::uint64_t value = 0;
};

Task<void> put_one(SharedNumber* shared) {
  shared->value = 1;
  co_return;
}

Task<void> put_one_later(SharedNumber* shared, Client* client) {
  co_await client->world->yield(*client->node);
  shared->value = 1;
}

Task<void> put_one_after_a_write(SharedNumber* shared, Client* client, Store* store) {
  co_await client->qp->write(client->word(0), store->word(0));
  shared->value = 1;
}

Task<void> require_one(SharedNumber* shared, Client* client) {
  client->world->require(shared->value == 1, "the other task was first");
  co_return;
}

Task<void> wait_for_one(SharedNumber* shared, Client* client) {
  while (shared->value == 0) {
    co_await client->world->yield(*client->node);
  }
}

struct TwoClients {
  explicit TwoClients(World& world)
      : store(world.make<Store>(world)),
        first(world.make<Client>(world, store, "first")),
        second(world.make<Client>(world, store, "second")),
        shared(world.make<SharedNumber>()) {}
  Store& store;
  Client& first;
  Client& second;
  SharedNumber& shared;
};

// Two tasks of a client begin in any order.
void tasks_in_order(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, put_one(&pair.shared));
  world.spawn(*pair.first.node, require_one(&pair.shared, &pair.first));
}

// One task waits for the other, which is not left out for ever.
void task_waits_for_task(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, wait_for_one(&pair.shared, &pair.first));
  world.spawn(*pair.first.node, put_one_later(&pair.shared, &pair.first));
}

// The same, and the other waits for its NIC.
void task_waits_for_request(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, wait_for_one(&pair.shared, &pair.first));
  world.spawn(*pair.first.node, put_one_after_a_write(&pair.shared, &pair.first, &pair.store));
}

// A WRITE was placed, and its queue pair was revoked before the client was told.
Task<void> write_and_doubt(Client* client, Store* store, fabric::QueuePair* other) {
  client->set(0, 1);
  bool failed = false;
  try {
    co_await client->qp->write(client->word(0), store->word(0));
  } catch (const fabric::FabricError&) {
    failed = true;
  }
  if (failed) {
    co_await other->read(client->word(1), store->word(0));
    client->world->require(client->value(1) == 0, "a WRITE that failed was placed");
  }
}

Task<void> revoke_queue_pair_of(Client* client, Store* store, Client* other) {
  co_await client->world->yield(*client->node);
  store->node->revoke(*other->qp);
}

void revoked_between_placement_and_completion(World& world) {
  const TwoClients pair(world);
  auto& other =
      world.make<std::unique_ptr<fabric::QueuePair>>(world.connect(*pair.first.node, *pair.store.node, 0, {}));
  world.spawn(*pair.first.node, write_and_doubt(&pair.first, &pair.store, other.get()));
  world.spawn(*pair.second.node, revoke_queue_pair_of(&pair.second, &pair.store, &pair.first));
}

// An atomic was executed, and its queue pair was revoked before its result was delivered.
Task<void> add_and_doubt(Client* client, Store* store, fabric::QueuePair* other) {
  client->set(0, 7);
  bool failed = false;
  try {
    fabric::WorkRequest add = fabric::fetch_add(store->word(0), 1);
    add.local = client->word(0);
    co_await client->qp->submit(add);
  } catch (const fabric::FabricError&) {
    failed = true;
  }
  if (failed) {
    co_await other->read(client->word(1), store->word(0));
    client->world->require(client->value(0) == 0 || client->value(1) == 0, "it added, and has no result");
  }
}

void revoked_between_execution_and_delivery(World& world) {
  const TwoClients pair(world);
  auto& other =
      world.make<std::unique_ptr<fabric::QueuePair>>(world.connect(*pair.first.node, *pair.store.node, 0, {}));
  world.spawn(*pair.first.node, add_and_doubt(&pair.first, &pair.store, other.get()));
  world.spawn(*pair.second.node, revoke_queue_pair_of(&pair.second, &pair.store, &pair.first));
}

// A judge sees which of two clients was first.
Task<void> come_in(SharedNumber* shared, Client* client, std::uint64_t expected) {
  co_await client->world->yield(*client->node);
  client->world->order_matters();
  client->world->require(shared->value++ == expected, "the other client was first");
}

void clients_before_a_judge(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, come_in(&pair.shared, &pair.first, 0));
  world.spawn(*pair.second.node, come_in(&pair.shared, &pair.second, 1));
}

// A client looks at its own memory, to which another one writes.
Task<void> look_at_own(Store* store) {
  co_await store->world->yield(*store->node);
  store->world->require(store->value(0) == 0, "the word was there");
}

void owner_looks(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.store.node, look_at_own(&pair.store));
  world.spawn(*pair.first.node, add_one(&pair.first, &pair.store));
}

// A client asks for room that its NIC makes by completing something: in its send queue, or in its ring of one buffer.
Task<void> ask_for_room(Client* client, Store* store, fabric::QueuePair* small) {
  const fabric::WorkRequest request = fabric::write(client->word(0), store->word(0));
  co_await small->enqueue(request);
  co_await small->enqueue(request);
  co_await client->world->yield(*client->node);
  const bool has_room = small->post(std::span(&request, 1));
  client->world->require(!has_room, "the NIC was fast");
  co_await small->drain();
}

Task<void> ask_for_a_buffer(Client* client, Store* store, fabric::QueuePair* small, fabric::BufferRing* ring) {
  fabric::RingBuffer buffer = ring->try_acquire();
  co_await small->enqueue(fabric::write(buffer.span().subspan(0, 8), store->word(0)));
  buffer.drop();
  co_await small->enqueue(fabric::write(client->word(0), store->word(1)));
  co_await client->world->yield(*client->node);
  buffer = ring->try_acquire();
  client->world->require(!buffer.valid(), "the NIC was fast");
  co_await small->drain();
}

// The same for two requests. Before it is told that there is no room, its queue pair makes sure that there will be.
Task<void> ask_for_room_for_two(Client* client, Store* store, fabric::QueuePair* small) {
  const fabric::WorkRequest request = fabric::write(client->word(0), store->word(0));
  const fabric::WorkRequest two[] = {request, request};
  fabric::Reactor& reactor = small->reactor();
  co_await small->enqueue(request);
  const auto loop = reactor.begin_retries();
  for (;;) {
    const bool has_room = small->post(two);
    if (has_room) {
      break;
    }
    co_await reactor.retry(loop, Duration::zero());
  }
  co_await small->drain();
}

// The request that fills the send queue is signalled. If the first one completes before, the second one does not fill
// it, and nobody is told that it has completed.
Task<void> fill_queue(Client* client, Store* store, fabric::QueuePair* small) {
  const fabric::WorkRequest request = fabric::write(client->word(0), store->word(0));
  fabric::Reactor& reactor = small->reactor();
  co_await small->enqueue(request.with_signal());
  co_await client->world->yield(*client->node);
  co_await small->enqueue(request);
  co_await client->world->yield(*client->node);  // so that it looks in another step
  const auto loop = reactor.begin_retries();
  for (;;) {
    if (small->outstanding() == 0) {
      break;
    }
    co_await reactor.retry(loop, Duration::zero());
  }
}

// A region cannot be deregistered while a request uses it.
Task<void> end_buffer(Client* client, Store* store) {
  fabric::MemoryRegion own = client->node->allocate(64, fabric::Access::local_write);
  co_await client->qp->enqueue(fabric::write(own.local(0, 8), store->word(0)).with_signal());
  co_await client->world->yield(*client->node);
  bool is_busy = false;
  try {
    own.deregister();
  } catch (const fabric::FabricError&) {
    is_busy = true;
  }
  client->world->require(is_busy, "the NIC was fast");
  co_await client->qp->drain();
}

fabric::QueuePair* connect_small(World& world, const TwoClients& pair) {
  constexpr fabric::QueuePairOptions kSmall{.send_queue_depth = 2, .signal_interval = 2};
  return world.make<std::unique_ptr<fabric::QueuePair>>(world.connect(*pair.first.node, *pair.store.node, 0, kSmall))
      .get();
}

void owner_asks_for_room(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, ask_for_room(&pair.first, &pair.store, connect_small(world, pair)));
}

void owner_asks_for_room_for_two(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, ask_for_room_for_two(&pair.first, &pair.store, connect_small(world, pair)));
}

void owner_fills_its_queue(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, fill_queue(&pair.first, &pair.store, connect_small(world, pair)));
}

void owner_ends_a_buffer(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, end_buffer(&pair.first, &pair.store));
}

void owner_asks_for_a_buffer(World& world) {
  const TwoClients pair(world);
  fabric::QueuePair* const small = connect_small(world, pair);
  auto& ring = world.make<fabric::BufferRing>(*small, 1U, std::uint64_t{64});
  world.spawn(*pair.first.node, ask_for_a_buffer(&pair.first, &pair.store, small, &ring));
}

// A client looks at a buffer before the READ into it has completed.
Task<void> look_before_completion(Client* client, Store* store) {
  client->set(0, 7);
  co_await client->qp->enqueue(fabric::read(client->word(0), store->word(0)));
  co_await client->world->yield(*client->node);
  client->world->require(client->value(0) == 7, "the READ was fast");
  co_await client->qp->drain();
}

void reads_early(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, look_before_completion(&pair.first, &pair.store));
}

// A client changes a buffer before the WRITE from it has completed.
Task<void> change_early(Client* client, Store* store) {
  co_await client->qp->enqueue(fabric::write(client->word(0), store->word(0)));
  co_await client->world->yield(*client->node);
  client->set(0, 7);
  co_await client->qp->drain();
}

void changes_early(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, change_early(&pair.first, &pair.store));
}

// Rule 2: what is posted after a completion comes after it; what is posted before does not.
Task<void> write_twice(Client* client, Store* store, fabric::QueuePair* other) {
  client->set(0, 1);
  fabric::WorkRequest inlined = fabric::write(client->word(0), store->word(0));
  inlined.inlined = true;  // so it may complete at once
  co_await client->qp->enqueue(inlined);
  co_await client->world->yield(*client->node);
  co_await other->read(client->word(1), store->word(0));
  client->world->require(client->value(1) == 1, "the READ was faster");
  co_await client->qp->drain();
}

void posts_before_and_after(World& world) {
  const TwoClients pair(world);
  auto& other =
      world.make<std::unique_ptr<fabric::QueuePair>>(world.connect(*pair.first.node, *pair.store.node, 0, {}));
  world.spawn(*pair.first.node, write_twice(&pair.first, &pair.store, other.get()));
}

// Forty attempts, of which the search follows fewer; then the other client need not wait any more.
Task<void> raise_after_forty(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (int attempt = 0; attempt < 40; ++attempt) {
    client->world->order_matters();
    co_await client->qp->read(client->word(0), store->word(1));
    client->world->order_matters();
    co_await reactor.retry(loop, Duration::zero());
  }
  co_await client->qp->fetch_add(store->word(0), 1);
}

Task<void> wait_for_word(Client* client, Store* store) {
  do {
    co_await client->qp->read(client->word(0), store->word(0));
  } while (client->value(0) == 0);
}

void long_way_to_a_flag(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, raise_after_forty(&pair.first, &pair.store));
  world.spawn(*pair.second.node, wait_for_word(&pair.second, &pair.store));
}

// Nobody says that the second one waits in a loop.
void waits_undeclared(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, add_one(&pair.first, &pair.store));
  world.spawn(*pair.second.node, wait_for_word(&pair.second, &pair.store));
}

// The second one adds nothing, again and again, to the word to which the first one adds: rule 8 makes it wait.
Task<void> add_nothing_until_one(Client* client, Store* store) {
  for (;;) {
    const std::uint64_t found = co_await client->qp->fetch_add(store->word(0), 0);
    if (found != 0) {
      break;
    }
  }
}

void waits_on_the_word_itself(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, add_one(&pair.first, &pair.store));
  world.spawn(*pair.second.node, add_nothing_until_one(&pair.second, &pair.store));
}

// Attempts have no end of different states.
Task<void> count_own_attempts(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (std::uint64_t attempts = 1;; ++attempts) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      client->world->require(attempts != 100, "a hundred attempts");
      break;
    }
    co_await reactor.retry(loop, Duration::zero());
  }
}

void counts_attempts(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, add_one(&pair.first, &pair.store));
  world.spawn(*pair.second.node, count_own_attempts(&pair.second, &pair.store));
}

// No call of a coroutine: its frame may hold what it compares, and tell attempts apart by that.
void require_early(const Client* client) {
  client->world->require(client->qp->reactor().now() < fabric::from_ns(40), "it waited for long");
}

// Attempts differ in the time only.
Task<void> give_up_in_time(Client* client, Store* store) {
  fabric::Reactor& reactor = client->qp->reactor();
  const auto loop = reactor.begin_retries();
  for (;;) {
    co_await client->qp->read(client->word(0), store->word(0));
    if (client->value(0) != 0) {
      break;
    }
    require_early(client);
    co_await reactor.sleep(fabric::from_ns(10));
    co_await reactor.retry(loop, Duration::zero());
  }
}

void waits_for_long(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, add_one(&pair.first, &pair.store));
  world.spawn(*pair.second.node, give_up_in_time(&pair.second, &pair.store));
}

// A coroutine that the task has started comes before the task's next step, or after it. Neither the world's tasks nor
// the reactor's count it.
Started put_one_beside(Client* client, std::uint64_t* value) {
  co_await client->world->yield(*client->node);
  *value = 1;
}

Started put_one_behind_a_write(Client* client, Store* store, std::uint64_t* value) {
  co_await client->qp->write(client->word(0), store->word(0));
  *value = 1;
}

Task<void> start_and_look(Client* client) {
  std::uint64_t value = 0;
  const Started other = put_one_beside(client, &value);
  co_await client->world->yield(*client->node);
  client->world->require(value == 1, "the coroutine was slow");
  while (!other.done()) {
    co_await client->world->yield(*client->node);
  }
}

void coroutine_beside_a_task(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, start_and_look(&pair.first));
}

// The task waits for it, and it is not left out for ever.
Task<void> start_and_wait(Client* client, Store* store) {
  std::uint64_t value = 0;
  const Started other = put_one_behind_a_write(client, store, &value);
  while (value == 0) {
    co_await client->world->yield(*client->node);
  }
}

void coroutine_waits_for_a_write(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, start_and_wait(&pair.first, &pair.store));
}

// It is destroyed before its step, or has taken it.
Task<void> start_and_destroy(Client* client) {
  std::uint64_t value = 0;
  {
    const Started other = put_one_beside(client, &value);
    co_await client->world->yield(*client->node);
  }
  client->world->require(value == 0, "the coroutine was fast");
}

void coroutine_is_destroyed(World& world) {
  const TwoClients pair(world);
  world.spawn(*pair.first.node, start_and_destroy(&pair.first));
}

struct Specimen {
  const char* name;
  Program program;
  Outcome truth;
  Mutation mutation;
  Preset preset = Preset::observed;
  friend void PrintTo(const Specimen& specimen, std::ostream* out) { *out << specimen.name; }
};

class StatesSoundness : public ::testing::TestWithParam<Specimen> {};

TEST_P(StatesSoundness, HasTheRightVerdictAndTheFaultHasNot) {
  const Specimen& specimen = GetParam();
  Options options = under(specimen.preset);
  options.mode = Mode::states;
  options.threads = 1;
  options.walks = 0;  // the search itself must find it
  const Verdict verdict = check(specimen.program, options);
  EXPECT_EQ(verdict.outcome, specimen.truth) << to_text(verdict);
  if (specimen.mutation != Mutation::none) {
    planted_mutation = specimen.mutation;
    const Verdict wrong = check(specimen.program, options);
    planted_mutation = Mutation::none;
    EXPECT_NE(wrong.outcome, specimen.truth) << "the fault was not caught: " << to_text(wrong);
  }
}

TEST_P(StatesSoundness, IsDecidedBySearchingExecutionsToo) {
  const Specimen& specimen = GetParam();
  Options options = under(specimen.preset);
  options.threads = 1;
  options.max_events = 400;
  const Verdict verdict = check(specimen.program, options);
  EXPECT_EQ(verdict.outcome, specimen.truth) << to_text(verdict);
}

INSTANTIATE_TEST_SUITE_P(
    Each, StatesSoundness,
    ::testing::Values(
        Specimen{"TasksInOrder", tasks_in_order, Outcome::broken, Mutation::siblings_come_first},
        Specimen{"TaskWaitsForTask", task_waits_for_task, Outcome::safe, Mutation::every_cycle_is_fair},
        Specimen{"TaskWaitsForRequest", task_waits_for_request, Outcome::safe, Mutation::siblings_come_first},
        Specimen{"RevokedLate", revoked_between_placement_and_completion, Outcome::broken,
                 Mutation::revocations_come_last},
        Specimen{"RevokedEarly", revoked_between_execution_and_delivery, Outcome::broken,
                 Mutation::revocations_come_last},
        Specimen{"ClientsBeforeAJudge", clients_before_a_judge, Outcome::broken, Mutation::judged_steps_come_first},
        Specimen{"OwnerLooks", owner_looks, Outcome::broken, Mutation::looks_come_first},
        Specimen{"OwnerAsksForRoom", owner_asks_for_room, Outcome::broken, Mutation::looks_come_first},
        Specimen{"OwnerAsksForABuffer", owner_asks_for_a_buffer, Outcome::broken, Mutation::looks_come_first},
        Specimen{"OwnerAsksForRoomForTwo", owner_asks_for_room_for_two, Outcome::safe, Mutation::every_cycle_is_fair},
        Specimen{"OwnerFillsItsQueue", owner_fills_its_queue, Outcome::broken, Mutation::full_queues_come_first},
        Specimen{"OwnerEndsABuffer", owner_ends_a_buffer, Outcome::broken, Mutation::looks_come_first},
        Specimen{"ReadsEarly", reads_early, Outcome::broken, Mutation::deliveries_are_unseen},
        Specimen{"ChangesEarly", changes_early, Outcome::broken, Mutation::buffers_come_first},
        Specimen{"PostsBeforeAndAfter", posts_before_and_after, Outcome::broken,
                 Mutation::untold_completions_come_first},
        Specimen{"LongWayToAFlag", long_way_to_a_flag, Outcome::bounded, Mutation::cut_steps_are_not_possible},
        Specimen{"CountsAttempts", counts_attempts, Outcome::bounded, Mutation::cuts_are_not_told},
        Specimen{"WaitsForLong", waits_for_long, Outcome::broken, Mutation::clock_left_out},
        Specimen{"WaitsUndeclared", waits_undeclared, Outcome::safe, Mutation::every_cycle_is_fair},
        Specimen{"CoroutineBesideATask", coroutine_beside_a_task, Outcome::broken, Mutation::siblings_come_first},
        Specimen{"CoroutineWaitsForAWrite", coroutine_waits_for_a_write, Outcome::safe, Mutation::siblings_come_first},
        Specimen{"CoroutineIsDestroyed", coroutine_is_destroyed, Outcome::broken, Mutation::destructions_are_reduced},
        Specimen{"WaitsOnTheWordItself", waits_on_the_word_itself, Outcome::safe, Mutation::waiting_is_not_possible}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace sidelatch::explore
