#include "softnic/cm/rdma_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <set>

namespace sidelatch::softnic::cm {
namespace {

using namespace std::chrono_literals;

const SocketAddress kLoopback{.ip = roce::gid_of({127, 0, 0, 1}), .port = 7471};
const SocketAddress kAny{.ip = roce::gid_of({0, 0, 0, 0}), .port = 7471};

// A machine with stations on a wire, and their ports.
struct Machine {
  struct Port {
    Gid station;
    PortSpace space;
    SocketAddress address;
    std::uint64_t owner;
    bool is_open;
    PortSharing sharing;
  };
  std::vector<Port> ports;
  std::set<Gid> reachable;
};

class StationOfMachine : public Surroundings {
 public:
  StationOfMachine(Machine& machine, std::uint8_t number) : machine_(machine), gids_{roce::gid_of({10, 0, 0, number})} {
    machine_.reachable.insert(gids_.front());
  }
  [[nodiscard]] const std::vector<Gid>& gids() const override { return gids_; }
  [[nodiscard]] bool is_of_machine(const SocketAddress& address) const override { return address.is_loopback(); }
  [[nodiscard]] bool reaches(const Gid& gid) override { return machine_.reachable.contains(gid); }
  [[nodiscard]] std::uint16_t take_port(PortSpace space, const SocketAddress& address, PortSharing sharing,
                                        std::uint64_t owner) override {
    SocketAddress taken = address;
    taken.port = address.port == 0 ? next_free_++ : address.port;
    for (const Machine::Port& port : machine_.ports) {
      const bool is_shared = sharing.reuses_address && port.sharing.reuses_address;
      if (port.space == space && port.address.port == taken.port && !is_shared) {
        throw IdError(EADDRINUSE, "taken");
      }
    }
    machine_.ports.push_back({gids_.front(), space, taken, owner, false, sharing});
    return taken.port;
  }
  void share_port(std::uint64_t owner, PortSharing sharing) override { own(owner)->sharing = sharing; }
  void open_port(std::uint64_t owner) override { own(owner)->is_open = true; }
  void give_port(std::uint64_t owner) noexcept override { machine_.ports.erase(own(owner)); }
  [[nodiscard]] std::optional<Gid> station_at(PortSpace space, const SocketAddress& address) override {
    for (const Machine::Port& port : machine_.ports) {
      if (port.space == space && port.address.port == address.port) {
        return port.station;
      }
    }
    return std::nullopt;
  }

 private:
  std::vector<Machine::Port>::iterator own(std::uint64_t owner) {
    return std::ranges::find_if(machine_.ports, [&](const Machine::Port& port) {
      return port.owner == owner && port.station == gids_.front();
    });
  }
  Machine& machine_;
  std::vector<Gid> gids_;
  std::uint16_t next_free_ = 40000;
};

// A process: its identifiers and one channel.
struct Process {
  Process(Machine& machine, std::uint8_t number)
      : surroundings(machine, number),
        ids(surroundings, {.ca_guid = number, .seed = number}),
        channel(ids.open_channel()) {}
  IdNumber make(std::uint64_t uid, PortSpace space = kTcp) {
    return ids.create(channel, uid, space, space == kUdp ? Service::datagram : Service::reliable_connection);
  }
  StationOfMachine surroundings;
  RdmaIds ids;
  ChannelNumber channel;
};

struct World {
  Machine machine;
  Process client{machine, 1};
  Process server{machine, 2};
  Time now{};

  void run(Time until) {
    for (;;) {
      bool moved = false;
      for (Process* const from : {&client, &server}) {
        for (const Outgoing& out : from->ids.take_outgoing()) {
          moved = true;
          const Route seen{.local = out.route.remote, .remote = out.route.local};
          for (Process* const to : {&client, &server}) {
            if (to->surroundings.gids().front() == seen.local) {
              to->ids.on_mad(seen, out.mad, now);
            }
          }
        }
      }
      if (moved) {
        continue;
      }
      const Time next = std::min(client.ids.next_deadline(), server.ids.next_deadline());
      if (next > until) {
        now = until;
        return;
      }
      now = std::max(now, next);
      client.ids.advance(now);
      server.ids.advance(now);
    }
  }
  void run() { run(now); }

