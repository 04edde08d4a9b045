#include "commands.h"
#include "json_text.h"
#include "options.h"

#include "common/json_reason.h"

#include <sidelatch/explore/scheme_check.h>
#include <sidelatch/explore/trace_file.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

using fabric::model::Preset;

constexpr std::array kPresets = {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed};

struct Arguments {
  std::vector<std::string> schemes = {"all"};
  std::vector<std::string> models = {"all"};
  std::vector<std::string> parameters;
  std::string mode = "exhaustive";
  std::string trace_file;
  std::string replay_file;
  std::string svg_file;
  double budget = 0;
  std::optional<std::uint64_t> seed;
  explore::CellOptions cell;
  bool without_revocation = false;
  bool json = false;
  bool allow_bounded = false;
};

struct Cell {
  std::string scheme;
  Preset model = Preset::observed;
  std::optional<bool> safe;  // as documented
  explore::CellResult result;

  [[nodiscard]] bool as_expected(bool allow_bounded) const {
    const explore::Outcome outcome = result.verdict.outcome;
    if (outcome == explore::Outcome::bounded) {
      return allow_bounded || (safe.value_or(false) && result.verdict.only_loops_bounded);
    }
    return safe.value_or(true) == (outcome == explore::Outcome::safe);
  }
};

explore::Mode mode_of(const std::string& text) {
  if (text == "exhaustive") {
    return explore::Mode::exhaustive;
  }
  if (text == "states") {
    return explore::Mode::states;
  }
  if (text == "random") {
    return explore::Mode::random;
  }
  if (text == "pct") {
    return explore::Mode::pct;
  }
  throw std::invalid_argument(fmt::format("--mode {}: the modes are exhaustive, states, random, pct", text));
}

void set_parameters(fabric::model::Rules& rules, const std::vector<std::string>& parameters) {
  std::set<std::string> set;
  for (const std::string& parameter : parameters) {
    const std::size_t equals = parameter.find('=');
    if (equals == std::string::npos) {
      throw std::invalid_argument(fmt::format("--param {}: it must be NAME=VALUE", parameter));
    }
    const std::string name = parameter.substr(0, equals);
    fabric::model::set_parameter(rules, name, parameter.substr(equals + 1));
    if (!set.insert(name).second) {
      throw std::invalid_argument(fmt::format("--param {}: {} is set already; give it once", parameter, name));
    }
  }
}

