// What --fit finds. Stages are counted by hand from the rules at the head of p4/compiler/fit.cpp.
#include <sidelatch/p4/fit.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch::p4 {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Additions to h.x.a, each of what the one before gives.
std::string additions(int number) {
  std::string text;
  for (int i = 0; i < number; ++i) {
    text += "h.x.a = h.x.a + h.x.b;\n";
  }
  return text;
}

FitReport fit_of(const std::string& locals, const std::string& body, Chip chip = Chip::tofino) {
  const std::string folder = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = std::filesystem::path(folder) / "t.p4";
  std::ofstream(file)
      << "#include <core.p4>\n#include <v1model.p4>\n"
         "header x_t { bit<32> a; bit<32> b; bit<32> c; bit<64> l; bit<64> m; bit<64> n; }\nstruct H { x_t x; "
         "x_t y; x_t[3] xs; }\nstruct M {}\n"
         "parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { b.extract(h.x); "
         "transition accept; } }\n"
         "control V(inout H h, inout M m) { apply {} }\n"
         "control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }\n"
         "control I(inout H h, inout M m, inout standard_metadata_t s) {\n"
      << locals << "\napply {\n"
      << body << "\n} }\n"
      << "control D(packet_out b, in H h) { apply { b.emit(h.x); } }\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n";
  return fit(file, chip);
}

constexpr const char* kRegister = "register<bit<32>>(1024) r; register<bit<32>>(16) q; register<bit<64>>(16) l;";

TEST(Fit, ACompareAndSwapOf32BitsFitsInOneStage) {
  const FitReport report =
      fit_of(kRegister, "bit<32> old;\nr.read(old, 1);\nif (old == h.x.a) {\nr.write(1, h.x.b);\n}\nh.x.c = old;");
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.ingress_stages, 2U);  // the register, then the copy of what it held
  EXPECT_THAT(to_text(report, Chip::tofino), HasSubstr("ingress stage  1: register I.r, 1024 x 32 bits"));
}

TEST(Fit, ALoopDoesNot) {
  EXPECT_THAT(fit_of(kRegister, "for (bit<32> i = 0; i < 2; i = i + 1) {\nh.x.a = i;\n}").findings,
              ElementsAre(HasSubstr("t.p4:12:1: a loop; a packet goes through the stages once")));
}

// 48 blocks of a stage have a map RAM each, and one is a spare: 47 * 131072 / 64 elements.
TEST(Fit, ARegisterIsInOneStage) {
  EXPECT_THAT(fit_of("register<bit<64>>(96256) w;", "bit<64> x;\nw.read(x, 0);").findings, IsEmpty());
  EXPECT_THAT(fit_of("register<bit<64>>(96257) w;", "bit<64> x;\nw.read(x, 0);", Chip::tofino2).findings,
              ElementsAre(HasSubstr("the register I.w needs 49 SRAM blocks; packets can write to 48 of a stage")));
}

TEST(Fit, ACompareAndSwapOf64BitsHasTooManyOperands) {
  const FitReport report =
      fit_of(kRegister, "bit<64> old;\nl.read(old, 1);\nif (old == h.x.l) {\nl.write(1, h.x.m);\n}");
  ASSERT_THAT(report.findings, ElementsAre(HasSubstr("t.p4:15:3: the register I.l needs 4 operands of 32 bits")));
}

TEST(Fit, OperandsCountThroughVariables) {
  const FitReport report = fit_of(kRegister,
                                  "bit<64> old;\nl.read(old, 1);\nbit<64> new = old;\nbool same = old == h.x.l;\n"
                                  "if (same) {\nnew = h.x.m;\n}\nl.write(1, new);");
  ASSERT_THAT(report.findings, ElementsAre(HasSubstr("the register I.l needs 4 operands of 32 bits")));
  // Which of its actions the ALU runs is decided before it.
  EXPECT_THAT(fit_of(kRegister,
                     "bit<32> old;\nr.read(old, 1);\nbit<32> new = old;\nif (h.x.c == 1) {\nnew = h.x.a;\n}\n"
                     "else if (h.x.c == 2) {\nnew = old + h.x.b;\n}\nr.write(1, new);")
                  .findings,
              IsEmpty());
}

// The ALU needs h.x.a + h.x.b + h.x.c, which takes two stages; so it is in the third one.
TEST(Fit, ARegisterComesAfterWhatItsAluNeeds) {
  const FitReport report = fit_of(kRegister,
                                  "bit<32> sum = h.x.a + h.x.b + h.x.c;\nbit<32> old;\nr.read(old, 1);\n"
                                  "bit<32> new = old;\nif (h.x.l == 1) {\nnew = old + sum;\n}\nr.write(1, new);");
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(to_text(report, Chip::tofino), HasSubstr("ingress stage  3: register I.r"));
}

