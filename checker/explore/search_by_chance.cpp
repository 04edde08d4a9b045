// Executions by chance: at random, by random priorities (PCT: Burckhardt and others, ASPLOS 2010), and walks, which
// look for what the searches have been kept from by a program that breaks its promises.
#include "search.h"

#include <algorithm>
#include <random>

namespace sidelatch::explore {

using fabric::model::StepKind;

TaskResult Worker::run_random(std::uint64_t seed, std::size_t usual_length) {
  execution_.runs_below(__builtin_frame_address(0));
  TaskResult result;
  load({});
  execution_.begin();
  std::mt19937_64 random(seed);
  const bool by_priority = options_->mode == Mode::pct;
  // PCT: actors have priorities. At a few chosen moments the first actor falls behind all others. The moments' numbers,
  // not their order in time, decide the order among those that fell behind.
  std::vector<std::uint64_t> priority;
  std::vector<std::size_t> changes;
  for (std::uint32_t i = 0; by_priority && i < options_->priority_changes; ++i) {
    changes.push_back(random() % usual_length);
  }
  const auto priority_of = [&](const Action& action) -> std::uint64_t& {
    const bool of_client = action.sort != Action::Sort::machine || action.kind == StepKind::drain;
    const std::size_t group = 2U * action.owner + (of_client ? 1U : 0U);
    while (priority.size() <= group) {
      priority.push_back((random() >> 1) | (std::uint64_t{1} << 62));
    }
    return priority[group];
  };
  // From some moment on, the first client that may crash does so, in the middle of its posts.
  const std::size_t crash_after = random() % (2 * usual_length);
  const auto crash = static_cast<std::uint16_t>(1 + random() % 4);
  bool crashed = false;
  while (execution_.failure() == nullptr && !execution_.is_void()) {
    execution_.enabled(enabled_);
    if (enabled_.empty() || depth_ >= options_->max_events) {
      break;
    }
    Action action = enabled_[random() % enabled_.size()];
    if (by_priority) {
      std::uint64_t highest = priority_of(action);
      for (const Action& other : enabled_) {
        const std::uint64_t own = priority_of(other);
        if (own > highest) {
          action = other;
          highest = own;
        }
      }
      for (std::size_t i = 0; i < changes.size(); ++i) {
        if (changes[i] == depth_) {
          priority_of(action) = i;
        }
      }
    }
    action.crash = crashed || depth_ < crash_after                    ? std::uint16_t{0}
                   : execution_.may_never_begin(action) && crash == 1 ? Action::kNeverBegins
                                                                      : crash;
    push(action);
    make_happen(depth_ - 1, action);
    SearchNode& node = *nodes_[depth_ - 1];
    node.todo.clear();
    crashed = crashed || (action.crash != 0 && node.event.may_crash);
    if (action.crash == Action::kNeverBegins) {
      continue;
    }
    node.event.action.crash =
        node.event.may_crash ? static_cast<std::uint16_t>(std::min<std::size_t>(action.crash, node.event.posted() + 1))
                             : std::uint16_t{0};
  }
  if (depth_ >= options_->max_events || execution_.is_void()) {
    extend(result);
  } else {
    end_execution(result);
  }
  result.events += depth_;
  return result;
}

TaskResult Worker::walk(std::uint64_t seed, std::size_t most_events) {
  execution_.runs_below(__builtin_frame_address(0));
  execution_.look_closely(true);
  TaskResult result;
  leaves_ = kLeavesRunAgain + 1;  // what it finds is run again by the caller
  load({});
  execution_.begin();
  std::mt19937_64 random(seed);
  constexpr std::size_t kSteady = 24;  // events between changes of pace
  std::vector<std::uint64_t> pace;
  const auto pace_of = [&](const Action& action) -> std::uint64_t& {
    const bool of_client = action.sort != Action::Sort::machine || action.kind == StepKind::drain;
    const std::size_t group =
        2U * (of_client ? action.owner : execution_.initiator(action.owner)) + (of_client ? 1U : 0U);
    while (pace.size() <= group) {
      pace.push_back(std::uint64_t{1} << (random() % 4 * 3));
    }
    return pace[group];
  };
  while (execution_.failure() == nullptr) {
    execution_.enabled(enabled_);
    if (enabled_.empty() && !execution_.is_void()) {
      break;
    }
    if (depth_ >= most_events || execution_.is_void()) {
      result.events += depth_;
      tell_what_was_seen(result);
      return result;
    }
    if (depth_ % kSteady == kSteady - 1 || depth_ > most_events / 2) {
      pace.clear();
    }
    std::uint64_t all = 0;
    for (const Action& action : enabled_) {
      all += pace_of(action);
    }
    std::uint64_t chosen = random() % all;
    std::size_t at = 0;
    for (; chosen >= pace_of(enabled_[at]); ++at) {
      chosen -= pace_of(enabled_[at]);
    }
    const Action action = enabled_[at];
    push(action);
    make_happen(depth_ - 1, action);
    nodes_[depth_ - 1]->todo.clear();
  }
  end_execution(result);
  result.events += depth_;
  tell_what_was_seen(result);
  return result;
}

}  // namespace sidelatch::explore
