// A requester's reaction to hand-made answers, and to none.
#include "tests/softnic/nic/fake_peer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::softnic::nic {
namespace {

constexpr Psn kFirstRequest = FakePeer::kFromHost;
constexpr Time kTimeout = 4096U << 8U;  // Link's

class RequesterTest : public ::testing::Test {
 protected:
  std::vector<Heard> post(WorkKind kind, std::size_t length, std::uint64_t id = 1, bool fence = false) {
    const Sge sge = host_.sge(0, length);
    EXPECT_EQ(peer_.pair.post_send({.id = id,
                                    .kind = kind,
                                    .signaled = true,
                                    .fence = fence,
                                    .sges = {&sge, 1},
                                    .remote_address = 0x10000,
                                    .rkey = 0x77}),
              Post::done);
    return peer_.listen();
  }
  std::vector<Heard> answer_read(Opcode opcode, Psn psn, std::size_t length) {
    const std::vector<std::byte> bytes(length, std::byte{0x33});
    return peer_.tell(peer_.packet(opcode, psn, bytes));
  }
  void expect_done(std::vector<std::uint64_t> ids) {
    std::vector<std::uint64_t> done;
    for (const Completion& completion : host_.sent()) {
      EXPECT_EQ(completion.status, CompletionStatus::success) << text(completion.status);
      done.push_back(completion.id);
    }
    EXPECT_EQ(done, ids);
  }
  // The first request has failed with this status; all others are flushed.
  void expect_failed(CompletionStatus status, std::uint64_t id = 1, std::size_t flushed = 0) {
    const auto sent = host_.sent();
    ASSERT_EQ(sent.size(), 1 + flushed);
    EXPECT_EQ(sent[0].id, id);
    EXPECT_EQ(sent[0].status, status) << text(sent[0].status);
    for (std::size_t i = 1; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i].status, CompletionStatus::flushed);
    }
    EXPECT_EQ(peer_.pair.state(), QueuePairState::error);
    EXPECT_EQ(host_.nic.next_deadline() == kNever || peer_.wait(10'000 * kTimeout).empty(), true);
  }

  Host host_{1};
  Link link_{.mtu = PathMtu::b256, .retry_count = 3, .rnr_retry = 2, .rd_atomic = 2};
  FakePeer peer_{host_, link_};
};

TEST_F(RequesterTest, CutsAMessageByThePathMtu) {
  const auto heard = post(WorkKind::write, 600);
  ASSERT_EQ(heard.size(), 3U);
  EXPECT_EQ(heard[0].packet.bth.opcode, Opcode::write_first);
  EXPECT_EQ(heard[0].packet.reth.virtual_address, 0x10000U);
  EXPECT_EQ(heard[0].packet.reth.r_key, 0x77U);
  EXPECT_EQ(heard[0].packet.reth.dma_length, 600U);
  EXPECT_FALSE(heard[0].packet.bth.ack_request);
  EXPECT_EQ(heard[1].packet.bth.opcode, Opcode::write_middle);
  EXPECT_EQ(heard[2].packet.bth.opcode, Opcode::write_last);
  EXPECT_EQ(heard[2].packet.payload.size(), 88U);
  EXPECT_TRUE(heard[2].packet.bth.ack_request);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(heard[i].packet.bth.psn, kFirstRequest + i);
  }
}

TEST_F(RequesterTest, OneAcknowledgementCompletesAllBeforeIt) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    post(WorkKind::write, 4, id);
  }
  peer_.tell(peer_.acknowledge(kFirstRequest + 2));
  expect_done({1, 2, 3});
  peer_.tell(peer_.acknowledge(kFirstRequest + 3));
  expect_done({4});
  EXPECT_EQ(host_.nic.next_deadline() == kNever || peer_.wait(100 * kTimeout).empty(), true);
}

