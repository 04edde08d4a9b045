// A short run of the fuzz target without libFuzzer: the corpus, and mutations of it that depend only on a seed.
#include "tests/fuzz/roce_neighbours_fuzz.h"

#include "tests/fuzz/corpus.h"

#include <gtest/gtest.h>

#include <random>

namespace sidelatch::roce {
namespace {

TEST(FuzzRoceNeighbours, TheCorpusAsksAndAnswers) {
  NeighboursReached all;
  for (const auto& input : read_corpus("roce/neighbour_corpus")) {
    const NeighboursReached reached = check_neighbours(input);
    all.answered += reached.answered;
    all.learnt += reached.learnt;
  }
  EXPECT_GE(all.answered, 3U);  // ARP, a solicitation, and one without an address
  EXPECT_GE(all.learnt, 4U);    // by each question and each answer
}

TEST(FuzzRoceNeighbours, MutationsOfTheCorpusHoldToo) {
  constexpr int kRuns = 100'000;
  const auto corpus = read_corpus("roce/neighbour_corpus");
  ASSERT_FALSE(corpus.empty());
  std::mt19937_64 random(826);
  NeighboursReached all;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<std::byte> input = corpus[random() % corpus.size()];
    for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
      const auto at = input.begin() + static_cast<std::ptrdiff_t>(random() % input.size());
      switch (random() % 4) {
        case 0:
          *at = static_cast<std::byte>(random());
          break;
        case 1:
          input.insert(at, static_cast<std::byte>(random()));
          break;
        case 2:
          if (input.size() > 1) {
            input.erase(at);
          }
          break;
        default:
          *at ^= std::byte{static_cast<unsigned char>(1U << random() % 8)};
      }
    }
    const NeighboursReached reached = check_neighbours(input);
    all.answered += reached.answered;
    all.learnt += reached.learnt;
  }
  EXPECT_GT(all.answered, static_cast<std::uint64_t>(kRuns) / 20);
  EXPECT_GT(all.learnt, static_cast<std::uint64_t>(kRuns) / 20);
}

}  // namespace
}  // namespace sidelatch::roce
