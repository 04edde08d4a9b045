// What two-sided messages promise in every world (queue_pair.h): one suite, which each world with such messages
// instantiates. Of time and of what only one world can show, its own tests speak.
//
//   INSTANTIATE_TEST_SUITE_P(Simulator, TwoSidedMessages, ::testing::Values(&simulated_ends));
#pragma once

#include "message_scenarios.h"
#include "note_end.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/queue_pair.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::fabric::two_sided {

/// A fabric with a client and a server.
struct Site {
  std::unique_ptr<Fabric> fabric;
  Node* client = nullptr;
  Node* server = nullptr;
};
using MakeSite = Site (*)();

template <class World>
Site site_in(std::unique_ptr<World> fabric) {
  Node& client = fabric->add_node("client");
  Node& server = fabric->add_node("server");
  return {.fabric = std::move(fabric), .client = &client, .server = &server};
}

inline Task<void> submit_all(QueuePair* qp, std::vector<WorkRequest> chain) { co_await qp->submit(chain); }
inline Task<Received> receive_one(QueuePair* qp) {
  const Received received = co_await qp->receive();
  co_return received;
}
inline Task<void> receive_and_forget(QueuePair* qp) { (void)co_await qp->receive(); }
inline Task<void> receive_until_the_end(QueuePair* qp, std::vector<Received>* into) {
  for (;;) {
    into->push_back(co_await qp->receive());
  }
}

class TwoSidedMessages : public ::testing::TestWithParam<MakeSite> {
 protected:
  void SetUp() override {
    site_ = GetParam()();
    inbox_ = site_.server->allocate(1 << 16, Access::local_write);
    table_ = site_.server->allocate(1 << 16, Access::remote_all);
    outbox_ = site_.client->allocate(1 << 16, Access::local_write);
    connect({});
  }
  void TearDown() override {
    site_.fabric->reactor().destroy_spawned();
    client_.reset();
    server_.reset();
    inbox_ = MemoryRegion{};
    table_ = MemoryRegion{};
    outbox_ = MemoryRegion{};
  }

  void connect(const QueuePairOptions& options) {
    client_.reset();
    server_.reset();
    std::tie(client_, server_) = site_.client->connect_pair(*site_.server, options);
  }
  [[nodiscard]] Reactor& reactor() { return site_.fabric->reactor(); }
  void spawn(Task<void> task) { reactor().spawn(std::move(task)); }
  // Long in simulated time, short in real time.
  void settle() { reactor().run_for(std::chrono::milliseconds(30)); }
  void run_until(const bool& over) {
    for (int i = 0; i < 2000 && !over; ++i) {
      settle();
    }
    ASSERT_TRUE(over);
  }
  End end_of(Task<void> task) {
    End end;
    spawn(note_end(std::move(task), &end));
    for (int i = 0; i < 2000 && !end.over; ++i) {
      settle();
    }
    EXPECT_TRUE(end.over);
    return end;
  }
  Received receive(QueuePair& qp) { return reactor().run(receive_one(&qp)); }
  void send_all(QueuePair& qp, std::vector<WorkRequest> chain) {
    const End end = end_of(submit_all(&qp, std::move(chain)));
    EXPECT_FALSE(end.status) << end.what;
  }
  [[nodiscard]] LocalSpan in(std::uint64_t offset, std::uint64_t length) const { return inbox_.local(offset, length); }
  [[nodiscard]] LocalSpan out(std::uint64_t offset, std::uint64_t length) const {
    return outbox_.local(offset, length);
  }
  void fill_outbox(unsigned seed) {
    std::uint64_t i = 0;
    for (std::byte& byte : outbox_.bytes()) {
      byte = static_cast<std::byte>(seed * 31 + i++ * 7);
    }
  }
  static bool is_zero(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  }

  Site site_;
  MemoryRegion inbox_;   // of the server
  MemoryRegion table_;   // of the server
  MemoryRegion outbox_;  // of the client
  std::unique_ptr<QueuePair> client_;
  std::unique_ptr<QueuePair> server_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwoSidedMessages);

