#include "latching.h"

#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

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

WorkRequest write_payload(const Hold& hold) {
  const RecordShape& shape = *hold.object.shape;
  return write(hold.buffer.part(shape.payload, shape.payload_words()),
               hold.object.part(shape.payload, shape.payload_words()));
}

Task<void> post_unlatch(Hold& hold, WorkRequest unlatch, bool async) {
  QueuePair& qp = hold.qp();
  const std::uint64_t posted = qp.posted();
  try {
    if (async) {
      co_await qp.enqueue(unlatch);
      hold.session->posted_unlatch(hold, {}, /*free_by_write=*/false);
    } else {
      co_await qp.submit(unlatch);
    }
  } catch (const FabricError&) {
    hold.session->owe_unlatch(hold, {}, /*free_by_write=*/false, qp.posted() != posted);
    throw;
  }
  hold.buffer.drop();
}

bool lease_is_over_now(const Hold& hold) {
  const Lease& lease = hold.session->options().lease;
  return hold.session->now() - hold.since >= lease.length - lease.margin;
}

void throw_lease_expired(const Hold& hold) {
  const Lease& lease = hold.session->options().lease;
  throw LatchError(LatchError::Kind::lease_expired,
                   fmt::format("the latch at {:#x} was held for {:g} ns, and its lease allows {:g}: nothing was "
                               "written, and the object is unlatched; latch it again",
                               hold.object.latch().address.value, to_ns(hold.session->now() - hold.since),
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

void throw_holder_lost(const Object& object, std::uint64_t word) {
  throw LatchError(LatchError::Kind::holder_lost,
                   fmt::format("the lease of owner {} on the latch at {:#x} has ended: take the object over with "
                               "latch(), repair and commit it",
                               owner_of(word), object.latch().address.value));
}

}  // namespace sidelatch::sync
