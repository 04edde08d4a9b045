// The registry of experiments, and how their results are put together and shown.
#include "experiments.h"

#include <sidelatch/bench/cluster.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>

namespace sidelatch::bench {

namespace {

// A new experiment is one line here.
constexpr std::array kExperiments = {
    Experiment{"atomics-contention", "RDMA atomics on one counter and on private counters, 1 to 512 workers",
               atomics_contention},
    Experiment{"atomics-stride", "private counters at growing strides, padded and packed; lock-slot address bits",
               atomics_stride},
    Experiment{"latch-ablation", "one worker, latch optimizations one after the other", latch_ablation},
    Experiment{"latch-scaling", "exclusive latches on 20 000 tuples, 8 to 128 workers", latch_scaling},
    Experiment{"optimistic-size", "reads of 256 B to 256 KiB by one worker, latches and optimistic schemes",
               optimistic_size},
    Experiment{"optimistic-scaling", "reads and updates by optimistic schemes, 8 to 128 workers", optimistic_scaling},
    Experiment{"btree-lookups", "lookups in a B-tree with nodes of 4 KiB, 1 to 128 workers", btree_lookups},
    Experiment{"kv-store", "a store of 20 million tuples on four memory nodes by skew, latches", kv_store},
    Experiment{"kv-store-512", "the same with 512 B and 224 workers, latches and optimistic schemes", kv_store_512},
    Experiment{"connectx7-stride", "counters at growing strides on a ConnectX-7 (profile connectx7)", connectx7_stride},
    Experiment{"smartnic-latch", "latches by RPC on a BlueField-2, CAS on a ConnectX-7 (simulator only)",
               smartnic_latch, /*simulator_only=*/true},
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

double Curves::at(std::size_t line, std::uint64_t x) const {
  const auto found = std::ranges::find(xs_, x);
  if (found == xs_.end()) {
    throw std::out_of_range(fmt::format("nothing was measured at {}", x));
  }
  return ys_.at(line * xs_.size() + static_cast<std::size_t>(found - xs_.begin()));
}

Series Curves::series(std::size_t line, std::string name, std::string unit) const {
  Series series{std::move(name), std::move(unit), {}};
  for (const std::uint64_t x : xs_) {
    series.points.push_back({static_cast<double>(x), at(line, x)});
  }
  return series;
}

Target number_target(std::string id, double expected, double measured, std::string unit) {
  const bool ok = std::abs(measured - expected) <= kTolerance * std::abs(expected);
  return {std::move(id), expected, measured, "", std::move(unit), ok};
}

Target shape_target(std::string id, bool holds, std::string seen) {
  return {std::move(id), std::nullopt, 0, std::move(seen), "", holds};
}

ExperimentResult begin_result(std::string experiment, const ExperimentOptions& options, std::string x_label) {
  if (options.cluster != nullptr) {
    return {std::move(experiment), "verbs", options.cluster->device(), options.seed, std::move(x_label), {}, {}};
  }
  return {std::move(experiment), "sim", options.profile, options.seed, std::move(x_label), {}, {}};
}

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
      fmt::format("{}: {} {}, seed {}\n\n{:>10}", result.experiment, result.fabric == "sim" ? "profile" : "device",
                  result.profile, result.seed, result.x_label);
  std::map<double, std::vector<std::optional<double>>> rows;
  for (std::size_t s = 0; s < result.series.size(); ++s) {
    text += fmt::format("  {:>16}", result.series[s].name);
    for (const Point& point : result.series[s].points) {
      rows[point.x].resize(result.series.size());
      rows[point.x][s] = point.y;
    }
  }
  text += "\n";
  for (const auto& [x, values] : rows) {
    text += fmt::format("{:>10g}", x);
    for (const std::optional<double>& y : values) {
      text += y ? fmt::format("  {:>16.2f}", *y) : fmt::format("  {:>16}", "");
    }
    text += "\n";
  }
  return text + "\n" + to_table(result.targets);
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
  json["experiment"] = result.experiment;
  json["fabric"] = result.fabric;
  json[result.fabric == "sim" ? "profile" : "device"] = result.profile;
  json["seed"] = result.seed;
  json["x"] = result.x_label;
  json["series"] = nlohmann::ordered_json::array();
  for (const Series& series : result.series) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const Point& point : series.points) {
      points.push_back({{"x", point.x}, {"y", point.y}});
    }
    json["series"].push_back({{"name", series.name}, {"unit", series.unit}, {"points", std::move(points)}});
  }
  json["targets"] = to_json(std::span<const Target>(result.targets));
  return json;
}

}  // namespace sidelatch::bench
