// Turns a P4 program into C++, for the build to compile in; docs/p4.md says how.
#pragma once

#include <sidelatch/p4/compile.h>

#include <filesystem>
#include <string>

namespace sidelatch::p4 {

/// The text of a C++ file that defines
///
///   std::shared_ptr<const sidelatch::p4::Program> sidelatch::p4::programs::FUNCTION();
///
/// The program behaves as the one that compile_file() makes. Throws CompileError, and
/// std::invalid_argument if `function` cannot be the name of a C++ function.
[[nodiscard]] std::string emit_cpp(const std::filesystem::path& file, const std::string& function,
                                   const CompileOptions& options = {});

/// The text of the header that declares it.
[[nodiscard]] std::string emit_header(const std::string& function);

}  // namespace sidelatch::p4
