// The files by which programs find a device: its node in /dev/infiniband, and its attributes in sysfs.
//
//   if (const std::optional<DeviceFile> file = device_file("/sys/class/infiniband/sidelatch0/ports/1/state")) ...
//
// UCX looks for /dev/infiniband before it asks for devices, and reads GID types; Open MPI, hwloc and libfabric read
// where the device is. Names and contents are those of the kernel's Documentation/ABI/stable/sysfs-class-infiniband.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

namespace sidelatch::softnic::verbs {

struct DeviceFile {
  mode_t mode = 0;           ///< type and rights
  dev_t device = 0;          ///< of a character device
  std::string content = {};  ///< of an attribute
};

/// Could `path` be one of them? Cheap: for calls that every program makes. NULL is none: the kernel's answer to it is
/// EFAULT, and programs ask for that on purpose (Rust's library does, to learn whether there is a statx()).
[[nodiscard]] inline bool may_be_device_file(const char* path) noexcept {
  constexpr std::string_view kNodes = "/dev/infiniband";
  constexpr std::string_view kAttributes = "/sys/class/infiniband";
  // The C library declares that these paths are never NULL, so the compiler would drop the comparison below where this
  // is inlined. Behind this line it knows nothing of the pointer.
  asm("" : "+r"(path));
  return path != nullptr && path[0] == '/' &&
         (std::string_view(path).starts_with(kNodes) || std::string_view(path).starts_with(kAttributes));
}

/// Nothing if the device has no such file. Attributes that tell of this station (GIDs, state, GUID) bring the process's
/// NIC up. Throws like acquire().
[[nodiscard]] std::optional<DeviceFile> device_file(std::string_view path);

}  // namespace sidelatch::softnic::verbs
