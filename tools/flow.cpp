#include "commands.h"
#include "flow_board.h"
#include "flow_report.h"
#include "options.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/flows/flow_switch.h>
#include <sidelatch/p4/wired_switch.h>
#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr flows::SwitchAddress kFlowSwitch{.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}};
constexpr std::uint64_t kMostItems = 1'000'000'000;
constexpr std::uint32_t kLongestItem = 1U << 24;
constexpr std::uint64_t kMostRingBytes = std::uint64_t{1} << 31;

struct Arguments {
  std::string kind;
  std::optional<std::uint32_t> producers;
  std::optional<std::uint32_t> consumers;
  FlowTask task{.items = 100'000, .shape = {.slots = 1024, .item_bytes = 1000}};
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;
  double poll_us = 10;
  std::uint32_t time_out_us = 5000;
  double stall_seconds = 60;
  p4::FaultRates faults{};
  std::string order;
  std::string pcap;
  std::string mistake;
  std::string unit;
  bool json = false;
};

void need(bool is_right, const std::string& what) {
  if (!is_right) {
    throw std::invalid_argument(what);
  }
}

std::uint32_t units_of(const char* option, std::optional<std::uint32_t> given, std::uint32_t otherwise) {
  need(!given || (*given >= 1 && *given <= kMostFlowUnits),
       fmt::format("{} {}: 1 to {}", option, given.value_or(0), kMostFlowUnits));
  return given.value_or(otherwise);
}

FlowMistake mistake_of(const std::string& name) {
  constexpr std::array kMistakes{std::pair{"", FlowMistake::none},          std::pair{"lost", FlowMistake::lost},
                                 std::pair{"twice", FlowMistake::twice},    std::pair{"swapped", FlowMistake::swapped},
                                 std::pair{"torn", FlowMistake::torn},      std::pair{"chain", FlowMistake::chain},
                                 std::pair{"syscall", FlowMistake::syscall}};
  for (const auto& [known, mistake] : kMistakes) {
    if (name == known) {
      return mistake;
    }
  }
  throw std::invalid_argument(fmt::format("--mistake {}: lost, twice, swapped, torn, chain or syscall", name));
}

FlowTask task_of(const Arguments& arguments) {
  FlowTask task = arguments.task;
  if (arguments.kind == "1:1") {
    task.kind = flows::FlowKind::shuffle;
    need(arguments.producers.value_or(1) == 1, fmt::format("--producers {}: 1:1 has one", *arguments.producers));
    need(arguments.consumers.value_or(1) == 1, fmt::format("--consumers {}: 1:1 has one", *arguments.consumers));
  } else if (arguments.kind == "shuffle") {
    task.kind = flows::FlowKind::shuffle;
  } else if (arguments.kind == "balance") {
    task.kind = flows::FlowKind::balance;
  } else if (arguments.kind == "replicate") {
    task.kind = flows::FlowKind::replicate;
  } else {
    throw std::invalid_argument(fmt::format("there is no flow {}: 1:1, shuffle, balance or replicate", arguments.kind));
  }
  const std::uint32_t usual = arguments.kind == "1:1" ? 1 : 2;
  task.producers = units_of("--producers", arguments.producers, usual);
  task.consumers = units_of("--consumers", arguments.consumers, usual);
  need(task.items >= 1 && task.items <= kMostItems, fmt::format("--items {}: 1 to {}", task.items, kMostItems));
  need(task.shape.item_bytes >= 8 && task.shape.item_bytes <= kLongestItem,
       fmt::format("--item-bytes {}: 8, which tell which item it is, to {}", task.shape.item_bytes, kLongestItem));
  need(std::has_single_bit(task.shape.slots) && task.shape.slots <= kMostRingBytes / task.shape.item_bytes,
       fmt::format("--slots {}: a power of two, and a ring has at most {} bytes", task.shape.slots, kMostRingBytes));
  need(std::has_single_bit(task.path_mtu) && task.path_mtu >= 256 && task.path_mtu <= 4096,
       fmt::format("--mtu {}: 256, 512, 1024, 2048 or 4096", task.path_mtu));
  need(arguments.batch_bytes >= 1 && arguments.batch_bytes <= std::uint64_t{1} << 30U,
       fmt::format("--batch-bytes {}: 1 to {}", arguments.batch_bytes, std::uint64_t{1} << 30U));
  need(arguments.poll_us >= 1 && arguments.poll_us <= 1e6,
       fmt::format("--poll-us {}: 1 to 1000000", arguments.poll_us));
  need(arguments.time_out_us >= 1 && arguments.time_out_us <= 10'000'000,
       fmt::format("--time-out-us {}: 1 to 10000000", arguments.time_out_us));
  need(arguments.stall_seconds > 0 && arguments.stall_seconds <= 86400,
       fmt::format("--stall {}: above 0 to 86400 seconds", arguments.stall_seconds));
  for (const auto& [name, chance] :
       {std::pair{"--loss", arguments.faults.loss}, std::pair{"--duplication", arguments.faults.duplication},
        std::pair{"--reordering", arguments.faults.reordering}}) {
    // At 1 nothing would ever arrive.
    need(chance >= 0 && chance < 1, fmt::format("{} {}: a chance from 0 to below 1", name, chance));
  }
  constexpr std::array<std::string_view, 5> kOrders{"", "strict", "observed", "spec", "relaxed"};
  need(std::ranges::find(kOrders, arguments.order) != kOrders.end(),
       fmt::format("--order {}: strict, observed, spec or relaxed", arguments.order));
  task.switch_ip = kFlowSwitch.ip;
  task.mistake = mistake_of(arguments.mistake);
  need(task.mistake != FlowMistake::syscall || task.no_system_calls, "--mistake syscall: it needs --no-system-calls");
  need(task.mistake != FlowMistake::chain || (task.kind == flows::FlowKind::replicate && task.consumers > 1),
       "--mistake chain: only consumers of a replicated flow, two at least, have an order in common");
  return task;
}

// The switch, and the units as processes of their own.
class FlowRun {
 public:
  FlowRun(const Arguments& arguments, const FlowTask& task)
      : arguments_(arguments), board_(task), name_(fmt::format("flow-{}", ::getpid())) {
    p4::WiredSwitchOptions options;
    options.faults = arguments.faults;
    options.capture = arguments.pcap;
    for (std::uint32_t i = 0; i < task.producers + task.consumers; ++i) {
      options.ports.push_back({.number = static_cast<std::uint16_t>(i), .wire = fmt::format("shm:{}-{}", name_, i)});
    }
    device_ = std::make_unique<p4::WiredSwitch>(flows::zero_sided_program(), options);
    control_ = std::make_unique<flows::FlowSwitch>(device_->device(), kFlowSwitch);
  }
  FlowRun(const FlowRun&) = delete;
  FlowRun& operator=(const FlowRun&) = delete;
  ~FlowRun() {
    for (const auto& [unit, row] : units_) {
      ::kill(unit, SIGKILL);
      ::waitpid(unit, nullptr, 0);
    }
  }

