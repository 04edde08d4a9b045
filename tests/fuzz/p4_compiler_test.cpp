// A short run of the fuzz target without libFuzzer: the programs of tests/p4/corpus, and mutations of them that depend
// only on a seed.
#include "tests/fuzz/p4_compiler_fuzz.h"
#include "tests/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {

// Without the file that most of the programs include, which a text alone cannot name.
std::vector<std::string> programs() {
  const std::filesystem::path folder = in_source_tree("tests/p4/corpus");
  const auto read = [](const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const std::string pipeline = read(folder / "pipeline.p4");
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".p4" && entry.path().filename() != "pipeline.p4") {
      std::string text = read(entry.path());
      const std::string include = "#include \"pipeline.p4\"";
      if (const std::size_t at = text.find(include); at != std::string::npos) {
        text.replace(at, include.size(), pipeline);
      }
      texts.push_back(std::move(text));
    }
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

TEST(FuzzP4, TheCorpusIsAccepted) {
  for (const std::string& text : programs()) {
    EXPECT_TRUE(check_compiler(text)) << text;
  }
}

TEST(FuzzP4, MutationsOfTheCorpusHoldToo) {
  const std::vector<std::string> corpus = programs();
  std::mt19937 random(1);
  int accepted = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    std::string text = corpus[random() % corpus.size()];
    const std::string& other = corpus[random() % corpus.size()];
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(at, random() % 8);
          break;
        case 1:
          text[at] = "(){};<>=+-&|.,0x19az"[random() % 20];
          break;
        case 2:
          text.insert(at, other.substr(random() % other.size(), random() % 40));
          break;
        default:
          text.insert(at, text.substr(at, random() % 20));
      }
    }
    accepted += check_compiler(text) ? 1 : 0;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kRuns);
}

}  // namespace
}  // namespace sidelatch::p4
