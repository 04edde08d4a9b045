// A memory node and four clients of the simulator, for probes that need nothing else.
#pragma once

#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <array>

namespace sidelatch::checker {

struct Cluster {
  explicit Cluster(const fabric::model::Rules& rules = fabric::model::rules_of(fabric::model::Preset::observed),
                   const fabric::sim::Profile& profile = fabric::sim::load_profile("connectx5"))
      : world({.profile = profile, .rules = rules}) {
    for (fabric::Node*& client : clients) {
      client = &world.add_node("client");
    }
  }
  fabric::sim::Simulation world;
  fabric::Node& storage = world.add_node("storage");
  std::array<fabric::Node*, 4> clients{};
};

}  // namespace sidelatch::checker
