#include "conformance.h"

#include <fmt/format.h>

#include <cstring>

namespace sidelatch::fabric::sim {

void Conformance::add_target(const Node& node) {
  const model::NodeId id = machine_.add_node();
  targets_[&node] = {id, machine_.add_nic(id)};
}

void Conformance::add_region(const Node& node, const MemoryRegion& region, bool targeted) {
  Shadow shadow;
  shadow.original = region.bytes().data();
  shadow.length = region.length();
  shadow.bytes = std::make_unique<std::byte[]>(region.length() + kLineBytes);
  // Same alignment to lines as the original: regions are page-aligned.
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(shadow.bytes.get()) % kLineBytes;
  shadow.data = shadow.bytes.get() + (misaligned == 0 ? 0 : kLineBytes - misaligned);
  const auto target = targets_.find(&node);
  shadow.target = targeted && target != targets_.end();
  if (shadow.target) {
    machine_.map(target->second.first, region.remote().address, {shadow.data, shadow.length});
  }
  shadows_.push_back(std::move(shadow));
}

void Conformance::add_queue_pair(const QueuePair& qp, const Node& target) {
  queue_pairs_[&qp] = machine_.add_qp(machine_.add_client(), targets_.at(&target).second);
}

void Conformance::add_pair(const QueuePair& here, const Node& there_node, const QueuePair& there,
                           const Node& here_node) {
  add_queue_pair(here, there_node);
  add_queue_pair(there, here_node);
  peers_[&here] = &there;
  peers_[&there] = &here;
}

Conformance::Shadow* Conformance::shadow_of(const std::byte* data) {
  for (Shadow& shadow : shadows_) {
    if (data >= shadow.original && data < shadow.original + shadow.length) {
      return &shadow;
    }
  }
  return nullptr;
}

void Conformance::complain(const SimStep& step, const std::string& what) {
  if (complaint_.empty()) {
    complaint_ =
        fmt::format("at {} ps, {} number {}, step kind {} piece {}: {}", step.time.count(),
                    fabric::name(step.request->opcode), step.sequence, static_cast<int>(step.kind), step.piece, what);
  }
}

void Conformance::apply(const SimStep& step, model::StepKind kind) {
  const model::QpId qp = queue_pair_of(step);
  const model::Step name{kind, qp.value, static_cast<std::uint32_t>(step.sequence - 1),
                         static_cast<std::uint32_t>(step.piece)};
  if (const auto rule = machine_.blocked_by(name)) {
    complain(step, fmt::format("{} is forbidden: {}", model::to_string(name), model::describe(*rule)));
    return;
  }
  machine_.apply(name);
}

void Conformance::on_step(const SimStep& step) {
  ++steps_;
  steps_of_ended_ += step.queue_pair == nullptr ? 1 : 0;
  if (!complaint_.empty()) {
    return;
  }
  switch (step.kind) {
    case SimStep::Kind::post: {
      connections_.insert_or_assign(step.connection, queue_pairs_.at(step.queue_pair));
      WorkRequest request = *step.request;
      if (Shadow* shadow = shadow_of(request.local.data)) {
        std::byte* copy = shadow->data + (request.local.data - shadow->original);
        if (is_write(request.opcode) || is_send(request.opcode)) {
          std::memcpy(copy, request.local.data, request.length());
        }
        request.local.data = copy;
      } else if (is_atomic(request.opcode)) {
        std::uint64_t& word = results_[{step.connection, step.sequence}];
        request.local.data = reinterpret_cast<std::byte*>(&word);
      }
      machine_.post(queue_pair_of(step), request);
      return;
    }
    case SimStep::Kind::fetch:
      return apply(step, model::StepKind::fetch);
    case SimStep::Kind::place:
      return apply(step, model::StepKind::place);
    case SimStep::Kind::sample:
      return apply(step, model::StepKind::sample);
    case SimStep::Kind::load:
      return apply(step, model::StepKind::load);
    case SimStep::Kind::store:
      return apply(step, model::StepKind::store);
    case SimStep::Kind::load_store:
      return apply(step, model::StepKind::load_store);
    case SimStep::Kind::execute:
      return apply(step, model::StepKind::execute);
    case SimStep::Kind::deliver:
      if (!machine_.rules().one_step_requests) {  // otherwise part of execute
        apply(step, model::StepKind::deliver);
      }
      return check_value(step);
    case SimStep::Kind::complete:
      if (!machine_.rules().one_step_requests) {
        apply(step, model::StepKind::complete);
      }
      return;
    case SimStep::Kind::receive:
      if (!machine_.rules().one_step_requests) {
        apply(step, model::StepKind::receive);
      }
      return check_message(step);
    case SimStep::Kind::post_receive:
      return post_receive(step);
  }
}

// The bytes that the simulator delivers into a local buffer must equal the model's.
void Conformance::check_value(const SimStep& step) {
  const std::byte* real = step.request->local.data;
  const std::byte* modelled = nullptr;
  if (Shadow* shadow = shadow_of(real)) {
    modelled = shadow->data + (real - shadow->original);
  } else {
    modelled = reinterpret_cast<const std::byte*>(&results_[{step.connection, step.sequence}]);
  }
  if (complaint_.empty() && std::memcmp(real, modelled, step.request->length()) != 0) {
    complain(step, "the simulator delivered other bytes than the model");
  }
}

// The model's queue pairs are one-way: a receive buffer belongs to the sender's.
void Conformance::post_receive(const SimStep& step) {
  const model::QpId sender = queue_pairs_.at(peers_.at(step.queue_pair));
  buffers_[sender.value].push_back(step.request->local);
  WorkRequest request = *step.request;
  const Shadow& shadow = *shadow_of(request.local.data);
  request.local.data = shadow.data + (request.local.data - shadow.original);
  machine_.post_receive(sender, request);
}

// The simulator's receive buffer, when shown to the CPU, must equal the model's.
void Conformance::check_message(const SimStep& step) {
  ++received_;
  std::deque<LocalSpan>& buffers = buffers_.at(queue_pair_of(step).value);
  const LocalSpan buffer = buffers.front();
  buffers.pop_front();
  const Shadow& shadow = *shadow_of(buffer.data);
  if (complaint_.empty() &&
      std::memcmp(buffer.data, shadow.data + (buffer.data - shadow.original), step.request->length()) != 0) {
    complain(step, "the simulator received other bytes than the model");
  }
}

void Conformance::compare_memory() {
  for (const Shadow& shadow : shadows_) {
    if (complaint_.empty() && shadow.target && std::memcmp(shadow.original, shadow.data, shadow.length) != 0) {
      complaint_ = "the target's memory differs from the model's";
    }
  }
}

void Conformance::expect_the_end() {
  if (complaint_.empty() && !machine_.quiescent()) {
    complaint_ = "the simulation is over, but the model has steps left";
  }
}

}  // namespace sidelatch::fabric::sim
