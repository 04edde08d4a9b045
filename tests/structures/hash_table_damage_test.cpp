// Damage that check() and the operations must find.
#include <sidelatch/structures/hash_table.h>

#include "hash_table_rig.h"

#include "structures/hash_bucket.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Offsets in a bucket's payload, as in hash_bucket.h.
constexpr std::uint64_t kHome = 8;
constexpr std::uint64_t kNext = 16;
constexpr std::uint64_t kNextGeneration = 20;
constexpr std::uint64_t kGeneration = 24;
constexpr std::uint64_t kUsed = 28;
constexpr std::uint64_t kFirstKey = 32;

// Two home buckets with chains of three buckets of two entries, all full.
class DamagedTable : public ::testing::Test {
 protected:
  DamagedTable() {
    for (const std::uint64_t home : {0U, 1U}) {
      keys_.push_back(rig_.keys_of(home, 6));
      for (const std::uint64_t key : keys_.back()) {
        EXPECT_EQ(rig_.insert(client_, key, key), Outcome::done);
      }
    }
    const HashTableReport report = rig_.check();
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_EQ(report.entries, 12U);
    EXPECT_EQ(report.overflow_buckets, 4U);
    EXPECT_EQ(report.free_overflow_buckets, 6U);
    EXPECT_EQ(report.longest_chain, 3U);
  }

  /// Overwrites a number in a bucket and corrects the seal.
  template <class Number>
  void plant(std::uint64_t bucket, std::uint64_t offset, Number number) {
    rig_.plant(bucket, offset, number);
    const BucketFormat format{2, 8};
    seal(rig_.memory[0].bytes().subspan(kSuperblockBytes + rig_.table->layout().payload(bucket),
                                        format.payload_bytes()));
  }
  /// Overflow buckets are taken from the pool in order: 0 and 1 for home bucket 0; bucket 1 is linked first.
  [[nodiscard]] std::uint64_t overflow(std::uint64_t number) const { return rig_.table->home_buckets() + number; }

  const ExclusiveLatch scheme_{LatchLevel::combined};
  HashTableRig rig_{scheme_, {.capacity = 6, .entries_per_bucket = 2, .overflow_buckets = 10}};
  Client& client_ = rig_.add_client();
  std::vector<std::vector<std::uint64_t>> keys_;
};

TEST_F(DamagedTable, AKeyInTheWrongBucket) {
  plant(0, kFirstKey, keys_[1][0]);
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("home bucket 0 of memory node 0 holds key " + std::to_string(keys_[1][0]) +
                                    ", which belongs to home "
                                    "bucket 1")));
}

TEST_F(DamagedTable, AKeyTwice) {
  plant(overflow(0), kFirstKey, keys_[0][0]);
  EXPECT_THAT(rig_.check().problems, ElementsAre(HasSubstr("which its chain holds twice")));
}

TEST_F(DamagedTable, ABitmapOfEntriesThatDoNotExist) {
  plant(overflow(0), kUsed, std::uint32_t{7});
  EXPECT_THAT(rig_.check().problems, Contains(HasSubstr("marks entries as used that it does not have")));
  EXPECT_THROW(rig_.get(client_, keys_[0][2]), StructureError);
  EXPECT_THROW(rig_.put(client_, keys_[0][2], 1), StructureError);
}

TEST_F(DamagedTable, AnOverflowBucketOfAnotherHome) {
  plant(overflow(0), kHome, std::uint64_t{3});
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("overflow bucket 0 of memory node 0 is linked in the chain of home bucket 0, and "
                                    "does not belong to it")));
  EXPECT_THROW(rig_.put(client_, keys_[0][2], 1), StructureError);
  EXPECT_EQ(rig_.get(client_, keys_[0][0]), keys_[0][0]);
}

TEST_F(DamagedTable, AHomeBucketOfAnotherHome) {
  plant(0, kHome, std::uint64_t{2});
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("home bucket 0 of memory node 0 says that it belongs to another home bucket")));
  EXPECT_THROW(rig_.get(client_, keys_[0][0]), StructureError);
  EXPECT_THROW(rig_.insert(client_, keys_[0][0], 1), StructureError);
}

TEST_F(DamagedTable, AHomeBucketThatWasNeverWritten) {
  plant(0, kHome, std::uint64_t{0});
  EXPECT_THAT(rig_.check().problems, ElementsAre(HasSubstr("was never written, and yet is not empty")));
}

TEST_F(DamagedTable, ALinkOfAnotherGeneration) {
  plant(overflow(0), kGeneration, std::uint32_t{5});
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("has generation 5, and what links to it means generation 1")));
}

TEST_F(DamagedTable, ALinkToNowhere) {
  plant(1, kNext, std::uint32_t{11});
  EXPECT_THAT(rig_.check().problems, ElementsAre(HasSubstr("links to an overflow bucket that does not exist")));
  EXPECT_THROW(rig_.get(client_, keys_[1][5]), StructureError);
}

