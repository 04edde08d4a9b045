// Memory regions of libsidelatch-verbs: null ones (ibv_alloc_null_mr(3)), ones with addresses of their own
// (ibv_reg_mr_iova(3)), and ones whose pages go too early.
#include "verbs_calls.h"

#include "tests/softnic/nic/mapped_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sidelatch::softnic {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;

TEST_F(VerbsCalls, ANullRegionReadsZerosAndForgets) {
  ibv_mr* const null = ibv_alloc_null_mr(domain);
  ASSERT_THAT(null, NotNull());
  EXPECT_EQ(null->length, ~std::size_t{0});
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  words.fill(~std::uint64_t{0});

  // A word of memory, then one of nothing, as it is sent.
  std::array<ibv_sge, 2> parts{sge(0), ibv_sge{.addr = 0xdead'beef, .length = 8, .lkey = null->lkey}};
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, parts[0]);
  write.num_sge = 2;
  ASSERT_EQ(post(*a, write), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], ~std::uint64_t{0});
  EXPECT_EQ(words[9], 0U);

  // The same as it is received: the second word is lost, and still reads as 0.
  words[8] = 1;
  words[9] = 2;
  words[0] = 0;
  ASSERT_EQ(post(*a,
                 [&] {
                   ibv_send_wr read = request(IBV_WR_RDMA_READ, parts[0]);
                   read.num_sge = 2;
                   return read;
                 }()),
            0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[0], 1U);
  ASSERT_EQ(post(*a, write), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[9], 0U);

  // "It has the maximum length": many packets.
  ibv_sge large{.addr = 1, .length = 100'000, .lkey = null->lkey};
  ibv_recv_wr receive{.wr_id = 9, .next = nullptr, .sg_list = &large, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_recv(b, &receive, &refused), 0);
  ASSERT_EQ(post(*a, request(IBV_WR_SEND, large)), 0);
  const ibv_wc one = wait();
  const ibv_wc other = wait();
  EXPECT_EQ(one.status, IBV_WC_SUCCESS);
  EXPECT_EQ(other.status, IBV_WC_SUCCESS);
  EXPECT_EQ((one.opcode == IBV_WC_RECV ? one : other).byte_len, 100'000U);

  // "The use of ibv_rereg_mr() ... with this MR is invalid", and nobody else reaches it.
  EXPECT_NE(verbs.rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kRights), 0);
  EXPECT_EQ(errno, EINVAL);
  ibv_send_wr foreign = request(IBV_WR_RDMA_READ, parts[0]);
  foreign.wr.rdma.rkey = null->lkey;
  ASSERT_EQ(post(*a, foreign), 0);
  EXPECT_EQ(wait().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(verbs.dereg_mr(null), 0);
}

// As in the kernel.
TEST_F(VerbsCalls, AnIovaDiffersFromTheAddressByWholePages) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t offset = address_of(0) % page;
  ibv_mr* const moved = verbs.reg_mr_iova2(domain, words.data(), 64, 16 * page + offset, kRights);
  ASSERT_THAT(moved, NotNull());
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  words[0] = 5;
  ibv_sge part{.addr = 16 * page + offset, .length = 8, .lkey = moved->lkey};
  ASSERT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], 5U);
  EXPECT_EQ(verbs.dereg_mr(moved), 0);
  errno = 0;
  EXPECT_THAT(verbs.reg_mr_iova2(domain, words.data(), 64, 16 * page + offset + 8, kRights), IsNull());
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* const from_zero = verbs.reg_mr_iova2(domain, &words[1], 64, address_of(1), kRights | IBV_ACCESS_ZERO_BASED);
  EXPECT_THAT(from_zero, NotNull());
  EXPECT_EQ(verbs.dereg_mr(from_zero), 0);
}

// A program that unmaps pages, or truncates their file, before it deregisters them.
class VerbsCallsOfGonePages : public VerbsCalls, public ::testing::WithParamInterface<nic::MappedPages::Kind> {
 protected:
  VerbsCallsOfGonePages() : gone_(verbs.reg_mr(domain, pages_.data(), pages_.size(), kRights)) { pages_.take_away(); }
  ~VerbsCallsOfGonePages() override { EXPECT_EQ(verbs.dereg_mr(gone_), 0); }

