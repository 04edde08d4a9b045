// The device between two nodes: what it makes of a request, and of its answer.
#include "sim_queue_pair.h"
#include "world.h"

#include <algorithm>
#include <cstring>

namespace sidelatch::fabric::sim {

namespace {

NetworkDevice::Message message_of(Request& request, bool carries, Time now) {
  const std::size_t bytes = carries ? request.length : 0;
  return {.connection = request.connection->number,
          .request = request.wr,
          .payload = {request.payload(), bytes},
          .old_value = request.old_value,
          .tag = request.tag,
          .now = now};
}

std::uint64_t answer_bytes(const Request& request) {
  const bool has_data = !request.failed && (request.kind == model::Kind::read || request.kind == model::Kind::atomic);
  return has_data ? request.length : 0;
}

}  // namespace

void World::pass(Request& request) {
  if (request.dropped()) {
    return;  // never sent, or behind a request that was refused
  }
  NetworkDevice& device = *request.device;
  const bool reads = request.kind == model::Kind::read;
  if (reads) {
    std::memset(request.payload(), 0, request.length);
  }
  const Time way = device.latency() + device.cable();
  if (revoked(request)) {
    request.failed = true;
    request.status = Status::retry_exceeded;
    request.detail = kRevoked;
    deliver_at(request, now + way, now + way, 0);
    return;
  }
  // A READ's answer, if the device gives it, goes where the target's would.
  NetworkDevice::Message message = message_of(request, reads || request.payload_bound, now);
  const NetworkDevice::Verdict verdict = device.request(message);
  request.tag = message.tag;
  switch (verdict) {
    case NetworkDevice::Verdict::forward:
      request.at_target = true;
      request.connection->at_target.push_back(&request);
      schedule(now + way, request, Action::arrive);
      return;
    case NetworkDevice::Verdict::answer:
      request.old_value = message.old_value;
      break;
    case NetworkDevice::Verdict::refuse:
    case NetworkDevice::Verdict::drop:
      request.failed = true;
      request.status = verdict == NetworkDevice::Verdict::drop ? Status::retry_exceeded : Status::remote_access;
      request.detail = "the device on the way to node " + request.target->name() +
                       (verdict == NetworkDevice::Verdict::drop ? " dropped it" : " refused it");
      request.connection->drop_behind(request.sequence);
      break;
  }
  deliver_at(request, now + way, now + way, answer_bytes(request));
}

// Answers of one queue pair leave its target in posting order: one that is ready early waits.
void World::pass_back(Request& request) {
  if (!request.at_target) {
    return;  // an earlier request gets no answer
  }
  request.waits_back = true;
  ++request.references;
  std::deque<Request*>& waiting = request.connection->at_target;
  while (!waiting.empty() && waiting.front()->waits_back) {
    Request& first = *waiting.front();
    waiting.pop_front();
    first.at_target = false;
    answer_at_device(first);
    release(first);
  }
}

// A dropped request gets no answer, so none passes the device that would come after it.
[[gnu::noinline, gnu::cold]] void World::lose_answers(Request& request) {
  std::deque<Request*>& waiting = request.connection->at_target;
  while (request.at_target) {
    Request& last = *waiting.back();
    waiting.pop_back();
    last.at_target = false;
    if (last.waits_back) {
      release(last);
    }
  }
}

void World::answer_at_device(Request& request) {
  NetworkDevice& device = *request.device;
  if (!request.failed && request.kind == model::Kind::write) {
    // Rule 2 for the device, which knows of the WRITE before its client does.
    Time& placed = request.target->nic.completed_writes_placed;
    placed = std::max(placed, request.last);
  }
  if (!request.failed) {
    NetworkDevice::Message message = message_of(request, request.kind == model::Kind::read, now);
    device.answer(message);
    request.old_value = message.old_value;
  }
  // The answer's first byte is ahead of its last one, which is here now.
  const Time last = now + device.latency() + device.cable();
  const std::uint64_t bytes = answer_bytes(request);
  deliver_at(request, last - wire_of(request, bytes), last, bytes);
}

}  // namespace sidelatch::fabric::sim
