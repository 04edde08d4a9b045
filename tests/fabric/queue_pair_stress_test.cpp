// Every use of a queue pair, mixed at random over queues that are far too small. What must hold whatever the mix:
// nothing jams, every posted request is executed once, and the completion queue is whole in the end.
#include "queue_pair_tasks.h"
#include "two_nodes.h"

#include <random>
#include <vector>

namespace sidelatch::fabric {
namespace {

Task<> mixed(QueuePair& qp, std::span<const WorkRequest> requests, std::uint64_t seed) {
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
  for (int i = 0; i < 60; ++i) {
    const auto chain = requests.first(1 + random() % requests.size());
    switch (random() % 5) {
      case 0:
        co_await qp.submit(chain);
        break;
      case 1:
        co_await qp.enqueue(chain[0], chain[0]);
        break;
      case 2: {
        const bool posted = qp.post(chain);
        if (!posted) {
          co_await qp.reach(qp.posted());
        }
        break;
      }
      case 3:
        co_await qp.drain();
        break;
      default:
        co_await qp.reactor().sleep(from_ns(static_cast<double>(random() % 4000)));
    }
  }
}

TEST(QueuePairStress, NoMixOfUsesJamsLosesRequestsOrLeaksCompletionEntries) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    TwoNodes world({.queue_pair = {.send_queue_depth = 4, .signal_interval = static_cast<std::uint32_t>(seed % 5)},
                    .completion_queue_depth = static_cast<std::uint32_t>(6 + seed % 4),
                    .seed = seed});
    const auto second = world.client.connect(world.storage, world.qp->options());
    const auto third = world.client.connect(world.storage);
    const std::vector<WorkRequest> requests(3, fetch_add(world.word(0), 1));
    std::vector<Task<>> doomed;
    std::uint64_t number = seed * 100;
    for (QueuePair* qp : {world.qp.get(), second.get(), third.get()}) {
      for (int task = 0; task < 4; ++task) {
        world.reactor().spawn(mixed(*qp, requests, ++number));
        doomed.push_back(mixed(*qp, requests, ++number));
        start(doomed.back());
      }
    }
    while (!doomed.empty()) {
      world.reactor().run_for(from_ns(3000));
      doomed.pop_back();
    }
    world.reactor().run();
    std::uint64_t adds = 0;
    for (QueuePair* qp : {world.qp.get(), second.get(), third.get()}) {
      world.run(drain(*qp));
      adds += qp->counters().bytes_read / 8;  // nudges read nothing
    }
    EXPECT_EQ(world.value(0), adds) << "seed " << seed;
    EXPECT_EQ(world.reactor().completion_queue_free(), world.reactor().completion_queue_depth()) << "seed " << seed;
  }
}

// The same with requests that the target refuses. Counts the additions that were answered.
Task<> failing(QueuePair& qp, std::span<const WorkRequest> good, WorkRequest bad, std::uint64_t seed,
               std::uint64_t* answered) {
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
  for (int i = 0; i < 40; ++i) {
    bool failed = false;
    try {
      const auto chain = good.first(1 + random() % good.size());
      switch (random() % 5) {
        case 0:
          co_await qp.submit(good[0], bad, good[0]);
          break;
        case 1:
          co_await qp.enqueue(bad);
          break;
        case 2:
          co_await qp.drain();
          break;
        default:
          co_await qp.submit(chain);
          *answered += chain.size();
      }
    } catch (const FabricError& error) {
      EXPECT_TRUE(error.status() == Status::remote_access || error.status() == Status::flushed) << error.what();
      failed = true;
    }
    if (failed) {
      try {
        co_await qp.reconnect();
      } catch (const FabricError&) {  // another task's request has failed since
      }
    }
  }
}

TEST(QueuePairStress, NoMixOfFailuresAndReconnectsJamsOrLeaksCompletionEntries) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    TwoNodes world({.queue_pair = {.send_queue_depth = 4, .signal_interval = static_cast<std::uint32_t>(seed % 5)},
                    .completion_queue_depth = static_cast<std::uint32_t>(6 + seed % 4),
                    .seed = seed});
    const auto second = world.client.connect(world.storage, world.qp->options());
    const std::vector<WorkRequest> good(3, fetch_add(world.word(0), 1));
    WorkRequest bad = fetch_add(world.word(0), 1'000'000);
    bad.rkey.value ^= 1;
    std::uint64_t answered = 0;
    std::vector<Task<>> doomed;
    std::uint64_t number = seed * 100;
    for (QueuePair* qp : {world.qp.get(), second.get()}) {
      for (int task = 0; task < 4; ++task) {
        world.reactor().spawn(failing(*qp, good, bad, ++number, &answered));
        doomed.push_back(failing(*qp, good, bad, ++number, &answered));
        start(doomed.back());
      }
    }
    while (!doomed.empty()) {
      world.reactor().run_for(from_ns(3000));
      doomed.pop_back();
    }
    world.reactor().run();
    world.settle();
    // Answered additions were executed; of the others, at most those posted.
    EXPECT_GE(world.value(0), answered) << "seed " << seed;
    EXPECT_LE(world.value(0), (world.qp->counters().bytes_read + second->counters().bytes_read) / 8) << "seed " << seed;
    EXPECT_EQ(world.reactor().completion_queue_free() + world.qp->outstanding() + second->outstanding(),
              world.reactor().completion_queue_depth())
        << "seed " << seed;
  }
}

TEST(QueuePairStress, QueuePairsThatGoUnderTheirTasksLeakNoCompletionEntries) {
  const auto adds = [](QueuePair& qp, std::span<const WorkRequest> chain, int* told) -> Task<> {
    try {
      for (;;) {
        co_await qp.submit(chain);
        co_await qp.enqueue(chain[0]);
      }
    } catch (const FabricError& error) {
      EXPECT_EQ(error.status(), Status::disconnected);
      ++*told;
    }
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TwoNodes world({.completion_queue_depth = 6});
    const std::vector<WorkRequest> chain(3, fetch_add(world.word(0), 1));
    std::vector<std::unique_ptr<QueuePair>> queue_pairs;
    int told = 0;
    for (int i = 0; i < 4; ++i) {
      queue_pairs.push_back(world.client.connect(world.storage, {.send_queue_depth = 4}));
      for (int task = 0; task < 3; ++task) {
        world.reactor().spawn(adds(*queue_pairs.back(), chain, &told));
      }
    }
    while (!queue_pairs.empty()) {
      world.reactor().run_for(from_ns(700.0 * static_cast<double>(seed)));
      queue_pairs.pop_back();
    }
    world.reactor().run();
    EXPECT_EQ(told, 12) << "seed " << seed;
    EXPECT_EQ(world.reactor().completion_queue_free(), 6U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sidelatch::fabric
