// A responder's answers to hand-made packets: order, repetition, gaps, errors.
#include "roce/crc32.h"
#include "roce/icrc.h"
#include "softnic/nic/gone_pages.h"
#include "tests/softnic/nic/fake_peer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sidelatch::softnic::nic {
namespace {

constexpr Psn kFirst = FakePeer::kToHost;
constexpr Syndrome kInvalid = Syndrome::nak(NakCode::invalid_request);
constexpr Syndrome kAccess = Syndrome::nak(NakCode::remote_access_error);
constexpr Syndrome kOperational = Syndrome::nak(NakCode::remote_operational_error);

class ResponderTest : public ::testing::Test {
 protected:
  static std::vector<std::byte> bytes(std::size_t length, int value) {
    return std::vector<std::byte>(length, static_cast<std::byte>(value));
  }
  void post_receive(std::uint64_t id, std::size_t length) {
    const Sge sge = host_.sge(0x8000, length);
    ASSERT_EQ(peer_.pair.post_receive({.id = id, .sges = {&sge, 1}}), Post::done);
  }
  void expect_untouched(std::size_t offset, std::size_t length) {
    EXPECT_EQ(std::ranges::count(host_.bytes(offset, length), std::byte{0}), static_cast<std::ptrdiff_t>(length));
  }
  // The request gets that NAK, and the queue pair goes to ERROR; nothing has been written.
  void expect_fatal(const Packet& packet, Syndrome nak, Event::Kind event) {
    const auto heard = peer_.tell(packet);
    EXPECT_EQ(only(heard).bth.opcode, Opcode::acknowledge);
    EXPECT_EQ(only(heard).aeth.syndrome, nak);
    EXPECT_EQ(only(heard).bth.psn, packet.bth.psn);
    EXPECT_EQ(peer_.pair.state(), QueuePairState::error);
    EXPECT_EQ(host_.events(), (std::vector<Event>{{event, peer_.pair.number()}}));
    expect_untouched(0, Host::kMemoryBytes);
    EXPECT_TRUE(peer_.tell(peer_.write(packet.bth.psn, kTarget, bytes(4, 1))).empty());
    expect_untouched(0, Host::kMemoryBytes);
  }

  Host host_{1};
  FakePeer peer_{host_, {.mtu = PathMtu::b256, .dest_rd_atomic = 2}};
};

TEST_F(ResponderTest, AcknowledgesWithTheNumberOfMessages) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto heard = peer_.tell(peer_.write(kFirst + i, kTarget, bytes(4, 1)));
    EXPECT_EQ(only(heard).aeth.syndrome, Syndrome::ack());
    EXPECT_EQ(only(heard).bth.psn, kFirst + i);
    EXPECT_EQ(only(heard).aeth.msn, i + 1);
  }
}

TEST_F(ResponderTest, AnswersOnlyWhatAsksForIt) {
  Packet write = peer_.write(kFirst, kTarget, bytes(4, 1));
  write.bth.ack_request = false;
  EXPECT_TRUE(peer_.tell(write).empty());
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst + 1, kTarget, bytes(4, 1)))).aeth.msn, 2U);
}

TEST_F(ResponderTest, SeveralAcknowledgementsThatHaveNotLeftBecomeOne) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    const auto payload = bytes(4, 1);
    const Packet write = peer_.write(kFirst + i, kTarget, payload);
    std::vector<std::byte> frame(encoded_bytes(write));
    ASSERT_EQ(std::get<std::size_t>(build(write, frame)), frame.size());
    host_.nic.on_frame(frame, 1000);
  }
  const auto heard = peer_.listen();
  EXPECT_EQ(only(heard).bth.psn, kFirst + 4);
  EXPECT_EQ(only(heard).aeth.msn, 5U);
}

