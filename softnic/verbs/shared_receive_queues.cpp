// Shared receive queues: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3), ibv_post_srq_recv(3).
//
// Basic ones, and those for XRC, which have a completion queue of their own; tag matching is refused.
#include "context.h"
#include "export.h"
#include "placement.h"
#include "posting.h"

#include <fmt/format.h>

#include <memory>

namespace sidelatch::softnic::verbs {

namespace {

// XRC: `xrc` names the domain and the completion queue.
SharedReceiveQueue* make(ibv_pd& domain, void* user, ibv_srq_attr& attributes,
                         const ibv_srq_init_attr_ex* xrc = nullptr) {
  ProtectionDomain& its = of(domain);
  Owned<SharedReceiveQueue> queue = make_object<SharedReceiveQueue>(&its);
  queue->context = domain.context;
  queue->srq_context = user;
  queue->pd = &domain;
  queue->nic = its.nic;
  queue->queue = its.nic->call([&](nic::Nic& nic) {
    nic::ReceiveQueue& made = xrc == nullptr
                                  ? nic.make_shared_receive_queue(its.domain, attributes.max_wr, attributes.max_sge)
                                  : nic.make_xrc_receive_queue(its.domain, attributes.max_wr, attributes.max_sge,
                                                               of(*xrc->xrcd).domain, *of(*xrc->cq).queue);
    made.hold_until_polled();
    queue->is_xrc = xrc != nullptr;
    its.nic->shared_receive_queues.emplace(made.number(), queue.get());
    return &made;
  });
  if (xrc != nullptr) {
    queue->xrc_handle = of(*xrc->xrcd).handle;
  }
  queue->handle = queue->queue->number();
  attributes.srq_limit = 0;  // ignored when a queue is made
  init_acknowledgements(*queue);
  return queue.release();
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes) {
  return made([&]() -> ibv_srq* {
    constexpr unsigned kXrcMasks = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    constexpr unsigned kMasks = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | kXrcMasks;
    const ibv_srq_type type =
        (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 ? IBV_SRQT_BASIC : attributes->srq_type;
    if ((attributes->comp_mask & ~kMasks) != 0 || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)) {
      refuse(EOPNOTSUPP, "there are shared receive queues for connections and for XRC, none for tag matching");
    }
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) {
      refuse(EINVAL, "a shared receive queue needs a protection domain");
    }
    require_same_opening(*context, *attributes->pd->context, "pd");
    if (type == IBV_SRQT_BASIC) {
      return make(*attributes->pd, attributes->srq_context, attributes->attr);
    }
    if ((attributes->comp_mask & kXrcMasks) != kXrcMasks || attributes->xrcd == nullptr || attributes->cq == nullptr) {
      refuse(EINVAL, "a shared receive queue for XRC needs an XRC domain and a completion queue");
    }
    require_same_opening(*context, *attributes->xrcd->context, "xrcd");
    require_same_opening(*context, *attributes->cq->context, "cq");
    return make(*attributes->pd, attributes->srq_context, attributes->attr, attributes);
  });
}

int get_srq_num(ibv_srq* queue, std::uint32_t* number) {
  if (!of(*queue).is_xrc) {
    return EOPNOTSUPP;
  }
  *number = of(*queue).queue->number();
  return 0;
}

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
    SharedReceiveQueue& ours = of(*queue);
    if ((mask & ~int{IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT}) != 0) {
      refuse(EINVAL, fmt::format("srq_attr_mask {:#x}: there are no such attributes", static_cast<unsigned>(mask)));
    }
    ours.nic->call([&](nic::Nic& nic) {
      const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
      const std::uint32_t depth = resizes ? attributes->max_wr : ours.queue->depth();
      const std::uint32_t limit = (mask & IBV_SRQ_LIMIT) != 0 ? attributes->srq_limit : ours.queue->limit();
      if (limit > depth) {
        refuse(EINVAL, fmt::format("max_wr is {}, and srq_limit {}: the queue would always be below", depth, limit));
      }
      if (resizes) {
        nic.resize(*ours.queue, depth);
      }
      if ((mask & IBV_SRQ_LIMIT) != 0) {
        ours.queue->set_limit(attributes->srq_limit);
      }
    });
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_query_srq(ibv_srq* queue, ibv_srq_attr* attributes) {
  return error_of([&] {
    SharedReceiveQueue& ours = of(*queue);
    ours.nic->call([&](nic::Nic&) {
      attributes->max_wr = ours.queue->depth();
      attributes->max_sge = ours.queue->most_sges();
      attributes->srq_limit = ours.queue->limit();
    });
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
    end_object(ours);
    return 0;
  });
}
