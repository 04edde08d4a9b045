// Requests and options that are refused, and what the message says. Local mistakes are found before anything is posted;
// the target's are completions with an error.
#include "queue_pair_tasks.h"
#include "two_nodes.h"

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Task<> submit_chain(QueuePair& qp, std::span<const WorkRequest> chain, std::span<std::uint64_t> olds) {
  co_await qp.submit(chain, olds);
}

class QueuePairChecks : public ::testing::Test {
 protected:
  // The error of a request refused at its post, by submit() and post() alike; nothing is posted.
  std::string refused_here(const WorkRequest& request, Status status) {
    const FabricError error = world_.error_of(submit(*world_.qp, request));
    EXPECT_EQ(error.status(), status);
    EXPECT_THROW((void)world_.qp->post({&request, 1}), FabricError);
    EXPECT_EQ(world_.qp->posted(), 0U);
    EXPECT_EQ(world_.qp->state(), QueuePair::State::ready);
    world_.run(submit(*world_.qp, fetch_add(world_.word(0), 1)));  // unharmed
    return error.what();
  }
  // The error of a request that the target refuses.
  std::string refused_there(const WorkRequest& request, Status status) {
    const FabricError error = world_.error_of(submit(*world_.qp, request));
    EXPECT_EQ(error.status(), status);
    EXPECT_EQ(world_.qp->posted(), 1U);
    EXPECT_EQ(world_.qp->state(), QueuePair::State::error);
    return error.what();
  }

  TwoNodes world_;
};

TEST_F(QueuePairChecks, AMisalignedAtomicIsRefused) {
  EXPECT_THAT(refused_here(compare_swap(world_.table.remote(4, 8), 0, 1), Status::invalid_request),
              AllOf(HasSubstr("CAS"), HasSubstr("misaligned"), HasSubstr("multiple of 8")));
}

TEST_F(QueuePairChecks, AnAtomicsResultBufferOfAnotherLengthThanEightIsRefused) {
  WorkRequest add = fetch_add(world_.word(0), 1);
  add.local = world_.buffer.local(0, 16);
  EXPECT_THAT(refused_here(add, Status::invalid_request), AllOf(HasSubstr("16 bytes"), HasSubstr("must have 8")));
}

TEST_F(QueuePairChecks, AnLkeyOfNoRegionIsRefused) {
  WorkRequest request = read(world_.buffer.local(0, 8), world_.word(0));
  request.local.lkey.value = 0xabc000;
  EXPECT_THAT(refused_here(request, Status::local_protection),
              AllOf(HasSubstr("lkey 0xabc000"), HasSubstr("no live region of node client")));
}

TEST_F(QueuePairChecks, AnLkeyOfAnotherNodeIsRefused) {
  // Node storage has two regions, node client one: the key of the second is invalid at the client.
  const MemoryRegion second = world_.storage.allocate(64, Access::remote_all);
  EXPECT_THAT(refused_here(read(second.local(0, 8), world_.word(0)), Status::local_protection),
              HasSubstr("no live region of node client"));
}

TEST_F(QueuePairChecks, ALocalBufferThatLeavesItsRegionIsRefused) {
  WorkRequest request = write(world_.buffer.local(0, 8), world_.word(0));
  request.local.data += world_.buffer.length() - 7;
  EXPECT_THAT(refused_here(request, Status::local_protection),
              AllOf(HasSubstr("+8 is outside region"), HasSubstr("[")));
}

TEST_F(QueuePairChecks, ALocalBufferBeforeItsRegionIsRefused) {
  WorkRequest request = write(world_.buffer.local(0, 8), world_.word(0));
  request.local.data -= 1;
  EXPECT_THAT(refused_here(request, Status::local_protection), HasSubstr("outside region"));
}

TEST_F(QueuePairChecks, AResultNeedsALocalRegionWithLocalWrite) {
  const MemoryRegion source = world_.client.allocate(64, Access::local_read);
  EXPECT_THAT(refused_here(read(source.local(0, 8), world_.word(0)), Status::local_protection),
              AllOf(HasSubstr("has access local_read"), HasSubstr("need local_write")));
}

