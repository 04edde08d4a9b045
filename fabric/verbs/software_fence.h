// The fence of a queue pair whose driver has none that works: soft-RoCE. There a fenced READ or atomic that has to be
// sent again waits for itself, for ever (Linux 6.1: rxe_wqe_is_fenced() counts the READs and atomics in flight, and the
// request was counted when it was sent first); so does whatever is fenced in front of one.
//
//   held:     [a] [b] [c, fenced] [d] [e, fenced]
//   next():    a - b                               as one chain; b is signalled, whoever else wants to know
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
  /// What can be posted now, if requests up to number `completed` have completed.
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
  std::uint64_t signaled_ = 0;  // a completion is under way that says whether all before this number have completed
};

}  // namespace sidelatch::fabric::verbs