TEST_F(ResponderTest, AGapIsToldOnce) {
  const auto missing = bytes(4, 1);
  EXPECT_EQ(syndrome_of(peer_.tell(peer_.write(kFirst + 1, kTarget, bytes(4, 2)))), kGap);
  EXPECT_TRUE(peer_.tell(peer_.write(kFirst + 2, kTarget, bytes(4, 3))).empty());
  EXPECT_TRUE(peer_.tell(peer_.write(kFirst + 1, kTarget, bytes(4, 2))).empty());
  expect_untouched(kTarget, 4);
  EXPECT_EQ(syndrome_of(peer_.tell(peer_.write(kFirst, kTarget, missing))), Syndrome::ack());
  const auto heard = peer_.tell(peer_.write(kFirst + 2, kTarget, bytes(4, 3)));
  EXPECT_EQ(only(heard).aeth.syndrome, kGap);  // a new one
  EXPECT_EQ(only(heard).bth.psn, kFirst + 1);
}

TEST_F(ResponderTest, ARepeatedWriteOrSendIsAcknowledgedAndNotExecuted) {
  post_receive(1, 16);
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst, kTarget, bytes(4, 1)))).aeth.msn, 1U);
  EXPECT_EQ(only(peer_.tell(peer_.packet(Opcode::send_only, kFirst + 1, bytes(4, 1)))).aeth.msn, 2U);
  EXPECT_EQ(host_.received().size(), 1U);
  post_receive(2, 16);
  for (const Packet& packet :
       {peer_.write(kFirst, kTarget, bytes(4, 9)), peer_.packet(Opcode::send_only, kFirst + 1, bytes(4, 9))}) {
    const auto heard = peer_.tell(packet);
    EXPECT_EQ(only(heard).aeth.syndrome, Syndrome::ack());
    EXPECT_EQ(only(heard).bth.psn, kFirst + 1);  // all that has come
    EXPECT_EQ(only(heard).aeth.msn, 2U);
  }
  EXPECT_EQ(*host_.at(kTarget), std::byte{1});
  EXPECT_EQ(*host_.at(0x8000), std::byte{1});
  EXPECT_TRUE(host_.received().empty());
}

// A requester may take an acknowledgement with the number of its READ or atomic for the answer, as Linux's rxe does.
TEST_F(ResponderTest, ARepeatedWriteIsNotAcknowledgedWithTheNumberOfAReadOrAtomic) {
  const std::vector<std::byte> payload = bytes(4, 1);
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst, kTarget, payload))).bth.psn, kFirst);
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst + 1, kTarget + 8, 1))).bth.psn, kFirst + 1);
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst, kTarget, payload))).bth.psn, kFirst);
  ASSERT_EQ(peer_.tell(peer_.read(kFirst + 2, kTarget, 300)).size(), 2U);
  const auto heard = peer_.tell(peer_.write(kFirst, kTarget, payload));
  EXPECT_EQ(only(heard).bth.opcode, Opcode::acknowledge);
  EXPECT_EQ(only(heard).bth.psn, kFirst);
  EXPECT_EQ(only(heard).aeth.msn, 3U);
  // What is executed behind them acknowledges them, too.
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst + 4, kTarget, payload))).bth.psn, kFirst + 4);
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst, kTarget, payload))).bth.psn, kFirst + 4);
}

TEST_F(ResponderTest, ARepeatedAtomicIsAnsweredAndNotExecuted) {
  host_.word(kTarget) = 40;
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst, kTarget, 1))).atomic_ack.original, 40U);
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst + 1, kTarget, 1))).atomic_ack.original, 41U);
  for (int i = 0; i < 3; ++i) {
    const auto heard = peer_.tell(peer_.fetch_add(kFirst, kTarget, 1));
    EXPECT_EQ(only(heard).bth.opcode, Opcode::atomic_acknowledge);
    EXPECT_EQ(only(heard).bth.psn, kFirst);
    EXPECT_EQ(only(heard).atomic_ack.original, 40U);
  }
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst + 1, kTarget, 1))).atomic_ack.original, 41U);
  EXPECT_EQ(host_.word(kTarget), 42U);
  // Only the last max_dest_rd_atomic are kept.
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst + 2, kTarget, 1))).atomic_ack.original, 42U);
  EXPECT_TRUE(peer_.tell(peer_.fetch_add(kFirst, kTarget, 1)).empty());
  EXPECT_EQ(host_.word(kTarget), 43U);
}

