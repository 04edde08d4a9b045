#include "common/file_descriptor.h"

#include <sidelatch/flows/nic/flow_nic.h>

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::flows {

namespace {

void need(bool is_right, const std::string& what) {
  if (!is_right) {
    throw std::runtime_error(what);
  }
}

std::string why() { return std::strerror(errno); }

ibv_mtu mtu_of(std::uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - std::bit_width(256U) + 1); }

// Each releases what it is named after; all of them need their owner alive.
using Context = std::unique_ptr<ibv_context, decltype([](ibv_context* it) { ibv_close_device(it); })>;
using Domain = std::unique_ptr<ibv_pd, decltype([](ibv_pd* it) { ibv_dealloc_pd(it); })>;
using Completions = std::unique_ptr<ibv_cq, decltype([](ibv_cq* it) { ibv_destroy_cq(it); })>;
using Region = std::unique_ptr<ibv_mr, decltype([](ibv_mr* it) { ibv_dereg_mr(it); })>;
using Pair = std::unique_ptr<ibv_qp, decltype([](ibv_qp* it) { ibv_destroy_qp(it); })>;

class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes),
        start_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
    need(start_ != MAP_FAILED, fmt::format("cannot allocate a ring of {} bytes: {}", bytes, why()));
  }
  Pages(Pages&& other) noexcept : bytes_(other.bytes_), start_(std::exchange(other.start_, MAP_FAILED)) {}
  Pages& operator=(Pages&&) = delete;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (start_ != MAP_FAILED) {
      ::munmap(start_, bytes_);
    }
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {static_cast<std::byte*>(start_), bytes_}; }

 private:
  std::size_t bytes_;
  void* start_;
};

Context open_device(const std::string& wanted) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype([](ibv_device** list) { ibv_free_device_list(list); })> list(
      ibv_get_device_list(&count));
  need(list != nullptr && count > 0,
       "no RDMA device: libibverbs lists none (it looks in /sys/class/infiniband); load the NIC's driver");
  std::string found;
  for (int i = 0; i < count; ++i) {
    ibv_device* const device = list.get()[i];
    const std::string name = ibv_get_device_name(device);
    if (wanted.empty() || wanted == name) {
      Context context(ibv_open_device(device));
      need(context != nullptr, fmt::format("cannot open the RDMA device {}: {}", name, why()));
      return context;
    }
    found += (found.empty() ? "" : ", ") + name;
  }
  throw std::runtime_error(fmt::format("there is no RDMA device {}: found {}", wanted, found));
}

bool is_mapped_ipv4(const ibv_gid& gid) {
  constexpr unsigned char kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

void modify(ibv_qp& pair, ibv_qp_attr& attributes, int mask, const char* state) {
  const int error = ibv_modify_qp(&pair, &attributes, mask);
  need(error == 0, fmt::format("cannot bring a queue pair to {}: {}", state, std::strerror(error)));
}

struct OneRing {
  Pages pages;
  Region region{};
  Pair pair{};  // destroyed first
  FlowRing ring{};
};

}  // namespace

struct FlowNic::Device {
  Context context{};
  Domain domain{};
  Completions completions{};
  std::vector<OneRing> rings{};
  std::string name{};
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  std::uint32_t largest_path_mtu = 0;
  MacAddress mac{};
  Ipv4Address ip{};

  // The first active one that has an address.
  void choose_port() {
    ibv_device_attr device{};
    need(ibv_query_device(context.get(), &device) == 0, fmt::format("cannot query the RDMA device {}", name));
    bool any_active = false;
    for (std::uint8_t number = 1; number <= device.phys_port_cnt; ++number) {
      ibv_port_attr found{};
      if (ibv_query_port(context.get(), number, &found) == 0 && found.state == IBV_PORT_ACTIVE) {
        any_active = true;
        port = number;
        largest_path_mtu = 128U << found.active_mtu;
        if (choose_address(found)) {
          return;
        }
      }
    }
    need(any_active, fmt::format("no port of {} is active: bring its link up", name));
    throw std::runtime_error(fmt::format("{} has no IPv4 address: give one to its network interface", name));
  }

