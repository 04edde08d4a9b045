// The possible next steps of an execution, and how clients take theirs.
#include "execution.h"
#include "model_fabric.h"
#include "word_hash.h"

#include <sidelatch/fabric/model/effects.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

// ---- Possible steps.

bool Execution::suspended_enabled(const Actor& actor, const Suspended& suspended) const {
  if (suspended.what == Step::What::message) {
    // Those of one queue pair are told in their order.
    const auto first = std::ranges::find_if(actor.suspended, [&](const Suspended& other) {
      return other.what == Step::What::message && other.qp == suspended.qp;
    });
    return first->number == suspended.number;
  }
  return suspended.what != Step::What::access || suspended.access->what() != Cpu::What::fence ||
         machine_.drained({actor.machine_thread});
}

RemoteAddress Execution::address_of(const Actor& actor, const LocalSpan& word) const {
  const Node::Registration* const region = nodes_[actor.node]->find(word.lkey);
  return region->address + static_cast<std::uint64_t>(word.data - region->data);
}

// A wait for a word is a load that is always possible. If its condition does not hold, it has happened in vain, and the
// client's task goes no further in this execution: nothing has changed, so the execution in which it looks later stands
// for this one. The load races with each change of the word, so that one is explored, too.
// A wait with a limit may end at any time: it is a load.
bool Execution::looks_in_vain(const Actor& actor, const Cpu::Access& access) const {
  return access.what() == Cpu::What::wait && !access.limit() &&
         !access.until().holds(machine_.cpu_load({actor.machine_thread}, address_of(actor, access.word())));
}

void Execution::enabled(std::vector<Action>& out) {
  out.clear();
  machine_.enabled(steps_);
  // Clients come first: their posts then have the fewest requests to wait for (rule 2).
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    if (i == crashed_) {
      continue;
    }
    for (const Suspended& suspended : actors_[i].suspended) {
      const bool in_vain = suspended.access != nullptr && looks_in_vain(actors_[i], *suspended.access);
      if (suspended_enabled(actors_[i], suspended) && !in_vain) {
        out.push_back({Action::Sort::client, StepKind::fetch, 0, i, suspended.number, 0});
      }
    }
  }
  for (const model::Step& step : steps_) {
    out.push_back(Action::of(step));
  }
  // Last, what leads nowhere.
  for (std::uint16_t i = 0; i < actor_count() && !by_states_; ++i) {
    for (const Suspended& suspended : actors_[i].suspended) {
      if (i != crashed_ && suspended.access != nullptr && looks_in_vain(actors_[i], *suspended.access)) {
        out.push_back({Action::Sort::client, StepKind::fetch, 0, i, suspended.number, 0});
      }
    }
  }
  if (lease_may_end(steps_)) {
    out.push_back({Action::Sort::lease, StepKind::fetch, 0, crashed_, leases_ended_, 0});
  }
}

bool Execution::is_enabled(const Action& action) {
  if (action.sort == Action::Sort::machine) {
    return machine_.is_enabled(action.step());
  }
  if (action.piece != 0 || action.kind != StepKind::fetch) {
    return false;
  }
  if (action.sort == Action::Sort::lease && action.owner == crashed_) {
    machine_.enabled(steps_);
    return action.index == leases_ended_ && lease_may_end(steps_);
  }
  if (action.owner >= actors_.size() || action.owner == crashed_) {
    return false;
  }
  const Actor& actor = actors_[action.owner];
  if (action.sort == Action::Sort::lease) {
    return !actor.parked.empty();
  }
  const auto found = std::ranges::find(actor.suspended, action.index, &Suspended::number);
  return found != actor.suspended.end() && suspended_enabled(actor, *found);
}

// ---- Events.

void Execution::apply(const Action& action, Event& event) {
  event_ = &event;
  happen(action, true);
  event_ = &scratch_;
}

void Execution::repeat(const Action& action) { happen(action, false); }

void Execution::retrace(const Action& action) {
  const Guard::Rest rest(guard_);  // protecting pages takes longer than all else of a step
  happen(action, false);
}

