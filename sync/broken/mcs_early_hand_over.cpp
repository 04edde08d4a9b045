// A queue latch that hands over as soon as it knows its successor, and saves the CAS: it posts its WRITE and waits for
// nothing.
//
// The turn goes through another queue pair, to another node. Nothing orders it behind the WRITE (rule 7): the successor
// reads the object before the WRITE is placed.
#include "specimens.h"

#include <sidelatch/sync/mcs_latch.h>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class McsEarlyHandOver final : public McsLatch {
 public:
  McsEarlyHandOver() : McsLatch(LatchLevel::combined) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/mcs-early-hand-over"; }

 protected:
  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    const RecordShape& shape = *hold.object.shape;
    LatchPeers& peers = peers_of(*hold.session);
    const WorkRequest payload = write(hold.buffer.part(shape.payload, shape.payload_words()),
                                      hold.object.part(shape.payload, shape.payload_words()));
    const bool has_successor = co_await peers.has_successor(hold.turn);
    if (!has_successor) {
      co_await McsLatch::commit(hold);
      co_return;
    }
    co_await hold.qp().enqueue(payload);
    hold.buffer.drop();
    const std::uint64_t successor = co_await peers.wait_for_successor(hold.turn);
    co_await peers.give_turn(hold.turn, successor);
    peers.give_back(hold.turn);
  }
};

}  // namespace

std::unique_ptr<Scheme> make_mcs_early_hand_over() { return std::make_unique<McsEarlyHandOver>(); }

}  // namespace sidelatch::sync::broken
