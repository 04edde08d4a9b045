// Frames of RoCEv2 as bytes, by the tables of the specification: nothing here is shared with the project's codec.
// (InfiniBand Architecture Specification, volume 1, chapter 9 and Annex A17; RFC 791, 768.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::switchsync {

using Bytes = std::vector<std::byte>;

/// Big-endian, behind what is there.
inline void put(Bytes& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) {
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

/// The lowest byte first: a word as memory has it.
inline Bytes in_memory(std::uint64_t word) {
  Bytes bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<std::byte>(word >> (8 * i)));
  }
  return bytes;
}

/// A packet, each field of which can be wrong. What is absent is made to fit.
struct RawFrame {
  std::uint64_t to_mac = 0;
  std::uint64_t from_mac = 0;
  std::uint32_t from_ip = 0;
  std::uint32_t to_ip = 0;
  unsigned version_and_words = 0x45;
  unsigned service = 2;  // ECT(0)
  std::optional<unsigned> ip_bytes{};
  unsigned id = 0;
  unsigned flags_and_fragment = 0x4000;  // don't fragment
  unsigned ttl = 64;
  unsigned protocol = 17;
  unsigned from_port = 0xc001;
  unsigned to_port = 4791;
  std::optional<unsigned> udp_bytes{};
  unsigned opcode = 0;
  unsigned flags = 0x40;  // solicited, MigReq, pad count, TVer
  unsigned pkey = 0xffff;
  unsigned reserved8a = 0;
  std::uint32_t queue_pair = 0;
  bool ack_request = true;
  std::uint32_t psn = 0;
  Bytes rest{};                  // extended headers, and payload
  std::uint32_t icrc_error = 0;  // what the ICRC differs by
  unsigned options = 0;          // words of zeros behind IPv4's header

  [[nodiscard]] Bytes bytes() const {
    Bytes out;
    put(out, to_mac, 6);
    put(out, from_mac, 6);
    put(out, 0x0800, 2);
    const auto udp = static_cast<unsigned>(8 + 12 + rest.size() + 4);
    put(out, version_and_words, 1);
    put(out, service, 1);
    put(out, ip_bytes.value_or(20 + 4 * options + udp), 2);
    put(out, id, 2);
    put(out, flags_and_fragment, 2);
    put(out, ttl, 1);
    put(out, protocol, 1);
    put(out, 0, 2);
    put(out, from_ip, 4);
    put(out, to_ip, 4);
    put(out, 0, std::size_t{4} * options);
    std::uint32_t sum = 0;
    for (std::size_t i = 14; i < 34 + std::size_t{4} * options; i += 2) {
      sum += std::to_integer<std::uint32_t>(out[i]) << 8 | std::to_integer<std::uint32_t>(out[i + 1]);
    }
    while (sum >> 16 != 0) {
      sum = (sum & 0xffff) + (sum >> 16);
    }
    out[24] = static_cast<std::byte>(~sum >> 8);
    out[25] = static_cast<std::byte>(~sum);
    put(out, from_port, 2);
    put(out, to_port, 2);
    put(out, udp_bytes.value_or(udp), 2);
    put(out, 0, 2);
    put(out, opcode, 1);
    put(out, flags, 1);
    put(out, pkey, 2);
    put(out, reserved8a, 1);
    put(out, queue_pair, 3);
    put(out, ack_request ? 0x80 : 0, 1);
    put(out, psn, 3);
    out.insert(out.end(), rest.begin(), rest.end());
    std::uint32_t crc = icrc_of(out, 4 * options) ^ icrc_error;
    for (int i = 0; i < 4; ++i) {
      out.push_back(static_cast<std::byte>(crc));
      crc >>= 8;
    }
    return out;
  }

 private:
  // Annex A17: CRC-32 over 8 bytes of ones and the packet, in which the fields that routers change are ones.
  static std::uint32_t icrc_of(std::span<const std::byte> frame, std::size_t options) {
    std::uint32_t crc = 0xffffffff;
    const auto take = [&](std::uint32_t byte) {
      crc ^= byte;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
      }
    };
    for (int i = 0; i < 8; ++i) {
      take(0xff);
    }
    for (std::size_t i = 14; i < frame.size(); ++i) {
      const std::size_t in_udp = i - 34 - options;
      const bool varies = i == 15 || i == 22 || i == 24 || i == 25 ||
                          (i >= 34 + options && (in_udp == 6 || in_udp == 7 || in_udp == 12));
      take(varies ? 0xff : std::to_integer<std::uint32_t>(frame[i]));
    }
    return ~crc;
  }
};

namespace raw {

inline constexpr unsigned kWriteOnly = 0x0a;
inline constexpr unsigned kReadRequest = 0x0c;
inline constexpr unsigned kReadResponse = 0x10;
inline constexpr unsigned kAcknowledge = 0x11;
inline constexpr unsigned kAtomicAcknowledge = 0x12;
inline constexpr unsigned kCompareSwap = 0x13;
inline constexpr unsigned kFetchAdd = 0x14;

inline constexpr unsigned kAck = 0x1f;
inline constexpr unsigned kNakSequence = 0x60;
inline constexpr unsigned kNakInvalid = 0x61;
inline constexpr unsigned kNakAccess = 0x62;

inline Bytes reth(std::uint64_t address, std::uint32_t key, std::uint32_t bytes, const Bytes& payload = {}) {
  Bytes out;
  put(out, address, 8);
  put(out, key, 4);
  put(out, bytes, 4);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

inline Bytes atomic(std::uint64_t address, std::uint32_t key, std::uint64_t swap_or_add, std::uint64_t compare) {
  Bytes out;
  put(out, address, 8);
  put(out, key, 4);
  put(out, swap_or_add, 8);
  put(out, compare, 8);
  return out;
}

inline Bytes aeth(unsigned syndrome, std::uint32_t msn, const Bytes& payload = {}) {
  Bytes out;
  put(out, syndrome, 1);
  put(out, msn & 0xffffff, 3);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

inline Bytes number(std::uint64_t value) {
  Bytes out;
  put(out, value, 8);
  return out;
}

}  // namespace raw
}  // namespace sidelatch::switchsync
