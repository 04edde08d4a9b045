// Guards: an object that is being read or changed.
//
//   ExclusiveGuard guard = co_await scheme.latch(session, object);
//   if (!guard) ...                                   // the deadline passed; nothing is latched
//   change(guard.payload());                          // a private copy
//   co_await guard.commit();                          // write it and unlatch, or abort(): only unlatch
//
//   ReadGuard seen = co_await scheme.begin_read(session, object);
//   use(seen.payload());
//   const bool unchanged = co_await seen.validate();  // or release(): no matter whether it changed since
//
// An empty guard throws std::logic_error from payload() and from each call that ends it. Do not move a guard until the
// call that ends it has returned. End a guard that holds a latch by commit(), abort(), validate() or release(). A guard
// that is dropped by an exception, or because its task is destroyed, gives its latch back: the object stays unchanged.
// Dropping it otherwise is an error (see SessionOptions::dropped_guard). After one of these calls the guard is empty,
// even if the call fails. After a FabricError from the call the object's state is unknown until the connection is back;
// the session then ends what the call began (owed.h).
//
// Thread-safety: a guard belongs to its session's task. The session, the object's array and the scheme must outlive it.
#pragma once

#include <sidelatch/sync/session.h>

#include <cstdint>
#include <exception>
#include <source_location>
#include <span>
#include <utility>

namespace sidelatch::sync {

class Scheme;

namespace detail {
[[noreturn]] void throw_empty_guard(const char* call);
}  // namespace detail

/// The state behind a guard, on which schemes work.
struct Hold {
  const Scheme* scheme = nullptr;  ///< null: nothing is held
  Session* session = nullptr;
  Object object{};
  ObjectBuffer buffer{};
  std::uint64_t word = 0;  ///< the number that this hold added to the latch word; 0 if it holds no latch
  fabric::Time since{};    ///< when the latch was asked for
  std::uint64_t version = 0;
  std::uint64_t inherited = 0;    ///< the dead holder's word that was in the latch before; 0: none
  const Scheme* queue = nullptr;  ///< of a latch with a queue
  std::uint64_t turn = 0;         ///< its number of the place in the queue; 0: none yet
  UnlatchBy unlatch_by = UnlatchBy::subtraction;
  std::source_location place{};

  [[nodiscard]] fabric::QueuePair& qp() const { return session->qp(); }
};

class GuardBase {
 public:
  GuardBase(const GuardBase&) = delete;
  GuardBase& operator=(const GuardBase&) = delete;

  [[nodiscard]] explicit operator bool() const noexcept { return hold_.scheme != nullptr; }
  /// The object's version when it was read; 0 for schemes without versions.
  [[nodiscard]] std::uint64_t version() const noexcept { return hold_.version; }
  [[nodiscard]] const Object& object() const noexcept { return hold_.object; }

 protected:
  GuardBase() noexcept = default;
  explicit GuardBase(Hold&& hold) noexcept : hold_(std::move(hold)) {}
  GuardBase(GuardBase&& other) noexcept : hold_(other.take()) {}
  GuardBase& operator=(GuardBase&& other) noexcept {
    if (this != &other) {
      drop();
      hold_ = other.take();
    }
    return *this;
  }
  ~GuardBase() { drop(); }

  [[nodiscard]] const Hold& hold() const noexcept { return hold_; }
  [[nodiscard]] Hold& mutable_hold() noexcept { return hold_; }
  /// Throws std::logic_error if there is no copy of a payload.
  void require_buffer() const {
    if (!hold_.buffer.valid()) [[unlikely]] {
      detail::throw_empty_guard("payload");
    }
  }
  /// Marks the guard as empty; the hold itself stays until its scheme is done with it.
  [[nodiscard]] const Scheme& end() noexcept { return *std::exchange(hold_.scheme, nullptr); }
  [[nodiscard]] Hold take() noexcept {
    Hold taken = std::move(hold_);
    hold_.scheme = nullptr;
    return taken;
  }

 private:
  void drop() noexcept {
    if (hold_.scheme != nullptr && hold_.word != 0 && !hold_.qp().reactor().abandons_tasks()) {
      if (std::uncaught_exceptions() > 0 || fabric::destroys_a_task()) {
        hold_.session->release_dropped(hold_);
      } else {
        hold_.session->options().dropped_guard({hold_.place, hold_.object.latch().address});
      }
    }
    hold_.scheme = nullptr;
  }

  Hold hold_;
};

/// An object latched exclusively, and a copy of its payload.
class [[nodiscard]] ExclusiveGuard : public GuardBase {
 public:
  ExclusiveGuard() noexcept = default;
  explicit ExclusiveGuard(Hold&& hold) noexcept : GuardBase(std::move(hold)) {}

  /// The payload at the time of latching, to be changed in place.
  [[nodiscard]] std::span<std::byte> payload() {
    require_buffer();
    return hold().buffer.payload();
  }
  /// Whether the latch was taken over from a holder that died. The payload may then be half written: repair and commit
  /// it.
  [[nodiscard]] bool inherited() const noexcept { return hold().inherited != 0; }

  /// Whether the lease has expired, so that commit() would write nothing. Who works for long under a latch asks now and
  /// then, and ends the guard before others take the client for dead.
  [[nodiscard]] bool lease_expired() const;
  /// Writes the payload and unlatches. If the lease has expired, writes nothing and throws LatchError::lease_expired.
  [[nodiscard]] fabric::Task<void> commit();
  /// Unlatches and leaves the object unchanged. For an inherited object, keeps the guard and throws
  /// LatchError::torn_takeover. If an exception then drops the guard, the latch is the dead holder's again.
  [[nodiscard]] fabric::Task<void> abort();

  /// For schemes: takes the hold out of the guard.
  [[nodiscard]] Hold release_hold() noexcept { return take(); }
  /// For schemes: the hold, which the scheme completes.
  [[nodiscard]] Hold& hold_of_scheme() noexcept { return mutable_hold(); }
};

/// A consistent copy of the payload of an object that was read.
class [[nodiscard]] ReadGuard : public GuardBase {
 public:
  ReadGuard() noexcept = default;
  explicit ReadGuard(Hold&& hold, bool fresh = false) noexcept : GuardBase(std::move(hold)), fresh_(fresh) {}

  [[nodiscard]] std::span<const std::byte> payload() const {
    require_buffer();
    return hold().buffer.payload();
  }
  /// Whether the scheme's last step was a validation, so that another one now would show nothing new.
  [[nodiscard]] bool fresh() const noexcept { return fresh_; }

  /// Ends the read: true if the object has not changed since. Under a latch it cannot change, and this call unlatches.
  [[nodiscard]] fabric::Task<bool> validate();
  /// Ends the read without validation: an optimistic scheme sends no message, a latch is unlatched.
  [[nodiscard]] fabric::Task<void> release();

 private:
  bool fresh_ = false;
};

}  // namespace sidelatch::sync
