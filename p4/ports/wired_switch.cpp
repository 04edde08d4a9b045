#include <sidelatch/p4/wired_switch.h>

#include "common/file_descriptor.h"
#include "p4/ports/capture_files.h"
#include "p4/ports/open_port.h"
#include "roce/wire/pcap_file.h"
#include "roce/wire/spin_time.h"
#include "roce/wire/wires.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace sidelatch::p4 {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

// The most packets in a row from one port while others wait.
constexpr int kMostInARow = 32;
// The most steps between two looks at the ports: a program may recirculate for ever.
constexpr int kMostSteps = 4096;

void check_chance(const char* name, double chance) {
  if (!(chance >= 0 && chance <= 1)) {
    throw std::invalid_argument(fmt::format("{} is {}: a chance is a number from 0 to 1", name, chance));
  }
}

// What two ports cannot both use.
std::string_view exclusive_part(std::string_view wire) { return wire.substr(0, wire.find(',')); }

void check_ports(const std::vector<PortOptions>& ports) {
  if (ports.empty()) {
    throw std::invalid_argument(fmt::format("a switch needs a port: {}", kPortForms));
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (ports[i].number == ports[j].number) {
        throw std::invalid_argument(fmt::format("port {} is given twice, as {} and as {}: give each number once",
                                                ports[i].number, ports[j].wire, ports[i].wire));
      }
      if (exclusive_part(ports[i].wire) == exclusive_part(ports[j].wire) &&
          ports[i].wire.find(":,") == std::string::npos) {
        throw std::invalid_argument(fmt::format("the ports {} and {} are the same wire, {}: give each its own",
                                                ports[j].number, ports[i].number, exclusive_part(ports[i].wire)));
      }
    }
  }
}

SwitchOptions core_options(const WiredSwitchOptions& options) {
  std::size_t ports = 0;
  for (const PortOptions& port : options.ports) {
    ports = std::max<std::size_t>(ports, port.number + std::size_t{1});
  }
  return {.ports = ports,
          .queue_bytes = options.queue_bytes,
          .ecn_bytes = options.ecn_bytes,
          .seed = options.seed,
          .icrc = options.icrc};
}

}  // namespace

class WiredSwitch::Port {
 public:
  Port(const PortOptions& options, const FaultRates& faults, std::size_t packet_bytes) : number_(options.number) {
    OpenedPort opened = open_port(options);
    capture_ = opened.capture;
    wire_ = std::move(opened.wire);
    if (faults.loss > 0 || faults.duplication > 0 || faults.reordering > 0) {
      wire_ = roce::with_faults(std::move(wire_), {.seed = faults.seed + number_,
                                                   .loss = faults.loss,
                                                   .duplication = faults.duplication,
                                                   .reordering = faults.reordering});
    }
    held_.reserve(packet_bytes);
  }

  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
  [[nodiscard]] roce::Wire& wire() noexcept { return *wire_; }
  [[nodiscard]] roce::PcapPort* capture() const noexcept { return capture_; }
  [[nodiscard]] bool is_blocked() const noexcept { return !held_.empty(); }
  [[nodiscard]] std::span<const std::byte> held() const noexcept { return held_; }
  void hold(std::span<const std::byte> frame) { held_.assign(frame.begin(), frame.end()); }
  void let_go() noexcept { held_.clear(); }

  [[nodiscard]] std::span<const std::byte> receive() {
    const std::span<const std::byte> frame = wire_->receive();
    if (!frame.empty()) {
      ++counters_.packets_in;
      counters_.bytes_in += frame.size();
    }
    return frame;
  }

  [[nodiscard]] bool takes(std::span<const std::byte> frame) const noexcept {
    return frame.size() >= roce::Ethernet::kBytes && frame.size() <= wire_->most_frame_bytes();
  }
  void drop() noexcept { ++counters_.dropped; }

