// A ticket latch that serves the next ticket before it writes: the next client reads between the two, also where an
// atomic would hold back a later WRITE of its queue pair (it need not, by rule 5).
#include "specimens.h"

#include <sidelatch/sync/ticket_latch.h>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class TicketEarlyUnlatch final : public TicketLatch {
 public:
  TicketEarlyUnlatch() : TicketLatch(LatchLevel::combined) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/ticket-early-unlatch"; }

 protected:
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    const RecordShape& shape = *hold.object.shape;
    const WorkRequest payload = write(hold.buffer.part(shape.payload, shape.payload_words()),
                                      hold.object.part(shape.payload, shape.payload_words()));
    co_await hold.qp().submit(fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word));
    co_await hold.qp().submit(payload);
  }
};

}  // namespace

std::unique_ptr<Scheme> make_ticket_early_unlatch() { return std::make_unique<TicketEarlyUnlatch>(); }

}  // namespace sidelatch::sync::broken
