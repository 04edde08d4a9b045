// Things that end while they are in use: tasks, queue pairs, regions. Run under AddressSanitizer these are the tests
// that show that nothing is used after its end.
#include "queue_pair_tasks.h"
#include "two_nodes.h"

#include <optional>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Note {
  std::optional<Status> status;
  std::string text;
};

Task<> add(QueuePair& qp, RemoteSpan word) { co_await qp.fetch_add(word, 1); }
Task<> reconnect(QueuePair& qp) { co_await qp.reconnect(); }

Task<> noted(Task<> task, Note* note) {
  try {
    co_await task;
  } catch (const FabricError& error) {
    note->status = error.status();
    note->text = error.what();
  }
}

TEST(TaskLifetime, ATaskThatWaitsForACompletionMayBeDestroyed) {
  TwoNodes world;
  {
    Task<> task = add(*world.qp, world.word(0));
    start(task);
    EXPECT_EQ(world.qp->outstanding(), 1U);
  }
  world.run(add(*world.qp, world.word(0)));
  EXPECT_EQ(world.value(0), 2U);  // the request went on in the NIC
}

TEST(TaskLifetime, ATaskThatWaitsForRoomMayBeDestroyedAndItsChainIsNeverPosted) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 2}});
  world.run(enqueue_adds(*world.qp, world.word(0), 2));
  std::vector<Task<>> waiting(3);
  for (std::size_t i = 0; i < 3; ++i) {
    waiting[i] = add(*world.qp, world.word(1 + i));
    start(waiting[i]);
  }
  waiting[0] = Task<>{};
  waiting[1] = Task<>{};
  world.settle();
  EXPECT_TRUE(waiting[2].done());
  EXPECT_EQ(world.value(1), 0U);
  EXPECT_EQ(world.value(2), 0U);
  EXPECT_EQ(world.value(3), 1U);
  EXPECT_EQ(world.qp->posted(), 3U);
}

TEST(TaskLifetime, ATaskThatWaitsForCompletionEntriesMayBeDestroyedAndOthersAreServed) {
  TwoNodes world({.completion_queue_depth = 4});
  const auto second = world.client.connect(world.storage);
  const auto third = world.client.connect(world.storage);
  const std::vector<WorkRequest> two(2, fetch_add(world.word(1), 1));
  const auto submit_chain = [](QueuePair& qp, std::span<const WorkRequest> chain) -> Task<> {
    co_await qp.submit(chain);
  };
  world.run(enqueue_adds(*world.qp, world.word(0), 4));
  EXPECT_EQ(world.reactor().completion_queue_free(), 0U);
  Task<> first_in_turn = submit_chain(*second, two);
  start(first_in_turn);
  Task<> next = add(*third, world.word(2));
  start(next);
  first_in_turn = Task<>{};
  world.settle();
  EXPECT_TRUE(next.done());
  EXPECT_EQ(world.value(1), 0U);
  EXPECT_EQ(world.value(2), 1U);
  EXPECT_EQ(world.reactor().completion_queue_free(), 4U);
  EXPECT_TRUE(second->post(two));  // the destroyed task has left no trace
}

TEST(QueuePairLifetime, TasksThatWaitForCompletionOrRoomAreToldThatItWasDestroyed) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 2}});
  std::vector<Note> notes(4);
  world.reactor().spawn(noted(add(*world.qp, world.word(0)), &notes[0]));
  world.reactor().spawn(noted(add(*world.qp, world.word(0)), &notes[1]));
  world.reactor().spawn(noted(add(*world.qp, world.word(0)), &notes[2]));  // waits for room
  world.reactor().spawn(noted(drain(*world.qp), &notes[3]));
  world.qp.reset();
  world.reactor().run();
  for (const Note& note : notes) {
    EXPECT_EQ(note.status, Status::disconnected);
    EXPECT_THAT(note.text, HasSubstr("the queue pair was destroyed"));
    EXPECT_THAT(note.text, Not(HasSubstr("earlier request")));
  }
  world.settle();
}

TEST(QueuePairLifetime, ItsRequestsInFlightTouchNoLocalMemoryAfterwards) {
  TwoNodes world;
  world.set(0, 77);
  Task<> task = submit(*world.qp, read(world.buffer.local(0, 8), world.word(0)));
  start(task);
  world.qp.reset();
  task = Task<>{};
  world.settle();
  EXPECT_EQ(TwoNodes::load(world.buffer, 0), 0U);
}

TEST(QueuePairLifetime, APayloadThatWasNotFetchedYetIsNotSent) {
  TwoNodes world;
  TwoNodes::store(world.buffer, 0, 5);
  const WorkRequest out = write(world.buffer.local(0, 8), world.word(0));
  ASSERT_TRUE(world.qp->post({&out, 1}));
  world.qp.reset();
  world.settle();
  EXPECT_EQ(world.value(0), 0U);
}

