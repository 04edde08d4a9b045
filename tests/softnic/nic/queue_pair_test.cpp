// States of queue pairs, the posts that they allow, flushed requests, and the events that they cause.
#include "softnic/nic/queue_pair.h"

#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::softnic::nic {
namespace {

using S = QueuePairState;
using A = Attributes;
using Type = QueuePairType;

class QueuePairTest : public ::testing::Test {
 protected:
  Post send(QueuePair& pair, std::uint64_t id, std::size_t length = 4) {
    const Sge sge = a_.sge(0, length);
    return pair.post_send({.id = id,
                           .kind = WorkKind::write,
                           .signaled = true,
                           .sges = {&sge, 1},
                           .remote_address = b_.address(0),
                           .rkey = b_.key});
  }
  static void to(QueuePair& pair, S state) { pair.modify({.state = state}, A::state); }
  static std::vector<std::pair<std::uint64_t, CompletionStatus>> results(const std::vector<Completion>& completions) {
    std::vector<std::pair<std::uint64_t, CompletionStatus>> pairs;
    for (const Completion& completion : completions) {
      pairs.emplace_back(completion.id, completion.status);
    }
    return pairs;
  }
  using Results = std::vector<std::pair<std::uint64_t, CompletionStatus>>;
  static std::string refusal(auto call) {
    try {
      call();
    } catch (const NicError& error) {
      EXPECT_EQ(error.kind(), NicError::Kind::invalid);
      return error.what();
    }
    return "nothing was refused";
  }

