// Addresses derived from a station's number, and back.
#include "roce/wire/station_addresses.h"

#include <gtest/gtest.h>

namespace sidelatch::roce {
namespace {

TEST(StationAddresses, LeadBackToTheStation) {
  for (std::size_t station = 0; station < kMostStations; ++station) {
    const StationAddresses addresses = addresses_of_station(station);
    EXPECT_EQ(station_of(addresses.mac), station);
    EXPECT_EQ(station_of(addresses.ipv6), station);
    EXPECT_EQ(station_of(gid_of(addresses.ipv4)), station);
    EXPECT_FALSE(is_group(addresses.mac));
    EXPECT_EQ(addresses.mac[0] & 2U, 2U) << "locally administered";
  }
}

TEST(StationAddresses, OthersBelongToNobody) {
  EXPECT_EQ(station_of(kBroadcast), std::nullopt);
  EXPECT_EQ(station_of(MacAddress{0x02, 0x53, 0x4c, 0, 0, 0}), std::nullopt);
  EXPECT_EQ(station_of(MacAddress{0x02, 0x53, 0x4c, 0, 0, 65}), std::nullopt);
  EXPECT_EQ(station_of(MacAddress{0x02, 0x53, 0x4c, 0, 1, 1}), std::nullopt);
  EXPECT_EQ(station_of(gid_of({10, 83, 77, 1})), std::nullopt);
  EXPECT_EQ(station_of(Gid{}), std::nullopt);
}

}  // namespace
}  // namespace sidelatch::roce
