// FlowSimulation: zero-sided flows in virtual time: p4/zero_sided.p4 as the switch, units with the NICs of a profile,
// and links with a rate and a length.
//
//   FlowSimulation world(load_profile("connectx5"), {.cable_ns = 15, .switch_ns = 400}, 2);
//   const FlowRing from = world.add_ring(0, shape, world.control().new_end());
//   const FlowRing to = world.add_ring(1, shape, world.control().new_end());
//   Producer producer(world.memory(from), shape);
//   world.set_unit(0, [&](std::uint64_t now) { push what is due by `now` });
//   world.control().start({.producers = {from}, .consumers = {to}, .path_mtu = 4096});
//   world.run_until(2'000'000);
//
// The packets are real: units answer by the software NIC's state machine, and the switch runs the compiled program.
// What is simulated is time:
// - a link carries one packet after the other at the profile's link.gbps, from a NIC to the switch and from the switch
// to
//   a NIC; a packet must have arrived before it is handled;
// - the switch takes switch_ns for each time that a packet passes its ingress: a resubmitted one passes again;
// - a bell leaves a NIC nic.doorbell_ns after it was rung;
// - a NIC handles one request after the other, nic.respond_ns each; nic.latency_ns passes in each direction, and
//   pcie.read_ns or pcie.write_ns until memory is reached.
// Nothing is lost, and the processors of units take no time but what the caller makes of it.
//
// Thread-safety: none. The same calls give the same times.
#pragma once

#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/flows/flow_switch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace sidelatch::flows {

struct FlowSimulationTiming {
  double cable_ns = 0;   ///< from a NIC to the switch
  double switch_ns = 0;  ///< from the switch's parser to its deparser
};

class FlowSimulation {
 public:
  /// Unit i is at port i. At most 254 units. Throws std::invalid_argument.
  FlowSimulation(const fabric::sim::Profile& profile, const FlowSimulationTiming& timing, std::size_t units);
  FlowSimulation(const FlowSimulation&) = delete;
  FlowSimulation& operator=(const FlowSimulation&) = delete;
  ~FlowSimulation();

  [[nodiscard]] FlowSwitch& control() noexcept;
  // What names a unit that is not there throws std::out_of_range.

  /// A cleared ring in new memory of this unit, and its connection. The path MTU is 4096.
  FlowRing add_ring(std::size_t unit, const RingShape& shape, const SwitchEnd& end);
  /// Of a ring that add_ring() has returned.
  [[nodiscard]] static std::span<std::byte> memory(const FlowRing& ring) noexcept;
  /// Called with the time, in nanoseconds, before and after the unit's NIC touches memory: what the unit's processor
  /// has done by then, it does now.
  void set_unit(std::size_t unit, std::function<void(std::uint64_t now)> processor);
  /// Calls the unit's processor at that time, too: for what depends on when it acts, as bells do.
  void call_unit(std::size_t unit, std::uint64_t nanoseconds);
  /// The unit rings: an empty SEND on the ring's connection. It leaves nic.doorbell_ns later. From within set_unit()'s
  /// function only. Throws std::invalid_argument if the unit has no such queue pair.
  void ring(const FlowRing& ring);
  /// Runs until that time, or until `done` says so, which is asked after each event.
  void run_until(std::uint64_t nanoseconds, const std::function<bool()>& done = {});
  [[nodiscard]] std::uint64_t now() const noexcept;

 private:
  class World;
  std::unique_ptr<World> world_;
};

}  // namespace sidelatch::flows