  FlowReport run() {
    start_units();
    start_flow();
    const bool terminal = on_terminal(STDERR_FILENO);
    FlowReport shown = report();
    std::size_t lines = 0;
    progressed_ = Clock::now();
    while (!units_.empty() && violations_.empty() && !interrupted().load()) {
      device_->serve(milliseconds(1));
      look_at_units();
      if (terminal && report().seconds - shown.seconds >= 1) {
        FlowReport now = report();
        lines = show_over(live_text(now, shown), lines);
        shown = std::move(now);
      }
    }
    FlowReport result = report();
    result.has_ended = units_.empty();
    if (result.has_ended && violations_.empty()) {
      compare_consumers(result);
    }
    return result;
  }

 private:
  void start_units() {
    const FlowTask& task = board_.task();
    for (std::uint32_t i = 0; i < task.producers; ++i) {
      FlowUnitRow& row = board_.producer(i);
      row.is_producer = true;
      row.number = i;
      for (std::uint32_t ring = 0; ring < task.rings_of_producer(); ++ring) {
        row.ends[ring] = control_->new_end();
      }
      start_unit(row, i);
    }
    const std::vector<flows::SwitchEnd> ends = control_->new_ends(task.consumers);
    for (std::uint32_t i = 0; i < task.consumers; ++i) {
      FlowUnitRow& row = board_.consumer(i);
      row.number = i;
      row.ends[0] = task.kind == flows::FlowKind::replicate ? ends[i] : control_->new_end();
      start_unit(row, task.producers + i);
    }
    const auto begun = Clock::now();
    for (bool are_ready = false; !are_ready;) {
      device_->serve(milliseconds(1));  // the units ask for the switch's MAC
      are_ready = true;
      for (std::size_t i = 0; i < units_.size(); ++i) {
        const auto [unit, row] = units_[i];
        are_ready = are_ready && row->phase.load(std::memory_order_acquire) == FlowUnitPhase::ready;
        if (::waitpid(unit, nullptr, WNOHANG) != 0) {
          units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(i));  // its number may be another process's now
          throw checker::EnvironmentError(fmt::format("{} cannot begin: {}", name_of_unit(*row),
                                                      row->why().empty() ? "its process has died" : row->why()));
        }
      }
      if (Clock::now() - begun > std::chrono::duration<double>(arguments_.stall_seconds)) {
        throw checker::EnvironmentError(
            fmt::format("the units are not ready after {} seconds: the machine is too busy; see --stall",
                        arguments_.stall_seconds));
      }
    }
  }

