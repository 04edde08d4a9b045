// A task ends a memory region while the program goes on. A NIC refuses requests that come later, which is not explored:
// a program with such a request is not called safe. One that waits for the requests loses nothing.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/gtest.h>

#include "checking.h"
#include "clients.h"
#include "either_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace sidelatch::explore {
namespace {

using fabric::Access;
using fabric::MemoryRegion;
using fabric::Node;
using fabric::QueuePair;
using fabric::RemoteSpan;
using fabric::Task;
using fabric::WordCondition;
using fabric::model::Preset;
using ::testing::HasSubstr;

// The visitor's node is the first, so that its steps come before the owner's where nothing else decides.
struct Visit {
  explicit Visit(World& its_world)
      : world(&its_world),
        visitor(&its_world.add_node("visitor")),
        owner(&its_world.add_node("owner")),
        buffer(visitor->allocate(64, Access::local_write)),
        lent(owner->allocate(64, Access::remote_all)),
        flag(owner->allocate(64, Access::remote_all)),
        qp(visitor->connect(*owner)) {}
  World* world;
  Node* visitor;
  Node* owner;
  MemoryRegion buffer;
  MemoryRegion lent;
  MemoryRegion flag;
  std::unique_ptr<QueuePair> qp;
};

Task<void> read_word(QueuePair* qp, fabric::LocalSpan into, RemoteSpan word) { co_await qp->read(into, word); }
Task<void> read_and_tell(QueuePair* qp, fabric::LocalSpan into, RemoteSpan word, RemoteSpan flag) {
  co_await qp->read(into, word);
  co_await qp->fetch_add(flag, 1);
}
Task<void> tell_alone(QueuePair* qp, RemoteSpan flag) { co_await qp->fetch_add(flag, 1); }

// It yields, so that a visitor may begin before.
Task<void> end_by_destructor(World* world, Node* owner, MemoryRegion* lent) {
  co_await world->yield(*owner);
  *lent = MemoryRegion();
}
Task<void> end_by_deregistration(World* world, Node* owner, MemoryRegion* lent) {
  co_await world->yield(*owner);
  lent->deregister();
}
Task<void> end_when_told(Node* owner, fabric::LocalSpan flag, MemoryRegion* lent) {
  co_await owner->cpu().wait(flag, WordCondition::is(1));
  lent->deregister();
}

using Ending = Task<void> (*)(World* world, Node* owner, MemoryRegion* lent);

Program ends_early(Ending end) {
  return [end](World& world) {
    auto& visit = world.make<Visit>(world);
    world.spawn(*visit.visitor, read_word(visit.qp.get(), visit.buffer.local(0, 8), visit.lent.remote(0, 8)));
    world.spawn(*visit.owner, end(&world, visit.owner, &visit.lent));
  };
}

// A search may come upon a post behind the end, which is an exception.
TEST(EndedRegions, ARequestThatComesLaterIsNotCalledSafe) {
  for (const Ending end : {end_by_destructor, end_by_deregistration}) {
    for (const Mode mode : kEitherSearch) {
      const Verdict verdict = check(ends_early(end), searching(mode));
      if (verdict.outcome == Outcome::broken) {
        EXPECT_THAT(verdict.violation->what, HasSubstr("names no live region"));
        continue;
      }
      ASSERT_EQ(verdict.outcome, Outcome::bounded);
      EXPECT_FALSE(verdict.only_loops_bounded);
      EXPECT_THAT(verdict.bound, HasSubstr("owner, which ends a memory region before a request of visitor"));
    }
  }
}

void ends_in_time(World& world) {
  auto& visit = world.make<Visit>(world);
  world.spawn(*visit.visitor, read_and_tell(visit.qp.get(), visit.buffer.local(0, 8), visit.lent.remote(0, 8),
                                            visit.flag.remote(0, 8)));
  world.spawn(*visit.owner, end_when_told(visit.owner, visit.flag.local(0, 8), &visit.lent));
}

void ends_unused(World& world) {
  auto& visit = world.make<Visit>(world);
  world.spawn(*visit.visitor, tell_alone(visit.qp.get(), visit.flag.remote(0, 8)));
  world.spawn(*visit.owner, end_by_destructor(&world, visit.owner, &visit.lent));
}

// Nobody else reaches the buffer, and the request of its owner is done.
Task<void> end_own_buffer(QueuePair* qp, MemoryRegion* buffer, RemoteSpan word) {
  co_await qp->read(buffer->local(0, 8), word);
  buffer->deregister();
}
void ends_a_buffer(World& world) {
  auto& visit = world.make<Visit>(world);
  world.spawn(*visit.visitor, end_own_buffer(visit.qp.get(), &visit.buffer, visit.lent.remote(0, 8)));
}

void ends_with_the_execution(World& world) {
  auto& visit = world.make<Visit>(world);
  world.spawn(*visit.visitor, read_word(visit.qp.get(), visit.buffer.local(0, 8), visit.lent.remote(0, 8)));
}

TEST(EndedRegions, WhoseRequestsAreDoneLoseNothing) {
  for (const auto& program : {ends_in_time, ends_unused, ends_a_buffer, ends_with_the_execution}) {
    for (const Preset preset : kPresets) {
      EXPECT_TRUE(is_safe(program, under(preset))) << name(preset);
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore
