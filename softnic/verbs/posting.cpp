// Posting to queue pairs: ibv_post_send(3), ibv_post_recv(3).
//
// Posting allocates nothing and takes the NIC's lock once per chain.
#include "posting.h"

#include "context.h"

#include <cerrno>

namespace sidelatch::softnic::verbs {

namespace {

int post_one(QueuePair& pair, const ibv_send_wr& request) {
  const auto kind = kind_of(request.opcode);
  if (!kind) {
    refuse(EOPNOTSUPP, fmt::format("there is no opcode {}", static_cast<int>(request.opcode)));
  }
  const nic::QueuePairOptions& options = pair.pair->options();
  if (request.num_sge < 0 ||
      static_cast<std::uint32_t>(request.num_sge) > std::min<std::size_t>(options.most_send_sges, kMostSges)) {
    refuse(EINVAL, fmt::format("num_sge is {}: this queue pair was made for up to {} (max_send_sge)", request.num_sge,
                               options.most_send_sges));
  }
  nic::SendRequest converted = request_of(request, *kind);
  if (*kind == nic::WorkKind::bind_window) {
    if (request.bind_mw.mw == nullptr || request.bind_mw.mw->type != IBV_MW_TYPE_2) {
      refuse(EINVAL, "IBV_WR_BIND_MW needs a memory window of type 2");
    }
    converted.binding = binding_of(*request.bind_mw.mw, request.bind_mw.rkey, request.bind_mw.bind_info);
  }
  SgeRoom room;
  converted.sges = convert_sges(request.sg_list, request.num_sge, room);
  if (options.type == nic::QueuePairType::ud && nic::is_taken(*kind, options.type, converted.inlined)) {
    if (request.wr.ud.ah == nullptr) {
      refuse(EINVAL, "a datagram needs an address handle");
    }
    const AddressHandle& handle = of(*request.wr.ud.ah);
    converted.to = handle.to;
    converted.is_to_foreign = handle.domain != options.domain;
    converted.remote_qp = request.wr.ud.remote_qpn;
    converted.remote_q_key = request.wr.ud.remote_qkey;
  }
  if (options.type == nic::QueuePairType::xrc_initiator) {
    converted.remote_srq = request.qp_type.xrc.remote_srqn & roce::Psn::kMask;
  }
  return answer_of(pair.pair->post_send(converted));
}

}  // namespace

int post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
  QueuePair& ours = of(*pair);
  return post_all(*ours.nic, request, refused, [&](const ibv_send_wr& one) { return post_one(ours, one); });
}

int post_recv(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** refused) {
  QueuePair& ours = of(*pair);
  return post_all(*ours.nic, request, refused, [&](const ibv_recv_wr& one) {
    return post_receive(one, ours.pair->options().most_receive_sges,
                        [&](const nic::ReceiveRequest& converted) { return ours.pair->post_receive(converted); });
  });
}

}  // namespace sidelatch::softnic::verbs
