// Every scheme that is safe on today's NICs, on a real driver: client processes that update and read a few objects of a
// memory node, and what the objects hold in the end. And a client that dies with a latch.
#include "requests.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/sync/latch_peers.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/node_revoker.h>
#include <sidelatch/sync/scheme.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using checker::SchemeEntry;
using checker::SelectedScheme;
using fabric::model::Preset;

constexpr std::uint64_t kObjects = 2;
constexpr std::uint64_t kPayload = 200;
constexpr std::uint32_t kWriters = 2;
constexpr std::uint32_t kReaders = 1;
constexpr std::uint32_t kOperations = 30;

// A client process's observations, sent to the parent through a pipe.
struct Report {
  std::array<std::uint64_t, kObjects> updates{};
  std::uint64_t reads = 0;
  std::uint64_t torn = 0;   // payloads whose words are not all the same, accepted or found under the latch
  std::uint64_t older = 0;  // reads of one object that went back in time
  std::uint64_t stuck = 0;
  bool done = false;
};

void fill(std::span<std::byte> payload, std::uint64_t number) {
  for (std::size_t i = 0; i < payload.size(); i += sizeof number) {
    std::memcpy(payload.data() + i, &number, sizeof number);
  }
}
std::uint64_t number_in(std::span<const std::byte> payload) {
  std::uint64_t number = 0;
  std::memcpy(&number, payload.data(), sizeof number);
  return number;
}
bool uniform(std::span<const std::byte> payload) {
  return std::memcmp(payload.data(), payload.data() + 8, payload.size() - 8) == 0;
}

Task<void> write_objects(const sync::Scheme* scheme, sync::Session* session, const sync::ObjectArray* objects,
                         Report* report) {
  for (std::uint32_t i = 0; i < kOperations; ++i) {
    const std::uint64_t which = session->random() % kObjects;
    sync::ExclusiveGuard guard = co_await scheme->latch(*session, objects->at(which));
    if (!guard) {
      ++report->stuck;
      co_return;
    }
    report->torn += uniform(guard.payload()) ? 0U : 1U;
    fill(guard.payload(), number_in(guard.payload()) + 1);
    co_await guard.commit();
    ++report->updates.at(which);
  }
}

Task<void> read_objects(const sync::Scheme* scheme, sync::Session* session, const sync::ObjectArray* objects,
                        Report* report) {
  std::array<std::uint64_t, kObjects> newest{};
  std::vector<std::byte> payload(kPayload);
  for (std::uint32_t i = 0; i < kOperations; ++i) {
    const std::uint64_t which = session->random() % kObjects;
    const sync::ReadResult result = co_await scheme->read(*session, objects->at(which), payload);
    if (!result.accepted) {
      ++report->stuck;
      co_return;
    }
    ++report->reads;
    report->torn += uniform(payload) ? 0U : 1U;
    report->older += number_in(payload) < newest.at(which) ? 1U : 0U;
    newest.at(which) = number_in(payload);
  }
}

// A process that runs `work` and sends its result.
class ClientProcess {
 public:
  explicit ClientProcess(const std::function<Report()>& work) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      throw std::runtime_error("pipe failed");
    }
    process_ = ::fork();
    if (process_ == 0) {
      Report report;
      try {
        report = work();
        report.done = true;
      } catch (const std::exception& error) {
        fmt::print(stderr, "client: {}\n", error.what());
      }
      static_cast<void>(::write(ends[1], &report, sizeof report));
      ::_exit(0);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;
  ~ClientProcess() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::close(from_);
  }
  Report report() {
    Report report;
    if (::read(from_, &report, sizeof report) != sizeof report) {
      report = Report{};
    }
    return report;
  }
  void kill() { ::kill(process_, SIGKILL); }

 private:
  pid_t process_ = 0;
  int from_ = -1;
};

// The memory node, in the test's own process.
struct ObjectStorage {
  explicit ObjectStorage(const SelectedScheme& selected)
      : layout(selected.scheme->shape(kPayload, selected.layout), selected.layout, kObjects),
        memory(node.allocate(layout.total_bytes(), Access::remote_all)),
        server(node, {.address = "127.0.0.1", .any_port = true}) {
    server.share("objects", memory);
    server.start();
  }
  [[nodiscard]] std::uint64_t latch_word(std::uint64_t object) const {
    std::uint64_t word = 0;
    std::memcpy(&word, memory.bytes().data() + layout.latch(object), sizeof word);
    return word;
  }

