#include "stub_provider.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

// Macros that choose between the functions below.
#undef ibv_query_port
#undef ibv_reg_mr

namespace sidelatch::fabric::verbs {

namespace {

constexpr std::uint8_t kIpv4Gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};

struct StubCompletion : ibv_wc {
  std::uint64_t retires = 0;  // of its queue pair's requests, all up to this one
};

struct StubCompletionQueue : ibv_cq {
  std::vector<StubCompletion> ring;
  std::size_t oldest = 0;
  std::size_t count = 0;
};

struct StubQueuePair : ibv_qp {
  bool stuck = false;
  std::uint32_t places = 0;
  std::uint64_t posted = 0;
  std::uint64_t retired = 0;
  std::deque<std::uint64_t> receives;  // their wr_id
};

std::map<std::uint32_t, StubQueuePair*>& queue_pairs() {
  static std::map<std::uint32_t, StubQueuePair*> by_number;
  return by_number;
}

// A failure that is reported late.
struct Withheld {
  ibv_cq* queue = nullptr;
  StubCompletion completion{};
};
Withheld withheld;

// The kernel's end of the descriptor that reports events, shared by all contexts.
int events_descriptor() {
  static const int kDescriptor = ::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
  return kDescriptor;
}

// NOLINTBEGIN(performance-no-int-to-ptr): both ends of a request are addresses of this process
void execute(const ibv_send_wr& request) {
  const ibv_sge none{};
  const ibv_sge& buffer = request.num_sge == 0 ? none : request.sg_list[0];
  auto* const local = reinterpret_cast<std::byte*>(buffer.addr);
  if (request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_READ) {
    auto* const remote = reinterpret_cast<std::byte*>(request.wr.rdma.remote_addr);
    const bool writes = request.opcode == IBV_WR_RDMA_WRITE;
    if (buffer.length != 0) {
      std::memcpy(writes ? remote : local, writes ? local : remote, buffer.length);
    }
    return;
  }
  auto* const word = reinterpret_cast<std::uint64_t*>(request.wr.atomic.remote_addr);
  const std::uint64_t old = *word;
  std::memcpy(local, &old, sizeof old);
  if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    *word = old + request.wr.atomic.compare_add;
  } else if (old == request.wr.atomic.compare_add) {
    *word = request.wr.atomic.swap;
  }
}
// NOLINTEND(performance-no-int-to-ptr)

void push(ibv_cq& to, const StubCompletion& completion) {
  auto& queue = static_cast<StubCompletionQueue&>(to);
  if (queue.count == queue.ring.size()) {
    std::abort();  // the library has let its completion queue overrun
  }
  std::size_t place = queue.oldest + queue.count++;
  place = place >= queue.ring.size() ? place - queue.ring.size() : place;
  queue.ring[place] = completion;
}

StubCompletion completion_of(const StubQueuePair& queue_pair, std::uint64_t wr_id, ibv_wc_status status) {
  StubCompletion completion{};
  completion.wr_id = wr_id;
  completion.status = status;
  completion.qp_num = queue_pair.qp_num;
  return completion;
}

// The last request that was posted.
void complete(const StubQueuePair& queue_pair, const ibv_send_wr& request, ibv_wc_status status) {
  StubCompletion completion = completion_of(queue_pair, request.wr_id, status);
  completion.retires = queue_pair.posted;
  if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR && stub_device().failure_is_late) {
    withheld = {queue_pair.send_cq, completion};
    return;
  }
  push(*queue_pair.send_cq, completion);
}

void fail(StubQueuePair& queue_pair) {
  queue_pair.state = IBV_QPS_ERR;
  for (; !queue_pair.receives.empty(); queue_pair.receives.pop_front()) {
    push(*queue_pair.recv_cq, completion_of(queue_pair, queue_pair.receives.front(), IBV_WC_WR_FLUSH_ERR));
  }
}

}  // namespace

