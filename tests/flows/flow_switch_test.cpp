// The control plane: what it refuses, and that flows come and go.
#include "flow_network.h"
#include "tests/message_of.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/wired_switch.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace sidelatch::flows {
namespace {
namespace control_plane {

constexpr SwitchAddress kOwn{.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}};

Flow plain(FlowSwitch& control) {
  const RingShape shape{.slots = 4, .item_bytes = 8};
  const FlowRing ring{.mac = {2, 0, 0, 0, 0, 1}, .ip = {10, 0, 0, 1}, .queue_pair = 17, .shape = shape};
  Flow flow{.producers = {ring}, .consumers = {ring}};
  flow.consumers[0].queue_pair = 18;
  flow.consumers[0].address = 0x200000;
  flow.producers[0].end = control.new_end();
  flow.consumers[0].end = control.new_end();
  return flow;
}

TEST(FlowSwitch, WhatIsWrongIsNamed) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, kOwn);
  const auto refusal = [&](const std::function<void(Flow&)>& change) {
    Flow flow = plain(control);
    change(flow);
    return message_of([&] { control.start(flow); });
  };
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers.clear(); }),
            "a flow of 1 producers and 0 consumers: it has one of each at least");
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers.push_back(flow.consumers[0]); }),
            "1 producers' rings for 2 consumers: in a shuffle each producer has a ring for each consumer");
  EXPECT_EQ(refusal([](Flow& flow) { flow.path_mtu = 1000; }), "path_mtu 1000: it is 256, 512, 1024, 2048 or 4096");
  EXPECT_EQ(refusal([](Flow& flow) { flow.batch_bytes = 0; }), "batch_bytes 0: 1 to 1073741824");
  EXPECT_EQ(refusal([](Flow& flow) { flow.poll_interval = {}; }), "poll_interval 0 ns: 1 at least");
  EXPECT_EQ(refusal([](Flow& flow) { flow.first_count = kEnded; }), "first_count 2147483648: 0 to 1073741823");
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers[0].shape.slots = 5; }),
            "consumers[0]: slots 5: a power of two, 1 to 536870912");
  EXPECT_EQ(
      refusal([](Flow& flow) { flow.consumers[0].shape.alignment = 16; }),
      "consumers[0]: items of 8 bytes, 16 from one to the next; those of producers[0] are 8 and 8. A flow has one "
      "size");
  EXPECT_EQ(refusal([](Flow& flow) { flow.producers[0].address = 2; }),
            "producers[0]: address 0x2: it must be a multiple of 4");
  EXPECT_EQ(refusal([](Flow& flow) { flow.producers[0].port = 2; }),
            "producers[0]: port 2: those of the switch are 0 to 1");
  EXPECT_EQ(refusal([](Flow& flow) { flow.producers[0].queue_pair = 1U << 24; }),
            "producers[0]: queue_pair 0x1000000: it has 24 bits");
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers[0].queue_pair = 17; }),
            "consumers[0]: queue_pair 17 is also that of producers[0]: each ring has its own");
  EXPECT_NE(refusal([](Flow& flow) { flow.consumers[0].end = flow.producers[0].end; }), "no error");
  EXPECT_FALSE(device.next_generated());
  EXPECT_EQ(device.state().table("Move.members").size(), 0U);  // a refused flow leaves nothing
  EXPECT_EQ(device.state().table("Move.ends_of_switch").size(), 0U);
  EXPECT_EQ(message_of([&] { control.stop(7); }), "stop: there is no flow 7; it may have been stopped");
  EXPECT_EQ(message_of([&] { static_cast<void>(control.state(7)); }),
            "state: there is no flow 7; it may have been stopped");
  p4::Switch careless(zero_sided_program(), {.ports = 2});
  EXPECT_NE(message_of([&] { FlowSwitch(careless, kOwn); }).find("SwitchOptions::icrc"), std::string::npos);
  p4::Switch large(zero_sided_program(), {.icrc = true});
  EXPECT_NE(message_of([&] { FlowSwitch(large, kOwn); }).find("it with 510 at most"), std::string::npos);
}

