// UD: datagrams with and without immediate data, the header in front of them, and answers to their senders. The wire
// must not lose any, because nobody repeats a datagram.
#include "scenarios.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sidelatch::peer {

namespace {

constexpr std::uint32_t kKey = 0x11223344;
constexpr std::size_t kHeader = 40;  // room for a GRH in front of every datagram
constexpr std::size_t kSlotBytes = 4096 + 256;

struct Station {
  ibv_gid gid;
  std::uint32_t number;
};

class Datagrams {
 public:
  explicit Datagrams(const Session& session)
      : device_(session.device),
        memory(session.device, 64 * kSlotBytes, IBV_ACCESS_LOCAL_WRITE),
        sends(ibv_create_cq(session.device.context(), 64, nullptr, nullptr, 0)),
        receives(ibv_create_cq(session.device.context(), 64, nullptr, nullptr, 0)) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_UD;
    wanted.send_cq = sends.get();
    wanted.recv_cq = receives.get();
    wanted.cap = {.max_send_wr = 32, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
    pair.reset(ibv_create_qp(session.device.domain(), &wanted));
    require(pair != nullptr, "no UD queue pair: {}", std::strerror(errno));
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qkey = kKey;
    modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attributes.qp_state = IBV_QPS_RTR;
    modify(attributes, IBV_QP_STATE);
    attributes.qp_state = IBV_QPS_RTS;
    modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
    partner = session.control.exchange("UD queue pairs", Station{session.device.gid(), pair->qp_num});
    ibv_ah_attr route = route_to(session.device, partner.gid);
    handle.reset(ibv_create_ah(session.device.domain(), &route));
    require(handle != nullptr, "no address handle: {}", std::strerror(errno));
  }

  void post_receive(std::uint64_t slot) {
    clear(memory.bytes(slot * kSlotBytes, kSlotBytes));
    ibv_sge piece = memory.piece(slot * kSlotBytes, kSlotBytes);
    ibv_recv_wr request{};
    request.wr_id = slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    require(ibv_post_recv(pair.get(), &request, &refused) == 0, "a UD receive cannot be posted");
  }

  // Sends the bytes of the slot; waits until they have left.
  void send(ibv_ah* to, std::size_t slot, std::size_t length, std::optional<std::uint32_t> immediate,
            std::uint32_t key = kKey) {
    ibv_sge piece = memory.piece(slot * kSlotBytes, length);
    ibv_send_wr request{};
    request.wr_id = slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    request.opcode = immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    request.imm_data = htonl(immediate.value_or(0));
    request.wr.ud = {.ah = to, .remote_qpn = partner.number, .remote_qkey = key};
    ibv_send_wr* refused = nullptr;
    require(ibv_post_send(pair.get(), &request, &refused) == 0, "a datagram cannot be posted");
    expect_done(next(sends.get()), slot, IBV_WC_SEND, "a datagram");
  }

  // The header contains the sender's address: the full header with IPv6, its last 20 bytes with IPv4 (the RoCEv2 annex
  // of the InfiniBand specification, A17.4.5.2).
  void expect_header(std::size_t slot) {
    const auto header = memory.bytes(slot * kSlotBytes, kHeader);
    const bool is_v4 = device_.gid().raw[10] == 0xff && device_.gid().raw[0] == 0;
    const std::size_t size = is_v4 ? 4 : 16;
    const auto source = header.subspan(is_v4 ? 20 + 12 : 8, size);
    const auto target = header.subspan(is_v4 ? 20 + 16 : 24, size);
    require(std::memcmp(source.data(), partner.gid.raw + 16 - size, size) == 0, "the header has another source");
    require(std::memcmp(target.data(), device_.gid().raw + 16 - size, size) == 0, "the header has another target");
  }

 private:
  void modify(ibv_qp_attr& attributes, int mask) {
    const int error = ibv_modify_qp(pair.get(), &attributes, mask);
    require(error == 0, "the UD queue pair cannot be modified: {}", std::strerror(error));
  }

  const Device& device_;

 public:
  Buffer memory;
  Owned<ibv_cq, ibv_destroy_cq> sends;
  Owned<ibv_cq, ibv_destroy_cq> receives;
  Owned<ibv_qp, ibv_destroy_qp> pair;
  Owned<ibv_ah, ibv_destroy_ah> handle;
  Station partner{};
};

}  // namespace

void datagrams(const Session& session) {
  Datagrams ud(session);
  // A datagram is one packet, of at most the smaller MTU of the two ports.
  const std::size_t longest = std::min(session.device.mtu(), session.control.exchange("MTU", session.device.mtu()));
  const std::size_t all[] = {0, 1, 2, 3, 4, 33, 62, 255, longest - 1, longest};
  constexpr std::size_t kAnswer = 40;  // slot
  both_ways(session, [&](bool active) {
    for (std::size_t i = 0; i <= std::size(all) && !active; ++i) {
      ud.post_receive(i);
    }
    if (active) {
      ud.post_receive(kAnswer);
    }
    session.barrier("UD receives are posted");
    for (std::size_t i = 0; i < std::size(all); ++i) {
      const bool has_immediate = i % 2 != 0;
      if (active) {
        fill(ud.memory.bytes(i * kSlotBytes, all[i]), i);
        ud.send(ud.handle.get(), i, all[i],
                has_immediate ? std::optional<std::uint32_t>(0xC0DE0000U + i) : std::nullopt);
        continue;
      }
      const ibv_wc got = next(ud.receives.get());
      expect_done(got, i, IBV_WC_RECV, "a received datagram");
      require(got.byte_len == kHeader + all[i], "datagram {}: {} bytes, not {}", i, got.byte_len, kHeader + all[i]);
      require((got.wc_flags & IBV_WC_GRH) != 0, "datagram {} has no header", i);
      require(got.src_qp == ud.partner.number, "datagram {} is of queue pair {}", i, got.src_qp);
      require(((got.wc_flags & IBV_WC_WITH_IMM) != 0) == has_immediate, "datagram {}: immediate data or not", i);
      require(!has_immediate || ntohl(got.imm_data) == 0xC0DE0000U + i, "datagram {}: immediate data {:#x}", i,
              ntohl(got.imm_data));
      ud.expect_header(i);
      expect_filled(ud.memory.bytes(i * kSlotBytes + kHeader, all[i]), i, "a datagram");
      expect_untouched(ud.memory.bytes(i * kSlotBytes + kHeader + all[i], kSlotBytes - kHeader - all[i]),
                       "behind a datagram");
    }
    // A datagram with the wrong key is dropped; the next one takes the receive. The answer goes to its stated sender.
    if (active) {
      fill(ud.memory.bytes(20 * kSlotBytes, 16), 20);
      fill(ud.memory.bytes(21 * kSlotBytes, 24), 21);
      ud.send(ud.handle.get(), 20, 16, {}, kKey + 1);
      ud.send(ud.handle.get(), 21, 24, {});
      const ibv_wc got = next(ud.receives.get());
      expect_done(got, kAnswer, IBV_WC_RECV, "an answer");
      expect_filled(ud.memory.bytes(kAnswer * kSlotBytes + kHeader, 8), 22, "an answer");
      return;
    }
    ibv_wc got = next(ud.receives.get());
    expect_done(got, std::size(all), IBV_WC_RECV, "a datagram behind one with a wrong key");
    require(got.byte_len == kHeader + 24, "a datagram with a wrong key was received");
    const auto header = ud.memory.bytes(std::size(all) * kSlotBytes, kHeader);
    const Owned<ibv_ah, ibv_destroy_ah> back(ibv_create_ah_from_wc(
        session.device.domain(), &got, reinterpret_cast<ibv_grh*>(header.data()), /*port_num=*/1));
    require(back != nullptr, "no address handle of a completion: {}", std::strerror(errno));
    fill(ud.memory.bytes(22 * kSlotBytes, 8), 22);
    ud.send(back.get(), 22, 8, {});
  });
}

}  // namespace sidelatch::peer
