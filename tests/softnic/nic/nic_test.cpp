// The NIC as a whole: the receivers of frames, the times at which frames leave, and the effects of a queue pair's end.
#include "softnic/nic/nic.h"

#include "softnic/nic/deferred_access.h"
#include "tests/softnic/nic/fake_peer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sidelatch::softnic::nic {
namespace {

TEST(Nic, WhatIsNotForAQueuePairIsDroppedAndCounted) {
  Host host(1);
  FakePeer peer(host);
  const std::vector<std::byte> bytes(4, std::byte{1});
  const auto expect_dropped = [&](auto change, const char* what) {
    Packet packet = peer.write(FakePeer::kToHost, kTarget, bytes);
    change(packet);
    const std::uint64_t before = host.nic.counters().misdirected;
    EXPECT_TRUE(peer.tell(packet).empty()) << what;
    EXPECT_EQ(host.nic.counters().misdirected, before + 1) << what;
  };
  expect_dropped([](Packet& p) { p.bth.destination_qp += 1; }, "another queue pair");
  expect_dropped([](Packet& p) { p.bth.p_key = 0x8001; }, "another partition");
  expect_dropped([](Packet& p) { std::get<Ipv4>(p.ip).source[3] ^= 1; }, "from another address");
  expect_dropped([](Packet& p) { std::get<Ipv4>(p.ip).destination[3] ^= 2; }, "to another address");
  expect_dropped([](Packet& p) { p.bth.opcode = Opcode::ud_send_only; }, "another service");
  EXPECT_EQ(*host.at(kTarget), std::byte{0});
  EXPECT_EQ(peer.tell(peer.write(FakePeer::kToHost, kTarget, bytes)).size(), 1U);
}

// To an address of the NIC other than the connection's: an IPv4 connection does not accept IPv6 packets.
TEST(Nic, AConnectionTakesPacketsToItsOwnAddressOnly) {
  Host host(1);
  FakePeer peer(host);
  const std::vector<std::byte> bytes(4, std::byte{1});
  Packet packet = peer.write(FakePeer::kToHost, kTarget, bytes);
  packet.ip = Ipv6{.source = gid_of({10, 0, 0, 99}), .destination = host.nic.options().gids[1]};
  EXPECT_TRUE(peer.tell(packet).empty());
  EXPECT_EQ(host.nic.counters().misdirected, 1U);
}

TEST(Nic, FramesToItselfLeaveIfTheDriverWantsThem) {
  Host host(1, std::make_unique<ImmediateAccess>(), {.sends_to_itself = true});
  const Connection pair = connect(host, host, {.timeout = 0});
  const Sge sge = host.sge(0, 100);
  ASSERT_EQ(pair.a.post_send({.id = 1,
                              .kind = WorkKind::write,
                              .signaled = true,
                              .sges = {&sge, 1},
                              .remote_address = host.address(kTarget),
                              .rkey = host.key}),
            Post::done);
  std::vector<std::byte> frame(kFrameRoom);
  for (int i = 0; i < 2; ++i) {  // the WRITE, and its acknowledgement
    const std::size_t bytes = host.nic.pull_frame(frame, 0);
    ASSERT_NE(bytes, 0U);
    EXPECT_TRUE(host.sent().empty());
    host.nic.on_frame(std::span(frame).first(bytes), 0);
  }
  EXPECT_EQ(host.sent().size(), 1U);
  EXPECT_EQ(host.nic.counters().looped, 0U);
}

TEST(Nic, FramesWaitUntilTheyArePulled) {
  Host a(1);
  Host b(2);
  const Connection pair = connect(a, b, {.mtu = PathMtu::b256, .timeout = 0});
  const Sge sge = a.sge(0, 1000);
  std::vector<std::byte> frame(kFrameRoom);
  EXPECT_EQ(a.nic.pull_frame(frame, 0) + b.nic.pull_frame(frame, 0), 0U);
  EXPECT_FALSE(a.nic.has_frames());
  ASSERT_EQ(pair.a.post_send({.id = 1, .signaled = true, .sges = {&sge, 1}}), Post::done);
  EXPECT_TRUE(a.nic.has_frames());
  const Sge to = b.sge(0, 1000);
  ASSERT_EQ(pair.b.post_receive({.id = 1, .sges = {&to, 1}}), Post::done);
  // A wire that takes one frame every second.
  Time now = 0;
  int frames = 0;
  while (a.nic.has_frames() || b.nic.has_frames()) {
    now += 1'000'000'000;
    for (Host* const host : {&a, &b}) {
      host->nic.advance(now);
      if (const std::size_t bytes = host->nic.pull_frame(frame, now)) {
        ++frames;
        (host == &a ? b : a).nic.on_frame(std::span(frame).first(bytes), now);
      }
    }
  }
  EXPECT_EQ(frames, 5);
  EXPECT_EQ(a.sent().size(), 1U);
  EXPECT_EQ(a.nic.counters().retransmissions, 0U);
}

// If any queue pair with something to send ends, the others continue.
TEST(Nic, AQueuePairThatEndsLeavesTheOthersAlone) {
  for (std::size_t ended = 0; ended < 4; ++ended) {
    Host a(1);
    Host b(2);
    LossyWire wire({&a, &b});
    std::vector<Connection> pairs;
    const Sge sge = a.sge(0, 100);
    const auto post = [&](std::size_t i) {
      return pairs[i].a.post_send({.id = i,
                                   .kind = WorkKind::write,
                                   .signaled = true,
                                   .sges = {&sge, 1},
                                   .remote_address = b.address(kTarget),
                                   .rkey = b.key});
    };
    for (std::size_t i = 0; i < 4; ++i) {
      pairs.push_back(connect(a, b));
      std::vector<std::byte> nothing(kFrameRoom);
      EXPECT_EQ(a.nic.pull_frame(nothing, 1), 0U);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(post(i), Post::done);
    }
    a.nic.destroy(pairs[ended].a);
    if (ended != 3) {
      ASSERT_EQ(post(3), Post::done);
    }
    wire.run();
    EXPECT_EQ(a.sent().size(), 3U) << ended;
  }
}

// Queue pairs that have ended have no timers either.
TEST(Nic, NumbersOfQueuePairsLeaveOutThoseThatAreReserved) {
  Host host(1, std::make_unique<ImmediateAccess>(), {.first_queue_pair = 0xfffffe});
  EXPECT_EQ(host.nic.make_queue_pair(host.options()).number(), 0xfffffeU);
  EXPECT_EQ(host.nic.make_queue_pair(host.options()).number(), 2U);  // 0xffffff is for multicast (3.5.3)
}

TEST(Nic, AQueuePairThatEndsHasNoTimer) {
  Host a(1);
  Host b(2);
  const Connection pair = connect(a, b);
  const Sge sge = a.sge(0, 100);
  ASSERT_EQ(pair.a.post_send({.id = 1, .kind = WorkKind::write, .sges = {&sge, 1}}), Post::done);
  std::vector<std::byte> frame(kFrameRoom);
  ASSERT_NE(a.nic.pull_frame(frame, 1), 0U);
  EXPECT_NE(a.nic.next_deadline(), kNever);
  a.nic.destroy(pair.a);
  EXPECT_EQ(a.nic.next_deadline(), kNever);
  a.nic.advance(Time{1} << 50);
}

TEST(Nic, TheSameCallsGiveTheSameFrames) {
  const auto run = [](std::uint64_t seed) {
    Host a(1);
    Host b(2, std::make_unique<DeferredAccess>(DeferredOptions{.seed = seed}));
    LossyWire wire({&a, &b}, {.drop = 0.1, .duplicate = 0.1, .reorder = 0.1}, 7);
    std::vector<std::byte> frames;
    wire.on_send = [&](std::vector<std::byte>& frame) {
      frames.insert(frames.end(), frame.begin(), frame.end());
      return true;
    };
    const Connection pair = connect(a, b, {.mtu = PathMtu::b256});
    for (std::uint64_t id = 0; id < 20; ++id) {
      const Sge sge = a.sge(id * 1000, 900);
      EXPECT_EQ(pair.a.post_send({.id = id,
                                  .kind = id % 2 == 0 ? WorkKind::write : WorkKind::read,
                                  .sges = {&sge, 1},
                                  .remote_address = 0,
                                  .rkey = 0}),
                Post::done);
    }
    wire.run();
    return frames;
  };
  EXPECT_EQ(run(1), run(1));
}

// More packets than the NIC samples ahead.
TEST(Nic, ALongReadOfMemoryThatTakesItsTimeArrivesWhole) {
  Host a(1);
  Host b(2, std::make_unique<DeferredAccess>(DeferredOptions{.spread = 500}));
  LossyWire wire({&a, &b});
  const Connection pair = connect(a, b, {.mtu = PathMtu::b256, .timeout = 14});
  constexpr std::size_t kBytes = 100'000;
  b.fill(kTarget, kBytes, 1);
  const Sge sge = a.sge(0, kBytes);
  for (std::uint64_t id = 0; id < 2; ++id) {
    ASSERT_EQ(pair.a.post_send({.id = id,
                                .kind = WorkKind::read,
                                .signaled = true,
                                .sges = {&sge, 1},
                                .remote_address = b.address(kTarget),
                                .rkey = b.key}),
              Post::done);
  }
  wire.run();
  EXPECT_EQ(a.sent().size(), 2U);
  EXPECT_TRUE(std::ranges::equal(a.bytes(0, kBytes), b.bytes(kTarget, kBytes)));
  EXPECT_EQ(a.nic.counters().timeouts, 0U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
