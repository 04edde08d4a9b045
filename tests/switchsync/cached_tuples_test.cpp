// p4/switch_cached.p4 between software NICs: tuples that become hot when they are to be latched, on a switch with
// versions for fewer than there are, also over links that lose, repeat and reorder.
#include "changed_program.h"
#include "tuples_network.h"

#include <p4/switch_cached.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace cached_nics {

using namespace softnic::nic;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kSuccess = CompletionStatus::success;

// The control plane's moves, step by step, with a queue pair of the memory node with itself.
class Mover {
 public:
  explicit Mover(TuplesNetwork& network)
      : network_(&network), own_(softnic::nic::connect(network.memory_node(), network.memory_node())) {
    for (const QueuePair* const pair : {&own_.a, &own_.b}) {
      network.control().add_direct(address_of_host(network.options().clients), pair->number());
    }
  }
  // False: there is no room for it.
  bool heat(std::uint32_t tuple) {
    OptimisticSwitch& control = network_->control();
    if (control.room() == 0) {
      std::optional<std::uint32_t> other = control.next_hot(0);
      while (other && !cool(*other)) {
        other = control.next_hot(*other + 1);
      }
      if (!other) {
        return false;
      }
    }
    EXPECT_TRUE(control.begin_to_heat(tuple));
    control.end_to_heat(tuple, read_word(tuple));
    ++heated;
    return true;
  }
  // False: somebody holds it.
  bool cool(std::uint32_t tuple) {
    const auto version = network_->control().begin_to_cool(tuple);
    if (!version) {
      return false;
    }
    if (read_word(tuple) != *version) {
      network_->memory_node().word(kBuffer) = *version;
      request(WorkKind::write, tuple);
      EXPECT_EQ(read_word(tuple), *version);
      ++words_written;
    }
    network_->control().end_to_cool(tuple);
    return true;
  }
  int heated = 0;
  int words_written = 0;

 private:
  static constexpr std::size_t kBuffer = 65536;
  std::uint64_t read_word(std::uint32_t tuple) {
    request(WorkKind::read, tuple);
    return network_->memory_node().word(kBuffer);
  }
  void request(WorkKind kind, std::uint32_t tuple) {
    Host& memory = network_->memory_node();
    const Sge buffer = memory.sge(kBuffer, 8);
    const SendRequest one{.kind = kind,
                          .signaled = true,
                          .sges = {&buffer, 1},
                          .remote_address = memory.address(tuple * TuplesNetwork::kSlotBytes),
                          .rkey = memory.key};
    EXPECT_EQ(own_.a.post_send(one), Post::done);
    network_->run([&] { return memory.sends.size() != 0; });
    EXPECT_THAT(memory.sent(), testing::SizeIs(1));
  }
  TuplesNetwork* network_;
  Connection own_;
};

TEST(CachedTuples, AColdTupleIsReadAndLatchedWhenItIsHot) {
  TuplesNetwork network(p4::programs::switch_cached(), {});
  Mover mover(network);
  TupleClient client{&network, 0, &network.connect(0)};
  client.read(2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 0U);
  client.swap(2, 0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.word(), kColdWord);
  EXPECT_THAT(network.control().take_asked(), ElementsAre(2U));
  EXPECT_THAT(network.control().take_asked(), IsEmpty());
  EXPECT_TRUE(mover.heat(2));
  client.swap(2, 0, 1);  // what it has read while it was cold still holds
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.word(), 0U);
  EXPECT_FALSE(mover.cool(2));
  client.write(2, 77);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(network.version(2), 2U);
  EXPECT_TRUE(mover.cool(2));
  EXPECT_EQ(mover.words_written, 0);
  client.read(2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 2U);
  EXPECT_EQ(client.host().word(184), 77U);
  client.read_word(2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.word(), 2U);
  EXPECT_THROW((void)network.version(2), std::logic_error);
}

TEST(CachedTuples, AVersionThatNoWriteHasGivenReachesTheWord) {
  TuplesNetwork network(p4::programs::switch_cached(), {});
  Mover mover(network);
  TupleClient client{&network, 0, &network.connect(0)};
  EXPECT_TRUE(mover.heat(1));
  client.swap(1, 0, 1);
  client.swap(1, 1, 2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess));
  EXPECT_TRUE(mover.cool(1));
  EXPECT_EQ(mover.words_written, 1);
  EXPECT_EQ(network.memory_node().word(TuplesNetwork::kSlotBytes), 2U);
  client.read(1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 2U);
}