// ---- Messages.

TEST_P(TwoSidedMessages, KeepWhatTheyPromiseInEveryWorld) {
  for (const MessageScenario& scenario : kMessageScenarios) {
    for (int i = 0; i < 20; ++i) {
      SCOPED_TRACE(scenario.name);
      MessageSite site(*site_.server, *site_.client,
                       [](bool holds, std::string_view what) { EXPECT_TRUE(holds) << what; });
      spawn(scenario.receiver(&site, site.sides.data(), &site.sides[1]));
      spawn(scenario.sender(&site, &site.sides[1], site.sides.data()));
      reactor().run();
    }
  }
}

TEST_P(TwoSidedMessages, ASendArrivesByteForByteWhateverItsLength) {
  fill_outbox(5);
  std::uint64_t number = 0;
  for (const std::uint64_t bytes : {0U, 1U, 8U, 63U, 64U, 65U, 220U, 1000U, 4096U, 4097U, 20000U}) {
    for (const bool inlined : {false, true}) {
      if (inlined && bytes > client_->options().max_inline) {
        continue;
      }
      std::ranges::fill(inbox_.bytes(), std::byte{0});
      ASSERT_TRUE(server_->post_receive(in(128, 32768)));
      WorkRequest request = send(out(3, bytes));
      request.inlined = inlined;
      spawn(submit_all(client_.get(), {request}));
      const Received received = receive(*server_);
      EXPECT_EQ(received.number, ++number);
      EXPECT_EQ(received.message.data, inbox_.bytes().data() + 128);
      ASSERT_EQ(received.message.length, bytes);
      EXPECT_FALSE(received.immediate);
      EXPECT_FALSE(received.is_write);
      EXPECT_EQ(received.written, 0U);
      EXPECT_TRUE(std::ranges::equal(received.message.bytes(), out(3, bytes).bytes())) << bytes;
      EXPECT_TRUE(is_zero(inbox_.bytes().subspan(128 + bytes))) << bytes;
      EXPECT_TRUE(is_zero(inbox_.bytes().first(128))) << bytes;
      reactor().run();
    }
  }
}

TEST_P(TwoSidedMessages, ImmediateDataArrivesBesideASend) {
  fill_outbox(1);
  for (const std::uint32_t immediate : {0U, 1U, 0x01020304U, 0x80000000U, 0xffffffffU}) {
    for (const std::uint64_t bytes : {0U, 9U, 5000U}) {
      ASSERT_TRUE(server_->post_receive(in(0, 8192)));
      spawn(submit_all(client_.get(), {send_with_immediate(out(0, bytes), immediate)}));
      const Received received = receive(*server_);
      EXPECT_EQ(received.immediate, immediate);
      EXPECT_FALSE(received.is_write);
      ASSERT_EQ(received.message.length, bytes);
      EXPECT_TRUE(std::ranges::equal(received.message.bytes(), out(0, bytes).bytes()));
      reactor().run();
    }
  }
}

TEST_P(TwoSidedMessages, AWriteWithImmediateLeavesTheReceiveBufferAlone) {
  fill_outbox(2);
  for (const std::uint64_t bytes : {0U, 8U, 64U, 6000U}) {
    std::ranges::fill(table_.bytes(), std::byte{0});
    ASSERT_TRUE(server_->post_receive(in(0, 64)));
    spawn(submit_all(client_.get(), {write_with_immediate(out(0, bytes), table_.remote(256, 8192), 77)}));
    const Received received = receive(*server_);
    EXPECT_EQ(received.immediate, 77U);
    EXPECT_TRUE(received.is_write);
    EXPECT_EQ(received.written, bytes);
    EXPECT_EQ(received.message.length, 0U);
    EXPECT_EQ(received.message.data, inbox_.bytes().data());
    EXPECT_TRUE(std::ranges::equal(table_.bytes().subspan(256, bytes), out(0, bytes).bytes())) << bytes;
    EXPECT_TRUE(is_zero(table_.bytes().subspan(256 + bytes))) << bytes;
    EXPECT_TRUE(is_zero(inbox_.bytes()));
    reactor().run();
  }
}

