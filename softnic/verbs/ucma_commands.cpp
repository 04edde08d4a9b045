#include "ucma_commands.h"

#include "context.h"
#include "ucma_structs.h"

#include <fmt/format.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>

namespace sidelatch::softnic::verbs {

namespace {

// One command: where it came from, and its bytes behind the header.
struct Command {
  ConnectionService& service;
  cm::ChannelNumber channel;
  int descriptor;
  std::optional<EventChannels::Waiter>& waiter;
  std::span<const std::byte> bytes;
  std::size_t response_bytes;

  // The struct of the command. Later fields than the program knows are 0.
  template <class Struct>
  [[nodiscard]] Struct as(std::size_t least = sizeof(Struct)) const {
    if (bytes.size() < least) {
      refuse(EINVAL, fmt::format("a command of librdmacm has {} bytes instead of {}", bytes.size(), least));
    }
    Struct command{};
    std::memcpy(&command, bytes.data(), std::min(bytes.size(), sizeof command));
    return command;
  }
  // Programs may know a shorter struct, but at least its first `least` bytes.
  template <class Struct>
  void respond(std::uint64_t address, const Struct& response, std::size_t least = sizeof(Struct)) const {
    if (response_bytes < least) {
      refuse(ENOSPC, fmt::format("librdmacm has room for {} bytes of {}", response_bytes, least));
    }
    if (address == 0) {
      refuse(EFAULT, "librdmacm gives no place for the response");
    }
    // The interface passes addresses as numbers.
    std::memcpy(reinterpret_cast<void*>(address), &response,  // NOLINT(performance-no-int-to-ptr)
                std::min(response_bytes, sizeof response));
  }
  template <class Use>
  auto call(Use use) const {
    return service.call(std::move(use));
  }
};

// ---- Identifiers.

cm::Service service_of(std::uint16_t space, std::uint8_t type) {
  switch (space) {
    case cm::kTcp:
      return cm::Service::reliable_connection;
    case cm::kUdp:
    case cm::kIpoib:
      return cm::Service::datagram;
    case cm::kInfiniband:
      switch (type) {
        case IBV_QPT_RC:
          return cm::Service::reliable_connection;
        case IBV_QPT_UD:
          return cm::Service::datagram;
        case IBV_QPT_XRC_SEND:
          return cm::Service::xrc_initiator;
        case IBV_QPT_XRC_RECV:
          return cm::Service::xrc_target;
        default:
          break;
      }
      break;
    default:
      break;
  }
  refuse(EINVAL, fmt::format("port space {:#x} with queue pairs of type {}: there are RC, UD and XRC", space, type));
}

void create_id(const Command& command) {
  const auto given = command.as<rdma_ucm_create_id>();
  const cm::Service service = service_of(given.ps, given.qp_type);
  const cm::IdNumber id = command.call(
      [&](cm::RdmaIds& ids, cm::Time) { return ids.create(command.channel, given.uid, given.ps, service); });
  command.respond(given.response, rdma_ucm_create_id_resp{.id = id});
}

void destroy_id(const Command& command) {
  const auto given = command.as<rdma_ucm_destroy_id>();
  const std::uint32_t reported =
      command.call([&](cm::RdmaIds& ids, cm::Time now) { return ids.destroy(command.channel, given.id, now); });
  command.respond(given.response, rdma_ucm_destroy_id_resp{.events_reported = reported});
}

void bind(const Command& command, std::uint32_t id, const void* address, std::size_t bytes) {
  const cm::SocketAddress to = address_from(address, bytes);
  command.call([&](cm::RdmaIds& ids, cm::Time) { ids.bind(command.channel, id, to); });
}

void bind_ip(const Command& command) {
  const auto given = command.as<rdma_ucm_bind_ip>();
  bind(command, given.id, &given.addr, sizeof given.addr);
}

void bind_any(const Command& command) {
  const auto given = command.as<rdma_ucm_bind>();
  bind(command, given.id, &given.addr, std::min<std::size_t>(given.addr_size, sizeof given.addr));
}

void resolve(const Command& command, std::uint32_t id, const std::optional<cm::SocketAddress>& source,
             const cm::SocketAddress& destination, std::uint32_t timeout) {
  command.call([&](cm::RdmaIds& ids, cm::Time now) {
    ids.resolve_address(command.channel, id, source, destination, std::chrono::milliseconds(timeout), now);
  });
}

void resolve_ip(const Command& command) {
  const auto given = command.as<rdma_ucm_resolve_ip>();
  const bool has_source = given.src_addr.sin6_family != AF_UNSPEC;
  resolve(command, given.id,
          has_source ? std::optional(address_from(&given.src_addr, sizeof given.src_addr)) : std::nullopt,
          address_from(&given.dst_addr, sizeof given.dst_addr), given.timeout_ms);
}

void resolve_address(const Command& command) {
  const auto given = command.as<rdma_ucm_resolve_addr>();
  const auto read = [](const auto& address, std::size_t bytes) {
    return address_from(&address, std::min(bytes, sizeof address));
  };
  resolve(command, given.id, given.src_size != 0 ? std::optional(read(given.src_addr, given.src_size)) : std::nullopt,
          read(given.dst_addr, given.dst_size), given.timeout_ms);
}

void resolve_route(const Command& command) {
  const auto given = command.as<rdma_ucm_resolve_route>();
  command.call([&](cm::RdmaIds& ids, cm::Time) { ids.resolve_route(command.channel, given.id); });
}

// ---- Queries.

cm::RdmaIds::Id queried(const Command& command, std::uint32_t id) {
  return command.call([&](cm::RdmaIds& ids, cm::Time) { return ids.query(command.channel, id); });
}

void query_route(const Command& command) {
  const auto given = command.as<rdma_ucm_query>(offsetof(rdma_ucm_query, option));
  constexpr std::size_t kLeast = offsetof(rdma_ucm_query_route_resp, ibdev_index);
  command.respond(given.response, route_response(queried(command, given.id), command.service.nic().options()), kLeast);
}

void query(const Command& command) {
  const auto given = command.as<rdma_ucm_query>();
  const cm::RdmaIds::Id id = queried(command, given.id);
  const nic::NicOptions& options = command.service.nic().options();
  constexpr std::size_t kLeast = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
  switch (given.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      command.respond(given.response, address_response(id), kLeast);
      break;
    case RDMA_USER_CM_QUERY_GID:
      command.respond(given.response, gid_response(id), kLeast);
      break;
    case RDMA_USER_CM_QUERY_PATH:
      command.respond(given.response, path_response(id, options), sizeof(rdma_ucm_query_path_resp));
      break;
    default:
      refuse(ENOSYS, fmt::format("librdmacm's query {}", given.option));
  }
}

void init_qp_attr(const Command& command) {
  const auto given = command.as<rdma_ucm_init_qp_attr>();
  const auto [id, attributes] = command.call([&](cm::RdmaIds& ids, cm::Time) {
    return std::pair(ids.query(command.channel, given.id), ids.pair_attributes(command.channel, given.id));
  });
  command.respond(given.response, pair_response(id, attributes, given.qp_state, command.service.nic().options()));
}

// ---- Connections.

void connect(const Command& command) {
  const auto given = command.as<rdma_ucm_connect>(offsetof(rdma_ucm_connect, reserved));
  if (given.conn_param.valid == 0) {
    refuse(EINVAL, "rdma_connect() without parameters");
  }
  const cm::ConnectionParameters parameters = parameters_from(given.conn_param);
  command.call([&](cm::RdmaIds& ids, cm::Time now) { ids.connect(command.channel, given.id, parameters, now); });
}

void listen(const Command& command) {
  const auto given = command.as<rdma_ucm_listen>();
  command.call([&](cm::RdmaIds& ids, cm::Time) { ids.listen(command.channel, given.id, given.backlog); });
}

void accept(const Command& command) {
  const auto given = command.as<rdma_ucm_accept>(offsetof(rdma_ucm_accept, reserved));
  const auto parameters = given.conn_param.valid != 0 ? std::optional(parameters_from(given.conn_param)) : std::nullopt;
  command.call(
      [&](cm::RdmaIds& ids, cm::Time now) { ids.accept(command.channel, given.id, given.uid, parameters, now); });
}

void reject(const Command& command) {
  const auto given = command.as<rdma_ucm_reject>();
  constexpr std::uint8_t kVendorOption = 35;  // rdma_reject_ece(3)
  if (given.reason != 0 && given.reason != cm::kConsumerReject && given.reason != kVendorOption) {
    refuse(EINVAL, fmt::format("a program does not reject for the reason {}", given.reason));
  }
  const std::span<const std::byte> data = std::as_bytes(std::span(given.private_data)).first(given.private_data_len);
  command.call([&](cm::RdmaIds& ids, cm::Time now) { ids.reject(command.channel, given.id, given.reason, data, now); });
}

void disconnect(const Command& command) {
  const auto given = command.as<rdma_ucm_disconnect>();
  command.call([&](cm::RdmaIds& ids, cm::Time now) { ids.disconnect(command.channel, given.id, now); });
}

void notify(const Command& command) {
  const auto given = command.as<rdma_ucm_notify>();
  if (given.event != IBV_EVENT_COMM_EST) {
    refuse(EINVAL, fmt::format("rdma_notify() with event {}: there is IBV_EVENT_COMM_EST only", given.event));
  }
  command.call([&](cm::RdmaIds& ids, cm::Time) { ids.notify_established(command.channel, given.id); });
}

// ---- Options.

template <class Value>
Value option(const rdma_ucm_set_option& given) {
  if (given.optlen != sizeof(Value) || given.optval == 0) {
    refuse(EINVAL, fmt::format("an option of {} bytes instead of {}", given.optlen, sizeof(Value)));
  }
  Value value{};
  std::memcpy(&value, reinterpret_cast<const void*>(given.optval),  // NOLINT(performance-no-int-to-ptr)
              sizeof value);
  return value;
}

void set_option(const Command& command) {
  const auto given = command.as<rdma_ucm_set_option>();
  const auto set = [&](auto set_it) { command.call([&](cm::RdmaIds& ids, cm::Time) { set_it(ids); }); };
  if (given.level != RDMA_OPTION_ID) {
    refuse(ENOSYS, "there is nobody who gives paths of InfiniBand here (RDMA_OPTION_IB)");
  }
  switch (given.optname) {
    case RDMA_OPTION_ID_TOS:
      set([&, value = option<std::uint8_t>(given)](cm::RdmaIds& ids) {
        ids.set_traffic_class(command.channel, given.id, value);
      });
      break;
    case RDMA_OPTION_ID_REUSEADDR:
      set([&, value = option<int>(given)](cm::RdmaIds& ids) { ids.set_reuse(command.channel, given.id, value != 0); });
      break;
    case RDMA_OPTION_ID_AFONLY:
      set([&, value = option<int>(given)](cm::RdmaIds& ids) {
        ids.set_only_family(command.channel, given.id, value != 0);
      });
      break;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      set([&, value = option<std::uint8_t>(given)](cm::RdmaIds& ids) {
        ids.set_ack_timeout(command.channel, given.id, value);
      });
      break;
    default:
      refuse(ENOSYS, fmt::format("librdmacm's option {}", given.optname));
  }
}

void migrate_id(const Command& command) {
  const auto given = command.as<rdma_ucm_migrate_id>();
  const cm::ChannelNumber from = command.service.channel_of(static_cast<int>(given.fd));
  const std::uint32_t reported =
      command.call([&](cm::RdmaIds& ids, cm::Time) { return ids.migrate(from, given.id, command.channel); });
  command.respond(given.response, rdma_ucm_migrate_resp{.events_reported = reported});
}

// ---- Events.

void get_event(const Command& command) {
  const auto given = command.as<rdma_ucm_get_event>();
  constexpr std::size_t kLeast = offsetof(rdma_ucm_event_resp, reserved);
  if (command.response_bytes < kLeast) {
    refuse(ENOSPC, "librdmacm has no room for an event");
  }
  const auto event = command.service.take_event(command.descriptor, command.waiter);
  if (!event) {
    return;
  }
  command.waiter.reset();
  command.respond(given.response, event_response(*event, command.service.nic().options()), kLeast);
}

// ---- Groups.

void join(const Command& command, std::uint64_t response, std::uint32_t id, std::uint64_t uid,
          const cm::SocketAddress& group) {
  const cm::IdNumber made =
      command.call([&](cm::RdmaIds& ids, cm::Time) { return ids.join_group(command.channel, id, uid, group); });
  command.respond(response, rdma_ucm_create_id_resp{.id = made});
}

void join_ip_group(const Command& command) {
  const auto given = command.as<rdma_ucm_join_ip_mcast>();
  join(command, given.response, given.id, given.uid, address_from(&given.addr, sizeof given.addr));
}

void join_group(const Command& command) {
  const auto given = command.as<rdma_ucm_join_mcast>();
  if (given.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
    refuse(EINVAL, fmt::format("rdma_join_multicast_ex() with flags {}", given.join_flags));
  }
  join(command, given.response, given.id, given.uid,
       address_from(&given.addr, std::min<std::size_t>(given.addr_size, sizeof given.addr)));
}

void leave_group(const Command& command) {
  const auto given = command.as<rdma_ucm_destroy_id>();
  const std::uint32_t reported =
      command.call([&](cm::RdmaIds& ids, cm::Time) { return ids.leave_group(command.channel, given.id); });
  command.respond(given.response, rdma_ucm_destroy_id_resp{.events_reported = reported});
}

using Handler = void (*)(const Command&);
constexpr std::size_t kCommands = RDMA_USER_CM_CMD_JOIN_MCAST + 1;

constexpr std::array<Handler, kCommands> handlers() {
  std::array<Handler, kCommands> all{};
  all[RDMA_USER_CM_CMD_CREATE_ID] = create_id;
  all[RDMA_USER_CM_CMD_DESTROY_ID] = destroy_id;
  all[RDMA_USER_CM_CMD_BIND_IP] = bind_ip;
  all[RDMA_USER_CM_CMD_RESOLVE_IP] = resolve_ip;
  all[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = resolve_route;
  all[RDMA_USER_CM_CMD_QUERY_ROUTE] = query_route;
  all[RDMA_USER_CM_CMD_CONNECT] = connect;
  all[RDMA_USER_CM_CMD_LISTEN] = listen;
  all[RDMA_USER_CM_CMD_ACCEPT] = accept;
  all[RDMA_USER_CM_CMD_REJECT] = reject;
  all[RDMA_USER_CM_CMD_DISCONNECT] = disconnect;
  all[RDMA_USER_CM_CMD_INIT_QP_ATTR] = init_qp_attr;
  all[RDMA_USER_CM_CMD_GET_EVENT] = get_event;
  all[RDMA_USER_CM_CMD_SET_OPTION] = set_option;
  all[RDMA_USER_CM_CMD_NOTIFY] = notify;
  all[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = join_ip_group;
  all[RDMA_USER_CM_CMD_LEAVE_MCAST] = leave_group;
  all[RDMA_USER_CM_CMD_MIGRATE_ID] = migrate_id;
  all[RDMA_USER_CM_CMD_QUERY] = query;
  all[RDMA_USER_CM_CMD_BIND] = bind_any;
  all[RDMA_USER_CM_CMD_RESOLVE_ADDR] = resolve_address;
  all[RDMA_USER_CM_CMD_JOIN_MCAST] = join_group;
  return all;
}

}  // namespace

ssize_t write_command(ConnectionService& service, int descriptor, const void* bytes, std::size_t count,
                      std::optional<EventChannels::Waiter>& waiter) {
  static constexpr auto kHandlers = handlers();
  rdma_ucm_cmd_hdr header{};
  if (bytes == nullptr || count < sizeof header) {
    refuse(EINVAL, "no command of librdmacm");
  }
  std::memcpy(&header, bytes, sizeof header);
  if (header.cmd >= kHandlers.size() || header.in + sizeof header > count) {
    refuse(EINVAL, fmt::format("command {} of librdmacm with {} bytes", header.cmd, count));
  }
  if (kHandlers[header.cmd] == nullptr) {
    refuse(ENOSYS, fmt::format("command {} of librdmacm", header.cmd));
  }
  kHandlers[header.cmd]({.service = service,
                         .channel = waiter ? waiter->channel() : service.channel_of(descriptor),
                         .descriptor = descriptor,
                         .waiter = waiter,
                         .bytes = {static_cast<const std::byte*>(bytes) + sizeof header, header.in},
                         .response_bytes = header.out});
  return static_cast<ssize_t>(count);
}

}  // namespace sidelatch::softnic::verbs
