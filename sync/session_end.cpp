// The end of a session: close(), which awaits it, and the destructor, where nothing can be awaited.
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/session.h>

#include "owed_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

namespace {

bool becomes_idle(QueuePair& pair, Time until) {
  Reactor& reactor = pair.reactor();
  return reactor.wait_until_idle(pair, std::max(Duration::zero(), until - reactor.now()));
}

Time half_way(Time now, Time until) { return now + (until - now) / 2; }

}  // namespace

// A WRITE's completion does not prove that it is placed (rule 2), and if the memory node ends the queue pair, it would
// be lost (rule 10). An atomic behind it proves it (rule 5). This one changes nothing, and needs no buffer.
WorkRequest Session::proof_of_placement() const {
  return compare_swap({unplaced_latch_, 8, unplaced_rkey_}, kFree, kFree);
}

Task<void> Session::close() {
  do {
    co_await settle();
    if (!is_placed()) {
      co_await qp_->submit(proof_of_placement());
      unplaced_latch_ = {};
    }
    co_await qp_->drain();
    if (options_.latches.queue_pair != nullptr) {
      co_await options_.latches.queue_pair->drain();
      notice_unlatches_apart();
    }
  } while (!owed_.empty());  // an unlatch apart may have been lost meanwhile
  unlatches_.prune(qp_->completed_so_far());
  if (!in_doubt_.empty()) {
    throw FabricError(
        Status::disconnected,
        fmt::format("{} {} in doubt since a connection was lost: each may stay held for ever, and the update that it "
                    "guarded may be lost. See in_doubt() and docs/leases.md; give sessions owner ids and leases",
                    in_doubt_.size(), in_doubt_.size() == 1 ? "latch is" : "latches are"));
  }
}

Session::~Session() {
  if (begin_end()) {
    finish();
  }
}

// Latches that the session holds for certain need not wait until the outcomes of other requests are known. Those of a
// switch that keeps versions do: it takes one request of a queue pair at a time. A queue pair knows what a request has
// found until as many others have followed as its send queue has places. So what it knows is noted before the unlatches
// follow, and a request that has not completed still has its place.
bool Session::begin_end() {
  const Reactor& reactor = qp_->reactor();
  const bool has_work =
      !unlatches_.empty() || !unlatches_apart_.empty() || !owed_.empty() || !in_doubt_.empty() || !is_placed();
  if (!has_work || reactor.abandons_tasks()) {
    return false;
  }
  if (reactor.explores()) {
    // To wait longer, as other worlds do, would show nothing more. To give latches back would.
    if (!owed_.empty()) {
      reactor.is_not_explored("ends a session that has a latch to give back (let it co_await close() before)");
    }
    return false;
  }
  notice_failure();
  notice_unlatches_apart();
  note_outcomes();
  unlatches_.prune(qp_->completed_so_far());
  if (!options_.versions_at_switch) {
    unlatch_all_at_end(now());
  }
  return true;
}

// Whether only a request's outcome can tell if the session holds the latch, and it will.
bool Session::awaits_outcome(const OwedLatch& owed) const {
  return !owed.certain && owed.queue == nullptr && pair_of(owed).carries(owed.asked.posting);
}

// Notes of which latches it is known by now whether the session holds them.
void Session::note_outcomes() {
  std::erase_if(owed_, [&](OwedLatch& owed) {
    const QueuePair& pair = pair_of(owed);
    const std::uint64_t number = number_of(owed.asked);
    if (!awaits_outcome(owed) || number > pair.completed_so_far()) {
      return false;
    }
    const std::optional<std::uint64_t> found = pair.result_of(number);
    owed.certain = owed.word == kOneReader || (found && *found == owed.asked.expected);
    return found && !owed.certain;
  });
}

// Of its queue pairs, null: one that has failed, or is not needed.
void Session::see_outcomes(QueuePair* memory, QueuePair* latches, Time until) {
  if (memory != nullptr) {
    static_cast<void>(becomes_idle(*memory, latches == nullptr ? until : half_way(now(), until)));
  }
  if (latches != nullptr) {
    static_cast<void>(becomes_idle(*latches, until));
  }
  note_outcomes();
}

