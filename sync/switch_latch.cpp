#include <sidelatch/sync/switch_latch.h>

#include <sidelatch/sync/latch_word.h>

#include "latching.h"

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

namespace {

const RemoteLatches& latches_of(const Session& session, std::string_view name) {
  const RemoteLatches& latches = session.options().latches;
  if (latches.queue_pair == nullptr) {
    throw std::invalid_argument(fmt::format(
        "{}: the session has no latches apart from its objects: set SessionOptions::latches to words at a switch",
        name));
  }
  return latches;
}

Task<void> unlatch_apart(Hold& hold, WorkRequest request) {
  QueuePair& latches = *hold.session->options().latches.queue_pair;
  ReleaseUnderWay under_way(hold);
  co_await latches.submit(under_way.unlatch, request);
  under_way.is_over();
  hold.buffer.drop();
}

}  // namespace

// A word that is not this hold's is a taker's, who has revoked this session first; or it is nobody's, and damaged.
WorkRequest SwitchLatch::unlatch_of(const Hold& hold) {
  return compare_swap(hold.session->options().latches.word_of(hold.object), compact_word(hold.word),
                      compact_word(hold.inherited));
}

Task<ExclusiveGuard> SwitchLatch::do_latch(Session& session, Object object, std::source_location place,
                                           Takeover takeover) const {
  const RemoteLatches& apart = latches_of(session, name());
  const RemoteSpan place_of_latch = apart.word_of(object);
  QueuePair& latches = *apart.queue_pair;
  Attempts attempts(session, Attempts::Forgotten());
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  Hold hold{.scheme = this,
            .session = &session,
            .object = object,
            .buffer = ObjectBuffer(std::move(buffer), *object.shape),
            .unlatch_by = UnlatchBy::swap_apart,
            .place = place};
  AcquisitionUnderWay under_way(hold);
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
    hold.word = expanded_word(compact_word(session.next_word()));
    under_way.begin(compact_word(expected));
    const auto old = co_await latches.submit(
        under_way.posting, compare_swap(place_of_latch, compact_word(expected), compact_word(hold.word)));
    const std::uint64_t seen = expanded_word(old[0]);
    under_way.latched = seen == expected;
    if (under_way.latched) {
      co_await session.qp().read(hold.buffer.record(), object.record());
    }
    if (seen == expected) {
      if (expected != kFree) {
        ++session.tally().takeovers;
      }
      co_return std::move(hold);
    }
    session.return_word();
    hold.word = 0;
    hold.inherited = 0;
    if (attempts.expired()) {
      watch.keep(place_of_latch.address, seen, hold.since);
      co_return ExclusiveGuard();
    }
    if (watch.expired(place_of_latch.address, seen, hold.since)) {
      if (takeover == Takeover::refused) {
        throw_holder_lost(object, seen);
      }
      co_await revoke_holder(session, object, seen);
      expected = seen;
      hold.inherited = seen;
      continue;
    }
    expected = kFree;
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
}

Task<void> SwitchLatch::commit(Hold& hold) const {
  if (lease_is_over(hold)) {
    co_await unlatch_apart(hold, unlatch_of(hold));
    throw_lease_expired(hold);
  }
  QueuePair& qp = hold.qp();
  QueuePair& latches = *hold.session->options().latches.queue_pair;
  const WorkRequest write = write_payload(hold);
  hold.inherited = 0;  // repaired
  ReleaseUnderWay under_way(hold, &write);
  Posting written;
  try {
    co_await qp.submit(written, write, fabric::read(hold.buffer.header(), hold.object.header()));
    co_await latches.submit(under_way.unlatch, unlatch_of(hold));
  } catch (const FabricError& error) {
    throw_commit_failed(error, hold, written.happened(), under_way.unlatch.happened());
  }
  under_way.is_over();
  hold.buffer.drop();
}

Task<void> SwitchLatch::abort(Hold& hold) const { return unlatch_apart(hold, unlatch_of(hold)); }

Task<ReadGuard> SwitchLatch::do_begin_read(Session& session, Object object, std::source_location place) const {
  ExclusiveGuard guard = co_await do_latch(session, object, place, Takeover::refused);
  co_return guard.release_hold();
}

// Others may take a reader with an expired lease for dead, so the object may have changed since.
Task<bool> SwitchLatch::validate(Hold& hold) const {
  const bool in_time = !lease_is_over(hold);
  co_await unlatch_apart(hold, unlatch_of(hold));
  co_return in_time;
}

Task<void> SwitchLatch::release(Hold& hold) const { return unlatch_apart(hold, unlatch_of(hold)); }

Task<std::uint64_t> SwitchLatch::do_peek(Session& session, Object object) const {
  const RemoteLatches& apart = latches_of(session, name());
  const std::uint64_t word = co_await apart.queue_pair->compare_swap(apart.word_of(object), kFree, kFree);
  co_return expanded_word(word);
}

}  // namespace sidelatch::sync
