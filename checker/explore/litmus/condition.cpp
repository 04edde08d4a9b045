#include "condition.h"

#include <fmt/format.h>

#include <utility>

namespace sidelatch::explore::litmus {
namespace {

class ConditionParser {
 public:
  ConditionParser(Cursor& cursor, const TakeVariable& take_variable) : cursor_(cursor), take_variable_(take_variable) {}

  Condition any_of() {
    return chain("||", Condition::Kind::any_of, [this] { return all_of(); });
  }

 private:
  Condition all_of() {
    return chain("&&", Condition::Kind::all_of, [this] { return unary(); });
  }

  template <class TakePart>
  Condition chain(std::string_view symbol, Condition::Kind kind, TakePart take_part) {
    Condition first = take_part();
    if (!cursor_.at(symbol)) {
      return first;
    }
    Condition whole;
    whole.kind = kind;
    whole.parts.push_back(std::move(first));
    while (cursor_.accept(symbol)) {
      whole.parts.push_back(take_part());
    }
    return whole;
  }

  Condition unary() {
    const Token& first = cursor_.peek();
    const bool negated = cursor_.at("!");
    if (!negated && !cursor_.at("(")) {
      return comparison();
    }
    if (++depth_ > kMaxDepth) {
      cursor_.fail(first, fmt::format("a condition nested more than {} deep", kMaxDepth));
    }
    cursor_.take();
    Condition result;
    if (negated) {
      result.kind = Condition::Kind::negation;
      result.parts.push_back(unary());
    } else {
      result = any_of();
      if (!cursor_.accept(")")) {
        cursor_.fail_expected(fmt::format("')' for the '(' of {}:{}", first.line, first.column));
      }
    }
    --depth_;
    return result;
  }

  Condition comparison() {
    Condition result;
    result.left = operand();
    if (cursor_.accept("!=")) {
      result.kind = Condition::Kind::unequal;
    } else if (!cursor_.accept("==")) {
      cursor_.fail_expected("'==' or '!='");
    }
    result.right = operand();
    return result;
  }

  Operand operand() {
    if (cursor_.at(TokenKind::number)) {
      return cursor_.number("a number");
    }
    return take_variable_();
  }

  Cursor& cursor_;
  const TakeVariable& take_variable_;
  std::uint32_t depth_ = 0;
};

}  // namespace

Condition take_condition(Cursor& cursor, const TakeVariable& take_variable) {
  return ConditionParser(cursor, take_variable).any_of();
}

std::uint32_t take_register_index(Cursor& cursor, const Token& name, std::uint32_t words) {
  if (!cursor.accept("[")) {
    if (words != 1) {
      cursor.fail(name, fmt::format("register '{0}' has {1} words: expected an index, as in {0}[0]", name.text, words));
    }
    return 0;
  }
  const Token& index = cursor.peek();
  const std::int64_t i = cursor.number("the index of a word");
  if (i < 0 || i >= words) {
    cursor.fail(index, fmt::format("register '{}' has {} word{}: expected an index from 0 to {}, found {}", name.text,
                                   words, words == 1 ? "" : "s", words - 1, describe(index)));
  }
  cursor.expect("]");
  return static_cast<std::uint32_t>(i);
}

}  // namespace sidelatch::explore::litmus
