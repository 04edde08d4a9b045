// A work request on its way through the simulated NICs.
#pragma once

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/work_request.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::fabric::sim {

class NetworkDevice;
class SimNode;
class SimQueuePair;

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
  Request* next = nullptr;       ///< on its queue pair, in posting order
  std::uint64_t connection = 0;  ///< number of its queue pair; outlives the queue pair
  std::uint64_t sequence = 0;    ///< 0: not a request but the notice that the other end of a pair has ended
  std::uint32_t references = 0;  ///< events on the agenda, and 1 for its queue pair

  bool passed_back = false;    ///< the device has seen its answer, or has given it
  bool waits_back = false;     ///< its answer is at the device before that of an earlier request
  bool payload_bound = false;  ///< fetched, or inlined
  bool dropped = false;        ///< will not be executed: an earlier request failed, or its payload was never fetched
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
  Time first{};            ///< of the first place or sample, if nothing is late
  Time last{};             ///< of the last place or sample
  Time gap{};              ///< between neighbouring pieces
  std::size_t unit = 0;    ///< that executes it, if it is an atomic and units are limited
  std::uint64_t stall_at = 0;
  Time stall{};
  std::vector<Step> steps;  ///< in order of time, once another request meets it
  std::size_t steps_done = 0;

  std::uint64_t old_value = 0;
  std::array<std::byte, 64> small{};
  std::vector<std::byte> large;

  /// The payload on its way, in either direction.
  [[nodiscard]] std::byte* payload() noexcept { return length <= small.size() ? small.data() : large.data(); }
};

/// Keeps requests for reuse: a warmed-up simulation allocates none.
class RequestPool {
 public:
  [[nodiscard]] Request* take() {
    if (free_.empty()) [[unlikely]] {
      grow();
    }
    Request* request = free_.back();
    free_.pop_back();
    return request;
  }
  void give_back(Request* request) { free_.push_back(request); }

 private:
  [[gnu::noinline]] void grow() {
    chunks_.push_back(std::make_unique<std::array<Request, kChunk>>());
    for (Request& request : *chunks_.back()) {
      free_.push_back(&request);
    }
  }

  static constexpr std::size_t kChunk = 64;
  std::vector<std::unique_ptr<std::array<Request, kChunk>>> chunks_;
  std::vector<Request*> free_;
};

}  // namespace sidelatch::fabric::sim
