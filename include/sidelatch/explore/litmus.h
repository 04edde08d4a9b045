// Litmus tests: small programs in a text format, and all final states that they can reach.
//
//   const std::array models{Preset::observed};
//   std::vector<LitmusResult> results = run_litmus(text, "tests/litmus/mp.litmus", models, {});
//   if (results[0].reachable == true) ...          // its `exists` condition can come true
//
// The format is described in docs/litmus.md.
//
// Thread-safety: as check().
#pragma once

#include <sidelatch/explore/check.h>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::explore {

/// An error in a text, with its position: "FILE:LINE:COLUMN: error: ...". Lines and columns count from 1; a column is a
/// byte.
class LitmusError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Registers that were assigned and all words of memory, by name: ("P0:r0", 1), ("D[0]", 7), or ("deadlock", 1) alone.
using LitmusState = std::vector<std::pair<std::string, std::int64_t>>;

struct LitmusResult {
  std::string test;
  fabric::model::Preset model = fabric::model::Preset::observed;
  std::optional<bool> reachable;    ///< nothing without `exists`
  std::optional<bool> expected;     ///< true: allowed; nothing without `expect` for this model
  std::vector<LitmusState> states;  ///< all, unless the verdict is bounded
  std::vector<bool> satisfies;      ///< by state: whether `exists` holds
  Verdict verdict;                  ///< bounded if the budget ran out

  /// Whether the result is as expected. Nothing without an expectation, or if the exploration did not get far enough.
  [[nodiscard]] std::optional<bool> ok() const;
};

/// Explores the test under each of the presets, with the changes that its `param` lines make. A test has no loops, so
/// Options::max_events does not count. Throws LitmusError.
[[nodiscard]] std::vector<LitmusResult> run_litmus(std::string_view text, std::string_view file_name,
                                                   std::span<const fabric::model::Preset> models,
                                                   const Options& options);

/// {"test","model","reachable","expected","ok","states","bound","executions","seconds"}
[[nodiscard]] nlohmann::ordered_json to_json(const LitmusResult& result);
[[nodiscard]] std::string to_text(const LitmusResult& result);

}  // namespace sidelatch::explore
