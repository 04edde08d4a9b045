// FaRM's lines: scatters a payload over lines that begin with a version, and gathers it while it compares the versions.
// This is the only loop over bytes in sync/ that is worth vectors: AVX-512, AVX2 or portable, chosen at run time.
//
//   scatter_lines(record, shape, version, payload);
//   bool equal = gather_lines(record, shape, version, payload);
//
// Thread-safety: pure functions.
#pragma once

#include <sidelatch/sync/layout.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sidelatch::sync::kernels {

enum class Level : std::uint8_t { portable, avx2, avx512 };
[[nodiscard]] std::string_view name(Level level);
/// The widest level that this CPU supports.
[[nodiscard]] Level best_level();
[[nodiscard]] bool supported(Level level);

/// Writes `payload` and, in every line without header, `version` into the record; the header is not touched.
void scatter_lines(std::span<std::byte> record, const RecordShape& shape, std::uint64_t version,
                   std::span<const std::byte> payload, Level level = best_level());
/// Copies the record's payload; true if every line without header has `version`. For narrow versions only the low bits
/// are compared.
[[nodiscard]] bool gather_lines(std::span<const std::byte> record, const RecordShape& shape, std::uint64_t version,
                                std::span<std::byte> payload, Level level = best_level());

/// The highest version in any line; `header` is the one beside the latch. A narrow version counts as the one nearest to
/// it.
[[nodiscard]] std::uint64_t highest_version(std::span<const std::byte> record, const RecordShape& shape,
                                            std::uint64_t header);

}  // namespace sidelatch::sync::kernels
