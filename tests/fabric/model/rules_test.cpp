#include "tests/message_of.h"

#include <sidelatch/fabric/model/rules.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sidelatch::fabric::model {
namespace {

void expect_mentions(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
  }
}

TEST(ModelRules, PresetsDifferWhereTheTableSaysSo) {
  constexpr Rules strict = rules_of(Preset::strict);
  constexpr Rules observed = rules_of(Preset::observed);
  static_assert(strict.one_step_requests && !observed.one_step_requests);
  static_assert(observed.placement == PlacementOrder::ascending && observed.atomic_scope == AtomicScope::nic);
  static_assert(observed.write_write_ordered && observed.atomics_see_writes && observed.fence_orders_reads);
  static_assert(observed.atom == 64);

  Rules expected = observed;
  expected.placement = PlacementOrder::any;
  EXPECT_EQ(rules_of(Preset::spec), expected);
  expected.write_write_ordered = false;
  EXPECT_EQ(rules_of(Preset::relaxed), expected);
}

TEST(ModelRules, PresetNamesRoundTripAndOthersAreRefusedWithTheList) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    EXPECT_EQ(parse_preset(name(preset)), preset);
  }
  expect_mentions(message_of<std::invalid_argument>([] { static_cast<void>(parse_preset("sc")); }),
                  {"'sc'", "strict", "observed", "spec", "relaxed"});
}

TEST(ModelRules, ValidateNamesTheBadParameterAndTheAllowedValues) {
  for (const std::uint32_t atom : {8U, 16U, 32U, 64U}) {
    Rules rules;
    rules.atom = atom;
    EXPECT_NO_THROW(validate(rules));
  }
  for (const std::uint32_t atom : {0U, 4U, 24U, 128U}) {
    Rules rules;
    rules.atom = atom;
    expect_mentions(message_of<std::invalid_argument>([&] { validate(rules); }), {"atom", "64, 32, 16 or 8"});
  }
  Rules rules;
  rules.placement = static_cast<PlacementOrder>(7);
  expect_mentions(message_of<std::invalid_argument>([&] { validate(rules); }), {"placement", "7", "ascending or any"});
  rules = {};
  rules.atomic_scope = static_cast<AtomicScope>(9);
  expect_mentions(message_of<std::invalid_argument>([&] { validate(rules); }), {"atomic_scope", "9", "nic or global"});
}

TEST(ModelRules, ParametersAreSetByName) {
  Rules rules;
  set_parameter(rules, "atom", "8");
  set_parameter(rules, "placement", "any");
  set_parameter(rules, "write_write_ordered", "false");
  set_parameter(rules, "atomic_scope", "global");
  set_parameter(rules, "atomics_see_writes", "false");
  set_parameter(rules, "fence_orders_reads", "false");
  set_parameter(rules, "one_step_requests", "true");
  EXPECT_EQ(rules, (Rules{true, PlacementOrder::any, false, AtomicScope::global, false, false, 8}));
  expect_mentions(message_of<std::invalid_argument>([&] { set_parameter(rules, "atom", "9"); }),
                  {"atom", "'9'", "64, 32, 16 or 8"});
  expect_mentions(message_of<std::invalid_argument>([&] { set_parameter(rules, "placement", "down"); }),
                  {"placement", "'down'", "ascending"});
  expect_mentions(message_of<std::invalid_argument>([&] { set_parameter(rules, "atoms", "8"); }),
                  {"'atoms'", "atom,", "fence_orders_reads"});
  expect_mentions(message_of<std::invalid_argument>([&] { set_parameter(rules, "fence_orders_reads", "1"); }),
                  {"'1'", "true or false"});
}

TEST(ModelRules, OpcodesHaveKindsExceptRecv) {
  EXPECT_EQ(kind_of(Opcode::write), Kind::write);
  EXPECT_EQ(kind_of(Opcode::read), Kind::read);
  EXPECT_EQ(kind_of(Opcode::compare_swap), Kind::atomic);
  EXPECT_EQ(kind_of(Opcode::fetch_add), Kind::atomic);
  EXPECT_EQ(kind_of(Opcode::send), Kind::send);
  expect_mentions(message_of<std::invalid_argument>([] { static_cast<void>(kind_of(Opcode::recv)); }),
                  {"post_receive"});
}

