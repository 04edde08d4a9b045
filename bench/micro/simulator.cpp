// The simulator's speed: verbs per second on one core, and memory per idle worker. Profile connectx5, four client nodes
// and one storage node.
#include <sidelatch/checker/closed_loop.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <array>
#include <memory>
#include <vector>

namespace {

using namespace sidelatch;
using namespace sidelatch::fabric;

struct Cluster {
  explicit Cluster(std::uint64_t seed) : world({.profile = sim::load_profile("connectx5"), .seed = seed}) {
    storage = &world.add_node("storage");
    for (Node*& client : clients) {
      client = &world.add_node("client");
    }
  }
  sim::Simulation world;
  Node* storage = nullptr;
  std::array<Node*, 4> clients{};
};

// Argument 0: workers; argument 1: opcode.
void verbs(benchmark::State& state) {
  const auto opcode = static_cast<Opcode>(state.range(1));
  std::uint64_t verbs = 0;
  for (auto _ : state) {
    Cluster cluster(1);
    checker::ClosedLoop loop;
    loop.workers = static_cast<std::uint32_t>(state.range(0));
    loop.opcode = opcode;
    loop.offset = [](std::uint32_t w) { return std::uint64_t{w} * 64; };
    loop.warm_up = Duration::zero();
    loop.measured = std::chrono::milliseconds(20);
    verbs += checker::run_closed_loop(*cluster.storage, cluster.clients, loop).operations;
  }
  state.counters["verbs/s"] = benchmark::Counter(static_cast<double>(verbs), benchmark::Counter::kIsRate);
  state.SetLabel(std::string(name(opcode)));
}
BENCHMARK(verbs)
    ->ArgsProduct({{8, 512, 100000}, {static_cast<int>(Opcode::read), static_cast<int>(Opcode::compare_swap)}})
    ->Unit(benchmark::kMillisecond);

Task<void> one_request_then_idle(QueuePair& qp, RemoteSpan word) {
  co_await qp.fetch_add(word, 1);
  co_await qp.reactor().sleep(std::chrono::hours(1));
}

// A worker that has a queue pair with the default depth, has used it once, and now sleeps.
void idle_worker(benchmark::State& state) {
  const auto workers = static_cast<std::size_t>(state.range(0));
  double bytes = 0;
  for (auto _ : state) {
    Cluster cluster(1);
    const MemoryRegion words = cluster.storage->allocate(workers * 64, Access::remote_all);
    std::vector<std::unique_ptr<QueuePair>> queue_pairs;
    queue_pairs.reserve(workers);
    const std::size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
    for (std::size_t w = 0; w < workers; ++w) {
      queue_pairs.push_back(cluster.clients[w % 4]->connect(*cluster.storage));
      cluster.world.reactor().spawn(one_request_then_idle(*queue_pairs.back(), words.remote(w * 64, 8)));
    }
    cluster.world.reactor().run_for(std::chrono::milliseconds(100));
    bytes = static_cast<double>(::mallinfo2().uordblks + ::mallinfo2().hblkhd - before) / static_cast<double>(workers);
  }
  state.counters["bytes/worker"] = bytes;
}
BENCHMARK(idle_worker)->Arg(512)->Arg(100000)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
