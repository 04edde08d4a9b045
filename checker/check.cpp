#include <sidelatch/checker/check.h>

#include "shares.h"
#include "verdicts.h"

#include <sidelatch/checker/atomics.h>
#include <sidelatch/checker/devices.h>
#include <sidelatch/checker/exclusion.h>
#include <sidelatch/checker/order.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/checker/remote_place.h>
#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/unlatch.h>
#include <sidelatch/checker/visibility.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>

namespace sidelatch::checker {

using namespace fabric;

namespace {

using Clock = std::chrono::steady_clock;

// "sim", "verbs" or "softnic". For the program the software NIC's verbs are libibverbs's.
std::string_view choose_fabric(const CheckOptions& options) {
  const bool names_a_nic = !options.device.empty() || !options.server.empty();
  if (options.fabric == "softnic" && !softnic::is_preloaded()) {
    throw EnvironmentError("--fabric softnic: start the program with `sidelatch softnic run -- PROGRAM`");
  }
  if (options.fabric == "sim") {
    return "sim";
  }
  if (softnic::is_preloaded()) {
    return "softnic";
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
  /// `part` of `parts` of the time left.
  [[nodiscard]] Limit share(std::size_t part, std::size_t parts) const {
    Limit share = *this;
    const Clock::time_point now = Clock::now();
    share.ends_ = now + std::max(Clock::duration::zero(), ends_ - now) / static_cast<std::int64_t>(parts) *
                            static_cast<std::int64_t>(part);
    return share;
  }
  [[nodiscard]] std::chrono::duration<double> left() const {
    return std::max(std::chrono::duration<double>(1e-3), std::chrono::duration<double>(ends_ - Clock::now()));
  }
  [[nodiscard]] bool reached() const {
    return (interrupted_ != nullptr && interrupted_->load(std::memory_order_relaxed)) || Clock::now() >= ends_;
  }

 private:
  Clock::time_point ends_;
  const std::atomic<bool>* interrupted_;
};

// One writer, one reader, one memory node; the lock table needs four clients.
struct Cluster {
  Node* storage = nullptr;
  SwitchPlace* place = nullptr;
  std::uint64_t longest_tuple = 0;  // of the place: bytes
  std::array<Node*, 4> clients{};
};

// A simulation with an observer takes no short cuts, so the memory's CPU sees each line when it is placed.
class StepByStep : public sim::StepObserver {
 public:
  void on_step(const sim::SimStep& /*step*/) override {}
};

struct SimCluster : Cluster {
  SimCluster(const sim::Profile& profile, const model::Rules& rules, std::uint64_t seed, bool step_by_step)
      : world({.profile = profile, .rules = rules, .seed = seed}) {
    storage = &world.add_node("storage");
    for (Node*& client : clients) {
      client = &world.add_node("client");
    }
    if (step_by_step) {
      world.observe(&observer);
    }
  }
  StepByStep observer;
  sim::Simulation world;
};

struct VerbsCluster : Cluster {
  explicit VerbsCluster(const CheckOptions& options)
      : fabric({.device = options.device, .relaxed_ordering = options.relaxed_ordering}) {
    if (!options.server.empty()) {
      remote =
          std::make_unique<verbs::RemoteNode>(fabric, options.server, verbs::RemoteOptions{.token = options.token});
    }
    if (options.at_switch) {
      place = &at_switch.emplace(*remote);
      longest_tuple = 4096;
      for (const Device& one : devices()) {
        longest_tuple = one.name == fabric.device_name() && one.mtu > 0 ? one.mtu : longest_tuple;
      }
    }
    storage = remote != nullptr ? static_cast<Node*>(remote.get()) : &fabric.add_node("storage");
    for (Node*& client : clients) {
      client = &fabric.add_node("client");
    }
  }
  verbs::VerbsFabric fabric;
  std::unique_ptr<verbs::RemoteNode> remote;
  std::optional<RemotePlace> at_switch;
};

constexpr std::string_view kAtSwitch = "optimistic/switch";
// Parts with more than one request in flight, which that switch does not take, and proofs, which know no switch.
constexpr std::array<std::string_view, 2> kPartsAtSwitch = {"torn-reads", "schemes"};

// Schemes whose reads are judged by their values, on a ring with one writer. Latches need several clients, and schemes
// that are only for the explorer must not run on a NIC.
std::vector<const SchemeEntry*> schemes_on_the_ring(const CheckOptions& options) {
  std::vector<const SchemeEntry*> chosen;
  if (options.at_switch) {
    return {select_scheme(kAtSwitch).entry};
  }
  for (const SchemeEntry& entry : schemes()) {
    const bool reads_are_judged = entry.promise != Promise::exclusion && entry.kind != Kind::model_only;
    if (reads_are_judged && entry.name != kBookend) {
      chosen.push_back(&entry);
    }
  }
  return chosen;
}

std::vector<const SchemeEntry*> latches() {
  std::vector<const SchemeEntry*> chosen;
  for (const SchemeEntry& entry : schemes()) {
    if (entry.kind == Kind::latch || entry.kind == Kind::queue) {
      chosen.push_back(&entry);
    }
  }
  return chosen;
}

std::string mtu_of(std::string_view device) {
  for (const Device& one : devices()) {
    if (one.name == device && one.mtu > 0) {
      return fmt::format("{}", one.mtu);
    }
  }
  return "";
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
  if (fabric == "sim" && !(device.empty() && server.empty())) {
    throw std::invalid_argument(
        "--fabric sim: --device and --connect are for NICs; leave them out, or use --fabric verbs or softnic");
  }
  if (at_switch && server.empty()) {
    throw std::invalid_argument("--at-switch: give --connect, the address of `sidelatch switch --latches`");
  }
  for (const std::string& part : parts) {
    if (std::ranges::find(kParts, part) == kParts.end()) {
      throw std::invalid_argument(
          fmt::format("--parts {}: the parts are {}", part, fmt::join(kParts.begin(), kParts.end(), ", ")));
    }
  }
  if (at_switch && std::ranges::find_first_of(parts, kPartsAtSwitch) == parts.end()) {
    throw std::invalid_argument(fmt::format("--parts {}: with --at-switch there are only {}", fmt::join(parts, ","),
                                            fmt::join(kPartsAtSwitch.begin(), kPartsAtSwitch.end(), " and ")));
  }
  if (sizes.empty()) {
    throw std::invalid_argument("--sizes: give at least one block size in bytes");
  }
  if (reads == 0) {
    throw std::invalid_argument("--reads 0: give at least 1");
  }
  for (const std::uint64_t size : sizes) {
    RingOptions ring;
    ring.block_bytes = size;
    ring.reads = reads;
    try {
      ring.validate();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("--sizes: {}", error.what()));
    }
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

std::string_view name(Standing standing) {
  switch (standing) {
    case Standing::kept:
      return "kept";
    case Standing::refuted:
      return "refuted";
    case Standing::untried:
      return "untried";
  }
  return "";
}

std::uint64_t CheckReport::granularity() const {
  std::uint64_t granularity = 0;
  for (const TornReads& probe : torn_reads) {
    granularity = std::gcd(granularity, probe.granularity);
  }
  for (const Observation& seen : observations) {
    for (const auto& [name, value] : seen.detail) {
      granularity = std::gcd(granularity, name == "granularity" ? value : 0);
    }
  }
  return granularity;
}

const Series* CheckReport::find(Curve curve) const {
  const auto found = std::ranges::find(series, name(curve), &Series::name);
  return found == series.end() ? nullptr : &*found;
}

bool CheckReport::as_expected() const {
  return std::ranges::none_of(
      schemes, [](const SchemeReport& scheme) { return scheme.verdict == Verdict::unsafe && !scheme.known_broken; });
}

namespace {

// Time limits of a job, in the world's own time and in real time.
struct Pace {
  std::function<bool()> keep_going;
  Duration patience = RingOptions{}.patience;
  LockTableOptions lock_table = {};
  RatesOptions rates = {};
};

std::string limit_of_tuples(const Cluster& cluster) {
  return fmt::format("a tuple is one packet: at most {} bytes with this path MTU", cluster.longest_tuple);
}

// The jobs. Each fills in its own result: one per size for the torn-read probe, one per scheme and size, one for each
// of the other probes.
class Work {
  static constexpr std::uint64_t kVariantBytes = 1024;  // bytes of a block with enough lines to be mixed
  static constexpr std::uint64_t kInCache = 262'144;    // bytes of a ring that fits the caches that NICs write to
  // Shares of the time; most jobs have 1. Closed loops are measured for a fixed time each.
  static constexpr std::size_t kLockTableWeight = 10;
  static constexpr std::size_t kRateWeight = 6;

 public:
  explicit Work(const CheckOptions& options) : options_(&options) {
    if (wanted("torn-reads")) {
      add_torn_reads();
    }
    if (wanted("schemes")) {
      for (const SchemeEntry* scheme : schemes_on_the_ring(options)) {
        add_on_the_ring(scheme);
      }
    }
    if (wanted("latches")) {
      for (const SchemeEntry* latch : latches()) {
        add_latch(latch);
      }
    }
    if (wanted("effects")) {
      add_effects();
    }
    if (wanted("lock-table")) {
      add_job("lock-table", [this](const Cluster& on, const Pace& pace) {
        lock_table_ = probe_lock_table(*on.storage, on.clients, pace.lock_table);
      }).weight = kLockTableWeight;
    }
    if (wanted("rates")) {
      for (const Curve curve : kCurves) {
        add_job(std::string(name(curve)), [curve, &series = series_.emplace_back()](const Cluster& on,
                                                                                    const Pace& pace) {
          series = probe_rate(*on.storage, on.clients, curve, pace.rates);
        }).weight = kRateWeight;
      }
    }
  }
  // Jobs keep the address of this object.
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() = default;

  [[nodiscard]] bool wanted(std::string_view part) const {
    const bool possible = !options_->at_switch || std::ranges::find(kPartsAtSwitch, part) != kPartsAtSwitch.end();
    return possible && std::ranges::find(options_->parts, part) != options_->parts.end();
  }
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] std::size_t weight(std::size_t job) const { return jobs_[job].weight; }
  [[nodiscard]] std::size_t weight_from(std::size_t job) const {
    std::size_t sum = 0;
    for (; job < jobs(); ++job) {
      sum += weight(job);
    }
    return sum;
  }
  /// Number of schemes that may be proved when the jobs are done.
  [[nodiscard]] std::size_t proofs() const { return wanted("proofs") ? schemes_.size() + (torn_.empty() ? 0 : 1) : 0; }
  [[nodiscard]] bool wants_each_step(std::size_t job) const { return jobs_[job].every_step; }

  void run(std::size_t job, const Cluster& cluster, const Pace& pace) { jobs_[job].run(cluster, pace); }
  /// Skips a job that is impossible here; others still run.
  void skip(std::size_t job, std::string why) {
    skipped_.push_back({.name = jobs_[job].name, .skipped = std::move(why)});
  }

  // Reports the results of all jobs.
  void report_to(CheckReport& report) const {
    report.lock_table = lock_table_;
    report.complete = lock_table_.has_value() || !wanted("lock-table");
    for (const auto& [seen, is_left_out] : torn_) {
      take(seen, is_left_out || (seen && seen->reads == options_->reads), report.torn_reads, report);
    }
    for (const std::optional<Observation>& seen : observations_) {
      take(seen, seen && seen->complete, report.observations, report);
    }
    report.observations.insert(report.observations.end(), skipped_.begin(), skipped_.end());
    for (const std::optional<Series>& series : series_) {
      take(series, series && series->complete, report.series, report);
    }
    if (!report.torn_reads.empty()) {
      report.schemes.push_back(judge_bookend(report.torn_reads));
    }
    for (const auto& [scheme, probes] : schemes_) {
      std::vector<SchemeReads> sizes;
      for (const auto& [seen, is_left_out] : probes) {
        take(seen, is_left_out || (seen && (seen->reads == options_->reads || seen->stuck)), sizes, report);
      }
      report.schemes.push_back(judge(*scheme, std::move(sizes)));
    }
  }

 private:
  struct Job {
    std::string name;
    std::function<void(const Cluster&, const Pace&)> run;
    std::size_t weight = 1;   // its share of the time
    bool every_step = false;  // the memory's CPU sees each step
  };
  Job& add_job(std::string name, std::function<void(const Cluster&, const Pace&)> run) {
    return jobs_.emplace_back(Job{.name = std::move(name), .run = std::move(run)});
  }

  template <class T>
  struct Probe {
    std::optional<T> seen;
    bool is_left_out = false;
  };

  template <class T>
  static void take(const std::optional<T>& result, bool complete, std::vector<T>& results, CheckReport& report) {
    if (result) {
      results.push_back(*result);
    }
    report.complete = report.complete && complete;
  }
  static Node& writer(const Cluster& on) { return *on.clients[0]; }
  static Node& reader(const Cluster& on) { return *on.clients[1]; }
  [[nodiscard]] RingOptions ring(const Pace& pace, std::uint64_t size) const {
    return {.block_bytes = size, .reads = options_->reads, .patience = pace.patience, .keep_going = pace.keep_going};
  }

  // A switch that keeps versions takes a tuple as one packet, so longer blocks are left out there.
  [[nodiscard]] bool leaves_out(const Cluster& on, std::uint64_t size, const std::string& name) {
    if (!options_->at_switch || size <= on.longest_tuple) {
      return false;
    }
    skipped_.push_back({.name = name, .skipped = limit_of_tuples(on)});
    return true;
  }
  [[nodiscard]] RingOptions ring_at_switch(const Cluster& on, const Pace& pace, std::uint64_t size) const {
    constexpr std::uint64_t kSlots = 4096;  // the switch has versions for so many, often enough
    RingOptions options = ring(pace, size);
    options.ring_bytes = kSlots * size;
    options.place = on.place;
    return options;
  }

  void add_torn_reads() {
    for (const std::uint64_t size : options_->sizes) {
      const std::string name = fmt::format("torn-read, {} B", size);
      add_job(name, [this, name, size, &probe = torn_.emplace_back()](const Cluster& on, const Pace& pace) {
        probe.is_left_out = leaves_out(on, size, name);
        if (!probe.is_left_out) {
          probe.seen = probe_torn_reads(*on.storage, writer(on), reader(on), ring(pace, size));
        }
      });
    }
  }
  void add_on_the_ring(const SchemeEntry* scheme) {
    auto& probes = schemes_.emplace_back(scheme, std::deque<Probe<SchemeReads>>()).second;
    for (const std::uint64_t size : options_->sizes) {
      const std::string name = fmt::format("{}, {} B", scheme->name, size);
      add_job(name, [this, name, scheme, size, &probe = probes.emplace_back()](const Cluster& on, const Pace& pace) {
        probe.is_left_out = leaves_out(on, size, name);
        if (!probe.is_left_out) {
          probe.seen = probe_scheme(*on.storage, writer(on), reader(on), select_scheme(scheme->name),
                                    options_->at_switch ? ring_at_switch(on, pace, size) : ring(pace, size));
        }
      });
    }
  }
  void add_latch(const SchemeEntry* latch) {
    auto& probes = schemes_.emplace_back(latch, std::deque<Probe<SchemeReads>>()).second;
    add_job(std::string(latch->name),
            [this, latch, &seen = probes.emplace_back().seen](const Cluster& on, const Pace& pace) {
              seen = probe_exclusion(*on.storage, on.clients, select_scheme(latch->name),
                                     {.updates = options_->reads,
                                      .patience = std::max(pace.patience, ExclusionOptions{}.patience),
                                      .keep_going = pace.keep_going});
            });
  }
  void add_effects() {
    for (const Pair pair : kAllPairs) {
      observe<OrderOptions>(name(pair), [pair](const Cluster& on, const OrderOptions& options) {
        return probe_order(*on.storage, on.clients, pair, options);
      });
    }
    for (const Sight sight : {Sight::write_write, Sight::lines_within_write, Sight::after_completion}) {
      observe<VisibilityOptions>(name(sight), [sight](const Cluster& on, const VisibilityOptions& options) {
        return probe_visibility(*on.storage, on.clients, sight, options);
      });
    }
    for (const Opcode against : {Opcode::fetch_add, Opcode::compare_swap}) {
      observe<UnlatchOptions>(unlatch_name(against), [against](const Cluster& on, const UnlatchOptions& options) {
        return probe_lost_unlatch(*on.storage, on.clients, against, options);
      });
    }
    for (const Rival rival : {Rival::nic, Rival::cpu}) {
      observe<AtomicsOptions>(name(rival), [rival](const Cluster& on, const AtomicsOptions& options) {
        return probe_atomics(*on.storage, on.clients, rival, options);
      });
    }
    add_torn_read_variant("torn-read/offset", {.offset = kLineBytes / 2});
    add_torn_read_variant("torn-read/in-cache", {.ring_bytes = kInCache});
    observations_.emplace_back(
        Observation{.name = "atomics/two-ports", .skipped = "all clients of a check use one port of one NIC"});
  }
  void add_torn_read_variant(const char* name, const RingOptions& variant) {
    add_job(name, [this, name, variant, &seen = observations_.emplace_back()](const Cluster& on, const Pace& pace) {
      RingOptions options = ring(pace, kVariantBytes);
      options.offset = variant.offset;
      options.ring_bytes = variant.ring_bytes;
      seen = as_observation(name, probe_torn_reads(*on.storage, writer(on), reader(on), options));
      seen->complete = seen->chances == options_->reads;
    });
  }
  template <class Options, class Probe>
  void observe(std::string_view name, Probe probe) {
    add_job(std::string(name), [this, probe, &seen = observations_.emplace_back()](const Cluster& on,
                                                                                   const Pace& pace) {
      Options options;
      options.chances = options_->reads;
      options.keep_going = pace.keep_going;
      seen = probe(on, options);
    }).every_step = true;
  }

  const CheckOptions* options_;
  std::vector<Job> jobs_;
  std::vector<Observation> skipped_;
  // Deques, because their elements do not move.
  std::deque<Probe<TornReads>> torn_;
  std::deque<std::pair<const SchemeEntry*, std::deque<Probe<SchemeReads>>>> schemes_;
  std::deque<std::optional<Observation>> observations_;
  std::deque<std::optional<Series>> series_;
  std::optional<LockTable> lock_table_;
};

// Reports progress.
class Steps {
 public:
  Steps(const CheckOptions& options, std::size_t all) : options_(&options), all_(all) {}
  void done() {
    if (options_->progress) {
      options_->progress(++done_, all_);
    }
  }

 private:
  const CheckOptions* options_;
  std::size_t all_;
  std::atomic<std::size_t> done_{0};
};

void run_in_simulations(Work& work, const CheckOptions& options, const Limit& limit, Steps& steps,
                        CheckReport& report) {
  const sim::Profile profile = sim::load_profile(options.profile);
  report.device = "sim:" + profile.name;
  report.seed = options.seed;
  report.environment.relaxed_ordering = options.relaxed_ordering ? "on" : "off";
  const model::Rules rules =
      model::rules_of(options.relaxed_ordering ? model::Preset::relaxed : model::Preset::observed);
  for_each_index(work.jobs(), [&](std::size_t job) {
    if (!limit.reached()) {
      const SimCluster cluster(profile, rules, options.seed * 1000003 + job, work.wants_each_step(job));
      const auto keep_going = [&] { return !limit.reached(); };
      work.run(
          job, cluster,
          {.keep_going = keep_going, .lock_table = {.keep_going = keep_going}, .rates = {.keep_going = keep_going}});
      steps.done();
    }
  });
}

// Runs one job after the other. Each gets its share of the time left.
void run_on_a_nic(Work& work, const CheckOptions& options, const Limit& limit, Steps& steps, CheckReport& report) {
  const VerbsCluster cluster(options);
  const auto is_too_long = [&cluster](std::uint64_t size) { return size > cluster.longest_tuple; };
  if (options.at_switch && std::ranges::all_of(options.sizes, is_too_long)) {
    throw std::invalid_argument(fmt::format("--sizes {}: {}", fmt::join(options.sizes, ","), limit_of_tuples(cluster)));
  }
  report.device = cluster.fabric.device_name();
  report.environment = environment_of(report.device);
  report.environment.mtu = mtu_of(report.device);
  if (report.fabric == "softnic") {
    report.environment.driver = "sidelatch softnic, " + softnic::describe_environment();
  }
  if (cluster.remote == nullptr) {  // unknown for a server
    report.environment.relaxed_ordering = options.relaxed_ordering ? "on" : "off";
  }
  report.memory = cluster.remote != nullptr ? cluster.remote->name() : "this machine";
  std::size_t skipped = 0;
  std::string first_reason;
  try {
    for (std::size_t job = 0; job < work.jobs() && !limit.reached(); ++job) {
      const Limit share = limit.share(work.weight(job), work.weight_from(job) + work.proofs());
      // Preparing may take the whole share: memory of a slow machine, or a busy one. Even then some rounds are made.
      const auto keep_going = [&share, &limit, is_first = true]() mutable {
        return !(std::exchange(is_first, false) ? limit : share).reached();
      };
      // A rate needs some thousands of operations. An unlatch may wait until a busy machine runs this process again.
      constexpr Duration kWarmUp = std::chrono::milliseconds(20);
      constexpr Duration kMeasured = std::chrono::milliseconds(50);
      try {
        work.run(job, cluster,
                 {.keep_going = keep_going,
                  .patience = std::chrono::seconds(10),
                  .lock_table =
                      {.warm_up = kWarmUp, .measured = kMeasured, .least_operations = 3000, .keep_going = keep_going},
                  .rates = {.warm_up = kWarmUp, .measured = kMeasured, .keep_going = keep_going}});
      } catch (const verbs::DeviceError& error) {
        work.skip(job, error.what());  // too little memory, for example
        // Throws if the device is lost: the reactor looks at that once in some thousands of polls.
        cluster.storage->reactor().run_for(std::chrono::milliseconds(20));
        first_reason = first_reason.empty() ? error.what() : first_reason;
        ++skipped;
      }
      steps.done();
    }
    if (skipped != 0 && skipped == work.jobs()) {
      report.failure = first_reason;
    }
  } catch (const std::runtime_error& error) {
    // Results from before the peer was lost are kept.
    report.failure = error.what();
  }
}

// The explorer uses all cores, so proofs run one after the other.
void run_proofs(const CheckOptions& options, const Limit& limit, Steps& steps, CheckReport& report) {
  const std::vector<SchemeReport> judged = report.schemes;
  const auto left = [&limit] { return limit.reached() ? Seconds(0) : limit.left(); };
  const auto proves = [&](std::size_t i, Seconds budget) {
    report.schemes[i] = judged[i];
    const bool ended = prove(report.schemes[i], report,
                             {.relaxed_ordering = options.relaxed_ordering,
                              .budget = std::max(budget, Seconds(1e-3)),
                              .interrupted = options.interrupted});
    if (ended) {
      steps.done();
    }
    return ended;
  };
  const std::size_t cut = run_in_shares(judged.size(), left, proves);
  report.complete = report.complete && cut == 0;
  for (std::size_t i = 0; i < cut; ++i) {
    steps.done();
  }
}

}  // namespace

CheckReport run_check(const CheckOptions& options) {
  options.validate();
  const Clock::time_point started = Clock::now();
  const Limit limit(options);
  Work work(options);
  Steps steps(options, work.jobs() + work.proofs());
  CheckReport report;
  report.fabric = choose_fabric(options);
  try {
    (report.fabric == "sim" ? run_in_simulations : run_on_a_nic)(work, options, limit, steps, report);
  } catch (const verbs::DeviceError& error) {
    throw EnvironmentError(fmt::format("--fabric {}: {}; or use --fabric {}", report.fabric, error.what(),
                                       options.server.empty() ? "sim" : "softnic"));
  }
  work.report_to(report);
  report.guarantees = examine_guarantees(report);
  if (work.wanted("proofs")) {
    run_proofs(options, limit, steps, report);
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  return report;
}

}  // namespace sidelatch::checker
