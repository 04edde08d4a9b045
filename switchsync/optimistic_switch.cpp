#include <sidelatch/switchsync/optimistic_switch.h>

#include "common/check_24_bits.h"
#include "switchsync/tuple_registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace sidelatch::switchsync {

namespace {

constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;

constexpr std::uint64_t kMostPlaces = std::uint64_t{1} << 31;  // of a cache

constexpr std::uint64_t kWordBytes = 8;
constexpr std::uint64_t kShortestTuple = 16;  // else a READ of the tuple could not be told from one of its word

void check_mtu(std::uint32_t mtu) {
  if (mtu < 256 || mtu > 4096 || !std::has_single_bit(mtu)) {
    throw std::invalid_argument(fmt::format("path_mtu {}: it is 256, 512, 1024, 2048 or 4096", mtu));
  }
}

}  // namespace

OptimisticSwitch::OptimisticSwitch(p4::State& state)
    : stations_(&state.table("Serve.stations")),
      connections_(&state.table("Serve.connections")),
      regions_(&state.table("Serve.regions")),
      registers_(std::make_unique<TupleRegisters>(state)),
      memory_nodes_(&state.table("Serve.memory_nodes")),
      slots_(registers_->connections()) {
  if (connections_->size() != 0 || regions_->size() != 0) {
    throw p4::ControlError(fmt::format(
        "the switch is in use: it has {} entries of connections and {} of tuples, and who holds what is known "
        "only to the control plane that made them. Begin with the switch's state as at its start",
        connections_->size(), regions_->size()));
  }
  begin_cache(state);
}

OptimisticSwitch::~OptimisticSwitch() = default;

void OptimisticSwitch::add_station(const MacAddress& mac, std::uint16_t port) {
  stations_->add({{.value = p4::address_number(mac)}}, "forward", {port});
}

std::uint32_t OptimisticSwitch::add_tuples(const SwitchTuples& tuples) {
  if (has_connections()) {
    throw std::logic_error("add_tuples: the switch has connections already, whose requests to this memory have passed");
  }
  check_mtu(tuples.path_mtu);
  if (tuples.tuple_bytes < kShortestTuple || tuples.tuple_bytes % kWordBytes != 0) {
    throw std::invalid_argument(
        fmt::format("tuple_bytes {}: a multiple of {}, at least {}", tuples.tuple_bytes, kWordBytes, kShortestTuple));
  }
  if (tuples.tuple_bytes > tuples.path_mtu) {
    throw std::invalid_argument(fmt::format(
        "tuple_bytes {}: longer than the path MTU of {}. The switch judges a READ by its one answer; divide "
        "the tuple, or use a larger MTU",
        tuples.tuple_bytes, tuples.path_mtu));
  }
  if (!std::has_single_bit(tuples.slot_bytes) || tuples.slot_bytes < tuples.tuple_bytes) {
    throw std::invalid_argument(
        fmt::format("slot_bytes {}: a power of two, at least tuple_bytes ({})", tuples.slot_bytes, tuples.tuple_bytes));
  }
  if (tuples.address % kWordBytes != 0) {
    throw std::invalid_argument(fmt::format("address {:#x}: a version is a word of 8 bytes, aligned", tuples.address));
  }
  if (tuples.count == 0) {
    throw std::invalid_argument("count 0: there is no tuple");
  }
  if (tuples.count > (~std::uint64_t{0} - tuples.address) / tuples.slot_bytes) {
    throw std::invalid_argument(fmt::format("count {}: slots of {} bytes from {:#x} on would go beyond 2^64",
                                            tuples.count, tuples.slot_bytes, tuples.address));
  }
  for (const Row& row : rows_) {
    const SwitchTuples& other = row.tuples;
    if (other.memory_node == tuples.memory_node && tuples.address < other.address + other.count * other.slot_bytes &&
        other.address < tuples.address + tuples.count * tuples.slot_bytes) {
      throw std::invalid_argument(fmt::format(
          "address {:#x}: {} slots of {} bytes overlap with those from {:#x} on, of key {:#x}. A tuple has one version",
          tuples.address, tuples.count, tuples.slot_bytes, other.address, other.rkey));
    }
  }
  const std::uint32_t first = room_for(tuples.count);
  for (std::uint64_t i = 0; i < tuples.count && !is_cache(); ++i) {
    registers_->write_version(static_cast<std::uint32_t>(first + i), 0);
    registers_->write_holder(static_cast<std::uint32_t>(first + i), 0);
  }
  const p4::EntryHandle entry =
      regions_->add({{.value = p4::address_number(tuples.memory_node)}, {.value = tuples.rkey}}, "tuples",
                    arguments_of(tuples, first, 0));
  close_memory_node(tuples.memory_node);
  rows_.insert(std::ranges::upper_bound(rows_, first, {}, &Row::first), {tuples, first, entry, tuples.is_new});
  return first;
}

