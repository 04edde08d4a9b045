// An execution's state as words: the same wherever it is reached from, so that a search through states knows it again.
//
// What counts: registered memory; all blocks of the program's heap and frames; its queue pairs; requests in flight;
// store buffers. What has another name in each execution gets one that follows from the state: blocks that were made
// while tasks ran are numbered in the order in which pointers lead to them, requests from the oldest one that its
// client does not know to be done. What does not count is listed in docs/explorer.md, each with its reason.
#include "execution.h"
#include "model_fabric.h"
#include "mutation.h"

#include <sidelatch/fabric/model/pieces.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

// What a word of memory is, where it is no plain number.
enum class Sort : std::uint64_t {
  fixed = 0xf1ed,  // a place in a block that the program makes at the same place each time
  block = 0xb10c,  // in another block
  registered = 0xa4e4,
  world = 0x3041,  // in an object of the world
  other = 0x07e4,  // in another object of the world, which nobody can look into
  gone = 0x90e0,   // in a block that was freed
  self = 0x5e1f,   // the execution
  stack = 0x57ac,
  request = 0x5e9d,
};

constexpr std::uint64_t named(Sort sort, std::uint64_t number) {
  return static_cast<std::uint64_t>(sort) << 48 | (number & 0xffff'ffff'ffff);
}

constexpr std::uint32_t kMostAttempts = 32;

// A smaller word is no address and no number of a request.
constexpr std::uint64_t kFewest = 0x1'0000;

}  // namespace

struct Execution::StateWriter {
  Execution* execution;
  std::vector<std::uint64_t>* out;
  std::uintptr_t stack_low;
  std::uintptr_t stack_high;
  std::uint32_t next_ordinal = 0;

  void visit(const Zone::View& view, bool of_world) {
    std::vector<std::uint32_t>& marks = of_world ? execution->world_marks_ : execution->ordinals_;
    if (marks[view.number] == 0) {
      marks[view.number] = ++next_ordinal;
      execution->queue_.emplace_back(view, of_world);
    }
  }

  // The name of a place in the program's heap or in the world's objects.
  std::uint64_t name_of(std::uintptr_t word) {
    Execution& of = *execution;
    if (of.zone_.holds(word)) {
      const Zone::View view = of.zone_.view_at(word);
      if (view.number == Zone::kNone) {
        return named(Sort::gone, 0);
      }
      visit(view, false);
      const std::uint64_t at = word - reinterpret_cast<std::uintptr_t>(of.zone_.base());
      return view.fixed ? named(Sort::fixed, at)
                        : named(Sort::block, std::uint64_t{of.ordinals_[view.number]} << 24 | (at - view.offset));
    }
    if (of.world_zone_.holds(word)) {
      const Zone::View view = of.world_zone_.view_at(word);
      if (view.number == Zone::kNone || !view.fixed) {
        // A queue pair that a task has made is known by its number.
        for (std::uint16_t qp = 0; qp < of.queue_pair_count() && view.number != Zone::kNone; ++qp) {
          const auto* const known = reinterpret_cast<const std::byte*>(of.queue_pairs_[qp].queue_pair);
          if (known == of.world_zone_.base() + view.offset) {
            return named(Sort::other, std::uint64_t{qp + 1U} << 24 | (word - reinterpret_cast<std::uintptr_t>(known)));
          }
        }
        return named(Sort::other, 0);
      }
      return named(Sort::world, word - reinterpret_cast<std::uintptr_t>(of.world_zone_.base()));
    }
    return word;
  }

