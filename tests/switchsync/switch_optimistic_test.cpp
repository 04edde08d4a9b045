// p4/switch_optimistic.p4: optimistic latches of a memory node behind a switch, also over links that lose, repeat and
// reorder, and with a memory node that places and samples lines in any order that the memory model allows.
#include "changed_program.h"
#include "tuples_network.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>

#include <p4/switch_optimistic.h>
#include <p4/switch_tuples.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace optimistic {

using namespace softnic::nic;
using testing::ElementsAre;

using ProgramPtr = std::shared_ptr<const p4::Program>;

ProgramPtr interpreted() {
  static const auto kProgram = p4::compile_file(in_source_tree("p4/switch_optimistic.p4"));
  return kProgram;
}

ProgramPtr with(const std::string& right, const std::string& wrong) {
  return changed_program("switch_optimistic.p4", right, wrong);
}

struct Form {
  const char* name;
  ProgramPtr (*make)();
};

class SwitchOptimistic : public testing::TestWithParam<Form> {};

constexpr auto kSuccess = CompletionStatus::success;

// ---- Step by step.

TEST_P(SwitchOptimistic, AnUpdateReadsLatchesAndWrites) {
  TuplesNetwork network(GetParam().make(), {});
  TupleClient client{&network, 0, &network.connect(0)};
  client.read(2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 0U);
  client.swap(2, 0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.word(), 0U);
  EXPECT_EQ(network.version(2), 1U);
  EXPECT_EQ(network.holder(2), network.connection_of(0));
  client.write(2, 77);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(network.version(2), 2U);
  EXPECT_EQ(network.holder(2), std::nullopt);
  // The memory node's tuple has the new version, for who recovers it.
  EXPECT_EQ(network.memory_node().word(2 * TuplesNetwork::kSlotBytes), 2U);
  EXPECT_EQ(network.memory_node().word(2 * TuplesNetwork::kSlotBytes + 184), 77U);
  client.read(2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.tuple_word(), 2U);
  EXPECT_EQ(client.host().word(184), 77U);
  client.read_word(2);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(client.word(), 2U);
}

TEST_P(SwitchOptimistic, ALatchKeepsOthersOutAndMakesTheirReadsFail) {
  TuplesNetwork network(GetParam().make(), {.clients = 2});
  TupleClient holder{&network, 0, &network.connect(0)};
  TupleClient other{&network, 1, &network.connect(1)};
  holder.swap(0, 0, 1);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
  other.swap(0, 0, 1);
  EXPECT_THAT(other.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(other.word(), 1U);
  other.read(0);
  EXPECT_THAT(other.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(other.tuple_word(), 1U);
  // The holder itself may read what only it can change.
  holder.read(0);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(holder.tuple_word(), 1U);
  holder.write(0, 5);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
  holder.swap(0, 2, 3);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
  holder.read(0);
  EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(holder.tuple_word(), 3U);
  other.read(0);
  EXPECT_THAT(other.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(other.tuple_word(), 1U);
}

TEST_P(SwitchOptimistic, AHolderCanUnlatchWithoutAWrite) {
  TuplesNetwork network(GetParam().make(), {});
  TupleClient client{&network, 0, &network.connect(0)};
  client.swap(1, 0, 1);
  client.swap(1, 1, 0);  // as it was
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess));
  EXPECT_EQ(client.word(), 1U);
  EXPECT_EQ(network.version(1), 0U);
  EXPECT_EQ(network.holder(1), std::nullopt);
  client.swap(1, 0, 1);
  client.swap(1, 1, 2);  // with a new version
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess));
  EXPECT_EQ(network.version(1), 2U);
  EXPECT_EQ(network.holder(1), std::nullopt);
}

