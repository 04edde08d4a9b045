#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sidelatch::fabric {

namespace {

constexpr std::uint64_t kLongestTransfer = 1ULL << 31;  // InfiniBand: the largest message of an RC queue pair

void require_range(const char* field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(fmt::format("{} is {}: it must be {} to {}", field, value, least, most));
  }
}

}  // namespace

void QueuePairOptions::validate() const {
  require_range("send_queue_depth", send_queue_depth, 2, 32768);
  if (!std::has_single_bit(send_queue_depth)) {
    throw std::invalid_argument(fmt::format("send_queue_depth is {}: it must be a power of two", send_queue_depth));
  }
  require_range("max_rd_atomic", max_rd_atomic, 1, 128);
  require_range("max_inline", max_inline, 0, 1024);
  require_range("signal_interval", signal_interval, 0, send_queue_depth);
  require_range("receive_queue_depth", receive_queue_depth, 1, 32768);
}

QueuePair::QueuePair(Node& node, Reactor& reactor, const QueuePairOptions& options)
    : node_(&node),
      reactor_(&reactor),
      options_(options),
      longest_chain_(std::min(options.send_queue_depth, reactor.completion_queue_depth() / 2)) {
  options_.validate();
  if (options_.signal_interval == 0) {
    options_.signal_interval = options_.send_queue_depth / 2;
  }
  if (reactor.posting_.size() < longest_chain_) {  // here, so that no post allocates
    reactor.posting_.resize(longest_chain_);
  }
  cq_waiter_.queue_pair = this;
  node_index_ = node_->queue_pairs_.size();
  node_->queue_pairs_.push_back(this);
}

QueuePair::~QueuePair() {
  std::vector<QueuePair*>& all = node_->queue_pairs_;
  all[node_index_] = all.back();
  all[node_index_]->node_index_ = node_index_;
  all.pop_back();
}

void QueuePair::check(const WorkRequest& request) const {
  if (request.opcode == Opcode::recv) {
    throw FabricError(Status::invalid_request, request, "a receive buffer is posted by post_receive()");
  }
  if (is_message(request.opcode) && !two_sided()) {
    throw FabricError(Status::invalid_request, request,
                      "this queue pair is one-sided: connect it by Node::connect_pair(), where the fabric has that, or "
                      "use WRITE, READ, CAS or FETCH-ADD");
  }
  check_length(request);
  const std::uint64_t length = request.length();
  if (is_atomic(request.opcode)) {
    if (request.remote.value % 8 != 0) {
      throw FabricError(Status::invalid_request, request,
                        fmt::format("address {:#x} is misaligned: an atomic's address must be a multiple of 8",
                                    request.remote.value));
    }
    if (request.local.data != nullptr && request.local.length != 8) {
      throw FabricError(Status::invalid_request, request,
                        fmt::format("its result buffer has {} bytes: it must have 8", request.local.length));
    }
  }
  if (request.inlined) {
    if (!is_write(request.opcode) && !is_send(request.opcode)) {
      throw FabricError(Status::invalid_request, request, "only a WRITE or SEND has a payload to inline");
    }
    if (length > options_.max_inline) {
      throw FabricError(Status::invalid_request, request,
                        fmt::format("an inlined payload must have at most {} bytes (max_inline)", options_.max_inline));
    }
    return;  // the payload is copied at the post, so it needs no registered memory
  }
  check_local(request, request.opcode == Opcode::read || is_atomic(request.opcode));
}

void QueuePair::check_length(const WorkRequest& request) {
  if (request.length() > kLongestTransfer) {
    throw FabricError(Status::invalid_request, request,
                      fmt::format("the length must be at most {} bytes", kLongestTransfer));
  }
}

// `delivers`: whether the NIC writes into the buffer.
void QueuePair::check_local(const WorkRequest& request, bool delivers) const {
  if (request.local.length == 0) {
    return;
  }
  const Node::Registration* region = node_->find(request.local.lkey);
  if (region == nullptr) {
    throw FabricError(
        Status::local_protection, request,
        fmt::format("lkey {:#x} names no live region of node {}", request.local.lkey.value, node_->name()));
  }
  const bool inside =
      request.local.data >= region->data && request.local.length <= region->length &&
      static_cast<std::uint64_t>(request.local.data - region->data) <= region->length - request.local.length;
  if (!inside) {
    throw FabricError(
        Status::local_protection, request,
        fmt::format("local buffer {}+{} is outside region {:#x}, [{}, {})",
                    static_cast<const void*>(request.local.data), request.local.length, request.local.lkey.value,
                    static_cast<const void*>(region->data), static_cast<const void*>(region->data + region->length)));
  }
  if (delivers && !allows(region->access, Access::local_write)) {
    throw FabricError(Status::local_protection, request,
                      fmt::format("local region {:#x} has access {}: results and messages need local_write",
                                  request.local.lkey.value, to_string(region->access)));
  }
}