  // Only RoCE version 2 over IPv4 leads to the switch. False if the port has no such address.
  bool choose_address(const ibv_port_attr& attributes) {
    constexpr int kMostGids = 256;  // the index of a connection's GID has 8 bits
    for (int index = 0; index < std::min(attributes.gid_tbl_len, kMostGids); ++index) {
      ibv_gid_entry entry{};
      if (ibv_query_gid_ex(context.get(), port, static_cast<std::uint32_t>(index), &entry, 0) != 0 ||
          entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !is_mapped_ipv4(entry.gid)) {
        continue;
      }
      gid_index = static_cast<std::uint8_t>(index);
      std::memcpy(ip.data(), entry.gid.raw + 12, ip.size());
      mac = {0x02, 0x53, ip[0], ip[1], ip[2], ip[3]};  // of a software NIC
      if (entry.ndev_ifindex == 0) {
        return true;
      }
      ifreq request{};
      const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      need(::if_indextoname(entry.ndev_ifindex, request.ifr_name) != nullptr &&
               ::ioctl(socket.number(), SIOCGIFHWADDR, &request) == 0,
           fmt::format("cannot find the MAC address of the network interface of {}: {}", name, why()));
      std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
      return true;
    }
    return false;
  }

  // Ready to receive from the switch.
  Pair connect(const SwitchEnd& end, const Ipv4Address& switch_ip, std::uint32_t path_mtu) const {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = completions.get();
    wanted.recv_cq = completions.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    Pair pair(ibv_create_qp(domain.get(), &wanted));
    need(pair != nullptr, "cannot make a queue pair: " + why());
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = port;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    modify(*pair, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu_of(path_mtu);
    attributes.dest_qp_num = end.queue_pair;
    attributes.rq_psn = end.psn;
    attributes.max_dest_rd_atomic = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = port;
    attributes.ah_attr.grh.hop_limit = 64;
    attributes.ah_attr.grh.sgid_index = gid_index;
    attributes.ah_attr.grh.dgid.raw[10] = 0xff;
    attributes.ah_attr.grh.dgid.raw[11] = 0xff;
    std::memcpy(attributes.ah_attr.grh.dgid.raw + 12, switch_ip.data(), switch_ip.size());
    modify(*pair, attributes,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER,
           "RTR (is the switch reached?)");
    return pair;
  }
};

FlowNic::FlowNic(const std::string& device) : device_(std::make_unique<Device>()) {
  Device& nic = *device_;
  nic.context = open_device(device);
  nic.name = ibv_get_device_name(nic.context->device);
  nic.choose_port();
  nic.domain.reset(ibv_alloc_pd(nic.context.get()));
  nic.completions.reset(ibv_create_cq(nic.context.get(), 1, nullptr, nullptr, 0));
  need(nic.domain != nullptr && nic.completions != nullptr,
       fmt::format("{} gives no protection domain or completion queue: {}", nic.name, why()));
}

FlowNic::~FlowNic() = default;

const MacAddress& FlowNic::mac() const noexcept { return device_->mac; }
const Ipv4Address& FlowNic::ip() const noexcept { return device_->ip; }
std::uint32_t FlowNic::largest_path_mtu() const noexcept { return device_->largest_path_mtu; }

const FlowRing& FlowNic::add_ring(const RingShape& shape, const SwitchEnd& end, const Ipv4Address& switch_ip,
                                  std::uint32_t path_mtu) {
  shape.check();
  need(path_mtu <= device_->largest_path_mtu,
       fmt::format("the path MTU {} is more than the {} that {} has now: take less, or raise the MTU of its network "
                   "interface",
                   path_mtu, device_->largest_path_mtu, device_->name));
  OneRing one{.pages = Pages(shape.bytes())};
  const std::span<std::byte> memory = one.pages.bytes();
  clear_ring(memory, shape);
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  one.region.reset(ibv_reg_mr(device_->domain.get(), memory.data(), memory.size(), rights));
  need(one.region != nullptr, fmt::format("cannot register a ring of {} bytes: {}", memory.size(), why()));
  one.pair = device_->connect(end, switch_ip, path_mtu);
  one.ring = {.mac = device_->mac,
              .ip = device_->ip,
              .queue_pair = one.pair->qp_num,
              .end = end,
              .rkey = one.region->rkey,
              .address = reinterpret_cast<std::uintptr_t>(memory.data()),
              .shape = shape};
  device_->rings.push_back(std::move(one));
  return device_->rings.back().ring;
}

std::size_t FlowNic::rings() const noexcept { return device_->rings.size(); }
const FlowRing& FlowNic::ring(std::size_t i) const { return device_->rings.at(i).ring; }
std::span<std::byte> FlowNic::memory(std::size_t i) const { return device_->rings.at(i).pages.bytes(); }

}  // namespace sidelatch::flows
