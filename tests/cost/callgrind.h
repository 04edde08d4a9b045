// Counting instructions: this program runs one of its disabled tests under callgrind, twice.
#pragma once

#include "common/sanitizers.h"

#include <string>

namespace sidelatch {

#if defined(__OPTIMIZE__) && !SIDELATCH_HAS_ASAN && !SIDELATCH_HAS_TSAN
inline constexpr bool kCountsInstructions = true;
#else
inline constexpr bool kCountsInstructions = false;  // what a debug or sanitized build costs says nothing
#endif

/// How often the test that callgrind runs is to repeat what is counted.
[[nodiscard]] int repetitions();

/// Instructions of one repetition of DISABLED_UnderCallgrind.`test`: the difference of two runs of different length, so
/// that what is not part of a repetition cancels out. `arguments`: more of them for callgrind. Throws
/// std::runtime_error if valgrind does.
[[nodiscard]] double instructions_of(const std::string& test, const std::string& arguments = {});

}  // namespace sidelatch
