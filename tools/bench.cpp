#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "serve.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/bench/experiment.h>
#include <sidelatch/checker/check.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  std::string name;
  bench::ExperimentOptions options;
  std::string fabric = "auto";
  bench::Cluster::Options cluster;
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> ranks;
  double milliseconds = 200;
  std::optional<double> longest_wait_us;
  std::string practice;                // paper
  std::optional<std::string> profile;  // of ExperimentOptions
  std::optional<std::uint64_t> seed;   // of ExperimentOptions
  std::string out;
  std::vector<std::string> only;  // experiments of `targets`
  ServeArguments serve;
  bool json = false;
  bool strict = false;
};

int status_of(const std::vector<bench::Target>& targets, bool strict) {
  if (interrupted()) {
    return kInterrupted;
  }
  return strict && !std::ranges::all_of(targets, &bench::Target::ok) ? kNotAsExpected : kAsExpected;
}

void refuse_given(std::initializer_list<std::pair<const char*, bool>> options, std::string_view why) {
  for (const auto& [option, is_given] : options) {
    if (is_given) {
      throw std::invalid_argument(fmt::format("{}: {}; leave it out", option, why));
    }
  }
}

// The options of what is run: `why` says that nothing is.
void refuse_options_of_runs(const Arguments& arguments, std::string_view why) {
  refuse_given({{"--only", !arguments.only.empty()},
                {"--profile", arguments.profile.has_value()},
                {"--seed", arguments.seed.has_value()},
                {"--longest-wait-us", arguments.longest_wait_us.has_value()},
                {"--practice", !arguments.practice.empty()},
                {"--out", !arguments.out.empty()},
                {"--strict", arguments.strict}},
               why);
}

int list(const Arguments& arguments) {
  constexpr auto* kWhy = "`bench list` runs nothing";
  refuse_options_of_runs(arguments, kWhy);
  refuse_given({{"--connect", !arguments.cluster.server.empty()},
                {"--fabric", arguments.fabric != "auto"},
                {"--device", !arguments.cluster.device.empty()},
                {"--token", !arguments.cluster.token.empty()}},
               kWhy);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const bench::Experiment& experiment : bench::experiments()) {
    json.push_back({{"name", experiment.name}, {"summary", experiment.summary}, {"figure", experiment.figure}});
    if (!arguments.json) {
      fmt::print("{:<20}  {}\n", experiment.name, experiment.summary);
    }
  }
  if (arguments.json) {
    fmt::print("{}\n", text_of(json));
  }
  return kAsExpected;
}

std::string file_of(const Arguments& arguments, std::string_view experiment) {
  return (std::filesystem::path(arguments.out) / fmt::format("{}.json", experiment)).string();
}

// Called before work that may take minutes.
void require_room_for_results(const Arguments& arguments, const std::vector<bench::Experiment>& experiments) {
  if (arguments.out.empty()) {
    return;
  }
  std::error_code failed;
  std::filesystem::create_directories(arguments.out, failed);
  if (failed) {
    throw std::invalid_argument(fmt::format("--out {}: {}", arguments.out, failed.message()));
  }
  for (const bench::Experiment& experiment : experiments) {
    require_writable(file_of(arguments, experiment.name));
  }
}

// Only one process prints the common result.
bool prints(const Arguments& arguments) { return arguments.options.cluster == nullptr || arguments.cluster.rank == 0; }

bench::ExperimentResult run(const Arguments& arguments, const bench::Experiment& experiment) {
  Progress progress{std::string(experiment.name)};
  bench::ExperimentOptions options = arguments.options;
  options.progress = [&progress](std::size_t done, std::size_t all) { progress.show(done, all); };
  bench::ExperimentResult result = experiment.run(options);
  if (!arguments.out.empty() && prints(arguments)) {
    write_file(file_of(arguments, result.experiment), text_of(bench::to_json(result)) + "\n");
  }
  return result;
}

void leave_out_simulator_only(std::vector<bench::Experiment>& chosen, const Arguments& arguments) {
  for (const bench::Experiment& experiment : chosen) {
    if (experiment.simulator_only && prints(arguments)) {
      const std::string left_out = fmt::format("{}: left out, it is for the simulator only\n", experiment.name);
      arguments.json ? say_text(left_out) : fmt::print("{}", left_out);
    }
  }
  std::erase_if(chosen, [](const bench::Experiment& experiment) { return experiment.simulator_only; });
}

