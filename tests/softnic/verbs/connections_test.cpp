// Connections between processes that end in all ways: what the other side learns.
#include "cm_channel.h"
#include "programs.h"
#include "tests/paths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace sidelatch::softnic {
namespace {

// What wire: of shared memory, or in a folder.
class Connections : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    static_cast<void>(Verbs::load());
    before_ = ::getenv("SIDELATCH_SOFTNIC_WIRE");
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("connections-{}", ::getpid());
    if (std::string(GetParam()) == "folder") {
      ::setenv("SIDELATCH_SOFTNIC_WIRE", ("folder:" + folder_.string()).c_str(), 1);
    } else {
      ::setenv("SIDELATCH_SOFTNIC_WIRE", fmt::format("shm:connections-{}", ::getpid()).c_str(), 1);
    }
  }
  void TearDown() override {
    ::setenv("SIDELATCH_SOFTNIC_WIRE", before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  const std::uint16_t port_ = free_port();

 private:
  std::string before_;
  std::filesystem::path folder_;
};

TEST_P(Connections, WhoIsKilledIsMissed) {
  const Mark listens;
  const Mark is_connected;
  const pid_t server = start([&] {
    const CmChannel channel;
    channel.listen_at(port_);
    listens.set();
    channel.serve();
    is_connected.set();
    ::pause();
    return false;
  });
  const pid_t client = start([&] {
    const CmChannel channel;
    listens.wait();
    channel.connect(port_);
    is_connected.wait();
    ::kill(server, SIGKILL);
    channel.expect(cm::IdEventKind::disconnected);
    return true;
  });
  EXPECT_TRUE(succeeds(client));
  EXPECT_FALSE(succeeds(server));
}

TEST_P(Connections, ARequestThatAKilledServerHeldIsRejected) {
  const Mark listens;
  const Mark is_requested;
  const pid_t server = start([&] {
    const CmChannel channel;
    channel.listen_at(port_);
    listens.set();
    channel.expect(cm::IdEventKind::connect_request);
    is_requested.set();
    ::pause();
    return false;
  });
  const pid_t client = start([&] {
    const CmChannel channel;
    listens.wait();
    channel.request(channel.resolve(loopback(port_)), 0x100);
    is_requested.wait();
    ::kill(server, SIGKILL);
    channel.expect(cm::IdEventKind::rejected);
    return true;
  });
  EXPECT_TRUE(succeeds(client));
  EXPECT_FALSE(succeeds(server));
}

// rdma_disconnect() of a synchronous identifier waits for this event.
TEST_P(Connections, DisconnectingFromWhoWasKilledEnds) {
  const Mark listens;
  const Mark is_connected;
  const pid_t client = start([&] {
    const CmChannel channel;
    listens.wait();
    channel.connect(port_);
    is_connected.set();
    ::pause();
    return false;
  });
  const pid_t server = start([&] {
    const CmChannel channel;
    channel.listen_at(port_);
    listens.set();
    const std::uint32_t id = channel.serve();
    is_connected.wait();
    ::kill(client, SIGKILL);
    const bool is_asked = channel.disconnect(id) == 0;
    channel.expect(cm::IdEventKind::disconnected);
    return is_asked;
  });
  EXPECT_TRUE(succeeds(server));
  EXPECT_FALSE(succeeds(client));
}

INSTANTIATE_TEST_SUITE_P(Wires, Connections, ::testing::Values("memory", "folder"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace sidelatch::softnic
