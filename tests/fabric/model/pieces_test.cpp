#include <sidelatch/fabric/model/pieces.h>

#include <gtest/gtest.h>

#include <vector>

namespace sidelatch::fabric::model {
namespace {

std::vector<Piece> list(std::uint64_t address, std::uint64_t length, std::uint64_t atom) {
  std::vector<Piece> result;
  for (const Piece p : pieces(address, length, atom)) {
    result.push_back(p);
  }
  return result;
}

TEST(ModelPieces, AnAlignedRangeHasWholePieces) {
  EXPECT_EQ(list(0x1000, 192, 64), (std::vector<Piece>{{0, 64}, {64, 64}, {128, 64}}));
  EXPECT_EQ(list(0x1000, 16, 8), (std::vector<Piece>{{0, 8}, {8, 8}}));
}

TEST(ModelPieces, TheFirstAndLastPieceMayBePartial) {
  EXPECT_EQ(list(0x103c, 8, 64), (std::vector<Piece>{{0, 4}, {4, 4}}));
  EXPECT_EQ(list(0x1030, 100, 64), (std::vector<Piece>{{0, 16}, {16, 64}, {80, 20}}));
  EXPECT_EQ(list(0x1038, 8, 64), (std::vector<Piece>{{0, 8}}));
  EXPECT_EQ(list(0x1001, 1, 8), (std::vector<Piece>{{0, 1}}));
}

TEST(ModelPieces, AnEmptyRangeHasNone) {
  static_assert(piece_count(0x1000, 0, 64) == 0);
  static_assert(piece_count(0x103f, 0, 64) == 0);
  EXPECT_TRUE(list(0x1010, 0, 8).empty());
}

TEST(ModelPieces, PiecesCoverTheRangeOnceAndAgreeWithTheIndexOfEachByte) {
  for (const std::uint64_t atom : {8U, 16U, 32U, 64U}) {
    for (std::uint64_t address = 0x1000; address < 0x1000 + 70; address += 3) {
      for (std::uint64_t length = 1; length < 200; length += 7) {
        std::uint64_t covered = 0;
        std::uint64_t index = 0;
        for (const Piece p : pieces(address, length, atom)) {
          ASSERT_EQ(p.offset, covered);
          ASSERT_GT(p.length, 0U);
          ASSERT_EQ((address + p.offset) / atom, (address + p.offset + p.length - 1) / atom);
          ASSERT_EQ(piece_index(address, p.offset, atom), index);
          ASSERT_EQ(piece_index(address, p.offset + p.length - 1, atom), index);
          covered += p.length;
          ++index;
        }
        ASSERT_EQ(covered, length);
        ASSERT_EQ(index, piece_count(address, length, atom));
      }
    }
  }
}

}  // namespace
}  // namespace sidelatch::fabric::model
