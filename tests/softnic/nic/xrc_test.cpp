// Extended reliable connections: each request names a shared receive queue, whose domain and completion queue count.
#include "softnic/nic/deferred_access.h"
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sidelatch::softnic::nic {
namespace {

class XrcTest : public ::testing::Test {
 protected:
  explicit XrcTest(WireFaults faults = {}, std::unique_ptr<MemoryAccess> access = std::make_unique<ImmediateAccess>())
      : b_(2, std::move(access)), wire_({&a_, &b_}, faults, 3) {
    for (std::size_t i = 0; i < 2; ++i) {
      domains_[i] = b_.nic.make_domain();
      keys_[i] = b_.nic.register_memory({b_.at(0), Host::kMemoryBytes, b_.address(0), domains_[i], Rights::all});
      completions_[i] = &b_.nic.make_completion_queue(64);
      queues_[i] = &b_.nic.make_xrc_receive_queue(domains_[i], 64, 2, xrc_, *completions_[i]);
    }
  }
  [[nodiscard]] QueuePairOptions target() const {
    return {.type = QueuePairType::xrc_target,
            .send_depth = 0,
            .receive_depth = 0,
            .most_send_sges = 0,
            .most_receive_sges = 0,
            .xrc_domain = xrc_};
  }
  void post_receive(std::size_t queue, std::uint64_t id, std::size_t offset) {
    const Sge sge{b_.address(offset), 2048, keys_[queue]};
    ASSERT_EQ(queues_[queue]->post({.id = id, .sges = {&sge, 1}}), Post::done);
  }
  void post(const SendRequest& given, std::size_t length) {
    const Sge sge = a_.sge(0, length);
    SendRequest request = given;
    request.signaled = true;
    request.sges = {&sge, 1};
    ASSERT_EQ(pair_.a.post_send(request), Post::done);
  }
  [[nodiscard]] std::vector<Completion> received(std::size_t queue) {
    std::vector<Completion> found(completions_[queue]->size());
    EXPECT_EQ(completions_[queue]->poll(found), found.size());
    return found;
  }
  [[nodiscard]] CompletionStatus only_sent() {
    const auto sent = a_.sent();
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? CompletionStatus::flushed : sent[0].status;
  }

  Host a_{1};
  Host b_;
  LossyWire wire_;
  std::uint32_t xrc_ = b_.nic.make_xrc_domain();
  std::array<Domain, 2> domains_{};
  std::array<std::uint32_t, 2> keys_{};
  std::array<CompletionQueue*, 2> completions_{};
  std::array<ReceiveQueue*, 2> queues_{};
  Connection pair_ = connect(a_, b_, {.mtu = PathMtu::b256}, a_.options(QueuePairType::xrc_initiator), target());
};

TEST_F(XrcTest, AMessageGoesToTheQueueThatItNames) {
  a_.fill(0, 1000, 1);
  post_receive(0, 10, 0x8000);
  post_receive(1, 20, 0x9000);
  post({.kind = WorkKind::send, .remote_srq = queues_[1]->number()}, 1000);
  wire_.run();
  EXPECT_EQ(only_sent(), CompletionStatus::success);
  EXPECT_TRUE(received(0).empty());
  const auto second = received(1);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].id, 20U);
  EXPECT_EQ(second[0].queue_pair, pair_.b.number());
  EXPECT_TRUE(std::ranges::equal(b_.bytes(0x9000, 1000), a_.bytes(0, 1000)));
  post({.kind = WorkKind::write_with_immediate,
        .immediate = 9,
        .remote_address = b_.address(0),
        .rkey = keys_[0],
        .remote_srq = queues_[0]->number()},
       600);
  wire_.run();
  EXPECT_EQ(only_sent(), CompletionStatus::success);
  const auto first = received(0);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].immediate, 9U);
  EXPECT_TRUE(std::ranges::equal(b_.bytes(0, 600), a_.bytes(0, 600)));
}

TEST_F(XrcTest, KeysAreOfTheQueuesDomain) {
  post({.kind = WorkKind::write, .remote_address = b_.address(0), .rkey = keys_[0], .remote_srq = queues_[1]->number()},
       8);
  wire_.run();
  EXPECT_EQ(only_sent(), CompletionStatus::remote_access);
}

TEST_F(XrcTest, AQueueThatIsNotThereIsRefused) {
  post({.kind = WorkKind::send, .remote_srq = 0x777}, 8);
  wire_.run();
  EXPECT_EQ(only_sent(), CompletionStatus::remote_invalid_request);
}

