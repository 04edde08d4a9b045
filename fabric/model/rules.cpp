#include <sidelatch/fabric/model/rules.h>

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace sidelatch::fabric::model {
namespace {

constexpr std::array kPresets{Preset::strict, Preset::observed, Preset::spec, Preset::relaxed};

[[noreturn]] void bad_value(std::string_view parameter, std::string_view value, std::string_view allowed) {
  throw std::invalid_argument(fmt::format("memory model: {} = '{}' is not allowed; use {}", parameter, value, allowed));
}

bool parse_bool(std::string_view parameter, std::string_view value) {
  if (value == "true") {
    return true;
  }
  if (value == "false") {
    return false;
  }
  bad_value(parameter, value, "true or false");
}

}  // namespace

std::string_view name(Preset preset) {
  switch (preset) {
    case Preset::strict:
      return "strict";
    case Preset::observed:
      return "observed";
    case Preset::spec:
      return "spec";
    case Preset::relaxed:
      return "relaxed";
  }
  return "unknown preset";
}

Preset parse_preset(std::string_view text) {
  for (const Preset preset : kPresets) {
    if (text == name(preset)) {
      return preset;
    }
  }
  throw std::invalid_argument(
      fmt::format("memory model: no preset is called '{}'; use strict, observed, spec or relaxed", text));
}

void validate(const Rules& rules) {
  if (rules.placement != PlacementOrder::ascending && rules.placement != PlacementOrder::any) {
    bad_value("placement", fmt::to_string(static_cast<int>(rules.placement)), "ascending or any");
  }
  if (rules.atomic_scope != AtomicScope::nic && rules.atomic_scope != AtomicScope::global) {
    bad_value("atomic_scope", fmt::to_string(static_cast<int>(rules.atomic_scope)), "nic or global");
  }
  if (rules.atom != 64 && rules.atom != 32 && rules.atom != 16 && rules.atom != 8) {
    bad_value("atom", fmt::to_string(rules.atom), "64, 32, 16 or 8 (bytes)");
  }
}

void set_parameter(Rules& rules, std::string_view parameter, std::string_view value) {
  if (parameter == "one_step_requests") {
    rules.one_step_requests = parse_bool(parameter, value);
  } else if (parameter == "placement") {
    if (value != "ascending" && value != "any") {
      bad_value(parameter, value, "ascending or any");
    }
    rules.placement = value == "any" ? PlacementOrder::any : PlacementOrder::ascending;
  } else if (parameter == "write_write_ordered") {
    rules.write_write_ordered = parse_bool(parameter, value);
  } else if (parameter == "atomic_scope") {
    if (value != "nic" && value != "global") {
      bad_value(parameter, value, "nic or global");
    }
    rules.atomic_scope = value == "nic" ? AtomicScope::nic : AtomicScope::global;
  } else if (parameter == "atomics_see_writes") {
    rules.atomics_see_writes = parse_bool(parameter, value);
  } else if (parameter == "fence_orders_reads") {
    rules.fence_orders_reads = parse_bool(parameter, value);
  } else if (parameter == "atom") {
    if (value != "64" && value != "32" && value != "16" && value != "8") {
      bad_value(parameter, value, "64, 32, 16 or 8 (bytes)");
    }
    rules.atom = value == "64" ? 64 : value == "32" ? 32 : value == "16" ? 16 : 8;
  } else {
    throw std::invalid_argument(
        fmt::format("memory model: no parameter is called '{}'; use atom, placement, write_write_ordered, "
                    "atomic_scope, atomics_see_writes, fence_orders_reads or one_step_requests",
                    parameter));
  }
}

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::write:
      return "WRITE";
    case Kind::read:
      return "READ";
    case Kind::atomic:
      return "atomic";
    case Kind::send:
      return "SEND";
  }
  return "unknown kind";
}

Kind kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::write:
    case Opcode::write_with_immediate:
      return Kind::write;
    case Opcode::read:
      return Kind::read;
    case Opcode::compare_swap:
    case Opcode::fetch_add:
      return Kind::atomic;
    case Opcode::send:
    case Opcode::send_with_immediate:
      return Kind::send;
    case Opcode::recv:
      break;
  }
  throw std::invalid_argument(fmt::format(
      "memory model: opcode {} is no entry of a send queue; use WRITE, READ, CAS, FETCH-ADD or SEND, and give receive "
      "buffers to post_receive",
      static_cast<int>(opcode)));
}

std::string_view describe(Rule rule) {
  switch (rule) {
    case Rule::micro_steps:
      return "a work request does each of its micro-steps once, and only after those that give it its bytes";
    case Rule::completion_order:
      return "rule 1: the work requests of a queue pair complete in the order they were posted";
    case Rule::completion_before_place:
      return "rule 2: a WRITE completes when the target NIC has it, even if it is not in memory yet";
    case Rule::completed_writes_first:
      return "rule 2: a READ or atomic posted after a WRITE to the same NIC completed waits until it is placed";
    case Rule::placement_order:
      return "rule 3: one WRITE is placed piece by piece, upwards or in any order as the model says";
    case Rule::sampling_order:
      return "rule 4: one READ samples its pieces in any order";
    case Rule::queue_order:
      return "rule 5: which work requests of one queue pair may overtake is fixed by their kinds";
    case Rule::fence:
      return "rule 6: a fenced work request starts after the earlier READs and atomics of its queue pair completed";
    case Rule::queues_independent:
      return "rule 7: different queue pairs are not ordered";
    case Rule::atomic_exclusion:
      return "rule 8: atomics on a word exclude each other within a NIC, and other writers only in global scope";
    case Rule::crash:
      return "rule 9: a stopped client posts nothing more, but what it posted still executes";
    case Rule::revocation:
      return "rule 10: after a revocation the queue pair takes no further step at the target";
    case Rule::store_buffer:
      return "a CPU thread's stores reach memory later, one by one, in program order";
    case Rule::post_after_stores:
      return "a NIC sees a work request only after the earlier stores of the thread that posted it";
    case Rule::receive:
      return "a SEND needs a receive buffer, and is received after the queue pair's earlier SENDs and WRITEs are "
             "placed";
  }
  return "unknown rule";
}

}  // namespace sidelatch::fabric::model
