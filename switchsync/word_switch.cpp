#include <sidelatch/switchsync/word_switch.h>

#include "common/check_24_bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace sidelatch::switchsync {

namespace {

constexpr std::uint64_t kBytesOfWord = 8;

}  // namespace

WordSwitch::WordSwitch(p4::State& state)
    : stations_(&state.table("Serve.stations")),
      addresses_(&state.table("Serve.own_addresses")),
      arp_addresses_(&state.table("Serve.own_arp_addresses")),
      regions_(&state.table("Serve.regions")),
      queue_pairs_(&state.table("Serve.queue_pairs")),
      words_(&state.reg("Serve.words")),
      psns_(&state.reg("Serve.next_psn")),
      counts_(&state.reg("Serve.msn")),
      kept_(&state.reg("Serve.kept_psn")),
      slots_(psns_->size()) {
  if (queue_pairs_->size() != 0) {
    throw p4::ControlError(
        fmt::format("the switch has {} connections already, which only the control plane knows that "
                    "made them",
                    queue_pairs_->size()));
  }
}

void WordSwitch::add_station(const std::array<std::uint8_t, 6>& mac, std::uint16_t port) {
  stations_->add({{.value = p4::address_number(mac)}}, "forward", {port});
}

void WordSwitch::serve(const std::array<std::uint8_t, 4>& ip, const std::array<std::uint8_t, 6>& mac) {
  addresses_->add({{.value = p4::address_number(ip)}}, "is_here", {p4::address_number(mac)});
  arp_addresses_->add({{.value = p4::address_number(ip)}}, "is_here", {p4::address_number(mac)});
}

void WordSwitch::add_words(const SwitchWords& words) {
  if (words.count == 0 || words.count > words_->size() || words.first > words_->size() - words.count) {
    throw std::invalid_argument(fmt::format("words {} to {} + {}: the switch has words 0 to {}", words.first,
                                            words.first, words.count, words_->size() - 1));
  }
  if (words.address % kBytesOfWord != 0) {
    throw std::invalid_argument(fmt::format("address {:#x}: a multiple of 8", words.address));
  }
  const std::uint64_t bytes = words.count * kBytesOfWord;
  if (words.address > ~std::uint64_t{0} - bytes) {
    throw std::invalid_argument(fmt::format("address {:#x}: {} bytes do not fit behind it", words.address, bytes));
  }
  const unsigned rights = (words.readable ? 1U : 0U) | (words.writable ? 2U : 0U) | (words.atomic ? 4U : 0U);
  regions_->add({{.value = words.rkey}}, "region", {words.address, bytes, words.first, rights});
}

WordSwitch::ConnectionId WordSwitch::connect(const WordConnection& connection) {
  check_24_bits("queue_pair", connection.queue_pair);
  check_24_bits("client_queue_pair", connection.client_queue_pair);
  check_24_bits("client_psn", connection.client_psn);
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.is_used; });
  if (free == slots_.end()) {
    throw p4::ControlError(fmt::format("the switch has {} connections, and room for no more", slots_.size()));
  }
  const auto index = static_cast<ConnectionId>(free - slots_.begin());
  // A packet sees the entry last: what it finds at the index is set by then.
  const std::size_t kept = kept_->size() / psns_->size();
  for (std::size_t i = 0; i < kept; ++i) {
    kept_->write(index * kept + i, 0);
  }
  counts_->write(index, 0);
  psns_->write(index, connection.client_psn);
  free->entry =
      queue_pairs_->add({{.value = p4::address_number(connection.ip)}, {.value = connection.queue_pair}}, "connection",
                        {index, p4::address_number(connection.client), connection.client_queue_pair});
  free->is_used = true;
  return index;
}

void WordSwitch::disconnect(ConnectionId connection) {
  if (connection >= slots_.size() || !slots_[connection].is_used) {
    throw std::invalid_argument(fmt::format("there is no connection {}", connection));
  }
  queue_pairs_->remove(slots_[connection].entry);
  slots_[connection] = {};
}

std::uint64_t WordSwitch::word(std::uint32_t which) const { return static_cast<std::uint64_t>(words_->read(which)); }

void WordSwitch::set_word(std::uint32_t which, std::uint64_t value) {
  if (which >= words_->size()) {
    throw std::invalid_argument(fmt::format("word {}: the switch has words 0 to {}", which, words_->size() - 1));
  }
  words_->write(which, value);
}

}  // namespace sidelatch::switchsync
