#include <sidelatch/sync/ticket_latch.h>

#include "latching.h"

#include <fmt/format.h>

#include <cstring>

namespace sidelatch::sync {

using namespace fabric;

namespace {

constexpr std::uint64_t kOneTicket = std::uint64_t{1} << 32;

constexpr std::uint32_t served(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t next(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

// A turn's number in a Hold: never 0.
constexpr std::uint64_t turn_of(std::uint32_t ticket) { return std::uint64_t{ticket} + 1; }
constexpr std::uint32_t ticket_of(std::uint64_t turn) { return static_cast<std::uint32_t>(turn - 1); }

// An acquisition may end without an outcome: by an exception, or because its task is destroyed.
class TicketUnderWay {
 public:
  explicit TicketUnderWay(Hold& hold) noexcept : hold_(&hold) {}
  TicketUnderWay(const TicketUnderWay&) = delete;
  TicketUnderWay& operator=(const TicketUnderWay&) = delete;
  ~TicketUnderWay() {
    if (hold_->buffer.valid() && posting.happened() && !hold_->qp().reactor().abandons_tasks()) [[unlikely]] {
      hold_->session->owe_acquired(*hold_, /*latched=*/hold_->turn != 0, posting, expected);
    }
  }

  Posting posting;             // of the request that takes a ticket
  std::uint64_t expected = 0;  // what a CAS compares with; kDraws: it is a FETCH-ADD

 private:
  Hold* hold_;
};

// No word of a latch: one ticket is not served for so long.
constexpr std::uint64_t kDraws = ~std::uint64_t{0} - 1;

void take(Hold& hold, std::uint32_t ticket) {
  hold.turn = turn_of(ticket);
  hold.word = turn_word(ticket);
}

// For sessions with a deadline. False: it has passed.
Task<bool> take_if_free(Hold& hold, TicketUnderWay& under_way) {
  Session& session = *hold.session;
  Attempts attempts(session);
  std::uint64_t expected = 0;
  for (;;) {
    hold.word = turn_word(next(expected));
    under_way.posting = {};
    under_way.expected = expected;
    const auto old = co_await session.qp().submit(under_way.posting,
                                                  compare_swap(hold.object.latch(), expected, expected + kOneTicket));
    const std::uint64_t seen = old[0];
    if (seen == expected) {
      take(hold, next(seen));
      co_return true;
    }
    under_way.posting = {};
    hold.word = 0;
    if (attempts.expired()) {
      co_return false;
    }
    // As the word will be when all who were seen in the queue have been served.
    expected = std::uint64_t{next(seen)} << 32 | next(seen);
    if (!is_served(seen)) {
      co_await attempts.pause();
    }
  }
}

}  // namespace

TicketLatch::TicketLatch(Acquire acquire, Release release)
    : unlatcher_(acquire, release),
      acquire_(acquire),
      name_(fmt::format("latch-ticket/{}", level_name(acquire, release))) {}

bool TicketLatch::is_free(std::uint64_t word) const noexcept { return is_served(word); }

// The READ of the object is posted after one that has seen the ticket served, so after the last holder's WRITE was
// placed: its unlatch was executed after that (rule 5).
Task<void> TicketLatch::wait_for_turn(Session& session, Object object, LocalSpan into, std::uint32_t ticket) const {
  Attempts attempts(session, Attempts::Forgotten());
  while (attempts.shows_head()) {
    forget_failed_attempt(session, into);
    co_await attempts.pause();
  }
  for (;;) {
    co_await session.qp().read(into, object.latch());
    std::uint64_t word = 0;
    std::memcpy(&word, into.data, sizeof word);
    const std::uint32_t ahead = ticket - served(word);
    if (ahead == 0) {
      co_return;
    }
    attempts.count();
    forget_failed_attempt(session, into);
    co_await attempts.pause_behind(ahead);
  }
}

Task<ExclusiveGuard> TicketLatch::do_latch(Session& session, Object object, std::source_location place,
                                           Takeover /*takeover*/) const {
  refuse_lease(session, name());
  RingBuffer buffer = session.take_buffer(*object.shape);
  if (!buffer.valid()) {
    buffer = co_await session.wait_for_buffer();
  }
  Hold hold{.scheme = this,
            .session = &session,
            .object = object,
            .buffer = ObjectBuffer(std::move(buffer), *object.shape),
            .queue = this,
            .place = place};
  TicketUnderWay under_way(hold);
  QueuePair& qp = session.qp();
  if (session.options().retry.deadline) {
    const bool taken = co_await take_if_free(hold, under_way);
    if (!taken) {
      co_return ExclusiveGuard();
    }
    co_await qp.read(hold.buffer.record(), object.record());
    co_return std::move(hold);
  }
  const WorkRequest draw = fetch_add(object.latch(), kOneTicket);
  const WorkRequest record = fabric::read(hold.buffer.record(), object.record());
  std::uint64_t word = 0;
  hold.word = turn_word(0);  // it may have a ticket
  under_way.expected = kDraws;
  if (acquire_ == Acquire::speculative) {
    const auto old = co_await qp.submit(under_way.posting, draw, record);
    word = old[0];
  } else {
    const auto old = co_await qp.submit(under_way.posting, draw);
    word = old[0];
  }
  take(hold, next(word));
  if (!is_free(word)) {
    co_await wait_for_turn(session, object, hold.buffer.record().subspan(0, sizeof word), next(word));
  }
  if (acquire_ == Acquire::basic || !is_free(word)) {
    co_await qp.submit(record);
  }
  co_return std::move(hold);
}

Task<void> TicketLatch::commit(Hold& hold) const { return unlatcher_.write_and_unlatch(hold, write_payload(hold)); }

Task<void> TicketLatch::abort(Hold& hold) const { return unlatcher_.unlatch(hold); }

Task<ReadGuard> TicketLatch::do_begin_read(Session& session, Object object, std::source_location place) const {
  ExclusiveGuard guard = co_await do_latch(session, object, place, Takeover::refused);
  co_return guard.release_hold();
}

Task<bool> TicketLatch::validate(Hold& hold) const {
  co_await unlatcher_.unlatch(hold);
  co_return true;
}

Task<void> TicketLatch::release(Hold& hold) const { return unlatcher_.unlatch(hold); }

// The word tells whether the ticket was served: others come later.
Task<Scheme::Turn> TicketLatch::pass_on(Session& session, OwedLatch& owed) const {
  if (owed.turn == 0) {
    const std::uint64_t expected = owed.asked.expected;
    const std::optional<std::uint64_t> found = co_await session.outcome_of(owed);
    if (found && expected != kDraws && *found != expected) {
      co_return Turn::over;
    }
    if (!found) {
      // What the connection that failed has not done is not done any more: a free latch stays without this ticket.
      const std::uint64_t word = co_await session.qp().fetch_add(owed.latch, 0);
      co_return is_served(word) ? Turn::over : Turn::unknown;
    }
    owed.turn = turn_of(next(*found));
  }
  const std::uint32_t ticket = ticket_of(owed.turn);
  for (;;) {
    const std::uint64_t word = co_await session.qp().fetch_add(owed.latch, 0);
    const auto ahead = static_cast<std::int32_t>(ticket - served(word));
    if (ahead < 0) {
      co_return Turn::over;
    }
    if (ahead == 0) {
      owed.word = turn_word(ticket);
      owed.certain = true;
      co_return Turn::held;
    }
    const Retry& retry = session.options().retry;
    co_await session.qp().reactor().sleep(retry.first);
  }
}

}  // namespace sidelatch::sync
