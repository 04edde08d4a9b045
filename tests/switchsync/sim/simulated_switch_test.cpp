// The compiled switch programs between simulated nodes: words at the switch, and tuples behind it.
#include <sidelatch/switchsync/sim/simulated_switch.h>

#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/switchsync/optimistic_switch.h>
#include <sidelatch/switchsync/word_switch.h>

#include <p4/switch_atomics.h>
#include <p4/switch_optimistic.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace sidelatch::switchsync {
namespace {

using namespace fabric;

constexpr std::uint32_t kKey = 0x5eed;
constexpr std::uint64_t kWordsAddress = 0x1000'0000;
constexpr std::uint16_t kMemory = 100;  // the station that the clients' requests are for

std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Clients of words that the switch hosts. The node that their queue pairs are connected to has no memory.
struct Words {
  explicit Words(std::uint16_t clients)
      : simulation({.profile = sim::load_profile("connectx5"), .seed = 1}),
        between(p4::programs::switch_atomics(), switch_timing("tofino")),
        control(between.device().state()) {
    Node& nobody = simulation.add_node("switch");
    control.serve(SimulatedSwitch::ip_of(kMemory), SimulatedSwitch::mac_of(kMemory));
    control.add_words({.rkey = kKey, .address = kWordsAddress, .first = 0, .count = 64});
    for (std::uint16_t i = 0; i < clients; ++i) {
      Node& node = simulation.add_node("client");
      control.add_station(SimulatedSwitch::mac_of(i), i);
      pairs.push_back(node.connect(nobody));
      buffers.push_back(node.allocate(64, Access::local_write));
      connection = simulation.pass_through(*pairs.back(), between);
      add(i, 5);
    }
  }

  // Makes the client and its last connection known to switch and program.
  void add(std::uint16_t i, std::uint32_t first_psn) {
    const SimulatedSwitch::Ends ends{.client = i,
                                     .client_queue_pair = 17U + i,
                                     .target = kMemory,
                                     .target_queue_pair = 0x100U + i,
                                     .first_psn = first_psn};
    control.connect({.ip = SimulatedSwitch::ip_of(kMemory),
                     .queue_pair = ends.target_queue_pair,
                     .client = SimulatedSwitch::ip_of(i),
                     .client_queue_pair = ends.client_queue_pair,
                     .client_psn = ends.first_psn});
    between.add(connection, ends);
  }

  [[nodiscard]] static RemoteSpan word(std::uint64_t index) {
    return {RemoteAddress{kWordsAddress + 8 * index}, 8, RKey{kKey}};
  }

  sim::Simulation simulation;
  SimulatedSwitch between;
  WordSwitch control;
  std::uint64_t connection = 0;  // of the last client
  std::vector<std::unique_ptr<QueuePair>> pairs;
  std::vector<MemoryRegion> buffers;
};

Task<void> add_all(QueuePair* pair, int times, std::vector<std::uint64_t>* seen) {
  for (int i = 0; i < times; ++i) {
    seen->push_back(co_await pair->fetch_add(Words::word(3), 1));
  }
}

// Each value is given once, as by one atomic counter.
TEST(SimulatedSwitch, CountsForClientsAtOnce) {
  Words words(3);
  words.control.set_word(3, 1000);
  std::vector<std::vector<std::uint64_t>> seen(3);
  for (std::size_t i = 0; i < 3; ++i) {
    words.simulation.reactor().spawn(add_all(words.pairs[i].get(), 200, &seen[i]));
  }
  words.simulation.reactor().run();
  std::vector<std::uint64_t> all;
  for (const std::vector<std::uint64_t>& one : seen) {
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
    all.insert(all.end(), one.begin(), one.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 600U);
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i], 1000 + i);
  }
  EXPECT_EQ(words.control.word(3), 1600U);
}

Task<void> each_operation(QueuePair* pair, MemoryRegion* buffer) {
  const std::uint64_t value = 0x0102'0304'0506'0708;
  std::memcpy(buffer->bytes().data(), &value, sizeof value);
  co_await pair->write(buffer->local(0, 8), Words::word(1));
  co_await pair->read(buffer->local(8, 8), Words::word(1));
  EXPECT_EQ(number_in(buffer->bytes().subspan(8)), value);
  const std::uint64_t old = co_await pair->compare_swap(Words::word(1), value, 7);
  EXPECT_EQ(old, value);
  const std::uint64_t failed = co_await pair->compare_swap(Words::word(1), value, 9);
  EXPECT_EQ(failed, 7U);
}

TEST(SimulatedSwitch, AnswersEachOperationOnWords) {
  Words words(1);
  words.simulation.reactor().run(each_operation(words.pairs[0].get(), &words.buffers[0]));
  EXPECT_EQ(words.control.word(1), 7U);
}

Task<void> beyond_the_end(QueuePair* pair, Status* status) {
  try {
    co_await pair->fetch_add(Words::word(64), 1);
  } catch (const FabricError& error) {
    *status = error.status();
  }
}