void OptimisticSwitch::close_memory_node(const Ipv4Address& memory_node) {
  const p4::U128 node = p4::address_number(memory_node);
  if (memory_nodes_->find(&node) == nullptr) {
    memory_nodes_->add({{.value = node}}, "NoAction");
  }
}

// There is no connection, whose registers could mean the tuples of before.
std::uint32_t OptimisticSwitch::room_for(std::uint64_t count) const {
  std::uint64_t free = 0;
  std::uint64_t largest = 0;
  for (const Row& row : rows_) {
    if (row.first - free >= count) {
      return static_cast<std::uint32_t>(free);
    }
    largest = std::max(largest, row.first - free);
    free = row.first + row.tuples.count;
  }
  const std::uint64_t all = is_cache() ? kMostPlaces : registers_->tuples();
  if (all - free < count) {
    throw std::invalid_argument(fmt::format("count {}: the switch has {} for {} more tuples of {}", count,
                                            is_cache() ? "numbers" : "versions", std::max(largest, all - free), all));
  }
  return static_cast<std::uint32_t>(free);
}

void OptimisticSwitch::remove_tuples(std::uint32_t first) {
  const auto row = std::ranges::find(rows_, first, &Row::first);
  if (row == rows_.end()) {
    throw std::invalid_argument(fmt::format("remove_tuples: add_tuples() has not returned {}", first));
  }
  regions_->remove(row->entry);
  for (std::uint64_t i = 0; i < row->tuples.count; ++i) {
    const auto tuple = static_cast<std::uint32_t>(first + i);
    if (!is_cache()) {
      registers_->write_holder(tuple, 0);
    } else if (is_hot(tuple)) {
      forget_hot(tuple);
    }
  }
  rows_.erase(row);
}

bool OptimisticSwitch::has_tuple(std::uint32_t tuple) const {
  return std::ranges::any_of(
      rows_, [&](const Row& row) { return tuple >= row.first && tuple - row.first < row.tuples.count; });
}

void OptimisticSwitch::add_direct(const Ipv4Address& memory_node, std::uint32_t queue_pair) {
  check_24_bits("queue_pair", queue_pair);
  connections_->add({{.value = p4::address_number(memory_node)}, {.value = queue_pair}}, "direct");
}

OptimisticSwitch::ConnectionId OptimisticSwitch::connect(const SwitchConnection& connection) {
  check_24_bits("client_queue_pair", connection.client_queue_pair);
  check_24_bits("memory_queue_pair", connection.memory_queue_pair);
  check_24_bits("client_psn", connection.client_psn);
  check_mtu(connection.path_mtu);
  if (const auto row = std::ranges::find(rows_, false, &Row::is_ready); row != rows_.end()) {
    throw std::logic_error(fmt::format(
        "connect: the versions of the tuples from {} on are not known: recover() them, or say that they are new",
        row->first));
  }
  const auto free = std::ranges::find(slots_, Use::free, &Slot::use);
  if (free == slots_.end()) {
    throw p4::ControlError(fmt::format("the switch has no room for more than {} connections", slots_.size()));
  }
  const auto index = static_cast<std::uint32_t>(free - slots_.begin());
  registers_->begin(index, connection.client_psn);
  const std::uint64_t client = p4::address_number(connection.client);
  const std::uint64_t memory = p4::address_number(connection.memory_node);
  free->to_memory =
      connections_->add({{.value = memory}, {.value = connection.memory_queue_pair}}, "to_memory",
                        {index, client, connection.client_queue_pair, connection.client_psn, connection.path_mtu});
  try {
    free->to_client =
        connections_->add({{.value = client}, {.value = connection.client_queue_pair}}, "to_client", {index, memory});
  } catch (...) {
    connections_->remove(free->to_memory);
    throw;
  }
  free->use = Use::connected;
  return ConnectionId{free->generation} << 32 | index;
}

