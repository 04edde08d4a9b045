#include "endpoint.h"

#include <arpa/inet.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace sidelatch::peer {

namespace {

using Clock = std::chrono::steady_clock;

std::byte pattern(std::uint64_t seed, std::size_t index) {
  std::uint64_t value = (seed + 1) * 0x9E3779B97F4A7C15U + index * 0xD1B54A32D192ED03U;
  value ^= value >> 29U;
  return static_cast<std::byte>((value * 0xBF58476D1CE4E5B9U) >> 56U);
}

bool is_of_version(const ibv_gid& gid, int version) {
  static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool is_mapped = std::equal(kMapped.begin(), kMapped.end(), gid.raw);
  const bool is_link_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
  const bool is_empty = std::all_of(gid.raw, gid.raw + 16, [](std::uint8_t byte) { return byte == 0; });
  return version == 4 ? is_mapped : !is_mapped && !is_link_local && !is_empty;
}

ibv_context* open_device(const std::string& name) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  require(list != nullptr, "no list of devices: {}", std::strerror(errno));
  const Owned<ibv_device*, ibv_free_device_list> owner(list);
  for (int i = 0; i < count; ++i) {
    if (name.empty() || name == ibv_get_device_name(list[i])) {
      ibv_context* const context = ibv_open_device(list[i]);
      require(context != nullptr, "cannot open {}: {}", ibv_get_device_name(list[i]), std::strerror(errno));
      return context;
    }
  }
  throw std::runtime_error(fmt::format("there is no RDMA device '{}' ({} devices)", name, count));
}

}  // namespace

ibv_mtu mtu_of(std::size_t bytes) {
  for (const auto& [value, mtu] :
       {std::pair{256U, IBV_MTU_256}, std::pair{512U, IBV_MTU_512}, std::pair{1024U, IBV_MTU_1024},
        std::pair{2048U, IBV_MTU_2048}, std::pair{4096U, IBV_MTU_4096}}) {
    if (value == bytes) {
      return mtu;
    }
  }
  throw std::runtime_error(fmt::format("{} is no MTU of RDMA", bytes));
}

Device::Device(const Options& options) : context_(open_device(options.device)), domain_(ibv_alloc_pd(context_.get())) {
  require(domain_ != nullptr, "no protection domain: {}", std::strerror(errno));
  ibv_port_attr port{};
  require(ibv_query_port(context_.get(), 1, &port) == 0, "the port cannot be asked");
  require(port.state == IBV_PORT_ACTIVE, "the port is not active");
  mtu_ = std::size_t{128} << static_cast<unsigned>(port.active_mtu);
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    if (ibv_query_gid(context_.get(), 1, index, &gid_) == 0 && is_of_version(gid_, options.ip_version)) {
      gid_index_ = static_cast<std::uint8_t>(index);
      return;
    }
  }
  throw std::runtime_error(fmt::format("the device has no GID of IPv{}", options.ip_version));
}

bool Device::is_rxe() const { return std::string_view(ibv_get_device_name(context_->device)).starts_with("rxe"); }

ibv_ah_attr route_to(const Device& device, const ibv_gid& gid) {
  ibv_ah_attr route{};
  route.is_global = 1;
  route.port_num = 1;
  route.grh.dgid = gid;
  route.grh.sgid_index = device.gid_index();
  route.grh.hop_limit = 64;
  return route;
}

Buffer::Buffer(const Device& device, std::size_t bytes, int rights)
    : bytes_(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{4096}))),
      size_(bytes),
      region_(ibv_reg_mr(device.domain(), bytes_.get(), bytes, static_cast<unsigned>(rights))) {
  require(region_ != nullptr, "memory cannot be registered: {}", std::strerror(errno));
  clear(this->bytes());
}

std::uint64_t Buffer::word(std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes_.get() + offset, sizeof value);
  return value;
}

void Buffer::set_word(std::size_t offset, std::uint64_t value) {
  std::memcpy(bytes_.get() + offset, &value, sizeof value);
}

