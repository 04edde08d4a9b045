#include "softnic/cm/connection_manager.h"

#include "managers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sidelatch::softnic::cm {
namespace {

using namespace std::chrono_literals;

// ---- Setting up.

TEST(ConnectionManager, BothSidesAgree) {
  Managers world;
  const ConnectionId client = world.connect(0x123, bytes("hello"));
  world.run();
  ASSERT_EQ(world.events(1).size(), 1U);
  const Event request = world.last(1);
  EXPECT_EQ(request.kind, Kind::connection_request);
  EXPECT_EQ(request.service_id, 0x1061234U);
  // What the client may have in flight is what the server must serve.
  EXPECT_EQ(request.terms, (Terms{.queue_pair = 0x123,
                                  .responder_resources = 5,
                                  .initiator_depth = 3,
                                  .retry_count = 6,
                                  .rnr_retry_count = 7}));
  EXPECT_EQ(request.private_data.size(), kRequestPrivateBytes);
  EXPECT_TRUE(std::equal(request.private_data.begin(), request.private_data.begin() + 5, bytes("hello").begin()));
  const Agreement before = world[1].agreement(request.id);  // the server sets up its queue pair before it accepts

  ASSERT_TRUE(world[1].accept(request.id, kServer, bytes("welcome"), world.now()));
  world.run();
  ASSERT_EQ(world.events(0).size(), 1U);
  EXPECT_EQ(world.last(0).kind, Kind::connection_reply);
  EXPECT_EQ(world.last(0).private_data.size(), kReplyPrivateBytes);
  ASSERT_TRUE(world[0].confirm(client, world.now()));
  world.run();
  EXPECT_EQ(world.last(1).kind, Kind::established);

  const Agreement ours = world[0].agreement(client);
  const Agreement theirs = world[1].agreement(request.id);
  EXPECT_EQ(ours.remote_qp, 0x200U);
  EXPECT_EQ(theirs.remote_qp, 0x123U);
  // A message names the number of the first packet that its sender expects (12.6.6).
  EXPECT_EQ(ours.send_psn, theirs.receive_psn);
  EXPECT_EQ(ours.receive_psn, theirs.send_psn);
  EXPECT_EQ(before.receive_psn, theirs.receive_psn);
  EXPECT_EQ(ours.initiator_depth, 5);
  EXPECT_EQ(ours.responder_resources, 3);
  EXPECT_EQ(theirs.initiator_depth, 3);
  EXPECT_EQ(theirs.responder_resources, 5);
  EXPECT_EQ(ours.route, Managers::route_of(0));
  EXPECT_EQ(theirs.route, Managers::route_of(1));
  EXPECT_EQ(world.next_deadline(), Time::max()) << "nothing is repeated any more";
}

const MessageKind kOfSettingUp[] = {kind_of<RequestMessage>(), kind_of<ReplyMessage>(), kind_of<ReadyMessage>()};

TEST(ConnectionManager, EachMessageMayBeLost) {
  for (const MessageKind lost : kOfSettingUp) {
    Managers world;
    accept_all(world);
    lose_first(world, lost);
    const ConnectionId client = world.connect();
    world.run_until(10s);
    EXPECT_EQ(world.lost, 1U) << "message " << lost;
    EXPECT_TRUE(world[0].is_established(client)) << "message " << lost;
    EXPECT_EQ(world.count(1, Kind::connection_request), 1U) << "message " << lost;
    EXPECT_EQ(world.count(1, Kind::established), 1U) << "message " << lost;
    EXPECT_EQ(world.count(0, Kind::connection_reply), 1U) << "message " << lost;
  }
}

// Also if both sides take their time, as programs do.
TEST(ConnectionManager, EachMessageBetweenSlowOwnersMayBeLost) {
  for (const MessageKind lost : kOfSettingUp) {
    Managers world;
    accept_all(world);
    world.react = [&world, answer = world.react](std::size_t side, const Event& event) {
      if (event.kind == Kind::connection_request || event.kind == Kind::connection_reply) {
        EXPECT_TRUE(world[side].hold(event.id));
      }
      answer(side, event);
    };
    lose_first(world, lost);
    const ConnectionId client = world.connect();
    world.run_until(10s);
    EXPECT_EQ(world.lost, 1U) << "message " << lost;
    EXPECT_TRUE(world[0].is_established(client)) << "message " << lost;
    EXPECT_EQ(world.count(1, Kind::established), 1U) << "message " << lost;
  }
}

// Owners take a second for each answer, so that repetitions are answered by MRA; one connection is set up and ended,
// one is rejected, and one queue pair of datagrams is asked for.
void use_every_kind(Managers& world) {
  constexpr std::uint32_t kUnwanted = 0x999;
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request || event.kind == Kind::connection_reply) {
      EXPECT_TRUE(world[side].hold(event.id));
    }
    if (event.kind == Kind::connection_request && event.terms.queue_pair == kUnwanted) {
      EXPECT_TRUE(world[side].reject(event.id, kConsumerReject, {}));
    } else if (event.kind == Kind::datagram_request) {
      EXPECT_TRUE(world[side].answer(event.id, {.queue_pair = 0x77}, world.now()));
    }
  };
  const ConnectionId client = world.connect();
  world.run_until(world.now() + 1s);
  ASSERT_EQ(world.count(1, Kind::connection_request), 1U);
  const ConnectionId server = world.events(1).front().id;
  ASSERT_TRUE(world[1].accept(server, kServer, {}, world.now()));
  world.run_until(world.now() + 1s);
  ASSERT_TRUE(world[0].confirm(client, world.now()));
  world.run_until(world.now() + 2 * ConnectionManager::kLongestService);  // if RTU is lost, REP comes late
  EXPECT_TRUE(world[0].is_established(client));
  EXPECT_TRUE(world[1].is_established(server));
  ASSERT_TRUE(world[0].disconnect(client, world.now()));
  world.run_until(world.now() + 1s);

  world.connect(kUnwanted);
  world.run_until(world.now() + 1s);

  ASSERT_NE(world[0].ask({.route = Managers::route_of(0), .service_id = 0x1111234}, world.now()), 0U);
  world.run_until(world.now() + 1s);
}

