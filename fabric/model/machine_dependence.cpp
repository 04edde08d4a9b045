// Properties of steps that explorers and traces need: footprints, which steps commute, and which rule lets a step leave
// the naive order.
#include <sidelatch/fabric/model/machine.h>

#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace sidelatch::fabric::model {
namespace {

// Whether the step touches the target's memory, so that rules 2 and 5 order it.
bool touches(StepKind kind) {
  switch (kind) {
    case StepKind::place:
    case StepKind::sample:
    case StepKind::load:
    case StepKind::store:
    case StepKind::load_store:
    case StepKind::execute:
      return true;
    default:
      return false;
  }
}

bool is_pair(const Step& a, const Step& b, StepKind one, StepKind other) {
  return (a.kind == one && b.kind == other) || (a.kind == other && b.kind == one);
}

}  // namespace

Footprint Machine::footprint(NodeId node, RemoteAddress address, std::uint64_t length, bool writes) const {
  Footprint result;
  result.has_node = true;
  result.node = node;
  result.address = address;
  result.target = {resolve(node, address, length), length, writes};
  return result;
}

Footprint Machine::footprint(const Step& step) const {
  Footprint result;
  if (step.kind == StepKind::drain) {
    const Thread& thread = at(step.thread());
    if (step.index >= thread.stores.size()) {
      throw std::out_of_range(fmt::format("memory model: there is no step '{}'", to_string(step)));
    }
    const Store& store = thread.stores[step.index];
    result.has_node = true;
    result.node = thread.node;
    result.address = store.address;
    result.target = {store.word, kWordBytes, true};
    return result;
  }
  const Wr* const found = find(step);
  if (found == nullptr) {
    throw std::out_of_range(fmt::format("memory model: there is no step '{}'", to_string(step)));
  }
  const Wr& wr = *found;
  const LocalSpan& local = wr.request.local;
  result.has_qp = true;
  result.qp = step.qp();
  result.has_node = touches(step.kind) && wr.kind != Kind::send;
  result.node = nics_[qps_[step.owner].nic.value].node;
  result.address = wr.request.remote;
  Piece bytes;
  switch (step.kind) {
    case StepKind::fetch:
      bytes = line(wr, step.piece);
      result.local = {local.data + bytes.offset, bytes.length, false};
      break;
    case StepKind::place:
    case StepKind::sample:
      bytes = piece(wr, step.piece);
      result.address = wr.request.remote + bytes.offset;
      if (wr.target != nullptr) {  // a SEND without its buffer touches nothing yet
        result.target = {wr.target + bytes.offset, bytes.length, step.kind == StepKind::place};
      }
      break;
    case StepKind::load:
      result.target = {wr.target, kWordBytes, false};
      break;
    case StepKind::store:
    case StepKind::load_store:
      result.target = {wr.target, kWordBytes, true};
      break;
    case StepKind::execute:
      if (wr.target != nullptr) {
        result.target = {wr.target, wr.request.length(), wr.kind != Kind::read};
      }
      if (!wr.request.inlined || has_deliver(wr)) {
        result.local = {local.data, local.length, has_deliver(wr)};
      }
      break;
    case StepKind::deliver:
      result.local = {local.data, local.length, true};
      break;
    case StepKind::complete:
    case StepKind::receive:
    case StepKind::drain:
      break;
  }
  return result;
}

// ---- Dependence.

bool Machine::dependent(const Step& a, const Step& b) const {
  if (a == b || footprint(a).conflicts(footprint(b))) {
    return true;
  }
  if (a.kind == StepKind::drain || b.kind == StepKind::drain) {
    if (a.kind == b.kind) {
      return a.owner == b.owner;
    }
    // A request comes after its thread's earlier stores; every step that may be its first waits for them.
    const auto& [drain, other] = a.kind == StepKind::drain ? std::tie(a, b) : std::tie(b, a);
    const Wr& wr = at(other.wr());
    const Client& client = at(at(other.qp()).client);
    return client.has_thread && client.thread == drain.thread() && drain.index < wr.behind;
  }
  if (a.owner != b.owner) {
    return dependent_across(at(a.wr()), a, at(b.wr()), b);
  }
  if (a.index == b.index) {
    return dependent_within(at(a.wr()), a, b);
  }
  return a.index < b.index ? dependent_in_queue(at(a.wr()), a, at(b.wr()), b)
                           : dependent_in_queue(at(b.wr()), b, at(a.wr()), a);
}

// Two steps of one request. Pairs that are not listed pass bytes on or follow one another.
bool Machine::dependent_within(const Wr& wr, const Step& a, const Step& b) const {
  if (is_pair(a, b, StepKind::fetch, StepKind::place)) {
    const auto& [fetch, place] = a.kind == StepKind::fetch ? std::tie(a, b) : std::tie(b, a);
    const Piece bytes = piece(wr, place.piece);
    return line_of(wr, bytes.offset) <= fetch.piece && fetch.piece <= line_of(wr, bytes.offset + bytes.length - 1);
  }
  if (a.kind == StepKind::place && b.kind == StepKind::place) {
    return rules_.placement == PlacementOrder::ascending && wr.kind == Kind::write;  // rule 3
  }
  return !(is_pair(a, b, StepKind::fetch, StepKind::fetch) ||
           is_pair(a, b, StepKind::sample, StepKind::sample) ||   // rule 4
           is_pair(a, b, StepKind::place, StepKind::complete) ||  // rule 2
           is_pair(a, b, StepKind::complete, StepKind::receive));
}

