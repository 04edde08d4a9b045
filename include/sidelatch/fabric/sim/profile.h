// Profile: the simulator's parameters of a NIC, its link and its PCIe slot. One TOML file per NIC model.
//
//   Profile nic = load_profile("connectx5");          // compiled in, or the path of a TOML file
//   nic.qp_cache.requester_entries = 64;
//   nic.validate();
//
// Every key of a file must be known and in range; an error names file, line, column, key, value and what is allowed.
// Keys that a file leaves out keep the default below. `profile_keys()` lists them all with unit, range and meaning.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::sim {

/// A profile that cannot be used. The message is "FILE:LINE:COLUMN: error: ..." if a file is to blame.
class ProfileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Times are nanoseconds, rates Gbit/s, sizes bytes.
struct Profile {
  std::string name = "default";
  std::string description;

  struct Link {
    double gbps = 100;
    double propagation_ns = 300;  ///< one way, switch included
    double jitter_ns = 0;         ///< added to each request message, uniform from 0 to this
    std::uint64_t mtu = 4096;
    std::uint64_t header_bytes = 30;  ///< per packet on the wire
  } link;

  /// Service times limit the message rate; latencies are added to each message and limit nothing.
  struct Nic {
    double doorbell_ns = 250;  ///< from the post to the NIC's first look at the request
    double chain_ns = 0;       ///< initiator: service time per doorbell, in addition to its requests' times
    double cqe_ns = 0;         ///< initiator: service time per completion that is signaled
    double request_ns = 20;    ///< initiator: service time per request
    double respond_ns = 20;    ///< target: service time per request, of whatever kind
    /// In the place of respond_ns, each for one kind: for a NIC that was measured, and whose kinds differ.
    std::optional<double> respond_write_ns = std::nullopt;  ///< also for a SEND
    std::optional<double> respond_read_ns = std::nullopt;
    std::optional<double> respond_atomic_ns = std::nullopt;
    double packet_ns = 5;        ///< either side: service time per packet after a message's first
    double latency_ns = 100;     ///< passing through one NIC, either side, either direction
    double completion_ns = 250;  ///< from the response's arrival to the moment the CPU sees the completion

    [[nodiscard]] double responds_to_write_ns() const { return respond_write_ns.value_or(respond_ns); }
    [[nodiscard]] double responds_to_read_ns() const { return respond_read_ns.value_or(respond_ns); }
    [[nodiscard]] double responds_to_atomic_ns() const { return respond_atomic_ns.value_or(respond_ns); }
  } nic;

  /// The initiating NIC's cache of the states of queue pairs with requests in flight. Beyond its size a state in use
  /// has to make room, and is fetched again later.
  struct QpCache {
    std::uint64_t requester_entries = 0;  ///< 0: never misses
    double miss_ns = 500;                 ///< added to the request's service time
  } qp_cache;

  /// Atomics whose addresses agree in bits log2(slot_bytes) to address_bits - 1 exclude each other.
  struct LockTable {
    std::uint64_t address_bits = 12;
    std::uint64_t slot_bytes = 8;
    double load_ns = 300;     ///< from getting the slot until the word has been read
    double service_ns = 400;  ///< from getting the slot until the new value has been stored
    double recovery_ns = 0;   ///< how long the slot stays taken after that
    double changed_ns = 0;    ///< how much longer, if the atomic has changed its word
    std::uint64_t units = 0;  ///< slots that are taken at a time at most: the others wait; 0: all

    [[nodiscard]] std::uint64_t slots() const { return (std::uint64_t{1} << address_bits) / slot_bytes; }
    [[nodiscard]] std::uint64_t slot_of(std::uint64_t address) const { return (address / slot_bytes) % slots(); }
  } lock_table;

  struct Pcie {
    double gbps = 126;                   ///< of the slot, for payload
    double read_ns = 350;                ///< latency of a DMA read
    double write_ns = 150;               ///< latency of a posted write
    double reorder_probability = 0;      ///< probability that a line of a READ is sampled late
    double reorder_ns = 300;             ///< how late on average, exponential
    double write_stall_probability = 0;  ///< probability that a WRITE pauses at one of its lines
    double write_stall_ns = 0;           ///< the longest pause, uniform
  } pcie;

  struct Memory {
    std::uint64_t atom_bytes = 64;  ///< the unit sampled and placed whole: 8, 16, 32 or 64
  } memory;

  /// CPU costs; rates in Gbyte/s, 0: costs nothing.
  struct Cpu {
    double checksum_gbytes = 0;       ///< CRC64 of an object
    double line_versions_gbytes = 0;  ///< comparing the versions of an object's lines and gathering its payload
    double rpc_ns = 0;                ///< a core serves one small RPC: receive, one CPU atomic, send
    std::uint64_t cores = 0;          ///< cores that serve RPCs, each one at a time; 0: one for each client
  } cpu;

  /// Throws ProfileError naming the first key that is out of range, its value and the range.
  void validate() const;
};

/// One key of the file format, for messages, documentation and writers.
struct ProfileKey {
  std::string_view path;  ///< "lock_table.service_ns"
  std::string_view unit;
  double least = 0;
  double most = 0;
  std::string_view meaning;
  bool optional = false;  ///< where it is absent, the key that its meaning names counts
};
[[nodiscard]] std::span<const ProfileKey> profile_keys();

/// The profile in the format of parse_profile(), with each key's unit and meaning as a comment. It leaves out what is
/// optional and absent.
[[nodiscard]] std::string to_toml(const Profile& profile);

/// Reads a profile. `origin` names the text in messages. Throws ProfileError, and so does load_profile().
[[nodiscard]] Profile parse_profile(std::string_view toml, std::string_view origin);
/// A compiled-in profile by its name, or a file if `name_or_path` contains '/' or ends in ".toml".
[[nodiscard]] Profile load_profile(std::string_view name_or_path);
/// Names of the compiled-in profiles.
[[nodiscard]] std::vector<std::string> profile_names();

}  // namespace sidelatch::fabric::sim