// Failed: such a flow began, and all but the first consumer got its items in the wrong place.
TEST(FlowSwitch, AnotherProgramIsRefused) {
  p4::Switch device(p4::compile_file(in_source_tree("p4/l2_l3.p4")), {.ports = 2, .icrc = true});
  EXPECT_THAT(message_of([&] { const FlowSwitch control(device, kOwn); }),
              ::testing::HasSubstr("zero_sided_program()"));
  EXPECT_THROW(FlowSwitch(device, kOwn), p4::ControlError);
}

TEST(FlowSwitch, RingsOfAReplicatedFlowThatDifferAreNamed) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, kOwn);
  const auto refusal = [&](const std::function<void(Flow&)>& change) {
    Flow flow = plain(control);
    flow.kind = FlowKind::replicate;
    flow.producers[0].shape = flow.consumers[0].shape = {.slots = 4, .item_bytes = 4096};
    flow.consumers.push_back(flow.consumers[0]);
    flow.consumers[1].address = 0x100000;
    flow.consumers[1].queue_pair = 19;
    flow.consumers[1].end = {.queue_pair = control.new_end().queue_pair, .psn = flow.consumers[0].end.psn};
    change(flow);
    return message_of([&] { control.stop(control.start(flow)); });
  };
  EXPECT_EQ(refusal([](Flow&) {}), "no error");
  for (const auto& change : std::vector<std::function<void(FlowRing&)>>{
           [](FlowRing& ring) { ring.shape.alignment = 4096; },  // the items begin elsewhere, with the same stride
           [](FlowRing& ring) { ring.shape.slots = 8; }, [](FlowRing& ring) { ring.shape.order = ByteOrder::big; },
           [](FlowRing& ring) { ++ring.end.psn; }}) {
    for (const std::size_t other : {0U, 1U}) {
      EXPECT_NE(refusal([&](Flow& flow) { change(flow.consumers[other]); }).find("consumers[1]"), std::string::npos);
    }
  }
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers.resize(33, flow.consumers[0]); }),
            "33 consumers: a flow is replicated to 32 at most");
}

// Failed: they were taken, and late answers of the earlier flow would have been answers to the later one.
TEST(FlowSwitch, EndsAreUsedOnce) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, kOwn);
  const Flow flow = plain(control);
  control.stop(control.start(flow));
  const std::string used = fmt::format("{}", flow.producers[0].end.queue_pair);
  EXPECT_EQ(
      message_of([&] { control.start(flow); }),
      "producers[0]: end.queue_pair " + used + " has been used by an earlier ring: take another one from new_end()");
  Flow other = plain(control);
  other.consumers[0].end = other.producers[0].end;
  EXPECT_NE(message_of([&] { control.start(other); }).find("consumers[0]: end.queue_pair"), std::string::npos);
  other = plain(control);
  other.consumers[0].end.queue_pair = control.new_end().queue_pair + 1;
  EXPECT_NE(message_of([&] { control.start(other); }).find("is none that new_end() has given"), std::string::npos);
  // What was refused has used nothing.
  other.consumers[0].end = control.new_end();
  EXPECT_EQ(message_of([&] { control.start(other); }), "no error");
}

TEST(FlowSwitch, EndsBeginWithPsnsThatNobodyKnows) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, kOwn);
  std::set<std::uint32_t> psns;
  for (int i = 0; i < 50; ++i) {
    psns.insert(control.new_end().psn);
  }
  EXPECT_GT(psns.size(), 45U);
  const std::vector<SwitchEnd> ends = control.new_ends(3);
  EXPECT_EQ(ends[0].psn, ends[2].psn);
  EXPECT_NE(ends[0].queue_pair, ends[2].queue_pair);
}

// Failed: the second one zeroed registers of the first one's flows, and what the first one had set stayed for ever.
TEST(FlowSwitch, ADeviceHasOneControlPlaneAtATime) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  for (int i = 0; i < 2; ++i) {
    FlowSwitch control(device, kOwn);
    control.add_station({2, 0, 0, 0, 0, 9}, 1);
    control.start(plain(control));
    EXPECT_NE(message_of([&] {
                FlowSwitch(device, {.mac = kOwn.mac, .ip = {10, 0, 1, 1}});
              }).find("has a FlowSwitch"),
              std::string::npos);
    EXPECT_TRUE(device.next_generated());
  }
  EXPECT_FALSE(device.next_generated());
  for (const char* const table : {"threads", "members", "ends_of_switch", "stations", "own_addresses"}) {
    EXPECT_EQ(device.state().table(std::string("Move.") + table).size(), 0U) << table;
  }
  EXPECT_EQ(device.state().table("Finish.consumers_of_copies").size(), 0U);
}

