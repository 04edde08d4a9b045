// What a probe saw of one effect, and how much it proves if it did not see the effect.
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
  std::uint64_t seen = 0;     ///< how often the effect showed
  std::string skipped = {};   ///< why the effect was not probed; empty: it was probed
  bool complete = true;       ///< false: the probe was told to end early
  /// False: as far as is known, the probe could not have seen the effect; then `seen == 0` proves nothing.
  bool sensitive = true;
  /// Further numbers, by name.
  std::vector<std::pair<std::string, std::uint64_t>> detail = {};
};

/// If the effect was not seen: an upper bound on its probability per chance at 95 % confidence (the p with
/// (1 - p)^chances = 0.05). Nothing if the effect was seen, had no chance or would not have been seen.
[[nodiscard]] std::optional<double> bound95(const Observation& observation);

/// "0.015 %": an upper bound of a probability, rounded up to two digits so that it stays an upper bound.
[[nodiscard]] std::string percent_at_most(double bound);

}  // namespace sidelatch::checker
