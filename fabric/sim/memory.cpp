// The micro-steps themselves. Only this file reads or changes the bytes of a target.
//
// A request of several lines takes a while. As long as no other request meets it, its lines need no events of their own
// and can be copied when it ends. The first request that touches the same bytes makes it catch up with the clock
// (touch). If that request also takes a while, both go on the agenda line by line.
#include "sim_queue_pair.h"
#include "world.h"

#include <sidelatch/fabric/model/effects.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::fabric::sim {

namespace {

bool overlap(const Request& request, const std::byte* data, std::uint64_t length) {
  return request.memory < data + length && data < request.memory + request.length;
}

}  // namespace

// The target's bytes, or null if the request may not touch them: it was dropped or revoked, or the region ended after
// the request arrived.
std::byte* World::resolve(const Request& request) const {
  if (request.dropped() || revoked(request)) {
    return nullptr;
  }
  if (request.kind == model::Kind::send) {
    return request.memory;  // its buffer's region cannot end while the receive is posted
  }
  const Node::Registration* region = request.target->find(request.wr.rkey);
  return region == nullptr ? nullptr : region->data + (request.wr.remote.value - region->address.value);
}

// Answers a request for which resolve() has no bytes, unless it was answered before.
[[gnu::noinline, gnu::cold]] void World::refuse_unresolved(Request& request) {
  if (request.dropped()) {
    return;
  }
  if (revoked(request)) {
    respond_with_error(request, Status::retry_exceeded, kRevoked);
  } else {
    respond_with_error(request, Status::remote_access, "the region was deregistered meanwhile");
  }
}

// Every WRITE, SEND and READ passes here, so the calls are flattened: most are as short as the call itself.
[[gnu::flatten]] void World::begin(Request& request) {
  request.begun = true;
  request.memory = resolve(request);
  if (request.memory == nullptr) {
    const bool answered = request.kind != model::Kind::read && !options.rules.one_step_requests;
    if (!answered) {
      refuse_unresolved(request);
    }
    return;
  }
  if (options.rules.one_step_requests) {
    execute(request);
    return;
  }
  if (request.pieces == 1) {
    touch(*request.target, request.memory, request.length, request.kind != model::Kind::read);
    do_piece(request, 0);
    if (request.kind == model::Kind::read) {
      respond(request, now, request.length, now);
    }
    return;
  }
  request.executing = true;
  const bool writes = request.kind != model::Kind::read;
  for (Request* other : request.target->executing) {
    const bool conflict = writes || other->kind != model::Kind::read;
    if (conflict && overlap(*other, request.memory, request.length)) {
      make_stepwise(*other);
      request.stepwise = true;
    }
  }
  if (writes && request.target->watching != nullptr &&
      request.target->watching->watches(request.memory, request.length)) {
    request.stepwise = true;
  }
  request.target->executing.push_back(&request);
  if (request.stepwise || observer != nullptr) {
    request.stepwise = false;
    make_stepwise(request);
  }
  // Before the response: without latencies it arrives at the moment of the last sample, and must come after it.
  schedule(request.last, request, Action::end);
  if (request.kind == model::Kind::read) {
    // Response packets follow the samples; the last one leaves after the last sample.
    const std::uint64_t mtu_pieces =
        std::max<std::uint64_t>(request.target->profile.link.mtu / request.target->times.piece_bytes, 1);
    const Time first_packet = now + request.gap * static_cast<std::int64_t>(std::min(request.pieces, mtu_pieces) - 1);
    respond(request, first_packet, request.length, request.last);
  }
}

// Preset strict: does the fetch and all places, or all samples, at one moment.
[[gnu::noinline]] void World::execute(Request& request) {
  const std::uint64_t length = request.length;
  if (request.kind == model::Kind::read) {
    std::memcpy(request.payload(), request.memory, length);
  } else if (request.payload_bound) {
    std::memcpy(request.memory, request.payload(), length);
  } else if (request.queue_pair != nullptr) {
    std::memmove(request.memory, request.wr.local.data, length);
  }
  request.payload_bound = true;
  if (request.kind != model::Kind::read) {
    changed(*request.target, request.memory, length);
  }
  observe_step(SimStep::Kind::execute, request);
  respond(request, now, request.kind == model::Kind::read ? length : 0, now);
}

void World::make_steps(Request& request) {
  if (!request.steps.empty()) {
    return;
  }
  for (std::uint64_t i = 0; i < request.pieces; ++i) {
    request.steps.push_back({piece_time(request, i).count(), static_cast<std::uint32_t>(i)});
  }
  std::ranges::stable_sort(request.steps, {}, &Request::Step::time);
}

[[gnu::noinline]] void World::make_stepwise(Request& request) {
  if (request.stepwise) {
    return;
  }
  request.stepwise = true;
  advance_steps(request, now);
  if (request.steps_done < request.steps.size()) {
    schedule(Time{request.steps[request.steps_done].time}, request, Action::step);
  }
}

void World::advance_steps(Request& request, Time until) {
  make_steps(request);
  while (request.steps_done < request.steps.size() && request.steps[request.steps_done].time <= until.count()) {
    do_piece(request, request.steps[request.steps_done].piece);
    ++request.steps_done;
  }
}

void World::step(Request& request) {
  if (!request.executing) {
    return;
  }
  advance_steps(request, now);
  if (request.steps_done < request.steps.size()) {
    schedule(Time{request.steps[request.steps_done].time}, request, Action::step);
  }
}

void World::end(Request& request) {
  if (!request.executing) {
    return;
  }
  if (request.steps.empty()) {
    do_all_pieces(request);
  } else {
    advance_steps(request, now);
  }
  stop(request);
}

