#include "roce/wire/wire_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sidelatch::roce {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WireName, HasNoCharacterThatLeadsToAnotherFolder) {
  EXPECT_THAT(fault_of_wire_name("left-2_a.b"), IsEmpty());
  for (const std::string wrong : {"", "a/b", "../x", "a b", "ä"}) {
    EXPECT_THAT(fault_of_wire_name(wrong), HasSubstr("'" + wrong + "' is no name of a wire")) << wrong;
  }
}

TEST(WireName, OfACableLeavesRoomForTheSuffix) {
  EXPECT_THAT(fault_of_wire_name(std::string(64, 'x')), IsEmpty());
  EXPECT_THAT(fault_of_wire_name(std::string(65, 'x')), HasSubstr("1 to 64"));
  EXPECT_THAT(fault_of_wire_name(std::string(58, 'x'), kMostCableNameBytes), IsEmpty());
  EXPECT_THAT(fault_of_wire_name(std::string(59, 'x'), kMostCableNameBytes), HasSubstr("1 to 58"));
}

}  // namespace
}  // namespace sidelatch::roce