TEST_F(QueuePairChecks, AnAtomicsResultBufferNeedsLocalWriteToo) {
  const MemoryRegion source = world_.client.allocate(64, Access::remote_read | Access::remote_write);
  WorkRequest add = fetch_add(world_.word(0), 1);
  add.local = source.local(0, 8);
  EXPECT_THAT(refused_here(add, Status::local_protection),
              AllOf(HasSubstr("remote_read|remote_write"), HasSubstr("need local_write")));
}

TEST_F(QueuePairChecks, APayloadMayComeFromARegionWithoutLocalWrite) {
  const MemoryRegion source = world_.client.allocate(64, Access::local_read);
  TwoNodes::store(source, 0, 5);
  world_.run(submit(*world_.qp, write(source.local(0, 8), world_.word(0))));
  world_.settle();
  EXPECT_EQ(world_.value(0), 5U);
}

TEST_F(QueuePairChecks, AnInlinedPayloadThatIsTooLongIsRefused) {
  EXPECT_THAT(
      refused_here(write(world_.buffer.local(0, 221), world_.table.remote()).with_inline(), Status::invalid_request),
      AllOf(HasSubstr("221 bytes"), HasSubstr("at most 220")));
  world_.run(submit(*world_.qp, write(world_.buffer.local(0, 220), world_.table.remote()).with_inline()));
}

TEST_F(QueuePairChecks, AReadOrAtomicCannotBeInlined) {
  EXPECT_THAT(refused_here(read(world_.buffer.local(0, 8), world_.word(0)).with_inline(), Status::invalid_request),
              AllOf(HasSubstr("READ"), HasSubstr("only a WRITE or SEND")));
  EXPECT_THROW(world_.run(submit(*world_.qp, fetch_add(world_.word(0), 1).with_inline())), FabricError);
}

TEST_F(QueuePairChecks, ATransferOfMoreThanTwoGibibytesIsRefused) {
  WorkRequest request = write(world_.buffer.local(0, 8), world_.word(0));
  request.local.length = (1ULL << 31) + 1;
  EXPECT_THAT(refused_here(request, Status::invalid_request),
              AllOf(HasSubstr("2147483649 bytes"), HasSubstr("at most 2147483648")));
}

TEST_F(QueuePairChecks, TwoSidedRequestsAreRefusedWithTheOnesThatThereAre) {
  EXPECT_THAT(refused_here(send(world_.buffer.local(0, 8)), Status::invalid_request),
              AllOf(HasSubstr("SEND"), HasSubstr("one-sided"), HasSubstr("connect_pair()"),
                    HasSubstr("use WRITE, READ, CAS or FETCH-ADD")));
  EXPECT_THAT(world_.error_of(submit(*world_.qp, recv(world_.buffer.local(0, 8)))).what(),
              AllOf(HasSubstr("RECV"), HasSubstr("post_receive()")));
}

TEST_F(QueuePairChecks, AnEmptyChainIsRefusedHoweverItIsPosted) {
  EXPECT_THROW((void)world_.qp->post({}), FabricError);
  const FabricError error = world_.error_of(submit_chain(*world_.qp, {}, {}));
  EXPECT_EQ(error.status(), Status::invalid_request);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("chain of 0 requests"), HasSubstr("1 to 64")));
}

TEST_F(QueuePairChecks, AChainLongerThanTheSendQueueIsRefused) {
  const std::vector<WorkRequest> chain(65, fetch_add(world_.word(0), 1));
  EXPECT_THROW((void)world_.qp->post(chain), FabricError);
  const FabricError error = world_.error_of(submit_chain(*world_.qp, chain, {}));
  EXPECT_EQ(error.status(), Status::invalid_request);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("chain of 65 requests"), HasSubstr("1 to 64")));
  world_.run(submit_chain(*world_.qp, std::span(chain).first(64), {}));
  EXPECT_EQ(world_.value(0), 64U);
}

