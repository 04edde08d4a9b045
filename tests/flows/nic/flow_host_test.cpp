// FlowHost by its protocol: what it refuses, and what becomes of units that come, say something else, or die. The units
// here have no NIC; tests/tools/flow_join_test.cpp has processes with one.
#include "common/tcp.h"
#include "flows/nic/lines.h"

#include <sidelatch/flows/nic/flow_host.h>
#include <sidelatch/flows/nic/flow_unit.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace sidelatch::flows {
namespace {
namespace hosted {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class FlowHostTest : public ::testing::Test {
 protected:
  void host(const FlowHostOptions& options) { host_.emplace(device_, control_, options); }
  FlowHost& host() { return *host_; }
  FlowSwitch& control() { return control_; }

  exchange::Lines unit(const std::string& greeting = "") {
    int error = 0;
    exchange::Lines lines(connect_to(HostAndPort::parse(host_->address()),
                                     std::chrono::steady_clock::now() + std::chrono::seconds(10), error));
    if (!greeting.empty()) {
      lines.send(std::string(exchange::kGreeting) + " " + greeting);
    }
    return lines;
  }
  // What the host says next; empty: it has hung up.
  std::string said_to(exchange::Lines& lines) {
    for (;;) {
      if (auto line = lines.next()) {
        return *line;
      }
      if (lines.is_gone()) {
        return "";
      }
      host_->serve(milliseconds(1));
    }
  }
  void serve_until(const std::function<bool()>& done) {
    while (!done()) {
      host_->serve(milliseconds(1));
    }
  }
  // Its ends are taken, and its rings are told, each in memory of its own.
  std::string connect(exchange::Lines& lines) { return connect(lines, 4096 * queue_pair_); }
  std::string connect(exchange::Lines& lines, std::uint32_t address) {
    const std::string ends = said_to(lines);
    EXPECT_THAT(ends, StartsWith("ends "));
    lines.send(fmt::format("rings 2 3 {}:5:{}", ++queue_pair_, address));
    return ends;
  }

