#include <sidelatch/checker/datasheet.h>

#include <sidelatch/checker/check.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace sidelatch::checker {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

ordered_json datasheet() {
  CheckReport report;
  report.fabric = "sim";
  report.lock_table = LockTable{.contended_mops = 2.4, .uncontended_mops = 50};
  report.series = {{.name = "rate/READ", .x = "size", .unit = "Mops/s", .points = {{8, 50}, {64, 40}}},
                   {.name = "latency/READ", .x = "size", .unit = "us", .points = {{8, 2}}}};
  report.schemes.resize(2);
  report.schemes[0].scheme = "optimistic/farm";
  report.schemes[0].verdict = Verdict::safe;
  report.schemes[1].scheme = "optimistic/crc64";
  return to_json(report);
}

std::vector<std::string> worse(const ordered_json& old, const ordered_json& now, double tolerance = 0.1) {
  std::vector<std::string> texts;
  for (const Change& change : changes_for_the_worse(old, now, tolerance)) {
    texts.push_back(change.text);
  }
  return texts;
}

TEST(Datasheet, IsReadBack) { EXPECT_EQ(parse_datasheet("a.json", datasheet().dump(2)), datasheet()); }

TEST(Datasheet, ANumberThatNoDoubleHoldsIsAnErrorThatNamesTheFile) {
  try {
    (void)parse_datasheet("a.json", R"({"schema": 1e999})");
    FAIL() << "read";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a.json"));
  }
}

TEST(Datasheet, TheSameIsNotWorse) { EXPECT_THAT(worse(datasheet(), datasheet(), 0), IsEmpty()); }

TEST(Datasheet, AChangedVerdictIsNamedInEitherDirection) {
  ordered_json now = datasheet();
  now["schemes"][0]["verdict"] = "not exercised";
  EXPECT_THAT(worse(datasheet(), now), ElementsAre("optimistic/farm: not exercised, was safe"));
  EXPECT_THAT(worse(now, datasheet()), ElementsAre("optimistic/farm: safe, was not exercised"));
}

TEST(Datasheet, ARateThatFellByMoreThanTheToleranceIsWorse) {
  ordered_json now = datasheet();
  now["series"][0]["points"][1]["y"] = 35.9;
  now["lock_table"]["contended_mops"] = 2.2;
  EXPECT_THAT(worse(datasheet(), now), ElementsAre("rate/READ, size 64: 35.9 Mops/s, was 40"));
  EXPECT_THAT(worse(datasheet(), now, 0.05),
              ElementsAre("lock table, one slot: 2.2 Mops/s, was 2.4", "rate/READ, size 64: 35.9 Mops/s, was 40"));
  EXPECT_THAT(worse(now, datasheet()), IsEmpty());
}

TEST(Datasheet, ALatencyThatRoseIsWorse) {
  ordered_json now = datasheet();
  now["series"][1]["points"][0]["y"] = 2.3;
  EXPECT_THAT(worse(datasheet(), now), ElementsAre("latency/READ, size 8: 2.3 us, was 2"));
  EXPECT_THAT(worse(now, datasheet()), IsEmpty());
}

TEST(Datasheet, WhatOnlyOneHasIsNotCompared) {
  ordered_json now = datasheet();
  now["lock_table"] = nullptr;
  now["series"] = ordered_json::array();
  now["schemes"] = ordered_json::array();
  EXPECT_THAT(worse(datasheet(), now), IsEmpty());
  EXPECT_THAT(worse(now, datasheet()), IsEmpty());
}

TEST(Datasheet, CountsWhatIsCompared) {
  ordered_json now = datasheet();
  ValuesInCommon all = values_in_common(datasheet(), now);
  EXPECT_EQ(all.verdicts, 2U);
  EXPECT_EQ(all.rates, 5U);
  now["schemes"][1]["scheme"] = "optimistic/other";
  now["series"][0]["points"][0]["x"] = 16;
  now["series"][0]["points"][1]["y"] = nullptr;
  ValuesInCommon some = values_in_common(datasheet(), now);
  EXPECT_EQ(some.verdicts, 1U);
  EXPECT_EQ(some.rates, 3U);
  now.erase("schemes");
  EXPECT_THAT([&now] { (void)values_in_common(datasheet(), now); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the new datasheet")));
}

TEST(Datasheet, KnowsWhichPartsOfACheckCouldBeComparedWithIt) {
  const auto has = [](const ordered_json& one, std::vector<std::string> parts) { return has_values_of(one, parts); };
  ordered_json one = datasheet();
  one["schemes"][1]["scheme"] = "broken/bookend";
  EXPECT_FALSE(has(one, {}));
  EXPECT_FALSE(has(one, {"effects", "proofs", "latches"}));
  EXPECT_TRUE(has(one, {"effects", "lock-table"}));
  EXPECT_TRUE(has(one, {"torn-reads"}));
  EXPECT_TRUE(has(one, {"schemes"}));
  EXPECT_TRUE(has(one, {"rates"}));
  one["lock_table"] = nullptr;
  one["schemes"][0]["scheme"] = "latch-exclusive/basic";
  one["schemes"].erase(1);
  EXPECT_FALSE(has(one, {"lock-table", "schemes", "torn-reads"}));
  EXPECT_TRUE(has(one, {"latches"}));
  one["series"] = ordered_json::array();
  EXPECT_FALSE(has(one, {"rates"}));
}

TEST(Datasheet, WhatCannotBeComparedIsNamed) {
  ordered_json old = datasheet();
  old["schemes"][0]["verdict"] = 1;
  const auto message = [](const ordered_json& one, double tolerance) -> std::string {
    try {
      (void)changes_for_the_worse(one, datasheet(), tolerance);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(old, 0.1), HasSubstr("the old datasheet cannot be compared"));
  old.erase("schemes");
  EXPECT_THAT(message(old, 0.1), HasSubstr("'schemes' not found"));
  EXPECT_THAT([&old] { (void)changes_for_the_worse(old, old, 0.1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the old datasheet")));
  EXPECT_THAT(message(datasheet(), 2), HasSubstr("a tolerance of 2: it must be 0 to 1"));
  EXPECT_THAT(message(datasheet(), -0.1), HasSubstr("a tolerance of -0.1"));
}

}  // namespace
}  // namespace sidelatch::checker
