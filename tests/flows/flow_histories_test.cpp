// Random histories: units join, leave, are killed and come late, in any order, over links that lose, repeat and
// reorder.
#include "flow_network.h"

#include "tests/sampled.h"
#include "tests/switchsync/changed_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace histories {

constexpr std::uint32_t kSlots = 4;
constexpr softnic::nic::Time kLongestWait = 800'000;  // long enough that who is dead is given up
constexpr softnic::nic::Time kLongest = 200'000'000;  // virtual

enum class Fate : std::uint8_t { stays, has_left, was_killed };

FlowNetworkOptions options_of(FlowKind kind, std::uint64_t seed) {
  FlowNetworkOptions options{.producers = 2,
                             .consumers = 2 + seed % 2,
                             .kind = kind,
                             .producer_shape = {.slots = kSlots, .item_bytes = 300},
                             .consumer_shape = {.slots = kSlots, .item_bytes = 300},
                             .time_out = std::chrono::microseconds(10),
                             .most_retries = 6,
                             .seed = seed,
                             .is_open = true};
  if (seed % 3 != 0) {
    options.faults = {.drop = 0.01, .duplicate = 0.02, .reorder = 0.05};
  }
  return options;
}

// One history. `says` is what is wrong with it, after what has happened.
class History {
 public:
  History(FlowKind kind, std::uint64_t seed, const std::shared_ptr<const p4::Program>& program = zero_sided_program())
      : network_(program, options_of(kind, seed)), random_(seed) {
    fates_of_producers_.resize(network_.options().producers);
    fates_of_consumers_.resize(network_.consumers());
    see_joined();
  }

  std::string run() {
    for (int event = 0; event < 7 && wrong_.empty(); ++event) {
      wait(random_() % kLongestWait);
      change();
    }
    wait(random_() % kLongestWait);
    network_.control().close(network_.flow());
    is_closed_ = true;
    network_.run([&] {
      step();
      return !wrong_.empty() || have_all_ended() || network_.now() > kLongest;
    });
    if (wrong_.empty() && network_.now() > kLongest) {
      wrong_ = "the flow has come to a halt";
    }
    judge_end();
    return wrong_.empty() ? wrong_ : fmt::format("{}; before:{}", wrong_, story_);
  }

 private:
  [[nodiscard]] FlowKind kind() const { return network_.options().kind; }
  // Rings of a producer follow each other.
  [[nodiscard]] std::size_t rings_each() const {
    return kind() == FlowKind::shuffle ? network_.options().consumers : 1;
  }
  [[nodiscard]] std::size_t producer_of(std::size_t ring) const { return ring / rings_each(); }
  [[nodiscard]] bool is_alive(std::size_t producer) const { return fates_of_producers_[producer] == Fate::stays; }

  void see_joined() {
    arrived_.resize(network_.consumers());
    has_ended_.resize(network_.consumers());
    is_broken_.resize(network_.consumers());
    pushed_.resize(network_.rings());
  }

  void wait(softnic::nic::Time time) {
    const softnic::nic::Time then = network_.now() + time;
    network_.run([&] {
      step();
      return !wrong_.empty() || network_.now() > then;
    });
  }

  void step() {
    for (std::size_t ring = 0; ring < network_.rings(); ++ring) {
      if (!is_alive(producer_of(ring))) {
        continue;
      }
      try {
        while (!is_closed_ && network_.push(ring)) {
          ++pushed_[ring];
        }
        if (is_closed_) {
          network_.producer(ring).end();
        }
        static_cast<void>(network_.producer(ring).room());
      } catch (const FlowBroken&) {
        const bool is_right =
            kind() == FlowKind::shuffle && fates_of_consumers_[ring % rings_each()] == Fate::was_killed;
        if (!is_right) {
          wrong_ = fmt::format("ring {} was told that its consumers had died", ring);
        }
      }
    }
    for (std::size_t c = 0; c < network_.consumers(); ++c) {
      if (fates_of_consumers_[c] == Fate::was_killed || is_broken_[c]) {
        continue;
      }
      try {
        while (const auto name = network_.pop(c)) {
          arrived_[c].push_back(*name);
        }
        has_ended_[c] = has_ended_[c] || network_.consumer(c).has_ended();
      } catch (const FlowBroken&) {
        has_ended_[c] = is_broken_[c] = true;
      }
    }
  }

