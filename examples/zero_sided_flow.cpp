// A zero-sided flow between three processes of one machine: a producer, a consumer, and the switch that moves the
// items. Each unit has a software NIC with a cable to the switch. It connects one queue pair to the switch, with
// libibverbs as on a real NIC, and posts nothing on it: it pushes and pops items in its own memory.
//
//   zero_sided_flow [ITEMS [FAULTS]]     FAULTS: the chance that a packet gets lost, and that it is repeated, and that
//   it
//                                        is overtaken, as it leaves the switch; none by default
#include <sidelatch/flows/flow_switch.h>
#include <sidelatch/flows/ring.h>
#include <sidelatch/p4/wired_switch.h>
#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace sidelatch;

namespace {

constexpr flows::RingShape kShape{.slots = 256, .item_bytes = 1000};
constexpr flows::SwitchAddress kSwitch{.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 9, 1, 0}};

void check(bool is_right, const char* what) {
  if (!is_right) {
    throw std::runtime_error(fmt::format("{} does not work", what));
  }
}

// What a unit and the switch's control plane must know of each other.
struct Offer {
  std::uint32_t queue_pair;
  std::uint32_t rkey;
  std::uint64_t address;
};

// All bytes of an item follow from its number, so that a torn one is noticed.
void fill(std::span<std::byte> item, std::uint32_t number) {
  for (std::size_t at = 0; at < item.size(); at += sizeof number) {
    std::memcpy(item.data() + at, &number, sizeof number);
  }
}

// ---- A unit. Its memory is registered, and its queue pair can receive.
void run_unit(const std::string& role, int to_switch, std::uint32_t items) {
  flows::SwitchEnd end;
  check(read(to_switch, &end, sizeof end) == sizeof end, "the switch");
  int devices = 0;
  ibv_device** const list = ibv_get_device_list(&devices);
  check(devices > 0, "the NIC");
  ibv_context* const nic = ibv_open_device(list[0]);
  ibv_pd* const domain = ibv_alloc_pd(nic);
  ibv_cq* const completions = ibv_create_cq(nic, 1, nullptr, nullptr, 0);
  void* memory = nullptr;
  check(posix_memalign(&memory, 4096, kShape.bytes()) == 0, "memory");
  const std::span<std::byte> ring(static_cast<std::byte*>(memory), kShape.bytes());
  flows::clear_ring(ring, kShape);
  ibv_mr* const region = ibv_reg_mr(domain, memory, ring.size(),
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions;
  wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  ibv_qp* const pair = ibv_create_qp(domain, &wanted);
  check(region != nullptr && pair != nullptr, "registering");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  check(ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "INIT");
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = end.queue_pair;
  attributes.rq_psn = end.psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.hop_limit = 64;
  attributes.ah_attr.grh.dgid.raw[10] = 0xff;
  attributes.ah_attr.grh.dgid.raw[11] = 0xff;
  std::memcpy(attributes.ah_attr.grh.dgid.raw + 12, kSwitch.ip.data(), 4);
  check(ibv_modify_qp(pair, &attributes,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "RTR");
  const Offer offer{pair->qp_num, region->rkey, reinterpret_cast<std::uintptr_t>(memory)};
  check(write(to_switch, &offer, sizeof offer) == sizeof offer, "the switch");

  static_assert(kShape.item_bytes % sizeof(std::uint32_t) == 0);
  std::vector<std::byte> item(kShape.item_bytes);
  std::vector<std::byte> expected(kShape.item_bytes);
  if (role == "producer") {
    flows::Producer producer(ring, kShape);
    for (std::uint32_t i = 0; i < items; ++i) {
      fill(item, i);
      producer.push(item);
    }
    producer.end();
    while (!producer.is_drained()) {
      usleep(1000);  // nothing to do but to stay until all has been taken
    }
  } else {
    flows::Consumer consumer(ring, kShape);
    std::uint32_t popped = 0;
    while (consumer.pop(item)) {
      fill(expected, popped++);
      check(item == expected, "the order of the items");
    }
    check(popped == items, "the number of the items");
    std::puts(fmt::format("{} items of {} bytes came in their order", popped, kShape.item_bytes).c_str());
  }
  ibv_destroy_qp(pair);
}

// Starts this program again, as a unit whose NIC has a cable to the switch.
pid_t start_unit(char* program, const char* role, const std::string& items, const std::string& wire, int& to_unit) {
  int ends[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  const pid_t unit = fork();
  if (unit == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a unit without a switch would wait for ever
    softnic::set_environment({.wire = wire});
    const std::string number = std::to_string(ends[1]);
    execl("/proc/self/exe", program, role, number.c_str(), items.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  to_unit = ends[0];
  return unit;
}

int run_switch(char* program, const std::string& items, double faults) {
  const std::string name = fmt::format("flow-{}", getpid());
  p4::WiredSwitch device(
      flows::zero_sided_program(),
      {.ports = {{.number = 0, .wire = "shm:" + name + "-0"}, {.number = 1, .wire = "shm:" + name + "-1"}},
       .faults = {.loss = faults, .duplication = faults, .reordering = faults}});
  flows::FlowSwitch control(device.device(), kSwitch);
  std::vector<pid_t> units;
  std::vector<flows::FlowRing> rings;
  for (std::uint8_t i = 0; i < 2; ++i) {
    const flows::Ipv4Address ip{10, 9, 0, static_cast<std::uint8_t>(i + 1)};
    int unit = -1;
    units.push_back(start_unit(program, i == 0 ? "producer" : "consumer", items,
                               fmt::format("switch:{}-{},10.9.0.{}", name, i, i + 1), unit));
    const flows::SwitchEnd end = control.new_end();
    check(write(unit, &end, sizeof end) == sizeof end, "the unit");
    Offer offer{};
    while (recv(unit, &offer, sizeof offer, MSG_DONTWAIT) != sizeof offer) {
      device.serve(std::chrono::milliseconds(1));  // the unit asks for the switch's MAC
      check(waitpid(units.back(), nullptr, WNOHANG) == 0, "the unit");
    }
    close(unit);
    rings.push_back({.mac = {0x02, 0x53, ip[0], ip[1], ip[2], ip[3]},
                     .ip = ip,
                     .port = i,
                     .queue_pair = offer.queue_pair,
                     .end = end,
                     .rkey = offer.rkey,
                     .address = offer.address,
                     .shape = kShape});
  }
  control.start({.producers = {rings[0]}, .consumers = {rings[1]}});
  bool all_right = true;
  while (!units.empty()) {
    device.serve(std::chrono::milliseconds(10));
    int status = 0;
    if (const pid_t unit = waitpid(-1, &status, WNOHANG); unit > 0) {
      all_right = all_right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      std::erase(units, unit);
    }
  }
  return all_right ? 0 : 1;
}

}  // namespace

int main(int arguments, char** values) {
  try {
    if (arguments == 4) {
      run_unit(values[1], std::atoi(values[2]), static_cast<std::uint32_t>(std::stoul(values[3])));
      return 0;
    }
    return run_switch(values[0], arguments > 1 ? values[1] : "20000", arguments > 2 ? std::stod(values[2]) : 0);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("{}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
