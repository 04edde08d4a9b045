#include "convert.h"

#include "guard.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::softnic::verbs {

namespace {

using nic::Attributes;
using nic::CompletionStatus;
using nic::QueuePairState;
using nic::Rights;

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<unsigned>(a) == static_cast<unsigned>(b);
}

static_assert(same(CompletionStatus::flushed, IBV_WC_WR_FLUSH_ERR) &&
              same(CompletionStatus::local_protection, IBV_WC_LOC_PROT_ERR) &&
              same(CompletionStatus::rnr_retry_exceeded, IBV_WC_RNR_RETRY_EXC_ERR));
static_assert(same(QueuePairState::init, IBV_QPS_INIT) && same(QueuePairState::sqd, IBV_QPS_SQD) &&
              same(QueuePairState::error, IBV_QPS_ERR));
static_assert(same(Attributes::address, IBV_QP_AV) && same(Attributes::max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC) &&
              same(Attributes::remote_qp, IBV_QP_DEST_QPN));
static_assert(same(Rights::local_write, IBV_ACCESS_LOCAL_WRITE) &&
              same(Rights::remote_write, IBV_ACCESS_REMOTE_WRITE) &&
              same(Rights::remote_read, IBV_ACCESS_REMOTE_READ) &&
              same(Rights::remote_atomic, IBV_ACCESS_REMOTE_ATOMIC) && same(Rights::window_bind, IBV_ACCESS_MW_BIND));
static_assert(same(CompletionStatus::window_bind, IBV_WC_MW_BIND_ERR));

// Hints, and what is no right.
constexpr unsigned kIgnoredAccess =
    IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
constexpr std::uint8_t kDefaultHopLimit = 64;

}  // namespace

ibv_mtu mtu_of(roce::PathMtu mtu) noexcept {
  switch (mtu) {
    case roce::PathMtu::b256:
      return IBV_MTU_256;
    case roce::PathMtu::b512:
      return IBV_MTU_512;
    case roce::PathMtu::b1024:
      return IBV_MTU_1024;
    case roce::PathMtu::b2048:
      return IBV_MTU_2048;
    case roce::PathMtu::b4096:
      return IBV_MTU_4096;
  }
  return IBV_MTU_256;
}

roce::PathMtu path_mtu_of(ibv_mtu mtu) {
  if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) {
    refuse(EINVAL, fmt::format("path_mtu is {}: it must be 1 (256 bytes) to 5 (4096)", static_cast<unsigned>(mtu)));
  }
  return static_cast<roce::PathMtu>(128U << static_cast<unsigned>(mtu));
}

roce::Gid gid_of(const ibv_gid& gid) noexcept {
  roce::Gid copy{};
  std::ranges::copy(gid.raw, copy.begin());
  return copy;
}

ibv_gid gid_of(const roce::Gid& gid) noexcept {
  ibv_gid copy{};
  std::ranges::copy(gid, copy.raw);
  return copy;
}

std::optional<nic::WorkKind> kind_of(ibv_wr_opcode opcode) noexcept {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return nic::WorkKind::write;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return nic::WorkKind::write_with_immediate;
    case IBV_WR_SEND:
      return nic::WorkKind::send;
    case IBV_WR_SEND_WITH_IMM:
      return nic::WorkKind::send_with_immediate;
    case IBV_WR_SEND_WITH_INV:
      return nic::WorkKind::send_with_invalidate;
    case IBV_WR_RDMA_READ:
      return nic::WorkKind::read;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return nic::WorkKind::compare_swap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return nic::WorkKind::fetch_add;
    case IBV_WR_ATOMIC_WRITE:
      return nic::WorkKind::atomic_write;
    case IBV_WR_BIND_MW:
      return nic::WorkKind::bind_window;
    case IBV_WR_LOCAL_INV:
      return nic::WorkKind::invalidate;
    default:
      return std::nullopt;
  }
}

void take_flags(nic::SendRequest& request, unsigned flags) noexcept {
  request.signaled = (flags & IBV_SEND_SIGNALED) != 0;
  request.fence = (flags & IBV_SEND_FENCE) != 0;
  request.solicited = (flags & IBV_SEND_SOLICITED) != 0;
  request.inlined = (flags & IBV_SEND_INLINE) != 0;
}

nic::SendRequest request_of(const ibv_send_wr& request, nic::WorkKind kind) noexcept {
  nic::SendRequest made{.id = request.wr_id, .kind = kind};
  take_flags(made, request.send_flags);
  if (kind == nic::WorkKind::send_with_invalidate || kind == nic::WorkKind::invalidate) {
    made.invalidate_key = request.invalidate_rkey;
  } else {
    made.immediate = ntohl(request.imm_data);
  }
  if (nic::is_atomic(kind)) {
    made.remote_address = request.wr.atomic.remote_addr;
    made.rkey = request.wr.atomic.rkey;
    made.compare = request.wr.atomic.compare_add;
    made.swap_or_add = kind == nic::WorkKind::fetch_add ? request.wr.atomic.compare_add : request.wr.atomic.swap;
  } else {
    made.remote_address = request.wr.rdma.remote_addr;
    made.rkey = request.wr.rdma.rkey;
  }
  return made;
}

nic::Sge sge_of(const ibv_sge& sge) noexcept { return {.address = sge.addr, .length = sge.length, .lkey = sge.lkey}; }

