// What clients ask of the fabric: requests, receive buffers, revocations, sleeps, numbers.
#include "execution.h"
#include "model_fabric.h"
#include "word_hash.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <stdexcept>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

// A client step with more calls into the fabric than this, and no wait between them, will never wait.
constexpr std::uint32_t kMostCallsInAStep = 100'000;
// A client that sleeps more often in one step may wait for what another client does to an object of the process.
constexpr std::uint32_t kMostSleepsInAStep = 100;
// The number of a wait that has ended already.
constexpr std::uint64_t kNeverWaits = ~std::uint64_t{0};

bool writes(const WorkRequest& request) { return is_write(request.opcode) || is_send(request.opcode); }

}  // namespace

// How long anything but a sleep takes is not explored. Where a client may crash, time is that of its lease: there is a
// rule for that.
Time Execution::now() const {
  const bool has_waited = running_ != Event::kNone && actors_[running_].has_waited;
  if (has_waited && std::ranges::none_of(actors_, &Actor::can_crash)) {
    asks_time_ = true;
    if (!blind_spot_) {
      const Zone::Use own(nullptr);
      note_blind_spot(
          fmt::format("{}, which asks what time it is after it has waited (how long a wait takes is not explored),",
                      actors_[running_].name));
    }
  }
  return lease_clock();
}

Time Execution::lease_clock() const {
  clock_read_ = true;
  return running_ == Event::kNone ? Time{} : actors_[running_].clock;
}

// A client sleeps in no time, unless what it can look at may change meanwhile: then others may come before it goes on.
std::uint64_t Execution::on_sleep(Duration duration, Waiter& waiter) {
  const Zone::Use own(nullptr);
  if (running_ != Event::kNone) {
    actors_[running_].clock += duration;
    const bool waits_for_another = !shared_objects_.empty() && calls_in_step_ > kMostSleepsInAStep;
    if (waits_for_another || !is_undisturbed(running_)) {
      return go_on_later(Step::What::yield, waiter);
    }
    note_changed_objects(running_);
  }
  if (++calls_in_step_ > kMostCallsInAStep) {
    fail(Kind::livelock,
         "a task slept again and again and waited for nothing else: a loop that waits for others must "
         "say so (Reactor::begin_retries, retry)");
    return kNeverWaits;  // it is not resumed
  }
  if (running_ == Event::kNone) {
    reactor_->ready(waiter);
    return kNeverWaits;
  }
  return go_on_at_once(Step::What::yield, waiter);
}

// The running client goes on in a step of its own. Returns what on_retry_cancelled() takes.
std::uint64_t Execution::go_on_later(Step::What what, Waiter& waiter) {
  suspend_next(actors_[running_], what).waiter = &waiter;
  event_->suspensions.push_back({running_, actors_[running_].suspended.back().number});
  return reinterpret_cast<std::uintptr_t>(&waiter);
}

// What a task has stored to its own memory after its last post before a crash would stay, which need not be so.
void Execution::refuse_crash_with_shared_memory(const Actor& actor) {
  if (actor.can_crash && !actor.shared.empty()) {
    throw std::invalid_argument(fmt::format(
        "{} may crash, and others can reach its memory, which is not explored: let that memory belong to another node",
        actor.name));
  }
}

// How many requests of a client have completed is its NIC's doing, and nobody else's business.
void Execution::on_progress_read(const QueuePair* queue_pair, bool changes_alone) const {
  if (running_ == Event::kNone || runs_the_dead() || Zone::current() != &zone_) {
    return;  // a judge at the end, or the explorer itself
  }
  const Zone::Use own(nullptr);
  const auto found =
      std::ranges::find_if(queue_pairs_, [&](const QueuePairPart& part) { return part.queue_pair == queue_pair; });
  if (queue_pair == nullptr || found == queue_pairs_.end()) {
    note_blind_spot(
        fmt::format("{}, which asks how many tasks or requests all clients have together "
                    "(Reactor::spawned(), completion_queue_free()),",
                    actors_[running_].name));
  } else if (found->actor != running_) {
    note_blind_spot(
        fmt::format("{}, which asks how far the requests of {} have got (each client has its own queue "
                    "pairs),",
                    actors_[running_].name, actors_[found->actor].name));
  } else if (changes_alone) {
    looks_at_progress_ = true;
    if (!event_->posts.empty() || !event_->receives.empty()) {
      note_after_post(running_, "at how many of its requests have completed");
    }
  }
}

void Execution::on_not_explored(std::string_view what) noexcept {
  if (running_ == Event::kNone || runs_the_dead() || failure_) {
    return;
  }
  is_void_ = true;
  no_states_ = "a client does what is not explored";
  const Zone::Use own(nullptr);
  note_blind_spot(fmt::format("{}, which {},", actors_[running_].name, what));
}

