// A switch with tuples, a client and a memory node that a test plays, and their packets. Packets are written by
// InfiniBand's specification, not by the project's codec.
#pragma once

#include "raw_frames.h"

#include <sidelatch/p4/program.h>
#include <sidelatch/p4/switch.h>
#include <sidelatch/switchsync/optimistic_switch.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sidelatch::switchsync::tuple_bench {

using ProgramPtr = std::shared_ptr<const p4::Program>;

inline constexpr std::uint64_t kClientMac = 0x020000000001;
inline constexpr std::uint64_t kMemoryMac = 0x020000000002;
inline constexpr std::uint32_t kClientIp = 0x0a000001;
inline constexpr std::uint32_t kMemoryIp = 0x0a000002;
inline constexpr unsigned kClientPort = 1;
inline constexpr unsigned kMemoryPort = 2;
inline constexpr std::uint32_t kClientPair = 0x17;
inline constexpr std::uint32_t kMemoryPair = 0x18;
inline constexpr std::uint32_t kKey = 0x5eed;
inline constexpr std::uint64_t kAddress = 0x7f00'0000'0000;
inline constexpr std::uint32_t kTupleBytes = 64;
inline constexpr std::uint64_t kSlotBytes = 128;
inline constexpr std::uint64_t kTuples = 4;
inline constexpr std::uint64_t kElsewhere = kAddress + kTuples * kSlotBytes;

// What leaves the switch: port, frame.
using Sent = std::vector<std::pair<unsigned, Bytes>>;

class Bench {
 public:
  Bench(ProgramPtr program, std::uint32_t first_psn, std::uint64_t first_version = 0)
      : device_(std::move(program), {.ports = 3, .icrc = true}), control_(device_.state()) {
    control_.add_station({2, 0, 0, 0, 0, 1}, kClientPort);
    control_.add_station({2, 0, 0, 0, 0, 2}, kMemoryPort);
    control_.add_tuples({.memory_node = {10, 0, 0, 2},
                         .rkey = kKey,
                         .address = kAddress,
                         .count = kTuples,
                         .tuple_bytes = kTupleBytes,
                         .slot_bytes = kSlotBytes,
                         .is_new = true});
    control_.install_version(0, first_version);
    connection_ = control_.connect({.client = {10, 0, 0, 1},
                                    .client_queue_pair = kClientPair,
                                    .client_psn = first_psn,
                                    .memory_node = {10, 0, 0, 2},
                                    .memory_queue_pair = kMemoryPair});
  }
  [[nodiscard]] std::uint64_t version(std::uint32_t tuple = 0) const { return control_.version(tuple); }
  [[nodiscard]] bool is_held(std::uint32_t tuple = 0) const { return control_.holder(tuple) == connection_; }

  [[nodiscard]] p4::State& state() { return device_.state(); }
  [[nodiscard]] p4::Switch& device() { return device_; }
  // The client has died.
  [[nodiscard]] Released end() {
    control_.fence(connection_);
    return control_.release(connection_);
  }

  Sent send(const Bytes& frame, unsigned from = kClientPort) {
    device_.receive(static_cast<std::uint16_t>(from), frame);
    return run();
  }
  // So many times, before the switch begins with any.
  Sent send_times(std::size_t times, const RawFrame& frame) {
    for (std::size_t i = 0; i < times; ++i) {
      device_.receive(kClientPort, frame.bytes());
    }
    return run();
  }
  Sent run() {
    EXPECT_TRUE(device_.run());
    Sent sent;
    while (const auto departed = device_.departed()) {
      sent.emplace_back(departed->port, Bytes(departed->bytes.begin(), departed->bytes.end()));
    }
    return sent;
  }
  Sent send(const RawFrame& frame, unsigned from = kClientPort) { return send(frame.bytes(), from); }
  // From the memory node.
  Sent back(const RawFrame& frame) { return send(frame, kMemoryPort); }

 private:
  p4::Switch device_;
  OptimisticSwitch control_;
  OptimisticSwitch::ConnectionId connection_ = 0;
};

inline RawFrame request(unsigned opcode, std::uint32_t psn, Bytes rest) {
  return {.to_mac = kMemoryMac,
          .from_mac = kClientMac,
          .from_ip = kClientIp,
          .to_ip = kMemoryIp,
          .opcode = opcode,
          .queue_pair = kMemoryPair,
          .psn = psn,
          .rest = std::move(rest)};
}
inline std::uint64_t at(std::uint64_t tuple) { return kAddress + tuple * kSlotBytes; }
inline Bytes tuple_of(std::uint64_t word, unsigned content = 0xcd) {
  Bytes bytes = in_memory(word);
  bytes.resize(kTupleBytes, static_cast<std::byte>(content));
  return bytes;
}
inline RawFrame read(std::uint32_t psn, std::uint64_t tuple = 0) {
  return request(raw::kReadRequest, psn, raw::reth(at(tuple), kKey, kTupleBytes));
}
inline RawFrame read_word(std::uint32_t psn, std::uint64_t tuple = 0) {
  return request(raw::kReadRequest, psn, raw::reth(at(tuple), kKey, 8));
}
inline RawFrame swap(std::uint32_t psn, std::uint64_t compare, std::uint64_t value, std::uint64_t tuple = 0) {
  return request(raw::kCompareSwap, psn, raw::atomic(at(tuple), kKey, value, compare));
}
inline RawFrame write(std::uint32_t psn, std::uint64_t word = 0xdead, std::uint64_t tuple = 0) {
  return request(raw::kWriteOnly, psn, raw::reth(at(tuple), kKey, kTupleBytes, tuple_of(word)));
}

inline RawFrame answer(unsigned opcode, std::uint32_t psn, Bytes rest) {
  return {.to_mac = kClientMac,
          .from_mac = kMemoryMac,
          .from_ip = kMemoryIp,
          .to_ip = kClientIp,
          .opcode = opcode,
          .queue_pair = kClientPair,
          .ack_request = false,
          .psn = psn,
          .rest = std::move(rest)};
}
inline RawFrame response(std::uint32_t psn, std::uint32_t msn, std::uint64_t word) {
  return answer(raw::kReadResponse, psn, raw::aeth(raw::kAck, msn, tuple_of(word)));
}
inline RawFrame ack(std::uint32_t psn, std::uint32_t msn, unsigned syndrome = raw::kAck) {
  return answer(raw::kAcknowledge, psn, raw::aeth(syndrome, msn));
}

inline Sent passed(RawFrame frame, std::uint32_t psn) {
  frame.psn = psn;
  frame.ack_request = true;
  return {{kMemoryPort, frame.bytes()}};
}
inline Sent to_client(const RawFrame& frame) { return {{kClientPort, frame.bytes()}}; }
inline Sent atomic_ack(std::uint32_t psn, std::uint32_t msn, std::uint64_t old) {
  return to_client(answer(raw::kAtomicAcknowledge, psn, raw::aeth(raw::kAck, msn, raw::number(old))));
}
inline Sent word_response(std::uint32_t psn, std::uint32_t msn, std::uint64_t version) {
  return to_client(answer(raw::kReadResponse, psn, raw::aeth(raw::kAck, msn, in_memory(version))));
}

}  // namespace sidelatch::switchsync::tuple_bench
