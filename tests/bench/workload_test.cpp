#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace sidelatch::bench {
namespace {

using ::testing::HasSubstr;
using Kind = Operation::Kind;

constexpr int kDraws = 100'000;

// A binomial variable is within 7 standard deviations with a probability of 1 - 10^-11.
void expect_share(int count, double share) {
  EXPECT_NEAR(count, share * kDraws, 7 * std::sqrt(kDraws * share * (1 - share)));
}

std::map<Kind, int> kinds_of(const Mix& mix) {
  KeySpace keys(kDraws, kDraws + kDraws / 10);
  Workload workload(mix, kYcsbExponent, keys, 1);
  std::map<Kind, int> kinds;
  for (int i = 0; i < kDraws; ++i) {
    ++kinds[workload.next().kind];
  }
  return kinds;
}

struct NamedMix {
  const char* name;
  Mix mix;
  std::map<Kind, double> shares;
};

TEST(Workload, DrawsEachKindInItsShare) {
  const std::vector<NamedMix> mixes = {
      {"write-only", kWriteOnly, {{Kind::update, 1}}},
      {"mixed", kMixed, {{Kind::read, 0.5}, {Kind::update, 0.5}}},
      {"read-only", kReadOnly, {{Kind::read, 1}}},
      {"A", ycsb('A'), {{Kind::read, 0.5}, {Kind::update, 0.5}}},
      {"B", ycsb('B'), {{Kind::read, 0.95}, {Kind::update, 0.05}}},
      {"C", ycsb('C'), {{Kind::read, 1}}},
      {"D", ycsb('D'), {{Kind::read, 0.95}, {Kind::insert, 0.05}}},
      {"E", ycsb('E'), {{Kind::scan, 0.95}, {Kind::insert, 0.05}}},
      {"F", ycsb('F'), {{Kind::read, 0.5}, {Kind::read_modify_write, 0.5}}},
  };
  for (const NamedMix& named : mixes) {
    SCOPED_TRACE(named.name);
    std::map<Kind, int> kinds = kinds_of(named.mix);
    EXPECT_EQ(kinds.size(), named.shares.size());
    for (const auto& [kind, share] : named.shares) {
      expect_share(kinds[kind], share);
    }
  }
}

TEST(Workload, ScansAreUniformFromOneToTheLongest) {
  KeySpace keys(kDraws, kDraws + kDraws / 10);
  Workload workload(ycsb('E'), kYcsbExponent, keys, 1);
  std::array<int, 101> lengths{};
  int scans = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Operation operation = workload.next();
    if (operation.kind == Kind::scan) {
      ++scans;
      ++lengths.at(operation.scan_length);
    }
  }
  EXPECT_EQ(lengths[0], 0);
  for (std::size_t length = 1; length <= 100; ++length) {
    EXPECT_NEAR(lengths.at(length), scans / 100.0, 7 * std::sqrt(scans / 100.0));
  }
}

TEST(Workload, WorkersAgreeOnThePopularKey) {
  KeySpace keys(20'000'000);
  std::set<std::uint64_t> favourites;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Workload workload(kReadOnly, 2, keys, seed);
    std::map<std::uint64_t, int> counts;
    for (int i = 0; i < 1000; ++i) {
      ++counts[workload.next().key];
    }
    favourites.insert(std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first);
  }
  EXPECT_EQ(favourites.size(), 1U);
}

TEST(Workload, InsertsGiveNewKeysToAllWorkers) {
  KeySpace keys(100, 200);
  Workload one({.insert = 1}, 0, keys, 1);
  Workload other({.insert = 1}, 0, keys, 2);
  std::set<std::uint64_t> fresh;
  for (int i = 0; i < 50; ++i) {
    fresh.insert(one.next().key);
    fresh.insert(other.next().key);
  }
  EXPECT_EQ(fresh.size(), 100U);
  EXPECT_EQ(*fresh.begin(), 100U);
  EXPECT_EQ(keys.size(), 200U);
  EXPECT_THROW(static_cast<void>(one.next()), std::length_error);
}

TEST(Workload, ReadsOnlyWhatIsThere) {
  for (const char name : {'D', 'E'}) {
    KeySpace keys(1000, 3000);
    Workload workload(ycsb(name), kYcsbExponent, keys, 1);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t before = keys.size();
      const Operation operation = workload.next();
      ASSERT_LT(operation.key, operation.kind == Kind::insert ? before + 1 : before);
    }
  }
}

TEST(Workload, TheLatestKeyIsTheMostPopular) {
  KeySpace keys(kDraws, kDraws + kDraws / 10);
  Workload workload(ycsb('D'), kYcsbExponent, keys, 1);
  std::map<std::uint64_t, int> ages;
  int reads = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Operation operation = workload.next();
    if (operation.kind == Kind::read) {
      ++reads;
      ++ages[keys.size() - 1 - operation.key];
    }
  }
  EXPECT_GT(ages[0], ages[1]);
  EXPECT_GT(ages[1], ages[4]);
  EXPECT_GT(ages[0], reads / 20);
}

TEST(Workload, EqualSeedsGiveEqualOperations) {
  const auto keys_of = [](std::uint64_t seed) {
    KeySpace keys(1000);
    Workload workload(kMixed, 1, keys, seed);
    std::vector<std::uint64_t> drawn;
    for (int i = 0; i < 100; ++i) {
      drawn.push_back(workload.next().key);
    }
    return drawn;
  };
  EXPECT_EQ(keys_of(1), keys_of(1));
  EXPECT_NE(keys_of(1), keys_of(2));
}

TEST(Mix, NamesTheWrongShare) {
  const auto error = [](const Mix& mix) -> std::string {
    try {
      mix.validate();
    } catch (const std::invalid_argument& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  EXPECT_THAT(error({.read = 0.5}), HasSubstr("0.5"));
  EXPECT_THAT(error({.read = 1.5, .update = -0.5}), HasSubstr("Mix::read"));
  EXPECT_THAT(error({.scan = 1, .longest_scan = 0}), HasSubstr("longest_scan"));
  EXPECT_THROW(static_cast<void>(ycsb('G')), std::invalid_argument);
}

TEST(KeySpace, RefusesWhatIsNone) {
  EXPECT_THROW(KeySpace(0), std::invalid_argument);
  EXPECT_THROW(KeySpace(10, 9), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::bench