// Failed: the second one began with 1 again, and what was on its way in the switch could be of either.
TEST(FlowSwitch, FlowsOfADeviceHaveDifferentNumbers) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  std::set<FlowSwitch::FlowId> numbers;
  for (int i = 0; i < 3; ++i) {
    FlowSwitch control(device, kOwn);
    numbers.insert(control.start(plain(control)));
    numbers.insert(control.start(plain(control)));
    EXPECT_EQ(message_of([&] { control.start({}); }),
              "a flow of 0 producers and 0 consumers: it has one of each at least");
  }
  EXPECT_EQ(numbers.size(), 6U);
}

// Failed: such flows began, and units were given up for it, or memory was overwritten.
TEST(FlowSwitch, FlowsThatCannotWorkAreRefused) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .packet_bytes = 2121, .icrc = true});
  FlowSwitch control(device, kOwn);
  const auto refusal = [&](const std::function<void(Flow&)>& change) {
    Flow flow = plain(control);
    change(flow);
    return message_of([&] { control.stop(control.start(flow)); });
  };
  EXPECT_EQ(refusal([](Flow& flow) { flow.path_mtu = 1024; }), "no error");
  EXPECT_EQ(refusal([](Flow& flow) { flow.path_mtu = 2048; }),
            "path_mtu 2048: its packets have up to 2122 bytes, and the switch takes 2121 at most "
            "(SwitchOptions::packet_bytes)");
  EXPECT_EQ(refusal([](Flow& flow) { flow.time_out = std::chrono::microseconds(-1); }),
            "time_out -1 us: 0 to 268435456");
  EXPECT_EQ(refusal([](Flow& flow) { flow.time_out = std::chrono::microseconds((std::int64_t{1} << 28) + 1); }),
            "time_out 268435457 us: 0 to 268435456");
  EXPECT_EQ(refusal([](Flow& flow) { flow.producers[0].address = ~std::uint64_t{3}; }),
            "producers[0]: address 0xfffffffffffffffc: a ring of 160 bytes there goes beyond the end of memory");
  EXPECT_EQ(refusal([&](Flow& flow) {
              flow.producers.push_back(flow.producers[0]);
              flow.producers[1].queue_pair = 19;
              flow.producers[1].end = control.new_end();
              flow.producers[1].address = 128;
            }),
            "producers[1]: its memory is also that of producers[0]");
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers[0].address = 0; }),
            "consumers[0]: its memory is also that of producers[0]");
  EXPECT_EQ(refusal([](Flow& flow) { flow.producers[0].address = flow.consumers[0].address + 128; }),
            "consumers[0]: its memory is also that of producers[0]");
  EXPECT_EQ(refusal([](Flow& flow) { flow.consumers[0].address = 160; }), "no error");  // side by side
  EXPECT_EQ(refusal([](Flow& flow) {
              flow.consumers[0].address = 0;
              flow.consumers[0].ip = {10, 0, 0, 2};  // behind the same router
            }),
            "no error");
}

TEST(FlowSwitch, AsManyFlowsAsThePaperHasFit) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, kOwn);
  std::vector<FlowSwitch::FlowId> flows;
  std::string refusal = "no error";
  while (refusal == "no error") {
    refusal = message_of([&] { flows.push_back(control.start(plain(control))); });
  }
  EXPECT_GT(flows.size(), 1500U);
  EXPECT_NE(refusal.find("the switch has no room for more than"), std::string::npos);
  control.stop(flows.front());
  EXPECT_EQ(message_of([&] { control.start(plain(control)); }), "no error");
}

