// Sizes, costs, deadlines, wrong input and bulk load.
#include "tests/message_of.h"

#include <sidelatch/structures/hash_table.h>

#include "hash_table_rig.h"

#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/ticket_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(HashTableLimits, ALatchWithAQueueIsRefused) {
  const TicketLatch scheme;
  EXPECT_THAT(message_of<std::invalid_argument>([&] { const HashTable table(scheme, {}, {}); }),
              HasSubstr("a structure over latch-ticket/async"));
}

// A home bucket of memory node 0 and so many keys of it, in the order in which they are in its chain: the first is at
// home, the others in overflow buckets, of which the newest comes first.
struct Crowd {
  std::uint64_t home = 0;
  std::vector<std::uint64_t> keys;
};
Crowd crowd(HashTableRig& rig, Client& client, std::size_t count) {
  Crowd crowd;
  crowd.keys = rig.keys_of(0, count);
  EXPECT_EQ(rig.insert(client, crowd.keys[0], 1), Outcome::done);
  for (std::size_t i = count; --i > 0;) {
    EXPECT_EQ(rig.insert(client, crowd.keys[i], 1), Outcome::done);
  }
  return crowd;
}

// ---- Sizes, several memory nodes, layouts.

TEST(HashTable, KeepsValuesOfEverySize) {
  const TwoReadVersion scheme;
  for (const Addressing addressing : {Addressing::chained, Addressing::perfect}) {
    for (const std::uint64_t bytes : {8U, 9U, 63U, 64U, 1000U, 4096U, 65536U}) {
      HashTableRig rig(scheme,
                       {.addressing = addressing, .value_bytes = bytes, .capacity = 9, .entries_per_bucket = 3});
      Client& client = rig.add_client();
      for (std::uint64_t key = 0; key < 9; ++key) {
        ASSERT_EQ(rig.put(client, key, 1 + key), Outcome::done) << bytes;
      }
      for (std::uint64_t key = 0; key < 9; ++key) {
        EXPECT_EQ(rig.get(client, key), 1 + key) << bytes;
      }
      EXPECT_THAT(rig.check().problems, IsEmpty());
    }
  }
}

TEST(HashTable, TakesEveryLayoutOfItsScheme) {
  const TwoReadVersion scheme;
  for (const LayoutKind layout : {LayoutKind::interleaved, LayoutKind::padded, LayoutKind::decoupled,
                                  LayoutKind::footer, LayoutKind::padded_footer}) {
    HashTableOptions options = crowded();
    options.layout = layout;
    HashTableRig rig(scheme, options);
    EXPECT_EQ(rig.table->layout().kind(), layout);
    Client& client = rig.add_client();
    for (std::uint64_t key = 0; key < 20; ++key) {
      ASSERT_EQ(rig.put(client, key, key + 1), Outcome::done);
    }
    for (std::uint64_t key = 0; key < 20; ++key) {
      EXPECT_EQ(rig.get(client, key), key + 1);
    }
    EXPECT_THAT(rig.check().problems, IsEmpty());
  }
}

TEST(HashTable, SpreadsItsKeysOverMemoryNodesAndBuckets) {
  const Crc64 scheme;
  const HashTableOptions options{.capacity = 3000, .entries_per_bucket = 1};
  HashTableRig rig(scheme, options, 3);
  std::array<std::vector<std::uint64_t>, 3> keys_per_bucket;
  keys_per_bucket.fill(std::vector<std::uint64_t>(rig.table->home_buckets()));
  for (std::uint64_t key = 0; key < 3000; ++key) {
    const HashTable::Place place = rig.table->place_of(key);
    ++keys_per_bucket.at(place.memory_node).at(place.bucket);
  }
  for (const auto& buckets : keys_per_bucket) {
    // The number of a node's keys is random: 1000 with a standard deviation of 26. A bucket of 1334 stays empty with
    // exp(-0.75), 47 in 100.
    const std::uint64_t keys = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
    EXPECT_NEAR(static_cast<double>(keys), 1000, 5 * 26);
    const auto empty = static_cast<double>(std::ranges::count(buckets, 0U)) / static_cast<double>(buckets.size());
    EXPECT_NEAR(empty, 0.472, 0.07);
  }
}

