#include "machine.h"

#include <algorithm>

namespace sidelatch::explore::oracle {

using What = Instruction::What;
using fabric::model::AtomicScope;
using fabric::model::PlacementOrder;

namespace {

bool is_atomic(const Request& request) { return request.what == What::swap || request.what == What::add; }

std::uint8_t all(const Request& request) { return static_cast<std::uint8_t>((1U << request.words) - 1); }

bool will_store(const Request& request) { return request.what == What::add || request.payload[0] == request.expected; }

std::uint64_t result(const Request& request) {
  return request.what == What::add ? request.payload[0] + request.operand : request.operand;
}

// Nothing of it is left to do at the target.
bool is_done_there(const Request& request) {
  return is_atomic(request) ? request.stored : request.touched == all(request);
}

std::uint64_t value_of(const FlowState& flow, const Operand& operand) {
  return operand.is_register ? flow.registers.at(operand.value) : operand.value;
}

}  // namespace

State Machine::first() const {
  State state;
  state.flows.resize(program_->flows.size());
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    // Nothing that fails before the first step: no program begins with that.
    static_cast<void>(advance(state, i, true));
  }
  return state;
}

bool Machine::has_ended(const State& state) const {
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    if (state.flows[i].status == FlowState::Status::runs && !is_dead(state, i)) {
      return false;
    }
  }
  return true;
}

bool Machine::time_ends_it(const State& state) const {
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    const Flow& flow = program_->flows[i];
    const bool rests = state.flows[i].status == FlowState::Status::runs && !is_dead(state, i) &&
                       flow.code[state.flows[i].at].what == What::retry;
    if (rests && (state.expired >> flow.client & 1U) == 0 &&
        std::ranges::find(flow.code, What::if_expired, &Instruction::what) != flow.code.end()) {
      return true;
    }
  }
  return false;
}

// Drops requests that are over: completed, and with nothing to come at the target.
void Machine::forget(State& state) const {
  std::uint32_t gone = 0;
  std::uint32_t placed = 0;
  for (std::size_t i = 0; i < state.requests.size(); ++i) {
    const Request& request = state.requests[i];
    const bool settled = is_done_there(request) || (state.revoked >> request.qp & 1U) != 0;
    placed |= settled ? 1U << i : 0U;
    gone |= settled && request.completed ? 1U << i : 0U;
  }
  std::array<std::uint8_t, 32> place{};
  std::uint8_t count = 0;
  for (std::size_t i = 0; i < state.requests.size(); ++i) {
    place.at(i) = count;
    count = static_cast<std::uint8_t>(count + ((gone >> i & 1U) == 0 ? 1 : 0));
  }
  for (Request& request : state.requests) {
    std::uint32_t waits = 0;
    for (std::uint32_t left = request.waits & ~placed; left != 0; left &= left - 1) {
      waits |= 1U << place.at(static_cast<std::size_t>(__builtin_ctz(left)));
    }
    request.waits = waits;
    if (is_atomic(request) && request.stored) {  // a dead value
      request.expected = request.operand = 0;
    }
  }
  std::size_t i = 0;
  std::erase_if(state.requests, [&](const Request&) { return (gone >> i++ & 1U) != 0; });
}

// ---- Rules.

// The words of a request that are in the `index`th line that it touches; 0 if there is none. A buffer's slot s lies
// where word s of the memory would.
std::uint8_t Machine::words_of_piece(std::uint8_t first, std::uint8_t count, std::uint8_t index) const {
  std::uint8_t words = 0;
  for (std::uint8_t i = 0; i < count; ++i) {
    if (line(static_cast<std::uint8_t>(first + i)) == line(first) + index) {
      words = static_cast<std::uint8_t>(words | 1U << i);
    }
  }
  return words;
}

// Rule 6.
bool Machine::fence_open(const State& state, std::size_t index) const {
  const Request& own = state.requests[index];
  for (std::size_t i = 0; own.fenced && i < index; ++i) {
    const Request& earlier = state.requests[i];
    const bool waited_for = is_atomic(earlier) || (earlier.what == What::read && rules_.fence_orders_reads);
    if (earlier.qp == own.qp && waited_for && !earlier.completed) {
      return false;
    }
  }
  return true;
}

