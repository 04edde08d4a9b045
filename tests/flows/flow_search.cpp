#include "flow_search.h"
#include "flow_world.h"

#include "roce/packet.h"

#include <sidelatch/flows/flow_switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
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
constexpr std::size_t kHeadAndJournal = 20;
// As in the program.
constexpr std::uint16_t kGeneratorPort = 510;
constexpr std::uint64_t kIdlePhase = 1;
constexpr std::uint64_t kDonePhase = 2;
constexpr std::uint64_t kDeadPhase = 3;
constexpr std::uint64_t kFreePhase = 6;
constexpr std::uint64_t kTellPhase = 7;
constexpr std::uint64_t kDataPhase = 8;
constexpr std::uint64_t kPushPhase = 10;
constexpr std::uint64_t kPacedMark = 1;
constexpr std::uint64_t kPaidMark = 2;
// An element of `waits`: how often it was asked in vain, and patience above it.
constexpr std::uint64_t kWaits = 0xfffff;
constexpr int kPatienceAt = 20;

class FlowSearch {
 public:
  FlowSearch(const std::shared_ptr<const p4::Program>& program, const FlowSearchOptions& options)
      : options_(&options),
        shape_{.slots = options.slots, .item_bytes = options.packets * kPacketBytes},
        producers_(options.producers == 2 ? std::vector{producer, other} : std::vector{producer}),
        consumers_(options.consumers == 2 ? std::vector{consumer, second} : std::vector{consumer}),
        threads_(options.kind == FlowKind::balance ? options.consumers : 1),
        device_(program, {.ports = kMostUnits, .icrc = true}),
        control_(device_, kSwitch) {
    if (options.items > kMostItems || (options.producers == 2 && options.kind == FlowKind::replicate) ||
        (options.consumers == 2 && options.kind == FlowKind::shuffle)) {
      throw std::invalid_argument("not in this search");
    }
    units_ = producers_;
    units_.insert(units_.end(), consumers_.begin(), consumers_.end());
    Flow flow{.kind = options.kind,
              .path_mtu = kPacketBytes,
              .batch_bytes = std::uint64_t{options.slots} * shape_.stride(),
              .time_out = std::chrono::microseconds(0),
              .most_retries = counts_retries() ? 1U : 0U};
    ends_of_switch_ = control_.new_ends(kMostUnits);
    for (const Unit unit : producers_) {
      flow.producers.push_back(ring_of(unit));
    }
    for (const Unit unit : consumers_) {
      flow.consumers.push_back(ring_of(unit));
    }
    flow_ = control_.start(flow);
    for (std::uint32_t i = 0; i < kMostThreads; ++i) {
      device_.remove_generator(i);  // tick() does it
      device_.state().reg("Move.paces").write(i, options.is_paced ? 1 : 0);
      for (const char* const name : kThreadRegisters) {
        registers_.emplace_back(&device_.state().reg(std::string("Move.") + name), i);
      }
    }
    for (std::uint32_t i = 0; i < kMostProducers; ++i) {
      for (const char* const name : kProducerRegisters) {
        registers_.emplace_back(&device_.state().reg(std::string("Move.") + name), i);
      }
    }
    registers_.emplace_back(&device_.state().reg("Move.living"), 0);
    registers_.emplace_back(&device_.state().reg("Move.reached"), 1);
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
    first.payments = options_->payments;
    save(first);
    return first;
  }

  [[nodiscard]] bool counts_retries() const {
    return options_->producer_dies || options_->consumer_dies || options_->is_impatient;
  }

  static bool is_producer(Unit unit) { return unit == producer || unit == other; }
  // Of a producer, or of a consumer: its place among them.
  static std::size_t number_of(Unit unit) { return unit == producer || unit == consumer ? 0 : 1; }
  [[nodiscard]] std::size_t thread_of(Unit consumer_unit) const {
    return options_->kind == FlowKind::balance ? number_of(consumer_unit) : 0;
  }
  // Else the thread is alone, and has no registers for several units.
  [[nodiscard]] bool is_shared() const { return options_->kind != FlowKind::shuffle || options_->producers != 1; }
  [[nodiscard]] bool is_balanced() const { return options_->kind == FlowKind::balance; }
  [[nodiscard]] bool is_replicated() const { return options_->kind == FlowKind::replicate; }
  [[nodiscard]] std::uint32_t all_items() const { return options_->producers * options_->items; }

