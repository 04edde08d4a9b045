// Names for the parts of a Machine (machine.h) and for its micro-steps.
//
//   Step{StepKind::place, qp, wr_index, piece}        // one piece of a WRITE becomes visible
//   Step{StepKind::drain, thread, store_index, 0}     // a CPU store leaves its store buffer
//
// A step's name does not depend on its interleaving with other steps: a work request is named by its queue pair and its
// place in that queue, a store by its thread and its place in program order. An explorer can therefore carry steps from
// one execution to another.
//
// Thread-safety: plain values.
#pragma once

#include <sidelatch/fabric/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sidelatch::fabric::model {

/// A part of a Machine, numbered from 0 in the order in which parts of its kind were added.
template <class Tag>
struct Id {
  std::uint16_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using NodeId = Id<struct NodeTag>;      ///< a memory and the CPUs and NICs at it
using NicId = Id<struct NicTag>;        ///< a NIC of a node, as the target of queue pairs
using ThreadId = Id<struct ThreadTag>;  ///< a CPU thread of a node
using ClientId = Id<struct ClientTag>;  ///< an initiator
using QpId = Id<struct QpTag>;          ///< a queue pair of a client to a NIC

/// Work request `index` (from 0, in posting order) of a queue pair.
struct WrId {
  QpId qp;
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(WrId, WrId) = default;
};

enum class StepKind : std::uint8_t {
  fetch,       ///< WRITE, SEND: the NIC reads piece `piece`, one 64-byte line, of the local buffer
  place,       ///< WRITE, SEND: piece `piece` becomes visible in the target's memory
  sample,      ///< READ: piece `piece` of the target's memory is read
  load,        ///< atomic, AtomicScope::nic: the word is read into the NIC
  store,       ///< atomic, AtomicScope::nic: the result is written back; a failed CAS has no such step
  load_store,  ///< atomic, AtomicScope::global: both at once
  execute,     ///< one-step requests: everything, the completions included
  deliver,     ///< READ, atomic: the bytes are put into the local buffer; an atomic without one has no such step
  complete,    ///< the initiator learns that the request is done, or, after a revocation, that it failed
  receive,     ///< SEND: the target's CPUs learn that the message is in the receive buffer
  drain,       ///< CPU: a store leaves the store buffer and becomes visible
};

/// "fetch", "place", ...
[[nodiscard]] std::string_view name(StepKind kind);

/// One micro-step. Plain data of 12 bytes.
struct Step {
  StepKind kind = StepKind::fetch;
  std::uint16_t owner = 0;  ///< the queue pair's number, or the thread's for `drain`
  std::uint32_t index = 0;  ///< the work request within its queue pair, or the store within its thread
  std::uint32_t piece = 0;  ///< for fetch, place and sample; else 0

  [[nodiscard]] constexpr QpId qp() const { return {owner}; }           ///< not for `drain`
  [[nodiscard]] constexpr WrId wr() const { return {{owner}, index}; }  ///< not for `drain`
  [[nodiscard]] constexpr ThreadId thread() const { return {owner}; }   ///< for `drain` alone
  friend constexpr auto operator<=>(const Step&, const Step&) = default;
};

/// The step as traces and messages print it: "place qp1[0] piece 2", "drain thread0 store 3".
[[nodiscard]] std::string to_string(const Step& step);

/// Bytes of this process that a step reads or writes; an access that writes may read as well.
struct Access {
  const std::byte* data = nullptr;
  std::uint64_t length = 0;
  bool writes = false;

  /// Whether the two accesses share a byte that one of them writes.
  [[nodiscard]] constexpr bool conflicts(const Access& other) const {
    return (writes || other.writes) && length != 0 && other.length != 0 && data < other.data + other.length &&
           other.data < data + length;
  }
};

/// All memory that a step touches. Both accesses name bytes of this process, so the overlap of a local buffer with a
/// node's mapped memory is found.
struct Footprint {
  bool has_node = false;  ///< whether `target` lies in a mapped range, named by `node` and `address`
  NodeId node;            ///< the node that holds `target`
  RemoteAddress address;  ///< where `target` begins in that node's memory
  Access target;          ///< the memory of the target, or of the thread's node for `drain`
  Access local;           ///< the initiator's buffer
  bool has_qp = false;    ///< false for `drain`
  QpId qp;

  /// Whether the two share a byte that one of them writes.
  [[nodiscard]] constexpr bool conflicts(const Footprint& other) const {
    return target.conflicts(other.target) || target.conflicts(other.local) || local.conflicts(other.target) ||
           local.conflicts(other.local);
  }
};

}  // namespace sidelatch::fabric::model
