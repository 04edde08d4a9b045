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

NamedDatasheet datasheet(const std::string& file, const std::string& device = "mlx5_0") {
  CheckReport report;
  report.fabric = "verbs";
  report.device = device;
  return {file, to_json(report).dump()};
}

// What the page's script will find.
ordered_json datasheets_in(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="datasheets">)";
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
  const ordered_json all = datasheets_in(page);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["file"], "a.json");
  EXPECT_EQ(all[0]["datasheet"]["device"], "mlx5_0");
  EXPECT_EQ(all[1]["datasheet"]["device"], "mlx5_1");
  EXPECT_THAT(page, HasSubstr("</html>"));
}

TEST(ReportPage, WithoutDatasheetsIsTheEmbeddedOne) {
  EXPECT_EQ(report_page({}), embedded_report_page());
  EXPECT_TRUE(datasheets_in(std::string(embedded_report_page())).empty());
}

TEST(ReportPage, NoTextCanEndItsScript) {
  const std::string nasty = "</script><script>alert(1)</script>";
  const std::string page = report_page({datasheet(nasty, nasty)});
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  const ordered_json all = datasheets_in(page);
  EXPECT_EQ(all[0]["file"], nasty);
  EXPECT_EQ(all[0]["datasheet"]["device"], nasty);
}

TEST(ReportPage, WhatIsNoDatasheetIsNamed) {
  EXPECT_THAT(error_of("{\"schema\": {"), AllOf(HasSubstr("bad.json"), HasSubstr("cut off after")));
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("bad.json"), HasSubstr("no JSON")));
  for (const char* json : {"[]", "1", "{}", R"({"schema": 1})", R"({"schema": {"name": "other", "version": 1}})",
                           R"({"schema": {"name": "sidelatch-datasheet"}})",
                           R"({"schema": {"name": "sidelatch-datasheet", "version": "1"}})"}) {
    EXPECT_THAT(error_of(json), AllOf(HasSubstr("bad.json"), HasSubstr("no datasheet"))) << json;
  }
  EXPECT_THAT(error_of(R"({"schema": {"name": "sidelatch-datasheet", "version": 2}})"),
              AllOf(HasSubstr("bad.json: a datasheet of version 2"), HasSubstr("newer")));
}

}  // namespace
}  // namespace sidelatch::checker