// One number, but other bytes: no repetition, and no answer.
TEST_F(ResponderTest, AnotherAtomicWithTheNumberOfAnEarlierOneIsNotAnswered) {
  host_.word(kTarget) = 40;
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst, kTarget, 1))).atomic_ack.original, 40U);
  EXPECT_TRUE(peer_.tell(peer_.fetch_add(kFirst, kTarget, 2)).empty());
  EXPECT_TRUE(peer_.tell(peer_.fetch_add(kFirst, kTarget + 8, 1)).empty());
  Packet same = peer_.fetch_add(kFirst, kTarget, 1);
  same.atomic.compare = 7;  // means nothing
  EXPECT_EQ(only(peer_.tell(same)).atomic_ack.original, 40U);
  Packet swap = peer_.fetch_add(kFirst, kTarget, 1);
  swap.bth.opcode = Opcode::compare_swap;
  EXPECT_TRUE(peer_.tell(swap).empty());
  Packet other_key = peer_.fetch_add(kFirst, kTarget, 1);
  other_key.atomic.r_key += 256;
  EXPECT_TRUE(peer_.tell(other_key).empty());
  EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst, kTarget, 1))).atomic_ack.original, 40U);
  EXPECT_EQ(host_.word(kTarget), 41U);
}

// In SQD the program may agree on another number. What was answered may have been lost.
TEST_F(ResponderTest, WhatWasAnsweredIsKeptWhenMaxDestRdAtomicChanges) {
  host_.word(kTarget) = 40;
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst + i, kTarget, 1))).atomic_ack.original, 40U + i);
  }
  using A = Attributes;
  peer_.pair.modify({.state = QueuePairState::sqd}, A::state);
  for (const std::uint8_t size : std::array<std::uint8_t, 4>{2, 5, 3, 1}) {
    peer_.pair.modify({.state = QueuePairState::sqd, .max_dest_rd_atomic = size}, A::state | A::max_dest_rd_atomic);
    EXPECT_EQ(only(peer_.tell(peer_.fetch_add(kFirst + 1, kTarget, 1))).atomic_ack.original, 41U) << int{size};
    EXPECT_EQ(peer_.tell(peer_.fetch_add(kFirst, kTarget, 1)).empty(), size == 1) << int{size};
  }
  EXPECT_EQ(host_.word(kTarget), 42U);
}

TEST_F(ResponderTest, ARepeatedReadIsReadAgainFromWhereItIsAskedFor) {
  host_.fill(kTarget, 700, 1);
  auto heard = peer_.tell(peer_.read(kFirst, kTarget, 700));
  ASSERT_EQ(heard.size(), 3U);
  EXPECT_EQ(heard[0].packet.bth.opcode, Opcode::read_response_first);
  EXPECT_EQ(heard[1].packet.bth.opcode, Opcode::read_response_middle);
  EXPECT_EQ(heard[2].packet.bth.opcode, Opcode::read_response_last);
  EXPECT_EQ(heard[2].packet.bth.psn, kFirst + 2);
  EXPECT_EQ(heard[2].packet.payload.size(), 188U);
  // Not part of it: another key, address, length.
  Packet again = peer_.read(kFirst + 1, kTarget + 256, 444);
  ++again.reth.r_key;
  EXPECT_TRUE(peer_.tell(again).empty());
  EXPECT_TRUE(peer_.tell(peer_.read(kFirst + 1, kTarget + 257, 443)).empty());
  EXPECT_TRUE(peer_.tell(peer_.read(kFirst + 1, kTarget + 260, 444)).empty());
  EXPECT_TRUE(peer_.tell(peer_.read(kFirst + 1, kTarget + 256, 4440)).empty());
  EXPECT_TRUE(peer_.tell(peer_.fetch_add(kFirst + 1, kTarget, 1)).empty());
  host_.fill(kTarget, 700, 2);
  heard = peer_.tell(peer_.read(kFirst + 1, kTarget + 256, 444));
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].packet.bth.opcode, Opcode::read_response_first);
  EXPECT_EQ(heard[0].packet.bth.psn, kFirst + 1);
  EXPECT_TRUE(std::ranges::equal(heard[0].packet.payload, host_.bytes(kTarget + 256, 256)));
  heard = peer_.tell(peer_.read(kFirst + 2, kTarget + 512, 188));
  EXPECT_EQ(only(heard).bth.opcode, Opcode::read_response_only);
  // A part that ends earlier.
  heard = peer_.tell(peer_.read(kFirst, kTarget, 256));
  EXPECT_EQ(only(heard).bth.opcode, Opcode::read_response_only);
  EXPECT_EQ(only(heard).bth.psn, kFirst);
  EXPECT_EQ(only(peer_.tell(peer_.read(kFirst + 1, kTarget + 256, 100))).payload.size(), 100U);
  EXPECT_TRUE(peer_.tell(peer_.read(kFirst + 1, kTarget + 256, 0)).empty());
  // What follows is expected behind all of it.
  EXPECT_EQ(only(peer_.tell(peer_.write(kFirst + 3, kTarget, bytes(4, 1)))).aeth.msn, 2U);
}

