#include "roce/gid.h"

#include <gtest/gtest.h>

namespace sidelatch::roce {
namespace {

TEST(Gid, HoldsAnIpv4Address) {
  const Gid gid = gid_of({192, 0, 2, 7});
  EXPECT_EQ(gid, (Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7}));
  EXPECT_EQ(ipv4_in(gid), (Ipv4Address{192, 0, 2, 7}));
  EXPECT_EQ(ipv4_in(Gid{0xfe, 0x80}), std::nullopt);
}

}  // namespace
}  // namespace sidelatch::roce
