// SIGMOD 2024, figure 7: the rate of a flow of one producer and one consumer by the size of an item and by the most
// bytes that move at once.
#include "flow_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::bench {

namespace {

constexpr std::array<std::uint64_t, 3> kBatchedItems = {4096, 65'536, 1'048'576};
constexpr std::array<std::uint64_t, 6> kBatches = {1, 4, 16, 64, 256, 1024};  // items at most
constexpr std::uint64_t kMostBatchBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kRingBytes = std::uint64_t{8} << 20;

}  // namespace

ExperimentResult flow_batching(const ExperimentOptions& given) {
  const ExperimentOptions& options = without_cluster(given, "flow-batching");
  std::vector<FlowLoad> loads;
  std::vector<std::pair<std::size_t, std::uint64_t>> places;  // the item's size and the batch
  for (std::size_t size = 0; size < kBatchedItems.size(); ++size) {
    for (const std::uint64_t batch : kBatches) {
      if (batch * kBatchedItems.at(size) <= kMostBatchBytes) {
        FlowLoad load;
        load.shape = {.slots = static_cast<std::uint32_t>(kRingBytes / kBatchedItems.at(size)),
                      .item_bytes = static_cast<std::uint32_t>(kBatchedItems.at(size))};
        load.batch_bytes = batch * kBatchedItems.at(size);
        load.from_us = 1500;  // batches begin with 64 KiB
        load.to_us = 5500;
        loads.push_back(load);
        places.emplace_back(size, batch);
      }
    }
  }
  const std::vector<FlowSeen> seen = run_flow_loads(options, loads);
  ExperimentResult result = begin_result("flow-batching", options, "items per batch at most");
  std::array<double, kBatchedItems.size()> single{};
  std::array<double, kBatchedItems.size()> best{};
  std::uint64_t largest = 0;
  for (std::size_t size = 0; size < kBatchedItems.size(); ++size) {
    Series series{.name = fmt::format("{} KiB", kBatchedItems.at(size) / 1024), .unit = "Gbyte/s"};
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (places[i].first == size) {
        const double rate = seen[i].consumer_gbytes[0];
        series.points.push_back({.x = static_cast<double>(places[i].second), .y = rate});
        single.at(size) = places[i].second == 1 ? rate : single.at(size);
        best.at(size) = std::max(best.at(size), rate);
        largest = std::max(largest, seen[i].largest_batch);
      }
    }
    result.series.push_back(std::move(series));
  }
  const auto gain = [&](std::size_t size) { return best.at(size) / single.at(size); };
  result.targets.push_back(shape_target("Z4.limit", largest <= kMostBatchBytes && largest > kMostBatchBytes / 2,
                                        fmt::format("the largest batch has {} of 4096 KiB", largest / 1024)));
  result.targets.push_back(
      shape_target("Z4.effect", gain(0) > gain(1) && gain(1) > gain(2) && gain(2) >= 1,
                   fmt::format("batching makes 4 KiB {:.1f} times as fast, 64 KiB {:.2f} times, 1 MiB {:.3f} times",
                               gain(0), gain(1), gain(2))));
  return result;
}

}  // namespace sidelatch::bench
