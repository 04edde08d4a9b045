// A switch on wires: frames pass from one kind to another, a port without room holds its packets, captures give the
// same result each time, and wrong ports are refused.
#include "roce/port/pcap_port.h"
#include "roce/wire/pcap_file.h"
#include "roce/wire/wires.h"

#include "tests/roce/wire/frames.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/wired_switch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace sidelatch::p4 {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace files = std::filesystem;

// What comes at port 1 leaves at port 2, and the other way round. What begins with 05 goes to port 5.
constexpr const char* kPatchPanel = R"(
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> destination; bit<48> source; bit<16> type; }
struct headers_t { ethernet_t e; }
struct metadata_t {}
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  state start { p.extract(h.e); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  apply {
    s.egress_spec = s.ingress_port == 1 ? (bit<9>)2 : 1;
    if (h.e.destination[47:40] == 5) { s.egress_spec = 5; }
  }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.e); } }
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
)";

constexpr roce::MacAddress kLeft{2, 0, 0, 0, 0, 1};
constexpr roce::MacAddress kRight{2, 0, 0, 0, 0, 2};

class WiredSwitches : public ::testing::Test {
 protected:
  WiredSwitches() {
    static std::atomic<int> count = 0;
    name_ = "test-wired-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    folder_ = files::path(::testing::TempDir()) / name_;
    files::create_directory(folder_);
  }
  ~WiredSwitches() override { files::remove_all(folder_); }

  [[nodiscard]] std::string in(const std::string& file) const { return folder_ / file; }
  [[nodiscard]] std::unique_ptr<roce::Wire> station(const std::string& cable, const roce::MacAddress& mac) const {
    return roce::join_cable_wire({.name = cable, .addresses = {.mac = mac, .ipv4 = {10, 0, 0, mac[5]}, .ipv6 = {}}});
  }

  std::shared_ptr<const Program> program_ = compile(kPatchPanel, "patch.p4");
  std::string name_;
  files::path folder_;
};

// Until a frame is there: the switch gets the time that it needs.
std::span<const std::byte> await(WiredSwitch& device, roce::Wire& wire) {
  for (;;) {
    device.serve(1ms);
    if (const auto frame = wire.receive(); !frame.empty()) {
      return frame;
    }
  }
}

TEST_F(WiredSwitches, AFramePassesFromACableToALinkAndBack) {
  WiredSwitch device(program_, {.ports = {{1, "shm:" + name_}, {2, "link:" + in("port") + "," + in("station")}}});
  const auto left = station(name_, kLeft);
  const auto right = roce::open_link_wire({.local_path = in("station"),
                                           .remote_path = in("port"),
                                           .addresses = {.mac = kRight, .ipv4 = {10, 0, 0, 2}, .ipv6 = {}}});
  ASSERT_TRUE(left->send(roce::test_frame(1500, kRight, kLeft, 7)));
  EXPECT_EQ(roce::number_of(await(device, *right)), 7U);
  ASSERT_TRUE(right->send(roce::test_frame(60, kLeft, kRight, 8)));
  const auto back = await(device, *left);
  EXPECT_EQ(roce::number_of(back), 8U);
  EXPECT_TRUE(roce::is_whole(back));
  EXPECT_EQ(device.counters(0).packets_in, 1U);
  EXPECT_EQ(device.counters(0).bytes_out, 60U);
}

TEST_F(WiredSwitches, StationsFindEachOtherThroughTheSwitch) {
  WiredSwitch device(program_, {.ports = {{1, "shm:" + name_ + "-1"}, {2, "shm:" + name_ + "-2"}}});
  const auto left = station(name_ + "-1", kLeft);
  const auto right = station(name_ + "-2", kRight);
  const roce::Gid wanted = roce::gid_of(roce::Ipv4Address{10, 0, 0, 2});
  while (!left->resolve(wanted)) {
    device.serve(1ms);
    EXPECT_TRUE(right->receive().empty());  // it answers
    device.serve(1ms);
    EXPECT_TRUE(left->receive().empty());
  }
  EXPECT_EQ(left->resolve(wanted), kRight);
}

TEST_F(WiredSwitches, ACableHasRoomForOneSwitch) {
  const WiredSwitch device(program_, {.ports = {{1, "shm:" + name_}}});
  EXPECT_THROW(static_cast<void>(WiredSwitch(program_, {.ports = {{1, "shm:" + name_}}})), std::runtime_error);
  const auto one = station(name_, kLeft);
  EXPECT_THROW(static_cast<void>(station(name_, kRight)), std::runtime_error);
}

