// A writer and a reader share a record of 1 KiB with FaRM's line versions. The reader takes no latch and never accepts
// a torn record.
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/farm_line_versions.h>

#include <algorithm>
#include <iostream>

using namespace sidelatch::fabric;
using namespace sidelatch::sync;

Task<void> write_often(const Scheme& scheme, Session& session, Object record) {
  for (int i = 1; i <= 100; ++i) {
    co_await scheme.update(session, record, [i](auto payload) { std::ranges::fill(payload, std::byte(i)); });
  }
}

int main() {
  sim::Simulation world({.profile = sim::load_profile("connectx5")});
  Node& storage = world.add_node("storage");
  const FarmLineVersions scheme;
  const Layout layout(scheme.shape(1024, LayoutKind::padded), LayoutKind::padded, 1);
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  const ObjectArray objects(layout, memory.remote());
  const auto writer_qp = world.add_node("writer").connect(storage);
  const auto reader_qp = world.add_node("reader").connect(storage);
  Session writer(*writer_qp, buffer_bytes(layout.shape()));
  Session reader(*reader_qp, buffer_bytes(layout.shape()));
  world.reactor().spawn(write_often(scheme, writer, objects.at(0)));  // runs beside the reads
  int torn = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::byte> payload(1024);
    world.reactor().run(scheme.read(reader, objects.at(0), payload));
    torn += payload != std::vector(payload.size(), payload[0]) ? 1 : 0;
  }
  std::cout << torn << " torn, " << reader.counters().retries << " attempts met the writer\n";
  return torn;
}
