// Protection domains, thread domains and parent domains: ibv_alloc_pd(3), ibv_alloc_td(3), ibv_alloc_parent_domain(3).
//
// A thread domain promises that only one thread at a time uses its objects. The NIC has one lock anyway, so a thread
// domain gains nothing and costs nothing. A parent domain is another name for its protection domain. Its own allocator
// is asked for the memory of queue pairs, of shared receive queues, and of extended completion queues that name it.
#include "context.h"
#include "export.h"

#include <fmt/format.h>

#include <memory>

namespace sidelatch::softnic::verbs {

namespace {

void require_unused(const std::atomic<std::uint32_t>& users) {
  if (users.load() != 0) {
    refuse(EBUSY, "the domain is still in use");
  }
}

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes) {
  return made([&]() -> ibv_td* {
    if (attributes->comp_mask != 0) {
      refuse(EOPNOTSUPP, "ibv_td_init_attr: no comp_mask is known");
    }
    auto domain = std::make_unique<ThreadDomain>();
    domain->context = context;
    return domain.release();
  });
}

int dealloc_td(ibv_td* domain) {
  return error_of([&] {
    require_unused(of(*domain).users);
    delete &of(*domain);
    return 0;
  });
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes) {
  return made([&]() -> ibv_pd* {
    constexpr unsigned kMasks = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if ((attributes->comp_mask & ~kMasks) != 0) {
      refuse(EOPNOTSUPP, fmt::format("ibv_parent_domain_init_attr: comp_mask {:#x}", attributes->comp_mask));
    }
    if (attributes->pd == nullptr) {
      refuse(EINVAL, "a parent domain needs a protection domain");
    }
    require_same_opening(*context, *attributes->pd->context, "pd");
    if (attributes->td != nullptr) {
      require_same_opening(*context, *attributes->td->context, "td");
    }
    const bool has_allocator = (attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
    if (has_allocator && (attributes->alloc == nullptr || attributes->free == nullptr)) {
      refuse(EINVAL, "the allocators of a parent domain are two: alloc and free");
    }
    ProtectionDomain& original = of(*attributes->pd);
    auto domain = std::make_unique<ProtectionDomain>();
    domain->context = context;
    domain->handle = original.handle;
    domain->nic = original.nic;
    domain->domain = original.domain;
    domain->original = &original;
    if (has_allocator) {
      domain->alloc = attributes->alloc;
      domain->free = attributes->free;
    }
    if ((attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) {
      domain->user = attributes->pd_context;
    }
    ++*original.users;
    if (attributes->td != nullptr) {
      domain->thread_domain = &of(*attributes->td);
      ++domain->thread_domain->users;
    }
    return domain.release();
  });
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;
namespace nic = sidelatch::softnic::nic;

SIDELATCH_VERBS_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return made([&]() -> ibv_pd* {
    Context& ours = of(*context);
    auto domain = std::make_unique<ProtectionDomain>();
    domain->context = context;
    domain->nic = ours.nic.get();
    domain->domain = ours.nic->call([&](nic::Nic& nic) {
      const nic::Domain made = nic.make_domain();
      ours.domains.insert(made);
      return made;
    });
    domain->handle = domain->domain;
    return domain.release();
  });
}

SIDELATCH_VERBS_EXPORT int ibv_dealloc_pd(ibv_pd* domain) {
  return error_of([&] {
    ProtectionDomain& ours = of(*domain);
    require_unused(*ours.users);
    if (ours.original != nullptr) {
      --*ours.original->users;
      if (ours.thread_domain != nullptr) {
        --ours.thread_domain->users;
      }
    } else {
      ours.nic->call([&](nic::Nic& nic) {
        nic.destroy_domain(ours.domain);
        for (Context* const context : ours.nic->contexts) {
          context->domains.erase(ours.domain);  // it may have been imported from another one
        }
      });
    }
    delete &ours;
    return 0;
  });
}
