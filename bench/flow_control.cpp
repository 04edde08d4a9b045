// SIGMOD 2024: flows side by side between two nodes (figure 6), a shuffle among four (figure 9), flows whose shares of
// a link change (figure 11), and consumers that join and leave (figure 13). Seconds of the paper are milliseconds here.
#include "flow_load.h"

#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/flows/ring.h>
#include <sidelatch/flows/sim/flow_simulation.h>
#include <sidelatch/switchsync/sim/simulated_switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

namespace sidelatch::bench {

namespace {

using flows::FlowKind;
using flows::FlowRing;
using flows::FlowSimulation;

constexpr std::uint64_t kWindowNs = 2'000'000;
constexpr std::uint64_t kLongWindowNs = 20'000'000;  // of many turns of the largest batches
constexpr std::uint64_t kSettleNs = 500'000;         // of a window, not measured

// Units with as many rings as they are given: producers always push, consumers take the same time for each item.
class ControlledFlows {
 public:
  ControlledFlows(const fabric::sim::Profile& profile, std::size_t units)
      : world_(profile, timing(), units), sources_(units), sinks_(units) {
    for (std::size_t i = 0; i < units; ++i) {
      world_.set_unit(i, [this, i](std::uint64_t now) { act(i, now); });
    }
  }

  FlowRing add_producer(std::size_t unit, const flows::RingShape& shape) {
    const FlowRing ring = world_.add_ring(unit, shape, world_.control().new_end());
    sources_[unit].push_back(std::make_unique<flows::Producer>(FlowSimulation::memory(ring), shape));
    act(unit, world_.now());
    return ring;
  }
  // `number`: of its sink.
  FlowRing add_consumer(std::size_t unit, const flows::RingShape& shape, double item_ns, std::size_t& number) {
    const FlowRing ring = world_.add_ring(unit, shape, world_.control().new_end());
    number = all_.size();
    all_.push_back(std::make_unique<Sink>(Sink{.ring = {FlowSimulation::memory(ring), shape}, .item_ns = item_ns}));
    sinks_[unit].push_back(all_.back().get());
    return ring;
  }
  [[nodiscard]] flows::FlowSwitch& control() { return world_.control(); }

  // Runs for a window, and returns the bytes per ns of each sink in its later part (BatchRate).
  std::vector<double> run_window(std::uint64_t length = kWindowNs) {
    const std::uint64_t begun = world_.now();
    world_.run_until(begun + kSettleNs);
    for (const auto& sink : all_) {
      sink->rate = {};
    }
    world_.run_until(begun + length);
    std::vector<double> rates;
    rates.reserve(all_.size());
    for (const auto& sink : all_) {
      rates.push_back(sink->rate.per_ns(static_cast<double>(begun + kSettleNs), static_cast<double>(begun + length)) *
                      sink->ring.shape().item_bytes);
    }
    return rates;
  }

 private:
  struct Sink {
    flows::Consumer ring;
    double item_ns = 0;
    double free_ns = 0;
    BatchRate rate{};  // of its items
  };

  static flows::FlowSimulationTiming timing() {
    const switchsync::SwitchTiming given = switchsync::switch_timing("tofino");
    return {.cable_ns = fabric::to_ns(given.cable), .switch_ns = fabric::to_ns(given.latency)};
  }

  void act(std::size_t unit, std::uint64_t now) {
    for (const auto& source : sources_[unit]) {
      for (auto free = source->reserve(); !free.empty(); free = source->reserve()) {
        source->commit(static_cast<std::uint32_t>(free.size() / source->shape().stride()));
      }
    }
    for (Sink* const sink : sinks_[unit]) {
      const auto time = static_cast<double>(now);
      while (sink->ring.available() != 0 && sink->free_ns + sink->item_ns <= time) {
        sink->ring.release(1);
        sink->free_ns += sink->item_ns;
        sink->rate.count(sink->item_ns == 0 ? time : sink->free_ns, 1);
      }
      if (sink->ring.available() == 0 || sink->item_ns == 0) {
        sink->free_ns = time;
      }
    }
  }

