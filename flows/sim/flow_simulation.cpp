#include <sidelatch/flows/sim/flow_simulation.h>

#include "softnic/nic/nic.h"

#include <sidelatch/p4/switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::flows {

namespace nic = softnic::nic;

namespace {

constexpr SwitchAddress kOwn{.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}};
constexpr std::size_t kMostUnits = 254;
constexpr std::uint32_t kMostBells = 256;       // on their way from one ring
constexpr std::size_t kOpcodeAt = 14 + 20 + 8;  // Ethernet, IPv4, UDP
constexpr std::byte kReadRequest{0x0c};

// A NIC, the memory of its unit, and when its parts are free.
struct SimulatedUnit {
  explicit SimulatedUnit(std::size_t i)
      : number(i),
        device({.mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)},
                .gids = {roce::gid_of({10, 0, 0, static_cast<std::uint8_t>(i + 1)})}},
               access),
        domain(device.make_domain()),
        completions(device.make_completion_queue(1)) {}

  std::size_t number;
  nic::ImmediateAccess access;
  std::vector<std::unique_ptr<std::byte, void (*)(std::byte*)>> memory;
  nic::Nic device;
  nic::Domain domain;
  nic::CompletionQueue& completions;
  std::function<void(std::uint64_t)> processor;
  double sends_from = 0;    // when the link to the switch is free
  double gets_from = 0;     // when the link from the switch is free
  double handles_from = 0;  // when the NIC is free for the next request
  bool is_sending = false;  // an event is due when the link to the switch is free
};

}  // namespace

class FlowSimulation::World {
 public:
  World(const fabric::sim::Profile& profile, const FlowSimulationTiming& timing, std::size_t units)
      : profile_(profile),
        timing_(timing),
        ns_per_byte_(8 / profile.link.gbps),
        switch_(zero_sided_program(), {.ports = units, .icrc = true}),
        control_(switch_, kOwn),
        frame_(nic::kFrameRoom) {
    for (std::size_t i = 0; i < units; ++i) {
      units_.push_back(std::make_unique<SimulatedUnit>(i));
    }
  }

  FlowSwitch& control() noexcept { return control_; }
  [[nodiscard]] SimulatedUnit& unit(std::size_t i) { return *units_.at(i); }
  [[nodiscard]] std::uint64_t now() const noexcept { return now_; }

  void call_unit(std::size_t unit, std::uint64_t at) {
    static_cast<void>(units_.at(unit));
    add(static_cast<double>(std::max(at, now_)), What::processor, unit);
  }
  void ring(const FlowRing& ring) {
    if (units_.at(ring.port)->device.find_queue_pair(ring.queue_pair) == nullptr) {
      throw std::invalid_argument(
          fmt::format("ring: unit {} has no queue pair {}; make it before its bell", ring.port, ring.queue_pair));
    }
    add(static_cast<double>(now_) + profile_.nic.doorbell_ns, What::bell, ring.port, {}, ring.queue_pair);
  }

  void run_until(std::uint64_t end, const std::function<bool()>& done) {
    while (!done || !done()) {
      const std::uint64_t timer = switch_.next_generated().value_or(nic::kNever);
      const std::uint64_t next = std::min(timer, events_.empty() ? nic::kNever : events_.front().at);
      if (next > end) {
        now_ = std::max(now_, end);
        return;
      }
      now_ = std::max(now_, next);
      if (!events_.empty() && events_.front().at <= timer) {
        std::ranges::pop_heap(events_, std::greater<>());
        const Event event = std::move(events_.back());
        events_.pop_back();
        happen(event);
      } else {
        switch_.set_time(now_);
        pass_on();
      }
    }
  }

 private:
  enum class What : std::uint8_t { at_switch, at_memory, link_is_free, processor, bell };
  struct Event {
    std::uint64_t at;
    std::uint64_t order;
    What what;
    std::size_t unit;
    std::vector<std::byte> frame;
    std::uint32_t queue_pair = 0;  // that rings
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void add(double at, What what, std::size_t unit, std::vector<std::byte> frame = {}, std::uint32_t queue_pair = 0) {
    events_.push_back({static_cast<std::uint64_t>(std::ceil(at)), ++order_, what, unit, std::move(frame), queue_pair});
    std::ranges::push_heap(events_, std::greater<>());
  }

