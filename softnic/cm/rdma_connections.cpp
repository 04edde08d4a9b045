// Identifiers: connections.
#include "rdma_ids.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sidelatch::softnic::cm {

namespace {

using State = RdmaIds::Id::State;

[[noreturn]] void refuse_state() { throw IdError(EINVAL, "the state of the identifier does not allow this"); }

void require_room(std::size_t given, std::size_t most) {
  if (given > most) {
    throw IdError(EINVAL, "too much private data: " + std::to_string(given) + " bytes, and " + std::to_string(most) +
                              " are the most");
  }
}

std::vector<std::byte> with_addresses(const RdmaIds::Id& id, std::span<const std::byte> private_data) {
  const auto header = encode(AddressHeader{.source = id.source, .destination = id.destination});
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), private_data.begin(), private_data.end());
  return bytes;
}

}  // namespace

// ---- Calls.

void RdmaIds::connect(ChannelNumber channel, IdNumber id, const ConnectionParameters& parameters, Time now) {
  Id& its = find(channel, id);
  if (its.state != State::route_resolved || its.service == Service::xrc_target) {
    refuse_state();
  }
  require_room(
      parameters.private_data.size(),
      (its.service == Service::datagram ? kDatagramRequestPrivateBytes : kRequestPrivateBytes) - kAddressHeaderBytes);
  its.state = State::connecting;
  its.responder_resources = parameters.terms.responder_resources;
  if (choose_route(its)) {  // the other side may listen only since the address was resolved
    start(its, parameters, now);
  } else {
    early_connects_[id] = {.parameters = parameters, .until = now + kGrace};
    look_next_ = now + kLookAgain;
  }
}

void RdmaIds::start(Id& id, const ConnectionParameters& parameters, Time now) {
  const std::uint64_t service_id = service_id_of(id.space, id.destination.port);
  const std::vector<std::byte> bytes = with_addresses(id, parameters.private_data);
  if (id.service == Service::datagram) {
    id.connection = manager_.ask({.route = id.route, .service_id = service_id, .private_data = bytes}, now);
  } else {
    Terms terms = parameters.terms;
    terms.is_extended = id.service == Service::xrc_initiator;
    id.connection = manager_.connect({.route = id.route,
                                      .service_id = service_id,
                                      .terms = terms,
                                      .path_mtu = options_.path_mtu,
                                      .ack_timeout = id.ack_timeout,
                                      .traffic_class = id.traffic_class,
                                      .private_data = bytes},
                                     now);
  }
  if (id.connection == 0) {
    report(id, {.kind = IdEventKind::connect_error, .status = -ENOMEM});  // there are too many connections
    return;
  }
  by_connection_[id.connection] = id.number;
}

void RdmaIds::listen(ChannelNumber channel, IdNumber id, std::uint32_t backlog) {
  Id& its = find(channel, id);
  if (its.state == State::idle) {
    bind(its, {.ip = roce::gid_of(roce::Ipv4Address{})});
  }
  if (its.state != State::bound) {
    refuse_state();
  }
  surroundings_.open_port(id);
  look_next_ = {};  // somebody may be early
  its.backlog = backlog > 0 && backlog < kMostBacklog ? backlog : kMostBacklog;
  its.state = State::listening;
}

void RdmaIds::accept(ChannelNumber channel, IdNumber id, std::uint64_t uid,
                     const std::optional<ConnectionParameters>& parameters, Time now) {
  Id& its = find(channel, id);
  if (its.state != State::connecting) {
    refuse_state();
  }
  if (!parameters) {
    if (!manager_.confirm(its.connection, now)) {
      refuse_state();
    }
    return;
  }
  its.uid = uid;
  its.is_request = false;
  const std::size_t most = its.service == Service::datagram ? kDatagramReplyPrivateBytes : kReplyPrivateBytes;
  if (parameters->private_data.size() > most) {
    reject(channel, id, 0, {}, now);  // the other side does not wait for another attempt, as with the kernel
  }
  require_room(parameters->private_data.size(), most);
  if (its.service == Service::datagram) {
    its.q_key = parameters->q_key != 0 ? parameters->q_key : kDefaultQKey;
    if (!manager_.answer(
            its.connection,
            {.queue_pair = parameters->terms.queue_pair, .q_key = its.q_key, .private_data = parameters->private_data},
            now)) {
      refuse_state();
    }
    return;
  }
  if (!manager_.accept(its.connection, parameters->terms, parameters->private_data, now)) {
    refuse_state();
  }
}