int targets(const Arguments& arguments) {
  std::vector<bench::Experiment> chosen;
  chosen.reserve(arguments.only.size());
  for (const std::string& name : arguments.only) {
    chosen.push_back(bench::find_experiment(name));
  }
  if (chosen.empty()) {
    std::ranges::copy_if(bench::experiments(), std::back_inserter(chosen),
                         [](const bench::Experiment& experiment) { return !experiment.figure.empty(); });
    if (arguments.options.cluster != nullptr) {
      leave_out_simulator_only(chosen, arguments);
    }
  }
  require_room_for_results(arguments, chosen);
  std::vector<bench::Target> all;
  try {
    for (const bench::Experiment& experiment : chosen) {
      const bench::ExperimentResult result = run(arguments, experiment);
      all.insert(all.end(), result.targets.begin(), result.targets.end());
    }
  } catch (const bench::Interrupted&) {  // results up to then are printed
  }
  if (prints(arguments)) {
    fmt::print("{}", arguments.json ? text_of(bench::to_json(all)) + "\n" : bench::to_table(all));
  }
  return status_of(all, arguments.strict);
}

int run_experiments(const Arguments& arguments) {
  if (arguments.name == "targets") {
    return targets(arguments);
  }
  const bench::Experiment& experiment = bench::find_experiment(arguments.name);
  require_room_for_results(arguments, {experiment});
  const bench::ExperimentResult result = run(arguments, experiment);
  if (prints(arguments)) {
    fmt::print("{}", arguments.json ? text_of(bench::to_json(result)) + "\n" : bench::to_table(result));
  }
  return status_of(result.targets, arguments.strict);
}

void refuse_simulator_only(const bench::Experiment& experiment) {
  if (experiment.simulator_only) {
    throw std::invalid_argument(
        fmt::format("bench {}: it is for the simulator only; leave --connect out", experiment.name));
  }
}

// These would change nothing in any of the experiments.
void refuse_what_is_not_taken(const Arguments& arguments) {
  std::vector<std::string> names = arguments.only;
  if (arguments.name != "targets") {
    names = {arguments.name};
  }
  std::vector<bench::Takes> takes;
  takes.reserve(names.size());
  for (const std::string& name : names) {
    takes.push_back(bench::find_experiment(name).takes);
  }
  if (takes.empty()) {  // all of them: some take it
    return;
  }
  using bench::Takes;
  if (!arguments.practice.empty() && std::ranges::all_of(takes, [](Takes one) { return one == Takes::neither; })) {
    throw std::invalid_argument(fmt::format(
        "--practice: bench {} has no clients whose practice may differ; leave it out", fmt::join(names, ", ")));
  }
  if (arguments.longest_wait_us &&
      std::ranges::none_of(takes, [](Takes one) { return one == Takes::practice_and_waits; })) {
    throw std::invalid_argument(
        fmt::format("--longest-wait-us: it is for the stores, not for bench {}; leave it out", fmt::join(names, ", ")));
  }
}

int run_in_cluster(Arguments arguments) {
  if (arguments.name != "targets") {
    refuse_simulator_only(bench::find_experiment(arguments.name));  // before others wait for this process
  }
  for (const std::string& name : arguments.only) {
    refuse_simulator_only(bench::find_experiment(name));
  }
  if (arguments.rank.has_value() != arguments.ranks.has_value()) {
    throw std::invalid_argument("--rank and --ranks: give both, or none to take what mpirun or srun says");
  }
  const auto started = arguments.rank ? bench::Rank{*arguments.rank, *arguments.ranks}
                                      : bench::rank_from_environment().value_or(bench::Rank{});
  arguments.cluster.rank = started.rank;
  arguments.cluster.ranks = started.ranks;
  constexpr double kLongest = 3.6e6;
  if (!(arguments.milliseconds >= 1) || arguments.milliseconds > kLongest) {
    throw std::invalid_argument(
        fmt::format("--milliseconds {}: it must be 1 to {} (an hour)", arguments.milliseconds, kLongest));
  }
  arguments.cluster.measured = fabric::from_ns(arguments.milliseconds * 1e6);
  arguments.cluster.warm_up = arguments.cluster.measured / 10;
  arguments.cluster.interrupted = &interrupted();
  try {
    bench::Cluster cluster(arguments.cluster);
    arguments.options.cluster = &cluster;
    return run_experiments(arguments);
  } catch (const std::runtime_error&) {
    if (interrupted()) {
      return kInterrupted;
    }
    throw;
  }
}

int lend(const Arguments& arguments) {
  constexpr auto* kWhy = "--server lends memory and runs nothing";
  if (!arguments.name.empty()) {
    throw std::invalid_argument(fmt::format("bench {}: {}; leave one of them out", arguments.name, kWhy));
  }
  refuse_options_of_runs(arguments, kWhy);
  if (arguments.fabric == "sim") {
    throw std::invalid_argument("--fabric sim: --server lends the memory of a NIC; use --fabric verbs or softnic");
  }
  if (arguments.fabric == "softnic") {
    become_softnic({});
  }
  return serve(arguments.serve, {.device = arguments.cluster.device}, arguments.cluster.token, arguments.json);
}

