// Conversions: casts, and what P4 converts by itself.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace sidelatch::p4 {

namespace {

// Of {field = value}: where the value of each field is. The fields may be many.
std::map<std::string_view, std::size_t> places_of_names(const Value& list, const Type* type, Location at) {
  std::map<std::string_view, std::size_t> places;
  if (list.names.empty()) {
    return places;
  }
  std::set<std::string_view> fields;
  for (const FieldType& field : type->fields) {
    fields.insert(field.name);
  }
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    const std::string& name = list.names[i];
    if (!fields.contains(name)) {
      fail(at, text(type) + " has no field '" + name + "'");
    }
    if (!places.emplace(name, i).second) {
      fail(at, "the field '" + name + "' has two values");
    }
  }
  return places;
}

}  // namespace

// What `...` stands for: 0, false, the first member, a varbit without bits, a header that is not valid.
Value Lowering::default_of(const Type* type, Location at) {
  if (type->is_scalar()) {
    return scalar_value(constant(0, type->width), type);
  }
  Value made;
  made.type = type;
  switch (type->kind) {
    case Type::Kind::header:
    case Type::Kind::header_union:
    case Type::Kind::varbit:
      made.kind = Value::Kind::invalid;
      return made;
    case Type::Kind::stack:
      made.kind = Value::Kind::list;
      return made;
    case Type::Kind::structure:
    case Type::Kind::tuple:
      made.kind = Value::Kind::list;
      for (const FieldType& field : type->fields) {
        made.items.push_back(default_of(field.type, at));
      }
      return made;
    default:
      fail(at, "there is no default value of type " + text(type));
  }
}

// What P4 converts by itself: numbers to a width, serializable enumerations to their bits, lists to structures.
Value Lowering::coerce(const Value& value, const Type* type, Location at) {
  if (type == nullptr || type->kind == Type::Kind::variable) {
    return value;
  }
  if (value.kind == Value::Kind::any) {
    fail(at, "'_' has no value");
  }
  if (value.kind == Value::Kind::integer) {
    if (type == types_.any_integer) {
      return value;
    }
    if (type->is_wide) {
      if (!value.number.fits(type->width, false)) {
        warnings_.push_back({at, fmt::format("{} does not fit {}, and is cut", text(value.number), text(type))});
      }
      return wide_value(value.number, type);
    }
    if (type->is_new && type->element != types_.boolean) {  // P4-16 wants a cast; the reference compiler does not
      return scalar_value(scalar(coerce(value, type->element, at), at), type);
    }
    if (!type->is_bits()) {
      fail(at, "a number cannot become a value of type " + text(type));
    }
    if (!value.number.fits(type->width, type->is_signed)) {
      // -1 for all ones is common, so a negative number that fits with a sign is taken as silently as C does.
      warnings_.push_back({at, fmt::format("{} does not fit {}, and is cut", text(value.number), text(type))});
    }
    return scalar_value(constant(value.number.bits(type->width), type->width), type);
  }
  if (value.kind == Value::Kind::invalid) {
    if (type->kind != Type::Kind::header && type->kind != Type::Kind::header_union) {
      fail(at, "{#} is a header, not a value of type " + text(type));
    }
    Value made = value;
    made.type = type;
    return made;
  }
  if (value.kind == Value::Kind::list && value.is_default) {
    return default_of(type, at);
  }
  if (value.kind == Value::Kind::list && value.type == nullptr) {
    Value made;
    made.kind = Value::Kind::list;
    made.type = type;
    if (type->kind == Type::Kind::stack) {
      const auto count = static_cast<std::size_t>(type->count);
      if (value.has_rest ? value.items.size() > count : value.items.size() != count) {
        fail(at, fmt::format("{} elements for a stack of {}", value.items.size(), type->count));
      }
      for (const Value& item : value.items) {
        made.items.push_back(coerce(item, type->element, at));
      }
      return made;  // those that ... stands for are not valid
    }
    if (type->kind == Type::Kind::list && value.names.empty() && !value.has_rest) {
      for (const Value& item : value.items) {
        made.items.push_back(coerce(item, type->element, at));
      }
      return made;
    }
    if (type->is_wide ||
        (type->kind != Type::Kind::structure && type->kind != Type::Kind::header && type->kind != Type::Kind::tuple)) {
      fail(at, "a list cannot become a value of type " + text(type));
    }
    if (value.has_rest ? value.items.size() > type->fields.size() : value.items.size() != type->fields.size()) {
      fail(at, fmt::format("{} values for the {} fields of {}", value.items.size(), type->fields.size(), text(type)));
    }
    const std::map<std::string_view, std::size_t> named = places_of_names(value, type, at);
    for (std::size_t i = 0; i < type->fields.size(); ++i) {
      std::size_t which = i;
      if (!value.names.empty()) {
        const auto found = named.find(type->fields[i].name);
        if (found == named.end() && value.has_rest) {
          made.items.push_back(default_of(type->fields[i].type, at));
          continue;
        }
        if (found == named.end()) {
          fail(at, "the field '" + type->fields[i].name + "' has no value");
        }
        which = found->second;
      } else if (i >= value.items.size()) {
        made.items.push_back(default_of(type->fields[i].type, at));
        continue;
      }
      made.items.push_back(coerce(value.items[which], type->fields[i].type, at));
    }
    return made;
  }
  if (value.type == type) {
    return value;
  }
  if (value.type != nullptr && value.type->is_serializable() && value.type->element == type) {
    return scalar_value(scalar(value, at), type);
  }
  fail(at, "expected a value of type " + text(type) + ", found " + text(value.type));
}

