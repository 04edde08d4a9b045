// `sidelatch check`: probes a NIC, runs schemes on it, and has the explorer prove what the schemes promise under the
// guarantees that the probes did not refute. The result is one report, the datasheet of the NIC.
//
//   CheckReport report = run_check({.profile = "connectx5"});
//   std::cout << to_table(report, Colour::off);
//
// In the simulator the work is cut into jobs, each with a simulation of its own, that run on all cores. The result does
// not depend on the number of cores. On a NIC the jobs run one after another and share the time that is left.
#pragma once

#include <sidelatch/checker/environment.h>
#include <sidelatch/checker/lock_table.h>
#include <sidelatch/checker/observation.h>
#include <sidelatch/checker/rates.h>
#include <sidelatch/checker/torn_read.h>
#include <sidelatch/fabric/model/rules.h>

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

/// The device, connection or environment is missing: exit status 3.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parts of a check, in the order in which they run.
inline constexpr std::array<std::string_view, 7> kParts = {"torn-reads", "schemes", "latches", "effects",
                                                           "lock-table", "rates",   "proofs"};

struct CheckOptions {
  std::string fabric =
      "auto";  ///< auto (verbs where there is an active device, else sim), sim, softnic (if it is preloaded) or verbs
  std::string device = {};  ///< for verbs: as `sidelatch devices` lists it; empty: the first with an active port
  std::string server = {};  ///< for verbs: HOST[:PORT] of a memory server; empty: this machine has the memory too
  /// `server` is the exchange of a switch that keeps versions (`sidelatch switch --latches`): bare READs and WRITEs,
  /// and the scheme whose versions are there.
  bool at_switch = false;
  std::string token = {};                                           ///< the server's token
  std::string profile = "connectx5";                                ///< for sim: a name or the path of a TOML file
  std::vector<std::string> parts = {kParts.begin(), kParts.end()};  ///< of kParts
  bool relaxed_ordering = false;                                    ///< memory is registered for it
  double seconds = 60;  ///< wall-clock limit; anything not measured by then is left out
  std::vector<std::uint64_t> sizes = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};  ///< bytes
  std::uint64_t reads = 20'000;  ///< per size and scheme; chances per other probe
  std::uint64_t seed = 1;
  const std::atomic<bool>* interrupted = nullptr;  ///< set to true to end at once with the results so far
  std::function<void(std::size_t done, std::size_t all)> progress;  ///< after each job, from any thread

  /// Throws std::invalid_argument naming the option, its value and what is allowed.
  void validate() const;
};

enum class Verdict : std::uint8_t { safe, unsafe, not_exercised };
[[nodiscard]] std::string_view name(Verdict verdict);

struct SchemeReport {
  std::string scheme;
  bool known_broken = false;
  Verdict verdict = Verdict::not_exercised;
  std::string evidence;  ///< "torn: N in M reads, first: ..." or "no tear in N chances", and the explorer's result
  std::vector<std::string> assuming;  ///< for a safe verdict: the guarantees, with their probes' results
  std::vector<SchemeReads> sizes;
};

enum class Standing : std::uint8_t { kept, refuted, untried };
[[nodiscard]] std::string_view name(Standing standing);

/// A guarantee that proofs build on (docs/memory-model.md), and whether this NIC keeps it.
struct GuaranteeReport {
  std::string text;
  std::string probe;  ///< the probe's name in the report
  Standing standing = Standing::untried;
  std::uint64_t chances = 0;
  std::optional<double> bound95;  ///< bound95() of the probe, if the guarantee is kept
  std::string why;                ///< why the guarantee is not kept
  /// The weakest preset that promises the guarantee.
  fabric::model::Preset weakest = fabric::model::Preset::relaxed;
};

struct CheckReport {
  std::string device;
  std::string fabric;
  std::string memory;       ///< for verbs: "this machine", or HOST:PORT
  Environment environment;  ///< for verbs
  std::uint64_t seed = 0;
  double seconds = 0;
  bool complete = true;  ///< false: the time limit, an interrupt or a failure cut it short
  std::string failure;   ///< a device or connection failure that ended the measurement
  std::vector<TornReads> torn_reads;
  std::vector<Observation> observations;
  std::optional<LockTable> lock_table;
  std::vector<Series> series;
  std::vector<GuaranteeReport> guarantees;
  std::vector<SchemeReport> schemes;

  /// In all torn-read probes, blocks were mixed at multiples of this many bytes from the start of a line; 0: no block
  /// was mixed.
  [[nodiscard]] std::uint64_t granularity() const;
  /// nullptr if the curve was not measured.
  [[nodiscard]] const Series* find(Curve curve) const;
  /// False if a scheme is unsafe although it is not known to be broken.
  [[nodiscard]] bool as_expected() const;
};

/// Throws EnvironmentError if the fabric is missing, std::invalid_argument or ProfileError for bad options.
[[nodiscard]] CheckReport run_check(const CheckOptions& options);

enum class Colour : std::uint8_t { off, on };
[[nodiscard]] std::string to_table(const CheckReport& report, Colour colour);
[[nodiscard]] nlohmann::ordered_json to_json(const CheckReport& report);

}  // namespace sidelatch::checker