TEST(ConnectionManager, TheFirstMessageOfEachKindMayBeLost) {
  for (MessageKind lost = 0; lost < kMessageKinds; ++lost) {
    SCOPED_TRACE(::testing::Message() << "a message of kind " << lost);
    Managers world;
    lose_first(world, lost);
    use_every_kind(world);
    EXPECT_EQ(world.lost, 1U) << "there is such a message";
    EXPECT_EQ(world.count(1, Kind::connection_request), 2U);
    EXPECT_EQ(world.count(0, Kind::connection_reply), 1U);
    EXPECT_EQ(world.count(1, Kind::established), 1U);
    EXPECT_EQ(world.count(0, Kind::rejected), 1U);
    EXPECT_EQ(world.count(1, Kind::datagram_request), 1U);
    EXPECT_EQ(world.count(0, Kind::datagram_reply), 1U);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      EXPECT_EQ(world.count(side, Kind::disconnected), 1U);
      EXPECT_EQ(world.count(side, Kind::timewait_exit), 1U);
      EXPECT_EQ(world.count(side, Kind::unreachable), 0U);
    }
  }
}

TEST(ConnectionManager, ARejectionByASlowOwnerMayBeLost) {
  Managers world;
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request) {
      EXPECT_TRUE(world[side].hold(event.id));
      EXPECT_TRUE(world[side].reject(event.id, kConsumerReject, {}));
    }
  };
  lose_first(world, kind_of<RejectMessage>());
  world.connect();
  world.run_until(10s);
  EXPECT_EQ(world.count(0, Kind::rejected), 1U);
  EXPECT_EQ(world.count(1, Kind::connection_request), 1U);
}

TEST(ConnectionManager, DataThatArrivesFirstStandsForALostRtu) {
  Managers world;
  accept_all(world);
  world.lose = [](const InFlight& flying) { return flying.is<ReadyMessage>(); };
  const ConnectionId client = world.connect();
  world.run();
  const ConnectionId server = world.events(1).front().id;
  EXPECT_FALSE(world[1].is_established(server));
  EXPECT_TRUE(world[1].establish(server));
  world.run_until(60s);
  EXPECT_EQ(world.count(1, Kind::established), 1U);
  EXPECT_EQ(world.count(1, Kind::unreachable), 0U);
  EXPECT_TRUE(world[0].is_established(client));
  EXPECT_FALSE(world[1].establish(server)) << "it is already";
}

