#include "pcap_reader.h"

#include "roce/wire/wire.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace sidelatch::roce {

namespace {

constexpr std::uint32_t kMicroseconds = 0xa1b2'c3d4;
constexpr std::uint32_t kNanoseconds = 0xa1b2'3c4d;
constexpr std::uint32_t kEthernetLink = 1;
constexpr std::uint32_t kLinkBits = 0x0fff'ffff;  // the upper ones tell of a frame check sequence

}  // namespace

PcapReader::PcapReader(const std::filesystem::path& path) : path_(path.string()), file_(path, std::ios::binary) {
  if (!file_) {
    fail(std::strerror(errno));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail("it is a folder");
  }
  std::array<std::byte, 24> header{};
  if (!file_.read(reinterpret_cast<char*>(header.data()), header.size())) {
    fail("it is too short for a capture");
  }
  const std::uint32_t magic = word(header.data());
  swapped_ = magic == __builtin_bswap32(kMicroseconds) || magic == __builtin_bswap32(kNanoseconds);
  const std::uint32_t kind = word(header.data());
  if (kind != kMicroseconds && kind != kNanoseconds) {
    fail("it is no capture in the format pcap; editcap -F pcap converts others");
  }
  nanoseconds_ = kind == kNanoseconds;
  if ((word(header.data() + 20) & kLinkBits) != kEthernetLink) {
    fail("its frames are not Ethernet");
  }
}

void PcapReader::fail(const std::string& why) const {
  throw std::invalid_argument(fmt::format("cannot read the capture {}: {}", path_, why));
}

std::uint32_t PcapReader::word(const std::byte* at) const noexcept {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return swapped_ ? __builtin_bswap32(value) : value;
}

std::optional<PcapReader::Frame> PcapReader::next() {
  std::array<std::byte, 16> header{};
  file_.read(reinterpret_cast<char*>(header.data()), header.size());
  if (file_.gcount() == 0) {
    return std::nullopt;
  }
  ++frames_;
  const std::uint32_t bytes = word(header.data() + 8);
  if (!file_ || bytes != word(header.data() + 12)) {
    fail(fmt::format("its frame {} is cut off; capture whole frames (tcpdump -s 0)", frames_));
  }
  if (bytes > kMostFrameBytes) {
    fail(fmt::format("its frame {} has {} bytes, and a wire takes {} at most", frames_, bytes, kMostFrameBytes));
  }
  Frame frame{.time = std::chrono::seconds(word(header.data())) +
                      std::chrono::nanoseconds(std::uint64_t{word(header.data() + 4)} * (nanoseconds_ ? 1 : 1000)),
              .bytes = std::vector<std::byte>(bytes)};
  if (!file_.read(reinterpret_cast<char*>(frame.bytes.data()), bytes)) {
    fail(fmt::format("its frame {} is cut off; the file ends too early", frames_));
  }
  return frame;
}

}  // namespace sidelatch::roce