TEST_F(RequesterTest, AnswersToNothingAreIgnored) {
  post(WorkKind::write, 600);
  for (const std::uint32_t psn : {0U, 0x1ffU, 0x203U, 0x204U, 0x800200U, 0x8001ffU, 0xffffffU}) {
    EXPECT_TRUE(peer_.tell(peer_.acknowledge(Psn(psn))).empty());
    EXPECT_TRUE(peer_.tell(peer_.acknowledge(Psn(psn), Syndrome::nak(NakCode::remote_access_error))).empty());
    EXPECT_TRUE(peer_.tell(peer_.acknowledge(Psn(psn), Syndrome::rnr_nak(1))).empty());
    EXPECT_TRUE(answer_read(Opcode::read_response_only, Psn(psn), 4).empty());
    EXPECT_TRUE(peer_.tell(peer_.packet(Opcode::atomic_acknowledge, Psn(psn))).empty());
  }
  // A WRITE is not answered so.
  EXPECT_TRUE(answer_read(Opcode::read_response_only, kFirstRequest, 4).empty());
  EXPECT_TRUE(peer_.tell(peer_.packet(Opcode::atomic_acknowledge, kFirstRequest)).empty());
  EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest, Syndrome(0x40))).empty());  // reserved
  expect_done({});
  EXPECT_EQ(peer_.pair.state(), QueuePairState::rts);
  peer_.tell(peer_.acknowledge(kFirstRequest + 2));
  expect_done({1});
  EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest + 2)).empty());
  expect_done({});
}

TEST_F(RequesterTest, ASequenceNakSendsAgainFromThere) {
  post(WorkKind::write, 600, 1);
  post(WorkKind::write, 4, 2);
  const auto heard = peer_.tell(peer_.acknowledge(kFirstRequest + 1, kGap));
  ASSERT_EQ(heard.size(), 3U);
  EXPECT_EQ(heard[0].packet.bth.opcode, Opcode::write_middle);
  EXPECT_EQ(heard[0].packet.bth.psn, kFirstRequest + 1);
  EXPECT_EQ(heard[2].packet.bth.psn, kFirstRequest + 3);
  EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest + 1, kGap)).empty());  // the same again
  peer_.tell(peer_.acknowledge(kFirstRequest + 3));
  expect_done({1, 2});
}

TEST_F(RequesterTest, AReadGoesOnFromThePacketThatIsMissing) {
  EXPECT_EQ(post(WorkKind::read, 1000).size(), 1U);
  EXPECT_TRUE(answer_read(Opcode::read_response_first, kFirstRequest, 256).empty());
  auto heard = answer_read(Opcode::read_response_middle, kFirstRequest + 2, 256);  // one is lost
  EXPECT_EQ(only(heard).bth.opcode, Opcode::read_request);
  EXPECT_EQ(only(heard).bth.psn, kFirstRequest + 1);
  EXPECT_EQ(only(heard).reth.virtual_address, 0x10000U + 256);
  EXPECT_EQ(only(heard).reth.dma_length, 744U);
  // Told once; a late one fits as well as a new one.
  EXPECT_TRUE(answer_read(Opcode::read_response_last, kFirstRequest + 3, 232).empty());
  EXPECT_TRUE(answer_read(Opcode::read_response_middle, kFirstRequest + 1, 256).empty());
  EXPECT_TRUE(answer_read(Opcode::read_response_first, kFirstRequest + 1, 256).empty());
  EXPECT_TRUE(answer_read(Opcode::read_response_middle, kFirstRequest + 2, 256).empty());
  EXPECT_TRUE(answer_read(Opcode::read_response_last, kFirstRequest + 3, 232).empty());
  expect_done({1});
  EXPECT_EQ(std::ranges::count(host_.bytes(0, 1000), std::byte{0x33}), 1000);
  EXPECT_EQ(*host_.at(1000), std::byte{0});
}

// An implied NAK.
TEST_F(RequesterTest, AnAcknowledgementBehindAReadShowsThatItsAnswerIsLost) {
  post(WorkKind::read, 4, 1);
  post(WorkKind::write, 4, 2);
  const auto heard = peer_.tell(peer_.acknowledge(kFirstRequest + 1));
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].packet.bth.opcode, Opcode::read_request);
  EXPECT_EQ(heard[1].packet.bth.opcode, Opcode::write_only);
  expect_done({});
  answer_read(Opcode::read_response_only, kFirstRequest, 4);
  peer_.tell(peer_.acknowledge(kFirstRequest + 1));
  expect_done({1, 2});
}

TEST_F(RequesterTest, AReadResponseAcknowledgesTheWritesBeforeIt) {
  post(WorkKind::write, 4, 1);
  post(WorkKind::read, 4, 2);
  answer_read(Opcode::read_response_only, kFirstRequest + 1, 4);
  expect_done({1, 2});
}