TEST_F(QueuePairChecks, AChainThatHoldsOneBadRequestIsRefusedAsAWhole) {
  const WorkRequest chain[] = {fetch_add(world_.word(0), 1), fetch_add(world_.table.remote(4, 8), 1)};
  EXPECT_EQ(world_.error_of(submit_chain(*world_.qp, chain, {})).status(), Status::invalid_request);
  world_.settle();
  EXPECT_EQ(world_.value(0), 0U);
  EXPECT_EQ(world_.qp->posted(), 0U);
}

TEST_F(QueuePairChecks, PlacesForOldValuesMustBeAsManyAsRequests) {
  const std::vector<WorkRequest> chain(3, fetch_add(world_.word(0), 1));
  std::array<std::uint64_t, 2> olds{};
  const FabricError error = world_.error_of(submit_chain(*world_.qp, chain, olds));
  EXPECT_EQ(error.status(), Status::invalid_request);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("2 places"), HasSubstr("chain of 3")));
}

TEST_F(QueuePairChecks, ARequestThatWasNeverPostedCannotBeWaitedFor) {
  world_.run(submit(*world_.qp, fetch_add(world_.word(0), 1)));
  const FabricError error = world_.error_of([](QueuePair& qp) -> Task<> { co_await qp.reach(3); }(*world_.qp));
  EXPECT_EQ(error.status(), Status::invalid_request);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("request number 3"), HasSubstr("only 1 were posted")));
}

TEST_F(QueuePairChecks, ATaskMayCatchARefusalAndGoOn) {
  const std::uint64_t old = world_.run([](QueuePair& qp, RemoteSpan table) -> Task<std::uint64_t> {
    int refusals = 0;
    for (int i = 0; i < 3; ++i) {
      try {
        co_await qp.fetch_add(table.subspan(4, 8), 1);
      } catch (const FabricError&) {
        ++refusals;
      }
      co_await qp.fetch_add(table.subspan(0, 8), 1);
    }
    const std::uint64_t last = co_await qp.fetch_add(table.subspan(0, 8), static_cast<std::uint64_t>(refusals));
    co_return last;
  }(*world_.qp, world_.table.remote()));
  EXPECT_EQ(old, 3U);
  EXPECT_EQ(world_.value(0), 6U);
}

TEST_F(QueuePairChecks, AWrongRkeyIsRefusedByTheTarget) {
  WorkRequest request = read(world_.buffer.local(0, 8), world_.word(0));
  request.rkey.value = 0x7ff001;
  EXPECT_THAT(refused_there(request, Status::remote_access),
              AllOf(HasSubstr("rkey 0x7ff001"), HasSubstr("no live region of node storage")));
}

TEST_F(QueuePairChecks, AnAccessThatEndsBehindItsRegionIsRefusedByTheTarget) {
  WorkRequest request = read(world_.buffer.local(0, 8), world_.word(0));
  request.remote = world_.table.remote().address + (world_.table.length() - 7);
  EXPECT_THAT(refused_there(request, Status::remote_access), HasSubstr("is outside the region ["));
}

TEST_F(QueuePairChecks, AnAccessBeforeItsRegionIsRefusedByTheTarget) {
  WorkRequest request = write(world_.buffer.local(0, 8), world_.word(0));
  request.remote.value -= 1;
  EXPECT_THAT(refused_there(request, Status::remote_access), HasSubstr("is outside the region ["));
}

TEST_F(QueuePairChecks, AnAccessWhoseEndWrapsAroundIsRefusedByTheTarget) {
  WorkRequest request = write(world_.buffer.local(0, 64), world_.table.remote());
  request.remote.value = ~std::uint64_t{0} - 7;
  EXPECT_THAT(refused_there(request, Status::remote_access), HasSubstr("is outside the region ["));
}

