// Identifiers: addresses, ports, channels.
#include "rdma_ids.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sidelatch::softnic::cm {

namespace {

// :: may stand for both: an IPv4 address may have come in the form of IPv6.
bool may_lead(const SocketAddress& source, const SocketAddress& destination) {
  return source.is_ipv4() == destination.is_ipv4() || source.ip == roce::Gid{};
}

}  // namespace

using IdState = RdmaIds::Id::State;

RdmaIds::RdmaIds(Surroundings& surroundings, const Options& options)
    : surroundings_(surroundings),
      options_(options),
      manager_({.ca_guid = options.ca_guid, .seed = options.seed, .occupant = [&surroundings](const Gid& gid) {
                  return surroundings.occupant(gid);
                }}) {}

// ---- Channels.

ChannelNumber RdmaIds::open_channel() {
  channels_.try_emplace(next_channel_);
  return next_channel_++;
}

void RdmaIds::close_channel(ChannelNumber channel, Time now) {
  std::vector<IdNumber> its;
  for (const auto& [number, id] : ids_) {
    if (id.channel == channel) {
      its.push_back(number);
    }
  }
  for (const IdNumber number : its) {
    if (const auto found = ids_.find(number); found != ids_.end()) {  // ending one may end others
      end(found->second, now);
    }
  }
  channels_.erase(channel);
}

std::optional<IdEvent> RdmaIds::next_event(ChannelNumber channel) {
  std::deque<IdEvent>& waiting = channels_.at(channel);
  if (waiting.empty()) {
    return std::nullopt;
  }
  IdEvent event = std::move(waiting.front());
  waiting.pop_front();
  if (const auto owner = ids_.find(event.owner); owner != ids_.end()) {
    ++owner->second.events_reported;
    if (event.kind == IdEventKind::connect_request) {
      ++owner->second.backlog;
    }
  }
  if (const auto membership = memberships_.find(event.id); membership != memberships_.end()) {
    ++membership->second.events_reported;
  }
  return event;
}

std::size_t RdmaIds::waiting_events(ChannelNumber channel) const noexcept {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? 0 : found->second.size();
}

void RdmaIds::report(const Id& id, IdEvent event) {
  event.id = event.owner = id.number;
  event.uid = id.uid;
  event.service = id.service;
  event.route = id.route;
  event.traffic_class = id.traffic_class;
  channels_.at(id.channel).push_back(std::move(event));
}

std::uint32_t RdmaIds::migrate(ChannelNumber from, IdNumber id, ChannelNumber to) {
  Id& its = find(from, id);
  std::deque<IdEvent>& old = channels_.at(from);
  std::deque<IdEvent>& fresh = channels_.at(to);
  its.channel = to;
  const auto is_its = [id](const IdEvent& event) { return event.owner == id; };
  if (from != to) {
    std::ranges::copy_if(old, std::back_inserter(fresh), is_its);
    std::erase_if(old, is_its);
  }
  // Requests that wait belong to whoever listens.
  for (const IdEvent& event : fresh) {
    if (const auto child = ids_.find(event.id); child != ids_.end() && is_its(event)) {
      child->second.channel = to;
    }
  }
  return its.events_reported;
}

// ---- Making and ending.

RdmaIds::Id& RdmaIds::find(ChannelNumber channel, IdNumber id) {
  const auto found = ids_.find(id);
  if (found == ids_.end() || found->second.channel != channel) {
    throw IdError(found == ids_.end() ? ENOENT : EINVAL, "there is no such identifier at this event channel");
  }
  return found->second;
}

const RdmaIds::Id& RdmaIds::query(ChannelNumber channel, IdNumber id) const {
  return const_cast<RdmaIds*>(this)->find(channel, id);  // NOLINT: the lookup changes nothing
}

// A number comes back only after all others.
IdNumber RdmaIds::free_number() {
  if (!has_room()) {
    throw IdError(ENOMEM, "librdmacm knows 65535 identifiers at most");
  }
  while (ids_.contains(next_id_) || memberships_.contains(next_id_)) {
    next_id_ = next_id_ % kMostIds + 1;
  }
  return std::exchange(next_id_, next_id_ % kMostIds + 1);
}

RdmaIds::Id& RdmaIds::make(ChannelNumber channel, PortSpace space, Service service) {
  const IdNumber number = free_number();
  Id& made = ids_[number];
  made.number = number;
  made.channel = channel;
  made.space = space;
  made.service = service;
  return made;
}

IdNumber RdmaIds::create(ChannelNumber channel, std::uint64_t uid, PortSpace space, Service service) {
  Id& made = make(channel, space, service);
  made.uid = uid;
  return made.number;
}

std::uint32_t RdmaIds::destroy(ChannelNumber channel, IdNumber id, Time now) {
  Id& its = find(channel, id);
  const std::uint32_t reported = its.events_reported;
  end(its, now);
  return reported;
}