TEST_P(SwitchOptimistic, WhatIsNotAllowedIsRefusedAndChangesNothing) {
  struct Case {
    const char* what;
    SendRequest request;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  const std::vector<Case> cases = {
      {"a WRITE by who holds no latch", {.kind = WorkKind::write}, 0, 192},
      {"a WRITE of a part", {.kind = WorkKind::write}, 64, 64},
      {"a WRITE of the word", {.kind = WorkKind::write}, 0, 8},
      {"a WRITE over two tuples", {.kind = WorkKind::write}, 128, 192},
      {"a READ of a part", {.kind = WorkKind::read}, 0, 64},
      {"a READ over two tuples", {.kind = WorkKind::read}, 0, 512},
      {"a READ of more than a packet", {.kind = WorkKind::read}, 65536, 4096},
      {"FETCH-ADD", {.kind = WorkKind::fetch_add, .swap_or_add = 1}, 0, 8},
      {"CAS beside the word", {.kind = WorkKind::compare_swap, .compare = 0, .swap_or_add = 1}, 8, 8},
      {"CAS to any number", {.kind = WorkKind::compare_swap, .compare = 0, .swap_or_add = 5}, 0, 8},
      {"CAS down from an even version", {.kind = WorkKind::compare_swap, .compare = 2, .swap_or_add = 1}, 0, 8},
      {"the unlatch of another's latch", {.kind = WorkKind::compare_swap, .compare = 1, .swap_or_add = 2}, 256, 8},
  };
  for (const Case& one : cases) {
    TuplesNetwork network(GetParam().make(), {.clients = 2});
    TupleClient holder{&network, 1, &network.connect(1)};
    holder.swap(1, 0, 1);
    EXPECT_THAT(holder.outcomes(), ElementsAre(kSuccess));
    TupleClient client{&network, 0, &network.connect(0)};
    network.memory_node().fill(0, 4096, 3);
    const std::vector<std::byte> before(network.memory_node().at(0), network.memory_node().at(4096));
    client.post(one.request, 0, 0, one.bytes, one.offset);
    const std::vector<CompletionStatus> outcomes = client.outcomes();
    ASSERT_EQ(outcomes.size(), 1U) << one.what;
    EXPECT_TRUE(outcomes[0] == CompletionStatus::remote_access ||
                outcomes[0] == CompletionStatus::remote_invalid_request)
        << one.what << ": " << static_cast<int>(outcomes[0]);
    EXPECT_TRUE(std::ranges::equal(before, network.memory_node().bytes(0, 4096))) << one.what;
    EXPECT_EQ(network.version(0), 0U) << one.what;
    EXPECT_EQ(network.version(1), 1U) << one.what;
    EXPECT_EQ(network.holder(1), network.connection_of(1)) << one.what;
  }
}

TEST_P(SwitchOptimistic, OtherMemoryPassesBetweenLatchedSteps) {
  TuplesNetwork network(GetParam().make(), {});
  TupleClient client{&network, 0, &network.connect(0)};
  client.swap(3, 0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  // An empty WRITE, also to a tuple's address: nobody's unlatch.
  client.post({.kind = WorkKind::write}, 3, 0, 0);
  client.post({.kind = WorkKind::fetch_add, .swap_or_add = 9}, 0, TupleClient::kWord, 8, 65536);
  client.host().word(16) = 4;
  client.post({.kind = WorkKind::write}, 0, 16, 4, 65544);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess, kSuccess, kSuccess));
  EXPECT_EQ(network.memory_node().word(65536), 9U);
  EXPECT_EQ(network.memory_node().word(65544), 4U);
  EXPECT_EQ(network.version(3), 1U);
  client.read(3);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  client.write(3, 6);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(network.version(3), 2U);
}