void Execution::on_tally(std::span<const std::byte> tally) {
  const Zone::Use own(nullptr);
  tallies_.push_back({tally, zone_.life_at(tally.data())});
}

void Execution::on_spares(const Reactor::Spares& spares) {
  const Zone::Use own(nullptr);
  spares_.push_back(&spares);
}

// Memory that the program registers while it is built is a part of its machine. What its tasks register ends with the
// execution.
void Execution::on_region(std::uint16_t of, model::NodeId node, RemoteAddress address, std::span<std::byte> bytes,
                          bool for_others) {
  const Zone::Use own(nullptr);
  actors_[of].regions.emplace_back(bytes);
  // The threads of a node reach all its memory.
  if (for_others || has_cpu(of)) {
    actors_[of].shared.emplace_back(bytes);
    if (!building_) {
      refuse_crash_with_shared_memory(actors_[of]);
    }
  }
  if (!building_) {
    if (runs_the_dead()) {
      note_act_of_the_dead(running_);
    }
    if (running_ != Event::kNone) {
      ++actors_[running_].changes;
      event_->allocates_at = of;
    }
    machine_.map(node, address, bytes);
    mapped_in_tasks_.push_back({node, address});
  } else {
    static_cast<void>(
        part({Part::Sort::region, node.value, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0}, [&] {
          machine_.map(node, address, bytes);
          return std::uint16_t{0};
        }));
  }
}

// A NIC refuses requests that come later. Here they find their memory as before, so an execution with such a request is
// none of the program. Those whose requests are done in time lose nothing.
void Execution::on_region_ended(std::span<const std::byte> bytes) noexcept {
  if (building_ || ends_tasks_ || running_ == Event::kNone) {
    return;  // it ends with the program
  }
  const Zone::Use own(nullptr);
  if (runs_the_dead()) {
    note_act_of_the_dead(running_);
    return;
  }
  ++actors_[running_].changes;
  ended_regions_.push_back({bytes, running_});
  const Range range = arena_.range(bytes.data(), bytes.size(), true);
  Range& ended = event_->ended;
  ended = ended.begin == ended.end ? range
                                   : Range{std::min(ended.begin, range.begin), std::max(ended.end, range.end), true};
}

void Execution::look_for_ended_regions(const model::Step& step) {
  if (ended_regions_.empty() || step.kind == StepKind::drain || is_send(machine_.request(step.wr()).opcode)) {
    return;
  }
  const model::Access target = machine_.footprint(step).target;
  for (const EndedRegion& region : ended_regions_) {
    const bool is_inside = target.length != 0 && target.data < region.bytes.data() + region.bytes.size() &&
                           region.bytes.data() < target.data + target.length;
    if (is_inside) {
      note_blind_spot(fmt::format(
          "{}, which ends a memory region before a request of {} has reached it (a NIC refuses such a request: let the "
          "region live until all requests to it are done),",
          actors_[region.by].name, actors_[queue_pairs_[step.owner].actor].name));
    }
  }
}

// ---- Posting.

// What a request asks for, to tell a program that asks for something else each time.
std::uint64_t Execution::digest_of(const WorkRequest& request) const noexcept {
  std::uint64_t hash = static_cast<std::uint64_t>(request.opcode);
  for (const std::uint64_t word :
       {request.remote.value, std::uint64_t{request.rkey.value}, request.local.length, without_place(request.compare),
        without_place(request.swap_or_add), std::uint64_t{request.signaled}, std::uint64_t{request.fence}}) {
    hash = mixed(hash, word);
  }
  if (writes(request) && request.local.data != nullptr) {
    hash = mixed(hash, request.local.bytes(), [this](std::uint64_t word) { return without_place(word); });
  }
  return hash;
}

void Execution::check_remote(const ModelQueuePair& queue_pair, const WorkRequest& request) {
  const std::uint64_t length = request.length();
  if (length == 0 || is_send(request.opcode)) {
    return;
  }
  const Node::Registration* region = queue_pair.to().find(request.rkey);
  const Access needed = is_atomic(request.opcode)        ? Access::remote_atomic
                        : request.opcode == Opcode::read ? Access::remote_read
                                                         : Access::remote_write;
  if (region == nullptr) {
    throw FabricError(
        Status::remote_access, request,
        fmt::format("rkey {:#x} names no live region of node {}", request.rkey.value, queue_pair.to().name()));
  }
  if (!allows(region->access, needed)) {
    throw FabricError(Status::remote_access, request,
                      fmt::format("the region has access {}", fabric::to_string(region->access)));
  }
  if (request.remote < region->address || length > region->length ||
      request.remote - region->address > region->length - length) {
    throw FabricError(
        Status::remote_access, request,
        fmt::format("the region is [{:#x}, {:#x})", region->address.value, region->address.value + region->length));
  }
}