  void happen(const Event& event) {
    SimulatedUnit& unit = *units_[event.unit];
    switch (event.what) {
      case What::at_switch:
        switch_.set_time(now_);
        switch_.receive(static_cast<std::uint16_t>(event.unit), event.frame);
        pass_on();
        break;
      case What::at_memory:
        tell(unit);
        unit.device.on_frame(event.frame, now_);
        tell(unit);
        begin_to_send(unit);
        break;
      case What::processor:
        tell(unit);
        break;
      case What::bell:
        // With so many bells on their way that there is no room, this one is not needed.
        static_cast<void>(
            unit.device.find_queue_pair(event.queue_pair)->post_send({.kind = nic::WorkKind::send, .sges = {}}));
        begin_to_send(unit);
        break;
      case What::link_is_free:
        send(unit);
    }
  }

  void begin_to_send(SimulatedUnit& unit) {
    if (!unit.is_sending && unit.device.has_frames()) {
      unit.is_sending = true;
      add(std::max(unit.sends_from, static_cast<double>(now_)), What::link_is_free, unit.number);
    }
  }

  void tell(const SimulatedUnit& unit) const {
    if (unit.processor) {
      unit.processor(now_);
    }
  }

  // The next packet of a NIC.
  void send(SimulatedUnit& unit) {
    tell(unit);
    const std::size_t bytes = unit.device.pull_frame(frame_, now_);
    unit.is_sending = bytes != 0;
    if (bytes == 0) {
      return;
    }
    unit.sends_from = std::max(unit.sends_from, static_cast<double>(now_)) + static_cast<double>(bytes) * ns_per_byte_;
    add(unit.sends_from + profile_.nic.latency_ns + timing_.cable_ns, What::at_switch, unit.number,
        {frame_.begin(), frame_.begin() + static_cast<std::ptrdiff_t>(bytes)});
    add(unit.sends_from, What::link_is_free, unit.number);
  }

  // Through the switch. Each pass of its ingress takes time; the copies of a packet pass it once.
  void pass_on() {
    std::size_t steps = 0;
    std::size_t passes = 0;
    while (switch_.step()) {
      ++steps;
      while (const auto departed = switch_.departed()) {
        passes = passes == 0 ? std::max<std::size_t>(steps, 2) - 1 : passes;  // the last step was egress
        deliver(*units_[departed->port], departed->bytes, static_cast<double>(passes));
      }
    }
  }

  void deliver(SimulatedUnit& unit, std::span<const std::byte> frame, double passes) {
    const double leaves = std::max(unit.gets_from, static_cast<double>(now_) + passes * timing_.switch_ns);
    unit.gets_from = leaves + static_cast<double>(frame.size()) * ns_per_byte_;
    const bool is_read = frame.size() > kOpcodeAt && frame[kOpcodeAt] == kReadRequest;
    unit.handles_from = std::max(unit.handles_from, unit.gets_from + timing_.cable_ns) +
                        (is_read ? profile_.nic.responds_to_read_ns() : profile_.nic.responds_to_write_ns());
    add(unit.handles_from + profile_.nic.latency_ns + (is_read ? profile_.pcie.read_ns : profile_.pcie.write_ns),
        What::at_memory, unit.number, {frame.begin(), frame.end()});
  }

