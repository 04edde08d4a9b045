#include "zone.h"

#include "common/sanitizers.h"

#include <sidelatch/fabric/frame_pool.h>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#if SIDELATCH_HAS_ASAN
// Its runtime's option detect_stack_use_after_return: what each function looks at before it moves its frame off the
// stack. NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __asan_option_detect_stack_use_after_return __attribute__((weak));
#endif

namespace sidelatch::explore {

namespace {

// Zones lie side by side in one reservation, so that one comparison tells a zone's block from malloc's.
constexpr std::uint64_t kZoneBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kZones = 1024;

constinit std::atomic<std::byte*> reservation{nullptr};

struct Slot {
  Zone* zone = nullptr;
  bool taken = false;
};

struct Slots {
  std::mutex mutex;
  std::array<Slot, kZones> all;
};

// Never destroyed: static objects may give their blocks back later than anything else.
Slots& slots() {
  static Slots* const kSlots = [] { return ::new (std::malloc(sizeof(Slots))) Slots(); }();
  return *kSlots;
}

constinit thread_local Zone* current_zone = nullptr;
constinit thread_local bool answered = false;  // operator new was asked whether it is the one of this file

std::uint64_t slot_of(const void* address) noexcept {
  const std::byte* const begin = reservation.load(std::memory_order_relaxed);
  if (begin == nullptr) {
    return kZones;
  }
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(begin);
  return offset < kZoneBytes * kZones ? offset / kZoneBytes : kZones;
}

struct Header {
  std::uint32_t index;
  std::uint32_t unused;
  std::uint64_t also_unused;
};
static_assert(sizeof(Header) == 16);

// While it lives, the thread allocates from malloc(): for what a zone itself needs.
class Pause {
 public:
  Pause() noexcept : before_(std::exchange(current_zone, nullptr)) {}
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
  ~Pause() { current_zone = before_; }

