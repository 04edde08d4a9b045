// A fabric that costs next to nothing: the doorbell executes requests on memory of the same process, and they complete
// when the reactor asks. The remaining cost is the library's own code.
#pragma once

#include <sidelatch/fabric/fabric.h>

#include <cstring>
#include <memory>
#include <optional>

namespace sidelatch::fabric {

class StubQueuePair;

class StubReactor final : public Reactor {
 public:
  StubReactor() : Reactor(1U << 16) {}
  StubReactor(const StubReactor&) = delete;
  StubReactor& operator=(const StubReactor&) = delete;
  ~StubReactor() override { destroy_spawned(); }
  [[nodiscard]] Time now() const override { return Time::zero(); }
  StubQueuePair* queue_pair = nullptr;

 protected:
  bool advance(std::optional<Time> limit) override;
  std::uint64_t start_timer(Duration /*duration*/, Waiter& waiter) override {
    ready(waiter);
    return 1;
  }
  void cancel_timer(std::uint64_t /*timer*/) noexcept override {}
};

class StubNode final : public Node {
 public:
  explicit StubNode(StubReactor& reactor) : Node("stub"), reactor_(&reactor) {}
  StubNode(const StubNode&) = delete;
  StubNode& operator=(const StubNode&) = delete;
  ~StubNode() override { release_memory(); }
  [[nodiscard]] Reactor& reactor() override { return *reactor_; }
  using Node::connect;
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& target, const QueuePairOptions& options) override;
  void revoke(QueuePair& /*queue_pair*/) override {}

 protected:
  void place_region(Registration& registration) override {
    registration.address = {reinterpret_cast<std::uintptr_t>(registration.data)};
  }
  void region_removed(Registration& /*registration*/, bool /*in_use*/) noexcept override {}

 private:
  StubReactor* reactor_;
};

class StubQueuePair final : public QueuePair {
 public:
  StubQueuePair(StubNode& node, StubReactor& reactor, const QueuePairOptions& options)
      : QueuePair(node, reactor, options) {
    reactor.queue_pair = this;
  }
  StubQueuePair(const StubQueuePair&) = delete;
  StubQueuePair& operator=(const StubQueuePair&) = delete;
  ~StubQueuePair() override { disconnect(); }

  bool complete() {
    if (signaled_ == 0) {
      return false;
    }
    const std::uint64_t sequence = signaled_;
    signaled_ = 0;
    on_completed(sequence);
    return true;
  }

 protected:
  void post_chain(std::span<const CheckedRequest> chain, std::uint64_t first) override {
    for (const CheckedRequest& request : chain) {
      execute(*request.posted, request.data, request.length);
      signaled_ = request.signaled ? first : signaled_;
      ++first;
    }
  }
  void cancel_in_flight() noexcept override { signaled_ = 0; }
  Task<void> restore_connection() override { co_return; }

 private:
  static void execute(const WorkRequest& wr, std::byte* local, std::uint32_t length) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a remote address is a pointer here
    auto* remote = reinterpret_cast<std::byte*>(wr.remote.value);
    if (wr.opcode == Opcode::write) {
      std::memcpy(remote, local, length);
    } else if (wr.opcode == Opcode::read) {
      std::memcpy(local, remote, length);
    } else {
      std::uint64_t old = 0;
      std::memcpy(&old, remote, sizeof old);
      const bool swaps = wr.opcode == Opcode::compare_swap;
      const std::uint64_t value = swaps ? (old == wr.compare ? wr.swap_or_add : old) : old + wr.swap_or_add;
      std::memcpy(remote, &value, sizeof value);
      std::memcpy(local, &old, sizeof old);
    }
  }

  std::uint64_t signaled_ = 0;
};

inline bool StubReactor::advance(std::optional<Time> /*limit*/) {
  return queue_pair != nullptr && queue_pair->complete();
}

inline std::unique_ptr<QueuePair> StubNode::connect(Node& /*target*/, const QueuePairOptions& options) {
  return std::make_unique<StubQueuePair>(*this, *reactor_, options);
}

}  // namespace sidelatch::fabric
