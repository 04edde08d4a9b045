// libsidelatch-verbs call by call, in this process: refusals, events and their acknowledgement, the values of each
// operation between two queue pairs of one NIC, and fork().
#include "verbs_calls.h"

#include "common/file_descriptor.h"
#include "roce/wire/wires.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace sidelatch::softnic {
namespace {

using namespace std::chrono_literals;
using ::testing::IsNull;
using ::testing::NotNull;

// ---- Posting.

TEST_F(VerbsCalls, SendsNeedRtsAndReceivesInit) {
  ibv_qp* const pair = make_pair();
  ibv_sge part = sge(0);
  ibv_send_wr first = request(IBV_WR_SEND, part);
  ibv_send_wr* refused = nullptr;
  EXPECT_EQ(ibv_post_send(pair, &first, &refused), EINVAL);
  EXPECT_EQ(refused, &first);
  EXPECT_EQ(post_receive(*pair, 0), EINVAL);
  ASSERT_EQ(to_init(*pair), 0);
  EXPECT_EQ(post_receive(*pair, 0), 0);
}

TEST_F(VerbsCalls, AChainIsPostedUpToTheRequestThatIsRefused) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  ibv_sge too_long = sge(0, 5);  // 40 bytes inline, of 32
  ibv_send_wr third = request(IBV_WR_RDMA_WRITE, part);
  ibv_send_wr second = request(IBV_WR_RDMA_WRITE, too_long);
  second.send_flags |= IBV_SEND_INLINE;
  second.next = &third;
  ibv_send_wr first = request(IBV_WR_RDMA_WRITE, part);
  first.next = &second;
  ibv_send_wr* refused = nullptr;
  EXPECT_EQ(ibv_post_send(a, &first, &refused), EINVAL);
  EXPECT_EQ(refused, &second);
  EXPECT_EQ(wait().wr_id, 42U);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(queue, 1, &none), 0);
}

// Programs inline a little without having asked, because drivers grant the room of the parts.
TEST_F(VerbsCalls, PartsGiveRoomForInlineData) {
  struct Case {
    std::uint32_t parts;
    std::uint32_t wanted;
    std::uint32_t granted;
  };
  for (const auto& [parts, wanted, granted] : {Case{1, 0, 16}, Case{2, 16, 32}, Case{8, 0, 64}, Case{1, 200, 200}}) {
    ibv_qp_init_attr attributes = small();
    attributes.cap.max_send_sge = parts;
    attributes.cap.max_inline_data = wanted;
    ibv_qp* const pair = verbs.create_qp(domain, &attributes);
    ASSERT_THAT(pair, NotNull());
    pairs.push_back(pair);
    EXPECT_EQ(attributes.cap.max_inline_data, granted);
  }
}

TEST_F(VerbsCalls, AFullQueueIsOutOfMemory) {
  ibv_qp* const pair = make_pair();
  ASSERT_EQ(to_init(*pair), 0);
  EXPECT_EQ(post_receive(*pair, 0), 0);
  EXPECT_EQ(post_receive(*pair, 0), 0);
  EXPECT_EQ(post_receive(*pair, 0), ENOMEM);
}

TEST_F(VerbsCalls, OperationsThatAreNotThereAreRefused) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  EXPECT_EQ(post(*a, request(IBV_WR_TSO, part)), EOPNOTSUPP);
  EXPECT_EQ(post(*a, request(IBV_WR_BIND_MW, part)), EINVAL);  // no window
  ibv_send_wr read = request(IBV_WR_RDMA_READ, part);
  read.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(*a, read), EINVAL);
  read.send_flags = 0;
  read.num_sge = 3;  // of 2
  EXPECT_EQ(post(*a, read), EINVAL);
}

// ---- Effects of operations.

TEST_F(VerbsCalls, WritesReadsAndAtomicsHaveTheirValues) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  words[0] = 5;
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  EXPECT_EQ(wait().opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(words[8], 5U);

  part = sge(1);
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_READ, part)), 0);
  const ibv_wc read = wait();
  EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(read.byte_len, 8U);
  EXPECT_EQ(read.qp_num, a->qp_num);
  EXPECT_EQ(words[1], 5U);

  ibv_send_wr atomic = request(IBV_WR_ATOMIC_FETCH_AND_ADD, part);
  atomic.wr.atomic.remote_addr = address_of(8);
  atomic.wr.atomic.rkey = region->rkey;
  atomic.wr.atomic.compare_add = 10;
  words[1] = 0;
  EXPECT_EQ(post(*a, atomic), 0);
  EXPECT_EQ(wait().opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(words[1], 5U);
  EXPECT_EQ(words[8], 15U);

  atomic.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  atomic.wr.atomic.compare_add = 15;
  atomic.wr.atomic.swap = 99;
  EXPECT_EQ(post(*a, atomic), 0);
  EXPECT_EQ(wait().opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(words[1], 15U);
  EXPECT_EQ(words[8], 99U);
}

TEST_F(VerbsCalls, ImmediateDataKeepsItsBytes) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ASSERT_EQ(post_receive(*b, 20, 7), 0);
  ibv_sge part = sge(0);
  ibv_send_wr send = request(IBV_WR_SEND_WITH_IMM, part);
  send.send_flags = 0;
  const std::array<std::uint8_t, 4> bytes{1, 2, 3, 4};
  std::memcpy(&send.imm_data, bytes.data(), bytes.size());
  words[0] = 77;
  EXPECT_EQ(post(*a, send), 0);
  const ibv_wc received = wait();
  EXPECT_EQ(received.wr_id, 7U);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(std::memcmp(&received.imm_data, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(words[20], 77U);
}

TEST_F(VerbsCalls, DatagramsBringTheirHeader) {
  ibv_qp* const a = make_pair_for_datagrams();
  ibv_qp* const b = make_pair_for_datagrams();
  ibv_sge into = sge(16, 6);  // 40 bytes and 8
  ibv_recv_wr receive{.wr_id = 3, .next = nullptr, .sg_list = &into, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_recv(b, &receive, &refused), 0);
  ibv_ah_attr address = own_address();
  ibv_ah* const handle = verbs.create_ah(domain, &address);
  ASSERT_THAT(handle, NotNull());
  EXPECT_EQ(verbs.dealloc_pd(domain), EBUSY);
  ibv_sge part = sge(0);
  ibv_send_wr send = request(IBV_WR_SEND, part);
  send.wr.ud.ah = nullptr;
  EXPECT_EQ(post(*a, send), EINVAL);
  send.send_flags = 0;
  send.wr.ud.ah = handle;
  send.wr.ud.remote_qpn = b->qp_num;
  send.wr.ud.remote_qkey = 7;
  words[0] = 123;
  EXPECT_EQ(post(*a, send), 0);
  const ibv_wc received = wait();
  EXPECT_EQ(received.byte_len, 48U);
  EXPECT_EQ(received.src_qp, a->qp_num);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_GRH});
  EXPECT_EQ(words[21], 123U);
  EXPECT_EQ(verbs.destroy_ah(handle), 0);
}

