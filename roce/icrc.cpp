#include "icrc.h"

#include "crc32.h"
#include "headers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace sidelatch::roce {

namespace {

constexpr std::size_t kLocalRouteHeader = 8;
constexpr std::byte kOnes{0xff};

// The mask that is or-ed to the headers, including the local route header, before the CRC covers them. It has whole
// words, so masking takes few steps and no word is read again before it is written whole.
template <std::size_t IpBytes>
using Mask = std::array<std::uint64_t, (kLocalRouteHeader + IpBytes + Udp::kBytes + Bth::kBytes + 7) / 8>;

// `fields`: offset from the start of the IP header, and the bits to or there.
template <std::size_t IpBytes>
constexpr Mask<IpBytes> make_mask(std::initializer_list<std::pair<std::size_t, std::byte>> fields) {
  std::array<std::byte, sizeof(Mask<IpBytes>)> mask{};
  std::fill_n(mask.begin(), kLocalRouteHeader, kOnes);
  for (const auto& [offset, ones] : fields) {
    mask[kLocalRouteHeader + offset] = ones;
  }
  constexpr std::size_t kUdpChecksum = kLocalRouteHeader + IpBytes + 6;
  mask[kUdpChecksum] = mask[kUdpChecksum + 1] = kOnes;
  constexpr std::size_t kResv8a = kLocalRouteHeader + IpBytes + Udp::kBytes + 4;
  mask[kResv8a] = kOnes;
  return std::bit_cast<Mask<IpBytes>>(mask);
}

constexpr Mask<Ipv4::kBytes> kIpv4Mask = make_mask<Ipv4::kBytes>({{1, kOnes},   // type of service
                                                                  {8, kOnes},   // time to live
                                                                  {10, kOnes},  // header checksum
                                                                  {11, kOnes}});
// Traffic class and flow label are the whole first word except the version.
constexpr Mask<Ipv6::kBytes> kIpv6Mask =
    make_mask<Ipv6::kBytes>({{0, std::byte{0x0f}}, {1, kOnes}, {2, kOnes}, {3, kOnes}, {7, kOnes}});  // hop limit

template <std::size_t IpBytes>
std::uint32_t after(std::span<const std::byte> headers, const Mask<IpBytes>& mask) noexcept {
  std::array<std::byte, kLocalRouteHeader + IpBytes + Udp::kBytes + Bth::kBytes + kMostExtensionBytes> covered{};
  std::memcpy(covered.data() + kLocalRouteHeader, headers.data(), headers.size());
  for (std::size_t i = 0; i < mask.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, covered.data() + 8 * i, sizeof word);
    word |= mask[i];
    std::memcpy(covered.data() + 8 * i, &word, sizeof word);
  }
  return crc32_extend(kCrc32Start, std::span(covered).first(kLocalRouteHeader + headers.size()));
}

}  // namespace

std::uint32_t icrc_after_ipv4(std::span<const std::byte> headers) noexcept {
  return after<Ipv4::kBytes>(headers, kIpv4Mask);
}

std::uint32_t icrc_after_ipv6(std::span<const std::byte> headers) noexcept {
  return after<Ipv6::kBytes>(headers, kIpv6Mask);
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

}  // namespace sidelatch::roce
