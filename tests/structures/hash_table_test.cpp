// Requirements on every scheme as a hash table, with one client and with many.
#include <sidelatch/structures/hash_table.h>

#include "hash_table_rig.h"
#include "history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <unordered_map>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::IsEmpty;

class EverySchemeOfHashTables : public ::testing::TestWithParam<checker::SchemeEntry> {
 protected:
  std::unique_ptr<Scheme> scheme_ = GetParam().make();
};

TEST_P(EverySchemeOfHashTables, DoesWhatAMapDoes) {
  HashTableRig rig(*scheme_, {.capacity = 12, .entries_per_bucket = 2, .overflow_buckets = 60}, 2);
  Client& client = rig.add_client();
  std::unordered_map<std::uint64_t, std::uint64_t> map;
  std::mt19937_64 random(1);
  std::uint64_t most = 0;
  for (std::uint64_t i = 1; i <= 3000; ++i) {
    // Phases of growth and shrinking alternate.
    const bool grows = i / 300 % 2 == 0;
    const std::uint64_t key = random() % 60;
    const bool present = map.contains(key);
    switch (random() % (grows ? 5 : 8)) {
      case 0:
        ASSERT_EQ(rig.insert(client, key, i), present ? Outcome::present : Outcome::done);
        map.try_emplace(key, i);
        break;
      case 1:
        ASSERT_EQ(rig.put(client, key, i), Outcome::done);
        map[key] = i;
        break;
      case 2:
        ASSERT_EQ(rig.update(client, key, i), present ? Outcome::done : Outcome::absent);
        if (present) {
          map[key] = i;
        }
        break;
      case 3:
      case 4:
        ASSERT_EQ(rig.get(client, key), present ? std::optional(map[key]) : std::nullopt) << key;
        break;
      default:
        ASSERT_EQ(rig.remove(client, key), present ? Outcome::done : Outcome::absent);
        map.erase(key);
    }
    most = std::max<std::uint64_t>(most, map.size());
  }
  EXPECT_GT(most, 24U);  // more than the home buckets hold
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, map.size());
  EXPECT_EQ(report.leaked_overflow_buckets, 0U);
  EXPECT_EQ(report.overflow_buckets + report.free_overflow_buckets, 2 * 60U);
  for (std::uint64_t key = 0; key < 60; ++key) {
    const auto found = map.find(key);
    EXPECT_EQ(rig.get(client, key), found != map.end() ? std::optional(found->second) : std::nullopt);
  }
  for (std::uint64_t key = 0; key < 60; ++key) {
    rig.remove(client, key);
  }
  const HashTableReport empty = rig.check();
  EXPECT_EQ(empty.entries, 0U);
  EXPECT_EQ(empty.overflow_buckets, 0U);  // all of them were given back
  EXPECT_EQ(empty.longest_chain, 1U);
  EXPECT_EQ(client.statistics().operations, 3000U + 60 + 60);
}

// Concurrent clients. Each has keys of its own, whose state it knows, and there are keys that all clients change.
constexpr std::uint64_t kSharedKeys = 6;
constexpr std::uint64_t kOwnKeys = 5;

struct Crew {
  HashTableRig& rig;
  Histories histories{};  // of shared keys
  std::uint64_t operations = 0;
  std::uint64_t torn = 0;
  std::uint64_t wrong = 0;  // wrong results for a client's own keys
};

Task<Event> operate(Crew* crew, Client* client, Call what, std::uint64_t key, std::uint64_t number) {
  const HashTable& table = *crew->rig.table;
  std::vector<std::byte> value = crew->rig.value(number);
  Event operation{.call = what, .argument = number, .result = number, .began = client->reactor().now().count()};
  switch (what) {
    case Call::get:
      operation.outcome = co_await table.get(*client, key, value);
      operation.result = number_in(value);
      crew->torn += is_whole(value) ? 0U : 1U;
      break;
    case Call::insert:
      operation.outcome = co_await table.insert(*client, key, value);
      break;
    case Call::put:
      operation.outcome = co_await table.put(*client, key, value);
      break;
    case Call::update:
      operation.outcome = co_await table.update(*client, key, value);
      break;
    case Call::remove:
      operation.outcome = co_await table.remove(*client, key);
      break;
  }
  operation.ended = client->reactor().now().count();
  ++crew->operations;
  co_return operation;
}

