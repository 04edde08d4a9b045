// Packet sockets (packet(7)) on an interface of the kernel, as wires and ports use them.
//
// Thread-safety: functions without state.
#pragma once

#include "common/file_descriptor.h"

#include <net/if.h>

#include <cstddef>
#include <string>

namespace sidelatch::roce {

/// Receives nothing yet. Throws WireError, as the other functions do for what the kernel refuses.
[[nodiscard]] FileDescriptor open_packet_socket(const std::string& interface);
/// Throws std::invalid_argument for what is no name of an interface.
[[nodiscard]] ifreq interface_request(const std::string& interface);
/// The MTU: bytes of an IP datagram.
[[nodiscard]] std::size_t mtu_of_interface(int socket, const std::string& interface);
/// Receives from now on; not what this machine sends.
void bind_packet_socket(int socket, const std::string& interface, int index);
/// PACKET_MR_PROMISC or PACKET_MR_ALLMULTI: needed for frames to a MAC that is not the interface's, and to the groups
/// of neighbour discovery.
void join_packet_membership(int socket, const std::string& interface, int index, unsigned short what);
/// Throws a WireError with errno's reason.
[[noreturn]] void fail_on_interface(const std::string& interface, const char* what);

}  // namespace sidelatch::roce