// A datagram to it could not be sent, and would stop those to everybody else.
TEST_F(VerbsCalls, AnAddressOfTwoFamiliesIsRefused) {
  ibv_ah_attr address = own_address();
  ibv_gid ours{};
  for (int index = 0; index < 2; ++index) {
    ASSERT_EQ(verbs.query_gid(context, 1, index, &ours), 0);
    address.grh.dgid = ours;
    address.grh.sgid_index = static_cast<std::uint8_t>(1 - index);
    errno = 0;
    EXPECT_THAT(verbs.create_ah(domain, &address), IsNull());
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(VerbsCalls, BuiltRequestsArePostedTogetherOrNotAtAll) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = attributes.recv_cq = queue;
  attributes.cap = small().cap;
  attributes.qp_type = IBV_QPT_RC;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = domain;
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
  ibv_qp* const a = ibv_create_qp_ex(context, &attributes);
  ASSERT_THAT(a, NotNull());
  pairs.push_back(a);
  ibv_qp* const b = make_pair();
  EXPECT_THAT(verbs.qp_to_qp_ex(b), IsNull());
  connect(*a, *b);
  ibv_qp_ex* const builder = verbs.qp_to_qp_ex(a);
  ASSERT_THAT(builder, NotNull());
  const auto add_write = [&](std::uint64_t value) {
    builder->wr_id = value;
    builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(builder, region->rkey, address_of(8));
    ibv_wr_set_inline_data(builder, &value, sizeof value);  // is copied at once
  };
  ibv_wr_start(builder);
  for (std::uint64_t value = 1; value <= 5; ++value) {  // of 4
    add_write(value);
  }
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  EXPECT_EQ(words[8], 0U);
  ibv_wr_start(builder);
  add_write(1);
  ibv_wr_send_tso(builder, nullptr, 0, 0);
  EXPECT_EQ(ibv_wr_complete(builder), EOPNOTSUPP);
  ibv_wr_start(builder);
  add_write(1);
  ibv_wr_abort(builder);

  ibv_wr_start(builder);
  add_write(6);
  add_write(7);
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(wait().wr_id, 6U);
  EXPECT_EQ(wait().wr_id, 7U);
  EXPECT_EQ(words[8], 7U);
}

// wr.ud and wr.rdma are one union: an address is no handle.
TEST_F(VerbsCalls, ADatagramQueuePairRefusesAWriteAndReadsNoHandleInIt) {
  ibv_qp* const pair = make_pair_for_datagrams();
  ibv_sge part = sge(0);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, part);
  write.wr.rdma.remote_addr = 8;
  EXPECT_EQ(post(*pair, write), EINVAL);
}

