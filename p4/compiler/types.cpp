#include "types.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::p4 {

// Plain enumerations and errors are as wide as this. (The reference switch does the same.)
static constexpr unsigned kEnumerationWidth = 32;

Types::Types() {
  any_integer = make(Type::Kind::any_integer, "int");
  Type* boolean_type = make(Type::Kind::boolean, "bool");
  boolean_type->width = 1;
  boolean_type->slots = 1;
  boolean = boolean_type;
  string = make(Type::Kind::string, "string");
  none = make(Type::Kind::none, "void");
  error = make(Type::Kind::error, "error");
  error->width = kEnumerationWidth;
  error->slots = 1;
}

Type* Types::make(Type::Kind kind, std::string name) {
  owned_.emplace_back();
  Type& type = owned_.back();
  type.kind = kind;
  type.name = std::move(name);
  if (kind == Type::Kind::enumeration) {
    type.width = kEnumerationWidth;
    type.slots = 1;
  }
  return &type;
}

const Type* Types::bits(unsigned width, bool is_signed) {
  const Type*& known = bits_[{width, is_signed}];
  if (known == nullptr) {
    Type* type = make(Type::Kind::bits, {});
    type->width = width;
    type->is_signed = is_signed;
    type->slots = 1;
    known = type;
  }
  return known;
}

const Type* Types::wide(unsigned width) {
  const Type*& known = wide_[width];
  if (known == nullptr) {
    Type* type = make(Type::Kind::structure, fmt::format("bit<{}>", width));
    type->width = width;
    type->is_wide = true;
    for (unsigned left = width; left > 0; left = (left - 1) / kWidest * kWidest) {
      type->fields.push_back({{}, bits((left - 1) % kWidest + 1, false), {}, nullptr});
      ++type->slots;
    }
    known = type;
  }
  return known;
}

const Type* Types::varbit(unsigned width) {
  const Type*& known = varbits_[width];
  if (known == nullptr) {
    Type* type = make(Type::Kind::varbit, {});
    type->width = width;
    type->slots = 1 + static_cast<int>((width + kWidest - 1) / kWidest);
    known = type;
  }
  return known;
}

unsigned part_width(const Type* varbit, int part) {
  return std::min(kWidest, varbit->width - static_cast<unsigned>(part - 1) * kWidest);
}

const Type* Types::tuple(const std::vector<const Type*>& elements) {
  const Type*& known = tuples_[elements];
  if (known == nullptr) {
    Type* type = make(Type::Kind::tuple, "tuple");
    for (const Type* element : elements) {
      type->fields.push_back({fmt::format("{}", type->fields.size()), element, {}, nullptr});
      type->slots += element->slots;
      type->parts += element->parts;
    }
    known = type;
  }
  return known;
}

const Type* Types::stack(const Type* element, int count) {
  const Type*& known = stacks_[{element, count}];
  if (known == nullptr) {
    Type* type = make(Type::Kind::stack, {});
    type->element = element;
    type->count = count;
    type->slots = 1 + element->slots * count;
    known = type;
  }
  return known;
}

const Type* Types::list(const Type* element) {
  const Type*& known = lists_[element];
  if (known == nullptr) {
    Type* type = make(Type::Kind::list, {});
    type->element = element;
    known = type;
  }
  return known;
}

bool has_bits(const Type* type) {
  return type->is_bits() || type->kind == Type::Kind::boolean ||
         (type->kind == Type::Kind::enumeration && type->element != nullptr);
}

std::string list_of(const std::vector<const Type*>& types) {
  constexpr std::size_t kLongest = 200;
  std::string list;
  for (const Type* type : types) {
    if (list.size() > kLongest) {
      return list + ", ...";
    }
    list += (list.empty() ? "" : ", ") + text(type);
  }
  return list;
}

std::string text(const Type* type) {
  if (type == nullptr) {
    return "an unknown type";
  }
  switch (type->kind) {
    case Type::Kind::bits:
      return fmt::format("{}<{}>", type->is_signed ? "int" : "bit", type->width);
    case Type::Kind::varbit:
      return fmt::format("varbit<{}>", type->width);
    case Type::Kind::stack:
      return fmt::format("{}[{}]", text(type->element), type->count);
    case Type::Kind::list:
      return fmt::format("list<{}>", text(type->element));
    case Type::Kind::tuple: {
      std::vector<const Type*> elements;
      elements.reserve(type->fields.size());
      for (const FieldType& field : type->fields) {
        elements.push_back(field.type);
      }
      return "tuple<" + list_of(elements) + ">";
    }
    default:
      return type->name;
  }
}

int field_offset(const Type* type, std::size_t field) {
  int offset = type->kind == Type::Kind::header ? 1 : 0;
  for (std::size_t i = 0; i < field; ++i) {
    offset += type->fields[i].type->slots;
  }
  return offset;
}

}  // namespace sidelatch::p4