  // False: there is no room.
  [[nodiscard]] bool send(std::span<const std::byte> frame) {
    const std::span<std::byte> room = wire_->reserve(roce::Ethernet::read(frame.data()).destination, frame.size());
    if (room.empty()) {
      return false;
    }
    std::memcpy(room.data(), frame.data(), frame.size());
    wire_->commit(frame.size());
    ++counters_.packets_out;
    counters_.bytes_out += frame.size();
    return true;
  }

  [[nodiscard]] PortCounters counters() const {
    PortCounters all = counters_;
    const roce::WireCounters& wire = wire_->counters();
    all.dropped += wire.dropped;
    all.lost = wire.faults.lost;
    all.duplicated = wire.faults.duplicated;
    all.reordered = wire.faults.reordered;
    return all;
  }

 private:
  std::uint16_t number_;
  std::unique_ptr<roce::Wire> wire_;
  roce::PcapPort* capture_ = nullptr;
  std::vector<std::byte> held_;  // found no room; the port is paused
  PortCounters counters_;
};

struct WiredSwitch::Idle {
  FileDescriptor wake{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::atomic<bool> interrupted{false};
  std::vector<pollfd> watched;  // the ports', then wake
  roce::SpinTime spin{std::thread::hardware_concurrency()};
  Clock::time_point begun = Clock::now();
  std::optional<nanoseconds> first;  // of the captures' packets
  std::optional<roce::PcapFile> capture;
};

WiredSwitch::WiredSwitch(std::shared_ptr<const Program> program, const WiredSwitchOptions& options)
    : ports_(options.ports), idle_(std::make_unique<Idle>()) {
  check_ports(ports_);
  check_capture_files(options);
  check_chance("loss", options.faults.loss);
  check_chance("duplication", options.faults.duplication);
  check_chance("reordering", options.faults.reordering);
  if (!idle_->wake.valid()) {
    throw std::runtime_error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  }
  const SwitchOptions core = core_options(options);
  device_ = std::make_unique<Switch>(std::move(program), core);
  by_number_.resize(core.ports);
  for (const PortOptions& port : ports_) {
    wires_.push_back(std::make_unique<Port>(port, options.faults, core.packet_bytes));
    by_number_[port.number] = wires_.back().get();
    only_captures_ = only_captures_ && wires_.back()->capture() != nullptr;
    idle_->watched.push_back({wires_.back()->wire().descriptor(), POLLIN, 0});
  }
  idle_->watched.push_back({idle_->wake.number(), POLLIN, 0});
  if (!options.capture.empty()) {
    idle_->capture.emplace(options.capture);
  }
}

WiredSwitch::~WiredSwitch() = default;

void WiredSwitch::interrupt() noexcept {
  const int error = errno;
  idle_->interrupted.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(idle_->wake.number(), &one, sizeof one));
  errno = error;
}

void WiredSwitch::capture(std::span<const std::byte> frame) {
  if (idle_->capture) {
    idle_->capture->add(frame, std::chrono::system_clock::now());
  }
}

bool WiredSwitch::serve(nanoseconds at_most) {
  const Clock::time_point end = Clock::now() + at_most;
  bool is_idle = false;
  Clock::time_point idle_since{};
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (now >= end || idle_->interrupted.load(std::memory_order_acquire)) {
      idle_->interrupted.store(false, std::memory_order_relaxed);
      return true;
    }
    if (only_captures_) {
      if (!replay()) {
        return false;
      }
      continue;
    }
    device_->set_time(static_cast<std::uint64_t>(nanoseconds(now - idle_->begun).count()));
    if (forward()) {
      is_idle = false;
      continue;
    }
    idle_since = is_idle ? idle_since : now;
    is_idle = true;
    if (now - idle_since < idle_->spin.now()) {
      ::sched_yield();  // a station may need this CPU to send what we wait for
      continue;
    }
    sleep(end - now);
    idle_->spin.learn(Clock::now() - idle_since, true);
    is_idle = false;
  }
}

