#include <sidelatch/checker/environment.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace sidelatch::checker {
namespace {

namespace files = std::filesystem;

class EnvironmentOnAStub : public ::testing::Test {
 protected:
  EnvironmentOnAStub() {
    std::string name = (files::temp_directory_path() / "environment.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("mkdtemp failed");
    }
    root = name;
  }
  ~EnvironmentOnAStub() override { files::remove_all(root); }
  EnvironmentOnAStub(const EnvironmentOnAStub&) = delete;
  EnvironmentOnAStub& operator=(const EnvironmentOnAStub&) = delete;

  void write(const std::string& file, const std::string& text) const {
    files::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }

  files::path root;
};

TEST_F(EnvironmentOnAStub, OfANic) {
  write("sys/class/infiniband/mlx5_0/fw_ver", "16.35.2000\n");
  write("sys/class/infiniband/mlx5_0/device/current_link_speed", "16.0 GT/s PCIe\n");
  write("sys/class/infiniband/mlx5_0/device/current_link_width", "16\n");
  write("sys/class/infiniband/mlx5_0/device/numa_node", "1\n");
  files::create_directories(root / "sys/bus/pci/drivers/mlx5_core");
  files::create_symlink("../../../../bus/pci/drivers/mlx5_core", root / "sys/class/infiniband/mlx5_0/device/driver");
  write("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n");
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.10GHz\nprocessor\t: 1\nmodel name\t: Another\n");
  const Environment seen = environment_of("mlx5_0", root);
  EXPECT_EQ(seen.firmware, "16.35.2000");
  EXPECT_EQ(seen.driver, "mlx5_core");
  EXPECT_EQ(seen.kernel, "6.1.0-56-amd64");
  EXPECT_EQ(seen.pcie_link, "16.0 GT/s PCIe x16");
  EXPECT_EQ(seen.cpu, "Some CPU @ 2.10GHz");
  EXPECT_EQ(seen.numa_node, "1");
}

// Soft-RoCE has no PCI device, and some machines have one NUMA node.
TEST_F(EnvironmentOnAStub, WhatIsNotSaidIsEmpty) {
  write("sys/class/infiniband/rxe0/device/numa_node", "-1\n");
  const Environment seen = environment_of("rxe0", root);
  EXPECT_EQ(seen.firmware, "");
  EXPECT_EQ(seen.driver, "");
  EXPECT_EQ(seen.kernel, "");
  EXPECT_EQ(seen.pcie_link, "");
  EXPECT_EQ(seen.cpu, "");
  EXPECT_EQ(seen.numa_node, "");
}

TEST(EnvironmentHere, HasAKernel) { EXPECT_NE(environment_of("no_such_device").kernel, ""); }

}  // namespace
}  // namespace sidelatch::checker
