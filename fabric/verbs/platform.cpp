// The machine's own Platform: Linux and libnuma.
#include "placement.h"

#include <fmt/format.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace sidelatch::fabric::verbs {

namespace {

using Mask = std::unique_ptr<bitmask, decltype([](bitmask* mask) { numa_bitmask_free(mask); })>;

class SystemPlatform final : public Platform {
 public:
  [[nodiscard]] std::optional<std::string> read_file(const std::string& path) const override {
    errno = 0;
    std::ifstream file(path);
    if (!file && (errno == ENOENT || errno == ENOTDIR)) {
      return std::nullopt;
    }
    std::string text;
    // Do not use the stream's iterators: they throw another exception when a read fails.
    if (!file || (std::getline(file, text, '\0'), file.bad())) {
      throw DeviceError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    }
    return text;
  }

  [[nodiscard]] std::vector<std::string> list_folder(const std::string& path) const override {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path, none)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  [[nodiscard]] int map(std::uint64_t bytes, std::uint64_t page, std::byte*& memory) const override {
    // mmap(2) reserves huge pages, so missing ones are an error; ordinary pages cost nothing until used.
    const int kind = page == 0 ? MAP_NORESERVE : MAP_HUGETLB | (std::countr_zero(page) << MAP_HUGE_SHIFT);
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kind, -1, 0);
    if (mapped == MAP_FAILED) {
      return errno;
    }
    memory = static_cast<std::byte*>(mapped);
    return 0;
  }

  void unmap(std::byte* memory, std::uint64_t bytes) const noexcept override { ::munmap(memory, bytes); }

  // numa_tonode_memory(3) does the same, but prints its errors.
  [[nodiscard]] int bind(std::byte* memory, std::uint64_t bytes, std::uint32_t node) const override {
    const Mask nodes(numa_allocate_nodemask());
    numa_bitmask_setbit(nodes.get(), node);
    return ::mbind(memory, bytes, MPOL_BIND, nodes->maskp, nodes->size + 1, 0) == 0 ? 0 : errno;
  }

  [[nodiscard]] int populate(std::byte* memory, std::uint64_t bytes) const override {
    return ::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  }

  [[nodiscard]] int get_affinity(NumberList& cpus) const override {
    const Mask mask(numa_allocate_cpumask());
    if (numa_sched_getaffinity(0, mask.get()) < 0) {
      return errno;
    }
    for (std::uint32_t cpu = 0; cpu < mask->size; ++cpu) {
      if (numa_bitmask_isbitset(mask.get(), cpu) != 0) {
        cpus.push_back(cpu);
      }
    }
    return 0;
  }

  [[nodiscard]] int set_affinity(const NumberList& cpus) const override {
    const Mask mask(numa_allocate_cpumask());
    for (const std::uint32_t cpu : cpus) {
      numa_bitmask_setbit(mask.get(), cpu);
    }
    return numa_sched_setaffinity(0, mask.get()) == 0 ? 0 : errno;
  }
};

}  // namespace

const Platform& system_platform() {
  static const SystemPlatform kPlatform;
  return kPlatform;
}

}  // namespace sidelatch::fabric::verbs
