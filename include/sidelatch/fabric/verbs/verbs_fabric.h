// VerbsFabric: real NICs, through libibverbs.
//
//   VerbsFabric fabric({.device = "rxe0"});
//   Node& storage = fabric.add_node("storage");      // memory and connections of its own, on the same device
//   Node& client  = fabric.add_node("client");
//   auto qp = client.connect(storage);               // packets leave and come back through the device
//
// One fabric per thread: it owns the completion queue and the reactor that polls it. Nodes of one fabric share the
// device; each has a protection domain of its own, so that one node's keys open nothing at another.
//
// If a region ends while requests of its own node still use it, other nodes can reach it until these requests are done.
// Its memory is kept as long.
//
// Thread-safety: a fabric and all that is made from it belong to one thread.
#pragma once

#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/verbs/device.h>

#include <memory>
#include <string>
#include <string_view>

namespace sidelatch::fabric::verbs {

class Port;
class VerbsReactor;

class VerbsFabric final : public Fabric {
 public:
  /// Throws DeviceError, or std::invalid_argument for an option out of range.
  explicit VerbsFabric(const DeviceOptions& device = {}, const ConnectionOptions& connections = {});
  VerbsFabric(const VerbsFabric&) = delete;
  VerbsFabric& operator=(const VerbsFabric&) = delete;
  ~VerbsFabric() override;

  [[nodiscard]] std::string_view kind() const noexcept override { return "verbs"; }
  [[nodiscard]] Reactor& reactor() noexcept override;
  /// The reference is valid as long as the fabric. Throws DeviceError.
  Node& add_node(std::string_view name);

  [[nodiscard]] const std::string& device_name() const noexcept;

 private:
  friend const Port& port_of(const VerbsFabric& fabric);
  friend VerbsReactor& reactor_of(VerbsFabric& fabric);
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sidelatch::fabric::verbs
