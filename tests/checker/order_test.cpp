#include <sidelatch/checker/order.h>

#include "cluster.h"
#include "detail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace sidelatch::checker {
namespace {

using namespace fabric;
using model::Preset;
using ::testing::HasSubstr;

struct PairOfKinds {
  Pair pair;
  model::Kind first;
  model::Kind second;
  bool fenced = false;
};
constexpr std::array kPairs = {PairOfKinds{Pair::read_read, model::Kind::read, model::Kind::read},
                               PairOfKinds{Pair::read_write, model::Kind::read, model::Kind::write},
                               PairOfKinds{Pair::write_read, model::Kind::write, model::Kind::read},
                               PairOfKinds{Pair::write_atomic, model::Kind::write, model::Kind::atomic},
                               PairOfKinds{Pair::atomic_read, model::Kind::atomic, model::Kind::read},
                               PairOfKinds{Pair::atomic_atomic, model::Kind::atomic, model::Kind::atomic},
                               PairOfKinds{Pair::fenced_read_write, model::Kind::read, model::Kind::write, true},
                               PairOfKinds{Pair::fenced_atomic_write, model::Kind::atomic, model::Kind::write, true},
                               PairOfKinds{Pair::fenced_atomic_atomic, model::Kind::atomic, model::Kind::atomic, true}};

Observation probe(const model::Rules& rules, Pair pair, const OrderOptions& options = {.chances = 2000},
                  const sim::Profile& profile = sim::load_profile("connectx5")) {
  Cluster cluster(rules, profile);
  return probe_order(cluster.storage, cluster.clients, pair, options);
}

TEST(Order, InversionsAreSeenWhereTheModelAllowsThemAndNowhereElse) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    const model::Rules rules = model::rules_of(preset);
    for (const auto& [pair, first, second, fenced] : kPairs) {
      const bool allowed = model::order_between(rules, first, second, fenced) == model::Order::unordered;
      const Observation seen = probe(rules, pair);
      EXPECT_EQ(seen.seen > 0, allowed) << name(preset) << " " << seen.name << ": " << seen.seen;
      EXPECT_GE(seen.chances, allowed ? 1000U : 1U) << name(preset) << " " << seen.name;
    }
  }
}

TEST(Order, WhatIsPostedAfterTheCompletionSeesTheWrite) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    for (const Pair pair : {Pair::completed_write_read, Pair::completed_write_atomic}) {
      const Observation seen = probe(model::rules_of(preset), pair);
      EXPECT_EQ(seen.seen, 0U) << name(preset) << " " << seen.name;
      EXPECT_EQ(seen.chances, 2000U) << name(preset) << " " << seen.name;
    }
  }
}

// A WRITE is placed 5 us after its acknowledgement has left, and the next request comes in less.
TEST(Order, AnAtomicThatDoesNotSeeACompletedWriteIsFound) {
  sim::Profile slow = sim::load_profile("connectx5");
  slow.pcie.write_ns = 5000;
  model::Rules rules = model::rules_of(Preset::observed);
  EXPECT_EQ(probe(rules, Pair::completed_write_atomic, {.chances = 200}, slow).seen, 0U);
  rules.atomics_see_writes = false;
  EXPECT_GT(probe(rules, Pair::completed_write_atomic, {.chances = 200}, slow).seen, 0U);
  EXPECT_EQ(probe(rules, Pair::completed_write_read, {.chances = 200}, slow).seen, 0U);
}

// A fence that waits for atomics only, which TODS 2025 warns of.
TEST(Order, AFenceThatDoesNotOrderReadsIsFound) {
  model::Rules rules = model::rules_of(Preset::observed);
  rules.fence_orders_reads = false;
  EXPECT_GT(probe(rules, Pair::fenced_read_write).seen, 0U);
}

// Seeing nothing proves something only if the effect would have been seen. No parameter of the model lets an atomic, or
// a WRITE, pass a fence behind an atomic. The control of these pairs is just what a NIC without such a fence does.
TEST(Order, TheControlIsInvertedWhateverThePair) {
  for (const Pair pair : kAllPairs) {
    const Observation seen = probe(model::rules_of(Preset::observed), pair);
    EXPECT_GT(detail(seen, "control_seen"), 0U) << seen.name;
    EXPECT_GE(detail(seen, "control_chances"), detail(seen, "control_seen")) << seen.name;
    EXPECT_TRUE(seen.sensitive) << seen.name;
  }
}

