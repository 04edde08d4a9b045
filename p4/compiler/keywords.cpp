#include "keywords.h"

#include <algorithm>
#include <array>

namespace sidelatch::p4 {

namespace {

constexpr std::array<std::string_view, 41> kKeywords{
    "_",        "abstract", "action",     "bit",       "bool",         "break",  "const",
    "continue", "control",  "default",    "else",      "enum",         "error",  "exit",
    "extern",   "false",    "for",        "header",    "header_union", "if",     "in",
    "inout",    "int",      "match_kind", "out",       "package",      "parser", "return",
    "select",   "string",   "struct",     "switch",    "table",        "this",   "transition",
    "true",     "tuple",    "typedef",    "value_set", "varbit",       "void"};

}  // namespace

bool is_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end();
}

}  // namespace sidelatch::p4
