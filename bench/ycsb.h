// YCSB on the structures in several sizes: the experiments run the first, tests a small one.
#pragma once

#include <sidelatch/bench/experiment.h>
#include <sidelatch/fabric/types.h>

#include <cstdint>
#include <string>

namespace sidelatch::bench {

struct YcsbScale {
  std::uint64_t records = 1'000'000;
  std::uint64_t value_bytes = 100;  ///< one of the ten fields of a YCSB record
  std::uint32_t workers = 64;
  std::uint32_t memory_nodes = 4;
  std::string workloads = "ABCDEF";
  fabric::Duration warm_up = fabric::from_ns(500'000);
  fabric::Duration measured = fabric::from_ns(4'000'000);
};

/// A hash table with chains; it has no scans, so there is no workload E. Throws std::invalid_argument for a scale
/// without records or workers, and std::runtime_error if it runs out of room for inserts.
[[nodiscard]] ExperimentResult ycsb_hash_table(const ExperimentOptions& options, const YcsbScale& scale);
/// A B-tree with nodes of 4 KiB and a cache of its inner nodes at each client. Throws the same.
[[nodiscard]] ExperimentResult ycsb_btree(const ExperimentOptions& options, const YcsbScale& scale);

}  // namespace sidelatch::bench