TEST(QueuePairLifetime, ItReturnsItsCompletionEntriesToTheOthers) {
  TwoNodes world({.completion_queue_depth = 4});
  const auto other = world.client.connect(world.storage);
  world.run(enqueue_adds(*world.qp, world.word(0), 4));
  Note note;
  world.reactor().spawn(noted(add(*other, world.word(1)), &note));
  EXPECT_EQ(other->posted(), 0U);
  world.qp.reset();
  EXPECT_EQ(other->posted(), 1U);  // served at once
  world.reactor().run();
  EXPECT_EQ(note.status, std::nullopt);
  EXPECT_EQ(world.value(1), 1U);
  EXPECT_EQ(world.reactor().completion_queue_free(), 4U);
}

TEST(QueuePairLifetime, ItMayGoWhileItWaitsForCompletionEntriesItself) {
  TwoNodes world({.completion_queue_depth = 4});
  auto second = world.client.connect(world.storage);
  const auto third = world.client.connect(world.storage);
  world.run(enqueue_adds(*world.qp, world.word(0), 4));
  Note gone;
  Note served;
  world.reactor().spawn(noted(add(*second, world.word(1)), &gone));
  world.reactor().spawn(noted(add(*third, world.word(2)), &served));
  second.reset();
  world.reactor().run();
  EXPECT_EQ(gone.status, Status::disconnected);
  EXPECT_EQ(served.status, std::nullopt);
  EXPECT_EQ(world.value(1), 0U);
  EXPECT_EQ(world.value(2), 1U);
}

TEST(QueuePairLifetime, ATaskThatReconnectsItIsToldThatItWasDestroyed) {
  TwoNodes world;
  RemoteSpan bad = world.word(0);
  bad.rkey.value ^= 1;
  Note note;
  world.reactor().spawn(noted(add(*world.qp, bad), &note));
  world.reactor().run();
  ASSERT_EQ(note.status, Status::remote_access);
  world.reactor().spawn(noted(reconnect(*world.qp), &note));
  world.qp.reset();
  world.reactor().run();
  EXPECT_EQ(note.status, Status::disconnected);
}

TEST(QueuePairLifetime, ItMayBeDestroyedByATaskThatItResumed) {
  TwoNodes world;
  std::vector<Note> notes(2);
  const auto destroys = [](std::unique_ptr<QueuePair>* qp, RemoteSpan word) -> Task<> {
    co_await (*qp)->fetch_add(word, 1);
    qp->reset();
  };
  world.reactor().spawn(noted(destroys(&world.qp, world.word(0)), &notes[0]));
  world.reactor().spawn(noted(add(*world.qp, world.word(0)), &notes[1]));
  world.reactor().run();
  world.settle();
  EXPECT_EQ(notes[0].status, std::nullopt);
  EXPECT_EQ(notes[1].status, Status::disconnected);
}

TEST(RegionLifetime, DeregisterRefusesWhileRequestsUseTheRegionAndChangesNothing) {
  TwoNodes world;
  world.set(0, 9);
  MemoryRegion region = world.client.allocate(4096, Access::local_write);
  Task<> task = submit(*world.qp, read(region.local(0, 8), world.word(0)));
  start(task);
  try {
    region.deregister();
    ADD_FAILURE() << "deregister() did not throw";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::busy);
    EXPECT_THAT(error.what(), HasSubstr("4096 bytes on node client"));
  }
  EXPECT_TRUE(region.valid());
  world.settle();
  EXPECT_TRUE(task.done());
  EXPECT_EQ(TwoNodes::load(region, 0), 9U);
  region.deregister();
  EXPECT_FALSE(region.valid());
  EXPECT_EQ(region.length(), 0U);
  region.deregister();  // no effect on a region that has ended
}

TEST(RegionLifetime, AnInlinedPayloadDoesNotUseItsRegionAfterThePost) {
  TwoNodes world;
  MemoryRegion region = world.client.allocate(4096, Access::local_read);
  TwoNodes::store(region, 0, 4);
  const WorkRequest out = write(region.local(0, 8), world.word(0)).with_inline();
  ASSERT_TRUE(world.qp->post({&out, 1}));
  region.deregister();
  world.settle();
  EXPECT_EQ(world.value(0), 4U);
}

