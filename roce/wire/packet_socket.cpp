#include "packet_socket.h"

#include "roce/wire/wire.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace sidelatch::roce {

void fail_on_interface(const std::string& interface, const char* what) {
  throw WireError(fmt::format("interface {}: cannot {}: {}", interface, what, std::strerror(errno)));
}

FileDescriptor open_packet_socket(const std::string& interface) {
  // Protocol 0: no frame arrives before the filter is set and the socket is bound.
  FileDescriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid() && (errno == EPERM || errno == EACCES)) {
    throw WireError(fmt::format(
        "interface {}: a packet socket needs CAP_NET_RAW, and this process does not have it: run as root, or "
        "give it to the program (setcap cap_net_raw+ep PROGRAM), or use the wire of shared memory, which needs "
        "no rights",
        interface));
  }
  if (!socket.valid()) {
    fail_on_interface(interface, "open a packet socket");
  }
  return socket;
}

ifreq interface_request(const std::string& interface) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) {
    throw std::invalid_argument(fmt::format("'{}' is no name of an interface", interface));
  }
  interface.copy(request.ifr_name, interface.size());
  return request;
}

std::size_t mtu_of_interface(int socket, const std::string& interface) {
  ifreq request = interface_request(interface);
  if (::ioctl(socket, SIOCGIFMTU, &request) != 0) {
    fail_on_interface(interface, "find its MTU");
  }
  return static_cast<std::size_t>(request.ifr_mtu);
}

void join_packet_membership(int socket, const std::string& interface, int index, unsigned short what) {
  packet_mreq membership{};
  membership.mr_ifindex = index;
  membership.mr_type = what;
  if (::setsockopt(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) != 0) {
    fail_on_interface(interface, "receive frames for others");
  }
}

void bind_packet_socket(int socket, const std::string& interface, int index) {
  const int yes = 1;
  // Frames that this machine sends over the interface are not for us.
  ::setsockopt(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
  const int bytes = 4 << 20;
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = index;
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail_on_interface(interface, "receive from it");
  }
}

}  // namespace sidelatch::roce
