// A fence for queue pairs whose driver has no working one: soft-RoCE. There a fenced READ or atomic that is sent again
// waits for itself for ever (Linux 6.1: rxe_wqe_is_fenced() counts the READs and atomics in flight, and the request was
// already counted when it was sent first). So does any fenced request in front of one.
//
//   held:     [a] [b] [c, fenced] [d] [e, fenced]
//   next():    a - b                               as one chain; b is always signalled
//   next():   nothing, until b has completed
//   next():            c - d                       and so on
//
// This waits for all earlier requests, not only for READs and atomics.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace sidelatch::fabric::verbs {

class SoftwareFence {
 public:
  [[nodiscard]] static bool is_fenced(const ibv_send_wr& request) noexcept {
    return (request.send_flags & static_cast<unsigned>(IBV_SEND_FENCE)) != 0;
  }
  [[nodiscard]] bool holds() const noexcept { return !held_.empty(); }
  /// Takes over a chain whose first request has number `sequence`; each wr_id ends with its request's number, in 32
  /// bits. Inlined payloads are copied.
  void take(const ibv_send_wr* chain, std::uint64_t sequence);

  struct Chain {
    ibv_send_wr* first = nullptr;  ///< null: nothing; valid until the next call
    std::uint64_t sequence = 0;    ///< of the first
  };
  /// The requests that can be posted now, if those up to number `completed` have completed.
  [[nodiscard]] Chain next(std::uint64_t completed);
  void clear() noexcept;

 private:
  struct Held {
    std::uint64_t sequence;
    ibv_send_wr request;
    ibv_sge buffer;
    std::vector<std::byte> inlined;
  };

  std::deque<Held> held_;
  std::vector<Held> posting_;
  std::uint64_t signaled_ = 0;  // a completion is under way for all requests before this number
};

}  // namespace sidelatch::fabric::verbs