  struct Two {
    ibv_qp* a = nullptr;
    ibv_qp* b = nullptr;
  };
  Two make_connection(ibv_srq* shared = nullptr) {
    ibv_qp_init_attr attributes = small();
    const Two two{.a = make_pair(), .b = (attributes.srq = shared, make_pair(attributes))};
    connect(*two.a, *two.b);
    return two;
  }
  [[nodiscard]] ibv_sge of_gone() const { return {.addr = pages_.address(), .length = 8, .lkey = gone_->lkey}; }
  [[nodiscard]] ibv_send_wr to_gone(ibv_wr_opcode opcode, ibv_sge& part) const {
    ibv_send_wr made = request(opcode, part);
    made.wr.rdma = {.remote_addr = pages_.address(), .rkey = gone_->rkey};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      made.wr.atomic = {.remote_addr = pages_.address(), .compare_add = 1, .swap = 1, .rkey = gone_->rkey};
    }
    return made;
  }
  // How the request of a new connection ends, and that its end of the connection is in ERROR.
  ibv_wc_status end_of(const ibv_send_wr& request) {
    const Two two = make_connection();
    EXPECT_EQ(post(*two.a, request), 0);
    const ibv_wc completion = wait();
    EXPECT_EQ(completion.qp_num, two.a->qp_num);
    EXPECT_EQ(state_of(*two.a), IBV_QPS_ERR);
    return completion.status;
  }
  ibv_qp_state state_of(ibv_qp& pair) const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr created{};
    EXPECT_EQ(verbs.query_qp(&pair, &attributes, IBV_QP_STATE, &created), 0);
    return attributes.qp_state;
  }
  // The completions of a SEND into memory that is gone, of the sender and of the receiver.
  void expect_refused_send(const Two& two) {
    ibv_sge part = sge(0);
    ASSERT_EQ(post(*two.a, request(IBV_WR_SEND, part)), 0);
    for (int i = 0; i < 2; ++i) {
      const ibv_wc completion = wait();
      EXPECT_EQ(completion.status, completion.qp_num == two.a->qp_num ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR);
    }
    EXPECT_EQ(state_of(*two.b), IBV_QPS_ERR);
  }

  nic::MappedPages pages_{2, GetParam()};
  ibv_mr* gone_;
};

TEST_P(VerbsCallsOfGonePages, OnlyTheirRequestsEnd) {
  const Two others = make_connection();
  ibv_sge own = sge(0);
  ibv_sge gone = of_gone();
  EXPECT_EQ(end_of(request(IBV_WR_RDMA_WRITE, gone)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(end_of(request(IBV_WR_SEND, gone)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(end_of(request(IBV_WR_RDMA_READ, gone)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(end_of(to_gone(IBV_WR_RDMA_WRITE, own)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(end_of(to_gone(IBV_WR_RDMA_READ, own)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(end_of(to_gone(IBV_WR_ATOMIC_FETCH_AND_ADD, own)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(end_of(to_gone(IBV_WR_ATOMIC_CMP_AND_SWP, own)), IBV_WC_REM_ACCESS_ERR);
  words[0] = 77;
  ASSERT_EQ(post(*others.a, request(IBV_WR_RDMA_WRITE, own)), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], 77U);
}

TEST_P(VerbsCallsOfGonePages, ReceiveRequestsOfThemFail) {
  const Two two = make_connection();
  ibv_sge gone = of_gone();
  ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &gone, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_recv(two.b, &receive, &refused), 0);
  expect_refused_send(two);
}

TEST_P(VerbsCallsOfGonePages, SharedReceiveRequestsOfThemFailAndTheQueueGoesOn) {
  ibv_srq_init_attr attributes{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  ASSERT_THAT(shared, NotNull());
  const Two first = make_connection(shared);
  const Two second = make_connection(shared);
  ibv_sge gone = of_gone();
  ibv_sge there = sge(16);
  ibv_recv_wr later{.wr_id = 2, .next = nullptr, .sg_list = &there, .num_sge = 1};
  ibv_recv_wr receive{.wr_id = 1, .next = &later, .sg_list = &gone, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(shared, &receive, &refused), 0);
  expect_refused_send(first);
  words[0] = 78;
  ibv_sge own = sge(0);
  ASSERT_EQ(post(*second.a, request(IBV_WR_SEND, own)), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[16], 78U);
  for (ibv_qp* const pair : std::exchange(pairs, {})) {
    EXPECT_EQ(verbs.destroy_qp(pair), 0);
  }
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

// Nobody polls: the NIC's own thread meets the pages.
TEST_P(VerbsCallsOfGonePages, DoNotEndTheThreadOfTheNic) {
  const Two two = make_connection();
  ibv_sge own = sge(0);
  ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
  ASSERT_EQ(post(*two.a, to_gone(IBV_WR_RDMA_WRITE, own)), 0);
  ASSERT_TRUE(is_readable(channel->fd, 30'000));
  ibv_cq* from = nullptr;
  void* own_context = nullptr;
  ASSERT_EQ(verbs.get_cq_event(channel, &from, &own_context), 0);
  verbs.ack_cq_events(from, 1);
  EXPECT_EQ(wait().status, IBV_WC_REM_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(Of, VerbsCallsOfGonePages,
                         ::testing::Values(nic::MappedPages::Kind::anonymous, nic::MappedPages::Kind::file),
                         [](const auto& one) {
                           return one.param == nic::MappedPages::Kind::file ? "AFile" : "Memory";
                         });

}  // namespace
}  // namespace sidelatch::softnic
