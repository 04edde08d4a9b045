// What a step of the machine means to clients: completions, messages, changes, buffers in flight.
#include "execution.h"
#include "model_fabric.h"
#include "word_hash.h"

#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

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
  event_->receiver = event_->request == model::Kind::send ? queue_pair.target : Event::kNone;
  const bool takes_buffer = event_->request == model::Kind::send && step.kind != StepKind::fetch;
  if (takes_buffer && event_->send < queue_pair.receive_buffers.size() && !machine_.failed(step.wr())) {
    event_->buffer_thread = actors_[queue_pair.target].machine_thread;
    event_->buffer_behind = queue_pair.receive_buffers[event_->send].behind;
  }
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
  look_for_ended_regions(step);
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
      note_drained(step);
      if (actors_[threads_[step.owner]].tasks_left == 0) {
        progress_.push_back(moment_);
      }
      break;
    default:
      break;
  }
  if (step.kind == StepKind::receive) {
    ++actors_[queue_pairs_[step.owner].actor].changes;  // as in show_message_later()
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
      loop.seen += mixed(mixed(2, old), old);
    }
  }
  if (request.opcode == Opcode::read && !failed && !actor.loops.empty()) {
    const std::uint64_t hash = mixed(request.local.length, request.local.bytes());
    for (Loop& loop : actor.loops) {
      loop.seen += mixed(mixed(1, hash), hash);
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
  if (parts_completions_ || machine_.posted({qp}) > step.index + 1) {
    // Later requests of the queue pair may continue before the client does. So may others, behind a revocation: what
    // completes later has failed, so the completion cannot come behind it as well.
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
  // Attempts in which a message came, or in which one was sent, cannot be left out: an empty one, too.
  ++actors_[of].changes;
  ++actors_[queue_pairs_[qp].actor].changes;
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
  ++actors_[queue_pairs_[qp].target].changes;  // as in show_message_later()
  actors_[queue_pairs_[qp].target].has_waited = true;
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
  actors_[queue_pairs_[qp].actor].has_waited = true;
  if (failed) {
    // Later requests of the queue pair have failed, too, and may be told first. The client finds the completions in
    // their order (rule 1), so it is told of the first one that failed: those before are done.
    while (sequence > 1 && machine_.failed({{qp}, static_cast<std::uint32_t>(sequence - 2)})) {
      --sequence;
    }
  }
  sequence += first_request_number(qp);
  if (failed) {
    if (queue_pair.state() == QueuePair::State::ready && sequence > queue_pair.completed_so_far()) {
      queue_pair.on_error(sequence, Status::retry_exceeded, "the target has revoked this queue pair");
    }
  } else if (queue_pair.state() == QueuePair::State::ready) {
    queue_pair.on_completed(sequence);
  }
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

// A store of a CPU comes into a buffer in flight. If the request stays behind the store, the NIC fetches it later.
// Otherwise it may have fetched the old bytes, or fetch the new ones.
void Execution::note_drained(const model::Step& step) {
  if (snapshots_live_ == 0) {
    return;
  }
  const model::Access target = machine_.footprint(step).target;
  for (std::size_t i = 0; i < snapshots_used_ && !failure_; ++i) {
    const Snapshot& snapshot = snapshots_[i];
    const std::byte* const begin = std::max(target.data, snapshot.data);
    const std::byte* const end = std::min(target.data + target.length, snapshot.data + snapshot.bytes.size());
    const bool stays_behind = actors_[queue_pairs_[snapshot.qp].actor].machine_thread == step.owner &&
                              step.index < requests_[snapshot.qp][snapshot.index].behind;
    if (!snapshot.live || begin >= end || stays_behind) {
      continue;
    }
    const std::size_t at = static_cast<std::size_t>(begin - snapshot.data);
    const std::size_t length = static_cast<std::size_t>(end - begin);
    const auto line = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(begin) / kLineBytes -
                                               reinterpret_cast<std::uintptr_t>(snapshot.data) / kLineBytes);
    if (!snapshot.fetched[line] && std::memcmp(begin, snapshot.bytes.data() + at, length) != 0) {
      report_changed_buffer(actors_[threads_[step.owner]].name, snapshot, at, at + length);
    }
  }
  renew_snapshots(target.data, target.length);
}

void Execution::report_changed_buffer(std::string_view who, const Snapshot& snapshot, std::uint64_t begin,
                                      std::uint64_t end) {
  const std::string_view sort = is_send(machine_.request({{snapshot.qp}, snapshot.index}).opcode) ? "SEND" : "WRITE";
  failure_ = Failure{Kind::buffer_race,
                     fmt::format("{} changed bytes {} to {} of the buffer of its {} qp{}[{}], which the NIC has not "
                                 "fetched yet",
                                 who, begin, end, sort, snapshot.qp, snapshot.index),
                     moment_,
                     {snapshot.posted},
                     false};
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
          report_changed_buffer(actors_[of].name, snapshot, piece.offset, piece.offset + piece.length);
        }
      }
      ++line;
    }
    std::memcpy(snapshot.bytes.data(), snapshot.data, snapshot.bytes.size());
  }
}

}  // namespace sidelatch::explore
