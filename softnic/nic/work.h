// What programs post to queue pairs, and what they get back: work requests and completions, as plain data.
//
//   const Sge from{.address = a, .length = n, .lkey = key};
//   queue_pair.post_send({.id = 1, .kind = WorkKind::write, .signaled = true, .sges = {&from, 1},
//                         .remote_address = b, .rkey = rkey});
//
// Numbers are those of ibv_wc_status where there are some. Source: InfiniBand Architecture Specification, volume
// 1, 11.4 (post, poll) and 11.6 (completion statuses).
//
// Thread-safety: values.
#pragma once

#include "roce/gid.h"
#include "roce/headers.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace sidelatch::softnic::nic {

using namespace roce;  // a NIC speaks of packets all the time

enum class WorkKind : std::uint8_t {
  send,
  send_with_immediate,
  send_with_invalidate,
  write,
  write_with_immediate,
  read,
  compare_swap,
  fetch_add,
};
[[nodiscard]] constexpr bool is_send(WorkKind kind) noexcept { return kind <= WorkKind::send_with_invalidate; }
[[nodiscard]] constexpr bool is_write(WorkKind kind) noexcept {
  return kind == WorkKind::write || kind == WorkKind::write_with_immediate;
}
[[nodiscard]] constexpr bool is_atomic(WorkKind kind) noexcept {
  return kind == WorkKind::compare_swap || kind == WorkKind::fetch_add;
}
/// READ or atomic: what brings an answer, and uses up max_rd_atomic.
[[nodiscard]] constexpr bool has_answer(WorkKind kind) noexcept { return kind == WorkKind::read || is_atomic(kind); }

/// A part of a local buffer. One of length 0 names nothing, and its key is not looked at.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;  ///< bytes
  std::uint32_t lkey = 0;
};

/// The way to another NIC: what ibv_ah_attr says, and the Ethernet address that it was resolved to.
struct AddressVector {
  MacAddress mac{};
  Gid gid{};                   ///< of the other side
  std::uint8_t gid_index = 0;  ///< of this side; both are of one kind, IPv4 or IPv6
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits; 0: one is made up for the UDP source port
};

/// An entry of a send queue. post_send() copies what `sges` points to; inline data too.
struct SendRequest {
  std::uint64_t id = 0;
  WorkKind kind = WorkKind::send;
  bool signaled = false;   ///< a completion for success, too
  bool fence = false;      ///< not begun before all earlier READs and atomics have completed
  bool solicited = false;  ///< the receiver's completion is a solicited one
  bool inlined = false;    ///< the bytes are taken when it is posted; keys are not looked at
  std::span<const Sge> sges{};
  std::uint32_t immediate = 0;       ///< as a number; the wire has its highest byte first
  std::uint32_t invalidate_key = 0;  ///< SEND with invalidate: the receiver's key
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare = 0;
  std::uint64_t swap_or_add = 0;
  // UD only.
  AddressVector to{};
  std::uint32_t remote_qp = 0;
  std::uint32_t remote_q_key = 0;  ///< with its highest bit: the queue pair's own is sent (10.2)
};

/// An entry of a receive queue.
struct ReceiveRequest {
  std::uint64_t id = 0;
  std::span<const Sge> sges{};
};

/// Why a request was not taken. Then nothing of it happens.
enum class Post : std::uint8_t {
  done,
  wrong_state,      ///< send: not in RTS, SQD, SQE or ERROR; receive: in RESET
  full,             ///< the queue has no free entry
  too_many_sges,    ///< more than the queue pair was made for
  inline_too_long,  ///< more bytes than the queue pair was made for
  wrong_kind,       ///< no work of this kind of queue pair, or READs and atomics inlined
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
  bad_response = 7,
  local_access = 8,
  remote_invalid_request = 9,
  remote_access = 10,
  remote_operation = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
};
[[nodiscard]] std::string_view text(CompletionStatus status) noexcept;

enum class CompletionKind : std::uint8_t { send, write, read, compare_swap, fetch_add, receive, receive_write };

/// With another status than success only `id`, `status` and `queue_pair` mean anything.
struct Completion {
  std::uint64_t id = 0;
  CompletionStatus status = CompletionStatus::success;
  CompletionKind kind = CompletionKind::send;
  bool has_immediate = false;
  bool has_invalidated = false;  ///< `invalidated_key` opens nothing any more
  bool has_grh = false;          ///< UD: the first 40 bytes of the buffer hold the IP header
  std::uint32_t bytes = 0;       ///< received; READs and atomics: delivered
  std::uint32_t immediate = 0;
  std::uint32_t invalidated_key = 0;
  std::uint32_t queue_pair = 0;
  std::uint32_t source_qp = 0;  ///< UD
};

}  // namespace sidelatch::softnic::nic
