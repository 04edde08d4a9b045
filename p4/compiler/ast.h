// The syntax tree of a program, as the parser reads it. Names are not resolved yet.
#pragma once

#include "number.h"
#include "source.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4::ast {

struct Expr;
struct Type;
struct Statement;
struct Declaration;
using ExprPtr = std::shared_ptr<Expr>;
using TypePtr = std::shared_ptr<Type>;
using StatementPtr = std::shared_ptr<Statement>;
using DeclarationPtr = std::shared_ptr<Declaration>;

enum class TypeKind : std::uint8_t {
  bits,     // bit<width>
  integer,  // int<width>
  varbit,
  boolean,
  error,
  string,
  any_integer,  // int
  none,         // void
  name,
  tuple,
  stack,  // arguments[0][width]
  any,    // _
};

struct Type {
  Location at;
  TypeKind kind = TypeKind::none;
  std::string name;  // of TypeKind::name
  ExprPtr width;
  std::vector<TypePtr> arguments;
  bool global = false;  // .name
};

enum class ExprKind : std::uint8_t {
  number,
  boolean,
  string,
  name,
  member,  // operands[0].text
  index,
  slice,  // operands[0][operands[1]:operands[2]], or text "+": [LOW +: WIDTH]
  unary,
  binary,  // text: the operator
  conditional,
  cast,
  call,      // operands[0](the others), named by names
  list,      // text ", ...": what is left out has its default value; "...": the default value itself, without braces
  fields,    // {names[i] = operands[i]}; text as of a list
  type,      // the name of a type before a '.'
  any,       // _
  fallback,  // default
  mask,      // a &&& b
  range,     // a .. b
  invalid,   // {#}
};

struct Expr {
  Location at;
  ExprKind kind = ExprKind::any;
  std::string text;
  Literal literal;
  bool global = false;
  TypePtr type;  // of a cast, of ExprKind::type
  std::vector<ExprPtr> operands;
  std::vector<std::string> names;       // of arguments or fields; empty: by position
  std::vector<TypePtr> type_arguments;  // of a call
};

struct Annotation {
  Location at;
  std::string name;
  bool is_structured = false;  // @NAME[...]
  std::vector<ExprPtr> arguments;
};
using Annotations = std::vector<Annotation>;

enum class Direction : std::uint8_t { none, in, out, inout };

struct Parameter {
  Location at;
  Annotations annotations;
  Direction direction = Direction::none;
  TypePtr type;
  std::string name;
  ExprPtr otherwise;
};

enum class StatementKind : std::uint8_t {
  block,
  assign,
  call,
  conditional,
  choose,
  loop,   // for (first; left; steps) body[0], or for (declaration in right) body[0]
  stop,   // break
  again,  // continue
  give_back,
  leave,
  empty,
  declare,
};

struct SwitchCase {
  Location at;
  ExprPtr label;      // null: default
  StatementPtr body;  // null: falls through to the next case
};

struct Statement {
  Location at;
  StatementKind kind = StatementKind::empty;
  Annotations annotations;
  std::vector<StatementPtr> body;  // of a block; the branches of a conditional
  ExprPtr left;                    // target, call, condition, what is switched on, value to return
  ExprPtr right;
  std::string text;  // of an assignment with an operator: the operator
  std::vector<SwitchCase> cases;
  DeclarationPtr declaration;
  std::vector<StatementPtr> first;  // of a loop
  std::vector<StatementPtr> steps;
};

enum class DeclarationKind : std::uint8_t {
  constant,
  variable,
  alias,     // typedef
  new_type,  // type
  enumeration,
  error,
  match_kind,
  structure,
  header,
  header_union,
  extern_object,
  function,  // body null: extern
  action,
  table,
  control,
  parser,
  instance,
  value_set,  // of `type`; arguments[0]: its size
  package,
};

struct Field {
  Location at;
  Annotations annotations;
  TypePtr type;
  std::string name;
};

struct Member {  // of an enumeration
  Location at;
  std::string name;
  ExprPtr value;
};

struct SelectCase {
  Location at;
  std::vector<ExprPtr> keys;
  std::string next;
};

struct State {
  Location at;
  Annotations annotations;
  std::string name;
  std::vector<StatementPtr> body;
  std::vector<ExprPtr> select;  // empty: goes to `next`
  std::vector<SelectCase> cases;
  std::string next;  // empty with no select: reject
  Location next_at;
};

struct KeyElement {
  Location at;
  ExprPtr value;
  std::string kind;
  Annotations annotations;
};

struct ActionReference {
  Location at;
  Annotations annotations;
  ExprPtr call;  // a name, or a call
};

struct TableEntry {
  Location at;
  std::vector<ExprPtr> keys;
  ExprPtr action;
  ExprPtr priority;
  Annotations annotations;
  bool is_constant = false;
};

struct Table {
  std::vector<KeyElement> keys;
  std::vector<ActionReference> actions;
  bool has_actions = false;
  std::vector<TableEntry> entries;
  bool has_entries = false;
  bool constant_entries = false;
  ExprPtr default_action;
  bool constant_default = false;
  ExprPtr size;
  std::vector<std::pair<std::string, ExprPtr>> properties;  // the others
  std::vector<Location> property_places;
};

struct Declaration {
  Location at;  // of its name
  DeclarationKind kind = DeclarationKind::constant;
  Annotations annotations;
  std::string name;
  std::vector<std::string> type_parameters;
  TypePtr type;   // of a constant, variable, alias, instance; returned by a function; below an enumeration
  ExprPtr value;  // of a constant or variable
  std::vector<Field> fields;
  std::vector<Member> members;
  std::vector<Parameter> parameters;
  std::vector<Parameter> constructor_parameters;
  std::vector<ExprPtr> arguments;  // of an instance
  std::vector<std::string> argument_names;
  std::vector<DeclarationPtr> locals;  // of a control, parser; methods of an extern object
  std::vector<State> states;
  StatementPtr body;
  std::shared_ptr<Table> table;
  bool is_abstract = false;  // a method that each instance would define
};

/// Of two functions with one name: whether the number and the names of their parameters are the same, too.
inline bool same_parameters(const Declaration& one, const Declaration& other) {
  return std::ranges::equal(one.parameters, other.parameters, {}, &Parameter::name, &Parameter::name);
}

struct Program {
  std::vector<DeclarationPtr> declarations;
};

}  // namespace sidelatch::p4::ast