[[gnu::noinline, gnu::cold]] void QueuePair::refuse(const WorkRequest& request) const {
  check(request);
  throw std::logic_error("a request was refused that is not wrong");
}

[[gnu::noinline, gnu::cold]] void QueuePair::refuse_length(std::size_t n) const {
  throw FabricError(Status::invalid_request,
                    fmt::format("a chain of {} requests was posted: it must have 1 to {} (send_queue_depth, and half "
                                "of the completion queue)",
                                n, longest_chain_));
}

void QueuePair::check_chain(std::span<const WorkRequest> chain) const {
  if (chain.empty() || chain.size() > longest_chain_) {
    refuse_length(chain.size());
  }
  for (const WorkRequest& request : chain) {
    check(request);
  }
}

bool QueuePair::send_queue_has_room(std::size_t n) const noexcept {
  return outstanding_so_far() + n <= options_.send_queue_depth;
}

// Whether a chain of `n` has to wait: there is no room, or others already wait.
bool QueuePair::must_wait(std::size_t n) const noexcept {
  return !line_.empty() || !reactor_->cq_waiters_.empty() || !send_queue_has_room(n) || reactor_->cq_free_ < n;
}

bool QueuePair::is_short_of_room() const noexcept {
  return !line_.empty() || !reactor_->cq_waiters_.empty() || !send_queue_has_room(1) ||
         reactor_->cq_free_ <= reactor_->cq_depth_ / 2;
}

std::uint64_t QueuePair::last_awaited() const noexcept {
  return pending_.empty() ? 0 : static_cast<const ChainAwaiter&>(pending_.back()).last_;
}

std::size_t QueuePair::first_chain_length() const noexcept {
  return line_.empty() ? 0 : static_cast<const ChainAwaiter&>(line_.front()).chain_.size();
}

void QueuePair::throw_if_failed() const {
  if (state_ == State::error) {
    throw FabricError(*error_);
  }
}

bool QueuePair::post(std::span<const WorkRequest> chain) {
  throw_if_failed();
  if (must_wait(chain.size())) {
    check_chain(chain);
    reactor_->progress_is_read(this, true);  // before the nudge, which is no post of the caller's
    if (!send_queue_has_room(chain.size())) {
      request_signal();  // a caller that only retries must find room eventually
    }
    return false;
  }
  check_and_post(chain, false);
  if (reactor_->explores()) [[unlikely]] {
    static_cast<void>(reactor_->part_behind_post(nullptr));
  }
  return true;
}