  fabric::sim::Profile profile_;
  FlowSimulationTiming timing_;
  double ns_per_byte_;
  p4::Switch switch_;
  FlowSwitch control_;
  std::vector<std::unique_ptr<SimulatedUnit>> units_;
  std::vector<Event> events_;  // a heap
  std::vector<std::byte> frame_;
  std::uint64_t order_ = 0;
  std::uint64_t now_ = 0;
};

FlowSimulation::FlowSimulation(const fabric::sim::Profile& profile, const FlowSimulationTiming& timing,
                               std::size_t units) {
  if (units == 0 || units > kMostUnits) {
    throw std::invalid_argument(fmt::format("{} units at a simulated switch: 1 to {}", units, kMostUnits));
  }
  profile.validate();
  world_ = std::make_unique<World>(profile, timing, units);
}

FlowSimulation::~FlowSimulation() = default;

FlowSwitch& FlowSimulation::control() noexcept { return world_->control(); }
std::uint64_t FlowSimulation::now() const noexcept { return world_->now(); }
void FlowSimulation::run_until(std::uint64_t nanoseconds, const std::function<bool()>& done) {
  world_->run_until(nanoseconds, done);
}
void FlowSimulation::call_unit(std::size_t unit, std::uint64_t nanoseconds) { world_->call_unit(unit, nanoseconds); }
void FlowSimulation::ring(const FlowRing& ring) { world_->ring(ring); }
void FlowSimulation::set_unit(std::size_t unit, std::function<void(std::uint64_t now)> processor) {
  world_->unit(unit).processor = std::move(processor);
}

std::span<std::byte> FlowSimulation::memory(const FlowRing& ring) noexcept {
  return {reinterpret_cast<std::byte*>(ring.address), ring.shape.bytes()};  // NOLINT(performance-no-int-to-ptr)
}

FlowRing FlowSimulation::add_ring(std::size_t number, const RingShape& shape, const SwitchEnd& end) {
  constexpr std::size_t kPage = 4096;
  shape.check();
  SimulatedUnit& unit = world_->unit(number);
  const std::size_t bytes = (shape.bytes() + kPage - 1) / kPage * kPage;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  unit.memory.emplace_back(memory, [](std::byte* all) { std::free(all); });  // NOLINT: from aligned_alloc
  clear_ring({memory, bytes}, shape);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uint32_t key = unit.device.register_memory({memory, bytes, address, unit.domain, nic::Rights::all});
  nic::QueuePair& pair = unit.device.make_queue_pair({.type = nic::QueuePairType::rc,
                                                      .domain = unit.domain,
                                                      .send_completions = &unit.completions,
                                                      .receive_completions = &unit.completions,
                                                      .send_depth = kMostBells,
                                                      .receive_depth = 1,
                                                      .most_send_sges = 1,
                                                      .most_receive_sges = 1});
  nic::QueuePairAttributes init;
  init.state = nic::QueuePairState::init;
  init.rights = nic::Rights::all;
  pair.modify(init,
              nic::Attributes::state | nic::Attributes::p_key_index | nic::Attributes::port | nic::Attributes::rights);
  nic::QueuePairAttributes ready;
  ready.state = nic::QueuePairState::rtr;
  ready.address = {.mac = kOwn.mac, .gid = roce::gid_of(kOwn.ip), .gid_index = 0};
  ready.path_mtu = nic::PathMtu::b4096;
  ready.remote_qp = end.queue_pair;
  ready.receive_psn = nic::Psn{end.psn};
  ready.max_dest_rd_atomic = 1;
  pair.modify(ready, nic::Attributes::state | nic::Attributes::address | nic::Attributes::path_mtu |
                         nic::Attributes::remote_qp | nic::Attributes::receive_psn |
                         nic::Attributes::max_dest_rd_atomic | nic::Attributes::min_rnr_timer);
  nic::QueuePairAttributes sending;
  sending.state = nic::QueuePairState::rts;
  sending.send_psn = nic::Psn{0};
  pair.modify(sending, nic::Attributes::state | nic::Attributes::timeout | nic::Attributes::retry_count |
                           nic::Attributes::rnr_retry | nic::Attributes::send_psn | nic::Attributes::max_rd_atomic);
  const auto id = static_cast<std::uint8_t>(number + 1);
  return {.mac = unit.device.options().mac,
          .ip = {10, 0, 0, id},
          .port = static_cast<std::uint16_t>(number),
          .queue_pair = pair.number(),
          .end = end,
          .rkey = key,
          .address = address,
          .shape = shape};
}

}  // namespace sidelatch::flows
