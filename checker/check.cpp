#include <sidelatch/checker/check.h>

#include <sidelatch/checker/devices.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>

namespace sidelatch::checker {

using namespace fabric;

namespace {

using Clock = std::chrono::steady_clock;

// What can be run now. RDMA devices are looked for, so that the message can say what was there.
void require_fabric(const std::string& fabric) {
  if (fabric == "sim" || fabric == "auto") {
    return;
  }
  if (fabric == "softnic") {
    throw EnvironmentError("--fabric softnic: this version has no software NIC; use --fabric sim");
  }
  std::string found;
  for (const Device& device : devices()) {
    if (device.kind == "verbs") {
      found += (found.empty() ? "" : ", ") + device.name;
    }
  }
  if (found.empty()) {
    throw EnvironmentError(
        "--fabric verbs: no RDMA device: libibverbs lists none (it looks in /sys/class/infiniband and "
        "/dev/infiniband/uverbs*); load the NIC's driver, or use --fabric sim");
  }
  throw EnvironmentError(
      fmt::format("--fabric verbs: found {}, but this version cannot drive RDMA devices yet; use "
                  "--fabric sim",
                  found));
}

class Limit {
 public:
  explicit Limit(const CheckOptions& options)
      : ends_(Clock::now() +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))),
        interrupted_(options.interrupted) {}
  [[nodiscard]] bool reached() const {
    return (interrupted_ != nullptr && interrupted_->load(std::memory_order_relaxed)) || Clock::now() >= ends_;
  }

 private:
  Clock::time_point ends_;
  const std::atomic<bool>* interrupted_;
};

// One writer, one reader, one memory node; the lock table wants four clients.
struct Cluster {
  Cluster(const sim::Profile& profile, std::uint64_t seed) : world({.profile = profile, .seed = seed}) {
    storage = &world.add_node("storage");
    for (Node*& client : clients) {
      client = &world.add_node("client");
    }
  }
  sim::Simulation world;
  Node* storage = nullptr;
  std::array<Node*, 4> clients{};
};

SchemeReport judge(const SchemeEntry& scheme, std::vector<SchemeReads> sizes) {
  SchemeReport report;
  report.scheme = scheme.name;
  report.known_broken = scheme.known_broken();
  std::uint64_t reads = 0;
  std::uint64_t torn = 0;
  const SchemeReads* worst = nullptr;
  for (const SchemeReads& size : sizes) {
    reads += size.reads;
    torn += size.torn;
    if (size.torn > 0 && worst == nullptr) {
      worst = &size;
    }
  }
  if (worst != nullptr) {
    report.verdict = Verdict::unsafe;
    report.evidence = fmt::format("torn: {} in {} reads; first at {} B, object {}: {}", torn, reads,
                                  worst->object_bytes, worst->evidence->slot, describe(*worst->evidence));
  } else {
    report.evidence = reads == 0 ? "not run" : fmt::format("no tear in {} chances", reads);
  }
  report.sizes = std::move(sizes);
  return report;
}

constexpr std::string_view kBookend = "broken/bookend";

// Schemes whose reads are judged by their values, on a ring with one writer. Latches need several clients, and what is
// for the explorer only has no business on a NIC.
std::vector<const SchemeEntry*> schemes_on_the_ring() {
  std::vector<const SchemeEntry*> chosen;
  for (const SchemeEntry& entry : schemes()) {
    const bool reads_are_judged = entry.promise != Promise::exclusion && entry.kind != Kind::model_only;
    if (reads_are_judged && entry.name != kBookend) {
      chosen.push_back(&entry);
    }
  }
  return chosen;
}

// The bookend scheme is what the torn-read probe classifies: it accepts a block whose header and footer agree.
SchemeReport judge_bookend(const std::vector<TornReads>& probes) {
  std::vector<SchemeReads> sizes;
  sizes.reserve(probes.size());
  for (const TornReads& probe : probes) {
    sizes.push_back({probe.block_bytes, probe.reads, probe.consistent + probe.undetected, probe.detected,
                     probe.undetected, probe.writes, probe.evidence});
  }
  return judge(*select_scheme(kBookend).entry, std::move(sizes));
}

}  // namespace

