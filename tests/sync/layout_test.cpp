#include <sidelatch/sync/layout.h>

#include "tests/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sidelatch::sync {
namespace {

using fabric::kLineBytes;
using fabric::RemoteSpan;
using ::testing::HasSubstr;

constexpr LayoutKind kKinds[] = {LayoutKind::interleaved, LayoutKind::padded, LayoutKind::decoupled, LayoutKind::footer,
                                 LayoutKind::padded_footer};
constexpr RecordNeeds kLatchOnly{};
constexpr RecordNeeds kVersion{.version = true};
constexpr RecordNeeds kCrc{.version = true, .checksum = true, .header_inside = true};
constexpr RecordNeeds kFarm8{.version = true, .line_versions = 8, .header_inside = true};
constexpr RecordNeeds kFarm2{.version = true, .line_versions = 2, .header_inside = true};
constexpr RecordNeeds kCopies{.version = true, .copies = 2};
constexpr RecordNeeds kAllNeeds[] = {kLatchOnly, kVersion, kCrc, kFarm8, kFarm2, kCopies};

TEST(RecordShape, KeepsTheHeaderInOneLineAndThePartsApart) {
  for (const RecordNeeds& needs : kAllNeeds) {
    for (const LayoutKind kind : kKinds) {
      if (needs.header_inside && kind == LayoutKind::decoupled) {
        continue;
      }
      for (std::uint64_t payload = 1; payload <= 700; ++payload) {
        const RecordShape shape = make_shape(needs, kind, payload);
        ASSERT_EQ(shape.bytes % 8, 0U);
        if (!shape.decoupled) {
          ASSERT_EQ(shape.header % 8, 0U);
          ASSERT_LE(shape.header + shape.header_bytes, shape.bytes);
          if (shape.alignment == kLineBytes) {
            ASSERT_EQ(shape.header / kLineBytes, (shape.header + shape.header_bytes - 1) / kLineBytes);
          }
        }
        if (shape.contiguous()) {
          const std::uint64_t end = shape.payload + shape.payload_words() * shape.copies;
          ASSERT_LE(end, shape.header_last ? shape.header : shape.bytes);
          ASSERT_GE(shape.payload, shape.header_last || shape.decoupled ? 0 : shape.header_bytes);
          if (needs.checksum) {
            ASSERT_TRUE(shape.checksum + 8 <= shape.payload || shape.checksum >= end);
          }
        }
      }
    }
  }
}

TEST(RecordShape, AFooterEndsWithTheLatch) {
  for (const RecordNeeds& needs : kAllNeeds) {
    const RecordShape shape = make_shape(needs, LayoutKind::footer, 200);
    EXPECT_EQ(shape.header + shape.latch_in_header() + 8, shape.bytes);
  }
}

TEST(RecordShape, HasTheSizesOfThePapersLayouts) {
  EXPECT_EQ(make_shape(kLatchOnly, LayoutKind::interleaved, 256).bytes, 264U);
  EXPECT_EQ(make_shape(kVersion, LayoutKind::interleaved, 256).bytes, 272U);
  EXPECT_EQ(make_shape(kCrc, LayoutKind::interleaved, 256).bytes, 280U);
  EXPECT_EQ(make_shape(kVersion, LayoutKind::decoupled, 256).bytes, 256U);
  // 48 bytes beside latch and version, then 56 of each line.
  EXPECT_EQ(make_shape(kFarm8, LayoutKind::interleaved, 48).bytes, 64U);
  EXPECT_EQ(make_shape(kFarm8, LayoutKind::interleaved, 48 + 56).bytes, 128U);
  EXPECT_EQ(make_shape(kFarm8, LayoutKind::interleaved, 48 + 57).bytes, 128U + 8 + 8);
  EXPECT_EQ(make_shape(kFarm2, LayoutKind::interleaved, 48 + 62).bytes, 128U);
  EXPECT_EQ(make_shape(kFarm8, LayoutKind::footer, 48 + 56).bytes, 128U);
}

TEST(Layout, RecordsDoNotOverlapAndStayInside) {
  for (const RecordNeeds& needs : kAllNeeds) {
    for (const LayoutKind kind : kKinds) {
      if (needs.header_inside && kind == LayoutKind::decoupled) {
        continue;
      }
      const Layout layout(make_shape(needs, kind, 100), kind, 50);
      std::set<std::uint64_t> used;
      for (std::uint64_t i = 0; i < layout.count(); ++i) {
        ASSERT_EQ(layout.record(i) % layout.shape().alignment, 0U);
        ASSERT_LE(layout.record(i) + layout.shape().bytes, layout.total_bytes());
        for (std::uint64_t b = 0; b < layout.shape().bytes; ++b) {
          ASSERT_TRUE(used.insert(layout.record(i) + b).second);
        }
        if (layout.shape().decoupled) {
          for (std::uint64_t b = 0; b < layout.shape().header_bytes; ++b) {
            ASSERT_TRUE(used.insert(layout.header(i) + b).second);
          }
        }
      }
    }
  }
}

TEST(Layout, PaddingMakesLatchesUseAllSlotsThatTheirAlignmentCanReach) {
  // TODS 2025, section 3.2: without padding, 4 KiB records have all their latches in one slot.
  for (const std::uint64_t payload : {56U, 120U, 248U, 504U, 4088U}) {
    const RecordShape shape = make_shape(kLatchOnly, LayoutKind::interleaved, payload);
    const Layout interleaved(shape, LayoutKind::interleaved, 10'000);
    EXPECT_EQ(interleaved.slots_used(), 4096 / std::min<std::uint64_t>(payload + 8, 4096)) << payload;
    EXPECT_EQ(Layout(shape, LayoutKind::padded, 10'000).slots_used(), 512U) << payload;
  }
  // Schemes that need aligned lines can only vary bits 6 to 11.
  const RecordShape aligned = make_shape(kVersion, LayoutKind::padded, 4080);
  EXPECT_EQ(Layout(aligned, LayoutKind::interleaved, 10'000).slots_used(), 1U);
  EXPECT_EQ(Layout(aligned, LayoutKind::padded, 10'000).slots_used(), 64U);
  EXPECT_EQ(Layout(make_shape(kVersion, LayoutKind::decoupled, 4096), LayoutKind::decoupled, 10'000).slots_used(),
            256U);
}

TEST(Layout, PaddingNeverMakesAStrideWorse) {
  // A record of 4088 bytes already has a good stride; 8 more bytes would ruin it.
  const RecordShape shape = make_shape(kLatchOnly, LayoutKind::padded, 4080);
  EXPECT_EQ(Layout(shape, LayoutKind::padded, 1000).stride(), 4088U);
}

TEST(Layout, WarnsWhereLatchesShareFewSlots) {
  const RecordShape shape = make_shape(kLatchOnly, LayoutKind::interleaved, 4088);
  const auto warning = Layout(shape, LayoutKind::interleaved, 1000).warning();
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("4096 bytes apart, use 1 of the 512 slots"));
  EXPECT_THAT(*warning, HasSubstr("use layout padded or decoupled"));
  EXPECT_FALSE(Layout(shape, LayoutKind::padded, 1000).warning());
  EXPECT_FALSE(Layout(shape, LayoutKind::interleaved, 1).warning());  // one latch cannot use more
  // A NIC with a different number of address bits.
  EXPECT_FALSE(Layout(shape, LayoutKind::interleaved, 1000).warning({.address_bits = 20}));
}

TEST(Layout, BadArgumentsAreNamed) {
  const RecordShape shape = make_shape(kVersion, LayoutKind::padded, 100);
  const Layout layout(shape, LayoutKind::padded, 10);
  EXPECT_THAT(message_of([] { (void)make_shape(kLatchOnly, LayoutKind::padded, 0); }), HasSubstr("payload of 0 bytes"));
  EXPECT_THAT(message_of([] { (void)make_shape(kLatchOnly, LayoutKind::padded, ~0ULL); }),
              HasSubstr("1 to 1073741824"));
  EXPECT_THAT(message_of([] { (void)make_shape({.line_versions = 4}, LayoutKind::padded, 8); }),
              HasSubstr("of 4 bytes"));
  EXPECT_THAT(message_of([] { (void)make_shape(kCrc, LayoutKind::decoupled, 8); }), HasSubstr("layout decoupled"));
  EXPECT_THAT(message_of([&] { Layout(shape, LayoutKind::padded, 0); }), HasSubstr("0 objects"));
  EXPECT_THAT(message_of([&] { Layout(shape, LayoutKind::padded, 1ULL << 60); }),
              HasSubstr("1152921504606846976 objects"));
  EXPECT_THAT(message_of([&] { Layout(shape, LayoutKind::footer, 1); }), HasSubstr("shaped for another layout"));
  EXPECT_THAT(message_of([&] { (void)layout.latch(10); }), HasSubstr("object 10: the layout has objects 0 to 9"));
  EXPECT_THAT(message_of([&] { (void)layout.checksum(0); }), HasSubstr("no checksum"));
  EXPECT_THAT(
      message_of([] { (void)Layout(make_shape(kLatchOnly, LayoutKind::padded, 8), LayoutKind::padded, 1).version(0); }),
      HasSubstr("no version"));
  EXPECT_THAT(message_of([&] {
                ObjectArray(layout, RemoteSpan{{4096}, 100, {}});
              }),
              HasSubstr("a region of 100 bytes"));
  EXPECT_THAT(message_of([&] { ObjectArray(layout, RemoteSpan{{4104}, 1 << 20, {}}); }), HasSubstr("multiple of 64"));
  EXPECT_THAT(message_of([] { (void)parse_layout("sideways"); }), HasSubstr("interleaved, padded, decoupled"));
}

TEST(Layout, NamesAreReadBack) {
  for (const LayoutKind kind : kKinds) {
    EXPECT_EQ(parse_layout(name(kind)), kind);
  }
}

TEST(ObjectArray, GivesAddressesInItsRegion) {
  const Layout layout(make_shape(kVersion, LayoutKind::decoupled, 100), LayoutKind::decoupled, 10);
  const ObjectArray objects(layout, RemoteSpan{{0x10000}, layout.total_bytes(), {7}});
  const Object third = objects.at(3);
  EXPECT_EQ(third.latch().address.value, 0x10000 + layout.latch(3));
  EXPECT_EQ(third.version().address.value, 0x10000 + layout.version(3));
  EXPECT_EQ(third.record().address.value, 0x10000 + layout.record(3));
  EXPECT_EQ(third.record().rkey.value, 7U);
  EXPECT_THROW((void)objects.at(10), std::out_of_range);
}

}  // namespace
}  // namespace sidelatch::sync
