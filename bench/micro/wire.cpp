// The capacity of a shared-memory wire between two processes: frames per second one way, and round trips per second,
// for frames of 64 bytes and of 4 KiB, against a UNIX socket pair in the same run. `ratio` says how many times as fast
// the wire is. Both sides alternate in short runs, and the best run of each counts: a shared machine only makes them
// slower.
#include "roce/wire/shared_memory_wire.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace {

using namespace sidelatch::roce;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 200;
constexpr int kFramesPerRun = 2'000;
constexpr int kRoundTripsPerRun = 400;
constexpr std::size_t kWindow = 16;

// The kind of a frame, in the first byte behind the Ethernet header.
enum class Kind : std::uint8_t { one_way, last, echo };

class End {
 public:
  End() = default;
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  virtual ~End() = default;
  virtual void send(std::span<const std::byte> frame) = 0;
  virtual void flush() = 0;
  // Waits for it.
  virtual std::span<const std::byte> receive() = 0;
};

class WireEnd final : public End {
 public:
  WireEnd(std::unique_ptr<SharedMemoryWire> wire, std::size_t peer)
      : wire_(std::move(wire)), peer_(addresses_of_station(peer).mac) {}

  void send(std::span<const std::byte> frame) override {
    for (;;) {
      const auto room = wire_->reserve(peer_, frame.size());
      if (!room.empty()) {
        std::memcpy(room.data(), frame.data(), frame.size());
        wire_->commit(frame.size());
        return;
      }
      wire_->wait(std::chrono::seconds(1));
    }
  }
  void flush() override { wire_->flush(); }
  std::span<const std::byte> receive() override {
    for (;;) {
      const auto frame = wire_->receive();
      if (!frame.empty()) {
        return frame;
      }
      wire_->wait(std::chrono::seconds(1));
    }
  }
  [[nodiscard]] const WireCounters& counters() const { return wire_->counters(); }

 private:
  std::unique_ptr<SharedMemoryWire> wire_;
  MacAddress peer_;
};

class SocketEnd final : public End {
 public:
  explicit SocketEnd(int socket) : socket_(socket), buffer_(kMostFrameBytes) {}
  ~SocketEnd() override { ::close(socket_); }
  SocketEnd(const SocketEnd&) = delete;
  SocketEnd& operator=(const SocketEnd&) = delete;

  void send(std::span<const std::byte> frame) override {
    static_cast<void>(::send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL));
  }
  void flush() override {}
  std::span<const std::byte> receive() override {
    const ssize_t bytes = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (bytes <= 0) {
      ::_exit(0);  // the benchmark is over
    }
    return std::span(buffer_).first(static_cast<std::size_t>(bytes));
  }

 private:
  int socket_;
  std::vector<std::byte> buffer_;
};

Kind kind_of(std::span<const std::byte> frame) { return static_cast<Kind>(frame[Ethernet::kBytes]); }

[[noreturn]] void answer(End& end) {
  std::vector<std::byte> copy(kMostFrameBytes);
  for (;;) {
    const auto frame = end.receive();
    if (kind_of(frame) == Kind::one_way) {
      benchmark::DoNotOptimize(frame.data());
      continue;
    }
    const std::size_t bytes = frame.size();
    std::memcpy(copy.data(), frame.data(), bytes);
    end.send(std::span(copy).first(bytes));
    end.flush();
  }
}

std::vector<std::byte> frame_of(std::size_t bytes, Kind kind) {
  std::vector<std::byte> frame(bytes);
  frame[Ethernet::kBytes] = static_cast<std::byte>(kind);
  return frame;
}

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

// Seconds per frame. The last frame is answered, so all have arrived.
double one_way(End& end, std::size_t bytes) {
  const auto frame = frame_of(bytes, Kind::one_way);
  const auto last = frame_of(bytes, Kind::last);
  const auto begun = Clock::now();
  for (int i = 1; i < kFramesPerRun; ++i) {
    end.send(frame);
    if (static_cast<std::size_t>(i) % kWindow == 0) {
      end.flush();
    }
  }
  end.send(last);
  end.flush();
  benchmark::DoNotOptimize(end.receive());
  return seconds_since(begun) / kFramesPerRun;
}

