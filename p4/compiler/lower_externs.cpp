// The functions and objects of core.p4 and v1model.p4.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

namespace sidelatch::p4 {

namespace {

// A program may bring a v1model.p4 of its own, or overloads.
struct ParameterCount {
  std::string_view name;  // METHOD or OBJECT.METHOD
  std::size_t least;
  std::size_t most = least;
};
constexpr std::array<ParameterCount, 24> kParameterCounts{{{"verify", 2},
                                                           {"mark_to_drop", 1},
                                                           {"hash", 5},
                                                           {"verify_checksum", 4},
                                                           {"update_checksum", 4},
                                                           {"verify_checksum_with_payload", 4},
                                                           {"update_checksum_with_payload", 4},
                                                           {"random", 3},
                                                           {"clone", 2},
                                                           {"clone_preserving_field_list", 3},
                                                           {"resubmit_preserving_field_list", 1},
                                                           {"recirculate_preserving_field_list", 1},
                                                           {"truncate", 1},
                                                           {"digest", 2},
                                                           {"assert", 1},
                                                           {"assume", 1},
                                                           {"static_assert", 1, 2},
                                                           {"log_msg", 1, 2},
                                                           {"register.read", 2},
                                                           {"register.write", 2},
                                                           {"counter.count", 1},
                                                           {"meter.execute_meter", 2},
                                                           {"direct_meter.read", 1},
                                                           {"Checksum16.get", 1}}};

bool is_known_form(std::string_view name, const ast::Declaration& declaration) {
  const auto known = std::ranges::find(kParameterCounts, name, &ParameterCount::name);
  const std::size_t count = declaration.parameters.size();
  return known == kParameterCounts.end() || (count >= known->least && count <= known->most);
}

}  // namespace

using ast::ExprKind;

namespace {

constexpr unsigned kMostHashedBits = 32'768;  // as the interpreter's buffer

enum Algorithm : std::uint8_t { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 };

}  // namespace

int Lowering::algorithm(const ast::Expr& expr) {
  const Value value = eval(expr);
  if (value.type == nullptr || value.type->name != "HashAlgorithm" || !is_constant(value)) {
    fail(expr.at, "expected a member of HashAlgorithm");
  }
  const auto number = static_cast<int>(constant_value(value.expr));
  if (number == random) {
    unsupported(expr.at, "HashAlgorithm." + value.type->members[static_cast<std::size_t>(number)]);
  }
  // The reference switch begins with the usual polynomials in the custom ones, and a program cannot set others.
  return number == crc32_custom ? crc32 : number == crc16_custom ? crc16 : number;
}

// Whether the header is valid that the value is a field of; -1: it is no field of a header.
int Lowering::validity(const Value& value, Flat& flat) {
  if (!value.in_header) {
    return -1;
  }
  for (const auto& [place, expr] : flat.headers) {
    if (place.slot == value.header.slot && place.index == value.header.index) {
      return expr;
    }
  }
  flat.headers.emplace_back(value.header, load(value.header, 1));
  return flat.headers.back().second;
}

void Lowering::flatten_place(const Value& value, Flat& flat, Location at) {
  const Type* type = value.type;
  if (type->kind == Type::Kind::stack || type->kind == Type::Kind::header_union) {
    unsupported(at, "a stack or a header union as data");
  }
  for (std::size_t i = 0; i < type->fields.size(); ++i) {
    flatten(field_of(value, i), flat, at);
  }
}

// Each part with the number of its bits that are in use.
void Lowering::flatten_varbit(const Value& value, Flat& flat) {
  const int used = load(value.place, 32);
  const auto number = [this](unsigned n) { return constant(n, 32); };
  for (int part = 1; part < value.type->slots; ++part) {
    const unsigned width = part_width(value.type, part);
    const unsigned before = static_cast<unsigned>(part - 1) * kWidest;
    const int more = node(ir::Op::subtract_saturating, 32, used, number(before));
    const int is_full = node(ir::Op::less_equal, 1, number(width), more, -1, false, 32);
    flat.exprs.push_back(load(moved(value.place, part), width));
    flat.valid.push_back(validity(value, flat));
    flat.sizes.push_back(node(ir::Op::conditional, 32, is_full, number(width), more));
    flat.bits += width;
  }
}

// Appends the scalars of a value, in order.
void Lowering::flatten(const Value& value, Flat& flat, Location at) {
  if (value.kind == Value::Kind::list) {
    for (const Value& item : value.items) {
      flatten(item, flat, at);
    }
  } else if (value.kind == Value::Kind::place && value.type->kind == Type::Kind::varbit) {
    flatten_varbit(value, flat);
  } else if (value.kind == Value::Kind::place && !value.type->is_scalar()) {
    flatten_place(value, flat, at);
  } else {
    const int made = scalar(value, at);
    flat.exprs.push_back(made);
    flat.valid.push_back(validity(value, flat));
    flat.sizes.push_back(-1);
    flat.bits += width_of(made);
  }
  if (flat.bits > kMostHashedBits) {
    unsupported(at, fmt::format("data of more than {} bits", kMostHashedBits));
  }
}

int Lowering::field_list(const ast::Expr& expr) {
  const Type* byte = types_.bits(8, false);
  const Value value = coerce(eval(expr, byte), byte, expr.at);
  if (!is_constant(value)) {
    fail(expr.at, "a field list is a constant of compile time");
  }
  return static_cast<int>(constant_value(value.expr));
}

// Of a generic extern, the type of a parameter as the call writes it: NAME<TYPE>(...). Null: it does not, or says `_`.
const Type* Lowering::written_type(const ast::Declaration& function, const ast::Expr& call, std::size_t parameter) {
  const ast::Type& type = *function.parameters[parameter].type;
  for (std::size_t i = 0; i < function.type_parameters.size() && i < call.type_arguments.size(); ++i) {
    if (type.kind == ast::TypeKind::name && type.name == function.type_parameters[i] &&
        call.type_arguments[i]->kind != ast::TypeKind::any) {
      return resolve(*call.type_arguments[i]);
    }
  }
  return nullptr;
}

void Lowering::hash(const std::vector<const ast::Expr*>& arguments, const Type* data, Location at) {
  const Value target = place_of(*arguments[0]);
  const int which = algorithm(*arguments[1]);
  if (!target.type->is_bits()) {
    fail(arguments[0]->at, "the result of a hash is a bit<N>");
  }
  // In their order: what is read early is kept if a later argument may change it.
  const std::vector<Value> values = eval_all({arguments[2], arguments[3], arguments[4]}, {nullptr, data});
  const auto number = [&](Value value, const ast::Expr& expr) {
    if (value.kind == Value::Kind::integer) {
      if (value.number.magnitude.bits() > kWidest) {
        unsupported(expr.at, fmt::format("a number of more than {} bits in a hash", kWidest));
      }
      value = scalar_value(constant(value.number.bits(kWidest), kWidest), types_.bits(kWidest, false));
    }
    if (value.type == nullptr || !value.type->is_bits()) {
      fail(expr.at, "expected a bit<N>");
    }
    return scalar(value, expr.at);
  };
  Flat flat;
  flat.exprs = {number(values[0], *arguments[2]), number(values[2], *arguments[4])};
  flatten(coerce(values[1], data, arguments[3]->at), flat, arguments[3]->at);
  const Value result = new_place(target.type);
  ir::Statement& made = add(ir::Do::hash, at);
  made.to = result.place;
  made.count = static_cast<int>(target.type->width);
  made.which = which;
  made.exprs = std::move(flat.exprs);
  made.valid = std::move(flat.valid);
  made.sizes = std::move(flat.sizes);
  store(target, result, at);
}

// Checksum16.get(), which v1model keeps for old programs: the sum as a value.
Value Lowering::checksum16(const ast::Expr& argument, const Type* written) {
  const Type* type = types_.bits(16, false);
  const Value data = coerce(eval(argument, written), written, argument.at);
  Flat flat;
  flat.exprs = {constant(0, 16), constant(U128{1} << 16, 32)};  // base and size of the range
  flatten(data, flat, argument.at);
  const Value result = new_place(type);
  ir::Statement& made = add(ir::Do::hash, argument.at);
  made.to = result.place;
  made.count = 16;
  made.which = csum16;
  made.exprs = std::move(flat.exprs);
  made.valid = std::move(flat.valid);
  made.sizes = std::move(flat.sizes);
  Value value = result;
  value.writable = false;
  return value;
}

void Lowering::checksum(const std::string& name, const std::vector<const ast::Expr*>& arguments, const Type* data,
                        Location at) {
  const bool verifies = name.starts_with("verify");
  const bool payload = name.ends_with("with_payload");
  if (stage_ != (verifies ? Stage::verify : Stage::compute) && stage_ != Stage::unknown) {
    fail(at, name + (verifies ? " is called in VerifyChecksum" : " is called in ComputeChecksum"));
  }
  int condition = boolean(*arguments[0]);
  const int which = algorithm(*arguments[3]);
  if (which == identity || which == xor16) {
    unsupported(arguments[3]->at, "this algorithm as a checksum");
  }
  const Value target = verifies ? eval(*arguments[2]) : place_of(*arguments[2]);
  if (target.type == nullptr || !target.type->is_bits() || target.type->width != (which == crc32 ? 32U : 16U)) {
    unsupported(arguments[2]->at, "a checksum that is not a bit<16>, or of crc32 a bit<32>, but " + text(target.type));
  }
  Flat flat;
  if (verifies && target.in_header) {  // as the reference switch: no header, no wrong checksum
    condition = conjunction(condition, validity(target, flat));
  }
  flat.exprs = {condition};
  if (verifies) {
    flat.exprs.push_back(scalar(target, at));
  }
  flatten(coerce(eval(*arguments[1], data), data, arguments[1]->at), flat, arguments[1]->at);
  const Value result = verifies ? Value{} : new_place(target.type);
  if (!verifies) {
    store_scalar(result, scalar(target, at), at);
    block_->back().which = 1;
  }
  ir::Statement& made = add(verifies ? ir::Do::verify_checksum : ir::Do::update_checksum, at);
  made.to = result.place;
  made.which = which;
  made.count = static_cast<int>(payload);
  made.exprs = std::move(flat.exprs);
  made.valid = std::move(flat.valid);
  made.sizes = std::move(flat.sizes);
  if (!verifies) {
    store(target, result, at);
  }
}

void Lowering::only_in(bool allowed, const std::string& name, const std::string& where, Location at) const {
  if (!allowed && stage_ != Stage::unknown) {
    fail(at, name + " is for " + where);
  }
}

void Lowering::clone(const std::string& name, const ast::Expr& kind, const ast::Expr& session, int list, Location at) {
  const Value type = eval(kind);
  if (type.type == nullptr || type.type->name != "CloneType" || !is_constant(type)) {
    fail(kind.at, "expected CloneType.I2E or CloneType.E2E");
  }
  const bool to_egress = constant_value(type.expr) == 0;
  only_in(stage_ == (to_egress ? Stage::ingress : Stage::egress), name,
          to_egress ? "Ingress with CloneType.I2E" : "Egress with CloneType.E2E", at);
  const Type* number = types_.bits(32, false);
  const int chosen = scalar(coerce(eval(session, number), number, session.at), session.at);
  ir::Statement& made = add(ir::Do::clone, at);
  made.expr = chosen;
  made.count = list;
}

void Lowering::send_again(const std::string& name, int list, Location at) {
  const bool again = name.starts_with("resubmit");
  only_in(stage_ == (again ? Stage::ingress : Stage::egress), name, again ? "Ingress" : "Egress", at);
  add(again ? ir::Do::resubmit : ir::Do::recirculate, at).count = list;
}

void Lowering::mark_to_drop(const Value& meta, Location at) {
  for (std::size_t i = 0; i < meta.type->fields.size(); ++i) {
    const FieldType& field = meta.type->fields[i];
    if (field.name == "egress_spec" || field.name == "mcast_grp") {
      ir::Statement& assign = add(ir::Do::assign, at);
      assign.to = moved(meta.place, field_offset(meta.type, i));
      assign.expr = constant(field.name == "egress_spec" ? 511 : 0, field.type->width);
    }
  }
}

// FUNCTION<TYPES>(ARGUMENTS): each argument whose type is one of them has this type.
void Lowering::check_type_arguments(const ast::Declaration& function, const ast::Expr& expr) {
  if (expr.type_arguments.empty()) {
    return;
  }
  if (expr.type_arguments.size() != function.type_parameters.size()) {
    fail(expr.at, fmt::format("'{}' has {} type parameters", function.name, function.type_parameters.size()));
  }
  const std::vector<const ast::Expr*> arguments = arguments_of(expr, function.parameters);
  // For their types alone: what they do comes with the call.
  static_cast<void>(collect([&] {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (const Type* type = written_type(function, expr, i)) {
        static_cast<void>(coerce(eval(*arguments[i], type), type, arguments[i]->at));
      }
    }
  }));
}

