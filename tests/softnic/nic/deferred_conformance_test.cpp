// DeferredAccess implements the memory model. In random programs the model's state machine judges every step; in small
// programs exactly the model's orders occur.
#include "softnic/nic/deferred_access.h"
#include "tests/sampled.h"

#include "tests/softnic/nic/model_judge.h"

#include <sidelatch/fabric/model/pieces.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using fabric::model::Preset;
using fabric::model::Rule;

constexpr std::uint32_t kQueuePairs = 2;
constexpr std::size_t kTableLines = 8;
constexpr std::size_t kTableBytes = kTableLines * fabric::kLineBytes;
constexpr std::size_t kMostReceived = 600;
constexpr Time kPlacementSpread = 1000;
constexpr std::array kPresets{Preset::strict, Preset::observed, Preset::spec, Preset::relaxed};

struct alignas(fabric::kLineBytes) AlignedTable {
  std::array<std::byte, kTableBytes> bytes{};
  [[nodiscard]] fabric::RemoteAddress at(std::size_t offset) const {
    return {reinterpret_cast<std::uintptr_t>(bytes.data()) + offset};
  }
};

// ---- The judged object: a DeferredAccess, or one with a mistake.

// Two NICs, one per queue pair, that do not know each other, so their atomics do not exclude each other (rule 8). Base
// class of the others, which use only the first NIC.
class Specimen {
 public:
  Specimen(const DeferredOptions& options, ModelJudge& judge)
      : accesses_{DeferredAccess(options), DeferredAccess(other(options))} {
    for (DeferredAccess& access : accesses_) {
      access.observe(&judge);
    }
  }
  Specimen(const Specimen&) = delete;
  Specimen& operator=(const Specimen&) = delete;
  virtual ~Specimen() = default;

  [[nodiscard]] virtual MemoryAccess& of(std::uint32_t queue_pair) { return accesses_.at(queue_pair); }
  [[nodiscard]] virtual AccessSource named(const AccessSource& source) { return source; }
  virtual void acknowledged(std::uint32_t queue_pair) { of(queue_pair).acknowledged(queue_pair); }
  [[nodiscard]] Time next() const { return std::min(accesses_[0].next_deadline(), accesses_[1].next_deadline()); }
  void advance(Time now) {
    for (DeferredAccess& access : accesses_) {
      access.advance(now);
    }
  }

 protected:
  [[nodiscard]] DeferredAccess& first() { return accesses_[0]; }

 private:
  static DeferredOptions other(DeferredOptions options) {
    options.seed += 1'000'000;
    return options;
  }
  std::array<DeferredAccess, 2> accesses_;
};

class Right : public Specimen {
 public:
  using Specimen::Specimen;
  [[nodiscard]] MemoryAccess& of(std::uint32_t /*queue_pair*/) override { return first(); }
};

// Acknowledges WRITEs but lets READs of other queue pairs pass them (rule 2).
class ForgetsAcknowledgements : public Right {
 public:
  using Right::Right;
  void acknowledged(std::uint32_t /*queue_pair*/) override {}
};

// Treats each request as if it had its own queue pair (rule 5).
class ForgetsQueues : public Right, private DeferredObserver {
 public:
  ForgetsQueues(const DeferredOptions& options, ModelJudge& judge) : Right(options, judge), judge_(judge) {
    first().observe(this);
  }
  [[nodiscard]] AccessSource named(const AccessSource& source) override {
    AccessSource alone = source;
    alone.queue_pair = static_cast<std::uint32_t>(source.queue_pair * kMost + source.message);
    most_ = std::max(most_, source.message);
    return alone;
  }
  void acknowledged(std::uint32_t queue_pair) override {
    for (std::uint64_t message = 1; message <= most_; ++message) {
      first().acknowledged(static_cast<std::uint32_t>(queue_pair * kMost + message));
    }
  }

 private:
  static constexpr std::uint64_t kMost = 1000;
  void on_step(const DeferredStep& step) override {
    DeferredStep named = step;
    named.source.queue_pair = static_cast<std::uint32_t>(step.source.queue_pair / kMost);
    judge_.on_step(named);
  }
  ModelJudge& judge_;
  std::uint64_t most_ = 0;
};

// ---- Random programs.

struct ProgramOptions {
  fabric::model::Rules drawn;
  fabric::model::Rules judged;
  std::uint64_t seed = 1;
  double torn_bias = 0;
  bool only_atomics = false;
};