Task<void> work(Crew* crew, Client* client, std::uint64_t id, std::uint64_t seed, std::uint64_t operations) {
  std::mt19937_64 random(seed * 100 + id);
  std::map<std::uint64_t, std::uint64_t> own;
  for (std::uint64_t i = 1; i <= operations; ++i) {
    const bool shared = random() % 2 == 0;
    const std::uint64_t key = shared ? random() % kSharedKeys : 1000 * id + random() % kOwnKeys;
    const auto what = static_cast<Call>(random() % 7 % 5);
    const std::uint64_t number = id << 32 | i;
    const Event done = co_await operate(crew, client, what, key, number);
    if (shared) {
      crew->histories[key].push_back(done);
      continue;
    }
    const auto found = own.find(key);
    const bool present = found != own.end();
    Outcome right = present ? Outcome::done : Outcome::absent;
    if (what == Call::insert) {
      right = present ? Outcome::present : Outcome::done;
    } else if (what == Call::put) {
      right = Outcome::done;
    }
    bool is_right = done.outcome == right;
    if (what == Call::get && present) {
      is_right = is_right && done.result == found->second;
    }
    crew->wrong += is_right ? 0U : 1U;
    if (what == Call::remove) {
      own.erase(key);
    } else if (what != Call::get && done.outcome == Outcome::done) {
      own[key] = number;
    }
  }
}

TEST_P(EverySchemeOfHashTables, IsLinearizableForManyClients) {
  constexpr std::uint64_t kSeeds = 8;
  constexpr std::uint64_t kClients = 6;
  constexpr std::uint64_t kOperations = 250;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    HashTableRig rig(*scheme_, crowded(), 1, {.profile = connectx5(), .seed = seed});
    Crew crew{rig};
    for (std::uint64_t id = 1; id <= kClients; ++id) {
      // Some clients are so slow that much happens between two of their requests.
      sim::Profile profile = connectx5();
      profile.link.jitter_ns = id % 2 == 0 ? 60'000 : profile.link.jitter_ns;
      Client& client =
          rig.add_client({.retry = Retry::backoff(from_ns(200), from_ns(5000)), .seed = seed * 10 + id}, profile);
      rig.world.reactor().spawn(work(&crew, &client, id, seed, kOperations));
    }
    rig.world.reactor().run();
    EXPECT_EQ(crew.operations, kClients * kOperations);
    EXPECT_EQ(crew.torn, 0U) << seed;
    EXPECT_EQ(crew.wrong, 0U) << seed;
    EXPECT_EQ(first_violation(crew.histories), std::nullopt) << "seed " << seed;
    const HashTableReport report = rig.check();
    EXPECT_THAT(report.problems, IsEmpty()) << seed;
    EXPECT_EQ(report.leaked_overflow_buckets, 0U) << seed;
  }
}

struct Churn {
  const HashTable& table;
  std::uint64_t writers = 0;  // writers that have not ended
  std::uint64_t reads = 0;
  std::uint64_t missed = 0;  // missed keys, although they always exist
};

