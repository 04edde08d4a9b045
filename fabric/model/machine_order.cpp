// Which steps may happen next. Each condition is written once, as a gate that names the rule that forbids the step.
// enabled(), blocked_by() and apply() use the same gates.
#include <sidelatch/fabric/model/machine.h>

#include <sidelatch/fabric/model/pieces.h>

#include <algorithm>

namespace sidelatch::fabric::model {

bool Machine::has_deliver(const Wr& wr) {
  return wr.kind == Kind::read ? wr.request.local.length != 0
                               : wr.kind == Kind::atomic && wr.request.local.data != nullptr;
}

Piece Machine::piece(const Wr& wr, std::uint32_t i) const {
  const std::uint64_t start = wr.kind == Kind::send ? 0 : wr.request.remote.value;
  return piece_at(start, wr.request.local.length, rules_.atom, i);
}

Piece Machine::line(const Wr& wr, std::uint32_t i) {
  return piece_at(reinterpret_cast<std::uintptr_t>(wr.request.local.data), wr.request.local.length, kLineBytes, i);
}

std::uint32_t Machine::line_of(const Wr& wr, std::uint64_t offset) {
  return static_cast<std::uint32_t>(
      piece_index(reinterpret_cast<std::uintptr_t>(wr.request.local.data), offset, kLineBytes));
}

// The request of a step, or null if no request has such a step.
const Machine::Wr* Machine::find(const Step& step) const {
  if (step.kind == StepKind::drain || step.owner >= qps_.size() || step.index >= qps_[step.owner].wrs.size()) {
    return nullptr;
  }
  const Wr& wr = qps_[step.owner].wrs[step.index];
  const bool from_local = wr.kind == Kind::write || wr.kind == Kind::send;
  const bool split = !rules_.one_step_requests;
  bool exists = false;
  switch (step.kind) {
    case StepKind::fetch:
      return from_local && step.piece < wr.lines ? &wr : nullptr;
    case StepKind::place:
      return from_local && step.piece < wr.pieces ? &wr : nullptr;
    case StepKind::sample:
      return wr.kind == Kind::read && step.piece < wr.pieces ? &wr : nullptr;
    case StepKind::load:
    case StepKind::store:
      exists = split && wr.kind == Kind::atomic && rules_.atomic_scope == AtomicScope::nic;
      break;
    case StepKind::load_store:
      exists = split && wr.kind == Kind::atomic && rules_.atomic_scope == AtomicScope::global;
      break;
    case StepKind::execute:
      exists = !split;
      break;
    case StepKind::deliver:
      exists = split && has_deliver(wr);
      break;
    case StepKind::complete:
      exists = split || wr.failed;
      break;
    case StepKind::receive:
      exists = split && wr.kind == Kind::send;
      break;
    case StepKind::drain:
      break;
  }
  return exists && step.piece == 0 ? &wr : nullptr;
}

// ---- Gates.

// The doorbell is a store too, so it leaves the CPU after the stores before it.
Machine::Gate Machine::taken_gate(const Qp& qp, const Wr& wr) const {
  if (wr.behind != 0 && threads_[clients_[qp.client.value].thread.value].drained < wr.behind) {
    return Rule::post_after_stores;
  }
  return std::nullopt;
}

std::uint32_t Machine::undrained_before(const Receive& receive) const {
  if (receive.behind == 0) {
    return 0;  // it may have been posted by no thread
  }
  const std::uint32_t drained = threads_[receive.thread.value].drained;
  return receive.behind > drained ? receive.behind - drained : 0;
}

// The target's NIC has a buffer for the SEND. Without one it does not accept it.
Machine::Gate Machine::buffer_gate(const Qp& qp, const Wr& send) const {
  if (send.send >= qp.receives.size()) {
    return Rule::receive;
  }
  return undrained_before(qp.receives[send.send]) != 0 ? Gate{Rule::post_after_stores} : Gate{};
}

// Rule 6 alone.
Machine::Gate Machine::fence_gate(const Wr& wr) const {
  for (std::uint32_t i = wr.waits_begin; i < wr.waits_end; ++i) {
    const Wait& wait = waits_[i];
    if (wait.for_completion && !qps_[wait.wr.qp.value].wrs[wait.wr.index].completed) {
      return wait.rule;
    }
  }
  return std::nullopt;
}

// A fence holds back fetches as well: a READ's buffer may be the source of the fenced WRITE (rule 6).
Machine::Gate Machine::fetch_gate(const Qp& qp, const Wr& wr) const {
  if (qp.revoked) {
    return Rule::revocation;
  }
  const Gate gate = fence_gate(wr);
  return gate ? gate : taken_gate(qp, wr);
}

// The gate before the first step at the target: rules 2, 5 and 6.
Machine::Gate Machine::touch_gate(const Qp& qp, const Wr& wr) const {
  if (qp.revoked) {
    return Rule::revocation;
  }
  for (std::uint32_t i = wr.waits_begin; i < wr.waits_end; ++i) {
    const Wait& wait = waits_[i];
    const Wr& other = qps_[wait.wr.qp.value].wrs[wait.wr.index];
    if (!(wait.for_completion ? other.completed : other.settled)) {
      return wait.rule;
    }
  }
  if (wr.kind == Kind::send) {
    if (const Gate gate = buffer_gate(qp, wr)) {
      return gate;
    }
  }
  return taken_gate(qp, wr);
}

Machine::Gate Machine::place_gate(const Wr& wr, std::uint32_t i) const {
  if (rules_.placement == PlacementOrder::ascending && wr.kind == Kind::write && i != wr.done) {
    return Rule::placement_order;
  }
  if (wr.fetched != wr.lines) {
    const Piece bytes = piece(wr, i);
    const std::uint32_t last = line_of(wr, bytes.offset + bytes.length - 1);
    for (std::uint32_t l = line_of(wr, bytes.offset); l <= last; ++l) {
      if (!test(wr.bits, l)) {
        return Rule::micro_steps;
      }
    }
  }
  return std::nullopt;
}

Machine::Gate Machine::lock_gate(const Qp& qp, const Wr& wr) const {
  const auto& locked = nics_[qp.nic.value].locked;
  if (std::find(locked.begin(), locked.end(), wr.target) != locked.end()) {
    return Rule::atomic_exclusion;
  }
  return std::nullopt;
}

Machine::Gate Machine::complete_gate(const Qp& qp, const Wr& wr, std::uint32_t index) const {
  if (index != qp.completed) {
    return Rule::completion_order;
  }
  if (wr.failed) {
    return std::nullopt;
  }
  switch (wr.kind) {
    case Kind::send:
      if (const Gate gate = buffer_gate(qp, wr)) {
        return gate;
      }
      [[fallthrough]];
    case Kind::write:
      if (wr.fetched != wr.lines) {
        return Rule::micro_steps;
      }
      return taken_gate(qp, wr);  // rule 2: it is enough that the target NIC has the bytes
    case Kind::read:
    case Kind::atomic:
      if (!wr.placed || (has_deliver(wr) && !wr.delivered)) {
        return Rule::micro_steps;
      }
      return taken_gate(qp, wr);
  }
  return std::nullopt;
}

Machine::Gate Machine::receive_gate(const Qp& qp, const Wr& wr, std::uint32_t index) const {
  if (qp.revoked) {
    return Rule::revocation;
  }
  if (wr.send != qp.received) {
    return Rule::receive;
  }
  if (const Gate gate = buffer_gate(qp, wr)) {
    return gate;
  }
  for (std::uint32_t i = qp.first_active; i < index; ++i) {
    if (qp.wrs[i].kind == Kind::write && !qp.wrs[i].placed) {
      return Rule::receive;
    }
  }
  if (!wr.placed) {
    return Rule::micro_steps;
  }
  const Gate gate = fence_gate(wr);  // of an empty SEND it is the first step, and nothing else has held it back
  return gate ? gate : taken_gate(qp, wr);
}

Machine::Gate Machine::drain_gate(const Step& step) const {
  if (step.owner >= threads_.size() || step.piece != 0) {
    return Rule::micro_steps;
  }
  const Thread& thread = threads_[step.owner];
  if (step.index < thread.drained || step.index >= thread.stores.size()) {
    return Rule::micro_steps;
  }
  return step.index == thread.drained ? Gate{} : Rule::store_buffer;
}

std::optional<Rule> Machine::blocked_by(const Step& step) const {
  if (step.kind == StepKind::drain) {
    return drain_gate(step);
  }
  const Wr* const found = find(step);
  if (found == nullptr) {
    return Rule::micro_steps;
  }
  const Wr& wr = *found;
  const Qp& qp = qps_[step.owner];
  switch (step.kind) {
    case StepKind::fetch:
      return test(wr.bits, step.piece) ? Rule::micro_steps : fetch_gate(qp, wr);
    case StepKind::place: {
      if (test(done_set(wr), step.piece)) {
        return Rule::micro_steps;
      }
      const Gate gate = touch_gate(qp, wr);
      return gate ? gate : place_gate(wr, step.piece);
    }
    case StepKind::sample:
      return test(done_set(wr), step.piece) ? Rule::micro_steps : touch_gate(qp, wr);
    case StepKind::load: {
      if (wr.loaded || wr.placed) {
        return Rule::micro_steps;
      }
      const Gate gate = touch_gate(qp, wr);
      return gate ? gate : lock_gate(qp, wr);
    }
    case StepKind::store:
      if (!wr.loaded || wr.placed) {
        return Rule::micro_steps;
      }
      return qp.revoked ? Gate{Rule::revocation} : Gate{};
    case StepKind::load_store:
    case StepKind::execute:
      return wr.placed ? Rule::micro_steps : touch_gate(qp, wr);
    case StepKind::deliver:
      if (wr.delivered || !wr.placed) {
        return Rule::micro_steps;
      }
      return wr.failed ? Gate{Rule::revocation} : Gate{};
    case StepKind::complete:
      return wr.completed ? Rule::micro_steps : complete_gate(qp, wr, step.index);
    case StepKind::receive:
      return wr.received ? Rule::micro_steps : receive_gate(qp, wr, step.index);
    case StepKind::drain:
      break;
  }
  return Rule::micro_steps;
}

// ---- The enabled set.

void Machine::enabled(std::vector<Step>& out) const {
  out.clear();
  for (std::size_t q = 0; q < qps_.size(); ++q) {
    const Qp& qp = qps_[q];
    for (std::uint32_t i = qp.first_active; i < qp.wrs.size(); ++i) {
      if (!qp.wrs[i].finished) {
        append_enabled(qp, static_cast<std::uint16_t>(q), i, out);
      }
    }
  }
  if (buffered_ != 0) {
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      if (threads_[t].drained != threads_[t].stores.size()) {
        out.push_back({StepKind::drain, static_cast<std::uint16_t>(t), threads_[t].drained, 0});
      }
    }
  }
}

