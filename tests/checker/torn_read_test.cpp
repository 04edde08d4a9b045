#include "tests/sampled.h"

#include <sidelatch/checker/torn_read.h>

#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/simulated_place.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/optimistic.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using ::testing::HasSubstr;

struct TwoClients {
  explicit TwoClients(std::uint64_t seed, const sim::Profile& profile = sim::load_profile("connectx5"),
                      const model::Rules& rules = model::rules_of(model::Preset::observed))
      : world({.profile = profile, .rules = rules, .seed = seed}) {}
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
  TwoClients cluster(seed);
  return probe_torn_reads(cluster.storage, cluster.writer, cluster.reader, {.block_bytes = bytes, .reads = reads});
}

TEST(TornReads, EveryReadIsOneOfTheThreeKinds) {
  const TornReads seen = torn_reads(1024, 20000);
  EXPECT_EQ(seen.reads, 20000U);
  EXPECT_EQ(seen.consistent + seen.detected + seen.undetected, seen.reads);
  EXPECT_GT(seen.writes, 1000U);
}

// The places where blocks are mixed show the NIC's atoms.
TEST(TornReads, BlocksAreMixedWhereTheNicsAtomsMeet) {
  for (const std::uint64_t atom : {64U, 32U, 16U, 8U}) {
    sim::Profile profile = tearing_profile();
    profile.memory.atom_bytes = static_cast<std::uint32_t>(atom);
    TwoClients cluster(1, profile);
    const TornReads seen =
        probe_torn_reads(cluster.storage, cluster.writer, cluster.reader, {.block_bytes = 1024, .reads = 5000});
    EXPECT_EQ(seen.granularity, atom);
    EXPECT_GT(seen.later_in_front + seen.later_behind, 100U) << atom;
  }
  EXPECT_EQ(torn_reads(64, 2000).granularity, 0U) << "one line is never mixed";
}

// READs overtake a WRITE that stops in its middle. If it goes upwards, they see the later numbers in front; if it goes
// in any order, anywhere.
TEST(TornReads, SeamsTellInWhichOrderAWriteIsPlaced) {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.pcie.reorder_probability = 0;
  profile.pcie.write_stall_probability = 0.5;
  profile.pcie.write_stall_ns = 3000;
  for (const auto placement : {model::PlacementOrder::ascending, model::PlacementOrder::any}) {
    model::Rules rules = model::rules_of(model::Preset::observed);
    rules.placement = placement;
    TwoClients cluster(1, profile, rules);
    const TornReads seen =
        probe_torn_reads(cluster.storage, cluster.writer, cluster.reader, {.block_bytes = 1024, .reads = 5000});
    EXPECT_GT(seen.later_in_front, 100U);
    EXPECT_EQ(seen.later_behind > 0, placement == model::PlacementOrder::any) << seen.later_behind;
  }
}

// Lines belong to the memory, wherever a block begins.
TEST(TornReads, ABlockThatBeginsInTheMiddleOfALineIsMixedAtLines) {
  TwoClients cluster(1, tearing_profile());
  const TornReads seen = probe_torn_reads(cluster.storage, cluster.writer, cluster.reader,
                                          {.block_bytes = 1024, .offset = 24, .reads = 5000});
  EXPECT_EQ(seen.granularity, 64U);
  const Observation told = as_observation("torn-read/offset", seen);
  EXPECT_EQ(told.chances, 5000U);
  EXPECT_EQ(told.seen, seen.detected + seen.undetected);
  EXPECT_GT(told.seen, 100U);
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
  TwoClients cluster(1, profile);
  const TornReads seen =
      probe_torn_reads(cluster.storage, cluster.writer, cluster.reader, {.block_bytes = 4096, .reads = 20000});
  EXPECT_EQ(seen.undetected, 0U);
}

