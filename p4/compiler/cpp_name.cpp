#include "cpp_name.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sidelatch::p4 {

namespace {

constexpr std::array<std::string_view, 92> kCppKeywords{
    "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
    "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char8_t",
    "char16_t",    "char32_t", "class",      "co_await",  "co_return", "co_yield",     "compl",
    "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
    "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
    "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
    "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
    "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
    "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
    "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
    "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
    "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
    "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
    "xor_eq"};

bool is_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool is_cpp_name(std::string_view name) {
  const bool is_identifier = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
                             std::all_of(name.begin(), name.end(), is_part);
  return is_identifier && std::find(kCppKeywords.begin(), kCppKeywords.end(), name) == kCppKeywords.end();
}

}  // namespace sidelatch::p4
