#include "common/check_24_bits.h"
#include "flows/flow_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

namespace sidelatch::flows {

using namespace program;

namespace {

constexpr std::size_t kMostCopies = 32;         // bits of a register
constexpr std::uint32_t kMostRetries = 0xffff;  // of a register
constexpr std::uint64_t kMostBatchBytes = std::uint64_t{1} << 30;
// Of the data in a packet: Ethernet's 14 bytes, IPv4's 20, UDP's 8, BTH's 12, RETH's 16, the ICRC's 4.
constexpr std::size_t kMostAround = 74;
constexpr std::int64_t kLongestTimeOut = std::int64_t{1} << 28;  // the program counts to 2^32, and waits eight times

const char* name_of(ByteOrder order) { return order == ByteOrder::little ? "little" : "big"; }

}  // namespace

// No two rings share memory, as far as one key of a unit says: a head that the switch has written would be taken for a
// unit's. Others may have the memory of who has gone.
void FlowSwitch::check_apart(const Flow& flow, const std::vector<bool>& gone_producers,
                             const std::vector<bool>& gone_consumers) {
  const std::size_t producers = flow.producers.size();
  const auto ring = [&](std::size_t i) -> const FlowRing& {
    return i < producers ? flow.producers[i] : flow.consumers[i - producers];
  };
  const auto name = [&](std::size_t i) {
    return i < producers ? fmt::format("producers[{}]", i) : fmt::format("consumers[{}]", i - producers);
  };
  const auto is_in = [](const std::vector<bool>& some, std::size_t i) { return i < some.size() && some[i]; };
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < producers + flow.consumers.size(); ++i) {
    if (!(i < producers ? is_in(gone_producers, i) : is_in(gone_consumers, i - producers))) {
      order.push_back(i);
    }
  }
  // Units behind one router have its MAC.
  const auto place = [&](std::size_t i) { return std::tie(ring(i).mac, ring(i).ip, ring(i).rkey, ring(i).address); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const FlowRing& one = ring(order[i - 1]);
    const FlowRing& next = ring(order[i]);
    if (one.mac == next.mac && one.ip == next.ip && one.rkey == next.rkey &&
        next.address - one.address < one.shape.bytes()) {
      throw std::invalid_argument(fmt::format("{}: its memory is also that of {}",
                                              name(std::max(order[i - 1], order[i])),
                                              name(std::min(order[i - 1], order[i]))));
    }
  }
}