  Host a_{1};
  Host b_{2};
  LossyWire wire_{{&a_, &b_}};
};

constexpr auto kFlushed = CompletionStatus::flushed;
constexpr auto kSuccess = CompletionStatus::success;

TEST_F(QueuePairTest, GoesThroughItsStatesAndQueryTellsThem) {
  QueuePair& pair = a_.nic.make_queue_pair(a_.options());
  EXPECT_EQ(pair.query().state, S::reset);
  pair.modify(to_init(Type::rc), init_set(Type::rc));
  EXPECT_EQ(pair.query().state, S::init);
  EXPECT_EQ(pair.query().rights, Rights::all);
  const Link link{.mtu = PathMtu::b512, .min_rnr_timer = 3};
  pair.modify(to_rtr(link, a_.address_of(b_), 0x1234, Psn(77)), rtr_set(Type::rc));
  QueuePairAttributes now = pair.query();
  EXPECT_EQ(now.state, S::rtr);
  EXPECT_EQ(now.path_mtu, PathMtu::b512);
  EXPECT_EQ(now.remote_qp, 0x1234U);
  EXPECT_EQ(now.receive_psn, Psn(77));
  EXPECT_EQ(now.min_rnr_timer, 3);
  EXPECT_EQ(now.max_dest_rd_atomic, 4);
  EXPECT_EQ(now.address.gid, b_.nic.options().gids[0]);
  pair.modify(to_rts(link, Psn(99)), rts_set(Type::rc));
  now = pair.query();
  EXPECT_EQ(now.state, S::rts);
  EXPECT_EQ(now.current_state, S::rts);
  EXPECT_EQ(now.send_psn, Psn(99));
  EXPECT_EQ(now.timeout, 8);
  pair.modify({.state = S::sqd}, A::state);
  EXPECT_EQ(pair.query().state, S::sqd);
  pair.modify({.state = S::rts, .current_state = S::sqd}, A::state | A::current_state);
  to(pair, S::error);
  to(pair, S::error);
  to(pair, S::reset);
  EXPECT_EQ(pair.query().remote_qp, 0U);
}

TEST_F(QueuePairTest, WhatIsRefusedChangesNothing) {
  QueuePair& pair = a_.nic.make_queue_pair(a_.options());
  EXPECT_NE(refusal([&] { to(pair, S::rts); }).find("does not go from RESET to RTS"), std::string::npos);
  EXPECT_NE(refusal([&] { to(pair, S::init); }).find("RESET to INIT needs rights, p_key_index, port"),
            std::string::npos);
  pair.modify(to_init(Type::rc), init_set(Type::rc));
  QueuePairAttributes wrong = to_rtr({}, a_.address_of(b_), 5, Psn(1));
  wrong.min_rnr_timer = 32;
  EXPECT_NE(refusal([&] { pair.modify(wrong, rtr_set(Type::rc)); }).find("min_rnr_timer is 32: at most 31"),
            std::string::npos);
  EXPECT_EQ(pair.query().remote_qp, 0U);
  wrong = to_rtr({}, a_.address_of(b_), 5, Psn(1));
  wrong.address.gid_index = 1;  // IPv6 here, IPv4 there
  EXPECT_NE(refusal([&] { pair.modify(wrong, rtr_set(Type::rc)); }).find("IPv4"), std::string::npos);
  EXPECT_NE(refusal([&] {
              pair.modify({.state = S::init, .current_state = S::reset}, A::state | A::current_state);
            }).find("it is in INIT, not in RESET"),
            std::string::npos);
  EXPECT_EQ(pair.state(), S::init);
}

TEST_F(QueuePairTest, WhatMayBePostedInWhichState) {
  QueuePair& pair = a_.nic.make_queue_pair(a_.options());
  const auto expect = [&](Post sends, Post receives) {
    EXPECT_EQ(send(pair, 1), sends) << name(pair.state());
    EXPECT_EQ(pair.post_receive({.id = 2}), receives) << name(pair.state());
  };
  expect(Post::wrong_state, Post::wrong_state);
  pair.modify(to_init(Type::rc), init_set(Type::rc));
  expect(Post::wrong_state, Post::done);
  pair.modify(to_rtr({}, a_.address_of(b_), 5, Psn(1)), rtr_set(Type::rc));
  expect(Post::wrong_state, Post::done);
  pair.modify(to_rts({}, Psn(1)), rts_set(Type::rc));
  expect(Post::done, Post::done);
  to(pair, S::sqd);
  expect(Post::done, Post::done);
  to(pair, S::error);
  expect(Post::done, Post::done);
}

TEST_F(QueuePairTest, WhatIsNoWorkForItIsRefused) {
  const Connection pair = connect(a_, b_);
  const std::vector<Sge> five(5, a_.sge(0, 1));
  EXPECT_EQ(pair.a.post_send({.sges = five}), Post::too_many_sges);
  EXPECT_EQ(pair.a.post_receive({.sges = five}), Post::too_many_sges);
  const Sge long_one = a_.sge(0, 257);
  EXPECT_EQ(pair.a.post_send({.inlined = true, .sges = {&long_one, 1}}), Post::inline_too_long);
  const Sge word = a_.sge(0, 8);
  EXPECT_EQ(pair.a.post_send({.kind = WorkKind::read, .inlined = true, .sges = {&word, 1}}), Post::wrong_kind);
  for (std::uint64_t id = 0; id < 64; ++id) {
    EXPECT_EQ(send(pair.a, id), Post::done);
    EXPECT_EQ(pair.a.post_receive({.id = id}), Post::done);
  }
  EXPECT_EQ(send(pair.a, 64), Post::full);
  EXPECT_EQ(pair.a.post_receive({.id = 64}), Post::full);
  QueuePair& datagrams = a_.nic.make_queue_pair(a_.options(Type::ud));
  bring_up(datagrams, {}, {}, 0, Psn(0), Psn(0));
  EXPECT_EQ(datagrams.post_send({.kind = WorkKind::write}), Post::wrong_kind);
}

TEST_F(QueuePairTest, ErrorFlushesWhatWasPostedAndWhatIsPosted) {
  const Connection pair = connect(a_, b_);
  for (std::uint64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(send(pair.a, id), Post::done);
    EXPECT_EQ(pair.a.post_receive({.id = 10 + id}), Post::done);
  }
  to(pair.a, S::error);
  EXPECT_EQ(send(pair.a, 3), Post::done);
  EXPECT_EQ(pair.a.post_receive({.id = 13}), Post::done);
  EXPECT_EQ(results(a_.sent()), (Results{{0, kFlushed}, {1, kFlushed}, {2, kFlushed}, {3, kFlushed}}));
  EXPECT_EQ(results(a_.received()), (Results{{10, kFlushed}, {11, kFlushed}, {12, kFlushed}, {13, kFlushed}}));
  wire_.run();
  EXPECT_EQ(wire_.carried(), 0U);
}

TEST_F(QueuePairTest, ResetForgetsEverythingAndTheConnectionCanBeMadeAgain) {
  const Connection pair = connect(a_, b_);
  EXPECT_EQ(send(pair.a, 1), Post::done);
  wire_.run();
  EXPECT_EQ(send(pair.a, 2), Post::done);
  to(pair.a, S::reset);
  to(pair.b, S::reset);
  EXPECT_TRUE(a_.sent().empty());  // its completions go with it
  wire_.run();
  bring_up(pair.a, {}, a_.address_of(b_), pair.b.number(), Psn(5), Psn(6));
  bring_up(pair.b, {}, b_.address_of(a_), pair.a.number(), Psn(6), Psn(5));
  EXPECT_EQ(send(pair.a, 3), Post::done);
  wire_.run();
  EXPECT_EQ(results(a_.sent()), (Results{{3, kSuccess}}));
}

TEST_F(QueuePairTest, AMessageInTheMiddleIsFlushed) {
  const Connection pair = connect(a_, b_, {.mtu = PathMtu::b256});
  const Sge to_buffer = b_.sge(0, 1024);
  ASSERT_EQ(pair.b.post_receive({.id = 1, .sges = {&to_buffer, 1}}), Post::done);
  ASSERT_EQ(pair.b.post_receive({.id = 2, .sges = {&to_buffer, 1}}), Post::done);
  int frames = 0;
  wire_.on_send = [&](std::vector<std::byte>& /*frame*/) { return ++frames <= 2; };
  const Sge from = a_.sge(0, 1024);
  ASSERT_EQ(pair.a.post_send({.id = 1, .signaled = true, .sges = {&from, 1}}), Post::done);
  wire_.deliver();
  to(pair.b, S::error);
  EXPECT_EQ(results(b_.received()), (Results{{1, kFlushed}, {2, kFlushed}}));
  wire_.run();
  EXPECT_EQ(results(a_.sent()), (Results{{1, CompletionStatus::retry_exceeded}}));
}

TEST_F(QueuePairTest, SqdFinishesWhatHasBegunAndTellsWhenItHas) {
  const Connection pair = connect(a_, b_, {.mtu = PathMtu::b256});
  EXPECT_EQ(send(pair.a, 1, 1000), Post::done);
  EXPECT_EQ(send(pair.a, 2), Post::done);
  std::vector<std::byte> buffer(kFrameRoom);
  ASSERT_NE(a_.nic.pull_frame(buffer, 1), 0U);  // the first packet of the first; it gets lost
  pair.a.modify({.state = S::sqd, .notify_drained = true}, A::state | A::notify_drained);
  EXPECT_TRUE(a_.events().empty());
  EXPECT_EQ(send(pair.a, 3), Post::done);
  wire_.run();
  EXPECT_EQ(results(a_.sent()), (Results{{1, kSuccess}}));
  EXPECT_EQ(a_.events(), (std::vector<Event>{{Event::Kind::send_queue_drained, pair.a.number()}}));
  // Attributes that only SQD may change.
  pair.a.modify({.timeout = 9, .max_rd_atomic = 2}, A::timeout | A::max_rd_atomic);
  EXPECT_EQ(pair.a.query().timeout, 9);
  to(pair.a, S::rts);
  wire_.run();
  EXPECT_EQ(results(a_.sent()), (Results{{2, kSuccess}, {3, kSuccess}}));
}

TEST_F(QueuePairTest, AnEmptySendQueueIsDrainedAtOnce) {
  const Connection pair = connect(a_, b_);
  pair.a.modify({.state = S::sqd, .notify_drained = true}, A::state | A::notify_drained);
  EXPECT_EQ(a_.events(), (std::vector<Event>{{Event::Kind::send_queue_drained, pair.a.number()}}));
}

TEST_F(QueuePairTest, TheWishForThatReportIsOfOneTransition) {
  const Connection pair = connect(a_, b_);
  pair.a.modify({.state = S::sqd, .notify_drained = true}, A::state | A::notify_drained);
  EXPECT_EQ(a_.events().size(), 1U);
  to(pair.a, S::rts);
  to(pair.a, S::sqd);
  EXPECT_TRUE(a_.events().empty());
}

TEST_F(QueuePairTest, AnOverrunOfCompletionsIsFatal) {
  CompletionQueue& small = a_.nic.make_completion_queue(2);
  QueuePairOptions options = a_.options();
  options.send_completions = &small;
  const Connection pair = connect(a_, b_, {}, options, b_.options());
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(send(pair.a, id), Post::done);
  }
  wire_.run();
  EXPECT_TRUE(small.has_overrun());
  EXPECT_EQ(pair.a.state(), S::error);
  EXPECT_EQ(a_.events(), (std::vector<Event>{{Event::Kind::completion_queue_error, small.number()},
                                             {Event::Kind::queue_pair_fatal, pair.a.number()}}));
  EXPECT_THROW(a_.nic.destroy(small), NicError);
  a_.nic.destroy(pair.a);
  a_.nic.destroy(small);
}

