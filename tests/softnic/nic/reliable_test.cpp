// Every operation of a reliable connection, over a wire without losses.
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kSourceAt = 0;             // where the bytes lie, on side a
constexpr std::size_t kDestinationAt = 0x20000;  // where they go
constexpr std::uint32_t kImmediate = 0x01020304;

class Reliable : public ::testing::TestWithParam<std::tuple<PathMtu, std::uint8_t>> {
 protected:
  Reliable() : wire_({&a_, &b_}), pair_(connect(a_, b_, {.mtu = mtu(), .gid_index = std::get<1>(GetParam())})) {}

  static PathMtu mtu() { return std::get<0>(GetParam()); }
  static std::vector<std::size_t> lengths() {
    const std::size_t n = bytes_of(mtu());
    return {0, 1, 2, 3, 4, 63, 64, n - 1, n, n + 1, 2 * n - 1, 2 * n, 2 * n + 1, 5 * n - 1, 5 * n, 5 * n + 3};
  }
  void expect_sent(CompletionKind kind, std::size_t bytes) {
    const auto sent = a_.sent();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].status, CompletionStatus::success) << text(sent[0].status);
    EXPECT_EQ(sent[0].kind, kind);
    EXPECT_EQ(sent[0].id, 7U);
    EXPECT_EQ(sent[0].bytes, bytes);
    EXPECT_EQ(sent[0].queue_pair, pair_.a.number());
  }
  // Unaligned on both sides, and in two parts on the sending side.
  std::array<Sge, 2> parts(std::size_t offset, std::size_t length) const {
    return {a_.sge(offset + 1, length / 3), a_.sge(offset + 1 + length / 3, length - length / 3)};
  }
  SendRequest request(WorkKind kind, std::span<const Sge> sges) const {
    return {.id = 7,
            .kind = kind,
            .signaled = true,
            .sges = sges,
            .immediate = kImmediate,
            .remote_address = b_.address(kDestinationAt + 3),
            .rkey = b_.key};
  }
  void expect_same(std::span<const std::byte> found, std::span<const std::byte> wanted) {
    EXPECT_TRUE(std::ranges::equal(found, wanted));
  }

  Host a_{1};
  Host b_{2};
  LossyWire wire_;
  Connection pair_;
};

TEST_P(Reliable, WritePutsTheBytesThere) {
  for (const std::size_t length : lengths()) {
    SCOPED_TRACE(length);
    a_.fill(kSourceAt, length + 1, 1);
    b_.fill(kDestinationAt, length + 16, 2);
    const std::vector<std::byte> before(b_.at(kDestinationAt), b_.at(kDestinationAt) + length + 16);
    const auto sges = parts(kSourceAt, length);
    ASSERT_EQ(pair_.a.post_send(request(WorkKind::write, sges)), Post::done);
    wire_.run();
    expect_sent(CompletionKind::write, 0);
    expect_same(b_.bytes(kDestinationAt + 3, length), a_.bytes(kSourceAt + 1, length));
    expect_same(b_.bytes(kDestinationAt, 3), std::span(before).first(3));
    expect_same(b_.bytes(kDestinationAt + 3 + length, 13), std::span(before).last(13));
    EXPECT_TRUE(b_.received().empty());
  }
}

TEST_P(Reliable, WriteWithImmediateTellsTheReceiver) {
  for (const std::size_t length : lengths()) {
    SCOPED_TRACE(length);
    a_.fill(kSourceAt, length + 1, 3);
    ASSERT_EQ(pair_.b.post_receive({.id = 9}), Post::done);
    const auto sges = parts(kSourceAt, length);
    ASSERT_EQ(pair_.a.post_send(request(WorkKind::write_with_immediate, sges)), Post::done);
    wire_.run();
    expect_sent(CompletionKind::write, 0);
    expect_same(b_.bytes(kDestinationAt + 3, length), a_.bytes(kSourceAt + 1, length));
    const auto received = b_.received();
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received[0].id, 9U);
    EXPECT_EQ(received[0].kind, CompletionKind::receive_write);
    EXPECT_TRUE(received[0].has_immediate);
    EXPECT_EQ(received[0].immediate, kImmediate);
    EXPECT_EQ(received[0].bytes, length);
  }
}

