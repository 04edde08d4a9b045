// Pages of memory that a test takes away.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace sidelatch::softnic::nic {

inline constexpr std::size_t kPageBytes = 4096;

/// Some pages, which hold the bytes 1 to 251 again and again. Of a file, they go when it is truncated.
class MappedPages {
 public:
  enum class Kind : std::uint8_t { anonymous, file };

  explicit MappedPages(std::size_t pages, Kind kind = Kind::anonymous)
      : bytes_(pages * kPageBytes), file_(kind == Kind::file ? ::memfd_create("pages", 0) : -1) {
    const bool is_ready = kind == Kind::anonymous || ::ftruncate(file_, static_cast<off_t>(bytes_)) == 0;
    void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                kind == Kind::file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file_, 0);
    if (!is_ready || mapped == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "mmap");
    }
    data_ = static_cast<std::byte*>(mapped);
    for (std::size_t i = 0; i < bytes_; ++i) {
      data_[i] = static_cast<std::byte>(i % 251 + 1);
    }
  }
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;
  ~MappedPages() {
    ::munmap(data_, bytes_);
    if (file_ >= 0) {
      ::close(file_);
    }
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(data_) + offset;
  }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t offset, std::size_t length) const {
    return {data_ + offset, length};
  }
  /// Takes all pages from this one on away: of a file by truncating it, of anonymous memory so that nobody else gets
  /// their addresses.
  void take_away(std::size_t first = 0) const {
    if (file_ >= 0) {
      ASSERT_EQ(::ftruncate(file_, static_cast<off_t>(first * kPageBytes)), 0);
    } else {
      // Not munmap(2): the sanitizers and other threads of the process map memory too.
      ASSERT_NE(::mmap(data_ + first * kPageBytes, bytes_ - first * kPageBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0),
                MAP_FAILED);
    }
  }
  void protect(int protection) const { ASSERT_EQ(::mprotect(data_, bytes_, protection), 0); }

 private:
  std::size_t bytes_;
  int file_;
  std::byte* data_ = nullptr;
};

}  // namespace sidelatch::softnic::nic
