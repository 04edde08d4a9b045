// V1Switch: the six parts of a program, and the frame that they share.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::p4 {

using ast::DeclarationKind;
using ast::ExprKind;

namespace {

constexpr std::array<std::string_view, kMetadataFields> kMetadataNames{"ingress_port",
                                                                       "egress_spec",
                                                                       "egress_port",
                                                                       "instance_type",
                                                                       "packet_length",
                                                                       "enq_timestamp",
                                                                       "enq_qdepth",
                                                                       "deq_timedelta",
                                                                       "deq_qdepth",
                                                                       "ingress_global_timestamp",
                                                                       "egress_global_timestamp",
                                                                       "mcast_grp",
                                                                       "egress_rid",
                                                                       "checksum_error",
                                                                       "parser_error",
                                                                       "priority"};

}  // namespace

void Lowering::standard_metadata(const Value& place) {
  for (std::size_t i = 0; i < place.type->fields.size(); ++i) {
    const auto found = std::find(kMetadataNames.begin(), kMetadataNames.end(), place.type->fields[i].name);
    if (found != kMetadataNames.end()) {
      out_.metadata[static_cast<std::size_t>(found - kMetadataNames.begin())] =
          place.place.slot + field_offset(place.type, i);
    }
  }
  // Earlier v1models had fewer. What they lack is there for the switch, and 0.
  constexpr unsigned kWidestOfThem = 48;
  for (int& slot : out_.metadata) {
    if (slot < 0) {
      slot = new_place(types_.bits(kWidestOfThem, false)).place.slot;
    }
  }
}

std::vector<unsigned> Lowering::lists_of(const ast::Annotations* annotations) {
  std::vector<unsigned> lists;
  for (const ast::Annotation& one : annotations != nullptr ? *annotations : ast::Annotations{}) {
    if (one.name == "field_list") {
      for (const ast::ExprPtr& argument : one.arguments) {
        lists.push_back(static_cast<unsigned>(field_list(*argument)));
      }
    }
  }
  return lists;
}

void Lowering::field_lists(const Type* type, int slot, const std::vector<unsigned>& outer) {
  for (std::size_t i = 0; i < type->fields.size(); ++i) {
    const FieldType& field = type->fields[i];
    std::vector<unsigned> lists = lists_of(field.annotations);
    lists.insert(lists.end(), outer.begin(), outer.end());
    const int at = slot + field_offset(type, i);
    if (field.type->kind == Type::Kind::structure) {
      field_lists(field.type, at, lists);
    } else if (!lists.empty()) {
      for (int s = 0; s < field.type->slots; ++s) {
        out_.field_lists.push_back({at + s, lists});
      }
    }
  }
}

// `prototype`: the type that v1model gives this part.
void Lowering::check_directions(const ast::Declaration& part, std::string_view prototype) const {
  const Symbol* symbol = find(prototype, true);
  if (symbol == nullptr || symbol->declaration == nullptr) {
    return;
  }
  const std::vector<ast::Parameter>& wanted = symbol->declaration->parameters;
  if (part.parameters.size() != wanted.size()) {
    fail(part.at,
         fmt::format("'{}' has {} parameters; v1model needs {}", part.name, part.parameters.size(), wanted.size()));
  }
  const auto written = [](ast::Direction direction) {
    return direction == ast::Direction::in      ? "'in'"
           : direction == ast::Direction::out   ? "'out'"
           : direction == ast::Direction::inout ? "'inout'"
                                                : "no direction";
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ast::Parameter& parameter = part.parameters[i];
    if (parameter.direction != wanted[i].direction) {
      fail(parameter.at, fmt::format("the parameter '{}' of '{}' has {}; {} of v1model needs {} here", parameter.name,
                                     part.name, written(parameter.direction), prototype, written(wanted[i].direction)));
    }
  }
}

