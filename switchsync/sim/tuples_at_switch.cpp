#include <sidelatch/switchsync/sim/tuples_at_switch.h>

#include <p4/switch_atomics.h>
#include <p4/switch_optimistic.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace sidelatch::switchsync {

using namespace fabric;

namespace {

// Station 0 is the memory node, or the switch's own address; client nodes follow.
constexpr std::uint16_t kStorage = 0;
constexpr std::uint32_t kLatchesKey = 1;
constexpr std::uint64_t kLatchesAddress = 0x1000'0000;
constexpr std::uint64_t kLatchBytes = 8;

template <class Control>
std::uint16_t station_of(const Node* node, std::map<const Node*, std::uint16_t>& stations, Control& control) {
  const auto [at, is_new] = stations.try_emplace(node, static_cast<std::uint16_t>(stations.size() + 1));
  if (is_new) {
    control.add_station(SimulatedSwitch::mac_of(at->second), at->second);
  }
  return at->second;
}

}  // namespace

TuplesAtSwitch::TuplesAtSwitch(sim::Simulation& world, Node& storage)
    : between_(p4::programs::switch_optimistic(), switch_timing("tofino")), control_(between_.device().state()) {
  control_.add_station(SimulatedSwitch::mac_of(kStorage), kStorage);
  world.put_before(storage, *this);
}

std::uint32_t TuplesAtSwitch::add(const RemoteSpan& memory, std::uint64_t count, std::uint64_t tuple_bytes,
                                  std::uint64_t slot_bytes) {
  constexpr std::uint64_t kSmallestMtu = 256;
  constexpr std::uint64_t kLargestMtu = 4096;
  path_mtu_ = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(path_mtu_, std::min(kLargestMtu, std::bit_ceil(std::max(tuple_bytes, kSmallestMtu)))));
  return control_.add_tuples({.memory_node = SimulatedSwitch::ip_of(kStorage),
                              .rkey = memory.rkey.value,
                              .address = memory.address.value,
                              .count = count,
                              .tuple_bytes = tuple_bytes,
                              .slot_bytes = slot_bytes,
                              .path_mtu = path_mtu_,
                              .is_new = true});
}

std::vector<std::uint64_t> TuplesAtSwitch::numbers() const {
  std::vector<std::uint64_t> all;
  all.reserve(connections_.size());
  for (const auto& [number, connection] : connections_) {
    all.push_back(number);
  }
  return all;
}

void TuplesAtSwitch::connected(std::uint64_t connection, const Node& from) {
  const std::uint16_t station = station_of(&from, stations_, control_);
  if (const auto old = connections_.find(connection); old != connections_.end()) {
    control_.fence(old->second.at_switch);
    static_cast<void>(control_.release(old->second.at_switch));
    between_.remove(connection);
  }
  const SimulatedSwitch::Ends ends{.client = station,
                                   .client_queue_pair = ++queue_pairs_,
                                   .target = kStorage,
                                   .target_queue_pair = queue_pairs_,
                                   .first_psn = queue_pairs_};
  const auto at_switch = control_.connect({.client = SimulatedSwitch::ip_of(station),
                                           .client_queue_pair = ends.client_queue_pair,
                                           .client_psn = ends.first_psn,
                                           .memory_node = SimulatedSwitch::ip_of(kStorage),
                                           .memory_queue_pair = ends.target_queue_pair,
                                           .path_mtu = path_mtu_});
  connections_.insert_or_assign(connection, Connection{at_switch, queue_pairs_});
  between_.add(connection, ends);
}

WordsAtSwitch::WordsAtSwitch(sim::Simulation& world, Node& storage, const RemoteSpan& memory, std::uint64_t granule,
                             std::shared_ptr<const p4::Program> program)
    : world_(&world),
      storage_(&storage),
      memory_(memory),
      granule_(granule),
      between_(program != nullptr ? std::move(program) : p4::programs::switch_atomics(), switch_timing("tofino")),
      control_(between_.device().state()) {
  control_.serve(SimulatedSwitch::ip_of(kStorage), SimulatedSwitch::mac_of(kStorage));
  control_.add_words(
      {.rkey = kLatchesKey, .address = kLatchesAddress, .first = 0, .count = words().length / kLatchBytes});
}

RemoteSpan WordsAtSwitch::words() const noexcept {
  const std::uint64_t count = (memory_.length + granule_ - 1) / granule_;
  return {RemoteAddress{kLatchesAddress}, count * kLatchBytes, RKey{kLatchesKey}};
}

std::unique_ptr<QueuePair> WordsAtSwitch::connect(Node& client) {
  auto pair = client.connect(*storage_);
  connected(world_->pass_through(*pair, *this), client);
  return pair;
}

void WordsAtSwitch::connected(std::uint64_t connection, const Node& from) {
  const std::uint16_t station = station_of(&from, stations_, control_);
  if (const auto old = connections_.find(connection); old != connections_.end()) {
    control_.disconnect(old->second);
    between_.remove(connection);
  }
  const std::uint32_t number = ++queue_pairs_;
  const auto at_switch = control_.connect({.ip = SimulatedSwitch::ip_of(kStorage),
                                           .queue_pair = number,
                                           .client = SimulatedSwitch::ip_of(station),
                                           .client_queue_pair = number,
                                           .client_psn = number});
  connections_.insert_or_assign(connection, at_switch);
  between_.add(connection, {.client = station,
                            .client_queue_pair = number,
                            .target = kStorage,
                            .target_queue_pair = number,
                            .first_psn = number});
}

std::uint64_t WordsAtSwitch::word(RemoteAddress record) const {
  return control_.word(static_cast<std::uint32_t>((record.value - memory_.address.value) / granule_));
}

}  // namespace sidelatch::switchsync
