// Converts between the structs of <rdma/rdma_user_cm.h> and those of the connection manager.
//
// Thread-safety: functions without state.
#pragma once

#include "softnic/cm/rdma_ids.h"
#include "softnic/nic/device.h"

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>

namespace sidelatch::softnic::verbs {

/// From a sockaddr_in or sockaddr_in6 of at most `bytes`. Throws VerbsError: EINVAL if it is too short, EAFNOSUPPORT
/// for other families.
[[nodiscard]] cm::SocketAddress address_from(const void* address, std::size_t bytes);
[[nodiscard]] cm::ConnectionParameters parameters_from(const rdma_ucm_conn_param& given);

/// rdma_ucm_query_path_resp with its one path; the path may be left out.
struct PathResponse {
  std::uint32_t paths;
  std::uint32_t reserved;
  ib_path_rec_data path;
};

[[nodiscard]] rdma_ucm_query_route_resp route_response(const cm::RdmaIds::Id& id, const nic::NicOptions& options);
[[nodiscard]] rdma_ucm_query_addr_resp address_response(const cm::RdmaIds::Id& id);
[[nodiscard]] rdma_ucm_query_addr_resp gid_response(const cm::RdmaIds::Id& id);
[[nodiscard]] PathResponse path_response(const cm::RdmaIds::Id& id, const nic::NicOptions& options);
[[nodiscard]] rdma_ucm_event_resp event_response(const cm::IdEvent& event, const nic::NicOptions& options);
/// Throws VerbsError (EINVAL) if there is no connection to bring the queue pair to this state for.
[[nodiscard]] ib_uverbs_qp_attr pair_response(const cm::RdmaIds::Id& id, const cm::PairAttributes& attributes,
                                              std::uint32_t state, const nic::NicOptions& options);

}  // namespace sidelatch::softnic::verbs