  VerbsFabric fabric{{}, kConnections};
  Node& node = fabric.add_node("storage");
  sync::Layout layout;
  MemoryRegion memory;
  MemoryServer server;
};

// What a client needs to work on the objects.
struct ObjectClient {
  ObjectClient(const SelectedScheme& selected, const ObjectStorage& storage, const std::string& address,
               std::uint16_t owner, sync::SessionOptions options = {})
      : remote(fabric, address, {.owner = owner}),
        queue_pair(node.connect(remote)),
        objects(storage.layout, remote.region("objects")),
        revoker(remote) {
    options.buffers = std::min(4U, selected.scheme->most_buffers());
    options.seed = owner;
    if (options.lease.length != Duration::zero()) {
      options.owner = owner;
      options.revoker = &revoker;
    }
    session = std::make_unique<sync::Session>(*queue_pair, sync::buffer_bytes(storage.layout.shape()), options);
  }

  VerbsFabric fabric{{}, kConnections};
  Node& node = fabric.add_node("client");
  RemoteNode remote;
  std::unique_ptr<QueuePair> queue_pair;
  sync::ObjectArray objects;
  sync::NodeRevoker revoker;
  std::unique_ptr<sync::Session> session;
};

std::vector<SchemeEntry> safe_schemes() {
  std::vector<SchemeEntry> all;
  std::ranges::copy_if(checker::schemes(), std::back_inserter(all), [](const SchemeEntry& entry) {
    return entry.safe_under(Preset::observed) && !entry.make()->needs_peers();
  });
  return all;
}