void RdmaIds::reject(ChannelNumber channel, IdNumber id, std::uint8_t reason, std::span<const std::byte> private_data,
                     Time now) {
  Id& its = find(channel, id);
  if (its.service == Service::datagram) {
    require_room(private_data.size(), kDatagramReplyPrivateBytes);
    if (!manager_.answer(its.connection, {.status = DatagramStatus::rejected, .private_data = private_data}, now)) {
      refuse_state();
    }
    return;
  }
  require_room(private_data.size(), kRejectPrivateBytes);
  if (!manager_.reject(its.connection, reason == 0 ? kConsumerReject : reason, private_data)) {
    refuse_state();
  }
}

void RdmaIds::disconnect(ChannelNumber channel, IdNumber id, Time now) {
  const Id& its = find(channel, id);
  if (its.connection == 0) {
    refuse_state();
  }
  if (its.service != Service::datagram) {
    static_cast<void>(manager_.disconnect(its.connection, now));  // what is not connected stays so
  }
}

PairAttributes RdmaIds::pair_attributes(ChannelNumber channel, IdNumber id) const {
  const Id& its = query(channel, id);
  PairAttributes attributes{.q_key = its.q_key};
  if (its.service != Service::datagram && its.connection != 0) {
    attributes.has_connection = true;
    attributes.agreement = manager_.agreement(its.connection);
    attributes.serves_reads = attributes.agreement.responder_resources != 0 || its.responder_resources != 0;
  }
  return attributes;
}

void RdmaIds::notify_established(ChannelNumber channel, IdNumber id) {
  const Id& its = find(channel, id);
  if (manager_.is_established(its.connection)) {
    throw IdError(EISCONN, "the connection is established already");
  }
  if (!manager_.establish(its.connection)) {
    refuse_state();
  }
  handle_events({});
}

// ---- Events.

void RdmaIds::on_mad(const Route& route, std::span<const std::byte> mad, Time now) {
  manager_.on_mad(route, mad, now);
  handle_events(now);
}

void RdmaIds::leave(Time now) {
  manager_.leave(now);
  handle_events(now);
}

void RdmaIds::handle_events(Time now) {
  for (const Event& event : manager_.take_events()) {
    handle(event, now);
  }
}

void RdmaIds::handle(const Event& event, Time now) {
  if (event.kind == Event::Kind::connection_request || event.kind == Event::Kind::datagram_request) {
    handle_request(event, now);
    return;
  }
  const auto found = by_connection_.find(event.id);
  if (found == by_connection_.end()) {
    return;
  }
  const Id& id = ids_.at(found->second);
  if (id.is_request) {
    return;  // accept() will fail; the program does not know the identifier yet
  }
  IdEvent told{.terms = event.terms, .q_key = event.q_key, .private_data = event.private_data};
  switch (event.kind) {
    case Event::Kind::connection_reply:
      told.kind = IdEventKind::connect_response;
      static_cast<void>(manager_.hold(event.id));  // the program takes its time to set up its queue pair
      break;
    case Event::Kind::established:
      told.kind = IdEventKind::established;
      break;
    case Event::Kind::rejected:
      told.kind = IdEventKind::rejected;
      told.status = static_cast<int>(event.reason);
      break;
    case Event::Kind::unreachable:
      told.kind = IdEventKind::unreachable;
      told.status = -ETIMEDOUT;
      break;
    case Event::Kind::disconnected:
      told.kind = IdEventKind::disconnected;
      told.status = event.reason == 0 ? 0 : -ETIMEDOUT;
      break;
    case Event::Kind::timewait_exit:
      told.kind = IdEventKind::timewait_exit;
      break;
    case Event::Kind::datagram_reply:
      told.kind = event.reason == 0 ? IdEventKind::established : IdEventKind::unreachable;
      told.status = static_cast<int>(event.reason);
      break;
    default:
      return;
  }
  report(id, std::move(told));
}

