#include <sidelatch/sync/session.h>

#include "store.h"
#include "tests/message_of.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

TEST(SessionOptions, BadOnesAreNamed) {
  const auto message = [](const std::function<void(SessionOptions&)>& change) {
    SessionOptions options;
    change(options);
    return message_of([&] { options.validate(); });
  };
  EXPECT_EQ(message([](SessionOptions&) {}), "no error");
  EXPECT_THAT(message([](SessionOptions& o) { o.buffers = 0; }), HasSubstr("session of 0 buffers"));
  EXPECT_THAT(message([](SessionOptions& o) { o.buffers = 65537; }), HasSubstr("session of 65537 buffers"));
  EXPECT_EQ(message([](SessionOptions& o) { o.buffers = 65536; }), "no error");
  EXPECT_THAT(message([](SessionOptions& o) { o.retry.first = Duration(0); }), HasSubstr("backoff from 0 to"));
  EXPECT_THAT(message([](SessionOptions& o) { o.retry.cap = from_ns(1); }), HasSubstr("backoff from 500 to 1 ns"));
  EXPECT_THAT(message([](SessionOptions& o) { o.retry.deadline = Duration(0); }), HasSubstr("deadline after 0 ns"));
  EXPECT_THAT(message([](SessionOptions& o) { o.linger = from_ns(-1); }), HasSubstr("linger is -1 ns"));
  EXPECT_EQ(message([](SessionOptions& o) { o.linger = Duration::max(); }), "no error");
  EXPECT_THAT(message([](SessionOptions& o) { o.lease.length = from_ns(10); }), HasSubstr("lease without owner"));
  EXPECT_THAT(message([](SessionOptions& o) { o.owner = 1; }), HasSubstr("owner id 1 without a lease"));
  EXPECT_THAT(message([](SessionOptions& o) {
                o.owner = 1;
                o.lease = {from_ns(10), from_ns(10)};
              }),
              HasSubstr("a lease of 10 ns with a margin of 10 ns"));
}

Task<void> drop_a_guard(Store& store, Session& session) {
  const ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(3));
}

DroppedGuard g_dropped;
int g_drops = 0;
void remember(const DroppedGuard& dropped) {
  g_dropped = dropped;
  ++g_drops;
}

TEST(Guard, ADroppedOneIsReportedWithThePlaceOfItsAcquisition) {
  const ExclusiveLatch latch;
  Store store(latch);
  g_drops = 0;
  store.run(drop_a_guard(store, store.add_session({.dropped_guard = remember})));
  EXPECT_EQ(g_drops, 1);
  EXPECT_THAT(g_dropped.place.file_name(), HasSubstr("session_test.cpp"));
  EXPECT_THAT(g_dropped.place.function_name(), HasSubstr("drop_a_guard"));
  EXPECT_EQ(g_dropped.latch.value, store.memory.remote().address.value + store.layout.latch(3));
}

#ifndef NDEBUG
TEST(GuardDeathTest, InADebugBuildADroppedOneEndsTheProgram) {
  EXPECT_DEATH(
      {
        const ExclusiveLatch latch;
        Store store(latch);
        store.run(drop_a_guard(store, store.add_session()));
      },
      "a guard was dropped that holds the latch at .* it was acquired at .*session_test.cpp");
}
#endif

Task<void> drop_a_read(Store& store, Session& session) {
  const ReadGuard guard = co_await store.scheme.begin_read(session, store.objects.at(3));
}

TEST(Guard, AnOptimisticReadHoldsNothingAndMayBeDropped) {
  const TwoReadVersion scheme;
  Store store(scheme);
  g_drops = 0;
  store.run(drop_a_read(store, store.add_session({.dropped_guard = remember})));
  EXPECT_EQ(g_drops, 0);
}

Task<void> end_twice(Store& store, Session& session, std::string& message) {
  ExclusiveGuard guard = co_await store.scheme.latch(session, store.objects.at(0));
  co_await guard.commit();
  try {
    co_await guard.commit();
  } catch (const std::logic_error& error) {
    message = error.what();
  }
}

