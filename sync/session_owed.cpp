// What a session owes: latches that its operations could not give back. session_end.cpp has its end.
#include <sidelatch/sync/guard.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/scheme.h>
#include <sidelatch/sync/session.h>

#include "owed_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

namespace {

RemoteSpan latch_of(const Hold& hold) {
  return hold.unlatch_by == UnlatchBy::swap_apart ? hold.session->options().latches.word_of(hold.object)
                                                  : hold.object.latch();
}

bool is_commit(const OwedLatch& owed) { return !owed.writes.empty() || owed.version.length != 0; }

// Whether the queue pair of the latches gives it back alone.
bool needs_only_latches(const OwedLatch& owed) { return owed.by == UnlatchBy::swap_apart && !is_commit(owed); }

// Whether the number that the hold had added to the latch may still be in it.
bool may_be_held(std::uint64_t word, const OwedLatch& owed) {
  if (owed.word == kOneReader) {
    return readers_of(word) != 0;
  }
  return holder_of(word) == holder_of(owed.word);
}

}  // namespace

Task<RingBuffer> Session::wait_for_buffer() {
  notice_failure();
  if (ring_.held() == ring_.count()) {
    throw LatchError(LatchError::Kind::buffers_exhausted,
                     fmt::format("all {} buffers of the session are held by guards: end one first, or raise "
                                 "SessionOptions::buffers",
                                 ring_.count()));
  }
  if (errors_seen_ != kOwes) {
    return ring_.acquire();
  }
  notice_unlatches_apart();
  // No operation may begin on a queue pair that has failed: latches apart from their objects would be taken, and could
  // not be given back. But those that are owed are free for the others as soon as their own queue pair allows it.
  const bool failed = qp_->state() == QueuePair::State::error;
  if (failed && (owed_.empty() || !std::ranges::all_of(owed_, needs_only_latches))) {
    throw FabricError(*qp_->error());
  }
  if (!owed_.empty() || switch_is_busy()) {
    return settle_and_acquire();
  }
  errors_seen_ = unlatches_apart_.empty() && !options_.versions_at_switch ? failures_ : kOwes;
  completed_seen_ = qp_->completed_so_far();
  return ring_.acquire();
}

Task<RingBuffer> Session::settle_and_acquire() {
  co_await settle();
  if (qp_->state() == QueuePair::State::error) {
    throw FabricError(*qp_->error());
  }
  RingBuffer buffer = co_await ring_.acquire();
  co_return buffer;
}

// After a failure nobody knows which asynchronous unlatches have happened. Their payloads are still in the session's
// buffers: this is called before another buffer is taken. An entry whose unlatch has happened is recognized by the
// latch word, so it does not matter that its buffer may have been used again.
void Session::notice_failure() {
  if (failures_ == qp_->failures()) {
    return;
  }
  failures_ = qp_->failures();
  // What a lost connection has held at a switch that keeps versions, the switch's control plane gives back.
  std::erase_if(owed_, [](const OwedLatch& owed) { return owed.by == UnlatchBy::count_back; });
  errors_seen_ = kOwes;  // until the queue pair is found ready, and nothing is owed
  unlatches_.prune(completed_seen_);
  for (; !unlatches_.empty(); unlatches_.pop()) {
    const Unlatches::Entry& entry = unlatches_.front();
    OwedLatch owed{.latch = {entry.latch, 8, entry.rkey}, .word = entry.word};
    if (has_lease()) {
      const Unlatches::Commit& commit = unlatches_.front_commit();
      for (std::uint32_t i = 0; i < commit.writes; ++i) {
        owed.writes.push_back(copy_of(commit.write[i]));
      }
      owed.free_by_write = commit.free_by_write;
      owed.inherited = commit.inherited;
      owed.version = commit.version;
      owed.version_before = commit.version_before;
    }
    owe(std::move(owed));
  }
}

// A failure that nobody has noticed yet is noticed first: the asynchronous commits that it may have lost are older than
// what is owed now. What was latched at a switch that keeps versions, the switch has given back then.
void Session::owe(OwedLatch&& owed) {
  const bool is_over = owed.by == UnlatchBy::count_back && failures_ != qp_->failures();
  notice_failure();
  if (!is_over) {
    owed_.push_back(std::move(owed));
    errors_seen_ = kOwes;
  }
}

