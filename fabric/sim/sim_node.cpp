#include "sim_node.h"

#include "sim_queue_pair.h"
#include "world.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

namespace sidelatch::fabric::sim {

NicTimes::NicTimes(const Profile& profile, std::uint64_t atom)
    : doorbell(from_ns(profile.nic.doorbell_ns)),
      chain(from_ns(profile.nic.chain_ns)),
      cqe(from_ns(profile.nic.cqe_ns)),
      request(from_ns(profile.nic.request_ns)),
      respond_write(from_ns(profile.nic.responds_to_write_ns())),
      respond_read(from_ns(profile.nic.responds_to_read_ns())),
      respond_atomic(from_ns(profile.nic.responds_to_atomic_ns())),
      packet(from_ns(profile.nic.packet_ns)),
      latency(from_ns(profile.nic.latency_ns)),
      completion(from_ns(profile.nic.completion_ns)),
      propagation(from_ns(profile.link.propagation_ns)),
      qp_miss(from_ns(profile.qp_cache.miss_ns)),
      slot_service(from_ns(profile.lock_table.service_ns)),
      slot_load(from_ns(profile.lock_table.load_ns)),
      slot_recovery(from_ns(profile.lock_table.recovery_ns)),
      slot_changed(from_ns(profile.lock_table.changed_ns)),
      pcie_read(from_ns(profile.pcie.read_ns)),
      pcie_write(from_ns(profile.pcie.write_ns)),
      wire_ps_per_byte(8e3 / profile.link.gbps),
      piece_bytes(std::min<std::uint64_t>(atom, profile.memory.atom_bytes)),
      piece_gap{static_cast<std::int64_t>(static_cast<double>(piece_bytes) * (8e3 / profile.pcie.gbps))},
      slot_shift(static_cast<unsigned>(std::countr_zero(profile.lock_table.slot_bytes))),
      slot_mask(profile.lock_table.slots() - 1) {}

SimNode::SimNode(World& the_world, std::string name, const Profile& node_profile, std::uint32_t index)
    : Node(std::move(name)),
      world(the_world),
      profile(node_profile),
      times(node_profile, the_world.options.rules.atom),
      next_address_((std::uint64_t{index} + 1) << 40) {
  nic.slot_free.resize(profile.lock_table.slots());
  nic.unit_free.resize(profile.lock_table.units);
  nic.cached_queue_pairs.resize(profile.qp_cache.requester_entries);
  nic.free_cache_slots.resize(profile.qp_cache.requester_entries);
  std::iota(nic.free_cache_slots.begin(), nic.free_cache_slots.end(), std::size_t{0});
}

SimNode::~SimNode() = default;

Reactor& SimNode::reactor() { return world.reactor; }

SimNode& SimNode::of_this_simulation(Node& node, const char* function) const {
  auto* const ours = dynamic_cast<SimNode*>(&node);
  if (ours == nullptr || &ours->world != &world) {
    throw std::invalid_argument(std::string(function) + ": node " + node.name() +
                                " is not a node of the same simulation as " + name());
  }
  return *ours;
}

std::unique_ptr<QueuePair> SimNode::connect(Node& target, const QueuePairOptions& options) {
  SimNode& node = of_this_simulation(target, "connect");
  auto queue_pair = std::make_unique<SimQueuePair>(*this, node, options);
  if (node.before != nullptr) {
    queue_pair->device = node.before;
    mixed_arrivals = true;
    node.before->connected(queue_pair->connection(), *this);
  }
  return queue_pair;
}

std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> SimNode::connect_pair(
    Node& peer, const QueuePairOptions& options) {
  SimNode& other = of_this_simulation(peer, "connect_pair");
  auto here = std::make_unique<SimQueuePair>(*this, other, options);
  auto there = std::make_unique<SimQueuePair>(other, *this, options);
  here->join(*there);
  return {std::move(here), std::move(there)};
}

void SimNode::expect_answers_of(SimNode& target) noexcept {
  target.mixed_arrivals = true;  // requests come there
  const Time way = target.times.latency + target.times.propagation;
  mixed_arrivals = mixed_arrivals || way_of_answers_.value_or(way) != way;
  way_of_answers_ = way;
}

void SimNode::revoke(QueuePair& queue_pair) {
  auto* ended = dynamic_cast<SimQueuePair*>(&queue_pair);
  if (ended == nullptr || &ended->target() != this) {
    throw std::invalid_argument("revoke: the queue pair is not connected to node " + name());
  }
  ended->revoke();
}

Duration SimNode::cpu_time(CpuWork work, std::uint64_t bytes) const noexcept {
  if (work == CpuWork::rpc) {
    return from_ns(profile.cpu.rpc_ns);
  }
  const double rate = work == CpuWork::checksum ? profile.cpu.checksum_gbytes : profile.cpu.line_versions_gbytes;
  return rate == 0 ? Duration{} : from_ns(static_cast<double>(bytes) / rate);
}

std::unique_ptr<Cpu> SimNode::make_cpu() {
  auto made = std::make_unique<SimCpu>(*this);
  watching = made.get();
  return made;
}

// ---- SimCpu.

SimCpu::SimCpu(SimNode& node) noexcept : DirectCpu(node, node.world.reactor), node_(&node) {}

void SimCpu::about_to_touch(const LocalSpan& word, bool writes) {
  node_->world.touch(*node_, word.data, word.length, writes);
}

void SimCpu::wait_begins(const LocalSpan& word) { node_->world.watch(*node_, word.data, word.length); }

// The simulation assigns its own addresses, so a run does not depend on where the host puts memory. Only the low 12
// bits of host addresses are kept: they determine lines and, with the shipped profiles, lock slots.
void SimNode::place_region(Registration& registration) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t in_page = reinterpret_cast<std::uintptr_t>(registration.data) % kPage;
  const std::uint64_t address = choose_address(registration, next_address_ + in_page);
  registration.address = RemoteAddress{address};
  const std::uint64_t pages = (in_page + registration.length + kPage - 1) / kPage;
  next_address_ = address - in_page + (pages + 1) * kPage;  // one page between regions, so that overruns are detected
  if (slots_span_pages()) {
    live_regions_.push_back(registration);
  }
}

// At `least` or behind it. Rule 8: atomics on one word exclude each other by its lock slot. If its memory is registered
// twice, a word has two addresses, and both must choose the same slot.
std::uint64_t SimNode::choose_address(const Registration& registration, std::uint64_t least) const {
  const std::uint64_t period = std::uint64_t{1} << profile.lock_table.address_bits;
  std::uint64_t address = least;
  bool is_fixed = false;
  for (const Registration& other : live_regions_) {
    const std::byte* const end = registration.data + registration.length;
    if (registration.data >= other.data + other.length || other.data >= end) {
      continue;
    }
    const auto behind = static_cast<std::uint64_t>(registration.data - other.data);  // wraps if it lies before
    const std::uint64_t step = (other.address.value + behind - address) % period;
    if (step != 0 && is_fixed) {
      throw std::invalid_argument("register_memory: this memory of node " + name() +
                                  " overlaps two regions whose addresses choose lock slots differently: register the "
                                  "whole before its parts, or set lock_table.address_bits to 12 or less");
    }
    address += step;
    is_fixed = true;
  }
  return address;
}

void SimNode::region_removed(Registration& registration, bool /*in_use*/) noexcept {
  world.stop_executing(*this, registration.data, registration.length);
  std::erase_if(live_regions_, [&](const Registration& live) { return live.rkey == registration.rkey; });
}

}  // namespace sidelatch::fabric::sim
