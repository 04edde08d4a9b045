#include "packet_wire.h"

#include "packet_filter.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::roce {

namespace {

using InterfaceAddresses = std::unique_ptr<ifaddrs, decltype([](ifaddrs* list) { ::freeifaddrs(list); })>;

[[noreturn]] void fail(const std::string& interface, const char* what) {
  throw WireError(fmt::format("interface {}: cannot {}: {}", interface, what, std::strerror(errno)));
}

FileDescriptor open_socket(const std::string& interface) {
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
    fail(interface, "open a packet socket");
  }
  return socket;
}

ifreq request_for(const std::string& interface) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) {
    throw std::invalid_argument(fmt::format("'{}' is no name of an interface", interface));
  }
  interface.copy(request.ifr_name, interface.size());
  return request;
}

MacAddress mac_of(int socket, const std::string& interface) {
  ifreq request = request_for(interface);
  if (::ioctl(socket, SIOCGIFHWADDR, &request) != 0) {
    fail(interface, "find its MAC address");
  }
  MacAddress mac{};
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

// The MTU: bytes of an IP datagram.
std::size_t mtu_of(int socket, const std::string& interface) {
  ifreq request = request_for(interface);
  if (::ioctl(socket, SIOCGIFMTU, &request) != 0) {
    fail(interface, "find its MTU");
  }
  return static_cast<std::size_t>(request.ifr_mtu);
}

void refuse_the_machines_addresses(const PacketWireOptions& options) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    fail(options.interface, "list the machine's addresses");
  }
  const InterfaceAddresses owner(list);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) {
      continue;
    }
    const void* found = nullptr;
    bool same = false;
    if (entry->ifa_addr->sa_family == AF_INET && options.ipv4) {
      found = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
      same = std::memcmp(found, options.ipv4->data(), options.ipv4->size()) == 0;
    } else if (entry->ifa_addr->sa_family == AF_INET6 && options.ipv6) {
      found = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      same = std::memcmp(found, options.ipv6->data(), options.ipv6->size()) == 0;
    }
    if (same) {
      std::array<char, INET6_ADDRSTRLEN> text{};
      ::inet_ntop(entry->ifa_addr->sa_family, found, text.data(), text.size());
      throw WireError(fmt::format(
          "interface {}: {} is an address of this machine (on {}), and its kernel would answer our packets with "
          "\"port unreachable\": give an unused address of the same subnet",
          options.interface, text.data(), entry->ifa_name));
    }
  }
}

void attach_filter(int socket, const std::string& interface, const StationAddresses& own) {
  std::vector<sock_filter> code = packet_filter(own);
  const sock_fprog program = {.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    fail(interface, "filter packets");
  }
}

// Needed for frames to a MAC that is not the interface's, and to the groups of neighbour discovery.
void join(int socket, const std::string& interface, int index, unsigned short what) {
  packet_mreq membership{};
  membership.mr_ifindex = index;
  membership.mr_type = what;
  if (::setsockopt(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) != 0) {
    fail(interface, "receive frames for others");
  }
}

void bind_to(int socket, const std::string& interface, int index) {
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
    fail(interface, "receive from it");
  }
}

}  // namespace

struct PacketWire::Opened {
  FileDescriptor socket;
  StationAddresses addresses;
  std::size_t most_frame_bytes;
};

PacketWire::Opened PacketWire::open(const PacketWireOptions& options) {
  Opened opened{.socket = open_socket(options.interface), .addresses = {}, .most_frame_bytes = 0};
  const int socket = opened.socket.number();
  const MacAddress mac = mac_of(socket, options.interface);
  opened.addresses = {.mac = options.mac.value_or(mac),
                      .ipv4 = options.ipv4.value_or(Ipv4Address{}),
                      .ipv6 = options.ipv6.value_or(Ipv6Address{})};
  opened.most_frame_bytes = Ethernet::kBytes + mtu_of(socket, options.interface);
  refuse_the_machines_addresses(options);
  const int index = static_cast<int>(::if_nametoindex(options.interface.c_str()));
  attach_filter(socket, options.interface, opened.addresses);
  bind_to(socket, options.interface, index);
  if (opened.addresses.mac != mac) {
    join(socket, options.interface, index, PACKET_MR_PROMISC);
  } else if (options.ipv6) {
    join(socket, options.interface, index, PACKET_MR_ALLMULTI);
  }
  return opened;
}

PacketWire::PacketWire(const PacketWireOptions& options) : PacketWire(options, open(options)) {}

PacketWire::PacketWire(const PacketWireOptions& options, Opened opened)
    : NeighbourWire(fmt::format("interface {}", options.interface), opened.addresses, opened.most_frame_bytes) {
  use(std::move(opened.socket));
}

std::unique_ptr<Wire> open_packet_wire(const PacketWireOptions& options) {
  return std::make_unique<PacketWire>(options);
}

}  // namespace sidelatch::roce