int bench_command(Arguments arguments) {
  if (arguments.fabric != "auto" && arguments.fabric != "sim" && arguments.fabric != "verbs" &&
      arguments.fabric != "softnic") {
    throw std::invalid_argument(fmt::format("--fabric {}: it must be auto, verbs, softnic or sim", arguments.fabric));
  }
  if (!arguments.practice.empty() && arguments.practice != "paper" && arguments.practice != "advised") {
    throw std::invalid_argument(fmt::format("--practice {}: it must be paper or advised", arguments.practice));
  }
  if (arguments.longest_wait_us) {
    constexpr double kLongestUs = 1e6;
    if (!(*arguments.longest_wait_us > 0) || *arguments.longest_wait_us > kLongestUs) {
      throw std::invalid_argument(fmt::format("--longest-wait-us {}: it must be more than 0 and at most {} (a second)",
                                              *arguments.longest_wait_us, kLongestUs));
    }
    arguments.options.longest_wait = fabric::from_ns(*arguments.longest_wait_us * 1e3);
  }
  if (arguments.serve.wanted) {
    return lend(arguments);
  }
  if (arguments.name.empty()) {
    throw std::invalid_argument("bench: give an experiment, or list, or targets, or --server");
  }
  if (arguments.name == "list") {
    return list(arguments);
  }
  if (!arguments.only.empty() && arguments.name != "targets") {
    throw std::invalid_argument(fmt::format("--only is for `bench targets`, not for {}", arguments.name));
  }
  refuse_what_is_not_taken(arguments);
  arguments.options.practice = arguments.practice == "advised" ? bench::Practice::advised : bench::Practice::paper;
  arguments.options.profile = arguments.profile.value_or(arguments.options.profile);
  arguments.options.seed = arguments.seed.value_or(arguments.options.seed);
  arguments.options.interrupted = &interrupted();
  const bool connects = !arguments.cluster.server.empty();
  const bool softnic = arguments.fabric == "softnic";
  if (arguments.fabric == "sim" && connects) {
    throw std::invalid_argument("--fabric sim: --connect is for verbs; leave one of them out");
  }
  if ((arguments.fabric == "verbs" || softnic) && !connects) {
    throw std::invalid_argument(fmt::format(
        "--fabric {}: give --connect HOST[:PORT], after `sidelatch bench --server` there", arguments.fabric));
  }
  if (!connects && !(arguments.cluster.device.empty() && arguments.cluster.token.empty())) {
    throw std::invalid_argument(
        "--device and --token are for --server and --connect; give one of them, or leave them out");
  }
  if (softnic) {
    become_softnic({});
  }
  try {
    return connects ? run_in_cluster(arguments) : run_experiments(arguments);
  } catch (const bench::Interrupted&) {
    return kInterrupted;
  }
}

}  // namespace

void add_bench(Program& program) {
  auto arguments = std::make_shared<Arguments>();
  Command command = program.command("bench", "Experiments that reproduce figures of the papers");
  command.option("name", arguments->name, "an experiment, or list, or targets (all of them against the papers)");
  command.option("--only", arguments->only, "targets: of this experiment alone; may be repeated (default all)")
      .one_at_a_time();
  Option profile = command.option("--profile", arguments->profile,
                                  "simulator: NIC profile, a name or a TOML file (default connectx5)");
  command.option("--fabric", arguments->fabric,
                 "auto, verbs, softnic or sim (default auto: verbs with --connect and --server, else sim)");
  Option server = add_serve_options(command, arguments->serve);
  Option connect = command
                       .option("--connect", arguments->cluster.server,
                               "HOST[:PORT] of `sidelatch bench --server`: run on NICs, with the memory there")
                       .excludes(server)
                       .excludes(profile);
  command.option("--device", arguments->cluster.device,
                 "verbs: NIC, as `sidelatch devices` lists it (default: the first with an active port)");
  command.option("--token", arguments->cluster.token, "--server, --connect: a word that both must give");
  command
      .option("--rank", arguments->rank,
              "--connect: number of this client, from 0 (default: what mpirun or srun says, else 0)")
      .needs(connect);
  command.option("--ranks", arguments->ranks, "--connect: how many clients there are").needs(connect);
  command.option("--run", arguments->cluster.run, "--connect: name that the clients of one run share (default bench)")
      .needs(connect);
  command.option("--milliseconds", arguments->milliseconds, "--connect: measured per point (default 200)")
      .needs(connect);
  command.option("--seed", arguments->seed, "simulator: seed (default 1)");
  command.option("--longest-wait-us", arguments->longest_wait_us,
                 "stores: the longest that a client waits, at random, for a latch (default: as --practice says)");
  command.option("--practice", arguments->practice,
                 "schemes: paper (a doorbell for each request, retry at once) or advised (chains, back-off); "
                 "default paper");
  command.option("--out", arguments->out, "folder to save each result in as EXPERIMENT.json, for `report`");
  command.flag("--json", arguments->json, "print one JSON value instead of a table");
  command.flag("--strict", arguments->strict, "exit with 1 if a target is missed");
  command.runs([arguments] { return bench_command(*arguments); });
}

}  // namespace sidelatch::tools
