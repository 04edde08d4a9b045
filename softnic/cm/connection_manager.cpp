// What owners do: connecting, accepting, ending.
#include "connection_manager.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sidelatch::softnic::cm {

namespace {

constexpr std::uint32_t kLow24Bits = 0xff'ffff;
constexpr std::uint8_t kResponseTimeout = 20;  // 4.3 s, as Linux says
constexpr std::uint8_t kServiceTimeout = 22;   // kLongestService
constexpr std::uint16_t kDefaultPartition = 0xffff;
constexpr std::uint8_t kHopLimit = 64;

template <std::size_t Bytes>
PrivateData<Bytes> padded(std::span<const std::byte> given) {
  if (given.size() > Bytes) {
    throw std::invalid_argument("private data does not fit into its message");
  }
  PrivateData<Bytes> field{};
  std::ranges::copy(given, field.begin());
  return field;
}

}  // namespace

// ---- Connections.

// Identifiers are random, so that a process that takes the place of a dead one on the wire is not taken for it.
ConnectionManager::Connection* ConnectionManager::make(const Route& route, std::uint64_t transaction, Time now) {
  if (connections_.size() >= kMostConnections) {
    return nullptr;
  }
  ConnectionId id = 0;
  do {
    id = static_cast<ConnectionId>(random_());
  } while (id == 0 || connections_.contains(id));
  Connection& made = connections_[id];
  made.id = id;
  made.route = route;
  made.agreement.route = route;
  made.transaction = transaction;
  made.occupant = occupant_ ? occupant_(route.remote) : std::nullopt;
  look_at_ = made.occupant ? std::min(look_at_, now + kLookInterval) : look_at_;
  // Known from the beginning: the passive side sets up its queue pair before it accepts.
  made.agreement.receive_psn = static_cast<std::uint32_t>(random_()) & kLow24Bits;
  return &made;
}