int errno_of(nic::Post post) noexcept {
  switch (post) {
    case nic::Post::done:
      return 0;
    case nic::Post::full:
      return ENOMEM;
    default:
      return EINVAL;
  }
}

ibv_wc_status status_of(nic::CompletionStatus status) noexcept { return static_cast<ibv_wc_status>(status); }

ibv_wc_opcode opcode_of(nic::CompletionKind kind) noexcept {
  switch (kind) {
    case nic::CompletionKind::send:
      return IBV_WC_SEND;
    case nic::CompletionKind::write:
      return IBV_WC_RDMA_WRITE;
    case nic::CompletionKind::read:
      return IBV_WC_RDMA_READ;
    case nic::CompletionKind::compare_swap:
      return IBV_WC_COMP_SWAP;
    case nic::CompletionKind::fetch_add:
      return IBV_WC_FETCH_ADD;
    case nic::CompletionKind::atomic_write:
      return IBV_WC_ATOMIC_WRITE;
    case nic::CompletionKind::bind_window:
      return IBV_WC_BIND_MW;
    case nic::CompletionKind::invalidate:
      return IBV_WC_LOCAL_INV;
    case nic::CompletionKind::receive:
      return IBV_WC_RECV;
    case nic::CompletionKind::receive_write:
      return IBV_WC_RECV_RDMA_WITH_IMM;
  }
  return IBV_WC_SEND;
}

unsigned flags_of(const nic::Completion& completion) noexcept {
  return (completion.has_grh ? unsigned{IBV_WC_GRH} : 0U) |
         (completion.has_immediate ? unsigned{IBV_WC_WITH_IMM} : 0U) |
         (completion.has_invalidated ? unsigned{IBV_WC_WITH_INV} : 0U);
}

__be32 immediate_of(const nic::Completion& completion) noexcept {
  return completion.has_invalidated ? completion.invalidated_key : htonl(completion.immediate);
}

void fill(ibv_wc& into, const nic::Completion& completion) noexcept {
  into = {};
  into.wr_id = completion.id;
  into.status = status_of(completion.status);
  into.opcode = opcode_of(completion.kind);
  into.byte_len = completion.bytes;
  into.imm_data = immediate_of(completion);
  into.qp_num = completion.queue_pair;
  into.src_qp = completion.source_qp;
  into.wc_flags = flags_of(completion);
  into.sl = completion.packet_type;
}

nic::Rights rights_of(unsigned access) {
  constexpr auto kKnown = static_cast<unsigned>(Rights::all | Rights::window_bind);
  if ((access & ~(kKnown | kIgnoredAccess)) != 0) {
    refuse(EINVAL, fmt::format("access flags {:#x} have bits that mean nothing", access));
  }
  return static_cast<Rights>(access & kKnown);
}

nic::Binding binding_of(const ibv_mw& window, std::uint32_t new_key, const ibv_mw_bind_info& info) {
  constexpr unsigned kOpened = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  // A window opens memory to other sides only; programs give the local right too.
  constexpr unsigned kIgnored = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
  if ((info.mw_access_flags & ~(kOpened | kIgnored | unsigned{IBV_ACCESS_ZERO_BASED})) != 0) {
    refuse(EINVAL,
           fmt::format("access flags {:#x} of a memory window have bits that mean nothing", info.mw_access_flags));
  }
  if (info.mr == nullptr && info.length != 0) {
    refuse(EINVAL, "a memory window needs a region to be bound to");
  }
  return {.window = window.handle,
          .new_key = new_key,
          .region = info.mr == nullptr ? 0 : info.mr->lkey,
          .address = info.addr,
          .length = info.length,
          .rights = static_cast<Rights>(info.mw_access_flags & kOpened),
          .is_zero_based = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0};
}

nic::AddressVector address_of(const ibv_ah_attr& attributes, std::size_t gids) {
  if (attributes.is_global == 0) {
    refuse(EINVAL, "on Ethernet an address needs a GID (is_global)");
  }
  if (attributes.port_num != 1) {
    refuse(EINVAL, fmt::format("there is no port {}", attributes.port_num));
  }
  if (attributes.grh.sgid_index >= gids) {
    refuse(EINVAL, fmt::format("sgid_index is {}: the port has {} GIDs", attributes.grh.sgid_index, gids));
  }
  return {.mac = {},
          .gid = gid_of(attributes.grh.dgid),
          .gid_index = attributes.grh.sgid_index,
          // Like the kernel: a hop limit left at 0 would not pass the first router.
          .hop_limit = attributes.grh.hop_limit == 0 ? kDefaultHopLimit : attributes.grh.hop_limit,
          .traffic_class = attributes.grh.traffic_class,
          .service_level = attributes.sl,
          .static_rate = attributes.static_rate,
          .flow_label = attributes.grh.flow_label & 0xfffff};
}

ibv_ah_attr attributes_of(const nic::AddressVector& address) noexcept {
  ibv_ah_attr attributes{};
  attributes.grh.dgid = gid_of(address.gid);
  attributes.grh.flow_label = address.flow_label;
  attributes.grh.sgid_index = address.gid_index;
  attributes.grh.hop_limit = address.hop_limit;
  attributes.grh.traffic_class = address.traffic_class;
  attributes.sl = address.service_level;  // there are no LIDs: dlid and src_path_bits stay 0, as in the kernel
  attributes.static_rate = address.static_rate;
  attributes.is_global = 1;
  attributes.port_num = 1;
  return attributes;
}

}  // namespace sidelatch::softnic::verbs
