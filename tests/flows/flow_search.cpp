#include "flow_search.h"
#include "flow_world.h"

#include "roce/packet.h"

#include <sidelatch/flows/flow_switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <variant>

namespace sidelatch::flows {

namespace searched_flow {

constexpr std::uint32_t kPacketBytes = 256;
constexpr std::uint64_t kAddress = 0x10000;
constexpr std::uint32_t kKey = 77;
constexpr SwitchAddress kSwitch{.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}};
constexpr std::uint32_t kMask = 0xffffff;
constexpr std::size_t kHeadAndJournal = 12;
// As in the program.
constexpr std::uint64_t kIdlePhase = 1;
constexpr std::uint64_t kDonePhase = 2;
constexpr std::uint64_t kDeadPhase = 3;

class FlowSearch {
 public:
  FlowSearch(const std::shared_ptr<const p4::Program>& program, const FlowSearchOptions& options)
      : options_(&options),
        shape_{.slots = options.slots, .item_bytes = options.packets * kPacketBytes},
        units_(options.has_second ? std::vector{producer, consumer, second} : std::vector{producer, consumer}),
        device_(program, {.ports = kMostUnits, .icrc = true}),
        control_(device_, kSwitch) {
    Flow flow{.kind = options.has_second ? FlowKind::replicate : FlowKind::shuffle,
              .path_mtu = kPacketBytes,
              .batch_bytes = std::uint64_t{options.slots} * shape_.stride(),
              .time_out = std::chrono::microseconds(0),
              .most_retries = counts_retries() ? 1U : 0U};
    ends_of_switch_ = control_.new_ends(kMostUnits);
    flow.producers.push_back(ring_of(producer));
    for (std::size_t i = 1; i < units_.size(); ++i) {
      flow.consumers.push_back(ring_of(units_[i]));
    }
    static_cast<void>(control_.start(flow));
    device_.state().reg("Move.paces").write(0, options.is_paced ? 1 : 0);
    for (const char* const name : kThreadRegisters) {
      registers_.emplace_back(&device_.state().reg(std::string("Move.") + name), 0);
    }
    for (const char* const name : kProducerRegisters) {
      registers_.emplace_back(&device_.state().reg(std::string("Move.") + name), 0);
    }
    registers_.emplace_back(&device_.state().reg("Move.living"), 0);
    registers_.emplace_back(&device_.state().reg("Move.reached"), 1);  // of a second consumer
  }

  FlowSearchResult run() {
    result_ = FlowSearchResult{};
    const World first = begin();
    visit(first, kNowhere);
    find_loops();
    if (!result_.violation.empty() && result_.trace.empty()) {
      trace_to_loop(first);
    }
    std::ranges::reverse(result_.trace);
    return std::move(result_);
  }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  static constexpr std::uint32_t kDeepest = 3000;

  World begin() {
    World first;
    first.losses = options_->losses;
    first.repeats = options_->repeats;
    first.overtakings = options_->overtakings;
    first.early_timers = options_->early_timers;
    first.idle_polls = options_->idle_polls;
    save(first);
    return first;
  }

  [[nodiscard]] bool counts_retries() const {
    return options_->producer_dies || options_->consumer_dies || options_->is_impatient;
  }

  // Dead, or given up by the switch.
  static bool is_out(const World& world, Unit unit) {
    constexpr std::uint64_t kProducerLost = 2;
    const bool is_given_up = unit == producer ? world.registers[place_of("gone")] == kProducerLost
                                              : (world.registers[place_of("lost")] & (unit == consumer ? 1U : 2U)) != 0;
    return is_given_up || world.nics[unit].is_dead;
  }

  [[nodiscard]] FlowRing ring_of(Unit unit) const {
    return {.mac = {2, 0, 0, 0, 0, unit},
            .ip = {10, 0, 0, unit},
            .port = unit,
            .queue_pair = 0x100U + unit,
            .end = {.queue_pair = ends_of_switch_[unit].queue_pair, .psn = kFirstPsn},
            .rkey = kKey,
            .address = kAddress,
            .shape = shape_};
  }

