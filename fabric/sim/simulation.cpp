#include <sidelatch/fabric/sim/simulation.h>

#include "sim_queue_pair.h"
#include "world.h"

#include <stdexcept>

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

bool Simulation::lose_connection(QueuePair& queue_pair) {
  auto* lost = dynamic_cast<SimQueuePair*>(&queue_pair);
  if (lost == nullptr) {
    throw std::invalid_argument("lose_connection: the queue pair is not of a simulation");
  }
  return lost->lose_connection();
}

std::uint64_t Simulation::pass_through(QueuePair& queue_pair, NetworkDevice& device) {
  auto* passing = dynamic_cast<SimQueuePair*>(&queue_pair);
  if (passing == nullptr || passing->peer() != nullptr || passing->device != nullptr) {
    throw std::invalid_argument(passing == nullptr           ? "pass_through: the queue pair is not of a simulation"
                                : passing->device != nullptr ? "pass_through: the queue pair has a device already"
                                                             : "pass_through: the queue pair is an end of a pair");
  }
  passing->device = &device;
  passing->initiator().mixed_arrivals = true;
  return passing->connection();
}

void Simulation::put_before(Node& target, NetworkDevice& device) {
  auto* const node = dynamic_cast<SimNode*>(&target);
  if (node == nullptr || &node->world != world_.get()) {
    throw std::invalid_argument("put_before: node " + target.name() + " is not a node of this simulation");
  }
  node->before = &device;
}

std::uint64_t Simulation::events() const noexcept { return world_->events; }

}  // namespace sidelatch::fabric::sim
