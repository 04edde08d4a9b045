// The initiating NIC: from the doorbell to the wire, and from the response to the completion.
#include "sim_queue_pair.h"
#include "world.h"

#include <sidelatch/fabric/model/effects.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sidelatch::fabric::sim {

namespace {

constexpr const char* kEndedByNode = "the node has revoked this connection; make a new one by connect_pair()";
constexpr const char* kPairStaysEnded =
    "the other end of a pair ends with it: destroy both and make new ones by connect_pair()";

std::uint64_t packets(std::uint64_t bytes, std::uint64_t mtu) { return bytes <= mtu ? 1 : (bytes + mtu - 1) / mtu; }

}  // namespace

SimQueuePair::SimQueuePair(SimNode& initiator, SimNode& target, const QueuePairOptions& options)
    : QueuePair(initiator, initiator.reactor(), options),
      initiator_(&initiator),
      target_(&target),
      connection_(++initiator.world.connections) {
  initiator.expect_answers_of(target);
}

SimQueuePair::~SimQueuePair() {
  disconnect();
  cancel_in_flight();
  World& world = initiator_->world;
  for (Connection* const connection : {open_, former_}) {
    if (connection != nullptr) {
      world.release(*connection);
    }
  }
  if (SimQueuePair* const other = peer()) {
    other->inbound_->peer = nullptr;
  }
  leave_cache();
}

void SimQueuePair::leave_cache() noexcept {
  if (cache_slot != kNotCached) {
    initiator_->nic.cached_queue_pairs[cache_slot] = nullptr;
    initiator_->nic.free_cache_slots.push_back(cache_slot);
    cache_slot = kNotCached;
  }
}

Connection* World::make_connection(std::uint64_t number) {
  Connection* const made = connection_pool_.take();
  made->number = number;
  made->executed_until = {};
  made->last_executed = std::numeric_limits<std::uint64_t>::max();
  made->references = 1;
  return made;
}

Request* World::make_request(SimQueuePair& queue_pair, const CheckedRequest& checked, std::uint64_t sequence,
                             SimNode& initiator, SimNode& target) {
  Request* request = pool_.take();
  std::construct_at(&request->wr, checked.final_form());  // in place: the copy is a good part of what this costs
  request->length = request->wr.length();
  request->kind = model::kind_of(request->wr.opcode);
  request->queue_pair = &queue_pair;
  request->connection = &queue_pair.open_connection();
  ++request->connection->references;
  request->receiver = queue_pair.peer();
  request->device = queue_pair.device;
  request->initiator = &initiator;
  request->target = &target;
  request->next = nullptr;
  request->sequence = sequence;
  request->references = 1;
  request->at_target = request->waits_back = false;
  request->payload_bound = request->admitted = false;
  request->begun = request->executing = request->stepwise = false;
  request->done = request->failed = false;
  request->tag = request->old_value = request->pieces = 0;
  request->first = request->last = request->gap = Time::zero();
  request->posted = now;
  request->steps.clear();
  request->steps_done = 0;
  if (request->length > request->small.size() && request->large.size() < request->length) [[unlikely]] {
    request->large.resize(request->length);
  }
  return request;
}

// Every request passes here, so the calls are flattened: most are as short as the call itself.
[[gnu::flatten]] void SimQueuePair::post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) {
  World& world = initiator_->world;
  Time doorbell_service = initiator_->times.chain;  // before that of the first request
  for (const CheckedRequest& checked : chain) {
    Request* request = world.make_request(*this, checked, first++, *initiator_, *target_);
    const WorkRequest& wr = request->wr;
    (newest_ == nullptr ? oldest_ : newest_->next) = request;
    newest_ = request;
    world.observe_step(SimStep::Kind::post, *request);
    if (wr.inlined && request->length > 0) {
      std::memcpy(request->payload(), wr.local.data, request->length);
      request->payload_bound = true;
    }
    if (next_to_issue_ == nullptr) {
      if (may_issue(*request)) {
        count_issued(*request, +1);
        world.issue(*request, std::exchange(doorbell_service, Time::zero()));
      } else {
        next_to_issue_ = request;
      }
    }
  }
  if (doorbell_service > Time::zero()) {
    initiator_->nic.requester.serve(world.now, world.now + initiator_->times.doorbell, doorbell_service);
  }
}

