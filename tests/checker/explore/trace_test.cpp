// The contents of a violation's trace, in words and as JSON.
#include <sidelatch/explore/check.h>
#include <sidelatch/explore/scheme_check.h>
#include <sidelatch/fabric/model/rules.h>

#include "checking.h"
#include "clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::RemoteSpan;
using fabric::Task;
using fabric::model::Preset;
using fabric::model::Rule;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

Violation violation_of(const Program& program, Preset preset) {
  const Verdict verdict = check(program, under(preset));
  EXPECT_EQ(verdict.outcome, Outcome::broken);
  return verdict.violation.value_or(Violation{});
}

bool names_rule(const Violation& violation, Rule rule) {
  return std::ranges::any_of(violation.trace, [&](const TraceStep& step) { return step.rule == describe(rule); });
}

std::vector<const TraceStep*> steps(const Violation& violation, std::string_view action) {
  std::vector<const TraceStep*> found;
  for (const TraceStep& step : violation.trace) {
    if (step.action == action) {
      found.push_back(&step);
    }
  }
  return found;
}

// ---- One READ of two lines, beside a CPU that stores into the second and then into the first.

Task<void> store_second_then_first(fabric::Cpu* cpu, Store* store) {
  co_await cpu->store(store->own(1), 7);
  co_await cpu->store(store->own(0), 7);
}

Task<void> read_two_lines(Client* client, Store* store) {
  co_await client->qp->read(client->lines(0, 2), store->lines(0, 2));
  client->world->require(client->value(0) != 7 || client->value(1) == 7, "the first line is newer than the second");
}

void overtaking_samples(World& world) {
  auto& store = world.make<Store>(world);
  auto& client = world.make<Client>(world, store, "reader");
  fabric::Cpu& cpu = world.add_cpu(*store.node, "cpu");
  world.spawn(*client.node, read_two_lines(&client, &store));
  world.spawn(cpu, store_second_then_first(&cpu, &store));
}

TEST(Trace, NamesTheRuleThatLetOneLineOvertakeTheOther) {
  const Violation violation = violation_of(overtaking_samples, Preset::observed);
  EXPECT_EQ(violation.kind, Kind::assertion);
  EXPECT_TRUE(names_rule(violation, Rule::sampling_order)) << to_text(violation);
  EXPECT_THAT(to_text(violation), HasSubstr(std::string(describe(Rule::sampling_order))));
  // Both samples and both drains are needed: second line, both stores, first line.
  const auto samples = steps(violation, "sample");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0]->target, "0x1040");
  EXPECT_EQ(samples[0]->value, "0(8x)");
  EXPECT_EQ(samples[1]->target, "0x1000");
  EXPECT_EQ(samples[1]->value, "7 0(7x)");
  EXPECT_EQ(samples[0]->actor, "NIC of reader");
  EXPECT_EQ(samples[0]->wr, "qp0[0] READ");
  EXPECT_EQ(steps(violation, "drains a store").size(), 2U);
  EXPECT_EQ(violation.trace.back().note, violation.what);
}

TEST(Trace, UnderStrictNothingOvertakes) {
  EXPECT_EQ(check(overtaking_samples, under(Preset::strict)).outcome, Outcome::safe);
}

// ---- A WRITE of two lines, whose second line is seen before the first.

Task<void> write_two_lines(Client* client, Store* store) {
  client->set(0, 1);
  client->set(1, 1);
  co_await client->qp->write(client->lines(0, 2), store->lines(0, 2));
}

Task<void> load_second_then_first(fabric::Cpu* cpu, World* world, Store* store) {
  const std::uint64_t second = co_await cpu->load(store->own(1));
  const std::uint64_t first = co_await cpu->load(store->own(0));
  world->require(second == 0 || first == 1, "the second line is there before the first");
}

void overtaking_places(World& world) {
  auto& store = world.make<Store>(world);
  auto& client = world.make<Client>(world, store, "writer");
  fabric::Cpu& cpu = world.add_cpu(*store.node, "cpu");
  world.spawn(*client.node, write_two_lines(&client, &store));
  world.spawn(cpu, load_second_then_first(&cpu, &world, &store));
}

TEST(Trace, NamesTheRuleThatLetALineBePlacedBeforeItsPredecessor) {
  EXPECT_EQ(check(overtaking_places, under(Preset::observed)).outcome, Outcome::safe);
  const Violation violation = violation_of(overtaking_places, Preset::spec);
  EXPECT_TRUE(names_rule(violation, Rule::placement_order)) << to_text(violation);
}

// ---- Two NICs.

void two_nics(World& world) {
  auto& store = world.make<Store>(world, 1, 2);
  for (const unsigned nic : {0U, 1U}) {
    auto& client = world.make<Client>(world, store, nic == 0 ? "left" : "right", nic);
    world.spawn(*client.node, add_one(&client, &store));
  }
  world.at_end([&](const Order& /*order*/) { world.require(store.value(0) == 2, "an increment is lost"); });
}

