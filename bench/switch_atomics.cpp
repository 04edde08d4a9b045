// TODS 2025, figure 22: CAS on words at the switch, each worker its own or all the same, against CAS on a memory node's
// words. The switch runs p4/switch_atomics.p4, compiled.
#include "switch_site.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>

namespace sidelatch::bench {

using namespace fabric;

namespace {

constexpr std::array<std::uint32_t, 7> kCasWorkers = {1, 4, 16, 64, 256, 1024, 2048};

// One after the other, as a latch is used; the word never changes.
Task<void> swap_for_ever(std::unique_ptr<QueuePair> pair, Reactor* reactor, RemoteSpan word,
                         checker::Windows* windows) {
  while (!windows->over(reactor->now())) {
    static_cast<void>(co_await pair->compare_swap(word, 0, 0));
    windows->count(reactor->now());
  }
}

checker::Estimate at_switch(Site& site, std::uint32_t workers, bool one_word) {
  WordSite words(site, workers);
  return site.measure(workers, [&](std::size_t i, checker::Windows& windows) {
    const auto worker = static_cast<std::uint32_t>(i);
    return swap_for_ever(words.connect(worker), &site.reactor(), words.word(one_word ? 0 : worker), &windows);
  });
}

checker::Estimate at_node(Site& site, std::uint32_t workers, bool one_word) {
  const RemoteSpan memory = site.allocate(8 * std::uint64_t{workers}).front();
  return site.measure(workers, [&](std::size_t i, checker::Windows& windows) {
    const auto worker = static_cast<std::uint32_t>(i);
    return swap_for_ever(site.node_of(worker).connect(*site.memory_nodes().front()), &site.reactor(),
                         memory.subspan(one_word ? 0 : 8 * std::uint64_t{worker}, 8), &windows);
  });
}

}  // namespace

ExperimentResult switch_atomics(const ExperimentOptions& given) {
  enum Line : std::uint8_t { own, one, node_own, node_one, lines };
  static constexpr std::array<const char*, lines> kLines = {"switch, own words", "switch, one word", "NIC, own words",
                                                            "NIC, one word"};
  const ExperimentOptions options = on_switch_testbed(given, "switch-atomics");
  std::vector<checker::Estimate> rates(kLines.size() * kCasWorkers.size());
  run_points(
      options, rates.size(), [](std::size_t) { return SiteShape{.measured = from_ns(200'000)}; },
      [&](Site& site, std::size_t i) {
        const std::size_t line = i / kCasWorkers.size();
        const std::uint32_t workers = kCasWorkers.at(i % kCasWorkers.size());
        const bool one_word = line == one || line == node_one;
        rates[i] = line < node_own ? at_switch(site, workers, one_word) : at_node(site, workers, one_word);
      });
  const Curves mops(kCasWorkers, rates);

  ExperimentResult result = begin_result("switch-atomics", options, "workers");
  for (std::size_t l = 0; l < lines; ++l) {
    result.series.push_back(mops.series(l, kLines.at(l), "Mops/s"));
  }
  // The text gives the peak, and not the workers that reached it: here at the most.
  result.series.push_back(from_paper(kLines.at(own), "Mops/s", {{2048, 110, {}}}));
  // What the testbed's profile is set by.
  result.targets.push_back(number_target("N21.rate", 110, mops.highest(own), "Mops/s"));
  bool equal = true;
  for (const std::uint32_t workers : kCasWorkers) {
    equal = equal && std::abs(mops.at(one, workers) / mops.at(own, workers) - 1) < 0.02;
  }
  result.targets.push_back(shape_target("N21.contended", equal,
                                        fmt::format("2048 workers: {:.1f} Mops/s on one word, {:.1f} on their own",
                                                    mops.at(one, 2048), mops.at(own, 2048))));
  // Each worker always has one CAS out, so its latency is the number of workers by their rate. The paper's text says
  // that the switch takes half of a NIC's round trip, and less than half "also under significant load": so at each
  // number of workers. Where both are busy the rates alone decide this. docs/figures.md explains why it is missed.
  double longest = 0;
  std::string shares;
  for (const std::uint32_t workers : kCasWorkers) {
    const double share = mops.at(node_own, workers) / mops.at(own, workers);
    longest = greater(longest, share);
    shares += fmt::format("{}{:.2f}", shares.empty() ? "" : ", ", share);
  }
  result.targets.push_back(shape_target(
      "N21.latency", longest < 0.5,
      fmt::format("of a NIC's latency {} with 1 to 2048 workers; 1 worker: {:.2f} us at the switch, {:.2f} us at a NIC",
                  shares, 1 / mops.at(own, 1), 1 / mops.at(node_own, 1))));
  return result;
}

}  // namespace sidelatch::bench