TEST(HashTable, HasRoomForItsCapacityOfRandomKeys) {
  const ExclusiveLatch scheme;
  std::mt19937_64 random(5);
  for (const std::uint32_t entries : {1U, 2U, 4U, 8U, 32U}) {
    for (const std::uint64_t capacity : {1U, 10U, 100U, 3000U}) {
      HashTableRig rig(scheme, {.capacity = capacity, .entries_per_bucket = entries}, 2);
      std::vector<std::uint64_t> keys(capacity);
      std::ranges::generate(keys, std::ref(random));
      const std::vector<std::byte> values(capacity * 8);
      EXPECT_EQ(rig.run(rig.table->bulk_load(rig.add_client(), keys, values)), Outcome::done)
          << capacity << " keys, " << entries << " entries per bucket";
    }
  }
}

// ---- Costs of operations.

Task<std::uint64_t> bare_read(const Scheme* scheme, Session* session, Object object, std::uint64_t bytes) {
  std::vector<std::byte> value(bytes);
  const std::uint64_t before = session->qp().posted();
  const ReadResult result = co_await scheme->read(*session, object, value);
  EXPECT_TRUE(result.accepted);
  co_return session->qp().posted() - before;
}

TEST(HashTable, PerfectGetsAndPutsAreOneReadAndOneUpdateOfTheScheme) {
  for (const checker::SchemeEntry& entry : sound_schemes()) {
    const auto scheme = entry.make();
    HashTableRig rig(*scheme, {.addressing = Addressing::perfect, .value_bytes = 256, .capacity = 4});
    Client& client = rig.add_client();
    QueuePair& qp = client.session(0).qp();
    const ObjectArray objects(rig.table->layout(),
                              rig.memory[0].remote(kSuperblockBytes, rig.table->layout().total_bytes()));
    EXPECT_EQ(rig.get(client, 2), 0U);  // the first operation also reads the superblock
    const std::uint64_t requests = rig.run(bare_read(scheme.get(), &client.session(0), objects.at(2), 256));
    std::uint64_t before = qp.posted();
    EXPECT_EQ(rig.get(client, 2), 0U);
    EXPECT_EQ(qp.posted() - before, requests) << entry.name;
    before = qp.posted();
    EXPECT_TRUE(rig.run(scheme->update(client.session(0), objects.at(3), [](std::span<std::byte>) {})));
    const std::uint64_t of_update = qp.posted() - before;
    before = qp.posted();
    EXPECT_EQ(rig.put(client, 2, 5), Outcome::done);
    EXPECT_EQ(qp.posted() - before, of_update) << entry.name;
  }
}

TEST(HashTable, AGetThatFindsItsKeyAtHomeReadsOneBucket) {
  const Crc64 scheme;
  HashTableRig rig(scheme, {.capacity = 100});
  Client& client = rig.add_client();
  rig.put(client, 1, 5);
  rig.settle();
  const Statistics before = client.statistics();
  EXPECT_EQ(rig.get(client, 1), 5U);
  EXPECT_EQ(client.statistics().round_trips - before.round_trips, 1U);
  EXPECT_EQ(client.statistics().operations - before.operations, 1U);
}

// ---- Full, and deadlines.

