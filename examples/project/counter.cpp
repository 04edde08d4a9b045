// A counter in remote memory, in the simulator: two clients add to it.
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <cstdint>
#include <iostream>

using namespace sidelatch::fabric;

Task<void> add_often(QueuePair& qp, RemoteSpan counter) {
  for (int i = 0; i < 1000; ++i) {
    co_await qp.fetch_add(counter, 1);
  }
}

int main() {
  sim::Simulation world({.profile = sim::load_profile("connectx5"), .seed = 1});
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  const MemoryRegion memory = storage.allocate(64, Access::remote_all);
  const auto first = client.connect(storage);
  const auto second = client.connect(storage);
  world.reactor().spawn(add_often(*first, memory.remote(0, 8)));
  world.reactor().spawn(add_often(*second, memory.remote(0, 8)));
  world.reactor().run();
  const std::uint64_t sum = world.reactor().run([](QueuePair& qp, RemoteSpan counter) -> Task<std::uint64_t> {
    const std::uint64_t value = co_await qp.fetch_add(counter, 0);
    co_return value;
  }(*first, memory.remote(0, 8)));
  std::cout << "the counter is " << sum << '\n';
  return sum == 2000 ? 0 : 1;
}
