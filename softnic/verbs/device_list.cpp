// Lists, names, opens and closes the process's device. Manual pages: ibv_get_device_list(3), ibv_get_device_name(3),
// ibv_get_device_guid(3), ibv_get_device_index(3), ibv_open_device(3), ibv_import_device(3).
//
// A list has the one device, or none if the settings in the environment are wrong; then a sentence on stderr reports
// it.
#include "context.h"
#include "device_files.h"
#include "export.h"
#include "next_call.h"

#include <sidelatch/version.h>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace sidelatch::softnic::verbs {

namespace {

std::atomic<__be64> told_guid = 0;

bool settings_are_right() noexcept {
  try {
    static_cast<void>(settings_from([](const char* name) -> const char* { return std::getenv(name); }));
    return true;
  } catch (const std::exception& error) {
    complain(error.what());
    return false;
  }
}

// An error here is not the caller's but the environment's, so print it for the user.
template <class Make>
auto made_or_explained(Make make) noexcept -> decltype(make()) {
  try {
    return make();
  } catch (const VerbsError& error) {
    errno = error.error();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
  } catch (const std::exception& error) {
    complain(error.what());
    errno = ENODEV;
  }
  return {};
}

}  // namespace

__be64 guid_as_told() noexcept { return told_guid.load(); }

}  // namespace sidelatch::softnic::verbs

using namespace sidelatch::softnic::verbs;

// Shows that the library is preloaded (is_preloaded() of launch.h).
// NOLINTNEXTLINE(readability-identifier-naming): a name of C
SIDELATCH_VERBS_EXPORT const char* const sidelatch_softnic_version = sidelatch::kVersion.data();

SIDELATCH_VERBS_EXPORT ibv_device** ibv_get_device_list(int* count) {
  auto** const list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (settings_are_right()) {
    list[0] = &the_device();
  }
  if (count != nullptr) {
    *count = list[0] != nullptr ? 1 : 0;
  }
  keep(true);
  return list;
}

SIDELATCH_VERBS_EXPORT void ibv_free_device_list(ibv_device** list) {
  if (list != nullptr) {
    keep(false);
    std::free(list);
  }
}

SIDELATCH_VERBS_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

SIDELATCH_VERBS_EXPORT int ibv_get_device_index(ibv_device* /*device*/) { return -1; }  // the kernel has assigned none

SIDELATCH_VERBS_EXPORT __be64 ibv_get_device_guid(ibv_device* /*device*/) {
  return made_or_explained([] {
    std::shared_ptr<ProcessNic> nic = acquire();
    const __be64 guid = guid_of(nic->options().mac);
    release(nic);
    told_guid = guid;
    return guid;
  });
}

SIDELATCH_VERBS_EXPORT ibv_context* ibv_open_device(ibv_device* /*device*/) {
  return made_or_explained([] { return open_context(); });
}

SIDELATCH_VERBS_EXPORT int ibv_close_device(ibv_context* context) {
  return or_error([&] {
    close_context(of(*context));
    return 0;
  });
}

SIDELATCH_VERBS_EXPORT ibv_context* ibv_import_device(int descriptor) {
  return made([descriptor] { return import_context(descriptor); });
}

// Private to rdma-core, but exported. The length without the newline, or -1.
SIDELATCH_VERBS_EXPORT int ibv_read_ibdev_sysfs_file(char* into, std::size_t bytes, ibv_device* device,
                                                     const char* format, ...) {
  std::array<char, IBV_SYSFS_PATH_MAX> name{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(name.data(), name.size(), format, arguments);
  va_end(arguments);
  return or_error([&] {
    const std::optional<DeviceFile> file = device_file(fmt::format("{}/{}", device->ibdev_path, name.data()));
    if (!file || !S_ISREG(file->mode)) {
      throw QuietError(ENOENT);
    }
    std::string_view content = file->content;
    content.remove_suffix(1);
    if (content.size() >= bytes) {
      throw QuietError(ENOSPC);
    }
    content.copy(into, content.size());
    into[content.size()] = '\0';
    return static_cast<int>(content.size());
  });
}