// The way of every request to its world: checked, remembered, signalled where it must be, counted, in one pass over its
// chain, for which there is room. Throws FabricError for a bad request. Then nothing was posted, because nothing that
// others see is changed before all requests are checked.
void QueuePair::check_and_post(std::span<const WorkRequest> chain, bool signal_last) {
  const auto n = static_cast<std::uint32_t>(chain.size());
  if (chain.size() - 1 >= longest_chain_) [[unlikely]] {  // 0 - 1 is too long as well
    refuse_length(chain.size());
  }
  if (ring_ == nullptr) [[unlikely]] {
    make_ring();
  }
  InFlight* const ring = ring_.get();
  InFlight* const ring_end = ring + options_.send_queue_depth;
  InFlight* entry = &in_flight(posted_);
  CheckedRequest* const checked = reactor_->posting_.data();
  CheckedRequest* to = checked;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  bool asks_for_signals = false;
  for (const WorkRequest& request : chain) {
    if (++entry == ring_end) [[unlikely]] {
      entry = ring;
    }
    std::byte* data = request.local.data;
    std::uint64_t length = request.local.length;
    bool checks_region = length != 0;
    bool delivers = true;
    std::uint32_t lkey = 0;
    if (is_atomic(request.opcode)) {
      if (request.remote.value % 8 != 0 || request.inlined || (data == nullptr ? length != 0 : length != 8))
          [[unlikely]] {
        refuse(request);
      }
      bytes_read += 8;
      bytes_written += 8;
      if (data == nullptr) {
        data = results_ + (entry - ring) * 8;
        length = 8;
        lkey = results_lkey_;
      }
    } else {
      if (length > kLongestTransfer) [[unlikely]] {
        refuse(request);
      }
      if (request.opcode == Opcode::read) {
        if (request.inlined) [[unlikely]] {
          refuse(request);
        }
        bytes_read += length;
      } else {
        if (request.opcode != Opcode::write && (!is_message(request.opcode) || !two_sided())) [[unlikely]] {
          refuse(request);
        }
        bytes_written += length;
        delivers = false;
        if (request.inlined) {
          if (length > options_.max_inline) [[unlikely]] {
            refuse(request);
          }
          checks_region = false;
        }
      }
    }
    std::uint32_t used_lkey = 0;
    if (checks_region) {
      const Node::Registration* const region = node_->find(request.local.lkey);
      if (region == nullptr || length > region->length ||
          static_cast<std::uint64_t>(data - region->data) > region->length - length ||
          (delivers && !allows(region->access, Access::local_write))) [[unlikely]] {
        refuse(request);
      }
      lkey = region->nic_lkey;
      used_lkey = request.local.lkey.value;
    }
    entry->remote = request.remote.value;
    entry->length = static_cast<std::uint32_t>(length);
    entry->rkey = request.rkey.value;
    entry->lkey = used_lkey;
    entry->opcode = request.opcode;
    asks_for_signals |= request.signaled;
    *to++ = {&request, data, static_cast<std::uint32_t>(length), lkey, request.signaled};
  }
  const std::uint64_t last = posted_ + n;
  reactor_->cq_free_ -= n;
  // Some request must be signalled while it is still known that its completion will free what others wait for: one each
  // interval, and the one that fills the send queue.
  if (asks_for_signals || last - last_signaled_ >= signal_interval()) [[unlikely]] {
    signal_some({checked, n});
  }
  if (signal_last || last - completed_ == options_.send_queue_depth) {
    (to - 1)->signaled = true;
    last_signaled_ = last;
  }
  posted_ = last;
  counters_.bytes_read += bytes_read;
  counters_.bytes_written += bytes_written;
  counters_.requests += n;
  if (options_.one_doorbell_each) [[unlikely]] {
    counters_.doorbells += n;
    for (std::size_t i = 0; i < n; ++i) {
      post_chain({checked + i, 1}, last - n + 1 + i);
    }
    return;
  }
  ++counters_.doorbells;
  post_chain({checked, n}, last - n + 1);
}

// Not before the first post: many queue pairs are made, and some are never used.
void QueuePair::append_bookkeeping(std::vector<std::span<const std::byte>>& out) const {
  out.push_back(std::as_bytes(std::span(&counters_, 1)));
  if (ring_ != nullptr) {
    out.push_back(std::as_bytes(std::span(ring_.get(), options_.send_queue_depth)));
  }
  if (own_results_ != nullptr) {
    out.push_back(std::as_bytes(std::span(own_results_.get(), options_.send_queue_depth)));
  }
}

[[gnu::noinline]] void QueuePair::make_ring() {
  if (results_ == nullptr) {
    own_results_ = std::make_unique<std::uint64_t[]>(options_.send_queue_depth);
    results_ = reinterpret_cast<std::byte*>(own_results_.get());
  }
  ring_ = std::make_unique<InFlight[]>(options_.send_queue_depth);
}

// Every request is signalled while the completion queue is half full: so at most half of it can be held by requests
// that nobody signalled.
std::uint64_t QueuePair::signal_interval() const noexcept {
  return reactor_->cq_free_ <= reactor_->cq_depth_ / 2 ? 1 : options_.signal_interval;
}

// Most chains need no second pass for their signals: they are shorter than what is left of the interval.
[[gnu::noinline]] void QueuePair::signal_some(std::span<CheckedRequest> chain) noexcept {
  const std::uint64_t interval = signal_interval();
  std::uint64_t sequence = posted_;
  for (CheckedRequest& request : chain) {
    ++sequence;
    request.signaled = request.signaled || sequence - last_signaled_ >= interval;
    if (request.signaled) {
      last_signaled_ = sequence;
    }
  }
}

void QueuePair::post_nudge() {
  // An empty WRITE touches no memory; its completion shows that everything before it has completed.
  nudge_wanted_ = false;
  const WorkRequest empty = WorkRequest{}.with_signal();
  check_and_post({&empty, 1}, true);
}

