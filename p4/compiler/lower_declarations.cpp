#include "lower.h"

#include <sidelatch/p4/compiled.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::p4 {

using ast::DeclarationKind;
using ast::ExprKind;

namespace {

constexpr int kLargestStack = 4096;
constexpr int kMostParts = 100'000;  // of a structure or a tuple, with those of its parts

}  // namespace

Lowering::Lowering(const ast::Program& program) : program_(program) {
  scopes_.emplace_back();
  global_ = scope_ = &scopes_.back();
  // They have fixed numbers, wherever the program includes core.p4.
  types_.error->members.assign(compiled::kCoreErrors.begin(), compiled::kCoreErrors.end());
  undeclared_errors_ = types_.error->members;
}

ir::Program Lowering::run() {
  ir::Block nothing;
  block_ = &nothing;
  for (const ast::DeclarationPtr& declaration : program_.declarations) {
    orders_.emplace(declaration.get(), orders_.size());
    declare(*declaration);
  }
  if (main_ == nullptr) {
    fail({}, "the program has no 'V1Switch(...) main;'");
  }
  in_scope_of(*main_, [&] { package(); });
  find_unassigned(out_, variables_, [this](const ir::Origin& at, const std::string& name) {
    warnings_.push_back({{at.file, at.line, at.column}, "'" + name + "' is read before it has a value"});
  });
  check_unused();
  out_.info.errors = types_.error->members;
  return std::move(out_);
}

const Symbol* Lowering::find(std::string_view name, bool global) const {
  std::size_t sees = std::numeric_limits<std::size_t>::max();
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    sees = std::min(sees, scope->sees);
    if (global && scope != global_) {
      continue;
    }
    const auto found = scope->names.find(name);
    if (found != scope->names.end() && (scope != global_ || found->second.order <= sees)) {
      return &found->second;
    }
  }
  return nullptr;
}

std::string Lowering::not_found(std::string_view name, const std::string& otherwise) const {
  return global_->names.contains(name) ? fmt::format("'{}' is declared below its use: move its declaration up", name)
                                       : otherwise;
}

void Lowering::define(const ast::Declaration& declaration, Symbol symbol) {
  if (scope_ == global_) {
    symbol.order = orders_.size() - 1;
  }
  const auto [known, is_new] = scope_->names.try_emplace(declaration.name, std::move(symbol));
  if (!is_new) {
    if (known->second.kind == Symbol::Kind::object && scope_ == global_ && known->second.object != nullptr &&
        known->second.object->kind == Object::Kind::extern_functions && declaration.kind != DeclarationKind::function) {
      // A control may have the name of an extern function: what is called is the function.
      shadowed_[declaration.name] = known->second.object;
      known->second = std::move(symbol);  // NOLINT(bugprone-use-after-move): try_emplace has not moved it
      return;
    }
    const ast::Declaration* other = known->second.declaration;
    if (declaration.kind == DeclarationKind::function && other != nullptr && other->kind == DeclarationKind::function) {
      std::vector<const ast::Declaration*>& all = overloads_[other];
      const auto same = [&](const ast::Declaration* one) {
        return one->parameters.size() == declaration.parameters.size();
      };
      const auto same_names = [&](const ast::Declaration* one) { return same_parameters(*one, declaration); };
      if (same_names(other) || std::any_of(all.begin(), all.end(), same_names)) {
        fail(declaration.at, "'" + declaration.name + "' is declared twice with these parameters");
      }
      if (same(other) || std::any_of(all.begin(), all.end(), same)) {
        unsupported(declaration.at, fmt::format("two functions with the name '{}' and {} parameters", declaration.name,
                                                declaration.parameters.size()));
      }
      all.push_back(&declaration);
      return;
    }
    fail(declaration.at, "'" + declaration.name + "' is declared twice");
  }
}

Object* Lowering::new_object(Object::Kind kind, const ast::Declaration* declaration) {
  objects_.emplace_back();
  objects_.back().kind = kind;
  objects_.back().declaration = declaration;
  return &objects_.back();
}

