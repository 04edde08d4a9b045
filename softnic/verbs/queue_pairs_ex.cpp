// Posting by calls that build requests: ibv_wr_start(3) and related functions.
//
// One thread holds the queue pair's builder from ibv_wr_start() to ibv_wr_complete(). Requests and inline data are
// copied when they are built. ibv_wr_complete() posts all of them, or none and returns the errno of what was wrong
// first. It also refuses operations that send_ops_flags did not ask for: drivers leave their functions NULL.
#include "context.h"
#include "convert.h"
#include "posting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

namespace sidelatch::softnic::verbs {

namespace {

using Draft = WorkBuilder::Draft;

WorkBuilder& builder_of(ibv_qp_ex* pair) { return of(*pair).builder; }

void fail(ibv_qp_ex* pair, int error) {
  WorkBuilder& builder = builder_of(pair);
  builder.error = builder.error != 0 ? builder.error : error;
}

// Functions called from C must not throw: missing memory fails the whole batch.
template <class Build>
void build(ibv_qp_ex* pair, Build add) {
  if (const int error = result_of([&] { return add(builder_of(pair)); }); error != 0) {
    fail(pair, error);
  }
}

nic::SendRequest begun(const ibv_qp_ex& pair, nic::WorkKind kind) {
  nic::SendRequest request{.id = pair.wr_id, .kind = kind};
  take_flags(request, pair.wr_flags);
  request.inlined = false;  // set by the call that sets the data
  return request;
}

void add(ibv_qp_ex* pair, const nic::SendRequest& request) {
  build(pair, [&](WorkBuilder& builder) {
    builder.drafts.push_back({.request = request});
    return 0;
  });
}

void add_to(ibv_qp_ex* pair, nic::WorkKind kind, std::uint32_t rkey, std::uint64_t address) {
  nic::SendRequest request = begun(*pair, kind);
  request.remote_address = address;
  request.rkey = rkey;
  add(pair, request);
}

// ---- Requests.

void wr_compare_swap(ibv_qp_ex* pair, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                     std::uint64_t swap) {
  nic::SendRequest request = begun(*pair, nic::WorkKind::compare_swap);
  request.remote_address = address;
  request.rkey = rkey;
  request.compare = compare;
  request.swap_or_add = swap;
  add(pair, request);
}

void wr_fetch_add(ibv_qp_ex* pair, std::uint32_t rkey, std::uint64_t address, std::uint64_t value) {
  nic::SendRequest request = begun(*pair, nic::WorkKind::fetch_add);
  request.remote_address = address;
  request.rkey = rkey;
  request.swap_or_add = value;
  add(pair, request);
}

void wr_read(ibv_qp_ex* pair, std::uint32_t rkey, std::uint64_t address) {
  add_to(pair, nic::WorkKind::read, rkey, address);
}

void wr_write(ibv_qp_ex* pair, std::uint32_t rkey, std::uint64_t address) {
  add_to(pair, nic::WorkKind::write, rkey, address);
}

void wr_write_immediate(ibv_qp_ex* pair, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
  nic::SendRequest request = begun(*pair, nic::WorkKind::write_with_immediate);
  request.remote_address = address;
  request.rkey = rkey;
  request.immediate = be32toh(immediate);
  add(pair, request);
}

void wr_send(ibv_qp_ex* pair) { add(pair, begun(*pair, nic::WorkKind::send)); }

void wr_send_immediate(ibv_qp_ex* pair, __be32 immediate) {
  nic::SendRequest request = begun(*pair, nic::WorkKind::send_with_immediate);
  request.immediate = be32toh(immediate);
  add(pair, request);
}

void wr_send_invalidate(ibv_qp_ex* pair, std::uint32_t rkey) {
  nic::SendRequest request = begun(*pair, nic::WorkKind::send_with_invalidate);
  request.invalidate_key = rkey;
  add(pair, request);
}

void wr_invalidate(ibv_qp_ex* pair, std::uint32_t rkey) {
  nic::SendRequest request = begun(*pair, nic::WorkKind::invalidate);
  request.invalidate_key = rkey;
  add(pair, request);
}

void wr_bind_window(ibv_qp_ex* pair, ibv_mw* window, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  build(pair, [&](WorkBuilder& builder) {
    if (window->type != IBV_MW_TYPE_2) {
      refuse(EINVAL, "ibv_wr_bind_mw() needs a memory window of type 2");
    }
    nic::SendRequest request = begun(*pair, nic::WorkKind::bind_window);
    request.binding = binding_of(*window, rkey, *info);
    builder.drafts.push_back({.request = request});
    return 0;
  });
}

// The word is copied, like inlined data, which takes 8 bytes of every queue pair's room for that.
void wr_atomic_write(ibv_qp_ex* pair, std::uint32_t rkey, std::uint64_t address, const void* value) {
  build(pair, [&](WorkBuilder& builder) {
    Draft draft{.request = begun(*pair, nic::WorkKind::atomic_write),
                .first = builder.inlined.size(),
                .count = nic::kAtomicBytes};
    draft.request.remote_address = address;
    draft.request.rkey = rkey;
    draft.request.inlined = true;
    const auto* const bytes = static_cast<const std::byte*>(value);
    builder.inlined.insert(builder.inlined.end(), bytes, bytes + nic::kAtomicBytes);
    builder.drafts.push_back(draft);
    return 0;
  });
}

// ---- Their data and addresses: of the most recent request.

template <class Set>
void change_last(ibv_qp_ex* pair, Set set) {
  build(pair, [&](WorkBuilder& builder) {
    if (builder.drafts.empty()) {
      refuse(EINVAL, "data or an address is set before there is a request");
    }
    return set(builder, builder.drafts.back());
  });
}

void wr_set_datagram_address(ibv_qp_ex* pair, ibv_ah* handle, std::uint32_t remote_qp, std::uint32_t q_key) {
  change_last(pair, [&](WorkBuilder& /*builder*/, Draft& draft) {
    draft.request.to = of(*handle).to;
    draft.request.is_to_foreign = of(*handle).domain != of(*pair).pair->options().domain;
    draft.request.remote_qp = remote_qp;
    draft.request.remote_q_key = q_key;
    draft.has_address = true;
    return 0;
  });
}

void wr_set_srq(ibv_qp_ex* pair, std::uint32_t number) {
  change_last(pair, [&](WorkBuilder& /*builder*/, Draft& draft) {
    draft.request.remote_srq = number & roce::Psn::kMask;
    return 0;
  });
}

// Of several calls that set the data the last one counts.
void require_taker_of_data(const Draft& draft) {
  if (draft.request.kind == nic::WorkKind::atomic_write) {
    refuse(EINVAL, "an ATOMIC WRITE has its word already, and takes no other data");
  }
}

void set_sges(ibv_qp_ex* pair, std::span<const ibv_sge> sges) {
  change_last(pair, [&](WorkBuilder& builder, Draft& draft) {
    require_taker_of_data(draft);
    if (const std::uint32_t most = of(*pair).pair->options().most_send_sges; sges.size() > most) {
      refuse(EINVAL, fmt::format("{} parts: this queue pair was made for up to {} (max_send_sge)", sges.size(), most));
    }
    draft.request.inlined = false;
    draft.first = builder.sges.size();
    draft.count = sges.size();
    std::ranges::transform(sges, std::back_inserter(builder.sges), sge_of);
    return 0;
  });
}

void wr_set_sge(ibv_qp_ex* pair, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
  set_sges(pair, {&sge, 1});
}

void wr_set_sge_list(ibv_qp_ex* pair, std::size_t count, const ibv_sge* list) { set_sges(pair, {list, count}); }

void set_inline(ibv_qp_ex* pair, std::span<const ibv_data_buf> parts) {
  change_last(pair, [&](WorkBuilder& builder, Draft& draft) {
    require_taker_of_data(draft);
    draft.request.inlined = true;
    draft.first = builder.inlined.size();
    for (const ibv_data_buf& part : parts) {
      const auto* const bytes = static_cast<const std::byte*>(part.addr);
      builder.inlined.insert(builder.inlined.end(), bytes, bytes + part.length);
    }
    draft.count = builder.inlined.size() - draft.first;
    return draft.count <= of(*pair).pair->options().most_inline ? 0 : answer_of(nic::Post::inline_too_long);
  });
}

void wr_set_inline_data(ibv_qp_ex* pair, void* data, std::size_t length) {
  const ibv_data_buf part{.addr = data, .length = length};
  set_inline(pair, {&part, 1});
}

void wr_set_inline_data_list(ibv_qp_ex* pair, std::size_t count, const ibv_data_buf* list) {
  set_inline(pair, {list, count});
}

// ---- What was asked for.

struct Operation {
  nic::WorkKind kind;
  std::uint64_t flag;
  const char* name;
};
constexpr std::array kOperations = std::to_array<Operation>({
    {nic::WorkKind::send, IBV_QP_EX_WITH_SEND, "SEND"},
    {nic::WorkKind::send_with_immediate, IBV_QP_EX_WITH_SEND_WITH_IMM, "SEND_WITH_IMM"},
    {nic::WorkKind::send_with_invalidate, IBV_QP_EX_WITH_SEND_WITH_INV, "SEND_WITH_INV"},
    {nic::WorkKind::write, IBV_QP_EX_WITH_RDMA_WRITE, "RDMA_WRITE"},
    {nic::WorkKind::write_with_immediate, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, "RDMA_WRITE_WITH_IMM"},
    {nic::WorkKind::read, IBV_QP_EX_WITH_RDMA_READ, "RDMA_READ"},
    {nic::WorkKind::compare_swap, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, "ATOMIC_CMP_AND_SWP"},
    {nic::WorkKind::fetch_add, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, "ATOMIC_FETCH_AND_ADD"},
    {nic::WorkKind::atomic_write, IBV_QP_EX_WITH_ATOMIC_WRITE, "ATOMIC_WRITE"},
    {nic::WorkKind::bind_window, IBV_QP_EX_WITH_BIND_MW, "BIND_MW"},
    {nic::WorkKind::invalidate, IBV_QP_EX_WITH_LOCAL_INV, "LOCAL_INV"},
});

const Operation& operation_of(nic::WorkKind kind) { return *std::ranges::find(kOperations, kind, &Operation::kind); }

void require_asked_for(const WorkBuilder& builder, std::uint64_t asked) {
  for (const Draft& draft : builder.drafts) {
    const Operation& operation = operation_of(draft.request.kind);
    if ((operation.flag & asked) == 0) {
      refuse(EINVAL,
             fmt::format("send_ops_flags is {:#x}: IBV_QP_EX_WITH_{} is not in it, so this queue pair builds no "
                         "such request",
                         asked, operation.name));
    }
  }
}

// ---- From start to end.

void wr_start(ibv_qp_ex* pair) {
  WorkBuilder& builder = builder_of(pair);
  builder.mutex.lock();
  builder.drafts.clear();
  builder.sges.clear();
  builder.inlined.clear();
  builder.error = 0;
}

void wr_abort(ibv_qp_ex* pair) { builder_of(pair).mutex.unlock(); }

// The request of the draft, with its data; `inlined` describes inlined data.
nic::SendRequest finished(const WorkBuilder& builder, const Draft& draft, nic::Sge& inlined) {
  nic::SendRequest request = draft.request;
  if (!request.inlined) {
    request.sges = std::span(builder.sges).subspan(draft.first, draft.count);
  } else {
    inlined = {.address = reinterpret_cast<std::uintptr_t>(builder.inlined.data() + draft.first),
               .length = static_cast<std::uint32_t>(draft.count)};
    request.sges = {&inlined, 1};
  }
  return request;
}

// Call it with the lock. Inlined data needs one place in the list of parts, which every queue pair has.
int post_drafts(nic::QueuePair& pair, const WorkBuilder& builder) {
  if (builder.drafts.size() > pair.send_room()) {
    return answer_of(nic::Post::full);
  }
  for (const Draft& draft : builder.drafts) {
    nic::Sge inlined;
    // Everything has been checked except the state and inlined READs, which the first request reveals as well as any.
    if (const int error = answer_of(pair.post_send(finished(builder, draft, inlined))); error != 0) {
      return error;
    }
  }
  return 0;
}

int wr_complete(ibv_qp_ex* pair) {
  QueuePair& ours = of(*pair);
  WorkBuilder& builder = ours.builder;
  int error = builder.error;
  const nic::QueuePairType type = ours.pair->options().type;
  const auto is_taken = [type](const Draft& draft) {
    return nic::is_taken(draft.request.kind, type, draft.request.inlined);
  };
  if (error == 0 && !std::ranges::all_of(builder.drafts, is_taken)) {
    error = answer_of(nic::Post::wrong_kind);
  }
  const bool lacks_address =
      type == nic::QueuePairType::ud && !std::ranges::all_of(builder.drafts, &Draft::has_address);
  if (error == 0 && lacks_address) {
    error = explained(EINVAL, "a datagram needs an address: ibv_wr_set_ud_addr()");
  }
  if (error == 0) {
    error = result_of([&] {
      require_asked_for(builder, ours.operations);
      return ours.nic->post([&](nic::Nic&) { return post_drafts(*ours.pair, builder); });
    });
  }
  builder.mutex.unlock();
  return error;
}

}  // namespace

void fill_builder(QueuePair& pair) noexcept {
  pair.wr_atomic_cmp_swp = wr_compare_swap;
  pair.wr_atomic_fetch_add = wr_fetch_add;
  pair.wr_rdma_read = wr_read;
  pair.wr_rdma_write = wr_write;
  pair.wr_rdma_write_imm = wr_write_immediate;
  pair.wr_send = wr_send;
  pair.wr_send_imm = wr_send_immediate;
  pair.wr_send_inv = wr_send_invalidate;
  pair.wr_set_ud_addr = wr_set_datagram_address;
  pair.wr_set_sge = wr_set_sge;
  pair.wr_set_sge_list = wr_set_sge_list;
  pair.wr_set_inline_data = wr_set_inline_data;
  pair.wr_set_inline_data_list = wr_set_inline_data_list;
  pair.wr_start = wr_start;
  pair.wr_complete = wr_complete;
  pair.wr_abort = wr_abort;
  pair.wr_bind_mw = wr_bind_window;
  pair.wr_local_inv = wr_invalidate;
  pair.wr_set_xrc_srqn = wr_set_srq;
  pair.wr_atomic_write = wr_atomic_write;
  // Not supported: ibv_wr_complete() returns the error.
  pair.wr_send_tso = [](ibv_qp_ex* to, void* /*header*/, std::uint16_t /*bytes*/, std::uint16_t /*segment*/) {
    fail(to, explained(EOPNOTSUPP, "segmentation by the NIC (TSO) is not there"));
  };
}

}  // namespace sidelatch::softnic::verbs
