// A memory node in another process: values, wrong guests, clients and servers that die.
#include "fabric/verbs/exchange.h"
#include "fabric/verbs/socket.h"
#include "requests.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kLent = 1 << 20;

// A memory server behaves the same in both ways of connecting queue pairs.
class VerbsMemoryServer : public ::testing::TestWithParam<Through> {
 protected:
  void start(const std::string& token = {}) {
    server.emplace(
        storage,
        ServerOptions{
            .address = "127.0.0.1", .any_port = true, .token = token, .most_clients = 8, .most_lent_bytes = kLent});
    server->share("table", table);
    server->share("readable", readable);
    server->start();
  }
  [[nodiscard]] std::uint64_t word() const {
    std::uint64_t value = 0;
    std::memcpy(&value, table.bytes().data(), sizeof value);
    return value;
  }
  template <class T>
  T run(Task<T> task) {
    return client_fabric.reactor().run(std::move(task));
  }
  // Waits until the server has noticed; the test fails if it never does.
  void wait_for_clients(std::uint32_t count) {
    for (int i = 0; i < 3000 && server->clients() != count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_EQ(server->clients(), count);
  }

  VerbsFabric fabric{{}, through(GetParam())};
  Node& storage = fabric.add_node("storage");
  MemoryRegion table = storage.allocate(4096, Access::remote_all);
  MemoryRegion readable = storage.allocate(4096, Access::remote_read);
  VerbsFabric client_fabric{{}, through(GetParam())};
  Node& client = client_fabric.add_node("client");
  std::optional<MemoryServer> server;
};

TEST_P(VerbsMemoryServer, ClientsReachWhatItShares) {
  start();
  RemoteNode remote(client_fabric, server->address());
  EXPECT_EQ(remote.through(), GetParam());
  EXPECT_EQ(remote.why_exchange().empty(), GetParam() == Through::connection_manager);
  const RemoteSpan span = remote.region("table");
  EXPECT_EQ(span.length, 4096U);
  auto qp = client.connect(remote);
  auto second = client.connect(remote);
  EXPECT_EQ(run(add(qp.get(), span.subspan(0, 8), 5)), 0U);
  EXPECT_EQ(run(add(second.get(), span.subspan(0, 8), 6)), 5U);
  EXPECT_EQ(word(), 11U);
  EXPECT_EQ(server->clients(), 1U);
  EXPECT_THAT(error_of([&] { static_cast<void>(remote.region("tabel")); }), HasSubstr("table"));
  EXPECT_THROW(static_cast<void>(remote.connect(client, {})), std::logic_error);
}

TEST_P(VerbsMemoryServer, LendsMemoryThatOthersFindByItsName) {
  start();
  RemoteNode one(client_fabric, server->address());
  RemoteNode two(client_fabric, server->address());
  auto qp_one = client.connect(one);
  auto qp_two = client.connect(two);
  MemoryRegion lent = one.allocate(kLent, Access::remote_all);
  EXPECT_TRUE(lent.bytes().empty());
  EXPECT_EQ(run(add(qp_one.get(), lent.remote(kLent - 8, 8), 3)), 0U);
  EXPECT_FALSE(two.find_region("board").has_value());
  one.publish("board", lent);
  EXPECT_THROW(one.publish("again", lent), std::runtime_error);
  const RemoteSpan found = two.region("board");
  EXPECT_EQ(found.length, kLent);
  EXPECT_EQ(run(add(qp_two.get(), found.subspan(kLent - 8, 8), 3)), 3U);
  // Everything that may be lent is lent.
  EXPECT_THAT(error_of([&] { static_cast<void>(two.allocate(8, Access::remote_all)); }), HasSubstr("most_lent_bytes"));
  lent.deregister();
  EXPECT_FALSE(two.find_region("board").has_value());
  EXPECT_EQ(run(status_of_add(qp_two.get(), found.subspan(0, 8))), Status::remote_access);
  const MemoryRegion next = two.allocate(kLent, Access::remote_read);
  run(qp_two->reconnect());
  EXPECT_EQ(run(status_of_add(qp_two.get(), next.remote(0, 8))), Status::remote_access);
  std::vector<std::byte> own(64);
  EXPECT_THROW(static_cast<void>(two.register_memory(own, Access::remote_all)), std::logic_error);
  EXPECT_THROW(one.publish("next", next), std::invalid_argument);
}

// A region of one byte takes a page, and what is lent is limited by what it takes.
TEST_P(VerbsMemoryServer, LendsWholePages) {
  start();
  RemoteNode remote(client_fabric, server->address());
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<MemoryRegion> lent;
  for (std::uint64_t i = 0; i < kLent / page; ++i) {
    lent.push_back(remote.allocate(1, Access::remote_all));
  }
  EXPECT_EQ(lent.back().length(), 1U);
  EXPECT_THAT(error_of([&] { lent.push_back(remote.allocate(1, Access::remote_all)); }), HasSubstr("most_lent_bytes"));
  lent.pop_back();
  EXPECT_NO_THROW(lent.push_back(remote.allocate(page, Access::remote_all)));
  lent.pop_back();
  EXPECT_THAT(error_of([&] { lent.push_back(remote.allocate(page + 1, Access::remote_all)); }),
              HasSubstr("most_lent_bytes"));
}

TEST_P(VerbsMemoryServer, OneOfSeveralPublishesAName) {
  start();
  RemoteNode one(client_fabric, server->address());
  const MemoryRegion first = one.allocate(64, Access::remote_all);
  one.publish("board", first);
  {
    RemoteNode two(client_fabric, server->address());
    const MemoryRegion second = two.allocate(64, Access::remote_all);
    EXPECT_THROW(two.publish("board", second), std::runtime_error);
    EXPECT_THROW(two.publish("table", second), std::runtime_error);
    two.publish("mine", second);
    EXPECT_TRUE(one.find_region("mine").has_value());
  }
  // A client's memory ends with it.
  wait_for_clients(1);
  EXPECT_FALSE(one.find_region("mine").has_value());
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const MemoryRegion rest = one.allocate(kLent - page, Access::remote_all);
}

TEST_P(VerbsMemoryServer, AQueuePairThatFailedConnectsAgain) {
  start();
  RemoteNode remote(client_fabric, server->address());
  auto qp = client.connect(remote);
  RemoteSpan wrong = remote.region("table").subspan(0, 8);
  wrong.rkey.value ^= 0xff00;
  EXPECT_EQ(run(status_of_add(qp.get(), wrong)), Status::remote_access);
  run(qp->reconnect());
  EXPECT_EQ(run(add(qp.get(), remote.region("table").subspan(0, 8), 1)), 0U);
}

TEST_P(VerbsMemoryServer, RevokesOneConnectionOrAllOfAnOwner) {
  start();
  RemoteNode first(client_fabric, server->address(), {.owner = 1});
  RemoteNode second(client_fabric, server->address(), {.owner = 2});
  const RemoteSpan span = first.region("table").subspan(0, 8);
  auto a = client.connect(first);
  auto b = client.connect(first);
  auto c = client.connect(second);
  first.revoke(*b);
  EXPECT_EQ(run(status_of_add(b.get(), span)), Status::retry_exceeded);
  EXPECT_THROW(run(b->reconnect()), FabricError);
  EXPECT_EQ(run(add(a.get(), span, 1)), 0U);
  second.revoke_owner(1);
  EXPECT_EQ(run(status_of_add(a.get(), span)), Status::retry_exceeded);
  EXPECT_THROW(run(a->reconnect()), FabricError);
  EXPECT_EQ(run(add(c.get(), span, 1)), 1U);
  // A client that returns gets a new id, and a client that has never connected cannot be kept out.
  EXPECT_THROW(static_cast<void>(client.connect(first)), FabricError);
  EXPECT_THAT(error_of([&] { second.revoke_owner(7); }), HasSubstr("owner 7 has never connected"));
  EXPECT_THROW(second.revoke(*a), std::invalid_argument);
}

// The switch must fence them first.
TEST_P(VerbsMemoryServer, ConnectionsThroughASwitchAreRevokedByTheSwitchOnly) {
  start();
  Conversation of_switch(HostAndPort::parse(server->address(), 0), std::chrono::seconds(10));
  Conversation same_switch(HostAndPort::parse(server->address(), 0), std::chrono::seconds(10));
  const auto welcome = of_switch.ask(exchange::Hello{{}, 5});
  ASSERT_TRUE(std::holds_alternative<exchange::Welcome>(welcome));
  static_cast<void>(same_switch.ask(exchange::Hello{{}, 5}));
  Address address;
  address.gid = std::get<exchange::Welcome>(welcome).gid;
  address.queue_pair = 0x77;
  address.mtu = 3;
  address.responder = 1;
  const auto answer =
      of_switch.ask(GetParam() == Through::exchange ? exchange::Message(exchange::Connect{1, 4, address})
                                                    : exchange::Message(exchange::Announce{1, 4}));
  ASSERT_FALSE(std::holds_alternative<exchange::Refused>(answer));
  RemoteNode other(client_fabric, server->address(), {.owner = 2});
  EXPECT_THAT(error_of([&] { other.revoke_owner(4); }), HasSubstr("through a switch"));
  EXPECT_TRUE(std::holds_alternative<exchange::Revoked>(same_switch.ask(exchange::Revoke{4})));
  other.revoke_owner(4);  // there is nothing left of it
}

// The revocation of another owner would end it, or that of its own would not.
TEST_P(VerbsMemoryServer, AConnectionStaysItsOwners) {
  start();
  Conversation of_client(HostAndPort::parse(server->address(), 0), std::chrono::seconds(10));
  const auto welcome = of_client.ask(exchange::Hello{});
  ASSERT_TRUE(std::holds_alternative<exchange::Welcome>(welcome));
  Address address;
  address.gid = std::get<exchange::Welcome>(welcome).gid;
  address.queue_pair = 0x77;
  address.mtu = 3;
  address.responder = 1;
  const auto refusal = [&](std::uint16_t owner) {
    const auto answer =
        of_client.ask(GetParam() == Through::exchange ? exchange::Message(exchange::Connect{1, owner, address})
                                                      : exchange::Message(exchange::Announce{1, owner}));
    const auto* const refused = std::get_if<exchange::Refused>(&answer);
    return refused == nullptr ? "taken" : refused->why;
  };
  EXPECT_EQ(refusal(3), "taken");
  EXPECT_THAT(refusal(4), HasSubstr("connection 1 is of owner 3"));
  EXPECT_EQ(refusal(3), "taken");
}

// It counts until its queue pair is destroyed, and no longer.
TEST_P(VerbsMemoryServer, ARevokedConnectionTakesNoRoomForEver) {
  server.emplace(storage, ServerOptions{.address = "127.0.0.1", .any_port = true, .most_connections = 1});
  server->start();
  RemoteNode remote(client_fabric, server->address(), {.owner = 1});
  for (int i = 0; i < 3; ++i) {
    auto qp = client.connect(remote);
    remote.revoke(*qp);
    remote.revoke(*qp);  // twice is no error
  }
}

// Writes the whole table with growing numbers, with many WRITEs in flight, until it is revoked.
Task<void> write_for_ever(QueuePair* qp, MemoryRegion* from, RemoteSpan table, std::uint64_t* written,
                          std::optional<Status>* status) {
  try {
    for (std::uint64_t number = 1;; ++number) {
      for (std::size_t i = 0; i < from->length(); i += sizeof number) {
        std::memcpy(from->bytes().data() + i, &number, sizeof number);
      }
      const WorkRequest whole = write(from->local(), table);
      co_await qp->submit(whole, whole, whole, whole, whole, whole, whole, whole);
      *written = number;
    }
  } catch (const FabricError& error) {
    *status = error.status();
  }
}

// Memory model, rule 10: when the revocation returns, no in-flight request has an effect any more.
TEST_P(VerbsMemoryServer, RevokesInTheMiddleOfWrites) {
  start();
  RemoteNode writer(client_fabric, server->address(), {.owner = 1});
  RemoteNode judge(client_fabric, server->address(), {.owner = 2});
  auto writes = client.connect(writer);
  auto adds = client.connect(judge);
  MemoryRegion from = client.allocate(4096, Access::local_write);
  std::uint64_t written = 0;
  std::optional<Status> status;
  Reactor& reactor = client_fabric.reactor();
  const Reactor::Scope tasks(reactor);
  reactor.spawn(write_for_ever(writes.get(), &from, writer.region("table"), &written, &status));
  while (written < 20) {
    reactor.run_for(from_ns(1e6));
  }
  ASSERT_FALSE(status.has_value());  // it is still at it
  judge.revoke_owner(1);
  const std::vector<std::byte> at_once(table.bytes().begin(), table.bytes().end());
  // Many times as long as an in-flight WRITE could take.
  for (int i = 0; i < 500; ++i) {
    run(add(adds.get(), judge.region("table").subspan(4088, 8), 0));
  }
  reactor.run();
  EXPECT_EQ(status, Status::retry_exceeded);
  EXPECT_TRUE(std::ranges::equal(at_once, table.bytes()));
}

TEST_P(VerbsMemoryServer, RefusesAWrongToken) {
  start("secret");
  const std::string address = server->address();
  EXPECT_THAT(error_of([&] { const RemoteNode remote(client_fabric, address, {.token = "guess"}); }),
              HasSubstr("token"));
  EXPECT_NO_THROW(const RemoteNode remote(client_fabric, address, {.token = "secret"}));
}

TEST_P(VerbsMemoryServer, OutlivesWhoSpeaksSomethingElse) {
  start();
  const std::string address = server->address();
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\0'), std::string()}) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    static_cast<void>(::send(socket, text.data(), text.size(), MSG_NOSIGNAL));
    ::close(socket);
  }
  RemoteNode remote(client_fabric, address);
  auto qp = client.connect(remote);
  EXPECT_EQ(run(add(qp.get(), remote.region("table").subspan(0, 8), 1)), 0U);
}

