// What arrives at a ConnectionManager: messages, and deadlines.
#include "connection_manager.h"

#include <algorithm>

namespace sidelatch::softnic::cm {

namespace {

template <class Field>
std::vector<std::byte> bytes_of(const Field& field) {
  return {field.begin(), field.end()};
}

Time service_time(std::uint8_t exponent) { return Time(std::int64_t{4096} << exponent); }

}  // namespace

ConnectionManager::Connection* ConnectionManager::find_remote(const Route& route, std::uint32_t remote_id,
                                                              bool is_datagram) noexcept {
  const auto found = by_remote_.find({.gid = route.remote, .id = remote_id, .is_datagram = is_datagram});
  return found == by_remote_.end() ? nullptr : find(found->second);
}

// Nobody ends a connection of which it does not know both identifiers and the addresses.
ConnectionManager::Connection* ConnectionManager::find_both(const Route& route, std::uint32_t remote_id,
                                                            ConnectionId id) noexcept {
  Connection* const connection = find(id);
  return connection != nullptr && connection->remote_id == remote_id && connection->route == route ? connection
                                                                                                   : nullptr;
}

void ConnectionManager::on_mad(const Route& route, std::span<const std::byte> mad, Time now) {
  if (const std::optional<Message> message = decode(mad)) {
    std::visit([&](const auto& body) { on(route, message->transaction, body, now); }, message->body);
  }
}

// ---- Setting up.

// A queue pair of the other side cannot have two connections: of the older one this side has missed the end (12.9.8.3).
// The kernel refuses the new one too, and takes its repetition; here a program that starts again connects at once. A
// program that connects without a queue pair says 0, and may do so often.
void ConnectionManager::end_stale(const Route& route, const RequestMessage& message, Time now) {
  constexpr std::uint32_t kGeneralServices = 1;
  const auto found = by_queue_pair_.find({route.remote, message.queue_pair});
  Connection* const older =
      found != by_queue_pair_.end() && message.queue_pair > kGeneralServices ? find(found->second) : nullptr;
  if (older != nullptr && (older->state == State::established || older->state == State::reply_sent)) {
    send(older->route, {older->transaction, DisconnectMessage{.local_id = older->id,
                                                              .remote_id = older->remote_id,
                                                              .remote_qp = older->agreement.remote_qp}});
    end(*older, Event::Kind::disconnected, 0);
    enter_timewait(*older, now);
  }
}

void ConnectionManager::know_queue_pair(Connection& connection, std::uint32_t queue_pair) {
  connection.agreement.remote_qp = queue_pair;
  by_queue_pair_[{connection.route.remote, queue_pair}] = connection.id;
}

void ConnectionManager::on(const Route& route, std::uint64_t transaction, const RequestMessage& message, Time now) {
  if (message.local_id == 0) {
    return;
  }
  const auto refuse = [&](std::uint16_t reason) {
    send(route, {transaction, RejectMessage{.local_id = 0, .remote_id = message.local_id, .of = 0, .reason = reason}});
  };
  if (const Connection* const known = find_remote(route, message.local_id, false)) {
    if (known->state == State::request_received && known->is_held) {
      send_receipt(*known);
    } else if (known->state == State::reply_sent || known->has_rejected) {
      outgoing_.push_back({.route = known->route, .mad = known->last});
    } else if (known->state == State::timewait || known->state == State::closed) {
      refuse(kStaleConnection);
    }
    return;
  }
  if (is_leaving_) {
    refuse(kConsumerReject);
    return;
  }
  const bool is_extended = message.transport == kExtendedTransport && message.extended_transport == kXrc;
  if (message.transport != kReliableConnection && !is_extended) {
    refuse(kInvalidTransport);
    return;
  }
  end_stale(route, message, now);
  Connection* const connection = make(route, transaction, now);
  if (connection == nullptr) {
    refuse(kNoResources);
    return;
  }
  connection->state = State::request_received;
  connection->service_id = message.service_id;
  connection->is_extended = is_extended;
  know(*connection, message.local_id);
  Agreement& ours = connection->agreement;
  know_queue_pair(*connection, message.queue_pair);
  ours.send_psn = message.starting_psn;
  ours.path_mtu = message.path_mtu;
  ours.ack_timeout = message.local_ack_timeout;
  ours.traffic_class = message.traffic_class;
  ours.retry_count = message.retry_count;
  ours.rnr_retry_count = message.rnr_retry_count;
  ours.responder_resources = message.initiator_depth;
  ours.initiator_depth = message.responder_resources;
  report(*connection, {.kind = Event::Kind::connection_request,
                       .service_id = message.service_id,
                       .terms = {.queue_pair = message.queue_pair,
                                 .responder_resources = message.initiator_depth,
                                 .initiator_depth = message.responder_resources,
                                 .flow_control = message.flow_control,
                                 .retry_count = message.retry_count,
                                 .rnr_retry_count = message.rnr_retry_count,
                                 .shared_receives = message.shared_receives,
                                 .is_extended = is_extended},
                       .private_data = bytes_of(message.private_data)});
}

void ConnectionManager::on(const Route& route, std::uint64_t /*transaction*/, const ReceiptMessage& message, Time now) {
  Connection* const connection = find(message.remote_id);
  if (connection == nullptr || connection->route != route) {
    return;
  }
  constexpr std::uint8_t kRequest = 0;
  const State waits = message.of == kRequest ? State::request_sent : State::reply_sent;
  if (connection->state == waits) {
    // Not longer, even if MRAs come again and again: each repetition counts, so that there is an end.
    const Time asked_for = std::min(now + service_time(message.service_timeout), connection->latest);
    set_deadline(*connection, std::max(connection->deadline, asked_for));
  }
}

void ConnectionManager::on(const Route& route, std::uint64_t transaction, const ReplyMessage& message, Time /*now*/) {
  Connection* const connection = find(message.remote_id);
  const bool is_known = connection != nullptr && connection->route == route &&
                        (connection->remote_id == message.local_id || connection->state == State::request_sent);
  if (!is_known) {
    // Else the other side would repeat its REP for a minute.
    send(route, {transaction, RejectMessage{.local_id = message.remote_id,
                                            .remote_id = message.local_id,
                                            .of = 1,
                                            .reason = kInvalidCommunicationId}});
    return;
  }
  if (connection->state == State::established || connection->has_rejected) {
    outgoing_.push_back({.route = route, .mad = connection->last});  // RTU or REJ was lost
    return;
  }
  if (connection->state == State::reply_received && connection->is_held) {
    send_receipt(*connection);
    return;
  }
  if (connection->state != State::request_sent || message.local_id == 0) {
    return;
  }
  connection->state = State::reply_received;
  know(*connection, message.local_id);
  set_deadline(*connection, Time::max());
  Agreement& ours = connection->agreement;
  const std::uint32_t its_pair = connection->is_extended ? message.extended_context : message.queue_pair;
  know_queue_pair(*connection, its_pair);
  ours.send_psn = message.starting_psn;
  ours.rnr_retry_count = message.rnr_retry_count;
  ours.responder_resources = message.initiator_depth;
  ours.initiator_depth = message.responder_resources;
  report(*connection, {.kind = Event::Kind::connection_reply,
                       .terms = {.queue_pair = its_pair,
                                 .responder_resources = message.initiator_depth,
                                 .initiator_depth = message.responder_resources,
                                 .flow_control = message.flow_control,
                                 .retry_count = ours.retry_count,
                                 .rnr_retry_count = message.rnr_retry_count,
                                 .shared_receives = message.shared_receives,
                                 .is_extended = connection->is_extended},
                       .private_data = bytes_of(message.private_data)});
}

void ConnectionManager::on(const Route& route, std::uint64_t /*transaction*/, const ReadyMessage& message,
                           Time /*now*/) {
  const Connection* const connection = find_both(route, message.local_id, message.remote_id);
  if (connection != nullptr) {
    static_cast<void>(establish(connection->id));  // a repeated RTU changes nothing
  }
}

void ConnectionManager::on(const Route& route, std::uint64_t /*transaction*/, const RejectMessage& message, Time now) {
  // The other side may not know our identifier yet, or not have one of its own.
  Connection* const connection =
      message.remote_id == 0 ? find_remote(route, message.local_id, false) : find(message.remote_id);
  if (connection == nullptr || connection->route != route ||
      (connection->remote_id != 0 && message.local_id != 0 && connection->remote_id != message.local_id)) {
    return;
  }
  const auto tell = [&] {
    report(*connection,
           {.kind = Event::Kind::rejected, .reason = message.reason, .private_data = bytes_of(message.private_data)});
  };
  switch (connection->state) {
    case State::request_sent:
    case State::request_received:
    case State::reply_received:
    case State::reply_sent:
      tell();
      connection->state = State::closed;
      set_deadline(*connection, Time::max());
      break;
    case State::established:
      // A REJ that names no identifier of its own is an answer to a REQ: a late one, of a REQ that was repeated.
      if (message.local_id == connection->remote_id) {
        tell();
        enter_timewait(*connection, now);
      }
      break;
    case State::disconnect_sent:
      tell();
      enter_timewait(*connection, now);
      break;
    default:
      break;
  }
}

// ---- Ending.

void ConnectionManager::end(Connection& connection, Event::Kind kind, unsigned reason) {
  report(connection, {.kind = kind, .reason = reason});
}

void ConnectionManager::enter_timewait(Connection& connection, Time now) {
  connection.state = State::timewait;
  set_deadline(connection, now + kTimewait);
}

void ConnectionManager::on(const Route& route, std::uint64_t transaction, const DisconnectMessage& message, Time now) {
  Connection* const connection = find_both(route, message.local_id, message.remote_id);
  const Message done{transaction, DisconnectedMessage{.local_id = message.remote_id, .remote_id = message.local_id}};
  if (connection == nullptr) {
    send(route, done);  // the connection is over here, and our DREP was lost
    return;
  }
  switch (connection->state) {
    case State::reply_received:
    case State::reply_sent:
    case State::established:
    case State::disconnect_sent:
      if (message.remote_qp != connection->queue_pair) {
        return;
      }
      send(route, done);
      end(*connection, Event::Kind::disconnected, 0);
      enter_timewait(*connection, now);
      break;
    case State::timewait:
    case State::closed:
      send(route, done);
      break;
    default:
      break;
  }
}

void ConnectionManager::on(const Route& route, std::uint64_t /*transaction*/, const DisconnectedMessage& message,
                           Time now) {
  Connection* const connection = find_both(route, message.local_id, message.remote_id);
  if (connection != nullptr && connection->state == State::disconnect_sent) {
    end(*connection, Event::Kind::disconnected, 0);
    enter_timewait(*connection, now);
  }
}

// ---- Datagrams.

void ConnectionManager::on(const Route& route, std::uint64_t transaction, const DatagramRequestMessage& message,
                           Time now) {
  if (message.request_id == 0) {
    return;
  }
  if (const Connection* const known = find_remote(route, message.request_id, true)) {
    if (known->state == State::datagram_answered) {
      outgoing_.push_back({.route = route, .mad = known->last});
    }
    return;
  }
  Connection* const request = make(route, transaction, now);
  if (request == nullptr) {
    return;  // it will be repeated
  }
  request->state = State::datagram_received;
  request->service_id = message.service_id;
  know(*request, message.request_id, true);
  report(*request, {.kind = Event::Kind::datagram_request,
                    .service_id = message.service_id,
                    .private_data = bytes_of(message.private_data)});
}

void ConnectionManager::on(const Route& route, std::uint64_t /*transaction*/, const DatagramReplyMessage& message,
                           Time /*now*/) {
  Connection* const request = find(message.request_id);
  if (request == nullptr || request->route != route || request->state != State::datagram_asked) {
    return;
  }
  request->state = State::closed;
  set_deadline(*request, Time::max());
  request->agreement.remote_qp = message.queue_pair;
  report(*request, {.kind = Event::Kind::datagram_reply,
                    .service_id = message.service_id,
                    .reason = static_cast<unsigned>(message.status),
                    .terms = {.queue_pair = message.queue_pair},
                    .q_key = message.q_key,
                    .private_data = bytes_of(message.private_data)});
}

// ---- Time.

Time ConnectionManager::next_deadline() const noexcept {
  return deadlines_.empty() ? look_at_ : std::min(look_at_, deadlines_.begin()->first);
}

void ConnectionManager::advance(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Connection* const connection = find(deadlines_.begin()->second);
    set_deadline(*connection, Time::max());
    on_deadline(*connection, now);
  }
  if (look_at_ <= now) {
    look_for_departed(now);
  }
}

