// Adapters on wires in shared memory: each has its own thread, and the test's threads call them.
#include "softnic/adapter.h"

#include "roce/wire/wires.h"
#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

namespace sidelatch::softnic {
namespace {

using namespace std::chrono_literals;
using nic::Attributes;
using nic::QueuePairState;
using testing::HasSubstr;

std::unique_ptr<roce::Wire> join(const std::string& name) {
  return roce::join_shared_memory_wire({.name = name, .folder = roce::own_folder()});
}

// An adapter with a region of memory, a completion queue and an RC queue pair.
class Station {
 public:
  explicit Station(std::unique_ptr<roce::Wire> wire, const Settings& settings = {})
      : memory_(512), adapter(settings, std::move(wire)) {
    adapter.call([this](nic::Nic& nic) {
      const nic::Domain domain = nic.make_domain();
      key = nic.register_memory({.data = reinterpret_cast<std::byte*>(memory_.data()),
                                 .length = memory_.size() * sizeof(std::uint64_t),
                                 .address = address(0),
                                 .domain = domain,
                                 .rights = nic::Rights::all});
      completions = &nic.make_completion_queue(256);
      pair = &nic.make_queue_pair({.domain = domain,
                                   .send_completions = completions,
                                   .receive_completions = completions,
                                   .send_depth = 64,
                                   .receive_depth = 64});
    });
  }

  std::uint64_t address(std::size_t word) const { return reinterpret_cast<std::uintptr_t>(memory_.data() + word); }
  std::uint64_t& word(std::size_t i) { return memory_[i]; }
  nic::Sge sge(std::size_t word, std::uint32_t bytes = 8) const { return {address(word), bytes, key}; }

  void connect(const Station& other) {
    const auto mac = adapter.resolve(other.adapter.options().gids[0], 1000ms);
    ASSERT_TRUE(mac);
    adapter.call([&](nic::Nic&) {
      const nic::QueuePairAttributes values{.state = QueuePairState::init, .rights = nic::Rights::all};
      pair->modify(values, Attributes::state | Attributes::rights | Attributes::p_key_index | Attributes::port);
      pair->modify({.state = QueuePairState::rtr,
                    .address = {.mac = *mac, .gid = other.adapter.options().gids[0]},
                    .path_mtu = roce::PathMtu::b1024,
                    .min_rnr_timer = 1,
                    .max_dest_rd_atomic = 16,
                    .remote_qp = other.pair->number()},
                   Attributes::state | Attributes::address | Attributes::path_mtu | Attributes::remote_qp |
                       Attributes::receive_psn | Attributes::max_dest_rd_atomic | Attributes::min_rnr_timer);
      // 4.096 us * 2^14 = 67 ms.
      pair->modify({.state = QueuePairState::rts, .timeout = 14, .retry_count = 7, .rnr_retry = 7, .max_rd_atomic = 16},
                   Attributes::state | Attributes::timeout | Attributes::retry_count | Attributes::rnr_retry |
                       Attributes::send_psn | Attributes::max_rd_atomic);
    });
  }

  nic::Post post(const nic::SendRequest& request) {
    return adapter.post([&](nic::Nic&) { return pair->post_send(request); });
  }

  // Polls until there is a completion.
  nic::Completion next() {
    std::array<nic::Completion, 1> completion{};
    while (adapter.poll([&](nic::Nic&) { return completions->poll(completion); }) == 0) {
    }
    return completion[0];
  }

  nic::Completion run(const nic::SendRequest& request) {
    EXPECT_EQ(post(request), nic::Post::done);
    return next();
  }

 private:
  std::vector<std::uint64_t> memory_;