// Not after a failure: everything counts as completed then.
void Session::make_room_for_unlatch() {
  if (failures_ == qp_->failures()) {
    unlatches_.prune(qp_->completed_so_far());
  }
  if (unlatches_.full()) {
    unlatches_.grow();
  }
}

void Session::posted_commit(const Hold& hold, const WorkRequest& write, const WorkRequest* publish,
                            bool free_by_write) {
  Unlatches::Commit& commit = unlatches_.new_commit();
  commit.writes = 0;
  commit.free_by_write = free_by_write;
  commit.inherited = 0;
  commit.version = {};
  for (const WorkRequest* request : {&write, publish}) {
    if (request == nullptr) {
      continue;
    }
    if (is_atomic(request->opcode)) {
      commit.version = hold.object.version();
      commit.version_before = hold.version;
    } else {
      commit.write[commit.writes++] = *request;
    }
  }
}

void Session::posted_commit(const Hold& hold) {
  Unlatches::Commit& none = unlatches_.new_commit();
  none = {};
  none.inherited = hold.inherited;
}

void Session::owe_unlatch(const Hold& hold, const WorkRequest* write, const WorkRequest* publish, bool free_by_write,
                          bool posted) {
  OwedLatch owed{.latch = latch_of(hold),
                 .word = hold.word,
                 .certain = !posted,
                 .inherited = write == nullptr ? hold.inherited : 0,
                 .by = hold.unlatch_by,
                 .free_by_write = free_by_write,
                 .queue = hold.queue,
                 .turn = hold.turn};
  for (const WorkRequest* request : {write, publish}) {
    if (request == nullptr) {
      continue;
    }
    if (is_atomic(request->opcode)) {
      owed.version = hold.object.version();
      owed.version_before = hold.version;
    } else {
      owed.writes.push_back(copy_of(*request));
    }
  }
  owe(std::move(owed));
}

void Session::owe_acquired(const Hold& hold, bool latched, const Posting& asked, std::uint64_t expected) {
  OwedLatch owed{.latch = latch_of(hold),
                 .word = hold.word,
                 .certain = latched,
                 .inherited = hold.inherited,
                 .by = hold.unlatch_by,
                 .queue = hold.queue,
                 .turn = hold.turn};
  owed.asked = {asked, asked.first, expected};
  owe(std::move(owed));
}

Task<std::optional<std::uint64_t>> Session::outcome_of(OwedLatch& owed) const {
  QueuePair& pair = pair_of(owed);
  if (!pair.carries(owed.asked.posting)) {
    owed.asked = {};
    co_return std::nullopt;
  }
  co_await pair.reach(owed.asked.posting.last);
  const OwedLatch::Asked asked = std::exchange(owed.asked, {});
  co_return pair.result_of(number_of(asked));
}

QueuePair& Session::pair_of(const OwedLatch& owed) const noexcept {
  return owed.by == UnlatchBy::swap_apart ? *options_.latches.queue_pair : *qp_;
}

void Session::posted_unlatch_apart(const Hold& hold, const Posting& unlatch) {
  OwedLatch owed{.latch = latch_of(hold), .word = hold.word, .inherited = hold.inherited, .by = hold.unlatch_by};
  owed.asked.posting = unlatch;
  unlatches_apart_.push_back(std::move(owed));
  errors_seen_ = kOwes;
}

// Its commit is done, or there was none.
void Session::posted_unlatch(OwedLatch&& owed, const Posting& unlatch) {
  if (owed.by == UnlatchBy::swap_apart) {
    owed.writes.clear();
    owed.asked = {.posting = unlatch};
    unlatches_apart_.push_back(std::move(owed));
    errors_seen_ = kOwes;
    return;
  }
  posted_unlatch(owed.latch, owed.word, unlatch.last);
  if (has_lease()) {
    Unlatches::Commit& none = unlatches_.new_commit();
    none = {};
    none.inherited = owed.inherited;
  }
}

// An unlatch that a lost connection may have taken with it is owed.
void Session::notice_unlatches_apart() {
  std::erase_if(unlatches_apart_, [&](OwedLatch& owed) {
    const QueuePair& latches = pair_of(owed);
    if (latches.carries(owed.asked.posting)) {
      return owed.asked.posting.last <= latches.completed_so_far();
    }
    owed.asked = {};
    owed.certain = false;
    owe(std::move(owed));
    return true;
  });
}