TEST(CachedTuples, AWriteOfAColdTupleIsRefused) {
  TuplesNetwork network(p4::programs::switch_cached(), {.clients = 2});
  Mover mover(network);
  TupleClient holder{&network, 0, &network.connect(0)};
  // The other tuple has the registers that a cold one's number would be.
  EXPECT_TRUE(mover.heat(0));
  holder.read(0);
  holder.swap(0, 0, 1);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess, kSuccess));
  holder.swap(3, 0, 1);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(holder.word(), kColdWord);
  EXPECT_EQ(network.version(0), 1U);
  holder.write(3, 9);
  EXPECT_THAT(holder.outcomes(),
              ElementsAre(testing::AnyOf(CompletionStatus::remote_access, CompletionStatus::remote_invalid_request)));
  EXPECT_EQ(network.memory_node().word(3 * TuplesNetwork::kSlotBytes + 8), 0U);
}

// Nobody but who knows the program sends these.
TEST(CachedTuples, ACasOfAColdTupleChangesNoOthersVersion) {
  for (const auto& [compare, swap] : {std::pair{kColdWord, kColdWord - 1}, {kColdWord - 2, kColdWord - 1}}) {
    TuplesNetwork network(p4::programs::switch_cached(), {});
    Mover mover(network);
    TupleClient client{&network, 0, &network.connect(0)};
    EXPECT_TRUE(mover.heat(0));
    client.swap(0, 0, 1);
    EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
    client.swap(3, compare, swap);
    EXPECT_THAT(client.outcomes(), testing::SizeIs(1));
    EXPECT_EQ(network.version(0), 1U);
    EXPECT_EQ(network.holder(0), network.connection_of(0));
  }
}

// The first answer is lost. Before the second one another tuple has the number, and the same version.
TEST(CachedTuples, AnAnswerIsNotJudgedByTheVersionOfAnotherTuple) {
  TuplesNetwork network(cached_program_for(1), {});
  Mover mover(network);
  TupleClient client{&network, 0, &network.connect(0)};
  EXPECT_TRUE(mover.heat(0));
  bool is_lost = false;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    const bool now = from == 1 && !is_lost;
    is_lost = is_lost || now;
    return now ? 0 : -1;
  };
  client.read(0);
  network.run([&] { return is_lost; });
  network.on_send = {};
  EXPECT_TRUE(mover.heat(1));  // in the place of tuple 0
  EXPECT_FALSE(network.control().is_hot(0));
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 1U);
  client.read(0);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 0U);
}

// A WRITE was passed on when the memory's owner released it, and its acknowledgement comes late. It made the version
// even that stands for tuples which are not hot any more: the answer to a READ of such a one could pass as good.
TEST(CachedTuples, ALateAcknowledgementOfForgottenMemoryMakesNoReadGood) {
  TuplesNetwork network(cached_program_for(2), {});
  Mover mover(network);
  TupleClient client{&network, 0, &network.connect(0)};
  EXPECT_TRUE(mover.heat(2));
  client.read(2);
  client.swap(2, 0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess));
  std::vector<std::byte> acknowledgement;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte> frame) {
    if (from != 1) {
      return -1;
    }
    acknowledgement.assign(frame.begin(), frame.end());
    return 0;
  };
  client.write(2, 77);
  network.run([&] { return !acknowledgement.empty(); });
  network.on_send = {};
  network.control().remove_tuples(0);
  network.exchange(1, acknowledgement);  // and it is lost behind the switch
  const p4::RegisterState& versions = network.device().state().reg("Serve.versions");
  EXPECT_EQ(static_cast<std::uint64_t>(versions.read(versions.size() - 1)), kColdWord);
  // The client's NIC repeats the WRITE, and the memory node's has it already.
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(static_cast<std::uint64_t>(versions.read(versions.size() - 1)), kColdWord);
}