// Nobody needs twice what is still to come: a long answer would hold up all that follow it.
TEST_F(ResponderTest, AReadThatIsAskedForAgainWhileItIsAnsweredIsAnsweredOnce) {
  const auto hear_again = [&](std::size_t sent, std::uint32_t from) {
    SCOPED_TRACE(::testing::Message() << sent << " sent, asked for again from " << from);
    Host host{1};
    FakePeer peer{host, {.mtu = PathMtu::b256, .dest_rd_atomic = 2}};
    host.fill(kTarget, 700, 1);
    const auto give = [&](const Packet& packet) {
      std::vector<std::byte> frame(encoded_bytes(packet));
      ASSERT_EQ(std::get<std::size_t>(build(packet, frame)), frame.size());
      host.nic.on_frame(frame, 1000);
    };
    give(peer.read(kFirst, kTarget, 700));
    std::vector<std::byte> frame(kFrameRoom);
    for (std::size_t i = 0; i < sent; ++i) {
      EXPECT_NE(host.nic.pull_frame(frame, 1000), 0U);
    }
    give(peer.read(kFirst + from, kTarget + from * 256, 700 - from * 256));
    give(peer.write(kFirst + 3, kTarget + 0x2000, bytes(4, 1)));
    auto heard = peer.listen();
    EXPECT_FALSE(heard.empty());
    EXPECT_EQ(heard.back().packet.bth.opcode, Opcode::acknowledge);
    heard.pop_back();
    for (const Heard& one : heard) {
      const std::size_t at = (one.packet.bth.psn.value() - kFirst.value()) * 256;
      EXPECT_TRUE(std::ranges::equal(one.packet.payload, host.bytes(kTarget + at, one.packet.payload.size())));
      EXPECT_EQ(one.packet.payload.size(), std::min<std::size_t>(256, 700 - at));
    }
    return heard;
  };
  EXPECT_EQ(hear_again(0, 0).size(), 3U);
  EXPECT_EQ(hear_again(0, 1).size(), 3U);
  EXPECT_EQ(hear_again(1, 1).size(), 2U);
  EXPECT_EQ(hear_again(1, 2).size(), 2U);
  EXPECT_EQ(hear_again(1, 0).size(), 3U);
  const auto heard = hear_again(2, 1);
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].packet.bth.opcode, Opcode::read_response_first);
  EXPECT_EQ(heard[0].packet.bth.psn, kFirst + 1);
  EXPECT_EQ(heard[1].packet.bth.opcode, Opcode::read_response_last);
}

// A READ that is asked for again has perhaps been answered already. Its region may be of memory that the program has
// unmapped since, and will deregister soon: UCX does so.
TEST_F(ResponderTest, ARepeatedReadOfMemoryThatIsNoLongerMappedIsAnswered) {
  bear_gone_pages();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, page);
  Packet read = peer_.read(kFirst, kTarget, 300);
  read.reth.virtual_address = reinterpret_cast<std::uintptr_t>(memory);
  read.reth.r_key = host_.nic.register_memory(
      {static_cast<std::byte*>(memory), page, read.reth.virtual_address, host_.domain, Rights::all});
  ASSERT_EQ(peer_.tell(read).size(), 2U);
  ASSERT_EQ(::munmap(memory, page), 0);
  const auto heard = peer_.tell(read);
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[1].packet.bth.psn, kFirst + 1);
  EXPECT_EQ(peer_.pair.state(), QueuePairState::rts);
}

