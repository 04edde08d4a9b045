// Two simulated machines, one object: an optimistic update, then an optimistic read of what it wrote.
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/two_read_version.h>

#include <iostream>
#include <vector>

using namespace sidelatch::fabric;
using namespace sidelatch::sync;

Task<bool> update_then_read(const Scheme& scheme, Session& session, Object object) {
  const bool updated = co_await scheme.update(
      session, object, [](std::span<std::byte> payload) { std::ranges::fill(payload, std::byte{42}); });
  std::vector<std::byte> seen(object.shape->payload_bytes);
  const ReadResult result = co_await scheme.read(session, object, seen);  // retries while a writer is at work
  std::cout << "version " << result.version << ", " << session.qp().counters().round_trips << " round trips\n";
  co_return (updated && result.accepted && seen.back() == std::byte{42});
}

int main() {
  sim::Simulation world({.profile = sim::load_profile("connectx5"), .seed = 1});
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  const TwoReadVersion scheme;
  const Layout layout(scheme.shape(256, LayoutKind::padded), LayoutKind::padded, 1000);  // 1000 objects of 256 bytes
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  const ObjectArray objects(layout, memory.remote());
  const auto qp = client.connect(storage);
  Session session(*qp, buffer_bytes(layout.shape()));
  return world.reactor().run(update_then_read(scheme, session, objects.at(7))) ? 0 : 1;
}
