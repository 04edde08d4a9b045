// SEND: a WRITE to a place that the receiver chooses, and a receive completion that shows earlier WRITEs.
#include "enumerate.h"
#include "names.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace sidelatch::fabric::model::enumeration {
namespace {

const RemoteAddress inbox = Program::line(1);
const RemoteAddress inbox_end = Program::line(2);

TEST(ModelSend, AReceiveCompletionShowsThePayloadAndEarlierWritesToTheCpu) {
  Program p;
  Actor& sender = p.client().write(x, 1).send(7);
  p.cpu().receive(sender, p.bytes(inbox)).await_received(sender).load(inbox).load(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{7, 1}})) << name(preset);
  }
}

TEST(ModelSend, PollingTheBufferShowsEarlierWritesOnlyWhereWritesAreOrdered) {
  Program p;
  Actor& sender = p.client().write(x, 1).send(7);
  p.cpu().receive(sender, p.bytes(inbox)).load(inbox).load(x);
  EXPECT_FALSE(reachable(p, Preset::strict, {7, 0}));
  EXPECT_FALSE(reachable(p, Preset::observed, {7, 0}));
  EXPECT_TRUE(reachable(p, Preset::relaxed, {7, 0}));
}

TEST(ModelSend, TheReceiveBufferFillsInAnyOrderEvenWhereWritesGoUpwards) {
  Program p;
  Actor& sender = p.client().send(7, 9);
  p.cpu().receive(sender, p.bytes(inbox), 9).load(inbox_end).load(inbox);
  EXPECT_FALSE(reachable(p, Preset::strict, {7, 0}));
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0, 0}, {0, 7}, {7, 0}, {7, 7}}));
}

TEST(ModelSend, TheSendersCompletionDoesNotShowThePayload) {
  Program p;
  Actor& receiver = p.cpu();
  Actor& sender = p.client().send(7).wait().signal();
  receiver.receive(sender, p.bytes(inbox)).await(sender).load(inbox);
  EXPECT_EQ(outcomes(p, Preset::strict), (Outcomes{{7}}));
  EXPECT_EQ(outcomes(p, Preset::observed), (Outcomes{{0}, {7}}));
}

TEST(ModelSend, ASendMayOvertakeAReadUnlessItIsFenced) {
  Program plain;
  Actor& eager = plain.client().read(x).send(7);
  plain.cpu().receive(eager, plain.bytes(x));
  Program fenced;
  Actor& careful = fenced.client().read(x).send(7).fenced();
  fenced.cpu().receive(careful, fenced.bytes(x));
  EXPECT_EQ(outcomes(plain, Preset::observed), (Outcomes{{0}, {7}}));
  EXPECT_EQ(outcomes(fenced, Preset::observed), (Outcomes{{0}}));
}

// `receive` is the only step of an empty SEND that the target sees, so the fence holds it back (rule 6).
TEST(ModelSend, AFencedEmptySendIsReceivedAfterTheReadBeforeIt) {
  Program plain;
  Actor& eager = plain.client().read(x).send(0, 0);
  plain.cpu().receive(eager, plain.bytes(inbox)).await_received(eager).store(x, 7);
  Program fenced;
  Actor& careful = fenced.client().read(x).send(0, 0).fenced();
  fenced.cpu().receive(careful, fenced.bytes(inbox)).await_received(careful).store(x, 7);
  EXPECT_EQ(outcomes(plain, Preset::observed), (Outcomes{{0}, {7}}));
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(fenced, preset), (Outcomes{{0}})) << name(preset);
  }
  Rules rules = rules_of(Preset::observed);
  rules.fence_orders_reads = false;
  EXPECT_EQ(outcomes(fenced, rules), (Outcomes{{0}, {7}}));
}

TEST(ModelSend, AFencedEmptySendIsReceivedAfterTheAtomicBeforeIt) {
  Program p;
  Actor& sender = p.client().faa(x, 1).send(0, 0).fenced();
  p.cpu().receive(sender, p.bytes(inbox)).await_received(sender).load(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{0, 1}})) << name(preset);
  }
}

// A RECV is taken behind the stores before it, as any other request: else the store would drain over the message.
TEST(ModelSend, AStoreBeforeTheReceiveBufferDoesNotEraseTheMessage) {
  Program p;
  Actor& sender = p.client().send(7);
  p.cpu().store(inbox, 1).receive(sender, p.bytes(inbox)).await_received(sender).load(inbox);
  p.observe(inbox);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{7, 7}})) << name(preset);
  }
}

TEST(ModelSend, AStoreAfterTheReceiveBufferMayEraseTheMessage) {
  Program p;
  Actor& sender = p.client().send(7);
  p.cpu().receive(sender, p.bytes(inbox)).store(inbox, 1);
  p.observe(inbox);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{1}, {7}})) << name(preset);
  }
}

