// FlowHost: a flow of a switch that runs in this process. Other processes join it by its address (flow_unit.h).
//
//   p4::WiredSwitch device(zero_sided_program(), {.ports = {p4::parse_port("0=shm:a"), p4::parse_port("1=shm:b")}});
//   FlowSwitch control(device.device(), {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}});
//   FlowHost host(device, control, {.address = "127.0.0.1:18517", .item_bytes = 64});
//   while (host.serve(std::chrono::milliseconds(10))) {
//   }
//
// The flow begins when all its units are there. If it is open (Flow::is_open) others may join later, as
// FlowSwitch::join_producer() and join_consumer() say, until close().
//
// A unit that dies before the flow begins makes room for another one. Afterwards the switch gives it up
// (Flow::most_retries), and what its process held at the switch is given back when the flow is stopped.
//
// Thread-safety: none; the thread that drives the switch calls it. Nothing blocks.
#pragma once

#include <sidelatch/flows/flow_switch.h>
#include <sidelatch/p4/wired_switch.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::flows {

struct FlowHostOptions {
  std::string address = "127.0.0.1:0";  ///< HOST:PORT or [IPv6]:PORT; port 0: FlowHost::address() tells which
  std::uint32_t producers = 1;          ///< processes with which the flow begins
  std::uint32_t consumers = 1;
  std::uint32_t item_bytes = 0;
  std::uint32_t alignment = 1;  ///< of items: RingShape::alignment
  Flow flow{};                  ///< all but its rings
};

class FlowHost {
 public:
  /// `device` and `control` outlive it. Throws std::invalid_argument for an option that means nothing, and
  /// std::runtime_error if the address cannot be used.
  FlowHost(p4::WiredSwitch& device, FlowSwitch& control, const FlowHostOptions& options);
  FlowHost(const FlowHost&) = delete;
  FlowHost& operator=(const FlowHost&) = delete;
  /// Stops the flow. Units that are in it are told that the switch has gone.
  ~FlowHost();

  /// HOST:PORT, with the actual port.
  [[nodiscard]] std::string address() const;
  /// Serves the switch and the units for so long at most. False: the flow is over: it had begun, all units have left or
  /// died, and no others may join.
  bool serve(std::chrono::nanoseconds at_most);
  [[nodiscard]] bool has_begun() const noexcept;
  /// Throws std::logic_error before the flow has begun.
  [[nodiscard]] FlowState state() const;
  [[nodiscard]] FlowSwitch::FlowId flow() const;
  /// Of an open flow: it ends when its producers have. Before it has begun it closes when it begins.
  void close();
  /// Processes that are in the flow now, or about to join.
  [[nodiscard]] std::uint32_t units() const noexcept;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace sidelatch::flows
