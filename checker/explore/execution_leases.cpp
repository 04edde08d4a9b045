// After a crash: when the lease of the dead ends, and what the others do then.
#include "execution.h"
#include "model_fabric.h"
#include "word_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

// Longer than any lease or deadline that a program expects to outlive.
constexpr Duration kMuchTime = std::chrono::hours(1);
// How often a lease ends. A client that changes something each time may never stop.
constexpr std::uint32_t kMostLeases = 4;

}  // namespace

// The lease of a crashed client ends, and much time passes for all others, only where none of them could go on before:
// a live holder gives its latch back in time. Who has not begun may begin later. The dead may have held several
// latches, so it ends again unless all is as it was when it last ended. `steps` are those that the machine can take.
bool Execution::lease_may_end(const std::vector<model::Step>& steps) const {
  if (crashed_ == Event::kNone || in_tail_ || leases_ended_ == kMostLeases || !waits_for_a_lease()) {
    return false;
  }
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    if (i == crashed_ || actors_[i].is_cpu) {
      continue;
    }
    const bool rests = std::ranges::all_of(actors_[i].suspended, [&](const Suspended& suspended) {
      return suspended.what == Step::What::start ||
             (suspended.access != nullptr && looks_in_vain(actors_[i], *suspended.access));
    });
    if (!rests || !machine_.drained({actors_[i].machine_thread})) {
      return false;
    }
  }
  return std::ranges::all_of(steps, [&](const model::Step& step) {
    return step.kind == StepKind::drain || queue_pairs_[step.owner].actor == crashed_;
  });
}

// Whether a client waits in a loop, and the end of a lease may change something for it.
bool Execution::waits_for_a_lease() const {
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    if (i != crashed_ && std::ranges::any_of(actors_[i].parked, &Parked::is_loop) && needs_a_lease(actors_[i])) {
      return true;
    }
  }
  return false;
}

// What the client waits with, and whether anybody has changed anything.
std::uint64_t Execution::lease_state(const Actor& actor) const noexcept {
  std::uint64_t state = 0;
  for (const Actor& one : actors_) {
    state += one.changes;
  }
  for (const Parked& parked : actor.parked) {
    state = mixed(mixed(state, parked.state), parked.loop);
  }
  return state;
}

bool Execution::needs_a_lease(const Actor& actor) const noexcept {
  return actor.leases_used == 0 || actor.at_last_lease != lease_state(actor);
}

// At the end of an execution: whether the lease would have had to end once more.
void Execution::note_leases_left() {
  if (crashed_ == Event::kNone || leases_ended_ < kMostLeases || !waits_for_a_lease()) {
    return;
  }
  const std::string& name = actors_[crashed_].name;
  cut_because(name, fmt::format("the lease of {}, which has ended {} times,", name, kMostLeases));
}

void Execution::begin_attempt(Actor& actor, const Parked& parked) {
  Loop& loop = actor.loops[parked.loop - 1];
  loop.seen = 0;
  loop.changes_at_head = actor.changes;
}

// The client tries again, in a step of its own: others may come before.
void Execution::pass_much_time(std::uint16_t of) {
  Actor& actor = actors_[of];
  actor.clock += kMuchTime;
  ++actor.leases_used;
  actor.at_last_lease = lease_state(actor);
  for (const Parked& parked : std::exchange(actor.parked, {})) {
    if (!parked.is_loop()) {
      actor.parked.push_back(parked);  // time changes nothing for a wait for a word
      continue;
    }
    begin_attempt(actor, parked);
    Suspended& next = suspend_next(actor, Step::What::retry);
    next.waiter = parked.waiter;
    next.wait = parked.number;
    event_->suspensions.push_back({of, next.number});
  }
}

void Execution::apply_lease(const Action& action) {
  event_->lease_of = crashed_;
  if (action.owner == crashed_) {
    ++leases_ended_;
    for (std::uint16_t of = 0; of < actor_count(); ++of) {
      if (of != crashed_) {
        pass_much_time(of);
      }
    }
    return;
  }
  // At the end of an execution clients try again although no lease has ended; a trace tells it by nothing else.
  if (!in_tail_) {
    enter_tail();
  }
  Actor& actor = actors_[action.owner];
  actor.clock += kMuchTime;
  ++actor.leases_used;
  for (const Parked& parked : std::exchange(actor.parked, {})) {
    if (!parked.is_loop()) {
      apply_access(action.owner, *parked.access);
      continue;
    }
    begin_attempt(actor, parked);
    reactor_->ready(*parked.waiter);
  }
  run_ready(action.owner);
}

}  // namespace sidelatch::explore
