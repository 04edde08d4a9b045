// The initiating end of a connection, and its view of the other end.
#pragma once

#include "reactor.h"
#include "software_fence.h"

#include <sidelatch/fabric/queue_pair.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace sidelatch::fabric::verbs {

class VerbsNode;
struct Pair;

/// The other end, seen from the initiator: makes it ready for a (new) connection.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;
  /// Makes `queue_pair`, whatever its state, ready and connected to the other end. `outstanding`: READs and atomics
  /// that it may have in flight; returns how many the other end allows. Throws FabricError if the other end does not
  /// answer or refuses, and DeviceError. This implementation exchanges addresses.
  virtual std::uint32_t connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding);
  /// connect() in two steps, so that a task can wait for the other end without its reactor. The first, in `errands`,
  /// waits for the other end; the second connects the queue pair. It does not use the Peer, which may be gone.
  struct Steps {
    std::shared_ptr<Errand> answer;
    std::function<std::uint32_t()> connect;
  };
  /// Without an `answer` there is nothing to wait for.
  [[nodiscard]] virtual Steps start_connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding);
  /// The other end's part of the exchange: gets ready for `initiator`; returns its own address. Throws FabricError if
  /// it does not answer or refuses.
  virtual Address accept(const Address& initiator) = 0;
  /// Ends the connection at the other end for good: its requests take no further steps when this returns.
  virtual void revoke() = 0;
  /// Asks the switch between for the latch of a tuple in doubt. This implementation throws std::logic_error.
  [[nodiscard]] virtual bool inherit(const RemoteSpan& tuple);
  /// Asks it what has become of a WRITE. This implementation throws std::logic_error.
  [[nodiscard]] virtual std::uint8_t resume(const RemoteSpan& tuple, std::uint64_t version);
  [[nodiscard]] virtual bool belongs_to(const Node& node) const noexcept = 0;
};

class VerbsQueuePair final : public QueuePair {
 public:
  /// Connects through `peer`; but an end of a pair is connected by join(). `side`: which end it is.
  VerbsQueuePair(VerbsNode& node, const Port& port, VerbsReactor& reactor, ibv_pd* domain, std::unique_ptr<Peer> peer,
                 const QueuePairOptions& options, std::shared_ptr<Pair> pair = nullptr, std::size_t side = 0);
  /// Connects the two ends of a pair. Throws DeviceError.
  static void join(VerbsQueuePair& here, VerbsQueuePair& there);
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;
  ~VerbsQueuePair() override;

  [[nodiscard]] Peer& peer() noexcept { return *peer_; }
  void on_completion(const ibv_wc& completion) {
    if ((completion.wr_id ^ mark_) >> 32 != 0) [[unlikely]] {
      return;  // of an earlier connection
    }
    const auto ahead = static_cast<std::uint32_t>(completion.wr_id) - static_cast<std::uint32_t>(completed());
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
      on_failure(completed() + ahead, completion);
    } else {
      on_completed(completed() + ahead);
      if (fence_ != nullptr && fence_->holds()) [[unlikely]] {
        post_held();
      }
    }
  }
  /// A receive has completed.
  void on_receive(const ibv_wc& completion);
  /// The NIC has flushed receives, and no request of this end is known to have failed.
  void close_flushed_receives();
  [[nodiscard]] bool awaits_message() const noexcept { return receives() != nullptr && receives()->is_awaited(); }
  /// Whether a request may wait for ever, for a buffer of the other end.
  [[nodiscard]] bool may_wait_for_receiver() const noexcept;
  /// The node of this end has ended it (revocation).
  void end_by_node();
  /// Reports the request that the driver refused.
  void report_refused();
  using QueuePair::awaits_completion;
  using QueuePair::bytes_in_flight;
  /// Reports that the oldest request has not completed for `waited`, longer than it can take.
  void report_stalled(Duration waited);

 protected:
  void post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) override;
  void cancel_in_flight() noexcept override;
  Task<void> restore_connection() override;
  void receive_posted(const LocalSpan& into) override;

 private:
  void make(ibv_pd* domain);
  void connect();
  void require_queue_pair() const;
  void end_other() noexcept;
  void on_other_ended() noexcept;
  void close_receives() noexcept;
  void give(ibv_send_wr& first, std::uint64_t sequence);
  void keep_refusal(const ibv_send_wr& first, const ibv_send_wr* refused, std::uint64_t sequence, int error);
  void post_held();
  void on_failure(std::uint64_t sequence, const ibv_wc& completion);

  const Port* port_;
  VerbsReactor* reactor_;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<std::uint64_t[]> results_;
  MemoryRegistration results_region_;
  RawQueuePair raw_;
  std::uint32_t place_;
  std::uint64_t mark_;         // the mark that requests carry beside their numbers, until the connection ends
  std::uint64_t refused_ = 0;  // the request that the driver did not take; nothing is posted after it
  int refusal_ = 0;
  std::unique_ptr<SoftwareFence> fence_;  // set if the NIC's own fence does not work
  // A connection that is being restored. Tasks that ask for it meanwhile share it.
  struct Restoration {
    Peer::Steps steps;
    bool is_over = false;
    std::exception_ptr error;
  };
  std::shared_ptr<Restoration> restoration_;
  std::shared_ptr<Pair> pair_;  // of an end of a pair
  std::size_t side_ = 0;        // which end
  ReceiveSide receive_side_;
  std::uint64_t receives_posted_ = 0;
  bool other_ended_ = false;
  bool ends_ = false;  // only messages that have arrived count
};

/// Both ends of a connection within this process. An end that is gone is null.
struct Pair {
  std::array<VerbsQueuePair*, 2> ends{};
  std::array<const Node*, 2> nodes{};
  bool ended = false;
};

/// The other end of a pair, for revocation by its node.
class PairPeer final : public Peer {
 public:
  PairPeer(std::shared_ptr<Pair> pair, std::size_t other) noexcept : pair_(std::move(pair)), other_(other) {}
  Address accept(const Address& initiator) override;
  void revoke() override;
  [[nodiscard]] bool belongs_to(const Node& node) const noexcept override { return pair_->nodes[other_] == &node; }

 private:
  std::shared_ptr<Pair> pair_;
  std::size_t other_;
};

}  // namespace sidelatch::fabric::verbs