void ConnectionManager::on_deadline(Connection& connection, Time now) {
  switch (connection.state) {
    case State::timewait:
      report(connection, {.kind = Event::Kind::timewait_exit});
      connection.state = State::closed;
      break;
    case State::datagram_answered:
      connection.state = State::closed;
      break;
    case State::request_sent:
    case State::reply_sent:
    case State::disconnect_sent:
    case State::datagram_asked:
      // More than the limit, if the owner has released a connection that was repeated often already.
      if (connection.retries >= (connection.is_released && !is_leaving_ ? kMostRetriesOfReleased : kMostRetries)) {
        give_up(connection, now);
        break;
      }
      ++connection.retries;
      connection.interval = is_leaving_ ? kFarewellInterval : std::min<Time>(2 * connection.interval, kLongestInterval);
      outgoing_.push_back({.route = connection.route, .mad = connection.last});
      repeat_after_interval(connection, now);
      break;
    default:
      break;
  }
  if (connection.is_released && connection.state == State::closed) {
    erase(connection);
  }
}

void ConnectionManager::give_up(Connection& connection, Time now) {
  if (connection.state == State::disconnect_sent) {
    end(connection, Event::Kind::disconnected, kRejectTimeout);
    enter_timewait(connection, now);
    return;
  }
  if (connection.state == State::request_sent || connection.state == State::reply_sent) {
    send_reject(connection, kRejectTimeout, {});
  }
  report(connection, {.kind = Event::Kind::unreachable});
  connection.state = State::closed;
}

