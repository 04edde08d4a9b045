// FlowSwitch: the control plane of p4/zero_sided.p4. It sets flows up and ends them; while they run it sets the
// timers: slow ones for idle flows, and those that limit rates.
//
//   p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
//   FlowSwitch control(device, {.mac = switch_mac, .ip = switch_ip});
//   const SwitchEnd a = control.new_end();
//   const SwitchEnd b = control.new_end();
//   ... the producer's queue pair is connected to (switch_ip, a.queue_pair), and expects a.psn first;
//       so is the consumer's to b ...
//   const FlowRing from{.mac = mac1, .ip = ip1, .port = 0, .queue_pair = 17, .end = a, .rkey = rkey1,
//                       .address = address1, .shape = shape};
//   const FlowRing to{.mac = mac2, .ip = ip2, .port = 1, .queue_pair = 18, .end = b, .rkey = rkey2,
//                     .address = address2, .shape = shape};
//   const auto flow = control.start({.producers = {from}, .consumers = {to}});
//   ... Producer and Consumer (ring.h) ...
//   control.stop(flow);
//
// Of a unit's queue pair: a reliable connection, with the rights of remote READ and WRITE and a max_dest_rd_atomic of 1
// at least. One for each ring. All have the flow's path MTU. The unit posts nothing on it but bells, if it likes: empty
// SENDs or WRITEs, which wake an idle flow at once (Producer::shall_ring()); the first one has PSN 0.
//
// Guarantees, whatever the network loses, repeats or reorders: each item reaches a consumer, once and whole; a
// consumer gets the items of one producer in their order; an item is not overwritten before it was popped, nor popped
// before it is there. docs/flows.md says what a unit that dies changes, and what memory may do.
//
// Thread-safety: that of p4::Switch; the thread that drives the switch calls it.
#pragma once

#include <sidelatch/flows/ring.h>
#include <sidelatch/p4/switch.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sidelatch::flows {

using MacAddress = std::array<std::uint8_t, 6>;
using Ipv4Address = std::array<std::uint8_t, 4>;

/// The switch's end of a connection.
struct SwitchEnd {
  std::uint32_t queue_pair = 0;
  std::uint32_t psn = 0;  ///< of the first packet that the switch sends
};

/// The addresses that the switch has as an end of connections. No station has them. The switch answers ARP requests.
struct SwitchAddress {
  MacAddress mac{};
  Ipv4Address ip{};
};

/// A ring in a unit's memory, and the connection to it.
struct FlowRing {
  MacAddress mac{};
  Ipv4Address ip{};
  std::uint16_t port = 0;  ///< of the switch
  std::uint32_t queue_pair = 0;
  SwitchEnd end{};
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;  ///< as the unit's NIC knows it, a multiple of 4: where the ring's memory begins
  RingShape shape{};
};

enum class FlowKind : std::uint8_t {
  /// Each consumer has producers' rings of its own: with one of each, 1:1. With M consumers, ring number i of
  /// `producers` leads to consumer i % M: a unit that pushes by key has M rings in a row.
  shuffle,
  /// Each item goes to any one of the consumers: a faster one gets more.
  balance,
  /// Each item goes to every consumer, at most 32, and all get all items in the same order. No consumer sees an item
  /// before all NICs have acknowledged it. Their rings have the same number of slots, alignment and byte order, and
  /// ends of one new_ends().
  replicate,
};

struct Flow {
  FlowKind kind = FlowKind::shuffle;
  std::vector<FlowRing> producers{};
  std::vector<FlowRing> consumers{};
  std::uint32_t path_mtu = 1024;                       ///< 256, 512, 1024, 2048 or 4096
  std::uint64_t batch_bytes = std::uint64_t{4} << 20;  ///< the most that moves at once, to 2^30; at least one item does
  std::chrono::nanoseconds poll_interval = std::chrono::microseconds(10);  ///< of an idle consumer; 10 minutes at most
  /// After 1 000 polls in vain the interval doubles from poll to poll, up to this one, until an item has moved: an idle
  /// flow burns no core, and its first item waits so long at most. If it is not longer than poll_interval, that one
  /// stays. 10 minutes at most.
  std::chrono::nanoseconds idle_interval = std::chrono::milliseconds(1);
  /// Until a request is repeated, 0 to 2^28 us. It must be longer than 16 packets and their answers take. While data
  /// comes it begins anew. The second repetition comes after twice this time, the third after four times, all others
  /// after eight times.
  std::chrono::microseconds time_out = std::chrono::milliseconds(5);
  /// How often a request is repeated before the unit is given up, at most 65 535 times: by default for five seconds. 0:
  /// for ever. docs/flows.md says when others wait for a silent unit so long.
  std::uint32_t most_retries = 125;
  std::uint32_t first_count = 0;  ///< heads and tails when the flow starts, 0 to 2^30 - 1
  bool is_open = false;           ///< units may join it, and it does not end before close()
};