 public:
  Adapter adapter;
  std::uint32_t key = 0;
  nic::CompletionQueue* completions = nullptr;
  nic::QueuePair* pair = nullptr;
};

struct Two {
  explicit Two(const Settings& settings = {}, const std::string& name = roce::new_wire_name())
      : client(join(name), settings), server(join(name), settings) {
    client.connect(server);
    server.connect(client);
  }
  Station client;
  Station server;
};

TEST(Adapter, CarriesOutWhatIsPostedWhilePolled) {
  Two two;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const nic::Sge to = two.client.sge(0);
    ASSERT_EQ(two.client
                  .run({.kind = nic::WorkKind::fetch_add,
                        .signaled = true,
                        .sges = {&to, 1},
                        .remote_address = two.server.address(3),
                        .rkey = two.server.key,
                        .swap_or_add = 2})
                  .status,
              nic::CompletionStatus::success);
    ASSERT_EQ(two.client.word(0), 2 * i);
  }
}

TEST(Adapter, TheThreadCarriesOutWhatNobodyPollsFor) {
  Two two;
  two.client.word(0) = 77;
  const nic::Sge from = two.client.sge(0);
  const nic::SendRequest write{.kind = nic::WorkKind::write,
                               .sges = {&from, 1},
                               .remote_address = two.server.address(1),
                               .rkey = two.server.key};
  ASSERT_EQ(two.client.post(write), nic::Post::done);
  std::atomic_ref<std::uint64_t> word(two.server.word(1));
  while (word.load(std::memory_order_acquire) != 77) {
    std::this_thread::yield();
  }
}

// As ib_write_lat: poll for the completion of the own WRITE, then watch memory for the peer's. The threads drive for
// who watches, and callers for themselves, over the same wire.
TEST(Adapter, ServesProgramsThatPollAndThenWatchMemory) {
  Two two;
  constexpr std::uint64_t kRounds = 500;
  const auto play = [](Station& own, Station& other, bool begins) {
    std::atomic_ref<std::uint64_t> seen(own.word(1));
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (!begins && seen.load(std::memory_order_acquire) < round) {
        std::this_thread::yield();
      }
      own.word(0) = round;
      const nic::Sge from = own.sge(0);
      ASSERT_EQ(own.run({.kind = nic::WorkKind::write,
                         .signaled = true,
                         .sges = {&from, 1},
                         .remote_address = other.address(1),
                         .rkey = other.key})
                    .status,
                nic::CompletionStatus::success);
      while (begins && seen.load(std::memory_order_acquire) < round) {
        std::this_thread::yield();
      }
    }
  };
  std::thread peer([&] { play(two.server, two.client, false); });
  play(two.client, two.server, true);
  peer.join();
  // More than one burst of frames in one call, and then nobody calls.
  constexpr std::uint64_t kWrites = 64;
  constexpr std::uint32_t kHalf = 256;
  std::iota(&two.client.word(0), &two.client.word(kHalf), kRounds);
  const nic::Sge from = two.client.sge(0, kHalf * sizeof(std::uint64_t));
  two.client.adapter.post([&](nic::Nic&) {
    for (std::uint64_t i = 0; i < kWrites; ++i) {
      EXPECT_EQ(two.client.pair->post_send({.kind = nic::WorkKind::write,
                                            .sges = {&from, 1},
                                            .remote_address = two.server.address(i + 1 == kWrites ? kHalf : 0),
                                            .rkey = two.server.key}),
                nic::Post::done);
    }
    return 0;
  });
  std::atomic_ref<std::uint64_t> last(two.server.word(2 * kHalf - 1));
  while (last.load(std::memory_order_acquire) != kRounds + kHalf - 1) {
    std::this_thread::yield();
  }
}

TEST(Adapter, SaysWhenACompletionComesToWhoSleeps) {
  Two two;
  std::mutex mutex;
  std::condition_variable heard;
  bool has_come = false;
  two.client.adapter.listen([&](nic::Nic&) {
    if (two.client.completions->take_notification()) {
      const std::unique_lock lock(mutex);
      has_come = true;
      heard.notify_all();
    }
  });
  for (int i = 0; i < 200; ++i) {
    two.client.adapter.call([&](nic::Nic&) { two.client.completions->arm(nic::CompletionQueue::Arm::any); });
    const nic::Sge to = two.client.sge(0);
    ASSERT_EQ(two.client.post({.id = 5,
                               .kind = nic::WorkKind::read,
                               .signaled = true,
                               .sges = {&to, 1},
                               .remote_address = two.server.address(0),
                               .rkey = two.server.key}),
              nic::Post::done);
    two.client.adapter.rest();
    std::unique_lock lock(mutex);
    heard.wait(lock, [&] { return has_come; });
    has_come = false;
    lock.unlock();
    ASSERT_EQ(two.client.next().id, 5U);
  }
}

