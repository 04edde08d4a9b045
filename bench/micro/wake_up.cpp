// The machine's own wake-up: from futex(2) in a thread on one CPU until a thread that slept on another CPU runs. No
// software NIC is faster, if its peer has to wake it. With the argument 1 a third thread spins on the sleeper's CPU.
#include <benchmark/benchmark.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWakeUps = 3000;
// Long enough for a CPU to leave the futex's spin lock and go idle.
constexpr std::chrono::microseconds kRest{200};

// False: this thread may not run there.
bool pin_to(std::size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0;
}

class Sleeper {
 public:
  explicit Sleeper(std::size_t cpu) : thread_([this, cpu] { run(cpu); }) {}
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    is_last_ = true;
    await_sleep();
    wake();
    thread_.join();
  }

  // Microseconds from the call until the thread ran.
  double us_to_wake() {
    await_sleep();
    for (const auto rested = Clock::now() + kRest; Clock::now() < rested;) {
    }
    const auto begun = Clock::now();
    wake();
    while (ran_.load(std::memory_order_acquire) == Clock::time_point{}) {
    }
    const double us = std::chrono::duration<double, std::micro>(ran_.load() - begun).count();
    ran_ = Clock::time_point{};
    return us;
  }

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;

  void await_sleep() const {
    while (word_ != kAsleep) {
    }
  }
  void wake() {
    word_ = kAwake;
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

  void run(std::size_t cpu) {
    pin_to(cpu);
    for (;;) {
      word_ = kAsleep;
      while (word_ == kAsleep) {
        ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kAsleep, nullptr, nullptr, 0);
      }
      if (is_last_) {
        return;
      }
      ran_ = Clock::now();
      while (ran_.load() != Clock::time_point{}) {
      }
    }
  }

  std::atomic<std::uint32_t> word_{kAwake};
  std::atomic<bool> is_last_{false};
  std::atomic<Clock::time_point> ran_{};
  std::thread thread_;
};

void wake_up(benchmark::State& state) {
  cpu_set_t before;
  ::pthread_getaffinity_np(::pthread_self(), sizeof before, &before);
  if (!pin_to(0) || !pin_to(1)) {
    state.SkipWithError("needs the CPUs 0 and 1");
    return;
  }
  pin_to(0);
  std::vector<double> us;
  {
    std::atomic<bool> is_over{state.range(0) == 0};
    std::thread spinner([&is_over] {
      pin_to(1);
      while (!is_over) {
      }
    });
    Sleeper sleeper(1);
    for (auto _ : state) {
      us.push_back(sleeper.us_to_wake());
    }
    is_over = true;
    spinner.join();
  }
  ::pthread_setaffinity_np(::pthread_self(), sizeof before, &before);
  std::sort(us.begin(), us.end());
  state.counters["median us"] = us[us.size() / 2];
  state.counters["a tenth below us"] = us[us.size() / 10];
  state.counters["most us"] = us.back();
}

BENCHMARK(wake_up)->Arg(0)->Arg(1)->Iterations(kWakeUps);

}  // namespace
