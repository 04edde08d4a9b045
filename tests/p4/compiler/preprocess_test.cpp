// Directives of the preprocessor.
#include "p4/compiler/preprocess.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch::p4 {
namespace {
namespace directives {

class Preprocess : public testing::Test {
 protected:
  Preprocess() { std::filesystem::create_directories(folder_ / "sub"); }
  ~Preprocess() override { std::filesystem::remove_all(folder_); }
  Preprocess(const Preprocess&) = delete;
  Preprocess& operator=(const Preprocess&) = delete;

  void file(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // The tokens with a space between any two, or the error.
  std::string tokens_of(const std::string& text) {
    Sources sources;
    warnings_.clear();
    PreprocessOptions options;
    options.include_folders = {folder_ / "sub"};
    options.warnings = &warnings_;
    try {
      std::string result;
      for (const Token& token : preprocess(sources, sources.add((folder_ / "t.p4").string(), text), options)) {
        result += result.empty() || token.kind == TokenKind::end ? "" : " ";
        result += token.text;
      }
      return result;
    } catch (const Failure& failure) {
      return "error: " + failure.message;
    }
  }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / ("preprocess" + std::to_string(getpid()));
  std::vector<Warning> warnings_;
};

TEST_F(Preprocess, PragmaOnceIsAboutTheFileHoweverItIsNamed) {
  file("once.p4", "#pragma once\na\n");
  file("sub/again.p4", "#include \"../once.p4\"\nb\n");
  EXPECT_EQ(tokens_of("#include \"once.p4\"\n#include \"./sub/../once.p4\"\n#include <again.p4>\nc"), "a b c");
  file("sub/self.p4", "#pragma once\n#include \"self.p4\"\nd\n");
  EXPECT_EQ(tokens_of("#include <self.p4>\n#include <self.p4>\n"), "d");
  EXPECT_EQ(tokens_of("#pragma other once\n#pragma\n#include \"once.p4\"\n"), "a");
}

TEST_F(Preprocess, TheNameOfAnIncludedFileMayComeOfAMacro) {
  file("a.p4", "a __LINE__\n");
  file("sub/b.p4", "b\n");
  EXPECT_EQ(tokens_of("#define A \"a.p4\"\n#define B <b.p4>\n#include A\n#include B\n"), "a 1 b");
  EXPECT_EQ(tokens_of("#define S(x) #x\n#define F(x) S(x.p4)\n#include F(a)\n"), "a 1");
  EXPECT_EQ(tokens_of("#define A 1\n#include A\n"), "error: #include needs <file> or \"file\"");
  EXPECT_EQ(tokens_of("#include\n"), "error: #include needs <file> or \"file\"");
  EXPECT_EQ(tokens_of("#if 0\n#include NOTHING\n#endif\nc"), "c");
}

TEST_F(Preprocess, OfOneConditionOneBranchCounts) {
  EXPECT_EQ(tokens_of("#if 1\na\n#elif 1\nb\n#else\nc\n#endif"), "a");
  EXPECT_EQ(tokens_of("#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif"), "b");
  EXPECT_EQ(tokens_of("#ifdef X\na\n#elif 0\nb\n#else\nc\n#endif"), "c");
  // What cannot count is not evaluated.
  EXPECT_EQ(tokens_of("#if 1\na\n#elif 1 / 0\nb\n#endif"), "a");
  EXPECT_EQ(tokens_of("#if 0\n#if 1 / 0\n#elif ) (\n#else\na\n#endif\n#unknown\n#error no\n#else\nb\n#endif"), "b");
}

TEST_F(Preprocess, ConditionsAreClosed) {
  EXPECT_EQ(tokens_of("#if 1\n#else\n#else\n#endif"), "error: #else after the #else of the same condition");
  EXPECT_EQ(tokens_of("#if 0\n#else\n#elif 1\n#endif"), "error: #elif after the #else of the same condition");
  EXPECT_EQ(tokens_of("#else"), "error: #else without #if");
  EXPECT_EQ(tokens_of("#if 1\n"), "error: #endif is missing for this condition");
  file("ends.p4", "#endif\n");
  EXPECT_EQ(tokens_of("#if 1\n#include \"ends.p4\"\n"), "error: #endif without #if");
}

TEST_F(Preprocess, ErrorsAndWarningsAreSaidAsTheyAreWritten) {
  EXPECT_EQ(tokens_of("#error  it's \"wrong\",  x+1\n"), "error: #error it's \"wrong\", x+1");
  EXPECT_EQ(tokens_of("\n#warning old: \"x\"\na"), "a");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0].message, "#warning old: \"x\"");
  EXPECT_EQ(warnings_[0].at.line, 2U);
}

TEST_F(Preprocess, WhatMeansNothingHereIsLeftOut) {
  EXPECT_EQ(tokens_of("#\n#line 7\n# 12 \"other.p4\"\n#pragma pack\na __LINE__"), "a 5");
  EXPECT_EQ(tokens_of("# unknown\n"), "error: there is no directive #unknown");
}

TEST_F(Preprocess, AByteOrderMarkIsNoPartOfTheText) {
  file("mark.p4",
       "\xEF\xBB\xBF"
       "a\n");
  EXPECT_EQ(tokens_of("\xEF\xBB\xBF#include \"mark.p4\"\nb"), "a b");
}

}  // namespace directives
}  // namespace
}  // namespace sidelatch::p4