// Two WRITEs of two queue pairs are placed in any order; a READ waits for the first.
TEST_P(SwitchOptimistic, AHolderThatHasNotReadTheTupleMayNotWriteIt) {
  TuplesNetwork network(GetParam().make(), {.clients = 2});
  TupleClient first{&network, 0, &network.connect(0)};
  TupleClient blind{&network, 1, &network.connect(1)};
  blind.read(0);  // an older version
  EXPECT_THAT(blind.outcomes(), ElementsAre(kSuccess));
  first.read(0);
  EXPECT_THAT(first.outcomes(), ElementsAre(kSuccess));
  first.swap(0, 0, 1);
  EXPECT_THAT(first.outcomes(), ElementsAre(kSuccess));
  first.write(0, 8);
  EXPECT_THAT(first.outcomes(), ElementsAre(kSuccess));
  blind.swap(0, 2, 3);
  EXPECT_THAT(blind.outcomes(), ElementsAre(kSuccess));
  blind.write(0, 9);
  EXPECT_THAT(blind.outcomes(), testing::SizeIs(1));
  EXPECT_EQ(network.version(0), 3U);
  EXPECT_EQ(network.memory_node().word(8), 8U);
}

// What may be torn is unlatched by a WRITE only, whoever dies.
TEST_P(SwitchOptimistic, ATupleInDoubtStaysInDoubtUntilItIsWritten) {
  TuplesNetwork network(GetParam().make(), {.clients = 3});
  TupleClient dead{&network, 0, &network.connect(0)};
  dead.read(0);
  EXPECT_THAT(dead.outcomes(), ElementsAre(kSuccess));
  dead.swap(0, 0, 1);
  EXPECT_THAT(dead.outcomes(), ElementsAre(kSuccess));
  dead.write(0, 4);
  const std::uint64_t memory_state = network.memory_node().word(8);
  network.run([&] { return network.memory_node().word(8) != memory_state; });  // placed, not acknowledged
  const auto release = [&](std::size_t i) {
    network.kill(i);
    network.control().fence(network.connection_of(i));
    network.end(i);
    return network.control().release(network.connection_of(i));
  };
  EXPECT_THAT(release(0).in_doubt, ElementsAre(0U));
  (void)network.connect(1);
  network.control().give_latch(0, network.connection_of(1));
  EXPECT_THROW(network.control().give_latch(0, network.connection_of(1)), std::logic_error);
  const Released again = release(1);
  EXPECT_THAT(again.in_doubt, ElementsAre(0U));
  EXPECT_THAT(again.tuples, testing::IsEmpty());
  TupleClient third{&network, 2, &network.connect(2)};
  network.control().give_latch(0, network.connection_of(2));
  third.read(0);
  EXPECT_THAT(third.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(third.tuple_word(), 1U);
  third.write(0, 5);
  EXPECT_THAT(third.outcomes(), ElementsAre(kSuccess));
  EXPECT_EQ(network.version(0), 2U);
  // An unlatch is refused.
  TuplesNetwork other(GetParam().make(), {.clients = 1});
  TupleClient one{&other, 0, &other.connect(0)};
  p4::State& state = other.device().state();
  const bool is_pair =
      std::ranges::any_of(state.info().registers, [](const auto& r) { return r.name == "Serve.latches"; });
  state.reg(is_pair ? "latches" : "versions").write(0, 1);
  other.control().give_latch(0, other.connection_of(0));
  one.swap(0, 1, 2);
  EXPECT_THAT(one.outcomes(), ElementsAre(CompletionStatus::remote_access));
  EXPECT_EQ(other.version(0), 1U);
}

// A NAK has the opcode of an acknowledgement.
std::uint64_t version_after_a_nak(const ProgramPtr& program) {
  TuplesNetwork network(program, {});
  Link link;
  link.rights = Rights::remote_read;
  TupleClient client{&network, 0, &network.connect(0, link)};
  client.read(0);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  client.swap(0, 0, 1);
  EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
  client.write(0, 6);
  EXPECT_THAT(client.outcomes(), ElementsAre(CompletionStatus::remote_invalid_request));
  return network.version(0);
}

TEST_P(SwitchOptimistic, ANakUnlatchesNothing) { EXPECT_EQ(version_after_a_nak(GetParam().make()), 1U); }

TEST(BrokenSwitchOptimistic, ANakThatCountsAsAnAcknowledgementIsCaught) {
  EXPECT_EQ(version_after_a_nak(with("&& h.aeth.syndrome[6:5] == 0", "")), 2U);
}

// ---- Many clients, and a network that loses, repeats and reorders.

struct Tally {
  std::uint64_t updates = 0;
  std::uint64_t good_reads = 0;
  std::uint64_t torn_or_latched = 0;  // reads that the switch called so
  std::uint64_t wrong = 0;
  std::uint64_t lost = 0;  // packets
  bool is_stuck = false;
};

// Adds 1 to tuples, or reads them, or latches and gives up; sometimes it posts a second request behind the first one.
class Updater {
 public:
  Updater(TupleClient client, std::uint64_t seed, std::vector<std::map<std::uint64_t, std::uint64_t>>& contents,
          std::vector<std::uint64_t>& counts, Tally& tally)
      : client_(client), random_(seed), contents_(&contents), counts_(&counts), tally_(&tally) {}

  [[nodiscard]] bool is_done() const { return is_dead_ || (left_ == 0 && pending_.empty()); }
  [[nodiscard]] std::size_t number() const { return client_.number; }
  // Its process ends.
  void die() {
    is_dead_ = true;
    pending_.clear();
    client_.network->kill(client_.number);
  }
  // The tuple that it was writing and whose version is not yet another one; what it was to hold then counts for
  // nothing.
  [[nodiscard]] std::optional<std::uint64_t> writes() const {
    return doing_ == Doing::writing ? std::optional(tuple_) : std::nullopt;
  }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // Another connection, after what was under way has been given up. What was read before is still used.
  void go_on_with(QueuePair& pair) {
    client_.pair = &pair;
    pending_.clear();
    ignored_.clear();
    remembered_ = last_;
    if (left_ != 0) {
      begin();
    }
  }
  [[nodiscard]] bool has_answer() const { return client_.host().sends.size() != 0; }
  void begin() {
    if (remembered_ && random_() % 3 == 0) {
      tuple_ = remembered_->tuple;
      version_ = remembered_->version;
      content_ = remembered_->content;
      doing_ = Doing::latching;
      expect(client_.swap(tuple_, version_, version_ + 1));
      return;
    }
    tuple_ = random_() % contents_->size();
    doing_ = Doing::reading;
    expect(client_.read(tuple_));
  }
  void take_answers() {
    if (is_dead_) {
      return;
    }
    for (const Completion& completion : client_.host().sent()) {
      if (completion.status != kSuccess || pending_.empty() || completion.id != pending_.front()) {
        tally_->is_stuck = true;
        return;
      }
      pending_.pop_front();
      if (std::erase(ignored_, completion.id) == 0) {
        answered();
      }
    }
    if (pending_.empty() && left_ != 0) {
      begin();
    }
  }

 private:
  enum class Doing : std::uint8_t { reading, verifying, latching, writing, unlatching };

  void expect(std::uint64_t id) { pending_.push_back(id); }
  void answered() {
    switch (doing_) {
      case Doing::reading:
        return read();
      case Doing::verifying:
        break;
      case Doing::latching:
        return latched();
      case Doing::writing:
        ++tally_->updates;
        ++(*counts_)[tuple_];
        break;
      case Doing::unlatching:
        tally_->wrong += client_.word() == version_ + 1 ? 0U : 1U;
        break;
    }
    doing_ = Doing::reading;
    --left_;
  }
  void read() {
    version_ = client_.tuple_word();
    if (version_ % 2 == 1) {
      ++tally_->torn_or_latched;
      return;
    }
    ++tally_->good_reads;
    content_ = client_.host().word(8);
    bool is_right = (*contents_)[tuple_].contains(version_) && (*contents_)[tuple_][version_] == content_;
    for (std::uint64_t at = 8; at < client_.network->options().tuple_bytes; at += 8) {
      is_right = is_right && client_.host().word(at) == content_;
    }
    tally_->wrong += is_right ? 0U : 1U;
    last_ = {tuple_, version_, content_};
    if (random_() % 3 == 0) {
      doing_ = Doing::verifying;
      expect(client_.read_word(tuple_));
    } else {
      doing_ = Doing::latching;
      expect(client_.swap(tuple_, version_, version_ + 1));
    }
  }
  void latched() {
    if (client_.word() != version_) {
      return;
    }
    const std::uint64_t what = random_() % 8;
    if (what == 0) {
      doing_ = Doing::unlatching;
      expect(client_.swap(tuple_, version_ + 1, version_));
    } else if (what == 1) {
      doing_ = Doing::unlatching;
      (*contents_)[tuple_][version_ + 2] = content_;
      expect(client_.swap(tuple_, version_ + 1, version_ + 2));
    } else {
      doing_ = Doing::writing;
      (*contents_)[tuple_][version_ + 2] = content_ + 1;
      expect(client_.write(tuple_, content_ + 1));
      if (what == 2) {  // a second one in flight
        ignored_.push_back(client_.read(random_() % contents_->size()));
        expect(ignored_.back());
      }
    }
  }

  TupleClient client_;
  std::mt19937_64 random_;
  std::vector<std::map<std::uint64_t, std::uint64_t>>* contents_;  // by tuple: the content of each version
  std::vector<std::uint64_t>* counts_;
  Tally* tally_;
  std::deque<std::uint64_t> pending_;
  std::vector<std::uint64_t> ignored_;
  struct Read {
    std::uint64_t tuple = 0;
    std::uint64_t version = 0;
    std::uint64_t content = 0;
  };
  std::optional<Read> last_;        // the latest good one
  std::optional<Read> remembered_;  // from before a restart
  Doing doing_ = Doing::reading;
  std::uint64_t tuple_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t content_ = 0;
  int left_ = 60;
  bool is_dead_ = false;
};

// Some updaters on one network, and what the tuples hold.
class Scene {
 public:
  Scene(const ProgramPtr& program, const TuplesOptions& options, std::size_t most)
      : network(program, options), contents(options.tuples, {{0, 0}}), counts(options.tuples) {
    link.timeout = options.seed % 2 == 0 ? 3 : 8;  // 33 microseconds, often before the answer; 1 ms
    for (std::size_t i = 0; i < most; ++i) {
      updaters.emplace_back(TupleClient{&network, i, &network.connect(i, link)}, options.seed * 100 + i, contents,
                            counts, tally);
      updaters.back().begin();
    }
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  [[nodiscard]] bool goes_on() const { return !tally.is_stuck && !std::ranges::all_of(updaters, &Updater::is_done); }
  void run_until_an_answer() {
    network.run([&] { return std::ranges::any_of(updaters, &Updater::has_answer); });
    tally.is_stuck = std::ranges::none_of(updaters, &Updater::has_answer) || tally.good_reads > 20'000 ||
                     tally.torn_or_latched > 20'000;
    for (Updater& updater : updaters) {
      updater.take_answers();
    }
  }
  // Checks what is left at the end.
  Tally finish() {
    network.run();
    for (std::uint32_t t = 0; t < counts.size() && !tally.is_stuck; ++t) {
      const std::uint64_t at = std::uint64_t{t} * TuplesNetwork::kSlotBytes;
      tally.wrong += network.memory_node().word(at + 8) == counts[t] ? 0U : 1U;
      // The memory node's version is the last one that was written; a later one may have been given without a WRITE.
      const std::uint64_t kept = network.memory_node().word(at);
      tally.wrong += kept % 2 == 0 && kept <= network.version(t) && network.version(t) % 2 == 0 ? 0U : 1U;
      tally.wrong += network.holder(t) ? 1U : 0U;
    }
    tally.lost = network.lost();
    return tally;
  }

  TuplesNetwork network;
  Link link{};
  Tally tally{};
  std::vector<std::map<std::uint64_t, std::uint64_t>> contents;
  std::vector<std::uint64_t> counts;
  std::vector<Updater> updaters{};
};

Tally run_updaters(const ProgramPtr& program, const TuplesOptions& options) {
  Scene scene(program, options, options.clients);
  while (scene.goes_on()) {
    scene.run_until_an_answer();
  }
  return scene.finish();
}

constexpr WireFaults kBadNetwork{.drop = 0.03, .duplicate = 0.05, .reorder = 0.1};

TEST_P(SwitchOptimistic, NoUpdateIsLostAndNoReadIsTornWhateverTheNetworkDoes) {
  Tally sum;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const WireFaults& faults : {WireFaults{}, kBadNetwork}) {
      const Tally tally =
          run_updaters(GetParam().make(), {.clients = 3, .faults = faults, .seed = seed, .defers = true});
      EXPECT_FALSE(tally.is_stuck) << "seed " << seed;
      EXPECT_EQ(tally.wrong, 0U) << "seed " << seed;
      sum.updates += tally.updates;
      sum.torn_or_latched += tally.torn_or_latched;
      sum.lost += tally.lost;
    }
  }
  EXPECT_GT(sum.updates, 100U);
  EXPECT_GT(sum.torn_or_latched, 10U);
  EXPECT_GT(sum.lost, 10U);
}

