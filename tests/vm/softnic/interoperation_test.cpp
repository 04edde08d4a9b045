// The software NIC and Linux's soft-RoCE driver on the two ends of a cable (tests/vm/run makes it). Two processes of
// roce_peer use all RoCE operations with each other, in both directions, and compare every byte and every value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sidelatch::softnic {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int status = -1;
  std::string output;
};

class Interoperation : public ::testing::Test {
 protected:
  // All are needed, so a guest that lacks one fails instead of skipping: tests/vm/run decides what is skipped.
  void SetUp() override {
    for (const char* const name : {"SIDELATCH_ROCE_PEER", "SIDELATCH_VERBS"}) {
      const char* const path = std::getenv(name);
      ASSERT_NE(path, nullptr) << name << " is not set: tests/vm/run sets it";
      ASSERT_TRUE(std::filesystem::exists(path)) << path;
    }
    std::string pattern = std::filesystem::temp_directory_path() / "interoperation.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // rxe is rank 0, the software NIC rank 1. `environment` is for the software NIC.
  void run_peers(const std::string& arguments, const std::string& environment = {}) {
    const std::string peer = std::getenv("SIDELATCH_ROCE_PEER");
    const std::string control = (folder_ / "control").string();
    std::filesystem::remove(control);
    const std::string common = " --control " + control + " " + arguments + " 2>&1";
    const std::string preload = std::string("LD_PRELOAD=") + std::getenv("SIDELATCH_VERBS");
    FILE* const kernel = start("exec " + peer + " --rank 0" + common);
    FILE* const software =
        start("exec ip netns exec far env " + preload + " SIDELATCH_SOFTNIC_WIRE=interface:net1,10.0.0.7,fd00::7 " +
              environment + " " + peer + " --rank 1" + common);
    const Outcome rxe = end(kernel);
    const Outcome softnic = end(software);
    EXPECT_EQ(rxe.status, 0) << arguments << " " << environment << ": rxe: " << rxe.output;
    EXPECT_EQ(softnic.status, 0) << arguments << " " << environment << ": the software NIC: " << softnic.output;
  }
  static Outcome run(const std::string& command) { return end(start(command + " 2>&1")); }

  std::filesystem::path folder_;

 private:
  static FILE* start(const std::string& command) { return ::popen(command.c_str(), "r"); }
  static Outcome end(FILE* from) {
    Outcome outcome;
    std::array<char, 4096> text{};
    for (std::size_t n = 0; (n = std::fread(text.data(), 1, text.size(), from)) > 0;) {
      outcome.output.append(text.data(), n);
    }
    const int status = ::pclose(from);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }
};

// Scenarios that tolerate a faulty wire. A lost refusal is not repeated, because the responder is in ERROR.
constexpr const char* kReliable = " send share notify write read atomics inline chain mix not-ready";

class OverEveryPath : public Interoperation, public ::testing::WithParamInterface<std::tuple<int, int>> {};

TEST_P(OverEveryPath, EveryOpcodeBothWays) {
  const auto [version, mtu] = GetParam();
  run_peers("--ip " + std::to_string(version) + " --mtu " + std::to_string(mtu) + kReliable + " refuse datagrams");
}

INSTANTIATE_TEST_SUITE_P(Softnic, OverEveryPath,
                         ::testing::Combine(::testing::Values(4, 6), ::testing::Values(256, 512, 1024, 2048, 4096)),
                         [](const auto& test) {
                           return "IPv" + std::to_string(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

class OverABadWire : public Interoperation, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr const char* kFaults = "loss=0.02,duplication=0.02,reordering=0.02";
  std::string faults() { return std::string("SIDELATCH_SOFTNIC_FAULTS=") + kFaults + ",seed=" + seed(); }
  static std::string seed() { return std::to_string(GetParam()); }
};

TEST_P(OverABadWire, NothingOfWhatTheSoftwareNicSendsIsExecutedTwice) {
  run_peers("--seed " + seed() + kReliable, faults());
}

// rxe's frames are also lost, doubled and reordered, by the queueing discipline of its interface.
TEST_P(OverABadWire, NothingOfWhatBothSendIsExecutedTwice) {
  const Outcome made = run("tc qdisc add dev net0 root netem delay 1ms loss 2% duplicate 2% reorder 5% 50%");
  ASSERT_EQ(made.status, 0) << made.output;
  run_peers("--seed " + seed() + kReliable, faults());
  const Outcome counted = run("tc -s qdisc show dev net0");
  EXPECT_THAT(counted.output, Not(HasSubstr("(dropped 0,"))) << "nothing was lost";
  EXPECT_EQ(run("tc qdisc del dev net0 root").status, 0);
}

INSTANTIATE_TEST_SUITE_P(Softnic, OverABadWire, ::testing::Values(1, 2, 3));

TEST_F(Interoperation, APeerThatVanishesIsNoticedByTheOther) {
  run_peers("--vanishing 0 vanish");
  run_peers("--vanishing 1 vanish");
}

// tshark decodes packets independently. (It prints the ICRC without checking it; rxe checks it and drops corrupt
// packets.)
TEST_F(Interoperation, TsharkReadsAllThatWasOnTheWire) {
  for (const int version : {4, 6}) {
    const std::string capture = (folder_ / ("clean" + std::to_string(version) + ".pcap")).string();
    run_peers("--ip " + std::to_string(version) + kReliable + " refuse datagrams", "SIDELATCH_SOFTNIC_PCAP=" + capture);
    // Address, opcode and errors of every packet.
    const Outcome read = run("tshark -r " + capture +
                             " -Y infiniband -T fields -E separator=/s -e ip.src -e ipv6.src -e infiniband.bth.opcode "
                             "-e _ws.malformed 2>/dev/null");
    EXPECT_EQ(read.status, 0);
    // Payloads are meaningless bytes here; tshark guesses other protocols in them and finds them malformed.
    EXPECT_EQ(read.output.find("Malformed Packet: InfiniBand"), std::string::npos) << "IPv" << version;
    std::set<std::pair<std::string, int>> seen;
    std::istringstream lines(read.output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::pair<std::string, int> packet;
      words >> packet.first >> packet.second;
      seen.insert(packet);
    }
    // Each opcode of RC and UD that plain verbs reach, from either side.
    for (const std::string& source : version == 4 ? std::vector<std::string>{"10.0.0.1", "10.0.0.7"}
                                                  : std::vector<std::string>{"fd00::1", "fd00::7"}) {
      for (int opcode = 0x00; opcode <= 0x14; ++opcode) {
        EXPECT_TRUE(seen.contains({source, opcode})) << "opcode " << opcode << " from " << source;
      }
      EXPECT_TRUE(seen.contains({source, 0x64})) << "UD SEND from " << source;
      EXPECT_TRUE(seen.contains({source, 0x65})) << "UD SEND with immediate from " << source;
    }
  }
}

}  // namespace
}  // namespace sidelatch::softnic
