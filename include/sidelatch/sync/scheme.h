// Scheme: a way to synchronize the clients of an object. Latches and optimistic schemes share this interface, so a data
// structure, a benchmark or a checker works with any of them.
//
//   const Crc64 scheme;
//   Layout layout(scheme.shape(256, LayoutKind::padded), LayoutKind::padded, 1000);
//   ...
//   bool done = co_await scheme.update(session, objects.at(7), [](std::span<std::byte> payload) { ... });
//   ReadResult result = co_await scheme.read(session, objects.at(7), payload);
//
// Guarantees. Writers exclude each other, and no update is lost. An accepted read gives one committed payload. With
// Semantics::latch_equivalent the payload did not change between the read's first and last look at the object, as under
// a shared latch. Every released latch becomes free. docs/schemes.md lists the rules of the memory model that each
// scheme needs for that.
//
// For every scheme, memory that was allocated and never written is a free latch, version 0 and a payload of zeros.
//
// Thread-safety: schemes have no state; one object may serve any number of tasks.
#pragma once

#include <sidelatch/sync/guard.h>

#include <atomic>
#include <exception>
#include <limits>
#include <source_location>
#include <span>
#include <string_view>

namespace sidelatch::sync {

struct ReadResult {
  bool accepted = false;      ///< false: the deadline passed
  std::uint64_t version = 0;  ///< of the object; meaningful if accepted
};

enum class Semantics : std::uint8_t {
  latch_equivalent,  ///< one committed payload, unchanged until the final validation
  consistent,        ///< one committed payload, perhaps no longer the newest
};

/// Whether an acquisition may take a latch over from a holder that seems dead (lease.h); else LatchError::holder_lost.
enum class Takeover : std::uint8_t { allowed, refused };

/// What a scheme needs besides a memory node.
enum class LatchPlace : std::uint8_t {
  memory_node,       ///< nothing
  words_at_switch,   ///< sessions with SessionOptions::latches
  tuples_at_switch,  ///< queue pairs that pass a switch with p4/switch_optimistic.p4:
                     ///< SessionOptions::versions_at_switch
};

class Scheme {
 public:
  Scheme() = default;
  Scheme(const Scheme&) = delete;
  Scheme& operator=(const Scheme&) = delete;
  virtual ~Scheme() = default;

  /// The scheme's name on the command line: "optimistic/two-read".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The data that a record holds beside its payload.
  [[nodiscard]] virtual RecordNeeds needs() const noexcept = 0;
  /// The layout to use by default.
  [[nodiscard]] virtual LayoutKind default_layout() const noexcept { return LayoutKind::padded; }
  [[nodiscard]] virtual LatchPlace place() const noexcept { return LatchPlace::memory_node; }
  /// The shape of a record with such a payload. Throws std::invalid_argument if the scheme cannot have that layout.
  [[nodiscard]] virtual RecordShape shape(std::uint64_t payload_bytes, LayoutKind kind) const;
  /// The largest payload of a record of at most `record_bytes`. Throws std::invalid_argument if not even one byte fits.
  [[nodiscard]] std::uint64_t largest_payload(std::uint64_t record_bytes, LayoutKind kind) const;
  /// The largest number of session buffers that does not hide the scheme's error; only specimens limit it.
  [[nodiscard]] virtual std::uint32_t most_buffers() const noexcept {
    return std::numeric_limits<std::uint32_t>::max();
  }

  /// Whether those who wait for its latch stand in a queue, which they cannot leave (TicketLatch, McsLatch). Such a
  /// latch has no leases, and a session with a deadline does not queue.
  [[nodiscard]] virtual bool queues() const noexcept { return false; }
  /// Whether its sessions need SessionOptions::peers.
  [[nodiscard]] virtual bool needs_peers() const noexcept { return false; }
  /// Whether a latch word says that the latch is free.
  [[nodiscard]] virtual bool is_free(std::uint64_t word) const noexcept { return word == 0; }
  /// The scheme for a record that is alone at its place, beside an array of this scheme's: itself, if it can be.
  [[nodiscard]] virtual const Scheme& for_single_records() const noexcept { return *this; }

  // All operations throw std::invalid_argument for an object that another scheme has shaped, and for a session that
  // lacks what the scheme needs: buffers that are large enough, or SessionOptions::latches, ::peers or
  // ::versions_at_switch; and LatchError::buffers_exhausted if guards hold all of the session's buffers.