// Seconds per round trip, with this many in flight.
double round_trips(End& end, std::size_t bytes, std::size_t window) {
  const auto frame = frame_of(bytes, Kind::echo);
  const auto begun = Clock::now();
  std::size_t sent = 0;
  for (int received = 0; received < kRoundTripsPerRun; ++received) {
    for (; sent < static_cast<std::size_t>(received) + window && sent < kRoundTripsPerRun; ++sent) {
      end.send(frame);
    }
    end.flush();
    benchmark::DoNotOptimize(end.receive());
  }
  return seconds_since(begun) / kRoundTripsPerRun;
}

class Child {
 public:
  template <class F>
  explicit Child(F work) : process_(::fork()) {
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        work();
      } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
      }
      ::_exit(1);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_;
};

// Both pairs of processes; they live as long as the program.
class Pairs {
 public:
  Pairs() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0) {
      throw WireError("no socket pair");
    }
    socket_child_.emplace([&] {
      ::close(ends[0]);
      SocketEnd end(ends[1]);
      answer(end);
    });
    ::close(ends[1]);
    socket_ = std::make_unique<SocketEnd>(ends[0]);
    const SegmentOptions options{.name = fmt::format("bench-{}", ::getpid())};
    wire_child_.emplace([&] {
      // A wire has two stations, 0 and 1.
      auto wire = std::make_unique<SharedMemoryWire>(options);
      const std::size_t own = station_of(wire->addresses().mac).value();
      WireEnd end(std::move(wire), 1 - own);
      answer(end);
    });
    auto wire = std::make_unique<SharedMemoryWire>(options);
    const std::size_t own = station_of(wire->addresses().mac).value();
    while (!wire->resolve(addresses_of_station(1 - own).ipv6)) {
      ::usleep(1000);
    }
    wire_ = std::make_unique<WireEnd>(std::move(wire), 1 - own);
  }

  [[nodiscard]] WireEnd& wire() const { return *wire_; }
  [[nodiscard]] SocketEnd& socket() const { return *socket_; }

 private:
  // The children end first: the last process to leave the wire removes it.
  std::unique_ptr<SocketEnd> socket_;
  std::unique_ptr<WireEnd> wire_;
  std::optional<Child> socket_child_;
  std::optional<Child> wire_child_;
};

const Pairs& pairs() {
  static const Pairs kPairs;
  return kPairs;
}

template <class F>
void compare(benchmark::State& state, std::size_t bytes, const char* unit, F seconds_per) {
  double ours = 1e9;
  double theirs = 1e9;
  for (auto _ : state) {
    // The first run opens the rings.
    seconds_per(pairs().wire());
    seconds_per(pairs().socket());
    for (int run = 0; run < kRuns; ++run) {
      ours = std::min(ours, seconds_per(pairs().wire()));
      theirs = std::min(theirs, seconds_per(pairs().socket()));
    }
  }
  state.counters[unit] = 1 / ours;
  state.counters["GB/s"] = static_cast<double>(bytes) / ours / 1e9;
  state.counters[fmt::format("socket pair's {}", unit)] = 1 / theirs;
  state.counters["ratio"] = theirs / ours;
}

std::size_t bytes_of(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

void frames_one_way(benchmark::State& state) {
  const std::size_t bytes = bytes_of(state);
  compare(state, bytes, "frames/s", [&](End& end) { return one_way(end, bytes); });
}

void one_round_trip_at_a_time(benchmark::State& state) {
  const std::size_t bytes = bytes_of(state);
  compare(state, bytes, "round trips/s", [&](End& end) { return round_trips(end, bytes, 1); });
}

void round_trips_16_deep(benchmark::State& state) {
  const std::size_t bytes = bytes_of(state);
  compare(state, bytes, "round trips/s", [&](End& end) { return round_trips(end, bytes, kWindow); });
}

BENCHMARK(frames_one_way)->Arg(64)->Arg(4096)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(one_round_trip_at_a_time)->Arg(64)->Arg(4096)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(round_trips_16_deep)->Arg(64)->Arg(4096)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
