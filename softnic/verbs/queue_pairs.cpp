// Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_destroy_qp(3) and the
// other functions of a queue pair.
//
// The services are RC and UD; others are refused with EOPNOTSUPP. Giving a queue pair its address (INIT to RTR)
// resolves the Ethernet address of the GID, and fails with ETIMEDOUT if nobody answers.
#include "context.h"
#include "convert.h"
#include "export.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace sidelatch::softnic::verbs {

namespace {

using nic::Attributes;

constexpr std::uint64_t kReliableOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                              IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                              IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                              IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr std::uint64_t kDatagramOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

nic::QueuePairType type_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return nic::QueuePairType::rc;
    case IBV_QPT_UD:
      return nic::QueuePairType::ud;
    default:
      refuse(EOPNOTSUPP, fmt::format("queue pairs of type {}: there are RC and UD", static_cast<unsigned>(type)));
  }
}

nic::QueuePairOptions options_of(const ProtectionDomain& domain, const ibv_qp_init_attr& attributes) {
  if (attributes.send_cq == nullptr || attributes.recv_cq == nullptr) {
    refuse(EINVAL, "a queue pair needs completion queues for sends and receives");
  }
  const ibv_qp_cap& wanted = attributes.cap;
  return {.type = type_of(attributes.qp_type),
          .domain = domain.domain,
          .send_completions = of(*attributes.send_cq).queue,
          .receive_completions = of(*attributes.recv_cq).queue,
          .shared_receives = attributes.srq == nullptr ? nullptr : of(*attributes.srq).queue,
          .send_depth = wanted.max_send_wr,
          .receive_depth = attributes.srq == nullptr ? wanted.max_recv_wr : 0,
          .most_send_sges = wanted.max_send_sge,
          .most_receive_sges = attributes.srq == nullptr ? wanted.max_recv_sge : 0,
          .most_inline = wanted.max_inline_data,
          .signal_all = attributes.sq_sig_all != 0};
}

ibv_qp_cap capabilities_of(const nic::QueuePairOptions& options) {
  return {.max_send_wr = options.send_depth,
          .max_recv_wr = options.receive_depth,
          .max_send_sge = options.most_send_sges,
          .max_recv_sge = options.most_receive_sges,
          .max_inline_data = options.most_inline};
}

QueuePair* make(ibv_pd& domain, ibv_qp_init_attr& attributes) {
  ProtectionDomain& its = of(domain);
  const nic::QueuePairOptions options = options_of(its, attributes);
  auto pair = std::make_unique<QueuePair>();
  pair->nic = its.nic;
  pair->pair = its.nic->call([&](nic::Nic& nic) {
    nic::QueuePair& made = nic.make_queue_pair(options);
    its.nic->queue_pairs.emplace(made.number(), pair.get());
    return &made;
  });
  ibv_qp& common = pair->qp_base;
  common.context = domain.context;
  common.qp_context = attributes.qp_context;
  common.pd = &domain;
  common.send_cq = attributes.send_cq;
  common.recv_cq = attributes.recv_cq;
  common.srq = attributes.srq;
  common.handle = common.qp_num = pair->pair->number();
  common.state = IBV_QPS_RESET;
  common.qp_type = attributes.qp_type;
  init_acknowledgements(common);
  attributes.cap = capabilities_of(options);
  return pair.release();
}

void require_supported(const ibv_qp_init_attr_ex& attributes) {
  constexpr unsigned kMasks = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attributes.comp_mask & ~kMasks) != 0) {
    refuse(EOPNOTSUPP, fmt::format("ibv_qp_init_attr_ex: comp_mask {:#x}", attributes.comp_mask));
  }
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attributes.create_flags != 0) {
    refuse(EOPNOTSUPP, fmt::format("ibv_qp_init_attr_ex: create_flags {:#x}", attributes.create_flags));
  }
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes.pd == nullptr) {
    refuse(EINVAL, "a queue pair needs a protection domain");
  }
  const bool is_reliable = type_of(attributes.qp_type) == nic::QueuePairType::rc;
  const std::uint64_t there = is_reliable ? kReliableOperations : kDatagramOperations;
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
nic::QueuePairAttributes values_of(ProcessNic& nic, const ibv_qp_attr& from, Attributes given) {
  nic::QueuePairAttributes to;
  const auto is_given = [given](Attributes one) { return has(given, one); };
  if (is_given(Attributes::state)) {
    to.state = state_of(from.qp_state);
  }
  if (is_given(Attributes::current_state)) {
    to.current_state = state_of(from.cur_qp_state);
  }
  if (is_given(Attributes::rights)) {
    to.rights = rights_of(from.qp_access_flags);
  }
  if (is_given(Attributes::path_mtu)) {
    to.path_mtu = path_mtu_of(from.path_mtu);
  }
  if (is_given(Attributes::address)) {
    to.address = address_of(from.ah_attr, nic.options().gids.size());
    to.address.mac = nic.resolve(to.address.gid);
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

ibv_qp* create_qp_ex(ibv_context* /*context*/, ibv_qp_init_attr_ex* attributes) {
  return made([&]() -> ibv_qp* {
    require_supported(*attributes);
    // The struct begins with the fields of ibv_qp_init_attr (verbs.h, ibv_create_qp_ex()).
    QueuePair* const pair = make(*attributes->pd, reinterpret_cast<ibv_qp_init_attr&>(*attributes));
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
      pair->has_builder = true;
      fill_builder(*pair);
    }
    return &pair->qp_base;
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
    QueuePair& ours = of(*pair);
    const nic::Attributes given = given_by(mask);
    const nic::QueuePairAttributes values = values_of(*ours.nic, *attributes, given);
    ours.nic->call([&](nic::Nic&) { ours.pair->modify(values, given); });
    if ((mask & IBV_QP_STATE) != 0) {
      pair->state = attributes->qp_state;
    }
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int /*mask*/,
                                        ibv_qp_init_attr* created) {
  return error_of([&] {
    QueuePair& ours = of(*pair);
    *attributes = queried(ours.nic->call([&](nic::Nic&) { return ours.pair->query(); }));
    attributes->cap = capabilities_of(ours.pair->options());
    pair->state = attributes->qp_state;
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
    const std::uint32_t reported = ours.nic->call([&](nic::Nic& nic) {
      nic.destroy(*ours.pair);
      ours.nic->queue_pairs.erase(pair->qp_num);
      forget_events(of(*pair->context), [&](const ibv_async_event& event) { return is_of(event, *pair); });
      return ours.reported;
    });
    wait_for_acknowledgements(*pair, pair->events_completed, reported);
    end_acknowledgements(*pair);
    delete &ours;
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
SIDELATCH_VERBS_EXPORT int ibv_attach_mcast(ibv_qp* /*pair*/, const ibv_gid* /*group*/, std::uint16_t /*lid*/) {
  return EOPNOTSUPP;
}
SIDELATCH_VERBS_EXPORT int ibv_detach_mcast(ibv_qp* /*pair*/, const ibv_gid* /*group*/, std::uint16_t /*lid*/) {
  return EOPNOTSUPP;
}
