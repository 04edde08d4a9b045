// Path: the headers of Ethernet, IP and UDP between two NICs, made once and copied into each packet.
//
//   Packet packet = path.packet();      // also sets the BTH's queue pair and partition
//   if (path.accepts(received)) ...     // it came from the path's other end
//
// Source: InfiniBand Architecture Specification, volume 1, Annex A17 (RoCEv2): the IP addresses are the GIDs, the UDP
// source port is the sender's choice and stays the same for a connection.
//
// Thread-safety: values.
#pragma once

#include "roce/gid.h"
#include "roce/packet.h"
#include "work.h"

#include <cstdint>
#include <optional>

namespace sidelatch::softnic::nic {

[[nodiscard]] Gid source_gid(const Packet& packet) noexcept;
[[nodiscard]] Gid destination_gid(const Packet& packet) noexcept;

class Path {
 public:
  Path() = default;
  /// `own_mac`, `own_gid`: this side's addresses. `own_qp` and `remote_qp` choose the UDP source port.
  Path(const AddressVector& to, const MacAddress& own_mac, const Gid& own_gid, std::uint32_t own_qp,
       std::uint32_t remote_qp) noexcept;

  /// Whether both GIDs are IPv4 or both are IPv6.
  [[nodiscard]] static bool is_possible(const AddressVector& to, const Gid& own_gid) noexcept {
    return is_ipv4(to.gid) == is_ipv4(own_gid);
  }

  /// Headers without an opcode, for the remote queue pair.
  [[nodiscard]] const Packet& packet() const noexcept { return headers_; }
  /// Whether a packet came along this path, to this side (9.6, checking of the global route header).
  [[nodiscard]] bool accepts(const Packet& received) const noexcept;
  [[nodiscard]] const Gid& remote_gid() const noexcept { return remote_; }

 private:
  Packet headers_;
  Gid own_{};
  Gid remote_{};
};

}  // namespace sidelatch::softnic::nic