// A client that dies with a latch: its tuple stays hot until it is released, and it can move then.
TEST(CachedTuples, WhatADeadClientHeldCanMoveWhenItIsReleased) {
  TuplesNetwork network(cached_program_for(1), {.clients = 2});
  Mover mover(network);
  TupleClient dead{&network, 0, &network.connect(0)};
  TupleClient other{&network, 1, &network.connect(1)};
  EXPECT_TRUE(mover.heat(0));
  dead.swap(0, 0, 1);
  EXPECT_THAT(dead.outcomes(), ElementsAre(kSuccess));
  network.kill(0);
  EXPECT_FALSE(mover.heat(1));
  network.control().fence(network.connection_of(0));
  network.end(0);
  const Released released = network.control().release(network.connection_of(0));
  EXPECT_THAT(released.tuples, ElementsAre(0U));
  EXPECT_TRUE(mover.heat(1));
  EXPECT_EQ(network.memory_node().word(0), 2U);
  other.read(0);
  EXPECT_THAT(other.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(other.tuple_word(), 2U);
}

// ---- Many clients.

struct Truth {
  std::vector<std::map<std::uint64_t, std::uint64_t>> contents;  // by tuple: the content of each version
  std::vector<std::uint64_t> counts;
  int cold = 0;
  int bad = 0;
  int wrong = 0;
};

// Adds 1 to tuples, or latches and gives up.
class Counter {
 public:
  Counter(TupleClient client, std::uint64_t seed, Truth& truth) : client_(client), random_(seed), truth_(&truth) {}
  [[nodiscard]] bool is_done() const { return left_ == 0; }
  [[nodiscard]] bool has_answer() const { return client_.host().sends.size() != 0; }
  void begin() {
    tuple_ = random_() % truth_->counts.size();
    doing_ = Doing::reading;
    client_.read(tuple_);
  }
  void take_answer() {
    for (const Completion& completion : client_.host().sent()) {
      truth_->wrong += completion.status == kSuccess ? 0 : 1;
      answered();
    }
  }

 private:
  enum class Doing : std::uint8_t { reading, latching, ending };
  void answered() {
    switch (doing_) {
      case Doing::reading:
        version_ = client_.tuple_word();
        if (version_ % 2 == 1) {
          ++truth_->bad;
          begin();
          return;
        }
        check();
        doing_ = Doing::latching;
        client_.swap(tuple_, version_, version_ + 1);
        return;
      case Doing::latching:
        if (client_.word() != version_) {
          truth_->cold += client_.word() == kColdWord ? 1 : 0;
          begin();
          return;
        }
        doing_ = Doing::ending;
        gives_up_ = random_() % 4 == 0;
        truth_->contents[tuple_][version_ + 2] = content_ + (gives_up_ ? 0 : 1);
        if (gives_up_) {
          client_.swap(tuple_, version_ + 1, version_ + 2);
        } else {
          client_.write(tuple_, content_ + 1);
        }
        return;
      case Doing::ending:
        truth_->counts[tuple_] += gives_up_ ? 0 : 1;
        if (--left_ != 0) {
          begin();
        }
        return;
    }
  }
  void check() {
    content_ = client_.host().word(8);
    bool is_right = truth_->contents[tuple_].contains(version_) && truth_->contents[tuple_][version_] == content_;
    for (std::uint64_t at = 8; at < client_.network->options().tuple_bytes; at += 8) {
      is_right = is_right && client_.host().word(at) == content_;
    }
    truth_->wrong += is_right ? 0 : 1;
  }
  TupleClient client_;
  std::mt19937_64 random_;
  Truth* truth_;
  Doing doing_ = Doing::reading;
  std::uint64_t tuple_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t content_ = 0;
  bool gives_up_ = false;
  int left_ = 30;
};

TEST(CachedTuples, NoUpdateIsLostAndNoReadIsTornWhileTuplesMove) {
  constexpr std::size_t kClients = 3;
  constexpr std::size_t kTuples = 5;
  const auto program = cached_program_for(2);
  std::uint64_t lost = 0;
  int bad = 0;
  int words_written = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    WireFaults faults;
    if (seed % 2 == 0) {
      faults = {.drop = 0.03, .duplicate = 0.05, .reorder = 0.1};
    }
    TuplesNetwork network(program,
                          {.clients = kClients, .faults = faults, .seed = seed, .defers = true, .tuples = kTuples});
    Mover mover(network);
    Truth truth{.contents = {kTuples, {{0, 0}}}, .counts = std::vector<std::uint64_t>(kTuples)};
    std::vector<Counter> counters;
    for (std::size_t i = 0; i < kClients; ++i) {
      counters.emplace_back(TupleClient{&network, i, &network.connect(i)}, seed * 100 + i, truth);
      counters.back().begin();
    }
    const auto has_answer = [&] { return std::ranges::any_of(counters, &Counter::has_answer); };
    while (!std::ranges::all_of(counters, &Counter::is_done) && truth.wrong == 0) {
      network.run(has_answer);
      ASSERT_TRUE(has_answer()) << "seed " << seed << ": stuck";
      for (Counter& counter : counters) {
        counter.take_answer();
      }
      for (const std::uint32_t tuple : network.control().take_asked()) {
        if (!network.control().is_hot(tuple)) {
          mover.heat(tuple);
        }
      }
    }
    EXPECT_EQ(truth.wrong, 0) << "seed " << seed;
    EXPECT_GT(truth.cold, 10) << "seed " << seed;
    EXPECT_GT(mover.heated, 10) << "seed " << seed;
    network.run();
    for (std::uint32_t t = 0; t < kTuples; ++t) {
      EXPECT_TRUE(!network.control().is_hot(t) || mover.cool(t));
      EXPECT_EQ(network.memory_node().word(t * TuplesNetwork::kSlotBytes + 8), truth.counts[t]) << "seed " << seed;
      EXPECT_EQ(network.memory_node().word(t * TuplesNetwork::kSlotBytes), truth.contents[t].rbegin()->first);
    }
    lost += network.lost();
    bad += truth.bad;
    words_written += mover.words_written;
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(bad, 0);
  EXPECT_GT(words_written, 0);
}

}  // namespace cached_nics
}  // namespace
}  // namespace sidelatch::switchsync