// Rules 2, 5 and 6: whether the request may take a step at the target's memory.
bool Machine::may_touch(const State& state, std::size_t index) const {
  const Request& own = state.requests[index];
  if (!fence_open(state, index)) {
    return false;
  }
  for (std::size_t i = 0; i < state.requests.size(); ++i) {
    const Request& other = state.requests[i];
    if ((own.waits >> i & 1U) != 0 && !is_done_there(other)) {
      return false;
    }
    if (i >= index || other.qp != own.qp || is_done_there(other)) {
      continue;
    }
    bool ordered = false;
    if (other.what == What::write) {
      ordered = own.what != What::write || rules_.write_write_ordered;
    } else if (is_atomic(other)) {
      ordered = own.what == What::read || (is_atomic(own) && own.word == other.word);
    }
    if (ordered) {
      return false;
    }
  }
  return true;
}

// Rule 8.
bool Machine::is_locked(const State& state, std::size_t index) const {
  const Request& own = state.requests[index];
  return std::ranges::any_of(state.requests, [&](const Request& other) {
    return is_atomic(other) && other.word == own.word && program_->qps[other.qp].nic == program_->qps[own.qp].nic &&
           (state.revoked >> other.qp & 1U) == 0 && other.loaded && !is_done_there(other);
  });
}

// Rule 1, and the first half of rule 2.
bool Machine::may_complete(const State& state, std::size_t index) const {
  const Request& own = state.requests[index];
  for (std::size_t i = 0; i < index; ++i) {
    if (state.requests[i].qp == own.qp && !state.requests[i].completed) {
      return false;
    }
  }
  if (own.completed) {
    return false;
  }
  if ((state.revoked >> own.qp & 1U) != 0) {
    return true;
  }
  return own.what == What::write ? own.fetched == all(own) : own.delivered;
}

// ---- Steps of NICs.

// Preset strict: each request is one step.
void Machine::execute(const State& state, std::size_t index, Unit unit, std::vector<Next>& out) const {
  for (std::size_t i = 0; i < index; ++i) {
    if (state.requests[i].qp == state.requests[index].qp && !state.requests[i].completed) {
      return;
    }
  }
  Next& next = out.emplace_back(Next{state, unit, Fault::none});
  Request& own = next.state.requests[index];
  FlowState& flow = next.state.flows[own.flow];
  own.completed = true;
  if ((state.revoked >> own.qp & 1U) != 0) {
    own.failed = true;
    next.state.failed = next.state.failed | 1U << own.qp;
    forget(next.state);
    return;
  }
  if (is_atomic(own)) {
    own.payload[0] = next.state.memory.at(own.word);
    if (will_store(own)) {
      next.state.memory.at(own.word) = result(own);
    }
    own.loaded = own.stored = true;
    flow.slots.at(own.slot) = own.payload[0];
  } else {
    for (std::uint8_t i = 0; i < own.words; ++i) {
      std::uint64_t& word = next.state.memory.at(own.word + i);
      if (own.what == What::read) {
        flow.slots.at(own.slot + i) = word;
      } else {
        word = own.inlined ? own.payload.at(i) : flow.slots.at(own.slot + i);
      }
    }
    own.touched = all(own);
  }
  forget(next.state);
}

void Machine::steps_of(const State& state, std::size_t index, Unit unit, std::vector<Next>& out) const {
  const Request& own = state.requests[index];
  const bool revoked = (state.revoked >> own.qp & 1U) != 0;
  if (rules_.one_step_requests) {
    execute(state, index, unit, out);
    return;
  }
  const auto step = [&]() -> Request& {
    return out.emplace_back(Next{state, unit, Fault::none}).state.requests[index];
  };
  if (own.what == What::write && !revoked) {
    for (std::uint8_t piece = 0; piece < own.words && fence_open(state, index); ++piece) {
      const std::uint8_t words = words_of_piece(own.slot, own.words, piece);
      if (words == 0 || (own.fetched & words) != 0) {
        continue;
      }
      Request& request = step();
      request.fetched |= words;
      for (std::uint8_t i = 0; i < own.words; ++i) {
        if ((words >> i & 1U) != 0) {
          request.payload.at(i) = state.flows[own.flow].slots.at(own.slot + i);
        }
      }
    }
  }
  if (!is_atomic(own) && !revoked && may_touch(state, index)) {
    for (std::uint8_t piece = 0; piece < own.words; ++piece) {
      const std::uint8_t words = words_of_piece(own.word, own.words, piece);
      if (words == 0 || (own.touched & words) != 0) {
        continue;
      }
      if (own.what == What::read) {  // rule 4
        Request& request = step();
        request.touched |= words;
        for (std::uint8_t i = 0; i < own.words; ++i) {
          if ((words >> i & 1U) != 0) {
            request.payload.at(i) = state.memory.at(own.word + i);
          }
        }
        continue;
      }
      if ((own.fetched & words) != words) {
        if (rules_.placement == PlacementOrder::ascending) {
          break;
        }
        continue;
      }
      step().touched |= words;
      State& placed = out.back().state;
      for (std::uint8_t i = 0; i < own.words; ++i) {
        if ((words >> i & 1U) != 0) {
          placed.memory.at(own.word + i) = own.payload.at(i);
        }
      }
      forget(placed);
      if (rules_.placement == PlacementOrder::ascending) {  // rule 3
        break;
      }
    }
  }
  if (is_atomic(own) && !revoked) {
    if (!own.loaded && may_touch(state, index) && !is_locked(state, index)) {
      Request& request = step();
      request.loaded = true;
      request.payload[0] = state.memory.at(own.word);
      if (!will_store(request)) {
        request.stored = true;  // there is nothing to store
      } else if (rules_.atomic_scope == AtomicScope::global) {
        request.stored = true;
        const std::uint64_t value = result(request);
        out.back().state.memory.at(own.word) = value;
      }
      forget(out.back().state);
    } else if (own.loaded && !own.stored) {
      step().stored = true;
      out.back().state.memory.at(own.word) = result(own);
      forget(out.back().state);
    }
  }
  if (own.what != What::write && !revoked && !own.delivered && is_done_there(own)) {
    Request& request = step();
    request.delivered = true;
    FlowState& flow = out.back().state.flows[own.flow];
    for (std::uint8_t i = 0; i < own.words; ++i) {
      flow.slots.at(own.slot + i) = own.payload.at(i);
    }
    request.payload = {};
  }
  if (may_complete(state, index)) {
    Request& request = step();
    request.completed = true;
    if (revoked) {
      request.failed = true;
      out.back().state.failed = out.back().state.failed | 1U << own.qp;
    }
    forget(out.back().state);
  }
}

