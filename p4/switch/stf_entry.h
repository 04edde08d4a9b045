// What lines of packet tests (STF) say about names, keys and actions. Errors are ControlErrors without a
// place.
#pragma once

#include <sidelatch/p4/bits.h>
#include <sidelatch/p4/program.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::p4::stf {

/// The line without its quotes; what has a meaning in a line and is between them is written in a way that has none.
[[nodiscard]] std::string without_quotes(const std::string& line);
/// A name as it was between its quotes.
[[nodiscard]] std::string restored(std::string name);
/// Words, restored.
[[nodiscard]] std::vector<std::string> split(const std::string& text);
struct Call {
  std::string name;
  std::string arguments;  ///< what is between the parentheses
  std::string after;      ///< what is behind them
};
/// Of "NAME(ARGUMENT:VALUE, ...)" or "NAME".
[[nodiscard]] Call call(const std::string& text);

struct NamedEntry {
  std::size_t table = 0;
  Entry entry;
  std::string name;  ///< empty: it has none
};
/// Of "TABLE [PRIORITY] KEY:VALUE... ACTION(ARGUMENTS) [= NAME]".
[[nodiscard]] NamedEntry entry_of(const ProgramInfo& program, const std::string& rest);

struct DefaultAction {
  std::size_t table = 0;
  std::string action;
  std::vector<U128> arguments;
};
/// Of "TABLE ACTION(ARGUMENTS)".
[[nodiscard]] DefaultAction default_of(const ProgramInfo& program, const std::string& rest);

}  // namespace sidelatch::p4::stf
