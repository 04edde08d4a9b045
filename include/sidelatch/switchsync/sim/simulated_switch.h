// SimulatedSwitch: a P4 switch between the nodes of a simulation. Requests of the queue pairs that pass it become the
// packets that a NIC would send, the program sees and changes them, and what comes out goes on or back. The NICs' times
// stay those of their profiles.
//
//   SimulatedSwitch between(p4::compile_file("switch_atomics.p4"), switch_timing("tofino"));
//   auto qp = client.connect(storage);
//   between.add(simulation.pass_through(*qp, between), {.client = 0, .client_queue_pair = 17, .target = 4,
//                                                        .target_queue_pair = 18});
//   between.device().state()...                              // the program's control plane
//
// Stations are machines; station i is at port i, and has the addresses mac_of(i) and ip_of(i). The program must know
// them before the first packet. Requests are READs, WRITEs and atomics of one packet. The network loses nothing, so the
// program's answers to repeated packets are never needed here.
//
// Thread-safety: as that of the simulation.
#pragma once

#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/p4/program.h>
#include <sidelatch/p4/switch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sidelatch::switchsync {

/// How long a packet takes from a node to the switch, and through it.
struct SwitchTiming {
  fabric::Duration cable{};
  fabric::Duration latency{};
};

/// "tofino" or "tofino2". The papers give no number for either: 400 ns is what is assumed for both, parser to deparser
/// without a queue, and 15 ns for 3 m of cable. Throws std::invalid_argument with the names that there are.
[[nodiscard]] SwitchTiming switch_timing(std::string_view name);

class SimulatedSwitch final : public fabric::sim::NetworkDevice {
 public:
  /// The two ends of a queue pair, as the packets name them.
  struct Ends {
    std::uint16_t client = 0;  ///< stations
    std::uint32_t client_queue_pair = 0;
    std::uint16_t target = 0;
    std::uint32_t target_queue_pair = 0;
    std::uint32_t first_psn = 0;  ///< of the client's requests
  };

  explicit SimulatedSwitch(std::shared_ptr<const p4::Program> program, const SwitchTiming& timing);

  /// The switch with its state: tables, registers, counters.
  [[nodiscard]] p4::Switch& device() noexcept { return switch_; }
  [[nodiscard]] static std::array<std::uint8_t, 6> mac_of(std::uint16_t station) noexcept;
  [[nodiscard]] static std::array<std::uint8_t, 4> ip_of(std::uint16_t station) noexcept;
  /// `connection`: what Simulation::pass_through() has returned. Throws std::invalid_argument if it is known already,
  /// and for a station above 510.
  void add(std::uint64_t connection, const Ends& ends);
  /// Then it can be added anew. A queue pair that is reconnected begins with a PSN that the program must learn, too:
  /// remove(), what its control plane does for an ended connection and a new one, add(). Throws std::invalid_argument.
  void remove(std::uint64_t connection);

  [[nodiscard]] fabric::Duration cable() const override { return timing_.cable; }
  [[nodiscard]] fabric::Duration latency() const override { return timing_.latency; }
  /// The program may answer, drop or refuse a request, and change its payload. A request that leaves with another
  /// address or length is refused, as the target's NIC would. Throws std::invalid_argument for a request that is not
  /// one packet, or of a queue pair that add() does not know, and std::logic_error for what it cannot carry out:
  /// another opcode, other operands, two packets for one. Packets for other ports are lost.
  [[nodiscard]] Verdict request(Message& message) override;
  /// Throws std::logic_error if the program drops the answer: the simulated network loses nothing.
  void answer(Message& message) override;

 private:
  struct Connection {
    Ends ends;
    std::uint32_t next_psn = 0;
  };
  [[nodiscard]] std::optional<std::uint16_t> run(const Ends& ends);  // to left_, for that port
  [[nodiscard]] Connection& connection_of(const Message& message);
  [[nodiscard]] std::span<const std::byte> encode_request(const Message& message, const Connection& connection);
  [[nodiscard]] std::span<const std::byte> encode_answer(const Message& message, const Connection& connection);

  SwitchTiming timing_;
  p4::Switch switch_;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::vector<std::byte> frame_;
  std::vector<std::byte> left_;  // what has left the switch
};

}  // namespace sidelatch::switchsync