void Lowering::declare(const ast::Declaration& declaration) {
  check_signature(declaration);
  Symbol symbol;
  switch (declaration.kind) {
    case DeclarationKind::constant:
      declare_constant(declaration);
      return;
    case DeclarationKind::variable:
      fail(declaration.at, "a variable is declared within a control or a parser");
    case DeclarationKind::match_kind:
      for (const ast::Member& member : declaration.members) {
        if (!match_kinds_.emplace(member.name, true).second) {
          fail(member.at, "the match kind '" + member.name + "' is declared twice");
        }
      }
      return;
    case DeclarationKind::function: {
      if (declaration.body != nullptr) {
        break;
      }
      const auto known = global_->names.find(declaration.name);
      if (known != global_->names.end() && known->second.kind == Symbol::Kind::object) {
        for (const ast::Declaration* other : known->second.object->overloads) {
          if (same_parameters(*other, declaration)) {
            fail(declaration.at, "'" + declaration.name + "' is declared twice with these parameters");
          }
        }
        known->second.object->overloads.push_back(&declaration);
        return;
      }
      symbol.kind = Symbol::Kind::object;
      symbol.object = new_object(Object::Kind::extern_functions, &declaration);
      symbol.object->name = declaration.name;
      symbol.object->overloads.push_back(&declaration);
      define(declaration, symbol);
      return;
    }
    case DeclarationKind::instance:
      if (declaration.name == "main") {
        if (main_ != nullptr) {
          fail(declaration.at, "'main' is declared twice");
        }
        main_ = &declaration;
        symbol.kind = Symbol::Kind::declaration;
        symbol.declaration = &declaration;
        define(declaration, symbol);
        return;
      }
      symbol.kind = Symbol::Kind::object;
      if (const Symbol* type = find(declaration.type->name);
          type != nullptr && type->kind == Symbol::Kind::declaration &&
          type->declaration->kind != DeclarationKind::extern_object) {
        if (type->declaration->kind == DeclarationKind::control || type->declaration->kind == DeclarationKind::parser) {
          fail(declaration.at, "a control or parser has no instances at the top level");
        }
        symbol.kind = Symbol::Kind::declaration;
        symbol.declaration = &declaration;
      } else {
        symbol.object = instantiate(declaration, "");
      }
      define(declaration, symbol);
      return;
    case DeclarationKind::alias:
    case DeclarationKind::new_type:
    case DeclarationKind::enumeration:
    case DeclarationKind::error:
    case DeclarationKind::structure:
    case DeclarationKind::header:
    case DeclarationKind::header_union:
      declare_type(declaration);
      return;
    case DeclarationKind::table:
      fail(declaration.at, "a table is declared within a control");
    default:
      break;
  }
  symbol.kind = Symbol::Kind::declaration;
  symbol.declaration = &declaration;
  define(declaration, symbol);
}

void Lowering::declare_type(const ast::Declaration& declaration) {
  Symbol symbol;
  symbol.kind = Symbol::Kind::type;
  switch (declaration.kind) {
    case DeclarationKind::alias:
      symbol.type = resolve(*declaration.type);
      if (symbol.type == types_.none || symbol.type == types_.string) {
        fail(declaration.at, "a typedef cannot be of " + text(symbol.type));
      }
      if (const ast::Declaration* of = symbol.type->declaration;
          symbol.type->kind == Type::Kind::object && symbol.type->arguments.size() != of->type_parameters.size()) {
        fail(declaration.at, fmt::format("'{}' has {} type parameters", of->name, of->type_parameters.size()));
      }
      break;
    case DeclarationKind::new_type:
      symbol.type = new_type(declaration);
      break;
    case DeclarationKind::enumeration:
      declare_enumeration(declaration);
      return;
    case DeclarationKind::error:
      for (const ast::Member& member : declaration.members) {
        std::vector<std::string>& members = types_.error->members;
        const auto core = std::find(undeclared_errors_.begin(), undeclared_errors_.end(), member.name);
        if (core != undeclared_errors_.end()) {
          undeclared_errors_.erase(core);  // its number is known
        } else if (std::find(members.begin(), members.end(), member.name) != members.end()) {
          fail(member.at, "the error '" + member.name + "' is declared twice");
        } else {
          members.push_back(member.name);
        }
      }
      return;
    default:
      if (!declaration.type_parameters.empty()) {
        symbol.kind = Symbol::Kind::declaration;
        symbol.declaration = &declaration;
      } else {
        symbol.type = declare_structure(declaration);
      }
      break;
  }
  define(declaration, symbol);
}

