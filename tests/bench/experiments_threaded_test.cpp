#include "tests/paths.h"
#include "tests/sampled.h"

#include <sidelatch/bench/experiment.h>
#include <sidelatch/version.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// These targets are missed; docs/figures.md explains why.
const std::set<std::string> kKnownMisses = {"N10.equal", "N16", "N21.latency", "N23.safe", "Z1", "Z2", "Z3.small"};

// The rows in the last column of an experiment's line in the manual, as "N4 to N8" or "N1, N2".
std::set<std::string> rows_in_the_manual(std::string_view experiment) {
  std::ifstream manual(in_source_tree("docs/cli.md"));
  std::set<std::string> rows;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("| `" + std::string(experiment) + "` |")) {
      std::istringstream words(line.substr(line.rfind('|', line.size() - 2) + 1));
      int last = 0;
      bool is_range = false;
      for (std::string word; words >> word && word != "|";) {
        if (word == "to") {
          is_range = true;
          continue;
        }
        const int number = std::stoi(word.substr(1));
        for (int n = is_range ? last + 1 : number; n <= number; ++n) {
          rows.insert(word.front() + std::to_string(n));
        }
        last = number;
        is_range = false;
      }
    }
  }
  return rows;
}

// With RoCE's headers, as the simulated switch sends them: Gbyte/s of items.
constexpr double kMostThatALinkCarries = 12.5 * 4096 / (4096 + 58);

TEST(Experiments, ReproduceTheirRowsWithTheConnectx5Profile) {
  std::set<std::string> rows;
  for (const Experiment& experiment : experiments()) {
    if (experiment.name.starts_with("kv-store") || experiment.name.starts_with("ycsb")) {
      continue;  // minutes; table_load_threaded_test.cpp and ycsb_threaded_test.cpp run them in small
    }
    // All sweep with the same threads, and take minutes under a sanitizer: two stand for all.
    if (is_sampled() && experiment.name != "atomics-stride" && experiment.name != "latch-scaling" &&
        experiment.name != "switch-latency") {
      continue;
    }
    std::set<std::string> own;
    const ExperimentResult result = experiment.run({});
    for (const Target& target : result.targets) {
      EXPECT_EQ(target.ok, !kKnownMisses.contains(target.id))
          << target.id << " measured " << target.measured << " " << target.seen;
      own.insert(target.id.substr(0, target.id.find('.')));
    }
    EXPECT_EQ(own, rows_in_the_manual(experiment.name)) << experiment.name;
    rows.merge(own);
    if (experiment.name.starts_with("flow-")) {
      for (const Series& series : result.series) {
        for (const Point& point : series.points) {
          EXPECT_TRUE(series.unit != "Gbyte/s" || point.y <= kMostThatALinkCarries)
              << experiment.name << ", " << series.panel << ", " << series.name << ": " << point.y;
        }
      }
    }
  }
  if (is_sampled()) {
    EXPECT_FALSE(rows.empty());
    return;
  }
  EXPECT_EQ(rows, (std::set<std::string>{"N1",  "N2",  "N3",  "N4",  "N5",  "N6",  "N7",  "N8",  "N9",
                                         "N10", "N13", "N14", "N15", "N16", "N18", "N19", "N20", "N21",
                                         "N22", "N23", "N24", "N25", "N27", "Z1",  "Z2",  "Z3",  "Z4",
                                         "Z5",  "Z6",  "Z7",  "Z8",  "Z9",  "Z10", "Z11", "Z12", "Z13"}));
}

// As published it takes half of the baseline, and corrupts tuples; the safe one is what advised practice shows.
TEST(Experiments, ShowTheSafeWriteAtTheSwitchBesideTheBrokenOne) {
  const auto write_of = [](const ExperimentResult& result) {
    return *std::ranges::find(result.targets, "N22.write", &Target::id);
  };
  const Experiment& experiment = find_experiment("switch-latency");
  const ExperimentResult paper = experiment.run({});
  const ExperimentResult advised = experiment.run({.practice = Practice::advised});
  EXPECT_TRUE(write_of(paper).ok) << write_of(paper).measured;
  EXPECT_THAT(write_of(paper).unit, HasSubstr("broken/"));
  EXPECT_FALSE(write_of(advised).ok) << write_of(advised).measured;
  EXPECT_THAT(write_of(advised).unit, HasSubstr("safe"));
  EXPECT_THAT(to_table(paper), HasSubstr("write, broken/switch-as-published"));
  for (const ExperimentResult& result : {paper, advised}) {
    const auto safe = std::ranges::find(result.targets, "N22.safe", &Target::id);
    ASSERT_NE(safe, result.targets.end());
    EXPECT_TRUE(safe->ok);
    EXPECT_THAT(safe->seen, HasSubstr("corrupts tuples"));
  }
}

