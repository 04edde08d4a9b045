// Unreliable connections: what arrives is whole and right, in order, and nothing twice; what is lost says nothing.
#include "softnic/nic/deferred_access.h"
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kRoom = 4096;

class UnreliableTest : public ::testing::Test {
 protected:
  explicit UnreliableTest(std::unique_ptr<MemoryAccess> access = std::make_unique<ImmediateAccess>())
      : b_(2, std::move(access)),
        pair_(connect(a_, b_, {.mtu = PathMtu::b256}, a_.options(QueuePairType::uc), b_.options(QueuePairType::uc))) {}

  void post_receive(std::uint64_t id, std::size_t offset, std::size_t length = kRoom) {
    const Sge sge = b_.sge(offset, length);
    ASSERT_EQ(pair_.b.post_receive({.id = id, .sges = {&sge, 1}}), Post::done);
  }
  void post(const SendRequest& given, std::size_t offset, std::size_t length) {
    const Sge sge = a_.sge(offset, length);
    SendRequest request = given;
    request.signaled = true;
    request.sges = {&sge, 1};
    ASSERT_EQ(pair_.a.post_send(request), Post::done);
  }
  // The completions of sends: all succeed as soon as they have left.
  void expect_sent(std::size_t count) {
    const auto sent = a_.sent();
    EXPECT_EQ(sent.size(), count);
    EXPECT_TRUE(std::ranges::all_of(sent, [](const auto& one) { return one.status == CompletionStatus::success; }));
  }

  Host a_{1};
  Host b_;
  LossyWire wire_{{&a_, &b_}};
  Connection pair_;
};

TEST_F(UnreliableTest, MessagesOfAllLengthsArrive) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{256}, std::size_t{257}, kRoom}) {
    SCOPED_TRACE(length);
    a_.fill(0, length, 1);
    post_receive(1, 0x8000);
    post({.kind = WorkKind::send_with_immediate, .immediate = 7}, 0, length);
    wire_.run();
    const auto received = b_.received();
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received[0].bytes, length);
    EXPECT_EQ(received[0].immediate, 7U);
    EXPECT_TRUE(std::ranges::equal(b_.bytes(0x8000, length), a_.bytes(0, length)));
    post_receive(2, 0x8000);
    post({.kind = WorkKind::write_with_immediate, .immediate = 8, .remote_address = b_.address(0x4000), .rkey = b_.key},
         0, length);
    wire_.run();
    const auto written = b_.received();
    ASSERT_EQ(written.size(), 1U);
    EXPECT_EQ(written[0].kind, CompletionKind::receive_write);
    EXPECT_EQ(written[0].immediate, 8U);
    EXPECT_TRUE(std::ranges::equal(b_.bytes(0x4000, length), a_.bytes(0, length)));
    expect_sent(2);
  }
}

TEST_F(UnreliableTest, NothingIsAnswered) {
  std::size_t answers = 0;
  wire_.on_send = [&](std::vector<std::byte>& frame) {
    answers += Ethernet::read(frame.data()).source == b_.nic.options().mac ? 1U : 0U;
    return true;
  };
  post({.kind = WorkKind::write, .remote_address = b_.address(0), .rkey = b_.key}, 0, 1000);
  post({.kind = WorkKind::send}, 0, 10);  // there is no receive request
  wire_.run();
  expect_sent(2);
  EXPECT_EQ(answers, 0U);
  EXPECT_EQ(b_.nic.counters().dropped, 1U);
}

TEST_F(UnreliableTest, OnlyOneSidedWritesAndSendsArePosted) {
  const Sge sge = a_.sge(0, 8);
  for (const WorkKind kind : {WorkKind::read, WorkKind::compare_swap, WorkKind::fetch_add, WorkKind::atomic_write,
                              WorkKind::send_with_invalidate}) {
    EXPECT_EQ(pair_.a.post_send({.kind = kind, .sges = {&sge, 1}}), Post::wrong_kind);
  }
}

