// The registry of experiments; assembles and prints their results.
#include "experiments.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/softnic/launch.h>
#include <sidelatch/version.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>

namespace sidelatch::bench {

namespace {

// A new experiment needs one line here.
constexpr std::array kExperiments = {
    Experiment{"atomics-contention", "RDMA atomics on one counter and on private counters, 1 to 512 workers",
               "TODS 2025, figure 4", atomics_contention},
    Experiment{"atomics-stride", "private counters at growing strides, padded and packed; lock-slot address bits",
               "TODS 2025, figure 5", atomics_stride},
    Experiment{"latch-ablation", "one worker, latch optimizations one after the other", "TODS 2025, figure 8",
               latch_ablation, Takes::practice},
    Experiment{"latch-scaling", "exclusive latches on 20 000 tuples, 8 to 128 workers", "TODS 2025, figure 9",
               latch_scaling, Takes::practice},
    Experiment{"kv-store", "a store of 20 million tuples of 256 B on four memory nodes by skew, latches",
               "TODS 2025, figure 10", kv_store, Takes::practice_and_waits},
    Experiment{"btree-lookups", "lookups in a B-tree with nodes of 4 KiB, 1 to 128 workers", "TODS 2025, figure 11",
               btree_lookups, Takes::practice},
    Experiment{"optimistic-size", "reads of 256 B to 256 KiB by one worker, latches and optimistic schemes",
               "TODS 2025, figure 14", optimistic_size, Takes::practice},
    Experiment{"optimistic-scaling", "reads and updates by optimistic schemes, 8 to 128 workers",
               "TODS 2025, figure 15", optimistic_scaling, Takes::practice},
    Experiment{"kv-store-512", "the same with 512 B and 224 workers, latches and optimistic schemes",
               "TODS 2025, figure 16", kv_store_512, Takes::practice_and_waits},
    Experiment{"connectx7-stride", "counters at growing strides on a ConnectX-7 (profile connectx7)",
               "TODS 2025, figure 17", connectx7_stride},
    Experiment{"smartnic-latch", "latches by RPC on a BlueField-2, CAS on a ConnectX-7 (simulator only)",
               "TODS 2025, figure 18", smartnic_latch, Takes::neither, /*simulator_only=*/true},
    Experiment{"switch-atomics", "CAS on words at a P4 switch and at a NIC, 1 to 2048 workers (simulator only)",
               "TODS 2025, figure 22", switch_atomics, Takes::neither, /*simulator_only=*/true},
    Experiment{"switch-latency", "one read or write of a tuple with its latch at the switch (simulator only)",
               "TODS 2025, figure 25", switch_latency, Takes::practice, /*simulator_only=*/true},
    Experiment{"switch-optimistic", "reads and writes of tuples with latches at the switch (simulator only)",
               "TODS 2025, figure 26", switch_optimistic, Takes::neither, /*simulator_only=*/true},
    Experiment{"flow-batching", "a zero-sided flow by item size and largest batch (simulator only)",
               "SIGMOD 2024, figure 7", flow_batching, Takes::neither, /*simulator_only=*/true},
    Experiment{"flow-latency", "a zero-sided flow by offered rate and polling interval (simulator only)",
               "SIGMOD 2024, figure 10", flow_latency, Takes::neither, /*simulator_only=*/true},
    Experiment{"flow-control", "zero-sided flows side by side, with rate limits, and elastic ones (simulator only)",
               "SIGMOD 2024, figures 6, 9, 11 and 13", flow_control, Takes::neither, /*simulator_only=*/true},
    Experiment{"flow-kinds", "zero-sided flows: replication, fairness, unequal consumers (simulator only)",
               "SIGMOD 2024, figures 12, 14 and 16", flow_kinds, Takes::neither, /*simulator_only=*/true},
    Experiment{"torn-reads", "torn reads by block size, and those that header and footer do not tell (simulator only)",
               "TODS 2025, figure 1(b)", torn_reads, Takes::neither, /*simulator_only=*/true},
    Experiment{"ycsb-hash-table", "YCSB A to D and F on a hash table with chains, by scheme (E scans: ycsb-btree)", "",
               ycsb_hash_table},
    Experiment{"ycsb-btree", "YCSB A to F on a B-tree whose clients cache its inner nodes, by scheme", "", ycsb_btree},
};

constexpr double kTolerance = 0.10;  // a reproduction within 10 % counts as reproduced

}  // namespace

std::span<const Experiment> experiments() { return kExperiments; }

const Experiment& find_experiment(std::string_view name) {
  const auto* found = std::ranges::find(kExperiments, name, &Experiment::name);
  if (found != kExperiments.end()) {
    return *found;
  }
  std::string names;
  for (const Experiment& experiment : kExperiments) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", experiment.name);
  }
  throw std::invalid_argument(
      fmt::format("there is no experiment {}: the names are {}, targets and list", name, names));
}

