// The expression of an #if. Source: ISO C17, 6.10.1.
#pragma once

#include "lexer.h"

#include <vector>

namespace sidelatch::p4 {

/// Whether the expression is not 0. Its macros and each `defined` must have been replaced; a name that is left counts
/// as 0. `at`: the place of the directive, for errors.
[[nodiscard]] bool condition_holds(const std::vector<Token>& tokens, Location at);

}  // namespace sidelatch::p4
