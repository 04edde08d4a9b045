// A requester finds a loss long before the program's timeout, which still says when it gives up. Explanations.
#include "tests/softnic/nic/wired_nics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Time kMillisecond = 1'000'000;
constexpr std::uint8_t kSecond = 18;  // 1.07 s

class AskingTest : public ::testing::Test {
 protected:
  Time post_and_run(const Connection& pair, WorkKind kind = WorkKind::write, std::size_t length = 2000) {
    const Sge sge = a_.sge(0, length);
    EXPECT_EQ(pair.a.post_send({.id = 1,
                                .kind = kind,
                                .signaled = true,
                                .sges = {&sge, 1},
                                .remote_address = b_.address(0),
                                .rkey = b_.key}),
              Post::done);
    const Time begun = wire_.now();
    wire_.run([&] { return a_.sends.size() != 0; });
    return wire_.now() - begun;
  }
  CompletionStatus only_status() {
    const auto sent = a_.sent();
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? CompletionStatus::flushed : sent[0].status;
  }
  void lose(int packet) {
    wire_.on_send = [this, packet](std::vector<std::byte>& /*frame*/) { return ++packets_ != packet; };
  }

  Host a_{1};
  Host b_{2};
  LossyWire wire_{{&a_, &b_}};
  int packets_ = 0;
};

TEST_F(AskingTest, ALostLastPacketOrAnswerIsFoundInMilliseconds) {
  for (const WorkKind kind : {WorkKind::write, WorkKind::read, WorkKind::fetch_add}) {
    // Of a WRITE two packets and the answer; of the others the request and the answer.
    for (int lost = 1; lost <= (kind == WorkKind::write ? 3 : 2); ++lost) {
      SCOPED_TRACE(lost);
      // Not even one retry is allowed: asking uses up none.
      const Connection pair = connect(a_, b_, {.timeout = kSecond, .retry_count = 0});
      packets_ = 0;
      if (kind == WorkKind::write && lost == 1) {
        continue;  // the receiver misses it, which is a retry
      }
      lose(lost);
      EXPECT_LT(post_and_run(pair, kind,
                             kind == WorkKind::fetch_add ? 8
                             : kind == WorkKind::read    ? 800
                                                         : 2000),
                5 * kMillisecond);
      EXPECT_EQ(only_status(), CompletionStatus::success);
      EXPECT_EQ(a_.nic.counters().timeouts, 0U);
    }
  }
}

TEST_F(AskingTest, ItGivesUpWhenTheProgramSaidSo) {
  const Connection pair = connect(a_, b_, {.timeout = kSecond, .retry_count = 2});
  int sent = 0;
  wire_.on_send = [&](std::vector<std::byte>& /*frame*/) {
    ++sent;
    return false;
  };
  const Time taken = post_and_run(pair, WorkKind::write, 8);
  EXPECT_EQ(only_status(), CompletionStatus::retry_exceeded);
  const Time timeout = Time{4096} << kSecond;
  EXPECT_GE(taken, 3 * timeout);
  EXPECT_LT(taken, 3 * timeout + 10 * kMillisecond);
  EXPECT_GT(sent, 10);
  EXPECT_LT(sent, 40);  // at longer and longer intervals
}

TEST_F(AskingTest, AShortTimeoutIsNotAskedBefore) {
  const Connection pair = connect(a_, b_, {.timeout = 8});
  lose(1);
  static_cast<void>(post_and_run(pair, WorkKind::write, 8));
  EXPECT_EQ(only_status(), CompletionStatus::success);
  EXPECT_EQ(a_.nic.counters().asked_again, 0U);
  EXPECT_EQ(a_.nic.counters().timeouts, 1U);
}

// Without a timeout the program wants no second attempt.
TEST_F(AskingTest, NoTimeoutIsNoQuestion) {
  const Connection pair = connect(a_, b_, {.timeout = 0});
  lose(1);
  static_cast<void>(post_and_run(pair, WorkKind::write, 8));
  EXPECT_TRUE(a_.sent().empty());
  EXPECT_EQ(a_.nic.counters().asked_again, 0U);
}

// ---- Loops.

