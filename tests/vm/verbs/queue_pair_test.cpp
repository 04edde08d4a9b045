// Queue pairs of real verbs: values, chains, order, room, and every kind of refusal.
#include "requests.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::HasSubstr;

class VerbsQueuePairs : public ::testing::Test {
 protected:
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, table.bytes().data() + offset, sizeof value);
    return value;
  }
  void set_word(std::uint64_t offset, std::uint64_t value) {
    std::memcpy(table.bytes().data() + offset, &value, sizeof value);
  }
  void set_buffer(std::uint64_t offset, std::uint64_t value) {
    std::memcpy(buffers.bytes().data() + offset, &value, sizeof value);
  }
  [[nodiscard]] std::uint64_t buffer(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, buffers.bytes().data() + offset, sizeof value);
    return value;
  }
  template <class T>
  T run(Task<T> task) {
    return fabric.reactor().run(std::move(task));
  }
  // The final status of a request.
  static Task<Status> outcome(QueuePair* qp, WorkRequest request) {
    try {
      co_await qp->submit(request);
    } catch (const FabricError& error) {
      last_message = error.what();
      co_return error.status();
    }
    throw std::logic_error("the request was executed");
  }
  // Checks that a failed queue pair becomes fully usable again.
  void expect_recovers(QueuePair& failed) {
    EXPECT_EQ(failed.state(), QueuePair::State::error);
    run(failed.reconnect());
    EXPECT_EQ(failed.state(), QueuePair::State::ready);
    const std::uint64_t before = word(512);
    EXPECT_EQ(run(add(&failed, table.remote(512, 8), 5)), before);
    EXPECT_EQ(word(512), before + 5);
  }

  static inline std::string last_message;
  VerbsFabric fabric{{}, kConnections};
  Node& storage = fabric.add_node("storage");
  Node& client = fabric.add_node("client");
  MemoryRegion table = storage.allocate(1 << 20, Access::remote_all);
  MemoryRegion buffers = client.allocate(1 << 20, Access::local_write);
  std::unique_ptr<QueuePair> qp = client.connect(storage);
};

Task<void> read_and_write(QueuePair* qp, LocalSpan buffer, RemoteSpan memory) {
  co_await qp->write(buffer.subspan(0, 3000), memory.subspan(100, 3000));
  co_await qp->read(buffer.subspan(4096, 3000), memory.subspan(100, 3000));
}

TEST_F(VerbsQueuePairs, ReadAndWriteBytes) {
  for (std::size_t i = 0; i < 3000; ++i) {
    buffers.bytes()[i] = static_cast<std::byte>(i * 7);
  }
  run(read_and_write(qp.get(), buffers.local(), table.remote()));
  EXPECT_EQ(std::memcmp(table.bytes().data() + 100, buffers.bytes().data(), 3000), 0);
  EXPECT_EQ(std::memcmp(buffers.bytes().data() + 4096, buffers.bytes().data(), 3000), 0);
}

Task<std::vector<std::uint64_t>> atomics(QueuePair* qp, RemoteSpan memory) {
  std::vector<std::uint64_t> old;
  old.push_back(co_await qp->compare_swap(memory.subspan(64, 8), 7, 9));
  old.push_back(co_await qp->compare_swap(memory.subspan(64, 8), 7, 11));
  old.push_back(co_await qp->fetch_add(memory.subspan(64, 8), 3));
  old.push_back(co_await qp->fetch_add(memory.subspan(64, 8), ~std::uint64_t{0}));
  co_return old;
}

TEST_F(VerbsQueuePairs, AtomicsReturnOldValues) {
  set_word(64, 7);
  EXPECT_EQ(run(atomics(qp.get(), table.remote())), (std::vector<std::uint64_t>{7, 9, 9, 12}));
  EXPECT_EQ(word(64), 11U);
}

Task<std::array<std::uint64_t, 4>> latch_cycle(QueuePair* qp, LocalSpan buffer, RemoteSpan memory) {
  const auto old = co_await qp->submit(
      compare_swap(memory.subspan(0, 8), 0, 1), read(buffer.subspan(64, 256), memory.subspan(64, 256)).with_fence(),
      write(buffer.subspan(0, 64), memory.subspan(64, 64)).with_fence(),  // or it may pass the READ (rule 5)
      fetch_add(memory.subspan(0, 8), ~std::uint64_t{0}));
  co_return old;
}

TEST_F(VerbsQueuePairs, AChainIsExecutedInOrder) {
  set_word(64, 41);
  set_buffer(0, 42);
  EXPECT_EQ(run(latch_cycle(qp.get(), buffers.local(), table.remote())), (std::array<std::uint64_t, 4>{0, 0, 0, 1}));
  EXPECT_EQ(buffer(64), 41U);
  EXPECT_EQ(word(64), 42U);
  EXPECT_EQ(word(0), 0U);
}

// An atomic's result goes to the place named in the request.
Task<void> add_into(QueuePair* qp, LocalSpan into, RemoteSpan where) {
  WorkRequest request = fetch_add(where, 1);
  request.local = into;
  co_await qp->submit(request);
}

