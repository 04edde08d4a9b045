// PcapFile: a capture of Ethernet frames for Wireshark, tshark and tcpdump (pcap with times in nanoseconds,
// draft-ietf-opsawg-pcap).
//
// Each frame is written with one system call, so the file holds whole frames up to the moment at which the process
// ends, however it ends.
//
// Thread-safety: one thread.
#pragma once

#include "common/file_descriptor.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace sidelatch::roce {

class PcapFile {
 public:
  /// Replaces an old file, or goes on behind its frames. Throws WireError.
  explicit PcapFile(const std::filesystem::path& path, bool appends = false);
  /// Throws WireError; the file then ends with the previous frame.
  void add(std::span<const std::byte> frame, std::chrono::system_clock::time_point when);

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  FileDescriptor file_;
};

}  // namespace sidelatch::roce