void Session::release_dropped(Hold& hold, bool held, const Posting& asked) noexcept {
  if (hold.unlatch_by == UnlatchBy::swap_apart) {
    notice_failure();
    QueuePair& latches = *options_.latches.queue_pair;
    try {
      const std::array<WorkRequest, 1> unlatch = {
          unlatch_of({.latch = latch_of(hold), .word = hold.word, .inherited = hold.inherited, .by = hold.unlatch_by})};
      // What the operation has written before must be there first (see take_next_owed()).
      if (std::ranges::none_of(owed_, is_commit) && latches.state() == QueuePair::State::ready &&
          latches.post(unlatch)) {
        posted_unlatch_apart(hold, {latches.posted_so_far(), latches.posted_so_far()});
        return;
      }
    } catch (const FabricError&) {  // the queue pair fails: the latch is given back later
    }
    owe_unlatch(hold, nullptr, nullptr, false, /*posted=*/!held);
    return;
  }
  if (hold.unlatch_by == UnlatchBy::count_back) {
    // Nothing else of this queue pair may be in flight; and if it has failed, the switch's control plane gives it back.
    if (held && qp_->state() == QueuePair::State::ready) {
      owe_unlatch(hold, nullptr, nullptr, false, /*posted=*/false);
    }
    return;
  }
  notice_failure();
  // What the operation has written before must be there first (see take_next_owed()).
  const bool by_one_request = hold.queue == nullptr || is_turn(hold.word);
  if (by_one_request && !switch_is_busy() && std::ranges::none_of(owed_, is_commit) &&
      qp_->state() == QueuePair::State::ready) {
    try {
      const std::array<WorkRequest, 1> unlatch = {
          unlatch_of({.latch = hold.object.latch(), .word = hold.word, .inherited = hold.inherited}).with_fence()};
      if (qp_->post(unlatch)) {
        posted_unlatch(hold.object.latch(), hold.word);
        if (has_lease()) {
          posted_commit(hold);
        }
        return;
      }
    } catch (const FabricError&) {  // the queue pair fails: its latches are given back later
    }
  }
  if (asked.happened()) {
    owe_acquired(hold, held, asked, 0);
  } else {
    owe_unlatch(hold, nullptr, nullptr, false, /*posted=*/!held);
  }
}

void Session::note_dead(std::uint16_t owner) {
  if (std::ranges::find(dead_owners_, owner) == dead_owners_.end()) {
    dead_owners_.push_back(owner);
  }
}

// What is being given back. If its task ends before that has happened, the session owes it again.
class Session::OwedUnderWay {
 public:
  OwedUnderWay(Session& session, OwedLatch&& of) noexcept : owed(std::move(of)), session_(&session) {}
  OwedUnderWay(const OwedUnderWay&) = delete;
  OwedUnderWay& operator=(const OwedUnderWay&) = delete;
  ~OwedUnderWay() {
    if (is_over_ || session_->qp_->reactor().abandons_tasks()) {
      return;
    }
    const bool happens = session_->pair_of(owed).carries(unlatch);
    if (owed.by == UnlatchBy::count_back && unlatch.happened()) {
      return;  // it happens, or the switch's control plane gives it back
    }
    const bool is_apart = owed.by == UnlatchBy::swap_apart;  // what was written is placed then
    if (happens && (is_apart || (owed.by == UnlatchBy::subtraction && !owed.free_by_write))) {
      session_->posted_unlatch(std::move(owed), unlatch);
      return;
    }
    owed.certain = owed.certain && !unlatch.happened();
    session_->owe_again(std::move(owed));
  }
  void is_over() noexcept { is_over_ = true; }

  OwedLatch owed;
  Posting unlatch;

 private:
  Session* session_;
  bool is_over_ = false;
};

// Commits come first, in their order: an operation may have latched two objects, and others who find the second one
// free expect to see what it has written to the first. Then the latest latch: a place in a queue may have to wait for
// somebody who waits for a latch that the operation has had before.
OwedLatch Session::take_next_owed() {
  auto next = std::ranges::find_if(owed_, is_commit);
  if (next == owed_.end()) {
    --next;
  }
  OwedLatch taken = std::move(*next);
  owed_.erase(next);
  return taken;
}