TEST_F(XrcTest, AQueueOfAnotherXrcDomainIsRefused) {
  CompletionQueue& completions = b_.nic.make_completion_queue(4);
  const ReceiveQueue& other = b_.nic.make_xrc_receive_queue(domains_[0], 4, 1, b_.nic.make_xrc_domain(), completions);
  post({.kind = WorkKind::send, .remote_srq = other.number()}, 8);
  wire_.run();
  EXPECT_EQ(only_sent(), CompletionStatus::remote_invalid_request);
}

TEST_F(XrcTest, WhatIsInUseIsNotDestroyed) {
  EXPECT_THROW(b_.nic.destroy_xrc_domain(xrc_), NicError);
  EXPECT_THROW(b_.nic.destroy(*completions_[0]), NicError);
  EXPECT_THROW(b_.nic.destroy_domain(domains_[0]), NicError);
  b_.nic.destroy(pair_.b);
  EXPECT_THROW(b_.nic.destroy_xrc_domain(xrc_), NicError);
  b_.nic.destroy(*queues_[0]);
  b_.nic.destroy(*queues_[1]);
  b_.nic.destroy_xrc_domain(xrc_);
  b_.nic.destroy(*completions_[0]);
}

// A message ends with its queue; later ones for other queues are received.
TEST_F(XrcTest, AQueueMayEndInTheMiddleOfAMessage) {
  post_receive(0, 1, 0x8000);
  int packets = 0;
  wire_.on_send = [&](std::vector<std::byte>& /*frame*/) { return ++packets < 3; };
  post({.kind = WorkKind::send, .remote_srq = queues_[0]->number()}, 2000);
  wire_.deliver();
  b_.nic.destroy(*queues_[0]);
  wire_.on_send = nullptr;
  wire_.run();
  EXPECT_EQ(only_sent(), CompletionStatus::remote_invalid_request);
}

TEST_F(XrcTest, ATargetSendsNothingAndAnInitiatorReceivesNothing) {
  const Sge sge = b_.sge(0, 8);
  EXPECT_EQ(pair_.b.post_send({.sges = {&sge, 1}}), Post::wrong_kind);
  EXPECT_EQ(pair_.b.post_receive({.sges = {&sge, 1}}), Post::wrong_kind);
  EXPECT_EQ(pair_.a.post_receive({.sges = {&sge, 1}}), Post::wrong_kind);
}

class LossyXrcTest : public XrcTest, public ::testing::WithParamInterface<bool> {
 protected:
  LossyXrcTest()
      : XrcTest({.drop = 0.05, .duplicate = 0.05, .reorder = 0.05},
                GetParam() ? std::unique_ptr<MemoryAccess>(std::make_unique<DeferredAccess>(DeferredOptions{
                                 .rules = fabric::model::rules_of(fabric::model::Preset::relaxed), .seed = 5}))
                           : std::make_unique<ImmediateAccess>()) {}
};

TEST_P(LossyXrcTest, EachRequestHappensOnceAndInOrder) {
  std::array<std::vector<std::uint64_t>, 2> wanted;
  std::array<std::vector<std::uint64_t>, 2> got;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const std::size_t to = i * i / 3 % 2;
    post_receive(to, i, 0x8000 + to * 0x1000);
    post({.id = i, .kind = WorkKind::send_with_immediate, .immediate = i, .remote_srq = queues_[to]->number()},
         i * 37 % 2000);
    wanted[to].push_back(i);
    const Sge sge = a_.sge(0x10000 + 8 * i, 8);
    ASSERT_EQ(pair_.a.post_send({.id = 1000 + i,
                                 .kind = WorkKind::fetch_add,
                                 .signaled = true,
                                 .sges = {&sge, 1},
                                 .remote_address = b_.address(0),
                                 .rkey = keys_[to],
                                 .swap_or_add = 1,
                                 .remote_srq = queues_[to]->number()}),
              Post::done);
    wire_.run();
    EXPECT_EQ(a_.word(0x10000 + 8 * i), i);
    for (std::size_t queue = 0; queue < 2; ++queue) {
      for (const Completion& completion : received(queue)) {
        EXPECT_EQ(completion.bytes, completion.immediate * 37 % 2000);
        got[queue].push_back(completion.immediate);
      }
    }
  }
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(b_.word(0), 60U);
  EXPECT_GT(a_.nic.counters().retransmissions, 0U);
}

INSTANTIATE_TEST_SUITE_P(Xrc, LossyXrcTest, ::testing::Bool());

}  // namespace
}  // namespace sidelatch::softnic::nic
