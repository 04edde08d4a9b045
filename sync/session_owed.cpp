// What a session owes: latches that its operations could not give back, and the session's end.
#include <sidelatch/sync/guard.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/scheme.h>
#include <sidelatch/sync/session.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// Leaves the word of a dead holder in the latch, or frees it if there was none.
WorkRequest unlatch_of(const OwedLatch& owed) {
  switch (owed.by) {
    case UnlatchBy::swap_apart:
      return compare_swap(owed.latch, compact_word(owed.word), compact_word(owed.inherited));
    case UnlatchBy::count_back:
      return compare_swap(owed.latch, owed.word, owed.word - 1);
    case UnlatchBy::subtraction:
      break;
  }
  return fetch_add(owed.latch, owed.inherited - owed.word);
}

RemoteSpan latch_of(const Hold& hold) {
  return hold.unlatch_by == UnlatchBy::swap_apart ? hold.session->options().latches.word_of(hold.object)
                                                  : hold.object.latch();
}

// Of the request that was asked.
std::uint64_t number_of(const OwedLatch::Asked& asked) { return asked.number != 0 ? asked.number : asked.posting.last; }

bool is_commit(const OwedLatch& owed) { return !owed.writes.empty() || owed.version.length != 0; }

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
  if (!owed_.empty() && qp_->state() == QueuePair::State::ready) {
    return settle_and_acquire();
  }
  return ring_.acquire();
}

