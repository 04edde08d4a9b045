#include "flow_load.h"

#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/flows/ring.h>
#include <sidelatch/flows/sim/flow_simulation.h>
#include <sidelatch/switchsync/sim/simulated_switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <utility>

namespace sidelatch::bench {

using flows::FlowKind;
using flows::FlowRing;
using flows::FlowSimulation;

namespace {

constexpr double kNsPerUs = 1e3;
/// Virtual, of a load with an end: thirty times what the slowest one of the experiments takes with a NIC of today.
constexpr std::uint64_t kLongestNs = 100'000'000;

// What an item carries.
struct Stamp {
  double pushed_ns = 0;
  std::uint32_t producer = 0;
};

// The processor of a producing unit: its rings get its items in turn, as by a key. A full one holds it up.
class PushingProcessor {
 public:
  PushingProcessor(FlowSimulation& world, const FlowLoad& load, std::uint32_t number, std::uint64_t seed,
                   const std::vector<FlowRing>& rings)
      : world_(world), load_(load), number_(number), connections_(rings), random_(seed) {
    for (const FlowRing& ring : rings) {
      rings_.push_back(std::make_unique<flows::Producer>(FlowSimulation::memory(ring), ring.shape));
    }
    draw();
  }

  void advance(std::uint64_t now) {
    while (!has_ended_) {
      if (load_.items != 0 && pushed_ == load_.items) {
        for (const auto& ring : rings_) {
          ring->end();
        }
        has_ended_ = true;
      } else if ((load_.items_per_second > 0 && due_ns_ > static_cast<double>(now)) || !push(now)) {
        return;
      } else {
        draw();
      }
    }
  }

 private:
  bool push(std::uint64_t now) {
    flows::Producer& ring = *rings_[pushed_ % rings_.size()];
    const std::span<std::byte> free = ring.reserve();
    if (free.empty()) {
      return false;
    }
    const Stamp stamp{.pushed_ns = load_.items_per_second > 0 ? due_ns_ : static_cast<double>(now),
                      .producer = number_};
    std::memcpy(free.data(), &stamp, sizeof stamp);
    ring.commit(1);
    if (load_.rings && ring.shall_ring()) {
      world_.ring(connections_[pushed_ % rings_.size()]);
    }
    ++pushed_;
    return true;
  }

  // At random moments: else they would keep step with the switch's polls.
  void draw() {
    if (load_.items_per_second > 0) {
      due_ns_ += std::exponential_distribution<>(load_.items_per_second / 1e9)(random_);
      if (load_.rings) {
        world_.call_unit(number_, static_cast<std::uint64_t>(std::ceil(due_ns_)));
      }
    }
  }

  FlowSimulation& world_;
  const FlowLoad& load_;
  std::uint32_t number_;
  std::vector<FlowRing> connections_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<flows::Producer>> rings_;
  double due_ns_ = 0;
  std::uint64_t pushed_ = 0;
  bool has_ended_ = false;
};

// The processor of a consuming unit: takes the same time for each item.
class PoppingProcessor {
 public:
  PoppingProcessor(FlowSimulation& world, const FlowLoad& load, std::uint32_t number, const FlowRing& ring)
      : world_(world),
        connection_(ring),
        load_(load),
        item_ns_(load.consumer_ns.empty() ? 0 : load.consumer_ns.at(number)),
        memory_(FlowSimulation::memory(ring)),
        ring_(memory_, ring.shape),
        of_producer_(load.producers) {}

  void advance(std::uint64_t now) {
    const auto time = static_cast<double>(now);
    const std::uint64_t there = visible();
    if (known_ == 0 && there > 0) {
      largest_batch_ = std::max(largest_batch_, there * load_.shape.item_bytes);  // all came with one head
    }
    while (is_busy_ || visible() > 0) {
      if (!is_busy_) {
        is_busy_ = true;
        // An item that was there before waited for the processor, and not for this moment.
        done_ns_ = (known_ > 0 ? done_ns_ : std::max(done_ns_, time)) + item_ns_;
      }
      if (done_ns_ > time) {
        break;
      }
      pop();
      is_busy_ = false;
      known_ -= known_ > 0 ? 1U : 0U;
    }
    known_ = visible();
  }