// One region of the server and many client threads, each with its own increments: nothing is lost.
TEST(Adapter, ServesManyThreads) {
  Two two;
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> left = kThreads * kEach;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const nic::Sge to = two.client.sge(static_cast<std::size_t>(t));
      const nic::SendRequest add{.kind = nic::WorkKind::fetch_add,
                                 .signaled = true,
                                 .sges = {&to, 1},
                                 .remote_address = two.server.address(9),
                                 .rkey = two.server.key,
                                 .swap_or_add = 1};
      for (int i = 0; i < kEach; ++i) {
        while (two.client.post(add) == nic::Post::full) {
          std::this_thread::yield();
        }
        // Any thread takes any completion.
        std::array<nic::Completion, 8> some{};
        left -=
            static_cast<int>(two.client.adapter.poll([&](nic::Nic&) { return two.client.completions->poll(some); }));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  while (left > 0) {
    std::array<nic::Completion, 8> some{};
    left -= static_cast<int>(two.client.adapter.poll([&](nic::Nic&) { return two.client.completions->poll(some); }));
  }
  const nic::Sge to = two.client.sge(0);
  ASSERT_EQ(two.client
                .run({.kind = nic::WorkKind::read,
                      .signaled = true,
                      .sges = {&to, 1},
                      .remote_address = two.server.address(9),
                      .rkey = two.server.key})
                .status,
            nic::CompletionStatus::success);
  EXPECT_EQ(two.client.word(0), std::uint64_t{kThreads} * kEach);
}

TEST(Adapter, KeepsWritesWholeOverAWireThatLosesFrames) {
  const std::string name = roce::new_wire_name();
  const roce::FaultOptions faults{.seed = 5, .loss = 0.05, .duplication = 0.05, .reordering = 0.05};
  Station client(roce::with_faults(join(name), faults));
  Station server(roce::with_faults(join(name), faults));
  client.connect(server);
  server.connect(client);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    const nic::Sge to = client.sge(0);
    ASSERT_EQ(client
                  .run({.kind = nic::WorkKind::fetch_add,
                        .signaled = true,
                        .sges = {&to, 1},
                        .remote_address = server.address(0),
                        .rkey = server.key,
                        .swap_or_add = 1})
                  .status,
              nic::CompletionStatus::success);
    ASSERT_EQ(client.word(0), i - 1);
  }
  EXPECT_GT(client.adapter.wire_counters().faults.lost, 0U);
}

TEST(Adapter, WithAnOrderReadersTear) {
  Settings settings;
  settings.order = fabric::model::Preset::relaxed;
  Two two(settings);
  constexpr std::size_t kWords = 128;
  std::uint64_t torn = 0;
  // A READ and a WRITE of one object are in flight at the same time.
  for (std::uint64_t round = 1; round <= 2000 && torn == 0; ++round) {
    const nic::Sge to = two.client.sge(0, kWords * 8);
    const nic::Sge from = two.client.sge(kWords, kWords * 8);
    for (std::size_t i = 0; i < kWords; ++i) {
      two.client.word(kWords + i) = round;
    }
    const nic::SendRequest read{.kind = nic::WorkKind::read,
                                .signaled = true,
                                .sges = {&to, 1},
                                .remote_address = two.server.address(0),
                                .rkey = two.server.key};
    nic::SendRequest write = read;
    write.kind = nic::WorkKind::write;
    write.sges = {&from, 1};
    ASSERT_EQ(two.client.post(read), nic::Post::done);
    ASSERT_EQ(two.client.post(write), nic::Post::done);
    ASSERT_EQ(two.client.next().status, nic::CompletionStatus::success);
    ASSERT_EQ(two.client.next().status, nic::CompletionStatus::success);
    for (std::size_t i = 1; i < kWords; ++i) {
      torn += two.client.word(i) != two.client.word(0) ? 1U : 0U;
    }
  }
  EXPECT_GT(torn, 0U);
}