// Also an immediate datum that needs no buffer's bytes takes a buffer.
TEST_P(TwoSidedMessages, EachMessageTakesTheOldestBuffer) {
  fill_outbox(3);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(server_->post_receive(in(i * 64, 64)));
  }
  send_all(*client_, {send(out(0, 8)), write_with_immediate(out(0, 16), table_.remote(0, 16), 1), send(out(8, 0)),
                      send_with_immediate(out(16, 4), 2)});
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Received received = receive(*server_);
    EXPECT_EQ(received.number, i + 1);
    EXPECT_EQ(received.message.data, inbox_.bytes().data() + i * 64);
    EXPECT_EQ(received.message.length, std::vector<std::uint64_t>({8, 0, 0, 4})[i]);
    EXPECT_EQ(received.is_write, i == 1);
  }
}

TEST_P(TwoSidedMessages, BothEndsSendAndEachHasOneSidedRequestsToTheOther) {
  MemoryRegion at_client = site_.client->allocate(64, Access::remote_all);
  fill_outbox(4);
  ASSERT_TRUE(server_->post_receive(in(0, 64)));
  ASSERT_TRUE(client_->post_receive(out(1024, 64)));
  const std::byte answer{42};
  std::ranges::fill(inbox_.bytes().subspan(512, 8), answer);
  spawn(submit_all(client_.get(), {fetch_add(table_.remote(0, 8), 5), send(out(0, 8))}));
  spawn(submit_all(server_.get(), {send(in(512, 8)), fetch_add(at_client.remote(0, 8), 6)}));
  EXPECT_EQ(receive(*server_).message.length, 8U);
  EXPECT_EQ(receive(*client_).message.length, 8U);
  reactor().run();
  EXPECT_TRUE(std::ranges::equal(in(0, 8).bytes(), out(0, 8).bytes()));
  EXPECT_TRUE(std::ranges::all_of(out(1024, 8).bytes(), [&](std::byte b) { return b == answer; }));
  EXPECT_EQ(static_cast<int>(table_.bytes()[0]), 5);
  EXPECT_EQ(static_cast<int>(at_client.bytes()[0]), 6);
}

// ---- Order, and room.

TEST_P(TwoSidedMessages, AReceivedMessageShowsTheWritesBeforeIt) {
  for (unsigned round = 1; round <= 40; ++round) {
    fill_outbox(round);
    const std::uint64_t bytes = round % 2 == 0 ? 4096 : 700;
    ASSERT_TRUE(server_->post_receive(in(0, 64)));
    const WorkRequest last =
        round % 3 == 0 ? write_with_immediate(out(0, 8), table_.remote(32768, 8), round) : send(out(0, 8));
    spawn(submit_all(client_.get(), {write(out(0, bytes), table_.remote(0, bytes)), last}));
    (void)receive(*server_);
    EXPECT_TRUE(std::ranges::equal(table_.bytes().first(bytes), out(0, bytes).bytes())) << round;
    reactor().run();
  }
}

TEST_P(TwoSidedMessages, AMessageWithoutABufferWaitsAndWhatIsBehindItWaitsToo) {
  for (const bool is_write : {false, true}) {
    std::ranges::fill(table_.bytes(), std::byte{0});
    End sent;
    End added;
    const WorkRequest message = is_write ? write_with_immediate(out(0, 8), table_.remote(64, 8), 1) : send(out(0, 8));
    spawn(note_end(submit_all(client_.get(), {message}), &sent));
    spawn(note_end(submit_all(client_.get(), {fetch_add(table_.remote(0, 8), 1)}), &added));
    settle();
    EXPECT_FALSE(sent.over);
    EXPECT_FALSE(added.over);
    EXPECT_EQ(static_cast<int>(table_.bytes()[0]), 0);
    ASSERT_TRUE(server_->post_receive(in(0, 8)));
    run_until(added.over);
    EXPECT_TRUE(sent.over);
    EXPECT_FALSE(sent.status) << sent.what;
    EXPECT_FALSE(added.status) << added.what;
    EXPECT_EQ(static_cast<int>(table_.bytes()[0]), 1);
    EXPECT_EQ(receive(*server_).is_write, is_write);
  }
}

