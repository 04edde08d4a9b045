// A reader/writer latch whose writer unlatches by a compare-and-swap and does not check its result.
//
// The paper shows unlatching by CAS (TODS 2025, figure 3), and asynchronous unlatching saves the wait for it. Together
// they are wrong for a latch that readers add to. While a reader is counted in, the word differs from what the writer
// put there. The CAS then fails unnoticed, and the latch stays held for ever.
#include "rw_specimen.h"
#include "specimens.h"

#include "sync/latching.h"

#include <sidelatch/sync/latch_word.h>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class RwAsyncCasUnlatch final : public RwSpecimen {
 public:
  RwAsyncCasUnlatch() : RwSpecimen("broken/rw-async-cas-unlatch") {}

 protected:
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    co_await hold.qp().enqueue(write_payload(hold), compare_swap(hold.object.latch(), hold.word, kFree));
  }
  [[nodiscard]] Task<void> abort(Hold& hold) const override {
    co_await hold.qp().enqueue(compare_swap(hold.object.latch(), hold.word, kFree));
  }
};

}  // namespace

std::unique_ptr<Scheme> make_rw_async_cas_unlatch() { return std::make_unique<RwAsyncCasUnlatch>(); }

}  // namespace sidelatch::sync::broken
