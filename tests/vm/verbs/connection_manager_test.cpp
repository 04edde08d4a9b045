// Connections through librdmacm: choosing and announcing the way, wrong guests, limits. memory_server_test.cpp tests a
// memory server's behaviour in both ways.
#include "requests.h"

#include "fabric/verbs/connection_manager.h"
#include "fabric/verbs/socket.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr seconds kLimit{20};

struct Storage {
  explicit Storage(Through way, const DeviceOptions& device = {}, const ServerOptions& options = {.any_port = true})
      : fabric(device, through(way)), server(node, options) {
    server.share("table", table);
    server.start();
  }
  VerbsFabric fabric;
  Node& node = fabric.add_node("storage");
  MemoryRegion table = node.allocate(4096, Access::remote_all);
  MemoryServer server;
};

struct Client {
  explicit Client(Through way) : fabric({}, through(way)) {}
  std::uint64_t add_one(QueuePair& qp, RemoteSpan where) { return fabric.reactor().run(add(&qp, where, 1)); }
  VerbsFabric fabric;
  Node& node = fabric.add_node("client");
};

// A hand-made client that can send anything.
struct Impostor {
  explicit Impostor(const std::string& server, const DeviceOptions& device = {},
                    const ConnectionOptions& connections = through(Through::automatic))
      : port(device, connections),
        domain(ibv_alloc_pd(port.context())),
        completions(ibv_create_cq(port.context(), 16, nullptr, nullptr, 0)),
        conversation(HostAndPort::parse(server, kDefaultPort), kLimit),
        welcome(std::get<exchange::Welcome>(conversation.ask(exchange::Hello{}))) {
    std::uint32_t no_inline = 0;
    queue_pair = port.make_queue_pair(domain.get(), completions.get(), 4, no_inline);
  }
  std::uint64_t ticket(std::uint32_t connection) {
    return std::get<exchange::Ticket>(conversation.ask(exchange::Announce{connection, 5})).ticket;
  }
  void connect(std::uint64_t ticket, std::uint32_t outstanding = 16) {
    connect_through_manager(port, *queue_pair, welcome.manager, ticket, outstanding, {kLimit});
  }
  // The queue pair's attributes as reported by the device.
  [[nodiscard]] ibv_qp_attr attributes() const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(queue_pair.get(), &attributes,
                           IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV,
                           &made),
              0);
    return attributes;
  }

  Port port;
  ProtectionDomain domain;
  CompletionQueue completions;
  RawQueuePair queue_pair;
  Conversation conversation;
  exchange::Welcome welcome;
};

// ---- Choice of the way.

TEST(VerbsConnectionManager, IsChosenWhereBothSidesHaveIt) {
  const Storage storage(Through::automatic);
  Client client(Through::automatic);
  RemoteNode remote(client.fabric, storage.server.address());
  EXPECT_EQ(remote.through(), Through::connection_manager);
  EXPECT_EQ(remote.why_exchange(), "");
  auto qp = client.node.connect(remote);
  const RemoteSpan word = remote.region("table").subspan(8, 8);
  EXPECT_EQ(client.add_one(*qp, word), 0U);
  EXPECT_EQ(client.add_one(*qp, word), 1U);
  std::uint64_t value = 0;
  std::memcpy(&value, storage.table.bytes().data() + 8, sizeof value);
  EXPECT_EQ(value, 2U);
}

TEST(VerbsConnectionManager, FallsBackToTheExchangeAndSaysWhy) {
  const Storage storage(Through::exchange);
  Client client(Through::automatic);
  RemoteNode remote(client.fabric, storage.server.address());
  EXPECT_EQ(remote.through(), Through::exchange);
  EXPECT_THAT(remote.why_exchange(), AllOf(HasSubstr("the server has no connection manager"), HasSubstr("exchange")));
  auto qp = client.node.connect(remote);
  EXPECT_EQ(client.add_one(*qp, remote.region("table").subspan(0, 8)), 0U);
}

TEST(VerbsConnectionManager, IsAnErrorWhereItIsDemandedAndTheServerHasNone) {
  const Storage storage(Through::exchange);
  Client client(Through::connection_manager);
  const std::string address = storage.server.address();
  EXPECT_THAT(error_of([&] { const RemoteNode remote(client.fabric, address); }),
              AllOf(HasSubstr(address), HasSubstr("ConnectionOptions::through demands"),
                    HasSubstr("the server has no connection manager")));
}