  std::uint64_t plain(std::uint64_t word) {
    if (word < kFewest) {
      return word;
    }
    if (may_be_request_number(word)) {
      const std::uint16_t qp = queue_pair_of(word);
      const std::uint64_t number = word - first_request_number(qp);
      if (execution->compares_tallies_ || qp >= execution->queue_pair_count() || word < first_request_number(qp)) {
        return word;
      }
      const std::uint64_t known = execution->completed_of(qp);
      return named(Sort::request, std::uint64_t{qp} << 32 | (number > known ? number - known : 0));
    }
    if (word - stack_low < stack_high - stack_low) {
      return named(Sort::stack, 0);
    }
    const std::uint64_t named_word = name_of(word);
    if (named_word != word) {
      return named_word;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a word of a frame that may be a pointer
    const auto* const byte = reinterpret_cast<const std::byte*>(word);
    if (execution->arena_.holds(byte)) {
      return named(Sort::registered, execution->arena_.range(byte, 0, false).begin);
    }
    const std::uintptr_t in_self = word - reinterpret_cast<std::uintptr_t>(execution);
    if (in_self < sizeof(Execution)) {
      return named(Sort::self, in_self);
    }
    const bool on_a_stack = std::ranges::any_of(
        execution->stacks_, [word](const Stack& stack) { return word - stack.low < stack.top - stack.low; });
    return on_a_stack ? named(Sort::stack, 0) : word;
  }

  // The same where nothing is left out. Most states are nothing else, and most words are plain.
  void whole(std::span<const std::byte> bytes, bool has_pointers) {
    const std::size_t begin = out->size();
    out->resize(begin + (bytes.size() + 7) / 8);
    if (!bytes.empty()) {
      std::memcpy(out->data() + begin, bytes.data(), bytes.size());
    }
    for (std::size_t i = begin; has_pointers && i < out->size(); ++i) {
      std::uint64_t& word = (*out)[i];
      if (word >= kFewest) {
        word = plain(word);
      }
    }
  }

  // Words of memory, without the bytes that are left out.
  void bytes(std::span<const std::byte> bytes, bool has_pointers) {
    std::vector<std::span<const std::byte>>& here = execution->left_out_here_;
    here.clear();
    for (const std::span<const std::byte> span : execution->left_out_) {
      if (span.data() < bytes.data() + bytes.size() && bytes.data() < span.data() + span.size()) {
        here.push_back(span);
      }
    }
    if (here.empty()) {
      whole(bytes, has_pointers);
      return;
    }
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      const std::byte* const begin = bytes.data() + at;
      const bool is_left_out = std::ranges::any_of(here, [begin](const std::span<const std::byte> span) {
        return begin >= span.data() && begin < span.data() + span.size();
      });
      std::uint64_t word = 0;
      if (!is_left_out) {
        std::memcpy(&word, begin, std::min<std::size_t>(8, bytes.size() - at));
      }
      out->push_back(has_pointers ? plain(word) : word);
    }
  }

  void queued() {
    for (std::size_t i = 0; i < execution->queue_.size(); ++i) {  // NOLINT(modernize-loop-convert): it grows
      const auto [view, of_world] = execution->queue_[i];
      const Zone& zone = of_world ? execution->world_zone_ : execution->zone_;
      out->push_back(view.fixed ? view.offset : ~view.bytes);
      if (!of_world && has(Mutation::states_without_heap)) {
        continue;
      }
      bytes({zone.base() + view.offset, view.bytes}, true);
    }
    execution->queue_.clear();
  }
};

std::uint64_t Execution::completed_of(std::uint16_t qp) const {
  const ModelQueuePair* const known = qp < queue_pair_count() ? queue_pairs_[qp].queue_pair : nullptr;
  return known == nullptr ? 0 : known->completed_so_far() - first_request_number(qp);
}

void Execution::runs_below(const void* stack_top) {
  stack_top_ = stack_top;
  if (const std::uintptr_t low = lowest_of_this_stack(); low != 0) {
    leave_out_stack(low, reinterpret_cast<std::uintptr_t>(stack_top));
  }
}

void Execution::leave_out_stack(std::uintptr_t low, std::uintptr_t top) {
  const auto known = std::ranges::find(stacks_, low, &Stack::low);
  if (known == stacks_.end()) {
    stacks_.push_back({low, top});
  } else {
    known->top = std::max(known->top, top);
  }
}

void Execution::append_start(std::vector<std::uint64_t>& out) {
  left_out_.clear();
  ordinals_.assign(zone_.block_count(), 0);
  world_marks_.assign(world_zone_.block_count(), 0);
  const std::uintptr_t low = lowest_of_this_stack();
  StateWriter writer{this, &out, low, low == 0 ? 0 : reinterpret_cast<std::uintptr_t>(stack_top_)};
  const auto follow = [&](const void* object) {
    out.push_back(writer.plain(reinterpret_cast<std::uintptr_t>(object)));
    writer.queued();
  };
  for (const Actor& actor : actors_) {
    for (const Task<void>& task : actor.tasks) {
      follow(frame_of(task));
    }
  }
  for (const Kept& kept : kept_) {
    follow(kept.object);
  }
}