TEST(ConnectionManager, EveryMessageMayArriveAgainAndLater) {
  Connected connected;
  Managers& world = connected.world;
  std::vector<InFlight> old;
  world.lose = [&](const InFlight& flying) {
    old.push_back(flying);
    return false;
  };
  // A second connection, whose messages are recorded.
  const ConnectionId client = world.connect(0x101);
  world.run();
  world.lose = {};
  const std::size_t events = world.events(0).size() + world.events(1).size();
  ASSERT_EQ(old.size(), 3U);
  for (const InFlight& again : old) {
    world.flying().push_back(again);
  }
  world.run();
  EXPECT_EQ(world.events(0).size() + world.events(1).size(), events);
  EXPECT_TRUE(world[0].is_established(client));
  EXPECT_TRUE(world[0].is_established(connected.client));
}

TEST(ConnectionManager, NobodyAnswers) {
  Managers world;
  std::size_t requests = 0;
  world.lose = [&](const InFlight& flying) {
    requests += flying.is<RequestMessage>() ? 1U : 0U;
    return true;
  };
  const ConnectionId client = world.connect();
  world.run_until(10s);
  EXPECT_TRUE(world.events(0).empty());
  world.run_until(120s);
  ASSERT_EQ(world.events(0).size(), 1U);
  EXPECT_EQ(world.last(0).kind, Kind::unreachable);
  EXPECT_EQ(requests, 1U + ConnectionManager::kMostRetries);
  world[0].release(client, world.now());
  EXPECT_EQ(world[0].size(), 0U);
}

TEST(ConnectionManager, AReceiptGivesTheOtherSideTime) {
  Managers world;
  world.react = [&world](std::size_t side, const Event& event) { EXPECT_TRUE(world[side].hold(event.id)); };
  world.connect();
  world.run_until(1s);
  const std::size_t sent = world.sent;
  world.run_until(ConnectionManager::kLongestService);
  EXPECT_EQ(world.sent, sent) << "nothing is repeated while the server thinks";
  world.run_until(200s);
  EXPECT_EQ(world.count(0, Kind::unreachable), 0U) << "a repeated request gets another receipt";
  EXPECT_EQ(world.count(1, Kind::connection_request), 1U);
  ASSERT_TRUE(world[1].accept(world.events(1).front().id, kServer, {}, world.now()));
  world.run();
  EXPECT_EQ(world.last(0).kind, Kind::connection_reply);
}

TEST(ConnectionManager, AReceiptAsksForSeventeenSeconds) {
  Managers world;
  std::vector<unsigned> exponents;
  world.lose = [&](const InFlight& flying) {
    if (flying.is<ReceiptMessage>()) {
      exponents.push_back(std::get<ReceiptMessage>(flying.message().body).service_timeout);
    }
    return false;
  };
  world.react = [&world](std::size_t side, const Event& event) { EXPECT_TRUE(world[side].hold(event.id)); };
  world.connect();
  world.run_until(1s);
  EXPECT_EQ(exponents, std::vector<unsigned>{22});
}

// A side that says nothing but MRA, with the longest time or often, must not hold the other one for hours.
TEST(ConnectionManager, ReceiptsDoNotHoldTheOtherSideForEver) {
  constexpr std::array<std::uint8_t, 3> kExponents = {22, 24, 31};
  for (const std::uint8_t exponent : kExponents) {
    for (const std::size_t waiting : {std::size_t{0}, std::size_t{1}}) {
      SCOPED_TRACE(::testing::Message() << "exponent " << unsigned{exponent} << ", side " << waiting);
      Managers world;
      const ConnectionId client = world.connect();
      world.run();
      const ConnectionId server = world.events(1).front().id;
      world.lose = [](const InFlight&) { return true; };
      if (waiting == 1) {
        ASSERT_TRUE(world[1].accept(server, kServer, {}, world.now()));
      }
      const std::array<ConnectionId, 2> ids = {client, server};
      const Mad receipt = encode({1, ReceiptMessage{.local_id = ids[1 - waiting],
                                                    .remote_id = ids[waiting],
                                                    .of = static_cast<std::uint8_t>(waiting),
                                                    .service_timeout = exponent}});
      while (world.count(waiting, Kind::unreachable) == 0 && world.now() < 300s) {
        world[waiting].on_mad(Managers::route_of(waiting), receipt, world.now());
        world.run_until(world.now() + 1s);
      }
      EXPECT_EQ(world.count(waiting, Kind::unreachable), 1U);
      EXPECT_GT(world.now(), 200s) << "but has time";
    }
  }
}

