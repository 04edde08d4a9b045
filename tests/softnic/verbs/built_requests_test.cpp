// Requests of libsidelatch-verbs that are built by calls: ibv_wr_start(3) and its kin.
#include "verbs_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

namespace sidelatch::softnic {
namespace {

using ::testing::HasSubstr;
using ::testing::NotNull;

class BuiltRequests : public VerbsCalls {
 protected:
  ibv_qp_ex* make_builder(ibv_qp_type type, std::uint64_t operations) {
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.cap = small().cap;
    attributes.qp_type = type;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = domain;
    attributes.send_ops_flags = operations;
    ibv_qp* const pair = ibv_create_qp_ex(context, &attributes);
    if (pair == nullptr) {
      return nullptr;
    }
    pairs.push_back(pair);
    ibv_qp_ex* const builder = verbs.qp_to_qp_ex(pair);
    builder->wr_id = 42;
    builder->wr_flags = IBV_SEND_SIGNALED;
    return builder;
  }
  void connect_to_a_new_one(ibv_qp_ex& builder) { connect(builder.qp_base, *make_pair()); }
};

TEST_F(BuiltRequests, HaveTheDataThatWasSetLast) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
  ASSERT_THAT(builder, NotNull());
  connect_to_a_new_one(*builder);
  words[0] = 5;
  std::uint64_t inlined = 6;
  ibv_wr_start(builder);
  ibv_wr_rdma_write(builder, region->rkey, address_of(8));
  ibv_wr_set_inline_data(builder, &inlined, sizeof inlined);
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  ibv_wr_rdma_write(builder, region->rkey, address_of(9));
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  ibv_wr_set_inline_data(builder, &inlined, sizeof inlined);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], 5U);
  EXPECT_EQ(words[9], 6U);
}

// Those beside it must not be posted alone.
TEST_F(BuiltRequests, ThatTheServiceHasNotArePostedNotAtAll) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE);
  ASSERT_THAT(builder, NotNull());
  ibv_qp* const a = &builder->qp_base;
  ibv_qp* const b = make_pair(small(IBV_QPT_UC));
  ASSERT_EQ(to_init(*a) | to_init(*b), 0);
  ibv_qp_attr ready{};
  ready.path_mtu = IBV_MTU_1024;
  ready.ah_attr = own_address();
  for (auto [pair, peer] : {std::pair{a, b}, std::pair{b, a}}) {
    ready.qp_state = IBV_QPS_RTR;
    ready.dest_qp_num = peer->qp_num;
    ASSERT_EQ(
        verbs.modify_qp(pair, &ready, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN), 0);
    ready.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(verbs.modify_qp(pair, &ready, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  ibv_wr_start(builder);
  std::uint64_t value = 6;
  builder->wr_id = 1;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(builder, region->rkey, address_of(8));
  ibv_wr_set_inline_data(builder, &value, sizeof value);
  ibv_wr_rdma_read(builder, region->rkey, address_of(8));
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(queue, 1, &none), 0);
  EXPECT_EQ(words[8], 0U);
}

TEST_F(BuiltRequests, AnAtomicWriteTakesNoDataButItsWord) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
  ASSERT_THAT(builder, NotNull());
  connect_to_a_new_one(*builder);
  std::uint64_t word = 6;
  const auto begin = [&] {
    ibv_wr_start(builder);
    ibv_wr_atomic_write(builder, region->rkey, address_of(8), &word);
  };
  begin();
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  begin();
  ibv_wr_set_inline_data(builder, &word, 4);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  EXPECT_EQ(words[8], 0U);
  begin();
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], 6U);
}

// Drivers leave the functions of other operations NULL.
TEST_F(BuiltRequests, AreOfTheOperationsThatWereAskedFor) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
  ASSERT_THAT(builder, NotNull());
  connect_to_a_new_one(*builder);
  words[0] = 5;
  ibv_wr_start(builder);
  ibv_wr_rdma_write(builder, region->rkey, address_of(8));
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  ibv_wr_rdma_read(builder, region->rkey, address_of(8));
  ibv_wr_set_sge(builder, region->lkey, address_of(1), 8);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  ibv_wr_start(builder);
  ibv_wr_rdma_write_imm(builder, region->rkey, address_of(8), 0);
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(queue, 1, &none), 0);
  EXPECT_EQ(words[8], 0U);
  ibv_wr_start(builder);
  ibv_wr_rdma_write(builder, region->rkey, address_of(8));
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], 5U);
}

