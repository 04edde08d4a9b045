// State as a value: what copies share, what is equal, what has the same hash.
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/state.h>
#include <sidelatch/p4/switch.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace sidelatch::p4 {
namespace {

constexpr const char* kStateProgram = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<32> b; }
struct H { h_t h; }
struct M {}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start { b.extract(h.h); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bit<12>>(4) narrow;
  register<bit<72>>(2) wide;
  register<bit<64>>(2) whole;
  counter(2, CounterType.packets) counted;
  action set(bit<8> x) { h.h.a = x; }
  table exact_table { key = { h.h.a : exact; h.h.b : exact; } actions = { set; NoAction; } }
  table large { key = { h.h.b : exact; } actions = { set; NoAction; } size = 100000; }
  table lpm_table { key = { h.h.b : lpm; } actions = { set; NoAction; } }
  table ternary_table { key = { h.h.b : ternary; } actions = { set; NoAction; } }
  table grouped {
    key = { h.h.a : exact; h.h.b : selector; }
    actions = { set; NoAction; }
    implementation = action_selector(HashAlgorithm.crc16, 4, 4);
  }
  apply {
    s.egress_spec = 1;
    counted.count(0);
    exact_table.apply();
    large.apply();
    lpm_table.apply();
    ternary_table.apply();
    grouped.apply();
    narrow.write(0, (bit<12>)h.h.a);
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
)";

class StateValue : public testing::Test {
 protected:
  [[nodiscard]] State fresh() const { return State(program_->info()); }

  static void expect_same(const State& a, const State& b) {
    EXPECT_TRUE(a == b);
    EXPECT_TRUE(b == a);
    EXPECT_EQ(a.hash(), b.hash());
  }
  // Different hashes are no promise, but with a 64-bit hash a collision here would be a defect.
  static void expect_different(const State& a, const State& b) {
    EXPECT_FALSE(a == b);
    EXPECT_FALSE(b == a);
    EXPECT_NE(a.hash(), b.hash());
  }

