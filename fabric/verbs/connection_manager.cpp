#include "connection_manager.h"

#include "little_endian.h"
#include "socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace sidelatch::fabric::verbs {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kMagic = "SLcm";
constexpr std::size_t kHeaderBytes = 6;
// RDMA_PS_TCP: the room for a refusal that the connection manager leaves in its message.
constexpr std::size_t kRefusalBytes = 148;
// IB specification, table 109 (reasons for a REJ).
constexpr int kNobodyListens = 8;
// The other side still has this queue pair's earlier connection, whose end is on its way.
constexpr int kStaleConnection = 10;
constexpr int kRefusedByTheServer = 28;

[[noreturn]] void fail_connection(const std::string& what, int error, std::string_view advice = {}) {
  throw ManagerError(failure_text(what, error, advice));
}

std::vector<std::byte> header() {
  std::vector<std::byte> out;
  for (const char letter : kMagic) {
    out.push_back(static_cast<std::byte>(letter));
  }
  append(out, exchange::kVersion);
  return out;
}

bool has_magic(std::span<const std::byte> data) {
  return data.size() >= kHeaderBytes && std::memcmp(data.data(), kMagic.data(), kMagic.size()) == 0;
}

// ---- Addresses.

// `interface`: needed for link-local addresses.
sockaddr_storage socket_address(const ibv_gid& ip, std::uint16_t port, std::uint32_t interface) {
  sockaddr_storage storage{};
  if (is_mapped_ipv4(ip)) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.raw + 12, sizeof v4.sin_addr);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, ip.raw, sizeof v6.sin6_addr);
    v6.sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? interface : 0;
  }
  return storage;
}

ibv_gid ip_of(const sockaddr_storage& address) {
  ibv_gid ip{};
  if (address.ss_family == AF_INET) {
    ip.raw[10] = ip.raw[11] = 0xff;
    std::memcpy(ip.raw + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else {
    std::memcpy(ip.raw, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, sizeof ip.raw);
  }
  return ip;
}

bool names_one_machine(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const std::uint32_t host = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
    return host != INADDR_ANY && (host >> 24) != IN_LOOPBACKNET;
  }
  const in6_addr& host = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return !IN6_IS_ADDR_UNSPECIFIED(&host) && !IN6_IS_ADDR_LOOPBACK(&host);
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = address.ss_family == AF_INET;
  const void* const ip = v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                            : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  const std::uint16_t port = ntohs(v4 ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                      : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  ::inet_ntop(address.ss_family, ip, text.data(), text.size());
  return HostAndPort{text.data(), port}.to_string();
}

// librdmacm declares its addresses without const.
sockaddr* raw(sockaddr_storage& address) { return reinterpret_cast<sockaddr*>(&address); }

// ---- Events.

struct Event {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::uint8_t initiator_depth = 0;  // of this end, as allowed by the other end
  std::uint8_t responder = 0;        // of this end, as requested by the other end
  std::vector<std::byte> private_data;
};

ManagerChannel open_channel(const Port& port) {
  // A device that is not in sysfs, such as libsidelatch-verbs', is not the kernel's. The kernel's connection manager
  // does not know it, so do not ask it.
  if (port.context()->device->ibdev_path[0] == '\0') {
    throw ManagerError(
        fmt::format("{} is no device of the kernel, so the connection manager does not know it", port.device_name()));
  }
  ManagerChannel channel(rdma_create_event_channel());
  if (channel == nullptr) {
    fail_connection("cannot open the connection manager (/dev/infiniband/rdma_cm)", errno,
                    "load the kernel module rdma_ucm, or use Through::exchange");
  }
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    fail_connection("cannot set the connection manager's channel to non-blocking", errno);
  }
  return channel;
}

ManagerId make_id(const Port& port, rdma_event_channel& channel) {
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(&channel, &made, nullptr, RDMA_PS_TCP) != 0) {
    fail_connection("cannot make an identifier of the connection manager", errno);
  }
  ManagerId id(made);
  std::uint8_t type_of_service = port.connections().traffic_class;
  if (rdma_set_option(made, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type_of_service, sizeof type_of_service) != 0) {
    fail_connection(fmt::format("the connection manager does not take traffic_class {}", type_of_service), errno);
  }
  return id;
}

