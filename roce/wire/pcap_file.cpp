#include "pcap_file.h"

#include "roce/wire/wire.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace sidelatch::roce {

namespace {

// In the byte order of this machine; readers recognize it by the magic number.
struct FileHeader {
  std::uint32_t magic = 0xa1b2'3c4d;  // times in nanoseconds
  std::uint16_t major = 2;
  std::uint16_t minor = 4;
  std::uint32_t zone = 0;
  std::uint32_t accuracy = 0;
  std::uint32_t most_frame_bytes = 0xffff;
  std::uint32_t link = 1;  // LINKTYPE_ETHERNET
};
static_assert(sizeof(FileHeader) == 24);

struct FrameHeader {
  std::uint32_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  std::uint32_t captured_bytes = 0;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 16);

}  // namespace

PcapFile::PcapFile(const std::filesystem::path& path, bool appends)
    : path_(path.string()),
      file_(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | (appends ? 0 : O_TRUNC) | O_CLOEXEC, 0666)) {
  struct stat old {};
  if (!file_.valid() || ::fstat(file_.number(), &old) != 0) {
    fail();
  }
  const FileHeader header;
  if (old.st_size == 0 && ::write(file_.number(), &header, sizeof header) != sizeof header) {
    fail();
  }
}

void PcapFile::add(std::span<const std::byte> frame, std::chrono::system_clock::time_point when) {
  using std::chrono::nanoseconds;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t time = std::chrono::duration_cast<nanoseconds>(when.time_since_epoch()).count();
  FrameHeader header;
  header.seconds = static_cast<std::uint32_t>(time / kSecond);
  header.nanoseconds = static_cast<std::uint32_t>(time % kSecond);
  header.captured_bytes = static_cast<std::uint32_t>(frame.size());
  header.bytes = header.captured_bytes;
  std::array<std::byte, sizeof header> begin{};
  std::memcpy(begin.data(), &header, sizeof header);
  // writev(2) does not write to its buffers.
  const std::array<iovec, 2> parts = {
      iovec{begin.data(), begin.size()},
      iovec{const_cast<std::byte*>(frame.data()), frame.size()},  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  };
  const std::size_t bytes = begin.size() + frame.size();
  ssize_t written = 0;
  do {
    written = ::writev(file_.number(), parts.data(), static_cast<int>(parts.size()));
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(bytes)) {
    if (written >= 0) {
      errno = ENOSPC;  // the only reason for a partial write
    }
    const int error = errno;
    // Cut the file back to the last whole frame.
    if (const off_t end = written > 0 ? ::lseek(file_.number(), 0, SEEK_CUR) : -1; end >= written) {
      static_cast<void>(::ftruncate(file_.number(), end - written));
    }
    errno = error;
    fail();
  }
}

void PcapFile::fail() const {
  throw WireError(fmt::format("cannot write the capture {}: {}: give another file, or capture nothing", path_,
                              std::strerror(errno)));
}

}  // namespace sidelatch::roce