StubDevice::StubDevice() {
  limits.phys_port_cnt = 1;
  limits.atomic_cap = IBV_ATOMIC_HCA;
  limits.max_qp_rd_atom = limits.max_qp_init_rd_atom = 16;
  limits.max_cqe = 1 << 22;
  limits.max_qp = 1 << 16;
  limits.max_qp_wr = 1 << 15;
  ibv_port_attr port{};
  port.state = IBV_PORT_ACTIVE;
  port.active_mtu = port.max_mtu = IBV_MTU_4096;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.gid_tbl_len = 16;
  ports.push_back(port);
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, kIpv4Gid, sizeof kIpv4Gid);
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  gids.push_back(entry);
}

void StubDevice::raise(ibv_event_type type) const {
  ibv_async_event event{};
  event.event_type = type;
  stub_device().events.push_back(event);
  const std::uint64_t one = 1;
  static_cast<void>(::write(events_descriptor(), &one, sizeof one));
}

StubDevice& stub_device() {
  static StubDevice device;
  return device;
}

}  // namespace sidelatch::fabric::verbs

namespace {
using namespace sidelatch::fabric::verbs;

ibv_device& the_device() {
  static ibv_device device = [] {
    ibv_device made{};
    std::strcpy(made.name, "stub0");
    return made;
  }();
  return device;
}

std::uint32_t next_number() {
  static std::uint32_t number = 0;
  return ++number;
}
}  // namespace

extern "C" {

int stub_post_send(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr** refused) {
  StubDevice& device = stub_device();
  auto& stub = static_cast<StubQueuePair&>(*queue_pair);
  for (; request != nullptr; request = request->next) {
    const std::uint64_t number = ++device.requests;
    if (number == device.refused_request || (queue_pair->state != IBV_QPS_RTS && queue_pair->state != IBV_QPS_ERR)) {
      *refused = request;
      return number == device.refused_request ? device.refusal : EINVAL;
    }
    if (stub.posted - stub.retired == stub.places) {
      *refused = request;
      return ENOMEM;
    }
    ++stub.posted;
    if (queue_pair->state == IBV_QPS_ERR) {
      complete(stub, *request, IBV_WC_WR_FLUSH_ERR);
    } else if (number == device.failing_request) {
      complete(stub, *request, device.failure);
      fail(stub);
    } else if (number == device.lost_request || stub.stuck) {
      stub.stuck = true;
    } else {
      device.fences += (request->send_flags & IBV_SEND_FENCE) != 0 ? 1 : 0;
      execute(*request);
      if ((request->send_flags & IBV_SEND_SIGNALED) != 0) {
        complete(stub, *request, IBV_WC_SUCCESS);
      }
    }
  }
  return 0;
}

int stub_post_recv(ibv_qp* queue_pair, ibv_recv_wr* request, ibv_recv_wr** /*refused*/) {
  auto& stub = static_cast<StubQueuePair&>(*queue_pair);
  for (; request != nullptr; request = request->next) {
    stub.receives.push_back(request->wr_id);
  }
  if (stub.state == IBV_QPS_ERR) {
    fail(stub);
  }
  return 0;
}

int stub_poll_cq(ibv_cq* queue, int most, ibv_wc* completions) {
  StubDevice& device = stub_device();
  if (device.poll_fails) {
    return -1;
  }
  auto& stub = static_cast<StubCompletionQueue&>(*queue);
  int count = 0;
  for (; count < most && count < device.most_polled && device.most_reported > 0 && stub.count > 0; ++count) {
    --device.most_reported;
    const StubCompletion& completion = stub.ring[stub.oldest];
    completions[count] = completion;
    if (const auto of = queue_pairs().find(completion.qp_num); of != queue_pairs().end()) {
      of->second->retired = std::max(of->second->retired, completion.retires);
    }
    stub.oldest = stub.oldest + 1 == stub.ring.size() ? 0 : stub.oldest + 1;
    --stub.count;
  }
  if (count > 0 && withheld.queue != nullptr && withheld.queue != queue) {
    push(*std::exchange(withheld.queue, nullptr), withheld.completion);
  }
  return count;
}

int ibv_fork_init() { return 0; }

ibv_device** ibv_get_device_list(int* count) {
  auto** const list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  list[0] = stub_device().present ? &the_device() : nullptr;
  *count = stub_device().present ? 1 : 0;
  return list;
}
void ibv_free_device_list(ibv_device** list) { std::free(list); }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context{};
  context->device = device;
  context->ops.post_send = stub_post_send;
  context->ops.poll_cq = stub_poll_cq;
  context->ops.post_recv = stub_post_recv;
  context->async_fd = events_descriptor();
  return context;
}
int ibv_close_device(ibv_context* context) {
  delete context;
  return 0;
}

