#include <sidelatch/sync/exclusive_latch.h>

#include <sidelatch/sync/latch_word.h>

#include "latching.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <stdexcept>

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
Task<Hold> ExclusiveLatch::acquire(const Scheme& scheme, Session& session, Object object,
                                   std::source_location place, Purpose purpose) const {
  if (write_unlatch_ && !object.shape->header_last) {
    throw std::invalid_argument(fmt::format("{}: write unlatch needs a footer layout: the latch must have the record's "
                                            "highest address",
                                            scheme.name()));
  }
  Hold hold{.scheme = &scheme, .session = &session, .object = object, .place = place};
  RingBuffer buffer = co_await session.take_buffer(*object.shape);
  hold.buffer = ObjectBuffer(std::move(buffer), *object.shape);
  QueuePair& qp = session.qp();
  const Reads reads(object, hold.buffer);
  Attempts attempts(session);
  LeaseWatch watch(session);
  std::uint64_t expected = kFree;
  for (;;) {
    hold.since = session.now();
    hold.word = session.next_word();
    // Readers who look in while a dead holder's latch is taken over stay counted.
    const std::uint64_t desired = hold.word | (expected & kReadersMask);
    std::uint64_t seen = 0;
    if (acquire_ == Acquire::speculative) {
      const Chain chain(compare_swap(object.latch(), expected, desired), reads);
      std::array<std::uint64_t, Chain::kMost> old{};
      co_await qp.submit(chain.requests(), std::span(old).first(chain.requests().size()));
      seen = old[0];
    } else {
      seen = co_await qp.compare_swap(object.latch(), expected, desired);
      if (seen == expected) {
        co_await qp.submit(reads.requests());
      }
    }
    if (seen == expected) {
      hold.inherited = is_exclusive(expected);
      session.counters().takeovers += hold.inherited ? 1 : 0;
      co_return hold;
    }
    if (attempts.expired()) {
      co_return Hold{};
    }
    if (watch.expired(seen)) {
      if (purpose == Purpose::read) {
        throw_holder_lost(object, seen);
      }
      co_await revoke_holder(session, object, seen);
      expected = seen;
      continue;
    }
    expected = kFree;
    co_await attempts.pause();
  }
}

// Figure 7, lower half.
Task<void> ExclusiveLatch::write_and_unlatch(Hold hold, std::span<const WorkRequest> writes) const {
  require_lease(hold);
  QueuePair& qp = hold.qp();
  if (write_unlatch_) {
    // The last WRITE carries the free latch.
    const std::uint64_t offset = hold.object.shape->header + hold.object.shape->latch_in_header();
    std::memcpy(hold.buffer.record().data + offset, &kFree, sizeof kFree);
    if (*write_unlatch_ == WriteUnlatch::async) {
      co_await qp.enqueue(writes);
    } else {
      co_await qp.submit(writes);
    }
    co_return;
  }
  const WorkRequest unlatch = fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
  if (release_ == Release::basic) {
    co_await qp.submit(writes);
    co_await qp.submit(unlatch);
    co_return;
  }
  const Chain chain(writes, unlatch);
  if (release_ == Release::async) {
    co_await qp.enqueue(chain.requests());
  } else {
    co_await qp.submit(chain.requests());
  }
}

Task<void> ExclusiveLatch::unlatch(Hold hold) const {
  const WorkRequest unlatch = fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word);
  const bool async = write_unlatch_ ? *write_unlatch_ == WriteUnlatch::async : release_ == Release::async;
  if (async) {
    co_await hold.qp().enqueue(unlatch);
  } else {
    co_await hold.qp().submit(unlatch);
  }
}

Task<ExclusiveGuard> ExclusiveLatch::do_latch(Session& session, Object object, std::source_location place) const {
  Hold hold = co_await acquire(*this, session, object, place);
  co_return ExclusiveGuard(std::move(hold));
}

Task<void> ExclusiveLatch::commit(Hold hold) const {
  const std::array<WorkRequest, 1> writes = {write_unlatch_ ? write(hold.buffer.record(), hold.object.record())
                                                            : write_payload(hold)};
  co_await write_and_unlatch(std::move(hold), writes);
}

Task<void> ExclusiveLatch::abort(Hold hold) const { return unlatch(std::move(hold)); }

Task<ReadGuard> ExclusiveLatch::do_begin_read(Session& session, Object object, std::source_location place) const {
  Hold hold = co_await acquire(*this, session, object, place, Purpose::read);
  co_return ReadGuard(std::move(hold));
}

Task<bool> ExclusiveLatch::validate(Hold hold) const {
  co_await unlatch(std::move(hold));
  co_return true;
}

Task<void> ExclusiveLatch::release(Hold hold) const { return unlatch(std::move(hold)); }

}  // namespace sidelatch::sync
