#include <sidelatch/sync/optimistic.h>

#include <sidelatch/sync/latch_word.h>

#include "latching.h"

#include <cstring>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

namespace {

ExclusiveLatch make_writer(const WriterUnlatch& unlatch) {
  if (const auto* by_write = std::get_if<WriteUnlatch>(&unlatch)) {
    return {Acquire::speculative, *by_write};
  }
  return {Acquire::speculative, std::get<Release>(unlatch)};
}

void put_word(const LocalSpan& at, std::uint64_t offset, std::uint64_t word) {
  std::memcpy(at.data + offset, &word, sizeof word);
}

}  // namespace

ObjectHeader header_in(std::span<const std::byte> bytes, const RecordShape& shape) {
  ObjectHeader header;
  std::memcpy(&header.latch, bytes.data() + shape.latch_in_header(), sizeof header.latch);
  if (shape.has_version()) {
    std::memcpy(&header.version, bytes.data() + shape.version_in_header(), sizeof header.version);
  }
  return header;
}

OptimisticScheme::OptimisticScheme(std::string name, WriterUnlatch unlatch)
    : name_(std::move(name)), writer_(make_writer(unlatch)) {
  name_ += writer_.unlatches_by_write() ? "+write-unlatch" : "";
}

Task<ObjectHeader> OptimisticScheme::read_header(Session& session, Object object, const ObjectBuffer& buffer) {
  const LocalSpan into = buffer.header();
  co_await session.qp().read(into, object.header());
  co_return header_in(into.bytes(), *object.shape);
}

ObjectHeader OptimisticScheme::header_in_record(const ObjectBuffer& buffer) {
  const RecordShape& shape = buffer.shape();
  return header_in(buffer.part(shape.header, shape.header_bytes).bytes(), shape);
}

Task<ExclusiveGuard> OptimisticScheme::do_latch(Session& session, Object object, std::source_location place,
                                                Takeover takeover) const {
  ExclusiveGuard guard = co_await writer_.acquire(*this, session, object, place, takeover);
  if (guard) {
    Hold& hold = guard.hold_of_scheme();
    hold.version = latched_version(hold);
    if (hold.inherited != 0) {
      hold.version = highest_version(hold.buffer, hold.version);
    }
    decode(hold.buffer);
  }
  co_return guard;
}

std::uint64_t OptimisticScheme::latched_version(const Hold& hold) {
  return hold.object.version_is_apart() ? header_in(hold.buffer.header().bytes(), *hold.object.shape).version
                                        : header_in_record(hold.buffer).version;
}

Task<void> OptimisticScheme::commit(Hold& hold) const {
  const ObjectBuffer& buffer = hold.buffer;
  const RecordShape& shape = *hold.object.shape;
  const std::uint64_t version = hold.version + 1;
  if (shape.decoupled) {
    put_word(buffer.header(), shape.version_in_header(), version);
    encode(buffer, version);
    return writer_.write_and_unlatch(
        hold, write(buffer.record(), hold.object.record()),
        write(buffer.header().subspan(shape.version_in_header(), 8), hold.object.version()));
  }
  put_word(buffer.record(), shape.header + shape.latch_in_header(), hold.word);  // still latched
  put_word(buffer.record(), shape.header + shape.version_in_header(), version);
  encode(buffer, version);
  return writer_.write_and_unlatch(hold, write(buffer.record(), hold.object.record()));
}

Task<void> OptimisticScheme::abort(Hold& hold) const { return writer_.unlatch(hold); }

Task<ReadGuard> OptimisticScheme::do_begin_read(Session& session, Object object, std::source_location place) const {
  Attempts attempts(session, Attempts::Forgotten());
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  Hold hold{.scheme = this, .session = &session, .object = object, .place = place};
  hold.buffer = ObjectBuffer(std::move(buffer), *object.shape);
  LeaseWatch watch(session);
  while (attempts.shows_head()) {
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
  for (;;) {
    const Time asked = session.has_lease() ? session.lease_clock() : Time{};
    const Attempt attempt = co_await try_read(session, object, hold.buffer);
    if (attempt.accepted) {
      hold.version = attempt.header.version;
      co_return ReadGuard(std::move(hold), attempt_validates());
    }
    if (attempts.expired()) {
      watch.keep(object.latch().address, attempt.header.latch, asked);
      co_return ReadGuard();
    }
    if (watch.expired(object.latch().address, attempt.header.latch, asked)) {
      throw_holder_lost(object, attempt.header.latch);
    }
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
}

Task<bool> OptimisticScheme::validate(Hold& hold) const {
  const ObjectHeader now = co_await read_header(*hold.session, hold.object, hold.buffer);
  hold.buffer.drop();
  co_return (now == ObjectHeader{kFree, hold.version});
}

Task<void> OptimisticScheme::release(Hold& hold) const {
  hold.buffer.drop();
  co_return;
}

}  // namespace sidelatch::sync
