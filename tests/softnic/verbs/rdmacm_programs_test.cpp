// Unmodified programs of Debian that connect by librdmacm, on the software NIC: they succeed, and print the requested
// counts. rping -V, ucmatose and rcopy check that the data is right, and so do we where they do not.
#include "programs.h"
#include "tests/paths.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace sidelatch::softnic {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class RdmacmPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    if (!is_installed("rping") || !is_installed("qperf")) {
      GTEST_SKIP() << "rdmacm-utils or qperf is not installed: run scripts/install-deps test";
    }
  }
  // Both commands get the port; "{}" stands for it.
  Pair run(const std::string& server, const std::string& client, const EndsServer& ends_server = nullptr) {
    const std::uint16_t port = free_port();
    return site_.run_connected(words_of(fmt::format(fmt::runtime(server), port)),
                               words_of(fmt::format(fmt::runtime(client), port)), port, ends_server);
  }
  Site site_;
};

struct RpingCase {
  const char* name;
  const char* server;
  const char* client;
};
void PrintTo(const RpingCase& one, std::ostream* out) { *out << one.name; }  // NOLINT: GoogleTest's name

class Rping : public RdmacmPrograms, public ::testing::WithParamInterface<RpingCase> {};

TEST_P(Rping, EveryPingArrivesAndComesBackUnchanged) {
  const Pair pair =
      run(std::string(GetParam().server) + " -p {} -C 5 -v -V", std::string(GetParam().client) + " -p {} -C 5 -v -V");
  expect_success(pair);
  for (int ping = 0; ping < 5; ++ping) {
    EXPECT_THAT(pair.client.text, HasSubstr(fmt::format("ping data: rdma-ping-{}: ", ping)));
    EXPECT_THAT(pair.server.text, HasSubstr(fmt::format("server ping data: rdma-ping-{}: ", ping)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    RdmacmPrograms, Rping,
    ::testing::Values(RpingCase{"Loopback", "rping -s -a 127.0.0.1", "rping -c -a 127.0.0.1"},
                      RpingCase{"Loopback6", "rping -s -a ::1", "rping -c -a ::1"},
                      RpingCase{"Wildcard", "rping -s -a 0.0.0.0", "rping -c -a 127.0.0.1"},
                      RpingCase{"Wildcard6", "rping -s -a ::", "rping -c -a ::1"},
                      RpingCase{"Large", "rping -s -a 127.0.0.1 -S 60000", "rping -c -a 127.0.0.1 -S 60000"},
                      // The first process on the wire is its first station.
                      RpingCase{"AddressOfTheWire", "rping -s -a 0.0.0.0", "rping -c -a 10.83.76.1"}),
    [](const auto& one) { return one.param.name; });

TEST_F(RdmacmPrograms, RpingConnectsThroughLossDuplicationAndReordering) {
  site_.set("SIDELATCH_SOFTNIC_FAULTS=loss=0.1,duplication=0.1,reordering=0.1");
  const Pair pair = run("rping -s -a 127.0.0.1 -p {} -C 5 -v -V", "rping -c -a 127.0.0.1 -p {} -C 5 -v -V");
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("ping data: rdma-ping-4: "));
}

TEST_F(RdmacmPrograms, RpingIsRightUnderAnOrder) {
  site_.set("SIDELATCH_SOFTNIC_ORDER=relaxed");
  expect_success(run("rping -s -a 127.0.0.1 -p {} -C 5 -V", "rping -c -a 127.0.0.1 -p {} -C 5 -V"));
}

TEST_F(RdmacmPrograms, AWireInAFolderHasPortsToo) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / fmt::format("cm-{}", ::getpid());
  site_.set("SIDELATCH_SOFTNIC_WIRE=folder:" + folder.string());
  const std::uint16_t port = free_port();
  // The registry of the folder is not where run_connected() looks: the client is repeated until the server listens.
  const Command server = words_of(fmt::format("rping -s -a 127.0.0.1 -p {} -C 3 -V", port));
  const std::string client = fmt::format(
      "for i in $(seq 200); do rping -c -a 127.0.0.1 -p {} -C 3 -V && exit 0; sleep 0.05; done; exit 1", port);
  expect_success(site_.run_connected(server, {"sh", "-c", client}, 0));
  std::filesystem::remove_all(folder);
}

TEST_F(RdmacmPrograms, NobodyListens) {
  const Outcome outcome = site_.run(words_of("ucmatose -s 127.0.0.1"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("RDMA_CM_EVENT_REJECTED, error: 8\n"));  // no such service
}

TEST_F(RdmacmPrograms, AnAddressThatNobodyHasIsNotResolved) {
  const Outcome outcome = site_.run(words_of("ucmatose -s 10.83.76.60"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("RDMA_CM_EVENT_ADDR_ERROR, error: -110\n"));
}

TEST_F(RdmacmPrograms, APortIsTakenOnce) {
  const std::uint16_t port = free_port();
  const Pair pair = site_.run_connected(words_of(fmt::format("rping -s -a 0.0.0.0 -p {}", port)),
                                        words_of(fmt::format("rping -s -a 127.0.0.1 -p {}", port)), port, always);
  EXPECT_NE(pair.client.status, 0);
  EXPECT_THAT(pair.client.text, HasSubstr("rdma_bind_addr: Address already in use"));
}

TEST_F(RdmacmPrograms, UcmatoseOpensManyConnections) {
  const Pair pair = run("ucmatose -c 20 -C 5 -S 1000 -p {}", "ucmatose -s 127.0.0.1 -c 20 -C 5 -S 1000 -p {}");
  expect_success(pair);
  for (const Outcome* const end : {&pair.client, &pair.server}) {
    EXPECT_THAT(end->text, HasSubstr("data transfers complete\n"));
    EXPECT_THAT(end->text, HasSubstr("return status 0\n"));
  }
}

TEST_F(RdmacmPrograms, UcmatoseMovesItsIdentifiersToAnotherChannel) {
  expect_success(run("ucmatose -c 3 -m -p {}", "ucmatose -s 127.0.0.1 -c 3 -m -p {}"));
}

TEST_F(RdmacmPrograms, UdaddyExchangesDatagrams) {
  constexpr std::uint16_t kItsPort = 7174;  // on a wire of its own
  const Pair pair = site_.run_connected(words_of("udaddy -c 5 -C 10 -S 500"),
                                        words_of("udaddy -s 127.0.0.1 -c 5 -C 10 -S 500"), kItsPort);
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("data transfers complete\n"));
}

// The members of a group, each a process. A sender waits three seconds before it sends, and does not wait for anything
// after it; it is run twice, for receivers that join late.
TEST_F(RdmacmPrograms, MckeySendsToAGroup) {
  for (const char* const group : {"239.1.2.3", "ff12::1:2"}) {
    const Pair pair = site_.run_connected(words_of(fmt::format("mckey -m {} -C 5 -S 300", group)),
                                          {"sh", "-c",
                                           fmt::format("for i in 1 2; do mckey -m {} -s -C 5 -S 300 || exit 1; "
                                                       "done; exit 0",
                                                       group)},
                                          0);
    expect_success(pair);
    EXPECT_THAT(pair.server.text, HasSubstr("data transfers complete\n"));
    EXPECT_THAT(pair.client.text, HasSubstr("data transfers complete\n"));
  }
}

TEST_F(RdmacmPrograms, EndPointsAreConnectedSynchronously) {
  const Pair pair = run("rdma_server -p {}", "rdma_client -s 127.0.0.1 -p {}");
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("rdma_client: end 0"));
}

// It sends inline data without having asked for room for that, as drivers grant it.
TEST_F(RdmacmPrograms, EndPointsInlineWithoutHavingAsked) {
  const Pair pair = run("rdma_xserver -p {}", "rdma_xclient -s 127.0.0.1 -p {}");
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("rdma_xclient: end 0"));
}

