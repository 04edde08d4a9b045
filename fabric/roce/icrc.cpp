#include "icrc.h"

#include "crc32.h"
#include "headers.h"

#include <array>
#include <cstring>
#include <initializer_list>

namespace sidelatch::fabric::roce {

namespace {

constexpr std::byte kOnes{0xff};
constexpr std::size_t kLocalRouteHeader = 8;

// `masked`: offsets of whole bytes that count as ones, from the IP header on.
template <std::size_t IpBytes>
std::uint32_t after(const std::byte* headers, std::initializer_list<std::size_t> masked, std::byte first_byte_mask,
                    std::byte second_byte_mask) noexcept {
  std::array<std::byte, kLocalRouteHeader + IpBytes + Udp::kBytes + Bth::kBytes> covered{};
  std::memset(covered.data(), 0xff, kLocalRouteHeader);
  std::byte* const ip = covered.data() + kLocalRouteHeader;
  std::memcpy(ip, headers, covered.size() - kLocalRouteHeader);
  ip[0] |= first_byte_mask;
  ip[1] |= second_byte_mask;
  for (const std::size_t offset : masked) {
    ip[offset] = kOnes;
  }
  constexpr std::size_t kUdpChecksum = IpBytes + 6;
  constexpr std::size_t kResv8a = IpBytes + Udp::kBytes + 4;
  ip[kUdpChecksum] = ip[kUdpChecksum + 1] = kOnes;
  ip[kResv8a] = kOnes;
  return crc32_extend(kCrc32Start, covered);
}

}  // namespace

std::uint32_t icrc_after_ipv4(const std::byte* headers) noexcept {
  constexpr std::size_t kTimeToLive = 8;
  constexpr std::size_t kChecksum = 10;
  // The second byte is the type of service.
  return after<Ipv4::kBytes>(headers, {kTimeToLive, kChecksum, kChecksum + 1}, std::byte{0}, kOnes);
}

std::uint32_t icrc_after_ipv6(const std::byte* headers) noexcept {
  constexpr std::size_t kHopLimit = 7;
  // Traffic class and flow label are all of the first word but the version.
  return after<Ipv6::kBytes>(headers, {2, 3, kHopLimit}, std::byte{0x0f}, kOnes);
}

std::uint32_t load_icrc(const std::byte* in) noexcept {
  std::uint32_t icrc = 0;
  for (std::size_t i = 0; i < kIcrcBytes; ++i) {
    icrc |= std::to_integer<std::uint32_t>(in[i]) << (8 * i);
  }
  return icrc;
}

void store_icrc(std::byte* out, std::uint32_t icrc) noexcept {
  for (std::size_t i = 0; i < kIcrcBytes; ++i) {
    out[i] = static_cast<std::byte>(icrc >> (8 * i));
  }
}

}  // namespace sidelatch::fabric::roce
