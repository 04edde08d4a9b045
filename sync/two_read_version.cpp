#include <sidelatch/sync/two_read_version.h>

#include <sidelatch/sync/latch_word.h>

namespace sidelatch::sync {

using namespace fabric;

// Figure 13(a).
Task<OptimisticScheme::Attempt> TwoReadVersion::try_read(Session& session, Object object,
                                                         const ObjectBuffer& buffer) const {
  const ObjectHeader before = co_await read_header(session, object, buffer);
  if (before.latch != kFree) {
    co_return Attempt{false, before};
  }
  const RecordShape& shape = *object.shape;
  const std::uint64_t bytes = shape.payload_bytes;
  co_await session.qp().read(buffer.part(shape.payload, bytes), object.record().subspan(shape.payload, bytes));
  const ObjectHeader after = co_await read_header(session, object, buffer);
  co_return Attempt{after.latch == kFree && after.version == before.version, after};
}

}  // namespace sidelatch::sync
