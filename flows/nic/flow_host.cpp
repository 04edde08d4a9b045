// What a unit (U) and the host (H) tell each other, a line each:
//
//   U  sidelatch-flow-1 producer|consumer PORT SLOTS ITEM_BYTES ALIGNMENT little|big
//   H  ends PATH_MTU SWITCH_IP COUNT QUEUE_PAIR:PSN...       or: no REASON
//   U  rings MAC IP QUEUE_PAIR:RKEY:ADDRESS...                its queue pairs can receive
//   H  wait WHO_IS_THERE                                      as often as it likes
//   H  begin                                                  or: no REASON
//   U  done                                                   it leaves
//
// The end of the connection is the end of the unit, or of the switch.
#include "lines.h"

#include "common/tcp.h"

#include <sidelatch/flows/nic/flow_host.h>

#include <fmt/format.h>

#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <list>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::flows {

using exchange::Words;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kMostStrangers = 256;           // that have connected, and are not in the flow
constexpr auto kPatience = std::chrono::seconds(30);  // until a unit has said what it is, and has connected its rings
constexpr auto kLookAtUnits = std::chrono::milliseconds(1);
constexpr std::uint64_t kMost32 = 0xffff'ffff;
constexpr std::uint64_t kMost48 = 0xffff'ffff'ffff;

}  // namespace

