// Clients of the hash table that die, also within a WRITE.
#include <sidelatch/structures/hash_table.h>

#include "hash_table_rig.h"

#include "tests/sync/victim.h"

#include "structures/hash_bucket.h"

#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>

namespace sidelatch::structures {
namespace {

namespace dead_clients {

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

// Longer than the longest operation, as it must be.
constexpr Lease kLease{from_ns(300'000), from_ns(30'000)};

SessionOptions leased(std::uint16_t owner, Revoker& revoker) {
  SessionOptions options;
  options.owner = owner;
  options.lease = kLease;
  options.revoker = &revoker;
  options.seed = owner;
  options.retry = Retry::backoff(from_ns(500), from_ns(4000));
  options.lost_work = ignore_lost_work;
  return options;
}

Client& add_leased(HashTableRig& rig, RevocationService& service, std::uint16_t owner) {
  Client& client = rig.add_client(leased(owner, service));
  service.enlist(owner, client.session(0).qp());
  return client;
}

// A table with a chain of two buckets, whose clients have leases; owner 9 is dead.
struct Estate {
  explicit Estate(const Scheme& scheme, const HashTableOptions& options = {.value_bytes = 40,
                                                                           .capacity = 3,
                                                                           .entries_per_bucket = 1,
                                                                           .overflow_buckets = 8})
      : rig(scheme, options), service(*rig.storage[0]), heir(add_leased(rig, service, 1)) {
    (void)add_leased(rig, service, 9);
    if (options.addressing == Addressing::chained) {
      keys = rig.keys_of(0, 3);
      EXPECT_EQ(rig.insert(heir, keys[0], 10), Outcome::done);
      EXPECT_EQ(rig.insert(heir, keys[1], 11), Outcome::done);
    }
    rig.settle();
  }
  /// Overwrites a number in a bucket and corrects the seal.
  template <class Number>
  void plant(std::uint64_t bucket, std::uint64_t offset, Number number) {
    rig.plant(bucket, offset, number);
    const HashTableOptions& options = rig.table->options();
    const BucketFormat format{options.entries_per_bucket, options.value_bytes};
    seal(rig.memory[0].bytes().subspan(kSuperblockBytes + rig.table->layout().payload(bucket), format.payload_bytes()));
  }
  /// The dead client still holds that bucket.
  void bequeath(std::uint64_t bucket) { rig.set_latch_word(bucket, exclusive_word(9, 1)); }
  [[nodiscard]] std::uint64_t overflow() const { return rig.table->home_buckets(); }