  static std::optional<IdEvent> next(Process& process) { return process.ids.next_event(process.channel); }

  IdNumber listen(const SocketAddress& address = kLoopback, std::uint32_t backlog = 0, PortSpace space = kTcp) {
    const IdNumber id = server.make(0x5e, space);
    server.ids.bind(server.channel, id, address);
    server.ids.listen(server.channel, id, backlog);
    return id;
  }
  IdNumber resolve(const SocketAddress& to = kLoopback, PortSpace space = kTcp) {
    const IdNumber id = client.make(0xc1, space);
    client.ids.resolve_address(client.channel, id, std::nullopt, to, 2s, now);
    run();
    EXPECT_EQ(next(client)->kind, IdEventKind::address_resolved);
    client.ids.resolve_route(client.channel, id);
    EXPECT_EQ(next(client)->kind, IdEventKind::route_resolved);
    return id;
  }
  void connect(IdNumber id, std::vector<std::byte> data = {}) {
    client.ids.connect(client.channel, id,
                       {.terms = {.queue_pair = 0x11, .responder_resources = 2, .initiator_depth = 4},
                        .private_data = std::move(data)},
                       now);
    run();
  }
  void accept(IdNumber id) {
    server.ids.accept(server.channel, id, 0xacc, ConnectionParameters{.terms = {.queue_pair = 0x22}}, now);
    run();
  }
};

template <class Use>
int error_of(Use use) {
  try {
    use();
  } catch (const IdError& error) {
    return error.error();
  }
  return 0;
}

TEST(RdmaIds, BothSidesAreToldTheAddressesThatWereAskedFor) {
  World world;
  world.listen(kAny);
  const IdNumber id = world.resolve();
  world.connect(id, {std::byte{7}});
  const auto request = World::next(world.server);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, IdEventKind::connect_request);
  EXPECT_EQ(request->uid, 0x5eU);
  EXPECT_EQ(request->private_data.size(), RdmaIds::kMostPrivateBytes);
  EXPECT_EQ(request->private_data.front(), std::byte{7});
  const RdmaIds::Id& theirs = world.server.ids.query(world.server.channel, request->id);
  const RdmaIds::Id& ours = world.client.ids.query(world.client.channel, id);
  EXPECT_EQ(theirs.source, kLoopback);
  EXPECT_EQ(theirs.destination, ours.source);
  EXPECT_EQ(ours.source.ip, kLoopback.ip);
  EXPECT_NE(ours.source.port, 0);
  // The packets go between the stations.
  EXPECT_EQ(ours.route.remote, world.server.surroundings.gids().front());
  EXPECT_EQ(theirs.route.remote, world.client.surroundings.gids().front());

  world.accept(request->id);
  EXPECT_EQ(World::next(world.client)->kind, IdEventKind::connect_response);
  world.client.ids.accept(world.client.channel, id, 0, std::nullopt, world.now);
  world.run();
  const auto established = World::next(world.server);
  ASSERT_TRUE(established);
  EXPECT_EQ(established->kind, IdEventKind::established);
  EXPECT_EQ(established->uid, 0xaccU) << "the program's name of the accepted identifier";
  const PairAttributes attributes = world.client.ids.pair_attributes(world.client.channel, id);
  EXPECT_TRUE(attributes.has_connection);
  EXPECT_EQ(attributes.agreement.remote_qp, 0x22U);

  world.client.ids.disconnect(world.client.channel, id, world.now);
  world.run();
  EXPECT_EQ(World::next(world.client)->kind, IdEventKind::disconnected);
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::disconnected);
}

TEST(RdmaIds, WhoIsAskedLearnsThePathOfTheRequest) {
  World world;
  world.listen(kAny);
  const IdNumber id = world.resolve();
  world.client.ids.set_traffic_class(world.client.channel, id, 0x68);
  world.client.ids.set_ack_timeout(world.client.channel, id, 19);
  world.connect(id);
  const auto request = World::next(world.server);
  ASSERT_TRUE(request);
  const RdmaIds::Id& theirs = world.server.ids.query(world.server.channel, request->id);
  EXPECT_EQ(theirs.traffic_class, 0x68);
  EXPECT_EQ(theirs.ack_timeout, 19);
}

