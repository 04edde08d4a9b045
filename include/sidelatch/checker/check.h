// `sidelatch check`: probes of a NIC, schemes put to work on it, and what the explorer proves of them under the
// guarantees that the probes did not refute; one report, the datasheet of the NIC.
//
//   CheckReport report = run_check({.profile = "connectx5"});
//   std::cout << to_table(report, Colour::off);
//
// In the simulator the work is cut into jobs, each with a simulation of its own, and run on all cores; the result does
// not depend on how many there are. On a NIC the jobs follow each other, and share the time that is left.
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

/// The device, connection or environment is not there: exit status 3.
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
  std::string token = {};   ///< that server's
  std::string profile = "connectx5";                                ///< for sim: a name or the path of a TOML file
  std::vector<std::string> parts = {kParts.begin(), kParts.end()};  ///< of kParts
  bool relaxed_ordering = false;                                    ///< memory is registered for it
  double seconds = 60;  ///< wall-clock limit; what was not measured by then is left out
  std::vector<std::uint64_t> sizes = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};  ///< bytes
  std::uint64_t reads = 20'000;  ///< per size and scheme; chances per other probe
  std::uint64_t seed = 1;
  const std::atomic<bool>* interrupted = nullptr;  ///< set to true to end at once with what was measured
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
  std::string evidence;  ///< "torn: N in M reads, first: ..." or "no tear in N chances", and what the explorer says
  std::vector<std::string> assuming;  ///< of a safe one: the guarantees, with what their probes gave them
  std::vector<SchemeReads> sizes;
};

enum class Standing : std::uint8_t { kept, refuted, untried };
[[nodiscard]] std::string_view name(Standing standing);

/// A guarantee that proofs build on (docs/memory-model.md), and how it stands on this NIC.
struct GuaranteeReport {
  std::string text;
  std::string probe;  ///< its name in the report
  Standing standing = Standing::untried;
  std::uint64_t chances = 0;
  std::optional<double> bound95;  ///< as bound95(), if it is kept
  std::string why;                ///< if it is not kept
  /// The weakest preset that promises it.
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
  std::string failure;   ///< of the device or the connection, after which nothing more could be measured
  std::vector<TornReads> torn_reads;
  std::vector<Observation> observations;
  std::optional<LockTable> lock_table;
  std::vector<Series> series;
  std::vector<GuaranteeReport> guarantees;
  std::vector<SchemeReport> schemes;

  /// Blocks were mixed at multiples of that many bytes from the begin of a line, in all torn-read probes; 0: none was.
  [[nodiscard]] std::uint64_t granularity() const;
  /// nullptr if the curve was not measured.
  [[nodiscard]] const Series* find(Curve curve) const;
  /// False if a scheme is unsafe that is not known to be broken.
  [[nodiscard]] bool as_expected() const;
};

/// Throws EnvironmentError if the fabric is not there, std::invalid_argument or ProfileError for bad options.
[[nodiscard]] CheckReport run_check(const CheckOptions& options);

enum class Colour : std::uint8_t { off, on };
[[nodiscard]] std::string to_table(const CheckReport& report, Colour colour);
[[nodiscard]] nlohmann::ordered_json to_json(const CheckReport& report);

}  // namespace sidelatch::checker
