#include "commands.h"
#include "options.h"
#include "p4_source.h"
#include "switch_latches.h"
#include "switch_report.h"

#include <sidelatch/p4/control.h>
#include <sidelatch/p4/wired_switch.h>

#include <fmt/format.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments : P4Source {
  std::vector<std::string> ports;
  std::string control;
  std::string pcap;
  p4::WiredSwitchOptions options;
  LatchArguments latches;
  bool no_icrc = false;
  bool json = false;
};

// What signals ask for. The handler may only touch these.
std::atomic<int> ended_by{0};
std::atomic<bool> reread{false};
std::atomic<p4::WiredSwitch*> running{nullptr};

void on_signal(int signal) {
  if (signal == SIGHUP) {
    reread.store(true);
  } else {
    ended_by.store(signal);
  }
  if (p4::WiredSwitch* const device = running.load(); device != nullptr) {
    device->interrupt();
  }
}

// The signals wake the switch as long as this lives.
class Signals {
 public:
  explicit Signals(p4::WiredSwitch& device) {
    running.store(&device);
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      ::sigaction(signal, &action, nullptr);
    }
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { running.store(nullptr); }
};

std::vector<std::uint16_t> numbers_of(const std::vector<p4::PortOptions>& ports) {
  std::vector<std::uint16_t> numbers;
  numbers.reserve(ports.size());
  for (const p4::PortOptions& port : ports) {
    numbers.push_back(port.number);
  }
  return numbers;
}

class Session {
 public:
  Session(const Arguments& arguments, const std::shared_ptr<const p4::Program>& program,
          const p4::WiredSwitchOptions& options)
      : arguments_(arguments), info_(program->info()), ports_(numbers_of(options.ports)) {
    // A mistake in it shows before any wire is opened.
    if (!arguments.control.empty()) {
      control_ = read();
    }
    device_ = std::make_unique<p4::WiredSwitch>(program, options);
    if (control_) {
      p4::apply(*control_, device_->device());
    }
    if (!arguments.latches.listen.empty()) {
      if (arguments.no_icrc) {
        throw std::invalid_argument(
            "--no-icrc with --latches: what the switch answers and changes would carry a wrong ICRC, and NICs drop "
            "that; leave --no-icrc out");
      }
      latches_ = std::make_unique<LatchService>(arguments.latches, *device_);
    }
  }

  int run() {
    const Signals signals(*device_);
    say("sidelatch: the switch is up; Ctrl-C ends it{}\n",
        arguments_.control.empty() ? "" : ", SIGHUP reads the control file again");
    if (latches_ != nullptr) {
      say("sidelatch: clients set up latches at {}\n", latches_->address());
    }
    const bool terminal = on_terminal(STDERR_FILENO);
    std::size_t lines = 0;
    constexpr auto kEvery = std::chrono::seconds(1);
    constexpr auto kLong = std::chrono::hours(24);
    for (bool more = true; more && ended_by.load() == 0;) {
      const bool looks = terminal || latches_ != nullptr;  // the latches' service may have something to say
      more = device_->serve(looks ? std::chrono::nanoseconds(kEvery) : std::chrono::nanoseconds(kLong));
      if (latches_ != nullptr) {
        latches_->work();
        tell_problem();
      }
      if (reread.exchange(false)) {
        read_again();
        lines = 0;
      }
      if (terminal) {
        lines = show_over(to_text(report()), lines);
      }
    }
    fmt::print("{}", arguments_.json ? to_json(report()) : to_text(report()));
    return ended_by.load() == SIGINT ? kInterrupted : kAsExpected;
  }

 private:
  [[nodiscard]] p4::Control read() const {
    return p4::read_control(read_file(arguments_.control), arguments_.control, info_, ports_);
  }

  // A file with a mistake changes nothing; the traffic goes on.
  void read_again() {
    if (!control_) {
      say("sidelatch: there is no control file to read again; give one with --control\n");
      return;
    }
    try {
      p4::Control next = read();
      p4::apply(next, device_->device(), &*control_);
      control_ = std::move(next);
      say("sidelatch: {} is in force\n", arguments_.control);
    } catch (const std::invalid_argument& error) {
      say("sidelatch: {}; nothing has changed\n", error.what());
    }
  }

  void tell_problem() {
    if (std::string problem = latches_->problem(); problem != problem_) {
      say("sidelatch: {}\n", problem);
      problem_ = std::move(problem);
    }
  }

  [[nodiscard]] SwitchReport report() const {
    return report_of(*device_, info_, control_ ? control_->counters : std::vector<std::size_t>{});
  }

  const Arguments& arguments_;
  const p4::ProgramInfo& info_;
  std::vector<std::uint16_t> ports_;
  std::optional<p4::Control> control_;
  std::unique_ptr<p4::WiredSwitch> device_;
  std::unique_ptr<LatchService> latches_;
  std::string problem_;  // that was told last
};

int run(const Arguments& arguments) {
  p4::WiredSwitchOptions options = arguments.options;
  for (const std::string& port : arguments.ports) {
    options.ports.push_back(p4::parse_port(port));
  }
  options.capture = arguments.pcap;
  options.icrc = !arguments.no_icrc;
  std::set<std::filesystem::path> files_read;
  const std::shared_ptr<const p4::Program> program = compile_p4(arguments, &files_read);
  options.inputs.assign(files_read.begin(), files_read.end());
  options.inputs.emplace_back(arguments.control);
  return Session(arguments, program, options).run();
}

}  // namespace

void add_switch(Program& program) {
  Command command =
      program.command("switch", "Run a P4 program as a switch between software NICs, guests and interfaces");
  auto arguments = std::make_shared<Arguments>();
  p4::WiredSwitchOptions& options = arguments->options;
  add_p4_source(command, *arguments);
  command.option("--port", arguments->ports, p4::kPortForms).required().one_at_a_time();
  const Option control = command.option(
      "--control", arguments->control,
      "the control file, JSON: tables, registers, counters, multicast groups, clones; read again on SIGHUP");
  add_latch_options(command, arguments->latches, control);
  command.option("--pcap", arguments->pcap, "capture every packet as it arrives and as it leaves, for tshark");
  command.option("--queue-bytes", options.queue_bytes,
                 "bytes that may wait for a port before packets are dropped; 0: any number (default 4194304)");
  command.option("--ecn-bytes", options.ecn_bytes,
                 "bytes in a port's queue from which on packets are marked Congestion Experienced (default 0: never)");
  command.option("--seed", options.seed, "of random() in the program (default 1)");
  command.flag("--no-icrc", arguments->no_icrc, "do not check and mend the invariant CRC of RoCEv2");
  command.option("--loss", options.faults.loss,
                 "fault injection: chance that a packet that leaves is lost (default 0)");
  command.option("--duplication", options.faults.duplication,
                 "fault injection: chance that it leaves twice (default 0)");
  command.option("--reordering", options.faults.reordering,
                 "fault injection: chance that later ones overtake it (default 0)");
  command.option("--fault-seed", options.faults.seed, "fault injection: seed (default 1)");
  command.flag("--json", arguments->json, "print the statistics as JSON");
  command.runs([arguments] { return run(*arguments); });
}

}  // namespace sidelatch::tools
