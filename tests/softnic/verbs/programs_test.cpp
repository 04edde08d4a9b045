// Unmodified programs of Debian on the software NIC: they succeed and print the requested counts. ibv_rc_pingpong -c
// and the tests of pyverbs check that the data is right.
#include "programs.h"
#include "tests/paths.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace sidelatch::softnic {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Programs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
  Site site_;
};

// ---- Devices.

TEST_F(Programs, IbvDevicesListsTheOneDevice) {
  const Outcome outcome = site_.run({"ibv_devices"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, ContainsRegex("sidelatch0 +\t[0-9a-f]{16}\n"));
}

TEST_F(Programs, IbvDevinfoSaysWhatThePortIsLike) {
  const Outcome outcome = site_.run({"ibv_devinfo", "-v"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* const line : {"hca_id:\tsidelatch0\n", "fw_ver:\t\t\t\tsidelatch-", "atomic_cap:\t\t\tATOMIC_GLOB",
                                 "PORT_ACTIVE (4)", "active_mtu:\t\t4096 (5)", "link_layer:\t\tEthernet", "RoCE v2"}) {
    EXPECT_THAT(outcome.text, HasSubstr(line));
  }
}

TEST_F(Programs, AnOrderChangesWhatAtomicsAreAtomicAgainst) {
  site_.set("SIDELATCH_SOFTNIC_ORDER=spec");
  EXPECT_THAT(site_.run({"ibv_devinfo", "-v"}).text, HasSubstr("ATOMIC_HCA"));
}

TEST_F(Programs, ADeviceMayPromiseLessOfItsAtomics) {
  site_.set("SIDELATCH_SOFTNIC_ATOMICS=hca");
  EXPECT_THAT(site_.run({"ibv_devinfo", "-v"}).text, HasSubstr("ATOMIC_HCA"));
}

TEST_F(Programs, AWrongSettingIsOneSentenceAndNoDevice) {
  site_.set("SIDELATCH_SOFTNIC_SEED=one");
  const Outcome outcome = site_.run({"ibv_devinfo"});
  EXPECT_THAT(outcome.text, HasSubstr("sidelatch softnic: SIDELATCH_SOFTNIC_SEED is \"one\""));
  EXPECT_THAT(outcome.text, HasSubstr("No IB devices found"));
  EXPECT_NE(outcome.status, 0);
}

TEST_F(Programs, AWireThatCannotBeJoinedIsOneSentenceAndNoContext) {
  site_.set("SIDELATCH_SOFTNIC_WIRE=folder:/proc/none");
  const Outcome outcome = site_.run({"ibv_devinfo"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("sidelatch softnic: /proc/none"));
  EXPECT_THAT(outcome.text, HasSubstr("Failed to open device"));
}

// ---- The examples of rdma-core.

struct PingPong {
  const char* command;
  int bytes;  // both ways together
  int iterations;
};
void PrintTo(const PingPong& ping_pong, std::ostream* out) { *out << ping_pong.command; }  // NOLINT: GoogleTest's name

class PingPongs : public Programs, public ::testing::WithParamInterface<PingPong> {};

TEST_P(PingPongs, ExchangesAllMessages) {
  const Pair pair = site_.run_pair(words_of(GetParam().command));
  expect_success(pair);
  for (const Outcome* const end : {&pair.server, &pair.client}) {
    EXPECT_THAT(end->text, HasSubstr(fmt::format("\n{} bytes in ", GetParam().bytes)));
    EXPECT_THAT(end->text, HasSubstr(fmt::format("\n{} iters in ", GetParam().iterations)));
    EXPECT_THAT(end->text, Not(HasSubstr("invalid data")));
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, PingPongs,
                         ::testing::Values(PingPong{"ibv_rc_pingpong -g 0", 8192000, 1000},
                                           PingPong{"ibv_rc_pingpong -g 1 -c", 8192000, 1000},
                                           PingPong{"ibv_rc_pingpong -g 0 -e -n 300", 2457600, 300},
                                           PingPong{"ibv_rc_pingpong -g 0 -c -s 1 -n 500", 1000, 500},
                                           PingPong{"ibv_rc_pingpong -g 0 -c -s 100000 -m 256 -n 50", 10000000, 50},
                                           PingPong{"ibv_rc_pingpong -g 0 -c -s 1000000 -m 4096 -n 20", 40000000, 20},
                                           PingPong{"ibv_rc_pingpong -g 0 -N -n 100", 819200, 100},
                                           PingPong{"ibv_ud_pingpong -g 0", 2048000, 1000},
                                           PingPong{"ibv_ud_pingpong -g 1 -e -s 1000 -n 200", 400000, 200},
                                           PingPong{"ibv_uc_pingpong -g 0", 8192000, 1000},
                                           PingPong{"ibv_uc_pingpong -g 1 -e -n 200", 1638400, 200},
                                           PingPong{"ibv_uc_pingpong -g 0 -s 60000 -m 256 -n 50", 6000000, 50},
                                           PingPong{"ibv_srq_pingpong -g 0", 8192000, 1000},
                                           PingPong{"ibv_srq_pingpong -g 1 -q 4 -e -n 200", 1638400, 200}));

TEST_F(Programs, XsrqPingpongServesItsClients) {
  const Pair pair = site_.run_pair(words_of("ibv_xsrq_pingpong -g 0 -n 200"));
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("success"));
}

TEST_F(Programs, PingPongArrivesThroughLossDuplicationAndReordering) {
  site_.set("SIDELATCH_SOFTNIC_FAULTS=loss=0.02,duplication=0.02,reordering=0.02");
  const Pair pair = site_.run_pair(words_of("ibv_rc_pingpong -g 0 -c -n 300"));
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("\n300 iters in "));
  EXPECT_THAT(pair.client.text, Not(HasSubstr("invalid data")));
}

TEST_F(Programs, PingPongIsRightUnderAnOrder) {
  site_.set("SIDELATCH_SOFTNIC_ORDER=relaxed");
  const Pair pair = site_.run_pair(words_of("ibv_rc_pingpong -g 0 -c -n 100"));
  expect_success(pair);
  EXPECT_THAT(pair.client.text, Not(HasSubstr("invalid data")));
}

// ---- perftest.

struct Row {
  std::uint64_t bytes;
  std::uint64_t iterations;
};

// The lines below "#bytes #iterations ...".
std::vector<Row> rows_in(const std::string& text) {
  std::vector<Row> rows;
  std::istringstream lines(text);
  bool is_below = false;
  for (std::string line; std::getline(lines, line);) {
    Row row{};
    // Only that it is there: perftest prints "inf" where it cannot calibrate its clock, which a busy machine prevents.
    std::string first_value;
    if (line.find("#bytes") != std::string::npos) {
      is_below = true;
    } else if (std::istringstream in(line); is_below && (in >> row.bytes >> row.iterations >> first_value)) {
      rows.push_back(row);
    }
  }
  return rows;
}

struct Perftest {
  const char* command;
  std::uint64_t bytes;
  std::uint64_t iterations;
};
void PrintTo(const Perftest& perftest, std::ostream* out) { *out << perftest.command; }  // NOLINT: GoogleTest's name

TEST(PerftestRows, ARowWithoutACalibratedClockIsARow) {
  const std::vector<Row> rows = rows_in(
      " #bytes #iterations    t_min[usec]    t_max[usec]\n"
      "Conflicting CPU frequency values detected: 2000.000000 != 2445.000000\n"
      " 2       5          inf            inf\n"
      " 4       5          0.84           1.20\n"
      "---------------------------------------------\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].bytes, 2U);
  EXPECT_EQ(rows[0].iterations, 5U);
  EXPECT_EQ(rows[1].bytes, 4U);
}

class Perftests : public Programs, public ::testing::WithParamInterface<Perftest> {};

TEST_P(Perftests, DoesAllIterations) {
  const Pair pair = site_.run_pair(words_of(GetParam().command));
  expect_success(pair);
  const std::vector<Row> rows = rows_in(pair.client.text);
  ASSERT_EQ(rows.size(), 1U) << pair.client.text;
  EXPECT_EQ(rows.front().bytes, GetParam().bytes);
  EXPECT_EQ(rows.front().iterations, GetParam().iterations);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Perftests,
    ::testing::Values(
        Perftest{"ib_read_bw -n 500", 65536, 500}, Perftest{"ib_write_bw -n 500", 65536, 500},
        Perftest{"ib_send_bw -n 500", 65536, 500}, Perftest{"ib_read_lat -n 500", 2, 500},
        Perftest{"ib_write_lat -n 500", 2, 500}, Perftest{"ib_send_lat -n 500", 2, 500},
        Perftest{"ib_write_lat -n 300 -s 64 -I 64", 64, 300}, Perftest{"ib_send_bw -c UD -n 1000 -s 2048", 2048, 1000},
        Perftest{"ib_send_lat -c UD -n 300 -s 1024", 1024, 300},
        Perftest{"ib_send_bw -c UD -n 500 -s 1024 -b", 1024, 500},
        Perftest{"ib_atomic_bw -A CMP_AND_SWAP -n 2000", 8, 2000},
        Perftest{"ib_atomic_bw -A FETCH_AND_ADD -n 2000", 8, 2000},
        Perftest{"ib_atomic_lat -A CMP_AND_SWAP -n 500", 8, 500},
        Perftest{"ib_atomic_lat -A FETCH_AND_ADD -n 500", 8, 500},
        // Several requests at once; the older of the two calls that post.
        Perftest{"ib_write_bw -l 8 -n 800 -s 256", 256, 800},
        Perftest{"ib_send_bw --recv_post_list 4 -n 400 -s 256", 256, 400},
        Perftest{"ib_read_bw --use_old_post_send -n 300 -s 4096", 4096, 300},
        Perftest{"ib_write_lat --use_old_post_send -n 300", 2, 300},
        // With several queue pairs the iterations are the sum of all.
        Perftest{"ib_read_bw -q 4 -n 200 -s 4096", 4096, 800}, Perftest{"ib_write_bw -q 8 -n 200 -s 4096", 4096, 1600},
        Perftest{"ib_send_bw -q 4 -n 200 -s 4096", 4096, 800}, Perftest{"ib_atomic_bw -q 4 -n 500", 8, 2000},
        // Both directions at a time.
        Perftest{"ib_read_bw -b -n 500 -s 4096", 4096, 500}, Perftest{"ib_write_bw -b -n 500 -s 4096", 4096, 500},
        Perftest{"ib_send_bw -b -n 500 -s 4096", 4096, 500}, Perftest{"ib_atomic_bw -b -n 500", 8, 500},
        // These sleep until notified.
        Perftest{"ib_read_bw -e -n 500 -s 4096", 4096, 500}, Perftest{"ib_send_bw -e -n 500 -s 4096", 4096, 500},
        Perftest{"ib_send_lat -e -n 300", 2, 300}, Perftest{"ib_send_bw -c UD -e -n 500 -s 1024", 1024, 500},
        Perftest{"ib_send_bw --use-srq -q 2 -n 200 -s 4096", 4096, 400},
        Perftest{"ib_write_bw -m 256 -n 100 -s 65536", 65536, 100},
        // Unreliable connections: few enough bytes for the wire, which drops what it has no room for.
        Perftest{"ib_write_bw -c UC -n 500 -s 4096", 4096, 500}, Perftest{"ib_write_lat -c UC -n 300", 2, 300},
        Perftest{"ib_send_bw -c UC -n 300 -s 512", 512, 300}, Perftest{"ib_send_lat -c UC -n 300", 2, 300},
        // On-demand memory; a group of one receiver.
        Perftest{"ib_read_bw --odp -n 200 -s 4096", 4096, 200},
        Perftest{"ib_send_bw -g -c UD -x 0 -n 200 -s 512", 512, 200}, Perftest{"ib_write_bw -c XRC -n 300", 65536, 300},
        Perftest{"ib_read_bw -c XRC -n 300", 65536, 300}, Perftest{"ib_send_bw -c XRC -n 300", 65536, 300},
        Perftest{"ib_atomic_bw -c XRC -n 500", 8, 500}));

class AllSizes : public Programs, public ::testing::WithParamInterface<const char*> {};

TEST_P(AllSizes, FromTwoBytesToEightMebibytes) {
  const Pair pair = site_.run_pair({GetParam(), "-a", "-n", "5"});
  expect_success(pair);
  const std::vector<Row> rows = rows_in(pair.client.text);
  ASSERT_EQ(rows.size(), 23U) << pair.client.text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].bytes, std::uint64_t{2} << i);
    EXPECT_EQ(rows[i].iterations, 5U);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, AllSizes,
                         ::testing::Values("ib_read_bw", "ib_write_bw", "ib_send_bw", "ib_read_lat", "ib_write_lat",
                                           "ib_send_lat"));

// ---- Explanations.

class WrongPrograms : public Programs {
 protected:
  void SetUp() override {
    Programs::SetUp();
    if (!IsSkipped() && site_.run({"/usr/bin/python3", "-c", "import pyverbs.device"}).status != 0) {
      GTEST_SKIP() << "python3-pyverbs is not installed: run scripts/install-deps test";
    }
  }
  Outcome run_wrong_program() {
    return site_.run({"/usr/bin/python3", in_source_tree("tests/softnic/verbs/explain.py")});
  }
};

TEST_F(WrongPrograms, AreTold) {
  site_.set("SIDELATCH_SOFTNIC_EXPLAIN=1");
  const Outcome outcome = run_wrong_program();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const char* const sentence :
       {"the queue pair's state does not allow it", "more inline bytes than the queue pair was made for",
        "enters ERROR: the request with wr_id 0x0 failed: remote access error; rkey 0xbad",
        "enters ERROR: a request of the other side is refused: its key", "overruns: it has room for 1 completions"}) {
    EXPECT_THAT(outcome.text, HasSubstr(sentence));
  }
}

TEST_F(WrongPrograms, AreToldNothingUnlessTheyAsk) { EXPECT_EQ(run_wrong_program().text, "all ignored\n"); }

// ---- pyverbs.

TEST_F(Programs, TheTestsOfPyverbsPass) {
  const std::string folder = ::testing::TempDir() + "/pyverbs-" + std::to_string(::getpid());
  const Outcome outcome = site_.run({"/usr/bin/python3", in_source_tree("tests/softnic/verbs/run_pyverbs.py"), folder});
  constexpr int kSkip = 77;
  if (outcome.status == kSkip) {
    GTEST_SKIP() << outcome.text;
  }
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("0 failed"));
}

}  // namespace
}  // namespace sidelatch::softnic