  HashTableRig rig;
  RevocationService service;
  Client& heir;
  std::vector<std::uint64_t> keys;
};

Task<void> sweep_of(const HashTable* table, Client* client, std::uint16_t dead, std::optional<std::uint64_t>* swept) {
  const std::uint64_t count = co_await table->sweep(*client, dead);
  *swept = count;
}

Task<void> put_of(const HashTable* table, Client* client, std::uint64_t key, std::optional<Outcome>* ended) {
  const std::vector<std::byte> value = value_of(key, table->options().value_bytes);
  const Outcome outcome = co_await table->put(*client, key, value);
  *ended = outcome;
}

class EverySchemeOfEstates : public ::testing::TestWithParam<checker::SchemeEntry> {
 protected:
  std::unique_ptr<Scheme> scheme_ = GetParam().make();
};

TEST_P(EverySchemeOfEstates, ABucketWhoseHolderDiedBeforeItsWriteIsTakenOver) {
  for (const bool in_overflow : {false, true}) {
    for (const int operation : {0, 1, 2, 3, 4}) {
      Estate estate(*scheme_);
      HashTableRig& rig = estate.rig;
      const std::uint64_t bucket = in_overflow ? estate.overflow() : 0;
      const std::uint64_t key = estate.keys[in_overflow ? 1 : 0];
      const std::uint64_t number = in_overflow ? 11 : 10;
      estate.bequeath(bucket);
      switch (operation) {
        case 0:
          EXPECT_EQ(rig.get(estate.heir, key), number);
          break;
        case 1:
          EXPECT_EQ(rig.put(estate.heir, key, 20), Outcome::done);
          EXPECT_EQ(rig.get(estate.heir, key), 20U);
          break;
        case 2:
          EXPECT_EQ(rig.insert(estate.heir, key, 20), Outcome::present);
          EXPECT_EQ(rig.get(estate.heir, key), number);
          break;
        case 3:
          EXPECT_EQ(rig.remove(estate.heir, key), Outcome::done);
          EXPECT_EQ(rig.get(estate.heir, key), std::nullopt);
          break;
        default:
          EXPECT_EQ(rig.insert(estate.heir, estate.keys[2], 12), Outcome::done);
          EXPECT_EQ(rig.get(estate.heir, estate.keys[2]), 12U);
          EXPECT_EQ(rig.get(estate.heir, key), number);
      }
      // Readers of copy-on-write ignore the latch, and it may still be held.
      EXPECT_EQ(rig.put(estate.heir, estate.keys[0], 30), Outcome::done);
      EXPECT_EQ(rig.put(estate.heir, estate.keys[1], 31), Outcome::done);
      const HashTableReport report = rig.check();
      EXPECT_THAT(report.problems, IsEmpty()) << in_overflow << operation;
      EXPECT_EQ(report.leaked_overflow_buckets, 0U);
    }
  }
}

Task<void> put_often(const HashTable* table, Client* client, const std::vector<std::uint64_t>* keys) {
  std::mt19937_64 random(3);
  for (std::uint64_t i = 1;; ++i) {
    const std::uint64_t key = (*keys)[random() % keys->size()];
    if (random() % 3 == 0) {
      (void)co_await table->remove(*client, key);
    } else {
      const std::vector<std::byte> value = value_of(i, table->options().value_bytes);
      (void)co_await table->put(*client, key, value);
    }
  }
}

struct Survivor {
  std::map<std::uint64_t, std::uint64_t> own{};
  std::uint64_t wrong = 0;
  std::uint64_t torn_buckets = 0;  // StructureErrors
};

// Works on keys that only it changes, in chains that the victim also uses.
Task<void> survive(const HashTable* table, Client* client, std::vector<std::uint64_t> keys, Survivor* survivor,
                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 1; i <= 60; ++i) {
    const std::uint64_t key = keys[random() % keys.size()];
    const bool present = survivor->own.contains(key);
    std::vector<std::byte> value = value_of(i, table->options().value_bytes);
    try {
      if (random() % 3 == 0) {
        const Outcome outcome = co_await table->get(*client, key, value);
        const bool right = present
                               ? outcome == Outcome::done && is_whole(value) && number_in(value) == survivor->own[key]
                               : outcome == Outcome::absent;
        survivor->wrong += right ? 0U : 1U;
      } else if (random() % 2 == 0) {
        const Outcome outcome = co_await table->remove(*client, key);
        survivor->wrong += outcome == (present ? Outcome::done : Outcome::absent) ? 0U : 1U;
        survivor->own.erase(key);
      } else {
        const Outcome outcome = co_await table->put(*client, key, value);
        survivor->wrong += outcome == Outcome::done ? 0U : 1U;
        survivor->own[key] = i;
      }
    } catch (const StructureError&) {
      ++survivor->torn_buckets;
      co_return;  // its knowledge of its keys is useless now
    }
  }
}

TEST_P(EverySchemeOfEstates, SurvivorsSeeNothingWrongAfterADeathAtAnyMoment) {
  std::uint64_t takeovers = 0;
  std::uint64_t torn_buckets = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    HashTableRig rig(*scheme_, {.value_bytes = 200, .capacity = 3, .entries_per_bucket = 1, .overflow_buckets = 40}, 1,
                     {.profile = connectx5(), .seed = seed});
    RevocationService service(*rig.storage[0], from_ns(5'000));
    const std::vector<std::uint64_t> keys = rig.keys_of(0, 9);
    const std::vector<std::uint64_t> of_victim(keys.begin(), keys.begin() + 3);
    std::array<Survivor, 2> survivors;
    Victim victim(put_often(&*rig.table, &add_leased(rig, service, 1), &of_victim));
    for (std::uint16_t i = 0; i < 2; ++i) {
      rig.world.reactor().spawn(survive(&*rig.table, &add_leased(rig, service, static_cast<std::uint16_t>(2 + i)),
                                        std::vector(keys.begin() + 3 + 3 * i, keys.begin() + 6 + 3 * i), &survivors[i],
                                        seed * 10 + i));
    }
    rig.world.reactor().run_for(from_ns(static_cast<double>(20'000 + seed * 7919 % 60'000)));
    victim.kill(rig.world.reactor());
    rig.world.reactor().run();
    for (const Survivor& survivor : survivors) {
      EXPECT_EQ(survivor.wrong, 0U) << seed;
      torn_buckets += survivor.torn_buckets;
    }
    for (const auto& client : rig.clients) {
      takeovers += client->statistics().takeovers;
    }
    if (survivors[0].torn_buckets + survivors[1].torn_buckets == 0) {
      // The first client to look takes over the latches that the victim still holds.
      Client& last = add_leased(rig, service, 5);
      for (const std::uint64_t key : keys) {
        ASSERT_EQ(rig.put(last, key, 1), Outcome::done) << seed;
      }
      for (const auto& client : rig.clients) {
        takeovers += client->statistics().takeovers;
      }
      const HashTableReport report = rig.check();
      EXPECT_THAT(report.problems, IsEmpty()) << seed;
      EXPECT_EQ(report.entries, 9U) << seed;
      EXPECT_LE(report.leaked_overflow_buckets, 1U) << seed;
    }
  }
  EXPECT_GT(takeovers, 5U);
  if (scheme_->needs().copies > 1) {
    EXPECT_EQ(torn_buckets, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySchemeOfEstates, ::testing::ValuesIn([] {
                           std::vector<checker::SchemeEntry> chosen = sound_schemes();
                           // Shared holders have no owner: a dead reader's count would stay (lease.h).
                           std::erase_if(chosen, [](const auto& entry) { return entry.name.starts_with("latch-rw/"); });
                           return chosen;
                         }()),
                         [](const auto& scheme) { return name_of_scheme(scheme); });

std::string structure_error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const StructureError& error) {
    return error.what();
  }
  return "no StructureError";
}

TEST(HashTableEstate, ATornBucketIsNamedByAllWhoMeetItAndNobodyElseIsTakenForDead) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  for (const bool in_overflow : {false, true}) {
    for (const bool by_get : {false, true}) {
      Estate estate(scheme);
      HashTableRig& rig = estate.rig;
      const std::uint64_t bucket = in_overflow ? estate.overflow() : 0;
      const std::uint64_t key = estate.keys[in_overflow ? 1 : 0];
      estate.bequeath(bucket);
      rig.plant(bucket, 40, std::uint64_t{77});  // a part of a new value
      const auto meet = [&](Client& client) {
        return structure_error_of([&] {
          if (by_get) {
            (void)rig.get(client, key);
          } else {
            (void)rig.put(client, key, 5);
          }
        });
      };
      const std::string first = meet(estate.heir);
      EXPECT_THAT(first, HasSubstr(std::string(in_overflow ? "overflow" : "home") + " bucket 0 of memory node 0"));
      EXPECT_THAT(first, HasSubstr("latch-exclusive/combined"));
      EXPECT_THAT(first, HasSubstr("optimistic/copy-on-write"));
      rig.settle();
      EXPECT_EQ(rig.latch_word(0), kFree);
      EXPECT_EQ(rig.latch_word(bucket), kFree);
      Client& other = add_leased(rig, estate.service, 2);
      EXPECT_THAT(meet(other), HasSubstr("is torn"));
      EXPECT_THAT(meet(estate.heir), HasSubstr("is torn"));
      EXPECT_FALSE(estate.service.revoked(1));
      EXPECT_THAT(rig.check().problems, Contains(HasSubstr("is torn")));
    }
  }
}

// Puts a key, and keeps the message of a lease that was too short.
Task<void> put_under_lease(const HashTable* table, Client* client, std::uint64_t key, std::string* message) {
  const std::vector<std::byte> value = value_of(key, table->options().value_bytes);
  try {
    const Outcome outcome = co_await table->put(*client, key, value);
    *message = name(outcome);
  } catch (const LatchError& error) {
    *message = error.kind() == LatchError::Kind::lease_expired ? error.what() : "another LatchError";
  }
}

// What a chain costs nobody knows when leases are chosen.
TEST(HashTableEstate, WhoMeetsAChainTooLongForTheLeaseIsToldAndNobodyIsTakenForDead) {
  constexpr std::size_t kKeys = 40;
  constexpr Lease kShort{from_ns(60'000), from_ns(15'000)};
  for (const bool copies : {false, true}) {
    const ExclusiveLatch latch(LatchLevel::combined);
    const CopyOnWrite two_copies;
    HashTableRig rig(copies ? static_cast<const Scheme&>(two_copies) : latch, crowded());
    const std::vector<std::uint64_t> keys = rig.keys_of(0, kKeys);
    Client& builder = rig.add_client();
    for (const std::uint64_t key : keys) {
      ASSERT_EQ(rig.insert(builder, key, 1), Outcome::done);
    }
    rig.settle();
    RevocationService service(*rig.storage[0]);
    std::array<std::string, 3> ends;
    for (std::uint16_t owner = 1; owner <= ends.size(); ++owner) {
      SessionOptions options = leased(owner, service);
      options.lease = kShort;
      Client& client = rig.add_client(options);
      service.enlist(owner, client.session(0).qp());
      // The newest key is the first behind home; keys[1] is the last one of the chain.
      rig.world.reactor().spawn(put_under_lease(&*rig.table, &client, keys[1], &ends[owner - 1U]));
    }
    rig.world.reactor().run();
    for (std::uint16_t owner = 1; owner <= ends.size(); ++owner) {
      EXPECT_THAT(ends[owner - 1U],
                  HasSubstr("the chain of home bucket 0 of memory node 0 took longer than the lease"));
      EXPECT_FALSE(service.revoked(owner)) << owner;
    }
    EXPECT_EQ(rig.get(builder, keys[1]), 1U);
    EXPECT_THAT(rig.check().problems, IsEmpty());
  }
}

// The new bucket is filled under home's latch. If that takes too long, the bucket is linked nowhere, and the pool gets
// it back: others have room.
TEST(HashTableEstate, ABucketThatALeaseHasNoTimeToLinkGoesBackToThePool) {
  constexpr std::uint64_t kLongToFill = 32'768;  // bytes: much longer than it takes to give a bucket back
  const ExclusiveLatch scheme(LatchLevel::combined);
  int too_late = 0;
  for (double length = 9'000; length < 24'000; length += 500) {
    HashTableRig rig(scheme,
                     {.value_bytes = kLongToFill, .capacity = 3, .entries_per_bucket = 1, .overflow_buckets = 2});
    const std::vector<std::uint64_t> keys = rig.keys_of(0, 2);
    ASSERT_EQ(rig.insert(rig.add_client(), keys[0], 1), Outcome::done);
    RevocationService service(*rig.storage[0]);
    SessionOptions options = leased(1, service);
    options.lease = Lease{from_ns(length), from_ns(1)};
    Client& client = rig.add_client(options);
    service.enlist(1, client.session(0).qp());
    std::string end;
    rig.world.reactor().spawn(put_under_lease(&*rig.table, &client, keys[1], &end));
    rig.world.reactor().run();
    const bool done = end == "done";
    EXPECT_TRUE(done || end.find("nothing was written") != std::string::npos) << length << ": " << end;
    too_late += done ? 0 : 1;
    const HashTableReport report = rig.check();
    EXPECT_THAT(report.problems, IsEmpty()) << length;
    EXPECT_EQ(report.overflow_buckets, done ? 1U : 0U) << length;
    EXPECT_EQ(report.leaked_overflow_buckets, 0U) << length;
  }
  EXPECT_GT(too_late, 0);
}

TEST(HashTableEstate, ACopyOnWriteBucketIsWholeWhateverItsHolderLeft) {
  const CopyOnWrite scheme;
  Estate estate(scheme);
  HashTableRig& rig = estate.rig;
  estate.bequeath(0);
  // The copy that is not current. The version is 2, because home was written for each of the two keys.
  const RecordShape& shape = rig.table->layout().shape();
  rig.plant(0, shape.payload_words() + 40, std::uint64_t{77});
  EXPECT_EQ(rig.get(estate.heir, estate.keys[0]), 10U);
  EXPECT_EQ(rig.put(estate.heir, estate.keys[0], 12), Outcome::done);
  EXPECT_EQ(rig.get(estate.heir, estate.keys[0]), 12U);
  EXPECT_THAT(rig.check().problems, IsEmpty());
}

TEST(HashTableEstate, TheOverflowBucketOfAClientThatDiesBeforeItLinksItComesBack) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  Estate estate(scheme);
  HashTableRig& rig = estate.rig;
  const Pool pool(scheme,
                  rig.memory[0].remote(kSuperblockBytes + RecordShape::whole_lines(rig.table->layout().total_bytes()),
                                       Pool::bytes_needed(scheme, 8)),
                  0, 8);
  EXPECT_EQ(rig.run(pool.take(*rig.clients[1])).outcome, Outcome::done);  // owner 9
  rig.settle();
  estate.bequeath(0);
  EXPECT_EQ(rig.insert(estate.heir, estate.keys[2], 12), Outcome::done);
  HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.leaked_overflow_buckets, 1U);
  EXPECT_EQ(report.overflow_buckets, 2U);
  EXPECT_EQ(rig.run(rig.table->sweep(estate.heir, 9)), 1U);
  report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.leaked_overflow_buckets, 0U);
  EXPECT_EQ(report.overflow_buckets, 2U);
}

