// Cluster: client processes that run an experiment together on real NICs, against one memory server.
//
//   Cluster cluster({.server = "10.0.0.1:18515", .rank = 1, .ranks = 4});     // in each process, with its rank
//   ExperimentResult result = find_experiment("latch-scaling").run({.cluster = &cluster});
//
// The processes meet through the server's memory alone: rank 0 borrows a board there, the others find it by its name,
// and barriers and sums are FETCH-ADDs, WRITEs and READs on it. Every process gets the same results. There is no MPI in
// it; mpirun and srun may start the processes, and rank_from_environment() reads what they say.
//
// A process that does not come, or dies, is an error at the others within Options::limit.
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

/// As Open MPI (OMPI_COMM_WORLD_RANK), MPICH and Intel MPI (PMI_RANK) or Slurm (SLURM_PROCID) tell it to the processes
/// that they start, in this order; nothing if none does. Throws std::invalid_argument that names the variable if one of
/// a pair is absent or no rank.
[[nodiscard]] std::optional<Rank> rank_from_environment();

class Cluster {
 public:
  static constexpr std::uint32_t kMostRanks = 256;

  struct Options {
    std::string server = {};    ///< HOST[:PORT] of the memory server
    std::string token = {};     ///< that server's
    std::string device = {};    ///< empty: the first with an active port
    std::string run = "bench";  ///< runs of different names may use one server at a time
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    fabric::Duration warm_up = std::chrono::milliseconds(20);    ///< of each point
    fabric::Duration measured = std::chrono::milliseconds(200);  ///< of each point
    /// For the others to come to a barrier, and for an object that stays latched.
    std::chrono::seconds limit{120};
    const std::atomic<bool>* interrupted = nullptr;  ///< set to true to end the waits for others

    /// Throws std::invalid_argument naming the option, its value and what is allowed.
    void validate() const;
  };

  /// Returns when all processes have come. Throws std::runtime_error that says which rank is missing or was there
  /// already.
  explicit Cluster(const Options& options);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  /// Waits for the others to leave, 5 seconds at most, and not after an error.
  ~Cluster();

  [[nodiscard]] const Options& options() const noexcept;
  [[nodiscard]] const std::string& device() const noexcept;
  [[nodiscard]] fabric::Node& storage() noexcept;
  /// Four, all on this process's device.
  [[nodiscard]] std::span<fabric::Node* const> clients() noexcept;

  /// Returns when all processes have called it as often as this one. Throws std::runtime_error that says which rank did
  /// not within Options::limit.
  void barrier();
  /// Of the values that the processes give, at each of them. A barrier, too.
  [[nodiscard]] double sum(double mine);

  /// Zeroed memory at the server, of rank 0, the same for all. Each process makes it in the same order as its others;
  /// before it goes, call barrier() or sum().
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