TEST_F(QueuePairTest, SolicitedMessagesNotifyAReceiverThatWaitsForThem) {
  const Connection pair = connect(a_, b_);
  for (std::uint64_t id = 0; id < 2; ++id) {
    ASSERT_EQ(pair.b.post_receive({.id = id}), Post::done);
  }
  b_.receives.arm(CompletionQueue::Arm::solicited);
  ASSERT_EQ(pair.a.post_send({.id = 0}), Post::done);
  wire_.run();
  EXPECT_FALSE(b_.receives.take_notification());
  ASSERT_EQ(pair.a.post_send({.id = 1, .solicited = true}), Post::done);
  wire_.run();
  EXPECT_TRUE(b_.receives.take_notification());
}

class SharedReceives : public QueuePairTest {
 protected:
  SharedReceives() {
    QueuePairOptions options = b_.options();
    options.shared_receives = &queue_;
    for (int i = 0; i < 2; ++i) {
      pairs_.push_back(connect(a_, b_, {.mtu = PathMtu::b256}, a_.options(), options));
    }
  }
  void post(std::uint64_t id) {
    const Sge sge = b_.sge(id * 1024, 1024);
    ASSERT_EQ(queue_.post({.id = id, .sges = {&sge, 1}}), Post::done);
  }
  ReceiveQueue& queue_ = b_.nic.make_shared_receive_queue(b_.domain, 8, 2);
  std::vector<Connection> pairs_;
};

