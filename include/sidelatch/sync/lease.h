// Leases detect a latch whose holder died. Taking it over needs the memory node.
//
//   RevocationService service(storage);                     // at the memory node
//   service.enlist(3, *qp_of_client_3);
//   SessionOptions options{.owner = 4, .lease = Lease{from_ns(1e6), from_ns(1e5)}, .revoker = &service};
//
// A session with an owner id writes it into the latch word, with an epoch that counts its acquisitions. A waiter that
// sees the same holder for a whole lease length takes that holder for dead. The holder respects its lease: once `length
// - margin` has passed since it asked for the latch, commit() writes nothing and throws LatchError::lease_expired, and
// a read under the latch is not validated. Clocks are never compared, only durations; `margin` covers their drift. All
// sessions on an object use the same length, and each has its own owner id.
//
// That alone is not enough. A dead client's NIC may hold a WRITE that it places at any later time, into the next
// holder's object (memory model, rule 9). A takeover therefore first asks the memory node, through a Revoker, to end
// the dead client's queue pairs (rule 10). A session without a Revoker refuses to take over
// (LatchError::takeover_refused).
//
// An object taken over may be half written. ExclusiveGuard::inherited() reports the takeover, and the object must be
// repaired and committed. Shared holders carry no owner: if a reader of an RwLatch dies, its count stays, and writers
// then wait until their deadline.
//
// Source: docs/memory-model.md derives the need for revocation from the memory model.
//
// Thread-safety: a service belongs to its node's thread.
#pragma once

#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/task.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace sidelatch::sync {

/// Length zero: no lease and no owner id; holders may keep latches as long as they like.
struct Lease {
  fabric::Duration length{};
  fabric::Duration margin{};  ///< less than length
};

class LatchError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    lease_expired,      ///< the holder took too long: nothing was written; another client may have the latch
    takeover_refused,   ///< the holder seems dead, and the session has no revoker
    holder_lost,        ///< a reader met a holder that seems dead: latch() takes over
    buffers_exhausted,  ///< the session's guards hold all of its buffers
    held_by_self,       ///< the session's own owner id holds the latch already
    torn_takeover,      ///< abort() of an inherited object, which may be half written
  };
  LatchError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// An object that can end a client's queue pairs at the memory node.
class Revoker {
 public:
  Revoker() = default;
  Revoker(const Revoker&) = delete;
  Revoker& operator=(const Revoker&) = delete;
  virtual ~Revoker() = default;
  /// Returns once none of `owner`'s requests can touch the memory node any more. Revoking twice is no error. Throws
  /// LatchError::takeover_refused for an unknown owner.
  [[nodiscard]] virtual fabric::Task<void> revoke(std::uint16_t owner) = 0;
};

/// The control-plane service of a memory node, for clients in the same process.
class RevocationService : public Revoker {
 public:
  /// `round_trip`: the time that a call of the service costs a client.
  explicit RevocationService(fabric::Node& memory_node, fabric::Duration round_trip = fabric::from_ns(50'000))
      : node_(&memory_node), round_trip_(round_trip) {}

  /// Registers `queue_pair`, which must outlive the service, as `owner`'s. Throws std::invalid_argument for owner 0 and
  /// for a revoked owner: a returning client must take a new id, or its old epochs would look alive.
  void enlist(std::uint16_t owner, fabric::QueuePair& queue_pair);
  [[nodiscard]] fabric::Task<void> revoke(std::uint16_t owner) override;
  [[nodiscard]] bool revoked(std::uint16_t owner) const { return revoked_.contains(owner); }

 private:
  fabric::Node* node_;
  fabric::Duration round_trip_;
  std::unordered_map<std::uint16_t, std::vector<fabric::QueuePair*>> queue_pairs_;
  std::set<std::uint16_t> revoked_;
};

}  // namespace sidelatch::sync