// The sender's program resets its queue pair, and begins at another number: ahead, or far behind.
TEST_F(UnreliableTest, ASenderThatBeginsAgainIsHeard) {
  Link link{.mtu = PathMtu::b256};
  for (const std::uint32_t begins : {0xfffff0U, 0x400U, 0xff0000U, 0x7ffff0U}) {
    pair_.a.modify({.state = QueuePairState::reset}, Attributes::state);
    bring_up(pair_.a, link, a_.address_of(b_, link.gid_index), pair_.b.number(), link.b_to_a, Psn(begins));
    for (std::uint64_t i = 0; i < 2; ++i) {
      a_.fill(0, 300, begins + static_cast<std::uint32_t>(i));
      post_receive(i, 0x8000);
      post({.kind = WorkKind::send}, 0, 300);
      wire_.run();
      ASSERT_EQ(b_.received().size(), 1U) << begins;
      EXPECT_TRUE(std::ranges::equal(b_.bytes(0x8000, 300), a_.bytes(0, 300)));
    }
    expect_sent(2);
  }
}

TEST_F(UnreliableTest, AMessageWithoutItsMiddleIsDroppedAndItsBufferServesTheNext) {
  a_.fill(0, 2000, 3);
  post_receive(5, 0x8000);
  int packets = 0;
  wire_.on_send = [&](std::vector<std::byte>& /*frame*/) { return ++packets != 3; };
  post({.kind = WorkKind::send}, 0, 2000);
  wire_.run();
  expect_sent(1);
  EXPECT_TRUE(b_.received().empty());
  EXPECT_EQ(pair_.b.state(), QueuePairState::rts);
  a_.fill(0, 300, 4);
  post({.kind = WorkKind::send}, 0, 300);
  wire_.run();
  const auto received = b_.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].id, 5U);
  EXPECT_EQ(received[0].bytes, 300U);
  EXPECT_TRUE(std::ranges::equal(b_.bytes(0x8000, 300), a_.bytes(0, 300)));
}

// The buffer of a dropped SEND is not reported by a WRITE that completes meanwhile.
TEST_F(UnreliableTest, AWriteAfterADroppedSendReportsNothing) {
  post_receive(5, 0x8000);
  int packets = 0;
  wire_.on_send = [&](std::vector<std::byte>& /*frame*/) { return ++packets != 2; };
  post({.kind = WorkKind::send}, 0, 1000);
  post({.kind = WorkKind::write, .remote_address = b_.address(0), .rkey = b_.key}, 0, 8);
  wire_.run();
  EXPECT_TRUE(b_.received().empty());
  post({.kind = WorkKind::write_with_immediate, .remote_address = b_.address(0), .rkey = b_.key}, 0, 8);
  wire_.run();
  EXPECT_EQ(b_.received().size(), 1U);
}

TEST_F(UnreliableTest, WhatIsRefusedIsDroppedAndTheConnectionGoesOn) {
  a_.fill(0, 1000, 5);
  post({.kind = WorkKind::write, .remote_address = b_.address(0), .rkey = b_.key + 1}, 0, 8);
  post({.kind = WorkKind::write, .remote_address = b_.address(Host::kMemoryBytes - 4), .rkey = b_.key}, 0, 8);
  post_receive(1, 0x8000, 100);
  post({.kind = WorkKind::send}, 0, 101);  // longer than the buffer
  wire_.run();
  EXPECT_TRUE(b_.received().empty());
  EXPECT_EQ(b_.nic.counters().dropped, 3U);
  post({.kind = WorkKind::send}, 0, 100);
  wire_.run();
  EXPECT_EQ(b_.received().size(), 1U);
  EXPECT_EQ(pair_.b.state(), QueuePairState::rts);
}

TEST_F(UnreliableTest, AWrongOwnBufferBringsTheSendQueueToSqeAndBack) {
  const Sge wrong{a_.address(0), 8, a_.key + 1};
  ASSERT_EQ(pair_.a.post_send({.id = 3, .sges = {&wrong, 1}}), Post::done);
  wire_.run();
  const auto sent = a_.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].status, CompletionStatus::local_protection);
  EXPECT_EQ(pair_.a.state(), QueuePairState::sqe);
  pair_.a.modify({.state = QueuePairState::rts}, Attributes::state);
  post_receive(1, 0x8000);
  post({.kind = WorkKind::send}, 0, 8);
  wire_.run();
  EXPECT_EQ(b_.received().size(), 1U);
}

