// One exclusive cycle with asynchronous unlatching, on a fabric that costs next to nothing. For comparison, the same
// four requests without latch, guard or session.
#pragma once

#include "stub_fabric.h"

#include <sidelatch/sync/exclusive_latch.h>

namespace sidelatch::sync {

class Cycle {
 public:
  void run_latched(int times) { reactor_.run(latched(times)); }
  void run_bare(int times) { reactor_.run(bare(times)); }

 private:
  fabric::Task<void> latched(int times) {
    for (int i = 0; i < times; ++i) {
      ExclusiveGuard guard =
          co_await latch_.latch(session_, objects_.at(static_cast<std::uint64_t>(i) % objects_.size()));
      guard.payload()[0] = std::byte{1};
      co_await guard.commit();
    }
    co_await qp_->drain();
  }
  fabric::Task<void> bare(int times) {
    const fabric::LocalSpan buffer = buffer_.local();
    for (int i = 0; i < times; ++i) {
      const Object object = objects_.at(static_cast<std::uint64_t>(i) % objects_.size());
      co_await qp_->submit(fabric::compare_swap(object.latch(), 0, 1), fabric::read(buffer, object.record()));
      buffer.data[8] = std::byte{1};
      const fabric::LocalSpan payload = buffer.subspan(8, 256);
      co_await qp_->enqueue(fabric::write(payload, object.record().subspan(8, 256)),
                            fabric::fetch_add(object.latch(), ~std::uint64_t{0}));
    }
    co_await qp_->drain();
  }

  ExclusiveLatch latch_;
  fabric::StubReactor reactor_;
  fabric::StubNode node_{reactor_};
  Layout layout_{latch_.shape(256, LayoutKind::padded), LayoutKind::padded, 64};
  fabric::MemoryRegion memory_ = node_.allocate(layout_.total_bytes(), fabric::Access::remote_all);
  fabric::MemoryRegion buffer_ = node_.allocate(264, fabric::Access::local_write);
  ObjectArray objects_{layout_, memory_.remote()};
  std::unique_ptr<fabric::QueuePair> qp_ = node_.connect(node_);
  Session session_{*qp_, buffer_bytes(layout_.shape())};
};

}  // namespace sidelatch::sync