// Gives the same steps as blocked_by() for every step of the request, but tries the gates of the whole request only
// once.
void Machine::append_enabled(const Qp& qp, std::uint16_t owner, std::uint32_t index, std::vector<Step>& out) const {
  const Wr& wr = qp.wrs[index];
  if (rules_.one_step_requests && !wr.failed) {
    if (!wr.placed && !touch_gate(qp, wr)) {
      out.push_back({StepKind::execute, owner, index, 0});
    }
    return;
  }
  switch (wr.kind) {
    case Kind::write:
    case Kind::send:
      if (wr.fetched != wr.lines && !fetch_gate(qp, wr)) {
        for (std::uint32_t i = 0; i < wr.lines; ++i) {
          if (!test(wr.bits, i)) {
            out.push_back({StepKind::fetch, owner, index, i});
          }
        }
      }
      if (wr.done != wr.pieces && !touch_gate(qp, wr)) {
        for (std::uint32_t i = 0; i < wr.pieces; ++i) {
          if (!test(done_set(wr), i) && !place_gate(wr, i)) {
            out.push_back({StepKind::place, owner, index, i});
          }
        }
      }
      break;
    case Kind::read:
      if (wr.done != wr.pieces && !touch_gate(qp, wr)) {
        for (std::uint32_t i = 0; i < wr.pieces; ++i) {
          if (!test(done_set(wr), i)) {
            out.push_back({StepKind::sample, owner, index, i});
          }
        }
      }
      break;
    case Kind::atomic:
      if (wr.placed || qp.revoked) {
        break;
      }
      if (rules_.atomic_scope == AtomicScope::global) {
        if (!touch_gate(qp, wr)) {
          out.push_back({StepKind::load_store, owner, index, 0});
        }
      } else if (wr.loaded) {
        out.push_back({StepKind::store, owner, index, 0});
      } else if (!touch_gate(qp, wr) && !lock_gate(qp, wr)) {
        out.push_back({StepKind::load, owner, index, 0});
      }
      break;
  }
  if (wr.placed && !wr.delivered && !wr.failed && has_deliver(wr)) {
    out.push_back({StepKind::deliver, owner, index, 0});
  }
  if (!wr.completed && !complete_gate(qp, wr, index)) {
    out.push_back({StepKind::complete, owner, index, 0});
  }
  if (wr.kind == Kind::send && !wr.received && !receive_gate(qp, wr, index)) {
    out.push_back({StepKind::receive, owner, index, 0});
  }
}

}  // namespace sidelatch::fabric::model
