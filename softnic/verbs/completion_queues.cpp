// Completion queues: ibv_create_cq(3), ibv_resize_cq(3), ibv_poll_cq(3).
//
// Polling allocates nothing and takes only the NIC's lock. Polling an empty queue drives the NIC in the caller's thread
// (Adapter::poll()).
#include "context.h"
#include "convert.h"
#include "export.h"
#include "placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>

namespace sidelatch::softnic::verbs {

namespace {

// The most completions taken from the NIC at a time.
constexpr std::size_t kBurst = 16;

std::size_t take(nic::CompletionQueue& queue, std::span<ibv_wc> into) {
  std::array<nic::Completion, kBurst> burst;
  std::size_t taken = 0;
  while (taken < into.size()) {
    const std::size_t wanted = std::min(kBurst, into.size() - taken);
    const std::size_t count = queue.poll(std::span(burst).first(wanted));
    for (std::size_t i = 0; i < count; ++i) {
      fill(into[taken + i], burst[i]);
    }
    taken += count;
    if (count < wanted) {
      break;
    }
  }
  return taken;
}

void add_user(ibv_comp_channel* channel, int count) {
  if (channel != nullptr) {
    __atomic_fetch_add(&channel->refcnt, count, __ATOMIC_ACQ_REL);
  }
}

// Call it under the lock.
void forget_notifications(CompletionQueue& queue) {
  std::erase(queue.nic->armed, &queue);
  if (queue.channel == nullptr) {
    return;
  }
  CompletionChannel& channel = of(*queue.channel);
  for (auto waiting = std::erase(channel.waiting, &queue); waiting > 0; --waiting) {
    channel.counter.take_back();
  }
}

}  // namespace

CompletionQueue* make_completion_queue(Context& context, std::uint32_t depth, void* user, ibv_comp_channel* channel,
                                       std::uint32_t vector, ProtectionDomain* parent) {
  if (vector >= static_cast<std::uint32_t>(context.context.num_comp_vectors)) {
    refuse(EINVAL, fmt::format("comp_vector is {}: there is one, 0", vector));
  }
  if (channel != nullptr) {
    require_same_opening(context.context, *channel->context, "channel");
  }
  Owned<CompletionQueue> queue = make_object<CompletionQueue>(parent);
  queue->context = &context.context;
  queue->channel = channel;
  queue->cq_context = user;
  queue->nic = context.nic.get();
  queue->queue = context.nic->call([&](nic::Nic& nic) {
    nic::CompletionQueue& made = nic.make_completion_queue(depth);
    context.nic->completion_queues.emplace(made.number(), queue.get());
    return &made;
  });
  queue->handle = queue->queue->number();
  queue->cqe = static_cast<int>(depth);
  init_acknowledgements(*queue);
  add_user(channel, 1);
  return queue.release();
}

int poll_cq(ibv_cq* queue, int most, ibv_wc* completions) {
  std::size_t taken = 0;
  const int error = result_of([&] {
    CompletionQueue& ours = of(*queue);
    const std::span into(completions, static_cast<std::size_t>(std::max(most, 0)));
    taken = ours.nic->poll([&](nic::Nic&) { return take(*ours.queue, into); });
    return 0;
  });
  return error == 0 ? static_cast<int>(taken) : -error;
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;
namespace nic = sidelatch::softnic::nic;

SIDELATCH_VERBS_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* user, ibv_comp_channel* channel,
                                             int vector) {
  return made([&] {
    if (depth < 1) {
      refuse(EINVAL, "a completion queue needs room for one completion at least");
    }
    return as_cq(*make_completion_queue(of(*context), static_cast<std::uint32_t>(depth), user, channel,
                                        static_cast<std::uint32_t>(vector), nullptr));
  });
}

SIDELATCH_VERBS_EXPORT int ibv_resize_cq(ibv_cq* queue, int depth) {
  return error_of([&] {
    if (depth < 1) {
      return EINVAL;
    }
    CompletionQueue& ours = of(*queue);
    ours.nic->settle();  // what completes without an answer counts
    ours.nic->call([&](nic::Nic& nic) { nic.resize(*ours.queue, static_cast<std::uint32_t>(depth)); });
    queue->cqe = depth;
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_destroy_cq(ibv_cq* queue) {
  return error_of([&] {
    CompletionQueue& ours = of(*queue);
    const auto [notified, reported] = ours.nic->call([&](nic::Nic& nic) {
      const std::uint32_t number = ours.queue->number();
      nic.destroy(*ours.queue);
      ours.nic->completion_queues.erase(number);
      forget_notifications(ours);
      forget_events(of(*ours.context), [&](const ibv_async_event& event) {
        return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == queue;
      });
      return std::pair(ours.notified, ours.reported);
    });
    wait_for_acknowledgements(ours, ours.comp_events_completed, notified);
    wait_for_acknowledgements(ours, ours.async_events_completed, reported);
    end_acknowledgements(ours);
    add_user(ours.channel, -1);
    end_object(ours);
    return 0;
  });
}
