#include "latching.h"

#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

std::string level_name(Acquire acquire, Release release) {
  for (const LatchLevel level : {LatchLevel::basic, LatchLevel::speculative, LatchLevel::combined, LatchLevel::async}) {
    if (acquire_of(level) == acquire && release_of(level) == release) {
      return std::string(name(level));
    }
  }
  return release == Release::combined ? "basic+combined" : "basic+async";
}

void AcquisitionUnderWay::leave() {
  if (latched && hold_->unlatch_by == UnlatchBy::swap_apart) {  // also if the connection to the object has failed
    hold_->session->release_dropped(*hold_);
  } else {
    hold_->session->owe_acquired(*hold_, latched, posting, expected);
  }
}

void ReleaseUnderWay::leave() {
  Session& session = *hold_->session;
  const bool is_apart = hold_->unlatch_by == UnlatchBy::swap_apart;
  const QueuePair& pair = is_apart ? *session.options().latches.queue_pair : session.qp();
  const bool happens = pair.carries(unlatch);
  if (hold_->unlatch_by == UnlatchBy::count_back) {
    // What a lost connection has held, the switch's control plane gives back.
    if (!unlatch.happened() && pair.state() == QueuePair::State::ready) {
      session.owe_unlatch(*hold_, nullptr, nullptr, false, /*posted=*/false);
    }
    hold_->buffer.drop();
    return;
  }
  if (!happens) {
    session.owe_unlatch(*hold_, write_, publish_, free_by_write_, unlatch.happened());
    hold_->buffer.drop();  // the session has a copy, and may need a buffer to send it
    return;
  }
  if (is_apart) {
    session.posted_unlatch_apart(*hold_, unlatch);
    hold_->buffer.drop();
    return;
  }
  session.posted_unlatch(hold_->object.latch(), hold_->word, unlatch.last);
  if (free_by_write_) {
    session.posted_write_unlatch(hold_->object.latch());
  }
  if (session.has_lease() && write_ != nullptr) {
    session.posted_commit(*hold_, *write_, publish_, free_by_write_);
  } else if (session.has_lease()) {
    session.posted_commit(*hold_);
  }
  hold_->buffer.drop();
}

Task<void> post_unlatch(Hold& hold, WorkRequest unlatch, bool async) {
  QueuePair& qp = hold.qp();
  ReleaseUnderWay under_way(hold);
  if (async) {
    co_await qp.enqueue(under_way.unlatch, unlatch);
    hold.session->posted_unlatch(hold.object.latch(), hold.word);
    if (hold.session->has_lease()) {
      hold.session->posted_commit(hold);
    }
  } else {
    co_await hold.session->until_switch_is_free();
    co_await qp.submit(under_way.unlatch, unlatch);
  }
  under_way.is_over();
  hold.buffer.drop();
}

void throw_commit_failed(const FabricError& cause, const Hold& hold, bool posted, bool unlatched) {
  const char* fate =
      "was not sent; the object is as before and stays latched until the session sends the update, after "
      "reconnect()";
  if (posted) {
    fate = hold.session->has_lease() || !unlatched
               ? "may have happened or not; after reconnect() the session finds out, and ends it"
               : "may have happened or not, and without an owner id nobody can tell whether the object is still "
                 "latched: see in_doubt() and docs/leases.md";
  }
  const std::string detail = fmt::format("the update of the object at {:#x} {}. Cause: {}",
                                         hold.object.record_address.value, fate, cause.what());
  if (cause.request().remote.value == 0) {
    throw FabricError(cause.status(), detail);
  }
  throw FabricError(cause.status(), cause.request(), detail);
}

bool lease_is_over_now(const Hold& hold) {
  const Lease& lease = hold.session->options().lease;
  return hold.session->lease_clock() - hold.since >= lease.length - lease.margin;
}

void throw_lease_expired(const Hold& hold) {
  const Lease& lease = hold.session->options().lease;
  throw LatchError(LatchError::Kind::lease_expired,
                   fmt::format("the latch at {:#x} was held for {:g} ns, and its lease allows {:g}: nothing was "
                               "written, and the session holds it no more; latch it again",
                               hold.object.latch().address.value, to_ns(hold.session->lease_clock() - hold.since),
                               to_ns(lease.length - lease.margin)));
}

Task<void> revoke_holder(Session& session, Object object, std::uint64_t word) {
  if (owner_of(word) == session.options().owner) {
    throw LatchError(LatchError::Kind::held_by_self,
                     fmt::format("the latch at {:#x} is held by this session's own owner id {}: end that guard first, "
                                 "and give each session an owner id of its own",
                                 object.latch().address.value, owner_of(word)));
  }
  Revoker* revoker = session.options().revoker;
  if (revoker == nullptr) {
    throw LatchError(
        LatchError::Kind::takeover_refused,
        fmt::format(
            "the lease of owner {} on the latch at {:#x} has ended, but its late writes can only be kept out by "
            "the memory node: give the session a Revoker",
            owner_of(word), object.latch().address.value));
  }
  co_await revoker->revoke(owner_of(word));
  session.note_dead(owner_of(word));
}

void refuse_lease(const Session& session, std::string_view scheme) {
  if (session.has_lease()) {
    throw std::invalid_argument(
        fmt::format("{}: a session with a lease (owner {}): who waits in the queue of a dead client cannot take its "
                    "place over; give the session no owner and no lease, or use latch-exclusive or latch-rw",
                    scheme, session.options().owner));
  }
}

void throw_holder_lost(const Object& object, std::uint64_t word) {
  throw LatchError(LatchError::Kind::holder_lost,
                   fmt::format("the lease of owner {} on the latch at {:#x} has ended: take the object over with "
                               "latch(), repair and commit it",
                               owner_of(word), object.latch().address.value));
}

}  // namespace sidelatch::sync
