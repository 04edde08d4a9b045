#include <sidelatch/sync/copy_on_write.h>

#include <cstring>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// Offset in the record of the copy that is current at `version`.
std::uint64_t copy_offset(const RecordShape& shape, std::uint64_t version) {
  return shape.payload + version % shape.copies * shape.payload_words();
}

}  // namespace

CopyOnWrite::CopyOnWrite(Release release) : OptimisticScheme("optimistic/copy-on-write", release) {}

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

// Moves the current copy to payload(), whichever copy it is.
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
    hold.inherited = 0;  // a dead holder has left the current copy whole
  }
  co_return guard;
}

Task<void> CopyOnWrite::commit(Hold& hold) const {
  const RecordShape& shape = *hold.object.shape;
  const std::uint64_t bytes = shape.payload_words();
  return writer().write_and_unlatch(
      hold,
      write(hold.buffer.part(shape.payload, bytes), hold.object.part(copy_offset(shape, hold.version + 1), bytes)),
      fetch_add(hold.object.version(), 1));
}

Task<bool> CopyOnWrite::validate(Hold& hold) const {
  const ObjectHeader now = co_await read_header(*hold.session, hold.object, hold.buffer);
  hold.buffer.drop();
  co_return now.version == hold.version;
}

}  // namespace sidelatch::sync
