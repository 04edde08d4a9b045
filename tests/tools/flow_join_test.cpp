// Processes that join a flow by its address: examples/flow_join.cpp as a switch, producers and consumers of their own,
// on software NICs.
#include "common/sanitizers.h"
#include "tests/paths.h"
#include "tests/tools/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;

class JoinedFlow : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SIDELATCH_IS_SANITIZED) {
      GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
    }
  }
  static std::string program() {
    return std::filesystem::path(program_path()).parent_path() / "examples" / "flow_join";
  }
  void start_switch(const std::string& producers = "1", const std::string& consumers = "1") {
    switch_ = std::make_unique<Process>(std::vector<std::string>{program(), "switch", name_, producers, consumers});
    switch_->await("the flow is at ");
    const std::string& text = switch_->text();
    while (text.find('\n') == std::string::npos) {
      switch_->await("\n");
    }
    const std::size_t at = text.find("127.0.0.1:");
    address_ = text.substr(at, text.find('\n') - at);
  }
  // `what` behind the address and the port.
  std::unique_ptr<Process> unit(const std::string& role, int port, const std::vector<std::string>& what = {}) {
    const std::string number = std::to_string(port);
    std::vector<std::string> command{program_path(),
                                     "softnic",
                                     "run",
                                     "--wire",
                                     "switch:" + name_ + "-" + number + ",10.9.0." + std::to_string(port + 1),
                                     "--",
                                     program(),
                                     role,
                                     address_,
                                     number};
    command.insert(command.end(), what.begin(), what.end());
    return std::make_unique<Process>(command);
  }
  Process& the_switch() { return *switch_; }

 private:
  std::string name_ = "test-join-" + std::to_string(::getpid());
  std::string address_;
  std::unique_ptr<Process> switch_;
};

TEST_F(JoinedFlow, ProducersAndConsumersFindEachOther) {
  start_switch("2", "2");
  const auto first = unit("push", 0, {"20000"});
  const auto second = unit("push", 1, {"30000"});
  const auto left = unit("pop", 2);
  const auto right = unit("pop", 3);
  EXPECT_EQ(first->wait(), 0) << first->text();
  EXPECT_EQ(second->wait(), 0) << second->text();
  EXPECT_EQ(left->wait(), 0) << left->text();
  EXPECT_EQ(right->wait(), 0) << right->text();
  EXPECT_THAT(second->text(), HasSubstr("30000 items were delivered"));
  const auto items = [](const Process& unit) {
    const std::string& text = unit.text();
    return std::stoul(text.substr(text.find("begun\n") + 6));
  };
  EXPECT_EQ(items(*left) + items(*right), 50'000U);
  EXPECT_EQ(the_switch().wait(), 0);
  EXPECT_THAT(the_switch().text(), HasSubstr("the flow has ended"));
}

TEST_F(JoinedFlow, AnotherItemSizeAndOneTooManyAreRefused) {
  start_switch();
  const auto other = unit("push", 0, {"10", "100"});
  EXPECT_EQ(other->wait(), 1);
  EXPECT_THAT(other->text(), HasSubstr("refuses: items of 100 bytes, aligned to 1; this flow's have 64"));
  const auto nowhere = unit("push", 5, {"10"});
  EXPECT_EQ(nowhere->wait(), 1);
  EXPECT_THAT(nowhere->text(), HasSubstr("refuses: the switch has no port 5"));
  const auto consumer = unit("pop", 1);
  const auto producer = unit("push", 0, {"10"});
  producer->await("the flow has begun");
  const auto late = unit("push", 0, {"10"});
  EXPECT_EQ(late->wait(), 1);
  EXPECT_EQ(producer->wait(), 0) << producer->text();
  EXPECT_EQ(consumer->wait(), 0) << consumer->text();
}

// The producer's ring fills up, or the consumer's stays empty.
TEST_F(JoinedFlow, UnitsNoticeThatTheSwitchHasDied) {
  start_switch();
  const auto producer = unit("push", 0, {"4000000000"});
  const auto consumer = unit("pop", 1);
  producer->await("the flow has begun");
  consumer->await("the flow has begun");
  the_switch().signal(SIGKILL);
  EXPECT_EQ(producer->wait(), 1);
  EXPECT_EQ(consumer->wait(), 1);
  EXPECT_THAT(producer->text(), HasSubstr("has ended before the flow"));
  EXPECT_THAT(consumer->text(), HasSubstr("has ended before the flow"));
}

// Whoever waits for others is told that the switch has gone, too.
TEST_F(JoinedFlow, AUnitThatWaitsForOthersNoticesThatTheSwitchHasDied) {
  start_switch();
  const auto producer = unit("push", 0, {"10"});
  the_switch().signal(SIGKILL);
  EXPECT_EQ(producer->wait(), 1);
}

TEST_F(JoinedFlow, AKilledProducerIsGivenUpAndTheConsumerIsTold) {
  start_switch();
  const auto producer = unit("push", 0, {"4000000000"});
  const auto consumer = unit("pop", 1);
  producer->await("the flow has begun");
  consumer->await("the flow has begun");
  producer->signal(SIGKILL);
  EXPECT_EQ(consumer->wait(), 1);
  EXPECT_EQ(the_switch().wait(), 0);
  EXPECT_THAT(the_switch().text(), HasSubstr("a unit was lost"));
}

// Killed before the flow begins: another one has its place, and its cable.
TEST_F(JoinedFlow, AProducerThatIsKilledTooEarlyIsReplaced) {
  start_switch();
  unit("push", 0, {"10"});  // dies at once
  const auto producer = unit("push", 0, {"1000"});
  const auto consumer = unit("pop", 1);
  const int end = producer->wait();
  if (end != 0) {  // the first one was still there: the place is free now
    EXPECT_THAT(producer->text(), HasSubstr("refuses"));
    const auto again = unit("push", 0, {"1000"});
    EXPECT_EQ(again->wait(), 0) << again->text();
  }
  EXPECT_EQ(consumer->wait(), 0) << consumer->text();
  EXPECT_THAT(consumer->text(), HasSubstr("1000 items came"));
}

}  // namespace
}  // namespace sidelatch::tools