TEST(Trace, NamesTheRuleThatLetAnAtomicEraseAnother) {
  const Violation violation = violation_of(two_nics, Preset::observed);
  EXPECT_TRUE(names_rule(violation, Rule::atomic_exclusion)) << to_text(violation);
  EXPECT_THAT(violation.trace, Contains(Field(&TraceStep::wr, "qp0[0] FETCH-ADD +1")));
  // At the end the whole execution matters: both have completed, and both found 0.
  const auto completions = steps(violation, "complete");
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(completions[0]->value, "found 0");
  EXPECT_EQ(completions[1]->value, "found 0");
}

// ---- A trace holds only events that the violation depends on.

Task<void> fail_at_once(Client* client, Store* store) {
  co_await client->qp->read(client->word(0), store->word(3));
  client->world->fail(Kind::assertion, "it has read");
}

TEST(Trace, LeavesOutWhatTheViolationDoesNotDependOn) {
  const Program program = [](World& world) {
    auto& store = world.make<Store>(world);
    for (const char* name : {"other", "another"}) {
      auto& client = world.make<Client>(world, store, name);
      world.spawn(*client.node, add_one(&client, &store));
    }
    auto& failing = world.make<Client>(world, store, "failing");
    world.spawn(*failing.node, fail_at_once(&failing, &store));
  };
  const Violation violation = violation_of(program, Preset::observed);
  for (const TraceStep& step : violation.trace) {
    EXPECT_THAT(step.actor, HasSubstr("failing"));
  }
  EXPECT_THAT(to_text(violation), Not(HasSubstr("other")));
  // start, sample, deliver, complete
  EXPECT_EQ(violation.choices,
            (std::vector<std::string>{"client:3:0:0", "sample:2:0:0", "deliver:2:0:0", "complete:2:0:0"}));
  EXPECT_EQ(replay(program, under(Preset::observed), violation.choices).violation->what, "it has read");
}

// ---- Text and JSON.

TEST(Trace, TextHasAColumnForEachActorAndLine) {
  const std::string text = to_text(violation_of(overtaking_samples, Preset::observed));
  const std::string head = text.substr(0, text.find('\n'));
  for (const char* column : {"reader", "cpu", "NIC of reader", "line 0x1000", "line 0x1040"}) {
    EXPECT_THAT(head, HasSubstr(column));
  }
  EXPECT_LT(head.find("cpu"), head.find("line"));
  EXPECT_LT(head.find("line 0x1000"), head.find("line 0x1040"));
}

TEST(Trace, JsonHasExactlyItsKeys) {
  const Violation violation = violation_of(overtaking_samples, Preset::observed);
  const nlohmann::ordered_json json = to_json(violation);
  const auto keys_of = [](const nlohmann::ordered_json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) {
      keys.push_back(key);
    }
    return keys;
  };
  EXPECT_THAT(keys_of(json), ElementsAre("kind", "what", "trace"));
  EXPECT_EQ(json["kind"], "assertion");
  EXPECT_EQ(json["what"], "the first line is newer than the second");
  ASSERT_EQ(json["trace"].size(), violation.trace.size());
  for (std::size_t i = 0; i < violation.trace.size(); ++i) {
    EXPECT_THAT(keys_of(json["trace"][i]), ElementsAre("actor", "action", "wr", "target", "value", "rule", "note"));
    EXPECT_EQ(json["trace"][i]["actor"], violation.trace[i].actor);
    EXPECT_EQ(json["trace"][i]["rule"], violation.trace[i].rule);
  }
}

TEST(Trace, AVerdictSaysWhatItRestsOn) {
  Verdict verdict;
  verdict.executions = 411;
  EXPECT_EQ(proof_in_words(verdict), "all 411 executions");
  EXPECT_EQ(to_text(verdict), "safe: all 411 executions\n");
  verdict.states = 1234;
  EXPECT_EQ(proof_in_words(verdict), "all 1234 states");
  EXPECT_EQ(to_text(verdict), "safe: all 1234 states\n");
  verdict.outcome = Outcome::bounded;
  verdict.bound = "the time";
  EXPECT_EQ(proof_in_words(verdict), "411 executions and 1234 states");
  EXPECT_EQ(to_text(verdict), "bounded: nothing was found in 411 executions and 1234 states, which the time ended\n");
  verdict.states = 0;
  EXPECT_EQ(proof_in_words(verdict), "411 executions");
  verdict.outcome = Outcome::broken;
  EXPECT_EQ(proof_in_words(verdict), "");
}

TEST(Trace, KindsHaveTheNamesOfTheCommandLine) {
  const std::vector<std::pair<Kind, std::string_view>> names = {{Kind::torn_read, "torn-read"},
                                                                {Kind::lost_update, "lost-update"},
                                                                {Kind::mutual_exclusion, "mutual-exclusion"},
                                                                {Kind::linearizability, "linearizability"},
                                                                {Kind::deadlock, "deadlock"},
                                                                {Kind::livelock, "livelock"},
                                                                {Kind::buffer_race, "buffer-race"},
                                                                {Kind::assertion, "assertion"},
                                                                {Kind::exception, "exception"}};
  for (const auto& [kind, text] : names) {
    EXPECT_EQ(name(kind), text);
  }
}

}  // namespace
}  // namespace sidelatch::explore
