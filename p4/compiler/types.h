// The types of a program.
#pragma once

#include "ast.h"
#include "source.h"

#include <sidelatch/p4/bits.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4 {

struct Type;

struct FieldType {
  std::string name;
  const Type* type = nullptr;
  Location at;
  const ast::Annotations* annotations = nullptr;
};

struct Type {
  enum class Kind : std::uint8_t {
    any_integer,
    bits,
    boolean,
    error,
    enumeration,  // element: the type below, if it has one
    string,
    none,
    structure,
    header,
    header_union,
    stack,
    tuple,
    list,      // list<element>, of what is known when the program is compiled
    varbit,    // one slot for its bits in use, and some for these: each has kWidest bits, the last one fewer
    object,    // extern object, parser, control, package
    variable,  // a type parameter
  };

  Kind kind = Kind::none;
  unsigned width = 0;
  bool is_signed = false;
  std::string name;
  std::vector<FieldType> fields;
  const Type* element = nullptr;
  int count = 0;
  std::vector<std::string> members;
  std::vector<U128> values;  // of members
  const ast::Declaration* declaration = nullptr;
  std::vector<const Type*> arguments;  // of an extern object, or a generic structure
  int slots = 0;
  int parts = 1;         // itself and the types of its parts: what is within may be many without any slots
  bool is_new = false;   // an enumeration without members that `type` has made of its element
  bool is_wide = false;  // a structure that stands for a bit<N> of more than kWidest bits: its parts, the highest first

  [[nodiscard]] bool is_bits() const { return kind == Kind::bits; }
  /// An enumeration whose values are numbers where one is needed.
  [[nodiscard]] bool is_serializable() const { return kind == Kind::enumeration && element != nullptr && !is_new; }
  /// One slot.
  [[nodiscard]] bool is_scalar() const {
    return kind == Kind::bits || kind == Kind::boolean || kind == Kind::error || kind == Kind::enumeration;
  }
  [[nodiscard]] bool has_fields() const {
    return kind == Kind::structure || kind == Kind::header || kind == Kind::header_union;
  }
  /// Kept in slots.
  [[nodiscard]] bool is_data() const {
    return is_scalar() || has_fields() || kind == Kind::stack || kind == Kind::tuple || kind == Kind::varbit;
  }
};

/// Owns the types. Two types are the same if their addresses are.
class Types {
 public:
  Types();
  const Type* bits(unsigned width, bool is_signed);
  const Type* wide(unsigned width);
  const Type* varbit(unsigned width);
  const Type* tuple(const std::vector<const Type*>& elements);
  const Type* stack(const Type* element, int count);
  const Type* list(const Type* element);
  Type* make(Type::Kind kind, std::string name);

  const Type* any_integer;
  const Type* boolean;
  const Type* string;
  const Type* none;
  Type* error;  // gets its members one declaration after the other

 private:
  std::deque<Type> owned_;
  std::map<std::pair<unsigned, bool>, const Type*> bits_;
  std::map<unsigned, const Type*> varbits_;
  std::map<unsigned, const Type*> wide_;
  std::map<std::vector<const Type*>, const Type*> tuples_;
  std::map<std::pair<const Type*, int>, const Type*> stacks_;
  std::map<const Type*, const Type*> lists_;
};

/// A fixed number of bits: a number, a bool, or an enum with a type below.
[[nodiscard]] bool has_bits(const Type* type);

/// As a program would write it.
[[nodiscard]] std::string text(const Type* type);
/// The same of each of them, with commas. A long list is cut: what is within may be many.
[[nodiscard]] std::string list_of(const std::vector<const Type*>& types);

/// How many bits the part of a varbit has in its slot `part`, from 1 on, if all are in use.
[[nodiscard]] unsigned part_width(const Type* varbit, int part);

/// The first slot of field number `field`, from that of its structure on.
[[nodiscard]] int field_offset(const Type* type, std::size_t field);

}  // namespace sidelatch::p4
