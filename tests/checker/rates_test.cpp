#include <sidelatch/checker/rates.h>

#include "cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::checker {
namespace {

using namespace fabric;

Series probe(Curve curve, const sim::Profile& profile = sim::load_profile("connectx5")) {
  const Cluster cluster(model::rules_of(model::Preset::observed), profile);
  return probe_rate(cluster.storage, cluster.clients, curve, {});
}

double at(const Series& series, double x) {
  const auto point = std::ranges::find(series.points, x, &Point::x);
  EXPECT_NE(point, series.points.end()) << series.name << " at " << x;
  return point == series.points.end() ? 0 : point->y;
}

// The profile's rates for one slot, for 16 slots, and for all.
TEST(Rates, OfAtomicsFollowTheLockTable) {
  const sim::Profile profile = sim::load_profile("connectx5");
  const double slot = 1000 / (profile.lock_table.service_ns + profile.lock_table.recovery_ns);
  const Series by_stride = probe(Curve::atomics_by_stride);
  EXPECT_NEAR(at(by_stride, 4096), slot, slot / 10);
  EXPECT_NEAR(at(by_stride, 512), 8 * slot, 8 * slot / 10);
  EXPECT_NEAR(at(by_stride, 256), 16 * slot, 16 * slot / 10);
  EXPECT_NEAR(at(probe(Curve::atomics_contended), 128), slot, slot / 10);
  const double all = 1000 / profile.nic.responds_to_atomic_ns();
  EXPECT_NEAR(at(probe(Curve::atomics_uncontended), 128), all, all / 10);
}

TEST(Rates, ALargeReadTakesAsLongAsItsBytesOnTheLink) {
  const Series latency = probe(Curve::latency_read);
  // Bytes of 64 KiB and of 32 KiB at 100 Gbit/s, with 30 bytes of header per 4096.
  const double more = 32768 * 8 * (1 + 30.0 / 4096) / 100e3;
  EXPECT_NEAR(at(latency, 65536) - at(latency, 32768), more, more / 10);
  EXPECT_EQ(probe(Curve::latency_cas).points.size(), 1U);
}

TEST(Rates, TheQueuePairsThatFitIntoTheNicAreInferred) {
  for (const std::uint64_t entries : {48U, 116U}) {
    sim::Profile profile = sim::load_profile("connectx5");
    profile.qp_cache.requester_entries = entries;
    const auto knee = queue_pair_knee(probe(Curve::read_by_queue_pairs, profile));
    ASSERT_TRUE(knee);
    EXPECT_NEAR(static_cast<double>(*knee), static_cast<double>(entries), static_cast<double>(entries) / 10);
  }
  sim::Profile all_fit = sim::load_profile("connectx5");
  all_fit.qp_cache.requester_entries = 0;
  EXPECT_EQ(queue_pair_knee(probe(Curve::read_by_queue_pairs, all_fit)), std::nullopt);
}

TEST(Rates, TheKneeIsTheLastCountBeforeTheFall) {
  Series series;
  EXPECT_EQ(queue_pair_knee(series), std::nullopt);
  series.points = {{1, 5}, {2, 10}, {4, 9.5}, {8, 8}};
  EXPECT_EQ(queue_pair_knee(series), 4U);
  series.points.pop_back();
  EXPECT_EQ(queue_pair_knee(series), std::nullopt);
}

TEST(Rates, EndWhenTheyAreToldTo) {
  const Cluster cluster;
  std::uint32_t asked = 0;
  const Series series = probe_rate(cluster.storage, cluster.clients, Curve::rate_write,
                                   {.keep_going = [&asked] { return ++asked <= 2; }});
  EXPECT_EQ(series.points.size(), 2U);
  EXPECT_FALSE(series.complete);
}

TEST(Rates, EachCurveHasANameAndAxes) {
  for (const Curve curve : kCurves) {
    const Cluster cluster;
    const Series series = probe_rate(cluster.storage, cluster.clients, curve, {.keep_going = [] { return false; }});
    EXPECT_EQ(series.name, name(curve));
    EXPECT_FALSE(series.title.empty() || series.x.empty() || series.unit.empty()) << series.name;
  }
}

}  // namespace
}  // namespace sidelatch::checker
