// Completion queues that are polled one completion at a time: ibv_create_cq_ex(3).
//
// One thread holds the queue from start_poll() to end_poll(), unless the queue was made for a single thread. A
// completion's timestamp is the time, by CLOCK_MONOTONIC in nanoseconds, at which the NIC was last driven before it.
#include "context.h"
#include "convert.h"

#include <ctime>

namespace sidelatch::softnic::verbs {

namespace {

int next_poll(ibv_cq_ex* queue) {
  return result_of([&] {
    CompletionQueue& ours = of(*queue);
    const std::size_t taken = ours.nic->poll([&](nic::Nic&) { return ours.queue->poll({&ours.current, 1}); });
    if (taken == 0) {
      return ENOENT;
    }
    queue->wr_id = ours.current.id;
    queue->status = status_of(ours.current.status);
    return 0;
  });
}

void end_poll(ibv_cq_ex* queue) {
  if (CompletionQueue& ours = of(*queue); !ours.is_single_threaded) {
    ours.polling.unlock();
  }
}

int start_poll(ibv_cq_ex* queue, ibv_poll_cq_attr* attributes) {
  if (attributes != nullptr && attributes->comp_mask != 0) {
    return EINVAL;
  }
  if (CompletionQueue& ours = of(*queue); !ours.is_single_threaded) {
    ours.polling.lock();
  }
  const int error = next_poll(queue);
  if (error != 0) {
    end_poll(queue);  // the caller does not call it in this case
  }
  return error;
}

const nic::Completion& current(ibv_cq_ex* queue) { return of(*queue).current; }

std::uint64_t nanoseconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// The same moment by the clock that people set.
std::uint64_t wallclock_of(std::uint64_t monotonic) {
  return nanoseconds(CLOCK_REALTIME) - (nanoseconds(CLOCK_MONOTONIC) - monotonic);
}

void fill_readers(CompletionQueue& queue) {
  queue.start_poll = start_poll;
  queue.next_poll = next_poll;
  queue.end_poll = end_poll;
  queue.read_opcode = [](ibv_cq_ex* from) { return opcode_of(current(from).kind); };
  queue.read_vendor_err = [](ibv_cq_ex* /*from*/) { return std::uint32_t{0}; };
  queue.read_byte_len = [](ibv_cq_ex* from) { return current(from).bytes; };
  queue.read_imm_data = [](ibv_cq_ex* from) { return immediate_of(current(from)); };
  queue.read_qp_num = [](ibv_cq_ex* from) { return current(from).queue_pair; };
  queue.read_src_qp = [](ibv_cq_ex* from) { return current(from).source_qp; };
  queue.read_wc_flags = [](ibv_cq_ex* from) { return flags_of(current(from)); };
  // InfiniBand's addresses.
  queue.read_slid = [](ibv_cq_ex* /*from*/) { return std::uint32_t{0}; };
  queue.read_sl = [](ibv_cq_ex* from) { return current(from).packet_type; };
  queue.read_dlid_path_bits = [](ibv_cq_ex* /*from*/) { return std::uint8_t{0}; };
  queue.read_completion_ts = [](ibv_cq_ex* from) { return current(from).time; };
  queue.read_completion_wallclock_ns = [](ibv_cq_ex* from) { return wallclock_of(current(from).time); };
}

void require_supported(const ibv_cq_init_attr_ex& attributes) {
  constexpr unsigned kMasks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  // Ignoring overruns is only a hint, which this NIC need not follow: it looks anyway.
  constexpr unsigned kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  constexpr std::uint64_t kFields = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  const bool has_flags = (attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((attributes.comp_mask & ~kMasks) != 0 || (has_flags && (attributes.flags & ~kFlags) != 0)) {
    refuse(EOPNOTSUPP, "of completion queues' flags there are those for a single thread and for ignored overruns");
  }
  if ((attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (attributes.parent_domain == nullptr || of(*attributes.parent_domain).original == nullptr)) {
    refuse(EINVAL, "parent_domain is not a parent domain");
  }
  if ((attributes.wc_flags & ~kFields) != 0) {
    refuse(EOPNOTSUPP, "completions have the fields of IBV_WC_STANDARD_FLAGS, and timestamps");
  }
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  return made([&]() -> ibv_cq_ex* {
    require_supported(*attributes);
    ProtectionDomain* const parent =
        (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? &of(*attributes->parent_domain) : nullptr;
    if (parent != nullptr) {
      require_same_opening(*context, *parent->context, "parent_domain");
    }
    CompletionQueue* const queue = make_completion_queue(of(*context), attributes->cqe, attributes->cq_context,
                                                         attributes->channel, attributes->comp_vector, parent);
    queue->is_single_threaded = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
                                (attributes->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    fill_readers(*queue);
    return queue;
  });
}

}  // namespace sidelatch::softnic::verbs