Value Lowering::extern_call(const Object& function, const ast::Expr& expr) {
  const ast::Declaration* chosen = nullptr;
  for (const ast::Declaration* one : function.overloads) {
    if (one->parameters.size() + 1 == expr.operands.size()) {
      chosen = one;
    }
  }
  if (function.name == "mark_to_drop" && expr.operands.size() == 1) {
    old_extern(function.name, {}, expr.at);
    return {};
  }
  if (chosen == nullptr) {
    fail(expr.at, fmt::format("there is no function '{}' with {} parameters", function.name, expr.operands.size() - 1));
  }
  const std::string& name = function.name;
  if (!is_known_form(name, *chosen)) {
    unsupported(expr.at,
                fmt::format("{}() with {} parameters, which v1model's has not", name, chosen->parameters.size()));
  }
  check_type_arguments(*chosen, expr);
  const std::vector<const ast::Expr*> arguments = arguments_of(expr, chosen->parameters);
  const auto number = [&](std::size_t which, unsigned width) {
    const Type* type = types_.bits(width, false);
    return scalar(coerce(eval(*arguments[which], type), type, arguments[which]->at), arguments[which]->at);
  };
  const bool pipeline = stage_ == Stage::ingress || stage_ == Stage::egress;
  if (name == "verify") {
    only_in(stage_ == Stage::parser, name, "parsers", expr.at);
    const int condition = boolean(*arguments[0]);
    const Value error = coerce(eval(*arguments[1]), types_.error, arguments[1]->at);
    ir::Block reject = collect([&] { add(ir::Do::reject, expr.at).expr = scalar(error, expr.at); });
    ir::Statement& branch = add(ir::Do::branch, expr.at);
    branch.expr = condition;
    branch.no = std::move(reject);
  } else if (name == "mark_to_drop") {
    only_in(pipeline, name, "Ingress and Egress", expr.at);
    const Value meta = place_of(*arguments[0]);
    if (meta.type->name != "standard_metadata_t") {
      fail(arguments[0]->at, "expected the standard metadata");
    }
    mark_to_drop(meta, expr.at);
  } else if (name == "hash") {
    only_in(stage_ != Stage::parser, name, "controls", expr.at);
    hash(arguments, written_type(*chosen, expr, 3), expr.at);
  } else if (name.starts_with("verify_checksum") || name.starts_with("update_checksum")) {
    checksum(name, arguments, written_type(*chosen, expr, 1), expr.at);
  } else if (name == "random") {
    const Value target = place_of(*arguments[0]);
    // v1model draws a bit<N>, and the switch compares the bounds as such.
    if (!target.type->is_bits() || target.type->is_signed || target.type->width > 64) {
      unsupported(arguments[0]->at, "a random number of type " + text(target.type));
    }
    const std::vector<Value> bounds = eval_all({arguments[1], arguments[2]}, {target.type, target.type});
    const int low = scalar(coerce(bounds[0], target.type, arguments[1]->at), expr.at);
    const int high = scalar(coerce(bounds[1], target.type, arguments[2]->at), expr.at);
    const Value result = new_place(target.type);
    ir::Statement& made = add(ir::Do::random, expr.at);
    made.to = result.place;
    made.exprs = {low, high};
    made.count = static_cast<int>(target.type->width);
    store(target, result, expr.at);
  } else if (name == "clone" || name == "clone_preserving_field_list") {
    clone(name, *arguments[0], *arguments[1], arguments.size() > 2 ? field_list(*arguments[2]) : -1, expr.at);
  } else if (name == "resubmit_preserving_field_list" || name == "recirculate_preserving_field_list") {
    send_again(name, field_list(*arguments[0]), expr.at);
  } else if (is_old_extern(name)) {
    old_extern(name, arguments, expr.at);
  } else if (name == "truncate") {
    only_in(pipeline, name, "Ingress and Egress", expr.at);
    const int bytes = number(0, 32);
    add(ir::Do::truncate, expr.at).expr = bytes;
  } else if (name == "digest") {
    only_in(stage_ == Stage::ingress, name, "Ingress", expr.at);
    static_cast<void>(number(0, 32));
    const Type* data = written_type(*chosen, expr, 1);
    Flat flat;
    flatten(coerce(eval(*arguments[1], data), data, arguments[1]->at), flat, arguments[1]->at);
    add(ir::Do::digest, expr.at).exprs = std::move(flat.exprs);
  } else if (name == "assert" || name == "assume") {
    const int condition = boolean(*arguments[0]);
    add(ir::Do::assertion, expr.at).expr = condition;
  } else if (name == "static_assert") {
    Value condition = eval(*arguments[0]);
    if (condition.type != types_.boolean || !is_constant(condition)) {
      fail(arguments[0]->at, "static_assert needs a bool that is known at compile time");
    }
    const Value message = arguments.size() > 1 ? eval(*arguments[1]) : Value{};
    if (arguments.size() > 1 && message.kind != Value::Kind::string) {
      fail(arguments[1]->at, "the message of static_assert is a string");
    }
    if (constant_value(condition.expr) == 0) {
      fail(expr.at, "static_assert: " + (message.text.empty() ? "the condition does not hold" : message.text));
    }
    return condition;
  } else if (name == "log_msg") {
    if (eval(*arguments[0]).kind != Value::Kind::string) {
      fail(arguments[0]->at, "log_msg needs a string");
    }
    // Evaluated for what it does, and not written anywhere.
    const std::function<bool(const Value&)> is_data = [&](const Value& value) {
      return value.kind == Value::Kind::list ? std::ranges::all_of(value.items, is_data)
                                             : value.type != nullptr && value.kind != Value::Kind::object;
    };
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      if (!is_data(eval(*arguments[i]))) {
        fail(arguments[i]->at, "this has no value that could be written");
      }
    }
  } else {
    unsupported(expr.at, "the extern function '" + name + "'");
  }
  return {};
}

