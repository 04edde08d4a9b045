// Latches at `sidelatch switch` as their users have them: memory node, switch and clients are processes of their own,
// on software NICs, and the switch loses, repeats and reorders packets. tests/vm/switch/latch_peer.cpp is the client;
// it checks what it reads.
#include "tests/paths.h"
#include "tests/tools/latches_at_a_switch.h"
#include "tests/tools/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::tools {
namespace {

using ::testing::HasSubstr;

// With versions of 64 bits, and of 32.
class TuplesAtASwitch : public LatchesAtASwitch, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, TuplesAtASwitch, ::testing::Values(kTuples, kShortVersions), [](const auto& one) {
  return std::string(std::string_view(one.param) == kTuples ? "LongVersions" : "ShortVersions");
});

TEST_P(TuplesAtASwitch, TuplesAreUpdatedOnceAndReadWholeWhateverTheSwitchLoses) {
  start(GetParam(), kFaults);
  const auto owner = peer(2, {"make", tuples(), "5"});
  owner->await("ready");
  const auto first = peer(3, {"count", tuples(), "60", "1"});
  const auto second = peer(4, {"count", tuples(), "60", "2"});
  expect_done(*first, "done 60 updates");
  const auto third = peer(3, {"count", tuples(), "30", "3"});  // comes when another has gone
  expect_done(*second, "done 60 updates");
  expect_done(*third, "done 30 updates");
  owner->write_line("now");
  expect_done(*owner, "sum 150");
  expect_faults(stop());
}

TEST_P(TuplesAtASwitch, ADeadClientsLatchIsReleased) {
  start(GetParam());
  const auto owner = peer(2, {"make", tuples(), "1"});
  owner->await("ready");
  const auto holder = peer(3, {"hold", tuples()});
  holder->await("holding");
  const auto waits = peer(4, {"count", tuples(), "10", "1"});
  holder->signal(SIGKILL);
  expect_done(*waits, "done 10 updates");
  owner->write_line("now");
  expect_done(*owner, "sum 10");
}

TEST_P(TuplesAtASwitch, ATupleInDoubtIsWrittenByItsHeir) {
  start(GetParam());
  const auto owner = peer(2, {"make", tuples(), "1"});
  owner->await("ready");
  expect_repair_of_a_tuple_in_doubt();
  expect_done(*peer(3, {"count", tuples(), "7", "1"}), "done 7 updates");
  owner->write_line("now");
  expect_done(*owner, "sum 1007");
}