void CheckOptions::validate() const {
  const std::array<std::string_view, 4> fabrics = {"auto", "sim", "softnic", "verbs"};
  if (std::ranges::find(fabrics, fabric) == fabrics.end()) {
    throw std::invalid_argument(fmt::format("--fabric {}: it must be auto, verbs, softnic or sim", fabric));
  }
  if (!(seconds > 0) || !std::isfinite(seconds) || seconds > 86400) {
    throw std::invalid_argument(fmt::format("--seconds {}: it must be above 0 and at most 86400", seconds));
  }
  if (sizes.empty()) {
    throw std::invalid_argument("--sizes: give at least one block size in bytes");
  }
  for (const std::uint64_t size : sizes) {
    RingOptions ring;
    ring.block_bytes = size;
    ring.reads = reads;
    ring.validate();
  }
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::safe:
      return "safe";
    case Verdict::unsafe:
      return "unsafe";
    case Verdict::not_exercised:
      return "not exercised";
  }
  return "";
}

bool CheckReport::as_expected() const {
  return std::ranges::none_of(
      schemes, [](const SchemeReport& scheme) { return scheme.verdict == Verdict::unsafe && !scheme.known_broken; });
}

CheckReport run_check(const CheckOptions& options) {
  options.validate();
  require_fabric(options.fabric);
  const sim::Profile profile = sim::load_profile(options.profile);
  const Clock::time_point started = Clock::now();
  const Limit limit(options);

  // Jobs: one per size for the torn-read probe, one per scheme and size, and the lock table.
  const std::vector<const SchemeEntry*> all_schemes = schemes_on_the_ring();
  const std::size_t n_sizes = options.sizes.size();
  std::vector<std::optional<TornReads>> torn(n_sizes);
  std::vector<std::optional<SchemeReads>> ring(n_sizes * all_schemes.size());
  std::optional<LockTable> lock_table;
  const std::size_t jobs = torn.size() + ring.size() + 1;
  std::atomic<std::size_t> done{0};

  const auto run_job = [&](std::size_t job) {
    if (limit.reached()) {
      return;
    }
    Cluster cluster(profile, options.seed * 1000003 + job);
    RingOptions ring_options;
    ring_options.reads = options.reads;
    ring_options.keep_going = [&] { return !limit.reached(); };
    ring_options.block_bytes = options.sizes[job % n_sizes];
    Node& storage = *cluster.storage;
    Node& writer = *cluster.clients[0];
    Node& reader = *cluster.clients[1];
    if (job < torn.size()) {
      torn[job] = probe_torn_reads(storage, writer, reader, ring_options);
    } else if (job < torn.size() + ring.size()) {
      const std::size_t i = job - torn.size();
      ring[i] = probe_scheme(storage, writer, reader, select_scheme(all_schemes[i / n_sizes]->name), ring_options);
    } else {
      lock_table = probe_lock_table(storage, cluster.clients);
    }
    if (options.progress) {
      options.progress(++done, jobs);
    }
  };
  for_each_index(jobs, run_job);

  CheckReport report;
  report.device = "sim:" + profile.name;
  report.fabric = "sim";
  report.seed = options.seed;
  report.lock_table = lock_table;
  report.complete = lock_table.has_value();
  for (const std::optional<TornReads>& probe : torn) {
    if (probe) {
      report.torn_reads.push_back(*probe);
    }
    report.complete = report.complete && probe && probe->reads == options.reads;
  }
  report.schemes.push_back(judge_bookend(report.torn_reads));
  for (std::size_t s = 0; s < all_schemes.size(); ++s) {
    std::vector<SchemeReads> sizes;
    for (std::size_t i = 0; i < n_sizes; ++i) {
      const std::optional<SchemeReads>& probe = ring[s * n_sizes + i];
      if (probe) {
        sizes.push_back(*probe);
      }
      report.complete = report.complete && probe && probe->reads == options.reads;
    }
    report.schemes.push_back(judge(*all_schemes[s], std::move(sizes)));
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  return report;
}

}  // namespace sidelatch::checker
