// The check runs its jobs on all cores.
#include "tests/sampled.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/checker/datasheet.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <tbb/global_control.h>

#include <algorithm>

namespace sidelatch::checker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kEnoughToTear = 20000;

CheckOptions small(std::uint64_t reads = 2000) {
  CheckOptions options;
  options.fabric = "sim";
  options.sizes = {64, 128, 512};
  options.reads = reads;
  options.seconds = 3600;
  options.parts = {"torn-reads", "schemes", "effects", "lock-table"};
  return options;
}

nlohmann::ordered_json without_time(const CheckReport& report) {
  nlohmann::ordered_json json = to_json(report);
  json.erase("seconds");
  return json;
}

TEST(Check, FindsTheBookendSchemeUnsafeAndNothingAgainstTheOthers) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut
                 << "; the threads are those of TheResultDoesNotDependOnTheNumberOfThreads and CheckThreaded";
  }
  CheckOptions options = small(kEnoughToTear);
  options.parts.emplace_back("proofs");
  const CheckReport report = run_check(options);
  EXPECT_TRUE(report.complete);
  EXPECT_TRUE(report.as_expected());
  ASSERT_GE(report.schemes.size(), 5U);
  EXPECT_EQ(report.schemes[0].scheme, "broken/bookend");
  EXPECT_EQ(report.schemes[0].verdict, Verdict::unsafe);
  EXPECT_THAT(report.schemes[0].evidence, HasSubstr("torn: "));
  for (const SchemeReport& scheme : report.schemes) {
    if (!scheme.known_broken) {
      EXPECT_EQ(scheme.verdict, Verdict::safe) << scheme.scheme << ": " << scheme.evidence;
      EXPECT_THAT(scheme.evidence, HasSubstr("no tear in 60000 chances; right in all "));
      EXPECT_THAT(scheme.assuming, Contains(HasSubstr("order/write-read: 0 of 20000 chances, at most 0.015 %")));
    } else {
      EXPECT_NE(scheme.verdict, Verdict::safe) << scheme.scheme;
    }
  }
}

TEST(Check, WithoutProofsNothingIsSafe) {
  const CheckReport report = run_check(small());
  for (const SchemeReport& scheme : report.schemes) {
    EXPECT_NE(scheme.verdict, Verdict::safe) << scheme.scheme;
  }
}

TEST(Check, DoesTheWantedPartsAndNoOther) {
  CheckOptions options = small(500);
  options.parts = {"latches", "rates"};
  const CheckReport report = run_check(options);
  EXPECT_TRUE(report.complete);
  EXPECT_TRUE(report.torn_reads.empty());
  EXPECT_TRUE(report.observations.empty());
  EXPECT_FALSE(report.lock_table);
  EXPECT_EQ(report.series.size(), kCurves.size());
  ASSERT_FALSE(report.schemes.empty());
  for (const SchemeReport& latch : report.schemes) {
    EXPECT_THAT(latch.scheme, HasSubstr("latch-"));
    EXPECT_EQ(latch.evidence, "nothing lost in 500 updates");
  }
}

// Guarantees broken by memory with relaxed ordering are refuted, and schemes that need them are not called safe.
TEST(Check, RelaxedOrderingIsProbedAndLeavesWriteUnlatchUnproved) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut
                 << "; the threads are those of TheResultDoesNotDependOnTheNumberOfThreads and CheckThreaded";
  }
  CheckOptions options = small(kEnoughToTear);
  options.parts = {"torn-reads", "schemes", "effects", "proofs"};
  options.relaxed_ordering = true;
  const CheckReport report = run_check(options);
  const auto in_order = std::ranges::find(report.guarantees, "order/write-write", &GuaranteeReport::probe);
  ASSERT_NE(in_order, report.guarantees.end());
  EXPECT_EQ(in_order->standing, Standing::refuted);
  for (const SchemeReport& scheme : report.schemes) {
    if (scheme.scheme == "optimistic/farm") {
      EXPECT_EQ(scheme.verdict, Verdict::safe) << scheme.evidence;
    }
    if (scheme.scheme == "optimistic/farm+write-unlatch") {
      EXPECT_NE(scheme.verdict, Verdict::safe) << scheme.evidence;
    }
  }
}

TEST(Check, TheResultDoesNotDependOnTheNumberOfThreads) {
  nlohmann::ordered_json with_one;
  {
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    with_one = without_time(run_check(small()));
  }
  const tbb::global_control four(tbb::global_control::max_allowed_parallelism, 4);
  EXPECT_EQ(with_one, without_time(run_check(small())));
}

TEST(Check, ASafeSchemeThatToreIsNotAsExpected) {
  CheckReport report = run_check(small());
  const auto safe = std::ranges::find(report.schemes, "optimistic/farm", &SchemeReport::scheme);
  ASSERT_NE(safe, report.schemes.end());
  safe->verdict = Verdict::unsafe;
  EXPECT_FALSE(report.as_expected());
}

TEST(Check, TheTimeLimitKeepsWhatWasMeasured) {
  CheckOptions options = small();
  options.reads = 1'000'000'000;
  options.seconds = 0.3;
  const CheckReport report = run_check(options);
  EXPECT_FALSE(report.complete);
  EXPECT_FALSE(report.torn_reads.empty());
  EXPECT_THAT(to_table(report, Colour::off), HasSubstr("Cut short"));
}

