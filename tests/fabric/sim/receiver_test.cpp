// Two-sided messages in the simulator: delivery and its order, and the effect on both ends if one of them fails or
// goes.
#include "../note_end.h"
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ends {
  explicit Ends(const QueuePairOptions& options = {}, const sim::Profile& profile = {}, std::uint64_t seed = 1)
      : nodes({.seed = seed, .profile = profile}),
        inbox(nodes.storage.allocate(1 << 16, Access::local_write)),
        outbox(nodes.client.allocate(1 << 16, Access::local_write)) {
    std::tie(client, server) = nodes.client.connect_pair(nodes.storage, options);
  }
  [[nodiscard]] Reactor& reactor() { return nodes.reactor(); }

  TwoNodes nodes;
  MemoryRegion inbox;   // of the server
  MemoryRegion outbox;  // of the client
  std::unique_ptr<QueuePair> client;
  std::unique_ptr<QueuePair> server;
};

Task<void> submit(QueuePair& qp, WorkRequest request) { co_await qp.submit(request); }
Task<void> submit_two(QueuePair& qp, WorkRequest first, WorkRequest second) { co_await qp.submit(first, second); }
Task<Received> receive(QueuePair& qp) {
  const Received received = co_await qp.receive();
  co_return received;
}

Task<void> receive_all(QueuePair& qp) {
  for (;;) {
    (void)co_await qp.receive();
  }
}

void fill(const MemoryRegion& region, std::uint64_t offset, std::uint64_t bytes, unsigned seed) {
  for (std::uint64_t i = 0; i < bytes; ++i) {
    region.bytes()[offset + i] = static_cast<std::byte>(seed * 31 + i * 7);
  }
}

bool post(QueuePair& qp, const LocalSpan& into) { return qp.post_receive(into); }

TEST(TwoSided, AMessageArrivesByteForByteWhateverItsLength) {
  for (const std::uint64_t bytes : {0U, 1U, 8U, 63U, 64U, 65U, 1000U, 4096U, 20000U}) {
    for (const bool inlined : {false, true}) {
      if (inlined && bytes > 220) {
        continue;
      }
      Ends ends;
      fill(ends.outbox, 3, bytes, 5);
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(128, 32768)));
      WorkRequest request = send(ends.outbox.local(3, bytes));
      request.inlined = inlined;
      ends.reactor().spawn(submit(*ends.client, request));
      const Received received = ends.nodes.run(receive(*ends.server));
      EXPECT_EQ(received.number, 1U);
      EXPECT_EQ(received.message.data, ends.inbox.bytes().data() + 128);
      ASSERT_EQ(received.message.length, bytes);
      EXPECT_TRUE(std::ranges::equal(received.message.bytes(), ends.outbox.local(3, bytes).bytes())) << bytes;
      const auto beyond = ends.inbox.bytes().subspan(128 + bytes);
      EXPECT_TRUE(std::ranges::all_of(beyond, [](std::byte b) { return b == std::byte{0}; })) << bytes;
    }
  }
}

TEST(TwoSided, BothEndsSendAndEachHasOneSidedRequestsToTheOther) {
  Ends ends;
  const MemoryRegion at_client = ends.nodes.client.allocate(64, Access::remote_all);
  const MemoryRegion of_server = ends.nodes.storage.allocate(64, Access::local_write);
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
  ASSERT_TRUE(post(*ends.client, ends.outbox.local(64, 64)));
  fill(ends.outbox, 0, 8, 1);
  TwoNodes::store(of_server, 0, 42);
  ends.reactor().spawn(submit(*ends.client, send(ends.outbox.local(0, 8))));
  ends.reactor().spawn(submit(*ends.server, send(of_server.local(0, 8))));
  ends.reactor().spawn(submit(*ends.client, fetch_add(ends.nodes.word(0), 5)));
  ends.reactor().spawn(submit(*ends.server, fetch_add(at_client.remote(0, 8), 6)));
  const Received at_server = ends.nodes.run(receive(*ends.server));
  const Received back = ends.nodes.run(receive(*ends.client));
  ends.reactor().run();
  EXPECT_TRUE(std::ranges::equal(at_server.message.bytes(), ends.outbox.local(0, 8).bytes()));
  EXPECT_EQ(TwoNodes::load(ends.outbox, 8), 42U);
  EXPECT_EQ(back.message.length, 8U);
  EXPECT_EQ(ends.nodes.value(0), 5U);
  EXPECT_EQ(TwoNodes::load(at_client, 0), 6U);
}

