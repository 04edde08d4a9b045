// Controls, parsers, actions and functions that nothing uses are checked as the others, and leave nothing behind.
#include "lower.h"

#include <fmt/format.h>

namespace sidelatch::p4 {

using ast::DeclarationKind;

void Lowering::check_unused() {
  ir::Program kept = out_;
  for (const ast::DeclarationPtr& declaration : program_.declarations) {
    if (!lowered_.contains(declaration.get())) {
      check_unused(*declaration);
    }
  }
  out_ = std::move(kept);
}

void Lowering::check_unused(const ast::Declaration& declaration) {
  const bool is_control = declaration.kind == DeclarationKind::control && declaration.body != nullptr;
  const bool is_parser = declaration.kind == DeclarationKind::parser && !declaration.states.empty();
  const bool is_action = declaration.kind == DeclarationKind::action;
  const bool is_function = declaration.kind == DeclarationKind::function && declaration.body != nullptr;
  if (!is_control && !is_parser && !is_action && !is_function) {
    return;
  }
  // Without arguments there is nothing to check these with.
  if (!declaration.type_parameters.empty() || !declaration.constructor_parameters.empty() ||
      ((is_control || is_function) && takes_externs(declaration))) {
    return;
  }
  ir::Block nothing;
  ir::Block* block = std::exchange(block_, &nothing);
  table_names_.clear();  // what nothing uses has no names for the control plane
  Scope* scope = std::exchange(scope_, global_);
  const Where where = where_;
  const std::string prefix = prefix_;
  const unsigned depth = depth_;
  stage_ = is_parser ? Stage::parser : Stage::unknown;
  try {
    if (is_control) {
      control_instance(declaration, {}, declaration.name, nullptr);
    } else if (is_parser) {
      parser_instance(declaration, {}, declaration.name, nullptr);
    } else if (is_action) {
      in_scope_of(declaration, [&] { action(declaration, ""); });
    } else {
      function(declaration, {});
    }
  } catch (const Failure& failure) {
    if (!failure.message.starts_with("unsupported:")) {
      throw;
    }
    warnings_.push_back(
        {failure.at, fmt::format("nothing uses '{}', which is left out: {}", declaration.name, failure.message)});
    active_.clear();
    under_way_.clear();
    function_ = nullptr;
    is_quiet_ = false;
    no_table_ = nullptr;
  }
  stage_ = Stage::none;
  block_ = block;
  scope_ = scope;
  where_ = where;
  prefix_ = prefix;
  depth_ = depth;
}

}  // namespace sidelatch::p4