// Ensures that the completion of everything posted so far will be reported.
void QueuePair::request_signal() {
  if (last_signaled_ != posted_) {
    nudge_wanted_ = true;
    take_place();
    reactor_->return_completion_entries(0);
  }
}

void QueuePair::wait_until_completed(ChainAwaiter& awaiter) {
  Waiter* position = pending_.empty() ? nullptr : &pending_.back();
  while (position != nullptr && static_cast<ChainAwaiter*>(position)->last_ > awaiter.last_) {
    position = pending_.before(*position);
  }
  if (position == nullptr) {
    pending_.push_front(awaiter);
  } else {
    pending_.insert_after(awaiter, *position);
  }
}

// Every request passes here, so the calls are flattened: they are as short as the call itself.
[[gnu::flatten]] bool QueuePair::start(ChainAwaiter& awaiter) {
  if (state_ == State::error) {
    awaiter.error_ = error_;
    return false;
  }
  if (awaiter.until_ == ChainAwaiter::Until::reached) {
    return start_reach(awaiter);
  }
  if (!awaiter.old_values_.empty() && awaiter.old_values_.size() != awaiter.chain_.size()) [[unlikely]] {
    refuse_places(awaiter);
  }
  if (must_wait(awaiter.chain_.size())) [[unlikely]] {
    join_line(awaiter);
    return true;
  }
  return post_for(awaiter);
}

[[gnu::noinline]] void QueuePair::refuse_places(const ChainAwaiter& awaiter) {
  throw FabricError(Status::invalid_request, fmt::format("{} places for the old values of a chain of {} requests",
                                                         awaiter.old_values_.size(), awaiter.chain_.size()));
}

[[gnu::noinline]] void QueuePair::join_line(ChainAwaiter& awaiter) {
  check_chain(awaiter.chain_);
  ++counters_.waits;
  line_.push_back(awaiter);
  take_place();
  reactor_->return_completion_entries(0);
}

[[gnu::noinline]] bool QueuePair::start_reach(ChainAwaiter& awaiter) {
  if (awaiter.last_ <= completed_) {
    return false;
  }
  if (awaiter.last_ > posted_) {
    throw FabricError(Status::invalid_request,
                      fmt::format("request number {} was waited for, but only {} were posted", awaiter.last_, posted_));
  }
  wait_until_completed(awaiter);
  if (last_signaled_ < awaiter.last_) {
    request_signal();
  }
  return true;
}

// Returns true if the awaiter has to wait: for a completion of the posted chain, or because the world says so.
bool QueuePair::post_for(ChainAwaiter& awaiter) {
  const bool wait = awaiter.until_ == ChainAwaiter::Until::completed;
  check_and_post(awaiter.chain_, wait);
  awaiter.last_ = posted_;
  if (awaiter.posting_ != nullptr) {
    *awaiter.posting_ = {posted_ - awaiter.chain_.size() + 1, posted_};
  }
  if (wait) {
    wait_until_completed(awaiter);
    return true;
  }
  return reactor_->explores() && reactor_->part_behind_post(&awaiter);
}

// Joins the line of queue pairs that need completion entries, if the send queue has room for the next post: a nudge, or
// the first chain in line. If only a nudge can make that room, there will be one.
[[gnu::noinline]] void QueuePair::take_place() {
  if (state_ == State::error || cq_waiter_.linked()) {
    return;
  }
  const std::size_t n = first_chain_length();
  nudge_wanted_ = last_signaled_ != posted_ && (nudge_wanted_ || !send_queue_has_room(n));
  if (nudge_wanted_ || (n != 0 && send_queue_has_room(n))) {
    reactor_->cq_waiters_.push_back(cq_waiter_);
  }
}

// Posts the nudge or the first chain in line. False: there are too few completion entries, and the queue pair stays
// first in line.
bool QueuePair::admit() {
  const std::size_t n = nudge_wanted_ ? 1 : first_chain_length();
  const bool posts = n != 0 && send_queue_has_room(n);  // the waiting task may have been destroyed
  if (posts && reactor_->cq_free_ < n) {
    return false;
  }
  cq_waiter_.unlink();
  if (posts && nudge_wanted_) {
    post_nudge();
  } else if (posts) {
    post_first_in_line();
  }
  take_place();
  return true;
}

void QueuePair::post_first_in_line() {
  auto& awaiter = static_cast<ChainAwaiter&>(line_.front());
  awaiter.unlink();
  try {
    if (post_for(awaiter)) {
      return;
    }
  } catch (const FabricError& error) {  // a region may have ended while the chain waited
    awaiter.error_ = std::make_shared<const FabricError>(error);
  }
  reactor_->ready(awaiter);
}

