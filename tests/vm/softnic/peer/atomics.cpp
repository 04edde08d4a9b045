// Atomics, and lists of requests: a request that is executed once has one possible value.
#include "scenarios.h"

#include <algorithm>
#include <deque>

namespace sidelatch::peer {

namespace {

// Requests 0 .. count, `kDepth` of them on their way; `check(i)` when request i has completed. The old value of request
// i comes to 8 * (i % kDepth) in `old`.
template <class Make, class Check>
void pipeline(Link& link, std::size_t count, ibv_wc_opcode opcode, Make make, Check check) {
  for (std::size_t posted = 0, done = 0; done < count;) {
    if (posted < count && posted < done + kDepth) {
      link.post(make(posted));
      ++posted;
      continue;
    }
    expect_done(link.completion(), done, opcode, "an atomic");
    check(done);
    ++done;
  }
}

void count_by_adding(const Session& session, Link& link, Buffer& words, Buffer& old, bool active) {
  const std::size_t count = session.options.count;
  const std::uint64_t first = ~std::uint64_t{0} - 10;  // it wraps around
  words.set_word(64, first);
  session.barrier("the counter is set");
  if (active) {
    pipeline(
        link, count, IBV_WC_FETCH_ADD,
        [&](std::size_t i) {
          return Request{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                         .from = {old.piece(8 * (i % kDepth), 8)},
                         .remote_offset = 64,
                         .id = i,
                         .compare_add = 3};
        },
        [&](std::size_t i) {
          const std::uint64_t found = old.word(8 * (i % kDepth));
          require(found == first + 3 * i, "FETCH_ADD {} found {:#x}, not {:#x}", i, found, first + 3 * i);
        });
  }
  session.barrier("all are added");
  require(active || words.word(64) == first + 3 * count, "{} FETCH_ADDs made {:#x}, not {:#x}", count, words.word(64),
          first + 3 * count);
}

// Request i replaces the last successful value by its own; every third one expects a wrong value and fails.
void chain_of_swaps(const Session& session, Link& link, Buffer& words, Buffer& old, bool active) {
  const std::size_t count = session.options.count;
  const auto fails = [](std::size_t i) { return i % 3 == 2; };
  const auto value_before = [&](std::size_t i) {
    std::uint64_t value = 0;
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      value = fails(earlier) ? value : 1000 + earlier;
    }
    return value;
  };
  words.set_word(128, 0);
  session.barrier("the word is 0");
  if (active) {
    pipeline(
        link, count, IBV_WC_COMP_SWAP,
        [&](std::size_t i) {
          return Request{.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
                         .from = {old.piece(8 * (i % kDepth), 8)},
                         .remote_offset = 128,
                         .id = i,
                         .compare_add = fails(i) ? value_before(i) ^ 0x8000000000000000U : value_before(i),
                         .swap = 1000 + i};
        },
        [&](std::size_t i) {
          const std::uint64_t found = old.word(8 * (i % kDepth));
          require(found == value_before(i), "CMP_SWAP {} found {}, not {}", i, found, value_before(i));
        });
  }
  session.barrier("all are swapped");
  require(active || words.word(128) == value_before(count), "the chain of CMP_SWAPs ends with {}, not {}",
          words.word(128), value_before(count));
}

// Two connections on one word: each old value is found by one of them, and grows on each connection.
void count_by_two(const Session& session, Buffer& words, Buffer& old, bool active) {
  const std::size_t count = session.options.count;
  Link links[] = {Link(session, words, {}), Link(session, words, {})};
  words.set_word(192, 0);
  session.barrier("the word of two is 0");
  if (active) {
    std::vector<bool> is_found(2 * count);
    std::size_t posted[2] = {0, 0};
    std::size_t done[2] = {0, 0};
    std::uint64_t least[2] = {0, 0};
    for (std::size_t turn = 0; done[0] + done[1] < 2 * count; ++turn) {
      const std::size_t which = turn % 2;
      const auto place = [&](std::size_t i) { return 8 * (which * kDepth + i % kDepth); };
      while (posted[which] < count && posted[which] < done[which] + kDepth) {
        links[which].post({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                           .from = {old.piece(place(posted[which]), 8)},
                           .remote_offset = 192,
                           .id = posted[which],
                           .compare_add = 1});
        ++posted[which];
      }
      if (done[which] < count) {
        expect_done(links[which].completion(), done[which], IBV_WC_FETCH_ADD, "a FETCH_ADD of two connections");
        const std::uint64_t found = old.word(place(done[which]));
        require(found < is_found.size() && !is_found[found], "{} was found twice", found);
        require(found >= least[which], "{} was found after {}", found, least[which]);
        is_found[found] = true;
        least[which] = found;
        ++done[which];
      }
    }
  }
  session.barrier("both have counted");
  require(active || words.word(192) == 2 * count, "two connections counted to {}, not {}", words.word(192), 2 * count);
}

}  // namespace