// ---- Refusing.

TEST(ConnectionManager, ARejectionTellsWhy) {
  Managers world;
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request) {
      EXPECT_TRUE(world[side].reject(event.id, kConsumerReject, bytes("no")));
    }
  };
  world.connect();
  world.run_until(120s);
  ASSERT_EQ(world.events(0).size(), 1U);
  EXPECT_EQ(world.last(0).kind, Kind::rejected);
  EXPECT_EQ(world.last(0).reason, kConsumerReject);
  EXPECT_EQ(world.last(0).private_data.size(), kRejectPrivateBytes);
  EXPECT_EQ(world.last(0).private_data[1], std::byte{'o'});
}

TEST(ConnectionManager, TheActiveSideMayRejectTheReply) {
  Managers world;
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request) {
      EXPECT_TRUE(world[side].accept(event.id, kServer, {}, world.now()));
    } else if (event.kind == Kind::connection_reply) {
      EXPECT_TRUE(world[side].reject(event.id, kConsumerReject, {}));
    }
  };
  world.connect();
  world.run_until(120s);
  EXPECT_EQ(world.last(1).kind, Kind::rejected);
  EXPECT_EQ(world.count(1, Kind::unreachable), 0U);
}

TEST(ConnectionManager, OtherTransportsAreRefused) {
  Managers world;
  world[1].on_mad(Managers::route_of(1), encode({1, RequestMessage{.local_id = 7, .transport = 3}}), {});
  const std::vector<Outgoing> answers = world[1].take_outgoing();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(std::get<RejectMessage>(decode(answers[0].mad)->body).reason, kInvalidTransport);
  EXPECT_EQ(world[1].size(), 0U);
}

TEST(ConnectionManager, CallsInTheWrongStateAreRefusedAndSendNothing) {
  Connected connected;
  ConnectionManager& manager = connected.world[0];
  EXPECT_FALSE(manager.accept(connected.client, kServer, {}, {}));
  EXPECT_FALSE(manager.confirm(connected.client, {}));
  EXPECT_FALSE(manager.reject(connected.client, kConsumerReject, {}));
  EXPECT_FALSE(manager.hold(connected.client));
  EXPECT_FALSE(manager.answer(connected.client, {}, {}));
  EXPECT_FALSE(manager.establish(connected.client));
  EXPECT_FALSE(manager.disconnect(connected.client + 1, {}));
  manager.release(connected.client + 1, {});
  EXPECT_TRUE(manager.take_outgoing().empty());
}

// ---- Others on the wire.

TEST(ConnectionManager, OnlyTheOtherSideCanEndAConnection) {
  Connected connected;
  Managers& world = connected.world;
  const Route stranger{.local = gid_number(1), .remote = gid_number(3)};
  const Route friendly = Managers::route_of(0);
  const auto send = [&](const Route& from, const Message& message) { world[0].on_mad(from, encode(message), {}); };
  const ConnectionId ours = connected.client;
  const ConnectionId theirs = connected.server;
  send(stranger, {1, DisconnectMessage{.local_id = theirs, .remote_id = ours, .remote_qp = 0x100}});
  send(stranger, {1, RejectMessage{.local_id = theirs, .remote_id = ours}});
  send(friendly, {1, DisconnectMessage{.local_id = theirs + 1, .remote_id = ours, .remote_qp = 0x100}});
  send(friendly, {1, DisconnectMessage{.local_id = theirs, .remote_id = ours, .remote_qp = 0x101}});
  send(friendly, {1, RejectMessage{.local_id = theirs + 1, .remote_id = ours}});
  send(friendly, {1, RejectMessage{.local_id = 0, .remote_id = ours}});
  send(friendly, {1, DisconnectedMessage{.local_id = theirs, .remote_id = ours}});
  EXPECT_TRUE(world[0].is_established(ours));
  send(friendly, {1, DisconnectMessage{.local_id = theirs, .remote_id = ours, .remote_qp = 0x100}});
  EXPECT_FALSE(world[0].is_established(ours));
}

