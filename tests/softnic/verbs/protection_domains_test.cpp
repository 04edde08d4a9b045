// Protection domains of libsidelatch-verbs: imported ones (ibv_import_pd(3)), and parent domains that have allocators
// (ibv_alloc_parent_domain(3)).
#include "verbs_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <set>

namespace sidelatch::softnic {
namespace {

using ::testing::IsNull;
using ::testing::NotNull;

struct Allocator {
  enum class Answer { memory, none, heap };
  Answer answer = Answer::memory;
  std::set<void*> given{};
  int asked = 0;

  static void* alloc(ibv_pd* /*domain*/, void* user, std::size_t bytes, std::size_t alignment, std::uint64_t /*type*/) {
    auto& self = *static_cast<Allocator*>(user);
    ++self.asked;
    if (self.answer == Answer::none) {
      return nullptr;
    }
    if (self.answer == Answer::heap) {
      return reinterpret_cast<void*>(~std::uintptr_t{0});  // IBV_ALLOCATOR_USE_DEFAULT
    }
    void* memory = nullptr;
    EXPECT_EQ(::posix_memalign(&memory, alignment, bytes), 0);
    self.given.insert(memory);
    return memory;
  }
  static void free(ibv_pd* /*domain*/, void* user, void* memory, std::uint64_t /*type*/) {
    EXPECT_EQ(static_cast<Allocator*>(user)->given.erase(memory), 1U);
    std::free(memory);
  }
};

class ParentDomains : public VerbsCalls {
 protected:
  ParentDomains() {
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = domain;
    attributes.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attributes.alloc = Allocator::alloc;
    attributes.free = Allocator::free;
    attributes.pd_context = &allocator;
    parent = ibv_alloc_parent_domain(context, &attributes);
  }
  ~ParentDomains() override {
    EXPECT_EQ(verbs.dealloc_pd(parent), 0);
    EXPECT_TRUE(allocator.given.empty());
  }

  Allocator allocator;
  ibv_pd* parent = nullptr;
};

TEST_F(ParentDomains, GiveMemoryToTheirObjects) {
  ASSERT_THAT(parent, NotNull());
  ibv_srq_init_attr shared_attributes{};
  shared_attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(parent, &shared_attributes);
  ibv_cq_init_attr_ex queue_attributes{};
  queue_attributes.cqe = 8;
  queue_attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  queue_attributes.parent_domain = parent;
  ibv_cq_ex* const extended = ibv_create_cq_ex(context, &queue_attributes);
  ASSERT_THAT(extended, NotNull());
  ibv_qp_init_attr attributes = small();
  attributes.srq = shared;
  attributes.recv_cq = ibv_cq_ex_to_cq(extended);
  ibv_qp* const a = verbs.create_qp(parent, &attributes);
  ibv_qp* const b = make_pair();
  ASSERT_THAT(a, NotNull());
  EXPECT_EQ(allocator.asked, 3);
  EXPECT_EQ(allocator.given, (std::set<void*>{shared, extended, a}));

  connect(*b, *a);
  ibv_sge into = sge(30);
  ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &into, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(shared, &receive, &refused), 0);
  words[0] = 5;
  ibv_sge part = sge(0);
  ASSERT_EQ(post(*b, request(IBV_WR_SEND, part)), 0);
  EXPECT_EQ(wait_at(*ibv_cq_ex_to_cq(extended)).status, IBV_WC_SUCCESS);
  EXPECT_EQ(words[30], 5U);

  EXPECT_EQ(verbs.dealloc_pd(parent), EBUSY);
  EXPECT_EQ(verbs.destroy_qp(a), 0);
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
  EXPECT_EQ(verbs.destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

TEST_F(ParentDomains, MayRefuseOrLeaveItToTheHeap) {
  allocator.answer = Allocator::Answer::none;
  ibv_qp_init_attr attributes = small();
  errno = 0;
  EXPECT_THAT(verbs.create_qp(parent, &attributes), IsNull());
  EXPECT_EQ(errno, ENOMEM);
  allocator.answer = Allocator::Answer::heap;
  ibv_qp* const pair = verbs.create_qp(parent, &attributes);
  ASSERT_THAT(pair, NotNull());
  EXPECT_EQ(verbs.destroy_qp(pair), 0);
  // What the NIC refuses gives its memory back.
  allocator.answer = Allocator::Answer::memory;
  attributes.cap.max_send_sge = 10'000;
  EXPECT_THAT(verbs.create_qp(parent, &attributes), IsNull());
  EXPECT_EQ(errno, EINVAL);
  EXPECT_TRUE(allocator.given.empty());
  EXPECT_EQ(allocator.asked, 3);
}

TEST_F(ParentDomains, NeedBothFunctions) {
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = domain;
  attributes.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  attributes.alloc = Allocator::alloc;
  errno = 0;
  EXPECT_THAT(ibv_alloc_parent_domain(context, &attributes), IsNull());
  EXPECT_EQ(errno, EINVAL);
  ibv_cq_init_attr_ex queue_attributes{};
  queue_attributes.cqe = 8;
  queue_attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  queue_attributes.parent_domain = domain;  // is none
  EXPECT_THAT(ibv_create_cq_ex(context, &queue_attributes), IsNull());
  EXPECT_EQ(errno, EINVAL);
}

// The name ends, and the domain stays. (ASan sees a handle that still looks at the name.)
TEST_F(VerbsCalls, AnAddressHandleOutlivesTheImportedNameOfItsDomain) {
  ibv_pd* const name = verbs.import_pd(context, domain->handle);
  ASSERT_THAT(name, NotNull());
  ibv_ah_attr address = own_address();
  ibv_ah* const handle = verbs.create_ah(name, &address);
  ASSERT_THAT(handle, NotNull());
  verbs.unimport_pd(name);
  EXPECT_EQ(verbs.destroy_ah(handle), 0);
}

// As on Linux's soft-RoCE. The names of one domain are no other domains.
TEST_F(VerbsCalls, ADatagramByAnAddressHandleOfAnotherDomainFails) {
  ibv_pd* const other = verbs.alloc_pd(context);
  ibv_pd* const name = verbs.import_pd(context, domain->handle);
  ibv_ah_attr address = own_address();
  ibv_ah* const foreign = verbs.create_ah(other, &address);
  ibv_ah* const own = verbs.create_ah(name, &address);
  ASSERT_THAT(foreign, NotNull());
  ASSERT_THAT(own, NotNull());
  ibv_qp* const pair = make_pair_for_datagrams();
  ibv_sge part = sge(0);
  ibv_send_wr send = request(IBV_WR_SEND, part);
  send.wr.ud.remote_qpn = pair->qp_num;
  send.wr.ud.remote_qkey = 7;
  send.wr.ud.ah = own;
  ASSERT_EQ(post(*pair, send), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  send.wr.ud.ah = foreign;
  ASSERT_EQ(post(*pair, send), 0);
  EXPECT_EQ(wait().status, IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(verbs.destroy_ah(own), 0);
  EXPECT_EQ(verbs.destroy_ah(foreign), 0);
  verbs.unimport_pd(name);
  EXPECT_EQ(verbs.dealloc_pd(other), 0);
}

}  // namespace
}  // namespace sidelatch::softnic
