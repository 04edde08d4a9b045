// RdmaIds: librdmacm's identifiers and event channels, as the kernel keeps them for it. Without system calls.
//
//   RdmaIds ids(surroundings, options);
//   const IdNumber id = ids.create(channel, uid, kTcp, kReliableConnection);
//   ids.resolve_address(channel, id, {}, server, timeout, now);            // later an event: address_resolved
//   while (const auto event = ids.next_event(channel)) ...
//
// Each call refuses with IdError what the state does not allow, with the errno of the kernel. Events of an identifier
// go to the channel that it belongs to. Closing a channel ends its identifiers.
//
// Connections to addresses of this machine go to the station that listens at the port, which the Surroundings know.
// Both sides are told the addresses that the program used, which travel in the private data (ip_addressing.h).
//
// A request for a port where nobody listens waits for kGrace before it is refused: perftest's servers close their port
// and open it again between two connections of the same client.
//
// Source: the manual pages rdma_*(3); the behaviour of Linux's rdma_ucm.
//
// Thread-safety: none.
#pragma once

#include "connection_manager.h"
#include "ip_addressing.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::softnic::cm {

class IdError : public std::runtime_error {
 public:
  IdError(int error, const std::string& what) : std::runtime_error(what), error_(error) {}
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  int error_;
};

/// With whom an identifier shares its port: RDMA_OPTION_ID_REUSEADDR and RDMA_OPTION_ID_AFONLY of rdma_set_option(3).
struct PortSharing {
  bool reuses_address = false;  ///< with others that say so too
  bool only_family = false;     ///< with others of the other family that say so too; IPv4 always does
};

/// What identifiers need from the machine and the wire.
class Surroundings {
 public:
  Surroundings() = default;
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;
  virtual ~Surroundings() = default;

  /// Of this station; at least one.
  [[nodiscard]] virtual const std::vector<Gid>& gids() const = 0;
  /// Whether it is an address of this machine, such as 127.0.0.1. Not one of gids().
  [[nodiscard]] virtual bool is_of_machine(const SocketAddress& address) const = 0;
  /// Whether a station at the wire answers to this GID by now; asks it if necessary.
  [[nodiscard]] virtual bool reaches(const Gid& gid) = 0;
  /// A number for the process that has this GID now, 0 if none has it; nothing if that cannot be known.
  [[nodiscard]] virtual std::optional<std::uint64_t> occupant(const Gid& /*gid*/) { return std::nullopt; }
  /// Takes a port; port 0 chooses one. Returns the port. Throws IdError (EADDRINUSE). `owner` is any number of the
  /// caller's, by which the port is given back.
  [[nodiscard]] virtual std::uint16_t take_port(PortSpace space, const SocketAddress& address, PortSharing sharing,
                                                std::uint64_t owner) = 0;
  /// From now on others may share the owner's port in this way. Who has it already keeps it.
  virtual void share_port(std::uint64_t owner, PortSharing sharing) = 0;
  /// Others may connect to the port now. Throws IdError (EADDRINUSE).
  virtual void open_port(std::uint64_t owner) = 0;
  virtual void give_port(std::uint64_t owner) noexcept = 0;
  /// The station that has this port of an address of the machine; an open port goes first.
  [[nodiscard]] virtual std::optional<Gid> station_at(PortSpace space, const SocketAddress& address) = 0;
};

using IdNumber = std::uint32_t;
using ChannelNumber = std::uint32_t;

/// An XRC connection leads from an initiator, which connects, to a target, which listens.
enum class Service : std::uint8_t { reliable_connection, datagram, xrc_initiator, xrc_target };

/// What rdma_connect(3) and rdma_accept(3) say.
struct ConnectionParameters {
  Terms terms{};
  std::uint32_t q_key = 0;  ///< 0: the default
  std::vector<std::byte> private_data{};
};

/// The numbers are those of rdma_cm_event_type.
enum class IdEventKind : std::uint8_t {
  address_resolved = 0,
  address_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  group_joined = 12,
  timewait_exit = 15,
};

