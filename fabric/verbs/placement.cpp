#include "placement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

namespace sidelatch::fabric::verbs {

namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kHugePages = "/sys/kernel/mm/hugepages";
constexpr const char* kNodes = "/sys/devices/system/node";

std::string_view without_line_end(std::string_view text) {
  return text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
}

// Parses decimal digits and nothing else.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string folder_name(std::uint64_t page) { return fmt::format("hugepages-{}kB", page / 1024); }

// For messages: the value of a kernel counter.
std::string counter(const Platform& platform, const std::string& path) {
  const std::optional<std::string> text = platform.read_file(path);
  return text ? std::string(without_line_end(*text)) : "unknown";
}

void require_page_size(std::uint64_t page, const Platform& platform) {
  const std::vector<std::string> sizes = platform.list_folder(kHugePages);
  if (std::ranges::find(sizes, folder_name(page)) == sizes.end()) {
    throw DeviceError(
        fmt::format("huge_pages is {}: this kernel has no {}; it has {}", page, folder_name(page), joined(sizes)));
  }
}

// Empty: a kernel without NUMA.
NumberList nodes_with_memory(const Platform& platform) {
  const std::string path = fmt::format("{}/has_memory", kNodes);
  const std::optional<std::string> text = platform.read_file(path);
  return text ? parse_list(*text, path) : NumberList{};
}

std::optional<std::uint32_t> node_of_device(const std::string& device, const Platform& platform) {
  const std::string path = fmt::format("{}/{}/device/numa_node", kDevices, device);
  const std::optional<std::string> text = platform.read_file(path);
  if (!text || *text == "-1\n") {
    return std::nullopt;
  }
  const auto number = parse_number<std::uint32_t>(without_line_end(*text));
  if (!number) {
    throw DeviceError(fmt::format("{} contains '{}': a node's number was expected", path, without_line_end(*text)));
  }
  return number;
}

// The node to bind to; none if that would change nothing.
std::optional<std::uint32_t> choose_node(NumaNode wanted, const std::string& device, const Platform& platform) {
  if (wanted.kind() == NumaNode::Kind::any) {
    return std::nullopt;
  }
  const bool of_nic = wanted.kind() == NumaNode::Kind::nic;
  const NumberList nodes = nodes_with_memory(platform);
  if (of_nic && nodes.size() <= 1) {
    return std::nullopt;
  }
  const std::optional<std::uint32_t> node = of_nic ? node_of_device(device, platform) : wanted.value();
  if (!node) {
    return std::nullopt;
  }
  if (!std::ranges::binary_search(nodes, *node)) {
    throw DeviceError(fmt::format("numa: {} {}, which has no memory; nodes with memory: {}",
                                  of_nic ? device + " is at node" : std::string("there is no node"), *node,
                                  nodes.empty() ? "unknown (a kernel without NUMA)" : format_list(nodes)));
  }
  return nodes.size() == 1 ? std::nullopt : node;
}

}  // namespace

NumberList parse_list(std::string_view text, std::string_view path) {
  const std::string_view list = without_line_end(text);
  const auto fail = [&] {
    throw DeviceError(fmt::format("{} contains '{}': a list such as 0-3,8 was expected", path, list));
  };
  // More than any kernel supports; a longer range would be an error that fills the memory.
  constexpr std::uint32_t kMost = 1 << 16;
  NumberList numbers;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view range = rest.substr(0, comma);
    if (comma == rest.size() - 1) {
      fail();
    }
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t dash = range.find('-');
    const auto first = parse_number<std::uint32_t>(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number<std::uint32_t>(range.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMost || (!numbers.empty() && *first <= numbers.back())) {
      fail();
    }
    for (std::uint32_t number = *first; number <= *last; ++number) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::string format_list(const NumberList& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) {
      ++last;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", *first);
    if (last != first) {
      text += fmt::format("-{}", *last);
    }
    first = std::next(last);
  }
  return text;
}

Placement::Placement(const DeviceOptions& options, const std::string& device, const Platform& platform)
    : platform_(&platform), huge_pages_(options.huge_pages), node_(choose_node(options.numa, device, platform)) {
  if (huge_pages_ != 0) {
    require_page_size(huge_pages_, platform);
  }
}

namespace {

// 0: more than there can be.
std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t page) noexcept {
  return bytes > std::numeric_limits<std::uint64_t>::max() - page ? 0 : (bytes + page - 1) / page * page;
}

}  // namespace

// munmap(2) takes only whole huge pages.
std::uint64_t Placement::whole_pages(std::uint64_t bytes) const noexcept {
  return huge_pages_ == 0 ? bytes : rounded_up(bytes, huge_pages_);
}

std::uint64_t Placement::taken_by(std::uint64_t bytes) const noexcept {
  static const auto kOrdinaryPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return rounded_up(bytes, huge_pages_ == 0 ? kOrdinaryPage : huge_pages_);
}