TEST_P(Reliable, SendFillsTheReceiveBuffer) {
  for (const std::size_t length : lengths()) {
    for (const bool has_immediate : {false, true}) {
      SCOPED_TRACE(length);
      a_.fill(kSourceAt, length + 1, 4);
      // In three parts, the middle one empty, with room to spare.
      const std::array to{b_.sge(kDestinationAt + 5, length / 2), b_.sge(0, 0),
                          b_.sge(kDestinationAt + 5 + length / 2, length + 8)};
      ASSERT_EQ(pair_.b.post_receive({.id = 9, .sges = to}), Post::done);
      const auto sges = parts(kSourceAt, length);
      ASSERT_EQ(pair_.a.post_send(request(has_immediate ? WorkKind::send_with_immediate : WorkKind::send, sges)),
                Post::done);
      wire_.run();
      expect_sent(CompletionKind::send, 0);
      expect_same(b_.bytes(kDestinationAt + 5, length), a_.bytes(kSourceAt + 1, length));
      const auto received = b_.received();
      ASSERT_EQ(received.size(), 1U);
      EXPECT_EQ(received[0].kind, CompletionKind::receive);
      EXPECT_EQ(received[0].has_immediate, has_immediate);
      EXPECT_EQ(received[0].immediate, has_immediate ? kImmediate : 0U);
      EXPECT_EQ(received[0].bytes, length);
    }
  }
}

TEST_P(Reliable, ReadGetsTheBytes) {
  for (const std::size_t length : lengths()) {
    SCOPED_TRACE(length);
    a_.fill(kSourceAt, length + 32, 5);
    b_.fill(kDestinationAt, length + 3, 6);
    const std::vector<std::byte> before(a_.at(kSourceAt), a_.at(kSourceAt) + length + 32);
    const auto sges = parts(kSourceAt, length);
    ASSERT_EQ(pair_.a.post_send(request(WorkKind::read, sges)), Post::done);
    wire_.run();
    expect_sent(CompletionKind::read, length);
    expect_same(a_.bytes(kSourceAt + 1, length), b_.bytes(kDestinationAt + 3, length));
    expect_same(a_.bytes(kSourceAt + 1 + length, 31), std::span(before).last(31));
  }
}

TEST_P(Reliable, AtomicsChangeTheWordAndReturnTheOldOne) {
  SendRequest atomic = request(WorkKind::compare_swap, {});
  const Sge result = a_.sge(kSourceAt, 8);
  atomic.sges = {&result, 1};
  atomic.remote_address = b_.address(kDestinationAt);
  b_.word(kDestinationAt) = 5;
  const auto run = [&](WorkKind kind, std::uint64_t compare, std::uint64_t swap_or_add) {
    atomic.kind = kind;
    atomic.compare = compare;
    atomic.swap_or_add = swap_or_add;
    EXPECT_EQ(pair_.a.post_send(atomic), Post::done);
    wire_.run();
    expect_sent(kind == WorkKind::compare_swap ? CompletionKind::compare_swap : CompletionKind::fetch_add, 8);
    return a_.word(kSourceAt);
  };
  EXPECT_EQ(run(WorkKind::compare_swap, 4, 9), 5U);
  EXPECT_EQ(b_.word(kDestinationAt), 5U);
  EXPECT_EQ(run(WorkKind::compare_swap, 5, 0xfedcba9876543210), 5U);
  EXPECT_EQ(b_.word(kDestinationAt), 0xfedcba9876543210);
  EXPECT_EQ(run(WorkKind::fetch_add, 0, 0xffffffffffffffff), 0xfedcba9876543210);
  EXPECT_EQ(b_.word(kDestinationAt), 0xfedcba987654320f);
}