TEST(Check, AnInterruptEndsItAtOnce) {
  const std::atomic<bool> interrupted{true};
  CheckOptions options = small();
  options.interrupted = &interrupted;
  EXPECT_FALSE(run_check(options).complete);
}

TEST(Check, JsonCarriesTheContract) {
  CheckReport report = run_check(small());
  report.schemes.at(0).verdict = Verdict::unsafe;
  const nlohmann::ordered_json json = to_json(report);
  EXPECT_EQ(json["fabric"], "sim");
  EXPECT_EQ(json["device"], "sim:connectx5");
  EXPECT_EQ(json["schema"]["name"], "sidelatch-datasheet");
  EXPECT_EQ(json["schema"]["version"], kDatasheetVersion);
  std::vector<std::string> names;
  for (const auto& probe : json["probes"]) {
    names.push_back(probe["name"]);
    if (probe["name"] == "torn-read") {
      EXPECT_EQ(probe["reads"].get<int>(),
                probe["consistent"].get<int>() + probe["detected"].get<int>() + probe["undetected"].get<int>());
    } else {
      if (probe.contains("skipped")) {
        continue;
      }
      EXPECT_GT(probe["chances"], 0) << names.back();
      EXPECT_EQ(probe["bound95"].is_null(), probe["seen"] > 0) << names.back();
    }
  }
  EXPECT_THAT(names, ElementsAre("torn-read", "torn-read", "torn-read", "order/read-read", "order/read-write",
                                 "order/write-read", "order/write-atomic", "order/atomic-read", "order/atomic-atomic",
                                 "order/fenced-read-write", "order/fenced-atomic-write", "order/fenced-atomic-atomic",
                                 "visibility/read-after-completion", "visibility/atomic-after-completion",
                                 "order/write-write", "lines/within-write", "visibility/after-completion",
                                 "unlatch/write-against-fetch-add", "unlatch/write-against-cas", "atomics/nic",
                                 "atomics/cpu", "torn-read/offset", "torn-read/in-cache", "atomics/two-ports"));
  EXPECT_EQ(json["lock_table"]["address_bits"], 12);
  EXPECT_EQ(json["lock_table"]["slots"], 512);
  EXPECT_EQ(json["schemes"][0]["verdict"], "unsafe");
}

TEST(Check, SaysWhatItIsWorthNotToHaveSeenSomething) {
  CheckReport report;
  report.fabric = "sim";
  report.observations = {{.name = "order/write-read", .chances = 20'000},
                         {.name = "order/read-read", .chances = 500, .seen = 7},
                         {.name = "order/x", .chances = 9, .sensitive = false},
                         {.name = "visibility", .skipped = "the memory is on another machine"}};
  const std::string table = to_table(report, Colour::off);
  EXPECT_THAT(table, HasSubstr("order/write-read      20000          0  at most 0.015 %"));
  EXPECT_THAT(table, HasSubstr("order/read-read         500          7\n"));
  EXPECT_THAT(table, HasSubstr("order/x                   9          0  nothing: it would not have been seen"));
  EXPECT_THAT(table, HasSubstr("visibility        skipped: the memory is on another machine"));
  const nlohmann::ordered_json json = to_json(report);
  EXPECT_NEAR(json["probes"][0]["bound95"].get<double>(), 1.498e-4, 1e-6);
  EXPECT_TRUE(json["probes"][1]["bound95"].is_null());
  EXPECT_TRUE(json["probes"][2]["bound95"].is_null());
  EXPECT_EQ(json["probes"][3]["skipped"], "the memory is on another machine");
}

TEST(Check, APartThatWasLeftOutHasNoTable) {
  CheckReport report;
  report.fabric = "sim";
  report.series = {{.name = "rate/READ"}};
  const std::string rates_alone = to_table(report, Colour::off);
  EXPECT_THAT(rates_alone, HasSubstr("Rates and latencies"));
  EXPECT_THAT(rates_alone, Not(HasSubstr("Torn reads")));
  EXPECT_THAT(rates_alone, Not(HasSubstr("Schemes")));
  report.torn_reads = {{.block_bytes = 64}};
  report.schemes.emplace_back().scheme = "optimistic/farm";
  const std::string all = to_table(report, Colour::off);
  EXPECT_THAT(all, HasSubstr("Torn reads: one WRITE per block, one READ per look\n   block "));
  EXPECT_THAT(all, HasSubstr("Schemes\n  optimistic/farm"));
}

TEST(Check, BadOptionsAreNamed) {
  const auto message = [](auto change) -> std::string {
    CheckOptions options = small();
    change(options);
    try {
      (void)run_check(options);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([](CheckOptions& o) { o.fabric = "tcp"; }), HasSubstr("--fabric tcp: it must be auto, verbs"));
  EXPECT_THAT(message([](CheckOptions& o) { o.seconds = -1; }), HasSubstr("--seconds -1"));
  EXPECT_THAT(message([](CheckOptions& o) { o.parts = {"speed"}; }), HasSubstr("--parts speed: the parts are torn"));
  EXPECT_THAT(message([](CheckOptions& o) { o.sizes = {}; }), HasSubstr("--sizes"));
  EXPECT_THAT(message([](CheckOptions& o) { o.sizes = {100}; }), HasSubstr("block size 100"));
  EXPECT_THAT(message([](CheckOptions& o) { o.profile = "none"; }), HasSubstr("unknown profile none"));
  EXPECT_THAT(message([](CheckOptions& o) { o.fabric = "softnic"; }), HasSubstr("softnic run"));
}

}  // namespace
}  // namespace sidelatch::checker
