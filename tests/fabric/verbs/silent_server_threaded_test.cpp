// A memory server that answers late or never must hold up only the task that waits for it: other tasks of the reactor
// go on, so that leases on healthy nodes do not end.
#include "no_threads.h"
#include "stub_provider.h"

#include "fabric/verbs/socket.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::HasSubstr;

// Longer than others need on a busy machine, and what the test costs where the reactor's thread is held up.
constexpr std::chrono::milliseconds kLimit(5000);

// Speaks the protocol of a memory server, and keeps some answers back until it is told to give them.
class SlowServer {
 public:
  SlowServer() : listening_(listen_on(at_)), thread_([this] { serve(); }) {}
  SlowServer(const SlowServer&) = delete;
  SlowServer& operator=(const SlowServer&) = delete;
  ~SlowServer() {
    ends_ = true;
    thread_.join();
  }
  [[nodiscard]] std::string address() const { return at_.to_string(); }

  std::atomic<bool> answers = true;
  std::atomic<int> asked = 0;         // questions, also those without an answer
  std::atomic<std::uint8_t> mtu = 0;  // that its end of a connection has; 0: the client's

 private:
  [[nodiscard]] bool wait_for(int socket) const {
    while (!ends_) {
      pollfd one{socket, POLLIN, 0};
      if (::poll(&one, 1, 10) > 0) {
        return true;
      }
    }
    return false;
  }

  void serve() {
    if (!wait_for(listening_.number())) {
      return;
    }
    const FileDescriptor client(::accept(listening_.number(), nullptr, nullptr));
    std::vector<std::byte> received;
    while (wait_for(client.number())) {
      std::array<std::byte, 4096> more{};
      const ssize_t count = ::recv(client.number(), more.data(), more.size(), 0);
      if (count <= 0) {
        return;
      }
      received.insert(received.end(), more.begin(), more.begin() + count);
      std::span<const std::byte> bytes = received;
      while (const std::optional<exchange::Message> message = exchange::decode(bytes)) {
        ++asked;
        while (!answers && !ends_) {
          std::this_thread::yield();
        }
        if (const std::optional<exchange::Message> answer = answer_to(*message)) {
          const std::vector<std::byte> out = exchange::encode(*answer);
          static_cast<void>(::send(client.number(), out.data(), out.size(), MSG_NOSIGNAL));
        }
      }
      received.assign(bytes.begin(), bytes.end());
    }
  }

  [[nodiscard]] std::optional<exchange::Message> answer_to(const exchange::Message& message) const {
    if (std::holds_alternative<exchange::Hello>(message)) {
      return exchange::Welcome{.node = "slow", .regions = {}, .manager = {}, .no_manager = "none"};
    }
    if (const auto* const connect = std::get_if<exchange::Connect>(&message)) {
      Address address = connect->address;
      address.packet_number ^= 1;
      address.mtu = mtu.load() != 0 ? mtu.load() : address.mtu;
      return exchange::Accepted{connect->connection, address};
    }
    if (const auto* const revoke = std::get_if<exchange::Revoke>(&message)) {
      if (revoke->owner == 7) {
        return exchange::Refused{"owner 7 has never connected here", exchange::Refused::kUnknownOwner};
      }
      if (revoke->owner == 8) {
        return exchange::Refused{"the NIC does not end a queue pair of owner 8"};
      }
      return exchange::Revoked{revoke->owner};
    }
    return std::nullopt;
  }

  HostAndPort at_{"127.0.0.1", 0};
  FileDescriptor listening_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

class SilentServer : public ::testing::Test {
 protected:
  SilentServer() : fabric((stub_device() = StubDevice{}, std::make_unique<VerbsFabric>())) {}

