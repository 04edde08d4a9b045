// Two simulated machines, one object: an optimistic update, then an optimistic read of what it wrote.
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/two_read_version.h>

#include <iostream>
#include <vector>

using namespace sidelatch::fabric;

Task<bool> update_then_read(QueuePair& qp, RemoteSpan object, LocalSpan scratch) {
  const sidelatch::sync::TwoReadVersion scheme;
  const std::vector<std::byte> written(scheme.payload_bytes(object.length), std::byte{42});
  std::vector<std::byte> seen(written.size());
  const bool updated = co_await scheme.update(qp, object, scratch, written);  // false: someone else holds the latch
  const auto result = co_await scheme.read(qp, object, scratch, seen);        // not accepted: a writer was there
  std::cout << "version " << result.version << ", " << qp.counters().round_trips << " round trips\n";
  co_return (updated && result.accepted && seen == written);
}

int main() {
  sim::Simulation world({.profile = sim::load_profile("connectx5"), .seed = 1});
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  const MemoryRegion table = storage.allocate(256, Access::remote_all);
  const MemoryRegion scratch = client.allocate(256, Access::local_write);
  const auto qp = client.connect(storage);
  return world.reactor().run(update_then_read(*qp, table.remote(), scratch.local())) ? 0 : 1;
}
