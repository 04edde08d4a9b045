#include "device_files.h"

#include "context.h"

#include <sidelatch/softnic/launch.h>
#include <sidelatch/version.h>

#include <endian.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace sidelatch::softnic::verbs {

namespace {

// The kernel's numbers for the nodes of verbs and of the connection manager.
constexpr unsigned kVerbsMajor = 231;
constexpr unsigned kVerbsMinor = 192;
constexpr unsigned kMiscMajor = 10;
constexpr unsigned kManagerMinor = 58;

DeviceFile folder() { return {.mode = S_IFDIR | 0755}; }
DeviceFile attribute(std::string content) {
  content += '\n';
  return {.mode = S_IFREG | 0444, .content = std::move(content)};
}
DeviceFile node(unsigned major_number, unsigned minor_number) {
  return {.mode = S_IFCHR | 0666, .device = makedev(major_number, minor_number)};
}

// Eight groups of four digits, or four for a GUID.
template <std::size_t Bytes>
std::string in_groups(const std::array<std::uint8_t, Bytes>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < Bytes; i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
  }
  return text;
}

std::string text_of(__be64 guid) {
  std::array<std::uint8_t, 8> bytes{};
  std::memcpy(bytes.data(), &guid, sizeof guid);
  return in_groups(bytes);
}

// Gives the NIC back when it ends.
class UsedNic {
 public:
  UsedNic() : nic_(acquire()) {}
  UsedNic(const UsedNic&) = delete;
  UsedNic& operator=(const UsedNic&) = delete;
  ~UsedNic() { release(nic_); }
  ProcessNic* operator->() const noexcept { return nic_.get(); }

 private:
  std::shared_ptr<ProcessNic> nic_;
};

// Removes `prefix` from the head of `path`.
bool take(std::string_view& path, std::string_view prefix) {
  const bool is_there = path.starts_with(prefix);
  path.remove_prefix(is_there ? prefix.size() : 0);
  return is_there;
}

std::optional<std::size_t> number_in(std::string_view digits) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_plain = error == std::errc{} && end == digits.data() + digits.size();
  return is_plain && digits == std::to_string(value) ? std::optional(value) : std::nullopt;
}

// `path` is what follows "ports/1/gids" and its kin. `content` is called for indexes of the table of GIDs.
template <class Content>
std::optional<DeviceFile> in_gid_table(std::string_view path, Content content) {
  if (path.empty()) {
    return folder();
  }
  const std::optional<std::size_t> index = take(path, "/") ? number_in(path) : std::nullopt;
  if (!index) {
    return std::nullopt;
  }
  const UsedNic nic;
  const std::vector<roce::Gid>& gids = nic->options().gids;
  return *index < gids.size() ? std::optional(attribute(content(gids[*index]))) : std::nullopt;
}

std::optional<DeviceFile> of_port(std::string_view path) {
  if (path.empty() || path == "/pkeys" || path == "/gid_attrs") {
    return folder();
  }
  if (take(path, "/gids")) {
    return in_gid_table(path, [](const roce::Gid& gid) { return in_groups(gid); });
  }
  if (take(path, "/gid_attrs/types")) {
    return in_gid_table(path, [](const roce::Gid&) { return std::string("RoCE v2"); });
  }
  if (take(path, "/gid_attrs/ndevs")) {
    return in_gid_table(path, [](const roce::Gid&) { return std::string(kDeviceName); });
  }
  if (path == "/state" || path == "/phys_state") {
    const UsedNic nic;
    const bool works = nic->failure().empty();
    return attribute(path == "/state" ? (works ? "4: ACTIVE" : "1: DOWN") : (works ? "5: LinkUp" : "3: Disabled"));
  }
  constexpr std::array<std::pair<std::string_view, const char*>, 8> kFixed{{{"/link_layer", "Ethernet"},
                                                                            {"/pkeys/0", "0xffff"},
                                                                            {"/rate", "40 Gb/sec (4X QDR)"},
                                                                            {"/lid", "0x0"},
                                                                            {"/lid_mask_count", "0"},
                                                                            {"/sm_lid", "0x0"},
                                                                            {"/sm_sl", "0"},
                                                                            {"/cap_mask", "0x04010000"}}};
  for (const auto& [name, content] : kFixed) {
    if (path == name) {
      return attribute(content);
    }
  }
  return std::nullopt;
}

std::optional<DeviceFile> of_device(std::string_view path) {
  if (path.empty() || path == "/ports") {
    return folder();
  }
  if (take(path, "/ports/1")) {
    return of_port(path);
  }
  if (path == "/node_type") {
    return attribute("1: CA");
  }
  if (path == "/node_desc") {
    return attribute("sidelatch's NIC in software");
  }
  if (path == "/fw_ver") {
    return attribute(fmt::format("sidelatch-{}", kVersion));
  }
  if (path == "/node_guid" || path == "/sys_image_guid") {
    const UsedNic nic;
    return attribute(text_of(guid_of(nic->options().mac)));
  }
  if (path == "/device/numa_node") {
    return attribute("-1");  // near to no node
  }
  return std::nullopt;
}

}  // namespace

std::optional<DeviceFile> device_file(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  if (path == "/dev/infiniband" || path == "/sys/class/infiniband" || path == "/sys/class/infiniband_verbs") {
    return folder();
  }
  if (path == "/dev/infiniband/uverbs0") {
    return node(kVerbsMajor, kVerbsMinor);
  }
  if (path == "/dev/infiniband/rdma_cm") {
    return node(kMiscMajor, kManagerMinor);
  }
  if (path == "/sys/class/infiniband_verbs/abi_version") {
    return attribute("6");
  }
  const ibv_device& device = the_device();
  if (take(path, device.ibdev_path)) {
    return of_device(path);
  }
  if (take(path, device.dev_path)) {
    if (path.empty()) {
      return folder();
    }
    if (path == "/ibdev") {
      return attribute(device.name);
    }
    if (path == "/abi_version") {
      return attribute("1");
    }
    if (path == "/dev") {
      return attribute(fmt::format("{}:{}", kVerbsMajor, kVerbsMinor));
    }
  }
  return std::nullopt;
}

}  // namespace sidelatch::softnic::verbs
