// How lines of packet tests are read. What is expected follows the reference compiler's runner, bmv2stf.py, and the
// command line of the reference switch.
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/stf.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kStfProgram = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> op; bit<8> a; bit<16> b; bit<32> c; }
struct H { h_t h; }
struct M {}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start { b.extract(h.h); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bit<8>>(2) r;
  register<bit<48>>(1) last;
  counter(2, CounterType.packets_and_bytes) counted;
  direct_counter(CounterType.packets_and_bytes) direct;
  action my_set(bit<8> x) { h.h.a = x; }
  table my_exact { key = { h.h.a : exact; } actions = { my_set; } }
  table my_lpm { key = { h.h.c : lpm; } actions = { my_set; } }
  table my_ternary { key = { h.h.b : ternary; } actions = { my_set; } }
  table my_optional { key = { h.h.b : optional; } actions = { my_set; } }
  table my_validity { key = { h.h.isValid() : exact; } actions = { my_set; } }
  @name("x()#") action odd(@name("y, z") bit<8> x) { h.h.a = x; }
  @name("<>/(a, b)|#:1") table odd_names { key = { h.h.a : exact @name("a | b & c:d"); } actions = { odd; NoAction; } }
  table with_counter { key = { h.h.a : exact; } actions = { my_set; NoAction; } counters = direct; }
  apply {
    s.egress_spec = 2;
    switch (h.h.op) {
      0: { my_exact.apply(); }
      1: { my_lpm.apply(); }
      2: { my_ternary.apply(); }
      3: { my_optional.apply(); }
      4: { my_validity.apply(); }
      5: { with_counter.apply(); }
      6: { clone(CloneType.I2E, 5); }
      7: { s.mcast_grp = 1; }
      8: { r.read(h.h.a, 0); if (h.h.a == 0xff) { h.h.a = 1; } }
      10: { odd_names.apply(); }
      9: {
        bit<48> then; last.read(then, 0); last.write(0, s.ingress_global_timestamp);
        h.h.c = (bit<32>)(s.ingress_global_timestamp - then);
      }
    }
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
)";

class Stf : public testing::Test {
 protected:
  // What was not met, or the error.
  std::vector<std::string> failures(const std::string& test) {
    try {
      return run_stf(program_, test, "t.stf").failures;
    } catch (const StfError& error) {
      return {error.what()};
    }
  }