// The dead client had filled both buckets of the chain, and died within a WRITE of the newer one.
TEST(HashTableEstate, ASweepEndsAtATornBucketAndLeavesWhatIsBehindIt) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  Estate estate(scheme);
  HashTableRig& rig = estate.rig;
  EXPECT_EQ(rig.insert(*rig.clients[1], estate.keys[2], 12), Outcome::done);  // takes the next bucket
  const std::vector<std::uint64_t> more = rig.keys_of(0, 4);
  EXPECT_EQ(rig.insert(*rig.clients[1], more[3], 13), Outcome::done);
  rig.settle();
  estate.bequeath(estate.overflow() + 2);
  rig.plant(estate.overflow() + 2, kFirstKey + 8, std::uint64_t{77});  // a part of a new value
  EXPECT_THROW(rig.get(estate.heir, more[3]), StructureError);
  std::optional<std::uint64_t> swept;
  rig.world.reactor().spawn(sweep_of(&*rig.table, &estate.heir, 9, &swept));
  rig.world.reactor().run_for(from_ns(1e9));
  EXPECT_EQ(swept, 0U);
  EXPECT_EQ(rig.at<std::uint32_t>(estate.overflow() + 1, kUsed), 1U);
  EXPECT_EQ(rig.check().leaked_overflow_buckets, 2U) << "check() cannot see what is behind it";
  EXPECT_FALSE(estate.service.revoked(1));
}

