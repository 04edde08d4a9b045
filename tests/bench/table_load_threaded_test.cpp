#include "bench/kv_store.h"
#include "bench/table_load.h"

#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::bench {
namespace {

using namespace sync;
using fabric::from_ns;

TableLoad small_load() {
  return {.make = [] { return std::make_unique<RwLatch>(); },
          .tuples = 10'000,
          .workers = 8,
          .client_nodes = 2,
          .memory_nodes = 2,
          .warm_up = from_ns(20'000),
          .measured = from_ns(200'000)};
}

TableResult run(const TableLoad& load, std::uint64_t seed = 1) {
  return run_table_loads({.seed = seed}, std::span(&load, 1)).front();
}

// Eight workers with a round trip of 1.8 to 3 us each.
TEST(TableLoad, EverySchemeReadsAndWrites) {
  const std::vector<std::pair<std::function<std::unique_ptr<Scheme>()>, LayoutKind>> schemes = {
      {[] { return std::make_unique<RwLatch>(LatchLevel::basic); }, LayoutKind::interleaved},
      {[] { return std::make_unique<RwLatch>(); }, LayoutKind::padded},
      {[] { return std::make_unique<FarmLineVersions>(WriteUnlatch::async); }, LayoutKind::padded_footer},
      {[] { return std::make_unique<Crc64>(WriteUnlatch::async); }, LayoutKind::padded_footer},
      {[] { return std::make_unique<TwoReadVersion>(WriteUnlatch::async); }, LayoutKind::padded_footer}};
  std::vector<TableLoad> loads;
  for (const auto& [make, layout] : schemes) {
    for (const Mix& mix : {kReadOnly, kMixed, kWriteOnly, ycsb('F')}) {
      loads.push_back(small_load());
      loads.back().make = make;
      loads.back().layout = layout;
      loads.back().mix = mix;
    }
  }
  for (const TableResult& result : run_table_loads({}, loads)) {
    EXPECT_GT(result.mops.mean, 0.5);
    EXPECT_LT(result.mops.mean, 8 / 1.8);
    EXPECT_GT(result.mops.half_width, 0);
    EXPECT_LT(result.mops.half_width, 0.2 * result.mops.mean);
  }
}

TEST(TableLoad, EqualSeedsGiveEqualResults) {
  TableLoad load = small_load();
  load.mix = kMixed;
  load.exponent = 1;
  EXPECT_EQ(run(load, 3).mops.mean, run(load, 3).mops.mean);
  EXPECT_NE(run(load, 3).mops.mean, run(load, 4).mops.mean);
}

// Two atomics per read, on one slot that takes 2.4 million of them per second.
TEST(TableLoad, SkewBindsLatchesAndNotOptimisticReads) {
  TableLoad latches = small_load();
  latches.workers = 32;
  latches.exponent = 4;
  TableLoad optimistic = latches;
  optimistic.make = [] { return std::make_unique<TwoReadVersion>(); };
  EXPECT_LT(run(latches).mops.mean, 1.6);
  EXPECT_GT(run(optimistic).mops.mean, 4);
}

// 40 Gbyte of tuples, of which some thousand pages are used.
TEST(TableLoad, TuplesThatNobodyTouchesCostNothing) {
  TableLoad load = small_load();
  load.tuples = 80'000'000;
  load.tuple_bytes = 512;
  EXPECT_GT(run(load).mops.mean, 1);
  rusage usage{};
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 2'000'000);  // KiB
}

TEST(TableLoad, RefusesWhatATableCannotDo) {
  TableLoad load = small_load();
  load.mix = ycsb('E');
  EXPECT_THROW(static_cast<void>(run(load)), std::invalid_argument);
  load = small_load();
  load.workers = 0;
  EXPECT_THROW(static_cast<void>(run(load)), std::invalid_argument);
}

StoreScale small_store() {
  return {.tuples = 20'000,
          .workers = 16,
          .exponents = {0, 1, 1.5, 2},
          .measured = from_ns(100'000),
          .measured_skewed = from_ns(200'000),
          .measured_contended = from_ns(400'000)};
}

std::vector<std::string> ids(const ExperimentResult& result) {
  std::vector<std::string> all;
  for (const Target& target : result.targets) {
    all.push_back(target.id);
  }
  return all;
}

double at(const ExperimentResult& result, const std::string& panel, const std::string& line, double exponent) {
  const auto found = std::ranges::find_if(
      result.series, [&](const Series& series) { return series.panel == panel && series.name == line; });
  if (found == result.series.end()) {
    ADD_FAILURE() << "no " << panel << " " << line;
    return 0;
  }
  return std::ranges::find(found->points, exponent, &Point::x)->y;
}

// The experiments themselves take minutes. This is the same code with fewer tuples and workers.
TEST(KvStore, ComparesLatchesBySkew) {
  const ExperimentResult result = kv_store({}, small_store());
  EXPECT_EQ(result.series.size(), 16U);
  EXPECT_EQ(ids(result), (std::vector<std::string>{"N11.uniform", "N11.zipf1", "N12.write", "N12.read", "N26.converge",
                                                   "N26.padding"}));
  EXPECT_GT(at(result, "read-only", "NAM-DB++", 0), 1.5 * at(result, "read-only", "NAM-DB", 0));
  EXPECT_LT(at(result, "read-only", "NAM-DB++", 2), at(result, "read-only", "NAM-DB++", 0));
  EXPECT_LT(at(result, "write-only", "NAM-DB++", 2), at(result, "read-only", "NAM-DB++", 2));
}

TEST(KvStore, WaitsForLatchesAsLongAsTheOptionsSay) {
  StoreScale scale = small_store();
  scale.exponents = {0, 1, 1.5, 2};
  const double often = at(kv_store({.longest_wait = from_ns(100)}, scale), "write-only", "NAM-DB++", 2);
  const double seldom = at(kv_store({.longest_wait = from_ns(30'000)}, scale), "write-only", "NAM-DB++", 2);
  EXPECT_GT(seldom, 1.2 * often);  // CAS that fail keep the slot busy
}

TEST(KvStore, ComparesOptimisticSchemesBySkew) {
  const ExperimentResult result = kv_store_512({}, small_store());
  EXPECT_EQ(result.series.size(), 21U);
  EXPECT_EQ(ids(result), (std::vector<std::string>{"N17.uniform", "N17.skewed", "N17.optimistic", "N17.converge",
                                                   "N17.write", "N28.few", "N28.many", "N28.mixed", "N28.flat"}));
  EXPECT_GT(at(result, "mixed", "FaRM", 1.5), at(result, "mixed", "NAM-DB++", 1.5));
  // Few workers: a latched read needs one round trip, an optimistic one two.
  EXPECT_LT(at(result, "read-only", "FaRM", 0), at(result, "read-only", "NAM-DB++", 0));
}

}  // namespace
}  // namespace sidelatch::bench