const Type* Lowering::new_type(const ast::Declaration& declaration) {
  const Type* below = resolve(*declaration.type);
  if (below->is_wide) {
    return below;  // keeps no name of its own
  }
  if (!below->is_bits() && below != types_.boolean && !below->is_new) {
    fail(declaration.at, "a new type is made of bit<N>, int<N> or bool, not of " + text(below));
  }
  Type* type = types_.make(Type::Kind::enumeration, declaration.name);
  type->declaration = &declaration;
  type->element = below;
  type->width = below->width;
  type->is_signed = below->is_signed;
  type->is_new = true;
  return type;
}

void Lowering::declare_constant(const ast::Declaration& declaration) {
  const Type* type = resolve(*declaration.type);
  Symbol symbol;
  symbol.value = coerce(eval(*declaration.value, type), type, declaration.value->at);
  if (!is_constant(symbol.value)) {
    fail(declaration.value->at, "the value of a constant must be known at compile time");
  }
  symbol.base = base_of(*declaration.value);
  define(declaration, symbol);
}

void Lowering::declare_enumeration(const ast::Declaration& declaration) {
  Type* type = types_.make(Type::Kind::enumeration, declaration.name);
  type->declaration = &declaration;
  Symbol symbol;
  symbol.kind = Symbol::Kind::type;
  symbol.type = type;
  define(declaration, symbol);
  if (declaration.type != nullptr) {
    type->element = resolve(*declaration.type);
    if (!type->element->is_bits()) {
      fail(declaration.at, "an enumeration is based on a bit<N> or int<N>");
    }
    type->width = type->element->width;
    type->is_signed = type->element->is_signed;
  }
  in_scope(scope_, [&] { enumeration_members(declaration, *type); });
}

// A member's value may name those before it.
void Lowering::enumeration_members(const ast::Declaration& declaration, Type& made) {
  Type* type = &made;
  for (const ast::Member& member : declaration.members) {
    if (std::find(type->members.begin(), type->members.end(), member.name) != type->members.end()) {
      fail(member.at, "'" + member.name + "' is there twice");
    }
    if ((member.value != nullptr) != (declaration.type != nullptr)) {
      fail(member.at, declaration.type != nullptr ? "this member needs a value" : "this enumeration has no values");
    }
    U128 value = 0;
    if (member.value != nullptr) {
      Value given = eval(*member.value, type->element);
      if (given.type == type) {
        given.type = type->element;  // a member before
      }
      if (given.kind == Value::Kind::integer && !given.number.fits(type->width, type->is_signed)) {
        fail(member.at, text(given.number) + " does not fit " + text(type->element));
      }
      given = coerce(given, type->element, member.at);
      if (!is_constant(given)) {
        fail(member.at, "the value must be known at compile time");
      }
      value = constant_value(given.expr);
    }
    type->members.push_back(member.name);
    type->values.push_back(value);
    if (type->element != nullptr) {
      scope_->names[member.name].value = scalar_value(constant(value, type->width), type);
    }
  }
}

namespace {

// A structure in a header has numbers only. Source: the P4_16 specification, "Type nesting rules".
bool fits_header(const Type* type) {
  return has_bits(type) || (type->kind == Type::Kind::structure &&
                            std::all_of(type->fields.begin(), type->fields.end(),
                                        [](const FieldType& field) { return fits_header(field.type); }));
}

}  // namespace

