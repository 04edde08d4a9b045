// Memory windows of libsidelatch-verbs: ibv_alloc_mw(3), ibv_bind_mw(3).
#include "verbs_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace sidelatch::softnic {
namespace {

using ::testing::NotNull;

class MemoryWindows : public VerbsCalls {
 protected:
  MemoryWindows() {
    a = make_pair();
    b = make_pair();
    connect(*a, *b);
  }
  [[nodiscard]] ibv_mr* open_words(ibv_pd* within) {
    return verbs.reg_mr(within, words.data(), sizeof words, kRights | IBV_ACCESS_MW_BIND);
  }
  // Of the second queue pair, for what the first one sends.
  [[nodiscard]] ibv_mw_bind binding_of(ibv_mr* opened) const {
    return {
        .wr_id = 7,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {.mr = opened, .addr = address_of(8), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
  }

  ibv_qp* a = nullptr;
  ibv_qp* b = nullptr;
};

// A parent domain is another name for its domain. (verbs.h itself compares the window's with the region's by name.)
TEST_F(MemoryWindows, OfAParentDomainAreBoundByTheQueuePairsOfItsDomain) {
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = domain;
  ibv_pd* const parent = ibv_alloc_parent_domain(context, &attributes);
  ASSERT_THAT(parent, NotNull());
  ibv_mw* const window = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
  ASSERT_THAT(window, NotNull());
  ibv_mr* const opened = open_words(parent);
  ibv_mw_bind bound = binding_of(opened);
  ASSERT_EQ(ibv_bind_mw(b, window, &bound), 0);
  const ibv_wc done = wait();
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.wr_id, 7U);

  words[0] = 5;
  ibv_sge part = sge(0);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, part);
  write.wr.rdma.rkey = window->rkey;
  ASSERT_EQ(post(*a, write), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[8], 5U);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(verbs.dereg_mr(opened), 0);
  EXPECT_EQ(verbs.dealloc_pd(parent), 0);
}

TEST_F(MemoryWindows, OfAnotherDomainAreRefused) {
  ibv_pd* const other = verbs.alloc_pd(context);
  ibv_mw* const window = ibv_alloc_mw(other, IBV_MW_TYPE_1);
  ASSERT_THAT(window, NotNull());
  const std::uint32_t key = window->rkey;
  ibv_mr* const opened = open_words(other);
  ibv_mw_bind bound = binding_of(opened);
  EXPECT_EQ(ibv_bind_mw(b, window, &bound), EPERM);
  EXPECT_EQ(window->rkey, key);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(verbs.dereg_mr(opened), 0);
  EXPECT_EQ(verbs.dealloc_pd(other), 0);
}

}  // namespace
}  // namespace sidelatch::softnic
