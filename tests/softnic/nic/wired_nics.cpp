#include "wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sidelatch::softnic::nic {

namespace {

constexpr Time kDelay = 1000;

NicOptions with_addresses(NicOptions options, std::uint8_t id) {
  options.mac = {2, 0, 0, 0, 0, id};
  Gid six{};
  six[0] = 0xfd;
  six[15] = id;
  options.gids = {gid_of({10, 0, 0, id}), six};
  return options;
}

std::byte* aligned(std::vector<std::byte>& memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (4096 - address % 4096) % 4096;
}

}  // namespace

Host::Host(std::uint8_t id, std::unique_ptr<MemoryAccess> access, NicOptions options)
    : access_(std::move(access)),
      memory_(kMemoryBytes + 4096),
      data_(aligned(memory_)),
      nic(with_addresses(std::move(options), id), *access_),
      domain(nic.make_domain()),
      sends(nic.make_completion_queue(4096)),
      receives(nic.make_completion_queue(4096)),
      key(nic.register_memory({data_, kMemoryBytes, reinterpret_cast<std::uintptr_t>(data_), domain, Rights::all})) {}

void Host::fill(std::size_t offset, std::size_t length, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : bytes(offset, length)) {
    byte = static_cast<std::byte>(random());
  }
}

std::vector<Completion> Host::poll(CompletionQueue& queue) {
  std::vector<Completion> completions(queue.size());
  EXPECT_EQ(queue.poll(completions), completions.size());
  return completions;
}

std::vector<Event> Host::events() {
  std::vector<Event> events;
  while (const auto event = nic.next_event()) {
    events.push_back(*event);
  }
  return events;
}

AddressVector Host::address_of(const Host& other, std::uint8_t gid_index) const {
  return {.mac = other.nic.options().mac, .gid = other.nic.options().gids[gid_index], .gid_index = gid_index};
}

QueuePairOptions Host::options(QueuePairType type) const {
  return {.type = type,
          .domain = domain,
          .send_completions = &sends,
          .receive_completions = &receives,
          .send_depth = 64,
          .receive_depth = 64,
          .most_send_sges = 4,
          .most_receive_sges = 4,
          .most_inline = 256};
}

QueuePairAttributes to_init(QueuePairType type, Rights rights) {
  QueuePairAttributes attributes;
  attributes.state = QueuePairState::init;
  attributes.rights = rights;
  attributes.q_key = type == QueuePairType::ud ? 0x11223344 : 0;
  return attributes;
}

Attributes init_set(QueuePairType type) {
  return Attributes::state | Attributes::p_key_index | Attributes::port |
         (type == QueuePairType::ud ? Attributes::q_key : Attributes::rights);
}

QueuePairAttributes to_rtr(const Link& link, const AddressVector& to, std::uint32_t remote_qp, Psn psn) {
  QueuePairAttributes attributes;
  attributes.state = QueuePairState::rtr;
  attributes.address = to;
  attributes.path_mtu = link.mtu;
  attributes.remote_qp = remote_qp;
  attributes.receive_psn = psn;
  attributes.max_dest_rd_atomic = link.dest_rd_atomic;
  attributes.min_rnr_timer = link.min_rnr_timer;
  return attributes;
}

Attributes rtr_set(QueuePairType type) {
  if (type == QueuePairType::ud) {
    return Attributes::state;
  }
  const Attributes connected =
      Attributes::state | Attributes::address | Attributes::path_mtu | Attributes::remote_qp | Attributes::receive_psn;
  return type == QueuePairType::uc ? connected : connected | Attributes::max_dest_rd_atomic | Attributes::min_rnr_timer;
}

QueuePairAttributes to_rts(const Link& link, Psn psn) {
  QueuePairAttributes attributes;
  attributes.state = QueuePairState::rts;
  attributes.timeout = link.timeout;
  attributes.retry_count = link.retry_count;
  attributes.rnr_retry = link.rnr_retry;
  attributes.send_psn = psn;
  attributes.max_rd_atomic = link.rd_atomic;
  return attributes;
}

Attributes rts_set(QueuePairType type) {
  const Attributes common = Attributes::state | Attributes::send_psn;
  return !is_reliable(type) ? common
                            : common | Attributes::timeout | Attributes::retry_count | Attributes::rnr_retry |
                                  Attributes::max_rd_atomic;
}

void bring_up(QueuePair& pair, const Link& link, const AddressVector& to, std::uint32_t remote_qp, Psn receive,
              Psn send) {
  const QueuePairType type = pair.options().type;
  pair.modify(to_init(type, link.rights), init_set(type));
  pair.modify(to_rtr(link, to, remote_qp, receive), rtr_set(type));
  pair.modify(to_rts(link, send), rts_set(type));
}

Connection connect(Host& a, Host& b, const Link& link) { return connect(a, b, link, a.options(), b.options()); }

Connection connect(Host& a, Host& b, const Link& link, const QueuePairOptions& a_options,
                   const QueuePairOptions& b_options) {
  Connection connection{a.nic.make_queue_pair(a_options), b.nic.make_queue_pair(b_options)};
  bring_up(connection.a, link, a.address_of(b, link.gid_index), connection.b.number(), link.b_to_a, link.a_to_b);
  bring_up(connection.b, link, b.address_of(a, link.gid_index), connection.a.number(), link.a_to_b, link.b_to_a);
  return connection;
}

void LossyWire::pull() {
  std::vector<std::byte> buffer(kFrameRoom);
  for (Host* const host : hosts_) {
    while (const std::size_t bytes = host->nic.pull_frame(buffer, now_)) {
      send({buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes)});
    }
  }
}

void LossyWire::send(std::vector<std::byte> frame) {
  if ((on_send && !on_send(frame)) || chance(faults_.drop)) {
    return;
  }
  for (int copies = chance(faults_.duplicate) ? 2 : 1; copies > 0; --copies) {
    const Time late = chance(faults_.reorder) ? random_() % (8 * kDelay) : 0;
    flying_.push_back({now_ + kDelay + late, ++order_, frame});
    std::ranges::push_heap(flying_, std::greater<>());
  }
}

void LossyWire::land() {
  std::ranges::pop_heap(flying_, std::greater<>());
  const Flight flight = std::move(flying_.back());
  flying_.pop_back();
  now_ = std::max(now_, flight.at);
  ++carried_;
  const Ethernet ethernet = Ethernet::read(flight.frame.data());
  const bool is_to_group = (ethernet.destination[0] & 1) != 0;
  for (Host* const host : hosts_) {
    const MacAddress mac = host->nic.options().mac;
    if (is_to_group ? mac != ethernet.source : mac == ethernet.destination) {
      host->nic.on_frame(flight.frame, now_);
    }
  }
}

void LossyWire::deliver() {
  for (pull(); !flying_.empty(); pull()) {
    land();
  }
}

void LossyWire::run(const std::function<bool()>& done) {
  for (pull(); !done || !done(); pull()) {
    Time timer = kNever;
    for (Host* const host : hosts_) {
      timer = std::min(timer, host->nic.next_deadline());
    }
    if (!flying_.empty() && flying_.front().at <= timer) {
      land();
    } else if (timer != kNever) {
      now_ = std::max(now_, timer);
      for (Host* const host : hosts_) {
        host->nic.advance(now_);
      }
    } else {
      return;
    }
  }
}

}  // namespace sidelatch::softnic::nic
