// The names of keys for the control plane: what their expressions say, as the reference compiler writes it.
// Source: the P4_16 specification, "Control plane names" (Tables, keys), and the reference compiler for the text of
// numbers.
#include "lower.h"
#include "parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace sidelatch::p4 {

using ast::ExprKind;

namespace {

constexpr std::string_view kValid = "$valid$";
constexpr unsigned kBinary = 2;
constexpr unsigned kOctal = 8;
constexpr unsigned kHexadecimal = 16;

[[noreturn]] void needs_name(Location at) {
  fail(at,
       "the control plane has no name for a key like this: give it one with @name(\"...\"), behind its kind of match");
}

}  // namespace

// The base that a number is written in: that of its literal, or of the leftmost one that it is computed of.
unsigned Lowering::base_of(const ast::Expr& expr) const {
  constexpr unsigned kDecimal = 10;
  switch (expr.kind) {
    case ExprKind::number:
      return expr.literal.base;
    case ExprKind::name: {
      const Symbol* symbol = find(expr.text, expr.global);
      return symbol != nullptr && symbol->base != 0 ? symbol->base : kDecimal;
    }
    case ExprKind::unary:
    case ExprKind::binary:
    case ExprKind::cast:
    case ExprKind::slice:
      return base_of(*expr.operands[0]);
    default:
      return kDecimal;
  }
}

// Without a width; nothing, if the program does not write a constant there. What the constructor of a control gets is
// none: all its instances have the same names.
std::optional<std::string> Lowering::constant_name(const ast::Expr& expr) {
  if (expr.kind == ExprKind::name) {
    const Symbol* symbol = find(expr.text, expr.global);
    if (symbol == nullptr || symbol->base == 0) {
      return std::nullopt;
    }
  } else if (expr.kind != ExprKind::number) {
    const bool is_operator = expr.kind == ExprKind::unary || expr.kind == ExprKind::binary ||
                             expr.kind == ExprKind::cast || expr.kind == ExprKind::slice;
    const bool is_written = std::all_of(expr.operands.begin(), expr.operands.end(), [&](const ast::ExprPtr& operand) {
      return operand->kind == ExprKind::number || constant_name(*operand).has_value();
    });
    if (!is_operator || !is_written) {
      return std::nullopt;
    }
  }
  const Value value = eval(expr);
  const bool is_number =
      value.kind == Value::Kind::integer || (value.type != nullptr && (value.type->is_bits() || value.type->is_wide));
  if (!is_number || !is_constant(value)) {
    return std::nullopt;
  }
  const Number number = number_of(value, expr.at);
  const unsigned base = base_of(expr);
  const std::string_view prefix = base == kHexadecimal ? "0x" : base == kOctal ? "0o" : base == kBinary ? "0b" : "";
  return fmt::format("{}{}{}", number.negative ? "-" : "", prefix, number.magnitude.text(base));
}

std::string Lowering::name_of(const ast::Expr& expr) {
  if (std::optional<std::string> number = constant_name(expr)) {
    return *std::move(number);
  }
  const auto part = [&](std::size_t which) { return name_of(*expr.operands[which]); };
  const auto type_of = [&](const ast::Expr& one) {
    const Value value = eval(one);
    return value.kind == Value::Kind::place ? value.type : nullptr;
  };
  switch (expr.kind) {
    case ExprKind::name:
      return (expr.global ? "." : "") + expr.text;
    case ExprKind::member: {
      const Type* type = type_of(*expr.operands[0]);
      if (type == nullptr) {
        needs_name(expr.at);
      }
      for (const FieldType& field : type->fields) {
        const std::string* given = field.name == expr.text && field.annotations != nullptr
                                       ? ast::name_annotation(*field.annotations)
                                       : nullptr;
        if (given != nullptr) {
          return given->starts_with('.') ? given->substr(1) : fmt::format("{}.{}", part(0), *given);
        }
      }
      return fmt::format("{}.{}", part(0), expr.text);
    }
    case ExprKind::index:
      return fmt::format("{}[{}]", part(0), part(1));
    case ExprKind::slice: {
      if (expr.text != "+") {
        return fmt::format("{}[{}:{}]", part(0), part(1), part(2));
      }
      const std::optional<std::string> low = constant_name(*expr.operands[1]);
      if (!low) {
        needs_name(expr.at);
      }
      const Number from = constant_number(*expr.operands[1]);
      const Number width = constant_number(*expr.operands[2]);
      const Number above = combine("-", combine("+", from, width, expr.at), Number::of(1), expr.at);
      return fmt::format("{}[{}:{}]", part(0), text(above), *low);
    }
    case ExprKind::binary:
      if (expr.text != "&") {
        needs_name(expr.at);
      }
      return fmt::format("{} & {}", part(0), part(1));
    case ExprKind::call: {
      const ast::Expr& method = *expr.operands[0];
      if (expr.operands.size() != 1 || method.kind != ExprKind::member || method.text != "isValid") {
        needs_name(expr.at);
      }
      return fmt::format("{}.{}", name_of(*method.operands[0]), kValid);
    }
    default:
      needs_name(expr.at);
  }
}

// What looking at the parts computes is of no use.
std::string Lowering::key_name(const ast::KeyElement& key) {
  if (const std::string* given = ast::name_annotation(key.annotations)) {
    return *given;
  }
  std::string name;
  static_cast<void>(collect([&] { name = name_of(*key.value); }));
  return name;
}

}  // namespace sidelatch::p4