TEST(VerbsConnectionManager, AServerThatDemandsItRefusesTheExchange) {
  const Storage storage(Through::connection_manager);
  Client client(Through::exchange);
  RemoteNode remote(client.fabric, storage.server.address());
  EXPECT_EQ(remote.through(), Through::exchange);
  EXPECT_THAT(error_of([&] { static_cast<void>(client.node.connect(remote)); }),
              HasSubstr("through the connection manager only"));
}

// ---- Once connected.

// Each connection is new for the connection manager, although the queue pairs stay.
TEST(VerbsConnectionManager, ConnectsTheSameQueuePairAgainAndAgain) {
  const Storage storage(Through::connection_manager);
  Client client(Through::connection_manager);
  RemoteNode remote(client.fabric, storage.server.address());
  auto qp = client.node.connect(remote);
  const RemoteSpan word = remote.region("table").subspan(0, 8);
  RemoteSpan wrong = word;
  wrong.rkey.value ^= 0xff00;
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(client.fabric.reactor().run(status_of_add(qp.get(), wrong)), Status::remote_access);
    client.fabric.reactor().run(qp->reconnect());
    EXPECT_EQ(client.add_one(*qp, word), i);
  }
}

TEST(VerbsConnectionManager, GivesAQueuePairWhatTheOptionsSay) {
  const Storage storage(Through::connection_manager, {.mtu = 1024});
  Impostor client(storage.server.address(), {},
                  {.timeout = 17, .retry_count = 3, .rnr_retry = 2, .min_rnr_timer = 9, .traffic_class = 104});
  client.connect(client.ticket(1), 4);
  const ibv_qp_attr attributes = client.attributes();
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_1024);  // the server's: the smaller one
  EXPECT_EQ(attributes.timeout, 17);
  EXPECT_EQ(attributes.retry_cnt, 3);
  EXPECT_EQ(attributes.rnr_retry, 2);
  EXPECT_EQ(attributes.min_rnr_timer, 9);
  EXPECT_EQ(attributes.ah_attr.grh.traffic_class, 104);
  EXPECT_EQ(attributes.max_rd_atomic, 4);
}

