#include "queue_pair.h"

#include "node.h"
#include "pair.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <endian.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <utility>

namespace sidelatch::fabric::verbs {

namespace {

// ibv_poll_cq(3).
Status status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return Status::local_operation;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return Status::local_protection;
    case IBV_WC_REM_ACCESS_ERR:
      return Status::remote_access;
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return Status::remote_invalid_request;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return Status::retry_exceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return Status::rnr_retry_exceeded;
    case IBV_WC_WR_FLUSH_ERR:
      return Status::flushed;
    default:
      return Status::device_failure;
  }
}

// By Opcode. A RECV is never in a send queue.
constexpr std::array kOpcodes = {
    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_SEND,       IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE_WITH_IMM};
static_assert(Opcode::write == Opcode{0} && Opcode::read == Opcode{1} && Opcode::compare_swap == Opcode{2} &&
              Opcode::fetch_add == Opcode{3} && Opcode::send == Opcode{4} && Opcode::recv == Opcode{5} &&
              Opcode::send_with_immediate == Opcode{6} && Opcode::write_with_immediate == Opcode{7});

constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

}  // namespace

std::uint32_t random_packet_number() {
  static thread_local std::mt19937 random{std::random_device{}()};
  return static_cast<std::uint32_t>(random()) & 0xff'ffff;
}

bool Peer::inherit(const RemoteSpan& /*tuple*/) {
  throw std::logic_error("inherit: the queue pair is not connected through the exchange of a switch");
}

std::uint8_t Peer::resume(const RemoteSpan& /*tuple*/, std::uint64_t /*version*/) {
  throw std::logic_error("resume: the queue pair is not connected through the exchange of a switch");
}

std::uint32_t Peer::connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) {
  const Address own = port.address_of(queue_pair, random_packet_number());
  const Address other = accept(own);
  return port.connect(queue_pair, own, other, outstanding);
}

Peer::Steps Peer::start_connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) {
  return {nullptr, [this, &port, &queue_pair, outstanding] { return connect(port, queue_pair, outstanding); }};
}

VerbsQueuePair::VerbsQueuePair(VerbsNode& node, const Port& port, VerbsReactor& reactor, ibv_pd* domain,
                               std::unique_ptr<Peer> peer, const QueuePairOptions& options, std::shared_ptr<Pair> pair,
                               std::size_t side)
    : QueuePair(node, reactor, options),
      port_(&port),
      reactor_(&reactor),
      peer_(std::move(peer)),
      results_(std::make_unique<std::uint64_t[]>(options.send_queue_depth)),
      place_(reactor.attach(*this)),
      mark_(reactor.new_mark(place_)),
      fence_(port.is_soft_roce() ? std::make_unique<SoftwareFence>() : nullptr),
      pair_(std::move(pair)),
      side_(side) {
  try {
    if (pair_ == nullptr) {
      make(domain);
      connect();
    } else {
      receive_side_ = reactor.reserve_receives(options.receive_queue_depth);
      make(domain);
      make_two_sided();
      pair_->ends[side_] = this;
      pair_->nodes[side_] = &node;
    }
  } catch (...) {
    reactor.release_receives(receive_side_);
    reactor.detach(place_);
    throw;
  }
}

void VerbsQueuePair::make(ibv_pd* domain) {
  const QueuePairOptions& wanted = options();
  reactor_->make_posting_room(wanted.send_queue_depth);
  const std::size_t bytes = wanted.send_queue_depth * sizeof(std::uint64_t);
  results_region_.reset(ibv_reg_mr(domain, results_.get(), bytes, static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE)));
  if (results_region_ == nullptr) {
    throw DeviceError(
        fmt::format("cannot register {} bytes with {}: {}; raise the limit of locked memory (ulimit -l "
                    "unlimited)",
                    bytes, port_->device_name(), std::strerror(errno)));
  }
  use_results(reinterpret_cast<std::byte*>(results_.get()), results_region_->lkey);
  std::uint32_t max_inline = wanted.max_inline;
  // Two markers of the fence may be in the queue, in addition to the requested depth.
  const std::uint32_t depth = wanted.send_queue_depth + (fence_ != nullptr ? 2U : 0U);
  raw_ = port_->make_queue_pair(domain, reactor_->completions(), depth, max_inline, receive_side_);
  limit_inline(max_inline);
}