Type* Lowering::declare_structure(const ast::Declaration& declaration) {
  const Type::Kind kind = declaration.kind == DeclarationKind::structure ? Type::Kind::structure
                          : declaration.kind == DeclarationKind::header  ? Type::Kind::header
                                                                         : Type::Kind::header_union;
  Type* type = types_.make(kind, declaration.name);
  type->declaration = &declaration;
  type->slots = kind == Type::Kind::header ? 1 : 0;
  for (const ast::Field& field : declaration.fields) {
    const Type* of = resolve(*field.type);
    for (const FieldType& other : type->fields) {
      if (other.name == field.name) {
        fail(field.at, "the field '" + field.name + "' is there twice");
      }
    }
    const bool fits = kind == Type::Kind::header_union ? of->kind == Type::Kind::header
                      : kind == Type::Kind::header     ? fits_header(of) || of->kind == Type::Kind::varbit
                                                       : of->is_data();
    if (!fits) {
      fail(field.at, "this cannot have a field of type " + text(of));
    }
    if (of->slots > kMostParts || type->slots > kMostParts || type->parts + of->parts > kMostParts) {
      unsupported(field.at, "a structure this large");
    }
    type->fields.push_back({field.name, of, field.at, &field.annotations});
    type->slots += of->slots;
    type->parts += of->parts;
  }
  return type;
}

// One type for each list of arguments.
void Lowering::bind_types(const ast::Declaration& declaration, const std::vector<const Type*>& types) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::type;
    symbol.type = types[i];
    scope_->names[declaration.type_parameters[i]] = symbol;
  }
}

const Type* Lowering::generic_structure(const ast::Declaration& declaration, const ast::Type& use) {
  if (use.arguments.size() != declaration.type_parameters.size()) {
    fail(use.at, fmt::format("'{}' has {} type parameters", use.name, declaration.type_parameters.size()));
  }
  std::vector<const Type*> arguments;
  arguments.reserve(use.arguments.size());
  for (const ast::TypePtr& argument : use.arguments) {
    arguments.push_back(resolve(*argument));
  }
  const std::pair key{&declaration, arguments};
  if (const auto known = structures_.find(key); known != structures_.end()) {
    return known->second;
  }
  if (std::find(under_way_.begin(), under_way_.end(), &declaration) != under_way_.end()) {
    fail(use.at, "'" + use.name + "' contains itself");
  }
  under_way_.push_back(&declaration);
  in_scope(global_, [&] {
    bind_types(declaration, arguments);
    Type* made = declare_structure(declaration);
    under_way_.pop_back();
    // For messages only; the arguments tell one type from another. Of types within types it would grow with each.
    constexpr std::size_t kLongestName = 1000;
    const std::string list = list_of(arguments);
    made->name = fmt::format("{}<{}>", declaration.name, list.size() > kLongestName ? "..." : list);
    made->arguments = arguments;
    structures_[key] = made;
  });
  return structures_.at(key);
}

const Type* Lowering::varbit(const ast::Type& type) {
  if (type.width == nullptr) {
    fail(type.at, "varbit needs its largest width: varbit<N>");
  }
  const Number width = constant_number(*type.width);
  if (width.negative || width.magnitude == 0 || width.magnitude > kLargestVarbit) {
    unsupported(type.at, fmt::format("a varbit of {} bits; from 1 to {}", text(width), kLargestVarbit));
  }
  return types_.varbit(static_cast<unsigned>(width.magnitude.low()));
}

