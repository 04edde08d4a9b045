#include "shared_bytes.h"

#include "gone_pages.h"

#include "common/sanitizers.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace sidelatch::softnic::nic {

namespace {

using Word = std::uint64_t;

std::size_t to_next_word(const std::byte* shared) {
  return (sizeof(Word) - reinterpret_cast<std::uintptr_t>(shared) % sizeof(Word)) % sizeof(Word);
}

// We do not know the type of registered memory; like a NIC, this code treats it as words.
std::atomic_ref<Word> word_at(std::byte* shared) { return std::atomic_ref<Word>(*reinterpret_cast<Word*>(shared)); }

std::atomic_ref<std::byte> byte_at(std::byte* shared) { return std::atomic_ref<std::byte>(*shared); }

// std::atomic_ref of a const object needs C++26; nothing is written through this pointer.
std::byte* mutable_bytes(const std::byte* shared) {
  return const_cast<std::byte*>(shared);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

void store_word(std::byte* shared, const std::byte* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  word_at(shared).store(word, std::memory_order_relaxed);
}

void load_word(std::byte* into, std::byte* shared) {
  const Word word = word_at(shared).load(std::memory_order_relaxed);
  std::memcpy(into, &word, sizeof word);
}

// 16 bytes at a time copy a payload about twice as fast. A CPU with AVX promises that aligned lanes of 16 bytes are
// loaded and stored whole. This is assembler, because a vector is no atomic to C++: the compiler must neither split nor
// reorder these. Sanitizers do not look into assembler, so under them there are words only.
constexpr std::size_t kLane = 16;
using Lane = std::byte[kLane];
#if defined(__x86_64__) && !SIDELATCH_IS_SANITIZED
const bool kHasLanes = __builtin_cpu_supports("avx") != 0;

void store_lane(std::byte* shared, const std::byte* from) {
  asm volatile(
      "movdqu %1, %%xmm0\n\t"
      "movdqa %%xmm0, %0"
      : "=m"(*reinterpret_cast<Lane*>(shared))
      : "m"(*reinterpret_cast<const Lane*>(from))
      : "xmm0");
}

void load_lane(std::byte* into, const std::byte* shared) {
  asm volatile(
      "movdqa %1, %%xmm0\n\t"
      "movdqu %%xmm0, %0"
      : "=m"(*reinterpret_cast<Lane*>(into))
      : "m"(*reinterpret_cast<const Lane*>(shared))
      : "xmm0");
}
#else
constexpr bool kHasLanes = false;
void store_lane(std::byte* /*shared*/, const std::byte* /*from*/) {}
void load_lane(std::byte* /*into*/, const std::byte* /*shared*/) {}
#endif

// Less than a word: halves of words are whole, too, as with a NIC; other bytes go one by one.
using Half = std::uint32_t;

template <class UseHalf, class UseByte>
void for_each_half(const std::byte* shared, std::size_t at, std::size_t end, UseHalf use_half, UseByte use_byte) {
  while (at < end) {
    if (reinterpret_cast<std::uintptr_t>(shared + at) % sizeof(Half) == 0 && at + sizeof(Half) <= end) {
      use_half(at);
      at += sizeof(Half);
    } else {
      use_byte(at);
      ++at;
    }
  }
}

std::atomic_ref<Half> half_at(std::byte* shared) { return std::atomic_ref<Half>(*reinterpret_cast<Half*>(shared)); }

// Calls one of the two functions for each offset from `at` on, where a word of `shared` begins; returns the first
// offset not covered.
template <class UseWord, class UseLane>
std::size_t for_each_word(const std::byte* shared, std::size_t at, std::size_t end, UseWord use_word,
                          UseLane use_lane) {
  constexpr std::size_t kWorthIt = 4 * kLane;
  if (kHasLanes && end - at >= kWorthIt) {
    if (reinterpret_cast<std::uintptr_t>(shared + at) % kLane != 0) {
      use_word(at);
      at += sizeof(Word);
    }
    for (; at + kLane <= end; at += kLane) {
      use_lane(at);
    }
  }
  for (; at + sizeof(Word) <= end; at += sizeof(Word)) {
    use_word(at);
  }
  return at;
}

// ThreadSanitizer does not know fences, and GCC refuses them under it.
void fence([[maybe_unused]] std::memory_order order) noexcept {
#if !SIDELATCH_HAS_TSAN
  std::atomic_thread_fence(order);
#endif
}

void copy_in(std::byte* shared, std::span<const std::byte> from) noexcept {
  const std::byte* const source = from.data();
  const std::size_t head = std::min(to_next_word(shared), from.size());
  const auto use_byte = [&](std::size_t at) { byte_at(shared + at).store(source[at], std::memory_order_relaxed); };
  const auto use_half = [&](std::size_t at) {
    Half half = 0;
    std::memcpy(&half, source + at, sizeof half);
    half_at(shared + at).store(half, std::memory_order_relaxed);
  };
  for_each_half(shared, 0, head, use_half, use_byte);
  const std::size_t tail = for_each_word(
      shared, head, from.size(), [&](std::size_t at) { store_word(shared + at, source + at); },
      [&](std::size_t at) { store_lane(shared + at, source + at); });
  for_each_half(shared, tail, from.size(), use_half, use_byte);
}

void copy_out(std::span<std::byte> into, std::byte* shared) noexcept {
  std::byte* const target = into.data();
  const std::size_t head = std::min(to_next_word(shared), into.size());
  const auto use_byte = [&](std::size_t at) { target[at] = byte_at(shared + at).load(std::memory_order_relaxed); };
  const auto use_half = [&](std::size_t at) {
    const Half half = half_at(shared + at).load(std::memory_order_relaxed);
    std::memcpy(target + at, &half, sizeof half);
  };
  for_each_half(shared, 0, head, use_half, use_byte);
  const std::size_t tail = for_each_word(
      shared, head, into.size(), [&](std::size_t at) { load_word(target + at, shared + at); },
      [&](std::size_t at) { load_lane(target + at, shared + at); });
  for_each_half(shared, tail, into.size(), use_half, use_byte);
}

// The old value that `use` returns; nothing if the word's page is gone.
template <class Use>
std::optional<Word> old_value(std::byte* word, const Use& use) noexcept {
  Word old = 0;
  const bool is_there = touch_pages({word, sizeof(Word)}, [&] { old = use(word_at(word)); }) == nullptr;
  return is_there ? std::optional(old) : std::nullopt;
}

}  // namespace

// A unit that polls acquires a counter and then reads what earlier packets brought. So each packet releases the earlier
// ones, and what a packet reads was written before what later ones read. On x86 these fences are for the compiler only.
const std::byte* store_shared(std::byte* shared, std::span<const std::byte> from) noexcept {
  fence(std::memory_order_release);
  return touch_pages({shared, from.size()}, [&] { copy_in(shared, from); });
}

const std::byte* load_shared(std::span<std::byte> into, const std::byte* shared) noexcept {
  const std::byte* const gone = touch_pages({shared, into.size()}, [&] { copy_out(into, mutable_bytes(shared)); });
  fence(std::memory_order_acquire);
  return gone;
}

std::optional<std::uint64_t> compare_swap_shared(std::byte* shared, std::uint64_t compare,
                                                 std::uint64_t swap) noexcept {
  return old_value(shared, [&](std::atomic_ref<Word> word) {
    // On failure the old value is loaded into `old`; on success it equals `compare`.
    Word old = compare;
    word.compare_exchange_strong(old, swap);
    return old;
  });
}

std::optional<std::uint64_t> exchange_shared(std::byte* shared, std::uint64_t value) noexcept {
  return old_value(shared, [&](std::atomic_ref<Word> word) { return word.exchange(value); });
}

std::optional<std::uint64_t> fetch_add_shared(std::byte* shared, std::uint64_t addend) noexcept {
  return old_value(shared, [&](std::atomic_ref<Word> word) { return word.fetch_add(addend); });
}

}  // namespace sidelatch::softnic::nic
