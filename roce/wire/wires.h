// The wires that there are, and what can be put around one.
//
//   std::unique_ptr<Wire> wire = join_shared_memory_wire({.name = "default"});
//   wire = with_capture(std::move(wire), {.path = "nic.pcap"});
//   wire = with_faults(std::move(wire), {.seed = 1, .loss = 0.01});
//
// What is around sees what the caller does: here the capture shows what travels, lost frames not among them; the other
// way round it would show what was to be sent.
//
// All functions throw WireError, which says what is missing and what to do, and std::invalid_argument for options that
// mean nothing.
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

/// Between the processes of one machine and one user. Needs no rights; the fastest one.
struct SharedMemoryWireOptions {
  /// Letters, digits, '-', '_' and '.'; of at most 64 bytes. Who gives the same name shares a wire.
  std::string name = "default";
  /// How others shall see this station; cut after 63 bytes.
  std::string station_name{};
  /// Lies in memory, on this machine: processes in containers must see the same folder.
  std::filesystem::path folder = "/dev/shm";
};
[[nodiscard]] std::unique_ptr<Wire> join_shared_memory_wire(const SharedMemoryWireOptions& options);

/// Between processes that see the same folder, in containers say: datagrams between UNIX sockets in it.
struct FolderWireOptions {
  /// Made if it is not there. Only this user may use it.
  std::filesystem::path folder;
};
[[nodiscard]] std::unique_ptr<Wire> join_folder_wire(const FolderWireOptions& options);

/// To one peer that sends and takes frames as datagrams of a UNIX socket: a guest of QEMU with
///   -netdev dgram,id=n0,local.type=unix,local.path=GUEST,remote.type=unix,remote.path=OURS -device
///   virtio-net-pci,netdev=n0
/// Behind it may be many stations; they are found with ARP and neighbour discovery, and ours answers both.
struct LinkWireOptions {
  std::filesystem::path local_path;     ///< ours; made anew
  std::filesystem::path remote_path;    ///< the peer's; it need not be there yet
  StationAddresses addresses;           ///< ours; the MAC, and one IP address at least
  std::size_t most_frame_bytes = 1514;  ///< of the peer's link; a guest's MTU is 1500 unless told otherwise
};
[[nodiscard]] std::unique_ptr<Wire> open_link_wire(const LinkWireOptions& options);

/// Over an interface of the kernel, to whatever speaks RoCEv2 there: soft-RoCE devices of Linux, real NICs. Needs
/// CAP_NET_RAW.
///
/// The IP addresses must be our own: unused ones of the interface's subnet, and not the machine's. The kernel takes
/// part in what is sent to the machine's own, and answers it with "port unreachable", for no socket of its has that
/// port. What this machine sends to itself does not pass its interfaces, so the peer is on another machine, or in
/// another network namespace.
struct PacketWireOptions {
  std::string interface;
  std::optional<Ipv4Address> ipv4{};
  std::optional<Ipv6Address> ipv6{};
  /// Default: the interface's. Another one makes the interface promiscuous, and needs a network that lets it through;
  /// on a machine that forwards packets (a router, a host of containers) it keeps the kernel from forwarding ours.
  std::optional<MacAddress> mac{};
};
[[nodiscard]] std::unique_ptr<Wire> open_packet_wire(const PacketWireOptions& options);

/// Chances, each of 0 to 1, that something happens to a frame that is sent.
struct FaultOptions {
  std::uint64_t seed = 1;  ///< the same seed and the same frames sent: the same faults
  double loss = 0;
  double duplication = 0;  ///< it arrives twice, at once
  double corruption = 0;   ///< a bit of it is wrong, behind the Ethernet header
  double reordering = 0;   ///< it is held back until some later frames have been sent, or for reordering_limit
  double delay = 0;        ///< it is held back for delay_time
  std::uint32_t reordering_distance = 4;  ///< later frames, at most; drawn for each
  std::chrono::nanoseconds reordering_limit = std::chrono::milliseconds(1);
  std::chrono::nanoseconds delay_time = std::chrono::milliseconds(1);
};
[[nodiscard]] std::unique_ptr<Wire> with_faults(std::unique_ptr<Wire> wire, const FaultOptions& options);

/// Writes every frame sent and received to a file that Wireshark, tshark and tcpdump read (pcap with nanoseconds). What
/// was captured before a crash is in it, up to the last frame. Costs a system call per frame.
struct CaptureOptions {
  std::filesystem::path path;  ///< an old file is replaced
};
[[nodiscard]] std::unique_ptr<Wire> with_capture(std::unique_ptr<Wire> wire, const CaptureOptions& options);

}  // namespace sidelatch::roce
