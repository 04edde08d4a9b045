// A simulated machine: its memory and the state of its NIC.
#pragma once

#include "request.h"
#include "requester_queue.h"

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/profile.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::fabric::sim {

class NetworkDevice;
class SimNode;
class World;

/// Profile times as the simulator uses them.
struct NicTimes {
  /// `atom`: that of the rules.
  NicTimes(const Profile& profile, std::uint64_t atom);
  Time doorbell, chain, cqe, request, respond_write, respond_read, respond_atomic, packet, latency, completion;
  Time propagation, qp_miss, slot_service, slot_load, slot_recovery, slot_changed, pcie_read, pcie_write;
  double wire_ps_per_byte;
  std::uint64_t piece_bytes;  ///< of what is sampled or placed whole
  Time piece_gap;             ///< between neighbouring pieces, at the rate of PCIe
  /// Profile::LockTable::slot_of as a shift and a mask.
  unsigned slot_shift;
  std::uint64_t slot_mask;
};

/// What a NIC has received of WRITEs and SENDs and not placed yet. The room is limited, and given in the order of
/// arrival.
class ReceiveBuffer {
 public:
  /// Mellanox's "HowTo Tune Receive Buffers on Mellanox Adapter Cards" shows a port with 262016 bytes. As long as PCIe
  /// is faster than the link and no WRITE stalls, the buffer holds a few KiB.
  static constexpr std::uint64_t kBytes = std::uint64_t{256} * 1024;

  /// When a message that has arrived at `received` has room, then or later: no earlier than the messages before it.
  /// `bytes` of it are not placed yet when it has arrived, and all of it is at `placed`.
  Time admit(Time received, std::uint64_t bytes, Time placed);

 private:
  struct Held {
    Time placed;
    std::uint64_t bytes;
  };
  std::vector<Held> held_;  // a heap: the one that is placed next comes first
  std::uint64_t bytes_ = 0;
  Time admitted_{};
};

/// When each part of a NIC is free again. A part serves in the order of arrival.
struct Nic {
  RequesterQueue requester;
  Time responder_free{};
  Time egress_free{};
  Time ingress_free{};
  ReceiveBuffer receive_buffer;
  /// Rule 2: the last place of all WRITEs whose completion has been given.
  Time completed_writes_placed{};
  std::vector<Time> slot_free;
  std::vector<Time> unit_free;  ///< of those that execute atomics; empty: there is no limit
  std::vector<SimQueuePair*> cached_queue_pairs;
  std::vector<std::size_t> free_cache_slots;
};

/// The processor of a simulated machine; its accesses take no time.
class SimCpu final : public DirectCpu {
 public:
  explicit SimCpu(SimNode& node) noexcept;

 protected:
  void about_to_touch(const LocalSpan& word, bool writes) override;
  void wait_begins(const LocalSpan& word) override;

 private:
  SimNode* node_;
};

class SimNode final : public Node {
 public:
  SimNode(World& world, std::string name, const Profile& node_profile, std::uint32_t index);
  SimNode(const SimNode&) = delete;
  SimNode& operator=(const SimNode&) = delete;
  ~SimNode() override;

  [[nodiscard]] Reactor& reactor() override;
  using Node::connect;
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& target, const QueuePairOptions& options) override;
  using Node::connect_pair;
  [[nodiscard]] std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> connect_pair(
      Node& peer, const QueuePairOptions& options) override;

  void revoke(QueuePair& queue_pair) override;
  [[nodiscard]] Duration cpu_time(CpuWork work, std::uint64_t bytes) const noexcept override;
  /// One of its queue pairs connects to `target`; call it before the first request.
  void expect_answers_of(SimNode& target) noexcept;

  World& world;
  Profile profile;
  NicTimes times;
  Nic nic;
  NetworkDevice* before = nullptr;  ///< what queue pairs that connect to this node pass
  std::vector<Request*> executing;  ///< requests of several pieces between their first and last
  SimCpu* watching = nullptr;       ///< the node's CPU, if anybody has asked for it
  /// Not only answers come here, or not all by ways of one length: each is received when it arrives, which costs an
  /// event.
  bool mixed_arrivals = false;

 protected:
  void place_region(Registration& registration) override;
  void region_removed(Registration& registration, bool in_use) noexcept override;
  [[nodiscard]] std::unique_ptr<Cpu> make_cpu() override;

 private:
  [[nodiscard]] SimNode& of_this_simulation(Node& node, const char* function) const;
  [[nodiscard]] std::uint64_t choose_address(const Registration& registration, std::uint64_t least) const;
  /// Else the offset in a page, which is the host's, determines the slot.
  [[nodiscard]] bool slots_span_pages() const { return profile.lock_table.address_bits > 12; }

  std::uint64_t next_address_;
  std::optional<Time> way_of_answers_;
  std::vector<Registration> live_regions_;  // kept only if slots span pages
};

}  // namespace sidelatch::fabric::sim