inline Task<void> send_numbers(QueuePair* qp, LocalSpan from, RemoteSpan to, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(from.data, &i, sizeof i);
    const LocalSpan payload = from.subspan(0, sizeof i);
    co_await qp->enqueue(i % 3 == 0 ? write_with_immediate(payload, to, i).with_inline()
                                    : send_with_immediate(payload, i).with_inline());
  }
  co_await qp->drain();
}

inline Task<std::uint64_t> receive_numbers(QueuePair* qp, LocalSpan into, std::uint64_t buffers, std::uint32_t count) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < buffers; ++i) {
    wrong += qp->post_receive(into.subspan(i * 64, 64)) ? 0U : 1U;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Received received = co_await qp->receive();
    std::uint32_t number = i;
    if (!received.is_write) {
      std::memcpy(&number, received.message.data, sizeof number);
    }
    const bool right = received.number == i + 1 && received.immediate == i && number == i &&
                       received.is_write == (i % 3 == 0) && received.message.data == into.data + i % buffers * 64;
    wrong += right ? 0U : 1U;
    if (i % 64 == 0) {
      co_await qp->reactor().sleep(std::chrono::microseconds(50));  // now and then the server is slow
    }
    wrong += qp->post_receive(into.subspan(i % buffers * 64, 64)) ? 0U : 1U;
  }
  co_return wrong;
}

TEST_P(TwoSidedMessages, ManyPassThroughASmallReceiveQueueInOrder) {
  for (const std::uint32_t depth : {1U, 5U, 32U}) {
    connect({.send_queue_depth = 8, .receive_queue_depth = depth});
    // A sender whose peer is not ready tries again after a while, so a short queue is slow.
    const std::uint32_t count = depth == 1 ? 60 : 500;
    spawn(send_numbers(client_.get(), out(0, 8), table_.remote(0, 8), count));
    EXPECT_EQ(reactor().run(receive_numbers(server_.get(), in(0, 4096), depth, count)), 0U) << depth;
    reactor().run();
    EXPECT_EQ(client_->outstanding(), 0U);
  }
}

TEST_P(TwoSidedMessages, AFullReceiveQueueRefusesOneMoreUntilAMessageWasReturned) {
  connect({.receive_queue_depth = 2});
  EXPECT_TRUE(server_->post_receive(in(0, 64)));
  EXPECT_TRUE(server_->post_receive(in(64, 64)));
  EXPECT_FALSE(server_->post_receive(in(128, 64)));
  EXPECT_EQ(server_->counters().receives, 2U);
  send_all(*client_, {send(out(0, 8))});
  settle();
  EXPECT_FALSE(server_->post_receive(in(128, 64)));  // the message is there, but nobody has asked for it
  (void)receive(*server_);
  EXPECT_TRUE(server_->post_receive(in(128, 64)));
}

// More receive buffers than one completion queue of a NIC holds.
TEST_P(TwoSidedMessages, PairsWithLongQueuesEachReceiveTheirOwn) {
  constexpr std::uint64_t kPairs = 5;
  constexpr std::uint32_t kDepth = 4096;
  std::vector<std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>> pairs;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    pairs.push_back(site_.client->connect_pair(*site_.server, {.receive_queue_depth = kDepth}));
    for (std::uint32_t n = 0; n < kDepth; ++n) {
      ASSERT_TRUE(pairs.back().second->post_receive(in(i * 64, 64)));
    }
    EXPECT_FALSE(pairs.back().second->post_receive(in(i * 64, 64)));
  }
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    spawn(submit_all(pairs[i].first.get(), {send_with_immediate(out(0, 8), i)}));
  }
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    const Received received = receive(*pairs[i].second);
    EXPECT_EQ(received.immediate, i);
    EXPECT_EQ(received.number, 1U);
  }
  reactor().run();
  pairs.erase(pairs.begin());  // its room serves the next one
  pairs.push_back(site_.client->connect_pair(*site_.server, {.receive_queue_depth = kDepth}));
  ASSERT_TRUE(pairs.back().second->post_receive(in(0, 64)));
  spawn(submit_all(pairs.back().first.get(), {send(out(0, 8))}));
  EXPECT_EQ(receive(*pairs.back().second).number, 1U);
  reactor().run();
}

