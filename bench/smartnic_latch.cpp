// TODS 2025, figure 18: latches in the memory of a SmartNIC, whose cores serve them by RPC, against CAS on latches that
// share one slot of a NIC's lock table. And what the figure leaves open: RPCs that all want one latch, and CAS with the
// cure, a pad of 8 bytes.
#include "experiments.h"
#include "rpc_latch.h"

#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using checker::ClosedLoop;

namespace {

constexpr std::array<std::uint32_t, 9> kWorkers = {1, 2, 4, 8, 16, 32, 64, 128, 256};
constexpr Duration kWarmUp = std::chrono::microseconds(100);
constexpr Duration kMeasured = std::chrono::microseconds(1000);

struct Nics {
  sim::Profile smart;  // of the server whose cores serve
  sim::Profile plain;  // of the clients, and of the server of the CAS
  std::string name;
};

// It is about those two NICs; another profile than the default one is taken for both.
Nics nics_of(const ExperimentOptions& options) {
  if (options.profile == ExperimentOptions{}.profile) {
    return {sim::load_profile("bluefield2"), sim::load_profile("connectx7"), "bluefield2 (RPC), connectx7 (CAS)"};
  }
  const sim::Profile given = sim::load_profile(options.profile);
  return {given, given, options.profile};
}

struct Window {
  Time begins;
  Time ends;
  std::uint64_t* operations;
};

// Latches and unlatches for ever; each request that was answered counts, as each CAS does.
Task<void> work(std::unique_ptr<RpcLatchClient> client, Reactor* reactor, std::uint64_t index, Window window) {
  bool held = false;
  while (reactor->now() < window.ends) {
    if (held) {
      const bool freed = co_await client->unlatch(index);
      if (!freed) {
        throw std::logic_error(fmt::format("latch {} was lost by its holder", index));
      }
      held = false;
    } else {
      held = co_await client->latch(index);
    }
    const Time now = reactor->now();
    *window.operations += now >= window.begins && now < window.ends ? 1U : 0U;
  }
}

double rpc_mops(const Nics& nics, std::uint64_t seed, std::uint32_t workers, bool one_latch) {
  sim::Simulation world({.profile = nics.plain, .seed = seed});
  Node& server_node = world.add_node("smartnic", nics.smart);
  std::array<Node*, 4> clients{};
  for (Node*& client : clients) {
    client = &world.add_node("client");
  }
  RpcLatchServer server(
      server_node, {.latches = one_latch ? 1 : workers, .cores = static_cast<std::uint32_t>(nics.smart.cpu.cores)});
  Reactor& reactor = world.reactor();
  const Reactor::Scope tasks(reactor);
  std::uint64_t operations = 0;
  const Window window{kWarmUp, kWarmUp + kMeasured, &operations};
  for (std::uint32_t w = 0; w < workers; ++w) {
    auto client = std::make_unique<RpcLatchClient>(server, *clients[w % clients.size()], w + 1);
    reactor.spawn(work(std::move(client), &reactor, one_latch ? 0 : w, window));
  }
  reactor.run();
  return static_cast<double>(operations) / static_cast<double>(kMeasured.count()) * 1e6;
}

double cas_mops(const Nics& nics, std::uint64_t seed, std::uint32_t workers, std::uint64_t stride) {
  sim::Simulation world({.profile = nics.plain, .seed = seed});
  Node& storage = world.add_node("storage");
  std::array<Node*, 4> clients{};
  for (Node*& client : clients) {
    client = &world.add_node("client");
  }
  ClosedLoop loop;
  loop.workers = workers;
  loop.offset = [stride](std::uint32_t w) { return w * stride; };
  loop.warm_up = kWarmUp;
  loop.measured = kMeasured;
  return checker::run_closed_loop(storage, clients, loop).mops();
}

}  // namespace

ExperimentResult smartnic_latch(const ExperimentOptions& given) {
  if (given.cluster != nullptr) {
    throw std::invalid_argument(
        "smartnic-latch is simulated only, for NICs are driven without two-sided messages here: leave --connect out");
  }
  static constexpr std::array kLines = {"RPC", "RPC, one latch", "CAS 4096 B", "CAS 4096 B + 8"};
  const Nics nics = nics_of(given);
  std::vector<double> rates(kLines.size() * kWorkers.size());
  checker::for_each_index(rates.size(), [&](std::size_t i) {
    const std::size_t line = i / kWorkers.size();
    const std::uint32_t workers = kWorkers[i % kWorkers.size()];
    rates[i] = line < 2 ? rpc_mops(nics, given.seed + i, workers, line == 1)
                        : cas_mops(nics, given.seed + i, workers, line == 2 ? 4096 : 4096 + 8);
  });
  const Curves mops(kWorkers, rates);

  ExperimentResult result = begin_result("smartnic-latch", given, "workers");
  result.profile = nics.name;
  for (std::size_t l = 0; l < kLines.size(); ++l) {
    result.series.push_back(mops.series(l, kLines[l], "Mops/s"));
  }
  const auto highest = [&](std::size_t line) { return std::ranges::max(result.series[line].points, {}, &Point::y).y; };
  result.targets.push_back(number_target("N20.rpc", 20, highest(0), "Mops/s"));
  result.targets.push_back(number_target("N20.cas", 2.51, highest(2), "Mops/s"));
  return result;
}

}  // namespace sidelatch::bench
