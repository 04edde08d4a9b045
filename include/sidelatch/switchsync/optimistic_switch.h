// OptimisticSwitch: the control plane of p4/switch_optimistic.p4, for one memory node or several; and of
// p4/switch_tuples.p4, its form with versions of 32 bits.
//
//   p4::Switch device(p4::compile_file("switch_optimistic.p4"), {.ports = 3, .icrc = true});
//   OptimisticSwitch control(device.state());
//   control.add_station(mac, port);                                  // of each host
//   const std::uint32_t first = control.add_tuples({.memory_node = ip, .rkey = rkey, .address = address, .count = 1000,
//                                                   .tuple_bytes = 192, .slot_bytes = 256, .is_new = true});
//   const auto connection = control.connect({.client = client_ip, .client_queue_pair = 17, .client_psn = psn,
//                                            .memory_node = ip, .memory_queue_pair = 18});
//
// A client that is gone, or is to be ended, may hold latches. In this order:
//   control.fence(connection);               // nothing of it passes the switch any more
//   ... a READ of a byte or more of the memory node, but of no tuple's word: what the same NIC has acknowledged is
//       placed then (memory model, rule 2); the switch answers a READ of a word itself
//   ... the memory node ends the client's queue pair: what was not acknowledged is placed, or lost, or torn (rule 10)
//   const Released released = control.release(connection);
//   for (tuple : released.in_doubt) control.give_latch(tuple, other);       // which must READ and WRITE the tuple
//
// After a restart of the switch, or with another switch, all versions are lost but those in the tuples. In this order:
//   ... no packet of a client reaches the memory node any more: a new switch passes none before add_station()
//   ... a READ as above, not through the switch (a queue pair of the memory node with itself will do)
//   ... the memory node ends all queue pairs that had gone through the old switch, and those of the old control plane
//   add_station(), add_tuples(), add_direct() again
//   found = co_await read_versions(control, first, direct, memory, buffer);
//   co_await recover(control, first, direct, memory, buffer);                // before any connect()
//
// Who held a latch is lost, too. A tuple whose WRITE was on its way, and not acknowledged, may be torn, if the memory
// node's NIC tears what it places when its queue pair ends. So it is written again, whole, before anybody else uses it:
// of the clients whose WRITE of it has no answer, by the one that latched the latest version v, if v + 2 is not below
// what read_versions() found. All other such WRITEs have happened: a later holder has read the tuple. That client may
// die before: install_latched() in the place of recover(), and give_latch(), keep the tuple from others. Clients that
// may die at the same time as the switch need a checksum in the tuple.
//
// All tuples of a memory node's region are to be known to the switch, and all their clients: other keys to the same
// memory go past the latches.
//
// With p4/switch_cached.p4 the switch has versions for some of the tuples: those that are hot. A tuple that is cold is
// held by nobody, and its version is its word in memory. A client READs it as any other. The old value of its CAS is
// kColdWord, which is odd, so it tries again, as with a tuple that is latched. Meanwhile the control plane makes the
// tuple hot, and another one cold if there is no room: take_asked(), and switchsync/tuple_moves.h. All are cold at
// first, and after recover().
//
// With p4/switch_tuples.p4 a version is the epoch of its row of add_tuples(), and 32 bits of the switch's. No latch
// leaves an epoch: after 2^31 - 1 new versions a tuple's latch is refused until recover().
//
// No version comes twice: recover() gives all tuples versions of a new epoch (the upper 32 bits), which it writes into
// the tuples before it gives them to the switch.
//
// Thread-safety: as that of p4::State.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/p4/state.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::switchsync {

using MacAddress = std::array<std::uint8_t, 6>;
using Ipv4Address = std::array<std::uint8_t, 4>;

/// The old value of a CAS of a cold tuple's word.
inline constexpr std::uint64_t kColdWord = ~std::uint64_t{0};

/// A row of tuples in a memory node's region, each at the beginning of a slot.
struct SwitchTuples {
  Ipv4Address memory_node{};
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint64_t count = 0;
  std::uint64_t tuple_bytes = 0;  ///< 16 to path_mtu, a multiple of 8: the version's word, and the payload
  std::uint64_t slot_bytes = 0;   ///< a power of two, at least tuple_bytes
  std::uint32_t path_mtu = 1024;  ///< of the connections that use it
  /// Zeroed, and never used through a switch: then there is nothing to recover.
  bool is_new = false;
};

/// A reliable connection of a client and a memory node.
struct SwitchConnection {
  Ipv4Address client{};
  std::uint32_t client_queue_pair = 0;
  std::uint32_t client_psn = 0;  ///< the first one that the client sends
  Ipv4Address memory_node{};
  std::uint32_t memory_queue_pair = 0;
  std::uint32_t path_mtu = 1024;  ///< 256, 512, 1024, 2048 or 4096
};

/// What a connection held.
struct Released {
  std::vector<std::uint32_t> tuples{};    ///< can be latched again, each with a new version
  std::vector<std::uint32_t> in_doubt{};  ///< a WRITE was on its way: they stay latched, see give_latch()
};

/// A tuple that a fenced connection holds.
struct Held {
  std::uint32_t tuple = 0;
  bool in_doubt = false;  ///< as of Released
};

class TupleRegisters;

class OptimisticSwitch {
 public:
  /// Names a connection of this switch; not used again.
  using ConnectionId = std::uint64_t;

  /// Throws p4::ControlError if the state is that of another program, or if it is in use: a control plane that begins
  /// anew begins with the switch. The state must outlive this object.
  explicit OptimisticSwitch(p4::State& state);
  ~OptimisticSwitch();
  OptimisticSwitch(const OptimisticSwitch&) = delete;
  OptimisticSwitch& operator=(const OptimisticSwitch&) = delete;

  /// Frames for this address leave at the port.
  void add_station(const MacAddress& mac, std::uint16_t port);
  /// Nothing passes to it but connections of this switch, datagrams and add_direct(): as after add_tuples(). For a
  /// switch that takes another one's place: queue pairs of before may still live. Call it before add_station().
  void close_memory_node(const Ipv4Address& memory_node);
  /// Returns the number of the first tuple; the others follow. Throws std::invalid_argument that names the field and
  /// its value, std::logic_error while there are connections, and p4::ControlError if the switch has no room.
  std::uint32_t add_tuples(const SwitchTuples& tuples);
  /// For memory that has ended at the memory node, and nobody can reach it any more: its tuples are forgotten, whoever
  /// holds them. The memory node stays closed to unknown queue pairs. Throws std::invalid_argument if add_tuples() has
  /// not returned `first`.
  void remove_tuples(std::uint32_t first);
  /// Packets of this queue pair of the memory node pass as they are: for recover(), and for nobody else.
  void add_direct(const Ipv4Address& memory_node, std::uint32_t queue_pair);
  /// Call it before the client sends. Throws std::invalid_argument, std::logic_error if tuples are neither new nor
  /// recovered, and p4::ControlError if the switch has no room or knows one of the queue pairs.
  ConnectionId connect(const SwitchConnection& connection);
  /// From now on nothing of the connection passes the switch, in either direction; what has passed may still happen.
  /// Throws std::invalid_argument if there is no such connection.
  void fence(ConnectionId connection);
  /// What release() will find. Throws std::logic_error if the connection is not fenced.
  [[nodiscard]] std::vector<Held> held(ConnectionId connection);
  /// Unlatches what a fenced connection holds, and forgets the connection. Call it when the memory node has ended the
  /// queue pair: only then has every WRITE happened or never will. Throws std::logic_error if it is not fenced.
  [[nodiscard]] Released release(ConnectionId connection);
  /// The connection gets the latch of a tuple in doubt; it must WRITE the tuple, which may be torn. Throws
  /// std::logic_error if the tuple is not in doubt, and std::invalid_argument if there is no such connection.
  void give_latch(std::uint32_t tuple, ConnectionId to);

  // ---- With p4/switch_cached.p4. tuple_moves.h calls them in the right order. One move of a tuple at a time. These
  // throw std::logic_error in another order or with another program, and std::invalid_argument if there is no such
  // tuple.

  [[nodiscard]] bool is_cache() const { return hot_tuples_ != nullptr; }
  [[nodiscard]] bool is_hot(std::uint32_t tuple) const { return hot_.contains(tuple); }
  [[nodiscard]] bool is_moving(std::uint32_t tuple) const { return moving_.contains(tuple); }
  /// At most so many tuples are hot at a time, 1 to room(). Call it before any is hot. Throws std::invalid_argument.
  void limit_hot(std::size_t most);
  /// For so many tuples that are cold.
  [[nodiscard]] std::size_t room() const { return free_numbers_.size(); }
  /// The first one from `from` on that is hot and does not move.
  [[nodiscard]] std::optional<std::uint32_t> next_hot(std::uint32_t from) const;
  /// Tuples of CASes that were told that they are cold, since the last call; each once.
  [[nodiscard]] std::vector<std::uint32_t> take_asked();
  /// A cold tuple begins to become hot: READs that have passed before are not good any more, and nobody latches it yet.
  /// False: there is no room.
  [[nodiscard]] bool begin_to_heat(std::uint32_t tuple);
  /// `version`: its word in memory, READ after begin_to_heat(). If it is `in_doubt`, it stays latched until
  /// give_latch(): after a restart, for a WRITE that has no answer. Throws std::invalid_argument if the version is odd.
  void end_to_heat(std::uint32_t tuple, std::uint64_t version, bool in_doubt = false);
  /// A hot tuple begins to become cold: nobody can latch it. Returns its version; nothing if it is latched.
  [[nodiscard]] std::optional<std::uint64_t> begin_to_cool(std::uint32_t tuple);
  /// All WRITEs that were acknowledged are placed, and its word in memory is that version.
  void end_to_cool(std::uint32_t tuple);
  /// After begin_to_heat() or begin_to_cool(), if it cannot be ended: a tuple that was to become hot is cold again; one
  /// that was to become cold stays hot.
  void give_up_move(std::uint32_t tuple);

  /// Throws std::logic_error if the tuple is cold.
  [[nodiscard]] std::uint64_t version(std::uint32_t tuple) const;
  /// The connection that holds the tuple's latch; nobody holds one that is cold.
  [[nodiscard]] std::optional<ConnectionId> holder(std::uint32_t tuple) const;

  [[nodiscard]] bool has_connections() const;
  /// What add_tuples() got that returned `first`. Throws std::invalid_argument.
  [[nodiscard]] const SwitchTuples& tuples(std::uint32_t first) const;
  /// For recover(): gives all these tuples this version, which is even. Throws std::logic_error while there is a
  /// connection, and std::invalid_argument for an odd version or no such tuples.
  void install_version(std::uint32_t first, std::uint64_t version);
  /// The same, but all of them are latched, and in doubt, until give_latch() or unlatch(): while clients whose WRITE
  /// has no answer are waited for.
  void install_latched(std::uint32_t first, std::uint64_t version);
  /// A tuple in doubt gets the version of before its latch. Only for install_latched(), and if memory has that version:
  /// nobody has written the tuple since. Throws std::logic_error if it is not in doubt.
  void unlatch(std::uint32_t tuple);

 private:
  struct Row {
    SwitchTuples tuples{};
    std::uint32_t first = 0;
    p4::EntryHandle entry = 0;
    bool is_ready = false;
  };
  enum class Use : std::uint8_t { free, connected, fenced };
  struct Slot {
    Use use = Use::free;
    std::uint32_t generation = 0;
    p4::EntryHandle to_memory = 0;
    p4::EntryHandle to_client = 0;
  };
  void install(std::uint32_t first, std::uint64_t version, bool is_latched);
  /// Of the entry of `regions`. `upper`: half of the versions, if the program has the other one.
  [[nodiscard]] std::vector<p4::U128> arguments_of(const SwitchTuples& tuples, std::uint32_t first,
                                                   std::uint64_t upper) const;
  [[nodiscard]] std::uint64_t upper_half(std::uint32_t tuple) const;
  void begin_cache(p4::State& state);
  void require_cached(std::uint32_t tuple, bool is_moving, const char* what) const;
  void forget_hot(std::uint32_t tuple);
  /// Of the registers of a tuple.
  [[nodiscard]] std::uint32_t number_of(std::uint32_t tuple) const;
  [[nodiscard]] std::uint32_t room_for(std::uint64_t count) const;
  [[nodiscard]] bool has_tuple(std::uint32_t tuple) const;
  [[nodiscard]] Slot& slot(ConnectionId connection, const char* what);
  [[nodiscard]] static std::uint32_t index_of(ConnectionId connection) {
    return static_cast<std::uint32_t>(connection & 0xffff'ffff);
  }

  p4::TableState* stations_;
  p4::TableState* connections_;
  p4::TableState* regions_;
  std::unique_ptr<TupleRegisters> registers_;
  p4::TableState* memory_nodes_;
  std::vector<Row> rows_;  // by `first`
  // Of a cache.
  struct Hot {
    std::uint32_t number = 0;
    p4::EntryHandle entry = 0;
  };
  p4::TableState* hot_tuples_ = nullptr;
  p4::RegisterState* moves_ = nullptr;
  p4::RegisterState* asked_ = nullptr;
  std::map<std::uint32_t, Hot> hot_;
  std::map<std::uint32_t, std::optional<std::uint64_t>> moving_;  // to become cold: with its version
  std::vector<std::uint32_t> free_numbers_;
  std::vector<Slot> slots_;
};

/// Versions of the epoch after the latest one in `headers`, the first words of tuples. Throws std::overflow_error after
/// 2^32 epochs.
[[nodiscard]] std::uint64_t next_epoch(std::span<const std::uint64_t> headers);

/// The versions that the tuples of add_tuples(), which returned `first`, have in memory, for clients whose WRITE has no
/// answer. Call it before recover(), which changes them, and keep them until recover() has succeeded. Arguments and
/// errors: as of recover().
[[nodiscard]] fabric::Task<std::vector<std::uint64_t>> read_versions(const OptimisticSwitch& control,
                                                                     std::uint32_t first, fabric::QueuePair& direct,
                                                                     fabric::RemoteSpan memory,
                                                                     fabric::LocalSpan buffer);

/// Reads the versions back from the tuples of add_tuples(), which returned `first`, gives all of them versions of a new
/// epoch, in the tuples first and then at the switch. `direct`: a queue pair to the memory node that is no connection
/// of the switch (add_direct(), if it goes through it), all of whose earlier queue pairs have ended. `memory`: the
/// tuples' slots, in full. `buffer`: at least 8 bytes; a larger one makes it faster. Throws std::logic_error while the
/// switch has connections, std::invalid_argument for spans that do not fit, and FabricError: then call it again with
/// another queue pair. Nothing is lost by that, whenever it happens.
[[nodiscard]] fabric::Task<void> recover(OptimisticSwitch& control, std::uint32_t first, fabric::QueuePair& direct,
                                         fabric::RemoteSpan memory, fabric::LocalSpan buffer);

}  // namespace sidelatch::switchsync