// A long message has begun when the queue pair is to drain, and its buffer ends.
TEST_F(UnreliableTest, AWrongOwnBufferBringsADrainingSendQueueToSqe) {
  const std::uint32_t key = a_.nic.register_memory({a_.at(0), 1024, a_.address(0), a_.domain, Rights::none});
  const Sge sge{a_.address(0), 1024, key};
  ASSERT_EQ(pair_.a.post_send({.id = 3, .sges = {&sge, 1}}), Post::done);
  std::vector<std::byte> buffer(kFrameRoom);
  ASSERT_NE(a_.nic.pull_frame(buffer, 1), 0U);
  pair_.a.modify({.state = QueuePairState::sqd}, Attributes::state);
  a_.nic.deregister_memory(key);
  wire_.run();
  EXPECT_EQ(a_.sent().front().status, CompletionStatus::local_protection);
  EXPECT_EQ(pair_.a.state(), QueuePairState::sqe);
}

// Sends messages that tell their number and their length, and checks those that arrive.
std::size_t exchange(Host& a, Host& b, const WireFaults& faults, std::uint64_t seed) {
  LossyWire wire({&a, &b}, faults, seed);
  const Connection pair =
      connect(a, b, {.mtu = PathMtu::b256}, a.options(QueuePairType::uc), b.options(QueuePairType::uc));
  std::mt19937_64 random(seed);
  std::size_t arrived = 0;
  std::uint32_t next = 0;
  for (std::uint32_t number = 0; number < 200; ++number) {
    const std::size_t length = random() % 1200;
    a.fill(0, length, number);
    if (pair.b.options().receive_depth > 0 && number % 32 == 0) {
      for (std::uint64_t id = 0; id < 40; ++id) {
        const Sge to = b.sge(0x8000, kRoom);
        static_cast<void>(pair.b.post_receive({.id = id, .sges = {&to, 1}}));
      }
    }
    const Sge from = a.sge(0, length);
    const bool writes = number % 2 == 0;
    EXPECT_EQ(pair.a.post_send({.id = number,
                                .kind = writes ? WorkKind::write_with_immediate : WorkKind::send_with_immediate,
                                .signaled = true,
                                .sges = {&from, 1},
                                .immediate = number,
                                .remote_address = b.address(0x8000),
                                .rkey = b.key}),
              Post::done);
    wire.run();
    EXPECT_EQ(a.sent().size(), 1U);
    for (const Completion& completion : b.received()) {
      EXPECT_EQ(completion.status, CompletionStatus::success);
      EXPECT_GE(completion.immediate, next);
      next = completion.immediate + 1;
      if (completion.immediate == number) {
        EXPECT_EQ(completion.bytes, length);
        EXPECT_TRUE(std::ranges::equal(b.bytes(0x8000, length), a.bytes(0, length))) << number;
      }
      ++arrived;
    }
  }
  EXPECT_EQ(pair.b.state(), QueuePairState::rts);
  return arrived;
}

TEST(Unreliable, LossDropsMessagesAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Host a(1);
    Host b(2);
    EXPECT_EQ(exchange(a, b, {}, seed), 200U);
    Host c(3);
    Host d(4);
    const std::size_t arrived = exchange(c, d, {.drop = 0.05, .duplicate = 0.1, .reorder = 0.05}, seed);
    EXPECT_GT(arrived, 50U);
    EXPECT_LT(arrived, 200U);
  }
}

TEST(Unreliable, AlsoWhenMemoryIsTouchedLater) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Host a(1);
    Host b(2, std::make_unique<DeferredAccess>(
                  DeferredOptions{.rules = fabric::model::rules_of(fabric::model::Preset::relaxed), .seed = seed}));
    EXPECT_EQ(exchange(a, b, {.duplicate = 0.2}, seed), 200U);
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