Value Lowering::extern_method(const Object& object, const std::string& method, const ast::Expr& expr) {
  const ast::Declaration* chosen = nullptr;
  for (const ast::DeclarationPtr& one : object.type->declaration->locals) {
    if (one->name == method && one->parameters.size() + 1 == expr.operands.size()) {
      chosen = one.get();
    }
  }
  const std::string& kind = object.type->name;
  if (chosen == nullptr || method == kind) {
    fail(expr.at, fmt::format("{} has no method '{}' with {} parameters", kind, method, expr.operands.size() - 1));
  }
  if (stage_ == Stage::parser) {
    unsupported(expr.at, kind + " in a parser");
  }
  if (!is_known_form(kind + "." + method, *chosen)) {
    unsupported(expr.at, fmt::format("{}.{}() with {} parameters, which v1model's has not", kind, method,
                                     chosen->parameters.size()));
  }
  check_type_arguments(*chosen, expr);
  const std::vector<const ast::Expr*> arguments = arguments_of(expr, chosen->parameters);
  const auto index_type = [&]() -> const Type* {
    const bool given =
        kind == "register" ? object.type->arguments.size() > 1 : kind != "register" && !object.type->arguments.empty();
    return given ? object.type->arguments.back() : types_.bits(32, false);
  };
  const auto index_of = [&](const ast::Expr& argument) {
    const Type* type = index_type();
    if (!type->is_bits() || type->is_signed) {
      unsupported(argument.at, "an index of type " + text(type));
    }
    return keep(coerce(eval(argument, type), type, argument.at), argument.at).expr;
  };
  if (kind == "register") {
    const Type* element = object.type->arguments.at(0);
    if (method == "read") {
      const Value target = place_of(*arguments[0]);
      if (target.type != element) {
        fail(arguments[0]->at, "the register holds " + text(element) + ", not " + text(target.type));
      }
      const int index = index_of(*arguments[1]);
      // Beyond the end the target stays as it is: v1model leaves it open, and the reference switch does so.
      const Value result = new_place(element);
      store_scalar(result, scalar(target, expr.at), expr.at);
      block_->back().which = 1;
      ir::Statement& made = add(ir::Do::register_read, expr.at);
      made.to = result.place;
      made.which = object.index;
      made.expr = index;
      store(target, result, expr.at);
      return {};
    }
    if (method != "write") {
      unsupported(expr.at, kind + "." + method);
    }
    const int index = index_of(*arguments[0]);
    const int value = scalar(coerce(eval(*arguments[1], element), element, arguments[1]->at), expr.at);
    ir::Statement& made = add(ir::Do::register_write, expr.at);
    made.which = object.index;
    made.exprs = {index, value};
    return {};
  }
  if (kind == "counter" && method == "count") {
    const int index = index_of(*arguments[0]);
    ir::Statement& made = add(ir::Do::count, expr.at);
    made.which = object.index;
    made.expr = index;
    return {};
  }
  if (kind == "direct_counter") {
    return {};  // the table counts
  }
  if ((kind == "meter" && method == "execute_meter") || (kind == "direct_meter" && method == "read")) {
    const std::size_t result = kind == "meter" ? 1 : 0;
    if (kind == "meter") {
      static_cast<void>(index_of(*arguments[0]));
    }
    const Value target = place_of(*arguments[result]);
    if (kind == "direct_meter" && !object.type->arguments.empty() && target.type != object.type->arguments[0]) {
      fail(arguments[result]->at, "the meter gives " + text(object.type->arguments[0]) + ", not " + text(target.type));
    }
    if (!target.type->is_bits() && (target.type->kind != Type::Kind::enumeration || target.type->element == nullptr)) {
      fail(arguments[result]->at, "a colour is a bit<N>, or an enum of it");
    }
    store_scalar(target, constant(0, target.type->width), expr.at);  // green
    return {};
  }
  if (kind == "Checksum16" && method == "get") {
    return checksum16(*arguments[0], written_type(*chosen, expr, 0));
  }
  unsupported(expr.at, kind + "." + method);
}

}  // namespace sidelatch::p4
