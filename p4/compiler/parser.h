// Reads the tokens of a P4_16 program into a syntax tree. Source of the grammar: the P4_16 language specification,
// version 1.2.5, appendix "P4 grammar".
#pragma once

#include "ast.h"
#include "lexer.h"

#include <vector>

namespace sidelatch::p4::ast {

/// Throws Failure at the first token that does not fit.
[[nodiscard]] Program parse(std::vector<Token> tokens);

/// The text of @name("..."), or null.
[[nodiscard]] const std::string* name_annotation(const Annotations& annotations);

}  // namespace sidelatch::p4::ast