// What was read is known when the register was met, which its write decides; not where the program reads it.
TEST(Fit, WhatWasReadIsKnownBehindTheRegister) {
  const FitReport report = fit_of(kRegister,
                                  "bit<32> sum = h.x.a + h.x.b + h.x.c;\nbit<32> old;\nr.read(old, 1);\n"
                                  "r.write(1, sum);\nbit<32> x;\nq.read(x, old);");
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(to_text(report, Chip::tofino), HasSubstr("ingress stage  3: register I.r"));
  EXPECT_THAT(to_text(report, Chip::tofino), HasSubstr("ingress stage  4: register I.q"));
}

// Another register's value chooses the action, and is no operand of it.
TEST(Fit, WhatAnotherRegisterDecidesIsNoOperand) {
  EXPECT_THAT(fit_of(kRegister,
                     "bit<32> x;\nq.read(x, 1);\nbit<32> old;\nr.read(old, 1);\nbit<32> new = old;\n"
                     "if (x == h.x.c && h.x.l == 1) {\nnew = old == h.x.a ? h.x.b : old;\n}\nr.write(1, new);")
                  .findings,
              IsEmpty());
}

TEST(Fit, ARegisterIsMetOnce) {
  const FitReport report = fit_of(kRegister, "bit<32> x;\nr.read(x, 1);\nr.read(x, 2);");
  ASSERT_THAT(report.findings, ElementsAre(HasSubstr("t.p4:14:3: the register I.r is touched again")));
  EXPECT_THAT(fit_of(kRegister, "bit<32> x;\nif (h.x.a == 1) { r.read(x, 1); } else { r.read(x, 2); }").findings,
              IsEmpty());
}

TEST(Fit, RegistersHaveOneOrder) {
  const FitReport report = fit_of(kRegister,
                                  "bit<32> x;\nbit<32> y;\nif (h.x.a == 1) {\nr.read(x, 1);\nq.read(y, x);\n} else "
                                  "{\nq.read(x, 1);\nr.read(y, x);\n}");
  ASSERT_THAT(report.findings, ElementsAre(HasSubstr("are used in both orders")));
}

TEST(Fit, ElementsOf128BitsDoNotFit) {
  const FitReport report = fit_of("register<bit<128>>(4) w;", "bit<128> x;\nw.read(x, 0);");
  ASSERT_THAT(report.findings, ElementsAre(HasSubstr("the register I.w has elements of 128 bits")));
}

TEST(Fit, AChainIsAsLongAsItsOperators) {
  const std::string body = additions(12);
  EXPECT_EQ(fit_of("", body).ingress_stages, 12U);
  EXPECT_THAT(fit_of("", body).findings, IsEmpty());
  const FitReport longer = fit_of("", body + "h.x.a = h.x.a + h.x.c;");
  ASSERT_THAT(longer.findings, ElementsAre(HasSubstr("t.p4:24:7: ingress needs about 13 stages; there are 12")));
  EXPECT_THAT(fit_of("", body + "h.x.a = h.x.a + h.x.c;", Chip::tofino2).findings, IsEmpty());
}

TEST(Fit, ATableComesAfterWhatItsKeyNeeds) {
  const std::string tables =
      "action set(bit<32> v) { h.x.b = v; } table one { key = { h.x.a : exact; } actions = { set; } }\n"
      "table two { key = { h.x.b : exact; } actions = { set; } } table other { key = { h.x.c : ternary; } actions = { "
      "set; } size = 1000; }";
  const FitReport report = fit_of(tables, "one.apply();\ntwo.apply();\nother.apply();");
  EXPECT_EQ(report.ingress_stages, 2U);
  EXPECT_EQ(report.tcam_blocks, 2U);  // 1000 rows of 32 bits
}

TEST(Fit, WhatATableGivesIsThereInTheNextStage) {
  const std::string table =
      "bit<32> i = 0; action at(bit<32> v) { i = v; } table one { key = { h.x.a : exact; } actions = { at; } }\n";
  const FitReport report = fit_of(table + kRegister, "one.apply();\nbit<32> old;\nr.read(old, i);");
  EXPECT_THAT(to_text(report, Chip::tofino), HasSubstr("ingress stage  2: register I.r"));
}

