// A short run of the fuzz target without libFuzzer: a whole connection, and mutations of it that depend only on a seed.
#include "tests/fuzz/rdma_cm_fuzz.h"

#include "tests/fuzz/corpus.h"

#include <gtest/gtest.h>

#include <random>

namespace sidelatch::softnic::cm {
namespace {

using CmInput = std::vector<std::byte>;

TEST(FuzzRdmaCm, TheCorpusConnectsAndDisconnects) {
  CmReached all;
  for (const CmInput& input : roce::read_corpus("rdma_cm/corpus")) {
    const CmReached reached = check_connections(input);
    all.requests += reached.requests;
    all.established += reached.established;
    all.ended += reached.ended;
    all.joined += reached.joined;
  }
  EXPECT_GE(all.requests, 2U);
  EXPECT_GE(all.established, 1U);
  EXPECT_GE(all.ended, 1U);
  EXPECT_EQ(all.joined, 2U);
}

TEST(FuzzRdmaCm, MutationsOfTheCorpusHoldToo) {
  constexpr int kRuns = 20'000;
  const std::vector<CmInput> corpus = roce::read_corpus("rdma_cm/corpus");
  ASSERT_FALSE(corpus.empty());
  std::mt19937_64 random(7'471);
  std::uint64_t established = 0;
  std::uint64_t joined = 0;
  for (int run = 0; run < kRuns; ++run) {
    CmInput input = corpus[random() % corpus.size()];
    for (std::uint64_t left = 1 + random() % 4; left > 0; --left) {
      const auto at = input.begin() + static_cast<std::ptrdiff_t>(random() % input.size());
      switch (random() % 4) {
        case 0:
          *at = static_cast<std::byte>(random());
          break;
        case 1:
          input.insert(at, 1 + random() % 8, static_cast<std::byte>(random()));
          break;
        case 2:
          input.erase(at);
          break;
        default: {  // the same again, elsewhere
          const CmInput part(at, input.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                     input.size(), static_cast<std::size_t>(at - input.begin()) + 12)));
          input.insert(input.begin() + static_cast<std::ptrdiff_t>(random() % input.size()), part.begin(), part.end());
        }
      }
    }
    const CmReached reached = check_connections(input);
    established += reached.established;
    joined += reached.joined;
  }
  // Both whole and broken connections are among them.
  EXPECT_GT(established, static_cast<std::uint64_t>(kRuns) / 100);
  EXPECT_GT(joined, static_cast<std::uint64_t>(kRuns) / 100);
}

}  // namespace
}  // namespace sidelatch::softnic::cm
