#include "litmus.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::explore {

namespace litmus {
namespace {

std::optional<std::int64_t> value_of(const Operand& operand, const Lookup& lookup) {
  if (const auto* literal = std::get_if<std::int64_t>(&operand)) {
    return *literal;
  }
  if (const auto* word = std::get_if<MemoryWord>(&operand)) {
    return lookup(*word);
  }
  return lookup(std::get<RegisterWord>(operand));
}

}  // namespace

bool holds(const Condition& condition, const Lookup& lookup) {
  const auto part_holds = [&](const Condition& part) { return holds(part, lookup); };
  switch (condition.kind) {
    case Condition::Kind::all_of:
      return std::all_of(condition.parts.begin(), condition.parts.end(), part_holds);
    case Condition::Kind::any_of:
      return std::any_of(condition.parts.begin(), condition.parts.end(), part_holds);
    case Condition::Kind::negation:
      return !part_holds(condition.parts.front());
    case Condition::Kind::equal:
    case Condition::Kind::unequal:
      break;
  }
  const auto left = value_of(condition.left, lookup);
  const auto right = value_of(condition.right, lookup);
  const bool equal = left && right && *left == *right;
  return equal == (condition.kind == Condition::Kind::equal);
}

}  // namespace litmus

void LitmusTest::apply_params(fabric::model::Rules& rules) const {
  for (const litmus::Param& param : params) {
    fabric::model::set_parameter(rules, param.name, param.value);
  }
}

std::optional<bool> LitmusTest::expected(fabric::model::Preset model) const {
  for (const litmus::Expectation& expectation : expectations) {
    if (expectation.model == model) {
      return expectation.allowed;
    }
  }
  return std::nullopt;
}

std::string state_name(const LitmusTest& test, const litmus::Variable& variable) {
  if (const auto* word = std::get_if<litmus::MemoryWord>(&variable)) {
    return test.nodes.at(word->node).lines.at(word->line).words.at(word->word).name;
  }
  const auto& place = std::get<litmus::RegisterWord>(variable);
  const litmus::Thread& thread = test.threads.at(place.thread);
  const litmus::Register& reg = thread.registers.at(place.reg);
  return reg.words == 1 ? fmt::format("{}:{}", thread.name, reg.name)
                        : fmt::format("{}:{}[{}]", thread.name, reg.name, place.index);
}

}  // namespace sidelatch::explore
