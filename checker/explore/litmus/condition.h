// Reads a condition: == and != between operands, joined by !, &&, || and parentheses.
//
//   Condition condition = take_condition(cursor, [&] { return take_my_operand(cursor); });
//
// The caller decides which operands besides numbers are possible: registers of one thread in an `if`, registers of all
// threads and memory in `exists`. && binds tighter than ||. A chain of one operator is one flat list, so only
// parentheses and negations make a condition deep; the depth is bounded.
//
// Thread-safety: as Cursor.
#pragma once

#include "lexer.h"
#include "litmus.h"

#include <cstdint>
#include <functional>
#include <string_view>

namespace sidelatch::explore::litmus {

/// How deep conditions and `if` blocks may be nested.
inline constexpr std::uint32_t kMaxDepth = 32;

/// Takes an operand that is not a number.
using TakeVariable = std::function<Operand()>;

[[nodiscard]] Condition take_condition(Cursor& cursor, const TakeVariable& take_variable);

/// Takes `[i]` behind a register of `words` words, or nothing behind a scalar. `name` is the register's name for
/// errors.
[[nodiscard]] std::uint32_t take_register_index(Cursor& cursor, const Token& name, std::uint32_t words);

}  // namespace sidelatch::explore::litmus