struct IdEvent {
  IdEventKind kind{};
  IdNumber id = 0;     ///< connect_request: the new identifier; group_joined: the membership
  IdNumber owner = 0;  ///< that counts the event; connect_request: the one that listens
  std::uint64_t uid = 0;
  int status = 0;
  Service service{};
  Terms terms{};
  std::uint32_t q_key = 0;
  Route route{};
  std::uint8_t traffic_class = 0;  ///< of the identifier's packets
  std::vector<std::byte> private_data{};
};

/// The attributes that bring a queue pair to a state.
struct PairAttributes {
  bool has_connection = false;
  bool serves_reads = false;  ///< READs and atomics
  std::uint32_t q_key = 0;
  Agreement agreement{};
};

class RdmaIds {
 public:
  static constexpr std::uint32_t kDefaultQKey = 0x0123'4567;  // RDMA_UDP_QKEY
  static constexpr std::uint32_t kMostBacklog = 1024;
  static constexpr std::uint32_t kMostIds = 65'535;  // librdmacm's table; memberships are numbered together with them
  static constexpr std::chrono::milliseconds kGrace{250};
  static constexpr std::size_t kMostPrivateBytes = kRequestPrivateBytes - kAddressHeaderBytes;  // of rdma_connect()

  struct Options {
    std::uint64_t ca_guid = 0;
    std::uint64_t seed = 0;
    std::uint8_t path_mtu = 5;
  };

  struct Id {
    enum class State : std::uint8_t { idle, bound, resolving, address_resolved, route_resolved, listening, connecting };
    IdNumber number = 0;
    ChannelNumber channel = 0;
    std::uint64_t uid = 0;
    PortSpace space = 0;
    Service service{};
    State state = State::idle;
    bool has_device = false;
    SocketAddress source{};
    SocketAddress destination{};
    Route route{};
    ConnectionId connection = 0;
    bool is_request = false;  // made by a connect_request that was not accepted yet
    bool has_accepted_datagram = false;
    std::uint32_t q_key = kDefaultQKey;
    std::uint32_t backlog = 0;
    std::uint32_t events_reported = 0;
    Time resolve_until{};
    std::uint8_t traffic_class = 0;
    std::uint8_t ack_timeout = 15;  // 134 ms
    bool reuses_address = false;
    bool only_family = false;
    bool has_port = false;
    std::uint8_t responder_resources = 0;
  };

  RdmaIds(Surroundings& surroundings, const Options& options);

  [[nodiscard]] ChannelNumber open_channel();
  void close_channel(ChannelNumber channel, Time now);

  [[nodiscard]] IdNumber create(ChannelNumber channel, std::uint64_t uid, PortSpace space, Service service);
  /// Returns how many of its events were taken by next_event().
  std::uint32_t destroy(ChannelNumber channel, IdNumber id, Time now);
  void bind(ChannelNumber channel, IdNumber id, const SocketAddress& address);
  void resolve_address(ChannelNumber channel, IdNumber id, const std::optional<SocketAddress>& source,
                       const SocketAddress& destination, std::chrono::milliseconds at_most, Time now);
  void resolve_route(ChannelNumber channel, IdNumber id);
  [[nodiscard]] const Id& query(ChannelNumber channel, IdNumber id) const;
  void connect(ChannelNumber channel, IdNumber id, const ConnectionParameters& parameters, Time now);
  void listen(ChannelNumber channel, IdNumber id, std::uint32_t backlog);
  /// Without parameters: the active side has set up its queue pair.
  void accept(ChannelNumber channel, IdNumber id, std::uint64_t uid,
              const std::optional<ConnectionParameters>& parameters, Time now);
  void reject(ChannelNumber channel, IdNumber id, std::uint8_t reason, std::span<const std::byte> private_data,
              Time now);
  void disconnect(ChannelNumber channel, IdNumber id, Time now);
  [[nodiscard]] PairAttributes pair_attributes(ChannelNumber channel, IdNumber id) const;
  /// The queue pair has received something.
  void notify_established(ChannelNumber channel, IdNumber id);
  void set_traffic_class(ChannelNumber channel, IdNumber id, std::uint8_t value);
  void set_reuse(ChannelNumber channel, IdNumber id, bool value);
  void set_only_family(ChannelNumber channel, IdNumber id, bool value);
  void set_ack_timeout(ChannelNumber channel, IdNumber id, std::uint8_t value);
  /// Returns how many of its events were taken from the old channel.
  [[nodiscard]] std::uint32_t migrate(ChannelNumber from, IdNumber id, ChannelNumber to);

