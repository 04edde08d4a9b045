// TODS 2025, figure 5: private counters at growing strides, which fall into fewer and fewer slots of the NIC's lock
// table. The two cures are a pad of 8 bytes, and counters packed back to back.
#include "experiments.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/checker/lock_table.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::bench {

using checker::ClosedLoop;

namespace {

double lock_slot_bits(const ExperimentOptions& options) {
  if (options.cluster != nullptr) {
    Cluster& cluster = *options.cluster;
    // Some twenty loops: the others wait for them at a barrier that has a limit.
    const checker::LockTableOptions times{.warm_up = std::min(cluster.options().warm_up, fabric::from_ns(100e6)),
                                          .measured = std::min(cluster.options().measured, fabric::from_ns(1e9))};
    // One process has enough workers; the others stay idle.
    double bits = 0;
    if (cluster.options().rank == 0) {
      bits = checker::probe_lock_table(cluster.storage(), cluster.clients(), times)->address_bits;
    }
    return cluster.sum(bits);
  }
  fabric::sim::Simulation world({.profile = fabric::sim::load_profile(options.profile), .seed = options.seed});
  fabric::Node& storage = world.add_node("storage");
  std::array<fabric::Node*, 4> clients{};
  for (fabric::Node*& client : clients) {
    client = &world.add_node("client");
  }
  return checker::probe_lock_table(storage, clients)->address_bits;
}

}  // namespace

ExperimentResult atomics_stride(const ExperimentOptions& options) {
  static constexpr std::array<std::uint32_t, 8> kWorkers = {1, 2, 4, 8, 16, 32, 64, 128};
  static constexpr std::array<std::uint64_t, 9> kStrides = {64, 256, 512, 4096, 8, 64 + 8, 256 + 8, 512 + 8, 4096 + 8};
  static constexpr std::size_t kFirstCured = 4;  // packed, then padded

  std::vector<ClosedLoop> loops;
  for (const std::uint64_t stride : kStrides) {
    for (const std::uint32_t workers : kWorkers) {
      ClosedLoop loop;
      loop.workers = workers;
      loop.offset = [stride](std::uint32_t w) { return w * stride; };
      loops.push_back(loop);
    }
  }
  const Curves mops(kWorkers, run_loops(options, loops));

  ExperimentResult result = begin_result("atomics-stride", options, "workers");
  for (std::size_t s = 0; s < kStrides.size(); ++s) {
    const bool padded = s > kFirstCured;
    std::string name = padded ? fmt::format("{} B + 8", kStrides[s] - 8) : fmt::format("{} B", kStrides[s]);
    result.series.push_back(mops.series(s, std::move(name), "Mops/s"));
  }

  double slowest_cured = mops.at(kFirstCured, 128);
  for (std::size_t s = kFirstCured; s < kStrides.size(); ++s) {
    slowest_cured = lesser(slowest_cured, mops.at(s, 128));
  }
  result.series.push_back(from_paper("256 B", "Mops/s", {{128, 40, {}}}));
  result.series.push_back(from_paper("512 B", "Mops/s", {{64, 20, {}}}));
  result.series.push_back(from_paper("4096 B", "Mops/s", {{128, 2.32, {}}}));
  result.series.push_back(from_paper("4096 B + 8", "Mops/s", {{128, 51.2, {}}}));
  result.targets.push_back(number_target("N4", 40, mops.at(1, 128), "Mops/s"));
  result.targets.push_back(number_target("N5", 20, mops.at(2, 64), "Mops/s"));
  result.targets.push_back(
      shape_target("N5.scaling", mops.at(2, 64) > 0.97 * mops.at(2, 128),
                   fmt::format("{:.1f} Mops/s with 64 workers, {:.1f} with 128", mops.at(2, 64), mops.at(2, 128))));
  result.targets.push_back(number_target("N6", 2.32, mops.at(3, 128), "Mops/s"));
  result.targets.push_back(number_target("N7", 51.2, slowest_cured, "Mops/s"));
  result.targets.push_back(exact_target("N8", 12, lock_slot_bits(options), "bits"));
  return result;
}

}  // namespace sidelatch::bench