// Another fabric's reactor would resume this one's tasks.
TEST_P(VerbsMemoryServer, ANodeOfAnotherFabricIsRefused) {
  start();
  RemoteNode remote(client_fabric, server->address());
  EXPECT_THROW(static_cast<void>(storage.connect(remote)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(client.connect(storage)), std::invalid_argument);
  EXPECT_NO_THROW(static_cast<void>(client.connect(remote)));
}

// Its connections end with it, and the others continue.
TEST_P(VerbsMemoryServer, NoticesAClientThatIsKilled) {
  start();
  const std::string address = server->address();
  const pid_t child = fork_child([&]() -> int {
    VerbsFabric own({}, through(GetParam()));
    Node& node = own.add_node("child");
    RemoteNode remote(own, address);
    auto qp = node.connect(remote);
    own.reactor().run(add(qp.get(), remote.region("table").subspan(0, 8), 100));
    for (;;) {
      ::pause();
    }
  });
  ASSERT_GT(child, 0);
  RemoteNode remote(client_fabric, address);
  auto qp = client.connect(remote);
  wait_for_clients(2);
  for (int i = 0; i < 3000 && word() < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(word(), 100U);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  wait_for_clients(1);
  EXPECT_EQ(run(add(qp.get(), remote.region("table").subspan(0, 8), 1)), 100U);
}

TEST_P(VerbsMemoryServer, ThatVanishesGivesItsClientsAnError) {
  start();
  RemoteNode remote(client_fabric, server->address());
  auto qp = client.connect(remote);
  const RemoteSpan span = remote.region("table").subspan(0, 8);
  EXPECT_EQ(run(add(qp.get(), span, 1)), 0U);
  server.reset();
  EXPECT_EQ(run(status_of_add(qp.get(), span)), Status::retry_exceeded);
  EXPECT_THROW(run(qp->reconnect()), FabricError);
}

// A memory node in a process of its own that can be killed.
class ServerProcess {
 public:
  ServerProcess() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      throw std::runtime_error("pipe failed");
    }
    process_ = ::fork();
    if (process_ == 0) {
      VerbsFabric fabric({}, through(Through::automatic));
      Node& storage = fabric.add_node("storage");
      const MemoryRegion table = storage.allocate(4096, Access::remote_all);
      MemoryServer server(storage, {.address = "127.0.0.1", .any_port = true});
      server.share("table", table);
      server.start();
      const std::string address = server.address() + "\n";
      static_cast<void>(::write(ends[1], address.data(), address.size()));
      for (;;) {
        ::pause();
      }
    }
    ::close(ends[1]);
    for (char letter = 0; ::read(ends[0], &letter, 1) == 1 && letter != '\n';) {
      address_ += letter;
    }
    ::close(ends[0]);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() { kill(); }
  [[nodiscard]] const std::string& address() const { return address_; }
  void kill() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = 0;
    }
  }

 private:
  pid_t process_ = 0;
  std::string address_;
};