  std::shared_ptr<const Program> program_ = compile(kStfProgram, "stf.p4");
};

TEST_F(Stf, ALaterMirroringCommandReplacesTheSession) {
  const std::string group = "mc_mgrp_create 1\nmc_node_create 1 4\nmc_node_associate 1 0\n";
  EXPECT_THAT(failures(group + "mirroring_add 5 3\nmirroring_add_mc 5 1\npacket 0 06 00 0000 00000000\n"
                               "expect 2 06\nexpect 4 06\nno_packet\n"),
              IsEmpty());
  EXPECT_THAT(failures(group + "mirroring_add_mc 5 1\nmirroring_add 5 3\npacket 0 06 00 0000 00000000\n"
                               "expect 2 06\nexpect 3 06\nno_packet\n"),
              IsEmpty());
  EXPECT_THAT(failures(group + "mirroring_add 5 3\nmirroring_delete 5\npacket 0 06 00 0000 00000000\n"
                               "expect 2 06\nno_packet\n"),
              IsEmpty());
}

TEST_F(Stf, ANodeCanBeUpdated) {
  EXPECT_THAT(failures("mc_mgrp_create 1\nmc_node_create 1 4\nmc_node_associate 1 0\nmc_node_update 0 5 6\n"
                       "packet 0 07 00 0000 00000000\nexpect 5 07\nexpect 6 07\nno_packet\n"),
              IsEmpty());
  EXPECT_THAT(failures("mc_node_update 0 5\n"), ElementsAre(HasSubstr("there is no node 0")));
}

TEST_F(Stf, ARegisterHasItsWidthAndItsEnd) {
  EXPECT_THAT(failures("register_write r 0 0xff\npacket 0 08 00 0000 00000000\nexpect 2 08 01\n"), IsEmpty());
  EXPECT_THAT(failures("register_write r 0 0x1ff\n"),
              ElementsAre(HasSubstr("t.stf:1: error: an element of r has 8 bits; the value 0x1ff does not fit")));
  EXPECT_THAT(failures("register_read r 0 256\n"), ElementsAre(HasSubstr("the value 256 does not fit")));
  EXPECT_THAT(failures("register_write r 2 1\n"), ElementsAre(HasSubstr("t.stf:1: error: r has 2 elements")));
  EXPECT_THAT(failures("\nregister_read r 2 0\n"), ElementsAre(HasSubstr("t.stf:2: error: r has 2 elements")));
  EXPECT_THAT(failures("register_read r 2\n"), ElementsAre(HasSubstr("there is no index 2")));
}

// "0x0a**" is 0x0a00/8: the prefix is as long as the digits that are no '*', from the top of the key.
TEST_F(Stf, StarsOfAnLpmKey) {
  EXPECT_THAT(failures("add my_lpm h.h.c:0x0a** my_set(x:7)\npacket 0 01 01 0000 00123456\nexpect 2 01 07\n"
                       "packet 0 01 01 0000 0a123456\nexpect 2 01 01\n"),
              IsEmpty());
  EXPECT_THAT(failures("add my_lpm h.h.c:0x0a****** my_set(x:7)\npacket 0 01 01 0000 0a123456\nexpect 2 01 07\n"),
              IsEmpty());
}

// The digits that are written make the mask, as of a ternary key: the reference compiler calls both ternary.
TEST_F(Stf, AShortValueOfAnOptionalKey) {
  EXPECT_THAT(failures("add my_optional 1 h.h.b:0x05 my_set(x:7)\npacket 0 03 01 1205 00000000\nexpect 2 03 07\n"),
              IsEmpty());
}

constexpr const char* kAddresses = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> mac; bit<32> ip; bit<8> flag; bit<8> result; }
struct H { h_t h; }
struct M { bool is_set; bool is_marked; bit<48> mac; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start { b.extract(h.h); m.is_set = h.h.flag != 0; transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bool>(1) seen;
  action found(bit<8> x, bool marked) { h.h.result = x; m.is_marked = marked; }
  action change(bit<48> mac, bit<32> ip) { h.h.mac = mac; h.h.ip = ip; }
  table macs { key = { h.h.mac : ternary @name("a:b:c"); } actions = { found; change; } }
  table ips { key = { h.h.ip : lpm; } actions = { found; change; } }
  table exact_macs { key = { h.h.mac : exact; } actions = { found; change; } }
  table ranges { key = { h.h.ip : range; } actions = { found; change; } }
  table flags { key = { m.is_set : exact; h.h.isValid() : ternary; } actions = { found; change; } }
  apply {
    s.egress_spec = 2;
    macs.apply(); ips.apply(); exact_macs.apply(); ranges.apply(); flags.apply();
    bool old; seen.read(old, 0);
    if (m.is_marked || old) { h.h.result = h.h.result | 0x80; }
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
)";

std::vector<std::string> failures_of_addresses(const std::string& lines) {
  try {
    return run_stf(compile(kAddresses, "t.p4"), lines, "t.stf").failures;
  } catch (const StfError& error) {
    return {error.what()};
  }
}

TEST_F(Stf, AMacIsAValue) {
  const std::string sent = "packet 0 0b112233445f 01020304 00 00\n";
  const std::string found = sent + "expect 2 0b112233445f 01020304 00 07\n";
  const std::string other = sent + "expect 2 0b112233445f 01020304 00 00\n";
  EXPECT_THAT(failures_of_addresses("add exact_macs h.h.mac:0b:11:22:33:44:5f found(7, false)\n" + found), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add exact_macs mac : 0B:11:22:33:44:5F found(x:7, marked:false)\n" + found),
              IsEmpty());
  EXPECT_THAT(failures_of_addresses("add exact_macs h.h.mac:0b:11:22:33:44:5e found(7, false)\n" + other), IsEmpty());
  // All its bits count, though it begins as a binary number does.
  EXPECT_THAT(failures_of_addresses("add macs 1 \"a:b:c\":0b:11:22:33:44:5f found(7, false)\n" + found), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add macs 1 \"a:b:c\":0b:11:22:33:44:5e found(7, false)\n" + other), IsEmpty());
  EXPECT_THAT(
      failures_of_addresses("add macs 1 \"a:b:c\":0b:11:00:00:00:00&&&ff:ff:00:00:00:00 found(7, false)\n" + found),
      IsEmpty());
  EXPECT_THAT(failures_of_addresses("add macs 1 \"a:b:c\":0x0b1122334400&&&0xffffffffff00 found(7, false)\n" + found),
              IsEmpty());
}

TEST_F(Stf, AnIpAddressIsAValue) {
  const std::string sent = "packet 0 000000000000 0a000105 00 00\n";
  const std::string found = sent + "expect 2 000000000000 0a000105 00 07\n";
  const std::string other = sent + "expect 2 000000000000 0a000105 00 00\n";
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:10.0.1.5 found(7, false)\n" + found), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:10.0.1.4 found(7, false)\n" + other), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:10.0.1.0/24 found(7, false)\n" + found), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:10.0.2.0/24 found(7, false)\n" + other), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add ranges 1 h.h.ip:10.0.1.1..10.0.1.9 found(7, false)\n" + found), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add ranges 1 h.h.ip:10.0.1.6..10.0.1.9 found(7, false)\n" + other), IsEmpty());
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:10.0.1 found(7, false)\n"), ElementsAre(HasSubstr("not a number")));
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:10.0.1.256 found(7, false)\n"),
              ElementsAre(HasSubstr("not a number")));
}