// ---- Other sides that are gone.

// The process at the other end was killed, say. A kernel would close its connections for it.
void ConnectionManager::look_for_departed(Time now) {
  std::map<Gid, std::optional<std::uint64_t>> here;
  std::vector<ConnectionId> departed;
  bool watches = false;
  for (const auto& [id, connection] : connections_) {
    if (!connection.occupant || connection.state == State::timewait || connection.state == State::closed ||
        connection.state == State::datagram_received || connection.state == State::datagram_answered) {
      continue;
    }
    const auto [at, is_new] = here.try_emplace(connection.route.remote);
    at->second = is_new ? occupant_(connection.route.remote) : at->second;
    if (at->second && (*at->second == 0 || *at->second != *connection.occupant)) {
      departed.push_back(id);
    } else {
      watches = true;
    }
  }
  look_at_ = watches ? now + kLookInterval : Time::max();
  for (const ConnectionId id : departed) {
    on_departure(*find(id), now);
  }
}

void ConnectionManager::on_departure(Connection& connection, Time now) {
  switch (connection.state) {
    case State::established:
    case State::disconnect_sent:
      end(connection, Event::Kind::disconnected, 0);
      enter_timewait(connection, now);
      break;
    case State::request_received:
      close(connection, {.kind = Event::Kind::rejected, .reason = kRejectTimeout});
      break;
    case State::reply_received:
    case State::reply_sent:
      close(connection, {.kind = Event::Kind::rejected, .reason = kConsumerReject});
      break;
    case State::request_sent:
      // A kernel rejects the requests that its process has not accepted, or is not there to accept.
      close(connection, *connection.occupant != 0 ? Event{.kind = Event::Kind::rejected, .reason = kConsumerReject}
                                                  : Event{.kind = Event::Kind::unreachable});
      break;
    default:
      close(connection, {.kind = Event::Kind::unreachable});
      break;
  }
  if (connection.is_released && connection.state == State::closed) {
    erase(connection);
  }
}

}  // namespace sidelatch::softnic::cm
