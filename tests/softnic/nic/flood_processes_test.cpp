// A flood over the wire of shared memory: client, server and flooders are processes.
//
// SIDELATCH_FLOOD_SECONDS is the duration of the flood (default 2); releases need 10.
#include "roce/wire/wires.h"
#include "tests/roce/wire/processes.h"
#include "tests/softnic/nic/flood.h"
#include "tests/softnic/nic/wired_nics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int kFlooders = 2;

nanoseconds flood_time() {
  const char* const seconds = std::getenv("SIDELATCH_FLOOD_SECONDS");        // NOLINT(concurrency-mt-unsafe)
  return std::chrono::seconds(seconds == nullptr ? 2 : std::atoi(seconds));  // NOLINT(cert-err34-c)
}

// Known to both sides without communication: a NIC and a table always give out the same numbers.
constexpr std::uint64_t kRemoteAddress = 0x100000;
constexpr std::uint32_t kPair = 0x77;
constexpr Link kFloodLink{.timeout = 14, .rd_atomic = 16, .dest_rd_atomic = 16};

// A NIC at the wire, its memory, and one connection.
class Station {
 public:
  explicit Station(const SharedMemoryWireOptions& options) : wire_(join_shared_memory_wire(options)) {}

  [[nodiscard]] Wire& wire() { return *wire_; }
  [[nodiscard]] Gid gid() const { return gid_of(wire_->addresses().ipv4); }
  void connect(const Gid& peer) {
    bring_up(pair, kFloodLink, {.mac = wire_->resolve(peer).value(), .gid = peer}, kPair, Psn(0), Psn(0));
  }
  // True if a frame arrived or left.
  bool drive() {
    const Time now = static_cast<Time>(duration_cast<nanoseconds>(Clock::now().time_since_epoch()).count());
    bool has_moved = false;
    for (int frames = 0; frames < 64; ++frames) {
      const auto frame = wire_->receive();
      if (frame.empty()) {
        break;
      }
      nic.on_frame(frame, now);
      has_moved = true;
    }
    nic.advance(now);
    for (;;) {
      if (held_ == 0) {
        held_ = nic.pull_frame(buffer_, now);
      }
      if (held_ == 0 || !wire_->send(std::span(buffer_).first(held_))) {
        return has_moved;
      }
      held_ = 0;
      has_moved = true;
    }
  }
  void rest() { wire_->wait(milliseconds(1)); }

 private:
  std::unique_ptr<Wire> wire_;
  std::array<std::byte, kFrameRoom> buffer_{};
  std::size_t held_ = 0;  // bytes of a frame that the wire had no room for
  ImmediateAccess access_;

 public:
  std::vector<std::byte> memory = std::vector<std::byte>(CheckedClient::kMemoryBytes + 64);
  std::byte* const data = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  Nic nic{{.mac = wire_->addresses().mac, .gids = {gid()}}, access_};
  const Domain domain = nic.make_domain();
  CompletionQueue& completions = nic.make_completion_queue(256);
  QueuePair& pair = nic.make_queue_pair({.domain = domain,
                                         .send_completions = &completions,
                                         .receive_completions = &completions,
                                         .send_depth = CheckedClient::kSendDepth,
                                         .number = kPair});
  /// Used for the station's own requests and for others'.
  const std::uint32_t key = nic.register_memory(
      {data, CheckedClient::kMemoryBytes, reinterpret_cast<std::uintptr_t>(data), domain, Rights::local_write});
  const std::uint32_t remote_key =
      nic.register_memory({data, CheckedClient::kMemoryBytes, kRemoteAddress, domain, Rights::all});
};

