// A latch at a switch whose client sends to switch and memory node at once: the CAS with the READ, and the WRITE with
// the unlatch.
//
// ExclusiveLatch does so, and is right: there both are on one queue pair, and rule 5 orders them. Here they are on two,
// to two targets, and nothing orders them (rule 7). The READ may be sampled before the CAS comes, while the holder
// before writes; and the next holder may read the object before the WRITE has come.
#include "specimens.h"

#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/switch_latch.h>

#include "sync/latching.h"

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class SwitchLatchAtOnce final : public SwitchLatch {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/switch-latch-at-once"; }

 protected:
  [[nodiscard]] Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                              Takeover /*takeover*/) const override {
    const RemoteLatches& apart = session.options().latches;
    Attempts attempts(session);
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
    for (;;) {
      co_await session.qp().enqueue(fabric::read(hold.buffer.record(), object.record()));
      const std::uint64_t seen = co_await apart.queue_pair->compare_swap(apart.word_of(object), kFree, kExclusive);
      co_await session.qp().drain();
      if (seen == kFree) {
        hold.word = kExclusive;
        co_return std::move(hold);
      }
      if (attempts.expired()) {
        co_return ExclusiveGuard();
      }
      forget_failed_attempt(session, hold.buffer);
      co_await attempts.pause();
    }
  }

  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    co_await hold.qp().enqueue(write_payload(hold));
    co_await hold.session->options().latches.queue_pair->submit(unlatch_of(hold));
    hold.buffer.drop();
  }
};

}  // namespace

std::unique_ptr<Scheme> make_switch_latch_at_once() { return std::make_unique<SwitchLatchAtOnce>(); }

}  // namespace sidelatch::sync::broken
