// XRC domains: ibv_open_xrcd(3), ibv_close_xrcd(3).
//
// A domain that was opened with a file is the same for all who open it with that file in this process. Processes do not
// share domains: each has a NIC of its own. A handle ends when what was made through it has ended, or with its context;
// the domain ends with its last handle.
#include "context.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

namespace sidelatch::softnic::verbs {

namespace {

// Under the lock.
std::uint32_t domain_of_file(ProcessNic& nic, nic::Nic& device, const struct stat& file, int flags) {
  const std::pair key(std::uint64_t{file.st_dev}, std::uint64_t{file.st_ino});
  const auto found = nic.xrc_files.find(key);
  if (found == nic.xrc_files.end()) {
    if ((flags & O_CREAT) == 0) {
      refuse(EAGAIN, "the file has no XRC domain in this process: open it with O_CREAT first");
    }
    return nic.xrc_files[key] = device.make_xrc_domain();
  }
  if ((flags & O_EXCL) != 0) {
    refuse(EINVAL, "the file has an XRC domain already (O_EXCL)");
  }
  return found->second;
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes) {
  return made([&]() -> ibv_xrcd* {
    constexpr std::uint32_t kMasks = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if ((attributes->comp_mask & kMasks) != kMasks || (attributes->comp_mask & ~kMasks) != 0) {
      refuse(EINVAL, "an XRC domain needs fd and oflags, and nothing else");
    }
    struct stat file {};
    if (attributes->fd >= 0 && ::fstat(attributes->fd, &file) != 0) {
      refuse(errno, fmt::format("the file of an XRC domain: {}", std::strerror(errno)));
    }
    if (attributes->fd < 0 && (attributes->oflags & O_CREAT) == 0) {
      refuse(EINVAL, "an XRC domain without a file must be made (O_CREAT)");
    }
    ProcessNic& nic = *of(*context).nic;
    auto domain = std::make_unique<XrcDomain>();
    domain->context = context;
    domain->nic = &nic;
    domain->domain = nic.call([&](nic::Nic& device) {
      const std::uint32_t number =
          attributes->fd < 0 ? device.make_xrc_domain() : domain_of_file(nic, device, file, attributes->oflags);
      ++nic.xrc_users[number];
      of(*context).xrc_domains.insert(number);
      return number;
    });
    return domain.release();
  });
}

void end_xrc_handle(ProcessNic& nic, nic::Nic& device, std::uint32_t domain) {
  const auto users = nic.xrc_users.find(domain);
  if (users->second > 1) {
    --users->second;
    return;
  }
  device.destroy_xrc_domain(domain);
  std::erase_if(nic.xrc_files, [domain](const auto& entry) { return entry.second == domain; });
  nic.xrc_users.erase(users);
}

int close_xrcd(ibv_xrcd* domain) {
  return error_of([&] {
    XrcDomain& ours = of(*domain);
    if (ours.handle.use_count() > 1) {
      refuse(EBUSY, "queue pairs or shared receive queues were made through this handle of the XRC domain");
    }
    ours.nic->call([&](nic::Nic& device) {
      end_xrc_handle(*ours.nic, device, ours.domain);
      auto& its = of(*ours.context).xrc_domains;
      its.erase(its.find(ours.domain));
    });
    delete &ours;
    return 0;
  });
}

}  // namespace sidelatch::softnic::verbs