std::vector<Cell> cells_of(const Arguments& arguments) {
  std::vector<std::string> schemes;
  for (const std::string& name : arguments.schemes) {
    if (name == "all") {
      for (const checker::SchemeEntry& entry : checker::schemes()) {
        if (!arguments.cell.crash || !entry.make()->queues()) {  // a dead client stops a queue: there is nothing to see
          schemes.emplace_back(entry.name);
        }
      }
    } else {
      schemes.push_back(name);
    }
  }
  std::vector<Preset> models;
  for (const std::string& name : arguments.models) {
    if (name == "all") {
      models.insert(models.end(), kPresets.begin(), kPresets.end());
    } else {
      models.push_back(fabric::model::parse_preset(name));
    }
  }
  // The table of verdicts is for the presets, one NIC, and clients that do not crash.
  const bool documented =
      arguments.parameters.empty() && arguments.cell.nics == 1 && !arguments.cell.crash && arguments.cell.lines >= 3;
  std::vector<Cell> cells;
  for (const std::string& scheme : schemes) {
    const checker::SelectedScheme selected = checker::select_scheme(scheme);
    for (const Preset model : models) {
      Cell cell;
      cell.scheme = scheme;
      cell.model = model;
      if (documented && selected.entry->name == scheme) {
        cell.safe = selected.entry->safe_under(model);
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

nlohmann::ordered_json to_json(const Cell& cell) {
  const explore::Verdict& verdict = cell.result.verdict;
  nlohmann::ordered_json json = {
      {"scheme", cell.scheme}, {"model", fabric::model::name(cell.model)}, {"verdict", explore::name(verdict.outcome)},
      {"expected", nullptr},   {"executions", verdict.executions},         {"seconds", verdict.seconds},
      {"violation", nullptr}};
  if (cell.safe) {
    json["expected"] = *cell.safe ? "safe" : "broken";
  }
  if (verdict.states != 0) {
    json["states"] = verdict.states;
  }
  if (!verdict.bound.empty()) {
    json["bound"] = verdict.bound;
  }
  if (!verdict.note.empty()) {
    json["note"] = verdict.note;
  }
  if (verdict.violation) {
    json["violation"] = explore::to_json(*verdict.violation);
  }
  return json;
}

void print_cell(const Cell& cell) {
  const explore::Verdict& verdict = cell.result.verdict;
  const std::string what = verdict.violation
                               ? fmt::format("{}: {}", explore::name(verdict.violation->kind), verdict.violation->what)
                           : !verdict.bound.empty() ? "by " + verdict.bound
                                                    : "";
  const std::string states = verdict.states == 0 ? "" : fmt::format("{} states  ", verdict.states);
  fmt::print("{:<35} {:<9} {:<8} {:>9} executions {:>8.2f} s  {}{}\n", cell.scheme, fabric::model::name(cell.model),
             explore::name(verdict.outcome), verdict.executions, verdict.seconds, states, what);
  if (!verdict.note.empty()) {
    fmt::print("  {}\n", verdict.note);
  }
  std::fflush(stdout);
}

// The data that --replay reads: the program, the model, and the choices.
nlohmann::ordered_json trace_json(const Cell& cell, const Arguments& arguments) {
  return {{"scheme", cell.scheme},
          {"model", fabric::model::name(cell.model)},
          {"parameters", arguments.parameters},
          {"retries", arguments.cell.options.writing_retries},
          {"workload", explore::to_json(cell.result.workload)},
          {"violation", explore::to_json(*cell.result.verdict.violation)},
          {"choices", cell.result.verdict.violation->choices}};
}

// A file may hold any number: -1 and 1e30 would be converted to some other one.
void require_whole_numbers(const nlohmann::ordered_json& json, const std::string& name) {
  const auto require = [](const nlohmann::ordered_json& value, const std::string& named) {
    if (value.is_number() && !(value.is_number_unsigned() && value <= std::numeric_limits<std::uint32_t>::max()) &&
        named != "salt") {
      throw std::invalid_argument(fmt::format("the field \"{}\" is {}: it must be a whole number from 0 to {}", named,
                                              value.dump(), std::numeric_limits<std::uint32_t>::max()));
    }
  };
  require(json, name);
  if (json.is_object()) {
    for (const auto& [field, value] : json.items()) {
      require(value, field);
    }
  }
}

// The picture of a violation; without one nothing is written.
void draw(const Arguments& arguments, const explore::Verdict& verdict, const std::string& title) {
  if (!arguments.svg_file.empty() && verdict.violation) {
    write_file(arguments.svg_file, explore::to_svg(*verdict.violation, title));
  }
}

void say_what_was_not_written(const std::string& file, const explore::Verdict& verdict) {
  if (!file.empty() && !verdict.violation) {
    say("sidelatch: no violation was found, so {} was not written\n", file);
  }
}

// The trace itself says what is run. An option that would change nothing must not look as if it did.
void require_replay_alone(const Arguments& arguments) {
  const Arguments untouched;
  const explore::CellOptions& cell = arguments.cell;
  const std::array<std::pair<const char*, bool>, 13> given{{
      {"--scheme", arguments.schemes != untouched.schemes},
      {"--model", arguments.models != untouched.models},
      {"--param", !arguments.parameters.empty()},
      {"--clients", cell.clients != untouched.cell.clients},
      {"--lines", cell.lines != untouched.cell.lines},
      {"--nics", cell.nics != untouched.cell.nics},
      {"--crash", cell.crash},
      {"--budget", arguments.budget != untouched.budget},
      {"--executions", cell.options.max_executions != untouched.cell.options.max_executions},
      {"--retries", cell.options.writing_retries != untouched.cell.options.writing_retries},
      {"--mode", arguments.mode != untouched.mode},
      {"--seed", arguments.seed.has_value()},
      {"--trace", !arguments.trace_file.empty()},
  }};
  for (const auto& [option, is_given] : given) {
    if (is_given) {
      throw std::invalid_argument(
          fmt::format("--replay runs what {} says, and nothing else: leave {} out", arguments.replay_file, option));
    }
  }
}

int replay(const Arguments& arguments) {
  require_replay_alone(arguments);
  const std::string text = read_file(arguments.replay_file);
  if (!arguments.svg_file.empty()) {
    require_writable(arguments.svg_file);
  }
  require_apart("--svg", arguments.svg_file, arguments.replay_file, "the trace of --replay");
  std::string title;
  explore::Verdict verdict;
  std::string was;  // the violation that the trace shows
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    require_whole_numbers(json.at("retries"), "retries");
    require_whole_numbers(json.at("workload"), "workload");
    was = json.at("violation").at("kind").get<std::string>();
    explore::Options options = arguments.cell.options;
    options.writing_retries = json.at("retries").get<std::uint32_t>();
    options.rules = rules_of(fabric::model::parse_preset(json.at("model").get<std::string>()));
    set_parameters(options.rules, json.at("parameters").get<std::vector<std::string>>());
    title = fmt::format("{} under {}", json.at("scheme").get<std::string>(), json.at("model").get<std::string>());
    verdict = explore::replay_cell(json.at("scheme").get<std::string>(), explore::workload_of(json.at("workload")),
                                   options, json.at("choices").get<std::vector<std::string>>());
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(fmt::format("--replay {}: it is no trace of `explore --trace`: {}",
                                            arguments.replay_file, json_reason(error.what())));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("--replay {}: {}", arguments.replay_file, error.what()));
  }
  const auto violation = verdict.violation ? explore::to_json(*verdict.violation) : nlohmann::ordered_json(nullptr);
  const std::string printed =
      verdict.violation ? explore::to_text(verdict) : fmt::format("gone: these choices no longer end in {}\n", was);
  save_and_print([&] { draw(arguments, verdict, title); }, arguments.json ? text_of(violation) + "\n" : printed);
  say_what_was_not_written(arguments.svg_file, verdict);
  // A violation is one that nothing expects, and without one the trace does not show what it says.
  return kNotAsExpected;
}

int explore_command(Arguments arguments) {
  arguments.cell.revocation = !arguments.without_revocation;
  if (arguments.without_revocation && !arguments.cell.crash) {
    throw std::invalid_argument("--without-revocation says how a takeover is done: give --crash too");
  }
  require_budget(arguments.budget);
  explore::Options& options = arguments.cell.options;
  options.mode = mode_of(arguments.mode);
  options.budget = std::chrono::duration<double>(arguments.budget);
  options.interrupted = &interrupted();
  if (!arguments.replay_file.empty()) {
    return replay(arguments);
  }
  if (arguments.seed) {
    if (options.mode != explore::Mode::random && options.mode != explore::Mode::pct) {
      throw std::invalid_argument(fmt::format(
          "--seed is for --mode random and pct: --mode {} leaves nothing to chance, so leave it out", arguments.mode));
    }
    options.seed = *arguments.seed;
  }
  // With --crash the states cannot be compared, and executions are searched.
  if (options.mode == explore::Mode::states && options.max_executions != 0 && !arguments.cell.crash) {
    throw std::invalid_argument("--executions: --mode states searches none; give --budget, or leave it out");
  }
  std::vector<Cell> cells = cells_of(arguments);
  // Before the first one runs, which may take hours.
  for (const Cell& cell : cells) {
    options.rules = rules_of(cell.model);
    set_parameters(options.rules, arguments.parameters);
    explore::require_possible(cell.scheme, arguments.cell);
  }
  for (const auto& [option, file] : {std::pair{"--trace", &arguments.trace_file}, {"--svg", &arguments.svg_file}}) {
    if (!file->empty() && cells.size() != 1) {
      throw std::invalid_argument(fmt::format(
          "{} {}: a trace is of one scheme under one model, and {} cells were asked for", option, *file, cells.size()));
    }
    if (!file->empty()) {
      require_writable(*file);
    }
  }
  require_apart("--svg", arguments.svg_file, arguments.trace_file, "the trace of --trace");
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool as_expected = true;
  {
    Progress progress;
    std::size_t done = 0;
    for (Cell& cell : cells) {
      if (interrupted()) {
        break;
      }
      options.rules = rules_of(cell.model);
      set_parameters(options.rules, arguments.parameters);
      if (cells.size() == 1) {
        options.progress = [&](std::uint64_t executions) { progress.show(executions, 0); };
      }
      cell.result = explore::explore_cell(cell.scheme, arguments.cell);
      if (cells.size() > 1) {
        progress.show(++done, cells.size());
      }
      as_expected = as_expected && cell.as_expected(arguments.allow_bounded);
      json.push_back(to_json(cell));
      if (!arguments.json && cells.size() > 1) {
        print_cell(cell);
      }
    }
  }
  const Cell& first = cells.front();  // the only one, if there is a file for its trace
  const explore::Verdict& verdict = first.result.verdict;
  const std::string title = fmt::format("{} under {}", first.scheme, fabric::model::name(first.model));
  std::string text;
  if (arguments.json) {
    text = text_of(json) + "\n";
  } else if (cells.size() == 1 && !json.empty()) {
    text = fmt::format("{}: {}", title, explore::to_text(verdict));
  }
  const auto save = [&] {
    if (!arguments.trace_file.empty() && verdict.violation) {
      write_file(arguments.trace_file, text_of(trace_json(first, arguments)) + "\n");
    }
    draw(arguments, verdict, title);
  };
  save_and_print(save, text);
  say_what_was_not_written(arguments.trace_file, verdict);
  say_what_was_not_written(arguments.svg_file, verdict);
  if (interrupted()) {
    return kInterrupted;
  }
  return as_expected ? kAsExpected : kNotAsExpected;
}

}  // namespace

void add_explore(Program& program) {
  auto arguments = std::make_shared<Arguments>();
  Command command = program.command("explore", "Every execution of a scheme that the memory model allows");
  command.option("--scheme", arguments->schemes, "a scheme, or all (default all); may be repeated");
  command.option("--model", arguments->models, "strict, observed, spec, relaxed, or all (default all)");
  command.option("--param", arguments->parameters, "a parameter of the model, NAME=VALUE; may be repeated");
  command.option("--clients", arguments->cell.clients, "2 to 8 (default 2)");
  command.option("--lines", arguments->cell.lines, "cache lines of the object (default 3)");
  command.option("--nics", arguments->cell.nics, "NICs of the memory node (default 1)");
  command.flag("--crash", arguments->cell.crash, "a writer may crash at any step, and another takes over");
  command.flag("--without-revocation", arguments->without_revocation, "with --crash: taking over revokes nothing");
  command.option("--budget", arguments->budget, "seconds for each scheme under each model (default: no limit)");
  command.option("--executions", arguments->cell.options.max_executions, "at most so many (default: no limit)");
  command.option("--retries", arguments->cell.options.writing_retries,
                 "failed attempts that write, per retry loop (default 2)");
  command.option("--mode", arguments->mode, "exhaustive, states, random or pct (default exhaustive)");
  command.option("--seed", arguments->seed, "of random and pct (default 1)");
  command.option("--threads", arguments->cell.options.threads, "default: all cores");
  command.option("--trace", arguments->trace_file, "file for the violation's trace");
  command.option("--svg", arguments->svg_file, "file for a picture of the violation's trace");
  command.option("--replay", arguments->replay_file, "run the trace in this file again, and nothing else");
  command.flag("--allow-bounded", arguments->allow_bounded, "exit with 0 although a budget ran out");
  command.flag("--json", arguments->json, "print one JSON value instead of the table");
  command.runs([arguments] { return explore_command(*arguments); });
}

}  // namespace sidelatch::tools
