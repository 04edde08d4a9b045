#include "holding.h"

#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

const Scheme& without_queue(const Scheme& scheme) {
  if (scheme.queues()) {
    throw std::invalid_argument(fmt::format(
        "a structure over {}: clients that hold one latch and want another must be able to give up, and who stands in "
        "its queue cannot; use latch-exclusive, latch-rw or an optimistic scheme",
        scheme.name()));
  }
  return scheme;
}

Task<void> leave(ExclusiveGuard& guard) {
  if (!guard) {
    co_return;
  }
  if (guard.inherited()) {
    co_await guard.commit();
  } else {
    co_await guard.abort();
  }
}

Task<std::uint64_t> stays_latched(const Scheme& scheme, Session& session, Object object) {
  constexpr int kLooks = 8;  // an asynchronous unlatch may be under way
  std::uint64_t word = 0;
  for (int look = 0; look < kLooks; ++look) {
    word = co_await scheme.peek_latch(session, object);
    const bool ends = session.has_lease() && is_exclusive(word) && owner_of(word) != 0;
    if (scheme.is_free(word) || ends) {
      co_return 0;
    }
  }
  co_return word;
}

}  // namespace sidelatch::structures
