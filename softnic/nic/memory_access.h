// MemoryAccess: the only way in which packets reach registered memory. The implementation decides when and in which
// order lines are read and written. The NIC checks before each call whether the memory may be touched.
//
//   memory.place(source, to, payload);               // a packet of a WRITE or a SEND
//   memory.sample(source, from, into, operation);    // a packet of a READ's answer: wait for operation.done
//   memory.atomic(source, word, step, operation);
//   memory.receive(source, operation);               // done once everything that the queue pair has placed is there
//                                                    // (and, with a key, all that it has begun is over)
//
// An implementation may do everything at once (ImmediateAccess), or later, in any order that the memory model allows
// (docs/memory-model.md; DeferredAccess). A responder answers in the order of its requests and waits for unfinished
// operations. Requests of one queue pair arrive in posting order. The initiator does its own waiting (rule 6, a fence;
// rule 1), which needs nothing here.
//
// The program may have unmapped memory too early (gone_pages.h). An access at once then returns the address that cannot
// be touched, or its operation has it. One that is carried out later fails its operation, or next_gone_place() tells of
// it. Other parts of the packet may have been touched.
//
// A call returns without waiting. advance() sets `now`; it is called before any other call of that time.
//
// Thread-safety: the calls come from the NIC's thread. Operation::done may be set by another thread.
#pragma once

#include "nic_time.h"

#include <sidelatch/fabric/model/rules.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sidelatch::softnic::nic {

/// The request on whose behalf memory is touched.
struct AccessSource {
  std::uint32_t queue_pair = 0;  ///< the responder's number; rule 5 orders requests with the same number
  std::uint64_t message = 0;     ///< counts the queue pair's requests; packets of one request have the same number
  fabric::model::Kind kind = fabric::model::Kind::write;
  std::uint32_t key = 0;  ///< of the region
};

/// A packet that could not be placed later, because a page is gone.
struct GonePlace {
  AccessSource source;
  const std::byte* gone = nullptr;
};

/// The effect of an atomic on its word.
struct AtomicStep {
  bool is_compare_swap = false;
  std::uint64_t compare = 0;
  std::uint64_t swap_or_add = 0;
  bool is_swap = false;  ///< ATOMIC WRITE: stores `swap_or_add`

  friend bool operator==(const AtomicStep&, const AtomicStep&) = default;
};

/// Applies it to memory that the CPU's threads use too; returns the old value, or nothing if the page is gone.
[[nodiscard]] std::optional<std::uint64_t> apply_shared(std::byte* word, const AtomicStep& step) noexcept;

/// An operation that the responder waits for. It must not move until it is done or its queue pair has ended.
struct Operation {
  std::atomic<bool> done = false;   ///< set last, with release
  bool failed = false;              ///< its region ended first, or a page is gone; nothing was delivered
  const std::byte* gone = nullptr;  ///< if a page is gone
  std::uint64_t original = 0;       ///< the old value of an atomic's word

  void begin() noexcept {
    done.store(false, std::memory_order_relaxed);
    failed = false;
    gone = nullptr;
  }
  [[nodiscard]] bool is_done() const noexcept { return done.load(std::memory_order_acquire); }
  void finish() noexcept { done.store(true, std::memory_order_release); }
  /// `where`: the address whose page is gone; nullptr: the region has ended.
  void fail(const std::byte* where) noexcept {
    failed = true;
    gone = where;
    finish();
  }
};

class MemoryAccess {
 public:
  MemoryAccess() = default;
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
  virtual ~MemoryAccess() = default;

  /// Whether every operation is done when the call that began it returns.
  [[nodiscard]] virtual bool is_immediate() const noexcept = 0;
  /// Whether a WRITE or SEND is acknowledged only when it is placed (preset strict), not when it has arrived (rule 2).
  [[nodiscard]] virtual bool acknowledges_placed() const noexcept { return false; }

  /// `bytes` are valid only during the call. Nullptr, or the address whose page is gone.
  [[nodiscard]] virtual const std::byte* place(const AccessSource& source, std::byte* to,
                                               std::span<const std::byte> bytes) = 0;
  /// `into` must stay valid until the operation is done.
  virtual void sample(const AccessSource& source, const std::byte* from, std::span<std::byte> into,
                      Operation& operation) = 0;
  /// `word` is a multiple of 8.
  virtual void atomic(const AccessSource& source, std::byte* word, const AtomicStep& step, Operation& operation) = 0;
  /// Done once everything that the queue pair has placed before is in memory ("SEND and receive"). A key in `source`
  /// says that the SEND ends this window: then READs and atomics that have begun before are over, too.
  virtual void receive(const AccessSource& source, Operation& operation) = 0;
  /// Reports that an answer was sent which completes everything that the queue pair has placed so far. READs and
  /// atomics of any queue pair that arrive later see it (rule 2).
  virtual void acknowledged(std::uint32_t queue_pair) = 0;

  /// Reads buffers of the NIC's own requests, and writes their answers there. Always done at once. Nullptr, or the
  /// address whose page is gone.
  [[nodiscard]] virtual const std::byte* fetch(std::span<std::byte> into, const std::byte* from);
  [[nodiscard]] virtual const std::byte* deliver(std::byte* to, std::span<const std::byte> bytes);

  /// Ends all accesses of the queue pair; its operations are forgotten and may be destroyed (rule 10).
  virtual void end_queue_pair(std::uint32_t queue_pair) = 0;
  /// Ends all accesses to the region; operations on it fail.
  virtual void end_region(std::uint32_t key) = 0;

  /// Takes the steps due at `now`, which becomes the time of the following calls. True if an operation became done.
  virtual bool advance(Time now) = 0;
  /// When advance() must be called next.
  [[nodiscard]] virtual Time next_deadline() const noexcept = 0;
  /// Takes out the oldest packet that advance() could not place.
  [[nodiscard]] virtual std::optional<GonePlace> next_gone_place() { return std::nullopt; }
};

/// Does everything at once, in the calling thread. Lines ascend, words of 8 bytes are whole, and atomics are atomic for
/// the CPU's threads too (rule 8, atomic_scope = global).
class ImmediateAccess final : public MemoryAccess {
 public:
  [[nodiscard]] bool is_immediate() const noexcept override { return true; }
  [[nodiscard]] const std::byte* place(const AccessSource& source, std::byte* to,
                                       std::span<const std::byte> bytes) override;
  void sample(const AccessSource& source, const std::byte* from, std::span<std::byte> into,
              Operation& operation) override;
  void atomic(const AccessSource& source, std::byte* word, const AtomicStep& step, Operation& operation) override;
  void receive(const AccessSource& source, Operation& operation) override;
  void acknowledged(std::uint32_t /*queue_pair*/) override {}
  void end_queue_pair(std::uint32_t /*queue_pair*/) override {}
  void end_region(std::uint32_t /*key*/) override {}
  bool advance(Time /*now*/) override { return false; }
  [[nodiscard]] Time next_deadline() const noexcept override { return kNever; }
};

}  // namespace sidelatch::softnic::nic