// The work of a responder: requests arrive packet by packet and are answered in order. All else is random.
template <class Tested>
class RandomProgram {
 public:
  explicit RandomProgram(const ProgramOptions& options)
      : options_(options),
        random_(options.seed),
        judge_(options.judged, table_.bytes, kQueuePairs),
        tested_(
            {.rules = options.drawn, .seed = options.seed, .spread = kPlacementSpread, .torn_bias = options.torn_bias},
            judge_) {}

  const ModelJudge& run(int requests) {
    while (requests > 0 && judge_.complaint().empty()) {
      const auto queue_pair = static_cast<std::uint32_t>(below(kQueuePairs));
      switch (below(4)) {
        case 0:
          requests -= begin(queue_pair) ? 1 : 0;
          break;
        case 1:
          static_cast<void>(take_packet(queue_pair));
          break;
        case 2:
          step();
          break;
        default:
          static_cast<void>(answer(queue_pair));
      }
    }
    finish();
    return judge_;
  }

 private:
  struct Flight {
    std::uint64_t message = 0;
    fabric::WorkRequest request;
    std::vector<std::byte> local;  // payload, or what was read
    std::byte* target = nullptr;
    std::uint64_t arrived = 0;  // bytes
    std::deque<Operation> operations;
    [[nodiscard]] bool is_here() const { return arrived == request.length(); }
    [[nodiscard]] bool is_done() const {
      return is_here() && std::ranges::all_of(operations, [](const Operation& each) { return each.is_done(); });
    }
  };

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  bool begin(std::uint32_t queue_pair) {
    std::deque<Flight>& flights = flights_[queue_pair];
    if (flights.size() == 6 || (!flights.empty() && !flights.back().is_here())) {
      return false;
    }
    const bool is_answer_due = std::ranges::any_of(flights, [](const Flight& each) {
      return each.request.opcode == fabric::Opcode::read || is_atomic(each.request.opcode);
    });
    Flight& flight = flights.emplace_back();
    fabric::WorkRequest& request = flight.request;
    constexpr std::array kOpcodes{fabric::Opcode::compare_swap, fabric::Opcode::fetch_add, fabric::Opcode::write,
                                  fabric::Opcode::read, fabric::Opcode::send};
    request.opcode = kOpcodes.at(below(options_.only_atomics ? 2 : kOpcodes.size()));
    request.fence = !is_answer_due && below(4) == 0;  // a requester holds it back until then
    std::uint64_t offset = below(kTableBytes);
    if (is_atomic(request.opcode)) {
      offset = below(options_.only_atomics ? 2 : kTableLines) * 8;
      request.compare = below(3);
      request.swap_or_add = below(3);
    } else {
      flight.local.resize(1 + below(kTableBytes - offset));
      if (request.opcode != fabric::Opcode::read) {
        std::ranges::generate(flight.local, [&] { return static_cast<std::byte>(random_()); });
      }
      request.local = {flight.local.data(), flight.local.size(), {}};
    }
    flight.target = table_.bytes.data() + offset;
    request.remote = table_.at(offset);
    if (request.opcode == fabric::Opcode::send) {
      flight.target = buffers_.emplace_back(kMostReceived).data();
      judge_.post_receive(queue_pair, {flight.target, kMostReceived});
    }
    flight.message = judge_.post(queue_pair, request);
    return take_packet(queue_pair);
  }

  // Each packet except the last ends at a line. Under strict a one-step request has a single packet.
  std::uint64_t packet_bytes(const Flight& flight) {
    const std::uint64_t left = flight.request.length() - flight.arrived;
    if (options_.drawn.one_step_requests || is_atomic(flight.request.opcode)) {
      return left;
    }
    const std::uint64_t start =
        (flight.request.opcode == fabric::Opcode::send ? 0 : flight.request.remote.value) + flight.arrived;
    return std::min(left, (1 + below(8)) * fabric::kLineBytes - start % fabric::kLineBytes);
  }