// Nobody reads at port 2. Its ring fills, then its queue; then packets are dropped, each one counted, and port 1 goes
// on.
TEST_F(WiredSwitches, APortWithoutRoomHoldsItsPacketsUpToTheLimitOfItsQueue) {
  constexpr std::uint32_t kFrames = 200;
  constexpr std::size_t kBytes = 4000;
  WiredSwitch device(program_,
                     {.ports = {{1, "shm:" + name_ + "-1"}, {2, "shm:" + name_ + "-2"}}, .queue_bytes = 40 * kBytes});
  const auto left = station(name_ + "-1", kLeft);
  const auto right = station(name_ + "-2", kRight);
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    while (!left->send(roce::test_frame(kBytes, kRight, kLeft, i))) {
      device.serve(1ms);
    }
  }
  while (device.counters(0).packets_in < kFrames) {
    device.serve(1ms);
  }
  const std::uint64_t dropped = device.drops(Drop::queue_full);
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(device.device().queued(2), 40U);
  ASSERT_TRUE(right->send(roce::test_frame(60, kLeft, kRight, 1)));
  EXPECT_EQ(roce::number_of(await(device, *left)), 1U);
  // What was held arrives in order once somebody reads.
  for (std::uint32_t i = 0; i < kFrames - dropped; ++i) {
    EXPECT_EQ(roce::number_of(await(device, *right)), i);
  }
}

TEST_F(WiredSwitches, AnIdleSwitchSleepsUntilAFrameComes) {
  WiredSwitch device(program_, {.ports = {{1, "shm:" + name_ + "-1"}, {2, "shm:" + name_ + "-2"}}});
  const auto left = station(name_ + "-1", kLeft);
  const auto right = station(name_ + "-2", kRight);
  while (device.sleeps() == 0) {
    device.serve(1ms);
  }
  device.interrupt();
  EXPECT_TRUE(device.serve(1h));  // returns at once
  ASSERT_TRUE(left->send(roce::test_frame(60, kRight, kLeft, 3)));
  EXPECT_EQ(roce::number_of(await(device, *right)), 3U);
}

TEST_F(WiredSwitches, APacketToANumberWithoutAPortIsCounted) {
  WiredSwitch device(program_, {.ports = {{1, "shm:" + name_}, {6, "pcap:," + in("six.pcap")}}});
  const auto left = station(name_, kLeft);
  ASSERT_TRUE(left->send(roce::test_frame(60, {5, 0, 0, 0, 0, 0}, kLeft, 0)));
  ASSERT_TRUE(left->send(roce::test_frame(60, kRight, kLeft, 0)));
  while (device.drops(Drop::no_such_port) < 2) {
    device.serve(1ms);
  }
  EXPECT_EQ(device.counters(1).packets_out, 0U);
}

TEST_F(WiredSwitches, CapturesArriveInTheOrderOfTheirTimesAndEnd) {
  {
    roce::PcapFile one(in("one.pcap"));
    roce::PcapFile two(in("two.pcap"));
    const auto at = [](int seconds) { return std::chrono::system_clock::time_point(std::chrono::seconds(seconds)); };
    one.add(roce::test_frame(60, kRight, kLeft, 1), at(100));
    one.add(roce::test_frame(70, kRight, kLeft, 3), at(300));
    two.add(roce::test_frame(80, kLeft, kRight, 2), at(200));
  }
  WiredSwitch device(program_, {.ports = {{1, "pcap:" + in("one.pcap") + "," + in("out1.pcap")},
                                          {2, "pcap:" + in("two.pcap") + "," + in("out2.pcap")}},
                                .capture = in("all.pcap")});
  EXPECT_FALSE(device.serve(1h));
  roce::PcapReader right(in("out2.pcap"));
  for (const std::uint32_t number : {1U, 3U}) {
    const auto frame = right.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(roce::number_of(frame->bytes), number);
    EXPECT_EQ(frame->time, std::chrono::seconds(100 * number));
  }
  EXPECT_FALSE(right.next());
  roce::PcapReader all(in("all.pcap"));
  for (const std::uint32_t number : {1U, 1U, 2U, 2U, 3U, 3U}) {
    EXPECT_EQ(roce::number_of(all.next()->bytes), number);
  }
}

