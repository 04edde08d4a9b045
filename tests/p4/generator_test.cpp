// Packet generators: a program's timer.
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/control.h>
#include <sidelatch/p4/switch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::p4 {
namespace {
namespace generated {

// Each packet leaves at port 0 with the port where it came from and the time in microseconds.
constexpr const char* kProgram = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> name; bit<16> port; bit<32> time; }
struct headers_t { h_t h; }
struct metadata_t {}
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  state start { p.extract(h.h); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  apply {
    h.h.port = (bit<16>)s.ingress_port;
    h.h.time = (bit<32>)s.ingress_global_timestamp;
    s.egress_spec = 0;
  }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
)";

std::vector<std::byte> packet(std::uint8_t name) { return {std::byte{name}, {}, {}, {}, {}, {}, {}}; }

// "NAME:PORT@TIME ..."
std::string departures(Switch& device) {
  device.run();
  std::string all;
  while (const auto departed = device.departed()) {
    const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(departed->bytes[i]); };
    all += static_cast<char>(byte(0));
    all += ":" + std::to_string(byte(1) << 8 | byte(2)) + "@" + std::to_string(byte(5) << 8 | byte(6)) + " ";
  }
  return all;
}

TEST(Generator, PacketsComeAtTheirTimes) {
  Switch device(compile(kProgram, "test.p4"), {.ports = 1});
  EXPECT_FALSE(device.next_generated());
  device.set_generator(1, {.port = 400, .interval = 3000, .packet = packet('a')});
  device.set_generator(2, {.port = 401, .interval = 5000, .packet = packet('b')});
  EXPECT_EQ(departures(device), "");
  std::string all;
  while (*device.next_generated() <= 15'000) {
    device.set_time(*device.next_generated());
    all += departures(device);
  }
  EXPECT_EQ(all, "a:400@3 b:401@5 a:400@6 a:400@9 b:401@10 a:400@12 a:400@15 b:401@15 ");
  device.remove_generator(1);
  EXPECT_EQ(device.next_generated(), 20'000U);
  device.remove_generator(2);
  EXPECT_FALSE(device.next_generated());
  device.set_time(100'000);
  EXPECT_EQ(departures(device), "");
}

TEST(Generator, TimesThatWereLeaptOverGiveOnePacket) {
  Switch device(compile(kProgram, "test.p4"), {.ports = 1});
  device.set_generator(1, {.interval = 1000, .packet = packet('a')});
  device.set_time(10'500);
  EXPECT_EQ(departures(device), "a:510@10 ");
  EXPECT_EQ(device.next_generated(), 11'500U);
  device.set_time(11'499);
  EXPECT_EQ(departures(device), "");
  // Another one in its place begins anew.
  device.set_generator(1, {.interval = 2000, .packet = packet('b')});
  EXPECT_EQ(device.next_generated(), 13'499U);
}

TEST(Generator, ThePaceIsAskedForAtEachPacket) {
  Switch device(compile(kProgram, "test.p4"), {.ports = 1});
  std::uint64_t interval = 1000;
  device.set_generator(1, {.interval = 1000, .packet = packet('a'), .pace = [&] { return interval *= 2; }});
  device.set_generator(2, {.port = 401, .interval = 9000, .packet = packet('b')});
  std::string all;
  for (int i = 0; i < 4; ++i) {
    device.set_time(*device.next_generated());
    all += departures(device);
  }
  EXPECT_EQ(all, "a:510@1 a:510@3 a:510@7 b:401@9 ");
  interval = 0;
  device.set_time(20'000);
  EXPECT_EQ(departures(device), "b:401@20 ");
  EXPECT_EQ(device.next_generated(), 27'000U);  // only b
}

TEST(Generator, WhatCannotBeIsRefused) {
  Switch device(compile(kProgram, "test.p4"), {.ports = 1});
  EXPECT_THROW(device.set_generator(1, {.interval = 0, .packet = packet('a')}), ControlError);
  EXPECT_THROW(device.set_generator(1, {.interval = 1, .packet = {}}), ControlError);
  EXPECT_THROW(device.set_generator(1, {.port = 511, .interval = 1, .packet = packet('a')}), ControlError);
  EXPECT_THROW(device.set_generator(1, {.interval = 1, .packet = std::vector<std::byte>(20'000)}), ControlError);
  EXPECT_FALSE(device.next_generated());
}

TEST(Generator, TheControlFileSetsAndEndsThem) {
  const auto program = compile(kProgram, "test.p4");
  Switch device(program, {.ports = 1});
  const auto read = [&](const std::string& text) {
    return read_control(text, "control.json", program->info(), {0, 3});
  };
  const Control first = read(R"({"generators": {"1": {"port": 9, "interval_ns": 2000, "packet": "41000000000000"},
                              "2": {"port": 9, "interval_ns": 700, "packet": "42000000000000"}}})");
  apply(first, device);
  device.set_time(700);
  EXPECT_EQ(departures(device), "B:9@0 ");
  apply(read(R"({"generators": {"1": {"port": 9, "interval_ns": 2000, "packet": "43000000000000"}}})"), device, &first);
  EXPECT_EQ(device.next_generated(), 2700U);
  device.set_time(2700);
  EXPECT_EQ(departures(device), "C:9@2 ");
}

TEST(Generator, AMistakeInTheControlFileIsNamed) {
  const auto program = compile(kProgram, "test.p4");
  const auto refusal = [&](const std::string& generator) -> std::string {
    try {
      static_cast<void>(
          read_control(R"({"generators": {"1": )" + generator + "}}", "control.json", program->info(), {0, 3}));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(R"({"port": 3, "interval_ns": 5, "packet": "41"})"),
              HasSubstr("/generators/1/port: a generator has"));
  EXPECT_THAT(refusal(R"({"port": 511, "interval_ns": 5, "packet": "41"})"), HasSubstr("0 to 510"));
  EXPECT_THAT(refusal(R"({"port": 9, "interval_ns": 0, "packet": "41"})"), HasSubstr("/generators/1/interval_ns"));
  EXPECT_THAT(refusal(R"({"port": 9, "interval_ns": 5, "packet": "4"})"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal(R"({"port": 9, "interval_ns": 5, "packet": ""})"), HasSubstr("/generators/1/packet"));
  EXPECT_THAT(refusal(R"({"port": 9, "interval_ns": 5})"), HasSubstr("it needs a \"packet\""));
}

}  // namespace generated
}  // namespace
}  // namespace sidelatch::p4
