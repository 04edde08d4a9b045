// Properties that an explorer relies on: blocked steps are named, footprints are correct.
#include "enumerate.h"
#include "names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::fabric::model::enumeration {
namespace {

struct Named {
  std::string title;
  std::function<void(Program&)> build;
};

// Together they use every kind of step and every ordering rule.
const std::vector<Named>& programs() {
  static const std::vector<Named> all = {
      {"two lines and a reader",
       [](Program& p) {
         p.client().write(x, 1, kTwoLines);
         p.client().read(x, {0, 8});
       }},
      {"fetched buffer and a reuse",
       [](Program& p) {
         std::byte* const b = p.buffer(5, kTwoLines);
         p.client().write_from(b, x, kTwoLines).local_store(b + 64, 6);
         p.observe(x);
         p.observe(y);
       }},
      {"a READ's buffer written from",
       [](Program& p) {
         std::byte* const b = p.buffer(3);
         p.set(x, 7);
         p.client().read_into(b, x).write_from(b, y).fenced();
         p.client().write(x, 1);
         p.observe(y);
       }},
      {"writes and a polling CPU",
       [](Program& p) {
         p.client().write(x, 1).write(y, 1);
         p.cpu().load(y).load(x);
       }},
      {"completed writes before a READ of another client",
       [](Program& p) {
         Actor& writer = p.client().write(x, 1).wait().signal();
         p.client().await(writer).read(y);
         p.cpu().load(x);
         p.observe(x);
       }},
      {"a completion that races with posts",
       [](Program& p) {
         p.client().write(x, 1);
         p.client().read(x);
         p.client().faa(x, 1);
         p.observe(x);
       }},
      {"atomics, a WRITE and a CPU store",
       [](Program& p) {
         p.client().faa(x, 1);
         p.client({1}).faa(x, 2);
         p.cpu().store(x, 10);
         p.observe(x);
       }},
      {"a latch by CAS",
       [](Program& p) {
         p.client().cas(x, 0, 1).wait().faa(x, 4);
         p.client().cas(x, 0, 2);
         p.observe(x);
       }},
      {"atomics of one queue pair",
       [](Program& p) {
         p.client().faa(x, 1).faa(y, 1).write(x, 5).fenced();
         p.cpu().load(y).load(x);
         p.observe(x);
       }},
      {"a thread that posts behind its stores",
       [](Program& p) {
         p.cpu_client().store(x, 1).read(x).write(y, 3).store(x, 2);
         p.client().read(x);
       }},
      {"store buffers",
       [](Program& p) {
         p.cpu().store(x, 1).load(y);
         p.cpu().store(y, 1).load(x);
       }},
      {"SEND and its receive completion",
       [](Program& p) {
         Actor& sender = p.client().write(x, 1).send(7);
         p.cpu().receive(sender, p.bytes(y)).await_received(sender).load(y).load(x);
       }},
      {"a revocation",
       [](Program& p) {
         Actor& writer = p.client().write(x, 1, kTwoLines).faa(x, 1);
         p.client().read(x);
         p.cpu().revoke(writer).load(x);
         p.observe(x);
         p.observe(y);
       }},
      {"a crash",
       [](Program& p) {
         p.client().cas(x, 0, 1).wait().write(x, 0).may_crash();
         p.client().read(y).read(x).fenced();
       }},
  };
  return all;
}

std::vector<Rules> all_rules() {
  std::vector<Rules> result;
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    result.push_back(rules_of(preset));
  }
  Rules odd = rules_of(Preset::observed);
  odd.fence_orders_reads = false;
  odd.atomics_see_writes = false;
  odd.atomic_scope = AtomicScope::global;
  result.push_back(odd);
  return result;
}

// Every step that some program could have: exactly the unblocked ones are enabled.
TEST(ModelSteps, TheEnabledSetIsWhatNoRuleBlocks) {
  std::mt19937 random(11);
  for (const Named& named : programs()) {
    for (const Rules& rules : all_rules()) {
      Program p;
      named.build(p);
      World world(p, rules);
      const Machine& machine = world.machine();
      std::vector<Choice> choices;
      std::vector<Step> enabled;
      for (int run = 0; run < 20; ++run) {
        world.restart();
        for (world.choices(choices); !choices.empty(); world.choices(choices)) {
          machine.enabled(enabled);
          std::size_t unblocked = 0;
          for (int kind = 0; kind <= static_cast<int>(StepKind::drain); ++kind) {
            for (std::uint16_t owner = 0; owner < 3; ++owner) {
              for (std::uint32_t index = 0; index < 4; ++index) {
                for (std::uint32_t piece = 0; piece < 4; ++piece) {
                  const Step step{static_cast<StepKind>(kind), owner, index, piece};
                  const bool listed = std::find(enabled.begin(), enabled.end(), step) != enabled.end();
                  ASSERT_EQ(machine.is_enabled(step), listed) << named.title << ": " << to_string(step);
                  unblocked += listed ? 1 : 0;
                }
              }
            }
          }
          ASSERT_EQ(unblocked, enabled.size()) << named.title;
          world.take(choices[random() % choices.size()]);
        }
      }
    }
  }
}

// ---- Individual cases.