TEST_F(RequesterTest, KeepsAtMostMaxRdAtomicInFlight) {
  EXPECT_EQ(post(WorkKind::read, 4, 1).size(), 1U);
  EXPECT_EQ(post(WorkKind::fetch_add, 8, 2).size(), 1U);
  EXPECT_EQ(post(WorkKind::read, 4, 3).size(), 0U);
  EXPECT_EQ(post(WorkKind::write, 4, 4).size(), 0U);  // in order
  EXPECT_EQ(answer_read(Opcode::read_response_only, kFirstRequest, 4).size(), 2U);
  expect_done({1});
}

TEST_F(RequesterTest, AFenceWaitsForAnswersNotForAcknowledgements) {
  post(WorkKind::write, 4, 1);
  EXPECT_EQ(post(WorkKind::write, 4, 2, true).size(), 1U);
  post(WorkKind::read, 4, 3);
  EXPECT_TRUE(post(WorkKind::write, 4, 4, true).empty());
  EXPECT_EQ(answer_read(Opcode::read_response_only, kFirstRequest + 2, 4).size(), 1U);
}

TEST_F(RequesterTest, SendsAgainAfterTheTimeoutAndGivesUpAfterRetryCount) {
  post(WorkKind::write, 600, 1);
  post(WorkKind::write, 4, 2);
  EXPECT_TRUE(peer_.wait(kTimeout - 1).empty());
  for (int retry = 0; retry < link_.retry_count; ++retry) {
    const auto heard = peer_.wait(kTimeout + 1);
    ASSERT_EQ(heard.size(), 4U);
    EXPECT_EQ(heard[0].packet.bth.psn, kFirstRequest);
  }
  EXPECT_TRUE(peer_.wait(kTimeout + 1).empty());
  EXPECT_EQ(host_.nic.counters().timeouts, 4U);
  expect_failed(CompletionStatus::retry_exceeded, 1, 1);
}

TEST_F(RequesterTest, ProgressBeginsTheRetriesAnew) {
  post(WorkKind::write, 600, 1);
  for (std::uint32_t acknowledged = 0; acknowledged < 2; ++acknowledged) {
    for (int retry = 0; retry < link_.retry_count; ++retry) {
      EXPECT_EQ(peer_.wait(kTimeout + 1).size(), 3 - acknowledged);
    }
    peer_.tell(peer_.acknowledge(kFirstRequest + acknowledged));
  }
  peer_.tell(peer_.acknowledge(kFirstRequest + 2));
  expect_done({1});
}

TEST_F(RequesterTest, ATimeoutOfZeroWaitsForEver) {
  Host host(3);
  FakePeer patient(host, {.timeout = 0});
  const Sge sge = host.sge(0, 4);
  ASSERT_EQ(patient.pair.post_send({.id = 1, .kind = WorkKind::write, .signaled = true, .sges = {&sge, 1}}),
            Post::done);
  EXPECT_EQ(patient.listen().size(), 1U);
  EXPECT_EQ(host.nic.next_deadline(), kNever);
  EXPECT_TRUE(patient.wait(Time{1} << 60).empty());
}

// Asking again on the way there counts nothing.
TEST_F(RequesterTest, AnAttemptLastsAsLongAsTheNicSays) {
  constexpr Time kLeast = 64'000'000;
  Host host(3, std::make_unique<ImmediateAccess>(), {.shortest_attempt = kLeast});
  FakePeer peer(host, {.timeout = 1, .retry_count = 1});
  const Sge sge = host.sge(0, 4);
  ASSERT_EQ(peer.pair.post_send({.id = 1, .kind = WorkKind::write, .signaled = true, .sges = {&sge, 1}}), Post::done);
  static_cast<void>(peer.listen());
  for (int attempt = 0; attempt < 2; ++attempt) {
    static_cast<void>(peer.wait(kLeast - 1));
    EXPECT_EQ(host.nic.counters().timeouts, static_cast<std::uint64_t>(attempt));
    EXPECT_EQ(peer.pair.state(), QueuePairState::rts);
    static_cast<void>(peer.wait(1));
  }
  ASSERT_EQ(host.nic.counters().timeouts, 2U);
  EXPECT_EQ(host.sent().at(0).status, CompletionStatus::retry_exceeded);
}

