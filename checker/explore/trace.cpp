#include "trace.h"

#include "timeline.h"

#include <sidelatch/fabric/model/effects.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace sidelatch::explore {

using fabric::model::StepKind;

namespace {

// The events that the violation depends on: those before its moments.
std::vector<bool> needed_events(const Worker& worker, const Failure& failure) {
  std::vector<bool> needed(worker.depth(), failure.at_end);
  const auto need = [&](Moment moment) {
    for (Moment i = 0; i < moment; ++i) {
      needed[i] = needed[i] || has_bit(*worker.rows()[moment], i);
    }
    needed[moment] = true;
  };
  if (!failure.at_end) {
    need(failure.moment);
    for (const Moment also : failure.also) {
      need(also);
    }
  }
  return needed;
}

// The actor of an event. Machine steps of a queue pair belong together, and so do a client's steps.
std::uint32_t actor_key(const Event& event) {
  const bool of_queue_pair = event.action.sort == Action::Sort::machine && event.action.kind != StepKind::drain;
  return (of_queue_pair ? 0U : 0x1'0000U) | event.action.owner;
}

// An equivalent order of these events that changes actors as rarely as possible.
std::vector<Action> calm_order(const Worker& worker, const std::vector<bool>& needed) {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) {
      left.push_back(i);
    }
  }
  std::vector<Action> order;
  std::uint32_t last = ~0U;
  while (!left.empty()) {
    const auto is_next = [&](std::size_t candidate) {
      const Before& row = *worker.rows()[candidate];
      return std::ranges::none_of(
          left, [&](std::size_t other) { return other < candidate && has_bit(row, static_cast<Moment>(other)); });
    };
    std::size_t chosen = left.front();
    for (const std::size_t candidate : left) {
      if (actor_key(worker.event(candidate)) == last && is_next(candidate)) {
        chosen = candidate;
        break;
      }
    }
    last = actor_key(worker.event(chosen));
    order.push_back(worker.event(chosen).action);
    std::erase(left, chosen);
  }
  return order;
}

std::string words_of(const std::byte* data, std::uint64_t length) {
  if (length == 0) {
    return "";
  }
  std::vector<std::string> words;
  for (std::uint64_t i = 0; i + 8 <= length; i += 8) {
    const std::uint64_t word = fabric::model::load_word(data + i);
    words.push_back(word < 1'000'000'000 ? fmt::format("{}", word)
                    : ~word < 1'000'000  ? fmt::format("-{}", ~word + 1)
                                         : fmt::format("{:#x}", word));
  }
  std::string text;
  for (std::size_t i = 0; i < words.size();) {
    std::size_t same = i;
    while (same < words.size() && words[same] == words[i]) {
      ++same;
    }
    text += text.empty() ? "" : " ";
    text += same - i > 2 ? fmt::format("{}({}x)", words[i], same - i) : words[i];
    i = same - i > 2 ? same : i + 1;
  }
  return text;
}

/// Runs the choices again and describes each step.
class Describer {
 public:
  Describer(Execution& execution, Violation& violation) : execution_(&execution), violation_(&violation) {}

  void step(const Action& action) {
    TraceStep step;
    const bool machine_step = action.sort == Action::Sort::machine;
    if (machine_step && action.kind != StepKind::drain) {
      before_machine_step(action, step);
    } else if (machine_step) {
      step.actor = execution_->actor_name(execution_->actor_of_thread(action.owner));
      step.action = "drains a store";
    } else {
      step.actor = execution_->actor_name(action.owner);
      step.action = execution_->describe_step(action);
    }
    const bool never_begins = action.crash == Action::kNeverBegins;
    if (never_begins) {
      step.action = "crashes before its first step";
      step.rule = fabric::model::describe(fabric::model::Rule::crash);
    }
    const fabric::model::Footprint print =
        machine_step ? execution_->machine().footprint(action.step()) : fabric::model::Footprint{};
    if (!execution_->is_enabled(action)) {
      throw std::logic_error(fmt::format("explorer: the step '{}' is not possible in the trace", to_string(action)));
    }
    Event event;
    execution_->apply(action, event);
    if (print.target.length != 0) {
      step.target = fmt::format("{:#x}", print.address.value);
      step.value = words_of(print.target.data, print.target.length);
    } else if (print.local.length != 0 && (action.kind == StepKind::deliver || action.kind == StepKind::fetch)) {
      step.value = words_of(print.local.data, print.local.length);
    }
    if (machine_step && action.kind == StepKind::complete) {
      step.value = old_value(action);
    }
    violation_->trace.push_back(step);
    if (event.client != Event::kNone && (event.ran || !event.posts.empty())) {
      client_part(event, action);
    }
    if (action.crash != 0 && !never_begins) {
      TraceStep crash;
      crash.actor = execution_->actor_name(event.client);
      crash.action = "crashes";
      crash.rule = fabric::model::describe(fabric::model::Rule::crash);
      violation_->trace.push_back(crash);
    }
    violation_->choices.push_back(to_string(action));
  }

