#include "p4/switch/rewrite.h"

#include "roce/big_endian.h"
#include "roce/crc32.h"
#include "roce/headers.h"
#include "roce/icrc.h"
#include "roce/packet.h"

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

namespace sidelatch::p4 {

namespace {

constexpr std::size_t kEthernetBytes = 14;
constexpr unsigned kIpv4Type = 0x0800;
constexpr unsigned kIpv6Type = 0x86dd;
constexpr unsigned kVlanType = 0x8100;
constexpr unsigned kOuterVlanType = 0x88a8;
constexpr unsigned kUdp = 17;
constexpr unsigned kRocePort = 4791;

// Where the packet of a frame ends (before link padding) and its transport headers begin, if it is RoCEv2.
struct Layout {
  bool is_ipv6 = false;
  std::size_t ip = 0;
  std::size_t end = 0;      // of the IP packet, in the frame
  std::size_t bth_end = 0;  // of the base transport header
};

// Where the IP packet of a frame begins: behind the addresses, at most two VLAN tags (802.1Q, 802.1ad) and the type.
std::size_t ip_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kTagBytes = 4;
  constexpr std::size_t kFarthest = kEthernetBytes + 2 * kTagBytes;
  std::size_t ip = kEthernetBytes;
  while (ip < kFarthest && bytes.size() >= ip + kTagBytes) {
    const unsigned type = roce::load16(bytes.data() + ip - 2);
    if (type != kVlanType && type != kOuterVlanType) {
      break;
    }
    ip += kTagBytes;
  }
  return ip;
}

// `bytes`: the first bytes of a frame of `frame_bytes`.
std::optional<Layout> layout_of(std::span<const std::byte> bytes, std::size_t frame_bytes) {
  Layout layout;
  layout.ip = ip_of(bytes);
  if (bytes.size() < layout.ip + roce::Ipv4::kBytes + roce::Udp::kBytes + roce::Bth::kBytes) {
    return std::nullopt;
  }
  const unsigned type = roce::load16(bytes.data() + layout.ip - 2);
  const std::byte* ip = bytes.data() + layout.ip;
  std::size_t ip_bytes = roce::Ipv4::kBytes;
  unsigned protocol = 0;
  if (type == kIpv4Type && std::to_integer<unsigned>(ip[0]) == 0x45) {
    layout.end = layout.ip + roce::load16(ip + 2);
    protocol = std::to_integer<unsigned>(ip[9]);
  } else if (type == kIpv6Type && std::to_integer<unsigned>(ip[0]) >> 4 == 6) {
    layout.is_ipv6 = true;
    ip_bytes = roce::Ipv6::kBytes;
    layout.end = layout.ip + ip_bytes + roce::load16(ip + 4);
    protocol = std::to_integer<unsigned>(ip[6]);
  } else {
    return std::nullopt;
  }
  layout.bth_end = layout.ip + ip_bytes + roce::Udp::kBytes + roce::Bth::kBytes;
  if (protocol != kUdp || bytes.size() < layout.bth_end || layout.end > frame_bytes ||
      layout.end < layout.bth_end + roce::kIcrcBytes || roce::load16(ip + ip_bytes + 2) != kRocePort) {
    return std::nullopt;
  }
  return layout;
}

// Whether this is a whole UDP datagram of IPv4 for RoCEv2, whatever its lengths say.
bool is_to_roce_port(std::span<const std::byte> frame) {
  constexpr unsigned kFragmentBits = 0x3fff;  // "more follow", and where it belongs
  const std::size_t at = ip_of(frame);
  const std::byte* const ip = frame.data() + at;
  return frame.size() >= at + roce::Ipv4::kBytes + roce::Udp::kBytes && roce::load16(ip - 2) == kIpv4Type &&
         std::to_integer<unsigned>(ip[0]) == 0x45 && std::to_integer<unsigned>(ip[9]) == kUdp &&
         (roce::load16(ip + 6) & kFragmentBits) == 0 && roce::load16(ip + roce::Ipv4::kBytes + 2) == kRocePort;
}

// The CRC's state after the bytes from the IP header to `bytes`' end.
std::uint32_t state_after(const Layout& layout, std::span<const std::byte> bytes) {
  const auto headers = bytes.subspan(layout.ip, layout.bth_end - layout.ip);
  const std::uint32_t state = layout.is_ipv6 ? roce::icrc_after_ipv6(headers) : roce::icrc_after_ipv4(headers);
  return roce::crc32_extend(state, bytes.subspan(layout.bth_end));
}

}  // namespace