// Nothing if no event has come.
std::optional<Event> next_event(rdma_event_channel& channel) {
  rdma_cm_event* from = nullptr;
  if (rdma_get_cm_event(&channel, &from) != 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return std::nullopt;
    }
    fail_connection("the connection manager gives no events", errno);
  }
  Event event{.type = from->event, .status = from->status, .id = from->id, .private_data = {}};
  switch (from->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_REJECTED: {
      const rdma_conn_param& parameters = from->param.conn;
      event.initiator_depth = parameters.initiator_depth;
      event.responder = parameters.responder_resources;
      const auto* const data = static_cast<const std::byte*>(parameters.private_data);
      if (data != nullptr) {
        event.private_data.assign(data, data + parameters.private_data_len);
      }
      break;
    }
    default:
      break;
  }
  // An event that is not acknowledged keeps its identifier from being destroyed.
  rdma_ack_cm_event(from);
  return event;
}

// ---- Queue pairs.

// Combines the connection manager's path with this library's options.
void bring_up(const Port& port, rdma_cm_id& id, ibv_qp& queue_pair, std::uint8_t peer_mtu, std::uint8_t initiated,
              std::uint8_t served) {
  const ConnectionOptions& options = port.connections();
  const auto found = [&](ibv_qp_state state, int& mask) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    if (rdma_init_qp_attr(&id, &attributes, &mask) != 0) {
      fail_connection("the connection manager does not say how to connect the queue pair", errno);
    }
    return attributes;
  };
  int mask = IBV_QP_STATE;
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  port.modify(queue_pair, reset, mask, "RESET");

  ibv_qp_attr init = found(IBV_QPS_INIT, mask);
  init.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  port.modify(queue_pair, init, mask, "INIT");

  ibv_qp_attr receive = found(IBV_QPS_RTR, mask);
  receive.path_mtu = std::min({receive.path_mtu, port.mtu(), static_cast<ibv_mtu>(peer_mtu)});
  receive.max_dest_rd_atomic = served;
  receive.min_rnr_timer = options.min_rnr_timer;
  receive.ah_attr.grh.traffic_class = options.traffic_class;
  if (options.service_level != 0) {
    receive.ah_attr.sl = options.service_level;
  }
  port.modify(queue_pair, receive, mask, "RTR");

  ibv_qp_attr send = found(IBV_QPS_RTS, mask);
  send.timeout = options.timeout;
  send.retry_cnt = options.retry_count;
  send.rnr_retry = options.rnr_retry;
  send.max_rd_atomic = initiated;
  port.modify(queue_pair, send, mask, "RTS");
}

}  // namespace

struct StaleConnection : ManagerError {
  using ManagerError::ManagerError;
};

// One attempt of a client, with a channel of its own, so no event of an earlier attempt can interfere.
class ManagerConnect::Attempt {
 public:
  Attempt(const Port& port, const exchange::ManagerAddress& to, Patience patience)
      : port_(&port),
        asked_(to),
        to_(socket_address(to.ip, to.port, port.gid_interface())),
        patience_(patience),
        deadline_(Clock::now() + patience.limit),
        channel_(open_channel(port)),
        id_(make_id(port, *channel_)) {}

  void resolve() {
    // The source address chooses the device.
    sockaddr_storage from = socket_address(port_->gid(), 0, port_->gid_interface());
    const bool given = port_->is_ethernet() && from.ss_family == to_.ss_family;
    if (rdma_resolve_addr(id_.get(), given ? raw(from) : nullptr, raw(to_), left()) != 0) {
      fail_connection(fmt::format("no way from {} to {}", port_->device_name(), text_of(to_)), errno,
                      "both ends must be in one fabric or have IP routes");
    }
    wait_for(RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the address");
    require_same_device(*port_, *id_);
    if (rdma_resolve_route(id_.get(), left()) != 0) {
      fail_connection(fmt::format("no route from {} to {}", port_->device_name(), text_of(to_)), errno);
    }
    wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED, "resolving the route");
  }

