// A closed loop: every worker always has one request outstanding. It measures how a NIC scales.
//
//   ClosedLoop loop{.workers = 128, .opcode = Opcode::compare_swap, .offset = [](std::uint32_t w) { return w * 64; }};
//   double mops = run_closed_loop(storage, clients, loop).mops();
//
// Workers are spread over the client nodes in turn and each has a queue pair of its own, as in TODS 2025, section 3.2.
// They may also be spread over processes, which then use the same memory and begin together (`all_connected`).
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/checker/batch_means.h>
#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/queue_pair.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace sidelatch::checker {

struct ClosedLoop {
  std::uint32_t workers = 1;
  fabric::Opcode opcode = fabric::Opcode::compare_swap;  ///< compare_swap, fetch_add, read or write
  std::uint64_t bytes = 8;                               ///< per READ or WRITE: a multiple of 8
  /// Where worker w's bytes lie, in bytes from the start of a page-aligned region; a multiple of 8.
  std::function<std::uint64_t(std::uint32_t)> offset = [](std::uint32_t) { return 0; };
  fabric::Duration warm_up = std::chrono::microseconds(100);
  fabric::Duration measured = std::chrono::microseconds(1000);
  std::uint32_t process = 0;  ///< this process runs the workers w with w % processes == process
  std::uint32_t processes = 1;
  /// If set, workers take their queue pairs from here, and leave them and new ones here for the next loop of the same
  /// nodes and processes. Making a queue pair takes longer than many operations.
  std::vector<std::unique_ptr<fabric::QueuePair>>* queue_pairs = nullptr;
  /// Called when this process's workers are connected, before its clock starts; waits for the other processes.
  std::function<void()> all_connected = [] {};
};

struct ClosedLoopResult {
  std::uint64_t operations = 0;   ///< completed within `elapsed`
  Windows::Counts windows{};      ///< the same, by windows of `elapsed`
  fabric::Duration elapsed{};     ///< by the world's clock
  fabric::Duration total_wait{};  ///< summed over the operations
  /// Millions of operations per second.
  [[nodiscard]] double mops() const {
    return elapsed.count() == 0 ? 0 : static_cast<double>(operations) / static_cast<double>(elapsed.count()) * 1e6;
  }
  /// Mean latency of one operation, nanoseconds.
  [[nodiscard]] double mean_ns() const {
    return operations == 0 ? 0 : fabric::to_ns(total_wait) / static_cast<double>(operations);
  }
};

/// The size of the memory that the workers use. Throws std::invalid_argument for a misaligned offset or size.
[[nodiscard]] std::uint64_t memory_bytes(const ClosedLoop& loop);

/// Throws std::invalid_argument for no worker, no client, an opcode that moves no bytes, or a misaligned offset or
/// size.
[[nodiscard]] ClosedLoopResult run_closed_loop(fabric::Node& storage, std::span<fabric::Node* const> clients,
                                               const ClosedLoop& loop);
/// The same on existing memory of `storage`, at least memory_bytes() of it.
[[nodiscard]] ClosedLoopResult run_closed_loop(fabric::Node& storage, fabric::RemoteSpan words,
                                               std::span<fabric::Node* const> clients, const ClosedLoop& loop);

}  // namespace sidelatch::checker
