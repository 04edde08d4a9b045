#include "softnic/nic/datagrams.h"

#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::uint32_t kQKey = 0x11223344;  // as to_init() sets it
constexpr std::size_t kArrival = 0x10000;

class DatagramsTest : public ::testing::TestWithParam<std::uint8_t> {
 protected:
  DatagramsTest() {
    bring_up(from_, {}, {}, 0, Psn(0), Psn(0xffffff));
    bring_up(to_, {}, {}, 0, Psn(0), Psn(0));
  }
  SendRequest request(std::span<const Sge> sges) const {
    return {.id = 5,
            .signaled = true,
            .sges = sges,
            .to = a_.address_of(b_, GetParam()),
            .remote_qp = to_.number(),
            .remote_q_key = kQKey};
  }
  void post_receive(std::size_t length) {
    const Sge sge = b_.sge(kArrival, length);
    ASSERT_EQ(to_.post_receive({.id = 6, .sges = {&sge, 1}}), Post::done);
  }
  void send(const SendRequest& request) {
    ASSERT_EQ(from_.post_send(request), Post::done);
    wire_.run();
  }

  Host a_{1};
  Host b_{2};
  LossyWire wire_{{&a_, &b_}};
  QueuePair& from_ = a_.nic.make_queue_pair(a_.options(QueuePairType::ud));
  QueuePair& to_ = b_.nic.make_queue_pair(b_.options(QueuePairType::ud));
};

TEST_P(DatagramsTest, ArriveBehindTheirIpHeader) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{4096}}) {
    for (const bool has_immediate : {false, true}) {
      SCOPED_TRACE(length);
      a_.fill(0, length, 1);
      post_receive(kGrhBytes + length);
      const Sge sge = a_.sge(0, length);
      SendRequest work = request({&sge, 1});
      work.kind = has_immediate ? WorkKind::send_with_immediate : WorkKind::send;
      work.immediate = 0x55667788;
      send(work);
      const auto sent = a_.sent();
      ASSERT_EQ(sent.size(), 1U);
      EXPECT_EQ(sent[0].status, CompletionStatus::success);
      const auto received = b_.received();
      ASSERT_EQ(received.size(), 1U);
      EXPECT_EQ(received[0].id, 6U);
      EXPECT_EQ(received[0].bytes, kGrhBytes + length);
      EXPECT_EQ(received[0].source_qp, from_.number());
      EXPECT_TRUE(received[0].has_grh);
      EXPECT_EQ(received[0].has_immediate, has_immediate);
      EXPECT_EQ(received[0].immediate, has_immediate ? 0x55667788U : 0U);
      EXPECT_TRUE(std::ranges::equal(b_.bytes(kArrival + kGrhBytes, length), a_.bytes(0, length)));
      if (GetParam() == 0) {
        const Ipv4 ip = Ipv4::read(b_.at(kArrival + 20));
        EXPECT_EQ(ip.version_and_length, 0x45);
        EXPECT_EQ(gid_of(ip.source), a_.nic.options().gids[0]);
        EXPECT_EQ(gid_of(ip.destination), b_.nic.options().gids[0]);
        EXPECT_EQ(std::ranges::count(b_.bytes(kArrival, 20), std::byte{0}), 20);
      } else {
        const Ipv6 ip = Ipv6::read(b_.at(kArrival));
        EXPECT_EQ(ip.version, 6);
        EXPECT_EQ(ip.source, a_.nic.options().gids[1]);
        EXPECT_EQ(ip.destination, b_.nic.options().gids[1]);
      }
    }
  }
}

TEST_P(DatagramsTest, AreDroppedWithoutARoomyReceiveRequestOrTheRightQKey) {
  const Sge sge = a_.sge(0, 8);
  send(request({&sge, 1}));
  EXPECT_TRUE(b_.received().empty());
  post_receive(kGrhBytes + 7);
  send(request({&sge, 1}));
  EXPECT_TRUE(b_.received().empty());
  SendRequest wrong = request({&sge, 1});
  wrong.remote_q_key = kQKey + 1;
  send(wrong);
  EXPECT_TRUE(b_.received().empty());
  EXPECT_EQ(b_.nic.counters().dropped, 3U);
  EXPECT_EQ(a_.sent().size(), 3U);  // the sender gets no notice
  // The receive request stays.
  const Sge fits = a_.sge(0, 7);
  SendRequest right = request({&fits, 1});
  right.remote_q_key = 0xffffffff;  // the sender's own
  send(right);
  EXPECT_EQ(b_.received().size(), 1U);
}

TEST_P(DatagramsTest, ToNobodyGetLost) {
  const Sge sge = a_.sge(0, 8);
  SendRequest work = request({&sge, 1});
  work.remote_qp = 0xdead;
  send(work);
  EXPECT_EQ(b_.nic.counters().misdirected, 1U);
}

TEST_P(DatagramsTest, ToAnotherAddressAreNotTaken) {
  post_receive(64);
  const Sge sge = a_.sge(0, 8);
  SendRequest work = request({&sge, 1});
  work.to.gid[15] ^= 8;
  send(work);
  EXPECT_EQ(b_.nic.counters().misdirected, 1U);
  EXPECT_TRUE(b_.received().empty());
}