TEST(ConnectionManager, AnyBytesMayArrive) {
  std::mt19937_64 random(7);
  Connected connected;
  Managers& world = connected.world;
  world.react = {};
  std::vector<Mad> seen;
  world.lose = [&](const InFlight& flying) {
    seen.push_back(flying.mad);
    return false;
  };
  world.connect(0x300);
  world.run();
  for (int i = 0; i < 20'000; ++i) {
    Mad mad = seen[random() % seen.size()];
    for (std::uint64_t changes = random() % 6; changes > 0; --changes) {
      mad[random() % (changes % 2 == 0 ? 64 : mad.size())] = static_cast<std::byte>(random());
    }
    mad[17] = static_cast<std::byte>(0x10 + random() % 11);
    const Route from{.local = gid_number(1), .remote = gid_number(static_cast<std::uint8_t>(2 + random() % 4))};
    world[0].on_mad(from, std::span(mad).first(random() % 50 == 0 ? random() % mad.size() : mad.size()), world.now());
    const std::vector<Outgoing> answers = world[0].take_outgoing();
    EXPECT_LE(answers.size(), 1U) << "one message causes one answer at most";
    for (const Outgoing& answer : answers) {
      EXPECT_EQ(answer.route, from);
      EXPECT_TRUE(decode(answer.mad));
    }
    for (const Event& event : world[0].take_events()) {
      EXPECT_NE(event.id, connected.client);
      world[0].release(event.id, world.now());
    }
    static_cast<void>(world[0].take_outgoing());
  }
  EXPECT_TRUE(world[0].is_established(connected.client));
}

// ---- Everything at once.

TEST(ConnectionManager, AllConnectionsBeginAndEndOnABadWire) {
  constexpr std::size_t kConnections = 20;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Managers world(seed);
    accept_all(world);
    for (std::uint32_t i = 0; i < kConnections; ++i) {
      world.connect(0x1000 + i);
    }
    while (world.count(1, Kind::established) < kConnections && world.step_with_faults(0.2, 0.2)) {
    }
    EXPECT_EQ(world.count(0, Kind::connection_reply), kConnections) << "seed " << seed;
    EXPECT_EQ(world.count(1, Kind::connection_request), kConnections) << "seed " << seed;
    EXPECT_EQ(world.count(1, Kind::established), kConnections) << "seed " << seed;
    for (const Event& event : world.events(1)) {
      if (event.kind == Kind::connection_request) {
        EXPECT_TRUE(world[1].disconnect(event.id, world.now()));
      }
    }
    while (world.step_with_faults(0.2, 0.2)) {
    }
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      EXPECT_EQ(world.count(side, Kind::disconnected), kConnections) << "seed " << seed;
      EXPECT_EQ(world.count(side, Kind::timewait_exit), kConnections) << "seed " << seed;
      EXPECT_EQ(world.count(side, Kind::rejected) + world.count(side, Kind::unreachable), 0U) << "seed " << seed;
    }
  }
}

// ---- Datagrams.

