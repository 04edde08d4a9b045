// A saved datasheet: the JSON that `sidelatch check` writes, read back.
//
//   nlohmann::ordered_json old = parse_datasheet("old.json", text);
//   for (const Change& change : changes_for_the_worse(old, to_json(report), 0.1)) { fmt::print("{}\n", change.text); }
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

/// Of the JSON that to_json() makes, as its "schema" says. The version grows when a reader of the one before
/// would misunderstand it.
inline constexpr std::string_view kDatasheetSchema = "sidelatch-datasheet";
inline constexpr int kDatasheetVersion = 1;

/// Throws std::invalid_argument that names `file`: it is no JSON, or cut off, or no datasheet, or of another version.
[[nodiscard]] nlohmann::ordered_json parse_datasheet(std::string_view file, std::string_view text);

struct Change {
  std::string what;  ///< "scheme optimistic/farm", "atomics/contended at 8 workers"
  std::string text;  ///< a sentence with both values
};

/// What `now` has worse than `old`: another verdict on a scheme, a rate that fell or a latency that rose by more than
/// the share `tolerance`. What only one of them has is not compared. Throws std::invalid_argument for a tolerance that
/// is not 0 to 1, and for a field of a wrong type, which it names.
[[nodiscard]] std::vector<Change> changes_for_the_worse(const nlohmann::ordered_json& old,
                                                        const nlohmann::ordered_json& now, double tolerance);

}  // namespace sidelatch::checker
