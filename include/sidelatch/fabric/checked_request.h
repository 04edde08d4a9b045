// A work request as a queue pair hands it to its world: checked, and with what posting adds to it.
//
//   void MyQueuePair::post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) {
//     for (const CheckedRequest& request : chain) ring(request, first++);
//   }
//
// For who implements a world (QueuePair::post_chain). Programs post a WorkRequest.
#pragma once

#include <sidelatch/fabric/work_request.h>

#include <cstddef>
#include <cstdint>

namespace sidelatch::fabric {

struct CheckedRequest {
  /// As the program posted it. Its `local` and `signaled` are not final: those below are. It ends with the program's
  /// chain, so a world that keeps it copies it.
  const WorkRequest* posted;
  std::byte* data;       ///< the local buffer; an atomic has one in any case
  std::uint32_t length;  ///< of the local buffer
  std::uint32_t lkey;    ///< Node::Registration::nic_lkey; means nothing if `length` is 0 or the payload inlined
  bool signaled;         ///< the NIC must report its completion

  /// What was posted with all that is final: for worlds that work on requests in the program's form.
  [[nodiscard]] WorkRequest final_form() const noexcept {
    WorkRequest request = *posted;
    request.local.data = data;
    request.local.length = length;
    request.signaled = signaled;
    return request;
  }
};

}  // namespace sidelatch::fabric
