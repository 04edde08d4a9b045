// Failures that a NIC and its driver may report while requests are in flight, produced on demand by a stub provider.
#include "fabric/verbs/node.h"
#include "stub_provider.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ProviderFailures : public ::testing::Test {
 protected:
  explicit ProviderFailures(const StubDevice& device = {}, const ConnectionOptions& connections = {})
      : fabric((stub_device() = device, std::make_unique<VerbsFabric>(DeviceOptions{}, connections))) {}

  struct Outcome {
    std::optional<Status> status;  // none: executed
    std::string message;
    bool ended = false;
  };

  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, table.bytes().data() + offset, sizeof value);
    return value;
  }
  // The request that adds 1 at this offset.
  [[nodiscard]] WorkRequest add(std::uint64_t offset) const { return fetch_add(table.remote(offset, 8), 1); }

  template <class... Requests>
  Outcome submit(const Requests&... requests) {
    Outcome outcome;
    fabric->reactor().run(submitting(qp.get(), &outcome, requests...));
    return outcome;
  }
  template <class... Requests>
  static Task<void> submitting(QueuePair* one, Outcome* outcome, Requests... requests) {
    try {
      co_await one->submit(requests...);
    } catch (const FabricError& error) {
      outcome->status = error.status();
      outcome->message = error.what();
    }
    outcome->ended = true;
  }
  static Task<void> reaching(QueuePair* one, Outcome* outcome, std::uint64_t sequence) {
    try {
      co_await one->reach(sequence);
    } catch (const FabricError& error) {
      outcome->status = error.status();
    }
    outcome->ended = true;
  }
  // Polls for longer than an ImpatientProviderFailures waits.
  static Task<void> sleeping(Reactor* reactor) { co_await reactor->sleep(std::chrono::milliseconds(4500)); }
  void expect_recovers() {
    EXPECT_EQ(qp->state(), QueuePair::State::error);
    fabric->reactor().run(qp->reconnect());
    EXPECT_EQ(qp->state(), QueuePair::State::ready);
    const std::uint64_t before = word(512);
    EXPECT_EQ(submit(add(512)).status, std::nullopt);
    EXPECT_EQ(word(512), before + 1);
  }
  // The `n`th request from now on.
  static std::uint64_t in(std::uint64_t n) { return stub_device().requests + n; }

  std::unique_ptr<VerbsFabric> fabric;
  Node& storage = fabric->add_node("storage");
  Node& client = fabric->add_node("client");
  MemoryRegion table = storage.allocate(4096, Access::remote_all);
  MemoryRegion buffer = client.allocate(4096, Access::local_write);
  std::unique_ptr<QueuePair> qp = client.connect(storage);
};

TEST_F(ProviderFailures, NoneIsReportedWithoutCause) {
  buffer.bytes()[0] = std::byte{7};
  EXPECT_EQ(
      submit(write(buffer.local(0, 8), table.remote(64, 8)), read(buffer.local(8, 8), table.remote(64, 8))).status,
      std::nullopt);
  EXPECT_EQ(word(64), 7U);
  EXPECT_EQ(buffer.bytes()[8], std::byte{7});
}