  FlowSimulation world_;
  std::vector<std::vector<std::unique_ptr<flows::Producer>>> sources_;
  std::vector<std::vector<Sink*>> sinks_;
  std::vector<std::unique_ptr<Sink>> all_;
};

flows::Flow flow_of(FlowKind kind) {
  flows::Flow flow{.kind = kind, .path_mtu = 4096, .poll_interval = std::chrono::microseconds(5)};
  flow.idle_interval = std::chrono::nanoseconds(0);
  return flow;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Figure 6: so many flows between two units.
double side_by_side(const fabric::sim::Profile& profile, std::uint32_t item_bytes, std::size_t count) {
  ControlledFlows flows(profile, 2);
  for (std::size_t i = 0; i < count; ++i) {
    const flows::RingShape shape{.slots = std::max(4U, (1U << 20U) / item_bytes), .item_bytes = item_bytes};
    flows::Flow flow = flow_of(FlowKind::shuffle);
    std::size_t number = 0;
    flow.producers = {flows.add_producer(0, shape)};
    flow.consumers = {flows.add_consumer(1, shape, 0, number)};
    flows.control().start(flow);
  }
  static_cast<void>(flows.run_window());  // batches grow
  return sum(flows.run_window(kLongWindowNs));
}

constexpr std::array<std::uint32_t, 3> kSideItems{4096, 65'536, 1'048'576};
constexpr std::array<std::size_t, 3> kSideFlows{1, 4, 8};
constexpr std::array<std::uint32_t, 5> kTupleBytes{64, 256, 1024, 4096, 16'384};
constexpr std::uint32_t kShufflers = 4;
constexpr std::size_t kWorkers = 4;
constexpr std::array<std::array<double, 3>, 4> kShares{{{1, 1, 1}, {4, 1, 1}, {1, 2, 3}, {6, 3, 1}}};
constexpr std::array<std::size_t, 7> kConsumersThere{1, 2, 3, 4, 3, 2, 1};
constexpr double kElasticItemNs = 8192;  // of 16 KiB: 2 Gbyte/s each

// Figure 9: four nodes with four workers each, every one a producer and a consumer. What each node gets.
double shuffle_among_nodes(const fabric::sim::Profile& profile, std::uint32_t bytes) {
  ControlledFlows flows(profile, kShufflers);
  const flows::RingShape shape{.slots = std::bit_ceil((1U << 16U) / bytes), .item_bytes = bytes};
  flows::Flow flow = flow_of(FlowKind::shuffle);
  for (std::size_t worker = 0; worker < std::size_t{kShufflers} * kWorkers; ++worker) {
    for (std::size_t to = 0; to < std::size_t{kShufflers} * kWorkers; ++to) {
      flow.producers.push_back(flows.add_producer(worker / kWorkers, shape));
    }
    std::size_t number = 0;
    flow.consumers.push_back(flows.add_consumer(worker / kWorkers, shape, 0, number));
  }
  flows.control().start(flow);
  static_cast<void>(flows.run_window());
  return sum(flows.run_window()) / kShufflers;
}

}  // namespace

ExperimentResult flow_control(const ExperimentOptions& given) {
  const ExperimentOptions& options = without_cluster(given, "flow-control");
  const fabric::sim::Profile profile = fabric::sim::load_profile(options.profile);
  const double link = link_gbytes(profile);
  ExperimentResult result = begin_result("flow-control", options, "see the panels", Scale::linear);

  double slowest_many = link;
  for (const std::uint32_t bytes : kSideItems) {
    Series series{.name = fmt::format("{} KiB", bytes / 1024), .unit = "Gbyte/s", .panel = "flows between two nodes"};
    for (const std::size_t count : kSideFlows) {
      const double rate = side_by_side(profile, bytes, count);
      series.points.push_back({.x = static_cast<double>(count), .y = rate});
      slowest_many = count == 1 ? slowest_many : lesser(slowest_many, rate);
    }
    result.series.push_back(std::move(series));
  }
  result.targets.push_back(
      shape_target("Z10", slowest_many > 0.9 * link,
                   fmt::format("4 and 8 flows side by side, 4 KiB to 1 MiB: at least {:.1f} of {:.1f} Gbyte/s",
                               slowest_many, link)));

  Series tuples{.name = "each node", .unit = "Gbyte/s", .panel = "shuffle among 4 nodes by bytes of a tuple"};
  // The paper says that it is faster than others at all sizes, and no numbers.
  double slowest_tuple = link;
  double fastest_tuple = 0;
  for (const std::uint32_t bytes : kTupleBytes) {
    const double rate = shuffle_among_nodes(profile, bytes);
    tuples.points.push_back({.x = static_cast<double>(bytes), .y = rate});
    slowest_tuple = lesser(slowest_tuple, rate);
    fastest_tuple = greater(fastest_tuple, rate);
  }
  result.series.push_back(std::move(tuples));
  result.targets.push_back(
      shape_target("Z11", slowest_tuple > 0.9 * fastest_tuple,
                   fmt::format("64 B to 16 KiB: {:.1f} to {:.1f} of {:.1f} Gbyte/s at each of 4 nodes", slowest_tuple,
                               fastest_tuple, link)));

  ControlledFlows shared(profile, 2);
  std::vector<flows::FlowSwitch::FlowId> ids;
  for (std::size_t i = 0; i < kShares[0].size(); ++i) {
    const flows::RingShape shape{.slots = 64, .item_bytes = 16'384};
    flows::Flow flow = flow_of(FlowKind::shuffle);
    flow.batch_bytes = 262'144;
    std::size_t number = 0;
    flow.producers = {shared.add_producer(0, shape)};
    flow.consumers = {shared.add_consumer(1, shape, 0, number)};
    ids.push_back(shared.control().start(flow));
  }
  const double of_all = 0.8 * link;  // for the three together
  double worst_share = 0;
  std::vector<Series> prioritized;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    prioritized.push_back(
        {.name = fmt::format("flow {}", i + 1), .unit = "Gbyte/s", .panel = "shares that change, by ms"});
  }
  for (std::size_t window = 0; window < kShares.size(); ++window) {
    const auto& shares = kShares.at(window);
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      shared.control().limit_rate(ids[i], static_cast<std::uint64_t>(of_all * shares.at(i) / all * 1e9));
    }
    const std::vector<double> rates = shared.run_window();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      prioritized[i].points.push_back({.x = static_cast<double>((window + 1) * kWindowNs) / 1e6, .y = rates[i]});
      worst_share = greater(worst_share, std::abs(rates[i] / (of_all * shares.at(i) / all) - 1));
    }
  }
  result.series.insert(result.series.end(), prioritized.begin(), prioritized.end());
  result.targets.push_back(
      shape_target("Z12", worst_share < 0.1,
                   fmt::format("three flows, shares 1:1:1, 4:1:1, 1:2:3, 6:3:1: at most {:.1f} % from what was set",
                               100 * worst_share)));

  ControlledFlows elastic(profile, kShufflers + 4);
  const flows::RingShape shape{.slots = 16, .item_bytes = 16'384};
  flows::Flow flow = flow_of(FlowKind::balance);
  flow.batch_bytes = 65'536;
  flow.is_open = true;
  for (std::uint32_t i = 0; i < kShufflers; ++i) {
    flow.producers.push_back(elastic.add_producer(i, shape));
  }
  std::size_t number = 0;
  flow.consumers = {elastic.add_consumer(kShufflers, shape, kElasticItemNs, number)};
  const auto id = elastic.control().start(flow);
  std::vector<std::size_t> there{0};
  double worst_step = 0;
  Series scaled{.name = "all consumers", .unit = "Gbyte/s", .panel = "consumers that join and leave, by ms"};
  for (std::size_t window = 0; window < kConsumersThere.size(); ++window) {
    while (there.size() < kConsumersThere.at(window)) {
      there.push_back(elastic.control().join_consumer(
          id, elastic.add_consumer(kShufflers + there.size(), shape, kElasticItemNs, number)));
    }
    while (there.size() > kConsumersThere.at(window)) {
      elastic.control().leave_consumer(id, there.back());
      there.pop_back();
    }
    const double rate = sum(elastic.run_window());
    scaled.points.push_back({.x = static_cast<double>((window + 1) * kWindowNs) / 1e6, .y = rate});
    const double wanted = static_cast<double>(there.size()) * shape.item_bytes / kElasticItemNs;
    worst_step = greater(worst_step, std::abs(rate / wanted - 1));
  }
  result.series.push_back(std::move(scaled));
  result.targets.push_back(shape_target(
      "Z13", worst_step < 0.1,
      fmt::format("1, 2, 3, 4, 3, 2, 1 consumers: at most {:.1f} % from what so many can take", 100 * worst_step)));
  return result;
}

}  // namespace sidelatch::bench