void Execution::on_post(ModelQueuePair& queue_pair, std::span<const CheckedRequest> chain, std::uint64_t first) {
  look_at_inlined(chain);
  const Zone::Use own(nullptr);
  const WatchAfterPost after(*this);
  const std::uint16_t qp = queue_pair.id().value;
  const std::uint16_t of = queue_pairs_[qp].actor;
  if (queue_pairs_[qp].is_alone) {
    note_end_of_pair(qp);
    return;
  }
  Actor& actor = actors_[of];
  if (running_ != of) {
    if (running_ == Event::kNone) {
      throw std::logic_error(fmt::format(
          "a request was posted on a queue pair of {} by no task of it: what a client does is in its tasks, "
          "which World::spawn takes",
          actor.name));
    }
    fail(Kind::exception,
         fmt::format("{} posted on a queue pair of {}: each client has its own", actors_[running_].name, actor.name));
    return;
  }
  for (const CheckedRequest& checked : chain) {
    if (crashed_ == of || failure_) {
      return;
    }
    const WorkRequest request = checked.final_form();
    if (crashes_here(of)) {
      return;
    }
    if (++calls_in_step_ > kMostCallsInAStep) {
      fail(Kind::livelock, fmt::format("{} posts request after request and never waits", actor.name));
      return;
    }
    model::WrId id;
    try {
      check_remote(queue_pair, request);
      id = machine_.post(queue_pair.id(), request);
    } catch (const std::exception& error) {
      fail(Kind::exception, fmt::format("{}: {}", actor.name, error.what()));
      return;
    }
    if (first_request_number(qp) + id.index + 1 != first) {
      throw std::logic_error("explorer: a queue pair counts its requests otherwise than the model");
    }
    ++first;
    times_[qp].push_back({moment_});
    requests_[qp].push_back({actor.tag, request.signaled, -1, actor.progress, machine_.stores({actor.machine_thread}),
                             queue_pairs_[qp].sends});
    queue_pairs_[qp].sends += is_send(request.opcode) ? 1U : 0U;
    const bool bound = request.inlined && writes(request);
    event_->posts.push_back(
        {qp,
         queue_pairs_[qp].nic,
         id.index,
         request.opcode == Opcode::read || (is_atomic(request.opcode) && machine_.rules().atomics_see_writes),
         {}});
    event_->posts.back().digest = digest_of(request);
    if (bound && arena_.holds(request.local.data)) {
      event_->posts.back().bound = arena_.range(request.local.data, request.local.length, false);
    }
    actor.last_post = moment_;
    if (!observers_.empty()) {
      const Zone::Use use(&zone_);
      for (const Observer& observer : observers_) {
        event_->judged = observer.posted(actor.tag) || event_->judged;
      }
    }
    if (writes(request) && !bound && request.local.length != 0) {
      if (snapshots_used_ == snapshots_.size()) {
        snapshots_.emplace_back();
      }
      requests_[qp].back().snapshot = static_cast<std::int32_t>(snapshots_used_);
      Snapshot& snapshot = snapshots_[snapshots_used_++];
      snapshot.qp = qp;
      snapshot.index = id.index;
      snapshot.data = request.local.data;
      snapshot.bytes.assign(request.local.data, request.local.data + request.local.length);
      snapshot.fetched.assign(
          model::piece_count(reinterpret_cast<std::uintptr_t>(request.local.data), request.local.length, kLineBytes),
          false);
      snapshot.posted = moment_;
      snapshot.live = true;
      ++snapshots_live_;
    }
  }
}

// The model has a queue of buffers for each direction: that of the peer's SENDs.
void Execution::on_receive_posted(const ModelQueuePair& queue_pair, const LocalSpan& into) {
  const Zone::Use own(nullptr);
  const WatchAfterPost after(*this);  // a message may come between
  if (queue_pair.peer() == nullptr) {
    if (queue_pairs_[queue_pair.id().value].is_alone) {
      note_end_of_pair(queue_pair.id().value);
    }
    return;
  }
  const std::uint16_t qp = queue_pair.peer()->id().value;
  const std::uint16_t of = queue_pairs_[qp].target;
  if (crashed_ == of || failure_) {
    return;
  }
  if (!building_ && running_ != of) {
    fail(Kind::exception, fmt::format("{} posted a receive buffer of {}: each client has its own",
                                      running_ == Event::kNone ? "nobody" : actors_[running_].name, actors_[of].name));
    return;
  }
  if (crashes_here(of)) {
    return;
  }
  try {
    machine_.post_receive({qp}, recv(into), model::ThreadId{actors_[of].machine_thread});
  } catch (const std::invalid_argument& error) {
    fail(Kind::exception, fmt::format("{}: {}", actors_[of].name, error.what()));
    return;
  }
  ++actors_[of].changes;
  event_->receives.push_back({qp, queue_pairs_[qp].receives++});
  queue_pairs_[qp].receive_buffers.push_back({into.bytes(), machine_.stores({actors_[of].machine_thread})});
}

