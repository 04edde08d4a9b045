#include "latching.h"

#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

namespace sidelatch::sync {

using namespace fabric;

std::string_view level_name(Acquire acquire, Release release) {
  switch (release) {
    case Release::basic:
      return acquire == Acquire::basic ? "basic" : "speculative";
    case Release::combined:
      return acquire == Acquire::basic ? "basic+combined" : "combined";
    case Release::async:
      return acquire == Acquire::basic ? "basic+async" : "async";
  }
  return "unknown";
}

WorkRequest write_payload(const Hold& hold) {
  const RecordShape& shape = *hold.object.shape;
  return write(hold.buffer.part(shape.payload, shape.payload_words()),
               hold.object.part(shape.payload, shape.payload_words()));
}

void check_lease(const Hold& hold) {
  const Lease& lease = hold.session->options().lease;
  const Duration held = hold.session->now() - hold.since;
  if (held >= lease.length - lease.margin) {
    throw LatchError(LatchError::Kind::lease_expired,
                     fmt::format("the latch at {:#x} has been held for {:g} ns, and its lease allows {:g}: nothing was "
                                 "written; latch the object again",
                                 hold.object.latch().address.value, to_ns(held), to_ns(lease.length - lease.margin)));
  }
}

Task<void> revoke_holder(Session& session, Object object, std::uint64_t word) {
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
}

void throw_holder_lost(const Object& object, std::uint64_t word) {
  throw LatchError(LatchError::Kind::holder_lost,
                   fmt::format("the lease of owner {} on the latch at {:#x} has ended: take the object over with "
                               "latch(), repair and commit it",
                               owner_of(word), object.latch().address.value));
}

}  // namespace sidelatch::sync
