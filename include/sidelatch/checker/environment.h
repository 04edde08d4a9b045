// The environment of a measurement, besides the device's name.
//
//   Environment here = environment_of("mlx5_0");
//   here.firmware   // "16.35.2000"; empty: the operating system does not say
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sidelatch::checker {

/// All but the last two come from the operating system; empty if it does not report them.
struct Environment {
  std::string firmware;
  std::string driver;            ///< of the device, in the kernel
  std::string kernel;            ///< its release
  std::string pcie_link;         ///< "16.0 GT/s PCIe x16"
  std::string cpu;               ///< its model
  std::string numa_node;         ///< the device's node
  std::string mtu;               ///< of the port in use, bytes
  std::string relaxed_ordering;  ///< "on" or "off": how memory was registered
};

/// The environment of the RDMA device `device`. `root`: the folder with /sys and /proc, for tests.
[[nodiscard]] Environment environment_of(std::string_view device, const std::filesystem::path& root = "/");

}  // namespace sidelatch::checker