  // Ends the connection by an error.
  void break_connection() {
    StubDevice& device = stub_device();
    device.failing_request = device.requests + 1;
    device.failure = IBV_WC_RETRY_EXC_ERR;
    fabric->reactor().run(failing(far.get(), near_table.remote(0, 8)));
    ASSERT_EQ(far->state(), QueuePair::State::error);
  }
  static Task<void> failing(QueuePair* qp, RemoteSpan span) {
    try {
      co_await qp->fetch_add(span, 1);
    } catch (const FabricError&) {  // NOLINT(bugprone-empty-catch): that is what it is for
    }
  }
  static Task<void> add_often(QueuePair* qp, RemoteSpan span, SlowServer* server, int asked_before, bool* done) {
    // The question is on its way.
    while (server->asked == asked_before) {
      co_await qp->fetch_add(span, 1);
    }
    for (int i = 0; i < 100; ++i) {
      co_await qp->fetch_add(span, 1);
    }
    *done = true;
    server->answers = true;
  }
  // Whether the other task had done its work when the call ended, and the error of the call.
  struct Outcome {
    bool ended = false;
    bool others_went_on = false;
    std::string error;
  };
  static Task<void> reconnecting(QueuePair* qp, const bool* done, Outcome* outcome) {
    try {
      co_await qp->reconnect();
    } catch (const std::exception& error) {
      outcome->error = error.what();
    }
    outcome->others_went_on = *done;
    outcome->ended = true;
  }
  static Task<void> revoking(Node* node, std::uint16_t owner, const bool* done, Outcome* outcome) {
    try {
      co_await node->revoke_all_of(owner);
    } catch (const std::exception& error) {
      outcome->error = error.what();
    }
    outcome->others_went_on = *done;
    outcome->ended = true;
  }

  SlowServer server;
  std::unique_ptr<VerbsFabric> fabric;
  Node& storage = fabric->add_node("storage");
  Node& client = fabric->add_node("client");
  MemoryRegion near_table = storage.allocate(4096, Access::remote_all);
  std::unique_ptr<QueuePair> near = client.connect(storage);
  std::unique_ptr<RemoteNode> remote =
      std::make_unique<RemoteNode>(*fabric, server.address(), RemoteOptions{.limit = kLimit});
  std::unique_ptr<QueuePair> far = client.connect(*remote);
  bool done = false;
};

TEST_F(SilentServer, OthersGoOnWhileATaskReconnects) {
  break_connection();
  server.answers = false;
  const int before = server.asked;
  Outcome outcome;
  Reactor& reactor = fabric->reactor();
  const Reactor::Scope tasks(reactor);
  reactor.spawn(reconnecting(far.get(), &done, &outcome));
  reactor.spawn(add_often(near.get(), near_table.remote(8, 8), &server, before, &done));
  reactor.run();
  EXPECT_TRUE(outcome.others_went_on);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(far->state(), QueuePair::State::ready);
}

TEST_F(SilentServer, OthersGoOnWhileATaskRevokes) {
  server.answers = false;
  const int before = server.asked;
  Outcome outcome;
  Reactor& reactor = fabric->reactor();
  const Reactor::Scope tasks(reactor);
  reactor.spawn(revoking(remote.get(), 3, &done, &outcome));
  reactor.spawn(add_often(near.get(), near_table.remote(8, 8), &server, before, &done));
  reactor.run();
  EXPECT_TRUE(outcome.others_went_on);
  EXPECT_EQ(outcome.error, "");
}

TEST_F(SilentServer, ARefusedRevocationNamesTheOwner) {
  Outcome outcome;
  fabric->reactor().run(revoking(remote.get(), 7, &done, &outcome));
  EXPECT_THAT(outcome.error, HasSubstr("owner 7 has never connected"));
  fabric->reactor().run(revoking(&storage, 7, &done, &outcome));
  EXPECT_THAT(outcome.error, HasSubstr("storage"));
}

// Its connections are not known to have ended: nobody may take that for an owner who has none.
TEST_F(SilentServer, ARevocationThatFailsAtTheServerIsAFabricError) {
  try {
    fabric->reactor().run(remote->revoke_all_of(8));
    ADD_FAILURE() << "no error";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::device_failure);
    EXPECT_THAT(error.what(), HasSubstr("does not end a queue pair of owner 8"));
  }
  EXPECT_THROW(fabric->reactor().run(remote->revoke_all_of(7)), std::invalid_argument);
}

// Both end, and the connection is made once: made a second time, it would lose what the first task posts meanwhile.
TEST_F(SilentServer, TwoTasksThatReconnectShareTheAnswer) {
  break_connection();
  server.answers = false;
  std::array<Outcome, 2> outcomes;
  Reactor& reactor = fabric->reactor();
  const Reactor::Scope tasks(reactor);
  const int before = server.asked;
  for (Outcome& outcome : outcomes) {
    reactor.spawn(reconnecting(far.get(), &done, &outcome));
  }
  reactor.spawn(add_often(near.get(), near_table.remote(8, 8), &server, before, &done));
  reactor.run();
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.others_went_on);
    EXPECT_EQ(outcome.error, "");
  }
  EXPECT_EQ(server.asked - before, 1);
  EXPECT_EQ(far->state(), QueuePair::State::ready);
}

