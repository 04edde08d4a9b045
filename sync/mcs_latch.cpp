#include <sidelatch/sync/mcs_latch.h>

#include <sidelatch/sync/latch_word.h>

#include "latching.h"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <utility>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// A place in the queue that nobody looks after when an operation ends without an outcome: the session owes it then.
class PlaceUnderWay {
 public:
  PlaceUnderWay(Session& session, const Scheme& scheme, const Object& object) noexcept : session_(&session) {
    owed.latch = object.latch();
    owed.queue = &scheme;
  }
  PlaceUnderWay(const PlaceUnderWay&) = delete;
  PlaceUnderWay& operator=(const PlaceUnderWay&) = delete;
  ~PlaceUnderWay() {
    if (owed.turn == 0 || session_->qp().reactor().abandons_tasks()) [[likely]] {
      return;
    }
    if (!owed.certain && !posting.happened()) {  // it is not in the queue
      session_->options().peers->give_back(owed.turn);
      return;
    }
    if (write != nullptr) {
      owed.writes.push_back(copy_of(*write));
    }
    if (posting.happened()) {
      owed.certain = false;
      const bool leaves = expected == owed.turn;
      owed.asked = {posting, leaves ? posting.last : posting.first, expected};
    }
    session_->owe(std::move(owed));
  }
  void is_over() noexcept { owed.turn = 0; }
  /// Call it before a CAS of the latch, and know_outcome() after it.
  [[nodiscard]] Posting& begin_swap(std::uint64_t compare) noexcept {
    posting = {};
    expected = compare;
    return posting;
  }
  void know_outcome() noexcept { posting = {}; }

  OwedLatch owed;
  const WorkRequest* write = nullptr;  // of a commit that may not have been sent
  Posting posting;
  std::uint64_t expected = 0;

 private:
  Session* session_;
};

// With a deadline: false if it has passed.
Task<bool> take_if_free(Session* session, RemoteSpan latch, std::uint64_t place, PlaceUnderWay& under_way) {
  Attempts attempts(*session);
  for (;;) {
    const auto old = co_await session->qp().submit(under_way.begin_swap(kFree), compare_swap(latch, kFree, place));
    under_way.know_outcome();
    if (old[0] == kFree) {
      co_return true;
    }
    if (attempts.expired()) {
      co_return false;
    }
    co_await attempts.pause();
  }
}

}  // namespace

McsLatch::McsLatch(Acquire acquire, Release release)
    : acquire_(acquire), release_(release), name_(fmt::format("latch-mcs/{}", level_name(acquire, release))) {
  if (release == Release::async) {
    throw std::invalid_argument(
        "latch-mcs/async: an asynchronous release is not possible, since who hands the latch over must know how its "
        "CAS ended; use combined");
  }
}

LatchPeers& McsLatch::peers_of(Session& session) const {
  LatchPeers* const peers = session.options().peers;
  if (peers == nullptr || &peers->node() != &session.qp().node()) {
    throw std::invalid_argument(
        fmt::format("{}: a client waits on a word of its own memory, which the others write: give the session "
                    "SessionOptions::peers, the LatchPeers of node {}, and connect it to those of the other clients",
                    name(), session.qp().node().name()));
  }
  return *peers;
}

Task<ExclusiveGuard> McsLatch::do_latch(Session& session, Object object, std::source_location place,
                                        Takeover /*takeover*/) const {
  refuse_lease(session, name());
  LatchPeers& peers = peers_of(session);
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
  QueuePair& qp = session.qp();
  const std::uint64_t own = peers.take_place();
  PlaceUnderWay under_way(session, *this, object);
  under_way.owed.turn = own;
  const WorkRequest record = fabric::read(hold.buffer.record(), object.record());
  std::uint64_t predecessor = kFree;
  bool has_record = false;
  if (session.options().retry.deadline) {
    const bool taken = co_await take_if_free(&session, object.latch(), own, under_way);
    if (!taken) {
      under_way.is_over();
      peers.give_back(own);
      co_return ExclusiveGuard();
    }
  } else {
    for (std::uint64_t expected = kFree;;) {
      under_way.owed.predecessor = expected;
      const WorkRequest swap = compare_swap(object.latch(), expected, own);
      if (acquire_ == Acquire::speculative && expected == kFree) {
        const auto old = co_await qp.submit(under_way.begin_swap(expected), swap, record);
        predecessor = old[0];
        has_record = true;
      } else {
        const auto old = co_await qp.submit(under_way.begin_swap(expected), swap);
        predecessor = old[0];
        has_record = false;
      }
      under_way.know_outcome();
      if (predecessor == expected) {
        break;
      }
      expected = predecessor;
    }
  }
  under_way.owed.certain = true;
  if (predecessor != kFree) {
    co_await peers.follow(predecessor, own);
    under_way.owed.followed = true;
    co_await peers.wait_for_turn(own);
    under_way.owed.predecessor = kFree;
  }
  if (!has_record) {
    co_await qp.submit(record);
  }
  under_way.is_over();
  hold.word = hold.turn = own;
  co_return std::move(hold);
}