TEST(SimulatedSwitch, RefusesWhatIsNotInTheRegion) {
  Words words(1);
  Status status = Status::flushed;
  words.simulation.reactor().run(beyond_the_end(words.pairs[0].get(), &status));
  EXPECT_EQ(status, Status::remote_access);
}

Task<void> one_add(QueuePair* pair) { co_await pair->fetch_add(Words::word(0), 1); }
Task<void> one_add_to(QueuePair* pair, RemoteSpan word) { co_await pair->fetch_add(word, 1); }

TEST(SimulatedSwitch, IsNearerThanANode) {
  Words words(1);
  Reactor& reactor = words.simulation.reactor();
  reactor.run(one_add(words.pairs[0].get()));
  const Time at_switch = reactor.now();
  sim::Simulation plain({.profile = sim::load_profile("connectx5"), .seed = 1});
  Node& storage = plain.add_node("storage");
  const MemoryRegion table = storage.allocate(64, Access::remote_all);
  const auto pair = plain.add_node("client").connect(storage);
  plain.reactor().run(one_add_to(pair.get(), table.remote(0, 8)));
  EXPECT_LT(at_switch, plain.reactor().now());
}

constexpr std::uint64_t kTupleBytes = 512;
constexpr std::uint64_t kSlotBytes = 512;

// Clients of tuples of a memory node behind the switch.
struct Tuples {
  explicit Tuples(std::uint16_t clients, std::uint64_t seed)
      : simulation({.profile = scattered(), .seed = seed}),
        between(p4::programs::switch_optimistic(), switch_timing("tofino")),
        control(between.device().state()),
        table(memory.allocate(2 * kSlotBytes, Access::remote_all)) {
    control.add_station(SimulatedSwitch::mac_of(kMemory), kMemory);
    control.add_tuples({.memory_node = SimulatedSwitch::ip_of(kMemory),
                        .rkey = table.rkey().value,
                        .address = table.remote().address.value,
                        .count = 2,
                        .tuple_bytes = kTupleBytes,
                        .slot_bytes = kSlotBytes,
                        .path_mtu = 1024,
                        .is_new = true});
    for (std::uint16_t i = 0; i < clients; ++i) {
      Node& node = simulation.add_node("client");
      control.add_station(SimulatedSwitch::mac_of(i), i);
      pairs.push_back(node.connect(memory));
      buffers.push_back(node.allocate(kTupleBytes, Access::local_write));
      const SimulatedSwitch::Ends ends{.client = i,
                                       .client_queue_pair = 17U + i,
                                       .target = kMemory,
                                       .target_queue_pair = 0x100U + i,
                                       .first_psn = 9};
      control.connect({.client = SimulatedSwitch::ip_of(i),
                       .client_queue_pair = ends.client_queue_pair,
                       .client_psn = ends.first_psn,
                       .memory_node = SimulatedSwitch::ip_of(kMemory),
                       .memory_queue_pair = ends.target_queue_pair});
      between.add(simulation.pass_through(*pairs.back(), between), ends);
    }
  }
  // Lines of a READ are often sampled late, so that reads tear.
  static sim::Profile scattered() {
    sim::Profile profile = sim::load_profile("connectx5");
    profile.pcie.reorder_probability = 0.3;
    return profile;
  }
  [[nodiscard]] RemoteSpan tuple() const { return table.remote(0, kTupleBytes); }
  [[nodiscard]] RemoteSpan word() const { return table.remote(0, 8); }

  sim::Simulation simulation;
  SimulatedSwitch between;
  OptimisticSwitch control;
  Node& memory = simulation.add_node("memory");
  MemoryRegion table;
  std::vector<std::unique_ptr<QueuePair>> pairs;
  std::vector<MemoryRegion> buffers;
};

struct Seen {
  int reads = 0;
  int good = 0;
  int torn = 0;           // and called good
  int torn_and_said = 0;  // and the word says so
  int writes = 0;
};

bool is_torn(std::span<const std::byte> tuple) {
  return std::any_of(tuple.begin() + 16, tuple.end(), [&](std::byte one) { return one != tuple[8]; });
}

Task<void> read_often(Tuples* tuples, std::size_t i, int times, Seen* seen) {
  MemoryRegion& buffer = tuples->buffers[i];
  for (int n = 0; n < times; ++n) {
    co_await tuples->pairs[i]->read(buffer.local(), tuples->tuple());
    const bool good = number_in(buffer.bytes()) % 2 == 0;
    const bool torn = is_torn(buffer.bytes());
    ++seen->reads;
    seen->good += good ? 1 : 0;
    seen->torn += good && torn ? 1 : 0;
    seen->torn_and_said += !good && torn ? 1 : 0;
  }
}

