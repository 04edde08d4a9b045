#include "checker/explore/litmus/litmus.h"

#include "memory_of_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::explore {
namespace {

using namespace litmus;
using fabric::Opcode;
using fabric::model::Preset;
using fabric::model::Rules;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

LitmusTest parse(const std::string& text) { return parse_litmus(text, "t.litmus"); }

// A test whose one thread has these statements.
LitmusTest client(const std::string& statements) { return parse(kMemory + "P0:\n" + statements); }
LitmusTest cpu(const std::string& statements) { return parse(kMemory + "C0:\n" + statements); }

template <class Action>
Action first(const LitmusTest& test) {
  return std::get<Action>(test.threads.at(0).body.at(0).action);
}

// ---- The meaning of valid texts.

TEST(Litmus, MemoryIsLinesOfNamedWordsInTheOrderOfTheText) {
  const LitmusTest test = parse(
      "litmus m\n"
      "var x = -3   # alone in its line\n"
      "line L { a = 1, b = 2 }\n"
      "object D[2] = 7\n"
      "node M1 { var z = 4 ; object E[1] = 5 }\n"
      "P0:\n  wait\n");
  ASSERT_THAT(test.nodes, SizeIs(2));
  EXPECT_EQ(test.nodes[0].name, "M0");
  EXPECT_EQ(test.nodes[1].name, "M1");
  std::vector<std::string> words;
  for (const MemoryNode& node : test.nodes) {
    for (const Line& line : node.lines) {
      std::string text;
      for (const Word& word : line.words) {
        text += (text.empty() ? "" : " ") + word.name + "=" + std::to_string(word.initial);
      }
      words.push_back(text);
    }
  }
  EXPECT_THAT(words, ElementsAre("x=-3", "a=1 b=2", "D[0]=7", "D[1]=7", "z=4", "E[0]=5"));
}

TEST(Litmus, DeclarationsMayStandBehindWhatUsesThem) {
  const LitmusTest test =
      parse("litmus t\nexists z == 1\nP0:\n  write z 1\nnode M1 {\n  var z = 0\n\n  var w = 1\n}\n");
  EXPECT_EQ(first<Post>(test).target, (Target{.node = 1, .line = 0}));
  EXPECT_EQ(test.threads[0].queue_pairs.at(0).node, 1U);
}

TEST(Litmus, ABlockOfWordsMayHaveSeveralLines) {
  EXPECT_THAT(parse("litmus t\nline L {\n  a = 1,\n  b = 2\n}\nP0:\n").nodes[0].lines.at(0).words, SizeIs(2));
}

TEST(Litmus, AnAccessTouchesOneWordOrAWholeLineOrObject) {
  EXPECT_EQ(first<Post>(client("read y")).target, (Target{.line = 1}));
  EXPECT_EQ(first<Post>(client("read b")).target, (Target{.line = 2, .word = 1}));
  EXPECT_EQ(first<Post>(client("read L")).target, (Target{.line = 2, .count = 2}));
  EXPECT_EQ(first<Post>(client("read D")).target, (Target{.line = 3, .count = 3, .across_lines = true}));
  EXPECT_EQ(first<Post>(client("read D[2]")).target, (Target{.line = 5}));
  EXPECT_EQ(first<Post>(client("read z")).target, (Target{.node = 1}));
}

TEST(Litmus, ATargetNamesItsWords) {
  const Target line{.line = 2, .word = 0, .count = 2};
  EXPECT_EQ(line.at(1), (MemoryWord{.line = 2, .word = 1}));
  const Target object{.node = 1, .line = 3, .count = 3, .across_lines = true};
  EXPECT_EQ(object.at(2), (MemoryWord{.node = 1, .line = 5}));
}

TEST(Litmus, RequestsHaveTheirOperands) {
  const Post write = first<Post>(client("write x -5"));
  EXPECT_EQ(write.opcode, Opcode::write);
  EXPECT_EQ(write.operand, -5);
  EXPECT_FALSE(write.fence || write.buffer || write.result);

  EXPECT_EQ(first<Post>(client("read x")).opcode, Opcode::read);

  const Post cas = first<Post>(client("cas x 3 4"));
  EXPECT_EQ(cas.opcode, Opcode::compare_swap);
  EXPECT_EQ(cas.expected, 3);
  EXPECT_EQ(cas.operand, 4);

  const Post faa = first<Post>(client("faa x -1"));
  EXPECT_EQ(faa.opcode, Opcode::fetch_add);
  EXPECT_EQ(faa.operand, -1);
}

TEST(Litmus, ValuesAreSigned64BitNumbers) {
  EXPECT_EQ(first<Post>(client("write x 9223372036854775807")).operand, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(first<Post>(client("write x -9223372036854775808")).operand, std::numeric_limits<std::int64_t>::min());
}

TEST(Litmus, FlagsCombineInAnyOrder) {
  EXPECT_TRUE(first<Post>(client("read.fence x")).fence);
  EXPECT_TRUE(first<Post>(client("cas.fence x 0 1")).fence);
  EXPECT_TRUE(first<Post>(client("faa.fence x 1")).fence);
  for (const char* flags : {"buf.fence", "fence.buf"}) {
    const LitmusTest test = client(std::string("buf b = 5 ; write.") + flags + " x b");
    EXPECT_TRUE(first<Post>(test).fence);
    EXPECT_EQ(first<Post>(test).buffer, 0U);
  }
}

TEST(Litmus, BuffersHaveAnInitialValueAndAreStoredTo) {
  const LitmusTest test = client("buf b0 = 5\nbuf b1 = 6\nb1 := -7\nwrite.buf x b1");
  ASSERT_THAT(test.threads[0].buffers, SizeIs(2));
  EXPECT_EQ(test.threads[0].buffers[1].name, "b1");
  EXPECT_EQ(test.threads[0].buffers[1].initial, 6);
  EXPECT_EQ(first<SetBuffer>(test).buffer, 1U);
  EXPECT_EQ(first<SetBuffer>(test).value, -7);
  EXPECT_EQ(std::get<Post>(test.threads[0].body.at(1).action).buffer, 1U);
}

TEST(Litmus, ResultsGoToRegistersOfTheSizeOfTheTarget) {
  const LitmusTest test = client("r = read D\ns = read L\nu = read D[1]\nv = cas x 0 1\nfaa x 1\nwait\nv = read y");
  const auto& registers = test.threads[0].registers;
  ASSERT_THAT(registers, SizeIs(4));
  EXPECT_EQ(registers[0].words, 3U);
  EXPECT_EQ(registers[1].words, 2U);
  EXPECT_EQ(registers[2].words, 1U);
  EXPECT_EQ(registers[3].words, 1U);
  EXPECT_FALSE(std::get<Post>(test.threads[0].body.at(4).action).result);
  EXPECT_EQ(std::get<Post>(test.threads[0].body.at(6).action).result, 3U);
}

TEST(Litmus, QueuePairsAreOfAClientAndANode) {
  const LitmusTest test = client("write x 1\nwrite @qp1 y 1\nwrite z 1\nread.fence @qp1 x\nwait qp0\nwait\nwait qp1");
  const auto& pairs = test.threads[0].queue_pairs;
  ASSERT_THAT(pairs, SizeIs(3));
  EXPECT_EQ(pairs[0].name, "qp0");
  EXPECT_EQ(pairs[0].node, 0U);
  EXPECT_EQ(pairs[1].name, "qp1");
  EXPECT_EQ(pairs[2].name, "qp0");
  EXPECT_EQ(pairs[2].node, 1U);
  const auto& body = test.threads[0].body;
  EXPECT_EQ(std::get<Post>(body.at(3).action).queue_pair, 1U);
  EXPECT_THAT(std::get<Wait>(body.at(4).action).queue_pairs, ElementsAre(0U, 2U));
  EXPECT_THAT(std::get<Wait>(body.at(5).action).queue_pairs, IsEmpty());
  EXPECT_THAT(std::get<Wait>(body.at(6).action).queue_pairs, ElementsAre(1U));
}

TEST(Litmus, AQueuePairMayGoThroughTheSecondNic) {
  const LitmusTest test = client("write x 1\nwrite @qp1 x 1\nwrite @qp2 x 1\nqp P0.qp1 nic1\nqp P0.qp2 nic0");
  const auto& pairs = test.threads[0].queue_pairs;
  ASSERT_THAT(pairs, SizeIs(3));
  EXPECT_EQ(pairs[0].nic, 0U);
  EXPECT_EQ(pairs[1].nic, 1U);
  EXPECT_EQ(pairs[2].nic, 0U);
}

TEST(Litmus, CpuThreadsStoreLoadAndFence) {
  const LitmusTest test = cpu("store D[1] 3\nr0 = load b\nmfence\nload x\nif r0 == 1 { store x 2 }");
  const Thread& thread = test.threads.at(0);
  EXPECT_FALSE(thread.is_client);
  EXPECT_EQ(first<Store>(test).word, (MemoryWord{.line = 4}));
  EXPECT_EQ(first<Store>(test).value, 3);
  EXPECT_EQ(std::get<Load>(thread.body.at(1).action).word, (MemoryWord{.line = 2, .word = 1}));
  EXPECT_EQ(std::get<Load>(thread.body.at(1).action).result, 0U);
  EXPECT_TRUE(std::holds_alternative<Mfence>(thread.body.at(2).action));
  EXPECT_FALSE(std::get<Load>(thread.body.at(3).action).result);
  EXPECT_THAT(std::get<If>(thread.body.at(4).action).then_body, SizeIs(1));
}

TEST(Litmus, ThreadsKeepTheOrderOfTheText) {
  const LitmusTest test = parse("litmus t\nvar x = 0\nP1: write x 1\nC0: load x ; load x\nP0:\ncrash P1\n");
  ASSERT_THAT(test.threads, SizeIs(3));
  EXPECT_EQ(test.threads[0].name, "P1");
  EXPECT_TRUE(test.threads[0].may_crash);
  EXPECT_THAT(test.threads[0].body, SizeIs(1));
  EXPECT_EQ(test.threads[1].name, "C0");
  EXPECT_THAT(test.threads[1].body, SizeIs(2));
  EXPECT_EQ(test.threads[2].name, "P0");
  EXPECT_FALSE(test.threads[2].may_crash);
  EXPECT_THAT(test.threads[2].body, IsEmpty());
}

TEST(Litmus, BranchesNestOnOneLineAndOnMany) {
  const LitmusTest test = client(
      "r = cas x 0 1 ; wait\n"
      "if r == 0 { write x 2 ; wait } else { write x 3 }\n"
      "if r != 0 {\n"
      "  if r == 1 { }\n"
      "  else {\n"
      "    write y 4\n"
      "    write y 5\n"
      "  }\n"
      "}\n"
      "read y\n");
  const auto& body = test.threads[0].body;
  ASSERT_THAT(body, SizeIs(5));
  const auto& one = std::get<If>(body[2].action);
  EXPECT_THAT(one.then_body, SizeIs(2));
  EXPECT_THAT(one.else_body, SizeIs(1));
  const auto& outer = std::get<If>(body[3].action);
  EXPECT_EQ(outer.condition.kind, Condition::Kind::unequal);
  EXPECT_THAT(outer.else_body, IsEmpty());
  const auto& inner = std::get<If>(outer.then_body.at(0).action);
  EXPECT_THAT(inner.then_body, IsEmpty());
  ASSERT_THAT(inner.else_body, SizeIs(2));
  EXPECT_EQ(inner.else_body[1].line, 14U);
}

// An `if` may look at a register when, on each path to it, the register has its value or was never assigned.
TEST(Litmus, ARegisterMayBeUsedOnceAWaitCoversIt) {
  EXPECT_NO_THROW(client("r = read x ; wait ; if r == 0 { }"));
  EXPECT_NO_THROW(client("r = read x ; wait qp0 ; if r == 0 { }"));
  EXPECT_NO_THROW(client("r = read x ; wait ; read y ; if r == 0 { }"));
  EXPECT_NO_THROW(client("r = read x ; s = read @qp1 y ; wait qp1 ; if s == 0 { }"));
  EXPECT_NO_THROW(client("q = read y ; wait ; if q == 0 { r = read x ; wait } ; if r == 0 { }"));
  EXPECT_NO_THROW(
      client("q = read y ; wait ; if q == 0 { r = read x } else { r = read @qp1 x } ; wait ; if r == 0 { }"));
  EXPECT_NO_THROW(client("q = read y ; wait ; if q == 0 { r = read D } ; wait ; if r[2] == 0 { }"));
}

TEST(Litmus, ParametersChangeTheRules) {
  const LitmusTest test = parse("litmus t\nparam atom 8\nparam atomic_scope global\nP0:\n");
  Rules rules;
  test.apply_params(rules);
  Rules expected;
  expected.atom = 8;
  expected.atomic_scope = fabric::model::AtomicScope::global;
  EXPECT_EQ(rules, expected);
}

TEST(Litmus, ExpectationsAreByModel) {
  const LitmusTest test =
      parse("litmus t\nvar x = 0\nP0:\nexists x == 0\nexpect strict forbidden\nexpect spec allowed\n");
  EXPECT_EQ(test.expected(Preset::strict), false);
  EXPECT_EQ(test.expected(Preset::observed), std::nullopt);
  EXPECT_EQ(test.expected(Preset::spec), true);
  EXPECT_EQ(test.expected(Preset::relaxed), std::nullopt);
}

TEST(Litmus, AllStandsForEveryModelAndMayBeRepeated) {
  const LitmusTest test =
      parse("litmus t\nvar x = 0\nP0:\nexists x == 0\nexpect all forbidden\nexpect spec forbidden\n");
  EXPECT_THAT(test.expectations, SizeIs(4));
  EXPECT_EQ(test.expected(Preset::relaxed), false);
}

TEST(Litmus, WithoutExistsThereIsNoCondition) { EXPECT_FALSE(client("write x 1").exists); }

TEST(Litmus, TheNameMayHaveAnyVisibleCharacters) {
  EXPECT_EQ(parse("# about it\n\n  litmus 2+2w@(a).b# or so\r\nP0:").name, "2+2w@(a).b");
}

TEST(Litmus, ThreadsOfOneStatementNeedNoLineFeed) { EXPECT_THAT(client("write x 1").threads[0].body, SizeIs(1)); }

// ---- Conditions.

const char* const kStatements = "P0:\n  r0 = read x\n  r1 = read D\n  wait\nC0:\n  r0 = load x\n";

// `state` holds values by the names used in states; a missing name was never assigned.
bool holds_in(const std::string& condition, const std::map<std::string, std::int64_t>& state) {
  const LitmusTest test = parse(kMemory + kStatements + "exists " + condition + "\n");
  return holds(*test.exists, [&](const Variable& variable) -> std::optional<std::int64_t> {
    const auto found = state.find(state_name(test, variable));
    return found == state.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(LitmusCondition, ComparesRegistersMemoryAndNumbers) {
  const std::map<std::string, std::int64_t> state = {{"P0:r0", 1}, {"P0:r1[2]", -7}, {"C0:r0", 3}, {"x", 1},
                                                     {"b", 5},     {"D[1]", 9},      {"z", 2}};
  for (const char* condition : {"P0:r0 == 1", "P0:r0[0] == 1", "P0:r1[2] == -7", "C0:r0 != 1", "x == P0:r0", "1 == x",
                                "b == 5", "D[1] == 9", "z != 3", "4 == 4"}) {
    EXPECT_TRUE(holds_in(condition, state)) << condition;
  }
  for (const char* condition : {"P0:r0 == 2", "P0:r1[2] != -7", "C0:r0 == P0:r0", "x != 1", "4 != 4"}) {
    EXPECT_FALSE(holds_in(condition, state)) << condition;
  }
}

TEST(LitmusCondition, AndBindsTighterThanOr) {
  const std::map<std::string, std::int64_t> state = {{"x", 1}, {"y", 0}};
  EXPECT_TRUE(holds_in("x == 1 || x == 0 && y == 1", state));
  EXPECT_FALSE(holds_in("(x == 1 || x == 0) && y == 1", state));
  EXPECT_TRUE(holds_in("y == 1 && x == 0 || x == 1", state));
  EXPECT_TRUE(holds_in("x == 2 || x == 3 || x == 1", state));
  EXPECT_FALSE(holds_in("x == 1 && y == 0 && y == 1", state));
}

TEST(LitmusCondition, NegationIsOfWhatFollowsIt) {
  const std::map<std::string, std::int64_t> state = {{"x", 1}, {"y", 0}};
  EXPECT_TRUE(holds_in("!x == 0", state));
  EXPECT_FALSE(holds_in("!(x == 0 || y == 0)", state));
  EXPECT_TRUE(holds_in("!!x == 1", state));
  EXPECT_TRUE(holds_in("!x == 0 && y == 0", state));
}

TEST(LitmusCondition, ARegisterThatWasNeverAssignedEqualsNothing) {
  EXPECT_FALSE(holds_in("P0:r0 == 0", {}));
  EXPECT_TRUE(holds_in("P0:r0 != 0", {}));
  EXPECT_FALSE(holds_in("P0:r0 == P0:r0", {}));
  EXPECT_TRUE(holds_in("P0:r0 != C0:r0", {}));
  EXPECT_TRUE(holds_in("!(P0:r0 == 0)", {}));
}

TEST(LitmusCondition, AChainOfAnyLengthIsFlat) {
  std::string condition = "x == 0";
  for (int i = 0; i < 50'000; ++i) {
    condition += " || x == 1";
  }
  EXPECT_TRUE(holds_in(condition, {{"x", 1}}));
}

TEST(LitmusCondition, StatesNameEachWord) {
  const LitmusTest test = client("r = read D\ns = read x");
  EXPECT_EQ(state_name(test, RegisterWord{0, 0, 2}), "P0:r[2]");
  EXPECT_EQ(state_name(test, RegisterWord{0, 1, 0}), "P0:s");
  EXPECT_EQ(state_name(test, MemoryWord{0, 0, 0}), "x");
  EXPECT_EQ(state_name(test, MemoryWord{0, 2, 1}), "b");
  EXPECT_EQ(state_name(test, MemoryWord{0, 4, 0}), "D[1]");
  EXPECT_EQ(state_name(test, MemoryWord{1, 0, 0}), "z");
}

}  // namespace
}  // namespace sidelatch::explore
