// What waits for what in a NIC: a part serves in the order in which work arrives, not in which it was foreseen.
#include "../two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sidelatch::fabric {
namespace {
namespace nic_queues {

sim::Profile steady() {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.link.jitter_ns = 0;
  profile.pcie.reorder_probability = 0;
  return profile;
}

Task<void> submit_one(QueuePair& qp, WorkRequest request) { co_await qp.submit(request); }

Task<void> read_until(QueuePair& qp, LocalSpan into, RemoteSpan from, Time end, std::uint64_t& reads) {
  while (qp.reactor().now() < end) {
    co_await qp.read(into, from);
    ++reads;
  }
}

constexpr std::uint64_t kBlock = 1024;

struct Machine {
  Machine(sim::Simulation& world, const char* name, const sim::Profile& profile)
      : node(world.add_node(name, profile)),
        memory(node.allocate(1U << 20, Access::remote_all)),
        buffers(node.allocate(1U << 20, Access::local_write)) {}
  [[nodiscard]] LocalSpan buffer(std::uint64_t index) const { return buffers.local(index * kBlock, kBlock); }
  [[nodiscard]] RemoteSpan block(std::uint64_t index) const { return memory.remote(index * kBlock, kBlock); }

  Node& node;
  MemoryRegion memory;
  MemoryRegion buffers;
};

// READs of `both` by `client` in 200 us, while 28 tasks of one machine read words of the other: those of `both` from
// `third`, or those of `third` from `both`. All NICs have work for half of the time at most.
std::uint64_t reads_of_a_busy_machine(bool both_reads) {
  const sim::Profile profile = sim::load_profile("connectx5");  // its jitter keeps the tasks from falling into step
  sim::Simulation world({.profile = profile});
  const Machine client(world, "client", profile);
  const Machine both(world, "both", profile);
  const Machine third(world, "third", profile);
  const Machine& reader = both_reads ? both : third;
  const Machine& target = both_reads ? third : both;
  const Time end = from_ns(200e3);
  std::uint64_t ignored = 0;
  std::uint64_t reads = 0;
  std::vector<std::unique_ptr<QueuePair>> others;
  for (std::uint64_t i = 0; i < 28; ++i) {
    others.push_back(reader.node.connect(target.node));
    world.reactor().spawn(
        read_until(*others.back(), reader.buffer(i).subspan(0, 8), target.block(i).subspan(0, 8), end, ignored));
  }
  const auto qp = client.node.connect(both.node);
  world.reactor().spawn(
      read_until(*qp, client.buffer(0).subspan(0, 8), both.memory.remote(500 * kBlock, 8), end, reads));
  world.reactor().run();
  EXPECT_GT(ignored, 500U);
  return reads;
}

TEST(NicQueues, ARequestDoesNotWaitForAnswersThatAreOnTheirWay) {
  const std::uint64_t beside_answers = reads_of_a_busy_machine(true);
  const std::uint64_t beside_requests = reads_of_a_busy_machine(false);
  EXPECT_NEAR(static_cast<double>(beside_answers), static_cast<double>(beside_requests),
              0.03 * static_cast<double>(beside_requests));
}

// The time of a READ of 8 bytes from `target`, while READs of another queue pair are on their way.
Time read_beside(sim::Simulation& world, QueuePair& direct, const Machine& client, const Machine& target,
                 QueuePair* slow, const Machine& other) {
  if (slow != nullptr) {
    for (std::uint64_t i = 1; i < 8; ++i) {
      EXPECT_TRUE(slow->post(std::array{read(client.buffer(i), other.block(i))}));
    }
    world.reactor().run_for(from_ns(20e3));  // their answers are under way
  }
  const Time before = world.reactor().now();
  world.reactor().run(submit_one(direct, read(client.buffer(0).subspan(0, 8), target.memory.remote(0, 8))));
  return world.reactor().now() - before;
}

class SlowDevice final : public sim::NetworkDevice {
 public:
  [[nodiscard]] Duration cable() const override { return from_ns(100); }
  [[nodiscard]] Duration latency() const override { return from_ns(15e3); }
  Verdict request(Message& /*message*/) override { return Verdict::forward; }
  void answer(Message& /*message*/) override {}
};

TEST(NicQueues, AnAnswerDoesNotWaitForOneThatIsAtASlowDevice) {
  SlowDevice device;
  const auto takes = [&](bool beside_slow) {
    sim::Simulation world({.profile = steady()});
    const Machine client(world, "client", steady());
    const Machine target(world, "target", steady());
    const auto direct = client.node.connect(target.node);
    const auto slow = client.node.connect(target.node);
    world.pass_through(*slow, device);
    return read_beside(world, *direct, client, target, beside_slow ? slow.get() : nullptr, target);
  };
  EXPECT_EQ(takes(true), takes(false));
}

TEST(NicQueues, AnAnswerDoesNotWaitForOneThatComesFromFarAway) {
  sim::Profile far_profile = steady();
  far_profile.link.propagation_ns = 30e3;
  const auto takes = [&](bool beside_far) {
    sim::Simulation world({.profile = steady()});
    const Machine client(world, "client", steady());
    const Machine target(world, "target", steady());
    const Machine far(world, "far", far_profile);
    const auto direct = client.node.connect(target.node);
    const auto slow = client.node.connect(far.node);
    return read_beside(world, *direct, client, target, beside_far ? slow.get() : nullptr, far);
  };
  EXPECT_EQ(takes(true), takes(false));
}

// Receiving answers one by one and ahead comes to the same if nothing else arrives.
TEST(NicQueues, AMachineThatOthersMayReachIsAsFastAsOneThatOnlyAsks) {
  const auto takes = [&](bool reachable) {
    sim::Simulation world({.profile = steady()});
    const Machine client(world, "client", steady());
    const Machine target(world, "target", steady());
    const auto back = reachable ? target.node.connect(client.node) : nullptr;
    const auto qp = client.node.connect(target.node);
    std::vector<WorkRequest> chain;
    for (std::uint64_t i = 0; i < 10; ++i) {
      chain.push_back(i % 2 == 0 ? read(client.buffer(i), target.block(i)) : write(client.buffer(i), target.block(i)));
    }
    world.reactor().run([](QueuePair& pair, std::vector<WorkRequest> requests) -> Task<void> {
      co_await pair.submit(std::span<const WorkRequest>(requests));
    }(*qp, chain));
    return world.reactor().now();
  };
  EXPECT_EQ(takes(true), takes(false));
}

Task<void> read_then_add(QueuePair& qp, LocalSpan into, RemoteSpan from, RemoteSpan word) {
  co_await qp.submit(read(into, from), fetch_add(word, 1).with_fence());
}

// The fenced request is in the NIC, which serves it when the READ has completed, whatever rings meanwhile.
TEST(NicQueues, AFencedRequestDoesNotWaitForADoorbellThatIsNotSeenYet) {
  const auto takes = [&](double doorbell_after_ns) {
    sim::Simulation world({.profile = steady()});
    const Machine client(world, "client", steady());
    const Machine target(world, "target", steady());
    const Machine third(world, "third", steady());
    const auto fenced = client.node.connect(target.node);
    const auto other = client.node.connect(third.node);
    Time end{};
    world.reactor().spawn([](QueuePair& qp, const Machine& from, const Machine& to, Time& finished) -> Task<void> {
      co_await read_then_add(qp, from.buffer(0).subspan(0, 8), to.memory.remote(0, 8), to.memory.remote(8, 8));
      finished = qp.reactor().now();
    }(*fenced, client, target, end));
    if (doorbell_after_ns > 0) {
      world.reactor().run_for(from_ns(doorbell_after_ns));
      EXPECT_TRUE(other->post(std::array{read(client.buffer(1).subspan(0, 8), third.memory.remote(0, 8))}));
    }
    world.reactor().run();
    return end;
  };
  const Time alone = takes(0);
  const Time own_service = from_ns(40);  // while the NIC serves the other request, the fenced one waits
  for (double ns = 100; ns < 2000; ns += 20) {
    EXPECT_LE(takes(ns), alone + own_service) << ns;
  }
}

}  // namespace nic_queues
}  // namespace
}  // namespace sidelatch::fabric
