// Options that choose the NIC, port and address, and the behaviour of connections.
//
//   VerbsFabric fabric({.device = "mlx5_0"});
//   VerbsFabric near({.device = "mlx5_0", .huge_pages = 2 << 20, .numa = NumaNode::nic(), .pin_thread = true});
//
// Defaults are the first device with an active port that has a GID, on RoCE the first GID of version 2, IPv4 before
// IPv6, and the port's MTU. The device's limits are applied. An option that it does not support at all is an error that
// names the option.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::verbs {

/// There is no such device, or the operating system denies its use; says what to do.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The NUMA node from which allocate() takes memory.
class NumaNode {
 public:
  enum class Kind : std::uint8_t { any, nic, number };

  /// Any node, as the operating system chooses.
  [[nodiscard]] static constexpr NumaNode any() noexcept { return NumaNode(Kind::any, 0); }
  /// The NIC's node. Like any() if the operating system does not know the NIC's node, or if all memory is at one node.
  [[nodiscard]] static constexpr NumaNode nic() noexcept { return NumaNode(Kind::nic, 0); }
  /// The node with this number in /sys/devices/system/node.
  [[nodiscard]] static constexpr NumaNode number(std::uint32_t number) noexcept {
    return NumaNode(Kind::number, number);
  }

  [[nodiscard]] constexpr Kind kind() const noexcept { return kind_; }
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  friend bool operator==(const NumaNode&, const NumaNode&) = default;

 private:
  constexpr NumaNode(Kind kind, std::uint32_t value) noexcept : kind_(kind), value_(value) {}
  Kind kind_;
  std::uint32_t value_;
};

struct DeviceOptions {
  std::string device = {};  ///< as `sidelatch devices` lists it; empty: the first device with an active port
  std::uint8_t port = 0;    ///< 1 and up; 0: the first active port that has a GID, or that of gid_index
  int gid_index = -1;       ///< -1: chosen
  std::uint32_t mtu = 0;    ///< bytes, 256 to 4096, a power of two; 0: the port's MTU
  /// Requests in flight over all queue pairs, 2 to 1048576, and at most half the entries that the device allows a
  /// completion queue (max_cqe).
  std::uint32_t completion_queue_depth = 4096;
  bool relaxed_ordering = false;  ///< let PCIe reorder the NIC's writes to registered memory
  /// Size of the huge pages that allocate() uses: bytes, a power of two that the kernel supports (x86-64: 2 << 20 or
  /// 1 << 30); 0: ordinary pages. A region takes whole pages but keeps the length that was asked for.
  std::uint64_t huge_pages = 0;
  /// Strict: memory is at that node, or allocate() throws DeviceError. If the node runs out of ordinary pages, the
  /// process ends, as under `numactl --membind`.
  NumaNode numa = NumaNode::any();
  /// Calls pin_thread_near() for the thread that makes the fabric, and for the thread of each MemoryServer. The former
  /// stays pinned when the fabric is destroyed.
  bool pin_thread = false;

  /// Throws std::invalid_argument that names the field, its value and the allowed range.
  void validate() const;
};

/// How the two ends of a connection to a memory server find each other.
enum class Through : std::uint8_t {
  automatic,           ///< the connection manager if both sides have it, else the exchange; RemoteNode::through() tells
  connection_manager,  ///< librdmacm: routes and paths come from the system; without it an error
  exchange,            ///< addresses over the server's TCP connection; needs nothing but the device
};
[[nodiscard]] std::string_view name(Through through);

/// Options of the connections of one fabric. Units are InfiniBand's.
struct ConnectionOptions {
  std::uint8_t timeout = 14;        ///< resend after 4.096 us * 2^timeout without an answer; 0 (never) to 31
  std::uint8_t retry_count = 7;     ///< number of resends, 0 to 7
  std::uint8_t rnr_retry = 7;       ///< 0 to 6; 7: for ever
  std::uint8_t min_rnr_timer = 12;  ///< 0 to 31, see the InfiniBand specification, table 45
  std::uint8_t traffic_class = 0;   ///< of RoCE packets
  std::uint8_t service_level = 0;   ///< 0 to 15; 0 with the connection manager: its path's level
  std::uint16_t pkey_index = 0;     ///< for the exchange; the connection manager takes the interface's
  /// A memory server offers the ways that its own fabric allows. Connections within a process need neither.
  Through through = Through::automatic;

  /// Throws std::invalid_argument that names the field, its value and the allowed range.
  void validate() const;
};

/// Names of the RDMA devices that the operating system knows.
[[nodiscard]] std::vector<std::string> device_names();

/// Restricts the calling thread to those of its CPUs that are near `device` (local_cpulist of its PCI device); threads
/// that it starts inherit that. Its previous CPUs are not saved: call sched_getaffinity() before to restore them later.
/// Returns false and changes nothing if the operating system does not know which CPUs are near, because the device is
/// not hardware (soft-RoCE). Throws DeviceError if there is no such device, or if the thread may run on none of these
/// CPUs.
bool pin_thread_near(std::string_view device);

}  // namespace sidelatch::fabric::verbs
