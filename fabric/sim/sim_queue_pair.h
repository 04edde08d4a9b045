// The initiating end of a simulated connection. An end of a pair is also the receiving end of its peer.
#pragma once

#include "sim_node.h"

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/sim/network_device.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>

namespace sidelatch::fabric::sim {

/// The state of an end of a pair about its peer's requests.
struct Inbound {
  SimQueuePair* peer = nullptr;    ///< null once the peer is gone
  std::uint64_t connection = 0;    ///< the peer's connection
  std::deque<Request*> held = {};  ///< a SEND without a receive buffer, then all requests after it
  /// WRITEs and messages that the NIC has accepted, in order, up to the last message that the CPU has not seen.
  std::deque<Request*> accepted = {};
  Time written_until{};      ///< the last place of the WRITEs and SENDs that were accepted
  Time received_until{};     ///< when the CPU sees the last accepted message
  LocalSpan too_short = {};  ///< the buffer of a SEND that was too long
  bool refuses = false;      ///< accepts nothing more: a request was refused or never sent
  bool ended = false;        ///< this end has ended
};

class SimQueuePair final : public QueuePair {
 public:
  SimQueuePair(SimNode& initiator, SimNode& target, const QueuePairOptions& options);
  SimQueuePair(const SimQueuePair&) = delete;
  SimQueuePair& operator=(const SimQueuePair&) = delete;
  ~SimQueuePair() override;

  /// The response to `request` has arrived.
  void on_response(Request& request);
  /// Called when the target has ended its half of the connection for good.
  void revoke();
  /// See Simulation::lose_connection().
  bool lose_connection();
  /// Makes this and `peer` the two ends of a pair.
  void join(SimQueuePair& peer);
  /// The other end, or null if there is none or it is gone.
  [[nodiscard]] SimQueuePair* peer() const noexcept { return inbound_ == nullptr ? nullptr : inbound_->peer; }
  [[nodiscard]] Inbound& inbound() noexcept { return *inbound_; }
  [[nodiscard]] SimNode& initiator() const noexcept { return *initiator_; }
  using QueuePair::on_ended;
  using QueuePair::receives;
  /// Of the next request.
  [[nodiscard]] Connection& open_connection();
  [[nodiscard]] std::uint64_t connection() const noexcept { return connection_; }
  [[nodiscard]] SimNode& target() const noexcept { return *target_; }

  /// Messages of one queue pair arrive in posting order.
  Time last_arrival{};
  /// What its requests pass, or null: the link, with its propagation.
  NetworkDevice* device = nullptr;
  std::size_t cache_slot = kNotCached;
  static constexpr std::size_t kNotCached = std::numeric_limits<std::size_t>::max();

 protected:
  void post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) override;
  void cancel_in_flight() noexcept override;
  Task<void> restore_connection() override;
  void receive_posted(const LocalSpan& into) override;

 private:
  void end_connection() noexcept;
  void leave_cache() noexcept;
  [[nodiscard]] bool may_issue(const Request& request) const;
  void issue_waiting();
  void complete_in_order();
  void fail(const Request& request);
  void count_issued(const Request& request, int change);
  [[nodiscard]] Time former_requests_executed() const;

  SimNode* initiator_;
  SimNode* target_;
  std::uint64_t connection_;
  Connection* open_ = nullptr;        // of the requests since the last error; null: none was posted
  Connection* former_ = nullptr;      // of those before it
  std::unique_ptr<Inbound> inbound_;  // of an end of a pair
  Request* oldest_ = nullptr;         // in flight, in posting order
  Request* newest_ = nullptr;
  Request* next_to_issue_ = nullptr;
  std::uint32_t reads_issued_ = 0;
  std::uint32_t atomics_issued_ = 0;
  std::shared_ptr<const bool> exists_ =
      std::make_shared<const bool>(true);  // tells a reconnection that this was destroyed
};

}  // namespace sidelatch::fabric::sim
