#include <sidelatch/fabric/model/effects.h>

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

namespace sidelatch::fabric::model {
namespace {

constexpr WorkRequest atomic(Opcode opcode, std::uint64_t compare, std::uint64_t swap_or_add) {
  WorkRequest request;
  request.opcode = opcode;
  request.compare = compare;
  request.swap_or_add = swap_or_add;
  return request;
}

TEST(ModelEffects, CompareSwapStoresOnlyIfItFindsWhatItExpects) {
  static_assert(apply_atomic(atomic(Opcode::compare_swap, 3, 8), 3) == AtomicEffect{3, true, 8});
  static_assert(apply_atomic(atomic(Opcode::compare_swap, 3, 8), 4) == AtomicEffect{4, false, 4});
}

TEST(ModelEffects, FetchAddWrapsAround) {
  static_assert(apply_atomic(atomic(Opcode::fetch_add, 0, 5), 7) == AtomicEffect{7, true, 12});
  static_assert(apply_atomic(atomic(Opcode::fetch_add, 0, ~std::uint64_t{0}), 1) == AtomicEffect{1, true, 0});
}

TEST(ModelEffects, OtherOpcodesAreRefused) {
  EXPECT_THROW(static_cast<void>(apply_atomic(atomic(Opcode::read, 0, 0), 0)), std::invalid_argument);
}

TEST(ModelEffects, WordsAreLittleEndianAndNeedNoAlignment) {
  std::array<std::byte, 16> bytes{};
  store_word(bytes.data() + 3, 0x0102030405060708);
  EXPECT_EQ(bytes[2], std::byte{0});
  EXPECT_EQ(bytes[3], std::byte{8});
  EXPECT_EQ(bytes[10], std::byte{1});
  EXPECT_EQ(bytes[11], std::byte{0});
  EXPECT_EQ(load_word(bytes.data() + 3), 0x0102030405060708U);
}

}  // namespace
}  // namespace sidelatch::fabric::model
