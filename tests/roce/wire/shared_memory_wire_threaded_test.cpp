// Stations in threads of one process, each with its own mapping: no sleeper is forgotten.
#include "roce/wire/shared_memory_wire.h"

#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

namespace sidelatch::roce {
namespace {

constexpr std::uint32_t kRoundTrips = 3000;

TEST(SharedMemoryWireThreaded, AnswersComeBack) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire client(options);
  SharedMemoryWire server(options);
  std::thread thread([&] {
    for (std::uint32_t i = 0; i < kRoundTrips; ++i) {
      const auto frame = wait_for_frame(server);
      EXPECT_TRUE(is_whole(frame));
      send_test_frame(server, client.addresses().mac, number_of(frame), length_of(number_of(frame)));
    }
    server.flush();
  });
  for (std::uint32_t i = 0; i < kRoundTrips; ++i) {
    send_test_frame(client, server.addresses().mac, i, length_of(i));
    const auto frame = wait_for_frame(client);
    ASSERT_TRUE(is_whole(frame));
    ASSERT_EQ(number_of(frame), i);
  }
  thread.join();
}

TEST(SharedMemoryWireThreaded, NothingIsLostToAReaderThatIsSlowerThanItsWriters) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire reader(options);
  constexpr std::uint32_t kFrames = 2000;
  constexpr int kWriters = 3;
  std::vector<std::thread> writers;
  std::atomic<int> ready{0};
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      SharedMemoryWire writer(options);
      ++ready;
      for (std::uint32_t number = 0; number < kFrames; ++number) {
        send_test_frame(writer, reader.addresses().mac, number, length_of(number));
      }
      writer.flush();
      // Its place is not given to another writer.
      while (ready < 2 * kWriters) {
        writer.wait(kForever);
      }
    });
  }
  std::map<MacAddress, std::uint32_t> next;
  for (std::uint32_t i = 0; i < kFrames * kWriters; ++i) {
    const auto frame = wait_for_frame(reader);
    ASSERT_TRUE(is_whole(frame));
    ASSERT_EQ(number_of(frame), next[Ethernet::read(frame.data()).source]++);
  }
  ready += kWriters;
  for (const auto& [writer, count] : next) {
    EXPECT_EQ(count, kFrames);
    send_test_frame(reader, writer, 0, 64);
  }
  reader.flush();
  for (std::thread& thread : writers) {
    thread.join();
  }
}

// As a switch sleeps. More threads than CPUs run: sometimes the sleeper rises and lies down again before the one that
// woke it goes on.
TEST(SharedMemoryWireThreaded, WhoSleepsAtItsBellIsWokenByEachFrame) {
  const SegmentOptions options = new_wire();
  SharedMemoryWire sleeper(options);
  sleeper.use_bell();
  constexpr std::uint32_t kFrames = 4000;
  constexpr std::size_t kSenders = 4;
  std::array<std::atomic<std::uint32_t>, kSenders> seen{};
  std::atomic<bool> missed{false};
  std::vector<std::thread> senders;
  for (std::size_t own = 0; own < kSenders; ++own) {
    senders.emplace_back([&, own] {
      SharedMemoryWire sender(options);
      for (std::uint32_t i = 0; i < kFrames && !missed; ++i) {
        send_test_frame(sender, sleeper.addresses().mac, static_cast<std::uint32_t>(own), 64);
        sender.flush();
        while (seen[own] <= i && !missed) {
          std::this_thread::sleep_for(std::chrono::microseconds(1));
        }
      }
    });
  }
  const auto all = [&] { return std::accumulate(seen.begin(), seen.end(), std::uint32_t{0}); };
  while (all() < kFrames * kSenders && !missed) {
    if (const auto frame = sleeper.receive(); !frame.empty()) {
      ++seen.at(number_of(frame));
      continue;
    }
    if (sleeper.lie_down() > std::chrono::nanoseconds(0)) {
      pollfd bell{sleeper.descriptor(), POLLIN, 0};
      // It passes only if nobody strikes although a frame is there.
      constexpr int kMilliseconds = 20'000;
      missed = ::poll(&bell, 1, kMilliseconds) == 0;
    }
    sleeper.stand_up();
  }
  for (std::thread& sender : senders) {
    sender.join();
  }
  EXPECT_FALSE(missed);
  EXPECT_EQ(all(), kFrames * kSenders);
}

TEST(SharedMemoryWireThreaded, InterruptWakesWhoSleepsAtItsBell) {
  SharedMemoryWire wire(new_wire());
  wire.use_bell();
  ASSERT_GT(wire.lie_down(), std::chrono::nanoseconds(0));
  wire.interrupt();
  pollfd bell{wire.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&bell, 1, 0), 1);
  wire.stand_up();
  EXPECT_EQ(::poll(&bell, 1, 0), 0);
}

TEST(SharedMemoryWireThreaded, InterruptEndsAWait) {
  SharedMemoryWire wire(new_wire());
  std::atomic<bool> stop{false};
  std::atomic<int> waits{0};
  std::thread thread([&] {
    while (!stop) {
      wire.wait(kForever);
      ++waits;
    }
  });
  for (int i = 0; i < 200; ++i) {
    const int before = waits;
    wire.interrupt();
    while (waits == before) {
      std::this_thread::yield();
    }
  }
  stop = true;
  wire.interrupt();
  thread.join();
}

}  // namespace
}  // namespace sidelatch::roce
