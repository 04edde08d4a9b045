// Deferred memory accesses, in the orders that the model allows.
#include "softnic/nic/deferred_access.h"

#include "tests/softnic/nic/fake_peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sidelatch::softnic::nic {
namespace {

using fabric::model::Preset;

std::unique_ptr<MemoryAccess> deferred(const fabric::model::Rules& rules, std::uint64_t seed) {
  return std::make_unique<DeferredAccess>(DeferredOptions{.rules = rules, .seed = seed, .spread = 3000});
}

constexpr std::size_t kObject = 0x1000;
constexpr std::size_t kLines = 8;
constexpr std::size_t kAllBytes = kLines * 64;

AccessSource from(std::uint32_t queue_pair, std::uint64_t message, fabric::model::Kind kind) {
  return {queue_pair, message, kind, 1};
}

class DeferredOrder : public ::testing::Test {
 protected:
  DeferredAccess memory(Preset preset, std::uint64_t seed) {
    return DeferredAccess({.rules = fabric::model::rules_of(preset), .seed = seed, .spread = 1000});
  }
  // Steps one at a time until `done` returns true.
  template <class Done>
  static void step_until(DeferredAccess& access, Done done) {
    while (!done() && access.next_deadline() != kNever) {
      access.advance(access.next_deadline());
    }
  }
  [[nodiscard]] std::vector<std::size_t> placed_lines() const {
    std::vector<std::size_t> lines;
    for (std::size_t i = 0; i < kLines; ++i) {
      if (object_[i * 64] != std::byte{0}) {
        lines.push_back(i);
      }
    }
    return lines;
  }
  alignas(64) std::array<std::byte, kAllBytes> object_{};
  std::array<std::byte, kAllBytes> ones_ = [] {
    std::array<std::byte, kAllBytes> ones{};
    ones.fill(std::byte{1});
    return ones;
  }();
};

// Rule 3.
TEST_F(DeferredOrder, LinesOfAWriteAscendOrNotAsThePresetSays) {
  for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
    bool has_gap = false;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      object_.fill(std::byte{0});
      DeferredAccess access = memory(preset, seed);
      static_cast<void>(access.place(from(1, 1, fabric::model::Kind::write), object_.data(), ones_));
      step_until(access, [&] {
        const auto lines = placed_lines();
        has_gap = has_gap || (!lines.empty() && lines.back() + 1 != lines.size());
        return false;
      });
      EXPECT_EQ(placed_lines().size(), kLines);
    }
    EXPECT_EQ(has_gap, preset != Preset::observed);
  }
}

// Rule 5, and the same over two packets of one request.
TEST_F(DeferredOrder, WritesOfAQueuePairKeepTheirOrderUnlessRelaxed) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed}) {
    bool overtakes = false;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      object_.fill(std::byte{0});
      DeferredAccess access = memory(preset, seed);
      static_cast<void>(
          access.place(from(1, 1, fabric::model::Kind::write), object_.data(), std::span(ones_).first(64)));
      static_cast<void>(
          access.place(from(1, 2, fabric::model::Kind::write), object_.data() + 64, std::span(ones_).first(64)));
      step_until(access, [&] {
        overtakes = overtakes || placed_lines() == std::vector<std::size_t>{1};
        return false;
      });
    }
    EXPECT_EQ(overtakes, preset == Preset::relaxed) << fabric::model::name(preset);
  }
}

// Rule 5: a READ or atomic comes after the WRITEs before it. Rule 7: not after those of other queue pairs.
TEST_F(DeferredOrder, AReadComesAfterTheWritesOfItsQueuePairOnly) {
  std::set<std::size_t> seen;
  for (const std::uint32_t reader : {1U, 2U}) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      object_.fill(std::byte{0});
      DeferredAccess access = memory(Preset::relaxed, seed);
      std::array<std::byte, kAllBytes> into{};
      Operation read;
      static_cast<void>(access.place(from(1, 1, fabric::model::Kind::write), object_.data(), ones_));
      access.sample(from(reader, 2, fabric::model::Kind::read), object_.data(), into, read);
      step_until(access, [&] { return read.is_done(); });
      ASSERT_TRUE(read.is_done());
      const auto ones = static_cast<std::size_t>(std::ranges::count(into, std::byte{1}));
      EXPECT_EQ(ones % 64, 0U);  // lines are whole
      if (reader == 1) {
        ASSERT_EQ(ones, kAllBytes);
      } else {
        seen.insert(ones / 64);
      }
    }
  }
  EXPECT_GT(seen.size(), 4U);
}