TEST_F(ResponderTest, AnswersLeaveInTheOrderOfTheRequests) {
  const auto payload = bytes(4, 1);
  const std::array packets{peer_.write(kFirst, kTarget, payload), peer_.read(kFirst + 1, kTarget, 300),
                           peer_.write(kFirst + 3, kTarget, payload), peer_.fetch_add(kFirst + 4, kTarget, 1),
                           peer_.write(kFirst + 5, kTarget, payload)};
  for (const Packet& packet : packets) {
    std::vector<std::byte> frame(encoded_bytes(packet));
    ASSERT_EQ(std::get<std::size_t>(build(packet, frame)), frame.size());
    host_.nic.on_frame(frame, 1000);
  }
  const auto heard = peer_.listen();
  ASSERT_EQ(heard.size(), 6U);
  constexpr std::array kOpcodes{Opcode::acknowledge, Opcode::read_response_first, Opcode::read_response_last,
                                Opcode::acknowledge, Opcode::atomic_acknowledge,  Opcode::acknowledge};
  for (std::size_t i = 0; i < heard.size(); ++i) {
    EXPECT_EQ(heard[i].packet.bth.opcode, kOpcodes[i]);
    EXPECT_EQ(heard[i].packet.bth.psn, kFirst + static_cast<std::uint32_t>(i));
  }
}

// Requests behind one that was answered by an RNR NAK get no NAK of their own.
TEST_F(ResponderTest, WithoutAReceiveRequestItAsksToWait) {
  const auto send = peer_.packet(Opcode::send_only, kFirst, bytes(4, 7));
  EXPECT_EQ(syndrome_of(peer_.tell(send)), Syndrome::rnr_nak(12));
  EXPECT_TRUE(peer_.tell(peer_.write(kFirst + 1, kTarget, bytes(4, 1))).empty());
  EXPECT_EQ(syndrome_of(peer_.tell(send)), Syndrome::rnr_nak(12));
  post_receive(1, 16);
  EXPECT_EQ(syndrome_of(peer_.tell(send)), Syndrome::ack());
  EXPECT_EQ(host_.received().size(), 1U);
  Packet write = peer_.write(kFirst + 1, kTarget, bytes(4, 1));
  write.bth.opcode = Opcode::write_only_with_immediate;
  EXPECT_EQ(syndrome_of(peer_.tell(write)), Syndrome::rnr_nak(12));
  expect_untouched(kTarget, 4);
}

TEST_F(ResponderTest, TheLastPacketOfAWriteWithImmediateNeedsAReceiveRequest) {
  Packet first = peer_.write(kFirst, kTarget, bytes(256, 1));
  first.bth.opcode = Opcode::write_first;
  first.reth.dma_length = 300;
  EXPECT_EQ(syndrome_of(peer_.tell(first)), Syndrome::ack());
  const auto rest = bytes(44, 2);
  const Packet last = peer_.packet(Opcode::write_last_with_immediate, kFirst + 1, rest);
  EXPECT_EQ(syndrome_of(peer_.tell(last)), Syndrome::rnr_nak(12));
  post_receive(5, 0);
  EXPECT_EQ(syndrome_of(peer_.tell(last)), Syndrome::ack());
  EXPECT_EQ(*host_.at(kTarget + 299), std::byte{2});
  const auto received = host_.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].bytes, 300U);
}

TEST_F(ResponderTest, TellsThatTheConnectionIsEstablishedOnce) {
  Host other(3);
  FakePeer in_rtr(other);
  in_rtr.pair.modify({.state = QueuePairState::reset}, Attributes::state);
  const QueuePairType type = QueuePairType::rc;
  in_rtr.pair.modify(to_init(type), init_set(type));
  in_rtr.pair.modify(
      to_rtr({}, {.mac = {2, 9, 9, 9, 9, 9}, .gid = gid_of({10, 0, 0, 99})}, FakePeer::kQueuePair, kFirst),
      rtr_set(type));
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(syndrome_of(in_rtr.tell(in_rtr.write(kFirst + i, kTarget, bytes(4, 1)))), Syndrome::ack());
  }
  EXPECT_EQ(other.events(), (std::vector<Event>{{Event::Kind::communication_established, in_rtr.pair.number()}}));
}