  /// Latches the object exclusively and reads it. Empty: the deadline passed, and nothing is latched. Throws
  /// LatchError::takeover_refused, LatchError::held_by_self, FabricError.
  [[nodiscard]] fabric::Task<ExclusiveGuard> latch(Session& session, Object object,
                                                   std::source_location place = std::source_location::current()) const {
    require_own(object);
    return do_latch(session, object, place, Takeover::allowed);
  }
  /// Reads the object consistently. Empty: the deadline passed, and nothing is latched. Throws LatchError::holder_lost,
  /// FabricError.
  [[nodiscard]] fabric::Task<ReadGuard> begin_read(Session& session, Object object,
                                                   std::source_location place = std::source_location::current()) const {
    require_own(object);
    return do_begin_read(session, object, place);
  }

  /// The object's latch word (latch_word.h) as it is now; is_free() says whether it is free. Does not wait for a
  /// holder. Throws FabricError.
  [[nodiscard]] fabric::Task<std::uint64_t> peek_latch(Session& session, Object object) const {
    require_own(object);
    return do_peek(session, object);
  }

  /// Reads the object into `payload`, which has the record's payload_bytes, else std::invalid_argument; repeats until
  /// the read is accepted, or the deadline has passed. Throws as begin_read().
  [[nodiscard]] fabric::Task<ReadResult> read(Session& session, Object object, std::span<std::byte> payload,
                                              Semantics semantics = Semantics::latch_equivalent) const;
  /// Latches the object, lets `modify` change its payload, writes and unlatches. False: the deadline passed, and
  /// nothing has changed. If `modify` throws, the object is unlatched unchanged and the exception is passed on.
  /// update() cannot repair an object that a dead holder left half written, so it does not take over but throws
  /// LatchError::holder_lost; use latch() then. Throws LatchError::lease_expired if `modify` took longer than the lease
  /// allows, and FabricError.
  template <class Modify>
  [[nodiscard]] fabric::Task<bool> update(Session& session, Object object, Modify modify) const;

 protected:
  friend class ExclusiveGuard;
  friend class ReadGuard;
  friend class Session;

  /// Throws std::invalid_argument for an object of another scheme's shape.
  void require_own(const Object& object) const {
    if (object.shape->needs != needs_code_.load(std::memory_order_relaxed)) [[unlikely]] {
      check_own(object);
    }
  }
  void check_own(const Object& object) const;

  [[nodiscard]] virtual fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object,
                                                              std::source_location place, Takeover takeover) const = 0;
  [[nodiscard]] virtual fabric::Task<void> commit(Hold& hold) const = 0;
  [[nodiscard]] virtual fabric::Task<void> abort(Hold& hold) const = 0;
  [[nodiscard]] virtual fabric::Task<ReadGuard> do_begin_read(Session& session, Object object,
                                                              std::source_location place) const = 0;
  [[nodiscard]] virtual fabric::Task<bool> validate(Hold& hold) const = 0;
  [[nodiscard]] virtual fabric::Task<void> release(Hold& hold) const = 0;
  /// What became of a place in a queue that a failed operation has left.
  enum class Turn : std::uint8_t {
    over,     ///< the next one has its turn
    held,     ///< the session holds the latch, and gives it back by subtracting owed.word
    unknown,  ///< nobody can tell whether there is such a place
  };
  /// For a scheme that queues: waits for the turn of that place, and passes it on.
  [[nodiscard]] virtual fabric::Task<Turn> pass_on(Session& session, OwedLatch& owed) const;
  [[nodiscard]] virtual fabric::Task<std::uint64_t> do_peek(Session& session, Object object) const;

 private:
  mutable std::atomic<std::uint32_t> needs_code_{0};  // needs().code() after its first use
};

inline fabric::Task<void> ExclusiveGuard::commit() {
  if (!*this) [[unlikely]] {
    detail::throw_empty_guard("commit");
  }
  return end().commit(mutable_hold());
}

template <class Modify>
fabric::Task<bool> Scheme::update(Session& session, Object object, Modify modify) const {
  require_own(object);
  ExclusiveGuard guard = co_await do_latch(session, object, std::source_location::current(), Takeover::refused);
  if (!guard) {
    co_return false;
  }
  std::exception_ptr error;
  try {
    modify(guard.payload());
  } catch (...) {
    error = std::current_exception();
  }
  if (error) {
    co_await guard.abort();
    std::rethrow_exception(error);
  }
  co_await guard.commit();
  co_return true;
}

}  // namespace sidelatch::sync