TEST_F(DamagedTable, ACircle) {
  // The chain is home, 1, 0.
  plant(overflow(0), kNext, std::uint32_t{2});
  plant(overflow(0), kNextGeneration, std::uint32_t{1});
  EXPECT_THAT(
      rig_.check().problems,
      ElementsAre(HasSubstr("overflow bucket 1 of memory node 0 is linked twice in the chain of home bucket 0")));
  std::uint64_t absent = 0;
  while (rig_.table->place_of(absent).bucket != 0 || std::ranges::find(keys_[0], absent) != keys_[0].end()) {
    ++absent;
  }
  EXPECT_THROW(rig_.get(client_, absent), StructureError);
  EXPECT_THROW(rig_.put(client_, absent, 1), StructureError);
  EXPECT_EQ(rig_.latch_word(0), kFree);
}

TEST_F(DamagedTable, ABucketInTwoChains) {
  plant(overflow(2), kNext, std::uint32_t{2});
  plant(overflow(2), kNextGeneration, std::uint32_t{1});
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("overflow bucket 1 of memory node 0 is linked in the chains of the home buckets 0 "
                                    "and 1")));
}

TEST_F(DamagedTable, ALinkedBucketThatIsFree) {
  const Pool pool(scheme_,
                  rig_.memory[0].remote(kSuperblockBytes + RecordShape::whole_lines(rig_.table->layout().total_bytes()),
                                        Pool::bytes_needed(scheme_, 10)),
                  0, 10);
  EXPECT_EQ(rig_.run(pool.give_back(client_, 3)), Outcome::done);
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("overflow bucket 3 of memory node 0 is free and yet linked in the chain of home "
                                    "bucket 1")));
}

TEST_F(DamagedTable, ALinkedBucketThatWasNeverHandedOut) {
  plant(overflow(0), kNext, std::uint32_t{8});
  plant(overflow(0), kNextGeneration, std::uint32_t{0});
  plant(overflow(7), kHome, std::uint64_t{1});
  const HashTableReport report = rig_.check();
  EXPECT_THAT(report.problems, Contains(HasSubstr("is linked, and the pool has never handed it out")));
  EXPECT_THAT(report.problems, Contains(HasSubstr("is empty and yet linked")));
}

TEST_F(DamagedTable, ABrokenSeal) {
  rig_.plant(overflow(2), kFirstKey + 16, std::uint64_t{12345});  // in a value
  EXPECT_THAT(rig_.check().problems,
              ElementsAre(HasSubstr("overflow bucket 2 of memory node 0 has a seal that its contents do not match")));
}

TEST_F(DamagedTable, AHeldLatch) {
  rig_.set_latch_word(1, 0x300000001);
  EXPECT_THAT(rig_.check().problems,
              Contains(HasSubstr("home bucket 1 of memory node 0 is latched: its latch word is 0x300000001")));
  rig_.set_latch_word(1, kFree);
}

TEST_F(DamagedTable, AUnlinkedBucketIsLeaked) {
  plant(1, kNext, std::uint32_t{0});
  const HashTableReport report = rig_.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.leaked_overflow_buckets, 2U);
  EXPECT_EQ(report.entries, 8U);
}

TEST_F(DamagedTable, ABrokenPool) {
  const std::uint64_t control = kSuperblockBytes + RecordShape::whole_lines(rig_.table->layout().total_bytes());
  const Layout layout(scheme_.shape(24, scheme_.default_layout()), scheme_.default_layout(), 1);
  const std::uint64_t mark = 11;
  std::memcpy(rig_.memory[0].bytes().data() + control + layout.payload(0) + 16, &mark, sizeof mark);
  EXPECT_THAT(rig_.check().problems, ElementsAre(HasSubstr("pool of memory node 0 is damaged")));
}

TEST(HashTableCheck, BytesThatTheSchemeDoesNotAcceptAreNamed) {
  const Crc64 scheme;
  HashTableRig rig(scheme, {.capacity = 8});
  Client& client = rig.add_client();
  const std::uint64_t key = rig.keys_of(1, 1).front();
  rig.put(client, key, 1);
  rig.settle();
  rig.plant(1, kFirstKey, std::uint64_t{77});
  EXPECT_THAT(rig.check().problems,
              ElementsAre(HasSubstr("home bucket 1 of memory node 0 cannot be read before the deadline")));
}

TEST(HashTableCheck, AHeldLatchOfAPerfectTableIsNamed) {
  const ExclusiveLatch scheme;
  HashTableRig rig(scheme, {.addressing = Addressing::perfect, .capacity = 4});
  rig.set_latch_word(2, kExclusive);
  EXPECT_THAT(rig.check().problems, ElementsAre(HasSubstr("home bucket 2 of memory node 0 is latched")));
}

}  // namespace
}  // namespace sidelatch::structures
