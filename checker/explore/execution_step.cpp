// The possible next steps of an execution, their effects, and its end.
#include "execution.h"
#include "model_fabric.h"
#include "mutation.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

// Longer than any lease or deadline that a program expects to outlive.
constexpr Duration kMuchTime = std::chrono::hours(1);
// How often a lease ends. A client that changes something each time may never stop.
constexpr std::uint32_t kMostLeases = 4;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::uint64_t hash = bytes.size();
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    hash = mix(hash, word);
  }
  return hash;
}

}  // namespace

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
  event_->own = {};
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
    event_->fenced = event_->touches = event_->fence = event_->changes = event_->by_cpu = false;
    event_->behind = 0;
    event_->word = 0;
    event_->stored = 0xffff'ffff;
    event_->length = 0;
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
      machine_.apply_enabled(step);
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

// Records the bytes and the request of a step that is about to happen.
void Execution::describe(const model::Step& step) {
  const model::Footprint print = machine_.footprint(step);
  event_->target = arena_.range(print.target.data, print.target.length, print.target.writes);
  if (step.kind == StepKind::drain) {
    event_->thread = step.owner;
    event_->by_cpu = actors_[threads_[step.owner]].is_cpu;
    event_->stored = step.index;
    event_->node = actors_[threads_[step.owner]].node;
    event_->address = print.address;
    event_->length = static_cast<std::uint32_t>(print.target.length);
    event_->changes = true;
    event_->tag = 0;
    return;
  }
  if (print.local.length != 0 && arena_.holds(print.local.data)) {
    event_->local = arena_.range(print.local.data, print.local.length, print.local.writes);
  }
  const QueuePairPart& queue_pair = queue_pairs_[step.owner];
  const WorkRequest& request = machine_.request(step.wr());
  event_->nic = queue_pair.nic;
  event_->initiator = queue_pair.actor;
  event_->thread = actors_[queue_pair.actor].machine_thread;
  event_->behind = requests_[step.owner][step.index].behind;
  event_->send = requests_[step.owner][step.index].send;
  event_->request = model::kind_of(request.opcode);
  event_->fenced = request.fence;
  event_->empty = request.length() == 0;
  event_->touches = step.kind == StepKind::place || step.kind == StepKind::sample || step.kind == StepKind::load ||
                    step.kind == StepKind::store || step.kind == StepKind::load_store || step.kind == StepKind::execute;
  if (event_->request == model::Kind::atomic) {
    event_->word = event_->touches ? event_->target.begin : 0;
  }
  if (step.kind == StepKind::place) {
    const std::uint64_t offset = print.address - request.remote;
    if (arena_.holds(request.local.data)) {
      event_->source = arena_.range(request.local.data + offset, print.target.length, false);
    }
  }
  if (event_->touches) {
    event_->node = queue_pair.target;
    event_->address = print.address;
    event_->length = static_cast<std::uint32_t>(print.target.length);
    event_->changes = print.target.writes;
    event_->tag = requests_[step.owner][step.index].tag;
  }
}

// Applies a step's effects at the client's side.
void Execution::after_step(const model::Step& step) {
  if (!observers_.empty()) {
    tell_observers(step);
  }
  if (!blind_spot_ && (by_states_ || event_ != &scratch_)) {
    look_for_addresses(step);
  }
  switch (step.kind) {
    case StepKind::place:
    case StepKind::store:
    case StepKind::load_store:
    case StepKind::execute:
      count_change(step);
      renew_snapshots_after(step);
      if (requests_[step.owner][step.index].progress != actors_[queue_pairs_[step.owner].actor].progress) {
        progress_.push_back(moment_);
      }
      break;
    case StepKind::drain:
      if (actors_[threads_[step.owner]].tasks_left == 0) {
        progress_.push_back(moment_);
      }
      break;
    default:
      break;
  }
  if (step.kind == StepKind::receive) {
    show_message(step.owner);
    if (receiver_of(step.owner) != nullptr) {
      run_ready(queue_pairs_[step.owner].target);
    }
    return;
  }
  if (step.kind != StepKind::fetch && step.kind != StepKind::deliver && step.kind != StepKind::complete &&
      step.kind != StepKind::execute) {
    return;
  }
  const std::uint16_t qp = step.owner;
  const WorkRequest& request = machine_.request(step.wr());
  RequestInfo& info = requests_[qp][step.index];
  if (info.snapshot >= 0 && (step.kind == StepKind::fetch || step.kind == StepKind::execute)) {
    Snapshot& snapshot = snapshots_[static_cast<std::size_t>(info.snapshot)];
    if (step.kind == StepKind::fetch) {
      snapshot.fetched[step.piece] = true;
    } else {
      snapshot.fetched.assign(snapshot.fetched.size(), true);
    }
  }
  if (step.kind == StepKind::deliver || step.kind == StepKind::execute) {
    renew_snapshots(request.local.data, request.length());
  }
  if (step.kind != StepKind::complete && step.kind != StepKind::execute) {
    return;
  }
  times_[qp][step.index].completed = moment_;
  const std::uint16_t of = queue_pairs_[qp].actor;
  Actor& actor = actors_[of];
  const bool failed = machine_.failed(step.wr());
  if (is_atomic(request.opcode) && !failed) {
    const std::uint64_t old = machine_.old_value(step.wr());
    const bool stored = request.opcode == Opcode::fetch_add || old == request.compare;
    if (step.kind == StepKind::execute && !stored) {
      event_->changes = false;
    }
    for (Loop& loop : actor.loops) {
      loop.seen += mix(old, 2);
    }
  }
  if (request.opcode == Opcode::read && !failed && !actor.loops.empty()) {
    const std::uint64_t hash = hash_bytes(request.local.bytes());
    for (Loop& loop : actor.loops) {
      loop.seen += mix(hash, 1);
    }
  }
  const bool is_told = of != crashed_ && (info.signaled || failed);
  if (step.kind == StepKind::execute) {
    // What others do because of it may come before its client goes on, or the receiver of a message.
    if (is_told) {
      wake_later(of, qp, step.index + 1U);
      event_->client = of;
    }
    if (is_send(request.opcode) && !failed) {
      event_->sender = event_->client;
      show_message_later(qp);
    }
    return;
  }
  if (!is_told) {
    return;
  }
  if (machine_.posted({qp}) > step.index + 1) {
    // Later requests of the queue pair may continue before the client does.
    wake_later(of, qp, step.index + 1U);
    event_->client = of;
    return;
  }
  running_ = of;
  event_->client = of;
  notify(qp, step.index + 1U, failed);
  run_ready(of);
}

