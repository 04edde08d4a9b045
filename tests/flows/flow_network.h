// Units at a switch that runs p4/zero_sided.p4: software NICs in one thread, links that lose, repeat and reorder.
#pragma once

#include "tests/switchsync/switched_nics.h"

#include <sidelatch/flows/flow_switch.h>
#include <sidelatch/flows/ring.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::flows {

struct FlowNetworkOptions {
  std::size_t producers = 1;  ///< hosts; with a shuffle each has a ring for each consumer
  std::size_t consumers = 1;  ///< hosts
  FlowKind kind = FlowKind::shuffle;
  RingShape producer_shape{.slots = 8, .item_bytes = 100};
  RingShape consumer_shape{.slots = 8, .item_bytes = 100};
  std::uint32_t path_mtu = 256;
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;
  std::chrono::microseconds time_out = std::chrono::microseconds(100);
  std::uint32_t most_retries = 0;
  std::chrono::nanoseconds idle_interval = std::chrono::milliseconds(1);
  std::uint32_t first_count = 0;
  std::optional<std::uint32_t> first_psn{};  ///< of all connections
  std::uint8_t dest_rd_atomic = 4;           ///< READs that a unit's NIC answers at a time
  softnic::nic::WireFaults faults{};
  std::uint64_t seed = 1;
  /// NICs touch memory when and in the order that the memory model's preset `observed` allows, else at once.
  bool defers = false;
  /// The preset is `relaxed`, and items need not be right.
  bool is_relaxed = false;
  bool rings = false;  ///< units ring when they shall
  bool is_open = false;
  std::size_t ecn_bytes = 0;  ///< of a port's queue, from which on the switch marks packets; 0: never
  std::chrono::nanoseconds poll_interval = std::chrono::microseconds(5);
  softnic::nic::Time begins_at = 0;  ///< how long the switch has been there by then
};

/// So long that nothing comes by polls.
inline constexpr softnic::nic::Time kRarePoll = 10'000'000;

/// Units that ring at a switch that polls rarely, with small rings.
[[nodiscard]] inline FlowNetworkOptions ringing(FlowKind kind, std::size_t producers, std::size_t consumers) {
  return {.producers = producers,
          .consumers = consumers,
          .kind = kind,
          .producer_shape = {.slots = 4, .item_bytes = 300},
          .consumer_shape = {.slots = 4, .item_bytes = 300},
          .rings = true,
          .poll_interval = std::chrono::nanoseconds(kRarePoll)};
}

/// An item: its producer and its number, and bytes that follow from both.
struct ItemName {
  std::uint16_t producer = 0;
  std::uint32_t number = 0;
  friend bool operator==(const ItemName&, const ItemName&) = default;
};

class FlowNetwork : public switchsync::SwitchedNics {
 public:
  FlowNetwork(std::shared_ptr<const p4::Program> program, const FlowNetworkOptions& options);

  [[nodiscard]] FlowSwitch& control() { return *control_; }
  [[nodiscard]] FlowSwitch::FlowId flow() const { return flow_; }
  [[nodiscard]] FlowState state() { return control_->state(flow_); }
  /// Ring i as Flow::producers counts.
  [[nodiscard]] Producer& producer(std::size_t i) { return *producers_.at(i); }
  [[nodiscard]] Consumer& consumer(std::size_t i) { return *consumers_.at(i); }
  /// The head in consumer i's memory, without marks; the first ring of its host.
  [[nodiscard]] std::uint32_t head_of(std::size_t i);
  [[nodiscard]] std::size_t rings() const { return producers_.size(); }
  [[nodiscard]] std::size_t consumers() const { return consumers_.size(); }
  [[nodiscard]] std::size_t host_of_consumer(std::size_t i) const { return hosts_of_consumers_.at(i); }
  [[nodiscard]] std::size_t host_of_ring(std::size_t i) const { return hosts_of_rings_.at(i); }
  [[nodiscard]] const FlowNetworkOptions& options() const { return options_; }