std::string test_name(const ::testing::TestParamInfo<SchemeEntry>& info) {
  std::string text(info.param.name);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

class SchemesOnVerbs : public ::testing::TestWithParam<SchemeEntry> {};

TEST_P(SchemesOnVerbs, LoseNothingAndTearNothing) {
  const SelectedScheme selected = checker::select_scheme(GetParam().name);
  const ObjectStorage storage(selected);
  const std::string address = storage.server.address();
  std::vector<std::unique_ptr<ClientProcess>> clients;
  for (std::uint32_t i = 0; i < kWriters + kReaders; ++i) {
    clients.push_back(std::make_unique<ClientProcess>([&, i] {
      Report report;
      ObjectClient client(selected, storage, address, static_cast<std::uint16_t>(i + 1));
      const sync::Scheme* scheme = selected.scheme.get();
      client.fabric.reactor().run(i < kWriters ? write_objects(scheme, client.session.get(), &client.objects, &report)
                                               : read_objects(scheme, client.session.get(), &client.objects, &report));
      client.fabric.reactor().run([](QueuePair* qp) -> Task<void> { co_await qp->drain(); }(client.queue_pair.get()));
      return report;
    }));
  }
  std::array<std::uint64_t, kObjects> updates{};
  std::uint64_t reads = 0;
  for (auto& client : clients) {
    const Report report = client->report();
    ASSERT_TRUE(report.done);
    EXPECT_EQ(report.torn, 0U);
    EXPECT_EQ(report.older, 0U);
    EXPECT_EQ(report.stuck, 0U);
    reads += report.reads;
    for (std::uint64_t i = 0; i < kObjects; ++i) {
      updates.at(i) += report.updates.at(i);
    }
  }
  EXPECT_EQ(updates[0] + updates[1], kWriters * kOperations);
  EXPECT_EQ(reads, kReaders * kOperations);
  ObjectClient last(selected, storage, address, 99);
  std::vector<std::byte> payload(kPayload);
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    EXPECT_TRUE(selected.scheme->is_free(storage.latch_word(i)));
    const bool accepted =
        last.fabric.reactor().run(selected.scheme->read(*last.session, last.objects.at(i), payload)).accepted;
    EXPECT_TRUE(accepted);
    EXPECT_TRUE(uniform(payload));
    EXPECT_EQ(number_in(payload), updates.at(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemesOnVerbs, ::testing::ValuesIn(safe_schemes()), test_name);

// Clients that write to each other's memory: nodes of one process, each with connections of its own.
TEST(PeersSchemesOnVerbs, LoseNothingAndTearNothing) {
  for (const SchemeEntry& entry : checker::schemes()) {
    if (entry.kind != checker::Kind::queue || !entry.make()->needs_peers()) {
      continue;
    }
    SCOPED_TRACE(entry.name);
    constexpr std::uint32_t kClients = 4;
    const SelectedScheme selected = checker::select_scheme(entry.name);
    VerbsFabric fabric{{}, kConnections};
    Node& storage = fabric.add_node("storage");
    const sync::Layout layout(selected.scheme->shape(kPayload, selected.layout), selected.layout, kObjects);
    const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
    const sync::ObjectArray objects(layout, memory.remote());
    std::vector<std::unique_ptr<sync::LatchPeers>> peers;
    std::vector<std::unique_ptr<QueuePair>> queue_pairs;
    std::vector<std::unique_ptr<sync::Session>> sessions;
    std::array<Report, kClients> reports;
    for (std::uint32_t i = 0; i < kClients; ++i) {
      Node& node = fabric.add_node(fmt::format("client {}", i));
      peers.push_back(std::make_unique<sync::LatchPeers>(node, static_cast<std::uint16_t>(i + 1)));
      for (std::uint32_t k = 0; k < i; ++k) {
        sync::LatchPeers::connect(*peers[k], *peers[i]);
      }
      queue_pairs.push_back(node.connect(storage));
      sync::SessionOptions options{.buffers = 4, .peers = peers.back().get(), .seed = i + 1};
      sessions.push_back(
          std::make_unique<sync::Session>(*queue_pairs.back(), sync::buffer_bytes(layout.shape()), options));
    }
    for (std::uint32_t i = 0; i < kClients; ++i) {
      fabric.reactor().spawn(i + 1 < kClients
                                 ? write_objects(selected.scheme.get(), sessions[i].get(), &objects, &reports.at(i))
                                 : read_objects(selected.scheme.get(), sessions[i].get(), &objects, &reports.at(i)));
    }
    fabric.reactor().run();
    std::array<std::uint64_t, kObjects> updates{};
    for (const Report& report : reports) {
      EXPECT_EQ(report.torn + report.older + report.stuck, 0U);
      for (std::uint64_t i = 0; i < kObjects; ++i) {
        updates.at(i) += report.updates.at(i);
      }
    }
    EXPECT_EQ(updates[0] + updates[1], (kClients - 1) * kOperations);
    std::vector<std::byte> payload(kPayload);
    for (std::uint64_t i = 0; i < kObjects; ++i) {
      const bool accepted = fabric.reactor().run(selected.scheme->read(*sessions[0], objects.at(i), payload)).accepted;
      EXPECT_TRUE(accepted);
      EXPECT_TRUE(uniform(payload));
      EXPECT_EQ(number_in(payload), updates.at(i));
    }
  }
}

TEST(LeasesOnVerbs, ALatchOfAKilledClientIsTakenOver) {
  const SelectedScheme selected = checker::select_scheme("latch-exclusive/combined");
  const ObjectStorage storage(selected);
  const std::string address = storage.server.address();
  // Long, because an emulated NIC is slow: the lease of a living client must not end.
  const sync::SessionOptions options{.lease = {.length = from_ns(2e9), .margin = from_ns(5e8)}};
  const sync::Scheme* scheme = selected.scheme.get();
  ClientProcess holder([&]() -> Report {
    ObjectClient client(selected, storage, address, 1, options);
    sync::ExclusiveGuard guard = client.fabric.reactor().run(scheme->latch(*client.session, client.objects.at(0)));
    for (;;) {
      ::pause();
    }
  });
  for (int i = 0; i < 3000 && storage.latch_word(0) == sync::kFree; ++i) {
    ::usleep(10'000);
  }
  ASSERT_NE(storage.latch_word(0), sync::kFree);
  holder.kill();
  ObjectClient client(selected, storage, address, 2, options);
  sync::ExclusiveGuard guard = client.fabric.reactor().run(scheme->latch(*client.session, client.objects.at(0)));
  ASSERT_TRUE(guard);
  EXPECT_TRUE(guard.inherited());
  fill(guard.payload(), 7);
  client.fabric.reactor().run(guard.commit());
  client.fabric.reactor().run([](QueuePair* qp) -> Task<void> { co_await qp->drain(); }(client.queue_pair.get()));
  EXPECT_EQ(storage.latch_word(0), sync::kFree);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
