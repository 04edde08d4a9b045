// `sidelatch flow` as its users meet it: every kind of flow over a network with faults, the checks at the consumers,
// what it refuses, and that units make no system call.
#include "common/sanitizers.h"
#include "tests/paths.h"
#include "tests/sampled.h"
#include "tests/tools/process.h"
#include "tests/tools/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;

ShellResult flow(const std::string& arguments) {
  return run_shell("SIDELATCH_SOFTNIC_LIBRARY='" + std::string(verbs_library_path()) + "' '" + program_path() +
                   "' flow " + arguments + " 2>&1");
}

class FlowProgram : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (SIDELATCH_IS_SANITIZED) {
      GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
    }
  }
};

// A flow that would take hours, ended in its middle: its capture shows that packets move.
TEST_P(FlowProgram, SaysWhatCameWhenItIsEndedBySigterm) {
  ::setenv("SIDELATCH_SOFTNIC_LIBRARY", std::string(verbs_library_path()).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  std::string name = GetParam();
  std::replace(name.begin(), name.end(), ':', '-');
  const std::string capture = ::testing::TempDir() + "flow-sigterm-" + name + "-" + std::to_string(::getpid());
  Process process({program_path(), "flow", GetParam(), "--items", "1000000000", "--item-bytes", "8", "--slots", "2",
                   "--pcap", capture, "--json"});
  constexpr std::uintmax_t kSomePackets = 100'000;
  std::error_code none;
  while (!std::filesystem::exists(capture, none) || std::filesystem::file_size(capture, none) < kSomePackets) {
    ::sched_yield();
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 130) << process.text();
  const auto json = nlohmann::json::parse(process.text());
  EXPECT_FALSE(json["ended"].get<bool>());
  EXPECT_TRUE(json["violations"].empty());
  std::filesystem::remove(capture, none);
}

TEST_P(FlowProgram, BringsEachItemOnceWhateverTheNetworkDoes) {
  const std::string items = takes_long() ? "2000000" : "40000";
  const ShellResult ended = flow(std::string(GetParam()) + " --items " + items +
                                 " --item-bytes 100 --loss 0.01 --duplication 0.01 --reordering 0.01 --json");
  ASSERT_EQ(ended.status, 0) << ended.printed;
  const auto json = nlohmann::json::parse(ended.printed);
  EXPECT_EQ(json["kind"], GetParam());
  EXPECT_TRUE(json["ended"]);
  EXPECT_TRUE(json["violations"].empty());
  EXPECT_EQ(json["items"], json["producers"].size() * std::stoull(items));
  EXPECT_GT(json["injected"]["lost"], 0);
  EXPECT_GT(json["injected"]["duplicated"], 0);
  EXPECT_GT(json["injected"]["reordered"], 0);
}

TEST_P(FlowProgram, NoticesALostItem) {
  const ShellResult ended = flow(std::string(GetParam()) + " --items 2000 --item-bytes 16 --mistake lost");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.printed, HasSubstr("lost"));
  EXPECT_THAT(ended.printed, HasSubstr("1000"));
}

TEST_P(FlowProgram, NoticesAnItemThatComesTwice) {
  const ShellResult ended = flow(std::string(GetParam()) + " --items 2000 --item-bytes 16 --mistake twice");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.printed, HasSubstr("twice"));
}

TEST_P(FlowProgram, NoticesATornItem) {
  const ShellResult ended = flow(std::string(GetParam()) + " --items 2000 --item-bytes 17 --mistake torn");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.printed, HasSubstr("torn"));
}

TEST_P(FlowProgram, UnitsMakeNoSystemCall) {
  const ShellResult ended = flow(std::string(GetParam()) + " --items 2000 --item-bytes 64 --no-system-calls");
  EXPECT_EQ(ended.status, 0) << ended.printed;
}

INSTANTIATE_TEST_SUITE_P(AllKinds, FlowProgram, ::testing::Values("1:1", "shuffle", "balance", "replicate"),
                         [](const auto& each) {
                           const std::string name = each.param;
                           return name == "1:1" ? "OneToOne" : name;
                         });

using FlowChecks = FlowProgram;

