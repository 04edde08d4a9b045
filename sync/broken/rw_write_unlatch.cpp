// A reader/writer latch with write unlatch: the writer's WRITE carries the free latch word.
//
// TODS 2025, section 3.3, shows why this optimization is for one-mode latches only. Readers count themselves in by
// FETCH-ADD before they know whether a writer is there. The WRITE erases such a count, but the reader still subtracts
// it later. And a FETCH-ADD that loaded the latched word before the WRITE was placed stores it back afterwards
// (rule 8): the unlatch is lost, and the latch stays held for ever.
#include "rw_specimen.h"
#include "specimens.h"

#include <sidelatch/sync/latch_word.h>

#include <cstring>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class RwWriteUnlatch final : public RwSpecimen {
 public:
  RwWriteUnlatch() : RwSpecimen("broken/rw-write-unlatch") {}
  [[nodiscard]] LayoutKind default_layout() const noexcept override { return LayoutKind::padded_footer; }

 protected:
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    const RecordShape& shape = *hold.object.shape;
    std::memcpy(hold.buffer.record().data + shape.header + shape.latch_in_header(), &kFree, sizeof kFree);
    co_await hold.qp().write(hold.buffer.record(), hold.object.record());
  }
};

}  // namespace

std::unique_ptr<Scheme> make_rw_write_unlatch() { return std::make_unique<RwWriteUnlatch>(); }

}  // namespace sidelatch::sync::broken