ConnectionManager::Connection* ConnectionManager::find(ConnectionId id) noexcept {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

ConnectionManager::Connection* ConnectionManager::find_owned(ConnectionId id) noexcept {
  Connection* const connection = find(id);
  return connection == nullptr || connection->is_released ? nullptr : connection;
}

void ConnectionManager::know(Connection& connection, std::uint32_t remote_id, bool is_datagram) {
  connection.remote_id = remote_id;
  by_remote_[{.gid = connection.route.remote, .id = remote_id, .is_datagram = is_datagram}] = connection.id;
}

void ConnectionManager::erase(Connection& connection) {
  set_deadline(connection, Time::max());
  for (const bool is_datagram : {false, true}) {
    const auto known =
        by_remote_.find({.gid = connection.route.remote, .id = connection.remote_id, .is_datagram = is_datagram});
    if (known != by_remote_.end() && known->second == connection.id) {
      by_remote_.erase(known);
    }
  }
  const auto pair = by_queue_pair_.find({connection.route.remote, connection.agreement.remote_qp});
  if (pair != by_queue_pair_.end() && pair->second == connection.id) {
    by_queue_pair_.erase(pair);
  }
  connections_.erase(connection.id);
}

// ---- Sending.

void ConnectionManager::send(const Route& route, const Message& message) {
  outgoing_.push_back({.route = route, .mad = encode(message)});
}

void ConnectionManager::send_and_repeat(Connection& connection, const Message& message, Time now) {
  connection.last = encode(message);
  connection.interval = is_leaving_ ? kFarewellInterval : kFirstInterval;
  connection.retries = 0;
  outgoing_.push_back({.route = connection.route, .mad = connection.last});
  repeat_after_interval(connection, now);
}

void ConnectionManager::repeat_after_interval(Connection& connection, Time now) {
  connection.latest = now + kLongestService;
  set_deadline(connection, now + connection.interval);
}

void ConnectionManager::send_receipt(const Connection& connection) {
  send(connection.route, {connection.transaction,
                          ReceiptMessage{.local_id = connection.id,
                                         .remote_id = connection.remote_id,
                                         .of = static_cast<std::uint8_t>(connection.state == State::reply_received),
                                         .service_timeout = kServiceTimeout}});
}

void ConnectionManager::send_reject(const Connection& connection, std::uint16_t reason,
                                    std::span<const std::byte> private_data) {
  constexpr std::uint8_t kRequest = 0;
  constexpr std::uint8_t kReply = 1;
  constexpr std::uint8_t kNone = 2;
  const std::uint8_t of = connection.state == State::request_received ? kRequest
                          : connection.state == State::reply_received ? kReply
                                                                      : kNone;
  send(connection.route,
       {connection.transaction, RejectMessage{.local_id = connection.id,
                                              .remote_id = connection.remote_id,
                                              .of = of,
                                              .reason = reason,
                                              .ca_guid = reason == kRejectTimeout ? ca_guid_ : 0,
                                              .private_data = padded<kRejectPrivateBytes>(private_data)}});
}

void ConnectionManager::set_deadline(Connection& connection, Time deadline) {
  if (connection.deadline != Time::max()) {
    deadlines_.erase({connection.deadline, connection.id});
  }
  connection.deadline = deadline;
  if (deadline != Time::max()) {
    deadlines_.emplace(deadline, connection.id);
  }
}

void ConnectionManager::report(const Connection& connection, Event event) {
  if (!connection.is_released) {
    event.id = connection.id;
    event.route = connection.route;
    events_.push_back(std::move(event));
  }
}

void ConnectionManager::close(Connection& connection, Event event) {
  report(connection, std::move(event));
  connection.state = State::closed;
  set_deadline(connection, Time::max());
}

// ---- Owners.

ConnectionId ConnectionManager::connect(const Offer& offer, Time now) {
  const auto private_data = padded<kRequestPrivateBytes>(offer.private_data);
  Connection* const connection = make(offer.route, random_(), now);
  if (connection == nullptr) {
    return 0;
  }
  connection->state = State::request_sent;
  connection->service_id = offer.service_id;
  connection->queue_pair = offer.terms.queue_pair;
  connection->is_extended = offer.terms.is_extended;
  Agreement& ours = connection->agreement;
  ours.path_mtu = offer.path_mtu;
  ours.ack_timeout = offer.ack_timeout;
  ours.traffic_class = offer.traffic_class;
  ours.retry_count = offer.terms.retry_count;
  send_and_repeat(*connection,
                  {connection->transaction,
                   RequestMessage{.local_id = connection->id,
                                  .service_id = offer.service_id,
                                  .ca_guid = ca_guid_,
                                  .queue_pair = offer.terms.queue_pair,
                                  .responder_resources = offer.terms.responder_resources,
                                  .initiator_depth = offer.terms.initiator_depth,
                                  .remote_response_timeout = kResponseTimeout,
                                  .transport = offer.terms.is_extended ? kExtendedTransport : kReliableConnection,
                                  .flow_control = offer.terms.flow_control,
                                  .starting_psn = ours.receive_psn,
                                  .local_response_timeout = kResponseTimeout,
                                  .retry_count = offer.terms.retry_count,
                                  .p_key = kDefaultPartition,
                                  .path_mtu = offer.path_mtu,
                                  .rnr_retry_count = offer.terms.rnr_retry_count,
                                  .most_cm_retries = kMostRetries,
                                  .shared_receives = offer.terms.shared_receives,
                                  .extended_transport = static_cast<std::uint8_t>(offer.terms.is_extended ? kXrc : 0),
                                  .local_gid = offer.route.local,
                                  .remote_gid = offer.route.remote,
                                  .traffic_class = offer.traffic_class,
                                  .hop_limit = kHopLimit,
                                  .local_ack_timeout = offer.ack_timeout,
                                  .private_data = private_data}},
                  now);
  return connection->id;
}

ConnectionId ConnectionManager::ask(const DatagramOffer& offer, Time now) {
  const auto private_data = padded<kDatagramRequestPrivateBytes>(offer.private_data);
  Connection* const connection = make(offer.route, random_(), now);
  if (connection == nullptr) {
    return 0;
  }
  connection->state = State::datagram_asked;
  connection->service_id = offer.service_id;
  send_and_repeat(*connection,
                  {connection->transaction, DatagramRequestMessage{.request_id = connection->id,
                                                                   .p_key = kDefaultPartition,
                                                                   .service_id = offer.service_id,
                                                                   .private_data = private_data}},
                  now);
  return connection->id;
}

bool ConnectionManager::accept(ConnectionId id, const Terms& terms, std::span<const std::byte> private_data, Time now) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr || connection->state != State::request_received) {
    return false;
  }
  const auto field = padded<kReplyPrivateBytes>(private_data);
  connection->state = State::reply_sent;
  connection->queue_pair = terms.queue_pair;
  Agreement& ours = connection->agreement;
  ours.responder_resources = terms.responder_resources;
  ours.initiator_depth = terms.initiator_depth;
  send_and_repeat(
      *connection,
      {connection->transaction, ReplyMessage{.local_id = id,
                                             .remote_id = connection->remote_id,
                                             .queue_pair = connection->is_extended ? 0 : terms.queue_pair,
                                             .extended_context = connection->is_extended ? terms.queue_pair : 0,
                                             .starting_psn = ours.receive_psn,
                                             .responder_resources = terms.responder_resources,
                                             .initiator_depth = terms.initiator_depth,
                                             .flow_control = terms.flow_control,
                                             .rnr_retry_count = terms.rnr_retry_count,
                                             .shared_receives = terms.shared_receives || connection->is_extended,
                                             .ca_guid = ca_guid_,
                                             .private_data = field}},
      now);
  return true;
}

bool ConnectionManager::confirm(ConnectionId id, Time /*now*/) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr || connection->state != State::reply_received) {
    return false;
  }
  connection->state = State::established;
  const Message ready{connection->transaction, ReadyMessage{.local_id = id, .remote_id = connection->remote_id}};
  connection->last = encode(ready);  // repeated for a repeated REP
  send(connection->route, ready);
  return true;
}

