#include <sidelatch/sync/switched_version.h>

#include <sidelatch/sync/exclusive_latch.h>

#include "latching.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

namespace {

constexpr std::uint64_t kVersionBytes = 8;

std::uint64_t version_in(const LocalSpan& bytes) {
  std::uint64_t version = 0;
  std::memcpy(&version, bytes.data, sizeof version);
  return version;
}

constexpr bool is_latched(std::uint64_t version) { return version % 2 != 0; }

void require_switch(const Session& session, std::string_view name) {
  if (!session.options().versions_at_switch) {
    throw std::invalid_argument(
        fmt::format("{}: the queue pair must pass a switch that keeps the versions (docs/switch.md); if it does, set "
                    "SessionOptions::versions_at_switch",
                    name));
  }
  if (session.options().owner != 0) {
    throw std::invalid_argument(
        fmt::format("{}: a session with owner id {} and a lease: the switch knows who holds a latch, and its control "
                    "plane ends clients that have died; leave owner and lease out",
                    name, session.options().owner));
  }
}

// A task may be destroyed while its CAS is under way. If the connection is lost, the switch's control plane gives back
// what it has latched.
class LatchUnderWay {
 public:
  explicit LatchUnderWay(Hold& hold) noexcept : hold_(&hold) {}
  LatchUnderWay(const LatchUnderWay&) = delete;
  LatchUnderWay& operator=(const LatchUnderWay&) = delete;
  ~LatchUnderWay() {
    if (hold_->buffer.valid() && hold_->qp().carries(posting) && !hold_->qp().reactor().abandons_tasks()) [[unlikely]] {
      hold_->word = version + 1;
      hold_->session->owe_acquired(*hold_, /*latched=*/false, posting, version);
    }
  }

  Posting posting;
  std::uint64_t version = 0;  // that the CAS compares with

 private:
  Hold* hold_;
};

Task<ObjectBuffer> buffer_for(Session& session, Object object) {
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  co_return ObjectBuffer(std::move(buffer), *object.shape);
}

}  // namespace

const Scheme& SwitchedVersion::for_single_records() const noexcept {
  static const ExclusiveLatch kLatch(LatchLevel::basic);  // one request at a time
  return kLatch;
}

Task<ExclusiveGuard> SwitchedVersion::do_latch(Session& session, Object object, std::source_location place,
                                               Takeover /*takeover*/) const {
  require_switch(session, name());
  Attempts attempts(session, Attempts::Forgotten());
  Hold hold{.scheme = this, .session = &session, .object = object, .unlatch_by = UnlatchBy::count_back, .place = place};
  hold.buffer = co_await buffer_for(session, object);
  LatchUnderWay under_way(hold);
  while (attempts.shows_head()) {
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
  for (;;) {
    co_await session.qp().read(hold.buffer.record(), object.record());
    const std::uint64_t version = version_in(hold.buffer.record());
    if (!is_latched(version)) {
      under_way.version = version;
      const auto seen =
          co_await session.qp().submit(under_way.posting, compare_swap(object.latch(), version, version + 1));
      under_way.posting = {};
      if (seen[0] == version) {
        hold.version = version;
        hold.word = version + 1;
        co_return std::move(hold);
      }
    }
    if (attempts.expired()) {
      co_return ExclusiveGuard();
    }
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
}

// The switch overwrites the word that it is sent.
Task<void> SwitchedVersion::commit(Hold& hold) const {
  ReleaseUnderWay under_way(hold);
  co_await hold.session->until_switch_is_free();
  co_await hold.qp().submit(under_way.unlatch, write(hold.buffer.record(), hold.object.record()));
  under_way.is_over();
  hold.buffer.drop();
}

Task<void> SwitchedVersion::abort(Hold& hold) const {
  ReleaseUnderWay under_way(hold);
  co_await hold.session->until_switch_is_free();
  co_await hold.qp().submit(under_way.unlatch, compare_swap(hold.object.latch(), hold.word, hold.word - 1));
  under_way.is_over();
  hold.buffer.drop();
}

Task<ReadGuard> SwitchedVersion::do_begin_read(Session& session, Object object, std::source_location place) const {
  require_switch(session, name());
  Attempts attempts(session, Attempts::Forgotten());
  Hold hold{.scheme = this, .session = &session, .object = object, .place = place};
  hold.buffer = co_await buffer_for(session, object);
  while (attempts.shows_head()) {
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
  for (;;) {
    co_await session.qp().read(hold.buffer.record(), object.record());
    hold.version = version_in(hold.buffer.record());
    if (!is_latched(hold.version)) {
      co_return ReadGuard(std::move(hold));
    }
    if (attempts.expired()) {
      co_return ReadGuard();
    }
    forget_failed_attempt(session, hold.buffer);
    co_await attempts.pause();
  }
}

Task<bool> SwitchedVersion::validate(Hold& hold) const {
  co_await hold.session->until_switch_is_free();
  const LocalSpan into = hold.buffer.header();
  co_await hold.qp().read(into, hold.object.latch());
  const bool unchanged = version_in(into) == hold.version;
  hold.buffer.drop();
  co_return unchanged;
}

Task<void> SwitchedVersion::release(Hold& hold) const {
  hold.buffer.drop();
  co_return;
}

Task<std::uint64_t> SwitchedVersion::do_peek(Session& session, Object object) const {
  require_switch(session, name());
  const ObjectBuffer buffer = co_await buffer_for(session, object);
  const LocalSpan into = buffer.record().subspan(0, kVersionBytes);
  co_await session.qp().read(into, object.latch());
  const std::uint64_t version = version_in(into);
  co_return (is_latched(version) ? version : 0);
}

}  // namespace sidelatch::sync