bool SimQueuePair::may_issue(const Request& request) const {
  const World& world = initiator_->world;
  const bool occupies = request.kind == model::Kind::read || request.kind == model::Kind::atomic;
  if (occupies && reads_issued_ + atomics_issued_ >= options().max_rd_atomic) {
    return false;
  }
  const bool fence = request.wr.fence;
  if (reads_issued_ > 0 && world.order(model::Kind::read, request.kind, fence) == model::Order::completed) {
    return false;
  }
  return atomics_issued_ == 0 || world.order(model::Kind::atomic, request.kind, fence) != model::Order::completed;
}

void SimQueuePair::count_issued(const Request& request, int change) {
  if (request.kind == model::Kind::read) {
    reads_issued_ += static_cast<std::uint32_t>(change);
  } else if (request.kind == model::Kind::atomic) {
    atomics_issued_ += static_cast<std::uint32_t>(change);
  }
}

void SimQueuePair::issue_waiting() {
  while (next_to_issue_ != nullptr && may_issue(*next_to_issue_)) {
    Request& request = *next_to_issue_;
    next_to_issue_ = request.next;
    count_issued(request, +1);
    initiator_->world.issue(request, Time::zero());
  }
}

// Nothing is sent whose payload was not read, nor anything behind it: requests arrive in their order, or not at all.
void SimQueuePair::cancel_in_flight() noexcept {
  bool is_sent = true;
  while (oldest_ != nullptr) {
    Request* request = oldest_;
    oldest_ = request->next;
    const bool carries = request->kind == model::Kind::write || request->kind == model::Kind::send;
    is_sent = is_sent && (!carries || request->length == 0 || request->payload_bound);
    if (!is_sent) {
      open_->drop_behind(request->sequence - 1);
    }
    request->queue_pair = nullptr;
    initiator_->world.release(*request);
  }
  leave_cache();
  newest_ = next_to_issue_ = nullptr;
  reads_issued_ = atomics_issued_ = 0;
  if (open_ != nullptr) {
    if (former_ != nullptr) {
      initiator_->world.release(*former_);
    }
    former_ = std::exchange(open_, nullptr);
  }
  end_connection();
}

Connection& SimQueuePair::open_connection() {
  if (open_ == nullptr) [[unlikely]] {
    open_ = initiator_->world.make_connection(connection_);
  }
  return *open_;
}

Time SimQueuePair::former_requests_executed() const {
  return former_ == nullptr ? Time::zero() : *std::ranges::max_element(former_->executed_until);
}

void SimQueuePair::revoke() {
  if (SimQueuePair* const other = peer()) {
    initiator_->world.settle(*other);
  }
  initiator_->world.revoke(*target_, connection_);
  // Rule 10: requests that have not completed yet complete as failed, whether or not they were executed.
  for (Request* request = oldest_; request != nullptr; request = request->next) {
    if (!request->failed) {
      request->failed = true;
      request->status = Status::retry_exceeded;
      request->detail = kRevoked;
    }
  }
  if (SimQueuePair* const other = peer()) {
    other->on_ended(std::make_shared<const FabricError>(Status::disconnected, kEndedByNode));
  }
}

bool SimQueuePair::lose_connection() {
  if (oldest_ == nullptr) {
    return false;
  }
  // What the target has begun goes on. What has completed may still be due at the target: rule 2.
  open_->drop_behind(oldest_->sequence - 1);
  on_error(oldest_->sequence, Status::retry_exceeded, "the connection was lost");
  return true;
}

Task<void> SimQueuePair::restore_connection() {
  if (initiator_->world.revoked(connection_)) {
    throw FabricError(Status::disconnected, kRevoked);
  }
  if (two_sided()) {
    throw FabricError(Status::disconnected, kPairStaysEnded);
  }
  // Two round trips of the connection manager; requests of the old connection that are still on the wire come first.
  const NicTimes& times = initiator_->times;
  const Time way = device != nullptr ? device->cable() * 2 + device->latency() : times.propagation;
  const std::weak_ptr<const bool> exists = exists_;
  co_await reactor().sleep((way + times.latency * 2) * 4 +
                           std::max(former_requests_executed() - initiator_->world.now, Duration::zero()));
  // Those that have reached the target meanwhile, too.
  while (!exists.expired() && former_requests_executed() > initiator_->world.now) {
    co_await reactor().sleep(former_requests_executed() - initiator_->world.now);
  }
  if (!exists.expired() && device != nullptr) {
    device->connected(connection_, *initiator_);
  }
}