TEST_F(SharedReceives, ServeSeveralQueuePairsAndTellTheirLimit) {
  EXPECT_EQ(pairs_[0].b.post_receive({.id = 1}), Post::has_srq);
  for (std::uint64_t id = 0; id < 4; ++id) {
    post(id);
  }
  queue_.set_limit(3);
  for (std::uint64_t id = 0; id < 4; ++id) {
    a_.fill(id * 1024, 600, static_cast<std::uint32_t>(id));
    const Sge sge = a_.sge(id * 1024, 600);
    ASSERT_EQ(pairs_[id % 2].a.post_send({.id = id, .sges = {&sge, 1}}), Post::done);
    wire_.run();
    EXPECT_EQ(b_.events().size(), id == 1 ? 1U : 0U);
  }
  const auto received = b_.received();
  ASSERT_EQ(received.size(), 4U);
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(received[id].id, id);
    EXPECT_EQ(received[id].queue_pair, pairs_[id % 2].b.number());
    EXPECT_TRUE(std::ranges::equal(b_.bytes(id * 1024, 600), a_.bytes(id * 1024, 600)));
  }
}

// The domain of a receive request is that of its queue, not of the queue pair that takes it (10.2.9).
TEST_F(QueuePairTest, ASharedReceiveQueueHasItsOwnDomain) {
  const Domain other = b_.nic.make_domain();
  const std::uint32_t key =
      b_.nic.register_memory({b_.at(0), 64, b_.address(0), other, Rights::local_write | Rights::remote_write});
  ReceiveQueue& queue = b_.nic.make_shared_receive_queue(other, 2, 1);
  QueuePairOptions options = b_.options();
  options.shared_receives = &queue;
  const Connection pair = connect(a_, b_, {}, a_.options(), options);
  const auto receive_into = [&](std::uint64_t id, std::uint32_t lkey) {
    const Sge to{b_.address(0), 8, lkey};
    ASSERT_EQ(queue.post({.id = id, .sges = {&to, 1}}), Post::done);
    const Sge from = a_.sge(0, 8);
    ASSERT_EQ(pair.a.post_send({.id = id, .sges = {&from, 1}}), Post::done);
    wire_.run();
  };
  receive_into(1, key);
  EXPECT_EQ(results(b_.received()), (Results{{1, kSuccess}}));
  // WRITEs are in the queue pair's.
  EXPECT_EQ(send(pair.a, 2, 8), Post::done);
  wire_.run();
  EXPECT_EQ(results(a_.sent()), (Results{{2, kSuccess}}));
  receive_into(3, b_.key);
  EXPECT_EQ(results(b_.received()), (Results{{3, CompletionStatus::local_protection}}));
}

