// One cell of the table of verdicts: a scheme of the registry under a model.
//
//   CellResult cell = explore_cell("optimistic/farm", {.options = {.rules = rules_of(Preset::spec)}});
//
// A cell runs several programs: two writers with one update each, and one writer with two updates beside readers with
// one read each. The cell is broken if one program is broken, and safe if all are safe.
#pragma once

#include <sidelatch/explore/check.h>
#include <sidelatch/explore/scheme_program.h>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::explore {

struct CellOptions {
  std::uint32_t clients = 2;  ///< 2 to 8
  std::uint64_t lines = 3;    ///< of the object's record
  unsigned nics = 1;          ///< of the memory node; the clients use them in turn
  bool crash = false;         ///< the first of two writers may crash, the second takes over
  bool revocation = true;     ///< with `crash`: taking over revokes
  Options options{};
};

struct CellResult {
  Verdict verdict;    ///< of all programs together
  Workload workload;  ///< of the program that is broken
  std::uint32_t programs = 0;
};

/// Throws std::invalid_argument for an unknown scheme or a workload that it does not support.
[[nodiscard]] CellResult explore_cell(std::string_view scheme, const CellOptions& options);
/// Throws as explore_cell() does for such a scheme or workload, and explores nothing.
void require_possible(std::string_view scheme, const CellOptions& options);

/// The same program along the choices of a trace.
[[nodiscard]] Verdict replay_cell(std::string_view scheme, const Workload& workload, const Options& options,
                                  const std::vector<std::string>& choices);

/// {"kind","what","trace":[{"actor","action","wr","target","value","rule","note"}]}
[[nodiscard]] nlohmann::ordered_json to_json(const Violation& violation);
[[nodiscard]] nlohmann::ordered_json to_json(const Workload& workload);
/// Throws std::invalid_argument that names the field that is missing or wrong.
[[nodiscard]] Workload workload_of(const nlohmann::ordered_json& json);

}  // namespace sidelatch::explore
