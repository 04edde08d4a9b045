// A device between simulated nodes: what it sees, changes, answers and refuses, and how long its way takes.
#include <sidelatch/fabric/sim/simulation.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::fabric::sim {
namespace {

using testing::ElementsAre;

class Device : public NetworkDevice {
 public:
  explicit Device(Duration cable = {}, Duration latency = {}) : cable_(cable), latency_(latency) {}
  [[nodiscard]] Duration cable() const override { return cable_; }
  [[nodiscard]] Duration latency() const override { return latency_; }
  Verdict request(Message& message) override {
    seen.push_back("request " + std::to_string(message.payload.size()));
    return on_request ? on_request(message) : Verdict::forward;
  }
  void answer(Message& message) override {
    seen.push_back("answer " + std::to_string(message.payload.size()));
    if (on_answer) {
      on_answer(message);
    }
  }

  std::function<Verdict(Message&)> on_request;
  std::function<void(Message&)> on_answer;
  std::vector<std::string> seen;

 private:
  Duration cable_;
  Duration latency_;
};

struct World {
  explicit World(model::Preset preset = model::Preset::observed)
      : simulation({.profile = steady(), .rules = model::rules_of(preset), .seed = 1}),
        table(storage.allocate(4096, Access::remote_all)),
        buffer(client.allocate(4096, Access::local_write)),
        pair(client.connect(storage)) {}

  // Whose times do not vary.
  static Profile steady() {
    Profile profile = load_profile("connectx5");
    profile.link.jitter_ns = 0;
    profile.pcie.reorder_probability = 0;
    return profile;
  }