 private:
  Zone* before_;
};

// Objects that are copied have bytes that nobody has set: padding, the place of a value that an optional has not. Such
// bytes come from whatever was on the stack before, and end up in frames. A program that does the same must find the
// same there, so the stack is cleared where the program's code begins, deeper than its steps usually go. And it must be
// the stack: AddressSanitizer moves no more frames of the process off it.
[[gnu::noinline, gnu::no_sanitize_address]] void clear_stack_below() noexcept {
  constexpr std::size_t kBytes = 8192;
  std::array<std::byte, kBytes> below;
  std::memset(below.data(), 0, below.size());
  asm volatile("" : : "r"(below.data()) : "memory");
}

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

// ---- A zone's memory.

Zone::Zone() {
  require_own_operators();
#if SIDELATCH_HAS_ASAN
  if (&__asan_option_detect_stack_use_after_return != nullptr) {
    __asan_option_detect_stack_use_after_return = 0;
  }
#endif
  free_.fill(kNone);
  Slots& all = slots();
  const std::scoped_lock lock(all.mutex);
  std::byte* begin = reservation.load();
  if (begin == nullptr) {
    void* const memory =
        ::mmap(nullptr, kZoneBytes * kZones, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error(
          fmt::format("the explorer cannot reserve {} GiB of addresses for the programs that it "
                      "runs: raise the limit (ulimit -v)",
                      kZoneBytes * kZones >> 30));
    }
    begin = static_cast<std::byte*>(memory);
    reservation.store(begin);
  }
  const auto free = std::ranges::find(all.all, false, &Slot::taken);
  if (free == all.all.end()) {
    throw std::runtime_error(
        fmt::format("the explorer has no heap left for another program: {} of them ended with "
                    "objects that something outside still owns",
                    kZones));
  }
  base_ = begin + static_cast<std::uint64_t>(free - all.all.begin()) * kZoneBytes;
  if (::mprotect(base_, kZoneBytes, PROT_READ | PROT_WRITE) != 0) {
    throw std::runtime_error("the explorer cannot map the heap of a program");
  }
  *free = {this, true};
}

Zone::~Zone() {
  Slots& all = slots();
  const std::scoped_lock lock(all.mutex);
  Slot& slot = all.all.at(slot_of(base_));
  slot.zone = nullptr;
  if (live_ == 0) {
    ::madvise(base_, used_, MADV_DONTNEED);
    slot.taken = false;
  }
}

void Zone::reset() noexcept {
  taken_ = 0;
  if (live_ != 0) {
    return;  // what is left keeps its place; the next blocks come after it, or reuse what is free
  }
  for (const Block& block : blocks_) {
    std::memset(base_ + block.offset - sizeof(Header), 0, sizeof(Header));
  }
  blocks_.clear();
  free_.fill(kNone);
  free_large_.clear();
  used_ = 0;
}

void* Zone::take(std::size_t bytes, std::size_t alignment) {
  const Pause pause;
  const std::size_t size = std::max<std::size_t>(round_up(bytes, kGrain), kGrain);
  const bool has_class = size <= kLargestClass && alignment <= kGrain;
  const bool apart = std::ranges::find(apart_, ++taken_) != apart_.end();
  std::uint32_t index = kNone;
  if (apart) {
    alignment = std::max(alignment, kPage);
  } else if (has_class) {
    index = free_[size / kGrain];
    if (index != kNone) {
      free_[size / kGrain] = blocks_[index].next_free;
    }
  } else {
    const auto found = std::find_if(free_large_.rbegin(), free_large_.rend(), [&](std::uint32_t candidate) {
      return blocks_[candidate].bytes == size &&
             reinterpret_cast<std::uintptr_t>(base_ + blocks_[candidate].offset) % alignment == 0;
    });
    if (found != free_large_.rend()) {
      index = *found;
      free_large_.erase(std::next(found).base());
    }
  }
  if (index == kNone) {
    const std::uint64_t offset = round_up(used_ + sizeof(Header), std::max(alignment, kGrain));
    if (size > kZoneBytes || offset + size > kZoneBytes) {
      throw std::length_error(fmt::format(
          "a program that is explored may use {} MiB of heap; {} bytes more were asked for", kZoneBytes >> 20, bytes));
    }
    used_ = apart ? round_up(offset + size, kPage) : offset + size;
    index = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back({offset, size, false, false, 0, kNone, 0, apart});
    ::new (base_ + offset - sizeof(Header)) Header{index, 0, 0};
  }
  blocks_[index].live = true;
  blocks_[index].fixed = false;
  blocks_[index].taken_as = taken_;
  ++blocks_[index].life;
  ++live_;
  return base_ + blocks_[index].offset;
}

void Zone::free_block(void* block) noexcept {
  Header header{};
  std::memcpy(&header, static_cast<std::byte*>(block) - sizeof(Header), sizeof header);
  if (header.index >= blocks_.size() || base_ + blocks_[header.index].offset != block || !blocks_[header.index].live) {
    return;
  }
  Block& freed = blocks_[header.index];
  std::memset(block, 0, freed.bytes);
  freed.live = false;
  --live_;
  if (freed.bytes <= kLargestClass && freed.offset % kGrain == 0) {
    freed.next_free = std::exchange(free_[freed.bytes / kGrain], header.index);
  } else {
    const Pause pause;
    free_large_.push_back(header.index);
  }
}

bool Zone::give_back(void* block) noexcept {
  const std::uint64_t number = slot_of(block);
  if (number == kZones) {
    return false;
  }
  // A block of a zone that has ended keeps its memory: too little is left to be worth more.
  Zone* const zone = slots().all[number].zone;
  if (zone != nullptr) {
    zone->free_block(block);
  }
  return true;
}

Zone* Zone::current() noexcept { return current_zone; }

// Not a zone: asks operator new whether it is the one of this file.
Zone* Zone::asked() noexcept {
  alignas(Zone) static std::array<std::byte, sizeof(Zone)> place;
  return reinterpret_cast<Zone*>(place.data());
}

void Zone::answer() noexcept { answered = true; }

void Zone::require_own_operators() {
  answered = false;
  const auto is_ours = [](auto ask) {
    answered = false;
    ask();
    return answered;
  };
  bool plain = false;
  bool aligned = false;
  {
    const Use use(asked());
    constexpr std::align_val_t kAlignment{64};
    plain = is_ours([] { ::operator delete[](::operator new[](1)); });
    aligned = is_ours([] { ::operator delete[](::operator new[](1, kAlignment), kAlignment); });
  }
  if (!plain || !aligned) {
    throw std::logic_error(
        "the explorer looks at all memory of the programs that it runs, and this process has an operator new of its "
        "own "
        "(or an allocator's): link the test without it");
  }
}

Zone::Use::Use(Zone* zone) noexcept
    : before_(std::exchange(current_zone, zone)), unpooled_before_(fabric::FramePool::unpooled()) {
  fabric::FramePool::set_unpooled(zone != nullptr || unpooled_before_);
  if (zone != nullptr) {
    clear_stack_below();
  }
}

Zone::Use::~Use() {
  current_zone = before_;
  fabric::FramePool::set_unpooled(unpooled_before_);
  if (before_ != nullptr) {
    clear_stack_below();
  }
}

// ---- Looking.

// The end of a block leads to it, as a pointer to its elements that counts down from there. It is no place of another
// block: that one's header comes first.
std::uint32_t Zone::index_at(const void* address) const noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_);
  if (offset > used_) {
    return kNone;
  }
  const auto after = std::ranges::upper_bound(blocks_, offset, {}, &Block::offset);
  if (after == blocks_.begin()) {
    return kNone;
  }
  const Block& block = *std::prev(after);
  return block.live && offset <= block.offset + block.bytes ? static_cast<std::uint32_t>(after - blocks_.begin() - 1)
                                                            : kNone;
}

void Zone::fix_live_blocks() noexcept {
  for (Block& block : blocks_) {
    block.fixed = block.live;
  }
}

Zone::View Zone::view(std::uint32_t number) const noexcept {
  const Block& block = blocks_[number];
  return block.live ? View{number, block.offset, block.bytes, block.fixed} : View{};
}

Zone::View Zone::view_at(std::uintptr_t address) const noexcept {
  const std::uint32_t index = index_at(base_ + (address - reinterpret_cast<std::uintptr_t>(base_)));
  return index == kNone ? View{} : view(index);
}