// Nobody waits for a sweep that cannot end: a put into another chain finds the pool empty, and sweeps first.
TEST(HashTableEstate, APutThatSweepsEndsWhereAChainIsDamaged) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  Estate estate(scheme, {.value_bytes = 40, .capacity = 3, .entries_per_bucket = 1, .overflow_buckets = 3});
  HashTableRig& rig = estate.rig;
  const std::vector<std::uint64_t> more = rig.keys_of(0, 4);
  EXPECT_EQ(rig.insert(*rig.clients[1], more[2], 12), Outcome::done);
  EXPECT_EQ(rig.insert(*rig.clients[1], more[3], 13), Outcome::done);
  rig.settle();
  estate.bequeath(estate.overflow() + 2);
  rig.plant(estate.overflow() + 2, kNextGeneration, std::uint32_t{99});
  EXPECT_THROW(rig.get(estate.heir, more[2]), StructureError);
  const std::vector<std::uint64_t> others = rig.keys_of(1, 2);
  EXPECT_EQ(rig.put(estate.heir, others[0], 1), Outcome::done);
  std::optional<Outcome> outcome;
  rig.world.reactor().spawn(put_of(&*rig.table, &estate.heir, others[1], &outcome));
  rig.world.reactor().run_for(from_ns(1e9));
  EXPECT_EQ(outcome, Outcome::full);
}