 private:
  [[nodiscard]] std::string request_name(std::uint16_t qp, std::uint32_t index) const {
    const fabric::WorkRequest& request = execution_->machine().request({{qp}, index});
    return fmt::format("qp{}[{}] {}{}", qp, index, name(request.opcode), request.fence ? " fenced" : "");
  }

  void before_machine_step(const Action& action, TraceStep& step) const {
    step.actor = fmt::format("NIC of {}", execution_->actor_name(execution_->initiator(action.owner)));
    step.action = name(action.kind);
    step.wr = request_name(action.owner, action.index);
    if (const auto rule = execution_->machine().permitted_by(action.step())) {
      step.rule = fabric::model::describe(*rule);
    }
  }

  [[nodiscard]] std::string old_value(const Action& action) const {
    const fabric::model::Machine& machine = execution_->machine();
    const fabric::model::WrId wr = action.step().wr();
    if (machine.failed(wr)) {
      return "failed: revoked";
    }
    return fabric::is_atomic(machine.request(wr).opcode) ? fmt::format("found {}", machine.old_value(wr)) : "";
  }

  void client_part(const Event& event, const Action& action) {
    TraceStep step;
    step.actor = execution_->actor_name(event.client);
    std::string posted;
    for (const Event::Post& post : event.posts) {
      const fabric::WorkRequest& request = execution_->machine().request({{post.qp}, post.index});
      posted += posted.empty() ? "" : ", ";
      posted += request_name(post.qp, post.index);
      if (request.opcode == fabric::Opcode::compare_swap) {
        posted += fmt::format(" {} -> {}", request.compare, request.swap_or_add);
      } else if (request.opcode == fabric::Opcode::fetch_add) {
        posted += fmt::format(" {:+}", static_cast<std::int64_t>(request.swap_or_add));
      }
    }
    step.action = posted.empty() ? "goes on" : "posts";
    step.wr = posted;
    if (posted.empty() && action.sort != Action::Sort::machine) {
      return;
    }
    violation_->trace.push_back(step);
  }

  Execution* execution_;
  Violation* violation_;
};

}  // namespace

