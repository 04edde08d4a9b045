#include "node.h"

#include "remote_node.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::fabric::verbs {

namespace {

unsigned access_flags(Access access, bool relaxed_ordering) {
  unsigned flags = 0;
  const auto add_if = [&](bool wanted, ibv_access_flags flag) { flags |= wanted ? static_cast<unsigned>(flag) : 0U; };
  // ibv_reg_mr(3): remote write and atomic rights need the local write right.
  add_if(allows(access, Access::local_write) || allows(access, Access::remote_write) ||
             allows(access, Access::remote_atomic),
         IBV_ACCESS_LOCAL_WRITE);
  add_if(allows(access, Access::remote_read), IBV_ACCESS_REMOTE_READ);
  add_if(allows(access, Access::remote_write), IBV_ACCESS_REMOTE_WRITE);
  add_if(allows(access, Access::remote_atomic), IBV_ACCESS_REMOTE_ATOMIC);
  add_if(relaxed_ordering, IBV_ACCESS_RELAXED_ORDERING);
  return flags;
}

// Its memory is about to be given back.
void deregister(ibv_mr* region) noexcept {
  const int error = ibv_dereg_mr(region);
  if (error != 0 && !is_gone(error)) {
    abort_for("a region");
  }
}

}  // namespace

VerbsNode::VerbsNode(std::string name, const Port& port, VerbsReactor& reactor)
    : Node(std::move(name)), port_(&port), reactor_(&reactor), domain_(ibv_alloc_pd(port.context())) {
  if (domain_ == nullptr) {
    throw DeviceError(
        fmt::format("cannot make a protection domain on {}: {}", port.device_name(), std::strerror(errno)));
  }
  passive_completions_.reset(ibv_create_cq(port.context(), 1, nullptr, nullptr, 0));
  if (passive_completions_ == nullptr) {
    throw DeviceError(
        fmt::format("cannot make a completion queue on {}: {}", port.device_name(), std::strerror(errno)));
  }
}

VerbsNode::~VerbsNode() {
  for (LocalPeer* peer : peers_) {
    peer->end_.destroy();
    peer->node_ = nullptr;
  }
  release_memory();
}

std::unique_ptr<QueuePair> VerbsNode::connect(Node& target, const QueuePairOptions& options) {
  options.validate();
  std::unique_ptr<Peer> peer;
  auto* const here = dynamic_cast<VerbsNode*>(&target);
  auto* const remote = dynamic_cast<RemoteNode*>(&target);
  if (here != nullptr && here->reactor_ == reactor_) {
    peer = std::make_unique<LocalPeer>(*here);
  } else if (remote != nullptr && &remote->reactor() == reactor_) {
    peer = remote_peer(*remote);
  } else {
    throw std::invalid_argument(
        fmt::format("connect: node {} is not a node of this fabric ({})", target.name(), port_->device_name()));
  }
  return std::make_unique<VerbsQueuePair>(*this, *port_, *reactor_, domain_.get(), std::move(peer), options);
}

std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> VerbsNode::connect_pair(
    Node& peer, const QueuePairOptions& options) {
  options.validate();
  auto* const other = dynamic_cast<VerbsNode*>(&peer);
  if (other == nullptr || other->reactor_ != reactor_) {
    throw std::invalid_argument(fmt::format("connect_pair: node {} is not a node of the same fabric as {} ({})",
                                            peer.name(), name(), port_->device_name()));
  }
  const auto pair = std::make_shared<Pair>();
  const auto end = [&](VerbsNode& node, std::size_t side) {
    return std::make_unique<VerbsQueuePair>(node, *port_, *reactor_, node.domain_.get(),
                                            std::make_unique<PairPeer>(pair, 1 - side), options, pair, side);
  };
  auto here = end(*this, 0);
  auto there = end(*other, 1);
  VerbsQueuePair::join(*here, *there);
  return {std::move(here), std::move(there)};
}