  bool take_packet(std::uint32_t queue_pair) {
    if (flights_[queue_pair].empty() || flights_[queue_pair].back().is_here()) {
      return false;
    }
    Flight& flight = flights_[queue_pair].back();
    const fabric::WorkRequest& request = flight.request;
    const AccessSource source = tested_.named({queue_pair, flight.message, fabric::model::kind_of(request.opcode), 1});
    MemoryAccess& access = tested_.of(queue_pair);
    const std::uint64_t bytes = packet_bytes(flight);
    const std::uint64_t from = std::exchange(flight.arrived, flight.arrived + bytes);
    if (is_atomic(request.opcode)) {
      const bool swaps = request.opcode == fabric::Opcode::compare_swap;
      access.atomic(source, flight.target, {swaps, request.compare, request.swap_or_add},
                    flight.operations.emplace_back());
    } else if (request.opcode == fabric::Opcode::read) {
      access.sample(source, flight.target + from, std::span(flight.local).subspan(from, bytes),
                    flight.operations.emplace_back());
    } else {
      static_cast<void>(access.place(source, flight.target + from, std::span(flight.local).subspan(from, bytes)));
    }
    if (flight.is_here() && request.opcode == fabric::Opcode::send) {
      access.receive(source, received_.emplace_back());
    }
    return true;
  }

  void step() {
    if (tested_.next() != kNever) {
      tested_.advance(tested_.next());
    }
  }

  bool answer(std::uint32_t queue_pair) {
    std::deque<Flight>& flights = flights_[queue_pair];
    if (flights.empty() || !flights.front().is_done()) {
      return false;
    }
    const Flight& flight = flights.front();
    MemoryAccess& access = tested_.of(queue_pair);
    if (access.acknowledges_placed() && !is_placed(flight, queue_pair)) {
      return false;
    }
    tested_.acknowledged(queue_pair);
    judge_.complete(queue_pair);
    if (judge_.complaint().empty()) {
      if (is_atomic(flight.request.opcode)) {
        EXPECT_EQ(flight.operations[0].original, judge_.old_value(queue_pair, flight.message));
      } else if (flight.request.opcode == fabric::Opcode::read) {
        EXPECT_TRUE(std::ranges::equal(flight.local, judge_.delivered(queue_pair, flight.message)));
      }
    }
    flights.pop_front();
    return true;
  }

  // Whether the event that a responder awaits under strict has happened.
  bool is_placed(const Flight& flight, std::uint32_t queue_pair) {
    if (flight.request.opcode != fabric::Opcode::write && flight.request.opcode != fabric::Opcode::send) {
      return true;
    }
    Operation& placed = placed_.emplace_back();
    // For the judge it is a receive of that message, which is possible only for a SEND.
    if (flight.request.opcode == fabric::Opcode::write) {
      while (tested_.next() != kNever) {
        step();
      }
      return true;
    }
    tested_.of(queue_pair).receive({queue_pair, flight.message, fabric::model::Kind::send, 1}, placed);
    while (!placed.is_done()) {
      step();
    }
    return true;
  }

  void finish() {
    for (std::uint32_t queue_pair = 0; queue_pair < kQueuePairs; ++queue_pair) {
      while (take_packet(queue_pair)) {
      }
    }
    while (tested_.next() != kNever) {
      step();
    }
    for (std::uint32_t queue_pair = 0; queue_pair < kQueuePairs; ++queue_pair) {
      while (answer(queue_pair)) {
      }
      EXPECT_TRUE(flights_[queue_pair].empty());
    }
    judge_.finish();
  }

  ProgramOptions options_;
  std::mt19937_64 random_;
  AlignedTable table_;
  std::deque<std::vector<std::byte>> buffers_;
  std::deque<Operation> received_;
  std::deque<Operation> placed_;
  std::array<std::deque<Flight>, kQueuePairs> flights_;
  ModelJudge judge_;
  Tested tested_;
};

constexpr int kRequests = 40;

TEST(DeferredConformance, EveryStepIsOneThatTheModelEnables) {
  for (const Preset preset : kPresets) {
    for (const std::uint32_t atom : {64U, 32U, 8U}) {
      for (std::uint64_t seed = 0; seed < 100; ++seed) {
        fabric::model::Rules rules = fabric::model::rules_of(preset);
        rules.atom = atom;
        RandomProgram<Right> program(
            {.drawn = rules, .judged = rules, .seed = seed, .torn_bias = 0.5 * static_cast<double>(seed % 3)});
        ASSERT_EQ(program.run(kRequests).complaint(), "")
            << fabric::model::name(preset) << " atom " << atom << " seed " << seed;
      }
    }
  }
}

// Each preset uses all its freedoms and no others.
TEST(DeferredConformance, WhatARuleAllowsIsSeen) {
  for (const Preset preset : kPresets) {
    std::set<Rule> used;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      RandomProgram<Right> program(
          {.drawn = fabric::model::rules_of(preset), .judged = fabric::model::rules_of(preset), .seed = seed});
      for (const auto& [rule, times] : program.run(kRequests).permitted()) {
        used.insert(rule);
      }
    }
    // Observed has placement_order too, because of SENDs (rule 3).
    std::set<Rule> expected;
    if (preset != Preset::strict) {
      expected = {Rule::completion_before_place, Rule::placement_order, Rule::sampling_order, Rule::queue_order,
                  Rule::queues_independent,      Rule::atomic_exclusion};
    }
    EXPECT_EQ(used, expected) << fabric::model::name(preset);
  }
}

