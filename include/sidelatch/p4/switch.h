// A switch that runs a P4 program: ports, ingress, traffic manager, egress.
//
//   p4::Switch device(p4::compile_file("l2.p4"), {.ports = 4});
//   device.state().table("ingress.dmac").add({{.value = 0x0a}}, "forward", {2});
//   device.receive(1, frame);
//   device.run();
//   while (auto departed = device.departed()) { send(departed->port, departed->bytes); }
//
// It does nothing by itself: receive() puts a packet before ingress, step() moves one packet by one stage, and time is
// what set_time() says. So the same calls give the same result, and a copy of the state can be explored. Packets and
// their frames come from a pool; once it is large enough nothing is allocated.
//
// What becomes of a packet follows the documentation of the reference switch ("simple_switch"): after ingress clone,
// then resubmit, multicast, drop or unicast, in this order of precedence; after egress clone, then drop, recirculate or
// departure.
//
// Thread-safety: none; one thread drives a switch.
#pragma once

#include <sidelatch/p4/program.h>
#include <sidelatch/p4/state.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sidelatch::p4 {

/// Why a packet ended in the switch.
enum class Drop : std::uint8_t {
  ingress,           ///< the program said so, in ingress
  egress,            ///< the program said so, in egress
  no_such_port,      ///< egress_spec names no port
  empty_multicast,   ///< the multicast group has no member
  no_clone_session,  ///< the clone's session is not set up
  queue_full,        ///< the queue of its port has no room
  too_long,          ///< longer than a packet may be, on arrival or after the deparser
  assertion,         ///< assert() or assume() did not hold, or a loop went round too often
  bad_icrc,          ///< RoCEv2, and its invariant CRC is wrong on arrival
  bad_priority,      ///< the priority is not 0; as in the reference switch by default, a port has one queue
};
inline constexpr std::size_t kDrops = 10;
[[nodiscard]] std::string_view name(Drop reason) noexcept;

/// Values of the standard metadata's instance_type.
enum class Instance : std::uint8_t {
  normal = 0,
  ingress_clone = 1,
  egress_clone = 2,
  recirculated = 4,
  replicated = 5,
  resubmitted = 6,
};

struct SwitchOptions {
  /// Ports are 0 to ports - 1; at most 511, because 511 as egress_spec means drop.
  std::size_t ports = 511;
  /// Bytes that may wait for one port; 0: any number.
  std::size_t queue_bytes = 0;
  /// Bytes in a port's queue from which on IP packets that can be are marked Congestion Experienced; 0: never.
  std::size_t ecn_bytes = 0;
  /// The longest packet.
  std::size_t packet_bytes = 10'240;
  /// For random().
  std::uint64_t seed = 1;
  /// Treats RoCEv2 packets as a switch that knows their invariant CRC (ICRC): a wrong one on arrival is a drop, and
  /// what the program changes in the headers is put right on departure. The payload's part of the ICRC is never
  /// computed anew, so what is damaged in the switch leaves it as damaged.
  bool icrc = false;
};

struct MulticastMember {
  std::uint16_t rid = 0;
  std::uint16_t port = 0;
};

struct CloneSession {
  std::optional<std::uint16_t> port;
  std::optional<std::uint16_t> group;
};

/// Makes a packet at regular times, as the packet generators of hardware switches do: the way in which a program gets a
/// timer.
struct Generator {
  /// The ingress_port of its packets. Choose one that no wire has, else a program cannot tell them from others.
  std::uint16_t port = 510;
  /// Nanoseconds from one packet to the next, at least 1. Times that set_time() has leapt over give one packet.
  std::uint64_t interval = 0;
  /// With SwitchOptions::icrc the ICRC of a RoCEv2 packet is computed when the generator is set.
  std::vector<std::byte> packet;
  /// Asked as each packet is made, if it is set: the interval from here on; 0: this packet is not made, and the
  /// generator is removed. So a control plane slows down the timer of what is idle. It changes nothing in the switch.
  std::function<std::uint64_t()> pace{};
};

struct Departure {
  std::uint16_t port = 0;
  std::span<const std::byte> bytes;  ///< valid until the next call
};

class Switch {
 public:
  /// Throws ControlError without a program, and for a number of ports that is not 1 to 511.
  explicit Switch(std::shared_ptr<const Program> program, SwitchOptions options = {});
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  [[nodiscard]] const Program& program() const { return *program_; }
  [[nodiscard]] const SwitchOptions& options() const { return options_; }
  [[nodiscard]] State& state() { return state_; }