// A value that comes from the register on one path only is an operand of its ALU on the other one.
TEST(Fit, TheAluGetsWhatItWritesOnEveryPath) {
  const std::string reads = "bit<32> x;\nbit<32> y;\nr.read(x, 0);\n";
  for (const char* const chooses : {"if (x == 7) { y = x; } else { y = h.x.a; }", "y = h.x.a; if (x == 7) { y = x; }",
                                    "y = x; if (x == 7) { y = h.x.a; }", "f(x, h.x.a, y);", "g(x, h.x.a, y);"}) {
    SCOPED_TRACE(chooses);
    const std::string actions =
        "action f(in bit<32> v, in bit<32> o, out bit<32> w) { if (v == 7) { w = v; return; } w = o; }\n"
        "action g(in bit<32> v, in bit<32> o, out bit<32> w) { w = o; if (v == 7) { return; } w = v; }\n";
    const FitReport late = fit_of(actions + kRegister, additions(12) + reads + chooses + "\nr.write(0, y);");
    EXPECT_THAT(late.findings, ElementsAre(HasSubstr("ingress needs about 13 stages")));
    EXPECT_THAT(to_text(late, Chip::tofino), HasSubstr("ingress stage 13: register I.r"));
    EXPECT_THAT(fit_of(actions + kRegister, additions(11) + reads + chooses + "\nr.write(0, y);").findings, IsEmpty());
  }
}

TEST(Fit, OperandsCountOnEveryPath) {
  const std::string actions =
      "action f(in bit<64> v, in bit<64> o, in bit<32> p, out bit<64> w) { if (v == (bit<64>)p) { w = v; return; } "
      "w = o; }\n"
      "action g(in bit<64> v, in bit<32> p, out bit<64> w) { if (v == (bit<64>)p) { w = v; return; } w = 5; }\n";
  const std::string reads = "bit<64> x;\nbit<64> y;\nl.read(x, 0);\n";
  for (const char* const chooses :
       {"if (x == (bit<64>)h.x.b) { y = x; } else { y = h.x.l; }\nl.write(0, y);",
        "f(x, h.x.l, h.x.b, y);\nl.write(0, y);", "if (x == (bit<64>)h.x.b) { return; }\nl.write(0, h.x.l);",
        "if (x == (bit<64>)h.x.b) { exit; }\nl.write(0, h.x.l);"}) {
    SCOPED_TRACE(chooses);
    EXPECT_THAT(fit_of(actions + kRegister, reads + chooses).findings,
                ElementsAre(HasSubstr("the register I.l needs 3 operands of 32 bits")));
  }
  // A constant is none.
  EXPECT_THAT(fit_of(actions + kRegister, reads + "g(x, h.x.b, y);\nl.write(0, y);").findings, IsEmpty());
  EXPECT_THAT(fit_of(kRegister, reads + "y = 5;\nif (x == h.x.l) { y = x; }\nl.write(0, y);").findings, IsEmpty());
  // The larger one of two paths counts, whichever comes first.
  EXPECT_THAT(fit_of(kRegister, reads + "if (h.x.a == 1) { y = x + (bit<64>)h.x.b; } else { y = x + h.x.l; }\n"
                                        "if (x == (bit<64>)h.x.c) { l.write(0, y); }")
                  .findings,
              ElementsAre(HasSubstr("the register I.l needs 3 operands of 32 bits")));
}

// The packet says which element it is.
TEST(Fit, AnIndexOfAStackIsAValue) {
  for (const char* const statement :
       {"h.xs[h.x.a].b = 1;", "h.xs[h.x.a] = h.y;", "h.xs[h.x.a].setValid();", "h.y = h.xs[h.x.a];",
        "h.xs[2].b = h.x.a; h.y.b = h.xs[h.x.c].b;", "h.xs[h.x.c].b = h.x.a; h.y.b = h.xs[2].b;"}) {
    SCOPED_TRACE(statement);
    EXPECT_THAT(fit_of("", additions(12) + statement).findings,
                ElementsAre(testing::ContainsRegex("ingress needs about 1[34] stages")));
    EXPECT_THAT(fit_of("", additions(10) + statement).findings, IsEmpty());
  }
}

// The packet that leaves must not touch the register; what it did before is nothing for the others.
TEST(Fit, ARegisterBehindAnExitWaitsForItsCondition) {
  const FitReport report =
      fit_of(kRegister,
             "bit<32> sum = h.x.a + h.x.b + h.x.c;\nbit<32> old;\nif (sum == 7) {\n"
             "q.read(old, 1);\nh.x.a = h.x.b + 1 + 2;\nexit;\n}\nr.read(old, h.x.a);\nq.read(old, 2);");
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(to_text(report, Chip::tofino), HasSubstr("ingress stage  3: register I.r"));
}