// The operations, one by one.
TEST_F(BuiltRequests, OfEachOperationNeedItsFlagAndNoOther) {
  ibv_mw* const window = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
  ASSERT_THAT(window, NotNull());
  std::uint64_t word = 6;
  using Build = std::function<void(ibv_qp_ex*)>;
  const std::uint32_t key = region->rkey;
  const std::uint64_t there = address_of(8);
  const std::vector<std::pair<std::uint64_t, Build>> operations{
      {IBV_QP_EX_WITH_SEND, [](ibv_qp_ex* to) { ibv_wr_send(to); }},
      {IBV_QP_EX_WITH_SEND_WITH_IMM, [](ibv_qp_ex* to) { ibv_wr_send_imm(to, 0); }},
      {IBV_QP_EX_WITH_SEND_WITH_INV, [&](ibv_qp_ex* to) { ibv_wr_send_inv(to, key); }},
      {IBV_QP_EX_WITH_RDMA_WRITE, [&](ibv_qp_ex* to) { ibv_wr_rdma_write(to, key, there); }},
      {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, [&](ibv_qp_ex* to) { ibv_wr_rdma_write_imm(to, key, there, 0); }},
      {IBV_QP_EX_WITH_RDMA_READ, [&](ibv_qp_ex* to) { ibv_wr_rdma_read(to, key, there); }},
      {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, [&](ibv_qp_ex* to) { ibv_wr_atomic_cmp_swp(to, key, there, 0, 1); }},
      {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, [&](ibv_qp_ex* to) { ibv_wr_atomic_fetch_add(to, key, there, 1); }},
      {IBV_QP_EX_WITH_ATOMIC_WRITE, [&](ibv_qp_ex* to) { ibv_wr_atomic_write(to, key, there, &word); }},
      {IBV_QP_EX_WITH_BIND_MW,
       [&](ibv_qp_ex* to) {
         const ibv_mw_bind_info nothing{};
         ibv_wr_bind_mw(to, window, ibv_inc_rkey(window->rkey), &nothing);
       }},
      {IBV_QP_EX_WITH_LOCAL_INV, [&](ibv_qp_ex* to) { ibv_wr_local_inv(to, window->rkey); }},
  };
  std::uint64_t all = 0;
  for (const auto& [flag, build] : operations) {
    all |= flag;
  }
  for (const auto& [flag, build] : operations) {
    // In ERROR a request that is taken is flushed, whatever it is.
    for (const bool is_asked_for : {false, true}) {
      ibv_qp_ex* const builder = make_builder(IBV_QPT_RC, is_asked_for ? flag : all & ~flag);
      ASSERT_THAT(builder, NotNull());
      ASSERT_EQ(to_init(builder->qp_base) | to_error(builder->qp_base), 0);
      ibv_wr_start(builder);
      build(builder);
      ASSERT_EQ(ibv_wr_complete(builder), is_asked_for ? 0 : EINVAL) << "flag " << flag;
    }
    EXPECT_EQ(wait().status, IBV_WC_WR_FLUSH_ERR);
  }
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

// As ibv_post_send() refuses a datagram without an address handle.
TEST_F(BuiltRequests, ADatagramNeedsAnAddress) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
  ASSERT_THAT(builder, NotNull());
  ibv_qp& pair = builder->qp_base;
  ibv_qp_attr attributes{};
  ASSERT_EQ(to_init(pair), 0);
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(verbs.modify_qp(&pair, &attributes, IBV_QP_STATE), 0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(verbs.modify_qp(&pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ibv_ah_attr address = own_address();
  ibv_ah* const handle = verbs.create_ah(domain, &address);
  ASSERT_THAT(handle, NotNull());
  const auto add = [&](bool has_address) {
    ibv_wr_send(builder);
    ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
    if (has_address) {
      ibv_wr_set_ud_addr(builder, handle, pair.qp_num, 7);
    }
  };
  ibv_wr_start(builder);
  add(true);
  add(false);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(queue, 1, &none), 0);
  ibv_wr_start(builder);
  add(true);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(verbs.destroy_ah(handle), 0);
}

TEST_F(BuiltRequests, OfDatagramsFailWithAnAddressHandleOfAnotherDomain) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
  ASSERT_THAT(builder, NotNull());
  ibv_qp& pair = builder->qp_base;
  ibv_qp_attr attributes{};
  ASSERT_EQ(to_init(pair), 0);
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(verbs.modify_qp(&pair, &attributes, IBV_QP_STATE), 0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(verbs.modify_qp(&pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ibv_pd* const other = verbs.alloc_pd(context);
  ibv_ah_attr address = own_address();
  ibv_ah* const foreign = verbs.create_ah(other, &address);
  ASSERT_THAT(foreign, NotNull());
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  ibv_wr_set_sge(builder, region->lkey, address_of(0), 8);
  ibv_wr_set_ud_addr(builder, foreign, pair.qp_num, 7);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(wait().status, IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(verbs.destroy_ah(foreign), 0);
  EXPECT_EQ(verbs.dealloc_pd(other), 0);
}

// SIDELATCH_SOFTNIC_EXPLAIN, as of every other call.
TEST_F(BuiltRequests, AreRefusedWithAReason) {
  ibv_qp_ex* const builder = make_builder(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
  ASSERT_THAT(builder, NotNull());
  connect_to_a_new_one(*builder);
  std::array<ibv_sge, 3> parts{sge(0), sge(1), sge(2)};
  ::setenv("SIDELATCH_SOFTNIC_EXPLAIN", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  const auto reason_of = [&](auto build) {
    ::testing::internal::CaptureStderr();
    ibv_wr_start(builder);
    build();
    EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(reason_of([&] {
                ibv_wr_send(builder);
                ibv_wr_set_sge_list(builder, parts.size(), parts.data());
              }),
              HasSubstr("3 parts: this queue pair was made for up to 2"));
  EXPECT_THAT(reason_of([&] {
                ibv_wr_send(builder);
                ibv_wr_set_inline_data(builder, words.data(), sizeof words);
              }),
              HasSubstr("more inline bytes than"));
  EXPECT_THAT(reason_of([&] {
                ibv_wr_rdma_read(builder, region->rkey, address_of(8));
                ibv_wr_set_inline_data(builder, words.data(), 8);
              }),
              HasSubstr("does not allow this operation"));
  EXPECT_THAT(reason_of([&] { ibv_wr_rdma_write(builder, region->rkey, address_of(8)); }),
              HasSubstr("IBV_QP_EX_WITH_RDMA_WRITE is not in it"));
  EXPECT_THAT(reason_of([&] { ibv_wr_set_sge(builder, region->lkey, address_of(0), 8); }),
              HasSubstr("before there is a request"));
  ::unsetenv("SIDELATCH_SOFTNIC_EXPLAIN");  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace sidelatch::softnic
