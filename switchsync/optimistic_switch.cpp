#include <sidelatch/switchsync/optimistic_switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace sidelatch::switchsync {

namespace {

// Of an element of the program's register `state`.
constexpr std::uint32_t kWaiting = 0x2000'0000;
constexpr std::uint32_t kKind = 0x0700'0000;
constexpr std::uint32_t kWrite = 0x0300'0000;

constexpr std::uint64_t kWordBytes = 8;
constexpr std::uint64_t kShortestTuple = 16;  // else a READ of the tuple could not be told from one of its word

template <std::size_t N>
std::uint64_t number_of(const std::array<std::uint8_t, N>& bytes) {
  std::uint64_t number = 0;
  for (const std::uint8_t byte : bytes) {
    number = number << 8 | byte;
  }
  return number;
}

void check_number(const char* what, std::uint32_t number) {
  if (number >= 1U << 24) {
    throw std::invalid_argument(fmt::format("{} {:#x}: it has 24 bits", what, number));
  }
}

void check_mtu(std::uint32_t mtu) {
  if (mtu < 256 || mtu > 4096 || !std::has_single_bit(mtu)) {
    throw std::invalid_argument(fmt::format("path_mtu {}: it is 256, 512, 1024, 2048 or 4096", mtu));
  }
}

}  // namespace

OptimisticSwitch::OptimisticSwitch(p4::State& state)
    : state_(&state),
      stations_(&state.table("Serve.stations")),
      connections_(&state.table("Serve.connections")),
      regions_(&state.table("Serve.regions")),
      psns_(&state.reg("Serve.state")),
      answered_(&state.reg("Serve.answered")),
      versions_(&state.reg("Serve.versions")),
      holders_(&state.reg("Serve.holders")),
      wanted_(&state.reg("Serve.wanted")),
      slots_(psns_->size()) {}

void OptimisticSwitch::add_station(const MacAddress& mac, std::uint16_t port) {
  stations_->add({{.value = number_of(mac)}}, "forward", {port});
}

std::uint32_t OptimisticSwitch::add_tuples(const SwitchTuples& tuples) {
  check_mtu(tuples.path_mtu);
  if (tuples.tuple_bytes < kShortestTuple || tuples.tuple_bytes % kWordBytes != 0) {
    throw std::invalid_argument(fmt::format("tuple_bytes {}: a multiple of {}, at least {}", tuples.tuple_bytes,
                                            kWordBytes, kShortestTuple));
  }
  if (tuples.tuple_bytes > tuples.path_mtu) {
    throw std::invalid_argument(
        fmt::format("tuple_bytes {}: longer than the path MTU of {}. The switch judges a READ by its one answer; divide "
                    "the tuple, or use a larger MTU",
                    tuples.tuple_bytes, tuples.path_mtu));
  }
  if (!std::has_single_bit(tuples.slot_bytes) || tuples.slot_bytes < tuples.tuple_bytes) {
    throw std::invalid_argument(fmt::format("slot_bytes {}: a power of two, at least tuple_bytes ({})",
                                            tuples.slot_bytes, tuples.tuple_bytes));
  }
  if (tuples.address % kWordBytes != 0) {
    throw std::invalid_argument(fmt::format("address {:#x}: a version is a word of 8 bytes, aligned", tuples.address));
  }
  if (tuples.count == 0 || tuples.count > versions_->size() - tuples_) {
    throw std::invalid_argument(fmt::format("count {}: the switch has versions for {} more tuples of {}", tuples.count,
                                            versions_->size() - tuples_, versions_->size()));
  }
  const auto first = static_cast<std::uint32_t>(tuples_);
  regions_->add({{.value = number_of(tuples.memory_node)}, {.value = tuples.rkey}}, "tuples",
                {tuples.address, tuples.count * tuples.slot_bytes, tuples.tuple_bytes,
                 static_cast<unsigned>(std::countr_zero(tuples.slot_bytes)), first});
  tuples_ += tuples.count;
  return first;
}

OptimisticSwitch::ConnectionId OptimisticSwitch::connect(const SwitchConnection& connection) {
  check_number("client_queue_pair", connection.client_queue_pair);
  check_number("memory_queue_pair", connection.memory_queue_pair);
  check_number("client_psn", connection.client_psn);
  check_mtu(connection.path_mtu);
  const auto free = std::ranges::find(slots_, Use::free, &Slot::use);
  if (free == slots_.end()) {
    throw p4::ControlError(fmt::format("the switch has no room for more than {} connections", slots_.size()));
  }
  const auto index = static_cast<ConnectionId>(free - slots_.begin());
  psns_->write(index, connection.client_psn);
  answered_->write(index, 0);
  const std::uint64_t client = number_of(connection.client);
  const std::uint64_t memory = number_of(connection.memory_node);
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
  return index;
}

