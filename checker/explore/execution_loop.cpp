// Retry loops: when an attempt may be left out, and what becomes of clients that wait when nothing else can happen.
//
// An attempt that failed may be left out if it has left no trace: nothing of the client was under way at its head or at
// its end, the client did nothing that others can see in between (a change that was undone was seen), and all that the
// client knows is the same at both ends, byte for byte. Then every execution with the attempt is also one without it.
#include "execution.h"
#include "model_fabric.h"
#include "mutation.h"
#include "word_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

// Attempts of one loop that changed nothing for others, but something for the client itself.
constexpr std::uint32_t kMostSilentAttempts = 8;
// Attempts of a client that runs alone at the end.
constexpr std::uint32_t kMostAttemptsAlone = 64;
constexpr std::uint32_t kMostTailRounds = 64;
// Ends of attempts that are kept for comparison. A loop that begins again and again has many.
constexpr std::size_t kMostEnds = 64;

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string to_string(const Cut& cut) {
  if (!cut.other.empty()) {
    return cut.other;
  }
  return fmt::format("the loop of {} at {}, of which {} attempts failed and differ ({}),", cut.client, cut.place,
                     cut.attempts, cut.difference);
}

Reactor::LoopId Execution::on_begin_loop(const std::source_location& place, bool forgets) {
  if (running_ == Event::kNone) {
    return Reactor::kNoLoop;
  }
  const Zone::Use own(nullptr);
  note_changed_objects(running_);  // before the loop
  Actor& actor = actors_[running_];
  ++actor.progress;
  progress_.push_back(moment_);
  // A loop that begins again has its number again, so that states in which only the number differs are equal.
  const auto same = std::ranges::find_if(actor.loops, [&](const Loop& loop) {
    return loop.place.line() == place.line() && loop.place.column() == place.column() &&
           std::string_view(loop.place.file_name()) == place.file_name();
  });
  if (same != actor.loops.end()) {
    // What a loop that forgets had in its frame in an earlier call was left out, so its ends tell nothing of this call.
    std::vector<AttemptEnd> ends = forgets ? std::vector<AttemptEnd>() : std::move(same->ends);
    const std::uint32_t silent = same->began == moment_ ? same->silent : 0;
    *same = {.place = place,
             .forgets = forgets && trusts_,
             .retries_to_head = forgets ? 2U : 0U,
             .ends = std::move(ends),
             .silent = silent,
             .changes_at_head = actor.changes,
             .began = moment_};
    return static_cast<Reactor::LoopId>(same - actor.loops.begin() + 1);
  }
  actor.loops.push_back({.place = place,
                         .forgets = forgets && trusts_,
                         .retries_to_head = forgets ? 2U : 0U,
                         .changes_at_head = actor.changes,
                         .began = moment_});
  return static_cast<Reactor::LoopId>(actor.loops.size());
}

// The client's NIC does nothing for it, and it has no other task.
bool Execution::is_quiet(std::uint16_t of) const {
  const Actor& actor = actors_[of];
  // What others of its tasks wait for may come without anything that the comparison sees.
  const std::int64_t spawned = actor.spawned + (watched_ == of ? spawned_in_step() : 0);
  if (actor.tasks_left != 1 || !actor.suspended.empty() || spawned != 0 || !machine_.drained({actor.machine_thread})) {
    return false;
  }
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    if (queue_pairs_[qp].actor == of && !machine_.idle({qp})) {
      return false;
    }
  }
  return true;
}

// Nothing that the client can look at changes before it posts something, and nobody sees whether it goes on.
bool Execution::is_undisturbed(std::uint16_t of) {
  if (!is_quiet(of) || !shared_with(actors_[of]).empty() || (orders_objects_ && reaches_shared_objects(of))) {
    return false;
  }
  if (shows_changes_to_judges()) {
    return false;  // they see where it crashes
  }
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    if (i != of && actors_[i].node == actors_[of].node) {
      return false;  // CPU threads of its node reach its buffers
    }
  }
  // Messages come into its receive buffers.
  return std::ranges::none_of(queue_pairs_, [&](const QueuePairPart& part) { return part.target == of; });
}

