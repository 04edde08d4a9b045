// Memory that tears requests on purpose.
#include "softnic/nic/deferred_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using fabric::model::Preset;

constexpr Time kSpread = 1000;
constexpr Time kMuchLater = 10 * kSpread;
constexpr std::size_t kPieces = 8;
constexpr std::size_t kObjectBytes = kPieces * 64;
using Object = std::array<std::byte, kObjectBytes>;

DeferredOptions with_bias(Preset preset, std::uint64_t seed, double bias) {
  return {.rules = fabric::model::rules_of(preset), .seed = seed, .spread = kSpread, .torn_bias = bias};
}

// The time of access to each piece of each queue pair's request.
class Timetable final : public DeferredObserver {
 public:
  explicit Timetable(const std::byte* object) : object_(object) {}
  void on_step(const DeferredStep& step) override {
    times[step.source.queue_pair].at(static_cast<std::size_t>(step.memory - object_) / 64) = now;
    order.push_back(static_cast<std::size_t>(step.memory - object_) / 64);
  }
  Time now = 0;
  std::map<std::uint32_t, std::array<Time, kPieces>> times;
  std::vector<std::size_t> order;

 private:
  const std::byte* object_;
};

void run(DeferredAccess& access, Timetable& timetable) {
  while (access.next_deadline() != kNever) {
    timetable.now = access.next_deadline();
    access.advance(timetable.now);
  }
}

// WRITEs of different queue pairs, which do not wait for anything.
std::map<std::uint32_t, std::array<Time, kPieces>> schedule(Preset preset, std::uint64_t seed, double bias) {
  alignas(64) Object object{};
  DeferredAccess access(with_bias(preset, seed, bias));
  Timetable timetable(object.data());
  access.observe(&timetable);
  for (std::uint32_t queue_pair = 0; queue_pair < 20; ++queue_pair) {
    static_cast<void>(access.place({queue_pair, 1, fabric::model::Kind::write, 1}, object.data(), object));
  }
  run(access, timetable);
  return timetable.times;
}

TEST(TornBias, DelaysAPartOfAPacketAndChangesNothingElse) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec}) {
    std::size_t hits = 0;
    std::size_t misses = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto never = schedule(preset, seed, 0);
      const auto always = schedule(preset, seed, 1);
      const auto sometimes = schedule(preset, seed, 0.5);
      for (std::uint32_t queue_pair = 0; queue_pair < 20; ++queue_pair) {
        std::size_t late = 0;
        for (std::size_t piece = 0; piece < kPieces; ++piece) {
          const Time delay = always.at(queue_pair)[piece] - never.at(queue_pair)[piece];
          ASSERT_TRUE(delay == 0 || delay == kMuchLater);
          late += delay != 0 ? 1U : 0U;
        }
        ASSERT_EQ(late > 0 && late < kPieces, preset != Preset::strict);
        // Hits and misses use the same random draws.
        const bool hit = sometimes.at(queue_pair) == always.at(queue_pair);
        ASSERT_TRUE(hit || sometimes.at(queue_pair) == never.at(queue_pair));
        (hit ? hits : misses) += 1;
      }
    }
    if (preset != Preset::strict) {
      EXPECT_GT(hits, 400U);  // of 1000
      EXPECT_GT(misses, 400U);
    }
  }
}

// Rule 3: both parts in any order, or the lower part first.
TEST(TornBias, AscendingPlacementStaysAscending) {
  std::size_t descents = 0;
  for (const Preset preset : {Preset::observed, Preset::spec}) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      alignas(64) Object object{};
      DeferredAccess access(with_bias(preset, seed, 1));
      Timetable timetable(object.data());
      access.observe(&timetable);
      static_cast<void>(access.place({1, 1, fabric::model::Kind::write, 1}, object.data(), object));
      run(access, timetable);
      ASSERT_EQ(timetable.order.size(), kPieces);
      descents += timetable.order.front() == kPieces - 1 ? 1U : 0U;
      if (preset == Preset::observed) {
        ASSERT_TRUE(std::ranges::is_sorted(timetable.order));
      }
    }
  }
  EXPECT_GT(descents, 10U);
}

// An object is written once and read at any time meanwhile. Returns the number of mixtures in 1000 reads.
std::size_t torn_reads(Preset preset, double bias) {
  std::mt19937_64 random(1);
  std::size_t torn = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    alignas(64) Object object{};
    Object ones{};
    ones.fill(std::byte{1});
    Object into{};
    Operation read;
    DeferredAccess access(with_bias(preset, seed, bias));
    Timetable timetable(object.data());
    static_cast<void>(access.place({1, 1, fabric::model::Kind::write, 1}, object.data(), ones));
    access.advance(random() % kMuchLater);
    access.sample({2, 1, fabric::model::Kind::read, 1}, object.data(), into, read);
    run(access, timetable);
    const auto count = std::ranges::count(into, std::byte{1});
    torn += count != 0 && count != std::ssize(into) ? 1U : 0U;
  }
  return torn;
}

TEST(TornBias, ReadersTearMoreOften) {
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    const std::size_t seldom = torn_reads(preset, 0);
    const std::size_t often = torn_reads(preset, 1);
    EXPECT_GT(seldom, 0U) << fabric::model::name(preset);
    EXPECT_GT(often, 500U) << fabric::model::name(preset);
    EXPECT_GT(often, 3 * seldom) << fabric::model::name(preset);
  }
  EXPECT_EQ(torn_reads(Preset::strict, 1), 0U);
}

TEST(TornBias, IsAChance) {
  for (const double bias : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(DeferredAccess(with_bias(Preset::spec, 1, bias)), std::invalid_argument) << bias;
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