TEST_F(ResponderTest, RequestsOfNoBytesNeedNoKey) {
  Packet write = peer_.write(kFirst, kTarget, {});
  write.reth.r_key = 0;
  EXPECT_EQ(syndrome_of(peer_.tell(write)), Syndrome::ack());
  Packet read = peer_.read(kFirst + 1, kTarget, 0);
  read.reth.r_key = 0;
  const auto heard = peer_.tell(read);
  EXPECT_EQ(only(heard).bth.opcode, Opcode::read_response_only);
  EXPECT_TRUE(only(heard).payload.empty());
}

TEST_F(ResponderTest, AWrongKeyIsAnAccessError) {
  Packet write = peer_.write(kFirst, kTarget, bytes(4, 1));
  ++write.reth.r_key;
  expect_fatal(write, kAccess, Event::Kind::access_error);
}

TEST_F(ResponderTest, ARangeOutsideIsAnAccessError) {
  Packet write = peer_.write(kFirst, Host::kMemoryBytes - 3, bytes(4, 1));
  expect_fatal(write, kAccess, Event::Kind::access_error);
}

TEST_F(ResponderTest, AReadWithoutTheRightIsAnAccessError) {
  const std::uint32_t key = host_.nic.register_memory(
      {host_.at(0), 64, host_.address(0), host_.domain, Rights::local_write | Rights::remote_write});
  Packet read = peer_.read(kFirst, 0, 8);
  read.reth.r_key = key;
  expect_fatal(read, kAccess, Event::Kind::access_error);
}

TEST_F(ResponderTest, ARegionOfAnotherDomainIsAnAccessError) {
  const std::uint32_t key =
      host_.nic.register_memory({host_.at(0), 64, host_.address(0), host_.nic.make_domain(), Rights::all});
  Packet atomic = peer_.fetch_add(kFirst, 0, 8);
  atomic.atomic.r_key = key;
  expect_fatal(atomic, kAccess, Event::Kind::access_error);
}

TEST_F(ResponderTest, ARegionThatHasEndedIsAnAccessError) {
  host_.nic.deregister_memory(host_.key);
  expect_fatal(peer_.write(kFirst, kTarget, bytes(4, 1)), kAccess, Event::Kind::access_error);
}

TEST_F(ResponderTest, AnUnalignedAtomicIsInvalid) {
  expect_fatal(peer_.fetch_add(kFirst, kTarget + 4, 1), kInvalid, Event::Kind::request_error);
}

TEST_F(ResponderTest, AMiddleWithoutAFirstIsInvalid) {
  expect_fatal(peer_.packet(Opcode::write_middle, kFirst, bytes(256, 1)), kInvalid, Event::Kind::request_error);
}

TEST_F(ResponderTest, ALastOfAnotherKindIsInvalid) {
  post_receive(1, 1024);
  EXPECT_EQ(syndrome_of(peer_.tell(peer_.packet(Opcode::send_first, kFirst, bytes(256, 0)))), Syndrome::ack());
  const auto heard = peer_.tell(peer_.packet(Opcode::write_last, kFirst + 1, bytes(4, 1)));
  EXPECT_EQ(only(heard).aeth.syndrome, kInvalid);
  const auto received = host_.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, CompletionStatus::remote_invalid_request);
}

TEST_F(ResponderTest, APacketLongerThanThePathMtuIsInvalid) {
  expect_fatal(peer_.write(kFirst, kTarget, bytes(257, 1)), kInvalid, Event::Kind::request_error);
}

