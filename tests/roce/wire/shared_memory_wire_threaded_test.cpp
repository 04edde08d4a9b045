// Stations in threads of one process, each with its own mapping: no sleeper is forgotten.
#include "roce/wire/shared_memory_wire.h"

#include "tests/roce/wire/frames.h"
#include "tests/roce/wire/processes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
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