// Also between two captured packets, and up to the last one. A packet that was captured late does not turn time back.
TEST_F(WiredSwitches, GeneratorsGoOnBetweenCapturedPackets) {
  {
    roce::PcapFile one(in("one.pcap"));
    const auto at = [](int ms) { return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms)); };
    one.add(roce::test_frame(60, kRight, kLeft, 1), at(100'000));
    one.add(roce::test_frame(60, kRight, kLeft, 2), at(99'990));
    one.add(roce::test_frame(60, kRight, kLeft, 3), at(100'100));
  }
  WiredSwitch device(
      program_, {.ports = {{1, "pcap:" + in("one.pcap") + "," + in("out1.pcap")}, {2, "pcap:," + in("out.pcap")}}});
  const std::vector<std::byte> timer = roce::test_frame(60, kLeft, kRight, 9);
  device.device().set_generator(1, {.port = 9, .interval = 10'000'000, .packet = timer});
  EXPECT_FALSE(device.serve(1h));
  roce::PcapReader out(in("out1.pcap"));
  for (int i = 1; i <= 10; ++i) {
    const auto frame = out.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->time, std::chrono::milliseconds(100'000 + 10 * i));
  }
  EXPECT_EQ(device.counters(0).packets_out, 10U);
  EXPECT_EQ(device.counters(1).packets_out, 3U);
}

TEST_F(WiredSwitches, InjectedLossIsCountedAndNotADrop) {
  {
    roce::PcapFile one(in("one.pcap"));
    for (std::uint32_t i = 0; i < 1000; ++i) {
      one.add(roce::test_frame(60, kRight, kLeft, i), {});
    }
  }
  WiredSwitch device(program_, {.ports = {{1, "pcap:" + in("one.pcap")}, {2, "pcap:," + in("out.pcap")}},
                                .faults = {.loss = 0.5, .seed = 3}});
  EXPECT_FALSE(device.serve(1h));
  std::uint64_t arrived = 0;
  for (roce::PcapReader out(in("out.pcap")); out.next();) {
    ++arrived;
  }
  EXPECT_EQ(arrived + device.counters(1).lost, 1000U);
  EXPECT_GT(device.counters(1).lost, 300U);  // of 1000 halves; 13 standard deviations below
  EXPECT_LT(device.counters(1).lost, 700U);
  EXPECT_EQ(device.counters(1).dropped, 0U);
}

TEST_F(WiredSwitches, WrongPortsAreRefused) {
  const auto refusal = [&](const std::vector<std::string>& texts) -> std::string {
    try {
      WiredSwitchOptions options;
      for (const std::string& text : texts) {
        options.ports.push_back(parse_port(text));
      }
      const WiredSwitch device(program_, options);
      return "accepted";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal({}), HasSubstr("needs a port"));
  EXPECT_THAT(refusal({"shm:left"}), HasSubstr("\"shm:left\" has no number"));
  EXPECT_THAT(refusal({"511=shm:left"}), HasSubstr("0 to 510"));
  EXPECT_THAT(refusal({"-1=shm:left"}), HasSubstr("no number"));
  EXPECT_THAT(refusal({"1=pigeon:left"}), HasSubstr("port 1=pigeon:left: this is no wire"));
  EXPECT_THAT(refusal({"1=shm:"}), HasSubstr("this is no wire"));
  EXPECT_THAT(refusal({"1=shm:a/b"}), HasSubstr("port 1=shm:a/b: 'a/b' is no name of a wire: it must be 1 to 58"));
  EXPECT_THAT(refusal({"1=shm:" + name_, "1=shm:" + name_ + "x"}), HasSubstr("port 1 is given twice"));
  EXPECT_THAT(refusal({"1=shm:" + name_, "2=shm:" + name_}), HasSubstr("the ports 1 and 2 are the same wire"));
  EXPECT_THAT(refusal({"1=link:" + in("a")}), HasSubstr("two sockets"));
  EXPECT_THAT(refusal({"1=link:" + in("a") + "," + in("b") + ",mtu=9000"}), HasSubstr("mtu=9000"));
  EXPECT_THAT(refusal({"1=link:" + in("a") + "," + in("./a")}), HasSubstr("are one socket: a link has two"));
  EXPECT_THAT(refusal({"1=pcap:" + in("none.pcap")}), HasSubstr("none.pcap: No such file"));
  std::ofstream(in("text.pcap")) << "this is a text of more than 24 bytes";
  EXPECT_THAT(refusal({"1=pcap:" + in("text.pcap")}), HasSubstr("no capture in the format pcap"));
  EXPECT_THAT(refusal({"1=pcap:" + in("")}), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace sidelatch::p4
