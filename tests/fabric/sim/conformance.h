// Replays the simulator's steps in the memory model's own state machine. The rules must enable every micro-step at its
// moment, and both must read the same values.
#pragma once

#include <sidelatch/fabric/model/machine.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::fabric::sim {

class Conformance : public StepObserver {
 public:
  explicit Conformance(const model::Rules& rules) : machine_(rules) {}

  /// Parts of the simulation in use. Shadows start as zeroed copies of the same size.
  void add_target(const Node& node);
  /// `targeted`: if its node is a target, other nodes' requests name the region; otherwise only its own node's do.
  void add_region(const Node& node, const MemoryRegion& region, bool targeted = true);
  void add_queue_pair(const QueuePair& qp, const Node& target);
  /// Both ends of a pair, each with the node to which it sends.
  void add_pair(const QueuePair& here, const Node& there_node, const QueuePair& there, const Node& here_node);

  void on_step(const SimStep& step) override;

  /// The first step that the rules forbid, or a value that differs; empty if there is none.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// Of these: of requests whose queue pair had ended.
  [[nodiscard]] std::uint64_t steps_of_ended() const { return steps_of_ended_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  /// Compares the shadows of target regions with the bytes of the simulation.
  void compare_memory();
  /// The model has no steps left. Requests of a queue pair that has ended are never delivered, so they do have.
  void expect_the_end();

 private:
  struct Shadow {
    const std::byte* original;
    std::unique_ptr<std::byte[]> bytes;
    std::byte* data;
    std::uint64_t length;
    bool target;
  };
  [[nodiscard]] Shadow* shadow_of(const std::byte* data);
  void apply(const SimStep& step, model::StepKind kind);
  void check_value(const SimStep& step);
  void check_message(const SimStep& step);
  void post_receive(const SimStep& step);
  void complain(const SimStep& step, const std::string& what);

  model::Machine machine_;
  std::map<const Node*, std::pair<model::NodeId, model::NicId>> targets_;
  [[nodiscard]] model::QpId queue_pair_of(const SimStep& step) const { return connections_.at(step.connection); }

  std::map<const QueuePair*, model::QpId> queue_pairs_;
  // By the number that a queue pair keeps when it has ended: from then on a step names no queue pair.
  std::map<std::uint64_t, model::QpId> connections_;
  using Sequence = std::uint64_t;
  std::map<std::pair<std::uint64_t, Sequence>, std::uint64_t> results_;  // by connection: words without a buffer
  std::map<const QueuePair*, const QueuePair*> peers_;
  std::map<std::uint32_t, std::deque<LocalSpan>> buffers_;  // by the sender's number in the model: not received yet
  std::vector<Shadow> shadows_;
  std::string complaint_;
  std::uint64_t steps_ = 0;
  std::uint64_t steps_of_ended_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace sidelatch::fabric::sim
