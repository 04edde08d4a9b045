// Derives a verdict on each scheme from the probes' results: `unsafe` with the bytes that show it, `safe` if the
// explorer proves it under guarantees that the probes did not refute, otherwise `not exercised`.
#pragma once

#include <sidelatch/checker/check.h>
#include <sidelatch/checker/schemes.h>

#include <chrono>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

inline constexpr std::string_view kBookend = "broken/bookend";

/// Judges a scheme's own reads: a tear is unsafe, everything else not exercised.
[[nodiscard]] SchemeReport judge(const SchemeEntry& scheme, std::vector<SchemeReads> sizes);
/// The torn-read probe also judges the bookend scheme, which accepts a block whose header and footer agree.
[[nodiscard]] SchemeReport judge_bookend(const std::vector<TornReads>& probes);

/// The state of the memory model's guarantees after the report's probes.
[[nodiscard]] std::vector<GuaranteeReport> examine_guarantees(const CheckReport& report);

struct ProofOptions {
  bool relaxed_ordering = false;  ///< memory is registered with it: the order of its WRITEs is not guaranteed
  std::chrono::duration<double> budget{10};
  unsigned threads = 0;  ///< of the explorer; 0: all cores
  const std::atomic<bool>* interrupted = nullptr;
};

/// Changes `not exercised` to `safe` if the explorer proves the scheme under the weakest model in which it claims to be
/// safe, the report's guarantees stand, and the scheme was seen at work. Otherwise the evidence names the obstacle.
/// False if the explorer was ended early.
bool prove(SchemeReport& scheme, const CheckReport& report, const ProofOptions& options);

}  // namespace sidelatch::checker
