// Aborts if a property of the codec does not hold for these bytes.
//
// Each target of tests/fuzz is such a function, because all are linked into one test program. libFuzzer's own entry
// exists only with SIDELATCH_LIBFUZZER, which scripts/fuzz defines.
#pragma once

#include <cstddef>
#include <span>

namespace sidelatch::roce {

void check_codec(std::span<const std::byte> bytes);

}  // namespace sidelatch::roce