TEST(TwoSided, AReceivedMessageShowsTheWritesBeforeIt) {
  // The WRITEs stall for long, while the small SEND behind them could arrive at once.
  sim::Profile profile;
  profile.pcie.write_stall_probability = 0.7;
  profile.pcie.write_stall_ns = 50'000;
  profile.link.jitter_ns = 500;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Ends ends({}, profile, seed);
    fill(ends.outbox, 0, 4096, static_cast<unsigned>(seed));
    ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
    ends.reactor().spawn(submit_two(*ends.client, write(ends.outbox.local(0, 4096), ends.nodes.table.remote(0, 4096)),
                                    send(ends.outbox.local(0, 8))));
    (void)ends.nodes.run(receive(*ends.server));
    EXPECT_TRUE(std::ranges::equal(ends.nodes.table.bytes().first(4096), ends.outbox.bytes().first(4096))) << seed;
  }
}

TEST(TwoSided, AMessageTakesTheSumOfItsParts) {
  sim::Profile p;
  p.link = {.gbps = 10000, .propagation_ns = 100, .header_bytes = 0};
  p.nic = {.doorbell_ns = 10,
           .chain_ns = 3,
           .request_ns = 20,
           .respond_write_ns = 30,
           .respond_read_ns = 0,
           .respond_atomic_ns = 0,
           .packet_ns = 0,
           .latency_ns = 5,
           .completion_ns = 40};
  p.pcie.gbps = 10000;
  p.pcie.read_ns = 300;
  p.pcie.write_ns = 150;
  Ends ends({}, p);
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
  ends.reactor().spawn(submit(*ends.client, send(ends.outbox.local(0, 8))));
  (void)ends.nodes.run(receive(*ends.server));
  // Doorbell, chain, request, payload fetch, NIC, wire, service, NIC; placed; the CPU sees it.
  EXPECT_NEAR(to_ns(ends.reactor().now()), 10 + 3 + 20 + 300 + 5 + 100 + 30 + 5 + 150 + 40, 0.2);
}

TEST(TwoSided, ASendWithoutAReceiveBufferWaitsAndWhatIsBehindItWaitsToo) {
  Ends ends;
  End sent;
  End added;
  TwoNodes::store(ends.outbox, 0, 7);
  ends.reactor().spawn(note_end(submit(*ends.client, send(ends.outbox.local(0, 8))), &sent));
  ends.reactor().spawn(note_end(submit(*ends.client, fetch_add(ends.nodes.word(0), 1)), &added));
  ends.nodes.settle();
  EXPECT_FALSE(sent.over);
  EXPECT_FALSE(added.over);
  EXPECT_EQ(ends.nodes.value(0), 0U);
  // Other queue pairs do not have to wait.
  ends.nodes.run(submit(*ends.nodes.qp, fetch_add(ends.nodes.word(1), 1)));
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 8)));
  ends.reactor().run();
  EXPECT_TRUE(sent.over && !sent.status);
  EXPECT_TRUE(added.over && !added.status);
  EXPECT_EQ(ends.nodes.value(0), 1U);
  EXPECT_EQ(ends.nodes.run(receive(*ends.server)).number, 1U);
  EXPECT_EQ(TwoNodes::load(ends.inbox, 0), 7U);
}

TEST(TwoSided, ASendThatNobodyReceivesIsReportedAsStuck) {
  Ends ends;
  EXPECT_EQ(ends.nodes.error_of(submit(*ends.client, send(ends.outbox.local(0, 8)))).status(), Status::stuck);
}

Task<void> send_many(QueuePair& qp, const MemoryRegion& outbox, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    TwoNodes::store(outbox, 0, i);
    TwoNodes::store(outbox, 1, ~i);
    co_await qp.enqueue(send(outbox.local(0, 16)).with_inline());
  }
  co_await qp.drain();
}