bool ConnectionManager::hold(ConnectionId id) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr ||
      (connection->state != State::request_received && connection->state != State::reply_received)) {
    return false;
  }
  connection->is_held = true;
  return true;
}

bool ConnectionManager::reject(ConnectionId id, std::uint16_t reason, std::span<const std::byte> private_data) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr ||
      (connection->state != State::request_received && connection->state != State::reply_received)) {
    return false;
  }
  send_reject(*connection, reason, private_data);
  connection->last = outgoing_.back().mad;
  connection->has_rejected = true;
  connection->state = State::closed;
  return true;
}

bool ConnectionManager::establish(ConnectionId id) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr || connection->state != State::reply_sent) {
    return false;
  }
  connection->state = State::established;
  set_deadline(*connection, Time::max());
  report(*connection, {.kind = Event::Kind::established});
  return true;
}

bool ConnectionManager::is_established(ConnectionId id) const noexcept {
  const auto found = connections_.find(id);
  return found != connections_.end() && found->second.state == State::established;
}

void ConnectionManager::start_disconnect(Connection& connection, Time now) {
  connection.state = State::disconnect_sent;
  send_and_repeat(connection,
                  {connection.transaction, DisconnectMessage{.local_id = connection.id,
                                                             .remote_id = connection.remote_id,
                                                             .remote_qp = connection.agreement.remote_qp}},
                  now);
}

bool ConnectionManager::disconnect(ConnectionId id, Time now) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr) {
    return false;
  }
  switch (connection->state) {
    case State::established:
    case State::reply_sent:
      start_disconnect(*connection, now);
      return true;
    case State::disconnect_sent:
    case State::timewait:
    case State::closed:
      return true;
    default:
      return false;
  }
}

bool ConnectionManager::answer(ConnectionId id, const DatagramAnswer& answer, Time now) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr || connection->state != State::datagram_received) {
    return false;
  }
  const Message reply{connection->transaction,
                      DatagramReplyMessage{.request_id = connection->remote_id,
                                           .status = answer.status,
                                           .queue_pair = answer.queue_pair,
                                           .service_id = connection->service_id,
                                           .q_key = answer.q_key,
                                           .private_data = padded<kDatagramReplyPrivateBytes>(answer.private_data)}};
  connection->state = State::datagram_answered;
  connection->last = encode(reply);
  send(connection->route, reply);
  // Remembered for as long as the request may be repeated.
  set_deadline(*connection, now + 2 * kLongestInterval);
  return true;
}

Agreement ConnectionManager::agreement(ConnectionId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? Agreement{} : found->second.agreement;
}

void ConnectionManager::forget(ConnectionId id) {
  Connection* const connection = find_owned(id);
  if (connection != nullptr && connection->state == State::request_received) {
    erase(*connection);
  }
}

void ConnectionManager::release(ConnectionId id, Time now) {
  Connection* const connection = find_owned(id);
  if (connection == nullptr) {
    return;
  }
  connection->is_released = true;
  std::erase_if(events_, [id](const Event& event) { return event.id == id; });
  switch (connection->state) {
    case State::request_sent:
      send_reject(*connection, kRejectTimeout, {});
      erase(*connection);
      return;
    case State::request_received:
    case State::reply_received:
    case State::reply_sent:
      send_reject(*connection, kConsumerReject, {});
      erase(*connection);
      return;
    case State::established:
      start_disconnect(*connection, now);
      return;
    case State::disconnect_sent:
    case State::timewait:
    case State::datagram_answered:
      return;  // until its deadline
    case State::datagram_received:
    case State::datagram_asked:
    case State::closed:
      erase(*connection);
      return;
  }
}

void ConnectionManager::leave(Time now) {
  is_leaving_ = true;
  if (look_at_ != Time::max()) {
    look_for_departed(now);  // nobody waits for the dead
  }
  for (auto& [id, connection] : connections_) {
    switch (connection.state) {
      case State::established:
      case State::disconnect_sent:
        start_disconnect(connection, now);
        break;
      case State::request_sent:
        send_reject(connection, kRejectTimeout, {});
        close(connection, {.kind = Event::Kind::unreachable});
        break;
      case State::request_received:
      case State::reply_received:
      case State::reply_sent:
        send_reject(connection, kConsumerReject, {});
        close(connection, {.kind = Event::Kind::rejected, .reason = kConsumerReject});
        break;
      case State::datagram_asked:
        close(connection, {.kind = Event::Kind::unreachable});
        break;
      default:
        break;
    }
  }
}

bool ConnectionManager::awaits_farewell() const noexcept {
  return std::ranges::any_of(connections_,
                             [](const auto& entry) { return entry.second.state == State::disconnect_sent; });
}

}  // namespace sidelatch::softnic::cm
