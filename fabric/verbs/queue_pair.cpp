#include "queue_pair.h"

#include "node.h"

#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

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
      return Status::invalid_request;
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

ibv_wr_opcode opcode_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::read:
      return IBV_WR_RDMA_READ;
    case Opcode::compare_swap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Opcode::fetch_add:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
      return IBV_WR_RDMA_WRITE;
  }
}

constexpr unsigned flag_if(bool wanted, ibv_send_flags flag) { return wanted ? static_cast<unsigned>(flag) : 0U; }

// So that packets of an earlier connection are not taken for this one's.
std::uint32_t random_packet_number() {
  static thread_local std::mt19937 random{std::random_device{}()};
  return static_cast<std::uint32_t>(random()) & 0xff'ffff;
}

}  // namespace

void Peer::connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding) {
  const Address own = port.address_of(queue_pair, random_packet_number());
  const Address other = accept(own);
  port.connect(queue_pair, own, other, outstanding);
}

VerbsQueuePair::VerbsQueuePair(VerbsNode& node, const Port& port, VerbsReactor& reactor, ibv_pd* domain,
                               std::unique_ptr<Peer> peer, const QueuePairOptions& options)
    : QueuePair(node, reactor, options),
      node_(&node),
      port_(&port),
      reactor_(&reactor),
      peer_(std::move(peer)),
      results_(std::make_unique<std::uint64_t[]>(options.send_queue_depth)),
      place_(reactor.attach(*this)) {
  try {
    const std::size_t bytes = options.send_queue_depth * sizeof(std::uint64_t);
    results_region_.reset(ibv_reg_mr(domain, results_.get(), bytes, static_cast<int>(IBV_ACCESS_LOCAL_WRITE)));
    if (results_region_ == nullptr) {
      throw DeviceError(
          fmt::format("cannot register {} bytes with {}: {}; raise the limit of locked memory (ulimit -l "
                      "unlimited)",
                      bytes, port.device_name(), std::strerror(errno)));
    }
    use_results(reinterpret_cast<std::byte*>(results_.get()));
    std::uint32_t max_inline = options.max_inline;
    raw_ = port.make_queue_pair(domain, reactor.completions(), options.send_queue_depth, max_inline);
    limit_inline(max_inline);
    connect();
  } catch (...) {
    reactor.detach(place_);
    throw;
  }
}

VerbsQueuePair::~VerbsQueuePair() {
  disconnect();
  raw_.reset();
  reactor_->detach(place_);
}

std::uint64_t VerbsQueuePair::mark(std::uint64_t sequence) const noexcept {
  return (static_cast<std::uint64_t>(place_) << 44) | (static_cast<std::uint64_t>(epoch_) << 32) |
         (sequence & 0xffff'ffff);
}

void VerbsQueuePair::ring_doorbell(std::span<const WorkRequest> chain, std::uint64_t first) {
  // Read by the provider before ibv_post_send() returns.
  static thread_local std::vector<ibv_send_wr> requests;
  static thread_local std::vector<ibv_sge> buffers;
  if (requests.size() < chain.size()) {
    requests.resize(chain.size());
    buffers.resize(chain.size());
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const WorkRequest& from = chain[i];
    ibv_send_wr& to = requests[i];
    to.wr_id = mark(first + i);
    to.next = i + 1 < chain.size() ? &requests[i + 1] : nullptr;
    to.sg_list = &buffers[i];
    to.num_sge = from.local.length == 0 ? 0 : 1;
    to.opcode = opcode_of(from.opcode);
    to.send_flags = flag_if(from.signaled, IBV_SEND_SIGNALED) | flag_if(from.fence, IBV_SEND_FENCE) |
                    flag_if(from.inlined, IBV_SEND_INLINE);
    if (is_atomic(from.opcode)) {
      to.wr.atomic.remote_addr = from.remote.value;
      to.wr.atomic.rkey = from.rkey.value;
      to.wr.atomic.compare_add = from.opcode == Opcode::compare_swap ? from.compare : from.swap_or_add;
      to.wr.atomic.swap = from.swap_or_add;
    } else {
      to.wr.rdma.remote_addr = from.remote.value;
      to.wr.rdma.rkey = from.rkey.value;
    }
    buffers[i].addr = reinterpret_cast<std::uintptr_t>(from.local.data);
    buffers[i].length = static_cast<std::uint32_t>(from.local.length);
    const Node::Registration* const region = from.inlined ? nullptr : node_->find(from.local.lkey);
    buffers[i].lkey = region != nullptr ? region->nic_lkey : results_region_->lkey;
  }
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(raw_.get(), requests.data(), &refused);
  if (error != 0) [[unlikely]] {
    failed_post_ = first + (refused == nullptr ? 0 : static_cast<std::uint64_t>(refused - requests.data()));
    post_error_ = error;
    reactor_->report_later(*this);
  }
}

void VerbsQueuePair::report_failed_post() {
  if (state() == State::ready && failed_post_ > completed()) {
    on_error(failed_post_, Status::invalid_request,
             fmt::format("the NIC's driver does not take it: {}", std::strerror(post_error_)));
  }
}

void VerbsQueuePair::on_completion(const ibv_wc& completion, std::uint32_t epoch) {
  if (epoch != epoch_ || state() != State::ready) {
    return;
  }
  const auto ahead = static_cast<std::uint32_t>(completion.wr_id) - static_cast<std::uint32_t>(completed());
  const std::uint64_t sequence = completed() + ahead;
  if (completion.status == IBV_WC_SUCCESS) [[likely]] {
    on_completed(sequence);
  } else {
    on_error(sequence, status_of(completion.status),
             fmt::format("{}: {} (vendor error {:#x})", port_->device_name(), ibv_wc_status_str(completion.status),
                         completion.vendor_err));
  }
}

void VerbsQueuePair::cancel_in_flight() noexcept {
  epoch_ = (epoch_ + 1) & 0xfff;
  Port::stop(*raw_);
}

Task<void> VerbsQueuePair::restore_connection() {
  try {
    connect();
  } catch (const DeviceError& error) {
    throw FabricError(Status::device_failure, error.what());
  }
  co_return;
}

}  // namespace sidelatch::fabric::verbs
