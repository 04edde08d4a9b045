// A saved datasheet: the JSON that `sidelatch check` writes, read back.
//
//   nlohmann::ordered_json old = parse_datasheet("old.json", text);
//   for (const Change& change : changes_for_the_worse(old, to_json(report), 0.1)) { fmt::print("{}\n", change.text); }
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

/// The "schema" of the JSON that to_json() makes. The version grows when a reader of the previous version would
/// misunderstand the JSON.
inline constexpr std::string_view kDatasheetSchema = "sidelatch-datasheet";
inline constexpr int kDatasheetVersion = 1;

/// Throws std::invalid_argument that names `file` if it is not JSON, cut off, not a datasheet, or of another version.
[[nodiscard]] nlohmann::ordered_json parse_datasheet(std::string_view file, std::string_view text);

struct Change {
  std::string what;  ///< "scheme optimistic/farm", "atomics/contended at 8 workers"
  std::string text;  ///< a sentence with both values
};

/// What is worse in `now` than in `old`: another verdict on a scheme, a rate that fell or a latency that rose by more
/// than the share `tolerance`. Values that only one of them has are not compared. Throws std::invalid_argument for a
/// tolerance that is not 0 to 1, and for a field of a wrong type, which it names.
[[nodiscard]] std::vector<Change> changes_for_the_worse(const nlohmann::ordered_json& old,
                                                        const nlohmann::ordered_json& now, double tolerance);

/// How many values changes_for_the_worse() compares.
struct ValuesInCommon {
  std::size_t verdicts = 0;
  std::size_t rates = 0;
};
/// Throws std::invalid_argument for a field of a wrong type, which it names.
[[nodiscard]] ValuesInCommon values_in_common(const nlohmann::ordered_json& old, const nlohmann::ordered_json& now);

/// Whether `datasheet` has a value that a check of these parts (kParts of check.h) might measure again, so that the two
/// could be compared. Throws as values_in_common().
[[nodiscard]] bool has_values_of(const nlohmann::ordered_json& datasheet, std::span<const std::string> parts);

}  // namespace sidelatch::checker