TEST_F(RdmacmPrograms, EndPointsAreXrc) {
  const Pair pair = run("rdma_xserver -c x -p {}", "rdma_xclient -c x -s 127.0.0.1 -p {}");
  expect_success(pair);
  EXPECT_THAT(pair.client.text, HasSubstr("rdma_xclient: end 0"));
  EXPECT_THAT(pair.server.text, HasSubstr("rdma_xserver: end 0"));
}

TEST_F(RdmacmPrograms, CmtimeConnectsAHundredTimes) {
  const Pair pair = run("cmtime -p {} -c 100", "cmtime -s 127.0.0.1 -p {} -c 100", always);
  EXPECT_EQ(pair.client.status, 0) << pair.client.text;
  EXPECT_THAT(pair.client.text, ContainsRegex("connect +: "));
  EXPECT_THAT(pair.client.text, Not(HasSubstr("error")));
}

TEST_F(RdmacmPrograms, EventChannelsAreDescriptorsLikeOthers) {
  const Outcome outcome = site_.run({"/usr/bin/python3", in_source_tree("tests/softnic/verbs/event_channels.py")});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("all right\n"));
}

// Other libraries that are preloaded for sockets still get them.
TEST_F(RdmacmPrograms, LibrspreloadMakesRsockets) {
  constexpr const char* kLibrary = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
  if (!std::filesystem::exists(kLibrary)) {
    GTEST_SKIP() << kLibrary << " is not installed: run scripts/install-deps test";
  }
  site_.set(fmt::format("LD_PRELOAD={} {}", verbs_library_path(), kLibrary));
  const std::uint16_t port = free_port();
  // Python's own sockets have SOCK_CLOEXEC, which librspreload passes on.
  const std::string listen = fmt::format(
      "import ctypes, socket, struct; c = ctypes.CDLL(None); s = c.socket(2, 1, 0); "
      "a = struct.pack('=H', 2) + struct.pack('!H', {0}) + socket.inet_aton('127.0.0.1') + bytes(8); "
      "assert c.bind(s, a, 16) == 0 and c.listen(s, 5) == 0; "
      "print('TCP' if any(line.split()[1].endswith(':%04X' % {0}) for line in open('/proc/self/net/tcp')) else 'RDMA')",
      port);
  const Outcome outcome = site_.run({"/usr/bin/python3", "-c", listen});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("RDMA\n"));
}