  // This program again, as a unit whose NIC has a cable to the switch.
  void start_unit(FlowUnitRow& row, std::uint32_t port) {
    const std::string which = fmt::format("{},{}{}", board_.file(), row.is_producer ? 'p' : 'c', row.number);
    const pid_t parent = ::getpid();
    const pid_t unit = ::fork();
    if (unit < 0) {
      throw checker::EnvironmentError(fmt::format("cannot start {}: {}", name_of_unit(row), std::strerror(errno)));
    }
    if (unit == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // without a switch it would wait for ever
      if (::getppid() != parent) {
        ::_exit(kNoEnvironment);
      }
      try {
        softnic::set_environment(
            {.wire = fmt::format("switch:{}-{},10.9.0.{}", name_, port, port + 1), .order = arguments_.order});
        ::execl("/proc/self/exe", command_line().front().c_str(), "flow", "1:1", "--unit", which.c_str(), nullptr);
        row.end(FlowUnitPhase::failed, std::strerror(errno));
      } catch (const std::exception& error) {
        row.end(FlowUnitPhase::failed, error.what());
      }
      ::_exit(kNoEnvironment);
    }
    units_.emplace_back(unit, &row);
  }

  void start_flow() {
    const FlowTask& task = board_.task();
    flows::Flow flow{.kind = task.kind,
                     .path_mtu = task.path_mtu,
                     .batch_bytes = arguments_.batch_bytes,
                     .poll_interval = nanoseconds(static_cast<std::int64_t>(arguments_.poll_us * 1000)),
                     .time_out = std::chrono::microseconds(arguments_.time_out_us)};
    const auto add = [&](FlowUnitRow& row, std::uint32_t unit, std::uint32_t rings, std::vector<flows::FlowRing>& to) {
      const flows::Ipv4Address ip{10, 9, 0, static_cast<std::uint8_t>(unit + 1)};
      for (std::uint32_t i = 0; i < rings; ++i) {
        to.push_back({.mac = {0x02, 0x53, ip[0], ip[1], ip[2], ip[3]},
                      .ip = ip,
                      .port = static_cast<std::uint16_t>(unit),
                      .queue_pair = row.queue_pairs[i],
                      .end = row.ends[i],
                      .rkey = row.rkey,
                      .address = row.addresses[i],
                      .shape = task.shape});
      }
    };
    for (std::uint32_t i = 0; i < task.producers; ++i) {
      add(board_.producer(i), i, task.rings_of_producer(), flow.producers);
    }
    for (std::uint32_t i = 0; i < task.consumers; ++i) {
      add(board_.consumer(i), task.producers + i, 1, flow.consumers);
    }
    flow_ = control_->start(flow);
    begun_ = Clock::now();
    board_.begin();
  }

