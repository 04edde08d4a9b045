// A node of this process: a protection domain, its regions, and the passive ends of connections to it.
#pragma once

#include "queue_pair.h"

#include <sidelatch/fabric/node.h>

#include <memory>
#include <string>
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
  void revoke(QueuePair& queue_pair) override;

  /// The passive end of one connection.
  class PassiveEnd final : public Peer {
   public:
    explicit PassiveEnd(VerbsNode& node);
    PassiveEnd(const PassiveEnd&) = delete;
    PassiveEnd& operator=(const PassiveEnd&) = delete;
    ~PassiveEnd() override;
    Address accept(const Address& initiator) override;
    void revoke() noexcept;
    [[nodiscard]] VerbsNode* node() const noexcept { return node_; }

   private:
    friend class VerbsNode;
    VerbsNode* node_;  // null when the node has gone
    RawQueuePair raw_;
    bool revoked_ = false;
  };

 protected:
  void place_region(Registration& registration) override;
  void region_removed(Registration& registration, bool in_use) noexcept override;
  void region_ended(Registration& registration) noexcept override;

 private:
  const Port* port_;
  VerbsReactor* reactor_;
  ProtectionDomain domain_;
  CompletionQueue passive_completions_;  // stays empty: the passive ends post nothing
  std::vector<PassiveEnd*> passive_ends_;
};

}  // namespace sidelatch::fabric::verbs
