#include "software_fence.h"

#include <cstring>
#include <utility>

namespace sidelatch::fabric::verbs {

void SoftwareFence::take(const ibv_send_wr* chain, std::uint64_t sequence) {
  for (; chain != nullptr; chain = chain->next, ++sequence) {
    Held& held = held_.emplace_back(Held{sequence, *chain, {}, {}});
    if (chain->num_sge != 0) {
      held.buffer = *chain->sg_list;
    }
    if ((chain->send_flags & static_cast<unsigned>(IBV_SEND_INLINE)) != 0) {
      held.inlined.resize(held.buffer.length);
      if (held.buffer.length != 0) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this process
        std::memcpy(held.inlined.data(), reinterpret_cast<const void*>(held.buffer.addr), held.buffer.length);
      }
      held.buffer.addr = reinterpret_cast<std::uintptr_t>(held.inlined.data());
    }
  }
}

SoftwareFence::Chain SoftwareFence::next(std::uint64_t completed) {
  posting_.clear();
  posting_.reserve(held_.size() + 1);  // requests that left held_ must not be lost
  const auto must_wait = [&] {
    return !held_.empty() && is_fenced(held_.front().request) && completed + 1 < held_.front().sequence;
  };
  while (!held_.empty() && !must_wait()) {
    posting_.push_back(std::move(held_.front()));
    held_.pop_front();
  }
  if (must_wait() && signaled_ != held_.front().sequence) {
    signaled_ = held_.front().sequence;
    if (posting_.empty()) {
      // All requests before the fence were posted earlier, maybe without a signal. An empty WRITE completes after them.
      Held marker{signaled_ - 1, {}, {}, {}};
      const std::uint64_t id = held_.front().request.wr_id;
      marker.request.wr_id = (id & ~std::uint64_t{0xffff'ffff}) | (marker.sequence & 0xffff'ffff);
      marker.request.opcode = IBV_WR_RDMA_WRITE;
      posting_.push_back(std::move(marker));
    }
    posting_.back().request.send_flags |= static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
  if (posting_.empty()) {
    return {};
  }
  for (std::size_t i = 0; i < posting_.size(); ++i) {
    ibv_send_wr& request = posting_[i].request;
    request.send_flags &= ~static_cast<unsigned>(IBV_SEND_FENCE);
    request.sg_list = &posting_[i].buffer;
    request.next = i + 1 < posting_.size() ? &posting_[i + 1].request : nullptr;
  }
  return {&posting_.front().request, posting_.front().sequence};
}

void SoftwareFence::clear() noexcept {
  held_.clear();
  signaled_ = 0;
}

}  // namespace sidelatch::fabric::verbs
