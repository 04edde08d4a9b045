// Requests whose memory the program has unmapped: each ends as if the region had ended, and says which page is gone.
// Once memory is touched at once, and once later, under the orders that a memory model allows.
#include "softnic/nic/deferred_access.h"
#include "softnic/nic/gone_pages.h"
#include "tests/softnic/nic/mapped_pages.h"
#include "tests/softnic/nic/wired_nics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using fabric::model::Preset;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kGoneLength = 2000;  // of several packets
constexpr std::uint32_t kDatagramKey = 0x11223344;

std::unique_ptr<MemoryAccess> access_for(const std::optional<Preset>& preset) {
  if (!preset) {
    return std::make_unique<ImmediateAccess>();
  }
  return std::make_unique<DeferredAccess>(DeferredOptions{.rules = fabric::model::rules_of(*preset), .seed = 7});
}

class GoneRequests : public ::testing::TestWithParam<std::optional<Preset>> {
 protected:
  GoneRequests() {
    bear_gone_pages();
    for (Host* const host : {&a_, &b_}) {
      host->nic.explain(true);
      keys_.push_back(
          host->nic.register_memory({pages_.data(), pages_.size(), pages_.address(), host->domain, Rights::all}));
    }
  }
  // Of the pages, as sides a and b know them.
  [[nodiscard]] Sge of_a(std::size_t length = kGoneLength) const {
    return {pages_.address(), static_cast<std::uint32_t>(length), keys_[0]};
  }
  [[nodiscard]] Sge of_b(std::size_t length = kGoneLength) const {
    return {pages_.address(), static_cast<std::uint32_t>(length), keys_[1]};
  }
  void post(QueuePair& pair, const SendRequest& given, const Sge& sge) {
    SendRequest request = given;
    request.signaled = true;
    request.sges = {&sge, 1};
    ASSERT_EQ(pair.post_send(request), Post::done);
  }
  void post_receive(QueuePair& pair, std::uint64_t id, const Sge& sge) {
    ASSERT_EQ(pair.post_receive({.id = id, .sges = {&sge, 1}}), Post::done);
  }
  // A request to the pages as side b has registered them.
  [[nodiscard]] SendRequest to_b(WorkKind kind) const {
    return {.id = 1, .kind = kind, .remote_address = pages_.address(), .rkey = keys_[1]};
  }
  // The first completion; the others are flushed.
  void expect_first(const std::vector<Completion>& completions, CompletionStatus status) {
    ASSERT_FALSE(completions.empty());
    EXPECT_EQ(completions[0].status, status) << text(completions[0].status);
    for (std::size_t i = 1; i < completions.size(); ++i) {
      EXPECT_EQ(completions[i].status, CompletionStatus::flushed);
    }
  }
  void expect_told(Host& host, std::uint32_t key) {
    const auto sentence = host.nic.next_explanation();
    ASSERT_TRUE(sentence);
    EXPECT_THAT(*sentence, AllOf(HasSubstr(fmt::format("the page at {:#x}", pages_.address(kPageBytes * gone_from_))),
                                 HasSubstr(fmt::format("the key {:#x}", key))));
    EXPECT_FALSE(host.nic.next_explanation());
  }
  void take_away(std::size_t first = 0) {
    gone_from_ = first;
    pages_.take_away(first);
  }
  // Everything else goes on.
  void expect_others_work() {
    const Sge from = a_.sge(0, 64);
    post(others_.a, {.kind = WorkKind::write, .remote_address = b_.address(0x100), .rkey = b_.key}, from);
    wire_.run();
    expect_first(a_.sent(), CompletionStatus::success);
    EXPECT_EQ(others_.b.state(), QueuePairState::rts);
  }

  MappedPages pages_{2};
  std::size_t gone_from_ = 0;
  Host a_{1, access_for(GetParam())};
  Host b_{2, access_for(GetParam())};
  std::vector<std::uint32_t> keys_;
  LossyWire wire_{{&a_, &b_}};
  Connection pair_ = connect(a_, b_, {.mtu = PathMtu::b256});
  Connection others_ = connect(a_, b_);
};

TEST_P(GoneRequests, TheSourceOfAWrite) {
  take_away();
  post(pair_.a, {.kind = WorkKind::write, .remote_address = b_.address(0), .rkey = b_.key}, of_a());
  post(pair_.a, {.kind = WorkKind::write, .remote_address = b_.address(0), .rkey = b_.key}, a_.sge(0, 8));
  wire_.run();
  expect_first(a_.sent(), CompletionStatus::local_protection);
  EXPECT_EQ(pair_.a.state(), QueuePairState::error);
  expect_told(a_, keys_[0]);
  expect_others_work();
}

