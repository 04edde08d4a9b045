// A latch at a switch whose writer sends the WRITE and the unlatch at once.
//
// ExclusiveLatch does so, and is right: there both are on one queue pair, and the WRITE is placed before the atomic
// (rule 5). Here they are on two, to two targets, and nothing orders them (rule 7). The next holder reads the object
// before the WRITE has come: its update is based on the old bytes, and the WRITE falls into it.
#include "specimens.h"

#include <sidelatch/sync/switch_latch.h>

#include "sync/latching.h"

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class SwitchLatchAtOnce final : public SwitchLatch {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/switch-latch-at-once"; }

 protected:
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    co_await hold.qp().enqueue(write_payload(hold));
    co_await hold.session->options().latches.queue_pair->submit(unlatch_of(hold));
    hold.buffer.drop();
  }
};

}  // namespace

std::unique_ptr<Scheme> make_switch_latch_at_once() { return std::make_unique<SwitchLatchAtOnce>(); }

}  // namespace sidelatch::sync::broken
