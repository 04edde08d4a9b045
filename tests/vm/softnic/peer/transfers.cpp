// SEND, WRITE and READ: exactly the right bytes change.
#include "scenarios.h"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::peer {

namespace {

constexpr std::size_t kStride = 24576;  // for the longest message, and a guard
constexpr std::size_t kLongest = 20000;
// A receive has two pieces; the bytes between them must stay unchanged.
constexpr std::size_t kFirst = 100;
constexpr std::size_t kGap = 28;

std::uint32_t immediate_of(std::size_t i) { return 0xA0B0C000U + static_cast<std::uint32_t>(i); }

void post_receive_in_pieces(Link& link, const Buffer& memory, std::size_t slot) {
  const std::size_t at = slot * kStride;
  link.post_receive(slot, {memory.piece(at, kFirst), memory.piece(at + kFirst + kGap, kLongest)});
}

void expect_message(Buffer& memory, std::size_t slot, std::size_t length, std::uint64_t seed) {
  const std::size_t first = std::min(length, kFirst);
  const auto all = memory.bytes(slot * kStride, kStride);
  std::vector<std::byte> message(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first));
  const auto rest = all.subspan(kFirst + kGap, length - first);
  message.insert(message.end(), rest.begin(), rest.end());
  expect_filled(message, seed, "a message");
  expect_untouched(all.subspan(first, kFirst + kGap - first), "between the pieces of a receive");
  expect_untouched(all.subspan(kFirst + kGap + length - first), "behind a message");
}

// Length `length`, in three pieces of which one is a byte.
std::vector<ibv_sge> pieces(const Buffer& memory, std::size_t at, std::size_t length) {
  if (length < 3) {
    return length == 0 ? std::vector<ibv_sge>{} : std::vector{memory.piece(at, length)};
  }
  const std::size_t half = length / 2;
  return {memory.piece(at, half), memory.piece(at + half, 1), memory.piece(at + half + 1, length - half - 1)};
}

void expect_receive(const ibv_wc& got, std::size_t i, std::size_t length, bool has_immediate, std::string_view what) {
  expect_done(got, i, IBV_WC_RECV, what);
  require(got.byte_len == length, "{} {}: {} bytes, not {}", what, i, got.byte_len, length);
  require(((got.wc_flags & IBV_WC_WITH_IMM) != 0) == has_immediate, "{} {}: immediate data or not", what, i);
  require(!has_immediate || ntohl(got.imm_data) == immediate_of(i), "{} {}: immediate data {:#x}", what, i,
          ntohl(got.imm_data));
}

}  // namespace

std::vector<std::size_t> lengths(std::size_t mtu) {
  return {0, 1, 2, 3, 4, 5, 8, 63, 64, 255, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 1, kLongest};
}

void send(const Session& session) {
  const std::vector<std::size_t> all = lengths(session.options.mtu);
  Buffer memory(session.device, all.size() * kStride, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {});
  both_ways(session, [&](bool active) {
    clear(memory.bytes());
    for (std::size_t i = 0; i < all.size() && !active; ++i) {
      post_receive_in_pieces(link, memory, i);
    }
    session.barrier("receives are posted");
    for (std::size_t i = 0; i < all.size() && active; ++i) {
      fill(memory.bytes(i * kStride, all[i]), i);
      link.post({.opcode = i % 2 == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
                 .from = pieces(memory, i * kStride, all[i]),
                 .id = i,
                 .immediate = immediate_of(i)});
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (active) {
        expect_done(link.completion(), i, IBV_WC_SEND, "a SEND");
      } else {
        expect_receive(link.received(), i, all[i], i % 2 != 0, "a received SEND");
      }
    }
    session.barrier("all have come");
    expect_nothing_more(active ? link.send_queue() : link.receive_queue(), "SENDs");
    for (std::size_t i = 0; i < all.size() && !active; ++i) {
      expect_message(memory, i, all[i], i);
    }
  });
}

