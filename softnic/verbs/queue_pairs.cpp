// Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_destroy_qp(3) and the
// other functions of a queue pair.
//
// The services are RC, UC, UD and XRC; others are refused with EOPNOTSUPP. Giving a queue pair its address (INIT to
// RTR) resolves the Ethernet address of the GID, and fails with ETIMEDOUT if nobody answers.
#include "context.h"
#include "convert.h"
#include "export.h"
#include "placement.h"

#include "softnic/nic/gone_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace sidelatch::softnic::verbs {

namespace {

using nic::Attributes;

constexpr std::uint64_t kReliableOperations =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE |
    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
constexpr std::uint64_t kUnreliableOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                                IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                                IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
constexpr std::uint64_t kDatagramOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

nic::QueuePairType type_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return nic::QueuePairType::rc;
    case IBV_QPT_UD:
      return nic::QueuePairType::ud;
    case IBV_QPT_UC:
      return nic::QueuePairType::uc;
    case IBV_QPT_XRC_SEND:
      return nic::QueuePairType::xrc_initiator;
    case IBV_QPT_XRC_RECV:
      return nic::QueuePairType::xrc_target;
    default:
      refuse(EOPNOTSUPP,
             fmt::format("queue pairs of type {}: there are RC, UC, UD and XRC", static_cast<unsigned>(type)));
  }
}

std::uint64_t operations_of(nic::QueuePairType type) {
  switch (type) {
    case nic::QueuePairType::ud:
      return kDatagramOperations;
    case nic::QueuePairType::uc:
      return kUnreliableOperations;
    case nic::QueuePairType::xrc_target:
      return 0;
    default:
      return kReliableOperations;
  }
}

void require_ours(ibv_context& context, const ibv_qp_init_attr& attributes, bool receives) {
  if (attributes.send_cq != nullptr) {
    require_same_opening(context, *attributes.send_cq->context, "send_cq");
  }
  if (receives && attributes.recv_cq != nullptr) {
    require_same_opening(context, *attributes.recv_cq->context, "recv_cq");
  }
  if (receives && attributes.srq != nullptr) {
    require_same_opening(context, *attributes.srq->context, "srq");
  }
}

nic::CompletionQueue* queue_of(ibv_cq* queue) { return queue == nullptr ? nullptr : of(*queue).queue; }

// More than was asked for, as drivers grant: some programs inline a few bytes without having asked. Linux's soft-RoCE
// grants the room of the request's parts, too.
std::uint32_t inline_of(const ibv_qp_cap& wanted) {
  constexpr std::uint32_t kMostUnasked = 64;
  const std::uint64_t parts = std::uint64_t{wanted.max_send_sge} * sizeof(ibv_sge);
  return std::max(wanted.max_inline_data, static_cast<std::uint32_t>(std::min<std::uint64_t>(parts, kMostUnasked)));
}

nic::QueuePairOptions options_of(const ProtectionDomain& domain, const ibv_qp_init_attr& attributes) {
  const nic::QueuePairType type = type_of(attributes.qp_type);
  const ibv_qp_cap& wanted = attributes.cap;
  // An XRC initiator receives nothing.
  const bool receives = type != nic::QueuePairType::xrc_initiator;
  if (attributes.srq != nullptr && of(*attributes.srq).is_xrc) {
    refuse(EINVAL, "a shared receive queue for XRC is named by each request, not by a queue pair");
  }
  if (attributes.srq != nullptr && type == nic::QueuePairType::uc) {
    refuse(EINVAL, "a shared receive queue serves queue pairs of types RC and UD");
  }
  require_ours(*domain.context, attributes, receives);
  const bool has_own = receives && attributes.srq == nullptr;
  return {.type = type,
          .domain = domain.domain,
          .send_completions = queue_of(attributes.send_cq),
          .receive_completions = receives ? queue_of(attributes.recv_cq) : nullptr,
          .shared_receives = receives && attributes.srq != nullptr ? of(*attributes.srq).queue : nullptr,
          .send_depth = wanted.max_send_wr,
          .receive_depth = has_own ? wanted.max_recv_wr : 0,
          .most_send_sges = wanted.max_send_sge,
          .most_receive_sges = has_own ? wanted.max_recv_sge : 0,
          .most_inline = inline_of(wanted),
          .signal_all = attributes.sq_sig_all != 0,
          .holds_until_polled = true};
}

ibv_qp_cap capabilities_of(const nic::QueuePairOptions& options) {
  return {.max_send_wr = options.send_depth,
          .max_recv_wr = options.receive_depth,
          .max_send_sge = options.most_send_sges,
          .max_recv_sge = options.most_receive_sges,
          .max_inline_data = options.most_inline};
}

