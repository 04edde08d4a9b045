// Cluster: client processes that run an experiment together on real NICs, against one memory server.
//
//   Cluster cluster({.server = "10.0.0.1:18515", .rank = 1, .ranks = 4});     // in each process, with its rank
//   ExperimentResult result = find_experiment("latch-scaling").run({.cluster = &cluster});
//
// The processes meet only through the server's memory. Rank 0 borrows a board there, the others find it by its name,
// and barriers and sums are FETCH-ADDs, WRITEs and READs on it. Every process gets the same results. It uses no MPI,
// but mpirun and srun may start the processes: rank_from_environment() reads the variables that they set.
//
// If a process does not come or dies, the others get an error within Options::limit.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace sidelatch::bench {

struct Rank {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
};

/// The rank that Open MPI (OMPI_COMM_WORLD_RANK), MPICH and Intel MPI (PMI_RANK) or Slurm (SLURM_PROCID) set in the
/// environment, looked up in this order; nothing if none of them is set. Throws std::invalid_argument that names the
/// variable if one of a pair is absent or not a rank.
[[nodiscard]] std::optional<Rank> rank_from_environment();

class Cluster {
 public:
  static constexpr std::uint32_t kMostRanks = 256;

  struct Options {
    std::string server = {};    ///< HOST[:PORT] of the memory server
    std::string token = {};     ///< the server's token
    std::string device = {};    ///< empty: the first device with an active port
    std::string run = "bench";  ///< runs of different names may use one server at a time
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    fabric::Duration warm_up = std::chrono::milliseconds(20);    ///< before each point is measured
    fabric::Duration measured = std::chrono::milliseconds(200);  ///< per point
    /// How long to wait for the others at a barrier, and for an object that stays latched.
    std::chrono::seconds limit{120};
    const std::atomic<bool>* interrupted = nullptr;  ///< set to true to end the waits for others

    /// Throws std::invalid_argument naming the option, its value and what is allowed.
    void validate() const;
  };

  /// Returns when all processes have come. Throws std::runtime_error that names the rank that is missing or was already
  /// there.
  explicit Cluster(const Options& options);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  /// Waits up to 5 seconds for the others to leave; does not wait after an error.
  ~Cluster();

  [[nodiscard]] const Options& options() const noexcept;
  [[nodiscard]] const std::string& device() const noexcept;
  [[nodiscard]] fabric::Node& storage() noexcept;
  /// Four nodes, all on this process's device.
  [[nodiscard]] std::span<fabric::Node* const> clients() noexcept;

  /// Returns when all processes have called it as often as this one. Throws std::runtime_error that names the rank that
  /// did not call it within Options::limit.
  void barrier();
  /// The sum of the values of all processes, returned to each of them. Also acts as a barrier.
  [[nodiscard]] double sum(double mine);

  /// Zeroed memory at the server, owned by rank 0 and shared by all. Each process makes its shared memories in the same
  /// order. Call barrier() or sum() before it is destroyed.
  class SharedMemory {
   public:
    SharedMemory(Cluster& cluster, std::uint64_t bytes);
    [[nodiscard]] fabric::RemoteSpan remote() const noexcept { return span_; }

   private:
    fabric::MemoryRegion region_;  // rank 0
    fabric::RemoteSpan span_;
  };

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  int exceptions_;
};

}  // namespace sidelatch::bench