std::optional<std::uint64_t> QueuePair::result_of(std::uint64_t number) const noexcept {
  const bool is_there = number <= completed_ && posted_ - number < options_.send_queue_depth;
  if (!is_there || results_ == nullptr || reactor_->explores() ||
      !is_atomic(ring_[number & (options_.send_queue_depth - 1)].opcode)) {  // none, or it was flushed
    return std::nullopt;
  }
  std::uint64_t value = 0;
  std::memcpy(&value, results_ + (number & (options_.send_queue_depth - 1)) * 8, sizeof value);
  return value;
}

// Old values are taken out as soon as their requests complete: the ring entries are free for others afterwards.
void QueuePair::collect_results(ChainAwaiter& awaiter, std::uint64_t sequence) {
  const std::uint64_t before = awaiter.last_ - awaiter.chain_.size();
  const std::uint64_t end = std::min(awaiter.last_, sequence);  // before the chain if its first has not completed
  for (std::uint64_t s = std::max(before, completed_) + 1; s <= end; ++s) {
    const std::size_t i = s - before - 1;
    const WorkRequest& request = awaiter.chain_[i];
    if (is_atomic(request.opcode)) {
      const std::byte* const from = request.local.data != nullptr ? request.local.data : result_slot(s);
      std::memcpy(&awaiter.old_values_[i], from, 8);
    }
  }
}

void QueuePair::finish_chains(std::uint64_t sequence) {
  while (!pending_.empty()) {
    auto& awaiter = static_cast<ChainAwaiter&>(pending_.front());
    if (awaiter.last_ > sequence) {
      break;
    }
    if (!awaiter.chain_.empty()) {
      ++counters_.round_trips;
      if (!awaiter.old_values_.empty()) {
        collect_results(awaiter, sequence);
      }
    }
    reactor_->ready(awaiter);
  }
  // Among the remaining chains only the first can have begun to complete; tasks that wait for a number may be before
  // it.
  for (Waiter* next = pending_.empty() ? nullptr : &pending_.front(); next != nullptr; next = pending_.after(*next)) {
    auto& awaiter = static_cast<ChainAwaiter&>(*next);
    if (!awaiter.chain_.empty()) {
      if (!awaiter.old_values_.empty()) {
        collect_results(awaiter, sequence);
      }
      break;
    }
  }
}

void QueuePair::end_unused_regions() {
  if (!node_->dying_.empty()) [[unlikely]] {
    node_->end_unused();
  }
}

[[gnu::flatten]] void QueuePair::on_completed(std::uint64_t sequence) {
  if (sequence <= completed_) {
    return;
  }
  finish_chains(sequence);
  const auto freed = static_cast<std::uint32_t>(sequence - completed_);
  completed_ = sequence;
  if (nudge_wanted_ || !line_.empty()) {
    take_place();
  }
  reactor_->return_completion_entries(freed);
  end_unused_regions();
}

void QueuePair::on_error(std::uint64_t sequence, Status status, std::string_view detail) {
  enter_error(sequence, status, detail);
  on_completed(sequence - 1);
  fail_all(error_, sequence);
}

void QueuePair::on_ended(const std::shared_ptr<const FabricError>& cause) {
  if (state_ == State::error) {
    return;
  }
  ++counters_.errors;
  ++failures_;
  posted_before_failure_ = posted_;
  state_ = State::error;
  error_ = cause;
  nudge_wanted_ = false;
  cq_waiter_.unlink();
  receives_->close(cause);  // with its own cause, before fail_all() closes it with the error of flushed requests
  fail_all(cause, std::numeric_limits<std::uint64_t>::max());
}

void QueuePair::on_refused(std::uint64_t sequence, Status status, std::string_view detail) {
  enter_error(sequence, status, detail);
  fail_all(error_, sequence);
}

void QueuePair::enter_error(std::uint64_t sequence, Status status, std::string_view detail) {
  ++counters_.errors;
  ++failures_;
  posted_before_failure_ = posted_;
  const InFlight& entry = in_flight(sequence);
  WorkRequest request;
  request.opcode = entry.opcode;
  request.local.length = entry.length;
  request.remote = {entry.remote};
  request.rkey = {entry.rkey};
  // Set the state first, so that nothing is posted into the room that earlier requests leave.
  state_ = State::error;
  error_ = std::make_shared<const FabricError>(status, request, detail);
  nudge_wanted_ = false;
  cq_waiter_.unlink();
}