// Records the simulation's own order: whether the second request sampled before the WRITE's last line was placed.
class Witness : public sim::StepObserver {
 public:
  explicit Witness(std::uint64_t last_piece) : last_piece_(last_piece) {}
  void on_step(const sim::SimStep& step) override {
    using Step = sim::SimStep::Kind;
    if (step.kind == Step::place && step.piece == last_piece_) {
      placed_ = true;
      close();
    } else if (step.kind == Step::load || step.kind == Step::sample) {
      inversions_ += placed_ ? 0U : 1U;
      looked_ = true;
      close();
    }
  }
  [[nodiscard]] std::uint64_t inversions() const { return inversions_; }

 private:
  // A chain has ended when both events have happened.
  void close() {
    if (placed_ && looked_) {
      placed_ = looked_ = false;
    }
  }
  std::uint64_t last_piece_;
  std::uint64_t inversions_ = 0;
  bool placed_ = false;
  bool looked_ = false;
};

// Every inversion is counted and no others, even between two chains that kept the order.
TEST(Order, InversionsAreCountedAsTheyHappen) {
  constexpr std::uint64_t kBytes = 4096;
  for (const Pair pair : {Pair::write_read, Pair::write_atomic}) {
    sim::Profile uneven = sim::load_profile("connectx5");
    uneven.link.jitter_ns = 2000;  // now one request is first, now the other
    Witness witness(kBytes / kLineBytes - 1);
    Cluster cluster(model::rules_of(Preset::observed), uneven);
    cluster.world.observe(&witness);
    const Observation seen = probe_order(cluster.storage, cluster.clients, pair, {.bytes = kBytes, .chances = 1000});
    EXPECT_EQ(seen.seen, 0U);
    EXPECT_EQ(detail(seen, "control_seen"), witness.inversions()) << seen.name;
    EXPECT_GT(witness.inversions(), 10U) << seen.name;
    EXPECT_LT(witness.inversions(), 990U) << seen.name;
  }
}

TEST(Order, EndsWhenItIsToldTo) {
  const Observation seen = probe(model::rules_of(Preset::observed), Pair::write_read,
                                 {.chances = 1'000'000, .keep_going = [] { return false; }});
  EXPECT_EQ(seen.chances, 0U);
  EXPECT_FALSE(seen.complete);
}

TEST(Order, OneClientIsEnough) {
  Cluster cluster;
  const Observation seen =
      probe_order(cluster.storage, std::span(cluster.clients).first(1), Pair::read_read, {.chances = 500});
  EXPECT_GT(seen.seen, 0U);
}

TEST(Order, BadOptionsAreNamed) {
  const auto message = [](const OrderOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.bytes = 12}), HasSubstr("12 bytes: it must be a multiple of 8"));
  EXPECT_THAT(message({.bytes = 0}), HasSubstr("0 bytes"));
  EXPECT_THAT(message({.bytes = std::uint64_t{2} << 20}), HasSubstr("2097152 bytes"));
  EXPECT_THAT(message({.chances = 0}), HasSubstr("0 chances"));
  Cluster cluster;
  EXPECT_THROW((void)probe_order(cluster.storage, {}, Pair::read_read, {}), std::invalid_argument);
}

TEST(Bound95, IsThreeInNWhereNothingWasSeen) {
  // (1 - p)^n = 0.05: p is 0.95 for one chance, and about 3 / n for many.
  EXPECT_NEAR(bound95({.name = "x", .chances = 1}).value(), 0.95, 1e-12);
  EXPECT_NEAR(bound95({.name = "x", .chances = 1'000'000'000}).value(), 2.9957e-9, 1e-12);
  EXPECT_EQ(bound95({.name = "x", .chances = 0}), std::nullopt);
  EXPECT_EQ(bound95({.name = "x", .chances = 10, .seen = 1}), std::nullopt);
  EXPECT_EQ(bound95({.name = "x", .chances = 10, .sensitive = false}), std::nullopt);
}

}  // namespace
}  // namespace sidelatch::checker