TEST(VerbsConnectionManager, NoMoreIsInFlightThanTheServerServes) {
  const Storage storage(Through::connection_manager);
  Impostor client(storage.server.address());
  client.connect(client.ticket(1), 100'000);
  EXPECT_EQ(client.attributes().max_rd_atomic, std::min(client.port.most_initiated(), client.port.most_served()));
}

TEST(VerbsConnectionManager, ARevokedConnectionStaysRevoked) {
  const Storage storage(Through::connection_manager);
  Client client(Through::connection_manager);
  RemoteNode remote(client.fabric, storage.server.address(), {.owner = 3});
  auto qp = client.node.connect(remote);
  Impostor other(storage.server.address());
  const std::uint64_t ticket = other.ticket(1);  // its owner is 5
  remote.revoke_owner(3);
  remote.revoke_owner(5);
  const RemoteSpan word = remote.region("table").subspan(0, 8);
  EXPECT_EQ(client.fabric.reactor().run(status_of_add(qp.get(), word)), Status::retry_exceeded);
  EXPECT_THAT(error_of([&] { client.fabric.reactor().run(qp->reconnect()); }), HasSubstr("revoked"));
  // An earlier ticket does not help either.
  EXPECT_THAT(error_of([&] { other.connect(ticket); }), HasSubstr("revoked"));
}

// ---- Wrong guests.

class VerbsConnectionManagerGuests : public ::testing::Test {
 protected:
  // Checks that the server is unchanged, for present and new clients.
  void expect_the_others_go_on() {
    EXPECT_EQ(client.add_one(*qp, word), expected++);
    auto another = client.node.connect(remote);
    EXPECT_EQ(client.add_one(*another, word), expected++);
  }
  Storage storage{Through::connection_manager};
  Client client{Through::connection_manager};
  RemoteNode remote{client.fabric, storage.server.address()};
  std::unique_ptr<QueuePair> qp = client.node.connect(remote);
  RemoteSpan word = remote.region("table").subspan(0, 8);
  std::uint64_t expected = 0;
};

TEST_F(VerbsConnectionManagerGuests, AWrongTicketIsRefused) {
  Impostor guest(storage.server.address());
  const std::uint64_t ticket = guest.ticket(1);
  for (const std::uint64_t wrong : {std::uint64_t{0}, ticket + 1, ~std::uint64_t{0}}) {
    EXPECT_THAT(error_of([&] { guest.connect(wrong); }), HasSubstr("no connection waits for this ticket")) << wrong;
  }
  guest.connect(ticket);
  EXPECT_EQ(guest.attributes().qp_state, IBV_QPS_RTS);
  expect_the_others_go_on();
}

TEST_F(VerbsConnectionManagerGuests, ATicketIsGoodForOneTime) {
  Impostor guest(storage.server.address());
  const std::uint64_t ticket = guest.ticket(1);
  guest.connect(ticket);
  EXPECT_THAT(error_of([&] { guest.connect(ticket); }), HasSubstr("no connection waits for this ticket"));
  EXPECT_NE(guest.ticket(1), ticket);
  expect_the_others_go_on();
}

TEST_F(VerbsConnectionManagerGuests, ATicketEndsWithItsClient) {
  Impostor guest(storage.server.address());
  std::uint64_t ticket = 0;
  {
    Impostor gone(storage.server.address());
    ticket = gone.ticket(1);
  }
  for (int i = 0; i < 2000 && storage.server.clients() != 2; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_EQ(storage.server.clients(), 2U);
  EXPECT_THAT(error_of([&] { guest.connect(ticket); }), HasSubstr("no connection waits for this ticket"));
  expect_the_others_go_on();
}

// The server's answer to a request with such private data, through librdmacm by hand.
std::string answer_to(const exchange::ManagerAddress& server, const std::vector<std::byte>& private_data) {
  const ManagerChannel channel(rdma_create_event_channel());
  rdma_cm_id* made = nullptr;
  if (channel == nullptr || rdma_create_id(channel.get(), &made, nullptr, RDMA_PS_TCP) != 0) {
    return "no channel";
  }
  const ManagerId id(made);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(server.port);
  std::memcpy(&to.sin_addr, server.ip.raw + 12, sizeof to.sin_addr);
  std::string refusal = "no answer";
  const auto wait_for = [&](rdma_cm_event_type wanted) {
    pollfd one{channel->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (::poll(&one, 1, 20'000) != 1 || rdma_get_cm_event(channel.get(), &event) != 0) {
      return false;
    }
    const bool as_wanted = event->event == wanted;
    refusal = rdma_event_str(event->event);
    if (as_wanted && wanted == RDMA_CM_EVENT_REJECTED) {
      const auto* const data = static_cast<const std::byte*>(event->param.conn.private_data);
      refusal = decode_refusal({data, event->param.conn.private_data_len});
    }
    rdma_ack_cm_event(event);
    return as_wanted;
  };
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameters.qp_num = 0x4711;
  if (rdma_resolve_addr(id.get(), nullptr, reinterpret_cast<sockaddr*>(&to), 5000) == 0 &&
      wait_for(RDMA_CM_EVENT_ADDR_RESOLVED) && rdma_resolve_route(id.get(), 5000) == 0 &&
      wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED) && rdma_connect(id.get(), &parameters) == 0) {
    static_cast<void>(wait_for(RDMA_CM_EVENT_REJECTED));
  }
  return refusal;
}

TEST_F(VerbsConnectionManagerGuests, WhatIsNoIntroductionIsRefused) {
  Impostor guest(storage.server.address());
  const exchange::ManagerAddress at = guest.welcome.manager;
  std::vector<std::byte> data = encode(Introduction{IBV_MTU_1024, guest.ticket(1)});
  const auto changed = [&](std::size_t offset, std::uint8_t value) {
    std::vector<std::byte> copy = data;
    copy[offset] = std::byte{value};
    return copy;
  };
  EXPECT_THAT(answer_to(at, {}), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(answer_to(at, std::vector<std::byte>(56, std::byte{0xff})), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(answer_to(at, changed(0, 'G')), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(answer_to(at, changed(4, 99)), HasSubstr("version 99"));
  EXPECT_THAT(answer_to(at, changed(6, 0)), HasSubstr("MTU 0"));
  EXPECT_THAT(answer_to(at, changed(6, 200)), HasSubstr("MTU 200"));
  expect_the_others_go_on();
}

// ---- Unreachable servers.

TEST(VerbsConnectionManagerLimits, AnAddressThatNoDeviceReachesIsAnError) {
  const Port port({}, {});
  // RFC 3849: nobody has this address, and the guest has no route to it. (In IPv4 the kernel takes every address for a
  // neighbour of the requested device.)
  const exchange::ManagerAddress at{{.raw = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, 18515};
  const Clock::time_point before = Clock::now();
  EXPECT_THAT(error_of([&] { require_manager_route(port, at, {milliseconds(3000)}); }),
              AllOf(HasSubstr("2001:db8::1"), HasSubstr(port.device_name())));
  EXPECT_LT(Clock::now() - before, seconds(10));
}

// net0 does not resolve addresses, so the request is sent and no answer comes.
TEST(VerbsConnectionManagerLimits, NoAnswerIsAnErrorWithinTheLimit) {
  const Storage storage(Through::connection_manager);
  Impostor client(storage.server.address());
  exchange::ManagerAddress at = client.welcome.manager;
  at.ip.raw[15] ^= 0x40;  // a neighbour that is not there
  const Clock::time_point before = Clock::now();
  EXPECT_THAT(
      error_of([&] { connect_through_manager(client.port, *client.queue_pair, at, 1, 16, {milliseconds(1500)}); }),
      AllOf(HasSubstr("within 1500 ms"), HasSubstr("connecting")));
  const auto took = Clock::now() - before;
  EXPECT_GE(took, milliseconds(1500));
  EXPECT_LT(took, seconds(8));
}

TEST(VerbsConnectionManagerLimits, TheEndOfTheConversationEndsTheWait) {
  const Storage storage(Through::connection_manager);
  Impostor client(storage.server.address());
  exchange::ManagerAddress at = client.welcome.manager;
  at.ip.raw[15] ^= 0x40;  // a neighbour that is not there
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor lifeline(ends[0]);
  FileDescriptor other(ends[1]);
  std::string what;
  std::thread waits([&] {
    what = error_of([&] { connect_through_manager(client.port, *client.queue_pair, at, 1, 16, {kLimit, ends[0]}); });
  });
  other = FileDescriptor();
  waits.join();
  EXPECT_THAT(what, HasSubstr("the conversation with the server ended"));
}

TEST(VerbsConnectionManagerLimits, AServerThatHasEndedIsAnError) {
  std::optional<Storage> storage(std::in_place, Through::connection_manager);
  Impostor client(storage->server.address());
  const std::uint64_t ticket = client.ticket(1);
  storage.reset();
  EXPECT_THAT(error_of([&] { client.connect(ticket); }), HasSubstr("nobody listens there"));
}

// The guest has one device, so the other name is made up.
TEST(VerbsConnectionManagerLimits, AnotherDeviceOrPortThanTheFabricsIsNamed) {
  const Port port({}, {});
  rdma_cm_id elsewhere{};
  elsewhere.verbs = port.context();
  elsewhere.port_num = static_cast<std::uint8_t>(port.number() + 1);
  EXPECT_THAT(error_of([&] { require_same_device(port, elsewhere); }),
              AllOf(HasSubstr("port 2 of rxe0"), HasSubstr("port 1 of rxe0"), HasSubstr("DeviceOptions::device")));
  ibv_device device{};
  std::memcpy(device.name, "other0", sizeof "other0");
  ibv_context context{};
  context.device = &device;
  elsewhere.verbs = &context;
  elsewhere.port_num = port.number();
  EXPECT_THAT(error_of([&] { require_same_device(port, elsewhere); }),
              AllOf(HasSubstr("port 1 of other0"), HasSubstr("port 1 of rxe0")));
  elsewhere.verbs = port.context();
  EXPECT_EQ(error_of([&] { require_same_device(port, elsewhere); }), "no error");
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
