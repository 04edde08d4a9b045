// What a probe saw of one effect, and what it is worth not to have seen it.
//
//   Observation seen = probe_order(storage, clients, Pair::write_read, {});
//   if (seen.seen == 0) { fmt::print("at most {:.2g} per chance, at 95 %", *bound95(seen)); }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::checker {

struct Observation {
  std::string name;           ///< "order/write-read"
  std::uint64_t chances = 0;  ///< how often the effect could have shown
  std::uint64_t seen = 0;     ///< how often it did
  std::string skipped = {};   ///< why it was not probed; empty: it was
  bool complete = true;       ///< false: it was told to end early
  /// False: the probe could not have seen the effect, as far as is known; then it is worth nothing not to have seen it.
  bool sensitive = true;
  /// Numbers beside these two, by name.
  std::vector<std::pair<std::string, std::uint64_t>> detail = {};
};

/// Where nothing was seen: the effect's probability per chance is at most that, at 95 % confidence (the p with
/// (1 - p)^chances = 0.05). Nothing where the effect was seen, had no chance or would not have been seen.
[[nodiscard]] std::optional<double> bound95(const Observation& observation);

/// "0.015 %": a probability's upper bound, rounded up to two digits so that it stays one.
[[nodiscard]] std::string percent_at_most(double bound);

}  // namespace sidelatch::checker