TEST(HashTable, IsFullWhenNeitherChainNorPoolHasRoom) {
  const TwoReadVersion scheme;
  HashTableRig rig(scheme, {.capacity = 3, .entries_per_bucket = 2, .overflow_buckets = 2});
  Client& client = rig.add_client();
  const std::vector<std::uint64_t> keys = rig.keys_of(0, 8);
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(rig.insert(client, keys[i], i), Outcome::done) << i;
  }
  EXPECT_EQ(rig.insert(client, keys[6], 1), Outcome::full);
  EXPECT_EQ(rig.put(client, keys[6], 1), Outcome::full);
  EXPECT_EQ(rig.get(client, keys[6]), std::nullopt);
  EXPECT_EQ(rig.insert(client, keys[0], 1), Outcome::present);
  EXPECT_EQ(rig.put(client, keys[5], 50), Outcome::done);
  EXPECT_EQ(rig.remove(client, keys[3]), Outcome::done);
  EXPECT_EQ(rig.insert(client, keys[6], 60), Outcome::done);
  EXPECT_EQ(rig.get(client, keys[6]), 60U);
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 6U);
  EXPECT_EQ(report.longest_chain, 3U);
  EXPECT_EQ(report.buckets_used, 3U);
  EXPECT_EQ(report.overflow_buckets, 2U);
  EXPECT_EQ(report.free_overflow_buckets, 0U);
}

TEST(HashTable, WithoutOverflowBucketsItHoldsWhatItsHomeBucketsHold) {
  const TwoReadVersion scheme;
  HashTableRig rig(scheme, {.capacity = 3, .entries_per_bucket = 2, .overflow_buckets = 0});
  Client& client = rig.add_client();
  const std::vector<std::uint64_t> keys = rig.keys_of(1, 3);
  EXPECT_EQ(rig.insert(client, keys[0], 1), Outcome::done);
  EXPECT_EQ(rig.insert(client, keys[1], 1), Outcome::done);
  EXPECT_EQ(rig.insert(client, keys[2], 1), Outcome::full);
  EXPECT_THAT(rig.check().problems, IsEmpty());
}