void Execution::append_state(std::vector<std::uint64_t>& out) {
  left_out_.clear();
  if (!compares_tallies_) {
    for (const Tally& tally : tallies_) {
      if (zone_.life_at(tally.bytes.data()) == tally.life) {
        left_out_.push_back(tally.bytes);
      }
    }
  }
  // What is left in a free buffer counts until no NIC needs it any more.
  for (const Reactor::Spares* const spares : spares_) {
    const std::size_t before = left_out_.size();
    spares->append_to(left_out_);
    left_out_.erase(std::remove_if(left_out_.begin() + static_cast<std::ptrdiff_t>(before), left_out_.end(),
                                   [&](const std::span<const std::byte> bytes) {
                                     return !arena_.holds(bytes.data()) || is_in_flight(bytes);
                                   }),
                    left_out_.end());
  }
  known_.clear();
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    known_.push_back(queue_pairs_[qp].queue_pair == nullptr ? ~0U : static_cast<std::uint32_t>(completed_of(qp)));
    if (queue_pairs_[qp].queue_pair != nullptr) {
      queue_pairs_[qp].queue_pair->append_bookkeeping(left_out_);
    }
  }
  ordinals_.assign(zone_.block_count(), 0);
  world_marks_.assign(world_zone_.block_count(), 0);
  const std::uintptr_t low = lowest_of_this_stack();
  StateWriter writer{this, &out, low, low == 0 ? 0 : reinterpret_cast<std::uintptr_t>(stack_top_)};
  // First the waiting tasks, so that blocks get their numbers from them.
  for (const Actor& actor : actors_) {
    out.push_back(actor.tasks_left);
    out.push_back(actor.tag);
    if (compares_clock_ && !has(Mutation::clock_left_out)) {
      out.push_back(static_cast<std::uint64_t>(actor.clock.count()));
      out.push_back(actor.has_waited ? 1 : 0);
    }
    by_slot_.clear();
    for (const Suspended& suspended : actor.suspended) {
      if (!has(Mutation::states_without_next_steps)) {
        by_slot_.push_back(&suspended);
      }
    }
    std::ranges::sort(by_slot_, {}, &Suspended::slot);
    for (const Suspended* const waiting : by_slot_) {
      const Suspended& suspended = *waiting;
      out.push_back(std::uint64_t{suspended.slot} << 48 | static_cast<std::uint64_t>(suspended.what) << 32 |
                    (suspended.what == Step::What::start ? suspended.number : 0));
      out.push_back(writer.plain(reinterpret_cast<std::uintptr_t>(suspended.step)));
      out.push_back(writer.plain(reinterpret_cast<std::uintptr_t>(suspended.access)));
      out.push_back(writer.plain(reinterpret_cast<std::uintptr_t>(suspended.waiter)));
      out.push_back(suspended.qp);
      out.push_back(suspended.sequence == 0 ? 0 : suspended.sequence - completed_of(suspended.qp));
    }
    out.push_back(actor.suspended.size());
  }
  for (const QueuePairPart& part : queue_pairs_) {
    out.push_back(part.queue_pair == nullptr ? 0 : 1);
    if (part.queue_pair != nullptr) {
      writer.visit(world_zone_.view_at(reinterpret_cast<std::uintptr_t>(part.queue_pair)), true);
      writer.queued();
    }
  }
  for (const auto fixed : {true, false}) {
    for (std::uint32_t i = 0; i < zone_.block_count(); ++i) {
      const Zone::View view = zone_.view(i);
      if (view.number != Zone::kNone && view.fixed == fixed && ordinals_[i] == 0) {
        if (!fixed) {
          out.push_back(view.offset);  // nothing leads to it
        }
        writer.visit(view, false);
        writer.queued();
      }
    }
  }
  arena_.for_each([&](std::uint64_t offset, std::span<const std::byte> bytes) {
    out.push_back(offset);
    if (!has(Mutation::states_without_memory)) {
      writer.bytes(bytes, false);
    }
  });
  // Requests, NICs and store buffers.
  const auto place = [&](const std::byte* byte) -> std::uint64_t {
    if (byte == nullptr) {
      return 0;
    }
    return arena_.holds(byte) ? named(Sort::registered, arena_.range(byte, 0, false).begin) : named(Sort::other, 0);
  };
  if (!has(Mutation::states_without_requests)) {
    machine_.append_state(known_, place, out);
  }
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    const std::uint32_t posted = machine_.posted({qp});
    for (std::uint32_t i = std::min(known_[qp], posted); i < posted; ++i) {
      out.push_back(requests_[qp][i].tag);
    }
  }
  // In the order of their requests: which one was posted first is no part of the state.
  by_request_.clear();
  for (std::size_t i = 0; i < snapshots_used_ && snapshots_live_ != 0; ++i) {
    if (snapshots_[i].live) {
      by_request_.push_back(&snapshots_[i]);
    }
  }
  std::ranges::sort(by_request_, {},
                    [](const Snapshot* snapshot) { return std::uint64_t{snapshot->qp} << 32 | snapshot->index; });
  for (const Snapshot* const snapshot : by_request_) {
    out.push_back(std::uint64_t{snapshot->qp} << 32 |
                  (snapshot->index - std::min(known_[snapshot->qp], snapshot->index)));
    for (const bool is_fetched : snapshot->fetched) {
      out.push_back(is_fetched ? 1 : 0);
    }
    writer.bytes(snapshot->bytes, false);
  }
}

