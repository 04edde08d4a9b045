// Fabric: a world that algorithms run in. The simulator, real NICs and the explorer each derive one.
//
// A fabric owns its nodes and its reactor. It outlives everything made from it: regions, queue pairs, tasks.
//
// Thread-safety: see each world; nodes and queue pairs belong to the reactor's thread.
#pragma once

#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/reactor.h>

#include <string_view>

namespace sidelatch::fabric {

class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  /// "sim", "verbs" (on the software NIC, too) or "model".
  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;
  [[nodiscard]] virtual Reactor& reactor() noexcept = 0;
  /// The world's clock.
  [[nodiscard]] Time now() noexcept { return reactor().now(); }
};

}  // namespace sidelatch::fabric