TEST(RdmaIds, AnAddressOfTheWireNeedsNoPortThere) {
  World world;
  world.listen(kAny);
  const SocketAddress wire{.ip = world.server.surroundings.gids().front(), .port = 7471};
  const IdNumber id = world.resolve(wire);
  EXPECT_EQ(world.client.ids.query(world.client.channel, id).source.ip, world.client.surroundings.gids().front());
  world.connect(id);
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request);
}

TEST(RdmaIds, AnAddressThatDoesNotAnswerIsAnErrorAfterTheTime) {
  World world;
  const IdNumber id = world.client.make(1);
  const SocketAddress nobody{.ip = roce::gid_of({10, 0, 0, 99}), .port = 1};
  world.client.ids.resolve_address(world.client.channel, id, std::nullopt, nobody, 500ms, world.now);
  world.run(490ms);
  EXPECT_FALSE(World::next(world.client));
  world.run(520ms);
  const auto event = World::next(world.client);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, IdEventKind::address_error);
  EXPECT_EQ(event->status, -ETIMEDOUT);
  // Another family than the station's.
  const IdNumber other = world.client.make(2);
  roce::Gid ipv6{};
  ipv6[0] = 0xfd;
  world.client.ids.resolve_address(world.client.channel, other, std::nullopt, {.ip = ipv6, .port = 1}, 1s, world.now);
  EXPECT_EQ(World::next(world.client)->status, -ENETUNREACH);
}

TEST(RdmaIds, AStationThatAnswersLateIsReached) {
  World world;
  const IdNumber id = world.client.make(1);
  const SocketAddress late{.ip = roce::gid_of({10, 0, 0, 99}), .port = 1};
  world.client.ids.resolve_address(world.client.channel, id, std::nullopt, late, 2s, world.now);
  world.run(100ms);
  world.machine.reachable.insert(late.ip);
  world.run(200ms);
  EXPECT_EQ(World::next(world.client)->kind, IdEventKind::address_resolved);
}

TEST(RdmaIds, ASourceOfAnotherFamilyThanTheDestinationIsRefused) {
  World world;
  Process& client = world.client;
  roce::Gid ipv6{};
  ipv6[0] = 0xfd;
  const auto resolve = [&](IdNumber id, std::optional<SocketAddress> source, const SocketAddress& to) {
    return error_of([&] { client.ids.resolve_address(client.channel, id, source, to, 1s, world.now); });
  };
  const IdNumber bound = client.make(1);
  client.ids.bind(client.channel, bound, kLoopback);
  EXPECT_EQ(resolve(bound, std::nullopt, {.ip = ipv6, .port = 1}), EINVAL);
  const IdNumber idle = client.make(2);
  EXPECT_EQ(resolve(idle, kAny, {.ip = ipv6, .port = 1}), EINVAL);
  EXPECT_FALSE(World::next(client));
  EXPECT_EQ(resolve(bound, std::nullopt, kLoopback), 0) << "nothing has changed";
  EXPECT_EQ(resolve(idle, SocketAddress{}, kLoopback), 0) << ":: is of no family here";
}

// ---- Listening.

TEST(RdmaIds, WhoComesALittleEarlyWaitsForTheListener) {
  World world;
  const IdNumber id = world.resolve();
  world.connect(id);
  world.run(100ms);
  EXPECT_FALSE(World::next(world.client));
  world.listen();
  world.run(200ms);
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request);
}

TEST(RdmaIds, ARequestThatArrivesEarlyWaitsToo) {
  World world;
  const SocketAddress wire{.ip = world.server.surroundings.gids().front(), .port = 7471};
  world.connect(world.resolve(wire));
  world.run(100ms);
  EXPECT_FALSE(World::next(world.client));
  world.listen(kAny);
  world.run(200ms);
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request);
}

TEST(RdmaIds, NobodyListens) {
  for (const PortSpace space : {kTcp, kUdp}) {
    World world;
    world.connect(world.resolve(kLoopback, space));
    world.run(2s);
    const auto event = World::next(world.client);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, space == kTcp ? IdEventKind::rejected : IdEventKind::unreachable);
    EXPECT_EQ(event->status, space == kTcp ? kInvalidServiceId : 1);
  }
}

