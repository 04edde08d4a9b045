// What macros become. What is expected follows from ISO C17, 6.10.3; GNU's cpp gives the same.
#include "p4/compiler/macros.h"

#include "p4/compiler/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {
namespace macros {

using testing::ElementsAre;
using testing::HasSubstr;

// The tokens with a space between any two, or the error. Adjacent '>' stay together: they are a shift.
std::string replaced(const std::string& text, std::vector<Warning>* warnings = nullptr) {
  Sources sources;
  PreprocessOptions options;
  options.warnings = warnings;
  try {
    std::string result;
    bool after_greater = false;
    for (const Token& token : preprocess(sources, sources.add("t.p4", text), options)) {
      const bool is_greater = token.is(">");
      result +=
          result.empty() || token.kind == TokenKind::end || (is_greater && after_greater && token.adjacent) ? "" : " ";
      result += token.kind == TokenKind::string ? '"' + token.text + '"' : token.text;
      after_greater = is_greater;
    }
    return result;
  } catch (const Failure& failure) {
    return "error: " + failure.message;
  }
}

TEST(Macros, AreReplacedAgainInWhatTheyBecome) {
  EXPECT_EQ(replaced("#define A B + B\n#define B 3\nA;"), "3 + 3 ;");
  EXPECT_EQ(replaced("#define F(x) x * 2\nF(F(1))"), "1 * 2 * 2");
  EXPECT_EQ(replaced("#define F(x) G(x)\n#define G(x) [x]\nF(a, b) F((a, b))"),
            "error: this macro has 1 parameters, not 2");
  EXPECT_EQ(replaced("#define F(x) G(x)\n#define G(x) [x]\nF((a, b))"), "[ ( a , b ) ]");
}

TEST(Macros, ANameThatComesOfItsOwnMacroIsNeverReplaced) {
  EXPECT_EQ(replaced("#define a (a + 1)\na"), "( a + 1 )");
  EXPECT_EQ(replaced("#define a b\n#define b a\na b"), "a b");
  // Not as an argument of another macro, either, wherever it goes from there.
  EXPECT_EQ(replaced("#define a (a + 1)\n#define ID(x) x\nID(a) ID(ID(a))"), "( a + 1 ) ( a + 1 )");
  EXPECT_EQ(replaced("#define a (a + 1)\n#define ID(x) x\n#define F(q) ID(q) + ID(a)\nF(1)"), "1 + ( a + 1 )");
  EXPECT_EQ(replaced("#define e h.e\n#define SET(x, v) x = v\nSET(e.p, 3); e.q"), "h . e . p = 3 ; h . e . q");
  EXPECT_EQ(replaced("#define F(x) x F\nF(1)(2)"), "1 F ( 2 )");
}

TEST(Macros, ArgumentsMayFollowBehindTheReplacementThatNamesTheMacro) {
  EXPECT_EQ(replaced("#define NAME TWICE\n#define TWICE(x) (x + x)\nNAME(3) NAME"), "( 3 + 3 ) TWICE");
  EXPECT_EQ(replaced("#define F(x) x\n#define O (\nF O 1) F(F)(2)"), "F ( 1 ) F ( 2 )");
  EXPECT_EQ(replaced("#define F(x) x * G\n#define G(x) F(x)\nF(2)(9)"), "2 * 9 * G");
  EXPECT_EQ(replaced("#define F(x) x\nF\n(\n1\n) F"), "1 F");
}

TEST(Macros, HashMakesAString) {
  EXPECT_EQ(replaced("#define S(x) #x\nS(a) S() S(  a+ b /* c */ c\n  d )"), R"("a" "" "a+ b c d")");
  EXPECT_EQ(replaced("#define S(x) #x\nS(\"a\")"), R"(""a"")");
  // The argument is not replaced; by way of another macro it is.
  EXPECT_EQ(replaced("#define N 4\n#define S(x) #x\n#define T(x) S(x)\nS(N) T(N) T(-N)"), R"("N" "4" "-4")");
  EXPECT_EQ(replaced("#define S(x, ...) #__VA_ARGS__ # x\nS(1, 2,3 , 4)"), R"("2,3 , 4" "1")");
  EXPECT_EQ(replaced("#define S(x) {#x}\nS(a)"), R"({ "a" })");
  EXPECT_EQ(replaced("#define F(x) {#}\nF(a)"), "{# }");
  EXPECT_EQ(replaced("#define F(x) # y\nF(a)"), "error: '#' in a macro with parameters needs a parameter after it");
}

TEST(Macros, TwoHashesPaste) {
  EXPECT_EQ(replaced("#define P(x, y) x ## y\nP(a, b) P(8w, 1) P(a,) P(, b) [P(,)] P(a b, c d)"),
            "ab 8w1 a b [ ] a bc d");
  EXPECT_EQ(replaced("#define ab 5\n#define a 6\n#define P(x, y) x ## y\nP(a, b) P(a, 1)"), "5 a1");
  EXPECT_EQ(replaced("#define P(x, y, z) x##y##z\nP(a,,c) P(,,c) P(a,,)"), "ac c a");
  EXPECT_EQ(replaced("#define O x ## 1 ## 2\nO"), "x12");
  EXPECT_EQ(replaced("#define P(x, y) x ## y\nP(+, 1)"), "error: '##' makes no token of '+' and '1'");
  EXPECT_EQ(replaced("#define P(x) ## x\n"), "error: '##' in a macro needs something on both sides");
  EXPECT_EQ(replaced("#define P(x) x ##\n"), "error: '##' in a macro needs something on both sides");
}

TEST(Macros, TakeAnyNumberOfArguments) {
  EXPECT_EQ(replaced("#define F(...) f(__VA_ARGS__)\nF() F(1) F(1, (2, 3), 4)"),
            "f ( ) f ( 1 ) f ( 1 , ( 2 , 3 ) , 4 )");
  EXPECT_EQ(replaced("#define F(x, ...) x: __VA_ARGS__;\nF(1) F(1,) F(1, 2, 3)"), "1 : ; 1 : ; 1 : 2 , 3 ;");
  // GNU's.
  EXPECT_EQ(replaced("#define F(x, ...) f(x, ## __VA_ARGS__)\nF(1) F(1,) F(1, 2)"), "f ( 1 ) f ( 1 , ) f ( 1 , 2 )");
  EXPECT_EQ(replaced("#define F(x, rest...) f(x, ## rest)\nF(1) F(1, 2, 3)"), "f ( 1 ) f ( 1 , 2 , 3 )");
  EXPECT_EQ(replaced("#define F(x) __VA_ARGS__\n"),
            "error: __VA_ARGS__ is only in macros whose parameters end with '...'");
  EXPECT_EQ(replaced("#define F(x, y, ...) x\nF(1)"), "error: this macro has 3 parameters, not 1");
}

// cpp prints a space there.
TEST(Macros, DoNotJoinWhatStandsSideBySide) {
  EXPECT_EQ(replaced("#define G >\n#define S >>\n#define E\n#define F(x) x>\n>> G> >G S >E> F(>) bit<F(1)"),
            ">> > > > > >> > > > > bit < 1 >");
}

TEST(Macros, LineAndFileAreThoseOfTheOutermostUse) {
  EXPECT_EQ(replaced("__LINE__\n#define L __LINE__\n#define F(x) x __FILE__\nL F(L)\n\n__LINE__"), "1 4 4 \"t.p4\" 6");
  EXPECT_EQ(
      replaced("#define L(x) x ## __LINE__\n#define M(x, y) x ## y\n#define N(x, y) M(x, y)\nL(a) N(a, __LINE__)"),
      "a__LINE__ a4");
}

TEST(Macros, ABackslashAtTheEndOfALineJoinsIt) {
  EXPECT_EQ(replaced("#define A 1 + \\\n  2\nA"), "1 + 2");
  EXPECT_EQ(replaced("#define A na\\\r\nme\nA \"st\\\nring\" >\\\n>"), "name \"string\" >>");
  EXPECT_EQ(replaced("#def\\\nine A 1\nA"), "1");
}

TEST(Macros, SayWhatIsWrongWithThem) {
  EXPECT_EQ(replaced("#define\n"), "error: #define needs a name");
  EXPECT_EQ(replaced("#define defined 1\n"),
            "error: #define cannot have the name 'defined', which has a fixed meaning");
  EXPECT_EQ(replaced("#undef __LINE__\n"), "error: #undef cannot have the name '__LINE__', which has a fixed meaning");
  EXPECT_EQ(replaced("#define F(x\n"), "error: ')' is missing after the parameters of this macro");
  EXPECT_EQ(replaced("#define F(x,\n"), "error: ')' is missing after the parameters of this macro");
  EXPECT_EQ(replaced("#define F(x y)\n"), "error: ')' is missing after the parameters of this macro");
  EXPECT_EQ(replaced("#define F(..., x)\n"), "error: ')' is missing after the parameters of this macro");
  EXPECT_EQ(replaced("#define F(x,)\n"), "error: a parameter of a macro is a name");
  EXPECT_EQ(replaced("#define F(x) x\nF(1"), "error: ')' is missing after the arguments of this macro");
}

TEST(Macros, AnotherMeaningOfTheSameNameIsAWarning) {
  std::vector<Warning> warnings;
  EXPECT_EQ(replaced("#define A 1\n#define A 1\n#undef A\n#define A 2\n#define A(x) 2\nA(1)", &warnings), "2");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].message, "the macro 'A' gets another meaning; #undef it first");
  EXPECT_EQ(warnings[0].at.line, 5U);
}

// Each of these would take years, all memory or all of the stack.
TEST(Macros, ThatGrowEndWithAnError) {
  const auto nested = [](const std::string& macro, int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) {
      text += macro + "(";
    }
    return text + "1" + std::string(static_cast<std::size_t>(depth), ')');
  };
  EXPECT_THAT(replaced("#define D(x) x x\n" + nested("D", 60)), HasSubstr("too long after its macros"));
  EXPECT_THAT(replaced("#define F(x) x\n" + nested("F", 100'000)), HasSubstr("too long after its macros"));
  EXPECT_THAT(replaced("#define F(x) x\n" + nested("F", 1'000)), HasSubstr("unsupported: macros nested this deeply"));
  EXPECT_EQ(replaced("#define F(x) x\n" + nested("F", 190)), "1");
}

}  // namespace macros
}  // namespace
}  // namespace sidelatch::p4