class FlowHost::Service {
 public:
  Service(p4::WiredSwitch& device, FlowSwitch& control, const FlowHostOptions& options)
      : device_(&device),
        control_(&control),
        options_(options),
        address_(HostAndPort::parse_to_listen(options.address)) {
    if (options.producers == 0 || options.consumers == 0) {
      throw std::invalid_argument(fmt::format("a flow of {} producers and {} consumers: it has one of each at least",
                                              options.producers, options.consumers));
    }
    if (!options.flow.producers.empty() || !options.flow.consumers.empty()) {
      throw std::invalid_argument("FlowHostOptions::flow has rings: units bring them");
    }
    if (options.flow.first_count != 0) {
      throw std::invalid_argument(fmt::format(
          "FlowHostOptions::flow.first_count {}: units' rings begin at 0, so leave it", options.flow.first_count));
    }
    RingShape{.slots = 1, .item_bytes = options.item_bytes, .alignment = options.alignment}.check();
    if (options.flow.kind == FlowKind::replicate) {
      shared_ends_ = control.new_ends(options.consumers);
    }
    listener_ = listen_on(address_);
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() {
    if (flow_ && control_->has(*flow_)) {  // its owner may have stopped it
      control_->stop(*flow_);
    }
  }

  [[nodiscard]] std::string address() const { return address_.to_string(); }
  [[nodiscard]] bool has_begun() const noexcept { return flow_.has_value(); }
  [[nodiscard]] FlowSwitch::FlowId flow() const {
    if (!flow_) {
      throw std::logic_error("the flow has not begun: " + who_is_there());
    }
    return *flow_;
  }
  [[nodiscard]] FlowState state() const { return control_->state(flow()); }
  [[nodiscard]] std::uint32_t units() const noexcept {
    return static_cast<std::uint32_t>(std::ranges::count_if(units_, [](const Unit& unit) { return unit.has_place(); }));
  }

  bool serve(std::chrono::nanoseconds at_most) {
    const auto deadline = Clock::now() + at_most;
    do {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
      device_->serve(std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), kLookAtUnits));
      accept();
      for (auto unit = units_.begin(); unit != units_.end();) {
        unit = listen(*unit) ? std::next(unit) : units_.erase(unit);
      }
      if (!flow_) {
        begin();
      }
      if (is_over()) {
        return false;
      }
    } while (Clock::now() < deadline);
    return true;
  }

  void close() {
    is_closed_ = true;
    if (flow_) {
      control_->close(*flow_);
    }
  }

 private:
  enum class Phase : std::uint8_t { stranger, connecting, ready, member };
  struct Unit {
    exchange::Lines lines;
    Clock::time_point since = Clock::now();
    Phase phase = Phase::stranger;
    bool is_producer = false;
    std::vector<FlowRing> rings{};
    [[nodiscard]] bool has_place() const noexcept { return phase != Phase::stranger; }
  };

  void accept() {
    for (;;) {
      FileDescriptor socket(::accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) {
        return;
      }
      const auto strangers = std::ranges::count(units_, Phase::stranger, &Unit::phase);
      if (static_cast<std::size_t>(strangers) < kMostStrangers) {
        units_.push_back({.lines = exchange::Lines(std::move(socket))});
      }
    }
  }

  // False: the unit is no more.
  bool listen(Unit& unit) {
    try {
      while (const auto line = unit.lines.next()) {
        if (!take(unit, *line)) {
          return false;
        }
      }
    } catch (const std::exception& error) {  // what it asks cannot be
      unit.lines.send(fmt::format("no {}", error.what()));
      return false;
    }
    const bool is_late =
        (unit.phase == Phase::stranger || unit.phase == Phase::connecting) && Clock::now() - unit.since > kPatience;
    if (is_late) {
      unit.lines.send(fmt::format("no it has waited {} s for this unit to connect its rings: begin anew",
                                  std::chrono::seconds(kPatience).count()));
    }
    return !is_late && !unit.lines.is_gone();
  }

  bool take(Unit& unit, const std::string& line) {
    Words words(line);
    const std::string_view what = words.word();
    if (unit.phase == Phase::stranger && what == exchange::kGreeting) {
      offer_ends(unit, words);
      return true;
    }
    if (unit.phase == Phase::connecting && what == "rings") {
      take_rings(unit, words);
      return true;
    }
    if (unit.phase == Phase::member && what == "done") {
      return false;
    }
    throw exchange::WrongLine(fmt::format("'{}' is not to be said now", line.substr(0, 80)));
  }

  void offer_ends(Unit& unit, Words& words) {
    const std::string_view role = words.word();
    if (role != "producer" && role != "consumer") {
      throw exchange::WrongLine(fmt::format("'{}' is neither producer nor consumer", role));
    }
    unit.is_producer = role == "producer";
    const auto port = static_cast<std::uint16_t>(words.number(0xffff));
    RingShape shape{.slots = static_cast<std::uint32_t>(words.number(kMost32)),
                    .item_bytes = static_cast<std::uint32_t>(words.number(kMost32)),
                    .alignment = static_cast<std::uint32_t>(words.number(kMost32))};
    shape.order = words.word() == "little" ? ByteOrder::little : ByteOrder::big;
    words.end();
    check(unit, port, shape);
    const std::size_t count = unit.is_producer && options_.flow.kind == FlowKind::shuffle ? options_.consumers : 1;
    std::string ends;
    for (std::size_t i = 0; i < count; ++i) {
      const SwitchEnd end = next_end(unit);
      unit.rings.push_back({.port = port, .end = end, .shape = shape});
      ends += fmt::format(" {}:{}", end.queue_pair, end.psn);
    }
    unit.phase = Phase::connecting;
    unit.since = Clock::now();
    unit.lines.send(fmt::format("ends {} {} {}{}", options_.flow.path_mtu, p4::address_number(control_->address().ip),
                                count, ends));
  }

  // Copies have the same PSNs, so consumers of a replicated flow have ends that belong together.
  SwitchEnd next_end(const Unit& unit) {
    if (unit.is_producer || options_.flow.kind != FlowKind::replicate) {
      return control_->new_end();
    }
    for (const SwitchEnd& end : shared_ends_) {
      const bool is_in_use = std::ranges::any_of(units_, [&](const Unit& other) {
        return !other.is_producer && !other.rings.empty() && other.rings.front().end.queue_pair == end.queue_pair;
      });
      if (!is_in_use) {
        return end;
      }
    }
    throw std::invalid_argument("all consumers of the flow are there");
  }

  void check(const Unit& unit, std::uint16_t port, const RingShape& shape) const {
    if (shape.item_bytes != options_.item_bytes || shape.alignment != options_.alignment) {
      throw std::invalid_argument(fmt::format("items of {} bytes, aligned to {}; this flow's have {}, aligned to {}",
                                              shape.item_bytes, shape.alignment, options_.item_bytes,
                                              options_.alignment));
    }
    shape.check();
    if (std::ranges::find(device_->ports(), port, &p4::PortOptions::number) == device_->ports().end()) {
      throw std::invalid_argument(fmt::format("the switch has no port {}", port));
    }
    const std::uint32_t wanted = unit.is_producer ? options_.producers : options_.consumers;
    const char* const name = unit.is_producer ? "producers" : "consumers";
    if (!flow_ && count_of(unit.is_producer) >= wanted) {
      throw std::invalid_argument(fmt::format("the flow begins with {} {}, and all are there", wanted, name));
    }
    if (flow_ && (!options_.flow.is_open || is_closed_)) {
      throw std::invalid_argument(fmt::format("the flow has begun with its {} {}, and is not open", wanted, name));
    }
    if (flow_ && !unit.is_producer && options_.flow.kind != FlowKind::balance) {
      throw std::invalid_argument("consumers join only a flow that balances, once it has begun");
    }
  }

  [[nodiscard]] std::uint32_t count_of(bool producers) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        units_, [&](const Unit& unit) { return unit.has_place() && unit.is_producer == producers; }));
  }
  [[nodiscard]] std::string who_is_there() const {
    return fmt::format("{} of {} producers, {} of {} consumers", count_of(true), options_.producers, count_of(false),
                       options_.consumers);
  }

  void take_rings(Unit& unit, Words& words) {
    const auto mac = p4::address_of<6>(words.number(kMost48));
    const auto ip = p4::address_of<4>(words.number(kMost32));
    for (FlowRing& ring : unit.rings) {
      const auto numbers = words.numbers(3, std::numeric_limits<std::uint64_t>::max());
      if (numbers[0] > exchange::kMost24 || numbers[1] > kMost32) {
        throw exchange::WrongLine("a queue pair has 24 bits, and a key 32");
      }
      ring.mac = mac;
      ring.ip = ip;
      ring.queue_pair = static_cast<std::uint32_t>(numbers[0]);
      ring.rkey = static_cast<std::uint32_t>(numbers[1]);
      ring.address = numbers[2];
    }
    words.end();
    unit.phase = Phase::ready;
    if (flow_) {
      join(unit);
      return;
    }
    for (Unit& one : units_) {
      if (one.phase == Phase::ready) {
        one.lines.send("wait " + who_is_there());
      }
    }
  }

  void join(Unit& unit) {
    if (unit.is_producer) {
      control_->join_producer(*flow_, unit.rings);
    } else {
      control_->join_consumer(*flow_, unit.rings.front());
    }
    enter(unit);
  }
  static void enter(Unit& unit) {
    unit.phase = Phase::member;
    unit.lines.send("begin");
  }

  // When all are ready.
  void begin() {
    Flow flow = options_.flow;
    std::uint32_t producers = 0;
    for (const Unit& unit : units_) {
      if (unit.phase != Phase::ready) {
        continue;
      }
      std::vector<FlowRing>& to = unit.is_producer ? flow.producers : flow.consumers;
      to.insert(to.end(), unit.rings.begin(), unit.rings.end());
      producers += unit.is_producer ? 1 : 0;
    }
    if (producers != options_.producers || flow.consumers.size() != options_.consumers) {
      return;
    }
    if (flow.is_open && is_closed_) {
      flow.is_open = false;
    }
    try {
      flow_ = control_->start(flow);
    } catch (const std::exception& error) {  // such units are no flow: others may try
      std::erase_if(units_, [&](Unit& unit) {
        return unit.phase == Phase::ready && (unit.lines.send(fmt::format("no {}", error.what())), true);
      });
      return;
    }
    for (Unit& unit : units_) {
      if (unit.phase == Phase::ready) {
        enter(unit);
      }
    }
  }

  [[nodiscard]] bool is_over() const { return flow_ && units() == 0 && (!options_.flow.is_open || is_closed_); }

  p4::WiredSwitch* device_;
  FlowSwitch* control_;
  FlowHostOptions options_;
  HostAndPort address_;
  FileDescriptor listener_;
  std::vector<SwitchEnd> shared_ends_;
  std::list<Unit> units_;
  std::optional<FlowSwitch::FlowId> flow_;
  bool is_closed_ = false;
};

FlowHost::FlowHost(p4::WiredSwitch& device, FlowSwitch& control, const FlowHostOptions& options)
    : service_(std::make_unique<Service>(device, control, options)) {}
FlowHost::~FlowHost() = default;
std::string FlowHost::address() const { return service_->address(); }
bool FlowHost::serve(std::chrono::nanoseconds at_most) { return service_->serve(at_most); }
bool FlowHost::has_begun() const noexcept { return service_->has_begun(); }
FlowState FlowHost::state() const { return service_->state(); }
FlowSwitch::FlowId FlowHost::flow() const { return service_->flow(); }
void FlowHost::close() { service_->close(); }
std::uint32_t FlowHost::units() const noexcept { return service_->units(); }

}  // namespace sidelatch::flows
