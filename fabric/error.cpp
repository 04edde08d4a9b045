#include <sidelatch/fabric/error.h>

#include <fmt/format.h>

namespace sidelatch::fabric {

std::string_view name(Status status) {
  switch (status) {
    case Status::invalid_request:
      return "invalid request";
    case Status::local_operation:
      return "local operation error";
    case Status::local_protection:
      return "local protection error";
    case Status::remote_access:
      return "remote access error";
    case Status::remote_invalid_request:
      return "remote invalid request";
    case Status::retry_exceeded:
      return "transport retry counter exceeded";
    case Status::rnr_retry_exceeded:
      return "receiver-not-ready retry counter exceeded";
    case Status::flushed:
      return "flushed";
    case Status::disconnected:
      return "disconnected";
    case Status::device_failure:
      return "device failure";
    case Status::busy:
      return "busy";
    case Status::stuck:
      return "stuck";
  }
  return "unknown status";
}

std::string_view advice(Status status) {
  switch (status) {
    case Status::invalid_request:
      return "correct the request; nothing was posted and the queue pair is unharmed";
    case Status::local_operation:
      return "compare the request with the limits of the device (ibv_devinfo -v); then reconnect()";
    case Status::local_protection:
      return "use a buffer of a MemoryRegion of the queue pair's own node, registered with Access::local_write for "
             "READ "
             "and atomic results";
    case Status::remote_access:
      return "check the RemoteSpan: rkey, bounds, and the Access given when the region was registered; then "
             "reconnect()";
    case Status::remote_invalid_request:
      return "align atomics to 8 bytes, and look at the target: its NIC could not execute the request; then "
             "reconnect()";
    case Status::retry_exceeded:
      return "check that the target and the link are up; then reconnect()";
    case Status::rnr_retry_exceeded:
      return "post receive buffers at the target before sending; then reconnect()";
    case Status::flushed:
      return "handle the error of the request that failed, then reconnect() and decide whether to repeat this one";
    case Status::disconnected:
      return "keep both ends of a connection alive until their tasks are done";
    case Status::device_failure:
      return "look into the kernel's log (dmesg) and restart the process";
    case Status::busy:
      return "wait for the completions first, for example with co_await qp.drain()";
    case Status::stuck:
      return "look for a completion, receive or release that nobody will ever make";
  }
  return "";
}

namespace {

std::string message(Status status, const WorkRequest* request, std::string_view detail) {
  std::string text{name(status)};
  if (request != nullptr) {
    text += fmt::format(" for {}", name(request->opcode));
    if (!is_send(request->opcode) && request->opcode != Opcode::recv) {
      text += fmt::format(" of {} bytes at {:#x} (rkey {:#x})", request->length(), request->remote.value,
                          request->rkey.value);
    }
  }
  if (!detail.empty()) {
    text += fmt::format(": {}", detail);
  }
  text += fmt::format(" [{}]", advice(status));
  return text;
}

}  // namespace

FabricError::FabricError(Status status, const WorkRequest& request, std::string_view detail)
    : std::runtime_error(message(status, &request, detail)), status_(status), request_(request) {}

FabricError::FabricError(Status status, std::string_view detail)
    : std::runtime_error(message(status, nullptr, detail)), status_(status) {}

}  // namespace sidelatch::fabric