// The parser knows no such packet; the responder answers it all the same.
TEST_F(ResponderTest, WhatIsNoOperationOrHasNoSuchLengthIsInvalid) {
  const auto frame_of = [](FakePeer& peer, int opcode, std::size_t payload, Psn psn = kFirst) {
    const std::vector<std::byte> content = bytes(payload, 1);
    const Packet packet = peer.packet(Opcode::send_only, psn, content);
    std::vector<std::byte> frame(encoded_bytes(packet));
    EXPECT_EQ(std::get<std::size_t>(build(packet, frame)), frame.size());
    constexpr std::size_t kBth = 42;
    frame[kBth] = static_cast<std::byte>(opcode);
    const std::span<const std::byte> covered = std::span(frame).subspan(14, frame.size() - 14 - 4);
    constexpr std::size_t kHeaders = 40;
    const std::uint32_t state = roce::icrc_after_ipv4(covered.first(kHeaders));
    roce::store_icrc(frame.data() + frame.size() - 4,
                     roce::crc32_finish(roce::crc32_extend(state, covered.subspan(kHeaders))));
    return frame;
  };
  std::uint8_t answered = 0;
  for (const auto& [opcode, payload] : {std::pair{0x15, 4},
                                        {0x18, 4},
                                        {0x1c, 24},
                                        {0x1f, 4},           // reserved
                                        std::pair{0x06, 8},  // WRITE first, short
                                        std::pair{0x0c, 4},
                                        {0x13, 4}}) {  // no room for headers
    FakePeer peer(host_, {.mtu = PathMtu::b256});
    const auto frame = frame_of(peer, opcode, static_cast<std::size_t>(payload));
    const auto heard = peer.tell_frame(frame);
    ASSERT_EQ(heard.size(), 1U) << opcode;
    EXPECT_EQ(only(heard).aeth.syndrome, kInvalid) << opcode;
    EXPECT_EQ(only(heard).bth.psn, kFirst) << opcode;
    EXPECT_EQ(peer.pair.state(), QueuePairState::error) << opcode;
    ++answered;
  }
  EXPECT_EQ(answered, 7);
  // A number that is no request's, and one of another service: silence.
  for (const int opcode : {0x11, 0x12, 0x35, 0x84}) {
    FakePeer peer(host_, {.mtu = PathMtu::b256});
    const auto frame = frame_of(peer, opcode, 24);
    EXPECT_TRUE(peer.tell_frame(frame).empty()) << opcode;
    EXPECT_EQ(peer.pair.state(), QueuePairState::rts) << opcode;
  }
  // The number is looked at first: one too early is asked for in its order, one that was there before is not answered.
  FakePeer early(host_, {.mtu = PathMtu::b256});
  const auto heard = early.tell_frame(frame_of(early, 0x15, 4, kFirst + 1));
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(only(heard).aeth.syndrome, Syndrome::nak(NakCode::psn_sequence_error));
  EXPECT_EQ(early.pair.state(), QueuePairState::rts);
  FakePeer late(host_, {.mtu = PathMtu::b256});
  EXPECT_TRUE(late.tell_frame(frame_of(late, 0x15, 4, kFirst - 1)).empty());
  EXPECT_EQ(late.pair.state(), QueuePairState::rts);
  // Its bytes are not those that were sent.
  FakePeer peer(host_, {.mtu = PathMtu::b256});
  auto frame = frame_of(peer, 0x15, 4);
  frame.back() ^= std::byte{1};
  EXPECT_TRUE(peer.tell_frame(frame).empty());
  EXPECT_EQ(peer.pair.state(), QueuePairState::rts);
}

TEST_F(ResponderTest, AWriteOfAnotherLengthThanItSaidIsInvalid) {
  Packet write = peer_.write(kFirst, kTarget, bytes(8, 1));
  write.reth.dma_length = 4;
  expect_fatal(write, kInvalid, Event::Kind::request_error);
}

TEST_F(ResponderTest, AWriteThatGoesOnTooLongIsInvalid) {
  Packet first = peer_.write(kFirst, kTarget, bytes(256, 1));
  first.bth.opcode = Opcode::write_first;
  first.reth.dma_length = 257;
  EXPECT_EQ(syndrome_of(peer_.tell(first)), Syndrome::ack());
  EXPECT_EQ(syndrome_of(peer_.tell(peer_.packet(Opcode::write_middle, kFirst + 1, bytes(256, 1)))), kInvalid);
  expect_untouched(kTarget + 256, 256);
}

