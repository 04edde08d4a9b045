// The Machine step by step: its enabled steps, its refusals, and its explanations.
#include "tests/message_of.h"

#include <sidelatch/fabric/model/machine.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::fabric::model {
namespace {

constexpr RemoteAddress x{0x1000};

class ModelMachine : public ::testing::Test {
 protected:
  ModelMachine() { setup(Preset::observed); }

  void setup(Preset preset) {
    machine = Machine(rules_of(preset));
    node = machine.add_node();
    nic = machine.add_nic(node);
    machine.map(node, x, memory);
    client = machine.add_client();
    qp = machine.add_qp(client, nic);
  }
  WorkRequest request(Opcode opcode, std::uint64_t length, RemoteAddress remote = x) {
    WorkRequest r;
    r.opcode = opcode;
    r.remote = remote;
    if (!is_atomic(opcode)) {
      r.local = {local, length, {}};
    }
    return r;
  }
  std::vector<Step> enabled() {
    std::vector<Step> steps;
    machine.enabled(steps);
    return steps;
  }
  Step step(StepKind kind, WrId wr, std::uint32_t piece = 0) { return {kind, wr.qp.value, wr.index, piece}; }

  alignas(64) std::byte memory[256] = {};
  alignas(64) std::byte local[256] = {};
  Machine machine{Rules{}};
  NodeId node;
  NicId nic;
  ClientId client;
  QpId qp;
};

TEST_F(ModelMachine, StrictDoesARequestInOneStepAndInPostingOrder) {
  setup(Preset::strict);
  const WrId write = machine.post(qp, request(Opcode::write, 192));
  const WrId read = machine.post(qp, request(Opcode::read, 128));
  EXPECT_EQ(enabled(), (std::vector<Step>{step(StepKind::execute, write)}));
  EXPECT_EQ(machine.blocked_by(step(StepKind::execute, read)), Rule::queue_order);
  machine.apply(step(StepKind::execute, write));
  EXPECT_TRUE(machine.completed(write) && machine.placed(write));
  machine.apply(step(StepKind::execute, read));
  EXPECT_TRUE(machine.quiescent());
}

TEST_F(ModelMachine, StepsAreListedByQueuePairAndPostingOrder) {
  const WrId write = machine.post(qp, request(Opcode::write, 128).with_inline());
  const WrId read = machine.post(qp, request(Opcode::read, 128, x + 128));
  EXPECT_EQ(enabled(), (std::vector<Step>{step(StepKind::place, write, 0), step(StepKind::complete, write)}));
  machine.apply(step(StepKind::place, write, 0));
  machine.apply(step(StepKind::place, write, 1));
  EXPECT_EQ(enabled(), (std::vector<Step>{step(StepKind::complete, write), step(StepKind::sample, read, 0),
                                          step(StepKind::sample, read, 1)}));
}

TEST_F(ModelMachine, CompletionsComeInPostingOrder) {
  const WrId first = machine.post(qp, request(Opcode::read, 8));
  const WrId second = machine.post(qp, request(Opcode::read, 8, x + 64));
  machine.apply(step(StepKind::sample, second));
  machine.apply(step(StepKind::deliver, second));
  EXPECT_EQ(machine.blocked_by(step(StepKind::complete, second)), Rule::completion_order);
  EXPECT_EQ(machine.blocked_by(step(StepKind::complete, first)), Rule::micro_steps);
  machine.apply(step(StepKind::sample, first));
  EXPECT_EQ(machine.blocked_by(step(StepKind::complete, first)), Rule::micro_steps);  // not delivered: rule 1
  machine.apply(step(StepKind::deliver, first));
  machine.apply(step(StepKind::complete, first));
  machine.apply(step(StepKind::complete, second));
  EXPECT_TRUE(machine.quiescent());
}

TEST_F(ModelMachine, APlaceNeedsTheFetchesThatCoverIt) {
  WorkRequest skewed = request(Opcode::write, 96);
  skewed.local.data = local + 32;  // pieces [0, 64) and [64, 96), lines [0, 32) and [32, 96) of the payload
  const WrId wr = machine.post(qp, skewed);
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, wr, 0)), Rule::micro_steps);
  machine.apply(step(StepKind::fetch, wr, 0));
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, wr, 0)), Rule::micro_steps);
  EXPECT_EQ(machine.blocked_by(step(StepKind::complete, wr)), Rule::micro_steps);
  machine.apply(step(StepKind::fetch, wr, 1));
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, wr, 1)), Rule::placement_order);
  machine.apply(step(StepKind::place, wr, 0));
  machine.apply(step(StepKind::complete, wr));
  EXPECT_FALSE(machine.quiescent());
  machine.apply(step(StepKind::place, wr, 1));
  EXPECT_TRUE(machine.quiescent());
}

