// Two processes, a memory server, and a kill -9: a client dies while it holds a latch, and another one takes it over.
//
// It needs an RDMA device. Any machine has the software NIC:
//
//   sidelatch softnic run -- build/release/examples/lease_takeover
#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/fabric/verbs/verbs_fabric.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/node_revoker.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

using namespace sidelatch::fabric;
using namespace sidelatch::sync;

namespace {

constexpr std::uint64_t kPayload = 256;
// A busy machine may stop a living client for a while: its lease must be longer. Here only waiting depends on it.
constexpr Lease kLease{.length = from_ns(1e9), .margin = from_ns(2e8)};

const ExclusiveLatch& scheme() {
  static const ExclusiveLatch kScheme;
  return kScheme;
}
Layout layout() { return Layout(scheme().shape(kPayload, LayoutKind::padded), LayoutKind::padded, 1); }

// A client process. Its owner id is its own, and the server knows it, so that its connections can be ended.
struct Client {
  Client(const std::string& server, std::uint16_t owner)
      : storage(fabric, server, {.owner = owner}),
        qp(node.connect(storage)),
        revoker(storage),
        layout(::layout()),
        objects(layout, storage.region("objects")),
        session(*qp, buffer_bytes(layout.shape()), {.owner = owner, .lease = kLease, .revoker = &revoker}) {}

  verbs::VerbsFabric fabric;
  Node& node = fabric.add_node("client");
  verbs::RemoteNode storage;
  std::unique_ptr<QueuePair> qp;
  NodeRevoker revoker;
  Layout layout;
  ObjectArray objects;
  Session session;
};

// Latches the object, says so, and never unlatches it.
Task<void> hold_for_ever(Session& session, Object object, int tell) {
  ExclusiveGuard guard = co_await scheme().latch(session, object);
  static_cast<void>(::write(tell, "h", 1));
  for (;;) {
    ::pause();
  }
}

// Waits until the holder's lease has ended, has the server end its connections, and repairs the object.
Task<bool> take_over(Session& session, Object object) {
  ExclusiveGuard guard = co_await scheme().latch(session, object);
  if (!guard) {
    co_return false;
  }
  const bool inherited = guard.inherited();  // the object may be half written
  std::ranges::fill(guard.payload(), std::byte{42});
  co_await guard.commit();
  co_await session.qp().drain();
  co_return inherited;
}

// The first client, in a process of its own.
int hold(int server_comes_from, int tell) {
  std::string server(64, '\0');
  const ssize_t length = ::read(server_comes_from, server.data(), server.size());
  if (length <= 0) {
    return 1;  // the server has ended
  }
  server.resize(static_cast<std::size_t>(length));
  Client client(server, 1);
  client.fabric.reactor().run(hold_for_ever(client.session, client.objects.at(0), tell));
  return 0;
}

int run(pid_t holder, int tell_server, int comes_from_holder) {
  verbs::VerbsFabric fabric;
  Node& node = fabric.add_node("storage");
  const MemoryRegion memory = node.allocate(layout().total_bytes(), Access::remote_all);
  verbs::MemoryServer server(node, {.address = "127.0.0.1", .any_port = true});
  server.share("objects", memory);
  server.start();

  const std::string address = server.address();
  static_cast<void>(::write(tell_server, address.data(), address.size()));
  char said = 0;
  if (::read(comes_from_holder, &said, 1) != 1) {
    std::cerr << "the first client did not get the latch\n";
    return 1;
  }
  ::kill(holder, SIGKILL);
  std::cout << "client 1 holds the latch and is killed\n";

  Client client(address, 2);
  const bool inherited = client.fabric.reactor().run(take_over(client.session, client.objects.at(0)));
  std::cout << (inherited ? "client 2 has taken the latch over\n" : "client 2 found the latch free\n");
  return inherited ? 0 : 1;
}

}  // namespace

int main() {
  std::array<int, 2> server_to_holder{};
  std::array<int, 2> holder_to_server{};
  if (::pipe(server_to_holder.data()) != 0 || ::pipe(holder_to_server.data()) != 0) {
    return 1;
  }
  const pid_t holder = ::fork();  // before anything of the NIC exists
  try {
    if (holder == 0) {
      ::close(holder_to_server[0]);
      ::close(server_to_holder[1]);  // so that its other end is all that keeps the pipe open
      return hold(server_to_holder[0], holder_to_server[1]);
    }
    ::close(holder_to_server[1]);
    const int status = run(holder, server_to_holder[1], holder_to_server[0]);
    ::waitpid(holder, nullptr, 0);
    return status;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    if (holder > 0) {
      ::kill(holder, SIGKILL);
    }
    return 1;
  }
}
