#include "flow_run.h"

#include "commands.h"
#include "flow_judge.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/flows/flow_switch.h>
#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr flows::MacAddress kSwitchMac{2, 0, 0, 0, 1, 0};

// What may happen to units while the flow runs.
enum class FlowChange : std::uint8_t { producer_joins, consumer_joins, consumer_leaves, producer_dies, consumer_dies };

// In an order at random.
std::vector<FlowChange> in_some_order(const FlowChanges& changes, std::mt19937_64& random) {
  std::vector<FlowChange> all;
  all.insert(all.end(), changes.joining_producers, FlowChange::producer_joins);
  all.insert(all.end(), changes.joining_consumers, FlowChange::consumer_joins);
  all.insert(all.end(), changes.leaving_consumers, FlowChange::consumer_leaves);
  all.insert(all.end(), changes.killed_producers, FlowChange::producer_dies);
  all.insert(all.end(), changes.killed_consumers, FlowChange::consumer_dies);
  std::ranges::shuffle(all, random);
  return all;
}

FlowTask with_switch(FlowTask task, const flows::Ipv4Address& ip) {
  task.switch_ip = ip;
  return task;
}

// The switch, and the units as processes of their own.
class FlowRun {
 public:
  FlowRun(const FlowTask& task, const FlowRunOptions& options)
      : options_(options), board_(with_switch(task, options.switch_ip)), name_(fmt::format("flow-{}", ::getpid())) {
    p4::WiredSwitchOptions device;
    device.faults = options.faults;
    device.capture = options.pcap;
    const std::size_t ports = options.nics.empty() ? task.producers + task.consumers : options.nics.size();
    for (std::size_t i = 0; i < ports; ++i) {
      device.ports.push_back({.number = static_cast<std::uint16_t>(i),
                              .wire = options.nics.empty() ? fmt::format("shm:{}-{}", name_, i)
                                                           : "interface:" + options.nics[i].interface});
    }
    device_ = std::make_unique<p4::WiredSwitch>(flows::zero_sided_program(), device);
    control_ = std::make_unique<flows::FlowSwitch>(device_->device(),
                                                   flows::SwitchAddress{.mac = kSwitchMac, .ip = options.switch_ip});
    places_.producers.resize(task.producers, FlowPlaces::kNowhere);
    places_.consumers.resize(task.consumers, FlowPlaces::kNowhere);
    changes_ = in_some_order(options.changes, random_);
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
    if (!start_units()) {
      return report();
    }
    start_flow();
    const bool terminal = on_terminal(STDERR_FILENO);
    FlowReport shown = report();
    std::size_t lines = 0;
    progressed_ = Clock::now();
    while (!units_.empty() && violations_.empty() && !interrupted().load()) {
      device_->serve(milliseconds(1));
      look_at_units();
      change_units();
      if (terminal && report().seconds - shown.seconds >= 1) {
        FlowReport now = report();
        lines = show_over(live_text(now, shown), lines);
        shown = std::move(now);
      }
    }
    FlowReport result = report();
    result.has_ended = units_.empty();
    if (result.has_ended && violations_.empty()) {
      result.violations = judge_flow(board_, control_->state(flow_), places_);
      if (impossible_ != 0) {
        result.violations.push_back(fmt::format(
            "{} units could not join, leave or be killed: the flow was over too early; give it more --items",
            impossible_));
      }
    }
    return result;
  }

 private:
  struct Unit {
    pid_t process = 0;
    FlowUnitRow* row = nullptr;
  };

  // False: the user has interrupted it.
  bool start_units() {
    const FlowTask& task = board_.task();
    for (std::uint32_t i = 0; i < task.producers - task.joining_producers; ++i) {
      start_producer(i);
    }
    const std::uint32_t consumers = task.consumers - task.joining_consumers;
    const std::vector<flows::SwitchEnd> ends = control_->new_ends(consumers);
    for (std::uint32_t i = 0; i < consumers; ++i) {
      start_consumer(i, task.kind == flows::FlowKind::replicate ? ends[i] : control_->new_end());
    }
    const auto begun = Clock::now();
    for (bool are_ready = false; !are_ready;) {
      if (interrupted().load()) {
        return false;
      }
      device_->serve(milliseconds(1));  // the units ask for the switch's MAC
      are_ready = true;
      for (std::size_t i = 0; i < units_.size(); ++i) {
        are_ready = are_ready && is_ready(i);
      }
      check_patience(begun);
    }
    return true;
  }

