#include <sidelatch/sync/session.h>

#include "latching.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

void report_dropped_guard([[maybe_unused]] const DroppedGuard& dropped) {
#ifndef NDEBUG
  // Printed directly to standard error, because an exception may be in flight.
  std::fputs(
      fmt::format("sidelatch: a guard was dropped that holds the latch at {:#x}; it was acquired at {}:{} ({}). "
                  "A guard ends by commit(), abort() or release().\n",
                  dropped.latch.value, dropped.place.file_name(), dropped.place.line(), dropped.place.function_name())
          .c_str(),
      stderr);
  std::abort();
#endif
}

void Retry::validate() const {
  if (wait == Wait::backoff && (first <= Duration::zero() || cap < first)) {
    throw std::invalid_argument(
        fmt::format("backoff from {:g} to {:g} ns: the first bound must be above 0 and the cap "
                    "not below it",
                    to_ns(first), to_ns(cap)));
  }
  if (deadline && *deadline <= Duration::zero()) {
    throw std::invalid_argument(fmt::format("a deadline after {:g} ns: it must be above 0", to_ns(*deadline)));
  }
}

void SessionOptions::validate() const {
  retry.validate();
  latches.validate();
  constexpr std::uint32_t kMostBuffers = 65536;
  if (buffers == 0 || buffers > kMostBuffers) {
    throw std::invalid_argument(fmt::format("a session of {} buffers: it must have 1 to {}", buffers, kMostBuffers));
  }
  if (linger < Duration::zero()) {
    throw std::invalid_argument(fmt::format("linger is {:g} ns: it must be at least 0", to_ns(linger)));
  }
  if (lease.length != Duration::zero() && owner == 0) {
    throw std::invalid_argument("a lease without owner id: give the session an owner, 1 to 65535");
  }
  if (owner != 0 && lease.length == Duration::zero()) {
    throw std::invalid_argument(fmt::format(
        "owner id {} without a lease: others would take its latches over; give it the lease that they have", owner));
  }
  if (lease.length < Duration::zero() || lease.margin < Duration::zero() ||
      (lease.length > Duration::zero() && lease.margin >= lease.length)) {
    throw std::invalid_argument(
        fmt::format("a lease of {:g} ns with a margin of {:g} ns: the margin must be at least 0 "
                    "and less than the lease",
                    to_ns(lease.length), to_ns(lease.margin)));
  }
}

LocalSpan ObjectBuffer::header() const noexcept { return cut(shape_->header_area(), shape_->header_bytes); }

std::span<std::byte> ObjectBuffer::payload() const noexcept {
  const std::uint64_t offset = shape_->contiguous() ? shape_->payload : shape_->payload_area();
  return {ring_.span().data + offset, shape_->payload_bytes};
}

namespace {

// A client may make a session with its owner id for each operation. If each began with the same epoch, the words of all
// holds would be the same, and others would take the client for one that has held its latch all the time. Executions of
// the explorer must not differ.
std::uint16_t first_epoch(const QueuePair& qp, std::uint16_t owner) {
  static std::atomic<std::uint16_t> sessions{0};
  constexpr std::uint16_t kFar = 40503;  // odd: no two of 65 536 sessions begin with the same
  return owner == 0 || qp.reactor().explores() ? std::uint16_t{0}
                                               : static_cast<std::uint16_t>(std::uint32_t{sessions++} * kFar);
}

}  // namespace

Session::Session(QueuePair& qp, std::uint64_t bytes_per_buffer, const SessionOptions& options)
    : qp_(&qp),
      options_((options.validate(), options)),
      ring_(qp, options.buffers, bytes_per_buffer),
      errors_seen_(options.versions_at_switch ? kOwes : qp.failures()),
      failures_(qp.failures()),
      random_(options.seed * 0x9e3779b97f4a7c15ULL + 1),
      epoch_(first_epoch(qp, options.owner)),
      marks_attempts_(options.retry.deadline || qp.reactor().explores()) {
  constexpr std::uint32_t kLongestChain = 4;
  if (qp.options().send_queue_depth < kLongestChain) {
    throw std::invalid_argument(
        fmt::format("a session on a queue pair with a send queue of {}: it must have at least {}",
                    qp.options().send_queue_depth, kLongestChain));
  }
  qp.reactor().keep_out_of_state(std::as_bytes(std::span(&counters_, 1)));
}

void Session::refuse_buffer(const RecordShape& shape) {
  throw std::invalid_argument(fmt::format("a record of {} bytes needs a session with buffers of {} bytes: it has {}",
                                          shape.bytes, sync::buffer_bytes(shape), ring_.buffer_bytes()));
}

// xorshift64*: only the spread of the waits depends on it.
std::uint64_t Session::random() noexcept {
  random_ ^= random_ >> 12;
  random_ ^= random_ << 25;
  random_ ^= random_ >> 27;
  return random_ * 0x2545f4914f6cdd1dULL;
}

