// Names of functions in C++.
#pragma once

#include <string_view>

namespace sidelatch::p4 {

/// Whether a C++ program can give this name to a function: an identifier that is no keyword of C++20.
[[nodiscard]] bool is_cpp_name(std::string_view name);

}  // namespace sidelatch::p4
