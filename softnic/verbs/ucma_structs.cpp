#include "ucma_structs.h"

#include "context.h"
#include "convert.h"

#include <fmt/format.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

namespace sidelatch::softnic::verbs {

namespace {

using State = cm::RdmaIds::Id::State;

static_assert(cm::kTcp == RDMA_PS_TCP && cm::kUdp == RDMA_PS_UDP && cm::kIpoib == RDMA_PS_IPOIB);
static_assert(offsetof(PathResponse, path) == offsetof(rdma_ucm_query_path_resp, path_data));
static_assert(sizeof(ibv_path_record) == sizeof(ib_path_rec_data::path_rec));

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kNoDeviceIndex = 0xffff'ffff;  // ibv_get_device_index() gives -1 too
constexpr std::uint16_t kDefaultPartition = 0xffff;
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kExactly = 2;  // a selector
constexpr std::uint8_t kRate = IBV_RATE_100_GBPS;

bool has_destination(const cm::RdmaIds::Id& id) {
  return id.state == State::resolving || id.state == State::address_resolved || id.state == State::route_resolved ||
         id.state == State::connecting;
}
bool has_path(const cm::RdmaIds::Id& id) { return id.state == State::route_resolved || id.state == State::connecting; }

// Returns the length of the address.
std::size_t put(void* into, const cm::SocketAddress& address) {
  if (const auto ipv4 = roce::ipv4_in(address.ip)) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, ipv4->data(), ipv4->size());
    std::memcpy(into, &in, sizeof in);
    return sizeof in;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(address.port);
  std::memcpy(&in6.sin6_addr, address.ip.data(), address.ip.size());
  std::memcpy(into, &in6, sizeof in6);
  return sizeof in6;
}

std::uint8_t gid_index(const roce::Gid& gid, const nic::NicOptions& options) {
  const auto found = std::ranges::find(options.gids, gid);
  return static_cast<std::uint8_t>(found == options.gids.end() ? 0 : found - options.gids.begin());
}

ib_uverbs_ah_attr address_handle(const cm::Route& route, std::uint8_t traffic_class, const nic::NicOptions& options) {
  ib_uverbs_ah_attr attributes{};
  std::memcpy(attributes.grh.dgid, route.remote.data(), route.remote.size());
  attributes.grh.sgid_index = gid_index(route.local, options);
  attributes.grh.hop_limit = kHopLimit;
  attributes.grh.traffic_class = traffic_class;
  attributes.is_global = 1;
  attributes.port_num = kPort;
  return attributes;
}

rdma_ucm_conn_param parameters_of(const cm::IdEvent& event) {
  rdma_ucm_conn_param parameters{};
  parameters.qp_num = event.terms.queue_pair;
  parameters.srq = event.terms.shared_receives ? 1 : 0;
  parameters.responder_resources = event.terms.responder_resources;
  parameters.initiator_depth = event.terms.initiator_depth;
  parameters.flow_control = event.terms.flow_control ? 1 : 0;
  parameters.retry_count = event.terms.retry_count;
  parameters.rnr_retry_count = event.terms.rnr_retry_count;
  return parameters;
}

template <class Parameters>
void put_private_data(Parameters& into, std::span<const std::byte> data) {
  const std::size_t bytes = std::min(data.size(), sizeof into.private_data);
  std::memcpy(into.private_data, data.data(), bytes);
  into.private_data_len = static_cast<std::uint8_t>(bytes);
}

}  // namespace