// Earlier requests complete first, and their bytes are there.
TEST_P(GoneRequests, TheSourceOfASendOfWhichAPartIsThere) {
  take_away(1);
  post_receive(pair_.b, 4, b_.sge(0, 64));
  post_receive(pair_.b, 5, b_.sge(0, 2 * kPageBytes));
  post(pair_.a, {.kind = WorkKind::send}, a_.sge(0, 64));
  post(pair_.a, {.kind = WorkKind::send}, of_a(2 * kPageBytes));
  wire_.run();
  const auto sent = a_.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].status, CompletionStatus::success);
  EXPECT_EQ(sent[1].status, CompletionStatus::local_protection);
  EXPECT_EQ(b_.received().size(), 1U);
  expect_told(a_, keys_[0]);
}

TEST_P(GoneRequests, TheTargetOfAWrite) {
  take_away(1);
  post(pair_.a, to_b(WorkKind::write), a_.sge(0, 2 * kPageBytes));
  wire_.run();
  // Of what is touched later the other side may have the acknowledgement already.
  const auto sent = a_.sent();
  ASSERT_EQ(sent.size(), 1U);
  if (!GetParam()) {
    EXPECT_EQ(sent[0].status, CompletionStatus::remote_access);
    EXPECT_EQ(pair_.a.state(), QueuePairState::error);
  } else {
    EXPECT_THAT(sent[0].status, ::testing::AnyOf(CompletionStatus::success, CompletionStatus::remote_access));
  }
  EXPECT_EQ(pair_.b.state(), QueuePairState::error);
  const auto events = b_.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, Event::Kind::access_error);
  expect_told(b_, keys_[1]);
  expect_others_work();
}

TEST_P(GoneRequests, TheTargetOfAWriteWithImmediate) {
  take_away();
  post_receive(pair_.b, 4, {});
  post_receive(pair_.b, 5, {});
  post(pair_.a, to_b(WorkKind::write_with_immediate), a_.sge(0, kGoneLength));
  wire_.run();
  EXPECT_EQ(pair_.b.state(), QueuePairState::error);
  const auto received = b_.received();
  ASSERT_EQ(received.size(), 2U);  // nobody is told that bytes have come which have not
  EXPECT_THAT(received[0].status, ::testing::AnyOf(CompletionStatus::local_access, CompletionStatus::flushed));
  EXPECT_EQ(received[1].status, CompletionStatus::flushed);
  expect_told(b_, keys_[1]);
}

TEST_P(GoneRequests, TheSourceAndTheTargetOfARead) {
  take_away(1);
  post(pair_.a, to_b(WorkKind::read), a_.sge(0, 2 * kPageBytes));
  wire_.run();
  expect_first(a_.sent(), CompletionStatus::remote_access);
  EXPECT_EQ(pair_.b.state(), QueuePairState::error);
  expect_told(b_, keys_[1]);
  post(others_.a, {.kind = WorkKind::read, .remote_address = b_.address(0), .rkey = b_.key}, of_a(2 * kPageBytes));
  wire_.run();
  expect_first(a_.sent(), CompletionStatus::local_protection);
  EXPECT_EQ(others_.a.state(), QueuePairState::error);
  EXPECT_EQ(others_.b.state(), QueuePairState::rts);
  ASSERT_TRUE(a_.nic.next_explanation());  // that the other side has refused the first READ
  expect_told(a_, keys_[0]);
}

TEST_P(GoneRequests, TheWordOfAnAtomic) {
  for (const WorkKind kind : {WorkKind::compare_swap, WorkKind::fetch_add, WorkKind::atomic_write}) {
    const Connection pair = connect(a_, b_);
    take_away();
    post(pair.a, to_b(kind), a_.sge(0, 8));
    wire_.run();
    expect_first(a_.sent(), CompletionStatus::remote_access);
    EXPECT_EQ(pair.b.state(), QueuePairState::error);
    expect_told(b_, keys_[1]);
  }
  const Connection pair = connect(a_, b_);
  post(pair.a, {.kind = WorkKind::fetch_add, .remote_address = b_.address(0), .rkey = b_.key, .swap_or_add = 1},
       of_a(8));
  wire_.run();
  expect_first(a_.sent(), CompletionStatus::local_protection);
  EXPECT_EQ(b_.word(0), 1U);
}

