// Driving the NIC: frames in, frames out, time.
#include "nic.h"

#include <algorithm>
#include <utility>

namespace sidelatch::softnic::nic {

namespace {

/// The most frames to itself that a NIC handles before it returns to its driver.
constexpr int kMostLooped = 256;

}  // namespace

void Nic::set_time(Time now) {
  // Memory accesses due before `now` come first.
  const bool has_finished = device_.memory.advance(std::max(now_, now));
  while (const std::optional<GonePlace> place = device_.memory.next_gone_place()) {
    if (QueuePair* const pair = find_queue_pair(place->source.queue_pair)) {
      pair->fail_place(*place);
      timers_.set(*pair, pair->next_deadline());
    }
  }
  if (has_finished) {
    device_.poll_waiting();
  }
  now_ = std::max(now_, now);
  device_.now = now_;
}

bool Nic::is_for_us(const Gid& gid) const noexcept {
  return std::ranges::any_of(device_.options.gids, [&](const Gid& own) { return is_same(own, gid); });
}

void Nic::on_frame(std::span<const std::byte> frame, Time now) {
  set_time(now);
  ++device_.counters.received;
  const auto parsed = parse_frame(frame);
  if (const auto* const packet = std::get_if<Packet>(&parsed)) {
    take_packet(*packet, now_);
  } else {
    ++device_.counters.refused;
    const std::optional<Packet> malformed = parse_malformed(frame, std::get<Refusal>(parsed));
    if (QueuePair* const pair = malformed ? addressee_of(*malformed) : nullptr) {
      pair->on_malformed(*malformed);
      timers_.set(*pair, pair->next_deadline());
    }
  }
}

// The lower 15 bits of a P_Key name the partition; only the default one exists (10.9).
bool Nic::is_in_partition(const Packet& packet) noexcept {
  return (packet.bth.p_key & 0x7fff) == (Bth::kDefaultPKey & 0x7fff);
}

QueuePair* Nic::addressee_of(const Packet& packet) const noexcept {
  return is_in_partition(packet) && is_for_us(destination_gid(packet)) ? find_queue_pair(packet.bth.destination_qp)
                                                                       : nullptr;
}

void Nic::take_packet(const Packet& packet, Time now) {
  if (packet.bth.destination_qp == kGroupQueuePair) {
    take_group_packet(packet, destination_gid(packet), now);
    return;
  }
  QueuePair* const pair = addressee_of(packet);
  if (pair == nullptr) {
    ++device_.counters.misdirected;
    return;
  }
  pair->on_packet(packet, now);
  timers_.set(*pair, pair->next_deadline());
}

// Each member takes it as if it were for itself.
void Nic::take_group_packet(const Packet& packet, const Gid& group, Time now) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !is_in_partition(packet) || service_of(packet.bth.opcode) != Service::ud) {
    ++device_.counters.misdirected;
    return;
  }
  for (QueuePair* const pair : found->second) {
    pair->on_packet(packet, now);
  }
}

std::size_t Nic::pull_frame(std::span<std::byte> out, Time now) {
  set_time(now);
  for (int looped = 0; looped < kMostLooped;) {
    QueuePair* const pair = device_.next_awake();
    if (pair == nullptr) {
      return 0;
    }
    if (pair->is_stalled) {
      continue;
    }
    const std::uint32_t number = pair->number();
    const std::size_t bytes = pair->produce(out, now_);
    timers_.set(*pair, pair->next_deadline());
    if (bytes == 0) {
      continue;
    }
    device_.wake(*pair);  // it may have more to send; others come first
    const Gid to = destination_of(out);
    const bool is_to_group = is_group(to);
    if (!device_.options.sends_to_itself && (is_to_group ? groups_.contains(to) : is_for_us(to))) {
      ++looped;
      ++device_.counters.looped;
      on_frame(out.first(bytes), now_);
      if (!is_to_group) {
        continue;
      }
    }
    ++device_.counters.sent;
    last_pulled_ = number;
    return bytes;
  }
  return 0;
}

std::uint32_t Nic::stall() const {
  if (QueuePair* const pair = find_queue_pair(last_pulled_)) {
    pair->is_stalled = true;
  }
  return last_pulled_;
}

void Nic::resume(std::uint32_t queue_pair) {
  if (QueuePair* const pair = find_queue_pair(queue_pair)) {
    pair->is_stalled = false;
    device_.wake(*pair);
  }
}

void Nic::fail() {
  device_.is_broken = true;
  for (const auto& [number, pair] : queue_pairs_) {
    pair->fail();
    timers_.set(*pair, pair->next_deadline());
  }
}

Gid Nic::destination_of(std::span<const std::byte> frame) noexcept {
  const Ethernet ethernet = Ethernet::read(frame.data());
  const std::byte* const ip = frame.data() + Ethernet::kBytes;
  return ethernet.ether_type == kEtherTypeIpv4 ? gid_of(Ipv4::read(ip).destination) : Ipv6::read(ip).destination;
}

void Nic::advance(Time now) {
  set_time(now);
  while (timers_.next() <= now_) {
    QueuePair& pair = timers_.first();
    pair.advance(now_);
    timers_.set(pair, pair.next_deadline());
  }
}

Time Nic::next_deadline() const noexcept { return std::min(timers_.next(), device_.memory.next_deadline()); }

bool Nic::may_be_late() const noexcept {
  return timers_.next() < device_.memory.next_deadline() && timers_.first().may_be_late();
}

QueuePair* Nic::find_queue_pair(std::uint32_t number) const noexcept {
  const auto found = queue_pairs_.find(number);
  return found == queue_pairs_.end() ? nullptr : found->second.get();
}

}  // namespace sidelatch::softnic::nic
