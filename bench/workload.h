// Workloads: they choose the next operation and its key.
//
//   KeySpace keys(1'000'000);
//   Workload workload(ycsb('B'), 0.99, keys, worker);
//   Operation operation = workload.next();       // {.kind = read, .key = 417}
//
// The mixes are those of TODS 2025, sections 3.5 and 4.6, and the YCSB core workloads A to F (B. Cooper et al.,
// "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, and the files workloads/workload[a-f] of its repository).
//
// Thread-safety: a key space and its workloads belong to one thread.
#pragma once

#include <sidelatch/bench/zipf.h>

#include <cstdint>
#include <random>

namespace sidelatch::bench {

struct Operation {
  enum class Kind : std::uint8_t { read, update, insert, scan, read_modify_write };
  Kind kind = Kind::read;
  std::uint64_t key = 0;
  std::uint32_t scan_length = 0;  ///< scan: number of keys from `key` on
};

/// The share of each kind; the sum is 1.
struct Mix {
  /// zipf: a key's popularity is fixed, and popular keys are scattered. latest: the newest key is the most popular.
  enum class Popularity : std::uint8_t { zipf, latest };

  double read = 0;
  double update = 0;
  double insert = 0;
  double scan = 0;
  double read_modify_write = 0;
  Popularity popularity = Popularity::zipf;
  std::uint32_t longest_scan = 100;  ///< lengths are uniform from 1 to this

  /// Throws std::invalid_argument with the share's name and value.
  void validate() const;
};

inline constexpr Mix kWriteOnly{.update = 1};
inline constexpr Mix kMixed{.read = 0.5, .update = 0.5};
inline constexpr Mix kReadOnly{.read = 1};

/// The skew of all YCSB workloads.
inline constexpr double kYcsbExponent = 0.99;
/// 'A' to 'F'. Throws std::invalid_argument.
[[nodiscard]] Mix ycsb(char workload);

/// The existing keys: 0 to size() - 1. Inserts add the next one.
class KeySpace {
 public:
  /// `most` includes inserts; 0 means `initial`. If it is far above the number of keys, draws become slow. Throws
  /// std::invalid_argument for no key, or if `most` is below `initial`.
  explicit KeySpace(std::uint64_t initial, std::uint64_t most = 0);
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }
  /// A new key. Throws std::length_error if all keys exist.
  [[nodiscard]] std::uint64_t add();

 private:
  std::uint64_t size_;
  std::uint64_t most_;
};

class Workload {
 public:
  /// Workloads of one key space agree on the popular keys. `seed` is for this workload's draws. Throws
  /// std::invalid_argument for a bad mix or exponent.
  Workload(const Mix& mix, double exponent, KeySpace& keys, std::uint64_t seed);

  [[nodiscard]] Operation next();

 private:
  [[nodiscard]] Operation::Kind draw_kind();
  [[nodiscard]] std::uint64_t draw_key();

  Mix mix_;
  KeySpace* keys_;
  Zipf ranks_;
  Scatter scatter_;
  std::mt19937_64 random_;
};

}  // namespace sidelatch::bench
