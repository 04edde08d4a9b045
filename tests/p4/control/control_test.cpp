// The control file: what it sets, what it refuses and where, and that a change keeps what it does not name.
#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/control.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>

namespace sidelatch::p4 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kProgram = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<32> b; bit<16> c; bit<8> result; }
struct headers_t { h_t h; }
struct metadata_t {}
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  state start { p.extract(h.h); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  register<bit<8>>(4) memory;
  direct_counter(CounterType.packets) hits;
  action set(bit<8> v, bit<9> port) { h.h.result = v; s.egress_spec = port; hits.count(); }
  action copies(bit<16> group) { s.mcast_grp = group; }
  action plain(bit<8> v) { h.h.result = v; s.egress_spec = 1; }
  table prefix {
    key = { h.h.b: lpm; }
    actions = { set; }
    counters = hits;
    const default_action = set(0, 1);
  }
  table masks { key = { h.h.a: ternary; h.h.c: range; } actions = { plain; copies; NoAction; } default_action = NoAction(); }
  apply {
    prefix.apply();
    masks.apply();
    bit<8> old;
    memory.read(old, 0);
    h.h.a = old;
  }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
)";

// The control file fills a value_set as a table.
constexpr const char* kWithASet = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct metadata_t {}
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  value_set<bit<8>>(4) known;
  state start { p.extract(h.h); transition select(h.h.a) { known: accept; } }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  apply { if (s.parser_error == error.NoError && h.h.isValid()) { s.egress_spec = 1; } }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
)";

// The lowest bits of the second byte choose.
constexpr const char* kWithASelector = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t {}
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  state start { p.extract(h.h); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  action to(bit<9> port) { s.egress_spec = port; }
  action drop() { mark_to_drop(s); }
  table paths {
    key = { h.h.a : exact; h.h.b : selector; }
    actions = { to; drop; @defaultonly NoAction; }
    implementation = action_selector(HashAlgorithm.identity, 8, 8);
    default_action = NoAction();
  }
  table single { key = { h.h.a : exact; } actions = { to; } }
  apply { paths.apply(); }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
)";

std::shared_ptr<const Program> program() { return compile(kProgram, "test.p4"); }

Control read(const Program& program, const std::string& text) {
  return read_control(text, "file.json", program.info(), {1, 2, 3});
}