// What only flows that are not 1:1 need has fewer elements than there are rings: they are given back, too.
TEST(FlowSwitch, FlowsThatAreNot1To1GiveTheirRegistersBack) {
  p4::Switch device(zero_sided_program(), {.ports = 2, .icrc = true});
  FlowSwitch control(device, kOwn);
  const auto balanced = [&](std::uint32_t producers) {
    Flow flow = plain(control);
    flow.kind = FlowKind::balance;
    while (flow.producers.size() < producers) {
      flow.producers.push_back(flow.producers.front());
      flow.producers.back().queue_pair += static_cast<std::uint32_t>(flow.producers.size());
      flow.producers.back().end = control.new_end();
      flow.producers.back().address += std::uint64_t{1000} * flow.producers.size();
    }
    return flow;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(message_of([&] { control.stop(control.start(balanced(1000))); }), "no error");
    EXPECT_EQ(message_of([&] { control.start(balanced(1025)); }),
              "the switch has no room for more than 1024 producers' rings of flows that are not 1:1");
  }
  for (int i = 0; i < 1024; ++i) {
    ASSERT_EQ(message_of([&] { control.start(balanced(1)); }), "no error");
  }
  EXPECT_NE(message_of([&] { control.start(balanced(1)); }), "no error");
  for (int i = 0; i < 1024; ++i) {
    ASSERT_EQ(message_of([&] { control.start(plain(control)); }), "no error");  // 1:1 needs none of them
  }
}

// Otherwise its timer would keep the thread that drives the switch from ever sleeping.
TEST(FlowSwitch, AnIdleFlowBurnsNoCore) {
  const std::string name = fmt::format("idle-flow-{}", ::getpid());
  p4::WiredSwitch device(zero_sided_program(), {.ports = {{.number = 0, .wire = "shm:" + name}}});
  FlowSwitch control(device.device(), kOwn);
  Flow flow = plain(control);
  flow.most_retries = 0;
  control.start(flow);
  const auto cpu = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  device.serve(std::chrono::milliseconds(200));
  const auto before = cpu();
  device.serve(std::chrono::milliseconds(200));
  EXPECT_LT(cpu() - before, std::chrono::milliseconds(60));
}

TEST(FlowSwitch, AFlowThatIsStoppedInFlightLeavesTheSwitchQuiet) {
  for (int frames = 0; frames < 40; ++frames) {
    FlowNetwork network(zero_sided_program(), {.producer_shape = {.slots = 4, .item_bytes = 600},
                                               .consumer_shape = {.slots = 4, .item_bytes = 600}});
    int seen = 0;
    network.on_send = [&](std::size_t, std::size_t, std::span<const std::byte>) {
      ++seen;
      return -1;
    };
    network.run([&] {
      while (network.push(0)) {
      }
      return seen > frames;
    });
    network.control().stop(network.flow());
    EXPECT_FALSE(network.device().next_generated());
    network.run();  // until nothing travels
    const auto names = {network.pop(0), network.pop(0)};
    std::uint32_t number = 0;
    for (const auto& name : names) {
      if (name) {
        EXPECT_EQ(name->number, number++);
      }
    }
  }
}

// Frames of others, and those that are for the switch and mean nothing.
TEST(FlowSwitch, OtherTrafficPassesAndStrayAnswersDoNot) {
  FlowNetwork network(zero_sided_program(), {.producers = 2});
  network.control().add_station(network.host(1).nic.options().mac, 1);
  network.control().add_station(network.host(0).nic.options().mac, 0);
  const auto pair = softnic::nic::connect(network.host(0), network.host(1));
  network.host(0).word(0x20000) = 77;
  const softnic::nic::Sge sge = network.host(0).sge(0x20000, 8);
  ASSERT_EQ(pair.a.post_send({.id = 1,
                              .kind = softnic::nic::WorkKind::write,
                              .signaled = true,
                              .sges = {&sge, 1},
                              .remote_address = network.host(1).address(0x20000),
                              .rkey = network.host(1).key}),
            softnic::nic::Post::done);
  std::vector<softnic::nic::Completion> done;
  network.run([&] {
    done = network.host(0).sent();
    return !done.empty();
  });
  EXPECT_EQ(done[0].status, softnic::nic::CompletionStatus::success);
  EXPECT_EQ(network.host(1).word(0x20000), 77U);
}

}  // namespace control_plane
}  // namespace
}  // namespace sidelatch::flows
