// SIDELATCH_HAS_ASAN and SIDELATCH_HAS_TSAN: 1 where this file is compiled with AddressSanitizer or ThreadSanitizer,
// else 0; SIDELATCH_IS_SANITIZED: 1 with either. GCC and clang say so in different ways.
#pragma once

#if defined(__has_feature)
#define SIDELATCH_HAS_ASAN __has_feature(address_sanitizer)
#define SIDELATCH_HAS_TSAN __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define SIDELATCH_HAS_ASAN 1
#else
#define SIDELATCH_HAS_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define SIDELATCH_HAS_TSAN 1
#else
#define SIDELATCH_HAS_TSAN 0
#endif
#endif
#define SIDELATCH_IS_SANITIZED (SIDELATCH_HAS_ASAN || SIDELATCH_HAS_TSAN)