RdmaIds::Id* RdmaIds::listener_for(PortSpace space, const SocketAddress& address) {
  Id* any = nullptr;
  for (auto& [number, id] : ids_) {
    if (id.state != State::listening || id.space != space || id.source.port != address.port) {
      continue;
    }
    if (id.source.ip == address.ip) {
      return &id;
    }
    const bool is_of_family = id.source.is_ipv4() == address.is_ipv4() || (!id.source.is_ipv4() && !id.only_family);
    if (id.source.is_any() && is_of_family) {
      any = &id;
    }
  }
  return any;
}

void RdmaIds::refuse(const Event& event, Time now) {
  if (event.kind == Event::Kind::datagram_request) {
    static_cast<void>(manager_.answer(event.id, {.status = DatagramStatus::unsupported_service}, now));
  } else {
    static_cast<void>(manager_.reject(event.id, kInvalidServiceId, {}));
  }
  manager_.release(event.id, now);
}

RdmaIds::Id* RdmaIds::listener_for(const Event& event) {
  const std::optional<AddressHeader> addresses =
      is_of_ip(event.service_id) ? decode_addresses(event.private_data, event.service_id) : std::nullopt;
  const Service wanted = event.kind == Event::Kind::datagram_request ? Service::datagram
                         : event.terms.is_extended                   ? Service::xrc_target
                                                                     : Service::reliable_connection;
  Id* const listener = addresses ? listener_for(port_space_of(event.service_id), addresses->destination) : nullptr;
  return listener != nullptr && listener->service == wanted ? listener : nullptr;
}

void RdmaIds::handle_request(const Event& event, Time now) {
  if (Id* const listener = listener_for(event)) {
    welcome(event, *listener, now);
  } else if (early_requests_.size() < kMostEarly) {
    early_requests_.push_back({.event = event, .until = now + kGrace});
    look_next_ = now + kLookAgain;
  } else {
    refuse(event, now);
  }
}

void RdmaIds::welcome(const Event& event, Id& listener, Time now) {
  if (listener.backlog == 0 || !has_room()) {
    // The request comes again. The kernel does the same with connections, but refuses datagrams with status 2.
    if (event.kind == Event::Kind::datagram_request) {
      manager_.release(event.id, now);
    } else {
      manager_.forget(event.id);
    }
    return;
  }
  --listener.backlog;
  Id& child = make(listener.channel, listener.space, listener.service);
  child.state = State::connecting;
  child.is_request = true;
  child.has_device = true;
  const std::optional<AddressHeader> addresses = decode_addresses(event.private_data, event.service_id);
  child.source = addresses->destination;
  child.destination = addresses->source;
  child.route = event.route;
  child.connection = event.id;
  by_connection_[event.id] = child.number;
  if (event.kind == Event::Kind::connection_request) {
    const Agreement asked_for = manager_.agreement(event.id);
    child.traffic_class = asked_for.traffic_class;
    child.ack_timeout = asked_for.ack_timeout;
  }
  IdEvent told{.kind = IdEventKind::connect_request,
               .id = child.number,
               .owner = listener.number,
               .uid = listener.uid,
               .service = listener.service,
               .terms = event.terms,
               .route = event.route,
               .private_data = {event.private_data.begin() + kAddressHeaderBytes, event.private_data.end()}};
  channels_.at(listener.channel).push_back(std::move(told));
  if (event.kind == Event::Kind::connection_request) {
    static_cast<void>(manager_.hold(event.id));  // the program takes its time to accept
  }
}

}  // namespace sidelatch::softnic::cm