void Execution::wake_later(std::uint16_t of, std::uint16_t qp, std::uint64_t sequence) {
  Actor& actor = actors_[of];
  Suspended& suspended = suspend_next(actor, Step::What::completion);
  suspended.qp = qp;
  suspended.sequence = sequence;
  event_->suspensions.push_back({of, suspended.number});
}

// The receiving end of a queue pair, if a message can still be shown to anybody.
ModelQueuePair* Execution::receiver_of(std::uint16_t qp) const {
  const ModelQueuePair* const sender = queue_pairs_[qp].queue_pair;
  return queue_pairs_[qp].target == crashed_ || sender == nullptr ? nullptr : sender->peer();
}

// A SEND's message is in its buffer. The receiving node learns of it in a step of its own.
void Execution::show_message_later(std::uint16_t qp) {
  if (receiver_of(qp) == nullptr) {
    return;
  }
  const std::uint16_t of = queue_pairs_[qp].target;
  ++actors_[of].changes;  // an attempt in which a message came cannot be left out
  Suspended& suspended = suspend_next(actors_[of], Step::What::message);
  suspended.qp = qp;
  event_->suspensions.push_back({of, suspended.number});
  event_->client = of;
}

// The receiving node learns of the message of the oldest SEND that it does not know of.
void Execution::show_message(std::uint16_t qp) {
  ModelQueuePair* const receiver = receiver_of(qp);
  if (receiver == nullptr) {
    return;
  }
  std::uint32_t index = queue_pairs_[qp].next_message;
  while (!is_send(machine_.request({{qp}, index}).opcode)) {
    ++index;
  }
  queue_pairs_[qp].next_message = index + 1;
  const WorkRequest& request = machine_.request({{qp}, index});
  ReceiveQueue::Arrival arrival{.bytes = request.length()};
  if (request.opcode == Opcode::send_with_immediate) {
    arrival.immediate = request.immediate;
  }
  ++actors_[queue_pairs_[qp].target].changes;  // an attempt in which a message came cannot be left out
  const Zone::Use own(nullptr);
  static_cast<void>(receiver->receives()->take_buffer());
  receiver->receives()->fill(arrival);
  ++queue_pairs_[qp].received;
}

// What others could see of the client: a placement or a store, also one that is undone later.
void Execution::count_change(const model::Step& step) {
  const WorkRequest& request = machine_.request(step.wr());
  const bool reads = request.opcode == Opcode::read || request.length() == 0;
  const bool failed_swap = (step.kind == StepKind::load_store || step.kind == StepKind::execute) &&
                           request.opcode == Opcode::compare_swap &&
                           machine_.loaded_value(step.wr()) != request.compare;
  if (!reads && !failed_swap) {
    ++actors_[queue_pairs_[step.owner].actor].changes;
  }
}

