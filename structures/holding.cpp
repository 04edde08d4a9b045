#include "holding.h"

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

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