// ---- Clients that die, and a switch that restarts.

// Client 0 dies at a random moment; the last client repairs what it has left.
Tally run_with_a_death(const ProgramPtr& program, const TuplesOptions& options, std::array<int, 3>& cases) {
  Scene scene(program, options, options.clients - 1);
  TuplesNetwork& network = scene.network;
  const std::size_t last = options.clients - 1;
  TupleClient repairer{&network, last, &network.connect(last)};
  std::mt19937_64 random(options.seed);
  for (std::uint64_t answers = random() % 60; answers != 0 && scene.goes_on(); --answers) {
    scene.run_until_an_answer();
  }
  Updater& dead = scene.updaters[0];
  dead.die();
  for (std::uint64_t answers = random() % 20; answers != 0 && scene.goes_on(); --answers) {
    scene.run_until_an_answer();
  }
  network.control().fence(network.connection_of(0));
  EXPECT_THROW(network.control().give_latch(0, network.connection_of(0)), std::invalid_argument);
  const auto repair = [&] {
    network.run([&] { return repairer.host().sends.size() != 0; });
    EXPECT_THAT(repairer.host().sent(), testing::SizeIs(1));
  };
  repairer.post({.kind = WorkKind::read}, 0, TupleClient::kWord, 8, 65536);
  repair();
  network.end(0);
  const Released released = network.control().release(network.connection_of(0));
  for (const std::uint32_t t : released.tuples) {
    ++cases[0];
    scene.contents[t][network.version(t)] = scene.contents[t][network.version(t) - 2];
  }
  if (!released.in_doubt.empty()) {
    ++cases[1];
    EXPECT_THAT(released.in_doubt, testing::SizeIs(1));
    const std::uint32_t t = released.in_doubt[0];
    const std::uint64_t content = scene.contents[t][network.version(t) - 1];
    scene.contents[t][network.version(t) + 1] = content;
    network.control().give_latch(t, network.connection_of(last));
    repairer.read(t);
    repair();
    repairer.write(t, content);
    repair();
  } else if (dead.writes() && released.tuples.empty() &&
             network.version(static_cast<std::uint32_t>(*dead.writes())) > dead.version() + 1) {
    ++cases[2];  // it was acknowledged, but the client does not know
    ++scene.counts[*dead.writes()];
  }
  while (scene.goes_on()) {
    scene.run_until_an_answer();
  }
  return scene.finish();
}