  // Dead, or given up by the switch.
  [[nodiscard]] bool is_out(const World& world, Unit unit) const {
    constexpr std::uint64_t kProducerLost = 2;
    if (world.nics[unit].is_dead) {
      return true;
    }
    if (is_producer(unit)) {
      return world.registers[place_of_producer("gone", number_of(unit))] == kProducerLost;
    }
    if (!is_shared()) {
      const std::uint64_t phase = world.registers[place_of("phases", 0)];
      return phase == kTellPhase || phase == kDeadPhase;
    }
    const std::uint64_t lost = world.registers[place_of("lost", thread_of(unit))];
    return (lost & (is_replicated() && unit == second ? 2U : 1U)) != 0;
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
    for (const Unit unit : units_) {
      if (is_producer(unit)) {
        step_producer(world, unit);
      } else {
        step_consumer(world, unit);
      }
      step_nic(world, unit);
      step_link(world, unit, world.to_unit[unit], true);
      step_link(world, unit, world.from_unit[unit], false);
    }
    for (std::size_t thread = 0; thread < threads_; ++thread) {
      step_timer(world, thread);
      step_payment(world, thread);
    }
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
    const auto next = std::make_unique<World>(world);  // there are thousands of these calls in each other
    change(*next);
    visit(*next, present_);
    if (!result_.violation.empty()) {
      result_.trace.push_back(what());
    }
  }

  // ---- Units.

  void step_producer(const World& world, Unit unit) {
    const std::size_t number = number_of(unit);
    const Memory& memory = world.memories[unit];
    const std::uint32_t head = memory.head & kCount;
    const std::uint8_t written = world.written.at(number);
    if ((memory.tail & kBroken) != 0) {
      return;
    }
    if (written > head) {
      then(
          world, [&] { return fmt::format("the {} moves its head", kUnits[unit]); },
          [&](World& next) { ++next.memories[unit].head; });
    } else if (written < options_->items && head - (memory.tail & kCount) < options_->slots) {
      then(
          world, [&] { return fmt::format("the {} writes item {}", kUnits[unit], written); },
          [&](World& next) {
            for (std::uint32_t i = 0; i < options_->packets; ++i) {
              next.memories[unit].packets.at(written % options_->slots * options_->packets + i) =
                  item_of(number, written);
            }
            ++next.written.at(number);
            next.memories[unit].head += options_->is_coarse ? 1U : 0U;
          });
    } else if (written == options_->items && !world.has_ended.at(number)) {
      then(
          world, [&] { return fmt::format("the {} ends", kUnits[unit]); },
          [&](World& next) {
            next.has_ended.at(number) = true;
            next.memories[unit].head |= kEnded;
          });
    }
  }

  void step_consumer(const World& world, Unit unit) {
    const Memory& memory = world.memories[unit];
    if (world.is_reading[unit]) {
      then(
          world,
          [&] { return fmt::format("the {} gives the slot of its item {} back", kUnits[unit], world.popped[unit]); },
          [&](World& next) { give_back(next, unit); });
    } else if (((memory.head - memory.tail) & kCount) != 0) {
      then(
          world, [&] { return fmt::format("the {} reads its item {}", kUnits[unit], world.popped[unit]); },
          [&](World& next) {
            static_cast<void>(checked_item(next, unit));
            next.is_reading[unit] = true;
            if (options_->is_coarse) {
              give_back(next, unit);
            }
          });
    }
  }

  void give_back(World& world, Unit unit) {
    const std::uint8_t item = checked_item(world, unit);  // has it changed meanwhile?
    const std::size_t from = item / kMostItems % kMostProducers;
    world.is_reading[unit] = false;
    world.next[unit].at(from) = static_cast<std::uint8_t>(item % kMostItems + 1);
    world.all_popped = static_cast<std::uint16_t>(world.all_popped | 1U << item % (2 * kMostItems));
    ++world.popped[unit];
    ++world.memories[unit].tail;
  }

