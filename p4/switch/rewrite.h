// What the ports of the switch change in packets, outside P4: Congestion Experienced, and the invariant CRC of RoCEv2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::p4 {

/// Marks an IPv4 or IPv6 packet as Congestion Experienced (RFC 3168) if its transport can be; mends IPv4's checksum.
void mark_congestion(std::span<std::byte> frame) noexcept;

/// Whether this is a RoCEv2 packet whose ICRC does not fit, or which is too short for one, or for the lengths it gives.
[[nodiscard]] bool has_wrong_icrc(std::span<const std::byte> frame) noexcept;

/// Gives a RoCEv2 packet the ICRC that fits; leaves others as they are.
void write_icrc(std::span<std::byte> frame) noexcept;

/// By what the ICRC changes if the first `old_bytes` of a frame become `headers`: the CRC of the difference, moved over
/// the payload. The payload is not read. 0 if either is no RoCEv2 packet.
[[nodiscard]] std::uint32_t icrc_difference(std::span<const std::byte> frame, std::size_t old_bytes,
                                            std::span<const std::byte> headers) noexcept;

/// Changes the last four bytes of the frame's packet.
void mend_icrc(std::span<std::byte> frame, std::uint32_t difference) noexcept;

}  // namespace sidelatch::p4
