// Writes a syntax tree as P4 again.
#pragma once

#include "ast.h"
#include "source.h"

#include <string>

namespace sidelatch::p4::ast {

/// A program that the compiler turns into the same IR. Macros are replaced; what core.p4 and v1model.p4 declare is not
/// repeated, these files are included.
[[nodiscard]] std::string print(const Program& program, const Sources& sources);

}  // namespace sidelatch::p4::ast