void Execution::notify(std::uint16_t qp, std::uint64_t sequence, bool failed) {
  if (queue_pairs_[qp].queue_pair == nullptr) {
    return;
  }
  ModelQueuePair& queue_pair = *queue_pairs_[qp].queue_pair;
  set_may_crash(queue_pairs_[qp].actor);  // a chain that waits for room may be posted
  watch(queue_pairs_[qp].actor);          // the old values of a chain may go where others look
  sequence += first_request_number(qp);
  if (failed) {
    if (queue_pair.state() == QueuePair::State::ready && sequence > queue_pair.completed_so_far()) {
      queue_pair.on_error(sequence, Status::retry_exceeded, "the target has revoked this queue pair");
    }
  } else if (queue_pair.state() == QueuePair::State::ready) {
    queue_pair.on_completed(sequence);
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
  for (const std::span<const std::byte> region : shared_with(actor)) {
    shared_before_.insert(shared_before_.end(), region.begin(), region.end());
  }
}

void Execution::note_shared_memory(Actor& actor) {
  if (shared_with(actor).empty()) {
    return;
  }
  std::size_t at = 0;
  Range& own = event_->own;
  for (const std::span<const std::byte> region : shared_with(actor)) {
    const bool is_new = at + region.size() > shared_before_.size();
    const bool changed = is_new || std::memcmp(region.data(), shared_before_.data() + at, region.size()) != 0;
    if (changed && !is_new && !blind_spot_) {
      look_for_addresses(running_, region, std::span(shared_before_).subspan(at, region.size()));
    }
    at += region.size();
    const Range range = arena_.range(region.data(), region.size(), changed);
    own = own.begin == own.end
              ? range
              : Range{std::min(own.begin, range.begin), std::max(own.end, range.end), own.writes || range.writes};
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
    loop.seen += mix(access.value(), 3);
  }
  reactor_->ready(access);
}

// What the client waits with, and whether anybody has changed anything.
std::uint64_t Execution::lease_state(const Actor& actor) const noexcept {
  std::uint64_t state = 0;
  for (const Actor& one : actors_) {
    state += one.changes;
  }
  for (const Parked& parked : actor.parked) {
    state = mix(mix(state, parked.state), parked.loop);
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

// What a request of another client, or of the client's own, puts into a buffer in flight is no race of the client's
// CPU.
void Execution::renew_snapshots_after(const model::Step& step) {
  if (snapshots_live_ != 0) {
    const model::Footprint print = machine_.footprint(step);
    if (print.target.writes) {
      renew_snapshots(print.target.data, print.target.length);
    }
  }
}

// Updates snapshots of bytes that changed legitimately, not by a race.
void Execution::renew_snapshots(const std::byte* data, std::uint64_t length) {
  for (std::size_t i = 0; i < snapshots_used_ && snapshots_live_ != 0; ++i) {
    Snapshot& snapshot = snapshots_[i];
    const std::byte* const begin = std::max(data, snapshot.data);
    const std::byte* const end = std::min(data + length, snapshot.data + snapshot.bytes.size());
    if (snapshot.live && begin < end) {
      std::memcpy(snapshot.bytes.data() + (begin - snapshot.data), begin, static_cast<std::size_t>(end - begin));
    }
  }
}

// Reports buffers of requests that the client does not know to be complete and whose bytes differ from the post: the
// client changed them.
void Execution::look_for_changed_buffers(std::uint16_t of) {
  for (std::size_t i = 0; i < snapshots_used_ && snapshots_live_ != 0; ++i) {
    Snapshot& snapshot = snapshots_[i];
    if (!snapshot.live || queue_pairs_[snapshot.qp].actor != of) {
      continue;
    }
    const ModelQueuePair* const queue_pair = queue_pairs_[snapshot.qp].queue_pair;
    if (queue_pair == nullptr || queue_pair->completed_so_far() > first_request_number(snapshot.qp) + snapshot.index) {
      snapshot.live = false;
      --snapshots_live_;
      continue;
    }
    if (std::memcmp(snapshot.data, snapshot.bytes.data(), snapshot.bytes.size()) == 0) {
      continue;
    }
    const auto start = reinterpret_cast<std::uintptr_t>(snapshot.data);
    std::uint32_t line = 0;
    for (const model::Piece piece : model::pieces(start, snapshot.bytes.size(), kLineBytes)) {
      if (std::memcmp(snapshot.data + piece.offset, snapshot.bytes.data() + piece.offset, piece.length) != 0) {
        event_->changed.push_back({snapshot.qp, snapshot.index, line});
        if (!snapshot.fetched[line] && !failure_) {
          failure_ = Failure{
              Kind::buffer_race,
              fmt::format("{} changed bytes {} to {} of the buffer of its WRITE qp{}[{}], which the NIC "
                          "has not fetched yet",
                          actors_[of].name, piece.offset, piece.offset + piece.length, snapshot.qp, snapshot.index),
              moment_,
              {snapshot.posted},
              false};
        }
      }
      ++line;
    }
    std::memcpy(snapshot.bytes.data(), snapshot.data, snapshot.bytes.size());
  }
}

// ---- The end.

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