TEST(Experiments, AFastChecksumTakesN14sReasonAway) {
  const std::string path = ::testing::TempDir() + "/fast.toml";
  std::ofstream(path) << "[cpu]\nchecksum_gbytes = 100\n";
  const ExperimentResult result = find_experiment("optimistic-size").run({.profile = path});
  const auto crc = std::ranges::find(result.targets, "N14.crc64", &Target::id);
  ASSERT_NE(crc, result.targets.end());
  EXPECT_FALSE(crc->ok);
  std::remove(path.c_str());
}

TEST(Experiments, LookupsFillTheLinkItselfAndNotTheirOwnHighestRate) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut;
  }
  const auto lookups = [](const ExperimentOptions& options) {
    return find_experiment("btree-lookups").run(options).targets;
  };
  for (const Target& target : lookups({})) {
    std::smatch both;
    ASSERT_TRUE(std::regex_search(target.seen, both, std::regex("([0-9.]+) Gbyte/s of ([0-9.]+)$"))) << target.seen;
    const double rate = std::stod(both[1]);
    const double link = std::stod(both[2]);
    EXPECT_LE(rate, link) << target.id;
    EXPECT_EQ(link, 12.41);  // 100 Gbit/s with 30 bytes of headers for each 4096
  }
  const std::string path = ::testing::TempDir() + "/slow.toml";
  std::ofstream(path) << "[nic]\nrespond_ns = 2000\n[link]\ngbps = 100\n";
  for (const Target& target : lookups({.profile = path})) {
    EXPECT_FALSE(target.ok) << target.id << " " << target.seen;
  }
  std::remove(path.c_str());
}

// With one worker as well as with 2048, where the rates alone decide it.
TEST(Experiments, TheSwitchTakesHalfOfANicsLatencyWhereTheNicIsSlow) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut;
  }
  const std::string path = ::testing::TempDir() + "/slow_atomics.toml";
  std::ofstream(path) << "[lock_table]\nload_ns = 2000\nservice_ns = 2000\n";
  for (const Target& target : find_experiment("switch-atomics").run({.profile = path}).targets) {
    EXPECT_TRUE(target.id != "N21.latency" || target.ok) << target.seen;
  }
  std::remove(path.c_str());
}

TEST(Experiments, ANicWithAnotherLockTableMissesTheTargetsThatDependOnIt) {
  const std::string path = ::testing::TempDir() + "/other.toml";
  std::ofstream(path) << "[lock_table]\naddress_bits = 16\nservice_ns = 800\n";
  const ExperimentResult result = find_experiment("atomics-stride").run({.profile = path});
  for (const Target& target : result.targets) {
    if (target.id == "N6" || target.id == "N8" || target.id == "N4") {
      EXPECT_FALSE(target.ok) << target.id;
    }
  }
  std::remove(path.c_str());
}

// Bits are counted: there is no nearly.
TEST(Experiments, ATableOfHalfOrTwiceTheSizeHasOtherBits) {
  const std::string path = ::testing::TempDir() + "/bits.toml";
  for (const int bits : {11, 13}) {
    std::ofstream(path) << "[lock_table]\naddress_bits = " << bits << "\n";
    const ExperimentResult result = find_experiment("atomics-stride").run({.profile = path});
    const auto target = std::ranges::find(result.targets, "N8", &Target::id);
    ASSERT_NE(target, result.targets.end());
    EXPECT_EQ(target->measured, bits);
    EXPECT_FALSE(target->ok);
  }
  std::remove(path.c_str());
}

TEST(Experiments, ANicOnWhichNothingIsDoneReproducesNothing) {
  const std::string path = ::testing::TempDir() + "/still.toml";
  std::ofstream(path) << "[nic]\nlatency_ns = 1e8\n";
  for (const char* const name : {"latch-scaling", "connectx7-stride"}) {
    for (const Target& target : find_experiment(name).run({.profile = path}).targets) {
      EXPECT_FALSE(target.ok) << target.id << " " << target.seen;
    }
  }
  // Its flows have items to move, and end although none moves. Z5 is what tables and registers need.
  for (const Target& target : find_experiment("flow-kinds").run({.profile = path}).targets) {
    EXPECT_EQ(target.ok, target.id.starts_with("Z5")) << target.id << " " << target.seen;
  }
  std::remove(path.c_str());
}

