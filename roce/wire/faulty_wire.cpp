#include "faulty_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sidelatch::roce {

namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

void check_chance(const char* name, double chance) {
  if (!(chance >= 0 && chance <= 1)) {
    throw std::invalid_argument(
        fmt::format("faults of a wire: the chance of {} is {}; it must be 0 to 1", name, chance));
  }
}

void check(const FaultOptions& options) {
  check_chance("loss", options.loss);
  check_chance("duplication", options.duplication);
  check_chance("corruption", options.corruption);
  check_chance("reordering", options.reordering);
  check_chance("delay", options.delay);
  if (options.reordering_distance == 0 || options.reordering_limit.count() < 0 || options.delay_time.count() < 0) {
    throw std::invalid_argument("faults of a wire: the reordering distance must be 1 at least, and no time negative");
  }
}

}  // namespace

FaultyWire::FaultyWire(std::unique_ptr<Wire> wire, const FaultOptions& options, std::function<Clock::time_point()> now)
    : wire_(std::move(wire)), options_(options), now_(std::move(now)), random_(options.seed) {
  check(options);
}

// Do not use std::uniform_real_distribution: its numbers depend on the standard library.
double FaultyWire::chance() {
  constexpr int kMantissaBits = 53;
  return static_cast<double>(random_() >> (64 - kMantissaBits)) /
         static_cast<double>(std::uint64_t{1} << kMantissaBits);
}

FaultyWire::Fate FaultyWire::draw() {
  Fate fate{};
  fate.lost = chance() < options_.loss;
  fate.duplicated = chance() < options_.duplication;
  const bool corrupted = chance() < options_.corruption;
  fate.reordered = chance() < options_.reordering;
  fate.delayed = chance() < options_.delay;
  const std::uint64_t bit = random_();
  fate.wrong_bit = corrupted ? std::optional(bit) : std::nullopt;
  fate.distance = 1 + random_() % options_.reordering_distance;
  return fate;
}

std::span<std::byte> FaultyWire::reserve(const MacAddress& destination, std::size_t bytes) {
  release_due();
  destination_ = destination;
  room_ = wire_->reserve(destination, bytes);
  return room_;
}

void FaultyWire::commit(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const std::span<std::byte> frame = room_.first(bytes);
  const Fate fate = draw();
  ++sent_;
  if (fate.lost) {
    ++faults_.lost;
    release_due();
    return;
  }
  if (fate.wrong_bit && bytes > Ethernet::kBytes) {
    ++faults_.corrupted;
    const std::uint64_t bit = *fate.wrong_bit % ((bytes - Ethernet::kBytes) * 8);
    frame[Ethernet::kBytes + static_cast<std::size_t>(bit / 8)] ^= std::byte{1} << (bit % 8);
  }
  if (fate.duplicated) {
    ++faults_.duplicated;
    hold(frame, sent_, now_());
  }
  if (fate.delayed) {
    ++faults_.delayed;
    hold(frame, kNever, now_() + options_.delay_time);
  } else if (fate.reordered) {
    ++faults_.reordered;
    hold(frame, sent_ + fate.distance, now_() + options_.reordering_limit);
  } else {
    wire_->commit(bytes);
  }
  release_due();
}

void FaultyWire::hold(std::span<const std::byte> frame, std::uint64_t behind, Clock::time_point due) {
  held_.push_back({destination_, {frame.begin(), frame.end()}, behind, due});
}

bool FaultyWire::send_inside(const Held& held) {
  const std::span<std::byte> room = wire_->reserve(held.destination, held.frame.size());
  if (room.empty()) {
    return false;
  }
  std::memcpy(room.data(), held.frame.data(), held.frame.size());
  wire_->commit(held.frame.size());
  return true;
}

// Frames that find no room keep waiting.
void FaultyWire::release_due() {
  if (held_.empty()) {
    return;
  }
  const Clock::time_point now = now_();
  held_.remove_if([&](const Held& held) { return (held.behind <= sent_ || held.due <= now) && send_inside(held); });
}

void FaultyWire::flush() {
  release_due();
  wire_->flush();
}

std::span<const std::byte> FaultyWire::receive() {
  release_due();
  return wire_->receive();
}

std::chrono::nanoseconds FaultyWire::until_next(std::chrono::nanoseconds at_most) const {
  const Clock::time_point now = now_();
  for (const Held& held : held_) {
    // A frame that is already due has found no room: the wire inside wakes us when there is room.
    if (held.due > now) {
      at_most = std::min(at_most, std::chrono::nanoseconds(held.due - now));
    }
  }
  return at_most;
}

void FaultyWire::wait(std::chrono::nanoseconds at_most) {
  release_due();
  wire_->wait(until_next(at_most));
  release_due();
}

std::chrono::nanoseconds FaultyWire::lie_down() {
  release_due();
  return until_next(wire_->lie_down());
}

const WireCounters& FaultyWire::counters() const noexcept {
  counters_ = wire_->counters();
  counters_.faults = faults_;
  return counters_;
}

std::unique_ptr<Wire> with_faults(std::unique_ptr<Wire> wire, const FaultOptions& options) {
  return std::make_unique<FaultyWire>(std::move(wire), options);
}

}  // namespace sidelatch::roce
