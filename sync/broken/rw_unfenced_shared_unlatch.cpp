// A reader/writer latch whose reader latches, reads and unlatches in one doorbell, without a fence.
//
// It takes one round trip, the least possible. It trusts that the unlatching FETCH-ADD is executed after the READ
// before it. Only a fence orders a READ and a later atomic of one queue pair (rule 5, READ \ atomic). Without it the
// latch may be free again, and a writer at work, while lines are still being sampled. TODS 2025, section 4.3 and
// anti-pattern 2.
#include "rw_specimen.h"
#include "specimens.h"

#include <sidelatch/sync/latch_word.h>

#include <utility>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class RwUnfencedSharedUnlatch final : public RwSpecimen {
 public:
  RwUnfencedSharedUnlatch() : RwSpecimen("broken/rw-unfenced-shared-unlatch") {}

 protected:
  [[nodiscard]] Task<ReadGuard> do_begin_read(Session& session, Object object,
                                              std::source_location place) const override {
    RingBuffer buffer = session.take_buffer(*object.shape);
    if (!buffer.valid()) {
      buffer = co_await session.wait_for_buffer();
    }
    Hold hold{.scheme = this, .session = &session, .object = object, .place = place};
    hold.buffer = ObjectBuffer(std::move(buffer), *object.shape);
    Attempts attempts(session);
    for (;;) {
      const auto old = co_await session.qp().submit(fetch_add(object.latch(), kOneReader),
                                                    fabric::read(hold.buffer.record(), object.record()),
                                                    fetch_add(object.latch(), std::uint64_t{0} - kOneReader));
      if (!is_exclusive(old[0])) {
        co_return ReadGuard(std::move(hold), /*fresh=*/true);
      }
      if (attempts.expired()) {
        co_return ReadGuard();
      }
      co_await attempts.pause();
    }
  }
  [[nodiscard]] Task<void> release(Hold& /*hold*/) const override { co_return; }
};

}  // namespace

std::unique_ptr<Scheme> make_rw_unfenced_shared_unlatch() { return std::make_unique<RwUnfencedSharedUnlatch>(); }

}  // namespace sidelatch::sync::broken
