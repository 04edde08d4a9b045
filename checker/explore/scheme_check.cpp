#include <sidelatch/explore/scheme_check.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace sidelatch::explore {

namespace {

// The schemes of the registry keep what a program promises.
constexpr std::uint64_t kWalksOfACell = 100;

// A checksum of 8 bits collides for one content in 256, so this many contents are tried.
constexpr std::uint64_t kSalts = 512;

std::vector<Workload> workloads_of(const checker::SelectedScheme& selected, const CellOptions& options) {
  Workload base;
  base.lines = options.lines;
  base.nics = options.nics;
  if (options.crash) {
    base.crash = true;
    base.revocation = options.revocation;
    base.writers = 2;
    base.updates = 2;
    base.readers = options.clients - 2;
    return {base};
  }
  Workload writers = base;
  writers.writers = 2;
  writers.readers = options.clients - 2;
  Workload readers = base;
  readers.updates = 2;
  readers.readers = options.clients - 1;
  std::vector<Workload> all = {writers, readers};
  if (selected.entry->name.ends_with("+crc8")) {
    all.pop_back();
    for (std::uint64_t salt = 0; salt < kSalts; ++salt) {
      readers.salt = salt * 0x9e3779b97f4a7c15ULL;
      all.push_back(readers);
    }
  }
  return all;
}

checker::SelectedScheme select_for(std::string_view scheme, const CellOptions& options) {
  if (options.clients < 2 || options.clients > 8) {
    throw std::invalid_argument(fmt::format("{} clients: it must be 2 to 8", options.clients));
  }
  return checker::select_scheme(scheme);
}

Program program_of(const checker::SelectedScheme& selected, const Workload& workload) {
  return scheme_program(*selected.scheme, selected.entry->promise, workload, selected.layout);
}

template <class T>
T field(const nlohmann::ordered_json& json, const char* name) {
  try {
    return json.at(name).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument(fmt::format("the field \"{}\" is missing or of another type", name));
  }
}

}  // namespace

CellResult explore_cell(std::string_view scheme, const CellOptions& options) {
  const checker::SelectedScheme selected = select_for(scheme, options);
  CellResult result;
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Workload> workloads = workloads_of(selected, options);
  for (const Workload& workload : workloads) {
    Options explored = options.options;
    explored.walks = std::min(explored.walks, kWalksOfACell);
    if (explored.budget.count() > 0) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began;
      // Each program gets its share of the time left.
      const auto left = static_cast<double>(workloads.size() - result.programs);
      explored.budget = std::max((explored.budget - spent) / left, std::chrono::duration<double>(1e-3));
    }
    Verdict verdict = check(program_of(selected, workload), explored);
    ++result.programs;
    if (!verdict.note.empty()) {
      result.verdict.note = verdict.note;
    }
    result.verdict.executions += verdict.executions;
    result.verdict.redundant += verdict.redundant;
    result.verdict.events += verdict.events;
    result.verdict.states += verdict.states;
    result.verdict.seconds += verdict.seconds;
    if (verdict.outcome == Outcome::broken) {
      result.verdict.outcome = Outcome::broken;
      result.verdict.bound.clear();
      result.verdict.only_loops_bounded = false;
      result.verdict.violation = std::move(verdict.violation);
      result.workload = workload;
      break;
    }
    if (verdict.outcome == Outcome::bounded) {
      const bool first = result.verdict.outcome != Outcome::bounded;
      result.verdict.only_loops_bounded = verdict.only_loops_bounded && (first || result.verdict.only_loops_bounded);
      result.verdict.outcome = Outcome::bounded;
      const bool by_time = explored.budget.count() > 0 && verdict.bound.starts_with("a budget");
      result.verdict.bound =
          by_time ? fmt::format("a budget of {:g} s", options.options.budget.count()) : verdict.bound;
      result.workload = workload;
    }
  }
  return result;
}

void require_possible(std::string_view scheme, const CellOptions& options) {
  fabric::model::validate(options.options.rules);
  const checker::SelectedScheme selected = select_for(scheme, options);
  for (const Workload& workload : workloads_of(selected, options)) {
    static_cast<void>(program_of(selected, workload));
  }
}

Verdict replay_cell(std::string_view scheme, const Workload& workload, const Options& options,
                    const std::vector<std::string>& choices) {
  const checker::SelectedScheme selected = checker::select_scheme(scheme);
  return replay(program_of(selected, workload), options, choices);
}

nlohmann::ordered_json to_json(const Violation& violation) {
  nlohmann::ordered_json trace = nlohmann::ordered_json::array();
  for (const TraceStep& step : violation.trace) {
    trace.push_back({{"actor", step.actor},
                     {"action", step.action},
                     {"wr", step.wr},
                     {"target", step.target},
                     {"value", step.value},
                     {"rule", step.rule},
                     {"note", step.note}});
  }
  return {{"kind", name(violation.kind)}, {"what", violation.what}, {"trace", trace}};
}

nlohmann::ordered_json to_json(const Workload& workload) {
  return {{"writers", workload.writers}, {"updates", workload.updates},       {"readers", workload.readers},
          {"reads", workload.reads},     {"lines", workload.lines},           {"nics", workload.nics},
          {"crash", workload.crash},     {"revocation", workload.revocation}, {"salt", workload.salt}};
}

Workload workload_of(const nlohmann::ordered_json& json) {
  Workload workload;
  workload.writers = field<std::uint32_t>(json, "writers");
  workload.updates = field<std::uint32_t>(json, "updates");
  workload.readers = field<std::uint32_t>(json, "readers");
  workload.reads = field<std::uint32_t>(json, "reads");
  workload.lines = field<std::uint64_t>(json, "lines");
  workload.nics = field<unsigned>(json, "nics");
  workload.crash = field<bool>(json, "crash");
  workload.revocation = field<bool>(json, "revocation");
  workload.salt = field<std::uint64_t>(json, "salt");
  return workload;
}

}  // namespace sidelatch::explore
