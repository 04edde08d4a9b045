// Objects of a device that was opened elsewhere: ibv_import_device(3), ibv_import_pd(3), ibv_import_mr(3).
//
// An imported object is another name for the original, which must outlive it; contexts may be closed in any order.
// Queue pairs and memory of the software NIC live in the process that made them, so only that process can import them,
// also by a duplicate of the descriptor. Another process is refused.
#include "context.h"
#include "export.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

namespace sidelatch::softnic::verbs {

namespace {

// The kernel's number of an eventfd, which all its duplicates share; nothing for other files.
std::optional<std::uint32_t> number_of_eventfd(int descriptor) {
  constexpr std::string_view kName = "eventfd-id:";
  const int file = ::open(fmt::format("/proc/self/fdinfo/{}", descriptor).c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 1024> text{};
  const ssize_t bytes = file < 0 ? -1 : ::read(file, text.data(), text.size());
  if (file >= 0) {
    ::close(file);
  }
  std::string_view rest(text.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  const std::size_t at = rest.find(kName);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  rest.remove_prefix(at + kName.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

// Of the context whose descriptor it is; none: it is of another process.
std::shared_ptr<const Opening> opening_of(ProcessNic& nic, std::uint32_t number) {
  return nic.call([&](nic::Nic& /*device*/) -> std::shared_ptr<const Opening> {
    const auto found = std::ranges::find_if(
        nic.contexts, [&](const Context* context) { return number_of_eventfd(context->context.async_fd) == number; });
    return found == nic.contexts.end() ? nullptr : (*found)->opening;
  });
}

}  // namespace

ibv_context* import_context(int descriptor) {
  const std::optional<std::uint32_t> number = number_of_eventfd(descriptor);
  if (!number) {
    refuse(EINVAL, fmt::format("descriptor {} is not the cmd_fd of a context", descriptor));
  }
  ibv_context* const context = open_context();
  const std::shared_ptr<const Opening> opening = opening_of(*of(*context).nic, *number);
  if (opening == nullptr) {
    close_context(of(*context));
    refuse(EOPNOTSUPP, "a device is imported only in the process that opened it: its queue pairs and memory are there");
  }
  // It belongs to the new context now.
  of(*context).opening = opening;
  of(*context).imported = FileDescriptor(descriptor);
  context->cmd_fd = descriptor;
  return context;
}

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;
namespace nic = sidelatch::softnic::nic;

SIDELATCH_VERBS_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  return made([&]() -> ibv_pd* {
    const Context& ours = of(*context);
    ProcessNic& nic = *ours.nic;
    const bool is_there = nic.call([&](nic::Nic& /*device*/) {
      return std::ranges::any_of(nic.contexts, [&](const Context* other) {
        return other->opening == ours.opening && other->domains.contains(handle);
      });
    });
    if (!is_there) {
      refuse(ENOENT, fmt::format("there is no protection domain with the handle {}", handle));
    }
    auto domain = std::make_unique<ProtectionDomain>();
    domain->context = context;
    domain->handle = handle;
    domain->nic = &nic;
    domain->domain = handle;
    return domain.release();
  });
}

SIDELATCH_VERBS_EXPORT void ibv_unimport_pd(ibv_pd* domain) { delete &of(*domain); }

SIDELATCH_VERBS_EXPORT ibv_mr* ibv_import_mr(ibv_pd* domain, std::uint32_t handle) {
  return made([&]() -> ibv_mr* {
    auto region = std::make_unique<MemoryRegion>();
    ProcessNic& nic = *of(*domain).nic;
    nic.call([&](nic::Nic& /*device*/) {
      for (const Context* const other : nic.contexts) {
        const auto found = other->regions.find(handle);
        if (other->opening == of(*domain->context).opening && found != other->regions.end()) {
          region->region = found->second->region;
          return;
        }
      }
      refuse(ENOENT, fmt::format("there is no memory region with the handle {:#x}", handle));
    });
    if (region->region.domain != of(*domain).domain) {
      refuse(EINVAL, "the memory region is of another protection domain");
    }
    region->context = domain->context;
    region->pd = domain;
    region->length = region->region.length;  // addr stays NULL, as the manual page says
    region->lkey = region->rkey = region->handle = handle;
    return region.release();
  });
}

SIDELATCH_VERBS_EXPORT void ibv_unimport_mr(ibv_mr* region) { delete &of(*region); }
