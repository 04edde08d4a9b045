#include "headers.h"

#include "big_endian.h"

#include <cstring>

namespace sidelatch::roce {

namespace {

template <std::size_t N>
std::array<std::uint8_t, N> load_address(const std::byte* in) noexcept {
  std::array<std::uint8_t, N> address{};
  std::memcpy(address.data(), in, N);
  return address;
}

template <std::size_t N>
void store_address(std::byte* out, const std::array<std::uint8_t, N>& address) noexcept {
  std::memcpy(out, address.data(), N);
}

bool bit(std::byte byte, unsigned number) noexcept { return (std::to_integer<unsigned>(byte) >> number & 1) != 0; }

unsigned at_bit(bool value, unsigned number) noexcept { return value ? 1U << number : 0U; }

}  // namespace

Ethernet Ethernet::read(const std::byte* in) noexcept {
  return {.destination = load_address<6>(in), .source = load_address<6>(in + 6), .ether_type = load16(in + 12)};
}

void Ethernet::write(std::byte* out) const noexcept {
  store_address(out, destination);
  store_address(out + 6, source);
  store16(out + 12, ether_type);
}

Ipv4 Ipv4::read(const std::byte* in) noexcept {
  return {.version_and_length = load8(in),
          .type_of_service = load8(in + 1),
          .total_length = load16(in + 2),
          .identification = load16(in + 4),
          .flags = static_cast<std::uint8_t>(load8(in + 6) >> 5),
          .fragment_offset = static_cast<std::uint16_t>(load16(in + 6) & 0x1fff),
          .time_to_live = load8(in + 8),
          .protocol = load8(in + 9),
          .checksum = load16(in + 10),
          .source = load_address<4>(in + 12),
          .destination = load_address<4>(in + 16)};
}

void Ipv4::write(std::byte* out) const noexcept {
  store8(out, version_and_length);
  store8(out + 1, type_of_service);
  store16(out + 2, total_length);
  store16(out + 4, identification);
  store16(out + 6, static_cast<std::uint16_t>((flags & 7U) << 13 | (fragment_offset & 0x1fffU)));
  store8(out + 8, time_to_live);
  store8(out + 9, protocol);
  store16(out + 10, checksum);
  store_address(out + 12, source);
  store_address(out + 16, destination);
}

std::uint16_t ipv4_checksum(const std::byte* header) noexcept {
  // Leaves out the checksum itself, at byte 10. Sums words of 32 bits; their halves are added below.
  std::uint64_t sum = std::uint64_t{load32(header)} + load32(header + 4) + (load32(header + 8) & 0xffff0000) +
                      load32(header + 12) + load32(header + 16);
  // Ones' complement: carries are added at the low end.
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

Ipv6 Ipv6::read(const std::byte* in) noexcept {
  const std::uint32_t first = load32(in);
  return {.version = static_cast<std::uint8_t>(first >> 28),
          .traffic_class = static_cast<std::uint8_t>(first >> 20),
          .flow_label = first & 0xfffff,
          .payload_length = load16(in + 4),
          .next_header = load8(in + 6),
          .hop_limit = load8(in + 7),
          .source = load_address<16>(in + 8),
          .destination = load_address<16>(in + 24)};
}

void Ipv6::write(std::byte* out) const noexcept {
  store32(out, (version & 0xfU) << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xfffffU));
  store16(out + 4, payload_length);
  store8(out + 6, next_header);
  store8(out + 7, hop_limit);
  store_address(out + 8, source);
  store_address(out + 24, destination);
}

Udp Udp::read(const std::byte* in) noexcept {
  return {.source_port = load16(in),
          .destination_port = load16(in + 2),
          .length = load16(in + 4),
          .checksum = load16(in + 6)};
}

void Udp::write(std::byte* out) const noexcept {
  store16(out, source_port);
  store16(out + 2, destination_port);
  store16(out + 4, length);
  store16(out + 6, checksum);
}

Bth Bth::read(const std::byte* in) noexcept {
  return {.opcode = static_cast<Opcode>(in[0]),
          .solicited_event = bit(in[1], 7),
          .migration = bit(in[1], 6),
          .pad_count = static_cast<std::uint8_t>(load8(in + 1) >> 4 & 3),
          .transport_version = static_cast<std::uint8_t>(load8(in + 1) & 0xf),
          .p_key = load16(in + 2),
          .resv8a = load8(in + 4),
          .destination_qp = load24(in + 5),
          .ack_request = bit(in[8], 7),
          .resv7 = static_cast<std::uint8_t>(load8(in + 8) & 0x7f),
          .psn = Psn(load24(in + 9))};
}

void Bth::write(std::byte* out) const noexcept {
  store8(out, static_cast<std::uint8_t>(opcode));
  store8(out + 1, static_cast<std::uint8_t>(at_bit(solicited_event, 7) | at_bit(migration, 6) | (pad_count & 3U) << 4 |
                                            (transport_version & 0xfU)));
  store16(out + 2, p_key);
  store8(out + 4, resv8a);
  store24(out + 5, destination_qp);
  store8(out + 8, static_cast<std::uint8_t>(at_bit(ack_request, 7) | (resv7 & 0x7fU)));
  store24(out + 9, psn.value());
}

XrcEth XrcEth::read(const std::byte* in) noexcept { return {.reserved = load8(in), .srq = load24(in + 1)}; }

void XrcEth::write(std::byte* out) const noexcept {
  store8(out, reserved);
  store24(out + 1, srq);
}

Deth Deth::read(const std::byte* in) noexcept {
  return {.q_key = load32(in), .reserved = load8(in + 4), .source_qp = load24(in + 5)};
}

void Deth::write(std::byte* out) const noexcept {
  store32(out, q_key);
  store8(out + 4, reserved);
  store24(out + 5, source_qp);
}

Reth Reth::read(const std::byte* in) noexcept {
  return {.virtual_address = load64(in), .r_key = load32(in + 8), .dma_length = load32(in + 12)};
}

void Reth::write(std::byte* out) const noexcept {
  store64(out, virtual_address);
  store32(out + 8, r_key);
  store32(out + 12, dma_length);
}

AtomicEth AtomicEth::read(const std::byte* in) noexcept {
  return {.virtual_address = load64(in),
          .r_key = load32(in + 8),
          .swap_or_add = load64(in + 12),
          .compare = load64(in + 20)};
}

void AtomicEth::write(std::byte* out) const noexcept {
  store64(out, virtual_address);
  store32(out + 8, r_key);
  store64(out + 12, swap_or_add);
  store64(out + 20, compare);
}

Aeth Aeth::read(const std::byte* in) noexcept { return {.syndrome = Syndrome(load8(in)), .msn = load24(in + 1)}; }

void Aeth::write(std::byte* out) const noexcept {
  store8(out, syndrome.byte());
  store24(out + 1, msn);
}

AtomicAckEth AtomicAckEth::read(const std::byte* in) noexcept { return {.original = load64(in)}; }

void AtomicAckEth::write(std::byte* out) const noexcept { store64(out, original); }

ImmDt ImmDt::read(const std::byte* in) noexcept { return {.data = load32(in)}; }

void ImmDt::write(std::byte* out) const noexcept { store32(out, data); }

Ieth Ieth::read(const std::byte* in) noexcept { return {.r_key = load32(in)}; }

void Ieth::write(std::byte* out) const noexcept { store32(out, r_key); }

}  // namespace sidelatch::roce
