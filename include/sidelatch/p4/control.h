// The control file of a switch, JSON: entries of tables, default actions, registers, multicast groups, clone sessions,
// packet generators, and the counters to print. docs/p4.md has its format.
//
//   const Control control = read_control(text, "control.json", program->info(), {1, 2});
//   apply(control, device);
//   ... the file has changed: apply(read_control(...), device, &control);
//
// All or nothing: read_control() refuses a file with any mistake, and apply() does not fail.
//
// Thread-safety: values, and functions without state.
#pragma once

#include <sidelatch/p4/state.h>
#include <sidelatch/p4/switch.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4 {

struct RegisterWrite {
  std::size_t reg = 0;  ///< in ProgramInfo::registers
  std::uint64_t index = 0;
  U128 value = 0;
};

struct Control {
  std::vector<TableState> tables;  ///< all of the program's, in its order
  std::vector<RegisterWrite> registers;
  std::vector<std::size_t> counters;  ///< to be printed, in ProgramInfo::counters
  std::map<std::uint16_t, std::vector<MulticastMember>> groups;
  std::map<std::uint32_t, CloneSession> sessions;
  std::map<std::uint32_t, Generator> generators;
};

/// `file`: for errors. `ports`: the numbers that exist. Throws std::invalid_argument that names the file, the place in
/// it as a JSON pointer (/tables/dmac/entries/0), and what to do. `info` must outlive the result.
[[nodiscard]] Control read_control(const std::string& text, const std::string& file, const ProgramInfo& info,
                                   const std::vector<std::uint16_t>& ports);

/// Between two packets. Tables, default actions, groups, sessions and generators become what the control says;
/// `before`, the control that was applied last, says which of them end. Registers that it names are written; others and
/// all counters keep their values, those of an entry with the same keys, too.
void apply(const Control& control, Switch& device, const Control* before = nullptr);

}  // namespace sidelatch::p4
