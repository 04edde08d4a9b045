#include <sidelatch/checker/check.h>

#include <sidelatch/checker/devices.h>
#include <sidelatch/checker/order.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/unlatch.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <utility>

namespace sidelatch::checker {

using namespace fabric;

namespace {

using Clock = std::chrono::steady_clock;

// "sim" or "verbs".
std::string_view choose_fabric(const CheckOptions& options) {
  const bool names_a_nic = !options.device.empty() || !options.server.empty();
  if (options.fabric == "softnic") {
    throw EnvironmentError("--fabric softnic: this version has no software NIC; use --fabric sim or verbs");
  }
  if (options.fabric == "sim") {
    return "sim";
  }
  const auto is_active_nic = [](const Device& one) { return one.kind == "verbs" && one.state == "active"; };
  const bool verbs = options.fabric == "verbs" || names_a_nic || std::ranges::any_of(devices(), is_active_nic);
  return verbs ? "verbs" : "sim";
}

class Limit {
 public:
  explicit Limit(const CheckOptions& options)
      : ends_(Clock::now() +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))),
        interrupted_(options.interrupted) {}
  /// An equal part of what is left, of `parts`.
  [[nodiscard]] Limit share(std::size_t parts) const {
    Limit part = *this;
    const Clock::time_point now = Clock::now();
    part.ends_ = now + std::max(Clock::duration::zero(), ends_ - now) / static_cast<std::int64_t>(parts);
    return part;
  }
  [[nodiscard]] bool reached() const {
    return (interrupted_ != nullptr && interrupted_->load(std::memory_order_relaxed)) || Clock::now() >= ends_;
  }

 private:
  Clock::time_point ends_;
  const std::atomic<bool>* interrupted_;
};

// One writer, one reader, one memory node; the lock table wants four clients.
struct Cluster {
  Node* storage = nullptr;
  std::array<Node*, 4> clients{};
};

struct SimCluster : Cluster {
  SimCluster(const sim::Profile& profile, std::uint64_t seed) : world({.profile = profile, .seed = seed}) {
    storage = &world.add_node("storage");
    for (Node*& client : clients) {
      client = &world.add_node("client");
    }
  }
  sim::Simulation world;
};

