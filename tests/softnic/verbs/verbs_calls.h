// A device of libsidelatch-verbs in this process with the usual needs of a test, for tests that call it call by call.
//
//   TEST_F(VerbsCalls, ...) { ibv_qp* const a = make_pair(); ... connect(*a, *b); post(*a, request(IBV_WR_SEND, part));
//   }
#pragma once

#include "verbs_library.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sidelatch::softnic {

inline constexpr int kRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// A device with the usual needs of a test, and a buffer.
class VerbsCalls : public ::testing::Test {
 protected:
  VerbsCalls() {
    ibv_device** const list = verbs.get_device_list(nullptr);
    context = verbs.open_device(list[0]);
    verbs.free_device_list(list);
    domain = verbs.alloc_pd(context);
    channel = verbs.create_comp_channel(context);
    queue = verbs.create_cq(context, 64, this, channel, 0);
    region = verbs.reg_mr(domain, words.data(), sizeof words, kRights);
  }
  ~VerbsCalls() override {
    for (ibv_qp* const pair : pairs) {
      EXPECT_EQ(verbs.destroy_qp(pair), 0);
    }
    EXPECT_EQ(verbs.dereg_mr(region), 0);
    EXPECT_EQ(verbs.destroy_cq(queue), 0);
    EXPECT_EQ(verbs.destroy_comp_channel(channel), 0);
    EXPECT_EQ(verbs.dealloc_pd(domain), 0);
    EXPECT_EQ(verbs.close_device(context), 0);
  }

  [[nodiscard]] ibv_qp_init_attr small(ibv_qp_type type = IBV_QPT_RC) const {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.cap = {.max_send_wr = 4, .max_recv_wr = 2, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 16};
    attributes.qp_type = type;
    return attributes;
  }
  ibv_qp* make_pair(ibv_qp_init_attr attributes) {
    ibv_qp* const pair = verbs.create_qp(domain, &attributes);
    if (pair != nullptr) {
      pairs.push_back(pair);
    }
    return pair;
  }
  ibv_qp* make_pair() { return make_pair(small()); }

  int to_init(ibv_qp& pair) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    attributes.qkey = 7;
    return verbs.modify_qp(&pair, &attributes,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                               (pair.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  }
  [[nodiscard]] ibv_ah_attr own_address() const {
    ibv_ah_attr address{};
    verbs.query_gid(context, 1, 0, &address.grh.dgid);
    address.grh.hop_limit = 1;
    address.is_global = 1;
    address.port_num = 1;
    return address;
  }
  int to_rtr(ibv_qp& pair, std::uint32_t peer, const ibv_ah_attr& address) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer;
    attributes.max_dest_rd_atomic = 4;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr = address;
    return verbs.modify_qp(&pair, &attributes,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_rts(ibv_qp& pair) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 10;
    attributes.retry_cnt = 3;
    attributes.rnr_retry = 3;
    attributes.max_rd_atomic = 4;
    return verbs.modify_qp(
        &pair, &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  int to_error(ibv_qp& pair) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    return verbs.modify_qp(&pair, &attributes, IBV_QP_STATE);
  }
  ibv_qp* make_pair_for_datagrams() {
    ibv_qp* const pair = make_pair(small(IBV_QPT_UD));
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    bool is_ready = to_init(*pair) == 0 && verbs.modify_qp(pair, &attributes, IBV_QP_STATE) == 0;
    attributes.qp_state = IBV_QPS_RTS;
    is_ready = is_ready && verbs.modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0;
    EXPECT_TRUE(is_ready);
    return pair;
  }
  void connect(ibv_qp& a, ibv_qp& b) const {
    const ibv_ah_attr address = own_address();
    ASSERT_EQ(to_init(a) | to_init(b), 0);
    ASSERT_EQ(to_rtr(a, b.qp_num, address) | to_rtr(b, a.qp_num, address), 0);
    ASSERT_EQ(to_rts(a) | to_rts(b), 0);
  }

  [[nodiscard]] ibv_sge sge(std::size_t word, std::uint32_t count = 1) const {
    return {.addr = address_of(word), .length = count * 8, .lkey = region->lkey};
  }
  [[nodiscard]] std::uint64_t address_of(std::size_t word) const {
    return reinterpret_cast<std::uintptr_t>(&words.at(word));
  }
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& part) const {
    ibv_send_wr made{};
    made.wr_id = 42;
    made.sg_list = &part;
    made.num_sge = 1;
    made.opcode = opcode;
    made.send_flags = IBV_SEND_SIGNALED;
    made.wr.rdma.remote_addr = address_of(8);
    made.wr.rdma.rkey = region->rkey;
    return made;
  }
  [[nodiscard]] ibv_wc wait() const { return wait_at(*queue); }
  [[nodiscard]] static ibv_wc wait_at(ibv_cq& from) {
    ibv_wc completion{};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (ibv_poll_cq(&from, 1, &completion) == 0) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "no completion";
        break;
      }
    }
    return completion;
  }
  int post(ibv_qp& pair, ibv_send_wr request) const {
    ibv_send_wr* refused = nullptr;
    return ibv_post_send(&pair, &request, &refused);
  }
  int post_receive(ibv_qp& pair, std::size_t word, std::uint64_t id = 1) const {
    ibv_sge part = sge(word);
    ibv_recv_wr receive{.wr_id = id, .next = nullptr, .sg_list = &part, .num_sge = 1};
    ibv_recv_wr* refused = nullptr;
    return ibv_post_recv(&pair, &receive, &refused);
  }

  const Verbs& verbs = Verbs::load();
  alignas(8) std::array<std::uint64_t, 64> words{};
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_mr* region = nullptr;
  std::vector<ibv_qp*> pairs;
};

inline bool is_readable(int descriptor, int milliseconds) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, milliseconds) == 1;
}

inline void make_nonblocking(int descriptor) {
  ASSERT_EQ(::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK), 0);
}

}  // namespace sidelatch::softnic
