#include "commands.h"
#include "serve.h"

#include <sidelatch/checker/check.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

namespace sidelatch::tools {

namespace {

struct Arguments {
  checker::CheckOptions options;
  ServeArguments serve;
  bool json = false;
  std::string out;
};

int check(const Arguments& arguments) {
  if (arguments.serve.wanted) {
    return serve(arguments.serve, arguments.options.device, arguments.options.token, arguments.json);
  }
  if (!arguments.out.empty()) {
    // Before the work, so that nothing is measured in vain.
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    if (error) {
      throw std::invalid_argument(fmt::format("--out {}: cannot make this folder: {}", arguments.out, error.message()));
    }
  }
  checker::CheckReport report;
  {
    Progress progress;
    checker::CheckOptions options = arguments.options;
    options.interrupted = &interrupted();
    options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
    report = checker::run_check(options);
  }
  const std::string json = checker::to_json(report).dump(2) + "\n";
  const bool colour = !arguments.json && on_terminal(STDOUT_FILENO);
  const std::string table = checker::to_table(report, checker::Colour::off);
  fmt::print("{}", arguments.json ? json : colour ? checker::to_table(report, checker::Colour::on) : table);
  std::fflush(stdout);
  if (!arguments.out.empty()) {
    write_file(arguments.out + "/" + kSavedDatasheet, json);
    write_file(arguments.out + "/check.txt", table);
  }
  if (interrupted()) {
    return kInterrupted;
  }
  if (!report.failure.empty()) {
    fmt::print(stderr, "sidelatch: {}\n", report.failure);
    return kNoEnvironment;
  }
  return report.as_expected() ? kAsExpected : kNotAsExpected;
}

}  // namespace

void add_check(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = program.add_subcommand(
      "check", "Torn reads, the schemes on the same ring, order of requests, lost unlatches, the lock table");
  command->add_option("--fabric", arguments->options.fabric, "auto, verbs, softnic or sim (default auto)");
  command->add_option("--device", arguments->options.device,
                      "verbs: NIC, as `sidelatch devices` lists it (default: the first with an active port)");
  CLI::Option* server = add_serve_options(*command, arguments->serve);
  command
      ->add_option("--connect", arguments->options.server,
                   "HOST[:PORT] of `sidelatch check --server`: the memory is there (default: on this machine)")
      ->excludes(server);
  command->add_option("--token", arguments->options.token, "--server, --connect: a word that both must give");
  command->add_option("--profile", arguments->options.profile,
                      "simulator: NIC profile, a name or a TOML file (default connectx5)");
  command->add_option("--seconds", arguments->options.seconds, "time limit, seconds (default 60)");
  command
      ->add_option("--parts", arguments->options.parts,
                   "what to do, comma-separated: torn-reads, schemes, latches, effects, lock-table, rates, proofs "
                   "(default all)")
      ->delimiter(',');
  command->add_flag("--relaxed-ordering", arguments->options.relaxed_ordering,
                    "memory is registered for relaxed ordering");
  command->add_option("--sizes", arguments->options.sizes, "block sizes, bytes, comma-separated (default 64 to 16384)")
      ->delimiter(',')
      ->check(whole_number());
  command
      ->add_option("--reads", arguments->options.reads,
                   "reads per size and scheme, and chances per other probe (default 20000)")
      ->check(whole_number());
  command->add_option("--seed", arguments->options.seed, "simulator: seed (default 1)")->check(whole_number());
  command->add_flag("--json", arguments->json, "print one JSON value instead of the table");
  command->add_option("--out", arguments->out, "folder to save check.json and check.txt in");
  command->callback([arguments, &action] { action = [arguments] { return check(*arguments); }; });
}

}  // namespace sidelatch::tools