  /// Copies go to the members in their order. An empty list removes the group. Group 0 is none: ControlError.
  void set_multicast_group(std::uint16_t group, std::vector<MulticastMember> members);
  void set_clone_session(std::uint32_t session, CloneSession clone);

  /// The first packet comes one interval from now on. Throws ControlError for no interval, a port above 510, and a
  /// packet that is empty or too long.
  void set_generator(std::uint32_t number, Generator generator);
  /// Nothing if there is none with this number.
  void remove_generator(std::uint32_t number) noexcept;
  /// When the next packet is due, as set_time() counts; nothing if there are no generators.
  [[nodiscard]] std::optional<std::uint64_t> next_generated() const noexcept;

  [[nodiscard]] std::uint64_t time() const noexcept { return time_; }
  /// Virtual time in nanoseconds; the timestamps that a program sees are in microseconds. Packets of generators that
  /// are due by then arrive.
  void set_time(std::uint64_t nanoseconds) {
    time_ = nanoseconds;
    if (nanoseconds >= due_) {
      generate();
    }
  }

  /// A paused port sends nothing: packets for it wait in its queue. Throws ControlError for a port that the switch does
  /// not have.
  void set_paused(std::uint16_t port, bool paused);

  /// A packet arrives. Throws ControlError for a port that the switch does not have.
  void receive(std::uint16_t port, std::span<const std::byte> packet);
  /// Moves one packet by one stage: 64 in a row through ingress, while there are some, then by turns through ingress
  /// and egress. Returns false if there is nothing to do but for paused ports.
  bool step();
  /// Steps until there is nothing to do, or `most` steps have been taken. Returns whether there is nothing to do.
  bool run(std::size_t most = 1'000'000);
  /// The packet that left longest ago, which departs now; nothing if there is none.
  std::optional<Departure> departed();

  [[nodiscard]] std::uint64_t drops(Drop reason) const { return drops_[static_cast<std::size_t>(reason)]; }
  /// Packets that wait for ingress: those that have arrived, also once more.
  [[nodiscard]] std::size_t arrived() const;
  /// Packets that wait for a port.
  [[nodiscard]] std::size_t queued(std::uint16_t port) const;

 private:
  static constexpr std::uint64_t kNeverDue = ~std::uint64_t{0};
  struct Packet;
  class Fifo;

  struct Generating {
    Generator generator;
    std::uint64_t due = 0;
  };

  void generate();
  void find_due() noexcept;
  void arrive(std::uint16_t port, std::span<const std::byte> bytes);
  Packet* take();
  void give(Packet* packet);
  Packet* copy(const Packet& packet, bool frame);
  void ingress(Packet* packet);
  void egress(Packet* packet);
  void clone_to_egress(const Packet& packet);
  void clone_from_egress(const Packet& packet);
  void place_clone(Packet* clone, const CloneSession& session);
  void multicast(Packet* packet, std::uint64_t group);
  void enqueue(Packet* packet, std::uint64_t port);
  void drop(Packet* packet, Drop reason);
  void again(Packet* packet, Instance instance, int list);
  [[nodiscard]] std::uint64_t get(const Packet& packet, MetadataField field) const;
  void set(Packet& packet, MetadataField field, std::uint64_t value) const;

  std::shared_ptr<const Program> program_;
  SwitchOptions options_;
  State state_;
  std::map<std::uint16_t, std::vector<MulticastMember>> groups_;
  std::map<std::uint32_t, CloneSession> sessions_;
  std::map<std::uint32_t, Generating> generators_;
  std::uint64_t due_ = kNeverDue;  // the earliest of them
  std::uint64_t time_ = 0;
  std::uint64_t random_state_;
  std::array<std::uint64_t, kDrops> drops_{};
  std::vector<std::unique_ptr<Packet>> all_;
  std::vector<Packet*> free_;
  std::unique_ptr<Fifo> arrived_;
  std::vector<Fifo> queues_;
  std::vector<bool> paused_;
  std::size_t queued_ = 0;  // for ports that are not paused
  std::size_t next_queue_ = 0;
  // Ingress goes first, so queues fill as in a switch under load. Each step of egress gives one of ingress back:
  // packets that go round in ingress for ever do not keep the others in their queues.
  static constexpr int kIngressInARow = 64;
  int ingress_credit_ = kIngressInARow;
  std::unique_ptr<Fifo> departed_;
  Packet* departing_ = nullptr;
  std::vector<std::byte> headers_;  // of the deparser
};

}  // namespace sidelatch::p4