TEST_P(SwitchOptimistic, TheLatchesOfTheDeadArePassedOn) {
  std::array<int, 3> cases{};
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Tally tally = run_with_a_death(
        GetParam().make(),
        {.clients = 4, .faults = seed % 3 == 0 ? WireFaults{} : kBadNetwork, .seed = seed, .defers = true}, cases);
    EXPECT_FALSE(tally.is_stuck) << "seed " << seed;
    EXPECT_EQ(tally.wrong, 0U) << "seed " << seed;
  }
  EXPECT_THAT(cases, testing::Each(testing::Gt(0)));
}

// Everything ends at a random moment, and goes on with new connections; the switch knows what the tuples say.
Tally run_with_a_restart(const ProgramPtr& program, const TuplesOptions& options, bool reads_back) {
  Scene scene(program, options, options.clients);
  std::mt19937_64 random(options.seed);
  for (std::uint64_t answers = 20 + random() % 60; answers != 0 && scene.goes_on(); --answers) {
    scene.run_until_an_answer();
  }
  scene.network.restart(reads_back);
  for (std::uint32_t t = 0; t < options.tuples; ++t) {
    // A WRITE that was on its way has happened or not; nobody has seen that version otherwise.
    const std::uint64_t content = scene.network.memory_node().word(std::uint64_t{t} * TuplesNetwork::kSlotBytes + 8);
    scene.contents[t][scene.network.version(t)] = content;
    scene.tally.wrong += content == scene.counts[t] || content == scene.counts[t] + 1 ? 0U : 1U;
    scene.counts[t] = content;
  }
  for (Updater& updater : scene.updaters) {
    updater.go_on_with(scene.network.connect(updater.number(), scene.link));
  }
  while (scene.goes_on()) {
    scene.run_until_an_answer();
  }
  return scene.finish();
}