// Rule 2.
TEST_F(DeferredOrder, WhatWasAcknowledgedIsSeenThroughEveryQueuePair) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    object_.fill(std::byte{0});
    DeferredAccess access = memory(Preset::observed, seed);
    std::array<std::byte, kAllBytes> into{};
    Operation read;
    static_cast<void>(access.place(from(1, 1, fabric::model::Kind::write), object_.data(), ones_));
    access.acknowledged(1);
    access.sample(from(2, 1, fabric::model::Kind::read), object_.data(), into, read);
    step_until(access, [&] { return read.is_done(); });
    ASSERT_EQ(std::ranges::count(into, std::byte{1}), std::ssize(into));
  }
}

// Rule 8.
TEST_F(DeferredOrder, AtomicsOfANicExcludeEachOtherButNotACpu) {
  for (const Preset preset : {Preset::strict, Preset::observed}) {
    std::size_t lost = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      alignas(8) std::array<std::byte, 8> word{};
      auto& value = *reinterpret_cast<std::uint64_t*>(word.data());
      DeferredAccess access = memory(preset, seed);
      std::array<Operation, 8> operations;
      for (std::uint32_t i = 0; i < 8; ++i) {
        access.atomic(from(i, 1, fabric::model::Kind::atomic), word.data(), {false, 0, 1}, operations[i]);
      }
      std::uint64_t added = 8;
      step_until(access, [&] {
        value += 1000;  // a CPU
        added += 1000;
        return false;
      });
      EXPECT_EQ(value % 1000, 8U);
      lost += value != added ? 1U : 0U;
    }
    EXPECT_EQ(lost > 0, preset == Preset::observed);
  }
}

TEST_F(DeferredOrder, AReceiveComesAfterAllThatWasPlaced) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    object_.fill(std::byte{0});
    DeferredAccess access = memory(Preset::relaxed, seed);
    Operation received;
    static_cast<void>(
        access.place(from(1, 1, fabric::model::Kind::write), object_.data(), std::span(ones_).first(256)));
    static_cast<void>(
        access.place(from(1, 2, fabric::model::Kind::send), object_.data() + 256, std::span(ones_).first(256)));
    access.receive(from(1, 2, fabric::model::Kind::send), received);
    step_until(access, [&] { return received.is_done(); });
    ASSERT_EQ(placed_lines().size(), kLines);
  }
}

TEST_F(DeferredOrder, WhatEndsTouchesNothingMore) {
  DeferredAccess access = memory(Preset::observed, 1);
  std::array<std::byte, kAllBytes> into{};
  Operation read;
  Operation forgotten;
  static_cast<void>(access.place(from(1, 1, fabric::model::Kind::write), object_.data(), ones_));
  access.sample(from(1, 2, fabric::model::Kind::read), object_.data(), into, forgotten);
  access.end_queue_pair(1);
  access.sample({2, 1, fabric::model::Kind::read, 5}, object_.data(), into, read);
  access.end_region(5);
  EXPECT_TRUE(read.is_done());
  EXPECT_TRUE(read.failed);
  access.advance(1'000'000);
  EXPECT_TRUE(placed_lines().empty());
  EXPECT_FALSE(forgotten.is_done());
  EXPECT_EQ(access.next_deadline(), kNever);
}