TEST_F(SharedReceives, AQueuePairInErrorTakesNoMoreFromItAndSaysSo) {
  post(0);
  post(1);
  to(pairs_[0].b, S::error);
  EXPECT_EQ(b_.events(), (std::vector<Event>{{Event::Kind::last_receive_reached, pairs_[0].b.number()}}));
  EXPECT_TRUE(b_.received().empty());
  EXPECT_EQ(queue_.size(), 2U);
  ASSERT_EQ(pairs_[1].a.post_send({.id = 0}), Post::done);
  wire_.run();
  EXPECT_EQ(results(b_.received()), (Results{{0, kSuccess}}));
  EXPECT_THROW(b_.nic.destroy(queue_), NicError);
}

TEST(NicObjects, AreRefusedWhileTheyAreUsedOrBeyondTheLimits) {
  ImmediateAccess memory;
  EXPECT_THROW(Nic({}, memory), NicError);
  Nic nic({.gids = {gid_of({10, 0, 0, 1})}, .most_queue_pairs = 1, .most_completion_queues = 1}, memory);
  const auto kind_of = [](auto call) {
    try {
      call();
    } catch (const NicError& error) {
      return error.kind();
    }
    throw std::logic_error("nothing was refused");
  };
  using Kind = NicError::Kind;
  const Domain domain = nic.make_domain();
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_completion_queue(0)); }), Kind::invalid);
  CompletionQueue& completions = nic.make_completion_queue(1);
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_completion_queue(1)); }), Kind::full);
  QueuePairOptions options{.domain = domain, .send_completions = &completions, .receive_completions = &completions};
  options.number = 0x1000000;
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_queue_pair(options)); }), Kind::invalid);
  options.number = 0xffffff;  // multicast
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_queue_pair(options)); }), Kind::invalid);
  options.number = 1;
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_queue_pair(options)); }), Kind::invalid);
  options.number = 0;
  options.domain = 99;
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_queue_pair(options)); }), Kind::invalid);
  options.domain = domain;
  options.send_completions = nullptr;
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_queue_pair(options)); }), Kind::invalid);
  options.send_completions = &completions;
  QueuePair& pair = nic.make_queue_pair(options);
  EXPECT_EQ(nic.find_queue_pair(pair.number()), &pair);
  EXPECT_EQ(kind_of([&] { static_cast<void>(nic.make_queue_pair(options)); }), Kind::full);
  EXPECT_EQ(kind_of([&] { nic.destroy_domain(domain); }), Kind::busy);
  EXPECT_EQ(kind_of([&] { nic.destroy(completions); }), Kind::busy);
  const std::uint32_t number = pair.number();
  nic.destroy(pair);
  EXPECT_EQ(nic.find_queue_pair(number), nullptr);
  QueuePair& next = nic.make_queue_pair(options);
  EXPECT_NE(next.number(), number);
  nic.destroy(next);
  nic.destroy(completions);
  EXPECT_EQ(kind_of([&] { nic.deregister_memory(5); }), Kind::invalid);
  nic.destroy_domain(domain);
}

// Entries that are held until a completion is polled.
class HeldEntries : public QueuePairTest {
 protected:
  static constexpr std::uint32_t kDepth = 4;
  [[nodiscard]] static QueuePairOptions held(QueuePairOptions options) {
    options.send_depth = options.receive_depth = kDepth;
    options.holds_until_polled = true;
    return options;
  }
  std::uint32_t fill(QueuePair& pair) {
    std::uint32_t posted = 0;
    while (posted <= kDepth && send(pair, posted) == Post::done) {
      ++posted;
    }
    wire_.run();
    return posted;
  }
  Post receive(QueuePair& pair) { return pair.post_receive({.id = 1}); }
};