TEST_F(Stf, AddressesAreArguments) {
  const std::string test = "packet 0 000000000000 00000000 00 00\nexpect 2 020304050607 c0a80001 00 00\n";
  EXPECT_THAT(failures_of_addresses("setdefault ips change(mac:02:03:04:05:06:07, ip:192.168.0.1)\n" + test),
              IsEmpty());
  EXPECT_THAT(failures_of_addresses("setdefault ips change(02:03:04:05:06:07, 192.168.0.1)\n" + test), IsEmpty());
}

TEST_F(Stf, TruthIsAValueOfOneBit) {
  const std::string set = "packet 0 000000000000 00000000 01 00\n";
  const std::string unset = "packet 0 000000000000 00000000 00 00\n";
  const std::string add = "add flags 1 m.is_set:true h.h.isValid():true found(x:7, marked:true)\n";
  EXPECT_THAT(failures_of_addresses(add + set + "expect 2 000000000000 00000000 01 87\n" + unset +
                                    "expect 2 000000000000 00000000 00 00\n"),
              IsEmpty());
  EXPECT_THAT(failures_of_addresses("add flags 1 m.is_set:false found(7, false)\n" + unset +
                                    "expect 2 000000000000 00000000 00 07\n"),
              IsEmpty());
  EXPECT_THAT(failures_of_addresses("add flags 1 m.is_set:true h.h.isValid():false found(7, false)\n" + set +
                                    "expect 2 000000000000 00000000 01 00\n"),
              IsEmpty());
  EXPECT_THAT(failures_of_addresses("register_write seen 0 true\n" + unset + "expect 2 000000000000 00000000 00 80\n" +
                                    "register_read seen 0 true\nregister_read seen 0 false\n"),
              ElementsAre(HasSubstr("seen[0] is 0x1, not false")));
  EXPECT_THAT(failures_of_addresses("add flags 1 m.is_set:1 found(true, false)\n"),
              ElementsAre(HasSubstr("'true' is a value of one bit, not of 8")));
}