// Two racks, each with a memory node whose tuples its own switch has, and a cable between the switches.
TEST_F(LatchesAtASwitch, TuplesAreDividedOverTheSwitchesOfTwoRacks) {
  struct Rack {
    std::string at_switch = free_port();
    std::string at_memory = free_port();
    std::unique_ptr<Process> device;
    std::unique_ptr<Process> memory;
    std::unique_ptr<Process> owner;
    [[nodiscard]] std::string tuples() const { return "tuples,127.0.0.1:" + at_switch; }
  };
  const std::string folder = ::testing::TempDir() + cable(0);
  const auto address = [](std::size_t rack, int port) {
    return "10.0." + std::to_string(rack) + "." + std::to_string(port);
  };
  const auto rack_cable = [&](std::size_t rack, int port) { return cable(static_cast<int>(10 * (rack + 1)) + port); };
  const auto rack_wire = [&](std::size_t rack, int port) {
    return "switch:" + rack_cable(rack, port) + "," + address(rack, port);
  };
  const auto rack_peer = [&](std::size_t rack, int port, const std::vector<std::string>& arguments) {
    std::vector<std::string> command{program_path(),        "softnic", "run",       "--wire",
                                     rack_wire(rack, port), "--",      latch_peer()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<Process>(command);
  };
  std::array<Rack, 2> racks;
  for (std::size_t i = 0; i < racks.size(); ++i) {
    Rack& rack = racks[i];
    std::vector<std::string> command{program_path(),
                                     "switch",
                                     in_source_tree(kTuples),
                                     "--json",
                                     "--latches",
                                     "127.0.0.1:" + rack.at_switch,
                                     "--memory",
                                     "127.0.0.1:" + rack.at_memory};
    command.insert(command.end(),
                   {"--port", "4=link:" + folder + std::to_string(i) + "," + folder + std::to_string(1 - i)});
    for (int port = 1; port <= 3; ++port) {
      command.insert(command.end(),
                     {"--port", std::to_string(port) + "=shm:" + rack_cable(i, port), "--station",
                      std::to_string(port) + "=" + address(i, port), "--station", "4=" + address(1 - i, port)});
    }
    command.insert(command.end(), kFaults.begin(), kFaults.end());
    rack.device = std::make_unique<Process>(command);
    rack.device->await("clients set up latches at");
    rack.memory = std::make_unique<Process>(
        std::vector<std::string>{program_path(), "check", "--fabric", "softnic", "--wire", rack_wire(i, 1), "--order",
                                 "observed", "--torn-bias", "0.3", "--server", "127.0.0.1:" + rack.at_memory});
    rack.memory->await("lends");
    rack.owner = rack_peer(i, 2, {"make", rack.tuples(), "3"});
    rack.owner->await("ready");
  }
  const auto first = rack_peer(0, 3, {"both", racks[0].tuples(), racks[1].tuples(), "30", "1"});
  const auto second = rack_peer(1, 3, {"both", racks[0].tuples(), racks[1].tuples(), "30", "2"});
  expect_done(*first, "done 30 updates of both");
  expect_done(*second, "done 30 updates of both");
  for (Rack& rack : racks) {
    rack.owner->write_line("now");
    expect_done(*rack.owner, "sum 60");
    rack.device->signal(SIGTERM);
    EXPECT_EQ(rack.device->wait(), 0) << rack.device->text();
    const std::string text = rack.device->text();
    expect_faults(nlohmann::json::parse(text.substr(text.find('{'))));
  }
}

const std::vector<std::string> kShared{"--share", "objects=1"};

// Clients are in the middle of their updates. Those whose answer was lost with the switch happen once, too.
TEST_P(TuplesAtASwitch, AKilledSwitchRecoversTheTuplesOfAServerThatLivesOn) {
  start(GetParam(), kFaults, kShared);
  const auto first = peer(2, {"endure", kept(3), "120", "1", "11"});
  const auto second = peer(3, {"endure", kept(3), "120", "2", "12"});
  for (const char* const so_far : {"at 20\n", "at 60\n", "at 100\n"}) {
    first->await(so_far);
    kill_switch();
    start_switch(GetParam(), kFaults);
  }
  expect_done(*first, "done 120 updates");
  expect_done(*second, "done 120 updates");
  expect_done(*peer(4, {"sum", kept(3)}), "sum 240");
  expect_faults(stop());
}

// As the same, but the switch says that it ends.
TEST_F(LatchesAtASwitch, ASwitchThatIsEndedLeavesNoUpdateHalfDone) {
  start(kTuples, {}, kShared);
  const auto first = peer(2, {"endure", kept(1), "100", "1", "11"});
  const auto second = peer(3, {"endure", kept(1), "100", "2", "12"});
  first->await("at 40\n");
  static_cast<void>(stop());
  start_switch(kTuples);
  expect_done(*first, "done 100 updates");
  expect_done(*second, "done 100 updates");
  expect_done(*peer(4, {"sum", kept(1)}), "sum 200");
}

// The other client goes on when the grace is over. What the dead one had in flight has happened, or has not.
TEST_F(LatchesAtASwitch, AClientThatDiesWithItsSwitchIsNotWaitedForLongerThanTheGrace) {
  start(kTuples, {}, kShared);
  const auto dies = peer(2, {"endure", kept(3), "1000000", "1", "11"});
  const auto lives = peer(3, {"endure", kept(3), "100", "2", "12"});
  lives->await("at 40\n");
  dies->await("at 40\n");
  kill_switch();
  dies->signal(SIGKILL);
  EXPECT_EQ(dies->wait(), -1);
  start_switch(kTuples, {"--grace", "0.5"});
  expect_done(*lives, "done 100 updates");
}

// A client dies in the middle of its WRITE, and its switch later. The next switch knows that the tuple may be torn.
TEST_F(LatchesAtASwitch, ATupleInDoubtIsInDoubtAtTheNextSwitchToo) {
  start(kTuples, {}, kShared);
  bool was_in_doubt = false;
  for (int attempt = 0; attempt < 20 && !was_in_doubt; ++attempt) {
    const auto writer = peer(3, {"write", kept(1)});
    writer->await("holding");
    memory().signal(SIGSTOP);
    writer->write_line("now");
    writer->await("writing");
    writer->signal(SIGKILL);
    EXPECT_EQ(writer->wait(), -1);
    memory().signal(SIGCONT);
    // The next client gets an answer when the switch has released the dead one: not before, and never if it is in
    // doubt.
    was_in_doubt = device().says("is in doubt", std::chrono::seconds(2));
  }
  ASSERT_TRUE(was_in_doubt);
  kill_switch();
  start_switch(kTuples, {"--grace", "0.2"});
  const auto heir = peer(4, {"repair", kept(1), "9"});
  expect_done(*heir, "repaired");
  expect_done(*peer(2, {"sum", kept(1)}), "sum 1000");
}

TEST_F(LatchesAtASwitch, MemoryThatTheServerDoesNotShareIsNotRecovered) {
  start(kTuples, {}, kShared);
  const auto early = peer(2, {"sum", "kept," + at_memory() + ",3"});
  EXPECT_EQ(early->wait(), 2);
  EXPECT_THAT(early->text(), HasSubstr("it is no switch"));
  const auto too_many = peer(2, {"sum", kept(1'000'000)});
  EXPECT_EQ(too_many->wait(), 2);
  expect_done(*peer(2, {"sum", kept(3)}), "sum 0");
}

// The memory node ends what went through the first switch, which its clients are told. The second one begins with new
// memory.
TEST_F(LatchesAtASwitch, ASecondSwitchTakesThePlaceOfAKilledOne) {
  start(kTuples, kFaults);
  const auto owner = peer(2, {"make", tuples(), "2"});
  owner->await("ready");
  const auto holder = peer(3, {"hold", tuples()});
  holder->await("holding");
  kill_switch();
  owner->write_line("now");
  EXPECT_EQ(owner->wait(), 2);
  EXPECT_THAT(owner->text(), HasSubstr(at_switch()));
  start_switch(kTuples, kFaults);
  const auto next = peer(2, {"make", tuples(), "2"});
  next->await("ready");
  expect_done(*peer(4, {"count", tuples(), "20", "1"}), "done 20 updates");
  next->write_line("now");
  expect_done(*next, "sum 20");
}

TEST_F(LatchesAtASwitch, WordsAreChangedOnceWhateverTheSwitchLoses) {
  start(kWords, kFaults);
  const auto first = peer(2, {"add", at_switch(), "50", "0"});
  const auto second = peer(3, {"add", at_switch(), "50", "1"});
  expect_done(*first, "done 50 FETCH-ADDs");
  expect_done(*second, "done 50 FETCH-ADDs");
  expect_done(*peer(4, {"added", at_switch()}), "sum 100");
  expect_faults(stop());
}

TEST_F(LatchesAtASwitch, WordsLatchObjectsOfTheMemoryNode) {
  start(kWords, kFaults);
  const auto owner = peer(2, {"make", words(), "3"});
  owner->await("ready");
  const auto first = peer(3, {"count", words(), "30", "1"});
  const auto second = peer(4, {"count", words(), "30", "2"});
  expect_done(*first, "done 30 updates");
  expect_done(*second, "done 30 updates");
  owner->write_line("now");
  expect_done(*owner, "sum 60");
  expect_faults(stop());
}

// Bare READs through the same switch are the control: they must tear.
TEST_F(LatchesAtASwitch, ReadsTearAndThoseOfTheSchemeDoNot) {
  start(kTuples);
  Process check({program_path(), "check", "--fabric", "softnic", "--wire", wire(2), "--connect", at_switch(),
                 "--at-switch", "--sizes", "1024", "--reads", "1000", "--seconds", "50", "--json"});
  EXPECT_EQ(check.wait(), 0) << check.text();
  const auto json = nlohmann::json::parse(check.text());
  ASSERT_EQ(json["probes"][0]["name"], "torn-read");
  EXPECT_GT(json["probes"][0]["detected"].get<int>() + json["probes"][0]["undetected"].get<int>(), 0) << json;
  bool found = false;
  for (const auto& scheme : json["schemes"]) {
    if (scheme["scheme"] == "optimistic/switch") {
      found = true;
      EXPECT_EQ(scheme["sizes"][0]["torn"], 0) << scheme;
      EXPECT_FALSE(scheme["sizes"][0]["stuck"]) << scheme;
      EXPECT_GT(scheme["sizes"][0]["accepted"], 0) << scheme;
      EXPECT_GT(scheme["sizes"][0]["rejected"], 0) << scheme;
    }
  }
  EXPECT_TRUE(found) << json;
}

// A tuple is one packet. The sizes of a check go beyond that, and it says which ones it leaves out.
TEST_F(LatchesAtASwitch, ACheckLeavesOutBlocksThatAreNoPacket) {
  start(kTuples);
  const std::vector<std::string> command = {program_path(), "check",     "--fabric",    "softnic", "--wire", wire(2),
                                            "--connect",    at_switch(), "--at-switch", "--reads", "100",    "--json"};
  const auto with_sizes = [&command](const std::string& sizes) {
    std::vector<std::string> with = command;
    with.insert(with.end(), {"--sizes", sizes});
    return with;
  };
  Process check(with_sizes("64,8192"));
  EXPECT_EQ(check.wait(), 0) << check.text();
  const auto json = nlohmann::json::parse(check.text());
  EXPECT_TRUE(json["complete"].get<bool>()) << json;
  std::set<std::string> left_out;
  for (const auto& probe : json["probes"]) {
    if (probe.contains("skipped")) {
      EXPECT_THAT(probe["skipped"].get<std::string>(), HasSubstr("a tuple is one packet: at most 4096 bytes"));
      left_out.insert(probe["name"]);
    }
  }
  EXPECT_EQ(left_out, (std::set<std::string>{"torn-read, 8192 B", "optimistic/switch, 8192 B"}));
  Process none(with_sizes("8192"));
  EXPECT_EQ(none.wait(), 2);
  EXPECT_THAT(none.text(), HasSubstr("--sizes 8192: a tuple is one packet"));
}

// The blocks of docs/switch.md, "In five minutes", with ports and wires of this test.
std::vector<std::string> recipe(const std::vector<std::pair<std::string, std::string>>& replaced) {
  std::ifstream file(in_source_tree("docs/switch.md"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::size_t at = text.find("## In five minutes");
  const std::size_t end = text.find("\n## ", at + 1);
  std::vector<std::string> blocks;
  const std::string begin = "```sh\n";
  for (at = text.find(begin, at); at < end; at = text.find(begin, at)) {
    at += begin.size();
    std::string block = text.substr(at, text.find("```", at) - at);
    for (const auto& [from, to] : replaced) {
      for (std::size_t i = block.find(from); i != std::string::npos; i = block.find(from, i + to.size())) {
        block.replace(i, from.size(), to);
      }
    }
    blocks.push_back("cd '" + in_source_tree("") + "' && exec " + block);
  }
  return blocks;
}

TEST_F(LatchesAtASwitch, TheRecipeWorks) {
  const auto blocks = recipe({{"build/release/sidelatch", program_path()},
                              {"127.0.0.1:18515", at_memory()},
                              {"127.0.0.1:18516", at_switch()},
                              {"sw1", cable(1)},
                              {"sw2", cable(2)}});
  ASSERT_EQ(blocks.size(), 3U);
  const auto shell = [](const std::string& block) {
    return std::make_unique<Process>(std::vector<std::string>{"/bin/sh", "-c", block});
  };
  const auto device = shell(blocks[0]);
  device->await("clients set up latches at");
  const auto memory = shell(blocks[1]);
  memory->await("lends");
  const auto client = shell(blocks[2]);
  EXPECT_EQ(client->wait(), 0) << client->text();
  EXPECT_THAT(client->text(), HasSubstr("optimistic/switch"));
}

TEST_F(LatchesAtASwitch, WhatTheSwitchDoesNotTakeIsRefusedWithASentence) {
  start(kTuples);
  const auto no_tuples = peer(2, {"make", "tuples," + at_memory(), "1"});
  EXPECT_EQ(no_tuples->wait(), 2);
  EXPECT_THAT(no_tuples->text(), HasSubstr("it is no switch"));
  const auto no_words = peer(2, {"added", at_switch()});
  EXPECT_EQ(no_words->wait(), 2);
  EXPECT_THAT(no_words->text(), HasSubstr("shares no region 'words'"));
  const auto too_many = peer(2, {"make", tuples(), "300000"});
  EXPECT_EQ(too_many->wait(), 2);
  EXPECT_THAT(too_many->text(), HasSubstr("the switch has versions for 262144 more tuples"));
  const auto objects = peer(2, {"make", tuples(), "1"});
  objects->await("ready");
  const auto holder = peer(3, {"hold", tuples()});
  holder->await("holding");
  const auto late = peer(4, {"make", tuples(), "1"});
  EXPECT_EQ(late->wait(), 2);
  EXPECT_THAT(late->text(), HasSubstr("the switch has connections already"));
}

// Nothing would reach it, and it would take seconds to say that nobody answers.
TEST_F(LatchesAtASwitch, AClientAtAnAddressOfNoStationIsToldSo) {
  start(kWords);
  Process client({program_path(), "softnic", "run", "--wire", "switch:" + cable(2) + ",10.0.0.7", "--", latch_peer(),
                  "add", at_switch(), "1", "0"});
  EXPECT_EQ(client.wait(), 2);
  EXPECT_THAT(client.text(), HasSubstr("--station PORT=10.0.0.7"));
}

TEST_F(LatchesAtASwitch, WhatCannotBeSharedIsRefusedWithASentence) {
  for (const char* const wrong : {"zebra", "=5", "x=", "x=0", "x=99999999", "x=-1"}) {
    Process process({program_path(), "check", "--fabric", "softnic", "--server", at_memory(), "--share", wrong});
    EXPECT_EQ(process.wait(), 2) << wrong;
    EXPECT_THAT(process.text(), HasSubstr("it is NAME=MIB, as in objects=64")) << wrong;
  }
  Process twice(
      {program_path(), "check", "--fabric", "softnic", "--server", at_memory(), "--share", "a=1", "--share", "a=1"});
  EXPECT_EQ(twice.wait(), 2);
  EXPECT_THAT(twice.text(), HasSubstr("a region is shared as 'a' already"));
  Process longer({program_path(), "check", "--fabric", "softnic", "--server", at_memory(), "--share",
                  std::string(256, 'n') + "=1"});
  EXPECT_EQ(longer.wait(), 2);
  EXPECT_THAT(longer.text(), HasSubstr("has 256 bytes: a name has 1 to 255"));
}

TEST_F(LatchesAtASwitch, WrongOptionsAreOneSentenceAndStatusTwo) {
  struct Wrong {
    std::vector<std::string> arguments;
    const char* says;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {{kTuples, "--latches"}, "--latches: give --memory"},
           {{kTuples, "--latches", "--memory", "127.0.0.1:1", "--words", "10.0.0.9"}, "--latches: give --memory"},
           {{kTuples, "--memory", "127.0.0.1:1"}, "--latches"},
           {{kWords, "--latches", "--memory", "127.0.0.1:1"}, "--memory: the program is not the one for it"},
           {{kTuples, "--latches", "--words", "10.0.0.9"}, "--words: the program is not the one for it"},
           {{kWords, "--latches", "--words", "10.0.0"}, "--words 10.0.0: it is an IPv4 address"},
           {{kWords, "--latches", "--words", "10.0.0.9", "--station", "1=10.0.0.9"},
            "--words 10.0.0.9: --station 1=10.0.0.9 has this address"},
           {{kWords, "--latches", "--words", "10.0.0.9", "--station", "2=10.0.0.1"}, "the switch has no port 2"},
           {{kWords, "--latches", "--words", "10.0.0.9", "--station", "1=zebra"}, "--station 1=zebra: it is PORT=IP"},
           {{kTuples, "--latches", "--memory", "127.0.0.1:1", "--grace", "-1"}, "--grace -1"},
           {{kTuples, "--latches", "--memory", "127.0.0.1:1", "--grace", "nan"}, "--grace nan"},
           {{kWords, "--latches", "host:0", "--words", "10.0.0.9"}, "'host:0' is no address"},
           {{kTuples, "--latches", "--memory", "127.0.0.1:1"}, "--memory: the switch knows nothing at its ports"},
           {{kWords, "--latches", "--words", "10.0.0.9", "--no-icrc"}, "--no-icrc with --latches"},
           {{kTuples, "--latches", "--memory", "a:b:c", "--station", "1=10.0.0.7"}, "'a:b:c' is no address"}}) {
    std::vector<std::string> command{program_path(), "switch", "--port", "1=shm:" + cable(1)};
    for (const std::string& argument : wrong.arguments) {
      command.push_back(argument.starts_with("p4/") ? in_source_tree(argument) : argument);
    }
    Process process(command);
    EXPECT_EQ(process.wait(), 2) << wrong.says;
    EXPECT_THAT(process.text(), HasSubstr(wrong.says));
  }
}

}  // namespace
}  // namespace sidelatch::tools
