// Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3), ibv_ack_cq_events(3), ibv_req_notify_cq(3).
//
// A channel's descriptor is readable while an event waits, and may be polled and made non-blocking. Events wait in the
// order in which they happened; the events of a queue that ends are removed.
#include "context.h"
#include "export.h"

#include <memory>

namespace sidelatch::softnic::verbs {

namespace {

// Nullptr if the event's queue was destroyed meanwhile.
CompletionQueue* take_event(CompletionChannel& channel) {
  return channel.nic->call([&](nic::Nic&) -> CompletionQueue* {
    if (channel.waiting.empty()) {
      return nullptr;
    }
    CompletionQueue* const queue = channel.waiting.front();
    channel.waiting.pop_front();
    ++queue->notified;
    return queue;
  });
}

}  // namespace

int req_notify_cq(ibv_cq* queue, int solicited_only) {
  return error_of([&] {
    CompletionQueue& ours = of(*queue);
    if (ours.channel == nullptr) {
      return 0;  // there is no channel to notify
    }
    ours.nic->call([&](nic::Nic&) {
      ours.queue->arm(solicited_only != 0 ? nic::CompletionQueue::Arm::solicited : nic::CompletionQueue::Arm::any);
      if (!ours.is_armed) {
        ours.nic->armed.push_back(&ours);
        ours.is_armed = true;
      }
    });
    return 0;
  });
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

SIDELATCH_VERBS_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return made([&]() -> ibv_comp_channel* {
    auto channel = std::make_unique<CompletionChannel>();
    channel->context = context;
    channel->fd = channel->counter.descriptor();
    channel->nic = of(*context).nic.get();
    return channel.release();
  });
}

SIDELATCH_VERBS_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return error_of([&] {
    if (__atomic_load_n(&channel->refcnt, __ATOMIC_ACQUIRE) > 0) {
      return EBUSY;
    }
    delete &of(*channel);
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
  CompletionChannel& ours = of(*channel);
  CompletionQueue* const found = wait_for_event(*ours.nic, ours.counter, [&] { return take_event(ours); });
  if (found == nullptr) {
    return -1;
  }
  *queue = as_cq(*found);
  *user = found->cq_context;
  return 0;
}

SIDELATCH_VERBS_EXPORT void ibv_ack_cq_events(ibv_cq* queue, unsigned events) {
  acknowledge(*queue, queue->comp_events_completed, events);
}
