// Work requests, which programs post to queue pairs, and completions, which they get back, as plain data.
//
//   const Sge from{.address = a, .length = n, .lkey = key};
//   queue_pair.post_send({.id = 1, .kind = WorkKind::write, .signaled = true, .sges = {&from, 1},
//                         .remote_address = b, .rkey = rkey});
//
// Numbers equal those of ibv_wc_status if it has them. Source: InfiniBand Architecture Specification, volume
// 1, 11.4 (post, poll) and 11.6 (completion statuses).
//
// Thread-safety: values.
#pragma once

#include "rights.h"
#include "roce/gid.h"
#include "roce/headers.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace sidelatch::softnic::nic {

using namespace roce;  // the NIC uses packets everywhere

/// The longest message (InfiniBand Architecture Specification, volume 1, 9.7.8; the DMA length of a message).
inline constexpr std::uint32_t kMostMessageBytes = 1U << 31;

/// The bytes of an atomic's word.
inline constexpr std::uint32_t kAtomicBytes = 8;

enum class WorkKind : std::uint8_t {
  send,
  send_with_immediate,
  send_with_invalidate,
  write,
  write_with_immediate,
  read,
  compare_swap,
  fetch_add,
  atomic_write,
  bind_window,  ///< binds a memory window; nothing is sent
  invalidate,   ///< ends a binding; nothing is sent
};
[[nodiscard]] constexpr bool is_send(WorkKind kind) noexcept { return kind <= WorkKind::send_with_invalidate; }
[[nodiscard]] constexpr bool is_write(WorkKind kind) noexcept {
  return kind == WorkKind::write || kind == WorkKind::write_with_immediate;
}
[[nodiscard]] constexpr bool is_atomic(WorkKind kind) noexcept {
  return kind == WorkKind::compare_swap || kind == WorkKind::fetch_add;
}
/// Whether the work is a READ, an atomic or an ATOMIC WRITE, which has an answer and counts towards max_rd_atomic.
[[nodiscard]] constexpr bool has_answer(WorkKind kind) noexcept {
  return kind == WorkKind::read || is_atomic(kind) || kind == WorkKind::atomic_write;
}
/// Whether the work is done by its own NIC, without a packet.
[[nodiscard]] constexpr bool is_local(WorkKind kind) noexcept {
  return kind == WorkKind::bind_window || kind == WorkKind::invalidate;
}
/// Whether the answer is written to the local buffer.
[[nodiscard]] constexpr bool fills_buffer(WorkKind kind) noexcept { return kind == WorkKind::read || is_atomic(kind); }

/// A part of a local buffer. A part of length 0 names nothing, and its key is ignored.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;  ///< bytes
  std::uint32_t lkey = 0;
};

/// The way to another NIC: the fields of ibv_ah_attr, and the resolved Ethernet address.
struct AddressVector {
  MacAddress mac{};
  Gid gid{};                   ///< of the other side
  std::uint8_t gid_index = 0;  ///< of this side; both GIDs are IPv4 or both are IPv6
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;  ///< this and the rate are kept for who asks: frames here have neither
  std::uint8_t static_rate = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits; 0: one is generated for the UDP source port
};

/// The range that a memory window is to open, in a region of the same protection domain.
struct Binding {
  std::uint32_t window = 0;   ///< any key that the window has had
  std::uint32_t new_key = 0;  ///< of the same window: differs in the low eight bits
  std::uint32_t region = 0;   ///< the region's lkey
  std::uint64_t address = 0;
  std::uint64_t length = 0;  ///< bytes; 0: the window opens nothing
  Rights rights = Rights::none;
  bool is_zero_based = false;  ///< the first byte's address in requests is 0
};

/// An entry of a send queue. post_send() copies the `sges`, and inline data too.
struct SendRequest {
  std::uint64_t id = 0;
  WorkKind kind = WorkKind::send;
  bool signaled = false;   ///< also complete on success
  bool fence = false;      ///< do not begin before all earlier READs and atomics have completed
  bool solicited = false;  ///< the receiver's completion is a solicited one
  bool inlined = false;    ///< the bytes are copied at the post; keys are ignored
  std::span<const Sge> sges{};
  std::uint32_t immediate = 0;       ///< as a number; its highest byte comes first on the wire
  std::uint32_t invalidate_key = 0;  ///< SEND with invalidate: the receiver's key; invalidate: an own one
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare = 0;
  std::uint64_t swap_or_add = 0;
  Binding binding{};             ///< bind_window
  std::uint32_t remote_srq = 0;  ///< XRC: the other side's shared receive queue; 24 bits
  // UD only.
  AddressVector to{};
  std::uint32_t remote_qp = 0;
  std::uint32_t remote_q_key = 0;  ///< if its highest bit is set, the queue pair's own is sent (10.2)
  bool is_to_foreign = false;      ///< the address handle is of another protection domain: the request fails
};

/// An entry of a receive queue.
struct ReceiveRequest {
  std::uint64_t id = 0;
  std::span<const Sge> sges{};
};

/// Why a request was not accepted. A rejected request has no effect.
enum class Post : std::uint8_t {
  done,
  wrong_state,      ///< send: not in RTS, SQD, SQE or ERROR; receive: in RESET
  full,             ///< the queue has no free entry
  too_many_sges,    ///< more than the queue pair supports
  inline_too_long,  ///< more bytes than the queue pair supports
  wrong_kind,       ///< not supported by this type of queue pair, or an inlined READ or atomic
  has_srq,          ///< receive requests go to the shared receive queue
};
[[nodiscard]] std::string_view text(Post post) noexcept;

/// Volume 1, 11.6. The numbers are those of ibv_wc_status.
enum class CompletionStatus : std::uint8_t {
  success = 0,
  local_length = 1,
  local_operation = 2,
  local_protection = 4,
  flushed = 5,
  window_bind = 6,
  bad_response = 7,
  local_access = 8,
  remote_invalid_request = 9,
  remote_access = 10,
  remote_operation = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
};
[[nodiscard]] std::string_view text(CompletionStatus status) noexcept;

enum class CompletionKind : std::uint8_t {
  send,
  write,
  read,
  compare_swap,
  fetch_add,
  atomic_write,
  bind_window,
  invalidate,
  receive,
  receive_write,
};

/// Unless the status is success, only `id`, `status` and `queue_pair` have a meaning.
struct Completion {
  std::uint64_t id = 0;
  CompletionStatus status = CompletionStatus::success;
  CompletionKind kind = CompletionKind::send;
  bool has_immediate = false;
  bool has_invalidated = false;  ///< `invalidated_key` is now invalid
  bool has_grh = false;          ///< UD: the first 40 bytes of the buffer hold the IP header
  std::uint8_t packet_type = 0;  ///< UD: 9 for IPv6 over UDP, 10 for IPv4 over UDP
  std::uint32_t bytes = 0;       ///< bytes received; READs and atomics: delivered
  std::uint32_t immediate = 0;
  std::uint32_t invalidated_key = 0;
  std::uint32_t queue_pair = 0;
  std::uint32_t source_qp = 0;  ///< UD
  std::uint64_t time = 0;       ///< when it was added: Time of nic_time.h
};

}  // namespace sidelatch::softnic::nic
