// Copies from and to memory that other threads read and write concurrently, as a NIC does, without undefined behaviour.
//
// Whole words of 8 bytes, aligned in the shared memory, are loaded and stored whole, by relaxed atomics, or several
// words at a time if the CPU guarantees that too. Before and after them, aligned halves of words (4 bytes) are whole,
// and other bytes are copied one by one. Addresses ascend, so lines of 64 bytes do too. Who acquires what one call has
// stored sees what earlier calls of that thread have stored; a later call loads no older values than an earlier one.
// Within one call nothing else is ordered.
//
// Memory whose pages are gone (gone_pages.h) ends a call early: it has then touched any part of the rest, and says
// where it could not go on.
//
// Thread-safety: any number of these functions may run at the same time, beside other atomic accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sidelatch::softnic::nic {

/// Stores `from` at `shared`. Nullptr, or the address whose page is gone.
[[nodiscard]] const std::byte* store_shared(std::byte* shared, std::span<const std::byte> from) noexcept;
/// Loads `into.size()` bytes from `shared`. Nullptr, or the address whose page is gone.
[[nodiscard]] const std::byte* load_shared(std::span<std::byte> into, const std::byte* shared) noexcept;

/// Atomics on the aligned word at `shared`, in the host's byte order; they return the old value. Nothing: its page is
/// gone.
[[nodiscard]] std::optional<std::uint64_t> compare_swap_shared(std::byte* shared, std::uint64_t compare,
                                                               std::uint64_t swap) noexcept;
[[nodiscard]] std::optional<std::uint64_t> exchange_shared(std::byte* shared, std::uint64_t value) noexcept;
[[nodiscard]] std::optional<std::uint64_t> fetch_add_shared(std::byte* shared, std::uint64_t addend) noexcept;

}  // namespace sidelatch::softnic::nic