Task<void> get_of(const HashTable* table, Client* client, std::uint64_t key, std::optional<Outcome>* ended) {
  std::vector<std::byte> value(table->options().value_bytes);
  const Outcome outcome = co_await table->get(*client, key, value);
  *ended = outcome;
}

// A bucket left the chain while a reader was on its way to it, and its next owner died while filling it anew. Either
// nothing of what it wrote was placed in the header, or all.
TEST(HashTableEstate, AReaderWithAnOldLinkToATornBucketBeginsAgain) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  for (const std::uint32_t generation : {1U, 2U}) {
    Estate estate(scheme);
    HashTableRig& rig = estate.rig;
    std::optional<Outcome> outcome;
    rig.world.reactor().spawn(get_of(&*rig.table, &estate.heir, estate.keys[1], &outcome));
    while (rig.latch_word(0) == kFree) {
      rig.world.reactor().run_for(from_ns(20));
    }
    while (rig.latch_word(0) != kFree) {
      rig.world.reactor().run_for(from_ns(20));
    }
    ASSERT_EQ(rig.latch_word(estate.overflow()), kFree) << "the reader has read home, and nothing else";
    estate.plant(0, kNext, std::uint32_t{0});
    estate.bequeath(estate.overflow());
    rig.plant(estate.overflow(), kGeneration, generation);
    rig.plant(estate.overflow(), kFirstKey + 8, std::uint64_t{77});
    rig.world.reactor().run();
    EXPECT_EQ(outcome, Outcome::absent) << generation;
    EXPECT_EQ(rig.at<std::uint64_t>(estate.overflow(), kHome), BucketHeader::kTorn);
    EXPECT_THAT(rig.check().problems, IsEmpty());
  }
}

