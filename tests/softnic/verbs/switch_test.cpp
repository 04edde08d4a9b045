// Software NICs of two processes that talk through a P4 switch in a third: everything arrives, also if the switch loses
// packets, and nothing if the switch forwards to the wrong port.
#include "programs.h"
#include "switch_process.h"

#include "tests/paths.h"
#include "tests/softnic/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <regex>

namespace sidelatch::softnic {
namespace {

using ::testing::HasSubstr;

constexpr const char* kForwarding = "p4/l2_l3.p4";
constexpr const char* kSwitched = "p4/l2_l3.json";
constexpr const char* kRouted = "p4/l2_l3_routed.json";

class ThroughASwitch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  Pair run(const SwitchProcess& device, const Command& command, const std::string& server = "10.0.0.1",
           const std::string& client = "10.0.0.2") {
    site_.set_for("server", "SIDELATCH_SOFTNIC_WIRE=switch:" + device.cable(1) + "," + server);
    site_.set_for("client", "SIDELATCH_SOFTNIC_WIRE=switch:" + device.cable(2) + "," + client);
    return site_.run_pair(command);
  }

 private:
  Site site_;
};

// perftest's last row begins with bytes and iterations.
void expect_iterations(const Pair& pair, int bytes, int iterations) {
  EXPECT_EQ(pair.client.status, 0) << pair.client.text;
  EXPECT_EQ(pair.server.status, 0) << pair.server.text;
  const std::regex row("\n " + std::to_string(bytes) + " +" + std::to_string(iterations) + " ");
  EXPECT_TRUE(std::regex_search(pair.client.text, row)) << pair.client.text;
}

std::uint64_t sum(const nlohmann::json& ports, const std::string& what) {
  std::uint64_t all = 0;
  for (const auto& port : ports) {
    const bool is_injected = port["injected"].contains(what);
    all += (is_injected ? port["injected"][what] : port[what]).get<std::uint64_t>();
  }
  return all;
}

TEST_F(ThroughASwitch, PerftestsDoAllIterations) {
  SwitchProcess device(kForwarding, kSwitched);
  expect_iterations(run(device, {"ib_send_bw", "-n", "200", "-s", "65536"}), 65536, 200);
  expect_iterations(run(device, {"ib_read_bw", "-n", "200", "-s", "65536"}), 65536, 200);
  expect_iterations(run(device, {"ib_atomic_bw", "-n", "300"}), 8, 300);
  const auto statistics = device.stop();
  // 400 messages of 16 packets of 4096 bytes, 300 atomics, and at least an answer to each of these.
  EXPECT_GT(sum(statistics["ports"], "packets_out"), 400U * 16 + 2 * 300);
  EXPECT_GT(sum(statistics["ports"], "bytes_out"), 400U * 65536);
  EXPECT_EQ(statistics["drops"]["bad-icrc"], 0);
  // The counter of the program says the same as the port.
  EXPECT_EQ(statistics["counters"]["In.received"][0]["packets"], statistics["ports"][0]["packets_in"]);
}

// The NICs send to the MAC of the router, which it tells them by ARP.
TEST_F(ThroughASwitch, PerftestsDoAllIterationsThroughARouterThatLosesPackets) {
  SwitchProcess device(kForwarding, kRouted, {"--loss", "0.01", "--reordering", "0.01", "--fault-seed", "7"});
  const auto through = [&](const Command& command) { return run(device, command, "10.0.1.1", "10.0.2.1"); };
  expect_iterations(through({"ib_send_bw", "-n", "100", "-s", "65536"}), 65536, 100);
  expect_iterations(through({"ib_read_bw", "-n", "100", "-s", "65536"}), 65536, 100);
  expect_iterations(through({"ib_atomic_bw", "-n", "300"}), 8, 300);
  // Of more than 3800 packets hardly none was lost: 0.99^3800 is 3e-17.
  EXPECT_GT(sum(device.stop()["ports"], "lost"), 0U);
}

// Without loss: whoever ends first does not repeat a last acknowledgement that is lost, so the other one could fail.
TEST_F(ThroughASwitch, ValuesArriveWhole) {
  SwitchProcess device(kForwarding, kSwitched, {"--reordering", "0.02", "--duplication", "0.02"});
  const Pair pair = run(device, {"ibv_rc_pingpong", "-g", "0", "-c", "-n", "200"});
  EXPECT_EQ(pair.client.status, 0) << pair.client.text;
  EXPECT_THAT(pair.client.text, HasSubstr("\n200 iters in "));
  EXPECT_EQ(pair.client.text.find("invalid data"), std::string::npos);
  EXPECT_GT(sum(device.stop()["ports"], "duplicated"), 0U);
}

// A broken specimen: what is for the client's MAC goes to the server's port.
TEST_F(ThroughASwitch, AWrongPortBreaksThePair) {
  const TemporaryFolder folder;
  const std::string control = folder.path() / "wrong.json";
  std::ifstream right(in_source_tree(kSwitched));
  auto wrong = nlohmann::json::parse(right);
  auto& entry = wrong["tables"]["switching"]["entries"][1];
  ASSERT_EQ(entry["arguments"][0], 2);
  entry["arguments"][0] = 1;
  std::ofstream(control) << wrong;
  SwitchProcess device(kForwarding, control);
  const Pair pair = run(device, {"ib_read_bw", "-n", "10", "-u", "10"});
  EXPECT_NE(pair.client.status, 0) << pair.client.text;
  EXPECT_GT(device.stop()["ports"][1]["packets_in"].get<std::uint64_t>(), 0U);
}

}  // namespace
}  // namespace sidelatch::softnic