SessionOptions impatient() {
  SessionOptions options;
  options.retry = Retry::backoff(from_ns(500), from_ns(2000)).within(from_ns(50'000));
  return options;
}

// Runs every operation on a key. Each must time out and leave the memory unchanged.
void expect_all_time_out(HashTableRig& rig, Client& client, std::uint64_t key, bool reads_too = true) {
  const auto before = std::vector(rig.memory[0].bytes().begin(), rig.memory[0].bytes().end());
  EXPECT_EQ(rig.put(client, key, 99), Outcome::timed_out);
  EXPECT_EQ(rig.update(client, key, 99), Outcome::timed_out);
  EXPECT_EQ(rig.remove(client, key), Outcome::timed_out);
  if (reads_too) {
    EXPECT_EQ(rig.insert(client, key, 99), Outcome::timed_out);
    std::vector<std::byte> value = rig.value(7);
    const Time begun = rig.world.now();
    EXPECT_EQ(rig.run(rig.table->get(client, key, value)), Outcome::timed_out);
    EXPECT_GE(rig.world.now() - begun, from_ns(50'000));
    EXPECT_EQ(value, rig.value(7));
  }
  rig.settle();
  EXPECT_TRUE(std::ranges::equal(before, rig.memory[0].bytes()));
  EXPECT_GT(client.statistics().aborts, 0U);
}

TEST(HashTable, TimesOutWhereALatchIsHeldAndChangesNothing) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  HashTableRig rig(scheme, crowded());
  Client& client = rig.add_client(impatient());
  const Crowd crowd_ = crowd(rig, client, 3);
  rig.settle();
  rig.set_latch_word(0, kExclusive);
  expect_all_time_out(rig, client, crowd_.keys[0]);
  rig.set_latch_word(0, kFree);
  // Home, then the overflow bucket that was linked last.
  const std::uint64_t newest = rig.table->home_buckets() + 1;
  ASSERT_EQ(rig.at<std::uint64_t>(newest, 32), crowd_.keys[1]);
  rig.set_latch_word(newest, kExclusive);
  expect_all_time_out(rig, client, crowd_.keys[1]);
  expect_all_time_out(rig, client, crowd_.keys[2]);
  EXPECT_EQ(rig.get(client, crowd_.keys[0]), 1U);
  rig.set_latch_word(newest, kFree);
  EXPECT_EQ(rig.get(client, crowd_.keys[2]), 1U);
  EXPECT_THAT(rig.check().problems, IsEmpty());
}

TEST(HashTable, AWriterThatFindsItsBucketLatchedInTheLastMomentChangesNothing) {
  // Optimistic readers of copy-on-write ignore the latch, so only the writer's own latching of the bucket times out.
  const CopyOnWrite scheme;
  HashTableOptions options = crowded();
  options.entries_per_bucket = 2;
  HashTableRig rig(scheme, options);
  Client& client = rig.add_client(impatient());
  const std::vector<std::uint64_t> keys = rig.keys_of(0, 7);
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(rig.insert(client, keys[i], 1), Outcome::done);
  }
  rig.settle();
  const std::uint64_t first = rig.table->home_buckets();  // holds keys 2 and 3; the next one key 4
  rig.set_latch_word(first, kExclusive);
  expect_all_time_out(rig, client, keys[2], /*reads_too=*/false);
  EXPECT_EQ(rig.insert(client, keys[2], 2), Outcome::present);
  EXPECT_EQ(rig.get(client, keys[2]), 1U);
  rig.set_latch_word(first, kFree);
  // Room in an overflow bucket.
  rig.set_latch_word(first + 1, kExclusive);
  EXPECT_EQ(rig.insert(client, keys[5], 1), Outcome::timed_out);
  rig.set_latch_word(first + 1, kFree);
  EXPECT_EQ(rig.insert(client, keys[5], 1), Outcome::done);
  // A new overflow bucket, which is given back.
  rig.set_latch_word(first + 2, kExclusive);
  EXPECT_EQ(rig.insert(client, keys[6], 1), Outcome::timed_out);
  rig.settle();
  rig.set_latch_word(first + 2, kFree);
  EXPECT_EQ(rig.get(client, keys[6]), std::nullopt);
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.leaked_overflow_buckets, 0U);
  EXPECT_EQ(report.entries, 6U);
}

TEST(HashTable, AnUnlinkThatFindsThePredecessorLatchedChangesNothing) {
  const CopyOnWrite scheme;
  HashTableRig rig(scheme, crowded());
  Client& client = rig.add_client(impatient());
  const Crowd crowd_ = crowd(rig, client, 4);
  rig.settle();
  const std::uint64_t predecessor = rig.table->home_buckets() + 1;  // predecessor of the bucket that was linked first
  rig.set_latch_word(predecessor, kExclusive);
  EXPECT_EQ(rig.remove(client, crowd_.keys[3]), Outcome::timed_out);
  rig.settle();
  rig.set_latch_word(predecessor, kFree);
  EXPECT_EQ(rig.get(client, crowd_.keys[3]), 1U);
  EXPECT_EQ(rig.remove(client, crowd_.keys[3]), Outcome::done);
  EXPECT_EQ(rig.get(client, crowd_.keys[3]), std::nullopt);
  EXPECT_EQ(rig.get(client, crowd_.keys[2]), 1U);
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.overflow_buckets, 2U);
  EXPECT_EQ(report.leaked_overflow_buckets, 0U);
}

// ---- Wrong input.

TEST(HashTable, BadOptionsAreNamed) {
  const auto refusal = [](const HashTableOptions& options) {
    return message_of<std::invalid_argument>([&] { options.validate(); });
  };
  EXPECT_THAT(refusal({.capacity = 0}), HasSubstr("capacity is 0"));
  EXPECT_THAT(refusal({.value_bytes = 7, .capacity = 1}), HasSubstr("value_bytes is 7: it must be 8 to 65536"));
  EXPECT_THAT(refusal({.value_bytes = 65537, .capacity = 1}), HasSubstr("value_bytes is 65537"));
  EXPECT_THAT(refusal({.capacity = 1, .entries_per_bucket = 0}), HasSubstr("entries_per_bucket is 0"));
  EXPECT_THAT(refusal({.capacity = 1, .entries_per_bucket = 33}), HasSubstr("entries_per_bucket is 33"));
  EXPECT_THAT(refusal({.addressing = Addressing::perfect, .capacity = 1, .overflow_buckets = 3}),
              HasSubstr("overflow_buckets is 3"));
  EXPECT_EQ(refusal({.capacity = 1}), "no error");
  const TwoReadVersion scheme;
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)HashTable::bytes_needed(scheme, {.capacity = 1}, 0); }),
              HasSubstr("0 memory nodes"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                (void)HashTable::bytes_needed(scheme, {.capacity = std::uint64_t{1} << 40, .entries_per_bucket = 1}, 1);
              }),
              HasSubstr("at most 4294967294 of each"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { HashTableRig rig(scheme, {}, 1); }), HasSubstr("capacity is 0"));
}