void Lowering::package() {
  static constexpr std::array<std::string_view, 6> kNames{"p", "vr", "ig", "eg", "ck", "dep"};
  static constexpr std::array<std::string_view, 6> kPrototypes{"Parser", "VerifyChecksum",  "Ingress",
                                                               "Egress", "ComputeChecksum", "Deparser"};
  if (main_->type->name != "V1Switch") {
    unsupported(main_->at, "the architecture " + main_->type->name + "; only V1Switch of v1model");
  }
  if (main_->arguments.size() != kNames.size()) {
    fail(main_->at, "V1Switch has six arguments");
  }
  std::array<const ast::Declaration*, 6> parts{};
  std::array<const ast::Expr*, 6> given{};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const ast::Expr* expr = main_->arguments[i].get();
    std::size_t which = i;
    if (!main_->argument_names.empty()) {
      which =
          static_cast<std::size_t>(std::find(kNames.begin(), kNames.end(), main_->argument_names[i]) - kNames.begin());
      if (which == kNames.size() || parts[which] != nullptr) {
        fail(expr->at, "V1Switch has no such parameter, or it is given twice");
      }
    }
    const bool is_call = expr->kind == ExprKind::call;
    const ast::Expr& callee = is_call ? *expr->operands[0] : *expr;
    const Symbol* symbol = callee.kind == ExprKind::name ? find(callee.text, callee.global) : nullptr;
    if (symbol == nullptr || symbol->kind != Symbol::Kind::declaration) {
      fail(expr->at, callee.kind == ExprKind::name
                         ? not_found(callee.text, "there is no parser or control '" + callee.text + "'")
                         : std::string("expected a parser or control"));
    }
    parts[which] = symbol->declaration;
    if (parts[which]->kind != (which == 0 ? DeclarationKind::parser : DeclarationKind::control)) {
      fail(expr->at, which == 0 ? "expected a parser" : "expected a control");
    }
    if (!is_call) {
      fail(expr->at, "a constructor is called: '" + callee.text + "()'");
    }
    given[which] = expr;
  }
  const ast::Declaration& parser = *parts[0];
  if (parser.parameters.size() != 4) {
    fail(parser.at, "the parser of v1model has four parameters");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check_directions(*parts[i], kPrototypes[i]);
  }
  const Value headers = new_place(resolve(*parser.parameters[1].type));
  const Value meta = new_place(resolve(*parser.parameters[2].type));
  const Value standard = new_place(resolve(*parser.parameters[3].type));
  if (headers.type->kind != Type::Kind::structure || !meta.type->is_data()) {
    fail(parser.at, "the headers and the metadata of v1model are structures");
  }
  const std::function<void(const Type*)> check_headers = [&](const Type* structure) {
    for (const FieldType& field : structure->fields) {
      const Type* of = field.type->kind == Type::Kind::stack ? field.type->element : field.type;
      if (of->kind == Type::Kind::structure) {
        check_headers(of);
      } else if (of->kind != Type::Kind::header && of->kind != Type::Kind::header_union) {
        unsupported(field.at, "a field of the headers that is no header, header union, stack or structure of these");
      }
    }
  };
  check_headers(headers.type);
  const std::vector<const Type*> types = {headers.type, meta.type};
  const std::vector<ast::TypePtr>& written = main_->type->arguments;
  if (!written.empty() && written.size() != types.size()) {
    fail(main_->type->at, fmt::format("'V1Switch' has {} type parameters", types.size()));
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i]->kind != ast::TypeKind::any && resolve(*written[i]) != types[i]) {
      fail(main_->type->at, "the parts of V1Switch have the types " + list_of(types));
    }
  }
  if (standard.type->name != "standard_metadata_t") {
    fail(parser.parameters[3].at, "expected standard_metadata_t");
  }
  standard_metadata(standard);
  metadata_ = meta;
  standard_ = standard;
  out_.persistent_slots = static_cast<int>(out_.slot_widths.size());
  out_.metadata_slot = meta.place.slot;
  if (meta.type->kind == Type::Kind::structure) {
    field_lists(meta.type, meta.place.slot, {});
  }
  Value packet_in;
  packet_in.kind = Value::Kind::object;
  const std::vector<Value> parser_places{packet_in, headers, meta, standard};
  const std::vector<Value> short_places{headers, meta};
  const std::vector<Value> pipeline_places{headers, meta, standard};
  const std::vector<Value> deparser_places{packet_in, headers};
  // Not before the frame has its places: an argument may be an instance, which takes slots.
  const auto arguments = [&](std::size_t which) {
    const ast::Expr& expr = *given[which];
    return constructor_arguments(*parts[which], std::span(expr.operands).subspan(1), expr.names, expr.at,
                                 parts[which]->name);
  };
  std::set<const ast::Declaration*> used;
  const auto control = [&](std::size_t which, Stage stage, const std::vector<Value>& places) {
    stage_ = stage;
    // A control that is used again is there under the name that the specification gives an instance in the package.
    const bool is_first = used.insert(parts[which]).second;
    const std::string name = is_first ? parts[which]->name : fmt::format("{}.{}", main_->name, kNames[which]);
    return control_instance(*parts[which], arguments(which), name, &places)->index;
  };
  stage_ = Stage::parser;
  out_.parser = parser_instance(parser, arguments(0), parser.name, &parser_places)->index;
  out_.verify = control(1, Stage::verify, short_places);
  out_.ingress = control(2, Stage::ingress, pipeline_places);
  out_.egress = control(3, Stage::egress, pipeline_places);
  out_.compute = control(4, Stage::compute, short_places);
  out_.deparser = control(5, Stage::deparser, deparser_places);
  add_kept_lists();
  mark_copies();
  stage_ = Stage::none;
}

}  // namespace sidelatch::p4
