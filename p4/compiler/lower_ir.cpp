#include "lower.h"

#include "p4/evaluate.h"

#include <fmt/format.h>

#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::size_t kMostSlots = 1'000'000;
constexpr std::size_t kMostExprs = 5'000'000;

}  // namespace

int Lowering::node(ir::Expr expr) {
  using ir::Op;
  const auto at = [this](int which) -> const ir::Expr& { return out_.exprs[static_cast<std::size_t>(which)]; };
  const auto known = [&](int which) { return which < 0 || at(which).op == Op::constant; };
  if (expr.op != Op::constant && expr.op != Op::load && known(expr.a) && known(expr.b) && known(expr.c)) {
    const auto value = [&](int which) { return which < 0 ? U128{0} : at(which).value; };
    return constant(ir::apply(expr, value(expr.a), value(expr.b), value(expr.c)), expr.width);
  }
  if (out_.exprs.size() >= kMostExprs) {
    unsupported({}, "a program this large");
  }
  out_.exprs.push_back(expr);
  return static_cast<int>(out_.exprs.size() - 1);
}

int Lowering::node(ir::Op op, unsigned width, int a, int b, int c, bool is_signed, unsigned low) {
  ir::Expr expr;
  expr.op = op;
  expr.width = width;
  expr.a = a;
  expr.b = b;
  expr.c = c;
  expr.is_signed = is_signed;
  expr.low = low;
  return node(expr);
}

int Lowering::constant(U128 value, unsigned width) {
  ir::Expr expr;
  expr.op = ir::Op::constant;
  expr.width = width;
  expr.value = value & ones(width);
  return node(expr);
}

int Lowering::load(const ir::Place& place, unsigned width) {
  ir::Expr expr;
  expr.op = ir::Op::load;
  expr.width = width;
  expr.place = place;
  return node(expr);
}

int Lowering::extend(int expr, unsigned from, unsigned to, bool is_signed) {
  return from == to ? expr : node(ir::Op::extend, to, expr, -1, -1, is_signed, from);
}

int Lowering::logical_not(int expr) { return node(ir::Op::logical_not, 1, expr); }

int Lowering::conjunction(int a, int b) { return node(ir::Op::logical_and, 1, a, b); }

// In halves: a chain would be as deep as the conditions are many.
int Lowering::all_of(std::vector<int> conditions) {
  while (conditions.size() > 1) {
    std::size_t made = 0;
    for (std::size_t i = 0; i < conditions.size(); i += 2) {
      conditions[made++] = i + 1 < conditions.size() ? conjunction(conditions[i], conditions[i + 1]) : conditions[i];
    }
    conditions.resize(made);
  }
  return conditions.empty() ? constant(1, 1) : conditions[0];
}

int Lowering::new_slots(const Type* type) {
  const auto first = static_cast<int>(out_.slot_widths.size());
  if (out_.slot_widths.size() + static_cast<std::size_t>(type->slots) > kMostSlots) {
    unsupported({}, "a program with this many variables");
  }
  switch (type->kind) {
    case Type::Kind::bits:
    case Type::Kind::boolean:
    case Type::Kind::error:
    case Type::Kind::enumeration:
      out_.slot_widths.push_back(type->width);
      break;
    case Type::Kind::varbit:
      out_.slot_widths.push_back(32);
      for (int part = 1; part < type->slots; ++part) {
        out_.slot_widths.push_back(part_width(type, part));
      }
      break;
    case Type::Kind::header:
      out_.slot_widths.push_back(1);
      [[fallthrough]];
    case Type::Kind::structure:
    case Type::Kind::header_union:
    case Type::Kind::tuple:
      for (const FieldType& field : type->fields) {
        new_slots(field.type);
      }
      break;
    case Type::Kind::stack:
      out_.slot_widths.push_back(32);
      for (int i = 0; i < type->count; ++i) {
        new_slots(type->element);
      }
      break;
    default:
      break;
  }
  return first;
}

Value Lowering::new_place(const Type* type) {
  Value value;
  value.kind = Value::Kind::place;
  value.type = type;
  value.place.slot = new_slots(type);
  value.writable = true;
  return value;
}

Value Lowering::scalar_value(int expr, const Type* type) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.type = type;
  value.expr = expr;
  return value;
}

Value Lowering::integer_value(Number number) const {
  Value value;
  value.kind = Value::Kind::integer;
  value.type = types_.any_integer;
  value.number = std::move(number);
  return value;
}

ir::Statement& Lowering::add(ir::Do kind, Location at) {
  block_->emplace_back();
  block_->back().kind = kind;
  block_->back().at = origin(at);
  return block_->back();
}

int Lowering::header_type(const Type* type, Location at) {
  const auto known = header_types_.find(type);
  if (known != header_types_.end()) {
    return known->second;
  }
  ir::HeaderType made;
  made.name = type->name;
  made.slots = type->slots;
  unsigned bits = 0;
  const std::function<void(const Type*, int)> collect_fields = [&](const Type* inner, int slot) {
    if (inner->is_scalar()) {
      if (inner->kind == Type::Kind::error || (inner->kind == Type::Kind::enumeration && inner->element == nullptr)) {
        fail(at, "a header cannot have a field of type " + text(inner));
      }
      made.fields.push_back({slot, inner->width});
      bits += inner->width;
      return;
    }
    if (inner->kind == Type::Kind::varbit) {
      if (made.used >= 0) {
        fail(at, "a header has one varbit at most");
      }
      made.used = slot;
      made.most_used = inner->width;
      for (int part = 1; part < inner->slots; ++part) {
        made.fields.push_back({slot + part, part_width(inner, part), (part - 1) * static_cast<int>(kWidest)});
      }
      return;
    }
    for (std::size_t i = 0; i < inner->fields.size(); ++i) {
      collect_fields(inner->fields[i].type, slot + field_offset(inner, i));
    }
  };
  collect_fields(type, 0);
  if (bits % 8 != 0) {
    unsupported(at, fmt::format("the header {} has {} bits, which is not a multiple of 8", type->name, bits));
  }
  made.bytes = bits / 8;
  out_.headers.push_back(std::move(made));
  const auto number = static_cast<int>(out_.headers.size() - 1);
  header_types_[type] = number;
  return number;
}

int Lowering::stack_type(const Type* type) {
  const auto known = stack_types_.find(type);
  if (known != stack_types_.end()) {
    return known->second;
  }
  out_.stacks.push_back({type->element->slots, type->count});
  const auto number = static_cast<int>(out_.stacks.size() - 1);
  stack_types_[type] = number;
  return number;
}

ir::Place Lowering::moved(ir::Place place, int by) {
  place.slot += by;
  return place;
}

}  // namespace sidelatch::p4