  void fail(const std::string& what) {
    if (result_.violation.empty()) {
      result_.violation = what;
    }
  }

  void visit(const World& world, std::uint32_t from) {
    if (!result_.violation.empty() || !result_.is_complete) {
      return;
    }
    const Hash hash = hash_of(world);
    const auto [place, is_new] = seen_.emplace(hash, static_cast<std::uint32_t>(seen_.size()));
    const std::uint32_t number = place->second;
    if (from != kNowhere) {
      edges_.emplace_back(number, from);
    }
    if (hash == wanted_) {
      fail(loop_);
    }
    if (!is_new || !result_.violation.empty()) {
      return;
    }
    result_.states = seen_.size();
    if (seen_.size() > options_->most_states) {
      result_.is_complete = false;
      return;
    }
    if (++depth_ > kDeepest) {
      fail(fmt::format("{} steps without an end", kDeepest));
    }
    const std::uint32_t outer = std::exchange(present_, number);
    const std::uint64_t before = steps_;
    step_producer(world);
    for (const Unit unit : units_) {
      if (unit != producer) {
        step_consumer(world, unit);
      }
      step_nic(world, unit);
      step_link(world, unit, world.to_unit[unit], true);
      step_link(world, unit, world.from_unit[unit], false);
    }
    step_timer(world);
    if (steps_ == before) {
      ++result_.ends;
      ends_.push_back(number);
      check_end(world);
    }
    present_ = outer;
    --depth_;
  }

  // A state from which no end is reached: somebody waits for ever, however often the timer fires.
  void find_loops() {
    if (!result_.violation.empty() || !result_.is_complete) {
      return;
    }
    std::ranges::sort(edges_);
    std::vector<bool> is_good(seen_.size());
    std::vector<std::uint32_t> open = ends_;
    for (const std::uint32_t end : ends_) {
      is_good[end] = true;
    }
    while (!open.empty()) {
      const std::uint32_t number = open.back();
      open.pop_back();
      for (auto edge = std::ranges::lower_bound(edges_, std::pair{number, 0U});
           edge != edges_.end() && edge->first == number; ++edge) {
        if (!is_good[edge->second]) {
          is_good[edge->second] = true;
          open.push_back(edge->second);
        }
      }
    }
    for (const auto& [hash, number] : seen_) {
      if (!is_good[number]) {
        loop_ = "from here on the flow never ends";
        result_.violation = loop_;
        wanted_ = hash;
        return;
      }
    }
  }

  // The same search again, to that state.
  void trace_to_loop(const World& first) {
    result_.violation.clear();
    seen_.clear();
    edges_.clear();
    visit(first, kNowhere);
  }

  template <class What, class Change>
  void then(const World& world, const What& what, const Change& change) {
    if (!result_.violation.empty()) {
      return;
    }
    ++steps_;
    World next = world;
    change(next);
    visit(next, present_);
    if (!result_.violation.empty()) {
      result_.trace.push_back(what());
    }
  }

  // ---- Units.

  void step_producer(const World& world) {
    const Memory& memory = world.memories[producer];
    const std::uint32_t head = memory.head & kCount;
    if ((memory.tail & kBroken) != 0) {
      return;
    }
    if (world.written > head) {
      then(
          world, [] { return "the producer moves its head"; }, [](World& next) { ++next.memories[producer].head; });
    } else if (world.written < options_->items && head - (memory.tail & kCount) < options_->slots) {
      then(
          world, [&] { return fmt::format("the producer writes item {}", world.written); },
          [&](World& next) {
            for (std::uint32_t i = 0; i < options_->packets; ++i) {
              next.memories[producer].packets.at(next.written % options_->slots * options_->packets + i) = next.written;
            }
            ++next.written;
          });
    } else if (world.written == options_->items && !world.has_ended) {
      then(
          world, [] { return "the producer ends"; },
          [](World& next) {
            next.has_ended = true;
            next.memories[producer].head |= kEnded;
          });
    }
  }