int ibv_query_device(ibv_context* /*context*/, ibv_device_attr* limits) {
  *limits = stub_device().limits;
  return 0;
}
int ibv_query_port(ibv_context* /*context*/, std::uint8_t number, _compat_ibv_port_attr* port) {
  if (number == 0 || number > stub_device().ports.size()) {
    return EINVAL;
  }
  // Callers through the header have an ibv_port_attr.
  *reinterpret_cast<ibv_port_attr*>(port) = stub_device().ports[number - 1U];
  return 0;
}
int _ibv_query_gid_ex(ibv_context* /*context*/, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                      std::uint32_t /*flags*/, std::size_t /*size*/) {
  if (index >= stub_device().gids.size() || std::ranges::count(stub_device().ports_without_gids, port) != 0) {
    return ENODATA;
  }
  *entry = stub_device().gids[index];
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const domain = new ibv_pd{};
  domain->context = context;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* data, std::size_t bytes, int /*access*/) {
  if (const int error = stub_device().registration_error; error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const region = new ibv_mr{};
  region->context = domain->context;
  region->pd = domain;
  region->addr = data;
  region->length = bytes;
  region->lkey = region->rkey = next_number();
  return region;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* data, std::size_t bytes, std::uint64_t /*address*/, unsigned access) {
  return ibv_reg_mr(domain, data, bytes, static_cast<int>(access));
}
int ibv_dereg_mr(ibv_mr* region) {
  if (const int error = stub_device().deregistration_error; error != 0) {
    return error;
  }
  ++stub_device().regions_ended;
  delete region;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* /*of_caller*/, ibv_comp_channel* /*channel*/,
                      int /*vector*/) {
  if (const int error = stub_device().completion_queue_error; error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const queue = new StubCompletionQueue{};
  queue->context = context;
  queue->cqe = entries;
  queue->ring.resize(static_cast<std::size_t>(entries));
  return queue;
}
int ibv_destroy_cq(ibv_cq* queue) {
  delete static_cast<StubCompletionQueue*>(queue);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (attributes->cap.max_inline_data > stub_device().most_inline) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const queue_pair = new StubQueuePair{};
  queue_pair->context = domain->context;
  queue_pair->pd = domain;
  queue_pair->send_cq = attributes->send_cq;
  queue_pair->recv_cq = attributes->recv_cq;
  queue_pair->places = attributes->cap.max_send_wr;
  queue_pair->qp_num = next_number();
  queue_pair->state = IBV_QPS_RESET;
  queue_pairs()[queue_pair->qp_num] = queue_pair;
  return queue_pair;
}
// Completions stay in the completion queue, here and in ibv_modify_qp(): some providers remove them, others do not.
int ibv_destroy_qp(ibv_qp* queue_pair) {
  queue_pairs().erase(queue_pair->qp_num);
  delete static_cast<StubQueuePair*>(queue_pair);
  return 0;
}
int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  queue_pair->state = attributes->qp_state;
  auto& stub = static_cast<StubQueuePair&>(*queue_pair);
  stub.stuck = false;
  if (stub.state == IBV_QPS_RESET) {
    stub.retired = stub.posted;
    stub.receives.clear();
  } else if (stub.state == IBV_QPS_ERR) {
    fail(stub);
  }
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    stub_device().path_mtu = attributes->path_mtu;
    stub_device().gid_index = attributes->ah_attr.grh.sgid_index;
    stub_device().port_number = attributes->ah_attr.port_num;
  }
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    stub_device().most_rd_atomic = attributes->max_rd_atomic;
  }
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  std::uint64_t one = 0;
  if (stub_device().events.empty() || ::read(context->async_fd, &one, sizeof one) != sizeof one) {
    return -1;
  }
  *event = stub_device().events.front();
  stub_device().events.pop_front();
  return 0;
}
void ibv_ack_async_event(ibv_async_event* /*event*/) { ++stub_device().events_acknowledged; }

}  // extern "C"
