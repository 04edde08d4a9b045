#include <sidelatch/sync/exclusive_latch.h>

#include "store.h"

#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/rw_latch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

// Write unlatch is for one-mode latches, so the type of the reader/writer latch does not accept it.
static_assert(std::is_constructible_v<ExclusiveLatch, Acquire, WriteUnlatch>);
static_assert(!std::is_constructible_v<RwLatch, Acquire, WriteUnlatch>);
static_assert(!std::is_constructible_v<RwLatch, WriteUnlatch>);

struct Cost {
  std::uint64_t round_trips;
  std::uint64_t doorbells;
  std::uint64_t requests;
  friend bool operator==(const Cost&, const Cost&) = default;
};

Cost cost_of_update(const Scheme& scheme) {
  Store store(scheme);
  Session& session = store.add_session();
  EXPECT_TRUE(store.run(put(scheme, session, store.objects.at(1), pattern(200, 1))));
  const Counters& counters = session.qp().counters();
  return {counters.round_trips, counters.doorbells, counters.requests};
}

TEST(ExclusiveLatch, EachLevelSavesARoundTripOfFigure7) {
  EXPECT_EQ(cost_of_update(ExclusiveLatch(LatchLevel::basic)), (Cost{4, 4, 4}));
  EXPECT_EQ(cost_of_update(ExclusiveLatch(LatchLevel::speculative)), (Cost{3, 3, 4}));
  EXPECT_EQ(cost_of_update(ExclusiveLatch(LatchLevel::combined)), (Cost{2, 2, 4}));
  EXPECT_EQ(cost_of_update(ExclusiveLatch(LatchLevel::async)), (Cost{1, 2, 4}));
  EXPECT_EQ(cost_of_update(ExclusiveLatch(Acquire::speculative, WriteUnlatch::awaited)), (Cost{2, 2, 3}));
  EXPECT_EQ(cost_of_update(ExclusiveLatch(Acquire::speculative, WriteUnlatch::async)), (Cost{1, 2, 3}));
  EXPECT_EQ(cost_of_update(ExclusiveLatch(Acquire::basic, Release::async)), (Cost{2, 3, 4}));
}

TEST(ExclusiveLatch, NamesSayTheLevel) {
  EXPECT_EQ(ExclusiveLatch(LatchLevel::combined).name(), "latch-exclusive/combined");
  EXPECT_EQ(ExclusiveLatch(Acquire::basic, Release::async).name(), "latch-exclusive/basic+async");
  EXPECT_EQ(ExclusiveLatch(Acquire::speculative, WriteUnlatch::async).name(), "latch-exclusive/write-unlatch");
}

Task<std::uint64_t> word_while_latched(Store& store, Session& session) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(2));
  const std::uint64_t word = store.latch_word(2);
  co_await guard.abort();
  co_return word;
}

TEST(ExclusiveLatch, TakesTheLatchFromZeroToOneAndBack) {
  const ExclusiveLatch latch;
  Store store(latch);
  EXPECT_EQ(store.run(word_while_latched(store, store.add_session())), kExclusive);
  store.settle();
  EXPECT_EQ(store.latch_word(2), kFree);
}

TEST(ExclusiveLatch, ASessionWithOwnerLeavesItsIdInTheWord) {
  const ExclusiveLatch latch;
  Store store(latch);
  const std::uint64_t word =
      store.run(word_while_latched(store, store.add_session({.owner = 0x1234, .lease = {from_ns(1e6), from_ns(1e3)}})));
  EXPECT_TRUE(is_exclusive(word));
  EXPECT_EQ(owner_of(word), 0x1234U);
  EXPECT_EQ(epoch_of(word), 1U);
}

Task<bool> latch_and_abort(Store& store, Session& session) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
  if (!guard) {
    co_return false;
  }
  co_await guard.abort();
  co_return true;
}

TEST(ExclusiveLatch, ADeadlineThatPassesLeavesTheWordAlone) {
  for (const Retry& retry : {Retry::at_once(), Retry::backoff()}) {
    const ExclusiveLatch latch;
    Store store(latch);
    store.set_word(store.layout.latch(0), exclusive_word(9, 3));
    Session& session = store.add_session({.retry = retry.within(from_ns(50'000))});
    const Time begun = store.world.now();
    EXPECT_FALSE(store.run(latch_and_abort(store, session)));
    EXPECT_GE(store.world.now() - begun, from_ns(50'000));
    EXPECT_LT(store.world.now() - begun, from_ns(60'000));
    EXPECT_EQ(store.latch_word(0), exclusive_word(9, 3));
    EXPECT_EQ(session.counters().deadlines, 1U);
    EXPECT_GT(session.counters().retries, 1U);
  }
}

TEST(ExclusiveLatch, BackoffSendsFewerRequestsThanRetryingAtOnce) {
  const auto requests = [](const Retry& retry) {
    const ExclusiveLatch latch;
    Store store(latch);
    store.set_word(store.layout.latch(0), kExclusive);
    Session& session = store.add_session({.retry = retry.within(from_ns(1e6))});
    EXPECT_FALSE(store.run(latch_and_abort(store, session)));
    return session.qp().counters().requests;
  };
  EXPECT_LT(requests(Retry::backoff()) * 4, requests(Retry::at_once()));
}

Task<void> change_and_abort(Store& store, Session& session) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(1));
  guard.payload()[0] = std::byte{99};
  co_await guard.abort();
}

TEST(ExclusiveLatch, AnAbortLeavesTheObjectAsItWas) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::async}) {
    const ExclusiveLatch latch(level);
    Store store(latch);
    Session& session = store.add_session();
    const auto written = pattern(200, 5);
    store.run(put(latch, session, store.objects.at(1), written));
    store.run(change_and_abort(store, session));
    store.settle();
    std::vector<std::byte> seen(200);
    EXPECT_TRUE(store.run(latch.read(session, store.objects.at(1), seen)).accepted);
    EXPECT_EQ(seen, written);
  }
}

TEST(ExclusiveLatch, WriteUnlatchNeedsAFooter) {
  const ExclusiveLatch latch(Acquire::speculative, WriteUnlatch::awaited);
  Store store(latch, 200, 4, LayoutKind::padded);
  try {
    store.run(put(latch, store.add_session(), store.objects.at(0), pattern(200, 1)));
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("write unlatch needs a footer layout"));
  }
}

TEST(ExclusiveLatch, WorksInEveryLayout) {
  const ExclusiveLatch latch;
  for (const LayoutKind kind :
       {LayoutKind::interleaved, LayoutKind::padded, LayoutKind::decoupled, LayoutKind::footer}) {
    Store store(latch, 77, 4, kind);
    Session& session = store.add_session();
    for (std::uint64_t i = 0; i < 4; ++i) {
      store.run(put(latch, session, store.objects.at(i), pattern(77, static_cast<std::uint8_t>(i))));
    }
    for (std::uint64_t i = 0; i < 4; ++i) {
      std::vector<std::byte> seen(77);
      store.run(latch.read(session, store.objects.at(i), seen));
      EXPECT_EQ(seen, pattern(77, static_cast<std::uint8_t>(i))) << name(kind);
    }
  }
}

}  // namespace
}  // namespace sidelatch::sync