// What take_next_owed() has taken comes next again.
void Session::owe_again(OwedLatch&& owed) {
  const bool is_next = is_commit(owed);
  owe(std::move(owed));
  if (is_next) {
    std::ranges::rotate(owed_, owed_.end() - 1);
  }
}

Task<void> Session::settle() {
  notice_failure();
  notice_unlatches_apart();
  co_await until_switch_is_free();
  while (!owed_.empty()) {
    OwedUnderWay next(*this, take_next_owed());
    const Fate fate = co_await fate_of(next.owed);
    if (fate == Fate::held) {
      co_await give_back(next.owed, next.unlatch);
    } else if (fate == Fate::unknown) {
      in_doubt_.push_back(next.owed);
    }
    next.is_over();
  }
  if (unlatches_apart_.empty() && !options_.versions_at_switch && qp_->state() == QueuePair::State::ready) {
    errors_seen_ = failures_;
  }
}

// Finds out whether the session holds the latch, and notes in `owed` what it learns.
Task<Session::Fate> Session::fate_of(OwedLatch& owed) {
  if (owed.queue != nullptr) {
    const Scheme::Turn turn = co_await owed.queue->pass_on(*this, owed);
    if (turn == Scheme::Turn::held) {
      co_return Fate::held;
    }
    co_return turn == Scheme::Turn::unknown ? Fate::unknown : Fate::over;
  }
  if (is_turn(owed.word)) {  // an asynchronous unlatch of a ticket that nobody has noted
    const std::uint64_t word = co_await qp_->fetch_add(owed.latch, 0);
    co_return is_served(word) ? Fate::over : Fate::unknown;
  }
  if (!owed.certain && owed.asked.posting.happened()) {
    const std::uint64_t expected = owed.asked.expected;
    const bool is_count = owed.word == kOneReader;  // which always happens
    const bool happens = pair_of(owed).carries(owed.asked.posting);
    const std::optional<std::uint64_t> found = co_await outcome_of(owed);
    if (found && *found != expected && !is_count) {
      co_return Fate::over;  // it has not latched
    }
    owed.certain = is_count ? happens : found.has_value();
  }
  if (!owed.certain && owed.by == UnlatchBy::count_back) {
    co_return Fate::unknown;  // others count the same versions
  }
  if (!owed.certain) {
    // Requests of the connection that failed no longer happen, so what the word says now stays true.
    // A FETCH-ADD of 0 would store what it found over another client's unlatch by WRITE (exclusive_latch.h).
    const auto found = co_await pair_of(owed).submit(compare_swap(owed.latch, kFree, kFree));
    const std::uint64_t word = owed.by == UnlatchBy::swap_apart ? expanded_word(found[0]) : found[0];
    if (!may_be_held(word, owed)) {
      co_return Fate::over;  // it was unlatched, or never latched
    }
    if (owed.word == kOneReader || owner_of(owed.word) == 0) {
      co_return Fate::unknown;  // it may be another client's
    }
    owed.certain = true;
  }
  co_return Fate::held;
}

Task<void> Session::write_again(const OwedLatch& owed, Posting& last) {
  if (owed.writes.empty()) {
    co_return;
  }
  RingBuffer buffer = co_await ring_.acquire();
  for (const OwedLatch::Write& write : owed.writes) {
    const LocalSpan from = buffer.span().subspan(0, write.bytes.size());
    std::memcpy(from.data, write.bytes.data(), write.bytes.size());
    co_await qp_->submit(last, fabric::write(from, write.to));
    if (owed.by == UnlatchBy::swap_apart || owed.free_by_write) {
      // The unlatch does not wait for the placement; or there is none, and a revocation could lose what has completed.
      co_await qp_->read(from.subspan(0, 8), write.to.subspan(0, 8));
    }
  }
}

Task<void> Session::give_back(OwedLatch& owed, Posting& unlatch) {
  // A request that unlatches and fails may have happened.
  if (owed.free_by_write) {
    co_await write_again(owed, unlatch);
    co_return;
  }
  Posting written;
  co_await write_again(owed, written);
  if (owed.version.length != 0) {
    co_await qp_->compare_swap(owed.version, owed.version_before, owed.version_before + 1);
  }
  co_await pair_of(owed).submit(unlatch, unlatch_of(owed));
}

}  // namespace sidelatch::sync
