// The behaviour that every scheme owes: clients that read and update a few objects on the simulator, all at once, and
// what they saw.
#pragma once

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/sim/profile.h>

#include <cstdint>
#include <string>

namespace sidelatch::sync {

struct Situation {
  fabric::model::Preset preset = fabric::model::Preset::observed;
  std::uint64_t seed = 1;
  std::uint32_t writers = 3;
  std::uint32_t readers = 2;
  std::uint32_t operations = 6;  ///< of each client
  std::uint32_t objects = 2;
  std::uint64_t payload_bytes = 200;  ///< more than three lines with any header
};

/// How often each promise was seen broken.
struct Behaviour {
  std::uint64_t updates = 0;
  std::uint64_t reads = 0;
  std::uint64_t not_excluded = 0;  ///< two holders at once of which one is exclusive
  std::uint64_t torn = 0;          ///< a payload that mixes two, accepted by a reader or found under a latch
  std::uint64_t stale = 0;         ///< a read that missed an update that had ended before it began, or saw the future
  std::uint64_t lost = 0;          ///< updates that the objects do not show in the end
  std::uint64_t stuck = 0;         ///< operations that met their deadline: some latch never became free
  std::uint64_t left_latched = 0;  ///< objects whose latch word is not free in the end

  [[nodiscard]] bool good() const { return not_excluded + torn + stale + lost + stuck + left_latched == 0; }
  [[nodiscard]] std::string to_string() const;
  Behaviour& operator+=(const Behaviour& other);
};

/// A NIC on which everything that the rules allow happens often.
[[nodiscard]] fabric::sim::Profile adversarial_profile();

[[nodiscard]] Behaviour run_clients(const checker::SelectedScheme& selected, const Situation& situation);

/// SIDELATCH_SEEDS of the environment; without it 1000, or fewer where a sanitizer makes each of them slow.
[[nodiscard]] std::uint64_t seeds();

}  // namespace sidelatch::sync
