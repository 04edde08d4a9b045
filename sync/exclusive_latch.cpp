#include <sidelatch/sync/exclusive_latch.h>

#include <sidelatch/sync/latch_word.h>

#include "latching.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

std::string_view name(LatchLevel level) {
  switch (level) {
    case LatchLevel::basic:
      return "basic";
    case LatchLevel::speculative:
      return "speculative";
    case LatchLevel::combined:
      return "combined";
    case LatchLevel::async:
      return "async";
  }
  return "unknown";
}

ExclusiveLatch::ExclusiveLatch(Acquire acquire, Release release)
    : acquire_(acquire), release_(release), name_(fmt::format("latch-exclusive/{}", level_name(acquire, release))) {}

ExclusiveLatch::ExclusiveLatch(Acquire acquire, WriteUnlatch unlatch)
    : acquire_(acquire), release_(Release::combined), write_unlatch_(unlatch), name_("latch-exclusive/write-unlatch") {}

// Figure 7, upper half.
Task<ExclusiveGuard> ExclusiveLatch::acquire(const Scheme& scheme, Session& session, Object object,
                                             std::source_location place, Takeover takeover) const {
  if (write_unlatch_ && !object.shape->header_last) {
    throw std::invalid_argument(
        fmt::format("{}: write unlatch needs a footer layout: the latch must have the record's "
                    "highest address",
                    scheme.name()));
  }
  Attempts attempts(session, Attempts::Forgotten());
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  Hold hold{.scheme = &scheme,
            .session = &session,
            .object = object,
            .buffer = ObjectBuffer(std::move(buffer), *object.shape),
            .place = place};
  AcquisitionUnderWay under_way(hold);
  QueuePair& qp = session.qp();
  LeaseWatch watch(session);
  std::uint64_t expected = kFree;
  while (attempts.shows_head()) {
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
  for (;;) {
    if (session.has_lease()) {
      hold.since = session.lease_clock();
    }
    hold.word = session.next_word();
    // Readers that probe the latch during a takeover from a dead holder stay counted.
    const std::uint64_t desired = hold.word | (expected & kReadersMask);
    const WorkRequest latch = compare_swap(object.latch(), expected, desired);
    const WorkRequest record = fabric::read(hold.buffer.record(), object.record());
    std::uint64_t seen = 0;
    if (acquire_ != Acquire::speculative) {
      const auto old = co_await qp.submit(under_way.posting, latch);
      seen = old[0];
      under_way.latched = seen == expected;
      if (under_way.latched && object.version_is_apart()) {
        co_await qp.submit(record, fabric::read(hold.buffer.header(), object.header()));
      } else if (under_way.latched) {
        co_await qp.submit(record);
      }
    } else if (object.version_is_apart()) {
      const WorkRequest header = fabric::read(hold.buffer.header(), object.header());
      const auto old = co_await qp.submit(under_way.posting, latch, record, header);
      seen = old[0];
    } else {
      const auto old = co_await qp.submit(under_way.posting, latch, record);
      seen = old[0];
    }
    if (seen == expected) {
      if (expected != kFree) [[unlikely]] {
        ++session.tally().takeovers;
      }
      co_return std::move(hold);
    }
    session.return_word();
    hold.word = 0;
    const std::uint64_t revoked = std::exchange(hold.inherited, 0);  // by this attempt
    if (attempts.expired()) {
      watch.keep(object.latch().address, seen, hold.since);
      co_return ExclusiveGuard();
    }
    // A reader may have counted itself in or out since the word was seen (RwLatch).
    const bool is_revoked = revoked != 0 && holder_of(seen) == revoked;
    if (is_revoked || watch.expired(object.latch().address, seen, hold.since)) {
      if (takeover == Takeover::refused) {
        throw_holder_lost(object, seen);
      }
      if (!is_revoked) {
        co_await revoke_holder(session, object, seen);
      }
      expected = seen;
      hold.inherited = holder_of(seen);
      under_way.begin(expected);
      continue;
    }
    expected = kFree;
    under_way.begin(expected);
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
}

// Nobody else has the latch: a takeover would have ended this queue pair first, so the unlatch would fail. A latch that
// was taken over and not repaired is the dead holder's again, for the next client to take over and repair.
Task<void> ExclusiveLatch::give_up(Hold& hold) const {
  return post_unlatch(hold, fetch_add(hold.object.latch(), hold.inherited - hold.word), is_async());
}

namespace {

// Only a session with an owner can find out later whether the commit has happened.
void remember_commit(const Hold& hold, const WorkRequest& write, const WorkRequest* publish, bool free_by_write) {
  if (hold.session->has_lease()) {
    hold.session->posted_commit(hold, write, publish, free_by_write);
  }
}

}  // namespace

// Figure 7, lower half.
Task<void> ExclusiveLatch::write_and_unlatch(Hold& hold, WorkRequest write) const {
  if (lease_is_over(hold)) {
    co_await give_up(hold);
    throw_lease_expired(hold);
  }
  QueuePair& qp = hold.qp();
  ReleaseUnderWay under_way(hold, &write, nullptr, write_unlatch_.has_value());
  Posting written;
  try {
    if (write_unlatch_) {
      // The WRITE carries the free latch.
      const std::uint64_t offset = hold.object.shape->header + hold.object.shape->latch_in_header();
      std::memcpy(hold.buffer.record().data + offset, &kFree, sizeof kFree);
      if (*write_unlatch_ == WriteUnlatch::async) {
        co_await qp.enqueue(under_way.unlatch, write);
        hold.session->posted_unlatch(hold.object.latch(), hold.word);
        hold.session->posted_write_unlatch(hold.object.latch());
        remember_commit(hold, write, nullptr, /*free_by_write=*/true);
      } else if (hold.session->has_lease()) {
        // The WRITE's completion does not prove that it is placed (rule 2), and a revocation would lose it. The READ
        // behind it proves it (rule 5).
        co_await qp.submit(under_way.unlatch, write, fabric::read(hold.buffer.header(), hold.object.header()));
      } else {
        hold.session->posted_write_unlatch(hold.object.latch());
        co_await qp.submit(under_way.unlatch, write);
      }
    } else {
      const WorkRequest give_back = fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
      switch (release_) {
        case Release::basic:
          co_await hold.session->until_switch_is_free();
          co_await qp.submit(written, write);
          co_await qp.submit(under_way.unlatch, give_back);
          break;
        case Release::combined:
          co_await qp.submit(under_way.unlatch, write, give_back);
          break;
        case Release::async:
          co_await qp.enqueue(under_way.unlatch, write, give_back);
          hold.session->posted_unlatch(hold.object.latch(), hold.word);
          remember_commit(hold, write, nullptr, /*free_by_write=*/false);
          break;
      }
    }
  } catch (const FabricError& error) {
    const bool unlatched = under_way.unlatch.happened();
    throw_commit_failed(error, hold, written.happened() || unlatched, unlatched);
  }
  under_way.is_over();
  hold.buffer.drop();
}

Task<void> ExclusiveLatch::write_and_unlatch(Hold& hold, WorkRequest write, WorkRequest publish) const {
  if (lease_is_over(hold)) {
    co_await give_up(hold);
    throw_lease_expired(hold);
  }
  WorkRequest give_back = fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
  give_back.fence = is_atomic(publish.opcode);  // atomics on different words are not ordered (rule 5)
  QueuePair& qp = hold.qp();
  ReleaseUnderWay under_way(hold, &write, &publish);
  try {
    if (release_ == Release::async) {
      co_await qp.enqueue(under_way.unlatch, write, publish, give_back);
      hold.session->posted_unlatch(hold.object.latch(), hold.word);
      remember_commit(hold, write, &publish, /*free_by_write=*/false);
    } else {
      co_await qp.submit(under_way.unlatch, write, publish, give_back);
    }
  } catch (const FabricError& error) {
    throw_commit_failed(error, hold, under_way.unlatch.happened(), under_way.unlatch.happened());
  }
  under_way.is_over();
  hold.buffer.drop();
}

Task<void> ExclusiveLatch::unlatch(Hold& hold) const {
  const WorkRequest unlatch = fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
  return post_unlatch(hold, unlatch, is_async());
}

Task<ExclusiveGuard> ExclusiveLatch::do_latch(Session& session, Object object, std::source_location place,
                                              Takeover takeover) const {
  return acquire(*this, session, object, place, takeover);
}

// The same as write_and_unlatch(), with fewer copies: the cheapest latch must stay cheap.
Task<void> ExclusiveLatch::commit_async(Hold& hold) const {
  Session& session = *hold.session;
  const bool leased = session.has_lease();
  if (leased && lease_is_over_now(hold)) {
    co_await give_up(hold);
    throw_lease_expired(hold);
  }
  const WorkRequest write = write_payload(hold);
  const WorkRequest give_back = fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
  ReleaseUnderWay under_way(hold, &write);
  try {
    co_await session.qp().enqueue(under_way.unlatch, write, give_back);
  } catch (const FabricError& error) {  // it waits only for room: nothing was posted
    throw_commit_failed(error, hold, /*posted=*/false, /*unlatched=*/false);
  }
  under_way.is_over();
  session.posted_unlatch({give_back.remote, 8, give_back.rkey}, hold.word);
  if (leased) [[unlikely]] {
    session.posted_commit(hold, write, nullptr, /*free_by_write=*/false);
  }
  hold.buffer.drop();
}

Task<void> ExclusiveLatch::commit(Hold& hold) const {
  if (release_ == Release::async && !write_unlatch_) {
    return commit_async(hold);
  }
  return write_and_unlatch(
      hold, write_unlatch_ ? fabric::write(hold.buffer.record(), hold.object.record()) : write_payload(hold));
}

Task<void> ExclusiveLatch::abort(Hold& hold) const { return unlatch(hold); }

Task<ReadGuard> ExclusiveLatch::do_begin_read(Session& session, Object object, std::source_location place) const {
  ExclusiveGuard guard = co_await acquire(*this, session, object, place, Takeover::refused);
  co_return guard.release_hold();
}

// Others may take a reader with an expired lease for dead, so the object may have changed since.
Task<bool> ExclusiveLatch::validate(Hold& hold) const {
  const bool in_time = !lease_is_over(hold);
  co_await unlatch(hold);
  co_return in_time;
}

Task<void> ExclusiveLatch::release(Hold& hold) const { return unlatch(hold); }

}  // namespace sidelatch::sync
