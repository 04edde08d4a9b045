// What a measurement was made with, besides the device's name.
//
//   Environment here = environment_of("mlx5_0");
//   here.firmware   // "16.35.2000"; empty: the operating system does not say
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sidelatch::checker {

/// As the operating system says it, but for the last two; empty where it does not.
struct Environment {
  std::string firmware;
  std::string driver;            ///< of the device, in the kernel
  std::string kernel;            ///< its release
  std::string pcie_link;         ///< "16.0 GT/s PCIe x16"
  std::string cpu;               ///< its model
  std::string numa_node;         ///< that the device is at
  std::string mtu;               ///< of the port that is used, bytes
  std::string relaxed_ordering;  ///< "on" or "off": how memory was registered
};

/// Of the RDMA device of that name. `root`: where /sys and /proc are, for tests.
[[nodiscard]] Environment environment_of(std::string_view device, const std::filesystem::path& root = "/");

}  // namespace sidelatch::checker
