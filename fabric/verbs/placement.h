// Placement: places the memory and the threads of a fabric near its NIC.
//
//   const Placement placement(options, "mlx5_0");
//   std::byte* const memory = placement.obtain(bytes);   // huge pages, on the node of the options
//   placement.give_back(memory, bytes);
//
// Its calls of the operating system go through Platform, so tests can simulate a machine with two nodes.
#pragma once

#include <sidelatch/fabric/verbs/device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::fabric::verbs {

/// Numbers of CPUs or nodes, ascending.
using NumberList = std::vector<std::uint32_t>;

/// The kernel's list format, "0-3,8", as in the file `path`. Throws DeviceError that names the file and the text.
[[nodiscard]] NumberList parse_list(std::string_view text, std::string_view path);
[[nodiscard]] std::string format_list(const NumberList& numbers);

/// Functions that return int return 0 or errno.
class Platform {
 public:
  Platform() = default;
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;
  virtual ~Platform() = default;

  /// Nothing if there is no such file. Throws DeviceError if it cannot be read.
  [[nodiscard]] virtual std::optional<std::string> read_file(const std::string& path) const = 0;
  /// Names, ascending; none if there is no such folder.
  [[nodiscard]] virtual std::vector<std::string> list_folder(const std::string& path) const = 0;

  /// New zeroed memory. `page`: bytes of a huge page; 0: ordinary pages.
  [[nodiscard]] virtual int map(std::uint64_t bytes, std::uint64_t page, std::byte*& memory) const = 0;
  virtual void unmap(std::byte* memory, std::uint64_t bytes) const noexcept = 0;
  /// Takes the pages of `memory` only from `node`.
  [[nodiscard]] virtual int bind(std::byte* memory, std::uint64_t bytes, std::uint32_t node) const = 0;
  /// Allocates the pages now. EINVAL: the kernel is older than 5.14.
  [[nodiscard]] virtual int populate(std::byte* memory, std::uint64_t bytes) const = 0;

  /// The affinity of the calling thread.
  [[nodiscard]] virtual int get_affinity(NumberList& cpus) const = 0;
  [[nodiscard]] virtual int set_affinity(const NumberList& cpus) const = 0;
};

/// The machine's own platform.
[[nodiscard]] const Platform& system_platform();

class Placement {
 public:
  /// Throws DeviceError if the kernel has no huge pages of that size, or the machine no such node.
  Placement(const DeviceOptions& options, const std::string& device, const Platform& platform = system_platform());

  /// Zeroed and page-aligned memory. Throws DeviceError that says what is missing.
  [[nodiscard]] std::byte* obtain(std::uint64_t bytes) const;
  void give_back(std::byte* memory, std::uint64_t bytes) const noexcept;
  /// The bytes of whole pages that obtain(bytes) takes; 0: more than there can be.
  [[nodiscard]] std::uint64_t taken_by(std::uint64_t bytes) const noexcept;
  /// The node that obtain() binds to; nothing if it does not bind.
  [[nodiscard]] std::optional<std::uint32_t> node() const noexcept { return node_; }

 private:
  [[nodiscard]] std::uint64_t whole_pages(std::uint64_t bytes) const noexcept;
  void bind(std::byte* memory, std::uint64_t bytes) const;
  void populate(std::byte* memory, std::uint64_t bytes) const;

  const Platform* platform_;
  std::uint64_t huge_pages_;
  std::optional<std::uint32_t> node_;
};

/// The CPUs near `device` that the calling thread may use; nothing if the operating system does not know which CPUs are
/// near. Throws as pin_thread_near() does.
[[nodiscard]] std::optional<NumberList> near_cpus(const std::string& device,
                                                  const Platform& platform = system_platform());
/// Throws DeviceError.
void pin_thread(const NumberList& cpus, const Platform& platform = system_platform());

}  // namespace sidelatch::fabric::verbs