  [[nodiscard]] std::vector<std::byte> item(const ItemName& name) const;
  /// Pushes item number pushed() of this ring. False: it is full.
  bool push(std::size_t ring);
  /// Pops one, and checks its bytes: a wrong one fails the test, or is counted. Nothing if there is none.
  std::optional<ItemName> pop(std::size_t consumer);
  [[nodiscard]] std::uint32_t wrong_items() const { return wrong_items_; }
  /// Pushes `items` to each ring and ends them, and pops everything until all consumers have ended or are broken. Each
  /// consumer's items in their order.
  std::vector<std::vector<ItemName>> move(std::uint32_t items);
  /// Removes the unit's queue pair: its NIC does not answer any more.
  void kill_ring(std::size_t ring);
  void kill_consumer(std::size_t consumer);
  /// Ends the flow and all queue pairs, whatever is on its way, and begins another flow in the same memory.
  void start_anew();
  /// The switch stops as it is, and another one takes the flow over. `had_another_producer`: one that was lost, and
  /// that a take-over before has left out of the list.
  void fail_over(bool had_another_producer = false);
  /// Another producer joins the flow, on a new ring of the same host as `like`; in a shuffle as many rings as it needs.
  /// Returns its first ring.
  std::size_t join_producer(std::size_t like);
  /// A ring behind a new connection.
  void rejoin_producer(std::size_t ring);
  /// Another consumer joins, on the host of consumer `like`.
  std::size_t join_consumer(std::size_t like);
  /// Empty messages that units have sent and the switch has acknowledged.
  [[nodiscard]] std::uint64_t bells() const { return bells_; }
  void count_bells();
  [[nodiscard]] const FlowRing& connection_of_consumer(std::size_t i) const { return flow_options_.consumers.at(i); }
  [[nodiscard]] const SwitchAddress& own() const { return own_; }
  /// The unit rings, whether it shall or not.
  void ring_of_producer(std::size_t ring) { ring_bell(producer_pairs_.at(ring), ring % 2 == 0); }
  void ring_of_consumer(std::size_t consumer) { ring_bell(consumer_pairs_.at(consumer), false); }

 private:
  void start();
  FlowRing connect(std::size_t host, const RingShape& shape, softnic::nic::QueuePair*& pair);
  FlowRing connect_memory(std::size_t host, const RingShape& shape, std::size_t offset, softnic::nic::QueuePair*& pair);
  void ring_bell(softnic::nic::QueuePair* pair, bool sends);
  FlowNetworkOptions options_;
  std::vector<std::size_t> used_;  // bytes of each host's memory
  std::optional<FlowSwitch> control_;
  std::vector<std::optional<Producer>> producers_;
  std::vector<std::optional<Consumer>> consumers_;
  std::vector<softnic::nic::QueuePair*> producer_pairs_;
  std::vector<softnic::nic::QueuePair*> consumer_pairs_;
  std::vector<std::uint32_t> pushed_;
  std::vector<std::size_t> hosts_of_rings_;
  std::vector<std::size_t> hosts_of_consumers_;
  Flow flow_options_;
  SwitchAddress own_{};
  std::uint64_t bells_ = 0;
  FlowSwitch::FlowId flow_ = 0;
  std::uint32_t wrong_items_ = 0;
};

/// `done` comes long before the next poll of a flow that is polled rarely, or the test fails.
void expect_soon(FlowNetwork& network, const std::function<bool()>& done);
/// Lets so much time pass.
void pass(FlowNetwork& network, softnic::nic::Time time);
/// Pops what there is, and is true when so many have been popped in all.
[[nodiscard]] std::function<bool()> pops(FlowNetwork& network, std::size_t consumer, std::uint32_t wanted);

/// What is wrong with the items that arrived: lost, twice, or out of order; empty if nothing is. `items`: pushed to
/// each ring, of which `lost_rings` may be incomplete at their ends.
[[nodiscard]] std::string judge(const std::vector<std::vector<ItemName>>& arrived, std::size_t rings,
                                std::uint32_t items, const std::vector<std::size_t>& lost_rings = {});

}  // namespace sidelatch::flows