struct Row {
  Kind first;
  Kind second;
  Order plain;
  Order fenced;
};

void expect_table(const Rules& rules, std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    EXPECT_EQ(order_between(rules, row.first, row.second, false), row.plain)
        << name(row.first) << " then " << name(row.second);
    EXPECT_EQ(order_between(rules, row.first, row.second, true), row.fenced)
        << name(row.first) << " then fenced " << name(row.second);
  }
}

TEST(ModelRules, OrderWithinAQueuePairFollowsTheTable) {
  using enum Order;
  for (const Preset preset : {Preset::observed, Preset::spec}) {
    expect_table(rules_of(preset), {{Kind::write, Kind::write, executed, executed},
                                    {Kind::write, Kind::read, executed, executed},
                                    {Kind::write, Kind::atomic, executed, executed},
                                    {Kind::read, Kind::write, unordered, completed},
                                    {Kind::read, Kind::read, unordered, completed},
                                    {Kind::read, Kind::atomic, unordered, completed},
                                    {Kind::atomic, Kind::write, unordered, completed},
                                    {Kind::atomic, Kind::read, executed, completed},
                                    {Kind::atomic, Kind::atomic, same_word, completed}});
  }
}

TEST(ModelRules, RelaxedOrderingLosesOnlyTheOrderOfWrites) {
  const Rules relaxed = rules_of(Preset::relaxed);
  const Rules spec = rules_of(Preset::spec);
  for (const Kind first : {Kind::write, Kind::read, Kind::atomic}) {
    for (const Kind second : {Kind::write, Kind::read, Kind::atomic}) {
      for (const bool fenced : {false, true}) {
        const Order expected = first == Kind::write && second == Kind::write
                                   ? Order::unordered
                                   : order_between(spec, first, second, fenced);
        EXPECT_EQ(order_between(relaxed, first, second, fenced), expected);
      }
    }
  }
}

TEST(ModelRules, AFenceThatIgnoresReadsStillWaitsForAtomics) {
  Rules rules;
  rules.fence_orders_reads = false;
  for (const Kind second : {Kind::write, Kind::read, Kind::atomic}) {
    EXPECT_EQ(order_between(rules, Kind::read, second, true), Order::unordered);
    EXPECT_EQ(order_between(rules, Kind::atomic, second, true), Order::completed);
  }
}

TEST(ModelRules, ASendIsOrderedAsAWriteIs) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    const Rules rules = rules_of(preset);
    for (const Kind other : {Kind::write, Kind::read, Kind::atomic}) {
      for (const bool fenced : {false, true}) {
        EXPECT_EQ(order_between(rules, Kind::send, other, fenced), order_between(rules, Kind::write, other, fenced));
        EXPECT_EQ(order_between(rules, other, Kind::send, fenced), order_between(rules, other, Kind::write, fenced));
      }
    }
  }
}

TEST(ModelRules, StrictKeepsPostingOrderForEveryPair) {
  for (const Kind first : {Kind::write, Kind::read, Kind::atomic, Kind::send}) {
    for (const Kind second : {Kind::write, Kind::read, Kind::atomic, Kind::send}) {
      EXPECT_EQ(order_between(rules_of(Preset::strict), first, second, false), Order::executed);
    }
  }
}

TEST(ModelRules, EveryRuleIsDescribedInOneSentence) {
  for (int i = 0; i <= static_cast<int>(Rule::receive); ++i) {
    const std::string_view text = describe(static_cast<Rule>(i));
    EXPECT_GT(text.size(), 20U);
    EXPECT_NE(text, "unknown rule");
    EXPECT_EQ(text.find('\n'), std::string_view::npos);
  }
  EXPECT_TRUE(describe(Rule::queue_order).starts_with("rule 5: "));
  EXPECT_TRUE(describe(Rule::revocation).starts_with("rule 10: "));
}

}  // namespace
}  // namespace sidelatch::fabric::model