void share(const Session& session) {
  const std::size_t messages = 2 * std::min<std::size_t>(session.options.count, 100);
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = static_cast<std::uint32_t>(messages), .max_sge = 1, .srq_limit = 0};
  const Owned<ibv_srq, ibv_destroy_srq> shared(ibv_create_srq(session.device.domain(), &wanted));
  require(shared != nullptr, "no shared receive queue: {}", std::strerror(errno));
  const std::size_t stride = 2 * session.options.mtu;
  Buffer memory(session.device, messages * stride, IBV_ACCESS_LOCAL_WRITE);
  Link links[] = {Link(session, memory, {.shared_receives = shared.get()}),
                  Link(session, memory, {.shared_receives = shared.get()})};
  both_ways(session, [&](bool active) {
    clear(memory.bytes());
    for (std::size_t i = 0; i < messages && !active; ++i) {
      ibv_sge piece = memory.piece(i * stride, stride);
      ibv_recv_wr request{};
      request.wr_id = i;
      request.sg_list = &piece;
      request.num_sge = 1;
      ibv_recv_wr* refused = nullptr;
      require(ibv_post_srq_recv(shared.get(), &request, &refused) == 0, "a shared receive cannot be posted");
    }
    session.barrier("shared receives are posted");
    // Message number i of each connection has length 1 + 7 i, modulo the available room.
    const auto length = [&](std::size_t i) { return 1 + (7 * i) % (stride - 1); };
    if (active) {
      std::size_t done[2] = {0, 0};
      for (std::size_t i = 0; i < messages; ++i) {
        const std::size_t which = i % 2;
        if (i / 2 >= 16) {
          expect_done(links[which].completion(), done[which]++, IBV_WC_SEND, "a SEND to a shared queue");
        }
        fill(memory.bytes(i * stride, length(i / 2)), i);
        links[which].post({.from = {memory.piece(i * stride, length(i / 2))}, .id = i / 2});
      }
      for (std::size_t which = 0; which < 2; ++which) {
        while (done[which] < messages / 2) {
          expect_done(links[which].completion(), done[which]++, IBV_WC_SEND, "a SEND to a shared queue");
        }
      }
    } else {
      // Each connection keeps its order; only the queue decides which receive is taken.
      std::vector<bool> is_taken(messages);
      for (std::size_t which = 0; which < 2; ++which) {
        for (std::size_t i = 0; i < messages / 2; ++i) {
          const ibv_wc got = links[which].received();
          expect_status(got, IBV_WC_SUCCESS, "a shared receive");
          require(got.qp_num == links[which].queue_pair()->qp_num, "a shared receive is of another queue pair");
          require(got.wr_id < messages && !is_taken[got.wr_id], "the shared receive {} completes twice", got.wr_id);
          is_taken[got.wr_id] = true;
          require(got.byte_len == length(i), "message {} has {} bytes, not {}", i, got.byte_len, length(i));
          expect_filled(memory.bytes(got.wr_id * stride, length(i)), 2 * i + which, "a message in a shared receive");
        }
        expect_nothing_more(links[which].receive_queue(), "shared receives");
      }
    }
  });
}