void World::stop(Request& request) {
  request.executing = false;
  auto& executing = request.target->executing;
  const auto place = std::ranges::find(executing, &request);
  *place = executing.back();
  executing.pop_back();
}

void World::do_piece(Request& request, std::uint64_t index) {
  const std::uint64_t length = request.length;
  const model::Piece piece =
      request.pieces == 1 ? model::Piece{0, length}
                          : model::piece_at(request.wr.remote.value, length, request.target->times.piece_bytes, index);
  if (request.kind == model::Kind::read) {
    std::memcpy(request.payload() + piece.offset, request.memory + piece.offset, piece.length);
    observe_step(SimStep::Kind::sample, request, index);
  } else {
    std::memcpy(request.memory + piece.offset, request.payload() + piece.offset, piece.length);
    observe_step(SimStep::Kind::place, request, index);
    changed(*request.target, request.memory + piece.offset, piece.length);
  }
}

void World::do_all_pieces(Request& request) {
  if (request.kind == model::Kind::read) {
    std::memcpy(request.payload(), request.memory, request.length);
  } else {
    std::memcpy(request.memory, request.payload(), request.length);
    changed(*request.target, request.memory, request.length);
  }
}

// False if the request is not answered before it is executed, or has lost its memory.
bool World::place_the_rest(Request& request) {
  if (request.executing) {
    make_steps(request);
    advance_steps(request, Time::max());
    stop(request);
    return true;
  }
  if (request.begun) {
    return true;
  }
  request.memory = options.rules.one_step_requests ? nullptr : resolve(request);
  if (request.memory == nullptr) {
    return false;
  }
  request.begun = true;
  touch(*request.target, request.memory, request.length, /*writes=*/true);
  make_steps(request);
  advance_steps(request, Time::max());
  return true;
}

void World::watch(SimNode& node, const std::byte* data, std::uint64_t length) {
  for (Request* other : node.executing) {
    if (other->kind != model::Kind::read && overlap(*other, data, length)) {
      make_stepwise(*other);
    }
  }
}

void World::catch_up(SimNode& node, const std::byte* data, std::uint64_t length, bool writes) {
  for (Request* other : node.executing) {
    const bool conflict = writes || other->kind != model::Kind::read;
    if (conflict && overlap(*other, data, length)) {
      advance_steps(*other, now);
    }
  }
}

void World::load(Request& request) {
  std::byte* word = resolve(request);
  if (word == nullptr) {
    refuse_unresolved(request);
    return;
  }
  touch(*request.target, word, model::kWordBytes, /*writes=*/true);
  // A page that nobody has touched yet is mapped here for writing. Reading first would map a page of zeros, which the
  // store would have to replace: two faults of the host's instead of one.
  std::uint64_t zero = 0;
  __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(word), &zero, 0, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  request.old_value = model::load_word(word);
  const model::AtomicEffect effect = model::apply_atomic(request.wr, request.old_value);
  if (effect.stores && effect.value != request.old_value) {
    const NicTimes& times = request.target->times;
    Nic& nic = request.target->nic;
    nic.slot_free[(request.wr.remote.value >> times.slot_shift) & times.slot_mask] += times.slot_changed;
    if (!nic.unit_free.empty()) {
      nic.unit_free[request.unit] += times.slot_changed;
    }
  }
  if (request.last > request.first) {
    observe_step(SimStep::Kind::load, request);
    schedule(request.last, request, Action::store);
    return;
  }
  if (effect.stores) {
    model::store_word(word, effect.value);
    changed(*request.target, word, model::kWordBytes);
  }
  observe_step(options.rules.one_step_requests ? SimStep::Kind::execute : SimStep::Kind::load_store, request);
  respond(request, now, model::kWordBytes, now);
}

// Rule 8, scope nic: the store overwrites bytes placed in the word since the load.
void World::store(Request& request) {
  std::byte* word = resolve(request);
  if (word != nullptr) {
    const model::AtomicEffect effect = model::apply_atomic(request.wr, request.old_value);
    if (effect.stores) {
      touch(*request.target, word, model::kWordBytes, /*writes=*/true);
      model::store_word(word, effect.value);
      observe_step(SimStep::Kind::store, request);
      changed(*request.target, word, model::kWordBytes);
    }
  } else if (!request.failed && revoked(request)) {
    refuse_unresolved(request);  // the atomic has loaded, but never stores
    return;
  }
  respond(request, now, model::kWordBytes, now);
}

// Requests that have not begun notice the revocation when they would begin.
void World::revoke(SimNode& target, std::uint64_t connection) {
  revoked_.insert(connection);
  for (std::size_t i = 0; i < target.executing.size();) {
    Request& request = *target.executing[i];
    if (request.connection->number != connection) {
      ++i;
      continue;
    }
    advance_steps(request, now);
    if (request.kind == model::Kind::read) {
      request.failed = true;
      request.status = Status::retry_exceeded;
      request.detail = kRevoked;
    }
    stop(request);
  }
}

void World::stop_executing(SimNode& node, const std::byte* data, std::uint64_t length) {
  for (std::size_t i = 0; i < node.executing.size();) {
    Request& request = *node.executing[i];
    // A receive buffer's memory stays until the message has arrived, like the memory of all the node's own requests.
    if (request.kind == model::Kind::send || !overlap(request, data, length)) {
      ++i;
      continue;
    }
    advance_steps(request, now);
    if (request.kind == model::Kind::read) {
      request.failed = true;
      request.status = Status::remote_access;
      request.detail = "the region was deregistered meanwhile";
      request.connection->drop_behind(request.sequence);
    }
    stop(request);
  }
}

}  // namespace sidelatch::fabric::sim
