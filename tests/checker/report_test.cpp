#include <sidelatch/checker/report.h>

#include <sidelatch/checker/check.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace sidelatch::checker {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

NamedDocument datasheet(const std::string& file, const std::string& device = "mlx5_0") {
  CheckReport report;
  report.fabric = "verbs";
  report.device = device;
  return {file, to_json(report).dump()};
}

NamedDocument experiment(const std::string& file, const std::string& name = "kv-store") {
  return {file, ordered_json{{"schema", 1}, {"experiment", name}, {"series", ordered_json::array()}}.dump()};
}

// The documents that the page's script will find.
ordered_json documents_in(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="documents">)";
  const std::size_t from = page.find(begin);
  EXPECT_NE(from, std::string::npos);
  const std::size_t to = page.find("</script>", from);
  return ordered_json::parse(page.substr(from + begin.size(), to - from - begin.size()));
}

std::string error_of(const std::string& json) {
  try {
    (void)report_page({{"good.json", datasheet("good.json").json}, {"bad.json", json}});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ReportPage, HoldsTheDatasheetsInTheirOrder) {
  const std::string page = report_page({datasheet("a.json", "mlx5_0"), datasheet("b.json", "mlx5_1")});
  const ordered_json all = documents_in(page);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["file"], "a.json");
  EXPECT_EQ(all[0]["datasheet"]["device"], "mlx5_0");
  EXPECT_EQ(all[1]["datasheet"]["device"], "mlx5_1");
  EXPECT_THAT(page, HasSubstr("</html>"));
}

TEST(ReportPage, WithoutDocumentsIsTheEmbeddedOne) {
  EXPECT_EQ(report_page({}), embedded_report_page());
  EXPECT_TRUE(documents_in(std::string(embedded_report_page())).empty());
}

TEST(ReportPage, HoldsExperimentsBesideDatasheets) {
  const ordered_json all = documents_in(
      report_page({experiment("kv.json"), datasheet("a.json"), experiment("latch.json", "latch-ablation")}));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["file"], "kv.json");
  EXPECT_EQ(all[0]["experiment"]["experiment"], "kv-store");
  EXPECT_FALSE(all[0].contains("datasheet"));
  EXPECT_EQ(all[1]["datasheet"]["device"], "mlx5_0");
  EXPECT_FALSE(all[1].contains("experiment"));
  EXPECT_EQ(all[2]["experiment"]["experiment"], "latch-ablation");
}

TEST(ReportPage, WhatAnExperimentMeasuredReachesThePageAsItIs) {
  // The page, not the checker, checks its fields and its version.
  const ordered_json written = {{"schema", 2}, {"experiment", "kv-store"}, {"series", "wrong"}, {"future", {1, 2}}};
  EXPECT_EQ(documents_in(report_page({{"a.json", written.dump()}}))[0]["experiment"], written);
}

TEST(ReportPage, KnowsAnExperimentByItsName) {
  EXPECT_TRUE(holds_experiment(experiment("a.json")));
  EXPECT_FALSE(holds_experiment(datasheet("a.json")));
  for (const char* json : {"[]", "1", "{}", R"({"experiment": 1})", R"([{"experiment": "kv-store"}])",
                           R"({"experiment": "kv-store", "schema": {"name": "another", "version": 1}})"}) {
    EXPECT_FALSE(holds_experiment({"a.json", json})) << json;
  }
  EXPECT_THROW((void)holds_experiment({"a.json", R"({"experiment": "kv-st)"}), std::invalid_argument);
}

TEST(ReportPage, NoTextCanEndItsScript) {
  const std::string nasty = "</script><script>alert(1)</script>";
  const std::string page = report_page({datasheet(nasty, nasty)});
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  const ordered_json all = documents_in(page);
  EXPECT_EQ(all[0]["file"], nasty);
  EXPECT_EQ(all[0]["datasheet"]["device"], nasty);

  const std::string other = report_page({experiment(nasty, nasty)});
  EXPECT_THAT(other, Not(HasSubstr("alert(1)</script>")));
  EXPECT_EQ(documents_in(other)[0]["experiment"]["experiment"], nasty);
}

TEST(ReportPage, WhatIsNeitherDatasheetNorExperimentIsNamed) {
  EXPECT_THAT(error_of("{\"schema\": {"), AllOf(HasSubstr("bad.json"), HasSubstr("cut off after")));
  EXPECT_THAT(error_of(R"({"experiment": "kv-store", "series": [{"na)"),
              AllOf(HasSubstr("bad.json"), HasSubstr("cut off after"), HasSubstr("bench NAME --out")));
  EXPECT_THAT(error_of(R"({"experiment": "kv-store", "seed": 1e999})"),
              AllOf(HasSubstr("bad.json"), HasSubstr("cannot be read"), HasSubstr("1e999")));
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("bad.json"), HasSubstr("no JSON")));
  for (const char* json : {"[]", "1", "{}", R"({"schema": 1})", R"({"schema": {"name": "other", "version": 1}})",
                           R"({"schema": 1, "experiment": null})", R"({"experiment": {"name": "kv-store"}})"}) {
    EXPECT_THAT(error_of(json), AllOf(HasSubstr("bad.json"), HasSubstr("no datasheet and no experiment"),
                                      HasSubstr("check --out"), HasSubstr("bench NAME --out")))
        << json;
  }
  for (const char* json : {R"({"schema": {"name": "sidelatch-datasheet"}})",
                           R"({"schema": {"name": "sidelatch-datasheet", "version": "1"}})"}) {
    EXPECT_THAT(error_of(json), AllOf(HasSubstr("bad.json"), HasSubstr("no datasheet"))) << json;
  }
  EXPECT_THAT(error_of(R"({"schema": {"name": "sidelatch-datasheet", "version": 2}})"),
              AllOf(HasSubstr("bad.json: a datasheet of version 2"), HasSubstr("newer")));
}

}  // namespace
}  // namespace sidelatch::checker