TEST_F(ModelMachine, AZeroLengthWriteCompletesInOrderAndTouchesNothing) {
  const WrId read = machine.post(qp, request(Opcode::read, 8));
  WorkRequest empty;
  empty.opcode = Opcode::write;
  empty.remote = RemoteAddress{0xdead};  // no memory is touched, so none needs to be mapped
  const WrId wr = machine.post(qp, empty);
  EXPECT_EQ(machine.blocked_by(step(StepKind::complete, wr)), Rule::completion_order);
  machine.apply(step(StepKind::sample, read));
  machine.apply(step(StepKind::deliver, read));
  machine.apply(step(StepKind::complete, read));
  EXPECT_EQ(enabled(), (std::vector<Step>{step(StepKind::complete, wr)}));
  machine.apply(step(StepKind::complete, wr));
  EXPECT_TRUE(machine.quiescent());
}

TEST_F(ModelMachine, RevokedRequestsCompleteAsFailedInOrder) {
  const WrId first = machine.post(qp, request(Opcode::write, 128).with_inline());
  const WrId second = machine.post(qp, request(Opcode::fetch_add, 8));
  machine.apply(step(StepKind::place, first, 0));
  machine.revoke(qp);
  const WrId third = machine.post(qp, request(Opcode::read, 8));
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, first, 1)), Rule::revocation);
  EXPECT_EQ(machine.blocked_by(step(StepKind::sample, third)), Rule::micro_steps);
  for (const WrId wr : {first, second, third}) {
    EXPECT_EQ(enabled(), (std::vector<Step>{step(StepKind::complete, wr)}));
    machine.apply(step(StepKind::complete, wr));
    EXPECT_TRUE(machine.completed(wr) && machine.failed(wr) && !machine.placed(wr));
  }
  EXPECT_THROW(static_cast<void>(machine.old_value(second)), std::logic_error);
  EXPECT_EQ(machine.outstanding(client), 0U);
  EXPECT_TRUE(machine.quiescent());
}

TEST_F(ModelMachine, OutstandingRequestsAreCountedPerQueuePairAndClient) {
  const QpId other = machine.add_qp(client, nic);
  static_cast<void>(machine.post(qp, request(Opcode::read, 8)));
  const WrId write = machine.post(other, request(Opcode::write, 8).with_inline());
  EXPECT_EQ(machine.outstanding(qp), 1U);
  EXPECT_EQ(machine.outstanding(client), 2U);
  machine.apply(step(StepKind::complete, write));
  EXPECT_EQ(machine.outstanding(other), 0U);
  EXPECT_EQ(machine.outstanding(client), 1U);
  EXPECT_FALSE(machine.placed(write));
}

TEST_F(ModelMachine, ResetForgetsTheRunAndMayChangeTheRules) {
  const WrId wr = machine.post(qp, request(Opcode::write, 8));
  machine.crash(client);
  machine.revoke(qp);
  machine.reset(rules_of(Preset::strict));
  EXPECT_TRUE(machine.quiescent());
  EXPECT_TRUE(enabled().empty());
  EXPECT_FALSE(machine.crashed(client));
  EXPECT_EQ(machine.post(qp, request(Opcode::write, 8)), wr);
  EXPECT_EQ(enabled(), (std::vector<Step>{step(StepKind::execute, wr)}));
}

TEST_F(ModelMachine, ApplyingAStepThatIsNotEnabledNamesTheStepAndTheRule) {
  const WrId wr = machine.post(qp, request(Opcode::write, 128).with_inline());
  const std::string message = message_of<std::logic_error>([&] { machine.apply(step(StepKind::place, wr, 1)); });
  EXPECT_NE(message.find("place qp0[0] piece 1"), std::string::npos) << message;
  EXPECT_NE(message.find("rule 3"), std::string::npos) << message;
  machine.apply(step(StepKind::place, wr, 0));
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, wr, 0)), Rule::micro_steps);  // once only
  EXPECT_EQ(machine.blocked_by(step(StepKind::place, wr, 2)), Rule::micro_steps);  // no such piece
  EXPECT_EQ(machine.blocked_by({StepKind::place, 9, 0, 0}), Rule::micro_steps);    // no such queue pair
  EXPECT_EQ(machine.blocked_by({StepKind::drain, 0, 0, 0}), Rule::micro_steps);    // no such thread
}

