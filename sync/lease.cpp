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
  const auto known = queue_pairs_.find(owner);
  if (known == queue_pairs_.end()) {
    throw LatchError(LatchError::Kind::takeover_refused,
                     fmt::format("owner {} has enlisted no queue pair, so nothing keeps its late writes out: every "
                                 "session with an owner id must be enlisted",
                                 owner));
  }
  revoked_.insert(owner);
  for (QueuePair* queue_pair : known->second) {
    node_->revoke(*queue_pair);
  }
  co_await node_->reactor().sleep(round_trip_ / 2);
}

}  // namespace sidelatch::sync