// ibv_poll_cq(3), and the InfiniBand specification, 11.6.2, define the names. Local: the request itself was wrong.
// Remote: the target refused. All others are the device's.
TEST_F(ProviderFailures, EveryCompletionStatusHasItsMeaning) {
  struct Case {
    ibv_wc_status reported;
    Status expected;
  };
  constexpr std::array kCases = {
      Case{IBV_WC_LOC_LEN_ERR, Status::local_operation},
      Case{IBV_WC_LOC_QP_OP_ERR, Status::local_operation},
      Case{IBV_WC_LOC_EEC_OP_ERR, Status::local_operation},
      Case{IBV_WC_LOC_PROT_ERR, Status::local_protection},
      Case{IBV_WC_WR_FLUSH_ERR, Status::flushed},
      Case{IBV_WC_MW_BIND_ERR, Status::local_operation},
      Case{IBV_WC_BAD_RESP_ERR, Status::remote_invalid_request},
      Case{IBV_WC_LOC_ACCESS_ERR, Status::local_protection},
      Case{IBV_WC_REM_INV_REQ_ERR, Status::remote_invalid_request},
      Case{IBV_WC_REM_ACCESS_ERR, Status::remote_access},
      Case{IBV_WC_REM_OP_ERR, Status::remote_invalid_request},
      Case{IBV_WC_RETRY_EXC_ERR, Status::retry_exceeded},
      Case{IBV_WC_RNR_RETRY_EXC_ERR, Status::rnr_retry_exceeded},
      Case{IBV_WC_LOC_RDD_VIOL_ERR, Status::local_operation},
      Case{IBV_WC_REM_INV_RD_REQ_ERR, Status::remote_invalid_request},
      Case{IBV_WC_REM_ABORT_ERR, Status::remote_invalid_request},
      Case{IBV_WC_INV_EECN_ERR, Status::device_failure},
      Case{IBV_WC_INV_EEC_STATE_ERR, Status::device_failure},
      Case{IBV_WC_FATAL_ERR, Status::device_failure},
      Case{IBV_WC_RESP_TIMEOUT_ERR, Status::retry_exceeded},
      Case{IBV_WC_GENERAL_ERR, Status::device_failure},
      Case{IBV_WC_TM_ERR, Status::device_failure},
      Case{IBV_WC_TM_RNDV_INCOMPLETE, Status::device_failure},
  };
  static_assert(kCases.size() == IBV_WC_TM_RNDV_INCOMPLETE, "all but IBV_WC_SUCCESS");
  for (const Case& one : kCases) {
    SCOPED_TRACE(ibv_wc_status_str(one.reported));
    stub_device().failing_request = in(1);
    stub_device().failure = one.reported;
    const Outcome outcome = submit(add(0));
    EXPECT_EQ(outcome.status, one.expected);
    EXPECT_THAT(outcome.message, HasSubstr(ibv_wc_status_str(one.reported)));
    EXPECT_THAT(outcome.message, HasSubstr("stub0"));
    EXPECT_THAT(outcome.message, HasSubstr(std::string(advice(one.expected))));
    EXPECT_THAT(outcome.message, HasSubstr("FETCH-ADD"));
    expect_recovers();
  }
  EXPECT_EQ(word(0), 0U);
}

TEST_F(ProviderFailures, AFailureInAChainIsTheChains) {
  stub_device().failing_request = in(2);
  stub_device().failure = IBV_WC_REM_ACCESS_ERR;
  EXPECT_EQ(submit(add(0), read(buffer.local(0, 8), table.remote(0, 8)), add(8)).status, Status::remote_access);
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(word(8), 0U);
  expect_recovers();
}

TEST_F(ProviderFailures, WhatTheDriverRefusesInAChainIsTheChainsError) {
  stub_device().refused_request = in(2);
  stub_device().refusal = ENOMEM;
  const Outcome outcome = submit(add(0), read(buffer.local(0, 8), table.remote(0, 8)), add(8));
  EXPECT_EQ(outcome.status, Status::local_operation);
  EXPECT_THAT(outcome.message, HasSubstr("READ"));
  EXPECT_THAT(outcome.message, HasSubstr("stub0"));
  EXPECT_THAT(outcome.message, HasSubstr(std::strerror(ENOMEM)));
  EXPECT_EQ(word(8), 0U);
  expect_recovers();
}

// Requests posted before a refusal may or may not have been executed, unless they have completed.
TEST_F(ProviderFailures, ARefusalDoesNotMakeEarlierRequestsDone) {
  Outcome earlier;
  Outcome reached;
  Outcome refused;
  Outcome later;
  EXPECT_TRUE(qp->post(std::array{add(0)}));  // not signalled
  stub_device().refused_request = in(1);
  stub_device().refusal = EINVAL;
  fabric->reactor().spawn(submitting(qp.get(), &refused, add(8)));
  fabric->reactor().spawn(reaching(qp.get(), &reached, 1));
  fabric->reactor().spawn(submitting(qp.get(), &later, add(16)));
  fabric->reactor().run();
  EXPECT_EQ(refused.status, Status::local_operation);
  EXPECT_EQ(reached.status, Status::flushed);
  EXPECT_EQ(later.status, Status::flushed);
  EXPECT_EQ(word(8), 0U);
  EXPECT_EQ(word(16), 0U) << "it has overtaken what was refused";
  expect_recovers();
  stub_device().refused_request = in(2);
  fabric->reactor().spawn(submitting(qp.get(), &earlier, add(24)));
  fabric->reactor().spawn(submitting(qp.get(), &refused, add(32)));
  fabric->reactor().run();
  EXPECT_EQ(earlier.status, std::nullopt) << "it has completed";
  EXPECT_EQ(refused.status, Status::local_operation);
  expect_recovers();
}