  void step_consumer(const World& world, Unit unit) {
    const Memory& memory = world.memories[unit];
    if (world.is_reading[unit]) {
      then(
          world, [&] { return fmt::format("the {} gives the slot of item {} back", kUnits[unit], world.popped[unit]); },
          [&](World& next) {
            check_item(next, unit);  // has it changed meanwhile?
            next.is_reading[unit] = false;
            ++next.popped[unit];
            ++next.memories[unit].tail;
          });
    } else if (((memory.head - memory.tail) & kCount) != 0) {
      then(
          world, [&] { return fmt::format("the {} reads item {}", kUnits[unit], world.popped[unit]); },
          [&](World& next) {
            check_item(next, unit);
            next.is_reading[unit] = true;
          });
    }
  }

  void check_item(const World& world, Unit unit) {
    const std::uint8_t wanted = world.popped[unit];
    for (std::uint32_t i = 0; i < options_->packets; ++i) {
      const std::uint8_t found = world.memories[unit].packets.at(wanted % options_->slots * options_->packets + i);
      if (found != wanted || wanted >= options_->items) {
        fail(fmt::format("the {} has {} as item {}", kUnits[unit], found, wanted));
      }
    }
  }

  // When one consumer sees an item, the NIC of the other one has acknowledged it: it is in memory, or will be.
  void check_all_have(const World& world) {
    const std::uint32_t seen = std::max(world.memories[consumer].head & kCount, world.memories[second].head & kCount);
    for (const Unit unit : {consumer, second}) {
      for (std::uint32_t item = world.popped[unit]; item < seen && !is_out(world, unit); ++item) {
        const bool is_there = world.memories[unit].packets.at(item % options_->slots * options_->packets) == item;
        const bool is_coming = std::ranges::any_of(world.nics[unit].jobs, [&](const Job& job) {
          return job.request.bytes > kHeadAndJournal && job.request.item == item;
        });
        if (!is_there && !is_coming) {
          fail(fmt::format("one consumer sees item {}, and the {} does not have it", item, kUnits[unit]));
        }
      }
    }
  }

  void check_end(const World& world) {
    const Memory& source = world.memories[producer];
    const bool is_producer_out = is_out(world, producer);
    bool are_all_out = true;
    for (std::size_t i = 1; i < units_.size(); ++i) {
      const Unit unit = units_[i];
      const Memory& target = world.memories[unit];
      if (is_out(world, unit)) {
        continue;
      }
      are_all_out = false;
      // Given up at the last: it has everything but the end, and the switch cannot know whether it has that.
      if (options_->is_impatient && world.popped[unit] == options_->items && target.head == options_->items) {
        continue;
      }
      const bool has_all = world.popped[unit] == options_->items && target.head == (options_->items | kEnded);
      // A producer that has been told that all was delivered may leave.
      const bool may_leave = source.tail == (options_->items | kEnded);
      if ((!is_producer_out || may_leave) && !has_all) {
        fail(fmt::format("nothing is left to do, and the {} has {} items; its head is {:#x}", kUnits[unit],
                         world.popped[unit], target.head));
      } else if ((target.head & kEnded) == 0 || (!has_all && (target.head & kBroken) == 0)) {
        fail(fmt::format("the producer is lost, and the head of the {} is {:#x}", kUnits[unit], target.head));
      }
    }
    const std::uint64_t phase = world.registers[place_of("phases")];
    if (phase != kDonePhase && phase != kDeadPhase) {
      fail(fmt::format("the flow has come to a halt in phase {}", phase));
    }
    const bool has_no_end = options_->is_impatient && world.registers[place_of("gone")] != 0;
    if (has_no_end) {
      return;  // as above
    }
    if (!is_producer_out && !are_all_out && source.tail != (options_->items | kEnded)) {
      fail(fmt::format("nothing is left to do, and the producer's tail is {:#x}", source.tail));
    } else if (!is_producer_out && (source.tail & (kBroken | kEnded)) == 0) {
      fail(fmt::format("the consumer is lost, and the producer's tail is {:#x}", source.tail));
    }
  }