// Adds 1 until an error; counts the successes.
Task<void> add_until_error(QueuePair* qp, RemoteSpan where, std::uint64_t* done, std::optional<Status>* status) {
  try {
    for (;;) {
      co_await qp->fetch_add(where, 1);
      ++*done;
    }
  } catch (const FabricError& error) {
    *status = error.status();
  }
}
Task<void> add_until_set(QueuePair* qp, RemoteSpan where, std::uint64_t* done, const std::optional<Status>* status) {
  const std::uint64_t least = 200;
  while (!status->has_value() || *done < least) {
    co_await qp->fetch_add(where, 1);
    ++*done;
  }
}

TEST(VerbsMemoryServers, OneOfThemIsKilledUnderLoadAndTheOtherGoesOn) {
  ServerProcess first;
  const ServerProcess second;
  VerbsFabric fabric({}, through(Through::automatic));
  Node& client = fabric.add_node("client");
  RemoteNode to_first(fabric, first.address());
  RemoteNode to_second(fabric, second.address());
  auto a = client.connect(to_first);
  auto b = client.connect(to_second);
  std::uint64_t done_a = 0;
  std::uint64_t done_b = 0;
  std::optional<Status> status;
  Reactor& reactor = fabric.reactor();
  reactor.spawn(add_until_error(a.get(), to_first.region("table").subspan(0, 8), &done_a, &status));
  reactor.spawn(add_until_set(b.get(), to_second.region("table").subspan(0, 8), &done_b, &status));
  reactor.spawn([](Reactor* on, ServerProcess* victim, const std::uint64_t* done) -> Task<void> {
    while (*done < 50) {
      co_await on->sleep(from_ns(1e6));
    }
    victim->kill();
  }(&reactor, &first, &done_a));
  const auto began = std::chrono::steady_clock::now();
  reactor.run();
  EXPECT_EQ(status, Status::retry_exceeded);
  // 4.096 us * 2^18, three times, plus the delays of an emulated machine.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  EXPECT_GE(done_a, 50U);
  EXPECT_EQ(reactor.run(add(b.get(), to_second.region("table").subspan(0, 8), 0)), done_b);
  EXPECT_THROW(reactor.run(a->reconnect()), FabricError);
}