void atomics(const Session& session) {
  Buffer words(session.device, 4096, kAllRights);
  Buffer old(session.device, 4096, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, words, {});
  both_ways(session, [&](bool active) { count_by_adding(session, link, words, old, active); });
  both_ways(session, [&](bool active) { chain_of_swaps(session, link, words, old, active); });
  both_ways(session, [&](bool active) { count_by_two(session, words, old, active); });
}

void chain(const Session& session) {
  const std::size_t length = 3 * session.options.mtu + 17;
  const std::size_t rounds = std::max<std::size_t>(session.options.count / 10, 5);
  Buffer memory(session.device, 4 * length, kAllRights);
  Buffer local(session.device, 4 * length, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {});
  constexpr std::size_t kCounter = 0;
  const std::size_t first = 64;
  const std::size_t second = 64 + length;
  both_ways(session, [&](bool active) {
    memory.set_word(kCounter, 0);
    for (std::size_t round = 0; round < rounds; ++round) {
      clear(memory.bytes(first, 2 * length));
      clear(local.bytes());
      if (!active) {
        link.post_receive(round, {memory.piece(8, 8)});
      }
      session.barrier("a round begins");
      if (active) {
        fill(local.bytes(first, length), round);
        local.set_word(0, round);
        // There, back, and with the fence the returned bytes to another place; only the last one reports.
        std::vector<Request> list = {
            {.opcode = IBV_WR_RDMA_WRITE,
             .from = {local.piece(first, length)},
             .remote_offset = first,
             .id = 1,
             .flags = 0},
            {.opcode = IBV_WR_RDMA_READ,
             .from = {local.piece(second, length)},
             .remote_offset = first,
             .id = 2,
             .flags = 0},
            {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
             .from = {local.piece(8, 8)},
             .remote_offset = kCounter,
             .id = 3,
             .flags = 0,
             .compare_add = 1},
            {.opcode = IBV_WR_RDMA_WRITE,
             .from = {local.piece(second, length)},
             .remote_offset = second,
             .id = 4,
             .flags = IBV_SEND_FENCE},
            {.opcode = IBV_WR_SEND, .from = {local.piece(0, 8)}, .id = 5, .flags = IBV_SEND_SIGNALED}};
        if (session.device.has_good_fence()) {
          link.post(list);
        } else {
          list[2].flags = IBV_SEND_SIGNALED;
          link.post(std::span(list).first(3));
          expect_done(link.completion(), 3, IBV_WC_FETCH_ADD, "the middle of a list");
          link.post(std::span(list).last(2));
        }
        expect_done(link.completion(), 5, IBV_WC_SEND, "the end of a list");
        require(local.word(8) == round, "the counter was {} in round {}", local.word(8), round);
      } else {
        // The SEND comes after the requests before it.
        expect_done(link.received(), round, IBV_WC_RECV, "the end of a list");
        require(memory.word(8) == round, "the message of round {} is {}", round, memory.word(8));
        require(memory.word(kCounter) == round + 1, "round {} counted to {}", round, memory.word(kCounter));
        expect_filled(memory.bytes(first, length), round, "the WRITE of a list");
        expect_filled(memory.bytes(second, length), round, "the WRITE behind the fence");
      }
      session.barrier("a round ends");
      expect_nothing_more(link.send_queue(), "a list");
    }
  });
}

}  // namespace sidelatch::peer
