// Queue pairs of libsidelatch-verbs: what their manual pages say beyond states and posting.
#include "verbs_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>
#include <chrono>

namespace sidelatch::softnic {
namespace {

using namespace std::chrono_literals;
using ::testing::IsNull;
using ::testing::NotNull;

// ibv_create_qp(3): "ibv_destroy_qp() fails if the QP is attached to a multicast group."
TEST_F(VerbsCalls, AQueuePairInAGroupIsInUse) {
  ibv_qp* const pair = make_pair_for_datagrams();
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 7;
  ASSERT_EQ(verbs.attach_mcast(pair, &group, 0), 0);
  EXPECT_EQ(verbs.destroy_qp(pair), EBUSY);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(verbs.query_qp(pair, &attributes, IBV_QP_STATE, &created), 0) << "it is unchanged";
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  ASSERT_EQ(verbs.detach_mcast(pair, &group, 0), 0);
  EXPECT_EQ(verbs.destroy_qp(pair), 0);
  pairs.clear();
}

// ibv_create_qp(3): it fails for a type "other than IBV_QPT_RC or IBV_QPT_UD associated with an SRQ".
TEST_F(VerbsCalls, ASharedReceiveQueueServesReliableConnectionsAndDatagrams) {
  ibv_srq_init_attr attributes{};
  attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UD}) {
    ibv_qp_init_attr wanted = small(type);
    wanted.srq = shared;
    EXPECT_THAT(make_pair(wanted), NotNull());
  }
  ibv_qp_init_attr wanted = small(IBV_QPT_UC);
  wanted.srq = shared;
  errno = 0;
  EXPECT_THAT(make_pair(wanted), IsNull());
  EXPECT_EQ(errno, EINVAL);
  for (ibv_qp* const pair : pairs) {
    EXPECT_EQ(verbs.destroy_qp(pair), 0);
  }
  pairs.clear();
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

// The kernel knows an object only in the open file in which it was made. An imported context has the same file.
TEST_F(VerbsCalls, AQueuePairIsMadeOfObjectsOfOneOpening) {
  ibv_device** const list = verbs.get_device_list(nullptr);
  ibv_context* const other = verbs.open_device(list[0]);
  verbs.free_device_list(list);
  ibv_context* const imported = verbs.import_device(::fcntl(context->cmd_fd, F_DUPFD_CLOEXEC, 0));
  ASSERT_THAT(other, NotNull());
  ASSERT_THAT(imported, NotNull());
  ibv_pd* const their_domain = verbs.alloc_pd(other);
  ibv_cq* const theirs = verbs.create_cq(other, 4, nullptr, nullptr, 0);
  ibv_cq* const ours = verbs.create_cq(imported, 4, nullptr, nullptr, 0);
  ibv_srq_init_attr of_shared{};
  of_shared.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const their_shared = verbs.create_srq(their_domain, &of_shared);
  ASSERT_THAT(their_shared, NotNull());
  const auto refused = [&](const ibv_qp_init_attr& wanted) {
    errno = 0;
    EXPECT_THAT(make_pair(wanted), IsNull());
    EXPECT_EQ(errno, EINVAL);
  };
  ibv_qp_init_attr wanted = small();
  wanted.send_cq = theirs;
  refused(wanted);
  wanted = small();
  wanted.recv_cq = theirs;
  refused(wanted);
  wanted = small();
  wanted.srq = their_shared;
  refused(wanted);
  ibv_qp_init_attr_ex extended{};
  extended.send_cq = extended.recv_cq = theirs;
  extended.cap = small().cap;
  extended.qp_type = IBV_QPT_RC;
  // With flags, as otherwise the inline function takes the domain's context.
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  extended.pd = domain;
  errno = 0;
  EXPECT_THAT(ibv_create_qp_ex(other, &extended), IsNull()) << "the protection domain";
  EXPECT_EQ(errno, EINVAL);
  wanted = small();
  wanted.send_cq = ours;
  EXPECT_THAT(make_pair(wanted), NotNull());
  EXPECT_EQ(verbs.destroy_qp(pairs.back()), 0);
  pairs.clear();
  EXPECT_EQ(verbs.destroy_srq(their_shared), 0);
  EXPECT_EQ(verbs.destroy_cq(ours), 0);
  EXPECT_EQ(verbs.destroy_cq(theirs), 0);
  EXPECT_EQ(verbs.dealloc_pd(their_domain), 0);
  EXPECT_EQ(verbs.close_device(imported), 0);
  EXPECT_EQ(verbs.close_device(other), 0);
}

TEST_F(VerbsCalls, OtherObjectsAreMadeOfThoseOfOneOpeningToo) {
  ibv_context* const other = verbs.open_device(context->device);
  ASSERT_THAT(other, NotNull());
  ibv_pd* const their_domain = verbs.alloc_pd(other);
  ibv_comp_channel* const their_channel = verbs.create_comp_channel(other);
  ibv_td_init_attr plain{};
  ibv_td* const their_thread = ibv_alloc_td(other, &plain);
  ASSERT_THAT(their_thread, NotNull());
  ibv_parent_domain_init_attr of_parent{};
  of_parent.pd = their_domain;
  ibv_pd* const their_parent = ibv_alloc_parent_domain(other, &of_parent);
  ASSERT_THAT(their_parent, NotNull());
  const auto is_refused = [](const void* made) { return made == nullptr && errno == EINVAL; };
  errno = 0;
  EXPECT_TRUE(is_refused(verbs.create_cq(context, 4, nullptr, their_channel, 0)));
  ibv_cq_init_attr_ex extended{};
  extended.cqe = 4;
  extended.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  extended.parent_domain = their_parent;
  errno = 0;
  EXPECT_TRUE(is_refused(ibv_create_cq_ex(context, &extended)));
  errno = 0;
  EXPECT_TRUE(is_refused(ibv_alloc_parent_domain(context, &of_parent)));
  of_parent.pd = domain;
  of_parent.td = their_thread;
  errno = 0;
  EXPECT_TRUE(is_refused(ibv_alloc_parent_domain(context, &of_parent)));
  errno = 0;
  EXPECT_EQ(verbs.rereg_mr(region, IBV_REREG_MR_CHANGE_PD, their_domain, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(region->pd, domain);
  EXPECT_EQ(verbs.dealloc_pd(their_parent), 0);
  EXPECT_EQ(ibv_dealloc_td(their_thread), 0);
  EXPECT_EQ(verbs.destroy_comp_channel(their_channel), 0);
  EXPECT_EQ(verbs.dealloc_pd(their_domain), 0);
  EXPECT_EQ(verbs.close_device(other), 0);
}

// As in libibverbs, whose calls reach the kernel by system calls. Posting and polling leave it.
TEST_F(VerbsCalls, ACallThatReturnsItsErrorSetsErrnoToo) {
  ibv_qp* const pair = make_pair();
  const auto sets = [](int error, auto call) {
    errno = 0;
    EXPECT_EQ(call(), error);
    EXPECT_EQ(errno, error);
  };
  ibv_qp_attr attributes{};
  ibv_srq_attr of_shared{};
  attributes.qp_state = IBV_QPS_RTS;
  sets(EINVAL, [&] { return verbs.modify_qp(pair, &attributes, IBV_QP_STATE); });
  sets(EBUSY, [&] { return verbs.dealloc_pd(domain); });
  sets(EBUSY, [&] { return verbs.destroy_cq(queue); });
  sets(EBUSY, [&] { return verbs.destroy_comp_channel(channel); });
  sets(EINVAL, [&] { return verbs.resize_cq(queue, 0); });
  ibv_gid none{};
  sets(EINVAL, [&] { return verbs.attach_mcast(pair, &none, 0); });
  ibv_port_attr port{};
  sets(EINVAL, [&] { return verbs_get_ctx(context)->query_port(context, 9, &port, sizeof port); });
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(domain, &wanted);
  sets(EINVAL, [&] { return verbs.modify_srq(shared, &of_shared, 4); });
  errno = 0;
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
  EXPECT_EQ(errno, 0);
  ibv_sge part = sge(0);
  EXPECT_EQ(post(*pair, request(IBV_WR_SEND, part)), EINVAL);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(queue, 1, &completion), 0);
  EXPECT_EQ(errno, 0);
}

TEST_F(VerbsCalls, AQueryTellsWhetherTheSendQueueIsDraining) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  const ibv_ah_attr address = own_address();
  ASSERT_EQ(to_init(*a) | to_init(*b), 0);
  ASSERT_EQ(to_rtr(*a, b->qp_num, address) | to_rtr(*b, a->qp_num, address), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;  // for ever
  attributes.max_rd_atomic = 1;
  ASSERT_EQ(verbs.modify_qp(a, &attributes,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC),
            0);
  ibv_sge part = sge(0);
  ASSERT_EQ(post(*a, request(IBV_WR_SEND, part)), 0);  // there is no receive request
  const auto is_draining = [&] {
    ibv_qp_init_attr created{};
    EXPECT_EQ(verbs.query_qp(a, &attributes, IBV_QP_STATE, &created), 0);
    return attributes.sq_draining != 0;
  };
  const auto bring_to = [&](ibv_qp_state state) {
    attributes.qp_state = state;
    ASSERT_EQ(verbs.modify_qp(a, &attributes, IBV_QP_STATE), 0);
  };
  // Until the request has begun there is nothing to drain.
  const auto limit = std::chrono::steady_clock::now() + 30s;
  for (bring_to(IBV_QPS_SQD); !is_draining() && std::chrono::steady_clock::now() < limit; bring_to(IBV_QPS_SQD)) {
    bring_to(IBV_QPS_RTS);
    EXPECT_FALSE(is_draining());
    ibv_wc completion{};
    ASSERT_EQ(ibv_poll_cq(queue, 1, &completion), 0);
  }
  EXPECT_TRUE(is_draining());
  ASSERT_EQ(post_receive(*b, 32), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(is_draining());
}

// As in libibverbs. UCX insists on ibv_qp::state being RTS after it has queried the address of a failed queue pair.
TEST_F(VerbsCalls, OnlyAQueryOfTheStateIsKept) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  ibv_send_wr forbidden = request(IBV_WR_RDMA_WRITE, part);
  forbidden.wr.rdma.rkey += 1;
  ASSERT_EQ(post(*a, forbidden), 0);
  EXPECT_EQ(wait().status, IBV_WC_REM_ACCESS_ERR);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(verbs.query_qp(a, &attributes, IBV_QP_AV | IBV_QP_DEST_QPN, &created), 0);
  EXPECT_EQ(attributes.dest_qp_num, b->qp_num);
  EXPECT_EQ(a->state, IBV_QPS_RTS);
  ASSERT_EQ(verbs.query_qp(a, &attributes, IBV_QP_STATE, &created), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(a->state, IBV_QPS_ERR);
}

// As in the kernel.
TEST_F(VerbsCalls, AQueuePairInResetDoesNotFail) {
  ibv_qp* const pair = make_pair();
  EXPECT_EQ(to_error(*pair), EINVAL);
  EXPECT_EQ(pair->state, IBV_QPS_RESET);
  ASSERT_EQ(to_init(*pair), 0);
  EXPECT_EQ(to_error(*pair), 0);
}

// Of RoCE: what names a LID does not come back.
TEST_F(VerbsCalls, AQueryGivesTheServiceLevelAndTheRateOfTheAddress) {
  ibv_qp* const pair = make_pair();
  ibv_ah_attr address = own_address();
  address.sl = 3;
  address.static_rate = IBV_RATE_10_GBPS;
  address.dlid = 5;
  address.src_path_bits = 1;
  ASSERT_EQ(to_init(*pair), 0);
  ASSERT_EQ(to_rtr(*pair, pair->qp_num, address), 0);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(verbs.query_qp(pair, &attributes, IBV_QP_AV, &created), 0);
  EXPECT_EQ(attributes.ah_attr.sl, 3);
  EXPECT_EQ(attributes.ah_attr.static_rate, IBV_RATE_10_GBPS);
  EXPECT_EQ(attributes.ah_attr.dlid, 0);
  EXPECT_EQ(attributes.ah_attr.src_path_bits, 0);
}

TEST_F(VerbsCalls, AnUnknownAttributeOfASharedReceiveQueueIsRefused) {
  ibv_srq_init_attr attributes{};
  attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  ibv_srq_attr changed{.max_wr = 8, .max_sge = 1, .srq_limit = 2};
  EXPECT_EQ(verbs.modify_srq(shared, &changed, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT | 4), EINVAL);
  ibv_srq_attr now{};
  ASSERT_EQ(verbs.query_srq(shared, &now), 0);
  EXPECT_EQ(now.max_wr, 4U);
  EXPECT_EQ(now.srq_limit, 0U);
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

TEST_F(VerbsCalls, ASharedReceiveQueueHasRoomForItsLimit) {
  ibv_srq_init_attr attributes{};
  attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  ibv_srq_attr changed{.max_wr = 2, .max_sge = 0, .srq_limit = 5};
  EXPECT_EQ(verbs.modify_srq(shared, &changed, IBV_SRQ_LIMIT), EINVAL);
  changed.srq_limit = 4;
  EXPECT_EQ(verbs.modify_srq(shared, &changed, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(verbs.modify_srq(shared, &changed, IBV_SRQ_MAX_WR), EINVAL) << "the limit is still 4";
  ibv_srq_attr now{};
  ASSERT_EQ(verbs.query_srq(shared, &now), 0);
  EXPECT_EQ(now.max_wr, 4U);
  EXPECT_EQ(now.srq_limit, 4U);
  changed.srq_limit = 1;
  EXPECT_EQ(verbs.modify_srq(shared, &changed, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(verbs.query_srq(shared, &now), 0);
  EXPECT_EQ(now.max_wr, 2U);
  EXPECT_EQ(now.srq_limit, 1U);
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

// As libraries of real NICs keep entries. A program that polls only when its queue is full cannot overrun a completion
// queue with room for the queue.
TEST_F(VerbsCalls, AnEntryOfTheSendQueueIsFreeWhenACompletionWasPolled) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  ibv_send_wr unsignaled = request(IBV_WR_RDMA_WRITE, part);
  unsignaled.send_flags = 0;
  ASSERT_EQ(post(*a, unsignaled), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  }
  verbs.resize_cq(queue, 64);  // everything has been carried out
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), ENOMEM);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  for (int i = 0; i < 2; ++i) {  // the polled request, and the one before it, of which nothing was to be told
    EXPECT_EQ(post(*a, unsignaled), 0);
  }
  EXPECT_EQ(post(*a, unsignaled), ENOMEM);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(post(*a, unsignaled), 0);
  }
  verbs.resize_cq(queue, 64);
  EXPECT_EQ(post(*a, unsignaled), ENOMEM);  // whoever never asks for a completion never gets an entry back
}

TEST_F(VerbsCalls, AnEntryOfAReceiveQueueIsFreeWhenItsCompletionWasPolled) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  ibv_srq_init_attr attributes{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  ibv_qp_init_attr of_shared = small();
  of_shared.srq = shared;
  ibv_qp* const c = make_pair();
  ibv_qp* const d = make_pair(of_shared);
  connect(*a, *b);
  connect(*c, *d);
  ibv_sge part = sge(0);
  ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &part, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  const auto post_shared = [&] { return ibv_post_srq_recv(shared, &receive, &refused); };
  ASSERT_EQ(post_receive(*b, 0) | post_receive(*b, 0) | post_shared() | post_shared(), 0);
  ibv_send_wr unsignaled = request(IBV_WR_SEND, part);
  unsignaled.send_flags = 0;
  ASSERT_EQ(post(*a, unsignaled) | post(*c, unsignaled), 0);
  verbs.resize_cq(queue, 64);  // everything has been carried out
  EXPECT_EQ(post_receive(*b, 0), ENOMEM);
  EXPECT_EQ(post_shared(), ENOMEM);
  EXPECT_EQ(wait().qp_num, b->qp_num);
  EXPECT_EQ(post_receive(*b, 0), 0);
  EXPECT_EQ(post_shared(), ENOMEM);
  EXPECT_EQ(wait().qp_num, d->qp_num);
  EXPECT_EQ(post_shared(), 0);
  EXPECT_EQ(post_shared(), ENOMEM);
  for (; !pairs.empty(); pairs.pop_back()) {
    EXPECT_EQ(verbs.destroy_qp(pairs.back()), 0);
  }
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

}  // namespace
}  // namespace sidelatch::softnic