TEST(Adapter, AnAddressThatNobodyHasIsNotResolved) {
  Two two;
  EXPECT_EQ(two.client.adapter.resolve(roce::gid_of({192, 0, 2, 1}), 5ms), std::nullopt);
}

TEST(Adapter, ItsOwnAddressesAreResolved) {
  Two two;
  for (const roce::Gid& gid : two.client.adapter.options().gids) {
    EXPECT_EQ(two.client.adapter.resolve(gid, 0ms), two.client.adapter.options().mac);
  }
}

// Forwards its calls to another wire.
class ForwardingWire : public roce::Wire {
 public:
  explicit ForwardingWire(std::unique_ptr<roce::Wire> wire) : wire_(std::move(wire)) {}

  const roce::StationAddresses& addresses() const noexcept override { return wire_->addresses(); }
  std::optional<roce::MacAddress> resolve(const roce::Gid& gid) override { return wire_->resolve(gid); }
  std::span<std::byte> reserve(const roce::MacAddress& to, std::size_t bytes) override {
    return wire_->reserve(to, bytes);
  }
  void commit(std::size_t bytes) override { wire_->commit(bytes); }
  void flush() override { wire_->flush(); }
  std::span<const std::byte> receive() override { return wire_->receive(); }
  void wait(std::chrono::nanoseconds at_most) override { wire_->wait(at_most); }
  void interrupt() noexcept override { wire_->interrupt(); }
  void abandon() noexcept override { wire_->abandon(); }
  const roce::WireCounters& counters() const noexcept override { return wire_->counters(); }

 private:
  std::unique_ptr<roce::Wire> wire_;
};

// Until it is told to fail.
class FailingWire final : public ForwardingWire {
 public:
  using ForwardingWire::ForwardingWire;
  std::atomic<bool> fails = false;
  std::atomic<int> waits = 0;  // since then

  std::span<std::byte> reserve(const roce::MacAddress& to, std::size_t bytes) override {
    if (fails) {
      throw roce::WireError("the cable is out");
    }
    return ForwardingWire::reserve(to, bytes);
  }
  void wait(std::chrono::nanoseconds at_most) override {
    if (fails) {
      ++waits;
      throw roce::WireError("the cable is out");
    }
    ForwardingWire::wait(at_most);
  }
};

