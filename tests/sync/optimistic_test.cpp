// What every optimistic scheme owes its users, on the simulator; and what each computes.
#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/broken.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

struct Store {
  Store() : world({.profile = sim::load_profile("connectx5")}) {
    objects = storage.allocate(1 << 16, Access::remote_all);
    scratch = client.allocate(1 << 16, Access::local_write);
    qp = client.connect(storage);
  }
  sim::Simulation world;
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  MemoryRegion objects;
  MemoryRegion scratch;
  std::unique_ptr<QueuePair> qp;
};

std::vector<std::byte> pattern(std::size_t bytes, std::uint8_t first) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(first + i * 7);
  }
  return out;
}

class EveryScheme : public ::testing::TestWithParam<checker::Scheme> {
 protected:
  std::unique_ptr<OptimisticScheme> scheme = GetParam().make();
  Store store;
};

TEST_P(EveryScheme, IsRegisteredUnderItsOwnName) { EXPECT_EQ(scheme->name(), GetParam().name); }

TEST_P(EveryScheme, AReadGivesBackWhatTheLastUpdateWroteForEverySize) {
  for (const std::uint64_t bytes : {64U, 72U, 120U, 128U, 136U, 192U, 200U, 1000U, 4096U, 16384U}) {
    const RemoteSpan object = store.objects.remote(0, bytes);
    std::memset(store.objects.bytes().data(), 0, bytes);
    std::vector<std::byte> read_back(scheme->payload_bytes(bytes));
    for (std::uint8_t round = 1; round <= 3; ++round) {
      const std::vector<std::byte> payload = pattern(read_back.size(), round);
      EXPECT_TRUE(store.world.reactor().run(scheme->update(*store.qp, object, store.scratch.local(), payload)));
      const ReadResult result =
          store.world.reactor().run(scheme->read(*store.qp, object, store.scratch.local(), read_back));
      EXPECT_TRUE(result.accepted);
      EXPECT_EQ(result.version, round);
      EXPECT_EQ(read_back, payload) << bytes;
    }
    EXPECT_EQ(header_of(store.objects.bytes()).latch, 0U);
  }
}

TEST_P(EveryScheme, AnObjectThatWasNeverWrittenReadsAsZeros) {
  const RemoteSpan object = store.objects.remote(0, 256);
  std::vector<std::byte> payload(scheme->payload_bytes(256), std::byte{1});
  const ReadResult result = store.world.reactor().run(scheme->read(*store.qp, object, store.scratch.local(), payload));
  EXPECT_TRUE(result.accepted);
  EXPECT_EQ(result.version, 0U);
  EXPECT_EQ(payload, std::vector<std::byte>(payload.size()));
}

TEST_P(EveryScheme, ALatchedObjectIsNeitherReadNorUpdated) {
  const RemoteSpan object = store.objects.remote(0, 256);
  const std::uint64_t held = 1;
  std::memcpy(store.objects.bytes().data(), &held, 8);
  std::vector<std::byte> payload(scheme->payload_bytes(256));
  const std::vector<std::byte> before(store.objects.bytes().begin(), store.objects.bytes().begin() + 256);
  EXPECT_FALSE(store.world.reactor().run(scheme->read(*store.qp, object, store.scratch.local(), payload)).accepted);
  EXPECT_FALSE(store.world.reactor().run(scheme->update(*store.qp, object, store.scratch.local(), payload)));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), store.objects.bytes().begin()));
}