VerbsQueuePair::~VerbsQueuePair() {
  if (restoration_ != nullptr) {
    restoration_->is_over = true;
  }
  disconnect();
  raw_.reset();
  if (pair_ != nullptr) {
    pair_->ends[side_] = nullptr;
    reactor_->release_receives(receive_side_);
  }
  reactor_->detach(place_);
}

void VerbsQueuePair::require_queue_pair() const {
  if (raw_ == nullptr) {
    throw DeviceError(fmt::format("the queue pair could only be stopped by destroying it; make a new one on {}",
                                  port_->device_name()));
  }
}

void VerbsQueuePair::connect() {
  require_queue_pair();
  limit_rd_atomic(peer_->connect(*port_, *raw_, options().max_rd_atomic));
}

// `sequence`: number of the chain's first request.
[[gnu::always_inline]] inline void VerbsQueuePair::give(ibv_send_wr& first, std::uint64_t sequence) {
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(raw_.get(), &first, &refused);
  if (error != 0) [[unlikely]] {
    keep_refusal(first, refused, sequence, error);
  }
}

void VerbsQueuePair::post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) {
  if (refused_ != 0) [[unlikely]] {
    return;  // it would overtake what was refused; it will be flushed
  }
  VerbsReactor::Posting* const posting = reactor_->posting();
  VerbsReactor::Posting* const behind = posting + chain.size();
  VerbsReactor::Posting* place = posting;
  std::uint64_t sequence = first;
  for (const CheckedRequest& checked : chain) {
    const WorkRequest& from = *checked.posted;
    ibv_send_wr& to = place->request;
    to.wr_id = mark_ | (sequence & 0xffff'ffff);
    to.num_sge = checked.length == 0 ? 0 : 1;
    to.opcode = kOpcodes[static_cast<std::size_t>(from.opcode)];
    to.send_flags = flag_if(checked.signaled, IBV_SEND_SIGNALED) | flag_if(from.fence, IBV_SEND_FENCE) |
                    flag_if(from.inlined, IBV_SEND_INLINE);
    if (is_atomic(from.opcode)) {
      to.wr.atomic.remote_addr = from.remote.value;
      to.wr.atomic.rkey = from.rkey.value;
      to.wr.atomic.compare_add = from.opcode == Opcode::compare_swap ? from.compare : from.swap_or_add;
      to.wr.atomic.swap = from.swap_or_add;
    } else {
      to.wr.rdma.remote_addr = from.remote.value;
      to.wr.rdma.rkey = from.rkey.value;
      if (from.opcode >= Opcode::send_with_immediate) [[unlikely]] {
        to.imm_data = htobe32(from.immediate);
      }
    }
    place->buffer.addr = reinterpret_cast<std::uintptr_t>(checked.data);
    place->buffer.length = checked.length;
    place->buffer.lkey = checked.lkey;
    ++place;
    ++sequence;
  }
  // The places are linked for good, but for the last one of a chain.
  ibv_send_wr& last = (behind - 1)->request;
  last.next = nullptr;
  const auto is_fenced = [](const CheckedRequest& checked) { return checked.posted->fence; };
  if (fence_ != nullptr && (fence_->holds() || std::ranges::any_of(chain, is_fenced))) {
    try {
      fence_->take(&posting->request, first);
      post_held();
    } catch (const std::bad_alloc&) {
      keep_refusal(posting->request, nullptr, first, ENOMEM);
    }
  } else {
    give(posting->request, first);
  }
  last.next = &behind->request;
}

[[gnu::noinline]] void VerbsQueuePair::keep_refusal(const ibv_send_wr& first, const ibv_send_wr* refused,
                                                    std::uint64_t sequence, int error) {
  refused_ = sequence;
  for (const ibv_send_wr* taken = &first; refused != nullptr && taken != refused; taken = taken->next) {
    ++refused_;
  }
  refusal_ = error;
  reactor_->report_later(*this);
}

[[gnu::noinline]] void VerbsQueuePair::post_held() {
  while (refused_ == 0) {
    const SoftwareFence::Chain chain = fence_->next(completed());
    if (chain.first == nullptr) {
      return;
    }
    give(*chain.first, chain.sequence);
  }
}

void VerbsQueuePair::report_refused() {
  if (refused_ != 0 && state() == State::ready) {
    on_refused(std::max(refused_, completed() + 1), Status::local_operation,
               fmt::format("the driver of {} does not take it: {}", port_->device_name(), std::strerror(refusal_)));
  }
}

void VerbsQueuePair::report_stalled(Duration waited) {
  on_refused(
      completed() + 1, Status::device_failure,
      fmt::format("{} has not completed it for {} s, longer than the connection's timeout and retry_count allow: "
                  "the NIC or its driver has lost it, or its completion",
                  port_->device_name(), std::chrono::duration_cast<std::chrono::seconds>(waited).count()));
}

void VerbsQueuePair::on_failure(std::uint64_t sequence, const ibv_wc& completion) {
  // The other end has ended, and the NIC was told to give up.
  if (other_ended_ && completion.status == IBV_WC_WR_FLUSH_ERR) {
    on_error(std::max(sequence, completed() + 1), Status::retry_exceeded, kOtherEnded);
    return;
  }
  // A completed request cannot fail: the failure is that of a fence's marker after it.
  on_error(std::max(sequence, completed() + 1), status_of(completion.status),
           fmt::format("{}: {} (vendor error {:#x})", port_->device_name(), ibv_wc_status_str(completion.status),
                       completion.vendor_err));
}

void VerbsQueuePair::cancel_in_flight() noexcept {
  if (pair_ != nullptr) {
    ends_ = true;
    reactor_->take_receives(receive_side_);  // messages that have arrived are not lost
  }
  mark_ = reactor_->new_mark(place_);
  reactor_->forget_completions(outstanding_so_far());
  refused_ = 0;
  if (fence_ != nullptr) {
    fence_->clear();
  }
  if (raw_ != nullptr && !Port::stop(raw_)) {
    abort_for("a queue pair");
  }
  end_other();
}

Task<void> VerbsQueuePair::restore_connection() {
  if (pair_ != nullptr) {
    throw FabricError(Status::disconnected, "an end of a pair stays ended: connect a new pair");
  }
  try {
    require_queue_pair();
    if (restoration_ == nullptr) {
      auto begun = std::make_shared<Restoration>();
      begun->steps = peer_->start_connect(*port_, *raw_, options().max_rd_atomic);  // may throw
      restoration_ = std::move(begun);
    }
    // The queue pair may be destroyed while this waits; its restoration is then over.
    const std::shared_ptr<Restoration> restoration = restoration_;
    try {
      if (restoration->steps.answer != nullptr) {
        co_await reactor_->wait_for(restoration->steps.answer);
      }
      if (!restoration->is_over) {
        limit_rd_atomic(restoration->steps.connect());
      }
    } catch (...) {
      restoration->error = restoration->error == nullptr ? std::current_exception() : restoration->error;
    }
    if (!restoration->is_over) {
      restoration->is_over = true;
      restoration_.reset();
    }
    if (restoration->error != nullptr) {
      std::rethrow_exception(restoration->error);
    }
  } catch (const DeviceError& error) {
    throw FabricError(Status::device_failure, error.what());
  }
}

}  // namespace sidelatch::fabric::verbs
