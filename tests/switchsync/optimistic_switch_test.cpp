// The control plane of p4/switch_optimistic.p4 and p4/switch_tuples.p4: what it refuses, and how it reads versions
// back.
#include <sidelatch/switchsync/optimistic_switch.h>

#include "tests/message_of.h"
#include "tests/paths.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace control_plane {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr Ipv4Address kClient{10, 0, 0, 1};
constexpr Ipv4Address kMemory{10, 0, 0, 2};

struct Bench {
  explicit Bench(const char* program)
      : device(p4::compile_file(in_source_tree("p4/") + program), {.ports = 2}), control(device.state()) {}
  static SwitchTuples tuples() {
    return {.memory_node = kMemory,
            .rkey = 7,
            .address = 4096,
            .count = 100,
            .tuple_bytes = 48,
            .slot_bytes = 64,
            .is_new = true};
  }
  static SwitchConnection pair(std::uint32_t number) {
    return {.client = kClient,
            .client_queue_pair = number,
            .client_psn = 0xfffffe,
            .memory_node = kMemory,
            .memory_queue_pair = number + 1000};
  }
  p4::Switch device;
  OptimisticSwitch control;
};

class OptimisticSwitchOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, OptimisticSwitchOf, testing::Values("switch_optimistic.p4", "switch_tuples.p4"),
                         [](const auto& one) {
                           const std::string name = one.param;
                           return name.substr(0, name.find('.'));
                         });

