#include "model_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sidelatch::softnic::nic {

ModelJudge::ModelJudge(const fabric::model::Rules& rules, std::span<const std::byte> memory, std::uint16_t queue_pairs)
    : machine_(rules), memory_(memory), shadow_(memory.size()), queues_(queue_pairs) {
  const fabric::model::NodeId node = machine_.add_node();
  const fabric::model::NicId nic = machine_.add_nic(node);
  machine_.map(node, {reinterpret_cast<std::uintptr_t>(memory.data())}, shadow_);
  for (std::uint16_t i = 0; i < queue_pairs; ++i) {
    static_cast<void>(machine_.add_qp(machine_.add_client(), nic));
  }
}

void ModelJudge::complain(std::string what) {
  if (complaint_.empty()) {
    complaint_ = std::move(what);
  }
}

std::uint64_t ModelJudge::post(std::uint32_t queue_pair, const fabric::WorkRequest& request) {
  Queue& queue = queues_.at(queue_pair);
  Request& own = queue.requests.emplace_back();
  own.request = request;
  own.start = request.remote.value;
  own.target = memory_.data() + (request.remote.value - reinterpret_cast<std::uintptr_t>(memory_.data()));
  if (request.opcode == fabric::Opcode::send) {
    own.start = 0;
    own.target = queue.receives.front().data();
    queue.receives.pop_front();
  }
  if (!is_atomic(request.opcode)) {
    own.local.assign(request.local.data, request.local.data + request.local.length);
    own.request.local.data = own.local.data();
    own.request.inlined = request.opcode != fabric::Opcode::read;
  }
  static_cast<void>(machine_.post({static_cast<std::uint16_t>(queue_pair)}, own.request));
  return queue.requests.size();
}

void ModelJudge::post_receive(std::uint32_t queue_pair, std::span<const std::byte> buffer) {
  Queue& queue = queues_.at(queue_pair);
  queue.receives.push_back(buffer);
  auto& shadow = queue.buffers.emplace_back(buffer, std::vector<std::byte>(buffer.size())).second;
  fabric::WorkRequest request;
  request.opcode = fabric::Opcode::recv;
  request.local = {shadow.data(), shadow.size(), {}};
  machine_.post_receive({static_cast<std::uint16_t>(queue_pair)}, request);
}

void ModelJudge::apply(fabric::model::StepKind kind, std::uint32_t queue_pair, std::size_t index, std::uint64_t piece) {
  const fabric::model::Step step{kind, static_cast<std::uint16_t>(queue_pair), static_cast<std::uint32_t>(index),
                                 static_cast<std::uint32_t>(piece)};
  if (!complaint_.empty()) {
    return;
  }
  if (const auto rule = machine_.blocked_by(step)) {
    broken_ = rule;
    complain(fmt::format("{} is forbidden: {}", fabric::model::to_string(step), fabric::model::describe(*rule)));
    return;
  }
  if (const auto rule = machine_.permitted_by(step)) {
    ++permitted_[*rule];
  }
  machine_.apply(step);
  if (kind != fabric::model::StepKind::deliver && kind != fabric::model::StepKind::complete &&
      kind != fabric::model::StepKind::receive) {
    steps_.push_back(step);
  }
}

// Under strict the pieces of a request follow each other without interruption.
void ModelJudge::execute(const DeferredStep& step) {
  const auto index = static_cast<std::size_t>(step.source.message - 1);
  const Request& own = queues_.at(step.source.queue_pair).requests.at(index);
  const fabric::model::WrId wr{{static_cast<std::uint16_t>(step.source.queue_pair)}, static_cast<std::uint32_t>(index)};
  if (!executing_) {
    apply(fabric::model::StepKind::execute, step.source.queue_pair, index);
    executing_ = wr;
    pieces_left_ = step.kind == DeferredStep::Kind::load_store
                       ? 1
                       : fabric::model::piece_count(own.start, own.request.local.length, machine_.rules().atom);
  } else if (*executing_ != wr) {
    complain("a step of one request came between two of another, which is to be one step");
  }
  if (--pieces_left_ == 0) {
    executing_.reset();
  }
}

void ModelJudge::on_step(const DeferredStep& step) {
  using Kind = DeferredStep::Kind;
  if (!complaint_.empty()) {
    return;
  }
  const auto index = static_cast<std::size_t>(step.source.message - 1);
  const std::uint32_t queue_pair = step.source.queue_pair;
  const Request& own = queues_.at(queue_pair).requests.at(index);
  if (is_one_step()) {
    if (step.kind != Kind::receive) {
      execute(step);
    } else if (!machine_.received({{static_cast<std::uint16_t>(queue_pair)}, static_cast<std::uint32_t>(index)})) {
      complain("a SEND was received before it was executed");
    }
    return;
  }
  const auto piece = [&] {
    return fabric::model::piece_index(own.start, static_cast<std::uint64_t>(step.memory - own.target),
                                      machine_.rules().atom);
  };
  switch (step.kind) {
    case Kind::place:
      return apply(fabric::model::StepKind::place, queue_pair, index, piece());
    case Kind::sample:
      return apply(fabric::model::StepKind::sample, queue_pair, index, piece());
    case Kind::load:
      return apply(fabric::model::StepKind::load, queue_pair, index);
    case Kind::store:
      return apply(fabric::model::StepKind::store, queue_pair, index);
    case Kind::load_store:
      return apply(fabric::model::StepKind::load_store, queue_pair, index);
    case Kind::receive:
      return apply(fabric::model::StepKind::receive, queue_pair, index);
  }
}

void ModelJudge::complete(std::uint32_t queue_pair) {
  Queue& queue = queues_.at(queue_pair);
  const std::size_t index = queue.completed++;
  const fabric::model::WrId wr{{static_cast<std::uint16_t>(queue_pair)}, static_cast<std::uint32_t>(index)};
  if (is_one_step()) {
    if (complaint_.empty() && !machine_.completed(wr)) {
      complain("a request was answered before it was executed");
    }
    return;
  }
  if (queue.requests.at(index).request.opcode == fabric::Opcode::read) {
    apply(fabric::model::StepKind::deliver, queue_pair, index);
  }
  apply(fabric::model::StepKind::complete, queue_pair, index);
}

std::span<const std::byte> ModelJudge::delivered(std::uint32_t queue_pair, std::uint64_t message) const {
  return queues_.at(queue_pair).requests.at(static_cast<std::size_t>(message - 1)).local;
}

std::uint64_t ModelJudge::old_value(std::uint32_t queue_pair, std::uint64_t message) const {
  return machine_.old_value({{static_cast<std::uint16_t>(queue_pair)}, static_cast<std::uint32_t>(message - 1)});
}

void ModelJudge::finish() {
  if (!machine_.quiescent()) {
    complain("the model has steps left");
  }
  if (!std::ranges::equal(memory_, shadow_)) {
    complain("memory differs from the model's");
  }
  for (const Queue& queue : queues_) {
    for (const auto& [real, shadow] : queue.buffers) {
      if (!std::ranges::equal(real, shadow)) {
        complain("a receive buffer differs from the model's");
      }
    }
  }
}

}  // namespace sidelatch::softnic::nic
