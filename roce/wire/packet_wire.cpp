#include "packet_wire.h"

#include "packet_filter.h"
#include "packet_socket.h"

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

MacAddress mac_of(int socket, const std::string& interface) {
  ifreq request = interface_request(interface);
  if (::ioctl(socket, SIOCGIFHWADDR, &request) != 0) {
    fail_on_interface(interface, "find its MAC address");
  }
  MacAddress mac{};
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

void refuse_the_machines_addresses(const PacketWireOptions& options) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    fail_on_interface(options.interface, "list the machine's addresses");
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
    fail_on_interface(interface, "filter packets");
  }
}

}  // namespace

struct PacketWire::Opened {
  FileDescriptor socket;
  StationAddresses addresses;
  std::size_t most_frame_bytes;
};

PacketWire::Opened PacketWire::open(const PacketWireOptions& options) {
  Opened opened{.socket = open_packet_socket(options.interface), .addresses = {}, .most_frame_bytes = 0};
  const int socket = opened.socket.number();
  const MacAddress mac = mac_of(socket, options.interface);
  opened.addresses = {.mac = options.mac.value_or(mac),
                      .ipv4 = options.ipv4.value_or(Ipv4Address{}),
                      .ipv6 = options.ipv6.value_or(Ipv6Address{})};
  opened.most_frame_bytes = Ethernet::kBytes + mtu_of_interface(socket, options.interface);
  refuse_the_machines_addresses(options);
  const int index = static_cast<int>(::if_nametoindex(options.interface.c_str()));
  attach_filter(socket, options.interface, opened.addresses);
  bind_packet_socket(socket, options.interface, index);
  if (opened.addresses.mac != mac) {
    join_packet_membership(socket, options.interface, index, PACKET_MR_PROMISC);
  } else if (options.ipv6) {
    join_packet_membership(socket, options.interface, index, PACKET_MR_ALLMULTI);
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
