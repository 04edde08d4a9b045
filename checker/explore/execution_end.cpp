// The end of an execution: deadlock, livelock, and what its judges say.
#include "execution.h"
#include "model_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace sidelatch::explore {

using namespace fabric;

bool Execution::has_parked() const {
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    if (i != crashed_ && !actors_[i].parked.empty()) {
      return true;
    }
  }
  return false;
}

bool Execution::is_livelock(const Order& order) const {
  std::vector<Loop::Repetition> repeating;
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    const Actor& actor = actors_[i];
    if (i == crashed_ || actor.tasks_left == 0) {
      continue;
    }
    if (actor.parked.empty()) {
      return false;
    }
    for (const Parked& parked : actor.parked) {
      if (!parked.is_loop()) {
        continue;
      }
      const auto& repeats = actor.loops[parked.loop - 1].repeats;
      if (repeats) {
        repeating.push_back(*repeats);
      }
    }
  }
  // Somebody made progress because of these attempts, or at least after them.
  for (const Moment moment : progress_) {
    if (std::ranges::any_of(repeating, [&](const Loop::Repetition& attempt) {
          return moment != attempt.began && order.before(attempt.began, moment);
        })) {
      return false;
    }
  }
  // Two attempts that affect each other.
  for (std::size_t i = 0; i < repeating.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (order.before(repeating[i].began, repeating[k].ended) &&
          order.before(repeating[k].began, repeating[i].ended)) {
        return true;
      }
    }
  }
  return false;
}

std::string Execution::unended() const {
  std::string who;
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    if (i != crashed_ && actors_[i].tasks_left != 0) {
      who += (who.empty() ? "" : ", ") + actors_[i].name;
    }
  }
  return who;
}

void Execution::require_ended() {
  if (!judges_liveness()) {
    return;
  }
  const std::string who = unended();
  if (!who.empty() && !failure_) {
    fail(Kind::deadlock, fmt::format("{} has not ended, and nothing is left that could happen", who));
    failure_->at_end = true;
  } else if (!failure_) {
    note_unended_spawned();
  }
}

// It may be meant to serve for ever, or wait for what should have come.
void Execution::note_unended_spawned() {
  if (reactor_->spawned_so_far() == tasks_running_) {
    return;
  }
  for (std::uint16_t i = 0; i < actor_count() && !blind_spot_; ++i) {
    if (i != crashed_ && actors_[i].spawned > 0) {
      note_blind_spot(
          fmt::format("{}, of which a task that it has spawned (Reactor::spawn) never ends although those "
                      "of World::spawn do (let it end, or give it to World::spawn),",
                      actors_[i].name));
    }
  }
}

void Execution::judge(const Order& order) {
  for (const auto& judge : judges_) {
    if (!failure_) {
      judge(order);
      if (failure_) {
        failure_->at_end = true;
      }
    }
  }
  const bool had_failed = failure_.has_value();
  destroy_program();
  if (failure_ && !had_failed) {
    failure_->at_end = true;
  }
}

}  // namespace sidelatch::explore
