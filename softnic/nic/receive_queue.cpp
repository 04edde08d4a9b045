#include "receive_queue.h"

#include <algorithm>
#include <utility>

namespace sidelatch::softnic::nic {

ReceiveQueue::ReceiveQueue(std::uint32_t depth, std::uint32_t most_sges, std::uint32_t number)
    : number_(number), most_sges_(most_sges), entries_(depth), sges_(std::size_t{depth} * most_sges) {}

Post ReceiveQueue::post(const ReceiveRequest& request) noexcept {
  if (request.sges.size() > most_sges_) {
    return Post::too_many_sges;
  }
  if (size_ + held_ >= depth()) {
    return Post::full;
  }
  const std::uint32_t place = (first_ + size_) % depth();
  ++size_;
  Entry& entry = entries_[place];
  entry = {.id = request.id, .sge_count = static_cast<std::uint32_t>(request.sges.size())};
  for (const Sge& sge : request.sges) {
    entry.length += sge.length;
  }
  std::ranges::copy(request.sges, sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{place} * most_sges_));
  return Post::done;
}

void ReceiveQueue::resize(std::uint32_t depth) {
  ReceiveQueue other(depth, most_sges_, number_);
  for (std::uint32_t i = 0; i < size_; ++i) {
    const std::uint32_t place = (first_ + i) % this->depth();
    other.entries_[i] = entries_[place];
    std::copy_n(sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{place} * most_sges_), most_sges_,
                other.sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{i} * most_sges_));
  }
  entries_ = std::move(other.entries_);
  sges_ = std::move(other.sges_);
  first_ = 0;
}

bool ReceiveQueue::take(ReceiveBuffer& into) noexcept {
  if (size_ == 0) {
    return false;
  }
  const Entry& entry = entries_[first_];
  into.id = entry.id;
  into.sge_count = entry.sge_count;
  into.length = entry.length;
  std::copy_n(sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{first_} * most_sges_), entry.sge_count,
              into.sges.begin());
  first_ = first_ + 1 == depth() ? 0 : first_ + 1;
  --size_;
  held_ += holds_ ? 1U : 0U;
  return true;
}

bool ReceiveQueue::has_reached_limit() noexcept {
  if (limit_ == 0 || size_ >= limit_) {
    return false;
  }
  limit_ = 0;
  return true;
}

}  // namespace sidelatch::softnic::nic
