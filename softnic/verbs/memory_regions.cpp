// Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_dereg_mr(3), ibv_alloc_null_mr(3).
//
// The NIC touches the program's memory in place. Registration requests the pages, as a kernel does that pins them, so a
// wrong range is refused at once (EFAULT) and causes no fault inside the NIC later. For on-demand memory the pages are
// requested at each use instead, and a use of what is not mapped fails. A region has one key, which is both lkey and
// rkey.
#include "context.h"
#include "convert.h"
#include "export.h"

#include "softnic/nic/gone_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

// Macros that choose between the functions below.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#ifndef MADV_POPULATE_READ  // Linux 5.14
#error "madvise(2) without MADV_POPULATE_READ and MADV_POPULATE_WRITE"
#endif

namespace sidelatch::softnic::verbs {

namespace {

bool is_mapped(void* from, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  return ::mincore(from, bytes, pages.data()) == 0;
}

struct Pages {
  void* from = nullptr;
  std::size_t bytes = 0;
};

Pages pages_of(const void* address, std::size_t length) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(address) + length + page - 1) / page * page;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded down to its page
  return {reinterpret_cast<void*>(begin), length == 0 || end <= begin ? 0 : end - begin};
}

// False: not all of them are mapped or may be used so, or the system cannot tell.
bool request(const Pages& pages, bool is_written) {
  return ::madvise(pages.from, pages.bytes, is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

bool is_there(std::byte* data, std::uint64_t length, bool writes) { return request(pages_of(data, length), writes); }

// Throws VerbsError (EFAULT) unless the whole range is mapped, and writable if the NIC may write.
void require_memory(void* address, std::size_t length, bool is_written) {
  const Pages pages = pages_of(address, length);
  if (pages.bytes == 0 || request(pages, is_written)) {
    return;  // the NIC checks empty and wrapping ranges
  }
  // EINVAL: the memory may be read-only, or it is a device's memory, whose pages cannot be requested, or the kernel is
  // older.
  const bool may_be_fine = errno == EINVAL && (!is_written || !request(pages, false));
  if (!may_be_fine || !is_mapped(pages.from, pages.bytes)) {
    refuse(EFAULT, "the range is not mapped, or not writable");
  }
}

// All addresses of the process: ibv_reg_mr() of on-demand memory from NULL with SIZE_MAX bytes.
constexpr std::uint64_t kFirstAddress = 4096;
constexpr std::uint64_t kAddresses = (std::uint64_t{1} << 47U) - 2 * kFirstAddress;

struct Wanted {
  void* address = nullptr;
  std::size_t length = 0;
  std::uint64_t iova = 0;
  unsigned access = 0;
};

nic::Region region_of(const ProtectionDomain& domain, const Wanted& wanted) {
  const nic::Rights rights = rights_of(wanted.access);
  if ((wanted.access & IBV_ACCESS_ON_DEMAND) != 0) {
    const bool is_implicit = wanted.address == nullptr && wanted.length == ~std::size_t{0};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a place in the process's addresses
    auto* const first = reinterpret_cast<std::byte*>(kFirstAddress);
    return {.data = is_implicit ? first : static_cast<std::byte*>(wanted.address),
            .length = is_implicit ? kAddresses : wanted.length,
            .address = is_implicit ? kFirstAddress : wanted.iova,
            .domain = domain.domain,
            .rights = rights,
            .is_there = is_there};
  }
  require_memory(wanted.address, wanted.length, allows(rights, nic::Rights::local_write));
  return {.data = static_cast<std::byte*>(wanted.address),
          .length = wanted.length,
          .address = wanted.iova,
          .domain = domain.domain,
          .rights = rights,
          .is_there = nullptr};
}

MemoryRegion* make_region(ibv_pd& domain, const nic::Region& description) {
  nic::bear_gone_pages();  // the program may have installed a handler of its own since
  auto region = std::make_unique<MemoryRegion>();
  region->context = domain.context;
  region->pd = &domain;
  region->region = description;
  Context& context = of(*domain.context);
  region->lkey = region->rkey = region->handle = context.nic->call([&](nic::Nic& nic) {
    const std::uint32_t key = nic.register_memory(region->region);
    context.regions.emplace(key, region.get());
    return key;
  });
  return region.release();
}

// The kernel asks for this: a device translates whole pages.
void require_same_offset(const void* address, std::uint64_t iova) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (reinterpret_cast<std::uintptr_t>(address) % page != iova % page) {
    refuse(EINVAL, fmt::format("the address {} and the IOVA {:#x} differ within a page", address, iova));
  }
}

ibv_mr* register_memory(ibv_pd* domain, const Wanted& wanted) noexcept {
  return made([&]() -> ibv_mr* {
    if ((wanted.access & IBV_ACCESS_ZERO_BASED) == 0) {
      require_same_offset(wanted.address, wanted.iova);
    }
    MemoryRegion* const region = make_region(*domain, region_of(of(*domain), wanted));
    region->addr = wanted.address;
    region->length = wanted.length;
    return region;
  });
}

// The address of the first byte in requests.
std::uint64_t iova_of(const void* address, unsigned access) {
  return (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(address);
}

struct Change {
  int flags = 0;
  ibv_pd* domain = nullptr;
  void* address = nullptr;
  std::size_t length = 0;
  int access = 0;
};

nic::Region changed(const MemoryRegion& region, const Change& change) {
  nic::Region wanted = region.region;
  if ((change.flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    wanted.domain = of(*change.domain).domain;
  }
  if ((change.flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    wanted.rights = rights_of(static_cast<unsigned>(change.access));
  }
  if ((change.flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    wanted.data = static_cast<std::byte*>(change.address);
    wanted.length = change.length;
    wanted.address = iova_of(change.address, 0);
  }
  if (wanted.is_there == nullptr) {
    require_memory(wanted.data, wanted.length, allows(wanted.rights, nic::Rights::local_write));
  }
  return wanted;
}

}  // namespace

// Only the lkey means anything (ibv_alloc_null_mr(3)).
ibv_mr* alloc_null_mr(ibv_pd* domain) {
  return made([&]() -> ibv_mr* {
    MemoryRegion* const region =
        make_region(*domain, {.domain = of(*domain).domain, .rights = nic::Rights::local_write, .is_null = true});
    region->addr = nullptr;
    region->length = ~std::size_t{0};
    region->rkey = 0;
    return region;
  });
}

int advise_mr(ibv_pd* domain, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* parts, std::uint32_t count) {
  return error_of([&] {
    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || (flags & ~unsigned{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) {
      refuse(EOPNOTSUPP, "there is no such advice");
    }
    if (count == 0) {
      refuse(EINVAL, "an advice needs a range");
    }
    const nic::Rights needed =
        advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? nic::Rights::local_write : nic::Rights::none;
    for (const ibv_sge& part : std::span(parts, count)) {
      const bool is_allowed = of(*domain).nic->call(
          [&](nic::Nic& nic) { return nic.may_touch(part.lkey, of(*domain).domain, part.addr, part.length, needed); });
      if (!is_allowed) {
        refuse(EFAULT, fmt::format("lkey {:#x} gives no {} bytes at {:#x}, or they are not mapped", part.lkey,
                                   part.length, part.addr));
      }
    }
    return 0;
  });
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;
namespace nic = sidelatch::softnic::nic;

SIDELATCH_VERBS_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t length, int access) {
  const auto flags = static_cast<unsigned>(access);
  return register_memory(domain,
                         {.address = address, .length = length, .iova = iova_of(address, flags), .access = flags});
}

SIDELATCH_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, std::size_t length, std::uint64_t iova,
                                               int access) {
  return register_memory(domain,
                         {.address = address, .length = length, .iova = iova, .access = static_cast<unsigned>(access)});
}

SIDELATCH_VERBS_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length, std::uint64_t iova,
                                                unsigned access) {
  // ibv_reg_mr() also comes here if the access flags are not known at compile time.
  const bool is_zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  return register_memory(domain,
                         {.address = address, .length = length, .iova = is_zero_based ? 0 : iova, .access = access});
}

SIDELATCH_VERBS_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* /*domain*/, std::uint64_t /*offset*/, std::size_t /*length*/,
                                                 std::uint64_t /*iova*/, int /*descriptor*/, int /*access*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

// Keeps the key.
SIDELATCH_VERBS_EXPORT int ibv_rereg_mr(ibv_mr* region, int flags, ibv_pd* domain, void* address, std::size_t length,
                                        int access) {
  const int error = error_of([&] {
    const bool lacks_domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0 && domain == nullptr;
    const bool lacks_range = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || length == 0);
    if ((flags & ~int{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0 || flags == 0 || lacks_domain || lacks_range) {
      return EINVAL;
    }
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
      require_same_opening(*region->context, *domain->context, "pd");
    }
    MemoryRegion& ours = of(*region);
    const nic::Region wanted = changed(ours, {flags, domain, address, length, access});
    of(*region->context).nic->call([&](nic::Nic& nic) {
      nic.change_memory(region->lkey, wanted);
      ours.region = wanted;
    });
    region->addr = wanted.data;
    region->length = wanted.length;
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
      region->pd = domain;
    }
    return 0;
  });
  if (error == 0) {
    return 0;
  }
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;  // the old region is unchanged
}

SIDELATCH_VERBS_EXPORT int ibv_dereg_mr(ibv_mr* region) {
  return error_of([&] {
    ProcessNic& process = *of(*region->context).nic;
    process.call([&](nic::Nic& nic) {
      nic.deregister_memory(region->lkey);
      for (Context* const context : process.contexts) {
        context->regions.erase(region->lkey);  // it may have been imported from another one
      }
    });
    delete &of(*region);
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT int ibv_fork_init() { return 0; }  // memory is not pinned, so fork() is harmless
SIDELATCH_VERBS_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
SIDELATCH_VERBS_EXPORT int ibv_dontfork_range(void* /*base*/, std::size_t /*bytes*/) { return 0; }
SIDELATCH_VERBS_EXPORT int ibv_dofork_range(void* /*base*/, std::size_t /*bytes*/) { return 0; }
