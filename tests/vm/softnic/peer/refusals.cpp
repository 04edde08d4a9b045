// Requests that a responder must refuse, and the status that the requester gets: the table of responder errors of the
// InfiniBand specification (9.9.3) by way of the NAK codes (9.7.5.2.8).
#include "scenarios.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

namespace sidelatch::peer {

namespace {

constexpr std::size_t kBytes = 8192;

struct Refusal {
  const char* what;
  Request request;
  std::size_t length;
  ibv_wc_status wanted;
  int memory_rights = kAllRights;
  int pair_rights = kAllRights;
  /// The size of the receive that is posted, if any.
  std::optional<std::size_t> receive{};
  /// Linux's rxe refuses it at the post.
  bool rxe_refuses_to_post = false;
  /// The status that a requester gets from Linux's rxe, if different.
  std::optional<ibv_wc_status> from_rxe{};
};

constexpr int kWithout(int right) { return kAllRights & ~right; }

std::vector<Refusal> refusals() {
  const Request write = {.opcode = IBV_WR_RDMA_WRITE};
  const Request read = {.opcode = IBV_WR_RDMA_READ};
  const Request add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1};
  const Request swap = {.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .swap = 1};
  const auto keyed = [](Request request) {
    request.key = 0x7fffff00;
    return request;
  };
  const auto at = [](Request request, std::size_t offset) {
    request.remote_offset = offset;
    return request;
  };
  return {
      {"WRITE with a wrong key", keyed(write), 16, IBV_WC_REM_ACCESS_ERR},
      {"READ with a wrong key", keyed(read), 16, IBV_WC_REM_ACCESS_ERR},
      {"FETCH_ADD with a wrong key", keyed(add), 8, IBV_WC_REM_ACCESS_ERR},
      {"CMP_SWAP with a wrong key", keyed(swap), 8, IBV_WC_REM_ACCESS_ERR},
      {"WRITE over the end", at(write, kBytes - 8), 16, IBV_WC_REM_ACCESS_ERR},
      {"WRITE of many packets over the end", at(write, 16), kBytes, IBV_WC_REM_ACCESS_ERR},
      {"READ over the end", at(read, kBytes - 8), 16, IBV_WC_REM_ACCESS_ERR},
      {"FETCH_ADD behind the end", at(add, kBytes), 8, IBV_WC_REM_ACCESS_ERR},
      {"WRITE to what may not be written", write, 16, IBV_WC_REM_ACCESS_ERR, kWithout(IBV_ACCESS_REMOTE_WRITE)},
      {"READ of what may not be read", read, 16, IBV_WC_REM_ACCESS_ERR, kWithout(IBV_ACCESS_REMOTE_READ)},
      {"FETCH_ADD without the right", add, 8, IBV_WC_REM_ACCESS_ERR, kWithout(IBV_ACCESS_REMOTE_ATOMIC)},
      {"WRITE through a queue pair without the right", write, 16, IBV_WC_REM_INV_REQ_ERR, kAllRights,
       kWithout(IBV_ACCESS_REMOTE_WRITE)},
      {"READ through a queue pair without the right", read, 16, IBV_WC_REM_INV_REQ_ERR, kAllRights,
       kWithout(IBV_ACCESS_REMOTE_READ)},
      {"FETCH_ADD through a queue pair without the right", add, 8, IBV_WC_REM_INV_REQ_ERR, kAllRights,
       kWithout(IBV_ACCESS_REMOTE_ATOMIC)},
      {"FETCH_ADD at no multiple of 8", at(add, 12), 8, IBV_WC_REM_INV_REQ_ERR, kAllRights, kAllRights, {}, true},
      // rxe of Linux 6.1 reports an error of its own, on both sides.
      {"SEND that is longer than the receive",
       {.opcode = IBV_WR_SEND},
       64,
       IBV_WC_REM_INV_REQ_ERR,
       kAllRights,
       kAllRights,
       63,
       false,
       IBV_WC_REM_OP_ERR},
  };
}

void try_one(const Session& session, const Refusal& refusal, bool active) {
  Buffer memory(session.device, kBytes, refusal.memory_rights);
  Buffer local(session.device, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE);
  Link link(session, memory, {.rights = refusal.pair_rights});
  if (!active) {
    if (refusal.receive) {
      link.post_receive(77, {local.piece(0, *refusal.receive)});
    }
    session.barrier("to be refused");
    session.barrier("refused");
    // The first of several packets may have been written.
    expect_untouched(refusal.length > 1024 ? memory.bytes(0, 16) : memory.bytes(), refusal.what);
    if (refusal.receive) {
      expect_status(link.received(), session.device.is_rxe() ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR, refusal.what);
      expect_untouched(local.bytes(*refusal.receive, 64), "behind a receive that is too short");
    }
    return;
  }
  session.barrier("to be refused");
  Request request = refusal.request;
  request.from = {local.piece(0, refusal.length)};
  request.id = 1;
  // A request behind a failed one is not executed, and reports that.
  Request later = {.opcode = IBV_WR_RDMA_WRITE, .from = {local.piece(0, 8)}, .id = 2};
  const int error = link.try_to_post(std::vector{request, later});
  if (session.device.is_rxe() && refusal.rxe_refuses_to_post) {
    require(error == EINVAL, "{}: posted: {}", refusal.what, error);
    session.barrier("refused");
    return;
  }
  require(error == 0, "{}: cannot be posted: {}", refusal.what, std::strerror(error));
  ibv_wc got = link.completion();
  require(got.wr_id == 1, "{}: completion of {}", refusal.what, got.wr_id);
  expect_status(got, session.partner_is_rxe ? refusal.from_rxe.value_or(refusal.wanted) : refusal.wanted, refusal.what);
  got = link.completion();
  require(got.wr_id == 2, "{}: completion of {}", refusal.what, got.wr_id);
  expect_status(got, IBV_WC_WR_FLUSH_ERR, refusal.what);
  require(link.state() == IBV_QPS_ERR, "{}: the queue pair is in state {}", refusal.what,
          static_cast<int>(link.state()));
  session.barrier("refused");
}

// With length 0, key and address do not matter (9.7.4.1.5 of the specification).
void nothing_needs_no_key(const Session& session, bool active) {
  Buffer memory(session.device, kBytes, kAllRights);
  Link link(session, memory, {});
  if (active) {
    link.post(std::vector<Request>{{.opcode = IBV_WR_RDMA_WRITE, .remote_offset = 99, .id = 1, .key = 0x7fffff00},
                                   {.opcode = IBV_WR_RDMA_READ, .remote_offset = 99, .id = 2, .key = 0x7fffff00}});
    expect_done(link.completion(), 1, IBV_WC_RDMA_WRITE, "a WRITE of nothing with a wrong key");
    expect_done(link.completion(), 2, IBV_WC_RDMA_READ, "a READ of nothing with a wrong key");
  }
  session.barrier("of length 0");
}

// The partner's queue pair is gone, so nobody answers.
void unanswered(const Session& session, bool active) {
  Buffer memory(session.device, kBytes, kAllRights);
  Link link(session, memory, {.retry_count = 2, .timeout = 14});
  if (!active) {
    link.destroy();
  }
  session.barrier("one queue pair is gone");
  if (active) {
    link.post({.opcode = IBV_WR_RDMA_READ, .from = {memory.piece(0, 8)}, .id = 1});
    expect_status(link.completion(), IBV_WC_RETRY_EXC_ERR, "a READ that nobody answers");
    require(link.state() == IBV_QPS_ERR, "the queue pair is in state {}", static_cast<int>(link.state()));
  }
  session.barrier("it was noticed");
}

}  // namespace

