// Every program of tests/p4/corpus with its packets. What is expected was reasoned from the P4_16 specification.
#include "stained_program.h"
#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/stf.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace sidelatch::p4 {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const std::string& folder, const std::string& extension) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree(folder))) {
    if (entry.path().extension() == extension) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string identifier(const testing::TestParamInfo<std::string>& info) {
  return std::regex_replace(info.param, std::regex("[^A-Za-z0-9]"), "_");
}

class Corpus : public testing::TestWithParam<std::string> {};

TEST_P(Corpus, PacketsLeaveAsExpected) {
  const std::filesystem::path folder = in_source_tree("tests/p4/corpus");
  const auto program = compile_file(folder / (GetParam() + ".p4"));
  const std::filesystem::path test = folder / (GetParam() + ".stf");
  const StfResult result = run_stf(program, text_of(test), test.filename().string());
  EXPECT_GT(result.sent, 0U);
  EXPECT_GT(result.expected, 0U);
  for (const std::string& failure : result.failures) {
    ADD_FAILURE() << failure;
  }
}

// Frames are used again: what another packet has left in one is not seen.
TEST_P(Corpus, PacketsDoNotDependOnThoseBefore) {
  const std::filesystem::path folder = in_source_tree("tests/p4/corpus");
  const auto program = std::make_shared<StainedProgram>(compile_file(folder / (GetParam() + ".p4")));
  const StfResult result = run_stf(program, text_of(folder / (GetParam() + ".stf")), GetParam());
  EXPECT_GT(result.expected, 0U);
  for (const std::string& failure : result.failures) {
    ADD_FAILURE() << failure;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Corpus, testing::ValuesIn(names_in("tests/p4/corpus", ".stf")), identifier);

}  // namespace
}  // namespace sidelatch::p4
