// The required behaviour of every scheme: clients read and update a few objects on the simulator, all at once, and
// check the results.
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
  bool with_deadlines = false;        ///< also for schemes with a queue, whose clients then try instead
};

/// How often each promise was broken.
struct Behaviour {
  std::uint64_t updates = 0;
  std::uint64_t reads = 0;
  std::uint64_t not_excluded = 0;  ///< two holders at once, at least one of them exclusive
  std::uint64_t torn = 0;          ///< a payload that mixes two, accepted by a reader or found under a latch
  std::uint64_t stale = 0;         ///< a read that missed an update that ended before it began, or saw the future
  std::uint64_t lost = 0;          ///< updates missing from the objects at the end
  std::uint64_t stuck = 0;         ///< operations that reached their deadline: some latch never became free
  std::uint64_t left_latched = 0;  ///< objects whose latch word is not free at the end

  [[nodiscard]] bool good() const { return not_excluded + torn + stale + lost + stuck + left_latched == 0; }
  [[nodiscard]] std::string to_string() const;
  Behaviour& operator+=(const Behaviour& other);
};

/// A NIC that often shows everything that the rules allow.
[[nodiscard]] fabric::sim::Profile adversarial_profile();

[[nodiscard]] Behaviour run_clients(const checker::SelectedScheme& selected, const Situation& situation);

/// The environment's SIDELATCH_SEEDS, by default 1000, or fewer if a sanitizer makes each seed slow.
[[nodiscard]] std::uint64_t seeds();

}  // namespace sidelatch::sync
