// Captures that tshark reads, including those of killed processes.
#include "roce/wire/capturing_wire.h"

#include "roce/packet.h"
#include "roce/wire/shared_memory_wire.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace sidelatch::roce {
namespace {

struct CaptureFile {
  CaptureFile() = default;
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;
  ~CaptureFile() { std::filesystem::remove(path); }
  std::string path = fmt::format("{}/sidelatch_{}.pcap", ::testing::TempDir(), new_wire_name());
};

// tshark's fields of each frame, one line per frame, separated by ';'.
std::vector<std::string> tshark(const std::string& path, const std::string& fields) {
  const std::string command = fmt::format("tshark -r '{}' -T fields -E 'separator=;' {} 2>/dev/null", path, fields);
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::vector<std::string> lines;
  std::array<char, 4096> line{};
  while (pipe != nullptr && std::fgets(line.data(), line.size(), pipe) != nullptr) {
    lines.emplace_back(line.data());
    lines.back().pop_back();
  }
  EXPECT_TRUE(pipe != nullptr && ::pclose(pipe) == 0)
      << "apt-get install tshark; or it finds the file damaged: " << path;
  return lines;
}

TEST(CapturingWire, WritesWhatIsSentAndWhatIsReceived) {
  const CaptureFile file;
  const SegmentOptions options = new_wire();
  CapturingWire wire(std::make_unique<SharedMemoryWire>(options), {.path = file.path});
  SharedMemoryWire peer(options);
  Packet packet;
  packet.ethernet = Ethernet{.destination = peer.addresses().mac, .source = wire.addresses().mac};
  packet.ip = Ipv4{.source = wire.addresses().ipv4, .destination = peer.addresses().ipv4};
  packet.bth.opcode = Opcode::read_request;
  packet.bth.psn = Psn(77);
  packet.reth.dma_length = 8;
  std::array<std::byte, 200> frame{};
  const std::size_t bytes = std::get<std::size_t>(build(packet, frame));
  const auto before = std::chrono::system_clock::now();
  ASSERT_TRUE(wire.send(std::span(frame).first(bytes)));
  // Reserved room that is not committed is not a frame.
  ASSERT_FALSE(wire.reserve(peer.addresses().mac, 100).empty());
  wire.commit(0);
  ASSERT_TRUE(peer.send(test_frame(kMostFrameBytes, wire.addresses().mac, peer.addresses().mac, 5)));
  ASSERT_FALSE(wire.receive().empty());
  ASSERT_TRUE(wire.receive().empty());
  const auto after = std::chrono::system_clock::now();
  const auto lines = tshark(file.path, "-e frame.time_epoch -e frame.len -e eth.src -e infiniband.bth.psn");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], ::testing::EndsWith(fmt::format(";{};02:53:4c:00:00:01;77", bytes)));
  EXPECT_THAT(lines[1], ::testing::EndsWith(fmt::format(";{};02:53:4c:00:00:02;", kMostFrameBytes)));
  // Seconds and nine digits.
  std::string digits = lines[0].substr(0, lines[0].find(';'));
  std::erase(digits, '.');
  const auto when = std::chrono::nanoseconds(std::stoll(digits));
  EXPECT_GE(when, before.time_since_epoch());
  EXPECT_LE(when, after.time_since_epoch());
}

TEST(CapturingWire, OfAKilledProcessHoldsAllFrames) {
  const CaptureFile file;
  const SegmentOptions options = new_wire();
  SharedMemoryWire reader(options);
  std::uint32_t last = 0;
  {
    ChildProcess child([&] {
      CapturingWire wire(std::make_unique<SharedMemoryWire>(options), {.path = file.path});
      for (std::uint32_t number = 0;; ++number) {
        send_test_frame(wire, addresses_of_station(0).mac, number, length_of(number));
        wire.flush();
      }
      return 0;
    });
    while (last < 300) {
      last = number_of(wait_for_frame(reader));
    }
  }
  for (auto frame = reader.receive(); !frame.empty(); frame = reader.receive()) {
    last = number_of(frame);
  }
  const auto lines = tshark(file.path, "-e frame.len");
  // One more frame, if the process was killed between the file and the wire.
  ASSERT_GE(lines.size(), last + 1);
  EXPECT_LE(lines.size(), last + 2);
  for (std::uint32_t number = 0; number < lines.size(); ++number) {
    ASSERT_EQ(lines[number], std::to_string(length_of(number)));
  }
}

TEST(CapturingWire, NamesTheFileThatCannotBeWritten) {
  try {
    static_cast<void>(with_capture(nullptr, {.path = "/no/such/folder/nic.pcap"}));
    ADD_FAILURE();
  } catch (const WireError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/no/such/folder/nic.pcap"));
  }
}

TEST(CapturingWire, SaysThatTheDiskIsFull) { EXPECT_THROW(PcapFile("/dev/full"), WireError); }

}  // namespace
}  // namespace sidelatch::roce