TEST_P(SwitchOptimistic, ARestartedSwitchTakesItsVersionsFromTheTuples) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Tally tally =
        run_with_a_restart(GetParam().make(), {.clients = 3, .faults = kBadNetwork, .seed = seed}, true);
    EXPECT_FALSE(tally.is_stuck) << "seed " << seed;
    EXPECT_EQ(tally.wrong, 0U) << "seed " << seed;
  }
}

TEST(BrokenSwitchOptimistic, ARestartThatForgetsTheVersionsIsCaught) {
  bool is_caught = false;
  for (std::uint64_t seed = 1; seed <= 20 && !is_caught; ++seed) {
    const Tally tally = run_with_a_restart(interpreted(), {.clients = 3, .seed = seed}, false);
    is_caught = tally.is_stuck || tally.wrong != 0;
  }
  EXPECT_TRUE(is_caught);
}

// A second switch takes over at a random moment, while the memory node has WRITEs that are acknowledged and not placed.
// Of the clients whose WRITE of a tuple has no answer, the one with the latest version writes it again, unless the
// tuple has a later one. `again`: how often.
Tally run_with_a_second_switch(const ProgramPtr& program, const TuplesOptions& options, bool drains, int& again) {
  Scene scene(program, options, options.clients);
  TuplesNetwork& network = scene.network;
  std::mt19937_64 random(options.seed);
  for (std::uint64_t answers = 20 + random() % 60; answers != 0 && scene.goes_on(); --answers) {
    scene.run_until_an_answer();
  }
  network.fail_over(drains);
  for (Updater& updater : scene.updaters) {
    updater.take_answers();
  }
  const std::vector<std::uint64_t> headers = network.recover_versions();
  std::vector<QueuePair*> pairs;
  for (const Updater& updater : scene.updaters) {
    pairs.push_back(&network.connect(updater.number(), scene.link));
  }
  for (std::uint32_t t = 0; t < options.tuples; ++t) {
    std::uint64_t writers = 0;
    const Updater* latest = nullptr;
    for (const Updater& updater : scene.updaters) {
      if (updater.writes() == t) {
        ++writers;
        const bool is_later = latest == nullptr || updater.version() > latest->version();
        latest = updater.version() + 2 >= headers[t] && is_later ? &updater : latest;
      }
    }
    if (latest != nullptr) {
      ++again;
      TupleClient client{&network, latest->number(), pairs.at(latest->number())};
      const std::uint64_t version = network.version(t);
      client.read(t);
      EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
      client.swap(t, version, version + 1);
      EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
      client.write(t, scene.contents[t][latest->version() + 2]);
      EXPECT_THAT(client.outcomes(), ElementsAre(kSuccess));
    }
    network.run();
    const std::uint64_t at = std::uint64_t{t} * TuplesNetwork::kSlotBytes;
    const std::uint64_t content = network.memory_node().word(at + 8);
    bool is_right = content >= scene.counts[t] && content <= scene.counts[t] + writers;
    for (std::uint64_t word = 8; word < options.tuple_bytes; word += 8) {
      is_right = is_right && network.memory_node().word(at + word) == content;
    }
    scene.tally.wrong += is_right ? 0U : 1U;
    scene.contents[t][network.version(t)] = content;
    scene.counts[t] = content;
  }
  for (Updater& updater : scene.updaters) {
    updater.go_on_with(*pairs.at(updater.number()));
  }
  while (scene.goes_on()) {
    scene.run_until_an_answer();
  }
  return scene.finish();
}