  // What the consumer finds: an item that it may get now, and whole.
  std::uint8_t checked_item(const World& world, Unit unit) {
    const std::size_t at = world.popped[unit] % options_->slots * options_->packets;
    const std::uint8_t found = world.memories[unit].packets.at(at);
    const std::size_t from = found / kMostItems;
    const std::uint8_t number = found % kMostItems;
    bool is_right = from < options_->producers && number < options_->items;
    if (is_right) {
      const std::uint8_t least = world.next[unit].at(from);
      is_right = is_balanced() ? number >= least && (world.all_popped & 1U << found) == 0 : number == least;
    }
    for (std::uint32_t i = 1; i < options_->packets; ++i) {
      is_right = is_right && world.memories[unit].packets.at(at + i) == found;
    }
    if (!is_right) {
      fail(fmt::format("the {} has {} as its item {}", kUnits[unit], found, world.popped[unit]));
    }
    return found;
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
    for (std::size_t thread = 0; thread < threads_; ++thread) {
      const std::uint64_t phase = world.registers[place_of("phases", thread)];
      if (phase != kDonePhase && phase != kDeadPhase) {
        fail(fmt::format("thread {} has come to a halt in phase {}", thread, phase));
      }
    }
    is_balanced() ? check_shares(world) : check_copies(world);
    const bool are_all_out = std::ranges::all_of(consumers_, [&](Unit unit) { return is_out(world, unit); });
    for (const Unit unit : producers_) {
      const std::uint32_t tail = world.memories[unit].tail;
      const std::uint64_t gone = world.registers[place_of_producer("gone", number_of(unit))];
      if (is_out(world, unit) || (options_->is_impatient && gone != 0)) {
        continue;  // of the second the last word may be lost
      }
      if (!are_all_out && tail != (options_->items | kEnded)) {
        fail(fmt::format("nothing is left to do, and the tail of the {} is {:#x}", kUnits[unit], tail));
      } else if ((tail & (kBroken | kEnded)) == 0) {
        fail(fmt::format("the consumers are lost, and the tail of the {} is {:#x}", kUnits[unit], tail));
      }
    }
  }

  // Whether producers may have been lost before all their items were delivered. One that has been told that all were
  // may leave.
  [[nodiscard]] bool is_any_lost(const World& world) const {
    return std::ranges::any_of(producers_, [&](Unit unit) {
      return is_out(world, unit) && world.memories[unit].tail != (options_->items | kEnded);
    });
  }

  // Each consumer gets all items.
  void check_copies(const World& world) {
    for (const Unit unit : consumers_) {
      const std::uint32_t head = world.memories[unit].head;
      if (is_out(world, unit)) {
        continue;
      }
      // Given up at the last: it has everything but the end, and the switch cannot know whether it has that.
      if (options_->is_impatient && world.popped[unit] == all_items() && head == all_items()) {
        continue;
      }
      const bool has_all = world.popped[unit] == all_items() && head == (all_items() | kEnded);
      if (!is_any_lost(world) && !has_all) {
        fail(fmt::format("nothing is left to do, and the {} has {} items; its head is {:#x}", kUnits[unit],
                         world.popped[unit], head));
      } else if ((head & kEnded) == 0 || (!has_all && (head & kBroken) == 0)) {
        fail(fmt::format("the producer is lost, and the head of the {} is {:#x}", kUnits[unit], head));
      }
    }
  }

