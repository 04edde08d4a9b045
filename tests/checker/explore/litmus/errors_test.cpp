// Texts that are not litmus tests. Each is refused at the right place with the right words, and nothing else happens.
#include "checker/explore/litmus/litmus.h"

#include "memory_of_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::explore {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse_litmus(text, "dir/t.litmus"));
  } catch (const LitmusError& error) {
    return error.what();
  }
  return "no error";
}

struct Wrong {
  const char* name;
  std::string text;
  const char* place;  // LINE:COLUMN
  const char* part;   // of the message
};

void PrintTo(const Wrong& wrong, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << wrong.text;
}

class LitmusErrors : public testing::TestWithParam<Wrong> {};

TEST_P(LitmusErrors, NameThePlaceAndWhatWasExpected) {
  const std::string error = error_of(GetParam().text);
  EXPECT_THAT(error, StartsWith("dir/t.litmus:" + std::string(GetParam().place) + ": error: "));
  EXPECT_THAT(error, HasSubstr(GetParam().part));
}

std::string name_of(const testing::TestParamInfo<Wrong>& wrong) { return wrong.param.name; }

// A whole text.
INSTANTIATE_TEST_SUITE_P(
    Text, LitmusErrors,
    testing::Values(
        Wrong{"Empty", "", "1:1", "expected 'litmus NAME' before everything else, found end of file"},
        Wrong{"OnlyComments", "# a\n\n# b\n", "4:1", "expected 'litmus NAME'"},
        Wrong{"NoHeader", "var x = 0\n", "1:1", "expected 'litmus NAME' before everything else, found 'var'"},
        Wrong{"NoName", "litmus   # t\n", "1:10", "expected the name of the test, found end of line"},
        Wrong{"TwoWordsAsName", "litmus a b\n", "1:10", "expected the end of the line, found 'b'"},
        Wrong{"NoThreads", "litmus t\nvar x = 0\n", "3:1", "expected a thread such as 'P0:'"},
        Wrong{"TwoTests", "litmus t\nP0:\nlitmus u\n", "3:1", "a second 'litmus'"},
        Wrong{"NotAscii", "litmus t\nP0:\n  write \xc3\xa4 1\n", "3:9", "unexpected byte 0xc3"},
        Wrong{"NulByte", std::string("litmus t\n\0", 10), "2:1", "unexpected byte 0x00"},
        Wrong{"StrangeCharacter", "litmus t\nP0:\n  write x $1\n", "3:11", "unexpected character '$'"},
        Wrong{"SingleAnd", "litmus t\nvar x = 0\nP0:\nexists x == 0 & x == 1\n", "4:15", "unexpected character '&'"},
        Wrong{"UnknownSection", "litmus t\nfoo x = 0\nP0:\n", "2:1", "found 'foo'"},
        Wrong{"StatementOutsideOfThreads", "litmus t\nwrite x 1\nP0:\n", "2:1", "found 'write'"},
        Wrong{"LabelOfNoThread", "litmus t\nQ0:\n", "2:1", "expected a client P0, P1, ... or a CPU thread C0, C1, ..."},
        Wrong{"LabelWithLeadingZero", "litmus t\nP01:\n", "2:1", "found 'P01'"},
        Wrong{"SameThreadTwice", "litmus t\nP0:\nC0:\nP0:\n", "4:1", "duplicate name: there is a thread 'P0' already"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Memory, LitmusErrors,
    testing::Values(
        Wrong{"VarWithoutValue", "litmus t\nvar x\nP0:\n", "2:6", "expected '=', found end of line"},
        Wrong{"VarWithoutNumber", "litmus t\nvar x = y\nP0:\n", "2:9", "expected an initial value, found 'y'"},
        Wrong{"VarWithGarbage", "litmus t\nvar x = 0 1\nP0:\n", "2:11", "expected the end of the line, found '1'"},
        Wrong{"VarNamedByAKeyword", "litmus t\nvar wait = 0\nP0:\n", "2:5", "found the keyword 'wait'"},
        Wrong{"VarNamedByANumber", "litmus t\nvar 1 = 0\nP0:\n", "2:5", "expected the name of a word, found '1'"},
        Wrong{"SameVarTwice", "litmus t\nvar x = 0\nvar x = 0\nP0:\n", "3:5",
              "duplicate name 'x': it is declared in line 2 already"},
        Wrong{"SameNameInTwoNodes", "litmus t\nvar x = 0\nnode M1 { var x = 0 }\nP0:\n", "3:15", "duplicate name 'x'"},
        Wrong{"WordNamedAsItsLine", "litmus t\nline L { L = 0 }\nP0:\n", "2:10", "duplicate name 'L'"},
        Wrong{"TooBigNumber", "litmus t\nvar x = 9223372036854775808\nP0:\n", "2:9",
              "'9223372036854775808' is out of range"},
        Wrong{"TooSmallNumber", "litmus t\nvar x = -9223372036854775809\nP0:\n", "2:9", "is out of range"},
        Wrong{"Hexadecimal", "litmus t\nvar x = 0x10\nP0:\n", "2:9", "'0x10' is no decimal number"},
        Wrong{"MinusAlone", "litmus t\nvar x = - 1\nP0:\n", "2:9", "'-' is no decimal number"},
        Wrong{"LineWithoutWords", "litmus t\nline L { }\nP0:\n", "2:10", "expected the name of a word, found '}'"},
        Wrong{"LineWithoutEnd", "litmus t\nline L { a = 0\nP0:\n", "3:1", "expected '}', found 'P0'"},
        Wrong{"LineWithoutBrace", "litmus t\nline L a = 0\nP0:\n", "2:8", "expected '{', found 'a'"},
        Wrong{"NineWordsInALine",
              "litmus t\nline L { a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0 }\nP0:\n", "2:66",
              "'L' has more than 8 words"},
        Wrong{"ObjectWithoutLines", "litmus t\nobject D[0] = 0\nP0:\n", "2:10", "expected a number of lines from 1 to"},
        Wrong{"ObjectTooBig", "litmus t\nobject D[1000000000000] = 0\nP0:\n", "2:10", "found '1000000000000'"},
        Wrong{"ObjectsTooBig", "litmus t\nobject D[4096] = 0\nvar x = 0\nP0:\n", "3:5",
              "more than 4096 words of memory"},
        Wrong{"ObjectWithoutSize", "litmus t\nobject D = 0\nP0:\n", "2:10", "expected '[', found '='"},
        Wrong{"NodeZero", "litmus t\nnode M0 { var x = 0 }\nP0:\n", "2:6", "expected 'M1'"},
        Wrong{"NodeLeftOut", "litmus t\nnode M2 { var x = 0 }\nP0:\n", "2:6", "expected 'M1'"},
        Wrong{"EmptyNode", "litmus t\nnode M1 { }\nP0:\n", "2:11", "expected var, line or object, found '}'"},
        Wrong{"NodeWithoutEnd", "litmus t\nnode M1 {\n  var x = 0\n", "4:1", "expected '}' for the '{' of 2:9"},
        Wrong{"NodeWithThreads", "litmus t\nnode M1 {\n  var x = 0\nP0:\n", "4:1",
              "expected var, line or object, found 'P0'"},
        Wrong{"NodeWithTwoOnALine", "litmus t\nnode M1 { var x = 0 var y = 0 }\nP0:\n", "2:21",
              "expected ';', '}' or the end of the line, found 'var'"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Statement, LitmusErrors,
    testing::Values(
        Wrong{"Unknown", kMemory + "P0:\n  wirte x 1\n", "8:3", "expected a statement (write, read,"},
        Wrong{"UnknownOfACpu", kMemory + "C0:\n  fence\n", "8:3", "expected a statement (store, load,"},
        Wrong{"CpuStatementOfAClient", kMemory + "P0:\n  store x 1\n", "8:3",
              "P0 is a client: 'store' is for CPU threads"},
        Wrong{"ClientStatementOfACpu", kMemory + "C0:\n  wait\n", "8:3", "C0 is a CPU thread: 'wait' is for clients"},
        Wrong{"UnknownTarget", kMemory + "P0:\n  write w 1\n", "8:9", "unknown name 'w'"},
        Wrong{"NoTarget", kMemory + "P0:\n  read\n", "8:7", "expected the name of a var, line, word or object"},
        Wrong{"NodeAsTarget", kMemory + "P0:\n  read M1\n", "8:8", "unknown name 'M1'"},
        Wrong{"NoOperand", kMemory + "P0:\n  write x   # what?\n", "8:13", "expected a number to write"},
        Wrong{"RegisterAsOperand", kMemory + "P0:\n  r0 = read x\n  wait\n  write y r0\n", "10:11", "found 'r0'"},
        Wrong{"OneOperandOfCas", kMemory + "P0:\n  cas x 0\n", "8:10", "expected the number that is swapped in"},
        Wrong{"GarbageAtTheEnd", kMemory + "P0:\n  read x 1\n", "8:10",
              "expected ';' or the end of the line, found '1'"},
        Wrong{"GarbageAfterWait", kMemory + "P0:\n  read x\n  wait qp0 qp1\n", "9:12", "found 'qp1'"},
        Wrong{"StrayBrace", kMemory + "P0:\n  read x\n}\n", "9:1", "expected a statement, found '}'"},
        Wrong{"ElseAlone", kMemory + "P0:\n  else { }\n", "8:3", "expected a statement"},
        Wrong{"IndexOfAVar", kMemory + "P0:\n  read x[0]\n", "8:9", "expected no index, for 'x' is no object"},
        Wrong{"IndexOfALine", kMemory + "P0:\n  read L[0]\n", "8:9", "expected no index, for 'L' is no object"},
        Wrong{"IndexTooBig", kMemory + "P0:\n  read D[3]\n", "8:10", "expected a line of D from 0 to 2, found '3'"},
        Wrong{"IndexNegative", kMemory + "P0:\n  read D[-1]\n", "8:10", "expected a line of D from 0 to 2, found '-1'"},
        Wrong{"IndexNotClosed", kMemory + "P0:\n  read D[1\n", "8:11", "expected ']', found end of line"},
        Wrong{"AtomicOnALine", kMemory + "P0:\n  faa L 1\n", "8:7", "'faa' works on one word, and 'L' has 2"},
        Wrong{"AtomicOnAnObject", kMemory + "P0:\n  cas D 0 1\n", "8:7", "give an index, as in D[0]"},
        Wrong{"BufferToAnObject", kMemory + "P0:\n  buf b = 0\n  write.buf D b\n", "9:13", "a buffer is one word"},
        Wrong{"CpuStoreToALine", kMemory + "C0:\n  store L 1\n", "8:9", "a CPU stores one word"},
        Wrong{"CpuLoadOfAnotherNode", kMemory + "C0:\n  load z\n", "8:8",
              "'z' is memory of M1, and C0 is a CPU thread of M0"},
        Wrong{"UnknownFlag", kMemory + "P0:\n  write.inline x 1\n", "8:9",
              "expected the flag fence or buf, found 'inline'"},
        Wrong{"BufFlagOfARead", kMemory + "P0:\n  read.buf x\n", "8:8", "expected the flag fence, found 'buf'"},
        Wrong{"FlagTwice", kMemory + "P0:\n  write.fence.fence x 1\n", "8:15", "the flag 'fence' is given twice"},
        Wrong{"FlagOfWait", kMemory + "P0:\n  wait.fence\n", "8:7", "found '.'"},
        Wrong{"QueuePairWithoutNumber", kMemory + "P0:\n  write @qp x 1\n", "8:10",
              "expected a queue pair such as qp0"},
        Wrong{"QueuePairByAnotherName", kMemory + "P0:\n  write @q1 x 1\n", "8:10",
              "expected a queue pair such as qp0"},
        Wrong{"WaitForUnusedQueuePair", kMemory + "P0:\n  read x\n  wait qp1\n", "9:8", "P0 has posted nothing on qp1"},
        Wrong{"UnknownBuffer", kMemory + "P0:\n  write.buf x b0\n", "8:15", "unknown name 'b0': expected a buffer"},
        Wrong{"BufferDeclaredLater", kMemory + "P0:\n  b0 := 1\n  buf b0 = 5\n", "8:3", "unknown name 'b0'"},
        Wrong{"NumberForABuffer", kMemory + "P0:\n  write.buf x 5\n", "8:15",
              "expected the name of a buffer, found '5'"},
        Wrong{"SameBufferTwice", kMemory + "P0:\n  buf b = 0\n  buf b = 1\n", "9:7", "P0 has a buffer 'b' already"},
        Wrong{"BufferNamedAsARegister", kMemory + "P0:\n  r = read x\n  buf r = 1\n", "9:7", "'r' is a register of P0"},
        Wrong{"RegisterNamedAsABuffer", kMemory + "P0:\n  buf b = 1\n  b = read x\n", "9:3", "'b' is a buffer of P0"},
        Wrong{"RegisterNamedByAKeyword", kMemory + "P0:\n  write = read x\n", "8:3", "found the keyword 'write'"},
        Wrong{"ResultOfAWrite", kMemory + "P0:\n  r0 = write x 1\n", "8:8", "expected read, cas or faa"},
        Wrong{"ResultOfAStore", kMemory + "C0:\n  r0 = store x 1\n", "8:8",
              "expected load to give register 'r0' its value"},
        Wrong{"NumberAsResult", kMemory + "P0:\n  r0 = 5\n", "8:8", "expected a statement, found '5'"},
        Wrong{"ScalarThenArray", kMemory + "P0:\n  r = read x\n  wait\n  r = read D\n", "10:3",
              "register 'r' has 1 word since it was assigned first, found 3"},
        Wrong{"AssignedWhileOut", kMemory + "P0:\n  r = read x\n  r = read y\n", "9:3",
              "register 'r' is assigned again before a wait that covers it"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Branch, LitmusErrors,
    testing::Values(
        Wrong{"NoCondition", kMemory + "P0:\n  if { }\n", "8:6", "expected a register or a number, found '{'"},
        Wrong{"NoBrace", kMemory + "P0:\n  r = read x\n  wait\n  if r == 0 write x 1\n", "10:13",
              "expected '{', found 'write'"},
        Wrong{"NoEndAtTheEndOfTheFile", kMemory + "P0:\n  r = read x\n  wait\n  if r == 0 { write x 1\n", "11:1",
              "expected '}' for the '{' of 10:13, found end of file"},
        Wrong{"NoEndBeforeTheNextThread", kMemory + "P0:\n  r = read x\n  wait\n  if r == 0 {\nP1:\n", "11:1",
              "found 'P1'"},
        Wrong{"NoEndBeforeASection", kMemory + "P0:\n  r = read x\n  wait\n  if r == 0 {\nexists x == 1\n", "11:1",
              "found 'exists'"},
        Wrong{"GarbageBehindTheBrace", kMemory + "P0:\n  r = read x\n  wait\n  if r == 0 { } write x 1\n", "10:17",
              "expected ';' or the end of the line, found 'write'"},
        Wrong{"UnknownRegister", kMemory + "P0:\n  if r0 == 0 { }\n", "8:6", "unknown name 'r0': no register of P0"},
        Wrong{"RegisterAssignedLater", kMemory + "P0:\n  if r0 == 0 { }\n  r0 = read x\n", "8:6", "unknown name 'r0'"},
        Wrong{"MemoryInAnIf", kMemory + "P0:\n  if x == 0 { }\n", "8:6", "'x' is memory: read it first"},
        Wrong{"RegisterOfAnotherThread", kMemory + "P0:\n  if P1:r0 == 0 { }\n", "8:6",
              "the registers of its own thread"},
        Wrong{"NoWait", kMemory + "P0:\n  r = read x\n  if r == 0 { }\n", "9:6",
              "register 'r' is used before a wait that covers it"},
        Wrong{"WaitForAnotherQueuePair", kMemory + "P0:\n  r = read x\n  read @qp1 x\n  wait qp1\n  if r == 0 { }\n",
              "11:6", "its request on qp0 may be out"},
        Wrong{"NoWaitOnOnePath",
              kMemory +
                  "P0:\n  q = read x\n  wait\n  if q == 0 { r = read x ; wait } else { r = read y }\n  if r == 0 { }\n",
              "11:6", "register 'r' is used before a wait that covers it"},
        Wrong{"WaitOnOnePathOnly",
              kMemory + "P0:\n  q = read x\n  wait\n  r = read y\n  if q == 0 { wait }\n  if r == 0 { }\n", "12:6",
              "register 'r' is used before a wait that covers it"},
        Wrong{"WaitForOneOfTwoQueuePairs",
              kMemory + "P0:\n  q = read x\n  wait\n  if q == 0 { r = read x } else { r = read @qp1 x }\n  wait qp0\n"
                        "  if r == 0 { }\n",
              "12:6", "its request on qp1 may be out"},
        Wrong{"OutAgain", kMemory + "P0:\n  r = read x\n  wait\n  r = read x\n  if r == 0 { }\n", "11:6",
              "used before a wait"},
        Wrong{"NeverAssignedOnAnyPath",
              kMemory + "P0:\n  q = read x\n  wait\n  if q == 0 { r = read x ; wait } else { if r == 0 { } }\n",
              "10:45", "register 'r' has no value on any path to here"},
        Wrong{"ArrayWithoutIndex", kMemory + "P0:\n  r = read D\n  wait\n  if r == 0 { }\n", "10:6",
              "register 'r' has 3 words: expected an index"},
        Wrong{"IndexOutside", kMemory + "P0:\n  r = read D\n  wait\n  if r[3] == 0 { }\n", "10:8",
              "expected an index from 0 to 2, found '3'"},
        Wrong{"ScalarWithIndex", kMemory + "P0:\n  r = read x\n  wait\n  if r[1] == 0 { }\n", "10:8",
              "register 'r' has 1 word: expected an index from 0 to 0"},
        Wrong{"Assignment", kMemory + "P0:\n  r = read x\n  wait\n  if r = 0 { }\n", "10:8",
              "expected '==' or '!=', found '='"},
        Wrong{"ElseIf", kMemory + "P0:\n  r = read x\n  wait\n  if r == 0 { } else if r == 1 { }\n", "10:22",
              "expected '{', found 'if'"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Section, LitmusErrors,
    testing::Values(
        Wrong{"UnknownParameter", kMemory + "param atoms 8\nP0:\n", "7:7", "no parameter is called 'atoms'"},
        Wrong{"WrongValue", kMemory + "param atom 7\nP0:\n", "7:12", "atom = '7' is not allowed; use 64, 32, 16 or 8"},
        Wrong{"WrongWord", kMemory + "param atomic_scope cpu\nP0:\n", "7:20", "use nic or global"},
        Wrong{"NoValue", kMemory + "param atom\nP0:\n", "7:11", "expected a value, found end of line"},
        Wrong{"TwoValues", kMemory + "param atom 8 8\nP0:\n", "7:14", "expected the end of the line"},
        Wrong{"SameParameterTwice", kMemory + "param atom 8\nparam atom 16\nP0:\n", "8:7",
              "parameter 'atom' is set already"},
        Wrong{"QpOfUnknownClient", kMemory + "P0:\nqp P1.qp0 nic1\n", "8:4",
              "unknown name 'P1': there is no such client"},
        Wrong{"QpOfACpu", kMemory + "C0:\nqp C0.qp0 nic1\n", "8:4",
              "expected a client, found 'C0', which is a CPU thread"},
        Wrong{"QpWithoutName", kMemory + "P0:\nqp P0 nic1\n", "8:7", "expected '.', found 'nic1'"},
        Wrong{"QpByAnotherName", kMemory + "P0:\nqp P0.r0 nic1\n", "8:7",
              "expected a queue pair such as qp0, found 'r0'"},
        Wrong{"QpWithUnknownNic", kMemory + "P0:\nqp P0.qp0 nic2\n", "8:11", "expected nic0 or nic1, found 'nic2'"},
        Wrong{"QpTwice", kMemory + "P0:\nwrite x 1\nqp P0.qp0 nic1\nqp P0.qp0 nic0\n", "10:7",
              "the NIC of P0.qp0 is given already"},
        Wrong{"QpWithoutRequests", kMemory + "P0:\nwrite x 1\nqp P0.qp1 nic1\n", "9:7",
              "P0 posts nothing to M0 on queue pair 'qp1'"},
        Wrong{"QpToAnotherNode", kMemory + "P0:\nwrite @qp1 z 1\nqp P0.qp1 nic1\n", "9:7",
              "P0 posts nothing to M0 on queue pair 'qp1'"},
        Wrong{"CrashOfUnknownClient", kMemory + "P0:\ncrash P1\n", "8:7", "unknown name 'P1'"},
        Wrong{"CrashOfACpu", kMemory + "C0:\ncrash C0\n", "8:7", "expected a client, found 'C0'"},
        Wrong{"CrashTwice", kMemory + "P0:\ncrash P0\ncrash P0\n", "9:7", "'P0' may crash already"},
        Wrong{"CrashOfTwo", kMemory + "P0:\nP1:\ncrash P0 P1\n", "9:10", "expected the end of the line, found 'P1'"},
        Wrong{"ExpectWithoutExists", kMemory + "P0:\nexpect strict allowed\n", "8:1", "'expect' without 'exists'"},
        Wrong{"UnknownModel", kMemory + "P0:\nexists x == 0\nexpect weak allowed\n", "9:8", "unknown model 'weak'"},
        Wrong{"UnknownVerdict", kMemory + "P0:\nexists x == 0\nexpect spec yes\n", "9:13",
              "expected allowed or forbidden"},
        Wrong{"NoVerdict", kMemory + "P0:\nexists x == 0\nexpect spec\n", "9:12", "expected allowed or forbidden"},
        Wrong{"Contradiction", kMemory + "P0:\nexists x == 0\nexpect all allowed\nexpect spec forbidden\n", "10:13",
              "expected allowed again"},
        Wrong{"TwoConditions", kMemory + "P0:\nexists x == 0\nexists y == 0\n", "9:1", "a second 'exists'"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Condition, LitmusErrors,
    testing::Values(
        Wrong{"Empty", kMemory + "P0:\nexists\n", "8:7", "expected THREAD:REGISTER, a word of memory or a number"},
        Wrong{"UnknownThread", kMemory + "P0:\nexists P1:r0 == 0\n", "8:8",
              "unknown name 'P1': there is no such thread"},
        Wrong{"UnknownRegister", kMemory + "P0:\n  r0 = read x\nexists P0:r1 == 0\n", "9:11",
              "P0 has no such register"},
        Wrong{"RegisterWithoutThread", kMemory + "P0:\n  r0 = read x\nexists r0 == 0\n", "9:8",
              "expected THREAD:REGISTER"},
        Wrong{"BufferOfAClient", kMemory + "P0:\n  buf b0 = 5\nexists P0:b0 == 0\n", "9:11", "P0 has no such register"},
        Wrong{"UnknownWord", kMemory + "P0:\nexists w == 0\n", "8:8", "unknown name 'w'"},
        Wrong{"WholeLine", kMemory + "P0:\nexists L == 0\n", "8:8", "a condition compares one word, and 'L' has 2"},
        Wrong{"WholeObject", kMemory + "P0:\nexists D == 0\n", "8:8", "give an index, as in D[0]"},
        Wrong{"IndexOfAnObject", kMemory + "P0:\nexists D[5] == 0\n", "8:10", "from 0 to 2, found '5'"},
        Wrong{"WholeRegister", kMemory + "P0:\n  r = read D\nexists P0:r == 0\n", "9:11", "as in r[0]"},
        Wrong{"IndexOfARegister", kMemory + "P0:\n  r = read D\nexists P0:r[3] == 0\n", "9:13",
              "from 0 to 2, found '3'"},
        Wrong{"NoComparison", kMemory + "P0:\nexists x\n", "8:9", "expected '==' or '!=', found end of line"},
        Wrong{"NoRightSide", kMemory + "P0:\nexists x ==\n", "8:12", "found end of line"},
        Wrong{"NoSecondPart", kMemory + "P0:\nexists x == 0 &&\n", "8:17", "found end of line"},
        Wrong{"NotClosed", kMemory + "P0:\nexists (x == 0\n", "8:15", "expected ')' for the '(' of 8:8"},
        Wrong{"ClosedTwice", kMemory + "P0:\nexists (x == 0))\n", "8:16", "expected the end of the line, found ')'"},
        Wrong{"TooBigNumber", kMemory + "P0:\nexists x == 99999999999999999999\n", "8:13", "is out of range"}),
    name_of);

// ---- Limits: a text of any size and depth ends with an error.

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

TEST(LitmusLimits, ConditionsMayNotBeNestedTooDeep) {
  EXPECT_EQ(error_of(kMemory + "P0:\nexists " + repeated("(", 32) + "x == 0" + repeated(")", 32)), "no error");
  EXPECT_THAT(error_of(kMemory + "P0:\nexists " + repeated("(", 33) + "x == 0" + repeated(")", 33)),
              StartsWith("dir/t.litmus:8:40: error: a condition nested more than 32 deep"));
  EXPECT_THAT(error_of(kMemory + "P0:\nexists " + repeated("(", 1'000'000)), HasSubstr("8:40: error"));
  EXPECT_THAT(error_of(kMemory + "P0:\nexists " + repeated("!", 1'000'000)), HasSubstr("8:40: error"));
}

TEST(LitmusLimits, BlocksMayNotBeNestedTooDeep) {
  const std::string begin = kMemory + "P0:\n  r = read x\n  wait\n";
  EXPECT_EQ(error_of(begin + repeated("if r == 0 {\n", 32) + repeated("}\n", 32)), "no error");
  EXPECT_THAT(error_of(begin + repeated("if r == 0 {\n", 33) + repeated("}\n", 33)),
              StartsWith("dir/t.litmus:42:1: error: blocks nested more than 32 deep"));
  EXPECT_THAT(error_of(begin + repeated("if r == 0 {\n", 100'000)), HasSubstr("42:1: error"));
}

TEST(LitmusLimits, PartsAreBounded) {
  std::string threads = "litmus t\n";
  std::string registers = kMemory + "P0:\n";
  std::string buffers = kMemory + "P0:\n";
  std::string pairs = kMemory + "P0:\n";
  std::string nodes = "litmus t\n";
  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    threads += "P" + number + ":\n";
    registers += "r" + number + " = read x\n";
    buffers += "buf b" + number + " = 0\n";
    pairs += "read @qp" + number + " x\n";
    nodes += "node M" + std::to_string(i + 1) + " { var x" + number + " = 0 }\n";
  }
  EXPECT_THAT(error_of(threads), HasSubstr("63:1: error: more than 62 threads and nodes with M0"));
  EXPECT_THAT(error_of(registers), HasSubstr("264:1: error: more than 256 registers of P0"));
  EXPECT_THAT(error_of(buffers), HasSubstr("72:5: error: more than 64 buffers of P0"));
  EXPECT_THAT(error_of(pairs), HasSubstr("72:1: error: more than 64 queue pairs of P0"));
  EXPECT_THAT(error_of(nodes), HasSubstr("65:6: error: more than 64 nodes"));
}

TEST(LitmusLimits, LongWordsAreNotQuotedWhole) {
  EXPECT_LT(error_of("litmus t\nP0:\n  write " + std::string(100'000, 'x') + " 1\n").size(), 200U);
}

}  // namespace
}  // namespace sidelatch::explore