std::span<const std::byte> Zone::block_at(const void* address) const noexcept {
  const std::uint32_t index = index_at(address);
  return index == kNone ? std::span<const std::byte>{}
                        : std::span<const std::byte>{base_ + blocks_[index].offset, blocks_[index].bytes};
}

std::uint32_t Zone::life_at(const void* address) const noexcept {
  const std::uint32_t index = index_at(address);
  return index == kNone ? 0 : blocks_[index].life;
}

std::uint32_t Zone::taken_as(const void* address) const noexcept {
  const std::uint32_t index = index_at(address);
  return index == kNone ? 0 : blocks_[index].taken_as;
}

std::span<std::byte> Zone::own_pages(const void* address) noexcept {
  const std::uint32_t index = index_at(address);
  return index == kNone || !blocks_[index].apart
             ? std::span<std::byte>{}
             : std::span<std::byte>{base_ + blocks_[index].offset, round_up(blocks_[index].bytes, kPage)};
}

void Zone::reachable(std::span<const void* const> roots, std::vector<std::span<const std::byte>>& out,
                     std::span<const void* const> not_through) const {
  out.clear();
  marks_.resize(blocks_.size(), 0);
  ++mark_;
  for (const void* const address : not_through) {
    const std::uint32_t index = index_at(address);
    if (index != kNone) {
      marks_[index] = mark_;
    }
  }
  const auto add = [&](const void* address) {
    const std::uint32_t index = index_at(address);
    if (index != kNone && marks_[index] != mark_) {
      marks_[index] = mark_;
      out.emplace_back(base_ + blocks_[index].offset, blocks_[index].bytes);
    }
  };
  for (const void* const root : roots) {
    add(root);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {  // NOLINT(modernize-loop-convert): it grows in the loop
    const std::span<const std::byte> block = out[i];
    for (std::size_t at = 0; at + sizeof(void*) <= block.size(); at += sizeof(void*)) {
      std::uintptr_t word = 0;
      std::memcpy(&word, block.data() + at, sizeof word);
      if (word - reinterpret_cast<std::uintptr_t>(base_) < used_) {
        add(std::bit_cast<const void*>(word));
      }
    }
  }
}

}  // namespace sidelatch::explore

// ---- The global operators.

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  sidelatch::explore::Zone* const zone = sidelatch::explore::Zone::current();
  if (zone != nullptr) [[unlikely]] {
    if (zone != sidelatch::explore::Zone::asked()) {
      return zone->take(bytes, alignment);
    }
    sidelatch::explore::Zone::answer();
  }
  for (;;) {
    void* const block = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                            ? std::malloc(bytes == 0 ? 1 : bytes)
                            : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (block != nullptr) [[likely]] {
      return block;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) {
      throw std::bad_alloc();
    }
    handler();
  }
}

void release(void* block) noexcept {
  if (block != nullptr && !sidelatch::explore::Zone::give_back(block)) [[likely]] {
    std::free(block);
  }
}

}  // namespace

// Weak, and made of each other as the standard library's are: a program that has its own gets those, and the explorer
// refuses to run in it (require_own_operators).
// NOLINTBEGIN(misc-new-delete-overloads)
#if defined(__clang__) && SIDELATCH_IS_SANITIZED
#define SIDELATCH_WEAK  // clang's sanitizers have weak ones of their own, which come first
#else
#define SIDELATCH_WEAK __attribute__((weak))
#endif
SIDELATCH_WEAK void* operator new(std::size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
SIDELATCH_WEAK void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
SIDELATCH_WEAK void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
SIDELATCH_WEAK void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return ::operator new(bytes, alignment);
}
SIDELATCH_WEAK void operator delete(void* block) noexcept { release(block); }
SIDELATCH_WEAK void operator delete[](void* block) noexcept { ::operator delete(block); }
SIDELATCH_WEAK void operator delete(void* block, std::size_t /*bytes*/) noexcept { ::operator delete(block); }
SIDELATCH_WEAK void operator delete[](void* block, std::size_t /*bytes*/) noexcept { ::operator delete(block); }
SIDELATCH_WEAK void operator delete(void* block, std::align_val_t /*alignment*/) noexcept { release(block); }
SIDELATCH_WEAK void operator delete[](void* block, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
SIDELATCH_WEAK void operator delete(void* block, std::size_t /*bytes*/, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
SIDELATCH_WEAK void operator delete[](void* block, std::size_t /*bytes*/, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
#if defined(__clang__) && SIDELATCH_IS_SANITIZED
// Elsewhere those of the standard library call the ones above.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return ::operator new(bytes);
  } catch (...) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept { return ::operator new(bytes, tag); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return ::operator new(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return ::operator new(bytes, alignment, tag);
}
void operator delete(void* block, const std::nothrow_t& /*tag*/) noexcept { ::operator delete(block); }
void operator delete[](void* block, const std::nothrow_t& /*tag*/) noexcept { ::operator delete(block); }
#endif
// NOLINTEND(misc-new-delete-overloads)
