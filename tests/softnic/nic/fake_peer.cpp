#include "fake_peer.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace sidelatch::softnic::nic {

namespace {

constexpr MacAddress kMac{2, 9, 9, 9, 9, 9};
const Gid kGid = gid_of({10, 0, 0, 99});

}  // namespace

FakePeer::FakePeer(Host& its_host, const Link& link, const QueuePairOptions& options)
    : host(its_host),
      pair(its_host.nic.make_queue_pair(options)),
      path_({.mac = its_host.nic.options().mac, .gid = its_host.nic.options().gids[0]}, kMac, kGid, kQueuePair,
            pair.number()) {
  bring_up(pair, link, {.mac = kMac, .gid = kGid}, kQueuePair, kToHost, kFromHost);
}

Packet FakePeer::packet(Opcode opcode, Psn psn, std::span<const std::byte> payload) {
  Packet made = path_.packet();
  made.bth.opcode = opcode;
  made.bth.psn = psn;
  made.bth.ack_request = true;
  made.payload = payloads_.emplace_back(payload.begin(), payload.end());
  return made;
}

Packet FakePeer::write(Psn psn, std::size_t address, std::span<const std::byte> payload) {
  Packet made = packet(Opcode::write_only, psn, payload);
  made.reth = {host.address(address), host.key, static_cast<std::uint32_t>(payload.size())};
  return made;
}

Packet FakePeer::read(Psn psn, std::size_t address, std::uint32_t length) {
  Packet made = packet(Opcode::read_request, psn);
  made.reth = {host.address(address), host.key, length};
  return made;
}

Packet FakePeer::fetch_add(Psn psn, std::size_t address, std::uint64_t addend) {
  Packet made = packet(Opcode::fetch_add, psn);
  made.atomic = {host.address(address), host.key, addend, 0};
  return made;
}

Packet FakePeer::acknowledge(Psn psn, Syndrome syndrome, std::uint32_t msn) {
  Packet made = packet(Opcode::acknowledge, psn);
  made.aeth = {syndrome, msn};
  return made;
}

std::vector<Heard> FakePeer::tell(const Packet& made) {
  std::vector<std::byte> frame(encoded_bytes(made));
  if (!std::holds_alternative<std::size_t>(build(made, frame))) {
    throw std::runtime_error("the packet cannot be built");
  }
  return tell_frame(frame);
}

std::vector<Heard> FakePeer::tell_frame(std::span<const std::byte> frame) {
  // In memory of exactly its size, so that AddressSanitizer detects reads outside.
  const std::vector<std::byte> exact(frame.begin(), frame.end());
  host.nic.on_frame(exact, now);
  return listen();
}

std::vector<Heard> FakePeer::listen() {
  std::vector<Heard> heard;
  std::vector<std::byte> buffer(kFrameRoom);
  while (const std::size_t bytes = host.nic.pull_frame(buffer, now)) {
    Heard& next = heard.emplace_back();
    next.frame.assign(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
    next.packet = std::get<Packet>(parse_frame(next.frame));
    EXPECT_EQ(next.packet.bth.destination_qp, pair.state() == QueuePairState::reset ? 0 : kQueuePair);
  }
  return heard;
}

std::vector<Heard> FakePeer::wait(Time duration) {
  now += duration;
  host.nic.advance(now);
  return listen();
}

const Packet& only(const std::vector<Heard>& heard) {
  if (heard.size() != 1) {
    throw std::runtime_error(std::to_string(heard.size()) + " packets were heard, not one");
  }
  return heard[0].packet;
}

Syndrome syndrome_of(const std::vector<Heard>& heard) { return only(heard).aeth.syndrome; }

}  // namespace sidelatch::softnic::nic