struct VerbsCluster : Cluster {
  explicit VerbsCluster(const CheckOptions& options) : fabric({.device = options.device}) {
    if (!options.server.empty()) {
      remote =
          std::make_unique<verbs::RemoteNode>(fabric, options.server, verbs::RemoteOptions{.token = options.token});
    }
    storage = remote != nullptr ? static_cast<Node*>(remote.get()) : &fabric.add_node("storage");
    for (Node*& client : clients) {
      client = &fabric.add_node("client");
    }
  }
  verbs::VerbsFabric fabric;
  std::unique_ptr<verbs::RemoteNode> remote;
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
  if ((fabric == "sim" || fabric == "softnic") && !(device.empty() && server.empty())) {
    throw std::invalid_argument(
        fmt::format("--fabric {}: --device and --connect are for verbs; leave them out, or --fabric", fabric));
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

namespace {

// How long a job may take, in the world's own time and in real time.
struct Pace {
  std::function<bool()> keep_going;
  RingOptions ring = {};
  LockTableOptions lock_table = {};
};

// The jobs, each of which fills in a result of its own: one per size for the torn-read probe, one per scheme and size,
// one for each of the other probes.
class Work {
 public:
  explicit Work(const CheckOptions& options) : options_(&options), torn_(options.sizes.size()) {
    for (std::size_t i = 0; i < torn_.size(); ++i) {
      jobs_.emplace_back([this, i](const Cluster& on, const Pace& pace) {
        torn_[i] = probe_torn_reads(*on.storage, writer(on), reader(on), ring(pace, i));
      });
    }
    for (const SchemeEntry* scheme : schemes_on_the_ring()) {
      auto& sizes = ring_.emplace_back(scheme, std::vector<std::optional<SchemeReads>>(torn_.size())).second;
      for (std::size_t i = 0; i < torn_.size(); ++i) {
        jobs_.emplace_back([this, scheme, i, &size = sizes[i]](const Cluster& on, const Pace& pace) {
          size = probe_scheme(*on.storage, writer(on), reader(on), select_scheme(scheme->name), ring(pace, i));
        });
      }
    }
    for (const Pair pair : {Pair::read_read, Pair::read_write, Pair::write_read, Pair::atomic_read}) {
      observe([this, pair](const Cluster& on, const Pace& pace) {
        return probe_order(*on.storage, on.clients, pair, {.chances = options_->reads, .keep_going = pace.keep_going});
      });
    }
    for (const Opcode against : {Opcode::fetch_add, Opcode::compare_swap}) {
      observe([this, against](const Cluster& on, const Pace& pace) {
        return probe_lost_unlatch(*on.storage, on.clients, against,
                                  {.chances = options_->reads, .keep_going = pace.keep_going});
      });
    }
    jobs_.emplace_back([this](const Cluster& on, const Pace& pace) {
      lock_table_ = probe_lock_table(*on.storage, on.clients, pace.lock_table);
    });
  }
  // Jobs keep the address.
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() = default;

  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }

  void run(std::size_t job, const Cluster& cluster, const Pace& pace) {
    jobs_[job](cluster, pace);
    if (options_->progress) {
      options_->progress(++done_, jobs());
    }
  }

  // What all jobs saw.
  void report_to(CheckReport& report) const {
    report.lock_table = lock_table_;
    report.complete = lock_table_.has_value();
    for (const std::optional<TornReads>& probe : torn_) {
      if (probe) {
        report.torn_reads.push_back(*probe);
      }
      report.complete = report.complete && probe && probe->reads == options_->reads;
    }
    for (const std::optional<Observation>& seen : observations_) {
      if (seen) {
        report.observations.push_back(*seen);
      }
      report.complete = report.complete && seen && seen->complete;
    }
    report.schemes.push_back(judge_bookend(report.torn_reads));
    for (const auto& [scheme, probes] : ring_) {
      std::vector<SchemeReads> sizes;
      for (const std::optional<SchemeReads>& probe : probes) {
        if (probe) {
          sizes.push_back(*probe);
        }
        report.complete = report.complete && probe && probe->reads == options_->reads;
      }
      report.schemes.push_back(judge(*scheme, std::move(sizes)));
    }
  }

 private:
  static Node& writer(const Cluster& on) { return *on.clients[0]; }
  static Node& reader(const Cluster& on) { return *on.clients[1]; }
  [[nodiscard]] RingOptions ring(const Pace& pace, std::size_t size) const {
    RingOptions ring = pace.ring;
    ring.reads = options_->reads;
    ring.block_bytes = options_->sizes[size];
    ring.keep_going = pace.keep_going;
    return ring;
  }
  template <class Probe>
  void observe(Probe probe) {
    jobs_.emplace_back(
        [probe, &seen = observations_.emplace_back()](const Cluster& on, const Pace& pace) { seen = probe(on, pace); });
  }

  const CheckOptions* options_;
  std::vector<std::function<void(const Cluster&, const Pace&)>> jobs_;
  std::vector<std::optional<TornReads>> torn_;
  // Deques: what is in them stays where it is.
  std::deque<std::pair<const SchemeEntry*, std::vector<std::optional<SchemeReads>>>> ring_;
  std::deque<std::optional<Observation>> observations_;
  std::optional<LockTable> lock_table_;
  std::atomic<std::size_t> done_{0};
};

void run_in_simulations(Work& work, const CheckOptions& options, const Limit& limit, CheckReport& report) {
  const sim::Profile profile = sim::load_profile(options.profile);
  report.device = "sim:" + profile.name;
  report.seed = options.seed;
  for_each_index(work.jobs(), [&](std::size_t job) {
    if (!limit.reached()) {
      const SimCluster cluster(profile, options.seed * 1000003 + job);
      work.run(job, cluster, {.keep_going = [&] { return !limit.reached(); }});
    }
  });
}

// One job after the other, each with its share of the time that is left.
void run_on_a_nic(Work& work, const CheckOptions& options, const Limit& limit, CheckReport& report) {
  const VerbsCluster cluster(options);
  report.device = cluster.fabric.device_name();
  report.environment = environment_of(report.device);
  report.memory = cluster.remote != nullptr ? cluster.remote->name() : "this machine";
  try {
    for (std::size_t job = 0; job < work.jobs() && !limit.reached(); ++job) {
      const Limit share = limit.share(work.jobs() - job);
      const auto keep_going = [&] { return !share.reached(); };
      // A rate wants some thousands of operations; and an unlatch may wait until a busy machine runs us again.
      work.run(job, cluster,
               {.keep_going = keep_going,
                .ring = {.patience = std::chrono::seconds(10)},
                .lock_table = {.warm_up = std::chrono::milliseconds(20),
                               .measured = std::chrono::milliseconds(50),
                               .least_operations = 3000,
                               .keep_going = keep_going}});
    }
  } catch (const std::runtime_error& error) {
    // What was measured before the peer was lost is not lost with it.
    report.failure = error.what();
  }
}

}  // namespace

CheckReport run_check(const CheckOptions& options) {
  options.validate();
  const Clock::time_point started = Clock::now();
  const Limit limit(options);
  Work work(options);
  CheckReport report;
  report.fabric = choose_fabric(options);
  try {
    (report.fabric == "sim" ? run_in_simulations : run_on_a_nic)(work, options, limit, report);
  } catch (const verbs::DeviceError& error) {
    throw EnvironmentError(fmt::format("--fabric verbs: {}; or use --fabric sim", error.what()));
  }
  work.report_to(report);
  report.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  return report;
}

}  // namespace sidelatch::checker