TEST_F(ProviderFailures, ACompletionQueueThatCannotBePolledIsADeviceError) {
  stub_device().poll_fails = true;
  Outcome outcome;
  EXPECT_THROW(fabric->reactor().run(submitting(qp.get(), &outcome, add(0))), DeviceError);
  EXPECT_FALSE(outcome.ended);
}

TEST_F(ProviderFailures, ADeviceThatIsLostIsADeviceErrorAndNotAHang) {
  stub_device().most_reported = 0;
  stub_device().raise(IBV_EVENT_DEVICE_FATAL);
  Outcome outcome;
  try {
    fabric->reactor().run(submitting(qp.get(), &outcome, add(0)));
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("stub0"));
    EXPECT_THAT(error.what(), HasSubstr(ibv_event_type_str(IBV_EVENT_DEVICE_FATAL)));
  }
  EXPECT_EQ(stub_device().events_acknowledged, 1U);
}

// A queue pair with an unacknowledged event cannot be destroyed. Its requests fail by themselves.
TEST_F(ProviderFailures, EventsOfOneQueuePairAreAcknowledgedAndEndNothingElse) {
  stub_device().most_reported = 0;
  stub_device().raise(IBV_EVENT_QP_FATAL);
  stub_device().raise(IBV_EVENT_PORT_ERR);
  Outcome outcome;
  fabric->reactor().spawn(submitting(qp.get(), &outcome, add(0)));
  fabric->reactor().run_for(std::chrono::milliseconds(20));
  while (stub_device().events_acknowledged < 2) {
    fabric->reactor().run_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(outcome.ended);
  stub_device().most_reported = StubDevice::kAll;
  fabric->reactor().run();
  EXPECT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.status, std::nullopt);
}

class ImpatientProviderFailures : public ProviderFailures {
 protected:
  ImpatientProviderFailures() : ProviderFailures({}, {.timeout = 1, .retry_count = 0}) {}
};

TEST_F(ImpatientProviderFailures, ARequestThatIsLostIsAnErrorAndNotAHang) {
  stub_device().lost_request = in(2);
  const Outcome outcome = submit(add(0), add(8));
  EXPECT_EQ(outcome.status, Status::device_failure);
  EXPECT_THAT(outcome.message, AllOf(HasSubstr("stub0"), HasSubstr("has not completed it for 4 s, longer than")));
  EXPECT_EQ(word(8), 0U);
  expect_recovers();
}

// Nobody learns of their completion.
TEST_F(ImpatientProviderFailures, RequestsWithoutASignalAreNotLost) {
  const WorkRequest request = add(0);
  ASSERT_TRUE(qp->post({&request, 1}));
  fabric->reactor().spawn(sleeping(&fabric->reactor()));
  fabric->reactor().run();
  EXPECT_EQ(qp->state(), QueuePair::State::ready);
  EXPECT_EQ(qp->outstanding(), 1U);
}

// With some providers they stay in the completion queue and look like those of the next requests.
TEST_F(ProviderFailures, CompletionsOfAnEarlierConnectionAreNobodys) {
  stub_device().most_polled = 1;
  stub_device().failing_request = in(1);
  stub_device().failure = IBV_WC_REM_ACCESS_ERR;
  std::array<Outcome, 4> outcomes;
  for (Outcome& outcome : outcomes) {
    fabric->reactor().spawn(submitting(qp.get(), &outcome, add(0)));
  }
  fabric->reactor().run();
  EXPECT_EQ(outcomes[0].status, Status::remote_access);
  EXPECT_EQ(outcomes[3].status, Status::flushed);
  fabric->reactor().run(qp->reconnect());
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(submit(add(8)).status, std::nullopt);
    EXPECT_EQ(word(8), i + 1);
  }
  EXPECT_EQ(word(0), 0U);
}

TEST_F(ProviderFailures, CompletionsOfADestroyedQueuePairAreNotThoseOfTheNextInItsPlace) {
  stub_device().most_reported = 0;
  Outcome lost;
  fabric->reactor().spawn(submitting(qp.get(), &lost, add(0)));
  fabric->reactor().run_for(std::chrono::milliseconds(1));
  qp.reset();
  qp = client.connect(storage);
  Outcome outcome;
  stub_device().most_polled = 1;
  stub_device().failing_request = in(1);
  stub_device().failure = IBV_WC_RETRY_EXC_ERR;
  fabric->reactor().spawn(submitting(qp.get(), &outcome, add(8)));
  stub_device().most_reported = StubDevice::kAll;
  fabric->reactor().run();
  EXPECT_EQ(lost.status, Status::disconnected);
  EXPECT_EQ(outcome.status, Status::retry_exceeded)
      << "the completion of another queue pair's request was taken for it";
}