TEST_F(FlowChecks, NoticeItemsOutOfOrder) {
  const ShellResult ended = flow("shuffle --items 2000 --item-bytes 16 --mistake swapped");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.printed, HasSubstr("out of order"));
}

TEST_F(FlowChecks, NoticeCopiesInDifferentOrders) {
  const ShellResult ended = flow("replicate --items 2000 --item-bytes 16 --mistake chain");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.printed, HasSubstr("consumers 0 and 1 got the items in different orders"));
}

TEST_F(FlowChecks, NoticeASystemCall) {
  const ShellResult ended = flow("1:1 --items 2000 --item-bytes 16 --no-system-calls --mistake syscall");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.printed, HasSubstr("producer 0 made system call number 110"));  // getppid
}

TEST_F(FlowChecks, WorkOverNicsThatTouchMemoryInAnotherOrder) {
  const ShellResult ended = flow("shuffle --producers 1 --consumers 3 --items 5000 --item-bytes 100 --order observed");
  EXPECT_EQ(ended.status, 0) << ended.printed;
}

// Units come and go while the network loses, doubles and reorders: what the flow promises to those that stay holds.
struct Changing {
  const char* name;
  const char* arguments;
  int joined;
  int left;
  int killed;
};

class FlowOfChangingUnits : public ::testing::TestWithParam<Changing> {
 protected:
  void SetUp() override {
    if (SIDELATCH_IS_SANITIZED) {
      GTEST_SKIP() << "no sanitizer can be preloaded with the software NIC";
    }
  }
};

TEST_P(FlowOfChangingUnits, KeepsItsPromises) {
  const ShellResult ended =
      flow(std::string(GetParam().arguments) + " --items " + (takes_long() ? "2000000" : "30000") +
           " --item-bytes 100 --loss 0.01 --duplication 0.01 --reordering 0.01 --json");
  ASSERT_EQ(ended.status, 0) << ended.printed;
  const auto json = nlohmann::json::parse(ended.printed);
  EXPECT_TRUE(json["ended"]);
  EXPECT_TRUE(json["violations"].empty());
  EXPECT_EQ(json["units"]["joined"], GetParam().joined);
  EXPECT_EQ(json["units"]["left"], GetParam().left);
  EXPECT_EQ(json["units"]["killed"], GetParam().killed);
}

INSTANTIATE_TEST_SUITE_P(
    All, FlowOfChangingUnits,
    ::testing::Values(
        Changing{"ProducerOfOneToOneDies", "1:1 --kill-producers 1", 0, 0, 1},
        Changing{"ConsumerOfOneToOneDies", "1:1 --kill-consumers 1", 0, 0, 1},
        Changing{"Shuffle", "shuffle --consumers 3 --join-producers 2 --kill-producers 1 --kill-consumers 1", 2, 0, 2},
        Changing{"Balance",
                 "balance --consumers 3 --join-producers 1 --join-consumers 2 --leave-consumers 1 "
                 "--kill-producers 1 --kill-consumers 1",
                 3, 1, 2},
        Changing{"Replicate",
                 "replicate --consumers 3 --join-producers 2 --leave-consumers 1 --kill-producers 1 "
                 "--kill-consumers 1",
                 2, 1, 2}),
    [](const auto& each) { return each.param.name; });

TEST_F(FlowChecks, NoticeALostItemWhileUnitsJoinAndLeave) {
  for (const char* const kind : {"balance --consumers 3 --join-consumers 1", "replicate --consumers 3"}) {
    const ShellResult ended = flow(std::string(kind) + " --join-producers 1 --leave-consumers 1 --items 4000 " +
                                   "--item-bytes 16 --mistake lost");
    EXPECT_EQ(ended.status, 1) << kind;
    EXPECT_THAT(ended.printed, HasSubstr("lost"));
    EXPECT_THAT(ended.printed, HasSubstr("2000"));
  }
}

TEST_F(FlowChecks, SayThatAFlowWasOverBeforeAUnitCouldBeKilled) {
  const ShellResult ended = flow("1:1 --items 1 --item-bytes 16 --kill-producers 1");
  EXPECT_EQ(ended.status, 1) << ended.printed;
  EXPECT_THAT(ended.printed, HasSubstr("1 units could not join, leave or be killed"));
}

struct Refused {
  const char* arguments;
  const char* says;
};

class FlowRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(FlowRefuses, WhatMeansNothing) {
  const ShellResult ended = flow(GetParam().arguments);
  EXPECT_EQ(ended.status, 2) << ended.printed;
  EXPECT_THAT(ended.printed, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, FlowRefuses,
    ::testing::Values(Refused{"ring", "there is no flow ring: 1:1, shuffle, balance or replicate"},
                      Refused{"1:1 --consumers 2", "--consumers 2: 1:1 has one"},
                      Refused{"shuffle --producers 0", "--producers 0: 1 to 32"},
                      Refused{"shuffle --consumers 33", "--consumers 33: 1 to 32"},
                      Refused{"1:1 --items 0", "--items 0: 1 to 1000000000"},
                      Refused{"1:1 --item-bytes 7", "--item-bytes 7: 8"},
                      Refused{"1:1 --slots 100", "--slots 100: a power of two"},
                      Refused{"1:1 --slots 0", "--slots 0: a power of two"},
                      Refused{"1:1 --mtu 1500", "--mtu 1500: 256, 512, 1024, 2048 or 4096"},
                      Refused{"1:1 --batch-bytes 0", "--batch-bytes 0: 1 to"},
                      Refused{"1:1 --loss 1", "--loss 1: a chance from 0 to below 1"},
                      Refused{"1:1 --loss nan", "--loss nan: a chance from 0 to below 1"},
                      Refused{"1:1 --poll-us 0", "--poll-us 0: 1 to 1000000"},
                      Refused{"1:1 --time-out-us 0", "--time-out-us 0: 1 to 10000000"},
                      Refused{"1:1 --retries 65536", "--retries 65536: 0 to 65535"},
                      Refused{"1:1 --kill-producers 2", "--kill-producers 2: at most 1"},
                      Refused{"1:1 --kill-producers 1 --kill-consumers 1", "--kill-consumers 1: at most 0"},
                      Refused{"shuffle --join-consumers 1", "--join-consumers 1: at most 0"},
                      Refused{"shuffle --leave-consumers 1", "--leave-consumers 1: at most 0"},
                      Refused{"shuffle --join-producers 31", "--join-producers 31: at most 30"},
                      Refused{"balance --leave-consumers 1 --kill-consumers 1", "--kill-consumers 1: at most 0"},
                      Refused{"replicate --kill-consumers 2", "--kill-consumers 2: at most 1"},
                      Refused{"1:1 --kill-consumers 1 --join-producers 1", "--join-producers: the flow ends"},
                      Refused{"shuffle --kill-producers 1 --retries 0", "--retries 0: nobody is given up"},
                      Refused{"1:1 --producers 2", "--producers 2: 1:1 has one"},
                      Refused{"1:1 --stall 0", "--stall 0: above 0 to 86400"},
                      Refused{"1:1 --mistake any", "--mistake any: lost, twice"},
                      Refused{"1:1 --mistake chain", "--mistake chain: only consumers of a replicated flow"},
                      Refused{"1:1 --order any", "--order any: strict, observed, spec or relaxed"},
                      Refused{"1:1 --nic mlx5_0", "--nic mlx5_0: DEVICE=INTERFACE"},
                      Refused{"1:1 --nic =eth1", "--nic =eth1: DEVICE=INTERFACE"},
                      Refused{"1:1 --nic a=eth1 --nic b=eth1", "--nic b=eth1: the device and the interface of each"},
                      Refused{"1:1 --nic a=eth1 --order spec", "--order: only software NICs"},
                      Refused{"1:1 --switch-ip 10.0.0.9", "--switch-ip: software NICs know it"},
                      Refused{"1:1 --nic a=eth1 --switch-ip here", "--switch-ip here: an IPv4 address"},
                      Refused{"1:1 --unit 0,p0", "--unit"}));

// What it says of the device or, without the right to use the interface, of the interface.
TEST(FlowOfNics, SaysThatThereIsNone) {
  const ShellResult ended = flow("1:1 --nic nosuch0=nosuch1");
  EXPECT_EQ(ended.status, 3) << ended.printed;
  EXPECT_THAT(ended.printed, HasSubstr("nosuch"));
}

}  // namespace
}  // namespace sidelatch::tools