TEST(Guard, CanBeEndedOnce) {
  const ExclusiveLatch latch;
  Store store(latch);
  std::string message;
  store.run(end_twice(store, store.add_session(), message));
  EXPECT_EQ(message, "commit() of a guard that holds nothing");
}

Task<void> hold_many(Store& store, Session& session) {
  std::vector<ExclusiveGuard> guards;
  std::exception_ptr error;
  for (std::uint64_t i = 0; i < store.objects.size(); ++i) {
    try {
      guards.push_back(co_await store.scheme.latch(session, store.objects.at(i)));
    } catch (...) {
      error = std::current_exception();
      break;
    }
  }
  for (ExclusiveGuard& guard : guards) {
    co_await guard.abort();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

TEST(Session, MoreGuardsThanBuffersIsAnErrorAndNotAHang) {
  const ExclusiveLatch latch;
  Store store(latch);
  Session& session = store.add_session({.buffers = 2});
  EXPECT_THAT(message_of([&] { store.run(hold_many(store, session)); }),
              HasSubstr("all 2 buffers of the session are held by guards"));
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_EQ(store.latch_word(1), kFree);
}

TEST(Session, ARecordThatIsTooLargeIsNamed) {
  const ExclusiveLatch latch;
  Store store(latch);
  Session small(store.add_session().qp(), 64);
  EXPECT_THAT(message_of([&] { store.run(put(latch, small, store.objects.at(0), pattern(200, 1))); }),
              HasSubstr("needs a session with buffers of"));
}

TEST(Scheme, AnObjectOfAnotherSchemesShapeIsRefused) {
  const TwoReadVersion two_read;
  const Crc64 crc;
  Store store(two_read);
  Session& session = store.add_session();
  std::vector<std::byte> payload(200);
  EXPECT_THAT(message_of([&] { (void)store.run(crc.read(session, store.objects.at(0), payload)); }),
              HasSubstr("another scheme shaped"));
  EXPECT_THAT(message_of([&] { (void)store.run(put(crc, session, store.objects.at(0), pattern(200, 1))); }),
              HasSubstr("another scheme shaped"));
}

TEST(Session, AQueuePairTooShortForAChainIsRefused) {
  const ExclusiveLatch latch;
  Store store(latch);
  const auto qp = store.world.add_node("client").connect(store.storage, {.send_queue_depth = 2});
  EXPECT_THAT(message_of([&] { Session(*qp, 1024); }), HasSubstr("send queue of 2"));
}

TEST(Update, AnExceptionUnlatchesTheObjectAndGoesOn) {
  const ExclusiveLatch latch;
  Store store(latch);
  Session& session = store.add_session();
  const auto fail = [](std::span<std::byte> payload) {
    payload[0] = std::byte{1};
    throw std::runtime_error("no");
  };
  EXPECT_THAT(message_of([&] { (void)store.run(latch.update(session, store.objects.at(0), fail)); }), HasSubstr("no"));
  store.settle();
  EXPECT_EQ(store.latch_word(0), kFree);
  EXPECT_EQ(store.memory.bytes()[store.layout.payload(0)], std::byte{0});
}

// Asynchronous unlatching of many objects with few buffers: each object gets its own bytes.
TEST(Session, BuffersAreNotReusedBeforeTheirPayloadIsFetched) {
  const ExclusiveLatch latch(LatchLevel::async);
  sim::Profile slow = sim::load_profile("connectx5");
  slow.pcie.read_ns = 50'000;  // the NIC fetches late
  Store store(latch, 200, 64, LayoutKind::padded, {.profile = slow});
  Session& session = store.add_session({.buffers = 3});
  for (std::uint64_t i = 0; i < 64; ++i) {
    store.run(put(latch, session, store.objects.at(i), pattern(200, static_cast<std::uint8_t>(i))));
  }
  store.settle();
  for (std::uint64_t i = 0; i < 64; ++i) {
    const auto bytes = store.memory.bytes().subspan(store.layout.payload(i), 200);
    const auto expected = pattern(200, static_cast<std::uint8_t>(i));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin())) << i;
  }
}

}  // namespace
}  // namespace sidelatch::sync
