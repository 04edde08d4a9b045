// The frames of a search as packets: what the program sees, and what it sends.
#pragma once

#include "optimistic_search_world.h"

#include "roce/packet.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <variant>

namespace sidelatch::switchsync::packets {

inline roce::Ipv4Address client_ip(std::size_t i) { return {10, 0, 0, static_cast<std::uint8_t>(i + 1)}; }
inline std::uint32_t client_pair(std::size_t i) { return static_cast<std::uint32_t>(0x100 + i); }
inline std::uint32_t memory_pair(std::size_t i) { return static_cast<std::uint32_t>(0x200 + i); }
inline roce::MacAddress mac_of(std::size_t i) { return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)}; }

inline std::span<const std::byte> encode(std::size_t i, std::size_t memory_station, bool is_request, const Frame& frame,
                                         std::span<std::byte> buffer) {
  roce::Packet packet;
  packet.ethernet = {.destination = mac_of(is_request ? memory_station : i),
                     .source = mac_of(is_request ? i : memory_station)};
  roce::Ipv4 ip;
  ip.source = is_request ? client_ip(i) : kMemoryIp;
  ip.destination = is_request ? kMemoryIp : client_ip(i);
  packet.ip = ip;
  packet.bth.opcode = frame.opcode;
  packet.bth.destination_qp = is_request ? memory_pair(i) : client_pair(i);
  packet.bth.psn = roce::Psn(frame.psn);
  packet.reth = {.virtual_address = kAddress, .r_key = kKey, .dma_length = frame.is_tuple ? kTupleBytes : 8};
  packet.atomic = {.virtual_address = kAddress, .r_key = kKey, .swap_or_add = frame.swap, .compare = frame.word};
  packet.aeth.syndrome = frame.is_nak ? roce::Syndrome::nak(roce::NakCode::psn_sequence_error) : roce::Syndrome::ack();
  std::array<std::byte, kTupleBytes> payload{};
  std::memcpy(payload.data(), &frame.word, sizeof frame.word);
  payload[8] = static_cast<std::byte>(frame.lines[0]);
  payload[64] = static_cast<std::byte>(frame.lines[1]);
  if (frame.opcode == Opcode::write_only || frame.opcode == Opcode::read_response_only) {
    packet.payload = std::span<const std::byte>(payload).first(frame.is_tuple ? kTupleBytes : 8);
  }
  const auto built = roce::build(packet, buffer);
  if (std::holds_alternative<roce::Refusal>(built)) {
    throw std::logic_error("a frame that cannot be built");
  }
  return {buffer.data(), std::get<std::size_t>(built)};
}

inline Frame decode(std::span<const std::byte> bytes) {
  const auto parsed = roce::parse_frame(bytes, roce::IcrcCheck::no);
  const auto* const packet = std::get_if<roce::Packet>(&parsed);
  if (packet == nullptr) {
    throw std::logic_error("the switch has sent something that is no packet");
  }
  Frame frame{.opcode = packet->bth.opcode, .psn = packet->bth.psn.value()};
  frame.is_nak = frame.opcode == Opcode::acknowledge && packet->aeth.syndrome.kind() != roce::Syndrome::Kind::ack;
  if (frame.opcode == Opcode::compare_swap) {
    frame.word = packet->atomic.compare;
    frame.swap = packet->atomic.swap_or_add;
  } else if (frame.opcode == Opcode::atomic_acknowledge) {
    frame.word = packet->atomic_ack.original;
  } else if (packet->payload.size() >= 8) {
    std::memcpy(&frame.word, packet->payload.data(), 8);
    frame.is_tuple = packet->payload.size() == kTupleBytes;
    if (frame.is_tuple) {
      frame.lines = {static_cast<std::uint8_t>(packet->payload[8]), static_cast<std::uint8_t>(packet->payload[64])};
    }
  } else if (frame.opcode == Opcode::read_request) {
    frame.is_tuple = packet->reth.dma_length == kTupleBytes;
  }
  return frame;
}

}  // namespace sidelatch::switchsync::packets
