// Copies from and to memory that other threads read and write meanwhile, as a NIC does it, without undefined behaviour.
//
// Whole words of 8 bytes, aligned in the shared memory, are loaded and stored whole, by relaxed atomics or several
// words at a time where the CPU promises that too; bytes before and behind them one by one. Addresses ascend, so lines
// of 64 bytes do too. Nothing else is ordered: who needs an order takes it from elsewhere (x86 keeps stores in order,
// and loads).
//
// Thread-safety: any number of these at the same time, beside atomic accesses of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::softnic::nic {

/// Stores `from` at `shared`.
void store_shared(std::byte* shared, std::span<const std::byte> from) noexcept;
/// Loads `into.size()` bytes from `shared`.
void load_shared(std::span<std::byte> into, const std::byte* shared) noexcept;

/// Atomics on the aligned word at `shared`, in the order of the host; they return what it held before.
[[nodiscard]] std::uint64_t compare_swap_shared(std::byte* shared, std::uint64_t compare, std::uint64_t swap) noexcept;
[[nodiscard]] std::uint64_t fetch_add_shared(std::byte* shared, std::uint64_t addend) noexcept;

}  // namespace sidelatch::softnic::nic
