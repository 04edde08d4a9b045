#include "flow_judge.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <utility>

namespace sidelatch::tools {

namespace {

constexpr std::size_t kMostViolations = 10;

class FlowJudge {
 public:
  FlowJudge(FlowBoard& board, const flows::FlowState& state, const FlowPlaces& places)
      : board_(board), task_(board.task()), state_(state), places_(places) {}

  std::vector<std::string> judge() {
    judge_who_was_given_up();
    if (task_.kind == flows::FlowKind::balance) {
      judge_shared_items();
    } else {
      judge_counts();
    }
    if (task_.kind == flows::FlowKind::replicate) {
      judge_common_order();
    }
    return std::move(violations_);
  }

 private:
  template <class... Arguments>
  void say(fmt::format_string<Arguments...> what, Arguments&&... arguments) {
    if (violations_.size() < kMostViolations) {
      violations_.push_back(fmt::format(what, std::forward<Arguments>(arguments)...));
    }
  }

  [[nodiscard]] bool took_part(std::uint32_t producer) const {
    return places_.producers[producer] != FlowPlaces::kNowhere;
  }
  [[nodiscard]] bool is_there(std::uint32_t consumer) const {
    return places_.consumers[consumer] != FlowPlaces::kNowhere;
  }
  FlowFate fate_of(const FlowUnitRow& row) const { return row.fate.load(std::memory_order_relaxed); }
  // The ring from which this consumer gets the producer's items.
  [[nodiscard]] std::size_t ring_of(std::uint32_t producer, std::uint32_t consumer) const {
    return places_.producers[producer] + (task_.kind == flows::FlowKind::shuffle ? consumer : 0);
  }

  // Who lives is not given up, and the others are told of those who were.
  void judge_who_was_given_up() {
    for (std::uint32_t c = 0; c < task_.consumers; ++c) {
      const FlowUnitRow& row = board_.consumer(c);
      if (!is_there(c)) {
        continue;
      }
      bool has_lost_one = false;
      for (std::uint32_t p = 0; p < task_.producers; ++p) {
        // The rings of a dead consumer of a shuffle are given up with it.
        const bool is_dead = task_.kind == flows::FlowKind::shuffle && fate_of(row) == FlowFate::killed;
        if (!took_part(p) || is_dead || !state_.lost_producers.at(ring_of(p, c))) {
          continue;
        }
        has_lost_one = true;
        if (fate_of(board_.producer(p)) != FlowFate::killed) {
          say("producer {} was given up, although it lived", p);
        }
      }
      if (fate_of(row) != FlowFate::stays) {
        continue;
      }
      if (state_.lost_consumers.at(places_.consumers[c])) {
        say("consumer {} was given up, although it lived", c);
      }
      if (row.is_broken && !has_lost_one) {
        say("consumer {} was told that a producer had died, and none had", c);
      } else if (!row.is_broken && has_lost_one) {
        say("consumer {} was told the usual end, and a producer had died", c);
      }
    }
    for (std::uint32_t p = 0; p < task_.producers; ++p) {
      for (std::uint32_t bits = board_.producer(p).broken_rings; bits != 0; bits &= bits - 1) {
        const auto ring = static_cast<std::uint32_t>(std::countr_zero(bits));
        const bool is_right =
            task_.kind == flows::FlowKind::shuffle && fate_of(board_.consumer(ring)) == FlowFate::killed;
        if (!is_right) {
          say("producer {} was told that its consumer had died, and none had", p);
        }
      }
    }
  }

  void judge_counts() {
    for (std::uint32_t c = 0; c < task_.consumers; ++c) {
      const FlowUnitRow& row = board_.consumer(c);
      for (std::uint32_t p = 0; p < task_.producers; ++p) {
        if (!took_part(p)) {
          continue;
        }
        const std::uint32_t taken = state_.taken.at(ring_of(p, c));
        const bool was_killed = fate_of(board_.producer(p)) == FlowFate::killed;
        if (row.came[p] > taken) {
          say("consumer {} has {} items of producer {}, and the switch has taken {}", c, row.came[p], p, taken);
        } else if (fate_of(row) != FlowFate::stays) {
          continue;
        } else if (!was_killed && row.next[p] < task_.items) {
          say("lost: the flow has ended, and number {} of producer {} has not come to consumer {}", row.next[p], p, c);
        } else if (was_killed && row.came[p] != taken) {
          say("lost: consumer {} has {} items of producer {}, which was killed, and the switch has taken {}", c,
              row.came[p], p, taken);
        }
      }
    }
  }

  // Of a killed producer the first items come, as many as the switch has taken. Lost may be what was in the rings of
  // killed consumers, or on its way there.
  void judge_shared_items() {
    std::uint64_t lost = 0;
    for (std::uint32_t p = 0; p < task_.producers; ++p) {
      if (!took_part(p)) {
        continue;
      }
      const bool was_killed = fate_of(board_.producer(p)) == FlowFate::killed;
      const std::uint64_t wanted = was_killed ? state_.taken.at(places_.producers[p]) : task_.items;
      for (std::uint64_t word = 0; word * 64 < task_.items; ++word) {
        std::uint64_t once = 0;
        std::uint64_t twice = 0;
        for (std::uint32_t c = 0; c < task_.consumers; ++c) {
          const std::uint64_t got = board_.got(c, p)[word];
          twice |= once & got;
          once |= got;
        }
        const std::uint64_t first = word * 64;
        const std::uint64_t all = first >= wanted        ? 0
                                  : wanted - first >= 64 ? ~std::uint64_t{0}
                                                         : (std::uint64_t{1} << (wanted - first)) - 1;
        if (twice != 0) {
          say("twice: number {} of producer {} came to two consumers",
              first + static_cast<unsigned>(std::countr_zero(twice)), p);
        }
        if ((once & ~all) != 0) {
          say("number {} of producer {} has come, and the switch has taken {}",
              first + static_cast<unsigned>(std::countr_zero(once & ~all)), p, wanted);
        }
        const std::uint64_t missing = all & ~once;
        lost += static_cast<unsigned>(std::popcount(missing));
        if (missing != 0 && lost > most_lost()) {
          say("lost: number {} of producer {} has not come{}", first + static_cast<unsigned>(std::countr_zero(missing)),
              p,
              most_lost() == 0 ? ""
                               : fmt::format("; {} were lost by then, the killed had room for {}", lost, most_lost()));
        }
      }
    }
  }

  [[nodiscard]] std::uint64_t most_lost() const {
    std::uint64_t killed = 0;
    for (std::uint32_t c = 0; c < task_.consumers; ++c) {
      killed += fate_of(board_.consumer(c)) == FlowFate::killed ? 1U : 0U;
    }
    return killed * task_.shape.slots;
  }

  void judge_common_order() {
    const FlowUnitRow* first = nullptr;
    for (std::uint32_t c = 0; c < task_.consumers; ++c) {
      const FlowUnitRow& row = board_.consumer(c);
      if (fate_of(row) != FlowFate::stays) {
        continue;
      }
      if (first != nullptr && row.chain != first->chain) {
        say("consumers {} and {} got the items in different orders", first->number, c);
      }
      first = first == nullptr ? &row : first;
    }
  }

  FlowBoard& board_;
  const FlowTask& task_;
  const flows::FlowState& state_;
  const FlowPlaces& places_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> judge_flow(FlowBoard& board, const flows::FlowState& state, const FlowPlaces& places) {
  return FlowJudge(board, state, places).judge();
}

}  // namespace sidelatch::tools
