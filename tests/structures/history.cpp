#include "history.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace sidelatch::structures {

using State = std::optional<std::uint64_t>;

std::optional<State> apply(const Event& event, State state) {
  if (!event.is_open && event.outcome == Outcome::full) {  // no room for a key that is not there
    const bool adds = event.call == Call::insert || event.call == Call::put;
    return adds && !state ? std::optional<State>(std::in_place, state) : std::nullopt;
  }
  // The call's effect on a key in this state, and its result.
  State after = state;
  Outcome says = Outcome::done;
  switch (event.call) {
    case Call::get:
      says = state ? Outcome::done : Outcome::absent;
      break;
    case Call::insert:
      says = state ? Outcome::present : Outcome::done;
      after = state ? state : State(event.argument);
      break;
    case Call::put:
      after = event.argument;
      break;
    case Call::update:
      says = state ? Outcome::done : Outcome::absent;
      after = state ? State(event.argument) : state;
      break;
    case Call::remove:
      says = state ? Outcome::done : Outcome::absent;
      after = State();
      break;
  }
  const bool right_value = event.call != Call::get || !state || event.result == *state;
  if (!event.is_open && (event.outcome != says || !right_value)) {
    return std::nullopt;
  }
  return std::optional<State>(std::in_place, after);
}

namespace {

class Search {
 public:
  Search(std::vector<Event> history, const Precedes& precedes)
      : history_(std::move(history)), precedes_(precedes), taken_(history_.size(), false) {
    // In any order meant here, an event began before the events that it precedes.
    std::ranges::stable_sort(history_, {}, &Event::began);
  }

  bool explains(std::size_t first, State state) {
    while (first < history_.size() && taken_[first]) {
      ++first;
    }
    std::vector<std::size_t> ahead;  // that are taken although earlier ones are not
    std::vector<std::size_t> waiting;
    std::vector<std::size_t> next;
    bool all_done = true;
    std::int64_t ends = std::numeric_limits<std::int64_t>::max();  // what begins later is not next
    for (std::size_t i = first; i < history_.size() && (!by_time() || history_[i].began <= ends); ++i) {
      if (taken_[i]) {
        ahead.push_back(i);
        continue;
      }
      const bool is_next = std::ranges::none_of(
          waiting, [&](std::size_t j) { return !history_[j].is_open && precedes_(history_[j], history_[i]); });
      if (is_next) {
        next.push_back(i);
      }
      waiting.push_back(i);
      if (!history_[i].is_open) {
        all_done = false;
        ends = std::min(ends, history_[i].ended);
      }
    }
    if (all_done) {
      return true;
    }
    const Place now(first, std::move(ahead), state.has_value(), state.value_or(0));
    if (failed_.contains(now)) {
      return false;
    }
    for (const std::size_t i : next) {
      const auto after = structures::apply(history_[i], state);
      if (!after) {
        continue;
      }
      taken_[i] = true;
      const bool explained = explains(first, *after);
      taken_[i] = false;
      if (explained) {
        return true;
      }
    }
    failed_.insert(now);
    return false;
  }

 private:
  using Place = std::tuple<std::size_t, std::vector<std::size_t>, bool, std::uint64_t>;

  // Then the search need not check all remaining events.
  [[nodiscard]] bool by_time() const {
    const auto* plain = precedes_.target<bool (*)(const Event&, const Event&)>();
    return plain != nullptr && *plain == structures::by_time;
  }

  std::vector<Event> history_;
  const Precedes& precedes_;
  std::vector<bool> taken_;
  std::set<Place> failed_;
};

}  // namespace

bool by_time(const Event& first, const Event& second) { return first.ended < second.began; }

bool is_linearizable(const std::vector<Event>& history, State initial, const Precedes& precedes) {
  return Search(history, precedes).explains(0, initial);
}

std::optional<std::uint64_t> first_violation(const Histories& histories) {
  for (const auto& [key, history] : histories) {
    if (!is_linearizable(history)) {
      return key;
    }
  }
  return std::nullopt;
}

}  // namespace sidelatch::structures