TEST_P(GoneRequests, TheBufferOfAReceiveRequest) {
  take_away();
  post_receive(pair_.b, 4, b_.sge(0, 64));
  post_receive(pair_.b, 5, of_b());
  post_receive(pair_.b, 6, b_.sge(64, 64));
  const auto posted = [&](std::size_t length) { post(pair_.a, {.kind = WorkKind::send}, a_.sge(0, length)); };
  posted(64);
  posted(kGoneLength);
  posted(64);
  wire_.run();
  const auto received = b_.received();
  ASSERT_EQ(received.size(), 3U);
  EXPECT_EQ(received[0].status, CompletionStatus::success);
  EXPECT_EQ(received[1].status, CompletionStatus::local_protection) << text(received[1].status);
  EXPECT_EQ(received[1].id, 5U);
  EXPECT_EQ(received[2].status, CompletionStatus::flushed);
  EXPECT_EQ(pair_.b.state(), QueuePairState::error);
  expect_told(b_, keys_[1]);
  const auto sent = a_.sent();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].status, CompletionStatus::success);
  if (!GetParam()) {
    EXPECT_EQ(sent[1].status, CompletionStatus::remote_operation);
    EXPECT_EQ(sent[2].status, CompletionStatus::flushed);
  }
  expect_others_work();
}

TEST_P(GoneRequests, TheBufferOfASharedReceiveQueue) {
  ReceiveQueue& shared = b_.nic.make_shared_receive_queue(b_.domain, 4, 1);
  QueuePairOptions options = b_.options();
  options.shared_receives = &shared;
  const Connection first = connect(a_, b_, {}, a_.options(), options);
  const Connection second = connect(a_, b_, {}, a_.options(), options);
  take_away();
  const Sge gone = of_b();
  const Sge there = b_.sge(0, kGoneLength);
  ASSERT_EQ(shared.post({.id = 4, .sges = {&gone, 1}}), Post::done);
  ASSERT_EQ(shared.post({.id = 5, .sges = {&there, 1}}), Post::done);
  post(first.a, {.kind = WorkKind::send}, a_.sge(0, kGoneLength));
  wire_.run();
  expect_first(b_.received(), CompletionStatus::local_protection);
  EXPECT_EQ(first.b.state(), QueuePairState::error);
  static_cast<void>(a_.sent());
  post(second.a, {.kind = WorkKind::send}, a_.sge(0, kGoneLength));
  wire_.run();
  expect_first(b_.received(), CompletionStatus::success);
  expect_first(a_.sent(), CompletionStatus::success);
}

TEST_P(GoneRequests, TheBuffersOfDatagrams) {
  QueuePair& from = a_.nic.make_queue_pair(a_.options(QueuePairType::ud));
  QueuePair& to = b_.nic.make_queue_pair(b_.options(QueuePairType::ud));
  bring_up(from, {}, {}, 0, Psn(0), Psn(0));
  bring_up(to, {}, {}, 0, Psn(0), Psn(0));
  take_away();
  const SendRequest send{.to = a_.address_of(b_), .remote_qp = to.number(), .remote_q_key = kDatagramKey};
  post_receive(to, 4, of_b());
  post_receive(to, 5, b_.sge(0, kGoneLength));
  post(from, send, a_.sge(0, 64));
  wire_.run();
  expect_first(b_.received(), CompletionStatus::local_protection);
  EXPECT_EQ(to.state(), QueuePairState::error);
  expect_told(b_, keys_[1]);
  expect_first(a_.sent(), CompletionStatus::success);
  post(from, send, of_a(64));
  wire_.run();
  expect_first(a_.sent(), CompletionStatus::local_protection);
  EXPECT_EQ(from.state(), QueuePairState::sqe);
  expect_told(a_, keys_[0]);
}

// Nobody hears of a WRITE that has failed, but a receive request whose buffer is gone has.
TEST_P(GoneRequests, UnreliableConnections) {
  const Connection pair =
      connect(a_, b_, {.mtu = PathMtu::b256}, a_.options(QueuePairType::uc), b_.options(QueuePairType::uc));
  take_away();
  post(pair.a, to_b(WorkKind::write), a_.sge(0, kGoneLength));
  wire_.run();
  expect_first(a_.sent(), CompletionStatus::success);
  EXPECT_EQ(pair.b.state(), QueuePairState::rts);
  EXPECT_FALSE(b_.nic.next_explanation());
  post_receive(pair.b, 4, of_b());
  post(pair.a, {.kind = WorkKind::send}, a_.sge(0, kGoneLength));
  wire_.run();
  expect_first(b_.received(), CompletionStatus::local_protection);
  EXPECT_EQ(pair.b.state(), QueuePairState::error);
  expect_told(b_, keys_[1]);
}

INSTANTIATE_TEST_SUITE_P(Of, GoneRequests,
                         ::testing::Values(std::nullopt, Preset::strict, Preset::observed, Preset::relaxed),
                         [](const auto& one) {
                           return one.param ? std::string(fabric::model::name(*one.param)) : std::string("AtOnce");
                         });

}  // namespace
}  // namespace sidelatch::softnic::nic
