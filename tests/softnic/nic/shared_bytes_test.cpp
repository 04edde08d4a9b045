#include "softnic/nic/shared_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

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
      EXPECT_EQ(store_shared(shared.data() + at, from), nullptr);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), shared.data() + at));
      EXPECT_EQ(std::ranges::count(shared, std::byte{0}), std::ssize(shared) - std::ssize(from));
      std::array<std::byte, 166> into{};
      EXPECT_EQ(load_shared(std::span(into).subspan(at % 5, length), shared.data() + at), nullptr);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), into.data() + at % 5));
      EXPECT_EQ(std::ranges::count(into, std::byte{0}), std::ssize(into) - std::ssize(from));
    }
  }
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