void SimQueuePair::on_response(Request& request) {
  World& world = initiator_->world;
  if (!request.failed && request.length > 0 && request.wr.local.data != nullptr) {
    if (request.kind == model::Kind::read) {
      world.touch(*initiator_, request.wr.local.data, request.length, /*writes=*/true);
      std::memcpy(request.wr.local.data, request.payload(), request.length);
      World::changed(*initiator_, request.wr.local.data, request.length);
      world.observe_step(SimStep::Kind::deliver, request);
    } else if (request.kind == model::Kind::atomic) {
      world.touch(*initiator_, request.wr.local.data, request.length, /*writes=*/true);
      model::store_word(request.wr.local.data, request.old_value);
      World::changed(*initiator_, request.wr.local.data, request.length);
      world.observe_step(SimStep::Kind::deliver, request);
    }
  }
  request.done = true;
  complete_in_order();
}

[[gnu::noinline, gnu::cold]] void SimQueuePair::fail(const Request& request) {
  const std::uint64_t sequence = request.sequence;
  const Status status = request.status;
  const std::string detail = request.detail;
  on_error(sequence, status, detail);  // also completes everything before
}

void SimQueuePair::complete_in_order() {
  World& world = initiator_->world;
  std::uint64_t signaled = 0;
  while (oldest_ != nullptr && oldest_->done) {
    Request& request = *oldest_;
    if (request.failed) [[unlikely]] {
      fail(request);
      return;
    }
    oldest_ = request.next;
    if (oldest_ == nullptr) {
      newest_ = nullptr;
      leave_cache();
    }
    count_issued(request, -1);
    if (request.kind == model::Kind::write || request.kind == model::Kind::send) {
      Time& placed = request.target->nic.completed_writes_placed;
      placed = std::max(placed, request.last);  // rule 2: later READs and atomics wait for these places
    }
    if (request.wr.signaled) {
      signaled = request.sequence;
      // The NIC's service time delays the next requests, not this completion.
      if (initiator_->times.cqe > Time::zero()) {
        initiator_->nic.requester.serve(world.now, world.now, initiator_->times.cqe);
      }
    }
    world.observe_step(SimStep::Kind::complete, request);
    world.release(request);
  }
  issue_waiting();
  if (signaled != 0) {
    on_completed(signaled);
  }
}

// Only queue pairs with requests in flight hold an entry: the state of an idle one makes room at no cost. If all
// entries are in use, a state in use has to leave for host memory, and that queue pair's next request misses. The
// victim is random, so more queue pairs than entries cause a share of misses, not only misses.
Time World::qp_state_cost(SimNode& node, SimQueuePair& queue_pair) {
  std::vector<SimQueuePair*>& cached = node.nic.cached_queue_pairs;
  if (cached.empty() || queue_pair.cache_slot != SimQueuePair::kNotCached) {
    return Time::zero();
  }
  std::vector<std::size_t>& free = node.nic.free_cache_slots;
  const bool full = free.empty();
  std::size_t slot = 0;
  if (full) {
    slot = static_cast<std::size_t>(random_() % cached.size());
    cached[slot]->cache_slot = SimQueuePair::kNotCached;
  } else {
    slot = free.back();
    free.pop_back();
  }
  cached[slot] = &queue_pair;
  queue_pair.cache_slot = slot;
  return full ? node.times.qp_miss : Time::zero();
}