TEST_F(VerbsQueuePairs, AnAtomicsResultGoesToItsBuffer) {
  set_word(8, 100);
  run(add_into(qp.get(), buffers.local(80, 8), table.remote(8, 8)));
  EXPECT_EQ(buffer(80), 100U);
}

Task<void> add_many(QueuePair* qp, RemoteSpan where, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    co_await qp->enqueue(fetch_add(where, 1));
  }
  co_await qp->drain();
}

TEST_F(VerbsQueuePairs, UnsignalledRequestsNeverJam) {
  run(add_many(qp.get(), table.remote(16, 8), 1000));
  EXPECT_EQ(word(16), 1000U);
  EXPECT_EQ(qp->outstanding(), 0U);
}

TEST_F(VerbsQueuePairs, ManyTasksOnManyQueuePairsShareACompletionQueue) {
  VerbsFabric small({.completion_queue_depth = 8}, kConnections);
  Node& target = small.add_node("storage");
  Node& source = small.add_node("client");
  MemoryRegion words = target.allocate(64, Access::remote_all);
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  for (int i = 0; i < 8; ++i) {
    queue_pairs.push_back(source.connect(target));
    small.reactor().spawn(add_many(queue_pairs.back().get(), words.remote(0, 8), 50));
    small.reactor().spawn(add_many(queue_pairs.back().get(), words.remote(0, 8), 50));
  }
  small.reactor().run();
  std::uint64_t sum = 0;
  std::memcpy(&sum, words.bytes().data(), sizeof sum);
  EXPECT_EQ(sum, 800U);
}

Task<void> write_inline(QueuePair* qp, LocalSpan buffer, RemoteSpan where) {
  for (std::uint64_t i = 1; i <= 20; ++i) {
    std::memcpy(buffer.data, &i, sizeof i);
    co_await qp->enqueue(write(buffer.subspan(0, 8), where.subspan(i * 8, 8)).with_inline());
  }
  co_await qp->drain();
}

TEST_F(VerbsQueuePairs, AnInlinedPayloadIsBoundAtThePost) {
  run(write_inline(qp.get(), buffers.local(), table.remote()));
  for (std::uint64_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(word(i * 8), i);
  }
}

TEST_F(VerbsQueuePairs, SleepingTakesTime) {
  const Time before = fabric.now();
  run([](Reactor* reactor) -> Task<void> { co_await reactor->sleep(from_ns(2e6)); }(&fabric.reactor()));
  EXPECT_GE(to_ns(fabric.now() - before), 2e6);
}

// ---- Refused by the target.

TEST_F(VerbsQueuePairs, AnUnknownKeyIsRefused) {
  RemoteSpan wrong = table.remote(0, 64);
  wrong.rkey.value ^= 0xff00;
  EXPECT_EQ(run(outcome(qp.get(), read(buffers.local(0, 64), wrong))), Status::remote_access);
  EXPECT_THAT(last_message, HasSubstr("rkey"));
  expect_recovers(*qp);
}

TEST_F(VerbsQueuePairs, BytesOutsideTheRegionAreRefused) {
  RemoteSpan outside = table.remote();
  outside.address = outside.address + (outside.length - 32);
  EXPECT_EQ(run(outcome(qp.get(), write(buffers.local(0, 64), outside))), Status::remote_access);
  expect_recovers(*qp);
}

TEST_F(VerbsQueuePairs, AMissingRightIsRefused) {
  const MemoryRegion read_only = storage.allocate(4096, Access::remote_read);
  EXPECT_EQ(run(outcome(qp.get(), write(buffers.local(0, 64), read_only.remote(0, 64)))), Status::remote_access);
  expect_recovers(*qp);
  EXPECT_EQ(run(outcome(qp.get(), fetch_add(read_only.remote(0, 8), 1))), Status::remote_access);
  expect_recovers(*qp);
  const MemoryRegion no_atomics = storage.allocate(4096, Access::remote_read | Access::remote_write);
  EXPECT_EQ(run(outcome(qp.get(), compare_swap(no_atomics.remote(0, 8), 0, 1))), Status::remote_access);
  expect_recovers(*qp);
}

TEST_F(VerbsQueuePairs, AnEndedRegionIsRefused) {
  MemoryRegion ended = storage.allocate(4096, Access::remote_all);
  const RemoteSpan span = ended.remote(0, 64);
  ended.deregister();
  EXPECT_EQ(run(outcome(qp.get(), read(buffers.local(0, 64), span))), Status::remote_access);
  expect_recovers(*qp);
}

// ---- Refused before anything is posted.

TEST_F(VerbsQueuePairs, AMisalignedAtomicIsRefusedAtThePost) {
  EXPECT_EQ(run(outcome(qp.get(), fetch_add(table.remote(12, 8), 1))), Status::invalid_request);
  EXPECT_THAT(last_message, HasSubstr("misaligned"));
  EXPECT_EQ(qp->state(), QueuePair::State::ready);
}