// One client repeatedly makes every possible mistake; the other's values stay exact.
TEST_P(VerbsMemoryServer, AClientsErrorsAreItsOwn) {
  start();
  const std::string address = server->address();
  const pid_t child = fork_child([&] {
    int wrong = 0;
    VerbsFabric own({}, through(GetParam()));
    Node& node = own.add_node("child");
    RemoteNode remote(own, address);
    const RemoteSpan words = remote.region("table");
    auto qp = node.connect(remote);
    const auto fails_with = [&](RemoteSpan span, Status expected) {
      if (own.reactor().run(status_of_add(qp.get(), span)) != expected) {
        ++wrong;
      }
      if (qp->state() == QueuePair::State::error) {
        own.reactor().run(qp->reconnect());
      }
    };
    for (int i = 0; i < 5; ++i) {
      RemoteSpan span = words.subspan(0, 8);
      span.rkey.value ^= 0xff00;
      fails_with(span, Status::remote_access);
      span = words.subspan(0, 8);
      span.address.value += 4096;
      fails_with(span, Status::remote_access);
      fails_with(remote.region("readable").subspan(0, 8), Status::remote_access);
    }
    return wrong;
  });
  ASSERT_GT(child, 0);
  RemoteNode remote(client_fabric, address);
  auto qp = client.connect(remote);
  std::uint64_t done = 0;
  int status = -1;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    ASSERT_EQ(run(add(qp.get(), remote.region("table").subspan(0, 8), 1)), done);
    ++done;
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GT(done, 0U);
  EXPECT_EQ(word(), done);
}

TEST_P(VerbsMemoryServer, MoreClientsThanItTakesAreRefused) {
  start();
  std::vector<std::unique_ptr<RemoteNode>> remotes;
  for (int i = 0; i < 8; ++i) {
    remotes.push_back(std::make_unique<RemoteNode>(client_fabric, server->address()));
  }
  EXPECT_THAT(error_of([&] { const RemoteNode ninth(client_fabric, server->address()); }), HasSubstr("8 clients"));
}

INSTANTIATE_TEST_SUITE_P(, VerbsMemoryServer, ::testing::Values(Through::exchange, Through::connection_manager),
                         [](const auto& one) { return std::string(name(one.param)); });

}  // namespace
}  // namespace sidelatch::fabric::verbs
