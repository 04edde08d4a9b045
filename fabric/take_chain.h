// The path of every request to the NIC: one pass over its chain checks, numbers and counts requests, and signals where
// necessary.
#pragma once

#include <sidelatch/fabric/queue_pair.h>

namespace sidelatch::fabric {

inline constexpr std::uint64_t kLongestTransfer = 1ULL << 31;  // InfiniBand: the largest message of an RC queue pair

template <class Give>
void QueuePair::take_chain(std::span<const WorkRequest> chain, bool signal_last, Give give) {
  const auto n = static_cast<std::uint32_t>(chain.size());
  if (chain.empty() || chain.size() > longest_chain_) [[unlikely]] {
    refuse_length(chain.size());
  }
  if (ring_ == nullptr) [[unlikely]] {
    ring_ = std::make_unique<InFlight[]>(options_.send_queue_depth);
  }
  // A request must be signalled early enough that its completion frees what others wait for: once each interval, when
  // it fills the send queue, and always while the completion queue is half full (so unsignalled requests can hold at
  // most half of it).
  const std::uint32_t entries_left = reactor_->cq_free_ - n;
  const std::uint32_t interval = entries_left <= reactor_->cq_depth_ / 2 ? 1 : options_.signal_interval;
  const std::uint64_t last = posted_ + n;
  const bool must_signal_last = signal_last || last - completed_ == options_.send_queue_depth;
  InFlight* const ring = ring_.get();
  const std::uint64_t mask = options_.send_queue_depth - 1;
  std::uint64_t sequence = posted_;
  std::uint64_t signaled_last = last_signaled_;
  std::uint32_t since_signal = since_signal_;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  for (const WorkRequest& request : chain) {
    ++sequence;
    InFlight& entry = ring[sequence & mask];
    std::byte* data = request.local.data;
    std::uint64_t length = request.local.length;
    std::uint32_t lkey = 0;
    // check() reports the error.
    bool checks_region = length != 0;
    bool delivers = true;
    if (is_atomic(request.opcode)) {
      if (request.remote.value % 8 != 0 || request.inlined || (data != nullptr && length != 8)) [[unlikely]] {
        refuse(request);
      }
      bytes_read += 8;
      bytes_written += 8;
      if (data == nullptr) {
        if (length != 0) [[unlikely]] {
          check(request);
        }
        checks_region = false;
        data = results_ != nullptr ? results_ + (sequence & mask) * 8 : reinterpret_cast<std::byte*>(&entry.result);
        length = 8;
        lkey = results_lkey_;
      }
    } else {
      if (length > kLongestTransfer || request.opcode > Opcode::read) [[unlikely]] {
        if (length > kLongestTransfer || request.opcode != Opcode::send || !two_sided()) {
          refuse(request);
        }
      }
      delivers = request.opcode == Opcode::read;
      (delivers ? bytes_read : bytes_written) += length;
      if (request.inlined) {
        if (delivers || length > options_.max_inline) [[unlikely]] {
          refuse(request);
        }
        checks_region = false;
      }
    }
    entry.lkey = 0;
    if (checks_region) {
      const Node::Registration* const region = node_->find(request.local.lkey);
      if (region == nullptr || length > region->length ||
          static_cast<std::uint64_t>(data - region->data) > region->length - length ||
          (delivers && !allows(region->access, Access::local_write))) [[unlikely]] {
        refuse(request);
      }
      lkey = region->nic_lkey;
      entry.lkey = request.local.lkey.value;
    }
    entry.remote = request.remote.value;
    entry.length = static_cast<std::uint32_t>(length);
    entry.rkey = request.rkey.value;
    entry.opcode = request.opcode;
    ++since_signal;
    const bool signaled = request.signaled || since_signal >= interval || (sequence == last && must_signal_last);
    if (signaled) {
      since_signal = 0;
      signaled_last = sequence;
    }
    give(NicRequest{request, sequence, data, static_cast<std::uint32_t>(length), lkey, signaled});
  }
  reactor_->cq_free_ = entries_left;
  posted_ = last;
  last_signaled_ = signaled_last;
  since_signal_ = since_signal;
  counters_.bytes_read += bytes_read;
  counters_.bytes_written += bytes_written;
  ++counters_.doorbells;
  counters_.requests += n;
}

}  // namespace sidelatch::fabric