TEST_F(ModelMachine, ABadRequestIsRefusedAtThePostAndLeavesNothingBehind) {
  const std::string unmapped =
      message_of<std::out_of_range>([&] { static_cast<void>(machine.post(qp, request(Opcode::read, 128, x + 192))); });
  EXPECT_NE(unmapped.find("0x10c0"), std::string::npos) << unmapped;
  EXPECT_NE(unmapped.find("128 bytes"), std::string::npos) << unmapped;
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              static_cast<void>(machine.post(qp, request(Opcode::fetch_add, 8, x + 4)));
            }).find("0x1004"),
            std::string::npos);
  EXPECT_THROW(static_cast<void>(machine.post(qp, request(Opcode::fetch_add, 8, RemoteAddress{8}))), std::out_of_range);
  EXPECT_THROW(static_cast<void>(machine.post(qp, request(Opcode::recv, 8))), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(machine.post(qp, request(Opcode::write_with_immediate, 8))), std::invalid_argument);
  WorkRequest null = request(Opcode::read, 8);
  null.local.data = nullptr;
  EXPECT_THROW(static_cast<void>(machine.post(qp, null)), std::invalid_argument);
  WorkRequest wide = request(Opcode::fetch_add, 8);
  wide.local = {local, 16, {}};
  EXPECT_THROW(static_cast<void>(machine.post(qp, wide)), std::invalid_argument);
  machine.crash(client);
  EXPECT_THROW(static_cast<void>(machine.post(qp, request(Opcode::read, 8))), std::logic_error);
  EXPECT_THROW(static_cast<void>(machine.post(QpId{7}, request(Opcode::read, 8))), std::out_of_range);
  EXPECT_TRUE(machine.quiescent());
  EXPECT_EQ(machine.posted(qp), 0U);
}

TEST_F(ModelMachine, RangesOfOneNodeDoNotOverlapAndNoRequestSpansTwo) {
  alignas(64) std::byte more[64] = {};
  EXPECT_THROW(machine.map(node, x + 255, more), std::invalid_argument);
  machine.map(node, x + 256, more);
  EXPECT_THROW(static_cast<void>(machine.post(qp, request(Opcode::read, 8, x + 252))), std::out_of_range);
  EXPECT_NO_THROW(static_cast<void>(machine.post(qp, request(Opcode::read, 8, x + 256))));
  const NodeId second = machine.add_node();
  EXPECT_NO_THROW(machine.map(second, x, more));
}

TEST_F(ModelMachine, NodesKeepTheirMemoriesApart) {
  alignas(64) std::byte more[64] = {};
  const NodeId second = machine.add_node();
  machine.map(second, x, more);
  const QpId there = machine.add_qp(client, machine.add_nic(second));
  local[0] = std::byte{1};
  const WrId wr = machine.post(there, request(Opcode::write, 8).with_inline());
  machine.apply(step(StepKind::place, wr, 0));
  EXPECT_EQ(more[0], std::byte{1});
  EXPECT_EQ(memory[0], std::byte{0});
}

TEST_F(ModelMachine, CpuAccessesAreAlignedWordsOfMappedMemory) {
  const ThreadId thread = machine.add_thread(node);
  EXPECT_THROW(machine.cpu_store(thread, x + 4, 1), std::invalid_argument);
  EXPECT_THROW(machine.cpu_store(thread, x + 256, 1), std::out_of_range);
  EXPECT_THROW(static_cast<void>(machine.cpu_load(thread, x + 256)), std::out_of_range);
  machine.cpu_store(thread, x, 1);
  machine.cpu_store(thread, x + 8, 2);
  EXPECT_FALSE(machine.drained(thread));
  EXPECT_EQ(machine.blocked_by({StepKind::drain, thread.value, 1, 0}), Rule::store_buffer);
  machine.apply({StepKind::drain, thread.value, 0, 0});
  machine.apply({StepKind::drain, thread.value, 1, 0});
  EXPECT_TRUE(machine.drained(thread) && machine.quiescent());
}

}  // namespace
}  // namespace sidelatch::fabric::model