TEST(HashTable, MemoryThatIsTooSmallIsRefused) {
  const TwoReadVersion scheme;
  const HashTableOptions options{.capacity = 100};
  const std::uint64_t needed = HashTable::bytes_needed(scheme, options, 1);
  sim::Simulation world({.profile = connectx5()});
  const MemoryRegion memory = world.add_node("storage").allocate(needed + 64, Access::remote_all);
  const std::array just_enough = {memory.remote(0, needed)};
  EXPECT_NO_THROW(HashTable(scheme, options, just_enough));
  const std::array less = {memory.remote(0, needed - 1)};
  EXPECT_THAT(message_of<std::invalid_argument>([&] { HashTable(scheme, options, less); }),
              HasSubstr("memory 0 has " + std::to_string(needed - 1) + " bytes"));
  const std::array astray = {memory.remote(4, needed)};
  EXPECT_THROW(HashTable(scheme, options, astray), std::invalid_argument);
}

TEST(HashTable, ALayoutThatTheSchemeCannotHaveIsRefused) {
  const Crc64 scheme;
  EXPECT_THROW((void)HashTable::bytes_needed(scheme, {.capacity = 1, .layout = LayoutKind::decoupled}, 1),
               std::invalid_argument);
}

TEST(HashTable, ValuesAndKeysThatDoNotFitAreRefused) {
  const TwoReadVersion scheme;
  HashTableRig perfect(scheme, {.addressing = Addressing::perfect, .value_bytes = 16, .capacity = 5});
  HashTableRig chained(scheme, {.value_bytes = 16, .capacity = 5});
  for (HashTableRig* rig : {&perfect, &chained}) {
    Client& client = rig->add_client();
    std::vector<std::byte> wrong(15);
    const auto refusal = [&](auto call) { return message_of<std::invalid_argument>([&] { (void)rig->run(call()); }); };
    const HashTable& table = *rig->table;
    const auto says = HasSubstr("a value of 15 bytes for a hash table whose values have 16");
    EXPECT_THAT(refusal([&] { return table.get(client, 1, wrong); }), says);
    EXPECT_THAT(refusal([&] { return table.put(client, 1, wrong); }), says);
    EXPECT_THAT(refusal([&] { return table.insert(client, 1, wrong); }), says);
    EXPECT_THAT(refusal([&] { return table.update(client, 1, wrong); }), says);
    const std::vector<std::uint64_t> keys = {1, 2};
    EXPECT_THAT(refusal([&] { return table.bulk_load(client, keys, wrong); }), HasSubstr("2 keys with 15 bytes"));
    const std::vector<std::uint64_t> twice = {3, 1, 3};
    const std::vector<std::byte> values(48);
    EXPECT_THAT(refusal([&] { return table.bulk_load(client, twice, values); }), HasSubstr("key 3 is there twice"));
    EXPECT_EQ(rig->check().entries, rig == &perfect ? 5U : 0U);
  }
  Client& client = *perfect.clients.front();
  EXPECT_THROW(perfect.get(client, 5), std::out_of_range);
  EXPECT_THROW(perfect.put(client, 5, 1), std::out_of_range);
  EXPECT_THROW(perfect.update(client, 5, 1), std::out_of_range);
  EXPECT_THROW(perfect.insert(client, 5, 1), std::out_of_range);
  EXPECT_THROW(perfect.remove(client, 1), std::logic_error);
}