TEST(RdmaIds, AListenerThatEndsRejectsTheRequestsThatNobodyHasRead) {
  World world;
  const IdNumber listener = world.listen();
  const IdNumber id = world.resolve();
  world.connect(id);
  EXPECT_EQ(world.server.ids.waiting_events(world.server.channel), 1U);
  EXPECT_EQ(world.server.ids.destroy(world.server.channel, listener, world.now), 0U);
  EXPECT_EQ(world.server.ids.waiting_events(world.server.channel), 0U);
  world.run();
  const auto event = World::next(world.client);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, IdEventKind::rejected);
  EXPECT_EQ(event->status, kConsumerReject);
  EXPECT_TRUE(world.machine.ports.size() == 1) << "only the client's port is left";
}

TEST(RdmaIds, WhatAFullBacklogDropsComesAgain) {
  World world;
  world.listen(kLoopback, 1);
  const IdNumber first = world.resolve();
  const IdNumber second = world.resolve();
  world.connect(first);
  world.connect(second);
  EXPECT_FALSE(World::next(world.client)) << "the kernel drops such a request without an answer";
  // Taking the request makes room.
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request);
  EXPECT_FALSE(World::next(world.server));
  world.run(world.now + 1s);
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request) << "the request was repeated";
  EXPECT_FALSE(World::next(world.client));
}

TEST(RdmaIds, AcceptingAClientThatIsGoneFails) {
  World world;
  world.listen();
  const IdNumber id = world.resolve();
  world.connect(id);
  const auto request = World::next(world.server);
  world.client.ids.destroy(world.client.channel, id, world.now);
  world.run();
  EXPECT_EQ(error_of([&] { world.accept(request->id); }), EINVAL);
  EXPECT_FALSE(World::next(world.server)) << "the program does not know the identifier";
}

TEST(RdmaIds, ThePortSpaceOfInfinibandConnectsByIp) {
  for (const Service service : {Service::reliable_connection, Service::datagram}) {
    World world;
    const IdNumber listener = world.server.ids.create(world.server.channel, 0, kInfiniband, service);
    world.server.ids.bind(world.server.channel, listener, kLoopback);
    world.server.ids.listen(world.server.channel, listener, 0);
    const IdNumber id = world.client.ids.create(world.client.channel, 0, kInfiniband, service);
    world.client.ids.resolve_address(world.client.channel, id, std::nullopt, kLoopback, 2s, world.now);
    EXPECT_EQ(World::next(world.client)->kind, IdEventKind::address_resolved);
    world.client.ids.resolve_route(world.client.channel, id);
    EXPECT_EQ(World::next(world.client)->kind, IdEventKind::route_resolved);
    world.connect(id);
    const auto request = World::next(world.server);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->kind, IdEventKind::connect_request);
  }
}

TEST(RdmaIds, AnXrcInitiatorConnectsToATargetOnly) {
  for (const bool listens_for_xrc : {true, false}) {
    World world;
    const IdNumber listener = world.server.ids.create(
        world.server.channel, 0, kInfiniband, listens_for_xrc ? Service::xrc_target : Service::reliable_connection);
    world.server.ids.bind(world.server.channel, listener, kLoopback);
    world.server.ids.listen(world.server.channel, listener, 0);
    const IdNumber id = world.client.ids.create(world.client.channel, 0, kInfiniband, Service::xrc_initiator);
    world.client.ids.resolve_address(world.client.channel, id, std::nullopt, kLoopback, 2s, world.now);
    world.client.ids.resolve_route(world.client.channel, id);
    EXPECT_EQ(World::next(world.client)->kind, IdEventKind::address_resolved);
    EXPECT_EQ(World::next(world.client)->kind, IdEventKind::route_resolved);
    world.connect(id);
    if (!listens_for_xrc) {
      world.run(2s);
      EXPECT_EQ(World::next(world.client)->kind, IdEventKind::rejected);
      continue;
    }
    const auto request = World::next(world.server);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->kind, IdEventKind::connect_request);
    world.accept(request->id);
    const auto response = World::next(world.client);
    ASSERT_TRUE(response);
    EXPECT_EQ(response->kind, IdEventKind::connect_response);
    EXPECT_EQ(response->terms.queue_pair, 0x22U) << "the target's, from the place of the context";
    EXPECT_EQ(world.client.ids.pair_attributes(world.client.channel, id).agreement.remote_qp, 0x22U);
    world.client.ids.accept(world.client.channel, id, 0, std::nullopt, world.now);
    world.run();
    EXPECT_EQ(World::next(world.server)->kind, IdEventKind::established);
  }
}

