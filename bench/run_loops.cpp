#include "experiments.h"

#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <array>

namespace sidelatch::bench {

using namespace fabric;

std::vector<double> run_loops(const sim::Profile& profile, std::uint64_t seed,
                              std::span<const checker::ClosedLoop> loops) {
  std::vector<double> mops(loops.size());
  checker::for_each_index(loops.size(), [&](std::size_t i) {
    sim::Simulation world({.profile = profile, .seed = seed + i});
    Node& storage = world.add_node("storage");
    std::array<Node*, 4> clients{};
    for (Node*& client : clients) {
      client = &world.add_node("client");
    }
    mops[i] = checker::run_closed_loop(storage, clients, loops[i]).mops();
  });
  return mops;
}

}  // namespace sidelatch::bench