TEST_F(HeldEntries, AreFreeWhenTheirCompletionIsPolled) {
  const Connection pair = connect(a_, b_, {}, held(a_.options()), held(b_.options()));
  EXPECT_EQ(fill(pair.a), kDepth);
  EXPECT_EQ(pair.a.send_room(), 0U);
  EXPECT_EQ(fill(pair.a), 0U);
  std::array<Completion, 3> some{};
  EXPECT_EQ(a_.sends.poll(some), 3U);
  EXPECT_EQ(pair.a.send_room(), 3U);
  a_.nic.resize(a_.sends, 2);
  EXPECT_EQ(a_.sent().size(), 1U);
  EXPECT_EQ(pair.a.send_room(), kDepth);
}

TEST_F(HeldEntries, OfFlushedRequestsToo) {
  const Connection pair = connect(a_, b_, {}, held(a_.options()), held(b_.options()));
  EXPECT_EQ(fill(pair.a), kDepth);
  to(pair.a, S::error);
  EXPECT_EQ(a_.sent().size(), kDepth);
  EXPECT_EQ(fill(pair.a), kDepth);
  EXPECT_EQ(results(a_.sent()), (Results{{0, kFlushed}, {1, kFlushed}, {2, kFlushed}, {3, kFlushed}}));
  EXPECT_EQ(pair.a.send_room(), kDepth);
}

TEST_F(HeldEntries, AreFreeAfterAReset) {
  const Connection pair = connect(a_, b_, {}, held(a_.options()), held(b_.options()));
  EXPECT_EQ(fill(pair.a), kDepth);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    EXPECT_EQ(receive(pair.a), Post::done);
  }
  EXPECT_EQ(receive(pair.a), Post::full);
  to(pair.a, S::error);
  EXPECT_EQ(receive(pair.a), Post::full);
  to(pair.a, S::reset);
  EXPECT_EQ(a_.sent().size() + a_.received().size(), 0U);
  EXPECT_EQ(pair.a.send_room(), kDepth);
  pair.a.modify(to_init(Type::rc), init_set(Type::rc));
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    EXPECT_EQ(receive(pair.a), Post::done);
  }
}

// A queue pair that ends gives back what it has of a shared queue: what was received and not polled, and the request
// for a message that has only begun.
TEST_F(HeldEntries, OfASharedQueueAreFreeWhenTheirQueuePairEnds) {
  ReceiveQueue& shared = b_.nic.make_shared_receive_queue(b_.domain, 2, 1);
  shared.hold_until_polled();
  QueuePairOptions of_shared = held(b_.options());
  of_shared.shared_receives = &shared;
  const Connection pair = connect(a_, b_, {.mtu = PathMtu::b256}, held(a_.options()), of_shared);
  const Sge to = b_.sge(0, 600);
  ASSERT_EQ(shared.post({.id = 1, .sges = {&to, 1}}), Post::done);
  ASSERT_EQ(shared.post({.id = 2, .sges = {&to, 1}}), Post::done);
  const Sge small = a_.sge(0, 4);
  const Sge large = a_.sge(0, 600);
  ASSERT_EQ(pair.a.post_send({.id = 1, .signaled = true, .sges = {&small, 1}}), Post::done);
  wire_.run();
  ASSERT_EQ(pair.a.post_send({.id = 2, .sges = {&large, 1}}), Post::done);
  std::vector<std::byte> frame(kFrameRoom);
  b_.nic.on_frame(std::span(frame).first(a_.nic.pull_frame(frame, wire_.now())), wire_.now());
  EXPECT_EQ(shared.size(), 0U);
  EXPECT_EQ(shared.post({.id = 3, .sges = {&to, 1}}), Post::full);
  b_.nic.destroy(pair.b);
  EXPECT_EQ(shared.post({.id = 3, .sges = {&to, 1}}), Post::done);
  EXPECT_EQ(shared.post({.id = 4, .sges = {&to, 1}}), Post::done);
  EXPECT_EQ(shared.post({.id = 5, .sges = {&to, 1}}), Post::full);
  b_.nic.destroy(shared);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
