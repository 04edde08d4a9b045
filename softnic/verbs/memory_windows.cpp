// Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3), ibv_dealloc_mw(3).
//
// A window of type 1 is bound by ibv_bind_mw(), one of type 2 by a request with a key that the program chooses. Both
// are requests of a queue pair, done in their turn. A window's key changes when it is bound; its handle is the first
// one.
#include "context.h"
#include "convert.h"
#include "posting.h"

#include <fmt/format.h>

#include <memory>

namespace sidelatch::softnic::verbs {

ibv_mw* alloc_mw(ibv_pd* domain, ibv_mw_type type) {
  return made([&]() -> ibv_mw* {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
      refuse(EINVAL, fmt::format("there are no memory windows of type {}", static_cast<int>(type)));
    }
    ProtectionDomain& its = of(*domain);
    Context& context = of(*domain->context);
    auto window = std::make_unique<MemoryWindow>();
    window->context = domain->context;
    window->pd = domain;
    window->type = type;
    window->nic = its.nic;
    window->domain = its.domain;
    window->rkey = window->handle = its.nic->call([&](nic::Nic& nic) {
      const std::uint32_t key =
          nic.make_window(its.domain, type == IBV_MW_TYPE_1 ? nic::WindowType::one : nic::WindowType::two);
      context.windows.insert(key);
      return key;
    });
    return window.release();
  });
}

int bind_mw(ibv_qp* pair, ibv_mw* window, ibv_mw_bind* binding) {
  return error_of([&] {
    if (window->type != IBV_MW_TYPE_1) {
      refuse(EINVAL, "a memory window of type 2 is bound by a request (IBV_WR_BIND_MW)");
    }
    QueuePair& ours = of(*pair);
    ibv_mr* const region = binding->bind_info.mr;
    // Not their `pd`: parent domains and imported ones are other names for a domain.
    const nic::Domain domain = of(*window).domain;
    if (ours.pair->options().domain != domain || (region != nullptr && of(*region).region.domain != domain)) {
      refuse(EPERM, "queue pair, region and memory window must be of one protection domain");
    }
    nic::SendRequest request{.id = binding->wr_id, .kind = nic::WorkKind::bind_window};
    take_flags(request, binding->send_flags);
    const std::uint32_t key = ibv_inc_rkey(window->rkey);
    request.binding = binding_of(*window, key, binding->bind_info);
    const int error = answer_of(ours.nic->post([&](nic::Nic&) { return ours.pair->post_send(request); }));
    if (error == 0) {
      window->rkey = key;
    }
    return error;
  });
}

int dealloc_mw(ibv_mw* window) {
  return error_of([&] {
    MemoryWindow& ours = of(*window);
    ours.nic->call([&](nic::Nic& nic) {
      nic.destroy_window(window->handle);
      of(*window->context).windows.erase(window->handle);
    });
    delete &ours;
    return 0;
  });
}

}  // namespace sidelatch::softnic::verbs