OptimisticSwitch::Slot& OptimisticSwitch::slot(ConnectionId connection, const char* what) {
  const std::uint32_t index = index_of(connection);
  if (index >= slots_.size() || slots_[index].use == Use::free || slots_[index].generation != connection >> 32) {
    throw std::invalid_argument(fmt::format("{}: the switch has no connection {:#x}", what, connection));
  }
  return slots_[index];
}

void OptimisticSwitch::fence(ConnectionId connection) {
  Slot& fenced = slot(connection, "fence");
  if (fenced.use == Use::fenced) {
    return;
  }
  // Packets of a queue pair that is in no table would be forwarded.
  connections_->modify(fenced.to_memory, "fenced", {});
  connections_->modify(fenced.to_client, "fenced", {});
  fenced.use = Use::fenced;
}

std::vector<Held> OptimisticSwitch::held(ConnectionId connection) {
  if (slot(connection, "held").use != Use::fenced) {
    throw std::logic_error(fmt::format("held: connection {} is not fenced, and could latch again", connection));
  }
  const std::uint32_t index = index_of(connection);
  std::vector<Held> all;
  const auto look_at = [&](std::uint32_t tuple, std::uint32_t number) {
    if (holder(tuple) != connection) {
      return;
    }
    const bool must_write = (registers_->holder(number_of(tuple)) & kMustWrite) != 0;
    // An epoch begins in the tuple itself, so that recovery finds it.
    const bool begins_epoch = (version(tuple) + 1) % kEpoch == 0;
    all.push_back({.tuple = tuple, .in_doubt = registers_->is_writing(index, number) || must_write || begins_epoch});
  };
  for (const auto& [tuple, hot] : hot_) {
    look_at(tuple, hot.number);
  }
  for (const Row& row : rows_) {
    for (std::uint32_t tuple = row.first; !is_cache() && tuple < row.first + row.tuples.count; ++tuple) {
      look_at(tuple, tuple);
    }
  }
  return all;
}

Released OptimisticSwitch::release(ConnectionId connection) {
  Slot& slot_of_it = slot(connection, "release");
  if (slot_of_it.use != Use::fenced) {
    throw std::logic_error(
        fmt::format("release: connection {} is not fenced, and could latch again: fence it, end its queue pair at the "
                    "memory node, then release it",
                    connection));
  }
  Released released;
  for (const Held& one : held(connection)) {
    registers_->write_holder(number_of(one.tuple), 0);
    if (one.in_doubt) {
      released.in_doubt.push_back(one.tuple);
    } else {
      released.tuples.push_back(one.tuple);
      registers_->write_version(number_of(one.tuple), version(one.tuple) + 1);
    }
  }
  connections_->remove(slot_of_it.to_memory);
  connections_->remove(slot_of_it.to_client);
  slot_of_it = {.generation = slot_of_it.generation + 1};
  return released;
}

void OptimisticSwitch::give_latch(std::uint32_t tuple, ConnectionId to) {
  if (slot(to, "give_latch").use != Use::connected) {
    throw std::invalid_argument(fmt::format("give_latch: connection {:#x} is fenced", to));
  }
  if (!has_tuple(tuple) || is_moving(tuple) || version(tuple) % 2 == 0 || holder(tuple)) {
    throw std::logic_error(fmt::format("give_latch: tuple {} is not in doubt", tuple));
  }
  registers_->write_holder(number_of(tuple), (index_of(to) + 1) | kMustWrite);
}