TEST(ConnectionManager, ADatagramsQueuePairIsAskedFor) {
  Managers world;
  lose_first(world, kind_of<DatagramReplyMessage>());
  world.react = [&](std::size_t side, const Event& event) {
    if (event.kind == Kind::datagram_request) {
      EXPECT_TRUE(world[side].answer(event.id, {.queue_pair = 0x77, .q_key = 0x1234567, .private_data = bytes("here")},
                                     world.now()));
    }
  };
  const ConnectionId id = world[0].ask(
      {.route = Managers::route_of(0), .service_id = 0x1111234, .private_data = bytes("where")}, world.now());
  world.run_until(20s);
  EXPECT_EQ(world.count(1, Kind::datagram_request), 1U) << "a repeated request gets the same answer";
  ASSERT_EQ(world.events(0).size(), 1U);
  EXPECT_EQ(world.last(0).kind, Kind::datagram_reply);
  EXPECT_EQ(world.last(0).id, id);
  EXPECT_EQ(world.last(0).terms.queue_pair, 0x77U);
  EXPECT_EQ(world.last(0).q_key, 0x1234567U);
  EXPECT_EQ(world.last(0).reason, 0U);
  EXPECT_EQ(world.last(0).private_data.size(), kDatagramReplyPrivateBytes);
  world[0].release(id, world.now());
  world[1].release(world.events(1).front().id, world.now());
  EXPECT_EQ(world[0].size() + world[1].size(), 0U);
}

// ---- Rejections that get lost, and late ones.

TEST(ConnectionManager, ALostRejectionIsRepeatedWithItsData) {
  Managers world;
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request) {
      EXPECT_TRUE(world[side].reject(event.id, kConsumerReject, bytes("no")));
    }
  };
  lose_first(world, kind_of<RejectMessage>());
  world.connect();
  world.run_until(10s);
  ASSERT_EQ(world.events(0).size(), 1U);
  EXPECT_EQ(world.last(0).reason, kConsumerReject);
  EXPECT_EQ(world.last(0).private_data[1], std::byte{'o'});
  EXPECT_EQ(world.events(1).size(), 1U) << "the program rejects once";
}

TEST(ConnectionManager, ALostRejectionOfAReplyIsRepeated) {
  Managers world;
  world.react = [&world](std::size_t side, const Event& event) {
    if (event.kind == Kind::connection_request) {
      EXPECT_TRUE(world[side].accept(event.id, kServer, {}, world.now()));
    } else if (event.kind == Kind::connection_reply) {
      EXPECT_TRUE(world[side].reject(event.id, kConsumerReject, bytes("no")));
    }
  };
  lose_first(world, kind_of<RejectMessage>());
  world.connect();
  world.run_until(10s);
  EXPECT_EQ(world.last(1).kind, Kind::rejected);
  EXPECT_EQ(world.last(1).private_data[1], std::byte{'o'});
}

TEST(ConnectionManager, ARejectionOfAnEstablishedConnectionTellsWhy) {
  Connected connected;
  Managers& world = connected.world;
  const auto reject = [&](std::uint32_t of) {
    world[0].on_mad(Managers::route_of(0),
                    encode({1, RejectMessage{.local_id = connected.server,
                                             .remote_id = connected.client,
                                             .of = static_cast<std::uint8_t>(of),
                                             .reason = kConsumerReject}}),
                    world.now());
    world.run();
  };
  reject(2);
  EXPECT_EQ(world.last(0).kind, Kind::rejected);
  EXPECT_EQ(world.last(0).reason, kConsumerReject);
  world.run_until(world.now() + ConnectionManager::kTimewait);
  EXPECT_EQ(world.last(0).kind, Kind::timewait_exit);
}

// A program that connects without a queue pair, as name services do, says 0.
TEST(ConnectionManager, ConnectionsWithoutAQueuePairDoNotEndEachOther) {
  Connected connected;
  Managers& world = connected.world;
  const ConnectionId first = world.connect(0);
  world.run();
  const ConnectionId second = world.connect(0);
  world.run();
  EXPECT_TRUE(world[0].is_established(first));
  EXPECT_TRUE(world[0].is_established(second));
  EXPECT_EQ(world.count(1, Kind::disconnected), 0U);
}

TEST(ConnectionManager, AStaleConnectionIsDisconnectedAtBothEnds) {
  Connected connected;
  Managers& world = connected.world;
  world.connect();  // with the same queue pair
  world.run();
  EXPECT_EQ(world.count(1, Kind::disconnected), 1U);
  EXPECT_EQ(world.count(0, Kind::disconnected), 1U) << "if it still knows the older connection";
}

}  // namespace
}  // namespace sidelatch::softnic::cm