TEST_P(TwoSidedMessages, TasksThatWaitAreServedInTurn) {
  std::vector<std::uint64_t> order;
  const auto take = [](QueuePair* qp, std::uint64_t who, std::vector<std::uint64_t>* into) -> Task<void> {
    const Received received = co_await qp->receive();
    into->push_back(who * 10 + received.number);
  };
  for (std::uint64_t who = 1; who <= 3; ++who) {
    spawn(take(server_.get(), who, &order));
    ASSERT_TRUE(server_->post_receive(in(who * 64, 64)));
  }
  spawn(submit_all(client_.get(), {send(out(0, 8)), send(out(0, 8)), send(out(0, 8))}));
  reactor().run();
  EXPECT_THAT(order, ::testing::ElementsAre(11, 22, 33));
}

// ---- Ends, and errors.

TEST_P(TwoSidedMessages, ATooLongMessageIsAnErrorAtBothEnds) {
  std::ranges::fill(outbox_.bytes(), std::byte{1});
  ASSERT_TRUE(server_->post_receive(in(0, 8)));
  ASSERT_TRUE(server_->post_receive(in(64, 8)));
  ASSERT_TRUE(server_->post_receive(in(128, 64)));
  End first;
  End second;
  End sent;
  spawn(note_end(receive_and_forget(server_.get()), &first));
  spawn(note_end(receive_and_forget(server_.get()), &second));
  spawn(note_end(submit_all(client_.get(), {send(out(0, 8)), send(out(0, 9))}), &sent));
  run_until(sent.over);
  run_until(second.over);
  EXPECT_TRUE(first.over);
  EXPECT_FALSE(first.status) << first.what;  // the message before it is delivered
  EXPECT_EQ(second.status, Status::local_operation) << second.what;
  EXPECT_THAT(second.what, ::testing::HasSubstr("RECV"));
  EXPECT_EQ(sent.status, Status::remote_invalid_request) << sent.what;
  EXPECT_THAT(sent.what, ::testing::HasSubstr("SEND"));
  EXPECT_EQ(server_->state(), QueuePair::State::error);
  EXPECT_EQ(client_->state(), QueuePair::State::error);
  EXPECT_THROW((void)server_->post_receive(in(0, 8)), FabricError);
  EXPECT_TRUE(is_zero(inbox_.bytes().subspan(128)));
}

TEST_P(TwoSidedMessages, AnErrorOfOneEndEndsBoth) {
  ASSERT_TRUE(client_->post_receive(out(0, 64)));
  End at_client;
  End at_server;
  spawn(note_end(receive_and_forget(client_.get()), &at_client));
  spawn(note_end(receive_and_forget(server_.get()), &at_server));
  RemoteSpan nowhere = table_.remote(0, 8);
  nowhere.rkey.value ^= 0xabc000;
  const End request = end_of(submit_all(client_.get(), {fetch_add(nowhere, 1)}));
  EXPECT_EQ(request.status, Status::remote_access);
  run_until(at_client.over);
  run_until(at_server.over);
  // The target's end fails first. Whether the client learns that before its own refusal depends on the NIC.
  EXPECT_TRUE(at_client.status == Status::flushed || at_client.status == Status::disconnected) << at_client.what;
  EXPECT_EQ(at_server.status, Status::disconnected) << at_server.what;
  EXPECT_THAT(at_server.what, ::testing::HasSubstr("the other end of the connection has ended"));
  EXPECT_EQ(end_of(client_->reconnect()).status, Status::disconnected);
  MemoryRegion at_the_client = site_.client->allocate(64, Access::remote_all);
  EXPECT_EQ(end_of(submit_all(server_.get(), {fetch_add(at_the_client.remote(0, 8), 1)})).status,
            Status::retry_exceeded);
  EXPECT_TRUE(is_zero(at_the_client.bytes()));
}