const checker::Estimate& Curves::estimate(std::size_t line, std::uint64_t x) const {
  const auto found = std::ranges::find(xs_, x);
  if (found == xs_.end()) {
    throw std::out_of_range(fmt::format("nothing was measured at {}", x));
  }
  return ys_.at(line * xs_.size() + static_cast<std::size_t>(found - xs_.begin()));
}

double Curves::at(std::size_t line, std::uint64_t x) const { return estimate(line, x).mean; }

double Curves::highest(std::size_t line) const {
  double most = 0;
  for (const std::uint64_t x : xs_) {
    most = std::max(most, at(line, x));
  }
  return most;
}

Series Curves::series(std::size_t line, std::string name, std::string unit, std::string panel) const {
  Series series{.name = std::move(name), .unit = std::move(unit), .panel = std::move(panel)};
  for (const std::uint64_t x : xs_) {
    series.points.push_back(point(static_cast<double>(x), estimate(line, x)));
  }
  return series;
}

Series from_paper(const std::string& of, std::string unit, std::vector<Point> points, std::string panel) {
  return {.name = "paper: " + of, .unit = std::move(unit), .points = std::move(points), .panel = std::move(panel)};
}

Point point(double x, const checker::Estimate& y) { return {x, y.mean, y.half_width}; }

Target number_target(std::string id, double expected, double measured, std::string unit) {
  const bool ok = std::abs(measured - expected) <= kTolerance * std::abs(expected);
  return {std::move(id), expected, measured, "", std::move(unit), ok};
}

Target exact_target(std::string id, double expected, double measured, std::string unit) {
  return {std::move(id), expected, measured, "", std::move(unit), measured == expected};
}

Target shape_target(std::string id, bool holds, std::string seen) {
  return {std::move(id), std::nullopt, 0, std::move(seen), "", holds};
}

ExperimentResult begin_result(std::string_view experiment, const ExperimentOptions& options, std::string x_label,
                              Scale x_scale) {
  const Experiment& known = find_experiment(experiment);
  ExperimentResult result;
  result.version = kVersion;
  result.experiment = known.name;
  result.title = known.summary;
  result.figure = known.figure;
  result.fabric = options.cluster == nullptr ? "sim" : softnic::is_preloaded() ? "softnic" : "verbs";
  result.profile = options.cluster != nullptr ? options.cluster->device() : options.profile;
  result.seed = options.seed;
  result.x_label = std::move(x_label);
  result.x_scale = x_scale;
  return result;
}