TEST(HashTable, AnyNumberIsAKey) {
  const TwoReadVersion scheme;
  HashTableRig rig(scheme, {.capacity = 10});
  Client& client = rig.add_client();
  for (const std::uint64_t key : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_EQ(rig.get(client, key), std::nullopt);
    EXPECT_EQ(rig.insert(client, key, 3), Outcome::done);
    EXPECT_EQ(rig.get(client, key), 3U);
  }
}

// ---- Bulk load.

TEST(HashTable, BulkLoadRefusesATableThatIsNotEmpty) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  HashTableRig rig(scheme, crowded(8));
  Client& client = rig.add_client();
  const std::vector<std::uint64_t> keys = rig.keys_of(0, 3);
  rig.insert(client, keys[0], 1);
  const std::vector<std::byte> values(24);
  EXPECT_THAT(message_of<std::logic_error>([&] { (void)rig.run(rig.table->bulk_load(client, keys, values)); }),
              HasSubstr("home bucket 0 of memory node 0 is in use"));
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.leaked_overflow_buckets, 0U);
  EXPECT_EQ(report.entries, 1U);
}

TEST(HashTable, BulkLoadOfTooMuchChangesNothing) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  HashTableRig rig(scheme, {.capacity = 3, .entries_per_bucket = 2, .overflow_buckets = 2});
  Client& client = rig.add_client();
  std::vector<std::uint64_t> keys = rig.keys_of(0, 7);
  const std::vector<std::byte> values(56);
  EXPECT_EQ(rig.run(rig.table->bulk_load(client, keys, values)), Outcome::full);
  const HashTableReport empty = rig.check();
  EXPECT_THAT(empty.problems, IsEmpty());
  EXPECT_EQ(empty.entries, 0U);
  EXPECT_EQ(empty.free_overflow_buckets, 2U);
  keys.pop_back();
  EXPECT_EQ(rig.run(rig.table->bulk_load(client, keys, std::span(values).first(48))), Outcome::done);
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 6U);
  EXPECT_EQ(report.longest_chain, 3U);
}

TEST(HashTable, BulkLoadWritesEachBucketOnce) {
  const TwoReadVersion scheme;
  HashTableRig rig(scheme, {.capacity = 12, .entries_per_bucket = 4, .overflow_buckets = 8});
  Client& client = rig.add_client();
  const std::vector<std::uint64_t> keys = rig.keys_of(0, 12);
  const std::vector<std::byte> values(12 * 8);
  EXPECT_EQ(rig.run(rig.table->bulk_load(client, keys, values)), Outcome::done);
  rig.settle();
  const std::uint64_t home_buckets = rig.table->home_buckets();
  for (const std::uint64_t bucket : {std::uint64_t{0}, home_buckets, home_buckets + 1}) {
    std::uint64_t version = 0;
    std::memcpy(&version, rig.memory[0].bytes().data() + kSuperblockBytes + rig.table->layout().version(bucket),
                sizeof version);
    EXPECT_EQ(version, 1U) << bucket;
  }
}

TEST(HashTable, BulkLoadOfAPerfectTableWritesItsValues) {
  const TwoReadVersion scheme;
  HashTableRig rig(scheme, {.addressing = Addressing::perfect, .capacity = 5}, 2);
  Client& client = rig.add_client();
  const std::vector<std::uint64_t> keys = {4, 0, 3};
  std::vector<std::byte> values;
  for (const std::uint64_t key : keys) {
    const std::vector<std::byte> value = rig.value(key + 100);
    values.insert(values.end(), value.begin(), value.end());
  }
  EXPECT_EQ(rig.run(rig.table->bulk_load(client, keys, values)), Outcome::done);
  EXPECT_EQ(rig.get(client, 0), 100U);
  EXPECT_EQ(rig.get(client, 1), 0U);
  EXPECT_EQ(rig.get(client, 3), 103U);
  EXPECT_EQ(rig.get(client, 4), 104U);
}

}  // namespace
}  // namespace sidelatch::structures