TEST(HashTableEstate, ATornBucketThatThePoolHandsOutIsFilledAnew) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  Estate estate(scheme);
  HashTableRig& rig = estate.rig;
  const std::uint64_t next = estate.overflow() + 1;
  rig.plant(next, kFirstKey + 8, std::uint64_t{77});
  for (const bool is_known : {false, true}) {
    if (is_known) {
      estate.plant(next, kHome, BucketHeader::kTorn);
    } else {
      estate.bequeath(next);
    }
    EXPECT_EQ(rig.insert(estate.heir, estate.keys[2], 12), Outcome::done);
    EXPECT_EQ(rig.get(estate.heir, estate.keys[2]), 12U);
    EXPECT_THAT(rig.check().problems, IsEmpty());
    EXPECT_EQ(rig.remove(estate.heir, estate.keys[2]), Outcome::done);
    rig.settle();
  }
}

// The client takes a bucket, finds room without it, and cannot give it back: the pool's latch is a dead client's, or
// the pool is damaged.
TEST(HashTableEstate, AnOperationThatHasTakenEffectSaysSoWhateverBecomesOfItsSpareBucket) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  for (const bool is_damaged : {false, true}) {
    Estate estate(scheme);
    HashTableRig& rig = estate.rig;
    SessionOptions options = leased(3, estate.service);
    options.revoker = nullptr;
    Client& client = rig.add_client(options);
    std::byte* const pool =
        rig.memory[0].bytes().data() + kSuperblockBytes + RecordShape::whole_lines(rig.table->layout().total_bytes());
    const Layout control(scheme.shape(24, scheme.default_layout()), scheme.default_layout(), 1);
    const auto word_at = [pool](std::uint64_t offset) {
      std::uint64_t word = 0;
      std::memcpy(&word, pool + offset, sizeof word);
      return word;
    };
    std::optional<Outcome> outcome;
    rig.world.reactor().spawn(put_of(&*rig.table, &client, estate.keys[2], &outcome));
    while (word_at(control.payload(0) + 16) != 2 || word_at(control.latch(0)) != kFree) {  // until it has the bucket
      rig.world.reactor().run_for(from_ns(20));
    }
    estate.plant(0, kUsed, std::uint32_t{0});  // another client removes home's key
    const std::uint64_t planted = is_damaged ? 99 : exclusive_word(9, 1);
    std::memcpy(pool + (is_damaged ? control.payload(0) + 16 : control.latch(0)), &planted, sizeof planted);
    rig.world.reactor().run();
    EXPECT_EQ(outcome, Outcome::done);
    EXPECT_EQ(rig.get(estate.heir, estate.keys[2]), estate.keys[2]);
    EXPECT_EQ(rig.at<std::uint32_t>(0, kNext), 1U) << "the new bucket is not linked";
  }
}

