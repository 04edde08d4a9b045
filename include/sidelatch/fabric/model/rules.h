// The rules of the memory model as plain data, and the table that orders two work requests of one queue pair.
//
//   Rules rules = rules_of(Preset::observed);
//   rules.atom = 8;                                   // a NIC that copies word by word
//   validate(rules);
//   Order order = order_between(rules, Kind::read, Kind::write, /*second_is_fenced=*/false);   // unordered
//
// Everything that produces or enumerates behaviours of one-sided RDMA (the simulator, the software NIC, the explorer)
// asks these functions and keeps no second copy of the table. The rules are numbered as in `Rule`; describe() gives one
// sentence for each, fit for a trace.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/work_request.h>

#include <cstdint>
#include <string_view>

namespace sidelatch::fabric::model {

/// strict: the assumptions of naive designs; observed: the measured behaviour of ConnectX NICs; spec: the promises of
/// the specifications; relaxed: spec with a memory region registered for relaxed ordering.
enum class Preset : std::uint8_t { strict, observed, spec, relaxed };

/// In which order the pieces of one WRITE become visible (rule 3).
enum class PlacementOrder : std::uint8_t { ascending, any };

/// What an atomic excludes (rule 8): only atomics of the same NIC, or every NIC and CPU.
enum class AtomicScope : std::uint8_t { nic, global };

/// The parameters of the model. The defaults are Preset::observed.
struct Rules {
  /// Every work request is one step, in posting order per queue pair. The other ordering parameters then play no part.
  bool one_step_requests = false;
  PlacementOrder placement = PlacementOrder::ascending;
  /// Rule 5, WRITE \ WRITE: false for a region registered with relaxed ordering.
  bool write_write_ordered = true;
  AtomicScope atomic_scope = AtomicScope::nic;
  /// Rule 2 for atomics: false explores the InfiniBand text, which promises it only for READs.
  bool atomics_see_writes = true;
  /// Rule 6 for READs: false explores a fence that waits only for atomics.
  bool fence_orders_reads = true;
  /// Bytes that are sampled or placed whole: 64, 32, 16 or 8.
  std::uint32_t atom = 64;

  friend constexpr bool operator==(const Rules&, const Rules&) = default;
};

/// The parameters of a preset.
[[nodiscard]] constexpr Rules rules_of(Preset preset) {
  Rules rules;
  switch (preset) {
    case Preset::strict:
      rules.one_step_requests = true;
      rules.atomic_scope = AtomicScope::global;
      break;
    case Preset::observed:
      break;
    case Preset::spec:
      rules.placement = PlacementOrder::any;
      break;
    case Preset::relaxed:
      rules.placement = PlacementOrder::any;
      rules.write_write_ordered = false;
      break;
  }
  return rules;
}

/// "strict", "observed", "spec" or "relaxed".
[[nodiscard]] std::string_view name(Preset preset);
/// The preset of that name. Throws std::invalid_argument that quotes `text` and lists the names.
[[nodiscard]] Preset parse_preset(std::string_view text);

/// Throws std::invalid_argument if a parameter has no meaning; the message names it, its value and what is allowed.
void validate(const Rules& rules);

/// Sets one parameter by its name, as test files give it ("atom" to "8", "placement" to "any", "atomic_scope" to
/// "global", "atomics_see_writes" to "false"). Throws std::invalid_argument that names the parameter and lists the
/// allowed values, or lists the parameters if the name is unknown.
void set_parameter(Rules& rules, std::string_view parameter, std::string_view value);

/// The kinds of work requests that the ordering rules distinguish.
enum class Kind : std::uint8_t { write, read, atomic, send };

/// "WRITE", "READ", "atomic" or "SEND".
[[nodiscard]] std::string_view name(Kind kind);

/// The kind of an opcode that can be posted to a send queue. Throws std::invalid_argument for Opcode::recv.
[[nodiscard]] Kind kind_of(Opcode opcode);

/// What the later of two work requests of one queue pair has to wait for.
enum class Order : std::uint8_t {
  unordered,  ///< nothing
  executed,   ///< each place, sample, load and store of the earlier one, before its own first place, sample or load
  same_word,  ///< like executed if both address the same word, else nothing
  completed,  ///< the completion of the earlier one, before its own first micro-step (its fetches included)
};

/// Rules 5 and 6 as one table. A SEND takes a WRITE's row and column: it is placed like a WRITE, but at an address that
/// the receiver chose. Its receive completion concerns the target's CPUs, not the later requests.
[[nodiscard]] constexpr Order order_between(const Rules& rules, Kind first, Kind second, bool second_is_fenced) {
  if (rules.one_step_requests) {
    return Order::executed;
  }
  const bool second_writes = second == Kind::write || second == Kind::send;
  switch (first) {
    case Kind::write:
    case Kind::send:
      // A fence does not wait for WRITEs, so the flag changes nothing in this row.
      return second_writes && !rules.write_write_ordered ? Order::unordered : Order::executed;
    case Kind::read:
      return second_is_fenced && rules.fence_orders_reads ? Order::completed : Order::unordered;
    case Kind::atomic:
      if (second_is_fenced) {
        return Order::completed;
      }
      if (second == Kind::read) {
        return Order::executed;
      }
      return second == Kind::atomic ? Order::same_word : Order::unordered;
  }
  return Order::executed;
}

/// The rules that allow or forbid a step. Each number is the rule's number, 0 for rules that hold by construction.
enum class Rule : std::uint8_t {
  micro_steps,              ///< 0: each micro-step of a request happens once, after those that provide its bytes
  completion_order,         ///< 1
  completion_before_place,  ///< 2, its permission
  completed_writes_first,   ///< 2, its prohibition
  placement_order,          ///< 3
  sampling_order,           ///< 4
  queue_order,              ///< 5
  fence,                    ///< 6
  queues_independent,       ///< 7
  atomic_exclusion,         ///< 8
  crash,                    ///< 9
  revocation,               ///< 10
  store_buffer,             ///< 0: total store order of a CPU thread
  post_after_stores,        ///< 0: a doorbell comes after its thread's earlier stores
  receive,                  ///< 0: a SEND needs a receive buffer, and its receive completion earlier WRITEs
};

/// One sentence, beginning with "rule N: " if the rule has a number.
[[nodiscard]] std::string_view describe(Rule rule);

}  // namespace sidelatch::fabric::model