// `a` is a step of the earlier request.
bool Machine::dependent_in_queue(const Wr& first, const Step& a, const Wr& second, const Step& b) const {
  if ((a.kind == StepKind::complete || a.kind == StepKind::execute) &&
      (b.kind == StepKind::complete || b.kind == StepKind::execute)) {
    return true;  // rule 1
  }
  if (b.kind == StepKind::receive && (a.kind == StepKind::receive || a.kind == StepKind::place)) {
    return true;
  }
  switch (order_between(rules_, first.kind, second.kind, second.request.fence)) {
    case Order::unordered:
      break;
    case Order::same_word:
      if (first.target != second.target) {
        break;
      }
      [[fallthrough]];
    case Order::executed:
      if (touches(a.kind) && touches(b.kind)) {
        return true;
      }
      break;
    case Order::completed:
      if (a.kind == StepKind::complete && (touches(b.kind) || b.kind == StepKind::fetch)) {
        return true;
      }
      break;
  }
  return false;
}

bool Machine::dependent_across(const Wr& one, const Step& a, const Wr& other, const Step& b) const {
  if (rules_.one_step_requests || !touches(a.kind) || !touches(b.kind) || qps_[a.owner].nic != qps_[b.owner].nic) {
    return false;
  }
  if (one.kind == Kind::atomic && other.kind == Kind::atomic) {
    return one.target == other.target;  // rule 8: the load of one excludes the other's
  }
  // Rule 2. Compares the times of completion and post, not the waits noted at the post: those depend on whether the
  // WRITE was already placed, which changes when independent steps are swapped.
  const bool first_writes = one.kind == Kind::write || one.kind == Kind::send;
  const Wr& writer = first_writes ? one : other;
  const Wr& reader = first_writes ? other : one;
  const bool writes = writer.kind == Kind::write || writer.kind == Kind::send;
  const bool waits = reader.kind == Kind::read || (reader.kind == Kind::atomic && rules_.atomics_see_writes);
  return writes && waits && writer.completed && !writer.failed && writer.completed_at < reader.posted_at;
}

bool Machine::post_dependent(QpId id, const WorkRequest& request, const Step& step) const {
  if (request.opcode == Opcode::recv) {
    return step.kind != StepKind::drain && step.qp() == id && at(step.wr()).kind == Kind::send;
  }
  const Kind kind = kind_of(request.opcode);
  if (request.inlined && (kind == Kind::write || kind == Kind::send)) {
    Footprint bind;
    bind.local = {request.local.data, request.local.length, false};
    if (bind.conflicts(footprint(step))) {
      return true;
    }
  }
  if (step.kind != StepKind::complete || step.qp() == id || at(step.qp()).nic != at(id).nic) {
    return false;
  }
  const Wr& wr = at(step.wr());
  const bool waits = kind == Kind::read || (kind == Kind::atomic && rules_.atomics_see_writes);
  return waits && !wr.failed && (wr.kind == Kind::write || wr.kind == Kind::send);  // rule 2
}

// ---- Traces.

std::optional<Rule> Machine::permitted_by(const Step& step) const {
  if (!is_enabled(step)) {
    return std::nullopt;
  }
  const Footprint print = footprint(step);
  const Wr* const wr = step.kind == StepKind::drain ? nullptr : &at(step.wr());
  if (print.target.writes) {
    for (std::size_t n = 0; n < nics_.size(); ++n) {
      for (const std::byte* const word : nics_[n].locked) {
        const bool own = step.kind == StepKind::store && word == wr->target && qps_[step.owner].nic.value == n;
        if (!own && print.target.conflicts({word, kWordBytes, true})) {
          return Rule::atomic_exclusion;
        }
      }
    }
  }
  if (wr == nullptr) {
    return std::nullopt;  // store buffers are part of the naive order
  }
  const Qp& qp = qps_[step.owner];
  if (step.kind == StepKind::place || step.kind == StepKind::sample) {
    for (std::uint32_t i = 0; i < step.piece; ++i) {
      if (!test(done_set(*wr), i)) {
        return step.kind == StepKind::place ? Rule::placement_order : Rule::sampling_order;
      }
    }
  }
  if (step.kind == StepKind::complete && !wr->settled) {
    return Rule::completion_before_place;
  }
  if (touches(step.kind)) {
    for (std::uint32_t i = qp.first_active; i < step.index; ++i) {
      if (!qp.wrs[i].settled) {
        return Rule::queue_order;
      }
    }
    for (const WrId other : nics_[qp.nic.value].unplaced) {
      if (other.qp != step.qp() && at(other).completed_at < wr->posted_at) {
        return Rule::queues_independent;
      }
    }
  }
  return at(qp.client).crashed ? Gate{Rule::crash} : Gate{};
}

}  // namespace sidelatch::fabric::model
