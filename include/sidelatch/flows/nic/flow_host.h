// FlowHost: a flow of a switch that runs in this process. Other processes join it by its address (flow_unit.h).
//
//   p4::WiredSwitch device(zero_sided_program(), {.ports = {p4::parse_port("0=shm:a"), p4::parse_port("1=shm:b")}});
//   FlowSwitch control(device.device(), {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}});
//   FlowHost host(device, control, {.address = "127.0.0.1:18517", .item_bytes = 64});
//   while (host.serve(std::chrono::milliseconds(10))) {
//   }
//
// Guarantees:
// - The flow begins when so many producers and consumers as FlowHostOptions says have connected their rings, and not
//   before. If the switch refuses the flow then, its units are told why, and others may try.
// - If it is open (Flow::is_open) others may join later, as FlowSwitch::join_producer() and join_consumer() say, until
//   close().
// - A unit that dies before the flow begins makes room for another one, and so does one that has not connected its
// rings
//   after 30 seconds.
// - A unit that dies later is not counted by units() any more, as soon as its connection ends. The flow learns of it
// from
//   its NIC alone: the switch gives it up after Flow::most_retries requests, and with 0 of them never. What its process
//   held at the switch is given back when the flow is stopped.
// - A unit whose process lives, and whose NIC is given up, is not told, and is counted on.
// Whoever reaches the address may join: there is no password. Of those that have said nothing yet 256 are kept.
//
// Thread-safety: none; the thread that drives the switch calls it. Nothing blocks but serve(), as long as it is told
// to, and the constructor, if the address is a name.
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
  std::uint32_t producers = 1;          ///< processes with which the flow begins, one at least
  std::uint32_t consumers = 1;          ///< the same
  std::uint32_t item_bytes = 0;         ///< of each ring: a unit with another size is refused
  std::uint32_t alignment = 1;          ///< of items: RingShape::alignment
  /// All but its rings and Flow::first_count, which is 0. What FlowSwitch::start() refuses of it shows when the flow
  /// would begin.
  Flow flow{};
};

class FlowHost {
 public:
  /// `device` and `control` outlive it. Throws std::invalid_argument for an address that is none, for no producers or
  /// consumers, for a wrong size or alignment, and for a Flow with rings or a first_count; and std::runtime_error if
  /// the address cannot be used.
  FlowHost(p4::WiredSwitch& device, FlowSwitch& control, const FlowHostOptions& options);
  FlowHost(const FlowHost&) = delete;
  FlowHost& operator=(const FlowHost&) = delete;
  /// Stops the flow, unless its owner has. Units that are in it are told that the switch has gone: their connections
  /// end.
  ~FlowHost();

  /// HOST:PORT, with the actual port.
  [[nodiscard]] std::string address() const;
  /// Serves the switch and the units for so long, and once at least. False, at once: the flow is over: it had begun,
  /// all units have left or died, and no others may join. That says nothing of FlowState::has_ended.
  bool serve(std::chrono::nanoseconds at_most);
  [[nodiscard]] bool has_begun() const noexcept;
  /// Throws std::logic_error before the flow has begun, and std::invalid_argument when its owner has stopped it.
  [[nodiscard]] FlowState state() const;
  /// Throws std::logic_error before the flow has begun.
  [[nodiscard]] FlowSwitch::FlowId flow() const;
  /// Of an open flow: no others may join, and it ends when its producers have. Before it has begun it closes when it
  /// begins. Throws std::invalid_argument when the flow's owner has stopped it.
  void close();
  /// Processes that are in the flow now, or about to join: their connections live.
  [[nodiscard]] std::uint32_t units() const noexcept;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace sidelatch::flows
