#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include "node.h"

#include <deque>

namespace sidelatch::fabric::verbs {

struct VerbsFabric::Parts {
  Parts(const DeviceOptions& device, const ConnectionOptions& connections) : port(device, connections), reactor(port) {}

  Port port;
  VerbsReactor reactor;
  std::deque<VerbsNode> nodes;
};

VerbsFabric::VerbsFabric(const DeviceOptions& device, const ConnectionOptions& connections)
    : parts_(std::make_unique<Parts>(device, connections)) {}

VerbsFabric::~VerbsFabric() {
  // Tasks hold guards and buffers of the nodes.
  parts_->reactor.destroy_spawned();
}

Reactor& VerbsFabric::reactor() noexcept { return parts_->reactor; }

Node& VerbsFabric::add_node(std::string_view name) {
  return parts_->nodes.emplace_back(std::string(name), parts_->port, parts_->reactor);
}

const std::string& VerbsFabric::device_name() const noexcept { return parts_->port.device_name(); }

const Port& port_of(const VerbsFabric& fabric) { return fabric.parts_->port; }
VerbsReactor& reactor_of(VerbsFabric& fabric) { return fabric.parts_->reactor; }

}  // namespace sidelatch::fabric::verbs
