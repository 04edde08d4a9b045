#include "unsynchronised.h"

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;

Task<Hold> Unsynchronised::fetch(Session& session, Object object, std::source_location place) const {
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  Hold hold{.scheme = this, .session = &session, .object = object, .place = place};
  hold.buffer = ObjectBuffer(std::move(buffer), *object.shape);
  co_await session.qp().read(hold.buffer.record(), object.record());
  co_return hold;
}

Task<ExclusiveGuard> Unsynchronised::do_latch(Session& session, Object object, std::source_location place,
                                              Takeover /*takeover*/) const {
  Hold hold = co_await fetch(session, object, place);
  co_return ExclusiveGuard(std::move(hold));
}

Task<void> Unsynchronised::commit(Hold& hold) const {
  co_await hold.qp().submit(write(hold.buffer.record(), hold.object.record()));
}

Task<void> Unsynchronised::abort(Hold& /*hold*/) const { co_return; }

Task<ReadGuard> Unsynchronised::do_begin_read(Session& session, Object object, std::source_location place) const {
  Hold hold = co_await fetch(session, object, place);
  co_return ReadGuard(std::move(hold), /*fresh=*/true);
}

Task<bool> Unsynchronised::validate(Hold& /*hold*/) const { co_return true; }

Task<void> Unsynchronised::release(Hold& /*hold*/) const { co_return; }

}  // namespace sidelatch::bench