// The rules that the judge found broken, over many seeds.
template <class Tested>
std::set<Rule> broken_rules(Preset drawn, Preset judged, bool only_atomics = false) {
  std::set<Rule> broken;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomProgram<Tested> program({.drawn = fabric::model::rules_of(drawn),
                                   .judged = fabric::model::rules_of(judged),
                                   .seed = seed,
                                   .only_atomics = only_atomics});
    const ModelJudge& judge = program.run(kRequests);
    if (judge.broken()) {
      broken.insert(*judge.broken());
    }
  }
  return broken;
}

// A weaker preset draws orders that a stronger one forbids: descending lines, and WRITEs that pass WRITEs.
TEST(DeferredConformance, AWeakerPresetIsFoundOut) {
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(broken_rules<Right>(Preset::spec, Preset::observed), UnorderedElementsAre(Rule::placement_order));
  EXPECT_THAT(broken_rules<Right>(Preset::relaxed, Preset::spec), UnorderedElementsAre(Rule::queue_order));
  EXPECT_THAT(broken_rules<Right>(Preset::relaxed, Preset::observed),
              UnorderedElementsAre(Rule::queue_order, Rule::placement_order));
}

TEST(DeferredConformance, MistakesAreFoundOut) {
  EXPECT_THAT(broken_rules<ForgetsQueues>(Preset::observed, Preset::observed), ::testing::Contains(Rule::queue_order));
  EXPECT_THAT(broken_rules<ForgetsAcknowledgements>(Preset::observed, Preset::observed),
              ::testing::Contains(Rule::completed_writes_first));
  EXPECT_THAT(broken_rules<Specimen>(Preset::observed, Preset::observed, true),
              ::testing::Contains(Rule::atomic_exclusion));
}

// ---- Small programs.

// A request on `lines` lines, from line 0 on.
struct Small {
  std::uint32_t queue_pair;
  fabric::Opcode opcode;
  std::uint64_t lines;
  std::size_t offset = 0;
};
using Order = std::vector<fabric::model::Step>;

std::array<std::byte, 4 * fabric::kLineBytes> g_payload{};

fabric::WorkRequest request_of(const Small& small, const AlignedTable& table) {
  fabric::WorkRequest request;
  request.opcode = small.opcode;
  request.remote = table.at(small.offset);
  request.swap_or_add = 1;
  if (!is_atomic(small.opcode)) {
    request.local = {g_payload.data(), small.lines * fabric::kLineBytes, {}};
  }
  return request;
}

bool is_at_target(const fabric::model::Step& step) {
  return step.kind != fabric::model::StepKind::fetch && step.kind != fabric::model::StepKind::deliver &&
         step.kind != fabric::model::StepKind::complete && step.kind != fabric::model::StepKind::receive;
}

// All orders of the steps at the target that the model has. The other steps change nothing here: they are done as soon
// as they can be.
void enumerate(fabric::model::Machine& machine, const std::vector<Small>& program, const AlignedTable& table,
               Order& done, std::set<Order>& orders) {
  const auto replay = [&] {
    machine.reset();
    std::array<std::byte, kMostReceived> buffer{};
    for (const Small& small : program) {
      fabric::WorkRequest request = request_of(small, table);
      request.inlined = request.opcode == fabric::Opcode::write || request.opcode == fabric::Opcode::send;
      const fabric::model::QpId qp{static_cast<std::uint16_t>(small.queue_pair)};
      if (small.opcode == fabric::Opcode::send) {
        fabric::WorkRequest receive;
        receive.opcode = fabric::Opcode::recv;
        receive.local = {buffer.data(), buffer.size(), {}};
        machine.post_receive(qp, receive);
      }
      static_cast<void>(machine.post(qp, request));
    }
    std::vector<fabric::model::Step> steps;
    const auto settle = [&] {
      for (machine.enabled(steps);; machine.enabled(steps)) {
        const auto other = std::ranges::find_if_not(steps, is_at_target);
        if (other == steps.end()) {
          return;
        }
        machine.apply(*other);
      }
    };
    settle();
    for (const fabric::model::Step& step : done) {
      machine.apply(step);
      settle();
    }
    return steps;
  };
  const std::vector<fabric::model::Step> next = replay();
  if (next.empty()) {
    EXPECT_TRUE(machine.quiescent());
    orders.insert(done);
  }
  for (const fabric::model::Step& step : next) {
    done.push_back(step);
    enumerate(machine, program, table, done, orders);
    done.pop_back();
  }
}

