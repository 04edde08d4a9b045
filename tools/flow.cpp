#include "commands.h"
#include "flow_run.h"
#include "options.h"

#include <fmt/format.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

constexpr std::uint64_t kMostItems = 1'000'000'000;
constexpr std::uint32_t kLongestItem = 1U << 24;
constexpr std::uint64_t kMostRingBytes = std::uint64_t{1} << 31;

struct Arguments {
  std::string kind;
  std::optional<std::uint32_t> producers;
  std::optional<std::uint32_t> consumers;
  FlowTask task{.items = 100'000, .shape = {.slots = 1024, .item_bytes = 1000}};
  FlowRunOptions how;
  std::string mistake;
  std::vector<std::string> nics;
  std::string switch_ip;
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

// Units that join are the last ones of theirs.
void add_changes(FlowTask& task, const FlowChanges& changes) {
  const bool balances = task.kind == flows::FlowKind::balance;
  const bool is_one_to_one = task.kind == flows::FlowKind::shuffle && task.producers == 1 && task.consumers == 1;
  const auto check = [](const char* option, std::uint32_t given, std::uint32_t most, const char* why) {
    need(given <= most, fmt::format("{} {}: at most {}: {}", option, given, most, why));
  };
  check("--join-producers", changes.joining_producers, kMostFlowUnits - task.producers, "32 producers in all");
  check("--join-consumers", changes.joining_consumers, balances ? kMostFlowUnits - task.consumers : 0,
        "32 consumers in all, and only a flow that balances takes more");
  const std::uint32_t others = task.consumers - 1;
  check("--leave-consumers", changes.leaving_consumers, task.kind == flows::FlowKind::shuffle ? 0 : others,
        "one must stay, and those of a shuffle all");
  check("--kill-producers", changes.killed_producers, is_one_to_one ? 1 : task.producers - 1, "one must live");
  check(
      "--kill-consumers", changes.killed_consumers,
      is_one_to_one ? 1 - std::min(changes.killed_producers, 1U) : others - std::min(changes.leaving_consumers, others),
      "one must live and stay");
  need(!is_one_to_one || changes.killed_consumers == 0 || changes.joining_producers == 0,
       "--join-producers: the flow ends with its only consumer; leave --kill-consumers out, or have more of them");
  task.joining_producers = changes.joining_producers;
  task.joining_consumers = changes.joining_consumers;
  task.producers += task.joining_producers;
  task.consumers += task.joining_consumers;
}

FlowTask task_of(const Arguments& arguments) {
  FlowTask task = arguments.task;
  if (arguments.kind == "1:1") {
    task.kind = flows::FlowKind::shuffle;
    need(arguments.producers.value_or(1) == 1,
         fmt::format("--producers {}: 1:1 has one", arguments.producers.value_or(1)));
    need(arguments.consumers.value_or(1) == 1,
         fmt::format("--consumers {}: 1:1 has one", arguments.consumers.value_or(1)));
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
  add_changes(task, arguments.how.changes);
  need(task.items >= 1 && task.items <= kMostItems, fmt::format("--items {}: 1 to {}", task.items, kMostItems));
  need(task.shape.item_bytes >= 8 && task.shape.item_bytes <= kLongestItem,
       fmt::format("--item-bytes {}: 8, which tell which item it is, to {}", task.shape.item_bytes, kLongestItem));
  need(std::has_single_bit(task.shape.slots) && task.shape.slots <= kMostRingBytes / task.shape.item_bytes,
       fmt::format("--slots {}: a power of two, and a ring has at most {} bytes", task.shape.slots, kMostRingBytes));
  need(std::has_single_bit(task.path_mtu) && task.path_mtu >= 256 && task.path_mtu <= 4096,
       fmt::format("--mtu {}: 256, 512, 1024, 2048 or 4096", task.path_mtu));
  need(arguments.how.batch_bytes >= 1 && arguments.how.batch_bytes <= std::uint64_t{1} << 30U,
       fmt::format("--batch-bytes {}: 1 to {}", arguments.how.batch_bytes, std::uint64_t{1} << 30U));
  need(arguments.how.poll_us >= 1 && arguments.how.poll_us <= 1e6,
       fmt::format("--poll-us {}: 1 to 1000000", arguments.how.poll_us));
  need(arguments.how.time_out_us >= 1 && arguments.how.time_out_us <= 10'000'000,
       fmt::format("--time-out-us {}: 1 to 10000000", arguments.how.time_out_us));
  need(arguments.how.most_retries <= 65535, fmt::format("--retries {}: 0 to 65535", arguments.how.most_retries));
  const FlowChanges& changes = arguments.how.changes;
  need(arguments.how.most_retries != 0 || (changes.killed_producers == 0 && changes.killed_consumers == 0),
       "--retries 0: nobody is given up then, so the flow waits for the dead for ever; give a number with --kill-...");
  need(arguments.how.stall_seconds > 0 && arguments.how.stall_seconds <= 86400,
       fmt::format("--stall {}: above 0 to 86400 seconds", arguments.how.stall_seconds));
  for (const auto& [name, chance] :
       {std::pair{"--loss", arguments.how.faults.loss}, std::pair{"--duplication", arguments.how.faults.duplication},
        std::pair{"--reordering", arguments.how.faults.reordering}}) {
    // At 1 nothing would ever arrive.
    need(chance >= 0 && chance < 1, fmt::format("{} {}: a chance from 0 to below 1", name, chance));
  }
  constexpr std::array<std::string_view, 5> kOrders{"", "strict", "observed", "spec", "relaxed"};
  need(std::ranges::find(kOrders, arguments.how.order) != kOrders.end(),
       fmt::format("--order {}: strict, observed, spec or relaxed", arguments.how.order));
  task.mistake = mistake_of(arguments.mistake);
  need(task.mistake != FlowMistake::syscall || task.no_system_calls, "--mistake syscall: it needs --no-system-calls");
  need(task.mistake != FlowMistake::chain || (task.kind == flows::FlowKind::replicate && task.consumers > 1),
       "--mistake chain: only consumers of a replicated flow, two at least, have an order in common");
  return task;
}

// "DEVICE=INTERFACE" of each.
std::vector<FlowNic> nics_of(const std::vector<std::string>& given) {
  std::vector<FlowNic> nics;
  for (const std::string& nic : given) {
    const std::size_t at = nic.find('=');
    need(at != std::string::npos && at != 0 && at + 1 != nic.size() && at < FlowUnitRow{}.device.size(),
         fmt::format("--nic {}: DEVICE=INTERFACE, as mlx5_0=eth1", nic));
    nics.push_back({.device = nic.substr(0, at), .interface = nic.substr(at + 1)});
    for (std::size_t i = 0; i + 1 < nics.size(); ++i) {
      need(nics[i].device != nics.back().device && nics[i].interface != nics.back().interface,
           fmt::format("--nic {}: the device and the interface of each are others; --nic {}={} was given, too", nic,
                       nics[i].device, nics[i].interface));
    }
  }
  return nics;
}

flows::Ipv4Address switch_ip_of(const std::string& given) {
  flows::Ipv4Address ip{};
  need(::inet_pton(AF_INET, given.c_str(), ip.data()) == 1,
       fmt::format("--switch-ip {}: an IPv4 address that nothing has, of the NICs' subnet", given));
  return ip;
}

FlowRunOptions options_of(const Arguments& arguments) {
  FlowRunOptions options = arguments.how;
  options.nics = nics_of(arguments.nics);
  need(options.nics.empty() || options.order.empty(),
       "--order: only software NICs have one to choose; leave out --nic");
  if (!arguments.switch_ip.empty()) {
    need(!options.nics.empty(), "--switch-ip: software NICs know it; it is for --nic");
    options.switch_ip = switch_ip_of(arguments.switch_ip);
  }
  return options;
}

int run(const Arguments& arguments) {
  if (!arguments.unit.empty()) {
    return run_flow_unit(arguments.unit);
  }
  const FlowTask task = task_of(arguments);
  const FlowRunOptions options = options_of(arguments);
  // As Ctrl-C: what came until then was judged, and is said.
  struct sigaction interrupt {};
  ::sigaction(SIGINT, nullptr, &interrupt);
  ::sigaction(SIGTERM, &interrupt, nullptr);
  const FlowReport report = run_flow(task, options);
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
  FlowRunOptions& how = arguments->how;
  command.option("kind", arguments->kind, "1:1, shuffle, balance or replicate").required();
  command.option("--producers", arguments->producers, "processes that push (default 2; 1:1 has one)");
  command.option("--consumers", arguments->consumers, "processes that pop (default 2; 1:1 has one)");
  command.option("--items", task.items, "items that each producer pushes (default 100000)");
  command.option("--item-bytes", task.shape.item_bytes, "bytes of an item, at least 8 (default 1000)");
  command.option("--slots", task.shape.slots, "items for which a ring has room, a power of two (default 1024)");
  command.option("--batch-bytes", how.batch_bytes, "the most that moves at once (default 4194304)");
  command.option("--mtu", task.path_mtu, "path MTU: 256, 512, 1024, 2048 or 4096 (default 4096)");
  command.option("--poll-us", how.poll_us, "microseconds between two looks at a ring (default 10)");
  command.option("--time-out-us", how.time_out_us,
                 "microseconds until the switch repeats a request that nobody has answered (default 5000)");
  command.option("--retries", how.most_retries,
                 "how often it does so before it gives the unit up; 0: for ever (default 125)");
  FlowChanges& changes = how.changes;
  command.option("--join-producers", changes.joining_producers, "producers that join while the flow runs (default 0)");
  command.option("--join-consumers", changes.joining_consumers, "balance: consumers that join (default 0)");
  command.option("--leave-consumers", changes.leaving_consumers,
                 "balance, replicate: consumers that leave (default 0)");
  command.option("--kill-producers", changes.killed_producers, "producers that are killed (default 0)");
  command.option("--kill-consumers", changes.killed_consumers, "consumers that are killed (default 0)");
  command.option("--loss", how.faults.loss,
                 "fault injection: chance that a packet that leaves the switch is lost (default 0)");
  command.option("--duplication", how.faults.duplication, "fault injection: chance that it leaves twice (default 0)");
  command.option("--reordering", how.faults.reordering,
                 "fault injection: chance that later ones overtake it (default 0)");
  command.option("--fault-seed", how.faults.seed, "fault injection: seed (default 1)");
  command.option("--order", how.order,
                 "the NICs touch memory in any order that this preset of the memory model allows: strict, observed, "
                 "spec or relaxed (default: at once)");
  command
      .option("--nic", arguments->nics,
              "DEVICE=INTERFACE: units use this RDMA device, which the switch reaches at this interface of the kernel, "
              "in place of a software NIC; given again, they take them in turn, producers first")
      .one_at_a_time();
  command.option("--switch-ip", arguments->switch_ip,
                 "--nic: the switch's IP address, one that nothing has (default 10.9.1.0)");
  command.flag("--no-system-calls", task.no_system_calls,
               "a unit that makes a system call between its first item and its last one violates the flow");
  command.option("--stall", how.stall_seconds,
                 "seconds without any item after which the flow counts as broken (default 60)");
  command.option("--mistake", arguments->mistake,
                 "a unit does wrong on purpose, to see that it is noticed: lost, twice, swapped, torn, chain, syscall");
  command.option("--pcap", how.pcap, "capture every packet as it arrives and as it leaves, for tshark");
  command.flag("--json", arguments->json, "print the summary as JSON");
  command.option("--unit", arguments->unit, "").hidden();
  command.runs([arguments] { return run(*arguments); });
}

}  // namespace sidelatch::tools