TEST(TornReads, KeepGoingEndsTheProbeEarly) {
  TwoClients cluster(1);
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

SchemeReads ring(const SelectedScheme& scheme, std::uint64_t bytes, std::uint64_t seed) {
  TwoClients cluster(seed, tearing_profile());
  return probe_scheme(cluster.storage, cluster.writer, cluster.reader, scheme, {.block_bytes = bytes, .reads = 5000});
}

bool judged_by_its_reads(const SchemeEntry& entry) {
  return entry.promise != Promise::exclusion && entry.kind != Kind::model_only;
}

TEST(Schemes, ThoseThatAreNotKnownToBeBrokenAcceptNoMixture) {
  for (const SchemeEntry& entry : schemes()) {
    if (entry.known_broken() || !judged_by_its_reads(entry)) {
      continue;
    }
    const SelectedScheme scheme = select_scheme(entry.name);
    std::uint64_t rejected = 0;
    for (std::uint64_t seed = 1; seed <= (is_sampled() ? 1 : 5); ++seed) {
      for (const std::uint64_t bytes : {128U, 192U, 1024U}) {
        const SchemeReads seen = ring(scheme, bytes, seed);
        EXPECT_EQ(seen.torn, 0U) << entry.name << " " << bytes;
        EXPECT_EQ(seen.accepted + seen.rejected, seen.reads);
        EXPECT_GT(seen.accepted, 100U);
        rejected += seen.rejected;
      }
    }
    EXPECT_GT(rejected, 0U) << entry.name << " never met a writer: the test gave it no chance to fail";
  }
}

// A switch that keeps the versions, and none: the same requests then accept mixtures.
TEST(Schemes, AtTheSwitchNoMixtureIsAcceptedAndWithoutItSomeAre) {
  const SelectedScheme scheme = select_scheme("optimistic/switch");
  for (const std::uint64_t bytes : {192U, 1024U}) {
    const RingOptions options = {.block_bytes = bytes, .ring_bytes = 2'000'000, .reads = 5000};
    TwoClients cluster(1, tearing_profile());
    SimulatedPlace place(cluster.world, cluster.storage, *scheme.entry);
    RingOptions at_switch = options;
    at_switch.place = &place;
    const SchemeReads seen = probe_scheme(cluster.storage, cluster.writer, cluster.reader, scheme, at_switch);
    EXPECT_EQ(seen.torn, 0U) << bytes;
    EXPECT_GT(seen.accepted, 100U);
    EXPECT_GT(seen.rejected, 0U);
    EXPECT_FALSE(seen.stuck);
    TwoClients without(1, tearing_profile());
    const TornReads bare = probe_torn_reads(without.storage, without.writer, without.reader, options);
    EXPECT_GT(bare.undetected, 0U) << bytes;
  }
}

// One writer and one reader at this pace cannot catch all specimens, but they catch these.
TEST(Schemes, TheSpecimensThatTearAreCaught) {
  for (const char* name : {"broken/naive", "broken/bookend", "broken/marking", "broken/rw-unfenced-shared-unlatch"}) {
    std::uint64_t torn = 0;
    for (std::uint64_t seed = 1; seed <= 20 && torn == 0; ++seed) {
      torn += ring(select_scheme(name), 1024, seed).torn;
    }
    EXPECT_GT(torn, 0U) << name;
  }
}

// A scheme that validates nothing, which the probe must catch.
class Forgetful final : public sync::OptimisticScheme {
 public:
  Forgetful() : OptimisticScheme("test/forgetful") {}
  [[nodiscard]] sync::RecordNeeds needs() const noexcept override { return {.version = true, .header_inside = true}; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(sync::Session& session, sync::Object object,
                                       const sync::ObjectBuffer& buffer) const override {
    co_await session.qp().read(buffer.record(), object.record());
    co_return Attempt{true, header_in_record(buffer)};
  }
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const sync::ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const sync::ObjectBuffer& /*buffer*/) const override {}
};

TEST(Schemes, OneThatValidatesNothingIsCaughtWithEvidence) {
  const SelectedScheme forgetful{nullptr, std::make_unique<Forgetful>(), sync::LayoutKind::padded};
  const SchemeReads seen = ring(forgetful, 1024, 1);
  EXPECT_GT(seen.torn, 0U);
  ASSERT_TRUE(seen.evidence);
  EXPECT_EQ(seen.evidence->words.size() * 8, 1024U - 16U);
}

// A writer that forgets to unlatch: the probe must not hang.
class Stuck final : public sync::OptimisticScheme {
 public:
  Stuck() : OptimisticScheme("test/stuck") {}
  [[nodiscard]] sync::RecordNeeds needs() const noexcept override { return {.version = true}; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(sync::Session& session, sync::Object object,
                                       const sync::ObjectBuffer& buffer) const override {
    const sync::ObjectHeader header = co_await read_header(session, object, buffer);
    co_return Attempt{false, header};
  }
  [[nodiscard]] Task<void> commit(sync::Hold& /*hold*/) const override { co_return; }
  void encode(const sync::ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const sync::ObjectBuffer& /*buffer*/) const override {}
};

TEST(Schemes, ALostUnlatchIsReportedAndNotWaitedForForEver) {
  const SelectedScheme stuck{nullptr, std::make_unique<Stuck>(), sync::LayoutKind::padded};
  TwoClients cluster(1, tearing_profile());
  const SchemeReads seen = probe_scheme(cluster.storage, cluster.writer, cluster.reader, stuck,
                                        {.block_bytes = 128, .ring_bytes = 384, .reads = 1000000});
  EXPECT_TRUE(seen.stuck);
  EXPECT_LT(seen.reads, 1000000U);
}

TEST(Schemes, ALostUnlatchIsReportedAlsoIfTheReaderEndsFirst) {
  const SelectedScheme stuck{nullptr, std::make_unique<Stuck>(), sync::LayoutKind::padded};
  TwoClients cluster(1, tearing_profile());
  const SchemeReads seen = probe_scheme(cluster.storage, cluster.writer, cluster.reader, stuck,
                                        {.block_bytes = 128, .ring_bytes = 384, .reads = 100});
  EXPECT_EQ(seen.reads, 100U);
  EXPECT_TRUE(seen.stuck);
}

TEST(Registry, EverySchemeHasTheNameItIsRegisteredUnder) {
  for (const std::span<const SchemeEntry> some : {schemes(), schemes_at_switches()}) {
    for (const SchemeEntry& entry : some) {
      EXPECT_EQ(entry.make()->name(), entry.name);
      EXPECT_EQ(select_scheme(entry.name).entry->name, entry.name);
    }
  }
}

TEST(Registry, ASuffixChoosesTheLayout) {
  EXPECT_EQ(select_scheme("optimistic/farm").layout, sync::LayoutKind::padded);
  EXPECT_EQ(select_scheme("optimistic/farm+footer").layout, sync::LayoutKind::padded_footer);
  EXPECT_EQ(select_scheme("optimistic/farm+write-unlatch").layout, sync::LayoutKind::padded_footer);
  EXPECT_EQ(select_scheme("latch-rw/async+header").layout, sync::LayoutKind::padded);
}

TEST(Registry, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)select_scheme("optimistic/none");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no scheme optimistic/none"));
    EXPECT_THAT(error.what(), HasSubstr("optimistic/two-read, "));
  }
}

}  // namespace
}  // namespace sidelatch::checker
