// TODS 2025, figure 18: latches in the memory of a SmartNIC, whose cores serve them by RPC, against CAS on latches that
// share one slot of a NIC's lock table. The experiment adds two cases: RPCs that all need one latch, and CAS with the
// cure, a pad of 8 bytes.
#include "experiments.h"
#include "rpc_latch.h"
#include "site.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using checker::ClosedLoop;

namespace {

constexpr std::array<std::uint32_t, 9> kWorkers = {1, 2, 4, 8, 16, 32, 64, 128, 256};

struct Nics {
  sim::Profile smart;  // the server whose cores serve
  sim::Profile plain;  // the clients, and the server of the CAS
  std::string name;
};

// The figure is about those two NICs. A profile other than the default is used for both.
Nics nics_of(const ExperimentOptions& options) {
  if (options.profile == ExperimentOptions{}.profile) {
    return {sim::load_profile("bluefield2"), sim::load_profile("connectx7"), "bluefield2 (RPC), connectx7 (CAS)"};
  }
  const sim::Profile given = sim::load_profile(options.profile);
  return {given, given, options.profile};
}

// Latches and unlatches for ever. Each answered request counts, like each CAS.
Task<void> work(std::unique_ptr<RpcLatchClient> client, Reactor* reactor, std::uint64_t index,
                checker::Windows* windows) {
  bool held = false;
  while (!windows->over(reactor->now())) {
    if (held) {
      const bool freed = co_await client->unlatch(index);
      if (!freed) {
        throw std::logic_error(fmt::format("latch {} was lost by its holder", index));
      }
      held = false;
    } else {
      held = co_await client->latch(index);
    }
    windows->count(reactor->now());
  }
}

checker::Estimate rpc_mops(Site& site, std::uint64_t cores, std::uint32_t workers, bool one_latch) {
  RpcLatchServer server(*site.memory_nodes().front(),
                        {.latches = one_latch ? 1 : workers, .cores = static_cast<std::uint32_t>(cores)});
  return site.measure(workers, [&](std::size_t i, checker::Windows& windows) {
    const auto w = static_cast<std::uint32_t>(i);
    auto client = std::make_unique<RpcLatchClient>(server, site.node_of(w), w + 1);
    return work(std::move(client), &site.reactor(), one_latch ? 0 : w, &windows);
  });
}

checker::Estimate cas_mops(Site& site, std::uint32_t workers, std::uint64_t stride) {
  ClosedLoop loop;
  loop.workers = workers;
  loop.offset = [stride](std::uint32_t w) { return w * stride; };
  loop.warm_up = site.warm_up();
  loop.measured = site.measured();
  const RemoteSpan words = site.allocate(checker::memory_bytes(loop)).front();
  return site.mops(checker::run_closed_loop(*site.memory_nodes().front(), words, site.clients(), loop).windows);
}

}  // namespace

ExperimentResult smartnic_latch(const ExperimentOptions& given) {
  if (given.cluster != nullptr) {
    throw std::invalid_argument(
        "smartnic-latch is simulated only, for NICs are driven without two-sided messages here: leave --connect out");
  }
  enum Line : std::uint8_t { rpc, rpc_one_latch, cas, cas_padded, lines };
  static constexpr std::array<const char*, lines> kLines = {"RPC", "RPC, one latch", "CAS 4096 B", "CAS 4096 B + 8"};
  const Nics nics = nics_of(given);
  std::vector<checker::Estimate> rates(kLines.size() * kWorkers.size());
  run_points(
      given, rates.size(),
      [&](std::size_t i) {
        return SiteShape{.client_profile = nics.plain,
                         .memory_profile = i / kWorkers.size() < cas ? nics.smart : nics.plain};
      },
      [&](Site& site, std::size_t i) {
        const std::size_t line = i / kWorkers.size();
        const std::uint32_t workers = kWorkers.at(i % kWorkers.size());
        rates[i] = line < cas ? rpc_mops(site, nics.smart.cpu.cores, workers, line == rpc_one_latch)
                              : cas_mops(site, workers, line == cas ? 4096 : 4096 + 8);
      });
  const Curves mops(kWorkers, rates);

  ExperimentResult result = begin_result("smartnic-latch", given, "workers");
  result.profile = nics.name;
  for (std::size_t l = 0; l < lines; ++l) {
    result.series.push_back(mops.series(l, kLines.at(l), "Mops/s"));
  }
  // The text gives peaks, and not the workers that reached them: here at the most.
  result.series.push_back(from_paper(kLines.at(rpc), "Mops/s", {{256, 20, {}}}));
  result.series.push_back(from_paper(kLines.at(cas), "Mops/s", {{256, 2.51, {}}}));
  result.targets.push_back(number_target("N20.rpc", 20, mops.highest(rpc), "Mops/s"));
  result.targets.push_back(number_target("N20.cas", 2.51, mops.highest(cas), "Mops/s"));
  return result;
}

}  // namespace sidelatch::bench