// ---- Retries.

std::uint64_t Execution::on_retry_by_states(Actor& actor, Loop& loop, Waiter& waiter) {
  actor.last_retry = moment_;
  if (!observers_.empty()) {
    const Zone::Use use(&zone_);
    for (const Observer& observer : observers_) {
      observer.retried(actor.tag);
    }
  }
  const bool is_before_head = loop.retries_to_head != 0;
  if (is_before_head) {
    --loop.retries_to_head;
  } else if (++loop.failed > kMostAttempts) {
    is_cut_ = true;
    if (!first_cut_) {
      AttemptEnd end;
      end.quiet = is_quiet(running_);
      end.changes = actor.changes;
      look_at(running_, waiter, false, end.state);
      cut(running_, loop, end);
    }
  }
  if (loop.failed + 1 >= kMostAttempts) {
    AttemptEnd& end = loop.ends.emplace_back();
    look_at(running_, waiter, false, end.state);
    loop.changes_at_head = actor.changes;
  }
  const std::uint64_t wait = go_on_later(Step::What::retry, waiter);
  if (is_before_head) {
    done_at_head_ = done_in_step();
  }
  return wait;
}

// ---- Steps that may come first.

// Whether a task of the client may run before request `index` of `qp` has completed.
bool Execution::client_may_run_before(std::uint16_t of, std::uint16_t qp, std::uint32_t index) const {
  if (!actors_[of].suspended.empty() || !shared_with(actors_[of]).empty()) {
    return true;
  }
  for (std::uint16_t other = 0; other < queue_pair_count(); ++other) {
    if (queue_pairs_[other].target == of) {
      return true;  // somebody else writes to its memory, or sends
    }
    if (queue_pairs_[other].actor != of) {
      continue;
    }
    const std::uint32_t end = other == qp ? index : machine_.posted({other});
    for (auto i = static_cast<std::uint32_t>(completed_of(other)); i < end; ++i) {
      if (!machine_.completed({{other}, i}) && (requests_[other][i].signaled || machine_.failed({{other}, i}))) {
        return true;
      }
    }
  }
  return std::ranges::any_of(threads_, [&](std::uint16_t thread) {
    const Actor& actor = actors_[thread];
    return actor.node == of && (thread != of || !machine_.drained({actor.machine_thread}));
  });
}

bool Execution::is_in_flight(std::span<const std::byte> bytes) const {
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    const std::uint32_t posted = machine_.posted({qp});
    for (auto i = static_cast<std::uint32_t>(completed_of(qp)); i < posted; ++i) {
      const LocalSpan& local = machine_.request({{qp}, i}).local;
      if (local.data != nullptr && local.data < bytes.data() + bytes.size() &&
          bytes.data() < local.data + local.length) {
        return true;
      }
    }
  }
  return false;
}

// Whether another request of the client that is in flight has the same local bytes.
bool Execution::overlaps_in_flight(std::uint16_t of, const model::Step& step) const {
  const LocalSpan& local = machine_.request(step.wr()).local;
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    if (queue_pairs_[qp].actor != of) {
      continue;
    }
    const std::uint32_t posted = machine_.posted({qp});
    for (auto i = static_cast<std::uint32_t>(completed_of(qp)); i < posted; ++i) {
      const LocalSpan& other = machine_.request({{qp}, i}).local;
      if ((qp != step.owner || i != step.index) && other.data != nullptr && local.data < other.data + other.length &&
          other.data < local.data + local.length) {
        return true;
      }
    }
  }
  return false;
}