TEST_F(ResponderTest, WhatTheQueuePairDoesNotAllowIsInvalid) {
  peer_.pair.modify({.rights = Rights::remote_read}, Attributes::rights);
  expect_fatal(peer_.write(kFirst, kTarget, bytes(4, 1)), kInvalid, Event::Kind::request_error);
}

TEST_F(ResponderTest, MoreReadsAtATimeThanAgreedAreInvalid) {
  const std::array packets{peer_.read(kFirst, kTarget, 4), peer_.read(kFirst + 1, kTarget, 4),
                           peer_.read(kFirst + 2, kTarget, 4)};
  for (const Packet& packet : packets) {
    std::vector<std::byte> frame(encoded_bytes(packet));
    ASSERT_EQ(std::get<std::size_t>(build(packet, frame)), frame.size());
    host_.nic.on_frame(frame, 1000);
  }
  const auto heard = peer_.listen();
  ASSERT_EQ(heard.size(), 3U);
  EXPECT_EQ(heard[1].packet.bth.opcode, Opcode::read_response_only);  // those before it are answered
  EXPECT_EQ(heard[2].packet.aeth.syndrome, kInvalid);
}

TEST_F(ResponderTest, ASendTooLongForItsBufferFailsOnBothSides) {
  post_receive(7, 100);
  const auto heard = peer_.tell(peer_.packet(Opcode::send_only, kFirst, bytes(101, 1)));
  EXPECT_EQ(only(heard).aeth.syndrome, kInvalid);
  const auto received = host_.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].id, 7U);
  EXPECT_EQ(received[0].status, CompletionStatus::local_length);
  expect_untouched(0x8000, 101);
}

TEST_F(ResponderTest, AReceiveBufferThatMayNotBeWrittenIsAnOperationalError) {
  const Sge wrong{host_.address(0x8000), 64, host_.key + 256};
  ASSERT_EQ(peer_.pair.post_receive({.id = 7, .sges = {&wrong, 1}}), Post::done);
  const auto heard = peer_.tell(peer_.packet(Opcode::send_only, kFirst, bytes(4, 1)));
  EXPECT_EQ(only(heard).aeth.syndrome, kOperational);
  const auto received = host_.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, CompletionStatus::local_protection);
}

// Who may READ a region would end what its program receives into. Windows are ended: windows_test.cpp.
TEST_F(ResponderTest, SendWithInvalidateEndsNoRegion) {
  for (const Rights rights : {Rights::all, Rights::local_write}) {
    FakePeer peer(host_, {});
    const Sge sge = host_.sge(0x8000, 64);
    ASSERT_EQ(peer.pair.post_receive({.id = 1, .sges = {&sge, 1}}), Post::done);
    const std::uint32_t key = host_.nic.register_memory({host_.at(0), 64, host_.address(0), host_.domain, rights});
    Packet send = peer.packet(Opcode::send_only_with_invalidate, kFirst, bytes(4, 1));
    send.ieth.r_key = key;
    EXPECT_EQ(syndrome_of(peer.tell(send)), kAccess);
    EXPECT_TRUE(host_.nic.may_touch(key, host_.domain, host_.address(0), 8, rights));
    EXPECT_NO_THROW(host_.nic.deregister_memory(key));
  }
}

TEST_F(ResponderTest, ARegionThatEndsDuringAReadEndsTheAnswers) {
  const std::uint32_t key = host_.nic.register_memory({host_.at(0), 1024, host_.address(0), host_.domain, Rights::all});
  Packet read = peer_.read(kFirst, 0, 1024);
  read.reth.r_key = key;
  std::vector<std::byte> frame(encoded_bytes(read));
  ASSERT_EQ(std::get<std::size_t>(build(read, frame)), frame.size());
  host_.nic.on_frame(frame, 1000);
  std::vector<std::byte> buffer(kFrameRoom);
  ASSERT_NE(host_.nic.pull_frame(buffer, 1000), 0U);
  host_.nic.deregister_memory(key);
  const auto heard = peer_.listen();
  EXPECT_EQ(only(heard).aeth.syndrome, kAccess);
  EXPECT_EQ(only(heard).bth.psn, kFirst + 1);
  EXPECT_EQ(peer_.pair.state(), QueuePairState::error);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
