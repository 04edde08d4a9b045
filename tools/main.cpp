// The program `sidelatch`.
#include "commands.h"
#include "options.h"

#include "common/json_reason.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/explore/litmus.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/stf.h>
#include <sidelatch/version.h>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using namespace sidelatch;

std::atomic<bool> interrupt_seen{false};
std::vector<std::string> given_command_line;

// Who has interrupted this process first, and when: another one, by its number, or the terminal.
constexpr pid_t kNobody = -2;
constexpr pid_t kTerminal = -1;
std::atomic<pid_t> interrupted_by{kNobody};
std::atomic<std::int64_t> interrupted_at{0};  // milliseconds of the monotonic clock; 0: never

std::int64_t monotonic_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  return now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1'000'000;
}

void on_interrupt(int /*signal*/, siginfo_t* what, void* /*context*/) {
  const pid_t by = what->si_code <= 0 ? what->si_pid : kTerminal;  // sigaction(2): SI_USER and its like
  const std::int64_t now = monotonic_ms();
  pid_t first = kNobody;
  if (interrupted_by.compare_exchange_strong(first, by)) {
    interrupted_at.store(now);
    interrupt_seen.store(true);
    return;
  }
  // The second Ctrl-C ends the process even if a job ignores the flag. But timeout(1) sends its signal to the process
  // and then at once to the group, and that is one request: the results so far must come.
  constexpr std::int64_t kAtOnce = 1000;  // of a busy machine
  const std::int64_t since = interrupted_at.load();
  const bool is_the_same = by != kTerminal && by == first && (since == 0 || now - since < kAtOnce);
  if (!is_the_same) {
    std::_Exit(tools::kInterrupted);
  }
}

void take_interrupts() {
  struct sigaction action {};
  action.sa_sigaction = on_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

// What a command prints may still lie in the buffer; a full device shows only now.
int written(int status) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) {
    return status;
  }
  const char* const reason = errno != 0 ? std::strerror(errno) : "an earlier part is lost; is its device full?";
  throw std::runtime_error(fmt::format("cannot write to standard output: {}", reason));
}

// fmt knows a stream that takes nothing as a "file".
[[noreturn]] void rethrow_with_stream(const std::system_error& error) {
  if (std::string_view(error.what()).starts_with("cannot write to file")) {
    throw std::runtime_error(fmt::format("cannot write to standard output: {}", error.code().message()));
  }
  throw;
}

int run(int argc, char** argv) {
  tools::Program program(
      "sidelatch: synchronization primitives for one-sided RDMA, and the checker that proves or refutes them",
      fmt::format("sidelatch {}", kVersion));
  tools::add_check(program);
  tools::add_explore(program);
  tools::add_litmus(program);
  tools::add_bench(program);
  tools::add_report(program);
  tools::add_devices(program);
  tools::add_softnic(program);
  tools::add_p4(program);
  tools::add_switch(program);
  tools::add_flow(program);
  try {
    return written(program.run(argc, argv));
  } catch (const std::system_error& error) {
    rethrow_with_stream(error);
  }
}

}  // namespace

const std::atomic<bool>& sidelatch::tools::interrupted() { return interrupt_seen; }

const std::vector<std::string>& sidelatch::tools::command_line() { return given_command_line; }

int main(int argc, char** argv) {
  tools::keep_standard_streams_apart();
  take_interrupts();
  tools::fail_writes_that_are_too_long();
  given_command_line.assign(argv, argv + argc);
  try {
    return run(argc, argv);
  } catch (const checker::EnvironmentError& error) {
    tools::say("sidelatch: {}\n", error.what());
    return tools::kNoEnvironment;
  } catch (const fabric::sim::ProfileError& error) {
    tools::say("sidelatch: {}\n", error.what());
    return tools::kBadInput;
  } catch (const explore::LitmusError& error) {
    tools::say("{}\n", error.what());
    return tools::kBadInput;
  } catch (const p4::CompileError& error) {
    tools::say("{}\n", error.what());
    return tools::kBadInput;
  } catch (const p4::StfError& error) {
    tools::say("{}\n", error.what());
    return tools::kBadInput;
  } catch (const std::invalid_argument& error) {
    tools::say("sidelatch: {}\n", error.what());
    return tools::kBadInput;
  } catch (const std::exception& error) {
    tools::say("sidelatch: {}\n", json_reason(error.what()));
    return tools::kNoEnvironment;
  }
}