  [[nodiscard]] std::uint64_t popped() const noexcept { return popped_; }
  [[nodiscard]] double done_ns() const noexcept { return done_ns_; }
  [[nodiscard]] std::uint64_t largest_batch() const noexcept { return largest_batch_; }
  // What was measured.
  [[nodiscard]] const BatchRate& rate() const noexcept { return rate_; }  // of all items
  [[nodiscard]] const std::vector<BatchRate>& of_producer() const noexcept { return of_producer_; }
  [[nodiscard]] const std::vector<double>& latencies_ns() const noexcept { return latencies_ns_; }

 private:
  // Items that are in memory; the ring itself looks only when it knows of none.
  [[nodiscard]] std::uint64_t visible() const {
    std::uint32_t head = 0;
    std::memcpy(&head, memory_.data() + flows::RingShape::head_offset(), sizeof head);
    return (head - ring_.popped()) & flows::kCount;
  }

  void pop() {
    Stamp stamp;
    std::memcpy(&stamp, ring_.peek().data(), sizeof stamp);
    ring_.release(1);
    if (load_.rings && ring_.shall_ring()) {
      world_.ring(connection_);
    }
    ++popped_;
    if (done_ns_ >= load_.from_us * kNsPerUs && done_ns_ < load_.to_us * kNsPerUs) {
      rate_.count(done_ns_, 1);
      of_producer_.at(stamp.producer).count(done_ns_, 1);
      latencies_ns_.push_back(done_ns_ - item_ns_ - stamp.pushed_ns);
    }
  }

