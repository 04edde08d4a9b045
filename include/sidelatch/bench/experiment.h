// Experiments: one file each in bench/, one line each in bench/experiments.cpp. Each reproduces a figure of a paper and
// compares what it measured with the numbers of that paper, by their ids in docs/numbers.md.
//
//   ExperimentResult result = find_experiment("atomics-stride").run({.profile = "connectx5"});
//   result.targets[0].ok      // within 10 %, or the shape holds
#pragma once

#include <sidelatch/fabric/types.h>

#include <nlohmann/json_fwd.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::bench {

class Cluster;

/// How the clients of an experiment with latches or optimistic schemes work.
enum class Practice : std::uint8_t {
  /// As the papers' clients: one doorbell for each request, and a client that meets a latch tries again at once.
  /// At the switch, the published write, which corrupts tuples (docs/figures.md).
  paper,
  /// As this library advises: one doorbell for a chain of requests, and random waits that grow (sync::Retry::backoff).
  advised
};

struct ExperimentOptions {
  std::string profile = "connectx5";  ///< simulator profile: a name or the path of a TOML file
  std::uint64_t seed = 1;
  Cluster* cluster = nullptr;  ///< real NICs instead of the simulator; its processes all run the experiment
  Practice practice = Practice::paper;
  /// For experiments with a store: the upper limit of a client's random wait before it tries a latch again. None: as
  /// `practice` says.
  std::optional<fabric::Duration> longest_wait{};
  /// Called after each point with the number of points done and of all points; from any thread, one call at a time.
  std::function<void(std::size_t done, std::size_t all)> progress{};
  /// Set to true to end at once: the experiment throws Interrupted.
  const std::atomic<bool>* interrupted = nullptr;
};

/// An experiment was ended by ExperimentOptions::interrupted.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Point {
  double x = 0;
  double y = 0;
  /// With 95 % confidence the true mean lies within y - half_width and y + half_width; none: not known.
  std::optional<double> half_width{};
};

struct Series {
  std::string name;
  std::string unit;  ///< of y
  std::vector<Point> points{};
  std::string panel{};  ///< of the figure, if it has several
};

/// The scale of x: logarithmic, linear, or positions of names.
enum class Scale : std::uint8_t { log, linear, categories };

/// A number or a shape that a paper reports, and what was measured here.
struct Target {
  std::string id;                  ///< "N3", or "N1.atomics" if a row has several numbers
  std::optional<double> expected;  ///< empty for a shape
  double measured = 0;             ///< for a number
  std::string seen;                ///< for a shape: what was seen, in one line
  std::string unit;
  bool ok = false;
};

/// A number: ok if `measured` is within 10 % of `expected`.
[[nodiscard]] Target number_target(std::string id, double expected, double measured, std::string unit);
/// A number that is not measured but counted: it must be this one.
[[nodiscard]] Target exact_target(std::string id, double expected, double measured, std::string unit);
/// A shape: an order or a crossing that must hold.
[[nodiscard]] Target shape_target(std::string id, bool holds, std::string seen);

struct ExperimentResult {
  std::string version;  ///< of the sidelatch that measured it
  std::string experiment;
  std::string title;
  std::string figure;   ///< the figure that it reproduces: paper and number; empty if none
  std::string fabric;   ///< "sim", "verbs" or "softnic"
  std::string profile;  ///< sim: the NIC's profile; else the device's name
  std::uint64_t seed = 0;
  std::string x_label;
  Scale x_scale = Scale::log;
  std::vector<std::string> x_names;  ///< Scale::categories: the names of x = 1, 2, ...
  std::vector<Series> series;
  std::vector<Target> targets;
};

/// Which options of its clients an experiment takes: ExperimentOptions::practice, or also ::longest_wait.
enum class Takes : std::uint8_t { neither, practice, practice_and_waits };

struct Experiment {
  std::string_view name;
  std::string_view summary;
  std::string_view figure;  ///< as in ExperimentResult
  ExperimentResult (*run)(const ExperimentOptions& options) = nullptr;
  Takes takes = Takes::neither;
  bool simulator_only = false;  ///< run() throws std::invalid_argument if it is given a cluster
};

[[nodiscard]] std::span<const Experiment> experiments();
/// Throws std::invalid_argument that lists the names.
[[nodiscard]] const Experiment& find_experiment(std::string_view name);

[[nodiscard]] std::string to_table(const ExperimentResult& result);
[[nodiscard]] nlohmann::ordered_json to_json(const ExperimentResult& result);
[[nodiscard]] std::string to_table(std::span<const Target> targets);
[[nodiscard]] nlohmann::ordered_json to_json(std::span<const Target> targets);

}  // namespace sidelatch::bench
