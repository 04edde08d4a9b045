#include <sidelatch/checker/torn_read.h>

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

struct Cluster {
  explicit Cluster(std::uint64_t seed, const sim::Profile& profile = sim::load_profile("connectx5"))
      : world({.profile = profile, .seed = seed}) {}
  sim::Simulation world;
  Node& storage = world.add_node("storage");
  Node& writer = world.add_node("writer");
  Node& reader = world.add_node("reader");
};

// Tears are ten times as likely as on the calibrated NIC, so that few reads are enough.
sim::Profile tearing_profile() {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.pcie.reorder_probability = 0.1;
  profile.pcie.reorder_ns = 600;
  return profile;
}

TornReads torn_reads(std::uint64_t bytes, std::uint64_t reads, std::uint64_t seed = 1) {
  Cluster cluster(seed);
  return probe_torn_reads(cluster.storage, cluster.writer, cluster.reader, {.block_bytes = bytes, .reads = reads});
}

TEST(TornReads, EveryReadIsOneOfTheThreeKinds) {
  const TornReads seen = torn_reads(1024, 20000);
  EXPECT_EQ(seen.reads, 20000U);
  EXPECT_EQ(seen.consistent + seen.detected + seen.undetected, seen.reads);
  EXPECT_GT(seen.writes, 1000U);
}

TEST(TornReads, NoneIsUndetectedUpTo128Bytes) {
  for (const std::uint64_t bytes : {64U, 72U, 128U}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      EXPECT_EQ(torn_reads(bytes, 20000, seed).undetected, 0U) << bytes;
    }
  }
  EXPECT_GT(torn_reads(128, 50000).detected, 0U);  // tears there are, but header and footer show them
}

TEST(TornReads, SomeAreUndetectedAbove128Bytes) {
  for (const std::uint64_t bytes : {192U, 256U, 4096U}) {
    const TornReads seen = torn_reads(bytes, 50000);
    ASSERT_GT(seen.undetected, 0U) << bytes;
    const std::vector<std::uint64_t>& words = seen.evidence->words;
    EXPECT_EQ(words.size() * 8, bytes);
    EXPECT_EQ(words.front(), words.back());
    EXPECT_TRUE(std::ranges::any_of(words, [&](std::uint64_t word) { return word != words.front(); }));
  }
}

TEST(TornReads, ANicThatSamplesInOrderHasNoUndetectedOnes) {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.pcie.reorder_probability = 0;
  Cluster cluster(1, profile);
  const TornReads seen =
      probe_torn_reads(cluster.storage, cluster.writer, cluster.reader, {.block_bytes = 4096, .reads = 20000});
  EXPECT_EQ(seen.undetected, 0U);
}

TEST(TornReads, KeepGoingEndsTheProbeEarly) {
  Cluster cluster(1);
  int asked = 0;
  const TornReads seen =
      probe_torn_reads(cluster.storage, cluster.writer, cluster.reader,
                       {.block_bytes = 64, .reads = 100000, .keep_going = [&] { return ++asked < 3; }});
  EXPECT_GT(seen.reads, 0U);
  EXPECT_LT(seen.reads, 100000U);
}

TEST(TornReads, BadOptionsAreNamed) {
  const auto message = [](const RingOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({.block_bytes = 100}), HasSubstr("block size 100: it must be a multiple of 8 bytes"));
  EXPECT_THAT(message({.block_bytes = 0}), HasSubstr("block size 0"));
  EXPECT_THAT(message({.block_bytes = 2 << 20}), HasSubstr("64 to 1048576"));
  EXPECT_THAT(message({.block_bytes = 4096, .ring_bytes = 4096}), HasSubstr("a ring of 4096 bytes"));
  EXPECT_THAT(message({.reads = 0}), HasSubstr("0 reads"));
  EXPECT_EQ(message({}), "no error");
}

TEST(Describe, CountsEqualNeighbours) {
  EXPECT_EQ(describe({0, {7, 7, 6, 7}}), "7 x2, 6 x1, 7 x1");
  EXPECT_EQ(describe({0, {1, 2, 3}}, 2), "1 x1, 2 x1, ...");
}

SchemeReads ring(const sync::OptimisticScheme& scheme, std::uint64_t bytes, std::uint64_t seed) {
  Cluster cluster(seed, tearing_profile());
  return probe_scheme(cluster.storage, cluster.writer, cluster.reader, scheme, {.block_bytes = bytes, .reads = 5000});
}

TEST(Schemes, ThoseThatAreNotKnownToBeBrokenAcceptNoMixture) {
  for (const Scheme& entry : schemes()) {
    if (entry.known_broken) {
      continue;
    }
    const auto scheme = entry.make();
    std::uint64_t rejected = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      for (const std::uint64_t bytes : {128U, 192U, 1024U}) {
        const SchemeReads seen = ring(*scheme, bytes, seed);
        EXPECT_EQ(seen.torn, 0U) << entry.name << " " << bytes;
        EXPECT_EQ(seen.accepted + seen.rejected, seen.reads);
        EXPECT_GT(seen.accepted, 100U);
        rejected += seen.rejected;
      }
    }
    EXPECT_GT(rejected, 0U) << entry.name << " never met a writer: the test gave it no chance to fail";
  }
}

TEST(Schemes, TheNaiveOneIsCaught) {
  const Scheme& naive = *std::ranges::find(schemes(), "broken/naive", &Scheme::name);
  EXPECT_TRUE(naive.known_broken);
  const auto scheme = naive.make();
  std::uint64_t torn = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    torn += ring(*scheme, 1024, seed).torn;
  }
  EXPECT_GT(torn, 0U);
}

// A line-version scheme that forgets to compare the versions: what the probe must catch.
class ForgetfulLines final : public sync::OptimisticScheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "test/forgetful"; }
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t object_bytes) const noexcept override {
    return object_bytes - sync::kHeaderBytes;
  }
  [[nodiscard]] Task<sync::ReadResult> read(QueuePair& qp, RemoteSpan object, LocalSpan scratch,
                                            std::span<std::byte> payload) const override {
    co_await qp.read(scratch.subspan(0, object.length), object);
    std::memcpy(payload.data(), scratch.data + sync::kHeaderBytes, payload.size());
    co_return sync::ReadResult{true, 0};
  }

 protected:
  void encode(std::span<std::byte> object, std::uint64_t /*version*/,
              std::span<const std::byte> payload) const override {
    std::memcpy(object.data() + sync::kHeaderBytes, payload.data(), payload.size());
  }
};

TEST(Schemes, OneThatValidatesNothingIsCaughtWithEvidence) {
  const SchemeReads seen = ring(ForgetfulLines(), 1024, 1);
  EXPECT_GT(seen.torn, 0U);
  ASSERT_TRUE(seen.evidence);
  EXPECT_EQ(seen.evidence->words.size() * 8, 1024 - sync::kHeaderBytes);
}

}  // namespace
}  // namespace sidelatch::checker