void World::issue(Request& request, Time doorbell_service) {
  SimNode& node = *request.initiator;
  const NicTimes& times = node.times;
  const bool carries = request.kind == model::Kind::write || request.kind == model::Kind::send;
  const std::uint64_t bytes = carries ? request.length : 0;
  const std::uint64_t count = packets(bytes, node.profile.link.mtu);

  // A request that was held back may be free to go before the NIC knows of it.
  const Time service = doorbell_service + times.request + times.packet * static_cast<std::int64_t>(count - 1) +
                       qp_state_cost(node, *request.queue_pair);
  const Time served = node.nic.requester.serve(now, std::max(now, request.posted + times.doorbell), service);

  // `served` may lie ahead. As in respond(), the link's queue counts only the work given and not done: the node's own
  // responses, which may be ready earlier, do not wait for a request that is not.
  const Time wire = wire_time(node, bytes, count);
  node.nic.egress_free = std::max(now, node.nic.egress_free) + wire;
  Time departs = std::max(served, node.nic.egress_free - wire);
  // Under one-step requests the fetch is part of that one step.
  // A device sees the bytes pass.
  if (bytes > 0 && !request.payload_bound && (!options.rules.one_step_requests || request.device != nullptr)) {
    departs += times.pcie_read;
    schedule(departs, request, Action::fetch);
  }
  const Time way = request.device != nullptr ? request.device->cable() : times.propagation;
  Time arrives = departs + times.latency + way + uniform(node.profile.link.jitter_ns);
  arrives = std::max(arrives, request.queue_pair->last_arrival);
  request.queue_pair->last_arrival = arrives;
  schedule(arrives, request, request.device != nullptr ? Action::pass : Action::arrive);
}

void World::fetch(Request& request) {
  if (request.queue_pair == nullptr) {
    return;  // dropped: its queue pair ended before the payload was read
  }
  const std::byte* from = request.wr.local.data;
  touch(*request.initiator, from, request.length, /*writes=*/false);
  std::memcpy(request.payload(), from, request.length);
  request.payload_bound = true;
  if (observer != nullptr) {
    const std::uint64_t lines = model::piece_count(reinterpret_cast<std::uintptr_t>(from), request.length, kLineBytes);
    for (std::uint64_t i = 0; i < lines; ++i) {
      observe_step(SimStep::Kind::fetch, request, i);
    }
  }
}

[[gnu::flatten]] void World::complete(Request& request) {
  if (request.queue_pair != nullptr) {
    request.queue_pair->on_response(request);
  }
}

// The response of `bytes` leaves the target once it is `ready` and the link is free, but its end not before `tail`.
[[gnu::flatten]] void World::respond(Request& request, Time ready, std::uint64_t bytes, Time tail) {
  SimNode& target = *request.target;
  const std::uint64_t count = packets(bytes, target.profile.link.mtu);
  // `ready` may lie ahead, and other responses may be ready earlier. The link's queue counts only the work given and
  // not done, so a response that is not ready yet delays nobody.
  const Time wire = wire_time(target, bytes, count);
  target.nic.egress_free = std::max(now, target.nic.egress_free) + wire;
  const Time starts = std::max(ready, target.nic.egress_free - wire);
  const Time sent = std::max(starts + wire, tail);
  if (request.device != nullptr) {
    schedule(sent + target.times.latency + request.device->cable(), request, Action::pass_back);
    return;
  }
  const Time way = target.times.latency + target.times.propagation;
  deliver_at(request, starts + way, sent + way, bytes);
}

Time World::wire_of(const Request& request, std::uint64_t bytes) {
  return wire_time(*request.initiator, bytes, packets(bytes, request.target->profile.link.mtu));
}

// An answer whose first byte is at the initiator at `first`, or already was, and whose end may be there at `last`.
void World::deliver_at(Request& request, Time first, Time last, std::uint64_t bytes) {
  request.answer_begins = first;
  request.answer_ends = last;
  request.answer_bytes = bytes;
  if (request.initiator->mixed_arrivals) {
    schedule(first, request, Action::deliver);
  } else {
    // Only answers come here, all by ways of one length. They arrive in about the order of these calls, so taking the
    // receiver ahead delays none, and saves an event.
    receive_answer(request, now + request.target->times.latency + request.target->times.propagation);
  }
}

// What comes to this node while the answer is on its way must not wait for it, so the receiver is taken only now.
void World::deliver(Request& request) { receive_answer(request, request.answer_begins); }

[[gnu::flatten]] void World::receive_answer(Request& request, Time first) {
  SimNode& initiator = *request.initiator;
  initiator.nic.ingress_free = std::max(first, initiator.nic.ingress_free) + wire_of(request, request.answer_bytes);
  const Time received = std::max(request.answer_ends, initiator.nic.ingress_free);
  schedule(received + initiator.times.latency + initiator.times.completion, request, Action::complete);
}

}  // namespace sidelatch::fabric::sim