TEST_P(TwoSidedMessages, ADestroyedEndEndsTheWaitsOfBoth) {
  End at_client;
  End at_server;
  End sending;
  spawn(note_end(receive_and_forget(client_.get()), &at_client));
  spawn(note_end(receive_and_forget(server_.get()), &at_server));
  spawn(note_end(submit_all(server_.get(), {send(in(0, 8))}), &sending));  // no buffer for it
  settle();
  client_.reset();
  run_until(at_client.over);
  run_until(at_server.over);
  run_until(sending.over);
  EXPECT_EQ(at_client.status, Status::disconnected) << at_client.what;
  EXPECT_EQ(at_server.status, Status::disconnected) << at_server.what;
  EXPECT_EQ(sending.status, Status::retry_exceeded) << sending.what;
}

TEST_P(TwoSidedMessages, MessagesOfAnEndThatIsGoneAreReceivedFirst) {
  fill_outbox(9);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(server_->post_receive(in(i * 64, 64)));
  }
  send_all(*client_, {send(out(0, 8)), send_with_immediate(out(0, 8), 5)});
  client_.reset();
  std::vector<Received> received;
  const End end = end_of(receive_until_the_end(server_.get(), &received));
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].number, 1U);
  EXPECT_EQ(received[1].immediate, 5U);
  EXPECT_TRUE(std::ranges::equal(in(0, 8).bytes(), out(0, 8).bytes()));
  EXPECT_EQ(end.status, Status::disconnected) << end.what;
  EXPECT_THROW((void)server_->post_receive(in(0, 64)), FabricError);
}

TEST_P(TwoSidedMessages, RevocationEndsBothEnds) {
  End waiting;
  spawn(note_end(receive_and_forget(server_.get()), &waiting));
  End sending;
  spawn(note_end(submit_all(client_.get(), {send(out(0, 8))}), &sending));  // no buffer for it
  settle();
  site_.server->revoke(*client_);
  run_until(waiting.over);
  run_until(sending.over);
  EXPECT_EQ(waiting.status, Status::disconnected) << waiting.what;
  EXPECT_EQ(sending.status, Status::retry_exceeded) << sending.what;
  EXPECT_EQ(server_->state(), QueuePair::State::error);
  const End later = end_of(submit_all(client_.get(), {fetch_add(table_.remote(0, 8), 1)}));
  EXPECT_EQ(later.status, Status::retry_exceeded) << later.what;
  EXPECT_TRUE(is_zero(table_.bytes()));
}

TEST_P(TwoSidedMessages, ReceiveBuffersAreInUseUntilTheirMessageIsThere) {
  ASSERT_TRUE(server_->post_receive(in(0, 64)));
  try {
    inbox_.deregister();
    FAIL();
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::busy);
  }
  send_all(*client_, {send(out(0, 8))});
  (void)receive(*server_);
  EXPECT_NO_THROW(inbox_.deregister());
}

TEST_P(TwoSidedMessages, AMessageThatNobodySendsIsReportedAsStuck) {
  try {
    (void)receive(*server_);
    FAIL();
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::stuck);
  }
}