  /// Joins a group for datagrams; returns the membership's number. At once there is an event, with `uid`.
  [[nodiscard]] IdNumber join_group(ChannelNumber channel, IdNumber id, std::uint64_t uid, const SocketAddress& group);
  /// Returns how many events of the membership were taken.
  std::uint32_t leave_group(ChannelNumber channel, IdNumber membership);

  [[nodiscard]] std::optional<IdEvent> next_event(ChannelNumber channel);
  [[nodiscard]] std::size_t waiting_events(ChannelNumber channel) const noexcept;

  void on_mad(const Route& route, std::span<const std::byte> mad, Time now);
  void advance(Time now);
  [[nodiscard]] Time next_deadline() const noexcept;
  [[nodiscard]] std::vector<Outgoing> take_outgoing() { return manager_.take_outgoing(); }
  /// The process ends: ConnectionManager::leave().
  void leave(Time now);
  [[nodiscard]] bool awaits_farewell() const noexcept { return manager_.awaits_farewell(); }

 private:
  static constexpr std::chrono::milliseconds kLookAgain{5};
  static constexpr std::size_t kMostEarly = 256;

  // A request that waits for a listener, and an identifier that waits for the station of its port.
  struct EarlyRequest {
    Event event;
    Time until;
  };
  struct EarlyConnect {
    ConnectionParameters parameters;
    Time until;
  };

  struct Membership {
    IdNumber owner = 0;
    std::uint32_t events_reported = 0;
  };

  [[nodiscard]] Id& find(ChannelNumber channel, IdNumber id);
  [[nodiscard]] bool has_room() const noexcept { return ids_.size() + memberships_.size() < kMostIds; }
  [[nodiscard]] IdNumber free_number();
  Id& make(ChannelNumber channel, PortSpace space, Service service);
  void bind(Id& id, const SocketAddress& address);
  void share(const Id& id);
  void end(Id& id, Time now);
  void report(const Id& id, IdEvent event);
  void finish_resolving(Id& id, int error);
  [[nodiscard]] std::optional<Gid> own_gid_for(const Gid& remote) const;
  [[nodiscard]] bool is_ours(const SocketAddress& address) const;
  [[nodiscard]] bool choose_route(Id& id);
  void start(Id& id, const ConnectionParameters& parameters, Time now);
  void look_again(Time now);
  void handle_events(Time now);
  void handle(const Event& event, Time now);
  void handle_request(const Event& event, Time now);
  void refuse(const Event& event, Time now);
  [[nodiscard]] Id* listener_for(PortSpace space, const SocketAddress& address);
  [[nodiscard]] Id* listener_for(const Event& event);
  void welcome(const Event& event, Id& listener, Time now);

  Surroundings& surroundings_;
  Options options_;
  ConnectionManager manager_;
  std::map<IdNumber, Id> ids_;
  std::map<IdNumber, Membership> memberships_;
  std::map<ConnectionId, IdNumber> by_connection_;
  std::map<ChannelNumber, std::deque<IdEvent>> channels_;
  std::set<IdNumber> resolving_;
  std::vector<EarlyRequest> early_requests_;
  std::map<IdNumber, EarlyConnect> early_connects_;
  Time look_next_{};
  IdNumber next_id_ = 1;
  ChannelNumber next_channel_ = 1;
};

}  // namespace sidelatch::softnic::cm
