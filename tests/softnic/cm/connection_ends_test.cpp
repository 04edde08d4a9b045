// How connections end: asked for, rejected as stale, with the process, or because the other side is gone.
#include "softnic/cm/connection_manager.h"

#include "managers.h"

#include <gtest/gtest.h>

#include <utility>

namespace sidelatch::softnic::cm {
namespace {

using namespace std::chrono_literals;

TEST(ConnectionEnds, EachSideIsToldOnceOfTheEnd) {
  Connected connected;
  Managers& world = connected.world;
  ASSERT_TRUE(world[0].disconnect(connected.client, world.now()));
  world.run();
  EXPECT_TRUE(world[1].disconnect(connected.server, world.now())) << "too late, but allowed";
  world.run_until(60s);
  EXPECT_EQ(world.count(0, Kind::disconnected), 1U);
  EXPECT_EQ(world.count(1, Kind::disconnected), 1U);
  EXPECT_EQ(world.count(0, Kind::timewait_exit), 1U);
  EXPECT_EQ(world.count(1, Kind::timewait_exit), 1U);
  world[0].release(connected.client, world.now());
  world[1].release(connected.server, world.now());
  EXPECT_EQ(world[0].size() + world[1].size(), 0U);
}

TEST(ConnectionEnds, BothMayDisconnectAtOnce) {
  Connected connected;
  Managers& world = connected.world;
  ASSERT_TRUE(world[0].disconnect(connected.client, world.now()));
  ASSERT_TRUE(world[1].disconnect(connected.server, world.now()));
  world.run_until(60s);
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(world.count(side, Kind::disconnected), 1U);
  }
}

TEST(ConnectionEnds, ALostDisconnectionIsRepeated) {
  for (const MessageKind lost : {kind_of<DisconnectMessage>(), kind_of<DisconnectedMessage>()}) {
    Connected connected;
    Managers& world = connected.world;
    lose_first(world, lost);
    ASSERT_TRUE(world[0].disconnect(connected.client, world.now()));
    world.run_until(world.now() + 60s);
    EXPECT_EQ(world.lost, 1U);
    EXPECT_EQ(world.count(0, Kind::disconnected), 1U);
    EXPECT_EQ(world.count(1, Kind::disconnected), 1U);
  }
}

TEST(ConnectionEnds, AnEndIsAnsweredEvenWhenItIsForgotten) {
  Connected connected;
  Managers& world = connected.world;
  bool loses = true;
  world.lose = [&](const InFlight& flying) { return loses && flying.is<DisconnectedMessage>(); };
  ASSERT_TRUE(world[0].disconnect(connected.client, world.now()));
  world.run();
  world[1].release(connected.server, world.now());
  world.run_until(world.now() + 2s);
  EXPECT_EQ(world[1].size(), 0U);
  loses = false;
  world.run_until(world.now() + 10s);
  EXPECT_EQ(world.count(0, Kind::disconnected), 1U);
}

TEST(ConnectionEnds, WhoDisconnectsFromADeadSideIsTold) {
  Connected connected;
  Managers& world = connected.world;
  world.lose = [](const InFlight&) { return true; };
  ASSERT_TRUE(world[0].disconnect(connected.client, world.now()));
  world.run_until(120s);
  EXPECT_EQ(world.count(0, Kind::disconnected), 1U);
}

// Repetitions of a released connection are fewer than those of an owned one, so it may have had more than that already.
TEST(ConnectionEnds, AnOwnerThatEndsLateDoesNotDisconnectForEver) {
  Connected connected;
  Managers& world = connected.world;
  world.lose = [](const InFlight&) { return true; };
  ASSERT_TRUE(world[0].disconnect(connected.client, world.now()));
  world.run_until(world.now() + 30s);
  const std::size_t sent = world.sent;
  ASSERT_GT(sent, std::size_t{ConnectionManager::kMostRetriesOfReleased} + 1);
  world[0].release(connected.client, world.now());
  world.run_until(world.now() + 10s);
  EXPECT_EQ(world.sent, sent);
  EXPECT_EQ(world[0].size(), 0U);
}

TEST(ConnectionEnds, AnOwnerThatEndsTellsTheOtherSideInEveryState) {
  // What the first side has done when its owner ends, and what the second is told.
  {
    Managers world;
    const ConnectionId client = world.connect();
    world.run();
    world[0].release(client, world.now());
    world.run();
    EXPECT_EQ(world.last(1).kind, Kind::rejected);
    EXPECT_EQ(world.last(1).reason, kRejectTimeout);
  }
  {
    Managers world;
    world.connect();
    world.run();
    world[1].release(world.last(1).id, world.now());
    world.run();
    EXPECT_EQ(world.last(0).kind, Kind::rejected);
    EXPECT_EQ(world.last(0).reason, kConsumerReject);
  }
  {
    Managers world;
    const ConnectionId client = world.connect();
    world.run();
    EXPECT_TRUE(world[1].accept(world.last(1).id, kServer, {}, world.now()));
    world.run();
    world[0].release(client, world.now());
    world.run();
    EXPECT_EQ(world.last(1).kind, Kind::rejected);
  }
  {
    Managers world;
    accept_all(world);
    world.lose = [](const InFlight& flying) { return flying.is<ReadyMessage>(); };
    world.connect();
    world.run();
    world[1].release(world.events(1).front().id, world.now());  // waits for RTU
    world.run();
    EXPECT_EQ(world.last(0).kind, Kind::rejected) << "as the kernel says it";
  }
  {
    Connected connected;
    Managers& world = connected.world;
    lose_first(world, kind_of<DisconnectMessage>());
    world[0].release(connected.client, world.now());
    world.run_until(world.now() + 10s);
    EXPECT_EQ(world.last(1).kind, Kind::timewait_exit);
    EXPECT_EQ(world.count(1, Kind::disconnected), 1U);
    EXPECT_EQ(world[0].size(), 0U);
    EXPECT_EQ(world.count(0, Kind::disconnected), 0U) << "its owner is gone";
  }
}

TEST(ConnectionEnds, ANewConnectionOfAQueuePairEndsTheOldOne) {
  Connected connected;
  Managers& world = connected.world;
  // The client's process was killed, and another one uses its address and queue pair number.
  world[0] = ConnectionManager({.ca_guid = 0xa, .seed = 99});
  world.connect();
  world.run();
  EXPECT_EQ(world.count(1, Kind::disconnected), 1U);
  EXPECT_EQ(world.count(1, Kind::established), 2U);
}

TEST(ConnectionEnds, AReplyToAProcessThatWasReplacedIsRejected) {
  Managers world;
  world.connect();
  world.run();
  world[0] = ConnectionManager({.ca_guid = 0xa, .seed = 99});
  EXPECT_TRUE(world[1].accept(world.last(1).id, kServer, {}, world.now()));
  world.run();
  EXPECT_EQ(world.last(1).kind, Kind::rejected);
  EXPECT_EQ(world.last(1).reason, kInvalidCommunicationId);
}

// ---- The end of the process.

TEST(ConnectionEnds, TheEndOfTheProcessIsToldThroughLoss) {
  Connected connected;
  Managers& world = connected.world;
  const Time begin = world.now();
  int sent = 0;
  world.lose = [&](const InFlight& flying) { return flying.is<DisconnectMessage>() && ++sent < 5; };
  world[0].leave(world.now());
  EXPECT_TRUE(world[0].awaits_farewell());
  world.run_until(begin + 4 * ConnectionManager::kFarewellInterval);
  EXPECT_FALSE(world[0].awaits_farewell());
  EXPECT_EQ(world.count(0, Kind::disconnected), 1U) << "a destructor may wait for it";
  EXPECT_EQ(world.count(1, Kind::disconnected), 1U);
}

TEST(ConnectionEnds, TheEndOfTheProcessWaitsForNobodyForLong) {
  Connected connected;
  Managers& world = connected.world;
  world.connect(0x101);
  world.run();
  world.react = {};
  world.connect(0x102);  // not answered
  world.lose = [](const InFlight&) { return true; };
  world[0].leave(world.now());
  world.run();
  EXPECT_EQ(world.count(0, Kind::unreachable), 1U);
  world.run_until(world.now() + (ConnectionManager::kMostRetries + 1) * ConnectionManager::kFarewellInterval);
  EXPECT_FALSE(world[0].awaits_farewell());
  EXPECT_EQ(world.count(0, Kind::disconnected), 2U);
}

// ---- Other sides that are gone.

// The addresses of both sides, as world.occupants has them.
const Gid kClientAddress = Managers::route_of(0).local;
const Gid kServerAddress = Managers::route_of(1).local;

TEST(ConnectionEnds, WhoIsGoneIsMissedSoon) {
  for (const std::uint64_t after : {0U, 8U}) {  // nobody, or another process
    Managers world;
    world.occupants = {{kClientAddress, 3}, {kServerAddress, 7}};
    accept_all(world);
    world.connect();
    world.run();
    world.run_until(10s);
    EXPECT_EQ(world.count(0, Kind::disconnected), 0U);
    world.occupants[kServerAddress] = after;
    world.run_until(10s + ConnectionManager::kLookInterval);
    EXPECT_EQ(world.count(0, Kind::disconnected), 1U);
    EXPECT_EQ(world.count(1, Kind::disconnected), 0U) << "its other side is there";
  }
}

TEST(ConnectionEnds, WhatTheWireDoesNotKnowChangesNothing) {
  Managers world;
  world.occupants = {{kClientAddress, 3}, {kServerAddress, 7}};
  accept_all(world);
  world.connect();
  world.run();
  world.occupants.clear();
  world.run_until(10s);
  EXPECT_EQ(world.count(0, Kind::disconnected), 0U);
  EXPECT_EQ(world.count(1, Kind::disconnected), 0U);
}

TEST(ConnectionEnds, ARequestToWhoIsGoneEnds) {
  for (const auto& [was_there, is_held] : {std::pair{true, false}, {true, true}, {false, false}}) {
    Managers world;
    world.occupants = {{kClientAddress, 3}, {kServerAddress, was_there ? 7 : 0}};
    world.lose = [was_there](const InFlight&) { return !was_there; };
    world.react = [&, is_held = is_held](std::size_t side, const Event& event) {
      if (is_held && event.kind == Kind::connection_request) {
        EXPECT_TRUE(world[side].hold(event.id));
      }
    };
    world.connect();
    world.run_until(150ms);  // the request comes twice
    world.occupants[kServerAddress] = 0;
    world.lose = [](const InFlight&) { return true; };
    world.run_until(1s);
    ASSERT_EQ(world.events(0).size(), 1U);
    EXPECT_EQ(world.last(0).kind, was_there ? Kind::rejected : Kind::unreachable);
  }
}

TEST(ConnectionEnds, DisconnectingFromWhoIsGoneEndsSoon) {
  Managers world;
  world.occupants = {{kClientAddress, 3}, {kServerAddress, 7}};
  accept_all(world);
  const ConnectionId client = world.connect();
  world.run();
  world.occupants[kServerAddress] = 0;
  world.lose = [](const InFlight&) { return true; };
  EXPECT_TRUE(world[0].disconnect(client, world.now()));
  world.run_until(ConnectionManager::kLookInterval);
  EXPECT_EQ(world.count(0, Kind::disconnected), 1U);
  world[0].release(client, world.now());
  world.run_until(5s);
  EXPECT_EQ(world[0].size(), 0U);
  EXPECT_EQ(world[0].next_deadline(), Time::max()) << "nobody is left to look after";
}

}  // namespace
}  // namespace sidelatch::softnic::cm