TEST_P(EveryScheme, WrongSizesAreNamed) {
  std::vector<std::byte> payload(scheme->payload_bytes(256));
  const auto message = [&](RemoteSpan object, LocalSpan scratch) -> std::string {
    try {
      store.world.reactor().run(scheme->read(*store.qp, object, scratch, payload));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(store.objects.remote(0, 260), store.scratch.local()), HasSubstr("260 bytes"));
  EXPECT_THAT(message(store.objects.remote(0, 56), store.scratch.local()), HasSubstr("56 bytes"));
  EXPECT_THAT(message(store.objects.remote(8, 256), store.scratch.local()), HasSubstr("multiple of 64"));
  EXPECT_THAT(message(store.objects.remote(0, 256), store.scratch.local(0, 128)), HasSubstr("scratch buffer of 128"));
  EXPECT_THAT(message(store.objects.remote(0, 512), store.scratch.local()), HasSubstr("payload bytes"));
}

Task<void> increment(QueuePair& qp, const OptimisticScheme& scheme, RemoteSpan object, LocalSpan scratch, int times) {
  std::vector<std::byte> payload(scheme.payload_bytes(object.length));
  for (int done = 0; done < times;) {
    const bool updated = co_await scheme.update(qp, object, scratch, payload);
    done += updated ? 1 : 0;
  }
}

TEST_P(EveryScheme, WritersExcludeEachOtherAndNoUpdateIsLost) {
  constexpr int kWriters = 6;
  constexpr int kTimes = 100;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  for (int w = 0; w < kWriters; ++w) {
    queue_pairs.push_back(store.client.connect(store.storage));
    store.world.reactor().spawn(increment(*queue_pairs.back(), *scheme, store.objects.remote(0, 256),
                                          store.scratch.local(static_cast<std::uint64_t>(w) * 4096, 4096), kTimes));
  }
  store.world.reactor().run();
  EXPECT_EQ(header_of(store.objects.bytes()), (ObjectHeader{0, kWriters * kTimes}));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryScheme,
                         ::testing::ValuesIn(checker::schemes().begin(), checker::schemes().end()),
                         [](const auto& scheme) {
                           std::string text(scheme.param.name);
                           std::ranges::replace_if(
                               text, [](char c) { return c == '/' || c == '-'; }, '_');
                           return text;
                         });

// One byte of a written object is changed behind the scheme's back.
bool accepts_with_byte_changed(const OptimisticScheme& scheme, std::uint64_t offset) {
  Store store;
  const RemoteSpan object = store.objects.remote(0, 256);
  std::vector<std::byte> payload = pattern(scheme.payload_bytes(256), 1);
  store.world.reactor().run(scheme.update(*store.qp, object, store.scratch.local(), payload));
  store.objects.bytes()[offset] ^= std::byte{0x10};
  return store.world.reactor().run(scheme.read(*store.qp, object, store.scratch.local(), payload)).accepted;
}

TEST(Crc64, HasTheCheckValueOfCrc64Xz) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc64(std::as_bytes(std::span(digits.data(), digits.size()))), 0x995dc9bbdf1939faU);
}

TEST(Crc64, RefusesAnObjectWithAnyByteChanged) {
  const Crc64 scheme;
  for (std::uint64_t offset = 8; offset < 256; ++offset) {  // after the latch
    EXPECT_FALSE(accepts_with_byte_changed(scheme, offset)) << offset;
  }
}

TEST(FarmLineVersions, RefusesAnObjectWithALineOfAnotherVersion) {
  const FarmLineVersions scheme;
  for (const std::uint64_t offset : {8U, 64U, 128U, 192U}) {
    EXPECT_FALSE(accepts_with_byte_changed(scheme, offset)) << offset;
  }
  EXPECT_TRUE(accepts_with_byte_changed(scheme, 72));  // payload: only its version is watched
}

TEST(FarmLineVersions, LosesEightBytesOfEachLineAndEightForTheLatch) {
  const FarmLineVersions scheme;
  EXPECT_EQ(scheme.payload_bytes(64), 48U);
  EXPECT_EQ(scheme.payload_bytes(128), 48U + 56U);
  EXPECT_EQ(scheme.payload_bytes(136), 48U + 56U);  // the last 8 bytes are a version
}

TEST(RoundTrips, AreThoseOfThePaper) {
  // TODS 2025, figure 13: versioning needs three messages to read, checksums and line versions two; an update is latch
  // and READ in one doorbell, WRITE and unlatch in another.
  const auto count = [](const OptimisticScheme& scheme, bool update) {
    Store store;
    std::vector<std::byte> payload(scheme.payload_bytes(256));
    if (update) {
      store.world.reactor().run(scheme.update(*store.qp, store.objects.remote(0, 256), store.scratch.local(), payload));
    } else {
      store.world.reactor().run(scheme.read(*store.qp, store.objects.remote(0, 256), store.scratch.local(), payload));
    }
    return store.qp->counters().round_trips;
  };
  EXPECT_EQ(count(TwoReadVersion(), false), 3U);
  EXPECT_EQ(count(Crc64(), false), 2U);
  EXPECT_EQ(count(FarmLineVersions(), false), 2U);
  EXPECT_EQ(count(FarmLineVersions(), true), 2U);
}

TEST(Specimens, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)make_specimen("broken/none");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("broken/naive"));
  }
}

}  // namespace
}  // namespace sidelatch::sync