TEST_P(TwoSidedMessages, ABadReceiveBufferIsNamed) {
  MemoryRegion read_only = site_.server->allocate(64, Access::remote_read);
  const auto refused = [&](const LocalSpan& into) -> std::string {
    try {
      (void)server_->post_receive(into);
    } catch (const FabricError& error) {
      return error.what();
    }
    return "accepted";
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_THAT(refused(read_only.local()), AllOf(HasSubstr("RECV"), HasSubstr("need local_write")));
  EXPECT_THAT(refused(LocalSpan{inbox_.bytes().data(), 8, LKey{0xabc000}}), HasSubstr("lkey 0xabc000"));
  LocalSpan outside = in(0, 64);
  outside.data += inbox_.length() - 63;
  EXPECT_THAT(refused(outside), HasSubstr("is outside region"));
  EXPECT_EQ(refused({}), "accepted");  // valid for a message of 0 bytes
  EXPECT_EQ(server_->counters().receives, 1U);
}

TEST_P(TwoSidedMessages, AOneSidedQueuePairRefusesMessages) {
  const std::unique_ptr<QueuePair> one_sided = site_.client->connect(*site_.server);
  EXPECT_FALSE(one_sided->two_sided());
  EXPECT_TRUE(client_->two_sided());
  for (const WorkRequest& request :
       {send(out(0, 8)), send_with_immediate(out(0, 8), 1), write_with_immediate(out(0, 8), table_.remote(0, 8), 1)}) {
    const End end = end_of(submit_all(one_sided.get(), {request}));
    EXPECT_EQ(end.status, Status::invalid_request);
    EXPECT_THAT(end.what, ::testing::HasSubstr("connect_pair()"));
  }
  EXPECT_THROW((void)one_sided->post_receive(in(0, 8)), FabricError);
  EXPECT_EQ(end_of(receive_and_forget(one_sided.get())).status, Status::invalid_request);
  EXPECT_EQ(one_sided->state(), QueuePair::State::ready);
}

TEST_P(TwoSidedMessages, NodesOfAnotherFabricAreRefused) {
  Site other = GetParam()();
  EXPECT_THROW((void)site_.client->connect_pair(*other.server), std::invalid_argument);
}

TEST_P(TwoSidedMessages, ANodeCanSendToItself) {
  auto [here, there] = site_.client->connect_pair(*site_.client);
  ASSERT_TRUE(there->post_receive(out(64, 64)));
  std::ranges::fill(outbox_.bytes().first(8), std::byte{9});
  spawn(submit_all(here.get(), {send(out(0, 8))}));
  (void)receive(*there);
  reactor().run();
  EXPECT_EQ(outbox_.bytes()[64], std::byte{9});
}

// A sender that was told that its message arrived may forget it.
TEST_P(TwoSidedMessages, AMessageThatArrivedBeforeItsReceiverFailedIsReceivedFirst) {
  ASSERT_TRUE(client_->post_receive(out(0, 64)));
  End sending;
  End failing;
  spawn(note_end(submit_all(server_.get(), {send(in(0, 8))}), &sending));
  RemoteSpan nowhere = table_.remote(0, 8);
  nowhere.rkey.value ^= 0xabc000;
  spawn(note_end(submit_all(client_.get(), {fetch_add(nowhere, 1)}), &failing));
  run_until(sending.over);
  run_until(failing.over);
  EXPECT_TRUE(failing.status);
  std::vector<Received> received;
  const End end = end_of(receive_until_the_end(client_.get(), &received));
  EXPECT_TRUE(end.status);
  if (!sending.status) {
    EXPECT_EQ(received.size(), 1U);
  }
}

inline Task<void> submit_and_revoke(QueuePair* qp, std::vector<WorkRequest> chain, Node* target) {
  co_await qp->submit(chain);
  target->revoke(*qp);
}

TEST_P(TwoSidedMessages, AMessageThatArrivedBeforeARevocationIsReceivedWhole) {
  fill_outbox(3);
  ASSERT_TRUE(server_->post_receive(in(0, 8192)));
  const End end = end_of(submit_and_revoke(
      client_.get(), {write(out(0, 8192), table_.remote(0, 8192)), send(out(0, 8192))}, site_.server));
  EXPECT_FALSE(end.status) << end.what;
  std::vector<Received> received;
  EXPECT_TRUE(end_of(receive_until_the_end(server_.get(), &received)).status);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(outbox_.bytes().first(8192), inbox_.bytes().first(8192)));
  EXPECT_TRUE(std::ranges::equal(outbox_.bytes().first(8192), table_.bytes().first(8192)));
}

}  // namespace sidelatch::fabric::two_sided