class ModelAnswers : public ::testing::Test {
 protected:
  ModelAnswers() {
    node = machine.add_node();
    nic = machine.add_nic(node);
    machine.map(node, x, memory);
    a = machine.add_qp(machine.add_client(), nic);
    b = machine.add_qp(machine.add_client(), nic);
  }
  WorkRequest request(Opcode opcode, RemoteAddress remote, std::uint64_t length = 8) {
    WorkRequest r;
    r.opcode = opcode;
    r.remote = remote;
    if (!is_atomic(opcode)) {
      r.local = {local, length, {}};
    }
    return r;
  }
  static Step step(StepKind kind, WrId wr, std::uint32_t piece = 0) { return {kind, wr.qp.value, wr.index, piece}; }

  alignas(64) std::byte memory[256] = {};
  alignas(64) std::byte local[256] = {};
  Machine machine{rules_of(Preset::observed)};
  NodeId node;
  NicId nic;
  QpId a, b;
};

TEST_F(ModelAnswers, FootprintsNameTheBytesOfEachStep) {
  const WrId write = machine.post(a, request(Opcode::write, x + 32, 64));
  const Footprint fetch = machine.footprint(step(StepKind::fetch, write, 0));
  EXPECT_EQ(fetch.local.data, local);
  EXPECT_EQ(fetch.local.length, 64U);
  EXPECT_FALSE(fetch.local.writes || fetch.has_node || fetch.target.length != 0);
  const Footprint place = machine.footprint(step(StepKind::place, write, 1));
  EXPECT_EQ(place.address, x + 64);
  EXPECT_EQ(place.target.data, memory + 64);
  EXPECT_EQ(place.target.length, 32U);
  EXPECT_TRUE(place.target.writes && place.has_node && place.has_qp);
  EXPECT_EQ(place.qp, a);
  const WrId read = machine.post(b, request(Opcode::read, x, 8));
  EXPECT_FALSE(machine.footprint(step(StepKind::sample, read)).target.writes);
  EXPECT_TRUE(machine.footprint(step(StepKind::deliver, read)).local.writes);
  const Footprint complete = machine.footprint(step(StepKind::complete, read));
  EXPECT_EQ(complete.target.length + complete.local.length, 0U);
  EXPECT_TRUE(machine.footprint(node, x + 72, 8, false).conflicts(place));
  EXPECT_FALSE(machine.footprint(node, x + 96, 8, false).conflicts(place));
  EXPECT_THROW(static_cast<void>(machine.footprint(step(StepKind::sample, write))), std::out_of_range);
}

TEST_F(ModelAnswers, TheRuleThatPermitsAnUnusualStepIsNamed) {
  const WrId two_reads = machine.post(a, request(Opcode::read, x, 128));
  const WrId second = machine.post(a, request(Opcode::read, x + 128));
  EXPECT_EQ(machine.permitted_by(step(StepKind::sample, two_reads, 0)), std::nullopt);
  EXPECT_EQ(machine.permitted_by(step(StepKind::sample, two_reads, 1)), Rule::sampling_order);
  EXPECT_EQ(machine.permitted_by(step(StepKind::sample, second)), Rule::queue_order);
  EXPECT_EQ(machine.permitted_by(step(StepKind::deliver, second)), std::nullopt);  // not enabled

  machine.reset(rules_of(Preset::spec));
  const WrId write = machine.post(a, request(Opcode::write, x, 128).with_inline());
  EXPECT_EQ(machine.permitted_by(step(StepKind::place, write, 1)), Rule::placement_order);
  EXPECT_EQ(machine.permitted_by(step(StepKind::complete, write)), Rule::completion_before_place);
  machine.apply(step(StepKind::complete, write));
  const WrId overtaking = machine.post(b, request(Opcode::write, x).with_inline());
  EXPECT_EQ(machine.permitted_by(step(StepKind::place, overtaking)), Rule::queues_independent);

  machine.reset(rules_of(Preset::observed));
  const WrId atomic = machine.post(a, request(Opcode::fetch_add, x));
  const WrId lost = machine.post(b, request(Opcode::write, x).with_inline());
  EXPECT_EQ(machine.permitted_by(step(StepKind::place, lost)), std::nullopt);
  machine.apply(step(StepKind::load, atomic));
  EXPECT_EQ(machine.permitted_by(step(StepKind::place, lost)), Rule::atomic_exclusion);
  EXPECT_EQ(machine.permitted_by(step(StepKind::store, atomic)), std::nullopt);
  machine.crash(ClientId{0});
  EXPECT_EQ(machine.permitted_by(step(StepKind::store, atomic)), Rule::crash);
}

TEST_F(ModelAnswers, TheRuleThatForbidsAStepIsNamed) {
  const WrId atomic = machine.post(a, request(Opcode::fetch_add, x));
  const WrId read = machine.post(a, request(Opcode::read, x + 64));
  const WrId fenced = machine.post(a, request(Opcode::write, x).with_inline().with_fence());
  const WrId rival = machine.post(b, request(Opcode::fetch_add, x));
  EXPECT_EQ(machine.blocked_by(step(StepKind::sample, read)), Rule::queue_order);
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, fenced)), Rule::fence);
  machine.apply(step(StepKind::load, atomic));
  EXPECT_EQ(machine.blocked_by(step(StepKind::load, rival)), Rule::atomic_exclusion);
  EXPECT_EQ(machine.blocked_by(step(StepKind::sample, read)), Rule::queue_order);  // its store is still to come
  machine.apply(step(StepKind::store, atomic));
  EXPECT_EQ(machine.blocked_by(step(StepKind::load, rival)), std::nullopt);
  EXPECT_EQ(machine.blocked_by(step(StepKind::sample, read)), std::nullopt);
}

}  // namespace
}  // namespace sidelatch::fabric::model::enumeration