struct FlowState {
  bool has_ended = false;  ///< all producers have ended, and all consumers that live know it, at least one
  bool is_broken = false;  ///< a unit was given up
  std::vector<std::uint32_t> delivered{};  ///< the head of each consumer's ring; if replicated, one for all
  std::vector<std::uint32_t> taken{};      ///< the tail of each producer's ring
  std::vector<bool> lost_producers{};      ///< those that were given up, as `taken`
  std::vector<bool> lost_consumers{};      ///< those that were given up, in their order
  std::vector<bool> left_consumers{};      ///< those that leave_consumer() named
  /// One was given up that a take_over() since has left out of its list.
  bool has_lost_earlier_producer = false;
  bool has_lost_earlier_consumer = false;
  /// The most items of a batch at present, of each consumer; if replicated, one for all. It begins with 64 KiB; a
  /// packet that is lost halves it, and a batch without losses doubles it, up to Flow::batch_bytes.
  std::vector<std::uint32_t> batch_items{};
  /// Of the rate that there was without congestion, as batch_items: 1, or less since consumers' NICs told of some.
  std::vector<double> rate_shares{};
};

/// p4/zero_sided.p4, compiled.
[[nodiscard]] std::shared_ptr<const p4::Program> zero_sided_program();

class FlowSwitch {
 public:
  /// A device's flows have different ones, also those of FlowSwitches that it had before.
  using FlowId = std::uint64_t;

  /// Throws p4::ControlError if the device runs another program, and std::invalid_argument if it does not mend ICRCs
  /// (SwitchOptions::icrc) or has a FlowSwitch. The device must outlive this object. Of the device belong to it: the
  /// generators 0 to 2047, the multicast groups 0x8000 to 0x87ff, the clone sessions 1 to 511, and all tables and
  /// registers of the program.
  FlowSwitch(p4::Switch& device, const SwitchAddress& own);
  FlowSwitch(const FlowSwitch&) = delete;
  FlowSwitch& operator=(const FlowSwitch&) = delete;
  /// Stops all flows, and takes all that it has set out of the device.
  ~FlowSwitch();