  Simulation simulation;
  Node& storage = simulation.add_node("storage");
  Node& client = simulation.add_node("client");
  MemoryRegion table;
  MemoryRegion buffer;
  std::unique_ptr<QueuePair> pair;
};

Task<void> submit(QueuePair* pair, WorkRequest request, std::uint64_t* old_value) {
  std::array<std::uint64_t, 1> old_values{};
  std::array<WorkRequest, 1> chain{request.with_signal()};
  co_await pair->submit(std::span<const WorkRequest>(chain), old_values);
  *old_value = old_values[0];
}

std::uint64_t run(World& world, const WorkRequest& request) {
  std::uint64_t old_value = 0;
  world.simulation.reactor().run(submit(world.pair.get(), request, &old_value));
  return old_value;
}

Task<void> sleep_for(Reactor* reactor) { co_await reactor->sleep(from_ns(100'000)); }

class Devices : public testing::TestWithParam<model::Preset> {};

TEST_P(Devices, MayChangeWhatPasses) {
  World world(GetParam());
  Device device;
  device.on_request = [](NetworkDevice::Message& message) {
    if (message.request.opcode == Opcode::write) {
      message.payload[0] = std::byte{7};
    }
    return NetworkDevice::Verdict::forward;
  };
  device.on_answer = [](NetworkDevice::Message& message) {
    if (message.request.opcode == Opcode::read) {
      message.payload[1] = std::byte{9};
    }
    message.old_value += 100;
  };
  world.simulation.pass_through(*world.pair, device);
  world.buffer.bytes()[2] = std::byte{3};
  run(world, write(world.buffer.local(0, 200), world.table.remote(0, 200)));
  run(world, read(world.buffer.local(0, 200), world.table.remote(0, 200)));
  EXPECT_EQ(world.buffer.bytes()[0], std::byte{7});
  EXPECT_EQ(world.buffer.bytes()[1], std::byte{9});
  EXPECT_EQ(world.buffer.bytes()[2], std::byte{3});
  EXPECT_EQ(world.table.bytes()[1], std::byte{0});
  EXPECT_EQ(run(world, fetch_add(world.table.remote(8, 8), 5)), 100U);
  EXPECT_EQ(run(world, fetch_add(world.table.remote(8, 8), 5)), 105U);
  EXPECT_THAT(device.seen, ElementsAre("request 200", "answer 0", "request 200", "answer 200", "request 0", "answer 0",
                                       "request 0", "answer 0"));
}

TEST_P(Devices, MayAnswerItself) {
  World world(GetParam());
  Device device;
  device.on_request = [](NetworkDevice::Message& message) {
    message.old_value = 42;
    if (!message.payload.empty()) {
      std::memset(message.payload.data(), 0xab, message.payload.size());
    }
    return NetworkDevice::Verdict::answer;
  };
  world.simulation.pass_through(*world.pair, device);
  EXPECT_EQ(run(world, fetch_add(world.table.remote(0, 8), 5)), 42U);
  run(world, read(world.buffer.local(0, 100), world.table.remote(0, 100)));
  EXPECT_EQ(world.buffer.bytes()[99], std::byte{0xab});
  EXPECT_EQ(world.table.bytes()[0], std::byte{0}) << "the target has seen the FETCH-ADD";
}

TEST_P(Devices, MayRefuse) {
  World world(GetParam());
  Device device;
  device.on_request = [](NetworkDevice::Message& /*message*/) { return NetworkDevice::Verdict::refuse; };
  world.simulation.pass_through(*world.pair, device);
  try {
    run(world, fetch_add(world.table.remote(0, 8), 5));
    FAIL() << "not refused";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::remote_access);
    EXPECT_THAT(error.what(), testing::HasSubstr("the device on the way to node storage refused it"));
  }
  EXPECT_EQ(world.table.bytes()[0], std::byte{0});
}

TEST_P(Devices, MayDrop) {
  World world(GetParam());
  Device device;
  device.on_request = [](NetworkDevice::Message& /*message*/) { return NetworkDevice::Verdict::drop; };
  world.simulation.pass_through(*world.pair, device);
  try {
    run(world, fetch_add(world.table.remote(0, 8), 5));
    FAIL() << "not dropped";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::retry_exceeded);
  }
}

Task<void> read_then_write(QueuePair* pair, MemoryRegion* buffer, MemoryRegion* table) {
  co_await pair->submit(read(buffer->local(0, 4096), table->remote(0, 4096)),
                        write(buffer->local(0, 8), table->remote(0, 8)).with_signal());
}

// A long READ's answer takes longer than that of the WRITE behind it; the device sees them in order, and gets its tags.
TEST_P(Devices, SeeAnswersInOrderWithTheirTags) {
  World world(GetParam());
  Device device;
  std::uint64_t next = 7;
  std::vector<std::uint64_t> tags;
  std::vector<Time> times;
  device.on_request = [&](NetworkDevice::Message& message) {
    message.tag = next++;
    times.push_back(message.now);
    return NetworkDevice::Verdict::forward;
  };
  device.on_answer = [&](NetworkDevice::Message& message) {
    tags.push_back(message.tag);
    times.push_back(message.now);
  };
  world.simulation.pass_through(*world.pair, device);
  world.simulation.reactor().run(read_then_write(world.pair.get(), &world.buffer, &world.table));
  EXPECT_THAT(tags, ElementsAre(7, 8));
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_GT(times.front(), Time{});
}

// What is on its way when the queue pair ends still passes, as packets do.
TEST_P(Devices, SeeWhatIsOnItsWayWhenTheQueuePairEnds) {
  World world(GetParam());
  Device device(from_ns(1000), from_ns(1000));
  world.simulation.pass_through(*world.pair, device);
  const std::array<WorkRequest, 1> chain{write(world.buffer.local(0, 8), world.table.remote(0, 8)).with_inline()};
  static_cast<void>(world.pair->post(chain));
  world.pair.reset();
  world.simulation.reactor().run(sleep_for(&world.simulation.reactor()));
  EXPECT_THAT(device.seen, ElementsAre("request 8", "answer 0"));
}

// Answers keep their order, and none is lost, whenever the queue pair ends.
TEST_P(Devices, SeeAnswersInOrderWhenTheQueuePairEnds) {
  std::size_t answered = 0;
  for (double moment = 0; moment < 6000; moment += 50) {
    World world(GetParam());
    Device device(from_ns(200), from_ns(200));
    world.simulation.pass_through(*world.pair, device);
    const std::array chain{read(world.buffer.local(0, 4096), world.table.remote(0, 4096)),
                           write(world.buffer.local(0, 8), world.table.remote(0, 8)).with_inline(),
                           write(world.buffer.local(0, 8), world.table.remote(64, 8)).with_inline()};
    ASSERT_TRUE(world.pair->post(chain));
    world.simulation.reactor().run_for(from_ns(moment));
    world.pair.reset();
    world.simulation.reactor().run(sleep_for(&world.simulation.reactor()));
    std::vector<std::string> answers;
    for (const std::string& message : device.seen) {
      if (message.starts_with("answer")) {
        answers.push_back(message);
      }
    }
    EXPECT_THAT(answers, ElementsAre("answer 4096", "answer 0", "answer 0")) << moment << " ns";
    answered += answers.size();
  }
  EXPECT_GT(answered, 0U);
}

INSTANTIATE_TEST_SUITE_P(Presets, Devices, testing::Values(model::Preset::observed, model::Preset::strict),
                         [](const auto& one) { return one.param == model::Preset::strict ? "strict" : "observed"; });

Duration time_of(World& world, const WorkRequest& request) {
  const Time before = world.simulation.reactor().now();
  run(world, request);
  return world.simulation.reactor().now() - before;
}

// The way is cable, device, cable, and back; what the device answers does not go on.
TEST(NetworkDevice, TakesItsTime) {
  const auto in_world = [&](Duration cable, Duration latency, bool answers) {
    World world;
    Device device(cable, latency);
    if (answers) {
      device.on_request = [](NetworkDevice::Message& /*message*/) { return NetworkDevice::Verdict::answer; };
    }
    world.simulation.pass_through(*world.pair, device);
    return time_of(world, read(world.buffer.local(0, 8), world.table.remote(0, 8)));
  };
  const Duration near = in_world(from_ns(10), from_ns(100), false);
  EXPECT_EQ(in_world(from_ns(20), from_ns(100), false) - near, from_ns(40));
  EXPECT_EQ(in_world(from_ns(10), from_ns(200), false) - near, from_ns(200));
  const Duration answered = in_world(from_ns(10), from_ns(100), true);
  EXPECT_EQ(in_world(from_ns(20), from_ns(100), true) - answered, from_ns(20));
  EXPECT_EQ(in_world(from_ns(10), from_ns(200), true) - answered, from_ns(100));
  EXPECT_LT(answered, near);
}

// As over a link of the same length: an answer's bytes are on the wire once.
TEST(NetworkDevice, AnswersOverlapAsOnALink) {
  for (const std::uint64_t bytes : {8U, 1024U, 4096U}) {
    World plain;
    const Duration link = time_of(plain, read(plain.buffer.local(0, bytes), plain.table.remote(0, bytes)));
    World world;
    Device device({}, from_ns(World::steady().link.propagation_ns));
    world.simulation.pass_through(*world.pair, device);
    const Duration passing = time_of(world, read(world.buffer.local(0, bytes), world.table.remote(0, bytes)));
    EXPECT_LT(passing - link, from_ns(5)) << bytes << " bytes";
    EXPECT_LT(link - passing, from_ns(5)) << bytes << " bytes";
  }
}

TEST(NetworkDevice, IsSetOnce) {
  World world;
  Device device;
  world.simulation.pass_through(*world.pair, device);
  EXPECT_THROW(world.simulation.pass_through(*world.pair, device), std::invalid_argument);
  const auto ends = world.client.connect_pair(world.storage);
  EXPECT_THROW(world.simulation.pass_through(*ends.first, device), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::fabric::sim
