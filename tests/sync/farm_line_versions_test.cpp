#include <sidelatch/sync/farm_line_versions.h>

#include "store.h"

#include <gtest/gtest.h>

namespace sidelatch::sync {
namespace {

using namespace fabric;

// An object of four lines, written twice; then one word is changed behind the scheme's back.
bool accepts_with_word(const Scheme& scheme, std::uint64_t offset, std::uint64_t word, std::uint64_t bytes) {
  Store store(scheme, 48 + 3 * 56);
  Session& session = store.add_session({.retry = Retry::at_once().within(Duration(1))});
  store.run(put(scheme, session, store.objects.at(0), pattern(48 + 3 * 56, 1)));
  store.run(put(scheme, session, store.objects.at(0), pattern(48 + 3 * 56, 2)));
  store.settle();
  std::memcpy(store.memory.bytes().data() + store.layout.record(0) + offset, &word, bytes);
  std::vector<std::byte> payload(48 + 3 * 56);
  return store.run(scheme.read(session, store.objects.at(0), payload)).accepted;
}

TEST(FarmLineVersions, RefusesAnObjectWithALineOfAnotherVersion) {
  const FarmLineVersions scheme;
  for (const std::uint64_t offset : {8U, 64U, 128U, 192U}) {
    EXPECT_FALSE(accepts_with_word(scheme, offset, 1, 8)) << offset;
    EXPECT_TRUE(accepts_with_word(scheme, offset, 2, 8)) << offset;
  }
  EXPECT_TRUE(accepts_with_word(scheme, 72, 12345, 8));  // payload: only its version is watched
}

TEST(FarmLineVersions, NarrowVersionsTakeTwoBytesOfALine) {
  const FarmLineVersions scheme(Release::combined, LineVersion::bits16);
  EXPECT_EQ(scheme.shape(48 + 3 * 62, LayoutKind::padded).bytes, 256U);
  EXPECT_FALSE(accepts_with_word(scheme, 64, 1, 2));
  EXPECT_TRUE(accepts_with_word(scheme, 66, 12345, 8));
}

// A narrow version repeats after 65 536 updates, so a read must not last that long.
TEST(FarmLineVersions, NarrowVersionsWrapAndSlowReadsAreRefused) {
  const FarmLineVersions patient(Release::combined, LineVersion::bits16);
  Store store(patient, 200, 1);
  Session& session = store.add_session({.retry = Retry::at_once().within(from_ns(100'000))});
  store.run(put(patient, session, store.objects.at(0), pattern(200, 1)));
  store.settle();
  const std::uint64_t version = store.layout.version(0);
  store.set_word(version, 1 + 65536);  // the header is 65 536 updates ahead of the lines, and they look alike
  std::vector<std::byte> payload(200);
  EXPECT_TRUE(store.run(patient.read(session, store.objects.at(0), payload)).accepted);
  const FarmLineVersions hasty(Release::combined, LineVersion::bits16, from_ns(100));
  EXPECT_FALSE(store.run(hasty.read(session, store.objects.at(0), payload)).accepted);
  const FarmLineVersions wide(Release::combined, LineVersion::bits64, from_ns(100));  // 64 bits do not wrap: no bound
  Store other(wide, 200, 1);
  EXPECT_TRUE(other.run(wide.read(other.add_session(), other.objects.at(0), payload)).accepted);
}

}  // namespace
}  // namespace sidelatch::sync
