// Four simulated clients increment one remote counter under a reader/writer latch, then read it.
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/rw_latch.h>

#include <iostream>

using namespace sidelatch::fabric;
using namespace sidelatch::sync;

Task<void> count_up(const RwLatch& latch, QueuePair& qp, Object counter, int times) {
  Session session(qp, buffer_bytes(*counter.shape));
  for (int i = 0; i < times; ++i) {
    ExclusiveGuard guard = co_await latch.latch(session, counter);  // latch and READ in one doorbell
    ++*reinterpret_cast<std::uint64_t*>(guard.payload().data());
    co_await guard.commit();  // WRITE and unlatch in another, without waiting for it
  }
  co_await qp.drain();
}

int main() {
  sim::Simulation world({.profile = sim::load_profile("connectx5")});
  Node& storage = world.add_node("storage");
  const RwLatch latch(LatchLevel::async);
  const Layout layout(latch.shape(8, LayoutKind::interleaved), LayoutKind::interleaved, 1);
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  const ObjectArray objects(layout, memory.remote());
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  for (int client = 0; client < 4; ++client) {
    queue_pairs.push_back(world.add_node("client").connect(storage));
    world.reactor().spawn(count_up(latch, *queue_pairs.back(), objects.at(0), 1000));
  }
  world.reactor().run();
  const auto* value = reinterpret_cast<const std::uint64_t*>(memory.bytes().data() + layout.payload(0));
  std::cout << *value << " in " << to_ns(world.now()) / 1e6 << " simulated ms\n";
  return *value == 4000 ? 0 : 1;
}