QueuePair* make(ProcessNic& nic, ibv_context& context, const nic::QueuePairOptions& options, ProtectionDomain* parent) {
  Owned<QueuePair> pair = make_object<QueuePair>(parent);
  pair->nic = &nic;
  pair->pair = nic.call([&](nic::Nic& device) {
    nic::QueuePair& made = device.make_queue_pair(options);
    nic.queue_pairs.emplace(made.number(), pair.get());
    return &made;
  });
  ibv_qp& common = pair->qp_base;
  common.context = &context;
  common.handle = common.qp_num = pair->pair->number();
  common.state = IBV_QPS_RESET;
  init_acknowledgements(common);
  return pair.release();
}

QueuePair* make(ibv_pd& domain, ibv_qp_init_attr& attributes) {
  if (attributes.qp_type == IBV_QPT_XRC_RECV) {
    refuse(EINVAL, "an XRC target needs an XRC domain, and no protection domain");
  }
  ProtectionDomain& its = of(domain);
  const nic::QueuePairOptions options = options_of(its, attributes);
  QueuePair* const pair = make(*its.nic, *domain.context, options, &its);
  ibv_qp& common = pair->qp_base;
  common.qp_context = attributes.qp_context;
  common.pd = &domain;
  common.send_cq = attributes.send_cq;
  common.recv_cq = attributes.recv_cq;
  common.srq = attributes.srq;
  common.qp_type = attributes.qp_type;
  attributes.cap = capabilities_of(options);
  return pair;
}

QueuePair* make_target(ibv_context& context, ibv_qp_init_attr_ex& attributes) {
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attributes.xrcd == nullptr) {
    refuse(EINVAL, "an XRC target needs an XRC domain");
  }
  const XrcDomain& domain = of(*attributes.xrcd);
  require_same_opening(context, *domain.context, "xrcd");
  const nic::QueuePairOptions options{.type = nic::QueuePairType::xrc_target,
                                      .send_depth = 0,
                                      .receive_depth = 0,
                                      .most_send_sges = 0,
                                      .most_receive_sges = 0,
                                      .xrc_domain = domain.domain};
  QueuePair* const pair = make(*domain.nic, context, options, nullptr);
  pair->qp_base.qp_context = attributes.qp_context;
  pair->qp_base.qp_type = IBV_QPT_XRC_RECV;
  pair->xrc_handle = domain.handle;
  // The target does without; librdmacm reads there what it has given.
  pair->qp_base.pd = (attributes.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attributes.pd : nullptr;
  attributes.cap = capabilities_of(options);
  return pair;
}

void require_supported(const ibv_qp_init_attr_ex& attributes) {
  constexpr unsigned kMasks =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attributes.comp_mask & ~kMasks) != 0) {
    refuse(EOPNOTSUPP, fmt::format("ibv_qp_init_attr_ex: comp_mask {:#x}", attributes.comp_mask));
  }
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attributes.create_flags != 0) {
    refuse(EOPNOTSUPP, fmt::format("ibv_qp_init_attr_ex: create_flags {:#x}", attributes.create_flags));
  }
  const bool is_target = attributes.qp_type == IBV_QPT_XRC_RECV;
  if (!is_target && ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes.pd == nullptr)) {
    refuse(EINVAL, "a queue pair needs a protection domain");
  }
  const std::uint64_t there = operations_of(type_of(attributes.qp_type));
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 && (attributes.send_ops_flags & ~there) != 0) {
    refuse(EOPNOTSUPP, fmt::format("send_ops_flags {:#x}: there are {:#x}", attributes.send_ops_flags, there));
  }
}

// ---- Attributes.

Attributes given_by(int mask) {
  constexpr unsigned kKnown = (1U << nic::kAttributes) - 1;
  if ((static_cast<unsigned>(mask) & ~kKnown) != 0) {
    refuse(EOPNOTSUPP, fmt::format("attr_mask {:#x}: there are no such attributes here", static_cast<unsigned>(mask)));
  }
  return static_cast<Attributes>(mask);
}

nic::QueuePairState state_of(ibv_qp_state state) {
  if (state > IBV_QPS_ERR) {
    refuse(EINVAL, fmt::format("there is no state {}", static_cast<unsigned>(state)));
  }
  return static_cast<nic::QueuePairState>(state);
}