// ---- Steps of tasks.

Request Machine::make(const State& state, std::size_t flow, const Instruction& at) const {
  const FlowState& own = state.flows[flow];
  Request request;
  request.what = at.what;
  request.fenced = at.fenced;
  request.word = at.word;
  request.words = at.words;
  request.slot = at.slot;
  request.flow = static_cast<std::uint8_t>(flow);
  request.qp = at.qp;
  if (at.what == What::write) {
    request.inlined = at.inlined;
    if (at.inlined) {
      request.fetched = all(request);
      std::copy_n(own.slots.begin() + at.slot, at.words, request.payload.begin());
    }
  } else if (is_atomic(request)) {
    request.operand = value_of(own, at.operand);
    request.expected = at.what == What::swap ? value_of(own, at.expected) : 0;
  }
  return request;
}

void Machine::post(State& state, std::size_t flow, const Instruction& at) const {
  Request request = make(state, flow, at);
  const bool sees = at.what == What::read || (at.what != What::write && rules_.atomics_see_writes);
  const auto place = std::ranges::upper_bound(state.requests, at.qp, {}, &Request::qp);
  const auto index = static_cast<std::size_t>(place - state.requests.begin());
  for (Request& other : state.requests) {  // the numbers of those behind it grow by one
    const std::uint32_t low = other.waits & ((1U << index) - 1);
    other.waits = low | (other.waits & ~((1U << index) - 1)) << 1;
  }
  const auto inserted = state.requests.insert(place, request);
  for (std::size_t i = 0; sees && i < state.requests.size(); ++i) {
    const Request& other = state.requests[i];
    if (i != index && other.what == What::write && other.completed && !other.failed && !is_done_there(other) &&
        program_->qps[other.qp].nic == program_->qps[at.qp].nic) {
      inserted->waits |= 1U << i;
    }
  }
}

// Reports a change of bytes that the NIC has not fetched yet.
Fault Machine::put(State& state, std::size_t flow, const Instruction& at) const {
  const std::uint64_t value = value_of(state.flows[flow], at.operand);
  std::uint64_t& slot = state.flows[flow].slots.at(at.slot);
  Fault fault = Fault::none;
  for (const Request& request : state.requests) {
    const bool covers = request.flow == flow && request.what == What::write && !request.inlined && !at.intended &&
                        request.slot <= at.slot && at.slot < request.slot + request.words;
    if (covers && slot != value && !request.completed && (request.fetched >> (at.slot - request.slot) & 1U) == 0) {
      fault = Fault::buffer_race;
    }
  }
  slot = value;
  return fault;
}

bool Machine::may_share_a_step(const Instruction& at) const {
  const bool of_buffers = at.what == What::look || (at.what == What::put && !at.intended);
  return program_->looks_behind_posts && (of_buffers || at.what == What::keep || at.what == What::recall);
}