// Overflow buckets come and go, and move to other chains.
Task<void> churn(Churn* state, Client* client, std::vector<std::uint64_t> keys, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<std::byte> value = value_of(2, state->table.options().value_bytes);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t key = keys[random() % keys.size()];
    const Outcome outcome = co_await state->table.insert(*client, key, value);
    if (outcome == Outcome::present) {
      (void)co_await state->table.remove(*client, key);
    }
    co_await client->reactor().sleep(from_ns(static_cast<double>(random() % 10'000)));
  }
  --state->writers;
}

Task<void> look_for(Churn* state, Client* client, std::vector<std::uint64_t> keys) {
  std::vector<std::byte> value(state->table.options().value_bytes);
  for (std::size_t i = 0; state->writers != 0; ++i) {
    const Outcome outcome = co_await state->table.get(*client, keys[i % keys.size()], value);
    ++state->reads;
    state->missed += outcome == Outcome::done && is_whole(value) && number_in(value) == 1 ? 0U : 1U;
  }
}

TEST_P(EverySchemeOfHashTables, ASlowReaderFindsWhatIsThereAlthoughBucketsGoToOtherChains) {
  std::uint64_t reads = 0;
  std::uint64_t restarts = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    HashTableRig rig(*scheme_, crowded(), 1, {.profile = connectx5(), .seed = seed});
    Client& first = rig.add_client();
    std::vector<std::uint64_t> stay;
    std::vector<std::vector<std::uint64_t>> come_and_go;
    for (std::uint64_t home = 0; home < 3; ++home) {
      std::vector<std::uint64_t> keys = rig.keys_of(home, 6);
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(rig.insert(first, keys[i], 1), Outcome::done);
      }
      // Others may be linked before keys[1]. keys[0] stays at home, so that the others do not fit there.
      ASSERT_EQ(rig.remove(first, keys[2]), Outcome::done);
      stay.push_back(keys[1]);
      come_and_go.emplace_back(keys.begin() + 2, keys.end());
    }
    Churn state{.table = *rig.table, .writers = 3};
    for (std::uint64_t i = 0; i < 3; ++i) {
      rig.world.reactor().spawn(churn(&state, &rig.add_client({.seed = i + 1}), come_and_go[i], seed * 10 + i));
    }
    sim::Profile slow = connectx5();
    slow.link.jitter_ns = 60'000;
    std::vector<Client*> readers;
    for (std::uint64_t i = 0; i < 4; ++i) {
      readers.push_back(&rig.add_client({.seed = i + 10}, slow));
      rig.world.reactor().spawn(look_for(&state, readers.back(), stay));
    }
    rig.world.reactor().run();
    reads += state.reads;
    EXPECT_EQ(state.missed, 0U) << seed;
    for (const Client* reader : readers) {
      restarts += reader->statistics().restarts;
    }
    const HashTableReport report = rig.check();
    EXPECT_THAT(report.problems, IsEmpty()) << seed;
    EXPECT_EQ(report.leaked_overflow_buckets, 0U) << seed;
  }
  EXPECT_GT(reads, 100U);
  EXPECT_GT(restarts, 0U);  // the reader came to buckets that had been given back and filled anew
}

TEST_P(EverySchemeOfHashTables, LoadsInBulkWhatIsThereAfterwards) {
  HashTableRig rig(*scheme_, {.value_bytes = 24, .capacity = 200, .entries_per_bucket = 2}, 2);
  Client& client = rig.add_client();
  std::vector<std::uint64_t> keys(200);
  std::iota(keys.begin(), keys.end(), 7);
  std::vector<std::byte> values;
  for (const std::uint64_t key : keys) {
    const std::vector<std::byte> value = rig.value(key * 3);
    values.insert(values.end(), value.begin(), value.end());
  }
  ASSERT_EQ(rig.run(rig.table->bulk_load(client, keys, values)), Outcome::done);
  for (const std::uint64_t key : keys) {
    EXPECT_EQ(rig.get(client, key), key * 3);
  }
  EXPECT_EQ(rig.get(client, 6), std::nullopt);
  EXPECT_EQ(rig.insert(client, 207, 1), Outcome::done);
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 201U);
  EXPECT_GT(report.overflow_buckets, 0U);
  EXPECT_EQ(report.leaked_overflow_buckets, 0U);
}

TEST_P(EverySchemeOfHashTables, IsPerfectForNumberedKeys) {
  HashTableRig rig(*scheme_, {.addressing = Addressing::perfect, .value_bytes = 100, .capacity = 7}, 3);
  Client& client = rig.add_client();
  for (std::uint64_t key = 0; key < 7; ++key) {
    EXPECT_EQ(rig.get(client, key), 0U);
    EXPECT_EQ(rig.insert(client, key, 1), Outcome::present);
    EXPECT_EQ(key % 2 == 0 ? rig.put(client, key, key + 10) : rig.update(client, key, key + 10), Outcome::done);
  }
  for (std::uint64_t key = 0; key < 7; ++key) {
    EXPECT_EQ(rig.get(client, key), key + 10);
  }
  const HashTableReport report = rig.check();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.entries, 7U);
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySchemeOfHashTables, ::testing::ValuesIn(sound_schemes()),
                         [](const auto& scheme) { return name_of_scheme(scheme); });

}  // namespace
}  // namespace sidelatch::structures
