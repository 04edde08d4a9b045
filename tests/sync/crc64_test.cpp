#include <sidelatch/sync/crc64.h>

#include "store.h"

#include <gtest/gtest.h>

#include <string>

namespace sidelatch::sync {
namespace {

using namespace fabric;

TEST(Crc64, HasTheCheckValueOfCrc64Xz) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc64(std::as_bytes(std::span(digits.data(), digits.size()))), 0x995dc9bbdf1939faU);
}

bool accepts_with_byte_changed(const Scheme& scheme, std::uint64_t offset) {
  Store store(scheme, 232);
  Session& session = store.add_session({.retry = Retry::at_once().within(Duration(1))});
  store.run(put(scheme, session, store.objects.at(0), pattern(232, 1)));
  store.settle();
  store.memory.bytes()[store.layout.record(0) + offset] ^= std::byte{0x10};
  std::vector<std::byte> payload(232);
  return store.run(scheme.read(session, store.objects.at(0), payload)).accepted;
}

TEST(Crc64, RefusesAnObjectWithAnyByteChanged) {
  const Crc64 scheme;
  for (std::uint64_t offset = 8; offset < 256; ++offset) {  // after the latch
    EXPECT_FALSE(accepts_with_byte_changed(scheme, offset)) << offset;
  }
}

// Zeroed memory is an object of version 0, but not if a line of a first update is among the zeros.
TEST(Crc64, RefusesAMixtureOfNothingAndTheFirstUpdate) {
  const Crc64 scheme;
  Store store(scheme, 232);
  store.memory.bytes()[store.layout.record(0) + 128] = std::byte{1};
  Session& session = store.add_session({.retry = Retry::at_once().within(Duration(1))});
  std::vector<std::byte> payload(232);
  EXPECT_FALSE(store.run(scheme.read(session, store.objects.at(0), payload)).accepted);
}

TEST(Crc8, CollidesAboutOnceIn256) {
  const Crc64 scheme(Release::combined, Checksum::crc8);
  const RecordShape shape = scheme.shape(232, LayoutKind::padded);
  Store store(scheme, 232);
  Session& session = store.add_session({.retry = Retry::at_once().within(Duration(1))});
  store.run(put(scheme, session, store.objects.at(0), pattern(232, 1)));
  store.settle();
  int accepted = 0;
  for (std::uint64_t i = 1; i <= 2000; ++i) {
    store.set_word(store.layout.record(0) + shape.payload, i * 0x9e3779b97f4a7c15ULL);
    std::vector<std::byte> payload(232);
    accepted += store.run(scheme.read(session, store.objects.at(0), payload)).accepted ? 1 : 0;
  }
  // 2000 / 256 is 7.8, with a standard deviation of 2.8.
  EXPECT_GE(accepted, 1);
  EXPECT_LE(accepted, 25);
}

TEST(IdealChecksum, TellsEveryContentFromEveryOther) {
  const Crc64 scheme(Release::combined, Checksum::ideal);
  for (std::uint64_t offset = 8; offset < 256; offset += 7) {
    EXPECT_FALSE(accepts_with_byte_changed(scheme, offset)) << offset;
  }
}

}  // namespace
}  // namespace sidelatch::sync