// Under `strict` an acknowledgement means that the WRITE is in memory, otherwise that it has arrived (rule 2).
TEST(DeferredNics, AnAcknowledgementMeansPlacedUnderStrictOnly) {
  for (const Preset preset : {Preset::strict, Preset::observed}) {
    std::size_t early = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      Host host(1, deferred(fabric::model::rules_of(preset), seed));
      FakePeer peer(host);
      std::size_t told = 0;
      std::size_t acknowledged = 0;
      const std::vector<std::byte> bytes(64, std::byte{1});
      const auto take = [&](const std::vector<Heard>& heard) {
        for (const Heard& each : heard) {
          acknowledged = static_cast<std::size_t>(distance(FakePeer::kToHost, each.packet.bth.psn)) + 1;
          for (std::size_t i = 0; i < acknowledged; ++i) {
            early += *host.at(i * 64) == std::byte{0} ? 1U : 0U;
          }
        }
      };
      while (acknowledged < 8) {
        if (told < 8) {
          take(peer.tell(peer.write(FakePeer::kToHost + static_cast<std::uint32_t>(told), told * 64, bytes)));
          ++told;
        }
        take(peer.wait(400));
      }
    }
    EXPECT_EQ(early > 0, preset == Preset::observed);
  }
}

// One connection writes an object and another reads it through another NIC; each READ has one packet.
TEST(DeferredNics, AReadOfAnObjectUnderUpdateIsTornUnlessStrict) {
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::spec}) {
    std::size_t torn = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Host target(1, deferred(fabric::model::rules_of(preset), seed));
      Host writer(2);
      Host reader(3);
      // The READ arrives first. A WRITE before it would be acknowledged at its arrival and seen whole by rule 2.
      LossyWire wire({&target, &reader, &writer});
      const Connection write = connect(writer, target);
      const Connection read = connect(reader, target);
      const Sge data = writer.sge(0, kAllBytes);
      std::ranges::fill(writer.bytes(0, kAllBytes), std::byte{1});
      const Sge into = reader.sge(0, kAllBytes);
      const SendRequest request{.kind = WorkKind::write,
                                .signaled = true,
                                .sges = {&data, 1},
                                .remote_address = target.address(kObject),
                                .rkey = target.key};
      ASSERT_EQ(write.a.post_send(request), Post::done);
      SendRequest look = request;
      look.kind = WorkKind::read;
      look.sges = {&into, 1};
      ASSERT_EQ(read.a.post_send(look), Post::done);
      wire.run();
      ASSERT_EQ(reader.sent().size(), 1U);
      const auto ones = std::ranges::count(reader.bytes(0, kAllBytes), std::byte{1});
      torn += ones != 0 && ones != std::ssize(reader.bytes(0, kAllBytes)) ? 1U : 0U;
      EXPECT_EQ(std::ranges::count(target.bytes(kObject, kAllBytes), std::byte{1}), std::ptrdiff_t{kAllBytes});
    }
    EXPECT_EQ(torn > 0, preset != Preset::strict) << fabric::model::name(preset);
  }
}

// A receive queue completes in the order of its requests, also where the later one fails at once.
TEST(DeferredNics, AReceiveThatFailsIsReportedAfterEarlierOnes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Host sender(1);
    Host receiver(2, deferred(fabric::model::rules_of(Preset::relaxed), seed));
    LossyWire wire({&sender, &receiver});
    const Connection connection = connect(sender, receiver);
    const Sge large = receiver.sge(0, kAllBytes);
    const Sge small = receiver.sge(kObject, 8);
    ASSERT_EQ(connection.b.post_receive({.id = 1, .sges = {&large, 1}}), Post::done);
    ASSERT_EQ(connection.b.post_receive({.id = 2, .sges = {&small, 1}}), Post::done);
    ASSERT_EQ(connection.b.post_receive({.id = 3, .sges = {&large, 1}}), Post::done);
    const Sge data = sender.sge(0, kAllBytes);
    for (std::uint64_t id = 1; id <= 2; ++id) {
      ASSERT_EQ(connection.a.post_send({.id = id, .kind = WorkKind::send, .sges = {&data, 1}}), Post::done);
    }
    wire.run();
    const std::vector<Completion> received = receiver.received();
    ASSERT_EQ(received.size(), 3U);
    EXPECT_EQ(received[0].id, 1U);
    EXPECT_EQ(received[0].status, CompletionStatus::success);
    EXPECT_EQ(received[1].id, 2U);
    EXPECT_EQ(received[1].status, CompletionStatus::local_length);
    EXPECT_EQ(received[2].id, 3U);
    EXPECT_EQ(received[2].status, CompletionStatus::flushed);
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic
