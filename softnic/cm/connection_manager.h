// ConnectionManager: InfiniBand's connection protocol as a state machine, without threads, sockets or a clock.
//
//   ConnectionManager manager({.ca_guid = guid, .seed = random});
//   const ConnectionId id = manager.connect({.route = route, .service_id = s, .terms = ours, ...}, now);
//   for (const Outgoing& out : manager.take_outgoing()) ... send the MAD to queue pair 1 of out.route.remote ...
//   manager.on_mad(route, bytes, now);  manager.advance(now);        // at manager.next_deadline()
//   for (const Event& event : manager.take_events()) ...
//
//   active side                        passive side
//   connect()        -- REQ ->         connection_request
//                    <- MRA --         hold(), if REQ comes again
//   connection_reply <- REP --         accept()
//   confirm()        -- RTU ->         established
//   disconnect()     -- DREQ ->        disconnected
//   disconnected     <- DREP --
//
// REQ, REP and DREQ are repeated until they are answered: after 100 ms, then after twice as long each time, up to 4.3
// s; 15 times. MRA asks for more time before the next repetition: 17 s after the message was sent at most, however many
// MRAs come and whatever they say, so that nobody waits for more than five minutes. Messages that arrive twice, late or
// from another address have no effect but a repeated answer. DREP is sent at once, without waiting for the owner. A
// connection that has ended stays in timewait for half a second, in which its identifier is not used again.
//
// If the process at the other end is gone, and whoever makes the manager can tell (ConnectionManagerOptions::occupant),
// its connections end as if the kernel of that process had closed them. The manager asks every 200 ms.
//
// XRC connections are set up in the same way. Datagrams (UD) have no connection: ask() and answer() exchange the number
// and Q_Key of a queue pair.
//
// Guarantees: any bytes may be given to on_mad(). A connection reports at most one of rejected, unreachable and
// disconnected. After release() it reports nothing. At most kMostConnections exist at a time.
//
// Source: InfiniBand Architecture Specification, volume 1, chapter 12; the state diagrams of 12.9.
//
// Thread-safety: none.
#pragma once

#include "messages.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sidelatch::softnic::cm {

/// Since any fixed moment.
using Time = std::chrono::nanoseconds;

/// This side's local communication ID; 0 is none.
using ConnectionId = std::uint32_t;

/// The addresses of a MAD and of the connection: those of the packets' IP headers.
struct Route {
  Gid local{};
  Gid remote{};
  friend auto operator<=>(const Route&, const Route&) = default;
};

/// What one side says about its end of a connection.
struct Terms {
  std::uint32_t queue_pair = 0;
  std::uint8_t responder_resources = 0;  ///< READs and atomics that this side serves at a time
  std::uint8_t initiator_depth = 0;      ///< READs and atomics that this side may have in flight
  bool flow_control = false;
  std::uint8_t retry_count = 0;  ///< the active side's; for both
  std::uint8_t rnr_retry_count = 0;
  bool shared_receives = false;
  bool is_extended = false;  ///< XRC: the active side's end is an initiator, the passive side's a target (A14)
  friend bool operator==(const Terms&, const Terms&) = default;
};

struct Offer {
  Route route{};
  std::uint64_t service_id = 0;
  Terms terms{};
  std::uint8_t path_mtu = 5;  ///< numbered as ibv_mtu
  std::uint8_t ack_timeout = 15;
  std::uint8_t traffic_class = 0;
  std::span<const std::byte> private_data{};  ///< at most kRequestPrivateBytes
};

struct DatagramOffer {
  Route route{};
  std::uint64_t service_id = 0;
  std::span<const std::byte> private_data{};  ///< at most kDatagramRequestPrivateBytes
};

struct DatagramAnswer {
  DatagramStatus status = DatagramStatus::valid;
  std::uint32_t queue_pair = 0;
  std::uint32_t q_key = 0;
  std::span<const std::byte> private_data{};  ///< at most kDatagramReplyPrivateBytes
};

/// What the queue pair of a connection needs.
struct Agreement {
  Route route{};
  std::uint32_t remote_qp = 0;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_psn = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t ack_timeout = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t responder_resources = 0;  ///< of this side
  std::uint8_t initiator_depth = 0;      ///< of this side
};

struct Event {
  enum class Kind : std::uint8_t {
    connection_request,  ///< a new connection, passive; accept(), hold() or reject() it
    connection_reply,    ///< confirm(), hold() or reject() it
    established,         ///< passive side
    rejected,            ///< `reason`
    unreachable,         ///< nobody answered
    disconnected,        ///< `reason`: kRejectTimeout if nobody has answered DREQ, else 0
    timewait_exit,
    datagram_request,  ///< a new request; answer() it
    datagram_reply,    ///< `reason` is a DatagramStatus
  };
  Kind kind{};
  ConnectionId id = 0;
  std::uint64_t service_id = 0;
  unsigned reason = 0;
  /// The other side's queue pair and wishes. The two depths are as this side should take them over: what the other side
  /// may have in flight is what this side must serve.
  Terms terms{};
  std::uint32_t q_key = 0;
  Route route{};
  std::vector<std::byte> private_data{};  ///< the whole field of the message
};

struct Outgoing {
  Route route{};
  Mad mad{};
};

struct ConnectionManagerOptions {
  std::uint64_t ca_guid = 0;
  std::uint64_t seed = 0;  ///< of identifiers and packet sequence numbers
  /// A number for the process that has this address now, 0 if none has it; nothing if that cannot be known.
  std::function<std::optional<std::uint64_t>(const Gid&)> occupant{};
};

