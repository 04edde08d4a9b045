// NodeRevoker: takeovers (lease.h) at a memory node that keeps the owners of its queue pairs itself, such as a memory
// server's.
//
//   verbs::RemoteNode storage(fabric, "10.0.0.1", {.owner = 4});   // each client gives its own owner id
//   NodeRevoker revoker(storage);
//   SessionOptions options{.owner = 4, .lease = Lease{from_ns(1e6), from_ns(1e5)}, .revoker = &revoker};
//
// While the node is asked, the other tasks of the reactor go on.
//
// Thread-safety: a revoker belongs to its node's thread.
#pragma once

#include <sidelatch/sync/lease.h>

namespace sidelatch::sync {

class NodeRevoker final : public Revoker {
 public:
  /// `memory_node` must outlive the revoker.
  explicit NodeRevoker(fabric::Node& memory_node) noexcept : node_(&memory_node) {}
  /// Throws LatchError::takeover_refused for an owner that has never connected to the node, as nothing would keep its
  /// late writes out, and FabricError if the node does not confirm.
  [[nodiscard]] fabric::Task<void> revoke(std::uint16_t owner) override;

 private:
  fabric::Node* node_;
};

}  // namespace sidelatch::sync
