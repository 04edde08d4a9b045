#include "model_fabric.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::explore {

using namespace fabric;

namespace {

// By requests. A receive buffer is memory of its owner's own requests.
bool is_for_others(Access access) {
  constexpr std::uint8_t kFromOthers =
      static_cast<std::uint8_t>(Access::remote_all) & ~static_cast<std::uint8_t>(Access::local_write);
  return (static_cast<std::uint8_t>(access) & kFromOthers) != 0;
}

}  // namespace

void ModelNode::revoke(QueuePair& queue_pair) {
  auto* ended = dynamic_cast<ModelQueuePair*>(&queue_pair);
  if (ended == nullptr || &ended->to() != this) {
    throw std::invalid_argument("revoke: the queue pair is not connected to node " + name());
  }
  execution_->on_revoke(*ended);
}

// Each region of a node begins on a page of its own, one page away from the next, so that overruns are detected.
void ModelNode::place_region(Registration& registration) {
  if (!registration.owned) {
    throw std::invalid_argument(fmt::format(
        "node {}: a program that is explored has its registered memory from allocate(), so that it is the same in "
        "each execution; register_memory() was called",
        name()));
  }
  const RemoteAddress address{next_address_};
  registration.address = address;
  constexpr std::uint64_t kPage = 4096;
  next_address_ += ((registration.length + kPage - 1) / kPage + 1) * kPage;
  execution_->on_region(actor_, id_, address, {registration.data, registration.length},
                        is_for_others(registration.access));
}

void ModelNode::region_removed(Registration& registration, bool /*in_use*/) noexcept {
  if (is_for_others(registration.access)) {
    execution_->on_region_ended({registration.data, registration.length});
  }
}

Task<void> ModelQueuePair::restore_connection() {
  throw FabricError(Status::retry_exceeded, "the target has revoked this queue pair: connect a new one");
  co_return;
}

}  // namespace sidelatch::explore
