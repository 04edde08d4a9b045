// The scenarios of cpu_suite.h, and what concerns time, errors and ends, for worlds whose reactor runs tasks.
//
//   INSTANTIATE_TEST_SUITE_P(Simulator, NodeCpu, ::testing::Values(&simulated_site));
#pragma once

#include "cpu_suite.h"
#include "note_end.h"

#include <sidelatch/fabric/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sidelatch::fabric::cpu_suite {

struct Place {
  std::unique_ptr<Fabric> fabric;
  Node* first = nullptr;
  Node* second = nullptr;
};
using MakePlace = Place (*)();

template <class World>
Place place_in(std::unique_ptr<World> fabric) {
  Node& first = fabric->add_node("first");
  Node& second = fabric->add_node("second");
  return {.fabric = std::move(fabric), .first = &first, .second = &second};
}

class NodeCpu : public ::testing::TestWithParam<MakePlace> {
 protected:
  void SetUp() override { place_ = GetParam()(); }
  void TearDown() override { place_.fabric->reactor().destroy_spawned(); }
  [[nodiscard]] Reactor& reactor() { return place_.fabric->reactor(); }
  [[nodiscard]] Site site() {
    return {*place_.first, *place_.second, [](bool holds, std::string_view what) { EXPECT_TRUE(holds) << what; }};
  }
  End end_of(Task<void> task) {
    End end;
    reactor().spawn(note_end(std::move(task), &end));
    for (int i = 0; i < 2000 && !end.over; ++i) {
      reactor().run_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(end.over);
    return end;
  }
  Place place_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NodeCpu);

TEST_P(NodeCpu, KeepsWhatEveryWorldPromises) {
  for (const Scenario& scenario : kScenarios) {
    for (int i = 0; i < 20; ++i) {
      SCOPED_TRACE(scenario.name);
      Site here = site();
      reactor().spawn(scenario.first(&here, here.sides.data(), &here.sides[1]));
      reactor().spawn(scenario.second(&here, &here.sides[1], here.sides.data()));
      if (scenario.third != nullptr) {
        reactor().spawn(scenario.third(&here, here.sides.data(), &here.sides[1]));
      }
      reactor().run();
      for (const Site::Side& side : here.sides) {
        reactor().run([](QueuePair* qp) -> Task<void> { co_await qp->drain(); }(side.qp.get()));
      }
    }
  }
}

inline Task<void> note_wait_for(Site::Side* me, Duration limit, std::optional<std::uint64_t>* seen) {
  *seen = co_await me->cpu().wait_for(me->own(0), WordCondition::is_not(0), limit);
}
inline Task<void> write_later(Site::Side* me, Site::Side* other, Duration after) {
  co_await me->node->reactor().sleep(after);
  co_await me->qp->write(me->out(0, 3), other->word(0));
}

TEST_P(NodeCpu, AWaitWithALimitEndsWhenItIsOver) {
  Site here = site();
  std::optional<std::uint64_t> seen = 77;
  const Time began = reactor().now();
  reactor().run(note_wait_for(here.sides.data(), from_ns(50'000), &seen));
  EXPECT_FALSE(seen);
  EXPECT_GE(reactor().now() - began, from_ns(50'000));
  seen = 77;
  reactor().run(note_wait_for(here.sides.data(), Duration::zero(), &seen));  // looks once
  EXPECT_FALSE(seen);
}

TEST_P(NodeCpu, AWaitWithALimitEndsWithTheWordIfItComesBefore) {
  Site here = site();
  std::optional<std::uint64_t> seen;
  reactor().spawn(write_later(&here.sides[1], here.sides.data(), from_ns(20'000)));
  reactor().run(note_wait_for(here.sides.data(), from_ns(60e9), &seen));
  EXPECT_EQ(seen, 3U);
  reactor().run();
}

TEST_P(NodeCpu, OtherTasksGoOnWhileOneWaits) {
  Site here = site();
  End waiting;
  End working;
  reactor().spawn(note_end(wait_for_seven(&here, here.sides.data(), &here.sides[1]), &waiting));
  reactor().spawn(note_end(add_thrice(&here, here.sides.data(), &here.sides[1]), &working));
  for (int i = 0; i < 2000 && !working.over; ++i) {
    reactor().run_for(from_ns(100'000));
  }
  EXPECT_TRUE(working.over);
  EXPECT_FALSE(waiting.over);
  reactor().spawn(write_seven(&here, &here.sides[1], here.sides.data()));
  reactor().run();
  EXPECT_TRUE(waiting.over);
  EXPECT_FALSE(waiting.status) << waiting.what;
}

TEST_P(NodeCpu, ATaskThatWaitsMayBeDestroyed) {
  Site here = site();
  {
    const Reactor::Scope tasks(reactor());
    reactor().spawn(wait_for_seven(&here, here.sides.data(), &here.sides[1]));
    std::optional<std::uint64_t> seen;
    reactor().spawn(note_wait_for(here.sides.data(), from_ns(60e9), &seen));
    reactor().run_for(from_ns(10'000));
  }
  reactor().run(write_seven(&here, &here.sides[1], here.sides.data()));
  EXPECT_FALSE(here.sides[0].node->cpu().uses(here.sides[0].words.lkey()));
}

TEST_P(NodeCpu, ARegionInWhichATaskWaitsIsInUse) {
  Site here = site();
  MemoryRegion& words = here.sides[0].words;
  reactor().spawn(wait_for_seven(&here, here.sides.data(), &here.sides[1]));
  reactor().run_for(from_ns(10'000));
  try {
    words.deregister();
    FAIL();
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::busy);
  }
  reactor().spawn(write_seven(&here, &here.sides[1], here.sides.data()));
  reactor().run();
  EXPECT_NO_THROW(words.deregister());
}

inline Task<void> load_word(Cpu* cpu, LocalSpan word) { co_await cpu->load(word); }

TEST_P(NodeCpu, ABadWordIsNamed) {
  Site here = site();
  const Site::Side& me = here.sides[0];
  const auto error_of = [&](const LocalSpan& word) -> std::string {
    try {
      reactor().run(load_word(&me.cpu(), word));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "accepted";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of(me.words.local(4, 8)), HasSubstr("aligned to 8"));
  EXPECT_THAT(error_of(me.words.local(0, 4)), HasSubstr("4 bytes"));
  EXPECT_THAT(error_of(here.sides[1].own(0)), HasSubstr("no live region of node first"));
  LocalSpan outside = me.own(0);
  outside.data += me.words.length();
  EXPECT_THAT(error_of(outside), HasSubstr("no live region"));
  LocalSpan unknown = me.own(0);
  unknown.lkey.value ^= 0xabc000;
  EXPECT_THAT(error_of(unknown), HasSubstr("no live region"));
  EXPECT_EQ(error_of(me.own(0)), "accepted");
}

}  // namespace sidelatch::fabric::cpu_suite