std::byte* Placement::obtain(std::uint64_t bytes) const {
  const std::uint64_t whole = whole_pages(bytes);
  std::byte* memory = nullptr;
  const int error = whole == 0 ? ENOMEM : platform_->map(whole, huge_pages_, memory);
  if (error != 0 && huge_pages_ == 0) {
    throw DeviceError(fmt::format("cannot map {} bytes of memory for a region: {}", bytes, std::strerror(error)));
  }
  if (error != 0) {
    const std::string folder = fmt::format("{}/{}", kHugePages, folder_name(huge_pages_));
    throw DeviceError(
        fmt::format("cannot map {} bytes of memory for a region in huge pages of {} bytes: {}; of these pages {} are "
                    "free and {} of "
                    "them promised to others; for more, write to {}/nr_hugepages how many there shall be",
                    bytes, huge_pages_, std::strerror(error), counter(*platform_, folder + "/free_hugepages"),
                    counter(*platform_, folder + "/resv_hugepages"), folder));
  }
  try {
    bind(memory, whole);
    populate(memory, whole);
  } catch (...) {
    platform_->unmap(memory, whole);
    throw;
  }
  return memory;
}

void Placement::give_back(std::byte* memory, std::uint64_t bytes) const noexcept {
  platform_->unmap(memory, whole_pages(bytes));
}

// Call it before a page is touched: existing pages stay where they are.
void Placement::bind(std::byte* memory, std::uint64_t bytes) const {
  if (!node_) {
    return;
  }
  const int error = platform_->bind(memory, bytes, *node_);
  if (error == 0) {
    return;
  }
  // mbind(2); Docker's rules answer EPERM.
  const char* const advice = error == EPERM || error == ENOSYS
                                 ? "the container does not allow mbind(2): give it the capability SYS_NICE, or ask for "
                                   "numa = any"
                             : error == EINVAL ? "the process may not use that node (cpuset, srun --mem-bind)"
                                               : "ask for numa = any";
  throw DeviceError(
      fmt::format("cannot bind {} bytes of memory to node {}: {}; {}", bytes, *node_, std::strerror(error), advice));
}

// The kernel reserves huge pages of the whole machine. If the node has none left, touching one raises a signal; here it
// is an error.
void Placement::populate(std::byte* memory, std::uint64_t bytes) const {
  if (huge_pages_ == 0) {
    return;
  }
  const int error = platform_->populate(memory, bytes);
  // Older kernels cannot report it here: ibv_reg_mr(3) touches the pages next, and fails with EFAULT.
  if (error == 0 || error == EINVAL) {
    return;
  }
  const std::string folder = node_ ? fmt::format("{}/node{}/hugepages/{}", kNodes, *node_, folder_name(huge_pages_))
                                   : fmt::format("{}/{}", kHugePages, folder_name(huge_pages_));
  throw DeviceError(fmt::format(
      "cannot take {} bytes of memory in huge pages of {} bytes{}: {}; {} of them are free there; for more, write to "
      "{}/nr_hugepages how many there shall be",
      bytes, huge_pages_, node_ ? fmt::format(" from node {}", *node_) : "", std::strerror(error),
      counter(*platform_, folder + "/free_hugepages"), folder));
}

std::optional<NumberList> near_cpus(const std::string& device, const Platform& platform) {
  const std::vector<std::string> devices = platform.list_folder(kDevices);
  if (std::ranges::find(devices, device) == devices.end()) {
    throw DeviceError(fmt::format("there is no RDMA device '{}': found {}", device, joined(devices)));
  }
  const std::string path = fmt::format("{}/{}/device/local_cpulist", kDevices, device);
  const std::optional<std::string> text = platform.read_file(path);
  if (!text) {
    return std::nullopt;
  }
  const NumberList near = parse_list(*text, path);
  NumberList allowed;
  if (const int error = platform.get_affinity(allowed); error != 0) {
    throw DeviceError(fmt::format("cannot read which CPUs the thread may use: {}", std::strerror(error)));
  }
  NumberList both;
  std::ranges::set_intersection(near, allowed, std::back_inserter(both));
  if (both.empty()) {
    throw DeviceError(
        fmt::format("none of the CPUs near {} ({}) is one that this thread may use ({}): give the process some of them "
                    "(taskset, srun --cpu-bind, its cpuset), or do not pin it",
                    device, near.empty() ? "none" : format_list(near), format_list(allowed)));
  }
  return both;
}

void pin_thread(const NumberList& cpus, const Platform& platform) {
  if (const int error = platform.set_affinity(cpus); error != 0) {
    throw DeviceError(fmt::format("cannot pin the thread to the CPUs {}: {}", format_list(cpus), std::strerror(error)));
  }
}

bool pin_thread_near(std::string_view device) {
  const std::optional<NumberList> cpus = near_cpus(std::string(device));
  if (cpus) {
    pin_thread(*cpus);
  }
  return cpus.has_value();
}

}  // namespace sidelatch::fabric::verbs