void RdmaIds::end(Id& id, Time now) {
  const IdNumber number = id.number;
  std::vector<IdNumber> unread;  // identifiers of requests that nobody has seen
  std::erase_if(channels_.at(id.channel), [&](const IdEvent& event) {
    if (event.owner != number) {
      return false;
    }
    if (event.id != number && event.kind == IdEventKind::connect_request) {
      unread.push_back(event.id);
    }
    return true;
  });
  if (id.connection != 0) {
    manager_.release(id.connection, now);
    by_connection_.erase(id.connection);
  }
  if (id.has_port) {
    surroundings_.give_port(number);
  }
  std::erase_if(memberships_, [number](const auto& one) { return one.second.owner == number; });
  resolving_.erase(number);
  early_connects_.erase(number);
  ids_.erase(number);
  for (const IdNumber one : unread) {
    if (const auto found = ids_.find(one); found != ids_.end()) {
      end(found->second, now);
    }
  }
}

// ---- Addresses.

std::optional<Gid> RdmaIds::own_gid_for(const Gid& remote) const {
  for (const Gid& own : surroundings_.gids()) {
    if (roce::is_ipv4(own) == roce::is_ipv4(remote)) {
      return own;
    }
  }
  return std::nullopt;
}

bool RdmaIds::is_ours(const SocketAddress& address) const {
  return std::ranges::find(surroundings_.gids(), address.ip) != surroundings_.gids().end() ||
         surroundings_.is_of_machine(address);
}

void RdmaIds::bind(ChannelNumber channel, IdNumber id, const SocketAddress& address) {
  Id& its = find(channel, id);
  if (its.state != IdState::idle) {
    throw IdError(EINVAL, "the identifier has an address already");
  }
  bind(its, address);
}

void RdmaIds::bind(Id& id, const SocketAddress& address) {
  if (!address.is_any() && !is_ours(address)) {
    throw IdError(EADDRNOTAVAIL, "the address is neither this machine's nor this station's on the wire");
  }
  SocketAddress taken = address;
  taken.port = surroundings_.take_port(id.space, address,
                                       {.reuses_address = id.reuses_address, .only_family = id.only_family}, id.number);
  id.has_port = true;
  id.source = taken;
  id.state = IdState::bound;
  if (!address.is_any()) {
    id.has_device = true;
    const bool is_at_wire = std::ranges::find(surroundings_.gids(), address.ip) != surroundings_.gids().end();
    id.route.local = is_at_wire ? address.ip : surroundings_.gids().back();
  }
}

// For an address of the machine: the station that has the port now. False: nobody has it; then the route leads to
// ourselves, where the answer will be that nobody listens.
bool RdmaIds::choose_route(Id& id) {
  if (!surroundings_.is_of_machine(id.destination)) {
    return true;
  }
  const std::optional<Gid> station = surroundings_.station_at(id.space, id.destination);
  const Gid remote = station.value_or(surroundings_.gids().back());
  if (const std::optional<Gid> own = own_gid_for(remote)) {
    id.route = {.local = *own, .remote = remote};
  }
  return station.has_value();
}

void RdmaIds::resolve_address(ChannelNumber channel, IdNumber id, const std::optional<SocketAddress>& source,
                              const SocketAddress& asked_for, std::chrono::milliseconds at_most, Time now) {
  Id& its = find(channel, id);
  if (its.state != IdState::idle && its.state != IdState::bound) {
    throw IdError(EINVAL, "the identifier has a destination already, or listens");
  }
  const SocketAddress destination = asked_for.as_destination();  // as the kernel's cma_resolve_loopback()
  const std::optional<SocketAddress> from = its.state == IdState::bound ? its.source : source;
  if (from && !may_lead(*from, destination)) {
    throw IdError(EINVAL, "the source and the destination are of IPv4 and IPv6");
  }
  const bool is_local = surroundings_.is_of_machine(destination);
  const std::optional<Gid> own = own_gid_for(destination.ip);
  if (its.state == IdState::idle && source && !source->is_any()) {
    bind(its, *source);
  }
  its.destination = destination;
  if (!is_local && !own) {
    finish_resolving(its, ENETUNREACH);
    return;
  }
  const Gid seen_as = is_local ? destination.ip : *own;  // the address of ours that the destination knows
  if (its.state == IdState::idle) {
    bind(its, {.ip = seen_as, .port = source ? source->port : std::uint16_t{0}});
  } else if (its.source.is_any()) {
    its.source.ip = seen_as;
  }
  its.state = IdState::resolving;
  its.route = {.local = own.value_or(surroundings_.gids().back()), .remote = destination.ip};
  static_cast<void>(choose_route(its));  // connect() looks again
  its.resolve_until = now + at_most;
  if (is_local || roce::is_group(destination.ip) || surroundings_.reaches(its.route.remote)) {
    finish_resolving(its, 0);
    return;
  }
  resolving_.insert(id);
  look_next_ = now + kLookAgain;
}

void RdmaIds::finish_resolving(Id& id, int error) {
  resolving_.erase(id.number);
  id.has_device = id.has_device || error == 0;
  id.state = error == 0 ? IdState::address_resolved : id.has_port ? IdState::bound : IdState::idle;
  report(id, {.kind = error == 0 ? IdEventKind::address_resolved : IdEventKind::address_error, .status = -error});
}

