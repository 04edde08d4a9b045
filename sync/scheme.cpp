#include <sidelatch/sync/scheme.h>

#include "latching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

namespace detail {

void throw_empty_guard(const char* call) {
  throw std::logic_error(fmt::format("{}() of a guard that holds nothing", call));
}

}  // namespace detail

bool ExclusiveGuard::lease_expired() const {
  if (!*this) {
    detail::throw_empty_guard("lease_expired");
  }
  return lease_is_over(hold());
}

Task<void> ExclusiveGuard::abort() {
  if (!*this) {
    detail::throw_empty_guard("abort");
  }
  if (inherited()) {
    throw LatchError(LatchError::Kind::torn_takeover,
                     fmt::format("abort() of the object at {:#x}, which was taken over from a holder that died: it may "
                                 "be half written; repair its payload and commit() it",
                                 object().record_address.value));
  }
  return end().abort(mutable_hold());
}

Task<bool> ReadGuard::validate() {
  if (!*this) {
    detail::throw_empty_guard("validate");
  }
  return end().validate(mutable_hold());
}

Task<void> ReadGuard::release() {
  if (!*this) {
    detail::throw_empty_guard("release");
  }
  return end().release(mutable_hold());
}

Task<Scheme::Turn> Scheme::pass_on(Session& /*session*/, OwedLatch& /*owed*/) const {
  throw std::logic_error(fmt::format("{} has no queue, and so no place in one", name()));
  co_return Turn::unknown;
}

void Scheme::check_own(const Object& object) const {
  needs_code_.store(needs().code(), std::memory_order_relaxed);
  if (object.shape->needs == needs_code_.load(std::memory_order_relaxed)) {
    return;
  }
  throw std::invalid_argument(
      fmt::format("{}: the object at {:#x} has a record that another scheme shaped; make its layout with this scheme's "
                  "shape()",
                  name(), object.record_address.value));
}

RecordShape Scheme::shape(std::uint64_t payload_bytes, LayoutKind kind) const {
  try {
    return make_shape(needs(), kind, payload_bytes);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", name(), error.what()));
  }
}

std::uint64_t Scheme::largest_payload(std::uint64_t record_bytes, LayoutKind kind) const {
  // A record grows with its payload, so bisection finds the largest that fits.
  std::uint64_t fits = 0;
  std::uint64_t too_large = std::min(record_bytes, kLargestPayload / std::max(needs().copies, 1U)) + 1;
  while (too_large - fits > 1) {
    const std::uint64_t middle = fits + (too_large - fits) / 2;
    (shape(middle, kind).bytes <= record_bytes ? fits : too_large) = middle;
  }
  if (fits == 0) {
    throw std::invalid_argument(
        fmt::format("{}: a record of {} bytes in layout {} has no room for payload; it needs at "
                    "least {} bytes",
                    name(), record_bytes, sync::name(kind), shape(1, kind).bytes));
  }
  return fits;
}

Task<std::uint64_t> Scheme::do_peek(Session& session, Object object) const {
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

Task<ReadResult> Scheme::read(Session& session, Object object, std::span<std::byte> payload,
                              Semantics semantics) const {
  if (payload.size() != object.shape->payload_bytes) {
    throw std::invalid_argument(fmt::format("{}: a read into {} bytes of a payload of {}: both must be equal", name(),
                                            payload.size(), object.shape->payload_bytes));
  }
  Attempts attempts(session);
  const Session::Operation operation(session, attempts.began());
  for (;;) {
    ReadGuard guard = co_await begin_read(session, object);
    if (!guard) {
      co_return ReadResult{};
    }
    const std::uint64_t version = guard.version();
    std::memcpy(payload.data(), guard.payload().data(), payload.size());
    if (guard.fresh() || semantics == Semantics::consistent) {
      co_await guard.release();
      co_return ReadResult{true, version};
    }
    const bool unchanged = co_await guard.validate();
    if (unchanged) {
      co_return ReadResult{true, version};
    }
    if (attempts.expired()) {
      co_return ReadResult{};
    }
    co_await attempts.pause();
  }
}

}  // namespace sidelatch::sync