  void ask(std::uint32_t queue_pair, std::uint64_t ticket, std::uint32_t outstanding) {
    const std::vector<std::byte> own = encode(Introduction{static_cast<std::uint8_t>(port_->mtu()), ticket});
    const auto wished = static_cast<std::uint8_t>(std::min<std::uint32_t>(outstanding, port_->most_initiated()));
    rdma_conn_param parameters{};
    parameters.private_data = own.data();
    parameters.private_data_len = static_cast<std::uint8_t>(own.size());
    parameters.initiator_depth = wished;
    parameters.responder_resources = 0;  // the server only serves
    parameters.flow_control = 1;
    parameters.retry_count = port_->connections().retry_count;
    parameters.rnr_retry_count = port_->connections().rnr_retry;
    parameters.qp_num = queue_pair;
    if (rdma_connect(id_.get(), &parameters) != 0) {
      fail_connection(fmt::format("cannot ask {} for a connection", text_of(to_)), errno);
    }
    const Event answer = wait_for(RDMA_CM_EVENT_CONNECT_RESPONSE, "connecting");
    const Introduction server = decode_introduction(answer.private_data);
    if (server.ticket != ticket) {
      throw ManagerError(fmt::format("{} answers with a ticket that was not asked for", text_of(to_)));
    }
    server_mtu_ = server.mtu;
    initiated_ = std::min(wished, answer.initiator_depth);
    if (initiated_ == 0) {
      throw ManagerError(fmt::format("{} serves no READs and atomics", text_of(to_)));
    }
  }

  std::uint32_t finish(ibv_qp& queue_pair) {
    bring_up(*port_, *id_, queue_pair, server_mtu_, initiated_, 0);
    if (rdma_establish(id_.get()) != 0) {
      fail_connection(fmt::format("cannot complete the connection to {}", text_of(to_)), errno);
    }
    return initiated_;
  }

  /// The same again, as long as there is time.
  [[nodiscard]] std::unique_ptr<Attempt> another() const {
    constexpr milliseconds kPause{5};
    if (Clock::now() + kPause >= deadline_) {
      return nullptr;
    }
    std::this_thread::sleep_for(kPause);
    auto next = std::make_unique<Attempt>(*port_, asked_, patience_);
    next->deadline_ = deadline_;
    next->resolve();
    return next;
  }

 private:
  [[nodiscard]] int left() const {  // at least 1
    const auto time = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(time.count(), 1));
  }

  Event wait_for(rdma_cm_event_type wanted, const char* doing) {
    for (;;) {
      std::optional<Event> event = next_event(*channel_);
      if (!event) {
        // poll() leaves out a negative descriptor.
        std::array<pollfd, 2> two{{{channel_->fd, POLLIN, 0}, {patience_.lifeline, POLLRDHUP, 0}}};
        if (Clock::now() >= deadline_ || (::poll(two.data(), two.size(), left()) < 0 && errno != EINTR)) {
          throw ManagerError(
              fmt::format("{} has not answered within {} ms ({})", text_of(to_), patience_.limit.count(), doing));
        }
        if (two[1].revents != 0) {
          throw ManagerError(fmt::format("{}: the conversation with the server ended while {}", text_of(to_), doing));
        }
        continue;
      }
      if (event->type == wanted && event->status == 0) {
        return *std::move(event);
      }
      if (event->type == RDMA_CM_EVENT_REJECTED && event->status == kStaleConnection) {
        throw StaleConnection(explain(*event, doing));
      }
      throw ManagerError(explain(*event, doing));
    }
  }

  [[nodiscard]] std::string explain(const Event& event, const char* doing) const {
    if (event.type == RDMA_CM_EVENT_REJECTED) {
      const std::string why = decode_refusal(event.private_data);
      if (event.status == kRefusedByTheServer && !why.empty()) {
        return fmt::format("{} refuses: {}", text_of(to_), why);
      }
      return fmt::format("{} refuses: {}", text_of(to_),
                         event.status == kNobodyListens
                             ? "nobody listens there; has the memory server ended?"
                             : fmt::format("reason {} of the InfiniBand specification, table 109", event.status));
    }
    return fmt::format("{}: {} ended with {} ({})", text_of(to_), doing, rdma_event_str(event.type),
                       event.status < 0 ? std::strerror(-event.status) : fmt::format("status {}", event.status));
  }

  const Port* port_;
  exchange::ManagerAddress asked_;
  sockaddr_storage to_;
  Patience patience_;
  Clock::time_point deadline_;
  ManagerChannel channel_;
  ManagerId id_;  // is destroyed before its channel
  // From the server's answer.
  std::uint8_t server_mtu_ = 0;
  std::uint8_t initiated_ = 0;
};

