// The device between two nodes: what it makes of a request, and of its answer.
#include "sim_queue_pair.h"
#include "world.h"

#include <algorithm>
#include <cstring>

namespace sidelatch::fabric::sim {

namespace {

NetworkDevice::Message message_of(Request& request, bool carries) {
  const std::size_t bytes = carries ? request.wr.length() : 0;
  return {.connection = request.connection,
          .request = request.wr,
          .payload = {request.payload(), bytes},
          .old_value = request.old_value};
}

std::uint64_t answer_bytes(const Request& request) {
  const bool has_data = !request.failed && (request.kind == model::Kind::read || request.kind == model::Kind::atomic);
  return has_data ? request.wr.length() : 0;
}

}  // namespace

void World::pass(Request& request) {
  if (request.dropped) {
    return;  // never sent, or behind a request that was refused
  }
  NetworkDevice& device = *request.device;
  const bool reads = request.kind == model::Kind::read;
  if (reads) {
    std::memset(request.payload(), 0, request.wr.length());
  }
  const Time way = device.latency() + device.cable();
  if (revoked(request.connection)) {
    request.failed = true;
    request.status = Status::retry_exceeded;
    request.detail = kRevoked;
    deliver(request, now + way, now + way, 0);
    return;
  }
  // A READ's answer, if the device gives it, goes where the target's would.
  NetworkDevice::Message message = message_of(request, reads || request.payload_bound);
  switch (device.request(message)) {
    case NetworkDevice::Verdict::forward:
      schedule(now + way, request, Action::arrive);
      return;
    case NetworkDevice::Verdict::answer:
      request.old_value = message.old_value;
      break;
    case NetworkDevice::Verdict::refuse:
      request.failed = true;
      request.status = Status::remote_access;
      request.detail = "the device on the way to node " + request.target->name() + " refused it";
      if (request.queue_pair != nullptr) {
        request.queue_pair->drop_after(request);
      }
      break;
  }
  deliver(request, now + way, now + way, answer_bytes(request));
}

void World::pass_back(Request& request) {
  NetworkDevice& device = *request.device;
  if (!request.failed) {
    NetworkDevice::Message message = message_of(request, request.kind == model::Kind::read);
    device.answer(message);
    request.old_value = message.old_value;
  }
  const Time way = device.latency() + device.cable();
  deliver(request, now + way, now + way, answer_bytes(request));
}

}  // namespace sidelatch::fabric::sim