ibv_sge Buffer::piece(std::size_t offset, std::size_t length) const {
  return {.addr = address() + offset, .length = static_cast<std::uint32_t>(length), .lkey = region_->lkey};
}

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = pattern(seed, i);
  }
}

void expect_filled(std::span<const std::byte> bytes, std::uint64_t seed, std::string_view what) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    require(bytes[i] == pattern(seed, i), "{}: byte {} of {} is {:#x}, not {:#x}", what, i, bytes.size(),
            std::to_integer<unsigned>(bytes[i]), std::to_integer<unsigned>(pattern(seed, i)));
  }
}

void expect_equal(std::span<const std::byte> bytes, std::span<const std::byte> wanted, std::string_view what) {
  require(bytes.size() == wanted.size(), "{}: {} bytes, not {}", what, bytes.size(), wanted.size());
  const auto [at, other] = std::ranges::mismatch(bytes, wanted);
  require(at == bytes.end(), "{}: byte {} of {} is {:#x}, not {:#x}", what, at - bytes.begin(), bytes.size(),
          at == bytes.end() ? 0 : std::to_integer<unsigned>(*at),
          other == wanted.end() ? 0 : std::to_integer<unsigned>(*other));
}

void clear(std::span<std::byte> bytes) { std::ranges::fill(bytes, kUntouched); }

void expect_untouched(std::span<const std::byte> bytes, std::string_view what) {
  const auto at = std::ranges::find_if(bytes, [](std::byte byte) { return byte != kUntouched; });
  require(at == bytes.end(), "{}: byte {} of {} was touched", what, at - bytes.begin(), bytes.size());
}

namespace {

struct Hello {
  ibv_gid gid;
  std::uint32_t number;
  std::uint32_t psn;
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t key;
};

ibv_cq* make_queue(const Device& device, unsigned depth, ibv_comp_channel* channel) {
  ibv_cq* const queue = ibv_create_cq(device.context(), static_cast<int>(depth), nullptr, channel, 0);
  require(queue != nullptr, "no completion queue: {}", std::strerror(errno));
  return queue;
}

void modify(ibv_qp* pair, ibv_qp_attr attributes, int mask, std::string_view to) {
  const int error = ibv_modify_qp(pair, &attributes, mask);
  require(error == 0, "the queue pair cannot go to {}: {}", to, std::strerror(error));
}

}  // namespace

Link::Link(const Session& session, Buffer& shared, const LinkOptions& options)
    : sends_(make_queue(session.device, options.send_depth, options.channel)),
      receives_(make_queue(session.device, 2 * options.receive_depth, options.channel)) {
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = sends_.get();
  wanted.recv_cq = receives_.get();
  wanted.srq = options.shared_receives;
  wanted.cap = {.max_send_wr = options.send_depth,
                .max_recv_wr = options.receive_depth,
                .max_send_sge = 4,
                .max_recv_sge = 4,
                .max_inline_data = 64};
  pair_.reset(ibv_create_qp(session.device.domain(), &wanted));
  require(pair_ != nullptr, "no queue pair: {}", std::strerror(errno));

  const Hello mine = {.gid = session.device.gid(),
                      .number = pair_->qp_num,
                      .psn = (options.first_psn + static_cast<std::uint32_t>(session.rank())) & 0xffffffU,
                      .address = shared.address(),
                      .size = shared.size(),
                      .key = shared.remote_key()};
  const Hello theirs = session.control.exchange("queue pairs", mine);
  remote_address_ = theirs.address;
  remote_size_ = theirs.size;
  remote_key_ = theirs.key;

  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = static_cast<unsigned>(options.rights);
  modify(pair_.get(), attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");

  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(session.options.mtu);
  attributes.dest_qp_num = theirs.number;
  attributes.rq_psn = theirs.psn;
  attributes.max_dest_rd_atomic = options.reads;
  attributes.min_rnr_timer = options.rnr_timer;
  attributes.ah_attr = route_to(session.device, theirs.gid);
  modify(pair_.get(), attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "RTR");

  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = mine.psn;
  attributes.timeout = options.timeout != 0 ? options.timeout : static_cast<std::uint8_t>(session.options.timeout);
  attributes.retry_cnt = options.retry_count;
  attributes.rnr_retry = options.rnr_retry;
  attributes.max_rd_atomic = options.reads;
  modify(pair_.get(), attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
  session.barrier("connected");
}

void Link::post(std::span<const Request> requests) {
  const int error = try_to_post(requests);
  require(error == 0, "request {} cannot be posted: {}", requests.front().id, std::strerror(error));
}

int Link::try_to_post(std::span<const Request> requests) {
  std::vector<ibv_send_wr> list(requests.size());
  // libibverbs takes non-const pointers to pieces that it does not change.
  std::vector<std::vector<ibv_sge>> pieces;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    pieces.push_back(request.from);
    ibv_send_wr& one = list[i];
    one.next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    one.wr_id = request.id;
    one.sg_list = pieces.back().data();
    one.num_sge = static_cast<int>(pieces.back().size());
    one.opcode = request.opcode;
    one.send_flags = request.flags;
    one.imm_data = htonl(request.immediate);
    const std::uint64_t address = remote_address_ + request.remote_offset;
    const std::uint32_t key = request.key.value_or(remote_key_);
    if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      one.wr.atomic = {.remote_addr = address, .compare_add = request.compare_add, .swap = request.swap, .rkey = key};
    } else {
      one.wr.rdma = {.remote_addr = address, .rkey = key};
    }
  }
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(pair_.get(), list.data(), &refused);
}

