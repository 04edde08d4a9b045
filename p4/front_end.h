// From source text to IR.
#pragma once

#include "p4/ir.h"

#include <sidelatch/p4/compile.h>

#include <filesystem>
#include <string>

namespace sidelatch::p4 {

/// Throws CompileError.
[[nodiscard]] ir::Program front_end(const std::string& text, const std::string& name, const CompileOptions& options);
/// The text of a program. Throws CompileError if it cannot be read.
[[nodiscard]] std::string read_source(const std::filesystem::path& file, const CompileOptions& options);

}  // namespace sidelatch::p4
