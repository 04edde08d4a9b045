// A work request on its way through the simulated NICs.
#pragma once

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/work_request.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::fabric::sim {

class NetworkDevice;
class SimNode;
class SimQueuePair;
struct Request;

/// What binds the requests of one queue pair to each other on their way. It outlives the queue pair, because requests
/// that have left its NIC still execute (rule 9). After an error a queue pair makes a new one, with the same number.
struct Connection {
  std::uint64_t number = 0;
  /// The last place, sample, load or store of the requests of each kind that have reached the target (rule 5).
  std::array<Time, 4> executed_until{};
  /// Requests behind this one are never executed: it was refused, or they were not sent.
  std::uint64_t last_executed = std::numeric_limits<std::uint64_t>::max();
  /// That the device has forwarded and whose answers have not passed it yet, in posting order.
  std::deque<Request*> at_target;
  std::uint32_t references = 0;  ///< its requests, and the queue pair

  void drop_behind(std::uint64_t sequence) noexcept { last_executed = std::min(last_executed, sequence); }
};

struct alignas(32) Request {
  /// One piece that is placed or sampled, and when.
  struct Step {
    std::int64_t time;
    std::uint32_t piece;
  };

  WorkRequest wr;
  std::uint64_t length = 0;  ///< wr.length()
  model::Kind kind = model::Kind::write;
  SimQueuePair* queue_pair = nullptr;  ///< null once its queue pair has forgotten the request
  /// The end of a pair that the request goes to; null for a queue pair that is no end. Do not follow it once the
  /// connection is revoked: the end may be gone.
  SimQueuePair* receiver = nullptr;
  NetworkDevice* device = nullptr;  ///< that it passes; null: none
  std::uint64_t tag = 0;            ///< the device's
  SimNode* initiator = nullptr;
  SimNode* target = nullptr;
  Request* next = nullptr;  ///< on its queue pair, in posting order
  Connection* connection = nullptr;
  std::uint64_t sequence = 0;    ///< 0: not a request but the notice that the other end of a pair has ended
  std::uint32_t references = 0;  ///< events on the agenda, and 1 for its queue pair

  bool at_target = false;      ///< is in its connection's list of that name
  bool waits_back = false;     ///< its answer is at the device before that of an earlier request
  bool payload_bound = false;  ///< fetched, or inlined
  bool admitted = false;       ///< the receiving end does not hold it back, or no longer does
  bool begun = false;          ///< its first place, or all of it, was due
  bool executing = false;      ///< between its first and its last place or sample
  bool stepwise = false;       ///< its pieces are on the agenda one by one, because another request meets them
  bool done = false;           ///< its response has arrived
  bool failed = false;
  Status status = Status::remote_access;
  std::string detail;

  std::byte* memory = nullptr;  ///< target bytes while executing; for a SEND from its acceptance on
  std::uint64_t pieces = 0;
  std::uint64_t salt = 0;  ///< seeds the delays of its pieces
  Time posted{};           ///< when its doorbell rang
  Time first{};            ///< of the first place or sample, if nothing is late
  Time last{};             ///< of the last place or sample
  Time gap{};              ///< between neighbouring pieces
  std::size_t unit = 0;    ///< that executes it, if it is an atomic and units are limited
  std::uint64_t stall_at = 0;
  Time stall{};
  Time answer_begins{};  ///< to arrive at the initiator
  Time answer_ends{};    ///< to arrive there, or later if its NIC has other work
  std::uint64_t answer_bytes = 0;
  std::vector<Step> steps;  ///< in order of time, once another request meets it
  std::size_t steps_done = 0;

  std::uint64_t old_value = 0;
  std::array<std::byte, 64> small{};
  std::vector<std::byte> large;

  /// Will not be executed: an earlier request failed, or its payload was never fetched.
  [[nodiscard]] bool dropped() const noexcept { return sequence > connection->last_executed; }
  /// The payload on its way, in either direction.
  [[nodiscard]] std::byte* payload() noexcept { return length <= small.size() ? small.data() : large.data(); }
};

/// Keeps requests, or connections, for reuse: a warmed-up simulation allocates none.
template <class T>
class Pool {
 public:
  [[nodiscard]] T* take() {
    if (free_.empty()) [[unlikely]] {
      grow();
    }
    T* const taken = free_.back();
    free_.pop_back();
    return taken;
  }
  void give_back(T* given) { free_.push_back(given); }

 private:
  [[gnu::noinline]] void grow() {
    chunks_.push_back(std::make_unique<std::array<T, kChunk>>());
    for (T& one : *chunks_.back()) {
      free_.push_back(&one);
    }
  }

  static constexpr std::size_t kChunk = 64;
  std::vector<std::unique_ptr<std::array<T, kChunk>>> chunks_;
  std::vector<T*> free_;
};

}  // namespace sidelatch::fabric::sim
