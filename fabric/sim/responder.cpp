// The target's NIC: refuses requests, and sets the times of the micro-steps of those that it accepts.
#include "sim_queue_pair.h"
#include "world.h"

#include <sidelatch/fabric/model/effects.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace sidelatch::fabric::sim {

namespace {

constexpr Access needed(model::Kind kind) {
  return kind == model::Kind::read     ? Access::remote_read
         : kind == model::Kind::atomic ? Access::remote_atomic
                                       : Access::remote_write;
}

bool is_inside(const Node::Registration& region, const Request& request) {
  const std::uint64_t base = region.address.value;
  const std::uint64_t start = request.wr.remote.value;
  return start >= base && request.length <= region.length && start - base <= region.length - request.length;
}

// A number that looks random and is the same for the same request and piece.
std::uint64_t scatter(std::uint64_t salt, std::uint64_t piece) {
  std::uint64_t x = salt + (piece + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Exponentially distributed with that mean, from a number uniform in [0, 1).
Time exponential(double uniform, double mean_ns) {
  return Time{static_cast<std::int64_t>(-std::log1p(-uniform) * mean_ns * 1e3)};
}

double fraction(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// Of the units that are free when an atomic has got its slot, the one that was busy last, so that an atomic that waits
// long for its slot keeps none from the others. If none is free by then, the first that will be.
std::size_t unit_for(const Nic& nic, Time begins) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < nic.unit_free.size(); ++i) {
    const Time here = nic.unit_free[i];
    const Time there = nic.unit_free[best];
    if (there > begins ? here < there : here <= begins && here > there) {
      best = i;
    }
  }
  return best;
}

// How many pieces of a WRITE are not placed yet; if it stalls, at most.
std::uint64_t pieces_after(const Request& request, Time time) {
  if (request.last <= time) {
    return 0;
  }
  if (request.gap == Time::zero()) {
    return request.pieces;
  }
  return std::min(request.pieces, static_cast<std::uint64_t>((request.last - time - kAfter) / request.gap) + 1);
}

}  // namespace

Time ReceiveBuffer::admit(Time received, std::uint64_t bytes, Time placed) {
  admitted_ = std::max(admitted_, received);
  while (!held_.empty() && (held_.front().placed <= admitted_ || bytes_ + bytes > kBytes)) {
    admitted_ = std::max(admitted_, held_.front().placed);
    bytes_ -= held_.front().bytes;
    std::ranges::pop_heap(held_, std::ranges::greater{}, &Held::placed);
    held_.pop_back();
  }
  if (placed > admitted_) {
    held_.push_back({placed, bytes});
    bytes_ += bytes;
    std::ranges::push_heap(held_, std::ranges::greater{}, &Held::placed);
  }
  return admitted_;
}

bool World::refuse(Request& request) {
  if (request.length == 0) {
    return false;  // touches no memory: no key is checked
  }
  const Node::Registration* region = request.target->find(request.wr.rkey);
  if (region != nullptr && is_inside(*region, request) && allows(region->access, needed(request.kind))) [[likely]] {
    return false;
  }
  explain_refusal(request, region);
  return true;
}

[[gnu::noinline, gnu::cold]] void World::explain_refusal(Request& request, const Node::Registration* region) {
  const WorkRequest& wr = request.wr;
  std::string why;
  if (region == nullptr) {
    why = fmt::format("rkey {:#x} names no live region of node {}", wr.rkey.value, request.target->name());
  } else if (!is_inside(*region, request)) {
    why = fmt::format("[{:#x}, {:#x} + {}) is outside the region [{:#x}, {:#x})", wr.remote.value, wr.remote.value,
                      wr.length(), region->address.value, region->address.value + region->length);
  } else {
    why = fmt::format("the region has access {}: this needs {}", to_string(region->access),
                      to_string(needed(request.kind)));
  }
  respond_with_error(request, Status::remote_access, std::move(why));
}

[[gnu::noinline, gnu::cold]] void World::respond_with_error(Request& request, Status status, std::string detail) {
  request.failed = true;
  request.status = status;
  request.detail = std::move(detail);
  request.connection->drop_behind(request.sequence);
  respond(request, now, 0, now);
}

// Every request passes here, so the calls are flattened: most are as short as the call itself.
[[gnu::flatten]] void World::arrive(Request& request) {
  if (request.receiver != nullptr && !request.admitted) [[unlikely]] {
    arrive_at_end(request);
    return;
  }
  if (request.dropped()) {
    return;
  }
  if (revoked(request)) {
    respond_with_error(request, Status::retry_exceeded, kRevoked);
    return;
  }
  SimNode& target = *request.target;
  const NicTimes& times = target.times;
  const bool carries = request.kind == model::Kind::write || request.kind == model::Kind::send;
  const std::uint64_t mtu = target.profile.link.mtu;
  const std::uint64_t length = request.length;
  const std::uint64_t count = length <= mtu ? 1 : (length + mtu - 1) / mtu;

  const Time wire = wire_time(target, carries ? length : 0, carries ? count : 1);
  const Time starts = std::max(now, target.nic.ingress_free);
  target.nic.ingress_free = starts + wire;
  const Time received_first = starts + (carries && count > 1 ? wire_time(target, mtu, 1) : wire);

  const Time service = request.kind == model::Kind::read     ? times.respond_read
                       : request.kind == model::Kind::atomic ? times.respond_atomic
                                                             : times.respond_write;
  target.nic.responder_free = std::max(received_first, target.nic.responder_free) + service +
                              times.packet * static_cast<std::int64_t>(count - 1);
  const Time served = target.nic.responder_free + times.latency;

  const bool refused = request.kind == model::Kind::send ? !take_buffer(request) : refuse(request);
  if (refused) {
    return;
  }
  if (request.wr.opcode == Opcode::write_with_immediate) [[unlikely]] {
    static_cast<void>(request.receiver->receives()->take_buffer());  // stays as it is
  }
  switch (request.kind) {
    case model::Kind::write:
    case model::Kind::send:
      plan_write(request, served, received_first, starts + wire);
      break;
    case model::Kind::read:
      plan_read(request, served);
      break;
    case model::Kind::atomic:
      plan_atomic(request, served);
      break;
  }
  Time& until = request.connection->executed_until[static_cast<std::size_t>(request.kind)];
  until = std::max(until, request.last);
  if (request.receiver != nullptr) [[unlikely]] {
    expect(request);
  }
}

// The earliest moment at which the ordering rules let the request's first micro-step happen.
Time World::not_before(const Request& request, Time time) const {
  // The initiator has already waited for Order::completed. Order::same_word holds because a word has one lock slot,
  // which serves in the order of arrival.
  unsigned firsts = waits_for_[static_cast<std::size_t>(request.kind)][request.wr.fence ? 1 : 0];
  for (; firsts != 0; firsts &= firsts - 1) {
    const Time executed = request.connection->executed_until[static_cast<std::size_t>(std::countr_zero(firsts))];
    time = std::max(time, executed + kAfter);  // rule 5
  }
  const bool sees_writes =
      request.kind == model::Kind::read || (request.kind == model::Kind::atomic && options.rules.atomics_see_writes);
  return sees_writes ? std::max(time, request.target->nic.completed_writes_placed + kAfter) : time;  // rule 2
}

void World::plan_write(Request& request, Time served, Time received_first, Time received_last) {
  SimNode& target = *request.target;
  if (request.length == 0) {
    request.last = served;
    request.begun = true;
    respond(request, served, 0, served);
    return;
  }
  const Time first = not_before(request, served + target.times.pcie_write);
  request.pieces = model::piece_count(request.wr.remote.value, request.length, target.times.piece_bytes);
  Time gap = target.times.piece_gap;
  if (request.pieces > 1) {
    // The last lines cannot be placed before they are received.
    gap = std::max(gap, (received_last - received_first) / static_cast<std::int64_t>(request.pieces - 1));
  }
  if (!options.rules.one_step_requests) {
    plan_pieces(request, first, gap);
    // The acknowledgement shows that the NIC has the bytes, not that they are placed: rule 2. A WRITE longer than the
    // buffer is received as fast as it is placed.
    const std::uint64_t room = ReceiveBuffer::kBytes / target.times.piece_bytes;
    Time received = std::max(served, received_last);
    if (request.pieces > room) {
      received = std::max(received, request.last - gap * static_cast<std::int64_t>(room));
    }
    const std::uint64_t unplaced = pieces_after(request, received) * target.times.piece_bytes;
    const Time acknowledged = target.nic.receive_buffer.admit(received, unplaced, request.last);
    respond(request, acknowledged, 0, acknowledged);
    return;
  }
  plan_pieces(request, first, gap);
}

void World::plan_read(Request& request, Time served) {
  SimNode& target = *request.target;
  if (request.length == 0) {
    request.last = served;
    respond(request, served, 0, served);
    return;
  }
  const Time first = not_before(request, served) + target.times.pcie_read;
  request.pieces = model::piece_count(request.wr.remote.value, request.length, target.times.piece_bytes);
  plan_pieces(request, first, target.times.piece_gap);
}

void World::plan_atomic(Request& request, Time served) {
  SimNode& target = *request.target;
  Time& slot = target.nic.slot_free[(request.wr.remote.value >> target.times.slot_shift) & target.times.slot_mask];
  Time begins = not_before(request, std::max(served, slot));
  if (!target.nic.unit_free.empty()) {
    request.unit = unit_for(target.nic, begins);
    begins = std::max(begins, target.nic.unit_free[request.unit]);
  }
  request.first = begins + target.times.slot_load;
  const Time stored = begins + target.times.slot_service;
  request.last = options.rules.atomic_scope == model::AtomicScope::global ? request.first : stored;
  // If the word changes, load() adds to this. Who has been given a turn by then keeps it, who comes later waits longer.
  slot = stored + kAfter + target.times.slot_recovery;  // rule 8: the next atomic's load comes after this one's store
  if (!target.nic.unit_free.empty()) {
    target.nic.unit_free[request.unit] = slot;
  }
  schedule(request.first, request, Action::load);
}

void World::plan_pieces(Request& request, Time first, Time gap) {
  SimNode& target = *request.target;
  request.first = first;
  request.gap = gap;
  request.stall = Time::zero();
  const Profile::Pcie& pcie = target.profile.pcie;
  if (options.rules.one_step_requests) {
    request.last = first;
    schedule(first, request, Action::begin);
    return;
  }
  const bool is_read = request.kind == model::Kind::read;
  if (!is_read && chance(pcie.write_stall_probability)) {
    request.stall_at = random_() % request.pieces;
    request.stall = uniform(pcie.write_stall_ns);
  }
  const bool scattered = is_read
                             ? pcie.reorder_probability > 0
                             : options.rules.placement == model::PlacementOrder::any || request.stall > Time::zero();
  if (scattered) {
    request.salt = random_();
    request.last = first;
    for (std::uint64_t i = 0; i < request.pieces; ++i) {
      request.last = std::max(request.last, piece_time(request, i));
    }
  } else {
    request.last = first + gap * static_cast<std::int64_t>(request.pieces - 1);
  }
  schedule(request.pieces == 1 ? request.last : request.first, request, Action::begin);
}

Time World::piece_time(const Request& request, std::uint64_t piece) const {
  const Profile::Pcie& pcie = request.target->profile.pcie;
  if (request.kind == model::Kind::read) {
    // Rule 4: one memory read may fetch its lines concurrently, so any of them may be late.
    Time late = Time::zero();
    if (pcie.reorder_probability > 0) {
      const std::uint64_t bits = scatter(request.salt, piece);
      if (fraction(bits) < pcie.reorder_probability) {
        late = exponential(fraction(scatter(bits, piece)), pcie.reorder_ns);
      }
    }
    return request.first + request.gap * static_cast<std::int64_t>(piece) + late;
  }
  // Rule 3: ascending, or in any order.
  const std::uint64_t position =
      options.rules.placement == model::PlacementOrder::any ? scatter(request.salt, piece) % request.pieces : piece;
  const Time stalled = request.stall > Time::zero() && position >= request.stall_at ? request.stall : Time::zero();
  return request.first + request.gap * static_cast<std::int64_t>(position) + stalled;
}

}  // namespace sidelatch::fabric::sim