Task<void> McsLatch::leave(Hold& hold, const WorkRequest* write) const {
  Session& session = *hold.session;
  LatchPeers& peers = peers_of(session);
  QueuePair& qp = hold.qp();
  const std::uint64_t own = hold.turn;
  PlaceUnderWay under_way(session, *this, hold.object);
  under_way.owed.turn = own;
  under_way.owed.certain = true;
  const WorkRequest free = compare_swap(hold.object.latch(), own, kFree);
  under_way.write = write;
  Posting written;
  std::uint64_t seen = 0;
  try {
    if (write == nullptr) {
      const auto old = co_await qp.submit(under_way.begin_swap(own), free);
      seen = old[0];
    } else if (release_ == Release::basic) {
      co_await qp.submit(written, *write);
      const auto old = co_await qp.submit(under_way.begin_swap(own), free);
      seen = old[0];
    } else {
      const auto old = co_await qp.submit(under_way.begin_swap(own), *write, free);
      seen = old[1];
    }
  } catch (const FabricError& cause) {
    if (write == nullptr) {
      hold.buffer.drop();
      throw;
    }
    under_way.owed.writes.push_back(copy_of(*std::exchange(under_way.write, nullptr)));
    hold.buffer.drop();  // sending it again needs one
    const bool unlatched = under_way.posting.happened();
    throw_commit_failed(cause, hold, written.happened() || unlatched, unlatched);
  }
  under_way.know_outcome();
  under_way.write = nullptr;
  hold.buffer.drop();
  if (seen != own) {
    under_way.owed.successor = co_await peers.wait_for_successor(own);
    co_await peers.give_turn(own, under_way.owed.successor);
  }
  under_way.is_over();
  peers.give_back(own);
}

Task<void> McsLatch::commit(Hold& hold) const {
  const WorkRequest write = write_payload(hold);
  co_await leave(hold, &write);
}

Task<void> McsLatch::abort(Hold& hold) const { return leave(hold, nullptr); }

Task<ReadGuard> McsLatch::do_begin_read(Session& session, Object object, std::source_location place) const {
  ExclusiveGuard guard = co_await do_latch(session, object, place, Takeover::refused);
  co_return guard.release_hold();
}

Task<bool> McsLatch::validate(Hold& hold) const {
  co_await leave(hold, nullptr);
  co_return true;
}

Task<void> McsLatch::release(Hold& hold) const { return leave(hold, nullptr); }

// Does what is left of the operation. While the latch word still names this place, nobody follows it, and it was the
// last swap that succeeded.
Task<Scheme::Turn> McsLatch::pass_on(Session& session, OwedLatch& owed) const {
  LatchPeers& peers = peers_of(session);
  QueuePair& qp = session.qp();
  bool has_successor = false;
  if (!owed.certain && owed.asked.posting.happened()) {
    const std::uint64_t expected = owed.asked.expected;
    const std::optional<std::uint64_t> found = co_await session.outcome_of(owed);
    const bool leaves = expected == owed.turn;
    if (found && (*found == expected) == leaves) {  // the place is not in the queue: no more, or not at all
      peers.give_back(owed.turn);
      co_return Turn::over;
    }
    owed.certain = found.has_value();
    has_successor = found && leaves;
  }
  if (!owed.certain) {
    const std::uint64_t last = co_await qp.fetch_add(owed.latch, 0);
    if (last == kFree) {  // and stays without this place: what the failed connection has not done is not done any more
      peers.give_back(owed.turn);
      co_return Turn::over;
    }
    if (last != owed.turn) {
      // Who follows has found this place in the latch word. So it has taken its place, and has not left it.
      const bool is_followed = co_await peers.has_successor(owed.turn);
      if (!is_followed) {
        co_return Turn::unknown;
      }
    }
    owed.certain = true;
  }
  if (owed.predecessor != kFree) {
    if (!owed.followed) {  // its place may be another operation's by now
      co_await peers.follow_again(owed.predecessor, owed.turn);
      owed.followed = true;
    }
    co_await peers.wait_for_turn(owed.turn);
    owed.predecessor = kFree;
  }
  if (owed.successor == 0) {
    if (!has_successor) {
      Posting written;
      co_await session.write_again(owed, written);
      owed.certain = false;
      owed.asked = {.expected = owed.turn};
      const auto old = co_await qp.submit(owed.asked.posting, compare_swap(owed.latch, owed.turn, kFree));
      owed.asked = {};
      owed.certain = true;
      owed.writes.clear();
      if (old[0] == owed.turn) {
        peers.give_back(owed.turn);
        co_return Turn::over;
      }
    }
    owed.successor = co_await peers.wait_for_successor(owed.turn);
  }
  co_await peers.give_turn_again(owed.turn, owed.successor);
  peers.give_back(owed.turn);
  co_return Turn::over;
}

}  // namespace sidelatch::sync
