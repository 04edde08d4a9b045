// One entry of a send queue, as plain data.
//
//   WorkRequest latch = compare_swap(latch_word, 0, 1);
//   WorkRequest copy  = read(buffer, object);
//   auto old = co_await qp.submit(latch, copy);      // one doorbell; old[0] is the latch's former value
//
// Offsets, lengths and alignments are checked when the request is posted (QueuePair::post), before any of its chain
// reaches the NIC. An atomic's old value is delivered to `local` (8 bytes) if given, else to a slot of the queue pair,
// from which submit() returns it.
#pragma once

#include <sidelatch/fabric/types.h>

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace sidelatch::fabric {

enum class Opcode : std::uint8_t {
  write,
  read,
  compare_swap,
  fetch_add,
  send,
  recv,
  send_with_immediate,
  write_with_immediate,
};

/// The verb's name as messages print it: "WRITE", "READ", "CAS", "FETCH-ADD", "SEND", "RECV", "SEND with immediate",
/// "WRITE with immediate".
[[nodiscard]] std::string_view name(Opcode opcode);

[[nodiscard]] constexpr bool is_atomic(Opcode op) { return op == Opcode::compare_swap || op == Opcode::fetch_add; }
/// Whether its payload goes into a receive buffer of the peer.
[[nodiscard]] constexpr bool is_send(Opcode op) { return op == Opcode::send || op == Opcode::send_with_immediate; }
/// Whether its payload goes to an address of the peer.
[[nodiscard]] constexpr bool is_write(Opcode op) { return op == Opcode::write || op == Opcode::write_with_immediate; }
/// Whether it takes a receive buffer of the peer, which then is told of it.
[[nodiscard]] constexpr bool is_message(Opcode op) { return is_send(op) || op == Opcode::write_with_immediate; }

struct WorkRequest {
  Opcode opcode = Opcode::write;
  /// Ask for a completion of this request. submit() signals the last request of its chain by itself.
  bool signaled = false;
  /// Start only after every earlier READ and atomic of this queue pair has completed (memory model, rule 6).
  bool fence = false;
  /// Bind the payload when the request is posted, so that its buffer may be reused at once. At most
  /// QueuePairOptions::max_inline bytes.
  bool inlined = false;
  /// SEND and WRITE with immediate: the 32 bits that the peer is told beside the payload.
  std::uint32_t immediate = 0;
  LocalSpan local;
  RemoteAddress remote;
  RKey rkey;
  std::uint32_t reserved = 0;     ///< so that there is no padding
  std::uint64_t compare = 0;      ///< CAS: the expected value
  std::uint64_t swap_or_add = 0;  ///< CAS: the desired value; FETCH-ADD: the addend, modulo 2^64

  /// Bytes this request moves over the network: the local length, or 8 for an atomic.
  [[nodiscard]] constexpr std::uint64_t length() const { return is_atomic(opcode) ? 8 : local.length; }
  [[nodiscard]] constexpr WorkRequest with_fence() const {
    WorkRequest w = *this;
    w.fence = true;
    return w;
  }
  [[nodiscard]] constexpr WorkRequest with_inline() const {
    WorkRequest w = *this;
    w.inlined = true;
    return w;
  }
  [[nodiscard]] constexpr WorkRequest with_signal() const {
    WorkRequest w = *this;
    w.signaled = true;
    return w;
  }
};
static_assert(std::has_unique_object_representations_v<WorkRequest>);

namespace detail {

[[noreturn]] void throw_no_room(Opcode opcode, std::uint64_t bytes, const RemoteSpan& remote);

inline WorkRequest one_sided(Opcode opcode, std::uint64_t bytes, const RemoteSpan& remote) {
  if (remote.length < bytes) [[unlikely]] {
    throw_no_room(opcode, bytes, remote);
  }
  WorkRequest wr;
  wr.opcode = opcode;
  wr.remote = remote.address;
  wr.rkey = remote.rkey;
  return wr;
}

}  // namespace detail

/// WRITE of all of `from` to the start of `to`; `to` must be at least as long.
[[nodiscard]] inline WorkRequest write(const LocalSpan& from, const RemoteSpan& to) {
  WorkRequest wr = detail::one_sided(Opcode::write, from.length, to);
  wr.local = from;
  return wr;
}
/// READ of `into.length` bytes from the start of `from`; `from` must be at least as long.
[[nodiscard]] inline WorkRequest read(const LocalSpan& into, const RemoteSpan& from) {
  WorkRequest wr = detail::one_sided(Opcode::read, into.length, from);
  wr.local = into;
  return wr;
}
/// Compare-and-swap of the 8-byte, 8-byte aligned word at the start of `word`.
[[nodiscard]] inline WorkRequest compare_swap(const RemoteSpan& word, std::uint64_t expected, std::uint64_t desired) {
  WorkRequest wr = detail::one_sided(Opcode::compare_swap, 8, word);
  wr.compare = expected;
  wr.swap_or_add = desired;
  return wr;
}
/// Fetch-and-add on the 8-byte, 8-byte aligned word at the start of `word`; wraps around.
[[nodiscard]] inline WorkRequest fetch_add(const RemoteSpan& word, std::uint64_t addend) {
  WorkRequest wr = detail::one_sided(Opcode::fetch_add, 8, word);
  wr.swap_or_add = addend;
  return wr;
}
/// SEND of all of `from` into the peer's oldest posted receive buffer.
[[nodiscard]] WorkRequest send(LocalSpan from);
/// SEND that also tells the peer 32 bits.
[[nodiscard]] WorkRequest send_with_immediate(LocalSpan from, std::uint32_t immediate);
/// WRITE that also takes the peer's oldest posted receive buffer, leaves it as it is, and tells the peer 32 bits once
/// the payload is placed; `to` must be at least as long as `from`.
[[nodiscard]] WorkRequest write_with_immediate(LocalSpan from, const RemoteSpan& to, std::uint32_t immediate);
/// A receive buffer for one SEND of the peer, for errors and observers; QueuePair::post_receive() posts one.
[[nodiscard]] WorkRequest recv(LocalSpan into);

}  // namespace sidelatch::fabric