 private:
  std::uint32_t queue_pair_ = 16;
  std::string name_ = fmt::format("flow-host-{}", ::getpid());
  p4::WiredSwitch device_{zero_sided_program(), {.ports = {{.number = 0, .wire = "shm:" + name_}}}};
  FlowSwitch control_{device_.device(), {.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}}};
  std::optional<FlowHost> host_;
};

TEST_F(FlowHostTest, NamesWhatIsWrong) {
  host({.item_bytes = 64});
  const std::string greeting(exchange::kGreeting);
  for (const auto& [said, answer] : std::initializer_list<std::pair<std::string, std::string>>{
           {greeting + " producer 0 8 100 1 little",
            "no items of 100 bytes, aligned to 1; this flow's have 64, aligned to 1"},
           {greeting + " producer 0 8 64 8 little",
            "no items of 64 bytes, aligned to 8; this flow's have 64, aligned to 1"},
           {greeting + " consumer 0 5 64 1 little", "no slots 5: a power of two, 1 to 536870912"},
           {greeting + " producer 7 8 64 1 little", "no the switch has no port 7"},
           {greeting + " neither 0 8 64 1 little", "no 'neither' is neither producer nor consumer"},
           {greeting + " producer 0 8", "no a word is missing"},
           {greeting + " producer 0 8 64 1 little more", "no 'more' is too much"},
           {greeting + " producer 0 99999999999 64 1 little",
            "no '99999999999' is not 1 numbers of at most 4294967295"},
           {"GET / HTTP/1.1", "no 'GET / HTTP/1.1' is not to be said now"},
           {"done", "no 'done' is not to be said now"}}) {
    exchange::Lines lines = unit();
    lines.send(said);
    EXPECT_EQ(said_to(lines), answer);
    EXPECT_EQ(said_to(lines), "");
    EXPECT_EQ(host().units(), 0U);
  }
}

TEST_F(FlowHostTest, IsFoundByAnIpv6Address) {
  try {
    HostAndPort any{.host = "::1"};
    listen_on(any).close();
  } catch (const SocketError& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
  host({.address = "[::1]:0", .item_bytes = 64});
  EXPECT_THAT(host().address(), StartsWith("[::1]:"));
  exchange::Lines producer = unit("producer 0 8 64 1 little");
  EXPECT_THAT(said_to(producer), StartsWith("ends "));
}

TEST_F(FlowHostTest, RefusesMoreUnitsThanTheFlowHas) {
  host({.item_bytes = 64});
  exchange::Lines first = unit("producer 0 8 64 1 little");
  EXPECT_THAT(said_to(first), StartsWith("ends "));
  exchange::Lines second = unit("producer 0 8 64 1 little");
  EXPECT_EQ(said_to(second), "no the flow begins with 1 producers, and all are there");
}

TEST_F(FlowHostTest, AUnitThatDiesBeforeTheBeginningMakesRoom) {
  host({.item_bytes = 64, .flow = {.kind = FlowKind::replicate}});
  {
    exchange::Lines first = unit("consumer 0 8 64 1 little");
    connect(first);
    EXPECT_EQ(said_to(first), "wait 0 of 1 producers, 1 of 1 consumers");
  }
  serve_until([&] { return host().units() == 0; });
  exchange::Lines second = unit("consumer 0 8 64 1 little");
  connect(second);
  EXPECT_EQ(said_to(second), "wait 0 of 1 producers, 1 of 1 consumers");
  EXPECT_FALSE(host().has_begun());
}

// And leaves nothing in the switch when the host ends.
TEST_F(FlowHostTest, BeginsWhenAllAreThereAndEndsWhenAllHaveLeft) {
  host({.item_bytes = 64});
  exchange::Lines producer = unit("producer 0 8 64 1 little");
  exchange::Lines consumer = unit("consumer 0 8 64 1 big");
  connect(producer);
  EXPECT_EQ(said_to(producer), "wait 1 of 1 producers, 1 of 1 consumers");
  connect(consumer);
  const auto after_waits = [&](exchange::Lines& lines) {
    std::string line = said_to(lines);
    while (line.starts_with("wait ")) {
      line = said_to(lines);
    }
    return line;
  };
  EXPECT_EQ(after_waits(producer), "begin");
  EXPECT_EQ(after_waits(consumer), "begin");
  EXPECT_TRUE(host().has_begun());
  exchange::Lines late = unit("producer 0 8 64 1 little");
  EXPECT_EQ(said_to(late), "no the flow has begun with its 1 producers, and is not open");
  producer.send("done");
  consumer.close();  // it dies
  while (host().serve(milliseconds(1))) {
  }
  EXPECT_EQ(host().units(), 0U);
  const FlowSwitch::FlowId flow = host().flow();
  EXPECT_EQ(control().state(flow).taken.size(), 1U);
  host({.item_bytes = 64});  // the first one ends
  EXPECT_THROW(static_cast<void>(control().state(flow)), std::invalid_argument);
}

TEST_F(FlowHostTest, EndsWellIfItsFlowWasStoppedAtTheSwitch) {
  host({.item_bytes = 64});
  exchange::Lines producer = unit("producer 0 8 64 1 little");
  exchange::Lines consumer = unit("consumer 0 8 64 1 little");
  connect(producer);
  connect(consumer);
  serve_until([&] { return host().has_begun(); });
  const FlowSwitch::FlowId flow = host().flow();
  EXPECT_TRUE(control().has(flow));
  control().stop(flow);
  EXPECT_FALSE(control().has(flow));
  host({.item_bytes = 64});  // the first one ends
  EXPECT_FALSE(host().has_begun());
}

// Rings that share memory are no flow. Others may try.
TEST_F(FlowHostTest, UnitsThatAreNoFlowAreToldWhy) {
  host({.producers = 2, .item_bytes = 64});
  exchange::Lines first = unit("producer 0 8 64 1 little");
  exchange::Lines second = unit("producer 0 8 64 1 little");
  exchange::Lines consumer = unit("consumer 0 8 64 1 little");
  connect(first, 4096);
  connect(second, 4096);
  connect(consumer);
  std::string line = said_to(first);
  while (line.starts_with("wait ")) {
    line = said_to(first);
  }
  EXPECT_EQ(line, "no producers[1]: its memory is also that of producers[0]");
  EXPECT_EQ(host().units(), 0U);
  EXPECT_FALSE(host().has_begun());
}

TEST_F(FlowHostTest, AnOpenFlowTakesOthers) {
  host({.item_bytes = 64, .flow = {.kind = FlowKind::balance, .is_open = true}});
  exchange::Lines producer = unit("producer 0 8 64 1 little");
  exchange::Lines consumer = unit("consumer 0 8 64 1 little");
  connect(producer);
  connect(consumer);
  serve_until([&] { return host().has_begun(); });
  exchange::Lines another = unit("consumer 0 8 64 1 little");
  EXPECT_THAT(said_to(another), StartsWith("ends "));
  another.send("rings 2 3 20:5:2097152");
  EXPECT_EQ(said_to(another), "begin");
  EXPECT_EQ(host().state().delivered.size(), 2U);
  host().close();
  exchange::Lines late = unit("consumer 0 8 64 1 little");
  EXPECT_THAT(said_to(late), HasSubstr("is not open"));
}

TEST_F(FlowHostTest, RefusesOptionsThatMeanNothing) {
  EXPECT_THROW(host({.producers = 0, .item_bytes = 64}), std::invalid_argument);
  EXPECT_THROW(host({}), std::invalid_argument);  // no item size
  EXPECT_THROW(host({.address = "nowhere", .item_bytes = 64}), std::invalid_argument);
  EXPECT_THROW(host({.item_bytes = 64, .flow = {.producers = {FlowRing{}}}}), std::invalid_argument);
  EXPECT_THROW(host({.item_bytes = 64, .flow = {.first_count = 5}}), std::invalid_argument);  // units' rings begin at 0
}

// ---- What a unit is told that finds no flow.

std::string refusal(const FlowJoin& join, FlowJoinError::Reason reason) {
  try {
    FlowProducer producer(join);
  } catch (const FlowJoinError& error) {
    EXPECT_EQ(static_cast<int>(error.reason()), static_cast<int>(reason)) << error.what();
    return error.what();
  }
  return "";
}

TEST_F(FlowHostTest, AUnitThatFindsNobodyIsToldSo) {
  constexpr RingShape kShape{.slots = 8, .item_bytes = 64};
  EXPECT_THROW(FlowProducer({.address = "nowhere", .shape = kShape}), std::invalid_argument);
  EXPECT_THROW(FlowProducer({.address = "127.0.0.1:0", .shape = kShape}), std::invalid_argument);
  EXPECT_THROW(FlowProducer({.address = "127.0.0.1:1", .shape = {.slots = 3}}), std::invalid_argument);
  EXPECT_THAT(refusal({.address = "no.such.host.invalid:1", .shape = kShape}, FlowJoinError::Reason::no_switch),
              StartsWith("no.such.host.invalid:1: cannot find this host"));
  host({.item_bytes = 64});
  const std::string address = host().address();
  // It listens, and nobody serves it.
  EXPECT_EQ(
      refusal({.address = address, .shape = kShape, .patience = milliseconds(20)}, FlowJoinError::Reason::timeout),
      fmt::format("the switch at {} does not answer", address));
  HostAndPort any{.host = "127.0.0.1"};
  listen_on(any).close();  // now nobody has it
  EXPECT_EQ(refusal({.address = any.to_string(), .shape = kShape}, FlowJoinError::Reason::no_switch),
            fmt::format("no switch answers at {}: Connection refused; does it run, and is this its flow's address?",
                        any.to_string()));
}

}  // namespace hosted
}  // namespace
}  // namespace sidelatch::flows
