// Two find the socket of a program that has ended at the same time: one of them replaces it, and keeps its own.
#include "roce/wire/unix_address.h"

#include "roce/wire/wire.h"
#include "tests/roce/wire/processes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

namespace sidelatch::roce {
namespace {
namespace unix_address_threads {

FileDescriptor bound_or_none(const std::filesystem::path& path) {
  try {
    return bind_datagram_socket(path);
  } catch (const WireError&) {
    return {};
  }
}

// Each round begins with the dead sockets of the round before.
TEST(UnixAddressThreaded, OneOfTwoReplacesADeadSocket) {
  constexpr int kRounds = 5000;
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / new_wire_name();
  static_cast<void>(bind_datagram_socket(path));
  std::atomic<int> arrived = 0;
  const auto meet = [&arrived](int times) {
    ++arrived;
    while (arrived.load() < 2 * times) {
      std::this_thread::yield();
    }
  };
  std::array<std::vector<bool>, 2> has_bound;
  const auto run = [&](std::vector<bool>& results) {
    for (int round = 0; round < kRounds; ++round) {
      meet(2 * round + 1);
      const FileDescriptor socket = bound_or_none(path);
      results.push_back(socket.valid());
      meet(2 * round + 2);  // until then it is in use
    }
  };
  std::thread other([&] { run(has_bound[1]); });
  run(has_bound[0]);
  other.join();
  for (std::size_t round = 0; round < kRounds; ++round) {
    ASSERT_NE(has_bound[0][round], has_bound[1][round]) << round;
  }
  std::filesystem::remove(path);
}

}  // namespace unix_address_threads
}  // namespace
}  // namespace sidelatch::roce
