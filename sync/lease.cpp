#include <sidelatch/sync/lease.h>

#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

namespace sidelatch::sync {

using namespace fabric;

void RevocationService::enlist(std::uint16_t owner, QueuePair& queue_pair) {
  if (owner == 0) {
    throw std::invalid_argument("owner id 0 means none: it must be 1 to 65535");
  }
  if (revoked(owner)) {
    throw std::invalid_argument(fmt::format("owner {} was revoked: a client that comes back takes a new id", owner));
  }
  queue_pairs_[owner].push_back(&queue_pair);
}

Task<void> RevocationService::revoke(std::uint16_t owner) {
  co_await node_->reactor().sleep(round_trip_ / 2);
  revoked_.insert(owner);
  for (QueuePair* queue_pair : queue_pairs_[owner]) {
    node_->revoke(*queue_pair);
  }
  co_await node_->reactor().sleep(round_trip_ / 2);
}

}  // namespace sidelatch::sync
