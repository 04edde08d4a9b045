// Switches with their control planes in a simulation, for the schemes that need them.
//
//   TuplesAtSwitch between(world, storage);                       // optimistic/switch (sync/switched_version.h)
//   between.add(memory.remote(), layout);
//   auto qp = client.connect(storage);                            // passes the switch
//   SessionOptions options{.versions_at_switch = true};
//
//   WordsAtSwitch words(world, storage, memory.remote(), 256);    // latch-switch (sync/switch_latch.h)
//   auto latches = words.connect(client);                         // as SessionOptions::latches
//
// Both must be made before the first client connects, and stay as long as the simulation runs.
//
// Thread-safety: as that of the simulation.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/switchsync/optimistic_switch.h>
#include <sidelatch/switchsync/sim/simulated_switch.h>
#include <sidelatch/switchsync/word_switch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace sidelatch::switchsync {

/// p4/switch_optimistic.p4, compiled, before a memory node.
class TuplesAtSwitch final : public fabric::sim::NetworkDevice {
 public:
  TuplesAtSwitch(fabric::sim::Simulation& world, fabric::Node& storage);

  /// `count` tuples, the first at `memory`'s beginning, each at the beginning of a slot. The memory is zeroed and was
  /// never used. Throws as OptimisticSwitch::add_tuples(). Returns the number of the first tuple.
  std::uint32_t add(const fabric::RemoteSpan& memory, std::uint64_t count, std::uint64_t tuple_bytes,
                    std::uint64_t slot_bytes);
  [[nodiscard]] OptimisticSwitch& control() noexcept { return control_; }
  /// Of a queue pair that passes. Throws std::out_of_range.
  [[nodiscard]] OptimisticSwitch::ConnectionId connection(std::uint64_t number) const {
    return connections_.at(number).at_switch;
  }
  /// Numbers of all queue pairs that have passed, in their order.
  [[nodiscard]] std::vector<std::uint64_t> numbers() const;

  /// A queue pair that has reconnected is a new connection for the switch: what the old one held is released; what is
  /// in doubt then stays latched (OptimisticSwitch::give_latch()).
  void connected(std::uint64_t connection, const fabric::Node& from) override;
  [[nodiscard]] fabric::Duration cable() const override { return between_.cable(); }
  [[nodiscard]] fabric::Duration latency() const override { return between_.latency(); }
  [[nodiscard]] Verdict request(Message& message) override { return between_.request(message); }
  void answer(Message& message) override { between_.answer(message); }

 private:
  struct Connection {
    OptimisticSwitch::ConnectionId at_switch = 0;
    std::uint32_t queue_pair = 0;
  };

  SimulatedSwitch between_;
  OptimisticSwitch control_;
  std::uint32_t path_mtu_ = 1024;
  std::uint32_t queue_pairs_ = 0;
  std::map<const fabric::Node*, std::uint16_t> stations_;
  std::map<std::uint64_t, Connection> connections_;
};

/// p4/switch_atomics.p4, compiled, or another form of it: a latch for every `granule` bytes of a memory node's region.
class WordsAtSwitch final : public fabric::sim::NetworkDevice {
 public:
  /// Throws std::invalid_argument if the region needs more words than the switch has.
  WordsAtSwitch(fabric::sim::Simulation& world, fabric::Node& storage, const fabric::RemoteSpan& memory,
                std::uint64_t granule, std::shared_ptr<const p4::Program> program = nullptr);

  /// A queue pair of the node whose other end is the switch.
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(fabric::Node& client);
  /// All words.
  [[nodiscard]] fabric::RemoteSpan words() const noexcept;
  /// The latch of the object whose record is at that address.
  [[nodiscard]] std::uint64_t word(fabric::RemoteAddress record) const;
  [[nodiscard]] WordSwitch& control() noexcept { return control_; }

  /// A queue pair that has reconnected is a new connection for the switch.
  void connected(std::uint64_t connection, const fabric::Node& from) override;
  [[nodiscard]] fabric::Duration cable() const override { return between_.cable(); }
  [[nodiscard]] fabric::Duration latency() const override { return between_.latency(); }
  [[nodiscard]] Verdict request(Message& message) override { return between_.request(message); }
  void answer(Message& message) override { between_.answer(message); }

 private:
  fabric::sim::Simulation* world_;
  fabric::Node* storage_;
  fabric::RemoteSpan memory_;
  std::uint64_t granule_;
  SimulatedSwitch between_;
  WordSwitch control_;
  std::map<const fabric::Node*, std::uint16_t> stations_;
  std::map<std::uint64_t, WordSwitch::ConnectionId> connections_;
  std::uint32_t queue_pairs_ = 0;
};

}  // namespace sidelatch::switchsync