std::string refusal_of(const std::string& text, const std::shared_ptr<const Program>& of = program()) {
  try {
    static_cast<void>(read(*of, text));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

struct Left {
  std::uint16_t port;
  std::array<unsigned, 8> bytes;
};

std::vector<Left> send(Switch& device, const std::array<unsigned, 8>& packet) {
  std::array<std::byte, 8> bytes{};
  std::ranges::transform(packet, bytes.begin(), [](unsigned one) { return static_cast<std::byte>(one); });
  device.receive(1, bytes);
  device.run();
  std::vector<Left> all;
  while (const auto departed = device.departed()) {
    Left left{departed->port, {}};
    std::ranges::transform(departed->bytes, left.bytes.begin(),
                           [](std::byte one) { return std::to_integer<unsigned>(one); });
    all.push_back(left);
  }
  return all;
}

TEST(Control, EntriesOfEachKindMatchWhatTheySay) {
  const auto of = program();
  Switch device(of, {.ports = 4});
  apply(read(*of, R"({
    "tables": {
      "prefix": {"entries": [
        {"keys": ["10.1.0.0/16"], "action": "set", "arguments": [1, 2]},
        {"keys": {"b": "0x0a010200/24"}, "action": "In.set", "arguments": {"port": 3, "v": "0b10"}}]},
      "In.masks": {
        "default": {"action": "NoAction"},
        "entries": [{"keys": ["0x80&&&0xf0", "5..7"], "action": "plain", "arguments": [9], "priority": 2},
                    {"keys": ["*", "7..7"], "action": "plain", "arguments": [8], "priority": 1}]}
    },
    "registers": {"memory": {"0": 77}}})"),
        device);
  EXPECT_EQ(send(device, {0, 10, 1, 9, 9, 0, 0, 0}).at(0).bytes[7], 1U);
  EXPECT_EQ(send(device, {0, 10, 1, 9, 9, 0, 0, 0}).at(0).port, 2);
  EXPECT_EQ(send(device, {0, 10, 1, 2, 9, 0, 0, 0}).at(0).port, 3);
  EXPECT_EQ(send(device, {0x8f, 10, 1, 2, 9, 0, 7, 0}).at(0).bytes[7], 9U);
  EXPECT_EQ(send(device, {0x7f, 10, 1, 2, 9, 0, 7, 0}).at(0).bytes[7], 8U);
  EXPECT_EQ(send(device, {0x8f, 10, 1, 2, 9, 0, 8, 0}).at(0).bytes[7], 2U);
  EXPECT_EQ(send(device, {0, 11, 0, 0, 0, 0, 0, 0}).at(0).bytes[0], 77U);  // the register
}

// A table with these keys whose action chooses the port.
std::string with_keys(const std::string& keys) {
  std::string text = kWithASet;
  const std::string wanted =
      "  apply { if (s.parser_error == error.NoError && h.h.isValid()) { s.egress_spec = 1; } }\n";
  text.replace(text.find(wanted), wanted.size(),
               "  action to(bit<9> port) { s.egress_spec = port; }\n"
               "  table t { key = { " +
                   keys +
                   " } actions = { to; NoAction; } }\n"
                   "  apply { t.apply(); }\n");
  return text;
}

// Keys that are no plain fields.
TEST(Control, AKeyHasTheNameOfItsExpression) {
  const auto of = compile(with_keys("h.h.a & 0x0F : exact; h.h.a[7:4] : exact; h.h.isValid() : exact;"), "t.p4");
  for (const char* const valid : {"h.h.isValid()", "h.h.$valid$", "isValid()"}) {
    Switch device(of, {.ports = 4});
    apply(read(*of, std::string(R"({"tables": {"t": {"entries": [{"keys": {"h.h.a[7:4]": 3, ")") + valid +
                        R"(": true, "h.h.a & 0xf": 9}, "action": "to", "arguments": [2]}]}}})"),
          device);
    EXPECT_EQ(send(device, {0x39, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 2) << valid;
    EXPECT_EQ(send(device, {0x38, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 0) << valid;
  }
}

// It is none of those that the program writes as isValid().
TEST(Control, AGivenNameMayEndAsAValidity) {
  const auto of = compile(with_keys("h.h.isValid() : exact @name(\"h.h.isValid()\");"), "t.p4");
  for (const char* const name : {"h.h.isValid()", "isValid()"}) {
    Switch device(of, {.ports = 4});
    apply(read(*of, std::string(R"({"tables": {"t": {"entries": [{"keys": {")") + name +
                        R"(": true}, "action": "to", "arguments": [2]}]}}})"),
          device);
    EXPECT_EQ(send(device, {0x39, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 2) << name;
  }
}

