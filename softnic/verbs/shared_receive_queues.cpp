// Shared receive queues: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3), ibv_post_srq_recv(3).
//
// Supports only basic ones; those for XRC and tag matching are refused. Their size cannot be changed.
#include "context.h"
#include "export.h"
#include "posting.h"

#include <memory>

namespace sidelatch::softnic::verbs {

namespace {

SharedReceiveQueue* make(ibv_pd& domain, void* user, ibv_srq_attr& attributes) {
  ProtectionDomain& its = of(domain);
  auto queue = std::make_unique<SharedReceiveQueue>();
  queue->context = domain.context;
  queue->srq_context = user;
  queue->pd = &domain;
  queue->nic = its.nic;
  queue->queue = its.nic->call([&](nic::Nic& nic) {
    nic::ReceiveQueue& made = nic.make_shared_receive_queue(its.domain, attributes.max_wr, attributes.max_sge);
    its.nic->shared_receive_queues.emplace(made.number(), queue.get());
    return &made;
  });
  queue->handle = queue->queue->number();
  attributes.srq_limit = 0;  // ignored when a queue is made
  init_acknowledgements(*queue);
  return queue.release();
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* /*context*/, ibv_srq_init_attr_ex* attributes) {
  return made([&]() -> ibv_srq* {
    constexpr unsigned kMasks = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    const bool is_basic =
        (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attributes->srq_type == IBV_SRQT_BASIC;
    if ((attributes->comp_mask & ~kMasks) != 0 || !is_basic) {
      refuse(EOPNOTSUPP, "there are basic shared receive queues only, none for XRC or tag matching");
    }
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) {
      refuse(EINVAL, "a shared receive queue needs a protection domain");
    }
    return make(*attributes->pd, attributes->srq_context, attributes->attr);
  });
}

int get_srq_num(ibv_srq* /*queue*/, std::uint32_t* /*number*/) { return EOPNOTSUPP; }  // XRC

int post_srq_recv(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr** refused) {
  SharedReceiveQueue& ours = of(*queue);
  return post_all(*ours.nic, request, refused, [&](const ibv_recv_wr& one) {
    return post_receive(one, ours.queue->most_sges(),
                        [&](const nic::ReceiveRequest& converted) { return ours.queue->post(converted); });
  });
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;
namespace nic = sidelatch::softnic::nic;

SIDELATCH_VERBS_EXPORT ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) {
  return made([&]() -> ibv_srq* { return make(*domain, attributes->srq_context, attributes->attr); });
}

SIDELATCH_VERBS_EXPORT int ibv_modify_srq(ibv_srq* queue, ibv_srq_attr* attributes, int mask) {
  return error_of([&] {
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
      return EOPNOTSUPP;  // the device's flags lack IBV_DEVICE_SRQ_RESIZE
    }
    SharedReceiveQueue& ours = of(*queue);
    if ((mask & IBV_SRQ_LIMIT) == 0) {
      return 0;
    }
    if (attributes->srq_limit > ours.queue->depth()) {
      return EINVAL;
    }
    ours.nic->call([&](nic::Nic&) { ours.queue->set_limit(attributes->srq_limit); });
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_query_srq(ibv_srq* queue, ibv_srq_attr* attributes) {
  return error_of([&] {
    SharedReceiveQueue& ours = of(*queue);
    attributes->max_wr = ours.queue->depth();
    attributes->max_sge = ours.queue->most_sges();
    attributes->srq_limit = ours.nic->call([&](nic::Nic&) { return ours.queue->limit(); });
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_destroy_srq(ibv_srq* queue) {
  return error_of([&] {
    SharedReceiveQueue& ours = of(*queue);
    const std::uint32_t reported = ours.nic->call([&](nic::Nic& nic) {
      const std::uint32_t number = ours.queue->number();
      nic.destroy(*ours.queue);
      ours.nic->shared_receive_queues.erase(number);
      forget_events(of(*queue->context), [&](const ibv_async_event& event) {
        return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == queue;
      });
      return ours.reported;
    });
    wait_for_acknowledgements(ours, ours.events_completed, reported);
    end_acknowledgements(ours);
    delete &ours;
    return 0;
  });
}