Peer& peer_of(const Node& node, QueuePair& queue_pair, const char* what) {
  auto* const of_verbs = dynamic_cast<VerbsQueuePair*>(&queue_pair);
  if (of_verbs == nullptr || !of_verbs->peer().belongs_to(node)) {
    throw std::invalid_argument(fmt::format("{}: the queue pair is not connected to node {}", what, node.name()));
  }
  return of_verbs->peer();
}

void revoke_connection(const Node& node, QueuePair& queue_pair) { peer_of(node, queue_pair, "revoke").revoke(); }

void VerbsNode::revoke(QueuePair& queue_pair) { revoke_connection(*this, queue_pair); }

ibv_mr* VerbsNode::register_with_nic(std::byte* data, std::uint64_t bytes, Access access) const {
  ibv_mr* const region =
      ibv_reg_mr(domain_.get(), data, bytes, access_flags(access, port_->options().relaxed_ordering));
  if (region == nullptr) {
    const int error = errno;
    // EINVAL: another library of this process has called ibv_fork_init(3).
    const char* const advice =
        error == ENOMEM ? "; raise the limit of locked memory (ulimit -l unlimited, or LimitMEMLOCK= of the service)"
        : error == EINVAL && port_->options().huge_pages != 0
            ? "; set RDMAV_HUGEPAGES_SAFE=1 in the environment of the process"
            : "";
    throw DeviceError(fmt::format("cannot register {} bytes with {}: {}{}", bytes, port_->device_name(),
                                  std::strerror(error), advice));
  }
  return region;
}

void VerbsNode::place_region(Registration& registration) {
  ibv_mr* const region = register_with_nic(registration.data, registration.length, registration.access);
  registration.address = {reinterpret_cast<std::uintptr_t>(registration.data)};
  registration.rkey = {region->rkey};
  registration.nic_lkey = region->lkey;
  registration.nic_region = region;
}

// The NIC has one registration for both sides. It is kept while requests of this node need it: region_ended() follows
// as soon as they are done.
void VerbsNode::region_removed(Registration& /*registration*/, bool /*in_use*/) noexcept {}

void VerbsNode::region_ended(Registration& registration) noexcept {
  if (auto* const region = static_cast<ibv_mr*>(std::exchange(registration.nic_region, nullptr))) {
    deregister(region);
  }
}

VerbsNode::Lent::Lent(VerbsNode& node, std::uint64_t bytes, Access access)
    : node_(&node), bytes_(bytes), data_(node.obtain_memory(bytes)) {
  try {
    region_.reset(node.register_with_nic(data_, bytes, access));
  } catch (...) {
    node.return_memory(data_, bytes);
    throw;
  }
}

VerbsNode::Lent::~Lent() {
  deregister(region_.release());
  node_->return_memory(data_, bytes_);
}

RemoteSpan VerbsNode::Lent::remote() const noexcept {
  return {{reinterpret_cast<std::uintptr_t>(data_)}, bytes_, {region_->rkey}};
}

VerbsNode::LocalPeer::LocalPeer(VerbsNode& node)
    : node_(&node), end_(node.port(), node.domain(), node.passive_completions()) {
  node.peers_.push_back(this);
}

VerbsNode::LocalPeer::~LocalPeer() {
  if (node_ != nullptr) {
    std::erase(node_->peers_, this);
  }
}

void VerbsNode::LocalPeer::revoke() {
  if (!end_.revoke()) {
    throw FabricError(Status::device_failure, "the NIC does not end the queue pair");
  }
}

Address VerbsNode::LocalPeer::accept(const Address& initiator) {
  if (end_.revoked() || node_ == nullptr) {
    throw FabricError(Status::retry_exceeded, end_.revoked()
                                                  ? "the target has revoked this queue pair: connect a new one"
                                                  : "the target node no longer exists");
  }
  return end_.accept(initiator);
}

}  // namespace sidelatch::fabric::verbs
