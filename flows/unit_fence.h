// The fences between a unit's items and its counters, where the NIC is the other party.
//
// A release store and an acquire load order a processor's accesses for other processors. On x86 that holds for devices,
// too. On ARM it holds in the inner shareable domain, and a NIC is in the outer one.
#pragma once

namespace sidelatch::flows {

/// What was written before is in memory before what is written next; so is what was read before.
inline void fence_before_counter() noexcept {
#if defined(__aarch64__)
  asm volatile("dmb osh" ::: "memory");
#elif defined(__powerpc64__)
  asm volatile("sync" ::: "memory");
#elif defined(__riscv)
  asm volatile("fence iorw, iorw" ::: "memory");
#endif
}

/// What is read or written next is so after what was read before.
inline void fence_behind_counter() noexcept { fence_before_counter(); }

}  // namespace sidelatch::flows