// One round. False: nothing was to be done.
bool WiredSwitch::forward() {
  bool moved = false;
  for (const auto& port : wires_) {
    if (port->is_blocked() && port->send(port->held())) {
      port->let_go();
      device_->set_paused(port->number(), false);
      moved = true;
    }
    for (int i = 0; i < kMostInARow; ++i) {
      if (port->capture() != nullptr) {
        port->capture()->set_time(std::chrono::system_clock::now().time_since_epoch());
      }
      const std::span<const std::byte> frame = port->receive();
      if (frame.empty()) {
        break;
      }
      capture(frame);
      device_->receive(port->number(), frame);
      moved = true;
    }
  }
  moved = step_all() || moved;
  for (const auto& port : wires_) {
    port->wire().flush();
  }
  return moved;
}

// The next packet of the captures, and all that becomes of it. False: there is none.
bool WiredSwitch::replay() {
  Port* next = nullptr;
  for (const auto& port : wires_) {
    const auto time = port->capture()->next_time();
    if (time && (next == nullptr || *time < *next->capture()->next_time())) {
      next = port.get();
    }
  }
  if (next == nullptr) {
    return step_all();
  }
  const nanoseconds time = *next->capture()->next_time();
  idle_->first = idle_->first.value_or(time);
  // Captures of several queues are not in the order of their times; the switch's time never goes back.
  const auto since = static_cast<std::uint64_t>(std::max<std::int64_t>((time - *idle_->first).count(), 0));
  if (const auto due = device_->next_generated(); due && *due <= since) {
    device_->set_time(*due);
    for (const auto& port : wires_) {
      port->capture()->set_time(*idle_->first + nanoseconds(*due));
    }
    step_all();
    return true;
  }
  device_->set_time(std::max(since, device_->time()));
  for (const auto& port : wires_) {
    port->capture()->set_time(time);
  }
  const std::span<const std::byte> frame = next->receive();
  capture(frame);
  device_->receive(next->number(), frame);
  step_all();
  return true;
}

bool WiredSwitch::step_all() {
  bool moved = false;
  for (int i = 0; i < kMostSteps && device_->step(); ++i) {
    moved = true;
    while (const auto departure = device_->departed()) {
      send(*departure);
    }
  }
  return moved;
}

void WiredSwitch::send(const Departure& departure) {
  Port* const port = by_number_[departure.port];
  if (port == nullptr) {
    ++unplugged_;
    return;
  }
  if (!port->takes(departure.bytes)) {
    port->drop();
    return;
  }
  capture(departure.bytes);
  // A step sends at most one packet to a port, and a paused port gets none: at most one is held.
  if (!port->send(departure.bytes)) {
    port->hold(departure.bytes);
    device_->set_paused(departure.port, true);
  }
}

void WiredSwitch::sleep(nanoseconds at_most) {
  if (const auto due = device_->next_generated()) {
    at_most = std::min(at_most, idle_->begun + nanoseconds(*due) - Clock::now());
  }
  for (const auto& port : wires_) {
    at_most = std::min(at_most, port->wire().lie_down());
  }
  if (at_most > nanoseconds(0)) {
    ++sleeps_;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
    timespec limit{};
    limit.tv_sec = seconds.count();
    limit.tv_nsec = (at_most - seconds).count();
    ::ppoll(idle_->watched.data(), idle_->watched.size(), &limit, nullptr);
    if (idle_->watched.back().revents != 0) {
      std::uint64_t times = 0;
      static_cast<void>(!::read(idle_->wake.number(), &times, sizeof times));
    }
  }
  for (const auto& port : wires_) {
    port->wire().stand_up();
  }
}

PortCounters WiredSwitch::counters(std::size_t i) const { return wires_.at(i)->counters(); }

std::uint64_t WiredSwitch::drops(Drop reason) const {
  return device_->drops(reason) + (reason == Drop::no_such_port ? unplugged_ : 0);
}

}  // namespace sidelatch::p4
