#include <sidelatch/sync/rw_latch.h>

#include <sidelatch/sync/latch_word.h>

#include "latching.h"

#include <fmt/format.h>

namespace sidelatch::sync {

using namespace fabric;

namespace {

constexpr std::uint64_t kMinusOneReader = std::uint64_t{0} - kOneReader;

// Takes back the count of a reader that has met a writer.
Task<void> count_out(Hold& hold) {
  ReleaseUnderWay under_way(hold);
  co_await hold.qp().submit(under_way.unlatch, fetch_add(hold.object.latch(), kMinusOneReader));
  under_way.is_over();
}

// A read may end without an outcome: by an exception, or because its task is destroyed. A hold that has its word then
// may be counted. One that became a guard has no buffer any more.
class CountUnderWay {
 public:
  explicit CountUnderWay(Hold& hold) noexcept : hold_(&hold) {}
  CountUnderWay(const CountUnderWay&) = delete;
  CountUnderWay& operator=(const CountUnderWay&) = delete;
  ~CountUnderWay() {
    if (!hold_->buffer.valid() || !posting.happened() || hold_->qp().reactor().abandons_tasks()) {
      return;
    }
    const QueuePair& qp = hold_->qp();
    if (qp.carries(posting) || (counted && qp.state() == QueuePair::State::ready)) {
      hold_->session->release_dropped(*hold_, counted, posting);  // executed behind the count, or not at all
    } else {
      hold_->session->owe_acquired(*hold_, counted, posting, 0);
    }
  }
  fabric::Posting posting;  // of the count
  bool counted = false;     // for certain

 private:
  Hold* hold_;
};

}  // namespace

RwLatch::RwLatch(Acquire acquire, Release release)
    : writer_(acquire, release),
      acquire_(acquire),
      release_(release),
      name_(fmt::format("latch-rw/{}", level_name(acquire, release))) {}

Task<ExclusiveGuard> RwLatch::do_latch(Session& session, Object object, std::source_location place,
                                       Takeover takeover) const {
  return writer_.acquire(*this, session, object, place, takeover);
}

Task<void> RwLatch::commit(Hold& hold) const { return writer_.write_and_unlatch(hold, write_payload(hold)); }

Task<void> RwLatch::abort(Hold& hold) const { return writer_.unlatch(hold); }

Task<ReadGuard> RwLatch::do_begin_read(Session& session, Object object, std::source_location place) const {
  Attempts attempts(session, Attempts::Forgotten());
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  Hold hold{.scheme = this, .session = &session, .object = object, .place = place};
  hold.buffer = ObjectBuffer(std::move(buffer), *object.shape);
  CountUnderWay under_way(hold);
  QueuePair& qp = session.qp();
  LeaseWatch watch(session);
  while (attempts.shows_head()) {
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
  for (;;) {
    const WorkRequest count_in = fetch_add(object.latch(), kOneReader);
    const Time asked = session.has_lease() ? session.lease_clock() : Time{};
    std::uint64_t seen = 0;
    hold.word = kOneReader;
    under_way.counted = false;
    if (acquire_ == Acquire::speculative) {
      const auto old =
          co_await qp.submit(under_way.posting, count_in, fabric::read(hold.buffer.record(), object.record()));
      seen = old[0];
    } else {
      const auto old = co_await qp.submit(under_way.posting, count_in);
      under_way.counted = true;
      seen = old[0];
      if (!is_exclusive(seen)) {
        co_await qp.read(hold.buffer.record(), object.record());
      }
    }
    if (!is_exclusive(seen)) {
      co_return std::move(hold);
    }
    under_way.posting = {};  // from here on count_out() sees to it
    co_await count_out(hold);
    if (attempts.expired()) {
      watch.keep(object.latch().address, seen, asked);
      co_return ReadGuard();
    }
    if (watch.expired(object.latch().address, seen, asked)) {
      throw_holder_lost(object, seen);
    }
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
}

Task<bool> RwLatch::validate(Hold& hold) const {
  co_await release(hold);
  co_return true;
}

// The count may go down only now, after the READ has completed (rule 5, READ \ atomic).
Task<void> RwLatch::release(Hold& hold) const {
  return post_unlatch(hold, fetch_add(hold.object.latch(), kMinusOneReader), release_ == Release::async);
}

}  // namespace sidelatch::sync