TEST(Control, AValueSetIsFilledAsATable) {
  const auto of = compile(kWithASet, "test.p4");
  Switch device(of, {.ports = 4});
  EXPECT_EQ(send(device, {7, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 0);
  apply(read(*of, R"({"tables": {"Parse.known": {"entries": [{"keys": {"key": 7}, "action": "NoAction"}]}}})"), device);
  EXPECT_EQ(send(device, {7, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 1);
  EXPECT_EQ(send(device, {8, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 0);
}

TEST(Control, OfAGroupTheHashChoosesOneAction) {
  const auto of = compile(kWithASelector, "test.p4");
  Switch device(of, {.ports = 4});
  apply(read(*of, R"({"tables": {"paths": {"entries": [
          {"keys": [7], "group": [{"action": "to", "arguments": [1]}, {"action": "to", "arguments": {"port": 2}},
                                  {"action": "drop"}]},
          {"keys": {"a": 8}, "action": "to", "arguments": [3]}]}}})"),
        device);
  EXPECT_EQ(send(device, {7, 0, 0, 0, 0, 0, 0, 0}).at(0).port, 1);
  EXPECT_EQ(send(device, {7, 4, 0, 0, 0, 0, 0, 0}).at(0).port, 2);
  EXPECT_TRUE(send(device, {7, 5, 0, 0, 0, 0, 0, 0}).empty());
  EXPECT_EQ(send(device, {8, 5, 0, 0, 0, 0, 0, 0}).at(0).port, 3);
  EXPECT_EQ(send(device, {9, 5, 0, 0, 0, 0, 0, 0}).at(0).port, 0);
}

TEST(Control, AMistakeInAGroupIsNamedWithItsPlace) {
  const auto of = compile(kWithASelector, "test.p4");
  const auto refused = [&](const std::string& table, const std::string& rest) {
    return refusal_of(R"({"tables": {")" + table + R"(": {"entries": [{"keys": [7], )" + rest + "}]}}}", of);
  };
  EXPECT_EQ(refused("paths", R"("group": [{"action": "to", "arguments": [1]}])"), "accepted");
  EXPECT_THAT(refused("paths", R"("group": [])"), HasSubstr("/entries/0/group: this must be an array"));
  EXPECT_THAT(refused("paths", R"("group": [{"action": "drop"}], "action": "drop")"),
              HasSubstr(R"(it has a "group", so its actions are there)"));
  EXPECT_THAT(refused("paths", R"("group": [{"action": "drop"}, {"action": "to"}])"),
              AllOf(HasSubstr("/entries/0/group/1/arguments"), HasSubstr("1 arguments: port")));
  EXPECT_THAT(refused("paths", R"("group": [{"action": "to", "arguments": [512]}])"),
              HasSubstr("9 bits; the value does not fit"));
  EXPECT_THAT(refused("paths", R"("group": [{"action": "NoAction"}])"), HasSubstr("an entry cannot have this action"));
  EXPECT_THAT(refused("single", R"("group": [{"action": "to", "arguments": [1]}])"),
              HasSubstr("it has no action_selector, so an entry has one action"));
}

TEST(Control, GroupsReachTheirPortsAndEndWithTheFile) {
  const auto of = program();
  Switch device(of, {.ports = 4});
  const std::string table = R"("tables": {"masks": {"default": {"action": "copies", "arguments": [5]}}})";
  const Control first = read(*of, "{" + table + R"(, "multicast": {"5": [1, {"port": 3, "rid": 7}]}})");
  apply(first, device);
  const auto left = send(device, {0, 0, 0, 0, 0, 0, 0, 0});
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].port, 1);
  EXPECT_EQ(left[1].port, 3);
  apply(read(*of, "{" + table + "}"), device, &first);
  EXPECT_TRUE(send(device, {0, 0, 0, 0, 0, 0, 0, 0}).empty());
  EXPECT_EQ(device.drops(Drop::empty_multicast), 1U);
}

