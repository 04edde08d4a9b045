// The receiving end of a pair: decides which SEND takes which receive buffer and when the CPU sees its message, and
// ends both ends of a connection together.
//
// A SEND, or a WRITE with immediate, that finds no buffer is held back together with all later requests of its sender:
// a NIC that is not ready to receive refuses them, and the sender's NIC repeats them in order. The repetitions are not
// simulated: a request that is held back continues when a buffer is posted, and crosses the link once.
#include "sim_queue_pair.h"
#include "world.h"

#include <fmt/format.h>

#include <algorithm>

namespace sidelatch::fabric::sim {

namespace {

bool is_notice(const Request& request) { return request.sequence == 0; }

bool is_plain_and_placed(const Request& request) {
  return !is_message(request.wr.opcode) && request.begun && !request.executing;
}

bool must_wait(const Request& request, const ReceiveQueue& buffers) {
  return is_message(request.wr.opcode) && !is_notice(request) && !request.dropped() && !buffers.has_buffer();
}

}  // namespace

void SimQueuePair::join(SimQueuePair& peer) {
  inbound_ = std::make_unique<Inbound>(Inbound{.peer = &peer, .connection = peer.connection_});
  peer.inbound_ = std::make_unique<Inbound>(Inbound{.peer = this, .connection = connection_});
  make_two_sided();
  peer.make_two_sided();
}

void SimQueuePair::receive_posted(const LocalSpan& into) {
  World& world = initiator_->world;
  if (world.observer != nullptr) {
    const WorkRequest request = recv(into);
    world.observer->on_step({SimStep::Kind::post_receive, world.now, this, 0, 0, &request});
  }
  if (!inbound_->held.empty()) {
    world.resume_held(*this);
  }
}

// No later request of the peer takes effect at this node: its messages would go to buffers that are no longer ours.
// What the NIC has accepted arrives first, because the peer may have been told so.
void SimQueuePair::end_connection() noexcept {
  if (inbound_ == nullptr || inbound_->ended) {
    return;
  }
  inbound_->ended = true;
  initiator_->world.settle(*this);
  initiator_->world.revoke(*initiator_, inbound_->connection);
  initiator_->world.hang_up(*this);
}

// Handles requests of a pair before arrive().
void World::arrive_at_end(Request& request) {
  if (revoked(request)) {
    if (!request.dropped() && !is_notice(request)) {
      respond_with_error(request, Status::retry_exceeded, kRevoked);
    }
    return;
  }
  Inbound& inbound = request.receiver->inbound();
  inbound.refuses |= request.dropped();  // a message that is never sent leaves no gap before later ones
  if (inbound.refuses && !is_notice(request)) {
    return;
  }
  ++request.references;
  inbound.held.push_back(&request);
  resume_held(*request.receiver);
}

void World::resume_held(SimQueuePair& end) {
  std::deque<Request*>& held = end.inbound().held;
  while (!held.empty() && !must_wait(*held.front(), *end.receives())) {
    Request& request = *held.front();
    held.pop_front();
    if (is_notice(request)) {
      expect(request);
    } else if (!request.dropped()) {
      request.admitted = true;
      arrive(request);
    }
    release(request);
  }
}

// False if the message is longer: an error at both ends. The receiver gets the error in turn, after earlier messages.
bool World::take_buffer(Request& request) {
  SimQueuePair& end = *request.receiver;
  const LocalSpan buffer = end.receives()->take_buffer();
  if (request.length <= buffer.length) {
    request.memory = buffer.data;
    return true;
  }
  Inbound& inbound = end.inbound();
  inbound.too_short = buffer;
  inbound.refuses = true;
  respond_with_error(request, Status::remote_invalid_request,
                     fmt::format("a SEND of {} bytes met a receive buffer of {} bytes: post longer ones, or send less",
                                 request.length, buffer.length));
  request.last = now;
  expect(request);
  return false;
}

// The CPU sees a message after it and all earlier WRITEs of its sender are placed, and after earlier messages.
void World::expect(Request& request) {
  Inbound& inbound = request.receiver->inbound();
  if (request.kind == model::Kind::write || request.kind == model::Kind::send) {
    inbound.written_until = std::max({inbound.written_until, request.last, now});
    while (!inbound.accepted.empty() && is_plain_and_placed(*inbound.accepted.front())) {
      release(*inbound.accepted.front());
      inbound.accepted.pop_front();
    }
    ++request.references;
    inbound.accepted.push_back(&request);
  }
  if (is_message(request.wr.opcode)) {
    inbound.received_until = std::max(inbound.written_until + request.target->times.completion, inbound.received_until);
    inbound.received_until += kAfter;
    schedule(inbound.received_until, request, Action::receive);
  }
}

void World::receive(Request& request) {
  if (revoked(request)) {
    return;
  }
  std::deque<Request*>& accepted = request.receiver->inbound().accepted;
  for (bool is_here = false; !is_here; accepted.pop_front()) {
    is_here = accepted.front() == &request;
    release(*accepted.front());
  }
  hand_over(request);
}

// To the CPU.
void World::hand_over(Request& request) {
  if (request.dropped()) {
    return;
  }
  SimQueuePair& end = *request.receiver;
  if (is_notice(request)) {
    end.receives()->close(
        std::make_shared<const FabricError>(Status::disconnected, "the other end of the connection has ended"));
  } else if (request.failed) {
    end.on_ended(
        std::make_shared<const FabricError>(Status::local_operation, recv(end.inbound().too_short), request.detail));
  } else {
    observe_step(SimStep::Kind::receive, request);
    const WorkRequest& wr = request.wr;
    ReceiveQueue::Arrival arrival{.bytes = wr.length(), .is_write = wr.opcode == Opcode::write_with_immediate};
    if (wr.opcode != Opcode::send) {
      arrival.immediate = wr.immediate;
    }
    end.receives()->fill(arrival);
  }
}

// Ends what was accepted from the peer, now: the places that are left, and the messages.
void World::settle(SimQueuePair& end) {
  std::deque<Request*>& accepted = end.inbound().accepted;
  bool goes_on = !revoked(end.inbound().connection);
  while (!accepted.empty()) {
    Request& request = *accepted.front();
    accepted.pop_front();
    // What comes after a notice, a message that is too long or a request that was not answered yet is not received.
    goes_on = goes_on && !is_notice(request) && !request.failed && place_the_rest(request);
    if (goes_on && is_message(request.wr.opcode)) {
      hand_over(request);
    }
    release(request);
  }
}

void World::hang_up(SimQueuePair& end) {
  std::deque<Request*>& held = end.inbound().held;
  while (!held.empty()) {
    Request& request = *held.front();
    held.pop_front();
    if (!request.dropped() && !is_notice(request)) {
      respond_with_error(request, Status::retry_exceeded, kRevoked);
    }
    release(request);
  }
  if (end.peer() == nullptr) {
    return;
  }
  // Like the connection manager's message, the notice comes after all that this end has sent.
  const WorkRequest nothing = send({});
  const CheckedRequest empty{.posted = &nothing, .data = nullptr, .length = 0, .lkey = 0, .signaled = false};
  Request& notice = *make_request(end, empty, 0, end.initiator(), end.target());
  notice.queue_pair = nullptr;
  const NicTimes& times = end.initiator().times;
  const Time arrives = now + times.latency + times.propagation + end.target().times.latency;
  schedule(std::max(arrives, end.last_arrival), notice, Action::arrive);
  release(notice);
}

}  // namespace sidelatch::fabric::sim
