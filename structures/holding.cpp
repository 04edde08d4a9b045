#include "holding.h"

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

}  // namespace sidelatch::structures