// rping -c -a 0.0.0.0
TEST(RdmaIds, AWildcardAsDestinationIsTheLoopbackAddress) {
  World world;
  world.listen(kAny);
  const IdNumber id = world.resolve(kAny);
  EXPECT_EQ(world.client.ids.query(world.client.channel, id).destination, kLoopback);
  EXPECT_EQ(world.client.ids.query(world.client.channel, id).source.ip, kLoopback.ip);
  world.connect(id);
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request);
  // That of its family.
  const IdNumber other = world.client.make(2);
  world.client.ids.resolve_address(world.client.channel, other, std::nullopt, {.ip = {}, .port = 7471}, 1s, world.now);
  const SocketAddress& to = world.client.ids.query(world.client.channel, other).destination;
  EXPECT_TRUE(to.is_loopback());
  EXPECT_FALSE(to.is_ipv4());
}

TEST(RdmaIds, ADisconnectThatNobodyAnswersSaysSo) {
  World world;
  world.listen(kAny);
  const IdNumber id = world.resolve();
  world.connect(id);
  world.accept(World::next(world.server)->id);
  EXPECT_EQ(World::next(world.client)->kind, IdEventKind::connect_response);
  world.client.ids.accept(world.client.channel, id, 0, std::nullopt, world.now);
  world.run();
  world.client.ids.disconnect(world.client.channel, id, world.now);
  for (int i = 0; i < 20; ++i) {  // nothing arrives
    static_cast<void>(world.client.ids.take_outgoing());
    world.now = std::max(world.now, world.client.ids.next_deadline());
    world.client.ids.advance(world.now);
    if (world.client.ids.waiting_events(world.client.channel) != 0) {
      break;
    }
  }
  const auto event = World::next(world.client);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, IdEventKind::disconnected);
  EXPECT_EQ(event->status, -ETIMEDOUT);
}

// ---- Channels.

TEST(RdmaIds, AnIdentifierThatEndsTakesItsUnreadEventsAlong) {
  World world;
  const IdNumber id = world.resolve();  // two of its events were read
  world.connect(id);
  world.run(2s);  // rejected
  EXPECT_EQ(world.client.ids.waiting_events(world.client.channel), 1U);
  EXPECT_EQ(world.client.ids.destroy(world.client.channel, id, world.now), 2U);
  EXPECT_EQ(world.client.ids.waiting_events(world.client.channel), 0U);
}

TEST(RdmaIds, MigrationMovesTheEvents) {
  World world;
  const ChannelNumber other = world.client.ids.open_channel();
  const IdNumber id = world.client.make(1);
  world.listen();
  world.client.ids.resolve_address(world.client.channel, id, std::nullopt, kLoopback, 1s, world.now);
  EXPECT_EQ(world.client.ids.migrate(world.client.channel, id, other), 0U);
  EXPECT_FALSE(World::next(world.client));
  EXPECT_EQ(world.client.ids.next_event(other)->kind, IdEventKind::address_resolved);
  EXPECT_EQ(error_of([&] { world.client.ids.resolve_route(world.client.channel, id); }), EINVAL);
  world.client.ids.resolve_route(other, id);
  EXPECT_EQ(world.client.ids.waiting_events(other), 1U);
}

TEST(RdmaIds, AClosedChannelEndsItsIdentifiers) {
  World world;
  world.listen();
  const IdNumber id = world.resolve();
  world.connect(id);
  world.server.ids.close_channel(world.server.channel, world.now);
  world.run();
  EXPECT_EQ(World::next(world.client)->kind, IdEventKind::rejected);
}