void refuse(const Session& session) {
  both_ways(session, [&](bool active) {
    for (const Refusal& refusal : refusals()) {
      try_one(session, refusal, active);
    }
    nothing_needs_no_key(session, active);
    unanswered(session, active);
  });
}

void not_ready(const Session& session) {
  Buffer memory(session.device, kBytes, kAllRights);
  both_ways(session, [&](bool active) {
    // 10.24 ms keeps frames few, so that the transport retries suffice on a wire that loses frames.
    Link patient(session, memory, {.rnr_timer = 20});
    Link hasty(session, memory, {.rnr_retry = 1, .rnr_timer = 20});
    if (active) {
      fill(memory.bytes(0, 3000), 5);
      patient.post({.from = {memory.piece(0, 3000)}, .id = 1});
      // Without a receive it must not complete. This is long enough for the timer of "not ready" to expire many times.
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
      while (std::chrono::steady_clock::now() < until) {
        expect_nothing_more(patient.send_queue(), "a SEND without a receive");
      }
      session.barrier("it has waited");
      expect_done(patient.completion(), 1, IBV_WC_SEND, "a SEND that had to wait");
      hasty.post({.from = {memory.piece(0, 16)}, .id = 2});
      expect_status(hasty.completion(), IBV_WC_RNR_RETRY_EXC_ERR, "a SEND that does not wait");
    } else {
      clear(memory.bytes());
      session.barrier("it has waited");
      patient.post_receive(1, {memory.piece(0, kBytes)});
      expect_done(patient.received(), 1, IBV_WC_RECV, "a late receive");
      expect_filled(memory.bytes(0, 3000), 5, "a late receive");
      expect_untouched(memory.bytes(3000, kBytes - 3000), "behind a late receive");
      expect_nothing_more(patient.receive_queue(), "a late receive");
    }
    session.barrier("ready or not");
  });
}

void vanish(const Session& session) {
  Buffer memory(session.device, kBytes, kAllRights);
  Link link(session, memory, {.retry_count = 2, .timeout = 14});
  if (session.rank() == session.options.vanishing) {
    ::_exit(0);  // nothing is given back, as if it had been killed
  }
  session.control.wait_for_end();
  // The kernel ends what a process had open in an order of its own: the queue pair may outlive the control connection.
  constexpr std::chrono::seconds kMost(60);
  const auto until = std::chrono::steady_clock::now() + kMost;
  ibv_wc completion{};
  do {
    link.post({.opcode = IBV_WR_RDMA_WRITE, .from = {memory.piece(0, 8)}, .id = 1});
    completion = link.completion();
  } while (completion.status == IBV_WC_SUCCESS && std::chrono::steady_clock::now() < until);
  expect_status(completion, IBV_WC_RETRY_EXC_ERR, "a WRITE to a peer that has vanished");
}

}  // namespace sidelatch::peer