void Attempts::mark_begin(const std::source_location& place, bool forgets) noexcept {
  if (session_->options().retry.deadline) {
    began_ = session_->operation_began_.value_or(session_->lease_clock());
  }
  Reactor& reactor = session_->qp().reactor();
  loop_ = reactor.explores() ? reactor.begin_loop(place, forgets) : Reactor::kNoLoop;
}

bool Attempts::expired() noexcept {
  const Retry& retry = session_->options().retry;
  ++session_->tally().retries;
  session_->qp().count_retry();
  const bool over = retry.deadline && session_->now() - began_ >= *retry.deadline;
  session_->tally().deadlines += over ? 1 : 0;
  return over || (session_->brief_until_ && session_->lease_clock() >= *session_->brief_until_);
}

void Attempts::count() noexcept {
  ++session_->tally().retries;
  session_->qp().count_retry();
}

Reactor::SleepAwaiter Attempts::pause_behind(std::uint64_t ahead) noexcept {
  const Retry& retry = session_->options().retry;
  if (retry.wait == Retry::Wait::at_once || loop_ != Reactor::kNoLoop) {
    return session_->qp().reactor().retry(loop_, Duration::zero());
  }
  const auto longest = static_cast<std::uint64_t>(retry.cap / retry.first);
  return session_->qp().reactor().retry(loop_, retry.first * static_cast<std::int64_t>(std::min(ahead, longest)));
}

Reactor::SleepAwaiter Attempts::pause() noexcept {
  const Retry& retry = session_->options().retry;
  // Where waits take no time, their lengths would only make states differ.
  if (retry.wait == Retry::Wait::at_once || loop_ != Reactor::kNoLoop) {
    return session_->qp().reactor().retry(loop_, Duration::zero());
  }
  bound_ = bound_ == Duration::zero() ? retry.first : std::min(bound_ * 2, retry.cap);
  Duration wait{static_cast<std::int64_t>(session_->random() % static_cast<std::uint64_t>(bound_.count() + 1))};
  if (retry.deadline) {
    wait = std::min(wait, began_ + *retry.deadline - session_->now());
  }
  if (session_->brief_until_) {
    wait = std::min(wait, *session_->brief_until_ - session_->lease_clock());
  }
  return session_->qp().reactor().retry(loop_, wait);
}

const Session::Sighting* Session::sighting_of(RemoteAddress latch) const noexcept {
  const auto found = std::ranges::find(sightings_, latch, &Sighting::latch);
  return found == sightings_.end() ? nullptr : &*found;
}

void Session::keep(const Sighting& sighting) {
  constexpr std::size_t kMost = 16;  // latches that a client finds held again and again
  std::erase_if(sightings_, [&](const Sighting& other) { return other.latch == sighting.latch; });
  if (sightings_.size() == kMost) {
    sightings_.erase(sightings_.begin());
  }
  sightings_.push_back(sighting);
}

namespace {

// A holder that was met in an earlier operation is told from one that has the latch again by its epoch, which repeats
// after 2^15 acquisitions at least. Each takes a round trip, so in this time nobody has had so many.
constexpr Duration kLongestGap = from_ns(2e7);

}  // namespace

// The holder had the latch from some moment before this client learned of it until after `asked` at least. While
// another latch is held (Session::Brief) what earlier operations have seen does not count: nobody is taken over then.
bool LeaseWatch::expired(RemoteAddress latch, std::uint64_t word, Time asked) noexcept {
  const Duration length = session_->options().lease.length;
  if (length == Duration::zero() || !is_exclusive(word) || owner_of(word) == 0) {
    return false;
  }
  const std::uint64_t holder = holder_of(word);
  if (holder != holder_) {
    const Session::Sighting* const earlier =
        holder_ == 0 && !session_->brief_until_ ? session_->sighting_of(latch) : nullptr;
    holder_ = holder;
    if (earlier == nullptr || earlier->holder != holder || asked - earlier->last > kLongestGap) {
      since_ = session_->lease_clock();
      return false;
    }
    since_ = earlier->since;
  }
  return asked - since_ >= length;
}

// A world that explores does not explore how long a wait takes, so there its states stay as they are.
void LeaseWatch::keep(RemoteAddress latch, std::uint64_t word, Time asked) {
  if (session_->qp().reactor().explores() || session_->brief_until_) {
    return;
  }
  static_cast<void>(expired(latch, word, asked));
  if (holder_ != 0 && holder_of(word) == holder_) {
    session_->keep({latch, holder_, since_, asked});
  }
}

Session::Brief::Brief(Session& session) noexcept : session_(&session), outer_(session.brief_until_) {
  constexpr int kPart = 8;
  if (session.has_lease()) {
    const Time until = session.lease_clock() + session.options().lease.length / kPart;
    session.brief_until_ = outer_ ? std::min(*outer_, until) : until;
  }
}

}  // namespace sidelatch::sync