// As `if (t.apply().hit) { exit; }` does. Which action ran is known in the stage behind the table.
TEST(Fit, WhatFollowsATableWhoseActionExitsWaitsForIt) {
  for (const char* const bye : {"exit;", "if (h.x.b == 1) { exit; }", "out_of_here();"}) {
    SCOPED_TRACE(bye);
    const std::string table = fmt::format(
        "action out_of_here() {{ exit; }}\naction bye() {{ {} }}\n"
        "table t {{ key = {{ h.x.a : exact; }} actions = {{ bye; NoAction; }} }}\n",
        bye);
    const FitReport written = fit_of(table + kRegister, additions(11) + "t.apply();\nr.write(0, h.x.c);");
    EXPECT_THAT(written.findings, ElementsAre(HasSubstr("ingress needs about 13 stages")));
    EXPECT_THAT(to_text(written, Chip::tofino), HasSubstr("ingress stage 13: register I.r"));
    EXPECT_THAT(fit_of(table, additions(11) + "t.apply();\nh.x.c = 1;").findings,
                ElementsAre(HasSubstr("ingress needs about 13 stages")));
    EXPECT_THAT(fit_of(table + kRegister, additions(10) + "t.apply();\nr.write(0, h.x.c);").findings, IsEmpty());
    EXPECT_THAT(fit_of(table + kRegister, "r.write(0, h.x.c);\n" + additions(11) + "t.apply();").findings, IsEmpty());
  }
}

// Those that `return` leaves wait for nothing, and have touched nothing for the others.
TEST(Fit, ARegisterBehindAReturnWaitsForItsCondition) {
  const std::string leaves = additions(12) + "if (h.x.a == 7) { return; }\n";
  EXPECT_THAT(fit_of(kRegister, leaves + "r.write(0, h.x.c);").findings,
              ElementsAre(HasSubstr("t.p4:25:3: ingress needs about 13 stages")));
  EXPECT_THAT(fit_of(kRegister, leaves + "h.x.c = 1;").findings, ElementsAre(HasSubstr("about 13 stages")));
  EXPECT_THAT(fit_of(kRegister, leaves + "h.y.setValid();").findings, ElementsAre(HasSubstr("about 13 stages")));
  EXPECT_THAT(fit_of(kRegister, "r.write(0, h.x.c);\n" + leaves).findings, IsEmpty());
  EXPECT_THAT(fit_of(kRegister, "bit<32> x;\nif (h.x.c == 1) { r.read(x, 1); return; }\nr.read(x, 2);").findings,
              IsEmpty());
}

// What is made of the values afterwards decides nothing.
TEST(Fit, AReturnWasDecidedByWhatWasThereThen) {
  for (const char* const leaves : {"return", "exit"}) {
    SCOPED_TRACE(leaves);
    const FitReport written =
        fit_of(kRegister, fmt::format("if (h.x.a == 7) {{ {}; }}\n", leaves) + additions(12) + "r.write(0, h.x.c);");
    EXPECT_THAT(written.findings, IsEmpty());
    EXPECT_THAT(to_text(written, Chip::tofino), HasSubstr("ingress stage  1: register I.r"));
    EXPECT_THAT(fit_of("", fmt::format("if (h.x.a == 7) {{ h.x.c = 2; {}; }}\n", leaves) + additions(12) + "h.x.c = 1;")
                    .findings,
                IsEmpty());
    // What the other branch makes of the value decides nothing, either.
    EXPECT_THAT(
        fit_of("", fmt::format("if (h.x.a != 7) {{ {} }} else {{ {}; }}\nh.x.c = 1;", additions(12), leaves)).findings,
        IsEmpty());
    // A variable that is computed anew.
    EXPECT_THAT(fit_of("", fmt::format("bit<32> v = h.x.b;\nif (v == 7) {{ {}; }}\n", leaves) + additions(12) +
                               "v = h.x.a;\nh.x.c = 1;")
                    .findings,
                IsEmpty());
  }
}

