#include "history.h"

#include <set>
#include <stdexcept>
#include <utility>

namespace sidelatch::structures {

using State = std::optional<std::uint64_t>;

std::optional<State> apply(const Event& event, State state) {
  // What the call does to a key in this state, and what it says.
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
  Search(const std::vector<Event>& history, const Precedes& precedes) : history_(history), precedes_(precedes) {}

  bool possible(std::uint64_t done, State state) {
    if (!seen_.emplace(done, state).second) {
      return false;
    }
    bool all_done = true;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      all_done = all_done && (is_in(done, i) || history_[i].is_open);
    }
    if (all_done) {
      return true;
    }
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (is_in(done, i) || !may_be_next(done, i)) {
        continue;
      }
      const auto after = apply(history_[i], state);
      if (after && possible(done | std::uint64_t{1} << i, *after)) {
        return true;
      }
    }
    return false;
  }

 private:
  static bool is_in(std::uint64_t set, std::size_t i) { return (set >> i & 1U) != 0; }
  // Nothing that is still to come ended before it began.
  [[nodiscard]] bool may_be_next(std::uint64_t done, std::size_t i) const {
    for (std::size_t j = 0; j < history_.size(); ++j) {
      if (j != i && !is_in(done, j) && !history_[j].is_open && precedes_(history_[j], history_[i])) {
        return false;
      }
    }
    return true;
  }

  const std::vector<Event>& history_;
  const Precedes& precedes_;
  std::set<std::pair<std::uint64_t, State>> seen_;
};

}  // namespace

bool by_time(const Event& first, const Event& second) { return first.ended < second.began; }

bool is_linearizable(const std::vector<Event>& history, State initial, const Precedes& precedes) {
  if (history.size() > 64) {
    throw std::invalid_argument("a history of more than 64 events");
  }
  return Search(history, precedes).possible(0, initial);
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