void Execution::look_at(std::uint16_t of, const Waiter& waiter, bool leaves_out_frame, ClientState& state) {
  const Actor& actor = actors_[of];
  state.clear();
  state.leave_out_stack(stack_top_);
  left_out_.clear();
  for (const Tally& tally : tallies_) {
    if (!compares_tallies_ && zone_.life_at(tally.bytes.data()) == tally.life) {
      left_out_.push_back(tally.bytes);
    }
  }
  for (const Reactor::Spares* const spares : spares_) {
    spares->append_to(left_out_);
  }
  roots_.assign(1, &waiter);
  for (const std::span<const std::byte> region : regions_of(actor)) {
    for (std::size_t at = 0; at + sizeof(void*) <= region.size(); at += sizeof(void*)) {
      const void* word = nullptr;
      std::memcpy(&word, region.data() + at, sizeof word);
      roots_.push_back(word);
    }
  }
  zone_.reachable(roots_, blocks_);
  const auto completed = [&](std::uint16_t qp) -> std::uint64_t { return compares_tallies_ ? 0 : completed_of(qp); };
  const std::span<const std::byte> frame = zone_.block_at(&waiter);
  for (const std::span<const std::byte> block : blocks_) {
    if ((leaves_out_frame && block.data() == frame.data()) || has(Mutation::frames_left_out)) {
      continue;
    }
    state.add(block, false, completed);
    for (const std::span<const std::byte> bytes : left_out_) {
      state.leave_out(bytes);
    }
  }
  for (const std::span<const std::byte> region : regions_of(actor)) {
    if (has(Mutation::buffers_left_out)) {
      break;
    }
    state.add(region, true, completed);
    for (const std::span<const std::byte> bytes : left_out_) {
      state.leave_out(bytes);
    }
  }
  state.add_number(actor.tag);
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    if (queue_pairs_[qp].actor == of) {
      const ModelQueuePair* const known = queue_pairs_[qp].queue_pair;
      state.add_number(known == nullptr ? 0 : 1 + static_cast<std::uint64_t>(known->state()));
      state.add_number(known == nullptr ? 0 : known->outstanding_so_far());
      state.add_number(known == nullptr ? 0 : known->unsignaled());
      const bool receives = known != nullptr && known->receives() != nullptr;
      state.add_number(receives ? known->receives()->unread() : 0);
    }
  }
}

// Whether an earlier attempt of the loop ended in the same way, with nothing in between that anybody could see. A
// client that runs alone repeats itself also if it undid what it changed: nobody else was there to see it.
bool Execution::repeats_an_attempt(const Actor& actor, const Loop& loop, const AttemptEnd& end) const {
  return end.quiet && std::ranges::any_of(loop.ends, [&](const AttemptEnd& earlier) {
           const bool unseen = in_tail_ ? earlier.in_tail && earlier.memory == end.memory
                                        : (earlier.changes == actor.changes || has(Mutation::changes_do_not_count)) &&
                                              earlier.looks == actor.looks;
           return earlier.quiet && unseen && earlier.clock == end.clock && earlier.leases == end.leases &&
                  earlier.state == end.state;
         });
}

void Execution::cut(std::uint16_t of, const Loop& loop, const AttemptEnd& end) {
  is_cut_ = !has(Mutation::cuts_are_not_told);
  if (first_cut_) {
    return;
  }
  Cut& cut = first_cut_.emplace();
  cut.client = actors_[of].name;
  cut.place = fmt::format("{}:{}", file_name(loop.place.file_name()), loop.place.line());
  cut.attempts = loop.failed + loop.silent;
  if (!end.quiet) {
    cut.difference = actors_[of].tasks_left != 1 || actors_[of].spawned != 0 ? "another task of the client is there"
                                                                             : "requests are in flight";
  } else if (loop.changes_at_head != end.changes) {
    cut.difference = fmt::format("the last one made {} stores or placements that others can see",
                                 end.changes - loop.changes_at_head);
  } else if (loop.ends.empty()) {
    cut.difference = "there was but one";
  } else {
    cut.difference = loop.ends.back().state.difference(end.state);
  }
}

void Execution::cut_because(const std::string& client, std::string why) {
  is_cut_ = true;
  if (!first_cut_ || first_cut_->other.empty()) {  // it says more than that a loop was not followed
    first_cut_ = Cut{client, {}, 0, {}, std::move(why)};
  }
}

