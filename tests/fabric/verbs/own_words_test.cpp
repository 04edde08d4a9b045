// Words of shared regions, which a switch asks for: what is none, and what may not be read or written.
#include "fabric/verbs/own_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OwnWords : public ::testing::Test {
 protected:
  void share(Access access) { regions_ = {{"objects", span(0, 8), access}}; }
  [[nodiscard]] RemoteSpan span(std::uint64_t from, std::uint64_t count) const {
    return {{reinterpret_cast<std::uintptr_t>(memory_.data()) + from * 8}, count * 8, {5}};
  }
  template <class Act>
  static std::string error_of(Act act) {
    try {
      act();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }

  alignas(8) std::array<std::uint64_t, 8> memory_{0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<exchange::SharedRegion> regions_;
};

TEST_F(OwnWords, AreReadAndWrittenAtTheirDistance) {
  share(Access::remote_all);
  EXPECT_THAT(read_own_words(regions_, {span(1, 6), 16, 3}), ElementsAre(1, 3, 5));
  write_own_words(regions_, {span(2, 4), 16, 2, 90});
  EXPECT_THAT(memory_, ElementsAre(0, 1, 90, 3, 90, 5, 6, 7));
}

TEST_F(OwnWords, OfARegionThatOthersMayNotWriteAreNotWritten) {
  share(Access::remote_read);
  EXPECT_THAT(error_of([&] { write_own_words(regions_, {span(0, 8), 8, 8, 90}); }), HasSubstr("'objects'"));
  EXPECT_THAT(read_own_words(regions_, {span(0, 8), 8, 8}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(OwnWords, ThatCanBeWrittenAreKnownBefore) {
  share(Access::remote_write);
  EXPECT_EQ(error_of([&] { require_writable_own_words(regions_, span(1, 6), 16, 3); }), "");
  EXPECT_THAT(error_of([&] { require_writable_own_words(regions_, span(0, 9), 8, 9); }),
              HasSubstr("are not words of a shared region"));
  share(Access::remote_read);
  EXPECT_THAT(error_of([&] { require_writable_own_words(regions_, span(1, 6), 16, 3); }),
              HasSubstr("'objects' may not be written"));
  EXPECT_THAT(memory_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(OwnWords, OfARegionThatOthersMayNotReadAreNotRead) {
  share(Access::remote_write);
  EXPECT_THAT(error_of([&] {
                static_cast<void>(read_own_words(regions_, {span(0, 8), 8, 8}));
              }),
              HasSubstr("may not be read"));
}

TEST_F(OwnWords, ThatAreNoneAreRefused) {
  share(Access::remote_all);
  for (const exchange::WriteWords& wrong : {exchange::WriteWords{span(0, 9), 8, 9, 90},
                                            {span(0, 8), 8, 9, 90},
                                            {span(0, 8), 0, 1, 90},
                                            {span(0, 8), 12, 1, 90},
                                            {{{4}, 8, {5}}, 8, 1, 90},
                                            {{span(0, 8).address, 64, {6}}, 8, 8, 90}}) {
    EXPECT_THAT(error_of([&] { write_own_words(regions_, wrong); }), HasSubstr("are not words of a shared region"));
  }
  EXPECT_THAT(memory_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace sidelatch::fabric::verbs