// It ends the routine only.
TEST(Fit, AReturnDecidesAboutTheRestOfItsRoutine) {
  const std::string early = "action f(in bit<32> v) { if (v == 7) { return; } h.x.c = 1; }\n";
  EXPECT_THAT(fit_of(early + kRegister, additions(12) + "f(h.x.b);\nr.write(0, h.x.b);").findings, IsEmpty());
  EXPECT_THAT(fit_of(early + kRegister, additions(12) + "f(h.x.a);\nr.write(0, h.x.b);").findings,
              ElementsAre(HasSubstr("about 13 stages")));
  const FitReport after = fit_of(early + kRegister, additions(11) + "f(h.x.a);\nr.write(0, h.x.b);");
  EXPECT_THAT(after.findings, IsEmpty());
  EXPECT_THAT(to_text(after, Chip::tofino), HasSubstr("ingress stage  1: register I.r"));
  // What it leaves undone in a variable is known with its condition.
  EXPECT_THAT(fit_of("action g(in bit<32> v, inout bit<32> w) { if (v == 7) { return; } w = 1; }",
                     additions(12) + "bit<32> w = 0;\ng(h.x.a, w);\nh.x.c = w;")
                  .findings,
              ElementsAre(HasSubstr("about 13 stages")));
  // exit behind a return
  EXPECT_THAT(fit_of("action f(in bit<32> v) { if (v == 7) { return; } exit; }\n" + std::string(kRegister),
                     additions(12) + "f(h.x.a);\nr.write(0, h.x.b);")
                  .findings,
              ElementsAre(HasSubstr("about 13 stages")));
  EXPECT_THAT(fit_of(std::string(kRegister) + "action f(in bit<32> v) { r.write(0, v); if (v == 7) { return; } exit; }",
                     "f(h.x.a);\nr.write(0, h.x.b);")
                  .findings,
              Contains(HasSubstr("the register I.r is touched again")));
}

TEST(Fit, ATableIsMetOnce) {
  const std::string table =
      "action set(bit<32> v) { h.x.b = v; } table t { key = { h.x.a : exact; } actions = { set; } }";
  EXPECT_THAT(fit_of(table, "t.apply();\nt.apply();\nt.apply();").findings,
              ElementsAre(HasSubstr("t.p4:13:3: the table I.t is applied again in the same pass"),
                          HasSubstr("t.p4:14:3: the table I.t is applied again in the same pass")));
  EXPECT_THAT(fit_of(table, "if (h.x.c == 1) { t.apply(); } else { t.apply(); }").findings, IsEmpty());
  EXPECT_THAT(fit_of(table, "if (h.x.c == 1) { t.apply(); exit; }\nt.apply();").findings, IsEmpty());
  EXPECT_THAT(fit_of(table, "if (h.x.c == 1) { t.apply(); }\nt.apply();").findings,
              ElementsAre(HasSubstr("applied again")));
}

TEST(Fit, ThatAHeaderIsValidIsAValue) {
  const auto table = [](const char* name, const char* of, const char* sets) {
    return fmt::format(
        "action set_{0}() {{ {2}.setValid(); }}\n"
        "table {0} {{ key = {{ {1}.isValid() : exact; }} actions = {{ set_{0}; NoAction; }} }}\n",
        name, of, sets);
  };
  EXPECT_EQ(
      fit_of(table("one", "h.x", "h.xs[0]") + table("two", "h.xs[0]", "h.xs[1]") + table("three", "h.xs[1]", "h.y"),
             "one.apply();\ntwo.apply();\nthree.apply();")
          .ingress_stages,
      3U);
  EXPECT_EQ(
      fit_of(table("one", "h.x", "h.y") + table("two", "h.x", "h.xs[1]"), "one.apply();\ntwo.apply();").ingress_stages,
      1U);
  EXPECT_EQ(fit_of("", "h.y.setValid();\nh.y.a = 1;").ingress_stages, 1U);
}

// Each of them happens in the thirteenth stage, or later.
TEST(Fit, WhatHappensIsInAStage) {
  for (const char* const statement :
       {"h.y = h.x;", "if (h.x.a == 7) { h.y = h.x; }", "if (h.x.a == 7) { h.x.setInvalid(); }",
        "if (h.x.a == 7) { h.xs.push_front(1); }", "if (h.x.a == 7) { h.xs.pop_front(1); }", "k.count(h.x.a);",
        "if (h.x.a == 7) { k.count(1); }", "clone(CloneType.I2E, h.x.a);", "truncate(h.x.a);",
        "if (h.x.a == 7) { resubmit_preserving_field_list(1); }", "if (h.x.a == 7) { digest<bit<32>>(1, h.x.b); }",
        "bit<32> x;\nrandom(x, 0, h.x.a);\nh.x.c = x;"}) {
    SCOPED_TRACE(statement);
    EXPECT_THAT(fit_of("counter(16, CounterType.packets) k;", additions(12) + statement).findings,
                ElementsAre(testing::ContainsRegex("ingress needs about 1[34] stages")));
    EXPECT_THAT(fit_of("counter(16, CounterType.packets) k;", additions(10) + statement).findings, IsEmpty());
  }
}