// A task that waits may be destroyed.
void Execution::on_retry_cancelled(std::uint64_t number) noexcept {
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    forget_steps(i, [&](const Suspended& suspended) {
      return suspended.waiter != nullptr &&
             (suspended.wait == number || reinterpret_cast<std::uintptr_t>(suspended.waiter) == number);
    });
    std::erase_if(actors_[i].parked, [&](const Parked& parked) { return parked.number == number; });
  }
  std::erase_if(going_on_, [&](const GoesOn& next) { return reinterpret_cast<std::uintptr_t>(next.waiter) == number; });
}

// It goes on in this step, unless it turns out that something else of its client does: a task may have started it by
// itself, and goes on first.
std::uint64_t Execution::go_on_at_once(Step::What what, Waiter& waiter) {
  going_on_.push_back({&waiter, what});
  return reinterpret_cast<std::uintptr_t>(&waiter);
}

void Execution::settle_what_goes_on() {
  if (going_on_.empty() && !done_at_head_) {
    return;
  }
  const Zone::Use own(nullptr);
  if (done_at_head_ && !has(Mutation::heads_are_waits) && (*done_at_head_ != done_in_step() || reactor_->has_ready())) {
    note_blind_spot(fmt::format(
        "{}, which has started a coroutine by itself that begins an operation of the library, and goes on (let "
        "Reactor::spawn start it),",
        actors_[running_].name));
  }
  done_at_head_.reset();
  const bool at_once = going_on_.size() == 1 && !reactor_->has_ready() && (runs_the_dead() || is_undisturbed(running_));
  for (const GoesOn& next : going_on_) {
    if (at_once || next.is_head) {
      reactor_->ready(*next.waiter);
    } else {
      static_cast<void>(go_on_later(next.what, *next.waiter));
    }
  }
  going_on_.clear();
}

// What the running client has done in this step, as a number that grows.
std::uint64_t Execution::done_in_step() const {
  return event_->posts.size() + event_->receives.size() + event_->suspensions.size() + going_on_.size() +
         ended_in_step_ + calls_in_step_ + actors_[running_].progress;
}

// No other task of the running client waits for a step, or could go on before it.
bool Execution::is_alone_in_client() const {
  const Actor& actor = actors_[running_];
  return actor.tasks_left == 1 && actor.suspended.empty() && actor.spawned + spawned_in_step() == 0 &&
         !reactor_->has_ready();
}

std::uint64_t Execution::on_retry(Reactor::LoopId number, Duration /*duration*/, Waiter& waiter) {
  const std::uint16_t of = running_;
  Actor& actor = actors_[of];
  Loop& loop = actor.loops[number - 1];
  const bool is_before_head = loop.retries_to_head != 0;
  if (is_before_head && !is_alone_in_client() && !has(Mutation::heads_are_waits)) {
    --loop.retries_to_head;
    return 0;  // other worlds do not wait here, so no other task may come between
  }
  const Zone::Use own(nullptr);
  const Guard::Pause looks(guard_);
  note_changed_objects(of);
  actor.last_retry = moment_;
  actor.has_waited = true;
  if (by_states_) {
    return on_retry_by_states(actor, loop, waiter);
  }
  AttemptEnd end;
  look_at(of, waiter, loop.forgets, end.state);
  end.quiet = is_quiet(of) && !blocks_.empty();
  end.changes = actor.changes;
  end.looks = actor.looks;
  end.in_tail = in_tail_;
  end.clock = in_tail_ || has(Mutation::clock_left_out) ? Time{} : actor.clock;
  end.leases = in_tail_ ? 0 : actor.leases_used;
  end.memory = in_tail_ ? arena_.hash() : 0;
  if (is_before_head) {
    if (--loop.retries_to_head == 0) {
      loop.ends.push_back(std::move(end));
    }
    const std::uint64_t wait = go_on_at_once(Step::What::retry, waiter);
    going_on_.back().is_head = true;
    done_at_head_ = done_in_step();
    return wait;
  }
  const bool repeated = repeats_an_attempt(actor, loop, end);
  const bool wrote = actor.changes != loop.changes_at_head;
  bool again = !repeated;
  if (again && in_tail_) {
    again = ++loop.silent <= kMostAttemptsAlone;
  } else if (again && wrote) {
    // What an attempt has read decides whether another one is worth the time; the verdict says that it was not made.
    again = loop.failed++ < writing_retries_ && loop.met.insert(loop.seen).second;
  } else if (again) {
    again = ++loop.silent <= kMostSilentAttempts;
  }
  if (!repeated && !again) {
    cut(of, loop, end);
  }
  // A client that counts its attempts, or keeps something else of them, may not fail like this for ever.
  const bool knows_the_same = !loop.ends.empty() && loop.ends.back().state == end.state &&
                              (!clock_read_ || loop.ends.back().clock == end.clock);
  const bool alike = wrote && loop.failed > 1 && loop.seen == loop.seen_before && knows_the_same;
  loop.repeats = alike ? std::optional<Loop::Repetition>({loop.began, moment_}) : std::nullopt;
  loop.seen_before = loop.seen;
  loop.began = moment_;
  loop.seen = 0;
  loop.changes_at_head = actor.changes;
  if (!loop.ends.empty() && !in_tail_ &&
      (loop.ends.back().changes != actor.changes || loop.ends.back().looks != actor.looks)) {
    loop.ends.clear();  // none of them can be repeated any more
  }
  const std::uint64_t state = end.state.hash();
  if (loop.ends.size() == kMostEnds) {
    loop.ends.erase(loop.ends.begin());
  }
  loop.ends.push_back(std::move(end));
  if (again && !is_undisturbed(of)) {
    return go_on_later(Step::What::retry, waiter);
  }
  if (again) {
    return go_on_at_once(Step::What::retry, waiter);
  }
  actor.parked.push_back({&waiter, ++retries_, number, actor.progress + actor.changes, state});
  return retries_;
}