Task<std::uint64_t> receive_many(QueuePair& qp, const MemoryRegion& inbox, std::uint64_t buffers, std::uint64_t count) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < buffers; ++i) {
    wrong += qp.post_receive(inbox.local(i * 64, 64)) ? 0U : 1U;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const Received received = co_await qp.receive();
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), received.message.data, 16);
    const bool right = received.number == i + 1 && words[0] == i && words[1] == ~i && received.message.length == 16 &&
                       received.message.data == inbox.bytes().data() + i % buffers * 64;
    wrong += right ? 0U : 1U;
    if (i % 7 == 0) {
      co_await qp.reactor().sleep(from_ns(static_cast<double>(i % 5) * 2000));  // now and then the server is slow
    }
    wrong += qp.post_receive(inbox.local(i % buffers * 64, 64)) ? 0U : 1U;
  }
  co_return wrong;
}

TEST(TwoSided, ManyMessagesPassThroughASmallReceiveQueueInOrder) {
  sim::Profile profile;
  profile.link.jitter_ns = 300;
  profile.pcie.write_stall_probability = 0.1;
  profile.pcie.write_stall_ns = 3000;
  for (const std::uint32_t depth : {1U, 2U, 5U}) {
    Ends ends({.send_queue_depth = 8, .receive_queue_depth = depth}, profile);
    ends.reactor().spawn(send_many(*ends.client, ends.outbox, 2000));
    EXPECT_EQ(ends.nodes.run(receive_many(*ends.server, ends.inbox, depth, 2000)), 0U);
    ends.reactor().run();
    EXPECT_EQ(ends.client->outstanding(), 0U);
  }
}

TEST(TwoSided, AFullReceiveQueueRefusesOneMoreUntilAMessageWasReturned) {
  Ends ends({.receive_queue_depth = 2});
  EXPECT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
  EXPECT_TRUE(post(*ends.server, ends.inbox.local(64, 64)));
  EXPECT_FALSE(post(*ends.server, ends.inbox.local(128, 64)));
  EXPECT_EQ(ends.server->counters().receives, 2U);
  ends.nodes.run(submit(*ends.client, send(ends.outbox.local(0, 8))));
  ends.nodes.settle();
  EXPECT_FALSE(post(*ends.server, ends.inbox.local(128, 64)));  // the message is there, but nobody has asked for it
  (void)ends.nodes.run(receive(*ends.server));
  EXPECT_TRUE(post(*ends.server, ends.inbox.local(128, 64)));
}

