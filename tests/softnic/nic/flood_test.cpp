// Floods of malformed frames while a client works, driven by hand: no value is wrong, and nothing is left behind.
#include "tests/softnic/nic/flood.h"
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kAt = 0x10000;  // in both hosts' memory
constexpr int kSteps = 2000;
constexpr int kFloodFrames = 60;  // each step, to each side

class Flood : public ::testing::Test {
 protected:
  static FloodFrames::Target target(const Host& at, const QueuePair& pair, const Host& peer) {
    return {at.nic.options().mac, at.nic.options().gids[0], pair.number(), peer.nic.options().mac,
            peer.nic.options().gids[0]};
  }

  // Each present frame travels to the other side or is lost.
  void carry(Host& from, Host& to, double loss) {
    while (const std::size_t bytes = from.nic.pull_frame(buffer_, now_)) {
      if (std::uniform_real_distribution<>()(random_) >= loss) {
        to.nic.on_frame(std::span(buffer_).first(bytes), now_);
      }
    }
  }

  // Number of operations that complete in kSteps steps of 1 us.
  std::uint64_t work(int flood_frames, double loss = 0) {
    const std::uint64_t before = worker_.operations();
    for (int step = 0; step < kSteps; ++step) {
      now_ += 1000;
      worker_.go_on();
      carry(client_, server_, loss);
      carry(server_, client_, loss);
      for (int i = 0; i < flood_frames; ++i) {
        server_.nic.on_frame(to_server_.next(), now_);
        client_.nic.on_frame(to_client_.next(), now_);
      }
      server_.nic.advance(now_);
      client_.nic.advance(now_);
    }
    return worker_.operations() - before;
  }

  static std::uint64_t useless(const NicCounters& counters) {
    return counters.refused + counters.misdirected + counters.dropped + counters.stray;
  }

  Host server_{1};
  Host client_{2};
  Link link_{.timeout = 4, .rd_atomic = 16, .dest_rd_atomic = 16};
  Connection connection_ = connect(client_, server_, link_);
  CheckedClient worker_{
      connection_.a, client_.sends, {client_.at(kAt), client_.key, server_.address(kAt), server_.key}};
  FloodFrames to_server_{target(server_, connection_.b, client_), 1};
  FloodFrames to_client_{target(client_, connection_.a, server_), 2};
  Time now_ = 0;
  std::mt19937_64 random_{3};
  std::array<std::byte, kFrameRoom> buffer_{};
};

TEST_F(Flood, MalformedFramesTakeNothingFromAClient) {
  static_cast<void>(work(0));  // until all that may be on its way is
  const std::uint64_t before = work(0);
  const std::uint64_t during = work(kFloodFrames);
  const std::uint64_t after = work(0);
  EXPECT_EQ(worker_.complaint(), "");
  EXPECT_GT(before, std::uint64_t{kSteps});
  EXPECT_EQ(during, before);
  EXPECT_EQ(after, before);
  // Exactly the frames of the flood were recognized as such.
  EXPECT_EQ(useless(server_.nic.counters()), std::uint64_t{kSteps} * kFloodFrames);
  EXPECT_EQ(useless(client_.nic.counters()), std::uint64_t{kSteps} * kFloodFrames);
  for (const Host* const host : {&server_, &client_}) {
    EXPECT_GT(host->nic.counters().refused, 10'000U);
    EXPECT_GT(host->nic.counters().misdirected, 10'000U);
    EXPECT_EQ(host->nic.counters().retransmissions, 0U);
  }
}

// Like a flood that fills the wire: a part of the client's own frames is lost, too.
TEST_F(Flood, AfterAFloodThatLosesFramesAllIsAsBefore) {
  static_cast<void>(work(0));  // until all that may be on its way is
  const std::uint64_t before = work(0);
  const std::uint64_t during = work(kFloodFrames, 0.2);
  static_cast<void>(work(0));  // what was lost last comes again
  const std::uint64_t after = work(0);
  EXPECT_EQ(worker_.complaint(), "");
  EXPECT_GT(during, 0U);
  EXPECT_LT(during, before);
  EXPECT_EQ(after, before);
  EXPECT_GT(client_.nic.counters().retransmissions, 0U);
}

// The client detects a byte that somebody else has written.
TEST_F(Flood, AWrongByteIsFound) {
  static_cast<void>(work(0));
  ASSERT_EQ(worker_.complaint(), "");
  for (int step = 0; step < 100; ++step) {
    std::ranges::fill(server_.bytes(kAt, CheckedClient::kCounterOffset), std::byte{0x5a});
    worker_.go_on();
    carry(client_, server_, 0);
    std::ranges::fill(server_.bytes(kAt, CheckedClient::kCounterOffset), std::byte{0x5a});
    carry(server_, client_, 0);
  }
  EXPECT_NE(worker_.complaint(), "");
}

}  // namespace
}  // namespace sidelatch::softnic::nic
