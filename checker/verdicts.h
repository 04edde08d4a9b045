// From what the probes saw to a verdict on each scheme: `unsafe` with the bytes that show it, `safe` where the explorer
// proves it under guarantees that the probes did not refute, else `not exercised`.
#pragma once

#include <sidelatch/checker/check.h>
#include <sidelatch/checker/schemes.h>

#include <chrono>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

inline constexpr std::string_view kBookend = "broken/bookend";

/// What was seen of the scheme itself; a tear is unsafe, the rest not exercised.
[[nodiscard]] SchemeReport judge(const SchemeEntry& scheme, std::vector<SchemeReads> sizes);
/// The bookend scheme is what the torn-read probe classifies: it accepts a block whose header and footer agree.
[[nodiscard]] SchemeReport judge_bookend(const std::vector<TornReads>& probes);

/// How the memory model's guarantees stand after the report's probes.
[[nodiscard]] std::vector<GuaranteeReport> examine_guarantees(const CheckReport& report);

struct ProofOptions {
  bool relaxed_ordering = false;  ///< memory is registered so: its WRITEs are promised no order
  std::chrono::duration<double> budget{10};
  unsigned threads = 0;  ///< of the explorer; 0: all cores
  const std::atomic<bool>* interrupted = nullptr;
};

/// Turns `not exercised` into `safe` if the explorer proves the scheme under the weakest model that it is said to be
/// safe under, the report's guarantees stand, and the scheme was seen at work; else the evidence says what is in the
/// way. False: the explorer was ended early.
bool prove(SchemeReport& scheme, const CheckReport& report, const ProofOptions& options);

}  // namespace sidelatch::checker