  void look_at_units() {
    std::uint64_t done = 0;
    bool have_consumers_ended = true;
    for (std::size_t i = 0; i < units_.size();) {
      const auto [unit, row] = units_[i];
      done += row->items.load(std::memory_order_relaxed);
      const bool is_over = row->phase.load(std::memory_order_acquire) != FlowUnitPhase::ready;
      have_consumers_ended = have_consumers_ended && (row->is_producer || is_over);
      int status = 0;
      if (is_over ? ::waitpid(unit, &status, 0) == unit : ::waitpid(unit, &status, WNOHANG) == unit) {
        units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(i));
        judge(*row, status);
        progressed_ = Clock::now();
      } else {
        ++i;
      }
    }
    const auto now = Clock::now();
    if (have_consumers_ended && !ended_) {
      ended_ = now;
    }
    if (done != done_) {
      done_ = done;
      progressed_ = now;
    } else if (now - progressed_ > std::chrono::duration<double>(arguments_.stall_seconds)) {
      violations_.push_back(
          fmt::format("the flow stands still: no item was pushed or popped for {} seconds", arguments_.stall_seconds));
    }
  }

  void judge(const FlowUnitRow& row, int status) {
    const FlowUnitPhase phase = row.phase.load(std::memory_order_acquire);
    if (phase == FlowUnitPhase::violated) {
      violations_.push_back(fmt::format("{}: {}", name_of_unit(row), row.why()));
    } else if (phase == FlowUnitPhase::failed) {
      throw checker::EnvironmentError(fmt::format("{}: {}", name_of_unit(row), row.why()));
    } else if (row.system_call >= 0) {
      violations_.push_back(
          fmt::format("{} made system call number {} while items moved", name_of_unit(row), row.system_call));
    } else if (phase != FlowUnitPhase::done) {
      violations_.push_back(WIFSIGNALED(status)
                                ? fmt::format("{} was ended by signal {}", name_of_unit(row), WTERMSIG(status))
                                : fmt::format("{} ended with status {}", name_of_unit(row), WEXITSTATUS(status)));
    }
  }

  // What no consumer can see alone.
  void compare_consumers(FlowReport& result) {
    const FlowTask& task = board_.task();
    for (std::uint32_t i = 1; i < task.consumers && task.kind == flows::FlowKind::replicate; ++i) {
      if (board_.consumer(i).chain != board_.consumer(0).chain) {
        result.violations.push_back(fmt::format("consumers 0 and {} got the items in different orders", i));
      }
    }
    for (std::uint32_t p = 0; p < task.producers && task.kind == flows::FlowKind::balance; ++p) {
      for (std::uint64_t word = 0; word * 64 < task.items; ++word) {
        std::uint64_t once = 0;
        std::uint64_t twice = 0;
        for (std::uint32_t c = 0; c < task.consumers; ++c) {
          const std::uint64_t got = board_.got(c, p)[word];
          twice |= once & got;
          once |= got;
        }
        const std::uint64_t left = task.items - word * 64;
        const std::uint64_t missing = ~once & (left < 64 ? (std::uint64_t{1} << left) - 1 : ~std::uint64_t{0});
        if (twice != 0) {
          result.violations.push_back(fmt::format("twice: number {} of producer {} came to two consumers",
                                                  word * 64 + static_cast<unsigned>(std::countr_zero(twice)), p));
        }
        if (missing != 0) {
          result.violations.push_back(fmt::format("lost: number {} of producer {} has not come",
                                                  word * 64 + static_cast<unsigned>(std::countr_zero(missing)), p));
        }
        if (result.violations.size() >= 10) {
          return;
        }
      }
    }
  }

  [[nodiscard]] FlowReport report() {
    const FlowTask& task = board_.task();
    FlowReport result{.task = task,
                      .seconds = std::chrono::duration<double>(ended_.value_or(Clock::now()) - begun_).count(),
                      .violations = violations_};
    for (std::uint32_t i = 0; i < task.producers; ++i) {
      result.producers.push_back(board_.producer(i).items.load(std::memory_order_relaxed));
    }
    const flows::FlowState state = control_->state(flow_);
    for (std::uint32_t i = 0; i < task.consumers; ++i) {
      result.consumers.push_back({board_.consumer(i).items.load(std::memory_order_relaxed),
                                  state.batch_items[task.kind == flows::FlowKind::replicate ? 0 : i]});
    }
    for (std::size_t i = 0; i < device_->ports().size(); ++i) {
      const p4::PortCounters counters = device_->counters(i);
      result.lost += counters.lost;
      result.duplicated += counters.duplicated;
      result.reordered += counters.reordered;
    }
    return result;
  }

  static std::string name_of_unit(const FlowUnitRow& row) {
    return fmt::format("{} {}", row.is_producer ? "producer" : "consumer", row.number);
  }

  const Arguments& arguments_;
  FlowBoard board_;
  std::string name_;
  std::unique_ptr<p4::WiredSwitch> device_;
  std::unique_ptr<flows::FlowSwitch> control_;
  std::vector<std::pair<pid_t, FlowUnitRow*>> units_;  // that live
  flows::FlowSwitch::FlowId flow_ = 0;
  Clock::time_point begun_ = Clock::now();
  std::optional<Clock::time_point> ended_;  // all consumers have seen the end
  std::uint64_t done_ = 0;                  // by units that live
  Clock::time_point progressed_{};
  std::vector<std::string> violations_;
};

