#include "context.h"

#include <sidelatch/softnic/launch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sidelatch::softnic::verbs {

namespace {

// The files are in device_files.cpp.
ibv_device describe_device() {
  ibv_device device{};
  const auto set = [](auto& into, std::string_view text) { text.copy(into, std::min(text.size(), sizeof into - 1)); };
  set(device.dev_name, "uverbs0");
  set(device.dev_path, "/sys/class/infiniband_verbs/uverbs0");
  set(device.ibdev_path, fmt::format("/sys/class/infiniband/{}", kDeviceName));
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  static_assert(kDeviceName.size() < sizeof device.name);
  kDeviceName.copy(device.name, kDeviceName.size());
  return device;
}

void fill_operations(Context& context) noexcept {
  fill_unsupported(context);
  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.create_cq_ex = create_cq_ex;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = get_srq_num;
  context.create_qp_ex = create_qp_ex;
  context.open_qp = open_qp;
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
  context.advise_mr = advise_mr;
  context.alloc_null_mr = alloc_null_mr;
  ibv_context_ops& operations = context.context.ops;
  operations.poll_cq = poll_cq;
  operations.req_notify_cq = req_notify_cq;
  operations.post_srq_recv = post_srq_recv;
  operations.alloc_mw = alloc_mw;
  operations.bind_mw = bind_mw;
  operations.dealloc_mw = dealloc_mw;
  operations.post_send = post_send;
  operations.post_recv = post_recv;
}

// Removes a context's objects from `objects` and from the NIC.
template <class Objects, class End>
void end_all(Objects& objects, const ibv_context& context, End end) {
  std::erase_if(objects, [&](const auto& entry) {
    if (entry.second->context != &context) {
      return false;
    }
    end(*entry.second);
    return true;
  });
}

void end_queue_pairs(const ibv_context& context, const ProcessNic& nic, nic::Nic& device) {
  std::vector<QueuePair*> ended;
  const auto add = [&](QueuePair* pair) {
    if (pair->qp_base.context == &context) {
      ended.push_back(pair);
    }
  };
  std::ranges::for_each(std::views::values(nic.queue_pairs), add);
  std::ranges::for_each(nic.opened_pairs, add);
  for (QueuePair* const pair : ended) {
    end_handle(*pair, device);
  }
}

// What another opening still uses stays, as long as the NIC does.
template <class End>
void end_unless_busy(End end) {
  try {
    end();
  } catch (const nic::NicError&) {
  }
}

// Ends users before the objects that they use, which may be those of another context of the opening.
void end_objects(const std::vector<Context*>& contexts, ProcessNic& nic, nic::Nic& device) {
  for (const Context* const one : contexts) {
    end_queue_pairs(one->context, nic, device);
  }
  for (const Context* const one : contexts) {
    end_all(nic.shared_receive_queues, one->context,
            [&](const SharedReceiveQueue& queue) { device.destroy(*queue.queue); });
  }
  for (const Context* const one : contexts) {
    std::erase_if(nic.armed, [&](const CompletionQueue* queue) { return queue->context == &one->context; });
    end_all(nic.completion_queues, one->context, [&](const CompletionQueue& queue) { device.destroy(*queue.queue); });
  }
  for (const Context* const one : contexts) {
    for (const std::uint32_t key : one->windows) {
      device.destroy_window(key);
    }
  }
  for (const Context* const one : contexts) {
    for (const auto& [key, region] : one->regions) {
      device.deregister_memory(key);
    }
  }
  for (const Context* const one : contexts) {
    for (const nic::Domain domain : one->domains) {
      end_unless_busy([&] { device.destroy_domain(domain); });
    }
    for (const std::uint32_t domain : one->xrc_domains) {
      end_unless_busy([&] { end_xrc_handle(nic, device, domain); });
    }
  }
}

bool has_objects(const Context& context, const ProcessNic& nic) {
  const auto is_its = [&](const auto& entry) { return entry.second->context == &context.context; };
  const auto is_its_pair = [&](const QueuePair* pair) { return pair->qp_base.context == &context.context; };
  return !context.regions.empty() || !context.domains.empty() || !context.windows.empty() ||
         !context.xrc_domains.empty() || std::ranges::any_of(std::views::values(nic.queue_pairs), is_its_pair) ||
         std::ranges::any_of(nic.opened_pairs, is_its_pair) || std::ranges::any_of(nic.shared_receive_queues, is_its) ||
         std::ranges::any_of(nic.completion_queues, is_its);
}

// All contexts of its opening, if it is the last one that is open. Else itself, if it was imported and has nothing: a
// program may import a device again and again.
std::vector<Context*> ended_with(Context& closed, const ProcessNic& nic) {
  std::vector<Context*> its;
  std::ranges::copy_if(nic.contexts, std::back_inserter(its),
                       [&](const Context* one) { return one->opening == closed.opening; });
  if (std::ranges::all_of(its, &Context::is_closed)) {
    return its;
  }
  const bool stays = !closed.imported.valid() || has_objects(closed, nic);
  return stays ? std::vector<Context*>{} : std::vector<Context*>{&closed};
}

}  // namespace

ibv_device& the_device() noexcept {
  static ibv_device device = describe_device();
  return device;
}

ibv_context* open_context() {
  auto context = std::make_unique<Context>();
  context->nic = acquire();
  context->sz = sizeof(verbs_context);
  fill_operations(*context);
  ibv_context& common = context->context;
  common.device = &the_device();
  // Programs duplicate the descriptor to import the device.
  common.cmd_fd = context->counter.descriptor();
  common.async_fd = context->counter.descriptor();
  common.num_comp_vectors = 1;
  // The library's own macro is an old-style cast of -1.
  std::memset(&common.abi_compat, 0xff, sizeof common.abi_compat);
  pthread_mutex_init(&common.mutex, nullptr);
  context->nic->call([&](nic::Nic& /*device*/) { context->nic->contexts.push_back(context.get()); });
  return &context.release()->context;
}

void require_same_opening(ibv_context& ours, ibv_context& its, std::string_view object) {
  if (of(ours).opening != of(its).opening) {
    refuse(EINVAL, fmt::format("{} was made with another context: make both with one", object));
  }
}

// As the kernel's file, an opening lives as long as one of its contexts, and so do the objects of them all.
void close_context(Context& context) {
  ProcessNic& nic = *context.nic;
  const std::vector<Context*> ended = nic.call([&](nic::Nic& device) {
    context.is_closed = true;
    std::vector<Context*> its = ended_with(context, nic);
    context.imported = FileDescriptor();
    end_objects(its, nic, device);
    std::erase_if(nic.contexts, [&](const Context* one) { return std::ranges::find(its, one) != its.end(); });
    return its;
  });
  for (Context* const one : ended) {
    release(one->nic);
    pthread_mutex_destroy(&one->context.mutex);
    delete one;
  }
}

}  // namespace sidelatch::softnic::verbs
