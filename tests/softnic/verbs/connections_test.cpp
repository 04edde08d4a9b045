// Connections between processes that end in all ways: what the other side learns.
#include "cm_channel.h"
#include "programs.h"
#include "tests/paths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <pthread.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  // A process that takes one connection, and waits for its end.
  [[nodiscard]] pid_t serve_one(const Mark& listens) const {
    return start([&] {
      const CmChannel channel;
      channel.listen_at(port_);
      listens.set();
      channel.serve();
      channel.expect(cm::IdEventKind::disconnected);
      return true;
    });
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
    channel.request(channel.resolve(address_of(port_)), 0x100);
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

// As libraries do that start other programs. Its memory is the parent's, its descriptors are copies.
TEST_P(Connections, AChildByVforkMayCloseItsDescriptors) {
  const Mark listens;
  const pid_t server = serve_one(listens);
  const pid_t client = start([&] {
    const CmChannel channel;
    listens.wait();
    const std::uint32_t id = channel.connect(port_);
    const Verbs& verbs = Verbs::load();
    const pid_t child = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): it is what is tested
    if (child == 0) {
      verbs.close(channel.descriptor());  // NOLINT(clang-analyzer-unix.Vfork)
      ::_exit(0);
    }
    const bool is_asked = succeeds(child) && channel.disconnect(id) == 0;
    channel.expect(cm::IdEventKind::disconnected);
    return is_asked;
  });
  EXPECT_TRUE(succeeds(client));
  EXPECT_TRUE(succeeds(server));
}

// The destructor of a global object, say.
const CmChannel* the_channel = nullptr;
std::uint32_t the_connection = 0;

TEST_P(Connections, ADestructorMayDisconnectAndWait) {
  const Mark listens;
  const pid_t server = serve_one(listens);
  const pid_t client = start([&] {
    std::atexit([] {
      static_cast<void>(the_channel->disconnect(the_connection));
      the_channel->expect(cm::IdEventKind::disconnected);
      ::_exit(0);
    });
    listens.wait();
    the_channel = new CmChannel;
    the_connection = the_channel->connect(port_);
    std::exit(1);  // NOLINT(concurrency-mt-unsafe)
    return false;
  });
  EXPECT_TRUE(succeeds(client));
  EXPECT_TRUE(succeeds(server));
}

TEST_P(Connections, AnExitTellsAllOthers) {
  constexpr int kMany = 200;  // more than the send queue has room for
  const Mark listens;
  const pid_t server = start([&] {
    const CmChannel channel;
    channel.listen_at(port_);
    listens.set();
    for (int i = 0; i < kMany; ++i) {
      channel.serve();
    }
    for (int i = 0; i < kMany; ++i) {
      channel.expect(cm::IdEventKind::disconnected);
    }
    return true;
  });
  const pid_t client = start([&] {
    const CmChannel channel;
    listens.wait();
    for (unsigned i = 0; i < kMany; ++i) {
      channel.connect(port_, 0x100 + i);
    }
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
    return true;
  });
  EXPECT_TRUE(succeeds(client));
  EXPECT_TRUE(succeeds(server));
}

INSTANTIATE_TEST_SUITE_P(Wires, Connections, ::testing::Values("memory", "folder"),
                         [](const auto& one) { return std::string(one.param); });

// A program that waits for SIGTERM with sigwait(3) has blocked it in its own threads only.
// rdma_set_option(3): RDMA_OPTION_ID_TOS. Programs make their address handle of what the event says.
TEST(DatagramConnections, TellTheTrafficClassThatWasChosen) {
  static_cast<void>(Verbs::load());
  const std::uint16_t port = free_port();
  EXPECT_TRUE(succeeds(start([port] {
    const CmChannel channel;
    const std::uint32_t listener = channel.create(cm::kUdp, IBV_QPT_UD);
    if (channel.bind(listener, address_of(port)) != 0 || channel.listen(listener) != 0) {
      return false;
    }
    const std::uint32_t id = channel.resolve(address_of(port), cm::kUdp);
    constexpr std::uint8_t kClass = 0x68;
    if (channel.set_option(id, RDMA_OPTION_ID_TOS, kClass) != 0) {
      return false;
    }
    channel.request(id, 0x100);
    const rdma_ucm_event_resp request = channel.expect(cm::IdEventKind::connect_request);
    if (channel.accept(request.id) != 0) {
      return false;
    }
    return channel.expect(cm::IdEventKind::established).param.ud.ah_attr.grh.traffic_class == kClass;
  })));
}

