// Runs an input against a NIC, and reports whether anything was harmed.
//
// An input is a program of raw frames, packets that get valid headers and a valid ICRC, packets with fields near the
// NIC's expectations, requests posted by the NIC's own program, time, ended regions, and queue pairs that become ready
// again. roce_nic_fuzz.cpp has the format.
#pragma once

#include "softnic/nic/device.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sidelatch::softnic::nic {

/// A deliberate mistake of the NIC that must be found.
enum class NicMistake : std::uint8_t {
  none,
  writes_outside,        ///< one byte too many is placed, elsewhere
  ignores_rights,        ///< READs are answered from memory that nobody may read
  ignores_deregistering  ///< bytes are placed even after their region has ended
};

struct NicAttack {
  /// The first harm found; empty if there was none.
  std::string harm;
  NicCounters counters;
  std::uint64_t placed = 0;  ///< accesses to memory, by kind
  std::uint64_t sampled = 0;
  std::uint64_t atomics = 0;
  std::uint64_t delivered = 0;
  std::uint64_t completed = 0;  ///< completions, by their status
  std::uint64_t failed = 0;
};

[[nodiscard]] NicAttack attack_nic(std::span<const std::byte> input, NicMistake mistake = NicMistake::none);

}  // namespace sidelatch::softnic::nic
