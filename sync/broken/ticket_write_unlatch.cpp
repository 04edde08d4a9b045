// A ticket latch whose holder unlatches by a WRITE of the word that it has read, with the next ticket served.
//
// Who asks meanwhile adds one to the other half of the word, and the WRITE erases that: the next client gets the same
// ticket, and both are served together. Or an atomic that loaded the word before the WRITE stores it back afterwards
// (rule 8), and the unlatch is lost.
#include "specimens.h"

#include <sidelatch/sync/ticket_latch.h>

#include <cstring>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class TicketWriteUnlatch final : public TicketLatch {
 public:
  TicketWriteUnlatch() : TicketLatch(LatchLevel::combined) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/ticket-write-unlatch"; }

 protected:
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    const RecordShape& shape = *hold.object.shape;
    const LocalSpan word = hold.buffer.part(shape.header + shape.latch_in_header(), sizeof(std::uint64_t));
    std::uint64_t latch = 0;
    std::memcpy(&latch, word.data, sizeof latch);
    ++latch;
    std::memcpy(word.data, &latch, sizeof latch);
    const WorkRequest payload = write(hold.buffer.part(shape.payload, shape.payload_words()),
                                      hold.object.part(shape.payload, shape.payload_words()));
    co_await hold.qp().submit(payload, write(word, hold.object.latch()));
  }
};

}  // namespace

std::unique_ptr<Scheme> make_ticket_write_unlatch() { return std::make_unique<TicketWriteUnlatch>(); }

}  // namespace sidelatch::sync::broken
