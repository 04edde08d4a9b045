// The common part of posting to the three kinds of queues: posts a chain of requests up to the first one that is
// refused.
//
// Thread-safety: as usual for verbs, any thread may call anything.
#pragma once

#include "convert.h"
#include "guard.h"
#include "process_nic.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::softnic::verbs {

/// The largest limit of sges for any queue (NicOptions::most_sges).
inline constexpr std::size_t kMostSges = 32;
using SgeRoom = std::array<nic::Sge, kMostSges>;

/// Converts the sges, at most kMostSges, to the NIC's form in `room`.
[[nodiscard]] inline std::span<const nic::Sge> convert_sges(const ibv_sge* from, int count, SgeRoom& room) noexcept {
  const std::span<const ibv_sge> given(from, static_cast<std::size_t>(count));
  std::ranges::transform(given, room.begin(), sge_of);
  return std::span(room).first(given.size());
}

/// Posts the requests of a chain with `post`, under one lock. Stops at the first request for which `post` returns an
/// errno, and puts it into `refused`; earlier requests are posted.
template <class Request, class PostOne>
int post_all(ProcessNic& nic, Request* request, Request** refused, PostOne post) noexcept {
  const int error = result_of([&] {
    return nic.post([&](nic::Nic&) {
      for (; request != nullptr; request = request->next) {
        if (const int why = post(*request); why != 0) {
          return why;
        }
      }
      return 0;
    });
  });
  if (error != 0 && refused != nullptr) {
    *refused = request;
  }
  return error;
}

/// The errno of what became of a request; a refusal is explained.
[[nodiscard]] inline int answer_of(nic::Post post) noexcept {
  return post == nic::Post::done ? 0 : explained(errno_of(post), nic::text(post));
}

/// Posts one receive request; returns an errno.
template <class PostOne>
int post_receive(const ibv_recv_wr& request, std::uint32_t most_sges, PostOne post) {
  if (request.num_sge < 0 ||
      static_cast<std::uint32_t>(request.num_sge) > std::min<std::size_t>(most_sges, kMostSges)) {
    refuse(EINVAL, fmt::format("num_sge is {}: this queue was made for up to {}", request.num_sge, most_sges));
  }
  SgeRoom room;
  return answer_of(
      post(nic::ReceiveRequest{.id = request.wr_id, .sges = convert_sges(request.sg_list, request.num_sge, room)}));
}

}  // namespace sidelatch::softnic::verbs
