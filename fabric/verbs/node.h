// A node of this process: a protection domain, its regions, and the other ends of connections to it.
#pragma once

#include "passive_end.h"
#include "queue_pair.h"
#include "reactor.h"

#include <sidelatch/fabric/node.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

class VerbsNode final : public Node {
 public:
  VerbsNode(std::string name, const Port& port, VerbsReactor& reactor);
  VerbsNode(const VerbsNode&) = delete;
  VerbsNode& operator=(const VerbsNode&) = delete;
  ~VerbsNode() override;

  [[nodiscard]] Reactor& reactor() override { return *reactor_; }
  using Node::connect;
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& target, const QueuePairOptions& options) override;
  using Node::connect_pair;
  /// `peer` is a node of the same fabric.
  [[nodiscard]] std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> connect_pair(
      Node& peer, const QueuePairOptions& options) override;
  void revoke(QueuePair& queue_pair) override;

  [[nodiscard]] const Port& port() const noexcept { return *port_; }
  [[nodiscard]] ibv_pd* domain() const noexcept { return domain_.get(); }
  [[nodiscard]] ibv_cq* passive_completions() const noexcept { return passive_completions_.get(); }

  /// Memory of this node that only another process uses. Unlike a MemoryRegion, any thread may make and end it.
  class Lent {
   public:
    Lent(VerbsNode& node, std::uint64_t bytes, Access access);
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent();
    [[nodiscard]] RemoteSpan remote() const noexcept;

   private:
    VerbsNode* node_;
    std::uint64_t bytes_;
    std::byte* data_;
    MemoryRegistration region_;
  };

  /// The other end of a connection within this process.
  class LocalPeer final : public Peer {
   public:
    explicit LocalPeer(VerbsNode& node);
    LocalPeer(const LocalPeer&) = delete;
    LocalPeer& operator=(const LocalPeer&) = delete;
    ~LocalPeer() override;
    Address accept(const Address& initiator) override;
    void revoke() override;
    [[nodiscard]] bool belongs_to(const Node& node) const noexcept override { return &node == node_; }

   private:
    friend class VerbsNode;
    VerbsNode* node_;  // null when the node is gone
    PassiveEnd end_;
  };

 protected:
  void place_region(Registration& registration) override;
  void region_removed(Registration& registration, bool in_use) noexcept override;
  void region_ended(Registration& registration) noexcept override;
  [[nodiscard]] std::unique_ptr<Cpu> make_cpu() override { return std::make_unique<VerbsCpu>(*this, *reactor_); }
  [[nodiscard]] std::byte* obtain_memory(std::uint64_t bytes) override { return port_->placement().obtain(bytes); }
  void return_memory(std::byte* memory, std::uint64_t bytes) noexcept override {
    port_->placement().give_back(memory, bytes);
  }

 private:
  [[nodiscard]] ibv_mr* register_with_nic(std::byte* data, std::uint64_t bytes, Access access) const;

  const Port* port_;
  VerbsReactor* reactor_;
  ProtectionDomain domain_;
  CompletionQueue passive_completions_;  // stays empty
  std::vector<LocalPeer*> peers_;
};

}  // namespace sidelatch::fabric::verbs
