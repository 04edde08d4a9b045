// SimulatedPlace: what a scheme of the registry needs besides a memory node (sync::LatchPlace), in a simulation.
//
//   SimulatedPlace place(world, storage, *selected.entry);
//   place.serve(memory.remote(), objects);                           // before the first client connects
//   auto qp = client.connect(storage);
//   Session session(*qp, bytes, place.options(client, options));
//
// For a scheme that needs nothing it does nothing.
//
// Thread-safety: as that of the simulation.
#pragma once

#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/switch_place.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/layout.h>
#include <sidelatch/sync/session.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace sidelatch::switchsync {
class TuplesAtSwitch;
class WordsAtSwitch;
}  // namespace sidelatch::switchsync

namespace sidelatch::checker {

class SimulatedPlace final : public SwitchPlace {
 public:
  SimulatedPlace(fabric::sim::Simulation& world, fabric::Node& storage, const SchemeEntry& entry);
  SimulatedPlace(const SimulatedPlace&) = delete;
  SimulatedPlace& operator=(const SimulatedPlace&) = delete;
  ~SimulatedPlace() override;

  /// `objects` lie in `memory`, which nobody has used. Throws std::invalid_argument if the switch has no room for them.
  void serve(const fabric::RemoteSpan& memory, const sync::ObjectArray& objects) override;
  /// What a session of that client needs in addition.
  [[nodiscard]] sync::SessionOptions options(fabric::Node& client, sync::SessionOptions options) override;
  /// Whether nobody holds object `i` of the array, as the switch knows. Throws std::logic_error if it keeps no latches.
  [[nodiscard]] bool is_free(std::uint64_t i) const;

  [[nodiscard]] switchsync::TuplesAtSwitch* tuples() noexcept { return tuples_.get(); }
  [[nodiscard]] switchsync::WordsAtSwitch* words() noexcept { return words_.get(); }

 private:
  fabric::sim::Simulation* world_;
  fabric::Node* storage_;
  sync::LatchPlace place_;
  std::unique_ptr<switchsync::TuplesAtSwitch> tuples_;
  std::unique_ptr<switchsync::WordsAtSwitch> words_;
  std::vector<std::unique_ptr<fabric::QueuePair>> latch_pairs_;
  fabric::RemoteSpan memory_{};
  std::uint64_t offset_ = 0;
  std::uint64_t granule_ = 0;
  std::uint64_t stride_ = 0;
};

}  // namespace sidelatch::checker
