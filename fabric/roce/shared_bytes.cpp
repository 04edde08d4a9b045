#include "shared_bytes.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace sidelatch::fabric::roce {

namespace {

using Word = std::uint64_t;

std::size_t to_next_word(const std::byte* shared) {
  return (sizeof(Word) - reinterpret_cast<std::uintptr_t>(shared) % sizeof(Word)) % sizeof(Word);
}

// Registered memory has no type that we know; like the NIC, this takes it as words.
std::atomic_ref<Word> word_at(std::byte* shared) { return std::atomic_ref<Word>(*reinterpret_cast<Word*>(shared)); }

std::atomic_ref<std::byte> byte_at(std::byte* shared) { return std::atomic_ref<std::byte>(*shared); }

// std::atomic_ref of a const object cannot be made before C++26; nothing is written through it.
std::byte* mutable_bytes(const std::byte* shared) {
  return const_cast<std::byte*>(shared);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

void store_shared(std::byte* shared, std::span<const std::byte> from) noexcept {
  const std::byte* source = from.data();
  const std::byte* const end = source + from.size();
  const std::byte* const head_end = source + std::min(to_next_word(shared), from.size());
  for (; source != head_end; ++source, ++shared) {
    byte_at(shared).store(*source, std::memory_order_relaxed);
  }
  for (; end - source >= static_cast<std::ptrdiff_t>(sizeof(Word)); source += sizeof(Word), shared += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, source, sizeof word);
    word_at(shared).store(word, std::memory_order_relaxed);
  }
  for (; source != end; ++source, ++shared) {
    byte_at(shared).store(*source, std::memory_order_relaxed);
  }
}

void load_shared(std::span<std::byte> into, const std::byte* from) noexcept {
  std::byte* shared = mutable_bytes(from);
  std::byte* target = into.data();
  std::byte* const end = target + into.size();
  std::byte* const head_end = target + std::min(to_next_word(shared), into.size());
  for (; target != head_end; ++target, ++shared) {
    *target = byte_at(shared).load(std::memory_order_relaxed);
  }
  for (; end - target >= static_cast<std::ptrdiff_t>(sizeof(Word)); target += sizeof(Word), shared += sizeof(Word)) {
    const Word word = word_at(shared).load(std::memory_order_relaxed);
    std::memcpy(target, &word, sizeof word);
  }
  for (; target != end; ++target, ++shared) {
    *target = byte_at(shared).load(std::memory_order_relaxed);
  }
}

std::uint64_t compare_swap_shared(std::byte* shared, std::uint64_t compare, std::uint64_t swap) noexcept {
  // On failure it is loaded into `compare`; on success that is what was there.
  word_at(shared).compare_exchange_strong(compare, swap);
  return compare;
}

std::uint64_t fetch_add_shared(std::byte* shared, std::uint64_t addend) noexcept {
  return word_at(shared).fetch_add(addend);
}

}  // namespace sidelatch::fabric::roce
