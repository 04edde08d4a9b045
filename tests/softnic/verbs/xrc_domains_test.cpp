// Handles of XRC domains.
#include "verbs_calls.h"

#include "common/file_descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

namespace sidelatch::softnic {
namespace {

using ::testing::NotNull;

// Linux's uverbs_free_xrcd(). Failed: such a handle was closed as long as the domain had another one.
TEST_F(VerbsCalls, AHandleOfAnXrcDomainIsInUseWhileSomethingWasMadeThroughIt) {
  const FileDescriptor file(::open(::testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = file.number();
  wanted.oflags = O_CREAT;
  ibv_xrcd* const used = ibv_open_xrcd(context, &wanted);
  ibv_xrcd* const other = ibv_open_xrcd(context, &wanted);
  ASSERT_THAT(used, NotNull());
  ASSERT_THAT(other, NotNull());
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = IBV_QPT_XRC_RECV;
  attributes.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attributes.xrcd = used;
  ibv_qp* const target = ibv_create_qp_ex(context, &attributes);
  ASSERT_THAT(target, NotNull());
  EXPECT_EQ(ibv_close_xrcd(used), EBUSY);
  // Another handle of the target is made through the other one of the domain.
  ibv_qp_open_attr by{};
  by.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  by.qp_num = target->qp_num;
  by.xrcd = other;
  by.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* const opened = ibv_open_qp(context, &by);
  ASSERT_THAT(opened, NotNull());
  EXPECT_EQ(verbs.destroy_qp(target), 0);
  EXPECT_EQ(ibv_close_xrcd(used), 0);
  EXPECT_EQ(ibv_close_xrcd(other), EBUSY);
  EXPECT_EQ(verbs.destroy_qp(opened), 0);

  ibv_srq_init_attr_ex receives{};
  receives.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  receives.srq_type = IBV_SRQT_XRC;
  receives.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  receives.pd = domain;
  receives.xrcd = ibv_open_xrcd(context, &wanted);
  receives.cq = queue;
  ASSERT_THAT(receives.xrcd, NotNull());
  ibv_srq* const shared = ibv_create_srq_ex(context, &receives);
  ASSERT_THAT(shared, NotNull());
  EXPECT_EQ(ibv_close_xrcd(other), 0);
  EXPECT_EQ(ibv_close_xrcd(receives.xrcd), EBUSY);
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
  EXPECT_EQ(ibv_close_xrcd(receives.xrcd), 0);
}

}  // namespace
}  // namespace sidelatch::softnic