// Reads only the given attributes: the others need not be set.
nic::QueuePairAttributes values_of(const ibv_qp_attr& from, Attributes given, std::size_t gids) {
  nic::QueuePairAttributes to;
  const auto is_given = [given](Attributes one) { return has(given, one); };
  if (is_given(Attributes::state)) {
    to.state = state_of(from.qp_state);
  }
  if (is_given(Attributes::current_state)) {
    to.current_state = state_of(from.cur_qp_state);
  }
  if (is_given(Attributes::rights)) {
    to.rights = static_cast<nic::Rights>(static_cast<unsigned>(rights_of(from.qp_access_flags)) &
                                         static_cast<unsigned>(nic::Rights::all));
  }
  if (is_given(Attributes::path_mtu)) {
    to.path_mtu = path_mtu_of(from.path_mtu);
  }
  if (is_given(Attributes::address)) {
    to.address = address_of(from.ah_attr, gids);  // of which the Ethernet address is not known yet
  }
  to.notify_drained = from.en_sqd_async_notify != 0;
  to.p_key_index = from.pkey_index;
  to.port = from.port_num;
  to.q_key = from.qkey;
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.receive_psn = roce::Psn(from.rq_psn);
  to.max_rd_atomic = from.max_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.send_psn = roce::Psn(from.sq_psn);
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.remote_qp = from.dest_qp_num;
  return to;
}

ibv_qp_attr queried(const nic::QueuePairAttributes& from) {
  ibv_qp_attr to{};
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = static_cast<ibv_qp_state>(from.current_state);
  to.path_mtu = mtu_of(from.path_mtu);
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = from.q_key;
  to.rq_psn = from.receive_psn.value();
  to.sq_psn = from.send_psn.value();
  to.dest_qp_num = from.remote_qp;
  to.qp_access_flags = static_cast<unsigned>(from.rights);
  to.ah_attr = attributes_of(from.address);
  to.pkey_index = from.p_key_index;
  to.en_sqd_async_notify = from.notify_drained ? 1 : 0;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
  return to;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  return made([&]() -> ibv_qp* {
    require_supported(*attributes);
    if (attributes->qp_type == IBV_QPT_XRC_RECV) {
      return &make_target(*context, *attributes)->qp_base;
    }
    require_same_opening(*context, *attributes->pd->context, "pd");
    // The struct begins with the fields of ibv_qp_init_attr (verbs.h, ibv_create_qp_ex()).
    QueuePair* const pair = make(*attributes->pd, reinterpret_cast<ibv_qp_init_attr&>(*attributes));
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
      pair->has_builder = true;
      pair->operations = attributes->send_ops_flags;
      fill_builder(*pair);
    }
    return &pair->qp_base;
  });
}

void end_handle(QueuePair& handle, nic::Nic& device) {
  ProcessNic& nic = *handle.nic;
  if (nic.opened_pairs.erase(&handle) != 0) {
    return;
  }
  const auto other = std::ranges::find(nic.opened_pairs, handle.pair, &QueuePair::pair);
  if (other != nic.opened_pairs.end()) {
    nic.queue_pairs[handle.pair->number()] = *other;
    nic.opened_pairs.erase(other);
    return;
  }
  nic.queue_pairs.erase(handle.pair->number());
  device.destroy(*handle.pair);
}

// Another handle of an XRC target of this process.
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes) {
  return made([&]() -> ibv_qp* {
    constexpr unsigned kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if ((attributes->comp_mask & kNeeded) != kNeeded || attributes->xrcd == nullptr ||
        attributes->qp_type != IBV_QPT_XRC_RECV) {
      refuse(EINVAL, "only an XRC target can be opened, by its number and XRC domain");
    }
    const XrcDomain& domain = of(*attributes->xrcd);
    require_same_opening(*context, *domain.context, "xrcd");
    Owned<QueuePair> pair = make_object<QueuePair>(nullptr);
    pair->nic = domain.nic;
    pair->xrc_handle = domain.handle;
    ibv_qp& common = pair->qp_base;
    common.context = context;
    common.qp_context = (attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attributes->qp_context : nullptr;
    common.handle = common.qp_num = attributes->qp_num;
    common.qp_type = IBV_QPT_XRC_RECV;
    domain.nic->call([&](nic::Nic& /*device*/) {
      const auto found = domain.nic->queue_pairs.find(attributes->qp_num);
      if (found == domain.nic->queue_pairs.end() ||
          found->second->pair->options().type != nic::QueuePairType::xrc_target ||
          found->second->pair->options().xrc_domain != domain.domain) {
        refuse(EINVAL, fmt::format("the XRC domain has no target {:#x}", attributes->qp_num));
      }
      pair->pair = found->second->pair;
      common.state = static_cast<ibv_qp_state>(pair->pair->state());
      domain.nic->opened_pairs.insert(pair.get());
    });
    init_acknowledgements(common);
    return &pair.release()->qp_base;
  });
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;
namespace nic = sidelatch::softnic::nic;

SIDELATCH_VERBS_EXPORT ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  return made([&] { return &make(*domain, *attributes)->qp_base; });
}

SIDELATCH_VERBS_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* pair) { return of(*pair).has_builder ? &of(*pair) : nullptr; }

