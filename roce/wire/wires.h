// All kinds of wires, and the wrappers around them.
//
//   std::unique_ptr<Wire> wire = join_shared_memory_wire({.name = "default"});
//   wire = with_capture(std::move(wire), {.path = "nic.pcap"});
//   wire = with_faults(std::move(wire), {.seed = 1, .loss = 0.01});
//
// An outer wrapper sees the caller's frames. Here the capture shows the frames that are really sent, without lost ones.
// In the other order it would show the frames to be sent.
//
// All functions throw WireError, which says what is missing and what to do, and std::invalid_argument for meaningless
// options.
#pragma once

#include "wire.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace sidelatch::roce {

/// Connects the processes of one user on one machine. Needs no special rights; the fastest wire.
struct SharedMemoryWireOptions {
  /// Letters, digits, '-', '_' and '.'; at most 64 bytes. Processes with the same name share a wire.
  std::string name = "default";
  /// The name by which others see this station; cut after 63 bytes.
  std::string station_name{};
  /// Must be in memory, on this machine: processes in containers must see the same folder.
  std::filesystem::path folder = "/dev/shm";
};
[[nodiscard]] std::unique_ptr<Wire> join_shared_memory_wire(const SharedMemoryWireOptions& options);

/// Connects processes that see the same folder, for example in containers, by datagrams between UNIX sockets in it.
struct FolderWireOptions {
  /// Made if it does not exist. Only this user may use it.
  std::filesystem::path folder;
};
[[nodiscard]] std::unique_ptr<Wire> join_folder_wire(const FolderWireOptions& options);

/// Connects to one peer that sends and takes frames as datagrams of a UNIX socket: a guest of QEMU with
///   -netdev dgram,id=n0,local.type=unix,local.path=GUEST,remote.type=unix,remote.path=OURS -device
///   virtio-net-pci,netdev=n0
/// Many stations may be behind the peer; ARP and neighbour discovery find them, and our station answers both.
struct LinkWireOptions {
  std::filesystem::path local_path;     ///< our socket; that of a program that has ended is replaced, no other one
  std::filesystem::path remote_path;    ///< the peer's socket; it need not exist yet
  StationAddresses addresses;           ///< our addresses; the MAC, and at least one IP address
  std::size_t most_frame_bytes = 1514;  ///< of the peer's link; a guest's MTU is 1500 unless told otherwise
};
[[nodiscard]] std::unique_ptr<Wire> open_link_wire(const LinkWireOptions& options);

/// Connects over an interface of the kernel to other RoCEv2 devices: soft-RoCE devices of Linux, real NICs. Needs
/// CAP_NET_RAW.
///
/// The IP addresses must be our own: unused ones of the interface's subnet, and not the machine's. The kernel also
/// handles packets to the machine's own addresses, and answers them with "port unreachable", because none of its
/// sockets has that port. Packets from this machine to itself do not pass its interfaces, so the peer must be on
/// another machine or in another network namespace.
struct PacketWireOptions {
  std::string interface;
  std::optional<Ipv4Address> ipv4{};
  std::optional<Ipv6Address> ipv6{};
  /// Default: the interface's. Another MAC makes the interface promiscuous, and the network must let it through. On a
  /// machine that forwards packets (a router, a host of containers) it keeps the kernel from forwarding our packets.
  std::optional<MacAddress> mac{};
};
[[nodiscard]] std::unique_ptr<Wire> open_packet_wire(const PacketWireOptions& options);

/// Connects to a port of a switch on this machine, over shared memory of its own. Everything goes to the switch, and
/// ARP and neighbour discovery find the stations behind it. The switch may come and go.
struct CableWireOptions {
  /// As the name of a wire of shared memory. The switch has a port of this name.
  std::string name;
  StationAddresses addresses;  ///< our addresses; the MAC, and at least one IP address
  std::string station_name{};
  std::filesystem::path folder = "/dev/shm";
};
[[nodiscard]] std::unique_ptr<Wire> join_cable_wire(const CableWireOptions& options);

/// Also hands back the frames that the station sends to itself, and to groups, so that wrappers around it see them.
[[nodiscard]] std::unique_ptr<Wire> with_loop(std::unique_ptr<Wire> wire);

/// Probabilities, each 0 to 1, of faults to a sent frame.
struct FaultOptions {
  std::uint64_t seed = 1;  ///< the same seed and the same frames sent: the same faults
  double loss = 0;
  double duplication = 0;  ///< the frame arrives twice, back to back
  double corruption = 0;   ///< one bit of the frame after the Ethernet header is wrong
  double reordering = 0;   ///< the frame is held back until some later frames have been sent, or for reordering_limit
  double delay = 0;        ///< the frame is held back for delay_time
  std::uint32_t reordering_distance = 4;  ///< the most later frames; drawn for each frame
  std::chrono::nanoseconds reordering_limit = std::chrono::milliseconds(1);
  std::chrono::nanoseconds delay_time = std::chrono::milliseconds(1);
};
[[nodiscard]] std::unique_ptr<Wire> with_faults(std::unique_ptr<Wire> wire, const FaultOptions& options);

/// Writes every frame sent and received to a file that Wireshark, tshark and tcpdump read (pcap with nanoseconds). A
/// frame that comes back from the station itself was written when it was sent.
/// After a crash the file has every frame up to the last one. Costs a system call per frame.
struct CaptureOptions {
  std::filesystem::path path;
  bool appends = false;  ///< behind the frames of a capture that is there; otherwise an old file is replaced
};
[[nodiscard]] std::unique_ptr<Wire> with_capture(std::unique_ptr<Wire> wire, const CaptureOptions& options);

}  // namespace sidelatch::roce