// All its bits count: a small one is no value of fewer bits either.
TEST_F(Stf, AnAddressNeedsItsBits) {
  EXPECT_THAT(failures_of_addresses("add ips h.h.ip:00:00:00:00:00:05 found(7, false)\n"),
              ElementsAre(HasSubstr("'00:00:00:00:00:05' has 48 bits; its place has 32")));
  EXPECT_THAT(failures_of_addresses("setdefault ips found(0.0.0.7, false)\n"),
              ElementsAre(HasSubstr("'0.0.0.7' has 32 bits; its place has 8")));
  EXPECT_THAT(failures("register_write r 0 0.0.0.1\n"), ElementsAre(HasSubstr("has 32 bits; its place has 8")));
  EXPECT_THAT(failures_of_addresses("add exact_macs h.h.mac:0.0.0.5 found(7, false)\n"), IsEmpty());
}

TEST_F(Stf, AMaskIsForKeysThatHaveOne) {
  EXPECT_THAT(failures("add my_exact h.h.a:0x15/4 my_set(x:7)\n"),
              ElementsAre(HasSubstr("the key h.h.a is exact, so its value has no '/'")));
  EXPECT_THAT(failures("add my_exact h.h.a:0x15&&&0xf0 my_set(x:7)\n"), ElementsAre(HasSubstr("has no '&&&'")));
  EXPECT_THAT(failures_of_addresses("add ranges 1 h.h.ip:10.0.1.0/24 found(7, false)\n"),
              ElementsAre(HasSubstr("the key h.h.ip is range, so its value has no '/'")));
  EXPECT_THAT(failures_of_addresses("add ranges 1 h.h.ip:10.0.1.0&&&255.0.0.0 found(7, false)\n"),
              ElementsAre(HasSubstr("has no '&&&'")));
  EXPECT_THAT(failures("add my_exact h.h.a:0x15/8 my_set(x:7)\npacket 0 00 15 0000 00000000\nexpect 2 00 07\n"),
              IsEmpty());
}

TEST_F(Stf, ValuesThatTheKeyCannotHave) {
  EXPECT_THAT(failures("add my_exact h.h.a:0x1* my_set(x:7)\n"), ElementsAre(HasSubstr("has no '*'")));
  EXPECT_THAT(failures("add my_ternary 1 h.h.b:5 my_set(x:7)\n"), ElementsAre(HasSubstr("write its value with 0x")));
  EXPECT_THAT(failures("add my_optional 1 h.h.b:5 my_set(x:7)\n"), ElementsAre(HasSubstr("write its value with 0x")));
}

// None is cut to what fits: it would match other packets. As in the reference runner, a value has whole bytes.
TEST_F(Stf, NumbersThatDoNotFit) {
  EXPECT_THAT(failures("add my_exact h.h.a:0x101 my_set(x:7)\n"), ElementsAre(HasSubstr("does not fit its 8 bits")));
  EXPECT_THAT(failures("add my_exact h.h.a:257 my_set(x:7)\n"), ElementsAre(HasSubstr("does not fit its 8 bits")));
  EXPECT_THAT(failures("add my_lpm h.h.c:0x10a000000/8 my_set(x:7)\n"), ElementsAre(HasSubstr("does not fit")));
  EXPECT_THAT(failures("add my_ternary 1 h.h.b:0x0005&&&0x1ffff my_set(x:7)\n"), ElementsAre(HasSubstr("not fit")));
  EXPECT_THAT(failures("add my_ternary 1 h.h.b:0x1**** my_set(x:7)\n"), ElementsAre(HasSubstr("does not fit")));
  EXPECT_THAT(failures("add my_ternary 1 h.h.b:0xg* my_set(x:7)\n"), ElementsAre(HasSubstr("is not a number")));
  EXPECT_THAT(failures("add my_exact h.h.a:0x100000000000000000000000000000001 my_set(x:7)\n"),
              ElementsAre(HasSubstr("has more than 128 bits")));
  EXPECT_THAT(failures("add my_ternary 4294967295 h.h.b:0x0001 my_set(x:7)\n"),
              ElementsAre(HasSubstr("the priority '4294967295' is too large")));
  EXPECT_THAT(failures("mirroring_add 4294967301 3\n"), ElementsAre(HasSubstr("has more than 32 bits")));
  // The key has one bit of its byte; the reference switch drops the others.
  EXPECT_THAT(failures("add my_validity h.h.$valid$:0x03 my_set(x:7)\npacket 0 04 01 0000 00000000\nexpect 2 04 07\n"),
              IsEmpty());
}