TEST_F(VerbsCalls, ExtendedQueuesArePolledOneByOne) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 8;
  attributes.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* const extended = ibv_create_cq_ex(context, &attributes);
  ASSERT_THAT(extended, NotNull());
  ibv_qp_init_attr with_extended = small();
  with_extended.send_cq = ibv_cq_ex_to_cq(extended);
  ibv_qp* const a = make_pair(with_extended);
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(extended, &none), ENOENT);
  const auto since = [](auto clock) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(decltype(clock)::now().time_since_epoch()).count());
  };
  const std::uint64_t began = since(std::chrono::steady_clock());
  const std::uint64_t began_at = since(std::chrono::system_clock());
  ibv_sge part = sge(0);
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_READ, part)), 0);
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (ibv_start_poll(extended, &none) == ENOENT && std::chrono::steady_clock::now() < limit) {
  }
  EXPECT_EQ(extended->wr_id, 42U);
  EXPECT_EQ(extended->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RDMA_READ);
  EXPECT_EQ(ibv_wc_read_byte_len(extended), 8U);
  EXPECT_EQ(ibv_wc_read_qp_num(extended), a->qp_num);
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  const auto now = static_cast<std::uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000 +
                   static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  const std::uint64_t first = ibv_wc_read_completion_ts(extended);
  EXPECT_GE(first, began);
  EXPECT_LE(first, now);
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(extended), began_at);
  while (ibv_next_poll(extended) == ENOENT && std::chrono::steady_clock::now() < limit) {
  }
  EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RDMA_WRITE);
  EXPECT_GE(ibv_wc_read_completion_ts(extended), first);
  ibv_end_poll(extended);
  EXPECT_EQ(verbs.destroy_qp(a), 0);
  std::erase(pairs, a);
  EXPECT_EQ(verbs.destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

// ---- Limits, and objects in use.

TEST_F(VerbsCalls, WhatIsInUseIsBusy) {
  ibv_srq_init_attr attributes{};
  attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  ibv_qp_init_attr with_shared = small();
  with_shared.srq = shared;
  ibv_qp* const pair = make_pair(with_shared);
  EXPECT_EQ(verbs.destroy_cq(queue), EBUSY);
  EXPECT_EQ(verbs.destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(verbs.destroy_srq(shared), EBUSY);
  EXPECT_EQ(verbs.dealloc_pd(domain), EBUSY);
  EXPECT_EQ(post_receive(*pair, 0), EINVAL);  // it has a shared receive queue
  EXPECT_EQ(verbs.destroy_qp(pair), 0);
  pairs.clear();
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

TEST_F(VerbsCalls, LimitsAreKept) {
  ibv_device_attr device{};
  ASSERT_EQ(verbs.query_device(context, &device), 0);
  errno = 0;
  EXPECT_THAT(verbs.create_cq(context, device.max_cqe + 1, nullptr, nullptr, 0), IsNull());
  EXPECT_EQ(errno, EINVAL);
  EXPECT_THAT(verbs.create_cq(context, 0, nullptr, nullptr, 0), IsNull());
  EXPECT_THAT(verbs.create_cq(context, 1, nullptr, nullptr, 1), IsNull());  // no such vector
  ibv_qp_init_attr attributes = small();
  attributes.cap.max_send_wr = static_cast<std::uint32_t>(device.max_qp_wr) + 1;
  EXPECT_THAT(make_pair(attributes), IsNull());
  attributes = small();
  attributes.cap.max_send_sge = static_cast<std::uint32_t>(device.max_sge) + 1;
  EXPECT_THAT(make_pair(attributes), IsNull());
  attributes = small();
  attributes.send_cq = nullptr;
  EXPECT_THAT(make_pair(attributes), IsNull());
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(VerbsCalls, ACompletionQueueIsResizedWithWhatItHolds) {
  ibv_qp* const pair = make_pair();
  ASSERT_EQ(to_init(*pair), 0);
  ASSERT_EQ(post_receive(*pair, 0, 1) | post_receive(*pair, 0, 2), 0);
  ASSERT_EQ(to_error(*pair), 0);
  EXPECT_EQ(verbs.resize_cq(queue, 1), EINVAL);
  EXPECT_EQ(queue->cqe, 64);
  EXPECT_EQ(verbs.resize_cq(queue, 2), 0);
  EXPECT_EQ(queue->cqe, 2);
  const ibv_wc flushed = wait();
  EXPECT_EQ(flushed.wr_id, 1U);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wait().wr_id, 2U);
}

// Nothing polls for them before: the call itself has to count them.
TEST_F(VerbsCalls, ACompletionQueueCountsTheDatagramsThatWerePostedBefore) {
  ibv_qp* const pair = make_pair_for_datagrams();
  ibv_ah_attr address = own_address();
  ibv_ah* const handle = verbs.create_ah(domain, &address);
  ASSERT_THAT(handle, NotNull());
  ibv_sge part = sge(0);
  ibv_send_wr send = request(IBV_WR_SEND, part);
  send.wr.ud.ah = handle;
  send.wr.ud.remote_qpn = pair->qp_num;
  send.wr.ud.remote_qkey = 7;
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(post(*pair, send) | post(*pair, send) | post(*pair, send), 0);
    ASSERT_EQ(verbs.resize_cq(queue, 2), EINVAL) << "round " << round;
    ASSERT_EQ(verbs.resize_cq(queue, 3), 0) << "round " << round;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
    }
  }
  EXPECT_EQ(verbs.destroy_ah(handle), 0);
}

TEST_F(VerbsCalls, MemoryThatIsNotThereIsRefused) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(static_cast<std::byte*>(pages) + page, page), 0);
  errno = 0;
  EXPECT_THAT(verbs.reg_mr(domain, pages, 2 * page, kRights), IsNull());
  EXPECT_EQ(errno, EFAULT);
  ASSERT_EQ(::mprotect(pages, page, PROT_READ), 0);
  EXPECT_THAT(verbs.reg_mr(domain, pages, page, kRights), IsNull());
  ibv_mr* const readable = verbs.reg_mr(domain, pages, page, IBV_ACCESS_REMOTE_READ);
  EXPECT_THAT(readable, NotNull());
  EXPECT_EQ(verbs.dereg_mr(readable), 0);
  ::munmap(pages, page);
  EXPECT_THAT(verbs.reg_mr(domain, words.data(), 8, IBV_ACCESS_REMOTE_WRITE), IsNull());  // without LOCAL_WRITE
  EXPECT_EQ(errno, EINVAL);
  EXPECT_THAT(verbs.reg_mr(domain, words.data(), 0, kRights), IsNull());
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(VerbsCalls, OnDemandMemoryMayComeLater) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.odp_caps.general_caps, std::uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* const on_demand = verbs.reg_mr(domain, pages, page, kRights | IBV_ACCESS_ON_DEMAND);
  ASSERT_THAT(on_demand, NotNull());
  ibv_mr* const implicit = verbs.reg_mr(domain, nullptr, SIZE_MAX, kRights | IBV_ACCESS_ON_DEMAND);
  ASSERT_THAT(implicit, NotNull());
  const auto read_into = [&](std::uint32_t lkey) {
    ibv_qp* const a = make_pair();
    ibv_qp* const b = make_pair();
    connect(*a, *b);
    ibv_sge part{.addr = reinterpret_cast<std::uintptr_t>(pages), .length = 8, .lkey = lkey};
    words[0] = 99;
    ibv_send_wr read = request(IBV_WR_RDMA_READ, part);
    read.wr.rdma = {.remote_addr = address_of(0), .rkey = region->rkey};
    EXPECT_EQ(post(*a, read), 0);
    return wait().status;
  };
  EXPECT_EQ(read_into(on_demand->lkey), IBV_WC_LOC_PROT_ERR);
  ibv_sge all{.addr = reinterpret_cast<std::uintptr_t>(pages), .length = 8, .lkey = on_demand->lkey};
  EXPECT_EQ(ibv_advise_mr(domain, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &all, 1), EFAULT);
  ASSERT_EQ(::mprotect(pages, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(ibv_advise_mr(domain, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &all, 1), 0);
  for (const std::uint32_t lkey : {on_demand->lkey, implicit->lkey}) {
    *static_cast<std::uint64_t*>(pages) = 0;
    EXPECT_EQ(read_into(lkey), IBV_WC_SUCCESS);
    EXPECT_EQ(*static_cast<std::uint64_t*>(pages), 99U);
  }
  EXPECT_EQ(verbs.dereg_mr(on_demand), 0);
  EXPECT_EQ(verbs.dereg_mr(implicit), 0);
  ::munmap(pages, page);
}

TEST_F(VerbsCalls, ReregisteredRegionsKeepTheirKey) {
  const std::uint32_t key = region->rkey;
  EXPECT_EQ(verbs.rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
            0);
  EXPECT_EQ(region->rkey, key);
  EXPECT_EQ(verbs.rereg_mr(region, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_READ, part)), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  EXPECT_EQ(wait().status, IBV_WC_REM_ACCESS_ERR);
}

// ---- States.

TEST_F(VerbsCalls, QueriesGiveWhatWasSet) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(verbs.query_qp(a, &attributes, IBV_QP_STATE | IBV_QP_AV, &created), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attributes.dest_qp_num, b->qp_num);
  EXPECT_EQ(attributes.timeout, 10);
  EXPECT_EQ(attributes.max_rd_atomic, 4);
  EXPECT_EQ(attributes.ah_attr.grh.hop_limit, 1);
  EXPECT_EQ(attributes.cap.max_send_wr, 4U);
  EXPECT_EQ(created.send_cq, queue);
  EXPECT_EQ(created.qp_type, IBV_QPT_RC);
  EXPECT_EQ(a->state, IBV_QPS_RTS);
}

