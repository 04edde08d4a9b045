// What a session owes: latches that its operations could not give back, and the session's end.
#include <sidelatch/sync/guard.h>
#include <sidelatch/sync/latch_word.h>
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

WorkRequest unlatch_of(const RemoteSpan& latch, std::uint64_t word) {
  return fetch_add(latch, std::uint64_t{0} - word);
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
  if (errors_seen_ == qp_->counters().errors) {
    return;
  }
  errors_seen_ = qp_->counters().errors;
  for (; !unlatches_.empty(); unlatches_.pop()) {
    const Unlatches::Entry& entry = unlatches_.front();
    OwedLatch owed{.latch = entry.latch, .word = entry.word, .free_by_write = entry.free_by_write, .writes = {}};
    for (std::uint32_t i = 0; i < entry.writes; ++i) {
      owed.writes.push_back(copy_of(entry.write[i]));
    }
    owed.version = entry.version;
    owed.version_before = entry.version_before;
    owed_.push_back(std::move(owed));
  }
}

void Session::note_unlatch(Unlatches::Entry& entry, const Hold& hold, std::span<const WorkRequest> writes,
                           bool free_by_write) {
  entry.word = hold.word;
  entry.latch = hold.object.latch();
  if (!has_lease()) {
    return;
  }
  entry.free_by_write = free_by_write;
  entry.version = {};
  for (const WorkRequest& request : writes) {
    if (is_atomic(request.opcode)) {
      entry.version = hold.object.version();
      entry.version_before = hold.version;
    } else {
      entry.write[entry.writes++] = request;
    }
  }
}

void Session::owe_unlatch(const Hold& hold, std::span<const WorkRequest> writes, bool free_by_write, bool posted) {
  OwedLatch owed{.latch = hold.object.latch(),
                 .word = hold.word,
                 .certain = !posted,
                 .retake = hold.inherited && writes.empty(),
                 .free_by_write = free_by_write,
                 .writes = {}};
  for (const WorkRequest& request : writes) {
    if (is_atomic(request.opcode)) {
      owed.version = hold.object.version();
      owed.version_before = hold.version;
    } else {
      owed.writes.push_back(copy_of(request));
    }
  }
  owed_.push_back(std::move(owed));
}

void Session::owe_acquired(const Hold& hold, bool latched) {
  owed_.push_back(
      {.latch = hold.object.latch(), .word = hold.word, .certain = latched, .retake = hold.inherited, .writes = {}});
}

void Session::release_dropped(Hold& hold) noexcept {
  if (!hold.inherited && qp_->state() == QueuePair::State::ready) {
    try {
      const std::array<WorkRequest, 1> unlatch = {unlatch_of(hold.object.latch(), hold.word)};
      if (qp_->post(unlatch)) {
        posted_unlatch(hold, {}, false);
        return;
      }
    } catch (const FabricError&) {  // the queue pair fails: its latches are given back later
    }
  }
  owe_unlatch(hold, {}, false, /*posted=*/false);
}

bool Session::may_retake(const Object& object, std::uint64_t word) const noexcept {
  return std::ranges::any_of(retakes_, [&](const OwedLatch& owed) {
    return owed.latch.address == object.latch().address && holder_of(word) == holder_of(owed.word);
  });
}

void Session::retaken(const Object& object) noexcept {
  std::erase_if(retakes_, [&](const OwedLatch& owed) { return owed.latch.address == object.latch().address; });
}

void Session::note_dead(std::uint16_t owner) {
  if (std::ranges::find(dead_owners_, owner) == dead_owners_.end()) {
    dead_owners_.push_back(owner);
  }
}

Task<void> Session::settle() {
  notice_failure();
  while (!owed_.empty()) {
    if (!owed_.back().certain) {
      if (owed_.back().word == kOneReader || owner_of(owed_.back().word) == 0) {
        in_doubt_.push_back(std::move(owed_.back()));
        owed_.pop_back();
        continue;
      }
      const OwedLatch& owed = owed_.back();
      // Requests of the connection that failed no longer happen, so what the word says now stays true.
      const std::uint64_t word = co_await qp_->fetch_add(owed.latch, 0);
      if (holder_of(word) != holder_of(owed.word)) {
        owed_.pop_back();  // it was unlatched, or never latched
        continue;
      }
      owed_.back().certain = true;
    }
    if (owed_.back().retake) {
      retakes_.push_back(std::move(owed_.back()));
      owed_.pop_back();
      continue;
    }
    OwedLatch owed = std::move(owed_.back());
    owed_.pop_back();
    std::exception_ptr error;
    try {
      co_await give_back(owed);
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      owed_.push_back(std::move(owed));
      std::rethrow_exception(error);
    }
  }
}

Task<void> Session::give_back(OwedLatch& owed) {
  if (!owed.writes.empty()) {
    RingBuffer buffer = co_await ring_.acquire();
    for (const OwedLatch::Write& write : owed.writes) {
      const LocalSpan from = buffer.span().subspan(0, write.bytes.size());
      std::memcpy(from.data, write.bytes.data(), write.bytes.size());
      co_await qp_->write(from, write.to);
    }
  }
  if (owed.version.length != 0) {
    co_await qp_->compare_swap(owed.version, owed.version_before, owed.version_before + 1);
  }
  if (!owed.free_by_write) {
    owed.certain = false;  // if the request fails, it may have happened
    co_await qp_->submit(unlatch_of(owed.latch, owed.word));
  }
}

Task<void> Session::close() {
  co_await settle();
  co_await qp_->drain();
  unlatches_.prune(qp_->completed());
}

Session::~Session() {
  if (!unlatches_.empty() || !owed_.empty() || !retakes_.empty() || !in_doubt_.empty()) {
    finish();
  }
}

void Session::finish() {
  Reactor& reactor = qp_->reactor();
  if (reactor.explores() || reactor.abandons_tasks()) {
    return;
  }
  notice_failure();
  bool idle = false;
  if (qp_->state() == QueuePair::State::ready) {
    std::erase_if(owed_, [&](const OwedLatch& owed) {
      if (!owed.certain || owed.retake || !owed.writes.empty()) {
        return false;
      }
      try {
        const std::array<WorkRequest, 1> unlatch = {unlatch_of(owed.latch, owed.word)};
        return qp_->post(unlatch);
      } catch (const FabricError&) {
        return false;
      }
    });
    idle = reactor.wait_until_idle(*qp_, options_.linger);
    if (errors_seen_ == qp_->counters().errors) {
      unlatches_.prune(qp_->completed());
    }
  }
  const auto unknown =
      static_cast<std::uint64_t>(std::ranges::count_if(owed_, [](const OwedLatch& owed) { return !owed.certain; }));
  const LostWork lost{.unlatches = unknown + (idle ? 0 : unlatches_.size()),
                      .latches = owed_.size() - unknown + retakes_.size() + in_doubt_.size()};
  if (!lost.nothing()) {
    options_.lost_work(lost);
  }
}

}  // namespace sidelatch::sync