TEST_P(SwitchOptimistic, ASecondSwitchTakesOver) {
  int again = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Tally tally = run_with_a_second_switch(
        GetParam().make(), {.clients = 3, .faults = kBadNetwork, .seed = seed, .defers = true}, true, again);
    EXPECT_FALSE(tally.is_stuck) << "seed " << seed;
    EXPECT_EQ(tally.wrong, 0U) << "seed " << seed;
  }
  EXPECT_GT(again, 0);
}

TEST(BrokenSwitchOptimistic, ASecondSwitchThatDoesNotWaitForWhatIsAcknowledgedIsCaught) {
  bool is_caught = false;
  int again = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !is_caught; ++seed) {
    const Tally tally =
        run_with_a_second_switch(interpreted(), {.clients = 3, .seed = seed, .defers = true}, false, again);
    is_caught = tally.is_stuck || tally.wrong != 0;
  }
  EXPECT_TRUE(is_caught);
}

bool is_caught(const ProgramPtr& program) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Tally tally =
        run_updaters(program, {.clients = 3, .faults = kBadNetwork, .seed = seed, .defers = true, .tuples = 2});
    if (tally.is_stuck || tally.wrong != 0) {
      return true;
    }
  }
  return false;
}

TEST(BrokenSwitchOptimistic, AVerdictThatIsAlwaysGoodIsCaught) {
  EXPECT_TRUE(is_caught(with("bit<64> verdict = 1;", "bit<64> verdict = version & ~64w1;")));
}
TEST(BrokenSwitchOptimistic, AVersionThatIsStoredAgainForARepeatedReadIsCaught) {
  EXPECT_TRUE(is_caught(with("        if (kind == ANSWERED) {\n            if (is_new)",
                             "        if (kind == READ) { seen.write(connection, version); }\n"
                             "        if (kind == ANSWERED) {\n            if (is_new)")));
}
TEST(BrokenSwitchOptimistic, ASecondAcknowledgementThatUnlatchesIsCaught) {
  EXPECT_TRUE(is_caught(with("bool is_first = latest & WAITING != 0;", "bool is_first = true;")));
}
TEST(BrokenSwitchOptimistic, SeveralRequestsInFlightAreCaught) {
  EXPECT_TRUE(is_caught(with("bool is_waiting = latest & WAITING != 0;", "bool is_waiting = false;")));
}
TEST(BrokenSwitchOptimistic, ARepeatedLatchThatIsExecutedAgainIsCaught) {
  EXPECT_TRUE(is_caught(with("                kept.read(old, connection);", "")));
}
TEST(BrokenSwitchOptimistic, AVersionThatIsNotPutIntoTheTupleIsCaught) {
  EXPECT_TRUE(is_caught(with("h.word.value = turned(version + 1);", "")));
}

INSTANTIATE_TEST_SUITE_P(Forms, SwitchOptimistic,
                         testing::Values(Form{"interpreted", &interpreted},
                                         Form{"compiled", &p4::programs::switch_optimistic},
                                         Form{"short_versions", &p4::programs::switch_tuples}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace optimistic
}  // namespace
}  // namespace sidelatch::switchsync