// Whether the step has done nothing so far that depends on what others do.
bool Execution::may_revoke_in_this_step() const {
  return running_ == Event::kNone || (event_->posts.empty() && event_->receives.empty() && !event_->global &&
                                      !acted_in_step_ && shared_with(actors_[running_]).empty());
}

void Execution::on_revoke(ModelQueuePair& queue_pair) {
  if (queue_pair.peer() != nullptr) {
    throw std::invalid_argument(
        "revoke: the explorer does not revoke an end of a pair (connect_pair); revoke queue pairs of connect()");
  }

  if (runs_the_dead()) {
    return;
  }
  const Zone::Use own(nullptr);
  revokes_ = true;
  revokes_of_the_living_ = revokes_of_the_living_ || queue_pairs_[queue_pair.id().value].actor != crashed_;
  machine_.revoke(queue_pair.id());
  if (running_ != Event::kNone) {
    note_changed_objects(running_);  // also what is taken back behind the revocation
    Actor& actor = actors_[running_];
    ++actor.changes;
    // What others did between the rest of this step and the revocation cannot be explored.
    if (!shared_with(actor).empty()) {
      cut_because(
          actor.name,
          fmt::format("{}, which revokes a queue pair although others reach memory of its own node (each step of "
                      "it counts as a look at that memory: let a task of another node revoke),",
                      actor.name));
    } else if (!may_revoke_in_this_step()) {
      cut_because(actor.name, fmt::format("{}, which revokes a queue pair in one step with something else (let "
                                          "World::yield come before Node::revoke),",
                                          actor.name));
    }
  }
  event_->global = true;
}

// The other end is not told, as it would be elsewhere. Where it still has something to do, this is no execution.
void Execution::on_end_of_pair(const ModelQueuePair& left) noexcept {
  QueuePairPart& part = queue_pairs_[left.id().value];
  part.is_alone = true;
  const QueuePairPart& incoming = queue_pairs_[left.peer()->id().value];
  if (!machine_.idle(left.id()) || incoming.received < incoming.receive_buffers.size()) {
    note_end_of_pair(left.id().value);
  }
}

void Execution::note_end_of_pair(std::uint16_t qp) noexcept {
  is_void_ = true;
  note_blind_spot(
      fmt::format("{}, which uses its end of a pair (connect_pair) after a task has destroyed the other one (keep both "
                  "to the end),",
                  actors_[queue_pairs_[qp].actor].name));
}

// No rule defines the fate of requests that are in flight then.
void Execution::on_disconnect(const ModelQueuePair& queue_pair) noexcept {
  const std::uint16_t qp = queue_pair.id().value;
  queue_pairs_[qp].queue_pair = nullptr;
  if (runs_the_dead()) {
    note_act_of_the_dead(running_);
  }
  if (queue_pair.peer() != nullptr && running_ != Event::kNone) {
    on_end_of_pair(*queue_pair.peer());
  }
  const auto in_flight = [&](std::uint32_t i) {
    // Rule 10: one that has failed takes no step any more but its completion, which nobody waits for.
    return times_[qp][i].completed == RequestTimes{}.completed && !machine_.failed({{qp}, i});
  };
  if (running_ != Event::kNone && std::ranges::any_of(std::views::iota(0U, machine_.posted({qp})), in_flight)) {
    fail(Kind::exception,
         fmt::format("{} destroyed queue pair qp{} with requests in flight, and the model does not say what becomes of "
                     "them: wait for them first (co_await qp.drain())",
                     actors_[queue_pairs_[qp].actor].name, qp));
  }
}

// At each request, and each receive buffer, that the client posts.
bool Execution::crashes_here(std::uint16_t of) {
  if (!posts_left_) {
    return false;
  }
  if (*posts_left_ != 0) {
    --*posts_left_;
    return false;
  }
  crash_now(of);
  remember_the_dead(of);
  return true;
}

// The rest of the chain, and all later steps of the client, never happen.
void Execution::crash_now(std::uint16_t of) {
  crashed_ = of;
  Actor& actor = actors_[of];
  machine_.crash({actor.machine_client});
  posts_left_.reset();
}

}  // namespace sidelatch::explore