namespace {

const char* name(Scale scale) {
  switch (scale) {
    case Scale::linear:
      return "linear";
    case Scale::categories:
      return "categories";
    default:
      return "log";
  }
}

constexpr const char* kResultSchema = "sidelatch-experiment";
constexpr int kResultVersion = 1;

// The form of a value of x in the table.
std::string shown(const ExperimentResult& result, double x) {
  const auto position = static_cast<std::size_t>(x);
  const bool named = result.x_scale == Scale::categories && position >= 1 && position <= result.x_names.size();
  return named ? result.x_names[position - 1] : fmt::format("{:g}", x);
}

std::string shown(const Point& point) {
  return point.half_width ? fmt::format("{:.4g} +- {:.1g}", point.y, *point.half_width)
                          : fmt::format("{:.4g}", point.y);
}

// The series of one panel side by side, one row per x.
std::string panel_table(const ExperimentResult& result, const std::string& panel) {
  std::vector<const Series*> columns;
  for (const Series& series : result.series) {
    if (series.panel == panel) {
      columns.push_back(&series);
    }
  }
  std::map<double, std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  for (std::size_t s = 0; s < columns.size(); ++s) {
    std::size_t width = columns[s]->name.size();
    for (const Point& point : columns[s]->points) {
      std::vector<std::string>& row = rows[point.x];
      row.resize(columns.size());
      row[s] = shown(point);
      width = std::max(width, row[s].size());
    }
    widths.push_back(width);
  }
  std::string text = fmt::format("\n{}{}{}\n{:>12}", panel, panel.empty() ? "" : ", ",
                                 columns.empty() ? "" : columns.front()->unit, result.x_label);
  for (std::size_t s = 0; s < columns.size(); ++s) {
    text += fmt::format("  {:>{}}", columns[s]->name, widths[s]);
  }
  text += "\n";
  for (const auto& [x, cells] : rows) {
    text += fmt::format("{:>12}", shown(result, x));
    for (std::size_t s = 0; s < columns.size(); ++s) {
      text += fmt::format("  {:>{}}", cells[s], widths[s]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string to_table(std::span<const Target> targets) {
  std::string text = fmt::format("{:<14} {:>10} {:>10} {:>7}  {}\n", "target", "expected", "measured", "ratio", "");
  for (const Target& target : targets) {
    const char* verdict = target.ok ? "ok" : "MISSED";
    if (target.expected) {
      text += fmt::format("{:<14} {:>10.4g} {:>10.4g} {:>7.3f}  {} ({})\n", target.id, *target.expected,
                          target.measured, target.measured / *target.expected, verdict, target.unit);
    } else {
      text += fmt::format("{:<14} {:>10} {:>10} {:>7}  {}: {}\n", target.id, "shape", "", "", verdict, target.seen);
    }
  }
  return text;
}

std::string to_table(const ExperimentResult& result) {
  std::string text =
      fmt::format("{}: {} {}, seed {}, sidelatch {}\n", result.experiment,
                  result.fabric == "sim" ? "profile" : "device", result.profile, result.seed, result.version);
  std::vector<std::string> panels;
  for (const Series& series : result.series) {
    if (std::ranges::find(panels, series.panel) == panels.end()) {
      panels.push_back(series.panel);
    }
  }
  for (const std::string& panel : panels) {
    text += panel_table(result, panel);
  }
  return result.targets.empty() ? text : text + "\n" + to_table(result.targets);
}

nlohmann::ordered_json to_json(std::span<const Target> targets) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Target& target : targets) {
    nlohmann::ordered_json row;
    row["id"] = target.id;
    row["kind"] = target.expected ? "number" : "shape";
    row["expected"] = target.expected ? nlohmann::ordered_json(*target.expected) : nlohmann::ordered_json();
    row["measured"] = target.expected ? nlohmann::ordered_json(target.measured) : nlohmann::ordered_json(target.seen);
    row["unit"] = target.unit;
    row["ratio"] =
        target.expected ? nlohmann::ordered_json(target.measured / *target.expected) : nlohmann::ordered_json();
    row["ok"] = target.ok;
    json.push_back(std::move(row));
  }
  return json;
}

nlohmann::ordered_json to_json(const ExperimentResult& result) {
  nlohmann::ordered_json json;
  json["schema"] = {{"name", kResultSchema}, {"version", kResultVersion}};
  json["version"] = fmt::format("sidelatch {}", result.version);
  json["experiment"] = result.experiment;
  json["title"] = result.title;
  json["figure"] = result.figure;
  json["fabric"] = result.fabric;
  json[result.fabric == "sim" ? "profile" : "device"] = result.profile;
  json["seed"] = result.seed;
  json["x"] = result.x_label;
  json["x_scale"] = name(result.x_scale);
  if (result.x_scale == Scale::categories) {
    json["x_names"] = result.x_names;
  }
  json["series"] = nlohmann::ordered_json::array();
  for (const Series& series : result.series) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const Point& point : series.points) {
      points.push_back({{"x", point.x},
                        {"y", point.y},
                        {"half_width", point.half_width ? nlohmann::ordered_json(*point.half_width) : nullptr}});
    }
    json["series"].push_back(
        {{"panel", series.panel}, {"name", series.name}, {"unit", series.unit}, {"points", std::move(points)}});
  }
  json["targets"] = to_json(std::span<const Target>(result.targets));
  return json;
}

}  // namespace sidelatch::bench