int run(const Arguments& arguments) {
  if (!arguments.unit.empty()) {
    return run_flow_unit(arguments.unit);
  }
  const FlowTask task = task_of(arguments);
  const FlowReport report = FlowRun(arguments, task).run();
  fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
  if (!report.violations.empty()) {
    return kNotAsExpected;
  }
  return report.has_ended ? kAsExpected : kInterrupted;
}

}  // namespace

void add_flow(Program& program) {
  Command command = program.command(
      "flow", "Run a zero-sided flow between processes: the switch moves the items, and each one is checked");
  auto arguments = std::make_shared<Arguments>();
  FlowTask& task = arguments->task;
  command.option("kind", arguments->kind, "1:1, shuffle, balance or replicate").required();
  command.option("--producers", arguments->producers, "processes that push (default 2; 1:1 has one)");
  command.option("--consumers", arguments->consumers, "processes that pop (default 2; 1:1 has one)");
  command.option("--items", task.items, "items that each producer pushes (default 100000)");
  command.option("--item-bytes", task.shape.item_bytes, "bytes of an item, at least 8 (default 1000)");
  command.option("--slots", task.shape.slots, "items for which a ring has room, a power of two (default 1024)");
  command.option("--batch-bytes", arguments->batch_bytes, "the most that moves at once (default 4194304)");
  command.option("--mtu", task.path_mtu, "path MTU: 256, 512, 1024, 2048 or 4096 (default 4096)");
  command.option("--poll-us", arguments->poll_us, "microseconds between two looks at a ring (default 10)");
  command.option("--time-out-us", arguments->time_out_us,
                 "microseconds until the switch repeats a request that nobody has answered (default 5000)");
  command.option("--loss", arguments->faults.loss,
                 "fault injection: chance that a packet that leaves the switch is lost (default 0)");
  command.option("--duplication", arguments->faults.duplication,
                 "fault injection: chance that it leaves twice (default 0)");
  command.option("--reordering", arguments->faults.reordering,
                 "fault injection: chance that later ones overtake it (default 0)");
  command.option("--fault-seed", arguments->faults.seed, "fault injection: seed (default 1)");
  command.option("--order", arguments->order,
                 "the NICs touch memory in any order that this preset of the memory model allows: strict, observed, "
                 "spec or relaxed (default: at once)");
  command.flag("--no-system-calls", task.no_system_calls,
               "a unit that makes a system call between its first item and its last one violates the flow");
  command.option("--stall", arguments->stall_seconds,
                 "seconds without any item after which the flow counts as broken (default 60)");
  command.option("--mistake", arguments->mistake,
                 "a unit does wrong on purpose, to see that it is noticed: lost, twice, swapped, torn, chain, syscall");
  command.option("--pcap", arguments->pcap, "capture every packet as it arrives and as it leaves, for tshark");
  command.flag("--json", arguments->json, "print the summary as JSON");
  command.option("--unit", arguments->unit, "").hidden();
  command.runs([arguments] { return run(*arguments); });
}

}  // namespace sidelatch::tools