  void start_producer(std::uint32_t number) {
    FlowUnitRow& row = board_.producer(number);
    row.is_producer = true;
    row.number = number;
    for (std::uint32_t ring = 0; ring < board_.task().rings_of_producer(); ++ring) {
      row.ends[ring] = control_->new_end();
    }
    start_unit(row);
  }

  void start_consumer(std::uint32_t number, const flows::SwitchEnd& end) {
    FlowUnitRow& row = board_.consumer(number);
    row.number = number;
    row.ends[0] = end;
    start_unit(row);
  }

  // Whether unit i can receive. Throws if it cannot begin.
  bool is_ready(std::size_t i) {
    const auto [unit, row] = units_[i];
    const bool result = row->phase.load(std::memory_order_acquire) == FlowUnitPhase::ready;
    if (!result && ::waitpid(unit, nullptr, WNOHANG) != 0) {
      units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(i));  // its number may be another process's now
      throw checker::EnvironmentError(fmt::format("{} cannot begin: {}", name_of_unit(*row),
                                                  row->why().empty() ? "its process has died" : row->why()));
    }
    return result;
  }

  void check_patience(Clock::time_point begun) const {
    if (Clock::now() - begun > std::chrono::duration<double>(options_.stall_seconds)) {
      throw checker::EnvironmentError(fmt::format(
          "the units are not ready after {} seconds: the machine is busy, or too many packets are lost; see --stall",
          options_.stall_seconds));
    }
  }

  [[nodiscard]] std::uint32_t port_of(const FlowUnitRow& row) const {
    const std::uint32_t unit = row.number + (row.is_producer ? 0 : board_.task().producers);
    return options_.nics.empty() ? unit : static_cast<std::uint32_t>(unit % options_.nics.size());
  }

  // This program again, as a unit whose NIC has a cable to the switch.
  void start_unit(FlowUnitRow& row) {
    if (!options_.nics.empty()) {
      const std::string& device = options_.nics[port_of(row)].device;
      device.copy(row.device.data(), row.device.size() - 1);
    }
    const std::uint32_t port = port_of(row);
    const std::string which = fmt::format("{},{}{}", board_.file(), row.is_producer ? 'p' : 'c', row.number);
    const pid_t parent = ::getpid();
    const pid_t unit = ::fork();
    if (unit < 0) {
      throw checker::EnvironmentError(fmt::format("cannot start {}: {}", name_of_unit(row), std::strerror(errno)));
    }
    if (unit == 0) {
      leave_interrupts_to_parent();
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // without a switch it would wait for ever
      if (::getppid() != parent) {
        ::_exit(kNoEnvironment);
      }
      try {
        if (options_.nics.empty()) {
          softnic::set_environment(
              {.wire = fmt::format("switch:{}-{},10.9.0.{}", name_, port, port + 1), .order = options_.order});
        }
        ::execl("/proc/self/exe", command_line().front().c_str(), "flow", "1:1", "--unit", which.c_str(), nullptr);
        row.end(FlowUnitPhase::failed, std::strerror(errno));
      } catch (const std::exception& error) {
        row.end(FlowUnitPhase::failed, error.what());
      }
      ::_exit(kNoEnvironment);
    }
    units_.push_back({unit, &row});
  }

  // Ctrl-C, and SIGTERM of timeout(1) or a service manager, reach all processes of the group, and the switch's process
  // ends the flow then: a unit that died by itself would break what the flow promises. Blocked, because that outlives
  // exec(), and because a unit that handled a signal would make a system call.
  static void leave_interrupts_to_parent() {
    sigset_t interrupts{};
    ::sigemptyset(&interrupts);
    ::sigaddset(&interrupts, SIGINT);
    ::sigaddset(&interrupts, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &interrupts, nullptr);
  }

  std::vector<flows::FlowRing> rings_of(const FlowUnitRow& row) const {
    const FlowTask& task = board_.task();
    std::vector<flows::FlowRing> rings;
    for (std::uint32_t i = 0; i < (row.is_producer ? task.rings_of_producer() : 1); ++i) {
      rings.push_back({.mac = row.mac,
                       .ip = row.ip,
                       .port = static_cast<std::uint16_t>(port_of(row)),
                       .queue_pair = row.queue_pairs[i],
                       .end = row.ends[i],
                       .rkey = row.rkeys[i],
                       .address = row.addresses[i],
                       .shape = task.shape});
    }
    return rings;
  }

  void start_flow() {
    const FlowTask& task = board_.task();
    flows::Flow flow{.kind = task.kind,
                     .path_mtu = task.path_mtu,
                     .batch_bytes = options_.batch_bytes,
                     .poll_interval = nanoseconds(static_cast<std::int64_t>(options_.poll_us * 1000)),
                     .time_out = std::chrono::microseconds(options_.time_out_us),
                     .most_retries = options_.most_retries,
                     .is_open = !changes_.empty()};
    for (const auto& [unit, row] : units_) {
      std::vector<flows::FlowRing>& to = row->is_producer ? flow.producers : flow.consumers;
      (row->is_producer ? places_.producers : places_.consumers)[row->number] = to.size();
      for (const flows::FlowRing& ring : rings_of(*row)) {
        to.push_back(ring);
      }
    }
    flow_ = control_->start(flow);
    is_closed_ = !flow.is_open;
    steps_ = changes_.size() + 1;
    begun_ = Clock::now();
    board_.begin();
  }

  void look_at_units() {
    std::uint64_t done = 0;
    bool have_consumers_ended = true;
    for (std::size_t i = 0; i < units_.size();) {
      const auto [unit, row] = units_[i];
      done += row->items.load(std::memory_order_relaxed);
      const FlowUnitPhase phase = row->phase.load(std::memory_order_acquire);
      const bool is_over = phase != FlowUnitPhase::ready && phase != FlowUnitPhase::setting_up;
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
    } else if (now - progressed_ > std::chrono::duration<double>(options_.stall_seconds)) {
      violations_.push_back(
          fmt::format("the flow stands still: no item was pushed or popped for {} seconds; still there: {}",
                      options_.stall_seconds, who_is_there()));
    }
  }

  [[nodiscard]] std::string who_is_there() const {
    std::string text;
    for (const auto& [unit, row] : units_) {
      const bool is_joining = std::ranges::find(joining_, row) != joining_.end();
      text += fmt::format("{}{} ({} items{})", text.empty() ? "" : ", ", name_of_unit(*row), row->items.load(),
                          is_joining ? ", joining" : "");
    }
    return text;
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
    } else if (phase != FlowUnitPhase::done && row.fate.load() != FlowFate::killed) {
      violations_.push_back(WIFSIGNALED(status)
                                ? fmt::format("{} was ended by signal {}", name_of_unit(row), WTERMSIG(status))
                                : fmt::format("{} ended with status {}", name_of_unit(row), WEXITSTATUS(status)));
    }
  }

  // ---- Units that join, leave and die.

  void change_units() {
    welcome_units();
    if (!changes_.empty() && is_change_due()) {
      const FlowChange change = changes_.back();
      changes_.pop_back();
      if (!make(change)) {
        ++impossible_;
      }
    }
    if (changes_.empty() && joining_.empty() && !is_closed_) {
      control_->close(flow_);
      is_closed_ = true;
    }
  }

  // Each after the same number of items; all before half of those are pushed that there are without joins.
  [[nodiscard]] bool is_change_due() {
    const FlowTask& task = board_.task();
    std::uint64_t pushed = 0;
    bool is_anything_left = false;
    for (std::uint32_t i = 0; i < task.producers; ++i) {
      pushed += board_.producer(i).items.load(std::memory_order_relaxed);
    }
    for (const auto& [unit, row] : units_) {
      is_anything_left = is_anything_left || (row->is_producer && row->items.load() < task.items);
    }
    const std::uint64_t all = (task.producers - task.joining_producers) * task.items;
    return pushed * 2 * steps_ >= all * (steps_ - changes_.size()) || !is_anything_left;
  }

  bool make(FlowChange change) {
    const FlowTask& task = board_.task();
    switch (change) {
      case FlowChange::producer_joins:
        start_producer(task.producers - task.joining_producers + joined_producers_);
        ++joined_producers_;
        joining_.push_back(units_.back().row);
        joining_since_ = Clock::now();
        return true;
      case FlowChange::consumer_joins:
        start_consumer(task.consumers - task.joining_consumers + joined_consumers_, control_->new_end());
        ++joined_consumers_;
        joining_.push_back(units_.back().row);
        joining_since_ = Clock::now();
        return true;
      case FlowChange::consumer_leaves:
        if (const Unit* const unit = some_unit(false)) {
          control_->leave_consumer(flow_, places_.consumers[unit->row->number]);
          unit->row->fate.store(FlowFate::leaves);
          ++left_;
          return true;
        }
        return false;
      case FlowChange::producer_dies:
        return kill(some_unit(true));
      case FlowChange::consumer_dies:
        return kill(some_unit(false));
    }
    return false;
  }

  bool kill(const Unit* unit) {
    if (unit == nullptr) {
      return false;
    }
    unit->row->fate.store(FlowFate::killed);
    ::kill(unit->process, SIGKILL);
    ++killed_;
    return true;
  }

  // One that is at work, at random.
  const Unit* some_unit(bool is_producer) {
    std::vector<const Unit*> all;
    for (const Unit& unit : units_) {
      const FlowUnitRow& row = *unit.row;
      const auto& places = is_producer ? places_.producers : places_.consumers;
      const bool is_at_work = row.is_producer == is_producer && places[row.number] != FlowPlaces::kNowhere &&
                              row.fate.load() == FlowFate::stays && row.phase.load() == FlowUnitPhase::ready;
      if (is_at_work && (!is_producer || row.items.load() < board_.task().items)) {
        all.push_back(&unit);
      }
    }
    return all.empty() ? nullptr : all[random_() % all.size()];
  }

  // Units that were started to join, and can receive now.
  void welcome_units() {
    for (std::size_t i = 0; i < joining_.size();) {
      FlowUnitRow& row = *joining_[i];
      const auto unit = std::ranges::find(units_, &row, &Unit::row);
      if (unit == units_.end()) {  // its death is a violation already
        joining_.erase(joining_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (!is_ready(static_cast<std::size_t>(unit - units_.begin()))) {
        check_patience(joining_since_);
        ++i;
        continue;
      }
      joining_.erase(joining_.begin() + static_cast<std::ptrdiff_t>(i));
      if (row.is_producer) {
        places_.producers[row.number] = control_->join_producer(flow_, rings_of(row));
      } else {
        places_.consumers[row.number] = control_->join_consumer(flow_, rings_of(row).front());
      }
    }
  }

  [[nodiscard]] FlowReport report() {
    const FlowTask& task = board_.task();
    FlowReport result{.task = task,
                      .seconds = std::chrono::duration<double>(ended_.value_or(Clock::now()) - begun_).count(),
                      .joined = joined_producers_ + joined_consumers_,
                      .left = left_,
                      .killed = killed_,
                      .violations = violations_};
    for (std::uint32_t i = 0; i < task.producers; ++i) {
      result.producers.push_back(board_.producer(i).items.load(std::memory_order_relaxed));
    }
    const flows::FlowState state = board_.has_begun() ? control_->state(flow_) : flows::FlowState{};
    for (std::uint32_t i = 0; i < task.consumers; ++i) {
      const std::size_t place = task.kind == flows::FlowKind::replicate ? 0 : places_.consumers[i];
      result.consumers.push_back({board_.consumer(i).items.load(std::memory_order_relaxed),
                                  place < state.batch_items.size() ? state.batch_items[place] : 0});
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

  const FlowRunOptions& options_;
  FlowBoard board_;
  std::string name_;
  std::mt19937_64 random_{options_.faults.seed};
  std::unique_ptr<p4::WiredSwitch> device_;
  std::unique_ptr<flows::FlowSwitch> control_;
  FlowPlaces places_;
  std::vector<Unit> units_;  // that live
  flows::FlowSwitch::FlowId flow_ = 0;
  bool is_closed_ = true;
  std::vector<FlowChange> changes_;     // to come
  std::size_t steps_ = 1;               // one more than there were
  std::vector<FlowUnitRow*> joining_;   // started, and not of the flow yet
  Clock::time_point joining_since_{};   // the last one
  std::uint32_t joined_producers_ = 0;  // started
  std::uint32_t joined_consumers_ = 0;
  std::uint32_t left_ = 0;
  std::uint32_t killed_ = 0;
  std::uint32_t impossible_ = 0;
  Clock::time_point begun_ = Clock::now();
  std::optional<Clock::time_point> ended_;  // all consumers have seen the end
  std::uint64_t done_ = 0;                  // by units that live
  Clock::time_point progressed_{};
  std::vector<std::string> violations_;
};

}  // namespace

FlowReport run_flow(const FlowTask& task, const FlowRunOptions& options) { return FlowRun(task, options).run(); }

}  // namespace sidelatch::tools