  [[nodiscard]] const SwitchAddress& address() const noexcept { return own_; }
  /// Frames for this address that are not for the switch itself leave at the port.
  void add_station(const MacAddress& mac, std::uint16_t port);
  /// A queue pair number that no flow has had, for one ring, and a PSN at random: what is still on its way between
  /// other ends has other ones. Throws p4::ControlError when there are none.
  SwitchEnd new_end();
  /// The same, with one PSN: for the consumers of a replicated flow, which get copies of the same packets.
  std::vector<SwitchEnd> new_ends(std::size_t count);
  /// Call it when the rings are cleared (their counters are Flow::first_count) and the units' queue pairs can receive.
  /// Throws std::invalid_argument that names the field and its value, and p4::ControlError if the switch has no room;
  /// nothing is changed then.
  FlowId start(const Flow& flow);
  /// Instead of start(): goes on with a flow that another switch has moved until now, exactly where that one stopped,
  /// whatever it was about to do. First that switch must be cut off: end the units' queue pairs, then read their rings
  /// (Ring::state()), then connect new queue pairs with this switch, at another address than the other one's. The rings
  /// are those with which the flow was started, in that order, and so are their states. Units that have died are left
  /// out only at the end of the lists of a balanced or a replicated flow. `before`: the latest that state() said of the
  /// flow there. Units that were given up since then, and live, are not known to be: their items may come twice or, to
  /// a consumer of a replicated flow, be missing. A leave that had not ended is to be asked for again. Throws as
  /// start(), and std::invalid_argument for counters that cannot be those of this flow.
  FlowId take_over(const Flow& flow, const std::vector<RingState>& producers, const std::vector<RingState>& consumers,
                   const FlowState& before = {});
  /// From now on the switch moves at most so many bytes of items a second to each consumer, on average over some
  /// batches; 0: no limit, as in the beginning. If replicated: so many of each copy. It may be called at any time, and
  /// units notice nothing else: what waits is seen at once, and what has moved by then is paid for once, at the
  /// rate of its time or at the new one, whichever is higher. A batch moves at the speed of the network, and the next
  /// one begins when it is done and paid for. So a low rate wants a low Flow::batch_bytes. Throws std::invalid_argument
  /// if there is no such flow.
  void limit_rate(FlowId flow, std::uint64_t bytes_per_second);
  /// Adds a producer to an open flow that runs: a ring, or in a shuffle one for each consumer, in their order. Returns
  /// the number of the first one in Flow::producers and FlowState::taken. It leaves by Producer::end(). If a consumer
  /// of a shuffle has died, its ring for that one is told so. Throws as start(), and std::invalid_argument if the flow
  /// is not open.
  std::size_t join_producer(FlowId flow, const std::vector<FlowRing>& rings);
  /// A producer that was given up comes back: its ring, as it is, behind a new connection. What was not delivered will
  /// be, once. Throws as join_producer(), and std::invalid_argument if the producer was not given up.
  void rejoin_producer(FlowId flow, std::size_t producer, const FlowRing& ring);
  /// Adds a consumer to an open flow that balances; its ring's counters are Flow::first_count. Returns its number.
  /// Throws as join_producer(), and std::invalid_argument for other kinds of flows.
  std::size_t join_consumer(FlowId flow, const FlowRing& ring);
  /// A consumer gets no more items than those on their way to it. If the flow balances it is told the end behind them;
  /// FlowState::delivered is final when it has been. If the flow replicates it is told nothing, and its number remains.
  /// Throws std::invalid_argument for the last consumer of a flow that is not open, and for a shuffle.
  void leave_consumer(FlowId flow, std::size_t consumer);
  /// An open flow ends when all its producers have. Once is enough. If all its consumers have left, producers that have
  /// not been seen to end are told that the flow is broken.
  void close(FlowId flow);
  /// The switch forgets the flow. What it has sent may still happen: end the units' queue pairs before their memory is
  /// used for something else. Throws std::invalid_argument if there is no such flow.
  void stop(FlowId flow);
  /// Whether there is this flow: it was started, and not stopped.
  [[nodiscard]] bool has(FlowId flow) const noexcept;
  /// Throws std::invalid_argument if there is no such flow.
  [[nodiscard]] FlowState state(FlowId flow) const;

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};
  // What a thread whose rate is limited has moved, and not paid for by waiting.
  struct Debt {
    double items = 0;        // less than 0: a credit
    double older = 0;        // items that moved under earlier limits; they are paid for first
    double older_ns = 0;     // what each of them cost then
    std::uint32_t head = 0;  // of its consumer: what it counts up to there
    std::uint64_t at = 0;    // the device's time, up to which it has waited
  };
  // Which of a flow's threads that cannot go on call others, while a producer is put aside.
  struct Calls {
    std::uint16_t last_over = 0;  // the thread that has ended last: its timer calls for all that are over
    std::uint64_t next_turn = 0;  // the device's time, up to which those that pause have shared out their turns
  };
  struct Thread {
    std::uint16_t number = 0;
    std::uint16_t own = 0;              // its own number + 1 among the threads of flows that are not 1:1; else 0
    p4::EntryHandle entry = 0;          // in `threads`
    std::vector<p4::U128> arguments{};  // of it
    std::vector<p4::EntryHandle> members{};
    std::vector<std::size_t> producers{};  // of each member, in Running::producers; kNobody: it has left
    // Of each member its own number; its timer reads them, too.
    std::shared_ptr<std::vector<std::uint16_t>> own_producers = std::make_shared<std::vector<std::uint16_t>>();
    std::shared_ptr<Debt> debt = std::make_shared<Debt>();  // its timer's, too: it outlives each limit and each timer
    bool leaves = false;
  };
  struct Member {
    std::uint32_t number = 0;  // in the switch
    std::uint16_t own = 0;     // as Thread's
    bool is_there = true;      // else the switch has forgotten it
    std::uint32_t taken = 0;   // then
    bool was_lost = false;     // then
    std::vector<std::pair<p4::TableState*, p4::EntryHandle>> entries{};
  };
  struct Running {
    FlowId id = 0;
    Flow flow{};  // all rings that it has had
    std::vector<Thread> threads{};
    std::vector<std::uint32_t> consumers{};  // numbers
    std::vector<Member> producers{};
    std::uint32_t left = 0;                  // bits of a replicated flow's consumers
    bool has_lost_earlier_producer = false;  // FlowState
    bool has_lost_earlier_consumer = false;
    std::uint32_t most_items = 0;  // of a batch
    std::uint32_t stride = 0;      // of items
    std::uint64_t bytes_per_second = 0;
    std::shared_ptr<Calls> calls = std::make_shared<Calls>();  // its timers', too
    std::vector<std::pair<p4::TableState*, p4::EntryHandle>> entries{};
  };
  void add_own(const char* table, p4::U128 key, const char* action, p4::U128 argument);
  void check(const Flow& flow, std::size_t known_producers, std::size_t known_consumers) const;
  static void check_apart(const Flow& flow, const std::vector<bool>& gone_producers = {},
                          const std::vector<bool>& gone_consumers = {});
  void check_connections(const Flow& flow, std::size_t first_producer, std::size_t first_consumer) const;
  FlowId begin(const Flow& flow);
  void install(Running& running);
  void resume(Running& running, const std::vector<RingState>& producers, const std::vector<RingState>& consumers,
              const FlowState& before);
  std::size_t install_producer(Running& running, const FlowRing& ring);
  void install_ring(Running& running, std::size_t producer, const FlowRing& ring, p4::State& state);
  void install_thread(Running& running, std::size_t first, std::size_t count);
  p4::MulticastMember install_consumer(Running& running, std::size_t consumer, std::size_t first, std::uint16_t thread);
  void add_member(Thread& thread, std::size_t producer, const Member& member);
  void link_threads(Running& running);
  void tell(const Thread& thread);
  void use_ends(const std::vector<FlowRing>& rings);
  [[nodiscard]] std::vector<std::size_t> replaceable_producers(const Running& running, std::size_t rings) const;
  void forget_producer(Running& running, std::size_t producer);
  void tell_joined(const Running& running, std::size_t first);
  void count_living(Running& running);
  [[nodiscard]] bool have_all_ended(const Running& running) const;
  [[nodiscard]] bool were_told(const Running& running, std::size_t end) const;
  void let_tell(const Running& running, const Thread& thread);
  void look_anew(const Thread& thread);
  void let_ask(const Running& running, std::uint16_t thread);
  [[nodiscard]] std::uint32_t microseconds() const;
  void remove(Running& running) noexcept;
  void remove(Member& member) noexcept;
  // `is_awaited`: the first tick comes at once, or when what has moved is paid for.
  void set_timer(const Running& running, const Thread& thread, bool is_awaited = false);
  void wake(const Running& running, const Thread& thread);
  // `first`: until the first tick, in nanoseconds.
  [[nodiscard]] std::function<std::uint64_t()> pace_of(const Running& running, const Thread& thread,
                                                       std::uint64_t first) const;
  // What an item costs, in nanoseconds; 0: no limit.
  [[nodiscard]] static double cost_of_item(const Running& running, const Thread& thread);
  void settle(const Running& running, const Thread& thread) const;
  static std::int32_t settle(Debt& debt, std::uint32_t head, double passed_ns, double item_ns);
  [[nodiscard]] static double owed_ns(const Debt& debt, double item_ns);
  [[nodiscard]] const Running& find(FlowId flow, const char* what) const;
  [[nodiscard]] Running& find_running(FlowId flow, const char* what);
  [[nodiscard]] Running& find_open(FlowId flow, const char* what);
  void check_joining(const Running& running, const std::vector<FlowRing>& producers,
                     const std::vector<FlowRing>& consumers) const;
  [[nodiscard]] p4::RegisterState& reg(const char* name) const;
  [[nodiscard]] std::uint32_t get(const char* name, std::uint64_t index) const;
  void set(const char* name, std::uint64_t index, std::uint64_t value) const;
  [[nodiscard]] std::uint32_t get_own(const char* name, std::uint16_t own) const;
  void set_own(const char* name, std::uint16_t own, std::uint64_t value) const;
  [[nodiscard]] std::vector<std::byte> control_packet(FlowId flow, std::uint16_t thread) const;

  p4::Switch* device_;
  SwitchAddress own_;
  std::vector<std::pair<p4::TableState*, p4::EntryHandle>> own_entries_;
  std::vector<Running> flows_;
  std::vector<bool> threads_;        // in use
  std::vector<bool> consumers_;      // in use
  std::vector<bool> producers_;      // in use
  std::vector<bool> own_threads_;    // own numbers in use
  std::vector<bool> own_producers_;  // own numbers in use
  std::vector<bool> are_ends_used_;  // those that new_end() has given
  std::mt19937_64 random_{std::random_device{}()};
  FlowId next_flow_ = 1;
};

}  // namespace sidelatch::flows
