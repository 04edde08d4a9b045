// SwitchPlace: what a scheme of the registry needs besides a memory node (sync::LatchPlace): simulated_place.h in the
// simulator, remote_place.h in other processes.
//
//   place.serve(memory.remote(), objects);                           // before the first client connects
//   auto qp = client.connect(storage);
//   Session session(*qp, bytes, place.options(client, options));
#pragma once

#include <sidelatch/fabric/node.h>
#include <sidelatch/sync/layout.h>
#include <sidelatch/sync/session.h>

namespace sidelatch::checker {

class SwitchPlace {
 public:
  SwitchPlace() = default;
  SwitchPlace(const SwitchPlace&) = delete;
  SwitchPlace& operator=(const SwitchPlace&) = delete;
  virtual ~SwitchPlace() = default;

  /// `objects` lie in `memory`, which nobody has used. Throws std::invalid_argument or std::runtime_error if the switch
  /// does not take them.
  virtual void serve(const fabric::RemoteSpan& memory, const sync::ObjectArray& objects) = 0;
  /// What a session of that client needs in addition.
  [[nodiscard]] virtual sync::SessionOptions options(fabric::Node& client, sync::SessionOptions options) = 0;
};

}  // namespace sidelatch::checker