TEST(ConnectionThreads, TakeNoSignalsOfTheProgram) {
  static_cast<void>(Verbs::load());
  const pid_t child = start([] {
    const CmChannel channel;
    int threads = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        const std::string name = "SigBlk:";
        if (!line.starts_with(name) || task.path().filename() == std::to_string(::getpid())) {
          continue;
        }
        ++threads;
        if ((std::stoull(line.substr(name.size()), nullptr, 16) >> (SIGTERM - 1U) & 1U) == 0) {
          return false;
        }
      }
    }
    return threads == 2;  // of the NIC and of the connection manager
  });
  EXPECT_TRUE(succeeds(child));
}

TEST(ConnectionThreads, IfOneCannotBeMadeTheNextTryFindsAllAsItWas) {
  const Verbs& verbs = Verbs::load();
  const pid_t child = start([&verbs] {
    ibv_device** const list = verbs.get_device_list(nullptr);
    const ibv_context* const context = verbs.open_device(list[0]);  // has its thread
    verbs.free_device_list(list);
    const auto ask_for_stacks_of = [](std::size_t bytes) {
      pthread_attr_t attributes;
      return ::pthread_getattr_default_np(&attributes) == 0 && ::pthread_attr_setstacksize(&attributes, bytes) == 0 &&
             ::pthread_setattr_default_np(&attributes) == 0 && ::pthread_attr_destroy(&attributes) == 0;
    };
    constexpr const char* kChannels = "/dev/infiniband/rdma_cm";
    return context != nullptr && ask_for_stacks_of(std::size_t{1} << 50U) && verbs.open(kChannels, O_RDWR) < 0 &&
           ask_for_stacks_of(std::size_t{1} << 23U) && verbs.open(kChannels, O_RDWR) >= 0;
  });
  EXPECT_TRUE(succeeds(child));
}

// Nobody sees at the other end of a link whether a process is there.
TEST(ConnectionsOverALink, AnExitIsToldThroughLoss) {
  static_cast<void>(Verbs::load());
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / fmt::format("link-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const auto use_link = [&](const char* from, const char* to, int number) {
    const std::string wire =
        fmt::format("link:{0}/{1},{0}/{2},10.1.0.{3},fd01::{3}", folder.string(), from, to, number);
    ::setenv("SIDELATCH_SOFTNIC_WIRE", wire.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): in a child
    ::setenv("SIDELATCH_SOFTNIC_FAULTS", fmt::format("loss=0.2,seed={}", number).c_str(), 1);  // NOLINT
  };
  constexpr int kMany = 10;
  const std::uint16_t port = free_port();
  const Mark listens;
  const pid_t server = start([&] {
    use_link("server", "client", 1);
    const CmChannel channel;
    channel.listen_at(port, "10.1.0.1");
    listens.set();
    for (int ended = 0; ended < kMany;) {
      const rdma_ucm_event_resp event = channel.next();
      const auto kind = static_cast<cm::IdEventKind>(event.event);
      if (kind == cm::IdEventKind::connect_request && channel.accept(event.id) != 0) {
        return false;
      }
      ended += kind == cm::IdEventKind::disconnected ? 1 : 0;
    }
    return true;
  });
  const pid_t client = start([&] {
    use_link("client", "server", 2);
    const CmChannel channel;
    listens.wait();
    for (unsigned i = 0; i < kMany; ++i) {
      channel.connect(port, 0x100 + i, "10.1.0.1");
    }
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
    return true;
  });
  EXPECT_TRUE(succeeds(client));
  EXPECT_TRUE(succeeds(server));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sidelatch::softnic
