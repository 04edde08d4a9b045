#include "compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <utility>

namespace sidelatch::explore::oracle {

namespace {

constexpr std::uint32_t kMostEvents = 400;

std::string ends_beyond(const std::set<End>& more, const std::set<End>& less) {
  constexpr std::size_t kEnough = 5;
  std::string text;
  std::size_t count = 0;
  for (const End& end : more) {
    if (!less.contains(end) && count++ < kEnough) {
      text += fmt::format("  {}\n", fmt::join(end, " "));
    }
  }
  return text;
}

std::string difference_in_faults(const Answer& answer, const Violation& violation) {
  switch (violation.kind) {
    case Kind::assertion:
      return answer.fails || answer.fails_late ? "" : "only the explorer sees an assertion fail";
    case Kind::buffer_race:
      return answer.races || answer.races_late ? "" : "only the explorer sees a buffer race";
    case Kind::deadlock:
    case Kind::livelock:
      return answer.is_stuck ? "" : "only the explorer sees somebody stuck";
    default:
      return fmt::format("the explorer reports {}, which no such program has", name(violation.kind));
  }
}

std::string difference_between(const Answer& answer, const Explored& explored) {
  const Verdict& verdict = explored.verdict;
  if (const std::string more = ends_beyond(explored.ends, answer.ends); !more.empty()) {
    return "the explorer reaches what the oracle does not:\n" + more;
  }
  if (verdict.outcome == Outcome::broken) {
    return difference_in_faults(answer, *verdict.violation);
  }
  if (verdict.outcome == Outcome::safe && !answer.is_clean()) {
    return "the explorer says safe, and the oracle does not";
  }
  if (verdict.outcome == Outcome::safe) {
    const std::string more = ends_beyond(answer.ends, explored.ends);
    return more.empty() ? "" : "the explorer says safe and does not reach:\n" + more;
  }
  return "";
}

}  // namespace

fabric::model::Rules rules_for(fabric::model::Preset preset, std::uint64_t seed) {
  fabric::model::Rules rules = rules_of(preset);
  rules.atomics_see_writes = seed % 7 != 0;
  rules.fence_orders_reads = seed % 5 != 0;
  if (seed % 11 == 0) {
    rules.atomic_scope = fabric::model::AtomicScope::global;
  }
  return rules;
}

Comparison compare(const ProgramList& program, const fabric::model::Rules& rules, const Limits& limits) {
  return compare(program, rules, limits, explore_all(program, rules, limits.states));
}

Comparison compare(const ProgramList& program, const fabric::model::Rules& rules, const Limits& limits, Answer answer) {
  Comparison comparison;
  comparison.answer = std::move(answer);
  if (!comparison.answer.is_complete) {
    return comparison;
  }
  comparison.was_made = true;
  Options options;
  options.rules = rules;
  options.threads = 1;
  options.mode = limits.mode;
  options.max_states = limits.states;
  options.max_executions = limits.executions;
  options.max_events = kMostEvents;
  options.look_for_shorter = 20;
  options.walks = 0;  // they would reach ends that the search has not
  try {
    comparison.explored = explore_list(program, options);
    comparison.difference = difference_between(comparison.answer, comparison.explored);
  } catch (const std::exception& error) {
    comparison.difference = fmt::format("the explorer throws: {}", error.what());
  }
  return comparison;
}

std::string to_string(const ProgramList& program, const Comparison& comparison) {
  const Answer& answer = comparison.answer;
  return fmt::format("{}the oracle: {} states, {} ends{}{}{}\nthe explorer: {}\n", program.to_string(), answer.states,
                     answer.ends.size(), answer.fails ? ", an assertion fails" : "",
                     answer.races ? ", a buffer race" : "", answer.is_stuck ? ", somebody is stuck" : "",
                     to_text(comparison.explored.verdict));
}

}  // namespace sidelatch::explore::oracle
