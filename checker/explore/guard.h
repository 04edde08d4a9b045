// Guard: whether a thread touches certain pages, told by page protection.
//
//   guard.close(0, pages);             // whole pages of which the explorer has the only use
//   task.resume();                     // its first access of them opens them
//   if (guard.open(0)) ...             // it has touched them
//
// A closed range has no access at all. The first access raises SIGSEGV; the handler notes it, opens the range and lets
// the access go on. If the access is of bytes that nobody asked about, the range is open for that one instruction only,
// after which the processor's trap flag raises SIGTRAP (on x86-64; elsewhere each access counts). Other signals go to
// the handler that was there before. A system call that is given a closed range
// fails with EFAULT, so a guard is closed for a program's own code only.
//
// Thread-safety: a guard belongs to one thread at a time, the one that closes and opens it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::explore {

class Guard {
 public:
  Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();

  /// Closes `pages` as range `number`, and forgets that it was touched. Where that fails, it counts as touched.
  void close(std::size_t number, std::span<std::byte> pages) noexcept { close(number, pages, pages); }
  /// The same where accesses of `bytes`, a part of the pages, count alone.
  void close(std::size_t number, std::span<std::byte> pages, std::span<const std::byte> bytes) noexcept;
  /// Opens range `number`; whether it was touched while it was closed.
  bool open(std::size_t number) noexcept;
  /// Whether nobody has touched range `number` since it was closed.
  [[nodiscard]] bool is_closed(std::size_t number) const noexcept {
    return number < ranges_.size() && ranges_[number].closed;
  }
  /// Opens all.
  void open() noexcept;

  /// While it lives, the ranges that are closed are open, and accesses of them do not count.
  class Pause {
   public:
    explicit Pause(Guard& guard) noexcept;
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    Guard* guard_;
  };

  /// While it lives, nothing is closed. So nothing counts as touched.
  class Rest {
   public:
    explicit Rest(Guard& guard) noexcept : guard_(&guard) { guard.rests_ = true; }
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;
    ~Rest() { guard_->rests_ = false; }

   private:
    Guard* guard_;
  };

  /// What an access of a closed range needs.
  enum class Entry : std::uint8_t {
    none,             ///< it is of no closed range
    open,             ///< the range is open now
    for_instruction,  ///< the same, until lock_up()
  };
  /// For the handler of SIGSEGV.
  static Entry let_in(const void* address) noexcept;
  /// For the handler of SIGTRAP: closes what was open for one instruction. False: nothing was.
  static bool lock_up() noexcept;

 private:
  struct Range {
    std::span<std::byte> pages{};
    std::span<const std::byte> bytes{};
    bool closed = false;
    bool touched = false;
    bool paused = false;
    bool lets_in = false;       // open for one instruction
    std::uint32_t entries = 0;  // how often it was
  };
  std::vector<Range> ranges_;
  std::size_t closed_ = 0;
  bool rests_ = false;
};

}  // namespace sidelatch::explore