void RdmaIds::resolve_route(ChannelNumber channel, IdNumber id) {
  Id& its = find(channel, id);
  if (its.state != IdState::address_resolved) {
    throw IdError(EINVAL, "the address is not resolved");
  }
  its.state = IdState::route_resolved;
  report(its, {.kind = IdEventKind::route_resolved});
}

// ---- Groups.

IdNumber RdmaIds::join_group(ChannelNumber channel, IdNumber id, std::uint64_t uid, const SocketAddress& group) {
  Id& its = find(channel, id);
  if (its.service != Service::datagram || !roce::is_group(group.ip)) {
    throw IdError(EINVAL, "only an identifier for datagrams joins a group, which is a multicast address");
  }
  const std::optional<Gid> own = own_gid_for(group.ip);
  const bool is_early = its.state == IdState::bound || its.state == IdState::address_resolved;
  if (!its.has_device || !is_early || !own) {
    throw IdError(own ? EINVAL : ENETUNREACH,
                  "the identifier has no device, or a route already, or the device no address of this kind");
  }
  const IdNumber number = free_number();
  memberships_[number] = {.owner = id};
  channels_.at(channel).push_back({.kind = IdEventKind::group_joined,
                                   .id = number,
                                   .owner = id,
                                   .uid = uid,
                                   .service = Service::datagram,
                                   .terms = {.queue_pair = 0xffffff},
                                   .q_key = its.q_key,
                                   .route = {.local = *own, .remote = group.ip}});
  return number;
}

std::uint32_t RdmaIds::leave_group(ChannelNumber channel, IdNumber membership) {
  const auto found = memberships_.find(membership);
  if (found == memberships_.end()) {
    throw IdError(ENOENT, "there is no such membership of a group");
  }
  static_cast<void>(find(channel, found->second.owner));
  std::erase_if(channels_.at(channel), [&](const IdEvent& event) { return event.id == membership; });
  const std::uint32_t reported = found->second.events_reported;
  memberships_.erase(found);
  return reported;
}

// ---- Options.

void RdmaIds::set_traffic_class(ChannelNumber channel, IdNumber id, std::uint8_t value) {
  find(channel, id).traffic_class = value;
}
void RdmaIds::set_reuse(ChannelNumber channel, IdNumber id, bool value) {
  Id& its = find(channel, id);
  // Linux's rdma_set_reuseaddr().
  if (its.state != IdState::idle && (!value || its.state == IdState::listening)) {
    throw IdError(EINVAL,
                  "REUSEADDR cannot be set while the identifier listens, nor taken back when it has an address");
  }
  its.reuses_address = value;
  share(its);
}
void RdmaIds::set_only_family(ChannelNumber channel, IdNumber id, bool value) {
  Id& its = find(channel, id);
  if (its.state != IdState::idle && its.state != IdState::bound) {
    throw IdError(EINVAL, "AFONLY must be set before the identifier listens or has a destination");
  }
  its.only_family = value;
  share(its);
}
// What was said when the port was taken holds no more.
void RdmaIds::share(const Id& id) {
  if (id.has_port) {
    surroundings_.share_port(id.number, {.reuses_address = id.reuses_address, .only_family = id.only_family});
  }
}
void RdmaIds::set_ack_timeout(ChannelNumber channel, IdNumber id, std::uint8_t value) {
  constexpr std::uint8_t kMost = 31;
  Id& its = find(channel, id);
  if (its.service == Service::datagram || value > kMost) {
    throw IdError(EINVAL, "an ACK timeout is 0 to 31, of a reliable connection");
  }
  its.ack_timeout = value;
}

// ---- Time.

Time RdmaIds::next_deadline() const noexcept {
  const bool looks = !resolving_.empty() || !early_requests_.empty() || !early_connects_.empty();
  return looks ? std::min(manager_.next_deadline(), look_next_) : manager_.next_deadline();
}

void RdmaIds::advance(Time now) {
  manager_.advance(now);
  handle_events(now);
  if (next_deadline() <= now) {
    look_next_ = now + kLookAgain;
    look_again(now);
  }
}

void RdmaIds::look_again(Time now) {
  for (const IdNumber number : std::vector(resolving_.begin(), resolving_.end())) {
    Id& id = ids_.at(number);
    if (surroundings_.reaches(id.route.remote)) {
      finish_resolving(id, 0);
    } else if (now >= id.resolve_until) {
      finish_resolving(id, ETIMEDOUT);
    }
  }
  std::erase_if(early_connects_, [&](const auto& entry) {
    Id& id = ids_.at(entry.first);
    const bool is_time = choose_route(id) || now >= entry.second.until;
    if (is_time) {
      start(id, entry.second.parameters, now);
    }
    return is_time;
  });
  std::erase_if(early_requests_, [&](const EarlyRequest& early) {
    Id* const listener = listener_for(early.event);
    if (listener != nullptr) {
      welcome(early.event, *listener, now);
    } else if (now >= early.until) {
      refuse(early.event, now);
    }
    return listener != nullptr || now >= early.until;
  });
}

}  // namespace sidelatch::softnic::cm