Violation make_violation(const Program& program, const Options& the_options, const Found& found) {
  Options options = the_options;
  options.mode = found.by_states ? Mode::states : Mode::exhaustive;
  options.order_objects = options.order_objects || found.orders_objects;
  options.part_posts = options.part_posts || found.parts_posts;
  options.part_completions = options.part_completions || found.parts_completions;
  std::atomic<bool> stop{false};
  Worker worker(program, options, stop, std::nullopt);
  const bool is_endless = found.repeats_from < found.choices.size();
  const bool is_whole = found.tail.empty() && !is_endless;
  const TaskResult again = worker.run_along(found.choices, is_whole && found.failure.at_end);
  if (is_whole && (!again.found || again.found->failure.what != found.failure.what)) {
    throw std::logic_error(kDiffers);
  }
  std::vector<Action> order = found.choices;
  if (worker.depth() == found.choices.size() && is_whole) {
    order = calm_order(worker, needed_events(worker, found.failure));
    // What clients share outside of the fabric may have kept the steps in their order.
    bool is_same = false;
    try {
      const TaskResult calm = worker.run_along(order, found.failure.at_end);
      is_same = calm.found && calm.found->failure.what == found.failure.what;
    } catch (const std::invalid_argument&) {
      is_same = false;  // a client went another way, and a step is not possible
    }
    if (!is_same) {
      order = found.choices;
    }
  }
  Violation violation;
  violation.kind = found.failure.kind;
  violation.what = found.failure.what;
  Execution execution(program, options.rules, options.writing_retries);
  if (options.look_at_all_frames) {
    execution.trust_no_loop();
  }
  if (options.look_at_counters) {
    execution.compare_tallies();
  }
  if (options.order_objects) {
    execution.order_objects({});
  }
  if (options.part_posts) {
    execution.part_posts();
    violation.choices.emplace_back(kPartsPosts);
  }
  if (options.part_completions) {
    execution.part_completions();
    violation.choices.emplace_back(kPartsCompletions);
  }
  if (found.by_states) {
    execution.go_by_states();
    violation.choices.emplace_back(kByStates);
  }
  execution.runs_below(__builtin_frame_address(0));
  execution.begin();
  Describer describer(execution, violation);
  // In another order the violation may come earlier. A client posts nothing behind it.
  for (std::size_t i = 0; i < order.size() && execution.failure() == nullptr; ++i) {
    const std::size_t before = violation.trace.size();
    if (i == found.repeats_from) {
      violation.choices.emplace_back(name(found.failure.kind));
    }
    describer.step(order[i]);
    if (i == found.repeats_from && before < violation.trace.size()) {
      violation.trace[before].note = "from here on it repeats for ever";
    }
  }
  for (const Action& action : found.tail) {
    describer.step(action);
  }
  if (!violation.trace.empty()) {
    violation.trace.back().note = found.failure.what;
  }
  return violation;
}

// ---- Text.

namespace {

constexpr std::size_t kWidest = 34;

std::string cut(std::string text) {
  if (text.size() > kWidest) {
    text.resize(kWidest - 3);
    text += "...";
  }
  return text;
}

}  // namespace

std::string to_text(const Violation& violation) {
  const Timeline timeline = timeline_of(violation);
  struct Row {
    std::vector<std::string> cells;
    std::string remark;
  };
  std::vector<Row> rows;
  std::vector<std::size_t> width;
  std::vector<std::string> columns;
  for (const Timeline::Column& column : timeline.columns) {
    columns.push_back(column.title);
    width.push_back(column.title.size());
  }
  for (const Timeline::Row& step : timeline.rows) {
    Row row;
    row.cells.resize(columns.size());
    row.cells[step.actor] = cut(step.text);
    if (step.line != 0) {
      row.cells[step.line] = cut(step.words);
    }
    row.remark = !step.rule.empty() ? step.rule : step.note;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      width[i] = std::max(width[i], row.cells[i].size());
    }
    rows.push_back(std::move(row));
  }
  std::string text = "     ";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    text += fmt::format("{:<{}}  ", columns[i], width[i]);
  }
  text += "\n";
  std::size_t number = 0;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:>3}  ", ++number);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      line += fmt::format("{:<{}}  ", row.cells[i], width[i]);
    }
    line += row.remark;
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string proof_in_words(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::safe:
      return verdict.states == 0 ? fmt::format("all {} executions", verdict.executions)
                                 : fmt::format("all {} states", verdict.states);
    case Outcome::bounded:
      return fmt::format("{} executions{}", verdict.executions,
                         verdict.states == 0 ? "" : fmt::format(" and {} states", verdict.states));
    case Outcome::broken:
      break;
  }
  return "";
}

namespace {

std::string text_of_outcome(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::safe:
      return fmt::format("safe: {}\n", proof_in_words(verdict));
    case Outcome::bounded:
      return fmt::format("bounded: nothing was found in {}, which {} ended\n", proof_in_words(verdict), verdict.bound);
    case Outcome::broken:
      return fmt::format("broken: {}: {}\n{}", name(verdict.violation->kind), verdict.violation->what,
                         to_text(*verdict.violation));
  }
  return "";
}

}  // namespace

std::string to_text(const Verdict& verdict) {
  return verdict.note.empty() ? text_of_outcome(verdict)
                              : fmt::format("{}note: {}\n", text_of_outcome(verdict), verdict.note);
}

}  // namespace sidelatch::explore