TEST_P(OptimisticSwitchOf, SaysWhatIsWrongWithTuples) {
  Bench bench(GetParam());
  const auto refused = [&](auto change) {
    SwitchTuples tuples = Bench::tuples();
    change(tuples);
    return message_of([&] { bench.control.add_tuples(tuples); });
  };
  EXPECT_THAT(refused([](SwitchTuples& t) { t.tuple_bytes = 8; }), HasSubstr("tuple_bytes 8: a multiple of 8"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.tuple_bytes = 44; }), HasSubstr("tuple_bytes 44"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.tuple_bytes = t.slot_bytes = 2048; }),
              HasSubstr("tuple_bytes 2048: longer than the path MTU of 1024"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.slot_bytes = 96; }), HasSubstr("slot_bytes 96: a power of two"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.slot_bytes = 32; }), HasSubstr("slot_bytes 32"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.address = 4100; }), HasSubstr("address 0x1004"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.path_mtu = 1500; }), HasSubstr("path_mtu 1500"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.count = 0; }), HasSubstr("count 0"));
  const std::string room = std::string(GetParam()) == "switch_tuples.p4" ? "65536" : "262144";
  EXPECT_THAT(refused([](SwitchTuples& t) { t.count = 300'000; }), HasSubstr("versions for " + room + " more tuples"));
  EXPECT_EQ(bench.control.add_tuples(Bench::tuples()), 0U);
  EXPECT_THAT(refused([](SwitchTuples& t) { t.address += 64 * 99; }), HasSubstr("overlap with those from 0x1000 on"));
  EXPECT_THAT(refused([](SwitchTuples& t) { t.slot_bytes = std::uint64_t{1} << 62; }), HasSubstr("beyond 2^64"));
  SwitchTuples second = Bench::tuples();
  second.rkey = 8;
  second.address += 64 * 100;
  EXPECT_EQ(bench.control.add_tuples(second), 100U);
}

TEST_P(OptimisticSwitchOf, SaysWhatIsWrongWithConnections) {
  Bench bench(GetParam());
  const auto refused = [&](auto change) {
    SwitchConnection pair = Bench::pair(1);
    change(pair);
    return message_of([&] { bench.control.connect(pair); });
  };
  EXPECT_THAT(refused([](SwitchConnection& c) { c.client_psn = 1U << 24; }), HasSubstr("client_psn 0x1000000"));
  EXPECT_THAT(refused([](SwitchConnection& c) { c.memory_queue_pair = ~0U; }), HasSubstr("memory_queue_pair"));
  const auto first = bench.control.connect(Bench::pair(1));
  EXPECT_THROW((void)bench.control.connect(Bench::pair(1)), p4::ControlError);
  SwitchConnection half = Bench::pair(1);
  half.memory_queue_pair = 5;  // the client's end is known: nothing of it stays
  EXPECT_THROW((void)bench.control.connect(half), p4::ControlError);
  EXPECT_EQ(bench.device.state().table("connections").size(), 2U);
  EXPECT_THROW((void)bench.control.release(first), std::logic_error);
  EXPECT_THROW(bench.control.fence(first + 1), std::invalid_argument);
  bench.control.fence(first);
  bench.control.fence(first);
  EXPECT_THAT(bench.control.release(first).tuples, IsEmpty());
  EXPECT_THROW((void)bench.control.release(first), std::invalid_argument);
  EXPECT_EQ(bench.device.state().table("connections").size(), 0U);
  EXPECT_NE(bench.control.connect(Bench::pair(1)), first);
  EXPECT_THROW(bench.control.fence(first), std::invalid_argument);
  EXPECT_THAT(message_of([&] { bench.control.add_tuples(Bench::tuples()); }), HasSubstr("has connections already"));
  EXPECT_THAT(message_of([&] { OptimisticSwitch second(bench.device.state()); }), HasSubstr("the switch is in use"));
}

TEST(OptimisticSwitch, AnotherProgramIsRefused) {
  p4::Switch device(p4::compile_file(in_source_tree("p4/l2_l3.p4")), {.ports = 2});
  EXPECT_THROW(OptimisticSwitch control(device.state()), p4::ControlError);
}

TEST(OptimisticSwitch, EpochsOnlyGrow) {
  EXPECT_EQ(next_epoch({}), std::uint64_t{1} << 32);
  const std::vector<std::uint64_t> headers{4, (std::uint64_t{7} << 32) + 10, std::uint64_t{3} << 32};
  EXPECT_EQ(next_epoch(headers), std::uint64_t{8} << 32);
  const std::vector<std::uint64_t> last{~std::uint64_t{0} - 1};
  EXPECT_THROW((void)next_epoch(last), std::overflow_error);
}

TEST_P(OptimisticSwitchOf, RecoveryReadsTheVersionsBackAndBeginsAnEpoch) {
  Bench bench(GetParam());
  SwitchTuples tuples = Bench::tuples();
  tuples.is_new = false;
  const std::uint32_t first = bench.control.add_tuples(tuples);
  fabric::sim::Simulation fabric({});
  fabric::Node& client = fabric.add_node("control plane");
  fabric::Node& storage = fabric.add_node("memory");
  const fabric::MemoryRegion memory = storage.allocate(tuples.count * tuples.slot_bytes, fabric::Access::remote_all);
  for (std::uint64_t t = 0; t < tuples.count; ++t) {
    const std::uint64_t version = t == 63 ? (std::uint64_t{2} << 32) + 6 : 2 * t;
    std::memcpy(memory.bytes().data() + t * tuples.slot_bytes, &version, sizeof version);
  }
  EXPECT_THROW((void)bench.control.connect(Bench::pair(1)), std::logic_error);
  const auto direct = client.connect(storage);
  const fabric::MemoryRegion buffer = client.allocate(100, fabric::Access::local_write);  // less than all headers
  const std::vector<std::uint64_t> found =
      fabric.reactor().run(read_versions(bench.control, first, *direct, memory.remote(), buffer.local()));
  ASSERT_EQ(found.size(), tuples.count);
  for (std::uint64_t t = 0; t < tuples.count; ++t) {
    EXPECT_EQ(found[t], t == 63 ? (std::uint64_t{2} << 32) + 6 : 2 * t);
  }
  fabric.reactor().run(recover(bench.control, first, *direct, memory.remote(), buffer.local()));
  for (std::uint32_t t = 0; t < tuples.count; ++t) {
    std::uint64_t version = 0;
    std::memcpy(&version, memory.bytes().data() + t * tuples.slot_bytes, sizeof version);
    EXPECT_EQ(version, std::uint64_t{3} << 32) << t;
    EXPECT_EQ(bench.control.version(first + t), version) << t;
  }
  EXPECT_THROW(
      fabric.reactor().run(recover(bench.control, first, *direct, memory.remote().subspan(0, 64), buffer.local())),
      std::invalid_argument);
  // A client could hold a version of the epoch before: nothing is changed.
  (void)bench.control.connect(Bench::pair(1));
  EXPECT_THROW(fabric.reactor().run(recover(bench.control, first, *direct, memory.remote(), buffer.local())),
               std::logic_error);
  std::uint64_t kept = 0;
  std::memcpy(&kept, memory.bytes().data(), sizeof kept);
  EXPECT_EQ(kept, std::uint64_t{3} << 32);
}

TEST_P(OptimisticSwitchOf, RowsHaveEpochsOfTheirOwn) {
  Bench bench(GetParam());
  SwitchTuples tuples = Bench::tuples();
  const std::uint32_t first = bench.control.add_tuples(tuples);
  tuples.address += tuples.count * tuples.slot_bytes;
  tuples.rkey = 8;
  const std::uint32_t second = bench.control.add_tuples(tuples);
  constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;
  bench.control.install_version(first, 2 * kEpoch + 4);
  bench.control.install_latched(second, 5 * kEpoch);
  EXPECT_EQ(bench.control.version(first + 99), 2 * kEpoch + 4);
  EXPECT_EQ(bench.control.version(second + 99), 5 * kEpoch + 1);
  bench.control.unlatch(second);
  EXPECT_EQ(bench.control.version(second), 5 * kEpoch);
  EXPECT_THROW(bench.control.unlatch(second), std::logic_error);
  bench.control.remove_tuples(second);
  EXPECT_EQ(bench.control.add_tuples(tuples), second);
  EXPECT_EQ(bench.control.version(second + 99), 0U);
  EXPECT_EQ(bench.control.version(first + 99), 2 * kEpoch + 4);
}

// Whenever the connection ends: the next attempt gives all tuples one version, later than any before.
TEST_P(OptimisticSwitchOf, RecoveryThatIsCutOffIsDoneAgain) {
  int cut_off = 0;
  int done = 0;
  for (int ns = 500; ns < 60'000; ns += 500) {
    Bench bench(GetParam());
    SwitchTuples tuples = Bench::tuples();
    tuples.is_new = false;
    const std::uint32_t first = bench.control.add_tuples(tuples);
    fabric::sim::Simulation fabric({});
    fabric::Node& client = fabric.add_node("control plane");
    fabric::Node& storage = fabric.add_node("memory");
    const fabric::MemoryRegion memory = storage.allocate(tuples.count * tuples.slot_bytes, fabric::Access::remote_all);
    const fabric::MemoryRegion buffer = client.allocate(160, fabric::Access::local_write);
    const auto revoked = client.connect(storage);
    const auto revoke = [](fabric::Reactor* reactor, fabric::Node* node, fabric::QueuePair* pair,
                           int after) -> fabric::Task<void> {
      co_await reactor->sleep(fabric::from_ns(after));
      node->revoke(*pair);
    };
    fabric.reactor().spawn(revoke(&fabric.reactor(), &storage, revoked.get(), ns));
    try {
      fabric.reactor().run(recover(bench.control, first, *revoked, memory.remote(), buffer.local()));
      ++done;
    } catch (const fabric::FabricError&) {
      ++cut_off;
      EXPECT_THROW((void)bench.control.connect(Bench::pair(1)), std::logic_error) << ns;
    }
    std::uint64_t latest = 0;
    for (std::uint64_t t = 0; t < tuples.count; ++t) {
      std::uint64_t version = 0;
      std::memcpy(&version, memory.bytes().data() + t * tuples.slot_bytes, sizeof version);
      latest = std::max(latest, version);
    }
    const auto direct = client.connect(storage);
    fabric.reactor().run(recover(bench.control, first, *direct, memory.remote(), buffer.local()));
    for (std::uint32_t t = 0; t < tuples.count; ++t) {
      std::uint64_t version = 0;
      std::memcpy(&version, memory.bytes().data() + t * tuples.slot_bytes, sizeof version);
      EXPECT_EQ(version, bench.control.version(0)) << ns;
      EXPECT_EQ(version, bench.control.version(first + t)) << ns;
      EXPECT_GT(version, latest) << ns;
    }
  }
  EXPECT_GT(cut_off, 10);
  EXPECT_GT(done, 0);
}

}  // namespace control_plane
}  // namespace
}  // namespace sidelatch::switchsync
