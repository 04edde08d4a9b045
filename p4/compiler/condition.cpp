#include "condition.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace sidelatch::p4 {

namespace {

constexpr unsigned kDeepest = 200;

// Numbers have 64 bits. One unsigned operand makes both unsigned.
struct Value {
  std::uint64_t bits = 0;
  bool is_unsigned = false;

  [[nodiscard]] std::int64_t as_signed() const { return static_cast<std::int64_t>(bits); }
};

Value truth(bool value) { return {value ? 1U : 0U}; }

struct Operator {
  std::string_view symbol;
  int level;
};

constexpr std::array<Operator, 17> kOperators{{{"||", 1},
                                               {"&&", 2},
                                               {"|", 3},
                                               {"^", 4},
                                               {"&", 5},
                                               {"==", 6},
                                               {"!=", 6},
                                               {"<=", 7},
                                               {">=", 7},
                                               {"<", 7},
                                               {">", 7},
                                               {"+", 9},
                                               {"-", 9},
                                               {"*", 10},
                                               {"/", 10},
                                               {"%", 10},
                                               {"<<", 8}}};
constexpr Operator kRightShift{">>", 8};  // two tokens

Value shifted(std::string_view op, Value a, Value b, Location at) {
  if (b.bits > 63) {
    fail(at, "a shift in a condition is by 0 to 63");
  }
  if (op == "<<") {
    return {a.bits << b.bits, a.is_unsigned};
  }
  return {a.is_unsigned ? a.bits >> b.bits : static_cast<std::uint64_t>(a.as_signed() >> b.bits), a.is_unsigned};
}

Value divided(std::string_view op, Value a, Value b, Location at) {
  if (b.bits == 0) {
    fail(at, "division by zero");
  }
  if (a.is_unsigned || b.is_unsigned) {
    return {op == "/" ? a.bits / b.bits : a.bits % b.bits, true};
  }
  if (b.as_signed() == -1) {  // the smallest number has no counterpart
    return {op == "/" ? 0 - a.bits : 0};
  }
  return {static_cast<std::uint64_t>(op == "/" ? a.as_signed() / b.as_signed() : a.as_signed() % b.as_signed())};
}

bool is_less(Value a, Value b) {
  return a.is_unsigned || b.is_unsigned ? a.bits < b.bits : a.as_signed() < b.as_signed();
}

// All but && and ||.
Value applied(std::string_view op, Value a, Value b, Location at) {
  const bool is_unsigned = a.is_unsigned || b.is_unsigned;
  if (op == "==") {
    return truth(a.bits == b.bits);
  }
  if (op == "!=") {
    return truth(a.bits != b.bits);
  }
  if (op == "<") {
    return truth(is_less(a, b));
  }
  if (op == ">") {
    return truth(is_less(b, a));
  }
  if (op == "<=") {
    return truth(!is_less(b, a));
  }
  if (op == ">=") {
    return truth(!is_less(a, b));
  }
  if (op == "+") {
    return {a.bits + b.bits, is_unsigned};
  }
  if (op == "-") {
    return {a.bits - b.bits, is_unsigned};
  }
  if (op == "*") {
    return {a.bits * b.bits, is_unsigned};
  }
  if (op == "|") {
    return {a.bits | b.bits, is_unsigned};
  }
  if (op == "^") {
    return {a.bits ^ b.bits, is_unsigned};
  }
  if (op == "&") {
    return {a.bits & b.bits, is_unsigned};
  }
  return op == "<<" || op == ">>" ? shifted(op, a, b, at) : divided(op, a, b, at);
}

Value number(const Token& token) {
  std::string digits = token.text;
  const std::size_t end = digits.find_last_not_of("uUlL");
  const std::string suffix = digits.substr(end + 1);
  digits.resize(end + 1);
  int base = 0;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B')) {
    digits.erase(0, 2);
    base = 2;
  }
  errno = 0;
  char* rest = nullptr;
  const unsigned long long bits = std::strtoull(digits.c_str(), &rest, base);
  const auto unsigned_marks = std::count_if(suffix.begin(), suffix.end(), [](char c) { return c == 'u' || c == 'U'; });
  if (digits.empty() || *rest != '\0' || unsigned_marks > 1 || suffix.size() > 3) {
    fail(token.at, "'" + token.text + "' is not a number of a condition: these are C's, as 10, 0x0a and 0b1010");
  }
  if (errno == ERANGE) {
    fail(token.at, "the number '" + token.text + "' has more than 64 bits");
  }
  return {bits, unsigned_marks > 0 || bits >> 63 != 0};
}

