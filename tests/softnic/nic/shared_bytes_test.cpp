#include "softnic/nic/shared_bytes.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

TEST(SharedBytes, CopiesEveryLengthAtEveryAlignmentAndNothingElse) {
  alignas(64) std::array<std::byte, 192> shared{};
  std::array<std::byte, 192> own{};
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<std::byte>(i + 1);
  }
  for (std::size_t at = 0; at < 16; ++at) {
    for (std::size_t length = 0; length <= 160; ++length) {
      shared.fill(std::byte{0});
      const std::span<const std::byte> from = std::span(own).subspan(at % 3, length);
      store_shared(shared.data() + at, from);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), shared.data() + at));
      EXPECT_EQ(std::ranges::count(shared, std::byte{0}), std::ssize(shared) - std::ssize(from));
      std::array<std::byte, 166> into{};
      load_shared(std::span(into).subspan(at % 5, length), shared.data() + at);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), into.data() + at % 5));
      EXPECT_EQ(std::ranges::count(into, std::byte{0}), std::ssize(into) - std::ssize(from));
    }
  }
}

// Two pages, the second of which may be unmapped.
class PagesThatGo : public ::testing::Test {
 protected:
  PagesThatGo()
      : memory_(static_cast<std::byte*>(
            ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    for (std::size_t i = 0; i < 2 * kPage; ++i) {
      memory_[i] = static_cast<std::byte>(i % 251 + 1);
    }
  }
  ~PagesThatGo() override { ::munmap(memory_, 2 * kPage); }
  [[nodiscard]] std::vector<std::byte> loaded(std::size_t at, std::size_t length) const {
    std::vector<std::byte> into(length, std::byte{0xee});
    load_shared_if_mapped(into, memory_ + at);
    return into;
  }
  [[nodiscard]] bool is_loaded(std::size_t at, std::size_t length) const {
    return std::ranges::equal(loaded(at, length), std::span(memory_ + at, length));
  }
  static constexpr std::size_t kPage = 4096;
  std::byte* memory_;
};

TEST_F(PagesThatGo, AreLoadedWhileTheyAreThere) {
  for (std::size_t at = 0; at < 16; ++at) {
    for (const std::size_t length : {0UL, 1UL, 7UL, 8UL, 300UL, 4096UL}) {
      EXPECT_TRUE(is_loaded(at, length)) << length << " at " << at;
    }
  }
}

TEST_F(PagesThatGo, AreZerosWhenOneOfThemIsGone) {
  ASSERT_EQ(::munmap(memory_ + kPage, kPage), 0);
  EXPECT_TRUE(is_loaded(kPage - 100, 100));
  EXPECT_EQ(loaded(kPage - 100, 101), std::vector<std::byte>(101));
  EXPECT_EQ(loaded(kPage + 8, 64), std::vector<std::byte>(64));
}

// Filters of containers forbid process_vm_readv(2).
TEST_F(PagesThatGo, AreLoadedWhereTheSystemCallIsForbidden) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::array rules = {sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                        sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_readv},
                        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{rules.size(), rules.data()};
    const bool is_set = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
                        ::process_vm_readv(::getpid(), nullptr, 0, nullptr, 0, 0) < 0 && errno == EPERM;
    ::_exit(!is_set ? 2 : is_loaded(3, 300) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SharedBytes, AtomicsReturnWhatWasThere) {
  alignas(8) std::array<std::byte, 8> word{};
  EXPECT_EQ(fetch_add_shared(word.data(), 5), 0U);
  EXPECT_EQ(compare_swap_shared(word.data(), 4, 9), 5U);
  EXPECT_EQ(compare_swap_shared(word.data(), 5, 9), 5U);
  EXPECT_EQ(fetch_add_shared(word.data(), ~std::uint64_t{0}), 9U);
  EXPECT_EQ(fetch_add_shared(word.data(), 0), 8U);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