  // ---- The network and the switch.

  void step_link(const World& world, Unit unit, const std::vector<Frame>& link, bool to_unit) {
    for (std::size_t at = 0; at < link.size() && (at == 0 || world.overtakings != 0); ++at) {
      const auto take = [&](World& next) {
        std::vector<Frame>& frames = to_unit ? next.to_unit[unit] : next.from_unit[unit];
        const Frame frame = frames[at];
        frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(at));
        next.overtakings = static_cast<std::uint8_t>(next.overtakings - (at == 0 ? 0 : 1));
        return frame;
      };
      const auto name = [&] {
        return fmt::format("{} {}: {}", to_unit ? "to the" : "from the", kUnits[unit], text(link[at]));
      };
      then(world, name, [&](World& next) {
        const Frame frame = take(next);
        if (to_unit) {
          reach_nic(next, unit, frame);
        } else {
          through_switch(next, unit, encode(unit, frame));
        }
      });
      if (world.losses != 0) {
        then(
            world, [&] { return name() + " is lost"; },
            [&](World& next) {
              static_cast<void>(take(next));
              --next.losses;
            });
      }
      if (world.repeats != 0) {
        then(
            world, [&] { return name() + " is repeated"; },
            [&](World& next) {
              --next.repeats;
              std::vector<Frame>& frames = to_unit ? next.to_unit[unit] : next.from_unit[unit];
              const Frame frame = frames[at];
              frames.push_back(frame);
            });
      }
    }
  }

  void step_timer(const World& world) {
    const std::uint64_t phase = world.registers[place_of("phases")];
    if (phase == kDonePhase || phase == kDeadPhase) {
      return;
    }
    const bool is_quiet = std::ranges::all_of(units_, [&](Unit unit) {
      return world.to_unit[unit].empty() && world.from_unit[unit].empty() && world.nics[unit].jobs.empty();
    });
    const Memory& source = world.memories[producer];
    const bool has_items = ((source.head - source.tail) & kCount) != 0 || (source.head & kEnded) != 0;
    const bool has_room = std::ranges::all_of(units_, [&](Unit unit) {
      const Memory& memory = world.memories[unit];
      return unit == producer || world.nics[unit].is_dead || ((memory.head - memory.tail) & kCount) < options_->slots;
    });
    bool is_due = is_quiet;
    bool is_poll = false;
    if (phase == kIdlePhase) {
      is_due = (has_items && has_room) || world.nics[producer].is_dead;
      is_poll = !is_due && world.idle_polls != 0;
    }
    const bool is_early = !is_due && phase != kIdlePhase && world.early_timers != 0;
    if (!is_due && !is_poll && !is_early) {
      return;
    }
    then(
        world, [&] { return fmt::format("the timer fires{}", is_early ? " early" : ""); },
        [&](World& next) {
          next.early_timers = static_cast<std::uint8_t>(next.early_timers - (is_early ? 1 : 0));
          next.idle_polls = static_cast<std::uint8_t>(next.idle_polls - (is_poll ? 1 : 0));
          through_switch(next, producer, {});
        });
  }

  void load(const World& world) {
    for (std::size_t i = 0; i < registers_.size(); ++i) {
      registers_[i].first->write(registers_[i].second, world.registers.at(i));
    }
  }
  void save(World& world) {
    if (!counts_retries()) {
      device_.state().reg("Move.retries").write(0, 0);
      device_.state().reg("Move.silences").write(0, 0);
    }
    for (std::size_t i = 0; i < registers_.size(); ++i) {
      world.registers.at(i) = static_cast<std::uint64_t>(registers_[i].first->read(registers_[i].second));
    }
  }

