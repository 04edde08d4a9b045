// Tasks that tests of queue pairs spawn or run: one call, or the same call again and again.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/work_request.h>

namespace sidelatch::fabric {

inline Task<> submit(QueuePair& qp, WorkRequest request) { co_await qp.submit(request); }

inline Task<> drain(QueuePair& qp) { co_await qp.drain(); }

inline Task<> enqueue_adds(QueuePair& qp, RemoteSpan word, int count) {
  for (int i = 0; i < count; ++i) {
    co_await qp.enqueue(fetch_add(word, 1));
  }
}

}  // namespace sidelatch::fabric
