// The headers of a RoCEv2 packet, each a plain struct that is read from bytes and written to bytes.
//
//   const Bth bth = Bth::read(in);   // Bth::kBytes at `in`
//   bth.write(out);
//
// read() takes any bytes; packet.h checks their values. write() takes the low bits of a field that is narrower than its
// type. Reserved fields are included, so a header that was read can be written again bit for bit; they are sent as 0.
//
// Sources: InfiniBand Architecture Specification, volume 1, chapter 9 (transport headers), and its Annex A17 (RoCEv2:
// UDP port, use of the fields of IP and UDP); RFC 791, RFC 8200 and RFC 768.
//
// Thread-safety: values.
#pragma once

#include "opcode.h"
#include "psn.h"
#include "syndrome.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sidelatch::roce {

using MacAddress = std::array<std::uint8_t, 6>;
using Ipv4Address = std::array<std::uint8_t, 4>;
using Ipv6Address = std::array<std::uint8_t, 16>;

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::uint16_t kUdpPort = 4791;  ///< destination of every RoCEv2 packet, assigned by IANA

struct Ethernet {
  static constexpr std::size_t kBytes = 14;
  MacAddress destination{};
  MacAddress source{};
  std::uint16_t ether_type = 0;

  [[nodiscard]] static Ethernet read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Ethernet&, const Ethernet&) = default;
};

/// Without options.
struct Ipv4 {
  static constexpr std::size_t kBytes = 20;
  static constexpr std::uint8_t kDontFragment = 0b010;
  static constexpr std::uint8_t kMoreFragments = 0b001;
  std::uint8_t version_and_length = 0x45;  ///< version 4, five words
  std::uint8_t type_of_service = 0;        ///< DSCP and ECN
  std::uint16_t total_length = 0;          ///< bytes, this header and everything after it
  std::uint16_t identification = 0;
  std::uint8_t flags = kDontFragment;  ///< 3 bits
  std::uint16_t fragment_offset = 0;   ///< 13 bits, in units of 8 bytes
  std::uint8_t time_to_live = 64;
  std::uint8_t protocol = kProtocolUdp;
  std::uint16_t checksum = 0;
  Ipv4Address source{};
  Ipv4Address destination{};

  [[nodiscard]] static Ipv4 read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Ipv4&, const Ipv4&) = default;
};

/// The checksum that the kBytes of an IPv4 header at `header` must have, regardless of its current field (RFC 1071).
[[nodiscard]] std::uint16_t ipv4_checksum(const std::byte* header) noexcept;

struct Ipv6 {
  static constexpr std::size_t kBytes = 40;
  std::uint8_t version = 6;          ///< 4 bits
  std::uint8_t traffic_class = 0;    ///< DSCP and ECN
  std::uint32_t flow_label = 0;      ///< 20 bits
  std::uint16_t payload_length = 0;  ///< bytes after this header
  std::uint8_t next_header = kProtocolUdp;
  std::uint8_t hop_limit = 64;
  Ipv6Address source{};
  Ipv6Address destination{};

  [[nodiscard]] static Ipv6 read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Ipv6&, const Ipv6&) = default;
};

struct Udp {
  static constexpr std::size_t kBytes = 8;
  std::uint16_t source_port =
      0;  ///< chosen by the sender, constant for a connection, so that all its packets take one path
  std::uint16_t destination_port = kUdpPort;
  std::uint16_t length = 0;  ///< bytes, this header and everything after it
  /// Sent as 0, "none", and ignored: the ICRC covers the same bytes, and better (A17).
  std::uint16_t checksum = 0;

  [[nodiscard]] static Udp read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Udp&, const Udp&) = default;
};

/// Base transport header, 9.2.
struct Bth {
  static constexpr std::size_t kBytes = 12;
  static constexpr std::uint16_t kDefaultPKey = 0xffff;
  Opcode opcode{};
  bool solicited_event = false;
  bool migration = true;               ///< MigReq; also set by senders that do not migrate
  std::uint8_t pad_count = 0;          ///< 2 bits: bytes between payload and ICRC
  std::uint8_t transport_version = 0;  ///< 4 bits
  std::uint16_t p_key = kDefaultPKey;  ///< partition
  std::uint8_t resv8a = 0;             ///< the upper two bits are FECN and BECN; not covered by the ICRC
  std::uint32_t destination_qp = 0;    ///< 24 bits
  bool ack_request = false;
  std::uint8_t resv7 = 0;  ///< 7 bits
  Psn psn;

  [[nodiscard]] static Bth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Bth&, const Bth&) = default;
};

/// Extended reliable connection header: the shared receive queue for which a request is (A14).
struct XrcEth {
  static constexpr std::size_t kBytes = 4;
  std::uint8_t reserved = 0;
  std::uint32_t srq = 0;  ///< 24 bits

  [[nodiscard]] static XrcEth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const XrcEth&, const XrcEth&) = default;
};

/// Datagram extended transport header.
struct Deth {
  static constexpr std::size_t kBytes = 8;
  std::uint32_t q_key = 0;
  std::uint8_t reserved = 0;
  std::uint32_t source_qp = 0;  ///< 24 bits

  [[nodiscard]] static Deth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Deth&, const Deth&) = default;
};

/// RDMA extended transport header.
struct Reth {
  static constexpr std::size_t kBytes = 16;
  std::uint64_t virtual_address = 0;
  std::uint32_t r_key = 0;
  std::uint32_t dma_length = 0;  ///< bytes of the whole message

  [[nodiscard]] static Reth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Reth&, const Reth&) = default;
};

/// Atomic extended transport header.
struct AtomicEth {
  static constexpr std::size_t kBytes = 28;
  std::uint64_t virtual_address = 0;
  std::uint32_t r_key = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;  ///< for CmpSwap; FetchAdd carries it, but it is ignored

  [[nodiscard]] static AtomicEth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

/// ACK extended transport header.
struct Aeth {
  static constexpr std::size_t kBytes = 4;
  Syndrome syndrome;
  std::uint32_t msn = 0;  ///< 24 bits: message sequence number

  [[nodiscard]] static Aeth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Aeth&, const Aeth&) = default;
};

/// Atomic ACK extended transport header.
struct AtomicAckEth {
  static constexpr std::size_t kBytes = 8;
  std::uint64_t original = 0;  ///< the word's value before the atomic

  [[nodiscard]] static AtomicAckEth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

/// Immediate data.
struct ImmDt {
  static constexpr std::size_t kBytes = 4;
  std::uint32_t data = 0;  ///< the first byte on the wire is the highest

  [[nodiscard]] static ImmDt read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const ImmDt&, const ImmDt&) = default;
};

/// Invalidate extended transport header.
struct Ieth {
  static constexpr std::size_t kBytes = 4;
  std::uint32_t r_key = 0;

  [[nodiscard]] static Ieth read(const std::byte* in) noexcept;
  void write(std::byte* out) const noexcept;
  friend bool operator==(const Ieth&, const Ieth&) = default;
};

}  // namespace sidelatch::roce