TEST_F(VerbsQueuePairs, AForeignBufferIsRefusedAtThePost) {
  const MemoryRegion foreign = storage.allocate(4096, Access::local_write);
  LocalSpan buffer = foreign.local(0, 64);
  buffer.lkey.value += 4096;
  EXPECT_EQ(run(outcome(qp.get(), read(buffer, table.remote(0, 64)))), Status::local_protection);
  EXPECT_EQ(qp->state(), QueuePair::State::ready);
}

// ---- Errors and other requests.

Task<void> expect_flushed(QueuePair* qp, RemoteSpan where, bool* flushed) {
  try {
    co_await qp->fetch_add(where, 1);
  } catch (const FabricError& error) {
    *flushed = error.status() == Status::flushed;
  }
}

TEST_F(VerbsQueuePairs, WhatWasPostedBehindAnErrorIsFlushedAndOtherQueuePairsGoOn) {
  auto other = client.connect(storage);
  RemoteSpan wrong = table.remote(0, 64);
  wrong.rkey.value ^= 0xff00;
  bool flushed = false;
  Status status{};
  const auto fail = [](QueuePair* one, WorkRequest request, Status* into) -> Task<void> {
    const Status seen = co_await outcome(one, request);
    *into = seen;
  };
  fabric.reactor().spawn(fail(qp.get(), read(buffers.local(0, 64), wrong), &status));
  fabric.reactor().spawn(expect_flushed(qp.get(), table.remote(24, 8), &flushed));
  fabric.reactor().spawn(add_many(other.get(), table.remote(32, 8), 100));
  fabric.reactor().run();
  EXPECT_EQ(status, Status::remote_access);
  EXPECT_TRUE(flushed);
  EXPECT_EQ(word(24), 0U);
  EXPECT_EQ(word(32), 100U);
  expect_recovers(*qp);
}

TEST_F(VerbsQueuePairs, ARevokedQueuePairIsRefusedForGood) {
  auto other = client.connect(storage);
  EXPECT_EQ(run(add(qp.get(), table.remote(40, 8), 1)), 0U);
  storage.revoke(*qp);
  EXPECT_EQ(run(outcome(qp.get(), fetch_add(table.remote(40, 8), 1))), Status::retry_exceeded);
  EXPECT_THROW(run(qp->reconnect()), FabricError);
  EXPECT_EQ(run(add(other.get(), table.remote(40, 8), 1)), 1U);
}

TEST_F(VerbsQueuePairs, ADestroyedQueuePairTouchesNothingMore) {
  auto other = client.connect(storage);
  const std::array chain = {read(buffers.local(0, 65536), table.remote(0, 65536))};
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(other->post(chain));
  }
  other.reset();
  std::memset(buffers.bytes().data(), 1, 65536);
  EXPECT_EQ(run(add(qp.get(), table.remote(48, 8), 1)), 0U);
  EXPECT_EQ(std::to_integer<int>(buffers.bytes()[1]), 1);
  EXPECT_EQ(std::to_integer<int>(buffers.bytes()[65535]), 1);
}

TEST_F(VerbsQueuePairs, ARegionInUseIsKeptUntilItsRequestsAreDone) {
  {
    MemoryRegion local = client.allocate(1 << 16, Access::local_write);
    std::memset(local.bytes().data(), 3, 1 << 16);
    const std::array chain = {write(local.local(), table.remote(0, 1 << 16))};
    EXPECT_TRUE(qp->post(chain));
    EXPECT_THROW(local.deregister(), FabricError);
  }
  run([](QueuePair* one) -> Task<void> { co_await one->drain(); }(qp.get()));
  EXPECT_EQ(std::to_integer<int>(table.bytes()[65535]), 3);
}

// ---- Options.

TEST(VerbsDevice, WrongOptionsAreNamed) {
  const auto message = [](const DeviceOptions& device, const ConnectionOptions& connections = {}) -> std::string {
    try {
      const VerbsFabric fabric(device, connections);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({.device = "nosuch0"}), HasSubstr("nosuch0"));
  EXPECT_THAT(message({.device = "nosuch0"}), HasSubstr("rxe0"));
  EXPECT_THAT(message({.port = 9}), HasSubstr("port 9"));
  EXPECT_THAT(message({.gid_index = 200}), HasSubstr("GID 200"));
  EXPECT_THAT(message({.mtu = 1000}), HasSubstr("mtu is 1000"));
  EXPECT_THAT(message({.completion_queue_depth = 1}), HasSubstr("completion_queue_depth is 1"));
  EXPECT_THAT(message({}, {.timeout = 32}), HasSubstr("timeout is 32"));
  EXPECT_THAT(message({}, {.retry_count = 8}), HasSubstr("retry_count is 8"));
}

TEST(VerbsDevice, ListsTheDevice) {
  EXPECT_THAT(device_names(), ::testing::Contains("rxe0"));
  EXPECT_EQ(VerbsFabric().device_name(), "rxe0");
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
