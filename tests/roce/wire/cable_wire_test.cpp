// A cable: two ends, one of which may sleep in poll(2), and address resolution through it.
#include "roce/wire/cable_wire.h"

#include "roce/port/ports.h"
#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

namespace sidelatch::roce {
namespace {

using ::testing::HasSubstr;

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

// Why no such end is opened.
template <class Open>
std::string refusal_at_cable(Open open) {
  try {
    static_cast<void>(open());
  } catch (const WireError& error) {
    return error.what();
  }
  return "opened";
}

// Whoever is at the other end, or nobody.
TEST(CableWire, ASecondEndOfAKindIsRefused) {
  const std::string name = new_wire_name();
  const auto open_port = [&] { return open_cable_port({.name = name}); };
  const auto open_station = [&] { return std::make_unique<CableWire>(station_on(name)); };
  {
    const auto port = open_port();
    EXPECT_THAT(refusal_at_cable(open_port), HasSubstr("another switch has this cable: end it first"));
    const auto station = open_station();
    EXPECT_THAT(refusal_at_cable(open_port), HasSubstr("another switch has this cable: end it first"));
    EXPECT_THAT(refusal_at_cable(open_station), HasSubstr("another software NIC has this cable: end its program"));
    EXPECT_THAT(refusal_at_cable(open_station), HasSubstr(name));
  }
  const auto station = open_station();
  EXPECT_THAT(refusal_at_cable(open_station), HasSubstr("another software NIC has this cable: end its program"));
  const auto port = open_port();
  ASSERT_TRUE(station->send(test_frame(100, kOtherStation, kCableStation, 1)));
  EXPECT_EQ(number_of(port->receive()), 1U);
}

TEST(CableWire, AStoppedSwitchHasItsCableUntilItIsKilled) {
  const std::string name = new_wire_name();
  const auto open_port = [&] { return open_cable_port({.name = name}); };
  CableWire station(station_on(name));
  ChildProcess child([&] {
    const auto port = open_port();
    ::raise(SIGSTOP);
    return 0;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child.number(), &status, WUNTRACED), child.number());
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_THAT(refusal_at_cable(open_port), HasSubstr("another switch has this cable: end it first"));
  child.kill();
  const auto port = open_port();
  ASSERT_TRUE(station.send(test_frame(100, kOtherStation, kCableStation, 1)));
  EXPECT_EQ(number_of(port->receive()), 1U);
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