TEST_F(QueuePairChecks, AReadNeedsRemoteRead) {
  const MemoryRegion region = world_.storage.allocate(64, Access::remote_write | Access::remote_atomic);
  EXPECT_THAT(refused_there(read(world_.buffer.local(0, 8), region.remote()), Status::remote_access),
              AllOf(HasSubstr("remote_write|remote_atomic"), HasSubstr("needs remote_read")));
}

TEST_F(QueuePairChecks, AWriteNeedsRemoteWrite) {
  const MemoryRegion region = world_.storage.allocate(64, Access::remote_read | Access::remote_atomic);
  EXPECT_THAT(refused_there(write(world_.buffer.local(0, 8), region.remote()), Status::remote_access),
              AllOf(HasSubstr("remote_read|remote_atomic"), HasSubstr("needs remote_write")));
}

TEST_F(QueuePairChecks, AnAtomicNeedsRemoteAtomic) {
  const MemoryRegion region = world_.storage.allocate(64, Access::remote_read | Access::remote_write);
  EXPECT_THAT(refused_there(fetch_add(region.remote(), 1), Status::remote_access),
              AllOf(HasSubstr("remote_read|remote_write"), HasSubstr("needs remote_atomic")));
}

std::string message_of(const QueuePairOptions& options) {
  TwoNodes world;
  try {
    (void)world.client.connect(world.storage, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(QueuePairOptionChecks, EveryFieldOutOfRangeIsNamedWithItsValueAndItsRange) {
  EXPECT_EQ(message_of({.send_queue_depth = 1}), "send_queue_depth is 1: it must be 2 to 32768");
  EXPECT_EQ(message_of({.send_queue_depth = 65536}), "send_queue_depth is 65536: it must be 2 to 32768");
  EXPECT_EQ(message_of({.send_queue_depth = 48}), "send_queue_depth is 48: it must be a power of two");
  EXPECT_EQ(message_of({.max_rd_atomic = 0}), "max_rd_atomic is 0: it must be 1 to 128");
  EXPECT_EQ(message_of({.max_rd_atomic = 129}), "max_rd_atomic is 129: it must be 1 to 128");
  EXPECT_EQ(message_of({.max_inline = 1025}), "max_inline is 1025: it must be 0 to 1024");
  EXPECT_EQ(message_of({.signal_interval = 65}), "signal_interval is 65: it must be 0 to 64");
  EXPECT_EQ(message_of({.receive_queue_depth = 0}), "receive_queue_depth is 0: it must be 1 to 32768");
  EXPECT_EQ(message_of({.receive_queue_depth = 32769}), "receive_queue_depth is 32769: it must be 1 to 32768");
}

TEST(QueuePairOptionChecks, TheEndsOfEveryRangeAreAccepted) {
  EXPECT_EQ(message_of({.send_queue_depth = 2, .max_rd_atomic = 1, .max_inline = 0}), "accepted");
  EXPECT_EQ(message_of({.send_queue_depth = 32768, .max_rd_atomic = 128, .max_inline = 1024, .signal_interval = 32768}),
            "accepted");
}

TEST(QueuePairOptionChecks, AChainMustFitInHalfOfTheCompletionQueueToo) {
  TwoNodes world({.completion_queue_depth = 9});
  const std::vector<WorkRequest> chain(5, fetch_add(world.word(0), 1));
  EXPECT_THAT(world.error_of(submit_chain(*world.qp, chain, {})).what(),
              AllOf(HasSubstr("chain of 5 requests"), HasSubstr("1 to 4")));
  world.run(submit_chain(*world.qp, std::span(chain).first(4), {}));
  EXPECT_EQ(world.value(0), 4U);
}

TEST(QueuePairOptionChecks, ANodeOfAnotherSimulationIsRefused) {
  TwoNodes here;
  TwoNodes there;
  EXPECT_THAT([&] { (void)here.client.connect(there.storage); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("not a node of the same simulation")));
}

}  // namespace
}  // namespace sidelatch::fabric
