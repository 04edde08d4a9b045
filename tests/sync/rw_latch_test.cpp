#include <sidelatch/sync/rw_latch.h>

#include "store.h"

#include <sidelatch/sync/latch_word.h>

#include <gtest/gtest.h>

namespace sidelatch::sync {
namespace {

using namespace fabric;

std::uint64_t round_trips_of_read(const Scheme& scheme) {
  Store store(scheme);
  Session& session = store.add_session();
  std::vector<std::byte> payload(200);
  EXPECT_TRUE(store.run(scheme.read(session, store.objects.at(0), payload)).accepted);
  return session.qp().counters().round_trips;
}

TEST(RwLatch, ASharedAccessIsThreeMessagesThatTheLevelsOverlap) {
  EXPECT_EQ(round_trips_of_read(RwLatch(LatchLevel::basic)), 3U);
  EXPECT_EQ(round_trips_of_read(RwLatch(LatchLevel::speculative)), 2U);
  EXPECT_EQ(round_trips_of_read(RwLatch(LatchLevel::async)), 1U);
}

Task<void> read_side_by_side(Store& store, Session& a, Session& b, std::uint64_t& readers) {
  ReadGuard first = co_await store.scheme.begin_read(a, store.objects.at(0));
  ReadGuard second = co_await store.scheme.begin_read(b, store.objects.at(0));
  readers = readers_of(store.latch_word(0));
  co_await first.release();
  co_await second.release();
}

TEST(RwLatch, ReadersShareTheLatch) {
  const RwLatch latch;
  Store store(latch);
  std::uint64_t readers = 0;
  store.run(read_side_by_side(store, store.add_session(), store.add_session(), readers));
  EXPECT_EQ(readers, 2U);
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
}

Task<bool> write_beside_a_reader(Store& store, Session& reader, Session& writer) {
  ReadGuard seen = co_await store.scheme.begin_read(reader, store.objects.at(0));
  ExclusiveGuard guard = co_await store.scheme.latch(writer, store.objects.at(0));
  const bool got_it = static_cast<bool>(guard);
  co_await seen.release();
  co_return got_it;
}

TEST(RwLatch, AWriterWaitsForReadersUntilItsDeadline) {
  const RwLatch latch;
  Store store(latch);
  Session& reader = store.add_session();
  Session& writer = store.add_session({.retry = Retry::backoff().within(from_ns(20'000))});
  EXPECT_FALSE(store.run(write_beside_a_reader(store, reader, writer)));
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
}

TEST(RwLatch, AReaderThatGivesUpLeavesTheWordAsTheWriterPutIt) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::async}) {
    const RwLatch latch(level);
    Store store(latch);
    store.set_word(store.layout.latch(0), kExclusive);
    Session& reader = store.add_session({.retry = Retry::at_once().within(from_ns(20'000))});
    std::vector<std::byte> payload(200);
    EXPECT_FALSE(store.run(latch.read(reader, store.objects.at(0), payload)).accepted);
    store.settle();
    EXPECT_EQ(store.latch_word(0), kExclusive);
  }
}

}  // namespace
}  // namespace sidelatch::sync
