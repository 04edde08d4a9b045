#include <sidelatch/fabric/sim/simulation.h>

#include "world.h"

namespace sidelatch::fabric::sim {

Simulation::Simulation(const SimulationOptions& options) : world_(std::make_unique<World>(options)) {}
Simulation::~Simulation() = default;

Node& Simulation::add_node(std::string name) { return add_node(std::move(name), world_->options.profile); }

Node& Simulation::add_node(std::string name, const Profile& profile) {
  profile.validate();
  const auto index = static_cast<std::uint32_t>(world_->nodes.size());
  world_->nodes.push_back(std::make_unique<SimNode>(*world_, std::move(name), profile, index));
  return *world_->nodes.back();
}

Reactor& Simulation::reactor() noexcept { return world_->reactor; }
const SimulationOptions& Simulation::options() const noexcept { return world_->options; }
void Simulation::observe(StepObserver* observer) noexcept { world_->observer = observer; }
std::uint64_t Simulation::events() const noexcept { return world_->events; }

}  // namespace sidelatch::fabric::sim