TEST_P(DatagramsTest, ASendThatFailsStopsTheSendQueueOnly) {
  const auto fails = [&](const SendRequest& wrong, CompletionStatus status) {
    const Sge sge = a_.sge(0, 8);
    ASSERT_EQ(from_.post_send(wrong), Post::done);
    ASSERT_EQ(from_.post_send(request({&sge, 1})), Post::done);
    wire_.run();
    const auto sent = a_.sent();
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_EQ(sent[0].status, status);
    EXPECT_EQ(sent[1].status, CompletionStatus::flushed);
    EXPECT_EQ(from_.state(), QueuePairState::sqe);
    EXPECT_EQ(from_.post_send(request({&sge, 1})), Post::done);
    EXPECT_EQ(a_.sent().at(0).status, CompletionStatus::flushed);
    from_.modify({.state = QueuePairState::rts}, Attributes::state);
  };
  const Sge long_one = a_.sge(0, 4097);
  fails(request({&long_one, 1}), CompletionStatus::local_length);
  const Sge outside = a_.sge(Host::kMemoryBytes - 1, 8);
  fails(request({&outside, 1}), CompletionStatus::local_protection);
  SendRequest nowhere = request({});
  nowhere.to.gid_index = 9;
  fails(nowhere, CompletionStatus::local_operation);
  SendRequest foreign = request({});
  foreign.is_to_foreign = true;
  fails(foreign, CompletionStatus::local_operation);
  post_receive(64);
  const Sge sge = a_.sge(0, 8);
  send(request({&sge, 1}));
  EXPECT_EQ(b_.received().size(), 1U);
}

// ---- Groups.

class GroupsTest : public DatagramsTest {
 protected:
  GroupsTest() {
    bring_up(third_, {}, {}, 0, Psn(0), Psn(0));
    bring_up(own_, {}, {}, 0, Psn(0), Psn(0));
    const Sge at_c = c_.sge(kArrival, 512);
    const Sge at_a = a_.sge(kArrival, 512);
    EXPECT_EQ(third_.post_receive({.id = 7, .sges = {&at_c, 1}}), Post::done);
    EXPECT_EQ(own_.post_receive({.id = 8, .sges = {&at_a, 1}}), Post::done);
    post_receive(512);
  }
  [[nodiscard]] Gid group() const {
    Gid gid = gid_of({239, 1, 2, 3});
    if (GetParam() == 1) {
      gid = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4};
    }
    return gid;
  }
  void send_to_group() {
    a_.fill(0, 300, 2);
    const Sge sge = a_.sge(0, 300);
    SendRequest work = request({&sge, 1});
    work.to.gid = group();
    work.to.mac = group_mac(group());
    work.remote_qp = kGroupQueuePair;
    ASSERT_EQ(from_.post_send(work), Post::done);
    both_.run();
  }

  Host c_{3};
  QueuePair& third_ = c_.nic.make_queue_pair(c_.options(QueuePairType::ud));
  QueuePair& own_ = a_.nic.make_queue_pair(a_.options(QueuePairType::ud));
  LossyWire both_{{&a_, &b_, &c_}};
};

TEST_P(GroupsTest, EachMemberGetsACopyAndNobodyElse) {
  b_.nic.attach(to_, group());
  b_.nic.attach(to_, group());  // changes nothing
  c_.nic.attach(third_, group());
  a_.nic.attach(own_, group());
  send_to_group();
  const auto at_b = b_.received();
  ASSERT_EQ(at_b.size(), 1U);
  EXPECT_EQ(at_b[0].bytes, kGrhBytes + 300);
  EXPECT_EQ(at_b[0].source_qp, from_.number());
  EXPECT_EQ(c_.received().size(), 1U);
  EXPECT_EQ(a_.received().size(), 1U);
  for (Host* const host : {&a_, &b_, &c_}) {
    EXPECT_TRUE(std::ranges::equal(host->bytes(kArrival + kGrhBytes, 300), a_.bytes(0, 300)));
  }
  b_.nic.detach(to_, group());
  EXPECT_THROW(b_.nic.detach(to_, group()), NicError);
  c_.nic.destroy(third_);
  post_receive(512);
  send_to_group();
  EXPECT_TRUE(b_.received().empty());
}

TEST_P(GroupsTest, WhoHasNotJoinedGetsNothing) {
  c_.nic.attach(third_, group());
  send_to_group();
  EXPECT_TRUE(b_.received().empty());
  EXPECT_EQ(b_.nic.counters().misdirected, 1U);
  EXPECT_EQ(c_.received().size(), 1U);
}

TEST_P(GroupsTest, OnlyDatagramsAndOnlyGroups) {
  const Connection pair = connect(a_, b_);
  EXPECT_THROW(b_.nic.attach(pair.b, group()), NicError);
  EXPECT_THROW(b_.nic.attach(to_, b_.nic.options().gids[GetParam()]), NicError);
}

INSTANTIATE_TEST_SUITE_P(Roce, GroupsTest, ::testing::Values(std::uint8_t{0}, std::uint8_t{1}),
                         [](const auto& test) { return test.param == 0 ? "IPv4" : "IPv6"; });

INSTANTIATE_TEST_SUITE_P(Roce, DatagramsTest, ::testing::Values(std::uint8_t{0}, std::uint8_t{1}),
                         [](const auto& test) { return test.param == 0 ? "IPv4" : "IPv6"; });

}  // namespace
}  // namespace sidelatch::softnic::nic
