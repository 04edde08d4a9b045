// The program `sidelatch`.
#include "commands.h"
#include "options.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/explore/litmus.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/version.h>

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace sidelatch;

std::atomic<bool> interrupt_seen{false};
std::vector<std::string> given_command_line;

void on_interrupt(int /*signal*/) {
  // The second Ctrl-C ends the process even if a job ignores the flag.
  if (interrupt_seen.exchange(true)) {
    std::_Exit(tools::kInterrupted);
  }
}

// CLI11 would only report a missing subcommand.
void require_known_command(const CLI::App& program, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return;
  }
  std::string names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) {
      return;
    }
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw std::invalid_argument(fmt::format("there is no command {}: the commands are {}", argv[1], names));
}

int run(int argc, char** argv) {
  CLI::App program{
      "sidelatch: synchronization primitives for one-sided RDMA, and the checker that proves or refutes them"};
  program.set_version_flag("--version", fmt::format("sidelatch {}", kVersion));
  program.require_subcommand(1);
  program.failure_message(CLI::FailureMessage::simple);
  tools::Action action;
  tools::add_check(program, action);
  tools::add_explore(program, action);
  tools::add_litmus(program, action);
  tools::add_bench(program, action);
  tools::add_report(program, action);
  tools::add_devices(program, action);
  tools::add_softnic(program, action);
  require_known_command(program, argc, argv);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a status for each kind of mistake; here every mistake is 2, and --help is 0.
    const int status = program.exit(error);
    return status == 0 ? tools::kAsExpected : tools::kBadInput;
  }
  return action();
}

}  // namespace

const std::atomic<bool>& sidelatch::tools::interrupted() { return interrupt_seen; }

const std::vector<std::string>& sidelatch::tools::command_line() { return given_command_line; }

int main(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  given_command_line.assign(argv, argv + argc);
  try {
    return run(argc, argv);
  } catch (const checker::EnvironmentError& error) {
    fmt::print(stderr, "sidelatch: {}\n", error.what());
    return tools::kNoEnvironment;
  } catch (const fabric::sim::ProfileError& error) {
    fmt::print(stderr, "sidelatch: {}\n", error.what());
    return tools::kBadInput;
  } catch (const explore::LitmusError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return tools::kBadInput;
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "sidelatch: {}\n", error.what());
    return tools::kBadInput;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sidelatch: {}\n", error.what());
    return tools::kNoEnvironment;
  }
}