ManagerConnect::ManagerConnect(const Port& port, const exchange::ManagerAddress& to, Patience patience)
    : attempt_(std::make_unique<Attempt>(port, to, patience)) {
  attempt_->resolve();
}
ManagerConnect::~ManagerConnect() = default;
void ManagerConnect::ask(std::uint32_t queue_pair, std::uint64_t ticket, std::uint32_t outstanding) {
  for (;;) {
    try {
      attempt_->ask(queue_pair, ticket, outstanding);
      return;
    } catch (const StaleConnection&) {
      std::unique_ptr<Attempt> next = attempt_->another();
      if (next == nullptr) {
        throw;
      }
      attempt_ = std::move(next);
    }
  }
}
std::uint32_t ManagerConnect::finish(ibv_qp& queue_pair) { return attempt_->finish(queue_pair); }

std::vector<std::byte> encode(const Introduction& introduction) {
  std::vector<std::byte> out = header();
  append(out, introduction.mtu);
  append(out, introduction.ticket);
  return out;
}

Introduction decode_introduction(std::span<const std::byte> private_data) {
  if (!has_magic(private_data)) {
    throw ManagerError("the other side does not speak this protocol: is it a sidelatch memory server?");
  }
  const auto version = number_at<std::uint16_t>(private_data, kMagic.size());
  if (version != exchange::kVersion) {
    throw ManagerError(fmt::format("the other side speaks version {} of the protocol, this one version {}", version,
                                   exchange::kVersion));
  }
  if (private_data.size() < kHeaderBytes + 9) {
    throw ManagerError(fmt::format("private data of {} bytes is too short", private_data.size()));
  }
  const Introduction introduction{number_at<std::uint8_t>(private_data, kHeaderBytes),
                                  number_at<std::uint64_t>(private_data, kHeaderBytes + 1)};
  if (introduction.mtu < IBV_MTU_256 || introduction.mtu > IBV_MTU_4096) {
    throw ManagerError(fmt::format("MTU {} of the other side: it must be 1 to 5", introduction.mtu));
  }
  return introduction;
}

std::vector<std::byte> encode_refusal(std::string_view why) {
  std::vector<std::byte> out = header();
  for (const char letter : why.substr(0, kRefusalBytes - kHeaderBytes)) {
    out.push_back(static_cast<std::byte>(letter));
  }
  return out;
}

std::string decode_refusal(std::span<const std::byte> private_data) {
  std::string why;
  if (has_magic(private_data)) {
    for (const std::byte letter : private_data.subspan(kHeaderBytes)) {
      const char text = static_cast<char>(letter);
      if (text == '\0') {
        break;
      }
      // The text ends up in logs and on terminals.
      why.push_back(text >= ' ' && text <= '~' ? text : '?');
    }
  }
  return why;
}

void require_same_device(const Port& port, const rdma_cm_id& id) {
  const std::string device = id.verbs == nullptr ? "no RDMA device" : ibv_get_device_name(id.verbs->device);
  if (device != port.device_name() || id.port_num != port.number()) {
    throw ManagerError(
        fmt::format("the address belongs to port {} of {}, and this fabric uses port {} of {}: set "
                    "DeviceOptions::device and port, or use Through::exchange",
                    id.port_num, device, port.number(), port.device_name()));
  }
}