TEST(FloodThreaded, AClientWorksOnWhileItsServerIsFlooded) {
  const SegmentOptions segment = new_wire();
  const SharedMemoryWireOptions options{.name = segment.name, .folder = segment.folder};
  Station client(options);
  const Gid client_gid = client.gid();
  // The server's first frame tells where it is; it is killed at the end.
  ChildProcess server([&] {
    Station station(options);
    station.connect(client_gid);
    std::vector<std::byte> hello(64);
    Ethernet{.destination = client.wire().addresses().mac, .source = station.wire().addresses().mac}.write(
        hello.data());
    std::copy_n(reinterpret_cast<const std::byte*>(station.gid().data()), station.gid().size(),
                hello.begin() + Ethernet::kBytes);
    station.wire().send(hello);
    for (;;) {
      if (!station.drive()) {
        station.rest();
      }
    }
    return 0;
  });
  Gid server_gid{};
  for (;;) {
    const auto frame = client.wire().receive();
    if (!frame.empty()) {
      std::copy_n(reinterpret_cast<const std::uint8_t*>(frame.data()) + Ethernet::kBytes, server_gid.size(),
                  server_gid.begin());
      break;
    }
    client.rest();
  }
  client.connect(server_gid);
  const MacAddress server_mac = client.wire().resolve(server_gid).value();
  const MacAddress client_mac = client.wire().addresses().mac;
  CheckedClient worker(client.pair, client.completions, {client.data, client.key, kRemoteAddress, client.remote_key});

  // Both sides register the same memory, so the client's own key is also the server's.
  const auto work = [&](nanoseconds duration) {
    const std::uint64_t before = worker.operations();
    const auto end = Clock::now() + duration;
    while (Clock::now() < end && worker.complaint().empty()) {
      worker.go_on();
      if (!client.drive()) {
        client.rest();
      }
    }
    return worker.operations() - before;
  };
  const auto calm = flood_time() / 2;
  const std::uint64_t before = work(calm);
  std::vector<std::unique_ptr<ChildProcess>> flooders;
  for (int i = 0; i < kFlooders; ++i) {
    // One flooder attacks the server, one the client.
    const FloodFrames::Target at_server{server_mac, server_gid, kPair, client_mac, client_gid};
    const FloodFrames::Target at_client{client_mac, client_gid, kPair, server_mac, server_gid};
    flooders.push_back(std::make_unique<ChildProcess>([&options, i, target = i == 0 ? at_server : at_client] {
      const auto wire = join_shared_memory_wire(options);
      FloodFrames frames(target, static_cast<std::uint64_t>(i));
      const auto end = Clock::now() + flood_time();
      while (Clock::now() < end) {
        Bytes frame = frames.next();
        if (frame.size() < Ethernet::kBytes) {
          frame.resize(Ethernet::kBytes);
        }
        // The wire uses the address, whatever else is wrong.
        std::ranges::copy(std::as_bytes(std::span(target.mac)), frame.begin());
        while (!wire->send(frame) && Clock::now() < end) {
          wire->wait(milliseconds(1));
        }
      }
      return wire->counters().frames_sent > 1000 ? 0 : 1;
    }));
  }
  const std::uint64_t during = work(flood_time());
  for (const auto& flooder : flooders) {
    EXPECT_EQ(flooder->status(), 0);
  }
  const std::uint64_t after = work(calm);
  EXPECT_EQ(worker.complaint(), "");
  EXPECT_GT(before, 0U);
  EXPECT_GT(during, 0U);
  EXPECT_GT(after, 0U);
  EXPECT_GT(client.nic.counters().refused + client.nic.counters().misdirected, 1000U);
  EXPECT_EQ(client.pair.state(), QueuePairState::rts);
  // Information for the reader; a shared machine guarantees no time.
  const auto rate = [](std::uint64_t operations, nanoseconds time) {
    return static_cast<double>(operations) / std::chrono::duration<double>(time).count();
  };
  fmt::print("operations/s before, during and after the flood: {:.0f}, {:.0f}, {:.0f}; {} frames of it at the client\n",
             rate(before, calm), rate(during, flood_time()), rate(after, calm),
             client.nic.counters().refused + client.nic.counters().misdirected);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