TEST(Control, AChangeKeepsRegistersAndCountsThatItDoesNotName) {
  const auto of = program();
  Switch device(of, {.ports = 4});
  const auto entry = [](const char* key, int value) {
    return std::string(R"({"keys": [")") + key + R"("], "action": "set", "arguments": [)" + std::to_string(value) +
           ", 2]}";
  };
  const auto file = [](const std::string& entries) {
    return R"({"tables": {"prefix": {"entries": [)" + entries + "]}}}";
  };
  const Control first = read(*of, file(entry("10.0.0.0/8", 1) + "," + entry("11.0.0.0/8", 1)));
  apply(first, device);
  device.state().reg("memory").write(0, 5);
  EXPECT_EQ(send(device, {0, 10, 0, 0, 0, 0, 0, 0}).at(0).bytes[7], 1U);
  apply(read(*of, file(entry("10.0.0.0/8", 2))), device, &first);
  const auto& rows = device.state().table("prefix").rows();
  ASSERT_EQ(rows.size(), 1U);  // 11.0.0.0/8 is gone
  EXPECT_EQ(rows[0].count.packets, 1U);
  const auto left = send(device, {0, 10, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(left.at(0).bytes[7], 2U);
  EXPECT_EQ(left.at(0).bytes[0], 5U);
}

TEST(Control, AMistakeIsNamedWithItsPlace) {
  const std::string entry = R"({"tables": {"prefix": {"entries": [)";
  EXPECT_THAT(refusal_of("{"), HasSubstr("file.json: "));
  EXPECT_THAT(refusal_of(R"({"tables": {"prefix": {"entries": [
                             {"keys": ["10.1.0.0/16"], "action": "set", "arguments": [1, 2], "priority": 3}]}}})"),
              HasSubstr("/tables/prefix/entries/0/priority: table In.prefix has no ternary"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("file.json: /: this must be an object"));
  EXPECT_THAT(refusal_of(R"({"tabels": {}})"), AllOf(HasSubstr("/tabels"), HasSubstr("tables, registers")));
  EXPECT_THAT(refusal_of(R"({"tables": {"dmac": {}}})"),
              AllOf(HasSubstr("/tables/dmac"), HasSubstr("no table named dmac; there are: In.prefix, In.masks")));
  EXPECT_THAT(refusal_of(R"({"tables": {"prefix": {}, "In.prefix": {}}})"), HasSubstr("given twice"));
  EXPECT_THAT(refusal_of(R"({"tables": {"prefix": {}, "prefix": {}}})"), HasSubstr("given twice"));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["0x1ffffffff/32"], "action": "set", "arguments": [1, 1]}]}}})"),
              AllOf(HasSubstr("/tables/prefix/entries/0"), HasSubstr("32 bits; the value does not fit")));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["10.0.0.0"], "action": "set", "arguments": [1, 1]}]}}})"),
              AllOf(HasSubstr("/tables/prefix/entries/0/keys/0"), HasSubstr("VALUE/BITS")));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["10.0.0.0/33"], "action": "set", "arguments": [1, 1]}]}}})"),
              HasSubstr("0 to 32 bits"));
  EXPECT_THAT(refusal_of(entry + R"({"keys": [1, 2], "action": "set", "arguments": [1, 1]}]}}})"),
              AllOf(HasSubstr("/entries/0/keys"), HasSubstr("1 keys")));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["cat/8"], "action": "set", "arguments": [1, 1]}]}}})"),
              HasSubstr("\"cat\" is no value"));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["1/8"], "action": "sit"}]}}})"),
              AllOf(HasSubstr("/entries/0/action"), HasSubstr("there are: In.set")));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["1/8"], "action": "set", "arguments": [1]}]}}})"),
              HasSubstr("2 arguments: v, port"));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["1/8"], "action": "set", "arguments": [256, 1]}]}}})"),
              HasSubstr("8 bits; the value does not fit"));
  EXPECT_THAT(refusal_of(entry + R"({"keys": ["1/8"], "action": "set", "arguments": [-1, 1]}]}}})"),
              HasSubstr("/arguments/0: this must be a whole number"));
  EXPECT_THAT(refusal_of(R"({"tables": {"prefix": {"default": {"action": "set", "arguments": [0, 1]}}}})"),
              AllOf(HasSubstr("/tables/prefix/default"), HasSubstr("default action is constant")));
  EXPECT_THAT(refusal_of(R"({"registers": {"memory": {"4": 1}}})"),
              AllOf(HasSubstr("/registers/memory/4"), HasSubstr("0 to 3")));
  EXPECT_THAT(refusal_of(R"({"registers": {"memory": [256]}})"), HasSubstr("8 bits"));
  EXPECT_THAT(refusal_of(R"({"counters": ["hats"]})"), AllOf(HasSubstr("/counters/0"), HasSubstr("In.hits")));
  EXPECT_THAT(refusal_of(R"({"multicast": {"1": [4]}})"),
              AllOf(HasSubstr("/multicast/1/0"), HasSubstr("no port 4; it has 1, 2, 3")));
  EXPECT_THAT(refusal_of(R"({"multicast": {"0": [1]}})"), HasSubstr("/multicast/0"));
  EXPECT_THAT(refusal_of(R"({"multicast": {"1": [1], "0x1": [2]}})"), HasSubstr("multicast group 1 is given twice"));
  EXPECT_THAT(refusal_of(R"({"clones": {"100": {"port": 1}, "0x64": {"port": 2}}})"),
              HasSubstr("clone session 100 is given twice"));
  EXPECT_THAT(refusal_of(R"({"generators": {"1": {"port": 9, "interval_ns": 5, "packet": "00"},
                                            "0x1": {"port": 8, "interval_ns": 5, "packet": "00"}}})"),
              HasSubstr("generator 1 is given twice"));
  EXPECT_THAT(refusal_of(R"({"registers": {"memory": [1], "In.memory": [2]}})"),
              HasSubstr("register In.memory is given twice"));
  EXPECT_THAT(refusal_of(R"({"clones": {"1": {"port": 9}}})"), HasSubstr("no port 9"));
  EXPECT_THAT(refusal_of(R"({"clones": {"1": {"group": 2}}})"), HasSubstr("no multicast group 2"));
  EXPECT_EQ(refusal_of("{}"), "accepted");
}

TEST(Control, TheFilesOfTheForwardingProgramAreRight) {
  const auto forwarding = compile_file(in_source_tree("p4/l2_l3.p4"));
  for (const char* const name : {"p4/l2_l3.json", "p4/l2_l3_routed.json"}) {
    std::ifstream file(in_source_tree(name));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NO_THROW(static_cast<void>(read_control(text, name, forwarding->info(), {1, 2}))) << name;
  }
}

}  // namespace
}  // namespace sidelatch::p4
