// ModelJudge: replays a DeferredAccess's steps in the memory model's own state machine. The rules must enable every
// step at its moment, and both must read the same values.
//
//   ModelJudge judge(rules, memory, 2);
//   access.observe(&judge);
//   judge.post(0, request);                              // its first packet arrives; messages count from 1
//   access.place({0, 1, fabric::model::Kind::write, key}, ...);
//   judge.complete(0);                                   // the oldest request has been answered
//
// The model binds a WRITE's bytes at the post, because its packets carry them; it has no fetches of its own.
#pragma once

#include "softnic/nic/deferred_access.h"

#include <sidelatch/fabric/model/machine.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::softnic::nic {

class ModelJudge final : public DeferredObserver {
 public:
  /// `memory` is the zeroed target of requests. Queue pairs have the numbers 0 to `queue_pairs` - 1.
  ModelJudge(const fabric::model::Rules& rules, std::span<const std::byte> memory, std::uint16_t queue_pairs);

  /// `request` names real memory, which is its payload if it is a WRITE or SEND. Returns its message number.
  std::uint64_t post(std::uint32_t queue_pair, const fabric::WorkRequest& request);
  /// For the SEND that the queue pair posts next.
  void post_receive(std::uint32_t queue_pair, std::span<const std::byte> buffer);
  void complete(std::uint32_t queue_pair);
  void on_step(const DeferredStep& step) override;

  /// Checks at the end that the model has no steps left and that memory holds the same.
  void finish();

  /// The first step that the rules forbid, or value that differs; empty if there is none.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  /// The rule that forbids that step.
  [[nodiscard]] std::optional<fabric::model::Rule> broken() const { return broken_; }
  /// The number of steps outside the order that naive designs assume, by the rule that permits them.
  [[nodiscard]] const std::map<fabric::model::Rule, std::uint64_t>& permitted() const { return permitted_; }
  /// Steps at the target, in their order.
  [[nodiscard]] const std::vector<fabric::model::Step>& steps() const { return steps_; }
  [[nodiscard]] std::span<const std::byte> delivered(std::uint32_t queue_pair, std::uint64_t message) const;
  [[nodiscard]] std::uint64_t old_value(std::uint32_t queue_pair, std::uint64_t message) const;

 private:
  struct Request {
    fabric::WorkRequest request;
    std::uint64_t start = 0;  // pieces are cut from here on
    const std::byte* target = nullptr;
    std::vector<std::byte> local;
  };
  struct Queue {
    std::deque<Request> requests;
    std::size_t completed = 0;
    std::deque<std::span<const std::byte>> receives;  // not taken by a SEND
    std::deque<std::pair<std::span<const std::byte>, std::vector<std::byte>>> buffers;
  };
  [[nodiscard]] bool is_one_step() const { return machine_.rules().one_step_requests; }
  void apply(fabric::model::StepKind kind, std::uint32_t queue_pair, std::size_t index, std::uint64_t piece = 0);
  void execute(const DeferredStep& step);
  void complain(std::string what);

  fabric::model::Machine machine_;
  std::span<const std::byte> memory_;
  std::vector<std::byte> shadow_;
  std::deque<Queue> queues_;
  std::optional<fabric::model::WrId> executing_;  // strict: pieces of it are to come
  std::uint64_t pieces_left_ = 0;
  std::string complaint_;
  std::optional<fabric::model::Rule> broken_;
  std::map<fabric::model::Rule, std::uint64_t> permitted_;
  std::vector<fabric::model::Step> steps_;
};

}  // namespace sidelatch::softnic::nic
