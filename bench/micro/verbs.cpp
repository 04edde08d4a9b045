// One operation at a time, or a queue full of them, over a real device: the client in this process, the memory in a
// child process. It does the same as ib_atomic_lat, ib_read_lat and ib_atomic_bw, and prints the same values.
#include <sidelatch/fabric/verbs/memory_server.h>

#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace sidelatch::fabric;
using Clock = std::chrono::steady_clock;

// Never returns. The process with the memory; it ends with its parent.
[[noreturn]] void serve(int answer) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text;
  try {
    verbs::VerbsFabric fabric;
    Node& node = fabric.add_node("storage");
    const MemoryRegion words = node.allocate(4096, Access::remote_all);
    verbs::MemoryServer server(node, {.address = "127.0.0.1", .any_port = true});
    server.share("words", words);
    server.start();
    text = server.address();
    static_cast<void>(!::write(answer, text.data(), text.size()));
    ::close(answer);
    for (;;) {
      ::pause();
    }
  } catch (const std::exception& error) {
    text = std::string("!") + error.what();
    static_cast<void>(!::write(answer, text.data(), text.size()));
  }
  ::_exit(1);
}

// The address of a server in a child process; an error begins with '!'.
std::string start_server() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    return "!pipe failed";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    serve(ends[1]);
  }
  ::close(ends[1]);
  std::array<char, 512> answer{};
  const ssize_t bytes = child > 0 ? ::read(ends[0], answer.data(), answer.size()) : 0;
  ::close(ends[0]);
  return bytes > 0 ? std::string(answer.data(), static_cast<std::size_t>(bytes)) : "!the server does not start";
}

struct Client {
  explicit Client(const std::string& address) : storage(fabric, address) {}

  verbs::VerbsFabric fabric;
  Node& node = fabric.add_node("client");
  verbs::RemoteNode storage;
  RemoteSpan word = storage.region("words").subspan(0, 8);
  MemoryRegion buffer = node.allocate(4096, Access::local_write);
  // The same as `ib_atomic_bw -t 128 -o 16 -Q 64`.
  std::unique_ptr<QueuePair> qp =
      node.connect(storage, {.send_queue_depth = 128, .max_rd_atomic = 16, .signal_interval = 64});
};

Task<void> add_one_by_one(Client* client, std::vector<Clock::time_point>* times) {
  for (Clock::time_point& time : *times) {
    time = Clock::now();
    co_await client->qp->fetch_add(client->word, 1);
  }
}

Task<void> read_one_by_one(Client* client, std::vector<Clock::time_point>* times) {
  const LocalSpan into = client->buffer.local(0, 8);
  for (Clock::time_point& time : *times) {
    time = Clock::now();
    co_await client->qp->read(into, client->word);
  }
}

Task<void> add_many(Client* client, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    co_await client->qp->enqueue(fetch_add(client->word, 1));
  }
  co_await client->qp->drain();
}

template <class Work>
void with_client(benchmark::State& state, Work work) {
  const std::string address = start_server();
  if (address[0] == '!') {
    state.SkipWithError(address.substr(1).c_str());
    return;
  }
  try {
    Client client(address);
    for (auto _ : state) {
      work(client);
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

template <Task<void> (*OneByOne)(Client*, std::vector<Clock::time_point>*)>
void latency(benchmark::State& state) {
  with_client(state, [&](Client& client) {
    std::vector<Clock::time_point> times(static_cast<std::size_t>(state.range(0)) + 1);
    client.fabric.reactor().run(OneByOne(&client, &times));
    std::vector<double> us;
    for (std::size_t i = 1; i < times.size(); ++i) {
      us.push_back(std::chrono::duration<double, std::micro>(times[i] - times[i - 1]).count());
    }
    std::ranges::sort(us);
    state.counters["typical_us"] = us[us.size() / 2];
  });
}

void rate(benchmark::State& state) {
  with_client(state, [&](Client& client) {
    const auto began = Clock::now();
    client.fabric.reactor().run(add_many(&client, state.range(0)));
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
    state.counters["per_us"] = static_cast<double>(state.range(0)) / us;
  });
}

BENCHMARK(latency<add_one_by_one>)->Name("atomic_lat")->Arg(2000)->Iterations(1);
BENCHMARK(latency<read_one_by_one>)->Name("read_lat")->Arg(2000)->Iterations(1);
BENCHMARK(rate)->Name("atomic_bw")->Arg(5000)->Iterations(1);

}  // namespace