// ---- The end.

std::uint64_t Execution::state_of_parked() const {
  std::uint64_t hash = arena_.hash();
  for (const Actor& actor : actors_) {
    hash = mixed(hash, actor.tasks_left);
    for (const Parked& parked : actor.parked) {
      hash = mixed(mixed(hash, parked.state), parked.loop);
    }
  }
  return hash;
}

void Execution::enter_tail() noexcept {
  in_tail_ = true;
  for (Actor& actor : actors_) {
    for (Loop& loop : actor.loops) {
      loop.ends.clear();
      loop.silent = 0;
    }
  }
}

void Execution::run_tail(std::vector<Action>* record) {
  if (!in_tail_) {  // a replay goes on from the end of a trace
    note_leases_left();
    enter_tail();
  }
  const bool was_cut = is_cut_;
  is_cut_ = false;
  std::uint32_t rounds = 0;
  while (has_parked() && !failure_ && !is_cut_) {
    const std::uint64_t before = state_of_parked();
    for (std::uint16_t i = 0; i < actor_count() && !failure_; ++i) {
      if (i == crashed_ || actors_[i].parked.empty()) {
        continue;
      }
      Action next{Action::Sort::lease, StepKind::fetch, 0, i, actors_[i].leases_used, 0};
      for (;;) {
        repeat(next);
        if (record != nullptr) {
          record->push_back(next);
        }
        enabled(tail_actions_);
        std::erase_if(tail_actions_, [](const Action& action) { return action.sort == Action::Sort::lease; });
        if (tail_actions_.empty() || failure_) {
          break;
        }
        next = tail_actions_.front();
      }
    }
    if (failure_ || is_cut_ || state_of_parked() != before) {
      if (++rounds > kMostTailRounds && !failure_) {
        is_cut_ = true;
        if (!first_cut_) {
          first_cut_ = Cut{"several clients", "the end of an execution", rounds, "their rounds differ", {}};
        }
      }
      continue;
    }
    if (!judges_liveness() || has(Mutation::nobody_is_stuck)) {
      break;
    }
    std::string who;
    for (std::uint16_t i = 0; i < actor_count(); ++i) {
      if (i != crashed_ && !actors_[i].parked.empty() && actors_[i].tasks_left != 0) {
        who += (who.empty() ? "" : ", ") + actors_[i].name;
      }
    }
    if (who.empty()) {  // only tasks that tasks have spawned wait
      note_unended_spawned();
      break;
    }
    fail(Kind::deadlock,
         fmt::format("{} wait{} for what no longer changes", who, who.find(',') == std::string::npos ? "s" : ""));
    failure_->at_end = true;
  }
  is_cut_ = is_cut_ || was_cut;
}

}  // namespace sidelatch::explore
