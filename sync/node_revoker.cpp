#include <sidelatch/sync/node_revoker.h>

#include <stdexcept>

namespace sidelatch::sync {

fabric::Task<void> NodeRevoker::revoke(std::uint16_t owner) {
  try {
    co_await node_->revoke_all_of(owner);
  } catch (const std::invalid_argument& unknown) {
    throw LatchError(LatchError::Kind::takeover_refused, unknown.what());
  }
}

}  // namespace sidelatch::sync
