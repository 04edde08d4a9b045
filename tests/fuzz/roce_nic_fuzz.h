// A NIC under attack: what an input makes of it, and whether anything was harmed.
//
// An input is a program: frames as they are, packets that are given right headers and a right ICRC, packets whose
// fields are chosen near what the NIC expects, requests that the NIC's own program posts, time, ended regions, and
// queue pairs that are made ready again. roce_nic_fuzz.cpp has the format.
#pragma once

#include "softnic/nic/device.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sidelatch::softnic::nic {

/// A mistake that the NIC is given on purpose, to be found.
enum class NicMistake : std::uint8_t {
  none,
  writes_outside,        ///< what is placed has one byte too many, elsewhere
  ignores_rights,        ///< READs are answered from memory that nobody may read
  ignores_deregistering  ///< what is placed after its region has ended is placed all the same
};

struct NicAttack {
  /// What was harmed; empty if nothing was.
  std::string harm;
  NicCounters counters;
  std::uint64_t placed = 0;  ///< times that memory was touched, by kind
  std::uint64_t sampled = 0;
  std::uint64_t atomics = 0;
  std::uint64_t delivered = 0;
  std::uint64_t completed = 0;  ///< completions, by their status
  std::uint64_t failed = 0;
};

[[nodiscard]] NicAttack attack_nic(std::span<const std::byte> input, NicMistake mistake = NicMistake::none);

}  // namespace sidelatch::softnic::nic