void mark_congestion(std::span<std::byte> frame) noexcept {
  const std::size_t at = ip_of(frame);
  if (frame.size() < at + roce::Ipv4::kBytes) {
    return;
  }
  std::byte* const ip = frame.data() + at;
  const unsigned type = roce::load16(ip - 2);
  if (type == kIpv4Type && std::to_integer<unsigned>(ip[0]) >> 4 == 4) {
    const unsigned before = roce::load16(ip);
    if ((before & 3) == 0) {
      return;
    }
    ip[1] |= std::byte{3};
    // RFC 1624: HC' = ~(~HC + ~m + m').
    unsigned sum = (~roce::load16(ip + 10) & 0xffffU) + (~before & 0xffffU) + roce::load16(ip);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    roce::store16(ip + 10, static_cast<std::uint16_t>(~sum));
  } else if (type == kIpv6Type && std::to_integer<unsigned>(ip[0]) >> 4 == 6) {
    if ((std::to_integer<unsigned>(ip[1]) & 0x30) != 0) {
      ip[1] |= std::byte{0x30};
    }
  }
}

bool has_wrong_icrc(std::span<const std::byte> frame) noexcept {
  const std::optional<Layout> layout = layout_of(frame, frame.size());
  if (!layout) {
    return is_to_roce_port(frame);
  }
  const std::uint32_t state = state_after(*layout, frame.first(layout->end - roce::kIcrcBytes));
  return roce::crc32_finish(state) != roce::load_icrc(frame.data() + layout->end - roce::kIcrcBytes);
}

void write_icrc(std::span<std::byte> frame) noexcept {
  if (const std::optional<Layout> layout = layout_of(frame, frame.size())) {
    const std::uint32_t state = state_after(*layout, frame.first(layout->end - roce::kIcrcBytes));
    roce::store_icrc(frame.data() + layout->end - roce::kIcrcBytes, roce::crc32_finish(state));
  }
}

std::uint32_t icrc_difference(std::span<const std::byte> frame, std::size_t old_bytes,
                              std::span<const std::byte> headers) noexcept {
  if (headers.size() == old_bytes && std::equal(headers.begin(), headers.end(), frame.begin())) {
    return 0;
  }
  const std::size_t payload = frame.size() - old_bytes;
  const std::optional<Layout> before = layout_of(frame, frame.size());
  if (!before) {
    return 0;
  }
  // The headers must reach to the end of both base transport headers: take what is missing from the payload.
  std::array<std::byte, 128> joined{};
  std::size_t taken = 0;
  std::span<const std::byte> new_headers = headers;
  if (headers.size() < before->bth_end || old_bytes < before->bth_end) {
    const std::size_t wanted = before->bth_end > old_bytes ? before->bth_end - old_bytes : 0;
    taken =
        std::min(std::max(wanted, before->bth_end > headers.size() ? before->bth_end - headers.size() : 0), payload);
    if (headers.size() + taken > joined.size()) {
      return 0;
    }
    std::copy(headers.begin(), headers.end(), joined.begin());
    std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(old_bytes), taken,
                joined.begin() + static_cast<std::ptrdiff_t>(headers.size()));
    new_headers = std::span(joined).first(headers.size() + taken);
  }
  const std::optional<Layout> after = layout_of(new_headers, headers.size() + payload);
  const std::size_t end = old_bytes + taken;
  if (!after || end > before->end - roce::kIcrcBytes || end < before->bth_end) {
    return 0;
  }
  std::uint32_t difference = state_after(*before, frame.first(end)) ^ state_after(*after, new_headers);
  if (difference == 0) {  // what was changed is not covered
    return 0;
  }
  // The CRC is linear: moving the difference over the payload is extending it by as many zeros.
  static constexpr std::array<std::byte, 512> kZeros{};
  for (std::size_t rest = before->end - roce::kIcrcBytes - end; rest > 0;) {
    const std::size_t part = std::min(rest, kZeros.size());
    difference = roce::crc32_extend(difference, std::span(kZeros).first(part));
    rest -= part;
  }
  return difference;
}

void mend_icrc(std::span<std::byte> frame, std::uint32_t difference) noexcept {
  if (difference == 0) {
    return;
  }
  if (const std::optional<Layout> layout = layout_of(frame, frame.size())) {
    std::byte* icrc = frame.data() + layout->end - roce::kIcrcBytes;
    roce::store_icrc(icrc, roce::load_icrc(icrc) ^ difference);
  }
}

}  // namespace sidelatch::p4
