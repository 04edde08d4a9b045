// TPC-H's query 1 over a zero-sided flow that balances: four storage nodes scan their part of LINEITEM, three compute
// nodes of unequal speed filter and aggregate, and their partial results are added up. Then the same with a static
// partition, by a shuffle: the slowest node decides how long that takes.
//
// The rows are generated, 12 000 of them (a scale factor of 0.002), with the value ranges of the TPC-H specification,
// section 4.2.3; their distributions are not dbgen's. Money is in cents, rates are in hundredths. All is simulated; the
// speeds of the nodes are chosen, so the ratio is the result.
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/flows/ring.h>
#include <sidelatch/flows/sim/flow_simulation.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iostream>
#include <random>
#include <span>
#include <vector>

using namespace sidelatch;

namespace {

constexpr std::size_t kStorageNodes = 4;  // more than compute nodes, so each one finds one that is free
constexpr std::array<std::uint64_t, 3> kNanosecondsPerRow{160, 320, 640};  // of each compute node
constexpr std::size_t kRows = 12'000;
constexpr std::uint32_t kSlots = 64;      // few: what is in a slow node's ring waits for it
constexpr std::uint32_t kLastDay = 2436;  // 1998-09-02, counted from 1992-01-01: 90 days before the end

struct LineItem {
  std::int64_t price = 0;  // cents
  std::uint32_t ship_day = 0;
  std::uint8_t quantity = 0;
  std::uint8_t discount = 0;  // hundredths
  std::uint8_t tax = 0;       // hundredths
  std::uint8_t group = 0;     // return flag and line status: A F, N F, N O, R F
};
constexpr flows::RingShape kShape{.slots = kSlots, .item_bytes = sizeof(LineItem)};
constexpr std::array<const char*, 4> kGroups{"A F", "N F", "N O", "R F"};

struct Sums {
  std::int64_t quantity = 0;
  std::int64_t price = 0;
  std::int64_t discounted = 0;  // cents / 100
  std::int64_t charge = 0;      // cents / 10 000
  std::int64_t discount = 0;
  std::int64_t count = 0;
  friend bool operator==(const Sums&, const Sums&) = default;
};
using Result = std::array<Sums, kGroups.size()>;

std::vector<LineItem> generate() {
  std::minstd_rand random(1);
  std::vector<LineItem> rows(kRows);
  for (LineItem& row : rows) {
    row.quantity = static_cast<std::uint8_t>(1 + random() % 50);
    row.price = row.quantity * static_cast<std::int64_t>(90'000 + random() % 120'000);
    row.discount = static_cast<std::uint8_t>(random() % 11);
    row.tax = static_cast<std::uint8_t>(random() % 9);
    row.ship_day = static_cast<std::uint32_t>(1 + random() % 2526);
    const auto received = static_cast<std::uint32_t>(row.ship_day + 1 + random() % 30);
    constexpr std::uint32_t kToday = 1263;  // 1995-06-17
    const bool is_open = row.ship_day > kToday;
    const bool is_returned = received <= kToday;
    row.group = is_returned ? (random() % 2 == 0 ? 0 : 3) : is_open ? 2 : 1;
  }
  return rows;
}

void aggregate(Result& result, const LineItem& row) {
  if (row.ship_day > kLastDay) {
    return;
  }
  Sums& sums = result.at(row.group);
  const std::int64_t discounted = row.price * (100 - row.discount);
  sums.quantity += row.quantity;
  sums.price += row.price;
  sums.discounted += discounted;
  sums.charge += discounted * (100 + row.tax);
  sums.discount += row.discount;
  ++sums.count;
}

void add(Result& to, const Result& one) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to.at(i).quantity += one.at(i).quantity;
    to.at(i).price += one.at(i).price;
    to.at(i).discounted += one.at(i).discounted;
    to.at(i).charge += one.at(i).charge;
    to.at(i).discount += one.at(i).discount;
    to.at(i).count += one.at(i).count;
  }
}

// A compute node: takes a row each so many nanoseconds.
struct Worker {
  Worker(std::span<std::byte> memory, std::uint64_t nanoseconds) : ring(memory, kShape), per_row(nanoseconds) {}