  std::shared_ptr<const Program> program_ = compile(kStateProgram, "state.p4");
};

TEST(ASwitch, NeedsAProgram) { EXPECT_THROW(Switch(nullptr, {.ports = 2}), ControlError); }

TEST_F(StateValue, FreshStatesAreEqual) { expect_same(fresh(), fresh()); }

TEST_F(StateValue, ACopySharesNothing) {
  State one = fresh();
  one.table("exact_table").add({{.value = 1}, {.value = 2}}, "set", {3});
  State other = one;
  expect_same(one, other);
  other.reg("narrow").write(1, 5);
  expect_different(one, other);
  EXPECT_EQ(one.reg("narrow").read(1), U128{0});
  other.reg("narrow").write(1, 0);
  expect_same(one, other);
  other.table("exact_table").add({{.value = 2}, {.value = 2}}, "set", {3});
  expect_different(one, other);
  EXPECT_EQ(one.table("exact_table").size(), 1U);
  const std::array<U128, 2> added{2, 2};
  EXPECT_EQ(one.table("exact_table").find(added.data()), nullptr);
  EXPECT_NE(other.table("exact_table").find(added.data()), nullptr);
  one = other;
  expect_same(one, other);
}

TEST_F(StateValue, EveryPartOfARegisterCounts) {
  for (const auto& [name, index, value] : {std::tuple{"narrow", 3U, U128{0x800}}, std::tuple{"wide", 1U, U128{1} << 71},
                                           std::tuple{"wide", 0U, U128{1}}, std::tuple{"whole", 1U, U128{1} << 63}}) {
    State changed = fresh();
    changed.reg(name).write(index, value);
    EXPECT_EQ(changed.reg(name).read(index), value);
    expect_different(fresh(), changed);
  }
  State first = fresh();
  State second = fresh();
  first.reg("narrow").write(0, 1);
  second.reg("narrow").write(1, 1);
  expect_different(first, second);
}

// A program assumes of a bit<N> that it is below 2^N.
TEST_F(StateValue, ARegisterCutsWhatIsWrittenToItsWidth) {
  State state = fresh();
  state.reg("narrow").write(0, 0x1fff);
  EXPECT_EQ(state.reg("narrow").read(0), U128{0xfff});
  state.reg("wide").write(0, ~U128{0});
  EXPECT_EQ(state.reg("wide").read(0), ones(72));
  state.reg("whole").write(1, ~U128{0});
  EXPECT_EQ(state.reg("whole").read(1), ones(64));
  state.reg("narrow").write(4, 1);  // beyond the end
  EXPECT_EQ(state.reg("narrow").read(4), U128{0});
}

TEST_F(StateValue, EntriesThatExcludeEachOtherHaveNoOrder) {
  State one = fresh();
  State other = fresh();
  one.table("exact_table").add({{.value = 1}, {.value = 2}}, "set", {3});
  one.table("exact_table").add({{.value = 2}, {.value = 2}}, "set", {4});
  other.table("exact_table").add({{.value = 2}, {.value = 2}}, "set", {4});
  other.table("exact_table").add({{.value = 1}, {.value = 2}}, "set", {3});
  expect_same(one, other);
  const U128 eight = U128{0xff000000};
  one.table("lpm_table").add({{0x0a000000, eight}}, "set", {1});
  one.table("lpm_table").add({{0x0b000000, eight}}, "set", {2});
  other.table("lpm_table").add({{0x0b000000, eight}}, "set", {2});
  other.table("lpm_table").add({{0x0a000000, eight}}, "set", {1});
  expect_same(one, other);
}

TEST_F(StateValue, OfEqualPriorityTheOlderCountsSoTheOrderIsContent) {
  State one = fresh();
  State other = fresh();
  const Match low{0x01, 0x0f};
  const Match high{0x10, 0xf0};
  one.table("ternary_table").add({low}, "set", {1}, 5);
  one.table("ternary_table").add({high}, "set", {2}, 5);
  other.table("ternary_table").add({high}, "set", {2}, 5);
  other.table("ternary_table").add({low}, "set", {1}, 5);
  expect_different(one, other);
  const std::array<U128, 1> both{0x11};
  EXPECT_EQ(one.table("ternary_table").find(both.data())->arguments.at(0), U128{1});
  EXPECT_EQ(other.table("ternary_table").find(both.data())->arguments.at(0), U128{2});
}

TEST_F(StateValue, ArgumentsActionsAndDefaultsCount) {
  State one = fresh();
  const EntryHandle handle = one.table("exact_table").add({{.value = 1}, {.value = 2}}, "set", {3});
  State other = one;
  other.table("exact_table").modify(handle, "set", {4});
  expect_different(one, other);
  other.table("exact_table").modify(handle, "NoAction", {});
  expect_different(one, other);
  other.table("exact_table").modify(handle, "set", {3});
  expect_same(one, other);
  other.table("lpm_table").set_default("set", {9});
  expect_different(one, other);
  other.table("lpm_table").set_default("NoAction");
  expect_same(one, other);
  other.table("exact_table").remove(handle);
  expect_different(one, other);
}

TEST_F(StateValue, TheActionsOfAGroupCountAndTheirOrder) {
  const auto with = [&](std::vector<ActionCall> group) {
    State made = fresh();
    Entry entry;
    entry.keys = {{.value = 1}};
    entry.group = std::move(group);
    made.table("grouped").add(entry);
    return made;
  };
  const std::size_t set = fresh().table("grouped").action_number("set");
  const std::size_t nothing = fresh().table("grouped").action_number("NoAction");
  const State one = with({{set, {3}}, {nothing, {}}});
  expect_same(one, with({{set, {3}}, {nothing, {}}}));
  expect_different(one, with({{nothing, {}}, {set, {3}}}));
  expect_different(one, with({{set, {4}}, {nothing, {}}}));
  expect_different(one, with({{set, {3}}}));
  // One action instead of the group.
  State other = one;
  const EntryHandle handle = other.table("grouped").rows().at(0).handle;
  other.table("grouped").modify(handle, "set", {3});
  State plain = fresh();
  plain.table("grouped").add({{.value = 1}}, "set", {3});
  expect_same(other, plain);
}

// A packet sees no counter, so two runs that differ in nothing else are the same state to an explorer.
TEST_F(StateValue, CountersDoNotCount) {
  Switch device(program_);
  const State before = device.state();
  const std::array<std::byte, 5> packet{};
  device.receive(0, packet);
  ASSERT_TRUE(device.run());
  EXPECT_EQ(device.state().counter("counted").at(0).packets, 1U);
  expect_same(before, device.state());
}

// Against a map. The keys are few, so that entries come and go beside each other.
TEST_F(StateValue, AnExactTableHasWhatWasAddedAndNotRemoved) {
  State state = fresh();
  TableState& table = state.table("exact_table");
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<EntryHandle, U128>> expected;
  std::mt19937 random(7);
  for (int step = 0; step < 20'000; ++step) {
    const std::pair<std::uint64_t, std::uint64_t> key{random() % 4, random() % 64};
    const U128 argument = random() % 256;
    const auto there = expected.find(key);
    if (there == expected.end()) {
      const EntryHandle handle = table.add({{.value = key.first}, {.value = key.second}}, "set", {argument});
      expected[key] = {handle, argument};
    } else if (random() % 3 == 0) {
      EXPECT_THROW(table.add({{.value = key.first}, {.value = key.second}}, "set", {argument}), ControlError);
      table.modify(there->second.first, "set", {argument});
      there->second.second = argument;
    } else {
      table.remove(there->second.first);
      EXPECT_THROW(table.remove(there->second.first), ControlError);
      EXPECT_EQ(table.count(there->second.first), nullptr);
      expected.erase(there);
    }
    ASSERT_EQ(table.size(), expected.size());
    const std::array<U128, 2> looked_up{random() % 4, random() % 64};
    const auto found =
        expected.find({static_cast<std::uint64_t>(looked_up[0]), static_cast<std::uint64_t>(looked_up[1])});
    const TableState::Row* const row = table.find(looked_up.data());
    ASSERT_EQ(row != nullptr, found != expected.end()) << "step " << step;
    if (row != nullptr) {
      ASSERT_EQ(row->handle, found->second.first);
      ASSERT_EQ(row->arguments.at(0), found->second.second);
      ASSERT_EQ(table.count(row->handle), &row->count);
    }
  }
  TableState other = fresh().table("exact_table");
  for (const auto& [key, entry] : expected) {
    other.add({{.value = key.first}, {.value = key.second}}, "set", {entry.second});
  }
  EXPECT_TRUE(table == other);
  if (!expected.empty()) {
    other.modify(other.rows().front().handle, "NoAction", {});
    EXPECT_FALSE(table == other);
  }
}

// A table of 100 000 entries takes as many steps, not the square of them: with the square this test would take minutes.
TEST_F(StateValue, ALargeTableIsFilledAndEmptied) {
  State state = fresh();
  TableState& table = state.table("large");
  std::vector<EntryHandle> handles;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    handles.push_back(table.add({{.value = i * 2654435761U}}, "set", {i % 256}));
  }
  EXPECT_THROW(table.add({{.value = 3}}, "set", {3}), ControlError);
  EXPECT_TRUE(table == TableState(table));
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const std::array<U128, 1> key{i * 2654435761U};
    const TableState::Row* const row = table.find(key.data());
    ASSERT_NE(row, nullptr);
    ASSERT_EQ(row->handle, handles[i]);
    table.remove(handles[i]);
    ASSERT_EQ(table.find(key.data()), nullptr);
  }
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace sidelatch::p4
