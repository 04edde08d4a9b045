// Counts instructions: this program runs one of its disabled tests under callgrind, twice.
#pragma once

#include "common/sanitizers.h"

#include <string>

namespace sidelatch {

#if defined(__OPTIMIZE__) && !SIDELATCH_IS_SANITIZED
inline constexpr bool kCountsInstructions = true;
#else
inline constexpr bool kCountsInstructions = false;  // the cost of a debug or sanitized build means nothing
#endif

/// How often the test under callgrind must repeat the counted work.
[[nodiscard]] int repetitions();

/// Instructions of one repetition of DISABLED_UnderCallgrind.`test`: the difference of two runs of different length, so
/// that work outside the repetitions cancels out. `arguments` are further ones for callgrind. Throws std::runtime_error
/// if valgrind fails.
[[nodiscard]] double instructions_of(const std::string& test, const std::string& arguments = {});

}  // namespace sidelatch