void notify(const Session& session) {
  const Owned<ibv_comp_channel, ibv_destroy_comp_channel> channel(ibv_create_comp_channel(session.device.context()));
  require(channel != nullptr, "no completion channel: {}", std::strerror(errno));
  Buffer memory(session.device, 4096, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {.channel = channel.get()});
  const auto wait_for = [&](ibv_cq* queue, std::string_view what) {
    pollfd descriptor = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    require(::poll(&descriptor, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1,
            "{}: no event comes", what);
    ibv_cq* rung = nullptr;
    void* context = nullptr;
    require(ibv_get_cq_event(channel.get(), &rung, &context) == 0, "{}: the event cannot be taken", what);
    require(rung == queue, "{}: the event is of another queue", what);
    ibv_ack_cq_events(rung, 1);
  };
  both_ways(session, [&](bool active) {
    if (active) {
      session.barrier("asked for any event");
      require(ibv_req_notify_cq(link.send_queue(), 0) == 0, "no notification");
      link.post({.from = {memory.piece(0, 8)}, .id = 1});
      wait_for(link.send_queue(), "a SEND");
      expect_done(link.completion(), 1, IBV_WC_SEND, "a notified SEND");
      session.barrier("asked for a solicited event");
      link.post({.from = {memory.piece(0, 8)}, .id = 2});
      expect_done(link.completion(), 2, IBV_WC_SEND, "an unsolicited SEND");
      session.barrier("an unsolicited one was sent");
      session.barrier("nobody was told");
      link.post({.from = {memory.piece(0, 8)}, .id = 3, .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED});
      expect_done(link.completion(), 3, IBV_WC_SEND, "a solicited SEND");
      return;
    }
    for (std::uint64_t id = 1; id <= 3; ++id) {
      link.post_receive(id, {memory.piece(64 * id, 8)});
    }
    require(ibv_req_notify_cq(link.receive_queue(), 0) == 0, "no notification");
    session.barrier("asked for any event");
    wait_for(link.receive_queue(), "a receive");
    expect_done(link.received(), 1, IBV_WC_RECV, "a notified receive");
    require(ibv_req_notify_cq(link.receive_queue(), 1) == 0, "no notification of solicited ones");
    session.barrier("asked for a solicited event");
    session.barrier("an unsolicited one was sent");
    // The SEND has completed at the sender, so it has arrived here. An event would come with its completion.
    expect_done(link.received(), 2, IBV_WC_RECV, "an unsolicited receive");
    pollfd descriptor = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    require(::poll(&descriptor, 1, 0) == 0, "an unsolicited SEND made an event");
    session.barrier("nobody was told");
    wait_for(link.receive_queue(), "a solicited receive");
    expect_done(link.received(), 3, IBV_WC_RECV, "a solicited receive");
  });
}

void write(const Session& session) {
  const std::vector<std::size_t> all = lengths(session.options.mtu);
  Buffer memory(session.device, all.size() * kStride, kAllRights);
  Buffer local(session.device, all.size() * kStride, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {});
  both_ways(session, [&](bool active) {
    clear(memory.bytes());
    for (std::size_t i = 0; i < all.size() && !active; ++i) {
      link.post_receive(i, {});
    }
    session.barrier("memory is cleared");
    for (std::size_t i = 0; i < all.size() && active; ++i) {
      fill(local.bytes(i * kStride, all[i]), 100 + i);
      // At an odd address.
      link.post({.opcode = i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
                 .from = pieces(local, i * kStride, all[i]),
                 .remote_offset = i * kStride + 33,
                 .id = i,
                 .immediate = immediate_of(i)});
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (active) {
        expect_done(link.completion(), i, IBV_WC_RDMA_WRITE, "a WRITE");
      } else if (i % 2 != 0) {
        // Only those with immediate data take a receive.
        const ibv_wc got = link.received();
        expect_done(got, i / 2, IBV_WC_RECV_RDMA_WITH_IMM, "a WRITE with immediate");
        require((got.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(got.imm_data) == immediate_of(i),
                "WRITE {}: immediate data {:#x}", i, ntohl(got.imm_data));
        require(got.byte_len == all[i], "WRITE {}: {} bytes, not {}", i, got.byte_len, all[i]);
      }
    }
    session.barrier("all are written");
    for (std::size_t i = 0; i < all.size() && !active; ++i) {
      expect_untouched(memory.bytes(i * kStride, 33), "in front of a WRITE");
      expect_filled(memory.bytes(i * kStride + 33, all[i]), 100 + i, "a WRITE");
      expect_untouched(memory.bytes(i * kStride + 33 + all[i], kStride - 33 - all[i]), "behind a WRITE");
    }
    expect_nothing_more(active ? link.send_queue() : link.receive_queue(), "WRITEs");
  });
}

void read(const Session& session) {
  const std::vector<std::size_t> all = lengths(session.options.mtu);
  Buffer memory(session.device, all.size() * kStride, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  Buffer local(session.device, all.size() * kStride, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {});
  both_ways(session, [&](bool active) {
    fill(memory.bytes(), 7);
    clear(local.bytes());
    session.barrier("memory is filled");
    // All at once: the queue pair lets only some of them go.
    for (std::size_t i = 0; i < all.size() && active; ++i) {
      link.post(
          {.opcode = IBV_WR_RDMA_READ, .from = pieces(local, i * kStride + 5, all[i]), .remote_offset = i, .id = i});
    }
    for (std::size_t i = 0; i < all.size() && active; ++i) {
      expect_done(link.completion(), i, IBV_WC_RDMA_READ, "a READ");
    }
    std::vector<std::byte> wanted(memory.size());
    fill(wanted, 7);
    for (std::size_t i = 0; i < all.size() && active; ++i) {
      expect_untouched(local.bytes(i * kStride, 5), "in front of a READ");
      expect_equal(local.bytes(i * kStride + 5, all[i]), std::span(wanted).subspan(i, all[i]), "a READ");
      expect_untouched(local.bytes(i * kStride + 5 + all[i], kStride - 5 - all[i]), "behind a READ");
    }
    session.barrier("all is read");
    expect_equal(memory.bytes(), wanted, "memory that was read");
    expect_nothing_more(link.send_queue(), "READs");
  });
}

void send_inline(const Session& session) {
  Buffer memory(session.device, 65 * 256, kAllRights);
  Buffer local(session.device, 256, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {});
  both_ways(session, [&](bool active) {
    clear(memory.bytes());
    for (std::size_t i = 0; i <= 64 && !active; ++i) {
      link.post_receive(i, {memory.piece(i * 256 + 128, 128)});
    }
    session.barrier("receives for inline");
    for (std::size_t i = 0; i <= 64 && active; ++i) {
      // The same bytes are overwritten at once, because inline data was copied. It needs no key, either.
      fill(local.bytes(0, i), i);
      ibv_sge piece = local.piece(0, i);
      piece.lkey = 0;
      link.post({.opcode = IBV_WR_RDMA_WRITE,
                 .from = {piece},
                 .remote_offset = i * 256,
                 .id = 2 * i,
                 .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED});
      link.post({.from = {piece}, .id = 2 * i + 1, .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED});
      clear(local.bytes());
      expect_done(link.completion(), 2 * i, IBV_WC_RDMA_WRITE, "an inline WRITE");
      expect_done(link.completion(), 2 * i + 1, IBV_WC_SEND, "an inline SEND");
    }
    for (std::size_t i = 0; i <= 64 && !active; ++i) {
      expect_receive(link.received(), i, i, false, "an inline SEND");
      expect_filled(memory.bytes(i * 256, i), i, "an inline WRITE");
      expect_untouched(memory.bytes(i * 256 + i, 128 - i), "behind an inline WRITE");
      expect_filled(memory.bytes(i * 256 + 128, i), i, "an inline SEND");
      expect_untouched(memory.bytes(i * 256 + 128 + i, 128 - i), "behind an inline SEND");
    }
  });
}

}  // namespace sidelatch::peer
