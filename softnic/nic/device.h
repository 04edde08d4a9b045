// Device: the shared state of a NIC's parts. The NIC owns it; queue pairs refer to it.
//
// Thread-safety: none.
#pragma once

#include "events.h"
#include "memory_access.h"
#include "memory_table.h"
#include "nic_time.h"
#include "receive_queue.h"
#include "roce/packet.h"
#include "work.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sidelatch::softnic::nic {

class QueuePair;

/// Addresses and limits of a NIC.
struct NicOptions {
  MacAddress mac{};
  std::vector<Gid> gids{};  ///< at least one
  PathMtu mtu = PathMtu::b4096;
  std::uint32_t first_queue_pair = 0x11;  ///< the number of the first queue pair that asks for none
  std::uint32_t most_queue_pairs = 1U << 14;
  std::uint32_t most_completion_queues = 1U << 16;
  std::uint32_t most_completions = 1U << 22;  ///< per completion queue
  std::uint32_t most_shared_receive_queues = 1U << 14;
  std::uint32_t most_regions = 1U << 20;
  std::uint32_t most_work_requests = 1U << 15;  ///< per send or receive queue
  std::uint32_t most_sges = 32;
  std::uint32_t most_inline = 1024;
  std::uint8_t max_rd_atomic = 64;
  std::uint8_t max_dest_rd_atomic = 64;
  /// A requester sends no packet this far after the oldest unacknowledged one.
  std::uint32_t window_packets = 128;
  /// A requester waits at least this long, in nanoseconds, for an answer before it counts an attempt as failed, also if
  /// a queue pair's timeout is shorter. A timeout of 0 stays without end.
  Time shortest_attempt = 0;
  /// Whether frames to one of the NIC's own addresses leave like all others. The driver then hands them back.
  bool sends_to_itself = false;
};

/// Counts of what happened to frames, for people and tests.
struct NicCounters {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t looped = 0;           ///< sent to this NIC itself
  std::uint64_t refused = 0;          ///< not a valid packet: see Refusal
  std::uint64_t misdirected = 0;      ///< no such queue pair, wrong address, partition or service
  std::uint64_t dropped = 0;          ///< the queue pair's state, Q_Key or receive queue had no use for it
  std::uint64_t stray = 0;            ///< unexpected answers
  std::uint64_t duplicates = 0;       ///< requests received before
  std::uint64_t out_of_sequence = 0;  ///< requests after missing ones
  std::uint64_t retransmissions = 0;  ///< times that a requester went back
  std::uint64_t timeouts = 0;
  std::uint64_t asked_again = 0;         ///< before the timeout had passed
  std::uint64_t receiver_not_ready = 0;  ///< RNR NAKs received
  std::uint64_t marked = 0;              ///< packets received that a switch had marked Congestion Experienced
  std::uint64_t congestion_told = 0;     ///< congestion notifications sent
  std::uint64_t congestion_heard = 0;    ///< congestion notifications received; they change nothing
};

/// One packet of a READ that is sampled ahead.
struct Sample : Operation {
  std::array<std::byte, bytes_of(PathMtu::b4096)> bytes;
};

class Device {
 public:
  Device(NicOptions given, MemoryAccess& access)
      : options(std::move(given)), table(options.most_regions), memory(access) {}

  const NicOptions options;
  MemoryTable table;
  MemoryAccess& memory;
  Events events;
  std::unordered_map<std::uint32_t, ReceiveQueue*> xrc_queues{};  ///< by number
  NicCounters counters;
  Time now = 0;
  bool is_broken = false;  ///< see Nic::fail()
  /// Whether anybody wants to know why queue pairs fail.
  bool explains = false;
  std::deque<std::string> explanations{};  ///< whole sentences, the oldest first

  /// Notes that the queue pair may have something to send.
  void wake(QueuePair& queue_pair) noexcept;
  /// Takes out the next woken queue pair; nullptr if there is none.
  [[nodiscard]] QueuePair* next_awake() noexcept;
  [[nodiscard]] bool has_awake() const noexcept { return first_awake_ != nullptr; }
  /// Notes that the queue pair waits for operations of the memory.
  void wait_for_memory(QueuePair& queue_pair);
  /// Polls all waiting queue pairs; those that still wait stay.
  void poll_waiting();
  /// "the page at 0x... of the region with the key 0x... is gone ...", of this address.
  [[nodiscard]] std::string describe_gone(const std::byte* gone) const;
  /// Forgets a queue pair that ends.
  void forget(QueuePair& queue_pair) noexcept;

  [[nodiscard]] Sample& take_sample();
  void give_back(Sample& sample) { free_samples_.push_back(&sample); }

 private:
  QueuePair* first_awake_ = nullptr;
  QueuePair* last_awake_ = nullptr;
  std::vector<QueuePair*> waiting_;
  std::vector<std::unique_ptr<Sample>> samples_;
  std::vector<Sample*> free_samples_;
};

}  // namespace sidelatch::softnic::nic