TEST(TwoSided, ATooLongMessageIsAnErrorAtBothEnds) {
  Ends ends;
  End sent;
  End received;
  End second;
  std::ranges::fill(ends.outbox.bytes().first(64), std::byte{1});
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 8)));
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(64, 8)));
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(128, 64)));
  ends.reactor().spawn(note_end(receive(*ends.server), &received));
  ends.reactor().spawn(note_end(receive(*ends.server), &second));
  ends.reactor().spawn(
      note_end(submit_two(*ends.client, send(ends.outbox.local(0, 8)), send(ends.outbox.local(0, 9))), &sent));
  End own;
  ends.reactor().spawn(note_end(submit(*ends.server, send(ends.inbox.local(256, 8))), &own));  // no buffer for it
  ends.reactor().run();
  EXPECT_EQ(own.status, Status::flushed);  // it fails with its connection
  EXPECT_FALSE(received.status);           // the message before it is delivered
  EXPECT_EQ(second.status, Status::local_operation);
  EXPECT_THAT(second.what, AllOf(HasSubstr("RECV"), HasSubstr("SEND of 9 bytes met a receive buffer of 8 bytes")));
  EXPECT_EQ(sent.status, Status::remote_invalid_request);
  EXPECT_THAT(sent.what, AllOf(HasSubstr("SEND"), HasSubstr("9 bytes met a receive buffer of 8 bytes")));
  EXPECT_EQ(ends.server->state(), QueuePair::State::error);
  EXPECT_EQ(ends.client->state(), QueuePair::State::error);
  EXPECT_THROW((void)post(*ends.server, ends.inbox.local(0, 8)), FabricError);
  // No byte of it is in either buffer.
  EXPECT_TRUE(std::ranges::all_of(ends.inbox.bytes().subspan(64), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(TwoSided, WhatIsBehindATooLongMessageIsNotDelivered) {
  sim::Profile profile;
  profile.nic.completion_ns = 5000;  // the message behind it would be placed before the server knows
  for (const bool sender_goes : {false, true}) {
    Ends ends({}, profile);
    End sent;
    std::ranges::fill(ends.outbox.bytes().first(64), std::byte{1});
    ends.reactor().spawn(
        note_end(submit_two(*ends.client, send(ends.outbox.local(0, 9)), send(ends.outbox.local(0, 8))), &sent));
    ends.nodes.settle();  // both wait for buffers
    if (sender_goes) {
      ends.client.reset();
      ends.nodes.settle();
    }
    ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 8)));
    ASSERT_TRUE(post(*ends.server, ends.inbox.local(64, 64)));
    EXPECT_EQ(ends.nodes.error_of(receive(*ends.server)).status(), Status::local_operation);
    EXPECT_EQ(ends.nodes.error_of(receive(*ends.server)).status(), Status::local_operation);
    ends.nodes.settle();
    EXPECT_TRUE(std::ranges::all_of(ends.inbox.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(TwoSided, AnErrorOfOneEndEndsBoth) {
  Ends ends;
  End at_client;
  End at_server;
  End request;
  ASSERT_TRUE(post(*ends.client, ends.outbox.local(0, 64)));
  ends.reactor().spawn(note_end(receive(*ends.client), &at_client));
  ends.reactor().spawn(note_end(receive(*ends.server), &at_server));
  RemoteSpan nowhere = ends.nodes.word(0);
  nowhere.rkey.value = 0xabc000;
  ends.reactor().spawn(note_end(submit(*ends.client, fetch_add(nowhere, 1)), &request));
  ends.reactor().run();
  EXPECT_EQ(request.status, Status::remote_access);
  EXPECT_EQ(at_client.status, Status::flushed);
  EXPECT_EQ(at_server.status, Status::disconnected);
  EXPECT_THAT(at_server.what, HasSubstr("the other end of the connection has ended"));
  EXPECT_EQ(ends.nodes.error_of(ends.client->reconnect()).status(), Status::disconnected);
  // The server's requests find no peer.
  const MemoryRegion at_the_client = ends.nodes.client.allocate(64, Access::remote_all);
  EXPECT_EQ(ends.nodes.error_of(submit(*ends.server, fetch_add(at_the_client.remote(0, 8), 1))).status(),
            Status::retry_exceeded);
  EXPECT_EQ(TwoNodes::load(at_the_client, 0), 0U);
}

TEST(TwoSided, ADestroyedEndEndsTheWaitsOfBoth) {
  Ends ends;
  End at_client;
  End at_server;
  End sending;
  ends.reactor().spawn(note_end(receive(*ends.client), &at_client));
  ends.reactor().spawn(note_end(receive(*ends.server), &at_server));
  ends.reactor().spawn(note_end(submit(*ends.server, send(ends.inbox.local(0, 8))), &sending));  // no buffer for it
  ends.nodes.settle();
  ends.client.reset();
  ends.reactor().run();
  EXPECT_EQ(at_client.status, Status::disconnected);
  EXPECT_EQ(at_server.status, Status::disconnected);
  EXPECT_EQ(sending.status, Status::retry_exceeded);
}

// Messages that the client sent before it went are received; then the wait ends.
TEST(TwoSided, MessagesOfAnEndThatIsGoneAreReceivedFirst) {
  for (const bool buffers_first : {false, true}) {
    Ends ends;
    if (buffers_first) {
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(64, 64)));
    }
    TwoNodes::store(ends.outbox, 0, 7);
    End sent;
    End second;
    ends.reactor().spawn(note_end(submit(*ends.client, send(ends.outbox.local(0, 8)).with_inline()), &sent));
    ends.reactor().spawn(note_end(submit(*ends.client, send(ends.outbox.local(0, 8)).with_inline()), &second));
    ends.reactor().run_for(from_ns(1));  // posted, and with the NIC
    ends.client.reset();
    if (!buffers_first) {
      ends.nodes.settle();
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(64, 64)));
    }
    EXPECT_EQ(ends.nodes.run(receive(*ends.server)).number, 1U);
    EXPECT_EQ(ends.nodes.run(receive(*ends.server)).number, 2U);
    EXPECT_EQ(TwoNodes::load(ends.inbox, 8), 7U);
    EXPECT_EQ(ends.nodes.error_of(receive(*ends.server)).status(), Status::disconnected);
    EXPECT_THROW((void)post(*ends.server, ends.inbox.local(0, 64)), FabricError);
    EXPECT_EQ(sent.status, Status::disconnected);
  }
}

