#include "experiments.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <algorithm>
#include <array>

namespace sidelatch::bench {

using namespace fabric;

namespace {

std::vector<double> run_in_simulations(const ExperimentOptions& options, std::span<const checker::ClosedLoop> loops) {
  const sim::Profile profile = sim::load_profile(options.profile);
  std::vector<double> mops(loops.size());
  checker::for_each_index(loops.size(), [&](std::size_t i) {
    sim::Simulation world({.profile = profile, .seed = options.seed + i});
    Node& storage = world.add_node("storage");
    std::array<Node*, 4> clients{};
    for (Node*& client : clients) {
      client = &world.add_node("client");
    }
    mops[i] = checker::run_closed_loop(storage, clients, loops[i]).mops();
  });
  return mops;
}

std::vector<double> run_on_nics(Cluster& cluster, std::span<const checker::ClosedLoop> loops) {
  std::uint64_t bytes = 0;
  for (const checker::ClosedLoop& loop : loops) {
    bytes = std::max(bytes, checker::memory_bytes(loop));
  }
  const Cluster::SharedMemory words(cluster, bytes);
  std::vector<double> mops;
  for (checker::ClosedLoop loop : loops) {
    loop.warm_up = cluster.options().warm_up;
    loop.measured = cluster.options().measured;
    loop.process = cluster.options().rank;
    loop.processes = cluster.options().ranks;
    loop.all_connected = [&cluster] { cluster.barrier(); };
    mops.push_back(
        cluster.sum(checker::run_closed_loop(cluster.storage(), words.remote(), cluster.clients(), loop).mops()));
  }
  return mops;
}

}  // namespace

std::vector<double> run_loops(const ExperimentOptions& options, std::span<const checker::ClosedLoop> loops) {
  return options.cluster != nullptr ? run_on_nics(*options.cluster, loops) : run_in_simulations(options, loops);
}

}  // namespace sidelatch::bench
