// Features that this NIC does not support: flows, work queues, counters, device memory, rate limits. Each returns what
// its manual page gives for "not supported": EOPNOTSUPP, or NULL with that errno. docs/softnic.md has the list.
#include "context.h"
#include "export.h"

#include <cerrno>

namespace sidelatch::softnic::verbs {

namespace {

// A function of any signature.
template <class Result, class... Arguments>
Result refuse_call(Arguments... /*arguments*/) noexcept {
  if constexpr (std::is_pointer_v<Result>) {
    errno = EOPNOTSUPP;
    return nullptr;
  } else {
    return EOPNOTSUPP;
  }
}

template <class Result, class... Arguments>
void set(Result (*&operation)(Arguments...)) noexcept {
  operation = refuse_call<Result, Arguments...>;
}

}  // namespace

void fill_unsupported(Context& context) noexcept {
  set(context.read_counters);
  set(context.attach_counters_point_flow);
  set(context.create_counters);
  set(context.destroy_counters);
  set(context.reg_dm_mr);
  set(context.alloc_dm);
  set(context.free_dm);
  set(context.modify_flow_action_esp);
  set(context.destroy_flow_action);
  set(context.create_flow_action_esp);
  set(context.modify_qp_rate_limit);
  set(context.modify_cq);
  set(context.destroy_rwq_ind_table);
  set(context.create_rwq_ind_table);
  set(context.destroy_wq);
  set(context.modify_wq);
  set(context.create_wq);
  set(context.ibv_destroy_flow);
  set(context.ibv_create_flow);
  // The function must report where it stopped.
  context.post_srq_ops = [](ibv_srq* /*queue*/, ibv_ops_wr* request, ibv_ops_wr** refused) {
    *refused = request;
    return EOPNOTSUPP;
  };
}

}  // namespace sidelatch::softnic::verbs

SIDELATCH_VERBS_EXPORT ibv_dm* ibv_import_dm(ibv_context* /*context*/, std::uint32_t /*handle*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
SIDELATCH_VERBS_EXPORT void ibv_unimport_dm(ibv_dm* /*memory*/) {}