  // No frame: the packet generator's. The program itself decides. How often a request was repeated counts only if that
  // is limited: else it would make each state another one.
  void through_switch(World& world, Unit from, std::span<const std::byte> frame) {
    load(world);
    if (frame.empty()) {
      device_.set_time(*device_.next_generated());
    } else {
      device_.receive(from, frame);
    }
    if (!device_.run(1000)) {
      fail("a packet goes round in the switch for ever");
    }
    while (const auto departed = device_.departed()) {
      world.to_unit.at(departed->port).push_back(decode(departed->bytes));
    }
    save(world);
  }

  static std::string text(const Frame& frame) {
    return fmt::format("opcode {:#x}{} PSN {:#x} offset {} bytes {} value {:#x} item {}",
                       static_cast<unsigned>(frame.opcode), frame.is_nak ? " NAK" : "", frame.psn, frame.offset,
                       frame.bytes, frame.value, frame.item);
  }

  std::span<const std::byte> encode(Unit unit, const Frame& frame) {
    const FlowRing ring = ring_of(unit);
    roce::Packet packet;
    packet.ethernet = {.destination = kSwitch.mac, .source = ring.mac};
    roce::Ipv4 ip;
    ip.source = ring.ip;
    ip.destination = kSwitch.ip;
    packet.ip = ip;
    packet.bth.opcode = frame.opcode;
    packet.bth.destination_qp = ring.end.queue_pair;
    packet.bth.psn = roce::Psn(frame.psn);
    packet.aeth.syndrome =
        frame.is_nak ? roce::Syndrome::nak(roce::NakCode::psn_sequence_error) : roce::Syndrome::ack();
    std::array<std::byte, kPacketBytes> payload{};
    if (frame.bytes == 4) {
      std::memcpy(payload.data(), &frame.value, 4);
    } else {
      payload.fill(static_cast<std::byte>(frame.item));
    }
    packet.payload = std::span(payload).first(frame.bytes);
    const auto built = roce::build(packet, buffer_);
    if (std::holds_alternative<roce::Refusal>(built)) {
      throw std::logic_error("a frame that cannot be built");
    }
    return {buffer_.data(), std::get<std::size_t>(built)};
  }

  static Frame decode(std::span<const std::byte> bytes) {
    const auto parsed = roce::parse_frame(bytes, roce::IcrcCheck::yes);
    const auto* const packet = std::get_if<roce::Packet>(&parsed);
    if (packet == nullptr) {
      throw std::logic_error("the switch has sent something that is no packet");
    }
    Frame frame{.opcode = packet->bth.opcode,
                .asks = packet->bth.ack_request,
                .psn = packet->bth.psn.value(),
                .offset = static_cast<std::uint32_t>(packet->reth.virtual_address - kAddress),
                .bytes = packet->reth.dma_length};
    if (packet->payload.size() <= kHeadAndJournal && !packet->payload.empty()) {
      std::memcpy(&frame.value, packet->payload.data(), 4);
    } else if (!packet->payload.empty()) {
      frame.item = std::to_integer<std::uint8_t>(packet->payload.front());
    }
    return frame;
  }

  // ---- NICs.

  void reach_nic(World& world, Unit unit, const Frame& frame) {
    Nic& nic = world.nics[unit];
    if (nic.is_dead) {
      return;
    }
    const std::uint32_t ahead = (frame.psn - nic.expected) & kMask;
    const bool is_write = frame.opcode == Opcode::write_only;
    std::vector<Frame>& answers = world.from_unit[unit];
    if (ahead != 0 && ahead < 0x800000) {
      if (!std::exchange(nic.has_sent_nak, true)) {
        answers.push_back({.opcode = Opcode::acknowledge, .is_nak = true, .psn = nic.expected});
      }
      return;
    }
    if (ahead == 0) {
      nic.expected = (nic.expected + (is_write ? 1 : packets_of(frame))) & kMask;
      nic.has_sent_nak = false;
      nic.jobs.push_back({.request = frame});
      nic.acknowledged = is_write ? frame.psn : nic.acknowledged;
    } else if (!is_write) {
      nic.jobs.push_back({.request = frame});
    }
    if (is_write && (frame.asks || ahead != 0)) {
      answers.push_back({.opcode = Opcode::acknowledge, .psn = nic.acknowledged});
    }
  }