Task<RingBuffer> Session::settle_and_acquire() {
  co_await settle();
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
  errors_seen_ = owed_.empty() ? failures_ : kOwes;
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

void Session::owe(OwedLatch&& owed) {
  owed_.push_back(std::move(owed));
  errors_seen_ = kOwes;
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

void Session::release_dropped(Hold& hold, bool held, const Posting& asked) noexcept {
  if (hold.unlatch_by == UnlatchBy::swap_apart) {
    owe_unlatch(hold, nullptr, nullptr, false, /*posted=*/!held);
    QueuePair& latches = pair_of(owed_.back());
    try {
      const std::array<WorkRequest, 1> unlatch = {unlatch_of(owed_.back())};
      if (latches.state() == QueuePair::State::ready && latches.post(unlatch)) {
        owed_.back().certain = false;
        if (!has_lease()) {  // nobody could tell later whose latch it is
          owed_.pop_back();
        }
      }
    } catch (const FabricError&) {  // the queue pair fails: the latch is given back later
    }
    return;
  }
  if (hold.unlatch_by == UnlatchBy::count_back) {
    // Nothing else of this queue pair may be in flight; and if it has failed, the switch's control plane gives it back.
    if (held && qp_->state() == QueuePair::State::ready) {
      owe_unlatch(hold, nullptr, nullptr, false, /*posted=*/false);
    }
    return;
  }
  // What the operation has written before must be there first (see next_owed_is_last()).
  const bool by_one_request = hold.queue == nullptr || is_turn(hold.word);
  if (by_one_request && std::ranges::none_of(owed_, is_commit) && qp_->state() == QueuePair::State::ready) {
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
    if (owed.by == UnlatchBy::swap_apart && happens && !session_->has_lease()) {
      return;  // nobody could tell later whose latch it is
    }
    if (owed.by != UnlatchBy::subtraction || !happens) {
      owed.certain = owed.certain && !unlatch.happened();
      session_->owe(std::move(owed));
      return;
    }
    session_->posted_unlatch(owed.latch, owed.word, unlatch.last);
    if (session_->has_lease()) {
      Unlatches::Commit& commit = session_->unlatches_.new_commit();
      commit = {};
      commit.inherited = owed.inherited;
    }
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
void Session::next_owed_is_last() {
  const auto next = std::ranges::find_if(owed_, is_commit);
  if (next != owed_.end()) {
    std::rotate(next, next + 1, owed_.end());
  }
}

Task<void> Session::settle() {
  notice_failure();
  while (!owed_.empty()) {
    next_owed_is_last();
    if (owed_.back().queue != nullptr) {
      co_await settle_place();
      continue;
    }
    if (is_turn(owed_.back().word)) {  // an asynchronous unlatch of a ticket that nobody has noted
      OwedUnderWay last(*this, std::move(owed_.back()));
      owed_.pop_back();
      const std::uint64_t word = co_await qp_->fetch_add(last.owed.latch, 0);
      if (!is_served(word)) {
        in_doubt_.push_back(last.owed);
      }
      last.is_over();
      continue;
    }
    if (!owed_.back().certain && owed_.back().asked.posting.happened()) {
      OwedUnderWay last(*this, std::move(owed_.back()));
      owed_.pop_back();
      const std::uint64_t expected = last.owed.asked.expected;
      const bool is_count = last.owed.word == kOneReader;  // which always happens
      const bool happens = pair_of(last.owed).carries(last.owed.asked.posting);
      const std::optional<std::uint64_t> found = co_await outcome_of(last.owed);
      if (found && *found != expected && !is_count) {
        last.is_over();  // it has not latched
      }
      if (!found && last.owed.by == UnlatchBy::count_back) {
        in_doubt_.push_back(last.owed);  // others count the same versions
        last.is_over();
      }
      last.owed.certain = is_count ? happens : found.has_value();
      continue;  // unless it is over, the session owes it again, and knows more
    }
    if (!owed_.back().certain) {
      const OwedLatch& owed = owed_.back();
      // Requests of the connection that failed no longer happen, so what the word says now stays true.
      // A FETCH-ADD of 0 would store what it found over another client's unlatch by WRITE (exclusive_latch.h).
      const bool is_apart = owed.by == UnlatchBy::swap_apart;
      const bool is_count = owed.by == UnlatchBy::count_back;
      const WorkRequest look = is_count ? fetch_add(owed.latch, 0) : compare_swap(owed.latch, kFree, kFree);
      const auto found = co_await pair_of(owed).submit(look);
      const std::uint64_t word = is_apart ? expanded_word(found[0]) : found[0];
      if (!may_be_held(word, owed_.back())) {
        owed_.pop_back();  // it was unlatched, or never latched
        continue;
      }
      if (owed_.back().word == kOneReader || owner_of(owed_.back().word) == 0) {
        in_doubt_.push_back(std::move(owed_.back()));  // it may be another client's
        owed_.pop_back();
        continue;
      }
      owed_.back().certain = true;
    }
    OwedUnderWay last(*this, std::move(owed_.back()));
    owed_.pop_back();
    co_await give_back(last.owed, last.unlatch);
    last.is_over();
  }
  errors_seen_ = failures_;
}

Task<void> Session::settle_place() {
  OwedUnderWay last(*this, std::move(owed_.back()));
  owed_.pop_back();
  const Scheme::Turn turn = co_await last.owed.queue->pass_on(*this, last.owed);
  if (turn == Scheme::Turn::held) {
    co_await give_back(last.owed, last.unlatch);
  } else if (turn == Scheme::Turn::unknown) {
    in_doubt_.push_back(last.owed);
  }
  last.is_over();
}

Task<void> Session::write_again(const OwedLatch& owed) {
  if (owed.writes.empty()) {
    co_return;
  }
  RingBuffer buffer = co_await ring_.acquire();
  for (const OwedLatch::Write& write : owed.writes) {
    const LocalSpan from = buffer.span().subspan(0, write.bytes.size());
    std::memcpy(from.data, write.bytes.data(), write.bytes.size());
    co_await qp_->write(from, write.to);
    if (owed.by == UnlatchBy::swap_apart) {
      co_await qp_->read(from.subspan(0, 8), write.to.subspan(0, 8));  // the unlatch does not wait for the placement
    }
  }
}

Task<void> Session::give_back(OwedLatch& owed, Posting& unlatch) {
  if (owed.by == UnlatchBy::count_back) {
    co_await qp_->drain();  // the switch takes one request at a time
  }
  if (!owed.writes.empty() && owed.free_by_write) {
    owed.certain = false;  // if the WRITE fails, it may have happened
  }
  co_await write_again(owed);
  if (owed.version.length != 0) {
    co_await qp_->compare_swap(owed.version, owed.version_before, owed.version_before + 1);
  }
  if (!owed.free_by_write) {  // if the request fails, it may have happened
    co_await pair_of(owed).submit(unlatch, unlatch_of(owed));
  }
}

Task<void> Session::close() {
  co_await settle();
  co_await qp_->drain();
  if (options_.latches.queue_pair != nullptr) {
    co_await options_.latches.queue_pair->drain();
  }
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
  if (!unlatches_.empty() || !owed_.empty() || !in_doubt_.empty()) {
    finish();
  }
}

// At the session's end nothing can be awaited.
void Session::see_outcomes() {
  Reactor& reactor = qp_->reactor();
  static_cast<void>(reactor.wait_until_idle(*qp_, options_.linger));
  if (options_.latches.queue_pair != nullptr) {
    static_cast<void>(reactor.wait_until_idle(*options_.latches.queue_pair, options_.linger));
  }
  std::erase_if(owed_, [&](OwedLatch& owed) {
    const QueuePair& pair = pair_of(owed);
    const OwedLatch::Asked asked = owed.asked;
    const bool is_known =
        owed.queue == nullptr && pair.carries(asked.posting) && asked.posting.last <= pair.completed_so_far();
    if (!is_known) {
      return false;
    }
    const std::optional<std::uint64_t> found = pair.result_of(number_of(asked));
    owed.certain = owed.word == kOneReader || (found && *found == asked.expected);
    return found && !owed.certain;
  });
}

void Session::finish() {
  Reactor& reactor = qp_->reactor();
  if (reactor.explores() || reactor.abandons_tasks()) {
    return;
  }
  notice_failure();
  bool idle = false;
  std::size_t posted = 0;  // unlatches that nobody knows to have happened before the queue pair is idle
  if (std::ranges::any_of(owed_, [](const OwedLatch& owed) { return owed.asked.posting.happened(); })) {
    see_outcomes();
  }
  if (qp_->state() == QueuePair::State::ready) {
    posted = std::erase_if(owed_, [&](const OwedLatch& owed) {
      if (!owed.certain || !owed.writes.empty() || owed.queue != nullptr) {
        return false;
      }
      try {
        if (owed.by == UnlatchBy::count_back && !reactor.wait_until_idle(*qp_, options_.linger)) {
          return false;
        }
        const std::array<WorkRequest, 1> unlatch = {unlatch_of(owed)};
        return pair_of(owed).state() == QueuePair::State::ready && pair_of(owed).post(unlatch);
      } catch (const FabricError&) {
        return false;
      }
    });
    idle = reactor.wait_until_idle(*qp_, options_.linger);
    if (QueuePair* const latches = options_.latches.queue_pair; latches != nullptr) {
      idle = reactor.wait_until_idle(*latches, options_.linger) && idle;
    }
    if (failures_ == qp_->failures()) {
      unlatches_.prune(qp_->completed_so_far());
    }
  }
  const auto unknown =
      static_cast<std::uint64_t>(std::ranges::count_if(owed_, [](const OwedLatch& owed) { return !owed.certain; }));
  const LostWork lost{.unlatches = unknown + (idle ? 0 : unlatches_.size() + posted),
                      .latches = owed_.size() - unknown + in_doubt_.size()};
  if (!lost.nothing()) {
    options_.lost_work(lost);
  }
}

}  // namespace sidelatch::sync