// Does what nobody sees, up to the next step. If looks need no step of their own, it also does them, but not behind a
// post.
Fault Machine::advance(State& state, std::size_t flow, bool behind_a_post) const {
  Fault fault = Fault::none;
  FlowState& own = state.flows[flow];
  const Code& code = program_->flows[flow].code;
  while (own.at < code.size()) {
    const Instruction& at = code[own.at];
    const bool shares = may_share_a_step(at);
    if (shares ? behind_a_post : at.is_step() && !(at.what == What::retry && !at.declared)) {
      return fault;
    }
    ++own.at;
    std::uint64_t& reg = own.registers.at(at.reg);
    switch (at.what) {
      case What::set:
        reg = value_of(own, at.operand);
        break;
      case What::plus:
        reg += value_of(own, at.operand);
        break;
      case What::look:
        reg = own.slots.at(at.slot);
        break;
      case What::put:
        if (put(state, flow, at) != Fault::none) {
          fault = Fault::buffer_race;
        }
        break;
      case What::keep:
        state.object = value_of(own, at.operand);
        break;
      case What::recall:
        reg = state.object;
        break;
      case What::retry:
      case What::go:
        own.at = at.to;
        break;
      case What::go_if:
        own.at = reg == value_of(own, at.operand) ? at.to : own.at;
        break;
      case What::go_unless:
        own.at = reg != value_of(own, at.operand) ? at.to : own.at;
        break;
      case What::fail_if:
        if (reg == value_of(own, at.operand)) {
          return Fault::assertion;
        }
        break;
      case What::if_expired:
        own.at = (state.expired >> program_->flows[flow].client & 1U) != 0 ? at.to : own.at;
        break;
      default:
        break;
    }
  }
  own.status = FlowState::Status::ended;
  own.knows_failed = 0;
  return fault;
}

// A task that is about to do one of these waits first, or is over.
bool Machine::waits_next(const State& state, std::size_t flow) const {
  const FlowState& own = state.flows[flow];
  const Code& code = program_->flows[flow].code;
  if (own.status != FlowState::Status::runs || own.waits || own.at == code.size()) {  // its last step may have failed
    return true;
  }
  const Instruction& at = code[own.at];
  const bool of_buffers = at.what == What::look || at.what == What::put;
  return at.what == What::wait || at.what == What::yield || at.what == What::retry || at.intended ||
         (of_buffers && program_->flows[flow].has_unwaited && !program_->looks_behind_posts);
}

// A client has one thread, whatever tasks it has.
bool Machine::is_held_up(const State& state, std::size_t flow) const {
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    const bool of_client = program_->flows[i].sort == Flow::Sort::client &&
                           program_->flows[flow].sort == Flow::Sort::client &&
                           program_->flows[i].client == program_->flows[flow].client;
    if (i != flow && of_client && state.flows[i].is_running) {
      return true;
    }
  }
  return false;
}

void Machine::step_of(const State& state, std::size_t flow, std::vector<Next>& out) const {
  const FlowState& own = state.flows[flow];
  if (own.status != FlowState::Status::runs || is_dead(state, flow) || is_held_up(state, flow)) {
    return;
  }
  const auto unit = static_cast<Unit>(flow);
  const Instruction& at = program_->flows[flow].code[own.at];
  const auto abort = [&] {
    Next& next = out.emplace_back(Next{state, unit, Fault::none});
    next.state.flows[flow].has_begun = true;
    next.state.flows[flow].status = FlowState::Status::aborted;
    next.state.flows[flow].waits = next.state.flows[flow].is_running = false;
    next.state.flows[flow].knows_failed = 0;
  };
  const bool waits = own.waits || at.what == What::wait;
  if (waits) {
    const std::uint8_t qp = at.qp;
    const bool under_way = std::ranges::any_of(state.requests, [&](const Request& request) {
      return request.qp == qp && request.flow == flow && !request.completed;
    });
    if ((state.failed >> qp & 1U) != 0) {
      abort();
      return;
    }
    if (under_way) {
      return;
    }
  }
  if (at.posts() && !own.waits && (own.knows_failed >> at.qp & 1U) != 0) {
    abort();  // and it may not have noticed: then it posts
  }
  if (at.what == What::fence && !own.buffer.empty()) {
    return;
  }
  Next& next = out.emplace_back(Next{state, unit, Fault::none});
  FlowState& after = next.state.flows[flow];
  after.has_begun = true;
  std::uint64_t& reg = after.registers.at(at.reg);
  if (at.posts() && !own.waits) {
    post(next.state, flow, at);
    if (at.waited) {
      after.waits = true;
      after.is_running = false;
      return;
    }
  }
  const bool of_buffers = at.what == What::look || at.what == What::put;
  if (waits || at.what == What::yield || at.what == What::retry ||
      (of_buffers && program_->flows[flow].has_unwaited && !program_->looks_behind_posts)) {
    after.knows_failed = state.failed;
  }
  after.waits = false;
  ++after.at;
  switch (at.what) {
    case What::look:
      reg = own.slots.at(at.slot);
      break;
    case What::put:
      next.fault = put(next.state, flow, at);
      break;
    case What::revoke:
      next.state.revoked = next.state.revoked | 1U << at.qp;
      forget(next.state);
      break;
    case What::retry:
      after.at = at.to;
      break;
    case What::store:
      after.buffer.push_back({at.word, value_of(own, at.operand)});
      break;
    case What::load: {
      reg = state.memory.at(at.word);
      for (const FlowState::Store& store : own.buffer) {
        reg = store.word == at.word ? store.value : reg;
      }
      break;
    }
    case What::poke:
      next.state.memory.at(at.word) = value_of(own, at.operand);
      break;
    case What::peek:
      reg = state.memory.at(at.word);
      break;
    case What::keep:
      next.state.object = value_of(own, at.operand);
      break;
    case What::recall:
      reg = state.object;
      break;
    default:
      break;
  }
  const Fault fault = advance(next.state, flow, at.posts() && !at.waited);
  next.fault = next.fault == Fault::none ? fault : next.fault;
  after.is_running = !waits_next(next.state, flow);
}

