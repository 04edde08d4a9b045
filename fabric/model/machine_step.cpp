// The effects of a step that is known to be enabled.
#include <sidelatch/fabric/model/machine.h>

#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace sidelatch::fabric::model {
namespace {

[[noreturn]] void refuse(const Step& step, Rule rule) {
  throw std::logic_error(fmt::format("memory model: step '{}' is not enabled: {}", to_string(step), describe(rule)));
}

}  // namespace

void Machine::apply(const Step& step) {
  if (const Gate gate = blocked_by(step)) {
    refuse(step, *gate);
  }
  apply_enabled(step);
}

void Machine::apply_enabled(const Step& step) {
  if (step.kind == StepKind::drain) {
    do_drain(step);
    return;
  }
  Qp& qp = qps_[step.owner];
  Wr& wr = qp.wrs[step.index];
  const WrId id = step.wr();
  switch (step.kind) {
    case StepKind::fetch:
      do_fetch(wr, step.piece);
      return;
    case StepKind::place:
      do_place(qp, wr, id, step.piece);
      break;
    case StepKind::sample:
      do_sample(wr, step.piece);
      return;
    case StepKind::load:
      do_load(qp, wr);
      return;
    case StepKind::store:
      do_store(qp, wr);
      return;
    case StepKind::load_store:
      do_load_store(wr);
      return;
    case StepKind::execute:
      do_execute(qp, wr);
      do_complete(qp, wr, id);
      break;
    case StepKind::deliver:
      do_deliver(wr);
      return;
    case StepKind::complete:
      do_complete(qp, wr, id);
      break;
    case StepKind::receive:
      wr.received = true;
      ++qp.received;
      break;
    case StepKind::drain:
      return;
  }
  retire(qp, wr);
}

void Machine::do_fetch(Wr& wr, std::uint32_t i) {
  const Piece bytes = line(wr, i);
  std::memcpy(staging_.data() + wr.staging + bytes.offset, wr.request.local.data + bytes.offset, bytes.length);
  mark(wr.bits, i);
  ++wr.fetched;
}

void Machine::do_place(Qp& qp, Wr& wr, WrId id, std::uint32_t i) {
  const Piece bytes = piece(wr, i);
  std::memcpy(wr.target + bytes.offset, staging_.data() + wr.staging + bytes.offset, bytes.length);
  mark(done_set(wr), i);
  wr.waits_begin = wr.waits_end;  // the request has started, so its waits are over
  if (++wr.done == wr.pieces) {
    wr.placed = true;
    settle(qp, wr, id);
  }
}

void Machine::do_sample(Wr& wr, std::uint32_t i) {
  const Piece bytes = piece(wr, i);
  std::memcpy(staging_.data() + wr.staging + bytes.offset, wr.target + bytes.offset, bytes.length);
  mark(done_set(wr), i);
  wr.waits_begin = wr.waits_end;
  if (++wr.done == wr.pieces) {
    wr.placed = wr.settled = true;
  }
}

void Machine::do_load(Qp& qp, Wr& wr) {
  const AtomicEffect effect = apply_atomic(wr.request, load_word(wr.target));
  wr.old = effect.old;
  wr.value = effect.value;
  wr.loaded = true;
  wr.waits_begin = wr.waits_end;
  if (effect.stores) {
    nics_[qp.nic.value].locked.push_back(wr.target);  // rule 8, until its store
  } else {
    wr.placed = wr.settled = true;
  }
}

void Machine::do_store(Qp& qp, Wr& wr) {
  store_word(wr.target, wr.value);
  std::erase(nics_[qp.nic.value].locked, wr.target);
  wr.placed = wr.settled = true;
}

void Machine::do_load_store(Wr& wr) {
  const AtomicEffect effect = apply_atomic(wr.request, load_word(wr.target));
  wr.old = effect.old;
  if (effect.stores) {
    store_word(wr.target, effect.value);
  }
  wr.waits_begin = wr.waits_end;
  wr.placed = wr.settled = true;
}

// One-step requests: moves the bytes from the local buffer to the target, or back, in one step.
void Machine::do_execute(Qp& qp, Wr& wr) {
  const LocalSpan& local = wr.request.local;
  switch (wr.kind) {
    case Kind::send:
      wr.received = true;
      ++qp.received;
      [[fallthrough]];
    case Kind::write:
      if (local.length != 0) {
        std::memmove(wr.target, wr.request.inlined ? staging_.data() + wr.staging : local.data, local.length);
      }
      break;
    case Kind::read:
      if (local.length != 0) {
        std::memmove(local.data, wr.target, local.length);
      }
      break;
    case Kind::atomic:
      do_load_store(wr);
      if (local.data != nullptr) {
        store_word(local.data, wr.old);
      }
      break;
  }
  wr.waits_begin = wr.waits_end;
  wr.placed = wr.settled = wr.delivered = true;
}

void Machine::do_deliver(Wr& wr) {
  if (wr.kind == Kind::atomic) {
    store_word(wr.request.local.data, wr.old);
  } else {
    std::memcpy(wr.request.local.data, staging_.data() + wr.staging, wr.request.local.length);
  }
  wr.delivered = true;
}

void Machine::do_complete(Qp& qp, Wr& wr, WrId id) {
  wr.completed = true;
  wr.completed_at = ++clock_;
  ++qp.completed;
  --clients_[qp.client.value].outstanding;
  if (!wr.settled) {
    nics_[qp.nic.value].unplaced.push_back(id);  // rule 2: later READs and atomics through this NIC wait for it
  }
}

void Machine::do_drain(const Step& step) {
  Thread& thread = threads_[step.owner];
  const Store& store = thread.stores[thread.drained];
  store_word(store.word, store.value);
  ++thread.drained;
  --buffered_;
}

// Ends all waiting for the request at the target.
void Machine::settle(Qp& qp, Wr& wr, WrId id) {
  wr.settled = true;
  if (wr.completed) {
    std::erase(nics_[qp.nic.value].unplaced, id);
  }
}

void Machine::retire(Qp& qp, Wr& wr) {
  const bool over = wr.completed && wr.settled && (wr.kind != Kind::send || wr.received || qp.revoked);
  if (!over || wr.finished) {
    return;
  }
  wr.finished = true;
  --unfinished_;
  while (qp.first_active < qp.wrs.size() && qp.wrs[qp.first_active].finished) {
    ++qp.first_active;
  }
}

}  // namespace sidelatch::fabric::model
