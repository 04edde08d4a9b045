// The base of the tests of the fabric's core: a simulated client and storage machine, and ways to start tasks.
//
//   TwoNodes world({.queue_pair = {.send_queue_depth = 4}});
//   world.run(task(*world.qp, world.word(0)));
//   EXPECT_EQ(world.value(0), 1);
//
// The rules are Preset::observed and the profile has neither jitter nor late lines, so every run is the same.
#pragma once

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <coroutine>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace sidelatch::fabric {

/// Starts a task without waiting for it; its owner may destroy it at any time.
inline void start(Task<>& task) {
  auto awaiter = task.operator co_await();
  awaiter.await_suspend(std::noop_coroutine());
}

struct TwoNodesOptions {
  QueuePairOptions queue_pair{};
  std::uint32_t completion_queue_depth = 1U << 30;
  std::uint64_t seed = 1;
  sim::Profile profile{};
  sim::StepObserver* observer = nullptr;
};

struct TwoNodes {
  explicit TwoNodes(const TwoNodesOptions& options = {})
      : simulation({.profile = options.profile,
                    .seed = options.seed,
                    .completion_queue_depth = options.completion_queue_depth}),
        storage(simulation.add_node("storage")),
        client(simulation.add_node("client")),
        table(storage.allocate(1U << 20, Access::remote_all)),
        buffer(client.allocate(1U << 16, Access::local_write)) {
    simulation.observe(options.observer);
    qp = client.connect(storage, options.queue_pair);
  }

  [[nodiscard]] Reactor& reactor() { return simulation.reactor(); }
  template <class T>
  T run(Task<T> task) {
    return reactor().run(std::move(task));
  }
  /// Runs until all requests in flight have arrived.
  void settle() { reactor().run_for(from_ns(1e6)); }

  /// The error thrown by `task`, which must fail.
  template <class T>
  FabricError error_of(Task<T> task) {
    try {
      reactor().run(std::move(task));
    } catch (const FabricError& error) {
      return error;
    }
    ADD_FAILURE() << "the task did not fail";
    return {Status::stuck, "the task did not fail"};
  }

  /// The table's 8-byte word number `index`.
  [[nodiscard]] RemoteSpan word(std::uint64_t index) const { return table.remote(index * 8, 8); }
  [[nodiscard]] std::uint64_t value(std::uint64_t index) const { return load(table, index); }
  void set(std::uint64_t index, std::uint64_t value) const { store(table, index, value); }

  static std::uint64_t load(const MemoryRegion& region, std::uint64_t index) {
    std::uint64_t word = 0;
    std::memcpy(&word, region.bytes().subspan(index * 8, 8).data(), 8);
    return word;
  }
  static void store(const MemoryRegion& region, std::uint64_t index, std::uint64_t value) {
    std::memcpy(region.bytes().subspan(index * 8, 8).data(), &value, 8);
  }

  sim::Simulation simulation;
  Node& storage;
  Node& client;
  MemoryRegion table;
  MemoryRegion buffer;
  std::unique_ptr<QueuePair> qp;
};

}  // namespace sidelatch::fabric
