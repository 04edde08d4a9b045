// FlowNic: the NIC of a unit of a flow, by libibverbs, and the rings that the switch reaches through it.
//
//   FlowNic nic;                                                         // the first RDMA device
//   const FlowRing& ring = nic.add_ring(shape, end, switch_ip, 1024);    // to be told to FlowSwitch, with its port
//   Producer producer(nic.memory(0), shape);
//
// A process that joins a flow of a running switch needs only flow_unit.h, which uses this.
//
// It works with an RDMA device (RoCE version 2 over IPv4) and with the software NIC, if the process was started with
// softnic::set_environment() or `sidelatch softnic run`. The unit posts nothing: the queue pairs only receive.
//
// Thread-safety: none; the rings' memory is used by Producer and Consumer as ring.h says.
#pragma once

#include <sidelatch/flows/flow_switch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sidelatch::flows {

class FlowNic {
 public:
  /// Opens the device of this name, or the first one, and its first active port that has an IPv4 address. Throws
  /// std::runtime_error that says what is missing: the device, an active port, an IPv4 address.
  explicit FlowNic(const std::string& device = {});
  FlowNic(const FlowNic&) = delete;
  FlowNic& operator=(const FlowNic&) = delete;
  /// Ends the connections first, so nothing comes to the memory any more.
  ~FlowNic();

  [[nodiscard]] const MacAddress& mac() const noexcept;
  [[nodiscard]] const Ipv4Address& ip() const noexcept;
  /// Bytes, of the port.
  [[nodiscard]] std::uint32_t largest_path_mtu() const noexcept;

  /// Memory for a cleared ring, and a reliable connection to the switch's end that can receive. The switch must serve
  /// meanwhile: the NIC asks for its MAC address. FlowRing::port remains 0. The reference holds until the next
  /// add_ring(). Throws std::invalid_argument for a wrong shape, and std::runtime_error for a path MTU that is too
  /// large and for what the device refuses; then nothing is left of the ring.
  const FlowRing& add_ring(const RingShape& shape, const SwitchEnd& end, const Ipv4Address& switch_ip,
                           std::uint32_t path_mtu);
  [[nodiscard]] std::size_t rings() const noexcept;
  [[nodiscard]] const FlowRing& ring(std::size_t i) const;
  /// Of ring i, as long as this object lives.
  [[nodiscard]] std::span<std::byte> memory(std::size_t i) const;

 private:
  struct Device;
  std::unique_ptr<Device> device_;
};

}  // namespace sidelatch::flows
