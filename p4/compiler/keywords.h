// The words that nothing in a program can be called. Source: the P4_16 language specification, "Reserved keywords" and
// the grammar's `name`, which takes some keywords (`apply`, `key`, `type` and others).
#pragma once

#include <string_view>

namespace sidelatch::p4 {

[[nodiscard]] bool is_keyword(std::string_view word);

}  // namespace sidelatch::p4