TEST_F(RequesterTest, ARequesterThatIsNotReadyIsAskedAgainAfterItsDelay) {
  post(WorkKind::send, 4, 1);
  post(WorkKind::write, 4, 2);
  EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest, Syndrome::rnr_nak(14))).empty());  // 1.28 ms
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest, Syndrome::rnr_nak(14))).empty());  // repeated: counts once
  }
  EXPECT_TRUE(peer_.wait(1'279'999).empty());
  EXPECT_EQ(peer_.wait(1).size(), 2U);
  peer_.tell(peer_.acknowledge(kFirstRequest + 1));
  expect_done({1, 2});
}

// Of a packet that was doubled the first copy is refused and the second one taken: nobody waits for the delay, and
// nothing is given up because of it.
TEST_F(RequesterTest, AnAcknowledgementEndsTheDelay) {
  post(WorkKind::send, 4, 1);
  post(WorkKind::send, 4, 2);
  EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest, Syndrome::rnr_nak(0))).empty());  // 655 ms
  const auto heard = peer_.tell(peer_.acknowledge(kFirstRequest));
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].packet.bth.psn, kFirstRequest + 1);
  peer_.tell(peer_.acknowledge(kFirstRequest + 1));
  expect_done({1, 2});
}

TEST_F(RequesterTest, GivesUpAfterRnrRetry) {
  post(WorkKind::send, 4, 1);
  post(WorkKind::write, 4, 2);
  for (int retry = 0; retry < link_.rnr_retry; ++retry) {
    EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest, Syndrome::rnr_nak(1))).empty());
    EXPECT_EQ(peer_.wait(10'000).size(), 2U);
  }
  EXPECT_TRUE(peer_.tell(peer_.acknowledge(kFirstRequest, Syndrome::rnr_nak(1))).empty());
  expect_failed(CompletionStatus::rnr_retry_exceeded, 1, 1);
}

TEST_F(RequesterTest, AnRnrRetryOfSevenNeverEnds) {
  Host host(3);
  FakePeer patient(host, {.rnr_retry = 7});
  const Sge sge = host.sge(0, 4);
  ASSERT_EQ(patient.pair.post_send({.id = 1, .signaled = true, .sges = {&sge, 1}}), Post::done);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(patient.listen().size() + patient.wait(10'000).size(), 1U);
    EXPECT_TRUE(patient.tell(patient.acknowledge(kFirstRequest, Syndrome::rnr_nak(1))).empty());
  }
  EXPECT_EQ(patient.pair.state(), QueuePairState::rts);
}

TEST_F(RequesterTest, EachNakEndsTheConnectionWithItsStatus) {
  const std::vector<std::pair<Syndrome, CompletionStatus>> cases{
      {Syndrome::nak(NakCode::invalid_request), CompletionStatus::remote_invalid_request},
      {Syndrome::nak(NakCode::remote_access_error), CompletionStatus::remote_access},
      {Syndrome::nak(NakCode::remote_operational_error), CompletionStatus::remote_operation},
      {Syndrome(0x7f), CompletionStatus::bad_response},
  };
  for (const auto& [syndrome, status] : cases) {
    Host host(3);
    FakePeer peer(host, link_);
    const Sge sge = host.sge(0, 4);
    for (std::uint64_t id = 1; id <= 3; ++id) {
      ASSERT_EQ(peer.pair.post_send({.id = id, .kind = WorkKind::write, .sges = {&sge, 1}}), Post::done);
    }
    peer.listen();
    peer.tell(peer.acknowledge(kFirstRequest + 1, syndrome));
    const auto sent = host.sent();  // the first has succeeded, unsignaled
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_EQ(sent[0].id, 2U);
    EXPECT_EQ(sent[0].status, status);
    EXPECT_EQ(sent[1].status, CompletionStatus::flushed);
  }
}

TEST_F(RequesterTest, AnAnswerOfTheWrongLengthIsABadResponse) {
  post(WorkKind::read, 600, 1);
  answer_read(Opcode::read_response_only, kFirstRequest, 4);
  expect_failed(CompletionStatus::bad_response);
  EXPECT_EQ(*host_.at(0), std::byte{0});
}

TEST_F(RequesterTest, AnAnswerOfTheWrongLengthInItsPlaceIsABadResponse) {
  post(WorkKind::read, 600, 1);
  answer_read(Opcode::read_response_first, kFirstRequest, 512);
  expect_failed(CompletionStatus::bad_response);
}

TEST_F(RequesterTest, WhatIsAcknowledgedLateIsNotSentAgain) {
  post(WorkKind::write, 256 * 4, 1);
  host_.nic.advance(peer_.now += kTimeout + 1);  // goes back, and nothing is pulled yet
  const auto heard = peer_.tell(peer_.acknowledge(kFirstRequest + 1));
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].packet.bth.psn, kFirstRequest + 2);
}