TEST(Adapter, AWireThatFailsStopsTheNicAndSaysWhy) {
  const std::string name = roce::new_wire_name();
  auto failing = std::make_unique<FailingWire>(join(name));
  FailingWire& wire = *failing;
  Station client(std::move(failing));
  Station server(join(name));
  client.connect(server);
  server.connect(client);
  EXPECT_EQ(client.adapter.failure(), "");
  testing::internal::CaptureStderr();  // before the adapter's thread may meet the failure
  wire.fails = true;
  const nic::Sge to = client.sge(0);
  ASSERT_EQ(client.post({.kind = nic::WorkKind::read,
                         .signaled = true,
                         .sges = {&to, 1},
                         .remote_address = server.address(0),
                         .rkey = server.key}),
            nic::Post::done);
  while (client.adapter.failure().empty()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(client.adapter.failure(), HasSubstr("the cable is out"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the cable is out"));
}

// A program that only polls must learn it too, whatever it waits for: an answer, a message, or what it posts later.
TEST(Adapter, AWireThatFailsEndsEveryRequestWithAnError) {
  const std::string name = roce::new_wire_name();
  auto failing = std::make_unique<FailingWire>(join(name));
  FailingWire& wire = *failing;
  Station client(std::move(failing));
  Station server(join(name));
  client.connect(server);
  server.connect(client);
  const nic::Sge to = client.sge(0);
  const nic::SendRequest read{.id = 1,
                              .kind = nic::WorkKind::read,
                              .signaled = true,
                              .sges = {&to, 1},
                              .remote_address = server.address(0),
                              .rkey = server.key};
  client.adapter.call([&](nic::Nic&) { return client.pair->post_receive({.id = 2, .sges = {&to, 1}}); });
  testing::internal::CaptureStderr();
  wire.fails = true;
  ASSERT_EQ(client.post(read), nic::Post::done);
  const auto next = [&] {
    std::array<nic::Completion, 1> completion{};
    for (int i = 0; i < 200'000; ++i) {  // a bound instead of a hang
      if (client.adapter.poll([&](nic::Nic&) { return client.completions->poll(completion); }) != 0) {
        return std::pair(completion[0].id, completion[0].status);
      }
    }
    return std::pair<std::uint64_t, nic::CompletionStatus>(0, nic::CompletionStatus::success);
  };
  EXPECT_EQ(next(), std::pair(std::uint64_t{1}, nic::CompletionStatus::retry_exceeded));
  EXPECT_EQ(next(), std::pair(std::uint64_t{2}, nic::CompletionStatus::flushed));
  ASSERT_EQ(client.post(read), nic::Post::done);
  EXPECT_EQ(next(), std::pair(std::uint64_t{1}, nic::CompletionStatus::flushed));
  static_cast<void>(testing::internal::GetCapturedStderr());
}

// A completion queue that is armed is told of these completions.
TEST(Adapter, AWireThatFailsWakesWhoSleeps) {
  std::atomic<int> notified = 0;  // outlives the station, which may call until its end
  const std::string name = roce::new_wire_name();
  auto failing = std::make_unique<FailingWire>(join(name));
  FailingWire& wire = *failing;
  Station client(std::move(failing));
  Station server(join(name));
  client.connect(server);
  server.connect(client);
  client.adapter.listen([&](nic::Nic&) { notified += client.completions->take_notification() ? 1 : 0; });
  const nic::Sge to = client.sge(0);
  testing::internal::CaptureStderr();  // before the adapter's thread may meet the failure
  wire.fails = true;
  for (int round = 1; round <= 2; ++round) {
    client.adapter.call([&](nic::Nic&) { client.completions->arm(nic::CompletionQueue::Arm::any); });
    ASSERT_EQ(client.post({.kind = nic::WorkKind::read,
                           .signaled = true,
                           .sges = {&to, 1},
                           .remote_address = server.address(0),
                           .rkey = server.key}),
              nic::Post::done);
    client.adapter.rest();
    while (notified != round) {
      std::this_thread::yield();
    }
    std::array<nic::Completion, 4> some{};
    EXPECT_EQ(client.adapter.call([&](nic::Nic&) { return client.completions->poll(some); }), 1U);
  }
  static_cast<void>(testing::internal::GetCapturedStderr());
}

// A wire that fails may return at once from every wait: its thread must not ask it again and again.
TEST(Adapter, AWireThatFailsIsLeftAlone) {
  auto failing = std::make_unique<FailingWire>(join(roce::new_wire_name()));
  FailingWire& wire = *failing;
  Station station(std::move(failing));
  testing::internal::CaptureStderr();  // before the adapter's thread may meet the failure
  wire.fails = true;
  station.adapter.rest();
  while (!station.adapter.has_failed()) {
    std::this_thread::yield();
  }
  for (int i = 0; i < 2'000 && wire.waits < 10; ++i) {
    station.adapter.call([](nic::Nic&) {});
    station.adapter.rest();
    std::this_thread::yield();
  }
  EXPECT_LT(wire.waits, 10);
  static_cast<void>(testing::internal::GetCapturedStderr());
}

// Which takes a thread of the other process, on a machine where all CPUs are busy.
TEST(Adapter, ARequesterWaitsForAnAnswerForSomeTimeWhateverItsTimeout) {
  Station station(join(roce::new_wire_name()));
  EXPECT_EQ(station.adapter.options().shortest_attempt, 64'000'000U);
}

// Threads that still run when the process ends learn nothing of it.
TEST(Adapter, WhatLeavesTheWireStandsStillAndTellsNobody) {
  const std::string wire = roce::new_wire_name();
  Station station(join(wire));
  Station other(join(wire));
  station.connect(other);
  bool is_notified = false;
  const nic::Sge to = station.sge(0);
  station.adapter.call([&](nic::Nic&) {
    EXPECT_EQ(station.pair->post_receive({.id = 2, .sges = {&to, 1}}), nic::Post::done);
    station.completions->arm(nic::CompletionQueue::Arm::any);
  });
  station.adapter.leave();
  station.adapter.call([&](nic::Nic& nic) {
    EXPECT_EQ(station.pair->state(), QueuePairState::rts);
    EXPECT_EQ(station.pair->post_send({.id = 3, .kind = nic::WorkKind::write, .sges = {&to, 1}}), nic::Post::done);
    is_notified = station.completions->take_notification() || nic.next_event().has_value();
  });
  EXPECT_FALSE(is_notified);
  EXPECT_EQ(station.adapter.failure(), "");
  std::array<nic::Completion, 4> some{};
  EXPECT_EQ(station.adapter.poll([&](nic::Nic&) { return station.completions->poll(some); }), 0U);
  station.adapter.settle();
  EXPECT_FALSE(station.adapter.resolve(other.adapter.options().gids[0], 0ms));
  EXPECT_FALSE(station.adapter.occupant(other.adapter.options().gids[0]));
  // What a call itself causes still happens, so that destructors of the program find what they wait for.
  station.adapter.call(
      [&](nic::Nic&) { station.pair->modify({.state = QueuePairState::error}, nic::Attributes::state); });
  ASSERT_EQ(station.adapter.poll([&](nic::Nic&) { return station.completions->poll(some); }), 2U);
  EXPECT_EQ(some[0].status, nic::CompletionStatus::flushed);
}

// A station that exists but does not read must not delay others for ever.
TEST(Adapter, AFullWireDropsAfterAWhile) {
  const std::string name = roce::new_wire_name();
  Two two({}, name);
  const std::unique_ptr<roce::Wire> deaf = join(name);
  nic::QueuePair* datagrams = nullptr;
  two.client.adapter.call([&](nic::Nic& nic) {
    datagrams = &nic.make_queue_pair({.type = nic::QueuePairType::ud,
                                      .domain = two.client.pair->options().domain,
                                      .send_completions = two.client.completions,
                                      .receive_completions = two.client.completions,
                                      .send_depth = 2000});
    datagrams->modify({.state = QueuePairState::init, .q_key = 1},
                      Attributes::state | Attributes::q_key | Attributes::p_key_index | Attributes::port);
    datagrams->modify({.state = QueuePairState::rtr}, Attributes::state);
    datagrams->modify({.state = QueuePairState::rts}, Attributes::state | Attributes::send_psn);
  });
  // More than a ring holds, 2 000 times 4 KiB.
  const nic::Sge from = two.client.sge(0, 4096);
  const auto mac = two.client.adapter.resolve(roce::gid_of(deaf->addresses().ipv4), 1000ms);
  ASSERT_TRUE(mac);
  for (int i = 0; i < 2000; ++i) {
    const nic::Post posted = two.client.adapter.post([&](nic::Nic&) {
      return datagrams->post_send({.sges = {&from, 1},
                                   .to = {.mac = *mac, .gid = roce::gid_of(deaf->addresses().ipv4), .gid_index = 1},
                                   .remote_qp = 17});
    });
    if (posted != nic::Post::done) {
      break;
    }
  }
  const nic::Sge to = two.client.sge(0);
  EXPECT_EQ(two.client
                .run({.kind = nic::WorkKind::read,
                      .signaled = true,
                      .sges = {&to, 1},
                      .remote_address = two.server.address(0),
                      .rkey = two.server.key})
                .status,
            nic::CompletionStatus::success);
}

// A wire without room for one station, like shared memory towards a process that is stopped.
class StuckWire final : public ForwardingWire {
 public:
  using ForwardingWire::ForwardingWire;
  std::optional<roce::MacAddress> stuck;
  bool others_passed = false;  // since the test has set it to false
  std::atomic<bool> waits_beside_others = false;

  std::span<std::byte> reserve(const roce::MacAddress& to, std::size_t bytes) override {
    if (to == stuck) {
      waits_beside_others = waits_beside_others || others_passed;
      return {};
    }
    others_passed = true;
    return ForwardingWire::reserve(to, bytes);
  }
};

// The frame that waits for a station that has stopped must not stand in the way of those to other stations: it still
// waits when they have passed.
TEST(Adapter, AStationThatHasStoppedDoesNotDelayOthers) {
  const std::string name = roce::new_wire_name();
  auto stuck = std::make_unique<StuckWire>(join(name));
  StuckWire& wire = *stuck;
  Station client(std::move(stuck));
  Station server(join(name));
  const std::unique_ptr<roce::Wire> stopped = join(name);
  client.connect(server);
  server.connect(client);
  nic::QueuePair* pair = nullptr;
  nic::CompletionQueue* completions = nullptr;
  client.adapter.call([&](nic::Nic& nic) {
    wire.stuck = stopped->addresses().mac;
    completions = &nic.make_completion_queue(256);
    pair = &nic.make_queue_pair({.domain = client.pair->options().domain,
                                 .send_completions = completions,
                                 .receive_completions = completions,
                                 .send_depth = 64});
    pair->modify({.state = QueuePairState::init, .rights = nic::Rights::all},
                 Attributes::state | Attributes::rights | Attributes::p_key_index | Attributes::port);
    pair->modify(
        {.state = QueuePairState::rtr,
         .address = {.mac = stopped->addresses().mac, .gid = roce::gid_of(stopped->addresses().ipv4), .gid_index = 1},
         .path_mtu = roce::PathMtu::b4096,
         .min_rnr_timer = 1,
         .max_dest_rd_atomic = 16,
         .remote_qp = 17},
        Attributes::state | Attributes::address | Attributes::path_mtu | Attributes::remote_qp |
            Attributes::receive_psn | Attributes::max_dest_rd_atomic | Attributes::min_rnr_timer);
    // Without a limit of time: the frame waits for ever, but for the adapter's patience.
    pair->modify({.state = QueuePairState::rts, .timeout = 0, .retry_count = 7, .rnr_retry = 7, .max_rd_atomic = 16},
                 Attributes::state | Attributes::timeout | Attributes::retry_count | Attributes::rnr_retry |
                     Attributes::send_psn | Attributes::max_rd_atomic);
  });
  const nic::Sge from = client.sge(8);
  const nic::Sge to = client.sge(0);
  // The frame is dropped after a while, which may pass before the READ is posted.
  for (int i = 0; i < 60 && !wire.waits_beside_others; ++i) {
    ASSERT_EQ(client.adapter.post([&](nic::Nic&) {
      wire.others_passed = false;
      return pair->post_send({.kind = nic::WorkKind::write, .sges = {&from, 1}, .remote_address = 0, .rkey = 1});
    }),
              nic::Post::done);
    ASSERT_EQ(client
                  .run({.kind = nic::WorkKind::read,
                        .signaled = true,
                        .sges = {&to, 1},
                        .remote_address = server.address(0),
                        .rkey = server.key})
                  .status,
              nic::CompletionStatus::success);
  }
  EXPECT_TRUE(wire.waits_beside_others);
}

// Whoever asked for an order wants races with another thread: also what resolve() finds on the wire is that thread's.
TEST(Adapter, WithAnOrderOnlyItsOwnThreadDrives) {
  Settings settings;
  settings.order = fabric::model::Preset::relaxed;
  std::mutex mutex;
  std::set<std::thread::id> drivers;
  Station station(join(roce::new_wire_name()), settings);
  station.adapter.listen([&](nic::Nic&) {
    const std::unique_lock lock(mutex);
    drivers.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(station.adapter.resolve(roce::gid_of({192, 0, 2, 1}), 20ms), std::nullopt);
  const std::unique_lock lock(mutex);
  EXPECT_FALSE(drivers.contains(std::this_thread::get_id()));
}

}  // namespace
}  // namespace sidelatch::softnic
