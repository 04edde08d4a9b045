// The litmus tests of tests/litmus: what each file must have, and that no change of one does harm.
#include "checker/explore/litmus/litmus.h"
#include "tests/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;

struct File {
  std::filesystem::path path;
  std::string text;
};

std::vector<File> corpus() {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree("tests/litmus"))) {
    std::ifstream stream(entry.path(), std::ios::binary);
    files.push_back({entry.path(), {std::istreambuf_iterator<char>(stream), {}}});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

TEST(LitmusCorpus, EachFileIsATestOfItsNameWithAReasonAndAnAnswerForEachModel) {
  const std::vector<File> files = corpus();
  EXPECT_GE(files.size(), 48U);
  for (const File& file : files) {
    SCOPED_TRACE(file.path.string());
    EXPECT_EQ(file.path.extension(), ".litmus");
    EXPECT_TRUE(file.text.starts_with("# "));
    const LitmusTest test = parse_litmus(file.text, file.path.string());
    EXPECT_EQ(test.name, file.path.stem().string());
    for (const Preset model : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
      EXPECT_TRUE(test.expected(model).has_value()) << name(model);
    }
  }
}

// From strict to relaxed, each preset only adds behaviours. A parameter may take some away again, so tests that set one
// are skipped.
TEST(LitmusCorpus, NoWeakerModelForbidsWhatAStrongerOneAllows) {
  for (const File& file : corpus()) {
    const LitmusTest test = parse_litmus(file.text, file.path.string());
    if (!test.params.empty()) {
      continue;
    }
    bool allowed = false;
    for (const Preset model : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
      EXPECT_TRUE(!allowed || *test.expected(model)) << file.path << " " << name(model);
      allowed = allowed || *test.expected(model);
    }
  }
}

// ---- Changed files: each is a test or has an error with a place in it. Seeded, so that failures are reproducible.

// Runs of letters and digits, runs of blanks, and single other characters.
std::vector<std::string> tokens_of(const std::string& text) {
  const auto sort_of = [](char c) {
    const bool in_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    return in_word ? 1 : c == ' ' || c == '\n' ? 2 : 0;
  };
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool goes_on = i != 0 && sort_of(text[i]) != 0 && sort_of(text[i]) == sort_of(text[i - 1]);
    if (goes_on) {
      tokens.back() += text[i];
    } else {
      tokens.emplace_back(1, text[i]);
    }
  }
  return tokens;
}

std::string joined(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) {
    text += token;
  }
  return text;
}

class Mutations {
 public:
  std::string of_tokens(const std::vector<std::string>& tokens) {
    static const std::array<std::string, 40> kOthers = {
        "{",      "}",    "(",    ")",     "[",    "]",    ":",  ";",   ",",     ".",
        "@",      "=",    "==",   ":=",    "!",    "&&",   "||", "\n",  "-1",    "0",
        "99999",  "-",    "#",    "if",    "else", "wait", "P0", "C0",  "qp0",   "nic1",
        "exists", "node", "line", "param", "buf",  "D",    "r0", "all", "fence", "99999999999999999999"};
    std::vector<std::string> changed = tokens;
    for (std::size_t times = 1 + below(3); times != 0 && !changed.empty(); --times) {
      const auto at = changed.begin() + static_cast<std::ptrdiff_t>(below(changed.size()));
      switch (below(4)) {
        case 0:
          changed.erase(at);
          break;
        case 1:
          changed.insert(at, changed[below(changed.size())]);
          break;
        case 2:
          *at = changed[below(changed.size())];
          break;
        default:
          *at = kOthers[below(kOthers.size())];
          break;
      }
    }
    return joined(changed);
  }

  std::string of_bytes(std::string text) {
    for (std::size_t times = 1 + below(3); times != 0 && !text.empty(); --times) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, 1 + below(8));
          break;
        case 1:
          text.insert(at, text.substr(below(text.size()), 1 + below(8)));
          break;
        case 2:
          text[at] = static_cast<char>(below(256));
          break;
        default:
          text.resize(at);  // cut off
          break;
      }
    }
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  std::mt19937_64 random_{20240229};
};

// Takes a number and the text behind it from the front of `rest`; 0 if there is none.
std::size_t take_number(std::string& rest, const std::string& behind) {
  const std::size_t end = rest.find(behind);
  if (end == 0 || end == std::string::npos || rest.find_first_not_of("0123456789") != end) {
    return 0;
  }
  const std::size_t number = std::stoul(rest);
  rest.erase(0, end + behind.size());
  return number;
}

// Whether the text is a test.
bool is_test_or_has_a_place(const std::string& text) {
  try {
    static_cast<void>(parse_litmus(text, "f.litmus"));
    return true;
  } catch (const LitmusError& error) {
    std::string rest = error.what();
    EXPECT_TRUE(rest.starts_with("f.litmus:")) << rest;
    rest.erase(0, 9);
    const std::size_t line = take_number(rest, ":");
    const std::size_t column = take_number(rest, ": error: ");
    // The place is in the text, or right behind it.
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    EXPECT_TRUE(line >= 1 && line <= lines) << error.what() << "\n" << text;
    EXPECT_TRUE(column >= 1 && column <= text.size() + 1) << error.what() << "\n" << text;
    EXPECT_FALSE(rest.empty()) << error.what();
    return false;
  }
}

TEST(LitmusCorpus, AChangedFileIsATestOrAnErrorWithAPlace) {
  Mutations mutations;
  int tests = 0;
  int errors = 0;
  for (const File& file : corpus()) {
    const std::vector<std::string> tokens = tokens_of(file.text);
    for (int i = 0; i < 100; ++i) {
      ++(is_test_or_has_a_place(mutations.of_tokens(tokens)) ? tests : errors);
      ++(is_test_or_has_a_place(mutations.of_bytes(file.text)) ? tests : errors);
    }
    if (HasFailure()) {
      return;
    }
  }
  // Both happen, so the changes are neither too tame nor too wild.
  EXPECT_GT(tests, 100);
  EXPECT_GT(errors, 100);
}

TEST(LitmusCorpus, AFileCutOffAnywhereIsATestOrAnErrorWithAPlace) {
  for (const File& file : corpus()) {
    for (std::size_t length = 0; length < file.text.size(); length += 3) {
      is_test_or_has_a_place(file.text.substr(0, length));
    }
  }
}

}  // namespace
}  // namespace sidelatch::explore
