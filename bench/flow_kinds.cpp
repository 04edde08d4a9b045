// SIGMOD 2024: what a flow costs at the switch and at the units (section 6), replication (figure 12), fairness between
// producers (figure 14), and load balancing between unequal consumers (figure 16).
#include "flow_load.h"

#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/p4/switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace sidelatch::bench {

namespace {

using flows::FlowKind;

constexpr std::uint32_t kMostUnits = 4;
constexpr std::uint64_t kPaperFlows = 1500;

FlowLoad wide_load(FlowKind kind, std::uint32_t producers, std::uint32_t consumers) {
  FlowLoad load;
  load.kind = kind;
  load.producers = producers;
  load.consumers = consumers;
  load.shape = {.slots = 128, .item_bytes = 65'536};
  load.from_us = 2000;
  load.to_us = 8000;
  return load;
}

// Figure 16, a thousandth: 2.1 s for all of the items if they are balanced, and 3.2 s for the slowest consumer's third
// if they are not. These two set the speeds; the figure does not give them.
constexpr std::uint64_t kScanItems = 768;
constexpr double kStaticUs = 3200;
constexpr double kBalancedUs = 2100;

std::vector<double> scan_ns() {
  const double slowest = kScanItems / 3.0 / kStaticUs;  // items per us
  const double others = (kScanItems / kBalancedUs - slowest) / 2;
  return {1e3 / slowest, 1e3 / others, 1e3 / others};
}

// Of three consumers; the producers' rings of a shuffle get the items in turn, so each consumer gets a third.
FlowLoad scan_load(FlowKind kind) {
  FlowLoad load;
  load.kind = kind;
  load.producers = 4;
  load.consumers = 3;
  load.shape = {.slots = 4, .item_bytes = 16'384};
  load.items = kScanItems / load.producers;
  load.consumer_ns = scan_ns();
  return load;
}

// What a switch holds for each flow of one producer and one consumer.
struct SwitchCost {
  bool has_room = true;
  double register_bytes = 0;
  double table_bytes = 0;
};

// Bits of the entries of all tables: keys and what the actions get.
double entry_bits(p4::Switch& device) {
  const p4::ProgramInfo& info = device.program().info();
  double bits = 0;
  for (std::size_t t = 0; t < info.tables.size(); ++t) {
    for (const p4::TableState::Row& row : device.state().tables[t].rows()) {
      for (const p4::KeyInfo& key : info.tables[t].keys) {
        bits += key.width;
      }
      for (const p4::ParameterInfo& parameter : info.tables[t].actions.at(row.action).parameters) {
        bits += parameter.width;
      }
    }
  }
  return bits;
}

SwitchCost cost_of_flows(std::uint64_t count) {
  p4::Switch device(flows::zero_sided_program(), {.ports = 2, .icrc = true});
  flows::FlowSwitch control(device, {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}});
  const flows::RingShape shape{.slots = 16, .item_bytes = 64};
  SwitchCost cost;
  std::size_t most_elements = 0;
  for (const p4::RegisterInfo& one : device.program().info().registers) {
    most_elements = std::max(most_elements, one.size);
  }
  for (const p4::RegisterInfo& one : device.program().info().registers) {
    cost.register_bytes += one.size == most_elements ? one.width / 8.0 : 0;  // an element for each thread or ring
  }
  const double before = entry_bits(device);
  try {
    for (std::uint64_t i = 0; i < count; ++i) {
      const flows::FlowRing from{.mac = {2, 0, 0, 0, 0, 1},
                                 .ip = {10, 0, 0, 1},
                                 .port = 0,
                                 .queue_pair = static_cast<std::uint32_t>(17 + i),
                                 .end = control.new_end(),
                                 .rkey = 1,
                                 .address = 0x1000,
                                 .shape = shape};
      flows::FlowRing to = from;
      to.port = 1;
      to.mac[5] = 2;
      to.ip[3] = 2;
      to.end = control.new_end();
      control.start({.producers = {from}, .consumers = {to}});
    }
  } catch (const p4::ControlError&) {
    cost.has_room = false;
  }
  cost.table_bytes = (entry_bits(device) - before) / 8 / static_cast<double>(count);
  return cost;
}

std::string list_of(const std::vector<double>& values, int digits = 2) {
  std::string text;
  for (const double value : values) {
    text += fmt::format("{}{:.{}f}", text.empty() ? "" : ", ", value, digits);
  }
  return text;
}

}  // namespace

ExperimentResult flow_kinds(const ExperimentOptions& given) {
  const ExperimentOptions& options = without_cluster(given, "flow-kinds");
  std::vector<FlowLoad> loads;
  for (std::uint32_t n = 1; n <= kMostUnits; ++n) {
    loads.push_back(wide_load(FlowKind::replicate, 1, n));
  }
  for (std::uint32_t n = 1; n <= kMostUnits; ++n) {
    loads.push_back(wide_load(FlowKind::replicate, n, kMostUnits));
    loads.back().batch_bytes = std::uint64_t{1} << 20;  // producers take turns, so there must be many
    loads.back().to_us = 14'000;
  }
  const std::size_t scans = loads.size();
  loads.push_back(scan_load(FlowKind::shuffle));
  loads.push_back(scan_load(FlowKind::balance));
  const std::vector<FlowSeen> seen = run_flow_loads(options, loads);
  const double link = link_gbytes(fabric::sim::load_profile(options.profile));

  ExperimentResult result = begin_result("flow-kinds", options, "units", Scale::linear);
  Series replicated{.name = "each consumer, 1 producer", .unit = "Gbyte/s", .panel = "replication 1:N"};
  Series shared{.name = "each producer, 4 consumers", .unit = "Gbyte/s", .panel = "replication N:4"};
  double least = std::numeric_limits<double>::infinity();
  double unfair = 0;
  std::string shares;
  for (std::uint32_t n = 1; n <= kMostUnits; ++n) {
    const std::vector<double>& got = seen[n - 1].consumer_gbytes;
    replicated.points.push_back({.x = static_cast<double>(n), .y = *std::ranges::min_element(got)});
    least = std::min(least, *std::ranges::min_element(got));
    const std::vector<double>& gave = seen[kMostUnits + n - 1].producer_gbytes;
    const double mean = std::accumulate(gave.begin(), gave.end(), 0.0) / n;
    shared.points.push_back({.x = static_cast<double>(n), .y = mean});
    for (const double one : gave) {
      unfair = greater(unfair, std::abs(one / mean - 1));
    }
    shares += fmt::format("{}{}", shares.empty() ? "" : "; ", list_of(gave));
  }
  result.series.push_back(std::move(replicated));
  result.series.push_back(std::move(shared));

  const SwitchCost cost = cost_of_flows(kPaperFlows + 1);
  result.targets.push_back(number_target("Z5.registers", 50, cost.register_bytes, "B"));
  constexpr double kPaperTableBytes = 700;
  result.targets.push_back(shape_target("Z5.tables", cost.table_bytes < 1.1 * kPaperTableBytes,
                                        fmt::format("{:.0f} B; the paper's take about {:.0f}, and fewer are better",
                                                    cost.table_bytes, kPaperTableBytes)));
  result.targets.push_back(shape_target("Z5.flows", cost.has_room,
                                        fmt::format("a switch {} {} flows of one producer and one consumer",
                                                    cost.has_room ? "takes" : "does not take", kPaperFlows + 1)));
  const FlowSeen& still = seen[scans];
  const FlowSeen& balanced = seen[scans + 1];
  result.targets.push_back(
      shape_target("Z6",
                   still.rings_of_producers == 12 && still.rings_of_consumers == 3 &&
                       balanced.rings_of_producers == 4 && balanced.rings_of_consumers == 3,
                   fmt::format("4:3: items went by key through {} and {} rings, load-balanced through {} and {}",
                               still.rings_of_producers, still.rings_of_consumers, balanced.rings_of_producers,
                               balanced.rings_of_consumers)));
  const double static_us = *std::ranges::max_element(still.finish_us);
  const double balanced_us = *std::ranges::max_element(balanced.finish_us);
  result.targets.push_back(number_target("Z7", kBalancedUs / kStaticUs, balanced_us / static_us, "of static"));
  const double earliest = *std::ranges::min_element(balanced.finish_us);
  result.targets.push_back(shape_target(
      "Z7.together", earliest > 0.95 * balanced_us,
      fmt::format("balanced: {} us; static: {} us", list_of(balanced.finish_us, 0), list_of(still.finish_us, 0))));
  result.targets.push_back(
      shape_target("Z8", least > 0.9 * link,
                   fmt::format("to 1 to 4 consumers at least {:.1f} of {:.1f} Gbyte/s at each", least, link)));
  result.targets.push_back(shape_target("Z9", unfair < 0.05, fmt::format("Gbyte/s of 1 to 4 producers: {}", shares)));
  return result;
}

}  // namespace sidelatch::bench