// Its sender's completion says that the target's NIC has taken the buffer. It says nothing of stores behind the post.
TEST(ModelSend, AnEmptySendCompletesAfterTheStoresBeforeItsReceiveBuffer) {
  Program p;
  Actor& sender = p.client().send(0, 0).wait().signal();
  p.cpu().store(x, 1).receive(sender, p.bytes(inbox));
  p.cpu().await(sender).load(x);
  Program late;
  Actor& other = late.client().send(0, 0).wait().signal();
  late.cpu().receive(other, late.bytes(inbox)).store(x, 1);
  late.cpu().await(other).load(x);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{1}})) << name(preset);
    EXPECT_EQ(outcomes(late, preset), (Outcomes{{0}, {1}})) << name(preset);
  }
}

// Only in the state with the store in the buffer does the SEND wait, so the two are told apart.
TEST(ModelSend, AStateSaysWhichStoresAReceiveBufferWaitsFor) {
  alignas(64) std::byte memory[64] = {};
  const auto state = [&](bool behind) {
    Machine machine(rules_of(Preset::observed));
    const NodeId node = machine.add_node();
    machine.map(node, RemoteAddress{0x1000}, memory);
    const ThreadId thread = machine.add_thread(node);
    const QpId qp = machine.add_qp(machine.add_client(), machine.add_nic(node));
    WorkRequest recv;
    recv.opcode = Opcode::recv;
    if (behind) {
      machine.cpu_store(thread, RemoteAddress{0x1000}, 1);
      machine.post_receive(qp, recv, thread);
    } else {
      machine.post_receive(qp, recv, thread);
      machine.cpu_store(thread, RemoteAddress{0x1000}, 1);
    }
    WorkRequest send;
    send.opcode = Opcode::send;
    static_cast<void>(machine.post(qp, send));
    EXPECT_EQ(machine.blocked_by({StepKind::receive, qp.value, 0, 0}),
              behind ? std::optional(Rule::post_after_stores) : std::nullopt);
    std::vector<std::uint64_t> words;
    machine.append_state(
        std::vector<std::uint32_t>{0}, [](const std::byte* byte) { return byte == nullptr ? 0U : 1U; }, words);
    return words;
  };
  EXPECT_NE(state(true), state(false));
}

TEST(ModelSend, ASendWithoutAReceiveBufferWaitsForOne) {
  Program p;
  p.client().send(7).wait().signal();
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{kDeadlock})) << name(preset);
  }
}

TEST(ModelSend, SendsTakeReceiveBuffersInOrder) {
  Program p;
  Actor& sender = p.client().send(7).send(8);
  p.cpu().receive(sender, p.bytes(inbox)).receive(sender, p.bytes(inbox_end));
  p.observe(inbox);
  p.observe(inbox_end);
  for (const Preset preset : kAll) {
    EXPECT_EQ(outcomes(p, preset), (Outcomes{{7, 8}})) << name(preset);
  }
}

TEST(ModelSend, ReceiveCompletionsComeInPostingOrder) {
  Machine machine(rules_of(Preset::relaxed));
  const NodeId node = machine.add_node();
  const QpId qp = machine.add_qp(machine.add_client(), machine.add_nic(node));
  alignas(64) std::byte bytes[128] = {};
  WorkRequest send;
  send.opcode = Opcode::send;
  send.inlined = true;
  send.local = {bytes, 8, {}};
  WorkRequest recv;
  recv.opcode = Opcode::recv;
  recv.local = {bytes + 64, 8, {}};
  for (int i = 0; i < 2; ++i) {
    machine.post_receive(qp, recv);
    static_cast<void>(machine.post(qp, send));
  }
  machine.apply({StepKind::place, qp.value, 1, 0});  // nothing orders two payloads under relaxed
  EXPECT_EQ(machine.blocked_by({StepKind::receive, qp.value, 1, 0}), Rule::receive);
  machine.apply({StepKind::place, qp.value, 0, 0});
  EXPECT_EQ(machine.blocked_by({StepKind::receive, qp.value, 1, 0}), Rule::receive);
  machine.apply({StepKind::receive, qp.value, 0, 0});
  machine.apply({StepKind::receive, qp.value, 1, 0});
  EXPECT_EQ(machine.received_count(qp), 2U);
}

TEST(ModelSend, ASendLongerThanItsReceiveBufferIsRefusedWhicheverComesLast) {
  Machine machine(rules_of(Preset::observed));
  const NodeId node = machine.add_node();
  const QpId qp = machine.add_qp(machine.add_client(), machine.add_nic(node));
  alignas(64) std::byte bytes[64] = {};
  WorkRequest send;
  send.opcode = Opcode::send;
  send.local = {bytes, 16, {}};
  WorkRequest recv;
  recv.opcode = Opcode::recv;
  recv.local = {bytes + 32, 8, {}};
  machine.post_receive(qp, recv);
  EXPECT_THROW(static_cast<void>(machine.post(qp, send)), std::invalid_argument);
  machine.reset();
  static_cast<void>(machine.post(qp, send));
  EXPECT_THROW(machine.post_receive(qp, recv), std::invalid_argument);
  EXPECT_THROW(machine.post_receive(qp, send), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::fabric::model::enumeration