class ConnectionManager {
 public:
  static constexpr std::chrono::milliseconds kFirstInterval{100};
  static constexpr std::chrono::milliseconds kLongestInterval{4'295};  // 4.096 us * 2^20
  static constexpr std::chrono::milliseconds kLongestService{17'180};  // 4.096 us * 2^22
  static constexpr std::chrono::milliseconds kFarewellInterval{10};
  static constexpr int kMostRetries = 15;
  static constexpr int kMostRetriesOfReleased = 5;
  static constexpr std::chrono::milliseconds kTimewait{537};  // 4.096 us * 2^17
  static constexpr std::size_t kMostConnections = 1U << 16;
  static constexpr std::chrono::milliseconds kLookInterval{200};

  explicit ConnectionManager(ConnectionManagerOptions options)
      : ca_guid_(options.ca_guid), random_(options.seed), occupant_(std::move(options.occupant)) {}

  /// 0: kMostConnections exist.
  [[nodiscard]] ConnectionId connect(const Offer& offer, Time now);
  [[nodiscard]] ConnectionId ask(const DatagramOffer& offer, Time now);

  // These return false, and do nothing, if the connection's state does not allow it.

  /// Passive: sends REP.
  [[nodiscard]] bool accept(ConnectionId id, const Terms& terms, std::span<const std::byte> private_data, Time now);
  /// Active: sends RTU.
  [[nodiscard]] bool confirm(ConnectionId id, Time now);
  /// The owner takes its time for accept() or confirm(): a message that is repeated meanwhile is answered by MRA, and
  /// comes again 17 s later. Not the first one: whoever has an MRA repeats nothing, so that an RTU or REJ that is lost
  /// then would be missed for so long.
  [[nodiscard]] bool hold(ConnectionId id);
  /// Sends REJ, of the request or of the reply.
  /// The same again for each repetition, until release().
  [[nodiscard]] bool reject(ConnectionId id, std::uint16_t reason, std::span<const std::byte> private_data);
  /// Passive: something has arrived over the connection, so that RTU was lost.
  [[nodiscard]] bool establish(ConnectionId id);
  /// Sends DREQ. Also allowed, without effect, when the other side was faster.
  [[nodiscard]] bool disconnect(ConnectionId id, Time now);
  [[nodiscard]] bool answer(ConnectionId id, const DatagramAnswer& answer, Time now);

  /// Whether establish() has nothing left to do.
  [[nodiscard]] bool is_established(ConnectionId id) const noexcept;
  /// Active: from connection_reply on; passive: from connection_request on.
  [[nodiscard]] Agreement agreement(ConnectionId id) const;
  /// Passive: as if the request had not arrived, so that its repetition is new.
  void forget(ConnectionId id);
  /// The owner ends. The other side is told as the state requires.
  void release(ConnectionId id, Time now);
  /// For the end of the process: ends everything, and reports it to the owners. DREQ is repeated every 10 ms, 15 times;
  /// new requests are refused.
  void leave(Time now);
  /// Whether an answer to a DREQ is missing.
  [[nodiscard]] bool awaits_farewell() const noexcept;

  void on_mad(const Route& route, std::span<const std::byte> mad, Time now);
  void advance(Time now);
  /// Time::max(): nothing waits.
  [[nodiscard]] Time next_deadline() const noexcept;
  [[nodiscard]] std::vector<Outgoing> take_outgoing() { return std::exchange(outgoing_, {}); }
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(events_, {}); }
  [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }

 private:
  enum class State : std::uint8_t {
    request_sent,
    reply_received,
    request_received,
    reply_sent,
    established,
    disconnect_sent,
    timewait,
    closed,
    datagram_asked,
    datagram_received,
    datagram_answered,
  };
  struct Connection {
    State state{};
    bool is_released = false;
    bool is_held = false;
    bool has_rejected = false;  // `last` is the rejection
    bool is_extended = false;
    ConnectionId id = 0;
    std::uint32_t remote_id = 0;  // 0: not known yet
    Route route{};
    std::optional<std::uint64_t> occupant{};  // of route.remote, at the beginning
    std::uint64_t transaction = 0;
    std::uint64_t service_id = 0;
    std::uint32_t queue_pair = 0;
    Agreement agreement{};
    Mad last{};  // what is repeated, or was answered
    Time deadline = Time::max();
    Time latest{};  // a deadline that an MRA may ask for
    Time interval{};
    int retries = 0;
  };
  // The other side's address and identifier. Datagrams have identifiers of their own.
  struct RemoteKey {
    Gid gid{};
    std::uint32_t id = 0;
    bool is_datagram = false;
    friend auto operator<=>(const RemoteKey&, const RemoteKey&) = default;
  };

  Connection* make(const Route& route, std::uint64_t transaction, Time now);
  [[nodiscard]] Connection* find(ConnectionId id) noexcept;
  [[nodiscard]] Connection* find_owned(ConnectionId id) noexcept;
  [[nodiscard]] Connection* find_remote(const Route& route, std::uint32_t remote_id, bool is_datagram) noexcept;
  [[nodiscard]] Connection* find_both(const Route& route, std::uint32_t remote_id, ConnectionId id) noexcept;
  void know(Connection& connection, std::uint32_t remote_id, bool is_datagram = false);
  void know_queue_pair(Connection& connection, std::uint32_t queue_pair);
  void erase(Connection& connection);

  void send(const Route& route, const Message& message);
  void send_and_repeat(Connection& connection, const Message& message, Time now);
  void repeat_after_interval(Connection& connection, Time now);
  void send_receipt(const Connection& connection);
  void send_reject(const Connection& connection, std::uint16_t reason, std::span<const std::byte> private_data);
  void set_deadline(Connection& connection, Time deadline);
  void report(const Connection& connection, Event event);
  void close(Connection& connection, Event event);
  void start_disconnect(Connection& connection, Time now);
  void end(Connection& connection, Event::Kind kind, unsigned reason);
  void enter_timewait(Connection& connection, Time now);
  void on_deadline(Connection& connection, Time now);
  void give_up(Connection& connection, Time now);
  void look_for_departed(Time now);
  void on_departure(Connection& connection, Time now);
  void end_stale(const Route& route, const RequestMessage& message, Time now);

  void on(const Route& route, std::uint64_t transaction, const RequestMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const ReceiptMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const RejectMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const ReplyMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const ReadyMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const DisconnectMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const DisconnectedMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const DatagramRequestMessage& message, Time now);
  void on(const Route& route, std::uint64_t transaction, const DatagramReplyMessage& message, Time now);

  std::uint64_t ca_guid_;
  std::mt19937_64 random_;
  std::function<std::optional<std::uint64_t>(const Gid&)> occupant_;
  bool is_leaving_ = false;
  Time look_at_ = Time::max();  // when to look whether the other sides are still there
  std::unordered_map<ConnectionId, Connection> connections_;
  std::map<RemoteKey, ConnectionId> by_remote_;
  std::map<std::pair<Gid, std::uint32_t>, ConnectionId> by_queue_pair_;  // the latest of each at the other side
  std::set<std::pair<Time, ConnectionId>> deadlines_;
  std::vector<Outgoing> outgoing_;
  std::vector<Event> events_;
};

}  // namespace sidelatch::softnic::cm