void Link::post_receive(std::uint64_t id, std::initializer_list<ibv_sge> into) {
  std::vector<ibv_sge> pieces(into);
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(pair_.get(), &request, &refused);
  require(error == 0, "receive {} cannot be posted: {}", id, std::strerror(error));
}

ibv_wc Link::completion() const { return next(sends_.get()); }
ibv_wc Link::received() const { return next(receives_.get()); }

ibv_qp_state Link::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  require(ibv_query_qp(pair_.get(), &attributes, IBV_QP_STATE, &made) == 0, "the queue pair cannot be asked");
  return attributes.qp_state;
}

std::vector<ibv_wc> poll(ibv_cq* queue) {
  std::vector<ibv_wc> completions(16);
  const int count = ibv_poll_cq(queue, static_cast<int>(completions.size()), completions.data());
  require(count >= 0, "the completion queue failed ({})", count);
  completions.resize(static_cast<std::size_t>(count));
  return completions;
}

ibv_wc next(ibv_cq* queue) {
  const auto until = Clock::now() + kPatience;
  ibv_wc completion{};
  for (;;) {
    const int count = ibv_poll_cq(queue, 1, &completion);
    require(count >= 0, "the completion queue failed ({})", count);
    if (count == 1) {
      return completion;
    }
    require(Clock::now() < until, "no completion");
    ::sched_yield();
  }
}

void expect_status(const ibv_wc& completion, ibv_wc_status wanted, std::string_view what) {
  require(completion.status == wanted, "{}: request {}: {}, not {}", what, completion.wr_id,
          ibv_wc_status_str(completion.status), ibv_wc_status_str(wanted));
}

void expect_done(const ibv_wc& completion, std::uint64_t id, ibv_wc_opcode opcode, std::string_view what) {
  require(completion.wr_id == id, "{}: completion of {}, not of {} ({})", what, completion.wr_id, id,
          ibv_wc_status_str(completion.status));
  expect_status(completion, IBV_WC_SUCCESS, what);
  require(completion.opcode == opcode, "{}: request {}: completion of opcode {}, not {}", what, id,
          static_cast<int>(completion.opcode), static_cast<int>(opcode));
}

void expect_nothing_more(ibv_cq* queue, std::string_view what) {
  const std::vector<ibv_wc> more = poll(queue);
  require(more.empty(), "{}: one completion too many, of {} ({})", what, more.empty() ? 0 : more[0].wr_id,
          ibv_wc_status_str(more.empty() ? IBV_WC_SUCCESS : more[0].status));
}

}  // namespace sidelatch::peer