TEST_F(RequesterTest, LocalErrorsCompleteAfterWhatIsBeforeThem) {
  post(WorkKind::write, 4, 1);
  const Sge wrong{host_.address(Host::kMemoryBytes - 2), 4, host_.key};
  ASSERT_EQ(peer_.pair.post_send({.id = 2, .kind = WorkKind::write, .sges = {&wrong, 1}}), Post::done);
  EXPECT_TRUE(post(WorkKind::write, 4, 3).empty());
  EXPECT_TRUE(host_.sent().empty());
  peer_.tell(peer_.acknowledge(kFirstRequest));
  const auto sent = host_.sent();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].status, CompletionStatus::success);
  EXPECT_EQ(sent[1].status, CompletionStatus::local_protection);
  EXPECT_EQ(sent[2].status, CompletionStatus::flushed);
}

TEST_F(RequesterTest, LocalErrors) {
  const auto failure = [&](WorkKind kind, Sge sge, const Link& link) {
    Host host(3);
    const std::uint32_t read_only =
        host.nic.register_memory({host.at(0), 64, host.address(0), host.domain, Rights::remote_read});
    FakePeer peer(host, link);
    sge.address = host.address(0);
    sge.lkey = sge.lkey == 0 ? host.key : read_only;
    EXPECT_EQ(peer.pair.post_send({.id = 1, .kind = kind, .sges = {&sge, 1}}), Post::done);
    EXPECT_TRUE(peer.listen().empty());
    const auto sent = host.sent();
    return sent.size() == 1 ? sent[0].status : CompletionStatus::success;
  };
  EXPECT_EQ(failure(WorkKind::read, {0, 8, 1}, link_), CompletionStatus::local_protection);
  EXPECT_EQ(failure(WorkKind::fetch_add, {0, 8, 1}, link_), CompletionStatus::local_protection);
  EXPECT_EQ(failure(WorkKind::fetch_add, {0, 7, 0}, link_), CompletionStatus::local_length);
  EXPECT_EQ(failure(WorkKind::write, {0, 0x80000001, 0}, link_), CompletionStatus::local_length);
  EXPECT_EQ(failure(WorkKind::read, {0, 8, 0}, {.rd_atomic = 0}), CompletionStatus::local_operation);
}

TEST_F(RequesterTest, ABufferWhoseRegionEndsIsNotTouchedAnyMore) {
  const std::uint32_t key = host_.nic.register_memory({host_.at(0), 600, host_.address(0), host_.domain, Rights::all});
  const Sge sge{host_.address(0), 600, key};
  ASSERT_EQ(peer_.pair.post_send({.id = 1, .kind = WorkKind::read, .sges = {&sge, 1}, .rkey = 1}), Post::done);
  EXPECT_EQ(peer_.listen().size(), 1U);
  answer_read(Opcode::read_response_first, kFirstRequest, 256);
  host_.nic.deregister_memory(key);
  answer_read(Opcode::read_response_middle, kFirstRequest + 1, 256);
  expect_failed(CompletionStatus::local_protection);
  EXPECT_EQ(*host_.at(256), std::byte{0});
}

TEST_F(RequesterTest, TheWindowLimitsWhatIsInFlight) {
  Host host(3, std::make_unique<ImmediateAccess>(), {.window_packets = 8});
  FakePeer peer(host, link_);
  const Sge sge = host.sge(0, 256 * 100);
  ASSERT_EQ(peer.pair.post_send({.id = 1, .kind = WorkKind::write, .signaled = true, .sges = {&sge, 1}}), Post::done);
  auto heard = peer.listen();
  std::uint32_t next = 0;
  while (!heard.empty()) {
    ASSERT_LE(heard.size(), 8U);
    EXPECT_TRUE(std::ranges::any_of(heard, [](const Heard& h) { return h.packet.bth.ack_request; }));
    EXPECT_EQ(heard[0].packet.bth.psn, kFirstRequest + next);
    next += static_cast<std::uint32_t>(heard.size());
    heard = peer.tell(peer.acknowledge(kFirstRequest + (next - 1)));
  }
  EXPECT_EQ(next, 100U);
  EXPECT_EQ(host.sent().size(), 1U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