  // Each item is popped by one of the consumers, but for what a producer or a consumer that died took with it.
  void check_shares(const World& world) {
    unsigned gone = world.all_popped;
    bool are_all_out = true;
    for (const Unit unit : consumers_) {
      const std::uint32_t head = world.memories[unit].head;
      if (is_out(world, unit)) {
        gone |= world.accepted[unit];
        continue;
      }
      are_all_out = false;
      if ((head & kCount) != world.popped[unit] || (head & kEnded) == 0) {
        fail(fmt::format("nothing is left to do, and the {} has {} items; its head is {:#x}", kUnits[unit],
                         world.popped[unit], head));
      }
      if ((head & kBroken) != 0 && !is_any_lost(world)) {
        fail(fmt::format("no producer is lost, and the head of the {} is {:#x}", kUnits[unit], head));
      }
    }
    for (const Unit unit : producers_) {
      const std::size_t number = number_of(unit);
      bool are_all_gone = true;
      for (std::uint8_t item = 0; item < options_->items; ++item) {
        are_all_gone = are_all_gone && (gone & 1U << item_of(number, item)) != 0;
      }
      if (are_all_gone || are_all_out) {
        continue;
      }
      if (!is_out(world, unit)) {
        fail(fmt::format("nothing is left to do, and an item of the {} is lost: popped are {:#x}", kUnits[unit],
                         world.all_popped));
      }
      for (const Unit one : consumers_) {
        if (!is_out(world, one) && (world.memories[one].head & kBroken) == 0) {
          fail(fmt::format("the {} is lost, and the head of the {} is {:#x}", kUnits[unit], kUnits[one],
                           world.memories[one].head));
        }
      }
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

  static bool is_quiet(const World& world, Unit unit) {
    return world.to_unit[unit].empty() && world.from_unit[unit].empty() && world.nics[unit].jobs.empty();
  }

  // Whether an answer to what the thread has asked for may still come.
  [[nodiscard]] bool is_quiet(const World& world, std::size_t thread) const {
    return std::ranges::all_of(units_, [&](Unit unit) {
      const bool is_its_own =
          is_producer(unit)
              ? (world.registers[place_of_producer("locks", number_of(unit))] & 0xffff) == thread + 1 ||
                    (world.registers[place_of_producer("waits", number_of(unit))] & kWaits) != 0 || !is_balanced()
              : thread_of(unit) == thread;
      return !is_its_own || is_quiet(world, unit);
    });
  }

  // Whether an idle thread would find something to do. Else it would ask for heads and tails for ever.
  [[nodiscard]] bool has_work(const World& world, std::size_t thread) const {
    const bool has_room = std::ranges::all_of(consumers_, [&](Unit unit) {
      const Memory& memory = world.memories[unit];
      return thread_of(unit) != thread || world.nics[unit].is_dead ||
             ((memory.head - memory.tail) & kCount) < options_->slots;
    });
    bool are_all_gone = true;
    bool has_found = false;
    for (const Unit unit : producers_) {
      const std::size_t number = number_of(unit);
      if (world.registers[place_of_producer("gone", number)] != 0) {
        continue;
      }
      are_all_gone = false;
      const std::uint64_t lock = world.registers[place_of_producer("locks", number)] & 0xffff;
      const Memory& source = world.memories[unit];
      const bool has_items = ((source.head - source.tail) & kCount) != 0 || (source.head & kEnded) != 0;
      has_found =
          has_found || ((lock == 0 || lock == thread + 1) && ((has_items && has_room) || world.nics[unit].is_dead));
    }
    return has_found || are_all_gone;
  }

  void step_timer(const World& world, std::size_t thread) {
    const std::uint64_t phase = world.registers[place_of("phases", thread)];
    // While a producer is put aside an idle thread is woken each time-out, as one that waits for an answer, and so is
    // one that is over.
    const bool is_one_put_aside = std::ranges::any_of(producers_, [&](Unit unit) {
      return (world.registers[place_of_producer("waits", number_of(unit))] & kWaits) != 0;
    });
    if ((phase == kDonePhase || phase == kDeadPhase) && !is_one_put_aside) {
      return;
    }
    const bool is_idle = phase == kIdlePhase && !is_one_put_aside;
    const bool is_due = is_idle ? has_work(world, thread) : is_quiet(world, thread);
    const bool is_poll = is_idle && !is_due && world.idle_polls != 0;
    const bool is_early = !is_idle && !is_due && world.early_timers != 0;
    if (!is_due && !is_poll && !is_early) {
      return;
    }
    then(
        world, [&] { return fmt::format("the timer of thread {} fires{}", thread, is_early ? " early" : ""); },
        [&](World& next) {
          next.early_timers = static_cast<std::uint8_t>(next.early_timers - (is_early ? 1 : 0));
          next.idle_polls = static_cast<std::uint8_t>(next.idle_polls - (is_poll ? 1 : 0));
          next.is_next_paid_for = next.is_next_paid_for || phase == kIdlePhase;
          tick(next, thread);
        });
  }

  // As the control plane does it, while a batch is on its way: FlowSwitch::pace_of().
  void step_payment(const World& world, std::size_t thread) {
    const std::uint64_t phase = world.registers[place_of("phases", thread)];
    const bool has_batch = phase == kDataPhase || phase == kPushPhase ||
                           (phase == kFreePhase && world.registers[place_of("items", thread)] != 0);
    if (world.payments == 0 || !has_batch || world.registers[place_of("paces", thread)] != kPacedMark) {
      return;
    }
    then(
        world, [&] { return fmt::format("the batch of thread {} is paid for", thread); },
        [&](World& next) {
          --next.payments;
          next.registers[place_of("paces", thread)] = kPaidMark;
          next.is_next_paid_for = true;
        });
  }

  // A batch begins where the phase becomes DATA.
  void check_paid(World& world, std::uint64_t phase_before) {
    if (!options_->is_paced || phase_before == kDataPhase || world.registers[place_of("phases", 0)] != kDataPhase) {
      return;
    }
    if (!std::exchange(world.is_next_paid_for, false)) {
      fail("a batch begins that is not paid for");
    }
  }

  void load(const World& world) {
    for (std::size_t i = 0; i < registers_.size(); ++i) {
      registers_[i].first->write(registers_[i].second, world.registers.at(i));
    }
  }
  void save(World& world) {
    const auto at_most = [&](const char* name, std::uint64_t index, p4::U128 most) {
      p4::RegisterState& counts = device_.state().reg(name);
      counts.write(index, std::min(counts.read(index), most));
    };
    for (std::uint32_t thread = 0; thread < kMostThreads && !counts_retries(); ++thread) {
      // Of two retries the first is that of DATA, and the second that of patience.
      at_most("Move.retries", thread, 2);
      at_most("Move.silences", thread, 1);
    }
    for (std::uint32_t one = 0; one < kMostProducers && !counts_retries(); ++one) {
      p4::RegisterState& waits = device_.state().reg("Move.waits");
      const p4::U128 both = waits.read(one);
      const p4::U128 patience = std::min<p4::U128>(both >> kPatienceAt, 1);
      waits.write(one, std::min<p4::U128>(both & kWaits, 1) | patience << kPatienceAt);
    }
    for (std::size_t i = 0; i < registers_.size(); ++i) {
      world.registers.at(i) = static_cast<std::uint64_t>(registers_[i].first->read(registers_[i].second));
    }
  }

  // Whether a request was repeated counts; how often only if that is limited: else it would make each state another
  // one.
  void through_switch(World& world, Unit from, std::span<const std::byte> frame) {
    load(world);
    device_.receive(from, frame);
    pass(world);
  }

  // A packet of the generator, for this thread. The program itself decides.
  void tick(World& world, std::size_t thread) {
    load(world);
    roce::Packet packet =
        packet_to_switch(kSwitch.mac, kSwitch.ip, Opcode::read_request, static_cast<std::uint32_t>(thread));
    packet.bth.psn = roce::Psn(static_cast<std::uint32_t>(flow_));
    const std::span<const std::byte> bytes = built(packet);
    device_.set_generator(0, {.port = kGeneratorPort, .interval = 1, .packet = {bytes.begin(), bytes.end()}});
    device_.set_time(*device_.next_generated());
    device_.remove_generator(0);
    pass(world);
  }

  void pass(World& world) {
    const std::uint64_t phase_before = world.registers[place_of("phases", 0)];
    if (!device_.run(1000)) {
      fail("a packet goes round in the switch for ever");
    }
    while (const auto departed = device_.departed()) {
      world.to_unit.at(departed->port).push_back(decode(departed->bytes));
    }
    save(world);
    check_paid(world, phase_before);
  }

  static std::string text(const Frame& frame) {
    return fmt::format("opcode {:#x}{} PSN {:#x} offset {} bytes {} value {:#x} item {}",
                       static_cast<unsigned>(frame.opcode), frame.is_nak ? " NAK" : "", frame.psn, frame.offset,
                       frame.bytes, frame.value, frame.item);
  }

  static roce::Packet packet_to_switch(const MacAddress& mac, const Ipv4Address& ip, Opcode opcode,
                                       std::uint32_t queue_pair) {
    roce::Packet packet;
    packet.ethernet = {.destination = kSwitch.mac, .source = mac};
    roce::Ipv4 addresses;
    addresses.source = ip;
    addresses.destination = kSwitch.ip;
    packet.ip = addresses;
    packet.bth.opcode = opcode;
    packet.bth.destination_qp = queue_pair;
    return packet;
  }

  // Until the next one is.
  std::span<const std::byte> built(const roce::Packet& packet) {
    const auto made = roce::build(packet, buffer_);
    if (std::holds_alternative<roce::Refusal>(made)) {
      throw std::logic_error("a frame that cannot be built");
    }
    return {buffer_.data(), std::get<std::size_t>(made)};
  }

  std::span<const std::byte> encode(Unit unit, const Frame& frame) {
    const FlowRing ring = ring_of(unit);
    roce::Packet packet = packet_to_switch(ring.mac, ring.ip, frame.opcode, ring.end.queue_pair);
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
    return built(packet);
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
      if (options_->consumer_dies && is_write && frame.bytes > kHeadAndJournal) {
        world.accepted[unit] = static_cast<std::uint16_t>(world.accepted[unit] | 1U << frame.item % (2 * kMostItems));
      }
    } else if (!is_write) {
      nic.jobs.push_back({.request = frame});
    }
    if (is_write && (frame.asks || ahead != 0)) {
      answers.push_back({.opcode = Opcode::acknowledge, .psn = nic.acknowledged});
    }
    while (options_->is_coarse && !nic.jobs.empty()) {
      nic.jobs.front().request.opcode == Opcode::write_only ? place(world, unit) : sample(world, unit);
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
      if (is_replicated()) {
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
  std::vector<Unit> producers_;
  std::vector<Unit> consumers_;
  std::vector<Unit> units_{};  // both
  std::size_t threads_;
  p4::Switch device_;
  FlowSwitch control_;
  FlowSwitch::FlowId flow_ = 0;
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