OptimisticSwitch::Slot& OptimisticSwitch::slot(ConnectionId connection, const char* what) {
  if (connection >= slots_.size() || slots_[connection].use == Use::free) {
    throw std::invalid_argument(fmt::format("{}: the switch has no connection {}", what, connection));
  }
  return slots_[connection];
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

Released OptimisticSwitch::release(ConnectionId connection) {
  Slot& slot_of_it = slot(connection, "release");
  if (slot_of_it.use != Use::fenced) {
    throw std::logic_error(
        fmt::format("release: connection {} is not fenced, and could latch again: fence it, end its queue pair at the "
                    "memory node, then release it",
                    connection));
  }
  const auto latest = static_cast<std::uint32_t>(psns_->read(connection));
  const auto wanted = static_cast<std::uint32_t>(wanted_->read(connection));
  const bool is_writing = (latest & kWaiting) != 0 && (latest & kKind) == kWrite;
  Released released;
  for (std::uint32_t tuple = 0; tuple < tuples_; ++tuple) {
    if (holder(tuple) != connection) {
      continue;
    }
    holders_->write(tuple, 0);
    if (is_writing && tuple == wanted) {
      released.in_doubt = tuple;
    } else {
      released.tuples.push_back(tuple);
      versions_->write(tuple, version(tuple) + 1);
    }
  }
  connections_->remove(slot_of_it.to_memory);
  connections_->remove(slot_of_it.to_client);
  slot_of_it = {};
  return released;
}

void OptimisticSwitch::give_latch(std::uint32_t tuple, ConnectionId to) {
  if (slot(to, "give_latch").use != Use::connected) {
    throw std::invalid_argument(fmt::format("give_latch: connection {} is fenced", to));
  }
  if (tuple >= tuples_ || version(tuple) % 2 == 0 || holder(tuple)) {
    throw std::logic_error(fmt::format("give_latch: tuple {} is not in doubt", tuple));
  }
  holders_->write(tuple, to + 1);
}

std::uint64_t OptimisticSwitch::version(std::uint32_t tuple) const {
  return static_cast<std::uint64_t>(versions_->read(tuple));
}

std::optional<OptimisticSwitch::ConnectionId> OptimisticSwitch::holder(std::uint32_t tuple) const {
  const auto holder = static_cast<std::uint32_t>(holders_->read(tuple));
  return holder == 0 ? std::nullopt : std::optional(holder - 1);
}

bool OptimisticSwitch::has_connections() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.use != Use::free; });
}

void OptimisticSwitch::install_versions(std::uint32_t first, std::span<const std::uint64_t> versions) {
  if (has_connections()) {
    throw std::logic_error("install_versions: the switch has connections already, whose clients may have seen versions");
  }
  if (first > tuples_ || versions.size() > tuples_ - first) {
    throw std::invalid_argument(fmt::format("install_versions: tuples {} to {} of {}", first,
                                            first + versions.size(), tuples_));
  }
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (versions[i] % 2 != 0) {
      throw std::invalid_argument(fmt::format("install_versions: version {} of tuple {} is odd, which means latched",
                                              versions[i], first + i));
    }
    versions_->write(first + i, versions[i]);
    holders_->write(first + i, 0);
  }
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

fabric::Task<void> recover(OptimisticSwitch& control, std::uint32_t first, SwitchTuples tuples,
                           fabric::QueuePair& direct, fabric::RemoteSpan memory, fabric::LocalSpan buffer) {
  if (control.has_connections()) {
    throw std::logic_error("recover: the switch has connections already; end them at the memory node, fence and release");
  }
  if (memory.length < tuples.count * tuples.slot_bytes) {
    throw std::invalid_argument(fmt::format("recover: {} bytes of memory for {} slots of {}", memory.length,
                                            tuples.count, tuples.slot_bytes));
  }
  const std::uint64_t at_once = std::min<std::uint64_t>(buffer.length / kWordBytes, direct.options().send_queue_depth / 2);
  if (at_once == 0) {
    throw std::invalid_argument(fmt::format("recover: a buffer of {} bytes; it needs 8", buffer.length));
  }
  std::vector<std::uint64_t> headers(tuples.count);
  std::vector<fabric::WorkRequest> chain;
  const auto word = [&](std::uint64_t i) { return buffer.subspan(i * kWordBytes, kWordBytes); };
  const auto header = [&](std::uint64_t i) { return memory.subspan(i * tuples.slot_bytes, kWordBytes); };
  for (std::uint64_t begin = 0; begin < tuples.count; begin += at_once) {
    const std::uint64_t n = std::min(at_once, tuples.count - begin);
    chain.clear();
    for (std::uint64_t i = 0; i < n; ++i) {
      chain.push_back(fabric::read(word(i), header(begin + i)));
    }
    co_await direct.submit(chain);
    std::memcpy(headers.data() + begin, buffer.data, n * kWordBytes);
  }
  // In the tuples first: if this ends halfway, the next attempt finds the new epoch and takes a later one.
  const std::uint64_t version = next_epoch(headers);
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
  const std::vector<std::uint64_t> versions(tuples.count, version);
  control.install_versions(first, versions);
}

}  // namespace sidelatch::switchsync