// A revocation may come before any of them: what was placed may fail, and the result of an atomic not be delivered.
bool Execution::may_come_first(const Action& action) const {
  if (action.sort != Action::Sort::machine || orders_revocations_) {
    return false;
  }
  const model::Step step = action.step();
  const std::uint16_t qp = step.owner;
  switch (step.kind) {
    case StepKind::fetch:
    case StepKind::deliver: {
      // It moves bytes to or from a buffer that nobody looks at or changes before the request has completed.
      const std::uint16_t of = queue_pairs_[qp].actor;
      const bool of_results = !arena_.holds(machine_.request(step.wr()).local.data);
      return of_results || has(Mutation::buffers_come_first) ||
             (!client_may_run_before(of, qp, step.index) && !overlaps_in_flight(of, step));
    }
    case StepKind::complete:
      // Rule 2: nobody waits for a request that is placed. And nobody is told.
      return !requests_[qp][step.index].signaled && !machine_.failed(step.wr()) &&
             (machine_.placed(step.wr()) || has(Mutation::untold_completions_come_first)) &&
             !is_send(machine_.request(step.wr()).opcode);
    default:
      return false;
  }
}

void Execution::remember_awaited() {
  awaited_before_.clear();
  for (const QueuePairPart& part : queue_pairs_) {
    awaited_before_.push_back(part.queue_pair == nullptr ? 0 : part.queue_pair->last_awaited());
  }
}

// Whether something of the client waits that waited before this step, for a step of its own or for a request: a task
// may have started a coroutine by itself.
bool Execution::waits_beside_this_step(std::uint16_t of) const {
  const auto waited_before = [this, of](const Suspended& suspended) {
    return std::ranges::find(event_->suspensions, Event::Suspension{of, suspended.number}) == event_->suspensions.end();
  };
  if (std::ranges::any_of(actors_[of].suspended, waited_before)) {
    return true;
  }
  for (std::size_t qp = 0; qp < awaited_before_.size(); ++qp) {
    const ModelQueuePair* const known = queue_pairs_[qp].queue_pair;
    if (queue_pairs_[qp].actor == of && known != nullptr && awaited_before_[qp] > known->completed_so_far()) {
      return true;
    }
  }
  return false;
}

// A client has run. Nobody can tell when, if it touched nothing but its own frames and buffers and posted requests: a
// request that is posted earlier may do more, and nothing less (rule 2). A completion of what is not placed is no such
// step: what anybody posts later is ordered after it. The client's NIC must have nothing in hand that the client could
// have seen, or changed. Other tasks of the client, and CPU threads of its node, may look at anything of it.
bool Execution::could_come_first() const {
  if (orders_revocations_) {
    return false;  // what is posted earlier may meet the queue pair before its revocation
  }
  const Event& event = *event_;
  const std::uint16_t of = event.client;
  const bool judged = event.judged && !has(Mutation::judged_steps_come_first);
  const bool looked = event.own.begin != event.own.end && !has(Mutation::looks_come_first);
  const bool destroyed = event.disables && !has(Mutation::destructions_are_reduced);
  if (of == Event::kNone || !event.ran || judged || event.global || destroyed || event.allocates_at != Event::kNone ||
      looked || !event.changed.empty() || event.ended.begin != event.ended.end || actors_[of].is_cpu || failure_ ||
      !machine_.drained({actors_[of].machine_thread})) {
    return false;
  }
  if (looks_at_progress_ && !has(Mutation::looks_come_first)) {
    return false;  // what is in flight may complete before
  }
  const bool has_siblings = actors_[of].tasks_left + ended_in_step_ > 1 ||
                            reactor_->spawned_so_far() != tasks_running_ || waits_beside_this_step(of);
  if (has_siblings && !has(Mutation::siblings_come_first)) {
    return false;
  }
  const auto is_beside = [&](std::uint16_t thread) { return thread != of && actors_[thread].node == of; };
  if (std::ranges::any_of(threads_, is_beside)) {
    return false;
  }
  if (event.action.sort == Action::Sort::machine) {
    const model::WrId wr = event.action.step().wr();
    const bool placed = machine_.placed(wr) || has(Mutation::completions_come_first);
    if (event.action.kind != StepKind::complete || machine_.failed(wr) || !placed ||
        is_send(machine_.request(wr).opcode)) {
      return false;
    }
  } else if (last_what_ != Step::What::start && last_what_ != Step::What::yield && last_what_ != Step::What::retry &&
             last_what_ != Step::What::completion) {
    return false;
  }
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    if (queue_pairs_[qp].target == of && !has(Mutation::looks_come_first)) {
      return false;
    }
    if (queue_pairs_[qp].actor != of) {
      continue;
    }
    const ModelQueuePair* const pair = queue_pairs_[qp].queue_pair;
    if (pair == nullptr) {
      continue;  // destroyed, with nothing in flight
    }
    if (pair->is_short_of_room() && !has(Mutation::looks_come_first) && !has(Mutation::full_queues_come_first)) {
      return false;  // if more had completed before, it would not wait, or not be signalled
    }
    if (has(Mutation::deliveries_are_unseen)) {
      continue;
    }
    const std::uint32_t posted = machine_.posted({qp});
    for (auto i = static_cast<std::uint32_t>(completed_of(qp)); i < posted; ++i) {
      const model::WrId wr{{qp}, i};
      const Opcode opcode = machine_.request(wr).opcode;
      const bool delivers = opcode == Opcode::read || is_atomic(opcode);
      if (delivers && !machine_.completed(wr) && times_[qp][i].posted + 1 < moment_ &&
          arena_.holds(machine_.request(wr).local.data)) {
        return false;
      }
    }
  }
  return true;
}

