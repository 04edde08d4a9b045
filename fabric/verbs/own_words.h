// Words of a memory node's own regions, by its CPU: the versions of tuples, which a switch reads back.
//
// Only for words that no request of a client reaches: their queue pairs have ended, and what was acknowledged is
// placed.
#pragma once

#include "exchange.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::fabric::verbs {

/// The first words of `count` slots of `stride` bytes from `span` on. Throws std::invalid_argument if they are not
/// aligned words within one of `regions`, or that region has not the remote right.
[[nodiscard]] std::vector<std::uint64_t> read_own_words(std::span<const exchange::SharedRegion> regions,
                                                        const exchange::ReadWords& wanted);
/// All words of a row, however many. Throws as read_own_words().
[[nodiscard]] std::vector<std::uint64_t> read_all_own_words(std::span<const exchange::SharedRegion> regions,
                                                            const RemoteSpan& span, std::uint64_t stride,
                                                            std::uint64_t count);
/// Throws what write_own_words() would throw for the same words, and writes nothing.
void require_writable_own_words(std::span<const exchange::SharedRegion> regions, const RemoteSpan& span,
                                std::uint64_t stride, std::uint64_t count);
/// Throws as read_own_words(); then nothing is written.
void write_own_words(std::span<const exchange::SharedRegion> regions, const exchange::WriteWords& wanted);

}  // namespace sidelatch::fabric::verbs