TEST(HashTableEstate, APerfectTablesHalfWrittenValueIsReadByNobodyUntilItIsWrittenAnew) {
  for (const checker::SchemeEntry& entry : sound_schemes()) {
    const auto scheme = entry.make();
    if (scheme->needs().copies > 1) {
      continue;
    }
    Estate estate(*scheme, {.addressing = Addressing::perfect, .value_bytes = 200, .capacity = 4});
    HashTableRig& rig = estate.rig;
    EXPECT_EQ(rig.put(estate.heir, 2, 5), Outcome::done);
    rig.settle();
    estate.bequeath(2);
    EXPECT_THAT(structure_error_of([&] { (void)rig.get(estate.heir, 2); }), HasSubstr("the value of key 2"))
        << entry.name;
    EXPECT_EQ(rig.put(estate.heir, 2, 6), Outcome::done) << entry.name;
    EXPECT_EQ(rig.get(estate.heir, 2), 6U) << entry.name;
    EXPECT_THAT(rig.check().problems, IsEmpty()) << entry.name;
  }
}

TEST(HashTableEstate, APerfectTableOfTwoCopiesIsNotConcerned) {
  const CopyOnWrite scheme;
  Estate estate(scheme, {.addressing = Addressing::perfect, .value_bytes = 200, .capacity = 4});
  HashTableRig& rig = estate.rig;
  EXPECT_EQ(rig.put(estate.heir, 2, 5), Outcome::done);
  rig.settle();
  estate.bequeath(2);
  EXPECT_EQ(rig.get(estate.heir, 2), 5U);
  EXPECT_EQ(rig.put(estate.heir, 2, 6), Outcome::done);
  EXPECT_EQ(rig.get(estate.heir, 2), 6U);
}

TEST(HashTableEstate, WithoutARevokerAnOperationThatMeetsTheDeadFailsAndLeavesNothingLatched) {
  const ExclusiveLatch scheme(LatchLevel::combined);
  Estate estate(scheme);
  HashTableRig& rig = estate.rig;
  SessionOptions options = leased(3, estate.service);
  options.revoker = nullptr;
  Client& client = rig.add_client(options);
  estate.bequeath(estate.overflow());
  EXPECT_THROW(rig.put(client, estate.keys[1], 5), LatchError);
  EXPECT_THROW(rig.get(client, estate.keys[1]), LatchError);
  rig.settle();
  EXPECT_EQ(rig.latch_word(0), kFree);
  EXPECT_EQ(rig.latch_word(estate.overflow()), exclusive_word(9, 1));
  EXPECT_EQ(rig.put(client, estate.keys[0], 5), Outcome::done);
}

}  // namespace dead_clients
}  // namespace
}  // namespace sidelatch::structures
