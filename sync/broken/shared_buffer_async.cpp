// Asynchronous unlatching from one local buffer, which is refilled right after the post.
//
// This is the easiest mistake with this optimization (TODS 2025, section 3.3: several buffers per queue pair). A NIC
// fetches a WRITE's payload some time after the doorbell. If the CPU has refilled the buffer for the next object by
// then, those bytes go into the last one, even if the NIC does everything in order.
#include "specimens.h"

#include "sync/latching.h"

#include <sidelatch/sync/exclusive_latch.h>

#include <cstring>
#include <utility>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class SharedBufferAsync final : public Scheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/shared-buffer-async"; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }
  [[nodiscard]] std::uint32_t most_buffers() const noexcept override { return 1; }

 protected:
  [[nodiscard]] Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                              Takeover takeover) const override {
    // The bug shows here: the CPU refills the buffer for the next object.
    RingBuffer buffer = session.take_buffer(*object.shape);
    if (!buffer.valid()) {
      buffer = co_await session.wait_for_buffer();
    }
    std::memset(buffer.span().data, 0, buffer.span().length);
    buffer.drop();
    ExclusiveGuard guard = co_await latch_.acquire(*this, session, object, place, takeover);
    co_return guard;
  }
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    const WorkRequest payload = write_payload(hold);
    // The bug: given back before the post, the buffer is free as soon as all earlier requests have completed.
    hold.buffer.drop();
    co_await hold.qp().enqueue(payload, fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word));
  }
  [[nodiscard]] Task<void> abort(Hold& hold) const override { return latch_.unlatch(hold); }
  [[nodiscard]] Task<ReadGuard> do_begin_read(Session& session, Object object,
                                              std::source_location place) const override {
    ExclusiveGuard guard = co_await latch_.acquire(*this, session, object, place, Takeover::refused);
    co_return guard.release_hold();
  }
  [[nodiscard]] Task<bool> validate(Hold& hold) const override {
    co_await latch_.unlatch(hold);
    co_return true;
  }
  [[nodiscard]] Task<void> release(Hold& hold) const override { return latch_.unlatch(hold); }

 private:
  ExclusiveLatch latch_;
};

}  // namespace

std::unique_ptr<Scheme> make_shared_buffer_async() { return std::make_unique<SharedBufferAsync>(); }

}  // namespace sidelatch::sync::broken