// 64 bits x 79872: 39 blocks and a spare.
TEST(Fit, RegistersShareTheBlocksOfAStage) {
  const auto registers = [](int number) {
    std::string locals;
    std::string body = "bit<64> x;\n";
    for (int i = 0; i < number; ++i) {
      locals += fmt::format("register<bit<64>>(79872) r{};\n", i);
      body += fmt::format("r{}.read(x, 0);\n", i);
    }
    return fit_of(locals, body);
  };
  EXPECT_THAT(registers(12).findings, IsEmpty());
  EXPECT_THAT(to_text(registers(12), Chip::tofino), HasSubstr("ingress stage 12: register I.r11"));
  EXPECT_THAT(to_text(registers(20), Chip::tofino), HasSubstr("ingress no stage: register I.r19"));
  EXPECT_THAT(
      registers(20).findings,
      ElementsAre(HasSubstr("8 of 20 registers find no stage, I.r12 is the first of them; a stage has 4 stateful "
                            "ALUs, and 48 SRAM blocks that packets can write to")));
}

TEST(Fit, AStageHasFourStatefulAlus) {
  const auto registers = [](int number, const std::string& before) {
    std::string locals;
    std::string body = before + "bit<32> x;\n";
    for (int i = 0; i < number; ++i) {
      locals += fmt::format("register<bit<32>>(16) r{};\n", i);
      body += fmt::format("r{}.read(x, h.x.a);\n", i);
    }
    return fit_of(locals, body);
  };
  EXPECT_THAT(registers(48, "").findings, IsEmpty());
  EXPECT_THAT(registers(49, "").findings, ElementsAre(HasSubstr("1 of 49 registers find no stage")));
  EXPECT_THAT(registers(4, additions(11)).findings, IsEmpty());
  EXPECT_THAT(registers(5, additions(11)).findings, ElementsAre(HasSubstr("1 of 5 registers find no stage")));
}

TEST(Fit, AStageHasSixteenTables) {
  const auto tables = [](int number) {
    std::string locals = "action set(bit<32> v) { h.x.b = v; }\n";
    std::string body;
    for (int i = 0; i < number; ++i) {
      locals += fmt::format("table t{} {{ key = {{ h.x.a : exact; }} actions = {{ set; }} size = 1; }}\n", i);
      body += fmt::format("t{}.apply();\n", i);
    }
    return fit_of(locals, body);
  };
  EXPECT_THAT(tables(192).findings, IsEmpty());
  EXPECT_THAT(tables(193).findings,
              ElementsAre(HasSubstr("1 of 193 tables find no stage, I.t192 is the first of them; a stage has 16")));
}

// 2^39 calls.
TEST(Fit, CallsThatDoubleEndTheEstimate) {
  std::string actions = "action f0() { h.x.a = h.x.a + 1; }\n";
  for (int i = 1; i < 40; ++i) {
    actions += fmt::format("action f{0}() {{ f{1}(); f{1}(); }}\n", i, i - 1);
  }
  EXPECT_THAT(fit_of(actions, "f39();").findings, ElementsAre(HasSubstr("ingress is too large for an estimate")));
}

// Each statement copies the slots of the conditions around it.
TEST(Fit, WideConditionsEndTheEstimate) {
  std::string macros = "#define T0 bit<1>\n#define A0 h.x.c = 1;\n";
  for (int i = 1; i < 15; ++i) {
    macros += fmt::format("#define T{0} T{1}, T{1}\n#define A{0} A{1} A{1}\n", i, i - 1);
  }
  const auto report = [&](const char* statements) {
    return fit_of(macros, fmt::format("\ntuple<T12> p; tuple<T12> q; if (p == q) {{ {} }}", statements));
  };
  EXPECT_THAT(report("A0").findings, IsEmpty());
  EXPECT_THAT(report("A10").findings, ElementsAre(HasSubstr("ingress is too large for an estimate")));
}

TEST(Fit, ChipsHaveNames) {
  EXPECT_EQ(parse_chip("tofino2"), Chip::tofino2);
  EXPECT_THROW(static_cast<void>(parse_chip("tofino3")), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::p4
