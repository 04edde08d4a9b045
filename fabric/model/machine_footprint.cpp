// Properties of steps that explorers and traces need: footprints, and which rule lets a step leave the naive order.
#include <sidelatch/fabric/model/machine.h>

#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <stdexcept>

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