// A task that is destroyed while it waits leaves nothing behind: the next one uses the answer, or asks again.
TEST_F(SilentServer, ATaskThatWaitsMayBeDestroyed) {
  break_connection();
  server.answers = false;
  Outcome outcome;
  Reactor& reactor = fabric->reactor();
  {
    const Reactor::Scope tasks(reactor);
    const int before = server.asked;
    reactor.spawn(reconnecting(far.get(), &done, &outcome));
    while (server.asked == before) {
      reactor.run_for(from_ns(1e4));
    }
  }
  EXPECT_FALSE(outcome.ended);
  server.answers = true;
  reactor.run(reconnecting(far.get(), &done, &outcome));
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(far->state(), QueuePair::State::ready);
}

// An attempt that could not even begin stands in no later one's way.
TEST_F(SilentServer, AReconnectWithoutAThreadIsAFabricErrorAndMayBeRepeated) {
  break_connection();
  Outcome outcome;
  {
    const NoThreads none;
    fabric->reactor().run(reconnecting(far.get(), &done, &outcome));
  }
  EXPECT_THAT(outcome.error, HasSubstr("gives no thread"));
  fabric->reactor().run(far->reconnect());
  EXPECT_EQ(far->state(), QueuePair::State::ready);
}

TEST_F(SilentServer, AServerWhoseEndCannotBeIsAnError) {
  server.mtu = 6;
  try {
    const auto qp = client.connect(*remote);
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("path MTU is 6"));
  }
  break_connection();
  Outcome outcome;
  fabric->reactor().run(reconnecting(far.get(), &done, &outcome));
  EXPECT_THAT(outcome.error, HasSubstr("path MTU is 6"));
  server.mtu = 0;
  fabric->reactor().run(far->reconnect());
  EXPECT_EQ(far->state(), QueuePair::State::ready);
}

// So may the queue pair.
TEST_F(SilentServer, TheQueuePairMayBeDestroyed) {
  break_connection();
  server.answers = false;
  Outcome outcome;
  Reactor& reactor = fabric->reactor();
  const Reactor::Scope tasks(reactor);
  const int before = server.asked;
  reactor.spawn(reconnecting(far.get(), &done, &outcome));
  while (server.asked == before) {
    reactor.run_for(from_ns(1e4));
  }
  far.reset();
  server.answers = true;
  reactor.run();
  EXPECT_THAT(outcome.error, HasSubstr("destroyed"));
}

TEST_F(SilentServer, AServerThatNeverAnswersIsAnError) {
  remote.reset();
  far.reset();
  SlowServer mute;
  RemoteNode short_of_patience(*fabric, mute.address(), {.limit = std::chrono::milliseconds(50)});
  mute.answers = false;
  Outcome outcome;
  fabric->reactor().run(revoking(&short_of_patience, 3, &done, &outcome));
  EXPECT_THAT(outcome.error, HasSubstr("has not answered within 50 ms"));
  // Its answer may still come, so that this node can ask nothing more.
  try {
    fabric->reactor().run(short_of_patience.revoke_all_of(4));
    ADD_FAILURE() << "no error";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::disconnected);
    EXPECT_THAT(error.what(), HasSubstr("make a new RemoteNode"));
  }
}

TEST_F(SilentServer, ALimitOutOfRangeIsNamed) {
  using std::chrono::milliseconds;
  for (const milliseconds limit : {milliseconds(-1), milliseconds(0), milliseconds(86'400'001), milliseconds::max()}) {
    try {
      const RemoteNode node(*fabric, "127.0.0.1:1", {.limit = limit});
      ADD_FAILURE() << limit.count();
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("RemoteOptions::limit"));
    }
  }
}

// A caller that only knows the fabric (sync::RevocationService) must be able to catch it.
TEST_F(SilentServer, ARevocationOfAConnectionWithoutAnAnswerIsAFabricError) {
  remote.reset();
  far.reset();
  SlowServer mute;
  RemoteNode short_of_patience(*fabric, mute.address(), {.limit = std::chrono::milliseconds(50)});
  const std::unique_ptr<QueuePair> qp = client.connect(short_of_patience);
  try {
    short_of_patience.revoke(*qp);
    ADD_FAILURE() << "no error";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::retry_exceeded);
    EXPECT_THAT(error.what(), HasSubstr("has not answered within 50 ms"));
  }
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