// An exact key that is left out is 0, as in the reference runner (p4c, bmv2stf.py), whose tests may rely on it.
TEST_F(Stf, EachKeyHasOneValue) {
  EXPECT_THAT(failures("add my_exact my_set(x:7)\npacket 0 00 00 0000 00000000\nexpect 2 00 07\n"), IsEmpty());
  EXPECT_THAT(failures("add my_exact h.h.a:1 a:2 my_set(x:7)\n"), ElementsAre(HasSubstr("h.h.a is given twice")));
  EXPECT_THAT(failures("add my_exact h.h.a:1 my_set(x:7, x:8)\n"),
              ElementsAre(HasSubstr("the argument for x of I.my_set is given twice")));
  EXPECT_THAT(failures("add my_lpm my_set(x:7)\npacket 0 01 01 0000 0a123456\nexpect 2 01 07\n"), IsEmpty());
}

TEST_F(Stf, NamesHaveNoSpaces) {
  EXPECT_THAT(failures("add my_exact h.h.a:1 my _set(x:7)\n"), ElementsAre(HasSubstr("expected KEY:VALUE")));
  EXPECT_THAT(failures("setdefault my_exact my _set(x:7)\n"),
              ElementsAre(HasSubstr("'my _set' has spaces: put a name that has them in quotes")));
  EXPECT_THAT(failures("add my_exact h.h.a:1 odd(y z:7)\n"), ElementsAre(HasSubstr("'odd'")));
  EXPECT_THAT(failures("add \"<>/(a, b)|#:1\" \"a | b & c:d\":5 \"x()#\"(y z:7)\n"),
              ElementsAre(HasSubstr("'y z' has spaces")));
  EXPECT_THAT(failures("setdefault my_exact my_set(1 2)\n"), ElementsAre(HasSubstr("'1 2' is not a number")));
  EXPECT_THAT(failures("check_counter coun ted(0)\n"), ElementsAre(HasSubstr("'coun ted' has spaces")));
}

TEST_F(Stf, NothingFollowsACommand) {
  for (const auto& [line, error] : std::vector<std::pair<std::string, std::string>>{
           {"check_counter counted(0) foo", "a counter has 'packets' and 'bytes', no 'foo'"},
           {"check_counter counted(0) packets", "an argument is missing"},
           {"check_counter counted(0) packets = 0", "'=' is none of ==, !=, <, <=, > and >="},
           {"check_counter counted(0) packets == 0 0", "'0' is too much after the number"},
           {"remove", "an argument is missing"},
           {"remove my_exact", "there is only 'remove all', no 'remove my_exact'"},
           {"remove all now", "'now' is too much: remove takes 1 word at most"},
           {"wait 5", "'5' is too much: wait takes no word at most"},
           {"no_packet 2", "'2' is too much"},
           {"register_write r 0 1 2", "'2' is too much: register_write takes 3 words at most"},
           {"register_read r 0 1 2", "'2' is too much"},
           {"register_reset r 0", "'0' is too much"},
           {"counter_reset counted 0", "'0' is too much"},
           {"counter_write counted 0 1 2 3", "'3' is too much"},
           {"mirroring_add 5 3 1", "'1' is too much"},
           {"mc_mgrp_create 1 2", "'2' is too much"},
           {"add my_exact h.h.a:1 my_set(x:7) now", "nothing but '= NAME' may follow the action, not 'now'"},
           {"setdefault my_exact my_set(x:7) now", "nothing may follow the action, not 'now'"}}) {
    EXPECT_THAT(failures("\n" + line + "\n"), ElementsAre(HasSubstr("t.stf:2: error: " + error))) << line;
  }
  EXPECT_THAT(failures("add my_exact h.h.a:1 my_set(x:7) = one\npacket 0 00 01 0000 00000000\nexpect 2 00 07\n"),
              IsEmpty());
}