TEST(Experiments, EqualSeedsGiveEqualResults) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut << "; the threads are those of ReproduceTheirRowsWithTheConnectx5Profile";
  }
  const Experiment& experiment = find_experiment("atomics-stride");
  EXPECT_EQ(to_json(experiment.run({.seed = 5})), to_json(experiment.run({.seed = 5})));
  EXPECT_NE(to_json(experiment.run({.seed = 5})), to_json(experiment.run({.seed = 6})));
}

TEST(Experiments, ResultsCarryWhatTheyComeFromAndHowSureTheyAre) {
  const ExperimentResult result = find_experiment("latch-ablation").run({.seed = 9});
  const auto json = to_json(result);
  EXPECT_EQ(json["schema"]["name"], "sidelatch-experiment");
  EXPECT_EQ(json["schema"]["version"], 1);
  EXPECT_EQ(json["version"], "sidelatch " + std::string(kVersion));
  EXPECT_EQ(json["experiment"], "latch-ablation");
  EXPECT_EQ(json["figure"], "TODS 2025, figure 8");
  EXPECT_EQ(json["profile"], "connectx5");
  EXPECT_EQ(json["seed"], 9);
  EXPECT_EQ(json["x_scale"], "categories");
  EXPECT_EQ(json["x_names"].size(), 5U);
  ASSERT_EQ(json["series"].size(), 2U);
  for (const auto& series : json["series"]) {
    for (const auto& point : series["points"]) {
      ASSERT_TRUE(point["half_width"].is_number());
      EXPECT_GE(point["half_width"], 0);
      EXPECT_LT(point["half_width"], 0.1 * point["y"].get<double>());
    }
  }
  EXPECT_THAT(to_table(result), HasSubstr("write unlatch"));
  EXPECT_THAT(to_table(result), HasSubstr(" +- "));
}

TEST(Experiments, ShowTheirPanelsOneAfterTheOther) {
  ExperimentResult result;
  result.experiment = "some";
  result.x_label = "workers";
  result.series = {{.name = "a", .unit = "Mops/s", .points = {{1, 2, 0.5}, {2, 3, {}}}, .panel = "left"},
                   {.name = "b", .unit = "Mops/s", .points = {{2, 4, {}}}, .panel = "right"}};
  const std::string table = to_table(result);
  EXPECT_THAT(table,
              HasSubstr("left, Mops/s\n     workers         a\n           1  2 +- 0.5\n           2         3\n"));
  EXPECT_THAT(table, HasSubstr("right, Mops/s\n     workers  b\n           2  4\n"));
  EXPECT_THAT(table, Not(HasSubstr("expected")));  // there is no target
  EXPECT_TRUE(to_json(result)["series"][0]["points"][1]["half_width"].is_null());
}

TEST(Targets, AreOkWithinTenPercent) {
  EXPECT_TRUE(number_target("x", 100, 110, "").ok);
  EXPECT_TRUE(number_target("x", 100, 90, "").ok);
  EXPECT_FALSE(number_target("x", 100, 110.1, "").ok);
  EXPECT_FALSE(number_target("x", 100, 89.9, "").ok);
}

TEST(Targets, JsonCarriesTheContract) {
  const std::vector<Target> targets = {number_target("N3", 2, 3, "Mops/s"), shape_target("N2", true, "falls")};
  const auto json = to_json(targets);
  EXPECT_EQ(json[0]["id"], "N3");
  EXPECT_EQ(json[0]["kind"], "number");
  EXPECT_EQ(json[0]["ratio"], 1.5);
  EXPECT_EQ(json[0]["ok"], false);
  EXPECT_EQ(json[1]["kind"], "shape");
  EXPECT_TRUE(json[1]["expected"].is_null());
  EXPECT_TRUE(json[1]["ratio"].is_null());
  EXPECT_EQ(json[1]["measured"], "falls");
}

TEST(Experiments, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)find_experiment("atomics");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("atomics-contention, atomics-stride"));
  }
}

}  // namespace
}  // namespace sidelatch::bench