ConnectionListener::ConnectionListener(const Port& port, const sockaddr_storage& tcp)
    : port_(&port), channel_(open_channel(port)), listening_(make_id(port, *channel_)) {
  if (!port.is_ethernet() && !names_one_machine(tcp)) {
    throw ManagerError(
        fmt::format("the connection manager needs an IP address of {}: give its IPoIB interface's as "
                    "ServerOptions::address",
                    port.device_name()));
  }
  sockaddr_storage own = socket_address(port.is_ethernet() ? port.gid() : ip_of(tcp), 0, port.gid_interface());
  if (rdma_bind_addr(listening_.get(), raw(own)) != 0) {
    fail_connection(fmt::format("the connection manager cannot bind to {}", text_of(own)), errno,
                    "is it an address of the device's network interface?");
  }
  require_same_device(port, *listening_);
  constexpr int kBacklog = 128;
  if (rdma_listen(listening_.get(), kBacklog) != 0) {
    fail_connection(fmt::format("the connection manager cannot listen on {}", text_of(own)), errno);
  }
  at_ = {ip_of(own), ntohs(rdma_get_src_port(listening_.get()))};
}

void ConnectionListener::serve(const std::function<ibv_qp&(std::uint64_t ticket)>& end_for) {
  while (const std::optional<Event> event = next_event(*channel_)) {
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) {
      // The connection is established or has failed. Either way this identifier has no further use.
      accepted_.erase(event->id);
      if (event->id == listening_.get()) {
        throw ManagerError(fmt::format("the connection manager no longer listens: {}", rdma_event_str(event->type)));
      }
      continue;
    }
    ManagerId id(event->id);
    try {
      const Introduction client = decode_introduction(event->private_data);
      require_same_device(*port_, *id);
      ibv_qp& queue_pair = end_for(client.ticket);
      const std::uint8_t served = std::min(event->responder, port_->most_served());
      bring_up(*port_, *id, queue_pair, client.mtu, 0, served);
      const std::vector<std::byte> own = encode(Introduction{static_cast<std::uint8_t>(port_->mtu()), client.ticket});
      rdma_conn_param parameters{};
      parameters.private_data = own.data();
      parameters.private_data_len = static_cast<std::uint8_t>(own.size());
      parameters.responder_resources = served;
      parameters.initiator_depth = 0;
      parameters.flow_control = 1;
      parameters.rnr_retry_count = port_->connections().rnr_retry;
      parameters.qp_num = queue_pair.qp_num;
      if (rdma_accept(id.get(), &parameters) != 0) {
        fail_connection("the connection manager does not accept", errno);
      }
      rdma_cm_id* const key = id.get();
      accepted_.insert_or_assign(key, Accepted{std::move(id), queue_pair.qp_num});
    } catch (const std::exception& error) {
      const std::vector<std::byte> why = encode_refusal(error.what());
      rdma_reject(id.get(), why.data(), static_cast<std::uint8_t>(why.size()));
    }
  }
}

void ConnectionListener::forget(const ibv_qp& queue_pair) noexcept {
  std::erase_if(accepted_, [&](const auto& one) { return one.second.queue_pair == queue_pair.qp_num; });
}

void require_manager_route(const Port& port, const exchange::ManagerAddress& to, Patience patience) {
  const ManagerConnect attempt(port, to, patience);
}

std::uint32_t connect_through_manager(const Port& port, ibv_qp& queue_pair, const exchange::ManagerAddress& to,
                                      std::uint64_t ticket, std::uint32_t outstanding, Patience patience) {
  ManagerConnect attempt(port, to, patience);
  attempt.ask(queue_pair.qp_num, ticket, outstanding);
  return attempt.finish(queue_pair);
}

}  // namespace sidelatch::fabric::verbs