TEST_F(VerbsCalls, AWrongTransitionChangesNothing) {
  ibv_qp* const pair = make_pair();
  EXPECT_EQ(to_rts(*pair), EINVAL);
  EXPECT_EQ(pair->state, IBV_QPS_RESET);
  ASSERT_EQ(to_init(*pair), 0);
  ibv_ah_attr address = own_address();
  address.is_global = 0;
  EXPECT_EQ(to_rtr(*pair, 2, address), EINVAL);
  address = own_address();
  address.grh.sgid_index = 9;
  EXPECT_EQ(to_rtr(*pair, 2, address), EINVAL);
  ibv_qp_attr attributes{};
  EXPECT_EQ(verbs.modify_qp(pair, &attributes, IBV_QP_RATE_LIMIT), EOPNOTSUPP);
}

TEST_F(VerbsCalls, AnAddressThatNobodyHasTimesOut) {
  ibv_qp* const pair = make_pair();
  ASSERT_EQ(to_init(*pair), 0);
  ibv_ah_attr address = own_address();
  address.grh.dgid.raw[15] = 0xee;
  EXPECT_EQ(to_rtr(*pair, 2, address), ETIMEDOUT);
}

// ---- Events.

TEST_F(VerbsCalls, AChannelTellsOnceAndDoesNotBlockIfToldSo) {
  make_nonblocking(channel->fd);
  ibv_cq* of = nullptr;
  void* user = nullptr;
  EXPECT_EQ(verbs.get_cq_event(channel, &of, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_qp* const pair = make_pair();
  ASSERT_EQ(to_init(*pair), 0);
  ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
  EXPECT_FALSE(is_readable(channel->fd, 0));
  ASSERT_EQ(post_receive(*pair, 0) | post_receive(*pair, 0), 0);
  ASSERT_EQ(to_error(*pair), 0);
  ASSERT_TRUE(is_readable(channel->fd, 10000));
  ASSERT_EQ(verbs.get_cq_event(channel, &of, &user), 0);
  EXPECT_EQ(of, queue);
  EXPECT_EQ(user, this);
  EXPECT_FALSE(is_readable(channel->fd, 0));  // once for both
  verbs.ack_cq_events(queue, 1);
}

TEST_F(VerbsCalls, WhoeverSleepsIsWoken) {
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ASSERT_EQ(post_receive(*b, 20, 9), 0);
  ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
  std::thread sender([&] {
    std::this_thread::sleep_for(20ms);
    ibv_sge part = sge(0);
    ibv_send_wr send = request(IBV_WR_SEND, part);
    send.send_flags = 0;
    EXPECT_EQ(post(*a, send), 0);
  });
  ibv_cq* of = nullptr;
  void* user = nullptr;
  EXPECT_EQ(verbs.get_cq_event(channel, &of, &user), 0);
  sender.join();
  verbs.ack_cq_events(queue, 1);
  EXPECT_EQ(wait().wr_id, 9U);
}

TEST_F(VerbsCalls, EventsOfADestroyedQueueAreForgotten) {
  ibv_cq* const other = verbs.create_cq(context, 4, nullptr, channel, 0);
  ibv_qp_init_attr attributes = small();
  attributes.recv_cq = other;
  ibv_qp* const pair = make_pair(attributes);
  ASSERT_EQ(to_init(*pair), 0);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ASSERT_EQ(post_receive(*pair, 0), 0);
  ASSERT_EQ(to_error(*pair), 0);
  ASSERT_TRUE(is_readable(channel->fd, 10000));
  ASSERT_EQ(verbs.destroy_qp(pair), 0);
  pairs.clear();
  ASSERT_EQ(verbs.destroy_cq(other), 0);
  EXPECT_FALSE(is_readable(channel->fd, 0));
}

TEST_F(VerbsCalls, AQueueEndsWhenItsEventsAreAcknowledged) {
  ibv_cq* const other = verbs.create_cq(context, 4, nullptr, channel, 0);
  ibv_qp_init_attr attributes = small();
  attributes.recv_cq = other;
  ibv_qp* const pair = make_pair(attributes);
  ASSERT_EQ(to_init(*pair), 0);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ASSERT_EQ(post_receive(*pair, 0), 0);
  ASSERT_EQ(to_error(*pair), 0);
  ibv_cq* of = nullptr;
  void* user = nullptr;
  ASSERT_EQ(verbs.get_cq_event(channel, &of, &user), 0);
  ASSERT_EQ(verbs.destroy_qp(pair), 0);
  pairs.clear();
  std::atomic<bool> is_acknowledged = false;
  std::thread late([&] {
    std::this_thread::sleep_for(30ms);
    is_acknowledged = true;
    verbs.ack_cq_events(other, 1);
  });
  EXPECT_EQ(verbs.destroy_cq(other), 0);
  EXPECT_TRUE(is_acknowledged);
  late.join();
}

TEST_F(VerbsCalls, AForbiddenAccessIsReportedAtBothEnds) {
  make_nonblocking(context->async_fd);
  ibv_async_event event{};
  EXPECT_EQ(verbs.get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, part);
  write.wr.rdma.rkey = ~region->rkey;
  EXPECT_EQ(post(*a, write), 0);
  const ibv_wc failed = wait();
  EXPECT_EQ(failed.wr_id, 42U);
  EXPECT_EQ(failed.status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(is_readable(context->async_fd, 10000));
  ASSERT_EQ(verbs.get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, b);
  verbs.ack_async_event(&event);
}

TEST_F(VerbsCalls, ASharedReceiveQueueReportsItsLimitAndServesItsPairs) {
  ibv_srq_init_attr attributes{};
  attributes.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const shared = verbs.create_srq(domain, &attributes);
  ASSERT_THAT(shared, NotNull());
  ibv_qp_init_attr with_shared = small();
  with_shared.srq = shared;
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair(with_shared);
  connect(*a, *b);
  ibv_sge into = sge(30);
  ibv_recv_wr second{.wr_id = 2, .next = nullptr, .sg_list = &into, .num_sge = 1};
  ibv_recv_wr first{.wr_id = 1, .next = &second, .sg_list = &into, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(shared, &first, &refused), 0);
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  EXPECT_EQ(verbs.modify_srq(shared, &limit, IBV_SRQ_LIMIT), 0);
  limit.max_wr = 1;  // there are two requests
  EXPECT_EQ(verbs.modify_srq(shared, &limit, IBV_SRQ_MAX_WR), EINVAL);
  limit.max_wr = 8;
  EXPECT_EQ(verbs.modify_srq(shared, &limit, IBV_SRQ_MAX_WR), 0);
  ASSERT_EQ(verbs.query_srq(shared, &limit), 0);
  EXPECT_EQ(limit.max_wr, 8U);
  EXPECT_EQ(limit.srq_limit, 2U);
  ibv_sge part = sge(0);
  ibv_send_wr send = request(IBV_WR_SEND, part);
  send.send_flags = 0;
  words[0] = 31;
  EXPECT_EQ(post(*a, send), 0);
  EXPECT_EQ(wait().wr_id, 1U);
  EXPECT_EQ(words[30], 31U);
  ibv_async_event event{};
  ASSERT_TRUE(is_readable(context->async_fd, 10000));
  ASSERT_EQ(verbs.get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, shared);
  verbs.ack_async_event(&event);
  for (ibv_qp* const pair : pairs) {
    EXPECT_EQ(verbs.destroy_qp(pair), 0);
  }
  pairs.clear();
  EXPECT_EQ(verbs.destroy_srq(shared), 0);
}

// A capture that does not fit on the disk, in place of a wire that fails.
struct SmallDisk {
  SmallDisk() {
    ::setenv("SIDELATCH_SOFTNIC_PCAP", path.c_str(), 1);
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    allow(before.rlim_cur);
    ::unsetenv("SIDELATCH_SOFTNIC_PCAP");
    ::unlink(path.c_str());
  }
  void allow(rlim_t bytes) const {
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }

  std::string path = ::testing::TempDir() + "small_disk_" + std::to_string(::getpid()) + ".pcap";
  rlimit before{};
};
class VerbsCallsOnASmallDisk : public SmallDisk, public VerbsCalls {};

TEST_F(VerbsCallsOnASmallDisk, AFailedWireIsAFatalEventOfTheDevice) {
  make_nonblocking(context->async_fd);
  // Frames to the NIC itself are on no wire.
  const auto other = roce::join_shared_memory_wire({.name = "verbs-" + std::to_string(::getpid())});
  ibv_ah_attr address = own_address();
  std::memcpy(&address.grh.dgid, other->addresses().ipv6.data(), sizeof address.grh.dgid);
  ibv_qp* const pair = make_pair();
  ASSERT_EQ(to_init(*pair) | to_rtr(*pair, 1, address) | to_rts(*pair), 0);
  ibv_async_event event{};
  EXPECT_EQ(verbs.get_async_event(context, &event), -1);
  ibv_port_attr port{};
  ASSERT_EQ(verbs_get_ctx(context)->query_port(context, 1, &port, sizeof port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);

  // What the NIC says of it finds no room, either.
  const FileDescriptor stderr_before(::dup(STDERR_FILENO));
  const FileDescriptor full(::open(::testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(stderr_before.valid() && full.valid());
  ASSERT_EQ(::write(full.number(), "full", 4), 4);
  ::dup2(full.number(), STDERR_FILENO);
  allow(1);
  ibv_sge part = sge(0);
  EXPECT_EQ(post(*pair, request(IBV_WR_RDMA_WRITE, part)), 0);
  const bool is_told = is_readable(context->async_fd, 10000);
  allow(before.rlim_cur);
  ::dup2(stderr_before.number(), STDERR_FILENO);
  ASSERT_TRUE(is_told);
  ASSERT_EQ(verbs.get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  verbs.ack_async_event(&event);
  EXPECT_EQ(verbs.get_async_event(context, &event), -1) << "said once";
  ASSERT_EQ(verbs_get_ctx(context)->query_port(context, 1, &port, sizeof port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
}

// ---- Unsupported operations.

template <class Pointer>
void expect_unsupported(Pointer made) {
  EXPECT_THAT(made, IsNull());
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
}

TEST_F(VerbsCalls, WhatIsNotThereSaysSo) {
  errno = 0;
  for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
    expect_unsupported(make_pair(small(type)));
  }
  expect_unsupported(verbs.reg_dmabuf_mr(domain, 0, 4096, 0, 0, kRights));
  // A descriptor of this kind that is no context's might be one of another process.
  const FileDescriptor strange(::eventfd(0, EFD_CLOEXEC));
  expect_unsupported(verbs.import_device(strange.number()));
  errno = 0;
  EXPECT_THAT(verbs.import_device(0), IsNull());
  EXPECT_EQ(errno, EINVAL);
  ibv_alloc_dm_attr memory{};
  expect_unsupported(ibv_alloc_dm(context, &memory));
  ibv_counters_init_attr counters{};
  expect_unsupported(ibv_create_counters(context, &counters));
  ibv_wq_init_attr work{};
  expect_unsupported(ibv_create_wq(context, &work));
  ibv_rwq_ind_table_init_attr table{};
  expect_unsupported(ibv_create_rwq_ind_table(context, &table));
  ibv_flow_action_esp_attr* const esp = nullptr;
  expect_unsupported(verbs_get_ctx(context)->create_flow_action_esp(context, esp));
  ibv_srq_init_attr_ex shared{};
  shared.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  shared.srq_type = IBV_SRQT_TM;
  shared.pd = domain;
  expect_unsupported(ibv_create_srq_ex(context, &shared));
  ibv_cq_init_attr_ex with_vlan{};
  with_vlan.cqe = 1;
  with_vlan.wc_flags = IBV_WC_EX_WITH_CVLAN;
  expect_unsupported(ibv_create_cq_ex(context, &with_vlan));
  ibv_qp* const pair = make_pair();
  expect_unsupported(ibv_create_flow(pair, nullptr));
  ibv_ece enhancement{};
  EXPECT_EQ(verbs.query_ece(pair, &enhancement), EOPNOTSUPP);
  ibv_modify_cq_attr moderation{};
  EXPECT_EQ(ibv_modify_cq(queue, &moderation), EOPNOTSUPP);
  ibv_qp_rate_limit_attr rate{};
  EXPECT_EQ(ibv_modify_qp_rate_limit(pair, &rate), EOPNOTSUPP);
}

// ---- Contexts and processes.

TEST_F(VerbsCalls, ContextsShareTheNic) {
  ibv_context* const other = verbs.open_device(context->device);
  ASSERT_THAT(other, NotNull());
  ibv_gid ours{};
  ibv_gid theirs{};
  EXPECT_EQ(verbs.query_gid(context, 1, 1, &ours), 0);
  EXPECT_EQ(verbs.query_gid(other, 1, 1, &theirs), 0);
  EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof ours), 0);
  EXPECT_EQ(verbs.query_gid(other, 1, 2, &theirs), -1);
  EXPECT_EQ(verbs.query_gid(other, 2, 0, &theirs), -1);
  __be16 key = 0;
  EXPECT_EQ(verbs.query_pkey(other, 1, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  // Its objects end with it but are not freed, because the program has pointers to them; kept here to avoid a reported
  // leak.
  static ibv_pd* left_domain = nullptr;
  static ibv_mr* left_region = nullptr;
  left_domain = verbs.alloc_pd(other);
  left_region = verbs.reg_mr(left_domain, words.data(), sizeof words, kRights);
  EXPECT_THAT(left_region, NotNull());
  EXPECT_EQ(verbs.close_device(other), 0);
}

// What an imported name ends is gone for the context that made it, too.
TEST_F(VerbsCalls, AnImportedObjectMayEndTheOriginal) {
  static ibv_pd* left_domain = nullptr;  // their structs stay, as above
  static ibv_mr* left_region = nullptr;
  ibv_context* const maker = verbs.open_device(context->device);
  left_domain = verbs.alloc_pd(maker);
  left_region = verbs.reg_mr(left_domain, words.data(), sizeof words, kRights);
  // Another opening knows none of them.
  errno = 0;
  EXPECT_THAT(verbs.import_pd(context, left_domain->handle), IsNull());
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_THAT(verbs.import_mr(domain, left_region->handle), IsNull());
  EXPECT_EQ(errno, ENOENT);
  ibv_context* const imported = verbs.import_device(::fcntl(maker->cmd_fd, F_DUPFD_CLOEXEC, 0));
  ASSERT_THAT(imported, NotNull());
  ibv_pd* const name = verbs.import_pd(imported, left_domain->handle);
  ASSERT_THAT(name, NotNull());
  ibv_mr* const region_name = verbs.import_mr(name, left_region->handle);
  ASSERT_THAT(region_name, NotNull());
  const std::uint32_t handle = region_name->handle;
  EXPECT_EQ(verbs.dereg_mr(region_name), 0);
  errno = 0;
  EXPECT_THAT(verbs.import_mr(name, handle), IsNull());
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(verbs.dealloc_pd(name), 0);
  EXPECT_THAT(verbs.import_pd(imported, left_domain->handle), IsNull());
  EXPECT_EQ(verbs.close_device(imported), 0);
  EXPECT_EQ(verbs.close_device(maker), 0);
}

// The kernel's file lives as long as one of its descriptors. So do the objects that were made by it.
TEST_F(VerbsCalls, ContextsOfOneOpeningMayBeClosedInAnyOrder) {
  struct Left {
    ibv_pd* domain = nullptr;
    ibv_mr* region = nullptr;
    ibv_cq* queue = nullptr;
  };
  static std::array<Left, 2> left;  // their structs stay, as above, those of both rounds
  for (const bool makes_first : {true, false}) {
    auto& [left_domain, left_region, left_queue] = left.at(makes_first ? 0 : 1);
    ibv_context* const maker = verbs.open_device(context->device);
    ibv_context* const imported = verbs.import_device(::fcntl(maker->cmd_fd, F_DUPFD_CLOEXEC, 0));
    ASSERT_THAT(imported, NotNull());
    left_domain = verbs.alloc_pd(maker);
    left_region = verbs.reg_mr(left_domain, words.data(), sizeof words, kRights);
    left_queue = verbs.create_cq(maker, 8, nullptr, nullptr, 0);
    ibv_pd* const name = verbs.import_pd(imported, left_domain->handle);
    ASSERT_THAT(name, NotNull());
    ibv_qp_init_attr wanted = small();
    wanted.send_cq = wanted.recv_cq = left_queue;
    ibv_qp* const a = verbs.create_qp(name, &wanted);
    ibv_qp* const b = verbs.create_qp(name, &wanted);
    ASSERT_THAT(a, NotNull());
    ASSERT_THAT(b, NotNull());
    if (makes_first) {
      ASSERT_EQ(verbs.close_device(maker), 0);
    }
    connect(*a, *b);
    ibv_sge part = sge(0);
    part.lkey = left_region->lkey;
    ibv_send_wr write = request(IBV_WR_RDMA_WRITE, part);
    write.wr.rdma.rkey = left_region->rkey;
    ASSERT_EQ(post(*a, write), 0);
    EXPECT_EQ(wait_at(*left_queue).status, IBV_WC_SUCCESS);
    EXPECT_EQ(verbs.destroy_qp(a), 0);
    EXPECT_EQ(verbs.destroy_qp(b), 0);
    verbs.unimport_pd(name);
    EXPECT_EQ(verbs.close_device(imported), 0);
    if (!makes_first) {
      EXPECT_EQ(verbs.close_device(maker), 0);
    }
    ibv_pd* const next = verbs.alloc_pd(context);
    EXPECT_EQ(next->handle, left_domain->handle) << "it ended with the last context";
    EXPECT_EQ(verbs.dealloc_pd(next), 0);
  }
}

TEST_F(VerbsCalls, AnImportedContextGivesItsDescriptorsBack) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = open_files();
  for (int i = 0; i < 3; ++i) {
    ibv_context* const imported = verbs.import_device(::fcntl(context->cmd_fd, F_DUPFD_CLOEXEC, 0));
    ASSERT_THAT(imported, NotNull());
    EXPECT_EQ(verbs.close_device(imported), 0);
  }
  EXPECT_EQ(open_files(), before);
}

// An XRC target lives as long as one of its handles, and each hears of its events.
TEST_F(VerbsCalls, AnXrcTargetOutlivesTheHandleThatItWasMadeWith) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = -1;
  wanted.oflags = O_CREAT;
  ibv_xrcd* const xrc = ibv_open_xrcd(context, &wanted);
  ASSERT_THAT(xrc, NotNull());
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = IBV_QPT_XRC_RECV;
  attributes.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attributes.xrcd = xrc;
  ibv_qp* const first = ibv_create_qp_ex(context, &attributes);
  ASSERT_THAT(first, NotNull());
  ibv_qp_open_attr by{};
  by.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  by.qp_num = first->qp_num;
  by.xrcd = xrc;
  by.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* const second = ibv_open_qp(context, &by);
  ASSERT_THAT(second, NotNull());
  EXPECT_EQ(verbs.destroy_qp(first), 0);
  ibv_qp* const third = ibv_open_qp(context, &by);
  ASSERT_THAT(third, NotNull());
  ibv_qp_attr state{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(verbs.query_qp(third, &state, IBV_QP_STATE, &made), 0);
  EXPECT_EQ(verbs.destroy_qp(second), 0);
  EXPECT_EQ(ibv_close_xrcd(xrc), EBUSY);
  EXPECT_EQ(verbs.destroy_qp(third), 0);
  errno = 0;
  EXPECT_THAT(ibv_open_qp(context, &by), IsNull());
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_xrcd(xrc), 0);
}

TEST_F(VerbsCalls, AnXrcDomainEndsWithTheContextOfItsLastHandle) {
  static std::array<ibv_xrcd*, 3> left{};  // their structs stay, as above
  const FileDescriptor file(::open(::testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  const auto open_with = [&](ibv_context* by, int flags) {
    ibv_xrcd_init_attr wanted{};
    wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    wanted.fd = file.number();
    wanted.oflags = flags;
    errno = 0;
    return ibv_open_xrcd(by, &wanted);
  };
  ibv_context* const other = verbs.open_device(context->device);
  left[0] = open_with(other, O_CREAT | O_EXCL);
  left[1] = open_with(other, O_CREAT);
  EXPECT_THAT(left[0], NotNull());
  EXPECT_THAT(left[1], NotNull());
  ibv_xrcd* const ours = open_with(context, 0);
  ASSERT_THAT(ours, NotNull());
  EXPECT_EQ(verbs.close_device(other), 0);
  EXPECT_THAT(open_with(context, O_CREAT | O_EXCL), IsNull());
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_xrcd(ours), 0);

  ibv_context* const last = verbs.open_device(context->device);
  left[2] = open_with(last, O_CREAT | O_EXCL);
  EXPECT_THAT(left[2], NotNull()) << "nobody has it any more";
  EXPECT_EQ(verbs.close_device(last), 0);
  ibv_xrcd* const again = open_with(context, O_CREAT | O_EXCL);
  ASSERT_THAT(again, NotNull());
  EXPECT_EQ(ibv_close_xrcd(again), 0);
}

TEST_F(VerbsCalls, AContextEndsWhoseXrcDomainAnotherOneStillUses) {
  static ibv_xrcd* left = nullptr;  // its struct stays, as above
  const FileDescriptor file(::open(::testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = file.number();
  wanted.oflags = O_CREAT;
  ibv_context* const other = verbs.open_device(context->device);
  left = ibv_open_xrcd(other, &wanted);
  ASSERT_THAT(left, NotNull());
  ibv_xrcd* const ours = ibv_open_xrcd(context, &wanted);
  ASSERT_THAT(ours, NotNull());
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = IBV_QPT_XRC_RECV;
  attributes.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attributes.xrcd = left;
  errno = 0;
  EXPECT_THAT(ibv_create_qp_ex(context, &attributes), IsNull()) << "it has a handle of its own";
  EXPECT_EQ(errno, EINVAL);
  ibv_context* const imported = verbs.import_device(::fcntl(other->cmd_fd, F_DUPFD_CLOEXEC, 0));
  ASSERT_THAT(imported, NotNull());
  ibv_qp* const target = ibv_create_qp_ex(imported, &attributes);
  ASSERT_THAT(target, NotNull());
  EXPECT_EQ(ibv_close_xrcd(ours), 0);  // the other handle keeps the domain
  EXPECT_EQ(verbs.close_device(other), 0);
  EXPECT_EQ(verbs.destroy_qp(target), 0);
  EXPECT_EQ(verbs.close_device(imported), 0);
}

// Nobody has the address, so that resolving it would take its time first.
TEST_F(VerbsCalls, AWrongTransitionIsRefusedBeforeAnyAddressIsAskedFor) {
  ibv_qp* const pair = make_pair();
  ibv_ah_attr nobody = own_address();
  nobody.grh.dgid.raw[15] ^= 0x55;
  EXPECT_EQ(to_rtr(*pair, 5, nobody), EINVAL);  // in RESET
  ASSERT_EQ(to_init(*pair), 0);
  EXPECT_EQ(to_rtr(*pair, 5, nobody), ETIMEDOUT);
}

// Whether each thread of this process but the calling one waits for something, as the kernel tells.
bool other_threads_sleep() {
  const std::string self = std::to_string(::gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) {
      continue;
    }
    std::ifstream file(task.path() / "stat");
    const std::string stat(std::istreambuf_iterator<char>(file), {});
    const std::size_t name_end = stat.rfind(") ");
    if (name_end == std::string::npos || stat[name_end + 2] != 'S') {
      return false;
    }
  }
  return true;
}

TEST_F(VerbsCalls, AChildHasNoPartInItsParentsNic) {
  ibv_gid ours{};
  ASSERT_EQ(verbs.query_gid(context, 1, 0, &ours), 0);
  ibv_qp* const a = make_pair();
  ibv_qp* const b = make_pair();
  connect(*a, *b);
  ibv_sge part = sge(0);
  ASSERT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  ASSERT_EQ(wait().status, IBV_WC_SUCCESS);
  // While a thread starts, it has locks of ASan's allocator, for which a child of that moment waits for ever. That what
  // was posted has arrived says nothing about the NIC's thread: a caller does its work.
  while (!other_threads_sleep()) {
    std::this_thread::sleep_for(1ms);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ibv_wc completion{};
    if (ibv_poll_cq(queue, 1, &completion) != -EIO || verbs.alloc_pd(context) != nullptr || errno != EIO) {
      ::_exit(1);
    }
    ibv_context* const own = verbs.open_device(context->device);
    ibv_gid theirs{};
    if (own == nullptr || verbs.query_gid(own, 1, 0, &theirs) != 0 || std::memcmp(&ours, &theirs, sizeof ours) == 0) {
      ::_exit(2);
    }
    if (verbs.close_device(own) != 0) {
      ::_exit(3);
    }
    errno = 0;
    if (verbs.close_device(context) != -1 || errno != EIO) {
      ::_exit(4);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(post(*a, request(IBV_WR_RDMA_WRITE, part)), 0);
  EXPECT_EQ(wait().status, IBV_WC_SUCCESS);
}

// What the next test runs, in a process of its own: a fork of this one would have locks of threads that it has not.
TEST(DISABLED_InAnotherProcess, ClosesNothing) {
  static ibv_context* left = nullptr;  // no leak
  const Verbs& verbs = Verbs::load();
  const std::string name = std::getenv("SIDELATCH_TEST_WIRE");     // NOLINT(concurrency-mt-unsafe)
  ::setenv("SIDELATCH_SOFTNIC_WIRE", ("shm:" + name).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  ibv_device** const list = verbs.get_device_list(nullptr);
  left = verbs.open_device(list[0]);
  verbs.free_device_list(list);
  const char* const file = std::getenv("SIDELATCH_TEST_FILE");      // NOLINT(concurrency-mt-unsafe)
  std::exit(left != nullptr && ::access(file, F_OK) == 0 ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
}

TEST(VerbsProcess, AProcessThatClosesNothingLeavesTheWire) {
  const std::string name = "verbs-left-" + std::to_string(::getpid());
  const std::string file = "/dev/shm/sidelatch-" + std::to_string(::geteuid()) + "-" + name;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("SIDELATCH_TEST_WIRE", name.c_str(), 1);
    ::setenv("SIDELATCH_TEST_FILE", file.c_str(), 1);
    ::execl("/proc/self/exe", "test_softnic", "--gtest_filter=DISABLED_InAnotherProcess.ClosesNothing",
            "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace sidelatch::softnic
