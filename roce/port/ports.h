// The ports of a switch: wires without addresses of their own. They take every frame, and what is sent leaves there,
// whatever its destination is. A switch that has several waits for all of them in poll(2) (wire.h).
//
//   std::unique_ptr<Wire> port = open_cable_port({.name = "left"});
//
// All functions throw WireError, which says what is missing and what to do, and std::invalid_argument for meaningless
// options.
#pragma once

#include "roce/wire/wires.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace sidelatch::roce {

/// One station on this machine, at the other end of a cable of shared memory (CableWireOptions). It may come and go.
struct CablePortOptions {
  std::string name;
  std::filesystem::path folder = "/dev/shm";
};
[[nodiscard]] std::unique_ptr<Wire> open_cable_port(const CablePortOptions& options);

/// Whatever is at the other one of two UNIX sockets, as LinkWireOptions: a guest of QEMU, a software NIC.
struct LinkPortOptions {
  std::filesystem::path local_path;
  std::filesystem::path remote_path;
  std::size_t most_frame_bytes = kMostFrameBytes;
};
[[nodiscard]] std::unique_ptr<Wire> open_link_port(const LinkPortOptions& options);

/// An interface of the kernel, promiscuous. Needs CAP_NET_RAW. The kernel must not use the interface itself: it would
/// also answer.
struct PacketPortOptions {
  std::string interface;
};
[[nodiscard]] std::unique_ptr<Wire> open_packet_port(const PacketPortOptions& options);

}  // namespace sidelatch::roce