  static std::uint32_t packets_of(const Frame& frame) { return (frame.bytes + kPacketBytes - 1) / kPacketBytes; }

  void step_nic(const World& world, Unit unit) {
    const Nic& nic = world.nics[unit];
    const bool may_die = (unit == producer && options_->producer_dies) || (unit == consumer && options_->consumer_dies);
    if (may_die && !nic.is_dead) {
      then(
          world, [&] { return fmt::format("the {} dies", kUnits[unit]); },
          [&](World& next) {
            next.nics[unit].is_dead = true;
            next.nics[unit].jobs.clear();
          });
    }
    if (nic.jobs.empty()) {
      return;
    }
    const Frame& request = nic.jobs.front().request;
    if (request.opcode == Opcode::write_only) {
      then(
          world, [&] { return fmt::format("the {}'s NIC places PSN {:#x}", kUnits[unit], request.psn); },
          [&](World& next) { place(next, unit); });
    } else {
      then(
          world, [&] { return fmt::format("the {}'s NIC samples for PSN {:#x}", kUnits[unit], request.psn); },
          [&](World& next) { sample(next, unit); });
    }
  }

  void place(World& world, Unit unit) {
    const Frame request = world.nics[unit].jobs.front().request;
    world.nics[unit].jobs.erase(world.nics[unit].jobs.begin());
    Memory& memory = world.memories[unit];
    if (request.bytes == 0) {
      return;
    }
    if (request.offset == RingShape::head_offset()) {
      memory.head = request.value;
      if (options_->has_second) {
        check_all_have(world);
      }
    } else if (request.offset == RingShape::tail_offset()) {
      memory.tail = request.value;
    } else {
      memory.packets.at(packet_of(request)) = request.item;
    }
  }

  [[nodiscard]] std::size_t packet_of(const Frame& request) const {
    return (request.offset - shape_.items_offset()) / kPacketBytes;
  }

  void sample(World& world, Unit unit) const {
    Job& job = world.nics[unit].jobs.front();
    const Memory& memory = world.memories[unit];
    const std::uint32_t packets = packets_of(job.request);
    Frame answer{.psn = (job.request.psn + job.sampled) & kMask};
    if (job.request.bytes == 4) {
      answer.opcode = Opcode::read_response_only;
      answer.bytes = 4;
      answer.value = job.request.offset == RingShape::head_offset() ? memory.head : memory.tail;
    } else {
      answer.opcode = packets == 1                 ? Opcode::read_response_only
                      : job.sampled == 0           ? Opcode::read_response_first
                      : job.sampled + 1 == packets ? Opcode::read_response_last
                                                   : Opcode::read_response_middle;
      answer.bytes = kPacketBytes;
      answer.item = memory.packets.at(packet_of(job.request) + job.sampled);
    }
    world.from_unit[unit].push_back(answer);
    if (++job.sampled == packets) {
      world.nics[unit].jobs.erase(world.nics[unit].jobs.begin());
    }
  }

  const FlowSearchOptions* options_;
  RingShape shape_;
  std::vector<Unit> units_;
  p4::Switch device_;
  FlowSwitch control_;
  std::vector<SwitchEnd> ends_of_switch_;
  std::vector<std::pair<p4::RegisterState*, std::uint64_t>> registers_;  // and the index
  std::array<std::byte, 512> buffer_{};
  std::unordered_map<Hash, std::uint32_t, Hash::Of> seen_;      // to the state's number
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // to, from
  std::vector<std::uint32_t> ends_;
  std::uint32_t present_ = kNowhere;
  std::uint32_t depth_ = 0;
  std::string loop_;
  Hash wanted_{0, 0};
  std::uint64_t steps_ = 0;
  FlowSearchResult result_;
};

}  // namespace searched_flow

FlowSearchResult search(const std::shared_ptr<const p4::Program>& program, const FlowSearchOptions& options) {
  return searched_flow::FlowSearch(program, options).run();
}

}  // namespace sidelatch::flows