bool Execution::repeats(const Event& before) {
  happen(before.action, false);
  return scratch_.client == before.client && scratch_.sender == before.sender && scratch_.ran == before.ran &&
         scratch_.posts == before.posts && scratch_.receives == before.receives &&
         scratch_.suspensions == before.suspensions;
}

void Execution::happen(const Action& action, bool described) {
  event_->action = action;
  event_->client = Event::kNone;
  event_->may_crash = event_->begins = event_->starts = event_->ran = event_->judged = event_->global = false;
  event_->disables = false;
  event_->own = event_->ended = {};
  event_->altered = event_->looked_at = 0;
  event_->allocates_at = Event::kNone;
  event_->sender = event_->message = Event::kNone;
  event_->posts.clear();
  event_->receives.clear();
  event_->suspensions.clear();
  event_->changed.clear();
  if (described) {
    event_->target = event_->local = event_->source = {};
    event_->nic = event_->thread = event_->lease_of = event_->initiator = event_->node = Event::kNone;
    event_->buffer_thread = event_->receiver = Event::kNone;
    event_->fenced = event_->touches = event_->fence = event_->changes = event_->by_cpu = false;
    event_->behind = event_->buffer_behind = 0;
    event_->word = 0;
    event_->stored = 0xffff'ffff;
    event_->length = 0;
  }
  if (by_states_) {
    remember_awaited();
  }
  calls_in_step_ = ended_in_step_ = 0;
  acted_in_step_ = looks_at_progress_ = false;
  if (action.crash != 0 && action.crash != Action::kNeverBegins) {
    posts_left_ = action.crash - 1U;
  }
  switch (action.sort) {
    case Action::Sort::machine: {
      const model::Step step = action.step();
      if (described) {
        describe(step);
      }
      const std::span<const std::byte> delivered = delivered_where_others_look(step);
      shared_before_.assign(delivered.begin(), delivered.end());
      machine_.apply_enabled(step);
      if (!delivered.empty() && std::memcmp(delivered.data(), shared_before_.data(), delivered.size()) != 0) {
        ++actors_[queue_pairs_[step.owner].actor].changes;
      }
      after_step(step);
      break;
    }
    case Action::Sort::client:
      apply_client(action);
      break;
    case Action::Sort::lease:
      apply_lease(action);
      break;
  }
  if (posts_left_ && event_->may_crash) {
    crash_now(event_->client);
  }
  posts_left_.reset();
  if (!seen_at_crash_.empty()) {
    look_for_changes_by_the_dead();
  }
  ++moment_;
  if (!refused_.empty()) {
    throw std::logic_error(refused_);
  }
}

bool Execution::may_never_begin(const Action& action) const {
  if (action.sort != Action::Sort::client || crashed_ != Event::kNone) {
    return false;
  }
  const Actor& actor = actors_[action.owner];
  const auto found = std::ranges::find(actor.suspended, action.index, &Suspended::number);
  return actor.can_crash && !actor.has_begun && found != actor.suspended.end() && found->what == Step::What::start;
}

void Execution::set_may_crash(std::uint16_t of) {
  event_->may_crash = actors_[of].can_crash && crashed_ == Event::kNone;
  if (!event_->may_crash) {
    posts_left_.reset();
  }
}

void Execution::resume_ready(std::uint16_t of) {
  if (watched_ != of) {
    watch(of);
  }
  {
    const Zone::Use use(&zone_);
    reactor_->resume_ready();
  }
  note(of);
}

std::int64_t Execution::spawned_in_step() const {
  return static_cast<std::int64_t>(reactor_->spawned_so_far() - tasks_running_) - spawned_before_;
}

// From here to note() what the client changes and looks at is seen.
void Execution::watch(std::uint16_t of) {
  watched_ = of;
  spawned_before_ = static_cast<std::int64_t>(reactor_->spawned_so_far() - tasks_running_);
  watch_shared_memory(actors_[of]);
  watch_shared_objects(of);
}

void Execution::note(std::uint16_t of) {
  watched_ = Event::kNone;
  undo_stores_of_the_dead();
  actors_[of].spawned += spawned_in_step();
  note_shared_objects(of);
  note_shared_memory(actors_[of]);
}

