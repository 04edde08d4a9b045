// Tells the processor that this thread waits, so that its other hardware thread gets more of it.
#pragma once

namespace sidelatch {

inline void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace sidelatch