// The first message's payload is still in its buffer when its sender goes. No later message may arrive without it.
TEST(TwoSided, AMessageThatIsNeverSentLeavesNoGap) {
  Ends ends;
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(64, 64)));
  End sent;
  ends.reactor().spawn(note_end(
      submit_two(*ends.client, send(ends.outbox.local(0, 8)), send(ends.outbox.local(0, 8)).with_inline()), &sent));
  ends.reactor().run_for(from_ns(1));
  ends.client.reset();
  EXPECT_EQ(ends.nodes.error_of(receive(*ends.server)).status(), Status::disconnected);
}

TEST(TwoSided, ReceiveBuffersAreNotTouchedOnceTheirEndIsGone) {
  int none = 0;
  int some = 0;
  for (int ns = 0; ns < 5000; ns += 20) {
    Ends ends;
    std::ranges::fill(ends.outbox.bytes(), std::byte{1});
    ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 8192)));
    End sent;
    ends.reactor().spawn(note_end(submit(*ends.client, send(ends.outbox.local(0, 8192))), &sent));
    ends.reactor().run_for(from_ns(ns));
    ends.server.reset();
    const std::vector<std::byte> at_the_end(ends.inbox.bytes().begin(), ends.inbox.bytes().end());
    ends.inbox.deregister();  // no longer in use
    MemoryRegion again = ends.nodes.storage.allocate(1 << 16, Access::local_write);
    ends.reactor().run();
    EXPECT_TRUE(std::ranges::all_of(again.bytes(), [](std::byte b) { return b == std::byte{0}; })) << ns;
    const auto placed = std::ranges::count(at_the_end, std::byte{1});
    (placed == 0 ? none : some) += 1;
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(some, 0);
}

TEST(TwoSided, ReceiveBuffersAreInUseUntilTheirMessageIsThere) {
  Ends ends;
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
  try {
    ends.inbox.deregister();
    FAIL();
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::busy);
  }
  ends.nodes.run(submit(*ends.client, send(ends.outbox.local(0, 8))));
  (void)ends.nodes.run(receive(*ends.server));
  EXPECT_NO_THROW(ends.inbox.deregister());
}

TEST(TwoSided, ARegionOfTheNodesOwnMemoryMayGoBeforeItsMessageComes) {
  Ends ends;
  ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
  ends.inbox = MemoryRegion{};
  ends.nodes.run(submit(*ends.client, send(ends.outbox.local(0, 8))));
  EXPECT_EQ(ends.nodes.run(receive(*ends.server)).message.length, 8U);
}

TEST(TwoSided, RevocationEndsBothEndsAtAnyMoment) {
  for (int ns = 0; ns < 6000; ns += 50) {
    for (const bool at_server : {false, true}) {
      Ends ends;
      std::ranges::fill(ends.outbox.bytes(), std::byte{1});
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 8192)));
      std::array<End, 4> all;
      ends.reactor().spawn(
          note_end(submit_two(*ends.client, write(ends.outbox.local(0, 4096), ends.nodes.table.remote(0, 4096)),
                              send(ends.outbox.local(0, 8192))),
                   &all[0]));
      ends.reactor().spawn(note_end(receive(*ends.client), &all[1]));
      ends.reactor().run_for(from_ns(ns));
      if (at_server) {
        ends.nodes.storage.revoke(*ends.client);
      } else {
        ends.nodes.client.revoke(*ends.server);
      }
      const std::vector<std::byte> at_revocation(ends.inbox.bytes().begin(), ends.inbox.bytes().end());
      ends.reactor().spawn(note_end(submit(*ends.server, send(ends.inbox.local(0, 8))), &all[2]));
      ends.reactor().run();
      EXPECT_TRUE(all[0].over && all[1].over && all[2].over) << ns;
      EXPECT_TRUE(all[1].status && all[2].status) << ns;
      if (at_server) {
        EXPECT_TRUE(std::ranges::equal(at_revocation, ends.inbox.bytes())) << ns;
        EXPECT_EQ(ends.server->state(), QueuePair::State::error);
        EXPECT_EQ(ends.nodes.error_of(receive_all(*ends.server)).status(), Status::disconnected);
      }
      EXPECT_EQ(ends.nodes.error_of(submit(*ends.client, fetch_add(ends.nodes.word(0), 1))).status(),
                at_server ? Status::retry_exceeded : Status::disconnected)
          << ns;
    }
  }
}