// The stub, as soft-RoCE, keeps what a queue pair leaves there, and ends the process if the queue overruns.
TEST_F(ProviderFailures, QueuePairsThatEndBeforeAnybodyPollsDoNotOverrunTheCompletionQueue) {
  const std::vector<WorkRequest> chain(64, add(0).with_signal());
  constexpr std::uint64_t kQueuePairs = 300;  // the queue has room for the completions of 128
  Outcome outcome;
  fabric->reactor().spawn(submitting(qp.get(), &outcome, add(8)));
  for (std::uint64_t i = 0; i < kQueuePairs; ++i) {
    const std::unique_ptr<QueuePair> one = client.connect(storage);
    EXPECT_TRUE(one->post(chain));
  }
  fabric->reactor().run();
  EXPECT_EQ(word(0), kQueuePairs * 64);
  EXPECT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.status, std::nullopt);
}

// Until then the NIC lets other nodes reach it.
TEST_F(ProviderFailures, ARegionThatEndsInUseIsGivenBackOnceItsRequestsAreDone) {
  for (const bool fails : {false, true}) {
    MemoryRegion region = client.allocate(4096, Access::remote_all);
    const std::uint64_t ended = stub_device().regions_ended;
    stub_device().most_reported = 0;
    stub_device().failing_request = fails ? in(1) : 0;
    Outcome outcome;
    fabric->reactor().spawn(submitting(qp.get(), &outcome, write(region.local(0, 8), table.remote(0, 8))));
    fabric->reactor().run_for(std::chrono::milliseconds(1));
    region = MemoryRegion();
    EXPECT_EQ(stub_device().regions_ended, ended) << "the NIC may still read it";
    stub_device().most_reported = StubDevice::kAll;
    fabric->reactor().run();
    EXPECT_EQ(outcome.status.has_value(), fails);
    EXPECT_EQ(stub_device().regions_ended, ended + 1) << (fails ? "failed" : "completed");
  }
}

TEST_F(ProviderFailures, ARegionThatEndsInUseIsGivenBackWithItsQueuePair) {
  MemoryRegion region = client.allocate(4096, Access::remote_all);
  const std::array chain = {write(region.local(0, 8), table.remote(0, 8))};
  ASSERT_TRUE(qp->post(chain));
  const std::uint64_t ended = stub_device().regions_ended;
  region = MemoryRegion();
  EXPECT_EQ(stub_device().regions_ended, ended);
  qp.reset();
  EXPECT_EQ(stub_device().regions_ended, ended + 2) << "it, and that of the queue pair's results";
}

// Lent memory is given back: a NIC that still has it would write into memory of others.
TEST(LentMemoryDeathTest, ThatTheNicDoesNotEndEndsTheProcess) {
  stub_device() = StubDevice();
  VerbsFabric fabric;
  auto& node = dynamic_cast<VerbsNode&>(fabric.add_node("storage"));
  auto lent = std::make_unique<VerbsNode::Lent>(node, 4096, Access::remote_all);
  const auto end = [&] {
    stub_device().deregistration_error = EBUSY;
    lent.reset();
  };
  EXPECT_DEATH(end(), "the NIC does not end a region");
}

// The flush of an end's receives may be seen before the failure that has caused it. It does not look as if the other
// end had ended.
TEST_F(ProviderFailures, AFailureOfAPairIsTheCauseAlsoIfItsReceivesAreSeenFirst) {
  auto [here, there] = client.connect_pair(storage);
  const auto receiving = [](QueuePair* end, Outcome* outcome) -> Task<void> {
    try {
      static_cast<void>(co_await end->receive());
    } catch (const FabricError& error) {
      outcome->status = error.status();
    }
    outcome->ended = true;
  };
  ASSERT_TRUE(here->post_receive(buffer.local(0, 64)));
  Outcome at_here;
  Outcome at_there;
  Outcome request;
  fabric->reactor().spawn(receiving(here.get(), &at_here));
  fabric->reactor().spawn(receiving(there.get(), &at_there));
  stub_device().failing_request = in(1);
  stub_device().failure = IBV_WC_REM_ACCESS_ERR;
  stub_device().failure_is_late = true;
  fabric->reactor().spawn(submitting(here.get(), &request, add(0)));
  fabric->reactor().run();
  EXPECT_EQ(request.status, Status::remote_access);
  EXPECT_EQ(at_here.status, Status::flushed);
  EXPECT_EQ(at_there.status, Status::disconnected);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
