#include <sidelatch/checker/environment.h>

#include <fmt/format.h>

#include <fstream>

namespace sidelatch::checker {

namespace {

namespace files = std::filesystem;

// A file's first line without its end; empty if the file cannot be read.
std::string line_of(const files::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string cpu_of(const files::path& cpuinfo) {
  std::ifstream in(cpuinfo);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

}  // namespace

Environment environment_of(std::string_view device, const files::path& root) {
  const files::path infiniband = root / "sys/class/infiniband" / device;
  const files::path pci = infiniband / "device";  // missing if it is not hardware
  Environment seen;
  seen.firmware = line_of(infiniband / "fw_ver");
  std::error_code unreadable;
  const files::path driver = files::read_symlink(pci / "driver", unreadable);
  seen.driver = unreadable ? "" : driver.filename().string();
  seen.kernel = line_of(root / "proc/sys/kernel/osrelease");
  const std::string speed = line_of(pci / "current_link_speed");
  const std::string width = line_of(pci / "current_link_width");
  seen.pcie_link = speed.empty() || width.empty() ? "" : fmt::format("{} x{}", speed, width);
  seen.cpu = cpu_of(root / "proc/cpuinfo");
  const std::string node = line_of(pci / "numa_node");
  seen.numa_node = node == "-1" ? "" : node;  // a machine with one node
  return seen;
}

}  // namespace sidelatch::checker