const Type* Lowering::resolve(const ast::Type& type) {
  switch (type.kind) {
    case ast::TypeKind::bits:
    case ast::TypeKind::integer: {
      const bool is_signed = type.kind == ast::TypeKind::integer;
      if (type.width == nullptr) {
        return types_.bits(1, false);
      }
      const Number width = constant_number(*type.width);
      if (width.negative || width.magnitude == 0) {
        width.negative ? fail(type.at, "a width cannot be negative") : unsupported(type.at, "a width of 0");
      }
      const unsigned widest = is_signed ? kWidest : kLargestVarbit;
      if (width.magnitude > widest) {
        unsupported(type.at, fmt::format("a width of {} bits; at most {}", text(width), widest));
      }
      if (width.magnitude > kWidest) {
        return types_.wide(static_cast<unsigned>(width.magnitude.low()));
      }
      return types_.bits(static_cast<unsigned>(width.magnitude.low()), is_signed);
    }
    case ast::TypeKind::varbit:
      return varbit(type);
    case ast::TypeKind::boolean:
      return types_.boolean;
    case ast::TypeKind::error:
      return types_.error;
    case ast::TypeKind::string:
      return types_.string;
    case ast::TypeKind::any_integer:
      return types_.any_integer;
    case ast::TypeKind::none:
      return types_.none;
    case ast::TypeKind::any:
      unsupported(type.at, "the type _");
    case ast::TypeKind::tuple: {
      std::vector<const Type*> elements;
      int slots = 0;
      int parts = 1;
      for (const ast::TypePtr& element : type.arguments) {
        elements.push_back(resolve(*element));
        // Before the next one, so that no sum is beyond what an int holds.
        slots += elements.back()->slots;
        parts += elements.back()->parts;
        if (slots > kMostParts || parts > kMostParts) {
          unsupported(element->at, "a tuple this large");
        }
        if (!elements.back()->is_data()) {
          fail(element->at, "a tuple cannot have an element of type " + text(elements.back()));
        }
      }
      return types_.tuple(elements);
    }
    case ast::TypeKind::stack: {
      const Type* element = resolve(*type.arguments[0]);
      if (element->kind != Type::Kind::header && element->kind != Type::Kind::header_union) {
        unsupported(type.at, "an array of " + text(element));
      }
      const Number count = constant_number(*type.width);
      if (count.negative || count.magnitude == 0) {
        fail(type.at, "a stack has at least one element");
      }
      if (count.magnitude > kLargestStack) {
        unsupported(type.at, fmt::format("a stack of more than {} elements", kLargestStack));
      }
      return types_.stack(element, static_cast<int>(count.magnitude.low()));
    }
    case ast::TypeKind::name:
      break;
  }
  const Symbol* symbol = find(type.name, type.global);
  if (symbol == nullptr || (symbol->kind != Symbol::Kind::type && symbol->kind != Symbol::Kind::declaration)) {
    if (symbol == nullptr && type.name == "list") {
      if (type.arguments.size() != 1) {
        fail(type.at, "list<T> has one type");
      }
      return types_.list(resolve(*type.arguments[0]));
    }
    fail(type.at, symbol == nullptr ? not_found(type.name, "there is no type '" + type.name + "'")
                                    : "'" + type.name + "' is no type");
  }
  if (symbol->kind == Symbol::Kind::type) {
    if (!type.arguments.empty()) {
      fail(type.at, "'" + type.name + "' has no type parameters");
    }
    return symbol->type;
  }
  const ast::Declaration& declaration = *symbol->declaration;
  if (declaration.kind == DeclarationKind::structure || declaration.kind == DeclarationKind::header ||
      declaration.kind == DeclarationKind::header_union) {
    return generic_structure(declaration, type);
  }
  Type* made = types_.make(Type::Kind::object, declaration.name);
  made->declaration = &declaration;
  // Without any, what is made of it may say which they are.
  if (!type.arguments.empty() && type.arguments.size() != declaration.type_parameters.size()) {
    fail(type.at, fmt::format("'{}' has {} type parameters", type.name, declaration.type_parameters.size()));
  }
  for (const ast::TypePtr& argument : type.arguments) {
    made->arguments.push_back(resolve(*argument));
  }
  return made;
}

}  // namespace sidelatch::p4