TEST_P(Reliable, InlineBytesAreTakenWhenPosted) {
  std::array<std::byte, 200> own{};
  own.fill(std::byte{0x5a});
  const Sge sge{reinterpret_cast<std::uintptr_t>(own.data()), own.size(), 0};  // no key is needed
  SendRequest write = request(WorkKind::write, {&sge, 1});
  write.inlined = true;
  ASSERT_EQ(pair_.a.post_send(write), Post::done);
  own.fill(std::byte{0});
  wire_.run();
  expect_sent(CompletionKind::write, 0);
  EXPECT_EQ(std::ranges::count(b_.bytes(kDestinationAt + 3, own.size()), std::byte{0x5a}), 200);
}

// Both directions and all operations at once, more than the queues and the window can hold.
TEST_P(Reliable, ManyRequestsCompleteInPostingOrder) {
  constexpr std::size_t kEach = 40;
  const std::size_t length = 3 * bytes_of(mtu()) / 2;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  b_.word(0x3fff0) = 0;
  for (std::size_t i = 0; i < kEach; ++i) {
    for (const WorkKind kind : {WorkKind::write, WorkKind::read, WorkKind::fetch_add, WorkKind::send}) {
      const Sge sge = kind == WorkKind::fetch_add ? a_.sge(0x10000, 8) : a_.sge(kSourceAt, length);
      SendRequest work = request(kind, {&sge, 1});
      work.id = posted++;
      work.swap_or_add = 1;
      work.remote_address = b_.address(kind == WorkKind::fetch_add ? 0x3fff0 : kDestinationAt);
      const Sge to = b_.sge(0, length);
      if (kind == WorkKind::send) {
        ASSERT_EQ(pair_.b.post_receive({.id = i, .sges = {&to, 1}}), Post::done);
      }
      ASSERT_EQ(pair_.a.post_send(work), Post::done);
    }
    if (i % 10 == 9) {
      wire_.run();
      for (const Completion& completion : a_.sent()) {
        EXPECT_EQ(completion.status, CompletionStatus::success);
        EXPECT_EQ(completion.id, completed++);
      }
    }
  }
  EXPECT_EQ(completed, posted);
  EXPECT_EQ(b_.received().size(), kEach);
  EXPECT_EQ(b_.word(0x3fff0), kEach);
  EXPECT_EQ(a_.nic.counters().retransmissions, 0U);
}

TEST_P(Reliable, OnlySignaledRequestsComplete) {
  const Sge sge = a_.sge(kSourceAt, 8);
  SendRequest write = request(WorkKind::write, {&sge, 1});
  for (write.id = 0; write.id < 6; ++write.id) {
    write.signaled = write.id % 3 == 2;
    ASSERT_EQ(pair_.a.post_send(write), Post::done);
  }
  wire_.run();
  const auto sent = a_.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].id, 2U);
  EXPECT_EQ(sent[1].id, 5U);
}

INSTANTIATE_TEST_SUITE_P(Roce, Reliable,
                         ::testing::Combine(::testing::Values(PathMtu::b256, PathMtu::b512, PathMtu::b1024,
                                                              PathMtu::b2048, PathMtu::b4096),
                                            ::testing::Values(std::uint8_t{0}, std::uint8_t{1})),
                         [](const auto& test) {
                           return std::to_string(bytes_of(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) == 0 ? "_IPv4" : "_IPv6");
                         });

TEST(ReliableLoopback, QueuePairsOfOneNicTalkWithoutAWire) {
  Host host(1);
  const Connection pair = connect(host, host);
  host.fill(0, 5000, 1);
  const Sge sge = host.sge(0, 5000);
  ASSERT_EQ(pair.a.post_send({.id = 1,
                              .kind = WorkKind::write,
                              .signaled = true,
                              .sges = {&sge, 1},
                              .remote_address = host.address(kDestinationAt),
                              .rkey = host.key}),
            Post::done);
  std::array<std::byte, kFrameRoom> buffer{};
  EXPECT_EQ(host.nic.pull_frame(buffer, 1), 0U);
  EXPECT_EQ(host.sent().size(), 1U);
  EXPECT_TRUE(std::ranges::equal(host.bytes(0, 5000), host.bytes(kDestinationAt, 5000)));
  EXPECT_EQ(host.nic.counters().looped, 6U);  // five and an acknowledgement
  EXPECT_EQ(host.nic.counters().sent, 0U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
