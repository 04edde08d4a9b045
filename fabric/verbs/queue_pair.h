// The initiating end of a connection, and what it knows of the other end.
#pragma once

#include "reactor.h"

#include <sidelatch/fabric/queue_pair.h>

#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::fabric::verbs {

class VerbsNode;

/// The other end: makes it ready for a (new) connection.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;
  /// Makes `queue_pair`, whatever its state, ready and connected to the other end. `outstanding`: READs and atomics
  /// that it may have in flight. Throws FabricError if the other end does not answer or refuses, and DeviceError. This
  /// one exchanges addresses.
  virtual void connect(const Port& port, ibv_qp& queue_pair, std::uint32_t outstanding);
  /// The other end's part of the exchange: ready to be connected to `initiator`; returns its own address. Throws
  /// FabricError if it does not answer or refuses.
  virtual Address accept(const Address& initiator) = 0;
  /// Ends the connection there, for good: when this returns nothing of it happens any more.
  virtual void revoke() = 0;
  [[nodiscard]] virtual bool belongs_to(const Node& node) const noexcept = 0;
};

class VerbsQueuePair final : public QueuePair {
 public:
  VerbsQueuePair(VerbsNode& node, const Port& port, VerbsReactor& reactor, ibv_pd* domain, std::unique_ptr<Peer> peer,
                 const QueuePairOptions& options);
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;
  ~VerbsQueuePair() override;

  [[nodiscard]] Peer& peer() noexcept { return *peer_; }
  void on_completion(const ibv_wc& completion, std::uint32_t epoch);
  void report_failed_post();

 protected:
  void ring_doorbell(std::span<const WorkRequest> chain, std::uint64_t first) override;
  void cancel_in_flight() noexcept override;
  Task<void> restore_connection() override;

 private:
  void connect() { peer_->connect(*port_, *raw_, options().max_rd_atomic); }
  [[nodiscard]] std::uint64_t mark(std::uint64_t sequence) const noexcept;

  VerbsNode* node_;
  const Port* port_;
  VerbsReactor* reactor_;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<std::uint64_t[]> results_;
  MemoryRegistration results_region_;
  RawQueuePair raw_;
  std::uint32_t place_;
  std::uint32_t epoch_ = 0;  // completions of an earlier connection are nobody's
  std::uint64_t failed_post_ = 0;
  int post_error_ = 0;
};

}  // namespace sidelatch::fabric::verbs
