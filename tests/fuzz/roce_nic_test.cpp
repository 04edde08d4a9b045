// A short run of the NIC's fuzz target without libFuzzer: the corpus itself, and mutations of it that depend only on a
// seed. NICs with a mistake must be caught.
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/roce_nic_fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using Input = std::vector<std::byte>;

std::vector<Input> nic_corpus() { return read_corpus("roce/nic_corpus"); }

TEST(FuzzRoceNic, TheCorpusReachesWhatANicDoes) {
  NicAttack all;
  for (const Input& input : nic_corpus()) {
    const NicAttack attack = attack_nic(input);
    ASSERT_EQ(attack.harm, "");
    all.placed += attack.placed;
    all.sampled += attack.sampled;
    all.atomics += attack.atomics;
    all.delivered += attack.delivered;
    all.completed += attack.completed;
    all.failed += attack.failed;
    using C = NicCounters;
    for (const auto member :
         {&C::received, &C::sent, &C::refused, &C::misdirected, &C::dropped, &C::stray, &C::duplicates,
          &C::out_of_sequence, &C::retransmissions, &C::timeouts, &C::receiver_not_ready}) {
      all.counters.*member += attack.counters.*member;
    }
  }
  EXPECT_GT(all.placed, 0U);
  EXPECT_GT(all.sampled, 0U);
  EXPECT_GT(all.atomics, 0U);
  EXPECT_GT(all.delivered, 0U);
  EXPECT_GT(all.completed, 0U);
  EXPECT_GT(all.failed, 0U);
  EXPECT_GT(all.counters.refused, 0U);
  EXPECT_GT(all.counters.misdirected, 0U);
  EXPECT_GT(all.counters.dropped, 0U);
  EXPECT_GT(all.counters.stray, 0U);
  EXPECT_GT(all.counters.duplicates, 0U);
  EXPECT_GT(all.counters.out_of_sequence, 0U);
  EXPECT_GT(all.counters.retransmissions, 0U);
  EXPECT_GT(all.counters.timeouts, 0U);
  EXPECT_GT(all.counters.receiver_not_ready, 0U);
}

// Commands have no fixed length, so parts of two inputs together are a new program.
TEST(FuzzRoceNic, MutationsOfTheCorpusHarmNothing) {
  const std::vector<Input> corpus = nic_corpus();
  ASSERT_FALSE(corpus.empty());
  std::mt19937_64 random(20'240'502);
  for (int run = 0; run < 4000; ++run) {
    Input input = corpus[random() % corpus.size()];
    const Input& other = corpus[random() % corpus.size()];
    input.resize(random() % (input.size() + 1));
    input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(random() % (other.size() + 1)), other.end());
    for (std::uint64_t changes = random() % 4; changes > 0 && !input.empty(); --changes) {
      input[random() % input.size()] = static_cast<std::byte>(random());
    }
    ASSERT_EQ(attack_nic(input).harm, "") << run;
  }
}

TEST(FuzzRoceNic, MistakesAreFound) {
  const std::vector<std::pair<NicMistake, std::string>> mistakes{
      {NicMistake::writes_outside, "memory outside of all regions has changed"},
      {NicMistake::ignores_rights, "a READ without the right to it"},
      {NicMistake::ignores_deregistering, "memory of a region that has ended has changed"}};
  const std::vector<Input> corpus = nic_corpus();
  for (const auto& [mistake, harm] : mistakes) {
    EXPECT_TRUE(std::ranges::any_of(corpus, [&](const Input& input) {
      return attack_nic(input, mistake).harm == harm;
    })) << harm;
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
