// Experiments whose clients reach a memory node through a programmable switch, or words at the switch itself.
#pragma once

#include "experiments.h"
#include "site.h"

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/p4/program.h>
#include <sidelatch/switchsync/optimistic_switch.h>
#include <sidelatch/switchsync/sim/simulated_switch.h>
#include <sidelatch/switchsync/word_switch.h>

#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::bench {

/// The experiment's options for the testbed of TODS 2025, section 5.4, unless another profile is named. Throws
/// std::invalid_argument for a cluster.
[[nodiscard]] ExperimentOptions on_switch_testbed(const ExperimentOptions& given, std::string_view experiment);

/// Words at a switch between a site's nodes.
class WordSite {
 public:
  WordSite(Site& site, std::uint32_t words);
  /// A new queue pair of the worker's node, whose requests the switch answers.
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(std::uint32_t worker);
  [[nodiscard]] fabric::RemoteSpan word(std::uint32_t which) const;

 private:
  Site* site_;
  switchsync::SimulatedSwitch between_;
  switchsync::WordSwitch control_;
};

/// Tuples of a site's memory node, whose latches and versions are at the switch before it.
class TupleSite {
 public:
  /// `program`: p4/switch_optimistic.p4, or another form of it.
  TupleSite(Site& site, std::shared_ptr<const p4::Program> program, std::uint64_t tuples, std::uint64_t tuple_bytes,
            std::uint64_t slot_bytes);
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(std::uint32_t worker);
  [[nodiscard]] const fabric::RemoteSpan& memory() const noexcept { return memory_; }

 private:
  Site* site_;
  fabric::RemoteSpan memory_;
  switchsync::SimulatedSwitch between_;
  switchsync::OptimisticSwitch control_;
};

}  // namespace sidelatch::bench
