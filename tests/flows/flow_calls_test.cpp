// Where polls are rare: threads that cannot go on call others, and a producer that is heard again is read soon.
#include "flow_network.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace calls {

constexpr std::uint64_t kIdlePhase = 1;
constexpr std::uint64_t kDonePhase = 2;
constexpr std::uint64_t kHeadPhase = 5;
constexpr std::uint64_t kDataPhase = 8;
constexpr std::uint64_t kPushPhase = 10;
constexpr std::uint64_t kFillPhase = 11;
constexpr std::uint64_t kWaits = 0xf'ffff;  // of an element of `waits`
constexpr std::size_t kPackets = 2;         // of an item

std::uint64_t read(FlowNetwork& network, const std::string& name, std::uint64_t index) {
  return static_cast<std::uint64_t>(network.device().state().reg("Move." + name).read(index));
}

// Thread 0 leaves. Its consumer acknowledges no data, so that the thread lets its producer go, then the empty WRITEs,
// and then not the end. Failed: the thread forgot that the producer was free when it began to tell the end, and called
// nobody before the consumer had answered or was given up, which it never is here.
TEST(FlowCalls, AThreadThatLeavesCallsAnotherOneBeforeItsConsumerAnswers) {
  FlowNetworkOptions options = ringing(FlowKind::balance, 1, 2);
  ASSERT_EQ(options.most_retries, 0U);
  FlowNetwork network(zero_sided_program(), options);
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return from == network.host_of_consumer(0) && read(network, "phases", 0) != kFillPhase ? 0 : -1;
  };
  ASSERT_TRUE(network.push(0));
  expect_soon(network, [&] { return read(network, "phases", 0) == kDataPhase; });
  network.control().leave_consumer(network.flow(), 0);
  expect_soon(network, [&] { return read(network, "phases", 0) == kPushPhase; });
  EXPECT_EQ(network.head_of(1), 0U);
  expect_soon(network, pops(network, 1, 1));
  EXPECT_EQ(read(network, "phases", 0), kPushPhase);
}

// ---- A producer that is put aside, and answers when the thread that has put it aside cannot go on.

// This answer of the producer's is lost until then.
enum class Late { head, items };
enum class Reason { has_left, pauses };
constexpr std::size_t kLongFrame = 100;

// Failed: nobody looked at the producer before the other thread's next poll. Of items nobody was woken at all; of a
// head only the first thread, and not one that had asked with the only packet that it had.
void expect_that_others_hear(Late late, Reason reason, std::size_t thread) {
  FlowNetworkOptions options = ringing(FlowKind::balance, 2, 2);
  options.rings = false;
  FlowNetwork network(zero_sided_program(), options);
  bool is_cut = true;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    return from == 0 && is_cut && (late == Late::head || frame.size() > kLongFrame) ? 0 : -1;
  };
  ASSERT_TRUE(network.push(0));
  network.ring_of_consumer(thread);
  const std::uint64_t waits_in = late == Late::items ? kDataPhase : kHeadPhase;
  expect_soon(network, [&] { return read(network, "phases", thread) == waits_in; });
  network.run([&] {
    const bool can_go_on = reason == Reason::has_left || read(network, "phases", thread) == kIdlePhase;
    return (read(network, "waits", 0) != 0 && can_go_on) || network.now() > 2 * kRarePoll;
  });
  ASSERT_LT(network.now(), 2 * kRarePoll);
  if (reason == Reason::has_left) {
    network.control().leave_consumer(network.flow(), thread);
    expect_soon(network, [&] { return read(network, "phases", thread) == kDonePhase && network.travelling() == 0; });
  } else {
    network.device().state().reg("Move.begun").write(thread, (network.now() + 3 * kRarePoll) / 1000);
  }
  is_cut = false;
  expect_soon(network, pops(network, 1 - thread, 1));
}

TEST(FlowCalls, AThreadThatHasLeftLetsOthersAskTheProducerThatItHasPutAside) {
  for (const Late late : {Late::head, Late::items}) {
    for (const std::size_t thread : {0U, 1U}) {
      expect_that_others_hear(late, Reason::has_left, thread);
    }
  }
}
TEST(FlowCalls, AThreadThatPausesLetsOthersAskTheProducerThatItHasPutAside) {
  for (const Late late : {Late::head, Late::items}) {
    for (const std::size_t thread : {0U, 1U}) {
      expect_that_others_hear(late, Reason::pauses, thread);
    }
  }
}

// The thread is put into its last phase, and the producer's items come, between two ticks of its timer. Failed: at the
// second one nobody was put aside any more, and the other thread slept until its next poll.
TEST(FlowCalls, AThreadThatEndsLetsOthersSeeWhatAProducerHasSaidMeanwhile) {
  for (const std::size_t thread : {0U, 1U}) {
    FlowNetworkOptions options = ringing(FlowKind::balance, 2, 2);
    options.rings = false;
    FlowNetwork network(zero_sided_program(), options);
    std::vector<std::vector<std::byte>> late;
    bool is_late = true;
    network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
      if (from != 0 || !is_late || frame.size() <= kLongFrame) {
        return -1;
      }
      late.emplace_back(frame.begin(), frame.end());
      return 0;
    };
    ASSERT_TRUE(network.push(0));
    network.ring_of_consumer(thread);
    expect_soon(network, [&] { return read(network, "phases", thread) == kDataPhase; });
    network.control().leave_consumer(network.flow(), thread);
    expect_soon(network, [&] { return read(network, "phases", thread) == kDonePhase && network.travelling() == 0; });
    ASSERT_NE(read(network, "waits", 0) & kWaits, 0U);
    is_late = false;
    for (std::size_t i = late.size() - kPackets; i < late.size(); ++i) {
      network.device().receive(0, late[i]);
      network.device().run();
    }
    ASSERT_EQ(read(network, "waits", 0) & kWaits, 0U);
    expect_soon(network, pops(network, 1 - thread, 1));
  }
}

// Failed: each of them called all others each time-out, and the switch had no time for anything else.
void expect_that_many_keep_calm(Reason reason) {
  constexpr std::size_t kConsumers = 48;
  FlowNetworkOptions options = ringing(FlowKind::balance, 2, 2);
  options.rings = false;
  options.is_open = true;
  FlowNetwork network(zero_sided_program(), options);
  while (network.consumers() < kConsumers) {
    network.join_consumer(0);
  }
  network.on_send = [](std::size_t from, std::size_t, std::span<const std::byte>) { return from == 0 ? 0 : -1; };
  network.run([&] { return (read(network, "waits", 0) & kWaits) != 0 || network.now() > 2 * kRarePoll; });
  ASSERT_NE(read(network, "waits", 0) & kWaits, 0U);
  for (std::size_t i = 0; i + 1 < kConsumers; ++i) {
    if (reason == Reason::has_left) {
      network.control().leave_consumer(network.flow(), i);
    } else {
      network.device().state().reg("Move.begun").write(i, (network.now() + 9 * kRarePoll) / 1000);
    }
  }
  pass(network, kRarePoll + kRarePoll / 100);  // all have ticked
  network.steps_in_a_row = 8;                  // in a microsecond
  pass(network, kRarePoll / 10);
  EXPECT_LT(network.device().arrived(), kConsumers);
}

TEST(FlowCalls, ThreadsThatHaveLeftDoNotKeepTheSwitchBusy) { expect_that_many_keep_calm(Reason::has_left); }
TEST(FlowCalls, ThreadsThatPauseDoNotKeepTheSwitchBusy) { expect_that_many_keep_calm(Reason::pauses); }

}  // namespace calls
}  // namespace
}  // namespace sidelatch::flows