  [[nodiscard]] bool have_all_ended() const {
    for (std::size_t c = 0; c < network_.consumers(); ++c) {
      // Nobody tells those of a replicated flow that have left.
      const bool is_told = fates_of_consumers_[c] == Fate::stays ||
                           (fates_of_consumers_[c] == Fate::has_left && kind() == FlowKind::balance);
      if (is_told && !has_ended_[c]) {
        return false;
      }
    }
    return true;
  }

  // One that stays, if another one does.
  [[nodiscard]] std::optional<std::size_t> some(const std::vector<Fate>& fates) {
    std::vector<std::size_t> staying;
    for (std::size_t i = 0; i < fates.size(); ++i) {
      if (fates[i] == Fate::stays) {
        staying.push_back(i);
      }
    }
    return staying.size() < 2 ? std::nullopt : std::optional(staying[random_() % staying.size()]);
  }

  void change() {
    switch (random_() % 5) {
      case 0:
        story_ += " a producer joins,";
        network_.join_producer(random_() % network_.options().producers);
        fates_of_producers_.push_back(Fate::stays);
        break;
      case 1:
        if (kind() == FlowKind::balance) {
          story_ += " a consumer joins,";
          network_.join_consumer(random_() % network_.options().consumers);
          fates_of_consumers_.push_back(Fate::stays);
        }
        break;
      case 2:
        if (const auto who = kind() == FlowKind::shuffle ? std::nullopt : some(fates_of_consumers_)) {
          story_ += fmt::format(" consumer {} leaves,", *who);
          network_.control().leave_consumer(network_.flow(), *who);
          fates_of_consumers_[*who] = Fate::has_left;
        }
        break;
      case 3:
        if (const auto who = some(fates_of_producers_)) {
          story_ += fmt::format(" producer {} is killed,", *who);
          for (std::size_t i = 0; i < rings_each(); ++i) {
            network_.kill_ring(*who * rings_each() + i);
          }
          fates_of_producers_[*who] = Fate::was_killed;
        }
        break;
      default:
        if (const auto who = some(fates_of_consumers_)) {
          story_ += fmt::format(" consumer {} is killed,", *who);
          network_.kill_consumer(*who);
          fates_of_consumers_[*who] = Fate::was_killed;
        }
    }
    see_joined();
  }

  void judge_end() {
    if (!wrong_.empty()) {
      return;
    }
    const FlowState state = network_.state();
    for (std::size_t ring = 0; ring < network_.rings() && wrong_.empty(); ++ring) {
      const bool has_lost_its_consumer =
          kind() == FlowKind::shuffle && fates_of_consumers_[ring % rings_each()] == Fate::was_killed;
      if (state.lost_producers[ring] && is_alive(producer_of(ring)) && !has_lost_its_consumer) {
        wrong_ = fmt::format("ring {} was given up, although its producer lived", ring);
      }
    }
    const bool has_one_died = std::ranges::find(fates_of_producers_, Fate::was_killed) != fates_of_producers_.end();
    for (std::size_t c = 0; c < network_.consumers() && wrong_.empty(); ++c) {
      if (fates_of_consumers_[c] == Fate::stays && state.lost_consumers[c]) {
        wrong_ = fmt::format("consumer {} was given up, although it lived", c);
      } else if (is_broken_[c] && !has_one_died) {
        wrong_ = fmt::format("consumer {} was told that a producer had died, and none had", c);
      }
    }
    if (wrong_.empty()) {
      judge_items();
    }
  }