// An independent reader of the messages.
TEST_F(RdmacmPrograms, TsharkReadsTheMessages) {
  if (!is_installed("tshark")) {
    GTEST_SKIP() << "tshark is not installed: run scripts/install-deps test";
  }
  const std::string capture = ::testing::TempDir() + fmt::format("cm-{}.pcap", ::getpid());
  site_.set_for("server", "SIDELATCH_SOFTNIC_PCAP=" + capture);
  const std::uint16_t port = free_port();
  expect_success(site_.run_connected(words_of(fmt::format("rping -s -a 127.0.0.1 -C 1 -p {}", port)),
                                     words_of(fmt::format("rping -c -a 127.0.0.1 -C 1 -p {}", port)), port));
  site_.set("LD_PRELOAD=");
  const Outcome read = site_.run({"tshark", "-r", capture, "-Y", "infiniband.bth.destqp == 1"});
  // No DREP: the server may have ended before it sends one. No MRA: it is sent for what comes twice.
  for (const char* const message : {"ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest"}) {
    EXPECT_THAT(read.text, HasSubstr(message));
  }
  EXPECT_THAT(read.text, Not(HasSubstr("Malformed")));
  const Outcome ports = site_.run(
      {"tshark", "-r", capture, "-Y", "infiniband.cm.req", "-T", "fields", "-e", "infiniband.cm.req.serviceid.dport"});
  EXPECT_THAT(ports.text, ContainsRegex(fmt::format("(^|\n){}(\n|$)|0x{:04x}", port, port)));
  std::filesystem::remove(capture);
}

// ---- rsockets.

class Rsockets : public RdmacmPrograms, public ::testing::WithParamInterface<const char*> {};