TEST(TwoSided, EndsMayBothGoWithMessagesOnTheirWay) {
  for (int ns = 0; ns < 4000; ns += 100) {
    for (const bool client_first : {false, true}) {
      Ends ends;
      ASSERT_TRUE(post(*ends.server, ends.inbox.local(0, 64)));
      End sent;
      End back;
      ends.reactor().spawn(note_end(
          submit_two(*ends.client, send(ends.outbox.local(0, 8)).with_inline(), send(ends.outbox.local(0, 2000))),
          &sent));
      ends.reactor().spawn(note_end(submit(*ends.server, send(ends.inbox.local(64, 8))), &back));
      ends.reactor().run_for(from_ns(ns));
      (client_first ? ends.client : ends.server).reset();
      ends.reactor().run_for(from_ns(300));
      (client_first ? ends.server : ends.client).reset();
      ends.reactor().run();
      ends.nodes.settle();
      EXPECT_TRUE(sent.over && back.over);
    }
  }
}

TEST(TwoSided, ABadReceiveBufferIsNamed) {
  Ends ends;
  const MemoryRegion read_only = ends.nodes.storage.allocate(64, Access::remote_read);
  const auto refused = [&](const LocalSpan& into) -> std::string {
    try {
      (void)ends.server->post_receive(into);
    } catch (const FabricError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused(read_only.local()), AllOf(HasSubstr("RECV"), HasSubstr("need local_write")));
  EXPECT_THAT(refused(LocalSpan{ends.inbox.bytes().data(), 8, LKey{0xabc000}}), HasSubstr("lkey 0xabc000"));
  LocalSpan outside = ends.inbox.local(0, 64);
  outside.data += ends.inbox.length() - 63;
  EXPECT_THAT(refused(outside), HasSubstr("is outside region"));
  EXPECT_EQ(refused({}), "accepted");  // valid for a message of 0 bytes
  EXPECT_EQ(ends.server->counters().receives, 1U);
}

TEST(TwoSided, AOneSidedQueuePairSaysSo) {
  TwoNodes nodes;
  EXPECT_FALSE(nodes.qp->two_sided());
  EXPECT_THAT(nodes.error_of(receive(*nodes.qp)).what(), HasSubstr("connect_pair()"));
  EXPECT_THROW((void)nodes.qp->post_receive(nodes.buffer.local(0, 8)), FabricError);
}

TEST(TwoSided, AFabricWithoutThemSaysSo) {
  TwoNodes nodes;
  try {
    (void)nodes.client.Node::connect_pair(nodes.storage, {});  // the default for a fabric that does not override it
    FAIL();
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::invalid_request);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("client and storage"), HasSubstr("no two-sided queue pairs")));
  }
}

TEST(TwoSided, NodesOfAnotherSimulationAreRefused) {
  TwoNodes one;
  TwoNodes two;
  EXPECT_THROW((void)one.client.connect_pair(two.storage), std::invalid_argument);
}

TEST(TwoSided, ANodeCanSendToItself) {
  TwoNodes nodes;
  auto [here, there] = nodes.client.connect_pair(nodes.client);
  ASSERT_TRUE(there->post_receive(nodes.buffer.local(64, 64)));
  TwoNodes::store(nodes.buffer, 0, 9);
  nodes.reactor().spawn(submit(*here, send(nodes.buffer.local(0, 8))));
  (void)nodes.run(receive(*there));
  EXPECT_EQ(TwoNodes::load(nodes.buffer, 8), 9U);
}

}  // namespace
}  // namespace sidelatch::fabric