std::set<Order> orders_of_model(const fabric::model::Rules& rules, const std::vector<Small>& program) {
  AlignedTable table;
  fabric::model::Machine machine(rules);
  const fabric::model::NodeId node = machine.add_node();
  const fabric::model::NicId nic = machine.add_nic(node);
  machine.map(node, table.at(0), table.bytes);
  for (std::uint32_t i = 0; i < kQueuePairs; ++i) {
    static_cast<void>(machine.add_qp(machine.add_client(), nic));
  }
  Order done;
  std::set<Order> orders;
  enumerate(machine, program, table, done, orders);
  return orders;
}

// The wire chooses which queue pair's packets arrive first.
Order order_drawn(const fabric::model::Rules& rules, std::vector<Small> program, std::uint64_t seed) {
  AlignedTable table;
  ModelJudge judge(rules, table.bytes, kQueuePairs);
  DeferredAccess access({.rules = rules, .seed = seed, .spread = kPlacementSpread});
  access.observe(&judge);
  const std::uint32_t first = seed % 2 == 0 ? 0 : 1;
  std::ranges::stable_sort(program, {}, [&](const Small& small) { return small.queue_pair != first; });
  std::deque<Operation> operations;
  std::deque<std::array<std::byte, kMostReceived>> buffers;
  for (const Small& small : program) {
    const fabric::WorkRequest request = request_of(small, table);
    std::byte* target = table.bytes.data() + small.offset;
    if (small.opcode == fabric::Opcode::send) {
      target = buffers.emplace_back().data();
      judge.post_receive(small.queue_pair, buffers.back());
    }
    const std::uint64_t message = judge.post(small.queue_pair, request);
    const AccessSource source{small.queue_pair, message, fabric::model::kind_of(small.opcode), 1};
    if (is_atomic(small.opcode)) {
      access.atomic(source, target, {false, 0, 1}, operations.emplace_back());
    } else if (small.opcode == fabric::Opcode::read) {
      access.sample(source, target, std::span(buffers.emplace_back()).first(small.lines * fabric::kLineBytes),
                    operations.emplace_back());
    } else {
      static_cast<void>(access.place(source, target, std::span(g_payload).first(small.lines * fabric::kLineBytes)));
    }
  }
  while (access.next_deadline() != kNever) {
    access.advance(access.next_deadline());
  }
  EXPECT_EQ(judge.complaint(), "");
  return judge.steps();
}

TEST(DeferredConformance, OfSmallProgramsExactlyTheOrdersOfTheModelAreSeen) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut;
  }
  using enum fabric::Opcode;
  const std::vector<std::vector<Small>> programs{
      {{0, write, 2}, {1, read, 2}},
      {{0, write, 2}, {0, read, 2}},
      {{0, write, 2}, {0, write, 2}},
      {{0, read, 2}, {0, write, 2}},
      {{0, read, 2}, {0, read, 2}},
      {{0, write, 2}, {0, send, 2}},
      {{0, send, 2}, {0, write, 2}},
      {{0, send, 2}, {1, write, 2}},
      {{0, fetch_add, 1}, {0, read, 2}},
      {{0, fetch_add, 1}, {0, write, 2}},
      {{0, write, 2}, {0, fetch_add, 1}},
      {{0, fetch_add, 1}, {1, write, 2}},
      {{0, fetch_add, 1}, {1, read, 2}},
      {{0, fetch_add, 1}, {1, fetch_add, 1}},
      {{0, fetch_add, 1}, {0, fetch_add, 1}},
      {{0, fetch_add, 1}, {0, fetch_add, 1, 8}},
      {{0, write, 1}, {0, fetch_add, 1}, {1, read, 1}},
      {{0, write, 1}, {0, write, 1}, {1, read, 1}},
  };
  for (const Preset preset : kPresets) {
    const fabric::model::Rules rules = fabric::model::rules_of(preset);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      std::set<Order> seen;
      for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        seen.insert(order_drawn(rules, programs[i], seed));
      }
      EXPECT_EQ(seen, orders_of_model(rules, programs[i])) << fabric::model::name(preset) << ", program " << i;
    }
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
