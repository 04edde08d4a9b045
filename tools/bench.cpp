#include "commands.h"

#include <sidelatch/bench/experiment.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  std::string name;
  bench::ExperimentOptions options;
  std::string fabric = "sim";
  bool json = false;
  bool strict = false;
};

int status_of(const std::vector<bench::Target>& targets, bool strict) {
  if (interrupted()) {
    return kInterrupted;
  }
  return strict && !std::ranges::all_of(targets, &bench::Target::ok) ? kNotAsExpected : kAsExpected;
}

int list(const Arguments& arguments) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const bench::Experiment& experiment : bench::experiments()) {
    json.push_back({{"name", experiment.name}, {"summary", experiment.summary}});
    if (!arguments.json) {
      fmt::print("{:<20}  {}\n", experiment.name, experiment.summary);
    }
  }
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2));
  }
  return kAsExpected;
}

int targets(const Arguments& arguments) {
  std::vector<bench::Target> all;
  for (const bench::Experiment& experiment : bench::experiments()) {
    if (interrupted()) {
      break;
    }
    const bench::ExperimentResult result = experiment.run(arguments.options);
    all.insert(all.end(), result.targets.begin(), result.targets.end());
  }
  fmt::print("{}", arguments.json ? bench::to_json(all).dump(2) + "\n" : bench::to_table(all));
  return status_of(all, arguments.strict);
}

int bench_command(const Arguments& arguments) {
  if (arguments.fabric != "sim") {
    throw std::invalid_argument(
        fmt::format("--fabric {}: this version runs its experiments on sim only", arguments.fabric));
  }
  if (arguments.name == "list") {
    return list(arguments);
  }
  if (arguments.name == "targets") {
    return targets(arguments);
  }
  const bench::ExperimentResult result = bench::find_experiment(arguments.name).run(arguments.options);
  fmt::print("{}", arguments.json ? bench::to_json(result).dump(2) + "\n" : bench::to_table(result));
  return status_of(result.targets, arguments.strict);
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = program.add_subcommand("bench", "Experiments that reproduce figures of the papers");
  command->add_option("name", arguments->name, "an experiment, or list, or targets (all of them against the papers)")
      ->required();
  command->add_option("--profile", arguments->options.profile,
                      "simulator: NIC profile, a name or a TOML file (default connectx5)");
  command->add_option("--fabric", arguments->fabric, "sim (default sim)");
  command->add_option("--seed", arguments->options.seed, "simulator: seed (default 1)")->check(whole_number());
  command->add_flag("--json", arguments->json, "print one JSON value instead of a table");
  command->add_flag("--strict", arguments->strict, "exit with 1 if a target is missed");
  command->callback([arguments, &action] { action = [arguments] { return bench_command(*arguments); }; });
}

}  // namespace sidelatch::tools