Value Lowering::cast(const Value& value, const Type* type, Location at) {
  if (value.type != type && type->is_new && (value.kind == Value::Kind::integer || value.type == type->element)) {
    return scalar_value(scalar(cast(value, type->element, at), at), type);
  }
  if (value.type != type && value.type != nullptr && value.type->is_new && value.type->element == type) {
    return scalar_value(scalar(value, at), type);
  }
  if (value.kind == Value::Kind::integer && type == types_.boolean &&
      (value.number == Number::of(0) || value.number == Number::of(1))) {
    return scalar_value(constant(value.number.magnitude.low(), 1), type);
  }
  if (value.kind == Value::Kind::integer && type->is_serializable()) {
    return scalar_value(constant(value.number.bits(type->width), type->width), type);
  }
  if (value.kind == Value::Kind::integer && type->is_bits()) {
    return scalar_value(constant(value.number.bits(type->width), type->width), type);
  }
  if (value.kind == Value::Kind::integer && type->is_wide) {
    return wide_value(value.number, type);
  }
  if (type == types_.any_integer && is_constant(value)) {
    return integer_value(number_of(bits_of(value, at), at));
  }
  const Type* from = value.type;
  const bool is_list = value.kind == Value::Kind::list && (from == nullptr || !from->is_wide);
  if (is_list || value.kind == Value::Kind::invalid || from == type || from == nullptr) {
    return coerce(value, type, at);
  }
  const auto is_wide_or_bits = [](const Type* one) { return one->is_wide || (one->is_bits() && !one->is_signed); };
  if ((from->is_wide || type->is_wide) && is_wide_or_bits(from) && is_wide_or_bits(type)) {
    return wide_cast(value, type, at);
  }
  if (from->is_serializable() && (type->is_bits() || type->is_serializable())) {
    return cast(scalar_value(scalar(value, at), from->element), type, at);
  }
  if (type->is_serializable() && from == type->element) {
    return scalar_value(scalar(value, at), type);
  }
  if (type == types_.boolean && from->is_bits() && from->width == 1 && !from->is_signed) {
    return scalar_value(scalar(value, at), type);
  }
  if (from == types_.boolean && type->is_bits() && type->width == 1 && !type->is_signed) {
    return scalar_value(scalar(value, at), type);
  }
  if (from->is_bits() && type->is_bits()) {
    if (from->is_signed != type->is_signed && from->width != type->width) {
      fail(at, "a cast changes the width or the sign, not both: " + text(from) + " to " + text(type));
    }
    return scalar_value(extend(scalar(value, at), from->width, type->width, from->is_signed), type);
  }
  fail(at, "there is no cast from " + text(from) + " to " + text(type));
}

// In storage, so that it can be copied.
Value Lowering::data_of(const Value& value, Location at) {
  if (value.kind == Value::Kind::place && !value.sliced) {
    return value;
  }
  if (value.type == nullptr || !value.type->is_data()) {
    fail(at, "this has no value that can be kept");
  }
  Value place = new_place(value.type);
  const bool outer = std::exchange(is_quiet_, true);
  initialise(place, value, at);
  is_quiet_ = outer;
  return place;
}

}  // namespace sidelatch::p4