TEST_F(Stf, ALongLineIsRead) {
  const std::string blanks(300'000, ' ');
  EXPECT_THAT(failures("add my_exact" + blanks + "h.h.a" + blanks + ":" + blanks +
                       "0x01 my_set(x:7)\n"
                       "packet 0 00 01 0000 00000000\nexpect 2 00 07\n"),
              IsEmpty());
  EXPECT_THAT(failures("add my_validity h.h.isValid" + blanks + "(" + blanks +
                       ") : 1 my_set(x:7)\n"
                       "packet 0 04 01 0000 00000000\nexpect 2 04 07\n"),
              IsEmpty());
}

TEST_F(Stf, SpacesAreFree) {
  EXPECT_THAT(failures("add my_exact h.h.a : 0x01 my_set ( x : 7 )\n"
                       "add my_ternary 1 h.h.b :0x0005 &&& 0x000f my_set(x:8)\n"
                       "add my_lpm h.h.c: 0x0a000000 / 8 my_set(x:9)\n"
                       "packet 0 00 01 0000 00000000\nexpect 2 00 07\n"
                       "packet 0 02 00 0015 00000000\nexpect 2 02 08\n"
                       "packet 0 01 00 0000 0affffff\nexpect 2 01 09\n"),
              IsEmpty());
}

TEST_F(Stf, ANameMayBeAnyEndOfTheFullOne) {
  EXPECT_THAT(failures("add exact h.h.a:0x01 set(x:7)\npacket 0 00 01 0000 00000000\nexpect 2 00 07\n"), IsEmpty());
  EXPECT_THAT(failures("add y h.h.a:0x01 set(x:7)\n"), ElementsAre(HasSubstr("'y' may be")));
  EXPECT_THAT(failures("add other h.h.a:0x01 set(x:7)\n"), ElementsAre(HasSubstr("there is no table 'other'")));
}

TEST_F(Stf, ValidityAsAKey) {
  for (const std::string key : {"valid", "h.h.valid", "h.h.$valid$", "h.h.isValid()", "isValid ( )", "h.h"}) {
    EXPECT_THAT(failures("add my_validity " + key + ":1 my_set(x:7)\npacket 0 04 01 0000 00000000\nexpect 2 04 07\n"),
                IsEmpty())
        << key;
  }
}

TEST_F(Stf, Counters) {
  EXPECT_THAT(failures("add with_counter h.h.a:0x01 NoAction()\nadd with_counter h.h.a:0x02 NoAction()\n"
                       "packet 0 05 02 0000 00000000\nexpect 2 05 02\n"
                       "check_counter direct(0) packets == 0\ncheck_counter direct(1) packets == 1\n"
                       "check_counter direct(1) bytes == 8\ncounter_write counted 1 3 40\n"
                       "check_counter counted(1) packets == 3\ncheck_counter counted(1) bytes == 40\n"),
              IsEmpty());
  EXPECT_THAT(failures("check_counter direct(0) packets == 0\n"), ElementsAre(HasSubstr("has no entry 0")));
  EXPECT_THAT(failures("check_counter counted(2) packets == 0\n"), ElementsAre(HasSubstr("counted has 2 counters")));
}

// The reference compiler's grammar lets an entry have a name, which stands for it where it is counted.
TEST_F(Stf, ANamedEntryIsCounted) {
  EXPECT_THAT(failures("add with_counter h.h.a:0x01 NoAction() = one\nadd with_counter h.h.a:0x02 NoAction() =$two\n"
                       "packet 0 05 02 0000 00000000\nexpect 2 05 02\n"
                       "check_counter direct($one) packets == 0\ncheck_counter direct($two) packets == 1\n"
                       "check_counter direct( two ) bytes == 8\ncheck_counter I.direct($one)\n"),
              IsEmpty());
  EXPECT_THAT(failures("check_counter direct($one)\n"), ElementsAre(HasSubstr("there is no entry '$one'")));
  EXPECT_THAT(failures("add my_exact h.h.a:0x01 my_set(x:7) = one\ncheck_counter direct($one)\n"),
              ElementsAre(HasSubstr("'$one' is no entry of the table that direct counts")));
  EXPECT_THAT(failures("add with_counter h.h.a:0x01 NoAction() = one\ncheck_counter counted($one)\n"),
              ElementsAre(HasSubstr("'$one' is no entry of the table that counted counts")));
  EXPECT_THAT(failures("add my_exact h.h.a:0x01 my_set(x:7) = one two\n"),
              ElementsAre(HasSubstr("nothing but '= NAME' may follow the action, not '= one two'")));
}

// "Never" is 0 to many programs, so the first packet must not come at 0; and one that waits must see time pass. The
// switch counts in microseconds.
TEST_F(Stf, TimePasses) {
  EXPECT_THAT(failures("packet 0 09 00 0000 00000000\nexpect 2 09 00 0000 000f4240 $\n"
                       "packet 0 09 00 0000 00000000\nexpect 2 09 00 0000 000003e8 $\n"),
              IsEmpty());
}

// The reference's generator of tests writes all names so.
TEST_F(Stf, NamesInQuotes) {
  EXPECT_THAT(failures("add \"I.my_exact\" \"h.h.a\":0x05 \"I.my_set\"(\"x\":0x07)\n"
                       "packet 0 00 05 0000 00000000\nexpect 2 00 07 0000 00000000$\n"),
              IsEmpty());
  EXPECT_THAT(failures("add \"I.my_validity\" \"h.h.isValid()\":1 \"my_set\"(\"x\":7)  # \"\n"
                       "packet 0 04 05 0000 00000000\nexpect 2 04 07 0000 00000000$\n"),
              IsEmpty());
  EXPECT_THAT(failures("setdefault \"my_lpm\" \"my_set\"(\"x\":9)\n"
                       "packet 0 01 05 0000 00000000\nexpect 2 01 09 0000 00000000$\n"),
              IsEmpty());
  EXPECT_THAT(failures("add \"I.my_exact h.h.a:5 my_set(7)\n"), ElementsAre(HasSubstr("'\"' is missing")));
}

// What has a meaning in a line has none in a name between quotes.
TEST_F(Stf, NamesInQuotesMayHaveAnyCharacters) {
  EXPECT_THAT(failures("add \"I.<>/(a, b)|#:1\" \"a | b & c:d\":0x05 \"x()#\"(\"y, z\":0x07)\n"
                       "packet 0 0a 05 0000 00000000\nexpect 2 0a 07 0000 00000000$\n"),
              IsEmpty());
  EXPECT_THAT(failures("add \"I.no#ne\" k:1 f()\n"), ElementsAre(HasSubstr("there is no table 'I.no#ne'")));
}

TEST_F(Stf, WhatIsNotMetAndWhatIsUnknown) {
  EXPECT_THAT(failures("packet 0 0a 00 0000 00000000\nexpect 2 0b\n"), ElementsAre(HasSubstr("differs in byte 0")));
  EXPECT_THAT(failures("meter_set_rates m 0 1:1\n"),
              ElementsAre(HasSubstr("there is no command 'meter_set_rates'; there are: add, setdefault, ")));
}

}  // namespace
}  // namespace sidelatch::p4