// The lease of a client that has crashed ends for all others, once, when one of them waits, none is in the middle of
// something, and only requests of the dead are under way. Where nobody has crashed, it ends for one of them when all
// wait or have ended.
bool Machine::lease_may_end(const State& state, std::uint8_t client) const {
  if ((state.crashed && client == 0) || (state.expired >> client & 1U) != 0) {
    return false;
  }
  bool waits = false;
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    const Flow& flow = program_->flows[i];
    if (flow.sort == Flow::Sort::cpu || is_dead(state, i)) {
      continue;
    }
    const FlowState& own = state.flows[i];
    const bool rests = own.status == FlowState::Status::runs && flow.code[own.at].what == What::retry;
    if (own.status == FlowState::Status::runs && !rests && (own.has_begun || !state.crashed)) {
      return false;
    }
    waits |= rests && flow.client == client && flow.sort == Flow::Sort::client;
  }
  return waits && std::ranges::all_of(state.requests, [&](const Request& request) {
           return state.crashed && program_->qps[request.qp].client == 0;
         });
}

void Machine::next(const State& state, std::vector<Next>& out) const {
  constexpr Unit kDrains = 0x100;
  constexpr Unit kLeases = 0x200;
  constexpr Unit kRequests = 0x1000;
  out.clear();
  for (std::size_t i = 0; i < state.flows.size(); ++i) {
    step_of(state, i, out);
    const FlowState& own = state.flows[i];
    if (!own.buffer.empty()) {
      Next& next = out.emplace_back(Next{state, static_cast<Unit>(kDrains + i), Fault::none});
      next.state.memory.at(own.buffer.front().word) = own.buffer.front().value;
      std::vector<FlowState::Store>& buffer = next.state.flows[i].buffer;
      buffer.erase(buffer.begin());
    }
  }
  Unit place = 0;
  for (std::size_t i = 0; i < state.requests.size(); ++i) {
    const std::uint8_t qp = state.requests[i].qp;
    place = static_cast<Unit>(i != 0 && state.requests[i - 1].qp == qp ? place + 1 : 0);
    steps_of(state, i, static_cast<Unit>(kRequests + qp * 64U + place), out);
  }
  for (std::uint8_t client = 0; client < program_->clients; ++client) {
    if (lease_may_end(state, client)) {
      Next& next = out.emplace_back(Next{state, static_cast<Unit>(kLeases + client), Fault::none});
      next.state.expired = state.crashed ? (1U << program_->clients) - 1 : next.state.expired | 1U << client;
    }
  }
  if (program_->may_crash && !state.crashed && state.expired == 0) {
    Next& next = out.emplace_back(Next{state, kCrash, Fault::none});
    next.state.crashed = true;
    for (std::size_t i = 0; i < next.state.flows.size(); ++i) {
      if (is_dead(next.state, i)) {  // what it knew matters no more
        next.state.flows[i].status = FlowState::Status::ended;
        next.state.flows[i].registers = {};
        next.state.flows[i].at = 0;
        next.state.flows[i].waits = next.state.flows[i].is_running = next.state.flows[i].has_begun = false;
        next.state.flows[i].knows_failed = 0;
      }
    }
  }
}

}  // namespace sidelatch::explore::oracle
