// A file's name need not be UTF-8, and JSON must be: the result survives such a name.
#include "tests/tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A name in Latin-1, and what JSON says of it.
constexpr const char* kLatin = "caf\xE9";
constexpr const char* kSaid = "caf\xEF\xBF\xBD";

class OddFileName : public ::testing::Test {
 protected:
  OddFileName() : folder_(scratch("odd_names") + "/") { std::filesystem::create_directory(folder_); }
  ~OddFileName() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string in(const std::string& file) const { return folder_ + file; }

 private:
  std::string folder_;
};

TEST_F(OddFileName, OfAnEarlierDatasheetLosesNoMeasurement) {
  const std::string check = "check --fabric sim --parts lock-table --out ";
  ASSERT_EQ(run(check + in("first")).status, 0);
  std::filesystem::rename(in("first/check.json"), in(kLatin));
  const Outcome outcome = run(check + in("second") + " --json --against " + in(kLatin));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(slurp(in("second/check.json")), outcome.out);
  EXPECT_THAT(nlohmann::json::parse(outcome.out)["against"]["file"].get<std::string>(), HasSubstr(kSaid));
}

TEST_F(OddFileName, OfAProfileLosesNoExperiment) {
  std::ofstream(in(kLatin)) << "[lock_table]\nservice_ns = 800\n";
  const Outcome outcome = run("bench atomics-stride --json --out " + in("results") + " --profile " + in(kLatin));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(nlohmann::json::parse(outcome.out)["profile"].get<std::string>(), HasSubstr(kSaid));
  EXPECT_EQ(slurp(in("results/atomics-stride.json")), outcome.out);
}

TEST_F(OddFileName, OfASwitchProgramLosesNoStatistics) {
  std::filesystem::copy_file(in_source_tree("p4/l2_l3.p4"), in(kLatin));
  // A capture without packets: the switch has nothing to do.
  const std::string header("\xD4\xC3\xB2\xA1\x02\0\x04\0\0\0\0\0\0\0\0\0\xFF\xFF\0\0\x01\0\0\0", 24);
  std::ofstream(in("none.pcap"), std::ios::binary) << header;
  const Outcome outcome = run("switch --json --port 1=pcap:" + in("none.pcap") + " " + in(kLatin));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(nlohmann::json::parse(outcome.out)["program"].get<std::string>(), HasSubstr(kSaid));
}

}  // namespace
}  // namespace sidelatch::tools