  void judge_items() {
    // How often each item came, to all or, where all get all, to one.
    std::vector<std::vector<std::uint32_t>> times;
    times.reserve(network_.rings());
    for (const std::uint32_t items : pushed_) {
      times.emplace_back(items);
    }
    for (std::size_t c = 0; c < network_.consumers(); ++c) {
      std::vector<std::int64_t> latest(network_.rings(), -1);
      const bool counts = kind() != FlowKind::replicate || c == first_of_those_that_stay();
      for (const ItemName& name : arrived_[c]) {
        if (name.number <= latest[name.producer]) {
          wrong_ = fmt::format("consumer {} has item {} of ring {} after {}", c, name.number, name.producer,
                               latest[name.producer]);
          return;
        }
        latest[name.producer] = name.number;
        times[name.producer][name.number] += counts ? 1U : 0U;
      }
      if (kind() == FlowKind::replicate && !is_beginning_of(arrived_[c], arrived_[first_of_those_that_stay()])) {
        wrong_ = fmt::format("consumer {} has not the items of the others, or another order", c);
        return;
      }
    }
    std::size_t lost = 0;
    for (std::size_t ring = 0; ring < network_.rings(); ++ring) {
      const bool is_of_dead_consumer =
          kind() == FlowKind::shuffle && fates_of_consumers_[ring % rings_each()] == Fate::was_killed;
      for (std::uint32_t number = 0; number < pushed_[ring]; ++number) {
        if (times[ring][number] > 1) {
          wrong_ = fmt::format("item {} of ring {} came {} times", number, ring, times[ring][number]);
          return;
        }
        lost += times[ring][number] == 0 && is_alive(producer_of(ring)) && !is_of_dead_consumer ? 1U : 0U;
      }
    }
    // What was in a dead consumer's ring, and what was on its way there.
    const auto dead = kind() == FlowKind::balance ? std::ranges::count(fates_of_consumers_, Fate::was_killed) : 0;
    if (lost > static_cast<std::size_t>(dead) * 2 * kSlots) {
      wrong_ = fmt::format("{} items are lost, and {} consumers were killed", lost, dead);
    }
  }
  [[nodiscard]] std::size_t first_of_those_that_stay() const {
    return static_cast<std::size_t>(std::ranges::find(fates_of_consumers_, Fate::stays) - fates_of_consumers_.begin());
  }
  static bool is_beginning_of(const std::vector<ItemName>& some, const std::vector<ItemName>& all) {
    return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
  }

  FlowNetwork network_;
  std::mt19937_64 random_;
  std::vector<Fate> fates_of_producers_;
  std::vector<Fate> fates_of_consumers_;
  std::vector<std::vector<ItemName>> arrived_;
  std::vector<bool> has_ended_;
  std::vector<bool> is_broken_;
  std::vector<std::uint32_t> pushed_;
  bool is_closed_ = false;
  std::string story_;
  std::string wrong_;
};

class FlowHistories : public ::testing::TestWithParam<FlowKind> {};

TEST_P(FlowHistories, EveryItemComesOnceAndNobodyWhoLivesIsGivenUp) {
  const std::uint64_t seeds = takes_long() ? 400 : is_sampled() ? 8 : 40;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    ASSERT_EQ(History(GetParam(), seed).run(), "") << "seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, FlowHistories,
                         ::testing::Values(FlowKind::shuffle, FlowKind::balance, FlowKind::replicate));

TEST(FlowHistoriesSpecimen, AFlowThatIsBrokenForAllWhenOneConsumerDiesIsCaught) {
  const auto program = switchsync::changed_program("zero_sided.p4", "alive = alive - 1;", "alive = 0;");
  std::string wrong;
  for (std::uint64_t seed = 1; seed <= 20 && wrong.empty(); ++seed) {
    try {
      wrong = History(FlowKind::balance, seed, program).run();
    } catch (const std::invalid_argument& error) {  // a consumer cannot join any more
      wrong = error.what();
    }
  }
  EXPECT_NE(wrong, "");
}

}  // namespace histories
}  // namespace
}  // namespace sidelatch::flows