  // All that it has done by `now`. Whether it is at work then, until `free_at`.
  bool work(std::uint64_t now) {
    LineItem row;
    while (!is_done && free_at <= now) {
      const auto popped = ring.try_pop(std::as_writable_bytes(std::span(&row, 1)));
      is_done = popped == flows::Consumer::Popped::ended;
      if (popped != flows::Consumer::Popped::item) {
        free_at = std::max(free_at, now);
        return false;
      }
      aggregate(result, row);
      ++rows;
      free_at += per_row;
    }
    return !is_done;
  }

  flows::Consumer ring;
  std::uint64_t per_row;
  std::uint64_t free_at = 0;
  std::uint64_t called = 0;  // for then
  Result result{};
  std::uint64_t rows = 0;
  bool is_done = false;
};

struct Outcome {
  Result result{};
  std::uint64_t finished = 0;  // nanoseconds
};

Outcome run(flows::FlowKind kind, const std::vector<LineItem>& rows) {
  constexpr std::size_t kWorkers = kNanosecondsPerRow.size();
  flows::FlowSimulation world(fabric::sim::load_profile("connectx5"), {.cable_ns = 15, .switch_ns = 400},
                              kStorageNodes + kWorkers);
  flows::Flow flow{.kind = kind, .path_mtu = 4096, .batch_bytes = 1024};
  const std::size_t rings = kind == flows::FlowKind::shuffle ? kWorkers : 1;
  std::deque<flows::Producer> producers;
  std::array<std::size_t, kStorageNodes> next{};
  for (std::size_t node = 0; node < kStorageNodes; ++node) {
    next.at(node) = node;
    for (std::size_t ring = 0; ring < rings; ++ring) {
      flow.producers.push_back(world.add_ring(node, kShape, world.control().new_end()));
      producers.emplace_back(flows::FlowSimulation::memory(flow.producers.back()), kShape);
    }
    world.set_unit(node, [&, node](std::uint64_t) {
      for (std::size_t& row = next.at(node); row < rows.size(); row += kStorageNodes) {
        flows::Producer& ring = producers[node * rings + row / kStorageNodes % rings];
        if (!ring.try_push(std::as_bytes(std::span(&rows[row], 1)))) {
          return;
        }
      }
      for (std::size_t ring = 0; ring < rings; ++ring) {
        producers[node * rings + ring].end();
      }
    });
  }
  std::deque<Worker> workers;
  for (std::size_t i = 0; i < kWorkers; ++i) {
    flow.consumers.push_back(world.add_ring(kStorageNodes + i, kShape, world.control().new_end()));
    workers.emplace_back(flows::FlowSimulation::memory(flow.consumers.back()), kNanosecondsPerRow.at(i));
    world.set_unit(kStorageNodes + i, [&, i](std::uint64_t now) {
      Worker& worker = workers[i];
      if (worker.work(now) && worker.called != worker.free_at) {
        worker.called = worker.free_at;
        world.call_unit(kStorageNodes + i, worker.free_at);
      }
    });
  }
  world.control().start(flow);
  constexpr std::uint64_t kMost = 1'000'000'000;
  world.run_until(kMost, [&] { return std::ranges::all_of(workers, [](const Worker& one) { return one.is_done; }); });
  Outcome outcome;
  std::cout << (kind == flows::FlowKind::balance ? "balanced:" : "static:  ");
  for (const Worker& worker : workers) {
    add(outcome.result, worker.result);
    outcome.finished = std::max(outcome.finished, worker.free_at);
    std::cout << "  " << worker.rows << " rows in " << worker.free_at / 1000 << " us";
  }
  std::cout << "\n";
  return outcome;
}

}  // namespace

int main() {
  const std::vector<LineItem> rows = generate();
  Result expected{};
  for (const LineItem& row : rows) {
    aggregate(expected, row);
  }
  const Outcome balanced = run(flows::FlowKind::balance, rows);
  const Outcome fixed = run(flows::FlowKind::shuffle, rows);
  for (std::size_t i = 0; i < kGroups.size(); ++i) {
    const Sums& sums = balanced.result.at(i);
    std::cout << kGroups.at(i) << ": quantity " << sums.quantity << ", price " << sums.price / 100 << ", discounted "
              << sums.discounted / 10'000 << ", charge " << sums.charge / 1'000'000 << ", " << sums.count << " rows\n";
  }
  std::cout << "balanced takes " << static_cast<double>(balanced.finished) / static_cast<double>(fixed.finished)
            << " of the time of a static partition\n";
  const bool is_right = balanced.result == expected && fixed.result == expected;
  return is_right && balanced.finished < fixed.finished ? 0 : 1;
}
