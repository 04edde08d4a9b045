#include <sidelatch/sync/copy_on_write.h>

#include "latching.h"

#include <array>
#include <cstring>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// Offset in the record of the copy that is current at `version`.
std::uint64_t copy_offset(const RecordShape& shape, std::uint64_t version) {
  return shape.payload + version % shape.copies * shape.payload_words();
}

}  // namespace

CopyOnWrite::CopyOnWrite(Release release) : OptimisticScheme("optimistic/copy-on-write", release), release_(release) {}

Task<OptimisticScheme::Attempt> CopyOnWrite::try_read(Session& session, Object object,
                                                      const ObjectBuffer& buffer) const {
  const ObjectHeader before = co_await read_header(session, object, buffer);
  const RecordShape& shape = *object.shape;
  const std::uint64_t bytes = shape.payload_bytes;
  co_await session.qp().read(buffer.part(shape.payload, bytes),
                             object.record().subspan(copy_offset(shape, before.version), bytes));
  const ObjectHeader after = co_await read_header(session, object, buffer);
  co_return Attempt{after.version == before.version, after};
}

// The current copy is brought to where payload() is, whatever copy that is.
Task<ExclusiveGuard> CopyOnWrite::do_latch(Session& session, Object object, std::source_location place,
                                           Takeover /*takeover*/) const {
  ExclusiveGuard guard = co_await writer().acquire(*this, session, object, place, Takeover::allowed);
  if (guard) {
    Hold& hold = guard.hold_of_scheme();
    const RecordShape& shape = *object.shape;
    hold.version = latched_version(hold);
    const std::uint64_t current = copy_offset(shape, hold.version);
    if (current != shape.payload) {
      std::memcpy(hold.buffer.payload().data(), hold.buffer.record().data + current, shape.payload_bytes);
    }
    hold.inherited = false;  // a holder that died has left the current copy whole
  }
  co_return guard;
}

Task<void> CopyOnWrite::commit(Hold& hold) const {
  if (lease_is_over(hold)) {
    co_await writer().unlatch(hold);
    throw_lease_expired(hold);
  }
  const RecordShape& shape = *hold.object.shape;
  const std::uint64_t bytes = shape.payload_words();
  const LocalSpan from = hold.buffer.part(shape.payload, bytes);
  const RemoteSpan to = hold.object.record().subspan(copy_offset(shape, hold.version + 1), bytes);
  const std::array<WorkRequest, 3> chain = {write(from, to), fetch_add(hold.object.version(), 1),
                                            fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word).with_fence()};
  if (release_ == Release::async) {
    co_await hold.qp().enqueue(std::span(chain));
  } else {
    co_await hold.qp().submit(std::span(chain));
  }
  hold.buffer.drop();
}

Task<bool> CopyOnWrite::validate(Hold& hold) const {
  const ObjectHeader now = co_await read_header(*hold.session, hold.object, hold.buffer);
  hold.buffer.drop();
  co_return now.version == hold.version;
}

}  // namespace sidelatch::sync