// ---- Refusals.

TEST(RdmaIds, WhatTheStateDoesNotAllowIsRefused) {
  World world;
  Process& client = world.client;
  const IdNumber id = client.make(1);
  EXPECT_EQ(error_of([&] { client.ids.resolve_route(client.channel, id); }), EINVAL);
  EXPECT_EQ(error_of([&] { client.ids.connect(client.channel, id, {}, {}); }), EINVAL);
  EXPECT_EQ(error_of([&] { client.ids.accept(client.channel, id, 0, ConnectionParameters{}, {}); }), EINVAL);
  EXPECT_EQ(error_of([&] { client.ids.reject(client.channel, id, 0, {}, {}); }), EINVAL);
  EXPECT_EQ(error_of([&] { client.ids.disconnect(client.channel, id, {}); }), EINVAL);
  EXPECT_EQ(error_of([&] { client.ids.notify_established(client.channel, id); }), EINVAL);
  EXPECT_EQ(error_of([&] { client.ids.destroy(client.channel, id + 100, {}); }), ENOENT);
  EXPECT_EQ(error_of([&] {
              client.ids.bind(client.channel, id, {.ip = roce::gid_of({192, 168, 7, 7})});
            }),
            EADDRNOTAVAIL);
  world.listen(kAny);
  EXPECT_EQ(error_of([&] { client.ids.bind(client.channel, id, kLoopback); }), EADDRINUSE);
  const IdNumber resolved = world.resolve();
  EXPECT_EQ(error_of([&] {
              client.ids.connect(client.channel, resolved,
                                 {.private_data = std::vector<std::byte>(RdmaIds::kMostPrivateBytes + 1)}, {});
            }),
            EINVAL);
  world.connect(resolved, std::vector<std::byte>(RdmaIds::kMostPrivateBytes));
  EXPECT_EQ(World::next(world.server)->kind, IdEventKind::connect_request);
}

TEST(RdmaIds, AFamilyIsChosenBeforeListening) {
  World world;
  Process& server = world.server;
  const IdNumber id = server.make(1);
  server.ids.set_only_family(server.channel, id, true);
  server.ids.bind(server.channel, id, kAny);
  server.ids.set_only_family(server.channel, id, true);
  server.ids.listen(server.channel, id, 0);
  EXPECT_EQ(error_of([&] { server.ids.set_only_family(server.channel, id, false); }), EINVAL);
}

// As in the kernel: it is not taken back from who has an address, nor given to who listens. Failed: it was refused to
// who has an address.
TEST(RdmaIds, AnAddressIsSharedFromWhenItsOwnerSaysSo) {
  World world;
  Process& server = world.server;
  const IdNumber first = server.make(1);
  server.ids.bind(server.channel, first, kAny);
  const SocketAddress at{.ip = kAny.ip, .port = server.ids.query(server.channel, first).source.port};
  const IdNumber second = server.make(2);
  server.ids.set_reuse(server.channel, second, true);
  EXPECT_EQ(error_of([&] { server.ids.bind(server.channel, second, at); }), EADDRINUSE);
  server.ids.set_reuse(server.channel, first, true);
  server.ids.bind(server.channel, second, at);
  EXPECT_EQ(error_of([&] { server.ids.set_reuse(server.channel, first, false); }), EINVAL);
  server.ids.listen(server.channel, first, 0);
  EXPECT_EQ(error_of([&] { server.ids.set_reuse(server.channel, first, true); }), EINVAL);
  const IdNumber third = server.make(3);
  server.ids.set_reuse(server.channel, third, true);
  server.ids.set_reuse(server.channel, third, false);  // it has no address yet
  EXPECT_EQ(error_of([&] { server.ids.bind(server.channel, third, at); }), EADDRINUSE);
}

