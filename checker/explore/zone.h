// Zone: the heap of a program under exploration. While a program is built or run, operator new and the frames of its
// coroutines come from here. So the explorer can look at everything that a client has: coroutines have no stack of
// their own, and between two steps all that a client knows lies in frames, in what they own on the heap, in registered
// memory and in the fabric's objects.
//
//   Zone zone;
//   {
//     const Zone::Use use(&zone);       // this thread's allocations now come from the zone
//     program(world);
//     const Zone::Use pause(nullptr);   // the explorer's own do not
//   }
//   for (const Zone::Block& block : zone.reachable(frame)) compare(block.bytes);
//
// New blocks are zeroed, and blocks are reused last in, first out: an attempt that frees what it takes finds the same
// addresses and the same bytes the next time.
//
// zone.cpp replaces the global operator new and operator delete. Without a zone they are malloc() and free(). A program
// may have its own all the same; it cannot explore then.
//
// Thread-safety: a zone is used by one thread at a time; any thread may delete its blocks while no other uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sidelatch::explore {

class Zone {
 public:
  /// Throws std::runtime_error if there is no address space left for it, and std::logic_error if the process has an
  /// operator new of its own.
  Zone();
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
  /// Blocks that are still in use stay: something that outlives the program's runs owns them (a static object).
  ~Zone();

  /// While it lives, the thread allocates from the zone; null: from malloc().
  class Use {
   public:
    explicit Use(Zone* zone) noexcept;
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

   private:
    Zone* before_;
    bool unpooled_before_;
  };

  /// All blocks are free again, except those that something else still owns.
  void reset() noexcept;

  [[nodiscard]] std::uint64_t live_blocks() const noexcept { return live_; }
  /// The live block that holds the address, or an empty span.
  [[nodiscard]] std::span<const std::byte> block_at(const void* address) const noexcept;
  /// A number that changes when the block that holds the address is taken again; 0 if there is none.
  [[nodiscard]] std::uint32_t life_at(const void* address) const noexcept;
  /// Replaces `out` by the live blocks that can be reached from those that hold `roots`: a word that is the address of
  /// a byte of a block is taken for a pointer to it. In an order that depends on their contents alone.
  /// Not the blocks that hold `not_through`, and what they alone lead to.
  void reachable(std::span<const void* const> roots, std::vector<std::span<const std::byte>>& out,
                 std::span<const void* const> not_through = {}) const;

  // For the canonical form of a program's state (execution_state.cpp).

  /// The blocks that are live now are the program's fixed parts: it makes them at the same places each time.
  void fix_live_blocks() noexcept;
  struct View {
    std::uint32_t number = kNone;  ///< kNone: the address is in no live block
    std::uint64_t offset = 0;      ///< of the block in the zone
    std::uint64_t bytes = 0;
    bool fixed = false;  ///< live since fix_live_blocks()
  };
  static constexpr std::uint32_t kNone = 0xffff'ffff;
  [[nodiscard]] bool holds(std::uintptr_t address) const noexcept {
    return address - reinterpret_cast<std::uintptr_t>(base_) < used_ + kGrain;
  }
  /// The live block that holds the address, or ends there.
  [[nodiscard]] View view_at(std::uintptr_t address) const noexcept;
  /// Block `number`, if it is live.
  [[nodiscard]] View view(std::uint32_t number) const noexcept;
  [[nodiscard]] std::uint32_t block_count() const noexcept { return static_cast<std::uint32_t>(blocks_.size()); }
  [[nodiscard]] const std::byte* base() const noexcept { return base_; }

  // For Guard, which needs pages.

  /// From the next reset() on, the `n`th block that is taken has pages of its own, for each `n` in `numbers` (from 1).
  void set_apart(std::vector<std::uint32_t> numbers) { apart_ = std::move(numbers); }
  /// The number of the block's taking since reset(); 0 if the address is in no live block.
  [[nodiscard]] std::uint32_t taken_as(const void* address) const noexcept;
  /// The pages of the block that holds the address, if it has pages of its own; else an empty span.
  [[nodiscard]] std::span<std::byte> own_pages(const void* address) noexcept;

  // For operator new and operator delete.
  [[nodiscard]] void* take(std::size_t bytes, std::size_t alignment);
  /// False if the address is in no zone.
  static bool give_back(void* block) noexcept;
  [[nodiscard]] static Zone* current() noexcept;
  /// What require_own_operators() sets as the current zone, and how operator new answers.
  [[nodiscard]] static Zone* asked() noexcept;
  static void answer() noexcept;

 private:
  /// Throws std::logic_error if the process has replaced operator new.
  static void require_own_operators();
  struct Block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool live = false;
    bool fixed = false;
    std::uint32_t life = 0;
    std::uint32_t next_free = kNone;
    std::uint32_t taken_as = 0;
    bool apart = false;
  };
  static constexpr std::size_t kGrain = 16;
  static constexpr std::size_t kLargestClass = 4096;
  static constexpr std::size_t kPage = 4096;

  void free_block(void* block) noexcept;
  [[nodiscard]] std::uint32_t index_at(const void* address) const noexcept;

  std::byte* base_ = nullptr;
  std::uint64_t used_ = 0;
  std::uint64_t live_ = 0;
  std::vector<Block> blocks_;  // by offset
  std::array<std::uint32_t, kLargestClass / kGrain + 1> free_{};
  std::vector<std::uint32_t> free_large_;
  std::vector<std::uint32_t> apart_;
  std::uint32_t taken_ = 0;
  mutable std::vector<std::uint32_t> marks_;
  mutable std::uint32_t mark_ = 0;
};

}  // namespace sidelatch::explore
