// Errors of work requests, with advice.
//
// Every failure of the fabric is a FabricError: the completion status, the opcode, the remote address, a sentence with
// the offending value and the allowed range, and advice. Nothing is retried silently and nothing hangs: a request that
// can never complete is reported too (Status::stuck).
//
// Thread-safety: values.
#pragma once

#include <sidelatch/fabric/work_request.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace sidelatch::fabric {

/// Completion statuses; the names follow the ibv_wc_status they stand for, with those that only software can detect.
enum class Status : std::uint8_t {
  invalid_request,         ///< refused when posted: a length, alignment or option that no NIC could execute
  local_operation,         ///< the NIC or its driver refused it after the post: a length or option it cannot execute
  local_protection,        ///< the local buffer is not inside a registered region of this node, or lacks local_write
  remote_access,           ///< the target refused: wrong rkey, outside the region, or the region lacks the right
  remote_invalid_request,  ///< the target refused: misaligned atomic, or a length it cannot serve
  retry_exceeded,          ///< the target did not answer
  rnr_retry_exceeded,      ///< the target had no receive buffer posted
  flushed,         ///< an earlier request of the queue pair failed; this one was not executed, as far as is known
  disconnected,    ///< the queue pair was destroyed while the request was in flight
  device_failure,  ///< the NIC or its driver failed
  busy,            ///< the object is still in use by work requests in flight
  stuck,           ///< a task waits for something that can no longer happen
};

[[nodiscard]] std::string_view name(Status status);
/// One sentence that says what to do about it.
[[nodiscard]] std::string_view advice(Status status);

class FabricError : public std::runtime_error {
 public:
  /// An error of one work request. `detail` names the value and the allowed range, or is empty if the NIC gave none.
  FabricError(Status status, const WorkRequest& request, std::string_view detail);
  /// An error that no single work request caused.
  FabricError(Status status, std::string_view detail);

  [[nodiscard]] Status status() const noexcept { return status_; }
  /// The request that failed; for errors without one, a default WorkRequest.
  [[nodiscard]] const WorkRequest& request() const noexcept { return request_; }

 private:
  Status status_;
  WorkRequest request_;
};

}  // namespace sidelatch::fabric