// As in the kernel: with an address of its own or a resolved one, and before the route.
TEST(RdmaIds, AGroupIsJoinedBeforeTheRoute) {
  World world;
  Process& client = world.client;
  const SocketAddress group{.ip = roce::gid_of({239, 1, 2, 3}), .port = 7};
  const auto join = [&](IdNumber id) {
    return error_of([&] { static_cast<void>(client.ids.join_group(client.channel, id, 0xab, group)); });
  };
  const IdNumber id = client.make(1, kUdp);
  EXPECT_EQ(join(id), EINVAL);
  client.ids.bind(client.channel, id, kLoopback);
  EXPECT_EQ(join(id), 0);
  client.ids.resolve_address(client.channel, id, std::nullopt, group, 1s, world.now);
  EXPECT_EQ(join(id), 0);
  client.ids.resolve_route(client.channel, id);
  EXPECT_EQ(join(id), EINVAL);
  EXPECT_EQ(World::next(client)->kind, IdEventKind::group_joined);
  EXPECT_EQ(World::next(client)->kind, IdEventKind::address_resolved);
  EXPECT_EQ(World::next(client)->uid, 0xabU);
  EXPECT_EQ(World::next(client)->kind, IdEventKind::route_resolved);
  EXPECT_FALSE(World::next(client));
}

TEST(RdmaIds, AnAcceptThatFailsRejects) {
  World world;
  for (const PortSpace space : {kTcp, kUdp}) {
    world.listen(kAny, 0, space);
    world.connect(world.resolve(kLoopback, space));
    const auto request = World::next(world.server);
    ASSERT_TRUE(request);
    const std::size_t most = space == kUdp ? kDatagramReplyPrivateBytes : kReplyPrivateBytes;
    EXPECT_EQ(error_of([&] {
                world.server.ids.accept(world.server.channel, request->id, 1,
                                        ConnectionParameters{.private_data = std::vector<std::byte>(most + 1)},
                                        world.now);
              }),
              EINVAL);
    world.run();
    const auto told = World::next(world.client);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->kind, space == kUdp ? IdEventKind::unreachable : IdEventKind::rejected);
  }
}

// librdmacm's table has 65 536 places.
TEST(RdmaIds, NumbersComeBackBeforeLibrdmacmRunsOutOfThem) {
  World world;
  Process& client = world.client;
  const IdNumber first = client.make(1);
  const IdNumber kept = client.make(2);
  client.ids.destroy(client.channel, first, {});
  std::set<IdNumber> used{kept};
  for (std::size_t i = 1; i < RdmaIds::kMostIds; ++i) {
    const IdNumber id = client.make(3);
    ASSERT_TRUE(used.insert(id).second) << id;
    ASSERT_LE(id, RdmaIds::kMostIds);
  }
  EXPECT_EQ(error_of([&] { static_cast<void>(client.make(4)); }), ENOMEM);
  client.ids.destroy(client.channel, kept, {});
  EXPECT_EQ(client.make(5), kept);
}

TEST(RdmaIds, ARequestWithoutAddressesIsRefused) {
  World world;
  world.listen(kAny);
  RequestMessage request{.local_id = 5, .service_id = service_id_of(kTcp, 7471)};
  request.private_data[1] = std::byte{0x70};  // no version of IP
  const Route route{.local = world.server.surroundings.gids().front(),
                    .remote = world.client.surroundings.gids().front()};
  world.server.ids.on_mad(route, encode({1, request}), world.now);
  world.server.ids.advance(300ms);
  const auto out = world.server.ids.take_outgoing();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(std::get<RejectMessage>(decode(out[0].mad)->body).reason, kInvalidServiceId);
}

// ---- Datagrams.

TEST(RdmaIds, ADatagramsQueuePairIsTold) {
  World world;
  world.listen(kAny, 0, kUdp);
  const IdNumber id = world.resolve(kLoopback, kUdp);
  world.connect(id);
  const auto request = World::next(world.server);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->service, Service::datagram);
  EXPECT_EQ(request->private_data.size(), kDatagramRequestPrivateBytes - kAddressHeaderBytes);
  world.accept(request->id);
  const auto established = World::next(world.client);
  ASSERT_TRUE(established);
  EXPECT_EQ(established->kind, IdEventKind::established);
  EXPECT_EQ(established->terms.queue_pair, 0x22U);
  EXPECT_EQ(established->q_key, RdmaIds::kDefaultQKey);
  EXPECT_EQ(established->route.remote, world.server.surroundings.gids().front());
}

}  // namespace
}  // namespace sidelatch::softnic::cm
