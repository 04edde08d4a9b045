#include "samples.h"
#include "tests/paths.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace sidelatch::roce {

namespace {

const std::string kData = in_source_tree("tests/data/roce/");

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// The capture was written by a little-endian machine.
std::uint32_t number(const std::string& text, std::size_t offset) {
  std::uint32_t value = 0;
  if (offset + sizeof value > text.size()) {
    throw std::runtime_error("a capture ends early");
  }
  std::memcpy(&value, text.data() + offset, sizeof value);
  return value;
}

}  // namespace

Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  std::string digits;
  for (const char c : hex) {
    if (c != ' ' && c != '\n') {
      digits += c;
    }
  }
  for (std::size_t i = 0; i + 2 <= digits.size(); i += 2) {
    unsigned value = 0;
    if (std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16).ptr != digits.data() + i + 2) {
      throw std::runtime_error("no hexadecimal number: " + digits.substr(i, 2));
    }
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<std::size_t>(byte) >> 4];
    hex += kDigits[std::to_integer<std::size_t>(byte) & 15];
  }
  return hex;
}

Bytes payload_of(std::size_t n) {
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + 3);
  }
  return bytes;
}

Packet sample(int ip_version, Opcode opcode, std::span<const std::byte> payload) {
  Packet packet;
  packet.ethernet = Ethernet{.destination = {2, 0, 0, 0, 0, 2}, .source = {2, 0, 0, 0, 0, 1}};
  if (ip_version == 4) {
    packet.ip = Ipv4{.type_of_service = 0x29,
                     .identification = 0x1234,
                     .time_to_live = 63,
                     .source = {10, 1, 2, 3},
                     .destination = {10, 4, 5, 6}};
  } else {
    packet.ip = Ipv6{.traffic_class = 0x5a,
                     .flow_label = 0xabcde,
                     .hop_limit = 61,
                     .source = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2},
                     .destination = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4}};
  }
  packet.udp.source_port = 0xc123;
  packet.bth = Bth{.opcode = opcode,
                   .solicited_event = true,
                   .migration = false,
                   .p_key = 0x8765,
                   .resv8a = 0x95,
                   .destination_qp = 0x123456,
                   .ack_request = true,
                   .resv7 = 0x2a,
                   .psn = Psn(0xfedcba)};
  packet.xrceth = {.reserved = 5, .srq = 0x616263};
  packet.deth = {.q_key = 0x80010203, .reserved = 7, .source_qp = 0x0a0b0c};
  packet.reth = {.virtual_address = 0x1122334455667788, .r_key = 0x99aabbcc, .dma_length = 0x00012345};
  packet.atomic = {.virtual_address = 0x0102030405060708,
                   .r_key = 0x090a0b0c,
                   .swap_or_add = 0x1112131415161718,
                   .compare = 0x2122232425262728};
  packet.aeth = {.syndrome = Syndrome::rnr_nak(13), .msn = 0x314159};
  packet.atomic_ack = {.original = 0xa1a2a3a4a5a6a7a8};
  packet.immediate = {.data = 0xc0ffee01};
  packet.ieth = {.r_key = 0xdeadbe0f};
  packet.payload = payload;
  return packet;
}

Bytes built(const Packet& packet) {
  Bytes bytes(encoded_bytes(packet), std::byte{0xee});
  const auto result = build(packet, bytes);
  if (const auto* const refusal = std::get_if<Refusal>(&result)) {
    ADD_FAILURE() << name(packet.bth.opcode) << ": " << text(*refusal);
    return {};
  }
  EXPECT_EQ(std::get<std::size_t>(result), bytes.size());
  return bytes;
}

std::vector<Vector> read_vectors() {
  std::vector<Vector> vectors;
  std::istringstream lines(slurp(kData + "vectors.txt"));
  int ip_version = 0;
  unsigned opcode = 0;
  std::size_t payload_bytes = 0;
  std::string hex;
  while (lines >> ip_version >> std::hex >> opcode >> std::dec >> payload_bytes >> hex) {
    vectors.push_back({ip_version, static_cast<Opcode>(opcode), payload_bytes, from_hex(hex)});
  }
  return vectors;
}

std::vector<Bytes> read_capture(const std::string& name) {
  constexpr std::uint32_t kMagic = 0xa1b2c3d4;
  constexpr std::uint32_t kEthernet = 1;
  constexpr std::size_t kFileHeader = 24;
  constexpr std::size_t kRecordHeader = 16;
  const std::string text = slurp(kData + name);
  if (number(text, 0) != kMagic || number(text, 20) != kEthernet) {
    throw std::runtime_error(name + " is no capture of Ethernet frames");
  }
  std::vector<Bytes> frames;
  for (std::size_t offset = kFileHeader; offset < text.size();) {
    const std::size_t length = number(text, offset + 8);
    if (length != number(text, offset + 12) || offset + kRecordHeader + length > text.size()) {
      throw std::runtime_error(name + " has a frame that was cut");
    }
    const auto* const frame = reinterpret_cast<const std::byte*>(text.data()) + offset + kRecordHeader;
    frames.emplace_back(frame, frame + length);
    offset += kRecordHeader + length;
  }
  return frames;
}

std::vector<Opcode> all_opcodes() {
  std::vector<Opcode> opcodes;
  for (unsigned number = 0; number < 256; ++number) {
    if (traits_of(static_cast<Opcode>(number))) {
      opcodes.push_back(static_cast<Opcode>(number));
    }
  }
  return opcodes;
}

std::size_t some_length(Opcode opcode) {
  switch (traits_of(opcode).value().payload) {
    case PayloadRule::none:
      return 0;
    case PayloadRule::exact:
      return 256;
    case PayloadRule::non_empty:
      return 5;
    case PayloadRule::any:
      return 6;
    case PayloadRule::word:
      return 8;
  }
  return 0;
}

}  // namespace sidelatch::roce