TEST_P(Rsockets, StreamsVerifiedData) {
  const std::string program = GetParam();
  const Pair pair = run(program + " -p {}", program + " -s 127.0.0.1 -p {}");
  expect_success(pair);
  EXPECT_THAT(pair.client.text, ContainsRegex("custom +4k +10 +50 "));
}

INSTANTIATE_TEST_SUITE_P(RdmacmPrograms, Rsockets,
                         ::testing::Values("rstream -S 4096 -C 10 -I 50 -T v", "rstream -S 4096 -C 10 -I 50 -T v -T b",
                                           "rstream -S 4096 -C 10 -I 50 -T v -T n",
                                           "rstream -S 4096 -C 10 -I 50 -T v -T f",
                                           "rstream -S 4096 -C 10 -I 50 -T v -T r",
                                           "riostream -S 4096 -C 10 -I 50 -T v"));

TEST_F(RdmacmPrograms, RcopyCopiesAFile) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / fmt::format("rcopy-{}", ::getpid());
  std::filesystem::create_directory(folder);
  std::string content;
  for (int i = 0; content.size() < 300'000; ++i) {
    content += fmt::format("{} ", i * i);
  }
  std::ofstream(folder / "from") << content;
  const Pair pair = run("rcopy -p {}", fmt::format("rcopy {0}/from 127.0.0.1:{0}/to -p {{}}", folder.string()), always);
  EXPECT_EQ(pair.client.status, 0) << pair.client.text;
  std::ifstream copied(folder / "to");
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(copied), {}) == content);
  std::filesystem::remove_all(folder);
}

// ---- perftest and qperf.

struct ManagedTest {
  const char* command;
  std::uint64_t bytes;
  std::uint64_t iterations;
};
void PrintTo(const ManagedTest& test, std::ostream* out) { *out << test.command; }  // NOLINT: GoogleTest's name

class ManagedPerftests : public RdmacmPrograms, public ::testing::WithParamInterface<ManagedTest> {};

TEST_P(ManagedPerftests, DoesAllIterations) {
  const std::string command = std::string(GetParam().command) + " -R -p {}";
  const Pair pair = run(command, command + " 127.0.0.1");
  expect_success(pair);
  EXPECT_THAT(pair.client.text, ContainsRegex(fmt::format("\n {} +{} ", GetParam().bytes, GetParam().iterations)));
}

INSTANTIATE_TEST_SUITE_P(RdmacmPrograms, ManagedPerftests,
                         ::testing::Values(ManagedTest{"ib_write_bw -n 300", 65536, 300},
                                           ManagedTest{"ib_read_bw -q 4 -n 100 -s 4096", 4096, 400},
                                           ManagedTest{"ib_send_bw -e -n 300 -s 4096", 4096, 300},
                                           ManagedTest{"ib_write_lat -n 300", 2, 300},
                                           ManagedTest{"ib_read_lat -n 300", 2, 300},
                                           ManagedTest{"ib_send_lat -n 300", 2, 300},
                                           ManagedTest{"ib_send_lat -c UD -n 300 -s 1024", 1024, 300},
                                           ManagedTest{"ib_atomic_bw -n 300", 8, 300}));

class Qperf : public RdmacmPrograms, public ::testing::WithParamInterface<const char*> {};

TEST_P(Qperf, MeasuresWithoutAnError) {
  const std::string test = GetParam();
  const Pair pair = run("qperf -lp {}", "qperf 127.0.0.1 -lp {} -cm 1 -t 1 " + test, always);
  EXPECT_EQ(pair.client.status, 0) << pair.client.text;
  EXPECT_THAT(pair.client.text, ContainsRegex("(bw|latency|msg_rate) += +[1-9]"));
  EXPECT_THAT(pair.client.text, Not(HasSubstr("failed")));
}

INSTANTIATE_TEST_SUITE_P(RdmacmPrograms, Qperf,
                         ::testing::Values("rc_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_write_lat",
                                           "ver_rc_compare_swap", "ver_rc_fetch_add"));

}  // namespace
}  // namespace sidelatch::softnic
