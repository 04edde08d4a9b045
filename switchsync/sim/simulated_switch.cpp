#include <sidelatch/switchsync/sim/simulated_switch.h>

#include "roce/packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

namespace sidelatch::switchsync {

namespace {

using fabric::is_atomic;
using roce::Opcode;

constexpr std::size_t kFrameRoom = 10'240;
constexpr std::uint16_t kSourcePort = 0xc000;
constexpr std::uint16_t kMostStations = 511;  // as a port, 511 means drop
constexpr std::uint64_t kPicosecondsPerNanosecond = 1000;

Opcode opcode_of(fabric::Opcode opcode) {
  switch (opcode) {
    case fabric::Opcode::read:
      return Opcode::read_request;
    case fabric::Opcode::compare_swap:
      return Opcode::compare_swap;
    case fabric::Opcode::fetch_add:
      return Opcode::fetch_add;
    case fabric::Opcode::write:
      return Opcode::write_only;
    default:
      throw std::invalid_argument("a SEND or a WRITE with immediate data cannot pass a simulated switch");
  }
}

roce::Packet packet_between(std::uint16_t from, std::uint16_t to, Opcode opcode, std::uint32_t queue_pair,
                            std::uint32_t psn) {
  roce::Packet packet;
  packet.ethernet = {.destination = SimulatedSwitch::mac_of(to), .source = SimulatedSwitch::mac_of(from)};
  roce::Ipv4 ip;
  ip.source = SimulatedSwitch::ip_of(from);
  ip.destination = SimulatedSwitch::ip_of(to);
  packet.ip = ip;
  packet.udp.source_port = kSourcePort;
  packet.bth.opcode = opcode;
  packet.bth.destination_qp = queue_pair;
  packet.bth.psn = roce::Psn(psn);
  return packet;
}

std::span<const std::byte> build_in(std::vector<std::byte>& room, const roce::Packet& packet) {
  const auto built = roce::build(packet, room);
  if (const auto* const refusal = std::get_if<roce::Refusal>(&built)) {
    throw std::invalid_argument(fmt::format("a request that is not one packet: {}", roce::text(*refusal)));
  }
  return std::span(room).first(std::get<std::size_t>(built));
}

roce::Packet parsed(std::span<const std::byte> frame) {
  const auto packet = roce::parse_frame(frame, roce::IcrcCheck::no);
  if (const auto* const refusal = std::get_if<roce::Refusal>(&packet)) {
    throw std::logic_error(fmt::format("the switch has sent something that no NIC takes: {}", roce::text(*refusal)));
  }
  return std::get<roce::Packet>(packet);
}

bool is_nak(const roce::Packet& packet) {
  const bool has_syndrome = packet.bth.opcode == Opcode::acknowledge ||
                            packet.bth.opcode == Opcode::atomic_acknowledge ||
                            packet.bth.opcode == Opcode::read_response_only;
  return has_syndrome && packet.aeth.syndrome.kind() != roce::Syndrome::Kind::ack;
}

void take_payload(const roce::Packet& packet, std::span<std::byte> into) {
  if (packet.payload.size() != into.size()) {
    throw std::logic_error(
        fmt::format("the switch has made a payload of {} bytes of one of {}", packet.payload.size(), into.size()));
  }
  std::copy(packet.payload.begin(), packet.payload.end(), into.begin());
}

void take_answer(const roce::Packet& packet, fabric::sim::NetworkDevice::Message& message) {
  if (message.request.opcode == fabric::Opcode::read) {
    take_payload(packet, message.payload);
  } else if (is_atomic(message.request.opcode)) {
    message.old_value = packet.atomic_ack.original;
  }
}

}  // namespace

SwitchTiming switch_timing(std::string_view name) {
  if (name == "tofino" || name == "tofino2") {
    return {.cable = fabric::from_ns(15), .latency = fabric::from_ns(400)};
  }
  throw std::invalid_argument(fmt::format("there is no switch \"{}\"; there are: tofino, tofino2", name));
}

SimulatedSwitch::SimulatedSwitch(std::shared_ptr<const p4::Program> program, const SwitchTiming& timing)
    : timing_(timing), switch_(std::move(program)), frame_(kFrameRoom) {}

std::array<std::uint8_t, 6> SimulatedSwitch::mac_of(std::uint16_t station) noexcept {
  return {2, 0, 0, 0, static_cast<std::uint8_t>(station >> 8), static_cast<std::uint8_t>(station & 0xff)};
}

std::array<std::uint8_t, 4> SimulatedSwitch::ip_of(std::uint16_t station) noexcept {
  return {10, 0, static_cast<std::uint8_t>(station >> 8), static_cast<std::uint8_t>(station & 0xff)};
}

void SimulatedSwitch::add(std::uint64_t connection, const Ends& ends) {
  if (ends.client >= kMostStations || ends.target >= kMostStations) {
    throw std::invalid_argument(
        fmt::format("stations {} and {}: they are 0 to {}", ends.client, ends.target, kMostStations - 1));
  }
  if (!connections_.try_emplace(connection, Connection{.ends = ends, .next_psn = ends.first_psn}).second) {
    throw std::invalid_argument(fmt::format("the switch knows connection {} already", connection));
  }
}

SimulatedSwitch::Connection& SimulatedSwitch::connection_of(const Message& message) {
  const auto found = connections_.find(message.connection);
  if (found == connections_.end()) {
    throw std::invalid_argument(
        fmt::format("the switch does not know connection {}: call add() before its first request", message.connection));
  }
  return found->second;
}

std::span<const std::byte> SimulatedSwitch::encode_request(const Message& message, const Connection& connection) {
  const fabric::WorkRequest& wr = message.request;
  const Opcode opcode = opcode_of(wr.opcode);
  const Ends& ends = connection.ends;
  roce::Packet packet = packet_between(ends.client, ends.target, opcode, ends.target_queue_pair, connection.next_psn);
  packet.bth.ack_request = true;
  if (is_atomic(wr.opcode)) {
    packet.atomic = {.virtual_address = wr.remote.value,
                     .r_key = wr.rkey.value,
                     .swap_or_add = wr.swap_or_add,
                     .compare = wr.compare};
  } else {
    packet.reth = {.virtual_address = wr.remote.value,
                   .r_key = wr.rkey.value,
                   .dma_length = static_cast<std::uint32_t>(wr.length())};
    if (opcode == Opcode::write_only) {
      packet.payload = message.payload;
    }
  }
  return build_in(frame_, packet);
}

std::span<const std::byte> SimulatedSwitch::encode_answer(const Message& message, const Connection& connection) {
  const fabric::WorkRequest& wr = message.request;
  const Opcode opcode = wr.opcode == fabric::Opcode::read ? Opcode::read_response_only
                        : is_atomic(wr.opcode)            ? Opcode::atomic_acknowledge
                                                          : Opcode::acknowledge;
  const Ends& ends = connection.ends;
  roce::Packet packet =
      packet_between(ends.target, ends.client, opcode, ends.client_queue_pair, static_cast<std::uint32_t>(message.tag));
  packet.aeth.syndrome = roce::Syndrome::ack();
  packet.atomic_ack.original = message.old_value;
  if (opcode == Opcode::read_response_only) {
    packet.payload = message.payload;
  }
  return build_in(frame_, packet);
}

// What leaves for the two ends of the connection. What leaves for others has nobody to go to.
std::optional<std::uint16_t> SimulatedSwitch::run(const Ends& ends) {
  switch_.run();
  std::optional<std::uint16_t> found;
  while (const std::optional<p4::Departure> departure = switch_.departed()) {
    if (departure->port != ends.client && departure->port != ends.target) {
      continue;
    }
    if (found) {
      throw std::logic_error("the program at the simulated switch has sent two packets for one");
    }
    left_.assign(departure->bytes.begin(), departure->bytes.end());
    found = departure->port;
  }
  return found;
}

fabric::sim::NetworkDevice::Verdict SimulatedSwitch::request(Message& message) {
  Connection& connection = connection_of(message);
  switch_.set_time(static_cast<std::uint64_t>(message.now.count()) / kPicosecondsPerNanosecond);
  switch_.receive(connection.ends.client, encode_request(message, connection));
  connection.next_psn = (connection.next_psn + 1) & 0xff'ffff;
  const std::optional<std::uint16_t> port = run(connection.ends);
  if (!port) {
    return Verdict::drop;
  }
  const roce::Packet packet = parsed(left_);
  if (*port == connection.ends.client) {
    if (is_nak(packet)) {
      return Verdict::refuse;
    }
    take_answer(packet, message);
    return Verdict::answer;
  }
  const fabric::WorkRequest& wr = message.request;
  const bool is_as_sent = is_atomic(wr.opcode)
                              ? packet.atomic.virtual_address == wr.remote.value && packet.atomic.r_key == wr.rkey.value
                              : packet.reth.virtual_address == wr.remote.value && packet.reth.r_key == wr.rkey.value &&
                                    packet.reth.dma_length == wr.length();
  if (!is_as_sent) {  // a program that cannot drop a payload lets the target refuse what it has spoilt
    return Verdict::refuse;
  }
  const bool has_same_operands =
      !is_atomic(wr.opcode) || (packet.atomic.swap_or_add == wr.swap_or_add && packet.atomic.compare == wr.compare);
  if (packet.bth.opcode != opcode_of(wr.opcode) || packet.bth.destination_qp != connection.ends.target_queue_pair ||
      !has_same_operands) {
    throw std::logic_error(
        "the program at the simulated switch has changed a request's opcode, operands or queue pair, which this cannot "
        "carry out: of requests only payloads may change");
  }
  if (wr.opcode == fabric::Opcode::write) {
    take_payload(packet, message.payload);
  }
  message.tag = packet.bth.psn.value();
  return Verdict::forward;
}

void SimulatedSwitch::answer(Message& message) {
  Connection& connection = connection_of(message);
  switch_.set_time(static_cast<std::uint64_t>(message.now.count()) / kPicosecondsPerNanosecond);
  switch_.receive(connection.ends.target, encode_answer(message, connection));
  const std::optional<std::uint16_t> port = run(connection.ends);
  if (port != connection.ends.client) {
    throw std::logic_error("the program at the simulated switch does not let an answer pass");
  }
  take_answer(parsed(left_), message);
}

void SimulatedSwitch::remove(std::uint64_t connection) {
  if (connections_.erase(connection) == 0) {
    throw std::invalid_argument(fmt::format("the switch does not know connection {}", connection));
  }
}

}  // namespace sidelatch::switchsync
