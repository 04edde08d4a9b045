// What the device reports while nobody but a memory server looks.
#include "requests.h"

#include "fabric/verbs/events.h"
#include "fabric/verbs/node.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::HasSubstr;

// A test that waits in vain fails.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool readable(int descriptor) {
  pollfd watched{descriptor, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}

int events_of(Node& node) { return dynamic_cast<VerbsNode&>(node).port().events().descriptor(); }

// Reports written by the test in place of the kernel's.
class WrittenEvents {
 public:
  explicit WrittenEvents(int descriptor) {
    EXPECT_EQ(::pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC), 0);
    EXPECT_EQ(::dup2(ends_[0], descriptor), descriptor);
  }
  WrittenEvents(const WrittenEvents&) = delete;
  WrittenEvents& operator=(const WrittenEvents&) = delete;
  ~WrittenEvents() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void write(ibv_event_type type) const {
    ib_uverbs_async_event_desc event{};
    event.element = 1;  // the port
    event.event_type = type;
    EXPECT_EQ(::write(ends_[1], &event, sizeof event), static_cast<ssize_t>(sizeof event));
  }
  [[nodiscard]] bool all_read() const {
    int bytes = -1;
    EXPECT_EQ(::ioctl(ends_[0], FIONREAD, &bytes), 0);
    return bytes == 0;
  }

 private:
  std::array<int, 2> ends_{};
};

class VerbsDeviceEvents : public ::testing::Test {
 protected:
  VerbsDeviceEvents() {
    server->share("table", table);
    server->start();
  }
  VerbsFabric fabric{{}, kConnections};
  Node& storage = fabric.add_node("storage");
  MemoryRegion table = storage.allocate(4096, Access::remote_all);
  VerbsFabric client_fabric{{}, kConnections};
  Node& client = client_fabric.add_node("client");
  std::optional<MemoryServer> server{std::in_place, storage, ServerOptions{.address = "127.0.0.1", .any_port = true}};
};

// The client's fabric, which nobody runs here, shows that the report has arrived.
TEST_F(VerbsDeviceEvents, AreReadByAServerWhoseFabricNobodyRuns) {
  ASSERT_FALSE(readable(events_of(client)));
  ASSERT_EQ(std::system("ip address add 10.0.0.9/24 dev net0"), 0);
  EXPECT_TRUE(comes_true([&] { return readable(events_of(client)); }));
  EXPECT_TRUE(comes_true([&] { return !readable(events_of(storage)); }));
  ASSERT_EQ(std::system("ip address del 10.0.0.9/24 dev net0"), 0);
  EXPECT_EQ(server->failure(), "");
  // And nobody waits for a report that was already read.
  DeviceEvents& events = dynamic_cast<VerbsNode&>(client).port().events();
  EXPECT_EQ(events.acknowledge(), std::nullopt);
  EXPECT_EQ(events.acknowledge(), std::nullopt);
}

TEST_F(VerbsDeviceEvents, APortThatIsDownEndsNothingAndADeviceThatIsLostEndsAll) {
  RemoteNode remote(client_fabric, server->address());
  auto qp = client.connect(remote);
  const RemoteSpan word = remote.region("table").subspan(0, 8);
  const WrittenEvents events(events_of(storage));

  events.write(IBV_EVENT_PORT_ERR);
  ASSERT_TRUE(comes_true([&] { return events.all_read(); }));
  EXPECT_EQ(client_fabric.reactor().run(add(qp.get(), word, 5)), 0U);
  EXPECT_EQ(server->failure(), "");
  EXPECT_EQ(server->clients(), 1U);

  events.write(IBV_EVENT_DEVICE_FATAL);
  ASSERT_TRUE(comes_true([&] { return !server->failure().empty(); }));
  EXPECT_THAT(server->failure(), HasSubstr("rxe0"));
  EXPECT_TRUE(comes_true([&] { return server->clients() == 0; }));
  try {
    client_fabric.reactor().run(add(qp.get(), word, 5));
    ADD_FAILURE() << "the request was executed";
  } catch (const FabricError& error) {
    EXPECT_EQ(error.status(), Status::retry_exceeded);
  }
  EXPECT_THROW(client_fabric.reactor().run(qp->reconnect()), FabricError);
  try {
    const RemoteNode another(client_fabric, server->address());
    ADD_FAILURE() << "the server took a client";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(server->failure()));
  }
  // The server's thread has read the report, and the fabric's own object knows of it.
  EXPECT_EQ(dynamic_cast<VerbsNode&>(storage).port().events().acknowledge(), IBV_EVENT_DEVICE_FATAL);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
