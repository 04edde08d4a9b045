// Null regions of libsidelatch-verbs: ibv_alloc_null_mr(3).
#include "verbs_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace sidelatch::softnic {
namespace {

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

}  // namespace
}  // namespace sidelatch::softnic