// ---- Names of actions, for fairness.

std::uint32_t Execution::lasting_name(const Action& action) const {
  if (action.sort == Action::Sort::machine && action.kind == StepKind::drain) {
    return 0x8000'0000U | action.owner;
  }
  if (action.sort == Action::Sort::machine) {
    // A request that takes no step stays at its place among the unfinished ones of its queue pair.
    const std::uint32_t place = machine_.unfinished_before(action.step().wr());
    if (action.owner >= 0x800 || place > 0xff || action.piece > 0xff) {
      no_states_ = "it has more than 2048 queue pairs, 256 requests in flight on one, or 256 pieces of one";
    }
    return std::uint32_t{action.owner} << 20 | (place & 0xffU) << 12 | static_cast<std::uint32_t>(action.kind) << 8 |
           (action.piece & 0xffU);
  }
  const Actor& actor = actors_[action.owner];
  const auto found = std::ranges::find(actor.suspended, action.index, &Suspended::number);
  return 0xc000'0000U | std::uint32_t{action.owner} << 12 | found->slot;
}

void Execution::append_waiting_atomics(std::vector<std::uint32_t>& out) const {
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    const std::uint32_t posted = machine_.posted({qp});
    for (auto i = static_cast<std::uint32_t>(completed_of(qp)); i < posted; ++i) {
      if (machine_.waits_for_word({qp}, i)) {
        out.push_back(lasting_name({Action::Sort::machine, StepKind::load, 0, qp, i, 0}));
      }
    }
  }
}

// ---- Observers.

void Execution::observe(Observer observer) {
  if (by_states_) {
    const Zone::Use own(nullptr);
    observers_.push_back(std::move(observer));
  }
}

void Execution::tell_observers(const model::Step& step) {
  const bool touches = step.kind == StepKind::place || step.kind == StepKind::sample || step.kind == StepKind::load ||
                       step.kind == StepKind::store || step.kind == StepKind::load_store ||
                       step.kind == StepKind::execute || step.kind == StepKind::drain;
  if (!touches) {
    return;
  }
  const model::Footprint print = machine_.footprint(step);
  if (print.target.length == 0) {
    return;
  }
  Order::Access access{moment_, 0, print.address, print.target.length, nullptr};
  bool changes = true;
  if (step.kind == StepKind::drain) {
    access.node = node(threads_[step.owner]);
  } else {
    const Opcode opcode = machine_.request(step.wr()).opcode;
    const bool failed_swap =
        opcode == Opcode::compare_swap && machine_.loaded_value(step.wr()) != machine_.request(step.wr()).compare;
    changes = step.kind != StepKind::load && opcode != Opcode::read && !failed_swap;
    access.tag = requests_[step.owner][step.index].tag;
    access.node = node(queue_pairs_[step.owner].target);
  }
  event_->judged = event_->judged || changes;
  const Zone::Use use(&zone_);
  for (const Observer& observer : observers_) {
    (changes ? observer.changed : observer.sampled)(access);
  }
}

}  // namespace sidelatch::explore
