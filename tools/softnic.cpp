#include "commands.h"
#include "options.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  softnic::LaunchOptions options;
  std::string pcap;
  std::vector<std::string> command;
};

// Takes a copy, because execvp() wants char* although it promises not to write.
[[noreturn]] void execute(const std::string& program, std::vector<std::string> command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  restore_limit_signal();
  ::execvp(program.c_str(), arguments.data());
  throw checker::EnvironmentError(fmt::format("cannot run {}: {}", program, std::strerror(errno)));
}

// Before anything is changed for it, such as a capture that is replaced. Where execvp() finds it.
std::string find_program(const std::string& name) {
  int why = ENOENT;
  const auto is_there = [&](const std::string& path) {
    if (::access(path.c_str(), X_OK) != 0) {
      why = errno == ENOENT ? why : errno;
      return false;
    }
    const bool is_folder = std::filesystem::is_directory(path);
    why = is_folder ? EACCES : why;
    return !is_folder;
  };
  if (name.find('/') != std::string::npos) {
    if (is_there(name)) {
      return name;
    }
  } else {
    const char* const all = ::getenv("PATH");
    std::string folders = fmt::format("{}:", all == nullptr ? "/bin:/usr/bin" : all);
    for (std::size_t end = 0; (end = folders.find(':')) != std::string::npos; folders.erase(0, end + 1)) {
      if (std::string path = fmt::format("{}/{}", end == 0 ? "." : folders.substr(0, end), name); is_there(path)) {
        return path;
      }
    }
  }
  throw checker::EnvironmentError(fmt::format("cannot run {}: {}", name, std::strerror(why)));
}

// Returns only by an exception: the command's exit status becomes this process's.
int run(Arguments& arguments) {
  const std::string program = find_program(arguments.command.front());
  require_apart("--pcap", arguments.pcap, program, "the program that is to run");
  arguments.options.pcap = arguments.pcap;
  softnic::set_environment(arguments.options);
  execute(arguments.command.front(), arguments.command);
}

}  // namespace

void become_softnic(const softnic::LaunchOptions& options, const std::vector<std::string>& given) {
  // Says that this process has restarted itself: its number stays, and no other process has it.
  constexpr const char* kRestarted = "SIDELATCH_RESTARTED";
  const std::string self = std::to_string(::getpid());
  const char* const restarted = ::getenv(kRestarted);
  const bool is_restarted = restarted != nullptr && restarted == self;
  ::unsetenv(kRestarted);
  if (softnic::is_preloaded()) {
    if (!is_restarted && !given.empty()) {
      throw std::invalid_argument(
          fmt::format("{}: give it to `softnic run`, which started this program with its NIC", given.front()));
    }
    return;
  }
  softnic::set_environment(options);
  ::setenv(kRestarted, self.c_str(), 1);
  execute("/proc/self/exe", command_line());
}

void add_softnic(Program& program) {
  Command softnic = program.command("softnic", "The software NIC: RDMA on any machine");
  auto arguments = std::make_shared<Arguments>();
  softnic::LaunchOptions& options = arguments->options;
  Command command =
      softnic.subcommand("run", "Run an unmodified libibverbs program on the software NIC, device sidelatch0");
  command.option("command", arguments->command, "the program and its arguments, after --").required();
  command.option(
      "--wire", options.wire,
      "shm:NAME, folder:PATH, link:OURS,THEIRS,ADDRESS, interface:NAME,ADDRESS or switch:NAME,ADDRESS (default "
      "shm:default)");
  Option order =
      command.option("--order", options.order,
                     "touch memory line by line, in any order that this preset of the memory model allows: strict, "
                     "observed, spec or relaxed (default: at once)");
  command.option("--seed", options.seed, "--order: seed of the NIC's choices (default 1)").needs(order);
  command.option("--torn-bias", options.torn_bias,
                 "--order: chance that the lines of a request are touched far apart (default 0)");
  command.option("--atomics", options.atomics,
                 "what the device says of its atomics: glob, atomic for CPUs too, or hca, only among its own, as real "
                 "NICs say (default: what holds)");
  command.option("--loss", options.loss, "chance that a frame that is sent is lost (default 0)");
  command.option("--duplication", options.duplication, "chance that it arrives twice (default 0)");
  command.option("--corruption", options.corruption, "chance that a bit of it is wrong (default 0)");
  command.option("--reordering", options.reordering, "chance that later ones overtake it (default 0)");
  command.option("--delay", options.delay, "chance that it comes a millisecond later (default 0)");
  command.option("--fault-seed", options.fault_seed, "seed of these (default 1)");
  command.option("--pcap", arguments->pcap, "capture the frames to that file, for tshark");
  command.runs([arguments] { return run(*arguments); });
}

}  // namespace sidelatch::tools
