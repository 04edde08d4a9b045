#include "checker/explore/guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sidelatch::explore {
namespace {

constexpr std::size_t kPage = 4096;

class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(static_cast<std::byte*>(
                   ::mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
               count * kPage) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(bytes_.data(), bytes_.size()); }
  [[nodiscard]] std::span<std::byte> page(std::size_t number) const { return bytes_.subspan(number * kPage, kPage); }

 private:
  std::span<std::byte> bytes_;
};

std::uint64_t word_of(std::span<const std::byte> page) {
  std::uint64_t word = 0;
  std::memcpy(&word, page.data() + 64, sizeof word);
  asm volatile("" : : "r"(word) : "memory");
  return word;
}

void set_word(std::span<std::byte> page, std::uint64_t word) {
  std::memcpy(page.data() + 64, &word, sizeof word);
  asm volatile("" : : : "memory");
}

TEST(Guard, TellsWhichRangeWasTouched) {
  const Pages pages(3);
  set_word(pages.page(0), 7);
  Guard guard;
  for (std::size_t i = 0; i < 3; ++i) {
    guard.close(i, pages.page(i));
  }
  EXPECT_EQ(word_of(pages.page(0)), 7);  // a load sees what is there
  set_word(pages.page(2), 9);            // and a store is done
  EXPECT_EQ(word_of(pages.page(0)), 7);
  EXPECT_TRUE(guard.open(0));
  EXPECT_FALSE(guard.open(1));
  EXPECT_TRUE(guard.open(2));
  EXPECT_EQ(word_of(pages.page(1)), 0);
  EXPECT_EQ(word_of(pages.page(2)), 9);
}

// Bytes on the same page that nobody asked about do not count, however often they are touched.
TEST(Guard, TellsTheBytesOfAPageApart) {
  const Pages pages(2);
  Guard guard;
  guard.close(0, pages.page(0), pages.page(0).subspan(128, 8));
  guard.close(1, pages.page(1), pages.page(1).subspan(64, 8));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    set_word(pages.page(0), i);
    EXPECT_EQ(word_of(pages.page(0)), i);
  }
  std::byte* const line = pages.page(0).data() + 192;
  std::memset(line, 1, 64);
  asm volatile("" : : "r"(line) : "memory");
  EXPECT_FALSE(guard.open(0));
  guard.close(0, pages.page(0), pages.page(0).subspan(128, 8));
  EXPECT_EQ(word_of(pages.page(1)), 0);  // the bytes that are meant
  set_word(pages.page(0), 4);
  EXPECT_TRUE(guard.open(1));
  EXPECT_FALSE(guard.open(0));
}

// One instruction may touch two pages.
TEST(Guard, LetsOneInstructionInToTwoPages) {
  const Pages pages(2);
  std::span<std::byte> both(pages.page(0).data(), 2 * kPage);
  Guard guard;
  guard.close(0, pages.page(0), pages.page(0).first(8));
  guard.close(1, pages.page(1), pages.page(1).last(8));
  std::uint64_t word = 0;
  std::memcpy(&word, both.data() + kPage - 4, sizeof word);
  asm volatile("" : : "r"(word) : "memory");
  EXPECT_EQ(word, 0U);
  EXPECT_FALSE(guard.open(0));
  EXPECT_FALSE(guard.open(1));
  guard.close(0, pages.page(0), pages.page(0).last(2));
  guard.close(1, pages.page(1), pages.page(1).last(8));
  std::memcpy(&word, both.data() + kPage - 4, sizeof word);
  asm volatile("" : : "r"(word) : "memory");
  EXPECT_TRUE(guard.open(0));
  EXPECT_FALSE(guard.open(1));
}

TEST(Guard, ForgetsWhatWasTouchedBefore) {
  const Pages pages(1);
  Guard guard;
  guard.close(0, pages.page(0));
  set_word(pages.page(0), 1);
  guard.close(0, pages.page(0));
  EXPECT_FALSE(guard.open(0));
  EXPECT_FALSE(guard.open(0));
}

TEST(Guard, APauseDoesNotCount) {
  const Pages pages(2);
  Guard guard;
  guard.close(0, pages.page(0));
  guard.close(1, pages.page(1));
  set_word(pages.page(1), 1);
  {
    const Guard::Pause pause(guard);
    set_word(pages.page(0), 1);
  }
  EXPECT_FALSE(guard.open(0));
  EXPECT_TRUE(guard.open(1));
  guard.close(0, pages.page(0));
  { const Guard::Pause pause(guard); }
  EXPECT_EQ(word_of(pages.page(0)), 1);
  EXPECT_TRUE(guard.open(0));
}

TEST(GuardDeathTest, OtherFaultsEndTheProcess) {
  const Pages pages(2);
  Guard guard;
  guard.close(0, pages.page(0));
  ::mprotect(pages.page(1).data(), kPage, PROT_NONE);
  EXPECT_DEATH(set_word(pages.page(1), 1), "");
  guard.open();
}

}  // namespace
}  // namespace sidelatch::explore
