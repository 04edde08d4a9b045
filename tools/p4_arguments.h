// -I and -D, as every program here takes them: `sidelatch p4`, `sidelatch switch` and sidelatch-p4c.
#pragma once

#include <sidelatch/p4/compile.h>

#include <string>
#include <vector>

namespace sidelatch::tools {

/// The options that the values of -I and -D mean. Throws std::invalid_argument for a folder that is not there, and for
/// a macro that is neither NAME nor NAME=TEXT.
[[nodiscard]] p4::CompileOptions compile_options_of(const std::vector<std::string>& folders,
                                                    const std::vector<std::string>& macros);

}  // namespace sidelatch::tools