SIDELATCH_VERBS_EXPORT int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  return error_of([&] {
    nic::bear_gone_pages();  // the program may have installed a handler of its own since
    QueuePair& ours = of(*pair);
    const nic::Attributes given = given_by(mask);
    nic::QueuePairAttributes values = values_of(*attributes, given, ours.nic->options().gids.size());
    if (has(given, nic::Attributes::address)) {
      ours.nic->call([&](nic::Nic&) { ours.pair->check(values, given); });  // before seconds are lost
      values.address.mac = ours.nic->resolve(values.address.gid);
    }
    if (has(given, nic::Attributes::state) &&
        (values.state == nic::QueuePairState::reset || values.state == nic::QueuePairState::error)) {
      ours.nic->settle();  // a datagram that was posted before leaves
    }
    ours.nic->call([&](nic::Nic&) {
      // The specification allows it, but no kernel (ib_modify_qp_is_ok()), so that no program has it elsewhere.
      if (has(given, nic::Attributes::state) && values.state == nic::QueuePairState::error &&
          ours.pair->state() == nic::QueuePairState::reset) {
        refuse(EINVAL, fmt::format("queue pair {:#x}: RESET to ERROR: bring it to INIT first", pair->qp_num));
      }
      ours.pair->modify(values, given);
    });
    if ((mask & IBV_QP_STATE) != 0) {
      pair->state = attributes->qp_state;
    }
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* created) {
  return error_of([&] {
    QueuePair& ours = of(*pair);
    bool is_draining = false;
    *attributes = queried(ours.nic->call([&](nic::Nic&) {
      is_draining = ours.pair->is_draining();
      return ours.pair->query();
    }));
    attributes->sq_draining = is_draining ? 1 : 0;
    attributes->cap = capabilities_of(ours.pair->options());
    // As libibverbs does: UCX looks at the queue pair's state, and at others' attributes after a failure.
    if ((mask & IBV_QP_STATE) != 0) {
      pair->state = attributes->qp_state;
    }
    if (created != nullptr) {
      *created = {.qp_context = pair->qp_context,
                  .send_cq = pair->send_cq,
                  .recv_cq = pair->recv_cq,
                  .srq = pair->srq,
                  .cap = attributes->cap,
                  .qp_type = pair->qp_type,
                  .sq_sig_all = ours.pair->options().signal_all ? 1 : 0};
    }
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_destroy_qp(ibv_qp* pair) {
  return error_of([&] {
    QueuePair& ours = of(*pair);
    ours.nic->settle();  // a datagram that was posted before leaves
    const std::uint32_t reported = ours.nic->call([&](nic::Nic& nic) {
      if (nic.is_attached(*ours.pair)) {
        refuse(EBUSY, "the queue pair is attached to a multicast group: detach it first");
      }
      end_handle(ours, nic);
      forget_events(of(*pair->context), [&](const ibv_async_event& event) { return is_of(event, *pair); });
      return ours.reported;
    });
    wait_for_acknowledgements(*pair, pair->events_completed, reported);
    end_acknowledgements(*pair);
    end_object(ours);
    return 0;
  });
}

// The bytes of one request may appear in any order (docs/memory-model.md, rule 3).
SIDELATCH_VERBS_EXPORT int ibv_query_qp_data_in_order(ibv_qp* /*pair*/, ibv_wr_opcode /*opcode*/,
                                                      std::uint32_t /*flags*/) {
  return 0;
}

SIDELATCH_VERBS_EXPORT int ibv_query_ece(ibv_qp* /*pair*/, ibv_ece* /*enhancement*/) { return EOPNOTSUPP; }
SIDELATCH_VERBS_EXPORT int ibv_set_ece(ibv_qp* /*pair*/, ibv_ece* /*enhancement*/) { return EOPNOTSUPP; }
SIDELATCH_VERBS_EXPORT int ibv_attach_mcast(ibv_qp* pair, const ibv_gid* group, std::uint16_t /*lid*/) {
  return error_of([&] {
    QueuePair& ours = of(*pair);
    ours.nic->call([&](nic::Nic& nic) { nic.attach(*ours.pair, gid_of(*group)); });
    return 0;
  });
}
SIDELATCH_VERBS_EXPORT int ibv_detach_mcast(ibv_qp* pair, const ibv_gid* group, std::uint16_t /*lid*/) {
  return error_of([&] {
    QueuePair& ours = of(*pair);
    ours.nic->call([&](nic::Nic& nic) { nic.detach(*ours.pair, gid_of(*group)); });
    return 0;
  });
}