  FlowSimulation& world_;
  FlowRing connection_;
  const FlowLoad& load_;
  double item_ns_;
  std::span<std::byte> memory_;
  flows::Consumer ring_;
  BatchRate rate_;
  std::vector<BatchRate> of_producer_;
  std::vector<double> latencies_ns_;
  double done_ns_ = 0;
  std::uint64_t popped_ = 0;
  std::uint64_t known_ = 0;  // of the items, those that were visible at the last moment
  std::uint64_t largest_batch_ = 0;
  bool is_busy_ = false;
};

FlowSeen run_flow_load(const FlowLoad& load, const fabric::sim::Profile& profile, std::uint64_t seed) {
  const switchsync::SwitchTiming timing = switchsync::switch_timing("tofino");
  FlowSimulation world(profile, {.cable_ns = fabric::to_ns(timing.cable), .switch_ns = fabric::to_ns(timing.latency)},
                       std::size_t{load.producers} + load.consumers);
  flows::Flow flow{.kind = load.kind,
                   .path_mtu = 4096,
                   .batch_bytes = load.batch_bytes,
                   .poll_interval = std::chrono::nanoseconds(static_cast<std::int64_t>(load.poll_us * kNsPerUs)),
                   .idle_interval = std::chrono::nanoseconds(0)};  // the poll interval always
  std::vector<std::unique_ptr<PushingProcessor>> producers;
  std::vector<std::unique_ptr<PoppingProcessor>> consumers;
  for (std::uint32_t i = 0; i < load.producers; ++i) {
    std::vector<FlowRing> rings;
    for (std::uint32_t ring = 0; ring < (load.kind == FlowKind::shuffle ? load.consumers : 1); ++ring) {
      rings.push_back(world.add_ring(i, load.shape, world.control().new_end()));
    }
    flow.producers.insert(flow.producers.end(), rings.begin(), rings.end());
    producers.push_back(std::make_unique<PushingProcessor>(world, load, i, seed * 1000 + i, rings));
    world.set_unit(i, [unit = producers.back().get()](std::uint64_t now) { unit->advance(now); });
  }
  const std::vector<flows::SwitchEnd> ends = world.control().new_ends(load.consumers);
  for (std::uint32_t i = 0; i < load.consumers; ++i) {
    flow.consumers.push_back(world.add_ring(load.producers + i, load.shape, ends[i]));
    consumers.push_back(std::make_unique<PoppingProcessor>(world, load, i, flow.consumers.back()));
    world.set_unit(load.producers + i, [unit = consumers.back().get()](std::uint64_t now) { unit->advance(now); });
  }
  FlowSeen seen;
  const flows::FlowSwitch::FlowId id = world.control().start(flow);

  if (load.items == 0) {
    world.run_until(static_cast<std::uint64_t>(load.to_us * kNsPerUs));
  } else {
    const std::uint64_t all = load.items * load.producers * (load.kind == FlowKind::replicate ? load.consumers : 1);
    world.run_until(kLongestNs);  // or until nothing happens any more
    std::uint64_t popped = 0;
    for (const auto& consumer : consumers) {
      consumer->advance(kLongestNs);  // its last items
      popped += consumer->popped();
    }
    seen.has_ended = popped == all;
  }

  const flows::FlowState state = world.control().state(id);
  const auto is_used = [](std::uint32_t items) { return items > 0; };
  seen.rings_of_producers = static_cast<std::uint64_t>(std::ranges::count_if(state.taken, is_used));
  seen.rings_of_consumers = static_cast<std::uint64_t>(std::ranges::count_if(state.delivered, is_used));
  const auto items_per_ns = [&load](const BatchRate& rate) {
    return rate.per_ns(load.from_us * kNsPerUs, load.to_us * kNsPerUs);
  };
  std::vector<double> latencies;
  seen.producer_gbytes.resize(load.producers);
  for (const auto& consumer : consumers) {
    const double copies = load.kind == FlowKind::replicate ? load.consumers : 1;
    for (std::uint32_t p = 0; p < load.producers; ++p) {
      seen.producer_gbytes[p] += items_per_ns(consumer->of_producer()[p]) * load.shape.item_bytes / copies;
    }
    const double rate = items_per_ns(consumer->rate());
    seen.consumer_gbytes.push_back(rate * load.shape.item_bytes);
    seen.million_items += rate * 1e3;
    seen.finish_us.push_back(seen.has_ended ? consumer->done_ns() / kNsPerUs : std::numeric_limits<double>::infinity());
    seen.largest_batch = std::max(seen.largest_batch, consumer->largest_batch());
    latencies.insert(latencies.end(), consumer->latencies_ns().begin(), consumer->latencies_ns().end());
  }
  if (!latencies.empty()) {
    const auto middle = latencies.begin() + static_cast<std::ptrdiff_t>(latencies.size() / 2);
    std::ranges::nth_element(latencies, middle);
    seen.median_us = *middle / kNsPerUs;
  }
  return seen;
}

}  // namespace

double link_gbytes(const fabric::sim::Profile& profile) { return profile.link.gbps / 8; }

const ExperimentOptions& without_cluster(const ExperimentOptions& given, std::string_view experiment) {
  if (given.cluster != nullptr) {
    throw std::invalid_argument(
        fmt::format("{} is simulated only, for it needs a programmable switch: leave --connect out", experiment));
  }
  return given;
}

std::vector<FlowSeen> run_flow_loads(const ExperimentOptions& options, std::span<const FlowLoad> loads) {
  const fabric::sim::Profile profile = fabric::sim::load_profile(options.profile);
  std::vector<FlowSeen> seen(loads.size());
  std::mutex one_at_a_time;  // serializes progress reports
  std::size_t done = 0;
  checker::for_each_index(loads.size(), [&](std::size_t i) {
    if (options.interrupted != nullptr && options.interrupted->load(std::memory_order_relaxed)) {
      throw Interrupted("interrupted");
    }
    seen[i] = run_flow_load(loads[i], profile, options.seed + i);
    const std::lock_guard lock(one_at_a_time);
    ++done;
    if (options.progress) {
      options.progress(done, loads.size());
    }
  });
  return seen;
}

}  // namespace sidelatch::bench
