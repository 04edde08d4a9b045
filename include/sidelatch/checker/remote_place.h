// RemotePlace: a switch that keeps versions, in another process (fabric/verbs/switch_exchange.h), for schemes of the
// registry that need one.
//
//   verbs::RemoteNode storage(fabric, "10.0.0.9:18516");             // of `sidelatch switch --latches`
//   RemotePlace place(storage);
//
// Thread-safety: as that of the node.
#pragma once

#include <sidelatch/checker/switch_place.h>
#include <sidelatch/fabric/verbs/memory_server.h>

namespace sidelatch::checker {

class RemotePlace final : public SwitchPlace {
 public:
  /// `storage` outlives this object.
  explicit RemotePlace(fabric::verbs::RemoteNode& storage) : storage_(&storage) {}

  void serve(const fabric::RemoteSpan& memory, const sync::ObjectArray& objects) override;
  [[nodiscard]] sync::SessionOptions options(fabric::Node& client, sync::SessionOptions options) override;

 private:
  fabric::verbs::RemoteNode* storage_;
};

}  // namespace sidelatch::checker