// The rings before `known_...` are those of a flow that runs.
void FlowSwitch::check(const Flow& flow, std::size_t known_producers, std::size_t known_consumers) const {
  if (flow.producers.empty() || flow.consumers.empty()) {
    throw std::invalid_argument(fmt::format("a flow of {} producers and {} consumers: it has one of each at least",
                                            flow.producers.size(), flow.consumers.size()));
  }
  if (flow.kind == FlowKind::shuffle && known_producers == 0 && flow.producers.size() % flow.consumers.size() != 0) {
    throw std::invalid_argument(
        fmt::format("{} producers' rings for {} consumers: in a shuffle each producer has a ring for each consumer",
                    flow.producers.size(), flow.consumers.size()));
  }
  if (flow.kind == FlowKind::replicate) {
    if (flow.consumers.size() > kMostCopies) {
      throw std::invalid_argument(
          fmt::format("{} consumers: a flow is replicated to {} at most", flow.consumers.size(), kMostCopies));
    }
    const FlowRing& one = flow.consumers.front();
    for (std::size_t i = 1; i < flow.consumers.size(); ++i) {
      const FlowRing& other = flow.consumers[i];
      // Copies of a packet differ by where the ring is, and by nothing else.
      if (other.shape.slots != one.shape.slots || other.shape.order != one.shape.order ||
          other.shape.alignment != one.shape.alignment || other.end.psn != one.end.psn) {
        throw std::invalid_argument(fmt::format(
            "consumers[{}] of a replicated flow: slots {}, alignment {}, {} endian, end.psn {:#x}; those of "
            "consumers[0] are {}, {}, {} and {:#x}. Give them the same, and ends of one new_ends()",
            i, other.shape.slots, other.shape.alignment, name_of(other.shape.order), other.end.psn, one.shape.slots,
            one.shape.alignment, name_of(one.shape.order), one.end.psn));
      }
    }
  }
  if (flow.path_mtu < 256 || flow.path_mtu > 4096 || !std::has_single_bit(flow.path_mtu)) {
    throw std::invalid_argument(fmt::format("path_mtu {}: it is 256, 512, 1024, 2048 or 4096", flow.path_mtu));
  }
  if (const std::size_t most = device_->options().packet_bytes; flow.path_mtu + kMostAround > most) {
    throw std::invalid_argument(
        fmt::format("path_mtu {}: its packets have up to {} bytes, and the switch takes {} at most "
                    "(SwitchOptions::packet_bytes)",
                    flow.path_mtu, flow.path_mtu + kMostAround, most));
  }
  if (flow.batch_bytes == 0 || flow.batch_bytes > kMostBatchBytes) {
    throw std::invalid_argument(fmt::format("batch_bytes {}: 1 to {}", flow.batch_bytes, kMostBatchBytes));
  }
  if (flow.poll_interval <= std::chrono::nanoseconds(0)) {
    throw std::invalid_argument(fmt::format("poll_interval {} ns: 1 at least", flow.poll_interval.count()));
  }
  // The program's clock has 32 bits of microseconds, and a thread must look at it more often than it wraps.
  constexpr std::chrono::nanoseconds kLongestInterval = std::chrono::minutes(10);
  for (const auto& [name, interval] :
       {std::pair{"poll_interval", flow.poll_interval}, std::pair{"idle_interval", flow.idle_interval}}) {
    if (interval > kLongestInterval) {
      throw std::invalid_argument(
          fmt::format("{} {} ns: {} at most", name, interval.count(), kLongestInterval.count()));
    }
  }
  if (flow.time_out < std::chrono::microseconds(0) || flow.time_out.count() > kLongestTimeOut) {
    throw std::invalid_argument(fmt::format("time_out {} us: 0 to {}", flow.time_out.count(), kLongestTimeOut));
  }
  if (flow.most_retries > kMostRetries) {
    throw std::invalid_argument(fmt::format("most_retries {}: 0 to {}", flow.most_retries, kMostRetries));
  }
  if (flow.first_count > kCount) {
    throw std::invalid_argument(fmt::format("first_count {}: 0 to {}", flow.first_count, kCount));
  }
  const RingShape& first = flow.producers.front().shape;
  std::set<std::uint32_t> ends;
  const auto check_ring = [&](const std::string& name, const FlowRing& ring) {
    try {
      ring.shape.check();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}: {}", name, error.what()));
    }
    if (ring.shape.item_bytes != first.item_bytes || ring.shape.stride() != first.stride()) {
      throw std::invalid_argument(fmt::format(
          "{}: items of {} bytes, {} from one to the next; those of producers[0] are {} and {}. A flow has one size",
          name, ring.shape.item_bytes, ring.shape.stride(), first.item_bytes, first.stride()));
    }
    if (ring.address % sizeof(std::uint32_t) != 0) {
      throw std::invalid_argument(fmt::format("{}: address {:#x}: it must be a multiple of 4", name, ring.address));
    }
    if (ring.address + (ring.shape.bytes() - 1) < ring.address) {
      throw std::invalid_argument(
          fmt::format("{}: address {:#x}: a ring of {} bytes there goes beyond the end of memory", name, ring.address,
                      ring.shape.bytes()));
    }
    if (ring.port >= device_->options().ports) {
      throw std::invalid_argument(
          fmt::format("{}: port {}: those of the switch are 0 to {}", name, ring.port, device_->options().ports - 1));
    }
    check_24_bits(name + ": queue_pair", ring.queue_pair);
    check_24_bits(name + ": end.queue_pair", ring.end.queue_pair);
    check_24_bits(name + ": end.psn", ring.end.psn);
    const std::uint32_t end = ring.end.queue_pair;
    if (end < kFirstEnd || end - kFirstEnd >= are_ends_used_.size()) {
      throw std::invalid_argument(fmt::format("{}: end.queue_pair {} is none that new_end() has given", name, end));
    }
    if (are_ends_used_[end - kFirstEnd] || !ends.insert(end).second) {
      throw std::invalid_argument(fmt::format(
          "{}: end.queue_pair {} has been used by an earlier ring: take another one from new_end()", name, end));
    }
  };
  for (std::size_t i = known_producers; i < flow.producers.size(); ++i) {
    check_ring(fmt::format("producers[{}]", i), flow.producers[i]);
  }
  for (std::size_t i = known_consumers; i < flow.consumers.size(); ++i) {
    check_ring(fmt::format("consumers[{}]", i), flow.consumers[i]);
  }
}

// Two ends that send to one queue pair, each with packet numbers of its own, would take it for dead in the end. Only of
// new rings: the number of one that has ended may be another's by now, so that a take_over() cannot be judged.
void FlowSwitch::check_connections(const Flow& flow, std::size_t first_producer, std::size_t first_consumer) const {
  std::map<std::tuple<MacAddress, Ipv4Address, std::uint32_t>, std::string> known;
  const auto check_rings = [&](const char* kind, const std::vector<FlowRing>& rings, std::size_t first) {
    for (std::size_t i = first; i < rings.size(); ++i) {
      const std::string name = fmt::format("{}[{}]", kind, i);
      const auto [other, is_new] = known.emplace(std::tuple(rings[i].mac, rings[i].ip, rings[i].queue_pair), name);
      if (!is_new) {
        throw std::invalid_argument(fmt::format("{}: queue_pair {} is also that of {}: each ring has its own", name,
                                                rings[i].queue_pair, other->second));
      }
    }
  };
  check_rings("producers", flow.producers, first_producer);
  check_rings("consumers", flow.consumers, first_consumer);
}

}  // namespace sidelatch::flows
