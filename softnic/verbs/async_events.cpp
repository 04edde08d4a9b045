// Asynchronous events: ibv_get_async_event(3).
//
// A context's descriptor is readable while an event of one of its objects waits. Destroying an object waits until its
// delivered events are acknowledged.
#include "context.h"
#include "export.h"

#include <optional>

namespace sidelatch::softnic::verbs {

bool is_of_queue_pair(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

namespace {

void count_handed_out(const ibv_async_event& event) {
  if (is_of_queue_pair(event.event_type)) {
    ++of(*event.element.qp).reported;
  } else if (event.event_type == IBV_EVENT_CQ_ERR) {
    ++of(*event.element.cq).reported;
  } else if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    ++of(*event.element.srq).reported;
  }
}

// Nothing if the event's object was destroyed meanwhile.
std::optional<ibv_async_event> take_event(Context& context) {
  return context.nic->call([&](nic::Nic&) -> std::optional<ibv_async_event> {
    if (context.events.empty()) {
      return std::nullopt;
    }
    const ibv_async_event event = context.events.front();
    context.events.pop_front();
    count_handed_out(event);
    return event;
  });
}

}  // namespace

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

SIDELATCH_VERBS_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Context& ours = of(*context);
  const auto found = wait_for_event(*ours.nic, ours.counter, [&] { return take_event(ours); });
  if (!found) {
    return -1;
  }
  *event = *found;
  return 0;
}

SIDELATCH_VERBS_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  if (is_of_queue_pair(event->event_type)) {
    acknowledge(*event->element.qp, event->element.qp->events_completed, 1);
  } else if (event->event_type == IBV_EVENT_CQ_ERR) {
    acknowledge(*event->element.cq, event->element.cq->async_events_completed, 1);
  } else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    acknowledge(*event->element.srq, event->element.srq->events_completed, 1);
  }
}