// A task may look at its own node's memory by pointers, at any of it, and nothing shows that. So each of its steps
// counts as a look at all that others can change, and as a store to all if a byte of it is another one afterwards.
void Execution::watch_shared_memory(const Actor& actor) {
  shared_before_.clear();
  if (actors_[actor.node].by_cpu_alone) {
    return;
  }
  for (const std::span<const std::byte> region : shared_with(actor)) {
    shared_before_.insert(shared_before_.end(), region.begin(), region.end());
  }
}

// The buffer that a READ's bytes or an atomic's old value are about to come into, if others reach it: they see the new
// bytes, as they see what the client stores there by pointers.
std::span<const std::byte> Execution::delivered_where_others_look(const model::Step& step) const {
  if (step.kind != StepKind::deliver && step.kind != StepKind::execute) {
    return {};
  }
  const std::vector<std::span<const std::byte>>& shared = shared_with(actors_[queue_pairs_[step.owner].actor]);
  if (shared.empty()) {
    return {};
  }
  const model::Access local = machine_.footprint(step).local;
  const bool is_seen = local.writes && std::ranges::any_of(shared, [&](std::span<const std::byte> region) {
                         return local.conflicts({.data = region.data(), .length = region.size()});
                       });
  return is_seen ? std::span(local.data, local.length) : std::span<const std::byte>{};
}

// A store of its Cpu drains while the task goes on, and a look by a pointer sees it only then: as with memory that
// others change.
void Execution::remember_stored(std::uint16_t of, std::span<const std::byte> word) {
  Actor& node = actors_[actors_[of].node];
  const auto holds = [word](std::span<const std::byte> bytes) {
    return bytes.data() <= word.data() && word.data() < bytes.data() + bytes.size();
  };
  if (std::ranges::none_of(node.shared, holds) && std::ranges::none_of(node.stored, holds)) {
    node.stored.push_back(word);
  }
}

void Execution::note_shared_memory(Actor& actor) {
  const std::vector<std::span<const std::byte>>& stored = actors_[actor.node].stored;
  if ((shared_with(actor).empty() && stored.empty()) || actors_[actor.node].by_cpu_alone) {
    return;
  }
  std::size_t at = 0;
  Range& own = event_->own;
  event_->own_node = actor.node;
  const auto add = [&own](const Range& range) {
    own = own.begin == own.end
              ? range
              : Range{std::min(own.begin, range.begin), std::max(own.end, range.end), own.writes || range.writes};
  };
  for (const std::span<const std::byte> word : stored) {
    add(arena_.range(word.data(), word.size(), false));
  }
  for (const std::span<const std::byte> region : shared_with(actor)) {
    const bool is_new = at + region.size() > shared_before_.size();
    const bool changed = is_new || std::memcmp(region.data(), shared_before_.data() + at, region.size()) != 0;
    if (changed && !is_new && !blind_spot_) {
      look_for_addresses(running_, region, std::span(shared_before_).subspan(at, region.size()));
    }
    at += region.size();
    add(arena_.range(region.data(), region.size(), changed));
    actor.changes += changed ? 1 : 0;
  }
}

void Execution::run_ready(std::uint16_t of) {
  running_ = of;
  event_->client = of;
  if (reactor_->has_ready()) {
    event_->ran = true;
    if (!runs_the_dead()) {
      set_may_crash(of);
    }
    resume_ready(of);
    look_for_changed_buffers(of);
    if (actors_[of].tasks.size() > 1) {
      resume_parked_siblings(of);
    }
  } else if (watched_ == of) {
    note(of);
  }
  // The client has done nothing: it could have crashed behind its last step.
  if (!event_->ran && event_->posts.empty() && !runs_the_dead()) {
    event_->may_crash = false;
  }
  running_ = Event::kNone;
}

// A task may wait for another task of its client whose requests are behind its own in a queue pair. For such a task,
// beginning later is not as good as trying again.
void Execution::resume_parked_siblings(std::uint16_t of) {
  Actor& actor = actors_[of];
  bool resumed = false;
  std::erase_if(actor.parked, [&](const Parked& parked) {
    const bool stale = parked.is_loop() && parked.progress != actor.progress + actor.changes;
    if (stale) {
      reactor_->ready(*parked.waiter);
      resumed = true;
    }
    return stale;
  });
  if (resumed) {
    resume_ready(of);
    look_for_changed_buffers(of);
  }
}