void QueuePair::fail_all(const std::shared_ptr<const FabricError>& cause, std::uint64_t failed) {
  cancel_in_flight();
  const auto flushed =
      cause->status() == Status::disconnected
          ? cause
          : std::make_shared<const FabricError>(
                Status::flushed, fmt::format("another request of this queue pair failed: {}", cause->what()));
  const auto fail = [&](ChainAwaiter& awaiter) {
    const std::uint64_t before = awaiter.last_ - awaiter.chain_.size();
    const bool is_cause = awaiter.last_ >= failed && before < failed && !awaiter.chain_.empty();
    awaiter.error_ = is_cause ? cause : flushed;
    reactor_->ready(awaiter);
  };
  while (!pending_.empty()) {
    fail(static_cast<ChainAwaiter&>(pending_.front()));
  }
  while (!line_.empty()) {
    auto& awaiter = static_cast<ChainAwaiter&>(line_.front());
    awaiter.error_ = flushed;
    reactor_->ready(awaiter);
  }
  if (receives_ != nullptr) {
    receives_->close(flushed);
  }
  nudge_wanted_ = false;
  cq_waiter_.unlink();
  const auto freed = static_cast<std::uint32_t>(outstanding_so_far());
  for (std::uint64_t sequence = completed_ + 1; sequence <= posted_; ++sequence) {
    in_flight(sequence).opcode = Opcode::recv;  // which is in no send queue: result_of() has nothing to tell
  }
  completed_ = posted_;
  last_signaled_ = posted_;
  reactor_->return_completion_entries(freed);
  end_unused_regions();
}

std::uint64_t QueuePair::bytes_in_flight() const noexcept {
  std::uint64_t bytes = 0;
  for (std::uint64_t sequence = completed_ + 1; sequence <= posted_; ++sequence) {
    bytes += ring_[sequence & (options_.send_queue_depth - 1)].length;
  }
  return bytes;
}

void QueuePair::disconnect() noexcept {
  const bool idle = pending_.empty() && line_.empty() && outstanding_so_far() == 0 && receives_ == nullptr;
  if (!idle) {
    fail_all(std::make_shared<const FabricError>(Status::disconnected, "the queue pair was destroyed"),
             std::numeric_limits<std::uint64_t>::max());
  }
}

Task<void> QueuePair::reconnect() {
  if (state_ == State::ready) {
    co_await drain();
    co_return;
  }
  const std::shared_ptr<const FabricError> failure = error_;
  const std::weak_ptr<const bool> alive = alive_;
  co_await restore_connection();
  if (alive.expired()) {
    throw FabricError(Status::disconnected, "the queue pair was destroyed during reconnect()");
  }
  // Another task may have reconnected the queue pair meanwhile, and a request may have failed since.
  if (error_ == failure) {
    state_ = State::ready;
    error_ = nullptr;
  }
  throw_if_failed();
}

void QueuePair::make_two_sided() {
  receives_ = std::make_shared<ReceiveQueue>(*reactor_, options_.receive_queue_depth);
}

bool QueuePair::post_receive(const LocalSpan& into) {
  const WorkRequest request = recv(into);
  if (!two_sided()) {
    throw FabricError(Status::invalid_request, request,
                      "this queue pair is one-sided: connect it by Node::connect_pair(), where the fabric has that");
  }
  throw_if_failed();
  if (receives_->error() != nullptr) {
    throw FabricError(*receives_->error());
  }
  check_length(request);
  check_local(request, /*delivers=*/true);
  if (!receives_->has_room()) {
    return false;
  }
  receives_->post(into);
  ++counters_.receives;
  receive_posted(into);
  if (reactor_->explores()) [[unlikely]] {
    static_cast<void>(reactor_->part_behind_post(nullptr));
  }
  return true;
}

ReceiveQueue::Awaiter QueuePair::receive() {
  if (!two_sided()) {
    throw FabricError(Status::invalid_request, recv({}),
                      "this queue pair is one-sided: connect it by Node::connect_pair(), where the fabric has that");
  }
  return ReceiveQueue::Awaiter(receives_);
}

bool QueuePair::uses(LKey key) const noexcept {
  if (receives_ != nullptr && receives_->uses(key)) {
    return true;
  }
  for (std::uint64_t s = completed_ + 1; s <= posted_; ++s) {
    if (ring_[s & (options_.send_queue_depth - 1)].lkey == key.value) {
      return true;
    }
  }
  return false;
}

}  // namespace sidelatch::fabric
