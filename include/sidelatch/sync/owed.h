// Owed latches: what a session must still give back, because the operation that latched it could not.
//
// An operation ends by a return or by an exception. What it has latched is given back in both cases:
//
//   guard ended by its user     commit(), abort(), validate() or release() unlatch
//   guard dropped by an         its destructor posts the unlatch; nobody waits for it. So it does when its task is
//   exception                   destroyed
//   queue pair failed           the session remembers the latch, and gives it back once the queue pair is ready again
//
// A session learns after a lost connection which of its latches it still holds from the latch word. That needs an owner
// id (lease.h), because the word of a session without one looks like everybody else's. Such a session gives back only
// what it held for certain; the rest is in doubt. docs/leases.md says what to expect.
//
// A task may be destroyed in the middle of an operation. What its requests have latched and what it has not given back
// is owed, too. As long as the connection lasts, the queue pair knows what its last requests have found
// (QueuePair::result_of).
//
// A commit that was under way is sent again, with the same bytes: nobody else has changed the object while the latch
// word shows that the session still holds it. So the object is whole afterwards, and the update has happened.
//
// Thread-safety: as the session.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/work_request.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sidelatch::sync {

class Scheme;

/// How a hold ends.
enum class UnlatchBy : std::uint8_t {
  subtraction,  ///< FETCH-ADD takes what the hold had added
  swap_apart,   ///< CAS of a word of SessionOptions::latches, through their queue pair (switch_latch.h)
  count_back,   ///< CAS of a version from odd to the even one before (switched_version.h)
};

/// A latch that a session held, or may hold.
struct OwedLatch {
  struct Write {
    fabric::RemoteSpan to;
    std::vector<std::byte> bytes;
  };
  fabric::RemoteSpan latch{};
  std::uint64_t word = 0;  ///< the number that the acquisition added to the latch word
  bool certain = false;    ///< the session held it when the queue pair failed, and has posted no unlatch
  /// What the unlatch leaves instead of a free latch: the word of a dead holder, if it may have left the object half
  /// written and nobody has repaired it since. Any client can then take it over.
  std::uint64_t inherited = 0;
  UnlatchBy by = UnlatchBy::subtraction;
  bool free_by_write = false;    ///< the last WRITE unlatches
  std::vector<Write> writes{};   ///< of the commit that was under way
  fabric::RemoteSpan version{};  ///< a version that the commit counts up; no bytes: none
  std::uint64_t version_before = 0;
  /// The request that latches or unlatches, whose outcome nobody has seen. The queue pair knows it for a while.
  struct Asked {
    fabric::Posting posting{};
    std::uint64_t number = 0;    ///< of the request; 0: it is the last of its chain
    std::uint64_t expected = 0;  ///< what a CAS compares with
  };
  Asked asked{};
  /// Of a latch with a queue, whose scheme brings the place in it to its end (Scheme::pass_on); else null.
  const Scheme* queue = nullptr;
  std::uint64_t turn = 0;         ///< the scheme's number of the place; 0: it may have one
  std::uint64_t predecessor = 0;  ///< McsLatch: of whom the turn is waited for
  std::uint64_t successor = 0;    ///< McsLatch: who gets the turn
  bool followed = false;          ///< McsLatch: the predecessor knows
};

/// What a session could not bring to its end.
struct LostWork {
  std::uint64_t unlatches = 0;  ///< asynchronous unlatches, with their updates, that are not known to have happened
  std::uint64_t latches = 0;    ///< latches that the session holds or may hold
  [[nodiscard]] constexpr bool nothing() const noexcept { return unlatches == 0 && latches == 0; }
};
using LostWorkHandler = void (*)(const LostWork&);
/// The default handler: prints one line to standard error.
void report_lost_work(const LostWork& lost);

/// Asynchronous unlatches that may still be under way, oldest first; for sessions.
class Unlatches {
 public:
  struct Entry {
    std::uint64_t sequence = 0;  ///< of the unlatch, on the queue pair
    std::uint64_t word = 0;
    fabric::RemoteAddress latch;
    fabric::RKey rkey;
  };
  /// The commit that the unlatch ends; kept in sessions with a lease only.
  struct Commit {
    std::uint32_t writes = 0;
    bool free_by_write = false;
    std::uint64_t inherited = 0;
    fabric::WorkRequest write[2];
    fabric::RemoteSpan version{};
    std::uint64_t version_before = 0;
  };

  [[nodiscard]] bool empty() const noexcept { return first_ == end_; }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - first_; }
  /// Forgets what has completed.
  void prune(std::uint64_t completed) noexcept {
    while (first_ != end_ && ring_[first_ & mask_].sequence <= completed) {
      ++first_;
    }
  }
  [[nodiscard]] bool full() const noexcept { return end_ - first_ > mask_; }
  void grow();
  /// A new entry, to be filled; there must be room.
  [[nodiscard]] Entry& push() noexcept { return ring_[end_++ & mask_]; }
  [[nodiscard]] const Entry& front() const noexcept { return ring_[first_ & mask_]; }
  void pop() noexcept { ++first_; }
  /// Of the entry that was pushed last.
  [[nodiscard]] Commit& new_commit() {
    commits_.resize(mask_ + 1);
    return commits_[(end_ - 1) & mask_];
  }
  [[nodiscard]] const Commit& front_commit() const noexcept { return commits_[first_ & mask_]; }

 private:
  static constexpr std::size_t kFirstRoom = 8;
  std::unique_ptr<Entry[]> ring_ = std::make_unique<Entry[]>(kFirstRoom);
  std::size_t mask_ = kFirstRoom - 1;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  std::vector<Commit> commits_;
};

/// The bytes of a WRITE, to be sent again.
[[nodiscard]] OwedLatch::Write copy_of(const fabric::WorkRequest& write);

}  // namespace sidelatch::sync