cm::SocketAddress address_from(const void* address, std::size_t bytes) {
  sa_family_t family = AF_UNSPEC;
  if (bytes < sizeof family) {
    refuse(EINVAL, "an address of no bytes");
  }
  std::memcpy(&family, address, sizeof family);
  if (family == AF_IB) {
    throw QuietError(EAFNOSUPPORT);  // librdmacm's first question; then it uses IP addresses only
  }
  if (family != AF_INET && family != AF_INET6) {
    refuse(EAFNOSUPPORT, fmt::format("addresses of family {}: there are IPv4 and IPv6", family));
  }
  if (bytes < (family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))) {
    refuse(EINVAL, fmt::format("an address of {} bytes", bytes));
  }
  if (family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    roce::Ipv4Address ipv4{};
    std::memcpy(ipv4.data(), &in.sin_addr, ipv4.size());
    return {.ip = roce::gid_of(ipv4), .port = ntohs(in.sin_port)};
  }
  sockaddr_in6 in6{};
  std::memcpy(&in6, address, sizeof in6);
  cm::SocketAddress result{.port = ntohs(in6.sin6_port)};
  std::memcpy(result.ip.data(), &in6.sin6_addr, result.ip.size());
  return result;
}

cm::ConnectionParameters parameters_from(const rdma_ucm_conn_param& given) {
  constexpr std::uint32_t kNumbers = 0xff'ffff;
  if (given.qp_num > kNumbers) {
    refuse(EINVAL, fmt::format("there is no queue pair number {:#x}", given.qp_num));
  }
  constexpr std::uint8_t kMostRetries = 7;  // 3 bits
  const auto data = std::as_bytes(std::span(given.private_data)).first(given.private_data_len);
  return {.terms = {.queue_pair = given.qp_num,
                    .responder_resources = given.responder_resources,
                    .initiator_depth = given.initiator_depth,
                    .flow_control = given.flow_control != 0,
                    .retry_count = std::min(given.retry_count, kMostRetries),
                    .rnr_retry_count = std::min(given.rnr_retry_count, kMostRetries),
                    .shared_receives = given.srq != 0},
          .q_key = given.qkey,
          .private_data = {data.begin(), data.end()}};
}

rdma_ucm_query_route_resp route_response(const cm::RdmaIds::Id& id, const nic::NicOptions& options) {
  rdma_ucm_query_route_resp response{};
  response.ibdev_index = kNoDeviceIndex;
  if (id.state != State::idle) {
    put(&response.src_addr, id.source);
  }
  if (has_destination(id)) {
    put(&response.dst_addr, id.destination);
  }
  if (!id.has_device) {
    return response;
  }
  response.node_guid = guid_as_told();
  response.port_num = kPort;
  ib_user_path_rec& path = response.ib_route[0];
  std::memcpy(path.sgid, id.route.local.data(), id.route.local.size());
  std::memcpy(path.dgid, id.route.remote.data(), id.route.remote.size());
  path.pkey = htons(kDefaultPartition);
  if (!has_path(id)) {
    return response;
  }
  response.num_paths = 1;
  path.reversible = 1;
  path.numb_path = 1;
  path.hop_limit = kHopLimit;
  path.traffic_class = id.traffic_class;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.mtu = static_cast<std::uint32_t>(mtu_of(options.mtu));
  path.rate = kRate;
  path.packet_life_time = static_cast<std::uint8_t>(id.ack_timeout - (id.ack_timeout == 0 ? 0 : 1));
  return response;
}

rdma_ucm_query_addr_resp address_response(const cm::RdmaIds::Id& id) {
  rdma_ucm_query_addr_resp response{};
  response.ibdev_index = kNoDeviceIndex;
  if (id.state != State::idle) {
    response.src_size = static_cast<std::uint16_t>(put(&response.src_addr, id.source));
  }
  if (has_destination(id)) {
    response.dst_size = static_cast<std::uint16_t>(put(&response.dst_addr, id.destination));
  }
  if (id.has_device) {
    response.node_guid = guid_as_told();
    response.port_num = kPort;
    response.pkey = htons(kDefaultPartition);
  }
  return response;
}

rdma_ucm_query_addr_resp gid_response(const cm::RdmaIds::Id& id) {
  rdma_ucm_query_addr_resp response = address_response(id);
  const auto put_gid = [](auto& into, const roce::Gid& gid) {
    sockaddr_ib address{};
    address.sib_family = AF_IB;
    address.sib_pkey = htons(kDefaultPartition);
    std::memcpy(&address.sib_addr, gid.data(), gid.size());
    into = {};
    std::memcpy(&into, &address, sizeof address);
    return static_cast<std::uint16_t>(sizeof address);
  };
  response.src_size = put_gid(response.src_addr, id.route.local);
  response.dst_size = put_gid(response.dst_addr, id.route.remote);
  return response;
}