TEST(Loop, AQueuePairTalksToItself) {
  Host a(1);
  LossyWire wire({&a});
  for (const std::uint8_t gid : {std::uint8_t{0}, std::uint8_t{1}}) {
    QueuePair& pair = a.nic.make_queue_pair(a.options());
    bring_up(pair, {}, a.address_of(a, gid), pair.number(), Psn(5), Psn(5));
    a.fill(0, 5000, 1);
    const Sge to = a.sge(0x8000, 5000);
    const Sge from = a.sge(0, 5000);
    ASSERT_EQ(pair.post_receive({.id = 1, .sges = {&to, 1}}), Post::done);
    ASSERT_EQ(pair.post_send({.id = 2, .signaled = true, .sges = {&from, 1}}), Post::done);
    const Sge read = a.sge(0x10000, 5000);
    ASSERT_EQ(pair.post_send({.id = 3,
                              .kind = WorkKind::read,
                              .signaled = true,
                              .sges = {&read, 1},
                              .remote_address = a.address(0x8000),
                              .rkey = a.key}),
              Post::done);
    wire.run();
    EXPECT_EQ(a.received().size(), 1U);
    EXPECT_EQ(a.sent().size(), 2U);
    EXPECT_TRUE(std::ranges::equal(a.bytes(0x8000, 5000), a.bytes(0, 5000)));
    EXPECT_TRUE(std::ranges::equal(a.bytes(0x10000, 5000), a.bytes(0, 5000)));
    EXPECT_EQ(wire.carried(), 0U);
  }
}

// ---- More READs in flight than 16.

TEST(ManyReads, AreInFlightTogether) {
  Host a(1);
  Host b(2);
  LossyWire wire({&a, &b});
  const Connection pair = connect(a, b, {.rd_atomic = 64, .dest_rd_atomic = 64});
  b.fill(0, 64 * 8, 1);
  for (std::uint64_t i = 0; i < 64; ++i) {
    const Sge sge = a.sge(8 * i, 8);
    ASSERT_EQ(pair.a.post_send({.id = i,
                                .kind = WorkKind::read,
                                .signaled = true,
                                .sges = {&sge, 1},
                                .remote_address = b.address(8 * i),
                                .rkey = b.key}),
              Post::done);
  }
  std::size_t requests = 0;
  std::size_t most = 0;
  wire.on_send = [&](std::vector<std::byte>& frame) {
    const bool is_request = Ethernet::read(frame.data()).source == a.nic.options().mac;
    requests = is_request ? requests + 1 : requests - 1;
    most = std::max(most, requests);
    return true;
  };
  wire.run();
  EXPECT_EQ(a.sent().size(), 64U);
  EXPECT_EQ(most, 64U);
  EXPECT_TRUE(std::ranges::equal(a.bytes(0, 64 * 8), b.bytes(0, 64 * 8)));
}

// ---- Explanations.

std::vector<std::string> explanations(Nic& nic) {
  std::vector<std::string> all;
  while (auto sentence = nic.next_explanation()) {
    all.push_back(std::move(*sentence));
  }
  return all;
}

TEST(Explanations, SayWhyAQueuePairEntersError) {
  Host a(1);
  Host b(2);
  a.nic.explain(true);
  b.nic.explain(true);
  LossyWire wire({&a, &b});
  const Connection pair = connect(a, b);
  const Sge sge = a.sge(0, 8);
  ASSERT_EQ(pair.a.post_send(
                {.id = 0x77, .kind = WorkKind::write, .sges = {&sge, 1}, .remote_address = 0x1000, .rkey = 0xbad}),
            Post::done);
  wire.run();
  EXPECT_THAT(explanations(a.nic),
              ElementsAre(AllOf(HasSubstr("enters ERROR"), HasSubstr("wr_id 0x77"), HasSubstr("remote access error"),
                                HasSubstr("rkey 0xbad"), HasSubstr("address 0x1000"))));
  EXPECT_THAT(explanations(b.nic), ElementsAre(AllOf(HasSubstr("enters ERROR"), HasSubstr("is refused"))));
}

TEST(Explanations, SayThatACompletionQueueOverruns) {
  Host a(1);
  Host b(2);
  a.nic.explain(true);
  LossyWire wire({&a, &b});
  QueuePairOptions options = a.options();
  options.send_completions = &a.nic.make_completion_queue(1);
  const Connection pair = connect(a, b, {}, options, b.options());
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.a.post_send({.kind = WorkKind::write, .signaled = true}), Post::done);
  }
  wire.run();
  EXPECT_THAT(explanations(a.nic), ElementsAre(AllOf(HasSubstr("completion queue"), HasSubstr("room for 1")),
                                               AllOf(HasSubstr("enters ERROR"), HasSubstr("has overrun"))));
}

TEST(Explanations, AreNotKeptUnlessSomebodyWantsThem) {
  Host a(1);
  Host b(2);
  LossyWire wire({&a, &b});
  const Connection pair = connect(a, b);
  ASSERT_EQ(pair.a.post_send({.kind = WorkKind::send}), Post::done);
  pair.a.modify({.state = QueuePairState::error}, Attributes::state);
  EXPECT_EQ(a.nic.next_explanation(), std::nullopt);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
