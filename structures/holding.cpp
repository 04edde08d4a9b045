#include "holding.h"

#include <cstring>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

Task<std::uint64_t> read_latch(Session& session, Object object) {
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  std::uint64_t word = 0;
  const LocalSpan into = buffer.span().subspan(0, sizeof word);
  co_await session.qp().read(into, object.latch());
  std::memcpy(&word, into.data, sizeof word);
  co_return word;
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
