#include "experiments.h"
#include "site.h"

namespace sidelatch::bench {

std::vector<checker::Estimate> run_loops(const ExperimentOptions& options, std::span<const checker::ClosedLoop> loops) {
  std::vector<checker::Estimate> mops(loops.size());
  run_points(
      options, loops.size(),
      [&](std::size_t i) { return SiteShape{.warm_up = loops[i].warm_up, .measured = loops[i].measured}; },
      [&](Site& site, std::size_t i) {
        checker::ClosedLoop loop = loops[i];
        loop.warm_up = site.warm_up();
        loop.measured = site.measured();
        loop.process = site.rank().rank;
        loop.processes = site.rank().ranks;
        loop.all_connected = [&site] { site.meet(); };
        const fabric::RemoteSpan words = site.allocate(checker::memory_bytes(loop)).front();
        const checker::ClosedLoopResult result =
            checker::run_closed_loop(*site.memory_nodes().front(), words, site.clients(), loop);
        mops[i] = site.mops(result.windows);
      });
  return mops;
}

}  // namespace sidelatch::bench
