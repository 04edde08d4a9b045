// Requirements on every optimistic scheme besides the behaviour suite: values, versions, layouts, messages.
#include <sidelatch/sync/optimistic.h>

#include "store.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::sync {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

class EveryOptimisticScheme : public ::testing::TestWithParam<checker::SchemeEntry> {
 protected:
  std::unique_ptr<Scheme> scheme = GetParam().make();

  [[nodiscard]] std::vector<LayoutKind> layouts() const {
    if (scheme->default_layout() == LayoutKind::padded_footer) {
      return {LayoutKind::footer, LayoutKind::padded_footer};
    }
    std::vector<LayoutKind> all = {LayoutKind::interleaved, LayoutKind::padded, LayoutKind::footer};
    if (!scheme->needs().header_inside) {
      all.push_back(LayoutKind::decoupled);
    }
    return all;
  }
};

TEST_P(EveryOptimisticScheme, AReadGivesBackWhatTheLastUpdateWroteInEveryLayoutAndSize) {
  for (const LayoutKind kind : layouts()) {
    for (const std::uint64_t bytes : {1U, 7U, 8U, 47U, 48U, 49U, 104U, 105U, 200U, 1000U, 16384U}) {
      Store store(*scheme, bytes, 3, kind);
      Session& session = store.add_session();
      std::vector<std::byte> seen(bytes);
      for (std::uint8_t round = 1; round <= 3; ++round) {
        const std::vector<std::byte> written = pattern(bytes, round);
        ASSERT_TRUE(store.run(put(*scheme, session, store.objects.at(1), written)));
        const ReadResult result = store.run(scheme->read(session, store.objects.at(1), seen));
        ASSERT_TRUE(result.accepted);
        ASSERT_EQ(result.version, round);
        ASSERT_EQ(seen, written) << name(kind) << " " << bytes;
      }
      store.settle();
      ASSERT_EQ(store.latch_word(1), kFree);
      for (const std::uint64_t neighbour : {0U, 2U}) {
        const ReadResult result = store.run(scheme->read(session, store.objects.at(neighbour), seen));
        ASSERT_TRUE(result.accepted);
        ASSERT_EQ(result.version, 0U);
        ASSERT_EQ(seen, std::vector<std::byte>(bytes)) << name(kind) << " " << bytes;
      }
    }
  }
}

TEST_P(EveryOptimisticScheme, ALatchedObjectIsNotUpdatedBeforeTheDeadline) {
  Store store(*scheme);
  store.set_word(store.layout.latch(0), kExclusive);
  Session& session = store.add_session({.retry = Retry::at_once().within(from_ns(10'000))});
  EXPECT_FALSE(store.run(put(*scheme, session, store.objects.at(0), pattern(200, 1))));
  EXPECT_EQ(store.latch_word(0), kExclusive);
  EXPECT_TRUE(std::ranges::all_of(store.memory.bytes().subspan(store.layout.payload(0), 100),
                                  [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(EveryOptimisticScheme, AValidationSeesAnUpdateThatCameAfterTheRead) {
  Store store(*scheme);
  Session& reader = store.add_session();
  Session& writer = store.add_session();
  store.run(put(*scheme, writer, store.objects.at(0), pattern(200, 1)));
  ReadGuard guard = store.run(scheme->begin_read(reader, store.objects.at(0)));
  store.run(put(*scheme, writer, store.objects.at(0), pattern(200, 2)));
  store.settle();
  EXPECT_FALSE(store.run(guard.validate()));
  ReadGuard again = store.run(scheme->begin_read(reader, store.objects.at(0)));
  EXPECT_TRUE(store.run(again.validate()));
}

TEST_P(EveryOptimisticScheme, AWrongPayloadSizeIsNamed) {
  Store store(*scheme);
  std::vector<std::byte> payload(199);
  try {
    (void)store.run(scheme->read(store.add_session(), store.objects.at(0), payload));
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("a read into 199 bytes of a payload of 200"));
  }
}

std::vector<checker::SchemeEntry> optimistic_schemes() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (entry.name.starts_with("optimistic/")) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOptimisticScheme, ::testing::ValuesIn(optimistic_schemes()),
                         [](const auto& scheme) {
                           std::string text(scheme.param.name);
                           std::ranges::replace_if(
                               text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
                           return text;
                         });

struct Messages {
  std::uint64_t round_trips;
  std::uint64_t requests;
  friend bool operator==(const Messages&, const Messages&) = default;
};

Messages messages_of_read(const Scheme& scheme, Semantics semantics) {
  Store store(scheme);
  Session& session = store.add_session();
  std::vector<std::byte> payload(200);
  (void)store.run(scheme.read(session, store.objects.at(0), payload, semantics));
  return {session.qp().counters().round_trips, session.qp().counters().requests};
}

Messages messages_of_update(const Scheme& scheme) {
  Store store(scheme);
  Session& session = store.add_session();
  (void)store.run(put(scheme, session, store.objects.at(0), pattern(200, 1)));
  return {session.qp().counters().round_trips, session.qp().counters().requests};
}

TEST(Messages, AreThoseOfFigure13) {
  EXPECT_EQ(messages_of_read(TwoReadVersion(), Semantics::latch_equivalent), (Messages{3, 3}));
  EXPECT_EQ(messages_of_read(Crc64(), Semantics::latch_equivalent), (Messages{2, 2}));
  EXPECT_EQ(messages_of_read(FarmLineVersions(), Semantics::latch_equivalent), (Messages{2, 2}));
  EXPECT_EQ(messages_of_read(CopyOnWrite(), Semantics::latch_equivalent), (Messages{3, 3}));
}

TEST(Messages, AConsistentReadSavesTheValidation) {
  EXPECT_EQ(messages_of_read(Crc64(), Semantics::consistent), (Messages{1, 1}));
  EXPECT_EQ(messages_of_read(FarmLineVersions(), Semantics::consistent), (Messages{1, 1}));
  // For versioning with two reads the third READ is what makes it consistent.
  EXPECT_EQ(messages_of_read(TwoReadVersion(), Semantics::consistent), (Messages{3, 3}));
}

TEST(Messages, AnUpdateIsTwoRoundTripsAndWriteUnlatchSavesAnAtomic) {
  EXPECT_EQ(messages_of_update(FarmLineVersions()), (Messages{2, 4}));
  EXPECT_EQ(messages_of_update(FarmLineVersions(WriteUnlatch::awaited)), (Messages{2, 3}));
  EXPECT_EQ(messages_of_update(FarmLineVersions(Release::async)), (Messages{1, 4}));
  EXPECT_EQ(messages_of_update(CopyOnWrite()), (Messages{2, 5}));
}

}  // namespace
}  // namespace sidelatch::sync
