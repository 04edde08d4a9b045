#include "bench/ycsb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sidelatch::bench {
namespace {

using fabric::from_ns;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

YcsbScale small() {
  return {.records = 5'000,
          .value_bytes = 40,
          .workers = 8,
          .memory_nodes = 2,
          .warm_up = from_ns(20'000),
          .measured = from_ns(400'000)};
}

double at(const ExperimentResult& result, const std::string& series, char workload) {
  const auto line = std::ranges::find(result.series, series, &Series::name);
  const auto place = std::ranges::find(result.x_names, std::string(1, workload));
  if (line == result.series.end() || place == result.x_names.end()) {
    ADD_FAILURE() << "no " << series << " of " << workload;
    return 0;
  }
  return line->points.at(static_cast<std::size_t>(place - result.x_names.begin())).y;
}

// Eight workers; a get takes at least one round trip of 1.8 us.
void expect_sensible(const ExperimentResult& result) {
  EXPECT_EQ(result.series.size(), 4U);
  for (const Series& series : result.series) {
    ASSERT_EQ(series.points.size(), result.x_names.size());
    for (const Point& point : series.points) {
      EXPECT_GT(point.y, 0.05) << series.name << " " << point.x;
      EXPECT_LT(point.y, 8 / 1.8) << series.name << " " << point.x;
      EXPECT_GT(point.half_width.value_or(0), 0) << series.name << " " << point.x;
    }
  }
}

TEST(Ycsb, RunsOnTheHashTableWithoutScans) {
  const ExperimentResult result = ycsb_hash_table({}, small());
  EXPECT_THAT(result.x_names, ElementsAre("A", "B", "C", "D", "F"));
  expect_sensible(result);
  for (const char* scheme : {"latch-rw/async", "crc64", "farm", "two-read"}) {
    // Reads are cheaper than updates, except for two-read: it rings three doorbells for a read and two for an update.
    EXPECT_EQ(at(result, scheme, 'C') > at(result, scheme, 'A'), scheme != std::string("two-read")) << scheme;
    // A read-modify-write is both.
    EXPECT_GT(at(result, scheme, 'A'), at(result, scheme, 'F')) << scheme;
  }
}

TEST(Ycsb, RunsOnTheTree) {
  const ExperimentResult result = ycsb_btree({}, small());
  EXPECT_THAT(result.x_names, ElementsAre("A", "B", "C", "D", "E", "F"));
  expect_sensible(result);
  for (const char* scheme : {"latch-rw/async", "crc64", "farm", "two-read"}) {
    EXPECT_GT(at(result, scheme, 'C'), at(result, scheme, 'E')) << scheme;  // a scan reads several leaves
  }
}

TEST(Ycsb, EqualSeedsGiveEqualResults) {
  YcsbScale scale = small();
  scale.workloads = "AD";
  EXPECT_EQ(to_json(ycsb_btree({.seed = 3}, scale)), to_json(ycsb_btree({.seed = 3}, scale)));
  EXPECT_NE(to_json(ycsb_btree({.seed = 3}, scale)), to_json(ycsb_btree({.seed = 4}, scale)));
}

// Ten records have room for ten more; YCSB D needs a hundred.
TEST(Ycsb, SaysThatItRanOutOfRoomForInserts) {
  YcsbScale scale = small();
  scale.records = 10;
  scale.workloads = "D";
  scale.measured = from_ns(4'000'000);
  try {
    static_cast<void>(ycsb_hash_table({}, scale));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("room for no more: measure for a shorter time"));
  }
}

TEST(Ycsb, RefusesAScaleOfNothing) {
  YcsbScale scale = small();
  scale.records = 0;
  EXPECT_THROW(static_cast<void>(ycsb_btree({}, scale)), std::invalid_argument);
  scale = small();
  scale.workers = 0;
  EXPECT_THROW(static_cast<void>(ycsb_hash_table({}, scale)), std::invalid_argument);
  scale = small();
  scale.memory_nodes = 0;
  EXPECT_THROW(static_cast<void>(ycsb_hash_table({}, scale)), std::invalid_argument);
  scale = small();
  scale.workloads = "AX";
  EXPECT_THROW(static_cast<void>(ycsb_hash_table({}, scale)), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::bench
