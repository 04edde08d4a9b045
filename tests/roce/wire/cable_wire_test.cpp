// A cable: two ends, one of which may sleep in poll(2), and address resolution through it.
#include "roce/wire/cable_wire.h"

#include "roce/port/ports.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gtest/gtest.h>

#include <poll.h>

#include <filesystem>

namespace sidelatch::roce {
namespace {

constexpr MacAddress kCableStation{2, 0, 0, 0, 0, 1};
constexpr MacAddress kOtherStation{2, 0, 0, 0, 0, 2};

CableWireOptions station_on(const std::string& name) {
  return {.name = name, .addresses = {.mac = kCableStation, .ipv4 = {10, 0, 0, 1}, .ipv6 = {}}};
}

bool is_readable(const Wire& port) {
  pollfd watched{port.descriptor(), POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}

TEST(CableWire, CarriesEveryFrameToThePortAndOnlyItsOwnBack) {
  const std::string name = new_wire_name();
  CableWire station(station_on(name));
  const auto port = open_cable_port({.name = name});
  ASSERT_TRUE(station.send(test_frame(100, kOtherStation, kCableStation, 1)));
  EXPECT_EQ(number_of(port->receive()), 1U);
  ASSERT_TRUE(port->send(test_frame(100, kOtherStation, kOtherStation, 2)));  // flooded: for somebody else
  ASSERT_TRUE(port->send(test_frame(100, kCableStation, kOtherStation, 3)));
  EXPECT_EQ(number_of(station.receive()), 3U);
  EXPECT_TRUE(station.receive().empty());
}

TEST(CableWire, AFrameWakesAPortThatSleepsInPoll) {
  const std::string name = new_wire_name();
  CableWire station(station_on(name));
  const auto port = open_cable_port({.name = name});
  EXPECT_GT(port->lie_down(), std::chrono::hours(1));
  EXPECT_FALSE(is_readable(*port));
  ASSERT_TRUE(station.send(test_frame(100, kOtherStation, kCableStation, 1)));
  EXPECT_TRUE(is_readable(*port));
  port->stand_up();
  EXPECT_FALSE(is_readable(*port));
  EXPECT_EQ(port->lie_down(), std::chrono::nanoseconds(0));  // the frame is there
  port->stand_up();
  EXPECT_EQ(number_of(port->receive()), 1U);
  // Awake: nobody rings.
  ASSERT_TRUE(station.send(test_frame(100, kOtherStation, kCableStation, 2)));
  EXPECT_FALSE(is_readable(*port));
}

TEST(CableWire, RoomWakesAPortThatFoundNone) {
  const std::string name = new_wire_name();
  CableWire station(station_on(name));
  const auto port = open_cable_port({.name = name});
  std::uint32_t sent = 0;
  while (port->send(test_frame(4000, kCableStation, kOtherStation, sent))) {
    ++sent;
  }
  EXPECT_GT(port->lie_down(), std::chrono::nanoseconds(0));
  for (std::uint32_t i = 0; i < sent; ++i) {
    EXPECT_EQ(number_of(station.receive()), i);
  }
  EXPECT_TRUE(station.receive().empty());
  EXPECT_TRUE(is_readable(*port));
  port->stand_up();
  EXPECT_TRUE(port->send(test_frame(4000, kCableStation, kOtherStation, sent)));
}

TEST(CableWire, ThePortMayLeaveAndComeAgain) {
  const std::string name = new_wire_name();
  CableWire station(station_on(name));
  { const auto port = open_cable_port({.name = name}); }
  EXPECT_TRUE(station.send(test_frame(100, kOtherStation, kCableStation, 1)));
  EXPECT_EQ(station.counters().dropped, 1U);
  const auto port = open_cable_port({.name = name});
  EXPECT_TRUE(station.send(test_frame(100, kOtherStation, kCableStation, 2)));
  EXPECT_EQ(number_of(port->receive()), 2U);
}

TEST(CableWire, AThirdEndIsRefused) {
  const std::string name = new_wire_name();
  const CableWire station(station_on(name));
  const auto port = open_cable_port({.name = name});
  EXPECT_THROW(static_cast<void>(open_cable_port({.name = name})), WireError);
  EXPECT_THROW(CableWire(station_on(name)), WireError);
}

TEST(CableWire, AStationNeedsAddresses) {
  EXPECT_THROW(CableWire({.name = new_wire_name(), .addresses = {.mac = kCableStation, .ipv4 = {}, .ipv6 = {}}}),
               std::invalid_argument);
}

TEST(CableWire, TheBellIsRemovedWithItsPort) {
  const std::string name = new_wire_name();
  const auto bells = [&name] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      count += entry.path().string().find(name + ".cable.bell") != std::string::npos ? 1U : 0U;
    }
    return count;
  };
  {
    const auto port = open_cable_port({.name = name});
    EXPECT_EQ(bells(), 1U);
  }
  EXPECT_EQ(bells(), 0U);
}

}  // namespace
}  // namespace sidelatch::roce