// Whether one request gives the latch back.
bool Session::needs_only_unlatch(const OwedLatch& owed) const {
  return owed.certain && owed.writes.empty() && owed.queue == nullptr &&
         pair_of(owed).state() == QueuePair::State::ready;
}

// Whether the unlatch was posted, of which nobody knows whether it happens before its queue pair is idle. Who finds the
// latch free expects to see the commits before it, and atomics on different words are not ordered (rule 5).
bool Session::unlatch_at_end(OwedLatch& owed, Time until, bool behind_commits) {
  if (!needs_only_unlatch(owed)) {
    return false;
  }
  QueuePair& pair = pair_of(owed);
  try {
    if (options_.versions_at_switch && !becomes_idle(pair, until)) {
      return false;
    }
    // Signalled, so that no empty request follows it: a switch that keeps versions would drop that one.
    const WorkRequest request = unlatch_of(owed).with_signal();
    const std::array<WorkRequest, 1> unlatch = {behind_commits && &pair == qp_ ? request.with_fence() : request};
    if (pair.state() != QueuePair::State::ready || !pair.post(unlatch)) {
      return false;
    }
  } catch (const FabricError&) {
    return false;
  }
  posted_unlatch(std::move(owed), {pair.posted_so_far(), pair.posted_so_far()});
  return true;
}

// Whether an unlatch was posted.
bool Session::unlatch_all_at_end(Time until) {
  const bool behind_commits = !unlatches_.empty();
  return std::erase_if(owed_, [&](OwedLatch& owed) { return unlatch_at_end(owed, until, behind_commits); }) != 0;
}

// Whether the proof was posted.
bool Session::prove_placement_at_end(Time until) {
  try {
    const std::array<WorkRequest, 1> proof = {proof_of_placement()};
    return becomes_idle(*qp_, until) && qp_->post(proof);
  } catch (const FabricError&) {
    return false;
  }
}

// Where latches are apart, two queue pairs share `linger`. Each wait for the memory takes half of what is left at most,
// so that a memory that is slow leaves time to free the latches. What they leave is the memory's.
void Session::finish() {
  const Time until = std::min(end_by_, now() + std::min(options_.linger, Time::max() - now()));
  const auto unless_failed = [](QueuePair* pair) { return pair->state() == QueuePair::State::error ? nullptr : pair; };
  const bool are_apart = !unlatches_apart_.empty() || std::ranges::any_of(owed_, [](const OwedLatch& owed) {
    return owed.by == UnlatchBy::swap_apart;
  });
  QueuePair* const memory = unless_failed(qp_);
  QueuePair* const latches = are_apart ? unless_failed(options_.latches.queue_pair) : nullptr;
  // Latches whose unlatches had no room in the send queue wait until it is idle, as those of unknown outcome do.
  const auto waits = [&](const OwedLatch& owed) { return awaits_outcome(owed) || needs_only_unlatch(owed); };
  bool gives_back = true;
  while (gives_back && std::ranges::any_of(owed_, waits)) {
    see_outcomes(memory, latches, until);
    gives_back = unlatch_all_at_end(until);
  }
  bool proved = is_placed();
  if (memory != nullptr && latches != nullptr) {
    proved = proved || prove_placement_at_end(half_way(now(), until));
    static_cast<void>(becomes_idle(*memory, half_way(now(), until)));
  }
  if (latches != nullptr) {
    static_cast<void>(becomes_idle(*latches, until));
  }
  proved = proved || prove_placement_at_end(until);
  const bool memory_is_idle = proved && (memory == nullptr || becomes_idle(*memory, until));
  if (failures_ == qp_->failures()) {
    unlatches_.prune(qp_->completed_so_far());
  }
  notice_unlatches_apart();
  const auto unknown =
      static_cast<std::uint64_t>(std::ranges::count_if(owed_, [](const OwedLatch& owed) { return !owed.certain; }));
  LostWork lost{.unlatches = unknown + unlatches_apart_.size() + (memory_is_idle ? 0 : unlatches_.size()),
                .latches = owed_.size() - unknown + in_doubt_.size()};
  if (!memory_is_idle && !is_placed() && lost.nothing()) {
    lost.unlatches = 1;  // which has completed, and may not be placed
  }
  if (!lost.nothing()) {
    options_.lost_work(lost);
  }
}

}  // namespace sidelatch::sync