class Condition {
 public:
  Condition(const std::vector<Token>& tokens, Location at) : tokens_(tokens), at_(at) {}

  bool holds() {
    const Value result = choice(true);
    if (position_ < tokens_.size()) {
      fail(tokens_[position_].at, "the condition should end before '" + tokens_[position_].text + "'");
    }
    return result.bits != 0;
  }

 private:
  class Deeper {
   public:
    explicit Deeper(Condition& condition) : condition_(condition) {
      if (++condition_.depth_ > kDeepest) {
        unsupported(condition_.at_, "a condition nested this deeply");
      }
    }
    ~Deeper() { --condition_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Condition& condition_;
  };

  [[nodiscard]] bool at_symbol(std::string_view symbol) const {
    return position_ < tokens_.size() && tokens_[position_].is(symbol);
  }
  bool take(std::string_view symbol) {
    if (!at_symbol(symbol)) {
      return false;
    }
    ++position_;
    return true;
  }

  // a ? b : c. `counts`: what is not evaluated in C, as the right side of 0 && ..., may divide by 0.
  Value choice(bool counts) {
    const Value condition = binary(0, counts);
    if (!take("?")) {
      return condition;
    }
    const Deeper deeper(*this);
    const bool first = condition.bits != 0;
    const Value yes = choice(counts && first);
    if (!take(":")) {
      fail(at_, "':' is missing in this condition");
    }
    const Value no = choice(counts && !first);
    return {first ? yes.bits : no.bits, yes.is_unsigned || no.is_unsigned};
  }

  // The operator here, if it binds more tightly than `level`.
  [[nodiscard]] const Operator* operator_here(int level) const {
    const Operator* found = nullptr;
    for (const Operator& candidate : kOperators) {
      if (at_symbol(candidate.symbol)) {
        found = &candidate;
      }
    }
    if (at_symbol(">") && position_ + 1 < tokens_.size() && tokens_[position_ + 1].is(">") &&
        tokens_[position_ + 1].adjacent) {
      found = &kRightShift;
    }
    return found != nullptr && found->level > level ? found : nullptr;
  }

  Value binary(int level, bool counts) {
    Value left = unary(counts);
    while (const Operator* const found = operator_here(level)) {
      const Location place = tokens_[position_].at;
      position_ += found == &kRightShift ? 2 : 1;
      const bool is_and = found->symbol == "&&";
      const bool is_or = found->symbol == "||";
      const bool decided = (is_and && left.bits == 0) || (is_or && left.bits != 0);
      const Value right = binary(found->level, counts && !decided);
      if (is_and || is_or) {
        left = truth(is_and ? left.bits != 0 && right.bits != 0 : left.bits != 0 || right.bits != 0);
      } else if (counts) {
        left = applied(found->symbol, left, right, place);
      }
    }
    return left;
  }

  Value unary(bool counts) {
    const Deeper deeper(*this);
    if (take("!")) {
      return truth(unary(counts).bits == 0);
    }
    if (take("-")) {
      const Value value = unary(counts);
      return {0 - value.bits, value.is_unsigned};
    }
    if (take("+")) {
      return unary(counts);
    }
    if (take("~")) {
      const Value value = unary(counts);
      return {~value.bits, value.is_unsigned};
    }
    if (take("(")) {
      const Value value = choice(counts);
      if (!take(")")) {
        fail(at_, "')' is missing in this condition");
      }
      return value;
    }
    if (position_ >= tokens_.size()) {
      fail(at_, "this condition ends too early");
    }
    const Token& token = tokens_[position_++];
    if (token.kind == TokenKind::number) {
      return number(token);
    }
    if (token.kind == TokenKind::name) {
      return {};  // what is not defined counts as 0
    }
    fail(token.at, "a condition cannot have '" + token.text + "' here");
  }

  const std::vector<Token>& tokens_;
  Location at_;
  std::size_t position_ = 0;
  unsigned depth_ = 0;
};

}  // namespace

bool condition_holds(const std::vector<Token>& tokens, Location at) { return Condition(tokens, at).holds(); }

}  // namespace sidelatch::p4