void Execution::apply_client(const Action& action) {
  Actor& actor = actors_[action.owner];
  const auto found = std::ranges::find(actor.suspended, action.index, &Suspended::number);
  if (found == actor.suspended.end()) {
    throw std::logic_error(fmt::format("explorer: client {} has no step {}", actor.name, action.index));
  }
  const bool begins = may_never_begin(action);
  const Suspended suspended = *found;
  last_what_ = suspended.what;
  actor.suspended.erase(found);
  running_ = action.owner;
  event_->client = action.owner;
  event_->by_cpu = actor.is_cpu;
  switch (suspended.what) {
    case Step::What::start:
      set_may_crash(action.owner);
      event_->begins = begins;
      event_->starts = true;
      if (action.crash == Action::kNeverBegins && event_->begins) {
        crash_now(action.owner);
        running_ = Event::kNone;
        return;
      }
      actor.has_begun = true;
      event_->ran = true;
      // A client's tasks have the first suspension numbers.
      ++tasks_running_;
      {
        const Zone::Use use(&world_zone_);
        reactor_->spawn(run_task(this, action.owner, std::move(actor.tasks[action.index])));
      }
      watch(action.owner);
      {
        const Zone::Use use(&zone_);
        started_.resume();
        settle_what_goes_on();
      }
      reactor_->tell_failure();
      note(action.owner);
      break;
    case Step::What::yield:
    case Step::What::retry:
      if (suspended.waiter != nullptr && still_waits(action.owner, suspended)) {
        reactor_->ready(*suspended.waiter);
      }
      break;
    case Step::What::access:
      acted_in_step_ = true;
      apply_access(action.owner, *suspended.access);
      break;
    case Step::What::local_store: {
      acted_in_step_ = true;
      const LocalSpan& word = suspended.step->local;
      if (!arena_.holds(word.data) || word.length != 8) {
        throw std::invalid_argument("store_local: it needs 8 bytes of a region of the client's node");
      }
      event_->local = arena_.range(word.data, 8, true);
      model::store_word(word.data, suspended.step->value);
      ++actor.changes;
      renew_snapshots(word.data, 8);  // intended, so no race is reported
      break;
    }
    case Step::What::completion:
      notify(suspended.qp, suspended.sequence,
             machine_.failed({{suspended.qp}, static_cast<std::uint32_t>(suspended.sequence - 1)}));
      break;
    case Step::What::message:
      event_->message = suspended.qp;
      show_message(suspended.qp);
      break;
  }
  if (suspended.step != nullptr) {
    reactor_->ready(*suspended.step);
  }
  const bool started = suspended.what == Step::What::start;
  run_ready(action.owner);
  if (started) {
    look_for_changed_buffers(action.owner);
  }
}

void Execution::apply_access(std::uint16_t of, Cpu::Access& access) {
  Actor& actor = actors_[of];
  const model::ThreadId thread{actor.machine_thread};
  event_->thread = thread.value;
  if (access.what() == Cpu::What::fence) {
    event_->fence = true;
    reactor_->ready(access);
    return;
  }
  const RemoteAddress address = address_of(actor, access.word());
  if (access.what() == Cpu::What::store) {
    machine_.cpu_store(thread, address, access.value());
    remember_stored(of, access.word().bytes());
    ++actor.changes;
    event_->stored = machine_.stores(thread) - 1;
    reactor_->ready(access);
    return;
  }
  event_->target = arena_.range(access.word().data, access.word().length, false);
  if (looks_in_vain(actor, access)) {
    actor.parked.push_back({&access, ++retries_, Reactor::kNoLoop, 0, address.value, &access});
    return;
  }
  access.give(machine_.cpu_load(thread, address));
  if (access.limit() && !access.until().holds(access.value())) {
    actor.clock += *access.limit();
  }
  for (Loop& loop : actor.loops) {
    loop.seen += mixed(mixed(3, access.value()), access.value());
  }
  reactor_->ready(access);
}

}  // namespace sidelatch::explore
