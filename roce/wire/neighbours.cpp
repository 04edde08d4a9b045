#include "neighbours.h"

#include "station_addresses.h"

#include "roce/big_endian.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sidelatch::roce {

namespace {

constexpr std::size_t kLeastFrame = 60;  // Ethernet's minimum, without the frame check sequence
constexpr std::chrono::seconds kAnswersWithin{1};
constexpr std::size_t kMostEntries = 4096;  // others can make us remember this many

// RFC 826, for Ethernet and IPv4.
struct Arp {
  static constexpr std::size_t kBytes = 28;
  static constexpr std::uint16_t kRequest = 1;
  static constexpr std::uint16_t kReply = 2;
  std::uint16_t operation = 0;
  MacAddress sender_mac{};
  Ipv4Address sender{};
  MacAddress target_mac{};
  Ipv4Address target{};
};
constexpr std::uint64_t kArpOfEthernetAndIpv4 = 0x0001'0800'0604;  // hardware, protocol, their lengths

// RFC 4861, 4.3 and 4.4, with one option, the link-layer address.
constexpr std::uint8_t kSourceAddress = 1;
constexpr std::uint8_t kTargetAddress = 2;
constexpr std::uint8_t kSolicitedFlag = 0x40;
constexpr std::uint8_t kOverrideFlag = 0x20;
constexpr std::uint8_t kHopLimit = 255;  // a lower one has passed a router, so the sender is not on this network
constexpr std::size_t kMessageBytes = 24;
constexpr std::size_t kOptionUnit = 8;
constexpr std::size_t kDiscoveryOffset = Ethernet::kBytes + Ipv6::kBytes;

template <class Address>
Address load_address(const std::byte* in) {
  Address address{};
  std::memcpy(address.data(), in, address.size());
  return address;
}

template <class Address>
void store_address(std::byte* out, const Address& address) {
  std::memcpy(out, address.data(), address.size());
}

Arp read_arp(const std::byte* in) {
  return {.operation = load16(in + 6),
          .sender_mac = load_address<MacAddress>(in + 8),
          .sender = load_address<Ipv4Address>(in + 14),
          .target_mac = load_address<MacAddress>(in + 18),
          .target = load_address<Ipv4Address>(in + 24)};
}

Neighbours::Frame arp_frame(const MacAddress& to, const Arp& arp) {
  Neighbours::Frame frame(kLeastFrame);
  Ethernet{.destination = to, .source = arp.sender_mac, .ether_type = kEtherTypeArp}.write(frame.data());
  std::byte* const out = frame.data() + Ethernet::kBytes;
  store_big_endian<6>(out, kArpOfEthernetAndIpv4);
  store16(out + 6, arp.operation);
  store_address(out + 8, arp.sender_mac);
  store_address(out + 14, arp.sender);
  store_address(out + 18, arp.target_mac);
  store_address(out + 24, arp.target);
  return frame;
}

// The checksum over the pseudo header and the message (RFC 8200, 8.1). 0 if the message carries the right checksum.
std::uint16_t icmpv6_checksum(const Ipv6& ip, std::span<const std::byte> message) {
  std::uint64_t sum = message.size() + kProtocolIcmpv6;
  const auto add = [&sum](std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      sum += std::to_integer<std::uint64_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    }
  };
  add(std::as_bytes(std::span(ip.source)));
  add(std::as_bytes(std::span(ip.destination)));
  add(message);
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

struct Discovery {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  Ipv6Address target{};
  std::optional<MacAddress> mac;  // from the option that belongs to the type
};

Neighbours::Frame discovery_frame(const MacAddress& to, Ipv6 ip, const MacAddress& own, const Discovery& discovery) {
  constexpr std::size_t kBytes = kMessageBytes + kOptionUnit;
  Neighbours::Frame frame(kDiscoveryOffset + kBytes);
  ip.next_header = kProtocolIcmpv6;
  ip.hop_limit = kHopLimit;
  ip.payload_length = kBytes;
  Ethernet{.destination = to, .source = own, .ether_type = kEtherTypeIpv6}.write(frame.data());
  ip.write(frame.data() + Ethernet::kBytes);
  const std::span<std::byte> message = std::span(frame).subspan(kDiscoveryOffset);
  store8(message.data(), discovery.type);
  store8(message.data() + 4, discovery.flags);
  store_address(message.data() + 8, discovery.target);
  store8(message.data() + kMessageBytes, discovery.type == kSolicitation ? kSourceAddress : kTargetAddress);
  store8(message.data() + kMessageBytes + 1, 1);  // unit of 8 bytes
  store_address(message.data() + kMessageBytes + 2, own);
  store16(message.data() + 2, icmpv6_checksum(ip, message));
  return frame;
}

// Nothing if the message is not valid (RFC 4861, 7.1).
std::optional<Discovery> read_discovery(const Ipv6& ip, std::span<const std::byte> message) {
  if (message.size() < kMessageBytes || ip.hop_limit != kHopLimit || icmpv6_checksum(ip, message) != 0 ||
      load8(message.data() + 1) != 0) {
    return std::nullopt;
  }
  Discovery discovery{.type = load8(message.data()),
                      .flags = load8(message.data() + 4),
                      .target = load_address<Ipv6Address>(message.data() + 8),
                      .mac = std::nullopt};
  const std::uint8_t wanted = discovery.type == kSolicitation ? kSourceAddress : kTargetAddress;
  for (std::size_t at = kMessageBytes; at + 2 <= message.size();) {
    const std::size_t bytes = kOptionUnit * load8(message.data() + at + 1);
    if (bytes == 0 || bytes > message.size() - at) {
      return std::nullopt;
    }
    if (load8(message.data() + at) == wanted) {
      discovery.mac = load_address<MacAddress>(message.data() + at + 2);
    }
    at += bytes;
  }
  return discovery;
}

// RFC 4291, 2.7.1, and RFC 2464, 7.
Ipv6Address solicited_node(const Ipv6Address& address) {
  Ipv6Address group = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy(address.end() - 3, address.end(), group.end() - 3);
  return group;
}

MacAddress mac_of_group(const Ipv6Address& group) { return {0x33, 0x33, group[12], group[13], group[14], group[15]}; }

constexpr Ipv6Address kAllNodes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace

Neighbours::Neighbours(const StationAddresses& own, std::function<Clock::time_point()> now)
    : own_(own), now_(std::move(now)) {}

bool Neighbours::take(std::span<const std::byte> frame, Frame& reply) {
  reply.clear();
  if (frame.size() < Ethernet::kBytes) {
    return false;
  }
  const Ethernet ethernet = Ethernet::read(frame.data());
  if (ethernet.ether_type == kEtherTypeArp) {
    take_arp(frame, reply);
    return true;
  }
  if (ethernet.ether_type == kEtherTypeIpv6 && frame.size() > kDiscoveryOffset) {
    const Ipv6 ip = Ipv6::read(frame.data() + Ethernet::kBytes);
    if (ip.next_header == kProtocolIcmpv6) {
      take_discovery(frame, reply);
      return true;
    }
  }
  return false;
}

void Neighbours::take_arp(std::span<const std::byte> frame, Frame& reply) {
  if (frame.size() < Ethernet::kBytes + Arp::kBytes ||
      load_big_endian<6, std::uint64_t>(frame.data() + Ethernet::kBytes) != kArpOfEthernetAndIpv4) {
    return;
  }
  const Arp arp = read_arp(frame.data() + Ethernet::kBytes);
  if (is_group(arp.sender_mac) || own_.ipv4 == Ipv4Address{}) {
    return;
  }
  const bool for_us = arp.target == own_.ipv4;
  if (arp.sender != Ipv4Address{} && arp.sender != own_.ipv4) {
    learn(gid_of(arp.sender), arp.sender_mac, !for_us);
  }
  if (for_us && arp.operation == Arp::kRequest) {
    reply = arp_frame(arp.sender_mac, {.operation = Arp::kReply,
                                       .sender_mac = own_.mac,
                                       .sender = own_.ipv4,
                                       .target_mac = arp.sender_mac,
                                       .target = arp.sender});
  }
}

void Neighbours::take_discovery(std::span<const std::byte> frame, Frame& reply) {
  const Ipv6 ip = Ipv6::read(frame.data() + Ethernet::kBytes);
  if (ip.payload_length > frame.size() - kDiscoveryOffset || own_.ipv6 == Ipv6Address{}) {
    return;
  }
  const auto discovery = read_discovery(ip, frame.subspan(kDiscoveryOffset, ip.payload_length));
  if (!discovery || (discovery->mac && is_group(*discovery->mac))) {
    return;
  }
  if (discovery->type == kAdvertisement && discovery->mac) {
    learn(discovery->target, *discovery->mac, true);
  } else if (discovery->type == kSolicitation && discovery->target == own_.ipv6) {
    // A sender without an address asks whether our address is free (RFC 4862, 5.4): tell all stations that it is not.
    const bool has_address = ip.source != Ipv6Address{};
    if (has_address && discovery->mac) {
      learn(ip.source, *discovery->mac, false);
    }
    const Ipv6Address to = has_address ? ip.source : kAllNodes;
    const MacAddress asker = discovery->mac.value_or(Ethernet::read(frame.data()).source);
    if (is_group(asker)) {
      return;
    }
    const std::uint8_t flags = has_address ? kSolicitedFlag | kOverrideFlag : kOverrideFlag;
    reply =
        discovery_frame(has_address ? asker : mac_of_group(kAllNodes), {.source = own_.ipv6, .destination = to},
                        own_.mac, {.type = kAdvertisement, .flags = flags, .target = own_.ipv6, .mac = std::nullopt});
  }
}

// Who has not answered goes first, if it had time to, then whom nobody has heard or asked for the longest time.
void Neighbours::make_room() {
  if (entries_.size() < kMostEntries) {
    return;
  }
  const Clock::time_point now = now_();
  entries_.erase(std::ranges::min_element(entries_, {}, [now](const auto& known) {
    const Entry& entry = known.second;
    const bool may_answer = entry.mac.has_value() || now - entry.asked < kAnswersWithin;
    return std::pair(may_answer, std::max(entry.asked, entry.learnt));
  }));
}

// An unsolicited message may change known entries but adds none.
void Neighbours::learn(const Gid& gid, const MacAddress& mac, bool only_if_known) {
  auto found = entries_.find(gid);
  if (found == entries_.end()) {
    if (only_if_known) {
      return;
    }
    make_room();
    found = entries_.emplace(gid, Entry{}).first;
  }
  found->second.mac = mac;
  found->second.learnt = now_();
}

std::optional<MacAddress> Neighbours::find(const Gid& gid) const {
  if (gid == own_.ipv6 || ipv4_in(gid) == own_.ipv4) {
    return own_.mac;
  }
  const auto found = entries_.find(gid);
  return found == entries_.end() ? std::nullopt : found->second.mac;
}

Neighbours::Frame Neighbours::question_for(const Gid& gid) {
  const std::optional<Ipv4Address> ipv4 = ipv4_in(gid);
  const bool can_ask = ipv4 ? own_.ipv4 != Ipv4Address{} && *ipv4 != own_.ipv4
                            : own_.ipv6 != Ipv6Address{} && gid != own_.ipv6 && gid[0] != 0xff;
  if (!can_ask) {
    return {};
  }
  if (!entries_.contains(gid)) {
    make_room();
  }
  const Clock::time_point now = now_();
  const auto [found, is_new] = entries_.emplace(gid, Entry{});
  Entry& entry = found->second;
  if (!is_new && (now - entry.asked < kAskAgain || (entry.mac && now - entry.learnt < kFresh))) {
    return {};
  }
  entry.asked = now;
  if (ipv4) {
    return arp_frame(
        kBroadcast,
        {.operation = Arp::kRequest, .sender_mac = own_.mac, .sender = own_.ipv4, .target_mac = {}, .target = *ipv4});
  }
  const Ipv6Address group = solicited_node(gid);
  return discovery_frame(mac_of_group(group), {.source = own_.ipv6, .destination = group}, own_.mac,
                         {.type = kSolicitation, .flags = 0, .target = gid, .mac = std::nullopt});
}

}  // namespace sidelatch::roce