PathResponse path_response(const cm::RdmaIds::Id& id, const nic::NicOptions& options) {
  PathResponse response{};
  if (!has_path(id)) {
    return response;
  }
  response.paths = 1;
  response.path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  ibv_path_record path{};
  path.sgid = gid_of(id.route.local);
  path.dgid = gid_of(id.route.remote);
  path.flowlabel_hoplimit = htonl(kHopLimit);
  path.tclass = id.traffic_class;
  constexpr std::uint8_t kReversible = 0x80;
  path.reversible_numpath = kReversible | 1;
  path.pkey = htons(kDefaultPartition);
  constexpr unsigned kSelector = 6;
  const auto exactly = [](unsigned value) { return static_cast<std::uint8_t>(kExactly << kSelector | value); };
  path.mtu = exactly(static_cast<unsigned>(mtu_of(options.mtu)));
  path.rate = exactly(kRate);
  path.packetlifetime = exactly(id.ack_timeout == 0 ? 0U : id.ack_timeout - 1U);
  std::memcpy(response.path.path_rec, &path, sizeof path);
  return response;
}

rdma_ucm_event_resp event_response(const cm::IdEvent& event, const nic::NicOptions& options) {
  rdma_ucm_event_resp response{};
  response.uid = event.uid;
  response.id = event.id;
  response.event = static_cast<std::uint32_t>(event.kind);
  response.status = static_cast<std::uint32_t>(event.status);
  if (event.service == cm::Service::datagram) {
    rdma_ucm_ud_param& parameters = response.param.ud;
    parameters.qp_num = event.terms.queue_pair;
    parameters.qkey = event.q_key;
    parameters.ah_attr = address_handle(event.route, event.traffic_class, options);
    put_private_data(parameters, event.private_data);
  } else {
    response.param.conn = parameters_of(event);
    put_private_data(response.param.conn, event.private_data);
  }
  return response;
}

ib_uverbs_qp_attr pair_response(const cm::RdmaIds::Id& id, const cm::PairAttributes& attributes, std::uint32_t state,
                                const nic::NicOptions& options) {
  const cm::Agreement& agreed = attributes.agreement;
  ib_uverbs_qp_attr response{};
  response.qp_state = state;
  response.port_num = kPort;
  unsigned mask = IBV_QP_STATE;
  if (id.service == cm::Service::datagram) {
    response.qkey = attributes.q_key;
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  } else if (state == IBV_QPS_INIT) {
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (attributes.has_connection) {
      response.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      response.qp_access_flags |= attributes.serves_reads ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0;
    }
  } else if (state == IBV_QPS_RTR && attributes.has_connection) {
    constexpr std::uint8_t kRnrTimer = 12;  // 0.64 ms
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
            IBV_QP_MIN_RNR_TIMER;
    response.ah_attr = address_handle(agreed.route, agreed.traffic_class, options);
    response.path_mtu = agreed.path_mtu;
    response.dest_qp_num = agreed.remote_qp;
    response.rq_psn = agreed.receive_psn;
    response.max_dest_rd_atomic = std::min(agreed.responder_resources, options.max_dest_rd_atomic);
    response.min_rnr_timer = kRnrTimer;
  } else if (state == IBV_QPS_RTS && attributes.has_connection) {
    mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    response.sq_psn = agreed.send_psn;
    response.timeout = agreed.ack_timeout;
    response.retry_cnt = agreed.retry_count;
    response.rnr_retry = agreed.rnr_retry_count;
    response.max_rd_atomic = std::min(agreed.initiator_depth, options.max_rd_atomic);
  } else {
    refuse(EINVAL, fmt::format("there are no attributes for state {} before the connection", state));
  }
  response.qp_attr_mask = mask;
  return response;
}

}  // namespace sidelatch::softnic::verbs