std::uint64_t OptimisticSwitch::version(std::uint32_t tuple) const {
  const std::uint64_t version = registers_->version(number_of(tuple));
  return registers_->has_short_versions() ? upper_half(tuple) << 32 | version : version;
}

std::vector<p4::U128> OptimisticSwitch::arguments_of(const SwitchTuples& tuples, std::uint32_t first,
                                                     std::uint64_t upper) const {
  std::vector<p4::U128> arguments{tuples.address, p4::U128{tuples.count} * tuples.slot_bytes, tuples.tuple_bytes,
                                  static_cast<unsigned>(std::countr_zero(tuples.slot_bytes)), first};
  if (registers_->has_short_versions()) {
    arguments.emplace_back(upper);
  }
  return arguments;
}

// Only the switch's table has it.
std::uint64_t OptimisticSwitch::upper_half(std::uint32_t tuple) const {
  const auto row = std::ranges::find_if(
      rows_, [&](const Row& one) { return tuple >= one.first && tuple - one.first < one.tuples.count; });
  const auto entry = row == rows_.end() ? regions_->rows().end()
                                        : std::ranges::find(regions_->rows(), row->entry, &p4::TableState::Row::handle);
  return entry == regions_->rows().end() ? 0 : static_cast<std::uint64_t>(entry->arguments.back());
}

std::optional<OptimisticSwitch::ConnectionId> OptimisticSwitch::holder(std::uint32_t tuple) const {
  if (is_cache() && !is_hot(tuple)) {
    return std::nullopt;
  }
  const std::uint32_t holder = registers_->holder(number_of(tuple)) & kHolder;
  if (holder == 0) {
    return std::nullopt;
  }
  return ConnectionId{slots_.at(holder - 1).generation} << 32 | (holder - 1);
}

bool OptimisticSwitch::has_connections() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.use != Use::free; });
}

const SwitchTuples& OptimisticSwitch::tuples(std::uint32_t first) const {
  const auto row = std::ranges::find(rows_, first, &Row::first);
  if (row == rows_.end()) {
    throw std::invalid_argument(fmt::format("add_tuples() has not returned {}", first));
  }
  return row->tuples;
}

void OptimisticSwitch::install_version(std::uint32_t first, std::uint64_t version) { install(first, version, false); }
void OptimisticSwitch::install_latched(std::uint32_t first, std::uint64_t version) { install(first, version, true); }

void OptimisticSwitch::unlatch(std::uint32_t tuple) {
  if (!has_tuple(tuple) || is_moving(tuple) || version(tuple) % 2 == 0 || holder(tuple)) {
    throw std::logic_error(fmt::format("unlatch: tuple {} is not in doubt", tuple));
  }
  registers_->write_version(number_of(tuple), version(tuple) - 1);
}

void OptimisticSwitch::install(std::uint32_t first, std::uint64_t version, bool is_latched) {
  const std::uint64_t count = tuples(first).count;
  if (has_connections()) {
    throw std::logic_error("install_version: the switch has connections already, whose clients may have seen versions");
  }
  if (version % 2 != 0) {
    throw std::invalid_argument(fmt::format("install_version: {} is odd, which means latched", version));
  }
  if (is_cache() && is_latched) {
    throw std::logic_error("install_latched: a switch that caches has no room for all tuples, latched");
  }
  for (std::uint64_t i = 0; i < count && !is_cache(); ++i) {
    registers_->write_version(static_cast<std::uint32_t>(first + i), version + (is_latched ? 1 : 0));
    registers_->write_holder(static_cast<std::uint32_t>(first + i), 0);
  }
  const auto row = std::ranges::find(rows_, first, &Row::first);
  if (registers_->has_short_versions()) {
    regions_->modify(row->entry, "tuples", arguments_of(row->tuples, first, version >> 32));
  }
  row->is_ready = true;
}

