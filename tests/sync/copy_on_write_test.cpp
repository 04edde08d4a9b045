#include <sidelatch/sync/copy_on_write.h>

#include "store.h"

#include <sidelatch/sync/latch_word.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::sync {
namespace {

using namespace fabric;

std::vector<std::byte> copy_in_memory(const Store& store, std::uint64_t which) {
  const auto bytes = store.memory.bytes().subspan(store.layout.payload(0) + which * 200, 200);
  return {bytes.begin(), bytes.end()};
}

TEST(CopyOnWrite, AnUpdateGoesToTheCopyThatIsNotCurrent) {
  const CopyOnWrite scheme;
  Store store(scheme, 200, 1);
  Session& session = store.add_session();
  store.run(put(scheme, session, store.objects.at(0), pattern(200, 1)));
  store.settle();
  EXPECT_EQ(copy_in_memory(store, 1), pattern(200, 1));
  EXPECT_EQ(copy_in_memory(store, 0), std::vector<std::byte>(200));
  store.run(put(scheme, session, store.objects.at(0), pattern(200, 2)));
  store.settle();
  EXPECT_EQ(copy_in_memory(store, 0), pattern(200, 2));
  EXPECT_EQ(copy_in_memory(store, 1), pattern(200, 1)) << "the last version stays until the next update";
  EXPECT_EQ(store.word_at(store.layout.version(0)), 2U);
}

TEST(CopyOnWrite, ReadersDoNotCareWhetherTheLatchIsHeld) {
  const CopyOnWrite scheme;
  Store store(scheme, 200, 1);
  Session& session = store.add_session();
  store.run(put(scheme, session, store.objects.at(0), pattern(200, 1)));
  store.settle();
  store.set_word(store.layout.latch(0), kExclusive);
  std::vector<std::byte> payload(200);
  const ReadResult result = store.run(scheme.read(session, store.objects.at(0), payload));
  EXPECT_TRUE(result.accepted);
  EXPECT_EQ(result.version, 1U);
  EXPECT_EQ(payload, pattern(200, 1));
}

// Whichever part of an update was executed when its writer is cut off: readers see the old payload or the new one.
TEST(CopyOnWrite, AWriterThatIsCutOffAtAnyMomentLeavesAWholePayload) {
  int old_seen = 0;
  int new_seen = 0;
  for (int ns = 0; ns < 8000; ns += 50) {
    const CopyOnWrite scheme;
    Store store(scheme, 200, 1);
    Session& writer = store.add_session();
    Session& reader = store.add_session();
    store.run(put(scheme, writer, store.objects.at(0), pattern(200, 1)));
    store.settle();
    Task<bool> update = put(scheme, writer, store.objects.at(0), pattern(200, 2));
    auto start = update.operator co_await();
    start.await_suspend(std::noop_coroutine());
    store.world.reactor().run_for(from_ns(ns));
    store.storage.revoke(writer.qp());
    std::vector<std::byte> payload(200);
    ASSERT_TRUE(store.run(scheme.read(reader, store.objects.at(0), payload)).accepted);
    const bool is_old = payload == pattern(200, 1);
    ASSERT_TRUE(is_old || payload == pattern(200, 2)) << ns;
    (is_old ? old_seen : new_seen) += 1;
    store.world.reactor().run_for(from_ns(1e5));
  }
  EXPECT_GT(old_seen, 0);
  EXPECT_GT(new_seen, 0);
}

}  // namespace
}  // namespace sidelatch::sync