TEST(RegionLifetime, AllocatedMemoryOutlivesItsHandleUntilTheRequestsAreDone) {
  TwoNodes world;
  world.set(0, 9);
  std::byte* bytes = nullptr;
  LKey key;
  Task<> task;
  {
    const MemoryRegion region = world.client.allocate(4096, Access::local_write);
    bytes = region.bytes().data();
    key = region.lkey();
    task = submit(*world.qp, read(region.local(0, 8), world.word(0)));
    start(task);
  }
  EXPECT_EQ(world.client.find(key), nullptr);
  // A registration in the meantime neither frees it nor gives its key to another region.
  const MemoryRegion meanwhile = world.client.allocate(4096, Access::local_write);
  EXPECT_NE(meanwhile.lkey(), key);
  EXPECT_NE(meanwhile.bytes().data(), bytes);
  world.settle();
  EXPECT_TRUE(task.done());
  EXPECT_EQ(bytes[0], std::byte{9});  // delivered to memory that still exists
  const MemoryRegion afterwards = world.client.allocate(4096, Access::local_write);
  EXPECT_NE(afterwards.lkey(), key);
}

TEST(RegionLifetime, ARegionThatEndsWhileAChainWaitsForRoomFailsThatChain) {
  TwoNodes world({.queue_pair = {.send_queue_depth = 2}});
  world.run(enqueue_adds(*world.qp, world.word(0), 2));
  std::vector<Note> notes(2);
  {
    const MemoryRegion region = world.client.allocate(4096, Access::local_write);
    world.reactor().spawn(noted(submit(*world.qp, write(region.local(0, 8), world.word(1))), &notes[0]));
    world.reactor().spawn(noted(add(*world.qp, world.word(2)), &notes[1]));
  }
  world.reactor().run();
  EXPECT_EQ(notes[0].status, Status::local_protection);
  EXPECT_EQ(notes[1].status, std::nullopt);
  EXPECT_EQ(world.qp->state(), QueuePair::State::ready);
  EXPECT_EQ(world.value(2), 1U);
}

TEST(RegionLifetime, RequestsThatReachATargetRegionAfterItsEndAreRefused) {
  TwoNodes world;
  MemoryRegion region = world.storage.allocate(4096, Access::remote_all);
  const RemoteSpan word = region.remote(0, 8);
  Note note;
  world.reactor().spawn(noted(add(*world.qp, word), &note));
  region.deregister();  // no request of its own node uses it
  world.reactor().run();
  EXPECT_EQ(note.status, Status::remote_access);
  EXPECT_THAT(note.text, HasSubstr("no live region of node storage"));
}

TEST(RegionLifetime, AKeyThatWasKeptDoesNotOpenTheRegionThatTookItsPlace) {
  TwoNodes world;
  RemoteSpan old;
  {
    const MemoryRegion region = world.storage.allocate(4096, Access::remote_all);
    old = region.remote(0, 8);
  }
  const MemoryRegion next = world.storage.allocate(4096, Access::remote_all);
  EXPECT_NE(old.rkey, next.rkey());
  old.address = next.remote().address;
  EXPECT_EQ(world.error_of(add(*world.qp, old)).status(), Status::remote_access);
}

TEST(RegionLifetime, ATargetMayEndAtAnyMomentOfALongTransfer) {
  // A READ and a WRITE of 60000 bytes are in flight; the region ends at each of many moments.
  for (int step = 0; step < 40; ++step) {
    TwoNodes world;
    std::optional<MemoryRegion> region(world.storage.allocate(60000, Access::remote_all));
    std::vector<Note> notes(3);
    const auto second = world.client.connect(world.storage);
    world.reactor().spawn(noted(submit(*world.qp, read(world.buffer.local(0, 60000), region->remote())), &notes[0]));
    world.reactor().spawn(noted(submit(*second, write(world.buffer.local(0, 60000), region->remote())), &notes[1]));
    world.reactor().spawn(noted(add(*second, region->remote(0, 8)), &notes[2]));
    world.reactor().run_for(from_ns(250.0 * step));
    region.reset();
    world.reactor().run();
    for (const Note& note : notes) {
      EXPECT_THAT(note.status, ::testing::AnyOf(std::nullopt, Status::remote_access, Status::flushed)) << step;
    }
    world.settle();
  }
}

TEST(RegionLifetimeDeathTest, MemoryOfTheCallerThatIsStillInUseEndsTheProcess) {
  TwoNodes world;
  std::vector<std::byte> memory(4096);
  const auto leave_too_early = [&] {
    const MemoryRegion region = world.client.register_memory(memory, Access::local_write);
    Task<> task = submit(*world.qp, read(region.local(0, 8), world.word(0)));
    start(task);
  };
  EXPECT_DEATH(leave_too_early(), "4096 bytes on node client was destroyed while work requests use memory");
}

TEST(RegionLifetime, MemoryOfTheCallerMayGoOnceItsRequestsAreDone) {
  TwoNodes world;
  world.set(0, 3);
  std::uint64_t word = 0;
  {
    const auto bytes = std::as_writable_bytes(std::span(&word, 1));
    const MemoryRegion region = world.client.register_memory(bytes, Access::local_write);
    world.run(submit(*world.qp, read(region.local(), world.word(0))));
  }
  EXPECT_EQ(word, 3U);
}

}  // namespace
}  // namespace sidelatch::fabric