// Reads the tuple, latches the version that it has read, writes all bytes anew.
Task<void> write_often(Tuples* tuples, std::size_t i, int times, Seen* seen) {
  MemoryRegion& buffer = tuples->buffers[i];
  QueuePair& pair = *tuples->pairs[i];
  while (seen->writes < times) {
    co_await pair.read(buffer.local(), tuples->tuple());
    const std::uint64_t version = number_in(buffer.bytes());
    if (version % 2 != 0) {
      continue;
    }
    const std::uint64_t old = co_await pair.compare_swap(tuples->word(), version, version + 1);
    if (old != version) {
      continue;
    }
    EXPECT_FALSE(is_torn(buffer.bytes())) << "the version was current, and the tuple torn";
    std::fill(buffer.bytes().begin() + 8, buffer.bytes().end(), static_cast<std::byte>(version / 2 + i));
    co_await pair.write(buffer.local(), tuples->tuple());
    ++seen->writes;
  }
}

TEST(SimulatedSwitch, NoTornTupleIsCalledGood) {
  Seen all;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Tuples tuples(4, seed);
    std::array<Seen, 4> seen;
    for (std::size_t i = 0; i < 4; ++i) {
      tuples.simulation.reactor().spawn(i < 2 ? read_often(&tuples, i, 300, &seen[i])
                                              : write_often(&tuples, i, 60, &seen[i]));
    }
    tuples.simulation.reactor().run();
    for (const Seen& one : seen) {
      all.good += one.good;
      all.torn += one.torn;
      all.torn_and_said += one.torn_and_said;
    }
    EXPECT_EQ(tuples.control.version(0), 2U * 120);
    EXPECT_EQ(number_in(tuples.table.bytes()), 2U * 120) << "each WRITE carries the version that the switch gives";
  }
  EXPECT_EQ(all.torn, 0);
  EXPECT_GT(all.good, 0);
  EXPECT_GT(all.torn_and_said, 0) << "without the switch's verdict nothing would be wrong here";
}

Task<void> write_unlatched(Tuples* tuples, Status* status) {
  try {
    co_await tuples->pairs[0]->write(tuples->buffers[0].local(), tuples->tuple());
  } catch (const FabricError& error) {
    *status = error.status();
  }
}

TEST(SimulatedSwitch, RefusesAWriteWithoutTheLatch) {
  Tuples tuples(1, 1);
  Status status = Status::flushed;
  tuples.simulation.reactor().run(write_unlatched(&tuples, &status));
  EXPECT_EQ(status, Status::remote_access);
  EXPECT_EQ(number_in(tuples.table.bytes()), 0U);
}

Task<void> good_after_bad(Words* words, int* good) {
  QueuePair& pair = *words->pairs[0];
  Status status = Status::flushed;
  co_await beyond_the_end(&pair, &status);
  EXPECT_EQ(status, Status::remote_access);
  co_await pair.reconnect();
  // The switch takes nothing more of the old connection; a new one takes its place.
  words->control.disconnect(0);
  words->between.remove(words->connection);
  words->add(0, 77);
  co_await pair.fetch_add(Words::word(0), 1);
  ++*good;
}

TEST(SimulatedSwitch, AConnectionIsMadeAnewAfterARefusal) {
  Words words(1);
  int good = 0;
  words.simulation.reactor().run(good_after_bad(&words, &good));
  EXPECT_EQ(good, 1);
  EXPECT_EQ(words.control.word(0), 1U);
}

Task<void> chain_of_adds(QueuePair* pair, std::vector<std::uint64_t>* seen) {
  const std::array<WorkRequest, 3> chain{fetch_add(Words::word(5), 10), fetch_add(Words::word(5), 10),
                                         fetch_add(Words::word(5), 10).with_signal()};
  seen->resize(3);
  co_await pair->submit(std::span<const WorkRequest>(chain), *seen);
}

TEST(SimulatedSwitch, SeveralRequestsMayBeOnTheirWay) {
  Words words(1);
  std::vector<std::uint64_t> seen;
  words.simulation.reactor().run(chain_of_adds(words.pairs[0].get(), &seen));
  EXPECT_THAT(seen, testing::ElementsAre(0, 10, 20));
}

TEST(SimulatedSwitch, SaysWhatIsWrong) {
  EXPECT_THROW(static_cast<void>(switch_timing("tomahawk")), std::invalid_argument);
  Words words(1);
  EXPECT_THROW(words.between.add(words.connection, {}), std::invalid_argument);
  EXPECT_THROW(words.between.add(words.connection + 1, {.client = 600}), std::invalid_argument);
  EXPECT_THROW(words.between.remove(words.connection + 1), std::invalid_argument);
  EXPECT_THROW(words.control.add_words({.rkey = 1, .address = 0, .first = 0, .count = 1U << 30}),
               std::invalid_argument);
  EXPECT_THROW(words.control.add_words({.rkey = 1, .address = 4, .first = 0, .count = 1}), std::invalid_argument);
  EXPECT_THROW(words.control.connect({.queue_pair = 1U << 24}), std::invalid_argument);
  EXPECT_THROW(words.control.disconnect(7), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::switchsync
