// PcapReader: reads a capture of Ethernet frames (pcap, draft-ietf-opsawg-pcap): either byte order, times in
// microseconds or nanoseconds.
//
// Thread-safety: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::roce {

class PcapReader {
 public:
  struct Frame {
    std::chrono::nanoseconds time{};  ///< since 1970
    std::vector<std::byte> bytes;
  };

  /// Throws std::invalid_argument, which names the file and says what it should be.
  explicit PcapReader(const std::filesystem::path& path);
  /// The next frame; nothing at the end. Throws std::invalid_argument for a frame that is cut off, or too long for a
  /// wire.
  [[nodiscard]] std::optional<Frame> next();

 private:
  [[noreturn]] void fail(const std::string& why) const;
  [[nodiscard]] std::uint32_t word(const std::byte* at) const noexcept;

  std::string path_;
  std::ifstream file_;
  bool swapped_ = false;
  bool nanoseconds_ = false;
  std::size_t frames_ = 0;
};

}  // namespace sidelatch::roce