std::uint64_t next_epoch(std::span<const std::uint64_t> headers) {
  std::uint64_t latest = 0;
  for (const std::uint64_t header : headers) {
    latest = std::max(latest, header >> 32);
  }
  if (latest == std::numeric_limits<std::uint32_t>::max()) {
    throw std::overflow_error("the tuples' versions have reached their last epoch: give them new memory");
  }
  return (latest + 1) << 32;
}

namespace {

// How many of the tuples' first words are read or written at once.
std::uint64_t words_at_once(const SwitchTuples& tuples, const fabric::QueuePair& direct,
                            const fabric::RemoteSpan& memory, const fabric::LocalSpan& buffer) {
  if (memory.length < tuples.count * tuples.slot_bytes) {
    throw std::invalid_argument(
        fmt::format("recover: {} bytes of memory for {} slots of {}", memory.length, tuples.count, tuples.slot_bytes));
  }
  const std::uint64_t at_once =
      std::min<std::uint64_t>(buffer.length / kWordBytes, direct.options().send_queue_depth / 2);
  if (at_once == 0) {
    throw std::invalid_argument(fmt::format("recover: a buffer of {} bytes; it needs 8", buffer.length));
  }
  return at_once;
}

}  // namespace

fabric::Task<std::vector<std::uint64_t>> read_versions(const OptimisticSwitch& control, std::uint32_t first,
                                                       fabric::QueuePair& direct, fabric::RemoteSpan memory,
                                                       fabric::LocalSpan buffer) {
  const SwitchTuples tuples = control.tuples(first);
  const std::uint64_t at_once = words_at_once(tuples, direct, memory, buffer);
  std::vector<std::uint64_t> headers(tuples.count);
  std::vector<fabric::WorkRequest> chain;
  for (std::uint64_t begin = 0; begin < tuples.count; begin += at_once) {
    const std::uint64_t n = std::min(at_once, tuples.count - begin);
    chain.clear();
    for (std::uint64_t i = 0; i < n; ++i) {
      chain.push_back(fabric::read(buffer.subspan(i * kWordBytes, kWordBytes),
                                   memory.subspan((begin + i) * tuples.slot_bytes, kWordBytes)));
    }
    co_await direct.submit(chain);
    std::memcpy(headers.data() + begin, buffer.data, n * kWordBytes);
  }
  co_return headers;
}

fabric::Task<void> recover(OptimisticSwitch& control, std::uint32_t first, fabric::QueuePair& direct,
                           fabric::RemoteSpan memory, fabric::LocalSpan buffer) {
  const SwitchTuples tuples = control.tuples(first);
  if (control.has_connections()) {
    throw std::logic_error(
        "recover: the switch has connections already; end them at the memory node, fence and release");
  }
  const std::uint64_t at_once = words_at_once(tuples, direct, memory, buffer);
  // In the tuples first: if this ends halfway, the next attempt finds the new epoch and takes a later one.
  const std::vector<std::uint64_t> headers = co_await read_versions(control, first, direct, memory, buffer);
  const std::uint64_t version = next_epoch(headers);
  const auto word = [&](std::uint64_t i) { return buffer.subspan(i * kWordBytes, kWordBytes); };
  const auto header = [&](std::uint64_t i) { return memory.subspan(i * tuples.slot_bytes, kWordBytes); };
  std::vector<fabric::WorkRequest> chain;
  for (std::uint64_t begin = 0; begin < tuples.count; begin += at_once) {
    const std::uint64_t n = std::min(at_once, tuples.count - begin);
    chain.clear();
    for (std::uint64_t i = 0; i < n; ++i) {
      std::memcpy(word(i).data, &version, sizeof version);
      chain.push_back(fabric::write(word(i), header(begin + i)));
    }
    co_await direct.submit(chain);
  }
  // A completion is not a placement (memory model, rule 2); a READ of the last word waits for all.
  co_await direct.read(word(0), header(tuples.count - 1));
  control.install_version(first, version);
}

}  // namespace sidelatch::switchsync
