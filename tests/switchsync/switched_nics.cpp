#include "switched_nics.h"

#include <algorithm>
#include <utility>

namespace sidelatch::switchsync {

using namespace softnic::nic;

namespace {

constexpr Time kDelay = 1000;

}  // namespace

roce::Ipv4Address address_of_host(std::size_t i) { return {10, 0, 0, static_cast<std::uint8_t>(i + 1)}; }

std::vector<std::unique_ptr<Host>> make_hosts(std::size_t n) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (std::size_t i = 0; i < n; ++i) {
    hosts.push_back(std::make_unique<Host>(static_cast<std::uint8_t>(i + 1)));
  }
  return hosts;
}

SwitchedNics::SwitchedNics(std::shared_ptr<const p4::Program> program, std::vector<std::unique_ptr<Host>> hosts,
                           WireFaults faults, std::uint64_t seed, std::size_t ecn_bytes)
    : hosts_(std::move(hosts)), program_(std::move(program)), ecn_bytes_(ecn_bytes), faults_(faults), random_(seed) {
  replace_switch();
}

void SwitchedNics::replace_switch() {
  switch_.emplace(program_, p4::SwitchOptions{.ports = hosts_.size(), .ecn_bytes = ecn_bytes_, .icrc = true});
  switch_->set_time(now_);
}

void SwitchedNics::pull() {
  std::vector<std::byte> buffer(kFrameRoom);
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    while (const std::size_t bytes = hosts_[i]->nic.pull_frame(buffer, now_)) {
      send(i, kSwitch, {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes)});
    }
  }
}

void SwitchedNics::send(std::size_t from, std::size_t to, std::vector<std::byte> frame) {
  int copies = on_send ? on_send(from, to, frame) : -1;
  const bool is_drawn = copies < 0;
  if (is_drawn && chance(faults_.drop)) {
    ++lost_;
    return;
  }
  copies = is_drawn ? (chance(faults_.duplicate) ? 2 : 1) : copies;
  for (; copies > 0; --copies) {
    const Time late = is_drawn && chance(faults_.reorder) ? random_() % (8 * kDelay) : 0;
    flying_.push_back({now_ + kDelay + late, ++order_, from, to, frame});
    std::ranges::push_heap(flying_, std::greater<>());
  }
}

void SwitchedNics::land() {
  std::ranges::pop_heap(flying_, std::greater<>());
  const Flight flight = std::move(flying_.back());
  flying_.pop_back();
  now_ = std::max(now_, flight.at);
  if (flight.to != kSwitch) {
    hosts_[flight.to]->nic.on_frame(flight.frame, now_);
    return;
  }
  switch_->set_time(now_);
  switch_->receive(static_cast<std::uint16_t>(flight.from), flight.frame);
  pass_on();
}

void SwitchedNics::pass_on() {
  is_behind_ = !switch_->run(steps_in_a_row);
  while (const auto departed = switch_->departed()) {
    send(kSwitch, departed->port, {departed->bytes.begin(), departed->bytes.end()});
  }
}

std::vector<std::vector<std::byte>> SwitchedNics::exchange(std::size_t i, std::span<const std::byte> frame) {
  switch_->receive(static_cast<std::uint16_t>(i), frame);
  switch_->run();
  std::vector<std::vector<std::byte>> frames;
  while (const auto departed = switch_->departed()) {
    if (departed->port == i) {
      frames.emplace_back(departed->bytes.begin(), departed->bytes.end());
    }
  }
  return frames;
}

void SwitchedNics::run(const std::function<bool()>& done) {
  for (pull(); !done || !done(); pull()) {
    pull();  // what done() has posted
    Time timer = kNever;
    for (const auto& host : hosts_) {
      timer = std::min(timer, host->nic.next_deadline());
    }
    timer = std::min(timer, is_behind_ ? now_ + kDelay : switch_->next_generated().value_or(kNever));
    if (!flying_.empty() && flying_.front().at <= timer) {
      land();
    } else if (timer != kNever) {
      now_ = std::max(now_, timer);
      for (const auto& host : hosts_) {
        host->nic.advance(now_);
      }
      switch_->set_time(now_);
      pass_on();
    } else {
      return;
    }
  }
}

}  // namespace sidelatch::switchsync
