// The scenarios of the two peers. Both run each function at the same time; it works in both directions and throws at
// the first violation of the verbs specification.
#pragma once

#include "endpoint.h"

#include <cstddef>
#include <vector>

namespace sidelatch::peer {

void send(const Session& session);         ///< SEND of many sizes, with and without immediate, into pieces
void share(const Session& session);        ///< SEND over two connections into a shared receive queue
void notify(const Session& session);       ///< completion events
void write(const Session& session);        ///< WRITE of many sizes, with and without immediate, and nothing beside it
void read(const Session& session);         ///< READ of many sizes, more than may be on their way
void atomics(const Session& session);      ///< CMP_SWAP and FETCH_ADD: each exactly once
void send_inline(const Session& session);  ///< the source is used up when the request is posted
void chain(const Session& session);        ///< lists with one completion, and the fence
void mix(const Session& session);          ///< a stream of everything, drawn by a seed, both ways on one connection
void datagrams(const Session& session);    ///< UD
void refuse(const Session& session);       ///< requests that the responder must refuse, and how
void not_ready(const Session& session);    ///< receives that are missing for a while, or for ever
void vanish(const Session& session);       ///< one of the two ends; that process exits with 0

inline constexpr std::size_t kDepth = 16;  ///< requests on their way at once

/// Lengths around those at which something changes.
[[nodiscard]] std::vector<std::size_t> lengths(std::size_t mtu);

/// Runs `work(active)` for each direction in turn; both finish one before the next begins.
template <class Work>
void both_ways(const Session& session, Work work) {
  for (const int active : {0, 1}) {
    work(session.rank() == active);
    session.barrier("direction done");
  }
}

}  // namespace sidelatch::peer
