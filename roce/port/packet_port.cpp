#include "ports.h"

#include "roce/wire/packet_socket.h"
#include "roce/wire/socket_wire.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>

namespace sidelatch::roce {

namespace {

class PacketPort final : public SocketWire {
 public:
  explicit PacketPort(const PacketPortOptions& options) : PacketPort(options, open_packet_socket(options.interface)) {}

  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& /*gid*/) override { return std::nullopt; }

 private:
  PacketPort(const PacketPortOptions& options, FileDescriptor socket)
      : SocketWire(fmt::format("interface {}", options.interface), {},
                   Ethernet::kBytes + mtu_of_interface(socket.number(), options.interface)) {
    const int index = static_cast<int>(::if_nametoindex(options.interface.c_str()));
    bind_packet_socket(socket.number(), options.interface, index);
    join_packet_membership(socket.number(), options.interface, index, PACKET_MR_PROMISC);
    use(std::move(socket));
  }
  [[nodiscard]] std::optional<Address> address_of(const MacAddress& /*destination*/) override { return Address{}; }
};

}  // namespace

std::unique_ptr<Wire> open_packet_port(const PacketPortOptions& options) {
  return std::make_unique<PacketPort>(options);
}

}  // namespace sidelatch::roce
