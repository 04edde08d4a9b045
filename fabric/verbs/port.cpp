#include "port.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace sidelatch::fabric::verbs {

namespace {

using DeviceList = std::unique_ptr<ibv_device*, decltype([](ibv_device** list) { ibv_free_device_list(list); })>;

void require_range(const char* field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(fmt::format("{} is {}: it must be {} to {}", field, value, least, most));
  }
}

[[noreturn]] void fail_device(const std::string& what, int error, std::string_view advice = {}) {
  throw DeviceError(failure_text(what, error, advice));
}

// The most common causes, according to ibv_*(3) and the kernels' answers.
std::string_view advice_for(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return "the process may not use /dev/infiniband/uverbs*: check its permissions, or run as a member of its group";
    case ENOMEM:
      return "raise the limit of locked memory (ulimit -l unlimited, or LimitMEMLOCK= of the service)";
    default:
      return {};
  }
}

constexpr std::uint32_t bytes_of(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }
constexpr ibv_mtu mtu_of(std::uint32_t bytes) { return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7); }

bool is_empty(const ibv_gid& gid) {
  return std::ranges::all_of(gid.raw, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

std::string failure_text(std::string_view what, int error, std::string_view advice) {
  return fmt::format("{}: {}{}{}", what, std::strerror(error), advice.empty() ? "" : "; ", advice);
}

bool is_mapped_ipv4(const ibv_gid& ip) noexcept {
  constexpr std::array<std::uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(ip.raw, kPrefix.data(), kPrefix.size()) == 0;
}

void require_possible(const Address& peer) {
  if (peer.mtu < IBV_MTU_256 || peer.mtu > IBV_MTU_4096) {
    throw DeviceError(fmt::format(
        "the other end of a queue pair says that its path MTU is {}: it must be 1 (256 bytes) to 5 (4096 bytes)",
        peer.mtu));
  }
  constexpr std::uint32_t kMost = 0xff'ffff;  // IB specification, 9.2: both have 24 bits in a packet
  if (peer.queue_pair > kMost || peer.packet_number > kMost) {
    throw DeviceError(
        fmt::format("the other end of a queue pair says that its number is {:#x}, and that of its first packet {:#x}: "
                    "both have 24 bits",
                    peer.queue_pair, peer.packet_number));
  }
  if (peer.responder == 0) {
    throw DeviceError("the other end of a queue pair says that it serves no READs and no atomics");
  }
}

void DeviceOptions::validate() const {
  if (mtu != 0 && (mtu < 256 || mtu > 4096 || !std::has_single_bit(mtu))) {
    throw std::invalid_argument(fmt::format("mtu is {}: it must be 256, 512, 1024, 2048 or 4096, or 0", mtu));
  }
  require_range("completion_queue_depth", completion_queue_depth, 2, 1U << 20);
  constexpr std::uint64_t kLeastHugePage = 1 << 16;
  constexpr std::uint64_t kMostHugePage = 1ULL << 34;
  if (huge_pages != 0 &&
      (huge_pages < kLeastHugePage || huge_pages > kMostHugePage || !std::has_single_bit(huge_pages))) {
    throw std::invalid_argument(fmt::format(
        "huge_pages is {}: it must be the size of a huge page in bytes, such as 2097152, or 0", huge_pages));
  }
  if (gid_index < -1 || gid_index > 255) {
    throw std::invalid_argument(fmt::format("gid_index is {}: it must be 0 to 255, or -1", gid_index));
  }
}

void ConnectionOptions::validate() const {
  require_range("timeout", timeout, 0, 31);
  require_range("retry_count", retry_count, 0, 7);
  require_range("rnr_retry", rnr_retry, 0, 7);
  require_range("min_rnr_timer", min_rnr_timer, 0, 31);
  require_range("service_level", service_level, 0, 15);
}

std::string_view name(Through through) {
  switch (through) {
    case Through::automatic:
      return "automatic";
    case Through::connection_manager:
      return "connection_manager";
    case Through::exchange:
      return "exchange";
  }
  return "unknown";
}

std::vector<std::string> device_names() {
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  std::vector<std::string> names;
  for (int i = 0; list != nullptr && i < count; ++i) {
    names.emplace_back(ibv_get_device_name(list.get()[i]));
  }
  return names;
}

Port::Port(const DeviceOptions& options, const ConnectionOptions& connections)
    : options_(options), connections_(connections) {
  options.validate();
  connections.validate();
  // Must come before any registration: memory shared with a child process must not be copied on write under the NIC.
  // Not needed if the kernel handles it: libibverbs would still call madvise(2), which fails for a part of a huge page.
  const bool is_needed = ibv_is_fork_initialized() != IBV_FORK_UNNEEDED;
  if (const int error = is_needed ? ibv_fork_init() : 0; error != 0) {
    fail_device("ibv_fork_init", error, "set RDMAV_HUGEPAGES_SAFE=1, or do not fork");
  }
  // libibverbs reads the variable once, before anything else, so it cannot be set for the user here. ibv_fork_init(3).
  if (options.huge_pages != 0 && is_needed && std::getenv("RDMAV_HUGEPAGES_SAFE") == nullptr) {
    throw DeviceError(
        "huge_pages: this kernel copies registered memory on fork; set RDMAV_HUGEPAGES_SAFE=1 in the environment of "
        "the process");
  }
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  if (list == nullptr || count == 0) {
    throw DeviceError(
        "no RDMA device: libibverbs lists none (it looks in /sys/class/infiniband and /dev/infiniband/uverbs*); load "
        "the NIC's driver, or run the program on the software NIC: sidelatch softnic run -- PROGRAM");
  }
  std::string seen;
  for (int i = 0; i < count && context_ == nullptr; ++i) {
    ibv_device* const device = list.get()[i];
    name_ = ibv_get_device_name(device);
    if (!options.device.empty() && options.device != name_) {
      seen += (seen.empty() ? "" : ", ") + name_;
      continue;
    }
    try {
      open(device);
    } catch (const DeviceError& error) {
      // If the user named no device, try the next one.
      if (!options.device.empty()) {
        throw;
      }
      context_.reset();
      seen += fmt::format("{}{}", seen.empty() ? "" : "; ", error.what());
    }
  }
  if (context_ == nullptr) {
    throw DeviceError(options.device.empty()
                          ? fmt::format("no RDMA device can be used: {}", seen)
                          : fmt::format("there is no RDMA device {}: found {}", options.device, seen));
  }
  if (options.mtu > bytes_of(port_.active_mtu)) {
    throw DeviceError(
        fmt::format("mtu {} is more than the {} that port {} of {} has now: raise the MTU of its network "
                    "interface (RoCE needs 4200 for 4096)",
                    options.mtu, bytes_of(port_.active_mtu), number_, name_));
  }
  if (limits_.max_cqe < 2 * std::int64_t{options.completion_queue_depth}) {
    throw DeviceError(
        fmt::format("completion_queue_depth is {}: each request takes two entries of a completion queue, and the "
                    "device {} allows {} (max_cqe); set DeviceOptions::completion_queue_depth to {} at most",
                    options.completion_queue_depth, name_, limits_.max_cqe, limits_.max_cqe / 2));
  }
  events_ = std::make_unique<DeviceEvents>(*context_, name_);
  placement_.emplace(options, name_);
  // Pin before the fabric touches memory of its own.
  if (options.pin_thread) {
    pin_thread_near(name_);
  }
}

void Port::open(ibv_device* device) {
  context_.reset(ibv_open_device(device));
  if (context_ == nullptr) {
    const int error = errno;
    fail_device(fmt::format("cannot open the RDMA device {}", name_), error, advice_for(error));
  }
  if (const int error = ibv_query_device(context_.get(), &limits_); error != 0) {
    fail_device(fmt::format("cannot query the RDMA device {}", name_), error);
  }
  choose_port();
  if (limits_.atomic_cap == IBV_ATOMIC_NONE || limits_.max_qp_rd_atom < 1) {
    throw DeviceError(fmt::format("the RDMA device {} has no atomics, and all latches need them", name_));
  }
}

void Port::choose_port() {
  if (options_.port > limits_.phys_port_cnt) {
    throw DeviceError(fmt::format("port {} of {}: it has {} ports", options_.port, name_, limits_.phys_port_cnt));
  }
  std::uint8_t without_gid = 0;  // the last active port that cannot be used
  for (std::uint8_t number = 1; number <= limits_.phys_port_cnt; ++number) {
    if (options_.port != 0 && options_.port != number) {
      continue;
    }
    if (const int error = ibv_query_port(context_.get(), number, &port_); error != 0) {
      fail_device(fmt::format("cannot query port {} of {}", number, name_), error);
    }
    if (port_.state == IBV_PORT_ACTIVE) {
      number_ = number;
      if (choose_gid()) {
        return;
      }
      without_gid = number;
    }
  }
  if (without_gid != 0) {
    throw DeviceError(
        options_.gid_index >= 0
            ? fmt::format("port {} of {} has no GID {}", without_gid, name_, options_.gid_index)
            : fmt::format("port {} of {} has no GID: give its network interface an IP address", without_gid, name_));
  }
  const char* const state = ibv_port_state_str(port_.state);
  throw DeviceError(options_.port == 0
                        ? fmt::format("no port of {} is active (the last is {}): bring a link up", name_, state)
                        : fmt::format("port {} of {} is {}: bring its link up", options_.port, name_, state));
}

bool Port::choose_gid() {
  const bool ethernet = is_ethernet();
  std::optional<int> chosen;
  int best = -1;
  constexpr int kMostGids = 256;  // the index of a connection's GID has 8 bits
  for (int index = 0; index < std::min(port_.gid_tbl_len, kMostGids); ++index) {
    ibv_gid_entry entry{};
    if ((options_.gid_index >= 0 && options_.gid_index != index) ||
        ibv_query_gid_ex(context_.get(), number_, static_cast<std::uint32_t>(index), &entry, 0) != 0 ||
        is_empty(entry.gid)) {
      continue;
    }
    // InfiniBand has its own GID type. On Ethernet version 2 can be routed, and most switches are set up for IPv4.
    const int rank = !ethernet ? 1 : entry.gid_type != IBV_GID_TYPE_ROCE_V2 ? 0 : is_mapped_ipv4(entry.gid) ? 2 : 1;
    if (rank > best) {
      best = rank;
      chosen = index;
      gid_ = entry.gid;
      gid_interface_ = entry.ndev_ifindex;
    }
  }
  gid_index_ = static_cast<std::uint8_t>(chosen.value_or(0));
  return chosen.has_value();
}

RawQueuePair Port::make_queue_pair(ibv_pd* domain, ibv_cq* completions, std::uint32_t send_queue_depth,
                                   std::uint32_t& max_inline, const ReceiveSide& receives) const {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = completions;
  attributes.recv_cq = receives.completions == nullptr ? completions : receives.completions;
  attributes.cap.max_send_wr = send_queue_depth;
  attributes.cap.max_recv_wr = std::max(receives.depth, 1U);
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  // No query tells how much a device can inline, so try it.
  for (;;) {
    attributes.cap.max_inline_data = max_inline;
    RawQueuePair queue_pair(ibv_create_qp(domain, &attributes));
    if (queue_pair != nullptr) {
      return queue_pair;
    }
    const int error = errno;
    if (max_inline == 0 || (error != EINVAL && error != ENOMEM)) {
      fail_device(
          fmt::format("cannot make a queue pair of depth {}{} on {} (it allows {} queue pairs with {} requests)",
                      send_queue_depth,
                      receives.depth == 0 ? "" : fmt::format(" and {} receive buffers", receives.depth), name_,
                      limits_.max_qp, limits_.max_qp_wr),
          error, advice_for(error));
    }
    max_inline /= 2;
  }
}

Address Port::address_of(const ibv_qp& queue_pair, std::uint32_t packet_number) const {
  Address address;
  // A subnet manager or an administrator may change both.
  ibv_port_attr now = port_;
  ibv_gid_entry entry{};
  static_cast<void>(ibv_query_port(context_.get(), number_, &now));
  const bool has_gid = ibv_query_gid_ex(context_.get(), number_, gid_index_, &entry, 0) == 0 && !is_empty(entry.gid);
  address.gid = has_gid ? entry.gid : gid_;
  address.queue_pair = queue_pair.qp_num;
  address.packet_number = packet_number & 0xff'ffff;
  address.lid = now.lid;
  address.mtu = static_cast<std::uint8_t>(mtu());
  address.responder = most_served();
  return address;
}

ibv_mtu Port::mtu() const noexcept { return options_.mtu == 0 ? port_.active_mtu : mtu_of(options_.mtu); }
std::uint8_t Port::most_initiated() const noexcept {
  return static_cast<std::uint8_t>(std::clamp(limits_.max_qp_init_rd_atom, 1, 255));
}
std::uint8_t Port::most_served() const noexcept {
  return static_cast<std::uint8_t>(std::clamp(limits_.max_qp_rd_atom, 0, 255));
}

void Port::modify(ibv_qp& queue_pair, ibv_qp_attr& attributes, int mask, const char* state) const {
  if (const int error = ibv_modify_qp(&queue_pair, &attributes, mask); error != 0) {
    fail_device(fmt::format("cannot bring a queue pair of {} to {}", name_, state), error, advice_for(error));
  }
}

std::uint32_t Port::connect(ibv_qp& queue_pair, const Address& own, const Address& peer,
                            std::uint32_t outstanding) const {
  require_possible(peer);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  modify(queue_pair, reset, IBV_QP_STATE, "RESET");

  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.pkey_index = connections_.pkey_index;
  init.port_num = number_;
  init.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  modify(queue_pair, init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");

  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = static_cast<ibv_mtu>(std::min(own.mtu, peer.mtu));
  receive.dest_qp_num = peer.queue_pair;
  receive.rq_psn = peer.packet_number;
  receive.max_dest_rd_atomic = own.responder;
  receive.min_rnr_timer = connections_.min_rnr_timer;
  // InfiniBand's local header is enough within a subnet, unless the port or the user requires the global one.
  const bool is_global = is_ethernet() || peer.lid == 0 || (port_.flags & IBV_QPF_GRH_REQUIRED) != 0 ||
                         options_.gid_index >= 0 || gid_.global.subnet_prefix != peer.gid.global.subnet_prefix;
  receive.ah_attr.is_global = is_global ? 1 : 0;
  receive.ah_attr.grh.dgid = peer.gid;
  receive.ah_attr.grh.sgid_index = gid_index_;
  receive.ah_attr.grh.hop_limit = 64;
  receive.ah_attr.grh.traffic_class = connections_.traffic_class;
  receive.ah_attr.dlid = peer.lid;
  receive.ah_attr.sl = connections_.service_level;
  receive.ah_attr.port_num = number_;
  modify(queue_pair, receive,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "RTR");

  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = connections_.timeout;
  send.retry_cnt = connections_.retry_count;
  send.rnr_retry = connections_.rnr_retry;
  send.sq_psn = own.packet_number;
  send.max_rd_atomic = static_cast<std::uint8_t>(
      std::min({outstanding, static_cast<std::uint32_t>(peer.responder), std::uint32_t{most_initiated()}}));
  modify(queue_pair, send,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
  return send.max_rd_atomic;
}

void abort_for(const char* what) noexcept {
  fmt::print(
      stderr,
      "sidelatch: the NIC does not end {}, and may still write into memory that is about to be given back; see the "
      "kernel's log (dmesg). Aborting.\n",
      what);
  std::abort();
}

bool Port::stop(RawQueuePair& queue_pair) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  const int not_reset = ibv_modify_qp(queue_pair.get(), &attributes, IBV_QP_STATE);
  if (not_reset == 0 || is_gone(not_reset)) {
    return true;
  }
  const int not_destroyed = ibv_destroy_qp(queue_pair.get());
  if (not_destroyed != 0 && !is_gone(not_destroyed)) {
    return false;
  }
  static_cast<void>(queue_pair.release());
  return true;
}

}  // namespace sidelatch::fabric::verbs
